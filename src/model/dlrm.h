/* dlrm.h: recommendation models of the DLRM kind (Naumov et al., arXiv 1906.00091): a bottom MLP over dense features,
 * embedding tables with pooled lookups, their interaction, a top MLP that ends in one click probability. The training
 * step is a list of PyTorch operations, as facebookresearch/dlrm issues them with table-batched embeddings.
 *
 *     {"model_type": "dlrm", "bottom_mlp": [512, 512, 64], "top_mlp": [1024, 1], "embedding_dim": 64,
 *      "tables": [{"count": 8, "rows": 1000000, "pooling": 100}], "interaction": "dot", "loss": "mse",
 *      "optimizer": "sgd"}
 *
 * bottom_mlp begins with the dense features; the width that the top MLP takes follows from the interaction.
 */
#ifndef LK_MODEL_DLRM_H
#define LK_MODEL_DLRM_H

#include "base/arena.h"
#include "base/json.h"
#include "graph/graph.h"

enum { LK_DLRM_LAYERS = 64, LK_DLRM_TABLES = 1 << 16 };

typedef enum lk_dlrm_interaction { LK_DLRM_DOT, LK_DLRM_CAT } lk_dlrm_interaction;
typedef enum lk_dlrm_loss { LK_DLRM_MSE, LK_DLRM_BCE } lk_dlrm_loss;
typedef enum lk_dlrm_optimizer { LK_DLRM_SGD, LK_DLRM_ADAGRAD } lk_dlrm_optimizer;

/* Tables that are alike. */
typedef struct lk_dlrm_tables {
	double count, rows, pooling; /* pooling: rows that a sample looks up and sums in each table */
} lk_dlrm_tables;

typedef struct lk_dlrm {
	char name[64];
	int bottom_widths, top_widths;
	double bottom[LK_DLRM_LAYERS];      /* [bottom_widths]: dense features, then each layer's outputs */
	double top[LK_DLRM_LAYERS];         /* [top_widths]: what the interaction gives, then each layer's outputs */
	double dim;                         /* of all tables */
	const lk_dlrm_tables *kinds;        /* [kind_count] */
	int kind_count;
	double tables;                      /* over all kinds */
	int interaction, loss, optimizer;   /* lk_dlrm_interaction, lk_dlrm_loss, lk_dlrm_optimizer */
	bool self;                          /* dot products of a vector with itself count too */
} lk_dlrm;

/* A config; `file` names it in errors. Kinds of tables are owned by the arena. */
lk_status lk_dlrm_from_json(lk_arena *arena, const lk_value *root, const char *file, lk_dlrm *out, lk_error *err);
lk_status lk_dlrm_read(lk_arena *arena, lk_stream *in, lk_dlrm *out, lk_error *err);
/* The same of a file of at most 16 MiB. */
lk_status lk_dlrm_file(lk_arena *arena, const char *path, lk_dlrm *out, lk_error *err);
/* The preset of a name ("DLRM_default", "dlrm-mlperf"): data/recommenders/NAME.json. */
lk_status lk_dlrm_preset(lk_arena *arena, const char *name, lk_dlrm *out, lk_error *err);

/* Vectors of a sample that interact: one for each table and the bottom MLP's. */
double lk_dlrm_vectors(const lk_dlrm *model);
/* Dot products of a sample that the top MLP sees. */
double lk_dlrm_pairs(const lk_dlrm *model);
double lk_dlrm_dense_params(const lk_dlrm *model);  /* of both MLPs, with biases */
double lk_dlrm_params(const lk_dlrm *model);        /* and of the tables */
/* Floating-point operations of a training step: products of forward and backward. */
double lk_dlrm_flops(const lk_dlrm *model, double batch);

/* What the host spends on operations: seconds of a term, 1 to 5 as T1 to T5 of trace/overheads.h, for an operation by its
 * name; finite for any name. */
typedef struct lk_host_times {
	double (*seconds)(const void *table, int term, const char *name);
	const void *table;
} lk_host_times;

/* One training step on one device: operations of the host thread, kernels behind their launches, all kernels on one
 * stream; a lifted trace's form (lk_graph.traced). The step begins with an idle device and ends when it is idle again: the
 * training script waits for the device before it reads the clock. */
lk_status lk_dlrm_step(const lk_dlrm *model, double batch, const lk_host_times *host, lk_graph **out, lk_error *err);

#endif
