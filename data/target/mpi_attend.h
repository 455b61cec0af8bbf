/* ---- attention without stored scores, and its gradients ---- */

/* By tiles of queries and keys: a tile of scores is made, used and forgotten (Dao et al.,
 * FlashAttention, 2022). */
enum { RT_QUERIES = 120, RT_KEYS = 256 }; /* of a tile */

/* A row of scores s becomes weights exp(scale s - top), 0 but for from .. to - 1; `top` and `sum`
 * go on from earlier keys. Returns the factor of what these have made. */
#define RT_WEIGHTS(name, type, exponential, highest)                                            \
	__attribute__((unused)) RT_LOOPS static double name(type *s, int64_t n, int64_t from,       \
	                                                    int64_t to, double scale, double *top,  \
	                                                    double *sum) {                          \
		type most = (type)*top, factor = (type)scale, all = 0, before = most;                   \
		for (int64_t j = from; j < to; j++) s[j] *= factor, most = highest(most, s[j]);         \
		for (int64_t j = 0; j < from; j++) s[j] = 0;                                            \
		for (int64_t j = to; j < n; j++) s[j] = 0;                                              \
		for (int64_t j = from; j < to; j++) s[j] = exponential(s[j] - most);                    \
		for (int64_t j = from; j < to; j++) all += s[j];                                        \
		double kept = before == most       ? 1                                                  \
		              : before > -INFINITY ? (double)exponential(before - most)                 \
		                                   : 0;                                                 \
		*top = (double)most, *sum = *sum * kept + (double)all;                                  \
		return kept;                                                                            \
	}                                                                                           \
	/* p = exp(scale s - lse) in s, ds = scale p (dp - delta) in dp */                          \
	__attribute__((unused)) RT_LOOPS static void name##_gradients(                              \
		type *s, type *dp, int64_t n, int64_t from, int64_t to, double scale, type lse,         \
		type delta) {                                                                           \
		type factor = (type)scale;                                                              \
		for (int64_t j = 0; j < from; j++) s[j] = dp[j] = 0;                                    \
		for (int64_t j = to; j < n; j++) s[j] = dp[j] = 0;                                      \
		for (int64_t j = from; j < to; j++) s[j] = exponential(s[j] * factor - lse);            \
		for (int64_t j = from; j < to; j++) dp[j] = s[j] * (dp[j] - delta) * factor;            \
	}                                                                                           \
	/* to = to kept + x */                                                                      \
	__attribute__((unused)) RT_LOOPS static void name##_add(type *to, double kept, const type *x, \
	                                                        int64_t n) {                        \
		type factor = (type)kept;                                                               \
		for (int64_t j = 0; j < n; j++) to[j] = to[j] * factor + x[j];                          \
	}
RT_WEIGHTS(rt_weights_float, float, rt_expf, rt_maxf)
RT_WEIGHTS(rt_weights_double, double, rt_exp, rt_max)

/* Rows `row` .. of matrix `batch` of a part. */
RT_FUNCTION rt_matrix rt_rows_of(const rt_part *p, int64_t batch, int64_t row) {
	int64_t width = p->extent[p->rank - 1];
	return (rt_matrix){p, (batch * p->extent[p->rank - 2] + row) * width, width, false};
}
RT_FUNCTION rt_matrix rt_turned(rt_matrix x) {
	x.turned = !x.turned;
	return x;
}

/* Rooms of one part: matrices in the format of the arithmetic, one after the other. */
RT_FUNCTION rt_part rt_room_of(char **room, rt_format f, int64_t rows, int64_t columns) {
	rt_part p = {.data = *room, .format = f, .rank = 2, .extent = {rows, columns}};
	p.here = true, p.count = rows * columns;
	*room += rt_cache_lines((size_t)(p.count * rt_bytes[f]));
	return p;
}

RT_FUNCTION double rt_get_number(const rt_part *p, int64_t i) {
	return p->format == RT_F64 ? ((const double *)p->data)[i] : ((const float *)p->data)[i];
}
RT_FUNCTION void rt_put_number(rt_part *p, int64_t i, double x) {
	if (p->format == RT_F64) ((double *)p->data)[i] = x;
	else ((float *)p->data)[i] = (float)x;
}

/* Rows of the arithmetic's format to rows of a part, or from them. */
RT_FUNCTION void rt_store_rows(rt_part *to, int64_t at, const rt_part *from, int64_t count) {
	if (to->format == RT_F64)
		memcpy((double *)to->data + at, from->data, (size_t)count * sizeof(double));
	else rt_put_floats(to->format, to->data, at, count, (const float *)from->data);
}
RT_FUNCTION void rt_load_rows(rt_part *to, const rt_part *from, int64_t at, int64_t count) {
	const void *rows = rt_fetched(from, at, count, to->data);
	if (rows != to->data) memcpy(to->data, rows, (size_t)(count * rt_bytes[to->format]));
}
/* Rows of `from` times a factor for each row added to rows of `to`, from `row` on. */
RT_FUNCTION void rt_add_up(rt_part *to, int64_t row, const double *kept, const rt_part *from,
                           int64_t rows) {
	int64_t n = from->extent[1];
	for (int64_t i = 0; i < rows; i++) {
		double factor = kept ? kept[i] : 1;
		if (to->format == RT_F64)
			rt_weights_double_add((double *)to->data + (row + i) * n, factor,
			                      (const double *)from->data + i * n, n);
		else
			rt_weights_float_add((float *)to->data + (row + i) * n, factor,
			                     (const float *)from->data + i * n, n);
	}
}

/* Queries row .. row + rows - 1 of matrix `batch`, all their keys. */
RT_FUNCTION void rt_attend_tile(rt_run *run, const rt_part *q, const rt_part *k, const rt_part *v,
                                int64_t batch, int64_t row, int64_t rows, rt_mask mask,
                                rt_part *score, rt_part *product, rt_part *sum, double *top,
                                double *all) {
	int64_t keys = rt_keys_of(q, k, batch), head = q->extent[q->rank - 1], from, to, last, unused;
	double kept[RT_QUERIES], scale = rt_scale_of(q, mask);
	rt_seen(q, k, mask, row, &from, &unused);
	rt_seen(q, k, mask, row + rows - 1, &unused, &last);
	for (int64_t j = from; j < last; j += RT_KEYS) {
		int64_t n = rt_least(last - j, RT_KEYS);
		rt_multiply(run, rt_rows_of(q, batch, row), rt_turned(rt_rows_of(k, keys, j)), score, 0,
		            rows, n, head);
		for (int64_t i = 0; i < rows; i++) {
			rt_seen(q, k, mask, row + i, &from, &to);
			from = from < j ? 0 : rt_least(from - j, n), to = to < j ? 0 : rt_least(to - j, n);
			if (to < from) to = from;
			kept[i] = 1;
			if (score->format == RT_F64)
				kept[i] = rt_weights_double((double *)score->data + i * RT_KEYS, n, from, to,
				                            scale, &top[i], &all[i]);
			else
				kept[i] = rt_weights_float((float *)score->data + i * RT_KEYS, n, from, to, scale,
				                           &top[i], &all[i]);
		}
		if (v) {
			rt_multiply(run, rt_rows_of(score, 0, 0), rt_rows_of(v, keys, j), product, 0, rows,
			            product->extent[1], n);
			rt_add_up(sum, 0, kept, product, rows);
		}
		rt_poke(run);
	}
}

/* y = sum of p v of the keys that a rank holds, with those before, whose sum is y0 and whose lse is
 * lse0, unless NULL; y or lse may be NULL. */
RT_FUNCTION void rt_attention(rt_run *run, const rt_part *q, const rt_part *k, const rt_part *v,
                              const rt_part *y0, const rt_part *lse0, rt_part *y, rt_part *lse,
                              rt_mask mask) {
	rt_format f = rt_arithmetic(q->format);
	int64_t queries = q->extent[q->rank - 2], wide = y ? y->extent[y->rank - 1] : 1;
	char *room = (char *)rt_scratch(
		run, 3, (size_t)(RT_QUERIES * (RT_KEYS + 2 * wide + 24) * rt_bytes[f]));
	rt_part score = rt_room_of(&room, f, RT_QUERIES, RT_KEYS),
			product = rt_room_of(&room, f, RT_QUERIES, wide),
			sum = rt_room_of(&room, f, RT_QUERIES, wide);
	double top[RT_QUERIES], all[RT_QUERIES], part[RT_QUERIES];
	for (int64_t at = 0, rows; queries && at * q->extent[q->rank - 1] < q->count; at += rows) {
		int64_t batch = at / queries, row = at % queries;
		rows = rt_least(queries - row, RT_QUERIES);
		memset(sum.data, 0, rt_size(&sum));
		if (y && y0) rt_load_rows(&sum, y0, at * wide, rows * wide);
		for (int64_t i = 0; i < rows; i++) {
			top[i] = lse0 ? rt_get_number(lse0, at + i) : -INFINITY;
			all[i] = top[i] > -INFINITY;
		}
		rt_attend_tile(run, q, k, y ? v : NULL, batch, row, rows, mask, &score, &product, &sum, top,
		               all);
		for (int64_t i = 0; i < rows; i++) {
			part[i] = all[i] > 0 ? 1 / all[i] : 0;
			if (lse) rt_put_number(lse, at + i, all[i] > 0 ? top[i] + log(all[i]) : -INFINITY);
		}
		if (!y) continue;
		memset(product.data, 0, rt_size(&product));
		rt_add_up(&sum, 0, part, &product, rows);
		rt_store_rows(y, at * wide, &sum, rows * wide);
	}
}

/* Matrix `keys` of a gradient of keys or values is complete. */
RT_FUNCTION void rt_store_keys(rt_part *to, int64_t keys, rt_part *sum) {
	if (!to) return;
	int64_t count = to->extent[to->rank - 2] * to->extent[to->rank - 1];
	rt_store_rows(to, keys * count, sum, count);
	memset(sum->data, 0, (size_t)(count * rt_bytes[sum->format]));
}

/* The gradients of y for its adjoint dy, with the lse and delta = sum(dy * y) of each query; those
 * that are NULL are not made. Sums of keys are kept while heads of queries share them. */
RT_FUNCTION void rt_attention_gradients(rt_run *run, const rt_part *q, const rt_part *k,
                                        const rt_part *v, const rt_part *dy, const rt_part *lse,
                                        const rt_part *delta, rt_part *dq, rt_part *dk, rt_part *dv,
                                        rt_mask mask) {
	rt_format f = rt_arithmetic(q->format);
	int64_t queries = q->extent[q->rank - 2], head = q->extent[q->rank - 1],
			wide = v->extent[v->rank - 1], keys = k->extent[k->rank - 2], most = keys + RT_KEYS + 8,
			open = -1;
	char *room = (char *)rt_scratch(
		run, 3,
		(size_t)((RT_QUERIES * (2 * RT_KEYS + 2 * head + 32) + 2 * most * (head + wide + 16)) *
	             rt_bytes[f]));
	rt_part p = rt_room_of(&room, f, RT_QUERIES, RT_KEYS),
			ds = rt_room_of(&room, f, RT_QUERIES, RT_KEYS),
			query = rt_room_of(&room, f, RT_QUERIES, head),
			queried = rt_room_of(&room, f, RT_QUERIES, head),
			key = rt_room_of(&room, f, RT_KEYS, head), value = rt_room_of(&room, f, RT_KEYS, wide),
			keyed = rt_room_of(&room, f, keys, head), valued = rt_room_of(&room, f, keys, wide);
	double scale = rt_scale_of(q, mask);
	if (dk) memset(dk->data, 0, rt_size(dk));
	if (dv) memset(dv->data, 0, rt_size(dv));
	memset(keyed.data, 0, rt_size(&keyed));
	memset(valued.data, 0, rt_size(&valued));
	for (int64_t at = 0, rows; queries && at * head < q->count; at += rows) {
		int64_t batch = at / queries, row = at % queries, from, last, unused;
		int64_t of = rt_keys_of(q, k, batch);
		rows = rt_least(queries - row, RT_QUERIES);
		if (open >= 0 && of != open) rt_store_keys(dk, open, &keyed), rt_store_keys(dv, open, &valued);
		open = of;
		rt_seen(q, k, mask, row, &from, &unused);
		rt_seen(q, k, mask, row + rows - 1, &unused, &last);
		memset(queried.data, 0, rt_size(&queried));
		for (int64_t j = from; j < last; j += RT_KEYS) {
			int64_t n = rt_least(last - j, RT_KEYS);
			rt_multiply(run, rt_rows_of(q, batch, row), rt_turned(rt_rows_of(k, of, j)), &p, 0,
			            rows, n, head);
			rt_multiply(run, rt_rows_of(dy, batch, row), rt_turned(rt_rows_of(v, of, j)), &ds, 0,
			            rows, n, wide);
			for (int64_t i = 0; i < rows; i++) {
				int64_t first, end;
				rt_seen(q, k, mask, row + i, &first, &end);
				first = first < j ? 0 : rt_least(first - j, n),
				end = end < j ? 0 : rt_least(end - j, n);
				if (end < first) end = first;
				double l = rt_get_number(lse, at + i), d = rt_get_number(delta, at + i);
				if (f == RT_F64)
					rt_weights_double_gradients((double *)p.data + i * RT_KEYS,
					                            (double *)ds.data + i * RT_KEYS, n, first, end,
					                            scale, l, d);
				else
					rt_weights_float_gradients((float *)p.data + i * RT_KEYS,
					                           (float *)ds.data + i * RT_KEYS, n, first, end,
					                           scale, (float)l, (float)d);
			}
			if (dq) {
				rt_multiply(run, rt_rows_of(&ds, 0, 0), rt_rows_of(k, of, j), &query, 0, rows, head,
				            n);
				rt_add_up(&queried, 0, NULL, &query, rows);
			}
			if (dk) {
				rt_multiply(run, rt_turned(rt_rows_of(&ds, 0, 0)), rt_rows_of(q, batch, row), &key,
				            0, n, head, rows);
				rt_add_up(&keyed, j, NULL, &key, n);
			}
			if (dv) {
				rt_multiply(run, rt_turned(rt_rows_of(&p, 0, 0)), rt_rows_of(dy, batch, row),
				            &value, 0, n, wide, rows);
				rt_add_up(&valued, j, NULL, &value, n);
			}
			rt_poke(run);
		}
		if (dq) rt_store_rows(dq, at * head, &queried, rows * head);
	}
	if (open >= 0) rt_store_keys(dk, open, &keyed), rt_store_keys(dv, open, &valued);
}
