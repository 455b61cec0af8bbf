/* post_plan.h: how to lay out a step of reinforcement learning: which GPUs generate and which
 * train, the layouts of engines and training, and how far the engines run ahead.
 *
 *     lk_plan_request request;
 *     lk_plan_defaults(&request);
 *     request.job.task = "grpo", request.job.model = "llama3.1-8b", request.job.gpu = "h100-sxm";
 *     request.gpus = "32", request.job.gbs = 512, request.job.response = 1000;
 *     lk_post_plan *plan;
 *     if (lk_post_plan_find(&request, &plan, &err) != LK_OK) ...
 *     plan->choices[0].reproduce ...
 *     lk_post_plan_free(plan); */
#ifndef LOCKSTEP_POST_PLAN_H
#define LOCKSTEP_POST_PLAN_H

#include <stdbool.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One way to run the step. Times in seconds. */
typedef struct lk_post_choice {
	int gpus, train_gpus, engine_gpus; /* engine_gpus 0: engines run on the training GPUs */
	int engine_tp, engine_ep, lag;
	int tp, pp, cp, ep, dp, mbs; /* of the training */
	const char *layout;          /* both sides in words */
	double step_time_s, step_time_low_s, step_time_high_s;
	double generation_s;             /* by the engines, overlapped or not */
	double learning_s;               /* rewards, values, log-probabilities and updates */
	double moving_s;                 /* refit, offload and reload */
	double train_idle_s;             /* training GPUs waiting for sequences */
	double engine_idle_s;            /* engines on their own GPUs waiting for new weights */
	double peak_bytes, usable_bytes; /* of the side that uses the larger share of its memory */
	bool fits;
	const char *reproduce; /* the command of `predict` */
} lk_post_choice;

/* The answer. */
typedef struct lk_post_plan {
	const lk_post_choice *choices; /* those that fit, fastest first; then nearest to fitting */
	int count;
	int asked;           /* number of predicted steps */
	int splits;          /* searched divisions of the GPUs: fewer if time ran out, */
	int splits_all;      /* and all possible ones */
	const char *cut_off; /* as in a plan (plan.h) */
	const char *model, *cluster, *reproduce;
	double seconds;
	const char *failed_check; /* the consistency check that failed; NULL: all passed */
	void *memory_owner;
} lk_post_plan;

/* Whether a step of reinforcement learning is requested: by the task, or by a launch line or file
 * that states its rollout. LK_ERR_INPUT: that line or file cannot be read; LK_ERR_MEMORY. */
lk_status lk_post_plan_asked(const lk_plan_request *request, bool *asked, lk_error *err);
/* Search; request->search_s limits the time, and the answer is the best found by then.
 * LK_ERR_INPUT: a step that predict refuses as a whole, several numbers of GPUs, options that have
 * no effect here; LK_ERR_MEMORY. */
lk_status lk_post_plan_find(const lk_plan_request *request, lk_post_plan **out, lk_error *err);
/* Free a plan and everything it points to; accepts NULL. */
void lk_post_plan_free(lk_post_plan *plan);
/* Print text for people or data for programs, as lk_plan_print, with its errors (LK_ERR_...). Keys
 * of a row: rank, gpus, train_gpus, engine_gpus, engine_tp, engine_ep, lag, tp, pp, cp, ep, dp,
 * mbs, step_time_s, step_time_low_s, step_time_high_s, generation_s, learning_s, moving_s,
 * train_idle_s, engine_idle_s, peak_bytes, fits, layout, reproduce. */
lk_status lk_post_plan_print(const lk_post_plan *plan, int format, bool verbose, bool colour,
                             const char *path, FILE *out, lk_error *err);

#ifdef __cplusplus
}
#endif
#endif
