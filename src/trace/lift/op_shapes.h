/* op_shapes.h: what an operation of PyTorch asks of a device, from its name and the shapes and types of its inputs. */
#ifndef LK_TRACE_OP_SHAPES_H
#define LK_TRACE_OP_SHAPES_H

#include "graph/graph.h"

typedef enum lk_shapes_known {
	LK_SHAPES_UNKNOWN,  /* no rule for it, or shapes that the rule does not fit: look at its parts, or count it */
	LK_SHAPES_NOTHING,  /* launches nothing: a view, an allocation, a question */
	LK_SHAPES_WORK,     /* `op` holds kind, dtype, shape, flops and bytes */
	LK_SHAPES_SYNC,     /* the same, and the host waits for its result: aten::item */
} lk_shapes_known;

/* Texts are those of lk_capture and lk_works: "[[512,13],[13,512],[512]]", "[float,float,float]"; types may be NULL or
 * "", and then count as float. `outputs`, the shapes of results, may be NULL: a forward convolution is known only with
 * it, because its stride is no part of the shapes. Fills kind, dtype, m, n, k, batch, flops, bytes and nothing else. */
lk_shapes_known lk_op_from_shapes(const char *name, const char *dims, const char *types, const char *outputs,
								  lk_op *out);

#endif
