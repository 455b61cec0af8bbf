/* energy.h: what the GPUs and hosts of a job draw over a step. */
#ifndef LK_STEP_ENERGY_H
#define LK_STEP_ENERGY_H

#include "cost/cost.h"
#include "lockstep/predict.h"
#include "sim/breakdown.h"

/* Mains power per power of the machines: cooling, conversion. Hyperscale sites state 1.08 to 1.15
 * (Google, Meta, AWS, 2023), the mean of a survey is 1.56 (Uptime Institute 2024). */
#define LK_PUE 1.2

/* Of `gpus` GPUs of a cluster, whose step of `step_s` seconds went as `breakdown` says, in a
 * training of so many hours (0: not known). */
lk_energy lk_energy_of(const lk_breakdown *breakdown, const lk_cluster *cluster, int gpus,
                       double step_s, double hours, const lk_mains *mains);

/* The limit of a board's power, mean over the GPUs of a cluster; 0 if one is not known. */
double lk_energy_board_w(const lk_cluster *cluster);
/* The same for a training of so many hours. */
lk_energy lk_energy_train(lk_energy step, double hours, const lk_mains *mains);

/* Energy of a step as the seconds for which its GPUs and hosts would draw the boards' limits: what
 * layouts on the same GPUs are compared by. */
double lk_energy_full_s(const lk_breakdown *breakdown, double step_s);
/* At least that much of any step that takes so long; and the longest step that may take no more. */
double lk_energy_least_s(double step_s);
double lk_energy_longest_s(double full_s);

/* The PUE that a request means. */
double lk_energy_pue(const lk_mains *mains);

/* What a machine of so many GPUs draws at their boards' limits, with its host, before PUE; 0 where
 * the power of a board is not known. */
double lk_energy_machine_w(const lk_device *device, int gpus);

#endif
