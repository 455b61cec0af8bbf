/* job_fields.c: the fields of a job by name, with how each is read and written as text. Derived
 * fields (dp, micro-batches) are not among them: lk_job_complete finds them again. */
#include "launch/launch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/text.h"

static const char *const networks[] = {"decoder", "encoder", "encdec", NULL};
static const char *const norms[] = {"rms", "layer", NULL};
static const char *const attentions[] = {"heads", "mla", NULL};
static const char *const tasks[] = {"pretrain", "sft", "lora", NULL};
static const char *const cp_kinds[] = {"ring", "allgather", NULL};
static const char *const shardings[] = {"none", "zero1", "zero2", "zero3", NULL};
static const char *const schedules[] = {"gpipe", "1f1b",     "interleaved", "zb-h1",
                                        "zb-v",  "dualpipe", NULL};
static const char *const dtypes[] = {"fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4", NULL};
static const char *const optimizers[] = {"adam", "sgd", "lamb", "adafactor", NULL};
static const char *const recomputes[] = {"none", "selective", "full", NULL};
static const char *const kernels[] = {"flash", "unfused", NULL};
static const char *const libraries[] = {"auto", "cudnn", "flash", NULL};
static const char *const dispatchers[] = {"alltoall", "allgather", "node", NULL};
static const char *const switches[] = {"off", "auto", "on", NULL};

#define SIZE(field) sizeof(((lk_job *)0)->field)
#define FIELD(name, kind, field) \
	{ name, kind, offsetof(lk_job, field), SIZE(field), NULL, 0, 0 }
#define INT(field)  FIELD(#field, LK_FIELD_INT, field)
#define REAL(field) FIELD(#field, LK_FIELD_REAL, field)
#define BOOL(field) FIELD(#field, LK_FIELD_BOOL, field)
#define SWITCH(field) \
	{ #field, LK_FIELD_SWITCH, offsetof(lk_job, field), SIZE(field), switches, LK_OFF, 0 }
#define CHOICE(field, list) \
	{ #field, LK_FIELD_CHOICE, offsetof(lk_job, field), SIZE(field), list, 0, 0 }
#define SAID(field, list)                                                       \
	{                                                                           \
#field, LK_FIELD_CHOICE, offsetof(lk_job, field), SIZE(field), list, 0, \
			offsetof(lk_job, field##_said)                                      \
	}
#define M_INT(field)  FIELD(#field, LK_FIELD_INT, model.field)
#define M_BOOL(field) FIELD(#field, LK_FIELD_BOOL, model.field)
#define M_CHOICE(field, list) \
	{ #field, LK_FIELD_CHOICE, offsetof(lk_job, model.field), SIZE(model.field), list, 0, 0 }

const lk_field lk_job_fields[] = {
	FIELD("model", LK_FIELD_TEXT, model.name),
	FIELD("family", LK_FIELD_TEXT, model.family),
	M_CHOICE(network, networks),
	M_INT(layers),
	M_INT(decoder_layers),
	M_INT(hidden),
	M_INT(heads),
	M_INT(kv_heads),
	M_INT(head_dim),
	M_INT(ffn),
	M_INT(vocab),
	M_INT(context),
	M_CHOICE(norm, norms),
	M_INT(norms_per_layer),
	M_BOOL(qk_norm),
	M_BOOL(embed_norm),
	M_BOOL(final_norm),
	M_BOOL(qkv_bias),
	M_BOOL(out_bias),
	M_BOOL(mlp_bias),
	M_BOOL(norm_bias),
	M_BOOL(head_bias),
	M_BOOL(gated),
	M_BOOL(parallel_residual),
	M_BOOL(tied),
	M_INT(position_rows),
	M_INT(token_types),
	M_INT(embed_dim),
	M_BOOL(pooler),
	M_BOOL(head_transform),
	M_BOOL(lm_head),
	M_INT(relative_buckets),
	FIELD("dropout", LK_FIELD_REAL, model.dropout),
	M_CHOICE(attention, attentions),
	M_INT(q_lora),
	M_INT(kv_lora),
	M_INT(qk_nope),
	M_INT(qk_rope),
	M_INT(v_dim),
	M_INT(attention_sinks),
	M_INT(experts),
	M_INT(topk),
	M_INT(expert_ffn),
	M_INT(shared_ffn),
	M_INT(dense_layers),
	M_INT(moe_every),
	M_INT(moe_offset),
	M_BOOL(router_bias),
	M_BOOL(expert_bias),
	M_BOOL(clipped_glu),
	M_INT(window),
	M_INT(full_every),
	M_INT(mtp_layers),
	M_INT(image),
	M_INT(patch),
	M_INT(channels),
	CHOICE(task, tasks),
	INT(lora_rank),
	INT(gpus),
	INT(tp),
	INT(pp),
	INT(vp),
	INT(cp),
	INT(ep),
	INT(etp),
	SWITCH(sequence_parallel),
	CHOICE(cp_kind, cp_kinds),
	SWITCH(cp_balanced),
	SAID(sharding, shardings),
	INT(shard_group),
	SAID(schedule, schedules),
	INT(first_stage_layers),
	INT(last_stage_layers),
	BOOL(account_embedding),
	BOOL(account_loss),
	FIELD("pipeline_layout", LK_FIELD_TEXT, pipeline_layout),
	INT(mbs),
	INT(gbs),
	INT(seq),
	INT(decoder_seq),
	INT(microbatch_group),
	SAID(dtype, dtypes),
	CHOICE(optimizer, optimizers),
	CHOICE(state_dtype, dtypes),
	SWITCH(master_weights),
	SWITCH(fp32_grads),
	SWITCH(grad_reduce_fp32),
	SAID(recompute, recomputes),
	INT(recompute_layers),
	BOOL(recompute_mlp),
	BOOL(recompute_norms),
	BOOL(recompute_expert_activation),
	BOOL(recompute_latent_up),
	SWITCH(overlap_grad_reduce),
	SWITCH(overlap_param_gather),
	SWITCH(overlap_p2p),
	SWITCH(tp_overlap),
	REAL(bucket_bytes),
	BOOL(offload_optimizer),
	SWITCH(cuda_graphs),
	SWITCH(graph_experts),
	SWITCH(expert_overlap),
	SWITCH(scatter_messages),
	CHOICE(attn_kernel, kernels),
	SWITCH(fused_cross_entropy),
	REAL(logit_share),
	BOOL(fused_kernels),
	BOOL(host_ahead),
	CHOICE(attn_library, libraries),
	BOOL(local_layers),
	BOOL(deterministic),
	BOOL(attention_mask),
	BOOL(native_loss_fusion),
	SWITCH(defer_head_gradient),
	INT(deferral_limit),
	BOOL(grouped_gemm),
	BOOL(narrow_weights),
	CHOICE(dispatcher, dispatchers),
	REAL(moe_imbalance),
	BOOL(compile),
	INT(max_connections),
	FIELD("stack", LK_FIELD_TEXT, stack),
	FIELD("profile", LK_FIELD_TEXT, profile),
	FIELD("release", LK_FIELD_TEXT, release),
	INT(vocab_multiple),
	{NULL, LK_FIELD_INT, 0, 0, NULL, 0, 0},
};

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
	if (field->kind == LK_FIELD_TEXT)
		return strcmp(fields_place(field, a), fields_place(field, b)) == 0;
	if (field->kind == LK_FIELD_REAL)
		return *(const double *)fields_place(field, a) == *(const double *)fields_place(field, b);
	return memcmp(fields_place(field, a), fields_place(field, b), field->size) == 0;
}

/* Between single quotes where a shell would read anything but the text itself. */
const char *lk_field_text(lk_arena *arena, const lk_field *field, const lk_job *job) {
	switch (field->kind) {
	case LK_FIELD_TEXT: return lk_shell_quote(arena, fields_place(field, job));
	case LK_FIELD_REAL:
		return lk_arena_printf(arena, "%.17g", *(const double *)fields_place(field, job));
	case LK_FIELD_BOOL: return *(const bool *)fields_place(field, job) ? "1" : "0";
	case LK_FIELD_CHOICE:
	case LK_FIELD_SWITCH: return field->choices[fields_whole(field, job) - field->first];
	case LK_FIELD_INT: break;
	}
	return lk_arena_printf(arena, "%d", fields_whole(field, job));
}

static lk_status set_choice(lk_job *job, const lk_field *field, const char *value, lk_error *err) {
	for (int i = 0; field->choices[i] != NULL; i++) {
		if (!lk_same_name(value, field->choices[i])) continue;
		int number = i + field->first;
		memcpy((char *)job + field->offset, &number, sizeof number);
		return LK_OK;
	}
	lk_fail(err, LK_ERR_INPUT, field->name, "\"%s\" is not among its values", value);
	return lk_hint(err, "the first are %s and %s", field->choices[0], field->choices[1]);
}

static lk_status fields_set_value(lk_job *job, const lk_field *field, const char *value,
                                  lk_error *err) {
	void *at = (char *)job + field->offset;
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
	case LK_FIELD_SWITCH: return set_choice(job, field, value, err);
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
		if (field->said != 0) *(bool *)((char *)job + field->said) = true;
		return fields_set_value(job, field, value, err);
	}
	return LK_OK;
}
