/* sizes.h: bytes of weights, gradients and optimizer state on a rank of a job. */
#ifndef LK_MODEL_LAYOUT_SIZES_H
#define LK_MODEL_LAYOUT_SIZES_H

#include "model/layout/job.h"

/* Parameters that one rank of a stage holds before data-parallel sharding. */
typedef struct lk_rank_params {
	double dense;                          /* replicated over the data-parallel group (DP x CP) */
	double experts;                        /* replicated over the expert data-parallel group */
	double trained_dense, trained_experts; /* trained part; smaller with LoRA */
	double tensors; /* number of tensors, for convolution nets; else 0: not counted */
} lk_rank_params;

/* Trained tensors of equal size, which fill the gradient buckets. */
typedef struct lk_rank_tensors {
	double dense, experts; /* parameters of one tensor on a rank */
	int count;
} lk_rank_tensors;
enum {
	LK_LAYER_TENSORS = 8 /* most kinds of tensors in a layer */
};
/* List a layer's tensors in the order in which its backward pass completes their gradients; returns
 * the number of kinds. Norms and biases, which are small, count with the last matrix. `part` comes
 * from lk_sizes_layer, _embedding or _head; `layer` is -1 for the ends. */
int lk_sizes_tensors(const lk_job *job, int layer, lk_rank_params part,
                     lk_rank_tensors out[LK_LAYER_TENSORS]);

void lk_rank_params_add(lk_rank_params *sum, lk_rank_params part);

/* A product [in -> out] of a projection, or of several that read one tensor. */
typedef struct lk_reader {
	int part; /* LK_ADAPT_QUERY, ... */
	double out;
} lk_reader;
typedef struct lk_adapted {
	int products; /* that adapters are beside */
	double out;
} lk_adapted;
/* What the job adapts of products that read one tensor, joined where its software joins them. */
lk_adapted lk_job_adapted(const lk_job *job, const lk_reader *readers, int count);
/* Parameters of a layer's adapters on a rank: of what is dense and of its experts. */
void lk_adapters_params(const lk_job *job, int layer, double *dense, double *experts);

/* Parameters of one layer; of the ends of the network; of all that a stage holds. */
lk_rank_params lk_sizes_layer(const lk_job *job, int layer);
lk_rank_params lk_sizes_embedding(const lk_job *job);
lk_rank_params lk_sizes_head(const lk_job *job);
lk_rank_params lk_sizes_stage(const lk_job *job, int stage);

/* Bytes of a frozen parameter in 4 bits: NF4, one byte per 64 parameters, one fp32 number per 256
 * of those bytes (QLoRA, arXiv 2305.14314, section 3). */
#define LK_NF4_BYTES (.5 + 1 / 64. + 4 / (64 * 256.))
typedef struct lk_base_kind {
	double bytes;  /* of a parameter */
	double row;    /* further bytes of a row of a matrix */
	bool integers; /* the forward product is one of integers: its input is quantised, its result
	                  rescaled. Otherwise the matrix is widened first, as backward it always is */
	bool keeps;    /* what a product reads is kept, whether or not a gradient needs it */
	bool held;     /* until the loss of the next micro-batch */
	bool dense;    /* experts stay in 16 bits */
} lk_base_kind;
const lk_base_kind *lk_base_of(const lk_job *job);
/* Bytes of a frozen parameter in fewer bits, with its factors. */
double lk_base_bytes(const lk_job *job);
/* Elements of a layer's matrices on a rank, which a narrow base keeps in fewer bits: .dense and
 * .experts. */
lk_rank_params lk_sizes_layer_matrices(const lk_job *job, int layer);
/* Bytes of a layer's dense and expert weights as they travel and lie unsharded; `each`: bytes of a
 * parameter that is not kept in fewer bits. */
void lk_sizes_layer_bytes(const lk_job *job, int layer, double each, double *dense,
                          double *experts);

/* Parameters of the image encoder and its projector, on the stage that holds the embedding. */
lk_rank_params lk_sizes_tower(const lk_job *job);

/* Whether a stage holds the embedding; whether it holds the head. */
bool lk_sizes_has_embedding(const lk_job *job, int stage);
bool lk_sizes_has_head(const lk_job *job, int stage);

/* Expert-parallel ranks, and ranks that split an expert; 1 if not stated. */
static inline int lk_job_ep(const lk_job *job) {
	return job->ep > 0 ? job->ep : 1;
}
static inline int lk_job_etp(const lk_job *job) {
	return job->etp > 0 ? job->etp : 1;
}

/* Ranks over which dense parameters, or experts, are replicated (and sharded by ZeRO). */
int lk_sizes_dp_ranks(const lk_job *job);
int lk_sizes_edp_ranks(const lk_job *job);

/* Ranks that share dense parameters, and experts, under ZeRO; 1 and 1 without sharding. */
void lk_sizes_shards(const lk_job *job, double *dense, double *experts);

/* Bytes per parameter: stored weight; gradient as kept; optimizer state with master copy, for
 * parameters outside the matrices that the optimizer works on. */
double lk_sizes_weight_bytes(const lk_job *job);
double lk_sizes_gradient_bytes(const lk_job *job);
double lk_sizes_state_bytes(const lk_job *job);
/* Bytes per parameter of a gradient in transit. */
double lk_sizes_wire_bytes(const lk_job *job);
/* Whether ZeRO-3 shards and gathers the fp32 master copy (FSDP); DeepSpeed keeps 16-bit weights in
 * addition. */
bool lk_job_shards_master(const lk_job *job);
/* resident.c: stored bytes per parameter of a sharded weight, and of its gradient: FSDP's shard of
 * both is the fp32 master copy. Frozen weights have 16 bits. */
double lk_sizes_shard_bytes(const lk_job *job);
double lk_sizes_shard_gradient_bytes(const lk_job *job);
/* Whether gradients leave for the host as they are reduced: FSDP's with the parameters
 * (CPUOffloadPolicy; _fsdp_collectives.py, foreach_reduce), DeepSpeed's with the optimizer from
 * ZeRO-2 on (stage_1_and_2.py, copy_grads_in_partition; stage3.py, partition_grads). */
bool lk_job_gradients_on_host(const lk_job *job);

/* ---- optimizers.c, optimizer_matrices.c */

typedef struct lk_optimizer_kind {
	const char *name;
	double moments;     /* values per parameter, in --state-dtype */
	double bytes;       /* further bytes per parameter */
	double of_matrices; /* moments of matrix parameters, for optimizers that work on matrices */
	double update;      /* bytes of an element that enters the products and comes back; 0: the step
	                       is one pass over the state */
	double split;       /* bytes that 16-bit weights lack of the master copy, stored instead of it;
	                       0: the master copy is kept in fp32 */
	bool hidden;        /* works only on matrices of layers that are not bundles */
} lk_optimizer_kind;
const lk_optimizer_kind *lk_optimizer_of(const lk_job *job);
/* Whether the optimizer's step has matrix products: Muon, SOAP, Shampoo. */
bool lk_optimizer_has_products(const lk_job *job);

/* Matrices of one shape on a rank of a stage. */
typedef struct lk_rank_matrix {
	double out, in; /* shape as the optimizer works on it */
	double count;   /* matrices of which the rank holds a part or all */
	double parts;   /* tensor-parallel ranks that share each matrix, which is then worked on whole;
	                   1 if the rank holds all that it works on */
	double dealt;   /* matrices assigned to the busiest data-parallel rank */
	lk_cut cut;
	bool expert;
} lk_rank_matrix;
enum {
	LK_RANK_MATRICES = 64 /* most shapes of a stage */
};
typedef struct lk_rank_matrices {
	lk_rank_matrix at[LK_RANK_MATRICES];
	int count;
} lk_rank_matrices;
/* The matrices of a stage, largest first; empty for other optimizers. */
void lk_optimizer_matrices(const lk_job *job, int stage, lk_rank_matrices *out);
/* SOAP: whether this side of a matrix is rotated. */
bool lk_optimizer_turns(const lk_job *job, double side);

/* State of a stage's matrices before sharding: dense parameters [0], experts [1]. */
typedef struct lk_matrix_state {
	double elements[2];
	double moments[2];    /* bytes of moments in excess of those of other parameters */
	double statistics[2]; /* bytes proportional to the sides of matrices */
} lk_matrix_state;
lk_matrix_state lk_optimizer_state(const lk_job *job, int stage);

/* Bytes of a stage's parameters that ZeRO-1 gathers after the optimizer; `each`: bytes of a
 * parameter that is not kept in 8 bits. */
void lk_sizes_gathered(const lk_job *job, int stage, double each, double *dense, double *experts);
/* Bytes of a checkpoint of the whole job: every trained parameter once, with its optimizer state as
 * kept. */
double lk_sizes_checkpoint(const lk_job *job);

/* What stays on the device during the whole step, by owner, after sharding. */
typedef struct lk_resident {
	double weights, gradients, optimizer;
} lk_resident;
lk_resident lk_sizes_resident(const lk_job *job, int stage);

#endif
