/* calibrate_finetune.c: how far fine-tuning runs lie from their predictions, rows of family
 * "range": deciles of ln(measured / predicted) of what PyTorch's allocator held, and the 80 %
 * ranges of the sums of tensors and of the steps of adapters. Nothing is fitted to the predictions
 * themselves. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/sort.h"
#include "base/stats.h"
#include "calibrate/calibrate.h"
#include "fit/fits.h"

/* What runs tell. */
enum { HELD, HELD_MEGATRON, TENSORS, ADAPTER_STEPS, TOLD };

static const struct told_row {
	const char *subject, *variant;
	bool deciles;
} told_rows[TOLD] = {
	[HELD] = {"peak-memory", LK_MEMORY_PYTORCH, .deciles = true},
	[HELD_MEGATRON] = {"peak-memory", LK_MEMORY_TUNED, .deciles = true},
	[TENSORS] = {"peak-memory", LK_MEMORY_TENSORS, .deciles = false},
	[ADAPTER_STEPS] = {"step", LK_RANGE_ADAPTERS " dense", .deciles = false},
};

typedef struct misses {
	double *of[TOLD];
	size_t count[TOLD];
} misses;

static void add_miss(misses *out, int what, double measured, double predicted, double scale) {
	if (measured > 0 && predicted > 0)
		out->of[what][out->count[what]++] = log(measured / predicted) * scale;
}

/* What a run tells; nothing where it is refused. */
static lk_status tell(const lk_finetune_run *run, misses *out, lk_error *err) {
	lk_prediction *prediction;
	lk_error why = {0};
	bool megatron = run->request.stack && lk_stack_like_megatron(run->request.stack);
	if (*run->suspect || run->why_not) return LK_OK;
	lk_status status = lk_predict(&run->request, &prediction, &why);
	if (status == LK_ERR_MEMORY) return lk_oom(err);
	if (status != LK_OK) return LK_OK;
	const lk_stage_memory *memory = &prediction->memory[prediction->fullest_stage];
	double sum = memory->allocated;
	if (!run->at_most)
		add_miss(out, megatron ? HELD_MEGATRON : HELD, run->reserved, memory->reserved, 1);
	if (!run->at_most && !megatron)
		add_miss(out, TENSORS, run->allocated, sum, lk_memory_scale(sum));
	if (!megatron && run->request.lora_rank > 0)
		add_miss(out, ADAPTER_STEPS, run->seconds, prediction->step_time_s, 1);
	lk_predict_free(prediction);
	return LK_OK;
}

/* The quantile that a further run lies below with probability `share`, if it is like these. */
static double quantile_of_next(const double *sorted, size_t count, double share) {
	double at = ((double)(count + 1) * share - 1) / (double)(count - 1);
	return lk_quantile(sorted, count, fmin(fmax(at, 0), 1));
}

/* A row of what a list says; none where runs are too few. */
static lk_status add_row(const struct told_row *kind, double *list, size_t count,
                         const char *source, const char *date, lk_calibration *out, lk_error *err) {
	double sum = 0;
	if (count < LK_MEMORY_DECILES + 1) return LK_OK;
	lk_calibration_row *row = lk_calibration_add(out, "range", kind->subject, kind->variant);
	if (!row) return lk_oom(err);
	lk_sort(list, count, sizeof *list, lk_ascending);
	for (int i = 0; kind->deciles && i < LK_MEMORY_DECILES; i++)
		lk_calibration_put(row, lk_memory_deciles[i],
		                   quantile_of_next(list, count, (i + 1) / 10.0));
	if (!kind->deciles) {
		/* ranges of steps are ratios, those of memory logarithms */
		bool ratios = strcmp(kind->subject, "step") == 0;
		double low = quantile_of_next(list, count, .1), high = quantile_of_next(list, count, .9);
		lk_calibration_put(row, "low", ratios ? exp(low) : low);
		lk_calibration_put(row, "high", ratios ? exp(high) : high);
	}
	for (size_t i = 0; i < count; i++) sum += fabs(list[i]);
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
	misses all = {.count = {0}};
	lk_status status = lk_finetune_read(&arena, in, &runs, err);
	for (int what = 0; status == LK_OK && what < TOLD; what++) {
		all.of[what] = LK_ARRAY(&arena, double, runs.count + 1);
		if (!all.of[what]) status = lk_oom(err);
	}
	for (size_t i = 0; status == LK_OK && i < runs.count; i++)
		status = tell(&runs.at[i], &all, err);
	if (status == LK_OK && all.count[HELD] < LK_MEMORY_DECILES + 1)
		status = lk_fail(err, LK_ERR_INPUT, "calibrate finetune",
		                 "%zu runs state what the allocator held, and deciles need %d",
		                 all.count[HELD], LK_MEMORY_DECILES + 1);
	for (int what = 0; status == LK_OK && what < TOLD; what++)
		status = add_row(&told_rows[what], all.of[what], all.count[what], source, date, out, err);
	lk_vec_free(&runs);
	lk_arena_free(&arena);
	return status;
}
