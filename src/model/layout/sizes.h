/* sizes.h: how many bytes of weights, gradients and optimizer state a rank holds. */
#ifndef LK_MODEL_SIZES_H
#define LK_MODEL_SIZES_H

#include "model/layout/job.h"

/* Parameters that one rank of a stage holds before data-parallel sharding. */
typedef struct lk_rank_params {
	double dense;      /* replicated over the data-parallel group (DP x CP) */
	double experts;    /* replicated over the expert data-parallel group */
	double trained_dense, trained_experts; /* of them; fewer with LoRA */
	double tensors;    /* that they are in, of convolution nets; else 0: not counted */
} lk_rank_params;

/* Of one layer; of the ends of the network; of all that a stage holds. */
lk_rank_params lk_sizes_layer(const lk_job *job, int layer);
lk_rank_params lk_sizes_embedding(const lk_job *job);
lk_rank_params lk_sizes_head(const lk_job *job);
lk_rank_params lk_sizes_stage(const lk_job *job, int stage);

/* Whether a stage holds the embedding, the head. */
bool lk_sizes_has_embedding(const lk_job *job, int stage);
bool lk_sizes_has_head(const lk_job *job, int stage);

/* Ranks over which dense parameters, and experts, are replicated (and sharded by ZeRO). */
int lk_sizes_dp_ranks(const lk_job *job);
int lk_sizes_edp_ranks(const lk_job *job);

/* Bytes per parameter: stored weight, gradient as kept, optimizer state with master copy. */
double lk_sizes_weight_bytes(const lk_job *job);
double lk_sizes_gradient_bytes(const lk_job *job);
double lk_sizes_state_bytes(const lk_job *job);
/* Bytes per parameter of a gradient on the wire. */
double lk_sizes_wire_bytes(const lk_job *job);

/* What stays on the device during the whole step, by owner; sharding applied. */
typedef struct lk_resident {
	double weights, gradients, optimizer;
} lk_resident;
lk_resident lk_sizes_resident(const lk_job *job, int stage);

#endif
