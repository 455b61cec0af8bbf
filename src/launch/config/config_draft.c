/* config_draft.c: reads the settings of a file into a draft, by tables of keys, and turns a draft
 * into a job by the rules that all frameworks share:
 *
 *     gpus = total, or nodes * GPUs of a node; else the least number that the degrees need
 *     dp = gpus / (tp pp cp);  global batch = micro-batch * accumulation * dp
 *     FULL_SHARD, full_shard, ZeRO 3: weights too; SHARD_GRAD_OP: gradients; HYBRID: within a node
 * / */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/noun.h"
#include "base/text.h"
#include "launch/config/tables.h"
#include "model/read/read.h"

/* ---- facts ---- */

/* "2e4" and "8192.0" are whole numbers too; -1, "auto" and "none" state nothing. */
static bool draft_whole(const lk_value *value, const char *text, char *out, size_t size) {
	double number = value->kind == LK_JSON_NUMBER ? value->number : NAN;
	if (value->kind == LK_JSON_STRING && lk_yaml_scalar(text, &number) != LK_JSON_NUMBER)
		return false;
	if (!(fabs(number) < 1e15) || number != floor(number)) return false;
	snprintf(out, size, "%.0f", number + 0.0);
	return true;
}

static lk_status draft_unknown(const lk_config *config, const char *key, const char *text) {
	char shown[96], variable[48];
	const char *name = strchr(text, '$');
	lk_reading *reading = config->reading;
	size_t begin = name && name[1] == '{' ? 2 : 1;
	snprintf(variable, sizeof variable, "%.*s",
	         name ? (int)strspn(name + begin, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") : 0,
	         name ? name + begin : "");
	lk_fail(reading->err, LK_ERR_INPUT, reading->where, "%s: \"%s\" is not known", key,
	        lk_escape(text, shown, sizeof shown));
	return *variable ? lk_hint(reading->err, "give --var %s=VALUE", variable)
	                 : lk_hint(reading->err, "give --set %s=VALUE", key);
}

static bool draft_open(const char *text) {
	return strcasecmp(text, "auto") == 0 || strcmp(text, "-1") == 0 || *text == '\0';
}

/* Whether the fact is a degree of parallelism, whose "auto" nothing else resolves. */
static bool draft_degree(const char *fact) {
	static const char *const degrees[] = {"tp", "pp", "cp", "ep"};
	for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
		if (strcmp(fact, degrees[i]) == 0) return true;
	return false;
}

static bool draft_is_word(const char *theirs, const char *text) {
	return *theirs == '*' ? lk_ends_in(text, theirs + 1) : strcasecmp(theirs, text) == 0;
}

/* The text of a setting: of a list of texts for a field of text, "q_proj,v_proj". */
static const char *draft_text(const lk_config *config, const lk_field *field,
                              const lk_value *value) {
	if (value->kind != LK_JSON_ARRAY || field->kind != LK_FIELD_TEXT) return lk_config_text(value);
	lk_arena *arena = config->reading->arena;
	const char *all = NULL;
	for (size_t i = 0; i < value->count; i++) {
		const char *one = lk_config_text(&value->items[i]);
		if (one) all = all ? lk_arena_printf(arena, "%s,%s", all, one) : one;
	}
	return all;
}

static lk_status draft_set(const lk_config *config, const char *key, const char *fact,
                           const lk_value *value, const lk_pair *pairs, lk_draft *draft) {
	const lk_field *field = lk_draft_fact(fact);
	LK_ASSERT(field != NULL && field->offset + field->size <= sizeof *draft);
	const char *text = draft_text(config, field, value), *ours = NULL;
	char whole[32], named[96];
	if (!text) return LK_OK;
	bool number = field->kind == LK_FIELD_INT && draft_whole(value, text, whole, sizeof whole);
	const char *named_by = number ? whole : text; /* 0.0 and -0 are 0 */
	for (const lk_pair *pair = pairs; pair && pair->theirs && !ours; pair++)
		if (draft_is_word(pair->theirs, named_by)) ours = pair->ours;
	if (!ours && strstr(text, "${")) return draft_unknown(config, key, text);
	if (ours && !*ours) return LK_OK; /* it states nothing */
	if (!ours && field->kind == LK_FIELD_SWITCH && value->kind == LK_JSON_TRUE) ours = "on";
	if (!ours && field->kind == LK_FIELD_SWITCH && value->kind == LK_JSON_FALSE) ours = "off";
	if (!ours && draft_open(text) && field->kind != LK_FIELD_TEXT &&
	    !(field->kind == LK_FIELD_BOOL && strcasecmp(text, "auto") == 0))
		return draft_degree(fact) && strcasecmp(text, "auto") == 0
		           ? lk_launch_note(config->reading, key,
		                            "what it chooses is not known: 1 is taken")
		           : LK_OK;
	if (!ours && field->kind == LK_FIELD_BOOL && strcasecmp(text, "auto") == 0) ours = "1";
	if (!ours && number) ours = whole;
	if (ours == whole && strcmp(whole, "0") == 0 && field->some)
		return lk_config_fail(config, key, "it is 0",
		                      "give a whole number from 1, or take the key out");
	if (!ours && field->kind == LK_FIELD_BOOL && value->kind == LK_JSON_NUMBER)
		ours = value->number != 0 ? "1" : "0";
	if (!ours) ours = text;
	if (field->kind == LK_FIELD_TEXT && strlen(ours) >= field->size)
		return lk_config_fail(config, key, "the text is too long", "shorten it");
	LK_TRY(lk_launch_understood(config->reading, key, text));
	if (strcmp(fact, "network_name") == 0)
		lk_copy(draft->network_key, sizeof draft->network_key, key);
	if (strcmp(fact, "teacher") == 0) lk_copy(draft->teacher_key, sizeof draft->teacher_key, key);
	lk_status status = lk_field_put(draft, field, ours, config->reading->err);
	if (status != LK_ERR_INPUT) return status;
	snprintf(named, sizeof named, "\"%.60s\" is not among its values", text);
	return lk_config_fail(config, key, named, "correct the value, or take the key out");
}

/* ---- keys ---- */

static bool draft_matches(const char *pattern, const char *path) {
	size_t size = strlen(path), length = strlen(pattern);
	LK_ASSERT(length > 1 || *pattern != '*'); /* no row is of all keys */
	if (*pattern == '*')
		return size >= length - 1 &&
		       memcmp(path + size - (length - 1), pattern + 1, length - 1) == 0;
	if (pattern[length - 1] != '*') return strcmp(pattern, path) == 0;
	if (strncmp(pattern, path, length - 1) != 0) return false;
	/* whole words: "lr*" is lr, lr.end and lr_end, not lrx */
	char last = pattern[length - 2], next = path[length - 1];
	return last == '.' || last == '_' || next == '\0' || next == '.' || next == '_';
}

/* Find the row of a path: an exact one, else the first pattern that matches; NULL: none. */
static const lk_key *draft_key(const lk_key *const *tables, const char *path, bool *exact) {
	const lk_key *many = NULL;
	*exact = true;
	for (; *tables; tables++)
		for (const lk_key *key = *tables; key->path; key++) {
			if (key->direction == LK_WRITTEN || !draft_matches(key->path, path)) continue;
			if (!strchr(key->path, '*')) return key;
			if (!many) many = key;
		}
	*exact = false;
	return many;
}

/* Suggest a key for an unknown path: one that differs by a slip or, with `anywhere`, one that ends
 * in the same word; NULL: none. */
static const char *draft_near(const lk_key *const *tables, const char *path, bool anywhere) {
	const char *last = strrchr(path, '.'), *found = NULL;
	for (; *tables; tables++)
		for (const lk_key *key = *tables; key->path; key++) {
			if (key->direction == LK_WRITTEN || strchr(key->path, '*')) continue;
			if (lk_is_slip(path, key->path)) return key->path;
			const char *other = strrchr(key->path, '.');
			bool same = anywhere && last && other && strcmp(last, other) == 0;
			if (same && !found && key->kind != LK_KEY_SKIP) found = key->path;
		}
	return found;
}

static bool draft_off(const lk_value *value) {
	if (value->kind == LK_JSON_NULL || value->kind == LK_JSON_FALSE) return true;
	if (value->kind == LK_JSON_NUMBER) return value->number == 0;
	if (value->kind == LK_JSON_STRING) return !lk_config_text(value) || !*value->text;
	return (value->kind == LK_JSON_ARRAY || value->kind == LK_JSON_OBJECT) && value->count == 0;
}

/* Join a list of words: ["full_shard", "auto_wrap"]. */
static lk_status draft_read_list(const lk_config *config, const lk_setting *setting,
                                 const lk_key *key, lk_draft *draft) {
	lk_arena *arena = config->reading->arena;
	const char *text = "";
	for (size_t i = 0; i < setting->value->count && text; i++) {
		const char *item = lk_config_text(&setting->value->items[i]);
		if (item && strlen(text) < 512)
			text = lk_arena_printf(arena, "%s%s%s", text, *text ? " " : "", item);
	}
	if (!text) return lk_oom(config->reading->err);
	lk_value value = {.kind = LK_JSON_STRING, .text = text};
	return draft_set(config, setting->path, key->fact, &value, key->values, draft);
}

static lk_status draft_read_one(const lk_config *config, const lk_setting *setting,
                                const lk_key *const *tables, lk_draft *draft) {
	bool exact;
	const char *path = lk_name_of(config->names, setting->path);
	const lk_key *key = draft_key(tables, path, &exact);
	lk_reading *reading = config->reading;
	LK_TRY(lk_launch_seen(reading, setting->path));
	const char *near = exact ? NULL : draft_near(tables, path, key == NULL);
	if (near || (!key && !draft_off(setting->value)))
		return lk_launch_unknown(reading, setting->path, near);
	if (!key) return LK_OK;
	LK_ASSERT(key->direction != LK_WRITTEN && (key->kind != LK_KEY_FACT || key->fact != NULL));
	switch (key->kind) {
	case LK_KEY_RULE: {
		const char *text = lk_config_text(setting->value);
		return text ? lk_launch_understood(reading, setting->path, text) : LK_OK;
	}
	case LK_KEY_FACT:
		if (setting->value->kind == LK_JSON_ARRAY)
			return draft_read_list(config, setting, key, draft);
		return draft_set(config, setting->path, key->fact, setting->value, key->values, draft);
	case LK_KEY_SKIP: return lk_launch_skip(reading, setting->path, key->reason);
	case LK_KEY_NOTE:
		if (draft_off(setting->value)) return LK_OK;
		return lk_launch_note(reading, setting->path, key->reason);
	case LK_KEY_TEXT:
	case LK_KEY_REFUSE: break;
	}
	if (draft_off(setting->value)) return LK_OK;
	return lk_config_fail(config, setting->path, key->reason,
	                      "lockstep predicts training steps of networks that it knows");
}

lk_status lk_draft_read(const lk_config *config, const lk_key *const *tables, lk_draft *draft) {
	for (size_t i = 0; i < config->count; i++)
		LK_TRY(draft_read_one(config, &config->settings[i], tables, draft));
	return LK_OK;
}

/* ---- from the draft to the job ---- */

static bool draft_has(const char *text, const char *part) {
	return strcasestr(text, part) != NULL;
}

static void draft_numbers(lk_draft *draft) {
	lk_job *job = &draft->job;
	if (draft_has(draft->format, "bf16") || draft_has(draft->format, "bfloat16"))
		draft->bf16 = true;
	else if (draft_has(draft->format, "fp16") || draft_has(draft->format, "float16") ||
	         strncmp(draft->format, "16", 2) == 0)
		draft->fp16 = true;
	else if (draft_has(draft->format, "fp8")) draft->fp8 = true;
	bool open = draft->format_open && !draft->fp8 && !draft->bf16 && !draft->fp16 && !draft->tf32 &&
	            !*draft->format;
	if (job->dtype_said || open) return;
	if (draft->fp8) job->dtype = LK_FP8;
	else if (draft->bf16) job->dtype = LK_BF16;
	else if (draft->fp16) job->dtype = LK_FP16;
	else job->dtype = draft->tf32 ? LK_TF32 : LK_FP32;
	job->dtype_said = true;
}

/* Sharding by FSDP's name or number ("FULL_SHARD", "full_shard auto_wrap offload") or by a ZeRO
 * stage. A sharding group has all ranks of a replica, including those of context parallelism. */
static void draft_sharding(lk_draft *draft) {
	lk_job *job = &draft->job;
	const char *name = *draft->sharding_name ? draft->sharding_name : draft->fsdp;
	bool number = isdigit((unsigned char)*name) && name[1] == '\0';
	if (draft->zero > 0) {
		job->sharding = (lk_sharding)(draft->zero - 1);
		job->sharding_said = true;
	} else if (*name) {
		bool hybrid = draft_has(name, "hybrid") || (number && (*name == '4' || *name == '5'));
		bool keeps = draft_has(name, "grad_op") || draft_has(name, "zero2") ||
		             (number && (*name == '2' || *name == '5'));
		bool none = draft_has(name, "no_shard") || (number && *name == '3');
		job->sharding = keeps ? LK_SHARD_ZERO2 : LK_SHARD_ZERO3;
		if (none) job->sharding = LK_SHARD_NONE;
		job->sharding_said = true;
		if (hybrid && draft->dp_shard <= 0 && draft->dp_replicate == 0)
			job->shard_group = draft->per_node > 0 ? draft->per_node : 8;
		if (!job->stack[0] && !none) lk_copy(job->stack, sizeof job->stack, "fsdp");
	}
	if (job->sharding == LK_SHARD_ZERO3 && draft->reshard_off) job->sharding = LK_SHARD_ZERO2;
	int context_ranks = draft->shard_beside_cp && job->cp > 1 ? job->cp : 1;
	if (job->sharding == LK_SHARD_NONE) return;
	if (draft->dp_replicate > 1) job->shard_copies = draft->dp_replicate;
	else if (*name && draft->dp_shard > 1 && draft->dp_replicate != 1)
		job->shard_group = draft->dp_shard * context_ranks;
}

/* Note an optimizer that is priced as Adam although it keeps or computes something else. */
static lk_status draft_note_optimizer(lk_reading *reading, const char *name) {
	static const struct {
		const char *part, *reason;
	} others[] = {
		{"galore", "GaLore's projections of gradients are not modelled: it is priced as Adam"},
		{"apollo", "APOLLO's projections of gradients are not modelled: it is priced as Adam"},
		{"lomo", "LOMO's fused step is not modelled: gradients and moments are priced as Adam's"},
		{"schedule_free", "schedule-free Adam is priced as Adam, which keeps as much"},
		{"prodigy", "Prodigy is priced as Adam, which keeps less"},
		{"came", "CAME is priced as Adam, which keeps more"},
		{"dion", "Dion is priced as Adam, which keeps more and multiplies no matrices"},
		{"rmsprop", "RMSprop is priced as Adam, which keeps a moment more"},
		{"adagrad", "Adagrad is priced as Adam, which keeps a moment more"},
	};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (draft_has(name, others[i].part)) return lk_launch_note(reading, name, others[i].reason);
	return LK_OK;
}

/* Moments of 8 and 4 bits by the endings of names: adamw_bnb_8bit, lion_8bit, ao_adamw_fp8. */
static void draft_narrow_moments(lk_draft *draft) {
	lk_job *job = &draft->job;
	const char *name = draft->optimizer_name;
	if (draft_has(name, "4bit") && job->optimizer == LK_OPT_ADAM) job->optimizer = LK_OPT_ADAM_4BIT;
	if (!draft_has(name, "8bit") && !draft_has(name, "adamw_fp8")) return;
	if (job->optimizer == LK_OPT_ADAM) job->optimizer = LK_OPT_ADAM_8BIT;
	else if (job->optimizer == LK_OPT_LION) job->optimizer = LK_OPT_LION_8BIT;
	else if (job->optimizer == LK_OPT_ADEMAMIX) job->optimizer = LK_OPT_ADEMAMIX_8BIT;
	else job->state_dtype = LK_FP8;
}

/* adamw_torch, sgd_torch and torch.optim.AdamW are PyTorch's own default; adamw_torch_fused is one
 * kernel. */
static void draft_update(lk_draft *draft) {
	lk_job *job = &draft->job;
	const char *name = draft->optimizer_name;
	if (job->update != LK_UPDATE_USUAL) return;
	if (draft_has(name, "fused")) job->update = LK_UPDATE_FUSED;
	else if (draft_has(name, "torch")) job->update = LK_UPDATE_FOREACH;
}

static lk_status draft_optimizer(lk_reading *reading, lk_draft *draft) {
	static const struct {
		const char *part;
		lk_optimizer optimizer;
	} names[] = {{"adafactor", LK_OPT_ADAFACTOR},
	             {"adam_mini", LK_OPT_ADAM_MINI},
	             {"adam-mini", LK_OPT_ADAM_MINI},
	             {"adammini", LK_OPT_ADAM_MINI},
	             {"muon", LK_OPT_MUON},
	             {"lion", LK_OPT_LION},
	             {"ademamix", LK_OPT_ADEMAMIX},
	             {"flash_adam", LK_OPT_ADAM_FLASH},
	             {"flashadam", LK_OPT_ADAM_FLASH},
	             {"soap", LK_OPT_SOAP},
	             {"shampoo", LK_OPT_SHAMPOO},
	             {"lamb", LK_OPT_LAMB},
	             {"adam", LK_OPT_ADAM},
	             {"sgd", LK_OPT_SGD}};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (draft_has(draft->optimizer_name, names[i].part)) {
			draft->job.optimizer = names[i].optimizer;
			break;
		}
	if (draft->job.optimizer == LK_OPT_ADAM)
		LK_TRY(draft_note_optimizer(reading, draft->optimizer_name));
	draft_narrow_moments(draft);
	draft_update(draft);
	return LK_OK;
}

static void draft_attention(lk_draft *draft) {
	lk_job *job = &draft->job;
	const char *name = draft->attention_name;
	if (draft_has(name, "eager")) job->attn_kernel = LK_KERNEL_UNFUSED;
	if (!draft_has(name, "flash")) return;
	job->attn_kernel = LK_KERNEL_FLASH;
	job->attn_library = draft_has(name, "3") ? LK_ATTN_LIBRARY_FLASH3 : LK_ATTN_LIBRARY_FLASH;
	job->attn_library_said = true;
}

static void draft_pipeline(lk_draft *draft) {
	static const struct {
		const char *part;
		lk_schedule_kind kind;
	} names[] = {{"interleaved", LK_SCHED_INTERLEAVED},
	             {"zbv", LK_SCHED_ZB_V},
	             {"dualpipev", LK_SCHED_DUALPIPE_V},
	             {"dualpipe", LK_SCHED_DUALPIPE},
	             {"gpipe", LK_SCHED_GPIPE},
	             {"afab", LK_SCHED_GPIPE},
	             {"1f1b", LK_SCHED_1F1B}};
	lk_job *job = &draft->job;
	if (job->pp <= 1) {
		job->vp = 0;
		job->schedule_said = false;
		return;
	}
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (draft_has(draft->schedule_name, names[i].part)) {
			job->schedule = names[i].kind;
			job->schedule_said = true;
			break;
		}
	bool chunks = job->schedule_said && job->schedule == LK_SCHED_INTERLEAVED;
	lk_model model = job->model;
	bool known = model.layers > 0 || lk_model_preset(draft->network, &model, NULL) == LK_OK;
	if (chunks && job->vp <= 1 && draft->stage_layers > 0 && known) {
		int stages = (model.layers + draft->stage_layers - 1) / draft->stage_layers;
		job->vp = (stages + (draft->stages_up ? job->pp - 1 : 0)) / job->pp;
		lk_launch_split(job, &model, 0, 0);
	}
	if (chunks && job->vp <= 1) job->schedule_said = false;
}

/* Recomputation, from a switch or a word. */
static lk_status draft_recompute(const lk_config *config, lk_draft *draft) {
	lk_job *job = &draft->job;
	const char *text = draft->recompute_text;
	if (!*text) return LK_OK;
	draft->host_activations |= draft_has(text, "offload");
	static const char *const words[] = {"false",  "true",    "0",  "1",       "none",  "full",
	                                    "select", "offload", "on", "unsloth", "block", "uniform"};
	bool known = false;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) known |= draft_has(text, words[i]);
	if (!known)
		return lk_config_fail(config, "gradient_checkpointing", "it is neither true nor false",
		                      "write true, false or selective");
	job->recompute_said = true;
	if (strcasecmp(text, "false") == 0 || strcasecmp(text, "none") == 0 || strcmp(text, "0") == 0)
		job->recompute = LK_RECOMPUTE_NONE;
	else job->recompute = draft_has(text, "selective") ? LK_RECOMPUTE_SELECTIVE : LK_RECOMPUTE_FULL;
	return LK_OK;
}

static lk_status draft_gpus(const lk_config *config, lk_draft *draft) {
	lk_reading *reading = config->reading;
	int64_t stated = draft->all_gpus, replicas = 1;
	if (stated <= 0 && (draft->nodes > 0 || draft->per_node > 0)) {
		stated = draft->nodes > 0 ? draft->nodes : 1;
		stated *= draft->per_node > 0 ? draft->per_node : 8;
	}
	if (stated > LK_JOB_GPUS)
		return lk_config_fail(config, "GPUs", "more than can be predicted", "state fewer");
	if (draft->dp > 1) replicas = draft->dp;
	else if (draft->dp_shard > 1) replicas = draft->dp_shard;
	if (draft->dp <= 1 && draft->dp_replicate > 1) replicas *= draft->dp_replicate;
	bool exact = draft->all_gpus > 0;
	return lk_launch_count_gpus(reading, &draft->job, replicas, (int)stated, exact);
}

/* Micro-batches of as many tokens as fit: so many sequences that they divide those of a rank. */
static lk_status draft_fit_micro(const lk_config *config, lk_draft *draft) {
	const lk_launch *out = config->reading->out;
	lk_job *job = &draft->job;
	int64_t gpus = out->gpus > 0 ? out->gpus : out->gpus_assumed, block = 1;
	lk_launch_least_gpus(job, 1, &block);
	if (draft->mbs_most <= 0 || job->gbs <= 0) return LK_OK;
	int64_t replicas = gpus > block ? gpus / block : 1, each = job->gbs / replicas;
	if (each == 0 || job->gbs % replicas != 0) return LK_OK;
	int64_t fit = draft->mbs_most < each ? draft->mbs_most : each;
	while (each % fit != 0) fit--;
	LK_ASSERT(fit >= 1);
	job->mbs = (int)fit;
	if (fit == draft->mbs_most) return LK_OK;
	return lk_launch_assume(
		config->reading,
		"%smicro-batches of %d %s, which divide the %lld of a rank: %d would fit "
		"in the tokens of one",
		*draft->rollout.task ? "the training alone (--task sft) has " : "", job->mbs,
		lk_noun(job->mbs, "sequence", "sequences"), (long long)each, draft->mbs_most);
}

/* Ulysses with fewer key-value heads than ranks repeats them; it is priced as a ring between groups
 * that exchange as many as there are. */
static lk_status draft_heads(const lk_config *config, lk_draft *draft) {
	lk_job *job = &draft->job;
	lk_model model = job->model;
	if (job->cp_kind != LK_CP_ULYSSES || job->cp <= 1 || job->cp_heads > 0) return LK_OK;
	if (model.layers == 0 && lk_model_preset(draft->network, &model, NULL) != LK_OK) return LK_OK;
	int heads = model.kv_heads, rest = job->cp;
	if (heads <= 0 || job->tp > 1 || heads % job->cp == 0) return LK_OK;
	while (rest > 0) { /* the greatest common divisor */
		int next = heads % rest;
		heads = rest;
		rest = next;
	}
	if (heads > 1) job->cp_heads = heads;
	else job->cp_kind = LK_CP_RING;
	return lk_launch_assume(config->reading,
	                        "%d %s, which Ulysses repeats for %d ranks, are priced as a ring of "
	                        "groups of %d",
	                        model.kv_heads,
	                        lk_noun(model.kv_heads, "key-value head", "key-value heads"), job->cp,
	                        heads);
}

/* The name of a published DeepSpeed configuration gives its stage and offload.
 * zero3_bf16_cpuoffload_all and ds_z3_offload offload parameters and optimizer states,
 * zero3_bf16_cpuoffload_params only parameters, lower stages only optimizer states. */
lk_status lk_deepspeed_named(lk_reading *reading, const char *path) {
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *stage = strpbrk(name, "0123");
	lk_job *job = reading->out->job;
	lk_copy(job->stack, sizeof job->stack, "deepspeed");
	job->sharding = stage ? (lk_sharding)(*stage - '0') : LK_SHARD_NONE;
	job->sharding_said = true;
	bool moves = draft_has(name, "offload"), alone = draft_has(name, "offload_params");
	job->offload_optimizer |= moves && !alone;
	LK_TRY(lk_launch_assume(reading,
	                        "ZeRO stage %d%s, by the name of %.80s, which is not here "
	                        "(--deepspeed-config)",
	                        (int)job->sharding,
	                        job->offload_optimizer ? " with an offloaded optimizer" : "", name));
	bool params = moves && job->sharding == LK_SHARD_ZERO3;
	return params ? lk_launch_offload_params(reading, job, name) : LK_OK;
}

/* CPU offload of parameters, optimizer states and activations. */
static lk_status draft_offload(const lk_config *config, lk_draft *draft) {
	lk_reading *reading = config->reading;
	bool shards = draft->host_shards || draft_has(draft->fsdp, "offload");
	if (shards && !lk_job_uses_deepspeed(&draft->job))
		LK_TRY(lk_launch_offload_shards(reading, &draft->job, "offload of parameters"));
	if (draft->host_params)
		LK_TRY(lk_launch_offload_params(reading, &draft->job, "offload of parameters"));
	if (!draft->host_activations) return LK_OK;
	return lk_launch_offload_activations(reading, &draft->job, "offload of activations",
	                                     draft->network);
}

/* Weight bits in the name of a quantised checkpoint (GPTQ, AWQ, bitsandbytes); 0: not quantised,
 * -1: not 4 bits. */
static int draft_named_bits(const char *name) {
	static const char *const others[] = {"aqlm", "int8", "8bit", "8-bit", "2bit", "3bit"};
	static const char *const four[] = {"awq", "gptq", "bnb-4bit", "int4", "bnb-nf4"};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (strcasestr(name, others[i])) return -1;
	for (size_t i = 0; i < sizeof four / sizeof *four; i++)
		if (strcasestr(name, four[i])) return 4;
	return 0;
}

/* Distillation: look up the frozen teacher, which reads the same batch as the job's network. */
static lk_status draft_teacher(lk_reading *reading, lk_draft *draft) {
	if (!*draft->teacher) return LK_OK;
	lk_model *teacher = LK_NEW(reading->arena, lk_model);
	if (!teacher) return lk_oom(reading->err);
	if (lk_model_preset(draft->teacher, teacher, NULL) != LK_OK)
		return lk_launch_note(reading, draft->teacher_key,
		                      "no network of this name is known: its forward pass is not priced "
		                      "(--teacher)");
	draft->job.teacher = teacher;
	return LK_OK;
}

/* What adapters adapt: what is named, else all linear layers, as these frameworks do by default or
 * in their examples. "(q|v)_proj" of a pattern names q_proj and v_proj. */
static lk_status draft_adapted(lk_reading *reading, lk_draft *draft) {
	lk_job *job = &draft->job;
	const char *names = draft->lora_modules, *group = strchr(names, '(');
	char all[2 * sizeof draft->lora_modules];
	lk_text text = lk_text_begin(all, sizeof all);
	for (; group; group = strchr(group + 1, '(')) {
		size_t end = strcspn(group, ")");
		const char *rest = group[end] ? group + end + 1 : "";
		if (*rest != '_') continue;
		for (const char *one = group + 1; one < group + end; one += strcspn(one, "|)") + 1)
			lk_text_add(&text, "%.*s%.*s,", (int)strcspn(one, "|)"), one,
			            (int)strspn(rest, "_abcdefghijklmnopqrstuvwxyz"), rest);
	}
	int parts = lk_adapters_find(text.used ? all : names);
	bool named = names[strspn(names, ", []'\"")] != '\0';
	if (draft->adapts_query) parts |= LK_ADAPT_QUERY;
	if (draft->adapts_key) parts |= LK_ADAPT_KEY;
	if (draft->adapts_value) parts |= LK_ADAPT_VALUE;
	if (draft->adapts_out) parts |= LK_ADAPT_OUT;
	if (draft->named_mlp) parts |= LK_ADAPT_MLP;
	if (job->task != LK_TASK_LORA || *job->lora_targets) return LK_OK;
	lk_adapters_name(parts ? parts : LK_ADAPT_LINEAR, job->lora_targets, sizeof job->lora_targets);
	bool some = !parts && named && !strstr(names, "all") && !strchr(names, '*');
	return some ? lk_launch_assume(reading, "adapters are on all linear layers, as not all of "
	                                        "those that are named are known (--lora-targets)")
	            : LK_OK;
}

lk_status lk_draft_finish(const lk_config *config, lk_draft *draft) {
	lk_reading *reading = config->reading;
	lk_job *job = &draft->job;
	int bits = draft_named_bits(draft->network);
	if (draft->named) job->model = (lk_model){0};
	if (draft->samples) reading->out->samples = draft->samples;
	if (bits > 0 && draft->quantization_bits == 0) draft->quantization_bits = bits;
	draft->quantized |= bits < 0;
	LK_TRY(draft_teacher(reading, draft));
	draft_numbers(draft);
	LK_TRY(draft_optimizer(reading, draft));
	draft_attention(draft);
	LK_TRY(draft_heads(config, draft));
	draft_pipeline(draft);
	LK_TRY(draft_recompute(config, draft));
	LK_TRY(draft_gpus(config, draft));
	LK_TRY(draft_fit_micro(config, draft));
	draft_sharding(draft);
	LK_TRY(draft_offload(config, draft));
	/* these losses work on logits in place */
	if (job->loss == LK_LOSS_LINEAR || job->loss == LK_LOSS_CUT) job->fused_cross_entropy = LK_AUTO;
	if (job->labels > 0 || lk_objective_of(job->objective)->labels > 0) {
		job->loss = LK_LOSS_LOGITS; /* none of them is made by a loss */
		job->fused_cross_entropy = LK_AUTO;
	}
	if (draft->adapter || job->lora_rank > 0) job->task = LK_TASK_LORA;
	LK_TRY(draft_adapted(reading, draft));
	if (job->task != LK_TASK_LORA) job->lora_dropout = 0;
	job->narrow_base |= draft->quantization_bits == 4 || draft->quantization_bits == 8;
	if (draft->quantization_bits == 8 && job->base == LK_BASE_NF4) job->base = LK_BASE_INT8;
	if (job->task != LK_TASK_LORA) job->narrow_base = job->dora = false;
	if ((draft->quantized || draft->quantization_bits > 0) && !job->narrow_base)
		LK_TRY(lk_launch_note(
			reading, "quantized weights",
			"without adapters, or in formats other than NF4 and LLM.int8, weights are priced as "
			"16-bit ones"));
	config->reading->out->pairs = draft->pairs;
	if (draft->pairs) {
		job->mbs *= 2, job->gbs *= 2;
		LK_TRY(lk_launch_assume(reading, "a pair of preferences is two sequences"));
	}
	if (job->gbs == 0 && draft->accumulation > 0) job->microbatches = draft->accumulation;
	if (job->gbs == 0 && job->mbs > 0 && job->microbatches == 0) job->microbatches = 1;
	if (!job->sharding_said) {
		job->sharding = LK_SHARD_NONE;
		job->sharding_said = true;
	}
	if (!job->stack[0]) lk_copy(job->stack, sizeof job->stack, "ddp");
	if (job->tp <= 1) job->sequence_parallel = job->tp_overlap = LK_AUTO;
	if (job->tp == 0) job->tp = 1;
	if (job->pp == 0) job->pp = 1;
	if (job->cp == 0) job->cp = 1;
	if (*draft->network)
		LK_TRY(lk_launch_network_of_file(reading,
		                                 *draft->network_key ? draft->network_key : "model",
		                                 draft->network, config->file));
	LK_ASSERT(job->tp > 0 && job->pp > 0 && job->cp > 0 && *job->stack);
	LK_ASSERT(job->sharding >= LK_SHARD_NONE && job->sharding <= LK_SHARD_ZERO3);
	*reading->out->job = *job;
	const lk_value *inner = lk_config_at(config->root, "deepspeed");
	if (inner && inner->kind == LK_JSON_OBJECT) return lk_deepspeed_tree(reading, inner);
	if (*draft->deepspeed) {
		const char *path = lk_config_beside(reading->arena, config->file, draft->deepspeed);
		return path ? lk_deepspeed_apply(reading, path)
		            : lk_deepspeed_named(reading, draft->deepspeed);
	}
	return LK_OK;
}
