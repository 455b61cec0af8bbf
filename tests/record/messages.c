/* messages.c: messages that only tags, statuses and order tell apart: received in another order
 * than they were sent, from anybody, of any tag, into more room than they need. */
#include <mpi.h>

enum { STEPS = 40, ROOM = 8192 };

int main(int count, char **words) {
	static char out[3][ROOM], in[3][ROOM];
	static const int sizes[] = {4, 48, 4096}, tags[] = {3, 7, 7};
	float sum = 0, all;
	int rank;
	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int step = 0; step < STEPS; step++) {
		MPI_Request request[6];
		MPI_Irecv(in[0], ROOM, MPI_CHAR, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &request[0]);
		MPI_Irecv(in[1], ROOM, MPI_CHAR, 1 - rank, 3, MPI_COMM_WORLD, &request[1]);
		MPI_Irecv(in[2], ROOM, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request[2]);
		for (int i = 0; i < 3; i++)
			MPI_Isend(out[i], sizes[i], MPI_CHAR, 1 - rank, tags[i], MPI_COMM_WORLD,
			          &request[3 + i]);
		if (step % 2) MPI_Waitall(6, request, MPI_STATUSES_IGNORE);
		for (int i = 5; i >= 0; i--) MPI_Wait(&request[i], MPI_STATUS_IGNORE);
		MPI_Allreduce(&sum, &all, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		if (rank) MPI_Send(out, sizes[step % 3], MPI_CHAR, 0, tags[step % 3], MPI_COMM_WORLD);
		else
			MPI_Recv(in, ROOM, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
			         MPI_STATUS_IGNORE);
	}
	MPI_Finalize();
	return 0;
}
