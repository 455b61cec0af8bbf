/* gathers.c: f(gather(x), r) = gather(f(x, slice(r))): gathers (and broadcasts) moved behind what reads them.
 *
 * Every value that lies on a path from a gather to one of the statements named is built again on slices; the type rules
 * say what that makes of it: a slice, or parts of a reduction, which an all-reduce of the small result joins. What is
 * read outside is gathered. A layout says where the elements of a tensor are, not what they are, so that whatever lc_add
 * accepts computes the same.
 *
 * The second pass knows the dims that the first found, and pulls along what is only read in slices (b1*m beside a moved
 * gradient), and what was named but does not read the gather (the norm of the weights). */
#include <string.h>

#include "lang/rewrite/rewrite_internal.h"

enum { NO_DIM = -1, SEVERAL_DIMS = -2 };

struct mover {
	const lc_program *p;
	const lc_passage *passage;
	lc_build b;
	int *cut;             /* [values] the version of `to` in slices; -1 */
	uint8_t *moved;       /* on a path from a gather to what it moves past */
	uint8_t *pulled;      /* pointwise, and read in slices only */
	uint8_t *beside;      /* named, and reads what is read in slices, but no gather */
	uint8_t *outside;     /* read by something that is not moved */
	int8_t *want;         /* the dim along which a value is read in slices */
	int *uses;
	int axis, first;      /* of the gathers; the first of them */
	bool refused;         /* the error says why a value cannot move */
};

static const lc_node *node(const struct mover *m, int id) { return &m->p->nodes.at[id]; }

static int count(const struct mover *m) { return (int)m->p->nodes.count; }

/* ---- what moves ---- */

static bool find_moved(struct mover *m) {
	uint8_t *lead = m->outside; /* lent */
	bool any = false;
	for (int i = 0; i < count(m); i++) {
		m->moved[i] = m->passage->gathers[i];
		for (int k = lc_first_read(node(m, i)); k < node(m, i)->inputs; k++) m->moved[i] |= m->moved[node(m, i)->in[k]];
	}
	for (int i = count(m); i-- > 0;) {
		lead[i] |= m->moved[i] && m->passage->past[i];
		for (int k = lc_first_read(node(m, i)); k < node(m, i)->inputs && lead[i]; k++) lead[node(m, i)->in[k]] = 1;
	}
	for (int i = 0; i < count(m); i++) {
		m->moved[i] &= lead[i], lead[i] = 0;
		if (m->moved[i] && m->passage->gathers[i] && (m->first < 0)) m->first = i;
		any |= m->moved[i] && !m->passage->gathers[i];
	}
	return any;
}

static bool moves(const struct mover *m, int id) { return m->moved[id] || m->pulled[id] || m->beside[id]; }

static void find_outside(struct mover *m) {
	memset(m->outside, 0, (size_t)count(m));
	for (int i = 0; i < count(m); i++)
		for (int k = lc_first_read(node(m, i)); k < node(m, i)->inputs; k++)
			m->outside[node(m, i)->in[k]] |= !moves(m, i) || m->passage->gathers[i];
}

/* ---- refusals ---- */

static lk_status refuse(struct mover *m, int id, const char *why, lk_error *err) {
	if (!err) return LK_ERR_INPUT;
	const lc_passage *g = m->passage;
	const char *name = lc_part_name(node(m, id));
	char kept[sizeof err->what];
	int line = g->line, column = g->column;
	snprintf(kept, sizeof kept, "%s", why); /* it may be err's */
	for (int i = 0; i < g->word_count; i++)
		if (strcmp(g->words[i].text, name) == 0) line = g->words[i].line, column = g->words[i].column;
	m->refused = true;
	lc_wrong(m->p, line, column, err, "%s cannot move past %s: %s", g->name, name, kept);
	return lk_hint(err, "leave %s out of what %s moves past", name, g->name);
}

/* What the type rules refuse of the moved form. */
static lk_status refuse_found(struct mover *m, int id, lk_status status, lk_error *err) {
	return status == LK_ERR_INPUT && err && !m->refused ? refuse(m, id, err->what, err) : status;
}

/* ---- building ---- */

/* The whole of what was built in slices; takes the value's name. */
static lk_status gather_back(struct mover *m, int id, lk_error *err) {
	const lc_node *n = node(m, id);
	const lc_layout l = m->b.to->nodes.at[m->cut[id]].layout[m->axis];
	lc_node g = lc_build_on(l.kind == LC_ROOT ? LC_BROADCAST : LC_ALLGATHER, n, m->cut[id]);
	if (l.turn) return refuse(m, id, "its slices are turned", err);
	g.axis = (int8_t)m->axis, g.d = l.kind == LC_S ? l.dim : 0;
	g.part_of = m->passage->name, g.also = NULL;
	g.name = n->name;
	lc_node *cut = &m->b.to->nodes.at[m->cut[id]];
	if (cut->name == n->name) cut->name = NULL; /* what was gathered all along, a state perhaps, keeps its own */
	return lc_add(m->b.to, &g, &m->b.map[id], err);
}

static lk_status update(struct mover *m, int id, lk_error *err) {
	int from = node(m, id)->in[1];
	if (m->cut[from] >= 0 && m->b.map[from] < 0) LK_TRY(gather_back(m, from, err));
	LK_TRY(lc_build_copy(&m->b, id, err));
	m->cut[id] = m->cut[from]; /* who reads the new state reads what it is gathered from */
	return LK_OK;
}

static lk_status operands(struct mover *m, int id, lc_node *n, lk_error *err) {
	const lc_node *from = node(m, id);
	for (int k = 0; k < from->inputs; k++) {
		int u = from->in[k];
		if (m->cut[u] >= 0) n->in[k] = m->cut[u];
		else if (m->moved[id] || m->want[u] < 0 || node(m, u)->layout[m->axis].kind != LC_R) n->in[k] = m->b.map[u];
		else {
			lc_node slice = lc_build_on(LC_SLICE, from, m->b.map[u]);
			slice.axis = (int8_t)m->axis, slice.d = m->want[u];
			LK_TRY(lc_add(m->b.to, &slice, &n->in[k], err));
		}
	}
	return LK_OK;
}

/* Parts of a reduction, joined. */
static lk_status join(struct mover *m, int id, int parts, int *whole, lk_error *err) {
	lc_node all = lc_build_on(LC_ALLREDUCE, node(m, id), parts);
	all.axis = (int8_t)m->axis;
	all.reduce = m->b.to->nodes.at[parts].layout[m->axis].reduce;
	return lc_add(m->b.to, &all, whole, err);
}

/* norm(x) over a sliced dim = sqrt(allreduce(sum(x*x))). */
static lk_status norm(struct mover *m, int id, const lc_node *draft, lk_error *err) {
	const lc_node *n = node(m, id);
	lc_node square = lc_build_on(LC_MUL, n, draft->in[0]), sum = lc_build_on(LC_RED_SUM, n, 0);
	lc_node root = lc_build_on(LC_SQRT, n, 0);
	int parts;
	square.in[1] = draft->in[0], sum.dims = n->dims, sum.keep = n->keep, root.name = n->name;
	LK_TRY(lc_add(m->b.to, &square, &sum.in[0], err));
	LK_TRY(lc_add(m->b.to, &sum, &parts, err));
	LK_TRY(join(m, id, parts, &root.in[0], err));
	return lc_add(m->b.to, &root, &m->b.map[id], err);
}

static bool reduces_slices(const struct mover *m, const lc_node *draft) {
	if (lc_ops[draft->op].family != LC_RED) return false;
	const lc_layout *l = &m->b.to->nodes.at[draft->in[0]].layout[m->axis];
	return l->kind == LC_S && draft->dims >> l->dim & 1;
}

/* Files what was built under what it is: as before, a slice, or parts. */
static lk_status file(struct mover *m, int id, int built, lk_error *err) {
	lc_node *made = &m->b.to->nodes.at[built];
	const lc_node *n = node(m, id);
	const lc_layout *before = &n->layout[m->axis], *now = &made->layout[m->axis];
	if (lc_same_layout(before, now)) return m->b.map[id] = built, LK_OK;
	if (before->kind == LC_R && (now->kind == LC_S || now->kind == LC_ROOT)) {
		m->cut[id] = built;
		return m->outside[id] ? gather_back(m, id, err) : LK_OK;
	}
	if (before->kind == LC_R && now->kind == LC_P && lc_ops[n->op].family == LC_RED) {
		made->name = NULL;
		LK_TRY(join(m, id, built, &m->b.map[id], err));
		m->b.to->nodes.at[m->b.map[id]].name = n->name;
		return LK_OK;
	}
	return refuse(m, id, now->kind == LC_P ? "it sums over the dim that is gathered" : "it needs the whole", err);
}

/* What lies between a reduce-scatter and the statements named is known by the former's name as well; what is computed of
 * an output, by the gather's. */
static void name_part(const struct mover *m, int id, lc_node *n) {
	const lc_node *source = node(m, node(m, m->first)->in[0]);
	if (!n->part_of) n->part_of = m->passage->name;
	else if (m->moved[id] && !m->passage->past[id] && lc_is_pointwise(n) && source->op == LC_REDUCESCATTER)
		n->also = source->part_of;
}

static lk_status slice_of_gathered(struct mover *m, int id, lk_error *err) {
	const lc_node *n = node(m, id), *cut = &m->b.to->nodes.at[m->cut[n->in[0]]];
	if (cut->layout[m->axis].kind == LC_S && cut->layout[m->axis].dim == n->d && !cut->layout[m->axis].turn)
		return m->b.map[id] = m->cut[n->in[0]], LK_OK;
	return refuse(m, id, "it slices another dim", err);
}

static lk_status move(struct mover *m, int id, lk_error *err) {
	const lc_node *n = node(m, id);
	int built;
	if (n->fuse >= 0 || n->overlap >= 0 || n->bucket >= 0)
		return refuse(m, id, "it is fused, overlapped or in a bucket already; write reorder before these", err);
	if (n->op == LC_UPDATE) return update(m, id, err);
	if (n->op == LC_SLICE && n->axis == m->axis && m->cut[n->in[0]] >= 0) return slice_of_gathered(m, id, err);
	lc_node draft = lc_build_draft(&m->b, id);
	LK_TRY(operands(m, id, &draft, err));
	name_part(m, id, &draft);
	if (n->op == LC_RED_NORM && reduces_slices(m, &draft)) return norm(m, id, &draft, err);
	LK_TRY(lc_add(m->b.to, &draft, &built, err));
	return file(m, id, built, err);
}

static lk_status build(struct mover *m, lk_error *err) {
	memset(m->cut, 0xff, sizeof *m->cut * (size_t)count(m));
	find_outside(m);
	for (int i = 0; i < count(m); i++) {
		bool gather = m->passage->gathers[i];
		if (gather && m->moved[i]) m->cut[i] = m->b.map[node(m, i)->in[0]];
		if (gather && m->moved[i] && !m->outside[i]) continue;
		if (gather || !moves(m, i)) LK_TRY(lc_build_copy(&m->b, i, err));
		else LK_TRY(refuse_found(m, i, move(m, i, err), err));
	}
	return LK_OK;
}

/* ---- what comes along ---- */

/* Dim d of a pointwise result as a dim of an operand, which must have more than one element there. */
static int operand_dim(const lc_node *n, const lc_node *x, int d) {
	int at = d - (n->rank - x->rank);
	return at >= 0 && x->dim[at] != 0 ? at : NO_DIM;
}

static int cut_dim(const struct mover *m, int id) {
	if (m->pulled[id]) return m->want[id];
	if (!m->moved[id] || m->cut[id] < 0) return NO_DIM;
	const lc_layout *l = &m->b.to->nodes.at[m->cut[id]].layout[m->axis];
	return l->kind == LC_S && !l->turn ? l->dim : NO_DIM;
}

/* From the readers to what they read: along which dim a value is wanted; a pointwise value that is wanted by all of its
 * readers comes along. */
static bool find_pulled(struct mover *m, int *wanted) {
	bool any = false;
	memset(m->want, NO_DIM, (size_t)count(m));
	for (int i = count(m); i-- > 0;) {
		const lc_node *n = node(m, i);
		m->pulled[i] = !m->moved[i] && lc_is_pointwise(n) && m->want[i] >= 0 && wanted[i] == m->uses[i] && n->fuse < 0 &&
		               n->overlap < 0;
		any |= m->pulled[i];
		int d = lc_is_pointwise(n) ? cut_dim(m, i) : NO_DIM;
		for (int k = 0; k < n->inputs && d >= 0; k++) {
			int u = n->in[k], at = operand_dim(n, node(m, u), d);
			if (at < 0 || m->moved[u] || node(m, u)->layout[m->axis].kind != LC_R) continue;
			m->want[u] = (int8_t)(m->want[u] == NO_DIM || m->want[u] == at ? at : SEVERAL_DIMS);
			wanted[u]++;
		}
	}
	return any;
}

static bool find_beside(struct mover *m) {
	bool any = false;
	for (int i = 0; i < count(m); i++) {
		const lc_node *n = node(m, i);
		if (!m->passage->past[i] || moves(m, i) || n->layout[m->axis].kind != LC_R) continue;
		for (int k = lc_first_read(n); k < n->inputs; k++)
			m->beside[i] |= m->want[n->in[k]] >= 0 || m->beside[n->in[k]] || m->pulled[n->in[k]];
		any |= m->beside[i];
	}
	return any;
}

static lk_status check_words(const struct mover *m, uint8_t *set, lk_error *err) {
	const lc_passage *g = m->passage;
	for (int w = 0; w < g->word_count; w++) {
		bool any = false;
		memset(set, 0, (size_t)count(m));
		LK_TRY(lc_mark(m->p, &g->words[w], set, err));
		for (int i = 0; i < count(m); i++) any |= set[i] && moves(m, i);
		if (any) continue;
		lc_word_wrong(m->p, &g->words[w], err, "%s does not depend on %s", g->words[w].text, g->name);
		return lk_hint(err, "leave it out");
	}
	return LK_OK;
}

static lk_status nothing_moves(const struct mover *m, lk_error *err) {
	const lc_passage *g = m->passage;
	const lc_word here = {g->name, g->line, g->column};
	lc_word_wrong(m->p, g->word_count ? &g->words[0] : &here, err, "%s does not depend on %s",
	              g->word_count ? g->words[0].text : "what follows", g->name);
	return lk_hint(err, "name what reads it");
}

static lk_status make(struct mover *m, lk_arena *arena, lk_error *err) {
	int *wanted = LK_ARRAY(arena, int, (size_t)count(m));
	uint8_t *set = lc_new_set(m->p, arena);
	if (!wanted || !set) return lk_oom(err);
	if (!find_moved(m)) return nothing_moves(m, err);
	m->axis = node(m, m->first)->axis;
	for (int i = 0; i < count(m); i++)
		if (m->moved[i] && m->passage->gathers[i] && node(m, i)->axis != m->axis)
			return refuse(m, i, "it gathers over two axes", err);
	LK_TRY(build(m, err));
	bool pulled = find_pulled(m, wanted), beside = find_beside(m);
	LK_TRY(check_words(m, set, err));
	if (!pulled && !beside) return LK_OK;
	lc_build_close(&m->b, LK_ERR_INPUT, NULL);
	LK_TRY(lc_build_open(&m->b, m->p, err));
	return build(m, err);
}

lk_status lc_move_gathers(const lc_program *p, const lc_passage *passage, lc_program **out, lk_error *err) {
	struct mover m = {.p = p, .passage = passage, .first = -1};
	lk_arena arena = LK_ARENA_INIT;
	m.cut = LK_ARRAY(&arena, int, p->nodes.count);
	m.moved = lc_new_set(p, &arena), m.pulled = lc_new_set(p, &arena), m.beside = lc_new_set(p, &arena);
	m.outside = lc_new_set(p, &arena);
	m.want = (int8_t *)lc_new_set(p, &arena);
	lk_status status = lc_build_open(&m.b, p, err);
	if (status == LK_OK) status = lc_count_uses(p, &arena, &m.uses, err);
	if (status == LK_OK && !(m.cut && m.moved && m.pulled && m.beside && m.outside && m.want)) status = lk_oom(err);
	if (status == LK_OK) memset(m.want, NO_DIM, p->nodes.count);
	if (status == LK_OK) status = make(&m, &arena, err);
	lk_arena_free(&arena);
	return lc_build_close(&m.b, status, out);
}
