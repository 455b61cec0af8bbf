/* works.h: what a rank did, without a clock or with few times: an execution trace. Operations with
 * their nesting, what they depend on, and the tensors that they read and write, in columns with
 * interned names.
 *
 * A reader (pytorch_et.c, chakra.c) makes it, adds works and what belongs to the one added last,
 * and finishes it; after that it is constant. Finishing replaces ids by indices and sorts by id,
 * which is the order in which works began.
 */
#ifndef LK_TRACE_CAPTURE_WORKS_H
#define LK_TRACE_CAPTURE_WORKS_H

#include <math.h>
#include "io/json.h"
#include "io/stream.h"
#include "trace/capture/capture.h"

typedef enum lk_node_kind {
	LK_NODE_ROOT,   /* represents a process or thread */
	LK_NODE_NOTE,   /* an annotation: ProfilerStep#4, ## forward ##, Optimizer.step#SGD.step */
	LK_NODE_OP,     /* an operation on the CPU, which may launch work on the device */
	LK_NODE_DEVICE, /* work of the device; of simulators' traces, all work */
	LK_NODE_MEMORY, /* Chakra's loads and stores */
	LK_NODE_KINDS,
} lk_node_kind;

/* A tensor used by a work. */
typedef struct lk_tensor {
	int64_t id, storage; /* views of one storage share it */
	int64_t elements;
	uint32_t device; /* interned "cuda:0", "cpu"; 0 unknown */
	uint16_t element_bytes;
	bool output;
} lk_tensor;

/* The communication of a work. */
typedef struct lk_work_comm {
	lk_comm_note note; /* its `event` is the work */
	int64_t sequence;  /* number of the collective, by which a wait refers to it; -1 unknown */
	bool waits;        /* the wait for a collective */
} lk_work_comm;

typedef struct lk_works {
	const char *path, *format; /* "PyTorch execution trace", "Chakra protobuf", "Chakra JSON" */
	const char *schema;        /* "1.1.0-chakra.0.0.4"; "" unknown */
	int32_t rank;              /* from the file's name, "x.3.et", "rank3.json.gz"; -1 unknown */
	bool timed;                /* some work has a duration */
	lk_intern *names;
	lk_arena arena;

	/* columns, by id after finishing */
	uint32_t count, capacity;
	int64_t *id;
	uint32_t *name;
	uint8_t *kind;
	int64_t *parent_id;              /* -1 none */
	uint32_t *record;                /* record function id, which joins Kineto's events; 0 none */
	int64_t *sequence;               /* of autograd; -1 none */
	int64_t *thread;                 /* of the CPU; of device work its stream; -1 unknown */
	int64_t begin_ns;                /* delay of the rank's start after the first rank's, if known;
	                                    else 0 */
	int64_t *start_ns, *duration_ns; /* -1 unknown */
	uint32_t *shape, *types;         /* of inputs, as in lk_capture: "[[512,13],[13,512],[]]",
	                                    "[float,float,Int]"; 0 none */
	uint32_t *outputs;               /* shapes of outputs, likewise */
	double *flops, *bytes;           /* Chakra's num_ops and tensor_size; 0 unknown */
	uint32_t *tensor_begin;          /* [count + 1] into tensors */
	uint32_t *control_begin, *data_begin; /* [count + 1] into control and data */

	/* made by lk_works_finish */
	uint32_t *parent;         /* index; LK_NONE */
	uint32_t *control, *data; /* indices of works */

	LK_VEC(lk_tensor) tensors;
	LK_VEC(int64_t) control_ids, data_ids;
	LK_VEC(lk_work_comm) comms; /* by work, after finishing */
	LK_VEC(lk_capture_group) groups;
	LK_VEC(const char *) warnings; /* "W1: ..." */
	uint64_t unresolved;           /* dependencies on works that are not in the file */
	uint64_t bytes_read;
} lk_works;

/* One work to add; unknown values as in the columns. */
typedef struct lk_work {
	lk_node_kind kind;
	int64_t id, parent_id, sequence, thread, start_ns, duration_ns;
	uint32_t name, record, shape, types, outputs;
	double flops, bytes;
} lk_work;
#define LK_WORK_NONE \
	((lk_work){.parent_id = -1, .sequence = -1, .thread = -1, .start_ns = -1, .duration_ns = -1})

lk_works *lk_works_new(const char *path, const char *format); /* NULL when memory runs out */
void lk_works_free(lk_works *works);
/* Add a work. It owns the tensors, control_ids, data_ids and comms pushed since the last work.
 * Returns LK_NONE when memory runs out. */
uint32_t lk_works_add(lk_works *works, const lk_work *work);
void lk_works_warn(lk_works *works, const char *fmt, ...) LK_PRINTF(2, 3);
lk_status lk_works_finish(lk_works *works, lk_error *err);

static inline const char *lk_works_text(const lk_works *works, uint32_t id) {
	return lk_intern_text(works->names, id);
}
/* The communication of a work, or NULL. */
const lk_work_comm *lk_works_comm(const lk_works *works, uint32_t work);
/* The work with this id; LK_NONE. */
uint32_t lk_works_find(const lk_works *works, int64_t id);
/* Whether one of its tensors is on a device; *host: whether one is in host memory. */
bool lk_works_on_device(const lk_works *works, uint32_t work, bool *host);

/* Interned text; LK_ERR_MEMORY, or LK_ERR_INPUT over the limit of names. */
lk_status lk_works_name(lk_works *works, const lk_read_limits *limits, const char *text,
                        uint32_t *out, lk_error *err);
/* Add within the limit of events. */
lk_status lk_works_put(lk_works *works, const lk_read_limits *limits, const lk_work *work,
                       lk_error *err);

/* A number of a file as a whole one: of what is none 0, of others the nearest that there is. */
static inline int64_t lk_works_whole(double number) {
	if (isnan(number)) return 0;
	if (number > 9.2e18) return INT64_MAX;
	if (number < -9.2e18) return INT64_MIN;
	return (int64_t)number;
}

#endif
