/* intervals.c: merges over sorted intervals; all linear except the sort. */
#include "base/intervals.h"
#include "base/sort.h"

bool lk_intervals_add(lk_intervals *set, int64_t start, int64_t end) {
	if (end <= start) return true;
	if (!lk_push(set)) return false;
	*lk_last(set) = (lk_interval){start, end};
	return true;
}

LK_ORDER_BY(intervals_by_start, lk_interval, start)

static bool is_sorted(const lk_intervals *set) {
	for (size_t i = 1; i < set->count; i++)
		if (set->at[i].start < set->at[i - 1].start) return false;
	return true;
}

void lk_intervals_sort(lk_intervals *set) {
	if (set->count == 0) return;
	if (!is_sorted(set)) lk_sort(set->at, set->count, sizeof *set->at, intervals_by_start);
	size_t kept = 0;
	for (size_t i = 1; i < set->count; i++) {
		if (set->at[i].start > set->at[kept].end) set->at[++kept] = set->at[i];
		else if (set->at[i].end > set->at[kept].end) set->at[kept].end = set->at[i].end;
	}
	set->count = kept + 1;
}

int64_t lk_intervals_length(const lk_intervals *set) {
	int64_t length = 0;
	for (size_t i = 0; i < set->count; i++) length += set->at[i].end - set->at[i].start;
	return length;
}

bool lk_intervals_and(const lk_intervals *a, const lk_intervals *b, lk_intervals *out) {
	out->count = 0;
	for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
		const lk_interval *x = &a->at[i], *y = &b->at[j];
		if (!lk_intervals_add(out, lk_later(x->start, y->start), lk_sooner(x->end, y->end)))
			return false;
		if (x->end < y->end) i++;
		else j++;
	}
	return true;
}

bool lk_intervals_minus(const lk_intervals *a, const lk_intervals *b, lk_intervals *out) {
	out->count = 0;
	size_t j = 0;
	for (size_t i = 0; i < a->count; i++) {
		int64_t from = a->at[i].start, end = a->at[i].end;
		while (j < b->count && b->at[j].end <= from) j++;
		for (size_t k = j; k < b->count && b->at[k].start < end; k++) {
			if (!lk_intervals_add(out, from, b->at[k].start)) return false;
			from = lk_later(from, b->at[k].end);
		}
		if (!lk_intervals_add(out, from, end)) return false;
	}
	return true;
}
