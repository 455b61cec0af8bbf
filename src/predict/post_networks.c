/* post_networks.c: networks of a step of reinforcement learning other than the policy. Each has the
 * layout of the policy's training, on the training GPUs or on its own; its cost is that of a step
 * of its job, only forward passes if it is frozen:
 *
 *     critic         learns: weights, gradients, optimizer; a number for each token
 *     reward model   frozen: weights in 16 bits; a number for each token
 *     teacher        frozen; its distribution over the vocabulary */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "predict/predict_internal.h"
#include "model/layout/sizes.h"

/* The job of another network on the policy's layout, with fields that depend on the network open
 * again. */
static void network_take_model(const lk_model *model, lk_job *job) {
	int experts = model->experts;
	bool divided = experts > 0 && job->model.experts > 0 && experts % job->ep == 0;
	job->model = *model;
	job->model.mtp_layers = 0;
	job->ep = divided ? job->ep : 1;
	job->etp = divided ? job->etp : 0;
	job->first_stage_layers = job->last_stage_layers = 0;
	job->pipeline_layout[0] = '\0';
	job->split_open = true;
	job->vp = 0;
	job->schedule_said = false;
	job->padded_vocab = 0;
	job->padded_vocab_said = false;
	if (lk_job_pack_lacks(job)) job->pack_share = 0;
}

static lk_status network_job(const lk_post_network_request *request, lk_job *job, lk_error *err) {
	const lk_job *policy = &request->policy->job;
	*job = *policy;
	job->teacher = NULL;
	job->task = LK_TASK_PRETRAIN;
	job->narrow_base = job->dora = false;
	job->objective = LK_OBJECTIVE_TOKENS;
	if (request->name && strcmp(request->name, "policy") != 0) {
		lk_model model;
		LK_TRY(lk_model_preset(request->name, &model, err));
		network_take_model(&model, job);
	}
	if (request->scalar) { /* the head is a vector: no second matrix of the vocabulary's size */
		job->model.tied = true;
		job->logit_share = 1.0 / job->model.vocab;
	}
	if (request->gpus > 0) job->gpus = request->gpus;
	if (request->tp > 0) {
		job->tp = request->tp;
		job->pp = job->cp = 1, job->vp = 0;
		job->sequence_parallel = job->tp_overlap = LK_AUTO;
		job->schedule_said = false;
		job->ep = 1, job->etp = 0;
		job->pipeline_layout[0] = '\0';
		job->first_stage_layers = job->last_stage_layers = 0;
	}
	job->forward_only = request->update_rows == 0;
	job->dp = job->gpus / (job->tp * job->pp * job->cp);
	if (job->dp < 1 || job->gpus % (job->tp * job->pp * job->cp) != 0) {
		lk_fail(err, LK_ERR_INPUT, request->where, "%d GPUs do not hold tp %d x pp %d x cp %d",
		        job->gpus, job->tp, job->pp, job->cp);
		return lk_hint(err, "give a multiple of %d GPUs", job->tp * job->pp * job->cp);
	}
	job->gbs = lk_post_rows_dealt(request->rows, job);
	job->microbatches = 0;
	return lk_job_complete(job, &request->policy->cluster, err);
}

/* Peak memory over the stages during a step of it. A frozen network has neither gradients nor an
 * optimizer. */
static void network_peak(const lk_step *step, bool learns, lk_post_network *out) {
	lk_stage_memory *stage = &out->memory;
	lk_predict_stage(step, step->fullest, stage);
	stage->logits = fmax(0, stage->logits); /* almost 0, but rounding may make it negative */
	out->usable = step->usable;
	if (learns) return;
	double more = out->weights - stage->weights - stage->gradients - stage->optimizer;
	stage->weights = out->weights, stage->gradients = stage->optimizer = 0;
	stage->allocated += more, stage->reserved += more, stage->total += more;
	stage->low += more, stage->high += more;
}

/* Predict a step of the job with this many rows: its seconds, and its memory into `out`. */
static lk_status network_ask(const lk_post_network_request *request, lk_job *job, int rows,
                             double *seconds, lk_post_network *out, lk_error *err) {
	lk_step_options options = {.few = true}; /* a bare step has no time if it does not fit */
	lk_step step = {0};
	job->gbs = lk_post_rows_dealt(rows, job);
	job->microbatches = job->gbs / (job->mbs * job->dp);
	LK_TRY(lk_job_check_passes(job, err));
	lk_status status = lk_step_ask(job, &request->policy->cluster, &options, &step, err);
	*seconds = step.step_s;
	/* a trained network peaks in an update, which is predicted first */
	if (status == LK_OK && !out->memory.total) network_peak(&step, !job->forward_only, out);
	lk_step_free(&step);
	return status;
}

/* Bytes of a frozen 16-bit copy of the job's network on a GPU of the largest stage: sharded if its
 * training shards weights. */
static double frozen_bytes(const lk_job *job) {
	double dense, experts, most = 0;
	lk_sizes_shards(job, &dense, &experts);
	if (job->sharding != LK_SHARD_ZERO3) dense = experts = 1;
	for (int stage = 0; stage < job->pp; stage++) {
		lk_rank_params params = lk_sizes_stage(job, stage);
		most = fmax(most, 2 * (params.dense / dense + params.experts / experts));
	}
	return most;
}

/* For a trained network: the largest stage. */
static void network_memory(const lk_job *job, lk_post_network *out) {
	double most = -1;
	for (int stage = 0; stage < job->pp; stage++) {
		lk_resident held = lk_sizes_resident(job, stage);
		if (held.weights + held.optimizer <= most) continue;
		most = held.weights + held.optimizer;
		out->weights = held.weights, out->gradients = held.gradients;
		out->optimizer = held.optimizer;
	}
}

lk_status lk_post_network_of(lk_arena *arena, const lk_post_network_request *request,
                             lk_post_network *out, lk_error *err) {
	lk_job *job = LK_NEW(arena, lk_job);
	if (!job) return lk_oom(err);
	LK_TRY(network_job(request, job, err));
	bool learns = request->update_rows > 0;
	*out = (lk_post_network){.model = &job->model};
	if (learns) {
		network_memory(job, out);
		LK_TRY(network_ask(request, job, request->update_rows, &out->update_s, out, err));
	} else out->weights = frozen_bytes(job);
	job->forward_only = true;
	return network_ask(request, job, request->rows, &out->pass_s, out, err);
}
