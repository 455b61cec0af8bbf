/* trace_kind.h: what a trace file is, by its first bytes. */
#ifndef LK_TRACE_TRACE_KIND_H
#define LK_TRACE_TRACE_KIND_H

#include <stdbool.h>
#include <stddef.h>

/* So many first bytes are enough: lists of events and nodes come after a short head. */
enum { LK_TRACE_HEAD = 1 << 18 };

typedef enum lk_trace_kind {
	LK_TRACE_KINETO,       /* Kineto or Chrome JSON */
	LK_TRACE_NSYS,         /* SQLite, Nsight Systems' export */
	LK_TRACE_PYTORCH_ET,   /* PyTorch's execution trace */
	LK_TRACE_CHAKRA_JSON,
	LK_TRACE_CHAKRA,       /* protobuf */
	LK_TRACE_RECORDING,    /* of lockstep record */
	LK_TRACE_OTHER_JSON,   /* JSON that does not say in its head */
	LK_TRACE_OTHER,
} lk_trace_kind;

lk_trace_kind lk_trace_kind_of(const char *head, size_t size);
/* Whether it is an execution trace: operations without a clock. */
static inline bool lk_trace_is_works(lk_trace_kind kind) {
	return kind == LK_TRACE_PYTORCH_ET || kind == LK_TRACE_CHAKRA_JSON || kind == LK_TRACE_CHAKRA;
}
/* "a PyTorch execution trace". */
const char *lk_trace_kind_name(lk_trace_kind kind);

#endif
