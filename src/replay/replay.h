/* replay.h: how well the steps of a run predict one another, for those who build on them. */
#ifndef LK_ASK_REPLAY_H
#define LK_ASK_REPLAY_H

#include "trace/align/traces.h"

/* The error of `replay` with steps held out, else ranks: exp(mean |ln|) - 1. 0 where there is but one step of one rank. */
lk_status lk_replay_error(lk_traces *traces, double *error, lk_error *err);

#endif
