/* simulate.h: the step behind a simulation, for what is written of it. */
#ifndef LK_ASK_SIMULATE_H
#define LK_ASK_SIMULATE_H

#include "step/step.h"
#include "lockstep/simulate.h"

/* Owned by the simulation. */
const lk_step *lk_simulation_step(const lk_simulation *simulation);

#endif
