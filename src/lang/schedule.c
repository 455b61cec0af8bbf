/* schedule.c: whether a schedule can be meant: its names are there, a split finds one collective, what is fused is
 * convex, a state that is sliced is read nowhere in full. Whether each rewrite holds is the rewrites' matter.
 *
 * A name in a schedule stands for the statements that it is made of: a value for its own; the halves of a split for the
 * statement of the collective; a label for what was fused. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "lang/program.h"

enum { NAMES_LIMIT = 1024, SUGGESTED = 256 };

/* A name that a directive introduced, and the values of the program that it stands for. */
typedef struct introduced {
	const char *name;
	uint8_t *values;     /* [nodes] */
} introduced;

typedef struct checker {
	const lc_program *p;
	lk_arena arena;
	introduced names[NAMES_LIMIT];
	int count;
	int *statement;      /* [nodes]: the value whose statement a value belongs to */
	uint8_t *past;       /* [nodes]: a collective was moved past it */
} checker;

static lk_status wrong(const checker *c, const lc_word *w, lk_error *err, const char *what) {
	return lc_wrong(c->p, w->line, w->column, err, "%s", what);
}

static size_t values(const checker *c) { return c->p->nodes.count; }

/* Unnamed values belong to the statement of what uses them; a value without a name is used once. */
static void find_statements(checker *c) {
	for (size_t i = values(c); i-- > 0;) {
		const lc_node *n = &c->p->nodes.at[i];
		if (n->name || n->op == LC_OUT || c->statement[i] < 0) c->statement[i] = (int)i;
		for (int k = 0; k < n->inputs; k++)
			if (!c->p->nodes.at[n->in[k]].name) c->statement[n->in[k]] = c->statement[i];
	}
}

static const introduced *find_introduced(const checker *c, const char *name) {
	for (int i = c->count; i-- > 0;)
		if (strcmp(c->names[i].name, name) == 0) return &c->names[i];
	return NULL;
}

static lk_status unknown(const checker *c, const lc_word *w, lk_error *err) {
	const char *names[SUGGESTED];
	size_t count = 0;
	for (int i = c->count; i-- > 0 && count < SUGGESTED / 2;) names[count++] = c->names[i].name;
	for (size_t i = values(c); i-- > 0 && count < SUGGESTED;)
		if (c->p->nodes.at[i].name) names[count++] = c->p->nodes.at[i].name;
	lc_wrong(c->p, w->line, w->column, err, "%s is neither a value of %s nor introduced by a directive before", w->text,
			 c->p->name);
	const char *near = lk_nearest(w->text, names, count);
	return near ? lk_hint(err, "do you mean %s?", near) : lk_hint(err, "split introduces two names, fuse a label");
}

/* Adds the values that a name stands for to set. A state's name stands for its updates. */
static lk_status resolve(const checker *c, const lc_word *w, uint8_t *set, lk_error *err) {
	const introduced *made = find_introduced(c, w->text);
	int value = lc_value_find(c->p, w->text);
	if (!made && value < 0) return unknown(c, w, err);
	for (size_t i = 0; i < values(c); i++) {
		const lc_node *root = &c->p->nodes.at[c->statement[i]];
		if (made ? made->values[i] : root->op != LC_STATE && root->name && strcmp(root->name, w->text) == 0) set[i] = 1;
	}
	return LK_OK;
}

static uint8_t *new_set(checker *c) { return LK_ARRAY(&c->arena, uint8_t, values(c)); }

static lk_status introduce(checker *c, const lc_word *w, uint8_t *set, lk_error *err) {
	if (find_introduced(c, w->text) || lc_value_find(c->p, w->text) >= 0) {
		wrong(c, w, err, "this name is taken");
		return lk_hint(err, "choose another name");
	}
	if (c->count == NAMES_LIMIT) return wrong(c, w, err, "a schedule introduces too many names");
	c->names[c->count++] = (introduced){w->text, set};
	return LK_OK;
}

static lk_status introduce_all(checker *c, const lc_directive *d, uint8_t *set, lk_error *err) {
	for (int i = 0; i < d->result_count; i++) LK_TRY(introduce(c, &d->results[i], set, err));
	return LK_OK;
}

/* ---- directives ---- */

static lk_status split(checker *c, const lc_directive *d, lk_error *err) {
	uint8_t *set = new_set(c);
	int found = 0, most = d->kind == LC_SPLIT ? 2 : 3;
	if (!set) return lk_oom(err);
	LK_TRY(resolve(c, &d->names[0], set, err));
	for (size_t i = 0; i < values(c); i++) found += set[i] && c->p->nodes.at[i].op == LC_ALLREDUCE;
	if (find_introduced(c, d->names[0].text) || found != 1) {
		lc_wrong(c->p, d->names[0].line, d->names[0].column, err, "%s holds %s allreduce", d->names[0].text,
		         found > 1 && !find_introduced(c, d->names[0].text) ? "more than one" : "no unsplit");
		return found > 1 ? lk_hint(err, "give each a name of its own") : lk_hint(err, "name the value that is reduced");
	}
	if (d->result_count == most) return introduce_all(c, d, set, err);
	lc_wrong(c->p, d->line, d->column, err, "%s gives %d names", lc_directive_names[d->kind], most);
	return most == 2 ? lk_hint(err, "split %s -> (rs,ag)", d->names[0].text)
	                 : lk_hint(err, "hierarchical %s -> (rs,ar,ag) group N", d->names[0].text);
}

static lk_status reorder(checker *c, const lc_directive *d, lk_error *err) {
	const introduced *moved = find_introduced(c, d->names[0].text);
	uint8_t *set = new_set(c);
	if (!set) return lk_oom(err);
	LK_TRY(resolve(c, &d->names[0], set, err));
	bool gather = moved != NULL;
	for (size_t i = 0; i < values(c); i++) gather |= set[i] && c->p->nodes.at[i].op == LC_ALLGATHER;
	if (!gather) {
		lc_wrong(c->p, d->names[0].line, d->names[0].column, err, "%s is no gather that could be moved",
				 d->names[0].text);
		return lk_hint(err, "split the allreduce first: split %s -> (rs,ag)", d->names[0].text);
	}
	for (int i = 1; i < d->name_count; i++) LK_TRY(resolve(c, &d->names[i], c->past, err));
	return LK_OK;
}

static bool is_version_of(const checker *c, int value, const char *state) {
	const lc_node *n = &c->p->nodes.at[value];
	return (n->op == LC_STATE || n->op == LC_UPDATE) && n->name && strcmp(n->name, state) == 0;
}

/* Every use of a sliced state must itself work on slices: a gather was moved past it, or it is a part of an output,
 * which is gathered at its end. */
static lk_status slice_state(const checker *c, const lc_directive *d, const lc_word *w, lk_error *err) {
	int value = lc_value_find(c->p, w->text);
	if (value < 0) return unknown(c, w, err);
	if (!is_version_of(c, value, w->text)) {
		lc_wrong(c->p, w->line, w->column, err, "%s is no state", w->text);
		return lk_hint(err, "only states are kept sliced; other values follow by reorder");
	}
	for (size_t i = 0; i < values(c); i++) {
		const lc_node *n = &c->p->nodes.at[i];
		for (int k = 0; k < n->inputs; k++) {
			const lc_node *root = &c->p->nodes.at[c->statement[i]];
			if (!is_version_of(c, n->in[k], w->text) || c->past[i] || (root->op == LC_OUT && n->op != LC_OUT)) continue;
			bool own = root->op == LC_UPDATE && strcmp(root->name, w->text) == 0;
			lc_wrong(c->p, w->line, w->column, err, "%s is read in full by %s, in line %d", w->text,
			         root->op == LC_OUT ? "an output" : root->name ? root->name : "an expression", n->line);
			if (root->op == LC_OUT)
				return lk_hint(err, "leave it out of \"%s\", or put out a value made from it",
							   lc_directive_names[d->kind]);
			return lk_hint(err, "move a gather past it first: reorder ag past {%s}",
						   own          ? w->text
						   : root->name ? root->name
										: "...");
		}
	}
	return LK_OK;
}

/* Convex: no path leaves the set and comes back. Values are in order, so one pass finds what depends on the set through
 * something outside of it. */
static lk_status fuse(checker *c, const lc_directive *d, lk_error *err) {
	uint8_t *set = new_set(c), *left = new_set(c);
	int *through = LK_ARRAY(&c->arena, int, values(c));
	if (!set || !left || !through) return lk_oom(err);
	for (int i = 0; i < d->name_count; i++) LK_TRY(resolve(c, &d->names[i], set, err));
	for (size_t i = 0; i < values(c); i++) {
		const lc_node *n = &c->p->nodes.at[i];
		for (int k = 0; k < n->inputs; k++) {
			int from = n->in[k];
			if (set[i] && left[from]) {
				const lc_node *out = &c->p->nodes.at[c->statement[through[from]]];
				lc_wrong(c->p, d->line, d->column, err,
						 "what is fused depends on itself through %s, which is outside of it",
						 out->name ? out->name : "an output");
				return lk_hint(err, "add %s to the set, or fuse less", out->name ? out->name : "it");
			}
			if (!set[i] && (set[from] || left[from]) && !left[i])
				left[i] = 1, through[i] = left[from] ? through[from] : (int)i;
		}
	}
	return introduce_all(c, d, set, err);
}

static lk_status overlap(checker *c, const lc_directive *d, lk_error *err) {
	uint8_t *set = new_set(c);
	if (!set) return lk_oom(err);
	for (int i = 0; i < d->name_count; i++) LK_TRY(resolve(c, &d->names[i], set, err));
	if (d->name_count >= 2) return introduce_all(c, d, set, err);
	lc_wrong(c->p, d->line, d->column, err, "one stage alone does not overlap");
	return lk_hint(err, "name producer and consumer: overlap {y,F} chunk");
}

static lk_status bucket(checker *c, const lc_directive *d, lk_error *err) {
	for (int i = 0; i < d->name_count; i++) {
		uint8_t *set = new_set(c);
		bool collective = false, listed = false;
		if (!set) return lk_oom(err);
		LK_TRY(resolve(c, &d->names[i], set, err));
		for (size_t v = 0; v < values(c); v++) {
			if (!set[v] || lc_ops[c->p->nodes.at[v].op].family != LC_COMM) continue;
			collective = true, listed |= c->p->nodes.at[v].list >= 0;
		}
		if (collective && (listed || d->name_count > 1)) continue;
		lc_wrong(c->p, d->names[i].line, d->names[i].column, err, "%s %s", d->names[i].text,
		         collective ? "is one tensor, which fills no buckets" : "holds no collective");
		return lk_hint(err, "bucket the collectives of a list, or several collectives");
	}
	return LK_OK;
}

static lk_status check(checker *c, const lc_directive *d, lk_error *err) {
	switch (d->kind) {
	case LC_SPLIT: case LC_HIERARCHICAL: return split(c, d, err);
	case LC_REORDER: return reorder(c, d, err);
	case LC_SLICE_STATE:
		for (int i = 0; i < d->name_count; i++) LK_TRY(slice_state(c, d, &d->names[i], err));
		return LK_OK;
	case LC_FUSE: return fuse(c, d, err);
	case LC_OVERLAP: return overlap(c, d, err);
	default: return bucket(c, d, err);
	}
}

static lk_status check_all(checker *c, const lc_schedule *s, lk_error *err) {
	c->statement = LK_ARRAY(&c->arena, int, values(c));
	c->past = new_set(c);
	if (!c->statement || !c->past) return lk_oom(err);
	memset(c->statement, 0xff, sizeof *c->statement * values(c));
	find_statements(c);
	for (int i = 0; i < s->count; i++) LK_TRY(check(c, &s->directives[i], err));
	return LK_OK;
}

lk_status lc_schedule_check(const lc_program *p, const lc_schedule *s, lk_error *err) {
	checker *c = calloc(1, sizeof *c);
	if (!c) return lk_oom(err);
	c->p = p;
	lk_status status = check_all(c, s, err);
	lk_arena_free(&c->arena);
	free(c);
	return status;
}
