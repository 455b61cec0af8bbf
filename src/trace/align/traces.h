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

/* One communication operation of the run: its kernels on all captured ranks. */
typedef struct lk_match {
	uint8_t kind;        /* lk_op_kind */
	uint32_t group;      /* index in lk_traces.groups */
	uint32_t sequence;   /* its number within the group */
	int64_t bytes;       /* message as nccl-tests count it, the largest over ranks, for MPI_Gatherv
	                        the mean; -1 unknown */
	uint32_t begin, end; /* its members in lk_traces.members, by capture */
} lk_match;

/* A process group of the run. */
typedef struct lk_run_group {
	const char *name;   /* "default_pg", "tp", "0"; never NULL */
	int32_t size;       /* ranks, captured or not; 0 unknown */
	uint32_t *captures; /* captured ranks, ascending */
	uint32_t count;
	const char *ranks; /* "[0, 1, 2, 3]", or "" */
} lk_run_group;

typedef LK_VEC(const char *) lk_sentences;

typedef struct lk_traces {
	lk_capture **capture; /* by rank */
	int64_t *shift_ns;    /* common time = a capture's own time + this; 0 for the first rank; see
	                         lk_traces_time */
	double *drift_ppm;    /* by which its clock is slow against the first rank's, if clear; else 0.
	                         The shift then holds at middle_ns */
	int64_t *middle_ns;   /* own time */
	uint32_t count;
	int32_t world; /* ranks of the run, captured or not */
	/* quality of the alignment, from the ends of matched collectives */
	bool one_clock;                      /* all ranks share their host's clock: nothing is
	                                        aligned */
	uint32_t anchors;                    /* collectives used; 0: clocks are as in the files */
	double residual_ns, residual_max_ns; /* median and largest remaining |end - common end| */
	double skew_ns;           /* largest difference between the clocks as the files have them */
	double largest_drift_ppm; /* found, corrected or not; 0 if captures are too short to tell */
	LK_VEC(lk_match) matches; /* by group, then sequence */
	LK_VEC(lk_match_member) members;
	LK_VEC(lk_run_group) groups;
	lk_sentences problems; /* calls out of step, missing or of another size; sentences that name
	                          rank, group and number */
	lk_sentences warnings; /* of all files, with their names ... */
	size_t damages;        /* ... the first of them, which report damage */
	lk_sentences notes;    /* what execution traces added to which rank */
	struct lk_match_index *index; /* for lk_traces_match */
	lk_arena arena;
} lk_traces;

/* Read the files in parallel on up to `threads` (0: one per core); of folders, the traces in them.
 * Two captures of one rank, or of different runs, are an error. Execution traces (works.h) may be
 * among them: they supplement the capture of the same rank. trace_files.c has the two steps
 * separately. */
lk_status lk_traces_read(const char *const *paths, uint32_t count, const lk_read_limits *limits,
                         int threads, lk_traces **out, lk_error *err);
/* The same from captures already read, of which it takes ownership; it frees them on failure. */
lk_status lk_traces_make(lk_capture **captures, uint32_t count, lk_traces **out, lk_error *err);
void lk_traces_free(lk_traces *traces);

/* A capture's own time on the common clock. */
static inline int64_t lk_traces_time(const lk_traces *traces, uint32_t capture, int64_t own_ns) {
	double drift =
		traces->drift_ppm[capture] * 1e-6 * ((double)own_ns - (double)traces->middle_ns[capture]);
	return own_ns + traces->shift_ns[capture] + (int64_t)drift;
}

/* The match that contains an event of a capture, or NULL. */
const lk_match *lk_traces_match(const lk_traces *traces, uint32_t capture, uint32_t event);

/* ---- match: from the events of many ranks to matched collectives; shared by the files of
 * trace/align. */

/* One communication call of one rank. */
typedef struct lk_comm_call {
	uint32_t event;
	uint32_t group; /* index in lk_traces.groups */
	uint8_t kind;   /* lk_op_kind; LK_OP_COUNT not given */
	int64_t bytes;  /* as in lk_match */
	bool uneven;    /* other members may give another number */
	int32_t tag;    /* messages of one tag arrive in order; 0 for other calls */
	int64_t issued; /* own time; orders the calls of a rank */
	int64_t end;    /* on the clock of its file, from the first capture's origin: base + own time */
} lk_comm_call;
typedef LK_VEC(lk_comm_call) lk_comm_calls;

/* All communication of a run, sorted by group, then order of issue. */
typedef struct lk_run_calls {
	lk_comm_calls *of; /* [captures] */
	LK_VEC(bool) told; /* by group: named by the file; otherwise guessed from streams */
} lk_run_calls;

/* Offset from a capture's own time to the clock of the files: from its origin to the first
 * capture's origin, or 0 if the two count from different moments, so that both begin together. */
int64_t lk_clock_base(const lk_traces *traces, uint32_t capture);
/* Whether all captures are of one host, whose clock they share. */
bool lk_clock_shared(const lk_traces *traces);
/* Whether the file's clock counts from 1970 and so can be compared between hosts. */
bool lk_clock_told(const lk_capture *capture);

/* Find the calls of every capture and the groups they belong to (comm_calls.c). */
lk_status lk_calls_find(lk_traces *traces, lk_run_calls *calls, lk_error *err);
void lk_calls_free(const lk_traces *traces, lk_run_calls *calls);

/* Match the calls of each group over ranks (match.c). */
lk_status lk_calls_match(lk_traces *traces, lk_run_calls *calls, lk_error *err);

/* ---- two ranks' calls of one group (match_order.c) ---- */

typedef struct lk_call_list {
	const lk_comm_call *at;
	uint32_t count;
	bool whole; /* the first call is the first that the group ever made: lk_capture.whole */
} lk_call_list;

typedef enum lk_difference {
	LK_CALL_MISSING,
	LK_CALL_EXTRA,
	LK_CALL_OTHER_KIND,
	LK_CALL_OTHER_SIZE
} lk_difference;

/* A difference between a rank and the reference. */
typedef struct lk_order_note {
	int64_t place;    /* in the calls of the reference */
	uint32_t capture; /* filled by the caller */
	lk_difference what;
	uint8_t kind; /* of the rank's own call */
	int64_t bytes;
} lk_order_note;
typedef LK_VEC(lk_order_note) lk_order_notes;

#define LK_NO_PLACE INT64_MIN

/* Find the place of every call of `b` among the calls of `a` (before and after them too: negative,
 * or >= a.count), so that kinds and sizes agree; if several placements agree, the one with a steady
 * difference between the clocks. If both are whole, the first calls match, however late a busy
 * machine lets a rank start. `jitter_ns`: median change of that difference from call to call, NAN
 * if fewer than two calls are common. */
lk_status lk_order_find(lk_call_list a, lk_call_list b, int64_t *places, lk_order_notes *notes,
                        double *jitter_ns, lk_error *err);

/* ---- medians and sums that never overflow ---- */

/* The lower median; reorders x. n > 0. */
double lk_select_median(double *x, size_t n);

static inline int64_t lk_add_saturated(int64_t a, int64_t b) {
	int64_t sum;
	if (!__builtin_add_overflow(a, b, &sum)) return sum;
	return b < 0 ? INT64_MIN : INT64_MAX;
}

/* Add a sentence; dropped when memory runs out or there are too many. */
void lk_traces_problem(lk_traces *traces, const char *fmt, ...) LK_PRINTF(2, 3);
void lk_traces_warn(lk_traces *traces, const char *fmt, ...) LK_PRINTF(2, 3);
void lk_traces_note(lk_traces *traces, const char *fmt, ...) LK_PRINTF(2, 3);

/* ---- link: an execution trace and a capture of the same rank and step: which work is which
 * event. */

typedef struct lk_link {
	uint32_t *event;    /* [works->count] event of the capture; LK_NONE */
	uint32_t by_record; /* joined by record function id and equal name */
	uint32_t by_order;  /* joined by order: the k-th of a name on a thread with the k-th on its
	                       lane */
	uint32_t uncertain; /* of these, names that occur more often on one side than on the other */
	uint32_t
		roots; /* works that represent processes and threads, which captures have no events for */
	uint32_t alone;        /* other works without an event */
	uint32_t events_alone; /* operations and annotations of the capture without a work */
} lk_link;

/* Link finished works with a finished capture. Threads are matched with lanes by the names they
 * share. */
lk_status lk_link_works(const lk_works *works, const lk_capture *capture, lk_link *out,
                        lk_error *err);
void lk_link_free(lk_link *link);

/* Add to communication kernels what only the execution trace knows: kind, group, elements, type.
 * *filled: kernels (on hosts, operations) that gained something. */
lk_status lk_link_comms(lk_capture *capture, const lk_works *works, const lk_link *link,
                        uint32_t *filled, lk_error *err);

/* Add shapes and types of inputs to operations where the capture has none, and the shapes of
 * results. *filled: operations that gained shapes of inputs. */
lk_status lk_link_shapes(lk_capture *capture, const lk_works *works, const lk_link *link,
                         uint32_t *filled, lk_error *err);

/* ---- align: one clock for all ranks, from the ends of collectives: a collective ends for all its
 * ranks within microseconds (1 to 7 us on eight V100), while starts differ by milliseconds, because
 * early ranks wait inside the kernel. */

/* Set the clocks of the traces, their quality, and warnings about ranks that nothing ties to the
 * first. */
lk_status lk_traces_align(lk_traces *traces, lk_error *err);

/* Make one run: captures are supplemented from the execution trace of their rank (link.c), then
 * matched. Takes ownership of the captures, and frees them on failure; the execution traces
 * stay. */
lk_status lk_traces_join(lk_trace_files *files, lk_traces **out, lk_error *err);

/* The same; execution traces without captures are an error. The files are freed in any case. */
lk_status lk_traces_of_files(lk_trace_files *files, lk_traces **out, lk_error *err);

/* The rank in a file's name; -1 none. */
int32_t lk_trace_rank_in_name(const char *path);
/* Supplement captures from execution traces, and note what was added (traces_link.c); captures have
 * their ranks and are in their order. */
lk_status lk_traces_link(lk_traces *traces, lk_works *const *works, uint32_t count, lk_error *err);

#endif
