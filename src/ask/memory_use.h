/* memory_use.h: the memory of every stage as the device sees it. Private to ask/. */
#ifndef LK_ASK_MEMORY_USE_H
#define LK_ASK_MEMORY_USE_H

#include "ask/step.h"

/* Fills out->memory, out->fullest and out->usable from out->graph. */
lk_status lk_memory_ask(const lk_job *job, const lk_cluster *cluster, lk_step *out, lk_error *err);

#endif
