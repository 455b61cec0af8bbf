/* predict_post.c: `predict --task grpo|dapo|ppo`: a step of reinforcement learning, from rollout to
 * refit. Each phase is answered by what answers it alone: generation by rollout/, log-probabilities
 * and updates by the step graph of the training layout, forward passes alone or whole steps.
 *
 * On the same GPUs phases follow one another:
 *     step = generation + reward + values + log-probabilities + updates + refit + offload
 * Engines on GPUs of their own that may run `lag` steps ahead write the next sequences while the
 * last are learned; both sides stop for the refit:
 *     step = max(generation, the rest of it) + refit
 * docs/method/post-training.md states what each phase is. */
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
 * 2503.14476, section 2.3), PPO learns a critic of the policy's size. */
struct algorithm {
	const char *name;
	bool reference, critic;
};
static const struct algorithm algorithms[] = {
	{"grpo", true, false},
	{"dapo", false, false},
	{"ppo", true, true},
};
enum {
	ALGORITHMS = sizeof algorithms / sizeof *algorithms,
	POST_SEED = 1,
	POST_ASSUMPTIONS = 12
};

static const struct algorithm *algorithm_of(const lk_predict_request *request) {
	for (int i = 0; request->task && i < ALGORITHMS; i++)
		if (lk_same_name(request->task, algorithms[i].name)) return &algorithms[i];
	return NULL;
}

bool lk_predict_posts(const lk_predict_request *request) {
	return algorithm_of(request) != NULL;
}

/* The words of --rollout. */
struct rollout_words {
	double sequences, oversample, epochs, gpus, tp, pp, ep, lag, reward, policy, reference, eager,
		padded;
	const char *dtype; /* of the engines; NULL: that of the training */
};
static const struct rollout_word {
	const char *name;
	size_t offset;
	double low, high;
	bool whole;
} rollout_words[] = {
	{"sequences", offsetof(struct rollout_words, sequences), 1, 1e7, true},
	{"oversample", offsetof(struct rollout_words, oversample), 1, 100, false},
	{"epochs", offsetof(struct rollout_words, epochs), 1, 1000, true},
	{"gpus", offsetof(struct rollout_words, gpus), 0, 1 << 20, true},
	{"tp", offsetof(struct rollout_words, tp), 1, 4096, true},
	{"pp", offsetof(struct rollout_words, pp), 1, 4096, true},
	{"ep", offsetof(struct rollout_words, ep), 1, 4096, true},
	{"lag", offsetof(struct rollout_words, lag), 0, 64, true},
	{"reward", offsetof(struct rollout_words, reward), 0, 1e6, false},
	{"policy", offsetof(struct rollout_words, policy), 0, 1, true},
	{"reference", offsetof(struct rollout_words, reference), 0, 1, true},
	{"eager", offsetof(struct rollout_words, eager), 0, 1, true},
	{"padded", offsetof(struct rollout_words, padded), 0, 1, true},
};
enum {
	ROLLOUT_WORDS = sizeof rollout_words / sizeof *rollout_words
};

struct post {
	lk_arena *arena;
	const lk_predict_request *request; /* what its launch line or file states is filled in */
	const lk_predict_request *given;   /* as it came */
	bool launched, mean_open;
	const struct algorithm *algorithm;
	struct rollout_words said;
	bool apart;                   /* engines have GPUs of their own */
	lk_asked asked;               /* the training */
	const char *cluster;          /* all GPUs */
	double *lengths;              /* [sequences], prompt and response */
	int sequences, gpus, updates; /* updates: of one pass over the sequences */
	/* seconds */
	double generation, generation_low, generation_high;
	double pass, scoring; /* a forward pass over all sequences; those of log-probabilities */
	double update, offload;
	lk_refit refit;
	const lk_prediction *written, *trained;
};

static lk_status refuse_rollout_word(const char *word, const char *what, lk_error *err) {
	char shown[64];
	lk_fail(err, LK_ERR_INPUT, "--rollout", "'%s' %s", lk_escape(word, shown, sizeof shown), what);
	return lk_hint(err,
	               "give words as tp=2: sequences, oversample, epochs, gpus, tp, pp, ep, "
	               "dtype, lag, reward (seconds), and policy, reference, eager, padded (0 or 1)");
}

static lk_status read_rollout_word(const char *word, struct rollout_words *out, lk_error *err) {
	const char *value = strchr(word, '='), *end;
	if (strncmp(word, "dtype=", 6) == 0) {
		out->dtype = value + 1;
		return LK_OK;
	}
	for (int i = 0; value && i < ROLLOUT_WORDS; i++) {
		const struct rollout_word *known = &rollout_words[i];
		size_t length = (size_t)(value - word);
		if (strlen(known->name) != length || strncmp(word, known->name, length) != 0) continue;
		double number = lk_read_real(value + 1, &end);
		bool read = end > value + 1 && *end == '\0' && number >= known->low &&
		            number <= known->high && (!known->whole || number == floor(number));
		if (!read) return refuse_rollout_word(word, "is outside of its limits", err);
		memcpy((char *)out + known->offset, &number, sizeof number);
		return LK_OK;
	}
	return refuse_rollout_word(word, "is not understood", err);
}

static lk_status read_rollout(struct post *post, lk_error *err) {
	post->said = (struct rollout_words){.oversample = 1,
	                                    .epochs = 1,
	                                    .tp = 1,
	                                    .pp = 1,
	                                    .ep = 1,
	                                    .policy = 1,
	                                    .reference = post->algorithm->reference ? 1 : 0};
	char *text =
		post->request->rollout ? lk_arena_strdup(post->arena, post->request->rollout) : NULL;
	if (post->request->rollout && !text) return lk_oom(err);
	for (char *word; text && (word = strsep(&text, " ,"));)
		if (*word) LK_TRY(read_rollout_word(word, &post->said, err));
	post->apart = post->said.gpus > 0;
	if (post->said.lag == 0 || post->apart) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--rollout", "lag %.0f, but engines run on the GPUs that train",
	        post->said.lag);
	return lk_hint(err, "give the engines GPUs of their own (gpus=8), or leave lag out");
}

/* What a step of several phases does not answer. */
static lk_status check_post(const lk_predict_request *request, lk_error *err) {
	const char *where = NULL;
	if (request->dpo) where = "--dpo";
	if (request->step) where = "--trace, --graph, --chakra or --goal";
	if (request->seeds) where = "--seeds";
	if (request->tokens > 0) where = "--tokens";
	if (request->mtbf_hours > 0) where = "--mtbf";
	if (request->pue > 0) where = "--pue";
	if (request->carbon > 0) where = "--carbon";
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
	int own = post->apart ? (int)post->said.gpus : 0;
	post->gpus = whole->job.gpus;
	post->cluster = whole->cluster.text;
	if (post->launched && !request->gpus && !request->cluster) {
		/* a file states the GPUs that train */
		writing->gpus = post->apart ? own : post->gpus;
		post->gpus += own;
		if (post->apart) LK_TRY(name_all_gpus(post, err));
		return LK_OK;
	}
	if (!post->apart) return LK_OK;
	if (request->cluster) {
		lk_fail(err, LK_ERR_INPUT, "--cluster", "GPUs of a cluster cannot be divided yet");
		return lk_hint(err, "give --gpu and --gpus with all GPUs, or leave gpus= of --rollout out");
	}
	training->gpus = post->gpus - (int)post->said.gpus;
	writing->gpus = (int)post->said.gpus;
	if (training->gpus > 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--rollout", "%d of %d GPUs generate: none is left to train",
	        writing->gpus, post->gpus);
	return lk_hint(err, "give --gpus with all GPUs, those that train too");
}

/* ---- sequences and rows ---- */

static lk_status read_post_lengths(struct post *post, lk_error *err) {
	const lk_predict_request *request = post->request;
	double prompt = request->prompt > 0 ? request->prompt : 128, most = request->response_max;
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

static int post_longer_first(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x < y) - (x > y);
}

/* The first sequence from `i` on that no row has yet; paths are halved on the way. */
static size_t row_next(size_t *next, size_t i) {
	for (; next[i] != i; i = next[i]) next[i] = next[next[i]];
	return i;
}

/* Rows of `room` tokens that `count` sequences fill: the longest that is left begins a row, and the
 * longest that fits goes on, as first fit decreasing does; what is longer than a row is cut.
 * `lengths` gets sorted, `next` is scratch of count + 1. */
static int rows_filled(double *lengths, size_t *next, size_t count, double room) {
	int rows = 0;
	qsort(lengths, count, sizeof *lengths, post_longer_first);
	for (size_t i = 0; i <= count; i++) next[i] = i;
	for (size_t first; (first = row_next(next, 0)) < count; rows++) {
		double left = room;
		for (size_t at = first; at < count;) {
			left -= lengths[at];
			next[at] = at + 1;
			size_t low = at + 1, high = count; /* the longest that fits now */
			while (low < high) {
				size_t middle = (low + high) / 2;
				if (lengths[middle] <= left) high = middle;
				else low = middle + 1;
			}
			at = row_next(next, low);
		}
	}
	return rows;
}

/* Rows of a whole number of micro-batches for each rank; of groups of them where chunks take turns.
 */
static int rows_dealt(double rows, const lk_job *job) {
	int group = job->vp <= 1 ? 1 : job->microbatch_group > 0 ? job->microbatch_group : job->pp;
	int dealt = job->mbs * job->dp * group;
	return (int)ceil(fmax(1, rows) / dealt) * dealt;
}

/* Rows that any layout divides: what a file states are sequences, and how many rows they fill is
 * not known before the layout is. */
static int rows_for_any(const struct post *post, const lk_predict_request *training) {
	int mbs = training->mbs > 0 ? training->mbs : post->asked.job.mbs;
	return (mbs > 0 ? mbs : 1) * (post->gpus - (post->apart ? (int)post->said.gpus : 0));
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
	kept->memory = memory;
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

/* Engines that may run ahead begin the next sequences while the last ones end: of `lag` batches in
 * one queue each takes its part. */
static lk_status run_writing(struct post *post, lk_predict_request *writing, lk_error *err) {
	double batches = fmax(1, post->said.lag);
	double all = ceil(post->sequences * post->said.oversample) * batches;
	if (all > 1e7) {
		lk_fail(err, LK_ERR_INPUT, "--rollout", "%.0f sequences in %.0f batches are too many", all,
		        batches);
		return lk_hint(err, "give at most 1e7 sequences in all");
	}
	writing->gbs = (int)all;
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
static lk_status run_scoring(struct post *post, int rows, double *seconds, lk_error *err) {
	lk_job job = post->asked.job;
	lk_step step = {0};
	job.forward_only = true;
	job.gbs = rows_dealt(rows, &job);
	job.microbatches = job.gbs / (job.mbs * job.dp);
	lk_step_options options = {0}; /* a bare step has no time where it does not fit */
	lk_status status = lk_step_ask(&job, &post->asked.cluster, &options, &step, err);
	*seconds = step.step_s;
	lk_step_free(&step);
	return status;
}

static lk_status run_training(struct post *post, lk_predict_request *training, lk_error *err) {
	int each = post->sequences / post->updates, rows = post->sequences;
	double longest = 0;
	for (int i = 0; i < post->sequences; i++) longest = fmax(longest, post->lengths[i]);
	int row = training->seq > 0 ? training->seq : post->asked.job.seq;
	if (row == 0 || (post->said.padded > 0 && longest < row)) row = (int)ceil(longest);
	training->seq = row;
	if (post->launched) training->gbs = rows_for_any(post, training);
	LK_TRY(lk_request_read(post->arena, training, &post->asked, err));
	const lk_job *job = &post->asked.job;
	size_t *next = LK_ARRAY(post->arena, size_t, (size_t)post->sequences + 1);
	if (!next) return lk_oom(err);
	if (!(post->said.padded > 0))
		rows = rows_filled(post->lengths, next, (size_t)post->sequences, job->seq);
	LK_TRY(run_scoring(post, rows, &post->pass, err));
	post->scoring = post->pass * (post->said.policy + post->said.reference);
	training->gbs = rows_dealt((double)rows * each / post->sequences, job);
	LK_TRY(ask_training(post, training, err));
	post->update = post->trained->step_time_s * post->updates * post->said.epochs;
	return LK_OK;
}

/* Bytes/s of a process that copies to host memory which is not pinned and was just allocated: the
 * driver stages it, the host clears each page first. An assumption that was chosen with published
 * steps in view (docs/method/post-training.md). */
static const double HOST_COPY_RATE = 4e9;

/* Engines on the GPUs that train need the room of what training keeps: it goes to the host and
 * back, weights and optimizer. */
static void run_refit(struct post *post) {
	const lk_job *job = &post->asked.job;
	const lk_cluster *cluster = &post->asked.cluster;
	const lk_stage_memory *held = &post->trained->memory[post->trained->fullest_stage];
	int gathered =
		job->tp * job->pp * job->ep < job->gpus ? job->tp * job->pp * job->ep : job->gpus;
	int engines = post->apart ? (int)post->said.gpus : job->gpus;
	post->refit =
		lk_refit_of(&(lk_refit_job){.model = &job->model,
	                                .cluster = cluster,
	                                .width = 2,
	                                .gathered_over = gathered,
	                                .engine_gpus = engines,
	                                .engine_shards = (int)(post->said.tp * post->said.pp),
	                                .transport = post->apart ? LK_REFIT_PACKED : LK_REFIT_IPC});
	if (!post->apart)
		post->offload = 2 * (held->weights + held->optimizer) /
		                fmin(HOST_COPY_RATE, cluster->node[0].device->pcie_rate);
}

/* ---- the answer ---- */

enum {
	POST_GENERATION,
	POST_REWARD,
	POST_VALUES,
	POST_SCORING,
	POST_UPDATE,
	POST_CRITIC,
	POST_REFIT,
	POST_OFFLOAD,
	POST_WAIT,
	POST_PHASES
};
static const char *const phase_keys[POST_PHASES] = {
	"generation", "reward",  "values", "log_probabilities", "training", "critic",
	"refit",      "offload", "idle"};
static const char *const phase_labels[POST_PHASES] = {
	"generation",
	"reward",
	"values of the critic",
	"log-probabilities",
	"training of the policy",
	"training of the critic",
	"refit: weights to engines",
	"offload and reload",
	"training waits for sequences",
};

/* Of the GPUs that train; what engines of their own do at the same time is hidden. Returns the
 * step. */
static double fill_phases(const struct post *post, double generation, lk_time_part *parts) {
	double at[POST_PHASES] = {
		[POST_GENERATION] = generation,     [POST_REWARD] = post->said.reward,
		[POST_SCORING] = post->scoring,     [POST_UPDATE] = post->update,
		[POST_REFIT] = post->refit.seconds, [POST_OFFLOAD] = post->offload,
	};
	if (post->algorithm->critic) {
		at[POST_VALUES] = post->pass;
		at[POST_CRITIC] = post->update;
	}
	bool ahead = post->said.lag > 0;
	double learned = 0, hidden = ahead ? generation : 0;
	for (int i = POST_REWARD; i < POST_REFIT; i++) learned += at[i];
	if (ahead) {
		at[POST_GENERATION] = 0;
		at[POST_WAIT] = fmax(0, generation - learned);
	}
	double step = 0;
	for (int i = 0; i < POST_PHASES; i++) {
		parts[i] = (lk_time_part){phase_keys[i], phase_labels[i], at[i], 0};
		step += at[i];
	}
	parts[POST_GENERATION].hidden_s = hidden;
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

static lk_status fill_post_times(const struct post *post, lk_prediction *prediction,
                                 lk_error *err) {
	lk_time_part *parts = LK_ARRAY(post->arena, lk_time_part, POST_PHASES);
	lk_time_part other[POST_PHASES];
	if (!parts) return lk_oom(err);
	prediction->step_time_s = fill_phases(post, post->generation, parts);
	const lk_prediction *trained = post->trained;
	double learned = post->scoring + post->update * (post->algorithm->critic ? 2 : 1);
	double low = fill_phases(post, post->generation_low, other) -
	             learned * (1 - trained->step_time_low_s / trained->step_time_s);
	double high = fill_phases(post, post->generation_high, other) +
	              learned * (trained->step_time_high_s / trained->step_time_s - 1);
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
	double critic = post->algorithm->critic, learned = (1 + critic) * post->said.epochs;
	double passes = 1 + post->said.policy + post->said.reference + critic + 3 * learned;
	prediction->samples_per_s = post->sequences / seconds;
	prediction->unit = "sequence";
	prediction->phases = true;
	prediction->tokens_per_s_per_gpu = tokens / seconds / post->gpus;
	prediction->model_flops_per_s_per_gpu =
		passes * 2 * lk_model_active_params(model) * tokens / seconds / post->gpus;
	prediction->peak_flops = trained->peak_flops;
	prediction->peak_label = trained->peak_label;
	if (!(trained->peak_flops > 0)) return;
	prediction->mfu = fmin(1, prediction->model_flops_per_s_per_gpu / trained->peak_flops);
	double again = trained->mfu > 0 ? trained->hfu / trained->mfu : 1; /* updates recompute */
	prediction->hfu = fmin(1, prediction->mfu * (passes + 3 * learned * (again - 1)) / passes);
}

/* The layout, and the memory of the side that is fuller. */
static void fill_post_layout(const struct post *post, lk_prediction *prediction) {
	const lk_prediction *trained = post->trained, *written = post->written;
	const lk_prediction *tight = written->fits ? trained : written;
	prediction->fits = trained->fits && written->fits;
	prediction->peak_bytes = tight->peak_bytes, prediction->usable_bytes = tight->usable_bytes;
	prediction->fullest_stage = tight->fullest_stage;
	prediction->memory = tight->memory, prediction->memory_count = tight->memory_count;
	prediction->gpus = post->gpus;
	prediction->tp = trained->tp, prediction->pp = trained->pp, prediction->vp = trained->vp;
	prediction->cp = trained->cp, prediction->ep = trained->ep, prediction->dp = trained->dp;
	prediction->mbs = trained->mbs, prediction->gbs = trained->gbs;
	prediction->seq = trained->seq, prediction->microbatches = trained->microbatches;
	prediction->recompute = trained->recompute, prediction->dtype = trained->dtype;
	prediction->schedule = trained->schedule;
	prediction->operations = trained->operations + written->operations;
	prediction->layer_operations = trained->layer_operations;
	prediction->ranks = (uint32_t)post->gpus;
	prediction->ranks_simulated = trained->ranks_simulated;
	prediction->simulation_s = trained->simulation_s + written->simulation_s;
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
	if (!request->prompt) assumed[count++] = "prompts of 128 tokens (--prompt)";
	const char *scored =
		post->said.policy > 0
			? post->said.reference > 0 ? "of the policy and of the reference" : "of the policy"
		: post->said.reference > 0 ? "of the reference"
								   : "are not computed";
	assumed[count++] = lk_arena_printf(
		arena,
		post->said.padded > 0
			? "each sequence is a row that is padded to %d tokens, the longest"
			: "rows of %d tokens (--seq) are filled with sequences; attention spans the row",
		post->trained->seq);
	assumed[count++] = lk_arena_printf(
		arena, "%d %s, %.0f %s; log-probabilities %s", post->sequences,
		lk_noun(post->sequences, "sequence", "sequences"), post->updates * post->said.epochs,
		lk_noun(post->updates * post->said.epochs, "update", "updates"), scored);
	if (post->algorithm->critic)
		assumed[count++] = "the critic is as large as the policy; its weights and state are not in "
						   "the memory shown";
	if (post->said.reward <= 0) assumed[count++] = "rewards take no time (--rollout reward=)";
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
		lk_command(arena, &(lk_question){.verb = &lk_predict_verb, .request = post->given});
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
	LK_TRY(run_writing(post, &writing, err));
	LK_TRY(read_post_lengths(post, err));
	LK_TRY(run_training(post, &training, err));
	run_refit(post);
	LK_TRY(fill_post_times(post, prediction, err));
	fill_post_speed(post, prediction);
	fill_post_layout(post, prediction);
	return post_note(post, prediction, err);
}
