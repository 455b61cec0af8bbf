/* meter.h: shared by the files of the room: the clock, repetition, a team of threads, the
 * results. */
#ifndef LK_CALIBRATE_HOST_METER_H
#define LK_CALIBRATE_HOST_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calibrate/host/measure.h"

/* ---- time ---- */

/* Seconds of repeated trials. */
typedef struct lk_sample {
	double median, low, high; /* and 10 %, 90 % quantiles; NAN if nothing was measured */
	int repeats;
} lk_sample;

/* One repetition: its seconds, NAN on failure. */
typedef double lk_trial(void *context);
/* Repeat for about this many seconds, at least `least` times, after one that does not count. Ends
 * at a failure. */
lk_sample lk_repeat(lk_trial *trial, void *context, double seconds, int least);

/* ---- threads ---- */

typedef struct lk_team lk_team;
typedef void lk_team_work(void *context, int thread, int threads);
/* Threads that wait for work; the caller is thread 0. NULL when memory runs out; fewer threads than
 * requested if the system gives no more. */
lk_team *lk_team_new(int threads);
int lk_team_size(const lk_team *team);
/* Run the work on all threads and return when all are done. */
void lk_team_run(lk_team *team, lk_team_work *work, void *context);
void lk_team_free(lk_team *team);

/* ---- results ---- */

typedef struct lk_meter {
	lk_host *host;
	const lk_host_options *options;
	lk_team *team;
	double begun, seconds; /* when it began, and its duration */
	double send_rate; /* between two processes of a node, by the fastest way, bytes/s; 0 unknown */
	double net_rate;  /* between nodes, by MPI; 0 unknown */
	lk_error *err;
} lk_meter;

void lk_meter_say(lk_meter *meter, const char *doing);
/* amount / seconds, in units of `scale`: (bytes, 1e9) is GB/s. Adds nothing if the sample is
 * empty. */
lk_status lk_meter_rate(lk_meter *meter, const char *group, const char *name, const char *unit,
                        double amount, double scale, const lk_sample *sample);
/* seconds / parts, in units of `scale`: (1000, 1e-6) is us of each of a thousand. */
lk_status lk_meter_time(lk_meter *meter, const char *group, const char *name, const char *unit,
                        double parts, double scale, const lk_sample *sample);
/* Add a quantity counted or read from the system. */
lk_status lk_meter_count(lk_meter *meter, const char *group, const char *name, const char *unit,
                         double value);
lk_status lk_meter_note(lk_meter *meter, const char *fmt, ...) LK_PRINTF(2, 3);

/* Memory from the kernel, zeroed and page-aligned, NULL if there is none; release with munmap. */
void *lk_pages(size_t bytes);

/* ---- one file each ---- */

lk_status lk_measure_facts(lk_meter *meter); /* facts.c: processor, caches, memory, NICs */
lk_status lk_measure_gemm(lk_meter *meter, double seconds);
lk_status lk_measure_passes(lk_meter *meter, double seconds);
lk_status lk_measure_memory(lk_meter *meter, double seconds);
lk_status lk_measure_calls(lk_meter *meter, double seconds);
lk_status lk_measure_disk(lk_meter *meter, double seconds);
lk_status lk_measure_pairs(lk_meter *meter, double seconds);
lk_status lk_measure_mpi(lk_meter *meter, double seconds);
lk_status lk_measure_gpus(lk_meter *meter, double seconds);

/* ---- kernels: inner loops written for the widest vectors that the processor has. Private to
 * calibrate/host. */

typedef struct lk_kernels {
	const char *name;  /* "AVX-512" */
	int rows, columns; /* of a tile of a product */
	/* Multiply and add only in registers, `rounds` times; *flops is the number of operations. The
	 * sum prevents optimising it away. */
	float (*multiply_add)(long rounds, double *flops);
	/* c (rows x columns, `stride` apart) = a * b, or that added to c. a and b are packed: k times
	 * `rows` and k times `columns` numbers, zeros beyond the matrices. */
	void (*tile)(long k, const float *a, const float *b, float *c, long stride, bool add);
	/* Read `count` words, a multiple of 64, aligned to 64 bytes. */
	uint64_t (*read)(const uint64_t *words, size_t count);
} lk_kernels;

/* The widest that runs here. */
const lk_kernels *lk_kernels_best(void);
/* All that run here, for tests; NULL past the end. */
const lk_kernels *lk_kernels_at(int index);

/* c = a * b, row by row: m x k times k x n. `room` holds lk_product_room floats, aligned to 64
 * bytes. */
size_t lk_product_room(const lk_kernels *kernels, int threads, long n, long k);
void lk_product(lk_team *team, const lk_kernels *kernels, float *room, long m, long n, long k,
                const float *a, const float *b, float *c);

/* ---- topology: the link matrix of `nvidia-smi topo -m`. */

enum { LK_TOPOLOGY_GPUS = 16 };

typedef struct lk_topology {
	int gpus;
	char link[LK_TOPOLOGY_GPUS][LK_TOPOLOGY_GPUS]
			 [8]; /* "NV18", "PIX", "PHB", "SYS", "X" on the diagonal */
} lk_topology;

/* Read the command's output, with or without colours. False if it holds no such matrix. */
bool lk_topology_read(const char *text, lk_topology *out);
/* Number of pairs (i < j) connected by NVLink; *pairs: all pairs. */
int lk_topology_joined(const lk_topology *topology, int *pairs);

/* ---- cuda: the few functions of NVIDIA's driver that are used, found when the program runs:
 * nothing of CUDA is needed to build lockstep. Names and types are those of the driver API's
 * documentation. */

/* X(member, symbol, arguments): each returns 0 on success. */
#define LK_CUDA_CALLS(X)                                                                         \
	X(init, "cuInit", (unsigned))                                                                \
	X(count, "cuDeviceGetCount", (int *))                                                        \
	X(get, "cuDeviceGet", (int *, int))                                                          \
	X(name, "cuDeviceGetName", (char *, int, int))                                               \
	X(memory, "cuDeviceTotalMem_v2", (size_t *, int))                                            \
	X(can_access, "cuDeviceCanAccessPeer", (int *, int, int))                                    \
	X(retain, "cuDevicePrimaryCtxRetain", (void **, int))                                        \
	X(release, "cuDevicePrimaryCtxRelease_v2", (int))                                            \
	X(use, "cuCtxSetCurrent", (void *))                                                          \
	X(wait, "cuCtxSynchronize", (void))                                                          \
	X(enable_peer, "cuCtxEnablePeerAccess", (void *, unsigned))                                  \
	X(take, "cuMemAlloc_v2", (unsigned long long *, size_t))                                     \
	X(give, "cuMemFree_v2", (unsigned long long))                                                \
	X(take_host, "cuMemAllocHost_v2", (void **, size_t))                                         \
	X(give_host, "cuMemFreeHost", (void *))                                                      \
	X(to_device, "cuMemcpyHtoD_v2", (unsigned long long, const void *, size_t))                  \
	X(to_host, "cuMemcpyDtoH_v2", (void *, unsigned long long, size_t))                          \
	X(on_device, "cuMemcpyDtoD_v2", (unsigned long long, unsigned long long, size_t))            \
	X(to_peer, "cuMemcpyPeer", (unsigned long long, void *, unsigned long long, void *, size_t)) \
	X(load, "cuModuleLoadData", (void **, const void *))                                         \
	X(unload, "cuModuleUnload", (void *))                                                        \
	X(function, "cuModuleGetFunction", (void **, void *, const char *))                          \
	X(launch, "cuLaunchKernel",                                                                  \
	  (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,     \
	   void **, void **))

typedef struct lk_cuda {
#define LK_CUDA_MEMBER(member, symbol, arguments) int(*member) arguments;
	LK_CUDA_CALLS(LK_CUDA_MEMBER)
#undef LK_CUDA_MEMBER
} lk_cuda;

#endif
