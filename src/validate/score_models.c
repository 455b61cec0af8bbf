/* score_models.c: whole networks against the sum of their kernels. With `cross` the few numbers between kernels and
 * network are fitted without all rows of the network that is predicted; times of kernels come from other measurements. */
#include <math.h>
#include <string.h>

#include "calibrate/calibrate.h"
#include "fit/fits.h"
#include "tables/tables.h"
#include "validate/validate.h"

/* Of misses, for a range that holds about 80 % of another network's. */
static const double inside = 0.8;

struct scorer {
	lk_arena *arena;
	const lk_validate_request *request;
	const lk_model_run *runs;
	size_t count;
	lk_network_work *work;      /* [count], of rows that can be predicted */
	lk_network_row *rows;       /* scratch */
	lk_miss *misses;
	lk_scoring *out;
};

static const char *why_not(const lk_model_run *r) {
	if (!r->device) return "the device is not in the catalogue";
	if (!r->known) return "the network's operators are not known";
	return NULL;
}

static lk_status fill_rows(struct scorer *s, lk_error *err) {
	LK_TRY(lk_scoring_rows(s->arena, s->count, s->out, err));
	for (size_t i = 0; i < s->count; i++) {
		const lk_model_run *r = &s->runs[i];
		lk_validated *row = &s->out->rows[i];
		row->id = lk_arena_printf(s->arena, "%s %s seq %.0f batch %.0f", r->name, r->phase, r->seq, r->batch);
		if (!row->id) return lk_oom(err);
		row->where = r->where, row->model = r->name, row->gpu = r->gpu, row->layout = r->mode;
		row->gpus = r->data * r->tensor * r->stages;
		row->precision = "fp32", row->measured = r->seconds;
		row->reason = why_not(r);
		if (!row->reason) LK_TRY(lk_network_work_of(lk_calibration_current(), r, &s->work[i], err));
	}
	return LK_OK;
}

static lk_status divide(struct scorer *s, lk_error *err) {
	lk_score_key *of_class = lk_scoring_divide(s->arena, s->out, "class");
	lk_score_key *gpu = lk_scoring_divide(s->arena, s->out, "gpu");
	lk_score_key *model = lk_scoring_divide(s->arena, s->out, "model");
	lk_score_key *mode = lk_scoring_divide(s->arena, s->out, "mode");
	if (!of_class || !gpu || !model || !mode) return lk_oom(err);
	for (size_t i = 0; i < s->count; i++) {
		of_class[i].name = s->runs[i].train ? "training fp32" : "inference fp32";
		gpu[i].name = s->runs[i].gpu, model[i].name = s->runs[i].name, mode[i].name = s->runs[i].mode;
	}
	return LK_OK;
}

/* What is left out together: a network, or a device. */
static const char *fold_of(const struct scorer *s, size_t i) {
	return s->request->folds == LK_FOLDS_GPU ? s->runs[i].gpu : s->runs[i].name;
}

/* Fits to all rows but those of a fold; NULL: to all. */
static size_t fit_without(struct scorer *s, const char *name, lk_network_fit *fit) {
	size_t count = 0;
	for (size_t i = 0; i < s->count; i++)
		if (!why_not(&s->runs[i]) && (!name || strcmp(fold_of(s, i), name) != 0))
			s->rows[count++] = (lk_network_row){&s->work[i], s->runs[i].device, s->runs[i].seconds};
	lk_network_fit_rows(s->rows, count, fit);
	return count;
}

static void put_row(struct scorer *s, size_t i, const lk_network_fit *fit, int fold) {
	const lk_model_run *r = &s->runs[i];
	lk_network_row row = {&s->work[i], r->device, r->seconds};
	lk_validated *out = &s->out->rows[i];
	out->predicted = lk_network_predict(fit, &row);
	if (s->work[i].borrowed) out->reason = "kernels as on other devices: not measured on this one";
	s->misses[i] = (lk_miss){r->train ? "training fp32" : "inference fp32", fold,
	                       fabs(log(r->seconds / out->predicted)), NAN};
}

static void score_folds(struct scorer *s) {
	int folds = 0;
	for (size_t first = 0; first < s->count; first++) {
		bool seen = false;
		for (size_t i = 0; i < first; i++) seen = seen || strcmp(fold_of(s, i), fold_of(s, first)) == 0;
		if (seen) continue;
		lk_network_fit fit;
		fit_without(s, fold_of(s, first), &fit);
		for (size_t i = first; i < s->count; i++)
			if (!why_not(&s->runs[i]) && strcmp(fold_of(s, i), fold_of(s, first)) == 0) put_row(s, i, &fit, folds);
		folds++;
	}
}

static lk_status put_ranges(struct scorer *s, lk_error *err) {
	if (s->request->cross) LK_TRY(lk_misses_widths_of(s->arena, s->misses, s->count, inside, err));
	for (size_t i = 0; i < s->count; i++) {
		lk_miss *miss = &s->misses[i];
		lk_validated *row = &s->out->rows[i];
		if (!miss->name) continue;
		if (!s->request->cross) miss->width = lk_misses_width(lk_calibration_current(), "network", miss->name, 0.15);
		row->low = row->predicted * exp(-miss->width), row->high = row->predicted * exp(miss->width);
	}
	return LK_OK;
}

static lk_status baseline(struct scorer *s, lk_error *err) {
	lk_baseline *roofline = lk_scoring_baseline(s->arena, s->out, "roofline", 0);
	if (!roofline) return lk_oom(err);
	for (size_t i = 0; i < s->count; i++)
		if (!why_not(&s->runs[i])) roofline->predicted[i] = s->work[i].roofline_s * s->work[i].bubble;
	return LK_OK;
}

static lk_status prepare(struct scorer *s, lk_error *err) {
	s->work = LK_ARRAY(s->arena, lk_network_work, s->count);
	s->rows = LK_ARRAY(s->arena, lk_network_row, s->count);
	s->misses = LK_ARRAY(s->arena, lk_miss, s->count);
	return s->work && s->rows && s->misses ? LK_OK : lk_oom(err);
}

/* Numbers of one fit: those of all rows, and a factor for each device whose kernels are borrowed. */
static int parameters(struct scorer *s) {
	lk_network_fit fit;
	fit_without(s, NULL, &fit);
	return LK_NETWORK_NUMBERS + fit.owners;
}

static lk_status score(struct scorer *s, lk_error *err) {
	LK_TRY(prepare(s, err));
	LK_TRY(fill_rows(s, err));
	LK_TRY(divide(s, err));
	LK_TRY(baseline(s, err));
	s->out->unit_of_rows = "network run";
	if (s->request->cross) {
		s->out->folds = s->request->folds == LK_FOLDS_GPU ? "device" : "network";
		score_folds(s);
		s->out->parameters = parameters(s);
	} else {
		lk_network_fit fit;
		lk_network_read(lk_calibration_current(), &fit);
		for (size_t i = 0; i < s->count; i++)
			if (!why_not(&s->runs[i])) put_row(s, i, &fit, 0);
	}
	return put_ranges(s, err);
}

lk_status lk_score_models(lk_arena *arena, const lk_validate_request *request, lk_stream *in, lk_scoring *out,
                          lk_error *err) {
	lk_model_runs runs = {0};
	lk_status status = lk_models_read(arena, in, &runs, err);
	struct scorer s = {.arena = arena, .request = request, .runs = runs.at, .count = runs.count, .out = out};
	if (status == LK_OK) status = score(&s, err);
	lk_vec_free(&runs);
	return status;
}

/* ---- calibration ---- */

static double fit_error(const struct scorer *s) {
	double sum = 0;
	size_t rows = 0;
	for (size_t i = 0; i < s->count; i++)
		if (s->misses[i].name) sum += s->misses[i].by, rows++;
	return rows ? expm1(sum / (double)rows) : NAN;
}

static lk_status calibrate(struct scorer *s, const char *source, const char *date, lk_calibration *out, lk_error *err) {
	LK_TRY(score(s, err));
	lk_network_fit fit;
	size_t rows = fit_without(s, NULL, &fit);
	LK_TRY(lk_network_write(&fit, (int)rows, fit_error(s), source, date, out, err));
	return lk_misses_write_of(s->arena, s->misses, s->count, inside, "network", source, date, out, err);
}

lk_status lk_calibrate_models(lk_stream *in, const char *source, const char *date, lk_calibration *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_model_runs runs = {0};
	lk_scoring scoring = {0};
	lk_validate_request request;
	lk_validate_defaults(&request);
	request.cross = true;
	lk_status status = lk_models_read(&arena, in, &runs, err);
	struct scorer s = {.arena = &arena, .request = &request, .runs = runs.at, .count = runs.count, .out = &scoring};
	if (status == LK_OK) status = calibrate(&s, source, date, out, err);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
	return status;
}
