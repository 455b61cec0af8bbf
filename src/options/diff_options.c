/* diff_options.c: the options of `lockstep diff`, as one table. */
#include "lockstep/diff.h"

#define AT(field) offsetof(lk_diff_request, field)

static const char *const formats[] = {"text", "md", "csv", "json", "jsonl", "sqlite", NULL};

static const lk_option options[] = {
	{"steps", 0, LK_OPTION_TEXT, AT(steps), false, 0, 0, NULL, "A-B", "What is compared",
     "these steps of both, as 3-5 or 4; all: the whole traces; default: every whole step"},
	{"rank", 0, LK_OPTION_INT, AT(rank), false, 0, 16777216, NULL, "N", NULL,
     "only this rank of both"},
	{"threads", 'j', LK_OPTION_INT, AT(threads), false, 1, 1024, NULL, "N", NULL,
     "files read at a time; default: one per core"},

	{"output", 'o', LK_OPTION_CHOICE, AT(format), false, 0, 0, formats, "FORMAT", "Output",
     "text, md, csv, json, jsonl or sqlite"},
	{"table", 0, LK_OPTION_CHOICE, AT(table), false, 0, 0, lk_diff_tables, "NAME", NULL,
     "one table: categories or kernels"},
	{"top", 0, LK_OPTION_INT, AT(top), false, 0, 1000000, NULL, "N", NULL,
     "so many kernels; 0 all; default 10"},
	{"file", 'f', LK_OPTION_TEXT, AT(path), false, 0, 0, NULL, "FILE", NULL,
     "where the output goes; sqlite needs one"},
	{0},
};

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
		"parts, which add up "
		"to it, and the kernels, by how much they changed. Times are per step, mean over ranks.\n"
		"\n"
		"The ratio's deviation comes from how the steps of each run differ; `beyond noise` means "
		"that Welch's test at "
		"95 % tells the two means apart. With a single step noise is not known, and that is said.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_diff_request),
	.min_operands = 2,
	.max_operands = 2,
};
