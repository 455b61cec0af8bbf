/* train.c: trains a stack of two-matrix blocks over CUDA and NCCL: each block is split over the
 * tensor-parallel group (columns, then rows: one all-reduce forward, one backward), its gradients
 * are added over the data-parallel group in buckets, on a stream of their own, while the backward
 * pass goes on.
 *
 * One process a rank, told by RANK and WORLD_SIZE as torchrun does; the first rank leaves NCCL's
 * unique id in --id FILE. */
#include <cuda_runtime_api.h>
#include <getopt.h>
#include <math.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels.h"

typedef struct options {
	int layers, dim, hidden, batch, steps, tp,
		bucket; /* bucket: layers whose gradients are added together */
	const char *id;
} options;

typedef struct layer {
	float *up, *down; /* weights: dim x hidden / tp, hidden / tp x dim */
	float *up_gradient, *down_gradient;
	float *before, *middle, *active, *after; /* activations */
} layer;

typedef struct trainer {
	options o;
	int rank, world, width; /* width: of this rank's share of the hidden layer */
	ncclComm_t all, tp, dp;
	cudaStream_t compute, comm;
	cudaEvent_t ready, done;
	layer *layers;
	float *weights, *gradients; /* of all layers, one behind the other */
	size_t per_layer;
	float *input, *target, *gradient, *wide;
	float *host, *loss;
} trainer;

static _Noreturn void die(const char *what, const char *why) {
	fprintf(stderr, "train: %s: %s\n", what, why);
	exit(1);
}
#define CUDA(call)                                  \
	do {                                            \
		cudaError_t e_ = (call);                    \
		if (e_) die(#call, cudaGetErrorString(e_)); \
	} while (0)
#define NCCL(call)                                  \
	do {                                            \
		ncclResult_t e_ = (call);                   \
		if (e_) die(#call, ncclGetErrorString(e_)); \
	} while (0)

static void launch(trainer *t, void (*kernel)(work), work w) {
	void *arguments[] = {&w};
	unsigned blocks = (unsigned)(w.m * w.n + 255) / 256;
	CUDA(cudaLaunchKernel((const void *)kernel, (dim3){blocks ? blocks : 1, 1, 1},
	                      (dim3){256, 1, 1}, arguments, 0, t->compute));
}

/* ---- beginning ---- */

static int number(const char *name, int otherwise) {
	return getenv(name) ? atoi(getenv(name)) : otherwise;
}

/* The first rank leaves the id; the others wait for it. */
static ncclUniqueId share_id(const trainer *t) {
	ncclUniqueId id;
	char other[4096];
	snprintf(other, sizeof other, "%s.new", t->o.id);
	if (t->rank == 0) {
		NCCL(ncclGetUniqueId(&id));
		FILE *f = fopen(other, "wb");
		if (!f || fwrite(&id, sizeof id, 1, f) != 1 || fclose(f) || rename(other, t->o.id))
			die(t->o.id, "cannot be written");
		return id;
	}
	for (int i = 0; i < 6000; i++, usleep(10000)) {
		FILE *f = fopen(t->o.id, "rb");
		size_t got = f ? fread(&id, sizeof id, 1, f) : 0;
		if (f) fclose(f);
		if (got) return id;
	}
	die(t->o.id, "the first rank did not write it");
}

static void make_groups(trainer *t) {
	int devices;
	CUDA(cudaGetDeviceCount(&devices));
	CUDA(cudaSetDevice(number("LOCAL_RANK", t->rank) % devices));
	NCCL(ncclCommInitRank(&t->all, t->world, share_id(t), t->rank));
	NCCL(ncclCommSplit(t->all, t->rank / t->o.tp, t->rank, &t->tp, NULL));
	NCCL(ncclCommSplit(t->all, t->rank % t->o.tp, t->rank, &t->dp, NULL));
	CUDA(cudaStreamCreateWithFlags(&t->compute, cudaStreamNonBlocking));
	CUDA(cudaStreamCreateWithFlags(&t->comm, cudaStreamNonBlocking));
	CUDA(cudaEventCreateWithFlags(&t->ready, cudaEventDisableTiming));
	CUDA(cudaEventCreateWithFlags(&t->done, cudaEventDisableTiming));
}

static float *room(size_t count) {
	void *memory;
	CUDA(cudaMalloc(&memory, count * sizeof(float)));
	return memory;
}

static void fill(trainer *t, float *to, size_t count, unsigned seed, float scale) {
	for (size_t i = 0; i < count; i++) {
		seed = seed * 1664525u + 1013904223u;
		t->host[i] = scale * ((float)(seed >> 8) / (float)(1 << 23) - 1);
	}
	CUDA(cudaMemcpyAsync(to, t->host, count * sizeof(float), cudaMemcpyHostToDevice, t->compute));
	CUDA(cudaStreamSynchronize(t->compute));
}

static void make_model(trainer *t) {
	const options *o = &t->o;
	size_t rows = (size_t)o->batch * (size_t)o->dim, wide = (size_t)o->batch * (size_t)t->width;
	size_t matrix = (size_t)o->dim * (size_t)t->width;
	void *host;
	t->per_layer = 2 * matrix;
	size_t all = t->per_layer * (size_t)o->layers;
	CUDA(cudaMallocHost(&host, (all > rows ? all : rows) * sizeof(float)));
	t->host = host, t->layers = calloc((size_t)o->layers, sizeof *t->layers);
	t->weights = room(all), t->gradients = room(all);
	t->input = room(rows), t->target = room(rows), t->gradient = room(rows), t->wide = room(wide),
	t->loss = room(1);
	for (int i = 0; i < o->layers; i++) {
		layer *l = &t->layers[i];
		l->up = t->weights + (size_t)i * t->per_layer, l->down = l->up + matrix;
		l->up_gradient = t->gradients + (size_t)i * t->per_layer,
		l->down_gradient = l->up_gradient + matrix;
		l->before = i ? t->layers[i - 1].after : t->input;
		l->middle = room(wide), l->active = room(wide), l->after = room(rows);
	}
	fill(t, t->weights, all, 17 + (unsigned)(t->rank % o->tp), 0.8f / sqrtf((float)o->dim));
	fill(t, t->target, rows, 5, 1);
}

/* ---- a step ---- */

static void add_over(trainer *t, ncclComm_t group, float *values, size_t count,
                     cudaStream_t stream) {
	NCCL(ncclAllReduce(values, values, count, ncclFloat, ncclSum, group, stream));
	(void)t;
}

static void forward(trainer *t) {
	int b = t->o.batch, d = t->o.dim, h = t->width;
	for (int i = 0; i < t->o.layers; i++) {
		layer *l = &t->layers[i];
		launch(t, matmul,
		       (work){.out = l->middle, .a = l->before, .b = l->up, .m = b, .n = h, .k = d});
		launch(t, relu, (work){.out = l->active, .a = l->middle, .m = b, .n = h});
		launch(t, matmul,
		       (work){.out = l->after, .a = l->active, .b = l->down, .m = b, .n = d, .k = h});
		if (t->o.tp > 1) add_over(t, t->tp, l->after, (size_t)(b * d), t->compute);
		launch(t, residual, (work){.out = l->after, .a = l->before, .m = b, .n = d});
	}
}

/* What the compute stream has so far made of the gradients is added on the other stream. */
static void add_bucket(trainer *t, int first, int count) {
	CUDA(cudaEventRecord(t->ready, t->compute));
	CUDA(cudaStreamWaitEvent(t->comm, t->ready, 0));
	add_over(t, t->dp, t->gradients + (size_t)first * t->per_layer, (size_t)count * t->per_layer,
	         t->comm);
}

static void backward(trainer *t) {
	int b = t->o.batch, d = t->o.dim, h = t->width, waiting = 0;
	const float *after = t->layers[t->o.layers - 1].after;
	launch(t, difference,
	       (work){.out = t->gradient,
	              .a = after,
	              .b = t->target,
	              .m = b,
	              .n = d,
	              .scale = 2.0f / (float)(b * d)});
	for (int i = t->o.layers - 1; i >= 0; i--) {
		layer *l = &t->layers[i];
		launch(t, matmul,
		       (work){.out = l->down_gradient,
		              .a = l->active,
		              .b = t->gradient,
		              .m = h,
		              .n = d,
		              .k = b,
		              .turn_a = 1});
		launch(t, matmul,
		       (work){.out = t->wide,
		              .a = t->gradient,
		              .b = l->down,
		              .m = b,
		              .n = h,
		              .k = d,
		              .turn_b = 1});
		launch(t, relu_back, (work){.out = t->wide, .a = t->wide, .b = l->middle, .m = b, .n = h});
		launch(t, matmul,
		       (work){.out = l->up_gradient,
		              .a = l->before,
		              .b = t->wide,
		              .m = d,
		              .n = h,
		              .k = b,
		              .turn_a = 1});
		launch(
			t, matmul,
			(work){
				.out = l->middle, .a = t->wide, .b = l->up, .m = b, .n = d, .k = h, .turn_b = 1});
		if (t->o.tp > 1) add_over(t, t->tp, l->middle, (size_t)(b * d), t->compute);
		launch(t, residual, (work){.out = t->gradient, .a = l->middle, .m = b, .n = d});
		if (++waiting == t->o.bucket || i == 0) add_bucket(t, i, waiting), waiting = 0;
	}
	CUDA(cudaEventRecord(t->done, t->comm));
	CUDA(cudaStreamWaitEvent(t->compute, t->done, 0));
}

static float step(trainer *t, int number) {
	const options *o = &t->o;
	int rows = o->batch * o->dim, replicas = t->world / o->tp;
	fill(t, t->input, (size_t)rows, (unsigned)(number * replicas + t->rank / o->tp), 1);
	forward(t);
	backward(t);
	launch(t, update,
	       (work){.out = t->weights,
	              .a = t->gradients,
	              .m = o->layers,
	              .n = (int)t->per_layer,
	              .scale = 0.5f / (float)replicas});
	/* the loss, as the sum of squares of its gradient */
	launch(t, matmul,
	       (work){.out = t->loss, .a = t->gradient, .b = t->gradient, .m = 1, .n = 1, .k = rows});
	add_over(t, t->all, t->loss, 1, t->compute);
	CUDA(cudaMemcpyAsync(t->host, t->loss, sizeof(float), cudaMemcpyDeviceToHost, t->compute));
	CUDA(cudaStreamSynchronize(t->compute));
	return t->host[0] / (float)t->world;
}

static options read_options(int argc, char **argv) {
	static const struct option names[] = {
		{"layers", 1, 0, 0}, {"dim", 1, 0, 0},   {"hidden", 1, 0, 0},
		{"batch", 1, 0, 0},  {"steps", 1, 0, 0}, {"tp", 1, 0, 0},
		{"bucket", 1, 0, 0}, {"id", 1, 0, 0},    {0}};
	options o = {
		.layers = 4, .dim = 64, .hidden = 256, .batch = 32, .steps = 10, .tp = 1, .bucket = 2};
	int *const at[] = {&o.layers, &o.dim, &o.hidden, &o.batch, &o.steps, &o.tp, &o.bucket};
	for (int which, code; (code = getopt_long(argc, argv, "", names, &which)) != -1;) {
		if (code != 0)
			die("usage", "train --id FILE [--layers N] [--dim N] [--hidden N] [--batch N] [--steps "
			             "N] [--tp N] [--bucket N]");
		if (which == 7) o.id = optarg;
		else if ((*at[which] = atoi(optarg)) < 1 || *at[which] > 1 << 20)
			die(optarg, "is no such number");
	}
	if (!o.id) die("--id FILE", "is missing");
	return o;
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
	trainer t = {
		.o = read_options(argc, argv), .rank = number("RANK", 0), .world = number("WORLD_SIZE", 1)};
	float loss = 0;
	if (t.world < 1 || t.world % t.o.tp || t.o.hidden % t.o.tp)
		die("--tp", "does not divide the ranks and the hidden layer");
	t.width = t.o.hidden / t.o.tp;
	make_groups(&t);
	make_model(&t);
	double begin = now();
	for (int i = 0; i < t.o.steps; i++) loss = step(&t, i);
	if (t.rank == 0)
		printf("done %d steps, %.3f ms each, loss %.9f\n", t.o.steps,
		       1e3 * (now() - begin) / t.o.steps, loss);
	NCCL(ncclCommDestroy(t.tp));
	NCCL(ncclCommDestroy(t.dp));
	NCCL(ncclCommDestroy(t.all));
	return 0;
}
