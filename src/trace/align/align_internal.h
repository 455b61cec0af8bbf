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
	double doubt;       /* standard error of the shift against its group, the smallest over
	                       groups */
	uint32_t anchors;
	uint32_t component; /* representative capture of the connected component of ties */
} lk_clock_fit;

/* One group's estimate for one member. */
typedef struct lk_tie {
	uint32_t group, capture, anchors;
	double shift, slope, weight;
} lk_tie;

typedef struct lk_aligner {
	const lk_traces *traces;
	lk_clock_fit *fit; /* [captures] */
	double *base;
	LK_VEC(lk_tie) ties; /* by group */
	uint32_t *column_of; /* [captures] scratch */
	lk_error *err;
} lk_aligner;

/* ---- ranks.c ---- */

/* Give every capture its rank and sort captures by rank; each rank occurs once afterwards. */
lk_status lk_traces_find_ranks(lk_traces *traces, lk_error *err);
/* Set traces->world; captures have their ranks. */
lk_status lk_traces_find_world(lk_traces *traces, lk_error *err);

/* ---- clocks.c ---- */

/* Whether every rank waits for all others inside a kernel, so that the collective ends for all at
 * once. */
bool lk_all_wait(const lk_traces *traces, const lk_match *match);

/* Append the ties of one group's members, whose matches are begin .. end-1 (align_group.c). */
lk_status lk_tie_group(lk_aligner *aligner, uint32_t begin, uint32_t end);
/* Find the value per capture that fits the ties' shifts best, 0 at the first capture of each
 * component (align_net.c). Ties whose deviation exceeds both `usual` and most others count less. */
lk_status lk_join_ties(lk_aligner *aligner, double *value, double usual);

lk_status lk_aligner_open(lk_aligner *aligner, const lk_traces *traces, lk_error *err);
void lk_aligner_close(lk_aligner *aligner);
/* Fit aligner->fit, starting from its present values. */
lk_status lk_clocks_fit(lk_aligner *aligner, double *largest_slope);

/* Own time of a member's end; any own time on the common clock, as fitted so far. */
double lk_own_end(const lk_traces *traces, lk_match_member member);
double lk_on_common(const lk_aligner *aligner, uint32_t capture, double own);
/* Store the ends of one collective on the common clock, for ranks whose clock was fitted; return
 * their number. */
size_t lk_aligned_ends(const lk_aligner *aligner, const lk_match *match, double *out);

#endif
