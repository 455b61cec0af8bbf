/* explain_simulate.c: results that need a simulation: the critical path of a step, and the gains of
 * remedies. One step is lifted: the one nearest to the mean of those analysed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/heap.h"
#include "base/sort.h"
#include "base/text.h"
#include "explain/explain.h"
#include "step/traced.h"
#include "whatif/whatif.h"

/* Larger steps are not simulated repeatedly: each remedy costs a run, and some 600 bytes per
 * operation. */
enum { MOST_OPERATIONS = 2000000 };

/* ---- the critical path ---- */

static int simulate_by_seconds(const void *a, const void *b) {
	const lk_critical_part *x = a, *y = b;
	return x->seconds > y->seconds ? -1 : x->seconds < y->seconds;
}

/* The event of an operation on the path: device work, or the longest piece of host time. */
static uint32_t simulate_event_of(const lk_lifted_rank *rank, const lk_lifted_op *op) {
	uint32_t best = op->event;
	int64_t most = -1;
	for (uint32_t p = op->piece_begin; p < op->piece_end; p++)
		if (rank->pieces.at[p].event != LK_NONE && rank->pieces.at[p].dur_ns > most) {
			best = rank->pieces.at[p].event;
			most = rank->pieces.at[p].dur_ns;
		}
	return best;
}

static lk_status keep_path(lk_explanation *explanation, const lk_lifted *lifted,
                           const lk_critical_chain *chain, lk_error *err) {
	lk_critical_part parts[LK_CRITICALS] = {0};
	lk_critical_path path = {.parts = parts};
	for (int k = 0; k < LK_CRITICALS; k++)
		if (chain->ns[k] > 0)
			parts[path.part_count++] =
				(lk_critical_part){lk_critical_name((lk_critical_kind)k), chain->ns[k] * 1e-9};
	lk_sort(parts, (size_t)path.part_count, sizeof *parts, simulate_by_seconds);
	lk_critical_event *events = malloc((chain->ops.count + 1) * sizeof *events);
	if (!events) return lk_oom(err);
	for (size_t i = 0; i < chain->ops.count; i++) {
		const lk_critical_op *at = &chain->ops.at[i];
		const lk_lifted_rank *rank = &lifted->rank[at->rank];
		uint32_t event = simulate_event_of(rank, &rank->ops.at[at->op]);
		if (event != LK_NONE && at->end_ns > at->start_ns)
			events[path.event_count++] = (lk_critical_event){at->rank, event};
	}
	path.events = events;
	lk_status status = lk_explain_set_path(explanation, &path, err);
	free(events);
	return status;
}

static lk_status add_path(lk_explain_work *work, const lk_lifted *lifted, lk_error *err) {
	lk_explanation *explanation = &work->result;
	lk_critical_chain chain;
	int64_t most_ns = (int64_t)llround(explanation->critical.step_s * 1e9);
	lk_status status = lk_critical_find(lifted, work->host, most_ns, &chain, err);
	if (status == LK_ERR_INPUT)
		return LK_OK; /* ranks wait in a circle: the problems of the traces report it */
	if (status == LK_OK) status = keep_path(explanation, lifted, &chain, err);
	lk_critical_free(&chain);
	return status;
}

/* ---- gains ---- */

/* The hardware does not change, so any device will do if the trace's is unknown. */
static lk_status simulate_site_of(const lk_traces *traces, lk_arena *arena, lk_whatif_site *out,
                                  lk_error *err) {
	const lk_device *device = lk_traced_device(traces);
	*out = (lk_whatif_site){0};
	if (!device) device = lk_traced_stand_in();
	int ranks = traces->world > (int32_t)traces->count ? traces->world : (int)traces->count;
	return lk_cluster_simple(arena, device, ranks, 0, 0, &out->cluster, err);
}

/* Keep only the graph: with thousands of ranks the rest is large. */
static lk_graph *take_graph(lk_lifted *lifted) {
	lk_graph *graph = lifted->graph;
	lifted->graph = NULL;
	for (uint32_t r = 0; r < lifted->traces->count; r++) lk_lifted_rank_free(&lifted->rank[r]);
	lk_heap_give_back();
	return graph;
}

/* The gain of one more change, alone and on top of those before it, seconds of the mean step; NAN:
 * the step does not allow it. */
struct gain {
	double alone_s, further_s;
};

static lk_status simulate_gain(const lk_explanation *explanation, const lk_whatif_base *base,
                               const char *const *sets, int before, struct gain *out,
                               lk_error *err) {
	double alone, all = 0, others = 0;
	*out = (struct gain){NAN, NAN};
	lk_status status = lk_whatif_worth(base, &sets[before], 1, &alone, err);
	if (status == LK_ERR_INPUT) return LK_OK;
	LK_TRY(status);
	/* the step is one of several: its gain is scaled to the mean step */
	double scale = explanation->step_s / lk_whatif_base_seconds(base);
	out->alone_s = out->further_s = alone * scale;
	if (!before || !(alone > 0)) return LK_OK;
	status = lk_whatif_worth(base, sets, before, &others, err);
	if (status == LK_OK) status = lk_whatif_worth(base, sets, before + 1, &all, err);
	if (status == LK_OK) out->further_s = fmax(all - others, 0) * scale;
	return status == LK_ERR_INPUT ? LK_OK : status;
}

static int simulate_find(const char *const *sets, int count, const char *set) {
	int at = 0;
	while (at < count && strcmp(sets[at], set) != 0) at++;
	return at;
}

/* Whether the simulated step lacks what the stall is: stacks of Python show a loader that the
 * lifted step does not have. Then the time lost bounds the gain, as for remedies that nothing
 * simulates. */
static bool simulate_misses(const lk_explain_stall *stall, const struct gain *gain) {
	static const double LEAST = 0.1;
	return strcmp(stall->kind, "data loading") == 0 && gain->alone_s < LEAST * stall->lost_s;
}

/* Ask for the gains of all remedies that can be simulated, the cheapest first. */
static lk_status ask_gains(lk_explanation *explanation, const lk_whatif_base *base,
                           const int *order, lk_error *err) {
	enum { SETS = 8 };
	const char *sets[SETS]; /* with a gain */
	int count = 0;
	for (int i = 0; i < explanation->stall_count && count < SETS; i++) {
		const lk_remedy *remedy = lk_explain_remedy(&explanation->stalls[order[i]]);
		struct gain gain;
		if (!remedy->set) continue;
		int same = simulate_find(sets, count, remedy->set);
		sets[count] = remedy->set;
		LK_TRY(simulate_gain(explanation, base, sets, same < count ? 0 : count, &gain, err));
		if (isnan(gain.alone_s) || simulate_misses(&explanation->stalls[order[i]], &gain)) continue;
		lk_explain_set_gain(explanation, order[i],
		                    fmin(gain.alone_s, lk_explain_most(explanation, remedy)),
		                    same < count ? 0 : gain.further_s, remedy->set);
		count += same == count && gain.alone_s > 0;
	}
	return LK_OK;
}

static lk_status add_gains(lk_explanation *explanation, lk_lifted *lifted, const int *order,
                           lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_whatif_site site;
	lk_whatif_base *base = NULL;
	lk_status status = simulate_site_of(lifted->traces, &arena, &site, err);
	if (status == LK_OK) status = lk_whatif_begin_own(take_graph(lifted), &site, &base, err);
	if (status == LK_OK) status = ask_gains(explanation, base, order, err);
	lk_whatif_end(base);
	lk_arena_free(&arena);
	return status;
}

/* ---- bounds ---- */

static double simulate_share_of(const lk_critical_path *path, lk_critical_kind kind) {
	double all = 0, share = 0;
	for (int i = 0; i < path->part_count; i++) {
		all += path->parts[i].seconds;
		if (strcmp(path->parts[i].kind, lk_critical_name(kind)) == 0)
			share += path->parts[i].seconds;
	}
	return share / all;
}

/* An upper bound of a remedy's gain, as a share of the step. If it makes device work shorter and
 * leaves the host as it is, the rest of the critical path without that work remains. For stalls
 * whose remedy moves work or makes ranks arrive sooner, nothing is known: infinity. */
static double simulate_most_gain(const lk_explain_stall *stall, const lk_critical_path *path) {
	double transfers = simulate_share_of(path, LK_CRITICAL_COMMUNICATION) +
	                   simulate_share_of(path, LK_CRITICAL_PEERS),
		   copies = simulate_share_of(path, LK_CRITICAL_COPY);
	if (strcmp(stall->kind, "communication") == 0) return transfers;
	if (strcmp(stall->kind, "copies") == 0) return copies;
	if (strcmp(stall->kind, "slow kernel") == 0)
		return simulate_share_of(path, LK_CRITICAL_COMPUTE);
	if (strcmp(stall->kind, "gaps") == 0)
		return transfers + copies + simulate_share_of(path, LK_CRITICAL_COMPUTE) +
		       simulate_share_of(path, LK_CRITICAL_LAG);
	return INFINITY;
}

static void bound_gains(lk_explanation *explanation) {
	if (!explanation->critical.part_count) return;
	for (int i = 0; i < explanation->stall_count; i++) {
		const lk_explain_stall *stall = &explanation->stalls[i];
		if (isnan(stall->gain_s))
			lk_explain_set_most(explanation, i,
			                    simulate_most_gain(stall, &explanation->critical) *
			                        explanation->step_s);
	}
}

/* Note what is left out because the input does not allow it. */
static lk_status left_out(lk_explanation *explanation, const char *what, lk_status status,
                          const lk_error *why, lk_error *err) {
	char text[512];
	if (status == LK_ERR_INPUT)
		return lk_explain_add_warning(explanation, err, "%s: %s", what,
		                              lk_error_text(why, text, sizeof text));
	if (status != LK_OK) lk_fail_as(err, why);
	return status;
}

static lk_status ask_lifted(lk_explain_work *work, lk_lifted *lifted, const int *order,
                            lk_error *err) {
	lk_explanation *explanation = &work->result;
	lk_error why;
	lk_status status = LK_OK;
	LK_TRY(add_path(work, lifted, err));
	if (lifted->graph->ops.count <= MOST_OPERATIONS)
		status = add_gains(explanation, lifted, order, &why);
	bound_gains(explanation);
	return left_out(explanation, "what remedies are worth cannot be simulated", status, &why, err);
}

static lk_status simulate_step(lk_explain_work *work, const int *order, lk_error *err) {
	lk_explanation *explanation = &work->result;
	const lk_traces *traces = lk_explain_traces(explanation);
	uint32_t step = LK_LIFT_DEVICE;
	lk_status status = LK_OK;
	if (!explanation->kernels || !explanation->step_rows) return LK_OK;
	if (traces->capture[0]->simulated) return LK_OK; /* predict and whatif have its graph */
	if (explanation->annotated && !work->whole)
		status = lk_traced_usual_step(traces, explanation->critical.step, &step, err);
	if (status == LK_ERR_INPUT) return LK_OK; /* not all ranks have the step */
	LK_TRY(status);
	lk_lifted *lifted;
	lk_error why;
	status = lk_lift_following(traces, step, &lifted, &why);
	if (status != LK_OK)
		return left_out(explanation, "no step can be simulated", status, &why, err);
	status = ask_lifted(work, lifted, order, err);
	lk_lifted_free(lifted);
	return status;
}

lk_status lk_explain_simulate(lk_explain_work *work, lk_error *err) {
	int *order = LK_ARRAY(&work->arena, int, work->result.stall_count + 1);
	if (!order) return lk_oom(err);
	lk_explain_order(&work->result, order);
	LK_TRY(simulate_step(work, order, err));
	lk_explain_share(work, order);
	return LK_OK;
}
