/* keys_maxtext.c: MaxText (AI-Hypercomputer/maxtext, src/maxtext/configs): what no row can say.
 *
 *     samples of a replica's micro-batch = per_device_batch_size * tp * cp * pp / micro-batches
 *
 * global_parameter_scale 2^n widens a network that no model_name names, in rounds of three: heads
 * and MLP, then the hidden size, then the layers (utils/max_utils, get_individual_scales). */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/text.h"
#include "io/document.h"
#include "io/embedded.h"
#include "launch/config/tables.h"
#include "launch/frameworks/frameworks.h"
#include "model/read/read.h"

LK_KEYS(maxtext);

enum { SIZE_MOST = 1 << 24 /* of a network, of micro-batches */ };

bool lk_maxtext_is(const char *program) {
	return strcasestr(program, "maxtext") != NULL;
}

bool lk_maxtext_states(const char *key) {
	for (const lk_key *row = lk_keys_maxtext; row->path; row++)
		if (strcmp(row->path, key) == 0)
			return row->kind == LK_KEY_FACT || row->kind == LK_KEY_RULE;
	return false;
}

/* ---- configurations that MaxText brings along: data/launch/maxtext_files.yaml */

const char *lk_maxtext_file(lk_reading *reading, const char *name, bool *known) {
	static const char none[] = "per_device_batch_size: 12\nmax_target_length: 2048\n";
	lk_arena *arena = reading->arena;
	const char *slash = strrchr(name, '/'), *stem = slash ? slash + 1 : name;
	size_t size, length = strlen(stem);
	lk_value *files;
	*known = false;
	const char *text = lk_data_file("launch/maxtext_files.yaml", &size);
	if (lk_ends_in(stem, ".yml")) length -= 4;
	else if (lk_ends_in(stem, ".yaml")) length -= 5;
	if (!text || lk_document_parse(arena, text, size, "maxtext_files.yaml", &files, NULL) != LK_OK)
		return none;
	for (size_t i = 0; i < files->count; i++) {
		const lk_value *file = &files->items[i];
		if (strlen(files->keys[i]) != length || strncmp(files->keys[i], stem, length) != 0)
			continue;
		*known = true;
		const char *out = "per_device_batch_size: 12\nmax_target_length: 2048\n";
		for (size_t k = 0; out && k < file->count; k++) {
			const char *value = lk_config_text(&file->items[k]);
			out = lk_arena_printf(arena, "%s%s: %s\n", out, file->keys[k], value ? value : "null");
		}
		return out;
	}
	return none;
}

/* ---- the network ---- */

/* A whole number of the file; 0: none. */
static int maxtext_whole(const lk_config *config, const char *key) {
	const char *text = lk_config_text(lk_config_at(config->root, key));
	long long number;
	bool whole = text && lk_parse_int(text, 1, SIZE_MOST, &number, key, NULL) == LK_OK;
	return whole ? (int)number : 0;
}

static lk_status maxtext_scale(const lk_config *config, lk_model *model) {
	int scale = maxtext_whole(config, "global_parameter_scale"), log = 0;
	while (scale >> (log + 1)) log++;
	if (scale <= 1) return LK_OK;
	if (scale != 1 << log)
		return lk_config_fail(config, "global_parameter_scale", "it is no power of 2",
		                      "give a power of 2, or the sizes themselves");
	int rounds = log / 3, rest = log % 3;
	int wide = rounds + (rest > 0), wider = rounds + (rest > 1);
	const struct {
		int *size, log;
	} sizes[] = {{&model->heads, wide},
	             {&model->kv_heads, wide},
	             {&model->ffn, wide},
	             {&model->hidden, wider},
	             {&model->layers, rounds}};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		if (*sizes[i].size > SIZE_MOST >> sizes[i].log)
			return lk_config_fail(config, "global_parameter_scale", "the network is too large",
			                      "give a smaller power of 2");
		*sizes[i].size <<= sizes[i].log;
	}
	return LK_OK;
}

static bool maxtext_has(const lk_config *config, const char *key, const char *wanted) {
	const lk_value *value = lk_config_at(config->root, key);
	if (!value || value->kind != LK_JSON_ARRAY) {
		const char *text = lk_config_text(value);
		return text && strstr(text, wanted) != NULL;
	}
	for (size_t i = 0; i < value->count; i++) {
		const char *text = lk_config_text(&value->items[i]);
		if (text && strcmp(text, wanted) == 0) return true;
	}
	return false;
}

/* The network of base_* sizes. */
static lk_status maxtext_shape(const lk_config *config, lk_model *model) {
	bool gpt = maxtext_has(config, "decoder_block", "gpt3");
	if (model->hidden <= 0 || model->heads <= 0 || model->layers <= 0 || model->ffn <= 0)
		return lk_config_fail(config, "base_emb_dim", "a size of the network is missing",
		                      "state model_name, or all base_ sizes");
	lk_fill_int(&model->kv_heads, model->heads);
	LK_TRY(maxtext_scale(config, model));
	lk_fill_int(&model->head_dim, model->hidden / model->heads);
	model->context = maxtext_whole(config, "max_target_length");
	model->norm = gpt ? LK_NORM_LAYER : LK_NORM_RMS;
	model->norm_bias = gpt;
	model->norms_per_layer = 2;
	model->final_norm = model->lm_head = true;
	model->gated = maxtext_has(config, "mlp_activations", "linear");
	model->position_rows = maxtext_whole(config, "trainable_position_size");
	if (model->position_rows == 0) model->rotary_base = 1e4;
	if (model->experts > 1) {
		model->moe_every = 1;
		lk_fill_int(&model->topk, 1);
		lk_fill_int(&model->expert_ffn, model->ffn);
	} else model->experts = model->topk = model->expert_ffn = 0;
	lk_copy(model->name, sizeof model->name, "maxtext");
	return lk_model_check(model, config->reading->where, config->reading->err);
}

lk_status lk_own_maxtext_network(const lk_config *config, lk_draft *draft) {
	const char *name = lk_config_text(lk_config_at(config->root, "model_name"));
	lk_model *model = &draft->job.model;
	bool found;
	if (!name || strcmp(name, "default") == 0) return maxtext_shape(config, model);
	*model = (lk_model){0};
	LK_TRY(lk_launch_own_network(config->reading, lk_networks_maxtext, "model_name", name,
	                             &draft->job, &found));
	return found ? LK_OK : lk_launch_network(config->reading, "model_name", name);
}

/* ---- the batch ---- */

/* Ranks that share the samples of a replica. */
static double maxtext_ranks(const lk_job *job) {
	double ranks = job->tp > 1 ? job->tp : 1;
	if (job->pp > 1) ranks *= job->pp;
	if (job->cp > 1) ranks *= job->cp;
	return ranks;
}

/* Stages are passed as often as they hold a layer; num_layers_per_pipeline_stage is 1. */
static void maxtext_stages(const lk_config *config, lk_job *job) {
	const char *name = config->reading->out->network;
	int repeats = maxtext_whole(config, "num_pipeline_repeats");
	int layers = maxtext_whole(config, "num_layers_per_pipeline_stage");
	lk_model model = job->model;
	if (layers == 0) layers = 1;
	bool known = model.layers > 0 || (name && lk_model_preset(name, &model, NULL) == LK_OK);
	int64_t pass = (int64_t)job->pp * layers;
	if (repeats == 0 && known && model.layers % pass == 0) repeats = (int)(model.layers / pass);
	if (repeats <= 1) return;
	job->vp = repeats;
	job->schedule = LK_SCHED_INTERLEAVED;
	job->schedule_said = true;
}

lk_status lk_own_maxtext_batch(const lk_config *config, lk_draft *draft) {
	lk_job *job = &draft->job;
	double share = draft->device_batch * maxtext_ranks(job);
	int pieces = maxtext_whole(config, "num_pipeline_microbatches");
	char said[120];
	if (job->pp <= 1) pieces = 1;
	else maxtext_stages(config, job);
	if (pieces == 0) pieces = job->pp;
	if (pieces > 1 && draft->accumulation > SIZE_MOST / pieces)
		return lk_config_fail(config, "num_pipeline_microbatches", "too many micro-batches",
		                      "give fewer");
	if (pieces > 1)
		draft->accumulation = pieces * (draft->accumulation > 1 ? draft->accumulation : 1);
	if (pieces > 1) job->microbatches = draft->accumulation;
	share /= pieces;
	snprintf(said, sizeof said, "%g samples of a device are %g of a replica's micro-batch",
	         draft->device_batch, share);
	if (!(share >= 1 && share <= 1 << 20 && share == floor(share)))
		return lk_config_fail(config, "per_device_batch_size", said,
		                      "state a batch that the replicas divide into whole samples");
	job->mbs = (int)share;
	return LK_OK;
}
