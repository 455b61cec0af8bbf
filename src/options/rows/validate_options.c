/* validate_options.c: the options of `lockstep validate`, as one table. */
#include <string.h>

#include "lockstep/validate.h"
#include "options/rows/job_rows.h"

static const char *const orders[] = {"file", "error", NULL};
static const char *const folds[] = {"shape",   "gpu",          "size",  "gpus",   "fabric",
                                    "network", "architecture", "stack", "source", NULL};

/* clang-format off */
#define REQUEST    lk_validate_request
#define JOB(field) field
static const lk_option options[] = {
	{GROUP("What the table holds (default: training runs)")
	 FLAG("ops", ops, "kernel times by shape (ops_*.csv)")},
	{FLAG("kernels", kernels, "isolated kernels by series and shape (kernels_*_2026.csv.gz, "
	 "dispatch_2026.csv.gz)")},
	{FLAG("collectives", collectives, "collectives by size and number of GPUs (collectives.csv)")},
	{FLAG("memory", memory, "peak memory of a pipeline's last stage (megatron_ci_memory.csv)")},
	{FLAG("slowdown", slowdown, "kernels alone and during communication (overlap_slowdown_*.csv)")},
	{FLAG("models", models, "whole networks on one device (fp32_models_e2e.csv)")},
	{FLAG("dlrm", dlrm, "recommendation models on one device (dlrm_single_gpu_iter.csv)")},
	{FLAG("scaling", scaling,
	 "throughput of BERT and convolution nets by GPUs (cnn_bert_scaling.csv)")},
	{FLAG("plan", plan,
	 "training runs again, by groups with four layouts or more: is the measured best one in the "
	 "space of `plan`, and how is it ranked?")},
	{FLAG("mlperf", mlperf,
	 "MLPerf steps of recommendation models, BERT and ResNet (mlperf_other_runs.csv)")},
	{FLAG("inference", inference,
	 "sequences that inference engines generate (inference_throughput.csv)")},
	{FLAG("serving", serving,
	 "time per token of served requests, with a number in flight (serving_2026.csv)")},
	{FLAG("rl", rl, "steps of reinforcement learning, from rollout to refit (rl_runs.csv)")},
	{FLAG("refit", refit, "new weights on their way to inference engines (weight_update.csv)")},
	{FLAG("finetune", finetune,
	 "fine-tuning: peak memory, whether it fits, step times (finetune_runs.csv)")},
	{FLAG("history", history,
	 "published long runs: goodput and days, with what stopped them (run_history.csv)")},
	{FLAG("storage", storage,
	 "training that reads from storage: samples a second (storage_runs.csv)")},
	{FLAG("noise", noise,
	 "P95 and P99 over P50 of step times (a folder of them, step_series/), by the presets of "
	 "predict --noise")},
	{GROUP("How it is predicted")
	 FLAG("cross-validate", cross,
	 "every row from a fit that has not seen its fold, instead of the calibration in use")},
	{CHOICE("folds", folds, folds, "NAME",
	 "with --cross-validate, what is left out together; kernels: shape or gpu (all of a "
	 "device); collectives: size, gpus (a number of GPUs), fabric, gpu or source (one "
	 "publication); training runs: network, gpu, architecture, stack or source"), WITH("cross-validate")},
	{CALIBRATION_ROW},
	{TEXT("overheads", overheads, "FILE",
	 "with --dlrm, what the host spends by operation (T1 to T5); else host_op_overheads.csv and "
	 "host_op_overheads_dlrm.csv in the table's folder"), WITH("dlrm")},
	{FLAG("first-token", first_token, "with --serving, the time to the first token instead"),
	 WITH("serving")},
	{GROUP("Rows")
	 TEXT("stack", stack, "NAME", "only rows of this software stack")},
	{CHOICE("sort", sort, orders, "ORDER", "order of the rows: file, or error (largest first)")},
	{GROUP("Output")
	 FLAG("rows", rows, "list every row, not only the ten with the largest errors")},
	{OUT_RESUME("lockstep-mpi: finished parts are kept in it and reused")},
	OUT_ANY_ROWS,
	{TEXT("plot", plot, "FILE", "predicted over measured, as a picture: FILE.svg or FILE.png")},
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep validate llm_runs.csv",
	"how far predictions are off, by stack, GPU and scale",
	"lockstep validate llm_runs.csv --stack nemo --rows --sort error",
	"every row of one stack, worst first",
	"lockstep validate llm_runs.csv --cross-validate --plot runs.svg",
	"the same from fits that have not seen the row, and a picture",
	"lockstep validate llm_runs.csv -o json -f accuracy.json",
	"summary and rows for a program",
	NULL,
};

const lk_verb lk_validate_verb = {
	.name = "validate",
	.summary = "how far off are the predictions, against measured step times?",
	.operands = "RUNS.csv...",
	.description = "Predicts every row of a table of measured runs (network, hardware, layout, "
				   "software, step time) and prints "
				   "predicted against measured, per row and in sum. Fields that a row leaves empty "
				   "are filled by its columns "
				   "`stack` and `release` from one table of defaults; nothing is fitted to a row.\n"
				   "\n"
				   "geomean_error is exp(mean |ln(predicted / measured)|) - 1; the macro mean is "
				   "over the stacks with ten scored "
				   "rows or more. Rows that the table marks `suspect` are predicted and listed, "
				   "not scored. Rank figures "
				   "(Kendall's tau-b, regret of the layout that the prediction ranks first) are "
				   "over groups of equal "
				   "network, GPU, number of GPUs and batch. Rows that cannot be predicted are "
				   "listed with the reason.\n"
				   "\n"
				   "Exit status: 0, or 2 where the table cannot be read.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_validate_request),
	.min_operands = 1,
	.max_operands = -1,
	.rest = false,
};

void lk_validate_defaults(lk_validate_request *request) {
	memset(request, 0, sizeof *request);
}
