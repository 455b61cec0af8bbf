/* validate_options.c: the options of `lockstep validate`, as one table. */
#include <string.h>

#include "lockstep/validate.h"

#define AT(field) offsetof(lk_validate_request, field)

static const char *const formats[] = {"text", "md", "csv", "json", "jsonl", "sqlite", NULL};
static const char *const orders[] = {"file", "error", NULL};
static const char *const folds[] = {"shape", "gpu", "size", "gpus", NULL};

static const lk_option options[] = {
	{"ops", 0, LK_OPTION_FLAG, AT(ops), false, 0, 0, NULL, NULL,
     "What the table holds (training runs if nothing is said)",
     "kernel times by shape (ops_*.csv)"},
	{"collectives", 0, LK_OPTION_FLAG, AT(collectives), false, 0, 0, NULL, NULL, NULL,
     "collectives by size and number of GPUs (collectives.csv)"},
	{"memory", 0, LK_OPTION_FLAG, AT(memory), false, 0, 0, NULL, NULL, NULL,
     "peak memory of a pipeline's last stage (megatron_ci_memory.csv)"},
	{"slowdown", 0, LK_OPTION_FLAG, AT(slowdown), false, 0, 0, NULL, NULL, NULL,
     "kernels alone and beside communication (overlap_slowdown_*.csv)"},
	{"models", 0, LK_OPTION_FLAG, AT(models), false, 0, 0, NULL, NULL, NULL,
     "whole networks on one device (fp32_models_e2e.csv)"},
	{"dlrm", 0, LK_OPTION_FLAG, AT(dlrm), false, 0, 0, NULL, NULL, NULL,
     "recommendation models on one device (dlrm_single_gpu_iter.csv)"},
	{"scaling", 0, LK_OPTION_FLAG, AT(scaling), false, 0, 0, NULL, NULL, NULL,
     "throughput of BERT and convolution nets by GPUs (cnn_bert_scaling.csv)"},
	{"plan", 0, LK_OPTION_FLAG, AT(plan), false, 0, 0, NULL, NULL, NULL,
     "training runs again, by groups with four layouts or more: is the measured best one in the "
     "space of `plan`, and how is it ranked?"},
	{"mlperf", 0, LK_OPTION_FLAG, AT(mlperf), false, 0, 0, NULL, NULL, NULL,
     "MLPerf steps of recommendation models, BERT and ResNet (mlperf_other_runs.csv)"},
	{"cross-validate", 0, LK_OPTION_FLAG, AT(cross), false, 0, 0, NULL, NULL, "How it is predicted",
     "every row from a fit that has not seen its fold, instead of the calibration in use"},
	{"folds", 0, LK_OPTION_CHOICE, AT(folds), false, 0, 0, folds, "NAME", NULL,
     "with --cross-validate, what is left out together; kernels: shape or gpu (all of a device); "
     "collectives: size or gpus "
     "(a number of GPUs)"},
	{"calibration", 0, LK_OPTION_TEXT, AT(calibration), false, 0, 0, NULL, "FILE", NULL,
     "numbers that `lockstep calibrate` wrote, on top of the built-in ones"},
	{"overheads", 0, LK_OPTION_TEXT, AT(overheads), false, 0, 0, NULL, "FILE", NULL,
     "with --dlrm, what the host spends by operation (T1 to T5); else host_op_overheads.csv and "
     "host_op_overheads_dlrm.csv "
     "beside the table"},
	{"stack", 0, LK_OPTION_TEXT, AT(stack), false, 0, 0, NULL, "NAME", "Rows",
     "only rows of this software stack"},
	{"sort", 0, LK_OPTION_CHOICE, AT(sort), false, 0, 0, orders, "ORDER", NULL,
     "order of the rows: file, or error (largest first)"},
	{"rows", 0, LK_OPTION_FLAG, AT(rows), false, 0, 0, NULL, NULL, "Output",
     "list every row, not the ten that are farthest off"},
	{"resume", 0, LK_OPTION_TEXT, AT(resume), false, 0, 0, NULL, "FILE", NULL,
     "lockstep-mpi: finished parts are kept there, and taken from there"},
	{"output", 'o', LK_OPTION_CHOICE, AT(format), false, 0, 0, formats, "FORMAT", NULL,
     "text, md, csv, json, jsonl or sqlite"},
	{"file", 'f', LK_OPTION_TEXT, AT(output), false, 0, 0, NULL, "FILE", NULL,
     "where the output goes; sqlite needs one"},
	{"plot", 0, LK_OPTION_TEXT, AT(plot), false, 0, 0, NULL, "FILE.svg", NULL,
     "predicted over measured, as a picture"},
	{0},
};

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
	.operands = "RUNS.csv",
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
	.max_operands = 1,
	.rest = false,
};

void lk_validate_defaults(lk_validate_request *request) {
	memset(request, 0, sizeof *request);
}
