/* capture.h: what a profiler saw of one rank: every event with its time, in columns.
 *
 * A reader (kineto.c, nsys.c) makes a capture, adds events in any order and finishes it; after that
 * it is constant. Finishing sorts events into *lanes* (a CPU thread or a device stream), finds
 * which event encloses which, and joins device work with the call that launched it. About 43 bytes
 * an event; names and shapes are interned, and what few events have is kept apart, in notes.
 *
 * Times are nanoseconds from the capture's `origin_ns`, which is a time of the host's clock.
 */
#ifndef LK_TRACE_CAPTURE_CAPTURE_H
#define LK_TRACE_CAPTURE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/intern.h"
#include "base/vec.h"
#include "graph/graph.h"
#include "lockstep/error.h"

/* ---- lane_map: from a process and thread, or device and stream, to a number. */

typedef struct lk_lane_key {
	int64_t process, thread;
	bool stream;
} lk_lane_key;

typedef struct lk_lane_map {
	struct lk_lane_slot *slots;
	size_t count, capacity; /* of slots: a power of two */
} lk_lane_map;

/* The number of a key, UINT32_MAX for a new key, which the caller sets. NULL when memory runs
 * out. */
uint32_t *lk_lane_map_at(lk_lane_map *map, lk_lane_key key);
/* The number of a key, or UINT32_MAX. */
uint32_t lk_lane_map_find(const lk_lane_map *map, lk_lane_key key);
void lk_lane_map_free(lk_lane_map *map);

/* What an event is. */
typedef enum lk_event_kind {
	LK_EVENT_OP,      /* an operation of the framework on the CPU: aten::mm */
	LK_EVENT_NOTE,    /* an annotation: ProfilerStep#4, nccl:all_reduce, ## forward ## */
	LK_EVENT_RUNTIME, /* a call of the device's runtime or driver: cudaLaunchKernel */
	LK_EVENT_KERNEL,
	LK_EVENT_MEMCPY,
	LK_EVENT_MEMSET, /* work of the device, on a stream */
	LK_EVENT_SYNC,   /* a wait that the device's profiler reports: stream wait event, event, stream,
	                    context */
	LK_EVENT_KINDS,
} lk_event_kind;
static inline bool lk_event_on_device(unsigned kind) {
	return kind >= LK_EVENT_KERNEL && kind <= LK_EVENT_MEMSET;
}

/* No such event, lane or thing. */
#define LK_NONE UINT32_MAX
enum { LK_MOST_LANES = 65000 };

/* A CPU thread or a device stream. */
typedef struct lk_lane {
	int64_t process, thread; /* ids as in the file; of a stream: device and stream */
	bool stream;
	uint32_t name;       /* interned; 0 none */
	uint32_t begin, end; /* its events in lk_capture.order */
} lk_lane;

/* A communication operation, from kernel arguments or annotations. Unknown: 0. */
typedef struct lk_comm_note {
	uint32_t event;        /* a kernel, or on hosts (gloo) an operation */
	uint8_t kind;          /* lk_op_kind; LK_OP_COUNT unknown */
	uint8_t element_bytes; /* of its data type; 0 unknown */
	uint32_t dtype;        /* interned name of it, as in the file */
	uint32_t group;        /* interned process group name */
	uint32_t group_text;   /* interned description */
	uint32_t ranks;        /* interned text of its ranks, "[0, 1]" */
	int32_t group_size;
	int32_t peer; /* of send and receive; -1 none */
	int32_t tag;  /* of messages: those of one tag arrive in order; 0 unknown */
	bool uneven;  /* each member may give another amount */
	int64_t in_elements, out_elements; /* -1 not given */
} lk_comm_note;

/* A wait, from an LK_EVENT_SYNC or the arguments of a call. Unknown lanes are LK_NONE. */
typedef struct lk_sync_note {
	uint32_t event;
	enum { LK_SYNC_EVENT, LK_SYNC_STREAM, LK_SYNC_DEVICE, LK_SYNC_STREAM_WAITS } kind;
	uint32_t stream; /* lane that waits (STREAM_WAITS), or that the host waits for */
	uint32_t on;     /* lane waited for */
	uint32_t record; /* correlation of the cudaEventRecord; 0 none */
} lk_sync_note;

/* Interned texts of an operation's or annotation's input shapes and types (`Input Dims`, `Input
 * type`), and shapes of its results, if an execution trace or a convolution's arguments give them.
 * Unknown: 0. */
typedef struct lk_shape_note {
	uint32_t event, shape, types, outputs;
} lk_shape_note;

/* Bytes that a copy moves or a fill writes. */
typedef struct lk_copy_note {
	uint32_t event;
	int64_t bytes;
} lk_copy_note;

/* What device work computes, where the file says so: a predicted step does. */
typedef struct lk_kind_note {
	uint32_t event;
	uint8_t kind, phase, dtype;   /* lk_op_kind, lk_phase, lk_dtype */
	int32_t layer, microbatch;    /* -1: none */
	double m, n, k, batch, flops; /* 0: not stated */
} lk_kind_note;

/* The sequence number that autograd gave an operation of the forward pass, or the gradient that
 * belongs to it. */
typedef struct lk_grad_note {
	uint32_t event;
	uint32_t number;
	bool backward;
} lk_grad_note;

/* A call of a module of the network, which a profiler with Python stacks reports. It is no
 * event: what encloses an operation, and which operations are outermost, does not depend on
 * stacks. */
typedef struct lk_module_call {
	int64_t start_ns, dur_ns;
	uint32_t lane, name;
} lk_module_call;

/* A process group that the file's head describes. */
typedef struct lk_capture_group {
	uint32_t name, text; /* interned */
	int32_t size;
	uint32_t ranks; /* interned text, "[0, 1, 2, 3]"; 0 not given */
} lk_capture_group;

typedef struct lk_capture {
	const char *path;        /* where it was read from */
	const char *format;      /* "Kineto JSON", "Nsight Systems SQLite" */
	int32_t rank, world;     /* -1 and 0: unknown */
	uint32_t backend;        /* interned "nccl", "gloo"; 0 unknown */
	uint32_t device;         /* interned name of the device used; 0 none or unknown */
	int32_t sms;             /* of the device; 0 unknown */
	double device_bytes;     /* of its memory; 0 unknown */
	bool processor;          /* a program without a device, whose processor is shown as one
	                        (trace/read/recorded.c) */
	int64_t origin_ns;       /* time 0 */
	bool absolute;           /* origin_ns counts from 1970, so that hosts can be compared */
	const char *host;        /* its processes share one clock; NULL unknown */
	int64_t host_ns;         /* time 0 on the clock that counts from the host's start */
	struct lk_capture *next; /* a further rank of the same file, owned; NULL: none */
	uint32_t parts;          /* ranks that the file holds; 0: one */
	bool emulated;  /* ran alone as one rank of a world: it synchronised with no other rank, and its
	                  communication times mean nothing */
	bool simulated; /* a step that was simulated: transfers without waiting, no calls of the host */
	bool whole;     /* holds every communication from the program's start, as recordings do; a
	                  profiler's file may begin anywhere */
	lk_intern *names;
	lk_arena arena; /* texts of this struct */

	/* columns, in the order of addition */
	uint32_t count, capacity;
	int64_t *start_ns, *dur_ns;
	uint8_t *kind;
	uint16_t *lane;
	uint32_t *name;
	uint32_t *joins; /* key that joins events; 0 none. OP, NOTE: the record function id, shared with
	                    execution traces. Others: the correlation of a launch and its work */

	/* made by lk_capture_finish */
	uint32_t *order;  /* events by lane, start, longest first */
	uint32_t *parent; /* the event of the same lane that encloses this one; LK_NONE */
	uint32_t *launch; /* device work: the RUNTIME event that launched it; RUNTIME: the first work
	                     launched; LK_NONE */

	LK_VEC(lk_lane) lanes;
	lk_lane_map lane_map;         /* from key to lane */
	uint32_t last_lane;           /* the one returned last */
	LK_VEC(lk_comm_note) comms;   /* by event, after finishing */
	uint64_t *comm_bits;          /* bit by event: it has a note in comms; NULL: not built */
	LK_VEC(lk_sync_note) syncs;   /* likewise */
	LK_VEC(lk_shape_note) shapes; /* by event */
	LK_VEC(lk_copy_note) copies;  /* by event */
	LK_VEC(lk_kind_note) kinds;   /* by event */
	LK_VEC(lk_grad_note) grads;   /* by event */
	LK_VEC(lk_module_call) modules;
	bool *comm_names; /* [comm_name_count] by name: device work of this name communicates */
	uint32_t comm_name_count;
	LK_VEC(lk_capture_group) groups;
	LK_VEC(const char *) warnings; /* oddities, as sentences */
	LK_VEC(const char *) damages;  /* likewise: what could not be read and is missing */
	uint64_t damaged;              /* places of damage */
	uint64_t dropped;    /* events not needed: python_function, flows, gpu_user_annotation */
	uint64_t bytes_read; /* of the decompressed file */
} lk_capture;

/* One event to add. Unknown fields are zero. */
typedef struct lk_event {
	lk_event_kind kind;
	int64_t start_ns, dur_ns;
	uint32_t lane, name;
	uint32_t correlation, record;   /* see lk_capture.joins */
	uint32_t shape, types, outputs; /* see lk_shape_note */
	int64_t bytes;                  /* see lk_copy_note; below 0: unknown too */
} lk_event;

/* Limits of reading; 0: the default in brackets. */
typedef struct lk_read_limits {
	uint64_t bytes;        /* decompressed [64 GiB] */
	uint64_t events;       /* kept [1e9] */
	uint64_t names;        /* different names and shapes [16 million] */
	bool shapes;           /* keep `Input Dims` and `Input type` (whatif needs them) */
	uint64_t shapes_below; /* keep them also if the files are on disk at most so large together */
} lk_read_limits;

lk_capture *lk_capture_new(const char *path, const char *format); /* NULL when memory runs out */
/* Free it and those that follow it in its file. */
void lk_capture_free(lk_capture *capture);
/* The lane of a process and thread, or device and stream; LK_NONE when memory runs out or there are
 * over 65,000. */
uint32_t lk_capture_lane(lk_capture *capture, bool stream, int64_t process, int64_t thread);
/* Intern a name, of which the limits allow so many. */
lk_status lk_capture_name(lk_capture *capture, const lk_read_limits *limits, const char *text,
                          uint32_t *out, lk_error *err);
/* Check that the limits allow one more event; `apart`: events that the reader keeps apart. */
lk_status lk_capture_room(const lk_capture *capture, const lk_read_limits *limits, size_t apart,
                          lk_error *err);
/* Add an event; returns its number, or LK_NONE when memory runs out. */
uint32_t lk_capture_add(lk_capture *capture, const lk_event *event);
/* Add a call of a module, on a lane of the host. False when memory runs out. */
bool lk_capture_add_module(lk_capture *capture, const lk_module_call *call);
/* Append the events and notes of `from`; `names` and `lanes` map its numbers to those of `capture`.
 * False when memory runs out, or there would be too many. */
bool lk_capture_append(lk_capture *capture, const lk_capture *from, const uint32_t *names,
                       const uint32_t *lanes);
/* Forget all events and notes; keep names, lanes and capacity. */
void lk_capture_empty(lk_capture *capture);
/* Add a numbered warning, "W2: ..." in the end; ignores lack of memory. */
void lk_capture_warn(lk_capture *capture, const char *fmt, ...) LK_PRINTF(2, 3);
/* Note that the file is damaged in `places` places; what was there is left out. */
void lk_capture_damage(lk_capture *capture, uint64_t places, const char *fmt, ...) LK_PRINTF(3, 4);
/* Before finishing: make each device that ran kernels a rank of its own, with the processes that
 * launched them, as captures that follow; likewise of those that follow already. Sets `parts`. */
lk_status lk_capture_split(lk_capture *capture, lk_error *err);
/* Sort, nest and join the events. Times then count from the first event. */
lk_status lk_capture_finish(lk_capture *capture, lk_error *err);

static inline const char *lk_capture_text(const lk_capture *capture, uint32_t id) {
	return lk_intern_text(capture->names, id);
}
static inline int64_t lk_event_end(const lk_capture *capture, uint32_t event) {
	return capture->start_ns[event] + capture->dur_ns[event];
}

/* A training step inside a capture. */
typedef struct lk_capture_step {
	uint32_t event;           /* its annotation; LK_NONE: the whole capture */
	int64_t number;           /* as annotated, or counting from 0 */
	int64_t start_ns, end_ns; /* of the annotation */
	bool whole;               /* false: cut off by the start or end of profiling */
} lk_capture_step;
typedef LK_VEC(lk_capture_step) lk_capture_steps;

/* The whole capture as one step: from the first to the last device work, as HTA does; without a
 * device, from the first to the last event. */
lk_capture_step lk_capture_whole(const lk_capture *capture);
/* Find the steps, in order: ProfilerStep#N; else at least three ranges that the program calls steps
 * or iterations; else from one start of data loading
 * (enumerate(DataLoader)) to the next; else from one end of an optimizer's step to the next, if
 * there are at least three; else the whole capture as one step. */
lk_status lk_capture_find_steps(const lk_capture *capture, lk_capture_steps *out, lk_error *err);
/* Whether the step comes from an annotation, ProfilerStep#N or data loading. */
bool lk_capture_step_is_marked(const lk_capture *capture, const lk_capture_step *step);

/* ---- capture_notes: sparse data of events. ---- */

/* Order notes by event, their first member; for lk_sort and bsearch. */
int lk_note_order(const void *a, const void *b);
/* Sort notes of `size` bytes, which mostly are in order. */
void lk_notes_sort(void *notes, size_t count, size_t size);

/* Sort capture->comms; to be called after adding notes to a finished capture. */
void lk_capture_sort_comms(lk_capture *capture);
/* The communication note of an event, or NULL; likewise the sync note. Binary search. */
const lk_comm_note *lk_capture_comm(const lk_capture *capture, uint32_t event);
const lk_sync_note *lk_capture_sync(const lk_capture *capture, uint32_t event);
/* The shape note of an event; never NULL, empty for most events. */
const lk_shape_note *lk_capture_shape(const lk_capture *capture, uint32_t event);
/* Bytes that a copy moves or a fill writes; 0 unknown. */
int64_t lk_capture_copied(const lk_capture *capture, uint32_t event);

/* What the file says that device work computes; NULL: nothing. */
const lk_kind_note *lk_capture_kind(const lk_capture *capture, uint32_t event);

/* The sequence number of an operation; NULL: it has none. */
const lk_grad_note *lk_capture_grad(const lk_capture *capture, uint32_t event);

/* ---- capture_comms: which events are communication, if the arguments of kernels do not state
 * it. */

/* Complete capture->comms after events are nested and joined with their launches; leaves them
 * unsorted. */
lk_status lk_capture_join_comms(lk_capture *capture, lk_error *err);
/* Whether device work has the name of a communication kernel, see lk_comm_kernel. */
bool lk_work_communicates(const lk_capture *capture, uint32_t event);

/* ---- host_names: what the host does in an event, by its name. */

/* Work of the host that keeps a device idle for other reasons than launches. */
enum {
	LK_HOST_LOADS = 1,           /* a data loader */
	LK_HOST_ONCE = 2,            /* compiles, loads modules, tunes, captures a graph: once */
	LK_HOST_ALLOCATES = 4,       /* allocates memory from the driver, or gives it back ... */
	LK_HOST_FREES = 8,           /* ... the latter */
	LK_HOST_PREPARES = 16,       /* makes inputs: decodes, tokenizes */
	LK_HOST_BEGINS_CAPTURE = 32, /* of a graph */
	LK_HOST_ENDS_CAPTURE = 64,
	LK_HOST_AWAITS = 128,    /* waits for results, in the framework */
	LK_HOST_SAVES = 256,     /* writes a checkpoint */
	LK_HOST_COLLECTS = 512,  /* Python's garbage */
	LK_HOST_COMPUTES = 1024, /* work of the step, instead of the device */
};
/* The above of the name of an operation, annotation or call; 0 for most. */
unsigned lk_host_work(const char *name);
/* Likewise of a Python function as profilers name it, "file.py(12): function", of so many bytes. */
unsigned lk_python_work(const char *name, size_t length);

/* ---- module_names: names that profilers and programs give to modules of a network. */

typedef enum lk_module_form {
	LK_MODULE_NONE,
	LK_MODULE_CLASS, /* a class, inside of what encloses the call: LlamaMLP_3 */
	LK_MODULE_PATH,  /* a path from the network's root: model.layers.3.mlp */
} lk_module_form;
/* Whether the name of an annotation or Python function is that of a module, and which. `out`:
 * the module's own name, cut to `size`. */
lk_module_form lk_module_of_name(const char *name, char *out, size_t size);

/* ---- comm_names: names that libraries and frameworks give to communication. */

/* Traffic of sockets, which no library reports: communication, but of no collective that could be
 * matched. */
#define LK_SOCKETS "sockets"

/* The lk_op_kind of a collective's name ("allreduce", "nccl:all_to_all", "_allgather_base");
 * LK_OP_COUNT if it is none. */
unsigned lk_comm_kind(const char *name);
/* Whether a kernel is of a communication library (NCCL, RCCL). *kind is from its name, LK_OP_COUNT
 * if the name has none ("ncclDevKernel_Generic"), ALLTOALL for SendRecv. */
bool lk_comm_kernel(const char *name, unsigned *kind);
/* Bytes of an element of a data type ("Float", "BFloat16", "long int"); 0 unknown. */
int lk_comm_element_bytes(const char *type);

/* ---- conv_shape: the shape of a convolution's result, which follows from its inputs and
 * arguments. */

/* For a forward convolution of PyTorch, derive the shapes of its results, "[[32,64,112,112]]", from
 * the shapes of its inputs and the values of its other arguments ("Concrete Inputs",
 * "[,,,[2,2],[3,3],[1,1],False,[0,0],1]": stride, padding, dilation). False: no convolution, or
 * arguments that do not fit. */
bool lk_conv_result(const char *name, const char *dims, const char *values, char *out, size_t size);

/* ---- shape_text: shapes and types of an operation's inputs as compact JSON without quotes, the
 * only form that traces keep: "[[512,13],[13,512],[]]" and "[float,TensorList(float),Int]". */

enum { LK_SHAPE_TEXT = 1 << 18 }; /* longer texts are cut, and then no reader understands them */

/* A text under construction; always ended by '\0'. */
typedef struct lk_shape_text {
	LK_VEC(char) text;
} lk_shape_text;

static inline const char *lk_shape_text_of(const lk_shape_text *text) {
	return text->text.count ? text->text.at : "";
}
/* Append; false when memory runs out. */
bool lk_shape_put(lk_shape_text *shape_text, const char *text, size_t length);
/* Append a type as Kineto writes it: of "Tensor(float)" the part inside, of
 * "GenericList[Tensor(float),...]" "TensorList(float)". */
bool lk_shape_put_type(lk_shape_text *shape_text, const char *text, size_t length);
/* Replace the text by what Python printed: "[[4, 5], []]", "['Tensor(float)', 'Int']". */
bool lk_shape_python(lk_shape_text *shape_text, const char *text, size_t length);

#endif
