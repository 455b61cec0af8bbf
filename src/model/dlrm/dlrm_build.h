/* dlrm_build.h: steps of recommendation models as graphs. */
#ifndef LK_MODEL_DLRM_BUILD_H
#define LK_MODEL_DLRM_BUILD_H

#include "graph/graph.h"
#include "model/network/dlrm.h"

/* What a hybrid-parallel job is: tables dealt out over the ranks, MLPs copied. */
typedef struct lk_dlrm_job {
	double batch; /* over all ranks */
	int ranks;
	lk_dtype dtype; /* of products, sums and gradients; tables and states are fp32 */
	int node_ranks; /* of them on a node; 0: all */
} lk_dlrm_job;

/* Rows that every rank keeps (dlrm_copies.c), and the shares of sums and of lookups that still
 * belong to one rank each. */
typedef struct lk_dlrm_copied {
	double rows, sums, lookups;
	double reduced; /* of the rows, those whose gradients travel in a step */
} lk_dlrm_copied;
lk_dlrm_copied lk_dlrm_copies(const lk_dlrm *model, const lk_dlrm_job *job);
/* Lookups of a row in a batch from which on it is copied, of models with one lookup a table. */
double lk_dlrm_threshold(const lk_dlrm_job *job);

/* One training step of a rank, all alike (tables evenly dealt out): exchange of indices, lookups of
 * all samples in the rank's tables, exchange of sums beside the bottom MLP, interaction, top MLP,
 * and the way back, with gradients of the MLPs summed after it. Bytes that the rank holds are in
 * the program's `resident`, what the step takes alongside them in `alloc`. */
lk_status lk_dlrm_hybrid(const lk_dlrm *model, const lk_dlrm_job *job, lk_graph **out,
                         lk_error *err);

/* What a placement of the tables makes of a step: seconds of a rank's lookups, in its own tables
 * and in copies, and of what the placement exchanges. */
typedef struct lk_dlrm_placed {
	int ranks;
	const double *forward_s, *backward_s; /* [ranks]; 0: the rank has no table */
	double index_s, exchange_s;           /* all-to-all of indices; of sums, in one direction */
	double copies_s; /* all-reduce of the gradients of tables that every rank has; 0: none has */
} lk_dlrm_placed;

/* One training step of a batch over all ranks, a program for each: operations of the host thread,
 * kernels after their launches, exchanges on separate streams; a lifted trace's form
 * (lk_graph.traced). `host` NULL: kernels alone, replayed from a CUDA graph. Operations whose time
 * the placement decides state it (measured_ps). On one rank the step begins with an idle device and
 * ends when it is idle again: the training script waits for the device before it reads the clock.
 * `resident` of a program holds all but the tables. */
lk_status lk_dlrm_step(const lk_dlrm *model, double batch, lk_dtype dtype,
                       const lk_dlrm_placed *placed, const lk_host_times *host, lk_graph **out,
                       lk_error *err);

#endif
