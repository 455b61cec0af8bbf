/* critical.c: the critical path through lifted ranks, traced back on measured times. An operation
 * begins when the last of its predecessors has ended: the one before it on its stream, its
 * dependencies, and, for a rendezvous, the last rank's arrival. The path ends where consecutive
 * steps take longest (see lk_traced_step_ps): on the host, or on the device if it falls behind. */
#include "explain/explain.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/sort.h"

struct place {
	uint32_t rank, op;
};

/* Device work, by its end. */
struct ended {
	int64_t end_ns;
	uint32_t op;
};

struct walker {
	const lk_lifted *lifted;
	lk_times (*host)[LK_HOST_SETS]; /* [rank] */
	struct ended **ended;           /* [rank] in order, made when first needed */
	size_t *ended_count;
	bool no_memory;
	int64_t most_ns;    /* the longest allowed path */
	uint32_t **before;  /* [rank][op] the operation before it on its stream; LK_NONE */
	uint32_t **arrival; /* [rank][event] the LAG of a communication event; LK_NONE */
	lk_critical_chain *out;
};

const char *lk_critical_name(lk_critical_kind kind) {
	static const char *const names[] = {
#define NAME(symbol, name) name,
		LK_CRITICAL_KINDS(NAME)
#undef NAME
	};
	LK_ASSERT(kind < LK_CRITICALS);
	return names[kind];
}

static int64_t critical_end_of(const struct walker *walker, struct place p) {
	return lk_traces_time(walker->lifted->traces, p.rank,
	                      walker->lifted->rank[p.rank].ops.at[p.op].end_ns);
}

/* ---- predecessors ---- */

static lk_status index_rank(struct walker *walker, uint32_t r, lk_error *err) {
	const lk_lifted_rank *rank = &walker->lifted->rank[r];
	uint32_t last[LK_STREAMS];
	walker->before[r] = malloc((rank->ops.count + 1) * sizeof **walker->before);
	walker->arrival[r] = malloc((rank->capture->count + 1) * sizeof **walker->arrival);
	if (!walker->before[r] || !walker->arrival[r]) return lk_oom(err);
	for (int s = 0; s < LK_STREAMS; s++) last[s] = LK_NONE;
	for (uint32_t e = 0; e < rank->capture->count; e++) walker->arrival[r][e] = LK_NONE;
	for (uint32_t i = 0; i < rank->ops.count; i++) {
		const lk_lifted_op *op = &rank->ops.at[i];
		walker->before[r][i] = last[op->stream];
		last[op->stream] = i;
		if (op->what == LK_LIFTED_LAG) walker->arrival[r][op->event] = i;
	}
	return LK_OK;
}

static void critical_later(const struct walker *walker, struct place candidate,
                           struct place *best) {
	if (best->op == LK_NONE || critical_end_of(walker, candidate) > critical_end_of(walker, *best))
		*best = candidate;
}

/* Traces seldom say which stream waits for which. Work that was launched long before it began, and
 * began as soon as other work of its device had ended, waited for that; "as soon" is this. */
static const int64_t HANDOVER_NS = 20000;

LK_ORDER_BY(ended_order, struct ended, end_ns, op)

static bool critical_list_ended(struct walker *walker, uint32_t r) {
	const lk_lifted_rank *rank = &walker->lifted->rank[r];
	struct ended *at = walker->ended[r] = malloc((rank->ops.count + 1) * sizeof *at);
	if (!at) return false;
	for (uint32_t i = 0; i < rank->ops.count; i++) {
		const lk_lifted_op *op = &rank->ops.at[i];
		bool device = op->what == LK_LIFTED_DEVICE || op->what == LK_LIFTED_COMM ||
		              op->what == LK_LIFTED_CARRIED;
		if (device) at[walker->ended_count[r]++] = (struct ended){op->end_ns, i};
	}
	lk_sort(at, walker->ended_count[r], sizeof *at, ended_order);
	return true;
}

/* What work whose lag is at `at` waited for: `known`, or the work of the device that ended just
 * before it began. */
static struct place critical_handover(struct walker *walker, struct place at, struct place known) {
	const lk_lifted_rank *rank = &walker->lifted->rank[at.rank];
	const lk_lifted_op *op = &rank->ops.at[at.op];
	if (known.op == LK_NONE || known.rank != at.rank ||
	    op->end_ns - rank->ops.at[known.op].end_ns <= HANDOVER_NS)
		return known;
	if (!walker->ended[at.rank] && !critical_list_ended(walker, at.rank)) {
		walker->no_memory = true;
		return known;
	}
	const struct ended *ended = walker->ended[at.rank];
	size_t low = 0, high = walker->ended_count[at.rank];
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (ended[middle].end_ns <= op->end_ns) low = middle + 1;
		else high = middle;
	}
	while (low > 0 && rank->ops.at[ended[low - 1].op].event == op->event) low--;
	bool handed = low > 0 && op->end_ns - ended[low - 1].end_ns <= HANDOVER_NS;
	return handed ? (struct place){at.rank, ended[low - 1].op} : known;
}

static struct place critical_before(struct walker *walker, struct place at) {
	const lk_lifted_rank *rank = &walker->lifted->rank[at.rank];
	const lk_lifted_op *op = &rank->ops.at[at.op];
	struct place best = {at.rank, LK_NONE};
	uint32_t stream_before = walker->before[at.rank][at.op];
	/* What untraced ranks did before this rank's arrival is unknown: the path waits for them from
	 * the arrival on, and continues before it through this rank. */
	if (op->what == LK_LIFTED_PEERS && walker->arrival[at.rank][op->event] != LK_NONE)
		return (struct place){at.rank, walker->arrival[at.rank][op->event]};
	/* A whole trace ends with the device's work; the host may be cut off there. */
	if (op->what != LK_LIFTED_END && stream_before != LK_NONE)
		critical_later(walker, (struct place){at.rank, stream_before}, &best);
	for (uint32_t d = op->dep_begin; d < op->dep_end; d++)
		critical_later(walker, (struct place){at.rank, rank->deps.at[d]}, &best);
	if (op->what == LK_LIFTED_END && stream_before != LK_NONE)
		critical_later(walker, (struct place){at.rank, stream_before}, &best);
	if (op->what == LK_LIFTED_LAG || op->what == LK_LIFTED_WAIT)
		return critical_handover(walker, at, best);
	if (op->what != LK_LIFTED_COMM || op->peers) return best;
	const lk_traces *traces = walker->lifted->traces;
	const lk_match *match = lk_traces_match(traces, at.rank, op->event);
	LK_ASSERT(match != NULL); /* otherwise the lift would have given it peers */
	for (uint32_t m = match->begin; m < match->end; m++) {
		const lk_match_member *member = &traces->members.at[m];
		uint32_t arrived = walker->arrival[member->capture][member->event];
		if (arrived != LK_NONE)
			critical_later(walker, (struct place){member->capture, arrived}, &best);
	}
	return best;
}

/* ---- where its time goes ---- */

static lk_critical_kind host_kind(const lk_host_piece *piece) {
	if (piece->call == LK_CALL_SYNC) return LK_CRITICAL_SYNC;
	if (piece->term == LK_T4) return LK_CRITICAL_LAUNCH;
	return piece->term == LK_T1 ? LK_CRITICAL_BETWEEN : LK_CRITICAL_OPERATIONS;
}

/* What the host did from `start` on, by name; without one, by where it was. */
static void account_host(struct walker *walker, struct place at, int64_t start, double ns) {
	static const lk_critical_kind named[LK_HOST_SETS] = {
		[LK_HOST_LOADING] = LK_CRITICAL_LOADING,
		[LK_HOST_ONE_OFF] = LK_CRITICAL_ONE_OFF,
		[LK_HOST_ALLOCATION] = LK_CRITICAL_ALLOCATION,
		[LK_HOST_PREPARING] = LK_CRITICAL_PREPARING,
		[LK_HOST_SAVING] = LK_CRITICAL_SAVING,
		[LK_HOST_COLLECTING] = LK_CRITICAL_COLLECTING,
		[LK_HOST_COMPUTING] = LK_CRITICAL_COMPUTING,
		[LK_HOST_AWAITING] = LK_CRITICAL_AWAITING};
	const lk_lifted_rank *rank = &walker->lifted->rank[at.rank];
	const lk_lifted_op *op = &rank->ops.at[at.op];
	int64_t own = start - (critical_end_of(walker, at) - op->end_ns);
	double sum = 0;
	for (int c = 0; walker->host && c < LK_HOST_SETS; c++) {
		double part = (double)lk_times_between(&walker->host[at.rank][c], own, own + (int64_t)ns);
		walker->out->ns[named[c]] += part;
		ns -= part;
	}
	for (uint32_t p = op->piece_begin; p < op->piece_end; p++)
		sum += (double)rank->pieces.at[p].dur_ns;
	for (uint32_t p = op->piece_begin; p < op->piece_end; p++)
		walker->out->ns[host_kind(&rank->pieces.at[p])] +=
			sum > 0 ? ns * (double)rank->pieces.at[p].dur_ns / sum : 0;
	if (!(sum > 0)) walker->out->ns[LK_CRITICAL_OPERATIONS] += ns;
}

static void critical_account(struct walker *walker, struct place at, int64_t start, double ns) {
	const lk_lifted_rank *rank = &walker->lifted->rank[at.rank];
	const lk_lifted_op *op = &rank->ops.at[at.op];
	switch (op->what) {
	case LK_LIFTED_HOST: account_host(walker, at, start, ns); return;
	case LK_LIFTED_LAG:
	case LK_LIFTED_WAIT: walker->out->ns[LK_CRITICAL_LAG] += ns; return;
	case LK_LIFTED_COMM: walker->out->ns[LK_CRITICAL_COMMUNICATION] += ns; return;
	case LK_LIFTED_PEERS: walker->out->ns[LK_CRITICAL_PEERS] += ns; return;
	case LK_LIFTED_DEVICE:
	case LK_LIFTED_CARRIED:
		walker->out->ns[rank->capture->kind[op->event] == LK_EVENT_KERNEL ? LK_CRITICAL_COMPUTE
		                                                                  : LK_CRITICAL_COPY] += ns;
		return;
	default: walker->out->ns[LK_CRITICAL_OTHER] += ns;
	}
}

/* ---- the walk ---- */

/* A rank's last work: the end of its step on the host, or of the device's work, if that takes
 * longer, counted from the end of the work carried into the step. */
static struct place critical_last(const struct walker *walker, uint32_t r) {
	const lk_lifted_rank *rank = &walker->lifted->rank[r];
	struct place host = {r, rank->end}, device = {r, LK_NONE};
	int64_t begin = lk_traces_time(walker->lifted->traces, r, rank->from_ns), since = begin;
	for (uint32_t i = 0; i < rank->ops.count; i++) {
		const lk_lifted_op *op = &rank->ops.at[i];
		struct place at = {r, i};
		if (op->what != LK_LIFTED_DEVICE && op->what != LK_LIFTED_COMM &&
		    op->what != LK_LIFTED_CARRIED)
			continue;
		critical_later(walker, at, &device);
		if (op->what == LK_LIFTED_CARRIED && critical_end_of(walker, at) > since)
			since = critical_end_of(walker, at);
	}
	if (device.op == LK_NONE) return host;
	return critical_end_of(walker, device) - since > critical_end_of(walker, host) - begin ? device
	                                                                                       : host;
}

static lk_status critical_walk(struct walker *walker, lk_error *err) {
	struct place at = {0, LK_NONE};
	for (uint32_t r = 0; r < walker->lifted->traces->count; r++)
		critical_later(walker, critical_last(walker, r), &at);
	LK_ASSERT(at.op != LK_NONE);
	int64_t until = critical_end_of(walker, at), earliest = until - walker->most_ns;
	size_t most = 1;
	for (uint32_t r = 0; r < walker->lifted->traces->count; r++)
		most += walker->lifted->rank[r].ops.count;
	/* Ranks whose collectives came in different orders wait in a circle: stop at as many operations
	 * as there are. */
	while (walker->out->ops.count < most) {
		struct place from = critical_before(walker, at);
		const lk_lifted_rank *rank = &walker->lifted->rank[at.rank];
		int64_t start = from.op == LK_NONE
		                    ? lk_traces_time(walker->lifted->traces, at.rank, rank->from_ns)
		                    : critical_end_of(walker, from);
		/* Clocks are rounded: a predecessor may seem to end later. */
		if (start > until) start = until;
		if (start < earliest) start = earliest;
		if (!lk_push(&walker->out->ops)) return lk_oom(err);
		*lk_last(&walker->out->ops) = (lk_critical_op){at.rank, at.op, start, until};
		critical_account(walker, at, start, (double)(until - start));
		walker->out->length_ns += (double)(until - start);
		if (from.op == LK_NONE || start == earliest) return LK_OK;
		walker->out->hops += from.rank != at.rank;
		at = from;
		until = start;
	}
	return lk_fail(err, LK_ERR_INPUT, walker->lifted->traces->capture[0]->path,
	               "the ranks' collectives wait for one another in a circle");
}

static void reverse(lk_critical_chain *chain) {
	for (size_t i = 0, j = chain->ops.count; i + 1 < j; i++) {
		lk_critical_op op = chain->ops.at[i];
		chain->ops.at[i] = chain->ops.at[--j];
		chain->ops.at[j] = op;
	}
}

lk_status lk_critical_find(const lk_lifted *lifted, lk_times (*host)[LK_HOST_SETS], int64_t most_ns,
                           lk_critical_chain *out, lk_error *err) {
	uint32_t ranks = lifted->traces->count;
	*out = (lk_critical_chain){0};
	struct walker w = {.lifted = lifted,
	                   .host = host,
	                   .most_ns = most_ns,
	                   .out = out,
	                   .ended = calloc(ranks, sizeof *w.ended),
	                   .ended_count = calloc(ranks, sizeof *w.ended_count),
	                   .before = calloc(ranks, sizeof *w.before),
	                   .arrival = calloc(ranks, sizeof *w.arrival)};
	bool memory = w.ended && w.ended_count && w.before && w.arrival;
	lk_status status = memory ? LK_OK : lk_oom(err);
	for (uint32_t r = 0; r < ranks && status == LK_OK; r++) status = index_rank(&w, r, err);
	if (status == LK_OK) status = critical_walk(&w, err);
	if (w.no_memory) status = lk_oom(err);
	for (uint32_t r = 0; r < ranks; r++) {
		if (w.before) free(w.before[r]);
		if (w.arrival) free(w.arrival[r]);
		if (w.ended) free(w.ended[r]);
	}
	free(w.ended);
	free(w.ended_count);
	free(w.before);
	free(w.arrival);
	if (status == LK_OK) reverse(out);
	else lk_critical_free(out);
	return status;
}

void lk_critical_free(lk_critical_chain *chain) {
	lk_vec_free(&chain->ops);
}
