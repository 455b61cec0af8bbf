/* layout_space.h: shared by the files of the search space.
 *
 *   layout_space.c       the values of each degree and switch
 *   layout_cores.c       the degrees that go together, as cores
 *   layout_switches.c    the switches of a core, as layouts
 *   layout_membership.c  whether a job is among them */
#ifndef LK_PLAN_LAYOUT_SPACE_H
#define LK_PLAN_LAYOUT_SPACE_H

#include "plan/plan.h"

enum { LK_MOST_CHUNKS = 64 };

/* layout_space.c */
/* Add a value unless the axis has it. */
void lk_axis_add(lk_axis *axis, int value);
bool lk_axis_has(const lk_axis *axis, int value);
void lk_recomputes_add(lk_recomputes *out, lk_recompute kind, int layers);
/* Most GPUs of a node, or NVLink domain. */
int lk_space_domain(const lk_cluster *cluster);

/* layout_cores.c */
bool lk_stack_is_fsdp(const char *stack);
/* A stack's defaults. */
const lk_stack_features *lk_space_features(const lk_space *space, int stack);
bool lk_core_sends_by_node(const lk_space *space, const lk_core *core);
/* The job of a core, not completed. */
void lk_core_apply(const lk_space *space, const lk_core *core, lk_job *job);
/* The stack's default shardings, and all that it can do. */
void lk_core_shardings(const lk_space *space, const lk_core *core, lk_axis *out);
lk_status lk_space_complete(const lk_space *space, lk_job *job, lk_error *err);

/* layout_switches.c */
/* Values of the axis, and quarters of a chunk's layers. */
void lk_space_recomputes(const lk_space *space, const lk_job *job, lk_recomputes *out);

#endif
