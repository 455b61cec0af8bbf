/* ---- blocks: lines sorted, matrices factored, in double; the same for all targets ---- */

/* Ascending, or descending; of equal numbers the first, what is no number last. key and place have
 * room for 2 n, the second half for merging. */
RT_FUNCTION bool rt_precedes(double a, double b, bool down) {
	if (isnan(a) || isnan(b)) return !isnan(a) || isnan(b);
	return down ? a >= b : a <= b;
}
RT_FUNCTION void rt_sort_line(double *key, int64_t *place, int64_t n, bool down) {
	for (int64_t wide = 1; wide < n; wide *= 2) {
		for (int64_t at = 0; at < n; at += 2 * wide) {
			int64_t i = at, end = at + wide < n ? at + wide : n, j = end,
					last = end + wide < n ? end + wide : n;
			for (int64_t to = at; to < last; to++) {
				bool first = i < end && (j >= last || rt_precedes(key[i], key[j], down));
				int64_t from = first ? i++ : j++;
				key[n + to] = key[from], place[n + to] = place[from];
			}
		}
		for (int64_t i = 0; i < n; i++) key[i] = key[n + i], place[i] = place[n + i];
	}
}

/* a = l l^T, in place. */
RT_FUNCTION void rt_cholesky_of(double *a, int64_t n) {
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < n; j++) {
			double sum = a[i * n + j];
			for (int64_t k = 0; j <= i && k < j; k++) sum -= a[i * n + k] * a[j * n + k];
			a[i * n + j] = j > i ? 0 : i == j ? sqrt(sum) : sum / a[j * n + j];
		}
}

/* a = q r, q in place: Gram and Schmidt, twice; a column that depends on those before becomes 0. */
RT_FUNCTION void rt_qr_of(double *a, int64_t m, int64_t n, double *r) {
	for (int64_t i = 0; i < n * n; i++) r[i] = 0;
	for (int64_t j = 0; j < n; j++) {
		double before = 0, after = 0;
		for (int64_t i = 0; i < m; i++) before += a[i * n + j] * a[i * n + j];
		for (int pass = 0; pass < 2; pass++)
			for (int64_t k = 0; k < j; k++) {
				double dot = 0;
				for (int64_t i = 0; i < m; i++) dot += a[i * n + k] * a[i * n + j];
				for (int64_t i = 0; i < m; i++) a[i * n + j] -= dot * a[i * n + k];
				r[k * n + j] += dot;
			}
		for (int64_t i = 0; i < m; i++) after += a[i * n + j] * a[i * n + j];
		double length = after > before * 0x1p-90 ? sqrt(after) : 0;
		r[j * n + j] = length;
		for (int64_t i = 0; i < m; i++) a[i * n + j] = length > 0 ? a[i * n + j] / length : 0;
	}
}

/* Turns rows or columns p and q of a matrix by an angle; `along`: how far elements lie apart. */
RT_FUNCTION void rt_turn(double *x, double *y, int64_t n, int64_t along, double c, double s) {
	for (int64_t i = 0; i < n; i++) {
		double a = x[i * along], b = y[i * along];
		x[i * along] = c * a - s * b, y[i * along] = s * a + c * b;
	}
}

/* Values ascending and vectors, the columns of v, of the symmetric part of a, which is lost: by
 * Jacobi's cyclic rotations. The first component of the largest size is positive. */
RT_FUNCTION void rt_eigh_of(double *a, int64_t n, double *v, double *value) {
	for (int64_t i = 0; i < n * n; i++) v[i] = i % (n + 1) == 0;
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < i; j++)
			a[i * n + j] = a[j * n + i] = (a[i * n + j] + a[j * n + i]) / 2;
	for (int sweep = 0; sweep < 60; sweep++) {
		double off = 0, all = 0;
		for (int64_t i = 0; i < n * n; i++)
			if (i % (n + 1)) off += a[i] * a[i];
			else all += a[i] * a[i];
		if (!(off > all * 0x1p-106)) break;
		for (int64_t p = 0; p < n; p++)
			for (int64_t q = p + 1; q < n; q++) {
				double x = a[p * n + q];
				if (x == 0) continue;
				double t = (a[q * n + q] - a[p * n + p]) / (2 * x);
				t = (t < 0 ? -1 : 1) / (fabs(t) + sqrt(1 + t * t));
				double c = 1 / sqrt(1 + t * t);
				rt_turn(a + p, a + q, n, n, c, t * c);
				rt_turn(a + p * n, a + q * n, n, 1, c, t * c);
				rt_turn(v + p, v + q, n, n, c, t * c);
			}
	}
	for (int64_t i = 0; i < n; i++) value[i] = a[i * n + i];
	for (int64_t k = 0; k < n; k++) {
		int64_t least = k, most = 0;
		for (int64_t i = k + 1; i < n; i++)
			if (value[i] < value[least]) least = i;
		double kept = value[k];
		value[k] = value[least], value[least] = kept;
		if (least != k) rt_turn(v + k, v + least, n, n, 0, 1);
		for (int64_t i = 1; i < n; i++)
			if (fabs(v[i * n + k]) > fabs(v[most * n + k])) most = i;
		for (int64_t i = 0; v[most * n + k] < 0 && i <= n; i++)
			if (i < n && i != most) v[i * n + k] = -v[i * n + k];
			else if (i == n) v[most * n + k] = -v[most * n + k];
	}
}

typedef enum rt_block_kind {
	RT_SORT,
	RT_ARGSORT,
	RT_CHOLESKY,
	RT_QR_Q,
	RT_QR_R,
	RT_EIGH_VALUES,
	RT_EIGH_VECTORS
} rt_block_kind;

/* Blocks of x, lines along dim d or matrices, and what they become. */
typedef struct rt_block_batch {
	rt_block_kind kind;
	bool down;
	int64_t count, rows, columns, step, made;
} rt_block_batch;

RT_HOST_FUNCTION rt_block_batch rt_block_batch_of(const rt_part *x, rt_block_kind kind, int d,
                                                  bool down) {
	bool line = kind <= RT_ARGSORT;
	rt_block_batch b = {kind, down, 0, x->extent[line ? d : x->rank - 2], 1, 1, 0};
	if (!line) b.columns = x->extent[x->rank - 1];
	else b.step = rt_product(x, d + 1, x->rank);
	int64_t size = b.rows * b.columns;
	b.count = size > 0 ? x->count / size : 0;
	b.made = kind == RT_QR_R ? b.columns * b.columns : kind == RT_EIGH_VALUES ? b.rows : size;
	return b;
}

/* Numbers of 8 bytes that one block needs. */
RT_FUNCTION int64_t rt_block_room(const rt_block_batch *b) {
	if (b->kind <= RT_ARGSORT) return 4 * b->rows;
	return b->rows * b->columns + b->columns * b->columns + b->columns;
}
RT_FUNCTION int64_t rt_block_begin(const rt_block_batch *b, int64_t i) {
	return b->step == 1 ? i * b->rows * b->columns : i / b->step * b->step * b->rows + i % b->step;
}
/* From the elements at the begin of the room; returns where those of the result are. A line's
 * places are behind its keys. */
RT_FUNCTION const double *rt_block_make(const rt_block_batch *b, double *room) {
	double *r = room + b->rows * b->columns, *value = r + b->columns * b->columns;
	if (b->kind <= RT_ARGSORT) {
		int64_t *place = (int64_t *)(void *)(room + 2 * b->rows);
		for (int64_t i = 0; i < b->rows; i++) place[i] = i;
		rt_sort_line(room, place, b->rows, b->down);
		for (int64_t i = 0; b->kind == RT_ARGSORT && i < b->rows; i++) room[i] = (double)place[i];
		return room;
	}
	if (b->kind == RT_CHOLESKY) rt_cholesky_of(room, b->columns);
	else if (b->kind == RT_QR_Q || b->kind == RT_QR_R) rt_qr_of(room, b->rows, b->columns, r);
	else rt_eigh_of(room, b->columns, r, value);
	return b->kind <= RT_QR_Q ? room : b->kind == RT_EIGH_VALUES ? value : r;
}
