/* dlrm.h: recommendation models of the DLRM kind (Naumov et al., arXiv 1906.00091): a bottom MLP
 * over dense features, embedding tables with pooled lookups, their interaction, a top MLP that ends
 * in one click probability. The training step is a list of PyTorch operations, as
 * facebookresearch/dlrm issues them with table-batched embeddings.
 *
 *     {"model_type": "dlrm", "bottom_mlp": [512, 512, 64], "top_mlp": [1024, 1], "embedding_dim":
 *         64,
 *      "tables": [{"count": 8, "rows": 1000000, "pooling": 100}], "interaction": "dot", "loss":
 *          "mse",
 *      "optimizer": "sgd"}
 *
 * bottom_mlp begins with the dense features; the width that the top MLP takes follows from the
 * interaction. */
#ifndef LK_MODEL_DLRM_H
#define LK_MODEL_DLRM_H

#include "io/json.h"
#include "graph/graph.h"
#include "hw/hw.h"
#include "lockstep/error.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

enum {
	LK_DLRM_LAYERS = 64,
	LK_DLRM_TABLES = 1 << 16,
	LK_DLRM_SAMPLES = 8192 /* of a step for each device where nothing is said */
};

/* Dot products of all pairs of vectors; the vectors after one another; the same through low-rank
 * cross layers (DCNv2, Wang et al., arXiv 2008.13535: x' = x0 * (V U x + b) + x). */
typedef enum lk_dlrm_interaction { LK_DLRM_DOT, LK_DLRM_CAT, LK_DLRM_CROSS } lk_dlrm_interaction;
typedef enum lk_dlrm_loss { LK_DLRM_MSE, LK_DLRM_BCE } lk_dlrm_loss;
typedef enum lk_dlrm_optimizer { LK_DLRM_SGD, LK_DLRM_ADAGRAD, LK_DLRM_ADAM } lk_dlrm_optimizer;

/* Tables that are alike. */
typedef struct lk_dlrm_tables {
	double count, rows, pooling; /* pooling: rows that a sample looks up and sums in each table */
} lk_dlrm_tables;

typedef struct lk_dlrm {
	char name[64];
	int bottom_widths, top_widths;
	double bottom[LK_DLRM_LAYERS]; /* [bottom_widths]: dense features, then each layer's outputs */
	double top[LK_DLRM_LAYERS];    /* [top_widths]: what the interaction gives, then each layer's
	                                  outputs */
	double dim;                    /* of all tables */
	const lk_dlrm_tables *kinds;   /* [kind_count] */
	int kind_count;
	double tables;                    /* over all kinds */
	int interaction, loss, optimizer; /* lk_dlrm_interaction, lk_dlrm_loss, lk_dlrm_optimizer */
	bool self;                        /* dot products of a vector with itself count too */
	double cross_layers, cross_rank;  /* of LK_DLRM_CROSS */
	const char *note;                 /* what users of the preset should know; NULL: nothing */
} lk_dlrm;

/* A config; `file` names it in errors. Kinds of tables are owned by the arena. */
lk_status lk_dlrm_from_json(lk_arena *arena, const lk_value *root, const char *file, lk_dlrm *out,
                            lk_error *err);
lk_status lk_dlrm_read(lk_arena *arena, lk_stream *in, lk_dlrm *out, lk_error *err);
/* The same of a file of at most 16 MiB. */
lk_status lk_dlrm_file(lk_arena *arena, const char *path, lk_dlrm *out, lk_error *err);
/* The preset of a name ("DLRM_default", "dlrm-mlperf"): data/recommenders/NAME.json. */
lk_status lk_dlrm_preset(lk_arena *arena, const char *name, lk_dlrm *out, lk_error *err);
enum { LK_DLRM_NAME = 64 };
/* The name of the next preset from *index on, which moves after it; false: there is none. */
bool lk_dlrm_next(int *index, char name[LK_DLRM_NAME]);

/* A model by the name of a preset, or by its file: a path, or what ends in .json. */
bool lk_dlrm_is_file(const char *name);
lk_status lk_dlrm_named(lk_arena *arena, const char *name, lk_dlrm *out, lk_error *err);

/* Vectors of a sample that interact: one for each table and the bottom MLP's. */
double lk_dlrm_vectors(const lk_dlrm *model);
/* Dot products of a sample that the top MLP sees. */
double lk_dlrm_pairs(const lk_dlrm *model);
double lk_dlrm_dense_params(const lk_dlrm *model); /* of both MLPs, with biases */
double lk_dlrm_params(const lk_dlrm *model);       /* and of the tables */
/* Bytes of optimizer state: of a row of the tables (Adagrad: one number for the row), and of a
 * number of the MLPs. */
double lk_dlrm_row_state(const lk_dlrm *model);
double lk_dlrm_dense_state(const lk_dlrm *model);
/* Bytes of a rank with so many samples, tables apart: weights, gradients, optimizer states and
 * activations, where numbers of the MLPs take `element` bytes. Fills these owners alone. */
void lk_dlrm_hold_dense(const lk_dlrm *model, double samples, double element,
                        double resident[LK_OWNERS]);
/* Bytes of a checkpoint: parameters in fp32 and the optimizer's states. */
double lk_dlrm_saved_bytes(const lk_dlrm *model);
double lk_dlrm_lookups(const lk_dlrm *model); /* of a sample in all tables */
/* Parameters that a sample passes through: of the MLPs, and the rows that it looks up. */
double lk_dlrm_active_params(const lk_dlrm *model);
/* Rows of equal tables of which a batch touches as many as of the model's. */
double lk_dlrm_equal_rows(const lk_dlrm *model, double batch);
/* Floating-point operations of a training step: products of forward and backward. */
double lk_dlrm_flops(const lk_dlrm *model, double batch);

/* What the host spends on operations: seconds of a term, 1 to 5 as T1 to T5 of
 * trace/lift/lift.h, for an operation by its name; finite for any name. */
typedef struct lk_host_times {
	double (*seconds)(const void *table, int term, const char *name);
	const void *table;
} lk_host_times;

#endif
