/* edit.h: changes of a step graph, each a function graph -> graph: more copies of its ranks, larger
 * batches, other number formats, other buckets, faster or removed operations. whatif/whatif.h
 * reports what a change gains.
 *
 * A graph under edit keeps, for every operation, what was known of its time before: the time
 * measured in a trace, and the models' time for the same operation. If an edit changes shapes,
 * pricing scales the measured time by the ratio of the models (whatif/whatif_price.c). */
#ifndef LK_GRAPH_EDIT_H
#define LK_GRAPH_EDIT_H

#include "graph/conversion.h"
#include "graph/graph.h"

/* What was known of an operation. A merged operation has the sums of its parts. */
typedef struct lk_edit_op {
	double measured_ps; /* in the trace; 0: not measured */
	double modelled_ps; /* the models' time for the original operation; 0: unknown to them */
	double factor;      /* requested factor on its new time */
} lk_edit_op;

typedef struct lk_edit {
	lk_graph *graph;       /* owned */
	LK_VEC(lk_edit_op) op; /* [graph->ops.count] */
	uint32_t changed;      /* operations changed by the last edit */
} lk_edit;

/* Copy the graph for edits; the operations' measured_ps move to `op`, so that the models price
 * them. */
lk_status lk_edit_begin(const lk_graph *graph, lk_edit *out, lk_error *err);
/* Edit the graph itself; the edit owns it from then on, also on errors. */
lk_status lk_edit_begin_own(lk_graph *graph, lk_edit *out, lk_error *err);
void lk_edit_free(lk_edit *edit);
lk_status lk_graph_copy(const lk_graph *graph, lk_graph **out, lk_error *err);

/* Whether the name matches the pattern: '*' stands for any text, '?' for one character. */
bool lk_glob(const char *pattern, const char *name);

/* Operations whose name, or whose kind's name, matches the pattern take `factor` times as long. */
void lk_edit_factor(lk_edit *edit, const char *pattern, double factor);
/* Remove the matching operations: what waited for them waits for what they waited for. */
void lk_edit_remove(lk_edit *edit, const char *pattern);
/* Host work takes `factor` times as long; waiting for the device is unchanged. */
void lk_edit_host(lk_edit *edit, double factor);
/* Reading and preparing input, recognised by the names of data loaders, takes `factor` times as
 * long. */
void lk_edit_data_loading(lk_edit *edit, double factor);

/* A batch `factor` times as large on every rank, the same number of steps: tokens per product,
 * bytes of activations and of their communication grow; gradients, weights and the optimizer do
 * not. */
void lk_edit_batch(lk_edit *edit, double factor, const bool *mask);
/* Run products in another format; tensors stored in 16 or 32 bits follow; 8-bit formats leave them
 * in 16 bits and convert as the software does. */
lk_status lk_edit_dtype(lk_edit *edit, lk_dtype dtype, const lk_conversion *how, lk_error *err);

/* Find the data-parallel teams by their activity: they reduce after the forward pass and never in
 * it. If phases do not distinguish any team, those of all ranks. Fills mask[graph->teams.count]. */
void lk_edit_data_parallel(const lk_graph *graph, bool *mask);
/* Set the total number of ranks (data parallelism grows or shrinks, every rank's own work is
 * unchanged): an error if that is no whole number of copies, or if no group reduces gradients.
 * `mask`: the data-parallel teams; NULL: as above. */
lk_status lk_edit_ranks(lk_edit *edit, uint32_t ranks, const bool *mask, lk_error *err);

/* Reduce gradients in buckets of about `bytes` bytes: small ones are merged in order, each ready
 * with its last part; large ones are split evenly. */
lk_status lk_edit_buckets(lk_edit *edit, double bytes, const bool *mask, lk_error *err);
/* Overlap collectives with compute, or not. Off: every collective waits for the compute issued
 * before it, and compute for it. On: reductions of gradients block nothing but the optimizer; in a
 * lifted trace those after the backward pass start when their share of it has run. */
lk_status lk_edit_overlap(lk_edit *edit, bool on, const bool *mask, lk_error *err);
/* Fuse all updates of a program's optimizer phase into one kernel: their traffic stays, their
 * launches go. */
lk_status lk_edit_fuse_optimizer(lk_edit *edit, lk_error *err);
/* Replace the end of a predicted step, from gradients to new weights, by `update`: the one-stage
 * graph of a lockstep compile program whose axes are dp (or dp_o and dp_i) and, for a norm over the
 * model, one more. LK_ERR_INPUT with the reason if they do not fit: other numbers of ranks or
 * parameters, optimizers on matrices or on the host, gradients that are reduced twice. */
lk_status lk_edit_replace_update(lk_edit *edit, const lk_graph *update, lk_error *err);

/* ---- for the files of edits ---- */

/* Whether an operation reduces gradients: for a team of the mask, or a data-parallel group after
 * the forward pass. */
bool lk_edit_reduces_gradients(const lk_graph *graph, uint32_t op, const bool *mask);
bool lk_edit_is_data_parallel(const lk_graph *graph, uint32_t op, const bool *mask);
/* Whether the host only waits for the device. */
bool lk_edit_waits(const lk_graph *graph, uint32_t op);
/* Time of a lifted trace before a kernel on its stream in which nothing known runs. It is removed
 * with the kernel. */
bool lk_edit_is_gap(const lk_graph *graph, uint32_t op);

/* A block being rewritten. `write` is called for every block and adds its operations; `from` and
 * `known` are the old ones. */
typedef struct lk_rewrite {
	const lk_graph *from;
	const lk_edit_op *known;
	lk_graph *to;
	lk_edit *edit;   /* receives what is known of the new operations */
	uint32_t *place; /* operations' places in the new block; UINT32_MAX: not there yet */
	uint32_t *deps;  /* space for dependencies */
	const bool *mask;
	void *context;
} lk_rewrite;
typedef void lk_rewriter(lk_rewrite *r, const lk_block *block);

lk_status lk_edit_rewrite(lk_edit *edit, lk_rewriter *write, const bool *mask, void *context,
                          lk_error *err);
/* Add an operation whose deps are places of the new block. */
uint32_t lk_rewrite_put(lk_rewrite *rewrite, const lk_op *op, const lk_edit_op *known);
/* Operation `op` with its dependencies as places of the new block. */
lk_op lk_rewrite_op(lk_rewrite *rewrite, const lk_block *block, uint32_t op);
void lk_rewrite_copy(lk_rewrite *rewrite, const lk_block *block, uint32_t op);

#endif
