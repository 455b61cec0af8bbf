/* dlrm_time.h: a recommendation model's training step on one device, predicted: its operations (model/network/dlrm.h), their kernels
 * (cost/kernel/eager.h) and what the host spends (host_terms.h), simulated. */
#ifndef LK_ACCURACY_DLRM_TIME_H
#define LK_ACCURACY_DLRM_TIME_H

#include "fit/host_terms.h"
#include "hw/hw.h"
#include "model/network/dlrm.h"

typedef struct lk_dlrm_time {
	double step_s;
	double kernels_s;   /* the device's work alone */
	double host_s;      /* the host's work alone */
} lk_dlrm_time;

lk_status lk_dlrm_predict(const lk_dlrm *model, double batch, const lk_device *device, const lk_host_terms *host,
                          lk_dlrm_time *out, lk_error *err);

#endif
