/* catalogue_options.c: the options of `lockstep devices` and `lockstep models`. */
#include "lockstep/catalogue.h"
#include "options/rows.h"

/* ---- devices ---- */

static const lk_option device_options[] = {
	OUT_LIST_ROWS(GROUP("Output"),
                  "all columns: product, caches, clock, aliases, and the source of each row"),
	{0},
};

static const char *const device_examples[] = {
	"lockstep devices h100",
	"the kinds of H100",
	"lockstep devices -o csv -f devices.csv",
	"all of them, for a spreadsheet",
	NULL,
};

const lk_verb lk_devices_verb = {
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
	.request_size = sizeof(lk_catalogue_request),
	.max_operands = 1,
};

/* ---- models ---- */

static const lk_option model_options[] = {
	OUT_LIST_ROWS(GROUP("Output"), "all columns: widths, experts, windows, kind of attention"),
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

const lk_verb lk_models_verb = {
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
	.request_size = sizeof(lk_catalogue_request),
	.max_operands = 1,
};
