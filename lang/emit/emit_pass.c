/* emit_pass.c: what a pass computes, loads and stores, and its loops. */
#include "base/arena.h"
#include "lang/emit/emit_internal.h"
#include "base/check.h"

#include <string.h>

int lc_pass_taken(const lc_program *program, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < program->nodes.count);
	const lc_node *node = &program->nodes.at[id];
	if (node->op == LC_UPDATE) return node->in[1];
	return node->op == LC_OUT || node->op == LC_LOCAL || node->op == LC_SLICED ||
	               node->op == LC_PARTIAL
	           ? node->in[0]
	           : -1;
}

/* ---- places ---- */

static lk_status add_place(lc_pass *pass, lc_place_kind kind, int id, int view, int *out) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	for (size_t i = 0; i < pass->places.count; i++) {
		const lc_place *at = &pass->places.at[i];
		if (at->kind == kind && at->id == id && at->view == view) {
			*out = (int)i;
			return LK_OK;
		}
	}
	if (!lk_push(&pass->places)) return lk_oom(pass->c->err);
	*lk_last(&pass->places) = lc_place_of(pass->p, pass->step->space, kind, id, view);
	*out = (int)pass->places.count - 1;
	return LK_OK;
}

static lk_status pass_find(lc_pass *pass, int id);

static lk_status find_operands(lc_pass *pass, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	int taken = lc_pass_taken(pass->p, id);
	if (taken >= 0) return pass_find(pass, taken);
	for (int i = 0; i < lc_node_at(pass->p, id)->inputs; i++)
		LK_TRY(pass_find(pass, lc_node_at(pass->p, id)->in[i]));
	return LK_OK;
}

/* A slice is read in place if its operand is in memory. */
static lk_status pass_find_slice(lc_pass *pass, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	int base = id;
	while (lc_node_at(pass->p, base)->op == LC_SLICE && (base == id || pass->c->memory[base] < 0))
		base = lc_node_at(pass->p, base)->in[0];
	if (pass->inside[base] || pass->c->memory[base] < 0) {
		pass->source[id] = LC_COMPUTED;
		return find_operands(pass, id);
	}
	pass->source[id] = LC_LOADED;
	return add_place(pass, LC_PLACE_VIEW, lc_mpi_owner(pass->c, base), id, &pass->place[id]);
}

static lk_status find_loaded(lc_pass *pass, int id) {
	pass->source[id] = lc_node_at(pass->p, id)->rank ? LC_LOADED : LC_NUMBER;
	return add_place(pass, LC_PLACE_PART, lc_mpi_owner(pass->c, id), -1, &pass->place[id]);
}

static lk_status pass_find(lc_pass *pass, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	const lc_node *value = lc_node_at(pass->p, id);
	if (pass->uses[id]++) return LK_OK;
	if (value->op == LC_CONST) {
		pass->source[id] = LC_LITERAL;
		return LK_OK;
	}
	if (value->op == LC_SCALAR || value->op == LC_SIZE) {
		pass->source[id] = LC_NUMBER;
		return LK_OK;
	}
	if (value->op == LC_SLICE && (pass->inside[id] || pass->c->memory[id] < 0))
		return pass_find_slice(pass, id);
	if (!pass->inside[id] && pass->c->memory[id] >= 0) return find_loaded(pass, id);
	pass->source[id] = value->rank == 0 && !pass->inside[id] ? LC_NUMBER : LC_COMPUTED;
	if (value->op == LC_DROPOUT) LK_TRY(add_place(pass, LC_PLACE_WHOLE, id, -1, &pass->whole[id]));
	return find_operands(pass, id);
}

/* ---- results of the step ---- */

static lk_status find_result(lc_pass *pass, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	const lc_node *value = lc_node_at(pass->p, id);
	if (!lk_push(&pass->results)) return lk_oom(pass->c->err);
	*lk_last(&pass->results) = id;
	pass->source[id] = LC_RESULT;
	LK_TRY(add_place(pass, value->op == LC_TOTAL ? LC_PLACE_PART : LC_PLACE_RED, id, -1,
	                 &pass->place[id]));
	return pass_find(pass, value->in[0]);
}

static lk_status find_store(lc_pass *pass, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	int place;
	LK_TRY(pass_find(pass, id));
	if (!lk_push(&pass->stores)) return lk_oom(pass->c->err);
	*lk_last(&pass->stores) = id;
	LK_TRY(add_place(pass, LC_PLACE_PART, lc_mpi_owner(pass->c, id), -1, &place));
	return LK_OK;
}

/* Whether a ring's collective leaves this value: the arriving sum, a gathered value, a state
 * gathered into. */
static bool collected(const lc_pass *pass, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	const lc_step *step = pass->step;
	for (int i = 0; i < step->gathers.count; i++)
		if (step->gathers.at[i] == id || (lc_node_at(pass->p, id)->op == LC_UPDATE &&
		                                  step->gathers.at[i] == lc_node_at(pass->p, id)->in[1]))
			return true;
	return step->scatter == id;
}

static lk_status find_all(lc_pass *pass) {
	const lc_step *step = pass->step;
	for (int i = 0; i < step->values.count; i++)
		pass->inside[step->values.at[i]] = !collected(pass, step->values.at[i]);
	for (int i = 0; i < step->values.count; i++) {
		int id = step->values.at[i];
		if (!pass->inside[id]) continue;
		if (lc_is_reduction(lc_node_at(pass->p, id))) LK_TRY(find_result(pass, id));
		else if (pass->c->memory[id] >= 0) LK_TRY(find_store(pass, id));
	}
	return LK_OK;
}

static lk_status pass_make_room(lc_pass *pass) {
	size_t count = pass->p->nodes.count;
	lk_arena *arena = &pass->c->arena;
	pass->source = LK_ARRAY(arena, lc_source, count);
	pass->uses = LK_ARRAY(arena, int, 3 * count);
	pass->inside = LK_ARRAY(arena, bool, count);
	if (!pass->source || !pass->uses || !pass->inside) return lk_oom(pass->c->err);
	pass->place = pass->uses + count;
	pass->whole = pass->place + count;
	for (size_t i = 0; i < count; i++) pass->place[i] = pass->whole[i] = -1;
	return LK_OK;
}

lk_status lc_pass_open(lc_mpi *mpi, const lc_step *step, lc_pass *out) {
	*out = (lc_pass){.c = mpi, .p = mpi->p, .step = step, .cut_loop = -1};
	LK_TRY(pass_make_room(out));
	LK_TRY(find_all(out));
	out->loops = lc_loops_of(mpi->p, step->space, out->places.at, (int)out->places.count);
	return LK_OK;
}

void lc_pass_cut(lc_pass *pass, int dim) {
	lc_loops *loops = &pass->loops;
	int l = 0;
	while (l < loops->count && loops->first[l] < dim) l++;
	pass->cut_loop = l;
	if (loops->first[l] == dim) return;
	memmove(&loops->first[l + 1], &loops->first[l],
	        sizeof *loops->first * (size_t)(loops->count - l + 1));
	loops->first[l] = dim;
	loops->count++;
}

void lc_pass_close(lc_pass *pass) {
	lk_vec_free(&pass->places);
	lk_vec_free(&pass->stores);
	lk_vec_free(&pass->results);
}

/* What has a name, is needed twice, or is stored alongside others: all loads are then before all
 * stores. */
bool lc_pass_stands_alone(const lc_pass *pass, int id) {
	LK_ASSERT(id >= 0 && (size_t)id < pass->p->nodes.count);
	if (pass->source[id] != LC_COMPUTED) return false;
	bool last = lc_pass_stores(pass, id);
	int uses = pass->uses[id] - last;
	if (last) return uses > 0 || pass->stores.count > 1;
	const lc_node *value = lc_node_at(pass->p, id);
	return uses > 1 || (value->name && value->op != LC_SLICE);
}
