/* explain_times.c: sets of times with a fast query of the part between two moments; sorting and
 * statistics of durations. Traces have millions of events: everything here is linear, except the
 * search of one moment. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "explain/explain.h"
#include "base/check.h"

bool lk_times_append(lk_intervals *set, int64_t start, int64_t end) {
	if (end <= start) return true;
	lk_interval *last = set->count ? lk_last(set) : NULL;
	LK_ASSERT(!last || start >= last->start);
	if (!last || start > last->end) return lk_intervals_add(set, start, end);
	if (end > last->end) last->end = end;
	return true;
}

bool lk_times_index(lk_times *times) {
	free(times->before);
	times->before = malloc((times->set.count + 1) * sizeof *times->before);
	if (!times->before) return false;
	times->before[0] = 0;
	for (size_t i = 0; i < times->set.count; i++)
		times->before[i + 1] = times->before[i] + times->set.at[i].end - times->set.at[i].start;
	return true;
}

/* Length of the set before a moment. */
static int64_t until(const lk_times *times, int64_t moment) {
	size_t low = 0, high = times->set.count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (times->set.at[middle].end <= moment) low = middle + 1;
		else high = middle;
	}
	LK_ASSERT(times->before && low <= times->set.count);
	int64_t length = times->before[low];
	if (low < times->set.count && times->set.at[low].start < moment)
		length += moment - times->set.at[low].start;
	return length;
}

int64_t lk_times_between(const lk_times *times, int64_t start, int64_t end) {
	return end > start && times->set.count ? until(times, end) - until(times, start) : 0;
}

int64_t lk_times_length(const lk_times *times) {
	return times->set.count ? times->before[times->set.count] : 0;
}

void lk_times_free(lk_times *times) {
	lk_vec_free(&times->set);
	free(times->before);
	times->before = NULL;
}

/* ---- sorting ---- */

static bool times_in_order(const lk_timed *at, size_t count) {
	for (size_t i = 1; i < count; i++)
		if (at[i].key < at[i - 1].key) return false;
	return true;
}

/* One pass of a radix sort, by the byte at `shift`. */
static void times_pass(const lk_timed *from, lk_timed *to, size_t count, int shift) {
	size_t place[256] = {0};
	for (size_t i = 0; i < count; i++) place[from[i].key >> shift & 255]++;
	for (size_t digit = 0, sum = 0; digit < 256; digit++) {
		size_t here = place[digit];
		place[digit] = sum;
		sum += here;
	}
	for (size_t i = 0; i < count; i++) to[place[from[i].key >> shift & 255]++] = from[i];
}

bool lk_timed_sort(lk_timed *at, size_t count) {
	if (times_in_order(at, count)) return true;
	lk_timed *spare = malloc(count * sizeof *spare), *from = at, *to = spare;
	if (!spare) return false;
	uint64_t differs = 0;
	for (size_t i = 1; i < count; i++) differs |= at[i].key ^ at[0].key;
	for (int shift = 0; shift < 64; shift += 8) {
		if (!(differs >> shift & 255)) continue;
		times_pass(from, to, count, shift);
		lk_timed *swap = from;
		from = to;
		to = swap;
	}
	if (from != at) memcpy(at, from, count * sizeof *at);
	free(spare);
	return true;
}

bool lk_timed_events(lk_timed_list *list, lk_events *out) {
	bool good = lk_reserve(out, list->count);
	for (size_t i = 0; good && i < list->count; i++) out->at[i] = list->at[i].item;
	if (good) out->count = list->count;
	lk_vec_free(list);
	return good;
}

/* ---- statistics ---- */

/* Linear interpolation between order statistics, like lk_quantile. */
static double quantile(const lk_timed *ascending, size_t count, double q) {
	LK_ASSERT(count > 0 && q >= 0 && q <= 1);
	double rank = q * (double)(count - 1);
	size_t low = (size_t)rank, high = low + 1 < count ? low + 1 : low;
	double part = rank - (double)low;
	return (double)ascending[low].key * (1 - part) + (double)ascending[high].key * part;
}

lk_explain_stats lk_stats_of(const lk_timed *ascending, size_t count) {
	lk_explain_stats s = {.count = count, .deviation_ns = NAN};
	if (!count) {
		s.mean_ns = s.median_ns = s.p95_ns = s.min_ns = s.max_ns = NAN;
		return s;
	}
	for (size_t i = 0; i < count; i++) s.total_ns += (double)ascending[i].key;
	s.mean_ns = s.total_ns / (double)count;
	double squares = 0;
	for (size_t i = 0; i < count; i++) {
		double off = (double)ascending[i].key - s.mean_ns;
		squares += off * off;
	}
	/* Of the sample, as in nsys and pandas. */
	s.deviation_ns = count > 1 ? sqrt(squares / (double)(count - 1)) : 0;
	s.median_ns = quantile(ascending, count, 0.5);
	s.p95_ns = quantile(ascending, count, 0.95);
	s.min_ns = (double)ascending[0].key;
	s.max_ns = (double)ascending[count - 1].key;
	return s;
}
