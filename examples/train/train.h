/* train.h: a small training program over MPI, for `lockstep record`: data, tensor and pipeline
 * parallel.
 *
 * Ranks: tensor parallel fastest, then data parallel, then pipeline. The same global batch gives
 * the same loss in every layout, to rounding. */
#ifndef TRAIN_H
#define TRAIN_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLASSES = 16 };

typedef struct layout {
	int dp, tp, pp; /* sizes */
	int dp_rank, tp_rank, pp_rank;
	int before, after; /* world ranks of the neighbouring stages; MPI_PROC_NULL */
	MPI_Comm dp_comm, tp_comm;
} layout;

typedef struct shape {
	bool attention; /* transformer blocks; else MLP alone */
	int layers, dim, hidden, heads, seq;
} shape;

/* ---- data.c: a file of records that take work to decode ---- */

typedef struct dataset dataset;
void dataset_write(const char *path, int count, const shape *s, unsigned seed);
dataset *dataset_open(const char *path, const shape *s, int decode_passes);
/* Sample `index` (modulo their number): seq * dim numbers; returns its class. */
int dataset_read(dataset *d, int64_t index, float *out);
void dataset_close(dataset *d);

/* ---- model.c: a stage of the network ---- */

typedef struct model model;
model *model_new(const shape *s, const layout *l, int samples, int micro_batches);
void model_free(model *m);
/* One micro-batch through this stage; `x` is seq * samples rows of dim. The result is the model's
 * until the next call. */
const float *model_forward(model *m, int micro, const float *x);
/* The last stage: mean loss over the batch, whose gradient is what model_backward begins with. */
double model_loss(model *m, int micro, const int *classes, int batch);
/* Gradient of the stage's output (NULL on the last stage) to that of its input. `done(context,
 * block)` is called after the gradients of a block are complete for this micro-batch. */
const float *model_backward(model *m, int micro, const float *dy, void (*done)(void *, int),
                            void *context);
int model_blocks(
	const model *m); /* gradient buckets: the blocks and, on the last stage, the head */
float *model_gradients(model *m, int block, int *count);
void model_step(model *m, float rate); /* SGD; gradients become zero */
int model_save(const model *m, const char *path);

_Noreturn void die(const char *what, const char *about);

#endif
