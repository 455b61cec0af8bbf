/* rewrite_fuse.c: fuse F={rs,m,v,w,ag}: one pass over memory, with a reduce-scatter that it reads from and gathers (or a
 * send) of what it writes. What the statements named compute of a reduction's result comes behind the pass and is left
 * out of it; where the pass itself would need it, there are two passes. */
#include <stdarg.h>

#include "lang/rewrite/rewrite_internal.h"

struct fuser {
	const lc_program *p;
	const lc_directive *d;
	uint8_t *set, *after;  /* after: reads a reduction of the set */
	int space;             /* a value whose extents are those of the pass */
};

static const lc_node *node(const struct fuser *f, int id) { return &f->p->nodes.at[id]; }

static int count(const struct fuser *f) { return (int)f->p->nodes.count; }

static lk_status refuse(const struct fuser *f, lk_error *err, const char *fmt, ...) LK_PRINTF(3, 4);

static lk_status refuse(const struct fuser *f, lk_error *err, const char *fmt, ...) {
	char what[sizeof err->what];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof what, fmt, args);
	va_end(args);
	return lc_wrong(f->p, f->d->line, f->d->column, err, "%s", what);
}

/* ---- what is in it ---- */

static lk_status mark(struct fuser *f, lk_error *err) {
	for (int i = 0; i < f->d->name_count; i++) LK_TRY(lc_mark(f->p, &f->d->names[i], f->set, err));
	for (int i = 0; i < count(f); i++) f->set[i] &= !lc_is_leaf(node(f, i));
	for (int i = 0; i < count(f); i++) { /* passes that it takes over, it takes over as a whole */
		if (f->set[i] && node(f, i)->overlap >= 0) {
			refuse(f, err, "%s is overlapped already", lc_part_name(node(f, i)));
			return lk_hint(err, "write fuse before overlap");
		}
		for (int k = 0; k < count(f) && node(f, i)->fuse >= 0 && !f->set[i]; k++) {
			if (!f->set[k] || node(f, k)->fuse != node(f, i)->fuse) continue;
			refuse(f, err, "%s is fused already, with %s", lc_part_name(node(f, k)), lc_part_name(node(f, i)));
			return lk_hint(err, "name the label of that pass, or all of it");
		}
	}
	return LK_OK;
}

static bool is_reduction(const lc_node *n) { return lc_ops[n->op].family == LC_RED; }

static void find_after(struct fuser *f) {
	for (int i = 0; i < count(f); i++)
		for (int k = lc_first_read(node(f, i)); k < node(f, i)->inputs && f->set[i]; k++) {
			int u = node(f, i)->in[k];
			f->after[i] |= f->set[u] && (is_reduction(node(f, u)) || f->after[u]);
		}
}

static bool in_pass(const struct fuser *f, int id) { return f->set[id] && !f->after[id]; }

/* ---- operations ---- */

static lk_status check_op(const struct fuser *f, int id, lk_error *err) {
	const lc_node *n = node(f, id);
	const char *name = lc_part_name(n);
	switch (n->op) {
	case LC_ALLREDUCE:
		refuse(f, err, "%s holds an allreduce, which gives its result to all at once", name);
		return lk_hint(err, "split it first: split %s -> (rs,ag)", name);
	case LC_MATMUL: case LC_CONV2D: case LC_GATHER_ROWS:
		refuse(f, err, "%s holds a %s, which is no pass over elements", name, lc_ops[n->op].name);
		return lk_hint(err, "leave it out; overlap runs it beside what it feeds");
	case LC_SLICE: case LC_REDUCESCATTER: case LC_ALLGATHER: case LC_SEND: case LC_UPDATE: return LK_OK;
	default: break;
	}
	if (lc_is_pointwise(n) || is_reduction(n)) return LK_OK;
	refuse(f, err, "%s holds %s, which cannot be a part of a pass", name, lc_ops[n->op].name);
	return lk_hint(err, "leave %s out", name);
}

/* A reduce-scatter begins a pass, gathers and a send end it. */
static lk_status check_place(const struct fuser *f, int id, lk_error *err) {
	const lc_node *n = node(f, id);
	for (int k = lc_first_read(n); k < n->inputs; k++) {
		const lc_node *x = node(f, n->in[k]);
		if (!in_pass(f, n->in[k])) continue;
		if (n->op == LC_REDUCESCATTER) {
			refuse(f, err, "%s scatters what the pass computes, but a pass begins with it", lc_part_name(n));
			return lk_hint(err, x->part_of == n->part_of ? "give what it scatters a name of its own, and leave that out"
			                                             : "leave what it scatters out");
		}
		if ((x->op != LC_ALLGATHER || n->op == LC_UPDATE) && x->op != LC_SEND) continue;
		refuse(f, err, "%s reads what %s hands on, but a pass ends with that", lc_part_name(n), lc_part_name(x));
		return lk_hint(err, "reorder moves a gather behind it");
	}
	return LK_OK;
}

static lk_status check_collectives(const struct fuser *f, lk_error *err) {
	int scatter = -1, gather = -1;
	for (int i = 0; i < count(f); i++) {
		if (!in_pass(f, i)) continue;
		const lc_node *n = node(f, i);
		if (n->op == LC_REDUCESCATTER && scatter >= 0) {
			refuse(f, err, "%s and %s are two reduce-scatters, and a pass reads from one", lc_part_name(node(f, scatter)),
			       lc_part_name(n));
			return lk_hint(err, "fuse one of them");
		}
		if (n->op == LC_REDUCESCATTER) scatter = i;
		if (n->op == LC_ALLGATHER) gather = i;
		if (scatter < 0 || gather < 0 || node(f, scatter)->axis == node(f, gather)->axis) continue;
		refuse(f, err, "%s and %s work over different axes", lc_part_name(node(f, scatter)), lc_part_name(node(f, gather)));
		return lk_hint(err, "fuse one of them");
	}
	return LK_OK;
}

/* ---- iteration space ---- */

/* The value whose elements a pass goes over when it computes this one. */
static const lc_node *gone_over(const struct fuser *f, int id) {
	const lc_node *n = node(f, id);
	if (n->op == LC_UPDATE && node(f, n->in[1])->op == LC_ALLGATHER) n = node(f, n->in[1]);
	return n->op == LC_ALLGATHER || n->op == LC_SEND || is_reduction(n) ? node(f, n->in[0]) : n;
}

static bool same_cut(const lc_program *p, const lc_node *a, int da, const lc_node *b, int db) {
	for (int x = 0; x < p->axis_count; x++) {
		const lc_layout *l = &a->layout[x], *m = &b->layout[x];
		bool cut = l->kind == LC_S && l->dim == da, other = m->kind == LC_S && m->dim == db;
		if (cut != other || (cut && l->turn != m->turn)) return false;
	}
	return true;
}

/* Whether a's extents are b's, but for what is repeated. */
static bool fits(const lc_program *p, const lc_node *a, const lc_node *b) {
	if (a->rank > b->rank) return false;
	for (int d = 0; d < a->rank; d++) {
		int at = d + b->rank - a->rank;
		if (a->dim[d] != 0 && (a->dim[d] != b->dim[at] || !same_cut(p, a, d, b, at))) return false;
	}
	return a->rank == 0 || (a->list == b->list && (a->at.axis < 0 || lc_same_group(&a->at, &b->at)));
}

/* What is smaller than the pass is computed again wherever it is repeated: an update would change its state twice, a
 * reduction count twice. */
static bool once(const lc_node *n) { return !lc_is_pointwise(n) && n->op != LC_SLICE; }

static lk_status check_space(struct fuser *f, lk_error *err) {
	char x[160], y[160];
	f->space = -1;
	for (int i = 0; i < count(f); i++)
		if (in_pass(f, i) && (f->space < 0 || fits(f->p, gone_over(f, f->space), gone_over(f, i)))) f->space = i;
	for (int i = 0; i < count(f); i++) {
		const lc_node *a = gone_over(f, i), *b = gone_over(f, f->space < 0 ? i : f->space);
		if (!in_pass(f, i) || (fits(f->p, a, b) && (!once(node(f, i)) || fits(f->p, b, a)))) continue;
		refuse(f, err, "%s goes over %s, and %s over %s: one pass cannot do both", lc_part_name(node(f, i)),
		       lc_type_text(f->p, a, x, sizeof x), lc_part_name(node(f, f->space)), lc_type_text(f->p, b, y, sizeof y));
		return lk_hint(err, "fuse what goes over the same elements");
	}
	return LK_OK;
}

/* What reads a reduction and goes over the elements again needs a pass of its own. */
static lk_status check_after(struct fuser *f, lk_error *err) {
	for (int i = 0; i < count(f); i++) {
		if (!f->set[i] || !f->after[i]) continue;
		const lc_node *n = node(f, i), *space = gone_over(f, f->space);
		bool again = n->rank > 0 && n->rank == space->rank && fits(f->p, space, n);
		for (int k = lc_first_read(n); k < n->inputs; k++)
			again |= in_pass(f, n->in[k]) && !is_reduction(node(f, n->in[k])) && node(f, n->in[k])->rank > 0;
		if (!again) continue;
		refuse(f, err, "%s reads a reduction over what the pass computes, which is known behind its last element only",
		       lc_part_name(n));
		return lk_hint(err, "that takes two passes: leave %s out", lc_part_name(n));
	}
	return LK_OK;
}

/* ---- whether anything needs it ---- */

static lk_status check_used(const struct fuser *f, uint8_t *live, lk_error *err) {
	for (int i = count(f); i-- > 0;) {
		const lc_node *n = node(f, i);
		live[i] |= n->op == LC_OUT || n->op == LC_UPDATE;
		for (int k = 0; k < n->inputs && live[i]; k++) live[n->in[k]] = 1;
	}
	for (int i = 0; i < count(f); i++) {
		if (!f->set[i] || live[i]) continue;
		refuse(f, err, "%s is needed by no output and no state", lc_part_name(node(f, i)));
		return lk_hint(err, "leave it out");
	}
	return LK_OK;
}

static lk_status check(struct fuser *f, lk_arena *arena, lk_error *err) {
	uint8_t *live = lc_new_set(f->p, arena);
	bool any = false, computes = false;
	if (!live) return lk_oom(err);
	LK_TRY(mark(f, err));
	find_after(f);
	for (int i = 0; i < count(f); i++) {
		any |= in_pass(f, i);
		computes |= in_pass(f, i) && (lc_is_pointwise(node(f, i)) || is_reduction(node(f, i)));
	}
	if (!any) return refuse(f, err, "there is nothing to fuse");
	LK_TRY(check_used(f, live, err));
	for (int i = 0; i < count(f); i++)
		if (in_pass(f, i)) LK_TRY(check_op(f, i, err));
	for (int i = 0; i < count(f); i++)
		if (in_pass(f, i)) LK_TRY(check_place(f, i, err));
	LK_TRY(check_space(f, err));
	LK_TRY(check_after(f, err));
	for (int i = 0; i < count(f); i++) f->set[i] = in_pass(f, i), f->after[i] = 0;
	LK_TRY(lc_check_convex(f->p, f->set, f->d, err));
	LK_TRY(check_collectives(f, err));
	if (!computes) {
		refuse(f, err, "%s computes nothing that a pass could hold", f->d->names[0].text);
		return lk_hint(err, "add the statements between the collectives");
	}
	return lc_names_new(f->p, f->d, err);
}

lk_status lc_rewrite_fuse(const lc_program *p, const lc_directive *d, lc_program **out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct fuser f = {.p = p, .d = d, .set = lc_new_set(p, &arena), .after = lc_new_set(p, &arena)};
	lk_status status = f.set && f.after ? check(&f, &arena, err) : lk_oom(err);
	if (status == LK_OK) status = lc_add_bundle(p, d, f.set, out, err);
	lk_arena_free(&arena);
	return status;
}
