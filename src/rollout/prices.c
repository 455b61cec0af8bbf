/* prices.c: the duration of an engine's iteration. With r rows (tokens that pass the layers) on
 * each of its GPUs, over all layers and heads:
 *
 *     products     the laws of isolated products; of experts those that r rows reach (kernels.c)
 *     attention    decode: the laws of isolated attention over the cache; prompts: pairs of query
 *                  and key at the published rate of fused attention
 *     recurrences  decode: a step of each sequence's state; prompts: the operations of the scan
 *     exchange     two all-reduces per layer among the GPUs that split it; if they attend to their
 *                  own sequences, they only split experts, with an all-gather and a reduce-scatter
 *                  around them
 *     head         of one row per sequence, in 16 bits; sampling passes over the logits three times
 *     host         time that no kernel overlaps; time per launch outside CUDA graphs: in iterations
 *                  that compute prompts, whose rows differ every time, and in eager mode
 *
 * Small kernels take the minimum time of a kernel within a graph. A pipeline of p stages works on p
 * batches in turn: an iteration of all is all layers with 1/p of the rows. Rows are tabulated at
 * eight places per octave and interpolated; times never fall as rows grow. */
#include "rollout/rollout_internal.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "cost/kernel/kernel.h"

const char *const lk_generation_part_keys[LK_GENERATION_PARTS] = {
	"prefill", "products", "attention", "exchange", "head", "host"};
const char *const lk_generation_part_labels[LK_GENERATION_PARTS] = {
	"prompts (prefill)",     "decode: products and norms", "decode: attention over the cache",
	"decode: communication", "decode: head and sampling",  "host between iterations"};

/* ---- kernels ---- */

struct pricing {
	const lk_engine *engine;
	const lk_device *device;
	lk_decode_kernels kernels;
	double stream; /* bytes/s of passes over activations */
	double narrow; /* bytes per element of the layers' operands */
	double floor_s;
	lk_group_shape group;           /* GPUs that split a layer */
	double launches;                /* per iteration, counted while it is priced */
	double experts_rows, experts_s; /* of the layer priced before */
};

static double price_kernel(struct pricing *pricing, double seconds) {
	pricing->launches++;
	return seconds / pricing->engine->numbers.products;
}

/* A product with a weight. */
static double price_product(struct pricing *pricing, const lk_decode_product *product, double m,
                            double n, double k) {
	if (!(m > 0 && n > 0 && k > 0)) return 0;
	return price_kernel(pricing, lk_decode_product_s(&pricing->kernels, product, fmax(1, m), n, k));
}

static double price_pass(struct pricing *pricing, double bytes) {
	pricing->launches++;
	return bytes / pricing->stream + pricing->floor_s;
}

/* A product within a layer. Where its scale is known, and nothing before converts the rows, a pass
 * does. */
static double price_inside(struct pricing *pricing, double m, double n, double k) {
	const lk_engine *engine = pricing->engine;
	const lk_decode_product *product = &pricing->kernels.inside;
	bool casts = engine->dtype >= LK_FP8 && product->format.reads == 0 && !engine->software->fuses;
	if (!(m > 0 && n > 0 && k > 0)) return 0;
	return (casts ? price_pass(pricing, m * k * (2 + pricing->narrow)) : 0) +
	       price_product(pricing, product, m, n, k);
}

static bool has_grace(const lk_engine *engine) {
	const char *name = engine->cluster->node[0].device->name;
	return strncmp(name, "gh", 2) == 0 || strncmp(name, "gb", 2) == 0;
}

/* Bytes that the engines' own all-reduce takes, with the norm behind it; larger ones are NCCL's
 * (TensorRT-LLM, max_workspace_size_auto; vLLM, custom_all_reduce.py). */
static const double FUSED_BYTES = 8 << 20;

/* Residual stream and its normalised copy: read twice, written twice, by the all-reduce before where
 * that is the engines' own. */
static double price_norm(struct pricing *pricing, double rows) {
	const lk_engine *engine = pricing->engine;
	double numbers = rows * engine->model->hidden;
	if (engine->tp > 1 && !engine->attention_dp && 2 * numbers <= FUSED_BYTES) return 0;
	return price_pass(pricing, numbers * (6 + pricing->narrow));
}

/* ---- a layer ---- */

/* Rows of a GPU in everything but experts. */
static double own_rows(const lk_engine *engine, double rows) {
	return engine->attention_dp ? fmax(1, rows / engine->tp) : rows;
}

static double price_heads(struct pricing *pricing, double rows, double split) {
	const lk_model *model = pricing->engine->model;
	double h = model->hidden, heads = model->heads / split, d = model->head_dim;
	double v = lk_model_value_dim(model), kv = lk_engine_kv_heads(pricing->engine) * (d + v),
		   low = model->q_lora;
	return price_inside(pricing, rows, (low > 0 ? low : heads * d) + kv, h) +
	       (low > 0 ? price_inside(pricing, rows, heads * d, low) : 0) +
	       price_pass(pricing, rows * (heads * d + kv) * 4) + /* rotary positions, into the cache */
	       price_inside(pricing, rows, h, heads * v);
}

/* An indexer's products (DeepSeek-V3.2, arXiv 2512.02556), whole on every GPU, and its kernels but
 * for the keys that they read: norms and positions, conversions of queries and keys to 8 bits,
 * scores, the choice. */
static double price_indexer(struct pricing *pricing, double rows) {
	const lk_model *model = pricing->engine->model;
	double wide = (double)model->index_heads * model->index_dim, dim = model->index_dim,
		   from = model->q_lora > 0 ? model->q_lora : model->hidden;
	if (model->index_topk == 0) return 0;
	return price_inside(pricing, rows, wide, from) +
	       price_inside(pricing, rows, dim + model->index_heads, model->hidden) +
	       2 * price_pass(pricing, rows * (wide + dim) * 4) + 3 * price_pass(pricing, 0);
}

/* Queries are projected into the latent space, and attention's output out of it, by products per
 * head (DeepSeek-V2, arXiv 2405.04434, section 2.1.2: absorbed weights). */
static double price_latent(struct pricing *pricing, double rows, double split) {
	const lk_model *model = pricing->engine->model;
	double h = model->hidden, heads = model->heads / split, latent = model->kv_lora,
		   rope = model->qk_rope, q = heads * (model->qk_nope + rope);
	double seconds = price_inside(pricing, rows, model->q_lora + latent + rope, h);
	seconds += price_inside(pricing, rows, q, model->q_lora > 0 ? model->q_lora : h);
	seconds += price_kernel(pricing, lk_decode_absorb_s(&pricing->kernels, rows));
	seconds += price_pass(pricing, rows * (model->q_lora + latent + q) * 4);
	return seconds + price_indexer(pricing, rows) +
	       price_inside(pricing, rows, h, heads * model->v_dim);
}

/* The products of recurrences, and a pass over their output: convolutions and gates. */
static double price_recurrence(struct pricing *pricing, const lk_recurrence *recurrence,
                               double rows) {
	double split = lk_engine_split(pricing->engine), own = own_rows(pricing->engine, rows);
	double seconds = 0, written = 0;
	for (int i = 0; i < recurrence->matrices.count; i++) {
		const lk_matrix *matrix = &recurrence->matrices.at[i];
		double out = matrix->out / (matrix->cut == LK_CUT_OUT ? split : 1);
		double in = matrix->in / (matrix->cut == LK_CUT_IN ? split : 1);
		seconds += matrix->count * price_inside(pricing, own, out, in);
		written += matrix->count * out;
	}
	return seconds + price_pass(pricing, own * written * 4);
}

static double price_attention_products(struct pricing *pricing, double rows) {
	const lk_engine *engine = pricing->engine;
	double split = lk_engine_split(engine), own = own_rows(engine, rows);
	return engine->model->attention == LK_ATTN_MLA ? price_latent(pricing, own, split)
	                                               : price_heads(pricing, own, split);
}

/* The mixers of a layer; some layers have only a feed-forward. */
static double price_mixers(struct pricing *pricing, int i, const lk_layer *layer, double rows) {
	lk_recurrence recurrence = lk_model_recurrence(pricing->engine->model, i);
	double seconds = 0;
	if (layer->mixers == 0) return 0;
	if (layer->mixers & LK_MIXER_ATTENTION) seconds += price_attention_products(pricing, rows);
	if (recurrence.state > 0) seconds += price_recurrence(pricing, &recurrence, rows);
	return seconds + price_norm(pricing, own_rows(pricing->engine, rows));
}

static double price_gated(struct pricing *pricing, double rows, double width) {
	const lk_model *model = pricing->engine->model;
	double up = width * (model->gated ? 2 : 1);
	return price_inside(pricing, rows, up, model->hidden) +
	       price_pass(pricing, rows * (up * 2 + width * pricing->narrow)) +
	       price_inside(pricing, rows, model->hidden, width);
}

static double price_experts(struct pricing *pricing, double rows) {
	const lk_engine *engine = pricing->engine;
	const lk_model *model = engine->model;
	double own = own_rows(engine, rows);
	double router =
		price_product(pricing, &pricing->kernels.wide, own, model->experts, model->hidden);
	if (pricing->experts_rows != rows) {
		pricing->experts_rows = rows;
		pricing->experts_s = lk_decode_experts_s(&pricing->kernels, engine, rows);
	}
	double routed = price_kernel(pricing, pricing->experts_s), shared = 0;
	pricing->launches += 6; /* its kernels */
	if (model->shared_ffn > 0)
		shared = price_gated(pricing, own, model->shared_ffn / lk_engine_split(engine));
	/* on streams of their own while they leave SMs to one another */
	return router + (own > LK_LAW_FEW_ROWS ? routed + shared : fmax(routed, shared));
}

static double price_ffn(struct pricing *pricing, const lk_layer *layer, double rows) {
	const lk_engine *engine = pricing->engine;
	double own = own_rows(engine, rows);
	if (layer->ffn == LK_FFN_NONE) return 0;
	return price_norm(pricing, own) +
	       (layer->ffn == LK_FFN_EXPERTS
	            ? price_experts(pricing, rows)
	            : price_gated(pricing, own,
	                          lk_layer_ffn(engine->model, layer) / lk_engine_split(engine)));
}

static double price_collective(struct pricing *pricing, lk_coll_kind kind, double bytes) {
	pricing->launches++;
	double seconds = lk_collective_cost(kind, &pricing->group, bytes).seconds;
	return kind == LK_COLL_ALLREDUCE
	           ? fmin(seconds, lk_decode_allreduce_s(&pricing->kernels, &pricing->group, bytes))
	           : seconds;
}

/* Rows travel to the experts in their format and back in 16 bits: each to all GPUs, or, on
 * superchips, each copy to where an expert of its choice is (TensorRT-LLM, supports_mnnvl: Arm hosts
 * whose NVLinks are all up). */
static double price_dispatch(struct pricing *pricing, double rows) {
	const lk_engine *engine = pricing->engine;
	double width = lk_dtype_bytes(engine->dtype), hidden = engine->model->hidden,
		   all = price_collective(pricing, LK_COLL_ALLGATHER, rows * hidden * width) +
	             price_collective(pricing, LK_COLL_REDUCESCATTER, rows * hidden * 2);
	double copies = own_rows(engine, rows) * fmin(engine->model->topk, engine->ep) * hidden;
	if (engine->ep < engine->tp || !has_grace(engine)) return all;
	return fmin(all, lk_decode_alltoall_s(&pricing->kernels, &pricing->group, copies * width) +
	                     lk_decode_alltoall_s(&pricing->kernels, &pricing->group, copies * 2));
}

static double price_exchange(struct pricing *pricing, const lk_layer *layer, double rows) {
	const lk_engine *engine = pricing->engine;
	double numbers = rows * engine->model->hidden, bytes = numbers * 2;
	if (engine->tp == 1) return 0;
	if (engine->attention_dp)
		return layer->ffn == LK_FFN_EXPERTS ? price_dispatch(pricing, rows) : 0;
	return price_collective(pricing, LK_COLL_ALLREDUCE, bytes) *
	       ((layer->mixers != 0) + (layer->ffn != LK_FFN_NONE));
}

/* ---- tables ---- */

/* Rows at a place of the tables: each of the first eight, then eight per octave. */
static double rows_at(int place) {
	return place < 8 ? place + 1 : 8 * exp2((place - 7) / 8.0);
}

static double table_at(const double *table, double rows) {
	if (!(rows > 0)) return 0;
	if (rows <= 1) return table[0];
	double place = rows <= 8 ? rows - 1 : 7 + 8 * log2(rows / 8);
	int below = (int)fmin(floor(place), LK_PRICE_ROWS - 2);
	double low = rows_at(below), high = rows_at(below + 1);
	return table[below] + (table[below + 1] - table[below]) * (rows - low) / (high - low);
}

static void price_layers(struct pricing *pricing, double rows, double *products, double *exchange) {
	const lk_model *model = pricing->engine->model;
	double layer_s = 0, moved_s = 0, launches = 0;
	*products = *exchange = 0;
	pricing->launches = 0;
	for (int i = 0; i < model->layers; i++) {
		lk_layer layer = lk_model_layer(model, i);
		if (i == 0 || !lk_layer_repeats(model, i)) {
			double before = pricing->launches;
			layer_s = price_mixers(pricing, i, &layer, rows) + price_ffn(pricing, &layer, rows);
			moved_s = price_exchange(pricing, &layer, rows);
			launches = pricing->launches - before + 1; /* including attention */
			pricing->launches = before;
		}
		*products += layer_s;
		*exchange += moved_s;
		pricing->launches += launches;
	}
	if (pricing->engine->pp > 1)
		*exchange += (pricing->engine->pp - 1) * lk_p2p_cost(pricing->group.node, true, 1, 1, NULL,
		                                                     NULL, rows * model->hidden * 2)
		                                             .seconds;
}

/* GPUs that attend to their own sequences keep the whole head and sample for themselves. */
static double price_head(struct pricing *pricing, double rows) {
	const lk_engine *engine = pricing->engine;
	double vocab = engine->model->vocab;
	if (engine->attention_dp) {
		rows = fmax(1, rows / engine->tp);
		return price_product(pricing, &pricing->kernels.wide, rows, vocab, engine->model->hidden) +
		       3 * price_pass(pricing, rows * vocab * 4);
	}
	double seconds = price_product(pricing, &pricing->kernels.wide, rows, vocab / engine->tp,
	                               engine->model->hidden);
	if (engine->tp > 1) seconds += price_collective(pricing, LK_COLL_ALLGATHER, rows * vocab * 2);
	return seconds + 3 * price_pass(pricing, rows * vocab * 4);
}

static void fill_tables(struct pricing *pricing, lk_prices *out) {
	double least[3] = {0};
	for (int i = 0; i < LK_PRICE_ROWS; i++) {
		double rows = rows_at(i) / pricing->engine->pp;
		price_layers(pricing, fmax(1, rows), &out->products_s[i], &out->exchange_s[i]);
		out->head_s[i] = price_head(pricing, fmax(1, rows));
		out->products_s[i] = least[0] = fmax(least[0], out->products_s[i]);
		out->exchange_s[i] = least[1] = fmax(least[1], out->exchange_s[i]);
		out->head_s[i] = least[2] = fmax(least[2], out->head_s[i]);
	}
}

/* ---- attention ---- */

static double price_pair(const struct pricing *pricing) {
	const lk_engine *engine = pricing->engine;
	const lk_model *model = engine->model;
	const lk_device *device = pricing->device;
	double head = model->attention == LK_ATTN_MLA
	                  ? ((double)model->qk_nope + model->qk_rope + model->v_dim) / 2
	                  : model->head_dim;
	lk_attention_kernel best = LK_ATTENTION_FA2;
	for (int kernel = 0; kernel < LK_ATTENTIONS; kernel++)
		if (lk_published_attention(device, (lk_attention_kernel)kernel, false).flops >
		    lk_published_attention(device, best, false).flops)
			best = (lk_attention_kernel)kernel;
	double rate = lk_published_attention(device, best, false).flops, wider = 1;
	if (engine->kv_dtype >= LK_FP8) /* queries, keys and values are multiplied in 8 bits too */
		wider = lk_peak_flops(device, LK_FP8) / lk_peak_flops(device, LK_BF16);
	/* the published rate is for heads of 128; a pair's exponential takes as long as `c` elements */
	double c = lk_attention_exponential(device, best);
	double seconds = 4 * 128 / rate * (head / wider + c) / (128 + c);
	return seconds * model->heads / engine->tp / engine->numbers.products / engine->pp;
}

/* Kernels that scan a prompt in chunks reach this share of the products' rate: an assumption. */
static const double SCAN_SHARE = 0.3;

static void add_states(const struct pricing *pricing, int layer, lk_prices *out) {
	const lk_engine *engine = pricing->engine;
	lk_recurrence recurrence = lk_model_recurrence(engine->model, layer);
	double rate = lk_sustained_flops(pricing->device, LK_BF16) * engine->numbers.products;
	if (!(recurrence.state > 0)) return;
	out->state = recurrence.state / lk_engine_split(engine);
	out->state_layers++;
	out->scan_s += 2 * recurrence.core / (rate * SCAN_SHARE) / engine->tp / engine->pp;
	out->attention_floor_s += lk_decode_state_s(&out->cache, 1, 0) / out->attention;
}

/* Of memory bandwidth, as passes over activations. */
static const double SCORES_SHARE = 0.45;

/* Scores of an indexer: a key and its scale in 8 bits are read for each sequence, and the score is
 * written and read three times to choose; of a prompt's pairs, the products in 8 bits. */
static void add_indexer(const struct pricing *pricing, double layers, lk_prices *out) {
	const lk_model *model = pricing->engine->model;
	lk_dtype dtype = lk_peak_flops(pricing->device, LK_FP8) > 0 ? LK_FP8 : LK_BF16;
	double rate = lk_sustained_flops(pricing->device, dtype) * pricing->engine->numbers.products;
	if (model->index_topk == 0) return;
	out->index_s = layers * (lk_engine_index_bytes(pricing->engine) + 16) /
	               (pricing->device->memory_rate * SCORES_SHARE);
	out->window[out->windows] = INFINITY;
	out->pair_s[out->windows++] =
		layers * 2 * model->index_heads * (model->index_dim + 1.0) / rate / pricing->engine->pp;
}

static void fill_attention(const struct pricing *pricing, lk_prices *out) {
	const lk_engine *engine = pricing->engine;
	double pair = price_pair(pricing);
	out->cache = pricing->kernels.cache;
	out->attention = engine->numbers.attention;
	out->shares = engine->pp * (engine->attention_dp ? engine->tp : 1.0);
	for (int i = 0; i < engine->model->layers; i++) {
		double window = lk_model_window(engine->model, i);
		if (engine->model->index_topk > 0) window = engine->model->index_topk;
		add_states(pricing, i, out);
		if (!(lk_model_layer(engine->model, i).mixers & LK_MIXER_ATTENTION)) continue;
		if (!(window > 0)) window = INFINITY;
		int at = 0;
		while (at < out->windows && out->window[at] != window) at++;
		if (at == out->windows && at < LK_PRICE_WINDOWS) out->window[out->windows++] = window;
		if (at == LK_PRICE_WINDOWS) at--; /* counted with the last: networks have two */
		out->layers[at]++;
		out->pair_s[at] += pair;
		out->attention_floor_s +=
			lk_decode_attention_s(&out->cache, 1, 1, INFINITY) / out->attention;
	}
	if (out->windows > 0 && out->windows < LK_PRICE_WINDOWS)
		add_indexer(pricing, out->layers[0], out);
}

/* Attention over the cache and steps of recurrences, of all layers. */
static double attention_at(const lk_prices *prices, double sequences, double mean) {
	double seconds = 0, each = sequences / prices->shares;
	if (!(sequences > 0)) return 0;
	for (int i = 0; i < prices->windows && prices->layers[i] > 0; i++)
		seconds += prices->layers[i] *
		           lk_decode_attention_s(&prices->cache, each, mean, prices->window[i]);
	if (prices->state_layers > 0)
		seconds += prices->state_layers * lk_decode_state_s(&prices->cache, each, prices->state);
	return (seconds + prices->index_s * each * mean) / prices->attention;
}

/* ---- the whole ---- */

const char *lk_engine_lacks(const lk_model *model) {
	if (model->network != LK_NET_DECODER || !model->lm_head || model->vocab <= 0)
		return "it does not generate text";
	if (lk_model_mixers(model) & LK_MIXER_RWKV) return "RWKV's time mix is not";
	return NULL;
}

static lk_status check_engine(const lk_engine *engine, lk_error *err) {
	const lk_model *model = engine->model;
	const char *lacks = lk_engine_lacks(model);
	if (lacks) {
		lk_fail(err, LK_ERR_INPUT, "--model", "generation of %s is not modelled: %s", model->name,
		        lacks);
		return lk_hint(err, "give a language model whose layers are attention and feed-forward");
	}
	if (model->heads % engine->tp != 0 && !engine->attention_dp) {
		lk_fail(err, LK_ERR_INPUT, "--tp", "%d heads are not divisible by %d", model->heads,
		        engine->tp);
		return lk_hint(err, "give a divisor of the heads");
	}
	if (engine->ep > 1 &&
	    (model->experts == 0 || model->experts % engine->ep != 0 || engine->tp % engine->ep != 0)) {
		lk_fail(err, LK_ERR_INPUT, "--ep", "%d does not divide %d experts on %d GPUs", engine->ep,
		        model->experts, engine->tp);
		return lk_hint(err, "give a divisor of both, or leave it out");
	}
	if (engine->pp > model->layers) {
		lk_fail(err, LK_ERR_INPUT, "--pp", "%d stages for %d layers", engine->pp, model->layers);
		return lk_hint(err, "give at most the layers");
	}
	return LK_OK;
}

/* A thread of Grace takes 1.1 to 1.3 times as long as one of the x86 processors of HGX machines; of
 * 1.2 and 1.5, with numbers fitted to each, the latter misses throughput and steps of reinforcement
 * learning by less and served requests by as much. */
double lk_engine_host_factor(const lk_engine *engine) {
	return has_grace(engine) ? 1.5 : 1;
}

lk_status lk_engine_prices(const lk_engine *engine, lk_prices *out, lk_error *err) {
	LK_TRY(check_engine(engine, err));
	const lk_node *node = &engine->cluster->node[0];
	int in_node = engine->tp < node->gpus ? engine->tp : node->gpus;
	struct pricing pricing = {
		.engine = engine,
		.device = node->device,
		.kernels = lk_decode_kernels_of(engine),
		.stream = node->device->memory_rate * 0.45 * engine->numbers.products,
		.narrow = lk_dtype_bytes(engine->dtype),
		.floor_s = engine->numbers.floor_us * 1e-6,
		.group = {.node = node,
	              .ranks = engine->tp,
	              .nodes = (engine->tp + node->gpus - 1) / node->gpus,
	              .ranks_per_node = in_node,
	              .sharing = 1,
	              .oversubscription = engine->cluster->oversubscription},
	};
	double guess = engine->accept, draft = engine->draft;
	double early = engine->software->early ? engine->numbers.early_us : 0;
	double host = 1e-6 * lk_engine_host_factor(engine);
	*out = (lk_prices){.step_s = engine->numbers.step_us * host,
	                   .sequence_s = (engine->numbers.sequence_us + early) * host,
	                   .request_s = engine->numbers.request_us * host,
	                   .rows = 1 + draft,
	                   /* each further token needs all before it (Leviathan et al., arXiv
	                      2211.17192, equation 1) */
	                   .taken = guess < 1 ? (1 - pow(guess, draft + 1)) / (1 - guess) : 1 + draft,
	                   .draft_s = draft / engine->model->layers};
	fill_tables(&pricing, out);
	out->issue_s = pricing.launches * engine->numbers.launch_us * host;
	out->hosts = engine->attention_dp ? engine->tp : 1;
	out->eager = engine->eager;
	out->overlaps = engine->software->overlaps;
	fill_attention(&pricing, out);
	return LK_OK;
}

double lk_iterations(const lk_prices *prices, const lk_iteration_span *span,
                     double parts[LK_GENERATION_PARTS]) {
	double sequences = span->sequences, context = span->context, prompt = span->prompt,
		   count = span->count;
	LK_ASSERT(sequences >= 0 && prompt >= 0 && count >= 0);
	double rows = sequences * prices->rows, mean = sequences > 0 ? context / sequences : 0;
	double draft = 1 + prices->draft_s; /* a guess is a layer and the head, once per token */
	double products = table_at(prices->products_s, rows) * draft,
		   exchange = table_at(prices->exchange_s, rows) * draft,
		   head = table_at(prices->head_s, rows) +
	              (prices->rows - 1) * table_at(prices->head_s, sequences),
		   attention = attention_at(prices, sequences, mean), prefill = 0;
	if (prompt > 0) {
		prefill = table_at(prices->products_s, rows + prompt) +
		          table_at(prices->exchange_s, rows + prompt) - table_at(prices->products_s, rows) -
		          table_at(prices->exchange_s, rows) + prices->attention_floor_s +
		          table_at(prices->head_s, 1) + prices->scan_s * prompt;
		for (int i = 0; i < prices->windows; i++)
			prefill += prices->pair_s[i] * fmin(span->pairs, prompt * prices->window[i]);
	}
	double device = products + exchange + head + attention + prefill;
	/* launches run ahead of the device. If all host work does, host and device partly hide each
	 * other: sqrt(device^2 + host^2), the longer one when they differ much. */
	double issue = prices->eager || prompt > 0 ? prices->issue_s : 0,
		   serial = prices->step_s + prices->sequence_s * sequences / prices->hosts;
	double host = prices->overlaps ? hypot(device, serial + issue) - device
	                               : serial + fmax(0, issue - device);
	const double each[LK_GENERATION_PARTS] = {prefill, products, attention, exchange, head, host};
	for (int i = 0; i < LK_GENERATION_PARTS; i++) parts[i] += each[i] * count;
	return (device + host) * count;
}
