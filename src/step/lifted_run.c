/* lifted_run.c: lifted graphs and the precedence engine. */
#include "base/arena.h"
#include "step/traced.h"

#include "base/intervals.h"
#include "base/check.h"

lk_status lk_lifted_costs(lk_arena *arena, const lk_graph *graph, lk_costs *out, lk_error *err) {
	*out = (lk_costs){
		.variants = 1, .ops = graph->ops.count, .at = LK_ARRAY(arena, lk_cost, graph->ops.count)};
	if (!out->at) return lk_oom(err);
	for (uint32_t op = 0; op < graph->ops.count; op++)
		out->at[op].duration_ps = out->at[op].tail_ps = graph->ops.measured_ps[op];
	return LK_OK;
}

static lk_status new_table(lk_arena *arena, const lk_lifted *lifted, lk_ran ***out, lk_error *err) {
	uint32_t ranks = lifted->traces->count;
	lk_ran **table = LK_ARRAY(arena, lk_ran *, ranks);
	for (uint32_t r = 0; table && r < ranks; r++)
		if (!(table[r] = LK_ARRAY(arena, lk_ran, lifted->rank[r].ops.count))) return lk_oom(err);
	*out = table;
	return table ? LK_OK : lk_oom(err);
}

lk_status lk_lifted_run(lk_arena *arena, const lk_lifted *lifted, lk_ran ***out, lk_error *err) {
	uint32_t ranks = lifted->traces->count, *record = LK_ARRAY(arena, uint32_t, ranks);
	lk_costs costs;
	if (!record) return lk_oom(err);
	for (uint32_t r = 0; r < ranks; r++) record[r] = r;
	LK_TRY(lk_lifted_costs(arena, lifted->graph, &costs, err));
	LK_TRY(new_table(arena, lifted, out, err));
	lk_sim_options options = {.record = record, .record_count = ranks};
	lk_sim_result result;
	LK_TRY(lk_sim_run(lifted->graph, &costs, &options, &result, err));
	for (size_t i = 0; i < result.events.count; i++) {
		const lk_sim_event *event = &result.events.at[i];
		uint32_t rank = event->record, first = lifted->first_op[rank];
		if (event->op >= first && event->op - first < lifted->rank[rank].ops.count)
			(*out)[rank][event->op - first] =
				(lk_ran){event->ready_ps, event->start_ps, event->end_ps};
	}
	lk_sim_result_free(&result);
	return LK_OK;
}

int64_t lk_lifted_step_ps(const lk_lifted *lifted, const lk_ran *ran, uint32_t rank) {
	return ran[lifted->rank[rank].end].end_ps - lifted->begin_ps[rank];
}

/* ---- what devices did ---- */

static bool lifted_run_is_work(const lk_lifted_op *op) {
	return op->what == LK_LIFTED_DEVICE || op->what == LK_LIFTED_COMM;
}

/* Start of a communication operation's kernel: the end of the lag before it. */
static int64_t lifted_run_arrival(const lk_lifted_rank *rank, const lk_ran *ran, uint32_t i) {
	uint32_t lag = i;
	while (lag > 0 && rank->ops.at[lag].what != LK_LIFTED_LAG) lag--;
	return ran[lag].end_ps;
}

/* The time in which an operation occupies its stream. A communication kernel runs from its arrival
 * on. */
static lk_interval lifted_run_busy(const lk_lifted_rank *rank, const lk_ran *ran, uint32_t i) {
	const lk_lifted_op *op = &rank->ops.at[i];
	if (!ran) return (lk_interval){op->start_ns * 1000, op->end_ns * 1000};
	if (op->what == LK_LIFTED_COMM)
		return (lk_interval){lifted_run_arrival(rank, ran, i), ran[i].end_ps};
	return (lk_interval){ran[i].start_ps, ran[i].end_ps};
}

lk_status lk_lifted_use(const lk_lifted *lifted, const lk_ran *ran, uint32_t r, lk_device_use *out,
                        lk_error *err) {
	LK_ASSERT(r < lifted->traces->count);
	const lk_lifted_rank *rank = &lifted->rank[r];
	lk_intervals compute = {0}, comm = {0}, all = {0}, alone = {0};
	bool fine = true;
	*out = (lk_device_use){0};
	for (uint32_t i = 0; fine && i < rank->ops.count; i++) {
		if (!lifted_run_is_work(&rank->ops.at[i])) continue;
		lk_interval at = lifted_run_busy(rank, ran, i);
		out->busy[rank->ops.at[i].stream] += (double)(at.end - at.start) * 1e-3;
		fine = lk_intervals_add(rank->ops.at[i].what == LK_LIFTED_COMM ? &comm : &compute, at.start,
		                        at.end) &&
		       lk_intervals_add(&all, at.start, at.end);
	}
	lk_intervals_sort(&compute);
	lk_intervals_sort(&comm);
	lk_intervals_sort(&all);
	fine = fine && lk_intervals_minus(&comm, &compute, &alone);
	out->exposed = (double)lk_intervals_length(&alone) * 1e-3;
	if (all.count)
		out->idle =
			(double)(all.at[all.count - 1].end - all.at[0].start - lk_intervals_length(&all)) *
			1e-3;
	lk_vec_free(&compute);
	lk_vec_free(&comm);
	lk_vec_free(&all);
	lk_vec_free(&alone);
	return fine ? LK_OK : lk_oom(err);
}
