/* jobs_options.c: the options of `lockstep jobs`, its help and manual page. */
#include "lockstep/jobs.h"
#include "options/rows.h"

static const char *const objectives[] = {"log", "speedup", "completion", NULL};
/* clang-format off */
#define REQUEST lk_jobs_request
static const lk_option options[] = {
	{GROUP("The cluster")
	 INT("gpus", gpus, "N", 1, LK_JOBS_GPUS_MOST, "number of GPUs"), LETTER('n')},
	{TEXT("gpu", gpu, "NAME", "GPU, see `lockstep devices`")},
	{TEXT("rates", rates, "FILE",
	 "CSV of measured rates (model,gpus,batch,samples_per_s), instead of predictions for the "
	 "models in it")},
	{TEXT("calibration", calibration, "FILE", "of `lockstep calibrate`")},
	{GROUP("Instead of a list")
	 INT("draw", draw, "N", 2, LK_JOBS_MOST, "number of random jobs")},
	{REAL("load", load, "SHARE", 0.01, 100,
	 "GPU hours that random jobs request, per GPU hour of the cluster; default 0.9"), WITH("draw")},
	{REAL("seed", seed, "N", 0, 1e15, "of the random jobs; default 1"), WITH("draw")},
	{TEXT("write", write, "FILE", "write the jobs as CSV")},
	{GROUP("How it is divided")
	 TEXT("policy", policies, "NAME,...",
	 "fifo, backfill, shortest, elastic-gpus, elastic; default all. The others are compared with "
	 "the first")},
	{CHOICE("objective", objective, objectives, "WHAT",
	 "of elastic policies: log (sum of logarithms of speed-ups: fair), speedup (their sum), "
	 "completion (what is nearly done first; assumes that remaining times are known, and may let a "
	 "job wait)")},
	{REAL("restart", restart_s, "SECONDS", 0, 1e5,
	 "what a change costs a running job, from halt to full speed; default 60")},
	{REAL("every", every_min, "MINUTES", 0, 1e5,
	 "elastic policies change at most this often; default: at every arrival and end")},
	{REAL("horizon", horizon_h, "HOURS", 0.01, 1e5,
	 "a change must pay for its restart within this time; default 1")},
	{GROUP("Output")
	 OUT_FORMAT(lk_output_formats, "how it is written")},
	{OUT_FILE("where the output goes; sqlite needs one"), LETTER('f')},
	{OUT_VERBOSE("every job under every policy")},
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep jobs queue.csv --gpu a100-sxm-80 --gpus 64",
	"a list of jobs under five policies",
	"lockstep jobs --draw 500 --load 0.9 --seed 7 --gpu a100-sxm-80 --gpus 64",
	"random jobs",
	"lockstep jobs queue.csv --gpus 16 --rates measured.csv --policy fifo,elastic -v",
	"measured rates; every job",
	NULL,
};

const lk_verb lk_jobs_verb = {
	.name = "jobs",
	.summary = "divides a cluster between training jobs, elastically or as requested",
	.operands = "[JOBS.csv]",
	.description =
		"Simulates a cluster on which jobs arrive, train and end. Policies give each job what it "
		"requests, or divide all GPUs anew, by a dynamic program, whenever a job arrives or ends. "
		"The speed of a job for a number of GPUs and a batch is predicted, or taken from measured "
		"rates.\n\n"
		"The list has the columns job, submit_h, model, samples, batch, gpus, and, where wanted, "
		"batch_min, batch_max, gpus_min, gpus_max, seq, tp, pp, mbs, dtype, zero, recompute. "
		"docs/guide/jobs.md explains them.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_jobs_request),
	.min_operands = 0,
	.max_operands = 1,
};

void lk_jobs_defaults(lk_jobs_request *request) {
	*request = (lk_jobs_request){.load = 0.9, .seed = 1, .restart_s = 60, .horizon_h = 1};
}
