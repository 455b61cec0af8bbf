/* collective_options.c: the options of `lockstep collective`, as one table. */
#include "lockstep/collective.h"
#include "options/rows/job_rows.h"

static const char *const libraries[] = {"nccl", "mpi", "gloo", NULL};
static const char *const ops[] = {
	"any",    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast",
	"reduce", "send_recv",  NULL,
};

const char *const lk_collective_formats[] = {"text",  "md",     "csv",        "json",
                                             "jsonl", "sqlite", "nccl-tests", NULL};

/* clang-format off */
#define REQUEST    lk_collective_request
#define JOB(field) field
static const lk_option options[] = {
	{GROUP("What runs")
	 CHOICE("op", op, ops, "NAME",
	 "all_reduce (default), all_gather, reduce_scatter, all_to_all, broadcast, reduce or "
	 "send_recv")},
	{TEXT("begin", begin, "BYTES",
	 "smallest size, with K, M, G in powers of 1024; default 8"), LETTER('b')},
	{TEXT("end", end, "BYTES", "largest size; default 1G"), LETTER('e')},
	{REAL("factor", factor, "X", 1.01, 1e6, "from one size to the next; default 2"), LETTER('f')},
	{TEXT("step", step, "BYTES", "bytes from one size to the next, instead of "
	 "--factor"), LETTER('i')},
	{CHOICE("library", library, libraries, "NAME",
	 "nccl; mpi or gloo: the same on the hosts, with their algorithms")},

	{GROUP("Where")
	 TEXT("gpu", gpu, "NAME", "GPU by name")},
	{INT("gpus", gpus, "N", 1, 16777216, "ranks"), LETTER('g')},
	{TEXT("cluster", cluster, "TEXT",
	 "instead of --gpu: \"8 node * 8 h100-sxm, nic 8*400g\", a .json file, NCCL's topology \"8 "
	 "node * topo.xml\", or what it prints with NCCL_DEBUG=INFO \"nccl.log h100-sxm\"")},
	{INT("sharing", sharing, "N", 1, 1024, "groups that use a node's NICs at the same time")},
	{NCCL_ROW(LK_NCCL_HELP)},
	{TEXT("fabric", fabric, "NAME", "numbers of a calibrated fabric, as NDv4")},
	{CALIBRATION_ROW},

	{GROUP("Output")
	 OUT_FORMAT(lk_collective_formats,
	 "text, md, csv, json, jsonl, sqlite or nccl-tests (the lines and columns that they print)")},
	{OUT_FILE("where the output goes; sqlite needs one")},
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep collective --op all_reduce --gpu h100-sxm --gpus 64 -b 8 -e 16G -f 2",
	"what all_reduce_perf should print on 8 nodes",
	"lockstep collective nccl.log",
	"a log compared with the model: which sizes are slower than they should be",
	"lockstep collective nccl.log --cluster \"2 node * 8 a100-sxm-40, nic 8*200g\" --fabric NDv4",
	"on nodes, and with numbers, that the log does not name",
	"lockstep collective --gpu a100 --gpus 16 --nccl \"NCCL_ALGO=Tree NCCL_PROTO=LL\"",
	"what these settings of NCCL would give",
	"lockstep collective --library mpi --gpu h100-sxm --gpus 64 -o csv",
	"the same message sizes through MPI on the hosts",
	"lockstep collective --gpu h100-sxm --gpus 64 -o nccl-tests --file predicted.log",
	"predictions as a log of nccl-tests, for programs that read those",
	NULL,
};

const lk_verb lk_collective_verb = {
	.name = "collective",
	.summary = "how long does a collective take at each size, and is a measured one slow?",
	.operands = "[LOG]",
	.description = "Prints the table of nccl-tests from the model: time, algorithm and bus "
				   "bandwidth as they define them, and what NCCL would choose (algorithm, "
				   "protocol, channels) and what bounds it.\n\n"
				   "With a LOG, the output of nccl-tests as text or JSON, measured and predicted "
				   "are shown side by side. Sizes where something is wrong are marked: `falls` "
				   "where twice the size is faster, `slow` where a range of sizes takes more than "
				   "1.5 times as long as expected; a fabric that is slow as a whole is reported "
				   "below the table.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_collective_request),
	.min_operands = 0,
	.max_operands = 1,
};
