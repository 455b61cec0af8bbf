/* predict_dlrm.c: `predict` for recommendation models: tables dealt out over the GPUs, MLPs copied (model/build/dlrm_hybrid.c).
 * Options that shape transformers do not apply and are refused, so that none is quietly ignored.
 */
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

bool lk_predict_is_dlrm(const lk_predict_request *r) {
	lk_arena arena = LK_ARENA_INIT;
	lk_dlrm model;
	lk_error unused;
	if (!r->model || r->launch_count || r->script) return false;
	bool is = false;
	if (!is_path(r->model)) {
		is = strncmp(r->model, "dlrm", 4) == 0 || lk_dlrm_preset(&arena, r->model, &model, &unused) == LK_OK;
	} else {
		lk_stream *in = NULL;
		lk_value *root = NULL;
		if (lk_stream_open(r->model, &in, &unused) == LK_OK && lk_json_document(&arena, in, &root, &unused) == LK_OK) {
			const lk_value *type = lk_json_get(root, "model_type");
			is = type && type->kind == LK_JSON_STRING && strcmp(type->text, "dlrm") == 0;
		}
		lk_stream_close(in);
	}
	lk_arena_free(&arena);
	return is;
}

/* Options that mean nothing here, by name: all that are not listed. */
static lk_status check_options(const lk_predict_request *r, lk_error *err) {
	static const char *const used[] = {
		"model", "gpu", "gpus", "cluster", "calibration", "gbs", "dtype", "dp", "ranks", "exact", "no-contention", "straggler", "jitter", "seed",
		"tokens", "mtbf", "checkpoint-interval", "trace", "trace-ranks", "graph", "chakra", "html", "no-fixes", "output", "file", "verbose", NULL};
	for (const lk_option *o = lk_predict_verb.options; o->name; o++) {
		const void *field = (const char *)r + o->offset;
		bool given = o->kind == LK_OPTION_FLAG   ? *(const bool *)field
		             : o->kind == LK_OPTION_TEXT ? *(const char *const *)field != NULL
		             : o->kind == LK_OPTION_REAL || o->kind == LK_OPTION_COUNT ? *(const double *)field != 0
		                                                                       : *(const int *)field != 0;
		bool known = false;
		for (int i = 0; used[i]; i++) known |= strcmp(used[i], o->name) == 0;
		if (!given || known) continue;
		char where[64];
		snprintf(where, sizeof where, "--%s", o->name);
		lk_fail(err, LK_ERR_INPUT, where, "it does not apply to recommendation models");
		return lk_hint(err, "leave it out; --gbs, --gpus and --dtype shape the job, lockstep shard places tables");
	}
	return LK_OK;
}

static lk_status read_cluster(lk_arena *arena, const lk_predict_request *r, lk_cluster *out, int *ranks, lk_error *err) {
	const lk_device *device;
	if (r->cluster && r->gpu) return lk_fail(err, LK_ERR_INPUT, "--cluster", "--cluster and --gpu exclude one another");
	if (!r->cluster && (!r->gpu || r->gpus <= 0)) {
		lk_fail(err, LK_ERR_INPUT, r->gpu ? "--gpus" : "--gpu", r->gpu ? "the number of GPUs was not given" : "no GPU was given");
		return lk_hint(err, "give --gpu NAME and --gpus N, or --cluster");
	}
	if (r->cluster) LK_TRY(lk_cluster_parse(arena, r->cluster, out, err));
	else LK_TRY(lk_device_lookup(r->gpu, &device, err));
	*ranks = r->gpus > 0 ? r->gpus : out->gpus;
	if (!r->cluster) return lk_cluster_simple(arena, device, *ranks, 0, 0, out, err);
	if (*ranks <= out->gpus) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--gpus", "%d GPUs asked, but the cluster has %d", *ranks, out->gpus);
	return lk_hint(err, "give at most %d", out->gpus);
}

static lk_status read_job(const lk_predict_request *r, int ranks, lk_dlrm_job *out, lk_error *err) {
	*out = (lk_dlrm_job){.batch = r->gbs ? r->gbs : 8192.0 * ranks, .ranks = ranks, .dtype = LK_FP16};
	if (r->dtype && (!lk_dtype_parse(r->dtype, &out->dtype) || out->dtype > LK_BF16)) {
		lk_fail(err, LK_ERR_INPUT, "--dtype", "'%.40s' is not modelled for recommendation models", r->dtype);
		return lk_hint(err, "give fp32, tf32, fp16 or bf16");
	}
	if (r->dp && r->dp != ranks) {
		lk_fail(err, LK_ERR_INPUT, "--dp", "the MLPs are copied on all %d GPUs", ranks);
		return lk_hint(err, "leave --dp out, or give %d", ranks);
	}
	if (out->batch >= ranks && fmod(out->batch, ranks) == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--gbs", "%.0f samples do not divide by %d GPUs", out->batch, ranks);
	return lk_hint(err, "give a multiple, such as %.0f", fmax(ceil(out->batch / ranks), 1) * ranks);
}

/* ---- the answer ---- */

/* The CUDA context with its libraries (as in memory_use.c), and the buffers of two communicators of NCCL. */
static const double context_bytes = 0.8 * 0x1p30, nccl_bytes = 0.3 * 0x1p30;

static lk_status fill_memory(lk_arena *arena, const lk_step *step, const lk_cluster *cluster, int ranks, lk_prediction *p, lk_error *err) {
	lk_stage_memory *m = LK_NEW(arena, lk_stage_memory);
	const double *held = step->graph->programs.at[0].resident;
	if (!m) return lk_oom(err);
	*m = (lk_stage_memory){.weights = held[LK_OWN_WEIGHTS], .gradients = held[LK_OWN_GRADIENTS], .optimizer = held[LK_OWN_OPTIMIZER],
	                       .activations = held[LK_OWN_ACTIVATIONS], .buffers = held[LK_OWN_BUFFERS], .low = NAN, .high = NAN,
	                       .context = context_bytes, .nccl = ranks > 1 ? nccl_bytes : 0};
	for (int i = 0; i < LK_OWNERS; i++) m->allocated += held[i];
	m->reserved = m->allocated, m->total = m->reserved + m->context + m->nccl;
	lk_copy(m->moment, sizeof m->moment, "the whole step");
	p->memory = m, p->memory_count = 1, p->peak_bytes = m->total, p->usable_bytes = cluster->node[0].device->memory_bytes;
	for (int i = 1; i < cluster->groups; i++) p->usable_bytes = fmin(p->usable_bytes, cluster->node[i].device->memory_bytes);
	p->fits = p->peak_bytes <= p->usable_bytes;
	return LK_OK;
}

static const lk_calibration_row *stack_row(const char *dtype) {
	return lk_calibration_find(lk_calibration_current(), "recommender", "hugectr", dtype);
}

/* Measured over simulated: what the stack's number makes of a step, and of its parts alike. */
static double scale_of(const lk_dlrm_job *job) {
	return lk_calibration_value(stack_row(lk_dtype_name(job->dtype)), "scale", 1);
}

/* What `validate --mlperf --cross-validate` missed by in four of five rows; fp16 alone was measured. */
static void fill_range(lk_prediction *p) {
	const lk_calibration_row *row = stack_row("fp16");
	p->step_time_low_s = p->step_time_s * lk_calibration_value(row, "low", 0.5);
	p->step_time_high_s = p->step_time_s * lk_calibration_value(row, "high", 2);
}

static lk_status fill_breakdown(lk_arena *arena, const lk_step *step, const lk_dlrm_job *job, lk_prediction *p, lk_error *err) {
	double scale = scale_of(job);
	lk_time_part *parts = LK_ARRAY(arena, lk_time_part, LK_PART_COUNT);
	if (!parts) return lk_oom(err);
	for (int i = 0; i < LK_PART_COUNT; i++) {
		double exposed = scale * step->breakdown.exposed_s[i], hidden = scale * step->breakdown.hidden_s[i];
		if (exposed <= 0 && hidden <= 0) continue;
		const char *label = i == LK_PART_EP ? "all-to-all of tables" : i == LK_PART_MEMORY ? "lookups and other memory-bound" : lk_part_label((lk_part)i);
		parts[p->breakdown_count++] = (lk_time_part){lk_part_key((lk_part)i), label, exposed, hidden};
	}
	p->breakdown = parts;
	return LK_OK;
}

static void fill_speed(lk_arena *arena, const lk_step *step, const lk_cluster *cluster, const lk_dlrm_job *job, lk_prediction *p) {
	const lk_device *device = cluster->node[0].device;
	p->step_time_s = step->step_s * scale_of(job);
	fill_range(p);
	p->basis = "MLPerf steps of other models and GPUs (validate --mlperf)";
	p->samples_per_s = job->batch / p->step_time_s;
	p->model_flops_per_s_per_gpu = step->graph->model_flops / p->step_time_s / job->ranks;
	p->peak_flops = device->peak_flops[job->dtype] > 0 ? device->peak_flops[job->dtype] : device->vector_flops;
	if (p->peak_flops > 0) p->mfu = p->model_flops_per_s_per_gpu / p->peak_flops, p->hfu = p->mfu;
	p->peak_label = lk_arena_printf(arena, "%.1f TFLOP/s dense %s, %s", p->peak_flops / 1e12, lk_dtype_name(job->dtype), device->label);
}

static lk_status note(lk_arena *arena, const lk_predict_request *r, const lk_dlrm *m, const lk_dlrm_job *job, const lk_cluster *cluster,
                      lk_prediction *p, lk_error *err) {
	static const char *const interactions[] = {"dot", "cat", "cross"};
	char params[32];
	const char **assumed = LK_ARRAY(arena, const char *, 4);
	const char *model = lk_shell_quote(arena, r->model), *where = lk_shell_quote(arena, r->cluster ? r->cluster : r->gpu);
	if (!assumed || !model || !where) return lk_oom(err);
	p->model = lk_arena_printf(arena, "%s: %s parameters, %.0f tables of dim %.0f, %.0f lookups a sample, interaction %s", m->name[0] ? m->name : r->model,
	                           lk_format_count(lk_dlrm_params(m), params, sizeof params), m->tables, m->dim, lk_dlrm_lookups(m), interactions[m->interaction]);
	p->cluster = lk_arena_printf(arena, "%s", cluster->text);
	p->layout = lk_arena_printf(arena, "tables over %d GPUs, MLPs copied, batch %.0f, %s", job->ranks, job->batch, lk_dtype_name(job->dtype));
	p->reproduce = lk_arena_printf(arena, "lockstep predict --model %s --%s %s --gpus %d --gbs %.0f --dtype %s", model, r->cluster ? "cluster" : "gpu", where,
	                               job->ranks, job->batch, lk_dtype_name(job->dtype));
	assumed[p->assumption_count++] = "tables are evenly dealt out (lockstep shard says how evenly they can be)";
	assumed[p->assumption_count++] = "lookups miss the caches as uniform ones do; rows or small tables that many samples look up are copied on every GPU";
	assumed[p->assumption_count++] = "data is loaded behind the step before; the step is replayed from a CUDA graph";
	if (!r->gbs) assumed[p->assumption_count++] = "batch 8192 for each GPU";
	p->assumptions = assumed;
	return p->model && p->cluster && p->layout && p->reproduce ? LK_OK : lk_oom(err);
}

lk_status lk_predict_dlrm(lk_arena *arena, const lk_predict_request *r, const lk_step_options *options, lk_step *step,
                          lk_prediction *p, lk_error *err) {
	lk_dlrm model;
	lk_dlrm_job job;
	lk_cluster *cluster = LK_NEW(arena, lk_cluster);
	int ranks = 0;
	if (!cluster) return lk_oom(err);
	LK_TRY(check_options(r, err));
	if (is_path(r->model)) LK_TRY(lk_dlrm_file(arena, r->model, &model, err));
	else LK_TRY(lk_dlrm_preset(arena, r->model, &model, err));
	LK_TRY(read_cluster(arena, r, cluster, &ranks, err));
	LK_TRY(read_job(r, ranks, &job, err));
	job.node_ranks = cluster->groups == 1 && ranks % cluster->node[0].gpus == 0 ? cluster->node[0].gpus : 0;
	LK_TRY(lk_dlrm_ask(&model, &job, cluster, options, step, err));
	LK_TRY(fill_memory(arena, step, cluster, ranks, p, err));
	LK_TRY(fill_breakdown(arena, step, &job, p, err));
	fill_speed(arena, step, cluster, &job, p);
	p->gpus = p->dp = ranks, p->tp = p->pp = p->vp = p->cp = p->ep = 1, p->microbatches = 1;
	p->gbs = (int)job.batch, p->mbs = (int)(job.batch / ranks), p->recompute = "none", p->dtype = lk_dtype_name(job.dtype), p->schedule = "none";
	p->operations = step->sim.operations, p->ranks_simulated = step->sim.lanes, p->ranks = (uint32_t)ranks, p->simulation_s = step->simulation_s;
	return note(arena, r, &model, &job, cluster, p, err);
}
