/* catalogue.c: lists: `lockstep devices` and `lockstep models`, what is known by name, and
 * `lockstep machines`, what can be rented. */
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/catalogue.h"
#include "lockstep/rent.h"
#include "options/rows.h"

/* clang-format off */
#define OUTPUT_ROWS(more) \
	{GROUP("Output") \
	 OUT_FORMAT(lk_output_formats, "how it is written")}, \
	{OUT_ANY_FILE}, \
	{OUT_VERBOSE(more)}
/* clang-format on */

typedef lk_status printer(const char *filter, int format, bool verbose, bool colour,
                          const char *path, FILE *out, lk_error *err);

static int catalogue_run(lk_args *args, printer *print) {
	lk_outputs outputs;
	lk_error err = {0};
	const char *filter = args->operand_count ? args->operands[0] : NULL;
	if (cli_read(args, NULL, &outputs, NULL, NULL, &err) != LK_OK) return cli_fail(&err);
	lk_status status =
		print(filter, outputs.format, outputs.verbose, cli_colour(), outputs.path, stdout, &err);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

/* ---- devices ---- */

static const lk_option device_options[] = {
	OUTPUT_ROWS("all columns: product, caches, clock, aliases, and the source of each row"),
	{0},
};

static const char *const device_examples[] = {
	"lockstep devices h100",
	"the kinds of H100",
	"lockstep devices -o csv -f devices.csv",
	"all of them, for a spreadsheet",
	NULL,
};

const lk_verb cli_devices_verb = {
	.name = "devices",
	.summary = "the GPUs that are known by name, with peaks, memory and links",
	.operands = "[NAME]",
	.description = "Lists the device catalogue. NAME is a part of a name, product or alias.\n"
				   "\n"
				   "Peaks are dense, in TFLOP/s, at the boost clock, as the vendor states them; "
				   "memory is what the driver "
				   "reports; rates of links and NICs are per GPU and direction. NIC is what a "
				   "default cluster of that device has.",
	.options = device_options,
	.examples = device_examples,
	.max_operands = 1,
};

int cli_devices(lk_args *args) {
	return catalogue_run(args, lk_devices_print);
}

/* ---- models ---- */

static const lk_option model_options[] = {
	OUTPUT_ROWS("all columns: widths, experts, windows, kind of attention"),
	{0},
};

static const char *const model_examples[] = {
	"lockstep models llama",
	"the networks of that family",
	"lockstep models dlrm",
	"recommendation models, whose tables `shard` places",
	"lockstep models -o jsonl",
	"all of them, one object per line",
	NULL,
};

const lk_verb cli_models_verb = {
	.name = "models",
	.summary = "the networks that are known by name, with their sizes",
	.operands = "[NAME]",
	.description =
		"Lists the presets of --model. NAME is a part of a name or family, or the id of a "
		"repository on the Hub. Parameters are counted as HuggingFace does; the active "
		"ones are those that one token, or a sample of a recommendation model "
		"(family dlrm), passes through.",
	.options = model_options,
	.examples = model_examples,
	.max_operands = 1,
};

int cli_models(lk_args *args) {
	return catalogue_run(args, lk_models_print);
}

/* ---- machines ---- */

int cli_machines(lk_args *args) {
	lk_machines_request request;
	lk_outputs outputs;
	lk_error err = {0};
	lk_machines_defaults(&request);
	if (cli_read(args, &request, &outputs, NULL, NULL, &err) != LK_OK) return cli_fail(&err);
	request.filter = args->operand_count ? args->operands[0] : NULL;
	lk_status status = lk_machines_print(&request, outputs.format, outputs.verbose, cli_colour(),
	                                     outputs.path, stdout, &err);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}
