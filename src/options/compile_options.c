/* compile_options.c: the options of `lockstep compile`, its help and manual page. */
#include <stddef.h>

#include "lockstep/compile.h"

static const char *const formats[] = {"text", "json", NULL};
static const char *const targets[] = {"mpi", "cuda", NULL};

static const lk_option options[] = {
	{"program", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, program), false, 0, 0, NULL, "NAME",
     "What", "which program of the file, where there are several"},
	{"schedule", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, schedule), false, 0, 0, NULL,
     "NAME", NULL,
     "which schedule: a name, plain (none), or all; with tune: those of the file that are timed "
     "too"},
	{"sizes", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, sizes), false, 0, 0, NULL,
     "NAME=N,...", NULL,
     "ranks of axes, dims, indices: dp=4,N=1000; of a list's dim N=3:5:7 or N=@FILE"},
	{"set", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, set), false, 0, 0, NULL, "NAME=X,...",
     NULL, "values of scalars; the others are drawn"},
	{"seed", 0, LK_OPTION_INT, offsetof(lk_compile_request, seed), false, 0, 0, NULL, "N", NULL,
     "of all that is drawn at random"},
	{"field", 0, LK_OPTION_FLAG, offsetof(lk_compile_request, field), false, 0, 0, NULL, NULL,
     "Running and verifying", "with run: exactly, modulo 2^61 - 1, functions as keyed hashes"},
	{"compare", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, compare), false, 0, 0, NULL, "DIR",
     NULL, "with run: what an emitted program has dumped there, against the interpreter"},
	{"draws", 0, LK_OPTION_INT, offsetof(lk_compile_request, draws), false, 1, 1000, NULL, "N",
     NULL, "with verify: random inputs and sizes for each mesh; 3 if not given"},
	{"meshes", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, meshes), false, 0, 0, NULL,
     "N,N,...", NULL, "with verify: numbers of ranks that axes are given; 1,2,3,4,8 if not given"},
	{"gpu", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, gpu), false, 0, 0, NULL, "NAME",
     "Searching", "with tune: GPU by name, in its usual nodes"},
	{"gpus", 0, LK_OPTION_INT, offsetof(lk_compile_request, gpus), false, 1, 16777216, NULL, "N",
     NULL, "with tune: number of GPUs; the ranks of the mesh if not given"},
	{"cluster", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, cluster), false, 0, 0, NULL,
     "TEXT|FILE", NULL,
     "with tune, instead of --gpu: '8 node * 8 h100-sxm nvlink4, nic 8*400g', or a JSON file"},
	{"calibration", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, calibration), false, 0, 0, NULL,
     "FILE", NULL,
     "with tune: numbers that `lockstep calibrate` wrote, on top of the built-in ones"},
	{"top", 0, LK_OPTION_INT, offsetof(lk_compile_request, top), false, 1, 1000, NULL, "N", NULL,
     "with tune: schedules that are shown; 5 if not given"},
	{"programs", 0, LK_OPTION_INT, offsetof(lk_compile_request, programs), false, 1, 1000000, NULL,
     "N", NULL, "with tune: programs that are looked at, at most; 2000 if not given"},
	{"measure", 0, LK_OPTION_FLAG, offsetof(lk_compile_request, measure), false, 0, 0, NULL, NULL,
     NULL, "with tune: those that are shown are built and run here, and the fastest is kept"},
	{"wisdom", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, wisdom), false, 0, 0, NULL, "FILE",
     NULL, "with tune: what was found before is taken from there, what is found is added"},
	{"repeat", 0, LK_OPTION_INT, offsetof(lk_compile_request, repeat), false, 6, 100000, NULL, "N",
     NULL, "with bench: rounds of all schedules in turn; 21 if not given"},
	{"target", 0, LK_OPTION_CHOICE, offsetof(lk_compile_request, target), false, 0, 0, targets,
     "TARGET", "Output", "with emit: C and MPI, or CUDA"},
	{"header", 0, LK_OPTION_FLAG, offsetof(lk_compile_request, header), false, 0, 0, NULL, NULL,
     NULL, "with emit: declarations for a program that calls what is emitted"},
	{"out", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, out), false, 0, 0, NULL, "FILE", NULL,
     "with emit: the file to write; standard output if not given"},
	{"ir", 0, LK_OPTION_FLAG, offsetof(lk_compile_request, ir), false, 0, 0, NULL, NULL, NULL,
     "with print and rewrite: the values with their types, instead of the program"},
	{"each", 0, LK_OPTION_FLAG, offsetof(lk_compile_request, each), false, 0, 0, NULL, NULL, NULL,
     "with rewrite: what every directive makes of the program, in turn"},
	{"all", 0, LK_OPTION_FLAG, offsetof(lk_compile_request, all), false, 0, 0, NULL, NULL, NULL,
     "with run -o json: every element, not the first four alone"},
	{"output", 'o', LK_OPTION_CHOICE, offsetof(lk_compile_request, format), false, 0, 0, formats,
     "FORMAT", NULL, "how it is written"},
	{0},
};

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
