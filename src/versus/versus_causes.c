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
#include "sim/timeline.h"
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

struct search {
	lk_compared_run *run;
	const lk_explanation *measured;
	double shares[SHARES]; /* measured, seconds */
	struct distance unchanged;
	LK_VEC(lk_versus_cause) causes;
};

/* ---- a predicted step ---- */

/* Returns false for what is no work of the device. The shape is NULL when memory runs out. */
static bool operation_of_slice(lk_arena *arena, const lk_timeline *timeline, const lk_slice *slice,
                               lk_explain_operation *out) {
	const char *category = lk_intern_text(timeline->names, slice->category),
			   *phase = lk_intern_text(timeline->names, slice->phase);
	unsigned kind = 0, of = 0;
	while (kind < LK_OP_COUNT && strcmp(category, lk_op_kind_name((lk_op_kind)kind)) != 0) kind++;
	while (of < LK_PHASES && strcmp(phase, lk_phase_name((lk_phase)of)) != 0) of++;
	if (kind == LK_OP_COUNT || of == LK_PHASES || kind == LK_OP_WAIT) return false;
	const double shape[] = {slice->m, slice->n, slice->k, slice->batch};
	*out = (lk_explain_operation){
		.phase = lk_operation_phase(of),
		.part = lk_operation_part(kind, of),
		.kind = lk_op_kind_name((lk_op_kind)kind),
		.shape = lk_operation_shape(arena, shape, lk_op_is_comm(kind) ? slice->bytes : 0),
		.group = "",
		.name = "",
		.ranks = (int)slice->ranks,
		.bytes = slice->bytes};
	return true;
}

/* Work of a timeline by phase, kind and shape: sums of durations over its ranks. */
static lk_status operations_of(lk_arena *arena, const lk_timeline *timeline, lk_explanation *out,
                               lk_error *err) {
	lk_explain_operation *rows = LK_ARRAY(arena, lk_explain_operation, timeline->slices.count);
	lk_explain_rank *ranks = LK_ARRAY(arena, lk_explain_rank, timeline->tracks.count);
	if (!rows || !ranks) return lk_oom(err);
	int count = 0;
	for (size_t i = 0; i < timeline->slices.count; i++) {
		const lk_slice *slice = &timeline->slices.at[i];
		double times = slice->times > 1 ? slice->times : 1;
		if (!operation_of_slice(arena, timeline, slice, &rows[count])) continue;
		if (!rows[count].shape) return lk_oom(err);
		rows[count].count = (uint64_t)times;
		rows[count].time_ns = rows[count].own_ns =
			(double)(slice->end_ps - slice->start_ps) * 1e-3 * times;
		count++;
	}
	for (size_t t = 0; t < timeline->tracks.count; t++) {
		int known = 0;
		while (known < out->rank_count && ranks[known].rank != timeline->tracks.at[t].rank) known++;
		if (known < out->rank_count) continue;
		ranks[out->rank_count++] =
			(lk_explain_rank){.rank = timeline->tracks.at[t].rank, .steps = 1};
	}
	out->ranks = ranks;
	out->operations = rows;
	out->operation_count = lk_operations_join(rows, count);
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
	lk_timeline *timeline;
	lk_explanation predicted = {.step_s = step->step_s};
	const lk_diff_operation *rows = NULL;
	double shares[SHARES];
	int count = 0;
	LK_TRY(lk_step_timeline(step, &timeline, err));
	lk_status status = operations_of(arena, timeline, &predicted, err);
	if (status == LK_OK)
		status = lk_diff_pair(arena, &predicted, search->measured, &rows, &count, err);
	shares_of_step(step, shares);
	double step_s = search->measured->step_s;
	off->time = (shares_off(search, shares) + HALF * sums_off(rows, count)) / step_s;
	off->work = work_off(rows, count) / step_s;
	lk_timeline_free(timeline);
	return status;
}

/* ---- causes ---- */

static lk_status search_see(void *context, const lk_cause_step *cause, lk_error *err) {
	struct search *search = context;
	lk_arena *texts = &search->run->arena;
	lk_arena arena = LK_ARENA_INIT;
	struct distance off;
	/* what the traces name needs no guess */
	if (cause->of_device && *search->measured->ranks[0].device) return LK_OK;
	search->run->result.tried++;
	lk_status status = step_off(search, &arena, cause->step, &off, err);
	lk_arena_free(&arena);
	LK_TRY(status);
	double weight = distance_weight(&off);
	/* a cause of memory alone leaves the step as it is */
	if (!(weight > distance_weight(&search->unchanged) * (1 + 1e-6))) return LK_OK;
	lk_versus_cause found = {.cause = cause->key,
	                         .what = cause->what,
	                         .option = lk_arena_strdup(texts, cause->option),
	                         .check = cause->check,
	                         .step_time_s = cause->step->step_s,
	                         .time_off = off.time,
	                         .work_off = off.work};
	if (!found.option || !lk_push(&search->causes)) return lk_oom(err);
	found.share = cause->prior / (1 - cause->prior) * weight;
	*lk_last(&search->causes) = found;
	return LK_OK;
}

static int causes_by_share(const void *a, const void *b) {
	const lk_versus_cause *x = a, *y = b;
	if (x->share != y->share) return x->share > y->share ? -1 : 1;
	return strcmp(x->cause, y->cause);
}

/* Those below one in a hundred are left out. */
static lk_status search_take(struct search *search, lk_error *err) {
	lk_versus *out = &search->run->result;
	double sum = UNCHANGED_ODDS * distance_weight(&search->unchanged);
	for (size_t i = 0; i < search->causes.count; i++) sum += search->causes.at[i].share;
	lk_versus_cause *rows = LK_ARRAY(&search->run->arena, lk_versus_cause, search->causes.count);
	if (!rows) return lk_oom(err);
	for (size_t i = 0; i < search->causes.count; i++) {
		rows[out->cause_count] = search->causes.at[i];
		rows[out->cause_count].share /= sum;
		out->cause_count += rows[out->cause_count].share >= 0.01;
	}
	out->unchanged_share = UNCHANGED_ODDS * distance_weight(&search->unchanged) / sum;
	lk_sort(rows, (size_t)out->cause_count, sizeof *rows, causes_by_share);
	out->causes = rows;
	return LK_OK;
}

lk_status lk_versus_causes(lk_compared_run *run, const lk_explanation *measured,
                           const lk_predict_request *job, lk_error *err) {
	static const size_t at[SHARES] = {
		offsetof(lk_explain_rank, compute_ns), offsetof(lk_explain_rank, exposed_communication_ns),
		offsetof(lk_explain_rank, exposed_memory_ns), offsetof(lk_explain_rank, idle_ns)};
	struct search search = {.run = run, .measured = measured};
	lk_arena arena = LK_ARENA_INIT;
	for (int i = 0; i < SHARES; i++) search.shares[i] = lk_diff_mean_of(measured, at[i]);
	lk_status status =
		step_off(&search, &arena, lk_prediction_step(run->predicted), &search.unchanged, err);
	lk_arena_free(&arena);
	if (status == LK_OK) status = lk_predict_each_cause(job, search_see, &search, err);
	if (status == LK_OK) status = search_take(&search, err);
	run->result.unchanged_time_off = search.unchanged.time;
	run->result.unchanged_work_off = search.unchanged.work;
	lk_vec_free(&search.causes);
	return status;
}
