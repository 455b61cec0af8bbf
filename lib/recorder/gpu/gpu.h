/* gpu.h: the device of a program: calls of its runtime (CUDA), on which streams, and how long their
 * work took.
 *
 * The calls of a runtime that is linked dynamically are wrapped (cuda_calls.txt); no header of CUDA
 * is needed, and nothing is looked for before the program calls it. Times on the device come from
 * events that the recorder puts around pieces of work (marks.c), or from CUPTI where that is
 * requested and not used by another (cupti.c).
 *
 * Environment: LOCKSTEP_RECORD_CUDA=calls|events|cupti; events if not given.
 */
#ifndef LK_RECORDER_GPU_GPU_H
#define LK_RECORDER_GPU_GPU_H

#include "recorder/recorder.h"

/* Names and groups of MPI are numbered from 1; those of devices and NCCL from here. */
enum { LP_FIRST_NAME = 1 << 20, LP_FIRST_GROUP = 1 << 20 };

/* ---- libraries (libraries.c) ---- */

/* Functions of CUDA's runtime and of NCCL, whether or not their library is where the next symbol is
 * looked for; NULL: there is none. */
void *lp_gpu_symbol(const char *name);
void *lp_nccl_symbol(const char *name);
/* What a runtime without a driver answers, and NCCL to a call that it does not have. */
enum { LP_GPU_ABSENT = 35, LP_NCCL_ABSENT = 5 };
#define LP_GPU_REAL(name)  LP_REAL_BY(lp_gpu_symbol, name)
#define LP_NCCL_REAL(name) LP_REAL_BY(lp_nccl_symbol, name)

/* A number for a piece of work: from 1, in the order of calls. */
uint64_t lp_gpu_serial(void);
/* The number of a name, which is recorded at its first use in a recording. */
uint32_t lp_name(uint32_t *number, uint32_t *epoch, const char *name);
/* Whether NCCL itself reports its work (profiler.c), so that the wrappers are silent. */
bool lp_nccl_by_plugin(void);

/* ---- calls of the runtime (gpu_calls.c, streams.c) ---- */

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
/* All known streams: the first for NULL; NULL: there are no more. */
lp_stream *lp_gpu_next_stream(const lp_stream *after);
/* The serial number of the work that last recorded an event; 0 not known. */
void lp_gpu_note_event(void *event, uint64_t serial);
uint64_t lp_gpu_event_serial(const void *event);

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

/* ---- activity records of CUPTI (cupti.c) ---- */

/* Whether CUPTI reports work; the first call begins it if that is wanted. */
bool lp_cupti_on(void);
/* Around a call of the program, which has this serial; nothing where CUPTI is not on. */
void lp_cupti_push(uint64_t serial);
void lp_cupti_pop(void);
/* Now and then; at the end of the program's work with the device. */
void lp_cupti_flush(void);
void lp_cupti_end(void);

/* ---- events of the runtime around pieces of work (marks.c) ---- */

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

/* ---- calls of NCCL (nccl_calls.c) ----
 *
 * No header of NCCL is needed: its binary interface is pointers, numbers and an identifier of 128
 * bytes. */

typedef struct lp_nccl_id {
	unsigned char bytes[128];
} lp_nccl_id;

/* A communicator by its handle. */
typedef struct lp_nccl_group {
	uint64_t key;
	uint32_t state, number;
	int32_t ranks, rank; /* -1: not known yet */
	uint64_t hash;       /* the same on all members, another for each communicator */
	uint32_t children;   /* splits and shrinks so far */
	struct {
		uint64_t key, count; /* what and bytes; calls so far */
	} calls[64];
	bool recorded;
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

/* ---- communicators and records of NCCL (nccl_groups.c) ---- */

enum {
	LP_NCCL_QUEUED = 256,
	LP_NCCL_MAKING = 64,
	LP_NCCL_IN_PROGRESS = 7 /* the answer of a call that goes on */
};

/* A communicator that a call is about to make. */
typedef struct lp_nccl_making {
	void **out;
	uint64_t hash;
	int32_t ranks, rank; /* -1 not known yet */
} lp_nccl_making;

/* Of each thread: what waits for the end of a group of calls. */
typedef struct lp_nccl_queue {
	uint32_t count, made;
	struct {
		lk_record_entry record;
		void *stream;
	} call[LP_NCCL_QUEUED];
	lp_nccl_making making[LP_NCCL_MAKING];
} lp_nccl_queue;
extern __thread int lp_nccl_depth
	__attribute__((tls_model("initial-exec"))); /* of groups of calls */
extern __thread lp_nccl_queue *lp_nccl_queued __attribute__((tls_model("initial-exec")));
lp_nccl_queue *lp_nccl_own_queue(void); /* NULL: out of memory */

/* A communicator by its handle; NULL: it was made before recording began. */
lp_nccl_group *lp_nccl_find_group(const void *comm);
/* NULL: the table is full. */
lp_nccl_group *lp_nccl_add_group(void *comm, const lp_nccl_making *making);
/* Found or added, and recorded; NULL: `comm` is, or the table is full. */
lp_nccl_group *lp_nccl_group_of(void *comm);
void lp_nccl_keep_made(lp_nccl_making *making);
void lp_nccl_forget_group(lp_nccl_group *group);
/* Records a communicator once: its members by the file of its name, or as a list. */
void lp_nccl_record_group(lp_nccl_group *group, void *comm);
/* Records a communicator: its number in the recording, the name that its members agree on, ranks
 * and own rank. */
void lp_nccl_name_group(uint32_t number, uint64_t hash, int ranks, int rank);
/* FNV-1a; all members of a communicator hash the same bytes. */
uint64_t lp_nccl_hash(const void *bytes, size_t size);
uint64_t lp_nccl_mix(uint64_t hash, const void *bytes, size_t size);

/* A record that was filled elsewhere, as one of a call of NCCL. */
void lp_nccl_publish(const lk_record_entry *filled);
/* A call that is no communication, since `start`. */
void lp_nccl_record_management(uint32_t *number, uint32_t *epoch, const char *name,
                               const lp_nccl_group *group, int64_t start);

/* ---- modes (nccl_mode.c) ---- */

/* A collective or message before the library gets it; true: done instead, call->result is set. */
bool lp_nccl_replaces(lp_nccl_call *call);
/* Holds the stream, for the mode that delays. */
void lp_nccl_hold(void *stream);

/* ---- communicators of an emulated rank (nccl_emulate.c) ---- */

/* A wrapper under both names of a function of NCCL. */
#define BOTH(kind, name, ...) kind(nccl##name, __VA_ARGS__) kind(pnccl##name, __VA_ARGS__)

/* A part of the emulated world: first, first + stride, ...; stride 0: which ranks is not known. */
typedef struct lp_nccl_emulated {
	int ranks, rank, first, stride;
	int product; /* of the sizes of the parts that were made of it */
} lp_nccl_emulated;

static inline bool lp_nccl_is_emulating(void) {
	return !LP_HOT(lp_mode.kind != LP_MODE_AS_RANK);
}
lp_nccl_emulated *lp_nccl_find_emulated(const void *comm); /* NULL: the library's */
/* A communicator by its size and own rank; by the colour of a split; without some ranks. NULL:
 * there is no room. */
void *lp_nccl_emulate_comm(int ranks, int rank);
void *lp_nccl_emulate_part(lp_nccl_emulated *parent, int color, int key);
void *lp_nccl_emulate_rest(const lp_nccl_emulated *parent, const int *without, int count);
/* Its ranks as a text. */
void lp_nccl_list_emulated(const lp_nccl_emulated *comm, char *out, size_t room);

#endif
