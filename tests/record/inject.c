/* inject.c: a data-parallel step with delays of known length, for tests of record and stalls: each
 * is timed by the program itself, and rank 0 prints means of the steps after the first five; of
 * each rank's own time, all but communication and waits for workers, that of the rank which had
 * least (`usual`, as of two ranks), what the longest of each step is above it (`imbalance`), and by
 * how much the waits for workers make the longest longer (`late`).
 *
 *     mpirun -n 2 ./inject KEY=MILLISECONDS...
 *
 *     steps=40       how many count (no time)
 *     prep=          the loader's own work after each of its reads of a step, on the processor
 *     load_sleep=    the same, asleep: a loader that waits for another machine
 *     compute=       the model's work, on the processor
 *     compute_sleep= the same, asleep
 *     skew=          more work of the last rank alone; skew_sleep= asleep
 *     write=         KiB written and synchronised a step (no time)
 *     cold=          MiB that a step reads from `data` (no time); mapped=1: through a mapping
 *     message=       KiB that are summed over ranks each step; 64 if not given
 *     workers=       so many make the batches (reads and preparation) ahead of the step, of which
 *                    `preparation` is then what the step waits for them:
 *     loader=1       processes, which send them over pipes (PyTorch's DataLoader)
 *     loader=2       threads, which hand them over under a lock (tf.data; DALI with mapped=1)
 *     shards=        where samples are, if not in one file (no time):
 *     shards=1       in tar archives that are read from their beginning to their end (WebDataset)
 *     shards=2       in shards with offsets, copied to a folder of the worker when they are first
 *                    needed (MosaicML Streaming)
 *     shard_sleep=   what a new shard takes to come, asleep
 *
 * Work on the processor is counted in its own time (CLOCK_THREAD_CPUTIME_ID), so that it is the
 * same work whoever else runs; what it takes is read from the monotonic clock. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	WARMUP = 5,
	PIECE = 1 << 20,
	SAMPLES = 8, /* of a step: each is read, then decoded */
	LOADER_BYTES = 4096,
	MOST_WORKERS = 16,
	AHEAD = 2 /* batches of a worker that wait for the step */
};
enum { IN_STEP, PROCESSES, THREADS };
enum { PREPARATION, FETCH, COMPUTE, SKEW, WRITING, COMMUNICATION, STEP, PARTS };
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

/* Reads a piece of `mib` MiB of the file, whatever it maps; 0 where there is no file. */
static long read_piece(int file, char *room, long piece, int mib, int mapped) {
	long sum = 0, at = piece * mib;
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

/* ---- shards ---- */

enum {
	ONE_FILE,
	TARS,
	COPIED,
	SHARDS = 16,
	SAMPLE_BYTES = 1 << 16,
	BLOCK = 512 /* of a tar archive */
};
/* A worker's place in its shards: every so many-th is its own. */
struct place {
	int kind, shard, every, file;
	unsigned sample, samples; /* of the shard */
	double sleep;
	const char *folder; /* of copies */
};

static void must(int good) {
	if (!good) exit(1);
}

static int copy_shard(const char *from, const char *to, char *room) {
	int in = open(from, O_RDONLY), out = open(to, O_RDWR | O_CREAT | O_TRUNC, 0600);
	must(in >= 0 && out >= 0);
	for (long got; (got = read(in, room, SAMPLE_BYTES)) > 0;)
		must(write(out, room, (size_t)got) == got);
	close(in);
	return out;
}

static void open_shard(struct place *place, char *room) {
	char path[64], copy[160];
	place->shard = (place->shard + place->every) % SHARDS;
	place->sample = 0;
	rest(place->sleep);
	if (place->kind == TARS) {
		snprintf(path, sizeof path, "shards/%02d.tar", place->shard);
		must((place->file = open(path, O_RDONLY)) >= 0);
		return;
	}
	snprintf(path, sizeof path, "shards/%02d.bin", place->shard);
	snprintf(copy, sizeof copy, "%s/%02d.bin", place->folder, place->shard);
	place->file = copy_shard(path, copy, room);
	must(pread(place->file, &place->samples, sizeof place->samples, 0) == sizeof place->samples);
	unlink(copy);
}

/* A header with the size in octal digits, and the sample in whole blocks; a header without a name
 * ends the archive. */
static long read_from_tar(struct place *place, char *room) {
	if (place->file < 0) open_shard(place, room);
	must(read(place->file, room, BLOCK) == BLOCK);
	if (!room[0]) {
		close(place->file);
		place->file = -1;
		return read_from_tar(place, room);
	}
	long bytes = strtol(room + 124, NULL, 8), whole = (bytes + BLOCK - 1) / BLOCK * BLOCK;
	must(whole <= PIECE && read(place->file, room, (size_t)whole) == whole);
	return room[0];
}

/* A shard begins with the number of samples and where each of them begins, and the last one ends.
 */
static long read_from_copy(struct place *place, char *room) {
	unsigned at[2];
	if (place->file >= 0 && place->sample == place->samples) {
		close(place->file);
		place->file = -1;
	}
	if (place->file < 0) open_shard(place, room);
	must(pread(place->file, at, sizeof at, 4 + 4L * place->sample++) == sizeof at);
	must(at[1] - at[0] <= PIECE && pread(place->file, room, at[1] - at[0], at[0]) == at[1] - at[0]);
	return room[0];
}

/* ---- the loader ---- */

static struct loader {
	int file, data; /* descriptors */
	double prep, sleep, shard_sleep;
	int mib, mapped, rank, ranks, shards;
	int kind, workers;
	int from[MOST_WORKERS]; /* pipes */
	pid_t process[MOST_WORKERS];
	pthread_mutex_t lock;
	pthread_cond_t made, taken;
	long ready[MOST_WORKERS]; /* batches that a thread has made */
	long used[MOST_WORKERS];
} loader = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .made = PTHREAD_COND_INITIALIZER,
            .taken = PTHREAD_COND_INITIALIZER};

static long read_sample(struct place *place, char *room, int i) {
	if (place->kind == TARS) return read_from_tar(place, room);
	if (place->kind == COPIED) return read_from_copy(place, room);
	return pread(loader.file, room, LOADER_BYTES, (off_t)i * LOADER_BYTES);
}

static long prepare(struct place *place, char *room) {
	long sum = 0;
	for (int i = 0; i < SAMPLES; i++) {
		sum += read_sample(place, room, i);
		work(loader.prep / SAMPLES);
		rest(loader.sleep / SAMPLES);
	}
	return sum;
}

/* Each rank has pieces of its own in each step. */
static long fetch(char *room, int step) {
	return read_piece(loader.data, room, (long)step * loader.ranks + loader.rank, loader.mib,
	                  loader.mapped);
}

static long make_batch(struct place *place, char *room, int step) {
	return prepare(place, room) + fetch(room, step);
}

/* Each worker has a folder of its own. */
static struct place place_of_worker(int worker) {
	static char folders[MOST_WORKERS][80];
	int workers = loader.workers ? loader.workers : 1, number = loader.rank * workers + worker;
	snprintf(folders[worker], sizeof folders[worker], "copies-%d", number);
	if (loader.shards == COPIED) mkdir(folders[worker], 0700);
	return (struct place){.kind = loader.shards,
	                      .shard = number - loader.ranks * workers + SHARDS,
	                      .every = loader.ranks * workers,
	                      .file = -1,
	                      .sleep = loader.shard_sleep,
	                      .folder = folders[worker]};
}

static void *run_thread(void *which) {
	int worker = (int)(long)which;
	char *room = malloc(PIECE);
	struct place place = place_of_worker(worker);
	for (int step = worker; room; step += loader.workers) {
		make_batch(&place, room, step);
		pthread_mutex_lock(&loader.lock);
		loader.ready[worker]++;
		pthread_cond_broadcast(&loader.made);
		while (loader.ready[worker] - loader.used[worker] > AHEAD)
			pthread_cond_wait(&loader.taken, &loader.lock);
		pthread_mutex_unlock(&loader.lock);
	}
	return NULL;
}

/* Sending blocks where AHEAD batches wait in the pipe. */
static void run_process(int worker, int to) {
	char *room = malloc(PIECE);
	struct place place = place_of_worker(worker);
	for (int step = worker; room; step += loader.workers) {
		make_batch(&place, room, step);
		if (write(to, room, PIPE_BUF) != PIPE_BUF) break;
	}
	_exit(0);
}

static void start_loader(void) {
	for (int w = 0; w < loader.workers; w++) {
		int ends[2];
		pthread_t thread;
		if (loader.kind == THREADS) {
			pthread_create(&thread, NULL, run_thread, (void *)(long)w);
			continue;
		}
		if (pipe(ends) != 0) exit(1);
		fcntl(ends[1], F_SETPIPE_SZ, AHEAD * PIPE_BUF);
		loader.process[w] = fork();
		if (loader.process[w] == 0) {
			close(ends[0]);
			run_process(w, ends[1]);
		}
		close(ends[1]);
		loader.from[w] = ends[0];
	}
}

static void take_batch(char *room, int step) {
	int w = step % loader.workers;
	if (loader.kind == PROCESSES) {
		if (read(loader.from[w], room, PIPE_BUF) != PIPE_BUF) exit(1);
		return;
	}
	pthread_mutex_lock(&loader.lock);
	while (loader.ready[w] == loader.used[w]) pthread_cond_wait(&loader.made, &loader.lock);
	loader.used[w]++;
	pthread_cond_broadcast(&loader.taken);
	pthread_mutex_unlock(&loader.lock);
}

/* The mean over steps of the longest of all ranks. */
static double mean_of_longest(const double *seconds, int steps) {
	double *longest = calloc((size_t)steps + 1, sizeof *longest), mean = 0;
	if (!longest) MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Reduce(seconds, longest, steps, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	for (int i = 0; i < steps; i++) mean += longest[i] / steps;
	free(longest);
	return mean;
}

/* Of the steps that count: own times, and the same without waits for workers. */
static void print_own_times(const double *own, const double *working, int steps, int rank) {
	double mean = 0, usual = 0, longest = mean_of_longest(own, steps),
		   most = mean_of_longest(working, steps);
	for (int i = 0; i < steps; i++) mean += working[i] / steps;
	MPI_Reduce(&mean, &usual, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("usual %.6f\nimbalance %.6f\nlate %.6f\n", usual, most - usual, longest - most);
}

static void end_loader(void) {
	for (int w = 0; w < loader.workers && loader.kind == PROCESSES; w++) {
		close(loader.from[w]);
		kill(loader.process[w], SIGKILL);
		waitpid(loader.process[w], NULL, 0);
	}
}

int main(int argc, char **argv) {
	int rank, ranks;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	int steps = (int)setting(argc, argv, "steps", 40), last = rank == ranks - 1,
		kib = (int)setting(argc, argv, "write", 0),
		count = (int)setting(argc, argv, "message", 64) * 256;
	double compute = setting(argc, argv, "compute", 50), skew = setting(argc, argv, "skew", 0),
		   compute_sleep = setting(argc, argv, "compute_sleep", 0),
		   skew_sleep = setting(argc, argv, "skew_sleep", 0);
	float *sent = calloc((size_t)count + 1, sizeof *sent),
		  *got = calloc((size_t)count + 1, sizeof *got);
	double *own = calloc((size_t)steps + 1, sizeof *own),
		   *working = calloc((size_t)steps + 1, sizeof *working);
	char *room = malloc(PIECE), path[64];
	int out = -1;
	loader.file = open("/proc/self/exe", O_RDONLY);
	loader.data = open("data", O_RDONLY);
	loader.prep = setting(argc, argv, "prep", 0);
	loader.sleep = setting(argc, argv, "load_sleep", 0);
	loader.mib = (int)setting(argc, argv, "cold", 0);
	loader.mapped = setting(argc, argv, "mapped", 0) > 0;
	loader.shards = (int)setting(argc, argv, "shards", ONE_FILE);
	loader.shard_sleep = setting(argc, argv, "shard_sleep", 0);
	loader.rank = rank;
	loader.ranks = ranks;
	loader.kind = (int)setting(argc, argv, "loader", IN_STEP);
	loader.workers = loader.kind == IN_STEP ? 0 : (int)setting(argc, argv, "workers", 1);
	long sum = 0;
	snprintf(path, sizeof path, "written-%d", rank);
	if (kib) out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (!sent || !got || !room || !own || !working || loader.file < 0 ||
	    loader.workers > MOST_WORKERS)
		MPI_Abort(MPI_COMM_WORLD, 1);
	struct place place = place_of_worker(0);
	start_loader();
	for (int step = 0; step < steps + WARMUP; step++) {
		int counts = step >= WARMUP;
		double then = seconds_by(CLOCK_MONOTONIC), begin = then;
		if (loader.kind != IN_STEP) take_batch(room, step);
		else sum += prepare(&place, room);
		double prepared = since(&then, PREPARATION, counts);
		if (loader.kind == IN_STEP) sum += fetch(room, step);
		since(&then, FETCH, counts);
		work(compute), rest(compute_sleep);
		since(&then, COMPUTE, counts);
		if (last) work(skew), rest(skew_sleep);
		since(&then, SKEW, counts && last);
		for (int i = 0; i < kib; i++) sum += write(out, room, 1024);
		if (kib) fdatasync(out);
		since(&then, WRITING, counts);
		if (counts) own[step - WARMUP] = working[step - WARMUP] = then - begin;
		if (counts && loader.kind != IN_STEP) working[step - WARMUP] -= prepared;
		MPI_Allreduce(sent, got, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		since(&then, COMMUNICATION, counts);
		since(&begin, STEP, counts);
	}
	end_loader();
	double all[PARTS];
	MPI_Reduce(spent, all, PARTS, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		for (int i = 0; i < PARTS; i++)
			printf("%s %.6f\n", part_names[i], all[i] / steps / (i == SKEW ? 1 : ranks));
	print_own_times(own, working, steps, rank);
	if (rank == 0 && sum == 42) printf("\n");
	MPI_Finalize();
	return 0;
}
