/* hash.c: programs by what they compute and how: the hash of a value follows from its operation, attributes, layout and
 * operands, that of a program is the sum over its values and bundles, so that neither order nor names count. */
#include "lang/rewrite/rewrite.h"

#include <stdlib.h>
#include <string.h>

#include "base/stats.h"

static uint64_t mix(uint64_t h, uint64_t x) { return lk_hash64(h * 0x9E3779B97F4A7C15u + x); }

static uint64_t mix_text(uint64_t h, const char *text) {
	for (; text && *text; text++) h = (h ^ (unsigned char)*text) * 0x100000001B3u;
	return mix(h, text != NULL);
}

static uint64_t mix_dim(uint64_t h, const lc_program *p, lc_dim d) {
	const lc_dim_sum *s = &p->dims.at[d];
	for (int i = 0; i < s->count; i++) {
		h = mix(mix(h, (uint64_t)s->terms[i].number), (uint64_t)s->terms[i].divisor);
		for (int k = 0; k < LC_SYMBOLS; k++)
			if (s->terms[i].power[k]) h = mix(h, (uint64_t)(k << 8 | (uint8_t)s->terms[i].power[k]));
	}
	return mix(h, (uint64_t)s->count);
}

static uint64_t mix_group(uint64_t h, const lc_group *g) {
	return g->axis < 0 ? mix(h, 0) : mix_text(mix(mix(h, (uint64_t)g->axis + 1), (uint64_t)g->offset), g->index);
}

static uint64_t mix_layouts(uint64_t h, const lc_program *p, const lc_node *n) {
	for (int a = 0; a < p->axis_count; a++) {
		const lc_layout *l = &n->layout[a];
		uint64_t what = l->kind == LC_S ? (uint64_t)l->dim << 32 | (uint32_t)l->turn
		                : l->kind == LC_P ? l->reduce : l->kind == LC_ROOT ? (uint32_t)l->root : 0;
		h = mix(h, (uint64_t)l->kind << 56 ^ what);
	}
	return h;
}

static uint64_t mix_attributes(uint64_t h, const lc_node *n) {
	uint64_t number;
	memcpy(&number, &n->number, sizeof number);
	h = mix(h, (uint64_t)(uint8_t)n->axis << 24 | (uint64_t)(uint8_t)n->d << 16 | (uint64_t)(uint8_t)n->e << 8 | n->reduce);
	h = mix(h, (uint64_t)n->dims << 24 | (uint64_t)n->keep << 16 | (uint64_t)n->ta << 8 | n->tb);
	h = mix(h, (uint64_t)(uint32_t)n->root << 32 | (uint32_t)n->shift);
	h = mix(h, (uint64_t)(uint32_t)n->stride << 32 | (uint32_t)n->pad);
	return mix(mix(mix(h, (uint64_t)n->symbol), (uint64_t)n->key), number);
}

static bool is_named(const lc_node *n) { return n->op == LC_INPUT || n->op == LC_STATE || n->op == LC_SCALAR; }

static uint64_t hash_value(const lc_program *p, const lc_node *n, const uint64_t *of) {
	uint64_t h = mix(n->op, (uint64_t)n->dtype << 16 | n->rank);
	for (int d = 0; d < n->rank; d++) h = mix_dim(h, p, n->dim[d]);
	h = mix_layouts(h, p, n);
	h = mix(mix_group(mix_group(h, &n->at), &n->from), (uint64_t)n->list);
	h = mix_attributes(h, n);
	for (int k = 0; k < n->inputs; k++) h = mix(h, of[n->in[k]]);
	return is_named(n) ? mix_text(h, n->name) : h;
}

static uint64_t hash_bundle(const lc_bundle *b, uint64_t members) {
	uint64_t h = mix_text(mix_text(mix(members, (uint64_t)b->kind), b->chunk), b->order);
	return mix(mix(h, (uint64_t)b->chunks), (uint64_t)b->size);
}

static uint64_t hash(const lc_program *p, uint64_t *of, uint64_t *members) {
	uint64_t sum = 0, outputs = 0;
	for (size_t i = 0; i < p->nodes.count; i++) {
		const lc_node *n = &p->nodes.at[i];
		of[i] = hash_value(p, n, of);
		if (n->op == LC_OUT) of[i] = mix(of[i], ++outputs); /* results count in order */
		sum += mix(of[i], 1);
		if (n->fuse >= 0) members[n->fuse] += of[i];
		if (n->overlap >= 0) members[n->overlap] += of[i];
		if (n->bucket >= 0) members[n->bucket] += of[i];
	}
	for (size_t i = 0; i < p->bundles.count; i++)
		if (members[i]) sum += mix(hash_bundle(&p->bundles.at[i], members[i]), 2);
	for (int a = 0; a < p->axis_count; a++) sum += mix((uint64_t)a + 3, (uint64_t)p->axes[a].size);
	return sum;
}

uint64_t lc_program_hash(const lc_program *p) {
	uint64_t *of = calloc(p->nodes.count + p->bundles.count + 1, sizeof *of);
	uint64_t result = of ? hash(p, of, of + p->nodes.count) : 0;
	free(of);
	return result;
}
