/* parts.c: what the names in schedules stand for. A statement's name is that of all values of its expression; directives
 * give names to what they make, and labels to what runs together. */
#include <string.h>

#include "base/text.h"
#include "lang/rewrite/rewrite_internal.h"

/* Readers stand behind what they read, so that one pass from the end reaches every unnamed value from its statement. */
void lc_name_parts(lc_program *p) {
	for (size_t i = p->nodes.count; i-- > 0;) {
		lc_node *n = &p->nodes.at[i];
		if (n->name) n->part_of = lc_is_leaf(n) && n->op != LC_CONST && n->op != LC_SIZE ? NULL : n->name;
		n->also = NULL;
		for (int k = 0; k < n->inputs; k++) {
			lc_node *x = &p->nodes.at[n->in[k]];
			if (!x->name) x->part_of = n->part_of;
		}
	}
}

static bool is(const char *a, const char *b) { return a && strcmp(a, b) == 0; }

static bool labelled(const lc_program *p, int bundle, const char *name) {
	return bundle >= 0 && is(p->bundles.at[bundle].name, name);
}

int lc_part(const lc_program *p, const char *name, int *ids, int limit) {
	int count = 0, value = -1;
	for (int i = 0; i < (int)p->nodes.count; i++) {
		const lc_node *n = &p->nodes.at[i];
		if (is(n->name, name) && !lc_is_leaf(n)) value = i;
		if (!is(n->part_of, name) && !is(n->also, name) && !labelled(p, n->fuse, name) &&
		    !labelled(p, n->overlap, name)) continue;
		if (count < limit) ids[count] = i;
		count++;
	}
	if (count || value < 0) return count < limit ? count : limit;
	if (limit > 0) ids[0] = value; /* a gather that took the name of what it gathers */
	return limit > 0;
}

uint8_t *lc_new_set(const lc_program *p, lk_arena *arena) { return LK_ARRAY(arena, uint8_t, p->nodes.count); }

static lk_status unknown(const lc_program *p, const lc_word *w, lk_error *err) {
	enum { SUGGESTED = 512 };
	const char *names[SUGGESTED];
	size_t count = 0;
	for (size_t i = p->bundles.count; i-- > 0 && count < SUGGESTED;)
		if (p->bundles.at[i].name) names[count++] = p->bundles.at[i].name;
	for (size_t i = p->nodes.count; i-- > 0 && count < SUGGESTED;) {
		const lc_node *n = &p->nodes.at[i];
		const char *name = n->part_of ? n->part_of : n->name;
		if (name && (!count || strcmp(names[count - 1], name) != 0)) names[count++] = name;
	}
	lc_word_wrong(p, w, err, "%s is neither a value of %s nor introduced by a directive before", w->text, p->name);
	const char *near = lk_nearest(w->text, names, count);
	return near ? lk_hint(err, "do you mean %s?", near) : lk_hint(err, "split introduces two names, fuse a label");
}

lk_status lc_mark(const lc_program *p, const lc_word *w, uint8_t *set, lk_error *err) {
	int ids[LC_VALUES], count = lc_part(p, w->text, ids, LC_VALUES);
	for (int i = 0; i < count; i++) set[ids[i]] = 1;
	if (count) return LK_OK;
	int value = lc_value_find(p, w->text);
	if (value < 0) return unknown(p, w, err);
	const lc_node *n = &p->nodes.at[value];
	lc_word_wrong(p, w, err, "%s is %s, which no statement computes", w->text,
	              n->op == LC_STATE ? "a state without update" : n->op == LC_SCALAR ? "a scalar" : "an input");
	return lk_hint(err, "name the statements that read it");
}

static bool taken(const lc_program *p, const char *name) {
	for (size_t i = 0; i < p->nodes.count; i++) {
		const lc_node *n = &p->nodes.at[i];
		if (is(n->name, name) || is(n->part_of, name) || is(n->also, name)) return true;
	}
	for (size_t i = 0; i < p->bundles.count; i++)
		if (is(p->bundles.at[i].name, name)) return true;
	return lc_axis_find(p, name) >= 0 || lc_dim_find(p, name) >= 0 || lc_list_find(p, name) >= 0;
}

static lk_status name_new(const lc_program *p, const lc_word *w, lk_error *err) {
	if (!taken(p, w->text)) return LK_OK;
	lc_word_wrong(p, w, err, "this name is taken");
	return lk_hint(err, "choose another name");
}

lk_status lc_names_new(const lc_program *p, const lc_directive *d, lk_error *err) {
	for (int i = 0; i < d->result_count; i++) {
		LK_TRY(name_new(p, &d->results[i], err));
		for (int k = 0; k < i; k++) {
			if (strcmp(d->results[i].text, d->results[k].text) != 0) continue;
			lc_word_wrong(p, &d->results[i], err, "this name is taken");
			return lk_hint(err, "choose another name");
		}
	}
	return LK_OK;
}

const char *lc_part_name(const lc_node *n) {
	return n->part_of ? n->part_of : n->name ? n->name : n->op == LC_OUT ? "an output" : "the expression of an output";
}
