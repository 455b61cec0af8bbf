/* layers.c: the ordered list of layers. A list is written as items separated by blanks, each an
 * optional repeat (default 1) and the letters of a layer; a network with repeating layers states
 * periods instead: the number of leading dense layers, one in N with experts, one in N with full
 * attention. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "model/network/parts.h"

/* Read one item at *text and move *text past it; false at the end or if it is not an item. */
static bool read_item(const char **text, const lk_model *model, lk_layer *out, int *repeat) {
	LK_ASSERT(*text >= model->order && *text < model->order + sizeof model->order);
	const char *at = *text;
	long times = 0;
	bool letters = false, local = false;
	while (*at == ' ') at++;
	while (isdigit((unsigned char)*at) && times < 100000) times = 10 * times + (*at++ - '0');
	*out = (lk_layer){.causal = model->network == LK_NET_DECODER};
	for (; *at && *at != ' '; at++, letters = true) {
		bool attends = *at == '*' || *at == 'w' || *at == 'c' || *at == 'x';
		int mixer = attends ? LK_MIXER_ATTENTION : 0, ffn = LK_FFN_NONE;
		if (*at == '-') ffn = LK_FFN_DENSE;
		if (*at == 'E') ffn = LK_FFN_EXPERTS;
		for (int i = 0; i < LK_MIXER_KINDS && !mixer && !ffn; i++)
			if (*at == lk_mixer_kinds[i].letter) mixer = lk_mixer_kinds[i].mixer;
		if (!mixer && !ffn) return false;
		if (ffn == LK_FFN_DENSE)
			while (isdigit((unsigned char)at[1]) && out->width < 1 << 24)
				out->width = 10 * out->width + (*++at - '0');
		if ((out->mixers & mixer) || (ffn && out->ffn)) return false; /* given twice */
		local |= *at == 'w' || *at == 'c';
		out->across |= *at == 'x';
		out->chunked |= *at == 'c';
		out->mixers |= mixer;
		if (ffn) out->ffn = ffn;
	}
	if (local) out->window = model->window;
	if (out->across) out->causal = false;
	*repeat = times > 0 ? (int)times : 1;
	*text = at;
	return letters;
}

/* The layer of an order; all zero if that is not a list of layers. */
static lk_layer listed_layer(const lk_model *model, int layer) {
	LK_ASSERT(layer >= 0 && model->order[0]);
	const char *at = model->order;
	int first = 0, repeat;
	lk_layer item;
	while (read_item(&at, model, &item, &repeat)) {
		first += repeat;
		if (layer < first) return item;
	}
	if (first == 0 || *at) return (lk_layer){0};
	return listed_layer(model, layer % first);
}

static bool period_has_experts(const lk_model *model, int layer) {
	if (model->experts <= 0 || layer < model->dense_layers || layer >= model->layers) return false;
	return model->moe_every <= 1 || (layer + model->moe_offset) % model->moe_every == 0;
}

static int period_window(const lk_model *model, int layer) {
	if (model->window <= 0) return 0;
	return model->full_every > 0 && (layer + 1) % model->full_every == 0 ? 0 : model->window;
}

lk_layer lk_model_layer(const lk_model *model, int layer) {
	if (layer < 0 || model->network == LK_NET_CONV) return (lk_layer){0};
	if (model->order[0]) return listed_layer(model, layer);
	if (model->network == LK_NET_DIFFUSION)
		return (lk_layer){.mixers = LK_MIXER_ATTENTION,
		                  .ffn = LK_FFN_DENSE,
		                  .dit = lk_dit_block_at(model, layer)};
	bool decoder = model->network == LK_NET_DECODER ||
	               (model->network == LK_NET_ENCDEC && layer >= model->layers);
	return (lk_layer){.mixers = LK_MIXER_ATTENTION,
	                  .ffn = period_has_experts(model, layer) ? LK_FFN_EXPERTS : LK_FFN_DENSE,
	                  .window = period_window(model, layer),
	                  .causal = decoder};
}

bool lk_model_has_widths(const lk_model *model) {
	for (const char *at = model->order; (at = strchr(at, '-')) != NULL; at++)
		if (isdigit((unsigned char)at[1])) return true;
	return false;
}

bool lk_model_is_moe(const lk_model *model, int layer) {
	return layer < model->layers && lk_model_layer(model, layer).ffn == LK_FFN_EXPERTS;
}

int lk_model_window(const lk_model *model, int layer) {
	return lk_model_layer(model, layer).window;
}

bool lk_layer_same(const lk_layer *a, const lk_layer *b) {
	return a->mixers == b->mixers && a->ffn == b->ffn && a->window == b->window &&
	       a->chunked == b->chunked && a->causal == b->causal && a->dit == b->dit &&
	       a->width == b->width && a->across == b->across;
}

bool lk_model_reuses(const lk_model *model, int layer) {
	int before = 0;
	if (model->shared_sets <= 0 || !(lk_model_layer(model, layer).mixers & LK_MIXER_ATTENTION))
		return false;
	for (int i = 0; i < layer && before < model->shared_sets; i++)
		before += (lk_model_layer(model, i).mixers & LK_MIXER_ATTENTION) != 0;
	return before >= model->shared_sets;
}

bool lk_layer_repeats(const lk_model *model, int layer) {
	LK_ASSERT(layer >= 0);
	/* the first layer of a stack holds the table of relative positions */
	bool first = layer == 0 || (model->network == LK_NET_ENCDEC && layer == model->layers);
	bool second = layer == 1 || (model->network == LK_NET_ENCDEC && layer == model->layers + 1);
	if (first || (second && model->relative_buckets > 0) || model->network == LK_NET_CONV)
		return false;
	if (model->network == LK_NET_DIFFUSION)
		return lk_dit_block_at(model, layer) == lk_dit_block_at(model, layer - 1);
	if (lk_model_reuses(model, layer) != lk_model_reuses(model, layer - 1)) return false;
	/* with periods, the fields that may differ within a stack: searches query this for each layer
	 * of each layout */
	if (!model->order[0])
		return period_has_experts(model, layer) == period_has_experts(model, layer - 1) &&
		       period_window(model, layer) == period_window(model, layer - 1);
	lk_layer here = lk_model_layer(model, layer), before = lk_model_layer(model, layer - 1);
	return lk_layer_same(&here, &before);
}

int lk_model_mixers(const lk_model *model) {
	int mixers = 0, repeat;
	lk_layer item;
	if (model->network == LK_NET_CONV) return 0;
	if (!model->order[0]) return LK_MIXER_ATTENTION;
	for (const char *at = model->order; read_item(&at, model, &item, &repeat);)
		mixers |= item.mixers;
	return mixers;
}

bool lk_model_has_ffn(const lk_model *model, lk_ffn ffn) {
	for (int i = 0; i < model->layers + model->decoder_layers; i++)
		if (lk_model_layer(model, i).ffn == (int)ffn) return true;
	return false;
}

bool lk_model_order_valid(const lk_model *model) {
	const char *at = model->order;
	lk_layer item;
	int repeat;
	while (read_item(&at, model, &item, &repeat)) {
	}
	return at > model->order && !at[strspn(at, " ")];
}

enum { LAYER_TEXT = LK_MIXER_KINDS + 16 };

/* Write the letters of a layer, at most one per mixer plus one, and a width. */
static void layer_letters(const lk_layer *layer, char out[LAYER_TEXT]) {
	size_t used = 0;
	for (int i = 0; i < LK_MIXER_KINDS; i++) {
		if (!(layer->mixers & lk_mixer_kinds[i].mixer)) continue;
		char letter = lk_mixer_kinds[i].letter;
		if (letter == '*' && layer->window > 0) letter = layer->chunked ? 'c' : 'w';
		if (letter == '*' && layer->across) letter = 'x';
		out[used++] = letter;
	}
	if (layer->ffn == LK_FFN_DENSE) out[used++] = '-';
	if (layer->ffn == LK_FFN_EXPERTS) out[used++] = 'E';
	LK_ASSERT(used < LAYER_TEXT);
	out[used] = '\0';
	if (layer->ffn == LK_FFN_DENSE && layer->width > 0)
		snprintf(out + used, LAYER_TEXT - used, "%d", layer->width);
}

/* The number of layers after which a list repeats; all of them if it does not. */
static int list_period(const lk_layer *layers, int count) {
	LK_ASSERT(count >= 0);
	for (int period = 1; period < count; period++) {
		int i = period;
		while (i < count && lk_layer_same(&layers[i], &layers[i - period])) i++;
		if (i == count) return period;
	}
	return count;
}

bool lk_model_set_order(lk_model *model, const lk_layer *layers, int count) {
	lk_text order = lk_text_begin(model->order, sizeof model->order);
	count = list_period(layers, count);
	for (int i = 0, next; i < count; i = next) {
		char letters[LAYER_TEXT], times[16] = "";
		for (next = i + 1; next < count && lk_layer_same(&layers[i], &layers[next]);) next++;
		layer_letters(&layers[i], letters);
		if (!*letters) return false;
		if (next - i > 1) snprintf(times, sizeof times, "%d", next - i);
		size_t length = strlen(times) + strlen(letters) + (order.used > 0);
		if (order.used + length >= order.size) return false;
		lk_text_add(&order, "%s%s%s", order.used > 0 ? " " : "", times, letters);
	}
	LK_ASSERT(order.used == 0 || lk_model_order_valid(model));
	return order.used > 0;
}

const lk_model *lk_model_seen(const lk_model *model, const lk_layer *layer, lk_model *room) {
	LK_ASSERT(room != model);
	if (model->window_kv_heads == 0 || layer->window == 0) return model;
	*room = *model;
	room->kv_heads = model->window_kv_heads;
	return room;
}
