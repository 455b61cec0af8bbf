/* noisy_internal.h: what the files of noisy.h share. */
#ifndef LK_STEP_NOISY_INTERNAL_H
#define LK_STEP_NOISY_INTERNAL_H

#include "step/noisy.h"

#define LK_NOISY_LEAST_FACTOR 0.05 /* on kernels, and on the network's share of a step */
#define LK_NOISY_MOST_FACTOR  1e5

/* The kernels of one stage of a replica. */
typedef struct stage_draw {
	float factor, gpu_s, node_s; /* of its slowest rank */
} stage_draw;

/* A replica that may be a seed's last. */
typedef struct last_replica {
	double seconds;
	uint32_t replica;
	float gpu_s, node_s; /* of its slowest rank */
} last_replica;

typedef struct noisy_work {
	lk_arena arena;
	const lk_step_options *options;
	const lk_step *step;
	const lk_cluster *cluster;
	const lk_noise *noise;
	size_t seeds;
	uint32_t stages, chains, replicas, size; /* size: chains of a replica, in a row */
	uint32_t *node;                          /* [stages * chains] of each rank */
	double *slow;                            /* [stages * chains] --straggler */
	lk_noise_sampler gpu, node_draws;
	bool gpus, nodes;
	double sigma;                  /* of single kernels */
	double computing_s, network_s; /* of a rank, mean over stages */
	float *even;                   /* [stages] factors of 1 */
	double *weight; /* [stages] kernels of a rank over those of the stage that has most */
	lk_fold *fold;
	lk_graph lanes; /* view of the folded graph: replicas side by side */
	lk_costs lane_costs;
	double lane_operations;
	last_replica *last; /* [seeds * kept] replicas that the regression puts last */
	uint32_t kept;
	bool simulates;                          /* these are simulated */
	double *others_s;                        /* [seeds] the slowest of the others */
	double *top_gpu, *top_node;              /* [seeds] seconds of the slowest rank */
	double base, by_most, by_mean, residual; /* the regression, seconds */
	/* Contention, and what lanes leave out: a seed takes shift_s + factor * (what lanes say). */
	double shift_s, factor;
	double *compute_s; /* [seeds] the result */
} noisy_work;

/* ---- noisy_ranks.c */

/* Chains of a replica: the least number of neighbouring chains that no group but those of data
 * parallelism leaves. */
uint32_t lk_noisy_replica_size(const lk_graph *graph);
/* Fill what describes ranks and what they compute. */
lk_status lk_noisy_place(noisy_work *work, lk_error *err);
/* Draw one stage of a replica. */
stage_draw lk_noisy_draw(const noisy_work *work, uint64_t seed, uint32_t replica, uint32_t stage);
/* A step of all ranks with the factors of a seed. */
lk_status lk_noisy_simulate(const noisy_work *work, uint64_t seed, double *seconds, lk_error *err);
/* One replica with contention, without its data-parallel partners. */
lk_status lk_noisy_simulate_replica(const noisy_work *work, uint64_t seed, uint32_t replica,
                                    double *seconds, lk_error *err);
/* The seeds from the fastest to the slowest, to be freed; NULL when memory runs out. */
uint32_t *lk_noisy_order(const double *step_s, size_t seeds);

/* ---- noisy_replicas.c */

/* Fill compute_s, top_gpu and top_node. */
lk_status lk_noisy_run_replicas(noisy_work *work, lk_step_noise *out, lk_error *err);
/* What kernels' own noise makes of the step, after that. */
double lk_noisy_still_s(const noisy_work *work);

#endif
