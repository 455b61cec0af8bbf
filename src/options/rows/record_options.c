/* record_options.c: the options of `lockstep record`, its help and manual page. */
#include "lockstep/record.h"
#include "options/rows/job_rows.h"

static const char *const modes[] = {"record", "null", NULL};
static const char *const nccls[] = {"found", "preload", "shim", "plugin", NULL};
static const char *const cudas[] = {"events", "calls", "cupti", NULL};
const char *const lk_mpi_choices[] = {"auto", "openmpi", "mpich", NULL};

/* clang-format off */
#define REQUEST lk_record_request
static const lk_option options[] = {
	{GROUP("Recordings")
	 TEXT("out", out, "DIR",
	 "folder for the recordings, empty or new; default: recording")},
	{INT("max-mb", max_mb, "N", 1, 16384,
	 "MiB of each process's file; what does not fit is counted; default 64")},
	{GROUP("When it ends")
	 INT("steps", steps, "N", 1, 1000000, "stop the command after N steps")},
	{DURATION("time-limit", time_limit, SECONDS, 0.001, 1e9,
	 "stop the command after this time; exit status 124")},
	RECORDED_ROWS,
	{CHOICE("nccl", nccl, nccls, "WAY",
	 "how NCCL is recorded: preload where programs are linked with it, shim where they load it, "
	 "plugin where it is inside them")},
	{CHOICE("cuda", cuda, cudas, "WHAT",
	 "events: when the device's work was done, by events on its streams; calls: only calls of the "
	 "host; cupti: each kernel by name, where CUPTI is found and free, else events")},
	{GROUP("What becomes of communication")
	 CHOICE("mode", mode, modes, "HOW",
	 "record: the library communicates as always; null: large collectives return at once on all "
	 "ranks")},
	{TEXT("scratch", scratch, "DIR",
	 "folder for what null, delayed and as-rank runs write; default: a private one, removed "
	 "afterwards")},
	{GROUP("One process as a rank of many")
	 INT("as-rank", as_rank, "N", 0, 65535,
	 "the command runs alone and believes it is rank N of --world")},
	{INT("world", world_size, "N", 1, 65536, "how many ranks the job appears to have")},
	{TEXT("ranks", ranks, "N,N-N,...",
	 "several ranks, one run after another, into one folder: what lockstep compose takes")},
	{INT("ranks-per-node", ranks_per_node, "N", 1, 65536,
	 "how many ranks appear to share a node; default 1"), WITH("as-rank ranks")},
	{TEXT("splits", splits, "N,/N,...",
	 "parts that ncclCommSplit makes, in order: N blocks of N ranks, /N every N-th rank; where "
	 "they cannot be inferred"), WITH("as-rank ranks")},
	{TEXT("fill", fill, "RULE",
	 "what is received: numbers (floating point from -1 to 1, zeros for other types; the default), "
	 "random (other types too), zeros, or a file's bytes"), WITH("as-rank ranks")},
	{GROUP("For tests")
	 INT("delay", delay_us, "US", 0, 10000000, "extra microseconds for each communication call")},
	{TEXT("slow", slow, "WORDS",
	 "for tests, a slow tier: latency=4000us rate=50MB/s over DIR; reads of files below DIR take at "
	 "least as long")},
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep record -- mpirun -n 2 ./train",
	"all ranks, into the folder recording",
	"lockstep record --out r1 --steps 50 -- mpirun -n 8 ./train --epochs 100",
	"stops after 50 steps",
	"lockstep record --program python3 -- ./run.sh",
	"the Python programs that a script starts",
	"lockstep record --as-rank 5 --world 1024 -- ./train",
	"one process that believes it is rank 5 of 1024",
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
				   "and writing of files. Every process leaves one file, readable however the "
				   "process ends. The command's exit status is kept; 124 if the time limit ended "
				   "it.\n\n"
				   "It records programs that call MPI_Init from that call on, and the command's "
				   "own program from its start unless it is a launcher or a shell. "
				   "docs/guide/record.md says what is seen and what is not.",
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
