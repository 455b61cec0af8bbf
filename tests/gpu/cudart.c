/* cudart.c: a stand-in for libcudart without a GPU: a stream is a thread that does its work in
 * order, an event is a moment of it. Work takes the time that the processor takes for it. Tests
 * only.
 *
 * Weaker than the runtime: one address space, no capture into graphs, the legacy stream waits for
 * no other stream. */
#include <cuda_runtime_api.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ARGUMENTS = 64, DEVICES = 8 };

typedef struct {
	char bytes[ARGUMENTS];
} arguments;

typedef struct work {
	struct work *next;
	enum { KERNEL, COPY, SET, RECORD, WAIT, CALL } kind;
	const void *function;
	arguments given;
	void *to;
	const void *from;
	size_t size;
	int value;
	cudaEvent_t event;
	uint64_t moment; /* of the event */
	cudaHostFn_t call;
	void *data;
	unsigned correlation; /* for the stand-in of CUPTI */
	int direction;
} work;

/* What the stand-in of CUPTI hears: work that is given (it answers a number), and that was done. */
unsigned (*stub_given)(void);
void (*stub_done)(unsigned correlation, int kind, int direction, size_t bytes, uint64_t start,
                  uint64_t end, unsigned stream);

struct CUstream_st {
	pthread_t thread;
	work *first, **last;
	uint64_t given, done; /* pieces of work */
	bool ends;
	unsigned number;
	struct CUstream_st *next;
};

struct CUevent_st {
	bool timed;
	uint64_t asked, done; /* how often it was recorded, and got there */
	double ms;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static cudaStream_t streams, legacy;
static __thread int current_device;

static double now_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* ---- streams ---- */

static void wait_for_event(const work *w) {
	pthread_mutex_lock(&lock);
	while (w->event->done < w->moment) pthread_cond_wait(&change, &lock);
	pthread_mutex_unlock(&lock);
}

static void perform(const work *w) {
	switch (w->kind) {
	case KERNEL: ((void (*)(arguments))(uintptr_t)w->function)(w->given); break;
	case COPY: memcpy(w->to, w->from, w->size); break;
	case SET: memset(w->to, w->value, w->size); break;
	case WAIT: wait_for_event(w); break;
	case CALL: w->call(w->data); break;
	case RECORD: break;
	}
}

static void *run(void *argument) {
	cudaStream_t s = argument;
	pthread_mutex_lock(&lock);
	for (;;) {
		while (!s->first && !s->ends) pthread_cond_wait(&change, &lock);
		work *w = s->first;
		if (!w) break;
		pthread_mutex_unlock(&lock);
		double from = now_ms();
		perform(w);
		if (stub_done && w->correlation)
			stub_done(w->correlation, w->kind, w->direction, w->size, (uint64_t)(1e6 * from),
			          (uint64_t)(1e6 * now_ms()), s->number);
		pthread_mutex_lock(&lock);
		if (w->kind == RECORD) w->event->done = w->moment, w->event->ms = now_ms();
		s->first = w->next;
		if (!s->first) s->last = &s->first;
		s->done++;
		free(w);
		pthread_cond_broadcast(&change);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
	(void)flags;
	cudaStream_t s = calloc(1, sizeof *s);
	if (!s) return cudaErrorMemoryAllocation;
	s->last = &s->first;
	if (pthread_create(&s->thread, NULL, run, s) != 0) return free(s), cudaErrorMemoryAllocation;
	pthread_mutex_lock(&lock);
	static unsigned count;
	s->next = streams, streams = s, s->number = 7 + count++;
	pthread_mutex_unlock(&lock);
	return *out = s, cudaSuccess;
}

static cudaStream_t stream_of(cudaStream_t s) {
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	if (s) return s;
	pthread_mutex_lock(&once);
	if (!legacy) cudaStreamCreateWithFlags(&legacy, 0);
	pthread_mutex_unlock(&once);
	return legacy;
}

cudaError_t cudaStreamDestroy(cudaStream_t s) {
	if (!s) return cudaErrorInvalidResourceHandle;
	pthread_mutex_lock(&lock);
	s->ends = true;
	for (cudaStream_t *at = &streams; *at; at = &(*at)->next)
		if (*at == s) {
			*at = s->next;
			break;
		}
	pthread_cond_broadcast(&change);
	pthread_mutex_unlock(&lock);
	pthread_join(s->thread, NULL);
	free(s);
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s) {
	s = stream_of(s);
	pthread_mutex_lock(&lock);
	for (uint64_t until = s->given; s->done < until;) pthread_cond_wait(&change, &lock);
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) {
	pthread_mutex_lock(&lock);
	for (cudaStream_t s = streams; s; s = s->next)
		while (s->done < s->given) pthread_cond_wait(&change, &lock);
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status) {
	(void)s;
	return *status = cudaStreamCaptureStatusNone, cudaSuccess;
}

static cudaError_t give(cudaStream_t s, const work *what) {
	work *w = malloc(sizeof *w);
	if (!w) return cudaErrorMemoryAllocation;
	s = stream_of(s);
	*w = *what;
	w->next = NULL;
	bool tells = w->kind == KERNEL || w->kind == COPY || w->kind == SET || w->kind == CALL;
	w->correlation = stub_given && tells ? stub_given() : 0;
	pthread_mutex_lock(&lock);
	if (w->kind == RECORD) w->moment = ++w->event->asked;
	if (w->kind == WAIT) w->moment = w->event->asked;
	*s->last = w, s->last = &w->next;
	s->given++;
	pthread_cond_broadcast(&change);
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

/* ---- work ---- */

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **given, size_t shared,
                             cudaStream_t stream) {
	(void)grid, (void)block, (void)shared;
	work w = {.kind = KERNEL, .function = kernel};
	memcpy(&w.given, given[0], sizeof w.given);
	return give(stream, &w);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
	return give(stream, &(work){.kind = CALL, .call = function, .data = data});
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
	return give(
		stream,
		&(work){.kind = COPY, .to = to, .from = from, .size = size, .direction = (int)kind});
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind) {
	cudaError_t error = cudaMemcpyAsync(to, from, size, kind, NULL);
	return error ? error : cudaStreamSynchronize(NULL);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream) {
	return give(stream, &(work){.kind = SET, .to = to, .value = value, .size = size});
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
	*out = calloc(1, sizeof **out);
	if (!*out) return cudaErrorMemoryAllocation;
	(*out)->timed = !(flags & cudaEventDisableTiming);
	return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out) {
	return cudaEventCreateWithFlags(out, 0);
}

/* An event that is still to be reached stays: the runtime too frees it only then. */
cudaError_t cudaEventDestroy(cudaEvent_t event) {
	pthread_mutex_lock(&lock);
	bool over = event->done == event->asked;
	pthread_mutex_unlock(&lock);
	if (over) free(event);
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
	return give(stream, &(work){.kind = RECORD, .event = event});
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
	(void)flags;
	return give(stream, &(work){.kind = WAIT, .event = event});
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
	pthread_mutex_lock(&lock);
	bool over = event->done == event->asked;
	pthread_mutex_unlock(&lock);
	return over ? cudaSuccess : cudaErrorNotReady;
}

/* STUB_LATE_MS: the host is told late, as on a busy machine. */
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
	const char *late = getenv("STUB_LATE_MS");
	pthread_mutex_lock(&lock);
	for (uint64_t until = event->asked; event->done < until;) pthread_cond_wait(&change, &lock);
	pthread_mutex_unlock(&lock);
	if (late) usleep(1000u * (unsigned)atoi(late));
	return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
	pthread_mutex_lock(&lock);
	bool over = from->done == from->asked && to->done == to->asked && from->done && to->done;
	*ms = (float)(to->ms - from->ms);
	pthread_mutex_unlock(&lock);
	if (!from->timed || !to->timed) return cudaErrorInvalidResourceHandle;
	return over ? cudaSuccess : cudaErrorNotReady;
}

/* ---- memory and devices ---- */

cudaError_t cudaMalloc(void **out, size_t size) {
	return (*out = malloc(size ? size : 1)) ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaMallocHost(void **out, size_t size) {
	return cudaMalloc(out, size);
}
cudaError_t cudaFree(void *memory) {
	return free(memory), cudaSuccess;
}
cudaError_t cudaFreeHost(void *memory) {
	return cudaFree(memory);
}
cudaError_t cudaGetDeviceCount(int *count) {
	return *count = DEVICES, cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
	return *device = current_device, cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
	if (device < 0 || device >= DEVICES) return cudaErrorInvalidDevice;
	return current_device = device, cudaSuccess;
}
cudaError_t cudaGetLastError(void) {
	return cudaSuccess;
}
cudaError_t cudaPeekAtLastError(void) {
	return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t error) {
	return error ? "error of the stand-in" : "no error";
}
