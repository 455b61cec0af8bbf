/* serve_options.c: the options of `lockstep serve`, as one table. */
#include "serve/serve.h"
#include "options/rows.h"

/* clang-format off */
#define REQUEST lk_serve_request
static const lk_option options[] = {
	{GROUP("Where")
	 TEXT("listen", listen, "ADDRESS",
	 "numeric address; default 127.0.0.1, which other machines cannot reach")},
	{INT("port", port, "N", 0, 65535, "default 8420; 0 chooses a free one"), LETTER('p')},
	{LINES("name", names, "HOST",
	 "a host name that browsers may use for the server; may be given several times. Addresses and "
	 "localhost always work")},

	{FLAG("open", open, "open the page in a browser: a command of $BROWSER, or xdg-open")},

	{GROUP("Limits")
	 INT("workers", workers, "N", 1, 256,
	 "predictions answered at the same time, and as many longer answers; default: one per core"), LETTER('j')},
	{REAL("memory", memory_mib, "MiB", 64, 1048576, "memory of one question; default 4096")},
	{REAL("seconds", seconds, "S", 0.01, 86400, "longest time of a prediction; default 20")},
	{REAL("long-seconds", long_seconds, "S", 0.01, 86400,
	 "longest time of any other answer; default 600")},
	{REAL("upload", upload_mib, "MiB", 1, 1048576,
	 "largest size of the traces of one explanation; default 1024")},
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep serve",
	"the page, for a browser on this machine: open the address that is printed",
	"lockstep serve --open",
	"and the browser opens it",
	"lockstep serve --port 0",
	"on a free port",
	"lockstep serve --listen 0.0.0.0 --name planner.example.org",
	"for other machines too: whoever has the printed address may ask questions",
	NULL,
};

const lk_verb lk_serve_verb = {
	.name = "serve",
	.summary = "all questions in a browser, and as JSON over HTTP",
	.operands = "",
	.description =
		"Serves a page that predicts a training step after every change of model, GPU, layout and "
		"precision, and has views for plans, sweeps, machines, changes, embedding tables, traces "
		"and recordings. Programs ask the same as JSON over HTTP. The printed address contains a "
		"token of this run; requests without it are refused.\n"
		"\n"
		"It listens only on this machine unless --listen names another address. It reads only the "
		"files that are sent to it, and answers each question in a separate process with limits of "
		"memory and time. SIGINT and SIGTERM end it.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_serve_request),
	.min_operands = 0,
	.max_operands = 0,
};

void lk_serve_defaults(lk_serve_request *request) {
	*request = (lk_serve_request){.listen = "127.0.0.1",
	                              .port = 8420,
	                              .memory_mib = 4096,
	                              .seconds = 20,
	                              .long_seconds = 600,
	                              .upload_mib = 1024};
}
