/* fixes.c: a list of changes to a job, smallest first in each kind. Each is an additional option of
 * the request, which is then read, completed, built and evaluated like any request: so a row of the
 * list equals the answer of `predict` with that option. Of each kind the first that fits is kept.
 * If single changes hardly help, they are tried again on top of full recomputation, of full
 * sharding, of a longer pipeline, and of all that trains the same in less memory. Where nothing
 * fits that trains the same, other training is named: adapters, over a base in 4 bits, and shorter
 * sequences.
 *
 * Where a file, a script or a line states the job, a change is one of that text in its own words
 * (launch/emit/edit.c); what they have no place for is left out. */
#include "base/arena.h"
#include "base/check.h"
#include "predict/predict_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "launch/emit/emit.h"
#include "base/sort.h"
#include "step/step.h"

/* A request being changed, its current job, and the options added to it. */
typedef struct lk_trial {
	lk_predict_request request;
	const lk_job *job;
	char recompute[24]; /* texts that the request points to */
	char made[96];
} lk_trial;

/* A change: step `i` (0, 1, ...) of its kind, as an option of the request; false: no more steps. */
typedef bool (*lk_change)(lk_trial *trial, int i, char *text, size_t size);

static bool more_recompute(lk_trial *trial, int i, char *text, size_t size) {
	const lk_job *job = trial->job;
	if (job->recompute == LK_RECOMPUTE_FULL && job->recompute_layers == 0) return false;
	int layers =
		(job->model.layers + job->model.decoder_layers) / (job->pp * (job->vp > 0 ? job->vp : 1));
	int step = layers >= 8 ? layers / 4 : 1, count = (i + 1) * step;
	if (i > 4 || (i > 0 && count - step >= layers)) return false;
	if (count < layers) snprintf(trial->recompute, sizeof trial->recompute, "full/%d", count);
	else lk_copy(trial->recompute, sizeof trial->recompute, "full");
	trial->request.recompute = trial->recompute;
	snprintf(text, size, "--recompute %s", trial->recompute);
	return true;
}

static bool smaller_microbatch(lk_trial *trial, int i, char *text, size_t size) {
	int mbs = trial->job->mbs >> (i + 1);
	if (mbs < 1) return false;
	trial->request.mbs = mbs;
	snprintf(text, size, "--mbs %d", mbs);
	return true;
}

static bool wider_tp(lk_trial *trial, int i, char *text, size_t size) {
	int tp = trial->job->tp << (i + 1);
	if (i > 5 || tp > 64) return false;
	trial->request.tp = tp;
	snprintf(text, size, "--tp %d", tp);
	return true;
}

static bool longer_pipeline(lk_trial *trial, int i, char *text, size_t size) {
	int pp = trial->job->pp << (i + 1);
	if (i > 6 || pp > 1024 || lk_job_runs_as_written(trial->job)) return false;
	trial->request.pp = pp;
	snprintf(text, size, "--pp %d", pp);
	return true;
}

static bool more_sharding(lk_trial *trial, int i, char *text, size_t size) {
	static const char *const zero[] = {"0", "1", "2", "3"};
	int sharding = (int)trial->job->sharding + i + 1;
	if (sharding > LK_SHARD_ZERO3 || trial->job->dp * trial->job->cp == 1) return false;
	trial->request.zero = zero[sharding];
	bool ddp = strcmp(trial->job->stack, "ddp") == 0; /* it shards nothing */
	if (ddp) trial->request.stack = sharding > LK_SHARD_ZERO1 ? "fsdp" : "deepspeed";
	snprintf(text, size, "%s%s%s--zero %d", ddp ? "--stack " : "", ddp ? trial->request.stack : "",
	         ddp ? " " : "", sharding);
	return true;
}

static bool longer_context(lk_trial *trial, int i, char *text, size_t size) {
	int cp = trial->job->cp << (i + 1);
	if (i > 4 || trial->job->seq < 8192) return false;
	trial->request.cp = cp;
	snprintf(text, size, "--cp %d", cp);
	return true;
}

static bool more_experts(lk_trial *trial, int i, char *text, size_t size) {
	int ep = trial->job->ep << (i + 1);
	if (trial->job->model.experts == 0 || ep > trial->job->model.experts) return false;
	trial->request.ep = ep;
	snprintf(text, size, "--ep %d", ep);
	return true;
}

static bool offload(lk_trial *trial, int i, char *text, size_t size) {
	if (i > 0 || trial->job->offload_optimizer) return false;
	trial->request.offload_optimizer = true;
	snprintf(text, size, "--offload-optimizer");
	return true;
}

/* Weights on the host go with the optimizer's states there. */
static bool offload_weights(lk_trial *trial, int i, char *text, size_t size) {
	bool optimizer = trial->job->offload_optimizer;
	if (i > 0 || trial->job->offload_params || trial->job->sharding != LK_SHARD_ZERO3) return false;
	trial->request.offload_optimizer = trial->request.offload_params = true;
	snprintf(text, size, "%s--offload-params", optimizer ? "" : "--offload-optimizer ");
	return true;
}

static bool fuse_loss(lk_trial *trial, int i, char *text, size_t size) {
	if (i > 0 || trial->job->fused_cross_entropy == LK_ON || trial->job->loss ||
	    trial->job->model.vocab <= 0)
		return false;
	trial->request.fused_loss = 1;
	snprintf(text, size, "--fused-loss");
	return true;
}

/* Liger's kernels: less is kept between operations. */
static bool fuse_layers(lk_trial *trial, int i, char *text, size_t size) {
	if (i > 0 || trial->job->eager != LK_ON) return false;
	trial->request.eager = -1;
	snprintf(text, size, "--no-eager");
	return true;
}

/* Other training than was asked for. */
static bool train_adapters(lk_trial *trial, int i, char *text, size_t size) {
	if (i > 0 || trial->job->task == LK_TASK_LORA) return false;
	trial->request.task = lk_objective_adapted(trial->job->objective);
	snprintf(text, size, "--task %s", trial->request.task);
	return true;
}

static bool narrow_base(lk_trial *trial, int i, char *text, size_t size) {
	bool adapters = trial->job->task == LK_TASK_LORA;
	if (i > 0 || trial->job->narrow_base || trial->job->dtype <= LK_TF32) return false;
	trial->request.qlora = true;
	if (adapters) snprintf(text, size, "--qlora");
	else {
		trial->request.task = lk_objective_adapted(trial->job->objective);
		snprintf(text, size, "--task %s --qlora", trial->request.task);
	}
	return true;
}

static bool shorter_sequences(lk_trial *trial, int i, char *text, size_t size) {
	int seq = trial->job->seq >> (i + 1);
	if (seq < 256 || trial->job->model.vocab <= 0) return false;
	trial->request.seq = seq;
	snprintf(text, size, "--seq %d", seq);
	return true;
}

/* A described cluster has a fixed number of GPUs. */
static bool more_gpus(lk_trial *trial, int i, char *text, size_t size) {
	if (i > 3 || trial->job->sharding == LK_SHARD_NONE || trial->request.cluster) return false;
	trial->request.gpus = trial->job->gpus << (i + 1);
	snprintf(text, size, "--gpus %d", trial->request.gpus);
	return true;
}

static const lk_change changes[] = {
	fuse_loss,     fuse_layers, more_recompute,  smaller_microbatch,
	more_sharding, wider_tp,    longer_pipeline, longer_context,
	more_experts,  offload,     offload_weights, more_gpus,
};
static const lk_change last_changes[] = {train_adapters, narrow_base, shorter_sequences};
enum {
	CHANGES = sizeof changes / sizeof *changes,
	LAST_CHANGES = sizeof last_changes / sizeof *last_changes,
	BASES = 4, /* kinds on top of which others are tried, besides two at once */
	MOST = 2 * CHANGES * (BASES + 2) /* of each round one of a kind */
};

/* Apply one more change to the trial; false: no more steps. */
static bool trial_change(const lk_trial *from, lk_change change, int i, lk_trial *out) {
	char text[64];
	*out = *from;
	if (from->request.recompute == from->recompute) out->request.recompute = out->recompute;
	if (!change(out, i, text, sizeof text)) return false;
	size_t length = strlen(out->made);
	snprintf(out->made + length, sizeof out->made - length, "%s%s", length ? " " : "", text);
	return true;
}

/* A change that cannot run does not count; one that could not be tried for lack of memory or a file
 * is an error. */
static lk_status trial_refused(lk_status status) {
	return status == LK_ERR_MEMORY || status == LK_ERR_IO ? status : LK_OK;
}

typedef struct lk_fixer {
	const lk_asked *wanted;
	const lk_source *source; /* the text that would be changed; NULL: none that states the job */
	const char *unsaid;      /* what it does not state of the wanted job: options on top */
	const lk_step_options *options;
	lk_ground ground; /* of the request, which the changes leave as it is */
	lk_prediction *out;
	lk_fix *fixes;
} lk_fixer;

/* Read the changed request, with the batch of the requested job stated if it would differ. */
static lk_status trial_read(lk_arena *arena, const lk_fixer *fixer, lk_trial *trial,
                            lk_asked *asked, bool *reads, lk_error *err) {
	int gbs = fixer->wanted->job.gbs;
	lk_status status = lk_request_read_on(arena, &fixer->ground, &trial->request, asked, err);
	if (status == LK_OK && asked->job.gbs != gbs) {
		trial->request.gbs = gbs;
		size_t length = strlen(trial->made);
		snprintf(trial->made + length, sizeof trial->made - length, " --gbs %d", gbs);
		status = lk_request_read_on(arena, &fixer->ground, &trial->request, asked, err);
	}
	*reads = status == LK_OK;
	return trial_refused(status);
}

/* Whether a job's memory suffices; `open`: it is not completed yet. */
static lk_status trial_fits(lk_asked *asked, bool open, bool *fits, lk_error *err) {
	const lk_step_options memory = {.memory_only = true, .few = true};
	lk_step step = {0};
	lk_status status = open ? lk_job_complete(&asked->job, &asked->cluster, err) : LK_OK;
	*fits = false;
	if (status == LK_OK && lk_memory_hopeless(&asked->job, &asked->cluster)) return LK_OK;
	if (status == LK_OK) status = lk_step_ask(&asked->job, &asked->cluster, &memory, &step, err);
	*fits = status == LK_OK && lk_step_fits(&step) && !lk_step_risky(&step);
	lk_step_free(&step);
	return *fits ? LK_OK : trial_refused(status);
}

/* The change as edits of the text that states the job; *fits is false where it has no words for
 * it. Where it has words for a part, the job becomes what they make of it, unless options on top of
 * the text were given, which that job would lack. */
static lk_status trial_words(lk_arena *arena, const lk_fixer *fixer, lk_asked *changed, lk_fix *fix,
                             bool *fits, lk_error *err) {
	lk_written written = {.unsaid = NULL};
	lk_emitted text;
	*fix->words = '\0';
	if (!fixer->source) return LK_OK;
	lk_status status = lk_emit_edit(arena, fixer->source, true, &changed->job, &changed->cluster,
	                                &written, &text, err);
	bool same = written.unsaid && strcmp(written.unsaid, fixer->unsaid) == 0;
	*fits = same || (status == LK_OK && !*fixer->unsaid);
	if (status != LK_OK || !*fits) return trial_refused(status);
	lk_copy(fix->words, sizeof fix->words,
	        strlen(written.changes) < sizeof fix->words ? written.changes : "");
	if (same) return LK_OK;
	changed->job = written.job;
	return trial_fits(changed, true, fits, err);
}

/* Find whether the text that states the job can be edited. */
static lk_status fixer_find_source(lk_arena *arena, const lk_asked *wanted, lk_fixer *fixer,
                                   lk_error *err) {
	lk_written written = {.unsaid = NULL};
	lk_emitted text;
	if (!wanted->source) return LK_OK;
	lk_status status = lk_emit_edit(arena, wanted->source, true, &wanted->job, &wanted->cluster,
	                                &written, &text, err);
	if (written.unsaid) fixer->source = wanted->source, fixer->unsaid = written.unsaid;
	return trial_refused(status);
}

/* Whether the changed job fits; if so, its step time. */
static lk_status trial_ask(lk_arena *arena, const lk_fixer *fixer, lk_trial *trial, lk_fix *fix,
                           bool *fits, lk_error *err) {
	lk_step_options options = *fixer->options;
	lk_asked asked;
	lk_step step = {0};
	LK_TRY(trial_read(arena, fixer, trial, &asked, fits, err));
	if (*fits) LK_TRY(trial_fits(&asked, false, fits, err));
	if (!*fits) return LK_OK;
	LK_TRY(trial_words(arena, fixer, &asked, fix, fits, err));
	if (!*fits) return LK_OK;
	options.bare = true;
	lk_status status = lk_step_ask(&asked.job, &asked.cluster, &options, &step, err);
	*fits = status == LK_OK;
	if (!*fits) return trial_refused(status);
	lk_copy(fix->change, sizeof fix->change, trial->made);
	fix->peak_bytes = step.memory[step.fullest].total;
	fix->step_time_s = step.step_s;
	lk_step_free(&step);
	return LK_OK;
}

/* Find the first step of a kind of change that fits, in addition to the trial's changes. */
static lk_status fixer_try_change(lk_fixer *fixer, const lk_trial *from, lk_change change,
                                  lk_error *err) {
	LK_ASSERT(fixer->out->fix_count < MOST);
	lk_fix *fix = &fixer->fixes[fixer->out->fix_count];
	lk_trial trial;
	bool found = false;
	for (int i = 0; i < 8 && !found && trial_change(from, change, i, &trial); i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_status status = trial_ask(&arena, fixer, &trial, fix, &found, err);
		lk_arena_free(&arena);
		LK_TRY(status);
	}
	/* the same job by two ways is named once */
	for (int i = 0; found && i < fixer->out->fix_count; i++)
		found = fixer->fixes[i].peak_bytes != fix->peak_bytes ||
		        fixer->fixes[i].step_time_s != fix->step_time_s;
	double step_s = fixer->out->step_time_s;
	if (found) fix->time_ratio = step_s > 0 ? fix->step_time_s / step_s : 0;
	fixer->out->fix_count += found;
	return LK_OK;
}

LK_ORDER_BY(fixes_by_time, lk_fix, step_time_s)

enum { ENOUGH = 3, PIPELINES = 4 };

/* Try every kind of change except `made_by` in addition to that one. */
static lk_status fixer_try_all(lk_fixer *fixer, const lk_trial *from, lk_change made_by,
                               const lk_change *kinds, int count, lk_error *err) {
	for (int i = 0; i < count; i++)
		if (kinds[i] != made_by) LK_TRY(fixer_try_change(fixer, from, kinds[i], err));
	return LK_OK;
}

/* The strongest step of a kind that can run, and its job. */
static lk_status apply_fully(lk_arena *arena, const lk_fixer *fixer, const lk_trial *from,
                             lk_change change, lk_trial *out, lk_asked *asked, bool *found,
                             lk_error *err) {
	lk_trial trial;
	*found = false;
	for (int i = 0; i < PIPELINES && trial_change(from, change, i, &trial); i++) {
		lk_asked read;
		bool reads;
		LK_TRY(trial_read(arena, fixer, &trial, &read, &reads, err));
		if (!reads) continue;
		*asked = read;
		*out = trial;
		out->job = &asked->job;
		if (trial.request.recompute == trial.recompute) out->request.recompute = out->recompute;
		*found = true;
	}
	return LK_OK;
}

/* Try kinds of changes on top of the strongest steps of other kinds, up to NULL, as far as those
 * exist. */
static lk_status fixer_try_bases(lk_fixer *fixer, const lk_trial *plain, const lk_change *bases,
                                 const lk_change *kinds, int count, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_trial trial = *plain, next;
	lk_asked changed;
	lk_status status = LK_OK;
	lk_change last = NULL;
	for (; *bases && status == LK_OK; bases++) {
		bool found;
		status = apply_fully(&arena, fixer, &trial, *bases, &next, &changed, &found, err);
		if (status != LK_OK || !found) continue;
		last = *bases;
		lk_asked *kept = LK_NEW(&arena, lk_asked); /* the next step is one of this job */
		if (!kept) status = lk_oom(err);
		else *kept = changed;
		trial = next;
		if (next.request.recompute == next.recompute) trial.request.recompute = trial.recompute;
		if (kept) trial.job = &kept->job;
	}
	if (status == LK_OK && last) status = fixer_try_all(fixer, &trial, last, kinds, count, err);
	lk_arena_free(&arena);
	return status;
}

lk_status lk_find_fixes(lk_arena *arena, const lk_predict_request *request, const lk_asked *asked,
                        const lk_step_options *options, lk_prediction *out, lk_error *err) {
	static const lk_change bases[BASES][2] = {
		{more_recompute}, {more_sharding}, {longer_pipeline}, {wider_tp}};
	static const lk_change both[] = {more_sharding, more_recompute, NULL},
						   most[] = {more_sharding, more_recompute, smaller_microbatch, NULL};
	lk_fixer fixer = {
		.wanted = asked, .options = options, .out = out, .fixes = LK_ARRAY(arena, lk_fix, MOST)};
	if (!fixer.fixes) return lk_oom(err);
	LK_TRY(lk_request_ground(arena, request, &fixer.ground, err));
	LK_TRY(fixer_find_source(arena, asked, &fixer, err));
	lk_trial plain = {.request = *request, .job = &asked->job};
	LK_TRY(fixer_try_all(&fixer, &plain, NULL, changes, CHANGES, err));
	for (int i = 0; i < BASES && out->fix_count < ENOUGH; i++)
		LK_TRY(fixer_try_bases(&fixer, &plain, bases[i], changes, CHANGES, err));
	if (out->fix_count == 0) LK_TRY(fixer_try_bases(&fixer, &plain, both, changes, CHANGES, err));
	if (out->fix_count == 0) LK_TRY(fixer_try_bases(&fixer, &plain, most, changes, CHANGES, err));
	for (int i = 0; i < LAST_CHANGES && out->fix_count == 0; i++)
		LK_TRY(fixer_try_change(&fixer, &plain, last_changes[i], err));
	for (int i = 0; i < BASES && out->fix_count == 0; i++)
		LK_TRY(fixer_try_bases(&fixer, &plain, bases[i], last_changes, LAST_CHANGES, err));
	if (out->fix_count == 0)
		LK_TRY(fixer_try_bases(&fixer, &plain, both, last_changes, LAST_CHANGES, err));
	if (out->fix_count == 0)
		LK_TRY(fixer_try_bases(&fixer, &plain, most, last_changes, LAST_CHANGES, err));
	lk_sort(fixer.fixes, (size_t)out->fix_count, sizeof *fixer.fixes, fixes_by_time);
	out->fixes = fixer.fixes;
	return LK_OK;
}
