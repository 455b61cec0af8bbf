/* diff_options.c: the options of `lockstep diff`, as one table. */
#include "lockstep/diff.h"
#include "options/rows/job_rows.h"

const char *const lk_diff_tables[] = {"all", "categories", "operations", "kernels", NULL};

/* clang-format off */
#define REQUEST lk_diff_request
static const lk_option options[] = {
	{GROUP("What is compared")
	 TEXT("steps", steps, "A-B",
	 "these steps of both, as 3-5 or 4; all: the whole traces; default: every whole step")},
	{INT("rank", rank, "N", 0, 16777216, "only this rank of both")},
	{READERS_ROW},

	{GROUP("Output")
	 OUT_ANY_FORMAT},
	{OUT_TABLE(lk_diff_tables, "NAME", "one table: categories, operations or kernels")},
	{INT("top", top, "N", 0, 1000000, "number of operations and kernels shown; 0 all; default 10")},
	{OUT_ANY_FILE},
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep diff before.json.gz after.json.gz",
	"one rank of two runs: faster or slower, beyond noise or not, and by what",
	"lockstep diff before/ after/ -o csv --table kernels",
	"all ranks of both; every kernel before and after",
	NULL,
};

const lk_verb lk_diff_verb = {
	.name = "diff",
	.summary = "what changed between two profiled runs, and is it more than noise?",
	.operands = "BEFORE AFTER",
	.description =
		"Compares two runs, each one trace or a folder with the traces of its ranks: the step, its "
		"parts, which add up to it, and the kernels, by how much they changed. Times are per step, "
		"mean over ranks.\n\n"
		"The ratio's deviation comes from how the steps of each run differ; `beyond noise` means "
		"that Welch's test at 95 % tells the two means apart. With a single step the noise is "
		"unknown, and the report says so.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_diff_request),
	.min_operands = 2,
	.max_operands = 2,
};
