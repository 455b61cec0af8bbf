/* locality.c: classes of rows by how often they are looked up.
 *
 * Zipf: ranges of ranks that grow by a constant ratio; a row that is looked up L times on average
 * is touched with probability 1 - exp(-L), and then L / (1 - exp(-L)) times.
 *
 * A histogram's bin (2^(b-1), 2^b] is divided into up to four classes whose weights fall by a
 * constant ratio, chosen so that the bin's mean is access_b N / (unique_b U): in the public data it
 * is well above the middle in no bin, below it in most (3.4 in (2,4], 6.2 in (4,8]). Shares of
 * distinct rows are stated with three digits; if that rounds to 0, the share of lookups gives the
 * number of rows.
 */
#include "cost/kernel/embedding.h"

#include <math.h>
#include <stdbool.h>

#include "base/stats.h"

double lk_locality_rows(const lk_locality *locality) {
	double sum = 0;
	for (int i = 0; i < locality->count; i++) sum += locality->rows[i];
	return sum;
}

double lk_locality_lookups(const lk_locality *locality) {
	double sum = 0;
	for (int i = 0; i < locality->count; i++) sum += locality->rows[i] * locality->times[i];
	return sum;
}

static void locality_add(lk_locality *locality, double rows, double times) {
	if (!(rows > 0) || !(times > 0) || locality->count == LK_LOCALITY_CLASSES) return;
	locality->rows[locality->count] = rows;
	locality->times[locality->count++] = times;
}

/* ---- Zipf ---- */

/* Integral of x^-s from a to b. */
static double locality_weight(double a, double b, double s) {
	if (fabs(s - 1) < 1e-9) return log(b / a);
	return (pow(b, 1 - s) - pow(a, 1 - s)) / (1 - s);
}

static void add_touched(lk_locality *locality, double rows, double mean) {
	double touched = -expm1(-mean);
	if (touched > 0) locality_add(locality, rows * touched, mean / touched);
}

void lk_locality_zipf(double rows, double lookups, double skew, lk_locality *out) {
	out->count = 0;
	if (!(rows >= 1) || !(lookups > 0)) return;
	if (skew <= 0 || rows < 2) {
		add_touched(out, floor(rows), lookups / floor(rows));
		return;
	}
	/* ranks 1 to rows as the interval from 1/2 to rows + 1/2: a rank's share is the integral over
	 * its unit */
	double all = locality_weight(0.5, rows + 0.5, skew), from = 0.5,
		   ratio = pow(2 * rows + 1, 1.0 / (LK_LOCALITY_CLASSES - 8));
	while (from < rows + 0.5 && out->count < LK_LOCALITY_CLASSES) {
		double to = fmin(fmax(floor(from * ratio) + 0.5, from + 1), rows + 0.5);
		if (out->count == LK_LOCALITY_CLASSES - 1) to = rows + 0.5;
		add_touched(out, to - from, lookups * locality_weight(from, to, skew) / all / (to - from));
		from = to;
	}
}

/* ---- histograms ---- */

static double low_of(int bin) {
	return bin == 0 ? 0 : pow(2, bin - 1);
}

/* Default mean lookups of a row in a bin: log-uniform within the bin. */
static double usual_mean(int bin) {
	if (bin == 0) return 1;
	if (bin == 1) return 2;
	return low_of(bin) / log(2);
}

/* Representative counts of a bin; returns their number. */
static int locality_counts_of(int bin, double counts[4]) {
	if (bin < 2) return counts[0] = bin + 1, 1;
	if (bin == 2) return counts[0] = 3, counts[1] = 4, 2;
	double span =
		bin == LK_REUSE_BINS - 1 ? 4 : 2; /* the last bin is open: up to four times its begin */
	for (int k = 0; k < 4; k++) counts[k] = low_of(bin) * pow(span, (k + 0.5) / 4);
	return 4;
}

static double mean_with(const double *counts, int n, double fall, double *weights) {
	double sum = 0, all = 0, w = 1;
	for (int k = 0; k < n; k++, w *= fall) {
		if (weights) weights[k] = w;
		sum += w * counts[k];
		all += w;
	}
	for (int k = 0; weights && k < n; k++) weights[k] /= all;
	return sum / all;
}

/* Divide a bin's rows so that its mean is as wanted, as far as its counts allow. */
static void add_bin(lk_locality *out, int bin, double rows, double mean) {
	double counts[4], weights[4], low = 1e-6, high = 1e6;
	int n = locality_counts_of(bin, counts);
	if (bin == LK_REUSE_BINS - 1) mean = fmax(mean, counts[0]);
	for (int i = 0; i < 80 && n > 1; i++) {
		double middle = sqrt(low * high);
		if (mean_with(counts, n, middle, NULL) < mean) low = middle;
		else high = middle;
	}
	mean_with(counts, n, n > 1 ? low : 1, weights);
	for (int k = n - 1; k >= 0; k--) locality_add(out, rows * weights[k], counts[k]);
}

static double locality_mean_of(const double *unique, const double *access, int bin,
                               double lookups_of_row) {
	if (!access || !(unique[bin] > 0.0015) || !(access[bin] > 0))
		return usual_mean(bin); /* rounded to 0 */
	double mean = access[bin] * lookups_of_row / unique[bin];
	return fmin(fmax(mean, bin ? low_of(bin) + (bin < 3) : 1),
	            bin < LK_REUSE_BINS - 1 ? fmax(low_of(bin) * 2, 1) : 1e9);
}

void lk_locality_reuse(const double *unique, const double *access, double rows, double lookups,
                       lk_locality *out) {
	double share[LK_REUSE_BINS], mean[LK_REUSE_BINS], whole = 0, all = 0, mass = 0;
	out->count = 0;
	for (int b = 0; b < LK_REUSE_BINS; b++)
		whole += unique[b] * (access ? 1 : 0), mass += access ? access[b] : 0;
	/* mean lookups of a distinct row: in the bins with an exact mean, one and two */
	double known = access && access[0] + access[1] > 0
	                   ? (unique[0] + 2 * unique[1]) / (access[0] + access[1]) * mass / whole
	                   : 0;
	for (int b = 0; b < LK_REUSE_BINS; b++) {
		mean[b] = locality_mean_of(unique, access, b, known);
		share[b] = access && unique[b] <= 0.0015 ? access[b] * known / mean[b] : unique[b];
		all += share[b] * mean[b];
	}
	if (!(all > 0)) return;
	double different = 0;
	for (int b = 0; b < LK_REUSE_BINS; b++) different += share[b] * lookups / all;
	double fit = fmin(1, rows / different); /* a smaller table: fewer rows, each more frequent */
	for (int b = LK_REUSE_BINS - 1; b >= 0; b--)
		if (share[b] > 0) add_bin(out, b, share[b] * lookups / all, mean[b]);
	double got = lk_locality_lookups(out), scale = got > 0 ? lookups / got : 0;
	for (int i = 0; i < out->count; i++) {
		out->rows[i] *= fit * scale;
		out->times[i] /= fit;
	}
}

void lk_locality_thin(const lk_locality *locality, double keep, lk_locality *out) {
	lk_locality in = *locality;
	out->count = 0;
	for (int i = 0; i < in.count; i++) {
		double touched = keep >= 1 ? 1 : -expm1(in.times[i] * log1p(-keep));
		if (touched > 0)
			locality_add(out, in.rows[i] * touched, in.times[i] * fmin(keep, 1) / touched);
	}
}

void lk_locality_reuse_at(const double *unique, const double *access, double of, double rows,
                          double pooling, double batch, lk_locality *out) {
	lk_locality whole;
	lk_locality_reuse(unique, access, rows, fmax(of, batch) * pooling, &whole);
	lk_locality_thin(&whole, fmin(batch / of, 1), out);
}

/* Classes in order, most frequent first or last, as they usually are. */
static double covered_in_order(const lk_locality *locality, double held, bool rising) {
	double sum = 0;
	for (int i = 0; i < locality->count && held > 0; i++) {
		int k = rising ? locality->count - 1 - i : i;
		sum += fmin(held, locality->rows[k]) * locality->times[k];
		held -= locality->rows[k];
	}
	return sum;
}

static double covered_in_any_order(const lk_locality *locality, double held) {
	double sum = 0;
	bool taken[LK_LOCALITY_CLASSES] = {false};
	while (held > 0) {
		int most = -1;
		for (int i = 0; i < locality->count; i++)
			if (!taken[i] && (most < 0 || locality->times[i] > locality->times[most])) most = i;
		if (most < 0) break;
		taken[most] = true;
		sum += fmin(held, locality->rows[most]) * locality->times[most];
		held -= locality->rows[most];
	}
	return sum;
}

double lk_locality_covered(const lk_locality *locality, double held) {
	double lookups = lk_locality_lookups(locality);
	bool rising = true, falling = true;
	for (int i = 1; i < locality->count; i++) {
		rising &= locality->times[i] > locality->times[i - 1];
		falling &= locality->times[i] < locality->times[i - 1];
	}
	double sum = rising || falling ? covered_in_order(locality, held, rising)
	                               : covered_in_any_order(locality, held);
	return lookups > 0 ? fmin(sum / lookups, 1) : 0;
}

/* ---- drawing ---- */

/* Four rounds of a Feistel network on the next even number of bits, repeated until below `rows`:
 * distinct places give distinct rows. A fixed stride would leave only three gap lengths between
 * rows, unlike tables of users. */
uint64_t lk_locality_row(uint64_t place, uint64_t rows, uint64_t seed) {
	int half = 1;
	while (half < 32 && (rows - 1) >> (2 * half)) half++;
	uint64_t mask = ((uint64_t)1 << half) - 1;
	do {
		uint64_t left = place >> half, right = place & mask;
		for (uint64_t round = 0; round < 4; round++) {
			uint64_t next = left ^ (lk_hash64(seed * 4 + round + (right << 32)) & mask);
			left = right;
			right = next;
		}
		place = left << half | right;
	} while (place >= rows);
	return place;
}

static uint64_t whole_by_chance(double x, uint64_t seed, uint64_t counter) {
	double below = floor(x);
	return (uint64_t)below + (lk_uniform(seed, counter) < x - below);
}

static void locality_shuffle(uint32_t *at, size_t count, uint64_t seed) {
	for (size_t i = count; i > 1; i--) {
		size_t k = (size_t)(lk_hash64(seed + i) % i);
		uint32_t t = at[i - 1];
		at[i - 1] = at[k];
		at[k] = t;
	}
}

void lk_locality_draw(const lk_locality *locality, uint64_t rows, uint64_t seed, size_t count,
                      uint32_t *out) {
	double lookups = lk_locality_lookups(locality);
	size_t used = 0;
	uint64_t place = 0;
	double owed = 0; /* lookups of rows that a class has only partly: passed to the next classes */
	for (int i = 0; i < locality->count && lookups > 0; i++) {
		owed += locality->rows[i] * locality->times[i] * (double)count / lookups;
		uint64_t here = (uint64_t)floor(owed / locality->times[i] + 1e-9);
		owed -= (double)here * locality->times[i];
		for (uint64_t r = 0; r < here && used < count; r++, place++) {
			uint64_t times = whole_by_chance(locality->times[i], seed ^ 0xabcdef, place);
			uint32_t id = (uint32_t)lk_locality_row(place % rows, rows, seed);
			for (uint64_t t = 0; t < times && used < count; t++) out[used++] = id;
		}
	}
	/* rounding remainder: repeat drawn rows in proportion to their frequency */
	size_t drawn = used;
	for (; used < count; used++)
		out[used] = drawn ? out[lk_hash64(seed ^ (used + 1)) % drawn]
		                  : (uint32_t)lk_locality_row(0, rows, seed);
	locality_shuffle(out, count, lk_hash64(seed ^ 0x77));
}
