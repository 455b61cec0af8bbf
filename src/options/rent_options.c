/* rent_options.c: the options of `lockstep rent` and `lockstep machines`. */
#include <stddef.h>

#include "lockstep/rent.h"

static const char *const formats[] = {"text", "md", "csv", "json", "jsonl", "sqlite", NULL};

#define TEXT(where, name, value, group, help) \
	{ name, 0, LK_OPTION_TEXT, where, false, 0, 0, NULL, value, group, help }

/* Which machines, of a request that has a lk_machines_request at `base`. */
#define MACHINES(base)                                                                             \
	TEXT((base) + offsetof(lk_machines_request, provider), "provider", "NAME,...",                 \
	     "Which machines", "aws, gcp, azure, lambda"),                                             \
		TEXT((base) + offsetof(lk_machines_request, region), "region", "TEXT", NULL,               \
	         "a part of the region's name"),                                                       \
		TEXT((base) + offsetof(lk_machines_request, prices), "prices", "FILE", NULL,               \
	         "a price list of your own, with the columns of data/instances.csv"),                  \
		TEXT((base) + offsetof(lk_machines_request, catalog), "catalog", "FILE", NULL,             \
	         "a catalogue of SkyPilot: ~/.sky/catalogs/v8/CLOUD/vms.csv"),                         \
		TEXT((base) + offsetof(lk_machines_request, catalog_provider), "catalog-provider", "NAME", \
	         NULL, "whose catalogue that is"),                                                     \
		TEXT((base) + offsetof(lk_machines_request, catalog_date), "catalog-date", "DATE", NULL,   \
	         "when it was fetched; stands beside its prices")

/* ---- machines ---- */

#define LIST(name) offsetof(lk_machines_request, name)

static const lk_option machines_options[] = {
	MACHINES(0),
	{"output", 'o', LK_OPTION_CHOICE, LIST(format), false, 0, 0, formats, "FORMAT", "Output",
     "how it is written"},
	{"file", 'f', LK_OPTION_TEXT, LIST(path), false, 0, 0, NULL, "FILE", NULL,
     "where the output goes; sqlite needs one"},
	{"verbose", 'v', LK_OPTION_FLAG, LIST(verbose), false, 0, 0, NULL, NULL, NULL,
     "every row that was left out, and why"},
	{0},
};

static const char *const machines_examples[] = {
	"lockstep machines h100",
	"who has H100s, and for how much",
	"lockstep machines --catalog ~/.sky/catalogs/v8/aws/vms.csv --catalog-provider aws a100",
	"prices of SkyPilot",
	NULL,
};

const lk_verb lk_machines_verb = {
	.name = "machines",
	.summary = "machines with GPUs that can be rented, with prices, their date and source",
	.operands = "[NAME]",
	.description = "Lists machines. NAME is a part of a GPU's or an instance's name. Prices are "
				   "list prices in US dollars per machine and "
				   "hour; each has its date and source. Offers whose prices cannot be (spot above "
				   "on demand, placeholders, regions far "
				   "apart) are left out and named.",
	.options = machines_options,
	.examples = machines_examples,
	.request_size = sizeof(lk_machines_request),
	.max_operands = 1,
};

void lk_machines_defaults(lk_machines_request *request) {
	*request = (lk_machines_request){0};
}

/* ---- rent ---- */

#define AT(name) offsetof(lk_rent_request, name)
#define SWITCH(name, field, help) \
	{ name, 0, LK_OPTION_SWITCH, AT(field), false, 0, 0, NULL, NULL, NULL, help }

static const lk_option rent_options[] = {
	{"model", 'm', LK_OPTION_TEXT, AT(job.model), false, 0, 0, NULL, "NAME|FILE", "What is trained",
     "a preset (see `lockstep models`), a HuggingFace config.json, or a folder that holds one"},
	TEXT(AT(batches), "gbs", "N,...", NULL,
         "global batch sizes that are fine: the best of them is taken"),
	{"seq", 's', LK_OPTION_INT, AT(job.seq), false, 1, 16777216, NULL, "N", NULL,
     "sequence length, tokens"},
	{"tokens", 't', LK_OPTION_COUNT, AT(tokens), false, 1, 1e18, NULL, "N", NULL,
     "length of the training in tokens (100G)"},
	{"samples", 0, LK_OPTION_COUNT, AT(samples), false, 1, 1e18, NULL, "N", NULL,
     "or in samples: images, sequences"},
	{"epochs", 0, LK_OPTION_REAL, AT(epochs), false, 1e-3, 1e9, NULL, "N", NULL,
     "times these samples; 1 if not said"},
	{"dtype", 'd', LK_OPTION_TEXT, AT(job.dtype), false, 0, 0, NULL, "TYPE", NULL,
     "fp32, tf32, fp16, bf16, fp8, mxfp8 or nvfp4"},
	TEXT(AT(job.task), "task", "TASK", NULL, "pretrain, sft or lora"),
	TEXT(AT(job.optimizer), "optimizer", "NAME", NULL, "adam, sgd, lamb or adafactor"),
	TEXT(AT(job.calibration), "calibration", "FILE", NULL,
         "numbers that `lockstep calibrate` wrote, on top of the built-in ones"),

	{"deadline", 0, LK_OPTION_REAL, AT(deadline_h), false, 1e-6, 1e9, NULL, "HOURS",
     "What may be spent", "the training is to be done in so long"},
	{"budget", 0, LK_OPTION_COUNT, AT(budget), false, 1e-6, 1e15, NULL, "DOLLARS", NULL,
     "and for so much (20k)"},
	{"most-gpus", 0, LK_OPTION_INT, AT(most_gpus), false, 1, 65536, NULL, "N", NULL,
     "of one choice; 64 if not said"},
	{"spot", 0, LK_OPTION_FLAG, AT(spot), false, 0, 0, NULL, NULL, NULL, "rent at spot prices"},
	{"interruptions", 0, LK_OPTION_REAL, AT(interruptions), false, 0, 60, NULL, "PER_HOUR", NULL,
     "how often a spot machine is taken away; 0.05 if not said"},
	{"checkpoint", 0, LK_OPTION_REAL, AT(job.checkpoint_minutes), false, 0.01, 1e6, NULL, "MINUTES",
     NULL, "between checkpoints; the best if not said"},
	{"setup", 0, LK_OPTION_REAL, AT(setup_min), false, 0, 1e5, NULL, "MINUTES", NULL,
     "paid for before the first step; 10 if not said"},
	{"prepare-per-core", 0, LK_OPTION_REAL, AT(prepare_per_core), false, 1e-9, 1e9, NULL,
     "SAMPLES/S", NULL,
     "that one vCPU reads, decodes and prepares; without it preparation costs nothing"},
	TEXT(AT(stalls), "stalls", "FILE", NULL,
         "instead: what `lockstep stalls -o json` wrote of the job"),
	{"stalls-batch", 0, LK_OPTION_INT, AT(stalls_batch), false, 1, 1 << 28, NULL, "N", NULL,
     "samples of a step of that job, over all ranks"},

	TEXT(AT(machines.filter), "machine", "TEXT", "Which machines",
         "a part of a GPU's or an instance's name"),
	MACHINES(AT(machines)),
	{"top", 0, LK_OPTION_INT, AT(top), false, 0, 1000, NULL, "N", "Output",
     "machines shown beside those of the front; 8 if not said"},
	{"output", 'o', LK_OPTION_CHOICE, AT(format), false, 0, 0, formats, "FORMAT", NULL,
     "how it is written"},
	{"file", 'f', LK_OPTION_TEXT, AT(path), false, 0, 0, NULL, "FILE", NULL,
     "where the output goes; sqlite needs one"},
	{"html", 0, LK_OPTION_TEXT, AT(html), false, 0, 0, NULL, "FILE", NULL,
     "a report with pictures: one page that needs no network"},
	{"verbose", 'v', LK_OPTION_FLAG, AT(verbose), false, 0, 0, NULL, NULL, NULL,
     "also layouts, and the command that predicts each"},
	{0},
};

static const char *const rent_examples[] = {
	"lockstep rent --model llama3.1-8b --seq 8192 --gbs 256,512 --tokens 20G --deadline 240",
	"the cheapest way to be done in ten days",
	"lockstep rent --model bert-large --seq 512 --gbs 256 --samples 10M --budget 500",
	"the fastest way for 500 dollars",
	"lockstep rent --model llama3.1-8b --seq 8192 --gbs 512 --tokens 20G --spot --interruptions "
	"0.1 --provider aws,gcp",
	"at spot prices",
	NULL,
};

const lk_verb lk_rent_verb = {
	.name = "rent",
	.summary = "which machines to rent for a training, by cost and time",
	.operands = "",
	.description = "For every machine of the price list, and for 1, 2, 4 ... of them, the fastest "
				   "layout is searched as `lockstep plan` does, "
				   "and hours and dollars of the whole training follow. Shown are the choices that "
				   "nobody undercuts in both, and the best of "
				   "every machine; named are the cheapest in time, the fastest in budget, what is "
				   "too close to call, and the cheapest "
				   "measurement that would settle it.\n"
				   "\n"
				   "Exit status: 0, 1 nothing keeps to deadline and budget, 2 the input is wrong.",
	.options = rent_options,
	.examples = rent_examples,
	.request_size = sizeof(lk_rent_request),
};

void lk_rent_defaults(lk_rent_request *request) {
	*request = (lk_rent_request){.most_gpus = 64, .interruptions = 0.05, .setup_min = 10, .top = 8};
	lk_predict_defaults(&request->job);
}
