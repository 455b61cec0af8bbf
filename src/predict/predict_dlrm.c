/* predict_dlrm.c: `predict` for recommendation models: tables dealt out over the GPUs, MLPs copied
 * (model/build/dlrm_hybrid.c). Options that shape transformers do not apply and are refused, so
 * that none is quietly ignored.
 */
#include "base/arena.h"
#include "predict/predict_internal.h"

#include <math.h>
#include <string.h>

#include "step/step.h"
#include "base/text.h"
#include "cost/calibration/calibration.h"
#include "launch/launch.h"

/* ---- the request ---- */

static bool is_path(const char *name) {
	return strchr(name, '/') || lk_ends_in(name, ".json");
}

bool lk_predict_is_dlrm(const lk_predict_request *request) {
	lk_arena arena = LK_ARENA_INIT;
	lk_dlrm model;
	lk_error unused;
	if (!request->model || request->launch_count || request->script) return false;
	bool is = false;
	if (!is_path(request->model)) {
		is = strncmp(request->model, "dlrm", 4) == 0 ||
		     lk_dlrm_preset(&arena, request->model, &model, &unused) == LK_OK;
	} else {
		lk_stream *in = NULL;
		lk_value *root = NULL;
		if (lk_stream_open(request->model, &in, &unused) == LK_OK &&
		    lk_json_document(&arena, in, &root, &unused) == LK_OK) {
			const lk_value *type = lk_json_get(root, "model_type");
			is = type && type->kind == LK_JSON_STRING && strcmp(type->text, "dlrm") == 0;
		}
		lk_stream_close(in);
	}
	lk_arena_free(&arena);
	return is;
}

/* Options that mean nothing here, by name: all that are not listed. */
static lk_status check_options(const lk_predict_request *request, lk_error *err) {
	static const char *const used[] = {
		"model",    "gpu",  "gpus",   "cluster", "calibration",         "gbs",
		"dtype",    "dp",   "ranks",  "exact",   "no-contention",       "straggler",
		"jitter",   "seed", "tokens", "mtbf",    "checkpoint-interval", "trace-ranks",
		"no-fixes", NULL};
	for (const lk_option *option = lk_predict_verb.options; option->name; option++) {
		if (option->output) continue;
		const void *field = (const char *)request + option->offset;
		bool given;
		if (option->kind == LK_OPTION_FLAG) given = *(const bool *)field;
		else if (option->kind == LK_OPTION_TEXT) given = *(const char *const *)field != NULL;
		else if (option->kind == LK_OPTION_REAL || option->kind == LK_OPTION_COUNT)
			given = *(const double *)field != 0;
		else given = *(const int *)field != 0;
		bool known = false;
		for (int i = 0; used[i]; i++) known |= strcmp(used[i], option->name) == 0;
		if (!given || known) continue;
		char where[64];
		snprintf(where, sizeof where, "--%s", option->name);
		lk_fail(err, LK_ERR_INPUT, where, "it does not apply to recommendation models");
		return lk_hint(
			err,
			"leave it out; --gbs, --gpus and --dtype shape the job, lockstep shard places tables");
	}
	return LK_OK;
}

static lk_status dlrm_read_cluster(lk_arena *arena, const lk_predict_request *request,
                                   lk_cluster *out, int *ranks, lk_error *err) {
	lk_where where = {.cluster = request->cluster, .gpu = request->gpu, .gpus = request->gpus};
	return lk_where_read(arena, &where, out, ranks, err);
}

static lk_status read_job(const lk_predict_request *request, int ranks, lk_dlrm_job *out,
                          lk_error *err) {
	*out = (lk_dlrm_job){
		.batch = request->gbs ? request->gbs : 8192.0 * ranks, .ranks = ranks, .dtype = LK_FP16};
	if (request->dtype && (!lk_dtype_parse(request->dtype, &out->dtype) || out->dtype > LK_BF16)) {
		lk_fail(err, LK_ERR_INPUT, "--dtype", "'%.40s' is not modelled for recommendation models",
		        request->dtype);
		return lk_hint(err, "give fp32, tf32, fp16 or bf16");
	}
	if (request->dp && request->dp != ranks) {
		lk_fail(err, LK_ERR_INPUT, "--dp", "the MLPs are copied on all %d GPUs", ranks);
		return lk_hint(err, "leave --dp out, or give %d", ranks);
	}
	if (out->batch >= ranks && fmod(out->batch, ranks) == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--gbs", "%.0f samples do not divide by %d GPUs", out->batch, ranks);
	return lk_hint(err, "give a multiple, such as %.0f", fmax(ceil(out->batch / ranks), 1) * ranks);
}

/* ---- the answer ---- */

/* The CUDA context with its libraries (as in memory_use.c), and the buffers of two communicators of
 * NCCL. */
static const double context_bytes = 0.8 * 0x1p30, nccl_bytes = 0.3 * 0x1p30;

static lk_status dlrm_fill_memory(lk_arena *arena, const lk_step *step, const lk_cluster *cluster,
                                  int ranks, lk_prediction *prediction, lk_error *err) {
	lk_stage_memory *memory = LK_NEW(arena, lk_stage_memory);
	const double *held = step->graph->programs.at[0].resident;
	if (!memory) return lk_oom(err);
	*memory = (lk_stage_memory){.weights = held[LK_OWN_WEIGHTS],
	                            .gradients = held[LK_OWN_GRADIENTS],
	                            .optimizer = held[LK_OWN_OPTIMIZER],
	                            .activations = held[LK_OWN_ACTIVATIONS],
	                            .buffers = held[LK_OWN_BUFFERS],
	                            .low = NAN,
	                            .high = NAN,
	                            .context = context_bytes,
	                            .nccl = ranks > 1 ? nccl_bytes : 0};
	for (int i = 0; i < LK_OWNERS; i++) memory->allocated += held[i];
	memory->reserved = memory->allocated;
	memory->total = memory->reserved + memory->context + memory->nccl;
	lk_copy(memory->moment, sizeof memory->moment, "the whole step");
	prediction->memory = memory;
	prediction->memory_count = 1;
	prediction->peak_bytes = memory->total;
	prediction->usable_bytes = cluster->node[0].device->memory_bytes;
	for (int i = 1; i < cluster->groups; i++)
		prediction->usable_bytes =
			fmin(prediction->usable_bytes, cluster->node[i].device->memory_bytes);
	prediction->fits = prediction->peak_bytes <= prediction->usable_bytes;
	return LK_OK;
}

static const lk_calibration_row *stack_row(const char *dtype) {
	return lk_calibration_find(lk_calibration_current(), "recommender", "hugectr", dtype);
}

/* Measured over simulated: what the stack's number makes of a step, and of its parts alike. */
static double dlrm_scale_of(const lk_dlrm_job *job) {
	return lk_calibration_value(stack_row(lk_dtype_name(job->dtype)), "scale", 1);
}

/* What `validate --mlperf --cross-validate` missed by in four of five rows; fp16 alone was
 * measured. */
static void fill_range(lk_prediction *prediction) {
	const lk_calibration_row *row = stack_row("fp16");
	prediction->step_time_low_s = prediction->step_time_s * lk_calibration_value(row, "low", 0.5);
	prediction->step_time_high_s = prediction->step_time_s * lk_calibration_value(row, "high", 2);
}

static lk_status dlrm_fill_breakdown(lk_arena *arena, const lk_step *step, const lk_dlrm_job *job,
                                     lk_prediction *prediction, lk_error *err) {
	double scale = dlrm_scale_of(job);
	lk_time_part *parts = LK_ARRAY(arena, lk_time_part, LK_PART_COUNT);
	if (!parts) return lk_oom(err);
	for (int i = 0; i < LK_PART_COUNT; i++) {
		double exposed = scale * step->breakdown.exposed_s[i],
			   hidden = scale * step->breakdown.hidden_s[i];
		if (exposed <= 0 && hidden <= 0) continue;
		const char *label;
		if (i == LK_PART_EP) label = "all-to-all of tables";
		else if (i == LK_PART_MEMORY) label = "lookups and other memory-bound";
		else label = lk_part_label((lk_part)i);
		parts[prediction->breakdown_count++] =
			(lk_time_part){lk_part_key((lk_part)i), label, exposed, hidden};
	}
	prediction->breakdown = parts;
	return LK_OK;
}

static void dlrm_fill_speed(lk_arena *arena, const lk_step *step, const lk_cluster *cluster,
                            const lk_dlrm_job *job, lk_prediction *prediction) {
	const lk_device *device = cluster->node[0].device;
	prediction->step_time_s = step->step_s * dlrm_scale_of(job);
	fill_range(prediction);
	prediction->basis = "MLPerf steps of other models and GPUs (validate --mlperf)";
	prediction->samples_per_s = job->batch / prediction->step_time_s;
	prediction->model_flops_per_s_per_gpu =
		step->graph->model_flops / prediction->step_time_s / job->ranks;
	prediction->peak_flops =
		device->peak_flops[job->dtype] > 0 ? device->peak_flops[job->dtype] : device->vector_flops;
	if (prediction->peak_flops > 0) {
		prediction->mfu = prediction->model_flops_per_s_per_gpu / prediction->peak_flops;
		prediction->hfu = prediction->mfu;
	}
	prediction->peak_label =
		lk_arena_printf(arena, "%.1f TFLOP/s dense %s, %s", prediction->peak_flops / 1e12,
	                    lk_dtype_name(job->dtype), device->label);
}

static lk_status dlrm_note(lk_arena *arena, const lk_predict_request *request, const lk_dlrm *dlrm,
                           const lk_dlrm_job *job, const lk_cluster *cluster,
                           lk_prediction *prediction, lk_error *err) {
	static const char *const interactions[] = {"dot", "cat", "cross"};
	char params[32];
	const char **assumed = LK_ARRAY(arena, const char *, 4);
	const char *model = lk_shell_quote(arena, request->model),
			   *where = lk_shell_quote(arena, request->cluster ? request->cluster : request->gpu);
	if (!assumed || !model || !where) return lk_oom(err);
	prediction->model = lk_arena_printf(
		arena, "%s: %s parameters, %.0f tables of dim %.0f, %.0f lookups a sample, interaction %s",
		dlrm->name[0] ? dlrm->name : request->model,
		lk_format_count(lk_dlrm_params(dlrm), params, sizeof params), dlrm->tables, dlrm->dim,
		lk_dlrm_lookups(dlrm), interactions[dlrm->interaction]);
	prediction->cluster = lk_arena_printf(arena, "%s", cluster->text);
	prediction->layout = lk_arena_printf(arena, "tables over %d GPUs, MLPs copied, batch %.0f, %s",
	                                     job->ranks, job->batch, lk_dtype_name(job->dtype));
	prediction->reproduce = lk_arena_printf(
		arena, "lockstep predict --model %s --%s %s --gpus %d --gbs %.0f --dtype %s", model,
		request->cluster ? "cluster" : "gpu", where, job->ranks, job->batch,
		lk_dtype_name(job->dtype));
	assumed[prediction->assumption_count++] =
		"tables are evenly dealt out (lockstep shard says how evenly they can be)";
	assumed[prediction->assumption_count++] =
		"lookups miss the caches as uniform ones do; rows or small tables that many samples look "
		"up are copied on every GPU";
	assumed[prediction->assumption_count++] =
		"loading of data overlaps with the previous step; the step is replayed from a CUDA graph";
	if (!request->gbs) assumed[prediction->assumption_count++] = "batch 8192 for each GPU";
	prediction->assumptions = assumed;
	return prediction->model && prediction->cluster && prediction->layout && prediction->reproduce
	           ? LK_OK
	           : lk_oom(err);
}

lk_status lk_predict_dlrm(lk_arena *arena, const lk_predict_request *request,
                          const lk_step_options *options, lk_step *step, lk_prediction *prediction,
                          lk_error *err) {
	lk_dlrm model;
	lk_dlrm_job job;
	lk_cluster *cluster = LK_NEW(arena, lk_cluster);
	int ranks = 0;
	if (!cluster) return lk_oom(err);
	LK_TRY(check_options(request, err));
	if (is_path(request->model)) LK_TRY(lk_dlrm_file(arena, request->model, &model, err));
	else LK_TRY(lk_dlrm_preset(arena, request->model, &model, err));
	LK_TRY(dlrm_read_cluster(arena, request, cluster, &ranks, err));
	LK_TRY(read_job(request, ranks, &job, err));
	job.node_ranks =
		cluster->groups == 1 && ranks % cluster->node[0].gpus == 0 ? cluster->node[0].gpus : 0;
	LK_TRY(lk_dlrm_ask(&model, &job, cluster, options, step, err));
	LK_TRY(dlrm_fill_memory(arena, step, cluster, ranks, prediction, err));
	LK_TRY(dlrm_fill_breakdown(arena, step, &job, prediction, err));
	dlrm_fill_speed(arena, step, cluster, &job, prediction);
	prediction->gpus = prediction->dp = ranks;
	prediction->tp = prediction->pp = prediction->vp = prediction->cp = prediction->ep = 1;
	prediction->microbatches = 1;
	prediction->gbs = (int)job.batch;
	prediction->mbs = (int)(job.batch / ranks);
	prediction->recompute = "none";
	prediction->dtype = lk_dtype_name(job.dtype);
	prediction->schedule = "none";
	prediction->operations = step->sim.operations;
	prediction->ranks_simulated = step->sim.lanes;
	prediction->ranks = (uint32_t)ranks;
	prediction->simulation_s = step->simulation_s;
	return dlrm_note(arena, request, &model, &job, cluster, prediction, err);
}
