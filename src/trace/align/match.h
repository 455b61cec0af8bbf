/* match.h: from the events of many ranks to matched collectives; shared by the files behind traces.h. */
#ifndef LK_TRACE_MATCH_H
#define LK_TRACE_MATCH_H

#include "trace/align/traces.h"

/* One communication call of one rank. */
typedef struct lk_comm_call {
	uint32_t event;
	uint32_t group;          /* index in lk_traces.groups */
	uint8_t kind;            /* lk_op_kind; LK_OP_COUNT not said */
	int64_t bytes;           /* as in lk_match */
	int64_t issued;          /* own time; orders the calls of a rank */
	int64_t end;             /* clock of its file, from the first capture's origin: base + own time */
} lk_comm_call;
typedef LK_VEC(lk_comm_call) lk_comm_calls;

/* All communication of a run, sorted by group, then order of issue. */
typedef struct lk_run_calls {
	lk_comm_calls *of;       /* [captures] */
	LK_VEC(bool) told;       /* by group: the file names it; otherwise it is a guess from streams */
} lk_run_calls;

/* Own time of a capture on the clocks of the files = own time + this: from origin to the first capture's origin, or 0
 * where the two count from different moments, so that both begin together. */
int64_t lk_clock_base(const lk_traces *traces, uint32_t capture);
/* Whether the file's clock counts from 1970 and so can be compared over hosts. */
bool lk_clock_told(const lk_capture *capture);

/* Finds the calls of every capture and the groups they belong to (comm_calls.c). */
lk_status lk_calls_find(lk_traces *traces, lk_run_calls *calls, lk_error *err);
void lk_calls_free(const lk_traces *traces, lk_run_calls *calls);

/* Matches the calls of each group over ranks (match.c). */
lk_status lk_calls_match(lk_traces *traces, lk_run_calls *calls, lk_error *err);

/* ---- two ranks' calls of one group (match_order.c) ---- */

typedef struct lk_call_list {
	const lk_comm_call *at;
	uint32_t count;
	bool whole;              /* the first of them is the first that the group ever saw: lk_capture.whole */
} lk_call_list;

typedef enum lk_difference { LK_CALL_MISSING, LK_CALL_EXTRA, LK_CALL_OTHER_KIND, LK_CALL_OTHER_SIZE } lk_difference;

/* Where a rank differs from the one it is compared with. */
typedef struct lk_order_note {
	int64_t place;           /* in the calls of the one compared with */
	uint32_t capture;        /* filled by the caller */
	lk_difference what;
	uint8_t kind;            /* of the rank's own call */
	int64_t bytes;
} lk_order_note;
typedef LK_VEC(lk_order_note) lk_order_notes;

#define LK_NO_PLACE INT64_MIN

/* Finds the place of every call of `b` among the calls of `a` (before and behind them too: negative, or >= a.count), so
 * that kinds and sizes agree, and where several ways agree, so that the distance of the two clocks is steady. Where both
 * are whole, first call is first call, however late a rank of a busy machine leaves it.
 * `jitter_ns`: median change of that distance from call to call, NAN where less than two calls are common. */
lk_status lk_order_find(lk_call_list a, lk_call_list b, int64_t *places, lk_order_notes *notes, double *jitter_ns,
                        lk_error *err);
/* Whether they can be the same collective. */
bool lk_calls_agree(const lk_comm_call *a, const lk_comm_call *b);

/* ---- medians and sums that never overflow ---- */

/* The lower median; reorders x. n > 0. */
double lk_select_median(double *x, size_t n);

static inline int64_t lk_add_saturated(int64_t a, int64_t b) {
	int64_t sum;
	return __builtin_add_overflow(a, b, &sum) ? b < 0 ? INT64_MIN : INT64_MAX : sum;
}

/* A sentence; dropped when memory is out or there are too many. */
void lk_traces_problem(lk_traces *traces, const char *fmt, ...) LK_PRINTF(2, 3);
void lk_traces_warn(lk_traces *traces, const char *fmt, ...) LK_PRINTF(2, 3);
void lk_traces_note(lk_traces *traces, const char *fmt, ...) LK_PRINTF(2, 3);

#endif
