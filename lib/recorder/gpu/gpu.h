/* gpu.h: a program's device: calls of its runtime (CUDA), their streams, and the times of their
 * work.
 *
 * The calls of a dynamically linked runtime are wrapped (cuda_calls.txt); no CUDA header is needed,
 * and nothing is searched before the program calls it. Device times come from events that the
 * recorder puts around pieces of work (marks.c), or from CUPTI if that is requested and free
 * (cupti.c).
 *
 * Environment: LOCKSTEP_RECORD_CUDA=calls|events|cupti; default: events. */
#ifndef LK_RECORDER_GPU_GPU_H
#define LK_RECORDER_GPU_GPU_H

#include "recorder/recorder.h"

/* Names and groups of MPI are numbered from 1; those of devices and NCCL from here. */
enum { LP_FIRST_NAME = 1 << 20, LP_FIRST_GROUP = 1 << 20 };

/* ---- libraries (libraries.c) ---- */

/* A function of CUDA's runtime or of NCCL, whether or not its library is in the search order of the
 * next symbol; NULL: none. */
void *lp_gpu_symbol(const char *name);
void *lp_nccl_symbol(const char *name);
/* Results of a runtime without a driver, and of NCCL for a missing call. */
enum { LP_GPU_ABSENT = 35, LP_NCCL_ABSENT = 5 };
#define LP_GPU_REAL(name)  LP_REAL_BY(lp_gpu_symbol, name)
#define LP_NCCL_REAL(name) LP_REAL_BY(lp_nccl_symbol, name)

/* A number for a piece of work: from 1, in the order of calls. */
uint64_t lp_gpu_serial(void);
/* The number of a name, which is recorded at its first use in a recording. */
uint32_t lp_name(uint32_t *number, uint32_t *epoch, const char *name);
/* Whether NCCL itself reports its work (profiler.c); then the wrappers record nothing. */
bool lp_nccl_by_plugin(void);

/* ---- calls of the runtime (gpu_calls.c, streams.c) ---- */

typedef struct lp_dim3 {
	unsigned x, y, z;
} lp_dim3;

/* The used part of cudaLaunchConfig_t. */
typedef struct lp_launch_config {
	lp_dim3 grid, block;
	size_t shared;
	void *stream;
} lp_launch_config;

/* A stream by its handle, in order of appearance. */
typedef struct lp_stream {
	uint64_t key;
	uint32_t taken, number;
	/* the open batch of kernels, with marks.c's lock */
	void *begin; /* the event before it */
	uint64_t serial;
	uint32_t count;
	bool open;
} lp_stream;
lp_stream *lp_gpu_stream(void *handle); /* NULL: the table is full */
/* Iterate over all known streams: NULL gives the first; returns NULL at the end. */
lp_stream *lp_gpu_next_stream(const lp_stream *after);
/* Note the serial number of the work that last recorded an event; 0 unknown. */
void lp_gpu_note_event(void *event, uint64_t serial);
uint64_t lp_gpu_event_serial(const void *event);

/* What a wrapper states about its call. */
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

/* Whether CUPTI reports work; the first call starts it if requested. */
bool lp_cupti_on(void);
/* Around a call of the program with this serial; no effect if CUPTI is off. */
void lp_cupti_push(uint64_t serial);
void lp_cupti_pop(void);
/* Called now and then, and at the end of the program's work with the device. */
void lp_cupti_flush(void);
void lp_cupti_end(void);

/* ---- events of the runtime around pieces of work (marks.c) ---- */

/* Before work is put on a stream: open a batch unless one is open. Returns its serial; 0: without
 * times. */
uint64_t lp_marks_open(lp_stream *stream, void *handle);
/* End the batch of a stream, or of all. */
void lp_marks_cut(lp_stream *stream, void *handle);
void lp_marks_cut_all(void);
/* A single piece of work: between the two, on the stream. */
void *lp_marks_begin(lp_stream *stream, void *handle);
void lp_marks_end(lp_stream *stream, void *handle, void *begin, lk_device_what what,
                  uint64_t serial, int64_t bytes);
/* Write the records of finished work. */
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
	int32_t ranks, rank; /* -1: unknown yet */
	uint64_t hash;       /* the same on all members, unique for each communicator */
	uint32_t children;   /* splits and shrinks so far */
	struct {
		uint64_t key, count; /* call and bytes; number of calls so far */
	} calls[64];
	bool recorded;
} lp_nccl_group;

/* What a wrapper states about its call. */
typedef struct lp_nccl_call {
	const char *name;
	uint32_t *number, *epoch;
	uint8_t what;
	const void *from;
	void *to, *comm, *stream;
	size_t count;
	int type, peer, result;
	bool all; /* multiply bytes by the ranks */
	/* made by lp_nccl_begin */
	lp_nccl_group *group;
	lp_stream *on_stream;
	int64_t bytes, start;
	void *begin; /* the event before it */
	uint64_t serial;
	int element;
	bool on;
} lp_nccl_call;

/* True: the mode has done it; `result` is returned to the program. */
bool lp_nccl_begin(lp_nccl_call *call);
void lp_nccl_end(lp_nccl_call *call);

/* ---- communicators and records of NCCL (nccl_groups.c) ---- */

enum {
	LP_NCCL_QUEUED = 256,
	LP_NCCL_MAKING = 64,
	LP_NCCL_IN_PROGRESS = 7 /* result of a call still in progress */
};

/* A communicator that a call is about to make. */
typedef struct lp_nccl_making {
	void **out;
	uint64_t hash;
	int32_t ranks, rank; /* -1: unknown yet */
} lp_nccl_making;

/* Per thread: calls that wait for the end of their group. */
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

/* A communicator by its handle; NULL: made before recording began. */
lp_nccl_group *lp_nccl_find_group(const void *comm);
/* NULL: the table is full. */
lp_nccl_group *lp_nccl_add_group(void *comm, const lp_nccl_making *making);
/* Find or add, and record; NULL: `comm` is NULL, or the table is full. */
lp_nccl_group *lp_nccl_group_of(void *comm);
void lp_nccl_keep_made(lp_nccl_making *making);
void lp_nccl_forget_group(lp_nccl_group *group);
/* Record a communicator once: its members by the file of its name, or as a list. */
void lp_nccl_record_group(lp_nccl_group *group, void *comm);
/* Record a communicator: its number in the recording, the name that its members agree on, ranks and
 * own rank. */
void lp_nccl_name_group(uint32_t number, uint64_t hash, int ranks, int rank);
/* FNV-1a; all members of a communicator hash the same bytes. */
uint64_t lp_nccl_hash(const void *bytes, size_t size);
uint64_t lp_nccl_mix(uint64_t hash, const void *bytes, size_t size);

/* Publish a record filled elsewhere, for a call of NCCL. */
void lp_nccl_publish(const lk_record_entry *filled);
/* Record a call that is no communication, from `start`. */
void lp_nccl_record_management(uint32_t *number, uint32_t *epoch, const char *name,
                               const lp_nccl_group *group, int64_t start);

/* ---- modes (nccl_mode.c) ---- */

/* A collective or message before it reaches the library; true: replaced, call->result is set. */
bool lp_nccl_replaces(lp_nccl_call *call);
/* Hold the stream, for the mode that delays. */
void lp_nccl_hold(void *stream);

/* ---- communicators of an emulated rank (nccl_emulate.c) ---- */

/* A wrapper under both names of a function of NCCL. */
#define BOTH(kind, name, ...) kind(nccl##name, __VA_ARGS__) kind(pnccl##name, __VA_ARGS__)

/* A part of the emulated world: first, first + stride, ...; stride 0: unknown ranks. */
typedef struct lp_nccl_emulated {
	int ranks, rank, first, stride;
	int product; /* of the sizes of the parts made from it */
} lp_nccl_emulated;

static inline bool lp_nccl_is_emulating(void) {
	return !LP_HOT(lp_mode.kind != LP_MODE_AS_RANK);
}
lp_nccl_emulated *lp_nccl_find_emulated(const void *comm); /* NULL: a communicator of the library */
/* Make a communicator by its size and own rank; by the colour of a split; without some ranks. NULL:
 * the table is full. */
void *lp_nccl_emulate_comm(int ranks, int rank);
void *lp_nccl_emulate_part(lp_nccl_emulated *parent, int color, int key);
void *lp_nccl_emulate_rest(const lp_nccl_emulated *parent, const int *without, int count);
/* Its ranks as a text. */
void lp_nccl_list_emulated(const lp_nccl_emulated *comm, char *out, size_t room);

#endif
