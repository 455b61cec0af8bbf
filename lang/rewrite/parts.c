/* parts.c: the meaning of names in schedules. A statement's name denotes all values of its
 * expression; directives name their results, and labels denote bundles. */
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "lang/rewrite/rewrite_internal.h"

/* Readers come after their operands, so one pass from the end reaches every unnamed value from its
 * statement. */
void lc_name_parts(lc_program *program) {
	for (size_t i = program->nodes.count; i-- > 0;) {
		lc_node *node = &program->nodes.at[i];
		if (node->name)
			node->part_of =
				lc_is_leaf(node) && node->op != LC_CONST && node->op != LC_SIZE ? NULL : node->name;
		node->also = NULL;
		for (int k = 0; k < node->inputs; k++) {
			lc_node *value = &program->nodes.at[node->in[k]];
			if (!value->name) value->part_of = node->part_of;
		}
	}
}

static bool parts_is(const char *a, const char *b) {
	return a && strcmp(a, b) == 0;
}

static bool parts_labelled(const lc_program *program, int bundle, const char *name) {
	return bundle >= 0 && parts_is(program->bundles.at[bundle].name, name);
}

int lc_part(const lc_program *program, const char *name, int *ids, int limit) {
	int count = 0, value = -1;
	for (int i = 0; i < (int)program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[i];
		if (parts_is(node->name, name) && !lc_is_leaf(node)) value = i;
		if (!parts_is(node->part_of, name) && !parts_is(node->also, name) &&
		    !parts_labelled(program, node->fuse, name) &&
		    !parts_labelled(program, node->overlap, name))
			continue;
		if (count < limit) ids[count] = i;
		count++;
	}
	if (count || value < 0) return count < limit ? count : limit;
	if (limit > 0) ids[0] = value; /* a gather that took its operand's name */
	return limit > 0;
}

uint8_t *lc_new_set(const lc_program *program, lk_arena *arena) {
	return LK_ARRAY(arena, uint8_t, program->nodes.count);
}

static lk_status parts_unknown(const lc_program *program, const lc_word *word, lk_error *err) {
	enum { SUGGESTED = 512 };
	const char *names[SUGGESTED];
	size_t count = 0;
	for (size_t i = program->bundles.count; i-- > 0 && count < SUGGESTED;)
		if (program->bundles.at[i].name) names[count++] = program->bundles.at[i].name;
	for (size_t i = program->nodes.count; i-- > 0 && count < SUGGESTED;) {
		const lc_node *node = &program->nodes.at[i];
		const char *name = node->part_of ? node->part_of : node->name;
		if (name && (!count || strcmp(names[count - 1], name) != 0)) names[count++] = name;
	}
	lc_word_wrong(program, word, err,
	              "%s is neither a value of %s nor introduced by a directive before", word->text,
	              program->name);
	const char *near = lk_nearest(word->text, names, count);
	return near ? lk_hint(err, "do you mean %s?", near)
	            : lk_hint(err, "split introduces two names, fuse a label");
}

lk_status lc_mark(const lc_program *program, const lc_word *word, uint8_t *set, lk_error *err) {
	int ids[LC_VALUES], count = lc_part(program, word->text, ids, LC_VALUES);
	for (int i = 0; i < count; i++) set[ids[i]] = 1;
	if (count) return LK_OK;
	int value = lc_value_find(program, word->text);
	if (value < 0) return parts_unknown(program, word, err);
	const lc_node *node = &program->nodes.at[value];
	lc_word_wrong(program, word, err, "%s is %s, which no statement computes", word->text,
	              node->op == LC_STATE    ? "a state without update"
	              : node->op == LC_SCALAR ? "a scalar"
	                                      : "an input");
	return lk_hint(err, "name the statements that read it");
}

static bool taken(const lc_program *program, const char *name) {
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[i];
		if (parts_is(node->name, name) || parts_is(node->part_of, name) ||
		    parts_is(node->also, name))
			return true;
	}
	for (size_t i = 0; i < program->bundles.count; i++)
		if (parts_is(program->bundles.at[i].name, name)) return true;
	return lc_axis_find(program, name) >= 0 || lc_dim_find(program, name) >= 0 ||
	       lc_list_find(program, name) >= 0;
}

static lk_status name_new(const lc_program *program, const lc_word *word, lk_error *err) {
	if (!taken(program, word->text)) return LK_OK;
	lc_word_wrong(program, word, err, "this name is taken");
	return lk_hint(err, "choose another name");
}

lk_status lc_names_new(const lc_program *program, const lc_directive *directive, lk_error *err) {
	for (int i = 0; i < directive->result_count; i++) {
		LK_TRY(name_new(program, &directive->results[i], err));
		for (int k = 0; k < i; k++) {
			if (strcmp(directive->results[i].text, directive->results[k].text) != 0) continue;
			lc_word_wrong(program, &directive->results[i], err, "this name is taken");
			return lk_hint(err, "choose another name");
		}
	}
	return LK_OK;
}

const char *lc_part_name(const lc_node *node) {
	if (node->part_of) return node->part_of;
	if (node->name) return node->name;
	if (node->op == LC_OUT) return "an output";
	return "the expression of an output";
}
