/* energy.h: power and energy of a job's GPUs and hosts over a step. */
#ifndef LK_STEP_ENERGY_H
#define LK_STEP_ENERGY_H

#include "cost/cost.h"
#include "lockstep/predict.h"
#include "sim/breakdown.h"

/* Mains power over machine power: cooling, conversion. Hyperscale sites state 1.08 to 1.15 (Google,
 * Meta, AWS, 2023), the mean of a survey is 1.56 (Uptime Institute 2024). */
#define LK_PUE 1.2

/* Energy of `gpus` GPUs of a cluster for a step of `step_s` seconds split as in `breakdown`, and
 * for a training of `hours` hours (0: unknown). */
lk_energy lk_energy_of(const lk_breakdown *breakdown, const lk_cluster *cluster, int gpus,
                       double step_s, double hours, const lk_mains *mains);

/* The power limit of a board, W, averaged over the GPUs of a cluster; 0 if one is unknown. */
double lk_energy_board_w(const lk_cluster *cluster);
/* Likewise for a training of this many hours. */
lk_energy lk_energy_train(lk_energy step, double hours, const lk_mains *mains);

/* Energy of a step, as the seconds for which its GPUs and hosts would draw the boards' limits:
 * compares layouts on the same GPUs. */
double lk_energy_full_s(const lk_breakdown *breakdown, double step_s);
/* Lower bound of that for a step of this length; and the longest step that may stay within it. */
double lk_energy_least_s(double step_s);
double lk_energy_longest_s(double full_s);

/* The PUE of a request. */
double lk_energy_pue(const lk_mains *mains);

/* Power of a machine with `gpus` GPUs at their boards' limits, host included, before PUE, W; 0 if a
 * board's power is unknown. */
double lk_energy_machine_w(const lk_device *device, int gpus);

#endif
