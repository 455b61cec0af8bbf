/* build_pair.c: two blocks as one, their operations interleaved at every communication: while one
 * block's message is in transit, the other block computes. Inside the pair an operation waits for
 * the communication of its own block only, so joins of communication streams become dependencies on
 * single operations. (DualPipe, DeepSeek-V3 report, section 3.2.1.)
 *
 * The backward pass starts first: its rows return to their experts during the forward's attention,
 * the forward's rows leave during the experts' backward, and so on; nothing is exposed if each
 * compute piece is longer than the message that it overlaps with (Megatron-LM's combined 1F1B has
 * the same order). */
#include <stdio.h>

#include "base/check.h"
#include "base/arena.h"
#include "model/build/build.h"

enum { COMPUTE_ONLY = LK_JOIN(LK_STREAM_COMPUTE) | LK_JOIN(LK_STREAM_HOST) };

/* State of one of the two blocks while it is copied. */
struct lk_side {
	uint32_t at, begin, end;
	uint32_t last[LK_STREAMS]; /* 1 + place in the pair of its last operation on a stream */
	uint32_t *place;           /* [end - begin] in the pair */
};

static void pair_copy_op(lk_graph *graph, struct lk_side *side) {
	uint32_t i = side->at++, deps[LK_STREAMS + 4], count = 0;
	lk_op op = lk_graph_op(graph, i);
	for (uint32_t d = graph->ops.dep_begin[i]; d < graph->ops.dep_begin[i + 1] && count < 4; d++)
		deps[count++] = side->place[graph->ops.deps[d]];
	for (unsigned s = 0; s < LK_STREAMS; s++) {
		if (!(op.join & LK_JOIN(s)) || (COMPUTE_ONLY & LK_JOIN(s))) continue;
		op.join &= ~LK_JOIN(s);
		if (side->last[s]) deps[count++] = side->last[s] - 1;
	}
	op.deps = deps;
	op.dep_count = count;
	uint32_t place = lk_graph_add(graph, &op);
	side->place[i - side->begin] = place;
	side->last[op.stream] = place + 1;
}

/* Copy operations up to and including the next communication. */
static void copy_piece(lk_graph *graph, struct lk_side *side) {
	while (side->at < side->end) {
		bool comm = lk_op_is_comm(graph->ops.kind[side->at]);
		pair_copy_op(graph, side);
		if (comm) return;
	}
}

static struct lk_side side_of(lk_builder *builder, uint32_t block, uint32_t *place) {
	const lk_block *k = &builder->graph->blocks.at[block];
	return (struct lk_side){.at = k->begin, .begin = k->begin, .end = k->end, .place = place};
}

static lk_status pair_build(lk_builder *builder, uint32_t first, uint32_t second, uint32_t *block) {
	lk_arena scratch = LK_ARENA_INIT;
	const lk_block *f = &builder->graph->blocks.at[first], *s = &builder->graph->blocks.at[second];
	uint32_t *places =
		LK_ARRAY(&scratch, uint32_t, (size_t)(f->end - f->begin) + (s->end - s->begin));
	if (!places) return lk_oom(builder->err);
	struct lk_side one = side_of(builder, first, places),
				   two = side_of(builder, second, places + (f->end - f->begin));
	char name[160];
	snprintf(name, sizeof name, "pair: %s & %s", lk_intern_text(builder->graph->names, f->name),
	         lk_intern_text(builder->graph->names, s->name));
	lk_graph_begin_block(builder->graph, name);
	while (one.at < one.end || two.at < two.end) {
		copy_piece(builder->graph, &two);
		copy_piece(builder->graph, &one);
	}
	lk_arena_free(&scratch);
	return lk_graph_end_block(builder->graph, block, builder->err);
}

lk_status lk_build_pair(lk_builder *builder, uint32_t first, uint32_t second, uint32_t *block) {
	LK_ASSERT(first < builder->graph->blocks.count && second < builder->graph->blocks.count);
	for (int i = 0; i < builder->pair_count; i++)
		if (builder->pairs[i].first == first && builder->pairs[i].second == second) {
			*block = builder->pairs[i].block;
			return LK_OK;
		}
	LK_TRY(pair_build(builder, first, second, block));
	if (builder->pair_count < (int)(sizeof builder->pairs / sizeof *builder->pairs)) {
		builder->pairs[builder->pair_count].first = first;
		builder->pairs[builder->pair_count].second = second;
		builder->pairs[builder->pair_count++].block = *block;
	}
	return LK_OK;
}
