/* waits.c: steps in which a thread waits for another one, which does something of known length.
 *
 *     waits PROGRAM STEPS     reads the file "data"
 *
 * Two name parts of their work; nvtx as NVTX does, which lies in programs, but without its
 * headers. With -DWITH_NVTX these are used instead.
 *
 * Work on the processor is counted in its own time, so that it is the same whoever else runs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <dlfcn.h>
#include <lockstep/mark.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif
#ifdef WITH_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

enum { PIECE = 1 << 16, PIECES = 64 };

static void work(double milliseconds) {
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	double until = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec + 1e-3 * milliseconds, at = 0;
	while (at < until) {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
		at = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
	}
}

static void read_piece(int i) {
	static __thread char room[PIECE];
	static __thread int file = -1;
	if (file < 0) file = open("data", O_RDONLY);
	if (pread(file, room, PIECE, (off_t)(i % PIECES) * PIECE) != PIECE) exit(3);
}

/* ---- a queue of numbers ---- */

typedef struct queue {
	pthread_mutex_t lock;
	pthread_cond_t came, went;
	int at[16], head, tail, most;
} queue;
#define QUEUE(most)                                                                               \
	{                                                                                             \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0, 0, \
			most                                                                                  \
	}

static void queue_put(queue *q, int x) {
	pthread_mutex_lock(&q->lock);
	while (q->tail - q->head == q->most) pthread_cond_wait(&q->went, &q->lock);
	q->at[q->tail++ % 16] = x;
	pthread_cond_signal(&q->came);
	pthread_mutex_unlock(&q->lock);
}

static int queue_take(queue *q) {
	pthread_mutex_lock(&q->lock);
	while (q->tail == q->head) pthread_cond_wait(&q->came, &q->lock);
	int x = q->at[q->head++ % 16];
	pthread_cond_signal(&q->went);
	pthread_mutex_unlock(&q->lock);
	return x;
}

static queue jobs = QUEUE(4), results = QUEUE(4), raw = QUEUE(2);
static sem_t asked, answered;
static int event_asked, event_answered, rank;
static double device_ms = 46;

static void start(void *(*run)(void *)) {
	pthread_t thread;
	if (pthread_create(&thread, NULL, run, NULL) != 0) exit(3);
	pthread_detach(thread);
}

/* ---- threads that compute what they are given ---- */

static void *device_by_condition(void *unused) {
	for (;;) {
		int job = queue_take(&jobs);
		work(device_ms);
		queue_put(&results, job);
	}
	return unused;
}
static void *device_by_semaphore(void *unused) {
	for (;;) {
		sem_wait(&asked);
		work(device_ms);
		sem_post(&answered);
	}
	return unused;
}
static void *device_by_event(void *unused) {
	unsigned long long x;
	while (read(event_asked, &x, sizeof x) == sizeof x) {
		work(device_ms);
		if (write(event_answered, &(unsigned long long){1}, sizeof x) != sizeof x) break;
	}
	return unused;
}
/* A condition by futexes alone, as libraries have that do not use libc's. */
static unsigned futex_asked, futex_answered;
static void futex_post(unsigned *word) {
	__atomic_add_fetch(word, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
static void futex_take(unsigned *word) {
	for (unsigned x;;) {
		x = __atomic_load_n(word, __ATOMIC_ACQUIRE);
		if (x == 0) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
		else if (__atomic_compare_exchange_n(word, &x, x - 1, 0, __ATOMIC_ACQ_REL,
		                                     __ATOMIC_RELAXED))
			return;
	}
}
static void *device_by_futex(void *unused) {
	for (;;) {
		futex_take(&futex_asked);
		work(device_ms);
		futex_post(&futex_answered);
	}
	return unused;
}
static void *loader_by_futex(void *unused) {
	for (;; futex_post(&futex_answered)) work(40);
	return unused;
}
static void *one_job(void *unused) {
	close(open("/dev/null", O_RDONLY));
	work(device_ms);
	return unused;
}
static int pipe_asked[2], pipe_answered[2];
static void *device_by_pipe(void *unused) {
	char x;
	while (read(pipe_asked[0], &x, 1) == 1) {
		work(device_ms);
		if (write(pipe_answered[1], &x, 1) != 1) break;
	}
	return unused;
}

/* ---- loaders ---- */

static void *tokenizer(void *unused) { /* works ahead on text in memory */
	for (int i = 0;; i++) {
		work(40);
		queue_put(&results, i);
	}
	return unused;
}
static void *reader(void *unused) { /* its reads are slow */
	for (int i = 0;; i++) {
		read_piece(i);
		work(5);
		queue_put(&results, i);
	}
	return unused;
}
static void *decoder_reads(void *unused) {
	for (int i = 0;; i++) {
		read_piece(i);
		queue_put(&raw, i);
	}
	return unused;
}
static void *decoder(void *unused) { /* of what another thread reads */
	for (;;) {
		int i = queue_take(&raw);
		work(40);
		queue_put(&results, i);
	}
	return unused;
}
static int from_child[2];
static void fork_loader(void) {
	if (pipe(from_child) != 0 || fork() != 0) return;
	close(from_child[0]); /* its writes end with the parent */
	for (int i = 0;; i++) {
		read_piece(i);
		work(40);
		if (write(from_child[1], "x", 1) != 1) _exit(0);
	}
}

/* ---- a client of NVTX ---- */

#ifndef WITH_NVTX
enum { CORE = 1, CORE2 = 5, PLACES = 16 };
typedef void (*function)(void);
static function slots[CORE2 + 1][PLACES], *places[CORE2 + 1][PLACES];

static int functions_of(int module, function ***table, unsigned *count) {
	if (module != CORE && module != CORE2) return 0;
	for (int i = 0; i < PLACES; i++) places[module][i] = &slots[module][i];
	*table = places[module];
	*count = PLACES;
	return 1;
}
static const void *tables(unsigned which) {
	static const struct {
		size_t size;
		int (*functions_of)(int, function ***, unsigned *);
	} callbacks = {sizeof callbacks, functions_of};
	return which == 1 ? &callbacks : NULL;
}

typedef struct {
	unsigned short version, size;
	unsigned category, colour[2], payload_kind, reserved;
	unsigned long long payload;
	int messageType;
	union {
		const char *ascii;
		const void *registered;
	} message;
} nvtxEventAttributes_t;
#define NVTX_VERSION                  3
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE sizeof(nvtxEventAttributes_t)
#define NVTX_MESSAGE_TYPE_REGISTERED  3
typedef const void *nvtxDomainHandle_t, *nvtxStringHandle_t;

static void load_nvtx(void) {
	const char *path = getenv("NVTX_INJECTION64_PATH");
	void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
	void *found = library ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
	int (*begin)(const void *(*)(unsigned));
	memcpy(&begin, &found, sizeof begin);
	if (begin && !begin(tables)) exit(4);
}
#define CALL(result, module, place, ...) ((result(*)(__VA_ARGS__))slots[module][place])
static void nvtxRangePushA(const char *name) {
	if (slots[CORE][9]) CALL(int, CORE, 9, const char *)(name);
}
static void nvtxRangePop(void) {
	if (slots[CORE][11]) CALL(int, CORE, 11, void)();
}
static nvtxDomainHandle_t nvtxDomainCreateA(const char *name) {
	return slots[CORE2][12] ? CALL(const void *, CORE2, 12, const char *)(name) : NULL;
}
static nvtxStringHandle_t nvtxDomainRegisterStringA(nvtxDomainHandle_t domain, const char *text) {
	if (!slots[CORE2][10]) return NULL;
	return CALL(const void *, CORE2, 10, const void *, const char *)(domain, text);
}
static void nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
	if (slots[CORE2][4]) CALL(int, CORE2, 4, const void *, const void *)(domain, event);
}
static void nvtxDomainRangePop(nvtxDomainHandle_t domain) {
	if (slots[CORE2][5]) CALL(int, CORE2, 5, const void *)(domain);
}
#else
static void load_nvtx(void) {
}
#endif

/* ---- programs ---- */

static void no_start(void) {
}
static void start_condition(void) {
	start(device_by_condition);
	if (rank == 0) device_ms += 18;
}
static void step_condition(int i) {
	for (int k = 0; k < 6; k++) read_piece(6 * i + k), work(1);
	queue_put(&jobs, i);
	queue_take(&results);
}
static void start_semaphore(void) {
	sem_init(&asked, 0, 0), sem_init(&answered, 0, 0);
	start(device_by_semaphore);
}
static void step_semaphore(int i) {
	read_piece(i);
	sem_post(&asked), work(3);
	sem_wait(&answered);
}
static void start_event(void) {
	event_asked = eventfd(0, 0), event_answered = eventfd(0, 0);
	start(device_by_event);
}
static void step_event(int i) {
	unsigned long long x = 1;
	read_piece(i);
	if (write(event_asked, &x, sizeof x) != sizeof x || read(event_answered, &x, sizeof x) < 0)
		exit(3);
}
static void step_join(int i) {
	pthread_t thread;
	read_piece(i);
	pthread_create(&thread, NULL, one_job, NULL);
	pthread_join(thread, NULL);
}
static void start_pipe(void) {
	if (pipe(pipe_asked) != 0 || pipe(pipe_answered) != 0) exit(3);
	start(device_by_pipe);
}
static void step_pipe(int i) {
	char x = 0;
	read_piece(i);
	if (write(pipe_asked[1], &x, 1) != 1 || read(pipe_answered[0], &x, 1) != 1) exit(3);
}
static void start_futex(void) {
	start(device_by_futex);
}
static void step_futex(int i) {
	read_piece(i);
	futex_post(&futex_asked), work(3);
	futex_take(&futex_answered);
}
static void start_futex_loader(void) {
	start(loader_by_futex);
}
static void step_futex_loader(int i) {
	read_piece(i);
	futex_take(&futex_answered);
	work(10);
}
static void start_tokenizer(void) {
	start(tokenizer);
}
static void start_reader(void) {
	start(reader);
}
static void start_decoder(void) {
	start(decoder_reads);
	start(decoder);
}
static void step_takes(int i) {
	char mark[64];
	snprintf(mark, sizeof mark, "step-%d", i % 4);
	close(open(mark, O_RDONLY | O_CREAT, 0600));
	queue_take(&results);
	work(10);
}
static void step_child(int i) {
	char x;
	(void)i;
	if (read(from_child[0], &x, 1) != 1) exit(3);
	work(10);
}
static void step_reads(int i) {
	read_piece(i);
	work(10);
}

/* 14 ms of compress besides the 6 of pack; it also waits for a thread that works for it. */
static void step_marks(int i) {
	read_piece(i), work(8);
	lockstep_mark_begin("compress");
	work(10);
	{
		LOCKSTEP_MARK("pack");
		work(6);
	}
	sem_post(&asked), sem_wait(&answered);
	work(4);
	lockstep_mark_end();
}
static void start_marks(void) {
	device_ms = 12;
	start_semaphore();
}
static nvtxDomainHandle_t domain;
static nvtxEventAttributes_t event;
static void start_nvtx(void) {
	load_nvtx();
	domain = nvtxDomainCreateA("training");
	event.version = NVTX_VERSION;
	event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	event.message.registered = nvtxDomainRegisterStringA(domain, "quantise");
}
static void step_nvtx(int i) {
	read_piece(i), work(8);
	nvtxRangePushA("compress");
	work(10);
	nvtxDomainRangePushEx(domain, &event);
	work(6);
	nvtxDomainRangePop(domain);
	work(4);
	nvtxRangePop();
}

static const struct program {
	const char *name;
	void (*start)(void), (*step)(int);
} programs[] = {
	{"device", start_condition, step_condition},
	{"semaphore", start_semaphore, step_semaphore},
	{"event", start_event, step_event},
	{"join", no_start, step_join},
	{"pipe", start_pipe, step_pipe},
	{"futex", start_futex, step_futex},
	{"futex-loader", start_futex_loader, step_futex_loader},
	{"tokenizer", start_tokenizer, step_takes},
	{"reader", start_reader, step_takes},
	{"decoder", start_decoder, step_takes},
	{"child", fork_loader, step_child},
	{"reads", no_start, step_reads},
	{"marks", start_marks, step_marks},
	{"nvtx", start_nvtx, step_nvtx},
};

int main(int argc, char **argv) {
	int steps = argc > 2 ? atoi(argv[2]) : 40;
#ifdef WITH_MPI
	int sum;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#else
	rank = 1;
#endif
	for (size_t p = 0; p < sizeof programs / sizeof *programs; p++) {
		if (argc < 2 || strcmp(argv[1], programs[p].name) != 0) continue;
		programs[p].start();
		for (int i = 0; i < steps; i++) {
			programs[p].step(i);
#ifdef WITH_MPI
			MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
#endif
		}
		puts("done");
	}
#ifdef WITH_MPI
	MPI_Finalize();
#endif
	exit(0);
}
