/* expect_steps.c: what the steps of a log show besides their median: some that take much longer, a
 * drift from the beginning to the end, and clocks that were held down. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/noun.h"
#include "base/stats.h"
#include "base/text.h"
#include "predict/predict_internal.h"

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
static void note_long_steps(struct notes *notes, const double *times, size_t count,
                            double median) {
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
	                       ? lk_arena_printf(notes->arena, "one in every %zu, as checkpoints or "
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
	notes_add(notes, lk_arena_printf(
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
			notes_add(notes, lk_arena_printf(
								 notes->arena, "%s takes %s of a step, %.0f %% of it: more workers, "
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
