/* predict_dlrm.c: `predict` for recommendation models: MLPs replicated, tables placed by a plan or
 * the search of `lockstep shard`, each operation issued by a host (shard/shard_model.c); or, with
 * --stack hugectr, as in MLPerf's submissions: tables distributed evenly, frequent rows replicated,
 * the step replayed from a CUDA graph (model/dlrm/dlrm_hybrid.c). Options that shape transformers
 * do not apply and are refused, so that none is quietly ignored. */
#include "predict/predict.h"
#include "predict/predict_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "options/command.h"
#include "base/text.h"
#include "base/noun.h"
#include "cost/calibration/calibration.h"
#include "shard/shard.h"
#include "step/step.h"

enum { MODEL_LIMIT = 16 << 20 };

/* ---- the request ---- */

lk_status lk_predict_is_dlrm(const lk_predict_request *request, bool *is, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_dlrm model;
	lk_error unlike;
	lk_status status = LK_OK;
	*is = false;
	if (!request->model || request->launch_count || request->script || request->config)
		return LK_OK;
	if (!lk_dlrm_is_file(request->model)) {
		*is = strncmp(request->model, "dlrm", 4) == 0;
		if (!*is) {
			status = lk_dlrm_preset(&arena, request->model, &model, &unlike);
			*is = status == LK_OK;
		}
	} else {
		/* of bounded size: a wrong path may name anything */
		char *text = NULL;
		size_t size = 0;
		lk_stream *in = NULL;
		lk_value *root = NULL;
		status = lk_stream_slurp(request->model, MODEL_LIMIT, &text, &size, &unlike);
		if (status == LK_OK) status = lk_stream_memory(text, size, request->model, &in, &unlike);
		if (status == LK_OK) status = lk_json_document(&arena, in, &root, &unlike);
		if (status == LK_OK) {
			const lk_value *type = lk_json_get(root, "model_type");
			*is = type && type->kind == LK_JSON_STRING && strcmp(type->text, "dlrm") == 0;
		}
		lk_stream_close(in);
		free(text);
	}
	lk_arena_free(&arena);
	return status == LK_ERR_MEMORY ? lk_oom(err) : LK_OK; /* its reader reports the rest */
}

static bool is_hugectr(const lk_predict_request *request) {
	return request->stack && lk_same_name(request->stack, "hugectr");
}

/* Options with an effect, by name; all others are refused. */
static lk_status check_options(const lk_predict_request *request, lk_error *err) {
	static const char both[] =
		"model gpu gpus cluster calibration gbs mbs dtype dp straggler jitter gpu-spread seed "
		"stack tokens mtbf ranks no-fixes trace-ranks checkpoint-interval checkpoint-write "
		"failures recovery checkpoint-tiers spares repair price-gpu pue carbon";
	static const char eager[] = "plan cuda-graphs", replayed[] = "exact no-contention";
	bool hugectr = is_hugectr(request);
	for (const lk_option *option = lk_predict_verb.options; option->name; option++) {
		if (option->output || !lk_request_gives(request, option)) continue;
		if (lk_name_among(both, option->name)) continue;
		if (lk_name_among(hugectr ? replayed : eager, option->name)) continue;
		char where[64];
		snprintf(where, sizeof where, "--%s", option->name);
		if (lk_name_among(hugectr ? eager : replayed, option->name)) {
			lk_fail(err, LK_ERR_INPUT, where, "it has no effect on recommendation models %s",
			        hugectr
			            ? "of HugeCTR, which spreads tables evenly and replays CUDA graphs"
			            : "whose operations a host issues: each is simulated, without contention");
			return lk_hint(err, "leave it out");
		}
		lk_fail(err, LK_ERR_INPUT, where, "it does not apply to recommendation models");
		return lk_hint(err, "leave it out; --gbs, --gpus, --dtype and --plan shape the job");
	}
	if (!request->stack || hugectr || lk_same_name(request->stack, "torchrec")) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--stack", "'%.40s' runs no recommendation model that is known",
	        request->stack);
	return lk_hint(err, "give torchrec (default) or hugectr");
}

static lk_status read_batch(const lk_predict_request *request, int ranks, double *out,
                            lk_error *err) {
	double each = request->mbs ? request->mbs : LK_DLRM_SAMPLES;
	*out = request->gbs ? request->gbs : each * ranks;
	if (request->mbs && *out != each * ranks) {
		lk_fail(err, LK_ERR_INPUT, "--mbs", "%d GPUs of %.0f samples are not %.0f", ranks, each,
		        *out);
		return lk_hint(err, "leave --mbs or --gbs out: gradients are not accumulated");
	}
	if (*out >= ranks && fmod(*out, ranks) == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--gbs", "%.0f samples are not divisible by %d GPUs", *out, ranks);
	return lk_hint(err, "give a multiple, such as %.0f", fmax(ceil(*out / ranks), 1) * ranks);
}

static lk_status read_job(const lk_predict_request *request, const lk_cluster *cluster, int ranks,
                          lk_dlrm_job *out, lk_error *err) {
	*out = (lk_dlrm_job){.ranks = ranks, .dtype = is_hugectr(request) ? LK_FP16 : LK_FP32};
	if (cluster->groups == 1 && ranks % cluster->node[0].gpus == 0)
		out->node_ranks = cluster->node[0].gpus;
	if (request->dtype && (!lk_dtype_parse(request->dtype, &out->dtype) || out->dtype > LK_BF16)) {
		lk_fail(err, LK_ERR_INPUT, "--dtype", "'%.40s' is not modelled for recommendation models",
		        request->dtype);
		return lk_hint(err, "give fp32, tf32, fp16 or bf16");
	}
	if (request->dp && request->dp != ranks) {
		lk_fail(err, LK_ERR_INPUT, "--dp", "the MLPs are copied on all %d GPUs", ranks);
		return lk_hint(err, "leave --dp out, or give %d", ranks);
	}
	return read_batch(request, ranks, &out->batch, err);
}

/* ---- the step ---- */

struct asked {
	lk_arena *arena;
	const lk_predict_request *request;
	const lk_step_options *options;
	lk_dlrm model;
	lk_dlrm_job job;
	lk_cluster cluster;
	int placed[LK_SHARD_KINDS]; /* tables by kind of placement; all 0 with HugeCTR */
	bool measured;              /* whether the device's rates are measured */
};

static void count_kinds(const lk_shard_pieces *pieces, int counts[LK_SHARD_KINDS]) {
	for (size_t i = 0; i < pieces->count; i++)
		counts[pieces->at[i].kind] += pieces->at[i].part == 0;
}

static lk_status ask_placed(struct asked *asked, lk_step *step, lk_error *err) {
	const lk_predict_request *request = asked->request;
	lk_shard_problem problem;
	lk_shard_plan plan = {0};
	lk_host_terms host = {0};
	lk_eager_device device;
	LK_TRY(lk_shard_of_model(asked->arena, &asked->model, &asked->cluster, asked->job.ranks,
	                         asked->job.batch, asked->job.dtype, &problem, err));
	lk_eager_device_of(problem.at.device, asked->job.dtype, &device);
	asked->measured = device.measured;
	lk_status status = lk_shard_placement(&problem, request->plan, &plan, err);
	if (status == LK_OK) status = lk_host_terms_known(&host, err);
	if (status == LK_OK)
		status = lk_shard_step(&problem, &plan.pieces, &asked->model, asked->job.dtype,
		                       request->cuda_graphs > 0 ? NULL : &host, asked->options, step, err);
	if (status == LK_OK) count_kinds(&plan.pieces, asked->placed);
	lk_host_terms_free(&host);
	lk_vec_free(&plan.pieces);
	return status;
}

static lk_status ask_step(struct asked *asked, lk_step *step, lk_error *err) {
	return is_hugectr(asked->request)
	           ? lk_dlrm_ask(&asked->model, &asked->job, &asked->cluster, asked->options, step, err)
	           : ask_placed(asked, step, err);
}

/* ---- the answer ---- */

/* The CUDA context with its libraries (as in memory_use.c), and the buffers of two NCCL
 * communicators. */
static const double context_bytes = 0.8 * 0x1p30, nccl_bytes = 0.3 * 0x1p30;

static double held_by(const lk_graph *graph, size_t rank) {
	double sum = 0;
	for (int i = 0; i < LK_OWNERS; i++) sum += graph->programs.at[rank].resident[i];
	return sum;
}

static lk_status dlrm_fill_memory(const struct asked *asked, const lk_step *step,
                                  lk_prediction *prediction, lk_error *err) {
	const lk_cluster *cluster = &asked->cluster;
	lk_stage_memory *memory = LK_NEW(asked->arena, lk_stage_memory);
	size_t fullest = 0;
	if (!memory) return lk_oom(err);
	for (size_t r = 1; r < step->graph->programs.count; r++)
		if (held_by(step->graph, r) > held_by(step->graph, fullest)) fullest = r;
	const double *held = step->graph->programs.at[fullest].resident;
	*memory = (lk_stage_memory){.stage = (int)fullest,
	                            .weights = held[LK_OWN_WEIGHTS],
	                            .gradients = held[LK_OWN_GRADIENTS],
	                            .optimizer = held[LK_OWN_OPTIMIZER],
	                            .activations = held[LK_OWN_ACTIVATIONS],
	                            .buffers = held[LK_OWN_BUFFERS],
	                            .low = NAN,
	                            .high = NAN,
	                            .reserved_low = NAN,
	                            .reserved_high = NAN,
	                            .context = context_bytes,
	                            .nccl = asked->job.ranks > 1 ? nccl_bytes : 0,
	                            .allocated = held_by(step->graph, fullest)};
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
	prediction->out_of_memory = NAN;
	return LK_OK;
}

static const lk_calibration_row *stack_row(const char *dtype) {
	return lk_calibration_find(lk_calibration_current(), "recommender", "hugectr", dtype);
}

/* Measured over simulated: the stack's factor on a step and on its parts. */
static double dlrm_scale_of(const struct asked *asked) {
	return is_hugectr(asked->request)
	           ? lk_calibration_value(stack_row(lk_dtype_name(asked->job.dtype)), "scale", 1)
	           : 1;
}

/* Eager steps: the errors of `validate --dlrm`, on the measured devices and one rank; otherwise as
 * wide as HugeCTR's. */
static void fill_range(const struct asked *asked, lk_prediction *prediction) {
	double low, high;
	bool eager = !is_hugectr(asked->request) && asked->request->cuda_graphs <= 0,
		 measured =
			 eager && asked->measured && asked->job.ranks == 1 && asked->job.dtype == LK_FP32;
	lk_shard_step_range(measured, &low, &high);
	prediction->basis = measured ? "measured steps of other recommendation models (validate --dlrm)"
	                             : "MLPerf steps of other models and GPUs (validate --mlperf)";
	prediction->step_time_low_s = prediction->step_time_s * low;
	prediction->step_time_high_s = prediction->step_time_s * high;
}

static lk_status dlrm_fill_breakdown(const struct asked *asked, const lk_step *step,
                                     lk_prediction *prediction, lk_error *err) {
	double scale = dlrm_scale_of(asked);
	lk_time_part *parts = LK_ARRAY(asked->arena, lk_time_part, LK_PART_COUNT);
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

static void dlrm_fill_speed(const struct asked *asked, const lk_step *step,
                            lk_prediction *prediction) {
	const lk_device *device = asked->cluster.node[0].device;
	const lk_dlrm_job *job = &asked->job;
	prediction->step_time_s = step->step_s * dlrm_scale_of(asked);
	fill_range(asked, prediction);
	prediction->samples_per_s = job->batch / prediction->step_time_s;
	prediction->unit = "sample";
	prediction->model_flops_per_s_per_gpu =
		step->graph->model_flops / prediction->step_time_s / job->ranks;
	prediction->peak_flops = lk_device_peak(device, job->dtype);
	if (prediction->peak_flops > 0) {
		prediction->mfu = prediction->model_flops_per_s_per_gpu / prediction->peak_flops;
		prediction->hfu = prediction->mfu;
	}
	prediction->peak_label =
		lk_arena_printf(asked->arena, "%.1f TFLOP/s dense %s, %s", prediction->peak_flops / 1e12,
	                    lk_dtype_name(job->dtype), device->label);
}

/* ---- in words ---- */

static const char *placement_line(const struct asked *asked) {
	static const char *const words[LK_SHARD_KINDS] = {"whole", "by columns", "by rows", "copied"};
	char line[128];
	lk_text text = lk_text_begin(line, sizeof line);
	if (is_hugectr(asked->request)) return "tables spread evenly";
	for (int kind = 0; kind < LK_SHARD_KINDS; kind++)
		if (asked->placed[kind] > 0)
			lk_text_add(&text, "%s%d %s", text.used ? ", " : "", asked->placed[kind], words[kind]);
	return lk_arena_printf(asked->arena, "tables %s", line);
}

/* The command that reproduces it: options as given, the job as resolved. */
static const char *dlrm_reproduce(const struct asked *asked) {
	const lk_predict_request *request = asked->request;
	lk_command_line line = lk_command_begin(asked->arena, lk_predict_verb.name);
	lk_command_text(&line, "model", request->model);
	lk_reproduce_where(&line, request, asked->job.ranks);
	lk_command_number(&line, "gbs", asked->job.batch);
	lk_command_text(&line, "dtype", lk_dtype_name(asked->job.dtype));
	if (is_hugectr(request)) lk_command_text(&line, "stack", "hugectr");
	lk_command_text(&line, "plan", request->plan);
	if (request->cuda_graphs > 0) lk_command_part(&line, " --cuda-graphs");
	return line.text;
}

static void dlrm_assume(const struct asked *asked, const char **assumed, int *count) {
	const lk_predict_request *request = asked->request;
	if (is_hugectr(request)) {
		assumed[(*count)++] = "lookups miss the caches as uniform ones do; rows or small tables "
							  "that many samples look up are copied on every GPU";
		assumed[(*count)++] =
			"loading of data overlaps with the previous step; the step is replayed from a CUDA "
			"graph";
	} else {
		if (!request->plan && asked->job.ranks > 1)
			assumed[(*count)++] = "tables are where `lockstep shard --model` places them (--plan "
								  "FILE for others)";
		assumed[(*count)++] = "indices are uniform over each table's rows";
		if (request->cuda_graphs > 0)
			assumed[(*count)++] = "kernels are replayed from a CUDA graph: the host delays none";
		else if (asked->job.ranks > 1)
			assumed[(*count)++] = "a host issues each operation in the order of TorchRec's "
								  "pipelined trainer; batches are ready in pinned memory";
		else
			assumed[(*count)++] = "a host issues each operation in the order of "
								  "facebookresearch/dlrm; batches are ready";
	}
	if (!request->gbs && !request->mbs) assumed[(*count)++] = "batch 8192 for each GPU";
}

static lk_status dlrm_note(const struct asked *asked, lk_prediction *prediction, lk_error *err) {
	static const char *const interactions[] = {"dot", "cat", "cross"};
	char params[32];
	lk_arena *arena = asked->arena;
	const lk_dlrm *dlrm = &asked->model;
	const char **assumed = LK_ARRAY(arena, const char *, 8), *placement = placement_line(asked);
	if (!assumed || !placement) return lk_oom(err);
	prediction->model = lk_arena_printf(
		arena, "%s: %s parameters, %.0f %s of dim %.0f, %.0f %s a sample, interaction %s",
		dlrm->name[0] ? dlrm->name : asked->request->model,
		lk_format_count(lk_dlrm_params(dlrm), params, sizeof params), dlrm->tables,
		lk_noun(dlrm->tables, "table", "tables"), dlrm->dim, lk_dlrm_lookups(dlrm),
		lk_noun(lk_dlrm_lookups(dlrm), "lookup", "lookups"), interactions[dlrm->interaction]);
	prediction->cluster = lk_arena_printf(arena, "%s", asked->cluster.text);
	prediction->layout =
		lk_arena_printf(arena, "%s over %d %s, MLPs copied, batch %.0f, %s", placement,
	                    asked->job.ranks, lk_noun(asked->job.ranks, "GPU", "GPUs"),
	                    asked->job.batch, lk_dtype_name(asked->job.dtype));
	prediction->reproduce = dlrm_reproduce(asked);
	dlrm_assume(asked, assumed, &prediction->assumption_count);
	prediction->assumptions = assumed;
	prediction->warning = dlrm->note;
	return prediction->model && prediction->cluster && prediction->layout && prediction->reproduce
	           ? LK_OK
	           : lk_oom(err);
}

/* ---- the whole ---- */

static void dlrm_fill_layout(const struct asked *asked, const lk_step *step,
                             lk_prediction *prediction) {
	int ranks = asked->job.ranks;
	prediction->gpus = prediction->dp = ranks;
	prediction->tp = prediction->pp = prediction->vp = prediction->cp = prediction->ep = 1;
	prediction->microbatches = 1;
	prediction->gbs = (int)asked->job.batch;
	prediction->mbs = (int)(asked->job.batch / ranks);
	prediction->recompute = "none";
	prediction->dtype = lk_dtype_name(asked->job.dtype);
	prediction->schedule = "none";
	prediction->operations = step->sim.operations;
	prediction->ranks_simulated =
		is_hugectr(asked->request) ? step->sim.lanes : (uint32_t)step->graph->programs.count;
	prediction->ranks = (uint32_t)ranks;
	prediction->simulation_s = step->simulation_s;
}

lk_status lk_predict_dlrm(lk_arena *arena, const lk_predict_request *request,
                          const lk_step_options *options, lk_step *step, lk_prediction *prediction,
                          double *saved_bytes, lk_error *err) {
	struct asked *asked = LK_NEW(arena, struct asked);
	lk_where where = {.cluster = request->cluster,
	                  .gpu = request->gpu,
	                  .gpus = request->gpus,
	                  .power_w = request->power,
	                  .flat = "recommendation networks"};
	int ranks = 0;
	if (!asked) return lk_oom(err);
	*asked = (struct asked){.arena = arena, .request = request, .options = options};
	LK_TRY(check_options(request, err));
	LK_TRY(lk_dlrm_named(arena, request->model, &asked->model, err));
	LK_TRY(lk_where_read(arena, &where, &asked->cluster, &ranks, err));
	LK_TRY(read_job(request, &asked->cluster, ranks, &asked->job, err));
	LK_TRY(ask_step(asked, step, err));
	LK_TRY(dlrm_fill_memory(asked, step, prediction, err));
	LK_TRY(dlrm_fill_breakdown(asked, step, prediction, err));
	dlrm_fill_speed(asked, step, prediction);
	dlrm_fill_layout(asked, step, prediction);
	*saved_bytes = lk_dlrm_saved_bytes(&asked->model);
	return dlrm_note(asked, prediction, err);
}
