/* lengths.c: lengths of generated sequences: spread as a law with a given mean, or read from a
 * file.
 *
 * The longest sequence determines the length of a phase, and among a few hundred independent draws
 * it depends on the seed. Lengths are therefore the law's quantiles at (i + 1/2) / count, one in
 * each of `count` equally likely strata; the seed only determines their order.
 *
 * The mean of lengths cut at a limit is below that of the law: the scale of the law is found by
 * bisection, so that the mean over all lengths is the given one. */
#include "rollout/rollout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/text.h"
#include "io/stream.h"

enum {
	LENGTHS_BYTES = 64 << 20 /* of a file */
};

const char *const lk_length_kind_names[] = {"fixed", "lognormal", "exponential", NULL};

bool lk_lengths_named(const char *text) {
	for (int i = 0; lk_length_kind_names[i]; i++)
		if (lk_same_name(text, lk_length_kind_names[i])) return true;
	return false;
}

/* Published runs state only means. Answers of one batch spread by about a factor of two either way:
 * an assumption, which the range of a prediction covers from none (fixed) to exponential. */
const double lk_lengths_sigma = 0.7;

/* The `q` quantile of the law with scale 1. */
static double length_quantile(lk_length_kind kind, double q) {
	if (kind == LK_LENGTHS_EXPONENTIAL) return -log1p(-q);
	return exp(lk_lengths_sigma * lk_normal_quantile(q));
}

/* Fisher and Yates: every order is equally likely. */
static void lengths_shuffle(uint64_t seed, size_t count, double *lengths) {
	for (size_t i = count; i > 1; i--) {
		size_t other = (size_t)(lk_uniform(seed, i) * (double)i);
		if (other >= i) other = i - 1; /* the product may round up */
		double kept = lengths[i - 1];
		lengths[i - 1] = lengths[other];
		lengths[other] = kept;
	}
}

static double length_cut(double length, double most) {
	return fmax(1, fmin(most, length));
}

static double length_mean(const double *unit, size_t count, double scale, double most) {
	double sum = 0;
	for (size_t i = 0; i < count; i++) sum += length_cut(unit[i] * scale, most);
	return sum / (double)count;
}

void lk_lengths_spread(lk_length_kind kind, double mean, double most, uint64_t seed, size_t count,
                       double *out) {
	if (!(most > 0)) most = INFINITY;
	if (kind == LK_LENGTHS_FIXED || mean >= most || mean <= 1) {
		for (size_t i = 0; i < count; i++) out[i] = length_cut(mean, most);
		return;
	}
	for (size_t i = 0; i < count; i++)
		out[i] = length_quantile(kind, ((double)i + 0.5) / (double)count);
	double low = 0, high = mean;
	while (length_mean(out, count, high, most) < mean && high < 1e12) high *= 2;
	for (int step = 0; step < 60; step++) {
		double middle = (low + high) / 2;
		if (length_mean(out, count, middle, most) < mean) low = middle;
		else high = middle;
	}
	for (size_t i = 0; i < count; i++) out[i] = round(length_cut(out[i] * high, most));
	lengths_shuffle(seed, count, out);
}

/* Parse one line without its end; `some`: it holds a length. */
static lk_status length_of_line(const char *path, const char *line, int number, double *out,
                                bool *some, lk_error *err) {
	const char *end;
	line += strspn(line, " \t\r");
	*some = *line && *line != '#';
	if (!*some) return LK_OK;
	*out = lk_read_real(line, &end);
	bool read = end > line;
	end += strspn(end, " \t\r");
	if (read && (*end == '\0' || *end == '#') && *out >= 1 && *out <= 1e9) return LK_OK;
	char where[512];
	snprintf(where, sizeof where, "%s:%d", path, number);
	lk_fail(err, LK_ERR_INPUT, where, "this is not a length");
	return lk_hint(err, "write one number of tokens a line, from 1 to 1e9");
}

lk_status lk_lengths_read(const char *path, size_t count, double *out, lk_error *err) {
	char *text, *next, *line;
	size_t size, found = 0;
	LK_TRY(lk_stream_slurp(path, LENGTHS_BYTES, &text, &size, err));
	lk_status status = LK_OK;
	next = text;
	for (int number = 1; status == LK_OK && found < count && (line = strsep(&next, "\n"));
	     number++) {
		bool some;
		status = length_of_line(path, line, number, &out[found], &some, err);
		found += status == LK_OK && some;
	}
	free(text);
	if (status == LK_OK && found == 0) {
		lk_fail(err, LK_ERR_INPUT, path, "it holds no length");
		return lk_hint(err, "write one number of tokens a line");
	}
	for (size_t i = found; status == LK_OK && i < count; i++) out[i] = out[i - found];
	return status;
}
