/* rollout_internal.h: what the files of an engine share. */
#ifndef LK_ROLLOUT_INTERNAL_H
#define LK_ROLLOUT_INTERNAL_H

#include "rollout/rollout.h"

/* Heads of keys and values on a GPU; bytes that one layer caches of a token there. */
double lk_engine_kv_heads(const lk_engine *engine);
double lk_engine_token_bytes(const lk_engine *engine);
/* GPUs that divide a layer's matrices but for experts: 1 where each attends to sequences of its
 * own. */
double lk_engine_split(const lk_engine *engine);

/* Bytes of a number in MXFP4. */
extern const double lk_engine_mxfp4_bytes;

#endif
