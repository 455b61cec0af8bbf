/* rewrite_recompute.c: recompute {h,a} for {g}: statements h and a are computed once more for g,
 * just before its first value that reads them, so that their results need not be kept until then.
 * Copies read copies; other values are read where they are; a statement read only by g is computed
 * only there. A dropout draws by its key, so the copy is equal. */
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "lang/rewrite/rewrite_internal.h"

struct recomputer {
	lc_build b;
	const lc_directive *directive;
	uint8_t *again, *readers, *gone; /* [values of the program before] */
	int *copy;                       /* [values] the copy in the new program, or -1 */
	lk_error *err;
};

/* ---- named statements ---- */

/* Mark values of the statements that can be computed twice: sends and updates happen once. */
static lk_status recompute_mark_again(struct recomputer *r, const lc_word *word) {
	const lc_program *program = r->b.from;
	LK_TRY(lc_mark(program, word, r->again, r->err));
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[i];
		if (!r->again[i] || (lc_ops[node->op].family != LC_EFFECT && node->op != LC_SEND)) continue;
		lc_word_wrong(program, word, r->err, "%s %s, which happens once", word->text,
		              node->op == LC_SEND ? "is sent" : "is written");
		return lk_hint(r->err, "name statements that only compute");
	}
	return LK_OK;
}

/* Suggest the statements that read what is to be recomputed. */
static lk_status recompute_hint(const struct recomputer *r) {
	const lc_program *program = r->b.from;
	const char *last = NULL;
	char names[160] = "";
	lk_text list = lk_text_begin(names, sizeof names);
	for (size_t v = 0; v < program->nodes.count; v++) {
		const lc_node *node = &program->nodes.at[v];
		const char *name = lc_part_name(node);
		bool reads = false;
		for (int k = lc_first_read(node); k < node->inputs; k++) reads |= r->again[node->in[k]];
		if (!reads || r->again[v] || !name || (last && strcmp(last, name) == 0)) continue;
		if (list.used + strlen(name) + 8 < sizeof names)
			lk_text_add(&list, "%s%s", last ? ", " : "", name);
		last = name;
	}
	return lk_hint(r->err, last ? "it is read by %s" : "nothing reads it; leave recompute out",
	               names);
}

static lk_status recompute_mark(struct recomputer *r) {
	const lc_program *program = r->b.from;
	const lc_directive *d = r->directive;
	for (int i = 0; i < d->name_count; i++) LK_TRY(recompute_mark_again(r, &d->names[i]));
	for (int i = 0; i < d->result_count; i++) {
		uint8_t *one = lc_new_set(program, &r->b.arena);
		bool reads = false;
		if (!one) return lk_oom(r->err);
		LK_TRY(lc_mark(program, &d->results[i], one, r->err));
		for (size_t v = 0; v < program->nodes.count; v++) {
			const lc_node *node = &program->nodes.at[v];
			if (!one[v]) continue;
			if (r->again[v]) {
				lc_word_wrong(program, &d->results[i], r->err, "%s is computed again for itself",
				              d->results[i].text);
				return lk_hint(r->err, "name it on one side");
			}
			r->readers[v] = 1;
			for (int k = lc_first_read(node); k < node->inputs; k++) reads |= r->again[node->in[k]];
		}
		if (reads) continue;
		lc_word_wrong(program, &d->results[i], r->err, "%s reads nothing of what is recomputed",
		              d->results[i].text);
		return recompute_hint(r);
	}
	return LK_OK;
}

/* Mark originals that nothing reads any more, because their readers read copies. */
static void recompute_mark_gone(struct recomputer *r) {
	const lc_program *program = r->b.from;
	memcpy(r->gone, r->again, program->nodes.count);
	for (size_t i = program->nodes.count; i-- > 0;) {
		const lc_node *node = &program->nodes.at[i];
		if (r->gone[i] || r->readers[i]) continue;
		for (int k = 0; k < node->inputs; k++) r->gone[node->in[k]] = 0;
	}
}

/* ---- copies ---- */

/* The first update of a state between the version and its reader, or -1. */
static int recompute_overwritten(const lc_program *program, int version, int reader) {
	const lc_node *node = &program->nodes.at[version];
	if (node->op != LC_STATE && node->op != LC_UPDATE) return -1;
	for (int i = version + 1; i < reader; i++)
		if (program->nodes.at[i].op == LC_UPDATE && program->nodes.at[i].in[0] == version) return i;
	return -1;
}

/* Copy operands first; those not named are read where they are, if still unchanged. */
static lk_status recompute_copy(struct recomputer *r, int id, int reader) {
	const lc_program *program = r->b.from;
	const lc_node *node = &program->nodes.at[id];
	if (r->copy[id] >= 0) return LK_OK;
	for (int k = 0; k < node->inputs; k++) {
		int operand = node->in[k], update = recompute_overwritten(program, operand, reader);
		if (r->again[operand]) LK_TRY(recompute_copy(r, operand, reader));
		if (update < 0) continue;
		lc_wrong(program, r->directive->line, r->directive->column, r->err,
		         "%s has a new value before %s reads what is made of the old one",
		         program->nodes.at[update].name, lc_part_name(&program->nodes.at[reader]));
		return lk_hint(r->err, "keep what reads the state");
	}
	lc_node n = lc_build_draft(&r->b, id);
	for (int k = 0; k < node->inputs; k++)
		if (r->again[node->in[k]]) n.in[k] = r->copy[node->in[k]];
	n.name = n.also = NULL;
	n.part_of = program->nodes.at[reader].part_of;
	n.fuse = n.overlap = n.bucket = -1;
	return lc_add(r->b.to, &n, &r->copy[id], r->err);
}

static lk_status recompute_value(struct recomputer *r, int id) {
	const lc_node *node = &r->b.from->nodes.at[id];
	if (r->gone[id]) return LK_OK;
	if (!r->readers[id]) return lc_build_copy(&r->b, id, r->err);
	for (int k = lc_first_read(node); k < node->inputs; k++)
		if (r->again[node->in[k]]) LK_TRY(recompute_copy(r, node->in[k], id));
	lc_node n = lc_build_draft(&r->b, id);
	for (int k = lc_first_read(node); k < node->inputs; k++)
		if (r->again[node->in[k]]) n.in[k] = r->copy[node->in[k]];
	return lc_add(r->b.to, &n, &r->b.map[id], r->err);
}

static lk_status recompute_build(struct recomputer *r) {
	size_t count = r->b.from->nodes.count;
	r->again = lc_new_set(r->b.from, &r->b.arena);
	r->readers = lc_new_set(r->b.from, &r->b.arena);
	r->gone = lc_new_set(r->b.from, &r->b.arena);
	r->copy = LK_ARRAY(&r->b.arena, int, count + 1);
	if (!r->again || !r->readers || !r->gone || !r->copy) return lk_oom(r->err);
	memset(r->copy, 0xff, (count + 1) * sizeof *r->copy);
	LK_TRY(recompute_mark(r));
	recompute_mark_gone(r);
	for (int i = 0; i < (int)count; i++) LK_TRY(recompute_value(r, i));
	return LK_OK;
}

lk_status lc_rewrite_recompute(const lc_program *program, const lc_directive *directive,
                               lc_program **out, lk_error *err) {
	struct recomputer r = {.directive = directive, .err = err};
	lk_status status = lc_build_open(&r.b, program, err);
	if (status == LK_OK) status = recompute_build(&r);
	return lc_build_close(&r.b, status, out);
}
