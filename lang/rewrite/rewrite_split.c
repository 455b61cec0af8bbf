/* rewrite_split.c: split a -> (rs,ag): an all-reduce as a reduce-scatter and an all-gather; `by
 * reduce`: as a reduce to rank 0 and a broadcast.
 *
 * The scattered dim is the first that is not sliced yet and has more than one element, unless the
 * directive names one: split a -> (rs,ag) dim 1. */
#include <string.h>

#include "lang/rewrite/rewrite_internal.h"
#include "base/check.h"

lk_status lc_find_reduction(const lc_program *program, const lc_word *word, int *id,
                            lk_error *err) {
	int ids[LC_VALUES], found = 0, count = lc_part(program, word->text, ids, LC_VALUES);
	for (int i = 0; i < count; i++) {
		if (program->nodes.at[ids[i]].op != LC_ALLREDUCE) continue;
		*id = ids[i];
		found++;
	}
	if (found == 1) return LK_OK;
	if (!count && lc_value_find(program, word->text) < 0) {
		uint8_t none;
		return lc_mark(program, word, &none, err); /* reports what there is */
	}
	lc_word_wrong(program, word, err, "%s holds %s allreduce", word->text,
	              found ? "more than one" : "no unsplit");
	return lk_hint(err, found ? "give each its own name" : "name the value that is reduced");
}

static lk_status split_check_names(const lc_program *program, const lc_directive *directive,
                                   lk_error *err) {
	if (directive->result_count == 2) return lc_names_new(program, directive, err);
	lc_wrong(program, directive->line, directive->column, err, "split gives 2 names");
	return lk_hint(err, "split %s -> (rs,ag)", directive->names[0].text);
}

lk_status lc_scatter_dim(const lc_program *program, const lc_directive *directive,
                         const lc_node *node, int *dim, lk_error *err) {
	const lc_word *word = &directive->names[0];
	*dim = directive->kind == LC_SPLIT && directive->dim_given ? directive->dim : -1;
	if (node->rank == 0) {
		lc_word_wrong(program, word, err, "%s is one number, which has no slices", word->text);
		return directive->kind == LC_SPLIT ? lk_hint(err, "leave it reduced, or write by reduce")
		                                   : lk_hint(err, "leave it out");
	}
	if (*dim >= node->rank) {
		lc_word_wrong(program, word, err, "%s has no dim %d", word->text, *dim);
		return lk_hint(err, "its dims count from 0 to %d", node->rank - 1);
	}
	if (*dim >= 0) return LK_OK;
	for (int i = 0; i < node->rank; i++)
		if (node->dim[i] != 0 && !lc_is_sliced(program, node, i)) {
			*dim = i;
			return LK_OK;
		}
	lc_word_wrong(program, word, err, "every dim of %s is sliced already, or has one element",
	              word->text);
	return lk_hint(err, "leave it reduced");
}

lk_status lc_need_unbundled(const lc_program *program, const lc_directive *directive, int id,
                            lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < program->nodes.count);
	const lc_node *node = &program->nodes.at[id];
	if (node->fuse < 0 && node->overlap < 0 && node->bucket < 0) return LK_OK;
	lc_wrong(program, directive->line, directive->column, err,
	         "%s is fused, overlapped or in a bucket already", lc_part_name(node));
	return lk_hint(err, "write %s before fuse, overlap and bucket",
	               lc_directive_names[directive->kind]);
}

/* The first half takes the first name; the second replaces the all-reduce. */
static lk_status halves(lc_build *build, const lc_directive *directive, int id, lk_error *err) {
	const lc_node *node = &build->from->nodes.at[id];
	bool root = directive->order && strcmp(directive->order, "reduce") == 0;
	int dim = 0;
	if (!root) LK_TRY(lc_scatter_dim(build->from, directive, node, &dim, err));
	lc_node first = lc_build_on(root ? LC_REDUCE : LC_REDUCESCATTER, node, build->map[node->in[0]]);
	lc_node second = lc_build_on(root ? LC_BROADCAST : LC_ALLGATHER, node, 0);
	first.reduce = node->reduce;
	first.axis = second.axis = node->axis;
	first.d = second.d = (int8_t)dim;
	first.name = first.part_of = directive->results[0].text;
	second.part_of = directive->results[1].text,
	second.name = node->name ? node->name : second.part_of;
	LK_TRY(lc_add(build->to, &first, &second.in[0], err));
	return lc_add(build->to, &second, &build->map[id], err);
}

static lk_status split_build(lc_build *b, const lc_directive *directive, lk_error *err) {
	int id;
	LK_TRY(lc_find_reduction(b->from, &directive->names[0], &id, err));
	LK_TRY(split_check_names(b->from, directive, err));
	LK_TRY(lc_need_unbundled(b->from, directive, id, err));
	for (int i = 0; i < (int)b->from->nodes.count; i++)
		LK_TRY(i == id ? halves(b, directive, i, err) : lc_build_copy(b, i, err));
	return LK_OK;
}

lk_status lc_rewrite_split(const lc_program *program, const lc_directive *directive,
                           lc_program **out, lk_error *err) {
	lc_build b;
	lk_status status = lc_build_open(&b, program, err);
	if (status == LK_OK) status = split_build(&b, directive, err);
	return lc_build_close(&b, status, out);
}
