/* steps_internal.h: shared by the files of steps: a step under construction, and where each value
 * is held.
 *
 *   steps_units.c   where each value is held, and which step computes it
 *   steps_order.c   reads and writes of steps, their dependencies, their order
 *   conditions.c    steps that run only where a condition holds
 *   steps.c         overlapping bundles, names, the listing */
#ifndef LK_LANG_STEPS_STEPS_INTERNAL_H
#define LK_LANG_STEPS_STEPS_INTERNAL_H

#include <limits.h>

#include "lang/steps/steps.h"

enum { LC_NEVER = INT_MAX };

typedef enum lc_held {
	LC_NOWHERE,  /* constants, scalars, arithmetic of single numbers: recomputed when read */
	LC_IN_PLACE, /* a slice, read element by element in its operand's memory */
	LC_REGISTER, /* computed by the one pass that reads it */
	LC_ALIAS,    /* the operand's memory, for a slice from an offset on */
	LC_STORED,   /* memory of its own; for an update, its state's */
} lc_held;

typedef struct lc_place {
	lc_held held;
	int next;         /* for a state's version: the update that overwrites it, or LC_NEVER */
	int keeps;        /* the update until which it can be recomputed, or read in place */
	int last;         /* for a value that is read through: the last step, by its key, that reads
	                     it */
	int home;         /* the value whose content in memory it reads */
	int unit;         /* the unit that computes it, or -1 */
	int into;         /* the update into whose memory it is written directly, or -1 */
	int first, users; /* its users: lc_maker.users[first ..] */
} lc_place;

/* A step under construction. */
typedef struct lc_unit {
	lc_step step;
	int key; /* the last value that it computes, or of an attention the first: its place in
	                      the order */
	int fuse, overlap; /* its bundles, or -1 */
	bool ordered;
} lc_unit;

typedef struct lc_maker {
	const lc_program *p;
	lk_arena *arena; /* of the result */
	lk_arena scratch;
	lc_place *at; /* [count] */
	int *users;
	int count;
	LK_VEC(lc_unit) units;
} lc_maker;

/* The fusing bundle of a value, or -1. */
int lc_fused(const lc_maker *maker, int v);
bool lc_ids_add(lk_arena *arena, lc_ids *ids, int id); /* false when memory runs out */
/* Append unless present. */
lk_status lc_ids_put(lk_arena *arena, lc_ids *ids, int id, lk_error *err);

/* Fill in places and units. */
lk_status lc_make_units(lc_maker *maker, lk_error *err);
/* Fill in reads, writes and dependencies of units (step.after: units), and check that passes are
 * passes. */
lk_status lc_link_units(lc_maker *maker, lk_error *err);
/* Order the units: order[0 .. units); those of an overlapping bundle are adjacent. */
lk_status lc_order_units(lc_maker *maker, int *order, lk_error *err);

/* Fill in only_if of the steps. */
lk_status lc_steps_conditions(lc_steps *steps, lk_error *err);

#endif
