/* ---- products of matrices: packed, blocked, in tiles of registers ---- */

/* Formats narrower than f32 are multiplied in float, whole numbers in int64_t. -DLOCKSTEP_BLAS
 * multiplies float and double by cblas_sgemm and cblas_dgemm.
 *
 * K. Goto and R. A. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34,
 * 2008: all of b is packed in strips as wide as a tile; a block of rows of a is packed so that it
 * stays in the second cache; a tile of c stays in registers while it goes down a strip, which stays
 * in the first cache. What is narrow, turned or both is converted while it is packed. The order of
 * all additions follows from the shape alone. */
#ifdef LOCKSTEP_BLAS
#include <cblas.h>
#endif

/* of a block: terms, rows, columns */
enum { RT_DEEP = 256, RT_TALL = 120, RT_BROAD = 4096, RT_TILE_BYTES = 12 * 32 * 8 };

/* A tile of c, rows c_row apart: a product of `deep` terms is stored, or added to what is there. */
typedef void rt_tile_function(int64_t deep, const void *a, const void *b, void *c, int64_t c_row,
                              bool add);
typedef struct rt_tiles {
	int rows, columns;
	rt_tile_function *tile;
} rt_tiles;

/* Multiplications and additions are fused where the processor can. */
#if defined(__clang__)
#define RT_FUSE _Pragma("clang fp contract(fast)")
#define RT_FUSED
#elif defined(__GNUC__)
#define RT_FUSE
#define RT_FUSED __attribute__((optimize("fp-contract=fast")))
#else
#define RT_FUSE
#define RT_FUSED
#endif

#define RT_TILE(name, target, type, high, lanes)                                                \
	target RT_FUSED __attribute__((unused)) static void name(                                   \
		int64_t deep, const void *left, const void *right, void *to, int64_t c_row, bool add) { \
		RT_FUSE                                                                                 \
		typedef type vector __attribute__((vector_size(sizeof(type) * (lanes))));               \
		const type *a = left, *b = right;                                                       \
		type *c = to;                                                                           \
		vector sum[high][2], x, y;                                                              \
		memset(sum, 0, sizeof sum);                                                             \
		for (int64_t p = 0; p < deep; p++, a += (high), b += 2 * (lanes)) {                     \
			memcpy(&x, b, sizeof x);                                                            \
			memcpy(&y, b + (lanes), sizeof y);                                                  \
			for (int i = 0; i < (high); i++) {                                                  \
				sum[i][0] += a[i] * x;                                                          \
				sum[i][1] += a[i] * y;                                                          \
			}                                                                                   \
		}                                                                                       \
		for (int i = 0; i < (high); i++, c += c_row) {                                          \
			if (add) {                                                                          \
				memcpy(&x, c, sizeof x);                                                        \
				memcpy(&y, c + (lanes), sizeof y);                                              \
				sum[i][0] += x, sum[i][1] += y;                                                 \
			}                                                                                   \
			memcpy(c, sum[i], sizeof sum[i]);                                                   \
		}                                                                                       \
	}
#if defined(__x86_64__) && defined(__GNUC__)
#define RT_TARGET(name) __attribute__((target(name)))
RT_TILE(rt_tile_float_v4, RT_TARGET("avx512f"), float, 12, 16)
RT_TILE(rt_tile_float_v3, RT_TARGET("avx2,fma"), float, 6, 8)
RT_TILE(rt_tile_double_v4, RT_TARGET("avx512f"), double, 12, 8)
RT_TILE(rt_tile_double_v3, RT_TARGET("avx2,fma"), double, 6, 4)
#endif
RT_TILE(rt_tile_float, , float, 6, 4)
RT_TILE(rt_tile_double, , double, 6, 2)
RT_TILE(rt_tile_whole, , uint64_t, 4, 2)

/* The tiles that this processor does fastest. */
RT_FUNCTION rt_tiles rt_tiles_of(rt_format f) {
#if defined(__x86_64__) && defined(__GNUC__)
	if (f == RT_F32 && __builtin_cpu_supports("avx512f"))
		return (rt_tiles){12, 32, rt_tile_float_v4};
	if (f == RT_F32 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return (rt_tiles){6, 16, rt_tile_float_v3};
	if (f == RT_F64 && __builtin_cpu_supports("avx512f"))
		return (rt_tiles){12, 16, rt_tile_double_v4};
	if (f == RT_F64 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return (rt_tiles){6, 8, rt_tile_double_v3};
#endif
	if (f == RT_F32) return (rt_tiles){6, 8, rt_tile_float};
	if (f == RT_F64) return (rt_tiles){6, 4, rt_tile_double};
	return (rt_tiles){4, 4, rt_tile_whole};
}

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
	case RT_U8:
	case RT_BOOL: return ((const uint8_t *)data)[i];
	default: return ((const int64_t *)data)[i];
	}
}

/* `count` elements from `data` on as floats. */
__attribute__((unused)) RT_LOOPS static void rt_get_floats(rt_format f, const void *data,
                                                           int64_t first, int64_t count,
                                                           float *restrict out) {
	const uint16_t *half = (const uint16_t *)data + (f == RT_F8 ? 0 : first);
	if (f == RT_F16)
		for (int64_t i = 0; i < count; i++) out[i] = rt_from_f16(half[i]);
	else if (f == RT_BF16)
		for (int64_t i = 0; i < count; i++) out[i] = rt_from_bf16(half[i]);
	else
		for (int64_t i = 0; i < count; i++) out[i] = rt_get_float(f, data, first + i);
}

__attribute__((unused)) RT_LOOPS static void rt_put_floats(rt_format f, void *data, int64_t first,
                                                           int64_t count,
                                                           const float *restrict from) {
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
	case RT_I32:
	case RT_U32: ((uint32_t *)data)[i] = (uint32_t)x; break;
	case RT_I16:
	case RT_U16: ((uint16_t *)data)[i] = (uint16_t)x; break;
	case RT_I8:
	case RT_U8: ((uint8_t *)data)[i] = (uint8_t)x; break;
	default: ((int64_t *)data)[i] = x;
	}
}

/* Of what the arithmetic is: floats for narrow formats, int64_t for whole numbers. */
RT_FUNCTION rt_format rt_arithmetic(rt_format f) {
	return f == RT_F64 ? f : f < RT_I64 ? RT_F32 : f == RT_U64 ? f : RT_I64;
}

/* `count` elements from `first` on in the format of the arithmetic: where they are, or converted to
 * `room`. */
RT_FUNCTION const void *rt_fetched(const rt_part *p, int64_t first, int64_t count, void *room) {
	rt_format f = p->format;
	if (f == rt_arithmetic(f)) return (const char *)p->data + first * rt_bytes[f];
	if (f < RT_I64) rt_get_floats(f, p->data, first, count, room);
	else
		for (int64_t i = 0; i < count; i++)
			((int64_t *)room)[i] = rt_get_whole(f, p->data, first + i);
	return room;
}

/* A matrix among the elements of a part: the first element, and how far apart rows lie. `turned`:
 * the rows that lie there are the columns of what is multiplied. */
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

/* Strips of `wide` lines (rows of a, columns of b) and `deep` terms, zeros beyond the last line:
 * term by term, line by line. `along`: the terms of a line are contiguous; else the lines of a
 * term. */
#define RT_PACKER(name, type)                                                                \
	__attribute__((unused)) RT_LOOPS static void name(const rt_matrix *x, bool along,        \
	                                                  int64_t lines, int64_t deep, int wide, \
	                                                  void *to, void *room) {                \
		int64_t strip = deep * wide, over = (wide - lines % wide) % wide;                    \
		type *packed = to;                                                                   \
		if (over)                                                                            \
			for (int64_t p = 0; p < deep; p++)                                               \
				memset(packed + lines / wide * strip + p * wide + wide - over, 0,            \
				       (size_t)over * sizeof *packed);                                       \
		for (int64_t i = 0; along && i < lines; i++) {                                       \
			const type *restrict line = rt_fetched(x->part, x->at + i * x->row, deep, room); \
			type *restrict at = packed + i / wide * strip + i % wide;                        \
			for (int64_t p = 0; p < deep; p++) at[p * wide] = line[p];                       \
		}                                                                                    \
		for (int64_t p = 0; !along && p < deep; p++) {                                       \
			const type *line = rt_fetched(x->part, x->at + p * x->row, lines, room);         \
			type *at = packed + p * wide;                                                    \
			for (int64_t i = 0; i < lines; i += wide, at += strip)                           \
				memcpy(at, line + i,                                                         \
				       (size_t)(lines - i < wide ? lines - i : wide) * sizeof *line);        \
		}                                                                                    \
	}
RT_PACKER(rt_pack_floats, float)
RT_PACKER(rt_pack_doubles, double)
RT_PACKER(rt_pack_wholes, uint64_t)

RT_FUNCTION void rt_pack_strips(const rt_matrix *x, bool along, int64_t lines, int64_t deep,
                                int wide, void *to, void *room) {
	rt_format f = rt_arithmetic(x->part->format);
	(f == RT_F32   ? rt_pack_floats
	 : f == RT_F64 ? rt_pack_doubles
	               : rt_pack_wholes)(x, along, lines, deep, wide, to, room);
}

/* c (+)= a b of packed rows and columns; a tile at the rim is computed aside, and what exists of it
 * copied. */
RT_FUNCTION void rt_tile_block(rt_format f, const rt_tiles *t, int64_t rows, int64_t columns,
                               int64_t deep, const char *a, const char *b, char *c, int64_t c_row,
                               bool add) {
	size_t size = (size_t)rt_bytes[f];
	char aside[RT_TILE_BYTES];
	for (int64_t j = 0; j < columns; j += t->columns)
		for (int64_t i = 0; i < rows; i += t->rows) {
			const char *left = a + (size_t)(i * deep) * size,
					   *right = b + (size_t)(j * deep) * size;
			char *to = c + (size_t)(i * c_row + j) * size;
			int64_t high = rows - i < t->rows ? rows - i : t->rows,
					wide = columns - j < t->columns ? columns - j : t->columns;
			if (high == t->rows && wide == t->columns) {
				t->tile(deep, left, right, to, c_row, add);
				continue;
			}
			for (int64_t r = 0; add && r < high; r++)
				memcpy(aside + (size_t)(r * t->columns) * size, to + (size_t)(r * c_row) * size,
				       (size_t)wide * size);
			t->tile(deep, left, right, aside, t->columns, add);
			for (int64_t r = 0; r < high; r++)
				memcpy(to + (size_t)(r * c_row) * size, aside + (size_t)(r * t->columns) * size,
				       (size_t)wide * size);
		}
}

/* Rows of a product in the format of the arithmetic, rows n apart, put into y. */
RT_FUNCTION void rt_put_rows(rt_part *y, int64_t at, int64_t rows, int64_t n, const char *product) {
	int64_t y_row = y->extent[y->rank - 1];
	for (int64_t r = 0; r < rows; r++, at += y_row) {
		if (y->format < RT_I64)
			rt_put_floats(y->format, y->data, at, n, (const float *)(const void *)product + r * n);
		else
			for (int64_t j = 0; j < n; j++)
				rt_put_whole(y->format, y->data, at + j,
				             ((const int64_t *)(const void *)product)[r * n + j]);
	}
}

/* whole lines of the cache */
RT_FUNCTION size_t rt_cache_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }
RT_FUNCTION int64_t rt_least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Columns of y = a b, at most RT_BROAD of them. */
RT_FUNCTION void rt_multiply_columns(rt_run *run, rt_matrix a, rt_matrix b, rt_part *y,
                                     int64_t y_at, int64_t m, int64_t n, int64_t k) {
	rt_format f = y->format, sum = rt_arithmetic(f);
	rt_tiles t = rt_tiles_of(sum);
	size_t size = (size_t)rt_bytes[sum];
	int64_t y_row = y->extent[y->rank - 1], broad = (n + t.columns - 1) / t.columns * t.columns,
			tall = RT_TALL / t.rows * t.rows;
	bool straight = f == sum;
	size_t left_bytes = rt_cache_lines((size_t)(tall * RT_DEEP) * size),
		   line_bytes = rt_cache_lines((size_t)(n > RT_DEEP ? n : RT_DEEP) * size);
	char *right = rt_scratch(run, 0, (size_t)(broad * k) * size + 64),
		 *left = rt_scratch(
			 run, 1, left_bytes + line_bytes + (straight ? 0 : (size_t)(tall * n) * size) + 64);
	right += (64 - (uintptr_t)right % 64) % 64, left += (64 - (uintptr_t)left % 64) % 64;
	char *line = left + left_bytes, *product = line + line_bytes;
	for (int64_t p = 0, deep; p < k; p += deep) {
		deep = rt_least(k - p, RT_DEEP);
		rt_matrix x = rt_from(b, p, 0);
		rt_pack_strips(&x, b.turned, n, deep, t.columns, right + (size_t)(broad * p) * size, line);
	}
	for (int64_t i = 0, rows; i < m; i += rows) {
		rows = rt_least(m - i, tall);
		char *to = straight ? (char *)y->data + (size_t)(y_at + i * y_row) * size : product;
		for (int64_t p = 0, deep; p < k; p += deep) {
			deep = rt_least(k - p, RT_DEEP);
			rt_matrix x = rt_from(a, i, p);
			rt_pack_strips(&x, !a.turned, rows, deep, t.rows, left, line);
			rt_tile_block(sum, &t, rows, n, deep, left, right + (size_t)(broad * p) * size, to,
			              straight ? y_row : n, p > 0);
		}
		if (!straight) rt_put_rows(y, y_at + i * y_row, rows, n, product);
	}
}

/* Where cblas multiplies, which takes turned matrices as they are: memory in the format of the
 * arithmetic. */
typedef struct rt_operand {
	const void *data;
	int64_t row;
	bool turned;
} rt_operand;

/* A matrix of rows x columns: where it lies, or converted to `room`. */
RT_FUNCTION rt_operand rt_operand_of(rt_matrix x, int64_t rows, int64_t columns, void *room) {
	rt_format f = x.part->format;
	int64_t lines = x.turned ? columns : rows, length = x.turned ? rows : columns;
	if (f == rt_arithmetic(f))
		return (rt_operand){(const char *)x.part->data + x.at * rt_bytes[f], x.row, x.turned};
	for (int64_t i = 0; i < lines; i++)
		rt_fetched(x.part, x.at + i * x.row, length,
		           (char *)room + (size_t)(i * length) * (size_t)rt_bytes[rt_arithmetic(f)]);
	return (rt_operand){room, length, x.turned};
}

#ifdef LOCKSTEP_BLAS
RT_FUNCTION bool rt_blas_takes(rt_format f, int64_t m, int64_t n, int64_t k) {
	return (f == RT_F32 || f == RT_F64) && m <= INT_MAX && n <= INT_MAX && k <= INT_MAX && k > 0;
}

/* What is converted goes by blocks of rows, so that it stays in the cache. */
RT_FUNCTION void rt_multiply_blas(rt_run *run, rt_matrix a, rt_matrix b, rt_part *y, int64_t y_at,
                                  int64_t m, int64_t n, int64_t k) {
	rt_format f = y->format, sum = rt_arithmetic(f);
	bool straight = f == sum;
	int64_t block = (straight && a.part->format == sum) || m < 64 ? m : 64,
			y_row = y->extent[y->rank - 1];
	size_t size = (size_t)rt_bytes[sum];
	rt_operand right = rt_operand_of(b, k, n, rt_scratch(run, 0, (size_t)(k * n) * size + 1));
	char *room = rt_scratch(run, 1, (size_t)(block * (k + n)) * size + 1),
		 *product = room + (size_t)(block * k) * size;
	for (int64_t i = 0; i < m; i += block) {
		int64_t rows = rt_least(m - i, block), at = y_at + i * y_row;
		rt_operand left = rt_operand_of(rt_from(a, i, 0), rows, k, room);
		void *c = straight ? (char *)y->data + at * rt_bytes[f] : product;
		const CBLAS_TRANSPOSE ta = left.turned ? CblasTrans : CblasNoTrans,
							  tb = right.turned ? CblasTrans : CblasNoTrans;
		if (sum == RT_F32)
			cblas_sgemm(CblasRowMajor, ta, tb, (int)rows, (int)n, (int)k, 1, left.data,
			            (int)left.row, right.data, (int)right.row, 0, c,
			            (int)(straight ? y_row : n));
		else
			cblas_dgemm(CblasRowMajor, ta, tb, (int)rows, (int)n, (int)k, 1, left.data,
			            (int)left.row, right.data, (int)right.row, 0, c,
			            (int)(straight ? y_row : n));
		if (!straight) rt_put_rows(y, at, rows, n, product);
	}
}
#endif

/* One matrix: y = a b, m x k times k x n, y from element y_at on. */
RT_FUNCTION void rt_multiply(rt_run *run, rt_matrix a, rt_matrix b, rt_part *y, int64_t y_at,
                             int64_t m, int64_t n, int64_t k) {
#ifdef LOCKSTEP_BLAS
	if (rt_blas_takes(rt_arithmetic(y->format), m, n, k)) {
		rt_multiply_blas(run, a, b, y, y_at, m, n, k);
		return;
	}
#endif
	for (int64_t i = 0; k == 0 && i < m; i++)
		memset((char *)y->data + (y_at + i * y->extent[y->rank - 1]) * rt_bytes[y->format], 0,
		       (size_t)(n * rt_bytes[y->format]));
	for (int64_t j = 0; k > 0 && j < n; j += RT_BROAD)
		rt_multiply_columns(run, a, rt_from(b, 0, j), y, y_at + j, m, rt_least(n - j, RT_BROAD), k);
}
