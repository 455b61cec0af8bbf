/* expect_values.c: what a run states, as values that can be compared with a predicted step; how
 * well one agrees with its prediction; and what the steps of a log show besides their median. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/noun.h"
#include "base/stats.h"
#include "base/text.h"
#include "predict/predict_internal.h"

static const double FACT = 0.01;   /* ln by which stated numbers may differ */
static const double SHARE = 0.05;  /* deviation of the share of a timed part */
static const double SHARE_CAP = 8; /* most that one part counts, in ln */
static const double FACT_CAP = 25; /* likewise a stated number */

/* ---- measured values ---- */

static double time_of(const lk_expected_step *step) {
	return step->step_s;
}
static double tokens_of(const lk_expected_step *step) {
	return step->tokens / step->step_s * step->counting.speed;
}
static double samples_of(const lk_expected_step *step) {
	return step->samples / step->step_s * step->counting.speed;
}
static double gpu_tokens_of(const lk_expected_step *step) {
	return step->tokens / step->step_s / step->gpus;
}
static double tflops_of(const lk_expected_step *step) {
	return step->flops / step->step_s / step->gpus / 1e12 * step->counting.flops;
}
double lk_expected_mfu(const lk_expected_step *step) {
	return step->peak > 0 ? tflops_of(step) * 1e12 / step->peak * step->counting.peak : 0;
}
static double gpus_of(const lk_expected_step *step) {
	return step->gpus;
}
static double gbs_of(const lk_expected_step *step) {
	return step->gbs;
}
static double seq_of(const lk_expected_step *step) {
	return step->seq;
}
static double power_of(const lk_expected_step *step) {
	return step->power;
}
static double step_tokens_of(const lk_expected_step *step) {
	return step->tokens;
}

#define BIT(part) (1u << LK_PART_##part)
#define COMPUTE   (BIT(GEMM) | BIT(ATTENTION) | BIT(CONV) | BIT(MEMORY))
#define INNER     (COMPUTE | BIT(TP) | BIT(CP) | BIT(EP) | BIT(COPY) | BIT(HOST))

/* What the timers of Megatron-LM and its relatives measure, as parts of the predicted step; timers
 * of one key are added. */
static const struct timer {
	const char *name, *key, *label;
	unsigned parts;
} timers[] = {
	{"forward-backward", "forward_backward", "forward and backward",
     INNER | BIT(PP) | BIT(BUBBLE) | BIT(WAIT)},
	{"forward-compute", "compute", "forward and backward of one stage", INNER},
	{"backward-compute", "compute", "forward and backward of one stage", INNER},
	{"all-grads-sync", "data_parallel", "gradients and parameters", BIT(DP)},
	{"grads-reduce-scatter", "data_parallel", "gradients and parameters", BIT(DP)},
	{"grads-all-reduce", "data_parallel", "gradients and parameters", BIT(DP)},
	{"params-all-gather", "data_parallel", "gradients and parameters", BIT(DP)},
	{"optimizer", "optimizer", "optimizer", BIT(OPTIMIZER)},
};

static double parts_of(const lk_expected_step *step, unsigned parts) {
	double sum = 0;
	for (int i = 0; i < LK_PART_COUNT; i++)
		if (parts >> i & 1) sum += step->part_s[i];
	return sum;
}

double lk_value_predicted(const lk_value_stated *value, const lk_expected_step *step) {
	if (value->kind == LK_VALUE_MEMORY) return step->memory[value->memory];
	if (value->kind == LK_VALUE_SHARE) return parts_of(step, value->parts) / step->step_s;
	return value->of(step);
}

static void values_add(lk_values *values, lk_value_stated value) {
	LK_ASSERT(values->count < LK_VALUES_MOST);
	if (value.measured > 0 && isfinite(value.measured)) values->at[values->count++] = value;
}

static void values_add_timers(lk_values *values, const lk_measured *measured, double step_s) {
	int first = values->count;
	for (size_t p = 0; p < measured->part_count && step_s > 0; p++) {
		const struct timer *timer = NULL;
		for (size_t t = 0; t < sizeof timers / sizeof *timers; t++)
			if (strcmp(timers[t].name, measured->parts[p].name) == 0) timer = &timers[t];
		double share = measured->parts[p].seconds / step_s;
		if (!timer || !(share >= 0) || share > 1.05) continue;
		int at = first;
		while (at < values->count && strcmp(values->at[at].key, timer->key) != 0) at++;
		if (at == values->count && at - first < LK_PARTS_MOST)
			values->at[values->count++] = (lk_value_stated){.kind = LK_VALUE_SHARE,
			                                                .key = timer->key,
			                                                .label = timer->label,
			                                                .unit = "share",
			                                                .parts = timer->parts};
		if (at < values->count) values->at[at].measured += share;
	}
}

#define SPEED(kind_, key_, label_, unit_, measured_, of_)                      \
	{                                                                          \
		.kind = LK_VALUE_##kind_, .key = key_, .label = label_, .unit = unit_, \
		.measured = (measured_), .of = of_                                     \
	}
#define STATED(key_, label_, measured_, of_)                             \
	(lk_value_stated) {                                                  \
		.kind = LK_VALUE_FACT, .key = key_, .label = label_, .unit = "", \
		.measured = (double)(measured_), .of = of_                       \
	}

/* The first statement of speed counts: the others are made of the same time. Two of them say how
 * much work a step is. */
void lk_values_fill(lk_values *values, const lk_measured *measured, const lk_expected_step *base) {
	const lk_value_stated speeds[] = {
		SPEED(TIME, "step_time_s", "step time", "s", measured->step_s, time_of),
		SPEED(RATE, "tokens_per_s_per_gpu", "speed", "tokens/s/GPU", measured->tokens_per_s_gpu,
	          gpu_tokens_of),
		SPEED(RATE, "tokens_per_s", "speed", "tokens/s", measured->tokens_per_s, tokens_of),
		SPEED(RATE, "samples_per_s", "speed", "samples/s", measured->samples_per_s, samples_of),
		SPEED(RATE, "tflops_per_gpu", "speed", "TFLOP/s/GPU", measured->tflops_gpu, tflops_of),
		SPEED(RATE, "mfu", "MFU", "share", measured->mfu, lk_expected_mfu),
	};
	for (size_t i = 0; i < sizeof speeds / sizeof *speeds && values->count == 0; i++)
		if (speeds[i].of(base) > 0) values_add(values, speeds[i]);
	values_add(values, (lk_value_stated){.kind = LK_VALUE_MEMORY,
	                                     .key = "memory_bytes",
	                                     .label = "memory",
	                                     .unit = "bytes",
	                                     .measured = measured->memory_bytes,
	                                     .memory = measured->memory_kind});
	double gpus = (double)measured->gpus, per_step = measured->tokens_per_s * measured->step_s;
	if (!(per_step > 0))
		per_step = measured->tokens_per_s_gpu * measured->step_s * lk_or_else(gpus, base->gpus);
	values_add(values, STATED("gpus", "GPUs", gpus, gpus_of));
	values_add(values, STATED("gbs", "global batch", measured->global_batch, gbs_of));
	values_add(values, STATED("seq", "sequence length", measured->seq_len, seq_of));
	values_add(values, STATED("power_limit", "power limit", measured->power_limit_w, power_of));
	if (!measured->global_batch || !measured->seq_len)
		values_add(values, STATED("step_tokens", "tokens of a step",
		                          base->tokens > 0 ? per_step : 0, step_tokens_of));
	values_add_timers(values, measured, measured->step_s);
}

/* ---- agreement of one value with its prediction ---- */

/* Log-normal with a deviation for each side. */
static double two_sided(double off, double low, double high) {
	double below = fmax(-log(low) / LK_EIGHTY, 1e-3), above = fmax(log(high) / LK_EIGHTY, 1e-3);
	double deviation = off > 0 ? above : below;
	return log(2 / (sqrt(2 * M_PI) * (below + above))) - off * off / (2 * deviation * deviation);
}

lk_agreement lk_value_agrees(const lk_value_stated *value, const lk_expected_step *step) {
	double predicted = lk_value_predicted(value, step), off = log(value->measured / predicted);
	double low = step->low_s / step->step_s, high = step->high_s / step->step_s;
	lk_agreement a = {.predicted = predicted};
	switch (value->kind) {
	case LK_VALUE_RATE:
		a.low = predicted / high, a.high = predicted / low;
		a.likelihood = two_sided(-off, low, high);
		break;
	case LK_VALUE_MEMORY: low = step->memory_low, high = step->memory_high; /* fall through */
	case LK_VALUE_TIME:
		a.low = predicted * low, a.high = predicted * high;
		a.likelihood = two_sided(off, low, high);
		break;
	case LK_VALUE_FACT:
		a.low = predicted * (1 - FACT), a.high = predicted * (1 + FACT);
		a.likelihood = -fmin(off * off / (2 * FACT * FACT), FACT_CAP);
		break;
	case LK_VALUE_SHARE:
		off = (value->measured - predicted) / SHARE;
		a.low = fmax(predicted - LK_EIGHTY * SHARE, 0), a.high = predicted + LK_EIGHTY * SHARE;
		a.likelihood = -fmin(off * off / 2, SHARE_CAP);
		break;
	}
	a.inside = value->measured >= a.low && value->measured <= a.high;
	return a;
}

/* ---- what the steps of a log show ---- */

enum { FEWEST = 20, NOTES = 4 }; /* steps that say anything; notes */
static const double LONG = 1.5;  /* times the median: a step that something held up */
static const double DRIFT = 0.05;

struct notes {
	lk_arena *arena;
	const char **at;
	int count;
	bool failed;
};

static void notes_add(struct notes *notes, const char *text) {
	if (text) notes->at[notes->count++] = text;
	else notes->failed = true;
}

/* Steps that something held up: how many, how long, how often. */
static void note_long_steps(struct notes *notes, const double *times, size_t count, double median) {
	size_t found = 0, last = 0, every = 0;
	double extra = 0, whole = 0;
	bool even = true;
	for (size_t i = 0; i < count; i++) {
		whole += times[i];
		if (times[i] <= LONG * median) continue;
		extra += times[i] - median;
		if (found == 1) every = i - last;
		else if (found > 1) even &= i - last == every;
		last = i;
		found++;
	}
	if (found == 0) return;
	const char *when = found > 2 && even
	                       ? lk_arena_printf(notes->arena,
	                                         "one in every %zu, as checkpoints or "
	                                         "evaluations come",
	                                         every)
	                       : "at no fixed distance, as slow data, a shared file system or garbage "
	                         "collection come";
	if (!when) notes->failed = true;
	else
		notes_add(notes, lk_arena_printf(
							 notes->arena,
							 "%zu of %zu %s more than %.1f times the median, %.1f times it on "
							 "average and %.1f %% of the time: %s; what is compared is the median",
							 found, count, lk_noun((double)found, "step takes", "steps take"), LONG,
							 1 + extra / (double)found / median, 100 * extra / whole, when));
}

static void note_drift(struct notes *notes, const double *times, size_t count) {
	size_t third = count / 3;
	double first = lk_median(times, third), last = lk_median(times + count - third, third);
	if (!(first > 0) || fabs(last / first - 1) < DRIFT) return;
	notes_add(notes,
	          lk_arena_printf(
				  notes->arena, "the last third of the steps takes %.0f %% %s than the first: %s",
				  100 * fabs(last / first - 1), last > first ? "longer" : "less",
				  last > first ? "clocks that fall as it gets warm, a growing process or "
								 "sequences that get longer"
							   : "caches that fill, or sequences that get shorter"));
}

/* Timers around the data: what they say is no part of the prediction. */
static void note_data(struct notes *notes, const lk_measured *measured) {
	static const char *const loaders[] = {"batch-generator", "data", "data_loading", "data_time",
	                                      "dataloader"};
	char text[32];
	for (size_t p = 0; p < measured->part_count && measured->step_s > 0; p++)
		for (size_t i = 0; i < sizeof loaders / sizeof *loaders; i++) {
			double seconds = measured->parts[p].seconds;
			if (strcmp(loaders[i], measured->parts[p].name) != 0) continue;
			if (seconds < DRIFT * measured->step_s || notes->count == NOTES) continue;
			notes_add(notes,
			          lk_arena_printf(notes->arena,
			                          "%s takes %s of a step, %.0f %% of it: more workers, "
			                          "prefetching, or data nearer to the GPUs",
			                          loaders[i], lk_format_seconds(seconds, text, sizeof text),
			                          100 * seconds / measured->step_s));
		}
}

lk_status lk_expect_steps(lk_arena *arena, const lk_measured *measured, lk_expected *out,
                          lk_error *err) {
	struct notes notes = {.arena = arena, .at = LK_ARRAY(arena, const char *, NOTES)};
	size_t first = measured->first_steps < measured->steps ? measured->first_steps : 0,
		   count = measured->steps - first;
	if (!notes.at) return lk_oom(err);
	if (measured->step_times_s && count >= FEWEST) {
		const double *times = measured->step_times_s + first;
		double median = lk_median(times, count);
		if (median > 0) note_long_steps(&notes, times, count, median);
		note_drift(&notes, times, count);
	}
	if (measured->throttled)
		notes_add(&notes, "clocks were held down by power or temperature while it ran");
	note_data(&notes, measured);
	out->notes = notes.at;
	out->note_count = notes.count;
	return notes.failed ? lk_oom(err) : LK_OK;
}
