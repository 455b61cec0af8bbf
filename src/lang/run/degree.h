/* degree.h: how far agreement on random elements of the field proves that programs are equal (degree.c). */
#ifndef LK_LANG_DEGREE_H
#define LK_LANG_DEGREE_H

#include "lang/run/run.h"

typedef struct lc_degree {
	double above, below;   /* of a rational function: its numerator and denominator */
} lc_degree;

/* Of a program at given sizes. */
typedef struct lc_degrees {
	double result;         /* of the results: numerator plus denominator, the largest */
	double argument;       /* the same of what is hashed or divided by */
	double hashes;         /* how many keyed hashes and divisions are evaluated, on all ranks */
	int choices;           /* maxima and minima */
} lc_degrees;

lk_status lc_degrees_of(const lc_program *p, const lc_sizes *s, lc_degrees *out, lk_error *err);
/* The chance that two programs which differ at these sizes agree in one draw, at most. */
double lc_chance(const lc_degrees *a, const lc_degrees *b);

#endif
