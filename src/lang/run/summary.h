/* summary.h: what a run has left behind, in few numbers. */
#ifndef LK_LANG_SUMMARY_H
#define LK_LANG_SUMMARY_H

#include "lang/run/run.h"

enum { LC_FIRST = 4 };      /* elements that are shown */

typedef struct lc_summary {
	int id;
	int64_t tensors, elements;  /* tensors of a list, or of the ranks of an axis where each has its own */
	int64_t extent[LC_RANK];    /* of the first tensor */
	uint64_t digest;            /* over all elements of all tensors, in order */
	double least, most, mean;   /* NUMERIC; NAN in the field, least and most of no comparable element NAN */
	double first[LC_FIRST];
	uint64_t element[LC_FIRST]; /* FIELD */
	int firsts;
} lc_summary;

lk_status lc_summarize(lc_run *run, const lc_program *p, const lc_sizes *s, int id, lc_summary *out, lk_error *err);
/* The first rank of each group of ranks that holds a tensor of its own: of ranks that are 0 on every axis but those of
 * L. */
bool lc_first_of_local(const lc_program *p, const lc_node *n, const lc_sizes *s, int64_t rank);
/* "w", or "out 1" for the first output without a name. */
char *lc_result_name(const lc_program *p, int id, char *out, size_t size);

#endif
