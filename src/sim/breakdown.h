/* breakdown.h: where a rank's time goes, from the events on it. */
#ifndef LK_SIM_BREAKDOWN_H
#define LK_SIM_BREAKDOWN_H

#include "sim/sim.h"

/* Parts of a step, X(symbol, key, label). */
#define LK_PARTS(X)                            \
	X(GEMM, "gemm", "matrix products")         \
	X(ATTENTION, "attention", "attention")     \
	X(CONV, "conv", "convolution")             \
	X(MEMORY, "memory_bound", "memory-bound")  \
	X(OPTIMIZER, "optimizer", "optimizer")     \
	X(TP, "tp", "tensor-parallel comm.")       \
	X(CP, "cp", "context-parallel comm.")      \
	X(EP, "ep", "expert-parallel comm.")       \
	X(DP, "dp", "data-parallel comm.")         \
	X(PP, "pp", "pipeline send/receive")       \
	X(COPY, "copy", "host-device copies")      \
	X(BUBBLE, "bubble", "pipeline bubble")     \
	X(WAIT, "wait", "waiting for other ranks") \
	X(HOST, "host", "host (launch gaps, step)")

typedef enum lk_part {
#define LK_PART_SYMBOL(symbol, key, label) LK_PART_##symbol,
	LK_PARTS(LK_PART_SYMBOL) LK_PART_COUNT,
#undef LK_PART_SYMBOL
} lk_part;

const char *lk_part_key(lk_part part);
const char *lk_part_label(lk_part part);
/* The part to which computing of a kind (an lk_op_kind) belongs. */
lk_part lk_part_of_kind(unsigned kind);

/* Seconds of each part: exposed ones add up to the time span; hidden ones overlap with compute. */
typedef struct lk_breakdown {
	double exposed_s[LK_PART_COUNT];
	double hidden_s[LK_PART_COUNT];
} lk_breakdown;

/* Split the recorded events (operations of `graph`) between time 0 and `span_ps`. `pipeline`:
 * unexplained idle time is a pipeline bubble, else the host's. For a folded graph pass the fold and
 * its source: macro operations are split like their isolated run. LK_ERR_MEMORY only. */
lk_status lk_breakdown_of(const lk_graph *graph, const lk_fold *fold, const lk_graph *source,
                          const lk_sim_event *events, size_t count, int64_t span_ps, bool pipeline,
                          lk_breakdown *out, lk_error *err);

#endif
