/* lookup_fit.h: the numbers of the host's lookup model, from measured steps. */
#ifndef BENCH_LOOKUP_FIT_H
#define BENCH_LOOKUP_FIT_H

#include "lookup_work.h"

typedef struct fit_case {
	char share[32]; /* tables of one step have the same name, and lie behind one another */
	work_shape shape;
	work_time measured, again; /* the least of every second pass, and of the others */
} fit_case;

/* Where the step that begins at `first` ends. */
size_t lookup_step_end(const fit_case *cases, size_t count, size_t first);

/* From the cases that are kept (NULL: all); the others are in their steps all the same. exp(mean
 * |ln(predicted / measured)|) - 1 of the fit goes to *error. 0: no memory. */
int lookup_fit(const fit_case *cases, const bool *kept, size_t count, int threads,
               lk_host_lookup *out, double *error);
/* Seconds of each case in its step. */
void lookup_predict(const lk_host_lookup *lookup, const fit_case *cases, size_t count,
                    work_time *out);

#endif
