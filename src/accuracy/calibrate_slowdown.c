/* calibrate_slowdown.c: `lockstep calibrate` of a table of overlapped kernels: the two constants, the kinds, and how wide
 * the ranges of each class are. A range's width is the error that RANGE of the rows of its class stay below when they
 * are predicted from fits without them: kinds of one launch would otherwise seem exact. */
#include <math.h>

#include "accuracy/calibrate.h"
#include "accuracy/slowdown.h"
#include "base/stats.h"

#define DEVICE "a100-sxm-40"
#define RANGE 0.76
enum { PARTS = 20 };

/* |ln(predicted / measured)| of every row, from fits without its part; NAN for rows that nothing runs beside. */
static bool left_out(lk_arena *arena, const lk_slowdown_table *table, double *error) {
	bool *use = LK_ARRAY(arena, bool, table->count), fitted = use != NULL;
	for (size_t part = 0; fitted && part < PARTS; part++) {
		lk_arena one = {0};
		lk_overlap model;
		for (size_t i = 0; i < table->count; i++) use[i] = lk_hash64(i) % PARTS != part;
		fitted = lk_slowdown_fit(&one, table, use, true, &model);
		for (size_t i = 0; fitted && i < table->count; i++) {
			const lk_slowdown_row *row = &table->at[i];
			if (use[i]) continue;
			error[i] = fabs(log(lk_overlap_seconds(&model, &row->kernel) / row->measured_s));
			if (!(row->kernel.ratio > 0)) error[i] = NAN;
		}
		lk_arena_free(&one);
	}
	return fitted;
}

static bool add_range(lk_overlap_class class, double *error, size_t count, const char *source, const char *date,
                      lk_calibration *out) {
	lk_calibration_row *row = lk_calibration_add(out, "range", "slowdown", lk_overlap_class_names[class]);
	if (!row) return false;
	lk_calibration_put(row, "width", expm1(lk_quantile(error, count, RANGE)));
	row->points = (int)count, row->error = expm1(lk_mean(error, count)), row->source = source, row->date = date;
	return true;
}

static bool calibrate(lk_arena *arena, const lk_slowdown_table *table, const char *source, const char *date,
                      lk_calibration *out) {
	double *error = LK_ARRAY(arena, double, table->count), *some = LK_ARRAY(arena, double, table->count);
	lk_overlap model;
	if (!error || !some || !left_out(arena, table, error)) return false;
	if (!lk_slowdown_fit(arena, table, NULL, true, &model)) return false;
	size_t count = 0;
	for (size_t i = 0; i < table->count; i++)
		if (isfinite(error[i])) some[count++] = error[i];
	if (!lk_overlap_store(&model, DEVICE, (int)count, expm1(lk_mean(some, count)), date, source, out)) return false;
	for (int class = 0; class < LK_OVERLAP_CLASSES; class++) {
		count = 0;
		for (size_t i = 0; i < table->count; i++)
			if (isfinite(error[i]) && (int)lk_overlap_class_of(&table->at[i].kernel) == class) some[count++] = error[i];
		if (count && !add_range((lk_overlap_class)class, some, count, source, date, out)) return false;
	}
	return true;
}

lk_status lk_calibrate_slowdown(lk_stream *in, const char *source, const char *date, lk_calibration *out,
                                lk_error *err) {
	lk_arena arena = {0};
	lk_slowdown_table table = {0};
	const char *from = lk_arena_strdup(&out->arena, source), *on = lk_arena_strdup(&out->arena, date);
	lk_status status = from && on ? lk_slowdown_read(&arena, in, &table, err) : lk_oom(err);
	if (status == LK_OK && table.count == 0) status = lk_fail(err, LK_ERR_INPUT, lk_stream_name(in), "the table has no rows");
	if (status == LK_OK && !calibrate(&arena, &table, from, on, out)) status = lk_oom(err);
	lk_vec_free(&table);
	lk_arena_free(&arena);
	return status;
}
