/* shard_options.c: the options of `lockstep shard`, as one table. */
#include "lockstep/shard.h"
#include "options/rows/job_rows.h"

const char *const lk_shard_table_names[LK_SHARD_TABLES + 1] = {"plan", "ranks", "pieces",
                                                               "sharders", NULL};

static const char *const optimizers[] = {"rowwise-adagrad", "adagrad", "sgd", "adam", NULL};
static const char *const types[] = {"fp32", "fp16", "bf16", NULL};
/* clang-format off */
#define REQUEST    lk_shard_request
#define JOB(field) field
#define LISTS      false
static const lk_option options[] = {
	{GROUP("Where")
	 GPU_ROW(LK_GPU_HELP)},
	{GPUS_ROW(16777216)},
	{CLUSTER_ROW(LK_CLUSTER_HELP)},
	{TEXT("calibration", calibration, "FILE",
	 "numbers that `lockstep calibrate` wrote, or bench-lookup for a processor")},
	{REAL("reserve", reserve, "SHARE", 0, 0.99,
	 "share of the device's memory that is not for tables; default 0.15")},
	{REAL("host-memory", host_gib, "GiB", 0, 1e6,
	 "host memory for tables, for each GPU; default none")},
	{REAL("cache", cache, "SHARE", 0, 1,
	 "share of a table in host memory that the device caches; default 0.2"), WITH("host-memory")},

	{GROUP("What")
	 TEXT("model", model, "NAME|FILE",
	 "instead of TABLES.csv: a recommendation model (`lockstep models dlrm`), with its tables t0, "
	 "t1, ...; the step is its whole training step, as predict --plan says"), LETTER('m')},
	{FLAG("cuda-graphs", cuda_graphs, "the model's kernels are replayed from CUDA graphs"),
	 WITH("model")},
	{COUNT("batch", batch, "N", 1, 1e9,
	 "samples of a step, all ranks together; default 65536, of a model 8192 for each GPU"),
	 LETTER('b')},
	{CHOICE("optimizer", optimizer, optimizers, "NAME",
	 "of the tables; default rowwise-adagrad, of a model its own")},
	{CHOICE("dtype", dtype, types, "TYPE",
	 "of the tables; sums and gradients are fp32"), LETTER('d')},
	{REAL("dense-ms", dense_ms, "MS", 0, 1e6,
	 "computation between the lookups forward and backward")},
	{TEXT("kinds", kinds, "LIST", "what a table may be: table,column,row,data; default all")},
	{TEXT("sharder", sharder, "NAME",
	 "whose placement is shown: search (default), naive, naive-chunk, random, size-greedy, "
	 "lookup-greedy, norm-lookup-greedy, size-lookup-greedy")},
	{TEXT("placement", placement, "FILE",
	 "time this plan, as --plan writes it, and compare it with what the sharders find")},
	{REAL("seed", seed, "N", 0, 4503599627370496.0, "seed of the sharder random")},
	{SEARCH_TIME("; default: none")},

	{GROUP("Output")
	 TEXT("plan", plan, "FILE", "write the placement as JSON in TorchRec's terms")},
	{TEXT("graph", graph, "FILE", "write the step graph (.json, .json.gz), for whatif")},
	{OUT_TABLE(lk_shard_table_names, "WHICH", "plan (all), ranks, pieces or sharders")},
	OUT_ANY_ROWS,
	OUT_PICTURE_ROWS,
	{OUT_VERBOSE("also how long each sharder took, on standard error")},
	{0},
};
/* clang-format on */

static const char *const examples[] = {
	"lockstep shard tables.csv --gpu a100-sxm-80 --gpus 8 --batch 65536",
	"which table goes where, how balanced it is, and how far from the best possible",
	"lockstep shard tables.csv --gpu h100-sxm --gpus 16 --plan plan.json",
	"the placement for a training script",
	"lockstep shard --model dlrm-dcnv2 --gpu h100-sxm --gpus 16 --plan plan.json",
	"the same for a model, whose whole step is timed",
	"lockstep shard tables.csv --gpu a100-sxm-40 --gpus 8 --host-memory 64 --table ranks",
	"tables larger than the GPUs: the rest in host memory, cached",
	"lockstep shard tables.csv --gpu a100-sxm-80 --gpus 8 --kinds table --table sharders",
	"the published heuristics next to the search, whole tables only",
	NULL,
};

const lk_verb lk_shard_verb = {
	.name = "shard",
	.summary = "which embedding table goes on which GPU?",
	.operands = "[TABLES.csv]",
	.description = "Places embedding tables on GPUs: whole, by columns, by rows, as copies, in "
				   "device or host memory, so that memory suffices and a step is as short as "
				   "possible. A step is simulated: exchange of indices, lookups, exchange of sums, "
				   "and the way back. The report also shows the distance from a lower bound on the "
				   "time, and the published heuristics.\n\n"
				   "With --model, predict --plan FILE says the same step for the written "
				   "placement.\n\n"
				   "TABLES.csv has the columns name, rows, dim and pooling (rows looked up by a "
				   "sample); optional: count (equal tables), skew (exponent of a Zipf law of the "
				   "indices) or reuse (17 shares, see docs/guide/shard.md), kinds "
				   "(table|column|row|data).\n\n"
				   "Exit status: 0 it fits, 1 it does not, 2 the input is wrong.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_shard_request),
	.min_operands = 0,
	.max_operands = 1,
};

void lk_shard_defaults(lk_shard_request *request) {
	*request = (lk_shard_request){.reserve = 0.15, .cache = 0.2};
}
