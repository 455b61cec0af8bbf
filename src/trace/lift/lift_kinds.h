/* lift_kinds.h: what a piece of device work computes: kind, shape, bytes and operations of a kernel. */
#ifndef LK_TRACE_LIFT_KINDS_H
#define LK_TRACE_LIFT_KINDS_H

#include "trace/capture/capture.h"

/* Which operation's shapes a piece of device work carries. Of all that an operation launches, the longest piece stands for what
 * the operation computes; the others (a reduction of split sums, a fill) are only streams of bytes. */
typedef struct lk_work_kinds {
	uint32_t *owner;         /* [events] of device work: the operation it stands for; LK_NONE */
	uint32_t *operation;     /* [events] likewise, also of the other pieces that the operation launches */
	double known_ns, device_ns; /* device time whose shape is known, and all */
	LK_VEC(struct lk_unknown_work {
		uint32_t name;
		uint32_t count;
		double ns;
	}) unknown;              /* by time, the most first */
} lk_work_kinds;

lk_status lk_work_kinds_find(const lk_capture *capture, lk_work_kinds *out, lk_error *err);
void lk_work_kinds_free(lk_work_kinds *kinds);
/* Fills name, kind, shape, bytes, flops and number format of device work: by the shapes of its owner, else its kind from the
 * kernel's name. */
void lk_work_kind(const lk_capture *capture, const lk_work_kinds *kinds, uint32_t event, lk_op *out);

#endif
