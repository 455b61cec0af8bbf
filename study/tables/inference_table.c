/* inference_table.c: tables of generation by inference engines, as on TensorRT-LLM's performance
 * pages: equal sequences that all wait at the start, or one batch from start to end. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "io/csv.h"
#include "tables/tables.h"
#include "model/read/read.h"

enum { INFERENCE_ROWS = 100000 };
enum {
	ID,
	ENGINE,
	MODEL,
	GPU,
	GPUS,
	PROMPT,
	RESPONSE,
	PRECISION,
	NEEDED, /* the columns above are required */
	LAYERS = NEEDED,
	HIDDEN,
	HEADS,
	KV_HEADS,
	HEAD_DIM,
	FFN,
	VOCAB,
	GATED,
	ATTENTION,
	PP,
	ATTENTION_DP,
	EP,
	KV_PRECISION,
	BATCH,
	REQUESTS,
	RATE,
	FIRST_MS,
	SUSPECT,
	COLUMNS
};
static const char *const columns[COLUMNS] = {
	"id",        "engine",       "model",     "gpu",     "n_gpu",    "isl",      "osl",
	"precision", "layers",       "hidden",    "heads",   "kv_heads", "head_dim", "ffn",
	"vocab",     "gated",        "attention", "pp",      "attn_dp",  "ep",       "kv_precision",
	"batch",     "num_requests", "out_tok_s", "ttft_ms", "suspect",
};

struct inference_reading {
	lk_arena *arena;
	lk_inference_runs *out;
};

/* Read the number of a field; `otherwise` if the field holds none ("", "?"). */
static double number_or(const lk_csv *csv, int column, double otherwise) {
	const char *text = lk_csv_field(csv, column), *end;
	double number = lk_read_real(text, &end);
	return end > text && *end == '\0' && number >= 0 && number <= 1e9 ? number : otherwise;
}

/* Set the software from the first word: "tensorrt-llm v1.0". Before 1.0 TensorRT-LLM ran compiled
 * engines; 1.0 counts as separate software. */
static void inference_take_software(const char *text, lk_inference_run *run) {
	char name[32];
	const char *version = strstr(text, " v"), *end;
	lk_copy(name, sizeof name, text);
	name[strcspn(name, " ")] = '\0';
	double release =
		lk_same_name(name, "tensorrt-llm") && version ? lk_read_real(version + 2, &end) : INFINITY;
	if (release < 1) lk_copy(name, sizeof name, "tensorrt-engine");
	else if (release < 1.1) lk_copy(name, sizeof name, "tensorrt-llm-1.0");
	run->engine.software = lk_engine_software_find(name);
	if (!run->engine.software) {
		run->why_not = "the engine is not known";
		return;
	}
	run->engine.sequences = run->engine.software->sequences;
	run->engine.tokens = run->engine.software->tokens;
	run->engine.memory_share = run->engine.software->memory_share;
}

/* Round up to a multiple of the first step below `low`, of the second below `high`, else of the
 * third. */
static double round_up(double number, double low, double high, const double steps[3]) {
	double step = steps[(number >= low) + (number >= high)];
	return step * ceil(number / step);
}

/* Set the limits that TensorRT-LLM's benchmark chooses for the lengths of its requests: as many
 * sequences of a batch as the cache has room for, and tokens of an iteration such that prompts keep
 * pace with generation (tensorrt_llm/bench/build/tuning.py; with the room computed here). Both are
 * computed per stage; the engine's are pp times as many. The tables give 0.95 of the free memory to
 * the cache. */
static void inference_take_tuning(lk_inference_run *run) {
	static const double sequence_steps[3] = {32, 128, 256}, token_steps[3] = {256, 512, 1024};
	lk_engine *engine = &run->engine;
	double length = run->prompt + run->response;
	engine->memory_share = 0.95;
	double room = lk_engine_memory_of(engine, length).tokens / length;
	double sequences = fmin(4096, room) / engine->pp,
		   tokens = fmin(32768, sequences * (1 + run->prompt / run->response));
	sequences = fmax(64, round_up(sequences, 256, 1024, sequence_steps));
	tokens = fmax(fmax(2048, run->prompt), round_up(tokens, 4096, 8192, token_steps));
	engine->sequences = (int)sequences * engine->pp;
	engine->tokens = (int)tokens * engine->pp;
}

/* Set the network; those without a preset become dense decoders of their shape. */
static lk_status inference_take_model(const lk_csv *csv, const int *at, lk_model *model,
                                      lk_inference_run *run) {
	lk_error unknown;
	run->engine.model = model;
	if (lk_model_preset(run->model, model, &unknown) == LK_OK) return LK_OK;
	const char *attention = lk_csv_field(csv, at[ATTENTION]);
	*model = (lk_model){.network = LK_NET_DECODER,
	                    .layers = (int)number_or(csv, at[LAYERS], 0),
	                    .hidden = (int)number_or(csv, at[HIDDEN], 0),
	                    .heads = (int)number_or(csv, at[HEADS], 0),
	                    .kv_heads = (int)number_or(csv, at[KV_HEADS], 0),
	                    .head_dim = (int)number_or(csv, at[HEAD_DIM], 0),
	                    .ffn = (int)number_or(csv, at[FFN], 0),
	                    .vocab = (int)number_or(csv, at[VOCAB], 0),
	                    .gated = number_or(csv, at[GATED], 0) > 0,
	                    .norms_per_layer = 2,
	                    .final_norm = true,
	                    .lm_head = true};
	lk_copy(model->name, sizeof model->name, run->model);
	bool plain = strcmp(attention, "mha") == 0 || strcmp(attention, "gqa") == 0;
	if (!plain || lk_model_check(model, "table", &unknown) != LK_OK)
		run->why_not = "the network's shapes are not known here";
	return LK_OK;
}

static lk_status inference_take_cluster(lk_arena *arena, const char *gpu, int gpus,
                                        lk_cluster *cluster, lk_inference_run *run, lk_error *err) {
	char name[64];
	lk_copy(name, sizeof name, gpu);
	name[strcspn(name, "?")] = '\0'; /* a "?" marks the variant as a guess of the table */
	const lk_device *device = lk_device_find(name);
	run->engine.cluster = cluster;
	if (device) return lk_cluster_simple(arena, device, gpus, 0, 0, cluster, err);
	run->why_not = "the device is not in the catalogue";
	return LK_OK;
}

static bool inference_dtype(const char *text, lk_dtype *out) {
	if (strcmp(text, "fp4") == 0) return *out = LK_NVFP4, true;
	return lk_dtype_parse(text, out);
}

/* Set the layout. GPUs of an engine that split a layer are tp x attn_dp; "on" means that they
 * attend to sequences of their own if there are several. Experts are taken as split over all of
 * them. */
static void inference_take_layout(const lk_csv *csv, const int *at, int gpus,
                                  lk_inference_run *run) {
	const char *dp = lk_csv_field(csv, at[ATTENTION_DP]);
	lk_engine *engine = &run->engine;
	engine->pp = (int)fmax(1, number_or(csv, at[PP], 1));
	LK_ASSERT(gpus > 0 && engine->pp > 0);
	engine->tp = gpus / engine->pp > 0 ? gpus / engine->pp : 1;
	engine->attention_dp =
		engine->tp > 1 && (strncmp(dp, "on", 2) == 0 || number_or(csv, at[ATTENTION_DP], 1) > 1);
	engine->ep = (int)number_or(csv, at[EP], 0);
	if (engine->ep < 1)
		engine->ep = engine->attention_dp && run->engine.model->experts > 0 ? engine->tp : 1;
	if (gpus % engine->pp != 0 || engine->tp % engine->ep != 0)
		run->why_not = "the layout does not divide its GPUs";
}

static void inference_take_time(const lk_csv *csv, const int *at, lk_inference_run *run) {
	double rate = number_or(csv, at[RATE], 0), first = number_or(csv, at[FIRST_MS], 0);
	double batch = number_or(csv, at[BATCH], 0), requests = number_or(csv, at[REQUESTS], batch);
	run->sequences = (size_t)requests;
	if (batch > 0) run->engine.sequences = (int)fmin(batch, 65536);
	if (rate > 0) run->seconds = requests * run->response / rate;
	else run->seconds = first / 1e3;
	if (!(run->seconds > 0) || requests < 1 || run->prompt < 1 || run->response < 1 ||
	    requests > 1e6)
		run->why_not = "neither a rate nor a first token is stated";
}

static lk_status inference_read_row(void *context, const lk_csv *csv, const int *at,
                                    lk_error *err) {
	struct inference_reading *reading = context;
	lk_arena *arena = reading->arena;
	if (!lk_push(reading->out)) return lk_oom(err);
	lk_inference_run *run = lk_last(reading->out);
	lk_model *model = LK_NEW(arena, lk_model);
	lk_cluster *cluster = LK_NEW(arena, lk_cluster);
	long long gpus;
	LK_TRY(lk_parse_int(lk_csv_field(csv, at[GPUS]), 1, 1 << 16, &gpus, lk_csv_where(csv), err));
	run->id = lk_arena_strdup(arena, lk_csv_field(csv, at[ID]));
	run->where = lk_arena_strdup(arena, lk_csv_where(csv));
	run->software = lk_arena_strdup(arena, lk_csv_field(csv, at[ENGINE]));
	run->model = lk_arena_strdup(arena, lk_csv_field(csv, at[MODEL]));
	run->gpu = lk_arena_strdup(arena, lk_csv_field(csv, at[GPU]));
	run->precision = lk_arena_strdup(arena, lk_csv_field(csv, at[PRECISION]));
	if (!model || !cluster || !run->id || !run->where || !run->software || !run->model ||
	    !run->gpu || !run->precision)
		return lk_oom(err);
	run->suspect = *lk_csv_field(csv, at[SUSPECT]) != '\0';
	run->prompt = number_or(csv, at[PROMPT], 0);
	run->response = number_or(csv, at[RESPONSE], 0);
	LK_TRY(inference_take_cluster(arena, run->gpu, (int)gpus, cluster, run, err));
	LK_TRY(inference_take_model(csv, at, model, run));
	inference_take_layout(csv, at, (int)gpus, run);
	inference_take_software(run->software, run);
	inference_take_time(csv, at, run);
	if (!inference_dtype(run->precision, &run->engine.dtype))
		run->why_not = "the precision is not stated";
	run->engine.kv_dtype = run->engine.dtype >= LK_FP8 ? LK_FP8 : LK_BF16;
	inference_dtype(lk_csv_field(csv, at[KV_PRECISION]), &run->engine.kv_dtype);
	if (run->why_not) return LK_OK;
	lk_engine_take_mxfp4(&run->engine, true);
	if (!(number_or(csv, at[BATCH], 0) > 0) &&
	    strncmp(run->engine.software->name, "tensorrt-llm", 12) == 0)
		inference_take_tuning(run);
	return LK_OK;
}

lk_status lk_inference_read(lk_arena *arena, lk_stream *in, lk_inference_runs *out, lk_error *err) {
	const lk_csv_table table = {
		columns, COLUMNS, NEEDED, "table of generation", INFERENCE_ROWS, inference_read_row, NULL};
	return lk_csv_read(in, &table, &(struct inference_reading){arena, out}, err);
}
