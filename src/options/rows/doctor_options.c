/* doctor_options.c: the options of `lockstep doctor`, as one table. */
#include "lockstep/doctor.h"
#include "options/rows.h"

/* clang-format off */
static const lk_option options[] = {
	OUT_LIST_ROWS(GROUP("Output"), "the calibrations of each family"),
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep doctor",
	"what this machine has, and a command for each thing that it lacks",
	"lockstep doctor -o json",
	"the same as data, for a bug report",
	NULL,
};

const lk_verb lk_doctor_verb = {
	.name = "doctor",
	.summary = "what is installed, how old the data is, and what would mend what is missing",
	.operands = "",
	.description =
		"Lists the features of this build, its devices, models, calibrations and prices with their "
		"dates, the files of defaults, and the libraries and programs that some questions use. "
		"Each is ok, old, missing (what needs it is refused by name) or broken; what is not ok has "
		"a command that mends it. Nothing is installed or changed, and no network is used.\n\n"
		"Exit status: 0, also where something is missing or old; 1 if something is broken.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_doctor_request),
};
