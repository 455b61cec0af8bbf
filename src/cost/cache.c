/* cache.c: results that a search can reuse. Successive jobs of a search differ in a degree or two:
 * most of their operations have been priced already, and their ranks are placed like those of an
 * earlier job. Open addressing, keys compared as bytes; every key is zeroed before it is filled, so
 * padding does not matter. */
#include "base/arena.h"
#include "cost/cost.h"

#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/vec.h"
#include "base/check.h"

/* Everything that the families of cost.c read. */
struct op_key {
	double m, n, k, batch, flops, bytes, window, pieces;
	const lk_constants *constants;
	const lk_node *node;
	lk_group_shape group;
	int64_t measured_ps;
	double oversubscription;
	uint8_t kind, dtype, flags, stream, graphs, compiled, eager, peers;
};

struct op_entry {
	struct op_key key;
	lk_cost cost;
};

/* What decides the places of ranks, and a site's other fields. */
struct sites_key {
	lk_ranks ranks;
	const lk_cluster *cluster;
	const lk_constants *constants;
	uint8_t graphs, compiled, eager;
};

struct sites_entry {
	struct sites_key key;
	lk_cost_sites *sites;
};

struct lk_cost_cache {
	lk_arena arena;
	LK_VEC(struct op_entry) ops;
	uint32_t *table; /* 1 + entry, by hash */
	uint64_t mask;
	LK_VEC(struct sites_entry) sites;
};

enum { FIRST_SLOTS = 1 << 10 };

lk_cost_cache *lk_cost_cache_new(void) {
	lk_cost_cache *cache = calloc(1, sizeof *cache);
	if (!cache) return NULL;
	cache->mask = FIRST_SLOTS - 1;
	cache->table = calloc(FIRST_SLOTS, sizeof *cache->table);
	if (cache->table) return cache;
	free(cache);
	return NULL;
}

void lk_cost_cache_free(lk_cost_cache *cache) {
	if (!cache) return;
	lk_arena_free(&cache->arena);
	lk_vec_free(&cache->ops);
	lk_vec_free(&cache->sites);
	free(cache->table);
	free(cache);
}

/* ---- operations ---- */

static inline uint64_t cache_mix(uint64_t h, uint64_t word) {
	h = (h ^ word) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static inline uint64_t key_word(const struct op_key *key, size_t i) {
	uint64_t word;
	memcpy(&word, (const char *)key + i * sizeof word, sizeof word);
	return word;
}

/* Word by word, without lk_hash64's rounds for each: the fields differ in many bits. Four chains of
 * rounds are in flight together. */
static uint64_t cache_hash_of(const struct op_key *key) {
	enum { WORDS = sizeof *key / sizeof(uint64_t), CHAINED = WORDS / 4 * 4 };
	_Static_assert(sizeof *key % sizeof(uint64_t) == 0, "keys are whole words");
	uint64_t a = 1, b = 2, c = 3, d = 4;
	for (size_t i = 0; i < CHAINED; i += 4) {
		a = cache_mix(a, key_word(key, i));
		b = cache_mix(b, key_word(key, i + 1));
		c = cache_mix(c, key_word(key, i + 2));
		d = cache_mix(d, key_word(key, i + 3));
	}
	for (size_t i = CHAINED; i < WORDS; i++) a = cache_mix(a, key_word(key, i));
	return cache_mix(cache_mix(cache_mix(a, b), c), d);
}

static void fill_key(struct op_key *key, const lk_graph *graph, uint32_t op,
                     const lk_cost_site *site) {
	LK_ASSERT(op < graph->ops.count);
	const lk_ops *ops = &graph->ops;
	memset(key, 0, sizeof *key);
	key->m = ops->m[op];
	key->n = ops->n[op];
	key->k = ops->k[op];
	key->batch = ops->batch[op];
	key->flops = ops->flops[op];
	key->bytes = ops->bytes[op];
	key->window = ops->window[op];
	key->pieces = ops->pieces[op];
	key->constants = site->constants;
	key->node = site->node;
	key->oversubscription = site->oversubscription;
	key->measured_ps = ops->measured_ps[op];
	key->kind = ops->kind[op];
	key->dtype = ops->dtype[op];
	key->flags = ops->flags[op];
	key->graphs = site->cuda_graphs;
	key->compiled = site->compiled;
	key->eager = site->experts_eager;
	if (!lk_op_is_comm(key->kind)) return;
	uint32_t product = key->flags & LK_OP_OVERLAPPED ? lk_cost_product_beside(ops, op) : UINT32_MAX;
	if (product != UINT32_MAX) {
		key->m = ops->m[product];
		key->n = ops->n[product];
		key->k = ops->k[product];
		key->batch = ops->batch[product];
		key->flops = ops->bytes[product];
		key->dtype = ops->dtype[product];
	}
	const lk_group_shape *group = lk_site_group(site, graph, op);
	key->stream = ops->stream[op];
	key->peers = (uint8_t)(site->peer_same_node[0] | site->peer_same_node[1] << 1);
	key->group.node = group->node;
	key->group.fabric = group->fabric;
	key->group.settings = group->settings;
	key->group.ranks = group->ranks;
	key->group.nodes = group->nodes;
	key->group.ranks_per_node = group->ranks_per_node;
	key->group.apart = group->apart;
	key->group.sharing = group->sharing;
	key->group.oversubscription = group->oversubscription;
	key->group.reach = group->reach;
}

static bool cache_grow(lk_cost_cache *cache) {
	uint64_t size = (cache->mask + 1) * 2;
	uint32_t *table = calloc(size, sizeof *table);
	if (!table) return false;
	free(cache->table);
	cache->table = table;
	cache->mask = size - 1;
	for (size_t i = 0; i < cache->ops.count; i++) {
		uint64_t at = cache_hash_of(&cache->ops.at[i].key) & cache->mask;
		while (table[at]) at = (at + 1) & cache->mask;
		table[at] = (uint32_t)i + 1;
	}
	return true;
}

lk_cost lk_cost_cached(lk_cost_cache *cache, const lk_graph *graph, uint32_t op,
                       const lk_cost_site *site) {
	LK_ASSERT(op < graph->ops.count);
	if (!cache || graph->traced) return lk_cost_op(graph, op, site);
	struct op_key key;
	fill_key(&key, graph, op, site);
	uint64_t at = cache_hash_of(&key) & cache->mask;
	for (; cache->table[at]; at = (at + 1) & cache->mask) {
		const struct op_entry *known = &cache->ops.at[cache->table[at] - 1];
		if (memcmp(&known->key, &key, sizeof key) == 0) return known->cost;
	}
	lk_cost cost = lk_cost_op(graph, op, site);
	/* If memory has run out, or the next slot could not be found any more, nothing is stored. */
	if (cache->ops.count * 2 > cache->mask && !cache_grow(cache)) return cost;
	if (!lk_push(&cache->ops)) return cost;
	*lk_last(&cache->ops) = (struct op_entry){key, cost};
	for (at = cache_hash_of(&key) & cache->mask; cache->table[at];) at = (at + 1) & cache->mask;
	cache->table[at] = (uint32_t)cache->ops.count;
	return cost;
}

/* ---- places ---- */

static struct sites_key cache_key_of(const lk_graph *graph, const lk_cluster *cluster,
                                     const lk_cost_options *options) {
	struct sites_key key;
	memset(&key, 0, sizeof key);
	key.ranks = graph->ranks;
	key.cluster = cluster;
	key.constants = options->constants;
	key.graphs = options->cuda_graphs;
	key.compiled = options->compiled;
	key.eager = options->experts_eager;
	return key;
}

const lk_cost_sites *lk_cost_cache_sites(const lk_cost_cache *cache, const lk_graph *graph,
                                         const lk_cluster *cluster,
                                         const lk_cost_options *options) {
	struct sites_key key = cache_key_of(graph, cluster, options);
	for (size_t i = cache->sites.count;
	     i-- > 0;) /* a search asks for neighbours one after the other */
		if (memcmp(&cache->sites.at[i].key, &key, sizeof key) == 0) return cache->sites.at[i].sites;
	return NULL;
}

lk_cost_sites *lk_cost_cache_add_sites(lk_cost_cache *cache, const lk_graph *graph,
                                       const lk_cluster *cluster, const lk_cost_options *options,
                                       lk_arena **arena) {
	lk_cost_sites *sites = LK_NEW(&cache->arena, lk_cost_sites);
	if (!sites || !lk_push(&cache->sites)) return NULL;
	*arena = &cache->arena;
	struct sites_entry *entry = lk_last(&cache->sites);
	entry->key = cache_key_of(graph, cluster, options);
	entry->sites = sites;
	return sites;
}
