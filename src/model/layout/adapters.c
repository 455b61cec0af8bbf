/* adapters.c: which linear layers have low-rank adapters, and what those hold: rank * (inputs +
 * outputs) parameters for each product (LoRA, arXiv 2106.09685), and a magnitude for each output
 * (DoRA, arXiv 2402.09353). Where one product makes queries, keys and values, or gate and input of
 * an MLP, as in Megatron-LM, one adapter is beside it.
 *
 * Projections are named as in Hugging Face's code; other codes' names are those of the table. */
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "model/layout/sizes.h"

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

lk_adapted lk_job_adapted(const lk_job *job, const lk_reader *readers, int count) {
	lk_adapted sum = {0};
	for (int i = 0; i < count; i++) {
		if (!(job->adapted & readers[i].part)) continue;
		sum.out += readers[i].out;
		sum.products++;
	}
	if (sum.products > 1 && !lk_job_runs_as_written(job)) sum.products = 1;
	return sum;
}

/* Parameters of the adapters of products that read one tensor. */
static double adapter_params(const lk_job *job, double in, const lk_reader *readers, int count) {
	lk_adapted of = lk_job_adapted(job, readers, count);
	return job->lora_rank * (of.products * in + of.out) + (job->dora ? of.out : 0);
}

/* Of queries, keys and values, which latent attention makes in two steps, and of the output. */
static double adapter_attention(const lk_job *job, int layer) {
	const lk_model *model = &job->model;
	lk_layer of = lk_model_layer(model, layer);
	bool latent = model->attention == LK_ATTN_MLA;
	double in = lk_model_attention_inputs(model), low = model->q_lora, heads = model->heads,
		   values = heads * lk_model_value_dim(model), groups = lk_model_kv_heads(model, of.window),
		   q = latent ? heads * (model->qk_nope + model->qk_rope)
	                  : heads * model->head_dim * (model->output_gate ? 2 : 1);
	lk_reader first[] = {{LK_ADAPT_QUERY, low > 0 ? low : q},
	                     {LK_ADAPT_KEY, groups * model->head_dim},
	                     {LK_ADAPT_VALUE, groups * lk_model_value_dim(model)}};
	if (latent) first[1] = (lk_reader){KV, (double)model->kv_lora + model->qk_rope};
	double sum = adapter_params(job, in, first, latent ? 2 : 3);
	if (low > 0) sum += adapter_params(job, low, &(lk_reader){LK_ADAPT_QUERY, q}, 1);
	if (latent)
		sum += adapter_params(job, model->kv_lora,
		                      &(lk_reader){KV, heads * (model->qk_nope + model->v_dim)}, 1);
	return sum + adapter_params(job, values, &(lk_reader){LK_ADAPT_OUT, model->hidden}, 1);
}

static double adapter_mlp(const lk_job *job, double hidden, double ffn) {
	lk_reader first[] = {{LK_ADAPT_UP, ffn}, {LK_ADAPT_GATE, ffn}};
	return adapter_params(job, hidden, first, job->model.gated ? 2 : 1) +
	       adapter_params(job, ffn, &(lk_reader){LK_ADAPT_DOWN, hidden}, 1);
}

void lk_adapters_params(const lk_job *job, int layer, double *dense, double *experts) {
	const lk_model *model = &job->model;
	lk_layer of = lk_model_layer(model, layer);
	bool attends = (of.mixers & LK_MIXER_ATTENTION) && !lk_model_reuses(model, layer);
	bool crosses = model->network == LK_NET_ENCDEC && layer >= model->layers,
		 routes = of.ffn == LK_FFN_EXPERTS;
	double ffn = routes ? model->shared_ffn : 0;
	if (of.ffn == LK_FFN_DENSE) ffn = lk_layer_ffn(model, &of);
	LK_ASSERT(job->tp > 0);
	*dense = *experts = 0;
	if (attends) *dense = adapter_attention(job, layer) * (crosses ? 2 : 1) / job->tp;
	if (ffn > 0) *dense += adapter_mlp(job, model->hidden, ffn) / job->tp;
	if (routes && (job->adapted & LK_ADAPT_EXPERTS))
		*experts = model->experts * adapter_mlp(job, model->hidden, model->expert_ffn) /
		           ((double)lk_job_ep(job) * lk_job_etp(job));
}
