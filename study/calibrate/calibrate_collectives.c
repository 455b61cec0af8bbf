/* calibrate_collectives.c: from measured collectives to the numbers common to all fabrics, numbers
 * and curves of single fabrics, and the widths of their ranges, from |ln(predicted / measured)| of
 * cross-validated rows. For a fabric, the 80 % quantile without the sizes or the number of GPUs, by
 * size class, with or without a network, and for messages between two ranks; for unmeasured
 * fabrics, without the fabric (fit/collective_range.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "calibrate/calibrate.h"
#include "fit/fits.h"
#include "tables/tables.h"
#include "base/stats.h"
#include "base/text.h"

static const double quantile = .8;
enum {
	FABRICS_LEAST = 6, /* needed for the common numbers */
	ERRORS_LEAST = 3,  /* needed for a width */
};

struct task {
	lk_arena arena; /* of intermediate data */
	lk_coll_rows rows;
	lk_coll_fabrics fabrics;
	const char *const *more; /* further tables */
	int more_count;
	const char *source, *date;
	lk_calibration *out;
	lk_coll_pick *picked;
	size_t picked_count;
	lk_nccl_laws laws;
	lk_fabric shared;                      /* start of the fabrics' fits */
	double *size_us, *gpus_us, *fabric_us; /* cross-validated, by kind of folds */
};

/* ---- a row of the result ---- */

static lk_calibration_row *collectives_add_row(struct task *task, const char *family,
                                               const char *subject, const char *variant) {
	lk_arena *arena = &task->out->arena;
	const char *texts[] = {
		lk_arena_strdup(arena, subject),
		lk_arena_strdup(arena, variant),
		lk_arena_strdup(arena, task->date),
		lk_arena_strdup(arena, task->source),
	};
	if (!texts[0] || !texts[1] || !texts[2] || !texts[3]) return NULL;
	lk_calibration_row *row = lk_calibration_add(task->out, family, texts[0], texts[1]);
	if (row) {
		row->date = texts[2];
		row->source = texts[3];
	}
	return row;
}

static lk_status put_fabric(struct task *task, const char *name, const lk_fabric *fabric,
                            double error, lk_error *err) {
	lk_fabric numbers = *fabric;
	lk_calibration_row *row = collectives_add_row(task, "collective", name, "");
	if (!row) return lk_oom(err);
	for (int i = 0; i < LK_FABRIC_NUMBERS; i++)
		lk_calibration_put(row, lk_fabric_names[i], *lk_fabric_number(&numbers, i));
	row->points = (int)task->picked_count;
	row->error = expm1(error);
	return LK_OK;
}

static lk_status collectives_put_curve(struct task *task, const char *name, const lk_curve *curve,
                                       lk_error *err) {
	char variant[80];
	snprintf(variant, sizeof variant, "%s %d on %d", lk_coll_name(curve->kind), curve->gpus,
	         curve->nodes);
	lk_calibration_row *row = collectives_add_row(task, "curve", name, variant);
	if (!row) return lk_oom(err);
	for (int k = 0; k < LK_CURVE_KNOTS; k++)
		if (curve->measured[k])
			lk_calibration_put(row, lk_curve_knot_name(k), exp(curve->correction[k]));
	for (size_t i = 0; i < task->picked_count; i++) {
		const lk_coll_row *one = task->picked[i];
		row->points +=
			one->kind == curve->kind && one->gpus == curve->gpus && one->nodes == curve->nodes;
	}
	return LK_OK;
}

/* A fabric's own rows: numbers, then curves of the residuals. */
static lk_status collectives_put_measured(struct task *task, const char *name,
                                          const lk_fabric *start, lk_error *err) {
	lk_fabric fabric;
	lk_curves curves;
	double error;
	lk_fabric_fit(task->picked, task->picked_count, start, &fabric, &error);
	LK_TRY(put_fabric(task, name, &fabric, error, err));
	lk_coll_curves_fit(task->picked, task->picked_count, &fabric, &curves);
	for (int i = 0; i < curves.count; i++)
		LK_TRY(collectives_put_curve(task, name, &curves.at[i], err));
	return LK_OK;
}

/* ---- fabrics ---- */

static void collectives_pick(struct task *task, const char *fabric) {
	task->picked_count = 0;
	for (size_t i = 0; i < task->rows.count; i++) {
		const lk_coll_row *row = &task->rows.at[i];
		if (lk_coll_fitted(&task->fabrics, row) && strcmp(row->fabric, fabric) == 0)
			task->picked[task->picked_count++] = row;
	}
}

static int collectives_fabrics(const struct task *task) {
	int count = 0;
	for (size_t i = 0; i < task->rows.count; i++) {
		bool known = !lk_coll_teaches_laws(&task->rows.at[i]);
		for (size_t k = 0; k < i && !known; k++)
			known = strcmp(task->rows.at[k].fabric, task->rows.at[i].fabric) == 0 &&
			        lk_coll_teaches_laws(&task->rows.at[k]);
		count += !known;
	}
	return count;
}

/* The numbers common to all fabrics, if the table has enough fabrics: the laws, and the default for
 * unmeasured ones. The NICs' share stays open, because it is a law's. */
static lk_status collectives_put_shared(struct task *task, lk_error *err) {
	if (collectives_fabrics(task) < FABRICS_LEAST) return LK_OK;
	double error;
	task->picked_count = 0;
	for (size_t i = 0; i < task->rows.count; i++)
		if (lk_coll_teaches_laws(&task->rows.at[i]))
			task->picked[task->picked_count++] = &task->rows.at[i];
	LK_TRY(lk_coll_laws_fit(task->picked, task->picked_count, &task->laws, &task->shared, &error,
	                        err));
	lk_calibration_row *row = collectives_add_row(task, "laws", "nccl", "");
	if (!row) return lk_oom(err);
	for (int i = 0; i < LK_NCCL_LAWS; i++)
		lk_calibration_put(row, lk_nccl_law_limits[i].name, *lk_nccl_law(&task->laws, i));
	row->points = (int)task->picked_count;
	row->error = expm1(error);
	return put_fabric(task, "default", &task->shared, error, err);
}

static lk_status put_fabrics(struct task *task, lk_error *err) {
	for (size_t f = 0; f < task->fabrics.count; f++) {
		collectives_pick(task, task->fabrics.at[f]);
		LK_TRY(collectives_put_measured(task, task->fabrics.at[f], &task->shared, err));
	}
	return LK_OK;
}

/* ---- ranges ---- */

/* Selects the rows of a width. */
struct wide {
	const char *fabric;
	bool network;  /* over a network, else inside a node */
	bool messages; /* between two ranks; else collectives */
	int size;      /* size class */
};

static bool collectives_counts(const struct task *task, const struct wide *wide,
                               lk_coll_folds folds, const lk_coll_row *row) {
	if (wide->size != lk_coll_size_class(row->bytes) || wide->network != (row->nodes > 1) ||
	    wide->messages != lk_coll_is_message(row))
		return false;
	if (lk_coll_no_relatives(&task->rows, row, folds)) return false;
	return lk_coll_fitted(&task->fabrics, row) && strcmp(wide->fabric, row->fabric) == 0;
}

/* NAN with too few rows. */
static double collectives_width(const struct task *task, const struct wide *wide,
                                lk_coll_folds folds, const double *us, int *points) {
	double *errors = malloc((task->rows.count + 1) * sizeof *errors);
	size_t count = 0;
	for (size_t i = 0; errors && i < task->rows.count; i++)
		if (collectives_counts(task, wide, folds, &task->rows.at[i]) && us[i] > 0)
			errors[count++] = fabs(log(us[i] / task->rows.at[i].us));
	double result = count >= ERRORS_LEAST ? lk_quantile(errors, count, quantile) : NAN;
	free(errors);
	*points = (int)count;
	return result;
}

static lk_status collectives_put_width(struct task *task, const struct wide *wide, lk_error *err) {
	char variant[160];
	int points, unused;
	double seen = collectives_width(task, wide, LK_COLL_FOLDS_SIZE, task->size_us, &points),
		   unseen = collectives_width(task, wide, LK_COLL_FOLDS_GPUS, task->gpus_us, &unused);
	if (!isfinite(seen)) return LK_OK;
	if (!isfinite(unseen)) unseen = 2 * seen;
	lk_coll_range_own(wide->fabric, wide->network, wide->messages, wide->size, variant,
	                  sizeof variant);
	lk_calibration_row *row = collectives_add_row(task, "range", "collective", variant);
	if (!row) return lk_oom(err);
	lk_calibration_put(row, "width", seen);
	lk_calibration_put(row, "unseen_width", fmax(seen, unseen));
	row->points = points;
	return LK_OK;
}

static lk_status collectives_put_widths(struct task *task, const char *fabric, lk_error *err) {
	for (int network = 0; network < 2; network++)
		for (int messages = 0; messages < 2; messages++)
			for (int size = 0; size < LK_COLL_SIZE_CLASSES; size++) {
				struct wide wide = {fabric, network != 0, messages != 0, size};
				LK_TRY(collectives_put_width(task, &wide, err));
			}
	return LK_OK;
}

/* For unmeasured fabrics. */
static lk_status collectives_put_unseen(struct task *task, lk_error *err) {
	for (int place = 0; place < LK_COLL_PLACES; place++)
		for (int messages = 0; messages < 2; messages++) {
			char variant[80];
			int points;
			lk_coll_range range = {0};
			LK_TRY(lk_coll_range_fit(&task->rows, task->fabric_us, (lk_coll_place)place,
			                         messages != 0, NULL, LK_COLL_FOLDS_FABRIC, &range, &points,
			                         err));
			if (!(range.share > 0)) continue;
			lk_coll_range_unseen((lk_coll_place)place, messages != 0, variant, sizeof variant);
			lk_calibration_row *row = collectives_add_row(task, "range", "collective", variant);
			if (!row) return lk_oom(err);
			lk_calibration_put(row, "share", range.share);
			lk_calibration_put(row, "us", range.us);
			lk_calibration_put(row, "nodes", range.nodes);
			row->points = points;
		}
	return LK_OK;
}

static lk_status collectives_put_ranges(struct task *task, lk_error *err) {
	const struct {
		lk_coll_folds folds;
		lk_coll_predictor *predict;
		double **us;
	} kinds[] = {
		{LK_COLL_FOLDS_SIZE, lk_coll_predict_model, &task->size_us},
		{LK_COLL_FOLDS_GPUS, lk_coll_predict_model, &task->gpus_us},
		{LK_COLL_FOLDS_FABRIC, lk_coll_predict_laws, &task->fabric_us},
	};
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		if (kinds[k].folds == LK_COLL_FOLDS_FABRIC && task->shared.laws != &task->laws) continue;
		*kinds[k].us = LK_ARRAY(&task->arena, double, task->rows.count);
		if (!*kinds[k].us) return lk_oom(err);
		LK_TRY(lk_coll_cross(&task->rows, &task->fabrics, kinds[k].folds, kinds[k].predict,
		                     &task->shared, *kinds[k].us, err));
	}
	for (size_t f = 0; f < task->fabrics.count; f++)
		LK_TRY(collectives_put_widths(task, task->fabrics.at[f], err));
	return task->fabric_us ? collectives_put_unseen(task, err) : LK_OK;
}

/* ---- logs ---- */

static lk_status calibrate_log(struct task *task, lk_stream *in, lk_error *err) {
	LK_TRY(lk_coll_rows_of_log(&task->arena, in, task->source, &task->rows, err));
	lk_coll_pick *picked = LK_ARRAY(&task->arena, lk_coll_pick, task->rows.count);
	if (!picked) return lk_oom(err);
	task->picked = picked;
	for (size_t i = 0; i < task->rows.count; i++)
		if (!*task->rows.at[i].refused) picked[task->picked_count++] = &task->rows.at[i];
	return collectives_put_measured(task, "default", lk_fabric_default(), err);
}

/* ---- whole tables ---- */

static lk_status calibrate_table(struct task *task, lk_stream *in, lk_error *err) {
	LK_TRY(lk_coll_rows_read(&task->arena, in, &task->rows, err));
	LK_TRY(lk_coll_rows_read_files(&task->arena, task->more, task->more_count, &task->rows, err));
	LK_TRY(lk_coll_fabrics_of(&task->rows, &task->fabrics, err));
	task->picked = LK_ARRAY(&task->arena, lk_coll_pick, task->rows.count);
	if (!task->picked) return lk_oom(err);
	if (task->fabrics.count == 0) {
		lk_fail(err, LK_ERR_INPUT, lk_stream_name(in), "no fabric has %d rows or more",
		        LK_COLL_FIT_ROWS);
		return lk_hint(err, "a log of nccl-tests is fitted with any number of sizes");
	}
	LK_TRY(collectives_put_shared(task, err));
	LK_TRY(put_fabrics(task, err));
	return collectives_put_ranges(task, err);
}

lk_status lk_calibrate_collectives(lk_stream *in, const char *source, const char *date,
                                   lk_calibration *out, lk_error *err) {
	return lk_calibrate_collective_tables(in, NULL, 0, source, date, out, err);
}

lk_status lk_calibrate_collective_tables(lk_stream *in, const char *const *more, int more_count,
                                         const char *source, const char *date, lk_calibration *out,
                                         lk_error *err) {
	struct task t = {.more = more,
	                 .more_count = more_count,
	                 .source = source,
	                 .date = date,
	                 .out = out,
	                 .shared = *lk_fabric_default()};
	t.shared.curves = NULL;
	char *text;
	size_t size;
	lk_stream *copy = NULL;
	lk_status status = lk_nccl_log_text(&t.arena, in, &text, &size, err);
	if (status == LK_OK) status = lk_stream_memory(text, size, lk_stream_name(in), &copy, err);
	if (status == LK_OK)
		status =
			lk_coll_is_table(text) ? calibrate_table(&t, copy, err) : calibrate_log(&t, copy, err);
	lk_stream_close(copy);
	lk_vec_free(&t.rows);
	lk_vec_free(&t.fabrics);
	lk_arena_free(&t.arena);
	return status;
}
