/* eager.h: kernels of a step that a framework runs operation by operation in fp32, on one device: at the rates that were
 * measured on it (family "rates" of the calibration), else at usual shares of its data sheet. */
#ifndef LK_COST_EAGER_H
#define LK_COST_EAGER_H

#include "cost/cost.h"
#include "cost/kernel/gemm.h"

typedef struct lk_eager_device {
	lk_device device;            /* of the catalogue, at the clock that it ran at */
	double memory, l2, pcie;     /* bytes/s that streams reach */
	lk_gemm_numbers gemm;        /* of the formula: fitted on the nearest of its architecture; without the launch in floor_s */
	const lk_device *twin;       /* the same chip, perhaps at another clock, on which products were measured; NULL none */
	lk_gemm_model twin_gemm;
	double twin_launch[2];       /* seconds of next to no product there, timed from the host: single, batched */
	bool measured;               /* the rates; false: from the data sheet */
} lk_eager_device;

void lk_eager_device_of(const lk_device *device, lk_eager_device *out);

/* Costs of all operations of a traced graph on the device: HOST operations take what they state. */
lk_status lk_eager_costs(lk_arena *arena, const lk_graph *graph, const lk_eager_device *device, lk_costs *out, lk_error *err);

#endif
