/* rewrite_bucket.c: bucket {g} size B: collectives of one kind, of a list or several, joined into
 * messages of B bytes. */
#include <string.h>

#include "base/arena.h"
#include "lang/rewrite/rewrite_internal.h"

static bool bucket_joins(const lc_node *node) {
	return node->op == LC_ALLREDUCE || node->op == LC_REDUCESCATTER || node->op == LC_ALLGATHER ||
	       node->op == LC_ALLTOALL || node->op == LC_REDUCE || node->op == LC_BROADCAST;
}

/* Report why there is nothing to join: another kind of collective, or none. */
static lk_status bucket_refuse(const lc_program *program, const lc_word *word, const uint8_t *one,
                               lk_error *err) {
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[i];
		bool alone = node->op == LC_PERMUTE || node->op == LC_SEND;
		if (!one[i] || !alone) continue;
		lc_word_wrong(program, word, err, "%s goes by %s, whose messages are not joined",
		              word->text, lc_ops[node->op].name);
		return lk_hint(
			err, "buckets join allreduce, reducescatter, allgather, alltoall, reduce, broadcast");
	}
	lc_word_wrong(program, word, err, "%s holds no collective", word->text);
	return lk_hint(err, "bucket the collectives of a list, or several collectives");
}

static lk_status bucket_mark(const lc_program *program, const lc_word *word, uint8_t *one,
                             uint8_t *set, lk_error *err) {
	bool found = false;
	memset(one, 0, program->nodes.count);
	LK_TRY(lc_mark(program, word, one, err));
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[i];
		if (!one[i] || !bucket_joins(node)) continue;
		if (node->bucket >= 0) {
			lc_word_wrong(program, word, err, "%s is in a bucket already", word->text);
			return lk_hint(err, "name it once");
		}
		set[i] = 1;
		found = true;
	}
	return found ? LK_OK : bucket_refuse(program, word, one, err);
}

/* Check words: two names may denote one collective. */
static lk_status check_several(const lc_program *program, const lc_word *first, const uint8_t *set,
                               lk_error *err) {
	int tensors = 0;
	for (size_t i = 0; i < program->nodes.count; i++)
		if (set[i]) tensors += program->nodes.at[i].list >= 0 ? 2 : 1;
	if (tensors > 1) return LK_OK;
	lc_word_wrong(program, first, err, "%s is one tensor, which fills no buckets", first->text);
	return lk_hint(err, "bucket the collectives of a list, or several collectives");
}

static bool bucket_same_kind(const lc_node *a, const lc_node *b) {
	return a->op == b->op && a->axis == b->axis && a->reduce == b->reduce && a->dtype == b->dtype &&
	       a->root == b->root && lc_same_group(&a->at, &b->at);
}

static lk_status bucket_waits(const lc_program *program, const lc_directive *directive, int id,
                              const uint8_t *set, lk_error *err) {
	const char *name = lc_part_name(&program->nodes.at[id]);
	int collectives = 0;
	for (int i = 0; i <= id; i++)
		collectives += set[i] && strcmp(lc_part_name(&program->nodes.at[i]), name) == 0;
	if (collectives > 1) {
		lc_wrong(program, directive->line, directive->column, err,
		         "%s holds %d collectives, of which %s waits for another", name, collectives,
		         lc_ops[program->nodes.at[id].op].name);
		return lk_hint(err, "give each a statement of its own, and name those that do not wait "
		                    "for one another");
	}
	lc_wrong(program, directive->line, directive->column, err,
	         "%s waits for another collective of the bucket", name);
	return lk_hint(err, "put it into a separate bucket");
}

/* One message cannot include both an operation and its reader. */
static lk_status bucket_check_alike(const lc_program *program, const lc_directive *directive,
                                    const uint8_t *set, uint8_t *behind, lk_error *err) {
	int first = -1;
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[i];
		for (int k = 0; k < node->inputs; k++) behind[i] |= behind[node->in[k]] || set[node->in[k]];
		if (!set[i]) continue;
		if (first < 0) first = (int)i;
		if (behind[i]) {
			return bucket_waits(program, directive, (int)i, set, err);
		}
		if (bucket_same_kind(node, &program->nodes.at[first])) continue;
		lc_wrong(program, directive->line, directive->column, err,
		         "%s and %s are collectives of different kind, axis or format",
		         lc_part_name(&program->nodes.at[first]), lc_part_name(node));
		return lk_hint(err, "write a bucket for each");
	}
	return LK_OK;
}

static lk_status bucket_check(const lc_program *program, const lc_directive *directive,
                              uint8_t *set, lk_arena *arena, lk_error *err) {
	uint8_t *one = lc_new_set(program, arena);
	if (!set || !one) return lk_oom(err);
	for (int i = 0; i < directive->name_count; i++)
		LK_TRY(bucket_mark(program, &directive->names[i], one, set, err));
	LK_TRY(check_several(program, &directive->names[0], set, err));
	memset(one, 0, program->nodes.count);
	LK_TRY(bucket_check_alike(program, directive, set, one, err));
	return lc_check_convex(program, set, directive, err);
}

lk_status lc_rewrite_bucket(const lc_program *program, const lc_directive *directive,
                            lc_program **out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	uint8_t *set = lc_new_set(program, &arena);
	lk_status status = bucket_check(program, directive, set, &arena, err);
	if (status == LK_OK) status = lc_add_bundle(program, directive, set, out, err);
	lk_arena_free(&arena);
	return status;
}
