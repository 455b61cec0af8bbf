/* sizes.c: consequences of sizes: shapes of tensors, the ranks' parts, whether the sizes fit a
 * program. */
#include "base/arena.h"
#include "base/noun.h"
#include "lang/run/run.h"

#include <string.h>

/* ---- places on the mesh ---- */

int64_t lc_ranks(const lc_program *program, const lc_sizes *sizes) {
	int64_t all = 1;
	for (int a = 0; a < program->axis_count; a++) all *= sizes->symbol[a];
	return all;
}

int64_t lc_coordinate(const lc_program *program, const lc_sizes *sizes, int64_t rank, int axis) {
	for (int a = program->axis_count; --a > axis;) rank /= sizes->symbol[a];
	return rank % sizes->symbol[axis];
}

int64_t lc_group_place(const lc_program *program, const lc_sizes *sizes, const lc_group *group) {
	(void)program;
	if (!group->index) return group->offset;
	for (size_t i = 0; i < sizes->indices.count; i++)
		if (strcmp(sizes->indices.at[i].name, group->index) == 0)
			return sizes->indices.at[i].value + group->offset;
	return -1;
}

/* ---- shapes ---- */

int64_t lc_items(const lc_program *program, const lc_sizes *sizes, const lc_node *node) {
	(void)program;
	return node->list < 0 ? 1 : sizes->items[node->list];
}

void lc_item_symbols(const lc_program *program, const lc_sizes *sizes, int64_t item,
                     int64_t out[LC_SYMBOLS]) {
	memcpy(out, sizes->symbol, sizeof sizes->symbol);
	for (int d = 0; d < program->named_count; d++)
		if (sizes->each[d] && item < sizes->items[program->named[d].list])
			out[LC_AXES + d] = sizes->each[d][item];
}

static lk_status sizes_shape(const lc_program *program, const lc_node *node,
                             const int64_t symbol[LC_SYMBOLS], int64_t out[LC_RANK],
                             lk_error *err) {
	int64_t all = 1;
	char text[128];
	for (int d = 0; d < node->rank; d++) {
		LK_TRY(lc_dim_value(program, node->dim[d], symbol, &out[d], err));
		if (!__builtin_mul_overflow(all, out[d], &all)) continue;
		lk_fail(err, LK_ERR_INPUT, program->name, "a tensor %s has more than 2^63 elements",
		        lc_type_text(program, node, text, sizeof text));
		return lk_hint(err, "choose smaller sizes");
	}
	return LK_OK;
}

lk_status lc_whole_shape(const lc_program *program, const lc_node *node, const lc_sizes *sizes,
                         int64_t item, int64_t out[LC_RANK], lk_error *err) {
	int64_t symbol[LC_SYMBOLS];
	if (node->list < 0) return sizes_shape(program, node, sizes->symbol, out, err);
	lc_item_symbols(program, sizes, item, symbol);
	return sizes_shape(program, node, symbol, out, err);
}

/* Make place for a dim's tensors end to end. */
static lk_status lay_out_dim(lc_sizes *sizes, int d, int64_t items, lk_error *err) {
	if (!sizes->before[d]) sizes->before[d] = LK_ARRAY(&sizes->arena, int64_t, (size_t)items + 1);
	if (!sizes->before[d]) return lk_oom(err);
	for (int64_t i = 0; i < items; i++)
		if (__builtin_add_overflow(sizes->before[d][i], sizes->each[d][i],
		                           &sizes->before[d][i + 1])) {
			lk_fail(err, LK_ERR_INPUT, "--sizes",
			        "the tensors of a list have 2^63 elements together");
			return lk_hint(err, "choose smaller sizes");
		}
	return LK_OK;
}

lk_status lc_sizes_lay_out(const lc_program *program, lc_sizes *sizes, lk_error *err) {
	for (int d = 0; d < program->named_count; d++)
		if (sizes->each[d])
			LK_TRY(lay_out_dim(sizes, d, sizes->items[program->named[d].list], err));
	return LK_OK;
}

/* What of [from, from + length), places in a list laid end to end, is of one of its tensors. */
static void within_item(const int64_t *before, int64_t item, int64_t from, int64_t length,
                        int64_t *begin, int64_t *extent) {
	int64_t first = before[item], whole = before[item + 1] - first, to = from + length - first;
	*begin = from > first ? from - first : 0;
	if (*begin > whole) *begin = whole;
	*extent = (to < whole ? to : whole) - *begin;
	if (*extent < 0) *extent = 0;
}

bool lc_local_part(const lc_program *program, const lc_node *node, const lc_sizes *sizes,
                   int64_t item, const int64_t whole[LC_RANK], int64_t rank, int64_t begin[LC_RANK],
                   int64_t extent[LC_RANK]) {
	const int64_t *before[LC_RANK] = {0};
	if (node->at.axis >= 0 && lc_coordinate(program, sizes, rank, node->at.axis) !=
	                              lc_group_place(program, sizes, &node->at))
		return false;
	for (int d = 0; d < node->rank; d++) {
		int across = lc_dim_across(program, node->dim[d]);
		if (across >= 0) before[d] = sizes->before[across];
		begin[d] = 0;
		extent[d] = before[d] ? before[d][lc_items(program, sizes, node)] : whole[d];
	}
	for (int a = 0; a < program->axis_count; a++) {
		const lc_layout *layout = &node->layout[a];
		int64_t ranks = sizes->symbol[a], at = lc_coordinate(program, sizes, rank, a);
		if (layout->kind == LC_ROOT && at != layout->root) return false;
		if (layout->kind != LC_S) continue;
		int64_t slice = ((at - layout->turn) % ranks + ranks) % ranks, held = extent[layout->dim];
		begin[layout->dim] += lc_slice_begin(held, ranks, slice);
		extent[layout->dim] =
			lc_slice_begin(held, ranks, slice + 1) - lc_slice_begin(held, ranks, slice);
	}
	for (int d = 0; d < node->rank; d++)
		if (before[d]) within_item(before[d], item, begin[d], extent[d], &begin[d], &extent[d]);
	return true;
}

/* ---- whether sizes fit ---- */

static lk_status check_mesh(const lc_program *program, const lc_sizes *sizes, lk_error *err) {
	int64_t all = 1;
	for (int a = 0; a < program->axis_count; a++) {
		int64_t n = sizes->symbol[a], fixed = program->axes[a].size;
		if (n < 1 || n > LC_RANKS || (all *= n) > LC_RANKS) {
			lk_fail(err, LK_ERR_INPUT, "--sizes", "the mesh has no rank, or more than %d",
			        LC_RANKS);
			return lk_hint(err, "give axes between 1 and %d ranks", LC_RANKS);
		}
		if (fixed && fixed != n)
			return lk_fail(err, LK_ERR_INPUT, "--sizes", "%s has %lld ranks in %s, not %lld",
			               program->axes[a].name, (long long)fixed, program->name, (long long)n);
	}
	return LK_OK;
}

static lk_status sizes_check_group(const lc_program *program, const lc_sizes *sizes,
                                   const lc_group *group, lk_error *err) {
	char text[128];
	if (group->axis < 0) return LK_OK;
	int64_t place = lc_group_place(program, sizes, group), ranks = sizes->symbol[group->axis];
	if (place >= 0 && place < ranks) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--sizes", "group %s does not exist: axis %s has %lld %s",
	        lc_group_text(program, group, text, sizeof text), program->axes[group->axis].name,
	        (long long)ranks, lk_noun(ranks, "rank", "ranks"));
	return group->index ? lk_hint(err, "give %s another value, or %s more ranks", group->index,
	                              program->axes[group->axis].name)
	                    : lk_hint(err, "give %s more ranks", program->axes[group->axis].name);
}

static lk_status check_places(const lc_program *program, const lc_sizes *sizes, const lc_node *node,
                              lk_error *err) {
	LK_TRY(sizes_check_group(program, sizes, &node->at, err));
	LK_TRY(sizes_check_group(program, sizes, &node->from, err));
	for (int a = 0; a < program->axis_count; a++) {
		if (node->layout[a].kind != LC_ROOT || node->layout[a].root < sizes->symbol[a]) continue;
		lk_fail(err, LK_ERR_INPUT, "--sizes", "there is no rank %d on %s, which has %lld",
		        node->layout[a].root, program->axes[a].name, (long long)sizes->symbol[a]);
		return lk_hint(err, "give %s more ranks", program->axes[a].name);
	}
	return LK_OK;
}

static lk_status check_condition(const lc_program *program, const lc_condition *condition,
                                 const int64_t symbol[LC_SYMBOLS], lk_error *err) {
	int64_t value, divisor;
	char text[128], by[128];
	LK_TRY(lc_dim_value(program, condition->value, symbol, &value, err));
	LK_TRY(lc_dim_value(program, condition->divisor, symbol, &divisor, err));
	if (value % divisor == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--sizes",
	        "%s, which is %lld, is not divisible by %s, which is %lld",
	        lc_dim_text(program, condition->value, text, sizeof text), (long long)value,
	        lc_dim_text(program, condition->divisor, by, sizeof by), (long long)divisor);
	return lk_hint(err, "choose sizes that divide");
}

static lk_status check_conditions(const lc_program *program, const lc_sizes *sizes, lk_error *err) {
	int64_t symbol[LC_SYMBOLS];
	for (size_t i = 0; i < program->conditions.count; i++) {
		const lc_condition *condition = &program->conditions.at[i];
		int32_t list = lc_dim_list(program, condition->value);
		if (list < 0) list = lc_dim_list(program, condition->divisor);
		for (int64_t item = 0; item < (list < 0 ? 1 : sizes->items[list]); item++) {
			lc_item_symbols(program, sizes, item, symbol);
			LK_TRY(check_condition(program, condition, symbol, err));
		}
	}
	return LK_OK;
}

static lk_status check_work(const lc_program *program, const lc_sizes *sizes, lk_error *err) {
	int64_t most = 1;
	for (size_t l = 0; l < program->lists.count; l++)
		if (sizes->items[l] > most) most = sizes->items[l];
	if (most * (int64_t)(program->nodes.count + program->conditions.count) <= LC_EXTENTS)
		return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--sizes", "%lld tensors of a list in a program of %zu values",
	        (long long)most, program->nodes.count);
	return lk_hint(err, "give shorter lists");
}

lk_status lc_sizes_check_mesh(const lc_program *program, const lc_sizes *sizes, lk_error *err) {
	LK_TRY(check_mesh(program, sizes, err));
	for (size_t i = 0; i < program->nodes.count; i++)
		LK_TRY(check_places(program, sizes, &program->nodes.at[i], err));
	return LK_OK;
}

lk_status lc_sizes_check(const lc_program *program, const lc_sizes *sizes, lk_error *err) {
	int64_t whole[LC_RANK];
	LK_TRY(lc_sizes_check_mesh(program, sizes, err));
	LK_TRY(check_work(program, sizes, err));
	LK_TRY(check_conditions(program, sizes, err));
	for (size_t i = 0; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[i];
		for (int64_t item = 0; item < lc_items(program, sizes, node); item++)
			LK_TRY(lc_whole_shape(program, node, sizes, item, whole, err));
	}
	return LK_OK;
}

/* ---- for a rewritten program ---- */

/* How many axes of q, from `at` on, represent axis a of p: itself, or parts, whose names are its
 * name and an ending. */
static int parts_of_axis(const lc_program *program, int a, const lc_program *q, int at) {
	const char *name = program->axes[a].name;
	size_t length = strnlen(name, LC_AXIS_STEM);
	int count = 0;
	if (at < q->axis_count && strcmp(name, q->axes[at].name) == 0) return 1;
	while (at + count < q->axis_count) {
		const char *part = q->axes[at + count].name;
		if (lc_axis_find(program, part) >= 0 || strncmp(part, name, length) != 0 ||
		    part[length] != '_')
			break;
		count++;
	}
	return count;
}

/* All parts but the first have a fixed size; the first gets the rest. */
static lk_status divide_axis(const lc_axis *whole, int64_t ranks, const lc_axis *parts, int count,
                             int64_t *out, lk_error *err) {
	int64_t inner = 1;
	for (int i = 1; i < count; i++) {
		out[i] = parts[i].size;
		inner *= parts[i].size > 0 && parts[i].size <= LC_RANKS && inner <= LC_RANKS ? parts[i].size
		                                                                             : LC_RANKS + 1;
	}
	out[0] = ranks / inner;
	if (out[0] >= 1 && out[0] * inner == ranks && (!parts->size || parts->size == out[0]))
		return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--sizes", "%lld ranks of %s do not make groups of %lld",
	        (long long)ranks, whole->name, (long long)inner);
	return lk_hint(err, "choose a multiple");
}

static lk_status refine_axes(const lc_program *program, const lc_sizes *sizes, const lc_program *q,
                             lc_sizes *out, lk_error *err) {
	int to = 0;
	for (int a = 0; a < program->axis_count; a++) {
		int count = parts_of_axis(program, a, q, to);
		if (count == 0)
			return lk_fail(err, LK_ERR_INTERNAL, q->name,
			               "a mesh that is not a refinement of the other");
		if (count == 1) out->symbol[to] = sizes->symbol[a];
		else
			LK_TRY(divide_axis(&program->axes[a], sizes->symbol[a], &q->axes[to], count,
			                   &out->symbol[to], err));
		to += count;
	}
	return LK_OK;
}

static lk_status copy_lists(const lc_program *program, const lc_sizes *sizes, lc_sizes *out,
                            lk_error *err) {
	out->items = LK_ARRAY(&out->arena, int64_t, program->lists.count);
	if (!out->items) return lk_oom(err);
	memcpy(out->items, sizes->items, sizeof *sizes->items * program->lists.count);
	for (int d = 0; d < program->named_count; d++) {
		if (!sizes->each[d]) continue;
		size_t count = (size_t)sizes->items[program->named[d].list];
		out->each[d] = LK_ARRAY(&out->arena, int64_t, count);
		if (!out->each[d]) return lk_oom(err);
		memcpy(out->each[d], sizes->each[d], sizeof *sizes->each[d] * count);
	}
	return lc_sizes_lay_out(program, out, err);
}

lk_status lc_sizes_refine(const lc_program *program, const lc_sizes *sizes, const lc_program *q,
                          lc_sizes *out, lk_error *err) {
	memset(out, 0, sizeof *out);
	LK_TRY(refine_axes(program, sizes, q, out, err));
	memcpy(out->symbol + LC_AXES, sizes->symbol + LC_AXES, sizeof *sizes->symbol * LC_DIMS);
	LK_TRY(copy_lists(program, sizes, out, err));
	for (size_t i = 0; i < sizes->indices.count; i++) {
		if (!lk_push(&out->indices)) return lk_oom(err);
		*lk_last(&out->indices) = sizes->indices.at[i];
	}
	return LK_OK;
}

void lc_sizes_free(lc_sizes *sizes) {
	if (!sizes) return;
	lk_vec_free(&sizes->indices);
	lk_arena_free(&sizes->arena);
	memset(sizes, 0, sizeof *sizes);
}
