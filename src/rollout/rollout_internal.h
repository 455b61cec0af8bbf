/* rollout_internal.h: shared by the files of an engine. */
#ifndef LK_ROLLOUT_INTERNAL_H
#define LK_ROLLOUT_INTERNAL_H

#include "rollout/rollout.h"

/* Key-value heads on a GPU; bytes that one layer caches per token there. */
double lk_engine_kv_heads(const lk_engine *engine);
double lk_engine_token_bytes(const lk_engine *engine);
/* GPUs that split a layer's matrices except experts: 1 if each attends to its own sequences. */
double lk_engine_split(const lk_engine *engine);

/* Bytes per element of a recurrence's state. */
extern const double LK_STATE_BYTES;
/* Bytes per element in MXFP4. */
extern const double lk_engine_mxfp4_bytes;

#endif
