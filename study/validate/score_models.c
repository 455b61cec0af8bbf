/* score_models.c: whole networks against the sum of their kernels. With `cross` the few numbers
 * between kernels and network are fitted without all rows of the predicted network; times of
 * kernels come from other measurements. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "fit/fits.h"
#include "tables/tables.h"
#include "validate/validate.h"

/* Share of errors inside, for a range that holds about 80 % of another network's. */
static const double inside = 0.8;

struct scorer {
	lk_arena *arena;
	const lk_validate_request *request;
	const lk_model_run *runs;
	size_t count;
	lk_network_work *work; /* [count], of rows that can be predicted */
	lk_network_row *rows;  /* scratch */
	lk_miss *misses;
	lk_scoring *out;
};

static const char *models_why_not(const lk_model_run *run) {
	if (!run->device) return "the device is not in the catalogue";
	if (!run->known) return "the network's operators are not known";
	return NULL;
}

static lk_status models_fill_rows(struct scorer *scorer, lk_error *err) {
	LK_TRY(lk_scoring_rows(scorer->arena, scorer->count, scorer->out, err));
	for (size_t i = 0; i < scorer->count; i++) {
		const lk_model_run *run = &scorer->runs[i];
		lk_validated *row = &scorer->out->rows[i];
		row->id = lk_arena_printf(scorer->arena, "%s %s seq %.0f batch %.0f", run->name, run->phase,
		                          run->seq, run->batch);
		if (!row->id) return lk_oom(err);
		row->where = run->where;
		row->model = run->name;
		row->gpu = run->gpu;
		row->layout = run->mode;
		row->gpus = run->data * run->tensor * run->stages;
		row->precision = "fp32";
		row->measured = run->seconds;
		row->reason = models_why_not(run);
		if (!row->reason)
			LK_TRY(lk_network_work_of(lk_calibration_current(), run, &scorer->work[i], err));
	}
	return LK_OK;
}

static lk_status models_divide(struct scorer *scorer, lk_error *err) {
	lk_score_key *of_class = lk_scoring_divide(scorer->arena, scorer->out, "class");
	lk_score_key *gpu = lk_scoring_divide(scorer->arena, scorer->out, "gpu");
	lk_score_key *model = lk_scoring_divide(scorer->arena, scorer->out, "model");
	lk_score_key *mode = lk_scoring_divide(scorer->arena, scorer->out, "mode");
	if (!of_class || !gpu || !model || !mode) return lk_oom(err);
	for (size_t i = 0; i < scorer->count; i++) {
		of_class[i].name = scorer->runs[i].train ? "training fp32" : "inference fp32";
		gpu[i].name = scorer->runs[i].gpu;
		model[i].name = scorer->runs[i].name;
		mode[i].name = scorer->runs[i].mode;
	}
	return LK_OK;
}

/* The fold of a row: a network, or a device. */
static const char *models_fold_of(const struct scorer *scorer, size_t i) {
	return scorer->request->folds == LK_FOLDS_GPU ? scorer->runs[i].gpu : scorer->runs[i].name;
}

/* Fit to all rows except a fold's; NULL: to all. */
static size_t models_fit_without(struct scorer *scorer, const char *name, lk_network_fit *fit) {
	size_t count = 0;
	for (size_t i = 0; i < scorer->count; i++)
		if (!models_why_not(&scorer->runs[i]) &&
		    (!name || strcmp(models_fold_of(scorer, i), name) != 0))
			scorer->rows[count++] =
				(lk_network_row){&scorer->work[i], scorer->runs[i].device, scorer->runs[i].seconds};
	lk_network_fit_rows(scorer->rows, count, fit);
	return count;
}

static void models_put_row(struct scorer *scorer, size_t i, const lk_network_fit *fit, int fold) {
	const lk_model_run *run = &scorer->runs[i];
	lk_network_row row = {&scorer->work[i], run->device, run->seconds};
	lk_validated *out = &scorer->out->rows[i];
	out->predicted = lk_network_predict(fit, &row);
	if (scorer->work[i].borrowed)
		out->reason = "kernels as on other devices: not measured on this one";
	scorer->misses[i] = (lk_miss){run->train ? "training fp32" : "inference fp32", fold,
	                              fabs(log(run->seconds / out->predicted)), NAN};
}

static void score_folds(struct scorer *scorer) {
	int folds = 0;
	for (size_t first = 0; first < scorer->count; first++) {
		bool seen = false;
		for (size_t i = 0; i < first; i++)
			seen = seen || strcmp(models_fold_of(scorer, i), models_fold_of(scorer, first)) == 0;
		if (seen) continue;
		lk_network_fit fit;
		models_fit_without(scorer, models_fold_of(scorer, first), &fit);
		for (size_t i = first; i < scorer->count; i++)
			if (!models_why_not(&scorer->runs[i]) &&
			    strcmp(models_fold_of(scorer, i), models_fold_of(scorer, first)) == 0)
				models_put_row(scorer, i, &fit, folds);
		folds++;
	}
}

static lk_status models_put_ranges(struct scorer *scorer, lk_error *err) {
	if (scorer->request->cross)
		LK_TRY(lk_misses_widths_of(scorer->arena, scorer->misses, scorer->count, inside, err));
	for (size_t i = 0; i < scorer->count; i++) {
		lk_miss *miss = &scorer->misses[i];
		lk_validated *row = &scorer->out->rows[i];
		if (!miss->name) continue;
		if (!scorer->request->cross)
			miss->width = lk_misses_width(lk_calibration_current(), "network", miss->name, 0.15);
		row->low = row->predicted * exp(-miss->width);
		row->high = row->predicted * exp(miss->width);
	}
	return LK_OK;
}

static lk_status baseline(struct scorer *scorer, lk_error *err) {
	lk_baseline *roofline = lk_scoring_baseline(scorer->arena, scorer->out, "roofline", 0);
	if (!roofline) return lk_oom(err);
	for (size_t i = 0; i < scorer->count; i++)
		if (!models_why_not(&scorer->runs[i]))
			roofline->predicted[i] = scorer->work[i].roofline_s * scorer->work[i].bubble;
	return LK_OK;
}

static lk_status models_prepare(struct scorer *scorer, lk_error *err) {
	scorer->work = LK_ARRAY(scorer->arena, lk_network_work, scorer->count);
	scorer->rows = LK_ARRAY(scorer->arena, lk_network_row, scorer->count);
	scorer->misses = LK_ARRAY(scorer->arena, lk_miss, scorer->count);
	return scorer->work && scorer->rows && scorer->misses ? LK_OK : lk_oom(err);
}

/* Numbers of one fit: those for all rows, and a factor for each device with borrowed kernels. */
static int parameters(struct scorer *scorer) {
	lk_network_fit fit;
	models_fit_without(scorer, NULL, &fit);
	return LK_NETWORK_NUMBERS + fit.owners;
}

static lk_status models_score(struct scorer *scorer, lk_error *err) {
	LK_TRY(models_prepare(scorer, err));
	LK_TRY(models_fill_rows(scorer, err));
	LK_TRY(models_divide(scorer, err));
	LK_TRY(baseline(scorer, err));
	scorer->out->unit_of_rows = "network run";
	if (scorer->request->cross) {
		scorer->out->folds = scorer->request->folds == LK_FOLDS_GPU ? "device" : "network";
		score_folds(scorer);
		scorer->out->parameters = parameters(scorer);
	} else {
		lk_network_fit fit;
		lk_network_read(lk_calibration_current(), &fit);
		for (size_t i = 0; i < scorer->count; i++)
			if (!models_why_not(&scorer->runs[i])) models_put_row(scorer, i, &fit, 0);
	}
	return models_put_ranges(scorer, err);
}

lk_status lk_score_models(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                          lk_scoring *out, lk_error *err) {
	lk_model_runs runs = {0};
	lk_status status = lk_models_read(arena, in, &runs, err);
	struct scorer s = {
		.arena = arena, .request = request, .runs = runs.at, .count = runs.count, .out = out};
	if (status == LK_OK) status = models_score(&s, err);
	lk_vec_free(&runs);
	return status;
}

/* ---- calibration ---- */

static double fit_error(const struct scorer *scorer) {
	double sum = 0;
	size_t rows = 0;
	for (size_t i = 0; i < scorer->count; i++)
		if (scorer->misses[i].name) {
			sum += scorer->misses[i].by;
			rows++;
		}
	return rows ? expm1(sum / (double)rows) : NAN;
}

static lk_status models_calibrate(struct scorer *scorer, const char *source, const char *date,
                                  lk_calibration *out, lk_error *err) {
	LK_TRY(models_score(scorer, err));
	lk_network_fit fit;
	size_t rows = models_fit_without(scorer, NULL, &fit);
	LK_TRY(lk_network_write(&fit, (int)rows, fit_error(scorer), source, date, out, err));
	return lk_misses_write_of(scorer->arena, scorer->misses, scorer->count, inside, "network",
	                          source, date, out, err);
}

lk_status lk_calibrate_models(lk_stream *in, const char *source, const char *date,
                              lk_calibration *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_model_runs runs = {0};
	lk_scoring scoring = {0};
	lk_validate_request request;
	lk_validate_defaults(&request);
	request.cross = true;
	lk_status status = lk_models_read(&arena, in, &runs, err);
	struct scorer s = {.arena = &arena,
	                   .request = &request,
	                   .runs = runs.at,
	                   .count = runs.count,
	                   .out = &scoring};
	if (status == LK_OK) status = models_calibrate(&s, source, date, out, err);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
	return status;
}
