/* traces.h: the captures of several ranks of one run, on one clock, with their collectives matched.
 */
#ifndef LK_TRACE_ALIGN_TRACES_H
#define LK_TRACE_ALIGN_TRACES_H

#include "trace/capture/capture.h"
#include "trace/read/read.h"
#include "trace/capture/works.h"

/* One rank's part in a communication operation: a kernel, or on hosts an operation. */
typedef struct lk_match_member {
	uint32_t capture; /* index in lk_traces.capture */
	uint32_t event;
} lk_match_member;

/* One communication operation of the run. All its kernels on all ranks that were captured. */
typedef struct lk_match {
	uint8_t kind;        /* lk_op_kind */
	uint32_t group;      /* index in lk_traces.groups */
	uint32_t sequence;   /* the how-manieth of its group */
	int64_t bytes;       /* message as nccl-tests count it, the largest over ranks, of MPI_Gatherv
	                        the mean; -1 not given */
	uint32_t begin, end; /* its members in lk_traces.members, by capture */
} lk_match;

/* A process group of the run. */
typedef struct lk_run_group {
	const char *name;   /* "default_pg", "tp", "0"; never NULL */
	int32_t size;       /* ranks, captured or not; 0 not given */
	uint32_t *captures; /* those that were captured, ascending */
	uint32_t count;
	const char *ranks; /* "[0, 1, 2, 3]", or "" */
} lk_run_group;

typedef LK_VEC(const char *) lk_sentences;

typedef struct lk_traces {
	lk_capture **capture; /* by rank */
	int64_t *shift_ns;    /* common time = a capture's own time + this; 0 for the first rank; see
	                         lk_traces_time */
	double *drift_ppm;  /* by which its clock is slow against the first rank's, where that is clear;
	                       else 0. The shift then holds at middle_ns */
	int64_t *middle_ns; /* own time */
	uint32_t count;
	int32_t world; /* ranks of the run, captured or not */
	/* how well the clocks were aligned, on the ends of matched collectives */
	bool one_clock;                      /* all ranks' is that of their host: nothing is aligned */
	uint32_t anchors;                    /* collectives used; 0: as the files say */
	double residual_ns, residual_max_ns; /* median and largest |end - common end| that stays */
	double skew_ns;           /* largest difference between the clocks as the files have them */
	double largest_drift_ppm; /* that was found, corrected or not; 0 where captures are too short to
	                             tell */
	LK_VEC(lk_match) matches; /* by group, then sequence */
	LK_VEC(lk_match_member) members;
	LK_VEC(lk_run_group) groups;
	lk_sentences problems; /* desynchronised, missing, of another size; sentences that name rank,
	                          group and number */
	lk_sentences warnings; /* of all files, with their names ... */
	size_t damages;        /* ... the first of them: what is damaged */
	lk_sentences notes;    /* what execution traces added to which rank */
	struct lk_match_index *index; /* of lk_traces_match */
	lk_arena arena;
} lk_traces;

/* Reads the files, in parallel on up to `threads` (0: as many as there are cores); of folders,
 * the traces in them. Two captures of one rank, or of different runs, are an error. Execution
 * traces (works.h) may be among them: the capture of the same rank learns from them what it does
 * not say itself. trace_files.c has the two steps apart. */
lk_status lk_traces_read(const char *const *paths, uint32_t count, const lk_read_limits *limits,
                         int threads, lk_traces **out, lk_error *err);
/* The same from captures that were read already; they belong to the traces from then on, or are
 * freed when it fails. */
lk_status lk_traces_make(lk_capture **captures, uint32_t count, lk_traces **out, lk_error *err);
void lk_traces_free(lk_traces *traces);

/* A capture's own time on the clock of all. */
static inline int64_t lk_traces_time(const lk_traces *traces, uint32_t capture, int64_t own_ns) {
	double drift =
		traces->drift_ppm[capture] * 1e-6 * ((double)own_ns - (double)traces->middle_ns[capture]);
	return own_ns + traces->shift_ns[capture] + (int64_t)drift;
}

/* The match that an event of a capture is part of, and its place there; NULL if none. */
const lk_match *lk_traces_match(const lk_traces *traces, uint32_t capture, uint32_t event);

/* ---- match: from the events of many ranks to matched collectives; shared by the files of
 * trace/align. */

/* One communication call of one rank. */
typedef struct lk_comm_call {
	uint32_t event;
	uint32_t group; /* index in lk_traces.groups */
	uint8_t kind;   /* lk_op_kind; LK_OP_COUNT not given */
	int64_t bytes;  /* as in lk_match */
	bool uneven;    /* of other members it may be another number */
	int32_t tag;    /* of messages, which arrive in order where it is the same; else 0 */
	int64_t issued; /* own time; orders the calls of a rank */
	int64_t end;    /* clock of its file, from the first capture's origin: base + own time */
} lk_comm_call;
typedef LK_VEC(lk_comm_call) lk_comm_calls;

/* All communication of a run, sorted by group, then order of issue. */
typedef struct lk_run_calls {
	lk_comm_calls *of; /* [captures] */
	LK_VEC(bool) told; /* by group: the file names it; otherwise it is a guess from streams */
} lk_run_calls;

/* Own time of a capture on the clocks of the files = own time + this: from origin to the first
 * capture's origin, or 0 where the two count from different moments, so that both begin together.
 */
int64_t lk_clock_base(const lk_traces *traces, uint32_t capture);
/* Whether all captures are of one host, whose clock they share. */
bool lk_clock_shared(const lk_traces *traces);
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
	bool whole; /* the first of them is the first that the group ever saw: lk_capture.whole */
} lk_call_list;

typedef enum lk_difference {
	LK_CALL_MISSING,
	LK_CALL_EXTRA,
	LK_CALL_OTHER_KIND,
	LK_CALL_OTHER_SIZE
} lk_difference;

/* Where a rank differs from the one it is compared with. */
typedef struct lk_order_note {
	int64_t place;    /* in the calls of the one compared with */
	uint32_t capture; /* filled by the caller */
	lk_difference what;
	uint8_t kind; /* of the rank's own call */
	int64_t bytes;
} lk_order_note;
typedef LK_VEC(lk_order_note) lk_order_notes;

#define LK_NO_PLACE INT64_MIN

/* Finds the place of every call of `b` among the calls of `a` (before and after them too:
 * negative, or >= a.count), so that kinds and sizes agree, and where several ways agree, so that
 * the distance of the two clocks is steady. Where both are whole, first call is first call, however
 * late a rank of a busy machine leaves it. `jitter_ns`: median change of that distance from call to
 * call, NAN where less than two calls are common. */
lk_status lk_order_find(lk_call_list a, lk_call_list b, int64_t *places, lk_order_notes *notes,
                        double *jitter_ns, lk_error *err);
/* Whether they can be the same collective. */
bool lk_calls_agree(const lk_comm_call *a, const lk_comm_call *b);

/* ---- medians and sums that never overflow ---- */

/* The lower median; reorders x. n > 0. */
double lk_select_median(double *x, size_t n);

static inline int64_t lk_add_saturated(int64_t a, int64_t b) {
	int64_t sum;
	if (!__builtin_add_overflow(a, b, &sum)) return sum;
	return b < 0 ? INT64_MIN : INT64_MAX;
}

/* A sentence; dropped when memory runs out or there are too many. */
void lk_traces_problem(lk_traces *traces, const char *fmt, ...) LK_PRINTF(2, 3);
void lk_traces_warn(lk_traces *traces, const char *fmt, ...) LK_PRINTF(2, 3);
void lk_traces_note(lk_traces *traces, const char *fmt, ...) LK_PRINTF(2, 3);

/* ---- link: an execution trace and a capture of the same rank and step: which work is which event.
 */

typedef struct lk_link {
	uint32_t *event;    /* [works->count] event of the capture; LK_NONE */
	uint32_t by_record; /* joined by record function id, and of the same name */
	uint32_t by_order;  /* the k-th of a name on a thread with the k-th of that name on its lane */
	uint32_t uncertain; /* of these: there are more of the name on one side than on the other */
	uint32_t
		roots; /* works that represent processes and threads, which captures have no events for */
	uint32_t alone;        /* other works without event */
	uint32_t events_alone; /* operations and annotations of the capture without work */
} lk_link;

/* Capture and works are finished. Threads are matched with lanes by the names that they share. */
lk_status lk_link_works(const lk_works *works, const lk_capture *capture, lk_link *out,
                        lk_error *err);
void lk_link_free(lk_link *link);

/* Kernels of collectives learn what the execution trace knows and the capture does not: kind,
 * group, elements, type. *filled: kernels (or, of hosts, operations) that learnt something. */
lk_status lk_link_comms(lk_capture *capture, const lk_works *works, const lk_link *link,
                        uint32_t *filled, lk_error *err);

/* Operations learn the shapes and types of their inputs where the capture has none, and the shapes
 * of their results. *filled: operations that learnt shapes of inputs. */
lk_status lk_link_shapes(lk_capture *capture, const lk_works *works, const lk_link *link,
                         uint32_t *filled, lk_error *err);

/* ---- align: one clock for all ranks, from the ends of collectives: a collective ends for all its
 * ranks within microseconds (1 to 7 us on eight V100), while starts differ by milliseconds, because
 * who arrives first waits inside the kernel. */

/* Sets the clocks of the traces, how good they are, and warnings about ranks that nothing ties to
 * the first. */
lk_status lk_traces_align(lk_traces *traces, lk_error *err);

/* How well the rule of barriers predicts: a collective ends on rank r at the latest arrival over
 * all ranks + the transfer. */
typedef struct lk_barrier_error {
	uint32_t ends; /* that were predicted, one of every rank in every collective */
	uint32_t collectives;
	double median_ns, max_ns; /* |predicted - measured| */
	uint32_t worst_capture, worst_match;
} lk_barrier_error;

/* Arrivals are kernel starts. The transfer is the median over the *other* ranks, and the clocks are
 * fitted without the collective that is predicted (with more than 32 of them, without the
 * thirty-second part that it is in). Collectives with all their captured ranks in step are looked
 * at: of all-reduce, all-gather, reduce-scatter, all-to-all. */
lk_status lk_traces_barrier_error(const lk_traces *traces, lk_barrier_error *out, lk_error *err);

/* One run: captures learn from the execution trace of their rank (link.c), then they are matched.
 * The captures are the run's from then on, or are freed when it fails; the execution traces stay.
 */
lk_status lk_traces_join(lk_trace_files *files, lk_traces **out, lk_error *err);

/* The same; files that say nothing of times alone are an error. The files are freed in any case. */
lk_status lk_traces_of_files(lk_trace_files *files, lk_traces **out, lk_error *err);

/* The rank that a file's name tells; -1 none. */
int32_t lk_trace_rank_in_name(const char *path);
/* What captures learn, and the sentences about it (traces_link.c); captures have their ranks and
 * are in their order. */
lk_status lk_traces_link(lk_traces *traces, lk_works *const *works, uint32_t count, lk_error *err);

#endif
