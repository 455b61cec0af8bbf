/* sizes.c: what follows from sizes: shapes of tensors, the parts that ranks hold, whether the sizes fit a program. */
#include "lang/run/run.h"

#include <string.h>

/* ---- places on the mesh ---- */

int64_t lc_ranks(const lc_program *p, const lc_sizes *s) {
	int64_t all = 1;
	for (int a = 0; a < p->axis_count; a++) all *= s->symbol[a];
	return all;
}

int64_t lc_coordinate(const lc_program *p, const lc_sizes *s, int64_t rank, int axis) {
	for (int a = p->axis_count; --a > axis;) rank /= s->symbol[a];
	return rank % s->symbol[axis];
}

int64_t lc_group_place(const lc_program *p, const lc_sizes *s, const lc_group *g) {
	(void)p;
	if (!g->index) return g->offset;
	for (size_t i = 0; i < s->indices.count; i++)
		if (strcmp(s->indices.at[i].name, g->index) == 0) return s->indices.at[i].value + g->offset;
	return -1;
}

/* ---- shapes ---- */

int64_t lc_items(const lc_program *p, const lc_sizes *s, const lc_node *n) {
	(void)p;
	return n->list < 0 ? 1 : s->items[n->list];
}

void lc_item_symbols(const lc_program *p, const lc_sizes *s, int64_t item, int64_t out[LC_SYMBOLS]) {
	memcpy(out, s->symbol, sizeof s->symbol);
	for (int d = 0; d < p->named_count; d++)
		if (s->each[d] && item < s->items[p->named[d].list]) out[LC_AXES + d] = s->each[d][item];
}

static lk_status shape(const lc_program *p, const lc_node *n, const int64_t symbol[LC_SYMBOLS], int64_t out[LC_RANK],
					   lk_error *err) {
	int64_t all = 1;
	char text[128];
	for (int d = 0; d < n->rank; d++) {
		LK_TRY(lc_dim_value(p, n->dim[d], symbol, &out[d], err));
		if (!__builtin_mul_overflow(all, out[d], &all)) continue;
		lk_fail(err, LK_ERR_INPUT, p->name, "a tensor %s has more than 2^63 elements",
				lc_type_text(p, n, text, sizeof text));
		return lk_hint(err, "choose smaller sizes");
	}
	return LK_OK;
}

lk_status lc_whole_shape(const lc_program *p, const lc_node *n, const lc_sizes *s, int64_t item, int64_t out[LC_RANK],
						 lk_error *err) {
	int64_t symbol[LC_SYMBOLS];
	if (n->list < 0) return shape(p, n, s->symbol, out, err);
	lc_item_symbols(p, s, item, symbol);
	return shape(p, n, symbol, out, err);
}

bool lc_local_part(const lc_program *p, const lc_node *n, const lc_sizes *s, const int64_t whole[LC_RANK], int64_t rank,
				   int64_t begin[LC_RANK], int64_t extent[LC_RANK]) {
	if (n->at.axis >= 0 && lc_coordinate(p, s, rank, n->at.axis) != lc_group_place(p, s, &n->at)) return false;
	for (int d = 0; d < n->rank; d++) begin[d] = 0, extent[d] = whole[d];
	for (int a = 0; a < p->axis_count; a++) {
		const lc_layout *l = &n->layout[a];
		int64_t ranks = s->symbol[a], at = lc_coordinate(p, s, rank, a);
		if (l->kind == LC_ROOT && at != l->root) return false;
		if (l->kind != LC_S) continue;
		int64_t slice = ((at - l->turn) % ranks + ranks) % ranks, held = extent[l->dim];
		begin[l->dim] += lc_slice_begin(held, ranks, slice);
		extent[l->dim] = lc_slice_begin(held, ranks, slice + 1) - lc_slice_begin(held, ranks, slice);
	}
	return true;
}

/* ---- whether they fit ---- */

static lk_status check_mesh(const lc_program *p, const lc_sizes *s, lk_error *err) {
	int64_t all = 1;
	for (int a = 0; a < p->axis_count; a++) {
		int64_t n = s->symbol[a], fixed = p->axes[a].size;
		if (n < 1 || n > LC_RANKS || (all *= n) > LC_RANKS) {
			lk_fail(err, LK_ERR_INPUT, "--sizes", "the mesh has no rank, or more than %d", LC_RANKS);
			return lk_hint(err, "give axes between 1 and %d ranks", LC_RANKS);
		}
		if (fixed && fixed != n)
			return lk_fail(err, LK_ERR_INPUT, "--sizes", "%s has %lld ranks in %s, not %lld", p->axes[a].name,
						   (long long)fixed, p->name, (long long)n);
	}
	return LK_OK;
}

static lk_status check_group(const lc_program *p, const lc_sizes *s, const lc_group *g, lk_error *err) {
	char text[128];
	if (g->axis < 0) return LK_OK;
	int64_t place = lc_group_place(p, s, g), ranks = s->symbol[g->axis];
	if (place >= 0 && place < ranks) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--sizes", "there is no group %s: %s has %lld", lc_group_text(p, g, text, sizeof text),
			p->axes[g->axis].name, (long long)ranks);
	return g->index ? lk_hint(err, "give %s another value, or %s more ranks", g->index, p->axes[g->axis].name)
					: lk_hint(err, "give %s more ranks", p->axes[g->axis].name);
}

static lk_status check_places(const lc_program *p, const lc_sizes *s, const lc_node *n, lk_error *err) {
	LK_TRY(check_group(p, s, &n->at, err));
	LK_TRY(check_group(p, s, &n->from, err));
	for (int a = 0; a < p->axis_count; a++) {
		if (n->layout[a].kind != LC_ROOT || n->layout[a].root < s->symbol[a]) continue;
		lk_fail(err, LK_ERR_INPUT, "--sizes", "there is no rank %d on %s, which has %lld", n->layout[a].root,
				p->axes[a].name, (long long)s->symbol[a]);
		return lk_hint(err, "give %s more ranks", p->axes[a].name);
	}
	return LK_OK;
}

static lk_status check_condition(const lc_program *p, const lc_condition *c, const int64_t symbol[LC_SYMBOLS],
								 lk_error *err) {
	int64_t value, divisor;
	char text[128], by[128];
	LK_TRY(lc_dim_value(p, c->value, symbol, &value, err));
	LK_TRY(lc_dim_value(p, c->divisor, symbol, &divisor, err));
	if (value % divisor == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--sizes", "%s, which is %lld, is not divisible by %s, which is %lld",
			lc_dim_text(p, c->value, text, sizeof text), (long long)value, lc_dim_text(p, c->divisor, by, sizeof by),
			(long long)divisor);
	return lk_hint(err, "choose sizes that divide");
}

static lk_status check_conditions(const lc_program *p, const lc_sizes *s, lk_error *err) {
	int64_t symbol[LC_SYMBOLS];
	for (size_t i = 0; i < p->conditions.count; i++) {
		const lc_condition *c = &p->conditions.at[i];
		int32_t list = lc_dim_list(p, c->value);
		if (list < 0) list = lc_dim_list(p, c->divisor);
		for (int64_t item = 0; item < (list < 0 ? 1 : s->items[list]); item++) {
			lc_item_symbols(p, s, item, symbol);
			LK_TRY(check_condition(p, c, symbol, err));
		}
	}
	return LK_OK;
}

static lk_status check_work(const lc_program *p, const lc_sizes *s, lk_error *err) {
	int64_t most = 1;
	for (size_t l = 0; l < p->lists.count; l++)
		if (s->items[l] > most) most = s->items[l];
	if (most * (int64_t)(p->nodes.count + p->conditions.count) <= LC_EXTENTS) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--sizes", "%lld tensors of a list in a program of %zu values", (long long)most,
			p->nodes.count);
	return lk_hint(err, "give shorter lists");
}

lk_status lc_sizes_check_mesh(const lc_program *p, const lc_sizes *s, lk_error *err) {
	LK_TRY(check_mesh(p, s, err));
	for (size_t i = 0; i < p->nodes.count; i++) LK_TRY(check_places(p, s, &p->nodes.at[i], err));
	return LK_OK;
}

lk_status lc_sizes_check(const lc_program *p, const lc_sizes *s, lk_error *err) {
	int64_t whole[LC_RANK];
	LK_TRY(lc_sizes_check_mesh(p, s, err));
	LK_TRY(check_work(p, s, err));
	LK_TRY(check_conditions(p, s, err));
	for (size_t i = 0; i < p->nodes.count; i++) {
		const lc_node *n = &p->nodes.at[i];
		for (int64_t item = 0; item < lc_items(p, s, n); item++) LK_TRY(lc_whole_shape(p, n, s, item, whole, err));
	}
	return LK_OK;
}

/* ---- of a rewritten program ---- */

/* How many axes of q, from `at` on, stand for axis a of p: itself, or parts, which have its name and an ending. */
static int parts_of_axis(const lc_program *p, int a, const lc_program *q, int at) {
	const char *name = p->axes[a].name;
	size_t length = strnlen(name, LC_AXIS_STEM);
	int count = 0;
	if (at < q->axis_count && strcmp(name, q->axes[at].name) == 0) return 1;
	while (at + count < q->axis_count) {
		const char *part = q->axes[at + count].name;
		if (lc_axis_find(p, part) >= 0 || strncmp(part, name, length) != 0 || part[length] != '_') break;
		count++;
	}
	return count;
}

/* All parts but the first have a fixed size; the first takes what is left. */
static lk_status divide_axis(const lc_axis *whole, int64_t ranks, const lc_axis *parts, int count, int64_t *out,
							 lk_error *err) {
	int64_t inner = 1;
	for (int i = 1; i < count; i++) {
		out[i] = parts[i].size;
		inner *= parts[i].size > 0 && parts[i].size <= LC_RANKS && inner <= LC_RANKS ? parts[i].size : LC_RANKS + 1;
	}
	out[0] = ranks / inner;
	if (out[0] >= 1 && out[0] * inner == ranks && (!parts->size || parts->size == out[0])) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--sizes", "%lld ranks of %s do not make groups of %lld", (long long)ranks, whole->name,
			(long long)inner);
	return lk_hint(err, "choose a multiple");
}

static lk_status refine_axes(const lc_program *p, const lc_sizes *s, const lc_program *q, lc_sizes *out,
							 lk_error *err) {
	int to = 0;
	for (int a = 0; a < p->axis_count; a++) {
		int count = parts_of_axis(p, a, q, to);
		if (count == 0) return lk_fail(err, LK_ERR_INTERNAL, q->name, "a mesh that is no refinement of the other");
		if (count == 1) out->symbol[to] = s->symbol[a];
		else LK_TRY(divide_axis(&p->axes[a], s->symbol[a], &q->axes[to], count, &out->symbol[to], err));
		to += count;
	}
	return LK_OK;
}

static lk_status copy_lists(const lc_program *p, const lc_sizes *s, lc_sizes *out, lk_error *err) {
	out->items = LK_ARRAY(&out->arena, int64_t, p->lists.count);
	if (!out->items) return lk_oom(err);
	memcpy(out->items, s->items, sizeof *s->items * p->lists.count);
	for (int d = 0; d < p->named_count; d++) {
		if (!s->each[d]) continue;
		size_t count = (size_t)s->items[p->named[d].list];
		out->each[d] = LK_ARRAY(&out->arena, int64_t, count);
		if (!out->each[d]) return lk_oom(err);
		memcpy(out->each[d], s->each[d], sizeof *s->each[d] * count);
	}
	return LK_OK;
}

lk_status lc_sizes_refine(const lc_program *p, const lc_sizes *s, const lc_program *q, lc_sizes *out, lk_error *err) {
	memset(out, 0, sizeof *out);
	LK_TRY(refine_axes(p, s, q, out, err));
	memcpy(out->symbol + LC_AXES, s->symbol + LC_AXES, sizeof *s->symbol * LC_DIMS);
	LK_TRY(copy_lists(p, s, out, err));
	for (size_t i = 0; i < s->indices.count; i++) {
		if (!lk_push(&out->indices)) return lk_oom(err);
		*lk_last(&out->indices) = s->indices.at[i];
	}
	return LK_OK;
}

void lc_sizes_free(lc_sizes *s) {
	if (!s) return;
	lk_vec_free(&s->indices);
	lk_arena_free(&s->arena);
	memset(s, 0, sizeof *s);
}
