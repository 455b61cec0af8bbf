/* memory_use.h: the memory of every stage as the device sees it. Private to ask/ and to searches. */
#ifndef LK_ASK_MEMORY_USE_H
#define LK_ASK_MEMORY_USE_H

#include "step/step.h"

/* Fills out->memory, out->fullest and out->usable from out->graph. */
lk_status lk_memory_ask(const lk_job *job, const lk_cluster *cluster, lk_step *out, lk_error *err);

/* The total of a stage that holds `resident` bytes throughout (workspaces left out) and at some moment `held` more: no more
 * than lk_memory_ask says where those are no more than there are. *usable: of its smallest device. */
double lk_memory_least(const lk_job *job, const lk_cluster *cluster, const lk_ranks *ranks, int stage, double resident,
                       double held, double *usable);

#endif
