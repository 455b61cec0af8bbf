/* host_terms.h: host time of the operations of a step that a framework runs operation by operation:
 * the terms T1 to T5 of Lin et al. (arXiv 2201.07821; trace/lift/lift.h). The calibration has one
 * row of family "host" per operation. */
#ifndef LK_COST_HOST_TERMS_H
#define LK_COST_HOST_TERMS_H

#include "base/vec.h"
#include "cost/calibration/calibration.h"
#include "lockstep/error.h"

enum { LK_HOST_TERMS = 5 };

typedef struct lk_host_term {
	char name[80];
	double sum[LK_HOST_TERMS], weight[LK_HOST_TERMS]; /* microseconds times weight, by term - 1 */
} lk_host_term;

typedef struct lk_host_terms {
	LK_VEC(lk_host_term) of;
} lk_host_terms;

/* The terms of the current calibration, each of weight 1. LK_ERR_MEMORY only. */
lk_status lk_host_terms_known(lk_host_terms *out, lk_error *err);
/* Append the terms as rows of family "host". */
lk_status lk_host_terms_put(const lk_host_terms *terms, const char *source, const char *date,
                            lk_calibration *out, lk_error *err);
void lk_host_terms_free(lk_host_terms *terms);

/* The name of an operation as in the tables: "AddmmBackward0" is "AddmmBackward", since autograd
 * numbers the versions of a node; "" for T1. */
void lk_host_term_name(const char *name, int term, char *out, size_t size);
/* The terms of an operation; NULL: none. The other adds them; NULL also when there are too many or
 * out of memory. */
lk_host_term *lk_host_terms_find(const lk_host_terms *terms, const char *name);
lk_host_term *lk_host_terms_add(lk_host_terms *terms, const char *name);
bool lk_host_terms_full(const lk_host_terms *terms);
/* Microseconds of a term, 1 to 5; NAN if unknown. `of` may be NULL. */
double lk_host_term_mean(const lk_host_term *of, int term);

/* Seconds of a term, 1 to 5; the mean over all names for an unknown name, 0 for an unknown term.
 * Has the type of lk_host_times.seconds. */
double lk_host_terms_seconds(const void *terms, int term, const char *name);

#endif
