/* lift_settle.c: the time that is an operation's own. In the order of the program,
 *
 *     ready_i = max(end of the operation before it on its stream, ends of all that it waits for)
 *     own_i   = max(0, end_i - ready_i)        end_i' = ready_i + own_i
 *
 * with measured ends on the right, and the ends end' that come out for those that i waits for. So a
 * simulation gives end', and end' = end wherever no dependency contradicts the times. Work that
 * overlaps with the work before it on its stream has what is left of it. A lag runs from ready_i to
 * the start of its work, so work itself has its own duration. */
#include <stdlib.h>

#include "base/check.h"
#include "trace/lift/lift_internal.h"

struct settling {
	lk_lifted_rank *rank;
	int64_t *ends;              /* [ops] end' */
	int64_t stream[LK_STREAMS]; /* end' of the last operation of each */
	int64_t slack_ns;
	uint32_t kept; /* dependencies */
};

/* Drop dependencies that ended after the operation itself; return when the operation was ready. */
static int64_t settle_ready(struct settling *settling, lk_lifted_op *op) {
	int64_t ready = settling->stream[op->stream];
	uint32_t *deps = settling->rank->deps.at, begin = settling->kept;
	for (uint32_t d = op->dep_begin; d < op->dep_end; d++) {
		int64_t end = settling->ends[deps[d]];
		if (op->what != LK_LIFTED_END && end > op->end_ns + settling->slack_ns) continue;
		if (end > ready) ready = end;
		deps[settling->kept++] = deps[d];
	}
	op->dep_begin = begin;
	op->dep_end = settling->kept;
	return ready;
}

/* Scale pieces to the operation's own time. Waiting comes before work, so the first pieces are
 * reduced. */
static void settle_pieces(lk_lifted_rank *rank, const lk_lifted_op *op, int64_t own) {
	int64_t sum = 0;
	for (uint32_t p = op->piece_begin; p < op->piece_end; p++) sum += rank->pieces.at[p].dur_ns;
	if (own > sum) rank->pieces.at[op->piece_begin].dur_ns += own - sum;
	for (uint32_t p = op->piece_begin; p < op->piece_end && sum > own; p++) {
		int64_t *dur = &rank->pieces.at[p].dur_ns, less = sum - own < *dur ? sum - own : *dur;
		*dur -= less;
		sum -= less;
	}
}

static int64_t settle_op(struct settling *settling, lk_lifted_op *op) {
	int64_t ready = settle_ready(settling, op), end = op->end_ns > ready ? op->end_ns : ready;
	switch (op->what) {
	case LK_LIFTED_HOST: settle_pieces(settling->rank, op, end - ready); return end;
	case LK_LIFTED_WAIT: op->start_ns = op->end_ns = ready; return ready;
	case LK_LIFTED_END: return ready;
	case LK_LIFTED_COMM:
		if (!op->peers) return (ready > op->met_ns ? ready : op->met_ns) + op->end_ns - op->met_ns;
		op->met_ns = ready < op->end_ns ? ready : op->end_ns;
		return end;
	default: /* device work starts no earlier than it can; other operations exactly then */
		if (op->start_ns < ready || (op->what != LK_LIFTED_DEVICE && op->what != LK_LIFTED_CARRIED))
			op->start_ns = ready < op->end_ns ? ready : op->end_ns;
		return ready + op->end_ns - op->start_ns;
	}
}

lk_status lk_lift_settle(lk_lifted_rank *rank, int64_t slack_ns, lk_error *err) {
	struct settling settling = {.rank = rank, .slack_ns = slack_ns};
	settling.ends = malloc((rank->ops.count + 1) * sizeof *settling.ends);
	if (!settling.ends) return lk_oom(err);
	for (unsigned s = 0; s < LK_STREAMS; s++) settling.stream[s] = rank->from_ns;
	for (size_t i = 0; i < rank->ops.count; i++) {
		lk_lifted_op *op = &rank->ops.at[i];
		settling.ends[i] = settling.stream[op->stream] = settle_op(&settling, op);
	}
	rank->deps.count = settling.kept;
	free(settling.ends);
	return LK_OK;
}
