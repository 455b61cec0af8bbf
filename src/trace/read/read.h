/* read.h: reads files and folders of captures and execution traces, recognised by content. */
#ifndef LK_TRACE_READ_READ_H
#define LK_TRACE_READ_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "io/recording.h"
#include "io/stream.h"
#include "trace/capture/capture.h"
#include "trace/capture/works.h"

/* Read a file of any format, recognised by its content, with all its ranks (lk_capture.next): sets
 * one of *capture and *works, the other is NULL. Oddities become warnings if a result is possible.
 * `found` in a folder or an archive: if it is another kind of file, both are NULL. `limits` may be
 * NULL. */
lk_status lk_trace_read(const char *path, bool found, const lk_read_limits *limits,
                        lk_capture **capture, lk_works **works, lk_error *err);

/* Check that a capture's whole file is valid JSON, if it is of that form: its reader skips what it
 * does not need and looks there only for the end. */
lk_status lk_capture_check(const lk_capture *capture, lk_error *err);

/* Read the rest of a stream of any format without times. `limits` may be NULL; the default of
 * `bytes` is 8 GiB here, because JSON is held in memory. */
lk_status lk_works_read_stream(lk_stream *in, const lk_read_limits *limits, lk_works **out,
                               lk_error *err);

typedef struct lk_trace_files {
	lk_capture **capture; /* in the order of the files */
	lk_works **works;     /* likewise */
	uint32_t captures, work_count;
} lk_trace_files;

/* Read files and folders like lk_traces_read. Free `out` if the result is LK_OK. */
lk_status lk_trace_files_read(const char *const *paths, uint32_t count,
                              const lk_read_limits *limits, int threads, lk_trace_files *out,
                              lk_error *err);
/* List the names only, with folders expanded, in the arena. */
lk_status lk_trace_files_list(lk_arena *arena, const char *const *paths, uint32_t count,
                              const char *const **out, uint32_t *found, lk_error *err);
void lk_trace_files_free(lk_trace_files *files);
/* Append the contents of `from` to `to`; `from` is then empty. */
lk_status lk_trace_files_merge(lk_trace_files *to, lk_trace_files *from, lk_error *err);
/* ---- trace_kind: the format of a trace file, from its first bytes. */

/* Bytes that are enough: lists of events and nodes come after a short head. */
enum { LK_TRACE_HEAD = 1 << 18 };

typedef enum lk_trace_kind {
	LK_TRACE_KINETO,     /* Kineto or Chrome JSON */
	LK_TRACE_DATABASE,   /* SQLite, of Nsight Systems or AMD */
	LK_TRACE_ROCPROF,    /* JSON of AMD's profilers */
	LK_TRACE_PYTORCH_ET, /* PyTorch's execution trace */
	LK_TRACE_CHAKRA_JSON,
	LK_TRACE_CHAKRA,     /* protobuf */
	LK_TRACE_RECORDING,  /* of lockstep record */
	LK_TRACE_XPLANE,     /* protobuf, of JAX and TensorFlow */
	LK_TRACE_TIMELINE,   /* of --trace: Chrome's events ... */
	LK_TRACE_PERFETTO,   /* ... and Perfetto's */
	LK_TRACE_OTHER_JSON, /* JSON whose head does not tell */
	LK_TRACE_OTHER,
} lk_trace_kind;

lk_trace_kind lk_trace_kind_of(const char *head, size_t size);
/* Whether it is an execution trace: operations without a clock. */
static inline bool lk_trace_is_works(lk_trace_kind kind) {
	return kind == LK_TRACE_PYTORCH_ET || kind == LK_TRACE_CHAKRA_JSON || kind == LK_TRACE_CHAKRA;
}

/* ---- xplane: HOST.xplane.pb of JAX, TensorFlow and OpenXLA. */

/* Add everything of the file to a new capture, and to captures that follow it if the process drives
 * several devices; the caller finishes them. */
lk_status lk_xplane_read(lk_stream *in, const lk_read_limits *limits, lk_capture *capture,
                         lk_error *err);

/* ---- timeline_read: what --trace wrote, Chrome's events or Perfetto's: a predicted or simulated
 * step, or the events of explained traces. */

/* Captures made of slices: one per process of the timeline, which is a rank. */
typedef struct lk_shown_ranks lk_shown_ranks;

/* A slice of a timeline; texts are copied. Unknown: 0 and NULL; layer and microbatch -1. */
typedef struct lk_shown_slice {
	int64_t pid, tid;
	const char *name, *category;
	int64_t start_ps, dur_ps;
	double bytes, flops, ranks, m, n, k, batch;
	const char *phase, *group, *dtype;
	double layer, microbatch;
	double times, every_ps; /* it happens so often, every_ps apart */
} lk_shown_slice;

/* `first`: an empty capture, for the first rank; the others follow it (lk_capture.next). NULL when
 * memory runs out. */
lk_shown_ranks *lk_shown_new(lk_capture *first, const lk_read_limits *limits);
void lk_shown_free(lk_shown_ranks *shown); /* not its captures; accepts NULL */
/* Name a process, "rank 8, stage 1 (represents 4 ranks)". One that names no rank is left out. */
lk_status lk_shown_process(lk_shown_ranks *shown, int64_t pid, const char *name, lk_error *err);
lk_status lk_shown_thread(lk_shown_ranks *shown, int64_t pid, int64_t tid, const char *name,
                          lk_error *err);
/* LK_ERR_INPUT: more events than the limits allow. */
lk_status lk_shown_add(lk_shown_ranks *shown, const lk_shown_slice *slice, lk_error *err);
/* Mark the step, if the file is of a predicted one. The caller finishes the captures. */
lk_status lk_shown_end(lk_shown_ranks *shown, lk_error *err);

/* Add everything of a file of one of these kinds to a new capture and to those that follow it. */
lk_status lk_timeline_read(lk_stream *in, lk_trace_kind kind, const lk_read_limits *limits,
                           lk_capture *capture, lk_error *err);

/* ---- nsys: Nsight Systems' export to SQLite. */

/* Read the database at `path` into a new capture, and captures that follow it for further processes
 * and devices of the report; the caller finishes them. */
lk_status lk_nsys_read(const char *path, const lk_read_limits *limits, lk_capture *capture,
                       lk_error *err);

/* ---- rocpd, rocprof: formats of AMD's profilers. */

/* Whether the database at `path` is one of rocprofv3 or rocmProfileData. */
lk_status lk_rocpd_found(const char *path, bool *found, lk_error *err);
/* Read it into a new capture, which the caller finishes. */
lk_status lk_rocpd_read(const char *path, const lk_read_limits *limits, lk_capture *capture,
                        lk_error *err);
/* Add everything of a JSON file of rocprofv3 or rocprof to a new capture. The file is held in
 * memory as a tree. */
lk_status lk_rocprof_read(lk_stream *in, const lk_read_limits *limits, lk_capture *capture,
                          lk_error *err);

/* ---- recorded: recordings (io/recording.h) as captures.
 *
 * A program without a device is shown as if it had one: the *processor* is the device. Its streams
 * are "own code" (the main thread between recorded calls), blocking communication, and
 * communication in flight. The main thread launches each of them and waits for it, so that explain,
 * replay and whatif work as on any capture. Its reads are data loading: the annotation "file:read
 * NAME". */

/* One call of this process, or of one that it forked. */
typedef struct lk_recorded_call {
	lk_record_entry record;
	uint32_t process; /* index of its recording; 0: the given one */
	uint32_t done;    /* POST, START: the call that waited for it, LK_NONE; DONE: the call that it
	                     waited for */
} lk_recorded_call;
typedef LK_VEC(lk_recorded_call) lk_recorded_calls;

/* What an id in a recording refers to. */
typedef struct lk_recorded_name {
	uint64_t key;       /* process << 32 | number */
	uint32_t name;      /* interned: of a call; path of a file; ranks of a group, "[0, 1]" */
	uint32_t shown;     /* interned: base name of a file; name of a group */
	int32_t size, rank; /* of a group: ranks, own rank; -1: not a group of this process */
	uint32_t mount;     /* of a file: the number of its mount; 0 unknown */
	int64_t bytes;      /* of a file: its size when first seen */
	uint64_t division;  /* of a group of an emulated world: identifies the split that made it */
} lk_recorded_name;
typedef LK_VEC(lk_recorded_name) lk_recorded_names;

/* A mark of the program begins or ends. */
typedef struct lk_recorded_mark {
	uint64_t thread; /* process << 16 | number */
	int64_t ns, domain;
	uint32_t name;  /* interned; LK_NONE: an end */
	uint32_t order; /* in the recordings */
} lk_recorded_mark;
/* A thread is in a mark, and in none that is inside of it. */
typedef struct lk_recorded_span {
	uint64_t thread;
	int64_t from, to;
	uint32_t mark; /* in the run's mark_names */
} lk_recorded_span;
/* The name of those marks that are too many for a name of their own. */
#define LK_OTHER_MARKS "other marks"

typedef struct lk_recorded_run {
	const char *path;
	lk_recording_head head;  /* of the given process */
	lk_recorded_calls calls; /* by start */
	/* LK_RECORD_STORAGE, _PROCESSOR and _THREAD, which are not calls; by start */
	lk_recorded_calls storage, processor, threads;
	LK_VEC(lk_recorded_mark) marks;
	LK_VEC(lk_recorded_span) spans; /* by thread, then time: they do not overlap */
	LK_VEC(uint32_t) mark_names;    /* interned */
	lk_recorded_names names, files, groups, peers, mounts; /* by key */
	uint16_t main_thread, first_thread;                    /* first: with which the process began */
	uint64_t strange;                                      /* invalid records */
	uint64_t dropped;                                      /* for lack of room, while recording */
	uint32_t children;
	lk_intern *texts; /* of the names; borrowed */
} lk_recorded_run;

/* Read a recording and those of the processes that were forked from it, in the same folder. */
lk_status lk_recorded_load(const char *path, const lk_read_limits *limits, lk_intern *texts,
                           lk_recorded_run *out, lk_error *err);
/* The same for one open recording. */
lk_status lk_recorded_take(lk_recording *recording, const lk_read_limits *limits, lk_intern *texts,
                           lk_recorded_run *out, lk_error *err);
void lk_recorded_free(lk_recorded_run *run);
/* Whether a call uses a pipe instead of a connection to another process's address. */
bool lk_recorded_by_pipe(const lk_recorded_run *run, const lk_recorded_call *call);
const lk_recorded_name *lk_recorded_find(const lk_recorded_names *names, uint32_t process,
                                         uint32_t number); /* or NULL */

/* The start of each step, and the last one's end. */
typedef struct lk_recorded_steps {
	LK_VEC(int64_t) begin; /* steps + 1; empty: none were found */
	uint32_t calls;        /* communication calls per step; 0: found otherwise */
	bool by_files;         /* found by files read and written: the first one may begin anywhere */
} lk_recorded_steps;
/* Whether a file is a program or library, which is read at start: not data. */
bool lk_recorded_is_program(const char *path);
/* The file that a Python program's loader opens where it takes a batch (stalls/stalls_runs.c): its
 * marker does not ask for one, as a program may have no such loader. */
#define LK_BATCH_MARK "lockstep-step"
lk_status lk_recorded_find_steps(const lk_recorded_run *run, lk_recorded_steps *out, lk_error *err);

/* What the main thread's time goes to, by what it does or waits for (recorded_causes.c). */
typedef enum lk_cause {
	LK_CAUSE_CODE,        /* its code, also asleep, and of threads that work for it */
	LK_CAUSE_PREPARATION, /* code of loaders that it waits for */
	LK_CAUSE_FETCH,       /* opening and reading files of data */
	LK_CAUSE_WRITING,     /* writing files */
	LK_CAUSE_COMM,        /* communication */
	LK_CAUSE_PREEMPTED,   /* others have the processor */
	LK_CAUSES
} lk_cause;
/* Of each step, seconds by cause; they sum to its length. Step s is from begin[s] to begin[s + 1].
 * `marked`, by mark_names: what all steps spend in a mark, of the thread that works, else of the
 * one that waits for it. LK_ERR_MEMORY. */
lk_status lk_recorded_find_causes(const lk_recorded_run *run, const int64_t *begin, int steps,
                                  double (*out)[LK_CAUSES], double (*marked)[LK_CAUSES],
                                  lk_error *err);

/* Fill a new capture, which the caller finishes. */
lk_status lk_recording_read(const char *path, const lk_read_limits *limits, lk_capture *capture,
                            lk_error *err);
lk_status lk_recording_show(lk_recorded_run *run, lk_capture *capture, lk_error *err);

/* ---- the readers used by lk_works_read, one a file format. */

/* Read the list of nodes of PyTorch's execution trace, or of Chakra's JSON; the next token is the
 * first element. */
lk_status lk_pytorch_et_nodes(lk_json *json, const lk_read_limits *limits, lk_works *works,
                              lk_error *err);
lk_status lk_chakra_json_nodes(lk_json *json, const lk_read_limits *limits, lk_works *works,
                               lk_error *err);
/* Read Chakra's protobuf records. */
lk_status lk_chakra_read(const void *bytes, size_t size, const lk_read_limits *limits,
                         lk_works *works, lk_error *err);

#endif
