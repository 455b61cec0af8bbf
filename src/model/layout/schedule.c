/* schedule.c: the table of pipeline schedules, and their common checks. */
#include "base/text.h"
#include "model/layout/schedule.h"

static const lk_schedule *const table[LK_SCHEDULES] = {
	[LK_SCHED_GPIPE] = &lk_schedule_gpipe,
	[LK_SCHED_1F1B] = &lk_schedule_1f1b,
	[LK_SCHED_INTERLEAVED] = &lk_schedule_interleaved,
	[LK_SCHED_ZB_H1] = &lk_schedule_zb_h1,
	[LK_SCHED_ZB_V] = &lk_schedule_zb_v,
	[LK_SCHED_DUALPIPE] = &lk_schedule_dualpipe,
	[LK_SCHED_ZB_H2] = &lk_schedule_zb_h2,
	[LK_SCHED_DUALPIPE_V] = &lk_schedule_dualpipe_v,
	[LK_SCHED_V_HALF] = &lk_schedule_v_half,
	[LK_SCHED_V_MIN] = &lk_schedule_v_min,
};

const lk_schedule *lk_schedule_get(lk_schedule_kind kind) {
	return (unsigned)kind < LK_SCHEDULES ? table[kind] : NULL;
}

int lk_schedule_directions(lk_schedule_kind kind) {
	return kind == LK_SCHED_DUALPIPE ? 2 : 1;
}

const lk_schedule *lk_schedule_find(const char *name) {
	if (name == NULL) return NULL;
	for (int i = 0; i < LK_SCHEDULES; i++)
		if (lk_same_name(name, table[i]->name) || lk_same_name(name, table[i]->label))
			return table[i];
	return NULL;
}
