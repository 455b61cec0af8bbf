/* host_terms.h: what the host spends on the operations of a step that a framework runs operation by
 * operation: the terms T1 to T5 of Lin et al. (arXiv 2201.07821; trace/lift/lift.h). The
 * calibration has them in rows of the family "host", a row for each operation. */
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

/* Those of the calibration in use, each of weight 1. LK_ERR_MEMORY only. */
lk_status lk_host_terms_known(lk_host_terms *out, lk_error *err);
/* The same terms as rows of the family "host". */
lk_status lk_host_terms_put(const lk_host_terms *terms, const char *source, const char *date,
                            lk_calibration *out, lk_error *err);
void lk_host_terms_free(lk_host_terms *terms);

/* The operation of a name as tables have it: "AddmmBackward0" is "AddmmBackward", for autograd
 * numbers the versions of a node; of T1 "". */
void lk_host_term_name(const char *name, int term, char *out, size_t size);
/* The terms of an operation; NULL: none. The other adds them; NULL also when there are too many or
 * out of memory. */
lk_host_term *lk_host_terms_find(const lk_host_terms *terms, const char *name);
lk_host_term *lk_host_terms_add(lk_host_terms *terms, const char *name);
bool lk_host_terms_full(const lk_host_terms *terms);
/* Microseconds of a term, 1 to 5; NAN where it is not known. `of` may be NULL. */
double lk_host_term_mean(const lk_host_term *of, int term);

/* Seconds of a term, 1 to 5; the mean over all names where a name is not known, 0 where the term is
 * not. Of the form of lk_host_times.seconds. */
double lk_host_terms_seconds(const void *terms, int term, const char *name);

#endif
