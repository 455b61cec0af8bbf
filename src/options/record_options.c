/* record_options.c: the options of `lockstep record`, its help and manual page. */
#include <stddef.h>

#include "lockstep/record.h"

static const char *const modes[] = {"record", "null", NULL};
static const char *const nccls[] = {"found", "preload", "shim", "plugin", NULL};
static const char *const cudas[] = {"events", "calls", "cupti", NULL};
static const char *const mpis[] = {"auto", "openmpi", "mpich", NULL};

#define FIELD(name) offsetof(lk_record_request, name)

static const lk_option options[] = {
	{"out", 0, LK_OPTION_TEXT, FIELD(out), false, 0, 0, NULL, "DIR", "What is left behind",
     "folder for the recordings, empty or not there yet; recording if not said"},
	{"max-mb", 0, LK_OPTION_INT, FIELD(max_mb), false, 1, 16384, NULL, "N", NULL,
     "MiB of each process's file; what finds no room is counted; 64 if not said"},
	{"steps", 0, LK_OPTION_INT, FIELD(steps), false, 1, 1000000, NULL, "N", "When it ends",
     "stop the command after N steps"},
	{"time-limit", 0, LK_OPTION_REAL, FIELD(time_limit), false, 0.001, 1e9, NULL, "SECONDS", NULL,
     "stop the command after so long; exit status 124"},
	{"step-marker", 0, LK_OPTION_TEXT, FIELD(step_marker), false, 0, 0, NULL, "CALL",
     "What is recorded",
     "what begins a step: MPI_Barrier, or open:, read:, write:, close: and a part of a file's "
     "path"},
	{"program", 0, LK_OPTION_TEXT, FIELD(program), false, 0, 0, NULL, "NAME,...", NULL,
     "programs that are recorded from their start; others are from MPI_Init on"},
	{"mpi", 0, LK_OPTION_CHOICE, FIELD(mpi), false, 0, 0, mpis, "WHICH", NULL,
     "the MPI library of the program, where it is not found out"},
	{"nccl", 0, LK_OPTION_CHOICE, FIELD(nccl), false, 0, 0, nccls, "WAY", NULL,
     "how NCCL is recorded: preload where programs are linked with it, shim where they load it, "
     "plugin where it is inside them"},
	{"cuda", 0, LK_OPTION_CHOICE, FIELD(cuda), false, 0, 0, cudas, "WHAT", NULL,
     "events: when the device's work was done, by events of its streams; calls: those of the host "
     "alone; "
     "cupti: each kernel by name, where CUPTI is found and free, else events"},
	{"mode", 0, LK_OPTION_CHOICE, FIELD(mode), false, 0, 0, modes, "HOW",
     "What becomes of communication",
     "record: it is the library's; null: large collectives return at once, on all ranks alike"},
	{"scratch", 0, LK_OPTION_TEXT, FIELD(scratch), false, 0, 0, NULL, "DIR", NULL,
     "folder that gets what is written in null, delayed and as-rank runs; a private one, removed "
     "afterwards, if not said"},
	{"as-rank", 0, LK_OPTION_INT, FIELD(as_rank), false, 0, 65535, NULL, "N",
     "One process as a rank of many",
     "the command runs alone and believes to be rank N of --world"},
	{"world", 0, LK_OPTION_INT, FIELD(world_size), false, 1, 65536, NULL, "N", NULL,
     "how many ranks there seem to be"},
	{"ranks", 0, LK_OPTION_TEXT, FIELD(ranks), false, 0, 0, NULL, "N,N-N,...", NULL,
     "several ranks, one run after another, into one folder: what lockstep compose takes"},
	{"ranks-per-node", 0, LK_OPTION_INT, FIELD(ranks_per_node), false, 1, 65536, NULL, "N", NULL,
     "how many of them seem to share a node; 1 if not said"},
	{"splits", 0, LK_OPTION_TEXT, FIELD(splits), false, 0, 0, NULL, "N,/N,...", NULL,
     "parts that ncclCommSplit makes, in order: N blocks of N ranks, /N every N-th rank; where "
     "they cannot be inferred"},
	{"fill", 0, LK_OPTION_TEXT, FIELD(fill), false, 0, 0, NULL, "RULE", NULL,
     "what is received: numbers (from -1 to 1 where they are of floating point, zeros elsewhere; "
     "the default), random (of others too), zeros, or a file's bytes"},
	{"delay", 0, LK_OPTION_INT, FIELD(delay_us), false, 0, 10000000, NULL, "US", "For tests",
     "communication takes so many microseconds longer"},
	{0},
};

static const char *const examples[] = {
	"lockstep record -- mpirun -n 2 ./train",
	"all ranks, into the folder recording",
	"lockstep record --out r1 --steps 50 -- mpirun -n 8 ./train --epochs 100",
	"stops after 50 steps",
	"lockstep record --program python3 -- ./run.sh",
	"the Python programs that a script starts",
	"lockstep record --as-rank 5 --world 1024 -- ./train",
	"one process that believes to be rank 5 of 1024",
	"lockstep record --world 64 --ranks 0,8,56 -- ./train",
	"one rank of each kind, for lockstep compose",
	"lockstep explain recording",
	"why it is slow",
	NULL,
};

const lk_verb lk_record_verb = {
	.name = "record",
	.summary = "runs a training command, unchanged, and records communication and files",
	.operands = "-- COMMAND...",
	.description = "Runs the command with a library that records its calls of MPI and its reading "
				   "and writing of files. Every process "
				   "leaves one file, readable however the process ends. The command's exit status "
				   "is kept; 124 if the time limit ended "
				   "it.\n"
				   "\n"
				   "Recorded are programs that call MPI_Init, from then on, and the command's own "
				   "program from its start, unless it is "
				   "a launcher or a shell. docs/guide/record.md says what is seen and what is not.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_record_request),
	.min_operands = 0,
	.max_operands = 0,
	.rest = true,
};

void lk_record_defaults(lk_record_request *request) {
	*request = (lk_record_request){.max_mb = 64, .as_rank = -1};
}
