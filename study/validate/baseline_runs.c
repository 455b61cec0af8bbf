/* baseline_runs.c: predictions of training runs by simple arithmetic.
 *
 *     constant MFU            flops / (GPUs x peak) / MFU; one MFU, the median of the other folds
 *     constant MFU per stack  the same, one MFU per software stack (of all stacks if no other
 *                             fold has this one)
 *     roofline, alpha-beta    max(max(flops / peak, bytes / bandwidth) x bubble + messages of
 *                             layers, messages of gradients and weights), times one factor
 *     nearest run             the MFU of the most similar run of another fold
 *
 * Roofline: bytes are three reads of the weights per micro-batch, 34 bytes per token, hidden unit
 * and layer written and read (arXiv 2205.05198), and the optimizer's state read and written. The
 * bubble is 1 + (p - 1) / (v m). Messages: 4 all-reduces per layer and micro-batch for tensor
 * parallelism, 4 all-to-alls for experts; overlapped with the arithmetic, one all-reduce of the
 * gradients and with ZeRO-3 two all-gathers of the weights per micro-batch. Each takes ALPHA +
 * bytes over the rate of the link. The factor is the median of measured / predicted over the other
 * folds.
 *
 * Similar: the sum of |log2| of the ratios of sizes, degrees and peak, and 1 for each choice that
 * differs. */
#include "base/arena.h"
#include "validate/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "cost/kernel/kernel.h"
#include "model/layout/job.h"
#include "model/layout/sizes.h"

enum {
	SIZES = 11,
	CHOICES = 7,
	MOST = 8192, /* runs; the time grows with their square */
};

static const double ALPHA = 10e-6; /* s per message */

/* A run for the baselines. */
struct lesson {
	const char *stack;
	int fold;
	bool asked, teaches;              /* can be predicted; others may learn from it */
	double measured, ideal, roofline; /* s; ideal: at the device's peak */
	double size[SIZES];               /* log2 */
	int choice[CHOICES];
};

/* ---- a run in numbers ---- */

static double ideal_of(const lk_run *run) {
	const lk_job *job = &run->job;
	double flops = lk_model_flops(&job->model, job->seq) * job->gbs *
	               (job->task == LK_TASK_LORA ? 2.0 / 3 : 1);
	return flops / job->gpus / lk_peak_flops(run->cluster.node[0].device, job->dtype);
}

/* Seconds of `calls` messages of this size among ranks that span this many GPUs. */
static double runs_messages(const lk_node *node, int ranks, int span, double calls, double bytes) {
	double rate = span <= node->gpus ? node->intra_rate : node->nics * node->nic_rate / node->gpus;
	if (ranks < 2) return 0;
	return calls * (ALPHA + bytes * (ranks - 1) / ranks / fmax(rate, 1e8));
}

/* Messages inside the layers, which block the arithmetic. */
static double layer_messages(const lk_run *run, double tokens, double layers) {
	const lk_job *job = &run->job;
	const lk_node *node = &run->cluster.node[0];
	double calls = 4 * layers * job->microbatches, activations = 2 * tokens * job->model.hidden;
	double time = runs_messages(node, job->tp, job->tp, calls, 2 * activations);
	if (job->model.experts > 0)
		time +=
			runs_messages(node, job->ep, job->ep * job->etp, calls, activations * job->model.topk);
	return time;
}

/* Gradients, and gathered weights, which overlap with the arithmetic. */
static double data_messages(const lk_run *run, double layers) {
	const lk_job *job = &run->job;
	const lk_node *node = &run->cluster.node[0];
	lk_rank_params held = lk_sizes_stage(job, 0);
	double trained = held.trained_dense + held.trained_experts,
		   gathers = 2 * layers * job->microbatches;
	int dp = lk_sizes_dp_ranks(job);
	double time = runs_messages(node, dp, dp * job->tp, 1, 2 * trained * lk_sizes_wire_bytes(job));
	if (job->sharding != LK_SHARD_ZERO3) return time;
	return time +
	       runs_messages(node, dp, dp * job->tp, gathers, (held.dense + held.experts) * 2 / layers);
}

static double roofline_of(const lk_run *run, double ideal) {
	const lk_job *job = &run->job;
	lk_rank_params held = lk_sizes_stage(job, 0);
	double m = job->microbatches, layers = fmax(1, (double)job->model.layers / job->pp);
	double tokens = (double)job->mbs * job->seq / job->cp;
	double weights = 3 * (held.dense + held.experts) * lk_sizes_weight_bytes(job);
	double activations = 68 * tokens * job->model.hidden * layers / job->tp;
	double bytes = m * (weights + activations) + 2 * lk_sizes_resident(job, 0).optimizer;
	double device = fmax(ideal, bytes / run->cluster.node[0].device->memory_rate) *
	                (1 + (job->pp - 1) / (job->vp * m));
	return fmax(device + layer_messages(run, tokens, layers), data_messages(run, layers));
}

static void runs_describe(const lk_run *run, struct lesson *lesson) {
	const lk_job *job = &run->job;
	const double sizes[SIZES] = {
		lk_model_params(&job->model),
		lk_model_flops(&job->model, job->seq) / job->seq,
		job->seq,
		job->gpus,
		job->tp,
		job->pp,
		job->cp,
		job->ep,
		job->mbs,
		job->microbatches,
		lk_peak_flops(run->cluster.node[0].device, job->dtype),
	};
	const int choices[CHOICES] = {
		(int)job->task,
		(int)job->sharding,
		(int)job->recompute,
		(int)job->attn_kernel,
		(int)job->dtype,
		(int)job->compile,
		(int)run->cluster.node[0].device->arch,
	};
	for (int i = 0; i < SIZES; i++) lesson->size[i] = log2(fmax(sizes[i], 1));
	memcpy(lesson->choice, choices, sizeof choices);
}

static struct lesson *lessons_of(lk_arena *arena, const lk_runs *runs, const int *fold) {
	struct lesson *lessons = LK_ARRAY(arena, struct lesson, runs->count);
	for (size_t i = 0; lessons && i < runs->count; i++) {
		const lk_run *run = &runs->at[i];
		struct lesson *lesson = &lessons[i];
		*lesson = (struct lesson){.stack = run->stack,
		                          .fold = fold[i],
		                          .asked = !*run->refused,
		                          .measured = run->measured_s};
		if (!lesson->asked) continue;
		lesson->ideal = ideal_of(run);
		lesson->roofline = roofline_of(run, lesson->ideal);
		lesson->asked = isfinite(lesson->ideal) && lesson->ideal > 0 && isfinite(lesson->roofline);
		lesson->teaches = lesson->asked && !*run->suspect && run->measured_s > 0;
		runs_describe(run, lesson);
	}
	return lessons;
}

/* ---- predictions ---- */

typedef double seconds_fn(const struct lesson *l);

static double ideal_seconds(const struct lesson *lesson) {
	return lesson->ideal;
}

static double roofline_seconds(const struct lesson *lesson) {
	return lesson->roofline;
}

/* Median of measured over `seconds` in the other folds, of one stack or (NULL) of all; NAN without
 * any. */
static double factor_for(const struct lesson *lessons, size_t count, int fold, const char *stack,
                         seconds_fn *seconds, double *room) {
	size_t n = 0;
	for (size_t i = 0; i < count; i++) {
		const struct lesson *lesson = &lessons[i];
		if (!lesson->teaches || lesson->fold == fold ||
		    (stack && strcmp(lesson->stack, stack) != 0))
			continue;
		room[n++] = lesson->measured / seconds(lesson);
	}
	return n > 0 ? lk_median(room, n) : NAN;
}

/* Rows of one fold share their factor, which is computed once. */
static lk_status runs_scaled(lk_arena *arena, lk_scoring *out, const char *name,
                             const struct lesson *lessons, bool per_stack, seconds_fn *seconds,
                             int parameters, lk_error *err) {
	lk_baseline *baseline = lk_scoring_baseline(arena, out, name, parameters);
	double *room = LK_ARRAY(arena, double, out->count),
		   *factor = LK_ARRAY(arena, double, out->count);
	bool *known = LK_ARRAY(arena, bool, out->count);
	if (!baseline || !room || !factor || !known) return lk_oom(err);
	for (size_t i = 0; i < out->count; i++) {
		const struct lesson *lesson = &lessons[i];
		if (!lesson->asked) continue;
		if (!known[lesson->fold]) {
			double found = per_stack ? factor_for(lessons, out->count, lesson->fold, lesson->stack,
			                                      seconds, room)
			                         : NAN;
			if (isnan(found))
				found = factor_for(lessons, out->count, lesson->fold, NULL, seconds, room);
			factor[lesson->fold] = found;
			known[lesson->fold] = true;
		}
		baseline->predicted[i] = factor[lesson->fold] * seconds(lesson);
	}
	return LK_OK;
}

static double runs_distance(const struct lesson *a, const struct lesson *b) {
	double sum = strcmp(a->stack, b->stack) != 0;
	for (int i = 0; i < SIZES; i++) sum += fabs(a->size[i] - b->size[i]);
	for (int i = 0; i < CHOICES; i++) sum += a->choice[i] != b->choice[i];
	return sum;
}

static lk_status runs_nearest(lk_arena *arena, lk_scoring *out, const struct lesson *lessons,
                              lk_error *err) {
	lk_baseline *baseline = lk_scoring_baseline(arena, out, "nearest run", 0);
	if (!baseline) return lk_oom(err);
	for (size_t i = 0; i < out->count; i++) {
		const struct lesson *asked = &lessons[i], *best = NULL;
		double least = INFINITY;
		for (size_t k = 0; asked->asked && k < out->count; k++) {
			if (!lessons[k].teaches || lessons[k].fold == asked->fold) continue;
			double d = runs_distance(asked, &lessons[k]);
			if (d < least) {
				least = d;
				best = &lessons[k];
			}
		}
		if (best) baseline->predicted[i] = best->measured / best->ideal * asked->ideal;
	}
	return LK_OK;
}

/* The number of stacks in the lessons. */
static int runs_stacks_of(const struct lesson *lessons, size_t count) {
	int stacks = 0;
	for (size_t i = 0; i < count; i++) {
		bool first = lessons[i].teaches;
		for (size_t k = 0; first && k < i; k++)
			first = !lessons[k].teaches || strcmp(lessons[k].stack, lessons[i].stack) != 0;
		stacks += first;
	}
	return stacks;
}

lk_status lk_baselines_runs(lk_arena *arena, const lk_runs *runs, const int *fold, lk_scoring *out,
                            lk_error *err) {
	if (runs->count > MOST) return LK_OK;
	struct lesson *lessons = lessons_of(arena, runs, fold);
	if (!lessons) return lk_oom(err);
	int stacks = runs_stacks_of(lessons, runs->count);
	LK_TRY(runs_scaled(arena, out, "constant MFU", lessons, false, ideal_seconds, 1, err));
	LK_TRY(runs_scaled(arena, out, "constant MFU per stack", lessons, true, ideal_seconds, stacks,
	                   err));
	LK_TRY(
		runs_scaled(arena, out, "roofline, alpha-beta", lessons, false, roofline_seconds, 1, err));
	return runs_nearest(arena, out, lessons, err);
}
