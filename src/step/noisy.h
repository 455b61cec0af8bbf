/* noisy.h: how far a step spreads with noise of several levels (noise/noise.h). */
#ifndef LK_STEP_NOISY_H
#define LK_STEP_NOISY_H

#include "noise/noise.h"
#include "step/step.h"

/* How the noise of kernels is found. */
typedef enum lk_noisy_way {
	LK_NOISY_AUTO,    /* FULL where that takes no longer than a second or so */
	LK_NOISY_FULL,    /* every seed is simulated, all ranks of it */
	LK_NOISY_REPLICA, /* replicas of folded runs, joined by the slowest */
} lk_noisy_way;

typedef struct lk_step_noise {
	lk_quantiles step_s;
	/* Of the steps around each quantile: the mean of what each level adds. Their sum with the quiet
	 * step is the quantile. */
	lk_quantiles level_s[LK_NOISE_LEVELS];
	bool acts[LK_NOISE_LEVELS];
	bool full;    /* every seed was simulated with all its ranks */
	int checked;  /* seeds of REPLICA that were simulated with contention, operation by operation;
	                   the others have their mean factor */
	double apart; /* largest relative difference of one of them; NAN: none */
} lk_step_noise;

/* Whether rows of the noise change what ranks compute, so that the step's graph needs all of its
 * micro-batches. */
bool lk_noise_computes(const lk_noise *noise);

/* Steps of `seeds` seeds from options->seed on, of a job without noise that takes step->step_s.
 * Ranks fill the cluster's nodes in order. The result does not depend on the number of threads. */
lk_status lk_step_noise_over(const lk_step_options *options, const lk_step *step,
                             const lk_cluster *cluster, const lk_noise *noise, int seeds,
                             lk_noisy_way way, lk_step_noise *out, lk_error *err);

#endif
