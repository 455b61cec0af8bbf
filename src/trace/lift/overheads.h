/* overheads.h: what the host spends, by operation: the terms T1 to T5 of Lin et al. (arXiv 2404.12674, section on host
 * overheads). Extracted from captures, stored as CSV, used for other traces ("shared overheads").
 *
 *   T1  between two top-level operations of a thread
 *   T2  from an operation's start to its first launch
 *   T3  from its last launch to its end
 *   T4  a launch call: cudaLaunchKernel
 *   T5  between two launches of an operation; of one that launches nothing, its whole duration
 */
#ifndef LK_TRACE_OVERHEADS_H
#define LK_TRACE_OVERHEADS_H

#include <stdbool.h>
#include <stdint.h>
#include "lockstep/error.h"

enum { LK_T1 = 1, LK_T2, LK_T3, LK_T4, LK_T5 };

typedef struct lk_overheads lk_overheads;

lk_overheads *lk_overheads_new(void); /* NULL when memory is out */
void lk_overheads_free(lk_overheads *overheads);
/* One observation in microseconds. Of T1 the name is "" (or the operation that follows), of T4 the call's. */
lk_status lk_overheads_add(lk_overheads *overheads, int term, const char *name, double us, lk_error *err);
/* CSV with the columns type (t1..t5), name, mean_us, and if there std_us, count, launches (calls, separated by ';'); other
 * columns are left alone, rows of one name are averaged by count. */
lk_status lk_overheads_read(const char *path, lk_overheads **out, lk_error *err);
lk_status lk_overheads_write(const lk_overheads *overheads, const char *path, lk_error *err);

/* Mean of a term for a name without outliers (beyond 1.5 interquartile ranges), microseconds. Where the name is not known: the
 * mean over all names of the term, and *known is set to false. NAN where the term has no observation at all. */
double lk_overheads_mean(const lk_overheads *overheads, int term, const char *name, bool *known);
/* The mean of a term over all names, likewise; NAN without observations. */
double lk_overheads_level(const lk_overheads *overheads, int term);

#endif
