/* timeline.h: a simulated step as tracks, slices, flows and counters for the views. */
#ifndef LK_ASK_TIMELINE_H
#define LK_ASK_TIMELINE_H

#include "step/step.h"
#include "sim/timeline.h"

/* The recorded ranks of a step. Folded runs of layers are one slice each, with the operations of their first repetitions
 * nested inside; an exact simulation has every operation. */
lk_status lk_step_timeline(const lk_step *step, lk_timeline **out, lk_error *err);

#endif
