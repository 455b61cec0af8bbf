/* validate.c: predicted against measured: hands the table to the file of its kind (score_*.c), sums
 * up what comes back. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "base/sort.h"
#include "options/command.h"
#include "validate/validate.h"

/* Everything that a validation owns. */
struct work {
	lk_validation result; /* first: the result is the work */
	lk_arena arena;
	lk_calibration_hold calibration;
};

void lk_validate_free(lk_validation *validation) {
	if (!validation) return;
	struct work *work = validation->memory_owner;
	lk_calibration_release(&work->calibration);
	lk_arena_free(&work->arena);
	free(work);
}

/* ---- summing up ---- */

/* Fill rows and scores from one another. */
static void validate_finish_rows(lk_scoring *scoring) {
	for (size_t i = 0; i < scoring->count; i++) {
		lk_validated *row = &scoring->rows[i];
		lk_score *score = &scoring->scores[i];
		row->error = row->predicted / row->measured - 1;
		score->predicted = row->predicted;
		score->measured = row->measured;
		score->low = row->low;
		score->high = row->high;
		row->scored = lk_score_counts(score);
	}
}

static bool tells_apart(const lk_division *division, size_t count) {
	const char *first = NULL;
	for (size_t i = 0; i < count; i++) {
		const char *name = division->keys[i].name;
		if (!first) first = name;
		if (name && strcmp(name, first) != 0) return true;
	}
	return false;
}

/* The part of each row, for views that list rows. */
static const char *validate_part_rows(lk_scoring *scoring) {
	int chosen = 0;
	while (chosen < scoring->division_count &&
	       !tells_apart(&scoring->divisions[chosen], scoring->count))
		chosen++;
	if (chosen == scoring->division_count) return "";
	for (size_t i = 0; i < scoring->count; i++)
		scoring->rows[i].part = scoring->divisions[chosen].keys[i].name;
	return scoring->divisions[chosen].by;
}

/* Divide the rows of a part, for every division. */
static lk_status validate_divide(const lk_scoring *scoring, lk_arena *arena,
                                 lk_validation *validation, lk_error *err) {
	size_t room = (size_t)scoring->division_count * scoring->count;
	lk_accuracy *groups = LK_ARRAY(arena, lk_accuracy, room);
	if (!groups) return lk_oom(err);
	validation->groups = groups;
	for (int d = 0; d < scoring->division_count; d++)
		LK_TRY(lk_summarise_by(scoring->divisions[d].by, scoring->scores,
		                       scoring->divisions[d].keys, scoring->count, groups,
		                       &validation->group_count, err));
	return LK_OK;
}

/* Summarise the baselines over the rows that they predict. */
static lk_status validate_compare(const lk_scoring *scoring, lk_arena *arena,
                                  lk_validation *validation, lk_error *err) {
	lk_accuracy *baselines = LK_ARRAY(arena, lk_accuracy, scoring->baseline_count);
	lk_score *scores = LK_ARRAY(arena, lk_score, scoring->count);
	if (!baselines || !scores) return lk_oom(err);
	validation->baselines = baselines;
	validation->baseline_count = scoring->baseline_count;
	for (int b = 0; b < scoring->baseline_count; b++) {
		for (size_t i = 0; i < scoring->count; i++) {
			scores[i] = scoring->scores[i];
			scores[i].predicted = scoring->baselines[b].predicted[i];
			scores[i].low = scores[i].high = NAN;
			scores[i].suspect |= !scoring->rows[i].scored;
		}
		baselines[b].by = "baseline";
		baselines[b].name = scoring->baselines[b].name;
		LK_TRY(lk_summarise(scores, scoring->count, &baselines[b], err));
		baselines[b].parameters = scoring->baselines[b].parameters;
	}
	return LK_OK;
}

static lk_status summarise(lk_scoring *scoring, lk_arena *arena, lk_validation *validation,
                           lk_error *err) {
	validate_finish_rows(scoring);
	validation->parts = validate_part_rows(scoring);
	validation->rows = scoring->rows;
	validation->row_count = (int)scoring->count;
	validation->summary.by = validation->summary.name = "all";
	LK_TRY(lk_summarise(scoring->scores, scoring->count, &validation->summary, err));
	validation->summary.parameters = scoring->parameters;
	validation->folds = scoring->folds ? scoring->folds : "";
	validation->unit_of_rows = scoring->unit_of_rows ? scoring->unit_of_rows : "run";
	LK_TRY(validate_divide(scoring, arena, validation, err));
	return validate_compare(scoring, arena, validation, err);
}

/* Largest error first, then rows without one; equal ones in the order of the table. */
static int by_error(const void *a, const void *b) {
	const lk_validated *x = a, *y = b;
	double dx = fabs(log1p(x->error)), dy = fabs(log1p(y->error));
	if (isnan(dx) != isnan(dy)) return isnan(dx) ? 1 : -1;
	if (dx != dy && !isnan(dx)) return dx < dy ? 1 : -1;
	return x->row - y->row;
}

/* ---- the question ---- */

static lk_scoring_fn *validate_kind_of(const lk_validate_request *request, lk_error *err) {
	const struct {
		bool asked;
		lk_scoring_fn *score;
	} kinds[] = {
		{request->ops, lk_score_ops},
		{request->kernels, lk_score_kernels},
		{request->collectives, lk_score_collectives},
		{request->memory, lk_score_memory},
		{request->slowdown, lk_score_slowdown},
		{request->models, lk_score_models},
		{request->dlrm, lk_score_dlrm},
		{request->scaling, lk_score_scaling},
		{request->plan, lk_score_plans},
		{request->mlperf, lk_score_mlperf},
		{request->inference, lk_score_inference},
		{request->serving, lk_score_serving},
		{request->rl, lk_score_post},
		{request->refit, lk_score_refit},
		{request->finetune, lk_score_finetune},
		{request->history, lk_score_history},
		{request->storage, lk_score_storage},
		{request->noise, lk_score_noise},
	};
	lk_scoring_fn *found = lk_score_runs;
	int asked = 0;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (kinds[i].asked) {
			found = kinds[i].score;
			asked++;
		}
	if (asked <= 1) return found;
	lk_fail(err, LK_ERR_INPUT, "validate", "more than one kind of table is named");
	lk_hint(
		err,
		"give one of --ops, --kernels, --collectives, --memory, --slowdown, --models, --scaling, "
		"--mlperf, --inference, --serving, --rl, --refit, --finetune, --history, --storage, "
		"--noise, --plan and --dlrm, or none for training runs");
	return NULL;
}

static lk_status check_stack(const lk_validate_request *request, lk_error *err) {
	bool other = request->ops || request->kernels || request->collectives || request->memory ||
	             request->slowdown || request->models || request->dlrm || request->scaling ||
	             request->mlperf || request->inference || request->serving || request->rl ||
	             request->refit || request->finetune || request->history || request->storage ||
	             request->noise || request->plan;
	if (!request->stack || !other) return LK_OK;
	return lk_fail(err, LK_ERR_INPUT, "--stack", "only tables of training runs have stacks");
}

static lk_status check_overheads(const lk_validate_request *request, lk_error *err) {
	if (!request->overheads || request->dlrm) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--overheads",
	        "only recommendation models are predicted with host overheads");
	return lk_hint(err, "add --dlrm");
}

/* Check folds: some kinds can leave out something else than the default. */
static lk_status check_folds(const lk_validate_request *request, lk_error *err) {
	bool kernels = request->ops || request->kernels || request->models,
		 of_kernels = request->folds == LK_FOLDS_SHAPE || request->folds == LK_FOLDS_GPU;
	bool of_collectives = (request->folds >= LK_FOLDS_GPU && request->folds <= LK_FOLDS_FABRIC) ||
	                      request->folds == LK_FOLDS_SOURCE;
	bool runs = !kernels && !request->collectives && !request->memory && !request->slowdown &&
	            !request->plan && !request->dlrm && !request->scaling && !request->mlperf &&
	            !request->inference && !request->serving && !request->rl && !request->refit &&
	            !request->finetune && !request->history && !request->storage && !request->noise;
	bool of_runs = request->folds == LK_FOLDS_GPU || request->folds >= LK_FOLDS_NETWORK;
	if (request->folds != 0 && !request->cross) {
		lk_fail(err, LK_ERR_INPUT, "--folds",
		        "nothing is left out of a fit without --cross-validate");
		return lk_hint(err, "add --cross-validate");
	}
	if (request->folds == 0 || (kernels && of_kernels) ||
	    (request->collectives && of_collectives) || (runs && of_runs))
		return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--folds", "tables of this kind are not divided so");
	if (kernels) return lk_hint(err, "give shape or gpu");
	if (runs) return lk_hint(err, "give network, gpu, architecture, stack or source");
	return request->collectives ? lk_hint(err, "give size, gpus, fabric, gpu or source")
	                            : lk_hint(err, "leave it out: they have one kind of folds");
}

/* The command line that reproduces this result; NULL when memory runs out. */
static const char *validate_command(lk_arena *arena, const lk_validate_request *request) {
	static const char *const but[] = {"plot", NULL};
	const char **tables = LK_ARRAY(arena, const char *, (size_t)request->more_count + 1);
	if (!tables) return NULL;
	tables[0] = request->table;
	for (int i = 0; i < request->more_count; i++) tables[i + 1] = request->more[i];
	return lk_command(arena, &(lk_question){.verb = &lk_validate_verb,
	                                        .request = request,
	                                        .but = but,
	                                        .operands = tables,
	                                        .operand_count = 1 + request->more_count});
}

static lk_status validate_answer(const lk_validate_request *request, lk_stream *in,
                                 struct work *work, lk_error *err) {
	lk_scoring scoring = {0};
	lk_scoring_fn *score = validate_kind_of(request, err);
	if (!score) return LK_ERR_INPUT;
	LK_TRY(check_stack(request, err));
	LK_TRY(check_overheads(request, err));
	LK_TRY(check_folds(request, err));
	if (request->more_count > 0 && score != lk_score_runs && score != lk_score_collectives) {
		lk_fail(err, LK_ERR_INPUT, request->more[0], "a second table");
		return lk_hint(err, "only tables of training runs, or of collectives, are judged together; "
		                    "give one");
	}
	LK_TRY(score(&work->arena, request, in, &scoring, err));
	if (scoring.count == 0)
		return lk_fail(err, LK_ERR_INPUT, request->table, "the table has no rows");
	LK_TRY(summarise(&scoring, &work->arena, &work->result, err));
	work->result.all_rows = request->rows || request->plan;
	if (request->sort == 1) lk_sort(scoring.rows, scoring.count, sizeof *scoring.rows, by_error);
	work->result.source = lk_arena_strdup(&work->arena, request->table);
	for (int i = 0; work->result.source && i < request->more_count; i++)
		work->result.source =
			lk_arena_printf(&work->arena, "%s, %s", work->result.source, request->more[i]);
	work->result.reproduce = validate_command(&work->arena, request);
	return work->result.source && work->result.reproduce ? LK_OK : lk_oom(err);
}

/* Check before the work, not after it. */
static lk_status check_plot(const char *path, lk_error *err) {
	if (lk_ends_in(path, ".svg") || lk_ends_in(path, ".svg.gz") || lk_ends_in(path, ".png"))
		return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--plot", "\"%.200s\" does not end in .svg or .png", path);
	return lk_hint(err, "name a file that ends in .svg, .svg.gz or .png");
}

lk_status lk_validate(const lk_validate_request *request, lk_validation **out, lk_error *err) {
	*out = NULL;
	if (!request->table) {
		lk_fail(err, LK_ERR_INPUT, "validate", "no table of measurements is named");
		return lk_hint(err, "give a CSV file, such as llm_runs.csv");
	}
	LK_TRY(lk_devices_ready(err));
	if (request->plot) LK_TRY(check_plot(request->plot, err));
	struct work *work = calloc(1, sizeof *work);
	if (!work) return lk_oom(err);
	work->result.memory_owner = work;
	lk_stream *in = NULL;
	lk_status status = LK_OK;
	if (!request->noise) status = lk_stream_open(request->table, &in, err);
	if (status == LK_OK)
		status = lk_calibration_begin(&work->calibration, request->calibration, err);
	if (status == LK_OK) {
		status = lk_cost_ready(err);
		if (status == LK_OK) status = validate_answer(request, in, work, err);
		lk_calibration_leave(&work->calibration);
	}
	if (status == LK_OK)
		work->result.failed_check = lk_failed_check(lk_validation_check(&work->result));
	lk_stream_close(in);
	if (status == LK_OK) *out = &work->result;
	else lk_validate_free(&work->result);
	return status;
}
