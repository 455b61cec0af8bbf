/* jobs_options.c: the options of `lockstep jobs`, its help and manual page. */
#include "lockstep/jobs.h"
#include "options/rows.h"

static const char *const objectives[] = {"log", "speedup", "completion", NULL};
/* clang-format off */
#define REQUEST lk_jobs_request
static const lk_option options[] = {
	{GROUP("The cluster")
	 INT("gpus", gpus, "N", 1, LK_JOBS_GPUS_MOST, "number of GPUs"), LETTER('n')},
	{TEXT("nodes", nodes, "FILE",
	 "instead of --gpus: CSV with a row per node and its GPUs in the column gpu "
	 "(Alibaba's openb_nodes.csv); jobs are placed on these nodes")},
	{INT("gpus-per-node", gpus_per_node, "N", 1, 64,
	 "jobs are placed on nodes of N GPUs: up to N on one node, more on empty nodes; default: any "
	 "free GPUs, 8 with --save-energy")},
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
	{INT("users", users, "N", 1, 100000,
	 "random jobs recur: N users, each with 8 kinds of jobs; default: no job recurs"),
	 WITH("draw")},
	{TEXT("write", write, "FILE", "write the jobs as CSV")},
	{GROUP("How it is divided")
	 TEXT("policy", policies, "NAME,...",
	 "fifo, backfill, shortest, qssf, las, gittins, elastic-gpus, elastic; default all that the "
	 "list allows. The others are compared with the first. qssf expects a job's length from its "
	 "user's jobs that have ended; las and gittins know none, and preempt")},
	{CHOICE("objective", objective, objectives, "WHAT",
	 "of elastic policies: log (sum of logarithms of speed-ups: fair), speedup (their sum), "
	 "completion (what is nearly done first; assumes that remaining times are known, and may let a "
	 "job wait)")},
	{DURATION("restart", restart_s, SECONDS, 0, 1e5,
	 "what a change costs a running job, from halt to full speed; default 60")},
	{DURATION("every", every_min, MINUTES, 0, 1e5,
	 "policies change running jobs at most this often; default: at every arrival and end")},
	{DURATION("horizon", horizon_h, HOURS, 0.01, 1e5,
	 "a change must pay for its restart within this time; default 1")},
	{SEARCH_TIME(": policies that it leaves out are missing; default: none")},
	{GROUP("Nodes that are switched off")
	 FLAG("save-energy", save_energy,
	 "switch nodes off beyond a forecast of demand, under the first policy: node hours saved "
	 "against added waiting, for buffers of nodes from none to half")},
	{DURATION("boot", boot_s, SECONDS, 0, 86400, "a node takes from off to on; default 300"),
	 WITH("save-energy")},
	{REAL("penalty", penalty, "X", 0, 1e6,
	 "node hours that an hour of a job's added waiting counts as, for the best buffer; default 1"),
	 WITH("save-energy")},
	OUT_LIST_ROWS(GROUP("Output"), "every job under every policy"),
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep jobs queue.csv --gpu a100-sxm-80 --gpus 64",
	"a list of jobs under all policies",
	"lockstep jobs --draw 500 --load 0.9 --seed 7 --gpu a100-sxm-80 --gpus 64",
	"random jobs",
	"lockstep jobs queue.csv --gpus 16 --rates measured.csv --policy fifo,elastic -v",
	"measured rates; every job",
	"lockstep jobs cluster_log.csv --gpus 1024 --policy fifo,qssf --save-energy",
	"a log of Helios: shortest service first by expectation, and nodes switched off",
	NULL,
};

const lk_verb lk_jobs_verb = {
	.name = "jobs",
	.summary = "divides a cluster between training jobs, elastically or as requested",
	.operands = "[JOBS]",
	.description =
		"Simulates a cluster on which jobs arrive, train and end. Policies give each job what it "
		"requests, or divide all GPUs anew, by a dynamic program, whenever a job arrives or ends. "
		"The speed of a job for a number of GPUs and a batch is predicted, or taken from measured "
		"rates.\n\n"
		"The list is a CSV with the columns job, submit_h, gpus, model, samples, batch, and, where "
		"wanted, batch_min, batch_max, gpus_min, gpus_max, seq, tp, pp, mbs, dtype, zero, "
		"recompute, user, group; or with duration_s instead of model, samples and batch. Or it is "
		"a cluster's log in the form of Helios, Philly, Alibaba (2020, 2023) or Slurm's sacct -P. "
		"docs/guide/jobs.md explains them.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_jobs_request),
	.min_operands = 0,
	.max_operands = 1,
};

void lk_jobs_defaults(lk_jobs_request *request) {
	*request = (lk_jobs_request){
		.load = 0.9, .seed = 1, .restart_s = 60, .horizon_h = 1, .boot_s = 300, .penalty = 1};
}
