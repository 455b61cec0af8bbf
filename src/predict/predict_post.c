/* predict_post.c: `predict --task grpo|dapo|ppo|distill`: a step of reinforcement learning, from
 * rollout to refit. Each phase is predicted by the model for its kind: generation by rollout/,
 * log-probabilities and updates by the step graph of the training layout, as forward passes or
 * whole steps.
 *
 * On the same GPUs phases follow one another:
 *
 *     step = generation + reward + values + log-probabilities + updates + refit + offload
 *
 * If `lag` is stated there, sequences unfinished when a batch is complete continue with the next.
 * Engines on their own GPUs that may run `lag` steps ahead generate the next sequences while the
 * last are learned; both sides stop for the refit:
 *
 *     step = max(generation, the rest of it) + refit
 *
 * docs/method/post-training.md defines each phase. One file per subject: post_training.c,
 * post_writing.c, post_memory.c, post_phases.c, post_notes.c. */
#include <math.h>

#include "base/arena.h"
#include "base/text.h"
#include "predict/predict_internal.h"
#include "rollout/rollout.h"

/* DAPO has no term against a reference (arXiv
 * 2503.14476, section 2.3), PPO learns a critic; distillation on the policy's own sequences learns
 * a teacher's distribution (arXiv 2306.13649), without a ratio to an older policy. */
static const lk_post_algorithm algorithms[] = {
	{"grpo", true, true, false, false},
	{"dapo", true, false, false, false},
	{"ppo", true, true, true, false},
	{"distill", false, false, false, true},
};
enum { ALGORITHMS = sizeof algorithms / sizeof *algorithms, POST_SEED = 1 };

static const lk_post_algorithm *algorithm_of(const lk_predict_request *request) {
	for (int i = 0; request->task && i < ALGORITHMS; i++)
		if (lk_same_name(request->task, algorithms[i].name)) return &algorithms[i];
	return NULL;
}

bool lk_predict_posts(const lk_predict_request *request) {
	return algorithm_of(request) != NULL;
}

static lk_status read_rollout(lk_post *post, lk_error *err) {
	const lk_post_algorithm *algorithm = post->algorithm;
	lk_rollout_words *said = &post->said;
	lk_rollout_words_begin(said);
	said->policy = algorithm->policy;
	said->reference = algorithm->reference;
	LK_TRY(lk_rollout_words_read(post->arena, post->request->rollout, said, err));
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

lk_status lk_post_no_effect(const char *where, const char *task, lk_error *err) {
	if (task) return lk_fail(err, LK_ERR_INPUT, where, "it has no effect on --task %s", task);
	return lk_fail(err, LK_ERR_INPUT, where,
	               "it has no effect on a step of reinforcement learning");
}

/* Refuse what a step of several phases does not answer. */
static lk_status check_post(const lk_predict_request *request, lk_error *err) {
	const char *where = NULL;
	if (request->dpo) where = "--dpo";
	if (request->step) where = "--trace, --graph, --chakra or --goal";
	if (request->seeds) where = "--seeds";
	if (request->noise) where = "--noise";
	if (request->tokens > 0) where = "--tokens";
	if (request->mtbf_hours > 0) where = "--mtbf";
	if (request->failures) where = "--failures";
	if (request->input_gbps > 0) where = "--input-gbps";
	if (request->mains.pue > 0) where = "--pue";
	if (request->mains.carbon > 0) where = "--carbon";
	if (request->mains.price_kwh > 0) where = "--price-kwh";
	if (request->emit) where = "--emit";
	if (request->replace) where = "--replace";
	if (!where) return LK_OK;
	lk_post_no_effect(where, request->task, err);
	return lk_hint(err, "leave it out; the options of training and of generation act");
}

/* The cluster of all GPUs, if the file states only the training GPUs. */
static lk_status name_all_gpus(lk_post *post, lk_error *err) {
	lk_cluster *all = LK_NEW(post->arena, lk_cluster);
	lk_where where = {
		.gpu = post->request->gpu, .gpus = post->gpus, .power_w = post->request->power};
	if (!all) return lk_oom(err);
	LK_TRY(lk_where_read(post->arena, &where, all, NULL, err));
	post->cluster = all->text;
	return LK_OK;
}

static lk_status count_gpus(lk_post *post, lk_predict_request *training,
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
		/* a file states the training GPUs */
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

static lk_status read_post_lengths(lk_post *post, lk_error *err) {
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

static lk_status count_sequences(lk_post *post, lk_error *err) {
	int each = post->request->gbs;
	post->sequences = each > 0 ? each : 512;
	if (post->said.sequences > 0) post->sequences = (int)post->said.sequences;
	post->updates = each > 0 ? post->sequences / each : 1;
	if (each <= 0 || (post->sequences % each == 0 && post->updates > 0)) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--gbs", "%d sequences are no whole number of updates of %d",
	        post->sequences, each);
	return lk_hint(err, "give a divisor of the sequences (--rollout sequences=)");
}

/* Fill network, batch and rollout of a launch line or file into the request. */
static lk_status take_launch(lk_post *post, lk_error *err) {
	post->launched = lk_request_launched(post->given);
	if (!post->launched) return LK_OK;
	lk_predict_request training = lk_post_training_request(post->given, true);
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
	lk_post *post = LK_NEW(arena, lk_post);
	if (!post) return lk_oom(err);
	*post = (lk_post){.arena = arena, .request = request, .given = request};
	LK_TRY(take_launch(post, err));
	post->algorithm = algorithm_of(post->request);
	LK_TRY(check_post(request, err));
	LK_TRY(read_rollout(post, err));
	LK_TRY(count_sequences(post, err));
	lk_predict_request training = lk_post_training_request(post->request, post->launched),
					   writing = lk_post_writing_request(post);
	training.gbs = 0;
	LK_TRY(count_gpus(post, &training, &writing, err));
	LK_TRY(read_post_lengths(post, err));
	LK_TRY(lk_post_train(post, &training, err));
	lk_post_offload(post);
	lk_post_keep(post);
	LK_TRY(lk_post_write(post, &writing, err));
	LK_TRY(lk_post_share(post, writing.gpu_mem_util, err));
	lk_post_refit(post);
	LK_TRY(lk_post_fill_times(post, prediction, err));
	lk_post_fill_speed(post, prediction);
	lk_post_fill_layout(post, prediction);
	LK_TRY(lk_post_note(post, prediction, err));
	return lk_post_check_room(post, prediction, err);
}
