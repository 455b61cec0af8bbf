/* megatron_layers.c: flags of Megatron-LM by which the layers of a network differ: one in N, or a
 * list of Python with a number for each layer (experts, windows, linear attention), or a letter for
 * each layer (hybrids). */
#include "base/arena.h"
#include "base/noun.h"
#include "base/text.h"
#include "launch/megatron/megatron.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* *layers 0: the line leaves the shape of the network to --model; then it is the list's length. */
static lk_status read_pattern(lk_reading *reading, const char *flag, const char *text, int *layers,
                              int *every, int **list) {
	int count;
	*list = LK_ARRAY(reading->arena, int, LK_PYTHON_MOST);
	if (*list == NULL) return lk_oom(reading->err);
	if (lk_python_list(text, every, *list, LK_PYTHON_MOST, &count) &&
	    (*every > 0 || *layers == 0 || count == *layers)) {
		if (*layers == 0) *layers = count;
		return LK_OK;
	}
	lk_fail(reading->err, LK_ERR_INPUT, reading->where,
	        "--%s: \"%s\" is neither a number nor a list of %d %s", flag, text, *layers,
	        lk_noun(*layers, "layer", "layers"));
	return lk_hint(reading->err, "write for instance \"([0]*3+[1]*%d)\"",
	               *layers > 3 ? *layers - 3 : 1);
}

/* Which layers are mixtures of experts: `dense` first, then one in `every` of those with (i +
 * offset) % every == 0. */
lk_status lk_megatron_experts(lk_reading *reading, const lk_megatron *megatron, lk_model *model) {
	int *list, layers = model->layers, every;
	model->dense_layers = model->moe_offset = 0;
	model->moe_every = 1;
	if (megatron->moe_freq == NULL) return LK_OK;
	LK_TRY(read_pattern(reading, "moe-layer-freq", megatron->moe_freq, &layers, &every, &list));
	if (every > 0) {
		model->moe_every = every;
		return LK_OK;
	}
	int first = 0, second;
	while (first < layers && list[first] == 0) first++;
	for (second = first + 1; second < layers && list[second] == 0;) second++;
	model->moe_every = second < layers ? second - first : 1;
	model->moe_offset = (model->moe_every - first % model->moe_every) % model->moe_every;
	model->dense_layers = first;
	for (int i = 0; i < layers; i++) {
		if (lk_model_is_moe(model, i) == (list[i] != 0)) continue;
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "--moe-layer-freq: layer %d breaks the period of %d", i, model->moe_every);
		return lk_hint(reading->err,
		               "dense layers first and then one expert layer in every N can be predicted");
	}
	return LK_OK;
}

/* "(128,0)", "128,0" or "128 0": the tokens to the left. Full attention in one layer of N with
 * --window-attn-skip-freq. */
lk_status lk_megatron_window(lk_reading *reading, const lk_megatron *megatron, lk_model *model) {
	int *list, every;
	if (megatron->window == NULL) return LK_OK;
	const char *at = megatron->window + strspn(megatron->window, "( ");
	char *end;
	long width = strtol(at, &end, 10);
	if (end == at || strchr(" ,)", *end) == NULL || width < -1 || width > 1 << 30) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "--window-size: \"%s\" is not a pair of numbers", megatron->window);
		return lk_hint(reading->err, "write for instance 128,0");
	}
	reading->out->window_said = true;
	if (width <= 0) return LK_OK;
	model->window = (int)width;
	if (megatron->window_freq == NULL) return LK_OK;
	int layers = model->layers;
	LK_TRY(read_pattern(reading, "window-attn-skip-freq", megatron->window_freq, &layers, &every,
	                    &list));
	for (int i = 0; every == 0 && i < layers; i++)
		if (list[i] == 0) every = i + 1;
	model->full_every = every;
	for (int i = 0; i < layers && strchr(megatron->window_freq, '[') != NULL; i++) {
		if ((lk_model_window(model, i) == 0) == (list[i] == 0)) continue;
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "--window-attn-skip-freq: layer %d breaks the period of %d", i, every);
		return lk_hint(reading->err, "one full layer in every N can be predicted");
	}
	return LK_OK;
}

/* Mamba-2 as Megatron-LM builds it (megatron/core/ssm/mamba_mixer.py): heads fill twice the hidden
 * size unless they are counted, a convolution of 4, chunks of 128. */
static void finish_mamba(const lk_megatron *megatron, lk_model *model) {
	int heads = megatron->ssm_heads > 0 ? megatron->ssm_heads
	                                    : (int)(2LL * model->hidden / megatron->ssm_head);
	model->ssm = 2;
	model->ssm_heads = heads;
	model->ssm_inner = heads <= (1 << 24) / megatron->ssm_head ? heads * megatron->ssm_head : 0;
	model->ssm_state = megatron->ssm_state;
	model->ssm_groups = megatron->ssm_groups;
	model->ssm_conv = 4;
	model->ssm_chunk = 128;
	model->ssm_bias = megatron->bias_linear;
	model->ssm_conv_bias = model->ssm_norm = true;
}

/* What the letters of a hybrid's layers are. Networks have attention of one kind: * of heads, + and
 * D latent, D with an indexer. */
static lk_status check_letters(lk_reading *reading, const lk_megatron *megatron) {
	static const char letters[] = "MG*D+-E|/";
	const char *text = megatron->hybrid;
	size_t known = strspn(text, letters);
	if (!*text || text[known] || known > LK_PYTHON_MOST) {
		char letter = text[known] ? text[known] : ' ';
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "--hybrid-layer-pattern: the letter '%c' is not modelled",
		        letter >= ' ' && letter <= '~' ? letter : '?');
		return lk_hint(reading->err,
		               "M, G, *, D, +, -, E, | between stages and / before modules that "
		               "predict are");
	}
	bool heads = strchr(text, '*'), latent = strchr(text, '+'), sparse = strchr(text, 'D');
	if (heads + latent + sparse > 1) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "--hybrid-layer-pattern: layers with two of *, + and D are not modelled");
		return lk_hint(reading->err, "use one of them");
	}
	if ((latent || sparse) == megatron->latent || !(heads || latent || sparse)) return LK_OK;
	lk_fail(reading->err, LK_ERR_INPUT, reading->where, "--hybrid-layer-pattern: %s",
	        heads ? "* is attention of heads, + latent attention"
	              : "+ and D need --multi-latent-attention");
	return lk_hint(reading->err, heads ? "use + with --multi-latent-attention" : "add it");
}

/* Where stages begin, as Megatron-LM's layout of a pipeline says it: "Et*3|t*4L". */
static lk_status hybrid_stages(lk_reading *reading, const lk_megatron *megatron, lk_job *job) {
	char layout[sizeof job->pipeline_layout];
	lk_text text = lk_text_begin(layout, sizeof layout);
	lk_text_add(&text, "E");
	for (const char *at = megatron->hybrid;; at++) {
		size_t layers = strcspn(at, "|");
		if (layers > 0) lk_text_add(&text, "t*%zu", layers);
		at += layers;
		if (!*at) break;
		lk_text_add(&text, "|");
	}
	lk_text_add(&text, "L");
	if (lk_text_full(&text))
		return lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		               "--hybrid-layer-pattern: more stages than are read");
	lk_copy(job->pipeline_layout, sizeof job->pipeline_layout, layout);
	return LK_OK;
}

/* Slashes part the network's letters from those of each module that predicts a further token. */
static lk_status hybrid_predictions(lk_reading *reading, lk_megatron *megatron, lk_job *job) {
	const char *first = strchr(megatron->hybrid, '/');
	int modules = 0;
	if (first == NULL) return LK_OK;
	for (const char *at = first; at != NULL; at = strchr(at + 1, '/')) modules++;
	megatron->hybrid =
		lk_arena_strndup(reading->arena, megatron->hybrid, (size_t)(first - megatron->hybrid));
	if (megatron->hybrid == NULL) return lk_oom(reading->err);
	if (modules > 64)
		return lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		               "--hybrid-layer-pattern: more than 64 modules that predict");
	job->model.mtp_layers = modules;
	return lk_launch_assume(reading,
	                        "%d modules that predict further tokens are priced as layers like the "
	                        "last ones of the network",
	                        modules);
}

/* Gives some of the layers that are still M to another kind: evenly, as many M before the first of
 * them as between two, counted in halves so that a remainder is rounded where Megatron-LM does. */
static void hybrid_spread(char *letters, int layers, char kind, int count, double apart) {
	double left = apart;
	for (int i = 0; i < layers && count > 0; i++) {
		if (letters[i] != 'M') continue;
		if (left < 0.5) letters[i] = kind;
		left += left < 0.5 ? apart : -1;
	}
}

/* --hybrid-attention-ratio and --hybrid-mlp-ratio, from the time before patterns: shares of the
 * layers, rounded to whole ones. Attention lies between M on both sides, MLPs end with an MLP. */
lk_status lk_megatron_hybrid_shares(lk_reading *reading, lk_megatron *megatron, int layers) {
	double attention = megatron->attention_share, mlp = megatron->mlp_share;
	bool said = megatron->hybrid_said || attention > 0 || mlp > 0;
	if (!said || megatron->hybrid != NULL) return LK_OK;
	if (attention + mlp > 1) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "--hybrid-attention-ratio and --hybrid-mlp-ratio: %g and %g are more than all "
		        "layers",
		        attention, mlp);
		return lk_hint(reading->err, "give shares whose sum is at most 1");
	}
	if (layers < 1 || layers > LK_PYTHON_MOST) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "layers of a hybrid are neither listed nor counted");
		return lk_hint(reading->err, "give --hybrid-layer-pattern or --num-layers");
	}
	char *letters = lk_arena_alloc(reading->arena, (size_t)layers + 1);
	if (letters == NULL) return lk_oom(reading->err);
	memset(letters, 'M', (size_t)layers);
	letters[layers] = '\0';
	int attend = (int)nearbyint(layers * attention), mlps = (int)nearbyint(layers * mlp);
	if (attend + mlps > layers) mlps = layers - attend; /* both were rounded up */
	hybrid_spread(letters, layers, '*', attend, (layers - attend) / (attend + 1.0));
	hybrid_spread(letters, layers, '-', mlps,
	              mlps > 0 ? (double)(layers - attend - mlps) / mlps : 0);
	megatron->hybrid = letters;
	return LK_OK;
}

void lk_megatron_hybrid_program(lk_words *words) {
	bool hybrid = false;
	for (size_t i = 0; i < words->count; i++)
		hybrid |= strncmp(words->at[i].text, "--hybrid-", 9) == 0 ||
		          strcmp(words->at[i].text, "--is-hybrid-model") == 0;
	for (size_t i = 0; hybrid && i < words->count; i++)
		if (strcmp(words->at[i].text, "pretrain_gpt.py") == 0)
			words->at[i].text = "pretrain_mamba.py";
}

/* pretrain_gpt.py builds attention and an MLP in every layer; of a pattern it takes the number of
 * layers alone (megatron/training/arguments.py, gpt_builders.py). */
lk_status lk_megatron_no_hybrid(lk_reading *reading, lk_megatron *megatron, lk_model *model) {
	bool said = megatron->hybrid_said || megatron->attention_share > 0 || megatron->mlp_share > 0;
	if (!megatron->gpt || (!said && megatron->hybrid == NULL)) return LK_OK;
	if (megatron->hybrid != NULL) {
		LK_TRY(check_letters(reading, megatron));
		model->layers = 0;
		for (const char *letter = megatron->hybrid; *letter && *letter != '/'; letter++)
			model->layers += *letter != '|';
	}
	megatron->hybrid = NULL;
	megatron->hybrid_said = false;
	megatron->attention_share = megatron->mlp_share = 0;
	return lk_launch_note(reading, "flags of hybrids",
	                      "pretrain_gpt.py builds attention and an MLP in every layer; "
	                      "pretrain_mamba.py builds hybrids");
}

/* Each letter is a layer of one half: --hybrid-layer-pattern takes the place of --num-layers. */
lk_status lk_megatron_hybrid(lk_reading *reading, lk_megatron *megatron, lk_job *job) {
	lk_model *model = &job->model;
	int count = 0;
	LK_TRY(check_letters(reading, megatron));
	LK_TRY(hybrid_predictions(reading, megatron, job));
	lk_layer *layers = LK_ARRAY(reading->arena, lk_layer, strlen(megatron->hybrid));
	if (layers == NULL) return lk_oom(reading->err);
	for (const char *letter = megatron->hybrid; *letter; letter++) {
		if (*letter == '|') continue;
		lk_layer *layer = &layers[count++];
		*layer = (lk_layer){0};
		if (*letter == 'M') layer->mixers = LK_MIXER_SSM;
		if (*letter == 'G') layer->mixers = LK_MIXER_DELTA;
		if (strchr("*D+", *letter)) layer->mixers = LK_MIXER_ATTENTION;
		if (*letter == '-') layer->ffn = LK_FFN_DENSE;
		if (*letter == 'E') layer->ffn = LK_FFN_EXPERTS;
	}
	if (strchr(megatron->hybrid, '|')) LK_TRY(hybrid_stages(reading, megatron, job));
	model->layers = count;
	if (strchr(megatron->hybrid, 'M') != NULL) finish_mamba(megatron, model);
	if (count > 0 && lk_model_set_order(model, layers, count)) return LK_OK;
	lk_fail(reading->err, LK_ERR_INPUT, reading->where,
	        "--hybrid-layer-pattern: %d %s change their kind too often to be listed", count,
	        lk_noun(count, "layer", "layers"));
	return lk_hint(reading->err, "%d characters of items such as 3M are kept", LK_MODEL_ORDER - 1);
}

/* --experimental-attention-variant gdn: every N-th layer attends fully (--linear-attention-freq),
 * all others are delta nets; of a list, 1 is one. */
static lk_status read_variant(lk_reading *reading, const lk_megatron *megatron, lk_model *model) {
	int *list = NULL, layers = model->layers, every = 0;
	if (megatron->variant != 1 && megatron->variant != 2) return LK_OK;
	if (megatron->linear_freq == NULL) {
		lk_fail(reading->err, LK_ERR_INPUT, reading->where,
		        "--experimental-attention-variant: no layers are stated");
		return lk_hint(reading->err, "add --linear-attention-freq, such as 4");
	}
	LK_TRY(read_pattern(reading, "linear-attention-freq", megatron->linear_freq, &layers, &every,
	                    &list));
	lk_layer *made = LK_ARRAY(reading->arena, lk_layer, layers);
	if (made == NULL) return lk_oom(reading->err);
	for (int i = 0; i < layers; i++) {
		bool linear = every > 0 ? (i + 1) % every != 0 : list[i] == 1;
		made[i] = lk_model_layer(model, i);
		if (linear) made[i].mixers = LK_MIXER_DELTA;
		if (linear) made[i].window = 0;
	}
	if (lk_model_set_order(model, made, layers)) return LK_OK;
	return lk_fail(reading->err, LK_ERR_INPUT, reading->where,
	               "--linear-attention-freq: layers change their kind too often to be listed");
}

/* Sizes of kinds of layers that the network does not have. */
lk_status lk_megatron_variant(lk_reading *reading, const lk_megatron *megatron, lk_model *model) {
	bool sparse = megatron->variant == 3 || (megatron->hybrid && strchr(megatron->hybrid, 'D'));
	LK_TRY(read_variant(reading, megatron, model));
	if (!(lk_model_mixers(model) & LK_MIXER_DELTA))
		model->delta_conv = model->delta_key_dim = model->delta_value_dim = model->delta_key_heads =
			model->delta_value_heads = 0;
	if (!sparse) model->index_heads = model->index_dim = model->index_topk = 0;
	if (!sparse ||
	    (megatron->latent && model->index_heads && model->index_dim && model->index_topk))
		return LK_OK;
	lk_fail(reading->err, LK_ERR_INPUT, reading->where,
	        "sparse attention lacks latent attention or a size of its indexer");
	return lk_hint(reading->err, "state --multi-latent-attention, --dsa-indexer-n-heads, "
	                             "--dsa-indexer-head-dim and --dsa-indexer-topk");
}
