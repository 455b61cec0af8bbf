/* lk_small_floats.h: rounding to formats of few bits, to nearest even, for the stand-ins of CUDA's headers. */
#ifndef LK_SHIM_SMALL_FLOATS_H
#define LK_SHIM_SMALL_FLOATS_H
#include <cmath>
#include <cstdint>
#include <cstring>

/* The bits of x in a format of `e` exponent and `m` mantissa bits. `top`: the largest number's bits without sign.
 * Above it: infinity (all exponent bits) where `infinite`, else saturated, and NaN is all ones. */
inline uint32_t lk_shim_round(double x, int e, int m, uint32_t top, bool infinite) {
	uint32_t sign = (uint32_t)std::signbit(x) << (e + m), none = infinite ? (((1u << e) - 1) << m) | (1u << (m - 1)) : (1u << (e + m)) - 1;
	if (std::isnan(x)) return sign | none;
	x = std::fabs(x);
	uint32_t over = infinite ? ((1u << e) - 1) << m : top;
	if (std::isinf(x)) return sign | over;
	if (x == 0) return sign;
	int exponent, bias = (1 << (e - 1)) - 1;
	std::frexp(x, &exponent);
	exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
	double steps = std::nearbyint(std::ldexp(x, m - exponent));         /* in units of the last place */
	double bits = steps + std::ldexp((double)(exponent + bias - 1), m); /* normal numbers: 2^m <= steps < 2^(m+1) */
	return sign | (bits > top ? over : (uint32_t)bits);
}

inline float lk_shim_widen(uint32_t bits, int e, int m, bool infinite) {
	int bias = (1 << (e - 1)) - 1, exponent = (int)(bits >> m & ((1u << e) - 1));
	uint32_t fraction = bits & ((1u << m) - 1);
	float x;
	if (infinite && exponent == (1 << e) - 1) x = fraction ? NAN : INFINITY;
	else if (!infinite && (bits & ((1u << (e + m)) - 1)) == (1u << (e + m)) - 1) x = NAN;
	else x = (float)std::ldexp((double)(exponent ? fraction + (1u << m) : fraction), (exponent ? exponent : 1) - bias - m);
	return bits >> (e + m) & 1 ? -x : x;
}
#endif
