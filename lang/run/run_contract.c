/* run_contract.c: matmul, conv2d, gather_rows, add_rows and cumsum on a rank's part. A row of the
 * result is kept in double (integers: in 64 bits, which wrap) while the products are added in the
 * order of the summed dims, then rounded once. */
#include <stdlib.h>
#include <string.h>

#include "lang/run/run_internal.h"

/* ---- rows of sums ---- */

struct sums {
	lc_dtype dtype;
	bool whole; /* of integers */
	int64_t count;
	double *number; /* one of these: reals; integers and field elements */
	uint64_t *element;
};

static lk_status sums_new(const lc_at *at, int64_t count, struct sums *out) {
	lc_dtype t = (lc_dtype)at->n->dtype;
	*out = (struct sums){.dtype = t,
	                     .whole = !lc_in_field(at->run) && lc_is_integer(t) && t != LC_WEAK_INT,
	                     .count = count};
	void *room = malloc((size_t)count * sizeof(double) + 1);
	if (!room) return lk_oom(at->err);
	if (lc_in_field(at->run) || out->whole) out->element = room;
	else out->number = room;
	return LK_OK;
}

static void sums_free(struct sums *sums) {
	free(sums->number);
	free(sums->element);
}

static void sums_clear(struct sums *sums) {
	if (sums->number) memset(sums->number, 0, (size_t)sums->count * sizeof *sums->number);
	else memset(sums->element, 0, (size_t)sums->count * sizeof *sums->element);
}

/* sums[first + i] += x[at] * row[from + i * step], `count` times. */
static void add_products(struct sums *sums, int64_t first, int64_t count, const lc_cells *cells,
                         int64_t at, const lc_cells *row, int64_t from, int64_t step) {
	if (sums->whole) {
		uint64_t scale = lc_bits(cells->number[at]);
		for (int64_t i = 0; i < count; i++)
			sums->element[first + i] += scale * lc_bits(row->number[from + i * step]);
	} else if (sums->element) {
		uint64_t scale = cells->element[at], *sum = sums->element + first;
		for (int64_t i = 0; i < count; i++)
			sum[i] = lc_field_add(sum[i], lc_field_multiply(scale, row->element[from + i * step]));
	} else if (step == 1) {
		const double *restrict b = row->number + from;
		double *restrict sum = sums->number + first, scale = cells->number[at];
		for (int64_t i = 0; i < count; i++) sum[i] += scale * b[i];
	} else {
		for (int64_t i = 0; i < count; i++)
			sums->number[first + i] += cells->number[at] * row->number[from + i * step];
	}
}

static void sums_store(const struct sums *sums, lc_cells *out, int64_t at) {
	for (int64_t i = 0; i < sums->count; i++) {
		if (out->element) out->element[at + i] = sums->element[i];
		else
			out->number[at + i] =
				sums->whole ? lc_wrap(sums->dtype, sums->element[i]) : sums->number[i];
	}
	if (out->number) lc_round_all(sums->dtype, out->number + at, sums->count);
}

/* ---- matmul ---- */

struct matrix {
	const lc_cells *cells;
	lc_box box;
	int64_t row, column;    /* strides, with transposition taken into account */
	int64_t batch[LC_RANK]; /* step along each batch dim of the result */
};

/* Batch dims align at the last one; those of extent 1 are repeated. */
static void lay_out(struct matrix *matrix, const lc_at *at, bool transposed) {
	int rank = matrix->box.rank, shift = at->box.rank - rank;
	int64_t columns = matrix->box.extent[rank - 1], step = columns * matrix->box.extent[rank - 2];
	matrix->row = transposed ? 1 : columns, matrix->column = transposed ? columns : 1;
	memset(matrix->batch, 0, sizeof matrix->batch);
	for (int d = rank - 2; d-- > 0; step *= matrix->box.extent[d])
		matrix->batch[d + shift] =
			matrix->box.extent[d] == 1 && at->box.extent[d + shift] != 1 ? 0 : step;
}

static void contract_multiply(const lc_at *at, struct sums *sums, const struct matrix *a,
                              int64_t a_at, const struct matrix *b, int64_t b_at, int64_t depth,
                              int64_t out) {
	for (int64_t i = 0; i < at->box.extent[at->box.rank - 2]; i++) {
		sums_clear(sums);
		for (int64_t k = 0; k < depth; k++)
			add_products(sums, 0, sums->count, a->cells, a_at + i * a->row + k * a->column,
			             b->cells, b_at + k * b->row, b->column);
		sums_store(sums, at->out, out + i * sums->count);
	}
}

static void each_batch(const lc_at *at, struct sums *sums, const struct matrix *a,
                       const struct matrix *b, int64_t depth) {
	int dims = at->box.rank - 2;
	int64_t place[LC_RANK] = {0}, size = at->box.extent[dims] * at->box.extent[dims + 1];
	for (int64_t out = 0; out < at->box.count; out += size) {
		int64_t a_at = 0, b_at = 0;
		for (int d = 0; d < dims; d++) {
			a_at += place[d] * a->batch[d];
			b_at += place[d] * b->batch[d];
		}
		contract_multiply(at, sums, a, a_at, b, b_at, depth, out);
		for (int d = dims; --d >= 0 && ++place[d] == at->box.extent[d];) place[d] = 0;
	}
}

lk_status lc_run_matmul(lc_at *at) {
	struct matrix a, b;
	struct sums s;
	LK_TRY(lc_operand(at, 0, &a.cells, &a.box));
	LK_TRY(lc_operand(at, 1, &b.cells, &b.box));
	lay_out(&a, at, at->n->ta);
	lay_out(&b, at, at->n->tb);
	int64_t depth = a.box.extent[a.box.rank - (at->n->ta ? 2 : 1)];
	if (depth != b.box.extent[b.box.rank - (at->n->tb ? 1 : 2)])
		return lk_fail(at->err, LK_ERR_INTERNAL, NULL, "value %d multiplies slices that do not fit",
		               at->id);
	LK_TRY(lc_run_spend(at->run, at->n, (double)at->box.count * (double)depth, at->err));
	LK_TRY(lc_cells_new(at->run, at->box.count, at->out, at->err));
	if (at->box.count == 0) return LK_OK;
	LK_TRY(sums_new(at, at->box.extent[at->box.rank - 1], &s));
	each_batch(at, &s, &a, &b, depth);
	sums_free(&s);
	return LK_OK;
}

/* ---- conv2d ---- */

struct image {
	const lc_cells *cells;
	lc_box box;
};

static int64_t contract_start(const struct image *image, int64_t i, int64_t j, int64_t k) {
	return ((i * image->box.extent[1] + j) * image->box.extent[2] + k) * image->box.extent[3];
}

/* Add one kernel row over one image row: products of kernel column `column` for all columns of the
 * result that see the image. */
static void contract_slide(const lc_at *at, struct sums *sums, const struct image *image,
                           int64_t x_at, const struct image *w, int64_t w_at, int64_t column) {
	int64_t stride = at->n->stride, shift = column - at->n->pad, width = image->box.extent[3];
	int64_t first = shift < 0 ? (-shift + stride - 1) / stride : 0;
	int64_t end = shift >= width ? 0 : (width - 1 - shift) / stride + 1;
	if (end > sums->count) end = sums->count;
	if (first < end)
		add_products(sums, first, end - first, w->cells, w_at + column, image->cells,
		             x_at + first * stride + shift, stride);
}

static void convolve_row(const lc_at *at, struct sums *sums, const struct image *image,
                         const struct image *w, int64_t n, int64_t o, int64_t row) {
	for (int64_t c = 0; c < image->box.extent[1]; c++)
		for (int64_t k = 0; k < w->box.extent[2]; k++) {
			int64_t y = row * at->n->stride + k - at->n->pad;
			if (y < 0 || y >= image->box.extent[2]) continue;
			for (int64_t column = 0; column < w->box.extent[3]; column++)
				contract_slide(at, sums, image, contract_start(image, n, c, y), w,
				               contract_start(w, o, c, k), column);
		}
}

lk_status lc_run_conv(lc_at *at) {
	struct image x, w;
	struct sums s;
	LK_TRY(lc_operand(at, 0, &x.cells, &x.box));
	LK_TRY(lc_operand(at, 1, &w.cells, &w.box));
	if (x.box.extent[1] != w.box.extent[1])
		return lk_fail(at->err, LK_ERR_INTERNAL, NULL, "value %d convolves slices that do not fit",
		               at->id);
	double taps = (double)(w.box.extent[1] * w.box.extent[2]) * (double)w.box.extent[3];
	LK_TRY(lc_run_spend(at->run, at->n, (double)at->box.count * taps, at->err));
	LK_TRY(lc_cells_new(at->run, at->box.count, at->out, at->err));
	if (at->box.count == 0) return LK_OK;
	LK_TRY(sums_new(at, at->box.extent[3], &s));
	for (int64_t out = 0; out < at->box.count; out += s.count) {
		int64_t row = out / s.count, plane = row / at->box.extent[2];
		sums_clear(&s);
		convolve_row(at, &s, &x, &w, plane / at->box.extent[1], plane % at->box.extent[1],
		             row % at->box.extent[2]);
		sums_store(&s, at->out, out);
	}
	sums_free(&s);
	return LK_OK;
}

/* ---- rows of a table ---- */

/* The row that an index denotes, or an error; *row counts in the whole table. */
static lk_status contract_row_of(const lc_at *at, const lc_cells *index, int64_t i, int64_t rows,
                                 int64_t *row) {
	if (index->element) {
		*row = (int64_t)(index->element[i] % (uint64_t)rows);
		return LK_OK;
	}
	double number = index->number[i];
	if (number >= 0 && number < (double)rows) {
		*row = (int64_t)number;
		return LK_OK;
	}
	return lc_run_wrong(at, "index %.0f, and the table has %lld rows", number, (long long)rows);
}

lk_status lc_run_rows(lc_at *at) {
	const lc_cells *table, *index;
	lc_box box, index_box;
	const lc_node *node = &at->run->p->nodes.at[at->n->in[0]];
	int64_t whole[LC_RANK], row = 0;
	LK_TRY(lc_operand(at, 0, &table, &box));
	LK_TRY(lc_operand(at, 1, &index, &index_box));
	LK_TRY(lc_whole_shape(at->run->p, node, at->run->s, node->list < 0 ? 0 : at->item, whole,
	                      at->err));
	LK_TRY(lc_cells_new(at->run, at->box.count, at->out, at->err));
	int64_t columns = box.extent[1];
	for (int64_t i = 0; i < index_box.count; i++) {
		LK_TRY(contract_row_of(at, index, i, whole[0], &row));
		row -= box.begin[0];
		if (row < 0 || row >= box.extent[0])
			continue; /* in another rank's slice: this one's part is 0 */
		size_t bytes = (size_t)columns * sizeof(double);
		if (table->number)
			memcpy(at->out->number + i * columns, table->number + row * columns, bytes);
		else memcpy(at->out->element + i * columns, table->element + row * columns, bytes);
	}
	return LK_OK;
}

/* Add every row to the row of the result given by its index, in the order of the indices. */
lk_status lc_run_add_rows(lc_at *at) {
	const lc_cells *rows, *index;
	lc_box box, index_box;
	struct sums s;
	int64_t columns = at->box.extent[1], row = 0;
	LK_TRY(lc_operand(at, 0, &rows, &box));
	LK_TRY(lc_operand(at, 1, &index, &index_box));
	LK_TRY(lc_cells_new(at->run, at->box.count, at->out, at->err));
	LK_TRY(sums_new(at, at->box.count, &s));
	sums_clear(&s);
	lk_status status = LK_OK;
	for (int64_t i = 0; i < index_box.count && status == LK_OK; i++) {
		status = contract_row_of(at, index, i, at->box.extent[0], &row);
		for (int64_t k = 0; k < columns && status == LK_OK; k++) {
			int64_t to = row * columns + k, from = i * columns + k;
			if (s.number) s.number[to] += rows->number[from];
			else if (s.whole) s.element[to] += lc_bits(rows->number[from]);
			else s.element[to] = lc_field_add(s.element[to], rows->element[from]);
		}
	}
	if (status == LK_OK) sums_store(&s, at->out, 0);
	sums_free(&s);
	return status;
}

/* ---- running sums ---- */

lk_status lc_run_cumsum(lc_at *at) {
	const lc_cells *cells;
	lc_box box;
	struct sums s;
	int64_t inner = 1, along = at->box.extent[at->n->d];
	for (int d = at->n->d + 1; d < at->box.rank; d++) inner *= at->box.extent[d];
	LK_TRY(lc_operand(at, 0, &cells, &box));
	LK_TRY(lc_cells_new(at->run, at->box.count, at->out, at->err));
	LK_TRY(sums_new(at, inner, &s));
	for (int64_t row = 0; row * inner < at->box.count; row++) {
		int64_t k = row % along, from = (at->n->reverse ? row - k + along - 1 - k : row) * inner;
		if (k == 0) sums_clear(&s);
		for (int64_t i = 0; i < inner; i++) {
			if (s.number) s.number[i] += cells->number[from + i];
			else if (s.whole) s.element[i] += lc_bits(cells->number[from + i]);
			else s.element[i] = lc_field_add(s.element[i], cells->element[from + i]);
		}
		sums_store(&s, at->out, from);
	}
	sums_free(&s);
	return LK_OK;
}
