/* host_terms.h: what the host spends on the operations of one step (T1 to T5, trace/lift/overheads.h), merged from tables of
 * measurements of other runs: "shared overheads".
 *
 *     type,name,mean_us[,model][,batch_size][,count]
 */
#ifndef LK_ACCURACY_HOST_TERMS_H
#define LK_ACCURACY_HOST_TERMS_H

#include "io/stream.h"
#include "base/vec.h"

enum { LK_HOST_TERMS = 5 };

typedef struct lk_host_term {
	char name[80];
	double sum[LK_HOST_TERMS], weight[LK_HOST_TERMS]; /* microseconds times weight, by term - 1 */
} lk_host_term;

typedef struct lk_host_terms {
	LK_VEC(lk_host_term) of;
} lk_host_terms;

/* Whose overheads are shared: runs of models whose names begin so, at batches from `least` to `most`. */
typedef struct lk_host_kind {
	const char *models;
	double least, most;
} lk_host_kind;

/* Reads a table. Rows that say that they are of other runs are left out; means of one name are weighted by their counts. */
lk_status lk_host_terms_read(lk_stream *in, const lk_host_kind *kind, lk_host_terms *out, lk_error *err);
/* Terms that `terms` lacks are taken from `more`, times the ratio of the name's T2 in the two (of names that not both have,
 * the median ratio), at most 1: profilers differ in what they add to all times of an operation, releases in how long it
 * takes; a longer T2 is of what a release counts in front of the call. */
lk_status lk_host_terms_fill(lk_host_terms *terms, const lk_host_terms *more, lk_error *err);
void lk_host_terms_free(lk_host_terms *terms);

/* Seconds of a term, 1 to 5; the mean over all names where a name is not known, 0 where the term is not. Of the form of
 * lk_host_times.seconds. */
double lk_host_terms_seconds(const void *terms, int term, const char *name);

#endif
