/* lift_kinds.h: what a piece of device work computes: kind, shape, bytes and operations of a kernel. */
#ifndef LK_TRACE_LIFT_KINDS_H
#define LK_TRACE_LIFT_KINDS_H

#include "trace/lift.h"

/* Fills name, kind, shape, bytes, flops and number format of device work, from the operation that launched it where its shapes
 * are known, else its kind from the kernel's name. Counts what is known and lists what is not in `lifted`. */
void lk_lift_kind(const lk_capture *capture, uint32_t event, lk_op *out, lk_lifted *lifted);

#endif
