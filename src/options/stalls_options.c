/* stalls_options.c: the options of `lockstep stalls`, its help and manual page. */
#include <stddef.h>

#include "lockstep/stalls.h"

static const char *const mpis[] = {"auto", "openmpi", "mpich", NULL};
static const char *const formats[] = {"text", "md", "csv", "json", "jsonl", "sqlite", NULL};
const char *const lk_stalls_tables[] = {"all", "parts", "runs", "buckets", "what-if", NULL};

#define AT(field) offsetof(lk_stalls_request, field)

static const lk_option options[] = {
	{"steps", 0, LK_OPTION_INT, AT(steps), false, 1, 1000000, NULL, "N", "What is run",
     "steps that count in each run, which is stopped then; 40 if not said"},
	{"warmup", 0, LK_OPTION_INT, AT(warmup), false, 0, 1000000, NULL, "N", NULL,
     "steps before them that do not; 5 if not said"},
	{"repeats", 'r', LK_OPTION_INT, AT(repeats), false, 1, 50, NULL, "N", NULL,
     "runs of each configuration, one after another in rounds; 3 if not said"},
	{"configurations", 0, LK_OPTION_TEXT, AT(configurations), false, 0, 0, NULL, "NAME,...", NULL,
     "of one, null, ready, hot, cold; first: the command once, everything is estimated"},
	{"one", 0, LK_OPTION_TEXT, AT(one), false, 0, 0, NULL, "COMMAND", NULL,
     "the command for one process, where changing the launcher's number to 1 does not make it"},
	{"recording", 0, LK_OPTION_TEXT, AT(recording), false, 0, 0, NULL, "DIR", NULL,
     "estimate from what lockstep record left; nothing is run"},
	{"time-limit", 0, LK_OPTION_REAL, AT(time_limit), false, 0.001, 1e9, NULL, "SECONDS", NULL,
     "of each run; not said: none for the first, ten times as long and a minute for the others"},
	{"yes", 'y', LK_OPTION_FLAG, AT(yes), false, 0, 0, NULL, NULL, NULL,
     "do not ask before the command is run again"},
	{"step-marker", 0, LK_OPTION_TEXT, AT(step_marker), false, 0, 0, NULL, "CALL",
     "What is recorded",
     "what begins a step: MPI_Barrier, or open:, read:, write:, close: and a part of a file's "
     "path"},
	{"program", 0, LK_OPTION_TEXT, AT(program), false, 0, 0, NULL, "NAME,...", NULL,
     "programs that are recorded from their start; others are from MPI_Init on"},
	{"mpi", 0, LK_OPTION_CHOICE, AT(mpi), false, 0, 0, mpis, "WHICH", NULL,
     "the MPI library of the program, where it is not found out"},
	{"max-mb", 0, LK_OPTION_INT, AT(max_mb), false, 1, 16384, NULL, "N", NULL,
     "MiB of each process's recording; 64 if not said"},
	{"batches", 0, LK_OPTION_INT, AT(batches), false, 1, 1000000, NULL, "N", NULL,
     "of torch's DataLoader that are repeated where data is to be ready; 4 if not said"},
	{"what-if", 0, LK_OPTION_LINES, AT(what_ifs), false, 0, 0, NULL, "KEY=VALUE,...",
     "What is predicted",
     "another machine: disk, network, speed (times as fast), cores (number), cache (share in "
     "memory); again for another one"},
	{"out", 0, LK_OPTION_TEXT, AT(out), false, 0, 0, NULL, "DIR", "Output",
     "folder, not there yet, that keeps all recordings"},
	{"output", 'o', LK_OPTION_CHOICE, AT(format), false, 0, 0, formats, "FORMAT", NULL,
     "text, md, csv, json, jsonl or sqlite"},
	{"table", 0, LK_OPTION_CHOICE, AT(table), false, 0, 0, lk_stalls_tables, "NAME", NULL,
     "one table: parts, runs, buckets or what-if"},
	{"file", 'f', LK_OPTION_TEXT, AT(path), false, 0, 0, NULL, "FILE", NULL,
     "where the output goes; sqlite needs one"},
	{"timeline", 0, LK_OPTION_TEXT, AT(timeline), false, 0, 0, NULL, "FILE", NULL,
     "all ranks of a run for a trace viewer: .json, .json.gz or .pftrace"},
	{"folded", 0, LK_OPTION_TEXT, AT(folded), false, 0, 0, NULL, "FILE", NULL,
     "the same as folded stacks, for flame graphs"},
	{"html", 0, LK_OPTION_TEXT, AT(html), false, 0, 0, NULL, "FILE", NULL,
     "a report with pictures: one page that needs no network"},
	{0},
};

static const char *const examples[] = {
	"lockstep stalls -- mpirun -n 2 ./train",
	"shows what it would run again, asks, and tells the stalls",
	"lockstep stalls --yes --repeats 5 -o json -- mpirun -n 8 ./train --epochs 100",
	"without a terminal",
	"lockstep stalls --configurations first -- python3 train.py",
	"one run; everything is estimated",
	"lockstep stalls --yes --what-if disk=2,cores=16 --what-if network=10 -- mpirun -n 2 ./train",
	"other machines",
	"lockstep stalls --recording recording",
	"estimates from what lockstep record left",
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
	*request =
		(lk_stalls_request){.steps = 40, .warmup = 5, .repeats = 3, .max_mb = 64, .batches = 4};
}
