/* gpu.h: the device of a program: what its runtime (CUDA) is asked for, on which streams, and how
 * long that took.
 *
 * The calls of a runtime that is linked dynamically are wrapped (cuda_calls.txt); no header of CUDA
 * is needed, and nothing is looked for before the program calls it. Times on the device come from
 * events that the probe records itself around pieces of work (marks.c), or from CUPTI where that is
 * asked for and free (cupti.c).
 *
 * Environment: LOCKSTEP_RECORD_CUDA=calls|events|cupti; events if not said.
 */
#ifndef LK_RECORDER_GPU_GPU_H
#define LK_RECORDER_GPU_GPU_H

#include "recorder/mode.h"
#include "recorder/recorder.h"

/* Names and groups of MPI are numbered from 1; those of devices and NCCL from here. */
enum {
	LP_FIRST_NAME = 1 << 20,
	LP_FIRST_GROUP = 1 << 20
};

typedef struct lp_dim3 {
	unsigned x, y, z;
} lp_dim3;

/* cudaLaunchConfig_t as far as it matters. */
typedef struct lp_launch_config {
	lp_dim3 grid, block;
	size_t shared;
	void *stream;
} lp_launch_config;

/* A stream by its handle, first come first served. */
typedef struct lp_stream {
	uint64_t key;
	uint32_t taken, number;
	/* the batch of kernels that is open, with marks.c's lock */
	void *begin; /* the event before it */
	uint64_t serial;
	uint32_t count;
	bool open;
} lp_stream;
lp_stream *lp_gpu_stream(void *handle); /* NULL: the table is full */

/* What a wrapper knows of its call. */
typedef struct lp_gpu_call {
	const char *name;
	uint32_t *number, *epoch;
	uint8_t what, direction; /* lk_device_what */
	void *stream, *event;
	size_t bytes;
	/* made by lp_gpu_begin */
	lp_stream *on_stream;
	void *begin;
	uint64_t serial;
	int64_t start;
	bool on;
} lp_gpu_call;
void lp_gpu_begin(lp_gpu_call *call);
void lp_gpu_end(lp_gpu_call *call, int result);

uint64_t lp_gpu_serial(void);
/* The number of a name, which is told at its first use in a recording. */
uint32_t lp_name(uint32_t *number, uint32_t *epoch, const char *name);

/* A function of the runtime, whether or not its library is where the next symbol is looked for;
 * NULL: there is none. */
void *lp_gpu_symbol(const char *name);
/* What a runtime without a driver answers, and NCCL to a call that it does not have. */
enum {
	LP_GPU_ABSENT = 35,
	LP_NCCL_ABSENT = 5
};
#define LP_FOUND_BY(find, name)                                         \
	static __typeof__(&name) real_;                                     \
	__typeof__(&name) real = __atomic_load_n(&real_, __ATOMIC_RELAXED); \
	if (!LP_HOT(real != NULL)) {                                        \
		real = (__typeof__(&name))(uintptr_t)find(#name);               \
		__atomic_store_n(&real_, real, __ATOMIC_RELAXED);               \
	}
#define LP_GPU_REAL(name) LP_FOUND_BY(lp_gpu_symbol, name)

/* ---- cupti.c ---- */

/* Whether CUPTI tells of work; asked for the first time, it is begun if that is wanted. */
bool lp_cupti_on(void);
/* Around a call of the program, which has this serial; nothing where CUPTI is not on. */
void lp_cupti_push(uint64_t serial);
void lp_cupti_pop(void);
/* Now and then; at the end of the program's work with the device. */
void lp_cupti_flush(void);
void lp_cupti_end(void);
void lp_cupti_reset(void);

/* ---- marks.c ---- */

/* Whether times of devices are to be known at all, by events. */
bool lp_marks_wanted(void);
/* Work will be put on a stream: opens a batch unless one is open. Its serial; 0 where there will be
 * no times. */
uint64_t lp_marks_open(lp_stream *stream, void *handle);
/* Ends the batch of a stream, or of all. */
void lp_marks_cut(lp_stream *stream, void *handle);
void lp_marks_cut_all(void);
/* Work of its own: between the two, on the stream. */
void *lp_marks_begin(lp_stream *stream, void *handle);
void lp_marks_end(lp_stream *stream, void *handle, void *begin, lk_device_what what,
                  uint64_t serial, int64_t bytes);
/* Writes the records of work that is done. */
void lp_marks_harvest(void);
void lp_marks_reset(void);

/* ---- nccl: what the generated wrappers of NCCL ask of nccl.c. No header of NCCL is needed: its
 * binary interface is pointers, numbers and an identifier of 128 bytes. */

typedef struct lp_nccl_id {
	unsigned char bytes[128];
} lp_nccl_id;

/* A communicator by its handle. */
typedef struct lp_nccl_group {
	uint64_t key;
	uint32_t state, number;
	int32_t ranks, rank; /* -1: to be asked */
	uint64_t hash;       /* the same on all members, another for each communicator */
	uint32_t children;   /* splits and shrinks so far */
	struct {
		uint64_t key, count; /* what and bytes; calls so far */
	} calls[64];
	bool told;
} lp_nccl_group;

/* What a wrapper knows of its call. */
typedef struct lp_nccl_call {
	const char *name;
	uint32_t *number, *epoch;
	uint8_t what;
	const void *from;
	void *to, *comm, *stream;
	size_t count;
	int type, peer, result;
	bool all; /* bytes: times the ranks */
	/* made by lp_nccl_begin */
	lp_nccl_group *group;
	lp_stream *on_stream;
	int64_t bytes, start;
	void *begin; /* the event before it */
	uint64_t serial;
	int element;
	bool on;
} lp_nccl_call;

/* True: the mode has done it, `result` is what the program gets. */
bool lp_nccl_begin(lp_nccl_call *call);
void lp_nccl_end(lp_nccl_call *call);

void *lp_nccl_symbol(const char *name);
#define LP_NCCL_REAL(name) LP_FOUND_BY(lp_nccl_symbol, name)

/* Tells of a communicator: its number in the recording, the name that its members agree on, ranks
 * and own rank. */
void lp_nccl_tell_group(uint32_t number, uint64_t hash, int ranks, int rank);

/* ---- nccl_mode.c ---- */

/* A collective or message before the library gets it; true: done instead, call->result is set. */
bool lp_nccl_stands_in(lp_nccl_call *call);
/* Holds the stream, for the mode that delays. */
void lp_nccl_hold(void *stream);

/* ---- nccl_posed.c: as-rank: communicators that are none of the library's ---- */

/* A part of the pretended world: first, first + stride, ...; stride 0: which ranks is not known. */
typedef struct lp_nccl_posed {
	int ranks, rank, first, stride;
	int product; /* of the sizes of the parts that were made of it */
} lp_nccl_posed;

static inline bool lp_nccl_poses(void) {
	return !LP_HOT(lp_mode.kind != LP_MODE_AS_RANK);
}
lp_nccl_posed *lp_nccl_posed_find(const void *comm); /* NULL: the library's */
/* A communicator by its size and own rank; by the colour of a split; without some ranks. NULL:
 * there is no room. */
void *lp_nccl_pose(int ranks, int rank);
void *lp_nccl_pose_part(lp_nccl_posed *parent, int color, int key);
void *lp_nccl_pose_rest(const lp_nccl_posed *parent, const int *without, int count);
/* Its ranks as a text. */
void lp_nccl_posed_list(const lp_nccl_posed *posed, char *out, size_t room);

#endif
