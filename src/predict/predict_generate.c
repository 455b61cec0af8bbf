/* predict_generate.c: `predict --task generate`: sequences that inference engines write, without
 * training: tokens/s, time between tokens, room for keys and values, largest batch
 * (rollout/rollout.h). Options that shape a training step do not apply and are refused. */
#include "predict/predict.h"
#include "predict/predict_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/noun.h"
#include "cost/calibration/calibration.h"
#include "rollout/rollout.h"

bool lk_predict_generates(const lk_predict_request *request) {
	return request->task && lk_same_name(request->task, "generate");
}

/* ---- the request ---- */

enum { PROMPT = 128, SEQUENCES = 512, SEED = 1, ASSUMPTIONS = 12 };

struct generation {
	lk_arena *arena;
	const lk_predict_request *request;
	lk_asked asked;
	lk_engine engine;
	lk_engine_memory memory;
	int engines;
	double prompt, most; /* tokens of a prompt; where a response is cut, 0 nowhere */
	double mean;         /* of a response; of a file's, the mean of those taken */
	int kind;            /* lk_length_kind; -1: a file */
	bool kind_given;
	size_t count;
	double *lengths; /* [count] scratch */
	lk_sequence *sequences;
	double longest;
};

static lk_status generate_check_options(const lk_predict_request *request, lk_error *err) {
	static const char acts[] =
		"model as gpu gpus cluster power calibration task tp pp ep dp gbs dtype cuda-graphs "
		"response response-max lengths prompt samples engine gpu-mem-util max-sequences "
		"max-tokens prefix-caching attention-dp kv-dtype speculative";
	for (const lk_option *option = lk_predict_verb.options; option->name; option++) {
		if (option->output || !lk_request_gives(request, option)) continue;
		if (lk_name_among(acts, option->name)) continue;
		char where[64];
		snprintf(where, sizeof where, "--%s", option->name);
		lk_fail(err, LK_ERR_INPUT, where, "it has no effect on --task generate");
		return lk_hint(err, "leave it out; it shapes a training step");
	}
	if (request->launch_count > 0) {
		lk_fail(err, LK_ERR_INPUT, "launch line", "--task generate takes no launch line");
		return lk_hint(err, "give --model, --gpu and the options of generation");
	}
	if (!request->detail && !request->step) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, request->detail ? "--html" : "--trace, --graph, --chakra or --goal",
	        "generation has no step graph to write");
	return lk_hint(err, "leave it out; -o json holds every figure");
}

static lk_status generate_dtype(const char *text, const char *where, lk_dtype otherwise,
                                lk_dtype *out, lk_error *err) {
	*out = otherwise;
	if (!text) return LK_OK;
	if (lk_dtype_parse(text, out) && *out != LK_FP32 && *out != LK_TF32) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "'%.40s' is not a format that engines generate in", text);
	return lk_hint(err, "give bf16, fp16, fp8, mxfp8 or nvfp4");
}

static lk_status read_speculative(const char *text, lk_engine *engine, lk_error *err) {
	if (!text) return LK_OK;
	const char *end, *rate = strchr(text, ':');
	double draft = lk_read_real(text, &end);
	bool read = rate && end == rate && draft >= 1 && draft <= 32 && draft == floor(draft);
	double accept = rate ? lk_read_real(rate + 1, &end) : NAN;
	if (read && *end == '\0' && end > rate + 1 && accept >= 0 && accept <= 1) {
		engine->draft = (int)draft;
		engine->accept = accept;
		return LK_OK;
	}
	lk_fail(err, LK_ERR_INPUT, "--speculative", "'%.40s' is not understood", text);
	return lk_hint(err,
	               "give tokens (1 to 32) and the rate at which one is accepted (0 to 1): 3:0.7");
}

static lk_status read_software(const lk_predict_request *request, lk_engine *engine,
                               lk_error *err) {
	engine->software = lk_engine_software_find(request->engine ? request->engine : "vllm");
	if (!engine->software) {
		lk_fail(err, LK_ERR_INPUT, "--engine", "unknown engine '%.40s'", request->engine);
		return lk_hint(err, "give vllm, sglang, tensorrt-llm, tensorrt-llm-1.0 or tensorrt-engine");
	}
	engine->numbers = lk_engine_numbers_of(engine->software);
	engine->memory_share =
		request->gpu_mem_util > 0 ? request->gpu_mem_util : engine->software->memory_share;
	engine->sequences =
		request->max_sequences > 0 ? request->max_sequences : engine->software->sequences;
	engine->tokens = request->max_tokens > 0 ? request->max_tokens : engine->software->tokens;
	return LK_OK;
}

static lk_status read_layout(struct generation *generation, lk_error *err) {
	const lk_predict_request *request = generation->request;
	lk_engine *engine = &generation->engine;
	int gpus = generation->asked.job.gpus;
	engine->tp = request->tp > 0 ? request->tp : 1;
	engine->pp = request->pp > 0 ? request->pp : 1;
	engine->ep = request->ep > 0 ? request->ep : 1;
	int each = engine->tp * engine->pp;
	generation->engines = gpus / each;
	if (gpus % each != 0) {
		lk_fail(err, LK_ERR_INPUT, "--gpus",
		        "%d GPUs are no whole number of engines of %d (tp x pp)", gpus, each);
		return lk_hint(err, "give a multiple of %d", each);
	}
	if (request->dp && request->dp != generation->engines) {
		lk_fail(err, LK_ERR_INPUT, "--dp", "%d GPUs are %d engines of %d (tp x pp), not %d", gpus,
		        generation->engines, each, request->dp);
		return lk_hint(err, "leave --dp out, or give %d", generation->engines);
	}
	if (!engine->attention_dp || engine->tp > 1) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--attention-dp", "an engine has one GPU for attention");
	return lk_hint(err, "use --tp 2 or more, or leave it out");
}

static lk_status read_engine(struct generation *generation, lk_error *err) {
	const lk_predict_request *request = generation->request;
	lk_engine *engine = &generation->engine;
	LK_TRY(read_software(request, engine, err));
	engine->model = &generation->asked.job.model;
	engine->cluster = &generation->asked.cluster;
	engine->attention_dp = request->attention_dp;
	engine->eager = request->cuda_graphs < 0;
	engine->prefix_caching = request->prefix_caching >= 0;
	LK_TRY(generate_dtype(request->dtype, "--dtype", LK_BF16, &engine->dtype, err));
	bool narrow = engine->dtype >= LK_FP8;
	LK_TRY(generate_dtype(request->kv_dtype, "--kv-dtype", narrow ? LK_FP8 : LK_BF16,
	                      &engine->kv_dtype, err));
	lk_engine_take_mxfp4(engine, !request->kv_dtype);
	LK_TRY(read_speculative(request->speculative, engine, err));
	return read_layout(generation, err);
}

static lk_status read_lengths(struct generation *generation, lk_error *err) {
	const lk_predict_request *request = generation->request;
	const char *kind = request->lengths;
	generation->kind = LK_LENGTHS_LOGNORMAL;
	generation->kind_given = kind != NULL;
	generation->mean = request->response;
	for (int i = 0; kind && lk_length_kind_names[i]; i++)
		if (lk_same_name(kind, lk_length_kind_names[i])) generation->kind = i, kind = NULL;
	if (kind) {
		generation->kind = -1;
		LK_TRY(lk_lengths_read(kind, generation->count, generation->lengths, err));
		if (!request->response) return LK_OK;
		lk_fail(err, LK_ERR_INPUT, "--response", "the lengths are those of %s", kind);
		return lk_hint(err, "leave it out");
	}
	if (request->response > 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--response", "the length of responses is not known");
	return lk_hint(err, "give --response with the mean tokens of one, or --lengths with a file");
}

static lk_status read_sequences(struct generation *generation, lk_error *err) {
	const lk_predict_request *request = generation->request;
	generation->count = (size_t)(request->gbs > 0 ? request->gbs : SEQUENCES);
	generation->prompt = request->prompt > 0 ? request->prompt : PROMPT;
	generation->most = request->response_max;
	if (generation->most > 0 && request->response > generation->most) {
		lk_fail(err, LK_ERR_INPUT, "--response-max", "%.0f tokens at most, %.0f in the mean",
		        generation->most, request->response);
		return lk_hint(err, "give a mean below the limit");
	}
	generation->lengths = LK_ARRAY(generation->arena, double, generation->count);
	generation->sequences = LK_ARRAY(generation->arena, lk_sequence, generation->count);
	if (!generation->lengths || !generation->sequences) return lk_oom(err);
	return read_lengths(generation, err);
}

/* ---- the phase ---- */

/* Sequences with lengths of a kind; of a file as they are in it. */
static void make_sequences(struct generation *generation, int kind) {
	int samples = generation->request->samples > 0 ? generation->request->samples : 1;
	double sum = 0;
	if (kind >= 0)
		lk_lengths_spread((lk_length_kind)kind, generation->mean, generation->most, SEED,
		                  generation->count, generation->lengths);
	generation->longest = 0;
	for (size_t i = 0; i < generation->count; i++) {
		double length = generation->lengths[i];
		if (kind < 0 && generation->most > 0) length = fmin(length, generation->most);
		generation->longest = fmax(generation->longest, length);
		sum += length;
		generation->sequences[i] =
			(lk_sequence){generation->prompt, length, (uint32_t)(i / (size_t)samples)};
	}
	if (kind < 0) generation->mean = sum / (double)generation->count;
}

static bool has_room(const struct generation *generation) {
	return generation->prompt + generation->longest + 1 <= generation->memory.tokens;
}

/* A job that does not fit is timed as if it did. */
static lk_status run_phase(struct generation *generation, int kind, lk_rollout *out,
                           lk_error *err) {
	make_sequences(generation, kind);
	generation->memory =
		lk_engine_memory_of(&generation->engine, generation->prompt + generation->mean);
	generation->engine.sequences = generation->memory.sequences;
	return lk_rollout_run(&generation->engine, generation->engines,
	                      has_room(generation) ? generation->memory.tokens : INFINITY,
	                      generation->sequences, generation->count, out, err);
}

/* What a mean hides: the phase with the least and with the widest spread. */
static lk_status generate_fill_range(struct generation *generation, lk_prediction *prediction,
                                     lk_error *err) {
	lk_rollout fixed, wide;
	LK_TRY(run_phase(generation, LK_LENGTHS_FIXED, &fixed, err));
	LK_TRY(run_phase(generation, LK_LENGTHS_EXPONENTIAL, &wide, err));
	prediction->generation.fixed_s = fixed.longest.seconds;
	prediction->generation.exponential_s = wide.longest.seconds;
	return LK_OK;
}

/* ---- the answer ---- */

static void generate_fill_memory(const struct generation *generation, const lk_rollout *rollout,
                                 lk_stage_memory *memory, lk_prediction *prediction) {
	const lk_engine_memory *held = &generation->memory;
	double tokens = fmin(rollout->longest.most_tokens, held->tokens);
	if (!has_room(generation)) tokens = generation->prompt + generation->longest + 1;
	if (generation->engine.attention_dp) tokens /= generation->engine.tp;
	double cache = fmin(tokens * held->token, has_room(generation) ? held->cache : INFINITY) +
	               held->state * held->sequences;
	*memory = (lk_stage_memory){.weights = held->weights,
	                            .buffers = cache,
	                            .workspace = held->workspace,
	                            .allocated = held->weights + held->workspace + cache,
	                            .low = NAN,
	                            .high = NAN,
	                            .context = held->context};
	memory->reserved = memory->allocated;
	memory->total = memory->reserved + memory->context;
	lk_copy(memory->moment, sizeof memory->moment, "the largest batch");
	prediction->memory = memory;
	prediction->memory_count = 1;
	prediction->peak_bytes = memory->total;
	prediction->usable_bytes = held->usable;
	if (has_room(generation)) prediction->usable_bytes = fmax(held->usable, memory->total);
	prediction->fits = prediction->peak_bytes <= prediction->usable_bytes;
}

static void fill_figures(const struct generation *generation, const lk_rollout *rollout,
                         lk_prediction *prediction) {
	const lk_engine_memory *held = &generation->memory;
	lk_generation *out = &prediction->generation;
	double length = generation->prompt + generation->mean, seconds = rollout->longest.seconds;
	out->sequences = (int)generation->count;
	out->engines = generation->engines;
	out->engine_gpus = generation->engine.tp * generation->engine.pp;
	out->tokens = rollout->tokens;
	out->tokens_per_s = rollout->tokens / seconds;
	out->token_time_s = rollout->longest.running_s / rollout->longest.tokens;
	out->longest_tokens = generation->longest;
	out->cache_bytes = fmax(0, held->cache);
	out->token_bytes = held->token;
	out->cache_tokens = held->tokens;
	out->batch_room = fmin(generation->engine.sequences, floor(held->tokens / length));
	out->batch_most = rollout->longest.most;
	out->tail_s = rollout->longest.tail_s;
	out->preempted = (double)rollout->preempted;
}

static void generate_fill_speed(const struct generation *generation, const lk_rollout *rollout,
                                lk_prediction *prediction) {
	const lk_device *device = generation->asked.cluster.node[0].device;
	const lk_model *model = &generation->asked.job.model;
	double seconds = rollout->longest.seconds, gpus = generation->asked.job.gpus;
	double tokens = rollout->tokens + generation->prompt * (double)generation->count;
	lk_dtype dtype = generation->engine.dtype;
	prediction->step_time_s = seconds;
	prediction->tokens_per_s_per_gpu = rollout->tokens / seconds / gpus;
	prediction->samples_per_s = (double)generation->count / seconds;
	prediction->unit = "sequence";
	prediction->model_flops_per_s_per_gpu =
		2 * lk_model_active_params(model) * tokens / seconds / gpus;
	prediction->peak_flops =
		device->peak_flops[dtype] > 0 ? device->peak_flops[dtype] : device->peak_flops[LK_BF16];
	if (prediction->peak_flops > 0)
		prediction->mfu = fmin(1, prediction->model_flops_per_s_per_gpu / prediction->peak_flops);
	prediction->peak_label =
		lk_arena_printf(generation->arena, "%.1f TFLOP/s dense %s, %s",
	                    prediction->peak_flops / 1e12, lk_dtype_name(dtype), device->label);
}

static lk_status generate_fill_breakdown(const struct generation *generation,
                                         const lk_rollout *rollout, lk_prediction *prediction,
                                         lk_error *err) {
	lk_time_part *parts = LK_ARRAY(generation->arena, lk_time_part, LK_GENERATION_PARTS);
	if (!parts) return lk_oom(err);
	for (int i = 0; i < LK_GENERATION_PARTS; i++)
		if (rollout->longest.parts[i] > 0)
			parts[prediction->breakdown_count++] =
				(lk_time_part){lk_generation_part_keys[i], lk_generation_part_labels[i],
			                   rollout->longest.parts[i], 0};
	prediction->breakdown = parts;
	return LK_OK;
}

/* Measured over predicted of TensorRT-LLM's published throughput (312 rows of ten networks), each
 * from a fit without its network: eight rows of ten lie between. */
static const double RATIO_LOW = 0.81, RATIO_HIGH = 1.25;

/* And where nobody says how lengths spread, by what a mean hides. */
static void generate_finish_range(const struct generation *generation, lk_prediction *prediction) {
	const lk_generation *found = &prediction->generation;
	double seconds = prediction->step_time_s, low = seconds, high = seconds;
	prediction->basis = "measured throughput of inference engines";
	if (!generation->kind_given) {
		low = fmin(low, fmin(found->fixed_s, found->exponential_s));
		high = fmax(high, fmax(found->fixed_s, found->exponential_s));
		prediction->basis = "measured throughput; lengths from equal to exponential";
	}
	prediction->step_time_low_s = low * RATIO_LOW;
	prediction->step_time_high_s = high * RATIO_HIGH;
}

static void generate_fill_layout(const struct generation *generation, const lk_rollout *rollout,
                                 lk_prediction *prediction) {
	const lk_engine *engine = &generation->engine;
	prediction->gpus = generation->asked.job.gpus;
	prediction->tp = engine->tp;
	prediction->pp = engine->pp;
	prediction->ep = engine->ep;
	prediction->vp = prediction->cp = prediction->microbatches = prediction->mbs = 1;
	prediction->dp = generation->engines;
	prediction->gbs = (int)generation->count;
	prediction->seq = (int)fmin(2e9, generation->prompt + generation->longest);
	prediction->recompute = prediction->schedule = "none";
	prediction->dtype = lk_dtype_name(engine->dtype);
	prediction->operations = rollout->events;
	prediction->ranks = (uint32_t)prediction->gpus;
	prediction->ranks_simulated = (uint32_t)generation->engines;
}

static lk_status generate_assume(const struct generation *generation, lk_prediction *prediction,
                                 lk_error *err) {
	const lk_predict_request *request = generation->request;
	const lk_engine *engine = &generation->engine;
	lk_arena *arena = generation->arena;
	const char **assumed = LK_ARRAY(arena, const char *, ASSUMPTIONS);
	int count = 0;
	if (!assumed) return lk_oom(err);
	if (!generation->kind_given)
		assumed[count++] =
			lk_arena_printf(arena, "lengths spread lognormally, deviation of ln %.1f (--lengths)",
		                    lk_lengths_sigma);
	if (!request->prompt) assumed[count++] = "prompts of 128 tokens (--prompt)";
	if (!request->gbs) assumed[count++] = "512 sequences (--gbs)";
	if (!request->engine) assumed[count++] = "vllm generates (--engine)";
	assumed[count++] = lk_arena_printf(
		arena, "an engine uses %.2f of a GPU's memory, runs %d %s and %d tokens at most",
		engine->memory_share, engine->sequences,
		lk_noun(engine->sequences, "sequence", "sequences"), engine->tokens);
	assumed[count++] =
		lk_arena_printf(arena, "keys and values are kept in %s", lk_dtype_name(engine->kv_dtype));
	assumed[count++] = "all sequences wait at the start; prompts are dealt over engines in turn";
	if (engine->draft)
		assumed[count++] = "a guessed token costs one layer and the head of one row a sequence";
	for (int i = 0; i < count; i++)
		if (!assumed[i]) return lk_oom(err);
	prediction->assumptions = assumed;
	prediction->assumption_count = count;
	return LK_OK;
}

static lk_status generate_note(const struct generation *generation, lk_prediction *prediction,
                               lk_error *err) {
	char params[32], active[32];
	const lk_engine *engine = &generation->engine;
	const lk_model *model = engine->model;
	lk_arena *arena = generation->arena;
	prediction->model =
		lk_arena_printf(arena, "%s: %s parameters, %s for a token", model->name,
	                    lk_format_count(lk_model_params(model), params, sizeof params),
	                    lk_format_count(lk_model_active_params(model), active, sizeof active));
	prediction->cluster = lk_arena_printf(arena, "%s", generation->asked.cluster.text);
	prediction->layout = lk_arena_printf(
		arena, "%d %s of tp %d x pp %d, ep %d%s; %zu %s of %.0f + %.0f tokens, %s",
		generation->engines, lk_noun(generation->engines, "engine", "engines"), engine->tp,
		engine->pp, engine->ep, engine->attention_dp ? ", attention by sequences" : "",
		generation->count, lk_noun(generation->count, "sequence", "sequences"), generation->prompt,
		generation->mean, lk_dtype_name(engine->dtype));
	if (generation->asked.warning[0]) prediction->warning = generation->asked.warning;
	prediction->reproduce = lk_reproduce_given(arena, generation->request);
	if (!prediction->model || !prediction->cluster || !prediction->layout || !prediction->reproduce)
		return lk_oom(err);
	return generate_assume(generation, prediction, err);
}

/* Network and cluster; the latter alone where the network is given. */
static lk_status take_job(struct generation *generation, const lk_model *model, lk_error *err) {
	const lk_predict_request *request = generation->request;
	if (!model) {
		lk_predict_request network = *request;
		network.task = NULL; /* only the network and the cluster are read from it */
		return lk_request_take(generation->arena, &network, &generation->asked, err);
	}
	lk_where where = {.cluster = request->cluster,
	                  .gpu = request->gpu,
	                  .gpus = request->gpus,
	                  .power_w = request->power};
	LK_TRY(lk_cost_ready(err));
	generation->asked.job.model = *model;
	return lk_where_read(generation->arena, &where, &generation->asked.cluster,
	                     &generation->asked.job.gpus, err);
}

lk_status lk_predict_generate(lk_arena *arena, const lk_predict_request *request,
                              const lk_model *model, lk_prediction *prediction, lk_error *err) {
	struct generation *generation = LK_NEW(arena, struct generation);
	lk_stage_memory *memory = LK_NEW(arena, lk_stage_memory);
	lk_rollout rollout;
	if (!generation || !memory) return lk_oom(err);
	*generation = (struct generation){.arena = arena, .request = request};
	LK_TRY(generate_check_options(request, err));
	LK_TRY(take_job(generation, model, err));
	LK_TRY(read_engine(generation, err));
	LK_TRY(read_sequences(generation, err));
	double begin = lk_clock_s();
	if (generation->kind >= 0) LK_TRY(generate_fill_range(generation, prediction, err));
	LK_TRY(run_phase(generation, generation->kind, &rollout, err));
	prediction->simulation_s = lk_clock_s() - begin;
	generate_fill_memory(generation, &rollout, memory, prediction);
	fill_figures(generation, &rollout, prediction);
	generate_fill_speed(generation, &rollout, prediction);
	LK_TRY(generate_fill_breakdown(generation, &rollout, prediction, err));
	generate_finish_range(generation, prediction);
	generate_fill_layout(generation, &rollout, prediction);
	return generate_note(generation, prediction, err);
}
