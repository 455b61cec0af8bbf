/* score_slowdown.c: kernels overlapped with communication, predicted from their time without it and
 * their profile. Kernel names only label printed rows and separate kernels in the folds of one
 * baseline; the model never uses them. Rows without concurrent communication are not predicted; the
 * fit learns from them how far a time without communication can be trusted.
 *
 * Folds: FOLDS parts of the launches, by a hash of their place. The baseline "kernel never seen" is
 * the same model with all launches of a name left out together. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "validate/validate.h"
#include "tables/tables.h"
#include "base/stats.h"
#include "cost/calibration/calibration.h"

enum { FOLDS = 20 };

struct work {
	lk_arena *arena;
	lk_slowdown_table table;
	size_t *fold, *name_fold; /* [rows] */
	size_t names;
	bool *use;        /* [rows] of the current fit */
	double *strength; /* [rows] */
	double *width;    /* [rows] half the 80 % range, |ln| */
};

/* A way to predict; writes [rows of the table]. */
typedef lk_status way(struct work *w, bool all, size_t fold, const size_t *folds, double *predicted,
                      lk_error *err);

static bool slowdown_beside(const lk_slowdown_row *row) {
	return row->kernel.ratio > 0;
}

/* ---- ways ---- */

static double slowdown_width_of(const lk_overlap *model, const lk_overlap_kernel *kernel) {
	const char *class = lk_overlap_class_names[lk_overlap_class_of(kernel)];
	const lk_calibration_row *row =
		lk_calibration_find(lk_calibration_current(), "range", "slowdown", class);
	double usual = lk_calibration_value(row, "usual", 0.1);
	return lk_calibration_value(row, "times", 2) * lk_overlap_spread(model, kernel, usual);
}

static lk_status by_model(struct work *work, bool kinds, size_t fold, const size_t *folds,
                          double *predicted, lk_error *err) {
	lk_arena arena = {0};
	lk_overlap model;
	bool fitted = lk_slowdown_fit(&arena, &work->table, work->use, kinds, &model);
	for (size_t i = 0; fitted && i < work->table.count; i++)
		if (folds[i] == fold) predicted[i] = lk_overlap_seconds(&model, &work->table.at[i].kernel);
	lk_arena_free(&arena);
	return fitted ? LK_OK : lk_oom(err);
}

/* Half the range of the fold's rows, from the errors of other launches when they were left out. */
static lk_status slowdown_widths(struct work *work, bool kinds, size_t fold, const size_t *folds,
                                 double *predicted, lk_error *err) {
	lk_arena arena = {0};
	lk_overlap model;
	double *miss = LK_ARRAY(&arena, double, work->table.count);
	for (size_t i = 0; miss && i < work->table.count; i++)
		miss[i] = slowdown_beside(&work->table.at[i])
		              ? fabs(log(predicted[i] / work->table.at[i].measured_s))
		              : NAN;
	bool fitted = miss && lk_slowdown_fit(&arena, &work->table, work->use, kinds, &model) &&
	              lk_slowdown_spreads(&arena, &work->table, work->use, miss, &model);
	for (size_t i = 0; fitted && i < work->table.count; i++)
		if (folds[i] == fold) work->width[i] = slowdown_width_of(&model, &work->table.at[i].kernel);
	lk_arena_free(&arena);
	return fitted ? LK_OK : lk_oom(err);
}

/* The reference in the literature: one number per kernel name, and one for all others. */
static lk_status slowdown_by_name(struct work *work, bool kinds, size_t fold, const size_t *folds,
                                  double *predicted, lk_error *err) {
	double slower[2];
	(void)kinds;
	for (int named = 0; named < 2; named++) {
		for (size_t i = 0; i < work->table.count; i++) {
			bool is = strstr(work->table.at[i].name, "GammaBeta") != NULL;
			work->strength[i] = work->use[i] && is == named ? 1 : 0;
		}
		slower[named] = lk_slowdown_median(work->arena, &work->table, work->strength);
		if (isnan(slower[named])) return lk_oom(err);
	}
	for (size_t i = 0; i < work->table.count; i++) {
		const lk_slowdown_row *row = &work->table.at[i];
		if (folds[i] == fold)
			predicted[i] = row->kernel.alone_s *
			               (1 + row->kernel.ratio * slower[strstr(row->name, "GammaBeta") != NULL]);
	}
	return LK_OK;
}

static lk_status each_fold(struct work *work, way *predict, bool kinds, const size_t *folds,
                           size_t count, double *predicted, lk_error *err) {
	for (size_t f = 0; f < count; f++) {
		for (size_t i = 0; i < work->table.count; i++) work->use[i] = folds[i] != f;
		LK_TRY(predict(work, kinds, f, folds, predicted, err));
	}
	return LK_OK;
}

/* ---- results ---- */

static lk_status number_folds(struct work *work, lk_error *err) {
	size_t count = work->table.count;
	work->fold = LK_ARRAY(work->arena, size_t, count);
	work->name_fold = LK_ARRAY(work->arena, size_t, count);
	work->use = LK_ARRAY(work->arena, bool, count);
	work->strength = LK_ARRAY(work->arena, double, count);
	work->width = LK_ARRAY(work->arena, double, count);
	if (!work->fold || !work->name_fold || !work->use || !work->strength || !work->width)
		return lk_oom(err);
	for (size_t i = 0; i < count; i++) {
		size_t first = 0;
		work->fold[i] = lk_hash64(i) % FOLDS;
		while (strcmp(work->table.at[first].name, work->table.at[i].name) != 0) first++;
		work->name_fold[i] = first == i ? work->names++ : work->name_fold[first];
	}
	return LK_OK;
}

static double slowdown_plain(const lk_overlap_kernel *kernel, double slower) {
	return kernel->alone_s * (1 + kernel->ratio * slower);
}

/* Add a baseline's predictions, from those of all rows of the table. */
static lk_status slowdown_add_baseline(struct work *work, lk_scoring *out, const char *name,
                                       int parameters, const double *all, lk_error *err) {
	lk_baseline *baseline = lk_scoring_baseline(work->arena, out, name, parameters);
	if (!baseline) return lk_oom(err);
	size_t at = 0;
	for (size_t i = 0; i < work->table.count; i++)
		if (slowdown_beside(&work->table.at[i])) baseline->predicted[at++] = all[i];
	return LK_OK;
}

static lk_status slowdown_add_baselines(struct work *work, bool cross, lk_scoring *out,
                                        lk_error *err) {
	double *all = LK_ARRAY(work->arena, double, work->table.count);
	if (!all) return lk_oom(err);
	for (size_t i = 0; i < work->table.count; i++)
		all[i] = slowdown_plain(&work->table.at[i].kernel, 0);
	LK_TRY(slowdown_add_baseline(work, out, "no slowdown", 0, all, err));
	for (size_t i = 0; i < work->table.count; i++)
		all[i] = slowdown_plain(&work->table.at[i].kernel, 0.3);
	LK_TRY(slowdown_add_baseline(work, out, "constant 1.3", 1, all, err));
	if (!cross) return LK_OK;
	LK_TRY(each_fold(work, slowdown_by_name, false, work->fold, FOLDS, all, err));
	LK_TRY(slowdown_add_baseline(work, out, "one rule for one kernel", 2, all, err));
	LK_TRY(each_fold(work, by_model, false, work->fold, FOLDS, all, err));
	LK_TRY(slowdown_add_baseline(work, out, "two constants alone", 2, all, err));
	LK_TRY(each_fold(work, by_model, true, work->name_fold, work->names, all, err));
	return slowdown_add_baseline(work, out, "kernel never seen", 0, all, err);
}

static void slowdown_fill_row(const lk_slowdown_row *from, double predicted, double width,
                              lk_validated *row) {
	row->id = from->id;
	row->where = from->where;
	row->model = from->name;
	row->layout = lk_overlap_class_names[lk_overlap_class_of(&from->kernel)];
	row->predicted = predicted;
	row->measured = from->measured_s;
	row->low = predicted * exp(-width);
	row->high = predicted * exp(width);
}

static lk_status slowdown_fill_rows(struct work *work, const double *predicted, lk_scoring *out,
                                    lk_error *err) {
	size_t count = 0, at = 0;
	for (size_t i = 0; i < work->table.count; i++) count += slowdown_beside(&work->table.at[i]);
	LK_TRY(lk_scoring_rows(work->arena, count, out, err));
	lk_score_key *class = lk_scoring_divide(work->arena, out, "bound by");
	lk_score_key *name = lk_scoring_divide(work->arena, out, "kernel");
	if (!class || !name) return lk_oom(err);
	for (size_t i = 0; i < work->table.count; i++) {
		const lk_slowdown_row *row = &work->table.at[i];
		if (!slowdown_beside(row)) continue;
		lk_overlap_class of = lk_overlap_class_of(&row->kernel);
		slowdown_fill_row(row, predicted[i], work->width[i], &out->rows[at]);
		class[at] = (lk_score_key){lk_overlap_class_names[of], (int)of};
		name[at++] = (lk_score_key){row->name, 0};
	}
	return LK_OK;
}

static lk_status slowdown_score(struct work *work, const lk_validate_request *request,
                                lk_stream *in, lk_scoring *out, lk_error *err) {
	lk_overlap model;
	LK_TRY(lk_slowdown_read(work->arena, in, &work->table, err));
	LK_TRY(number_folds(work, err));
	double *predicted = LK_ARRAY(work->arena, double, work->table.count);
	if (!predicted || !lk_overlap_load(work->arena, lk_calibration_current(), &model))
		return lk_oom(err);
	for (size_t i = 0; i < work->table.count; i++) {
		predicted[i] = lk_overlap_seconds(&model, &work->table.at[i].kernel);
		work->width[i] = slowdown_width_of(&model, &work->table.at[i].kernel);
	}
	if (request->cross) LK_TRY(each_fold(work, by_model, true, work->fold, FOLDS, predicted, err));
	if (request->cross)
		LK_TRY(each_fold(work, slowdown_widths, true, work->fold, FOLDS, predicted, err));
	LK_TRY(slowdown_fill_rows(work, predicted, out, err));
	LK_TRY(slowdown_add_baselines(work, request->cross, out, err));
	out->folds = request->cross ? "twentieth of the launches" : "";
	out->parameters = 2 + (int)model.kind_count;
	out->unit_of_rows = "kernel";
	return LK_OK;
}

lk_status lk_score_slowdown(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                            lk_scoring *out, lk_error *err) {
	struct work w = {.arena = arena};
	lk_status status = slowdown_score(&w, request, in, out, err);
	lk_vec_free(&w.table);
	return status;
}
