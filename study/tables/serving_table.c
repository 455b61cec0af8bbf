/* serving_table.c: tables of served requests (serving_2026.csv): the time to the first token and
 * per further token, with a number of requests always in flight. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "io/csv.h"
#include "model/read/read.h"
#include "tables/tables_internal.h"

enum { SERVING_ROWS = 100000 };
enum {
	MODEL,
	GPU,
	ENGINE,
	RELEASE,
	PRECISION,
	MODE,
	PROMPT,
	RESPONSE,
	CONCURRENCY,
	FIRST_MS,
	TOKEN_MS,
	NEEDED, /* the columns above are required */
	TP = NEEDED,
	ATTENTION_DP,
	MOE_TP,
	MOE_EP,
	DECODE_TP,
	DECODE_ATTENTION_DP,
	DECODE_MOE_TP,
	DECODE_MOE_EP,
	DECODE_WORKERS,
	SOURCE,
	COLUMNS
};
static const char *const columns[COLUMNS] = {
	"model",          "gpu",           "engine",        "release",
	"precision",      "mode",          "isl",           "osl",
	"concurrency",    "ttft_ms",       "tpot_ms",       "tp",
	"attn_dp",        "moe_tp",        "moe_ep",        "decode_tp",
	"decode_attn_dp", "decode_moe_tp", "decode_moe_ep", "decode_workers",
	"source",
};

/* Requests that each client sends: InferenceX measures ten times as many as are in flight. Its
 * lengths vary between 0.8 and 1 times those stated; those of AIConfigurator's own sweeps do not. */
static const double SERVING_ROUNDS = 10;

struct serving_reading {
	lk_arena *arena;
	lk_inference_runs *out;
};

/* The number of a field; 0: not stated. */
static double serving_number(const lk_csv *csv, int column) {
	const char *text = lk_csv_field(csv, column), *end;
	double number = lk_read_real(text, &end);
	return end > text && *end == '\0' && number >= 0 && number <= 1e9 ? number : 0;
}

/* Releases of TensorRT-LLM 1.0; those of Dynamo's images (0.8.1) are later ones. */
static void serving_take_software(const lk_csv *csv, const int *at, lk_inference_run *run) {
	const char *name = lk_csv_field(csv, at[ENGINE]);
	if (strcmp(name, "trtllm") == 0)
		name = strncmp(lk_csv_field(csv, at[RELEASE]), "1.0", 3) == 0 ? "tensorrt-llm-1.0"
		                                                              : "tensorrt-llm";
	run->engine.software = lk_engine_software_find(name);
	if (!run->engine.software) {
		run->why_not = "the engine is not known";
		return;
	}
	run->engine.tokens = run->engine.software->tokens;
	run->engine.memory_share = run->engine.software->memory_share;
}

/* An engine's GPUs. Where both are stated, GPUs of attention are tp x attn_dp and GPUs of experts
 * moe_tp x moe_ep; some rows of the source multiply a number of GPUs by itself: tp 64 with experts
 * 8 x 8, or tp 4 and attn_dp 4 with experts 1 x 16. Those have its root. */
static void serving_take_layout(const lk_csv *csv, const int *at, int first,
                                lk_inference_run *run) {
	double tp = fmax(1, serving_number(csv, at[first])), dp = serving_number(csv, at[first + 1]),
		   inner = serving_number(csv, at[first + 2]),
		   ep = fmax(1, serving_number(csv, at[first + 3]));
	lk_engine *engine = &run->engine;
	double gpus = tp * fmax(1, dp), root = sqrt(gpus);
	bool squared = dp >= 1 && gpus > 1 && gpus == inner * ep &&
	               ((inner == root && ep == root) || (tp == dp && inner == 1));
	engine->pp = 1;
	engine->attention_dp = dp > 1;
	if (gpus == 1 && inner > 1) gpus = inner, engine->attention_dp = true;
	if (squared) gpus = root;
	if (gpus > 1024) gpus = 1024;
	engine->tp = (int)gpus;
	/* a slice of an expert has a scale's 128 columns or more */
	if (inner > 1 && engine->model->expert_ffn / inner < 128) ep = gpus;
	engine->ep = engine->model->experts > 0 ? (int)fmin(ep, gpus) : 1;
}

/* The cache's format is not stated; this rule is an assumption. Networks in 8 bits with a scale per
 * block come without scales of the cache: engines that do not compute them keep 16 bits, save on
 * Blackwell, whose kernels read 8. */
static lk_dtype serving_cache(const lk_engine *engine) {
	bool narrow = !lk_engine_has_blocks(engine) || engine->software->fuses ||
	              engine->cluster->node[0].device->arch == LK_ARCH_BLACKWELL;
	return narrow && engine->dtype >= LK_FP8 ? LK_FP8 : LK_BF16;
}

static lk_status serving_take_row(lk_arena *arena, const lk_csv *csv, const int *at,
                                  lk_inference_run *run, lk_error *err) {
	lk_model *model = LK_NEW(arena, lk_model);
	lk_cluster *cluster = LK_NEW(arena, lk_cluster);
	lk_error unknown;
	if (!model || !cluster) return lk_oom(err);
	run->engine.model = model, run->engine.cluster = cluster;
	if (lk_model_preset(run->model, model, &unknown) != LK_OK) {
		run->why_not = lk_arena_printf(arena, "%s: %s", unknown.where, unknown.what);
		return run->why_not ? LK_OK : lk_oom(err);
	}
	bool apart = strcmp(lk_csv_field(csv, at[MODE]), "disaggregated") == 0;
	serving_take_software(csv, at, run);
	serving_take_layout(csv, at, apart ? DECODE_TP : TP, run);
	const lk_device *device = lk_device_find(run->gpu);
	if (!device) {
		run->why_not = "the device is not in the catalogue";
		return LK_OK;
	}
	LK_TRY(lk_cluster_simple(arena, device, run->engine.tp, 0, 0, cluster, err));
	const char *precision = *run->precision ? run->precision : "bf16";
	run->engine.dtype = LK_NVFP4;
	if (strcmp(precision, "fp4") != 0 && !lk_dtype_parse(precision, &run->engine.dtype))
		run->why_not = "the precision is not known";
	run->engine.kv_dtype = serving_cache(&run->engine);
	lk_engine_take_mxfp4(&run->engine, true);
	bool equal = strstr(lk_csv_field(csv, at[SOURCE]), "auto-gap-analysis") != NULL;
	double workers = apart ? fmax(1, serving_number(csv, at[DECODE_WORKERS])) : 1;
	run->served = (lk_served){.sequences = serving_number(csv, at[CONCURRENCY]) / workers,
	                          .prompt = run->prompt,
	                          .response = run->response,
	                          .apart = apart,
	                          .equal = equal,
	                          .rounds = SERVING_ROUNDS};
	run->engine.sequences = (int)fmax(1, fmin(run->served.sequences, 65536));
	if (!equal && !apart) lk_serving_launch(lk_csv_field(csv, at[ENGINE]), run);
	if (run->why_not) return LK_OK;
	if (!(run->served.sequences > 0)) run->why_not = "the number of requests is not stated";
	else if (!(run->seconds > 0)) run->why_not = "the time of a token is not stated";
	else if (apart && !(serving_number(csv, at[DECODE_WORKERS]) > 0))
		run->why_not = "the number of engines that decode is not stated";
	else if (run->prompt < 1 || run->response < 2) run->why_not = "no lengths are stated";
	run->served.sequences = fmax(1, run->served.sequences);
	return LK_OK;
}

static lk_status serving_read_row(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct serving_reading *reading = context;
	lk_arena *arena = reading->arena;
	if (!lk_push(reading->out)) return lk_oom(err);
	lk_inference_run *run = lk_last(reading->out);
	run->where = run->id = lk_arena_strdup(arena, lk_csv_where(csv));
	run->software = lk_arena_printf(arena, "%s %s", lk_csv_field(csv, at[ENGINE]),
	                                *lk_csv_field(csv, at[RELEASE]) ? lk_csv_field(csv, at[RELEASE])
	                                                                : "release not stated");
	run->model = lk_arena_strdup(arena, lk_csv_field(csv, at[MODEL]));
	run->gpu = lk_arena_strdup(arena, lk_csv_field(csv, at[GPU]));
	run->precision = lk_arena_strdup(arena, lk_csv_field(csv, at[PRECISION]));
	if (!run->where || !run->software || !run->model || !run->gpu || !run->precision)
		return lk_oom(err);
	run->prompt = serving_number(csv, at[PROMPT]);
	run->response = serving_number(csv, at[RESPONSE]);
	run->seconds = serving_number(csv, at[TOKEN_MS]) / 1e3;
	run->first_s = serving_number(csv, at[FIRST_MS]) / 1e3;
	return serving_take_row(arena, csv, at, run, err);
}

lk_status lk_serving_read(lk_arena *arena, lk_stream *in, lk_inference_runs *out, lk_error *err) {
	const lk_csv_table table = {columns,      COLUMNS,          NEEDED, "table of served requests",
	                            SERVING_ROWS, serving_read_row, NULL};
	return lk_csv_read(in, &table, &(struct serving_reading){arena, out}, err);
}
