/* replay.h: how well the steps of a run predict one another, for other rooms. */
#ifndef LK_REPLAY_REPLAY_H
#define LK_REPLAY_REPLAY_H

#include "lockstep/replay.h"
#include "step/traced.h"
#include "trace/align/traces.h"
#include "trace/lift/lift.h"
#include "trace/read/read.h"

/* The error of `replay` with steps held out, else ranks: exp(mean |ln|) - 1. 0 with only one step
 * of one rank. */
lk_status lk_replay_error(lk_traces *traces, double *error, lk_error *err);

/* replay_check.c: a validator (base/check.h). */
const char *lk_replay_check(const lk_replay *replay);

/* ---- replay_parts: shared by the files of `replay`. */

/* Most steps that are lifted; longer captures use the last ones, because the first warm up. */
enum { LK_REPLAY_STEPS = 16 };

typedef struct lk_replaying {
	const lk_replay_request *request;
	lk_arena *arena; /* of the answer */
	lk_trace_files files;
	lk_traces *traces;
	uint32_t first_step, steps;            /* of every capture, from the first of them on */
	lk_lifted *base[LK_REPLAY_STEPS];      /* each step, lifted with all information */
	lk_capture_steps *found;               /* [captures] */
	const char *left_out[LK_REPLAY_STEPS]; /* why a step is unlike the others; NULL */
	bool empty[LK_REPLAY_STEPS];           /* nothing happened in it */
	uint32_t used;                         /* number of steps used */
	int hold_out;
	lk_shared_overheads *shared; /* [captures], NULL: none */
	lk_replay_rank *ranks;       /* of the answer */
} lk_replaying;

/* replay_hold.c: predict step `s` (an index into base) of all ranks: *out[rank] in lk_retimed; or,
 * with ranks held out, only of `rank`. */
lk_status lk_replay_step_out(lk_replaying *replaying, uint32_t s, lk_error *err);
lk_status lk_replay_rank_out(lk_replaying *replaying, uint32_t s, lk_error *err);
lk_status lk_replay_itself(lk_replaying *replaying, uint32_t s, lk_error *err);

/* Read overheads from a table, or from a trace, which is returned in *traces, if not NULL. */
lk_status lk_replay_stored_overheads(const char *path, lk_overheads **out, lk_traces **traces,
                                     lk_error *err);
/* Set each rank's host overheads from a shared table (replaying->shared), if the request names one;
 * `table` is to be freed. Write the overheads of all captures if requested. */
lk_status lk_replay_share_overheads(lk_replaying *replaying, lk_overheads **table, lk_error *err);
lk_status lk_replay_write_overheads(lk_replaying *replaying, lk_error *err);
/* Predict execution traces, which have no times (replay_works.c). */
lk_status lk_replay_works_ask(lk_replaying *replaying, lk_overheads **table, lk_replay *out,
                              lk_error *err);

#endif
