/* score_collectives.c: measured collectives, size by size. Fabrics with enough rows are fitted
 * (cross-validated: without the row's fold), the others are predicted from the catalogue and the
 * default numbers. Fabrics whose source calls them slow are predicted and not scored. Ranges are
 * those of the calibration (cost/collective/range.c); when fabrics are left out, each from the
 * errors of the others. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "fit/fits.h"
#include "validate/validate.h"
#include "base/text.h"
#include "base/noun.h"

static const lk_calibration_row *own_row(const char *fabric) {
	return lk_calibration_find(lk_calibration_current(), "collective", fabric, "");
}

/* Predict with the current numbers: the fabric's own row of the calibration and its curves, else
 * the default. */
static void predict_in_use(const lk_coll_rows *rows, double *us) {
	for (size_t i = 0; i < rows->count; i++) {
		const lk_calibration_row *row = own_row(rows->at[i].fabric);
		lk_fabric fabric = row ? lk_fabric_of(row) : *lk_fabric_default();
		lk_curves curves;
		lk_curves_of(lk_calibration_current(), row, &curves);
		if (row) fabric.curves = &curves;
		if (!*rows->at[i].refused) us[i] = lk_coll_row_time(&rows->at[i], &fabric);
	}
}

/* The number of fitted numbers for all fabrics. */
static int collectives_numbers_of(const lk_coll_fabrics *fabrics) {
	const lk_calibration *calibration = lk_calibration_current();
	int numbers = LK_FABRIC_NUMBERS * (int)fabrics->count;
	for (size_t f = 0; f < fabrics->count; f++) {
		const lk_calibration_row *row = own_row(fabrics->at[f]);
		lk_curves curves;
		lk_curves_of(calibration, row, &curves);
		for (int i = 0; i < curves.count; i++)
			for (int k = 0; k < LK_CURVE_KNOTS; k++) numbers += curves.at[i].measured[k];
	}
	return numbers;
}

/* ---- rows ---- */

struct task {
	lk_arena *arena;
	const lk_coll_rows *rows;
	lk_coll_fabrics fabrics;
	lk_coll_folds folds;
	bool cross;
	lk_scoring *out;
	lk_coll_range *apart; /* [rows] with fabrics left out: from the errors of the others */
};

static bool collectives_apart(const struct task *task) {
	return task->cross && lk_coll_folds_apart(task->folds);
}

static lk_coll_place collectives_place(const lk_coll_row *row) {
	lk_group_shape group = lk_coll_row_group(row, NULL);
	return lk_coll_place_of(&group);
}

/* The first row of the table in the same fold, with the same place and kind of traffic, which
 * shares its range. */
static size_t collectives_first_alike(const lk_coll_rows *rows, size_t row, lk_coll_folds folds) {
	const lk_coll_row *one = &rows->at[row];
	size_t first = 0;
	while (first < row && (*rows->at[first].refused ||
	                       collectives_place(&rows->at[first]) != collectives_place(one) ||
	                       lk_coll_is_message(&rows->at[first]) != lk_coll_is_message(one) ||
	                       !lk_coll_one_fold(&rows->at[first], one, folds)))
		first++;
	return first;
}

static lk_status collectives_ranges_apart(struct task *task, const double *us, lk_error *err) {
	task->apart = LK_ARRAY(task->arena, lk_coll_range, task->rows->count);
	if (!task->apart) return lk_oom(err);
	for (size_t i = 0; i < task->rows->count; i++) {
		const lk_coll_row *row = &task->rows->at[i];
		if (*row->refused) continue;
		size_t first = collectives_first_alike(task->rows, i, task->folds);
		int points;
		if (first < i) {
			task->apart[i] = task->apart[first];
			continue;
		}
		lk_coll_place place = collectives_place(row);
		bool messages = lk_coll_is_message(row);
		task->apart[i] = lk_coll_range_of(lk_calibration_current(), place, messages);
		LK_TRY(lk_coll_range_fit(task->rows, us, place, messages, row, task->folds, &task->apart[i],
		                         &points, err));
	}
	return LK_OK;
}

static void set_range(const struct task *task, size_t i, bool own, lk_validated *out) {
	const lk_coll_row *row = &task->rows->at[i];
	if (*row->refused) return;
	lk_group_shape group = lk_coll_row_group(row, NULL);
	double width = task->apart ? lk_coll_range_width(&task->apart[i], row->nodes, out->predicted)
	                           : lk_coll_width(lk_calibration_current(), own ? row->fabric : NULL,
	                                           row->kind, &group, row->bytes, out->predicted,
	                                           task->cross && task->folds == LK_COLL_FOLDS_GPUS);
	out->low = out->predicted * exp(-width);
	out->high = out->predicted * exp(width);
}

static const char *collectives_reason_of(const struct task *task, const lk_coll_row *row) {
	if (*row->refused) return row->refused;
	if (*row->slow) return lk_arena_printf(task->arena, "not scored: %s", row->slow);
	if (!(row->us > 0)) return "not scored: no measured time";
	bool fitted = lk_coll_fitted(&task->fabrics, row);
	if (task->cross && (fitted || collectives_apart(task)))
		return lk_coll_no_relatives(task->rows, row, task->folds);
	return fitted ? NULL
	              : "from the catalogue and the default numbers: too few rows to fit its fabric";
}

static lk_status collectives_fill_row(const struct task *task, size_t i, double us, lk_error *err) {
	const lk_coll_row *row = &task->rows->at[i];
	lk_validated *out = &task->out->rows[i];
	lk_group_shape group = lk_coll_row_group(row, NULL);
	bool fitted = lk_coll_fitted(&task->fabrics, row), own = own_row(row->fabric) != NULL;
	out->id = row->fabric;
	out->where = row->where;
	out->gpu = row->gpu;
	out->gpus = row->gpus;
	out->unit = "us";
	out->model = lk_coll_name(row->kind), out->measured = row->us > 0 ? row->us : NAN,
	out->predicted = us;
	out->reason = collectives_reason_of(task, row);
	if (!*row->refused) {
		lk_coll_cost cost = lk_collective_cost(row->kind, &group, row->bytes);
		out->layout = lk_arena_printf(task->arena, "%.0f B, %d %s, %s %s", row->bytes, row->nodes,
		                              lk_noun(row->nodes, "node", "nodes"), lk_algo_name(cost.algo),
		                              lk_proto_name(cost.proto));
		if (!out->layout) return lk_oom(err);
	}
	set_range(task, i, fitted || own, out);
	task->out->scores[i].suspect =
		*row->slow || (out->reason && strncmp(out->reason, "not scored", 10) == 0);
	task->out->divisions[0].keys[i] =
		fitted ? (lk_score_key){"fitted", 0} : (lk_score_key){"from the catalogue", 1};
	task->out->divisions[1].keys[i] = (lk_score_key){row->fabric, 0};
	task->out->divisions[2].keys[i] = (lk_score_key){lk_coll_name(row->kind), 0};
	task->out->divisions[3].keys[i] = (lk_score_key){
		lk_arena_printf(task->arena, "%d on %d %s", row->gpus, row->nodes,
	                    lk_noun(row->nodes, "node", "nodes")),
		row->nodes * 1000 + row->gpus,
	};
	int size = lk_coll_size_class(row->bytes);
	task->out->divisions[4].keys[i] = (lk_score_key){lk_coll_size_classes[size], size};
	const char *source = *row->source ? row->source : "unstated";
	task->out->divisions[5].keys[i] =
		(lk_score_key){row->node.device ? row->node.device->name : row->gpu, 0};
	task->out->divisions[6].keys[i] =
		(lk_score_key){lk_arena_strndup(task->arena, source, lk_publication(source)), 0};
	bool named = task->out->divisions[3].keys[i].name && task->out->divisions[6].keys[i].name;
	return named ? LK_OK : lk_oom(err);
}

/* ---- the whole table ---- */

static const char *const fold_names[] = {
	[LK_COLL_FOLDS_SIZE] = "fifth of the fabric's sizes",
	[LK_COLL_FOLDS_GPUS] = "number of GPUs of the fabric",
	[LK_COLL_FOLDS_FABRIC] = "fabric",
	[LK_COLL_FOLDS_GPU] = "GPU",
	[LK_COLL_FOLDS_SOURCE] = "source",
};

static lk_coll_folds collectives_folds(int request) {
	switch (request) {
	case LK_FOLDS_GPUS: return LK_COLL_FOLDS_GPUS;
	case LK_FOLDS_FABRIC: return LK_COLL_FOLDS_FABRIC;
	case LK_FOLDS_GPU: return LK_COLL_FOLDS_GPU;
	case LK_FOLDS_SOURCE: return LK_COLL_FOLDS_SOURCE;
	default: return LK_COLL_FOLDS_SIZE;
	}
}

static lk_status collectives_compare(const struct task *task, lk_error *err) {
	static const struct {
		const char *name;
		lk_coll_predictor *predict;
		int parameters; /* per fabric; -1: two per collective and group */
	} others[] = {
		{"alpha-beta", lk_coll_predict_alpha_beta, -1},
		{"raw NCCL", lk_coll_predict_raw, 0},
		{"five scalars", lk_coll_predict_scalars, 5},
	};
	for (size_t b = 0; b < sizeof others / sizeof *others; b++) {
		int parameters = others[b].parameters * (int)task->fabrics.count;
		lk_baseline *baseline = lk_scoring_baseline(task->arena, task->out, others[b].name,
		                                            parameters < 0 ? 0 : parameters);
		if (!baseline) return lk_oom(err);
		LK_TRY(lk_coll_cross(task->rows, &task->fabrics, task->folds, others[b].predict,
		                     lk_fabric_default(), baseline->predicted, err));
		if (parameters >= 0) continue;
		for (size_t i = 0; i < task->rows->count; i++) {
			const lk_coll_row *row = &task->rows->at[i], *before = i ? row - 1 : NULL;
			bool same = before && before->kind == row->kind && before->gpus == row->gpus &&
			            before->nodes == row->nodes && strcmp(before->fabric, row->fabric) == 0;
			if (!same && lk_coll_fitted(&task->fabrics, row)) baseline->parameters += 2;
		}
	}
	return LK_OK;
}

static lk_status collectives_score(struct task *task, lk_error *err) {
	static const char *const by[] = {"fabrics", "fabric", "collective", "gpus",
	                                 "size",    "gpu",    "source"};
	LK_TRY(lk_coll_fabrics_of(task->rows, &task->fabrics, err));
	LK_TRY(lk_scoring_rows(task->arena, task->rows->count, task->out, err));
	double *us = LK_ARRAY(task->arena, double, task->rows->count);
	if (!us) return lk_oom(err);
	for (size_t i = 0; i < task->rows->count; i++) us[i] = NAN;
	predict_in_use(task->rows, us);
	if (task->cross)
		LK_TRY(lk_coll_cross(task->rows, &task->fabrics, task->folds,
		                     collectives_apart(task) ? lk_coll_predict_laws : lk_coll_predict_model,
		                     lk_fabric_default(), us, err));
	if (collectives_apart(task)) LK_TRY(collectives_ranges_apart(task, us, err));
	for (size_t d = 0; d < sizeof by / sizeof *by; d++)
		if (!lk_scoring_divide(task->arena, task->out, by[d])) return lk_oom(err);
	for (size_t i = 0; i < task->rows->count; i++)
		LK_TRY(collectives_fill_row(task, i, us[i], err));
	task->out->parameters = collectives_numbers_of(&task->fabrics);
	task->out->unit_of_rows = "size";
	task->out->folds = task->cross ? fold_names[task->folds] : "";
	return collectives_compare(task, err);
}

lk_status lk_score_collectives(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                               lk_scoring *out, lk_error *err) {
	lk_coll_rows rows = {0};
	struct task t = {.arena = arena,
	                 .rows = &rows,
	                 .folds = collectives_folds(request->folds),
	                 .cross = request->cross,
	                 .out = out};
	lk_status status = lk_coll_rows_read_any(arena, in, &rows, err);
	if (status == LK_OK)
		status = lk_coll_rows_read_files(arena, request->more, request->more_count, &rows, err);
	if (status == LK_OK) status = collectives_score(&t, err);
	lk_vec_free(&t.fabrics);
	lk_vec_free(&rows);
	return status;
}
