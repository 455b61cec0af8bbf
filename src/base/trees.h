/* trees.h: boosted regression trees: a function of a few numbers as the sum of many small decision
 * trees, each fitted to the residuals of the ones before it (Friedman, Annals of Statistics 29,
 * 2001). Numbers are sorted into at most 64 bins beforehand (histograms), and a tree sees a sample
 * of the rows. Deterministic: equal input gives equal output. */
#ifndef LK_BASE_TREES_H
#define LK_BASE_TREES_H

#include <stddef.h>
#include <stdint.h>
#include "lockstep/error.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

enum {
	LK_TREE_FEATURES = 64,
	LK_TREE_EDGES = 63,
	LK_TREE_DEPTH = 6,
	LK_TREE_LEAVES = 1 << LK_TREE_DEPTH
};

/* One complete tree: inner node i has the children 2i + 1 (feature <= edge) and 2i + 2. A node
 * without a split has an edge after the last one. */
typedef struct lk_tree {
	uint8_t feature[LK_TREE_LEAVES - 1], edge[LK_TREE_LEAVES - 1];
	int16_t leaf[LK_TREE_LEAVES]; /* in LK_TREE_UNIT */
} lk_tree;

#define LK_TREE_UNIT 5e-4

typedef struct lk_trees {
	int features, count;
	int edges[LK_TREE_FEATURES]; /* their number; the bin of x is the number of edges below it */
	float edge[LK_TREE_FEATURES][LK_TREE_EDGES]; /* ascending */
	lk_tree *tree;                               /* [count] */
} lk_trees;

typedef struct lk_trees_options {
	int count;     /* trees */
	double rate;   /* share of a tree's step taken by the first tree; falls to 0.3 of it */
	double sample; /* share of the rows per tree */
	int rows;      /* fewest rows of a leaf */
	double limit;  /* residuals are clipped to this: between squares and magnitudes; falls to a
	                  quarter */
} lk_trees_options;

/* Fit `target[rows]` by x[rows * features], row by row; memory of the trees from the arena. */
lk_status lk_trees_fit(lk_arena *arena, const float *x, const float *target, size_t rows,
                       int features, const lk_trees_options *options, lk_trees *out, lk_error *err);

/* The sum of the trees at x[features]. */
double lk_trees_at(const lk_trees *trees, const float *x);

/* Write as one line of text, and read back; `where` names the place in errors. NULL when memory
 * runs out. */
const char *lk_trees_text(lk_arena *arena, const lk_trees *trees);
lk_status lk_trees_read(lk_arena *arena, const char *text, const char *where, lk_trees *out,
                        lk_error *err);

#endif
