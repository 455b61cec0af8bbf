/* emit_pass.h: one pass over elements, taken apart: which values it computes, loads and stores, where they are found,
 * and its loops. */
#ifndef LK_LANG_TARGET_PASS_H
#define LK_LANG_TARGET_PASS_H

#include "lang/emit/emit_mpi.h"

/* How a value comes into a pass. */
typedef enum lc_source {
	LC_UNUSED,
	LC_LITERAL,   /* a constant: written where it is used */
	LC_NUMBER,    /* a single number: a variable before the loops */
	LC_LOADED,    /* an element of memory */
	LC_COMPUTED,  /* made of others for each element */
	LC_RESULT,    /* a reduction or total: after the loops */
} lc_source;

typedef struct lc_pass {
	lc_mpi *c;
	const lc_program *p;
	const lc_step *step;
	lc_source *source;          /* [values] */
	int *uses;                  /* [values] in the pass */
	int *place;                 /* [values] of what is loaded, or stored: index into places; -1 */
	int *whole;                 /* [values] of dropouts: index into places */
	bool *inside;               /* [values] computed by this step */
	LK_VEC(lc_place) places;
	LK_VEC(int) stores;         /* values that are stored for each element, in order */
	LK_VEC(int) results;        /* reductions and totals */
	lc_loops loops;
	bool ranged;                /* the outer loop goes from .. to */
	int cut_loop;               /* the loop that goes over a range of a dim, see lc_pass_cut; -1 */
	bool arrives;               /* of a ring: the reduce-scatter's last addition is in it */
} lc_pass;

/* Frees by lc_pass_close; memory beside the vectors is the context's. */
lk_status lc_pass_open(lc_mpi *c, const lc_step *s, lc_pass *out);
void lc_pass_close(lc_pass *pass);
/* Makes the dim of the space the first of a loop, which goes over a range of it. */
void lc_pass_cut(lc_pass *pass, int dim);
/* What an update, an output or a copy takes its elements from. */
int lc_pass_taken(const lc_program *p, int id);
/* Whether it gets a variable in the loops. */
bool lc_pass_stands_alone(const lc_pass *pass, int id);

#endif
