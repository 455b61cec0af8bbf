/* deepspeed.c: reads DeepSpeed's configuration (ds_config.json) by its documented keys, the rows of
 * data/launch/deepspeed.csv. "auto", which HuggingFace's Trainer fills in, leaves a field open.
 *
 *     train_batch_size = train_micro_batch_size_per_gpu * gradient_accumulation_steps *
 *         data-parallel ranks,
 * One of the three may be missing; if two are, the accumulation is 1. DeepSpeed's defaults:
 * stage 0, overlap_comm only with stage 3, buckets of 5e8 elements. */
#include "base/arena.h"
#include "launch/config/tables.h"

#include <math.h>
#include <string.h>
#include <strings.h>
#include "io/json.h"
#include "base/check.h"
#include "base/text.h"
#include "model/layout/job.h"

LK_KEYS(deepspeed);

enum { PATH_BYTES = 96 };

/* The file while it is read. */
struct config {
	lk_reading *r;
	lk_job *job;
	int batch, micro, steps, stage;
	const char *host_params; /* the key that moves parameters to the host; NULL: none */
	bool stage_open, bf16, fp16, dtype_open;
	int overlap;   /* -1 not given */
	double bucket; /* elements */
};

static lk_status deepspeed_wrong(struct config *config, const lk_value *value, const char *path,
                                 const char *what) {
	char where[256];
	lk_arena *arena = config->r->arena;
	const char *text =
		lk_arena_printf(arena, "%.200s:%d:%d", config->r->where, value->line, value->column);
	lk_copy(where, sizeof where, text != NULL ? text : config->r->where);
	lk_fail(config->r->err, LK_ERR_INPUT, where, "%s: %s", path, what);
	return lk_hint(config->r->err, "correct the value, or leave the key out");
}

static bool is_auto(const lk_value *value) {
	return value->kind == LK_JSON_STRING && strcmp(value->text, "auto") == 0;
}

static bool is_null(const lk_value *value) {
	return value->kind == LK_JSON_NULL;
}

static lk_status deepspeed_whole(struct config *config, const lk_value *value, const char *path,
                                 int low, int high, int *out) {
	if (is_auto(value) || is_null(value)) return LK_OK;
	if (value->kind != LK_JSON_NUMBER || !(value->number >= low && value->number <= high) ||
	    value->number != floor(value->number))
		return deepspeed_wrong(
			config, value, path,
			lk_arena_printf(config->r->arena, "no whole number in %d..%d", low, high));
	*out = (int)value->number;
	return LK_OK;
}

static lk_status deepspeed_truth(struct config *config, const lk_value *value, const char *path,
                                 bool *out, bool *open) {
	if (is_auto(value)) *open = true;
	if (is_auto(value) || is_null(value)) return LK_OK;
	if (value->kind != LK_JSON_TRUE && value->kind != LK_JSON_FALSE)
		return deepspeed_wrong(config, value, path, "neither true nor false");
	*out = value->kind == LK_JSON_TRUE;
	return LK_OK;
}

/* ---- keys ---- */

static lk_status read_batch(struct config *config, const lk_value *value, const char *path) {
	return deepspeed_whole(config, value, path, 1, 1 << 28, &config->batch);
}

static lk_status read_micro(struct config *config, const lk_value *value, const char *path) {
	return deepspeed_whole(config, value, path, 1, 1 << 20, &config->micro);
}

static lk_status read_steps(struct config *config, const lk_value *value, const char *path) {
	return deepspeed_whole(config, value, path, 1, 1 << 24, &config->steps);
}

static lk_status deepspeed_read_stage(struct config *config, const lk_value *value,
                                      const char *path) {
	config->stage_open = is_auto(value);
	return deepspeed_whole(config, value, path, 0, 3, &config->stage);
}

static lk_status read_overlap(struct config *config, const lk_value *value, const char *path) {
	bool on = false, open = is_null(value);
	LK_TRY(deepspeed_truth(config, value, path, &on, &open));
	if (!open) config->overlap = on;
	return LK_OK;
}

static lk_status read_bucket(struct config *config, const lk_value *value, const char *path) {
	if (is_auto(value) || is_null(value)) return LK_OK;
	if (value->kind != LK_JSON_NUMBER || !(value->number >= 1 && value->number <= 1e13))
		return deepspeed_wrong(config, value, path, "no number of elements");
	config->bucket = value->number;
	return LK_OK;
}

static lk_status read_bf16(struct config *config, const lk_value *value, const char *path) {
	return deepspeed_truth(config, value, path, &config->bf16, &config->dtype_open);
}

static lk_status read_fp16(struct config *config, const lk_value *value, const char *path) {
	return deepspeed_truth(config, value, path, &config->fp16, &config->dtype_open);
}

static lk_status read_lean_master(struct config *config, const lk_value *value, const char *path) {
	bool on = false, open;
	LK_TRY(deepspeed_truth(config, value, path, &on, &open));
	if (on) config->job->master_weights = LK_OFF;
	return LK_OK;
}

static lk_status read_offload(struct config *config, const lk_value *value, const char *path) {
	if (is_null(value) || is_auto(value)) return LK_OK;
	if (value->kind != LK_JSON_STRING) return deepspeed_wrong(config, value, path, "no device");
	config->job->offload_optimizer =
		strcmp(value->text, "cpu") == 0 || strcmp(value->text, "nvme") == 0;
	return strcmp(value->text, "nvme") == 0
	           ? lk_launch_note(config->r, path, "storage is priced as the host's memory")
	           : LK_OK;
}

static lk_status read_offload_params(struct config *config, const lk_value *value,
                                     const char *path) {
	bool none = value->kind != LK_JSON_STRING || strcmp(value->text, "none") == 0;
	if (!none) config->host_params = path;
	return LK_OK;
}

static lk_status deepspeed_read_group(struct config *config, const lk_value *value,
                                      const char *path) {
	return deepspeed_whole(config, value, path, 1, LK_JOB_GPUS, &config->job->shard_group);
}

static lk_status read_hpz(struct config *config, const lk_value *value, const char *path) {
	int size = 1;
	LK_TRY(deepspeed_whole(config, value, path, 1, LK_JOB_GPUS, &size));
	return size > 1
	           ? lk_launch_note(config->r, path,
	                            "a second copy of the parameters within the node is not modelled")
	           : LK_OK;
}

static lk_status read_tp(struct config *config, const lk_value *value, const char *path) {
	return deepspeed_whole(config, value, path, 0, 1 << 16, &config->job->tp);
}

static lk_status read_ep(struct config *config, const lk_value *value, const char *path) {
	return deepspeed_whole(config, value, path, 0, 1 << 16, &config->job->ep);
}

static lk_status read_wire(struct config *config, const lk_value *value, const char *path) {
	lk_dtype dtype;
	if (is_auto(value) || is_null(value)) return LK_OK;
	if (value->kind != LK_JSON_STRING || !lk_dtype_parse(value->text, &dtype))
		return deepspeed_wrong(config, value, path, "no number format");
	config->job->grad_reduce_fp32 = dtype == LK_FP32 ? LK_ON : LK_OFF;
	return LK_OK;
}

static lk_status read_accumulation(struct config *config, const lk_value *value, const char *path) {
	lk_dtype dtype;
	if (is_auto(value) || is_null(value)) return LK_OK;
	if (value->kind != LK_JSON_STRING || !lk_dtype_parse(value->text, &dtype))
		return deepspeed_wrong(config, value, path, "no number format");
	config->job->fp32_grads = dtype == LK_FP32 ? LK_ON : LK_OFF;
	return LK_OK;
}

static lk_status read_optimizer(struct config *config, const lk_value *value, const char *path) {
	static const struct {
		const char *part;
		lk_optimizer optimizer;
	} names[] = {{"lamb", LK_OPT_LAMB}, {"adafactor", LK_OPT_ADAFACTOR},
	             {"muon", LK_OPT_MUON}, {"lion", LK_OPT_LION},
	             {"sgd", LK_OPT_SGD},   {"adam", LK_OPT_ADAM}};
	if (is_auto(value) || is_null(value)) return LK_OK;
	if (value->kind != LK_JSON_STRING) return deepspeed_wrong(config, value, path, "no name");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (strcasestr(value->text, names[i].part) == NULL) continue;
		config->job->optimizer = names[i].optimizer;
		bool plain = strncasecmp(value->text, names[i].part, strlen(names[i].part)) == 0;
		return plain ? LK_OK
		             : lk_launch_note(config->r, path,
		                              "compressed communication of the optimizer is not modelled");
	}
	return lk_launch_note(config->r, path, "it is priced as adam");
}

/* Reads the value of a key. */
typedef lk_status deepspeed_reader(struct config *config, const lk_value *value, const char *path);
static const struct {
	const char *path;
	deepspeed_reader *read;
} readers[] = {
	{"train_batch_size", read_batch},
	{"train_micro_batch_size_per_gpu", read_micro},
	{"gradient_accumulation_steps", read_steps},
	{"zero_optimization.stage", deepspeed_read_stage},
	{"zero_optimization.overlap_comm", read_overlap},
	{"zero_optimization.reduce_bucket_size", read_bucket},
	{"zero_optimization.offload_optimizer.device", read_offload},
	{"zero_optimization.offload_param.device", read_offload_params},
	{"zero_optimization.mics_shard_size", deepspeed_read_group},
	{"zero_optimization.zero_hpz_partition_size", read_hpz},
	{"bf16.enabled", read_bf16},
	{"bfloat16.enabled", read_bf16},
	{"fp16.enabled", read_fp16},
	{"fp16.fp16_master_weights_and_grads", read_lean_master},
	{"data_types.grad_accum_dtype", read_accumulation},
	{"communication_data_type", read_wire},
	{"tensor_parallel.autotp_size", read_tp},
	{"expert_parallel.autoep_size", read_ep},
	{"optimizer.type", read_optimizer},
};

static lk_status deepspeed_read_object(struct config *config, const lk_value *object,
                                       const char *prefix, int depth);

static deepspeed_reader *deepspeed_reads(const char *path) {
	for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
		if (strcmp(readers[i].path, path) == 0) return readers[i].read;
	return NULL;
}

/* Find the row of a path, else of the nearest section above it that has a reason; NULL: unknown. */
static const lk_key *deepspeed_find_key(const char *path) {
	const lk_key *found = NULL;
	for (const lk_key *row = lk_keys_deepspeed; row->path; row++) {
		size_t length = strlen(row->path);
		if (strcmp(row->path, path) == 0) return row;
		if (row->reason != NULL && strncmp(row->path, path, length) == 0 && path[length] == '.')
			found = row;
	}
	return found;
}

/* Suggest a key that `path` is a slip of; NULL: none. */
static const char *deepspeed_near(const char *path) {
	for (const lk_key *row = lk_keys_deepspeed; row->path; row++)
		if (row->kind == LK_KEY_RULE && lk_is_slip(path, row->path)) return row->path;
	return NULL;
}

static lk_status deepspeed_read_object(struct config *config, const lk_value *object,
                                       const char *prefix, int depth);

static lk_status deepspeed_read_member(struct config *config, const char *path,
                                       const lk_value *value, int depth) {
	const lk_key *row = deepspeed_find_key(path);
	bool exact = row != NULL && strcmp(row->path, path) == 0;
	const char *near = exact ? NULL : deepspeed_near(path);
	if (value->kind == LK_JSON_OBJECT && depth < 3 && !(exact && row->kind == LK_KEY_RULE)) {
		if (value->count > 0) return deepspeed_read_object(config, value, path, depth + 1);
		return LK_OK;
	}
	if (exact && row->kind == LK_KEY_RULE) {
		deepspeed_reader *read = deepspeed_reads(path);
		LK_ASSERT(read != NULL); /* each such row has one */
		if (is_auto(value))
			LK_TRY(lk_launch_note(config->r, path,
			                      "auto: the trainer's flags or the defaults say it"));
		return read(config, value, path);
	}
	if (row == NULL || near != NULL) return lk_launch_unknown(config->r, path, near);
	return (row->kind == LK_KEY_SKIP ? lk_launch_skip : lk_launch_note)(config->r, path,
	                                                                    row->reason);
}

static lk_status deepspeed_read_object(struct config *config, const lk_value *object,
                                       const char *prefix, int depth) {
	for (size_t i = 0; i < object->count; i++) {
		bool last = true; /* of equal keys the last one counts */
		for (size_t k = i + 1; k < object->count && object->count <= 1024; k++)
			last &= strcmp(object->keys[i], object->keys[k]) != 0;
		if (!last) continue;
		const char *path =
			prefix[0] == '\0' ? object->keys[i]
							  : lk_arena_printf(config->r->arena, "%s.%s", prefix, object->keys[i]);
		if (path == NULL) return lk_oom(config->r->err);
		LK_TRY(deepspeed_read_member(config, path, &object->items[i], depth));
	}
	return LK_OK;
}

const char *lk_deepspeed_state(lk_arena *arena, const lk_job *job, int number, const char **path) {
	static const char *const paths[] = {"train_batch_size",
	                                    "train_micro_batch_size_per_gpu",
	                                    "gradient_accumulation_steps",
	                                    "tensor_parallel.autotp_size",
	                                    "zero_optimization.stage",
	                                    "zero_optimization.overlap_comm",
	                                    "zero_optimization.offload_optimizer.device",
	                                    "zero_optimization.offload_param.device",
	                                    "bf16.enabled",
	                                    "fp16.enabled"};
	const int numbers[] = {job->gbs, job->mbs, job->microbatches, job->tp, (int)job->sharding};
	const bool switches[] = {job->overlap_grad_reduce == LK_ON, job->offload_optimizer,
	                         job->offload_params, job->dtype == LK_BF16, job->dtype == LK_FP16};
	enum { NUMBERS = sizeof numbers / sizeof *numbers };
	if (number >= (int)(sizeof paths / sizeof *paths)) return NULL;
	*path = paths[number];
	if (number < NUMBERS) return lk_arena_printf(arena, "%d", numbers[number]);
	bool is = switches[number - NUMBERS];
	if (lk_ends_in(*path, ".device")) return is ? "cpu" : "none";
	return is ? "true" : "false";
}

/* ---- what the keys mean together ---- */

static void finish_batch(const struct config *config) {
	lk_job *job = config->job;
	if (config->batch > 0) job->gbs = config->batch;
	if (config->micro > 0) job->mbs = config->micro;
	if (config->batch == 0 && config->micro == 0 && config->steps == 0) return;
	bool two = (config->batch > 0 || job->gbs > 0) && config->micro > 0;
	if (config->steps > 0) job->microbatches = config->steps;
	else if (two) job->microbatches = 0;
	else job->microbatches = 1;
}

static lk_status deepspeed_finish(struct config *config) {
	lk_job *job = config->job;
	finish_batch(config);
	if (!config->stage_open) {
		job->sharding = (lk_sharding)config->stage;
		job->sharding_said = true;
	}
	bool overlap = config->overlap >= 0 ? config->overlap : config->stage == 3;
	job->overlap_grad_reduce = overlap ? LK_ON : LK_OFF;
	job->overlap_param_gather =
		config->stage == 3 ? LK_ON : LK_OFF; /* stage 1 and 2 gather at the end of the step */
	if (config->bf16 && config->fp16) {
		lk_fail(config->r->err, LK_ERR_INPUT, config->r->where, "bf16 and fp16 are both enabled");
		return lk_hint(config->r->err, "enable one of them");
	}
	if (config->bf16 || config->fp16 || (!config->dtype_open && !job->dtype_said)) {
		if (config->bf16) job->dtype = LK_BF16;
		else if (config->fp16) job->dtype = LK_FP16;
		else job->dtype = LK_FP32;
		job->dtype_said = true;
	}
	bool wide = job->grad_reduce_fp32 == LK_ON || (job->dtype_said && job->dtype == LK_FP32);
	if (config->bucket > 0) job->bucket_bytes = config->bucket * (wide ? 4 : 2);
	if (config->host_params) LK_TRY(lk_launch_offload_params(config->r, job, config->host_params));
	lk_copy(job->stack, sizeof job->stack,
	        strncmp(job->stack, "megatron", 8) == 0 ? "megatron-deepspeed" : "deepspeed");
	return LK_OK;
}

lk_status lk_deepspeed_tree(lk_reading *reading, const lk_value *root) {
	struct config c = {.r = reading, .job = reading->out->job, .overlap = -1};
	if (root->kind != LK_JSON_OBJECT) return deepspeed_wrong(&c, root, "config", "no object");
	LK_TRY(deepspeed_read_object(&c, root, "", 0));
	return deepspeed_finish(&c);
}

lk_status lk_deepspeed_stream(lk_reading *reading, lk_stream *in) {
	lk_value *root;
	LK_TRY(lk_json_document(reading->arena, in, &root, reading->err));
	return lk_deepspeed_tree(reading, root);
}

static int deepspeed_digit(char c) {
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	const char *at = c != '\0' ? strchr(letters, c) : NULL;
	if (at != NULL) return (int)(at - letters);
	if (c == '-' || c == '+') return 62;
	if (c == '_' || c == '/') return 63;
	return -1;
}

/* DeepSpeed takes a configuration as base64 in place of a file's name. NULL where the text is none,
 * or out of memory. */
static char *inline_config(lk_arena *arena, const char *text, size_t *size) {
	size_t length = strcspn(text, "=");
	char *out = strlen(text) >= 8 ? lk_arena_alloc(arena, length + 1) : NULL;
	unsigned long group = 0;
	*size = 0;
	for (size_t i = 0; out != NULL && i < length; i++) {
		if (deepspeed_digit(text[i]) < 0) return NULL;
		group = (group << 6 | (unsigned long)deepspeed_digit(text[i])) & 0xffffff;
		if (i % 4 > 0) out[(*size)++] = (char)(group >> (6 - 2 * (i % 4)));
	}
	return out != NULL && *size > 1 && out[0] == '{' ? out : NULL;
}

lk_status lk_deepspeed_apply(lk_reading *reading, const char *path) {
	lk_stream *in;
	lk_reading inner = *reading;
	size_t size;
	const lk_inner_file *written = NULL; /* by the script itself */
	const char *beside = lk_launch_file_named(reading, path, &written);
	const char *text = inline_config(reading->arena, path, &size);
	if (written != NULL) text = written->text, size = written->size;
	if (text == NULL && beside != NULL) path = beside;
	inner.where = text != NULL ? "--deepspeed_config" : path;
	if (text != NULL) LK_TRY(lk_stream_memory(text, size, inner.where, &in, reading->err));
	else LK_TRY(lk_stream_open(path, &in, reading->err));
	lk_status status = lk_deepspeed_stream(&inner, in);
	lk_stream_close(in);
	return status;
}
