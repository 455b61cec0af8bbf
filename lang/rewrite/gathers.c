/* gathers.c: f(gather(x), r) = gather(f(x, slice(r))): gathers (and broadcasts) moved after their
 * readers.
 *
 * Every value on a path from a gather to one of the named statements is rebuilt on slices; the type
 * rules determine the result: a slice, or parts of a reduction, which an all-reduce of the small
 * result joins. Values read outside are gathered. A layout says where the elements of a tensor are,
 * not what they are, so whatever lc_add accepts computes the same.
 *
 * The second pass knows the dims that the first found, and also moves values that are only read in
 * slices (b1*m next to a moved gradient), and named statements that do not read the gather (the
 * norm of the weights). */
#include <string.h>

#include "base/arena.h"
#include "lang/rewrite/rewrite_internal.h"
#include "base/check.h"

enum { NO_DIM = -1, SEVERAL_DIMS = -2 };

struct mover {
	const lc_program *p;
	const lc_passage *passage;
	lc_build b;
	int *cut;         /* [values] the version of `to` in slices; -1 */
	uint8_t *moved;   /* on a path from a gather to a value it moves past */
	uint8_t *pulled;  /* pointwise, and only read in slices */
	uint8_t *beside;  /* named, without reading a gather, but reads a sliced value */
	uint8_t *outside; /* has a reader that does not move */
	int8_t *want;     /* the dim along which a value is read in slices */
	int *uses;
	int axis, first; /* of the gathers; the first of them */
	bool refused;    /* the error says why a value cannot move */
};

/* ---- what moves ---- */

static bool find_moved(struct mover *mover) {
	uint8_t *lead = mover->outside; /* lent */
	bool any = false;
	for (int i = 0; i < lc_node_count(mover->p); i++) {
		mover->moved[i] = mover->passage->gathers[i];
		for (int k = lc_first_read(lc_node_at(mover->p, i)); k < lc_node_at(mover->p, i)->inputs;
		     k++)
			mover->moved[i] |= mover->moved[lc_node_at(mover->p, i)->in[k]];
	}
	for (int i = lc_node_count(mover->p); i-- > 0;) {
		lead[i] |= mover->moved[i] && mover->passage->past[i];
		for (int k = lc_first_read(lc_node_at(mover->p, i));
		     k < lc_node_at(mover->p, i)->inputs && lead[i]; k++)
			lead[lc_node_at(mover->p, i)->in[k]] = 1;
	}
	for (int i = 0; i < lc_node_count(mover->p); i++) {
		mover->moved[i] &= lead[i];
		lead[i] = 0;
		if (mover->moved[i] && mover->passage->gathers[i] && (mover->first < 0)) mover->first = i;
		any |= mover->moved[i] && !mover->passage->gathers[i];
	}
	return any;
}

static bool gathers_moves(const struct mover *mover, int id) {
	return mover->moved[id] || mover->pulled[id] || mover->beside[id];
}

static void find_outside(struct mover *mover) {
	memset(mover->outside, 0, (size_t)lc_node_count(mover->p));
	for (int i = 0; i < lc_node_count(mover->p); i++)
		for (int k = lc_first_read(lc_node_at(mover->p, i)); k < lc_node_at(mover->p, i)->inputs;
		     k++)
			mover->outside[lc_node_at(mover->p, i)->in[k]] |=
				!gathers_moves(mover, i) || mover->passage->gathers[i];
}

/* ---- refusals ---- */

static lk_status gathers_refuse(struct mover *mover, int id, const char *why, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < mover->p->nodes.count);
	if (!err) return LK_ERR_INPUT;
	const lc_passage *passage = mover->passage;
	const char *name = lc_part_name(lc_node_at(mover->p, id));
	char kept[sizeof err->what];
	int line = passage->line, column = passage->column;
	snprintf(kept, sizeof kept, "%s", why); /* it may be err's */
	for (int i = 0; i < passage->word_count; i++)
		if (strcmp(passage->words[i].text, name) == 0) {
			line = passage->words[i].line;
			column = passage->words[i].column;
		}
	mover->refused = true;
	lc_wrong(mover->p, line, column, err, "%s cannot move past %s: %s", passage->name, name, kept);
	return lk_hint(err, "leave %s out of what %s moves past", name, passage->name);
}

/* Report why the type rules refuse the moved form. */
static lk_status refuse_found(struct mover *mover, int id, lk_status status, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < mover->p->nodes.count);
	return status == LK_ERR_INPUT && err && !mover->refused
	           ? gathers_refuse(mover, id, err->what, err)
	           : status;
}

/* ---- building ---- */

/* The whole of what was built in slices; takes the value's name. */
static lk_status gather_back(struct mover *mover, int id, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < mover->p->nodes.count);
	const lc_node *value = lc_node_at(mover->p, id);
	const lc_layout l = mover->b.to->nodes.at[mover->cut[id]].layout[mover->axis];
	lc_node g = lc_build_on(l.kind == LC_ROOT ? LC_BROADCAST : LC_ALLGATHER, value, mover->cut[id]);
	if (l.turn) return gathers_refuse(mover, id, "its slices are turned", err);
	g.axis = (int8_t)mover->axis, g.d = l.kind == LC_S ? l.dim : 0;
	g.part_of = mover->passage->name;
	g.also = NULL;
	g.name = value->name;
	lc_node *cut = &mover->b.to->nodes.at[mover->cut[id]];
	if (cut->name == value->name)
		cut->name = NULL; /* what was gathered all along, a state perhaps, keeps its own */
	return lc_add(mover->b.to, &g, &mover->b.map[id], err);
}

static lk_status gathers_update(struct mover *mover, int id, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < mover->p->nodes.count);
	int from = lc_node_at(mover->p, id)->in[1];
	if (mover->cut[from] >= 0 && mover->b.map[from] < 0) LK_TRY(gather_back(mover, from, err));
	LK_TRY(lc_build_copy(&mover->b, id, err));
	mover->cut[id] = mover->cut[from]; /* who reads the new state reads what it is gathered from */
	return LK_OK;
}

static lk_status operands(struct mover *mover, int id, lc_node *value, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < mover->p->nodes.count);
	const lc_node *from = lc_node_at(mover->p, id);
	for (int k = 0; k < from->inputs; k++) {
		int u = from->in[k];
		if (mover->cut[u] >= 0) value->in[k] = mover->cut[u];
		else if (mover->moved[id] || mover->want[u] < 0 ||
		         lc_node_at(mover->p, u)->layout[mover->axis].kind != LC_R)
			value->in[k] = mover->b.map[u];
		else {
			lc_node slice = lc_build_on(LC_SLICE, from, mover->b.map[u]);
			slice.axis = (int8_t)mover->axis;
			slice.d = mover->want[u];
			LK_TRY(lc_add(mover->b.to, &slice, &value->in[k], err));
		}
	}
	return LK_OK;
}

/* Parts of a reduction, joined. */
static lk_status gathers_join(struct mover *mover, int id, int parts, int *whole, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < mover->p->nodes.count);
	lc_node all = lc_build_on(LC_ALLREDUCE, lc_node_at(mover->p, id), parts);
	all.axis = (int8_t)mover->axis;
	all.reduce = mover->b.to->nodes.at[parts].layout[mover->axis].reduce;
	return lc_add(mover->b.to, &all, whole, err);
}

/* norm(x) over a sliced dim = sqrt(allreduce(sum(x*x))). */
static lk_status gathers_norm(struct mover *mover, int id, const lc_node *draft, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < mover->p->nodes.count);
	const lc_node *value = lc_node_at(mover->p, id);
	lc_node square = lc_build_on(LC_MUL, value, draft->in[0]),
			sum = lc_build_on(LC_RED_SUM, value, 0);
	lc_node root = lc_build_on(LC_SQRT, value, 0);
	int parts;
	square.in[1] = draft->in[0];
	sum.dims = value->dims;
	sum.keep = value->keep;
	root.name = value->name;
	LK_TRY(lc_add(mover->b.to, &square, &sum.in[0], err));
	LK_TRY(lc_add(mover->b.to, &sum, &parts, err));
	LK_TRY(gathers_join(mover, id, parts, &root.in[0], err));
	return lc_add(mover->b.to, &root, &mover->b.map[id], err);
}

static bool reduces_slices(const struct mover *mover, const lc_node *draft) {
	if (lc_ops[draft->op].family != LC_RED) return false;
	const lc_layout *layout = &mover->b.to->nodes.at[draft->in[0]].layout[mover->axis];
	return layout->kind == LC_S && draft->dims >> layout->dim & 1;
}

/* Files what was built under what it is: as before, a slice, or parts. */
static lk_status gathers_file(struct mover *mover, int id, int built, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < mover->p->nodes.count);
	lc_node *made = &mover->b.to->nodes.at[built];
	const lc_node *value = lc_node_at(mover->p, id);
	const lc_layout *before = &value->layout[mover->axis], *now = &made->layout[mover->axis];
	if (lc_same_layout(before, now)) {
		mover->b.map[id] = built;
		return LK_OK;
	}
	if (before->kind == LC_R && (now->kind == LC_S || now->kind == LC_ROOT)) {
		mover->cut[id] = built;
		return mover->outside[id] ? gather_back(mover, id, err) : LK_OK;
	}
	if (before->kind == LC_R && now->kind == LC_P && lc_ops[value->op].family == LC_RED) {
		made->name = NULL;
		LK_TRY(gathers_join(mover, id, built, &mover->b.map[id], err));
		mover->b.to->nodes.at[mover->b.map[id]].name = value->name;
		return LK_OK;
	}
	return gathers_refuse(
		mover, id,
		now->kind == LC_P ? "it sums over the dim that is gathered" : "it needs the whole", err);
}

/* What lies between a reduce-scatter and the statements named is known by the former's name as
 * well; what is computed of an output, by the gather's. */
static void name_part(const struct mover *mover, int id, lc_node *value) {
	LK_ASSERT(id >= 0 && (size_t)id < mover->p->nodes.count);
	const lc_node *source = lc_node_at(mover->p, lc_node_at(mover->p, mover->first)->in[0]);
	if (!value->part_of) value->part_of = mover->passage->name;
	else if (mover->moved[id] && !mover->passage->past[id] && lc_is_pointwise(value) &&
	         source->op == LC_REDUCESCATTER)
		value->also = source->part_of;
}

static lk_status slice_of_gathered(struct mover *mover, int id, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < mover->p->nodes.count);
	const lc_node *value = lc_node_at(mover->p, id),
				  *cut = &mover->b.to->nodes.at[mover->cut[value->in[0]]];
	if (cut->layout[mover->axis].kind == LC_S && cut->layout[mover->axis].dim == value->d &&
	    !cut->layout[mover->axis].turn) {
		mover->b.map[id] = mover->cut[value->in[0]];
		return LK_OK;
	}
	return gathers_refuse(mover, id, "it slices another dim", err);
}

static lk_status gathers_move(struct mover *mover, int id, lk_error *err) {
	LK_ASSERT(id >= 0 && (size_t)id < mover->p->nodes.count);
	const lc_node *value = lc_node_at(mover->p, id);
	int built;
	if (value->fuse >= 0 || value->overlap >= 0 || value->bucket >= 0)
		return gathers_refuse(
			mover, id, "it is fused, overlapped or in a bucket already; write reorder before these",
			err);
	if (value->op == LC_UPDATE) return gathers_update(mover, id, err);
	if (value->op == LC_SLICE && value->axis == mover->axis && mover->cut[value->in[0]] >= 0)
		return slice_of_gathered(mover, id, err);
	if (value->op == LC_LOCAL && value->axis == mover->axis && mover->cut[value->in[0]] >= 0)
		return gathers_refuse(mover, id, "it needs the whole", err);
	lc_node draft = lc_build_draft(&mover->b, id);
	LK_TRY(operands(mover, id, &draft, err));
	name_part(mover, id, &draft);
	if (value->op == LC_RED_NORM && reduces_slices(mover, &draft))
		return gathers_norm(mover, id, &draft, err);
	LK_TRY(lc_add(mover->b.to, &draft, &built, err));
	return gathers_file(mover, id, built, err);
}

static lk_status gathers_build(struct mover *mover, lk_error *err) {
	memset(mover->cut, 0xff, sizeof *mover->cut * (size_t)lc_node_count(mover->p));
	find_outside(mover);
	for (int i = 0; i < lc_node_count(mover->p); i++) {
		bool gather = mover->passage->gathers[i];
		if (gather && mover->moved[i]) mover->cut[i] = mover->b.map[lc_node_at(mover->p, i)->in[0]];
		if (gather && mover->moved[i] && !mover->outside[i]) continue;
		if (gather || !gathers_moves(mover, i)) LK_TRY(lc_build_copy(&mover->b, i, err));
		else LK_TRY(refuse_found(mover, i, gathers_move(mover, i, err), err));
	}
	return LK_OK;
}

/* ---- what comes along ---- */

/* Dim d of a pointwise result as a dim of an operand, which must have more than one element
 * there. */
static int operand_dim(const lc_node *node, const lc_node *value, int d) {
	int at = d - (node->rank - value->rank);
	return at >= 0 && value->dim[at] != 0 ? at : NO_DIM;
}

static int cut_dim(const struct mover *mover, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < mover->p->nodes.count);
	if (mover->pulled[id]) return mover->want[id];
	if (!mover->moved[id] || mover->cut[id] < 0) return NO_DIM;
	const lc_layout *layout = &mover->b.to->nodes.at[mover->cut[id]].layout[mover->axis];
	return layout->kind == LC_S && !layout->turn ? layout->dim : NO_DIM;
}

/* From the readers to what they read: along which dim a value is wanted; a pointwise value that is
 * wanted by all of its readers comes along. */
static bool find_pulled(struct mover *mover, int *wanted) {
	bool any = false;
	memset(mover->want, NO_DIM, (size_t)lc_node_count(mover->p));
	for (int i = lc_node_count(mover->p); i-- > 0;) {
		const lc_node *value = lc_node_at(mover->p, i);
		mover->pulled[i] = !mover->moved[i] && lc_is_pointwise(value) && mover->want[i] >= 0 &&
		                   wanted[i] == mover->uses[i] && value->fuse < 0 && value->overlap < 0;
		any |= mover->pulled[i];
		int d = lc_is_pointwise(value) ? cut_dim(mover, i) : NO_DIM;
		for (int k = 0; k < value->inputs && d >= 0; k++) {
			int u = value->in[k], at = operand_dim(value, lc_node_at(mover->p, u), d);
			if (at < 0 || mover->moved[u] ||
			    lc_node_at(mover->p, u)->layout[mover->axis].kind != LC_R)
				continue;
			mover->want[u] =
				(int8_t)(mover->want[u] == NO_DIM || mover->want[u] == at ? at : SEVERAL_DIMS);
			wanted[u]++;
		}
	}
	return any;
}

static bool find_beside(struct mover *mover) {
	bool any = false;
	for (int i = 0; i < lc_node_count(mover->p); i++) {
		const lc_node *value = lc_node_at(mover->p, i);
		if (!mover->passage->past[i] || gathers_moves(mover, i) ||
		    value->layout[mover->axis].kind != LC_R)
			continue;
		for (int k = lc_first_read(value); k < value->inputs; k++)
			mover->beside[i] |= mover->want[value->in[k]] >= 0 || mover->beside[value->in[k]] ||
			                    mover->pulled[value->in[k]];
		any |= mover->beside[i];
	}
	return any;
}

static lk_status check_words(const struct mover *mover, uint8_t *set, lk_error *err) {
	const lc_passage *passage = mover->passage;
	for (int w = 0; w < passage->word_count; w++) {
		bool any = false;
		memset(set, 0, (size_t)lc_node_count(mover->p));
		LK_TRY(lc_mark(mover->p, &passage->words[w], set, err));
		for (int i = 0; i < lc_node_count(mover->p); i++) any |= set[i] && gathers_moves(mover, i);
		if (any) continue;
		lc_word_wrong(mover->p, &passage->words[w], err, "%s does not depend on %s",
		              passage->words[w].text, passage->name);
		return lk_hint(err, "leave it out");
	}
	return LK_OK;
}

static lk_status nothing_moves(const struct mover *mover, lk_error *err) {
	const lc_passage *passage = mover->passage;
	const lc_word here = {passage->name, passage->line, passage->column};
	lc_word_wrong(mover->p, passage->word_count ? &passage->words[0] : &here, err,
	              "%s does not depend on %s",
	              passage->word_count ? passage->words[0].text : "what follows", passage->name);
	return lk_hint(err, "name what reads it");
}

static lk_status gathers_make(struct mover *mover, lk_arena *arena, lk_error *err) {
	int *wanted = LK_ARRAY(arena, int, (size_t)lc_node_count(mover->p));
	uint8_t *set = lc_new_set(mover->p, arena);
	if (!wanted || !set) return lk_oom(err);
	if (!find_moved(mover)) return nothing_moves(mover, err);
	mover->axis = lc_node_at(mover->p, mover->first)->axis;
	for (int i = 0; i < lc_node_count(mover->p); i++)
		if (mover->moved[i] && mover->passage->gathers[i] &&
		    lc_node_at(mover->p, i)->axis != mover->axis)
			return gathers_refuse(mover, i, "it gathers over two axes", err);
	LK_TRY(gathers_build(mover, err));
	bool pulled = find_pulled(mover, wanted), beside = find_beside(mover);
	LK_TRY(check_words(mover, set, err));
	if (!pulled && !beside) return LK_OK;
	lc_build_close(&mover->b, LK_ERR_INPUT, NULL);
	LK_TRY(lc_build_open(&mover->b, mover->p, err));
	return gathers_build(mover, err);
}

lk_status lc_move_gathers(const lc_program *program, const lc_passage *passage, lc_program **out,
                          lk_error *err) {
	struct mover m = {.p = program, .passage = passage, .first = -1};
	lk_arena arena = LK_ARENA_INIT;
	m.cut = LK_ARRAY(&arena, int, program->nodes.count);
	m.moved = lc_new_set(program, &arena);
	m.pulled = lc_new_set(program, &arena);
	m.beside = lc_new_set(program, &arena);
	m.outside = lc_new_set(program, &arena);
	m.want = (int8_t *)lc_new_set(program, &arena);
	lk_status status = lc_build_open(&m.b, program, err);
	if (status == LK_OK) status = lc_count_uses(program, &arena, &m.uses, err);
	if (status == LK_OK && !(m.cut && m.moved && m.pulled && m.beside && m.outside && m.want))
		status = lk_oom(err);
	if (status == LK_OK) memset(m.want, NO_DIM, program->nodes.count);
	if (status == LK_OK) status = gathers_make(&m, &arena, err);
	lk_arena_free(&arena);
	return lc_build_close(&m.b, status, out);
}
