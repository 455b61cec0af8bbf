/* validate.c: predicts every row of a table of runs and sums up. Rows are predicted as `lockstep predict` would: the
 * same question (lk_step_ask), no constant that depends on the row. */
#include "lockstep/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "accuracy/runs.h"
#include "accuracy/summary.h"
#include "accuracy/validate_parts.h"
#include "ask/range.h"
#include "ask/step.h"
#include "base/text.h"

/* Everything that a validation owns. */
typedef struct work {
	lk_validation result;       /* first: the result is the work */
	lk_arena arena;
	lk_validated *rows;
	lk_score *scores;
	lk_score_key *keys;
} work;

void lk_validate_defaults(lk_validate_request *request) {
	memset(request, 0, sizeof *request);
}

void lk_validate_free(lk_validation *validation) {
	if (!validation) return;
	work *w = validation->memory_owner;
	lk_arena_free(&w->arena);
	free(w);
}

/* ---- one row ---- */

static lk_status predict(const lk_run *run, double *seconds, lk_error *err) {
	lk_step step;
	lk_step_options options = {0};
	lk_status status = lk_step_ask(&run->job, &run->cluster, &options, &step, err);
	if (status == LK_OK) *seconds = step.step_s;
	lk_step_free(&step);
	return status;
}

/* Why the row is skipped, not scored, or only partly used. */
static const char *reason_of(lk_arena *arena, const lk_run *run, const char *refused) {
	if (*refused) return refused;
	if (*run->suspect)
		return lk_arena_printf(arena, "not scored, suspect: %s%s%s", run->suspect, *run->note ? "; " : "", run->note);
	if (isnan(run->measured_s)) return "not scored: no measured step time";
	return *run->note ? run->note : NULL;
}

/* Rows are ranked against each other within equal network, GPU, count and batch. */
static const char *group_of(lk_arena *arena, const lk_run *run) {
	return lk_arena_printf(arena, "%s|%s|%d|%d", run->model, run->gpu, run->job.gpus, run->job.gbs);
}

/* What is ranked: the layout with all else that a user could choose; repeated runs of it are one. */
static const char *choice_of(lk_arena *arena, const lk_run *run, const char *layout) {
	const lk_job *j = &run->job;
	return layout ? lk_arena_printf(arena, "%s|%d|%d|%s", layout, j->task, j->seq, lk_dtype_name(j->dtype)) : NULL;
}

static lk_status fill_row(work *w, const lk_run *run, size_t i, lk_error *err) {
	lk_validated *row = &w->rows[i];
	lk_score *score = &w->scores[i];
	const char *refused = run->refused;
	char text[900];
	*row = (lk_validated){
		.row = (int)i + 1, .id = run->id, .where = run->where, .stack = run->stack, .release = run->release,
		.model = run->model, .gpu = run->gpu, .gpus = run->job.gpus, .layout = "", .precision = "", .unit = "s",
		.predicted = NAN, .measured = run->measured_s, .error = NAN, .low = NAN, .high = NAN,
	};
	lk_status status = *refused ? LK_OK : predict(run, &row->predicted, err);
	if (status == LK_ERR_MEMORY) return status;
	if (status != LK_OK) refused = lk_arena_strdup(&w->arena, lk_error_text(err, text, sizeof text));
	if (!refused) return lk_oom(err);
	*score = (lk_score){.stack = run->stack, .suspect = *run->suspect != '\0'};
	if (!*run->refused) {
		row->precision = lk_dtype_name(run->job.dtype);
		row->layout = lk_run_layout(&w->arena, run);
		score->layout = choice_of(&w->arena, run, row->layout);
		score->group = group_of(&w->arena, run);
		if (!score->layout || !score->group) return lk_oom(err);
	}
	if (row->predicted > 0) lk_range_of(&run->job, row->predicted, &row->low, &row->high, NULL);
	row->error = row->predicted / row->measured - 1;
	row->reason = reason_of(&w->arena, run, refused);
	if (*run->suspect && !*refused && !row->reason) return lk_oom(err);
	score->predicted = row->predicted, score->measured = row->measured, score->low = row->low, score->high = row->high;
	row->scored = lk_score_counts(score);
	return LK_OK;
}

/* ---- all rows ---- */

/* Drops the rows of other stacks. */
static lk_status choose(const lk_validate_request *request, lk_runs *runs, lk_error *err) {
	size_t kept = 0;
	if (!request->stack) return LK_OK;
	for (size_t i = 0; i < runs->count; i++)
		if (lk_same_name(runs->at[i].stack, request->stack)) runs->at[kept++] = runs->at[i];
	if (kept == 0) {
		char shown[64];
		lk_fail(err, LK_ERR_INPUT, "--stack", "no row has the stack \"%s\"", lk_escape(request->stack, shown, sizeof shown));
		return lk_hint(err, "the column `stack` of %.100s names them", request->runs);
	}
	runs->count = kept;
	return LK_OK;
}

/* Rows of a stack, of a GPU, of a scale. */
static lk_status divide(work *w, lk_error *err) {
	lk_validation *v = &w->result;
	size_t count = (size_t)v->row_count;
	lk_accuracy *groups = LK_ARRAY(&w->arena, lk_accuracy, 3 * count);
	if (!groups) return lk_oom(err);
	v->groups = groups;
	for (size_t i = 0; i < count; i++) w->keys[i] = (lk_score_key){w->rows[i].stack, 0};
	LK_TRY(lk_summarise_by("stack", w->scores, w->keys, count, groups, &v->group_count, err));
	for (size_t i = 0; i < count; i++) w->keys[i] = (lk_score_key){w->rows[i].gpu, 0};
	LK_TRY(lk_summarise_by("gpu", w->scores, w->keys, count, groups, &v->group_count, err));
	for (size_t i = 0; i < count; i++) w->keys[i] = lk_scale_key(w->rows[i].gpus);
	return lk_summarise_by("gpus", w->scores, w->keys, count, groups, &v->group_count, err);
}

/* Largest error first, then rows without one; those alike in the order of the table. */
static int by_error(const void *a, const void *b) {
	const lk_validated *x = a, *y = b;
	double dx = fabs(log1p(x->error)), dy = fabs(log1p(y->error));
	if (isnan(dx) != isnan(dy)) return isnan(dx) ? 1 : -1;
	if (dx != dy && !isnan(dx)) return dx < dy ? 1 : -1;
	return x->row - y->row;
}

static lk_status answer(const lk_validate_request *request, lk_stream *in, lk_runs *runs, work *w, lk_error *err) {
	LK_TRY(lk_runs_read(&w->arena, in, runs, err));
	if (runs->count == 0) return lk_fail(err, LK_ERR_INPUT, request->runs, "the table has no rows");
	LK_TRY(choose(request, runs, err));
	w->rows = LK_ARRAY(&w->arena, lk_validated, runs->count);
	w->scores = LK_ARRAY(&w->arena, lk_score, runs->count);
	w->keys = LK_ARRAY(&w->arena, lk_score_key, runs->count);
	if (!w->rows || !w->scores || !w->keys) return lk_oom(err);
	for (size_t i = 0; i < runs->count; i++) LK_TRY(fill_row(w, &runs->at[i], i, err));
	lk_validation *v = &w->result;
	v->rows = w->rows;
	v->row_count = (int)runs->count;
	v->all_rows = request->rows;
	v->summary.by = v->summary.name = "all";
	LK_TRY(lk_summarise(w->scores, runs->count, &v->summary, err));
	LK_TRY(divide(w, err));
	if (request->sort == 1) qsort(w->rows, runs->count, sizeof *w->rows, by_error);
	return LK_OK;
}

static lk_status describe(const lk_validate_request *request, work *w, lk_error *err) {
	w->result.source = lk_arena_strdup(&w->arena, request->runs);
	w->result.reproduce = lk_validate_command(&w->arena, request);
	return w->result.source && w->result.reproduce ? LK_OK : lk_oom(err);
}

lk_status lk_validate(const lk_validate_request *request, lk_validation **out, lk_error *err) {
	*out = NULL;
	if (!request->runs) {
		lk_fail(err, LK_ERR_INPUT, "validate", "no table of runs is named");
		return lk_hint(err, "give a CSV file, such as llm_runs.csv");
	}
	work *w = calloc(1, sizeof *w);
	if (!w) return lk_oom(err);
	w->result.memory_owner = w;
	lk_stream *in = NULL;
	lk_runs runs = {0};
	lk_status status = lk_stream_open(request->runs, &in, err);
	if (status == LK_OK) status = answer(request, in, &runs, w, err);
	if (status == LK_OK) status = describe(request, w, err);
	lk_stream_close(in);
	lk_vec_free(&runs);
	if (status == LK_OK) *out = &w->result;
	else lk_validate_free(&w->result);
	return status;
}
