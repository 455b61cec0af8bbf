/* post_phases.c: the phases of a step of reinforcement learning on one timeline, and derived
 * results: the time of a step with its range, the speed, the summary of both layouts. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "predict/predict_internal.h"

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

/* Phases of the training GPUs; concurrent work of engines and networks on their own GPUs is hidden
 * for as long as those train. Returns the step. */
static double fill_phases(const lk_post *post, double generation, lk_time_part *parts) {
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

/* Timeline of each side: engines on their own GPUs generate from the start of a step, whether the
 * others wait for it or learn from earlier sequences; both stop for the refit. */
static void fill_post_spans(const lk_post *post, lk_prediction *prediction) {
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

/* If response lengths are not stated, the tokens of a step relative to the assumed ones: for a mean
 * of a quarter of the limit, and with the limit for all. */
static void open_lengths(const lk_post *post, double *shorter, double *longer) {
	const lk_predict_request *request = post->request;
	double prompt = request->prompt > 0 ? request->prompt : 128, most = request->response_max;
	*shorter = *longer = 1;
	if (!post->mean_open) return;
	*shorter = (prompt + most / 4) / (prompt + request->response);
	*longer = (prompt + most) / (prompt + request->response);
}

lk_status lk_post_fill_times(const lk_post *post, lk_prediction *prediction, lk_error *err) {
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

void lk_post_fill_speed(const lk_post *post, lk_prediction *prediction) {
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

/* The phase with the least room: of both on the same GPUs; engines of their own, which take the
 * share of memory that they were given, where they do not fit. */
static const lk_prediction *phases_tightest(const lk_post *post) {
	const lk_prediction *trained = post->trained, *written = post->written;
	if (trained->fits != written->fits) return trained->fits ? written : trained;
	bool fuller =
		written->peak_bytes - written->usable_bytes > trained->peak_bytes - trained->usable_bytes;
	return fuller && !post->apart ? written : trained;
}

/* Fill in the layout, and the memory of the phase with the least room. */
void lk_post_fill_layout(const lk_post *post, lk_prediction *prediction) {
	const lk_prediction *trained = post->trained, *written = post->written;
	const lk_prediction *tight = phases_tightest(post);
	prediction->fits = trained->fits && written->fits;
	prediction->out_of_memory = NAN; /* engines beside the training are not among measured runs */
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
