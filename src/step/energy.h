/* energy.h: what the GPUs and hosts of a job draw over a step. */
#ifndef LK_STEP_ENERGY_H
#define LK_STEP_ENERGY_H

#include "cost/cost.h"
#include "sim/breakdown.h"

/* Mains power per power of the machines: cooling, conversion. Hyperscale sites state 1.08 to 1.15
 * (Google, Meta, AWS, 2023), the mean of a survey is 1.56 (Uptime Institute 2024). */
#define LK_PUE 1.2

/* Means over a step; all 0 where the power of a board is not known. */
typedef struct lk_energy {
	double gpu_w, board_w; /* of a GPU; the limit of its board */
	double site_w, pue;    /* all GPUs with their hosts and networks, at the mains */
	double step_kwh;       /* of site_w over the step */
} lk_energy;

/* Of `gpus` GPUs of a cluster, whose step of `step_s` seconds went as `breakdown` says. `pue`: 0
 * LK_PUE. docs/method/energy.md has the numbers and what they were held against. */
lk_energy lk_energy_of(const lk_breakdown *breakdown, const lk_cluster *cluster, int gpus,
                       double step_s, double pue);

/* What a machine of so many GPUs draws at their boards' limits, with its host, before PUE; 0 where
 * the power of a board is not known. */
double lk_energy_machine_w(const lk_device *device, int gpus);

#endif
