#include "lang/run/run_internal.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- real formats ---- */

/* A binary format with `digits` of precision; `least` is its smallest normal number, `step` its
 * smallest of all, `top` its largest. */
struct narrow {
	int digits;
	double least, step, top;
	bool saturates;
};

static const struct narrow *narrow_of(lc_dtype t) {
	static const struct narrow f16 = {11, 0x1p-14, 0x1p-24, 65504, false},
							   f8 = {4, 0x1p-6, 0x1p-9, 448, true};
	static const struct narrow bf16 = {8, 0x1p-126, 0x1p-133, 0x1.fep127, false};
	if (t == LC_F16) return &f16;
	if (t == LC_BF16) return &bf16;
	if (t == LC_F8) return &f8;
	return NULL;
}

/* Round to nearest, ties to even: add half of the last kept place, less one, plus its lowest bit,
 * and cut. */
static inline double format_cut(double x, int digits) {
	uint64_t bits;
	int gone = 53 - digits;
	memcpy(&bits, &x, sizeof bits);
	bits += ((1ull << (gone - 1)) - 1) + (bits >> gone & 1);
	bits &= ~((1ull << gone) - 1);
	memcpy(&x, &bits, sizeof bits);
	return x;
}

static inline double round_narrow(double x, const struct narrow *narrow) {
	if (isnan(x)) return x;
	if (fabs(x) < narrow->least)
		return rint(x / narrow->step) *
		       narrow->step; /* subnormal: integer multiples of the smallest number */
	double y = isinf(x) ? x : format_cut(x, narrow->digits);
	if (fabs(y) <= narrow->top) return y;
	return copysign(narrow->saturates ? narrow->top : INFINITY, x);
}

void lc_round_all(lc_dtype to, double *x, int64_t count) {
	const struct narrow *narrow = narrow_of(to);
	if (to == LC_F32)
		for (int64_t i = 0; i < count; i++) x[i] = (double)(float)x[i];
	if (!narrow) return;
	const struct narrow held = *narrow;
	for (int64_t i = 0; i < count; i++) x[i] = round_narrow(x[i], &held);
}

double lc_roundoff(lc_dtype t) {
	const struct narrow *narrow = narrow_of(t);
	if (narrow) return ldexp(1, -narrow->digits);
	if (t == LC_F32) return 0x1p-24;
	if (t == LC_F64) return 0x1p-53;
	return 0;
}

double lc_largest(lc_dtype t) {
	const struct narrow *narrow = narrow_of(t);
	if (narrow) return narrow->top;
	if (t == LC_F32) return FLT_MAX;
	return DBL_MAX;
}

double lc_rounding(lc_dtype t, double x) {
	const struct narrow *narrow = narrow_of(t);
	double least;
	if (narrow) least = narrow->step / 2;
	else if (t == LC_F32) least = 0x1p-150;
	else least = 0;
	return isfinite(x) ? fmax(lc_roundoff(t) * fabs(x), least) : 0;
}

/* ---- integers ---- */

static int format_bits_of(lc_dtype t) {
	static const uint8_t bits[LC_DTYPE_COUNT] = {
#define BITS(symbol, name, count) [LC_##symbol] = count,
		LC_DTYPES(BITS)
#undef BITS
	};
	return bits[t];
}

static bool is_signed(lc_dtype t) {
	return t >= LC_I64 && t <= LC_I8;
}

uint64_t lc_bits(double x) {
	if (!(fabs(x) < 0x1p63)) x = isfinite(x) ? fmod(x, 0x1p64) : 0;
	return x < 0 ? 0 - (uint64_t)-x : (uint64_t)x;
}

double lc_wrap(lc_dtype to, uint64_t bits) {
	int gone = 64 - format_bits_of(to);
	if (!is_signed(to)) return (double)(bits << gone >> gone);
	uint64_t cut_off = bits << gone;
	bool negative = cut_off >> 63;
	uint64_t size = (negative ? 0 - cut_off : cut_off) >> gone;
	return negative ? -(double)size : (double)size;
}

double lc_lowest(lc_dtype t) {
	if (lc_is_real(t)) return t == LC_F8 ? -448 : -INFINITY;
	return is_signed(t) ? -ldexp(1, format_bits_of(t) - 1) : 0;
}

double lc_highest(lc_dtype t) {
	if (lc_is_real(t)) return t == LC_F8 ? 448 : INFINITY;
	return t == LC_BOOL ? 1
	                    : ldexp(1, format_bits_of(t) - is_signed(t)) -
	                          1; /* 64 bits: 2^63 or 2^64, the next double */
}

double lc_integer_over(lc_dtype t, double a, double b) {
	if (b == 0) return 0;
	if (fabs(a) < 0x1p62 && fabs(b) < 0x1p62)
		return lc_wrap(t, (uint64_t)((int64_t)a / (int64_t)b));
	return lc_wrap(t, lc_bits(trunc(a / b)));
}

double lc_integer_power(lc_dtype t, double base, double exponent) {
	if (exponent < 0) {
		if (fabs(base) != 1) return 0; /* 1 / base^n, truncated; 1 / 0 is 0 */
		exponent = -exponent;
	}
	uint64_t result = 1, square = lc_bits(base);
	for (uint64_t n = lc_bits(exponent); n; n >>= 1, square *= square)
		if (n & 1) result *= square;
	return lc_wrap(t, result);
}

/* ---- between formats ---- */

double lc_convert(lc_dtype from, lc_dtype to, double x) {
	if (to == LC_BOOL) return x != 0;
	if (!lc_is_integer(to) || to == LC_WEAK_INT) return lc_round(to, x);
	if (!lc_is_real(from)) return lc_wrap(to, lc_bits(x));
	if (isnan(x)) return 0;
	double low = lc_lowest(to), high = lc_highest(to);
	if (x <= low) return low;
	if (x >= high) return high;
	return trunc(x);
}
