/* stalls_options.c: the options of `lockstep stalls`, its help and manual page. */
#include "lockstep/stalls.h"
#include "options/rows/job_rows.h"

const char *const lk_stalls_tables[] = {"all",     "parts",   "runs",     "ranks",
                                        "marks",   "buckets", "what-if",  "files",
                                        "folders", "against", "machines", NULL};

/* clang-format off */
#define REQUEST lk_stalls_request
static const lk_option options[] = {
	{GROUP("What is run")
	 INT("steps", steps, "N", 1, 1000000,
	 "steps measured in each run, which is then stopped; default 40")},
	{INT("warmup", warmup, "N", 0, 1000000, "steps before them that are not measured; default 5")},
	{INT("repeats", repeats, "N", 1, 50,
	 "runs of each configuration, in rounds; with --budget: at least; default 3"), LETTER('r')},
	{DURATION("budget", budget, SECONDS, 0.001, 1e9,
	 "as many rounds as it takes to tell the largest two parts apart, or 50, within this time; "
	 "default: --repeats rounds")},
	{TEXT("configurations", configurations, "NAME,...",
	 "of one, null, ready, hot, cold; first: the command once, everything is estimated")},
	{TEXT("one", one, "COMMAND",
	 "the command for one process, where changing the launcher's number to 1 does not make it")},
	{TEXT("recording", recording, "DIR",
	 "estimate from a recording of lockstep record; nothing is run. Text of darshan-parser: its "
	 "files alone")},
	{TEXT("against", against, "DIR|FILE",
	 "with --recording: another recording, or text of darshan-parser, of an earlier run; the files "
	 "of both are shown side by side")},
	{DURATION("time-limit", time_limit, SECONDS, 0.001, 1e9,
	 "of each run; default: none for the first, ten times its length and a minute for the others")},
	{FLAG("yes", yes, "do not ask before the command is run again"), LETTER('y')},
	RECORDED_ROWS,
	{INT("max-mb", max_mb, "N", 1, 16384, "MiB of each process's recording; default 64")},
	{INT("batches", batches, "N", 1, 1000000,
	 "batches of torch's DataLoader that are repeated where data is to be ready; default 4")},
	{GROUP("What is predicted")
	 LINES("what-if", what_ifs, "KEY=VALUE,...",
	 "another machine: disk, network, speed (times as fast), cores (number), cache (share in "
	 "memory); again for another one")},
	{TEXT("cluster", cluster, "FILE",
	 "the file of `lockstep calibrate host --mpi` of such machines: what a call of communication "
	 "takes at the least, where all calls have one size")},
	{TEXT("staging", staging, "WORDS",
	 "which files to put on a fast tier: size=4GB rate=2GB/s latency=100us")},
	{GROUP("What is predicted of a network, with nothing run")
	 TEXT("model", models, "NAME,...",
	 "presets (see `lockstep models`) or config.json files: their stalls on machines, data "
	 "parallel"), LETTER('m')},
	{TEXT("machine", machines, "TEXT,...",
	 "parts of names in `lockstep machines`: p2,p3 or '8 * p3.16xlarge'"), WITH("model")},
	{INT("mbs", mbs, "N", 1, 65536, "samples of a GPU in a step; default 32"), WITH("model")},
	{INT("seq", seq, "N", 1, 16777216, "tokens of a sequence; default: the network's"), SEQUENCE,
	 WITH("model"), LETTER('s')},
	{TEXT("dtype", dtype, "TYPE", "fp32, tf32, fp16 or bf16"), WITH("model"), LETTER('d')},
	{REAL("bucket", bucket_mib, "MIB", 1e-3, 1e6,
	 "gradients that are reduced together, as DDP's bucket_cap_mb; default 25; 0.001: tensor by "
	 "tensor"), WITH("model")},
	{COUNT("samples", samples, "N", 1, 1e18, "of an epoch: its time and price"), WITH("model")},
	{GROUP("Output")
	 TEXT("out", out, "DIR", "folder, not there yet, that keeps all recordings")},
	{OUT_ANY_FORMAT},
	{OUT_TABLE(lk_stalls_tables, "NAME",
	 "one table: parts, runs, ranks, marks, buckets, what-if, files, folders, against or "
	 "machines")},
	{OUT_ANY_FILE},
	{OUT_FILE_OF("timeline", trace, "FILE",
	 "all ranks of a run for a trace viewer: .json, .json.gz or .pftrace")},
	{OUT_FILE_OF("folded", folded, "FILE", "the same as folded stacks, for flame graphs")},
	OUT_PICTURE_ROWS,
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep stalls -- mpirun -n 2 ./train",
	"shows what it would run again, asks, and reports the stalls",
	"lockstep stalls --yes --repeats 5 -o json -- mpirun -n 8 ./train --epochs 100",
	"without a terminal",
	"lockstep stalls --configurations first -- python3 train.py",
	"one run; everything is estimated",
	"lockstep stalls --yes --what-if disk=2,cores=16 --what-if network=10 -- mpirun -n 2 ./train",
	"other machines",
	"lockstep stalls --recording recording",
	"estimates from what lockstep record left",
	"lockstep stalls --model resnet50,vgg11 --machine p2,p3 --samples 1.28M",
	"stalls of networks on machines that can be rented, and an epoch's price",
	NULL,
};

const lk_verb lk_stalls_verb = {
	.name = "stalls",
	.summary = "what stalls a training command: compute, preparation, fetch, interconnect, network",
	.operands = "-- COMMAND...",
	.description =
		"Runs the command, unchanged and without root, in several configurations: one process, all "
		"ranks without "
		"communication, data ready, files in memory, files evicted. The differences of their step "
		"times are the stalls, with "
		"95 % intervals. What cannot be run is estimated from the recording and labelled so.\n"
		"\n"
		"The first run is the command as it is. Before it is run again, lockstep shows how often, "
		"and what the first run wrote, "
		"and asks; without a terminal --yes must agree. What the further runs write goes to a "
		"scratch folder, what they print "
		"is not shown. The exit status is that of the first run. docs/guide/stalls.md has the "
		"formulas "
		"and what is weak.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_stalls_request),
	.min_operands = 0,
	.max_operands = 0,
	.rest = true,
};

void lk_stalls_defaults(lk_stalls_request *request) {
	*request = (lk_stalls_request){
		.steps = 40, .warmup = 5, .repeats = 3, .max_mb = 64, .batches = 4, .mbs = 32};
}
