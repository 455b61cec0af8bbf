/* step_times.h: how long operations of a lifted rank took in other steps, or on other ranks: looked up by what they are and the
 * how-manieth of their kind they are in the step. Where the structure differs, by coarser names. */
#ifndef LK_TRACE_STEP_TIMES_H
#define LK_TRACE_STEP_TIMES_H

#include "trace/lift/lift.h"

/* How well an operation was known. */
typedef enum lk_known {
	LK_KNOWN_PLACE,  /* the same operation, called from the same place, the same time round */
	LK_KNOWN_PATH,   /* the same, another time round */
	LK_KNOWN_NAME,   /* the same operation elsewhere */
	LK_KNOWN_KIND,   /* its term (T1 to T5), or device work as such */
	LK_KNOWN_NOT,    /* nothing: its own measured time stands */
	LK_KNOWNS,
} lk_known;

typedef struct lk_step_times lk_step_times;

lk_step_times *lk_step_times_new(void); /* NULL when memory is out */
void lk_step_times_free(lk_step_times *times);
/* Adds everything that a lifted rank measured, as coming from `source`. */
lk_status lk_step_times_add(lk_step_times *times, const lk_lifted_rank *rank, uint32_t source, lk_error *err);

/* Nanoseconds of every operation of `rank`, from what was added; what was carried into the step stays as measured, for it is
 * of the step before. `shared`, if not NULL, gives host times instead: the overheads of another run. */
typedef struct lk_retimed {
	int64_t *ns;              /* [rank->ops] lags included */
	int64_t *lag_ns;          /* [rank->ops] of device work */
	double host_ns[LK_KNOWNS], device_ns[LK_KNOWNS]; /* how much of the predicted time rests on what */
} lk_retimed;
/* Shared overheads: T1 to T5 by name, times how much faster or slower the host of this trace is, term by term (1: as stored). Gaps
 * of over LK_GAP_NS are waiting that belongs to the structure: they stay. */
typedef struct lk_shared_overheads {
	const lk_overheads *table;
	double scale[6]; /* by term */
} lk_shared_overheads;

/* The scale that makes the mean of each term equal to that of a trace: five numbers for the host, and for what its profiler adds to
 * every event. */
void lk_shared_overheads_fit(const lk_overheads *table, const lk_overheads *own, lk_shared_overheads *out);

/* `source`: times of the same place come from this one where it has them; else, and with LK_NONE, means of all. Times of one source
 * belong together: what was late in it was late all together. */
lk_status lk_step_times_predict(lk_step_times *times, const lk_lifted_rank *rank, const lk_shared_overheads *shared,
                                uint32_t source, lk_retimed *out, lk_error *err);
void lk_retimed_free(lk_retimed *retimed);

/* Own measured time of an operation: pieces, or lag and work. */
int64_t lk_lifted_own(const lk_lifted_rank *rank, uint32_t op);

#endif
