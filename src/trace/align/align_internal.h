/* align_internal.h: what the files of trace/align share. */
#ifndef LK_TRACE_ALIGN_ALIGN_INTERNAL_H
#define LK_TRACE_ALIGN_ALIGN_INTERNAL_H

#include "trace/align/traces.h"

/* How a capture's clock was found. */
typedef struct lk_clock_fit {
	double shift,
		slope; /* common = own + base + shift + slope (own - middle); slope 0 if not clear */
	double middle;
	double span, error; /* own time from first to last anchor; standard error of slope * span */
	double doubt;       /* standard error of the shift against its group, the least over groups */
	uint32_t anchors;
	uint32_t component; /* capture that all its ties lead to */
} lk_clock_fit;

/* What one group says of one member. */
typedef struct lk_tie {
	uint32_t group, capture, anchors;
	double shift, slope, weight;
} lk_tie;

typedef struct lk_aligner {
	const lk_traces *traces;
	lk_clock_fit *fit; /* [captures] */
	double *base;
	LK_VEC(lk_tie) ties;  /* by group */
	uint32_t *column_of;  /* [captures] scratch */
	uint32_t skip, folds; /* anchors numbered skip modulo folds are left out; folds 0: none */
	lk_error *err;
} lk_aligner;

/* ---- ranks.c ---- */

/* Gives every capture its rank, and puts captures in the order of ranks: no rank twice afterwards.
 */
lk_status lk_traces_find_ranks(lk_traces *traces, lk_error *err);
/* Sets traces->world; captures have their ranks. */
lk_status lk_traces_find_world(lk_traces *traces, lk_error *err);

/* ---- clocks.c ---- */

/* Whether all ranks of it wait for all others in kernels, so that it ends for all at once. */
bool lk_all_wait(const lk_traces *traces, const lk_match *match);

/* Ties of one group's members, whose matches are begin .. end-1, appended to those found before
 * (align_group.c). */
lk_status lk_tie_group(lk_aligner *aligner, uint32_t begin, uint32_t end);
/* One value per capture that fits the ties' shifts best, 0 at the first capture of each component
 * (align_net.c). What is further off than `usual` and most others counts less. */
lk_status lk_join_ties(lk_aligner *aligner, double *value, double usual);

lk_status lk_aligner_open(lk_aligner *aligner, const lk_traces *traces, lk_error *err);
void lk_aligner_close(lk_aligner *aligner);
/* Fits a->fit, starting from its present values. */
lk_status lk_clocks_fit(lk_aligner *aligner, double *largest_slope);

/* Own time of a member's end; any own time on the clock of all, as fitted so far. */
double lk_own_end(const lk_traces *traces, lk_match_member member);
double lk_on_common(const lk_aligner *aligner, uint32_t capture, double own);
/* Ends of one collective on the clock of all, of ranks with a clock that was fitted; their number.
 */
size_t lk_aligned_ends(const lk_aligner *aligner, const lk_match *match, double *out);

#endif
