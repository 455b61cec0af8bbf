/* job_fields.c: the fields of a job by name, with how each is read and written as text. Derived
 * fields (dp, micro-batches) are not among them: lk_job_complete finds them again. */
#include "base/arena.h"
#include "launch/reading/reading.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/check.h"
#include "base/text.h"

static const char *const networks[] = {"decoder", "encoder", "encdec", NULL};
static const char *const norms[] = {"rms", "layer", NULL};
static const char *const activations[] = {"kernel", "relu", "steps", NULL};
static const char *const attentions[] = {"heads", "mla", NULL};
static const char *const tasks[] = {"pretrain", "sft", "lora", NULL};
static const char *const loaded[] = {"wide", "unsharded", "torch", NULL};
static const char *const cp_kinds[] = {"ring", "allgather", "ulysses", NULL};
static const char *const shardings[] = {"none", "zero1", "zero2", "zero3", NULL};
static const char *const schedules[] = {"gpipe",  "1f1b",     "interleaved", "zb-h1",
                                        "zb-v",   "dualpipe", "zb-h2",       "dualpipev",
                                        "v-half", "v-min",    NULL};
static const char *const updates[] = {"usual", "loop", "foreach", "fused", NULL};
static const char *const dtypes[] = {"fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4", NULL};
static const char *const recomputes[] = {"none", "selective", "full", NULL};
static const char *const kernels[] = {"flash", "unfused", NULL};
static const char *const libraries[] = {"auto", "cudnn", "flash", "fa3", NULL};
static const char *const dispatchers[] = {"alltoall", "allgather", "node", NULL};
static const char *const recipes[] = {"delayed", "tensorwise", "blockwise", "rowwise", NULL};
static const char *const switches[] = {"off", "auto", "on", NULL};

/* clang-format off */
#define FIELD(name_, kind_, field) \
	.name = name_, .kind = LK_FIELD_##kind_, .offset = offsetof(lk_job, field), \
	.size = sizeof(((lk_job *)0)->field)
#define INT(field) FIELD(#field, INT, field)
#define REAL(field) FIELD(#field, REAL, field)
#define BOOL(field) FIELD(#field, BOOL, field)
#define SWITCH(field) FIELD(#field, SWITCH, field), .choices = switches, .first = LK_OFF
#define CHOICE(field, list) FIELD(#field, CHOICE, field), .choices = list
/* A choice that is open until `field`_said is true. */
#define SAID(field, list) CHOICE(field, list), .said = offsetof(lk_job, field##_said)
#define M_INT(field) FIELD(#field, INT, model.field)
#define M_BOOL(field) FIELD(#field, BOOL, model.field)
#define TOWER(field) FIELD("tower_" #field, INT, model.tower.field)
#define PROJECT(name_, field) FIELD(name_, INT, model.tower.project.field)
#define M_CHOICE(field, list) FIELD(#field, CHOICE, model.field), .choices = list

/* Two kinds of fields: the network and its training, and the layout over ranks, which a search
 * varies. */
#define JOB .layout = false
#define LAYOUT .layout = true

const lk_field lk_job_fields[] = {
	{FIELD("model", TEXT, model.name), JOB},
	{FIELD("family", TEXT, model.family), JOB},
	{M_CHOICE(network, networks), JOB},
	{M_INT(layers), JOB},
	{FIELD("order", TEXT, model.order), JOB},
	{M_INT(decoder_layers), JOB},
	{M_INT(hidden), JOB},
	{M_INT(heads), JOB},
	{M_INT(kv_heads), JOB},
	{M_INT(head_dim), JOB},
	{M_INT(ffn), JOB},
	{M_INT(vocab), JOB},
	{M_INT(context), JOB},
	{M_CHOICE(norm, norms), JOB},
	{M_CHOICE(activation, activations), .code = true, JOB},
	{M_BOOL(qkv_joined), .code = true, JOB},
	{M_INT(norms_per_layer), JOB},
	{M_BOOL(qk_norm), JOB},
	{M_BOOL(qk_norm_wide), JOB},
	{M_BOOL(embed_norm), JOB},
	{M_BOOL(final_norm), JOB},
	{M_BOOL(qkv_bias), JOB},
	{M_BOOL(out_bias), JOB},
	{M_BOOL(mlp_bias), JOB},
	{M_BOOL(key_plain), JOB},
	{M_INT(relative_rows), JOB},
	{M_INT(decoder_context), JOB},
	{M_BOOL(norm_bias), JOB},
	{M_BOOL(norm_plain), JOB},
	{M_BOOL(head_bias), JOB},
	{M_BOOL(gated), JOB},
	{M_BOOL(parallel_residual), JOB},
	{M_BOOL(tied), JOB},
	{M_INT(position_rows), JOB},
	{FIELD("rotary_base", REAL, model.rotary_base), JOB},
	{M_INT(token_types), JOB},
	{M_INT(embed_dim), JOB},
	{M_BOOL(pooler), JOB},
	{M_BOOL(head_transform), JOB},
	{M_BOOL(lm_head), JOB},
	{M_INT(relative_buckets), JOB},
	{M_BOOL(relative_all), JOB},
	{FIELD("dropout", REAL, model.dropout), JOB},
	{M_CHOICE(attention, attentions), JOB},
	{M_INT(q_lora), JOB},
	{M_INT(kv_lora), JOB},
	{M_INT(qk_nope), JOB},
	{M_INT(qk_rope), JOB},
	{M_INT(v_dim), JOB},
	{M_INT(window_kv_heads), JOB},
	{M_BOOL(window_sinks), JOB},
	{M_INT(attention_sinks), JOB},
	{M_BOOL(no_positions), JOB},
	{M_BOOL(output_gate), JOB},
	{M_INT(index_heads), JOB},
	{M_INT(index_dim), JOB},
	{M_INT(index_topk), JOB},
	{M_INT(ssm), JOB},
	{M_INT(ssm_inner), JOB},
	{M_INT(ssm_state), JOB},
	{M_INT(ssm_heads), JOB},
	{M_INT(ssm_groups), JOB},
	{M_INT(ssm_conv), JOB},
	{M_INT(ssm_rank), JOB},
	{M_INT(ssm_chunk), JOB},
	{M_BOOL(ssm_bias), JOB},
	{M_BOOL(ssm_conv_bias), JOB},
	{M_BOOL(ssm_norm), JOB},
	{M_INT(shared_sets), JOB},
	{M_INT(attention_inputs), JOB},
	{M_INT(use_mlp_rank), JOB},
	{M_INT(use_qkv_rank), JOB},
	{M_BOOL(use_product), JOB},
	{M_INT(rwkv_inner), JOB},
	{M_INT(rwkv), JOB},
	{M_INT(rwkv_head), JOB},
	{FIELD("rwkv_rank_0", INT, model.rwkv_ranks[0]), JOB},
	{FIELD("rwkv_rank_1", INT, model.rwkv_ranks[1]), JOB},
	{FIELD("rwkv_rank_2", INT, model.rwkv_ranks[2]), JOB},
	{FIELD("rwkv_rank_3", INT, model.rwkv_ranks[3]), JOB},
	{FIELD("streams", INT, model.streams.count), JOB},
	{FIELD("stream_low_rank", INT, model.streams.low_rank), JOB},
	{FIELD("stream_inputs", INT, model.streams.inputs), JOB},
	{FIELD("stream_input_rows", INT, model.streams.input_rows), JOB},
	{FIELD("beside", REAL, model.beside), JOB},
	{M_INT(delta_key_heads), JOB},
	{M_INT(delta_value_heads), JOB},
	{M_INT(delta_key_dim), JOB},
	{M_INT(delta_value_dim), JOB},
	{M_INT(delta_conv), JOB},
	{M_INT(delta_rank), JOB},
	{M_INT(short_conv), JOB},
	{M_INT(experts), JOB},
	{M_INT(topk), JOB},
	{M_INT(expert_ffn), JOB},
	{M_INT(shared_ffn), JOB},
	{M_INT(dense_layers), JOB},
	{M_INT(moe_every), JOB},
	{M_INT(moe_offset), JOB},
	{M_INT(expert_latent), JOB},
	{M_INT(router_groups), JOB},
	{M_INT(router_group_limit), JOB},
	{M_BOOL(shared_gate), JOB},
	{M_BOOL(router_bias), JOB},
	{M_BOOL(expert_bias), JOB},
	{M_BOOL(clipped_glu), JOB},
	{M_INT(window), JOB},
	{M_INT(full_every), JOB},
	{M_INT(mtp_layers), JOB},
	{M_INT(image), JOB},
	{M_INT(patch), JOB},
	{M_INT(channels), JOB},
	{M_INT(patch_frames), JOB},
	{M_BOOL(patch_plain), JOB},
	{M_BOOL(no_class), JOB},
	{M_BOOL(distills), JOB},
	{M_BOOL(layer_scale), JOB},
	{M_INT(loose), JOB},
	{TOWER(layers), JOB},
	{TOWER(hidden), JOB},
	{TOWER(heads), JOB},
	{TOWER(ffn), JOB},
	{TOWER(image), JOB},
	{TOWER(patch), JOB},
	{TOWER(channels), JOB},
	{TOWER(frames), JOB},
	{TOWER(position_rows), JOB},
	{TOWER(window), JOB},
	{TOWER(full_every), JOB},
	{TOWER(class_token), JOB},
	{TOWER(patch_bias), JOB},
	{TOWER(gated), JOB},
	{TOWER(layer_scale), JOB},
	{TOWER(biases), JOB},
	{TOWER(pre_norm), JOB},
	{TOWER(post_norm), JOB},
	{TOWER(rms), JOB},
	{TOWER(qkv_plain), JOB},
	{TOWER(qk_norm), JOB},
	{TOWER(out_plain), JOB},
	{TOWER(tiles), JOB},
	{TOWER(crossed), JOB},
	{TOWER(loose), JOB},
	{TOWER(any_size), JOB},
	{TOWER(images), JOB},
	{TOWER(apart), JOB},
	{PROJECT("tower_project_merge", merge), JOB},
	{PROJECT("tower_project_averages", averages), JOB},
	{PROJECT("tower_project_width_0", width[0]), JOB},
	{PROJECT("tower_project_width_1", width[1]), JOB},
	{PROJECT("tower_project_width_2", width[2]), JOB},
	{PROJECT("tower_project_norms", norms), JOB},
	{PROJECT("tower_project_taps", taps), JOB},
	{PROJECT("tower_project_tap_norms", tap_norms), JOB},
	{PROJECT("tower_project_loose", loose), JOB},
	{PROJECT("tower_project_inputs", inputs), JOB},
	{PROJECT("tower_project_gated", gated), JOB},
	{PROJECT("tower_pool_width", pool.width), JOB},
	{PROJECT("tower_pool_heads", pool.heads), JOB},
	{PROJECT("tower_pool_inputs", pool.inputs), JOB},
	{PROJECT("tower_pool_before", pool.before), JOB},
	{PROJECT("tower_pool_queries", pool.queries), JOB},
	{FIELD("project_bias", BOOL, model.tower.project.bias), JOB},
	{CHOICE(task, tasks), JOB},
	{INT(lora_rank), JOB},
	{FIELD("lora_targets", TEXT, lora_targets), JOB},
	{REAL(lora_dropout), JOB},
	{BOOL(narrow_base), JOB},
	{CHOICE(base, lk_base_names), JOB},
	{BOOL(dora), JOB},
	{CHOICE(objective, lk_objective_names), JOB},
	{INT(labels), JOB},
	{BOOL(value_head), JOB},
	{BOOL(freeze_tower), JOB},
	{INT(gpus), JOB},
	{INT(tp), LAYOUT},
	{INT(pp), LAYOUT},
	{INT(vp), LAYOUT},
	{INT(cp), LAYOUT},
	{INT(ep), LAYOUT},
	{INT(etp), LAYOUT},
	{SWITCH(sequence_parallel), LAYOUT},
	{CHOICE(cp_kind, cp_kinds), JOB},
	{INT(cp_heads), JOB},
	{SWITCH(cp_balanced), JOB},
	{SAID(sharding, shardings), LAYOUT},
	{INT(shard_group), LAYOUT},
	{INT(shard_copies), LAYOUT},
	{SAID(schedule, schedules), LAYOUT},
	{INT(first_stage_layers), LAYOUT},
	{INT(last_stage_layers), LAYOUT},
	{BOOL(account_embedding), LAYOUT},
	{BOOL(account_loss), LAYOUT},
	{FIELD("pipeline_layout", TEXT, pipeline_layout), LAYOUT},
	{INT(mbs), .some = true, LAYOUT},
	{INT(gbs), .some = true, JOB},
	{INT(seq), .some = true, JOB},
	{INT(decoder_seq), JOB},
	{INT(microbatch_group), LAYOUT},
	{SAID(dtype, dtypes), JOB},
	{CHOICE(optimizer, lk_optimizer_names), JOB},
	{CHOICE(update, updates), JOB},
	{INT(muon_steps), JOB},
	{BOOL(muon_syrk), JOB},
	{CHOICE(muon_tp, lk_muon_tp_names), JOB},
	{CHOICE(state_dtype, dtypes), JOB},
	{SWITCH(master_weights), JOB},
	{CHOICE(loaded, loaded), JOB},
	{SWITCH(fp32_grads), JOB},
	{SWITCH(grad_reduce_fp32), JOB},
	{SAID(recompute, recomputes), LAYOUT},
	{INT(recompute_layers), LAYOUT},
	{INT(recompute_modules), JOB},
	{SWITCH(overlap_grad_reduce), LAYOUT},
	{SWITCH(overlap_param_gather), LAYOUT},
	{SWITCH(overlap_p2p), LAYOUT},
	{SWITCH(tp_overlap), LAYOUT},
	{REAL(bucket_bytes), LAYOUT},
	{BOOL(offload_optimizer), JOB},
	{BOOL(offload_activations), JOB},
	{BOOL(optimizer_in_backward), JOB},
	{BOOL(offload_params), JOB},
	{SWITCH(cuda_graphs), JOB},
	{SWITCH(graph_experts), JOB},
	{SWITCH(expert_overlap), JOB},
	{SWITCH(scatter_messages), LAYOUT},
	{CHOICE(attn_kernel, kernels), JOB},
	{SWITCH(fused_cross_entropy), JOB},
	{REAL(logit_share), JOB},
	{REAL(pack_share), JOB},
	{REAL(pack_spread), JOB},
	{BOOL(fused_kernels), JOB},
	{BOOL(own_code), JOB},
	{BOOL(layer_units), JOB},
	{BOOL(host_ahead), JOB},
	{CHOICE(attn_library, libraries), JOB},
	{BOOL(early_attention), JOB},
	{BOOL(local_layers), JOB},
	{BOOL(deterministic), JOB},
	{BOOL(attention_mask), JOB},
	{BOOL(native_loss_fusion), JOB},
	{CHOICE(loss, lk_loss_names), JOB},
	{INT(loss_chunks), JOB},
	{SWITCH(defer_head_gradient), JOB},
	{INT(deferral_limit), JOB},
	{SWITCH(grouped_gemm), JOB},
	{BOOL(narrow_weights), JOB},
	{CHOICE(fp8_recipe, recipes), JOB},
	{BOOL(narrow_activations), JOB},
	{BOOL(delay_weights), JOB},
	{INT(wide_first), JOB},
	{INT(wide_last), JOB},
	{SAID(dispatcher, dispatchers), JOB},
	{SWITCH(fp8_dispatch), JOB},
	{INT(dispatch_sms), JOB},
	{REAL(moe_imbalance), JOB},
	{BOOL(compile), JOB},
	{SWITCH(eager), JOB},
	{SWITCH(ragged), JOB},
	{REAL(ragged_median), JOB},
	{REAL(ragged_spread), JOB},
	{INT(max_connections), JOB},
	{FIELD("alloc_conf", TEXT, alloc_conf), JOB},
	{FIELD("nccl", TEXT, nccl), JOB},
	{FIELD("stack", TEXT, stack), LAYOUT},
	{FIELD("profile", TEXT, profile), JOB},
	{FIELD("release", TEXT, release), JOB},
	{INT(vocab_multiple), JOB},
	{0},
};
/* clang-format on */

static const void *fields_place(const lk_field *field, const lk_job *job) {
	return (const char *)job + field->offset;
}

/* Enumerations are read through memcpy: their width is the compiler's choice. */
static int fields_whole(const lk_field *field, const lk_job *job) {
	int value = 0;
	memcpy(&value, fields_place(field, job), sizeof value);
	return value;
}

bool lk_field_equal(const lk_field *field, const lk_job *a, const lk_job *b) {
	if (field->code && a->eager != LK_ON && b->eager != LK_ON) return true;
	if (field->kind == LK_FIELD_TEXT)
		return strcmp(fields_place(field, a), fields_place(field, b)) == 0;
	if (field->kind == LK_FIELD_REAL)
		return *(const double *)fields_place(field, a) == *(const double *)fields_place(field, b);
	return memcmp(fields_place(field, a), fields_place(field, b), field->size) == 0;
}

const char *lk_field_value(lk_arena *arena, const lk_field *field, const lk_job *job) {
	switch (field->kind) {
	case LK_FIELD_TEXT: return fields_place(field, job);
	case LK_FIELD_REAL:
		return lk_arena_printf(arena, "%.17g", *(const double *)fields_place(field, job));
	case LK_FIELD_BOOL: return *(const bool *)fields_place(field, job) ? "1" : "0";
	case LK_FIELD_CHOICE:
	case LK_FIELD_SWITCH: return field->choices[fields_whole(field, job) - field->first];
	case LK_FIELD_INT: break;
	}
	return lk_arena_printf(arena, "%d", fields_whole(field, job));
}

static lk_status fields_set_choice(void *job, const lk_field *field, const char *value,
                                   lk_error *err) {
	LK_ASSERT(field->size == sizeof(int));
	for (int i = 0; field->choices[i] != NULL; i++) {
		if (!lk_same_name(value, field->choices[i])) continue;
		int number = i + field->first;
		memcpy((char *)job + field->offset, &number, sizeof number);
		return LK_OK;
	}
	lk_fail(err, LK_ERR_INPUT, field->name, "\"%s\" is not among its values", value);
	return lk_hint(err, "the first are %s and %s", field->choices[0], field->choices[1]);
}

lk_status lk_field_put(void *base, const lk_field *field, const char *value, lk_error *err) {
	void *at = (char *)base + field->offset;
	LK_ASSERT(field->kind != LK_FIELD_INT || field->size == sizeof(int));
	LK_ASSERT(field->kind != LK_FIELD_BOOL || field->size == sizeof(bool));
	LK_ASSERT(field->kind != LK_FIELD_REAL || field->size == sizeof(double));
	if (field->said != 0) *(bool *)((char *)base + field->said) = true;
	long long number;
	switch (field->kind) {
	case LK_FIELD_TEXT:
		if (strlen(value) >= field->size)
			return lk_fail(err, LK_ERR_INPUT, field->name, "longer than %zu characters",
			               field->size - 1);
		lk_copy(at, field->size, value);
		return LK_OK;
	case LK_FIELD_REAL: return lk_parse_real(value, 0, 1e18, at, field->name, err);
	case LK_FIELD_BOOL: return lk_parse_bool(value, at, field->name, err);
	case LK_FIELD_CHOICE:
	case LK_FIELD_SWITCH: return fields_set_choice(base, field, value, err);
	case LK_FIELD_INT: break;
	}
	LK_TRY(lk_parse_int(value, 0, 1 << 30, &number, field->name, err));
	*(int *)at = (int)number;
	return LK_OK;
}

lk_status lk_field_set(lk_job *job, const char *name, size_t length, const char *value, bool *known,
                       lk_error *err) {
	*known = false;
	for (const lk_field *field = lk_job_fields; field->name != NULL; field++) {
		if (strlen(field->name) != length || strncasecmp(field->name, name, length) != 0) continue;
		*known = true;
		return lk_field_put(job, field, value, err);
	}
	return LK_OK;
}

void lk_job_open_layout(lk_job *job) {
	for (const lk_field *field = lk_job_fields; field->name != NULL; field++) {
		if (!field->layout) continue;
		LK_ASSERT(field->offset + field->size <= sizeof *job);
		memset((char *)job + field->offset, 0, field->size);
		if (field->said != 0) *(bool *)((char *)job + field->said) = false;
	}
	/* derived of them */
	job->dp = 0;
	job->microbatches = 0;
	if (!job->padded_vocab_said) job->padded_vocab = 0;
}

/* Between single quotes where a shell would read anything but the text itself. */
const char *lk_field_text(lk_arena *arena, const lk_field *field, const lk_job *job) {
	const char *value = lk_field_value(arena, field, job);
	return value != NULL && field->kind == LK_FIELD_TEXT ? lk_shell_quote(arena, value) : value;
}
