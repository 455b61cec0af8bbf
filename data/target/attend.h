/* ---- attention: which keys a query sees; C and C++, the same for all targets ---- */

/* Query i of S stands at i + T - S of T keys; with `causal` it sees none
 * after its place, with a window those less than `window` away. Places count in whole tensors, so
 * that slices know theirs. */
typedef struct rt_mask {
	bool causal;
	int64_t window;
	double scale; /* 0: 1/sqrt of a head's size */
} rt_mask;

/* Which of the keys that a rank holds a query of its part sees. */
RT_FUNCTION void rt_seen(const rt_part *q, const rt_part *k, rt_mask mask, int64_t row,
                              int64_t *from, int64_t *to) {
	int rows = q->rank - 2;
	int64_t place = q->begin[rows] + row + k->whole[rows] - q->whole[rows], end = k->extent[rows];
	int64_t first = mask.window ? place - mask.window + 1 : 0, last = k->whole[rows];
	if (mask.window && place + mask.window < last) last = place + mask.window;
	if (mask.causal && place + 1 < last) last = place + 1;
	first -= k->begin[rows], last -= k->begin[rows];
	if (first < 0) first = 0;
	*from = first > end ? end : first;
	*to = last > end ? end : last;
	if (*to < *from) *to = *from;
}

/* The matrix of keys for matrix `batch` of queries: several heads of queries share one of keys. */
RT_HOST_FUNCTION int64_t rt_keys_of(const rt_part *q, const rt_part *k, int64_t batch) {
	int64_t at = 0, stride = 1;
	for (int d = q->rank - 3; d >= 0; d--) {
		int64_t place = batch % q->extent[d] + q->begin[d];
		if (d == q->rank - 3) place = place / (q->whole[d] / k->whole[d]);
		batch /= q->extent[d];
		at += (place - k->begin[d]) * stride;
		stride *= k->extent[d];
	}
	return at;
}

RT_HOST_FUNCTION double rt_scale_of(const rt_part *q, rt_mask mask) {
	return mask.scale > 0 ? mask.scale : 1 / sqrt((double)q->extent[q->rank - 1]);
}
