/* ---- matmul, conv2d, rows, views ------------------------------------------------------------------------------ */

/* Formats narrower than f32 are multiplied in float, whole numbers in int64_t. -DLOCKSTEP_BLAS multiplies float and double by
 * cblas_sgemm and cblas_dgemm. */
#ifdef LOCKSTEP_BLAS
#include <cblas.h>
#endif

RT_FUNCTION float rt_get_float(rt_format f, const void *data, int64_t i) {
	switch (f) {
	case RT_F16: return rt_from_f16(((const uint16_t *)data)[i]);
	case RT_BF16: return rt_from_bf16(((const uint16_t *)data)[i]);
	case RT_F8: return rt_from_f8(((const uint8_t *)data)[i]);
	default: return ((const float *)data)[i];
	}
}

RT_FUNCTION int64_t rt_get_whole(rt_format f, const void *data, int64_t i) {
	switch (f) {
	case RT_I32: return ((const int32_t *)data)[i];
	case RT_I16: return ((const int16_t *)data)[i];
	case RT_I8: return ((const int8_t *)data)[i];
	case RT_U32: return ((const uint32_t *)data)[i];
	case RT_U16: return ((const uint16_t *)data)[i];
	case RT_U8: case RT_BOOL: return ((const uint8_t *)data)[i];
	default: return ((const int64_t *)data)[i];
	}
}

/* `count` elements from `data` on as floats. */
RT_FUNCTION void rt_get_floats(rt_format f, const void *data, int64_t first, int64_t count, float *restrict out) {
	const uint16_t *half = (const uint16_t *)data + (f == RT_F8 ? 0 : first);
	if (f == RT_F16)
		for (int64_t i = 0; i < count; i++) out[i] = rt_from_f16(half[i]);
	else if (f == RT_BF16)
		for (int64_t i = 0; i < count; i++) out[i] = rt_from_bf16(half[i]);
	else
		for (int64_t i = 0; i < count; i++) out[i] = rt_get_float(f, data, first + i);
}

RT_FUNCTION void rt_put_floats(rt_format f, void *data, int64_t first, int64_t count, const float *restrict from) {
	uint16_t *half = (uint16_t *)data + (f == RT_F8 ? 0 : first);
	if (f == RT_F16)
		for (int64_t i = 0; i < count; i++) half[i] = rt_to_f16(from[i]);
	else if (f == RT_BF16)
		for (int64_t i = 0; i < count; i++) half[i] = rt_to_bf16(from[i]);
	else if (f == RT_F8)
		for (int64_t i = 0; i < count; i++) ((uint8_t *)data)[first + i] = rt_to_f8(from[i]);
	else memcpy((float *)data + first, from, (size_t)count * sizeof *from);
}

RT_FUNCTION void rt_put_whole(rt_format f, void *data, int64_t i, int64_t x) {
	switch (f) {
	case RT_I32: case RT_U32: ((uint32_t *)data)[i] = (uint32_t)x; break;
	case RT_I16: case RT_U16: ((uint16_t *)data)[i] = (uint16_t)x; break;
	case RT_I8: case RT_U8: ((uint8_t *)data)[i] = (uint8_t)x; break;
	default: ((int64_t *)data)[i] = x;
	}
}

/* c[m][n] = a[m][k] b[k][n], row by row, rows so many elements apart. Four rows of c at a time, panels of b that stay in
 * the cache. */
#define RT_GEMM(name, type)                                                                                               \
	RT_FUNCTION void name(int64_t m, int64_t n, int64_t k, const type *restrict a, int64_t a_row, const type *restrict b,     \
						  int64_t b_row, type *restrict c, int64_t c_row) {                                                   \
		enum { DEEP = 128, WIDE = 512 };                                                                                  \
		for (int64_t i = 0; i < m; i++) memset(c + i * c_row, 0, (size_t)n * sizeof *c);                                  \
		for (int64_t p = 0; p < k; p += DEEP)                                                                             \
			for (int64_t q = 0; q < n; q += WIDE) {                                                                       \
				int64_t deep = k - p < DEEP ? k - p : DEEP, wide = n - q < WIDE ? n - q : WIDE, i = 0;                    \
				for (; i + 4 <= m; i += 4)                                                                                \
					for (int64_t l = p; l < p + deep; l++) {                                                              \
						const type *row = b + l * b_row + q, *at = a + i * a_row + l;                                     \
						type *c0 = c + i * c_row + q, *c1 = c0 + c_row, *c2 = c1 + c_row, *c3 = c2 + c_row;               \
						type a0 = at[0], a1 = at[a_row], a2 = at[2 * a_row], a3 = at[3 * a_row];                          \
						for (int64_t j = 0; j < wide; j++) {                                                              \
							c0[j] += a0 * row[j];                                                                         \
							c1[j] += a1 * row[j];                                                                         \
							c2[j] += a2 * row[j];                                                                         \
							c3[j] += a3 * row[j];                                                                         \
						}                                                                                                 \
					}                                                                                                     \
				for (; i < m; i++)                                                                                        \
					for (int64_t l = p; l < p + deep; l++)                                                                \
						for (int64_t j = 0; j < wide; j++) c[i * c_row + q + j] += a[i * a_row + l] * b[l * b_row + q + j]; \
			}                                                                                                             \
	}
RT_GEMM(rt_gemm_float, float)
RT_GEMM(rt_gemm_double, double)
RT_GEMM(rt_gemm_whole, uint64_t)

/* A matrix among the elements of a part: the first element, and how far apart rows lie. `turned`: the rows that lie there
 * are the columns of what is multiplied. */
typedef struct rt_matrix {
	const rt_part *part;
	int64_t at, row;
	bool turned;
} rt_matrix;

RT_FUNCTION rt_matrix rt_matrix_of(const rt_part *p, int64_t at, bool turned) {
	return (rt_matrix){p, at, p->extent[p->rank - 1], turned};
}

/* The same from row `row` and column `column` on. */
RT_FUNCTION rt_matrix rt_from(rt_matrix x, int64_t row, int64_t column) {
	x.at += x.turned ? column * x.row + row : row * x.row + column;
	return x;
}

/* Whether cblas multiplies it, which takes turned matrices as they are. */
RT_FUNCTION bool rt_blas_takes(rt_format f, int64_t m, int64_t n, int64_t k) {
#ifdef LOCKSTEP_BLAS
	return (f == RT_F32 || f == RT_F64) && m <= INT_MAX && n <= INT_MAX && k <= INT_MAX && k > 0;
#else
	(void)f, (void)m, (void)n, (void)k;
	return false;
#endif
}

/* What is multiplied: memory in the format of the arithmetic, which is that of `f`. */
typedef struct rt_operand {
	const void *data;
	int64_t row;
	bool turned;
} rt_operand;

RT_FUNCTION void rt_product_of(rt_format f, int64_t m, int64_t n, int64_t k, rt_operand a, rt_operand b, void *c, int64_t c_row) {
#ifdef LOCKSTEP_BLAS
	if (rt_blas_takes(f, m, n, k)) {
		const CBLAS_TRANSPOSE ta = a.turned ? CblasTrans : CblasNoTrans, tb = b.turned ? CblasTrans : CblasNoTrans;
		if (f == RT_F32)
			cblas_sgemm(CblasRowMajor, ta, tb, (int)m, (int)n, (int)k, 1, a.data, (int)a.row, b.data, (int)b.row, 0, c, (int)c_row);
		else
			cblas_dgemm(CblasRowMajor, ta, tb, (int)m, (int)n, (int)k, 1, a.data, (int)a.row, b.data, (int)b.row, 0, c, (int)c_row);
		return;
	}
#endif
	if (f == RT_F32) rt_gemm_float(m, n, k, a.data, a.row, b.data, b.row, c, c_row);
	else if (f == RT_F64) rt_gemm_double(m, n, k, a.data, a.row, b.data, b.row, c, c_row);
	else rt_gemm_whole(m, n, k, a.data, a.row, b.data, b.row, c, c_row);
}

/* Of what the arithmetic is: floats for narrow formats, int64_t for whole numbers. */
RT_FUNCTION rt_format rt_arithmetic(rt_format f) { return f == RT_F64 ? f : f < RT_I64 ? RT_F32 : f == RT_U64 ? f : RT_I64; }

/* A matrix of rows x columns: where it lies, if it can be multiplied so, else a copy in `room`. */
RT_FUNCTION rt_operand rt_operand_of(rt_matrix x, int64_t rows, int64_t columns, bool turns, void *room) {
	rt_format f = x.part->format;
	const void *data = x.part->data;
	if (f == rt_arithmetic(f) && (turns || !x.turned))
		return (rt_operand){(const char *)data + x.at * rt_bytes[f], x.row, x.turned};
	for (int64_t i = 0; i < rows; i++) {
		int64_t first = x.turned ? x.at + i : x.at + i * x.row, step = x.turned ? x.row : 1, to = i * columns;
		if (f == RT_F64)
			for (int64_t j = 0; j < columns; j++) ((double *)room)[to + j] = ((const double *)data)[first + j * step];
		else if (f >= RT_I64)
			for (int64_t j = 0; j < columns; j++) ((int64_t *)room)[to + j] = rt_get_whole(f, data, first + j * step);
		else if (!x.turned) rt_get_floats(f, data, first, columns, (float *)room + to);
		else
			for (int64_t j = 0; j < columns; j++) ((float *)room)[to + j] = rt_get_float(f, data, first + j * step);
	}
	return (rt_operand){room, columns, false};
}

/* Where matrix `batch` of y's begins in an operand, whose batch dims align with y's at the last one and may be 1. */
RT_FUNCTION int64_t rt_batch(const rt_part *y, const rt_part *x, int64_t batch) {
	int64_t at = 0, stride = rt_product(x, x->rank - 2, x->rank);
	for (int d = y->rank - 3; d >= 0; d--) {
		int e = d + x->rank - y->rank;
		int64_t place = batch % y->extent[d];
		batch /= y->extent[d];
		if (e < 0) continue;
		if (x->extent[e] > 1) at += place * stride;
		stride *= x->extent[e];
	}
	return at;
}

/* One matrix: y = a b, m x k times k x n, y from element y_at on. What is converted goes by blocks of rows, so that it
 * stays in the cache. */
RT_FUNCTION void rt_multiply(rt_run *run, rt_matrix a, rt_matrix b, rt_part *y, int64_t y_at, int64_t m, int64_t n, int64_t k) {
	rt_format f = y->format, sum = rt_arithmetic(f);
	bool turns = rt_blas_takes(sum, m, n, k), straight = f == sum;
	bool there = a.part->format == sum && (turns || !a.turned); /* nothing of the left is converted */
	int64_t block = (there && straight) || m < 64 ? m : 64, y_row = y->extent[y->rank - 1];
	size_t size = (size_t)rt_bytes[sum];
	rt_operand right = rt_operand_of(b, k, n, turns, rt_scratch(run, 0, (size_t)(k * n) * size + 1));
	char *room = rt_scratch(run, 1, (size_t)(block * (k + n)) * size + 1), *product = room + (size_t)(block * k) * size;
	for (int64_t i = 0; i < m; i += block) {
		int64_t rows = m - i < block ? m - i : block, at = y_at + i * y_row;
		rt_operand left = rt_operand_of(rt_from(a, i, 0), rows, k, turns, room);
		if (straight) {
			rt_product_of(sum, rows, n, k, left, right, (char *)y->data + at * rt_bytes[f], y_row);
			continue;
		}
		rt_product_of(sum, rows, n, k, left, right, product, n);
		for (int64_t r = 0; r < rows; r++, at += y_row) {
			if (f < RT_I64) rt_put_floats(f, y->data, at, n, (const float *)(void *)product + r * n);
			else
				for (int64_t j = 0; j < n; j++) rt_put_whole(f, y->data, at + j, ((const int64_t *)(void *)product)[r * n + j]);
		}
	}
}

#ifndef RT_PANEL
#define RT_PANEL 512 /* rows of a product between two looks at the messages under way: with fewer it takes longer */
#endif

RT_FUNCTION void rt_poke(const rt_run *run) {
	if (run->poke) run->poke(run->poked);
}

/* As rt_multiply, with looks at the messages. */
RT_FUNCTION void rt_multiply_poking(rt_run *run, rt_matrix a, rt_matrix b, rt_part *y, int64_t y_at, int64_t m, int64_t n, int64_t k) {
	int64_t panel = run->poke ? RT_PANEL : m;
	for (int64_t i = 0, rows; i < m; i += rows) {
		rows = m - i < panel + panel / 2 ? m - i : panel;
		rt_multiply(run, rt_from(a, i, 0), b, y, y_at + i * y->extent[y->rank - 1], rows, n, k);
		rt_poke(run);
	}
}

/* Of y = a b the elements from .. to - 1 along dim d of y; d -1: all. */
RT_FUNCTION void rt_matmul_range(rt_run *run, const rt_part *a, bool ta, const rt_part *b, bool tb, rt_part *y, int d, int64_t from, int64_t to) {
	if (y->count == 0) return;
	int64_t m = y->extent[y->rank - 2], n = y->extent[y->rank - 1], k = a->extent[a->rank - (ta ? 2 : 1)];
	int64_t batches = rt_product(y, 0, y->rank - 2), row = 0, rows = m, column = 0, columns = n;
	if (d == y->rank - 1) column = from, columns = to - from;
	/* One matrix on the right for all batches: rows of all batches are those of one tall matrix on the left. */
	if (!ta && rt_product(b, 0, b->rank - 2) == 1 && rt_product(a, 0, a->rank - 2) == batches) {
		bool cut = d >= 0 && d < y->rank - 1;
		int64_t inner = cut ? rt_product(y, d + 1, y->rank - 1) : m * batches, outer = cut ? rt_product(y, 0, d) : 1;
		for (int64_t i = 0; i < outer; i++) {
			row = cut ? (i * y->extent[d] + from) * inner : 0, rows = cut ? (to - from) * inner : inner;
			rt_multiply_poking(run, rt_from(rt_matrix_of(a, 0, false), row, 0), rt_from(rt_matrix_of(b, 0, tb), 0, column), y,
							   row * n + column, rows, columns, k);
		}
		return;
	}
	if (d == y->rank - 2) row = from, rows = to - from;
	int64_t below = d >= 0 && d < y->rank - 2 ? rt_product(y, d + 1, y->rank - 2) : 0;
	for (int64_t i = 0; i < batches; i++) {
		if (below && (i / below % y->extent[d] < from || i / below % y->extent[d] >= to)) continue;
		rt_multiply_poking(run, rt_from(rt_matrix_of(a, rt_batch(y, a, i), ta), row, 0), rt_from(rt_matrix_of(b, rt_batch(y, b, i), tb), 0, column),
						   y, (i * m + row) * n + column, rows, columns, k);
	}
}

RT_FUNCTION void rt_matmul(rt_run *run, const rt_part *a, bool ta, const rt_part *b, bool tb, rt_part *y) {
	rt_matmul_range(run, a, ta, b, tb, y, -1, 0, 0);
}

/* The right operand of a product that is made in parts, converted once for all of them: in slot 0 .. RT_READY - 1. */
RT_FUNCTION void rt_make_ready(rt_run *run, int slot, const rt_part *b) {
	rt_part *ready = &run->ready[slot];
	rt_format f = rt_arithmetic(b->format);
	*ready = *b;
	if (b->count == 0 || b->format == f) return;
	int64_t columns = b->extent[b->rank - 1];
	ready->format = f;
	ready->data = rt_scratch(run, RT_SCRATCHES - RT_READY + slot, (size_t)b->count * (size_t)rt_bytes[f]);
	rt_operand_of((rt_matrix){b, 0, columns, false}, b->count / columns, columns, false, ready->data);
}

/* y[n][o] = sum over c of x[n][c] with the kernel w[o][c], by one multiplication per image: the windows of the image are the
 * columns of a matrix. */
RT_FUNCTION void rt_conv2d(rt_run *run, const rt_part *x, const rt_part *w, rt_part *y, int stride, int pad) {
	int64_t kernel = rt_product(w, 1, 4), wide = x->extent[3], high = x->extent[2], places = y->extent[2] * y->extent[3];
	if (y->count == 0) return;
	for (int64_t image = 0; image < y->extent[0]; image++) {
		rt_part columns = {.format = x->format, .rank = 2, .extent = {kernel, places}, .count = kernel * places};
		size_t size = (size_t)rt_bytes[x->format];
		rt_part product = *y; /* an image of it as a matrix */
		product.rank = 2, product.extent[1] = places;
		columns.data = rt_scratch(run, 2, (size_t)columns.count * size + 1);
		for (int64_t r = 0; r < kernel; r++)
			for (int64_t at = 0; at < places; at++) {
				int64_t c = r / (w->extent[2] * w->extent[3]), row = at / y->extent[3] * stride - pad + r / w->extent[3] % w->extent[2];
				int64_t column = at % y->extent[3] * stride - pad + r % w->extent[3];
				char *to = (char *)columns.data + (size_t)(r * places + at) * size;
				bool inside = row >= 0 && row < high && column >= 0 && column < wide;
				if (!inside) memset(to, 0, size);
				else memcpy(to, (char *)x->data + (size_t)(((image * x->extent[1] + c) * high + row) * wide + column) * size, size);
			}
		rt_multiply(run, (rt_matrix){w, 0, kernel, false}, (rt_matrix){&columns, 0, places, false}, &product, image * rt_product(y, 1, 4),
					y->extent[1], places, kernel);
	}
}

/* Rows of the table's part; where another rank has the row, or none, 0. */
RT_FUNCTION void rt_gather_rows(rt_run *run, const rt_part *table, const rt_part *index, rt_part *y) {
	size_t row = (size_t)(table->extent[1] * rt_bytes[table->format]);
	(void)run;
	for (int64_t i = 0; i < index->count && y->here; i++) {
		int64_t at = rt_get_whole(index->format, index->data, i) - table->begin[0];
		if (at >= 0 && at < table->extent[0]) memcpy((char *)y->data + (size_t)i * row, (char *)table->data + (size_t)at * row, row);
		else memset((char *)y->data + (size_t)i * row, 0, row);
	}
}

/* Rows of x added to those of y which the indices name; an index outside of it names none. */
RT_FUNCTION void rt_add_rows(rt_run *run, const rt_part *x, const rt_part *index, rt_part *y) {
	int64_t columns = y->extent[1];
	rt_format f = rt_arithmetic(y->format);
	if (!y->here) return;
	char *sums = rt_scratch(run, 0, (size_t)(y->count * rt_bytes[f]) + 1);
	float *row = rt_scratch(run, 1, (size_t)columns * sizeof *row + 1);
	memset(sums, 0, (size_t)(y->count * rt_bytes[f]));
	for (int64_t i = 0; i < index->count; i++) {
		int64_t at = rt_get_whole(index->format, index->data, i);
		if (at < 0 || at >= y->extent[0]) continue;
		if (f == RT_F32) {
			rt_get_floats(x->format, x->data, i * columns, columns, row);
			for (int64_t k = 0; k < columns; k++) ((float *)sums)[at * columns + k] += row[k];
		} else if (f == RT_F64)
			for (int64_t k = 0; k < columns; k++) ((double *)sums)[at * columns + k] += ((const double *)x->data)[i * columns + k];
		else
			for (int64_t k = 0; k < columns; k++)
				((uint64_t *)sums)[at * columns + k] += (uint64_t)rt_get_whole(x->format, x->data, i * columns + k);
	}
	if (f == RT_F32) rt_put_floats(y->format, y->data, 0, y->count, (const float *)sums);
	else if (f == RT_F64) memcpy(y->data, sums, (size_t)y->count * sizeof(double));
	else
		for (int64_t i = 0; i < y->count; i++) rt_put_whole(y->format, y->data, i, ((const int64_t *)sums)[i]);
}

/* Sums along dim d of all elements up to each, `reverse`: from each on. */
RT_FUNCTION void rt_cumsum(rt_run *run, const rt_part *x, rt_part *y, int d, bool reverse) {
	int64_t along = y->extent[d], inner = rt_product(y, d + 1, y->rank);
	rt_format f = rt_arithmetic(y->format);
	char *sums = rt_scratch(run, 0, (size_t)(inner * 8) + 1);
	float *row = rt_scratch(run, 1, (size_t)inner * sizeof *row + 1);
	for (int64_t k = 0; y->here && k * inner < y->count; k++) {
		int64_t at = (reverse ? k - k % along + along - 1 - k % along : k) * inner;
		if (k % along == 0) memset(sums, 0, (size_t)inner * 8);
		if (f == RT_F32) {
			rt_get_floats(x->format, x->data, at, inner, row);
			for (int64_t i = 0; i < inner; i++) ((float *)sums)[i] += row[i];
			rt_put_floats(y->format, y->data, at, inner, (const float *)sums);
		} else if (f == RT_F64)
			for (int64_t i = 0; i < inner; i++)
				((double *)y->data)[at + i] = ((double *)sums)[i] += ((const double *)x->data)[at + i];
		else
			for (int64_t i = 0; i < inner; i++) {
				((uint64_t *)sums)[i] += (uint64_t)rt_get_whole(x->format, x->data, at + i);
				rt_put_whole(y->format, y->data, at + i, ((const int64_t *)sums)[i]);
			}
	}
}

/* Elements by a route; those that lie together are copied together. */
RT_FUNCTION void rt_go(rt_run *run, const rt_part *x, rt_part *y, rt_route route) {
	size_t size = (size_t)rt_bytes[y->format];
	int last = route.rank - 1;
	int64_t row = last >= 0 ? route.extent[last] : 1, step = last >= 0 ? route.step[last] : 0;
	bool whole = last < 0 || (route.cut != last && step == 1);
	(void)run;
	for (int64_t i = 0; i < y->count; i += row) {
		char *to = (char *)y->data + (size_t)i * size;
		int64_t from = rt_route_at(&route, i);
		if (whole && from >= 0) memcpy(to, (const char *)x->data + (size_t)from * size, (size_t)row * size);
		else if (whole) {
			if (!route.stay) memset(to, 0, (size_t)row * size);
		} else
			for (int64_t k = 0; k < row; k++, to += size) {
				from = rt_route_at(&route, i + k);
				if (from >= 0) memcpy(to, (const char *)x->data + (size_t)from * size, size);
				else if (!route.stay) memset(to, 0, size);
			}
	}
}

/* Each element is its place in the whole tensor. */
RT_FUNCTION void rt_iota(rt_run *run, rt_part *y) {
	(void)run;
	for (int64_t i = 0; i < y->count && y->here; i++) {
		float place = (float)(y->begin[0] + i);
		if (y->format == RT_F64) ((double *)y->data)[i] = (double)(y->begin[0] + i);
		else if (y->format < RT_I64) rt_put_floats(y->format, y->data, i, 1, &place);
		else rt_put_whole(y->format, y->data, i, y->begin[0] + i);
	}
}
