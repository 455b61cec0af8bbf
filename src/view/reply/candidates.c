/* candidates.c: words that shells offer as values of options and as first operands, in addition to
 * the choices in option tables: names in the catalogues, and common values of free texts. */
#include <string.h>

#include "lockstep/catalogue.h"
#include "model/layout/schedule.h"

static const char *schedule_name(int index) {
	const lk_schedule *schedule = index >= 0 ? lk_schedule_get((lk_schedule_kind)index) : NULL;
	return schedule ? schedule->name : NULL;
}

/* ---- the table ---- */

/* Words of an option, or of the first operand where `option` is NULL; of one verb, or of all but
 * `compile`, whose options name other things. Either `at` finds them or they are listed. */
struct row {
	const char *verb, *option;
	const char *(*at)(int index);
	const char *words[16];
};

static const struct row rows[] = {
	{"devices", NULL, lk_device_name, {NULL}},
	{"machines", NULL, lk_device_name, {NULL}},
	{"models", NULL, lk_model_name, {NULL}},
	{"calibrate",
     NULL,
     NULL,
     {"ops", "collectives", "memory", "slowdown", "models", "runs", "host"}},
	{"compile",
     NULL,
     NULL,
     {"check", "print", "run", "rewrite", "verify", "tune", "emit", "bench"}},
	{"compile", "gpu", lk_device_name, {NULL}},
	{"compile", "schedule", NULL, {"plain", "all"}},
	{NULL, "gpu", lk_device_name, {NULL}},
	{NULL, "model", lk_model_name, {NULL}},
	{NULL, "schedule", schedule_name, {NULL}},
	{NULL, "dtype", NULL, {"fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"}},
	{NULL, "state-dtype", NULL, {"fp32", "bf16", "fp16", "fp8"}},
	{NULL, "zero", NULL, {"0", "1", "2", "3"}},
	{NULL, "recompute", NULL, {"none", "selective", "full"}},
	{NULL,
     "optimizer",
     NULL,
     {"adam", "sgd", "lamb", "adafactor", "muon", "soap", "shampoo", "lion", "adam-mini",
      "adam-8bit"}},
	{NULL, "muon-tp-mode", NULL, {"duplicated", "distributed", "blockwise"}},
	{NULL, "task", NULL, {"pretrain", "sft", "lora"}},
	{NULL, "attention", NULL, {"flash", "cudnn", "fa2", "fa3", "unfused"}},
	{NULL, "cp-kind", NULL, {"ring", "all-gather", "ulysses"}},
	{NULL, "dispatcher", NULL, {"alltoall", "allgather", "node"}},
	{NULL,
     "stack",
     NULL,
     {"megatron", "nemo", "mlperf", "mlperf-lora", "fsdp", "llm-foundry", "torchtitan",
      "deepspeed"}},
	{"predict", "ranks", NULL, {"all"}},
	{NULL, "provider", NULL, {"aws", "gcp", "azure", "lambda"}},
	{"jobs", "policy", NULL, {"fifo", "backfill", "shortest", "elastic-gpus", "elastic"}},
	{"shard", "kinds", NULL, {"table", "column", "row", "data"}},
	{"shard",
     "sharder",
     NULL,
     {"search", "naive", "naive-chunk", "random", "size-greedy", "lookup-greedy",
      "norm-lookup-greedy", "size-lookup-greedy"}},
	{"stalls", "configurations", NULL, {"one", "null", "ready", "hot", "cold", "first"}},
	{"record", "fill", NULL, {"zeros", "random"}},
	{"whatif",
     "set",
     NULL,
     {"cluster=", "gpu=", "nic=", "link=", "gpus=", "scale=", "dtype=", "batch=", "bucket=",
      "overlap=", "fused-optimizer=", "launch=", "host=", "data-loading=", "straggler="}},
};

static bool same(const char *a, const char *b) {
	return a && b ? strcmp(a, b) == 0 : a == b;
}

const char *lk_candidate(const char *verb, const char *option, int index) {
	enum { WORDS = sizeof rows->words / sizeof *rows->words };
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct row *row = &rows[i];
		bool meant = row->verb ? same(row->verb, verb) : strcmp(verb, "compile") != 0;
		if (!meant || !same(row->option, option)) continue;
		if (row->at) return row->at(index);
		return index >= 0 && index < WORDS ? row->words[index] : NULL;
	}
	return NULL;
}
