/* init_options.c: the options of `lockstep init`, as one table. */
#include "lockstep/options.h"
#include "options/rows.h"

/* clang-format off */
#define REQUEST lk_init_request
static const lk_option options[] = {
	{GROUP("Defaults")
	 TEXT("gpu", gpu, "NAME", "the GPU, by a name of `lockstep devices`")},
	{TEXT("stack", stack, "NAME",
	 "the training framework, as `lockstep predict --stack` takes it")},
	{TEXT("calibration", calibration, "FILE", "numbers that `lockstep calibrate` wrote")},
	{TEXT("prices", prices, "FILE", "a price list, as `lockstep rent --prices` takes it")},

	{GROUP("Where")
	 FLAG("home", home, "lockstep.toml of the home folder instead of this one")},
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep init --gpu h100-sxm",
	"predict and plan need no --gpu in this folder",
	"lockstep init --home",
	"a file with every key commented out, to be filled in",
	NULL,
};

const lk_verb lk_init_verb = {
	.name = "init",
	.summary = "writes lockstep.toml: defaults for GPU, stack, calibration and prices",
	.operands = "",
	.description =
		"Writes lockstep.toml into this folder, or the home folder, with a comment to each key. "
		"Every verb reads both, this folder's first. An option on the command line overrides a "
		"default; every answer names those that it used on standard error. lockstep --no-config "
		"leaves them out. Servers, lockstep-mpi and the Python package do not read them.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_init_request),
};
