/* sizes.h: numbers for what a program leaves open: ranks of each axis, dims, the tensors of lists, groups' indices.
 *
 * Slices: of n elements over P ranks, the first n % P ranks hold one more than the others, so that every size can be
 * sliced over every number of ranks. The interpreter and all targets cut by lc_slice_begin and nothing else.
 */
#ifndef LK_LANG_SIZES_H
#define LK_LANG_SIZES_H

#include "lang/types/program.h"

typedef struct lc_index {
	const char *name;          /* as in "at pp=k" */
	int64_t value;
} lc_index;

typedef struct lc_sizes {
	int64_t symbol[LC_SYMBOLS];/* axes, then named dims; a list's dim: 0 */
	int64_t *items;            /* [lists] how many tensors */
	int64_t *each[LC_DIMS];    /* a list's dim: [items of its list] */
	LK_VEC(lc_index) indices;  /* 0 where not given */
	lk_arena arena;
} lc_sizes;

/* Where the slice of rank r begins; r == ranks: n. */
static inline int64_t lc_slice_begin(int64_t n, int64_t ranks, int64_t r) {
	int64_t more = n % ranks;
	return n / ranks * r + (r < more ? r : more);
}

enum {
	LC_RANKS = 4096,           /* of a mesh that is interpreted or run */
	LC_AXIS_STEM = 40,         /* bytes of an axis' name that the names of its parts begin with, before "_" */
	LC_ITEMS = 65536,          /* tensors of a list */
	LC_EXTENTS = 1 << 24,      /* extents that sizes are checked for: values or dims, times the tensors of a list */
};

/* text: "dp=4,N=1000,params.N=3:5:7": axes, dims, indices by name; a list's dim has one number for each of its tensors,
 * or "@FILE" with a number per line (blanks and # comments allowed). NULL or "": all defaults, small ones: every axis
 * its fixed size or `ranks` (the last axis; the others 1, or what sends and roots need), dims such that all conditions
 * hold. Refused: unknown names (with the nearest), numbers < 1 or too large, lists of unequal length, conditions that
 * do not hold, groups beyond the axis, an axis of fixed size given another. *out must be freed in every case. */
lk_status lc_sizes_read(const lc_program *p, const char *text, int64_t ranks, lc_sizes *out, lk_error *err);
/* The same with what the text leaves out drawn by seed: dims that hold the conditions, small, mostly not divisible by
 * anything. axes: ranks where the text does not say; 0: as above, of 1 rank. */
lk_status lc_sizes_draw(const lc_program *p, const char *text, const int64_t axes[LC_AXES], uint64_t seed,
						lc_sizes *out, lk_error *err);
void lc_sizes_free(lc_sizes *s);
/* Whether they fit the program: conditions hold, all extents are numbers >= 1, groups exist. Sizes of one program serve
 * those rewritten from it, unless the mesh is refined. */
lk_status lc_sizes_check(const lc_program *p, const lc_sizes *s, lk_error *err);


/* The part of it that is about axes and indices alone. */
lk_status lc_sizes_check_mesh(const lc_program *p, const lc_sizes *s, lk_error *err);
/* The sizes of p for a program that was rewritten from it, q: the same, or, where q has several axes in place of one of
 * p (groups, and ranks of a group; "dp" has become "dp_o" and "dp_i"), that axis' ranks divided among them. Refused:
 * ranks that do not divide. *out must be freed in every case. */
lk_status lc_sizes_refine(const lc_program *p, const lc_sizes *s, const lc_program *q, lc_sizes *out, lk_error *err);

int64_t lc_ranks(const lc_program *p, const lc_sizes *s);     /* of the whole mesh */
/* Ranks count with the last axis fastest. */
int64_t lc_coordinate(const lc_program *p, const lc_sizes *s, int64_t rank, int axis);
int64_t lc_items(const lc_program *p, const lc_sizes *s, const lc_node *n); /* 1 for a value of no list */
/* The symbols' values for one tensor of a list. */
void lc_item_symbols(const lc_program *p, const lc_sizes *s, int64_t item, int64_t out[LC_SYMBOLS]);
/* Extents of the whole tensor. `item`: which of its list. */
lk_status lc_whole_shape(const lc_program *p, const lc_node *n, const lc_sizes *s, int64_t item, int64_t out[LC_RANK],
						 lk_error *err);
/* What `rank` holds: first element and extent along each dim; extents may be 0. False: it holds nothing, for the value
 * lives on another group or root. */
bool lc_local_part(const lc_program *p, const lc_node *n, const lc_sizes *s, const int64_t whole[LC_RANK], int64_t rank,
				   int64_t begin[LC_RANK], int64_t extent[LC_RANK]);
int64_t lc_group_place(const lc_program *p, const lc_sizes *s, const lc_group *g); /* the coordinate that it names */

#endif
