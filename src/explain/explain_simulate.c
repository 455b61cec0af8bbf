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

static lk_status add_path(lk_explanation *explanation, const lk_lifted *lifted, lk_error *err) {
	lk_critical_chain chain;
	int64_t most_ns = (int64_t)llround(explanation->critical.step_s * 1e9);
	lk_status status = lk_critical_find(lifted, most_ns, &chain, err);
	if (status == LK_ERR_INPUT)
		return LK_OK; /* ranks wait in a circle: the problems of the traces report it */
	if (status == LK_OK) status = keep_path(explanation, lifted, &chain, err);
	lk_critical_free(&chain);
	return status;
}

/* ---- gains ---- */

/* Times of a rank that a remedy can shorten. */
enum {
	PART_DATA = 1,
	PART_HOST = 2, /* late launches, and gaps */
	PART_COPIES = 4,
	PART_COMM = 8, /* ranks that arrive sooner keep others waiting for less */
};

struct change {
	const char *kind, *what, *set;
	unsigned parts;
};

/* The change that simulates a remedy; NULL for a remedy without one. */
static const struct change *change_for(const lk_explain_stall *stall) {
	static const struct change changes[] = {
		{"data loading", NULL, "data-loading=off", PART_DATA | PART_HOST | PART_COMM},
		{"launch", NULL, "launch=graphs", PART_HOST | PART_COMM},
		{"copies", "host to device", "remove:Memcpy HtoD*", PART_COPIES | PART_HOST | PART_COMM},
		{"communication", "all_reduce", "overlap=on", PART_COMM},
		{"communication", "reduce_scatter", "overlap=on", PART_COMM},
	};
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		if (strcmp(stall->kind, changes[i].kind) != 0) continue;
		if (!changes[i].what || lk_begins_with(stall->what, changes[i].what)) return &changes[i];
	}
	return NULL;
}

/* Idle time for causes that no simulated change shortens is left out of gains from this share. */
static const double OTHER_CAUSES = 0.005;

/* The most that a change can gain a step, in seconds. The simulated host also spares what it does
 * not change: compilation, allocation, preprocessing. In traces with such causes, a gain is at
 * most what the device loses to those that the change mends. */
static double simulate_most_of(const lk_explanation *explanation, unsigned parts) {
	double ns = 0, steps = 0, others = 0;
	for (int i = 0; i < explanation->rank_count; i++) {
		const lk_explain_rank *rank = &explanation->ranks[i];
		steps += rank->steps;
		others +=
			(double)(rank->idle_one_off_ns + rank->idle_allocation_ns + rank->idle_preparing_ns);
		if (parts & PART_DATA) ns += (double)rank->idle_data_ns;
		if (parts & PART_HOST)
			ns += (double)(rank->idle_host_ns - rank->idle_outside_ns + rank->idle_other_ns);
		if (parts & PART_COPIES) ns += (double)rank->exposed_memory_ns;
		if (parts & PART_COMM) ns += (double)rank->exposed_communication_ns;
	}
	bool bounded = others * 1e-9 / steps >= OTHER_CAUSES * explanation->step_s;
	return bounded ? ns * 1e-9 / steps : INFINITY;
}

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

static lk_status add_gains(lk_explanation *explanation, lk_lifted *lifted, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_whatif_site site;
	lk_whatif_base *base = NULL;
	lk_status status = simulate_site_of(lifted->traces, &arena, &site, err);
	if (status == LK_OK) status = lk_whatif_begin_own(take_graph(lifted), &site, &base, err);
	for (int i = 0; i < explanation->stall_count && status == LK_OK; i++) {
		const struct change *change = change_for(&explanation->stalls[i]);
		double seconds;
		if (!change) continue;
		lk_status asked = lk_whatif_worth(base, change->set, &seconds, err);
		/* the step is one of several: its gain is scaled to the mean step */
		double share = seconds / lk_whatif_base_seconds(base);
		if (asked == LK_OK)
			lk_explain_set_gain(
				explanation, i,
				fmin(share * explanation->step_s, simulate_most_of(explanation, change->parts)),
				change->set);
		else if (asked != LK_ERR_INPUT) status = asked; /* the step does not allow the change */
	}
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

static lk_status ask_lifted(lk_explanation *explanation, lk_lifted *lifted, lk_error *err) {
	lk_error why;
	lk_status status = LK_OK;
	LK_TRY(add_path(explanation, lifted, err));
	if (lifted->graph->ops.count <= MOST_OPERATIONS) status = add_gains(explanation, lifted, &why);
	bound_gains(explanation);
	return left_out(explanation, "what remedies are worth cannot be simulated", status, &why, err);
}

lk_status lk_explain_simulate(lk_explanation *explanation, lk_error *err) {
	const lk_traces *traces = lk_explain_traces(explanation);
	uint32_t step = LK_LIFT_DEVICE;
	lk_status status = LK_OK;
	if (!explanation->kernels || !explanation->step_rows) return LK_OK;
	if (traces->capture[0]->simulated) return LK_OK; /* predict and whatif have its graph */
	if (explanation->annotated)
		status = lk_traced_usual_step(traces, explanation->critical.step, &step, err);
	if (status == LK_ERR_INPUT) return LK_OK; /* not all ranks have the step */
	LK_TRY(status);
	lk_lifted *lifted;
	lk_error why;
	status = lk_lift_following(traces, step, &lifted, &why);
	if (status != LK_OK)
		return left_out(explanation, "no step can be simulated", status, &why, err);
	status = ask_lifted(explanation, lifted, err);
	lk_lifted_free(lifted);
	return status;
}
