/* lookup_fit.h: the numbers of the host's lookup model, from measurements of uniform lookups. */
#ifndef BENCH_LOOKUP_FIT_H
#define BENCH_LOOKUP_FIT_H

#include "lookup_work.h"

typedef struct fit_case {
	work_shape shape;
	work_time measured, again; /* the least of every second pass, and of the others */
} fit_case;

/* exp(mean |ln(predicted / measured)|) - 1 of the fit goes to *error. 0: no memory. */
int lookup_fit(const fit_case *cases, size_t count, int threads, lk_host_lookup *out, double *error);
/* Seconds of the case alone on the machine, one table forward and backward in turn. */
work_time lookup_predict(const lk_host_lookup *h, const work_shape *shape);

#endif
