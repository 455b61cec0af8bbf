/* lift_program.c: appends operations to a rank's program, and dependencies to the last
 * operation. */
#include "base/check.h"
#include "trace/capture/capture.h"
#include "trace/lift/lift_internal.h"

lk_status lk_lift_add(lk_lifting *lifting, const lk_lifted_op *op, uint32_t *place) {
	LK_ASSERT(op->stream < LK_STREAMS);
	LK_ASSERT(op->piece_begin <= op->piece_end && op->piece_end <= lifting->out->pieces.count);
	if (!lk_push(&lifting->out->ops)) return lk_oom(lifting->err);
	*place = (uint32_t)lifting->out->ops.count - 1;
	lk_lifted_op *added = lk_last(&lifting->out->ops);
	*added = *op;
	added->dep_begin = added->dep_end = (uint32_t)lifting->out->deps.count;
	return LK_OK;
}

lk_status lk_lift_depend(lk_lifting *lifting, uint32_t op, uint32_t on) {
	/* otherwise the dependencies of operations would overlap */
	LK_CHECK(op + 1 == lifting->out->ops.count && on < op, lifting->err);
	lk_lifted_op *of = &lifting->out->ops.at[op];
	for (uint32_t d = of->dep_begin; d < of->dep_end; d++)
		if (lifting->out->deps.at[d] == on) return LK_OK;
	if (!lk_push(&lifting->out->deps)) return lk_oom(lifting->err);
	*lk_last(&lifting->out->deps) = on;
	of->dep_end = (uint32_t)lifting->out->deps.count;
	return LK_OK;
}

bool lk_lift_communicates(const lk_capture *capture, uint32_t event) {
	LK_ASSERT(event < capture->count);
	return capture->kind[event] == LK_EVENT_KERNEL &&
	       (lk_work_communicates(capture, event) || lk_capture_comm(capture, event));
}
