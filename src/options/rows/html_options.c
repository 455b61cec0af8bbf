/* html_options.c: the options of `lockstep html`, as one table. */
#include "lockstep/report.h"
#include "options/rows.h"

/* clang-format off */
static const lk_option options[] = {
	{GROUP("Output")
	 OUT_FILE("where the page goes; default: standard output"), LETTER('f')},
	{OUT_CHARTS},
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep plan --model llama3.1-8b --gpu h100-sxm --gpus 64 -o json -f plan.json",
	"an answer to keep",
	"lockstep html plan.json -f plan.html",
	"the same as a page that needs no network",
	"lockstep diff before.json after.json -o json | lockstep html - -f diff.html",
	"of a verb that writes no page itself",
	NULL,
};

const lk_verb lk_html_verb = {
	.name = "html",
	.summary = "any JSON answer as a page: one file, no network",
	.operands = "FILE.json|-",
	.description =
		"Makes a page of what -o json of any verb wrote, or of the document that such a page "
		"copies: figures, the parts of a step, memory, and tables that sort, filter and are saved "
		"as CSV or JSON. The JSON stands in the page. - reads standard input.\n\n"
		"--html of predict, plan, explain, whatif, shard, rent and stalls draws more: an answer as "
		"JSON does not hold the pipeline, kernels and sensitivities.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_html_request),
	.min_operands = 1,
	.max_operands = 1,
};
