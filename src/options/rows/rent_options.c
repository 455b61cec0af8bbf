/* rent_options.c: the options of `lockstep rent` and `lockstep machines`. */
#include "lockstep/rent.h"
#include "options/rows/job_rows.h"

/* Selects machines. `of`: the path from the request to its lk_machines_request, empty or
 * "machines.". */
/* clang-format off */
#define MACHINES(of) \
	{GROUP("Which machines") \
	 TEXT("provider", of provider, "NAME,...", "aws, gcp, azure, lambda")}, \
	{TEXT("region", of region, "TEXT", "a part of the region's name")}, \
	{TEXT("prices", of prices, "FILE", \
	 "a price list of your own, with the columns of data/instances.csv")}, \
	{TEXT("catalog", of catalog, "FILE", \
	 "a catalogue of SkyPilot: ~/.sky/catalogs/v8/CLOUD/vms.csv")}, \
	{TEXT("catalog-provider", of catalog_provider, "NAME", "whose catalogue that is"), \
	 WITH("catalog")}, \
	{TEXT("catalog-date", of catalog_date, "DATE", \
	 "when it was fetched; shown with its prices"), WITH("catalog")}

/* ---- machines ---- */

#define REQUEST lk_machines_request
static const lk_option machines_options[] = {
	MACHINES(),
	{GROUP("Output")
	 FLAG("age", age, "days since each price was listed, and which are older than 90")},
	OUT_LIST_ROWS(, "every offer that was left out, and why"),
	{0},
};
/* clang-format on */

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
				   "list prices in US dollars per machine and hour; each has its date and source. "
				   "Offers with impossible prices (spot above on demand, placeholders, regions far "
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

/* clang-format off */
#undef REQUEST
#define REQUEST    lk_rent_request
#define JOB(field) job.field
#define LISTS      false
static const lk_option rent_options[] = {
	NETWORK_ROWS("What is trained"),
	{TEXT("gbs", batches, "N,...", "acceptable global batch sizes: the best one is used; default, of a language model: at most 4 Mi tokens")},
	{SEQUENCE_ROW},
	{COUNT("tokens", tokens, "N", 1, 1e18,
	 "length of the training in tokens (100G, 100B); default: as long as deadline and "
	 "budget allow"), LETTER('t')},
	{COUNT("samples", samples, "N", 1, 1e18, "or in samples: images, sequences")},
	{REAL("epochs", epochs, "N", 1e-3, 1e9, "passes over these samples; default 1"),
	 WITH("samples")},
	{DTYPE_ROW("fp32, tf32, fp16, bf16, fp8, mxfp8 or nvfp4")},
	{TASK_ROW("pretrain, sft or lora")},
	{OPTIMIZER_ROW},
	{CALIBRATION_ROW},

	{GROUP("Functions instead of machines")
	 TEXT("map", map, "WORDS",
	 "cross-fitting as calls of serverless functions: folds=5 repeats=100 "
	 "learners=2 work=12s (of a "
	 "fit on one processor), load=1s, cold=2s, threads=1, memory=400MB, payload=1MB, "
	 "concurrency=1000, spread=10%")},

	{GROUP("What may be spent")
	 DURATION("deadline", deadline_h, HOURS, 1e-6, 1e9,
	 "the most time that the training may take (240, 14d, '2 weeks')")},
	{COUNT("budget", budget, "DOLLARS", 1e-6, 1e15, "the most dollars that it may cost ($20k)"),
	 .unit = LK_UNIT_DOLLARS},
	{INT("most-gpus", most_gpus, "N", 1, 65536,
	 "most GPUs of one choice; default: as many as budget or deadline can need, "
	 "without them 64")},
	{FLAG("spot", spot, "rent at spot prices")},
	{FLAG("block", block, "rent in blocks of days, paid ahead: AWS's capacity blocks, up to 64 "
	 "machines for 1 to 14 days, or weeks up to 26")},
	{REAL("interruptions", interruptions, "PER_HOUR", 0, 60,
	 "how often a spot machine is taken away; default 0.05"), WITH("spot")},
	{DURATION("mtbf", mtbf_h, HOURS, 1e-3, 1e9,
	 "mean time between failures of one node, a machine (5000h, 300d); default: none fails")},
	{DURATION("checkpoint", job.checkpoint_minutes, MINUTES, 0.01, 1e6,
	 "between checkpoints, of --spot and --mtbf; default: the best interval")},
	{REAL("checkpoint-write", job.checkpoint_write_gbps, "GB/S", 1e-6, 1e6,
	 "that each machine writes of a checkpoint, of --spot and --mtbf; default 1")},
	{PUE_ROW},
	{CARBON_ROW(LK_CARBON_HELP)},
	{PRICE_KWH_ROW(
	 "US dollars per kWh, where machines of your own in --prices do not state usd_kwh"), WITH("prices")},
	{DURATION("setup", setup_min, MINUTES, 0, 1e5, "paid for before the first step; default 10")},
	{COUNT("prepare-per-core", prepare_per_core, "SAMPLES/S", 1e-9, 1e9,
	 "samples that one vCPU reads, decodes and prepares; without it preparation costs nothing")},
	{TEXT("stalls", stalls, "FILE", "instead: the output of `lockstep stalls -o json` for the "
	 "job")},
	{INT("stalls-batch", stalls_batch, "N", 1, 1 << 28,
	 "samples of a step of that job, over all ranks"), WITH("stalls")},

	MACHINES(machines.),
	{TEXT("machine", machines.filter, "TEXT", "a part of a GPU's or an instance's name")},
	{SEARCH_TIME("; default: until nothing can change the answer")},
	{GROUP("Output")
	 INT("top", top, "N", 0, 1000, "machines shown in addition to those on the front; default 8")},
	{OUT_FORMAT(lk_output_formats, "how it is written")},
	{OUT_ANY_FILE},
	OUT_PICTURE_ROWS,
	{OUT_VERBOSE("also layouts, and the command that predicts each")},
	{0},
};
/* clang-format on */

static const char *const rent_examples[] = {
	"lockstep rent --model llama3.1-8b --seq 8192 --gbs 256,512 --tokens 20G --deadline 240",
	"the cheapest way to be done in ten days",
	"lockstep rent --model bert-large --seq 512 --gbs 256 --samples 10M --budget 500",
	"the fastest way for 500 dollars",
	"lockstep rent --model llama3.1-8b --seq 8192 --gbs 512 --budget '$100k' --deadline '2 weeks'",
	"the most tokens for so much in two weeks",
	"lockstep rent --model llama3.1-8b --seq 8192 --gbs 512 --tokens 20G --spot --interruptions "
	"0.1 --provider aws,gcp",
	"at spot prices",
	"lockstep rent --model llama3.1-8b --seq 8192 --gbs 512 --budget '$50k' --block",
	"the most tokens for so much in capacity blocks",
	NULL,
};

const lk_verb lk_rent_verb = {
	.name = "rent",
	.summary = "which machines to rent for a training, by cost and time",
	.operands = "[MODEL]",
	.description = "For every machine of the price list, and for 1, 2, 4 ... of them (the answer "
				   "says how far), the fastest "
				   "layout is searched as `lockstep plan` does, and hours and dollars of the whole "
				   "training follow. It shows the choices that no other beats in both time and "
				   "cost, and the best of every machine. It names the cheapest one that meets the "
				   "deadline, the fastest within the budget, which choices are too close to call, "
				   "and the cheapest measurement that would decide between them. Without a length "
				   "of the training it names the choice that trains most in what deadline and "
				   "budget leave. MODEL is the same as --model MODEL.\n\n"
				   "Exit status: 0, 1 nothing meets deadline and budget, 2 the input is wrong.",
	.options = rent_options,
	.first = "model seq gbs tokens samples dtype task deadline budget most-gpus spot provider "
			 "region top output",
	.examples = rent_examples,
	.request_size = sizeof(lk_rent_request),
	.min_operands = 0,
	.max_operands = 1,
};

void lk_rent_defaults(lk_rent_request *request) {
	*request = (lk_rent_request){.interruptions = 0.05, .setup_min = 10, .top = 8};
	lk_predict_defaults(&request->job);
}
