/* steps_internal.h: what the files of steps share: a step in the making, and where each value is
 * held.
 *
 *   steps_units.c   where each value is held, and which step computes it
 *   steps_order.c   what steps read and write, what must be over before them, their order
 *   steps.c         bundles that overlap, names, the listing */
#ifndef LK_LANG_STEPS_STEPS_INTERNAL_H
#define LK_LANG_STEPS_STEPS_INTERNAL_H

#include <limits.h>

#include "lang/steps/steps.h"

enum { LC_NEVER = INT_MAX };

typedef enum lc_held {
	LC_NOWHERE,  /* constants, scalars, arithmetic of single numbers: recomputed where it is read */
	LC_IN_PLACE, /* a slice, read element by element where its operand lies */
	LC_REGISTER, /* computed by the one pass that reads it */
	LC_ALIAS,    /* the operand's memory, of a slice from an offset on */
	LC_STORED,   /* memory of its own; of an update, its state's */
} lc_held;

typedef struct lc_place {
	lc_held held;
	int next;         /* of a state's version: the update that overwrites it, or LC_NEVER */
	int keeps;        /* until which update it can be computed anew, or read where it lies */
	int last;         /* of what is read through: the last step, by its key, that reads it */
	int home;         /* the value that left its content in memory */
	int unit;         /* the unit that computes it, or -1 */
	int into;         /* the update whose memory it is written to directly, or -1 */
	int first, users; /* its users: lc_maker.users[first ..] */
} lc_place;

/* A step in the making. */
typedef struct lc_unit {
	lc_step step;
	int key;           /* the last value that it computes: its place in the order */
	int fuse, overlap; /* its bundles, or -1 */
	bool ordered;
} lc_unit;

typedef struct lc_maker {
	const lc_program *p;
	lk_arena *arena; /* of what is made */
	lk_arena scratch;
	lc_place *at; /* [count] */
	int *users;
	int count;
	LK_VEC(lc_unit) units;
} lc_maker;

/* The fusing bundle of a value, or -1. */
int lc_fused(const lc_maker *maker, int v);
bool lc_ids_add(lk_arena *arena, lc_ids *ids, int id); /* false when memory runs out */
/* Appends unless it is there. */
lk_status lc_ids_put(lk_arena *arena, lc_ids *ids, int id, lk_error *err);

/* Fills places and units. */
lk_status lc_make_units(lc_maker *maker, lk_error *err);
/* Fills what units read, write and wait for (step.after: units), and checks that passes are passes.
 */
lk_status lc_link_units(lc_maker *maker, lk_error *err);
/* Units in order: order[0 .. units); those of a bundle that overlaps stand together. */
lk_status lc_order_units(lc_maker *maker, int *order, lk_error *err);

#endif
