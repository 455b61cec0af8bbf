/* lookup_rows.h: what is measured for the host's lookup model: tables, alone and several in one
 * step; kept as CSV. */
#ifndef BENCH_LOOKUP_ROWS_H
#define BENCH_LOOKUP_ROWS_H

#include "lookup_fit.h"

/* Each draws cases, tables that belong to one step behind one another; returns how many, ROWS at
 * most. */
enum { LOOKUP_ROWS = 2048 };
size_t lookup_uniform(fit_case *out);               /* alone, uniform indices, a fixed list */
size_t lookup_shapes(uint64_t seed, fit_case *out); /* alone, any law and size */
size_t lookup_shares(uint64_t seed, fit_case *out); /* 1 to 24 in a step, any law and size */

/* Passes over all steps, two at least and as many as begin in so many seconds; printed as CSV. */
void lookup_measure(fit_case *cases, size_t count, double seconds);
/* Rows that were printed so, files behind one another; of a row that is there several times the
 * least counts. -1: there are none, which it says. */
int lookup_read(const char *path, fit_case *out, int *threads);

#endif
