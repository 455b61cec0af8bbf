/* compile_options.c: the options of `lockstep compile`, its help and manual page. */
#include "lockstep/compile.h"
#include "options/rows.h"

static const char *const formats[] = {"text", "json", NULL};
static const char *const targets[] = {"mpi", "cuda", NULL};

/* clang-format off */
#define REQUEST lk_compile_request
static const lk_option options[] = {
	{GROUP("What")
	 TEXT("program", program, "NAME", "which program of the file, where there are several")},
	{TEXT("schedule", schedule, "NAME",
	 "which schedule: a name, plain (none), or all; with tune: those of the file that are timed "
	 "too")},
	{TEXT("sizes", sizes, "NAME=N,...",
	 "ranks of axes, dims, indices: dp=4,N=1000; of a list's dim N=3:5:7 or N=@FILE")},
	{TEXT("set", set, "NAME=X,...", "values of scalars; the others are drawn")},
	{INT("seed", seed, "N", 0, 0, "of all that is drawn at random")},
	{GROUP("Running and verifying")
	 FLAG("field", field, "with run: exactly, modulo 2^61 - 1, functions as keyed hashes")},
	{TEXT("compare", compare, "DIR",
	 "with run: what an emitted program has dumped there, against the interpreter")},
	{INT("draws", draws, "N", 1, 1000,
	 "with verify: random inputs and sizes for each mesh; 3 if not given")},
	{TEXT("meshes", meshes, "N,N,...",
	 "with verify: numbers of ranks that axes are given; 1,2,3,4,8 if not given")},
	{GROUP("Searching")
	 TEXT("gpu", gpu, "NAME", "with tune: GPU by name, in its usual nodes")},
	{INT("gpus", gpus, "N", 1, 16777216,
	 "with tune: number of GPUs; the ranks of the mesh if not given")},
	{TEXT("cluster", cluster, "TEXT|FILE",
	 "with tune, instead of --gpu: '8 node * 8 h100-sxm nvlink4, nic 8*400g', or a JSON file")},
	{TEXT("calibration", calibration, "FILE",
	 "with tune: numbers that `lockstep calibrate` wrote, on top of the built-in ones")},
	{INT("top", top, "N", 1, 1000, "with tune: schedules that are shown; 5 if not given")},
	{INT("programs", programs, "N", 1, 1000000,
	 "with tune: programs that are looked at, at most; 2000 if not given")},
	{FLAG("measure", measure,
	 "with tune: those that are shown are built and run here, and the fastest is kept")},
	{TEXT("wisdom", wisdom, "FILE",
	 "with tune: what was found before is taken from there, what is found is added")},
	{INT("repeat", repeat, "N", 6, 100000,
	 "with bench: rounds of all schedules in turn; 21 if not given")},
	{GROUP("Output")
	 CHOICE("target", target, targets, "TARGET", "with emit: C and MPI, or CUDA")},
	{FLAG("header", header, "with emit: declarations for a program that calls what is emitted")},
	{TEXT("out", out, "FILE", "with emit: the file to write; standard output if not given")},
	{FLAG("ir", ir, "with print and rewrite: the values with their types, instead of the program")},
	{FLAG("each", each, "with rewrite: what every directive makes of the program, in turn")},
	{FLAG("all", all, "with run -o json: every element, not the first four alone")},
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
	"to call it from a program of one's own",
	NULL,
};

const lk_verb lk_compile_verb = {
	.name = "compile",
	.summary = "programs of computation and communication: checked, rewritten, verified, tuned, "
			   "written as C",
	.operands = "check|print|run|rewrite|verify|tune|emit|bench FILE...",
	.description =
		"Reads programs in lockstep's language: tensors with a layout over each axis of a mesh, "
		"computation and "
		"collectives in one text, schedules beside it. docs/reference/language.md has the "
		"language.\n"
		"\n"
		"check says whether formats, shapes and layouts fit together, and whether schedules are "
		"legal. What is wrong is "
		"named with line, column and the cheapest repair. print writes the programs back in one "
		"form.\n"
		"\n"
		"run interprets a program on all ranks of a mesh, with random inputs. rewrite shows what a "
		"schedule makes of it. "
		"verify holds every schedule against the program without one, by exact arithmetic on "
		"random inputs, meshes and "
		"sizes, and says how sure that is.\n"
		"\n"
		"tune searches schedules and ranks them by simulation on a cluster. emit writes a program "
		"with its schedules as "
		"source for C and MPI, or CUDA. bench builds that for C and MPI and runs all schedules on "
		"this machine, in turn.\n"
		"\n"
		"FILE may be - for standard input. Exit status: 0 right, 1 verify has found a difference, "
		"2 wrong input.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_compile_request),
	.min_operands = 2,
	.max_operands = -1,
};
