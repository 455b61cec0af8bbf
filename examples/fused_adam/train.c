/* train.c: a network trained by several ranks, each on data of its own, with an optimizer that
 * lockstep wrote.
 *
 * The same training runs twice from the same start: once with MPI_Allreduce and Adam as one writes
 * it by hand, once with the function made from adam.lk, which reduces, updates and gathers slice by
 * slice and keeps 1/P of the moments. The losses must fall, and agree to rounding; else the exit
 * status is 1.
 *
 *     make -C examples/fused_adam run        needs lockstep, mpicc and mpirun
 */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adam.h"

enum {
	INPUTS = 6,
	HIDDEN = 29,
	BATCH = 64,
	STEPS = 300,
	SHOWN = 30,
	WEIGHTS =
		INPUTS * HIDDEN + HIDDEN + HIDDEN + 1, /* no multiple of 2, 3 or 4: slices are uneven */
};

static const float lr = 0.01f, b1 = 0.9f, b2 = 0.999f, eps = 1e-8f;

/* ---- the network: y = c . tanh(A x + b) + d, and the gradient of its squared error ---- */

typedef struct network {
	float a[HIDDEN][INPUTS], b[HIDDEN], c[HIDDEN], d;
} network;
_Static_assert(sizeof(network) == WEIGHTS * sizeof(float),
               "a network is its weights, one after the other");

static float next(uint64_t *seed) { /* in (-1,1) */
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (float)((double)(*seed >> 33) / (1u << 30) - 1);
}

static float target(const float *x) {
	return sinf(3 * x[0]) * x[1] + x[2] * x[3] - 0.5f * x[4];
}

/* Adds one example's gradient; returns its error. */
static float backward(const network *w, const float *x, float want, network *g) {
	float h[HIDDEN], y = w->d;
	for (int j = 0; j < HIDDEN; j++) {
		float z = w->b[j];
		for (int i = 0; i < INPUTS; i++) z += w->a[j][i] * x[i];
		h[j] = tanhf(z);
		y += w->c[j] * h[j];
	}
	float off = (y - want) / BATCH;
	g->d += off;
	for (int j = 0; j < HIDDEN; j++) {
		float back = off * w->c[j] * (1 - h[j] * h[j]);
		g->c[j] += off * h[j], g->b[j] += back;
		for (int i = 0; i < INPUTS; i++) g->a[j][i] += back * x[i];
	}
	return (y - want) * (y - want) / 2;
}

/* The gradient of this rank's batch; the mean error over all ranks. */
static float step(const network *w, uint64_t *seed, network *g) {
	float loss = 0, mean, x[INPUTS];
	int ranks;
	memset(g, 0, sizeof *g);
	for (int e = 0; e < BATCH; e++) {
		for (int i = 0; i < INPUTS; i++) x[i] = next(seed);
		loss += backward(w, x, target(x), g);
	}
	MPI_Allreduce(&loss, &mean, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	return mean / (float)(ranks * BATCH);
}

/* ---- by hand ---- */

typedef struct moments {
	float m[WEIGHTS], v[WEIGHTS];
} moments;

static void plain_adam(float *w, float *g, moments *s, int t, int ranks) {
	MPI_Allreduce(MPI_IN_PLACE, g, WEIGHTS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < WEIGHTS; i++) {
		float mean = g[i] / (float)ranks;
		s->m[i] = b1 * s->m[i] + (1 - b1) * mean;
		s->v[i] = b2 * s->v[i] + (1 - b2) * mean * mean;
		w[i] -= lr * (s->m[i] / (1 - powf(b1, (float)t))) /
		        (sqrtf(s->v[i] / (1 - powf(b2, (float)t))) + eps);
	}
}

/* ---- by the function that lockstep wrote ---- */

typedef struct optimizer {
	lk_adam *plan;
	float *m, *v;
} optimizer;

static void end(const char *why) {
	fprintf(stderr, "train: %s\n", why);
	MPI_Abort(MPI_COMM_WORLD, 2);
}

static void optimizer_open(optimizer *o, int ranks) {
	char error[256];
	int64_t begin[6], extent[6];
	lk_adam_sizes sizes = {.ranks_dp = ranks, .dim_N = WEIGHTS};
	if (lk_adam_open_zero(&sizes, MPI_COMM_WORLD, &o->plan, error)) end(error);
	int64_t held = lk_adam_part(o->plan, "state_m", 0, begin, extent); /* a slice of the moments */
	o->m = calloc((size_t)held + 1, sizeof *o->m), o->v = calloc((size_t)held + 1, sizeof *o->v);
	if (!o->m || !o->v) end("out of memory");
}

static void optimizer_step(optimizer *o, float *w, const float *g, int t) {
	lk_adam_scalars s = {
		.scalar_lr = lr, .scalar_b1 = b1, .scalar_b2 = b2, .scalar_eps = eps, .scalar_t = t};
	if (lk_adam_run_zero(o->plan, &s, g, w, o->m, o->v)) end("a pointer is missing");
}

static void optimizer_close(optimizer *o) {
	lk_adam_close(o->plan);
	free(o->m);
	free(o->v);
}

/* ---- both, side by side ---- */

static void begin(network *w) {
	uint64_t seed = 1;
	float *weight = (float *)w;
	for (int i = 0; i < WEIGHTS; i++) weight[i] = 0.5f * next(&seed);
}

int main(int argc, char **argv) {
	network plain, ours, g;
	optimizer o;
	float first = 0, loss = 0, other = 0, apart = 0;
	int rank, ranks;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	moments *s = calloc(1, sizeof *s);
	uint64_t seed = 1000 + (uint64_t)rank, same = seed;
	if (!s) end("out of memory");
	begin(&plain), begin(&ours);
	optimizer_open(&o, ranks);
	for (int t = 1; t <= STEPS; t++) {
		loss = step(&plain, &seed, &g);
		plain_adam((float *)&plain, (float *)&g, s, t, ranks);
		other = step(&ours, &same, &g);
		optimizer_step(&o, (float *)&ours, (float *)&g, t);
		apart = fmaxf(apart, fabsf(loss - other));
		if (t == 1) first = loss;
		if (rank == 0 && (t % SHOWN == 0 || t == 1))
			printf("step %3d  loss %.6f  by lockstep's function %.6f\n", t, loss, other);
	}
	/* Roundings differ in order only; a training of 300 steps lets them grow, but not to a part in
	 * ten thousand. */
	int wrong = !(loss < first / 4) || !(apart < 1e-4f * first);
	if (rank == 0)
		printf("%d ranks: loss %.4f to %.4f, at most %.2g apart%s\n", ranks, first, loss, apart,
		       wrong ? ": WRONG" : "");
	optimizer_close(&o);
	free(s);
	MPI_Finalize();
	return wrong;
}
