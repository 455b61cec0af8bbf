/* finetune_table.c: tables of measured fine-tuning runs (finetune_runs.csv): a row becomes the
 * request that predicts it, with what its framework takes where the row states nothing.
 *
 * What a row asks for that no request can say makes it refused, by name. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/units.h"
#include "io/csv.h"
#include "tables/tables.h"

enum { FINETUNE_ROWS = 100000 };
enum {
	ID,
	FRAMEWORK,
	MODEL,
	METHOD,
	GPU,
	GPUS,
	SHARDING,
	SEQ,
	RESERVED,
	ALLOCATED,
	MEANS,
	OUT_OF_MEMORY,
	NEEDED, /* the columns above are required */
	RANK = NEEDED,
	TARGETS,
	TP,
	PP,
	CP,
	EP,
	MBS,
	ACCUMULATION,
	SEQ_MEANS,
	PACKING,
	ATTENTION,
	RECOMPUTE,
	OPTIMIZER,
	PRECISION,
	SWITCHES,
	RELEASE,
	STEP,
	TOKENS,
	TIME_VALID,
	CONTEXT,
	NOTE,
	SUSPECT,
	COLUMNS
};
static const char *const columns[COLUMNS] = {
	"id",
	"framework",
	"model",
	"method",
	"gpu",
	"n_gpu",
	"sharding",
	"seq",
	"peak_reserved_gib",
	"peak_allocated_gib",
	"mem_means",
	"oom",
	"lora_rank",
	"lora_targets",
	"tp",
	"pp",
	"cp",
	"ep",
	"mbs",
	"grad_accum",
	"seq_means",
	"packing",
	"attention",
	"recompute",
	"optimizer",
	"precision",
	"switches",
	"release",
	"step_s",
	"tokens_per_s",
	"time_valid",
	"max_context",
	"note",
	"suspect",
};

struct finetune_reading {
	lk_arena *arena;
	lk_finetune_runs *out;
};

/* A number of a field; NAN if it holds none. */
static double finetune_number(const lk_csv *csv, const int *at, int column) {
	const char *text = lk_csv_field(csv, at[column]), *end;
	double number = lk_read_real(text, &end);
	return end > text && *end == '\0' && number >= 0 && number <= 1e9 ? number : NAN;
}

static int finetune_whole(const lk_csv *csv, const int *at, int column, int otherwise) {
	double number = finetune_number(csv, at, column);
	return number >= 1 && number <= 1e8 ? (int)number : otherwise;
}

static bool finetune_is(const lk_csv *csv, const int *at, int column, const char *value) {
	return strcmp(lk_csv_field(csv, at[column]), value) == 0;
}

/* ---- methods ---- */

/* The task of a method, by its column's value. */
static const struct method {
	const char *name, *task;
	bool adapters, narrow, magnitudes, pairs, doubled; /* doubled: two sequences a sample, too */
} methods[] = {
	{"full", "sft", .adapters = false},
	{"lora", "lora", .adapters = true},
	{"qlora", "lora", .adapters = true, .narrow = true},
	{"dora", "lora", .adapters = true, .magnitudes = true},
	{"dpo", "sft", .pairs = true},
	{"dpo+lora", "lora", .adapters = true, .pairs = true},
	{"simpo", "orpo", .doubled = true},
	{"kto", "kto", .doubled = false},
	{"rm", "reward", .doubled = true},
};

/* Frameworks that drop part of what adapters read where a run states nothing: litgpt's
 * configurations, fsdp_qlora's train.py (lora_dropout 0.1), ms-swift (lora_dropout 0.05), axolotl's
 * examples. PEFT and the others drop nothing. */
static bool drops_by_default(const char *framework) {
	static const char *const names[] = {"litgpt",      "fsdp_qlora",        "axolotl", "ms-swift-1",
	                                    "ms-swift-hf", "ms-swift-megatron", NULL};
	for (int i = 0; names[i]; i++)
		if (strcmp(framework, names[i]) == 0) return true;
	return false;
}

/* Adapters of attention alone, or of MLPs too; unsloth, torchtune and axolotl adapt all where
 * nothing is stated. */
static void take_adapters(const lk_csv *csv, const int *at, lk_finetune_run *run) {
	const char *targets = lk_csv_field(csv, at[TARGETS]);
	bool all = strstr(targets, "all-linear") || strstr(targets, "mlp") || strstr(targets, "down") ||
	           strstr(targets, "experts") || *targets == '\0';
	run->request.lora_rank = finetune_whole(csv, at, RANK, 0);
	bool experts = strstr(targets, "experts") || strcmp(run->stack, "ms-swift-megatron") == 0;
	run->request.lora_targets = all ? experts ? "experts" : "all-linear" : "attention";
	if (drops_by_default(run->stack)) run->request.lora_dropout = 0.05;
}

static lk_status take_method(lk_arena *arena, const lk_csv *csv, const int *at,
                             lk_finetune_run *run, lk_error *err) {
	lk_predict_request *request = &run->request;
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
		const struct method *method = &methods[i];
		if (!finetune_is(csv, at, METHOD, method->name)) continue;
		request->task = method->task;
		request->qlora = method->narrow;
		request->dora = method->magnitudes;
		request->dpo = method->pairs;
		run->doubled = method->pairs || method->doubled;
		if (method->adapters) take_adapters(csv, at, run);
		return LK_OK;
	}
	run->why_not = lk_arena_printf(arena, "method %s is not modelled", run->task);
	return run->why_not ? LK_OK : lk_oom(err);
}

/* ---- sharding ---- */

/* The software that shards, by the column's value. Where nothing is sharded, PyTorch's own loop
 * trains. */
static const struct shard {
	const char *name, *stack, *zero;
	bool offload_params, offload_optimizer;
} shards[] = {
	{"none", "ddp", "0", .offload_params = false},
	{"ddp", "ddp", "0", .offload_params = false},
	{"fsdp", "fsdp", "3", .offload_params = false},
	/* FSDP's CPUOffload: pieces of the weights, and with them the optimizer */
	{"fsdp+offload", "fsdp", "3", .offload_params = true, .offload_optimizer = true},
	{"zero1", "deepspeed", "1", .offload_params = false},
	{"zero2", "deepspeed", "2", .offload_params = false},
	{"zero3", "deepspeed", "3", .offload_params = false},
	{"zero3+offload", "deepspeed", "3", .offload_params = true, .offload_optimizer = true},
};

static void take_sharding(const lk_csv *csv, const int *at, lk_finetune_run *run) {
	lk_predict_request *request = &run->request;
	bool megatron = strcmp(run->stack, "ms-swift-megatron") == 0;
	for (size_t i = 0; i < sizeof shards / sizeof *shards; i++) {
		const struct shard *shard = &shards[i];
		if (!finetune_is(csv, at, SHARDING, shard->name)) continue;
		request->stack = megatron ? "megatron" : shard->stack;
		request->zero = shard->zero;
		request->offload_params = shard->offload_params;
		request->offload_optimizer = shard->offload_optimizer;
		return;
	}
	if (finetune_is(csv, at, SHARDING, "device_map"))
		run->why_not = "layers on several GPUs, one after another (device_map), are not modelled";
	else run->why_not = "how the run is sharded is not stated";
}

/* ---- optimizers, attention, numbers ---- */

/* The month that a release names, as "2025-04"; "" where it names none. */
static const char *month_of(const char *release) {
	for (; *release; release++)
		if (strncmp(release, "20", 2) == 0 && strspn(release + 2, "0123456789") == 2 &&
		    release[4] == '-' && strspn(release + 5, "0123456789") == 2)
			return release;
	return "";
}

/* Whether Adam works with lists of tensors where a run states no more than Adam. ms-swift hands it
 * to the Trainer, whose default is adamw_torch up to PyTorch 2.7, and adamw_torch_fused from 2.8 on
 * (transformers, training_args.py), which came out in August 2025. */
static bool lists_by_default(const lk_finetune_run *run) {
	bool trainer = strcmp(run->stack, "ms-swift-1") == 0 || strcmp(run->stack, "ms-swift-hf") == 0;
	const char *month = month_of(run->release);
	return trainer && *month && strncmp(month, "2025-08", 7) <= 0;
}

static void take_optimizer(const char *text, lk_finetune_run *run) {
	lk_predict_request *request = &run->request;
	bool eight = strstr(text, "8bit") || strstr(text, "8-bit");
	if (eight) request->optimizer = "adam-8bit";
	else if (strstr(text, "4bit")) request->optimizer = "adam-4bit";
	else if (strcmp(text, "muon") == 0) request->optimizer = "muon";
	else if (strcmp(text, "adamw_torch") == 0) request->optimizer = "adamw_torch";
	else if (strcmp(text, "adamw_torch_fused") == 0) request->optimizer = "adamw_torch_fused";
	else request->optimizer = lists_by_default(run) ? "adamw_torch" : "adam";
}

/* Whether nothing of what is trained is in fp32. Lightning's "true" precisions say so. Without
 * DeepSpeed and FSDP, whose optimizers keep fp32 copies, torchtune, the Trainer and what is built
 * on it train the weights in the format that they were loaded in. */
static bool trains_pure(const lk_csv *csv, const int *at, const lk_finetune_run *run) {
	const char *stack = run->request.stack;
	if (strstr(lk_csv_field(csv, at[PRECISION]), "-true")) return true;
	bool adapters = run->request.lora_rank > 0 && strcmp(run->stack, "torchtune") != 0;
	return !adapters && stack && strcmp(stack, "ddp") == 0;
}

static void take_numbers(const lk_csv *csv, const int *at, lk_finetune_run *run) {
	lk_predict_request *request = &run->request;
	const char *precision = lk_csv_field(csv, at[PRECISION]),
			   *attention = lk_csv_field(csv, at[ATTENTION]),
			   *recompute = lk_csv_field(csv, at[RECOMPUTE]);
	take_optimizer(lk_csv_field(csv, at[OPTIMIZER]), run);
	if (strncmp(precision, "fp16", 4) == 0) request->dtype = "fp16";
	else if (strstr(precision, "bf16")) request->dtype = "bf16";
	else if (strcmp(precision, "fp8") == 0)
		request->dtype = "fp8", request->fp8_recipe = "blockwise";
	if (trains_pure(csv, at, run)) request->master_weights = -1;
	if (strcmp(attention, "eager") == 0 || strcmp(attention, "unfused") == 0)
		request->attention = "unfused";
	else if (strcmp(attention, "fa3") == 0) request->attention = "fa3";
	if (strcmp(recompute, "full") == 0) request->recompute = "full";
	else if (strcmp(recompute, "selective") == 0) request->recompute = "selective";
	else request->recompute = "none";
}

/* ---- switches ---- */

/* What a word of the column `switches` means. A word that ends in '=' begins one with a value. */
static const struct finetune_switch {
	const char *word;
	const char *refused;                   /* why a run with it is not modelled; NULL */
	const char *loss, *state_dtype, *base; /* NULL: unchanged */
	int labels;
	bool fused_kernels, fused_loss, compiled, host_activations, host_optimizer, host_checkpoints,
		expandable, early_steps;
} switches[] = {
	{"liger", .loss = "linear", .fused_kernels = true},
	{"cut_cross_entropy", .loss = "cut"},
	{"chunked_loss", .loss = "chunked-output"}, /* torchtune's CEWithChunkedOutputLoss */
	{"chunked_loss=", .loss = "chunked"},
	{"fused_loss", .fused_loss = true},
	{"compile", .compiled = true},
	/* unsloth's kernels replace norms, positions, activations and the loss; its checkpoints of
     * layers wait in the host's memory (unsloth/models/_utils.py) */
	{"unsloth", .fused_kernels = true, .fused_loss = true, .host_checkpoints = true},
	{"lora_kernels", .fused_kernels = true},
	{"expandable_segments", .expandable = true},
	{"offload_activations", .host_activations = true},
	{"offload_optimizer", .host_optimizer = true},
	{"exp_avg_dtype=bf16", .state_dtype = "bf16"},
	{"8bit_base", .base = "int8"},
	{"bnb.nf4", .base = "nf4-held"}, /* litgpt, whose bitsandbytes is 0.42 */
	{"task_type=seq_cls", .labels = 2},
	{"quant_method=hqq", .refused = "HQQ's frozen weights are not modelled"},
	{"int4 (gptq)", .refused = "GPTQ's frozen weights are not modelled"},
	{"int8 (gptq)", .refused = "GPTQ's frozen weights are not modelled"},
	{"optimizer_in_bwd", .early_steps = true},
	{"task_type=embedding", .refused = "retrieval is not modelled"},
	{"task_type=generative_reranker", .refused = "retrieval is not modelled"},
	{"teacher_model=", .refused = "distillation that generates is not modelled"},
	{"tuner_backend=unsloth", .refused = "Unsloth as a tuner of other software is not modelled"},
};

static bool switch_means(const char *word, size_t length, const char *named) {
	size_t of = strlen(named);
	if (of > 0 && named[of - 1] == '=' && length > of) return strncmp(word, named, of) == 0;
	return length == of && strncmp(word, named, of) == 0;
}

static void take_switch_word(const struct finetune_switch *is, lk_finetune_run *run) {
	lk_predict_request *request = &run->request;
	if (is->refused && !run->why_not) run->why_not = is->refused;
	if (is->loss) request->loss = is->loss;
	if (is->state_dtype) request->state_dtype = is->state_dtype;
	if (is->base) request->base_format = is->base, request->qlora = false;
	if (is->labels) request->num_labels = is->labels;
	if (is->fused_kernels && !request->compile) request->eager = -1;
	/* Megatron-LM's option starts its own fusion unless another is named */
	bool native = strcmp(run->stack, "ms-swift-megatron") == 0;
	if (is->fused_loss && native) request->loss = "native";
	else if (is->fused_loss) request->fused_loss = 1;
	if (is->host_activations) request->offload_activations = true;
	if (is->host_checkpoints && strcmp(request->recompute, "full") == 0)
		request->offload_activations = true;
	if (is->host_optimizer) request->offload_optimizer = true;
	if (is->early_steps) request->optimizer_in_backward = true;
	if (is->expandable && strcmp(run->stack, "ms-swift-megatron") != 0)
		request->alloc_conf = "expandable_segments:True";
	request->compile |= is->compiled;
}

static void take_switches(const lk_csv *csv, const int *at, lk_finetune_run *run) {
	const char *word = lk_csv_field(csv, at[SWITCHES]);
	for (; *word; word += *word == '+') {
		size_t length = strcspn(word, "+");
		for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
			if (switch_means(word, length, switches[i].word)) take_switch_word(&switches[i], run);
		word += length;
	}
	lk_predict_request *request = &run->request;
	/* experts are one tensor, which bitsandbytes leaves as it is, unless axolotl works on them */
	if (strcmp(run->stack, "axolotl") == 0 && (request->qlora || request->base_format) &&
	    !strstr(lk_csv_field(csv, at[SWITCHES]), "quantize_moe_experts")) {
		request->base_format = request->qlora ? "nf4-dense" : "int8-dense";
		request->qlora = false;
	}
	/* heads of labels have no logits; a loss that holds part of them is fused already */
	bool scores =
		request->num_labels > 0 || (request->task && strcmp(request->task, "reward") == 0);
	if (scores) request->loss = NULL;
	if (request->loss || scores) request->fused_loss = 0;
	const char *optimizer = lk_csv_field(csv, at[OPTIMIZER]);
	if (strstr(optimizer, "step in the backward")) request->optimizer_in_backward = true;
	/* bitsandbytes' paged states are in managed memory, outside of PyTorch's allocator */
	if (strstr(optimizer, "paged") && request->lora_rank == 0 && !run->why_not)
		run->why_not = "paged states of an optimizer are not modelled";
}

/* ---- layout ---- */

/* ms-swift packs by the length of a sample, which is that of both sequences of a pair together
 * (template/base.py). */
static bool packs_pairs(const lk_csv *csv, const int *at, const lk_finetune_run *run) {
	return run->doubled && finetune_is(csv, at, PACKING, "1") &&
	       strncmp(run->stack, "ms-swift-", 9) == 0;
}

static void finetune_take_layout(const lk_csv *csv, const int *at, lk_finetune_run *run) {
	lk_predict_request *request = &run->request;
	int pairs = run->doubled ? 2 : 1;
	request->tp = finetune_whole(csv, at, TP, 1), request->pp = finetune_whole(csv, at, PP, 1);
	request->cp = finetune_whole(csv, at, CP, 1), request->ep = finetune_whole(csv, at, EP, 1);
	if (request->cp > 1 && strcmp(run->stack, "ms-swift-megatron") != 0)
		request->cp_kind = "ulysses";
	/* ms-swift's Megatron, like NeMo, does not split experts by tensor parallelism */
	if (request->ep > 1) request->etp = 1;
	request->gpus = finetune_whole(csv, at, GPUS, 0);
	request->mbs = pairs * finetune_whole(csv, at, MBS, 1);
	request->seq = finetune_whole(csv, at, SEQ, 0) / (packs_pairs(csv, at, run) ? 2 : 1);
	int ranks = request->tp * request->pp * request->cp;
	double replicas = request->gpus / fmax(1, ranks),
		   samples = replicas * request->mbs * finetune_whole(csv, at, ACCUMULATION, 1);
	request->gbs = samples >= 1 && samples < 1e8 ? (int)samples : 0;
	if (run->why_not) return;
	if (request->gpus == 0) run->why_not = "the number of GPUs is not stated";
	else if (request->seq == 0) run->why_not = "the length of sequences is not stated";
	else if (request->gpus % ranks != 0) run->why_not = "the layout does not divide the GPUs";
}

/* A note that speaks of an old mainboard: PCIe of generation 3, and GeForce boards, whose driver
 * refuses peer access (NVIDIA/nccl#1127), exchange messages through its memory. */
static bool on_old_board(const lk_csv *csv, const int *at) {
	return strstr(lk_csv_field(csv, at[NOTE]), "without NVLink on an old mainboard") != NULL;
}

/* The machine. A board that is named by its memory alone is computed as an RTX 4090, of which as
 * large a share can be used; a row that names none says something of memory alone, which hardly
 * depends on the GPU. */
static lk_status finetune_take_machine(lk_arena *arena, const lk_csv *csv, const int *at,
                                       lk_finetune_run *run, lk_error *err) {
	static const char card[] = "card of ";
	const char *end;
	run->request.gpu = run->gpu;
	run->usable = NAN;
	run->names_gpu = *run->gpu != '\0';
	if (!run->names_gpu) {
		bool narrow = run->request.dtype && strcmp(run->request.dtype, "fp8") == 0;
		run->request.gpu = narrow ? "h100-sxm" : "a100-sxm-80";
		return LK_OK;
	}
	if (on_old_board(csv, at)) {
		run->request.cluster =
			lk_arena_printf(arena, "%d %s pcie3, nop2p", run->request.gpus, run->gpu);
		run->request.gpu = NULL;
		return run->request.cluster ? LK_OK : lk_oom(err);
	}
	if (strncmp(run->gpu, card, sizeof card - 1) != 0) return LK_OK;
	const lk_device *device;
	run->request.gpu = "rtx-4090";
	LK_TRY(lk_device_lookup(run->request.gpu, lk_csv_where(csv), &device, err));
	run->usable = lk_read_real(run->gpu + sizeof card - 1, &end) / 24 * device->memory_bytes;
	return LK_OK;
}

/* ---- what was measured ---- */

/* A note that states how long the samples are: "lengths of the data set 3234 +- 2548 tokens". Those
 * above the limit are left out: at full length, what ms-swift-1 says it computed would be above the
 * GPU's peak. */
static lk_status take_lengths(lk_arena *arena, const lk_csv *csv, const int *at,
                              lk_finetune_run *run, lk_error *err) {
	static const char stated[] = "lengths of the data set ";
	const char *note = strstr(lk_csv_field(csv, at[NOTE]), stated), *end;
	if (!note) return LK_OK;
	double mean = lk_read_real(note + sizeof stated - 1, &end);
	if (!(mean >= 1)) return LK_OK;
	run->request.ragged_lengths = lk_arena_printf(arena, "lognormal:%g", mean);
	return run->request.ragged_lengths ? LK_OK : lk_oom(err);
}

static lk_status take_measured(lk_arena *arena, const lk_csv *csv, const int *at,
                               lk_finetune_run *run, lk_error *err) {
	double out = finetune_number(csv, at, OUT_OF_MEMORY), tokens = finetune_number(csv, at, TOKENS);
	const lk_predict_request *request = &run->request;
	run->reserved = run->device = NAN;
	double reserved = LK_GIB * finetune_number(csv, at, RESERVED);
	run->allocated = LK_GIB * finetune_number(csv, at, ALLOCATED);
	if (finetune_is(csv, at, MEANS, "device")) run->device = reserved;
	else run->reserved = reserved;
	if (strstr(run->model, "NVFP4") && !run->why_not)
		run->why_not = "frozen weights in NVFP4 are not modelled";
	if (finetune_is(csv, at, MEANS, "estimate") && !run->why_not)
		run->why_not = "a rule of thumb, no measurement";
	run->verdict = out > 0 ? LK_RUN_OUT_OF_MEMORY : LK_RUN_RAN;
	if (isnan(out) || !run->names_gpu) run->verdict = LK_RUN_UNSTATED;
	run->at_most = finetune_is(csv, at, SEQ_MEANS, "limit");
	bool differ = run->at_most || finetune_is(csv, at, SEQ_MEANS, "longest");
	if (differ && strcmp(run->stack, "ms-swift-megatron") != 0) {
		run->request.ragged = 1;
		LK_TRY(take_lengths(arena, csv, at, run, err));
	}
	run->seconds = NAN;
	if (run->names_gpu && finetune_is(csv, at, TIME_VALID, "1")) {
		run->seconds = finetune_number(csv, at, STEP);
		if (isnan(run->seconds) && tokens > 0)
			run->seconds = (double)request->gbs * request->seq / tokens;
	}
	static const char batch[] = "batch ";
	const char *context = lk_csv_field(csv, at[CONTEXT]), *end;
	run->of_batch = strncmp(context, batch, sizeof batch - 1) == 0;
	if (run->of_batch) context += sizeof batch - 1;
	run->longest = lk_read_real(context, &end);
	if (end == context || *end != '\0') run->longest = NAN;
	return LK_OK;
}

static const char *finetune_kept(struct finetune_reading *reading, const lk_csv *csv, const int *at,
                                 int column) {
	return lk_arena_strdup(reading->arena, lk_csv_field(csv, at[column]));
}

static lk_status finetune_read_row(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct finetune_reading *reading = context;
	if (!lk_push(reading->out)) return lk_oom(err);
	lk_finetune_run *run = lk_last(reading->out);
	*run = (lk_finetune_run){.why_not = NULL};
	lk_predict_defaults(&run->request);
	run->where = lk_arena_strdup(reading->arena, lk_csv_where(csv));
	run->id = finetune_kept(reading, csv, at, ID);
	run->stack = finetune_kept(reading, csv, at, FRAMEWORK);
	run->release = finetune_kept(reading, csv, at, RELEASE);
	run->model = finetune_kept(reading, csv, at, MODEL);
	run->gpu = finetune_kept(reading, csv, at, GPU);
	run->task = finetune_kept(reading, csv, at, METHOD);
	run->sharding = finetune_kept(reading, csv, at, SHARDING);
	run->precision = finetune_kept(reading, csv, at, PRECISION);
	run->suspect = finetune_kept(reading, csv, at, SUSPECT);
	if (!run->where || !run->id || !run->stack || !run->release || !run->model || !run->gpu ||
	    !run->task || !run->sharding || !run->precision || !run->suspect)
		return lk_oom(err);
	run->request.model = run->model;
	run->request.no_fixes = run->request.no_sensitivity = true;
	LK_TRY(take_method(reading->arena, csv, at, run, err));
	take_sharding(csv, at, run);
	take_numbers(csv, at, run);
	take_switches(csv, at, run);
	finetune_take_layout(csv, at, run);
	LK_TRY(finetune_take_machine(reading->arena, csv, at, run, err));
	return take_measured(reading->arena, csv, at, run, err);
}

lk_status lk_finetune_read(lk_arena *arena, lk_stream *in, lk_finetune_runs *out, lk_error *err) {
	const lk_csv_table table = {
		columns,       COLUMNS,           NEEDED, "table of fine-tuning runs",
		FINETUNE_ROWS, finetune_read_row, NULL};
	return lk_csv_read(in, &table, &(struct finetune_reading){arena, out}, err);
}
