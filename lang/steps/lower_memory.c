/* lower_memory.c: bytes that steps read and write, and the memory that a rank holds. */
#include "base/arena.h"
#include "base/check.h"
#include "lang/steps/steps.h"

#include <math.h>

#include "lang/steps/lower.h"

/* ---- sizes ---- */

lk_status lc_lower_extents(const lc_program *program, const lc_sizes *sizes, const lc_node *node,
                           int64_t item, double out[LC_RANK], lk_error *err) {
	int64_t whole[LC_RANK];
	LK_TRY(lc_whole_shape(program, node, sizes, item, whole, err));
	for (int d = 0; d < node->rank; d++) out[d] = (double)whole[d];
	for (int a = 0; a < program->axis_count; a++) {
		double ranks = (double)sizes->symbol[a];
		int d = node->layout[a].dim;
		if (node->layout[a].kind != LC_S || ranks < 1) continue;
		out[d] /= ranks;
		if (lc_dim_across(program, node->dim[d]) < 0) out[d] = ceil(out[d]);
	}
	return LK_OK;
}

static double lower_element_bytes(lc_dtype dtype) {
	static const uint8_t bits[LC_DTYPE_COUNT] = {
#define BITS(symbol, name, width) [LC_##symbol] = width,
		LC_DTYPES(BITS)
#undef BITS
	};
	return bits[dtype] / 8.0;
}

static lk_status lower_bytes_of(const lc_program *program, const lc_sizes *sizes,
                                const lc_node *node, int64_t item, double *out, lk_error *err) {
	double extent[LC_RANK];
	LK_TRY(lc_lower_extents(program, sizes, node, item, extent, err));
	*out = lower_element_bytes((lc_dtype)node->dtype);
	for (int d = 0; d < node->rank; d++) *out *= extent[d];
	return LK_OK;
}

lk_status lc_lower_value_bytes(const lc_lowering *lowering, int v, int64_t item, double *out) {
	bool once = lc_node_at(lowering->p, v)->list < 0;
	if (once && lowering->bytes[v] > 0) *out = lowering->bytes[v];
	else
		LK_TRY(lower_bytes_of(lowering->p, lowering->sizes, lc_node_at(lowering->p, v), item, out,
		                      lowering->err));
	if (once) lowering->bytes[v] = *out;
	*out *= lowering->share;
	return LK_OK;
}

/* Add the cost of reading v in the pass of a step: 0 for what it computes itself and for single
 * numbers' arithmetic. */
static lk_status lower_add_read(const lc_steps *steps, const lc_step *step, const lc_sizes *sizes,
                                int64_t item, int v, uint8_t *seen, double *sum, lk_error *err) {
	const lc_node *node = &steps->p->nodes.at[v];
	bool at_hand = lc_ids_have(&step->values, v) || (steps->storage[v] < 0 && node->op != LC_SLICE);
	double bytes;
	if (seen[v] || at_hand) return LK_OK;
	seen[v] = 1;
	LK_TRY(lower_bytes_of(steps->p, sizes, node, item, &bytes, err));
	*sum += bytes;
	return LK_OK;
}

static lk_status pass_bytes(const lc_steps *steps, const lc_step *step, const lc_sizes *sizes,
                            int64_t item, uint8_t *seen, double *out, lk_error *err) {
	double bytes;
	*out = 0;
	for (int k = 0; k < step->values.count; k++) {
		int v = step->values.at[k];
		const lc_node *node = &steps->p->nodes.at[v];
		if (v == step->scatter || lc_ids_have(&step->gathers, v)) continue;
		for (int i = node->op == LC_UPDATE ? 1 : 0; i < node->inputs; i++)
			LK_TRY(lower_add_read(steps, step, sizes, item, node->in[i], seen, out, err));
		if (steps->storage[v] < 0) continue;
		LK_TRY(lower_bytes_of(steps->p, sizes, node, item, &bytes, err));
		*out += bytes;
	}
	for (int k = 0; k < step->gathers.count;
	     k++) /* gathered from memory if the pass does not compute it */
		LK_TRY(lower_add_read(steps, step, sizes, item,
		                      steps->p->nodes.at[step->gathers.at[k]].in[0], seen, out, err));
	return LK_OK;
}

lk_status lc_pass_bytes(const lc_steps *steps, const lc_step *step, const lc_sizes *sizes,
                        int64_t item, double *out, lk_error *err) {
	lk_arena scratch = LK_ARENA_INIT;
	uint8_t *seen = LK_ARRAY(&scratch, uint8_t, steps->p->nodes.count + 1);
	lk_status status = seen ? pass_bytes(steps, step, sizes, item, seen, out, err) : lk_oom(err);
	lk_arena_free(&scratch);
	return status;
}

/* ---- what a rank holds ---- */

bool lc_lowering_holds(const lc_lowering *lowering, const lc_group *group) {
	return group->axis < 0 ||
	       lowering->place[group->axis] == lc_group_place(lowering->p, lowering->sizes, group);
}

/* Whether the ranks of an axis are assumed to hold copies that learn from different samples. */
static bool lower_is_data_parallel(const lc_lowering *lowering, int a) {
	uint8_t kind = lowering->kind_of[a];
	return kind == LK_GROUP_DP || kind == LK_GROUP_SHARD || kind == LK_GROUP_REPLICA;
}

static bool lower_has_layout(const lc_lowering *lowering, const lc_node *node, unsigned kind) {
	for (int a = 0; a < lowering->p->axis_count; a++)
		if (node->layout[a].kind == kind && lower_is_data_parallel(lowering, a)) return true;
	return false;
}

/* Elements of a value that a rank has with all its data-parallel slices together. */
static lk_status lower_elements(const lc_lowering *lowering, const lc_node *node, int64_t item,
                                double *out) {
	lc_node whole = *node;
	double extent[LC_RANK];
	for (int a = 0; a < lowering->p->axis_count; a++)
		if (lower_is_data_parallel(lowering, a)) whole.layout[a].kind = LC_R;
	LK_TRY(lc_lower_extents(lowering->p, lowering->sizes, &whole, item, extent, lowering->err));
	*out = 1;
	for (int d = 0; d < node->rank; d++) *out *= extent[d];
	return LK_OK;
}

/* Bytes of a value, of all tensors of its list. */
static lk_status lower_all_bytes(const lc_lowering *lowering, const lc_node *node, double *out) {
	double bytes;
	*out = 0;
	for (int64_t i = 0; i < lc_items(lowering->p, lowering->sizes, node); i++) {
		LK_TRY(lower_bytes_of(lowering->p, lowering->sizes, node, i, &bytes, lowering->err));
		*out += bytes;
	}
	return LK_OK;
}

/* Inputs that are tensors of real numbers are gradients. */
static lk_status lower_input(const lc_lowering *lowering, const lc_node *node,
                             lk_program *program) {
	double elements, bytes;
	LK_TRY(lower_all_bytes(lowering, node, &bytes));
	program->resident[LK_OWN_GRADIENTS] += bytes;
	if (node->rank == 0 || !lc_is_real((lc_dtype)node->dtype)) return LK_OK;
	for (int64_t i = 0; i < lc_items(lowering->p, lowering->sizes, node); i++) {
		LK_TRY(lower_elements(lowering, node, i, &elements));
		program->updated += elements;
	}
	program->reduces |= lower_has_layout(lowering, node, LC_P);
	program->takes_slices |= lower_has_layout(lowering, node, LC_S);
	return LK_OK;
}

/* A state that is output unchanged holds weights; others are the optimizer's own. */
static lk_status lower_state(const lc_lowering *lowering, int v, lk_program *program) {
	const lc_node *node = lc_node_at(lowering->p, v);
	lk_owner owner = LK_OWN_OPTIMIZER;
	double bytes;
	for (size_t i = 0; i < lowering->p->nodes.count; i++)
		if (lc_node_at(lowering->p, (int)i)->op == LC_OUT && lowering->steps->storage[i] == v)
			owner = LK_OWN_WEIGHTS;
	LK_TRY(lower_all_bytes(lowering, node, &bytes));
	program->resident[owner] += bytes;
	return LK_OK;
}

/* Results. */
static lk_status lower_result(const lc_lowering *lowering, const lc_node *node,
                              lk_program *program) {
	double bytes;
	LK_TRY(lower_all_bytes(lowering, node, &bytes));
	program->resident[LK_OWN_WEIGHTS] += bytes;
	return LK_OK;
}

lk_status lc_lower_hold(const lc_lowering *lowering, lk_program *program) {
	for (size_t v = 0; v < lowering->p->nodes.count; v++) {
		const lc_node *node = lc_node_at(lowering->p, (int)v);
		if (!lc_lowering_holds(lowering, &node->at)) continue;
		if (node->op == LC_INPUT) LK_TRY(lower_input(lowering, node, program));
		if (node->op == LC_STATE) LK_TRY(lower_state(lowering, (int)v, program));
		program->leaves_slices |= node->op == LC_OUT && node->rank > 0 &&
		                          lc_is_real((lc_dtype)node->dtype) &&
		                          lower_has_layout(lowering, node, LC_S);
		if (lowering->life[v].first >= 0 && lowering->life[v].last == lowering->steps->count)
			LK_TRY(lower_result(lowering, node, program));
	}
	return LK_OK;
}

/* Bytes needed from step i on, or for the last time in it. */
static lk_status lower_scratch(const lc_lowering *lowering, int i, double *begin, double *end) {
	double bytes;
	*begin = *end = 0;
	for (size_t v = 0; v < lowering->p->nodes.count; v++) {
		const lc_life *life = &lowering->life[v];
		const lc_node *node = lc_node_at(lowering->p, (int)v);
		bool begins = life->first == i, ends = life->last == i;
		if ((!begins && !ends) || life->last == lowering->steps->count ||
		    !lc_lowering_holds(lowering, &node->at))
			continue;
		LK_TRY(lower_all_bytes(lowering, node, &bytes));
		if (begins) *begin += bytes;
		if (ends) *end += bytes;
	}
	return LK_OK;
}

lk_status lc_lower_take_memory(lc_lowering *lowering, int i, uint32_t first, double *pending) {
	lk_ops *ops = &lowering->graph->ops;
	double begin, end;
	LK_TRY(lower_scratch(lowering, i, &begin, &end));
	*pending += begin;
	if (lowering->graph->failed || ops->count == lowering->block_begin) return LK_OK;
	if (ops->count > first && *pending > 0) {
		ops->alloc[first] += *pending;
		ops->alloc_owner[first] = LK_OWN_WORKSPACE;
		*pending = 0;
	}
	LK_ASSERT(begin >= 0 && end >= 0 && *pending >= 0);
	double given = fmin(end, *pending);
	*pending -= given;
	if (end <= given) return LK_OK;
	ops->release[ops->count - 1] += end - given;
	ops->release_owner[ops->count - 1] = LK_OWN_WORKSPACE;
	return LK_OK;
}
