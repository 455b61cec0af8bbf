/* emit_rows.c: writes a configuration or flags from the rows of data/launch. Rows are in the order
 * of the file. A dotted path nests sections, "-" is an item of a list, an empty path an empty line.
 * A row writes its field in the framework's words, or its own text; its rule may change the text or
 * leave the row out. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "launch/emit/rows.h"
#include "model/layout/sizes.h"

enum { DEPTH = 8, SEGMENT = 64 }; /* of sections; bytes of a name */

/* ---- names that trainers share */

bool lk_emit_images(const lk_job *job) {
	return job->model.tower.layers > 0 && job->model.tower.images > 0;
}

const char *lk_emit_optimizer(const lk_job *job) {
	static const char *const names[LK_OPTIMIZERS] = {
		[LK_OPT_ADAM] = "adamw_torch_fused",     [LK_OPT_SGD] = "sgd",
		[LK_OPT_ADAFACTOR] = "adafactor",        [LK_OPT_LION] = "lion_32bit",
		[LK_OPT_LION_8BIT] = "lion_8bit",        [LK_OPT_ADAM_8BIT] = "adamw_bnb_8bit",
		[LK_OPT_ADAM_4BIT] = "adamw_torch_4bit", [LK_OPT_ADEMAMIX] = "ademamix",
		[LK_OPT_ADEMAMIX_8BIT] = "ademamix_8bit"};
	bool eight = job->optimizer == LK_OPT_ADAM && job->state_dtype == LK_FP8;
	bool lists = job->optimizer == LK_OPT_ADAM && job->update == LK_UPDATE_FOREACH;
	if (eight) return "adamw_bnb_8bit";
	return lists ? "adamw_torch" : names[job->optimizer];
}

const char *lk_emit_attention(const lk_job *job) {
	if (job->attn_kernel == LK_KERNEL_UNFUSED) return "eager";
	if (job->attn_torch) return "sdpa";
	if (job->attn_library == LK_ATTN_LIBRARY_FLASH3) return "flash_attention_3";
	return job->attn_library == LK_ATTN_LIBRARY_FLASH ? "flash_attention_2" : "sdpa";
}

/* Ranks that share one copy of the weights, and copies. */
int lk_emit_shard(const lk_job *job) {
	int all = job->dp * job->cp;
	return job->shard_group > 0 && all % job->shard_group == 0 ? job->shard_group : all;
}

/* ---- rows */

static const char *rows_format(const lk_job *job) {
	if (job->dtype == LK_FP16) return "float16";
	return job->dtype <= LK_TF32 ? "float32" : "bfloat16";
}

/* Make the draft from which config_draft.c would make this job. It is in the arena because the
 * words written borrow its texts; NULL: out of memory. */
static lk_draft *rows_draft(const lk_emission *emission) {
	lk_draft *draft = LK_NEW(emission->arena, lk_draft);
	if (!draft) return NULL;
	const lk_job *job = emission->job;
	int ranks = job->dp * job->cp, shard = lk_emit_shard(job);
	LK_ASSERT(shard > 0 && ranks % shard == 0); /* the job is complete */
	*draft = (lk_draft){.job = *job,
	                    .nodes = emission->nodes,
	                    .all_gpus = job->gpus,
	                    .accumulation = job->microbatches,
	                    .dp = job->dp,
	                    .dp_shard = shard > job->cp ? shard / job->cp : 1,
	                    .dp_replicate = ranks / shard,
	                    .zero = (int)job->sharding + 1,
	                    .bf16 = job->dtype >= LK_BF16,
	                    .fp16 = job->dtype == LK_FP16,
	                    .fp8 = job->dtype == LK_FP8,
	                    .tf32 = job->dtype == LK_TF32,
	                    .packing = !lk_emit_images(job) && job->objective == LK_OBJECTIVE_TOKENS,
	                    .adapter = job->task == LK_TASK_LORA,
	                    .adapts_query = job->adapted & LK_ADAPT_QUERY,
	                    .adapts_key = job->adapted & LK_ADAPT_KEY,
	                    .adapts_value = job->adapted & LK_ADAPT_VALUE,
	                    .adapts_out = job->adapted & LK_ADAPT_OUT,
	                    .named_mlp = job->adapted & LK_ADAPT_MLP,
	                    .quantization_bits = !job->narrow_base           ? 0
	                                         : lk_base_of(job)->integers ? 8
	                                                                     : 4,
	                    .host_shards = job->offload_params,
	                    .host_params = job->offload_params,
	                    .host_activations = job->offload_activations,
	                    .reshard_off = job->sharding == LK_SHARD_ZERO2};
	const char *optimizer = lk_emit_optimizer(job);
	if (emission->pairs) draft->job.mbs /= 2, draft->job.gbs /= 2;
	lk_copy(draft->network, sizeof draft->network, emission->network);
	lk_copy(draft->optimizer_name, sizeof draft->optimizer_name, optimizer ? optimizer : "");
	lk_copy(draft->attention_name, sizeof draft->attention_name, lk_emit_attention(job));
	lk_copy(draft->format, sizeof draft->format, rows_format(job));
	lk_copy(draft->method, sizeof draft->method, job->task == LK_TASK_LORA ? "lora" : "full");
	lk_copy(draft->recompute_text, sizeof draft->recompute_text,
	        job->recompute == LK_RECOMPUTE_NONE ? "false" : "true");
	return draft;
}

/* The value of a field in the framework's words. */
static const char *rows_field(lk_arena *arena, const lk_key *row, const lk_draft *draft) {
	const lk_field *field = lk_draft_fact(row->fact);
	LK_ASSERT(field != NULL);
	const char *value = lk_field_value(arena, field, &draft->job), *truth = "";
	if (!value) return NULL;
	if (field->kind == LK_FIELD_SWITCH) value = strcmp(value, "on") == 0 ? "on" : "off";
	if (field->kind == LK_FIELD_SWITCH) truth = value[1] == 'n' ? "true" : "false";
	if (field->kind == LK_FIELD_BOOL) truth = *value == '1' ? "true" : "false";
	for (const lk_pair *pair = row->values; pair && pair->theirs; pair++)
		if (strcmp(pair->ours, value) == 0 || (*truth && strcmp(pair->ours, truth) == 0))
			return pair->theirs;
	return *truth ? truth : value;
}

/* The text that a row writes; NULL: the row is left out, or out of memory. */
static const char *rows_value(const lk_emission *emission, const lk_key *row,
                              const lk_draft *draft) {
	const char *value = row->text ? row->text : "";
	if (row->fact) value = rows_field(emission->arena, row, draft);
	return value && row->rule ? row->rule(emission, value) : value;
}

/* Names of the sections that enclose the last line. */
struct rows_open {
	char names[DEPTH][SEGMENT];
	int depth;
};

static void rows_put_line(lk_page *page, struct rows_open *open, const char *path,
                          const char *value) {
	int level = 0;
	bool same = true, item = false;
	for (const char *at = path;; level++) {
		size_t length = strcspn(at, ".");
		bool last = at[length] == '\0', dash = length == 1 && *at == '-';
		LK_ASSERT(level < DEPTH && length < SEGMENT);
		same = same && level < open->depth && strlen(open->names[level]) == length &&
		       memcmp(open->names[level], at, length) == 0;
		const char *bullet = item ? "- " : "";
		int indent = 2 * level - (item ? 2 : 0);
		if (last && dash) lk_page_add(page, "%*s- %s\n", indent, "", value);
		else if (last) lk_page_add(page, "%*s%s%s: %s\n", indent, "", bullet, at, value);
		else if (!same && !dash)
			lk_page_add(page, "%*s%s%.*s:\n", indent, "", bullet, (int)length, at);
		if (last) break;
		item = !same && dash;
		snprintf(open->names[level], SEGMENT, "%.*s", (int)length, at);
		at += length + 1;
		if (!same) open->depth = level + 1;
	}
	LK_ASSERT(level < DEPTH);
	open->depth = level;
}

bool lk_emit_rows_state(const lk_emission *emission, const lk_key *const *tables,
                        const char **values) {
	lk_draft *draft = rows_draft(emission);
	for (; draft && *tables; tables++)
		for (const lk_key *row = *tables; row->path; row++) {
			bool fact = row->kind == LK_KEY_FACT && row->fact;
			if (row->direction != LK_READ) *values++ = rows_value(emission, row, draft);
			else *values++ = fact ? rows_field(emission->arena, row, draft) : NULL;
		}
	return draft != NULL;
}

bool lk_emit_states(const lk_key *const *keys, const char *fact) {
	if (!keys) return true;
	for (; *keys; keys++)
		for (const lk_key *row = *keys; row->path; row++)
			if (row->kind == LK_KEY_FACT && strcmp(row->fact, fact) == 0) return true;
	return false;
}

void lk_emit_file(lk_page *page, const lk_emission *emission, const lk_key *rows) {
	struct rows_open open = {.depth = 0};
	const lk_draft *draft = rows_draft(emission);
	if (!draft) page->text = NULL;
	for (const lk_key *row = rows; draft && row->path; row++) {
		const char *value = row->direction == LK_READ ? NULL : rows_value(emission, row, draft);
		if (!value) continue;
		if (*row->path) rows_put_line(page, &open, row->path, value);
		else lk_page_add(page, "\n");
	}
}

/* "q_proj v_proj" are words of one flag. */
static bool rows_put_words(lk_emission *emission, const char *value) {
	while (*value) {
		int length = (int)strcspn(value, " ");
		if (!lk_put_word(&emission->program,
		                 lk_arena_printf(emission->arena, "%.*s", length, value)))
			return false;
		value += length + (value[length] == ' ');
	}
	return true;
}

bool lk_emit_flags(lk_emission *emission, const lk_key *rows) {
	const lk_draft *draft = rows_draft(emission);
	if (!draft) return false;
	for (const lk_key *row = rows; row->path; row++) {
		const char *value = row->direction == LK_READ ? NULL : rows_value(emission, row, draft);
		if (!value) continue;
		if (strcmp(value, "true") == 0) value = "True"; /* as Python writes them */
		if (strcmp(value, "false") == 0) value = "False";
		if (!lk_put_word(&emission->program, lk_arena_printf(emission->arena, "--%s", row->path)) ||
		    !rows_put_words(emission, value))
			return false;
	}
	return true;
}
