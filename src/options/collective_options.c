/* collective_options.c: the options of `lockstep collective`, as one table. */
#include "lockstep/collective.h"

#define AT(field) offsetof(lk_collective_request, field)

static const char *const formats[] = {"text", "md", "csv", "json", "jsonl", "sqlite", NULL};
static const char *const libraries[] = {"nccl", "mpi", "gloo", NULL};
static const char *const ops[] = {
	"any",    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast",
	"reduce", "send_recv",  NULL,
};

static const lk_option options[] = {
	{"op", 0, LK_OPTION_CHOICE, AT(op), false, 0, 0, ops, "NAME", "What runs",
     "all_reduce (default), all_gather, reduce_scatter, all_to_all, broadcast, reduce or "
     "send_recv"},
	{"begin", 'b', LK_OPTION_TEXT, AT(begin), false, 0, 0, NULL, "BYTES", NULL,
     "smallest size, with K, M, G in powers of 1024; default 8"},
	{"end", 'e', LK_OPTION_TEXT, AT(end), false, 0, 0, NULL, "BYTES", NULL,
     "largest size; default 1G"},
	{"factor", 'f', LK_OPTION_REAL, AT(factor), false, 1.01, 1e6, NULL, "X", NULL,
     "from one size to the next; default 2"},
	{"step", 'i', LK_OPTION_TEXT, AT(step), false, 0, 0, NULL, "BYTES", NULL,
     "bytes to add instead"},
	{"library", 0, LK_OPTION_CHOICE, AT(library), false, 0, 0, libraries, "NAME", NULL,
     "nccl; mpi or gloo: the same on the hosts, with their algorithms"},

	{"gpu", 0, LK_OPTION_TEXT, AT(gpu), false, 0, 0, NULL, "NAME", "Where",
     "GPU by name, in its usual nodes"},
	{"gpus", 'g', LK_OPTION_INT, AT(gpus), false, 1, 16777216, NULL, "N", NULL, "ranks"},
	{"cluster", 0, LK_OPTION_TEXT, AT(cluster), false, 0, 0, NULL, "TEXT", NULL,
     "instead: \"8 node * 8 h100-sxm, nic 8*400g\", a .json file, or NCCL's topology \"8 node * "
     "topo.xml\""},
	{"sharing", 0, LK_OPTION_INT, AT(sharing), false, 1, 1024, NULL, "N", NULL,
     "groups that use a node's NICs at the same time"},
	{"fabric", 0, LK_OPTION_TEXT, AT(fabric), false, 0, 0, NULL, "NAME", NULL,
     "numbers of a calibrated fabric, as NDv4"},
	{"calibration", 0, LK_OPTION_TEXT, AT(calibration), false, 0, 0, NULL, "FILE", NULL,
     "numbers that `lockstep calibrate` wrote, on top of the built-in ones"},

	{"output", 'o', LK_OPTION_CHOICE, AT(format), false, 0, 0, formats, "FORMAT", "Output",
     "text, md, csv, json, jsonl or sqlite"},
	{"file", 0, LK_OPTION_TEXT, AT(path), false, 0, 0, NULL, "FILE", NULL,
     "where the output goes; sqlite needs one"},
	{0},
};

static const char *const examples[] = {
	"lockstep collective --op all_reduce --gpu h100-sxm --gpus 64 -b 8 -e 16G -f 2",
	"what all_reduce_perf should print on 8 nodes",
	"lockstep collective nccl.log",
	"a log beside the model: which sizes are slower than they should be",
	"lockstep collective nccl.log --cluster \"2 node * 8 a100-sxm-40, nic 8*200g\" --fabric NDv4",
	"on nodes, and with numbers, that the log does not name",
	"lockstep collective --library mpi --gpu h100-sxm --gpus 64 -o csv",
	"the same message sizes through MPI on the hosts",
	NULL,
};

const lk_verb lk_collective_verb = {
	.name = "collective",
	.summary = "how long does a collective take at each size, and is a measured one slow?",
	.operands = "[LOG]",
	.description = "Prints the table of nccl-tests from the model: time, algorithm and bus "
				   "bandwidth as they define "
				   "them, and what "
				   "NCCL would choose (algorithm, protocol, channels) and what bounds it.\n"
				   "\n"
				   "With a LOG, the output of nccl-tests as text or JSON, both stand side by side. "
				   "Sizes where "
				   "something is wrong are "
				   "marked: `falls` where twice the size is faster, `slow` where a range of sizes "
				   "takes more than 1.5 "
				   "times as long as "
				   "expected; a fabric that is slow as a whole is said below.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_collective_request),
	.min_operands = 0,
	.max_operands = 1,
};
