/* jobs_options.c: the options of `lockstep jobs`, its help and manual page. */
#include <stddef.h>

#include "lockstep/jobs.h"

static const char *const objectives[] = {"log", "speedup", "completion", NULL};
static const char *const formats[] = {"text", "md", "csv", "json", "jsonl", "sqlite", NULL};

#define FIELD(name) offsetof(lk_jobs_request, name)

static const lk_option options[] = {
	{"gpus", 'n', LK_OPTION_INT, FIELD(gpus), false, 1, LK_JOBS_GPUS_MOST, NULL, "N", "The cluster",
     "its GPUs"},
	{"gpu", 0, LK_OPTION_TEXT, FIELD(gpu), false, 0, 0, NULL, "NAME", NULL,
     "which; see `lockstep devices`"},
	{"rates", 0, LK_OPTION_TEXT, FIELD(rates), false, 0, 0, NULL, "FILE", NULL,
     "CSV of measured rates (model,gpus,batch,samples_per_s), instead of predictions for the "
     "models in it"},
	{"calibration", 0, LK_OPTION_TEXT, FIELD(calibration), false, 0, 0, NULL, "FILE", NULL,
     "of `lockstep calibrate`"},
	{"draw", 0, LK_OPTION_INT, FIELD(draw), false, 2, LK_JOBS_MOST, NULL, "N", "Instead of a list",
     "draw so many jobs"},
	{"load", 0, LK_OPTION_REAL, FIELD(load), false, 0.01, 100, NULL, "SHARE", NULL,
     "GPU hours that drawn jobs ask for, per GPU hour there is; 0.9 if not said"},
	{"seed", 0, LK_OPTION_REAL, FIELD(seed), false, 0, 1e15, NULL, "N", NULL,
     "of the drawing; 1 if not said"},
	{"write", 0, LK_OPTION_TEXT, FIELD(write), false, 0, 0, NULL, "FILE", NULL, "the jobs as CSV"},
	{"policy", 0, LK_OPTION_TEXT, FIELD(policies), false, 0, 0, NULL, "NAME,...",
     "How it is divided",
     "fifo, backfill, shortest, elastic-gpus, elastic; all if not said. The first is what the "
     "others are compared with"},
	{"objective", 0, LK_OPTION_CHOICE, FIELD(objective), false, 0, 0, objectives, "WHAT", NULL,
     "of elastic policies: log (sum of logarithms of speed-ups: fair), speedup (their sum), "
     "completion (what is nearly done "
     "first; takes it that remaining times are known, and may let a job wait)"},
	{"restart", 0, LK_OPTION_REAL, FIELD(restart_s), false, 0, 1e5, NULL, "SECONDS", NULL,
     "what a change costs a running job, from halt to full speed; 60 if not said"},
	{"every", 0, LK_OPTION_REAL, FIELD(every_min), false, 0, 1e5, NULL, "MINUTES", NULL,
     "elastic policies change at most so often; at every arrival and end if not said"},
	{"horizon", 0, LK_OPTION_REAL, FIELD(horizon_h), false, 0.01, 1e5, NULL, "HOURS", NULL,
     "a change must pay for its restart within so long; 1 if not said"},
	{"output", 'o', LK_OPTION_CHOICE, FIELD(format), false, 0, 0, formats, "FORMAT", "Output",
     "how it is written"},
	{"file", 'f', LK_OPTION_TEXT, FIELD(path), false, 0, 0, NULL, "FILE", NULL,
     "where the output goes; sqlite needs one"},
	{"verbose", 'v', LK_OPTION_FLAG, FIELD(verbose), false, 0, 0, NULL, NULL, NULL,
     "every job under every policy"},
	{0},
};

static const char *const examples[] = {
	"lockstep jobs queue.csv --gpu a100-sxm-80 --gpus 64",
	"a list of jobs under five policies",
	"lockstep jobs --draw 500 --load 0.9 --seed 7 --gpu a100-sxm-80 --gpus 64",
	"drawn jobs",
	"lockstep jobs queue.csv --gpus 16 --rates measured.csv --policy fifo,elastic -v",
	"measured rates; every job",
	NULL,
};

const lk_verb lk_jobs_verb = {
	.name = "jobs",
	.summary = "divides a cluster between training jobs, elastically or as asked for",
	.operands = "[JOBS.csv]",
	.description =
		"Simulates a cluster on which jobs arrive, train and end, under policies that give each "
		"what it asked for, or that "
		"divide all GPUs anew by a dynamic program whenever a job comes or goes. How fast a job is "
		"with so many GPUs and such "
		"a batch is predicted, or taken from measured rates.\n"
		"\n"
		"The list has the columns job, submit_h, model, samples, batch, gpus, and, where wanted, "
		"batch_min, batch_max, "
		"gpus_min, gpus_max, seq, tp, pp, dtype, zero, recompute. docs/guide/jobs.md explains "
		"them.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_jobs_request),
	.min_operands = 0,
	.max_operands = 1,
};

void lk_jobs_defaults(lk_jobs_request *request) {
	*request = (lk_jobs_request){.load = 0.9, .seed = 1, .restart_s = 60, .horizon_h = 1};
}
