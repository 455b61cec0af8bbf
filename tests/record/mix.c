#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* Every way to communicate and to wait, in an order that `seed` says; results are checked unless
 * they cannot be right. */
enum { N = 3000, SMALL = 8 };
static int rank, size, null_mode, bad;
static float a[4 * N], b[4 * N];
static void expect(int good, const char *what) {
	if (!good) {
		bad++;
		printf("rank %d: %s\n", rank, what);
	}
}
static void finish(int how, int n, MPI_Request *q) {
	int flag = 0, which, count, list[8], left = n;
	MPI_Status s[8];
	if (how == 0) MPI_Waitall(n, q, s);
	if (how == 1)
		while (!flag) MPI_Testall(n, q, &flag, MPI_STATUSES_IGNORE);
	if (how == 2)
		while (left--) MPI_Waitany(n, q, &which, s), expect(which >= 0 && which < n, "waitany");
	if (how == 3)
		while (left > 0) {
			MPI_Waitsome(n, q, &count, list, s);
			expect(count > 0 && count <= left, "waitsome");
			left -= count;
		}
	if (how == 4)
		while (left > 0) {
			MPI_Testsome(n, q, &count, list, MPI_STATUSES_IGNORE);
			expect(count >= 0 && count <= left, "testsome");
			left -= count;
		}
	if (how == 5)
		while (left > 0) {
			MPI_Testany(n, q, &which, &flag, s);
			if (flag) expect(which >= 0, "testany"), left--;
		}
	if (how == 6)
		for (int i = 0; i < n; i++) MPI_Wait(&q[i], s);
	if (how == 7)
		for (int i = 0; i < n; i++)
			for (flag = 0; !flag;) MPI_Test(&q[i], &flag, s);
}
int main(int argc, char **argv) {
	srand(atoi(argv[1]));
	null_mode = argc > 2 && !strcmp(argv[2], "null");
	MPI_Init(0, 0);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm half, copy;
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
	MPI_Request again[2];
	int next = (rank + 1) % size, before = (rank + size - 1) % size;
	float in[SMALL], out[SMALL];
	MPI_Send_init(out, SMALL, MPI_FLOAT, next, 3, MPI_COMM_WORLD, &again[0]);
	MPI_Recv_init(in, SMALL, MPI_FLOAT, before, 3, MPI_COMM_WORLD, &again[1]);
	for (int i = 0; i < 60; i++) {
		int op = rand() % 11, how = rand() % 8, big = rand() % 2, n = big ? N : SMALL;
		MPI_Comm comm = rand() % 3 ? MPI_COMM_WORLD : half;
		int r, k;
		MPI_Comm_rank(comm, &r), MPI_Comm_size(comm, &k);
		for (int j = 0; j < 4 * n; j++) a[j] = r + 1, b[j] = -1;
		float total = k * (k + 1) / 2.0f;
		MPI_Request q[8];
		if (op == 0) {
			MPI_Allreduce(a, b, n, MPI_FLOAT, MPI_SUM, comm);
			expect(b[0] == total || (null_mode && b[n - 1] == r + 1), "allreduce");
		}
		if (op == 1) {
			MPI_Iallreduce(MPI_IN_PLACE, a, n, MPI_FLOAT, MPI_SUM, comm, q);
			MPI_Iallreduce(a + 2 * n, b, n, MPI_FLOAT, MPI_SUM, comm, q + 1);
			finish(how, 2, q);
			expect(a[0] == total || (null_mode && a[0] == r + 1), "iallreduce in place");
			expect(b[0] == total || (null_mode && b[0] == r + 1), "iallreduce");
		}
		if (op == 2) {
			float *w = malloc(sizeof(float) * k * n);
			memset(w, 0, sizeof(float) * k * n);
			MPI_Allgather(a, n, MPI_FLOAT, w, n, MPI_FLOAT, comm);
			expect(w[r * n] == r + 1 && (null_mode || w[(k - 1) * n] == k), "allgather");
			free(w);
		}
		if (op == 3) {
			float *w = malloc(sizeof(float) * k * n), *o = malloc(sizeof(float) * n);
			for (int j = 0; j < k * n; j++) w[j] = j / n;
			MPI_Reduce_scatter_block(w, o, n, MPI_FLOAT, MPI_SUM, comm);
			expect(o[0] == k * r || (null_mode && o[0] == r), "reduce_scatter_block");
			free(w), free(o);
		}
		if (op == 4) {
			float *w = malloc(sizeof(float) * k * n), *o = malloc(sizeof(float) * k * n);
			for (int j = 0; j < k * n; j++) w[j] = 100 * r + j / n;
			MPI_Ialltoall(w, n, MPI_FLOAT, o, n, MPI_FLOAT, comm, q);
			finish(how, 1, q);
			expect(o[r * n] == 101 * r && (null_mode || o[0] == r), "alltoall");
			free(w), free(o);
		}
		if (op == 5) {
			MPI_Barrier(comm);
			MPI_Bcast(a, n, MPI_FLOAT, k - 1, comm);
			expect(a[0] == k, "bcast");
		}
		if (op == 6) {
			out[0] = i * size + rank;
			MPI_Startall(2, again);
			finish(how, 2, again);
			expect(in[0] == i * size + before, "persistent");
		}
		if (op == 7) {
			MPI_Irecv(b, n, MPI_FLOAT, before, 7, MPI_COMM_WORLD, q);
			a[0] = rank;
			MPI_Isend(a, n, MPI_FLOAT, next, 7, MPI_COMM_WORLD, q + 1);
			finish(how, 2, q);
			expect(b[0] == before, "isend");
		}
		if (op == 8) {
			int c[64], d[64];
			for (int j = 0; j < k; j++) c[j] = n / 2, d[j] = (k - 1 - j) * (n / 2);
			float *w = malloc(sizeof(float) * k * n);
			MPI_Iallgatherv(a, n / 2, MPI_FLOAT, w, c, d, MPI_FLOAT, comm, q);
			finish(how, 1, q);
			expect(w[d[r]] == r + 1, "allgatherv");
			free(w);
		}
		if (op == 9) {
			MPI_Comm_dup(comm, &copy);
			for (int j = 0; j < 4; j++) MPI_Reduce(a, b, n, MPI_FLOAT, MPI_SUM, 0, copy);
			expect(r || b[0] == total || (null_mode && b[0] == 1), "reduce");
			MPI_Comm_free(&copy);
		}
		if (op == 10) {
			float *w = malloc(sizeof(float) * k * n);
			MPI_Gather(a, n, MPI_FLOAT, w, n, MPI_FLOAT, k - 1, comm);
			expect(r != k - 1 || (w[r * n] == r + 1 && (null_mode || w[0] == 1)), "gather");
			free(w);
		}
	}
	MPI_Request_free(&again[0]), MPI_Request_free(&again[1]);
	MPI_Finalize();
	if (rank == 0 && !bad) printf("good\n");
	return bad != 0;
}
