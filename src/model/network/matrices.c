/* matrices.c: the weight matrices of a layer one by one, y[out] = W[out, in] x[in], for optimizers
 * on whole matrices (Muon, SOAP, Shampoo). A mixer's are in its file, next to their sum; over a
 * layer both sums agree. Queries, keys, values and an output gate are separate matrices even if one
 * product makes them all, as Megatron-LM splits them for Muon. */
#include "model/network/parts.h"
#include "base/check.h"

/* Add `count` copies of an MLP; `joined`: gate and input are one matrix. */
static void add_mlp(const lk_model *model, double hidden, double width, double count, bool joined,
                    lk_matrices *list) {
	double inputs = model->gated ? 2 : 1, rows = joined ? inputs : 1;
	lk_matrices_add(list, rows * width, hidden, count * inputs / rows, LK_CUT_OUT);
	lk_matrices_add(list, hidden, width, count, LK_CUT_IN);
}

static void add_expert_matrices(const lk_model *model, bool joined, lk_matrices *list) {
	double hidden = model->hidden, inner = model->expert_latent > 0 ? model->expert_latent : hidden;
	int first = list->count;
	add_mlp(model, inner, model->expert_ffn, model->experts, joined, list);
	for (int i = first; i < list->count; i++) list->at[i].expert = true;
	lk_matrices_add(list, model->experts, hidden, 1, LK_CUT_NONE);
	if (model->shared_gate) lk_matrices_add(list, 1, hidden, 1, LK_CUT_NONE);
	if (model->expert_latent > 0) {
		lk_matrices_add(list, inner, hidden, 1, LK_CUT_NONE);
		lk_matrices_add(list, hidden, inner, 1, LK_CUT_NONE);
	}
	add_mlp(model, hidden, model->shared_ffn, 1, joined, list);
}

/* Zamba2: matrices of each use of a shared set. */
static void add_use_matrices(const lk_model *model, lk_matrices *list) {
	double h = model->hidden, in = lk_model_attention_inputs(model), d = model->head_dim,
		   mlp = model->use_mlp_rank, qkv = model->use_qkv_rank;
	lk_matrices_add(list, h, h, 1, LK_CUT_NONE);
	lk_matrices_add(list, mlp, h, 1, LK_CUT_NONE);
	lk_matrices_add(list, 2.0 * model->ffn, mlp, 1, LK_CUT_NONE);
	lk_matrices_add(list, qkv, in, 3, LK_CUT_NONE);
	lk_matrices_add(list, model->heads * d, qkv, 1, LK_CUT_NONE);
	lk_matrices_add(list, model->kv_heads * d, qkv, 2, LK_CUT_NONE);
}

void lk_model_matrices(const lk_model *model, int layer, bool joined, lk_matrices *out) {
	LK_ASSERT(layer >= 0);
	*out = (lk_matrices){0};
	if (model->network == LK_NET_CONV) return;
	if (model->network == LK_NET_DIFFUSION) {
		lk_dit_matrices(model, layer, out);
		return;
	}
	lk_layer made = lk_model_layer(model, layer);
	lk_model room;
	const lk_model *seen = lk_model_seen(model, &made, &room);
	if (model->use_product && (made.mixers & LK_MIXER_ATTENTION)) add_use_matrices(model, out);
	if (lk_model_reuses(model, layer)) return;
	for (int i = 0; i < LK_MIXER_KINDS; i++)
		if (made.mixers & lk_mixer_kinds[i].mixer) lk_mixer_kinds[i].matrices(seen, out);
	if (model->network == LK_NET_ENCDEC && layer >= model->layers) /* plus cross-attention */
		for (int i = 0; i < out->count; i++) out->at[i].count *= 2;
	lk_streams_matrices(model, out);
	if (made.ffn == LK_FFN_EXPERTS) add_expert_matrices(model, joined, out);
	else if (made.ffn == LK_FFN_DENSE)
		add_mlp(model, model->hidden, lk_layer_ffn(model, &made), 1, joined, out);
	if (made.ffn == LK_FFN_DENSE && model->rwkv_inner > 0 &&
	    model->rwkv != 7) /* the channel mix's receptance */
		lk_matrices_add(out, model->hidden, model->hidden, 1, LK_CUT_NONE);
}

lk_recurrence lk_model_recurrence(const lk_model *model, int layer) {
	lk_layer of = lk_model_layer(model, layer);
	lk_recurrence sum = {0};
	for (int i = 0; i < LK_MIXER_KINDS; i++) {
		const lk_mixer_kind *kind = &lk_mixer_kinds[i];
		if (!(of.mixers & kind->mixer) || !kind->state) continue;
		kind->matrices(model, &sum.matrices);
		sum.state += kind->state(model);
		sum.core += kind->core(model, &of, 1);
	}
	return sum;
}
