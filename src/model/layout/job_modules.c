/* job_modules.c: parts of a layer by name: those that selective recomputation runs again, by the
 * rules of Megatron-LM (megatron/core/transformer/transformer_config.py, transformer_layer.py), and
 * those that have low-rank adapters. */
#include "model/layout/job.h"

#include <stdio.h>
#include <string.h>
#include "base/arena.h"
#include "base/text.h"

const char *const lk_module_name[] = {
	"core_attn", "mlp", "moe", "layernorm", "moe_act", "mla_up_proj", "shared_experts", NULL};
enum { MODULES = sizeof lk_module_name / sizeof *lk_module_name - 1 };

_Static_assert(1 << MODULES == LK_MODULES_END, "a name for each module");

static int named(const char *name, size_t size) {
	for (int i = 0; i < MODULES; i++)
		if (strlen(lk_module_name[i]) == size && strncmp(lk_module_name[i], name, size) == 0)
			return 1 << i;
	return 0;
}

int lk_modules_named(const char *text, const char *apart) {
	int modules = 0;
	for (const char *at = text + strspn(text, apart); *at; at += strspn(at, apart)) {
		size_t size = strcspn(at, apart);
		int module = named(at, size);
		if (!module) return 0;
		modules |= module;
		at += size;
	}
	return modules;
}

char *lk_module_names(char out[LK_MODULES_TEXT], int modules, char between) {
	lk_text text = lk_text_begin(out, LK_MODULES_TEXT);
	for (int i = 0; i < MODULES; i++) {
		if (!(modules & 1 << i)) continue;
		if (text.used) lk_text_add(&text, "%c", between);
		lk_text_add(&text, "%s", lk_module_name[i]);
	}
	return out;
}

void lk_job_select(lk_job *job, int modules) {
	job->recompute = LK_RECOMPUTE_SELECTIVE;
	job->recompute_modules = modules == LK_MODULE_CORE_ATTN ? 0 : modules;
	job->recompute_said = true;
}

const char *lk_recompute_text(lk_arena *arena, const lk_job *job) {
	static const char *const kinds[] = {"none", "selective", "full"};
	char names[LK_MODULES_TEXT];
	if (job->recompute == LK_RECOMPUTE_SELECTIVE && job->recompute_modules)
		return lk_arena_strdup(arena, lk_module_names(names, job->recompute_modules, '+'));
	if (job->recompute == LK_RECOMPUTE_FULL && job->recompute_layers > 0)
		return lk_arena_printf(arena, "full/%d", job->recompute_layers);
	return kinds[job->recompute];
}

/* Megatron-LM's attention before it had a core module (Megatron-DeepSpeed's) checkpoints only
 * unfused attention. */
static bool keeps_fused_core(const lk_job *job) {
	return lk_job_uses_deepspeed(job) && job->attn_kernel == LK_KERNEL_FLASH;
}

bool lk_job_recomputes(const lk_job *job, lk_module module) {
	if (job->recompute != LK_RECOMPUTE_SELECTIVE || !lk_job_like_megatron(job)) return false;
	if (module == LK_MODULE_CORE_ATTN && keeps_fused_core(job)) return false;
	int modules = job->recompute_modules ? job->recompute_modules : LK_MODULE_CORE_ATTN;
	/* the whole MoE layer runs again: its parts are not counted twice */
	if (modules & LK_MODULE_MOE) modules &= ~(LK_MODULE_MOE_ACT | LK_MODULE_SHARED_EXPERTS);
	return modules & module;
}

/* Transformer Engine's first product of attention, and of a dense MLP, includes the norm; latent
 * attention and routers read the output of a separate norm. */
bool lk_job_norm_apart(const lk_job *job, bool attention, bool moe) {
	if (job->local_layers) return true;
	return attention ? job->model.attention == LK_ATTN_MLA : moe;
}

const char *lk_job_module_idle(const lk_job *job, lk_module module) {
	if (module == LK_MODULE_MLP && !lk_model_has_ffn(&job->model, LK_FFN_DENSE))
		return "recomputing mlp has no effect: no layer has a dense MLP";
	bool apart = lk_job_norm_apart(job, true, false) || job->model.experts > 0;
	if (module == LK_MODULE_LAYERNORM && !apart)
		return "recomputing layernorm has no effect: every norm is part of the product after it";
	return NULL;
}

/* Delayed scaling has no factor for recomputed tensors (transformer_config.py). */
int lk_modules_light(const lk_job *job) {
	const lk_model *model = &job->model;
	int modules = 0;
	if (model->attention == LK_ATTN_MLA) modules |= LK_MODULE_MLA_UP_PROJ;
	if (job->dtype == LK_FP8 && job->fp8_recipe == LK_FP8_DELAYED) return modules;
	if (model->experts > 0) modules |= LK_MODULE_MOE_ACT;
	if (!lk_job_module_idle(job, LK_MODULE_LAYERNORM)) modules |= LK_MODULE_LAYERNORM;
	return modules;
}

/* What the network lacks for a module that Megatron-LM then refuses or does not have; NULL:
 * nothing. */
static const char *lacks(const lk_model *model, lk_module module) {
	switch (module) {
	case LK_MODULE_MOE:
	case LK_MODULE_MOE_ACT: return model->experts > 0 ? NULL : "experts";
	case LK_MODULE_MLA_UP_PROJ:
		return model->attention == LK_ATTN_MLA ? NULL : "multi-latent attention";
	case LK_MODULE_SHARED_EXPERTS:
		return model->experts > 0 && model->shared_ffn > 0 ? NULL : "shared experts";
	default: return NULL;
	}
}

lk_status lk_job_check_modules(const lk_job *job, lk_error *err) {
	char name[LK_MODULES_TEXT];
	if (job->recompute != LK_RECOMPUTE_SELECTIVE || !job->recompute_modules) return LK_OK;
	if (!lk_job_like_megatron(job)) {
		lk_fail(err, LK_ERR_INPUT, "--recompute", "%s: modules are Megatron-LM's, not those of %s",
		        lk_module_names(name, job->recompute_modules, '+'), job->stack);
		return lk_hint(err, "use --recompute selective, or --stack megatron");
	}
	for (int module = 1; module < LK_MODULES_END; module <<= 1) {
		const char *what =
			job->recompute_modules & module ? lacks(&job->model, (lk_module)module) : NULL;
		if (!what) continue;
		lk_fail(err, LK_ERR_INPUT, "--recompute", "%s: the network has no %s",
		        lk_module_names(name, module, '+'), what);
		return lk_hint(err, "leave the module out");
	}
	return LK_OK;
}

/* ---- adapters ---- */

/* Projections are named as in Hugging Face's code; other codes' names are those of the table. */
enum { QKV = LK_ADAPT_QUERY | LK_ADAPT_KEY | LK_ADAPT_VALUE, KV = LK_ADAPT_KEY | LK_ADAPT_VALUE };

/* The first names of bits are those that are written. */
static const struct adapter_name {
	const char *name;
	int parts;
} adapter_names[] = {
	{"attention", LK_ADAPT_ATTENTION},
	{"all-linear", LK_ADAPT_LINEAR},
	{"experts", LK_ADAPT_LINEAR | LK_ADAPT_EXPERTS},
	{"q_proj", LK_ADAPT_QUERY},
	{"k_proj", LK_ADAPT_KEY},
	{"v_proj", LK_ADAPT_VALUE},
	{"o_proj", LK_ADAPT_OUT},
	{"gate_proj", LK_ADAPT_GATE},
	{"up_proj", LK_ADAPT_UP},
	{"down_proj", LK_ADAPT_DOWN},
	{"linear_fc1", LK_ADAPT_GATE | LK_ADAPT_UP | LK_ADAPT_EXPERTS}, /* Megatron-LM */
	{"linear_fc2", LK_ADAPT_DOWN | LK_ADAPT_EXPERTS},
	{"self_attn", LK_ADAPT_ATTENTION},
	{"mlp", LK_ADAPT_MLP},
	{"qkv_proj", QKV},
	{"W_pack", QKV},
	{"c_attn", QKV},
	{"query_key_value", QKV},
	{"Wqkv", QKV},
	{"qkv", QKV},
	{"linear_qkv", QKV},
	{"wq", LK_ADAPT_QUERY},
	{"query", LK_ADAPT_QUERY},
	{"to_q", LK_ADAPT_QUERY},
	{"q_lin", LK_ADAPT_QUERY},
	{"q_a_proj", LK_ADAPT_QUERY},
	{"q_b_proj", LK_ADAPT_QUERY},
	{"wk", LK_ADAPT_KEY},
	{"key", LK_ADAPT_KEY},
	{"to_k", LK_ADAPT_KEY},
	{"wv", LK_ADAPT_VALUE},
	{"value", LK_ADAPT_VALUE},
	{"to_v", LK_ADAPT_VALUE},
	{"v_lin", LK_ADAPT_VALUE},
	{"kv_a_proj_with_mqa", KV},
	{"kv_b_proj", KV},
	{"wo", LK_ADAPT_OUT},
	{"out_proj", LK_ADAPT_OUT},
	{"output_proj", LK_ADAPT_OUT},
	{"to_out", LK_ADAPT_OUT},
	{"linear_proj", LK_ADAPT_OUT},
	{"gate_up_proj", LK_ADAPT_GATE | LK_ADAPT_UP},
	{"w1", LK_ADAPT_GATE},
	{"w3", LK_ADAPT_UP},
	{"fc1", LK_ADAPT_UP},
	{"c_fc", LK_ADAPT_UP},
	{"dense_h_to_4h", LK_ADAPT_UP},
	{"w2", LK_ADAPT_DOWN},
	{"fc2", LK_ADAPT_DOWN},
	{"dense_4h_to_h", LK_ADAPT_DOWN},
};
enum {
	ADAPTER_NAMES = sizeof adapter_names / sizeof *adapter_names,
	SETS = 3,
	ROUTED = 10,
	WRITTEN = 12
};

/* The parts of a name, "q_proj" or "model.layers.*.self_attn.q_proj"; 0: it is unknown. */
static int adapter_parts(const char *name, size_t length) {
	for (size_t i = length; i-- > 0;)
		if (name[i] == '.' || name[i] == '*') {
			name += i + 1;
			length -= i + 1;
			break;
		}
	for (int i = 0; i < ADAPTER_NAMES; i++)
		if (strlen(adapter_names[i].name) == length &&
		    memcmp(adapter_names[i].name, name, length) == 0)
			return adapter_names[i].parts;
	return 0;
}

int lk_adapters_find(const char *names) {
	static const char between[] = ", +[]'\"";
	int parts = 0;
	for (names += strspn(names, between); *names; names += strspn(names, between)) {
		size_t length = strcspn(names, between);
		int found = adapter_parts(names, length);
		if (!found) return 0;
		parts |= found;
		names += length;
	}
	return parts;
}

void lk_adapters_name(int parts, char *out, size_t size) {
	lk_text text = lk_text_begin(out, size);
	for (int i = 0; i < SETS; i++)
		if (parts == adapter_names[i].parts) {
			lk_text_add(&text, "%s", adapter_names[i].name);
			return;
		}
	bool routed = parts & LK_ADAPT_EXPERTS;
	for (int i = SETS; i < WRITTEN; i++) {
		int of = adapter_names[i].parts & ~LK_ADAPT_EXPERTS;
		bool written = (of & LK_ADAPT_MLP) == 0 || routed == (i >= ROUTED);
		if ((parts & of) && written)
			lk_text_add(&text, "%s%s", text.used ? "+" : "", adapter_names[i].name);
	}
}
