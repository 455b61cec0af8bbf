/* compile_options.c: the options of `lockstep compile`, its help and manual page. */
#include <stddef.h>

#include "lockstep/compile.h"

static const char *const formats[] = {"text", "json", NULL};

static const lk_option options[] = {
	{"output", 'o', LK_OPTION_CHOICE, offsetof(lk_compile_request, format), false, 0, 0, formats, "FORMAT", "Output",
	 "how it is written"},
	{"ir", 0, LK_OPTION_FLAG, offsetof(lk_compile_request, ir), false, 0, 0, NULL, NULL, NULL,
	 "with print and rewrite: the values with their types, instead of the program"},
	{"each", 0, LK_OPTION_FLAG, offsetof(lk_compile_request, each), false, 0, 0, NULL, NULL, NULL,
	 "with rewrite: what every directive makes of the program, in turn"},
	{"program", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, program), false, 0, 0, NULL, "NAME", "What",
	 "which program of the file, where there are several"},
	{"schedule", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, schedule), false, 0, 0, NULL, "NAME", "What",
	 "which schedule: a name, plain (none), or all"},
	{"sizes", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, sizes), false, 0, 0, NULL, "NAME=N,...", "What",
	 "ranks of axes, dims, indices: dp=4,N=1000; of a list's dim N=3:5:7 or N=@FILE"},
	{"set", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, set), false, 0, 0, NULL, "NAME=X,...", "What",
	 "values of scalars; the others are drawn"},
	{"seed", 0, LK_OPTION_INT, offsetof(lk_compile_request, seed), false, 0, 0, NULL, "N", "What",
	 "of all that is drawn at random"},
	{"field", 0, LK_OPTION_FLAG, offsetof(lk_compile_request, field), false, 0, 0, NULL, NULL, "What",
	 "with run: exactly, modulo 2^61 - 1, functions as keyed hashes"},
	{"compare", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, compare), false, 0, 0, NULL, "DIR", "What",
	 "with run: what an emitted program has dumped there, against the interpreter"},
	{"draws", 0, LK_OPTION_INT, offsetof(lk_compile_request, draws), false, 1, 1000, NULL, "N", "What",
	 "with verify: random inputs and sizes for each mesh; 3 if not given"},
	{"meshes", 0, LK_OPTION_TEXT, offsetof(lk_compile_request, meshes), false, 0, 0, NULL, "N,N,...", "What",
	 "with verify: numbers of ranks that axes are given; 1,2,3,4,8 if not given"},
	{0},
};

static const char *const examples[] = {
	"lockstep compile check examples/lang/adam.lk", "whether the program is right, and what its sizes must divide",
	"lockstep compile print examples/lang/tp_out.lk --ir", "every value with format, shape and layout",
	"lockstep compile print adam.lk -o json", "the same for other programs",
	"lockstep compile run examples/lang/adam.lk --sizes dp=4,N=1000 --set t=1", "what it computes, on four ranks",
	"lockstep compile verify examples/lang/adam.lk", "whether its schedules compute the same",
	"lockstep compile rewrite examples/lang/adam.lk --schedule zero", "what a schedule makes of the program",
	NULL,
};

const lk_verb lk_compile_verb = {
	.name = "compile",
	.summary = "programs of computation and communication: checked, rewritten, run, verified",
	.operands = "check|print|rewrite|run|verify FILE...",
	.description =
		"Reads programs in lockstep's language: tensors with a layout over each axis of a mesh, computation and "
		"collectives in one text, schedules beside it. docs/LANGUAGE.md has the language.\n"
		"\n"
		"check says whether formats, shapes and layouts fit together. What is wrong is named with line, column and the "
		"cheapest repair. print writes the programs back in one form. rewrite writes what schedules make of a "
		"program. run interprets a program on all ranks of a mesh, with "
		"random inputs. verify holds every schedule against the program without one, by exact arithmetic on random inputs, "
		"meshes and sizes. FILE may be - for standard input.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_compile_request),
	.min_operands = 2,
	.max_operands = -1,
};
