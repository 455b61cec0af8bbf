/* hash.c: hashes of programs by what they compute and how: a value's hash follows from its
 * operation, attributes, layout and operands, a program's is the sum over its values and bundles,
 * so that order and names do not count. */
#include "lang/rewrite/rewrite.h"

#include <stdlib.h>
#include <string.h>

#include "base/stats.h"

static uint64_t hash_mix(uint64_t h, uint64_t x) {
	return lk_hash64(h * 0x9E3779B97F4A7C15u + x);
}

static uint64_t mix_text(uint64_t h, const char *text) {
	for (; text && *text; text++) h = (h ^ (unsigned char)*text) * 0x100000001B3u;
	return hash_mix(h, text != NULL);
}

static uint64_t mix_dim(uint64_t h, const lc_program *program, lc_dim d) {
	const lc_dim_sum *sum = &program->dims.at[d];
	for (int i = 0; i < sum->count; i++) {
		h = hash_mix(hash_mix(h, (uint64_t)sum->terms[i].number), (uint64_t)sum->terms[i].divisor);
		for (int k = 0; k < LC_SYMBOLS; k++)
			if (sum->terms[i].power[k])
				h = hash_mix(h, (uint64_t)(k << 8 | (uint8_t)sum->terms[i].power[k]));
	}
	return hash_mix(h, (uint64_t)sum->count);
}

static uint64_t mix_group(uint64_t h, const lc_group *group) {
	return group->axis < 0
	           ? hash_mix(h, 0)
	           : mix_text(hash_mix(hash_mix(h, (uint64_t)group->axis + 1), (uint64_t)group->offset),
	                      group->index);
}

static uint64_t mix_layouts(uint64_t h, const lc_program *program, const lc_node *node) {
	for (int a = 0; a < program->axis_count; a++) {
		const lc_layout *layout = &node->layout[a];
		uint64_t what;
		if (layout->kind == LC_S) what = (uint64_t)layout->dim << 32 | (uint32_t)layout->turn;
		else if (layout->kind == LC_P) what = layout->reduce;
		else if (layout->kind == LC_ROOT) what = (uint32_t)layout->root;
		else what = 0;
		h = hash_mix(h, (uint64_t)layout->kind << 56 ^ what);
	}
	return h;
}

static uint64_t mix_attributes(uint64_t h, const lc_node *node) {
	uint64_t number;
	memcpy(&number, &node->number, sizeof number);
	h = hash_mix(h, (uint64_t)(uint8_t)node->axis << 24 | (uint64_t)(uint8_t)node->d << 16 |
	                    (uint64_t)(uint8_t)node->e << 8 | node->reduce);
	h = hash_mix(h, (uint64_t)node->reverse << 32 | (uint64_t)node->dims << 24 |
	                    (uint64_t)node->keep << 16 | (uint64_t)node->ta << 8 | node->tb);
	h = hash_mix(h, (uint64_t)(uint32_t)node->root << 32 | (uint32_t)node->shift);
	h = hash_mix(h, (uint64_t)(uint32_t)node->stride << 32 | (uint32_t)node->pad);
	/* Files of wisdom hold hashes: attributes that are not set leave older ones valid. */
	if (node->window || node->by || node->causal || node->part)
		h = hash_mix(h, (uint64_t)(uint32_t)node->window << 32 |
		                    (uint64_t)(node->by << 16 | node->causal << 8 | node->part));
	return hash_mix(hash_mix(hash_mix(h, (uint64_t)node->symbol), (uint64_t)node->key), number);
}

static bool is_named(const lc_node *node) {
	return node->op == LC_INPUT || node->op == LC_STATE || node->op == LC_SCALAR;
}

static uint64_t hash_value(const lc_program *program, const lc_node *node, const uint64_t *of) {
	uint64_t h = hash_mix(node->op, (uint64_t)node->dtype << 16 | node->rank);
	for (int d = 0; d < node->rank; d++) h = mix_dim(h, program, node->dim[d]);
	h = mix_layouts(h, program, node);
	h = hash_mix(mix_group(mix_group(h, &node->at), &node->from), (uint64_t)node->list);
	h = mix_attributes(h, node);
	for (int k = 0; k < node->inputs; k++) h = hash_mix(h, of[node->in[k]]);
	return is_named(node) ? mix_text(h, node->name) : h;
}

static uint64_t hash_bundle(const lc_bundle *bundle, uint64_t members) {
	uint64_t h =
		mix_text(mix_text(hash_mix(members, (uint64_t)bundle->kind), bundle->chunk), bundle->order);
	return hash_mix(hash_mix(h, (uint64_t)bundle->chunks), (uint64_t)bundle->size);
}

static uint64_t rewrite_hash(const lc_program *program, uint64_t *of, uint64_t *members) {
	uint64_t sum = 0, outputs = 0;
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[i];
		of[i] = hash_value(program, node, of);
		if (node->op == LC_OUT)
			of[i] = hash_mix(of[i], ++outputs); /* the order of results counts */
		sum += hash_mix(of[i], 1);
		if (node->fuse >= 0) members[node->fuse] += of[i];
		if (node->overlap >= 0) members[node->overlap] += of[i];
		if (node->bucket >= 0) members[node->bucket] += of[i];
	}
	for (size_t i = 0; i < program->bundles.count; i++)
		if (members[i]) sum += hash_mix(hash_bundle(&program->bundles.at[i], members[i]), 2);
	for (int a = 0; a < program->axis_count; a++)
		sum += hash_mix((uint64_t)a + 3, (uint64_t)program->axes[a].size);
	return sum;
}

uint64_t lc_program_hash(const lc_program *program) {
	uint64_t *of = calloc(program->nodes.count + program->bundles.count + 1, sizeof *of);
	uint64_t result = of ? rewrite_hash(program, of, of + program->nodes.count) : 0;
	free(of);
	return result;
}
