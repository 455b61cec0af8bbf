/* post_training.c: the training GPUs in a step of reinforcement learning: sequences become rows,
 * forward passes of policy and reference score them, updates learn from them; other networks do the
 * same on their layouts (post_networks.c). */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "predict/predict_internal.h"

/* A launch line or file states the task itself. */
lk_predict_request lk_post_training_request(const lk_predict_request *request, bool launched) {
	lk_predict_request training = *request;
	training.task = launched ? NULL : "sft";
	if (!launched && !training.stack) training.stack = LK_STACK_DEFAULT;
	training.rollout = training.lengths = training.engine = NULL;
	training.kv_dtype = training.speculative = NULL;
	training.prompt = training.response = training.response_max = training.gpu_mem_util = 0;
	training.samples = training.max_sequences = training.max_tokens = 0;
	training.prefix_caching = 0;
	training.attention_dp = false;
	training.no_fixes = true;
	return training;
}

/* The training without other phases; what is kept of its answer is copied. */
static lk_status keep_training(lk_post *post, const lk_prediction *answer, lk_error *err) {
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

static lk_status ask_training(lk_post *post, const lk_predict_request *training, lk_error *err) {
	struct lk_answer answer = {0};
	lk_status status = lk_answer_asked(training, &post->asked, NULL, &answer, err);
	if (status == LK_OK) status = keep_training(post, &answer.p, err);
	lk_step_free(&answer.step);
	lk_arena_free(&answer.arena);
	return status;
}

/* A number of rows that any layout divides: a file states sequences, and how many rows they fill is
 * unknown before the layout is. */
static int rows_for_any(const lk_post *post, const lk_predict_request *training) {
	int mbs = training->mbs > 0 ? training->mbs : post->asked.job.mbs;
	int own = (int)(post->said.gpus + post->said.critic_gpus + post->said.teacher_gpus);
	return (mbs > 0 ? mbs : 1) * (post->gpus - own);
}

/* Forward passes of `rows` rows through the training layout. */
static lk_status run_scoring(lk_post *post, double rows, double *seconds, lk_error *err) {
	lk_job job = post->asked.job;
	lk_step step = {0};
	job.forward_only = true;
	job.gbs = lk_post_rows_dealt(rows, &job);
	job.microbatches = job.gbs / (job.mbs * job.dp);
	LK_TRY(lk_job_check_passes(&job, err));
	lk_step_options options = {.few = true}; /* a bare step has no time if it does not fit */
	lk_status status = lk_step_ask(&job, &post->asked.cluster, &options, &step, err);
	*seconds = step.step_s;
	lk_step_free(&step);
	return status;
}

/* Networks other than the policy, on the rows of a step. */
static lk_status run_networks(lk_post *post, int rows, int update, lk_error *err) {
	const lk_rollout_words *said = &post->said;
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
	network = (lk_post_network_request){.policy = &post->asked, .rows = rows};
	if (said->reference > 0 && post->asked.job.task != LK_TASK_LORA) {
		network.where = "--rollout reference"; /* with adapters: the frozen base */
		LK_TRY(lk_post_network_of(post->arena, &network, &post->reference, err));
	}
	if (!said->teacher) return LK_OK;
	network.name = said->teacher, network.where = "--rollout teacher";
	network.gpus = (int)said->teacher_gpus, network.tp = (int)said->teacher_tp;
	return lk_post_network_of(post->arena, &network, &post->teacher, err);
}

/* Rows shared by sequences are as long as their contents, unless a pipeline needs equal ones
 * (full_rows): `rows` of them with the tokens of an update, in units that the layout divides. */
static void shorten_rows(const lk_post *post, double rows, double part,
                         lk_predict_request *training) {
	const lk_job *job = &post->asked.job;
	double unit = 16.0 * job->tp * job->cp, held = post->rows.tokens * part / rows;
	if (!(post->said.full_rows > 0)) training->seq = (int)fmin(job->seq, ceil(held / unit) * unit);
}

/* Attention covers the pairs within sequences; `rows` rows hold `part` of all: more than with equal
 * sequences. Frameworks balance sequences that are rows of their own over the ranks; shared rows
 * vary randomly. */
static void attend_within(lk_post *post, double rows, double part, bool shared) {
	lk_job *job = &post->asked.job;
	if (job->pack_share > 0 || lk_job_pack_lacks(job)) return;
	double whole = (double)job->seq * job->seq;
	job->pack_share = post->rows.pairs * part / rows / whole;
	job->pack_spread = shared ? post->rows.spread / whole : 0;
}

/* As long as the longest sequence, in units that the layout divides. */
static int longest_row(const lk_post *post, const lk_predict_request *training, double longest) {
	int tp = training->tp > 0 ? training->tp : post->asked.job.tp;
	int cp = training->cp > 0 ? training->cp : post->asked.job.cp;
	int unit = 2;
	if (tp > 1) unit *= tp;
	if (cp > 1) unit *= cp;
	return (int)ceil(longest / unit) * unit;
}

/* If each sequence is a row, the micro-batch with the longest one of a step takes most memory: that
 * one, and others of mean length. */
static lk_status hold_longest(lk_post *post, double longest, lk_error *err) {
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

lk_status lk_post_train(lk_post *post, lk_predict_request *training, lk_error *err) {
	int each = post->sequences / post->updates;
	double longest = 0;
	bool packed = !(post->said.padded > 0), shared = packed && !(post->said.by_sequence > 0);
	for (int i = 0; i < post->sequences; i++) longest = fmax(longest, post->lengths[i]);
	int row = training->seq > 0 ? training->seq : post->asked.job.seq;
	if (row == 0 || (!packed && longest < row)) row = longest_row(post, training, longest);
	training->seq = row;
	const lk_launch_rollout *stated = post->launched ? post->asked.launch.rollout : NULL;
	if (stated && stated->shared_rows > 0 && training->mbs == 0)
		training->mbs = stated->shared_rows; /* rows of any number: nothing need divide */
	if (post->launched) training->gbs = rows_for_any(post, training);
	LK_TRY(lk_request_read(post->arena, training, &post->asked, err));
	LK_TRY(lk_post_rows_fill(post->arena, post->lengths, (size_t)post->sequences,
	                         post->asked.job.seq, shared, &post->rows, err));
	double whole = post->rows.rows, part = (double)each / post->sequences;
	int update = lk_post_rows_dealt(whole * part, &post->asked.job);
	training->gbs = update;
	if (packed) {
		shorten_rows(post, update, part, training);
		whole = fmax(whole, post->rows.tokens / training->seq);
	}
	LK_TRY(lk_request_read(post->arena, training, &post->asked, err));
	if (packed) attend_within(post, update, part, shared);
	double pass;
	LK_TRY(run_scoring(post, whole, &pass, err));
	post->scoring = pass * (post->said.policy + post->said.reference);
	LK_TRY(ask_training(post, training, err));
	post->update = post->trained->step_time_s * post->updates * post->said.epochs;
	if (packed && !shared) LK_TRY(hold_longest(post, fmin(longest, row), err));
	return run_networks(post, (int)ceil(whole), update, err);
}
