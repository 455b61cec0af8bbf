/* predict.c: answer for a training job: verdict, speed, breakdown of the time, memory, and the
 * changes that would make it fit. */
#include "lockstep/predict.h"

#include <string.h>

#include "base/arena.h"
#include "predict/predict_internal.h"
#include "step/energy.h"
#include "step/noisy.h"
#include "step/step.h"
#include "predict/predict.h"
#include "model/layout/schedule.h"
#include "model/layout/sizes.h"

/* Of a token in a file of a data set. */
static const double TOKEN_BYTES = 4;

/* ---- results ---- */

const lk_step *lk_prediction_step(const lk_prediction *prediction) {
	return &((const struct lk_answer *)prediction->memory_owner)->step;
}

/* Seconds that storage takes to read the samples of a step; 0: it is never waited for. */
static lk_status input_read_s(const lk_predict_request *request, const lk_job *job,
                              const lk_graph *graph, double *out, lk_error *err) {
	bool tokens = lk_model_in_tokens(&job->model);
	double bytes = request->input_bytes * graph->samples;
	*out = 0;
	if (!(request->input_gbps > 0)) return LK_OK;
	if (!(bytes > 0) && !tokens) {
		lk_fail(err, LK_ERR_INPUT, "--input-gbps", "the size of a sample is not known");
		return lk_hint(err, "give --input-bytes");
	}
	*out = (bytes > 0 ? bytes : TOKEN_BYTES * graph->tokens) / (request->input_gbps * 1e9);
	return LK_OK;
}

static void predict_fill_speed(lk_prediction *prediction, const lk_job *job,
                               const lk_cluster *cluster, const lk_step *step, double read_s,
                               lk_arena *arena) {
	const lk_graph *graph = step->graph;
	double seconds = lk_run_input_step(step->step_s, read_s, 0), gpus = job->gpus;
	prediction->step_time_s = seconds;
	lk_range_of(arena, job, cluster, lk_step_network_share(step), seconds,
	            &prediction->step_time_low_s, &prediction->step_time_high_s, &prediction->basis);
	prediction->samples_per_s = graph->samples / seconds;
	prediction->unit = lk_model_unit(&job->model);
	prediction->tokens_per_s_per_gpu =
		lk_model_in_tokens(&job->model) ? graph->tokens / seconds / gpus : 0;
	prediction->model_flops_per_s_per_gpu = graph->model_flops / seconds / gpus;
	bool mixed;
	prediction->peak_flops = lk_predict_peak(job, cluster, &mixed);
	if (prediction->peak_flops > 0) {
		prediction->mfu = prediction->model_flops_per_s_per_gpu / prediction->peak_flops;
		prediction->hfu = step->executed_flops / seconds / gpus / prediction->peak_flops;
	}
	prediction->peak_label = lk_arena_printf(
		arena, "%.1f TFLOP/s dense %s, %s", prediction->peak_flops / 1e12,
		lk_dtype_name(job->dtype), mixed ? "mean of the GPUs" : cluster->node[0].device->label);
}

double lk_checkpoint_bytes(const void *job) {
	return lk_sizes_checkpoint(job);
}

/* Nodes that hold the first `gpus` GPUs. */
static int nodes_used(const lk_cluster *cluster, int gpus) {
	int nodes = 0;
	for (int i = 0; i < cluster->groups && gpus > 0; i++) {
		int each = cluster->node[i].gpus, needed = (gpus + each - 1) / each;
		int used = needed < cluster->nodes[i] ? needed : cluster->nodes[i];
		nodes += used;
		gpus -= used * each;
	}
	return nodes > 0 ? nodes : 1;
}

/* Power of a step and energy of the training. The breakdown may be of a scaled step: only its
 * shares are used. */
static void fill_energy(lk_prediction *prediction, const lk_predict_request *request,
                        const lk_cluster *cluster, const lk_breakdown *breakdown) {
	prediction->energy = lk_energy_of(breakdown, cluster, prediction->gpus, prediction->step_time_s,
	                                  prediction->days * 24, &request->mains);
}

static lk_status predict_fill_breakdown(lk_prediction *prediction, const lk_step *step,
                                        double read_s, lk_arena *arena, lk_error *err) {
	lk_time_part *parts = LK_ARRAY(arena, lk_time_part, LK_PART_COUNT + 1);
	if (!parts) return lk_oom(err);
	for (int i = 0; i < LK_PART_COUNT; i++) {
		double exposed = step->breakdown.exposed_s[i], hidden = step->breakdown.hidden_s[i];
		if (exposed <= 0 && hidden <= 0) continue;
		parts[prediction->breakdown_count++] =
			(lk_time_part){lk_part_key((lk_part)i), lk_part_label((lk_part)i), exposed, hidden};
	}
	if (read_s > 0) {
		double waits = lk_run_input_step(step->step_s, read_s, 0) - step->step_s;
		parts[prediction->breakdown_count++] =
			(lk_time_part){"input", "waiting for storage", waits, read_s - waits};
	}
	prediction->breakdown = parts;
	return LK_OK;
}

static void predict_add_spread(lk_prediction *prediction, lk_seed_spread *rows, const char *key,
                               const char *label, lk_quantiles of) {
	rows[prediction->spread_count++] = (lk_seed_spread){key, label, of.p50, of.p95, of.p99};
}

/* The rows of the request: its noise, and its jitter and spread of GPUs as two more. */
static lk_status read_noise(const lk_predict_request *request, lk_arena *arena, lk_noise *out,
                            lk_error *err) {
	const lk_noise_row more[] = {
		{.level = LK_NOISE_OPERATION, .chance = 1, .low = request->jitter},
		{.level = LK_NOISE_GPU, .chance = 1, .low = request->gpu_spread},
	};
	LK_TRY(lk_noise_read(arena, request->noise, out, err));
	for (int i = 0; i < 2; i++)
		if (more[i].low > 0) LK_TRY(lk_noise_add(out, more[i], "--noise", err));
	return LK_OK;
}

/* How the noise was simulated. */
static const char *noise_told(const lk_noise *noise, const lk_step_noise *spread, lk_arena *arena) {
	bool computes = spread->acts[LK_NOISE_GPU] || spread->acts[LK_NOISE_NODE] ||
	                spread->acts[LK_NOISE_OPERATION];
	if (!computes) return noise->name;
	if (spread->full) return lk_arena_printf(arena, "%s; every seed simulated whole", noise->name);
	return lk_arena_printf(arena,
	                       "%s; slowest replicas of folded runs; %d seeds simulated operation by "
	                       "operation differ by up to %.2g %%",
	                       noise->name, spread->checked, 100 * spread->apart);
}

static lk_status predict_fill_noise(lk_prediction *prediction, const lk_predict_request *request,
                                    const lk_cluster *cluster, const lk_step_options *options,
                                    const lk_noise *noise, const lk_step *step, lk_arena *arena,
                                    lk_error *err) {
	static const char *const labels[LK_NOISE_LEVELS][2] = {
#define NOISE_LABEL(symbol, name, what) {"noise_" name, "from level " name},
		LK_NOISE_LEVELS_OF(NOISE_LABEL)
#undef NOISE_LABEL
	};
	enum { SEEDS = 10000 };
	lk_step_noise spread;
	lk_seed_spread *rows = LK_ARRAY(arena, lk_seed_spread, LK_NOISE_LEVELS + 2);
	double quiet_s = step->step_s;
	if (!rows) return lk_oom(err);
	prediction->seeds = request->seeds ? request->seeds : SEEDS;
	LK_TRY(lk_step_noise_over(options, step, cluster, noise, prediction->seeds, LK_NOISY_AUTO,
	                          &spread, err));
	predict_add_spread(prediction, rows, "step", "step time", spread.step_s);
	predict_add_spread(prediction, rows, "quiet", "without noise",
	                   (lk_quantiles){quiet_s, quiet_s, quiet_s});
	for (int level = 0; level < LK_NOISE_LEVELS; level++)
		if (spread.acts[level])
			predict_add_spread(prediction, rows, labels[level][0], labels[level][1],
			                   spread.level_s[level]);
	prediction->spread = rows;
	prediction->noise = noise_told(noise, &spread, arena);
	return prediction->noise ? LK_OK : lk_oom(err);
}

/* Spread of the parts that the step has, and its loss to slow ranks. */
static lk_status predict_fill_spread(lk_prediction *prediction, const lk_predict_request *request,
                                     const lk_step_options *options, const lk_step *step,
                                     lk_arena *arena, lk_error *err) {
	lk_step_spread spread;
	if (!request->seeds || request->noise) return LK_OK;
	lk_seed_spread *rows = LK_ARRAY(arena, lk_seed_spread, LK_PART_COUNT + 2);
	if (!rows) return lk_oom(err);
	LK_TRY(lk_step_spread_over(options, step, request->seeds, request->progress,
	                           request->progress_context, &spread, err));
	predict_add_spread(prediction, rows, "step", "step time", spread.step_s);
	for (int i = 0; i < LK_PART_COUNT; i++)
		if (spread.part_s[i].p99 > 0)
			predict_add_spread(prediction, rows, lk_part_key((lk_part)i), lk_part_label((lk_part)i),
			                   spread.part_s[i]);
	predict_add_spread(prediction, rows, "straggler_share", "lost to slow ranks",
	                   spread.straggler_share);
	prediction->spread = rows;
	prediction->seeds = request->seeds;
	return LK_OK;
}

void lk_predict_stage(const lk_step *step, int stage, lk_stage_memory *out) {
	const lk_stage_use *use = &step->memory[stage];
	const double *at = use->walk.at_peak;
	const lk_graph *graph = step->graph;
	*out = (lk_stage_memory){
		.stage = stage,
		.weights = at[LK_OWN_WEIGHTS],
		.gradients = at[LK_OWN_GRADIENTS],
		.optimizer = at[LK_OWN_OPTIMIZER],
		.activations = at[LK_OWN_ACTIVATIONS],
		.logits = at[LK_OWN_LOGITS],
		.workspace = at[LK_OWN_WORKSPACE],
		.buffers = at[LK_OWN_BUFFERS],
		.allocated = use->walk.peak,
		.low = use->low,
		.high = use->high,
		.reserved = use->reserved,
		.reserved_low = use->reserved_low,
		.reserved_high = use->reserved_high,
		.orders = use->orders,
		.orders_fit = use->orders_fit,
		.context = use->context,
		.nccl = use->nccl,
		.total = use->total,
	};
	const lk_program *program = &graph->programs.at[stage];
	if (use->walk.call >= program->calls.count || graph->ops.count == 0) return;
	const lk_call *call = &program->calls.at[use->walk.call];
	const char *block = lk_intern_text(graph->names, graph->blocks.at[call->block].name);
	const char *op = lk_intern_text(graph->names, graph->ops.name[use->walk.op]);
	if (call->microbatch >= 0)
		snprintf(out->moment, sizeof out->moment, "%s, %s, micro-batch %d", op, block,
		         call->microbatch);
	else snprintf(out->moment, sizeof out->moment, "%s, %s", op, block);
}

static lk_status predict_fill_memory(lk_prediction *prediction, const lk_step *step, int stages,
                                     lk_arena *arena, lk_error *err) {
	lk_stage_memory *rows = LK_ARRAY(arena, lk_stage_memory, stages);
	if (!rows) return lk_oom(err);
	for (int s = 0; s < stages; s++) lk_predict_stage(step, s, &rows[s]);
	prediction->memory = rows;
	prediction->memory_count = stages;
	prediction->fullest_stage = step->fullest;
	prediction->peak_bytes = step->memory[step->fullest].total;
	prediction->usable_bytes = step->usable;
	prediction->fits = prediction->peak_bytes <= prediction->usable_bytes;
	prediction->out_of_memory = step->memory[step->fullest].out_of_memory;
	return LK_OK;
}

static lk_status fill_layout(lk_prediction *prediction, const lk_job *job, lk_arena *arena,
                             lk_error *err) {
	prediction->gpus = job->gpus;
	prediction->tp = job->tp;
	prediction->pp = job->pp;
	prediction->vp = job->vp;
	prediction->cp = job->cp;
	prediction->ep = job->ep;
	prediction->dp = job->dp;
	prediction->mbs = job->mbs;
	prediction->gbs = job->gbs;
	prediction->seq = lk_job_tokens(job);
	prediction->microbatches = job->microbatches;
	prediction->recompute = lk_recompute_text(arena, job);
	prediction->dtype = lk_dtype_name(job->dtype);
	prediction->schedule = lk_schedule_get(job->schedule)->name;
	return prediction->recompute ? LK_OK : lk_oom(err);
}

static void fill_simulation(lk_prediction *prediction, const lk_job *job, const lk_step *step) {
	prediction->operations = step->sim.operations;
	prediction->layer_operations = lk_graph_layer_ops(step->graph);
	prediction->ranks_simulated = step->sim.lanes * step->graph->ranks.stages;
	prediction->ranks = (uint32_t)job->gpus;
	prediction->simulation_s = step->simulation_s;
}

/* ---- the whole ---- */

/* Name the cluster in a graph to be written, if its text describes it completely. */
static lk_status name_cluster(const lk_predict_request *request, const lk_cluster *cluster,
                              lk_graph *graph, lk_error *err) {
	if (request->cluster && lk_cluster_text_is_file(request->cluster)) return LK_OK;
	graph->cluster = lk_intern_id(graph->names, cluster->text);
	return graph->cluster == UINT32_MAX ? lk_oom(err) : LK_OK;
}

static lk_status fill_recommender_training(const lk_predict_request *request, double saved_bytes,
                                           struct lk_answer *answer, lk_error *err) {
	lk_prediction *prediction = &answer->p;
	lk_where where = {.cluster = request->cluster,
	                  .gpu = request->gpu,
	                  .gpus = request->gpus,
	                  .power_w = request->power};
	lk_cluster cluster;
	int ranks;
	LK_TRY(lk_where_read(&answer->arena, &where, &cluster, &ranks, err));
	LK_TRY(name_cluster(request, &cluster, answer->step.graph, err));
	answer->words =
		lk_predict_run_words(request, ranks, nodes_used(&cluster, ranks), 1, saved_bytes);
	LK_TRY(lk_predict_training(prediction, request,
	                           prediction->samples_per_s * prediction->step_time_s, &answer->words,
	                           err));
	fill_energy(prediction, request, &cluster, &answer->step.breakdown);
	lk_predict_run_energy(prediction);
	return LK_OK;
}

lk_status lk_answer_dlrm(const lk_predict_request *request, struct lk_answer *answer,
                         lk_error *err) {
	lk_step_options options;
	LK_TRY(lk_predict_simulation(&answer->arena, request,
	                             request->gpus > 0 ? (uint32_t)request->gpus : UINT32_MAX, &options,
	                             err));
	double saved_bytes;
	LK_TRY(lk_predict_dlrm(&answer->arena, request, &options, &answer->step, &answer->p,
	                       &saved_bytes, err));
	LK_TRY(fill_recommender_training(request, saved_bytes, answer, err));
	if (request->detail)
		LK_TRY(lk_detail_of(&answer->arena, NULL, &answer->step,
		                    answer->p.step_time_s / answer->step.step_s, true, &answer->p.detail,
		                    err));
	if (!request->step) lk_step_free(&answer->step);
	return LK_OK;
}

static lk_status answer_asked(const lk_predict_request *request, const lk_asked *asked,
                              const char *emit, const lk_graph *update, struct lk_answer *a,
                              lk_error *err) {
	lk_prediction *prediction = &a->p;
	lk_step_options options;
	lk_step *step = &a->step;
	LK_TRY(lk_request_check_job(request, &asked->job, err));
	if (emit)
		LK_TRY(lk_step_emit(&a->arena, emit, asked->source, &asked->job, &asked->cluster,
		                    &a->emitted, err));
	LK_TRY(lk_predict_simulation(&a->arena, request, (uint32_t)asked->job.gpus, &options, err));
	lk_noise noise = {0};
	if (request->noise) LK_TRY(read_noise(request, &a->arena, &noise, err));
	options.few = !request->step && !request->detail &&
	              !(request->noise ? lk_noise_computes(&noise) : request->seeds);
	options.exactly = request->exact;
	options.update = update;
	LK_TRY(lk_step_ask(&asked->job, &asked->cluster, &options, step, err));
	LK_TRY(name_cluster(request, &asked->cluster, step->graph, err));
	LK_TRY(predict_fill_memory(prediction, step, asked->job.pp, &a->arena, err));
	double read_s;
	LK_TRY(input_read_s(request, &asked->job, step->graph, &read_s, err));
	LK_TRY(predict_fill_breakdown(prediction, step, read_s, &a->arena, err));
	LK_TRY(predict_fill_spread(prediction, request, &options, step, &a->arena, err));
	if (request->noise)
		LK_TRY(predict_fill_noise(prediction, request, &asked->cluster, &options, &noise, step,
		                          &a->arena, err));
	predict_fill_speed(prediction, &asked->job, &asked->cluster, step, read_s, &a->arena);
	LK_TRY(fill_layout(prediction, &asked->job, &a->arena, err));
	a->words =
		lk_predict_run_words(request, asked->job.gpus, nodes_used(&asked->cluster, asked->job.gpus),
	                         asked->job.dp, lk_sizes_checkpoint(&asked->job));
	LK_TRY(lk_predict_training(prediction, request,
	                           lk_model_in_tokens(&asked->job.model) ? step->graph->tokens
	                                                                 : step->graph->samples,
	                           &a->words, err));
	fill_energy(prediction, request, &asked->cluster, &step->breakdown);
	lk_predict_run_energy(prediction);
	fill_simulation(prediction, &asked->job, step);
	LK_TRY(lk_note_job(&a->arena, request, asked, prediction, err));
	if (request->measured)
		LK_TRY(lk_expect(&a->arena, request, asked, &options, &prediction->expected, err));
	bool safe = prediction->fits && !lk_step_risky(step);
	if (request->detail)
		LK_TRY(lk_detail_of(&a->arena, asked, step, 1, request->no_sensitivity, &prediction->detail,
		                    err));
	if (!request->step) lk_step_free(step); /* a sweep keeps thousands of predictions */
	return !safe && !request->no_fixes
	           ? lk_find_fixes(&a->arena, request, asked, &options, prediction, err)
	           : LK_OK;
}

/* "optimizer=FILE": the graph that the options point to, or NULL; free *update. */
static lk_status read_replacement(const lk_predict_request *request, lk_graph **update,
                                  lk_error *err) {
	static const char key[] = "optimizer=";
	*update = NULL;
	if (!request->replace) return LK_OK;
	if (request->emit) {
		lk_fail(err, LK_ERR_INPUT, "--replace", "no framework runs the program of that graph");
		return lk_hint(err, "leave out --emit or --replace");
	}
	if (strncmp(request->replace, key, sizeof key - 1) == 0) {
		lk_status status = lk_graph_read(request->replace + sizeof key - 1, update, err);
		if (status == LK_OK || status == LK_ERR_MEMORY) return status;
		return lk_hint(err, "write a graph for --replace by compile tune --graph");
	}
	lk_fail(err, LK_ERR_INPUT, "--replace", "only the optimizer of a step is replaced");
	return lk_hint(err, "write --replace optimizer=FILE");
}

lk_status lk_answer_asked(const lk_predict_request *request, const lk_asked *asked,
                          const char *emit, struct lk_answer *a, lk_error *err) {
	lk_graph *update;
	LK_TRY(read_replacement(request, &update, err));
	lk_status status = answer_asked(request, asked, emit, update, a, err);
	lk_graph_free(update);
	return status;
}

lk_status lk_answer_job(const lk_predict_request *request, const char *emit, struct lk_answer *a,
                        lk_error *err) {
	lk_asked asked;
	LK_TRY(lk_request_read(&a->arena, request, &asked, err));
	if (!asked.batch_assumed) asked.batch_assumed = a->batch_assumed;
	return lk_answer_asked(request, &asked, emit, a, err);
}
