/* mpi_pairs.c: lockstep-mpi-pairs, run by `lockstep calibrate host --mpi LAUNCHER` under MPI:
 * messages between pairs of processes by MPI_Isend and MPI_Irecv, one way, the other way and both
 * at once; and collectives of all processes. study/calibrate/host/measure_mpi.c says what it prints.
 * Usage: mpirun -n 2 lockstep-mpi-pairs SECONDS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 64, REPEATS = 200, SMALL = 8, LARGE = 4 << 20, TIMES = 4, ONCE_FROM = 512 << 10 };

/* What process `a` found of a pair: median, 10 % and 90 % quantile of the seconds. */
typedef struct finding {
	double seconds[3], repeats;
} finding;

typedef struct way {
	const char *what;
	int a_sends, b_sends; /* bytes; 0: nothing */
	int ping_pong;
	int times; /* in a row; 0: TIMES */
} way;
static const way kinds[] = {
	{"there or back", SMALL, SMALL, 1, 0},
	{"a to b", LARGE, 0, 0, 0},
	{"b to a", 0, LARGE, 0, 0},
	{"both, each", LARGE, LARGE, 0, 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* How long messages take by their size: alone, and both ways at once. Of one pair on a node and one
 * across. */
static const int sizes[] = {8,         1 << 10,   4 << 10, 16 << 10, 64 << 10,
                            128 << 10, 256 << 10, 1 << 20, 4 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void exchange(int other, char *out, int send, char *in, int receive) {
	MPI_Request requests[2];
	int count = 0;
	if (receive) MPI_Irecv(in, receive, MPI_BYTE, other, 1, MPI_COMM_WORLD, &requests[count++]);
	if (send) MPI_Isend(out, send, MPI_BYTE, other, 1, MPI_COMM_WORLD, &requests[count++]);
	MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

/* One repetition; both processes call it. */
static double repetition(const way *kind, int first, int other, char *out, char *in) {
	int send = first ? kind->a_sends : kind->b_sends,
		receive = first ? kind->b_sends : kind->a_sends;
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
static finding measure(const way *kind, int first, int other, double seconds, char *out, char *in) {
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

static void print(int a, int b, int same_node, const way *kind, const finding *f) {
	printf("{\"a\": %d, \"b\": %d, \"same_node\": %s, \"what\": \"%s\", \"bytes\": %d, "
	       "\"seconds\": [%.9g, %.9g, %.9g], \"repeats\": %.0f}\n",
	       a, b, same_node ? "true" : "false", kind->what,
	       kind->a_sends ? kind->a_sends : kind->b_sends, f->seconds[0], f->seconds[1],
	       f->seconds[2], f->repeats);
}

/* Process a's finding goes to process 0, which prints. */
static void do_kind(int me, int a, int b, const int *node, const way *kind, double seconds,
                    char *out, char *in) {
	finding f = {{0}, 0};
	if (me == a || me == b) f = measure(kind, me == a, me == a ? b : a, seconds, out, in);
	if (me == a && a != 0) MPI_Send(&f, sizeof f, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
	if (me == 0 && a != 0)
		MPI_Recv(&f, sizeof f, MPI_BYTE, a, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
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
		do_kind(me, a, b, node, &(way){"message", bytes, bytes, 1, times}, seconds / SIZES / 2, out,
		        in);
		do_kind(me, a, b, node, &(way){"exchange", bytes, bytes, 0, times}, seconds / SIZES / 2,
		        out, in);
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- collectives ---- */

/* Of all processes, as the library does them: one behind a pause as long as some work, then some
 * more behind it without one. Processes come out of a collective at unlike times, and where both
 * directions were used at once before, one follows the other then: over TCP the second takes up to
 * twice as long as the first. Means, for steps have many of them. */
enum { ROW = 4, ROWS = 100, COLLECTIVE_SIZES = 8, LEAST_ROWS = 4 };
static const double PAUSE = 5e-3;
static const int collective_sizes[COLLECTIVE_SIZES] = {8,         4 << 10, 32 << 10, 128 << 10,
                                                       256 << 10, 1 << 20, 2 << 20,  4 << 20};

/* In place, as gradients are reduced. `bytes` as nccl-tests count them: what a rank gives to an
 * all-reduce, or has of a gather when it is done. */
static void all_reduce(char *out, char *in, int bytes, int ranks) {
	(void)out, (void)ranks;
	MPI_Allreduce(MPI_IN_PLACE, in, bytes / (int)sizeof(float), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* These two with counts, as programs of lockstep compile call them: libraries may run others for
 * equal blocks. */
static int *counts, *begins; /* [ranks] */

static void count_evenly(int ranks, int each) {
	for (int r = 0; r < ranks; r++) counts[r] = each, begins[r] = r * each;
}

static void all_gather(char *out, char *in, int bytes, int ranks) {
	count_evenly(ranks, bytes / ranks);
	MPI_Allgatherv(out, counts[0], MPI_BYTE, in, counts, begins, MPI_BYTE, MPI_COMM_WORLD);
}

static void reduce_scatter(char *out, char *in, int bytes, int ranks) {
	count_evenly(ranks, bytes / ranks / (int)sizeof(float));
	MPI_Reduce_scatter(out, in, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void all_to_all(char *out, char *in, int bytes, int ranks) {
	MPI_Alltoall(out, bytes / ranks, MPI_BYTE, in, bytes / ranks, MPI_BYTE, MPI_COMM_WORLD);
}

static void broadcast(char *out, char *in, int bytes, int ranks) {
	(void)in, (void)ranks;
	MPI_Bcast(out, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

typedef struct collective {
	const char *what;
	void (*call)(char *out, char *in, int bytes, int ranks);
	double share; /* of the time for collectives: of all-reduces training has most */
} collective;
static const collective collectives[] = {
	{"all_reduce", all_reduce, 0.5},
	{"all_gather", all_gather, 0.15},
	{"reduce_scatter", reduce_scatter, 0.15},
	{"all_to_all", all_to_all, 0.1},
	{"broadcast", broadcast, 0.1},
};

/* Mean without the least and the largest tenth. */
static double middle_mean(double *seconds, int count) {
	int cut = count / 10;
	double sum = 0;
	qsort(seconds, (size_t)count, sizeof *seconds, ascending);
	for (int i = cut; i < count - cut; i++) sum += seconds[i];
	return sum / (count - 2 * cut);
}

static void work(double seconds) {
	for (double start = MPI_Wtime(); MPI_Wtime() - start < seconds;) {
	}
}

static void do_collective(int me, int ranks, int nodes, const collective *c, int bytes,
                          double seconds, char *out, char *in) {
	double first[ROWS], more[ROWS], end = MPI_Wtime() + seconds;
	int count = 0, go_on = 1;
	for (int i = -1; go_on; i++) { /* the first row warms up */
		work(PAUSE);
		MPI_Barrier(MPI_COMM_WORLD);
		double start = MPI_Wtime();
		c->call(out, in, bytes, ranks);
		double once = MPI_Wtime();
		for (int k = 0; k < ROW; k++) c->call(out, in, bytes, ranks);
		if (i >= 0) first[i] = once - start, more[i] = (MPI_Wtime() - once) / ROW, count = i + 1;
		go_on = count < ROWS && (count < LEAST_ROWS || MPI_Wtime() < end);
		MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	if (me) return;
	double alone = middle_mean(first, count), behind = middle_mean(more, count);
	printf("{\"collective\": \"%s\", \"ranks\": %d, \"nodes\": %d, \"bytes\": %d, \"alone\": %.9g, "
	       "\"behind\": %.9g, "
	       "\"repeats\": %d}\n",
	       c->what, ranks, nodes, bytes, alone, behind, count);
}

static void do_collectives(int me, int ranks, int nodes, double seconds, char *out, char *in) {
	counts = calloc((size_t)ranks, sizeof *counts);
	begins = calloc((size_t)ranks, sizeof *begins);
	if (!counts || !begins) MPI_Abort(MPI_COMM_WORLD, 1);
	for (size_t k = 0; k < sizeof collectives / sizeof *collectives; k++)
		for (int i = 0; i < COLLECTIVE_SIZES; i++) {
			int grain = ranks * (int)sizeof(float),
				bytes = (collective_sizes[i] + grain - 1) / grain * grain;
			if (bytes <= LARGE)
				do_collective(me, ranks, nodes, &collectives[k], bytes,
				              seconds * collectives[k].share / COLLECTIVE_SIZES, out, in);
		}
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
	do_collectives(me, ranks, nodes, 0.4 * seconds, out, in);
	seconds *= 0.6;
	double each = 0.5 * seconds / KINDS / (pairs < PAIRS ? pairs ? pairs : 1 : PAIRS);
	int done = 0, far = 1;
	while (far < ranks && node[far] == node[0]) far++;
	int inside = ranks > 1 && node[1] == node[0], across = far < ranks;
	if (inside) do_sizes(me, 0, 1, node, 0.5 * seconds / (1 + across), out, in);
	if (across) do_sizes(me, 0, far, node, 0.5 * seconds / (1 + inside), out, in);
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
	memset(in, 0, LARGE);
	do_all(me, ranks < 1024 ? ranks : 1024, seconds > 0 ? seconds : 2, node, out, in);
	free(out);
	free(in);
	free(node);
	fflush(stdout);
	MPI_Finalize();
	return 0;
}
