/* ---- matmul, conv2d, rows of a table ------------------------------------------------------------------------------ */

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

/* c[m][n] = a[m][k] b[k][n], all row by row. Four rows of c at a time, panels of b that stay in the cache. */
#define RT_GEMM(name, type)                                                                                               \
	RT_FUNCTION void name(int64_t m, int64_t n, int64_t k, const type *restrict a, const type *restrict b, type *restrict c) { \
		enum { DEEP = 128, WIDE = 512 };                                                                                  \
		memset(c, 0, (size_t)(m * n) * sizeof *c);                                                                        \
		for (int64_t p = 0; p < k; p += DEEP)                                                                             \
			for (int64_t q = 0; q < n; q += WIDE) {                                                                       \
				int64_t deep = k - p < DEEP ? k - p : DEEP, wide = n - q < WIDE ? n - q : WIDE, i = 0;                    \
				for (; i + 4 <= m; i += 4)                                                                                \
					for (int64_t l = p; l < p + deep; l++) {                                                              \
						const type *row = b + l * n + q;                                                                  \
						type *c0 = c + i * n + q, *c1 = c0 + n, *c2 = c1 + n, *c3 = c2 + n;                               \
						type a0 = a[i * k + l], a1 = a[(i + 1) * k + l], a2 = a[(i + 2) * k + l], a3 = a[(i + 3) * k + l]; \
						for (int64_t j = 0; j < wide; j++) {                                                              \
							c0[j] += a0 * row[j];                                                                         \
							c1[j] += a1 * row[j];                                                                         \
							c2[j] += a2 * row[j];                                                                         \
							c3[j] += a3 * row[j];                                                                         \
						}                                                                                                 \
					}                                                                                                     \
				for (; i < m; i++)                                                                                        \
					for (int64_t l = p; l < p + deep; l++)                                                                \
						for (int64_t j = 0; j < wide; j++) c[i * n + q + j] += a[i * k + l] * b[l * n + q + j];           \
			}                                                                                                             \
	}
RT_GEMM(rt_gemm_float, float)
RT_GEMM(rt_gemm_double, double)
RT_GEMM(rt_gemm_whole, uint64_t)

RT_FUNCTION void rt_gemmf(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c) {
#ifdef LOCKSTEP_BLAS
	if (m <= INT_MAX && n <= INT_MAX && k <= INT_MAX && k > 0) {
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1, a, (int)k, b, (int)n, 0, c, (int)n);
		return;
	}
#endif
	rt_gemm_float(m, n, k, a, b, c);
}

RT_FUNCTION void rt_gemm(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c) {
#ifdef LOCKSTEP_BLAS
	if (m <= INT_MAX && n <= INT_MAX && k <= INT_MAX && k > 0) {
		cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1, a, (int)k, b, (int)n, 0, c, (int)n);
		return;
	}
#endif
	rt_gemm_double(m, n, k, a, b, c);
}

/* A matrix of a part, rows x columns as it is multiplied: its own memory if it is stored so, else a copy in `room`. */
RT_FUNCTION const void *rt_matrix(const rt_part *p, int64_t first, int64_t rows, int64_t columns, bool transposed, void *room) {
	rt_format f = p->format;
	if (!transposed && (f == RT_F32 || f == RT_F64 || f == RT_I64 || f == RT_U64)) return (char *)p->data + first * rt_bytes[f];
	if (!transposed && f < RT_I64) {
		rt_get_floats(f, p->data, first, rows * columns, room);
		return room;
	}
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < columns; j++) {
			int64_t at = first + (transposed ? j * rows + i : i * columns + j), to = i * columns + j;
			if (f == RT_F64) ((double *)room)[to] = ((const double *)p->data)[at];
			else if (f < RT_I64) ((float *)room)[to] = rt_get_float(f, p->data, at);
			else ((int64_t *)room)[to] = rt_get_whole(f, p->data, at);
		}
	return room;
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

/* One matrix: y = a b, by blocks of rows, so that what is converted stays in the cache. */
RT_FUNCTION void rt_multiply(rt_run *run, const rt_part *a, int64_t a_at, bool ta, const rt_part *b, int64_t b_at, bool tb, rt_part *y,
							 int64_t y_at, int64_t m, int64_t n, int64_t k) {
	rt_format f = y->format;
	bool direct = a->format == f && (f == RT_F32 || f == RT_F64); /* nothing is converted: one call */
	int64_t block = ta || direct ? m : m < 64 ? m : 64;
	size_t size = f == RT_F64 || f >= RT_I64 ? 8 : 4;
	const char *right = rt_matrix(b, b_at, k, n, tb, rt_scratch(run, 0, (size_t)(k * n) * size + 1));
	char *room = rt_scratch(run, 1, (size_t)(block * (k + n)) * size + 1), *product = room + (size_t)(block * k) * size;
	for (int64_t i = 0; i < m; i += block) {
		int64_t rows = m - i < block ? m - i : block;
		const void *left = rt_matrix(a, a_at + i * k, rows, k, ta, room);
		if (f == RT_F32) rt_gemmf(rows, n, k, left, (const void *)right, (float *)y->data + y_at + i * n);
		else if (f == RT_F64) rt_gemm(rows, n, k, left, (const void *)right, (double *)y->data + y_at + i * n);
		else if (f < RT_I64) {
			rt_gemmf(rows, n, k, left, (const void *)right, (void *)product);
			rt_put_floats(f, y->data, y_at + i * n, rows * n, (void *)product);
		} else {
			rt_gemm_whole(rows, n, k, left, (const void *)right, (void *)product);
			for (int64_t j = 0; j < rows * n; j++) rt_put_whole(f, y->data, y_at + i * n + j, ((const int64_t *)(void *)product)[j]);
		}
	}
}

RT_FUNCTION void rt_matmul(rt_run *run, const rt_part *a, bool ta, const rt_part *b, bool tb, rt_part *y) {
	if (y->count == 0) return;
	int64_t m = y->extent[y->rank - 2], n = y->extent[y->rank - 1], k = a->extent[a->rank - (ta ? 2 : 1)];
	int64_t batches = rt_product(y, 0, y->rank - 2);
	/* One matrix on the right for all batches: one tall matrix on the left. */
	bool tall = !ta && rt_product(b, 0, b->rank - 2) == 1 && rt_product(a, 0, a->rank - 2) == batches;
	if (tall) m *= batches, batches = 1;
	for (int64_t i = 0; i < batches; i++)
		rt_multiply(run, a, tall ? 0 : rt_batch(y, a, i), ta, b, tall ? 0 : rt_batch(y, b, i), tb, y, i * m * n, m, n, k);
}

/* y[n][o] = sum over c of x[n][c] with the kernel w[o][c], by one multiplication per image: the windows of the image are the
 * columns of a matrix. */
RT_FUNCTION void rt_conv2d(rt_run *run, const rt_part *x, const rt_part *w, rt_part *y, int stride, int pad) {
	int64_t kernel = rt_product(w, 1, 4), wide = x->extent[3], high = x->extent[2], places = y->extent[2] * y->extent[3];
	if (y->count == 0) return;
	for (int64_t image = 0; image < y->extent[0]; image++) {
		rt_part columns = {.format = x->format, .rank = 2, .extent = {kernel, places}, .count = kernel * places};
		size_t size = (size_t)rt_bytes[x->format];
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
		rt_multiply(run, w, 0, false, &columns, 0, false, y, image * rt_product(y, 1, 4), y->extent[1], places, kernel);
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
