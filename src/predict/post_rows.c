/* post_rows.c: packing of a step's sequences into training rows. */
#include <math.h>

#include "base/arena.h"
#include "base/sort.h"
#include "predict/predict_internal.h"

static int post_longer_first(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x < y) - (x > y);
}

/* The first unpacked sequence from `i` on; paths are halved on the way. */
static size_t row_next(size_t *next, size_t i) {
	for (; next[i] != i; i = next[i]) next[i] = next[next[i]];
	return i;
}

/* Count a row whose sequences have this many pairs; `squares` is the sum of their squares. */
static void row_close(lk_post_rows *out, double pairs, double *squares) {
	out->rows++;
	out->pairs += pairs, *squares += pairs * pairs;
}

/* Pack the sequences into rows of `room` tokens: the longest remaining one begins a row, followed
 * by the longest that fits, as in first fit decreasing. `lengths` is sorted, `next` is scratch of
 * count + 1. */
static void rows_fill(const double *lengths, size_t *next, size_t count, double room,
                      lk_post_rows *out, double *squares) {
	for (size_t i = 0; i <= count; i++) next[i] = i;
	for (size_t first; (first = row_next(next, 0)) < count;) {
		double left = room, pairs = 0;
		for (size_t at = first; at < count;) {
			double kept = fmin(lengths[at], room);
			pairs += kept * kept;
			left -= kept;
			next[at] = at + 1;
			size_t low = at + 1, high = count; /* the longest that fits now */
			while (low < high) {
				size_t middle = (low + high) / 2;
				if (lengths[middle] <= left) high = middle;
				else low = middle + 1;
			}
			at = row_next(next, low);
		}
		row_close(out, pairs, squares);
	}
}

lk_status lk_post_rows_fill(lk_arena *arena, double *lengths, size_t count, double room,
                            bool shared, lk_post_rows *out, lk_error *err) {
	size_t *next = LK_ARRAY(arena, size_t, count + 1);
	double squares = 0;
	if (!next) return lk_oom(err);
	lk_sort(lengths, count, sizeof *lengths, post_longer_first);
	*out = (lk_post_rows){0};
	for (size_t i = 0; i < count; i++) {
		double kept = fmin(lengths[i], room); /* sequences longer than a row are cut */
		out->tokens += kept;
		if (!shared) row_close(out, kept * kept, &squares);
	}
	if (shared) rows_fill(lengths, next, count, room, out, &squares);
	double mean = out->pairs / out->rows;
	out->spread = sqrt(fmax(0, squares / out->rows - mean * mean));
	return LK_OK;
}

int lk_post_rows_dealt(double rows, const lk_job *job) {
	int group = 1;
	if (job->vp > 1) group = job->microbatch_group > 0 ? job->microbatch_group : job->pp;
	int dealt = job->mbs * job->dp * group;
	return (int)ceil(fmax(1, rows) / dealt) * dealt;
}
