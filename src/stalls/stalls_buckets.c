/* stalls_buckets.c: the layer and bucket model: time of the gradients' communication by the number
 * of calls.
 *
 *     T(step) = a * calls + b * bytes + c,   a, b, c >= 0
 *
 * a and b are fitted to the transfer times by size of the message (least squares of relative
 * errors; a negative one is set to 0 and the other fitted alone, which is non-negative least
 * squares for two numbers); with only one size, a is the time of a call on measured machines; c is
 * the rest of the step's exposed communication. Tensors sent one by one make `calls` their number;
 * buckets of B bytes make it ceil(bytes / B). Hidden time stays hidden: the exposed time changes by
 * the change of the transfer, not below 0. */
#include <math.h>

#include "base/arena.h"
#include "stalls/stalls.h"
#include "base/check.h"
#include "base/stats.h"

enum { MOST_SIZES = 4096 };

struct line {
	double per_call, per_byte;
};

/* Least squares of seconds = a + b * bytes with weights 1 / seconds^2, by the number of calls. */
static struct line fit_bucket_line(const lk_stalls_size *size, int count) {
	LK_ASSERT(count > 1);
	double w = 0, x = 0, y = 0, xx = 0, xy = 0;
	for (int i = 0; i < count; i++) {
		double weight = size[i].calls / (size[i].seconds * size[i].seconds);
		w += weight;
		x += weight * size[i].bytes;
		y += weight * size[i].seconds;
		xx += weight * size[i].bytes * size[i].bytes;
		xy += weight * size[i].bytes * size[i].seconds;
	}
	double det = w * xx - x * x;
	struct line l = {w > 0 ? y / w : 0, xx > 0 ? xy / xx : 0};
	if (det <= 1e-12 * w * xx) return (struct line){0, l.per_byte};
	double a = (y * xx - x * xy) / det, b = (w * xy - x * y) / det;
	if (a < 0) return (struct line){0, l.per_byte};
	if (b < 0) return (struct line){l.per_call, 0};
	return (struct line){a, b};
}

static double median_fit_error(const lk_stalls_size *size, int count, struct line l, double *room) {
	for (int i = 0; i < count; i++)
		room[i] = fabs(l.per_call + l.per_byte * size[i].bytes - size[i].seconds) / size[i].seconds;
	return lk_median(room, (size_t)count);
}

static void predict_bucket_steps(lk_stalls_buckets *buckets, double exposed_s, double step_s) {
	double now = buckets->per_call_s * buckets->calls + buckets->per_byte_s * buckets->bytes;
	for (int i = 0; i < buckets->count; i++) {
		struct lk_stalls_bucket *bucket = &buckets->at[i];
		bucket->calls = ceil(buckets->bytes / bucket->bucket_bytes);
		bucket->transfer_s =
			buckets->per_call_s * bucket->calls + buckets->per_byte_s * buckets->bytes;
		double shown = fmax(0, exposed_s + bucket->transfer_s - now);
		bucket->step_s = step_s + shown - exposed_s;
	}
}

/* With one size: a call takes its time on measured machines, bytes the rest. */
static struct line line_of_one_size(const lk_stalls_size *size, double call_s) {
	double per_call = fmin(call_s, size->seconds);
	return (struct line){per_call, (size->seconds - per_call) / size->bytes};
}

bool lk_stalls_fit_buckets(const lk_stalls_size *sizes, int count, double call_s, double exposed_s,
                           double step_s, lk_arena *arena, lk_stalls_buckets *out) {
	LK_ASSERT(count >= 0 && exposed_s >= 0);
	enum { BUCKETS = 6 };
	double room[MOST_SIZES];
	lk_stalls_size used[MOST_SIZES];
	int n = 0;
	for (int i = 0; i < count && n < MOST_SIZES; i++) {
		out->calls += sizes[i].calls;
		out->bytes += sizes[i].calls * sizes[i].bytes;
		if (sizes[i].seconds > 0 && sizes[i].bytes > 0) used[n++] = sizes[i];
	}
	out->error = NAN;
	out->per_call_s = out->per_byte_s = out->rest_s = NAN;
	out->sizes = n;
	out->note = "";
	if (n == 0) out->note = "no call's transfer was seen";
	if (n == 1 && isnan(call_s))
		out->note = "all calls have one size: the cost of a call and of a byte cannot be separated "
					"without --cluster";
	if (!n || (n == 1 && isnan(call_s))) return true;
	struct line l = n > 1 ? fit_bucket_line(used, n) : line_of_one_size(used, call_s);
	out->per_call_s = l.per_call;
	out->per_byte_s = l.per_byte;
	out->error = median_fit_error(used, n, l, room);
	out->rest_s = fmax(0, exposed_s - l.per_call * out->calls - l.per_byte * out->bytes);
	/* from one bucket for everything down to a thousandth */
	out->at = LK_ARRAY(arena, struct lk_stalls_bucket, BUCKETS);
	if (!out->at) return false;
	for (double parts = 1; out->count < BUCKETS; parts *= 4)
		out->at[out->count++].bucket_bytes = ceil(out->bytes / parts);
	predict_bucket_steps(out, exposed_s, step_s);
	return true;
}
