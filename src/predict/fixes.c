/* fixes.c: a list of changes to a job, smallest first in each kind. Each is completed, built and
 * walked; of each kind the first that fits is kept. Where single changes hardly help, they are
 * tried again on top of full recomputation, of full sharding, and of a longer pipeline. */
#include "base/arena.h"
#include "predict/predict_internal.h"

#include <stdlib.h>
#include <string.h>

#include "step/step.h"

/* A change: applies step `i` (0, 1, ...) of its kind to the job as asked; false when there are no
 * more. */
typedef bool (*lk_change)(lk_job *job, int i, char *text, size_t size);

static bool more_recompute(lk_job *job, int i, char *text, size_t size) {
	if (job->recompute == LK_RECOMPUTE_FULL && job->recompute_layers == 0) return false;
	int layers =
		(job->model.layers + job->model.decoder_layers) / (job->pp * (job->vp > 0 ? job->vp : 1));
	int step = layers >= 8 ? layers / 4 : 1, count = (i + 1) * step;
	if (i > 4 || (i > 0 && count - step >= layers)) return false;
	job->recompute = LK_RECOMPUTE_FULL;
	job->recompute_said = true;
	job->recompute_layers = count >= layers ? 0 : count;
	if (job->recompute_layers) snprintf(text, size, "--recompute full/%d", count);
	else snprintf(text, size, "--recompute full");
	return true;
}

static bool smaller_microbatch(lk_job *job, int i, char *text, size_t size) {
	int mbs = job->mbs >> (i + 1);
	if (mbs < 1) return false;
	job->mbs = mbs;
	snprintf(text, size, "--mbs %d", mbs);
	return true;
}

static bool wider_tp(lk_job *job, int i, char *text, size_t size) {
	int tp = job->tp << (i + 1);
	if (i > 5 || tp > 64) return false;
	if (job->etp == job->tp) job->etp = 0;
	job->tp = tp;
	snprintf(text, size, "--tp %d", tp);
	return true;
}

static bool longer_pipeline(lk_job *job, int i, char *text, size_t size) {
	int pp = job->pp << (i + 1);
	if (i > 6 || pp > 1024) return false;
	job->pp = pp;
	if (job->schedule == LK_SCHED_INTERLEAVED || job->vp > 1) {
		job->vp = 0;
		job->schedule_said = false;
	}
	snprintf(text, size, "--pp %d", pp);
	return true;
}

static bool more_sharding(lk_job *job, int i, char *text, size_t size) {
	if ((int)job->sharding + i + 1 > LK_SHARD_ZERO3) return false;
	job->sharding = (lk_sharding)((int)job->sharding + i + 1);
	job->sharding_said = true;
	snprintf(text, size, "--zero %d", (int)job->sharding);
	return true;
}

static bool longer_context(lk_job *job, int i, char *text, size_t size) {
	int cp = job->cp << (i + 1);
	if (i > 4 || job->seq < 8192) return false;
	job->cp = cp;
	snprintf(text, size, "--cp %d", cp);
	return true;
}

static bool more_experts(lk_job *job, int i, char *text, size_t size) {
	int ep = job->ep << (i + 1);
	if (job->model.experts == 0 || ep > job->model.experts) return false;
	job->ep = ep;
	snprintf(text, size, "--ep %d", ep);
	return true;
}

static bool offload(lk_job *job, int i, char *text, size_t size) {
	if (i > 0 || job->offload_optimizer) return false;
	job->offload_optimizer = true;
	snprintf(text, size, "--offload-optimizer");
	return true;
}

static bool fixes_fused_loss(lk_job *job, int i, char *text, size_t size) {
	if (i > 0 || job->fused_cross_entropy == LK_ON || job->model.vocab <= 0) return false;
	job->fused_cross_entropy = LK_ON;
	snprintf(text, size, "--fused-loss");
	return true;
}

static bool more_gpus(lk_job *job, int i, char *text, size_t size) {
	if (i > 3 || job->sharding == LK_SHARD_NONE) return false;
	job->gpus <<= i + 1;
	snprintf(text, size, "--gpus %d", job->gpus);
	return true;
}

static const lk_change changes[] = {
	fixes_fused_loss, more_recompute, smaller_microbatch, more_sharding, wider_tp,
	longer_pipeline,  longer_context, more_experts,       offload,       more_gpus,
};
enum {
	CHANGES = sizeof changes / sizeof *changes
};

/* A job as it was given: what completing derived is open again. */
static lk_job reopened(const lk_job *job) {
	lk_job j = *job;
	j.dp = 0;
	j.microbatches = 0;
	j.padded_vocab = j.padded_vocab_said ? j.padded_vocab : 0;
	j.sequence_parallel = LK_AUTO;
	return j;
}

static bool fixes_ask(const lk_asked *asked, const lk_job *job, bool memory_only, lk_step *step) {
	lk_step_options options = {.memory_only = memory_only};
	return lk_step_ask(job, &asked->cluster, &options, step, NULL) == LK_OK;
}

static bool grow_cluster(lk_arena *arena, const lk_job *job, lk_asked *asked) {
	if (job->gpus <= asked->cluster.gpus) return true;
	if (asked->cluster.groups != 1) return false;
	const lk_node *node = &asked->cluster.node[0];
	double per_gpu = node->gpus > 0 ? node->nics * node->nic_rate / node->gpus : 0;
	return lk_cluster_simple(arena, node->device, job->gpus, node->gpus, per_gpu, &asked->cluster,
	                         NULL) == LK_OK;
}

/* The first step of a kind of change that fits, on top of a change that was made already (NULL:
 * none). */
static bool fixes_try_change(lk_arena *arena, const lk_asked *asked, const lk_job *first,
                             const char *made, lk_change change, double step_time, lk_fix *fix) {
	for (int i = 0; i < 8; i++) {
		lk_asked changed = *asked;
		char text[sizeof fix->change];
		changed.job = reopened(first ? first : &asked->job);
		if (!change(&changed.job, i, text, sizeof text)) return false;
		snprintf(fix->change, sizeof fix->change, "%.40s%s%.48s", made, *made ? " " : "", text);
		if (!grow_cluster(arena, &changed.job, &changed)) continue;
		if (lk_job_complete(&changed.job, &changed.cluster, NULL) != LK_OK) continue;
		lk_step step;
		bool fits = fixes_ask(&changed, &changed.job, true, &step) &&
		            step.memory[step.fullest].total <= step.usable;
		lk_step_free(&step);
		if (!fits) continue;
		bool timed = fixes_ask(&changed, &changed.job, false, &step);
		if (timed) {
			fix->peak_bytes = step.memory[step.fullest].total;
			fix->step_time_s = step.step_s;
			fix->time_ratio = step_time > 0 ? step.step_s / step_time : 0;
		}
		lk_step_free(&step);
		return timed;
	}
	return false;
}

static int fixes_by_time(const void *a, const void *b) {
	const lk_fix *x = a, *y = b;
	return (x->step_time_s > y->step_time_s) - (x->step_time_s < y->step_time_s);
}

enum {
	ENOUGH = 3,
	PIPELINES = 4
};

/* Tries every kind of change but `made_by` on top of what that made. */
static void fixes_try_all(lk_arena *arena, const lk_asked *asked, const lk_job *first,
                          const char *made, lk_change made_by, lk_prediction *out, lk_fix *fixes,
                          int most) {
	for (int i = 0; i < CHANGES && out->fix_count < most; i++)
		if (changes[i] != made_by && fixes_try_change(arena, asked, first, made, changes[i],
		                                              out->step_time_s, &fixes[out->fix_count]))
			out->fix_count++;
}

/* The step of a kind that changes most and can run. */
static bool apply_fully(const lk_asked *asked, lk_change change, lk_job *job, char *made,
                        size_t size) {
	bool found = false;
	char text[64];
	for (int i = 0; i < PIPELINES; i++) {
		lk_job tried = reopened(&asked->job);
		if (!change(&tried, i, text, sizeof text)) break;
		lk_job whole = tried;
		if (lk_job_complete(&whole, &asked->cluster, NULL) != LK_OK) continue;
		*job = tried;
		snprintf(made, size, "%s", text);
		found = true;
	}
	return found;
}

lk_status lk_find_fixes(lk_arena *arena, const lk_asked *asked, lk_prediction *out, lk_error *err) {
	static const lk_change bases[] = {more_recompute, more_sharding, longer_pipeline, wider_tp};
	enum {
		BASES = sizeof bases / sizeof *bases,
		MOST = CHANGES * (BASES + 1)
	};
	lk_fix *fixes = LK_ARRAY(arena, lk_fix, MOST);
	if (!fixes) return lk_oom(err);
	fixes_try_all(arena, asked, NULL, "", NULL, out, fixes, MOST);
	for (int i = 0; i < BASES && out->fix_count < ENOUGH; i++) {
		lk_job job;
		char made[64];
		if (apply_fully(asked, bases[i], &job, made, sizeof made))
			fixes_try_all(arena, asked, &job, made, bases[i], out, fixes, MOST);
	}
	qsort(fixes, (size_t)out->fix_count, sizeof *fixes, fixes_by_time);
	out->fixes = fixes;
	return LK_OK;
}
