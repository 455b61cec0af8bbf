/* mpi_pairs.c: lockstep-mpi-pairs, run by `lockstep calibrate host --mpi LAUNCHER` under MPI: messages between pairs of
 * processes by MPI_Isend and MPI_Irecv, one way, the other way and both at once. src/measure/measure_mpi.c says what it
 * prints. Usage: mpirun -n 2 lockstep-mpi-pairs SECONDS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 64, REPEATS = 200, SMALL = 8, LARGE = 4 << 20, TIMES = 4, ONCE_FROM = 512 << 10 };

/* What process `a` found of a pair: median, 10 % and 90 % quantile of the seconds. */
typedef struct finding {
	double seconds[3], repeats;
} finding;

typedef struct kind {
	const char *what;
	int a_sends, b_sends;   /* bytes; 0: nothing */
	int ping_pong;
	int times;              /* in a row; 0: TIMES */
} kind;
static const kind kinds[] = {
	{"there or back", SMALL, SMALL, 1},
	{"a to b", LARGE, 0, 0},
	{"b to a", 0, LARGE, 0},
	{"both, each", LARGE, LARGE, 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* How long messages take by their size: alone, and both ways at once. Of one pair on a node and one across. */
static const int sizes[] = {8, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void exchange(int other, char *out, int send, char *in, int receive) {
	MPI_Request requests[2];
	int count = 0;
	if (receive) MPI_Irecv(in, receive, MPI_BYTE, other, 1, MPI_COMM_WORLD, &requests[count++]);
	if (send) MPI_Isend(out, send, MPI_BYTE, other, 1, MPI_COMM_WORLD, &requests[count++]);
	MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

/* One repetition; both processes call it. */
static double repetition(const kind *kind, int first, int other, char *out, char *in) {
	int send = first ? kind->a_sends : kind->b_sends, receive = first ? kind->b_sends : kind->a_sends;
	int times = kind->times ? kind->times : TIMES;
	exchange(other, out, 1, in, 1); /* both begin together */
	double start = MPI_Wtime();
	for (int i = 0; i < times; i++) {
		if (!kind->ping_pong) exchange(other, out, send, in, receive);
		else if (first) exchange(other, out, send, NULL, 0), exchange(other, NULL, 0, in, receive);
		else exchange(other, NULL, 0, in, receive), exchange(other, out, send, NULL, 0);
	}
	/* A send may end before it has arrived: the receiver of a message one way says when it has. */
	if (!kind->ping_pong && !receive) exchange(other, NULL, 0, in, 1);
	else if (!kind->ping_pong && !send) exchange(other, out, 1, NULL, 0);
	return (MPI_Wtime() - start) / (times * (kind->ping_pong ? 2 : 1));
}

static int ascending(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The first process decides when the time is over. */
static finding measure(const kind *kind, int first, int other, double seconds, char *out, char *in) {
	double taken[REPEATS], end = MPI_Wtime() + seconds;
	int count = 0, more = 1;
	repetition(kind, first, other, out, in);
	while (more) {
		taken[count++] = repetition(kind, first, other, out, in);
		more = count < REPEATS && (count < 3 || MPI_Wtime() < end);
		if (first) MPI_Send(&more, 1, MPI_INT, other, 2, MPI_COMM_WORLD);
		else MPI_Recv(&more, 1, MPI_INT, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	qsort(taken, (size_t)count, sizeof *taken, ascending);
	return (finding){{taken[count / 2], taken[count / 10], taken[count * 9 / 10]}, count};
}

static void print(int a, int b, int same_node, const kind *kind, const finding *f) {
	printf("{\"a\": %d, \"b\": %d, \"same_node\": %s, \"what\": \"%s\", \"bytes\": %d, "
	       "\"seconds\": [%.9g, %.9g, %.9g], \"repeats\": %.0f}\n",
	       a, b, same_node ? "true" : "false", kind->what, kind->a_sends ? kind->a_sends : kind->b_sends, f->seconds[0],
	       f->seconds[1], f->seconds[2], f->repeats);
}

/* Process a's finding goes to process 0, which prints. */
static void do_kind(int me, int a, int b, const int *node, const kind *kind, double seconds, char *out, char *in) {
	finding f = {{0}, 0};
	if (me == a || me == b) f = measure(kind, me == a, me == a ? b : a, seconds, out, in);
	if (me == a && a != 0) MPI_Send(&f, sizeof f, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
	if (me == 0 && a != 0) MPI_Recv(&f, sizeof f, MPI_BYTE, a, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (me == 0) print(a, b, node[a] == node[b], kind, &f);
}

/* One pair; the others wait at the barrier. */
static void do_pair(int me, int a, int b, const int *node, double seconds, char *out, char *in) {
	for (int k = 0; k < KINDS; k++) do_kind(me, a, b, node, &kinds[k], seconds, out, in);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void do_sizes(int me, int a, int b, const int *node, double seconds, char *out, char *in) {
	for (int i = 0; i < SIZES; i++) {
		int bytes = sizes[i], times = bytes >= ONCE_FROM ? 1 : TIMES;
		do_kind(me, a, b, node, &(kind){"message", bytes, bytes, 1, times}, seconds / SIZES / 2, out, in);
		do_kind(me, a, b, node, &(kind){"exchange", bytes, bytes, 0, times}, seconds / SIZES / 2, out, in);
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

/* node[rank]: the lowest rank on the same node. Returns the number of nodes. */
static int find_nodes(int me, int ranks, int *node) {
	MPI_Comm mates;
	int lowest = me, nodes = 0;
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, me, MPI_INFO_NULL, &mates);
	MPI_Bcast(&lowest, 1, MPI_INT, 0, mates);
	MPI_Comm_free(&mates);
	MPI_Allgather(&lowest, 1, MPI_INT, node, 1, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++) nodes += node[i] == i;
	return nodes;
}

static void do_all(int me, int ranks, double seconds, int *node, char *out, char *in) {
	int nodes = find_nodes(me, ranks, node), pairs = ranks * (ranks - 1) / 2;
	if (me == 0) printf("{\"ranks\": %d, \"nodes\": %d}\n", ranks, nodes);
	double each = 0.5 * seconds / KINDS / (pairs < PAIRS ? pairs ? pairs : 1 : PAIRS);
	int done = 0, far = 1;
	while (far < ranks && node[far] == node[0]) far++;
	if (ranks > 1 && node[1] == node[0]) do_sizes(me, 0, 1, node, 0.25 * seconds, out, in);
	if (far < ranks) do_sizes(me, 0, far, node, 0.25 * seconds, out, in);
	for (int distance = 1; distance < ranks; distance++)
		for (int a = 0; a + distance < ranks && done < PAIRS; a++, done++)
			do_pair(me, a, a + distance, node, each, out, in);
}

int main(int argc, char **argv) {
	int me, ranks;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	double seconds = argc > 1 ? atof(argv[1]) : 2;
	char *out = malloc(LARGE), *in = malloc(LARGE);
	int *node = malloc((size_t)ranks * sizeof *node);
	if (!out || !in || !node) MPI_Abort(MPI_COMM_WORLD, 1);
	memset(out, 1, LARGE);
	memset(in, 1, LARGE);
	do_all(me, ranks < 1024 ? ranks : 1024, seconds > 0 ? seconds : 2, node, out, in);
	free(out);
	free(in);
	free(node);
	fflush(stdout);
	MPI_Finalize();
	return 0;
}
