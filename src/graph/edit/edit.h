/* edit.h: changes of a step graph, each a function graph -> graph: more copies of its ranks, larger
 * batches, other number formats, other buckets, operations faster or gone. What a change is worth
 * is asked with whatif/whatif.h.
 *
 * A graph under edit keeps, beside every operation, what was known of its time before: measured in
 * a trace, and what the models said of the same operation then. Where an edit changes shapes,
 * whoever prices the result scales the measured time by the ratio of the models
 * (whatif/whatif_price.c). */
#ifndef LK_GRAPH_EDIT_H
#define LK_GRAPH_EDIT_H

#include "graph/graph.h"

/* What was known of an operation. Operations that were made of several have the sums. */
typedef struct lk_edit_op {
	double measured_ps; /* in the trace; 0 not measured */
	double modelled_ps; /* what the models said of it as it was then; 0 they know nothing of it */
	double factor;      /* requested: on whatever its time becomes */
} lk_edit_op;

typedef struct lk_edit {
	lk_graph *graph;       /* its own */
	LK_VEC(lk_edit_op) op; /* [graph->ops.count] */
	uint32_t changed;      /* operations that the last edit changed */
} lk_edit;

/* A copy of the graph, ready for edits; the operations' measured_ps are moved to `op`, so that
 * models answer for them.
 */
lk_status lk_edit_begin(const lk_graph *graph, lk_edit *out, lk_error *err);
/* The graph itself, which belongs to the edit from then on, also on errors. */
lk_status lk_edit_begin_own(lk_graph *graph, lk_edit *out, lk_error *err);
void lk_edit_free(lk_edit *edit);
lk_status lk_graph_copy(const lk_graph *graph, lk_graph **out, lk_error *err);

/* Does the name match the pattern? '*' stands for any text, '?' for one character. */
bool lk_glob(const char *pattern, const char *name);

/* Operations whose name, or whose kind's name, matches the pattern take `factor` times as long. */
void lk_edit_factor(lk_edit *edit, const char *pattern, double factor);
/* They are not there: what waited for them waits for what they waited for. */
void lk_edit_remove(lk_edit *edit, const char *pattern);
/* Host work takes `factor` times as long; waiting for the device stays what it is. */
void lk_edit_host(lk_edit *edit, double factor);
/* Reading and preparing input: by the names that data loaders have. */
void lk_edit_data_loading(lk_edit *edit, double factor);

/* A batch `factor` times as large on every rank, as many steps: tokens per product, bytes of
 * activations and of their communication grow; gradients, weights and the optimizer do not. */
void lk_edit_batch(lk_edit *edit, double factor, const bool *mask);
/* Products in another format; tensors that are stored in 16 or 32 bits follow, 8-bit formats leave
 * them in 16 and convert. */
lk_status lk_edit_dtype(lk_edit *edit, lk_dtype dtype, lk_error *err);

/* Which teams are data parallel, from what they do: they reduce after the forward pass and never
 * in it. Where phases say nothing of any team, those of all ranks. Fills mask[graph->teams.count].
 */
void lk_edit_data_parallel(const lk_graph *graph, bool *mask);
/* So many ranks in all (data parallelism grows or shrinks, every rank's own work stays): an error
 * where that is no whole number of copies, or where no group reduces gradients. `mask` says which
 * teams are data parallel; NULL: as above. */
lk_status lk_edit_ranks(lk_edit *edit, uint32_t ranks, const bool *mask, lk_error *err);

/* Reductions of gradients in buckets of about so many bytes: small ones are merged in order, each
 * ready when its last part was; large ones are split evenly. */
lk_status lk_edit_buckets(lk_edit *edit, double bytes, const bool *mask, lk_error *err);
/* Collectives beside compute, or not. Off: every collective waits for the compute issued before it,
 * and compute for it. On: reductions of gradients hold nothing up but the optimizer; in a lifted
 * trace those after the backward pass start when their share of it has run. */
lk_status lk_edit_overlap(lk_edit *edit, bool on, const bool *mask, lk_error *err);
/* All updates of a program's optimizer phase as one kernel: their traffic stays, their launches go.
 */
lk_status lk_edit_fuse_optimizer(lk_edit *edit, lk_error *err);
/* The end of a predicted step, from gradients to new weights, replaced by `update`: the graph of a
 * program of lockstep compile, of one stage, whose axes are dp (or dp_o and dp_i) and, for a norm
 * over the model, one more. LK_ERR_INPUT with the reason where they do not fit: other numbers of
 * ranks or parameters, optimizers on matrices or on the host, gradients that are reduced twice. */
lk_status lk_edit_replace_update(lk_edit *edit, const lk_graph *update, lk_error *err);

/* ---- for the files of edits ---- */

/* Is it a reduction of gradients: of a team of the mask, or of a data-parallel group after the
 * forward pass? */
bool lk_edit_reduces_gradients(const lk_graph *graph, uint32_t op, const bool *mask);
bool lk_edit_is_data_parallel(const lk_graph *graph, uint32_t op, const bool *mask);
/* Is the host doing nothing but waiting for the device? */
bool lk_edit_waits(const lk_graph *graph, uint32_t op);
/* Time of a lifted trace ahead of a kernel on its stream in which nothing that is known runs. It
 * goes with the kernel. */
bool lk_edit_is_gap(const lk_graph *graph, uint32_t op);

/* A block written anew. `write` is called for every block and adds its operations; `from` and
 * `known` are those before.
 */
typedef struct lk_rewrite {
	const lk_graph *from;
	const lk_edit_op *known;
	lk_graph *to;
	lk_edit *edit;   /* gets what is known of the new operations */
	uint32_t *place; /* of the block's operations in the new block; UINT32_MAX: not there yet */
	uint32_t *deps;  /* room for dependencies */
	const bool *mask;
	void *context;
} lk_rewrite;
typedef void lk_rewriter(lk_rewrite *r, const lk_block *block);

lk_status lk_edit_rewrite(lk_edit *edit, lk_rewriter *write, const bool *mask, void *context,
                          lk_error *err);
/* Adds an operation whose deps are places of the new block. */
uint32_t lk_rewrite_put(lk_rewrite *rewrite, const lk_op *op, const lk_edit_op *known);
/* Operation `op` with its dependencies as places of the new block. */
lk_op lk_rewrite_op(lk_rewrite *rewrite, const lk_block *block, uint32_t op);
void lk_rewrite_copy(lk_rewrite *rewrite, const lk_block *block, uint32_t op);

#endif
