/* run_draw.c: leaves: inputs, states and scalars from the counter generator, constants, sizes. */
#include <string.h>

#include "lang/run/run_internal.h"
#include "base/check.h"

enum { PLAIN_BOUND = 8 }; /* of integers that are no indices */

/* ---- what a draw depends on ---- */

static bool ranks_differ(const lc_layout *layout) {
	return layout->kind == LC_P || layout->kind == LC_L;
}

uint32_t lc_draw_rank(const lc_program *program, const lc_node *node, const lc_sizes *sizes,
                      int64_t rank) {
	bool any = false;
	int64_t number = 0;
	for (int a = 0; a < program->axis_count; a++) {
		if (!ranks_differ(&node->layout[a])) continue;
		any = true;
		number = number * sizes->symbol[a] + lc_coordinate(program, sizes, rank, a);
	}
	return any ? (uint32_t)number + 1 : 0;
}

/* Whether a value holds the numbers of its operand 0, perhaps at other places. */
static bool draw_moves(const lc_node *node) {
	if (node->op == LC_COPY || node->op == LC_OUT || node->op == LC_CAST) return true;
	lc_family family = lc_ops[node->op].family;
	return family == LC_COMM || (family == LC_VIEW && node->op != LC_CUMSUM) || node->op == LC_SEND;
}

int lc_index_rows(const lc_program *program, int id, lc_dim *out, int limit) {
	LK_ASSERT(id >= 0 && (size_t)id < program->nodes.count);
	bool carries[LC_VALUES] = {false};
	int count = 0;
	carries[id] = true;
	for (size_t i = (size_t)id + 1; i < program->nodes.count; i++) {
		const lc_node *node = &program->nodes.at[i];
		int from = node->op == LC_UPDATE ? 1 : 0;
		if (node->inputs == 0) continue;
		carries[i] = (draw_moves(node) || node->op == LC_UPDATE) &&
		             (carries[node->in[from]] || (node->op == LC_CONCAT && carries[node->in[1]]));
		if (lc_ops[node->op].family != LC_ROWS || !carries[node->in[1]]) continue;
		const lc_node *table = node->op == LC_ADD_ROWS ? node : &program->nodes.at[node->in[0]];
		if (count < limit) out[count] = table->dim[0];
		count++;
	}
	return count < limit ? count : limit;
}

/* 0: the value is no index. */
static lk_status rows_bound(const lc_at *at, int64_t *bound) {
	lc_dim rows[LC_VALUES];
	int64_t symbol[LC_SYMBOLS], one;
	int count = lc_is_integer((lc_dtype)at->n->dtype)
	                ? lc_index_rows(at->run->p, at->id, rows, LC_VALUES)
	                : 0;
	*bound = 0;
	lc_item_symbols(at->run->p, at->run->s, at->item, symbol);
	for (int i = 0; i < count; i++) {
		LK_TRY(lc_dim_value(at->run->p, rows[i], symbol, &one, at->err));
		if (*bound == 0 || one < *bound) *bound = one;
	}
	return LK_OK;
}

/* ---- one element ---- */

struct source {
	lc_dtype dtype;
	bool inputs, field;
	uint32_t rank, item;
	uint64_t key;
	int64_t bound;
};

static double draw_number(const struct source *source, uint64_t index) {
	uint32_t u = lc_philox(index, source->rank, source->item, source->key);
	if (source->dtype == LC_BOOL) return u & 1;
	if (lc_is_integer(source->dtype))
		return (double)(u % (uint64_t)(source->bound ? source->bound : PLAIN_BOUND));
	return lc_round(source->dtype, source->inputs ? (u + 0.5) / 0x1p31 - 1
	                                              : (u + 0.5) / 0x1p32 * 15 / 16 + 1.0 / 16);
}

/* Two words of two generators, of which the top 61 bits: within 2^-61 of uniform. */
static uint64_t draw_element(const struct source *source, uint64_t index) {
	uint64_t high = lc_philox(index, source->rank, source->item, lc_mix(source->key ^ 1)),
			 low = lc_philox(index, source->rank, source->item, lc_mix(source->key));
	uint64_t element = (high << 32 | low) >> 3;
	return element == LC_PRIME ? 0 : element;
}

static void draw_row(const struct source *source, int64_t first, int64_t count, lc_cells *out,
                     int64_t at) {
	for (int64_t i = 0; i < count; i++) {
		uint64_t index = (uint64_t)(first + i);
		if (!source->field) out->number[at + i] = draw_number(source, index);
		else if (source->bound) out->element[at + i] = (uint64_t)draw_number(source, index);
		else out->element[at + i] = draw_element(source, index);
	}
}

/* ---- one part ---- */

/* Draw the part by rows along its last dim. */
static void draw_box(const struct source *source, const int64_t whole[LC_RANK], const lc_box *box,
                     lc_cells *out) {
	int last = box->rank - 1;
	int64_t row = last < 0 ? 1 : box->extent[last], place[LC_RANK] = {0};
	for (int64_t at = 0; at < box->count; at += row) {
		int64_t first = 0;
		for (int d = 0; d < box->rank; d++) first = first * whole[d] + box->begin[d] + place[d];
		draw_row(source, first, row, out, at);
		for (int d = last; --d >= 0 && ++place[d] == box->extent[d];) place[d] = 0;
	}
}

/* The first of the ranks that differ only in replicated axes and so hold the same numbers: it
 * draws. */
static int64_t draw_first_alike(const lc_at *at) {
	int64_t rank = 0;
	for (int a = 0; a < at->run->p->axis_count; a++) {
		bool alike = at->n->layout[a].kind == LC_R && at->n->at.axis != a;
		rank = rank * at->run->s->symbol[a] +
		       (alike ? 0 : lc_coordinate(at->run->p, at->run->s, at->rank, a));
	}
	return rank;
}

static lk_status draw_part(lc_at *at) {
	const lc_run *run = at->run;
	int64_t whole[LC_RANK], first = draw_first_alike(at);
	const lc_cells *drawn = lc_part_of(run, at->id, at->item, first);
	if (first < at->rank && lc_held(drawn)) {
		lc_cells_share(drawn, at->out);
		return LK_OK;
	}
	struct source s = {.dtype = (lc_dtype)at->n->dtype,
	                   .inputs = at->n->op == LC_INPUT,
	                   .field = lc_in_field(run)};
	s.rank = lc_draw_rank(run->p, at->n, run->s, at->rank);
	s.item = (uint32_t)at->item;
	s.key = run->o.seed ^ lc_name_key(at->n->name);
	LK_TRY(rows_bound(at, &s.bound));
	LK_TRY(lc_whole_shape(run->p, at->n, run->s, at->item, whole, at->err));
	LK_TRY(lc_cells_new(at->run, at->box.count, at->out, at->err));
	draw_box(&s, whole, &at->box, at->out);
	return LK_OK;
}

/* ---- given numbers ---- */

/* A part of a tensor that is given whole; sums in parts: all on the first rank. */
static lk_status draw_tensor(lc_at *at, const lc_given *given) {
	int64_t whole[LC_RANK], place[LC_RANK] = {0};
	const lc_box *box = &at->box;
	bool other = false;
	for (int a = 0; a < at->run->p->axis_count; a++)
		other |= at->n->layout[a].kind == LC_P &&
		         lc_coordinate(at->run->p, at->run->s, at->rank, a) != 0;
	LK_TRY(lc_whole_shape(at->run->p, at->n, at->run->s, at->item, whole, at->err));
	LK_TRY(lc_cells_new(at->run, box->count, at->out, at->err));
	for (int64_t i = 0; i < box->count; i++) {
		int64_t index = 0;
		for (int d = 0; d < box->rank; d++) index = index * whole[d] + box->begin[d] + place[d];
		LK_ASSERT(index < given->count);
		at->out->number[i] =
			other ? 0 : lc_convert(LC_WEAK_REAL, (lc_dtype)at->n->dtype, given->number[index]);
		for (int d = box->rank; --d >= 0 && ++place[d] == box->extent[d];) place[d] = 0;
	}
	return LK_OK;
}

static lk_status draw_given(lc_at *at, double number) {
	LK_TRY(lc_cells_new(at->run, at->box.count, at->out, at->err));
	for (int64_t i = 0; i < at->out->count; i++) {
		if (at->out->number) at->out->number[i] = number;
		else at->out->element[i] = lc_field_number(number);
	}
	return LK_OK;
}

static double draw_size_of(const lc_at *at) {
	int64_t symbol[LC_SYMBOLS];
	lc_item_symbols(at->run->p, at->run->s, at->item, symbol);
	return (double)symbol[at->n->axis >= 0 ? at->n->axis : LC_AXES + at->n->symbol];
}

lk_status lc_run_leaf(lc_at *at) {
	const lc_run_options *options = &at->run->o;
	if (at->n->op == LC_CONST) return draw_given(at, at->n->number);
	if (at->n->op == LC_SIZE) return draw_given(at, draw_size_of(at));
	for (int i = 0; at->n->op == LC_SCALAR && i < options->setting_count; i++)
		if (strcmp(options->settings[i].name, at->n->name) == 0)
			return draw_given(
				at, lc_convert(LC_WEAK_REAL, (lc_dtype)at->n->dtype, options->settings[i].value));
	for (int i = 0; i < options->given_count; i++)
		if (strcmp(options->given[i].name, at->n->name) == 0)
			return draw_tensor(at, &options->given[i]);
	return draw_part(at);
}
