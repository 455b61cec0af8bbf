/* predict_post.c: `predict --task grpo|dapo|ppo|distill`: a step of reinforcement learning, from
 * rollout to refit. Each phase is answered by what answers it alone: generation by rollout/,
 * log-probabilities and updates by the step graph of the training layout, forward passes alone or
 * whole steps.
 *
 * On the same GPUs phases follow one another:
 *     step = generation + reward + values + log-probabilities + updates + refit + offload
 * Where `lag` is stated there, sequences that are unfinished when a batch is complete go on with
 * the next. Engines on GPUs of their own that may run `lag` steps ahead write the next sequences
 * while the last are learned; both sides stop for the refit: step = max(generation, the rest of it)
 * + refit docs/method/post-training.md states what each phase is. */
#include "predict/predict_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/units.h"
#include "base/noun.h"
#include "options/command.h"
#include "rollout/rollout.h"

/* ---- the request ---- */

/* What an algorithm keeps besides the policy. DAPO has no term against a reference (arXiv
 * 2503.14476, section 2.3), PPO learns a critic; a distillation of the policy's own sequences
 * learns a teacher's distribution (arXiv 2306.13649), without a ratio to an older policy. */
struct algorithm {
	const char *name;
	bool policy, reference, critic, teacher;
};
static const struct algorithm algorithms[] = {
	{"grpo", true, true, false, false},
	{"dapo", true, false, false, false},
	{"ppo", true, true, true, false},
	{"distill", false, false, false, true},
};
enum {
	ALGORITHMS = sizeof algorithms / sizeof *algorithms,
	POST_SEED = 1,
	POST_ASSUMPTIONS = 16
};

static const struct algorithm *algorithm_of(const lk_predict_request *request) {
	for (int i = 0; request->task && i < ALGORITHMS; i++)
		if (lk_same_name(request->task, algorithms[i].name)) return &algorithms[i];
	return NULL;
}

bool lk_predict_posts(const lk_predict_request *request) {
	return algorithm_of(request) != NULL;
}

struct post {
	lk_arena *arena;
	const lk_predict_request *request; /* what its launch line or file states is filled in */
	const lk_predict_request *given;   /* as it came */
	bool launched, mean_open, prompt_open;
	const struct algorithm *algorithm;
	lk_post_words said;
	bool apart;                   /* engines have GPUs of their own */
	lk_asked asked;               /* the training */
	const char *cluster;          /* all GPUs */
	double *lengths;              /* [sequences], prompt and response */
	int sequences, gpus, updates; /* updates: of one pass over the sequences */
	/* seconds */
	double generation, generation_low, generation_high;
	double scoring; /* forward passes of policy and reference over all sequences */
	double update, offload;
	lk_post_rows rows;                          /* of a step */
	lk_post_network critic, rewarding, teacher; /* without a model: there is none */
	double reference;                           /* bytes of its weights on a GPU */
	double kept;                                /* bytes that stay while engines run there */
	lk_refit refit;
	lk_stage_memory *memory; /* [trained->memory_count] */
	lk_prediction *written, *trained;
};

static lk_status read_rollout(struct post *post, lk_error *err) {
	const struct algorithm *algorithm = post->algorithm;
	lk_post_words *said = &post->said;
	*said = (lk_post_words){.oversample = 1,
	                        .epochs = 1,
	                        .tp = 1,
	                        .pp = 1,
	                        .ep = 1,
	                        .policy = algorithm->policy,
	                        .reference = algorithm->reference,
	                        .offload_params = 1,
	                        .offload_optimizer = 1,
	                        .offload_reference = 1,
	                        .critic_epochs = -1,
	                        .critic_offload_params = -1,
	                        .critic_offload_optimizer = -1,
	                        .sleep = 1};
	LK_TRY(lk_post_words_read(post->arena, post->request->rollout, said, err));
	post->apart = said->gpus > 0;
	const char *idle = NULL;
	if (!algorithm->critic &&
	    (said->critic || said->critic_gpus > 0 || said->critic_epochs > 0 ||
	     said->critic_offload_params >= 0 || said->critic_offload_optimizer >= 0))
		idle = "critic";
	if (said->critic_epochs < 0) said->critic_epochs = said->epochs;
	if (said->critic_offload_params < 0) said->critic_offload_params = said->offload_params;
	if (said->critic_offload_optimizer < 0)
		said->critic_offload_optimizer = said->offload_optimizer;
	if (!said->teacher && said->teacher_gpus + said->teacher_tp > 0) idle = "teacher_gpus";
	if (idle) {
		lk_fail(err, LK_ERR_INPUT, "--rollout", "%s: a step of --task %s has none", idle,
		        algorithm->name);
		return lk_hint(err, "leave it out%s",
		               *idle == 'c' ? ", or use --task ppo"
		                            : ", or name the network with teacher=");
	}
	if (!algorithm->teacher || said->teacher) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--rollout", "a distillation without a teacher");
	return lk_hint(err, "name its network: --rollout teacher=%.60s",
	               post->request->teacher ? post->request->teacher : "qwen3-32b");
}

/* What a step of several phases does not answer. */
static lk_status check_post(const lk_predict_request *request, lk_error *err) {
	const char *where = NULL;
	if (request->dpo) where = "--dpo";
	if (request->step) where = "--trace, --graph, --chakra or --goal";
	if (request->seeds) where = "--seeds";
	if (request->tokens > 0) where = "--tokens";
	if (request->mtbf_hours > 0) where = "--mtbf";
	if (request->mains.pue > 0) where = "--pue";
	if (request->mains.carbon > 0) where = "--carbon";
	if (request->mains.price_kwh > 0) where = "--price-kwh";
	if (request->emit) where = "--emit";
	if (!where) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "it has no effect on --task %s", request->task);
	return lk_hint(err, "leave it out; the options of training and of generation act");
}

/* The cluster of all GPUs, where the file states only those that train. */
static lk_status name_all_gpus(struct post *post, lk_error *err) {
	lk_cluster *all = LK_NEW(post->arena, lk_cluster);
	lk_where where = {
		.gpu = post->request->gpu, .gpus = post->gpus, .power_w = post->request->power};
	if (!all) return lk_oom(err);
	LK_TRY(lk_where_read(post->arena, &where, all, NULL, err));
	post->cluster = all->text;
	return LK_OK;
}

static lk_status count_gpus(struct post *post, lk_predict_request *training,
                            lk_predict_request *writing, lk_error *err) {
	const lk_predict_request *request = post->request;
	lk_asked *whole = LK_NEW(post->arena, lk_asked);
	if (!whole) return lk_oom(err);
	LK_TRY(lk_request_take(post->arena, training, whole, err));
	const char *lacks = lk_engine_lacks(&whole->job.model);
	if (lacks) {
		lk_fail(err, LK_ERR_INPUT, "--task", "generation of %s is not modelled: %s",
		        whole->job.model.name, lacks);
		return lk_hint(err, "give a language model, or leave --task out");
	}
	int engines = (int)post->said.gpus,
		own = engines + (int)(post->said.critic_gpus + post->said.teacher_gpus);
	post->gpus = whole->job.gpus;
	post->cluster = whole->cluster.text;
	if (post->launched && !request->gpus && !request->cluster) {
		/* a file states the GPUs that train */
		writing->gpus = post->apart ? engines : post->gpus;
		post->gpus += own;
		return own > 0 ? name_all_gpus(post, err) : LK_OK;
	}
	if (own == 0) return LK_OK;
	if (request->cluster) {
		lk_fail(err, LK_ERR_INPUT, "--cluster", "GPUs of a cluster cannot be divided yet");
		return lk_hint(err, "give --gpu and --gpus with all GPUs, or leave gpus= of --rollout out");
	}
	training->gpus = post->gpus - own;
	writing->gpus = post->apart ? engines : training->gpus;
	if (training->gpus > 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--rollout", "%d of %d GPUs generate%s: none is left to train", own,
	        post->gpus, own > engines ? ", or serve a critic or a teacher" : "");
	return lk_hint(err, "give --gpus with all GPUs, those that train too");
}

/* ---- sequences and rows ---- */

static lk_status read_post_lengths(struct post *post, lk_error *err) {
	const lk_predict_request *request = post->request;
	double prompt = request->prompt > 0 ? request->prompt : 128, most = request->response_max;
	if (!(request->response > 0) && !request->lengths) {
		lk_fail(err, LK_ERR_INPUT, "--response", "the length of responses is not known");
		return lk_hint(err,
		               "give --response with the mean tokens of one, or --lengths with a file");
	}
	size_t count = (size_t)post->sequences;
	int kind = LK_LENGTHS_LOGNORMAL;
	const char *file = request->lengths;
	post->lengths = LK_ARRAY(post->arena, double, count);
	if (!post->lengths) return lk_oom(err);
	for (int i = 0; file && lk_length_kind_names[i]; i++)
		if (lk_same_name(file, lk_length_kind_names[i])) kind = i, file = NULL;
	if (file) LK_TRY(lk_lengths_read(file, count, post->lengths, err));
	else
		lk_lengths_spread((lk_length_kind)kind, request->response, most, POST_SEED, count,
		                  post->lengths);
	for (size_t i = 0; i < count; i++) {
		if (most > 0) post->lengths[i] = fmin(most, post->lengths[i]);
		post->lengths[i] += prompt;
	}
	return LK_OK;
}

/* Rows that any layout divides: what a file states are sequences, and how many rows they fill is
 * not known before the layout is. */
static int rows_for_any(const struct post *post, const lk_predict_request *training) {
	int mbs = training->mbs > 0 ? training->mbs : post->asked.job.mbs;
	int own = (int)(post->said.gpus + post->said.critic_gpus + post->said.teacher_gpus);
	return (mbs > 0 ? mbs : 1) * (post->gpus - own);
}

/* ---- the phases ---- */

/* A launch line or file states the task itself. */
static lk_predict_request training_request(const lk_predict_request *request, bool launched) {
	lk_predict_request training = *request;
	training.task = launched ? NULL : "sft";
	training.rollout = training.lengths = training.engine = NULL;
	training.kv_dtype = training.speculative = NULL;
	training.prompt = training.response = training.response_max = training.gpu_mem_util = 0;
	training.samples = training.max_sequences = training.max_tokens = 0;
	training.prefix_caching = 0;
	training.attention_dp = false;
	training.no_fixes = true;
	return training;
}

static lk_predict_request writing_request(const struct post *post) {
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
	writing.samples = request->samples, writing.engine = request->engine;
	writing.gpu_mem_util = request->gpu_mem_util;
	writing.max_sequences = request->max_sequences, writing.max_tokens = request->max_tokens;
	writing.prefix_caching = request->prefix_caching;
	writing.attention_dp = request->attention_dp;
	writing.kv_dtype = request->kv_dtype, writing.speculative = request->speculative;
	return writing;
}

/* The training alone; what is kept of its answer is copied out of it. */
static lk_status keep_training(struct post *post, const lk_prediction *answer, lk_error *err) {
	lk_prediction *kept = LK_NEW(post->arena, lk_prediction);
	lk_stage_memory *memory = LK_ARRAY(post->arena, lk_stage_memory, answer->memory_count);
	if (!kept || !memory) return lk_oom(err);
	memcpy(memory, answer->memory, (size_t)answer->memory_count * sizeof *memory);
	*kept = *answer;
	kept->memory = post->memory = memory;
	kept->layout = lk_arena_strdup(post->arena, answer->layout);
	kept->model = lk_arena_strdup(post->arena, answer->model);
	kept->recompute = lk_arena_strdup(post->arena, answer->recompute);
	kept->peak_label = answer->peak_label ? lk_arena_strdup(post->arena, answer->peak_label) : NULL;
	post->trained = kept;
	return kept->layout && kept->model && kept->recompute ? LK_OK : lk_oom(err);
}

static lk_status ask_training(struct post *post, const lk_predict_request *training,
                              lk_error *err) {
	struct lk_answer answer = {0};
	lk_status status = lk_answer_job(training, NULL, &answer, err);
	if (status == LK_OK) status = keep_training(post, &answer.p, err);
	lk_step_free(&answer.step);
	lk_arena_free(&answer.arena);
	return status;
}

/* Where nobody says how much memory engines take, those on the GPUs that train take what is left of
 * it: while they run, and all the time where they do not sleep. */
static void leave_room(const struct post *post, lk_predict_request *writing) {
	double whole = post->trained->usable_bytes,
		   held = post->said.sleep > 0 ? post->kept : post->trained->peak_bytes;
	const char *name = writing->engine ? writing->engine : "vllm";
	const lk_engine_software *software = lk_engine_software_find(name);
	if (post->apart || writing->gpu_mem_util > 0 || !software || !(held > 0)) return;
	writing->gpu_mem_util = fmax(0.05, fmin(software->memory_share, 0.98 - held / whole));
}

/* Engines and training on the same GPUs: what one keeps while the other runs. */
static lk_status share_memory(struct post *post, double share, lk_error *err) {
	lk_prediction *trained = post->trained, *written = post->written;
	double taken = fmax(written->peak_bytes, share * trained->usable_bytes);
	if (post->apart) return LK_OK;
	if (post->kept > 0) {
		lk_stage_memory *stage = LK_NEW(post->arena, lk_stage_memory);
		if (!stage) return lk_oom(err);
		*stage = written->memory[0];
		stage->optimizer += post->kept;
		stage->buffers += taken - stage->total;
		stage->total = taken + post->kept;
		stage->reserved = stage->allocated = stage->total - stage->context;
		lk_copy(stage->moment, sizeof stage->moment,
		        "the largest batch, with what the training keeps");
		written->memory = stage;
		written->peak_bytes = stage->total, written->usable_bytes = trained->usable_bytes;
		written->fits = written->fits && written->peak_bytes <= written->usable_bytes;
	}
	if (post->said.sleep > 0) return LK_OK;
	for (int i = 0; i < trained->memory_count; i++) {
		post->memory[i].buffers += taken, post->memory[i].allocated += taken;
		post->memory[i].reserved += taken, post->memory[i].total += taken;
		post->memory[i].low += taken, post->memory[i].high += taken;
	}
	trained->peak_bytes += taken;
	trained->fits = trained->peak_bytes <= trained->usable_bytes;
	return LK_OK;
}

/* Engines that may run ahead begin the next sequences while the last ones end: of `lag` batches in
 * one queue each takes its part. On the GPUs that train they stop when a batch is finished, and
 * what is not goes on in a later phase: of `lag` + 1 batches in one queue. */
static lk_status run_writing(struct post *post, lk_predict_request *writing, lk_error *err) {
	double batches = post->apart ? fmax(1, post->said.lag) : 1 + post->said.lag;
	double all = ceil(post->sequences * post->said.oversample) * batches;
	if (all > 1e7) {
		lk_fail(err, LK_ERR_INPUT, "--rollout", "%.0f sequences in %.0f batches are too many", all,
		        batches);
		return lk_hint(err, "give at most 1e7 sequences in all");
	}
	writing->gbs = (int)all;
	leave_room(post, writing);
	lk_prediction *written = LK_NEW(post->arena, lk_prediction);
	if (!written) return lk_oom(err);
	const lk_model *model = post->launched ? &post->asked.job.model : NULL;
	LK_TRY(lk_predict_generate(post->arena, writing, model, written, err));
	post->written = written;
	post->generation = post->written->step_time_s / batches;
	post->generation_low = post->written->step_time_low_s / batches;
	post->generation_high = post->written->step_time_high_s / batches;
	if (!post->mean_open) return LK_OK;
	/* from a quarter of the limit in the mean to the limit for all */
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

/* Forward passes of `rows` rows through the training layout. */
static lk_status run_scoring(struct post *post, double rows, double *seconds, lk_error *err) {
	lk_job job = post->asked.job;
	lk_step step = {0};
	job.forward_only = true;
	job.gbs = lk_post_rows_dealt(rows, &job);
	job.microbatches = job.gbs / (job.mbs * job.dp);
	lk_step_options options = {.few = true}; /* a bare step has no time where it does not fit */
	lk_status status = lk_step_ask(&job, &post->asked.cluster, &options, &step, err);
	*seconds = step.step_s;
	lk_step_free(&step);
	return status;
}

/* Networks besides the policy, on the rows of a step. */
static lk_status run_networks(struct post *post, int rows, int update, lk_error *err) {
	const lk_post_words *said = &post->said;
	lk_post_network_request network = {.policy = &post->asked, .rows = rows};
	if (said->reward_model) {
		network.name = said->reward_model, network.where = "--rollout reward_model";
		network.scalar = true;
		LK_TRY(lk_post_network_of(post->arena, &network, &post->rewarding, err));
	}
	if (post->algorithm->critic) {
		network.name = said->critic, network.where = "--rollout critic";
		network.scalar = true;
		network.update_rows = update, network.gpus = (int)said->critic_gpus;
		LK_TRY(lk_post_network_of(post->arena, &network, &post->critic, err));
		post->critic.update_s *= post->updates * said->critic_epochs;
	}
	if (!said->teacher) return LK_OK;
	network = (lk_post_network_request){.policy = &post->asked,
	                                    .name = said->teacher,
	                                    .where = "--rollout teacher",
	                                    .gpus = (int)said->teacher_gpus,
	                                    .tp = (int)said->teacher_tp,
	                                    .rows = rows};
	return lk_post_network_of(post->arena, &network, &post->teacher, err);
}

/* Rows that sequences share are as long as what is in them, but where a pipeline wants equal ones
 * (full_rows): `rows` of them of the tokens of an update, in units that the layout divides.
 * Attention stays within sequences, of the length that has as many pairs; where each is a row, of
 * the row's. */
static lk_status shorten_rows(struct post *post, double rows, double part,
                              lk_predict_request *training, lk_error *err) {
	const lk_job *job = &post->asked.job;
	double unit = 16.0 * job->tp * job->cp, held = post->rows.tokens * part / rows;
	if (!(post->said.full_rows > 0)) training->seq = (int)fmin(job->seq, ceil(held / unit) * unit);
	if (training->pack || post->said.by_sequence > 0 || job->attn_kernel == LK_KERNEL_UNFUSED ||
	    job->model.index_heads > 0 || job->model.tower.layers > 0)
		return LK_OK;
	training->pack =
		lk_arena_printf(post->arena, "fixed:%.1f", post->rows.pairs / post->rows.tokens);
	return training->pack ? LK_OK : lk_oom(err);
}

/* As long as the longest sequence, in units that the layout divides. */
static int longest_row(const struct post *post, const lk_predict_request *training,
                       double longest) {
	int tp = training->tp > 0 ? training->tp : post->asked.job.tp,
		cp = training->cp > 0 ? training->cp : post->asked.job.cp;
	int unit = 2 * (tp > 1 ? tp : 1) * (cp > 1 ? cp : 1);
	return (int)ceil(longest / unit) * unit;
}

/* Where each sequence is a row, the micro-batch that has the longest of a step takes most memory:
 * it, with others of the mean. */
static lk_status hold_longest(struct post *post, double longest, lk_error *err) {
	lk_job job = post->asked.job;
	lk_prediction *trained = post->trained;
	lk_step_options options = {.memory_only = true, .few = true};
	lk_step step = {0};
	int unit = 16 * job.tp * job.cp;
	double mean = (longest + (job.mbs - 1.0) * job.seq) / job.mbs;
	job.seq = (int)fmax(job.seq, ceil(mean / unit) * unit);
	lk_status status = lk_step_ask(&job, &post->asked.cluster, &options, &step, err);
	if (status == LK_OK) {
		for (int i = 0; i < trained->memory_count; i++)
			lk_predict_stage(&step, i, &post->memory[i]);
		trained->fullest_stage = step.fullest;
		trained->peak_bytes = step.memory[step.fullest].total, trained->usable_bytes = step.usable;
		trained->fits = trained->peak_bytes <= trained->usable_bytes;
	}
	lk_step_free(&step);
	return status;
}

static lk_status run_training(struct post *post, lk_predict_request *training, lk_error *err) {
	int each = post->sequences / post->updates;
	double longest = 0;
	bool packed = !(post->said.padded > 0), shared = packed && !(post->said.by_sequence > 0);
	for (int i = 0; i < post->sequences; i++) longest = fmax(longest, post->lengths[i]);
	int row = training->seq > 0 ? training->seq : post->asked.job.seq;
	if (row == 0 || (!packed && longest < row)) row = longest_row(post, training, longest);
	training->seq = row;
	if (post->launched) training->gbs = rows_for_any(post, training);
	LK_TRY(lk_request_read(post->arena, training, &post->asked, err));
	LK_TRY(lk_post_rows_fill(post->arena, post->lengths, (size_t)post->sequences,
	                         post->asked.job.seq, shared, &post->rows, err));
	double whole = post->rows.rows, part = (double)each / post->sequences;
	int update = lk_post_rows_dealt(whole * part, &post->asked.job);
	training->gbs = update;
	if (packed) {
		LK_TRY(shorten_rows(post, update, part, training, err));
		whole = fmax(whole, post->rows.tokens / training->seq);
		LK_TRY(lk_request_read(post->arena, training, &post->asked, err));
	}
	double pass;
	LK_TRY(run_scoring(post, whole, &pass, err));
	post->scoring = pass * (post->said.policy + post->said.reference);
	LK_TRY(ask_training(post, training, err));
	post->update = post->trained->step_time_s * post->updates * post->said.epochs;
	if (packed && !shared) LK_TRY(hold_longest(post, fmin(longest, row), err));
	return run_networks(post, (int)ceil(whole), update, err);
}

/* Bytes/s of a process that copies to host memory which is not pinned and was just allocated: the
 * driver stages it, the host clears each page first. An assumption that was chosen with published
 * steps in view (docs/method/post-training.md). */
static const double HOST_COPY_RATE = 4e9;

/* What a training keeps on a GPU: weights, and what the optimizer needs. Sharded weights (ZeRO 3)
 * of a 16-bit training are the optimizer's 32-bit ones. */
static void split_kept(const lk_job *job, double weights, double optimizer, double *params,
                       double *states) {
	bool sharded = job->sharding == LK_SHARD_ZERO3;
	double masters = sharded && weights <= 0 && lk_sizes_state_bytes(job) > 4
	                     ? optimizer * 4 / lk_sizes_state_bytes(job)
	                     : 0;
	*params = weights + masters;
	*states = optimizer - masters;
}

/* Engines on the GPUs that train need the room of what training keeps. What the file or the words
 * say goes to the host and back: weights and optimizer, of the critic too. Gradients are not
 * copied: they are zero by then. Frozen networks wait in pages that are there from the start on. */
static void run_offload(struct post *post) {
	const lk_post_words *said = &post->said;
	const lk_cluster *cluster = &post->asked.cluster;
	const lk_post_network *critic = &post->critic;
	const lk_stage_memory *held = &post->trained->memory[post->trained->fullest_stage];
	double pcie = cluster->node[0].device->pcie_rate, rate = fmin(HOST_COPY_RATE, pcie);
	double params, states, critic_params, critic_states;
	split_kept(&post->asked.job, held->weights, held->optimizer, &params, &states);
	split_kept(&post->asked.job, critic->weights, critic->optimizer, &critic_params,
	           &critic_states);
	bool shared = critic->model && !(said->critic_gpus > 0),
		 adapters = post->asked.job.task == LK_TASK_LORA; /* the reference is the frozen base */
	post->reference = said->reference > 0 && !adapters ? lk_post_frozen_bytes(&post->asked.job) : 0;
	double moved = 0, pinned = said->offload_reference > 0 ? post->reference : 0;
	double stay = post->asked.job.sharding == LK_SHARD_ZERO3 ? 0 : 1; /* gradients */
	if (!post->apart) {
		if (said->offload_params > 0) moved += params;
		if (said->offload_optimizer > 0) moved += states;
		if (shared && said->critic_offload_params > 0) moved += critic_params;
		if (shared && said->critic_offload_optimizer > 0) moved += critic_states;
	}
	if (post->teacher.model && !(said->teacher_gpus > 0)) pinned += post->teacher.weights;
	post->offload = 2 * (moved / rate + pinned / pcie);
	params += stay * held->gradients, critic_params += stay * critic->gradients;
	post->kept = (said->offload_params > 0 ? 0 : params) +
	             (said->offload_optimizer > 0 ? 0 : states) +
	             (!shared || said->critic_offload_params > 0 ? 0 : critic_params) +
	             (!shared || said->critic_offload_optimizer > 0 ? 0 : critic_states) +
	             (said->offload_reference > 0 ? 0 : post->reference) + post->rewarding.weights;
}

/* What the other networks keep on the GPUs that train, with the policy's training. */
static void add_kept(struct post *post) {
	lk_prediction *trained = post->trained;
	const lk_post_network *critic = &post->critic;
	bool shared = critic->model && !(post->said.critic_gpus > 0);
	lk_resident more = {
		.weights = post->rewarding.weights + (shared ? critic->weights : 0) +
	               (post->said.offload_reference > 0 ? 0 : post->reference),
		.gradients = shared ? critic->gradients : 0,
		.optimizer = shared ? critic->optimizer : 0,
	};
	double all = more.weights + more.gradients + more.optimizer;
	for (int i = 0; i < trained->memory_count; i++) {
		lk_stage_memory *stage = &post->memory[i];
		stage->weights += more.weights, stage->gradients += more.gradients;
		stage->optimizer += more.optimizer;
		stage->allocated += all, stage->reserved += all, stage->total += all;
		stage->low += all, stage->high += all;
	}
	trained->peak_bytes += all;
	trained->fits = trained->peak_bytes <= trained->usable_bytes;
}

static void run_refit(struct post *post) {
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

/* ---- the answer ---- */

enum {
	POST_GENERATION,
	POST_REWARD,
	POST_VALUES,
	POST_SCORING,
	POST_TEACHER,
	POST_UPDATE,
	POST_CRITIC,
	POST_REFIT,
	POST_OFFLOAD,
	POST_WAIT,
	POST_PHASES
};
static const char *const phase_keys[POST_PHASES] = {
	"generation", "reward", "values", "log_probabilities", "teacher",
	"training",   "critic", "refit",  "offload",           "idle"};
static const char *const phase_labels[POST_PHASES] = {
	"generation",
	"reward",
	"values of the critic",
	"log-probabilities",
	"log-probabilities of the teacher",
	"training of the policy",
	"training of the critic",
	"refit: weights to engines",
	"offload and reload",
	"training waits for sequences",
};

/* Of the GPUs that train; what engines and networks with GPUs of their own do at the same time is
 * hidden for as long as those train. Returns the step. */
static double fill_phases(const struct post *post, double generation, lk_time_part *parts) {
	double at[POST_PHASES] = {
		[POST_GENERATION] = generation,
		[POST_REWARD] = post->said.reward + post->rewarding.pass_s,
		[POST_VALUES] = post->critic.pass_s,
		[POST_SCORING] = post->scoring,
		[POST_TEACHER] = post->teacher.pass_s,
		[POST_UPDATE] = post->update,
		[POST_CRITIC] = post->critic.update_s,
		[POST_REFIT] = post->refit.seconds,
		[POST_OFFLOAD] = post->offload,
	};
	double hidden[POST_PHASES] = {0};
	if (post->said.critic_gpus > 0) {
		hidden[POST_VALUES] = fmin(at[POST_VALUES], post->scoring);
		hidden[POST_CRITIC] = fmin(at[POST_CRITIC], post->update);
	}
	if (post->said.teacher_gpus > 0)
		hidden[POST_TEACHER] = fmin(at[POST_TEACHER], fmax(0, post->scoring - hidden[POST_VALUES]));
	double learned = 0, step = 0;
	for (int i = POST_REWARD; i < POST_REFIT; i++) learned += at[i] - hidden[i];
	if (post->apart && post->said.lag > 0) {
		hidden[POST_GENERATION] = generation;
		at[POST_WAIT] = fmax(0, generation - learned);
	}
	for (int i = 0; i < POST_PHASES; i++) {
		parts[i] = (lk_time_part){phase_keys[i], phase_labels[i], at[i] - hidden[i], hidden[i]};
		step += parts[i].exposed_s;
	}
	return step;
}

static double add_span(lk_prediction *prediction, int part, bool engines, double start,
                       double seconds) {
	if (seconds > 0 && prediction->phase_span_count < LK_PHASE_SPANS)
		prediction->spans[prediction->phase_span_count++] =
			(lk_phase_span){part, engines, start, start + seconds};
	return start + fmax(0, seconds);
}

/* When each side does what: on GPUs of their own engines write at the start of a step, whether the
 * others wait for it or learn what was written before; both stop for the refit. */
static void fill_post_spans(const struct post *post, lk_prediction *prediction) {
	const lk_time_part *parts = prediction->breakdown;
	double at = 0, refit = prediction->step_time_s - post->refit.seconds;
	for (int i = 0; i < prediction->breakdown_count; i++) {
		const char *key = parts[i].key;
		bool waits = strcmp(key, phase_keys[POST_WAIT]) == 0,
			 moves = strcmp(key, phase_keys[POST_REFIT]) == 0,
			 writes = strcmp(key, phase_keys[POST_GENERATION]) == 0;
		if (post->apart && (waits || moves)) continue;
		at = add_span(prediction, post->apart && writes ? -1 : i, false, at, parts[i].exposed_s);
	}
	if (!post->apart) return;
	at = add_span(prediction, -1, false, at, refit - at);
	for (int side = 0; side < 2; side++)
		for (int i = 0; i < prediction->breakdown_count; i++) {
			double whole = parts[i].exposed_s + parts[i].hidden_s;
			bool moves = strcmp(parts[i].key, phase_keys[POST_REFIT]) == 0;
			if (side && strcmp(parts[i].key, phase_keys[POST_GENERATION]) == 0) {
				double end = add_span(prediction, i, true, 0, whole);
				add_span(prediction, -1, true, end, refit - end);
			} else if (moves) add_span(prediction, i, side, refit, post->refit.seconds);
		}
}

/* Tokens of a step over those assumed, where nobody says how long responses are: with a quarter of
 * the limit in the mean, and with the limit for all. */
static void open_lengths(const struct post *post, double *shorter, double *longer) {
	const lk_predict_request *request = post->request;
	double prompt = request->prompt > 0 ? request->prompt : 128, most = request->response_max;
	*shorter = *longer = 1;
	if (!post->mean_open) return;
	*shorter = (prompt + most / 4) / (prompt + request->response);
	*longer = (prompt + most) / (prompt + request->response);
}

static lk_status fill_post_times(const struct post *post, lk_prediction *prediction,
                                 lk_error *err) {
	lk_time_part *parts = LK_ARRAY(post->arena, lk_time_part, POST_PHASES);
	lk_time_part other[POST_PHASES];
	if (!parts) return lk_oom(err);
	prediction->step_time_s = fill_phases(post, post->generation, parts);
	const lk_prediction *trained = post->trained;
	double learned = 0, shorter, longer;
	for (int i = POST_VALUES; i <= POST_CRITIC; i++) learned += parts[i].exposed_s;
	open_lengths(post, &shorter, &longer);
	double low = fill_phases(post, post->generation_low, other) -
	             learned * (1 - shorter * trained->step_time_low_s / trained->step_time_s);
	double high = fill_phases(post, post->generation_high, other) +
	              learned * (longer * trained->step_time_high_s / trained->step_time_s - 1);
	prediction->step_time_low_s = fmax(0.01 * prediction->step_time_s, low);
	prediction->step_time_high_s = high;
	prediction->basis = "the ranges of generation and of training";
	int kept = 0;
	for (int i = 0; i < POST_PHASES; i++)
		if (parts[i].exposed_s > 0 || parts[i].hidden_s > 0) parts[kept++] = parts[i];
	prediction->breakdown = parts;
	prediction->breakdown_count = kept;
	fill_post_spans(post, prediction);
	prediction->generation = post->written->generation;
	return LK_OK;
}

static void fill_post_speed(const struct post *post, lk_prediction *prediction) {
	const lk_model *model = &post->asked.job.model;
	const lk_prediction *trained = post->trained;
	double tokens = 0, seconds = prediction->step_time_s;
	for (int i = 0; i < post->sequences; i++) tokens += post->lengths[i];
	double epochs = post->said.epochs, active = lk_model_active_params(model);
	double learned = 3 * active * epochs,
		   work = active * (1 + post->said.policy + post->said.reference) + learned;
	if (post->critic.model) {
		double of = lk_model_active_params(post->critic.model);
		work += of * (1 + 3 * post->said.critic_epochs),
			learned += 3 * of * post->said.critic_epochs;
	}
	if (post->rewarding.model) work += lk_model_active_params(post->rewarding.model);
	if (post->teacher.model) work += lk_model_active_params(post->teacher.model);
	prediction->samples_per_s = post->sequences / seconds;
	prediction->unit = "sequence";
	prediction->phases = true;
	prediction->tokens_per_s_per_gpu = tokens / seconds / post->gpus;
	prediction->model_flops_per_s_per_gpu = work * 2 * tokens / seconds / post->gpus;
	prediction->peak_flops = trained->peak_flops;
	prediction->peak_label = trained->peak_label;
	if (!(trained->peak_flops > 0)) return;
	prediction->mfu = fmin(1, prediction->model_flops_per_s_per_gpu / trained->peak_flops);
	double again = trained->mfu > 0 ? trained->hfu / trained->mfu : 1; /* updates recompute */
	prediction->hfu = fmin(1, prediction->mfu * (1 + learned * (again - 1) / work));
}

/* Networks with GPUs of their own have room there, or are named with what they take; the first of
 * them is what is shown where training and engines fit. */
static lk_status check_networks(const struct post *post, lk_prediction *prediction, lk_error *err) {
	const struct {
		const char *name;
		double gpus;
		const lk_post_network *network;
	} apart[] = {{"critic", post->said.critic_gpus, &post->critic},
	             {"teacher", post->said.teacher_gpus, &post->teacher}};
	for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
		const lk_post_network *network = apart[i].network;
		if (!network->model || !(apart[i].gpus > 0) || network->memory.total <= network->usable)
			continue;
		const char *before = prediction->warning ? prediction->warning : "";
		prediction->warning = lk_arena_printf(
			post->arena,
			"%s%sthe %s does not fit on the %.0f %s of its own: %.1f of %.1f GiB; give it more "
			"(--rollout %s_gpus=)",
			before, *before ? "; " : "", apart[i].name, apart[i].gpus,
			lk_noun((int)apart[i].gpus, "GPU", "GPUs"), network->memory.total / LK_GIB,
			network->usable / LK_GIB, apart[i].name);
		if (!prediction->warning) return lk_oom(err);
		if (!prediction->fits) continue;
		lk_stage_memory *stage = LK_NEW(post->arena, lk_stage_memory);
		if (!stage) return lk_oom(err);
		*stage = network->memory;
		snprintf(stage->moment, sizeof stage->moment, "the %s: %.70s", apart[i].name,
		         network->memory.moment);
		prediction->fits = false;
		prediction->peak_bytes = stage->total, prediction->usable_bytes = network->usable;
		prediction->fullest_stage = stage->stage;
		prediction->memory = stage, prediction->memory_count = 1;
	}
	return LK_OK;
}

/* The layout, and the memory of the side that is fuller. */
static void fill_post_layout(const struct post *post, lk_prediction *prediction) {
	const lk_prediction *trained = post->trained, *written = post->written;
	const lk_prediction *tight = written->fits || !trained->fits ? trained : written;
	prediction->fits = trained->fits && written->fits;
	prediction->peak_bytes = tight->peak_bytes, prediction->usable_bytes = tight->usable_bytes;
	prediction->fullest_stage = tight->fullest_stage;
	prediction->memory = tight->memory, prediction->memory_count = tight->memory_count;
	prediction->gpus = post->gpus;
	prediction->tp = trained->tp, prediction->pp = trained->pp, prediction->vp = trained->vp;
	prediction->cp = trained->cp, prediction->ep = trained->ep, prediction->dp = trained->dp;
	prediction->mbs = trained->mbs;
	prediction->gbs = post->sequences / post->updates;
	prediction->seq = trained->seq, prediction->microbatches = trained->microbatches;
	prediction->recompute = trained->recompute, prediction->dtype = trained->dtype;
	prediction->schedule = trained->schedule;
	prediction->operations = trained->operations + written->operations;
	prediction->layer_operations = trained->layer_operations;
	prediction->ranks = (uint32_t)post->gpus;
	prediction->ranks_simulated = trained->ranks_simulated;
	prediction->simulation_s = trained->simulation_s + written->simulation_s;
}

/* Whether something of a critic is on the GPUs while engines run there. */
static bool critic_stays(const struct post *post) {
	const lk_post_words *said = &post->said;
	return post->critic.model && !(said->critic_gpus > 0) &&
	       !(said->critic_offload_params > 0 && said->critic_offload_optimizer > 0);
}

/* What the launch line or file of the training states or leaves open comes first. */
static lk_status post_assume(const struct post *post, lk_prediction *prediction, lk_error *err) {
	const lk_predict_request *request = post->request;
	lk_arena *arena = post->arena;
	int before = prediction->assumption_count, count = before;
	const char **assumed = LK_ARRAY(arena, const char *, before + POST_ASSUMPTIONS);
	if (!assumed) return lk_oom(err);
	for (int i = 0; i < before; i++) assumed[i] = prediction->assumptions[i];
	if (post->mean_open)
		assumed[count++] = lk_arena_printf(
			arena,
			"responses of %.0f tokens in the mean: half of the limit, as nothing states it; the "
			"range is that of a quarter to all of it (--response)",
			request->response);
	if (!request->lengths)
		assumed[count++] =
			lk_arena_printf(arena, "lengths spread lognormally, deviation of ln %.1f (--lengths)",
		                    lk_lengths_sigma);
	if (post->prompt_open)
		assumed[count++] = lk_arena_printf(
			arena,
			"prompts of %.0f tokens in the mean: a quarter of the limit, as nothing states it "
			"(--prompt)",
			request->prompt);
	else if (!request->prompt) assumed[count++] = "prompts of 128 tokens (--prompt)";
	const char *scored =
		post->said.policy > 0
			? post->said.reference > 0 ? "of the policy and of the reference" : "of the policy"
		: post->said.reference > 0 ? "of the reference"
								   : "are not computed";
	assumed[count++] = lk_arena_printf(
		arena,
		post->said.padded > 0 ? "each sequence is a row that is padded to %d tokens, the longest"
		: post->said.by_sequence > 0
			? "each sequence is a row, of %d tokens in the mean; the memory is that of the longest"
			: "sequences fill rows, of %d tokens in the mean, and attend within themselves",
		post->trained->seq);
	assumed[count++] = lk_arena_printf(
		arena, "%d %s, %.0f %s; log-probabilities %s", post->sequences,
		lk_noun(post->sequences, "sequence", "sequences"), post->updates * post->said.epochs,
		lk_noun(post->updates * post->said.epochs, "update", "updates"), scored);
	if (!post->apart && post->kept > 0)
		assumed[count++] = lk_arena_printf(
			arena, "%.1f GiB of a GPU stay there while engines run:%s%s%s%s", post->kept / LK_GIB,
			post->said.offload_params > 0 ? "" : " weights",
			post->said.offload_optimizer > 0 ? "" : " optimizer",
			post->said.offload_reference > 0 || !(post->reference > 0) ? "" : " reference",
			critic_stays(post) ? " critic" : "");
	if (post->said.lag > 0 && !post->apart)
		assumed[count++] = "sequences that are not finished when a batch is go on in a later phase";
	if (post->algorithm->critic)
		assumed[count++] = lk_arena_printf(
			arena, "the critic, %s, is laid out as the policy, %s; it keeps %.1f GiB of a GPU",
			post->said.critic ? post->said.critic : "as large (--rollout critic=)",
			post->said.critic_gpus > 0 ? "on GPUs of its own" : "on the same GPUs",
			(post->critic.weights + post->critic.gradients + post->critic.optimizer) / LK_GIB);
	if (post->teacher.model)
		assumed[count++] = lk_arena_printf(
			arena, "the teacher reads the sequences %s; its weights take %.1f GiB of a GPU",
			post->said.teacher_gpus > 0
				? "on GPUs of its own"
				: "on the GPUs that train, and is in the host's memory else",
			post->teacher.weights / LK_GIB);
	if (post->rewarding.model)
		assumed[count++] = lk_arena_printf(
			arena, "the reward model is laid out as the policy; it keeps %.1f GiB of a GPU",
			post->rewarding.weights / LK_GIB);
	else if (post->said.reward <= 0) assumed[count++] = "rewards take no time (--rollout reward=)";
	assumed[count++] =
		lk_arena_printf(arena, "a refit moves %.1f GiB in %.0f %s", post->refit.bytes / LK_GIB,
	                    post->refit.tensors, lk_noun(post->refit.tensors, "tensor", "tensors"));
	for (int i = 0; i < count; i++)
		if (!assumed[i]) return lk_oom(err);
	prediction->assumptions = assumed;
	prediction->assumption_count = count;
	return LK_OK;
}

static lk_status post_note(const struct post *post, lk_prediction *prediction, lk_error *err) {
	lk_arena *arena = post->arena;
	if (post->launched) LK_TRY(lk_note_job(arena, post->given, &post->asked, prediction, err));
	prediction->model = post->trained->model;
	prediction->cluster = post->cluster;
	prediction->layout = lk_arena_printf(arena, "%s; %s GPUs: %s, lag %.0f", post->trained->layout,
	                                     post->apart ? "other" : "on the same",
	                                     post->written->layout, post->said.lag);
	prediction->reproduce =
		lk_command(arena, &(lk_question){.verb = &lk_predict_verb,
	                                     .request = post->given,
	                                     .rest = post->given->launch,
	                                     .rest_count = post->given->launch_count});
	if (!prediction->layout || !prediction->reproduce) return lk_oom(err);
	return post_assume(post, prediction, err);
}

static lk_status count_sequences(struct post *post, lk_error *err) {
	int each = post->request->gbs;
	post->sequences = post->said.sequences > 0 ? (int)post->said.sequences : each > 0 ? each : 512;
	post->updates = each > 0 ? post->sequences / each : 1;
	if (each <= 0 || (post->sequences % each == 0 && post->updates > 0)) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--gbs", "%d sequences are no whole number of updates of %d",
	        post->sequences, each);
	return lk_hint(err, "give a divisor of the sequences (--rollout sequences=)");
}

/* Network, batch and rollout of a launch line or file, filled into the request. */
static lk_status take_launch(struct post *post, lk_error *err) {
	post->launched = lk_request_launched(post->given);
	if (!post->launched) return LK_OK;
	lk_predict_request training = training_request(post->given, true);
	lk_predict_request *filled = LK_NEW(post->arena, lk_predict_request);
	if (!filled) return lk_oom(err);
	training.gpus = 0;
	LK_TRY(lk_request_take(post->arena, &training, &post->asked, err));
	LK_TRY(lk_rollout_fill(post->arena, post->given, &post->asked, filled, &post->mean_open, err));
	post->prompt_open = filled->prompt > 0 && !(post->given->prompt > 0);
	post->request = filled;
	return LK_OK;
}

lk_status lk_predict_post(lk_arena *arena, const lk_predict_request *request,
                          lk_prediction *prediction, lk_error *err) {
	struct post *post = LK_NEW(arena, struct post);
	if (!post) return lk_oom(err);
	*post = (struct post){.arena = arena, .request = request, .given = request};
	LK_TRY(take_launch(post, err));
	post->algorithm = algorithm_of(post->request);
	LK_TRY(check_post(request, err));
	LK_TRY(read_rollout(post, err));
	LK_TRY(count_sequences(post, err));
	lk_predict_request training = training_request(post->request, post->launched),
					   writing = writing_request(post);
	training.gbs = 0;
	LK_TRY(count_gpus(post, &training, &writing, err));
	LK_TRY(read_post_lengths(post, err));
	LK_TRY(run_training(post, &training, err));
	run_offload(post);
	add_kept(post);
	LK_TRY(run_writing(post, &writing, err));
	LK_TRY(share_memory(post, writing.gpu_mem_util, err));
	run_refit(post);
	LK_TRY(fill_post_times(post, prediction, err));
	fill_post_speed(post, prediction);
	fill_post_layout(post, prediction);
	LK_TRY(post_note(post, prediction, err));
	return check_networks(post, prediction, err);
}
