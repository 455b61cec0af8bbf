/* lang_random.h: random programs of the language, well typed, and random directives on them. All by
 * seed. */
#ifndef LK_TEST_LANG_RANDOM_H
#define LK_TEST_LANG_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "base/stats.h"
#include "lang/types/program.h"
#include "lang/rewrite/rewrite.h"
#include "lang_text.h"

static inline bool draw_chance(uint64_t *seed, unsigned percent) {
	return draw(seed, 100) < percent;
}

static inline const char *random_name(lc_program *program, char kind, int number) {
	char name[24];
	snprintf(name, sizeof name, "%c%d", kind, number);
	return lk_arena_strdup(&program->file->arena, name);
}

/* ---- leaves ---- */

static inline lc_layout random_layout(uint64_t *seed, int rank) {
	static const uint8_t kinds[] = {LC_R, LC_R, LC_R, LC_R, LC_P,   LC_P,
	                                LC_P, LC_S, LC_S, LC_L, LC_ROOT};
	lc_layout l = {.kind = kinds[draw(seed, sizeof kinds)]};
	if (l.kind == LC_S && rank == 0) l.kind = LC_R;
	if (l.kind == LC_S) l.dim = (int8_t)draw(seed, (uint64_t)rank);
	if (l.kind == LC_P)
		l.reduce = (uint8_t)(draw_chance(seed, 85) ? LC_SUM : draw(seed, LC_REDUCES));
	return l;
}

/* Of states, layouts that a step can keep: replicated ones mostly. */
static inline void random_leaf(lc_program *program, uint64_t *seed, int number) {
	lc_node n = lc_draft(draw_chance(seed, 30) ? LC_STATE : LC_INPUT, 0, 0);
	lk_error err;
	n.dtype = draw_chance(seed, 85) ? LC_F32 : draw_chance(seed, 50) ? LC_F16 : LC_I32;
	n.rank = (uint8_t)(draw_chance(seed, 15) ? 0 : 1 + draw(seed, 2));
	for (int d = 0; d < n.rank; d++) lc_dim_named(program, (int)draw(seed, 2), &n.dim[d], &err);
	for (int a = 0; a < program->axis_count; a++)
		if (n.op == LC_INPUT || draw_chance(seed, 15)) n.layout[a] = random_layout(seed, n.rank);
	n.name = random_name(program, n.op == LC_STATE ? 's' : 'x', number);
	lc_add(program, &n, NULL, &err); /* refused where it is sliced twice in a way that is none */
}

/* ---- values: drafts, some of which are refused ---- */

static inline int random_value(const lc_program *program, uint64_t *seed) {
	size_t n = program->nodes.count;
	for (int tries = 0; tries < 20; tries++) {
		size_t id = draw_chance(seed, 60) ? n - 1 - draw(seed, n < 4 ? n : 4) : draw(seed, n);
		if (program->nodes.at[id].op != LC_OUT) return (int)id;
	}
	return 0;
}

static inline bool takes_argument(lc_op op, lc_argument wanted) {
	for (const uint8_t *kind = lc_ops[op].arguments; *kind; kind++)
		if (*kind == wanted) return true;
	return false;
}

/* Any operation on any values. */
static inline lc_node random_draft(const lc_program *program, uint64_t *seed) {
	lc_op op = (lc_op)(LC_CONST + (int)draw(seed, LC_OP_COUNT - LC_CONST));
	lc_node n = lc_draft(op, 0, 0);
	for (int i = 0; i < n.inputs; i++) n.in[i] = random_value(program, seed);
	if (op == LC_CONST || op == LC_DROPOUT) n.number = (double)draw(seed, 8) / 8;
	if (takes_argument(op, LC_A_DTYPE)) n.dtype = (uint8_t)draw(seed, LC_WEAK_INT);
	if (lc_ops[op].family == LC_COMM || op == LC_SIZE)
		n.axis = (int8_t)draw(seed, (uint64_t)program->axis_count);
	if (takes_argument(op, LC_A_DIM)) n.d = (int8_t)draw(seed, 2);
	if (takes_argument(op, LC_A_OTHER_DIM)) n.e = (int8_t)draw(seed, 2);
	if (takes_argument(op, LC_A_REDUCTION)) n.reduce = (uint8_t)draw(seed, LC_REDUCES);
	if (takes_argument(op, LC_A_COUNT)) n.count = (lc_dim)draw(seed, program->dims.count);
	if (takes_argument(op, LC_A_SHIFT)) {
		n.shift = (int32_t)draw(seed, 3) - 1;
		if (draw_chance(seed, 30)) n.by = (int8_t)draw(seed, (uint64_t)program->axis_count + 1);
	}
	if (takes_argument(op, LC_A_KEY)) n.key = (int64_t)draw(seed, 5);
	if (takes_argument(op, LC_A_DIMS))
		n.dims = (uint8_t)draw(seed, 4), n.keep = (uint8_t)draw(seed, 2);
	if (takes_argument(op, LC_A_TRANSPOSES))
		n.ta = (uint8_t)draw(seed, 2), n.tb = (uint8_t)draw(seed, 2);
	return n;
}

static inline lc_node random_pointwise(const lc_program *program, uint64_t *seed) {
	static const lc_op ops[] = {LC_ADD,  LC_ADD,  LC_SUB,     LC_MUL,      LC_MUL,
	                            LC_DIV,  LC_MIN,  LC_MAX,     LC_NEG,      LC_SQRT,
	                            LC_EXP,  LC_RELU, LC_TANH,    LC_GELU,     LC_DROPOUT,
	                            LC_COPY, LC_CAST, LC_RED_SUM, LC_RED_MEAN, LC_MATMUL};
	lc_node n = random_draft(program, seed);
	n = (lc_node){
		.op = (uint8_t)ops[draw(seed, sizeof ops / sizeof *ops)], .key = n.key, .axis = -1};
	lc_node plain = lc_draft((lc_op)n.op, 0, 0);
	plain.key = (int64_t)draw(seed, 5);
	for (int i = 0; i < plain.inputs; i++) plain.in[i] = random_value(program, seed);
	if (n.op == LC_DROPOUT) plain.number = 0.25;
	if (n.op == LC_CAST) plain.dtype = draw_chance(seed, 50) ? LC_F32 : LC_F16;
	if (n.op == LC_RED_SUM || n.op == LC_RED_MEAN)
		plain.dims = (uint8_t)draw(seed, 4), plain.keep = (uint8_t)draw(seed, 2);
	return plain;
}

/* A collective that a value's layout asks for. */
static inline lc_node random_collective(const lc_program *program, uint64_t *seed) {
	int id = random_value(program, seed), axis = (int)draw(seed, (uint64_t)program->axis_count);
	const lc_layout *layout = &program->nodes.at[id].layout[axis];
	lc_op op = LC_SLICE;
	if (layout->kind == LC_P)
		op = draw_chance(seed, 70)   ? LC_ALLREDUCE
		     : draw_chance(seed, 70) ? LC_REDUCESCATTER
		                             : LC_REDUCE;
	if (layout->kind == LC_S)
		op = draw_chance(seed, 60)   ? LC_ALLGATHER
		     : draw_chance(seed, 50) ? LC_ALLTOALL
		                             : LC_PERMUTE;
	if (layout->kind == LC_ROOT) op = LC_BROADCAST;
	if (layout->kind == LC_R && draw_chance(seed, 20)) op = LC_LOCAL;
	if (layout->kind == LC_L)
		op = draw_chance(seed, 30) ? LC_PARTIAL : draw_chance(seed, 50) ? LC_SLICED : LC_PERMUTE;
	lc_node n = lc_draft(op, 0, 0);
	n.in[0] = id, n.axis = (int8_t)axis, n.reduce = layout->reduce;
	n.d = (int8_t)(layout->kind == LC_S ? layout->dim : (int)draw(seed, 2)),
	n.e = (int8_t)draw(seed, 2), n.shift = 1;
	return n;
}

/* Handed over from the first group of an axis to the second. */
static inline lc_node random_send(const lc_program *program, uint64_t *seed) {
	lc_node n = lc_draft(LC_SEND, 0, 0);
	n.in[0] = random_value(program, seed);
	n.from.axis = n.at.axis = (int)draw(seed, (uint64_t)program->axis_count);
	n.at.offset = 1;
	return n;
}

/* Attention of a sliced sequence to gathered keys, and what it is made of. */
static inline void random_attention(lc_program *program, uint64_t *seed) {
	lc_node leaf = lc_draft(LC_INPUT, 0, 0), y = lc_draft(LC_ATTENTION, 0, 0);
	lk_error err;
	leaf.dtype = LC_F32;
	leaf.rank = 3;
	lc_dim_number(program, 2, &leaf.dim[0], &err);
	lc_dim_named(program, 0, &leaf.dim[1], &err);
	lc_dim_named(program, 1, &leaf.dim[2], &err);
	leaf.layout[0] = (lc_layout){.kind = LC_S, .dim = 1};
	for (int k = 0; k < 3; k++) {
		lc_node gather = lc_draft(LC_ALLGATHER, 0, 0);
		leaf.name = random_name(program, 'a', k);
		lc_add(program, &leaf, &y.in[k], &err);
		gather.in[0] = y.in[k];
		gather.axis = 0;
		gather.d = 1;
		gather.name = random_name(program, 'g', k);
		if (k) lc_add(program, &gather, &y.in[k], &err);
	}
	y.causal = (uint8_t)draw(seed, 2);
	y.window = draw_chance(seed, 30) ? 2 : 0;
	y.name = random_name(program, 'y', 0);
	lc_add(program, &y, NULL, &err);
}

/* A new value for a state, of what fits it. */
static inline void random_updates(lc_program *program, uint64_t *seed) {
	size_t count = program->nodes.count;
	for (size_t s = 0; s < count; s++) {
		if (program->nodes.at[s].op != LC_STATE) continue;
		for (int tries = 0; tries < 60; tries++) {
			lc_node n = lc_draft(LC_UPDATE, 0, 0);
			lk_error err;
			n.in[0] = lc_value_find(program, program->nodes.at[s].name),
			n.in[1] = random_value(program, seed);
			if (n.in[0] != n.in[1] && lc_add(program, &n, NULL, &err) == LK_OK) break;
		}
	}
}

static inline void random_outputs(lc_program *program, uint64_t *seed) {
	size_t count = program->nodes.count;
	lk_error err;
	for (size_t made = 0, tries = 0; made < 2 && tries < 40; tries++) {
		lc_node out = lc_draft(LC_OUT, 0, 0);
		out.in[0] = (int32_t)(count - 1 - draw(seed, count < 8 ? count : 8));
		if (program->nodes.at[out.in[0]].op != LC_OUT && lc_add(program, &out, NULL, &err) == LK_OK)
			made++;
	}
}

/* A program of at most `values` values and what updates and outputs add; in a file of its own,
 * which is returned. */
static inline lc_file *random_program(uint64_t seed, int values) {
	lk_error err;
	uint64_t s = lk_hash64(seed) << 20;
	lc_file *file = lc_file_new("random");
	lc_program *program = lc_program_new(file, "p");
	bool attends = draw_chance(&s, 15);
	lc_axis_add(program, "dp", attends ? 2 : 0, &err);
	if (draw_chance(&s, 40)) lc_axis_add(program, "tp", 0, &err);
	lc_dim_declare(program, "N", -1, &err);
	lc_dim_declare(program, "M", -1, &err);
	for (int i = 0; i < 5; i++) random_leaf(program, &s, i);
	if (program->nodes.count == 0) random_leaf(program, &s, 9);
	if (attends) random_attention(program, &s);
	for (int tries = 0, number = 0;
	     tries < 40 * values && (int)program->nodes.count < values && program->nodes.count;
	     tries++) {
		lc_node n = draw_chance(&s, 35)   ? random_collective(program, &s)
		            : draw_chance(&s, 85) ? random_pointwise(program, &s)
		                                  : random_draft(program, &s);
		if (draw_chance(&s, 4)) n = random_send(program, &s);
		bool named = lc_ops[n.op].family != LC_EFFECT && lc_ops[n.op].family != LC_LEAF &&
		             draw_chance(&s, 60);
		if (named) n.name = random_name(program, 'v', number++);
		lc_add(program, &n, NULL, &err);
	}
	random_updates(program, &s);
	random_outputs(program, &s);
	if (lc_settle(program, &err) != LK_OK) return file;
	lc_name_parts(program);
	return file;
}

/* ---- directives ---- */

static inline const char *random_part(const lc_program *program, uint64_t *seed) {
	for (int tries = 0; tries < 20; tries++) {
		const lc_node *node = &program->nodes.at[draw(seed, program->nodes.count)];
		if (node->part_of) return node->part_of;
	}
	return "nothing";
}

/* The collective that is asked for, where there is one. */
static inline const char *random_part_of(const lc_program *program, uint64_t *seed, lc_op op) {
	size_t begin = draw(seed, program->nodes.count);
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[(begin + i) % program->nodes.count];
		if (node->op == op && node->part_of) return node->part_of;
	}
	return random_part(program, seed);
}

/* A statement that reads a value of the part, where there is one. */
static inline const char *random_reader(const lc_program *program, uint64_t *seed,
                                        const char *part) {
	size_t begin = draw(seed, program->nodes.count);
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[(begin + i) % program->nodes.count];
		for (int k = 0; node->part_of && k < node->inputs; k++) {
			const char *of = program->nodes.at[node->in[k]].part_of;
			if (of && strcmp(of, part) == 0 && strcmp(node->part_of, part) != 0)
				return node->part_of;
		}
	}
	return random_part(program, seed);
}

/* Any directive on parts of the program: some are right. */
static inline lc_directive random_directive(const lc_program *program, uint64_t *seed, int number) {
	lk_arena *arena = &program->file->arena;
	static const uint8_t kinds[] = {
		LC_SPLIT,   LC_SPLIT,  LC_REORDER,      LC_REORDER,   LC_REORDER, LC_SLICE_STATE, LC_FUSE,
		LC_OVERLAP, LC_BUCKET, LC_HIERARCHICAL, LC_RECOMPUTE, LC_RING,    LC_ULYSSES};
	lc_directive d = {.kind = (lc_directive_kind)kinds[draw(seed, sizeof kinds)], .chunk = ""};
	int count = d.kind == LC_SPLIT || d.kind == LC_HIERARCHICAL ? 1 : 1 + (int)draw(seed, 4);
	if (d.kind == LC_RING || d.kind == LC_ULYSSES) count = 1;
	if (d.kind == LC_REORDER) count++;
	d.names = LK_ARRAY(arena, lc_word, (size_t)count);
	d.name_count = count;
	for (int i = 0; i < count; i++) d.names[i].text = random_part(program, seed);
	if (d.kind == LC_SPLIT || d.kind == LC_HIERARCHICAL)
		d.names[0].text = random_part_of(program, seed, LC_ALLREDUCE);
	if (d.kind == LC_REORDER) d.names[0].text = random_part_of(program, seed, LC_ALLGATHER);
	if (d.kind == LC_RING || d.kind == LC_ULYSSES)
		d.names[0].text = random_part_of(program, seed, LC_ATTENTION);
	static const lc_op messages[] = {LC_ALLREDUCE, LC_REDUCESCATTER, LC_ALLGATHER};
	for (int i = 0; i < count && d.kind == LC_BUCKET; i++)
		d.names[i].text = random_part_of(program, seed, messages[draw(seed, 3)]);
	if (d.kind == LC_SLICE_STATE) d.names[0].text = random_part_of(program, seed, LC_STATE);
	for (int i = 1; i < count && d.kind == LC_REORDER && draw_chance(seed, 70); i++)
		d.names[i].text = random_reader(program, seed, d.names[i - 1].text);
	d.result_count = d.kind == LC_SPLIT ? 2 : d.kind == LC_HIERARCHICAL ? 3 : 0;
	d.results = LK_ARRAY(arena, lc_word, 3);
	for (int i = 0; i < d.result_count; i++)
		d.results[i].text = lk_arena_printf(arena, "r%d_%d", number, i);
	if (d.kind == LC_RECOMPUTE) {
		d.result_count = 1;
		d.results[0].text = random_reader(program, seed, d.names[0].text);
	}
	d.size = d.kind == LC_HIERARCHICAL ? 2 : 1 << 20;
	if (d.kind != LC_OVERLAP) d.chunk = NULL;
	else d.chunks = (int64_t)draw(seed, 4), d.order = draw_chance(seed, 30) ? "ring" : NULL;
	return d;
}

#endif
