/* run_block.c: lines sorted and matrices factored on a rank's part, block by block, and the bounds
 * of their errors. Numbers are doubles throughout; the result is rounded.
 *
 * In the field a block's result is a keyed hash of all its elements and of the place: the
 * operations are unknown functions of a block.
 *
 * Bounds, with E the matrix of the operand's bounds and |.| the Frobenius norm: an order statistic
 * moves no further than the elements do; an eigenvalue by |E| (Weyl), its vector by 2 |E| over the
 * distance to the next one (Davis and Kahan); factors by a multiple of their condition (J. Sun,
 * "Perturbation bounds for the Cholesky and QR factorizations", BIT 31, 1991). A vector whose
 * largest components are as close as their bounds may come with the other sign. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "lang/run/run_bound.h"

/* A block of the operand: elements `step` apart in lines, rows one after the other in matrices. */
struct block {
	int64_t begin, step, rows, columns; /* a line: one column */
	int64_t to;                         /* the first element of its result */
};

struct blocks {
	const lc_at *at;
	const lc_cells *x;
	lc_box box;
	int64_t count, rows, columns, made; /* made: elements of a block's result */
};

static bool is_line(const lc_node *node) {
	return node->op == LC_SORT || node->op == LC_ARGSORT;
}

static lk_status blocks_open(const lc_at *at, struct blocks *blocks) {
	*blocks = (struct blocks){.at = at};
	LK_TRY(lc_operand(at, 0, &blocks->x, &blocks->box));
	int rank = blocks->box.rank;
	blocks->rows = blocks->box.extent[is_line(at->n) ? at->n->d : rank - 2];
	blocks->columns = is_line(at->n) ? 1 : blocks->box.extent[rank - 1];
	int64_t size = blocks->rows * blocks->columns;
	blocks->count = size ? blocks->box.count / size : 0;
	blocks->made = size;
	if (at->n->op == LC_QR_R) blocks->made = blocks->columns * blocks->columns;
	if (at->n->op == LC_EIGH_VALUES) blocks->made = blocks->rows;
	return LK_OK;
}

static struct block block_at(const struct blocks *blocks, int64_t i) {
	struct block block = {.step = 1, .rows = blocks->rows, .columns = blocks->columns};
	block.begin = i * blocks->rows * blocks->columns;
	block.to = i * blocks->made;
	if (!is_line(blocks->at->n)) return block;
	for (int d = blocks->at->n->d + 1; d < blocks->box.rank; d++)
		block.step *= blocks->box.extent[d];
	block.begin = i / block.step * block.step * block.rows + i % block.step;
	block.to = block.begin;
	return block;
}

/* ---- lines ---- */

struct ranked {
	double key;
	int64_t place;
	bool down;
};

/* Numbers before those that are none; of equal ones the first. */
static int compare_ranked(const void *left, const void *right) {
	const struct ranked *a = left, *b = right;
	bool none = isnan(a->key), other = isnan(b->key);
	if (none != other) return none ? 1 : -1;
	if (!none && a->key != b->key) return (a->key < b->key) != a->down ? -1 : 1;
	return a->place < b->place ? -1 : a->place > b->place;
}

static lk_status sort_line(const struct blocks *blocks, const struct block *block,
                           const double *shift, double by, double *key, int64_t *place) {
	struct ranked *line = malloc((size_t)block->rows * sizeof *line + 1);
	if (!line) return lk_oom(blocks->at->err);
	for (int64_t i = 0; i < block->rows; i++) {
		int64_t at = block->begin + i * block->step;
		line[i] = (struct ranked){blocks->x->number[at] + (shift ? by * shift[at] : 0), i,
		                          blocks->at->n->reverse};
	}
	lk_sort(line, (size_t)block->rows, sizeof *line, compare_ranked);
	for (int64_t i = 0; i < block->rows; i++) {
		if (key) key[i] = line[i].key;
		if (place) place[i] = line[i].place;
	}
	free(line);
	return LK_OK;
}

/* ---- matrices, in place; rows of n or of `columns` ---- */

static void cholesky_of(double *a, int64_t n) {
	for (int64_t j = 0; j < n; j++)
		for (int64_t i = 0; i < n; i++) {
			double sum = a[i * n + j];
			for (int64_t k = 0; k < j && i >= j; k++) sum -= a[i * n + k] * a[j * n + k];
			if (i < j) a[i * n + j] = 0;
			else a[i * n + j] = i == j ? sqrt(sum) : sum / a[j * n + j];
		}
}

/* Gram-Schmidt twice: q in place of a, r >= 0 on its diagonal. A column that depends on those
 * before it becomes 0. */
static void qr_of(double *a, int64_t m, int64_t n, double *r) {
	memset(r, 0, (size_t)(n * n) * sizeof *r);
	for (int64_t j = 0; j < n; j++) {
		double before = 0, norm = 0;
		for (int64_t i = 0; i < m; i++) before += a[i * n + j] * a[i * n + j];
		for (int pass = 0; pass < 2; pass++)
			for (int64_t k = 0; k < j; k++) {
				double dot = 0;
				for (int64_t i = 0; i < m; i++) dot += a[i * n + k] * a[i * n + j];
				for (int64_t i = 0; i < m; i++) a[i * n + j] -= dot * a[i * n + k];
				r[k * n + j] += dot;
			}
		for (int64_t i = 0; i < m; i++) norm += a[i * n + j] * a[i * n + j];
		bool depends = !(norm > before * 0x1p-90);
		r[j * n + j] = depends ? 0 : sqrt(norm);
		for (int64_t i = 0; i < m; i++) a[i * n + j] = depends ? 0 : a[i * n + j] / r[j * n + j];
	}
}

enum { SWEEPS = 60 };

/* Jacobi's cyclic rotations of the symmetric part; a's diagonal becomes the values, v's columns
 * the vectors. */
static void rotate_all(double *a, double *v, int64_t n) {
	for (int64_t i = 0; i < n * n; i++) v[i] = i % (n + 1) == 0;
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < i; j++)
			a[i * n + j] = a[j * n + i] = (a[i * n + j] + a[j * n + i]) / 2;
	for (int sweep = 0; sweep < SWEEPS; sweep++) {
		double off = 0, all = 0;
		for (int64_t i = 0; i < n * n; i++) *(i % (n + 1) ? &off : &all) += a[i] * a[i];
		if (!(off > all * 0x1p-106)) return;
		for (int64_t p = 0; p < n; p++)
			for (int64_t q = p + 1; q < n; q++) {
				double x = a[p * n + q];
				if (x == 0) continue;
				double t = (a[q * n + q] - a[p * n + p]) / (2 * x);
				t = copysign(1, t) / (fabs(t) + sqrt(1 + t * t));
				double c = 1 / sqrt(1 + t * t), s = t * c;
				for (int64_t i = 0; i < n; i++) {
					double y = a[i * n + p], z = a[i * n + q];
					a[i * n + p] = c * y - s * z, a[i * n + q] = s * y + c * z;
				}
				for (int64_t i = 0; i < n; i++) {
					double y = a[p * n + i], z = a[q * n + i], of_p = v[i * n + p],
						   of_q = v[i * n + q];
					a[p * n + i] = c * y - s * z, a[q * n + i] = s * y + c * z;
					v[i * n + p] = c * of_p - s * of_q, v[i * n + q] = s * of_p + c * of_q;
				}
			}
	}
}

/* Values ascending, vectors in the columns of v: the first component of the largest size is
 * positive. */
static void eigh_of(double *a, int64_t n, double *v, double *values) {
	rotate_all(a, v, n);
	for (int64_t i = 0; i < n; i++) values[i] = a[i * n + i];
	for (int64_t k = 0; k < n; k++) {
		int64_t least = k, most = 0;
		for (int64_t i = k + 1; i < n; i++)
			if (values[i] < values[least]) least = i;
		double value = values[k];
		values[k] = values[least], values[least] = value;
		for (int64_t i = 0; i < n; i++) {
			double x = v[i * n + k];
			v[i * n + k] = v[i * n + least], v[i * n + least] = x;
		}
		for (int64_t i = 1; i < n; i++)
			if (fabs(v[i * n + k]) > fabs(v[most * n + k])) most = i;
		for (int64_t i = 0; v[most * n + k] < 0 && i < n; i++)
			if (i != most) v[i * n + k] = -v[i * n + k];
		v[most * n + k] = fabs(v[most * n + k]);
	}
}

/* ---- blocks ---- */

/* Rooms for a block: its elements, and what its factors need. */
struct rooms {
	double *a, *r, *values;
};

static lk_status rooms_open(const struct blocks *blocks, struct rooms *rooms) {
	int64_t n = is_line(blocks->at->n) ? 0 : blocks->columns;
	rooms->a = malloc((size_t)(blocks->rows * blocks->columns + n * n + n + 1) * sizeof(double));
	if (!rooms->a) return lk_oom(blocks->at->err);
	rooms->r = rooms->a + blocks->rows * blocks->columns;
	rooms->values = rooms->r + n * n;
	return LK_OK;
}

/* Factor a block; the result is one of the rooms. */
static const double *factored(const struct blocks *blocks, const struct block *block,
                              struct rooms *rooms) {
	int64_t m = block->rows, n = block->columns;
	memcpy(rooms->a, blocks->x->number + block->begin, (size_t)(m * n) * sizeof *rooms->a);
	switch (blocks->at->n->op) {
	case LC_CHOLESKY: cholesky_of(rooms->a, n); return rooms->a;
	case LC_QR_Q: qr_of(rooms->a, m, n, rooms->r); return rooms->a;
	case LC_QR_R: qr_of(rooms->a, m, n, rooms->r); return rooms->r;
	default: eigh_of(rooms->a, n, rooms->r, rooms->values);
	}
	return blocks->at->n->op == LC_EIGH_VALUES ? rooms->values : rooms->r;
}

static lk_status number_block(const struct blocks *blocks, const struct block *block,
                              struct rooms *rooms) {
	double *out = blocks->at->out->number;
	if (!is_line(blocks->at->n)) {
		memcpy(out + block->to, factored(blocks, block, rooms), (size_t)blocks->made * sizeof *out);
		return LK_OK;
	}
	int64_t *place = malloc((size_t)block->rows * sizeof *place + 1);
	if (!place) return lk_oom(blocks->at->err);
	lk_status status = sort_line(blocks, block, NULL, 0, rooms->a, place);
	for (int64_t i = 0; i < block->rows && status == LK_OK; i++)
		out[block->to + i * block->step] =
			blocks->at->n->op == LC_SORT ? rooms->a[i] : (double)place[i];
	free(place);
	return status;
}

static void element_block(const struct blocks *blocks, const struct block *block) {
	const lc_node *node = blocks->at->n;
	uint64_t key = lc_hash_word(blocks->at->run->o.key, (uint64_t)node->op << 1 | node->reverse);
	for (int64_t i = 0; i < block->rows * block->columns; i++)
		key = lc_hash_word(key, blocks->x->element[block->begin + i * block->step]);
	for (int64_t i = 0; i < blocks->made; i++)
		blocks->at->out->element[block->to + i * block->step] = lc_hash_field(key, (uint64_t)i);
}

lk_status lc_run_block(lc_at *at) {
	struct blocks blocks;
	struct rooms rooms;
	LK_TRY(blocks_open(at, &blocks));
	double depth = is_line(at->n) ? 1 : (double)blocks.columns;
	LK_TRY(lc_run_spend(at->run, at->n, (double)blocks.box.count * depth, at->err));
	LK_TRY(lc_cells_new(at->run, at->box.count, at->out, at->err));
	LK_TRY(rooms_open(&blocks, &rooms));
	lk_status status = LK_OK;
	for (int64_t i = 0; i < blocks.count && status == LK_OK; i++) {
		struct block block = block_at(&blocks, i);
		if (lc_in_field(at->run)) element_block(&blocks, &block);
		else status = number_block(&blocks, &block, &rooms);
	}
	free(rooms.a);
	if (status == LK_OK && at->out->number)
		lc_round_all((lc_dtype)at->n->dtype, at->out->number, at->out->count);
	return status;
}

/* ---- bounds ---- */

static double frobenius(const double *x, int64_t count) {
	double sum = 0;
	for (int64_t i = 0; i < count; i++) sum += x[i] * x[i];
	return sqrt(sum);
}

/* |T| |T^-1| of a triangular matrix; `lower`, or upper. */
static double condition(const double *t, int64_t n, bool lower) {
	double all = 0;
	for (int64_t c = 0; c < n; c++) {
		double *x = malloc((size_t)n * sizeof *x + 1);
		if (!x) return INFINITY;
		for (int64_t k = 0; k < n; k++) {
			int64_t i = lower ? k : n - 1 - k;
			double sum = i == c;
			for (int64_t l = 0; l < k; l++) {
				int64_t j = lower ? l : n - 1 - l;
				sum -= t[i * n + j] * x[j];
			}
			x[i] = sum / t[i * n + i];
		}
		double norm = frobenius(x, n);
		all += norm * norm;
		free(x);
	}
	double product = frobenius(t, n * n) * sqrt(all);
	return isnan(product) ? INFINITY : product;
}

/* Of vector k: by how far its components may be wrong. */
static double vector_bound(const struct rooms *rooms, int64_t n, int64_t k, double far) {
	double gap = INFINITY, most = 0, second = 0;
	for (int64_t i = 0; i < n; i++) {
		if (i != k) gap = fmin(gap, fabs(rooms->values[i] - rooms->values[k]));
		double size = fabs(rooms->r[i * n + k]);
		if (size > most) second = most, most = size;
		else if (size > second) second = size;
	}
	if (n == 1) return 0;
	double bound = gap > 2 * far ? 2 * far / gap : INFINITY;
	return most - second <= 2 * bound ? INFINITY : bound;
}

static void matrix_bounds(const struct blocks *blocks, const struct block *block, const lc_cells *e,
                          struct rooms *rooms, double *out) {
	int64_t m = block->rows, n = block->columns;
	const double *made = factored(blocks, block, rooms), *x = blocks->x->number + block->begin;
	double size = frobenius(x, m * n), roundings = (double)(m + n) * 8 * 0x1p-52 * size,
		   far = frobenius(e->number + block->begin, m * n) + roundings;
	int op = blocks->at->n->op;
	double bound = far; /* eigenvalues */
	if (op == LC_CHOLESKY || op == LC_QR_Q || op == LC_QR_R) {
		const double *t = op == LC_CHOLESKY ? made : rooms->r;
		double kappa = condition(t, n, op == LC_CHOLESKY);
		if (op == LC_CHOLESKY) kappa *= kappa;
		double wrong = size > 0 ? 2 * kappa * far / size : 0;
		bound = wrong < 0.5 ? wrong * (op == LC_QR_Q ? 1 : frobenius(t, n * n)) : INFINITY;
	}
	for (int64_t i = 0; i < blocks->made; i++)
		out[block->to + i] = op == LC_EIGH_VECTORS ? vector_bound(rooms, n, i % n, far) : bound;
}

/* Sorted: between the sorted x - e and x + e. A place is known if no other element may take it. */
static lk_status line_bounds(const struct blocks *blocks, const struct block *block,
                             const lc_cells *e, double *out) {
	double *sorted = malloc((size_t)(3 * block->rows) * sizeof *sorted + 1);
	int64_t *place = malloc((size_t)block->rows * sizeof *place + 1);
	lk_status status = sorted && place ? LK_OK : lk_oom(blocks->at->err);
	for (int k = -1; k <= 1 && status == LK_OK; k++)
		status = sort_line(blocks, block, e->number, k, sorted + (k + 1) * block->rows,
		                   k ? NULL : place);
	const double *least = sorted, *key = sorted + block->rows, *most = key + block->rows;
	for (int64_t i = 0; i < block->rows && status == LK_OK; i++) {
		double bound = fmax(most[i] - key[i], key[i] - least[i]);
		if (blocks->at->n->op == LC_ARGSORT) {
			bool open = false;
			for (int64_t other = i - 1; other <= i + 1; other += 2) {
				if (other < 0 || other >= block->rows) continue;
				double far = e->number[block->begin + place[i] * block->step] +
				             e->number[block->begin + place[other] * block->step];
				open |= far > 0 && fabs(key[i] - key[other]) <= far;
			}
			bound = open ? INFINITY : 0;
		}
		out[block->to + i * block->step] = isnan(bound) ? INFINITY : bound;
	}
	free(sorted);
	free(place);
	return status;
}

lk_status lc_bound_block(lc_bounds *bounds, lc_at *at) {
	struct blocks blocks;
	struct rooms rooms;
	lc_at values = *at;
	lc_box box;
	const lc_cells *e, *cells = lc_part_of(bounds->run, at->id, at->item, at->rank);
	values.run = (lc_run *)(uintptr_t)bounds->run; /* read only */
	LK_TRY(blocks_open(&values, &blocks));
	LK_TRY(lc_operand(at, 0, &e, &box));
	LK_TRY(rooms_open(&blocks, &rooms));
	lk_status status = LK_OK;
	for (int64_t i = 0; i < blocks.count && status == LK_OK; i++) {
		struct block block = block_at(&blocks, i);
		if (is_line(at->n)) status = line_bounds(&blocks, &block, e, at->out->number);
		else matrix_bounds(&blocks, &block, e, &rooms, at->out->number);
	}
	free(rooms.a);
	for (int64_t i = 0; !is_line(at->n) && i < cells->count && status == LK_OK; i++)
		at->out->number[i] +=
			lc_bound_rounded((lc_dtype)at->n->dtype, cells->number[i], at->out->number[i], 1);
	return status;
}
