/* fixes.h: when a job does not fit: the smallest changes that would, found by asking. */
#ifndef LK_ASK_FIXES_H
#define LK_ASK_FIXES_H

#include "step/request.h"

/* Tries one change at a time, keeps those that fit, and asks for their step time. Cheapest in time first. */
lk_status lk_find_fixes(lk_arena *arena, const lk_asked *asked, lk_prediction *out, lk_error *err);

#endif
