/* score_mlperf.c: MLPerf steps of recommendation models, BERT and ResNet-50, predicted like
 * `predict`. Nearly all submissions of a benchmark run one code: HugeCTR's or similar ones (fp16 or
 * TF32 with tables in fp32), NVIDIA's BERT and ResNet (compiled or fused, replayed from CUDA
 * graphs); tinygrad's are their own. One number is fitted to HugeCTR; with folds, it comes from
 * rows of other models or other GPUs.
 *
 * Entries that contradict the table itself are listed, not scored: those whose system's name
 * implies another number of nodes than the column, and those that other entries of the same
 * benchmark, code and GPU beat by far. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "fit/fits.h"
#include "tables/tables.h"
#include "validate/validate.h"
#include "step/step.h"
#include "base/stats.h"
#include "base/noun.h"
#include "cost/calibration/calibration.h"

struct scorer {
	lk_arena *arena;
	const lk_validate_request *request;
	const lk_mlperf_run *runs;
	size_t count;
	double *raw;    /* [count] before the stack's number; NAN */
	double *ratios; /* [count] scratch */
	lk_scoring *out;
};

/* ---- rows ---- */

static const char *mlperf_preset_of(const char *benchmark) {
	if (strcmp(benchmark, "dlrm") == 0) return "dlrm-criteo";
	return strcmp(benchmark, "dlrm_dcnv2") == 0 ? "dlrm-dcnv2" : NULL;
}

static const char *network_of(const char *benchmark) {
	if (strcmp(benchmark, "resnet") == 0) return "resnet50";
	return strcmp(benchmark, "bert") == 0 ? "bert-large" : NULL;
}

static const char *stack_of(const lk_mlperf_run *run) {
	if (mlperf_preset_of(run->benchmark)) return "hugectr";
	if (strstr(run->framework, "tinygrad")) return "tinygrad";
	return strcmp(run->benchmark, "bert") == 0 ? "mlperf bert" : "mlperf resnet";
}

/* Properties of the BERT programs that no option of `predict` states. NVIDIA's code, which nearly
 * all submissions run (mlcommons/training_results_v3.1, NVIDIA/benchmarks/bert, and xFusion's on
 * Ada): sequences of up to 512 tokens are packed, two of them in 512 on average ("Average
 * sequences/sample 1.99895" in its packed_data/README.md; PACKING_FACTOR=2), only masked positions
 * reach the head (masked_lm_prob 0.15, --dense_seq_output), layers are fused by hand and replayed
 * from CUDA graphs, on Hopper and Blackwell in 8 bits (--use_transformer_engine2). tinygrad pads to
 * 512, also gathers masked positions and has no fused attention; its loss stays on the device, too.
 * cuDNN is that of the round, as in NVIDIA's other submissions. */
static void mlperf_take_bert(const lk_mlperf_run *run, bool packed, lk_job *job) {
	job->logit_share = 0.15;
	job->host_ahead = job->own_code = true;
	job->fused_kernels = packed;
	job->fp32_grads = job->grad_reduce_fp32 = job->eager = LK_OFF;
	if (!packed) return;
	job->compile = false;
	job->early_attention = lk_stack_features_of("mlperf", run->round)->early_attention;
}

static lk_predict_request mlperf_network_request(const lk_mlperf_run *run,
                                                 const lk_device *device) {
	bool bert = strcmp(run->benchmark, "bert") == 0,
		 packed = strcmp(stack_of(run), "mlperf bert") == 0,
		 narrow = device->arch == LK_ARCH_HOPPER || device->arch == LK_ARCH_BLACKWELL;
	lk_predict_request request;
	lk_predict_defaults(&request);
	request.model = network_of(run->benchmark);
	request.gpu = device->name;
	request.gpus = request.dp = run->gpus;
	request.mbs = (int)(run->batch / run->gpus);
	request.gbs = request.mbs * run->gpus;
	request.dtype = packed && narrow ? "fp8" : "fp16";
	request.stack = "ddp", request.compile = true, request.cuda_graphs = 1;
	request.optimizer = bert ? "lamb" : "sgd";
	if (bert) request.seq = packed ? 256 : 512;
	if (bert && !packed) request.attention = "unfused";
	request.no_fixes = true;
	return request;
}

/* A step predicted like `predict`, of a job beyond its options. */
static lk_status mlperf_ask_bert(struct scorer *scorer, const lk_mlperf_run *run,
                                 const lk_predict_request *request, lk_validated *row,
                                 lk_error *err) {
	lk_asked asked;
	lk_step step = {0};
	const lk_step_options options = {.few = true};
	lk_status status = lk_request_read(scorer->arena, request, &asked, err);
	mlperf_take_bert(run, !request->attention, &asked.job);
	if (status == LK_OK) status = lk_step_ask(&asked.job, &asked.cluster, &options, &step, err);
	if (status == LK_OK) {
		row->predicted = step.step_s;
		lk_range_of(scorer->arena, &asked.job, &asked.cluster, lk_step_network_share(&step),
		            step.step_s, &row->low, &row->high, NULL);
	}
	lk_step_free(&step);
	return status;
}

/* Nodes smaller than the device's default ones are written out. */
static lk_status mlperf_ask_recommender(struct scorer *scorer, const lk_mlperf_run *run,
                                        const lk_device *device, lk_validated *row, lk_error *err) {
	int in_node = (run->gpus + run->nodes - 1) / run->nodes;
	lk_predict_request request;
	lk_predict_defaults(&request);
	request.model = mlperf_preset_of(run->benchmark);
	if (in_node < device->node_gpus && run->gpus == in_node * run->nodes) {
		request.cluster =
			lk_arena_printf(scorer->arena, "%d node * %d %s", run->nodes, in_node, device->name);
		if (!request.cluster) return lk_oom(err);
	} else request.gpu = device->name, request.gpus = run->gpus;
	request.gbs = (int)run->batch;
	request.dtype = "fp16";
	request.stack = "hugectr";
	request.no_fixes = true;
	return lk_scoring_ask(scorer->arena, &request, row, NULL, err);
}

/* The number of a stack in the current calibration. */
static double mlperf_known_scale(const char *stack) {
	const lk_calibration *calibration = lk_calibration_current();
	return lk_calibration_value(lk_calibration_find(calibration, "recommender", stack, "fp16"),
	                            "scale", 1);
}

static lk_status mlperf_fill_row(struct scorer *scorer, size_t i, lk_error *err) {
	const lk_mlperf_run *run = &scorer->runs[i];
	lk_validated *row = &scorer->out->rows[i];
	const lk_device *device = lk_device_find(run->gpu);
	scorer->raw[i] = NAN;
	row->id = run->id;
	row->where = run->where;
	row->model = run->benchmark;
	row->gpu = run->gpu;
	row->gpus = run->gpus;
	row->stack = stack_of(run);
	row->precision = "fp16";
	row->measured = run->seconds;
	const char *network = network_of(run->benchmark);
	if (!mlperf_preset_of(run->benchmark) && !network)
		row->reason = "the network's shapes are not known here";
	else if (!device) row->reason = "the device is not in the catalogue";
	else if (!(run->batch >= run->gpus) || run->gpus < 1)
		row->reason = "batch or GPUs are not stated";
	else if (network && (run->batch > 1 << 28 || fmod(run->batch, run->gpus) != 0))
		row->reason = "the batch does not divide over the GPUs";
	if (row->reason) return LK_OK;
	if (!network) {
		LK_TRY(mlperf_ask_recommender(scorer, run, device, row, err));
	} else {
		const lk_predict_request request = mlperf_network_request(run, device);
		if (strcmp(run->benchmark, "bert") == 0)
			LK_TRY(mlperf_ask_bert(scorer, run, &request, row, err));
		else LK_TRY(lk_scoring_ask(scorer->arena, &request, row, NULL, err));
	}
	row->layout = "";
	scorer->raw[i] = row->predicted / mlperf_known_scale(row->stack);
	return LK_OK;
}

/* ---- contradicted entries ---- */

/* Scaling out costs efficiency: if GPU time per sample is this multiple of that of an entry with at
 * least as many GPUs and no larger batch, the cause is not in the table. */
static const double contradicts = 1.5;

static double gpu_seconds(const lk_mlperf_run *run) {
	return run->seconds * run->gpus / run->batch;
}

/* The best of the entries that contradict a row; NULL none. */
static const lk_mlperf_run *contradiction(const struct scorer *scorer, size_t row) {
	const lk_mlperf_run *own = &scorer->runs[row], *best = NULL;
	for (size_t i = 0; i < scorer->count; i++) {
		const lk_mlperf_run *run = &scorer->runs[i];
		if (isnan(scorer->raw[i]) || run->named_nodes || run->gpus < own->gpus ||
		    run->batch > own->batch || strcmp(run->gpu, own->gpu) != 0 ||
		    strcmp(run->benchmark, own->benchmark) != 0 ||
		    strcmp(stack_of(run), stack_of(own)) != 0)
			continue;
		if (!(gpu_seconds(own) > contradicts * gpu_seconds(run))) continue;
		if (!best || gpu_seconds(run) < gpu_seconds(best)) best = run;
	}
	return best;
}

/* Why an entry is not scored; "": it is. NULL when memory runs out. */
static const char *suspicion(const struct scorer *scorer, size_t row) {
	const lk_mlperf_run *run = &scorer->runs[row], *against = contradiction(scorer, row);
	if (isnan(scorer->raw[row])) return "";
	if (run->named_nodes)
		return lk_arena_printf(
			scorer->arena, "not scored, suspect: its name tells %d %s, its column %d",
			run->named_nodes, lk_noun(run->named_nodes, "node", "nodes"), run->nodes);
	if (!against) return "";
	return lk_arena_printf(scorer->arena,
	                       "not scored, suspect: %.1f times the GPU time a sample of %s on %d %s",
	                       gpu_seconds(run) / gpu_seconds(against), against->id, against->gpus,
	                       lk_noun(against->gpus, "GPU", "GPUs"));
}

/* ---- the fitted number ---- */

static bool mlperf_same_fold(const lk_mlperf_run *a, const lk_mlperf_run *b) {
	return strcmp(a->benchmark, b->benchmark) == 0 && strcmp(a->gpu, b->gpu) == 0;
}

/* Median of measured over predicted of a row's stack, which minimises the mean of |ln|, without
 * rows of its model and GPU. NAN: no other rows. */
static double mlperf_scale_of(const struct scorer *scorer, size_t without) {
	size_t rows = 0;
	for (size_t i = 0; i < scorer->count; i++) {
		if (isnan(scorer->raw[i]) || isnan(scorer->runs[i].seconds) ||
		    scorer->out->scores[i].suspect ||
		    strcmp(scorer->out->rows[i].stack, scorer->out->rows[without].stack) != 0)
			continue;
		if (mlperf_same_fold(&scorer->runs[i], &scorer->runs[without])) continue;
		scorer->ratios[rows++] = log(scorer->runs[i].seconds / scorer->raw[i]);
	}
	return exp(lk_median(scorer->ratios, rows));
}

static lk_status mlperf_predict_rows(struct scorer *scorer, lk_error *err) {
	for (size_t i = 0; i < scorer->count; i++) {
		const char *why = suspicion(scorer, i);
		if (!why) return lk_oom(err);
		scorer->out->scores[i].suspect = *why;
	}
	for (size_t i = 0; i < scorer->count; i++) {
		lk_validated *row = &scorer->out->rows[i];
		if (row->reason) continue;
		if (scorer->request->cross && !network_of(scorer->runs[i].benchmark)) {
			double scale = mlperf_scale_of(scorer, i), answered = row->predicted;
			if (isnan(scale)) {
				row->reason = "no other GPU of this stack";
				row->predicted = NAN;
				continue;
			}
			row->predicted = scorer->raw[i] * scale;
			row->low *= row->predicted / answered, row->high *= row->predicted / answered;
		}
		if (scorer->out->scores[i].suspect && !(row->reason = suspicion(scorer, i)))
			return lk_oom(err);
	}
	scorer->out->parameters = 1;
	scorer->out->folds = scorer->request->cross ? "model and GPU" : "";
	scorer->out->unit_of_rows = "run";
	return LK_OK;
}

static lk_status mlperf_divide(struct scorer *scorer, lk_error *err) {
	lk_score_key *gpu = lk_scoring_divide(scorer->arena, scorer->out, "gpu"),
				 *model = lk_scoring_divide(scorer->arena, scorer->out, "model");
	lk_score_key *both = lk_scoring_divide(scorer->arena, scorer->out, "model and GPU"),
				 *stack = lk_scoring_divide(scorer->arena, scorer->out, "stack");
	if (!gpu || !model || !both || !stack) return lk_oom(err);
	for (size_t i = 0; i < scorer->count; i++) {
		if (scorer->out->rows[i].reason) continue;
		stack[i].name = scorer->out->rows[i].stack;
		gpu[i].name = scorer->runs[i].gpu;
		model[i].name = scorer->runs[i].benchmark;
		both[i].name =
			lk_arena_printf(scorer->arena, "%s %s", scorer->runs[i].benchmark, scorer->runs[i].gpu);
		if (!both[i].name) return lk_oom(err);
	}
	return LK_OK;
}

/* Time per sample and GPU of the other folds' rows, nearest in GPUs' memory rate. */
static lk_status mlperf_add_baseline(struct scorer *scorer, lk_error *err) {
	lk_baseline *baseline =
		lk_scoring_baseline(scorer->arena, scorer->out,
	                        "samples per second and GPU of the other folds, by memory rate", 1);
	if (!baseline) return lk_oom(err);
	for (size_t i = 0; i < scorer->count; i++) {
		if (isnan(scorer->raw[i])) continue;
		double sum = 0, rate = lk_device_find(scorer->runs[i].gpu)->memory_rate;
		int rows = 0;
		for (size_t k = 0; k < scorer->count; k++) {
			const lk_mlperf_run *run = &scorer->runs[k];
			if (isnan(scorer->raw[k]) || isnan(run->seconds) ||
			    mlperf_same_fold(run, &scorer->runs[i]) ||
			    strcmp(run->benchmark, scorer->runs[i].benchmark) != 0)
				continue;
			sum += log(run->seconds * run->gpus / run->batch *
			           lk_device_find(run->gpu)->memory_rate / rate);
			rows++;
		}
		if (rows)
			baseline->predicted[i] = exp(sum / rows) * scorer->runs[i].batch / scorer->runs[i].gpus;
	}
	return LK_OK;
}

static lk_status mlperf_score(struct scorer *scorer, lk_error *err) {
	LK_TRY(lk_scoring_rows(scorer->arena, scorer->count, scorer->out, err));
	scorer->raw = LK_ARRAY(scorer->arena, double, scorer->count);
	scorer->ratios = LK_ARRAY(scorer->arena, double, scorer->count);
	if (!scorer->raw || !scorer->ratios) return lk_oom(err);
	for (size_t i = 0; i < scorer->count; i++) LK_TRY(mlperf_fill_row(scorer, i, err));
	LK_TRY(mlperf_predict_rows(scorer, err));
	LK_TRY(mlperf_divide(scorer, err));
	return mlperf_add_baseline(scorer, err);
}

lk_status lk_score_mlperf(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                          lk_scoring *out, lk_error *err) {
	lk_mlperf_runs runs = {0};
	lk_status status = lk_mlperf_read(arena, in, &runs, err);
	struct scorer s = {
		.arena = arena, .request = request, .runs = runs.at, .count = runs.count, .out = out};
	if (status == LK_OK) status = mlperf_score(&s, err);
	lk_vec_free(&runs);
	return status;
}
