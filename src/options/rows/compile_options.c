/* compile_options.c: the options of `lockstep compile`, its help and manual page. */
#include "lockstep/compile.h"
#include "options/rows.h"

static const char *const formats[] = {"text", "json", NULL};
static const char *const targets[] = {"mpi", "cuda", "torch", "graph", NULL};

/* clang-format off */
#define REQUEST lk_compile_request
static const lk_option options[] = {
	{GROUP("What")
	 TEXT("program", program, "NAME", "which program of the file, where there are several"),
	 WHERE("rewrite run verify tune bench emit")},
	{TEXT("schedule", schedule, "NAME",
	 "which schedule: a name, plain (none), or all; with tune: schedules of the file that are "
	 "timed too")},
	{TEXT("sizes", sizes, "NAME=N,...",
	 "ranks of axes, dims, indices: dp=4,N=1000; of a list's dim N=3:5:7 or N=@FILE")},
	{TEXT("set", set, "NAME=X,...", "values of scalars; the others are random")},
	{INT("seed", seed, "N", 0, 0, "of the random numbers")},
	{GROUP("Running and verifying")
	 FLAG("field", field, "with run: exact arithmetic modulo 2^61 - 1, functions as keyed hashes"),
	 WHERE("run")},
	{TEXT("inputs", inputs, "FILE",
	 "with run: numbers of inputs, states and scalars, as JSON: {\"x\": [1, 2]}; the others are "
	 "random"),
	 WHERE("run")},
	{TEXT("compare", compare, "DIR",
	 "with run: compare what an emitted program has written there with the interpreter"),
	 WHERE("run")},
	{INT("draws", draws, "N", 1, 1000,
	 "with verify: random inputs and sizes for each mesh; default 3"), WHERE("verify")},
	{TEXT("meshes", meshes, "N,N,...",
	 "with verify: numbers of ranks that axes are given; default 1,2,3,4,8"), WHERE("verify")},
	{GROUP("Searching")
	 TEXT("gpu", gpu, "NAME", "with tune: GPU by name"), WHERE("tune")},
	{INT("gpus", gpus, "N", 1, 16777216,
	 "with tune: number of GPUs; default: the ranks of the mesh"), WHERE("tune")},
	{TEXT("cluster", cluster, "TEXT|FILE",
	 "with tune, instead of --gpu: '8 node * 8 h100-sxm nvlink4, nic 8*400g', or a JSON file; with "
	 "bench: predict the schedules too"),
	 WHERE("tune bench")},
	{TEXT("calibration", calibration, "FILE",
	 "with tune: numbers that `lockstep calibrate` wrote, on top of the built-in ones"),
	 WHERE("tune")},
	{INT("top", top, "N", 1, 1000, "with tune: number of schedules shown; default 5"),
	 WHERE("tune")},
	{INT("programs", programs, "N", 1, 1000000,
	 "with tune: most programs to search; default 2000"), WHERE("tune")},
	{SEARCH_TIME("; default: none"), WHERE("tune")},
	{FLAG("measure", measure,
	 "with tune: build and run the schedules shown on this machine, and keep the fastest"),
	 WHERE("tune")},
	{TEXT("wisdom", wisdom, "FILE",
	 "with tune: reuse what was found before, and add what is found"), WHERE("tune")},
	{TEXT("graph", graph, "FILE",
	 "with tune: write the fastest schedule as a step graph (.json or .json.gz), for predict "
	 "--replace and whatif"), WHERE("tune")},
	{TEXT("step", step, "FILE",
	 "with tune: a step graph, as predict --graph writes it, whose end the program is (predict "
	 "--emit program): find the schedule that makes the step fastest"), WHERE("tune")},
	{INT("repeat", repeat, "N", 6, 100000,
	 "with bench: rounds of all schedules in turn; default 21"), WHERE("bench")},
	{GROUP("Output")
	 CHOICE("target", target, targets, "TARGET",
	 "with emit: C and MPI, CUDA, a Python module for PyTorch, or a schedule's step graph"),
	 WHERE("emit")},
	{FLAG("header", header, "with emit: declarations for a program that calls the emitted code"),
	 WHERE("emit")},
	{OUT_FILE_OF("out", path, "FILE",
	 "where the output goes; default: standard output"), LETTER('f')},
	{FLAG("ir", ir, "with print and rewrite: the values with their types, instead of the program"),
	 WHERE("print rewrite")},
	{FLAG("each", each, "with rewrite: what every directive makes of the program, in turn"),
	 WHERE("rewrite")},
	{FLAG("all", all, "with run -o json: every element, not only the first four"), WHERE("run")},
	{CHOICE("output", format, formats, "FORMAT", "how it is written"), LETTER('o')},
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep compile check examples/lang/adam.lk",
	"whether the program is right, and what its sizes must divide",
	"lockstep compile print examples/lang/tp_out.lk --ir",
	"every value with format, shape and layout",
	"lockstep compile run examples/lang/adam.lk --sizes dp=4,N=1000 --set t=1",
	"what it computes, on four ranks",
	"lockstep compile rewrite examples/lang/adam.lk --schedule zero",
	"what a schedule makes of the program",
	"lockstep compile verify examples/lang/adam.lk",
	"whether its schedules compute the same",
	"lockstep compile tune examples/lang/adam.lk --sizes dp=64,N=100000000 --gpu h100-sxm",
	"the schedule that runs fastest there, by simulation",
	"lockstep compile emit examples/lang/adam.lk --out adam.c",
	"C and MPI, all schedules in one executable",
	"lockstep compile emit examples/lang/adam.lk --header --out adam.h",
	"to call it from your own program",
	NULL,
};

const lk_verb lk_compile_verb = {
	.name = "compile",
	.summary = "programs of computation and communication: checked, rewritten, verified, tuned, "
			   "written as C",
	.operands = "check|print|run|rewrite|verify|tune|emit|bench FILE...",
	.description =
		"Reads programs in lockstep's language: tensors with a layout over each axis of a mesh, "
		"computation and collectives in one text, and schedules apart from it. "
		"docs/reference/language.md has the language.\n\n"
		"check says whether formats, shapes and layouts fit together, and whether schedules are "
		"legal. What is wrong is named with line, column and the cheapest repair. print writes the "
		"programs back in one form.\n\n"
		"run interprets a program on all ranks of a mesh, with random inputs. rewrite shows what a "
		"schedule makes of it. verify compares every schedule with the program without one, in "
		"exact arithmetic on random inputs, meshes and sizes, and reports how certain the result "
		"is.\n\n"
		"tune searches schedules and ranks them by simulation on a cluster. emit writes a program "
		"with its schedules as source for C and MPI, or CUDA. bench builds that for C and MPI and "
		"runs all schedules on this machine, in turn.\n\n"
		"FILE may be - for standard input. Exit status: 0 right, 1 verify has found a difference, "
		"2 wrong input.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_compile_request),
	.min_operands = 2,
	.max_operands = -1,
};
