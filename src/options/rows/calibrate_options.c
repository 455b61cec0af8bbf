/* calibrate_options.c: the options of `lockstep calibrate`, as one table, and the command that they
 * spell. */
#include <string.h>

#include "lockstep/calibrate.h"
#include "options/rows.h"

static const char *const formats[] = {"text", "csv", "json", NULL};

/* clang-format off */
#define REQUEST lk_calibrate_request
static const lk_option options[] = {
	{GROUP("Notes kept with the numbers")
	 TEXT("source", source, "TEXT",
	 "where the measurements come from; default: the name of the file")},
	{TEXT("date", date, "YYYY-MM-DD", "of the measurements; default: today")},
	{TEXT("name", name, "NAME",
	 "of what was measured: of the one device or fabric of the table; of the host's device "
	 "(host-cpu)")},
	{GROUP("Measuring this machine (host)")
	 REAL("seconds", seconds, "N", 0.1, 3600,
	 "for all measurements together, roughly; default 20")},
	{TEXT("disk", disk, "PATH",
	 "a folder on the disk to measure, for a temporary file, or a large file that is read")},
	{TEXT("mpi", mpi, "LAUNCHER",
	 "measure pairs of MPI processes, started by LAUNCHER: 'mpirun -n 2'; `make mpi` builds "
	 "what it starts")},
	{GROUP("Output")
	 OUT_FORMAT(formats, "text, csv or json; default: by the ending of --file")},
	{OUT_FILE(
	 "where the output goes: NAME.csv for --calibration, NAME.json of host for "
	 "--cluster"), LETTER('f')},
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep calibrate ops ops_fp16.csv.gz --source 'our profile of July' -f ours.csv",
	"numbers for kernels from measured kernel times",
	"lockstep predict --model gpt2 --gpu a100 --gpus 8 --calibration ours.csv",
	"a prediction with them",
	"lockstep calibrate host -f host.json",
	"measure this machine",
	"lockstep predict --model gpt2 --cluster host.json --dtype fp32 --gbs 1",
	"a step on it",
	NULL,
};

const lk_verb lk_calibrate_verb = {
	.name = "calibrate",
	.summary = "fit the models to measurements, or measure this machine",
	.operands = "KIND [TABLE.csv...]",
	.description =
		"Turns measurements into numbers that the models take. KIND says what TABLE holds: ops "
		"(kernel times), kernels (isolated kernels of 2026), collectives (times by size and GPUs), "
		"memory (peak memory), finetune (fine-tuning runs), slowdown "
		"(kernels during communication), models (whole networks on one device), inference "
		"(sequences that engines generate), runs (training runs), overheads (what a host spends on "
		"each operation). The tables are those "
		"that "
		"`lockstep validate` reads. The result is a list of rows, "
		"each with the number of points that it was fitted to and the error of the fit; with -f "
		"NAME.csv it is the file that --calibration of other verbs adds to the built-in "
		"numbers.\n\n"
		"KIND host reads no table. It measures the machine that it runs on: matrix products, "
		"memory and caches, calls, pairs of processes, disk, and GPUs where there are some. With "
		"-f NAME.json the result is a device and a cluster that `--cluster NAME.json` reads: a "
		"processor is a device like any other. Nothing else should run meanwhile.\n\n"
		"Exit status: 0, or 2 where the table or an option is wrong.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_calibrate_request),
	.min_operands = 1,
	.max_operands = -1,
	.rest = false,
};

void lk_calibrate_defaults(lk_calibrate_request *request) {
	memset(request, 0, sizeof *request);
}
