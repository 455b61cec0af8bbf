/* mcp_options.c: the options of `lockstep mcp`, as one table. */
#include "mcp/mcp.h"
#include "options/rows.h"

/* clang-format off */
#define REQUEST lk_mcp_request
static const lk_option options[] = {
	{GROUP("Limits")
	 INT("workers", workers, "N", 1, 64, "calls that run at the same time; default 4"),
	 LETTER('j')},
	{REAL("seconds", seconds, "S", 0.01, 86400, "longest time of a call; default 600")},
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"claude mcp add lockstep -- lockstep mcp",
	"an agent that starts servers by their commands",
	NULL,
};

const lk_verb lk_mcp_verb = {
	.name = "mcp",
	.summary = "the questions as tools for agents (Model Context Protocol)",
	.operands = "",
	.description =
		"Speaks the Model Context Protocol on standard input and output: an agent starts it and "
		"calls the verbs that only ask as tools, with their options in JSON, and reads the "
		"catalogues and the help as resources. Answers are those of -o json. Tools read files by "
		"name; they write no files and run no programs of the user.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_mcp_request),
	.min_operands = 0,
	.max_operands = 0,
};

void lk_mcp_defaults(lk_mcp_request *request) {
	*request = (lk_mcp_request){.workers = 4, .seconds = 600};
}
