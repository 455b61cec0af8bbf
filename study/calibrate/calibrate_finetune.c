/* calibrate_finetune.c: how far what PyTorch's allocator held in fine-tuning runs lies from its
 * prediction: deciles of ln(measured / predicted), a row of family "range". Nothing is fitted to
 * the prediction itself. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/sort.h"
#include "base/stats.h"
#include "calibrate/calibrate.h"
#include "fit/fits.h"

static bool tells(const lk_finetune_run *run) {
	const char *stack = run->request.stack;
	bool megatron = stack && lk_stack_like_megatron(stack);
	return !*run->suspect && !run->why_not && !run->at_most && !isnan(run->reserved) && !megatron;
}

/* NAN: refused. */
static lk_status held_of(const lk_finetune_run *run, double *reserved, lk_error *err) {
	lk_prediction *prediction;
	lk_error why = {0};
	lk_status status = lk_predict(&run->request, &prediction, &why);
	*reserved = NAN;
	if (status == LK_ERR_MEMORY) return lk_oom(err);
	if (status != LK_OK) return LK_OK;
	*reserved = prediction->memory[prediction->fullest_stage].reserved;
	lk_predict_free(prediction);
	return LK_OK;
}

static lk_status add_deciles(double *misses, size_t count, const char *source, const char *date,
                             lk_calibration *out, lk_error *err) {
	double sum = 0;
	if (count < LK_MEMORY_DECILES + 1)
		return lk_fail(err, LK_ERR_INPUT, "calibrate finetune",
		               "%zu runs state what the allocator held, and deciles need %d", count,
		               LK_MEMORY_DECILES + 1);
	lk_calibration_row *row = lk_calibration_add(out, "range", "peak-memory", LK_MEMORY_PYTORCH);
	if (!row) return lk_oom(err);
	lk_sort(misses, count, sizeof *misses, lk_ascending);
	for (int i = 0; i < LK_MEMORY_DECILES; i++)
		lk_calibration_put(row, lk_memory_deciles[i], lk_quantile(misses, count, (i + 1) / 10.0));
	for (size_t i = 0; i < count; i++) sum += fabs(misses[i]);
	row->points = (int)count;
	row->error = expm1(sum / (double)count);
	row->date = lk_arena_strdup(&out->arena, date);
	row->source = lk_arena_strdup(&out->arena, source);
	return row->date && row->source ? LK_OK : lk_oom(err);
}

lk_status lk_calibrate_finetune(lk_stream *in, const char *source, const char *date,
                                lk_calibration *out, lk_error *err) {
	lk_finetune_runs runs = {0};
	lk_arena arena = LK_ARENA_INIT;
	size_t count = 0;
	lk_status status = lk_finetune_read(&arena, in, &runs, err);
	double *misses = LK_ARRAY(&arena, double, runs.count + 1);
	if (status == LK_OK && !misses) status = lk_oom(err);
	for (size_t i = 0; status == LK_OK && i < runs.count; i++) {
		double held;
		if (!tells(&runs.at[i])) continue;
		status = held_of(&runs.at[i], &held, err);
		if (status == LK_OK && !isnan(held)) misses[count++] = log(runs.at[i].reserved / held);
	}
	if (status == LK_OK) status = add_deciles(misses, count, source, date, out, err);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
	return status;
}
