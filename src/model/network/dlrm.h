/* dlrm.h: recommendation models of the DLRM kind (Naumov et al., arXiv 1906.00091): a bottom MLP
 * over dense features, embedding tables with pooled lookups, their interaction, a top MLP that ends
 * in one click probability. The training step is a list of PyTorch operations, as
 * facebookresearch/dlrm issues them with table-batched embeddings.
 *
 *     {"model_type": "dlrm", "bottom_mlp": [512, 512, 64], "top_mlp": [1024, 1],
 *      "embedding_dim": 64, "tables": [{"count": 8, "rows": 1000000, "pooling": 100}],
 *      "interaction": "dot", "loss": "mse", "optimizer": "sgd"}
 *
 * bottom_mlp begins with the dense features; the input width of the top MLP follows from the
 * interaction. */
#ifndef LK_MODEL_DLRM_H
#define LK_MODEL_DLRM_H

#include "graph/graph.h"
#include "hw/hw.h"
#include "lockstep/error.h"

enum {
	LK_DLRM_LAYERS = 64,
	LK_DLRM_TABLES = 1 << 16,
	LK_DLRM_SAMPLES = 8192 /* default samples per device and step */
};

/* Dot products of all pairs of vectors; concatenated vectors; concatenated vectors through low-rank
 * cross layers (DCNv2, Wang et al., arXiv 2008.13535: x' = x0 * (V U x + b) + x). */
typedef enum lk_dlrm_interaction { LK_DLRM_DOT, LK_DLRM_CAT, LK_DLRM_CROSS } lk_dlrm_interaction;
typedef enum lk_dlrm_loss { LK_DLRM_MSE, LK_DLRM_BCE } lk_dlrm_loss;
typedef enum lk_dlrm_optimizer { LK_DLRM_SGD, LK_DLRM_ADAGRAD, LK_DLRM_ADAM } lk_dlrm_optimizer;

/* Tables of equal size. */
typedef struct lk_dlrm_tables {
	double count, rows, pooling; /* pooling: rows that a sample looks up and sums in each table */
} lk_dlrm_tables;

typedef struct lk_dlrm {
	char name[64];
	int bottom_widths, top_widths;
	double bottom[LK_DLRM_LAYERS]; /* [bottom_widths]: dense features, then each layer's outputs */
	double top[LK_DLRM_LAYERS];    /* [top_widths]: the interaction's output, then each layer's
	                                  outputs */
	double dim;                    /* embedding width of all tables */
	const lk_dlrm_tables *kinds;   /* [kind_count] */
	int kind_count;
	double tables;                    /* over all kinds */
	int interaction, loss, optimizer; /* lk_dlrm_interaction, lk_dlrm_loss, lk_dlrm_optimizer */
	bool self;                        /* dot products of a vector with itself count too */
	double cross_layers, cross_rank;  /* of LK_DLRM_CROSS */
	const char *note;                 /* a note for users of the preset; NULL: none */
} lk_dlrm;

/* Interacting vectors of a sample: one per table and the bottom MLP's. */
double lk_dlrm_vectors(const lk_dlrm *model);
/* Dot products of a sample that the top MLP reads. */
double lk_dlrm_pairs(const lk_dlrm *model);
double lk_dlrm_dense_params(const lk_dlrm *model); /* of both MLPs, with biases */
double lk_dlrm_params(const lk_dlrm *model);       /* likewise plus the tables */
/* Bytes of optimizer state: per table row (Adagrad: one number per row), and per MLP parameter. */
double lk_dlrm_row_state(const lk_dlrm *model);
double lk_dlrm_dense_state(const lk_dlrm *model);
/* Bytes on a rank with this many samples, tables excluded: weights, gradients, optimizer states and
 * activations; MLP elements take `element` bytes. Fills only these owners. */
void lk_dlrm_hold_dense(const lk_dlrm *model, double samples, double element,
                        double resident[LK_OWNERS]);
/* Bytes of a checkpoint: fp32 parameters and optimizer states. */
double lk_dlrm_saved_bytes(const lk_dlrm *model);
double lk_dlrm_lookups(const lk_dlrm *model); /* per sample in all tables */
/* Parameters used by a sample: the MLPs, and the rows that it looks up. */
double lk_dlrm_active_params(const lk_dlrm *model);
/* Rows of equal tables of which a batch touches as many as of the model's. */
double lk_dlrm_equal_rows(const lk_dlrm *model, double batch);
/* Floating-point operations of a training step: products of forward and backward. */
double lk_dlrm_flops(const lk_dlrm *model, double batch);

/* Host time of operations: seconds of a term, 1 to 5 as T1 to T5 of trace/lift/lift.h, for an
 * operation by name; finite for any name. */
typedef struct lk_host_times {
	double (*seconds)(const void *table, int term, const char *name);
	const void *table;
} lk_host_times;

#endif
