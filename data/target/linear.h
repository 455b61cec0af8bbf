/* ---- matmul, conv2d, rows, views ---- */

/* Where matrix `batch` of y's begins in an operand, whose batch dims align with y's at the last one
 * and may be 1. */
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

#ifndef RT_PANEL
/* rows of a product between two looks at the messages under way: with fewer it takes longer */
#define RT_PANEL 512
#endif

RT_FUNCTION void rt_poke(const rt_run *run) {
	if (run->poke) run->poke(run->poked);
}

/* As rt_multiply, with looks at the messages. */
RT_FUNCTION void rt_multiply_poking(rt_run *run, rt_matrix a, rt_matrix b, rt_part *y, int64_t y_at,
                                    int64_t m, int64_t n, int64_t k) {
	int64_t panel = run->poke ? RT_PANEL : m;
	for (int64_t i = 0, rows; i < m; i += rows) {
		rows = m - i < panel + panel / 2 ? m - i : panel;
		rt_multiply(run, rt_from(a, i, 0), b, y, y_at + i * y->extent[y->rank - 1], rows, n, k);
		rt_poke(run);
	}
}

/* Of y = a b the elements from .. to - 1 along dim d of y; d -1: all. */
RT_FUNCTION void rt_matmul_range(rt_run *run, const rt_part *a, bool ta, const rt_part *b, bool tb,
                                 rt_part *y, int d, int64_t from, int64_t to) {
	if (y->count == 0) return;
	int64_t m = y->extent[y->rank - 2], n = y->extent[y->rank - 1],
			k = a->extent[a->rank - (ta ? 2 : 1)];
	int64_t batches = rt_product(y, 0, y->rank - 2), row = 0, rows = m, column = 0, columns = n;
	if (d == y->rank - 1) column = from, columns = to - from;
	/* One matrix on the right for all batches: rows of all batches are those of one tall matrix on
	 * the left. */
	if (!ta && rt_product(b, 0, b->rank - 2) == 1 && rt_product(a, 0, a->rank - 2) == batches) {
		bool cut = d >= 0 && d < y->rank - 1;
		int64_t inner = cut ? rt_product(y, d + 1, y->rank - 1) : m * batches,
				outer = cut ? rt_product(y, 0, d) : 1;
		for (int64_t i = 0; i < outer; i++) {
			row = cut ? (i * y->extent[d] + from) * inner : 0,
			rows = cut ? (to - from) * inner : inner;
			rt_multiply_poking(run, rt_from(rt_matrix_of(a, 0, false), row, 0),
			                   rt_from(rt_matrix_of(b, 0, tb), 0, column), y, row * n + column,
			                   rows, columns, k);
		}
		return;
	}
	if (d == y->rank - 2) row = from, rows = to - from;
	int64_t below = d >= 0 && d < y->rank - 2 ? rt_product(y, d + 1, y->rank - 2) : 0;
	for (int64_t i = 0; i < batches; i++) {
		if (below && (i / below % y->extent[d] < from || i / below % y->extent[d] >= to)) continue;
		rt_multiply_poking(run, rt_from(rt_matrix_of(a, rt_batch(y, a, i), ta), row, 0),
		                   rt_from(rt_matrix_of(b, rt_batch(y, b, i), tb), 0, column), y,
		                   (i * m + row) * n + column, rows, columns, k);
	}
}

RT_FUNCTION void rt_matmul(rt_run *run, const rt_part *a, bool ta, const rt_part *b, bool tb,
                           rt_part *y) {
	rt_matmul_range(run, a, ta, b, tb, y, -1, 0, 0);
}

/* The right operand of a product that is made in parts, converted once for all of them: in slot 0
 * .. RT_READY - 1. */
RT_FUNCTION void rt_make_ready(rt_run *run, int slot, const rt_part *b) {
	rt_part *ready = &run->ready[slot];
	rt_format f = rt_arithmetic(b->format);
	*ready = *b;
	if (b->count == 0 || b->format == f) return;
	int64_t columns = b->extent[b->rank - 1];
	ready->format = f;
	ready->data =
		rt_scratch(run, RT_SCRATCHES - RT_READY + slot, (size_t)b->count * (size_t)rt_bytes[f]);
	rt_operand_of((rt_matrix){b, 0, columns, false}, b->count / columns, columns, ready->data);
}

/* y[n][o] = sum over c of x[n][c] with the kernel w[o][c], by one multiplication per image: the
 * windows of the image are the columns of a matrix. */
RT_FUNCTION void rt_conv2d(rt_run *run, const rt_part *x, const rt_part *w, rt_part *y, int stride,
                           int pad) {
	int64_t kernel = rt_product(w, 1, 4), wide = x->extent[3], high = x->extent[2],
			places = y->extent[2] * y->extent[3];
	if (y->count == 0) return;
	for (int64_t image = 0; image < y->extent[0]; image++) {
		rt_part columns = {
			.format = x->format, .rank = 2, .extent = {kernel, places}, .count = kernel * places};
		size_t size = (size_t)rt_bytes[x->format];
		rt_part product = *y; /* an image of it as a matrix */
		product.rank = 2, product.extent[1] = places;
		columns.data = rt_scratch(run, 2, (size_t)columns.count * size + 1);
		for (int64_t r = 0; r < kernel; r++)
			for (int64_t at = 0; at < places; at++) {
				int64_t c = r / (w->extent[2] * w->extent[3]),
						row = at / y->extent[3] * stride - pad + r / w->extent[3] % w->extent[2];
				int64_t column = at % y->extent[3] * stride - pad + r % w->extent[3];
				char *to = (char *)columns.data + (size_t)(r * places + at) * size;
				bool inside = row >= 0 && row < high && column >= 0 && column < wide;
				if (!inside) memset(to, 0, size);
				else
					memcpy(to,
					       (char *)x->data +
					           (size_t)(((image * x->extent[1] + c) * high + row) * wide + column) *
					               size,
					       size);
			}
		rt_multiply(run, (rt_matrix){w, 0, kernel, false}, (rt_matrix){&columns, 0, places, false},
		            &product, image * rt_product(y, 1, 4), y->extent[1], places, kernel);
	}
}

/* Rows of the table's part; where another rank has the row, or none, 0. */
RT_FUNCTION void rt_gather_rows(rt_run *run, const rt_part *table, const rt_part *index,
                                rt_part *y) {
	size_t row = (size_t)(table->extent[1] * rt_bytes[table->format]);
	(void)run;
	for (int64_t i = 0; i < index->count && y->here; i++) {
		int64_t at = rt_get_whole(index->format, index->data, i) - table->begin[0];
		if (at >= 0 && at < table->extent[0])
			memcpy((char *)y->data + (size_t)i * row, (char *)table->data + (size_t)at * row, row);
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
			for (int64_t k = 0; k < columns; k++)
				((double *)sums)[at * columns + k] += ((const double *)x->data)[i * columns + k];
		else
			for (int64_t k = 0; k < columns; k++)
				((uint64_t *)sums)[at * columns + k] +=
					(uint64_t)rt_get_whole(x->format, x->data, i * columns + k);
	}
	if (f == RT_F32) rt_put_floats(y->format, y->data, 0, y->count, (const float *)sums);
	else if (f == RT_F64) memcpy(y->data, sums, (size_t)y->count * sizeof(double));
	else
		for (int64_t i = 0; i < y->count; i++)
			rt_put_whole(y->format, y->data, i, ((const int64_t *)sums)[i]);
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
				((double *)y->data)[at + i] = ((double *)sums)[i] +=
					((const double *)x->data)[at + i];
		else
			for (int64_t i = 0; i < inner; i++) {
				((uint64_t *)sums)[i] += (uint64_t)rt_get_whole(x->format, x->data, at + i);
				rt_put_whole(y->format, y->data, at + i, ((const int64_t *)sums)[i]);
			}
	}
}

/* Copies `count` elements that lie `step` apart next to each other. */
RT_FUNCTION void rt_closed_up(void *to, const void *from, int64_t count, int64_t step,
                              size_t size) {
	if (step == 1) memcpy(to, from, (size_t)count * size);
	else if (size == 1)
		for (int64_t k = 0; k < count; k++) ((uint8_t *)to)[k] = ((const uint8_t *)from)[k * step];
	else if (size == 2)
		for (int64_t k = 0; k < count; k++)
			((uint16_t *)to)[k] = ((const uint16_t *)from)[k * step];
	else if (size == 4)
		for (int64_t k = 0; k < count; k++)
			((uint32_t *)to)[k] = ((const uint32_t *)from)[k * step];
	else
		for (int64_t k = 0; k < count; k++)
			((uint64_t *)to)[k] = ((const uint64_t *)from)[k * step];
}

/* Elements by a route, row by row of the result. */
RT_FUNCTION void rt_go(rt_run *run, const rt_part *x, rt_part *y, rt_route route) {
	size_t size = (size_t)rt_bytes[y->format];
	int last = route.rank - 1;
	int64_t row = last >= 0 ? route.extent[last] : 1, step = last >= 0 ? route.step[last] : 1;
	bool cut = last >= 0 && route.cut == last;
	(void)run;
	for (int64_t i = 0; i < y->count; i += row) {
		char *to = (char *)y->data + (size_t)i * size;
		int64_t begin = cut ? route.begin : 0, end = cut ? route.end : row;
		int64_t from = begin < end ? rt_route_at(&route, i + begin) : -1;
		if (from < 0) begin = end = 0;
		if (!route.stay)
			memset(to, 0, (size_t)begin * size),
				memset(to + (size_t)end * size, 0, (size_t)(row - end) * size);
		if (begin < end)
			rt_closed_up(to + (size_t)begin * size, (const char *)x->data + (size_t)from * size,
			             end - begin, step, size);
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
