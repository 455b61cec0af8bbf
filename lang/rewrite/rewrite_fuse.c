/* rewrite_fuse.c: fuse F={rs,m,v,w,ag}: one pass over memory, with a reduce-scatter that it reads
 * from and gathers (or a send) of what it writes. Named statements that read a reduction's result
 * come after the pass and are left out of it; if the pass itself needs them, there are two
 * passes. */
#include <stdarg.h>
#include <string.h>

#include "base/arena.h"
#include "lang/rewrite/rewrite_internal.h"
#include "base/check.h"

struct fuser {
	const lc_program *p;
	const lc_directive *d;
	uint8_t *set, *after; /* after: reads a reduction of the set */
	int space;            /* a value whose extents are those of the pass */
};

static lk_status fuse_refuse(const struct fuser *fuser, lk_error *err, const char *fmt, ...)
	LK_PRINTF(3, 4);

static lk_status fuse_refuse(const struct fuser *fuser, lk_error *err, const char *fmt, ...) {
	char what[sizeof err->what];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof what, fmt, args);
	va_end(args);
	return lc_wrong(fuser->p, fuser->d->line, fuser->d->column, err, "%s", what);
}

/* ---- what is in it ---- */

static lk_status fuse_mark(struct fuser *fuser, lk_error *err) {
	for (int i = 0; i < fuser->d->name_count; i++)
		LK_TRY(lc_mark(fuser->p, &fuser->d->names[i], fuser->set, err));
	for (int i = 0; i < lc_node_count(fuser->p); i++)
		fuser->set[i] &= !lc_is_leaf(lc_node_at(fuser->p, i));
	for (int i = 0; i < lc_node_count(fuser->p);
	     i++) { /* passes that it takes over, it takes over as a whole */
		if (fuser->set[i] && lc_node_at(fuser->p, i)->overlap >= 0) {
			fuse_refuse(fuser, err, "%s is overlapped already",
			            lc_part_name(lc_node_at(fuser->p, i)));
			return lk_hint(err, "write fuse before overlap");
		}
		for (int k = 0;
		     k < lc_node_count(fuser->p) && lc_node_at(fuser->p, i)->fuse >= 0 && !fuser->set[i];
		     k++) {
			if (!fuser->set[k] || lc_node_at(fuser->p, k)->fuse != lc_node_at(fuser->p, i)->fuse)
				continue;
			fuse_refuse(fuser, err, "%s is fused already, with %s",
			            lc_part_name(lc_node_at(fuser->p, k)),
			            lc_part_name(lc_node_at(fuser->p, i)));
			return lk_hint(err, "name the label of that pass, or all of it");
		}
	}
	return LK_OK;
}

static bool is_reduction(const lc_node *node) {
	return lc_ops[node->op].family == LC_RED;
}

static void find_after(struct fuser *fuser) {
	for (int i = 0; i < lc_node_count(fuser->p); i++)
		for (int k = lc_first_read(lc_node_at(fuser->p, i));
		     k < lc_node_at(fuser->p, i)->inputs && fuser->set[i]; k++) {
			int u = lc_node_at(fuser->p, i)->in[k];
			fuser->after[i] |=
				fuser->set[u] && (is_reduction(lc_node_at(fuser->p, u)) || fuser->after[u]);
		}
}

static bool fuse_in_pass(const struct fuser *fuser, int id) {
	return fuser->set[id] && !fuser->after[id];
}

/* ---- operations ---- */

static lk_status check_op(const struct fuser *fuser, int id, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < fuser->p->nodes.count);
	const lc_node *value = lc_node_at(fuser->p, id);
	const char *name = lc_part_name(value);
	switch (value->op) {
	case LC_ALLREDUCE:
		fuse_refuse(fuser, err, "%s holds an allreduce, which gives its result to all at once",
		            name);
		return lk_hint(err, "split it first: split %s -> (rs,ag)", name);
	case LC_MATMUL:
	case LC_CONV2D:
	case LC_GATHER_ROWS:
		fuse_refuse(fuser, err, "%s holds a %s, which is not a pass over elements", name,
		            lc_ops[value->op].name);
		return lk_hint(err, "leave it out; overlap runs it concurrently with what it feeds");
	case LC_SLICE:
	case LC_REDUCESCATTER:
	case LC_ALLGATHER:
	case LC_SEND:
	case LC_UPDATE: return LK_OK;
	default: break;
	}
	if (lc_is_pointwise(value) || is_reduction(value)) return LK_OK;
	fuse_refuse(fuser, err, "%s holds %s, which cannot be a part of a pass", name,
	            lc_ops[value->op].name);
	return lk_hint(err, "leave %s out", name);
}

/* A reduce-scatter begins a pass, gathers and a send end it. */
static lk_status check_place(const struct fuser *fuser, int id, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < fuser->p->nodes.count);
	const lc_node *value = lc_node_at(fuser->p, id);
	for (int k = lc_first_read(value); k < value->inputs; k++) {
		const lc_node *x = lc_node_at(fuser->p, value->in[k]);
		if (!fuse_in_pass(fuser, value->in[k])) continue;
		if (value->op == LC_REDUCESCATTER) {
			fuse_refuse(fuser, err, "%s scatters what the pass computes, but a pass begins with it",
			            lc_part_name(value));
			return lk_hint(err, x->part_of == value->part_of
			                        ? "name what it scatters separately, and leave that out"
			                        : "leave what it scatters out");
		}
		if ((x->op != LC_ALLGATHER || value->op == LC_UPDATE) && x->op != LC_SEND) continue;
		fuse_refuse(fuser, err, "%s reads what %s hands on, but a pass ends with that",
		            lc_part_name(value), lc_part_name(x));
		return lk_hint(err, "reorder moves a gather after it");
	}
	return LK_OK;
}

static lk_status check_collectives(const struct fuser *fuser, lk_error *err) {
	int scatter = -1, gather = -1;
	for (int i = 0; i < lc_node_count(fuser->p); i++) {
		if (!fuse_in_pass(fuser, i)) continue;
		const lc_node *value = lc_node_at(fuser->p, i);
		if (value->op == LC_REDUCESCATTER && scatter >= 0) {
			fuse_refuse(fuser, err, "%s and %s are two reduce-scatters, and a pass reads from one",
			            lc_part_name(lc_node_at(fuser->p, scatter)), lc_part_name(value));
			return lk_hint(err, "fuse one of them");
		}
		if (value->op == LC_REDUCESCATTER) scatter = i;
		if (value->op == LC_ALLGATHER) gather = i;
		if (scatter < 0 || gather < 0 ||
		    lc_node_at(fuser->p, scatter)->axis == lc_node_at(fuser->p, gather)->axis)
			continue;
		fuse_refuse(fuser, err, "%s and %s work over different axes",
		            lc_part_name(lc_node_at(fuser->p, scatter)),
		            lc_part_name(lc_node_at(fuser->p, gather)));
		return lk_hint(err, "fuse one of them");
	}
	return LK_OK;
}

/* ---- iteration space ---- */

/* The value whose elements a pass goes over when it computes this one. */
static const lc_node *gone_over(const struct fuser *fuser, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < fuser->p->nodes.count);
	const lc_node *value = lc_node_at(fuser->p, id);
	if (value->op == LC_UPDATE && lc_node_at(fuser->p, value->in[1])->op == LC_ALLGATHER)
		value = lc_node_at(fuser->p, value->in[1]);
	return value->op == LC_ALLGATHER || value->op == LC_SEND || is_reduction(value)
	           ? lc_node_at(fuser->p, value->in[0])
	           : value;
}

static bool same_cut(const lc_program *program, const lc_node *a, int da, const lc_node *b,
                     int db) {
	for (int x = 0; x < program->axis_count; x++) {
		const lc_layout *layout = &a->layout[x], *m = &b->layout[x];
		bool cut = layout->kind == LC_S && layout->dim == da,
			 other = m->kind == LC_S && m->dim == db;
		if (cut != other || (cut && layout->turn != m->turn)) return false;
	}
	return true;
}

/* Whether a's extents are b's, except for repeated dims. */
static bool fuse_fits(const lc_program *program, const lc_node *a, const lc_node *b) {
	if (a->rank > b->rank) return false;
	for (int d = 0; d < a->rank; d++) {
		int at = d + b->rank - a->rank;
		if (a->dim[d] != 0 && (a->dim[d] != b->dim[at] || !same_cut(program, a, d, b, at)))
			return false;
	}
	return a->rank == 0 ||
	       (a->list == b->list && (a->at.axis < 0 || lc_same_group(&a->at, &b->at)));
}

/* Whether a value may be computed only once. Values smaller than the pass are recomputed for each
 * repetition: an update would change its state twice, a reduction count twice. */
static bool once(const lc_node *node) {
	return !lc_is_pointwise(node) && node->op != LC_SLICE;
}

static lk_status check_space(struct fuser *fuser, lk_error *err) {
	char x[160], y[160];
	fuser->space = -1;
	for (int i = 0; i < lc_node_count(fuser->p); i++)
		if (fuse_in_pass(fuser, i) &&
		    (fuser->space < 0 ||
		     fuse_fits(fuser->p, gone_over(fuser, fuser->space), gone_over(fuser, i))))
			fuser->space = i;
	for (int i = 0; i < lc_node_count(fuser->p); i++) {
		const lc_node *a = gone_over(fuser, i),
					  *b = gone_over(fuser, fuser->space < 0 ? i : fuser->space);
		if (!fuse_in_pass(fuser, i) ||
		    (fuse_fits(fuser->p, a, b) &&
		     (!once(lc_node_at(fuser->p, i)) || fuse_fits(fuser->p, b, a))))
			continue;
		const char *name = lc_part_name(lc_node_at(fuser->p, i));
		lc_type_text(fuser->p, a, x, sizeof x);
		lc_type_text(fuser->p, b, y, sizeof y);
		if (strcmp(name, lc_part_name(lc_node_at(fuser->p, fuser->space))) == 0) {
			char part[LC_SHOWN];
			fuse_refuse(fuser, err,
			            "%s goes over %s, and %s in it over %s: one pass cannot do both", name, y,
			            lc_shown(fuser->p, i, part), x);
			return lk_hint(err, "give %s a statement of its own", part);
		}
		fuse_refuse(fuser, err, "%s goes over %s, and %s over %s: one pass cannot do both", name, x,
		            lc_part_name(lc_node_at(fuser->p, fuser->space)), y);
		return lk_hint(err, "fuse what goes over the same elements");
	}
	return LK_OK;
}

/* What reads a reduction and goes over the elements again needs a pass of its own. */
static lk_status check_after(struct fuser *fuser, lk_error *err) {
	for (int i = 0; i < lc_node_count(fuser->p); i++) {
		if (!fuser->set[i] || !fuser->after[i]) continue;
		const lc_node *value = lc_node_at(fuser->p, i), *space = gone_over(fuser, fuser->space);
		bool again =
			value->rank > 0 && value->rank == space->rank && fuse_fits(fuser->p, space, value);
		for (int k = lc_first_read(value); k < value->inputs; k++)
			again |= fuse_in_pass(fuser, value->in[k]) &&
			         !is_reduction(lc_node_at(fuser->p, value->in[k])) &&
			         lc_node_at(fuser->p, value->in[k])->rank > 0;
		if (!again) continue;
		fuse_refuse(
			fuser, err,
			"%s reads a reduction over what the pass computes, which is known after its last "
			"element only",
			lc_part_name(value));
		return lk_hint(err, "that takes two passes: leave %s out", lc_part_name(value));
	}
	return LK_OK;
}

/* ---- whether anything needs it ---- */

static lk_status check_used(const struct fuser *fuser, uint8_t *live, lk_error *err) {
	for (int i = lc_node_count(fuser->p); i-- > 0;) {
		const lc_node *value = lc_node_at(fuser->p, i);
		live[i] |= value->op == LC_OUT || value->op == LC_UPDATE;
		for (int k = 0; k < value->inputs && live[i]; k++) live[value->in[k]] = 1;
	}
	for (int i = 0; i < lc_node_count(fuser->p); i++) {
		if (!fuser->set[i] || live[i]) continue;
		fuse_refuse(fuser, err, "%s is needed by no output and no state",
		            lc_part_name(lc_node_at(fuser->p, i)));
		return lk_hint(err, "leave it out");
	}
	return LK_OK;
}

/* Whether the set can be a pass; what comes after the pass is left out of it. */
static lk_status fuse_check(struct fuser *fuser, lk_arena *arena, lk_error *err) {
	uint8_t *live = lc_new_set(fuser->p, arena);
	bool any = false, computes = false;
	if (!live) return lk_oom(err);
	find_after(fuser);
	for (int i = 0; i < lc_node_count(fuser->p); i++) {
		any |= fuse_in_pass(fuser, i);
		computes |= fuse_in_pass(fuser, i) && (lc_is_pointwise(lc_node_at(fuser->p, i)) ||
		                                       is_reduction(lc_node_at(fuser->p, i)));
	}
	if (!any) return fuse_refuse(fuser, err, "there is nothing to fuse");
	LK_TRY(check_used(fuser, live, err));
	for (int i = 0; i < lc_node_count(fuser->p); i++)
		if (fuse_in_pass(fuser, i)) LK_TRY(check_op(fuser, i, err));
	for (int i = 0; i < lc_node_count(fuser->p); i++)
		if (fuse_in_pass(fuser, i)) LK_TRY(check_place(fuser, i, err));
	LK_TRY(check_space(fuser, err));
	LK_TRY(check_after(fuser, err));
	for (int i = 0; i < lc_node_count(fuser->p); i++) {
		fuser->set[i] = fuse_in_pass(fuser, i);
		fuser->after[i] = 0;
	}
	LK_TRY(lc_check_convex(fuser->p, fuser->set, fuser->d, err));
	LK_TRY(check_collectives(fuser, err));
	if (!computes) {
		fuse_refuse(fuser, err, "%s computes nothing that a pass could hold",
		            fuser->d->names[0].text);
		return lk_hint(err, "add the statements between the collectives");
	}
	return lc_names_new(fuser->p, fuser->d, err);
}

lk_status lc_rewrite_fuse(const lc_program *program, const lc_directive *directive,
                          lc_program **out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct fuser f = {.p = program,
	                  .d = directive,
	                  .set = lc_new_set(program, &arena),
	                  .after = lc_new_set(program, &arena)};
	lk_status status = f.set && f.after ? fuse_mark(&f, err) : lk_oom(err);
	if (status == LK_OK) status = fuse_check(&f, &arena, err);
	if (status == LK_OK) status = lc_add_bundle(program, directive, f.set, out, err);
	lk_arena_free(&arena);
	return status;
}

lk_status lc_rewrite_fuse_set(const lc_program *program, const uint8_t *set, bool *legal,
                              lc_program **out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_error why;
	lc_word nobody = {.text = "it"};
	lc_directive unnamed = {.kind = LC_FUSE, .names = &nobody};
	struct fuser f = {.p = program,
	                  .d = &unnamed,
	                  .set = lc_new_set(program, &arena),
	                  .after = lc_new_set(program, &arena)};
	int line = program->file->mistake.line, column = program->file->mistake.column;
	lk_status status = LK_ERR_MEMORY;
	if (f.set && f.after) {
		memcpy(f.set, set, program->nodes.count);
		status = fuse_check(&f, &arena, &why);
	}
	program->file->mistake.line = line;
	program->file->mistake.column = column; /* failed attempts are no mistakes of the user */
	*legal = status == LK_OK && memcmp(f.set, set, program->nodes.count) == 0;
	if (status == LK_ERR_MEMORY) status = lk_oom(err);
	else status = *legal && out ? lc_add_bundle(program, &unnamed, set, out, err) : LK_OK;
	lk_arena_free(&arena);
	return status;
}
