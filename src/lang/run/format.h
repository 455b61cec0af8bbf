/* format.h: numbers as formats hold them. A number is a double everywhere in the interpreter; these functions say which
 * doubles a format has.
 *
 * Real formats round to nearest, ties to even, subnormals included: f16 is IEEE 754 binary16, bf16 has f32's exponent
 * and 8 bits of precision; both overflow to infinity. f8 is e4m3fn of the OCP 8-bit floating point specification 1.0 in
 * its saturating mode: largest number 448, no infinities; what is larger, infinities included, becomes 448.
 *
 * Integers wrap as C's unsigned ones do, signed ones in two's complement. A real becomes an integer by truncation and
 * saturates at the ends of the format; NAN becomes 0. A quotient is truncated; by 0 it is 0. Integers of 64 bits are
 * exact up to 2^53, for that is what a double holds. Bool is 0 or 1.
 */
#ifndef LK_LANG_FORMAT_H
#define LK_LANG_FORMAT_H

#include "lang/types/program.h"

/* A number of format `from` as one of `to`. Weak formats are doubles: literals are exact until they meet another
 * format. */
double lc_convert(lc_dtype from, lc_dtype to, double x);
/* What arithmetic in double has given, as a number of a real format; in place. Others: unchanged. */
void lc_round_all(lc_dtype to, double *x, int64_t count);
static inline double lc_round(lc_dtype to, double x) { return lc_round_all(to, &x, 1), x; }

/* Integers as bits: two's complement in 64 bits, and back, wrapped to the format. */
uint64_t lc_bits(double x);
double lc_wrap(lc_dtype to, uint64_t bits);
double lc_integer_over(lc_dtype t, double a, double b);
double lc_integer_power(lc_dtype t, double base, double exponent);

/* The unit roundoff: half the distance from 1 to the next number; 0 for integers and bool. */
double lc_roundoff(lc_dtype t);
/* How far a number near x is from the real it was rounded from, at most: half a step of the format there. */
double lc_rounding(lc_dtype t, double x);
/* The largest finite number of a real format. */
double lc_largest(lc_dtype t);
/* The smallest and the largest number: where a maximum over nothing begins. */
double lc_lowest(lc_dtype t);
double lc_highest(lc_dtype t);

#endif
