/* ---- attention by blocks of queries, and its gradients ---- */

/* A block of queries has its scores of all keys at a time, at most RT_SCORES of them; products are
 * cuBLASLt's, in the format of the arithmetic. Sums are in a fixed order. */
enum { RT_SCORES = 1 << 24 };

#define RT_REAL_SWITCH(format, function, ...)                      \
	switch (format) {                                              \
	case RT_F64: function<RT_THERE(RT_F64)>(__VA_ARGS__); break;   \
	case RT_F32: function<RT_THERE(RT_F32)>(__VA_ARGS__); break;   \
	case RT_F16: function<RT_THERE(RT_F16)>(__VA_ARGS__); break;   \
	case RT_BF16: function<RT_THERE(RT_BF16)>(__VA_ARGS__); break; \
	default: function<RT_THERE(RT_F8)>(__VA_ARGS__); break;        \
	}

template <int F>
static __global__ void rt_widen_kernel(typename rt_of<F>::in_register *to,
                                       const typename rt_of<F>::in_memory *from, int64_t n) {
	RT_FOR(i, n) to[i] = rt_of<F>::load(from[i]);
}
template <int F>
static __global__ void rt_narrow_kernel(typename rt_of<F>::in_memory *to,
                                        const typename rt_of<F>::in_register *from, int64_t n) {
	RT_FOR(i, n) to[i] = rt_of<F>::store(from[i]);
}
template <class R> static __global__ void rt_more_kernel(R *to, const R *from, int64_t n) {
	RT_FOR(i, n) to[i] += from[i];
}

/* The keys that rows from `row` on of a part of queries see; the number of columns of a row. */
typedef struct rt_block_of {
	rt_part q, k;
	rt_mask mask;
	int64_t row, rows, first, columns;
	double scale;
} rt_block_of;

/* Weights of each row in place of its scores; top: the largest score, sum: of the weights, kept: the
 * factor of what earlier keys gave. */
template <class R>
static __global__ void rt_block_weights_kernel(rt_block_of b, R *score, const R *lse0, R *top,
                                               R *sum, R *kept) {
	for (int64_t i = blockIdx.x; i < b.rows; i += gridDim.x) {
		int64_t from, to;
		R *s = score + i * b.columns, most = lse0 ? lse0[i] : (R)-INFINITY, all = 0;
		rt_seen(&b.q, &b.k, b.mask, b.row + i, &from, &to);
		from -= b.first, to -= b.first;
		for (int64_t j = from + threadIdx.x; j < to; j += blockDim.x) {
			s[j] *= (R)b.scale;
			if (s[j] > most) most = s[j];
		}
		most = rt_over_block(most, RT_MAX);
		for (int64_t j = threadIdx.x; j < b.columns; j += blockDim.x) {
			s[j] = j >= from && j < to ? (R)exp(s[j] - most) : (R)0;
			all += s[j];
		}
		all = rt_over_block(all, RT_SUM);
		if (threadIdx.x > 0) continue;
		kept[i] = lse0 && lse0[i] > (R)-INFINITY ? (R)exp(lse0[i] - most) : (R)0;
		top[i] = most, sum[i] = all + kept[i];
	}
}
template <int F, class R>
static __global__ void rt_block_sums_kernel(typename rt_of<F>::in_memory *y,
                                            const typename rt_of<F>::in_memory *y0, const R *made,
                                            const R *sum, const R *kept, int64_t n, int64_t wide) {
	RT_FOR(i, n) {
		int64_t row = i / wide;
		R all = made[i] + (y0 && kept[row] > 0 ? kept[row] * (R)rt_of<F>::load(y0[i]) : (R)0);
		y[i] = rt_of<F>::store(sum[row] > 0 ? all / sum[row] : (R)0);
	}
}
template <class R>
static __global__ void rt_block_lse_kernel(R *lse, const R *top, const R *sum, int64_t n) {
	RT_FOR(i, n) lse[i] = sum[i] > 0 ? top[i] + (R)log(sum[i]) : (R)-INFINITY;
}
/* p in place of scores, ds in place of dy v^T. */
template <class R>
static __global__ void rt_block_slopes_kernel(rt_block_of b, R *score, R *ds, const R *lse,
                                              const R *delta) {
	RT_FOR(at, b.rows * b.columns) {
		int64_t i = at / b.columns, j = at % b.columns + b.first, from, to;
		rt_seen(&b.q, &b.k, b.mask, b.row + i, &from, &to);
		R p = j >= from && j < to ? (R)exp(score[at] * (R)b.scale - lse[i]) : (R)0;
		score[at] = p;
		ds[at] = p > 0 ? p * (ds[at] - delta[i]) * (R)b.scale : (R)0;
	}
}

template <class R> struct rt_wide { enum { format = sizeof(R) == 8 ? RT_F64 : RT_F32 }; };
template <class R>
static void rt_block_product(rt_run *run, R *to, const R *a, const R *b, int64_t rows,
                             int64_t columns, int64_t depth, bool ta, bool tb) {
	int format = rt_wide<R>::format;
	rt_product_of m = {rows,
	                   columns,
	                   depth,
	                   1,
	                   (char *)a,
	                   (char *)b,
	                   (char *)to,
	                   {ta ? rows : depth, tb ? depth : columns, columns},
	                   {0, 0, 0},
	                   {ta, tb},
	                   format};
	rt_one_product(run, &m);
}

/* A part in the format of the arithmetic; where it is not, in memory that *own is to release. */
template <int F, class R> static R *rt_widened(rt_run *run, const rt_part *p, R **own) {
	*own = NULL;
	if (!p) return NULL;
	if (p->format == (rt_format)rt_wide<R>::format) return (R *)p->data;
	*own = (R *)rt_scratch(run, p->count * (int64_t)sizeof(R));
	RT_RUN(rt_widen_kernel<F>, p->count, *own, (const typename rt_of<F>::in_memory *)p->data,
	       p->count);
	return *own;
}

/* The block of at most `most` rows from row `at` of all rows of queries on. */
static rt_block_of rt_next_block(const rt_part *q, const rt_part *k, rt_mask mask, int64_t at,
                                 int64_t most) {
	int64_t queries = q->extent[q->rank - 2], to, unused;
	rt_block_of b = {*q, *k, mask, at % queries, most, 0, 0, rt_scale_of(q, mask)};
	if (b.rows > queries - b.row) b.rows = queries - b.row;
	rt_seen(q, k, mask, b.row, &b.first, &unused);
	rt_seen(q, k, mask, b.row + b.rows - 1, &unused, &to);
	b.columns = to - b.first;
	return b;
}
static int64_t rt_block_rows(const rt_part *q, const rt_part *k) {
	int64_t keys = k->extent[k->rank - 2] + 1, rows = RT_SCORES / keys + 1;
	return rows < q->extent[q->rank - 2] ? rows : q->extent[q->rank - 2];
}

template <int F>
static void rt_attention_in(rt_run *run, const rt_part *q, const rt_part *k, const rt_part *v,
                            const rt_part *y0, const rt_part *lse0, rt_part *y, rt_part *lse,
                            rt_mask mask) {
	typedef typename rt_of<F>::in_register R;
	typedef typename rt_of<F>::in_memory T;
	int64_t head = q->extent[q->rank - 1], queries = q->count / (head > 0 ? head : 1);
	int64_t keys = k->extent[k->rank - 2], wide = y ? y->extent[y->rank - 1] : 1;
	int64_t most = rt_block_rows(q, k);
	R *own[3], *of_q = rt_widened<F, R>(run, q, &own[0]), *of_k = rt_widened<F, R>(run, k, &own[1]),
			   *of_v = rt_widened<F, R>(run, y ? v : NULL, &own[2]);
	R *score = (R *)rt_scratch(run, most * (keys + wide + 3) * (int64_t)sizeof(R)),
	  *made = score + most * keys, *top = made + most * wide, *sum = top + most, *kept = sum + most;
	for (int64_t at = 0, rows; at < queries; at += rows) {
		rt_block_of b = rt_next_block(q, k, mask, at, most);
		int64_t of = rt_keys_of(q, k, at / q->extent[q->rank - 2]) * keys + b.first;
		rows = b.rows;
		rt_block_product<R>(run, score, of_q + at * head, of_k + of * head, rows, b.columns, head,
		                    false, true);
		LK_LAUNCH_BLOCK(rt_block_weights_kernel<R>, (int)(rows < 4096 ? rows : 4096), RT_THREADS,
		                RT_THREADS * sizeof(double), run->stream, b, score,
		                lse0 ? (const R *)lse0->data + at : NULL, top, sum, kept);
		RT_CUDA(cudaPeekAtLastError());
		if (lse) RT_RUN(rt_block_lse_kernel<R>, rows, (R *)lse->data + at, top, sum, rows);
		if (!y) continue;
		rt_block_product<R>(run, made, score, of_v + of * wide, rows, wide, b.columns, false,
		                    false);
		RT_RUN((rt_block_sums_kernel<F, R>), rows * wide, (T *)y->data + at * wide,
		       y0 ? (const T *)y0->data + at * wide : NULL, made, sum, kept, rows * wide, wide);
	}
	for (int i = 0; i < 3; i++)
		if (own[i]) rt_release(run, own[i]);
	rt_release(run, score);
}
static void rt_attention(rt_run *run, const rt_part *q, const rt_part *k, const rt_part *v,
                         const rt_part *y0, const rt_part *lse0, rt_part *y, rt_part *lse,
                         rt_mask mask) {
	if (q->here) RT_REAL_SWITCH(q->format, rt_attention_in, run, q, k, v, y0, lse0, y, lse, mask)
}

template <int F>
static void rt_gradients_in(rt_run *run, const rt_part *q, const rt_part *k, const rt_part *v,
                            const rt_part *dy, const rt_part *lse, const rt_part *delta,
                            rt_part *to[3], rt_mask mask) {
	typedef typename rt_of<F>::in_register R;
	typedef typename rt_of<F>::in_memory T;
	const rt_part *from[4] = {q, k, v, dy};
	int64_t head = q->extent[q->rank - 1], queries = q->count / (head > 0 ? head : 1);
	int64_t keys = k->extent[k->rank - 2], wide = v->extent[v->rank - 1];
	int64_t most = rt_block_rows(q, k), counts[3] = {q->count, k->count, v->count};
	R *own[4], *of[4], *sums[3];
	for (int i = 0; i < 4; i++) of[i] = rt_widened<F, R>(run, from[i], &own[i]);
	for (int i = 0; i < 3; i++) {
		sums[i] = (R *)rt_scratch(run, counts[i] * (int64_t)sizeof(R));
		RT_CUDA(cudaMemsetAsync(sums[i], 0, (size_t)counts[i] * sizeof(R), run->stream));
	}
	int64_t broad = head > wide ? head : wide;
	R *score = (R *)rt_scratch(run, (2 * most * keys + keys * broad) * (int64_t)sizeof(R)),
	  *ds = score + most * keys, *made = ds + most * keys;
	for (int64_t at = 0, rows; at < queries; at += rows) {
		rt_block_of b = rt_next_block(q, k, mask, at, most);
		int64_t key = rt_keys_of(q, k, at / q->extent[q->rank - 2]) * keys + b.first;
		R *qs = of[0] + at * head, *ks = of[1] + key * head, *vs = of[2] + key * wide,
		  *dys = of[3] + at * wide;
		rows = b.rows;
		rt_block_product<R>(run, score, qs, ks, rows, b.columns, head, false, true);
		rt_block_product<R>(run, ds, dys, vs, rows, b.columns, wide, false, true);
		RT_RUN(rt_block_slopes_kernel<R>, rows * b.columns, b, score, ds,
		       (const R *)lse->data + at, (const R *)delta->data + at);
		if (to[0])
			rt_block_product<R>(run, sums[0] + at * head, ds, ks, rows, head, b.columns, false,
			                    false);
		if (to[1]) {
			rt_block_product<R>(run, made, ds, qs, b.columns, head, rows, true, false);
			RT_RUN(rt_more_kernel<R>, b.columns * head, sums[1] + key * head, made,
			       b.columns * head);
		}
		if (to[2]) {
			rt_block_product<R>(run, made, score, dys, b.columns, wide, rows, true, false);
			RT_RUN(rt_more_kernel<R>, b.columns * wide, sums[2] + key * wide, made,
			       b.columns * wide);
		}
	}
	for (int i = 0; i < 3; i++) {
		if (to[i])
			RT_RUN(rt_narrow_kernel<F>, to[i]->count, (T *)to[i]->data, sums[i], to[i]->count);
		rt_release(run, sums[i]);
	}
	for (int i = 0; i < 4; i++)
		if (own[i]) rt_release(run, own[i]);
	rt_release(run, score);
}
static void rt_attention_gradients(rt_run *run, const rt_part *q, const rt_part *k,
                                   const rt_part *v, const rt_part *dy, const rt_part *lse,
                                   const rt_part *delta, rt_part *dq, rt_part *dk, rt_part *dv,
                                   rt_mask mask) {
	rt_part *to[3] = {dq, dk, dv};
	if (q->here) RT_REAL_SWITCH(q->format, rt_gradients_in, run, q, k, v, dy, lse, delta, to, mask)
}
