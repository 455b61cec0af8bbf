/* dotted_flags.c: the two frameworks whose settings are paths with dots: NeMo 2.0's command line
 * (trainer.strategy. tensor_model_parallel_size=8, NVIDIA/NeMo,
 * nemo/lightning/pytorch/strategies/megatron_strategy.py and megatron.core's
 * DistributedDataParallelConfig) and torchtitan (--parallelism.tensor_parallel_degree=8,
 * pytorch/torchtitan, torchtitan/config/job_config.py). One table; a row names the field of a job,
 * reading and writing use the same one. The network is named beside them: their own names stand for
 * configurations that lockstep does not have. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "model/layout/job.h"
#include "launch/launch.h"

/* A value of theirs and what it is in lk_job_fields; the first pair of a value of ours is written.
 */
struct pair {
	const char *theirs, *ours;
};

static const struct pair truths[] = {
	{"true", "on"}, {"false", "off"}, {"True", "on"}, {"False", "off"}, {NULL, NULL}};
static const struct pair bits[] = {
	{"true", "1"}, {"false", "0"}, {"True", "1"}, {"False", "0"}, {NULL, NULL}};
static const struct pair nones[] = {{"null", "1"}, {"None", "1"}, {NULL, NULL}};
static const struct pair granularities[] = {
	{"null", "none"}, {"full", "full"}, {"selective", "selective"}, {"None", "none"}, {NULL, NULL}};
static const struct pair modes[] = {
	{"none", "none"}, {"full", "full"}, {"selective", "selective"}, {NULL, NULL}};
static const struct pair optimizers[] = {
	{"true", "zero1"}, {"false", "none"}, {"True", "zero1"}, {"False", "none"}, {NULL, NULL}};
static const struct pair reshards[] = {
	{"always", "zero3"}, {"never", "zero2"}, {"default", "zero3"}, {NULL, NULL}};
static const struct pair schedules[] = {{"1F1B", "1f1b"},
                                        {"GPipe", "gpipe"},
                                        {"Interleaved1F1B", "interleaved"},
                                        {"ZBVZeroBubble", "zb-v"},
                                        {NULL, NULL}};
static const struct pair formats[] = {{"bfloat16", "bf16"}, {"float32", "fp32"}, {NULL, NULL}};

struct path_row {
	int dialect; /* lk_dialect */
	const char *path;
	const char *field;         /* in lk_job_fields; NULL: read and passed over */
	const struct pair *values; /* NULL: as it stands */
	const char *reason;        /* why it is passed over */
	bool pipeline;             /* only with several stages */
	bool alias;                /* read only */
	bool harmless;             /* the reason: it changes nothing of a step */
};

#define STRATEGY "trainer.strategy."
#define NEMO     LK_DIALECT_NEMO
#define TITAN    LK_DIALECT_TORCHTITAN

static const struct path_row rows[] = {
	{NEMO, STRATEGY "tensor_model_parallel_size", "tp", NULL, NULL, false, false, false},
	{NEMO, STRATEGY "pipeline_model_parallel_size", "pp", NULL, NULL, false, false, false},
	{NEMO, STRATEGY "virtual_pipeline_model_parallel_size", "vp", nones, NULL, true, false, false},
	{NEMO, STRATEGY "context_parallel_size", "cp", NULL, NULL, false, false, false},
	{NEMO, STRATEGY "expert_model_parallel_size", "ep", NULL, NULL, false, false, false},
	{NEMO, STRATEGY "expert_tensor_parallel_size", "etp", NULL, NULL, false, false, false},
	{NEMO, STRATEGY "sequence_parallel", "sequence_parallel", truths, NULL, false, false, false},
	{NEMO, STRATEGY "account_for_embedding_in_pipeline_split", "account_embedding", bits, NULL,
     true, false, false},
	{NEMO, STRATEGY "account_for_loss_in_pipeline_split", "account_loss", bits, NULL, true, false,
     false},
	{NEMO, STRATEGY "ddp.use_distributed_optimizer", "sharding", optimizers, NULL, false, false,
     false},
	{NEMO, STRATEGY "ddp.overlap_grad_reduce", "overlap_grad_reduce", truths, NULL, false, false,
     false},
	{NEMO, STRATEGY "ddp.overlap_param_gather", "overlap_param_gather", truths, NULL, false, false,
     false},
	{NEMO, STRATEGY "ddp.grad_reduce_in_fp32", "grad_reduce_fp32", truths, NULL, false, false,
     false},
	{NEMO, "data.micro_batch_size", "mbs", NULL, NULL, false, false, false},
	{NEMO, "data.global_batch_size", "gbs", NULL, NULL, false, false, false},
	{NEMO, "data.seq_length", "seq", NULL, NULL, false, false, false},
	{NEMO, "model.config.recompute_granularity", "recompute", granularities, NULL, false, false,
     false},
	{NEMO, "model.config.recompute_num_layers", "recompute_layers", NULL, NULL, false, false,
     false},
	{NEMO, "model.config.recompute_method", NULL, NULL,
     "block and uniform are distinguished by the number of layers", false, false, false},
	{NEMO, "model.config.tp_comm_overlap", "tp_overlap", truths, NULL, false, false, false},
	{NEMO, "model.config.overlap_p2p_comm", "overlap_p2p", truths, NULL, true, false, false},
	{NEMO, "optim.config.optimizer_cpu_offload", "offload_optimizer", bits, NULL, false, false,
     false},
	{NEMO, "trainer.max_steps", NULL, NULL, "length of the run, not of a step", false, false, true},

	{TITAN, "parallelism.tensor_parallel_degree", "tp", NULL, NULL, false, false, false},
	{TITAN, "parallelism.pipeline_parallel_degree", "pp", NULL, NULL, false, false, false},
	{TITAN, "parallelism.pipeline_parallel_schedule", "schedule", schedules, NULL, true, false,
     false},
	{TITAN, "parallelism.pipeline_parallel_microbatch_size", "mbs", NULL, NULL, true, false, false},
	{TITAN, "parallelism.pipeline_parallel_layers_per_stage", NULL, NULL,
     "the split over stages follows from their number", true, false, false},
	{TITAN, "parallelism.context_parallel_degree", "cp", NULL, NULL, false, false, false},
	{TITAN, "parallelism.expert_parallel_degree", "ep", NULL, NULL, false, false, false},
	{TITAN, "parallelism.expert_tensor_parallel_degree", "etp", NULL, NULL, false, false, false},
	{TITAN, "parallelism.enable_async_tensor_parallel", "tp_overlap", truths, NULL, false, false,
     false},
	{TITAN, "parallelism.fsdp_reshard_after_forward", "sharding", reshards, NULL, false, false,
     false},
	{TITAN, "parallelism.data_parallel_shard_degree", NULL, NULL, "the rest of the GPUs is taken",
     false, false, false},
	{TITAN, "parallelism.data_parallel_replicate_degree", NULL, NULL,
     "the rest of the GPUs is taken", false, false, false},
	{TITAN, "training.global_batch_size", "gbs", NULL, NULL, false, false, false},
	{TITAN, "training.seq_len", "seq", NULL, NULL, false, false, false},
	{TITAN, "training.mixed_precision_param", "dtype", formats, NULL, false, false, false},
	{TITAN, "training.enable_cpu_offload", "offload_optimizer", bits, NULL, false, false, false},
	{TITAN, "training.compile", "compile", bits, NULL, false, true, false},
	{TITAN, "compile.enable", "compile", bits, NULL, false, false, false},
	{TITAN, "training.steps", NULL, NULL, "length of the run, not of a step", false, false, true},
	{TITAN, "activation_checkpoint.mode", "recompute", modes, NULL, false, false, false},
	{0, NULL, NULL, NULL, NULL, false, false, false},
};

static const lk_field *field_named(const char *name) {
	for (const lk_field *field = lk_job_fields; field->name != NULL; field++)
		if (strcmp(field->name, name) == 0) return field;
	return NULL;
}

static const struct path_row *flags_find(int dialect, const char *path, size_t length) {
	for (const struct path_row *row = rows; row->path != NULL; row++)
		if (row->dialect == dialect && strlen(row->path) == length &&
		    strncmp(row->path, path, length) == 0)
			return row;
	return NULL;
}

bool lk_dotted_flag(int dialect, const char *path) {
	size_t length = strcspn(path, "=");
	static const char *const parts[] = {
		"trainer.num_nodes", "trainer.devices", "training.local_batch_size",
		"model.name",        "model.flavor",    NULL};
	for (int i = 0; parts[i] != NULL; i++)
		if (strlen(parts[i]) == length && strncmp(parts[i], path, length) == 0) return true;
	return flags_find(dialect, path, length) != NULL;
}

/* ---- reading ---- */

static lk_status flags_set_number(lk_reading *reading, const char *path, const char *value,
                                  int *out) {
	long long number;
	LK_TRY(lk_parse_int(value, 1, LK_JOB_GPUS, &number, path, reading->err));
	*out = (int)number;
	return LK_OK;
}

static lk_status flags_set_field(lk_reading *reading, lk_dotted *dotted, const struct path_row *row,
                                 const char *value) {
	bool known;
	for (const struct pair *pair = row->values; pair != NULL && pair->theirs != NULL; pair++)
		if (strcmp(pair->theirs, value) == 0) value = pair->ours;
	LK_TRY(lk_field_set(&dotted->job, row->field, strlen(row->field), value, &known, reading->err));
	if (strcmp(row->path, "parallelism.pipeline_parallel_microbatch_size") == 0)
		dotted->micro = dotted->job.mbs;
	return LK_OK;
}

lk_status lk_dotted_read(lk_reading *reading, lk_dotted *dotted, const char *path,
                         const char *value) {
	char name[96];
	lk_copy(name, sizeof name, path);
	if (strcmp(path, "trainer.num_nodes") == 0)
		return flags_set_number(reading, path, value, &dotted->nodes);
	if (strcmp(path, "trainer.devices") == 0)
		return flags_set_number(reading, path, value, &dotted->devices);
	if (strcmp(path, "training.local_batch_size") == 0)
		return flags_set_number(reading, path, value, &dotted->local);
	if (strcmp(path, "model.name") == 0 || strcmp(path, "model.flavor") == 0) {
		const char *copy = lk_arena_strdup(reading->arena, value);
		if (copy == NULL) return lk_oom(reading->err);
		*(strcmp(path, "model.name") == 0 ? &dotted->name : &dotted->flavor) = copy;
		return LK_OK;
	}
	const struct path_row *row = flags_find(dotted->dialect, path, strlen(path));
	if (row == NULL) return lk_launch_unknown(reading, name);
	if (row->field == NULL)
		return (row->harmless ? lk_launch_skip : lk_launch_note)(reading, name, row->reason);
	return flags_set_field(reading, dotted, row, value);
}

/* "llama3" and "70B" are "llama3-70B"; a name alone is a family. */
static lk_status dotted_name_network(lk_reading *reading, const lk_dotted *dotted) {
	if (dotted->name == NULL && dotted->flavor == NULL) return LK_OK;
	const char *flag = dotted->flavor == NULL ? "model.name" : "model.flavor",
			   *name = dotted->name == NULL ? "" : dotted->name,
			   *between = dotted->name == NULL || dotted->flavor == NULL ? "" : "-",
			   *flavor = dotted->flavor == NULL ? "" : dotted->flavor,
			   *whole = lk_arena_printf(reading->arena, "%s%s%s", name, between, flavor);
	return whole == NULL ? lk_oom(reading->err) : lk_launch_network(reading, flag, whole);
}

/* torchtitan's local batch is that of one forward and backward pass of all of a pipeline's
 * micro-batches. */
lk_status lk_dotted_finish(lk_reading *reading, lk_dotted *dotted, int *gpus) {
	lk_job *job = &dotted->job;
	LK_TRY(dotted_name_network(reading, dotted));
	if (dotted->local > 0 && dotted->micro == 0 && job->pp <= 1) job->mbs = dotted->local;
	if (dotted->nodes > 0 || dotted->devices > 0) {
		int64_t all = (int64_t)(dotted->nodes > 0 ? dotted->nodes : 1) *
		              (dotted->devices > 0 ? dotted->devices : 1);
		if (all > LK_JOB_GPUS)
			return lk_fail(reading->err, LK_ERR_INPUT, reading->where, "%lld ranks",
			               (long long)all);
		*gpus = (int)all;
	}
	if (job->stack[0] == '\0')
		lk_copy(job->stack, sizeof job->stack, dotted->dialect == NEMO ? "nemo" : "torchtitan");
	return LK_OK;
}

/* ---- writing ---- */

/* The value in their words; NULL where they have none for it, or memory is out. */
static const char *theirs(lk_arena *arena, const struct path_row *row, const lk_field *field,
                          const lk_job *job) {
	const char *value = lk_field_text(arena, field, job);
	if (value == NULL || row->values == NULL) return value;
	for (const struct pair *pair = row->values; pair->theirs != NULL; pair++)
		if (strcmp(pair->ours, value) == 0) return pair->theirs;
	return row->values == nones ? value : NULL;
}

static bool flags_put(lk_words *words, const char *text) {
	if (text == NULL || !lk_push(words)) return false;
	*lk_last(words) = (lk_word){.text = text};
	return true;
}

static const char *flags_spell(lk_arena *arena, int dialect, const char *path, const char *value) {
	return lk_arena_printf(arena, dialect == NEMO ? "%s=%s" : "--%s=%s", path, value);
}

static bool flags_put_row(lk_arena *arena, int dialect, const struct path_row *row,
                          const lk_job *job, lk_words *words) {
	const lk_field *field = row->field != NULL ? field_named(row->field) : NULL;
	static const lk_job open;
	if (field == NULL || row->alias || (row->pipeline && job->pp <= 1)) return true;
	bool experts = strcmp(row->field, "ep") == 0 || strcmp(row->field, "etp") == 0;
	if (experts && job->model.experts == 0) return true;
	if (strcmp(row->field, "recompute_layers") == 0 && job->recompute != LK_RECOMPUTE_FULL)
		return true;
	if (field->kind == LK_FIELD_INT && lk_field_equal(field, job, &open)) return true;
	const char *value = theirs(arena, row, field, job);
	return value == NULL || flags_put(words, flags_spell(arena, dialect, row->path, value));
}

static bool flags_put_launcher(lk_arena *arena, int dialect, const char *network, const lk_job *job,
                               lk_words *words) {
	int per_node = job->gpus < 8 ? job->gpus : 8;
	while (job->gpus % per_node != 0) per_node--;
	int nodes = job->gpus / per_node;
	if (dialect == NEMO) {
		bool ok = flags_put(words, "nemo") && flags_put(words, "llm") &&
		          flags_put(words, "pretrain") && flags_put(words, "--factory") &&
		          flags_put(words, network);
		return ok && flags_put(words, lk_arena_printf(arena, "trainer.num_nodes=%d", nodes)) &&
		       flags_put(words, lk_arena_printf(arena, "trainer.devices=%d", per_node));
	}
	return flags_put(words, "torchrun") &&
	       flags_put(words, lk_arena_printf(arena, "--nproc_per_node=%d", per_node)) &&
	       flags_put(words, lk_arena_printf(arena, "--nnodes=%d", nodes)) &&
	       flags_put(words, "-m") && flags_put(words, "torchtitan.train");
}

/* NeMo's recipes are called after the network: llama31_405b. */
static const char *recipe(lk_arena *arena, const char *name) {
	char out[64];
	size_t n = 0;
	for (const char *c = name; *c != '\0' && n + 1 < sizeof out; c++)
		if (*c != '.') out[n++] = *c == '-' ? '_' : *c;
	out[n] = '\0';
	return lk_arena_strdup(arena, n > 0 ? out : "recipe");
}

bool lk_dotted_write(lk_arena *arena, int dialect, const lk_job *job, lk_words *words) {
	if (!flags_put_launcher(arena, dialect, recipe(arena, job->model.name), job, words))
		return false;
	for (const struct path_row *row = rows; row->path != NULL; row++)
		if (row->dialect == dialect && !flags_put_row(arena, dialect, row, job, words))
			return false;
	if (dialect == NEMO && job->recompute == LK_RECOMPUTE_FULL)
		return flags_put(words, lk_arena_printf(arena, "model.config.recompute_method=%s",
		                                        job->recompute_layers > 0 ? "block" : "uniform"));
	if (dialect == NEMO) return true;
	int local = job->pp > 1 ? job->mbs * job->microbatches : job->mbs;
	bool several = job->pp > 1 && job->vp > 1 && lk_job_layers(job) % (job->pp * job->vp) == 0;
	if (several &&
	    !flags_put(words,
	               lk_arena_printf(arena, "--parallelism.pipeline_parallel_layers_per_stage=%d",
	                               lk_job_layers(job) / (job->pp * job->vp))))
		return false;
	return flags_put(words, lk_arena_printf(arena, "--training.local_batch_size=%d", local));
}
