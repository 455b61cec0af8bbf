/* calibrate_slowdown.c: `lockstep calibrate` of a table of overlapped kernels: the two constants,
 * the kinds, and the width of each class' range. A range is `times` the typical error of such a
 * kernel (lk_overlap_spread): RANGE of the rows of a class lie inside when predicted from fits
 * without them; otherwise kinds of one launch would seem exact. */
#include <math.h>

#include "base/arena.h"
#include "calibrate/calibrate.h"
#include "fit/fits.h"
#include "tables/tables.h"
#include "base/stats.h"

#define DEVICE "a100-sxm-40"
#define RANGE  0.74 /* similar launches have similar errors */
enum { PARTS = 20 };

/* Rows predicted from fits without their part. */
struct left {
	double *miss; /* ln(predicted / measured)|; NAN for rows without overlap */
	double *least,
		*own; /* lk_overlap_spread with a typical error of 0, and the increase per typical error of
		         1 */
};

/* The rows of one part: their errors; once these are known, the estimate of the same fit's kinds
 * for such rows. */
static bool slowdown_leave_out(lk_arena *arena, const lk_slowdown_table *table, size_t part,
                               bool *use, bool known, struct left *out) {
	lk_overlap model;
	for (size_t i = 0; i < table->count; i++) use[i] = lk_hash64(i) % PARTS != part;
	if (!lk_slowdown_fit(arena, table, use, true, &model)) return false;
	if (known && !lk_slowdown_spreads(arena, table, use, out->miss, &model)) return false;
	for (size_t i = 0; i < table->count; i++) {
		const lk_slowdown_row *row = &table->at[i];
		if (use[i]) continue;
		out->least[i] = lk_overlap_spread(&model, &row->kernel, 0);
		out->own[i] = lk_overlap_spread(&model, &row->kernel, 1) - out->least[i];
		if (known) continue;
		out->miss[i] = fabs(log(lk_overlap_seconds(&model, &row->kernel) / row->measured_s));
		if (!(row->kernel.ratio > 0)) out->miss[i] = NAN;
	}
	return true;
}

static bool leave_out_all(lk_arena *arena, const lk_slowdown_table *table, struct left *out) {
	bool *use = LK_ARRAY(arena, bool, table->count), fitted = use != NULL;
	for (size_t turn = 0; fitted && turn < 2 * PARTS; turn++) {
		lk_arena one = {0};
		fitted = slowdown_leave_out(&one, table, turn % PARTS, use, turn >= PARTS, out);
		lk_arena_free(&one);
	}
	return fitted;
}

/* The range of a class from its rows; `some` is scratch for them. */
static bool add_range(const lk_slowdown_table *table, lk_overlap_class class,
                      const struct left *rows, double *some, const lk_calibration_row *like,
                      lk_calibration *out) {
	size_t count = 0, at = 0;
	for (size_t i = 0; i < table->count; i++)
		if (isfinite(rows->miss[i]) && lk_overlap_class_of(&table->at[i].kernel) == class)
			some[count++] = rows->miss[i];
	if (count == 0) return true;
	lk_calibration_row *row =
		lk_calibration_add(out, "range", "slowdown", lk_overlap_class_names[class]);
	if (!row) return false;
	row->points = (int)count;
	row->error = expm1(lk_mean(some, count));
	row->source = like->source;
	row->date = like->date;
	double usual = fmax(lk_median(some, count), 1e-6);
	for (size_t i = 0; i < table->count; i++)
		if (isfinite(rows->miss[i]) && lk_overlap_class_of(&table->at[i].kernel) == class)
			some[at++] = rows->miss[i] / (rows->least[i] + rows->own[i] * usual);
	lk_calibration_put(row, "usual", usual);
	lk_calibration_put(row, "times", lk_quantile(some, count, RANGE));
	return true;
}

static bool slowdown_calibrate(lk_arena *arena, const lk_slowdown_table *table, const char *source,
                               const char *date, lk_calibration *out) {
	struct left rows = {LK_ARRAY(arena, double, table->count),
	                    LK_ARRAY(arena, double, table->count),
	                    LK_ARRAY(arena, double, table->count)};
	double *some = LK_ARRAY(arena, double, table->count);
	lk_overlap model;
	if (!rows.miss || !rows.least || !rows.own || !some || !leave_out_all(arena, table, &rows))
		return false;
	if (!lk_slowdown_fit(arena, table, NULL, true, &model)) return false;
	if (!lk_slowdown_spreads(arena, table, NULL, rows.miss, &model)) return false;
	size_t count = 0;
	for (size_t i = 0; i < table->count; i++)
		if (isfinite(rows.miss[i])) some[count++] = rows.miss[i];
	if (!lk_overlap_store(&model, DEVICE, (int)count, expm1(lk_mean(some, count)), date, source,
	                      out))
		return false;
	lk_calibration_row like = {.source = source, .date = date};
	for (int class = 0; class < LK_OVERLAP_CLASSES; class ++)
		if (!add_range(table, (lk_overlap_class) class, &rows, some, &like, out)) return false;
	return true;
}

lk_status lk_calibrate_slowdown(lk_stream *in, const char *source, const char *date,
                                lk_calibration *out, lk_error *err) {
	lk_arena arena = {0};
	lk_slowdown_table table = {0};
	const char *from = lk_arena_strdup(&out->arena, source),
			   *on = lk_arena_strdup(&out->arena, date);
	lk_status status = from && on ? lk_slowdown_read(&arena, in, &table, err) : lk_oom(err);
	if (status == LK_OK && table.count == 0)
		status = lk_fail(err, LK_ERR_INPUT, lk_stream_name(in), "the table has no rows");
	if (status == LK_OK && !slowdown_calibrate(&arena, &table, from, on, out)) status = lk_oom(err);
	lk_vec_free(&table);
	lk_arena_free(&arena);
	return status;
}
