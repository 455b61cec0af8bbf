/* meter.c: the clock, repetition until the time is spent, and the list of results. */
#include "base/arena.h"
#include "calibrate/host/meter.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

#include "system/clock.h"
#include "base/stats.h"

enum { REPEATS = 500 }; /* most that are kept */

lk_sample lk_repeat(lk_trial *trial, void *context, double seconds, int least) {
	double taken[REPEATS], end = lk_clock_s() + seconds;
	int count = 0;
	bool works = isfinite(trial(context));
	while (works && count < REPEATS && (count < least || lk_clock_s() < end)) {
		taken[count] = trial(context);
		works = isfinite(taken[count]) && taken[count] > 0;
		count += works;
	}
	if (!works) return (lk_sample){NAN, NAN, NAN, 0};
	size_t n = (size_t)count;
	return (lk_sample){lk_median(taken, n), lk_quantile(taken, n, 0.1), lk_quantile(taken, n, 0.9),
	                   count};
}

void *lk_pages(size_t bytes) {
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED) return NULL;
	madvise(pages, bytes,
	        MADV_HUGEPAGE); /* fewer page faults and TLB misses; no matter if refused */
	return pages;
}

/* ---- results ---- */

void lk_meter_say(lk_meter *meter, const char *doing) {
	if (!meter->options->progress) return;
	double share = (lk_clock_s() - meter->begun) / meter->seconds;
	meter->options->progress(meter->options->context, doing, share < 1 ? share : 1);
}

static lk_status meter_put(lk_meter *meter, lk_quantity q) {
	q.name = lk_arena_strdup(&meter->host->arena, q.name);
	if (!q.name || !lk_push(&meter->host->quantities)) return lk_oom(meter->err);
	*lk_last(&meter->host->quantities) = q;
	return LK_OK;
}

lk_status lk_meter_rate(lk_meter *meter, const char *group, const char *name, const char *unit,
                        double amount, double scale, const lk_sample *sample) {
	if (sample->repeats == 0) return LK_OK;
	double all = amount / scale;
	return meter_put(meter, (lk_quantity){group, name, unit, all / sample->median,
	                                      all / sample->high, all / sample->low, sample->repeats});
}

lk_status lk_meter_time(lk_meter *meter, const char *group, const char *name, const char *unit,
                        double parts, double scale, const lk_sample *sample) {
	if (sample->repeats == 0) return LK_OK;
	double all = parts * scale;
	return meter_put(meter, (lk_quantity){group, name, unit, sample->median / all,
	                                      sample->low / all, sample->high / all, sample->repeats});
}

lk_status lk_meter_count(lk_meter *meter, const char *group, const char *name, const char *unit,
                         double value) {
	return meter_put(meter, (lk_quantity){group, name, unit, value, NAN, NAN, 0});
}

lk_status lk_meter_note(lk_meter *meter, const char *fmt, ...) {
	char text[400];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	const char *copy = lk_arena_strdup(&meter->host->arena, text);
	if (!copy || !lk_push(&meter->host->notes)) return lk_oom(meter->err);
	*lk_last(&meter->host->notes) = copy;
	return LK_OK;
}
