/* emit_loops.c: loops of a pass over the elements of one value, with the tensors that it reads and
 * writes: which dims become one loop, and the strides of elements along each. */
#include <string.h>

#include "lang/emit/emit_internal.h"
#include "base/check.h"

static bool loops_sliced(const lc_node *node, const lc_program *program, int axis, int d) {
	return axis < program->axis_count && node->layout[axis].kind == LC_S &&
	       node->layout[axis].dim == d;
}

/* Whether a place holds all elements along dim d of its tensor that the pass has. */
static bool loops_inner(const lc_program *program, const lc_place *place, int d) {
	for (int a = 0; a < program->axis_count; a++) {
		if (place->kind == LC_PLACE_WHOLE &&
		    loops_sliced(lc_node_at(program, place->id), program, a, d))
			return false;
		if (place->view >= 0 && loops_sliced(lc_node_at(program, place->view), program, a, d) &&
		    !loops_sliced(lc_node_at(program, place->id), program, a, d))
			return false;
	}
	return true;
}

lc_place lc_place_of(const lc_program *program, int space, lc_place_kind kind, int id, int view) {
	LK_ASSERT(id >= 0 && (size_t)id < program->nodes.count);
	lc_place place = {.kind = kind, .id = id, .view = view};
	const lc_node *over = lc_node_at(program, space),
				  *value = lc_node_at(program,
	                                  kind == LC_PLACE_RED ? lc_node_at(program, id)->in[0] : id);
	for (int k = 0; k < LC_RANK; k++) {
		int d = k - (over->rank - value->rank);
		bool there = k < over->rank && d >= 0 && (value->dim[d] != 0 || over->dim[k] == 0);
		if (kind == LC_PLACE_RED && k < over->rank && over->dim[k] == 0)
			there = false; /* one element moves nothing, where a loop goes over a summed dim, too */
		int own = kind == LC_PLACE_RED && there ? lc_reduced_dim(lc_node_at(program, id), d) : d;
		place.dim[k] = (int8_t)(there ? own : -1);
		place.inner[k] = !there || loops_inner(program, &place, d);
	}
	return place;
}

/* Whether dim k continues dim `last` in every place. */
static bool loops_joins(int last, int k, const lc_place *places, int count) {
	for (int i = 0; i < count; i++) {
		const lc_place *at = &places[i];
		if ((at->dim[last] >= 0) != (at->dim[k] >= 0)) return false;
		if (at->dim[k] >= 0 && !at->inner[k]) return false;
	}
	return true;
}

lc_loops lc_loops_of(const lc_program *program, int space, const lc_place *places, int count) {
	lc_loops loops = {.space = space};
	int rank = lc_node_at(program, space)->rank,
		last = -1; /* the last dim that has more than one element */
	for (int k = 0; k < rank; k++) {
		bool single = lc_node_at(program, space)->dim[k] == 0;
		if (loops.count == 0 || (!single && last >= 0 && !loops_joins(last, k, places, count)))
			loops.first[loops.count++] = k;
		if (!single) last = k;
	}
	loops.first[loops.count] = rank;
	return loops;
}

bool lc_place_dense(const lc_program *program, const lc_loops *loops, const lc_place *place) {
	const lc_node *over = lc_node_at(program, loops->space);
	if (place->kind == LC_PLACE_WHOLE) return false;
	for (int k = 0; k < over->rank; k++)
		if (over->dim[k] != 0 && (place->dim[k] < 0 || !place->inner[k])) return false;
	return true;
}

/* The last dim of loop l that the place has, of those with more than one element; -1: none. */
static int last_dim(const lc_program *program, const lc_loops *loops, const lc_place *place,
                    int l) {
	for (int k = loops->first[l + 1]; k-- > loops->first[l];)
		if (lc_node_at(program, loops->space)->dim[k] != 0 && place->dim[k] >= 0)
			return place->dim[k];
	return -1;
}

bool lc_place_moves(const lc_program *program, const lc_loops *loops, const lc_place *place,
                    int l) {
	return last_dim(program, loops, place, l) >= 0;
}

void lc_place_stride(const lc_program *program, const lc_loops *loops, const lc_place *place, int l,
                     int *from, int *rank) {
	const lc_node *value = lc_node_at(program, place->id);
	*from = last_dim(program, loops, place, l) + 1;
	*rank = value->rank;
	while (*from > 0 && *from < *rank && value->dim[*from] == 0) ++*from; /* dims of one element */
}
