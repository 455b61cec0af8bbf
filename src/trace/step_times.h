/* step_times.h: how long operations of a lifted rank took in other steps, or on other ranks: looked up by what they are and the
 * how-manieth of their kind they are in the step. Where the structure differs, by coarser names. */
#ifndef LK_TRACE_STEP_TIMES_H
#define LK_TRACE_STEP_TIMES_H

#include "trace/lift.h"

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
/* Adds everything that a lifted rank measured. */
lk_status lk_step_times_add(lk_step_times *times, const lk_lifted_rank *rank, lk_error *err);

/* Nanoseconds of every operation of `rank`, from what was added; what was carried into the step stays as measured, for it is
 * of the step before. `overheads`, if not NULL, gives host times instead: the shared overheads of another run. */
typedef struct lk_retimed {
	int64_t *ns;              /* [rank->ops]: as lk_lifted_time, to be freed */
	double host_ns[LK_KNOWNS], device_ns[LK_KNOWNS]; /* how much of the predicted time rests on what */
} lk_retimed;
lk_status lk_step_times_predict(lk_step_times *times, const lk_lifted_rank *rank, const lk_overheads *overheads,
                                lk_retimed *out, lk_error *err);
void lk_retimed_free(lk_retimed *retimed);

/* Own measured time of an operation: pieces, or lag and work. */
int64_t lk_lifted_own(const lk_lifted_rank *rank, uint32_t op);

#endif
