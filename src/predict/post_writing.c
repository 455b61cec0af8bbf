/* post_writing.c: the engines in a step of reinforcement learning: they generate sequences, as in
 * `predict --task generate` (predict_generate.c), and get the new weights (rollout/refit.c). */
#include <math.h>

#include "base/arena.h"
#include "predict/predict.h"
#include "predict/predict_internal.h"
#include "base/text.h"
#include "rollout/rollout.h"

lk_predict_request lk_post_writing_request(const lk_post *post) {
	const lk_predict_request *request = post->request;
	lk_predict_request writing;
	lk_predict_defaults(&writing);
	writing.task = "generate";
	writing.model = request->model, writing.as = request->as;
	writing.gpu = request->gpu, writing.gpus = request->gpus;
	writing.cluster = request->cluster, writing.power = request->power;
	writing.calibration = request->calibration;
	writing.tp = (int)post->said.tp, writing.pp = (int)post->said.pp;
	writing.ep = (int)post->said.ep;
	writing.dtype = post->said.dtype ? post->said.dtype : request->dtype;
	writing.cuda_graphs = post->said.eager > 0 ? -1 : 0;
	writing.prompt = request->prompt, writing.response = request->response;
	writing.response_max = request->response_max, writing.lengths = request->lengths;
	writing.samples = request->samples;
	writing.engine =
		!request->engine || lk_same_name(request->engine, "vllm") ? "vllm-rl" : request->engine;
	writing.gpu_mem_util = request->gpu_mem_util;
	writing.max_sequences = request->max_sequences, writing.max_tokens = request->max_tokens;
	writing.prefix_caching = request->prefix_caching;
	writing.attention_dp = request->attention_dp;
	writing.kv_dtype = request->kv_dtype, writing.speculative = request->speculative;
	return writing;
}

/* Engines that may run ahead begin the next sequences while the last ones finish: each takes its
 * part of `lag` batches in one queue. On the training GPUs they stop when a batch is complete, and
 * unfinished sequences continue in a later phase: `lag` + 1 batches in one queue. */
lk_status lk_post_write(lk_post *post, lk_predict_request *writing, lk_error *err) {
	double batches = post->apart ? fmax(1, post->said.lag) : 1 + post->said.lag;
	double all = ceil(post->sequences * post->said.oversample) * batches;
	if (all > 1e7) {
		lk_fail(err, LK_ERR_INPUT, "--rollout", "%.0f sequences in %.0f batches are too many", all,
		        batches);
		return lk_hint(err, "give at most 1e7 sequences in all");
	}
	writing->gbs = (int)all;
	lk_post_leave_room(post, writing);
	lk_prediction *written = LK_NEW(post->arena, lk_prediction);
	if (!written) return lk_oom(err);
	const lk_model *model = post->launched ? &post->asked.job.model : NULL;
	LK_TRY(lk_predict_generate(post->arena, writing, model, written, err));
	post->written = written;
	post->generation = post->written->step_time_s / batches;
	post->generation_low = post->written->step_time_low_s / batches;
	post->generation_high = post->written->step_time_high_s / batches;
	if (!post->mean_open) return LK_OK;
	/* from a mean of a quarter of the limit to the limit for all */
	lk_prediction end = {0};
	double most = writing->response_max;
	writing->response = fmax(1, most / 4);
	LK_TRY(lk_predict_generate(post->arena, writing, model, &end, err));
	post->generation_low = fmin(post->generation_low, end.step_time_low_s / batches);
	end = (lk_prediction){0};
	writing->response = most, writing->lengths = "fixed";
	LK_TRY(lk_predict_generate(post->arena, writing, model, &end, err));
	post->generation_high = fmax(post->generation_high, end.step_time_high_s / batches);
	return LK_OK;
}

void lk_post_refit(lk_post *post) {
	const lk_job *job = &post->asked.job;
	int gathered =
		job->tp * job->pp * job->ep < job->gpus ? job->tp * job->pp * job->ep : job->gpus;
	int engines = post->apart ? (int)post->said.gpus : job->gpus;
	post->refit =
		lk_refit_of(&(lk_refit_job){.model = &job->model,
	                                .cluster = &post->asked.cluster,
	                                .width = 2,
	                                .gathered_over = gathered,
	                                .engine_gpus = engines,
	                                .engine_shards = (int)(post->said.tp * post->said.pp),
	                                .transport = post->apart ? LK_REFIT_PACKED : LK_REFIT_IPC});
}
