/* dlrm_step.h: one hybrid-parallel step of a recommendation model, asked. */
#ifndef LK_ASK_DLRM_STEP_H
#define LK_ASK_DLRM_STEP_H

#include "step/step.h"
#include "model/network/dlrm.h"

/* Graph, costs, times; `out` is to be freed with lk_step_free in every case. */
lk_status lk_dlrm_ask(const lk_dlrm *model, const lk_dlrm_job *job, const lk_cluster *cluster, const lk_step_options *options,
                      lk_step *out, lk_error *err);

#endif
