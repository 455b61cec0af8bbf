/* versus_causes.c: changes of the job that would give the measured step. Each cause that lockstep
 * knows is predicted, and its step compared with the measured one by time and by work:
 *
 *     time = (sum over computing, communication, copies, idle of |predicted - measured|
 *             + sum over work of one phase, kind and shape of |predicted - measured| / 2) / step
 *     work = sum over work of one phase, kind and shape of
 *            |number predicted - number measured| * duration of one / step
 *
 * Time is first what each has of the step, then the sums of durations, which also differ where work
 * is hidden. The probability of a cause is
 *
 *     prior odds / ((time + NOISE)^2 (work + NOISE)^2)
 *
 * over their sum: predictions err by shares of all sizes, so the agreement counts by its ratio. How
 * often a kernel ran does not depend on how well its duration was predicted: a run that is slower
 * all over still shows which work it has. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/sort.h"
#include "base/text.h"
#include "diff/diff.h"
#include "versus/versus.h"

static const double NOISE = 2e-3;         /* share of a step that nobody explains */
static const double UNCHANGED_ODDS = 0.3; /* that the job is as stated, and the prediction errs */
static const double HALF = 0.5;           /* weight of hidden work */

/* What is compared of a step. */
enum { COMPUTING, COMMUNICATING, COPYING, IDLE, SHARES };

/* How far a step is from the measured one. */
struct distance {
	double time, work;
};

/* One of the causes, seen by one thread. */
struct tried {
	bool ran, closer; /* its step is closer to the measured one than that of the job as it is */
	double weight;
	lk_versus_cause cause;
	lk_arena texts;
};

struct search {
	lk_compared_run *run;
	const lk_explanation *measured;
	double shares[SHARES]; /* measured, seconds */
	struct distance unchanged;
	struct tried *tried; /* [lk_predict_causes()] */
};

/* ---- a predicted step ---- */

/* The row of one operation of a graph; false for what is no work of the device. The shape is NULL
 * when memory runs out. */
static bool operation_of(lk_arena *arena, const lk_graph *graph, uint32_t op,
                         lk_explain_operation *out) {
	const lk_ops *ops = &graph->ops;
	lk_op_kind kind = (lk_op_kind)ops->kind[op];
	if (kind == LK_OP_MACRO || kind == LK_OP_HOST) return false;
	const double shape[] = {ops->m[op], ops->n[op], ops->k[op], ops->batch[op]};
	double bytes = lk_op_is_comm(kind) ? ops->bytes[op] : 0;
	*out = (lk_explain_operation){
		.phase = lk_operation_phase(ops->phase[op]),
		.part = lk_operation_part(kind, ops->phase[op]),
		.kind = lk_op_kind_name(kind),
		.shape = lk_operation_shape(arena, shape, bytes),
		.group = "",
		.name = "",
		.module = "",
		.ranks = lk_op_is_collective(kind) ? (int)graph->ranks.group[ops->group[op]].size : 0,
		.bytes = bytes};
	return true;
}

/* Work of a step by phase, kind and shape: sums of durations over its recorded ranks. */
static lk_status operations_of(lk_arena *arena, const lk_step *step, lk_explanation *out,
                               lk_error *err) {
	const lk_graph *const graphs[] = {lk_step_simulated(step), step->graph};
	lk_op_time *times[2];
	for (int g = 0; g < 2; g++) times[g] = LK_ARRAY(arena, lk_op_time, graphs[g]->ops.count);
	lk_explain_operation *rows =
		LK_ARRAY(arena, lk_explain_operation, graphs[0]->ops.count + graphs[1]->ops.count);
	lk_explain_rank *ranks = LK_ARRAY(arena, lk_explain_rank, step->record_count);
	if (!times[0] || !times[1] || !rows || !ranks) return lk_oom(err);
	LK_TRY(lk_step_op_times(step, times[0], times[1], err));
	int count = 0;
	for (int g = 0; g < 2; g++)
		for (uint32_t op = 0; op < graphs[g]->ops.count; op++) {
			lk_explain_operation *row = &rows[count];
			if (!(times[g][op].count > 0) || !operation_of(arena, graphs[g], op, row)) continue;
			if (!row->shape) return lk_oom(err);
			row->count = (uint64_t)times[g][op].count;
			row->time_ns = row->own_ns = times[g][op].ps * 1e-3;
			count++;
		}
	for (uint32_t r = 0; r < step->record_count; r++)
		ranks[r] = (lk_explain_rank){.rank = (int)step->record[r], .steps = 1};
	out->rank_count = (int)step->record_count;
	out->ranks = ranks;
	out->operation_count = lk_operations_join(rows, count);
	out->operations = rows;
	return LK_OK;
}

static void shares_of_step(const lk_step *step, double out[SHARES]) {
	const double *exposed = step->breakdown.exposed_s;
	memset(out, 0, SHARES * sizeof *out);
	for (int part = 0; part < LK_PART_COUNT; part++) switch (part) {
		case LK_PART_TP:
		case LK_PART_CP:
		case LK_PART_EP:
		case LK_PART_DP:
		case LK_PART_PP: out[COMMUNICATING] += exposed[part]; break;
		case LK_PART_COPY: out[COPYING] += exposed[part]; break;
		case LK_PART_BUBBLE:
		case LK_PART_WAIT:
		case LK_PART_HOST: out[IDLE] += exposed[part]; break;
		default: out[COMPUTING] += exposed[part]; break;
		}
}

/* ---- agreement ---- */

static double shares_off(const struct search *search, const double shares[SHARES]) {
	double off = 0;
	for (int i = 0; i < SHARES; i++) off += fabs(shares[i] - search->shares[i]);
	return off;
}

static double sums_off(const lk_diff_operation *rows, int count) {
	double off = 0;
	for (int i = 0; i < count; i++) off += fabs(rows[i].before_sum_s - rows[i].after_sum_s);
	return off;
}

static double work_off(const lk_diff_operation *rows, int count) {
	double off = 0;
	for (int i = 0; i < count; i++) {
		const lk_diff_operation *row = &rows[i];
		double one_s = row->before_count > 0 ? row->before_sum_s / row->before_count
		                                     : row->after_sum_s / fmax(row->after_count, 1e-9);
		off += fabs(row->before_count - row->after_count) * one_s;
	}
	return off;
}

static double distance_weight(const struct distance *off) {
	double time = off->time + NOISE, work = off->work + NOISE;
	return 1 / (time * time * work * work);
}

static lk_status step_off(const struct search *search, lk_arena *arena, const lk_step *step,
                          struct distance *off, lk_error *err) {
	lk_explanation predicted = {.step_s = step->step_s};
	const lk_diff_operation *rows = NULL;
	double shares[SHARES];
	int count = 0;
	LK_TRY(operations_of(arena, step, &predicted, err));
	LK_TRY(lk_diff_pair(arena, &predicted, search->measured, &rows, &count, NULL, err));
	shares_of_step(step, shares);
	double step_s = search->measured->step_s;
	off->time = (shares_off(search, shares) + HALF * sums_off(rows, count)) / step_s;
	off->work = work_off(rows, count) / step_s;
	return LK_OK;
}

/* ---- causes ---- */

static lk_status search_see(void *context, const lk_cause_step *cause, lk_error *err) {
	const struct search *search = context;
	struct tried *tried = &search->tried[cause->index];
	lk_arena arena = LK_ARENA_INIT;
	struct distance off;
	/* what the traces name needs no guess */
	if (cause->of_device && *search->measured->ranks[0].device) return LK_OK;
	tried->ran = true;
	lk_status status = step_off(search, &arena, cause->step, &off, err);
	lk_arena_free(&arena);
	LK_TRY(status);
	tried->weight = distance_weight(&off);
	/* a cause of memory alone leaves the step as it is */
	tried->closer = tried->weight > distance_weight(&search->unchanged) * (1 + 1e-6);
	tried->cause = (lk_versus_cause){.cause = cause->key,
	                                 .what = cause->what,
	                                 .option = lk_arena_strdup(&tried->texts, cause->option),
	                                 .check = cause->check,
	                                 .step_time_s = cause->step->step_s,
	                                 .time_off = off.time,
	                                 .work_off = off.work,
	                                 .share = cause->prior / (1 - cause->prior) * tried->weight};
	return tried->cause.option ? LK_OK : lk_oom(err);
}

static int causes_by_share(const void *a, const void *b) {
	const lk_versus_cause *x = a, *y = b;
	if (x->share != y->share) return x->share > y->share ? -1 : 1;
	return strcmp(x->cause, y->cause);
}

/* Those below one in a hundred are left out. */
static lk_status search_take(struct search *search, lk_error *err) {
	lk_versus *out = &search->run->result;
	size_t count = lk_predict_causes();
	double unchanged = UNCHANGED_ODDS * distance_weight(&search->unchanged), sum = unchanged;
	for (size_t i = 0; i < count; i++)
		if (search->tried[i].closer) sum += search->tried[i].cause.share;
	lk_versus_cause *rows = LK_ARRAY(&search->run->arena, lk_versus_cause, count);
	if (!rows) return lk_oom(err);
	for (size_t i = 0; i < count; i++) {
		const struct tried *tried = &search->tried[i];
		out->tried += tried->ran;
		if (!tried->closer || tried->cause.share / sum < 0.01) continue;
		lk_versus_cause *row = &rows[out->cause_count++];
		*row = tried->cause;
		row->share /= sum;
		row->option = lk_arena_strdup(&search->run->arena, row->option);
		if (!row->option) return lk_oom(err);
	}
	out->unchanged_share = unchanged / sum;
	lk_sort(rows, (size_t)out->cause_count, sizeof *rows, causes_by_share);
	out->causes = rows;
	return LK_OK;
}

lk_status lk_versus_causes(lk_compared_run *run, const lk_explanation *measured,
                           const lk_predict_request *job, int threads, lk_error *err) {
	static const size_t at[SHARES] = {
		offsetof(lk_explain_rank, compute_ns), offsetof(lk_explain_rank, exposed_communication_ns),
		offsetof(lk_explain_rank, exposed_memory_ns), offsetof(lk_explain_rank, idle_ns)};
	struct search search = {.run = run, .measured = measured};
	lk_arena arena = LK_ARENA_INIT;
	for (int i = 0; i < SHARES; i++) search.shares[i] = lk_diff_mean_of(measured, at[i]);
	size_t count = lk_predict_causes();
	search.tried = calloc(count, sizeof *search.tried);
	if (!search.tried) return lk_oom(err);
	lk_status status =
		step_off(&search, &arena, lk_prediction_step(run->predicted), &search.unchanged, err);
	lk_arena_free(&arena);
	if (status == LK_OK) status = lk_predict_each_cause(job, threads, search_see, &search, err);
	if (status == LK_OK) status = search_take(&search, err);
	run->result.unchanged_time_off = search.unchanged.time;
	run->result.unchanged_work_off = search.unchanged.work;
	for (size_t i = 0; i < count; i++) lk_arena_free(&search.tried[i].texts);
	free(search.tried);
	return status;
}
