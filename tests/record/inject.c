/* inject.c: a data-parallel step with delays of known length, for tests of record and stalls: each
 * is timed by the program itself, and rank 0 prints means of the steps after the first five.
 *
 *     mpirun -n 2 ./inject KEY=MILLISECONDS...
 *
 *     steps=40       how many (no time)
 *     prep=          the loader's own work after each of its reads of a step, on the processor
 *     load_sleep=    the same, asleep: a loader that waits for another machine
 *     compute=       the model's work, on the processor
 *     compute_sleep= the same, asleep
 *     skew=          more work of the last rank alone; skew_sleep= asleep
 *     write=         KiB written and synchronised a step (no time)
 *     cold=          MiB that a step reads from `data` (no time); mapped=1: through a mapping
 *     message=       KiB that are summed over ranks each step; 64 if not given
 *
 * Work on the processor is counted in its own time (CLOCK_THREAD_CPUTIME_ID), so that it is the
 * same work whoever else runs; what it takes is read from the monotonic clock. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	WARMUP = 5,
	PIECE = 1 << 20,
	SAMPLES = 8, /* of a step: each is read, then decoded */
	LOADER_BYTES = 4096
};
enum {
	PREPARATION,
	FETCH,
	COMPUTE,
	SKEW,
	WRITING,
	COMMUNICATION,
	STEP,
	PARTS
};
static const char *const part_names[PARTS] = {"preparation", "fetch",         "compute", "skew",
                                              "writing",     "communication", "step"};
static double spent[PARTS];

static double seconds_by(clockid_t clock) {
	struct timespec now;
	clock_gettime(clock, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void work(double milliseconds) {
	double until = seconds_by(CLOCK_THREAD_CPUTIME_ID) + 1e-3 * milliseconds;
	while (seconds_by(CLOCK_THREAD_CPUTIME_ID) < until) {
	}
}

static void rest(double milliseconds) {
	long ns = (long)(1e6 * milliseconds);
	if (ns > 0) nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
}

static double setting(int argc, char **argv, const char *key, double otherwise) {
	size_t length = strlen(key);
	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], key, length) == 0 && argv[i][length] == '=')
			return atof(argv[i] + length + 1);
	return otherwise;
}

static double since(double *then, int part, int counts) {
	double now = seconds_by(CLOCK_MONOTONIC), took = now - *then;
	if (counts) spent[part] += took;
	*then = now;
	return took;
}

/* Reads the step's piece of the file; 0 where there is none. */
static long read_piece(int file, char *room, int rank, int step, int mib, int mapped) {
	long sum = 0, at = ((long)rank * 1000 + step) * mib;
	struct stat info;
	if (!mib || fstat(file, &info) != 0 || info.st_size < PIECE) return 0;
	for (int i = 0; i < mib; i++) {
		long place = (at + i) % (info.st_size / PIECE) * PIECE;
		char *view = room;
		if (mapped) view = mmap(NULL, PIECE, PROT_READ, MAP_SHARED, file, place);
		else if (pread(file, room, PIECE, place) != PIECE) break;
		if (view == MAP_FAILED) break;
		for (int k = 0; k < PIECE; k += 4096) sum += view[k];
		if (mapped) munmap(view, PIECE);
	}
	return sum;
}

int main(int argc, char **argv) {
	int rank, ranks;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	int steps = (int)setting(argc, argv, "steps", 40), mib = (int)setting(argc, argv, "cold", 0),
		mapped = setting(argc, argv, "mapped", 0) > 0, last = rank == ranks - 1,
		kib = (int)setting(argc, argv, "write", 0),
		count = (int)setting(argc, argv, "message", 64) * 256;
	double prep = setting(argc, argv, "prep", 0), load_sleep = setting(argc, argv, "load_sleep", 0),
		   compute = setting(argc, argv, "compute", 50), skew = setting(argc, argv, "skew", 0),
		   compute_sleep = setting(argc, argv, "compute_sleep", 0),
		   skew_sleep = setting(argc, argv, "skew_sleep", 0);
	float *sent = calloc((size_t)count + 1, sizeof *sent),
		  *got = calloc((size_t)count + 1, sizeof *got);
	char *room = malloc(PIECE), path[64];
	int loader = open("/proc/self/exe", O_RDONLY), data = open("data", O_RDONLY), out = -1;
	long sum = 0;
	snprintf(path, sizeof path, "written-%d", rank);
	if (kib) out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (!sent || !got || !room || loader < 0) MPI_Abort(MPI_COMM_WORLD, 1);
	for (int step = 0; step < steps + WARMUP; step++) {
		int counts = step >= WARMUP;
		double then = seconds_by(CLOCK_MONOTONIC), begin = then;
		for (int i = 0; i < SAMPLES; i++) {
			sum += pread(loader, room, LOADER_BYTES, (off_t)i * LOADER_BYTES);
			work(prep / SAMPLES), rest(load_sleep / SAMPLES);
		}
		since(&then, PREPARATION, counts);
		sum += read_piece(data, room, rank, step, mib, mapped);
		since(&then, FETCH, counts);
		work(compute), rest(compute_sleep);
		since(&then, COMPUTE, counts);
		if (last) work(skew), rest(skew_sleep);
		since(&then, SKEW, counts && last);
		for (int i = 0; i < kib; i++) sum += write(out, room, 1024);
		if (kib) fdatasync(out);
		since(&then, WRITING, counts);
		MPI_Allreduce(sent, got, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		since(&then, COMMUNICATION, counts);
		since(&begin, STEP, counts);
	}
	double all[PARTS];
	MPI_Reduce(spent, all, PARTS, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		for (int i = 0; i < PARTS; i++)
			printf("%s %.6f\n", part_names[i], all[i] / steps / (i == SKEW ? 1 : ranks));
	if (rank == 0 && sum == 42) printf("\n");
	MPI_Finalize();
	return 0;
}
