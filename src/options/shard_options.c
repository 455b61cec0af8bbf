/* shard_options.c: the options of `lockstep shard`, as one table. */
#include "lockstep/shard.h"

#define AT(field) offsetof(lk_shard_request, field)

const char *const lk_shard_table_names[LK_SHARD_TABLES + 1] = {"plan", "ranks", "pieces",
                                                               "sharders", NULL};

static const char *const optimizers[] = {"rowwise-adagrad", "adagrad", "sgd", "adam", NULL};
static const char *const types[] = {"fp32", "fp16", "bf16", NULL};
static const char *const formats[] = {"text", "md", "csv", "json", "jsonl", "sqlite", NULL};

static const lk_option options[] = {
	{"gpu", 'g', LK_OPTION_TEXT, AT(gpu), false, 0, 0, NULL, "NAME", "Where",
     "GPU, see `lockstep devices`"},
	{"gpus", 'n', LK_OPTION_INT, AT(gpus), false, 1, 16777216, NULL, "N", NULL,
     "number of GPUs, in the device's usual nodes"},
	{"cluster", 0, LK_OPTION_TEXT, AT(cluster), false, 0, 0, NULL, "TEXT|FILE", NULL,
     "instead: as for predict"},
	{"calibration", 0, LK_OPTION_TEXT, AT(calibration), false, 0, 0, NULL, "FILE", NULL,
     "numbers that `lockstep calibrate` wrote, or bench-lookup for a processor"},
	{"reserve", 0, LK_OPTION_REAL, AT(reserve), false, 0, 0.99, NULL, "SHARE", NULL,
     "of the device's memory that is not for tables; default 0.15"},
	{"host-memory", 0, LK_OPTION_REAL, AT(host_gib), false, 0, 1e6, NULL, "GiB", NULL,
     "host memory for tables, for each GPU; default none"},
	{"cache", 0, LK_OPTION_REAL, AT(cache), false, 0, 1, NULL, "SHARE", NULL,
     "of a table in host memory that the device caches; default 0.2"},

	{"batch", 'b', LK_OPTION_COUNT, AT(batch), false, 1, 1e9, NULL, "N", "What",
     "samples of a step, all ranks together; default 65536"},
	{"optimizer", 0, LK_OPTION_CHOICE, AT(optimizer), false, 0, 0, optimizers, "NAME", NULL,
     "of the tables; rowwise-adagrad if nothing is said"},
	{"dtype", 'd', LK_OPTION_CHOICE, AT(dtype), false, 0, 0, types, "TYPE", NULL,
     "of the tables; sums and gradients are fp32"},
	{"dense-ms", 0, LK_OPTION_REAL, AT(dense_ms), false, 0, 1e6, NULL, "MS", NULL,
     "computation between the lookups forward and backward"},
	{"kinds", 0, LK_OPTION_TEXT, AT(kinds), false, 0, 0, NULL, "LIST", NULL,
     "what a table may be: table,column,row,data; default all"},
	{"sharder", 0, LK_OPTION_TEXT, AT(sharder), false, 0, 0, NULL, "NAME", NULL,
     "whose placement is shown: search (default), naive, naive-chunk, random, size-greedy, "
     "lookup-greedy, norm-lookup-greedy, size-lookup-greedy"},
	{"seed", 0, LK_OPTION_REAL, AT(seed), false, 0, 4503599627370496.0, NULL, "N", NULL,
     "of the sharder random"},

	{"plan", 0, LK_OPTION_TEXT, AT(plan), false, 0, 0, NULL, "FILE", "Output",
     "write the placement as JSON in TorchRec's terms"},
	{"graph", 0, LK_OPTION_TEXT, AT(graph), false, 0, 0, NULL, "FILE", NULL,
     "write the step graph (.json, .json.gz), for whatif"},
	{"table", 0, LK_OPTION_CHOICE, AT(table), false, 0, 0, lk_shard_table_names, "WHICH", NULL,
     "plan (all), ranks, pieces or sharders"},
	{"output", 'o', LK_OPTION_CHOICE, AT(format), false, 0, 0, formats, "FORMAT", NULL,
     "text, md, csv, json, jsonl or sqlite"},
	{"file", 'f', LK_OPTION_TEXT, AT(output), false, 0, 0, NULL, "FILE", NULL,
     "where the output goes; sqlite needs one"},
	{"html", 0, LK_OPTION_TEXT, AT(html), false, 0, 0, NULL, "FILE", NULL,
     "a report with pictures: one page that needs no network"},
	{0},
};

static const char *const examples[] = {
	"lockstep shard tables.csv --gpu a100-sxm-80 --gpus 8 --batch 65536",
	"which table goes where, how balanced it is, and how far from the best possible",
	"lockstep shard tables.csv --gpu h100-sxm --gpus 16 --plan plan.json",
	"the placement for a training script",
	"lockstep shard tables.csv --gpu a100-sxm-40 --gpus 8 --host-memory 64 --table ranks",
	"tables larger than the GPUs: the rest in host memory, cached",
	"lockstep shard tables.csv --gpu a100-sxm-80 --gpus 8 --kinds table --table sharders",
	"the published heuristics beside the search, whole tables only",
	NULL,
};

const lk_verb lk_shard_verb = {
	.name = "shard",
	.summary = "which embedding table goes on which GPU?",
	.operands = "TABLES.csv",
	.description = "Places embedding tables on GPUs: whole, by columns, by rows, as copies, in "
				   "device or host memory, so that memory "
				   "suffices and a step is as short as possible. A step is simulated: exchange of "
				   "indices, lookups, exchange of sums, "
				   "and the way back. Beside the placement stand its distance from a time that no "
				   "placement beats, and the published "
				   "heuristics.\n"
				   "\n"
				   "TABLES.csv has the columns name, rows, dim and pooling (rows looked up by a "
				   "sample); optional: count (equal tables), "
				   "skew (exponent of a Zipf law of the indices) or reuse (17 shares, see "
				   "docs/guide/shard.md), kinds (table|column|row|data).\n"
				   "\n"
				   "Exit status: 0 it fits, 1 it does not, 2 the input is wrong.",
	.options = options,
	.examples = examples,
	.request_size = sizeof(lk_shard_request),
	.min_operands = 1,
	.max_operands = 1,
};

void lk_shard_defaults(lk_shard_request *request) {
	*request = (lk_shard_request){.reserve = 0.15, .cache = 0.2};
}
