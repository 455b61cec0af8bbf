/* product.c: our own matrix product, for machines without a BLAS library.
 *
 * K. Goto and R. A. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS
 * 34, 2008: a slab of b, DEPTH rows, is packed once for all threads; each thread packs blocks of a
 * and multiplies tile by tile out of its caches. */
#include <string.h>

#include "calibrate/host/meter.h"

/* BLOCK: most rows of a at a time, a multiple of every tile's. */
enum { DEPTH = 256, BLOCK = 120, TILE = 12 * 32 };

struct product {
	const lk_kernels *kernels;
	long m, n, k, from, depth; /* from, depth: of the slab */
	long block;                /* rows of a that a thread processes at a time */
	const float *a, *b;
	float *c, *slab, *blocks;
};

static long product_pieces(long whole, long part) {
	return (whole + part - 1) / part;
}

static long block_floats(void) {
	return (long)BLOCK * DEPTH;
}

size_t lk_product_room(const lk_kernels *kernels, int threads, long n, long k) {
	long depth = k < DEPTH ? k : DEPTH;
	return (size_t)(product_pieces(n, kernels->columns) * kernels->columns * depth +
	                threads * block_floats());
}

/* Pack one strip of the slab: `columns` columns of b, zeros beyond its last. */
static void pack_strip(const struct product *product, long strip) {
	long width = product->kernels->columns, first = strip * width,
		 there = product->n - first < width ? product->n - first : width;
	float *to = product->slab + strip * width * product->depth;
	for (long row = 0; row < product->depth; row++, to += width) {
		memcpy(to, product->b + (product->from + row) * product->n + first,
		       (size_t)there * sizeof *to);
		memset(to + there, 0, (size_t)(width - there) * sizeof *to);
	}
}

static void pack_slab(void *context, int thread, int threads) {
	const struct product *product = context;
	for (long strip = thread; strip < product_pieces(product->n, product->kernels->columns);
	     strip += threads)
		pack_strip(product, strip);
}

/* Pack `rows` rows of a from `first` on, tile by tile, zeros beyond its last. */
static void pack_block(const struct product *product, long first, long rows, float *to) {
	long height = product->kernels->rows;
	for (long tile = 0; tile < rows; tile += height)
		for (long at = 0; at < product->depth; at++)
			for (long i = 0; i < height; i++) {
				bool there = first + tile + i < product->m;
				*to++ =
					there ? product->a[(first + tile + i) * product->k + product->from + at] : 0;
			}
}

/* A tile at the edge is computed separately and its existing part copied. */
static void multiply_tile(const struct product *product, const float *a, long strip, long row) {
	const lk_kernels *kernels = product->kernels;
	long column = strip * kernels->columns, add = product->from > 0;
	const float *b = product->slab + column * product->depth;
	float *c = product->c + row * product->n + column, aside[TILE];
	long rows = product->m - row, columns = product->n - column;
	if (rows >= kernels->rows && columns >= kernels->columns) {
		kernels->tile(product->depth, a, b, c, product->n, add);
		return;
	}
	if (rows > kernels->rows) rows = kernels->rows;
	if (columns > kernels->columns) columns = kernels->columns;
	kernels->tile(product->depth, a, b, aside, kernels->columns, false);
	for (long i = 0; i < rows; i++)
		for (long j = 0; j < columns; j++)
			c[i * product->n + j] =
				aside[i * kernels->columns + j] + (add ? c[i * product->n + j] : 0);
}

static void multiply_blocks(void *context, int thread, int threads) {
	const struct product *product = context;
	float *packed = product->blocks + thread * block_floats();
	for (long block = thread; block < product_pieces(product->m, product->block);
	     block += threads) {
		long first = block * product->block,
			 rows = product->m - first < product->block ? product->m - first : product->block;
		pack_block(product, first, rows, packed);
		for (long strip = 0; strip < product_pieces(product->n, product->kernels->columns); strip++)
			for (long row = 0; row < rows; row += product->kernels->rows)
				multiply_tile(product, packed + row * product->depth, strip, first + row);
	}
}

void lk_product(lk_team *team, const lk_kernels *kernels, float *room, long m, long n, long k,
                const float *a, const float *b, float *c) {
	struct product p = {.kernels = kernels, .m = m, .n = n, .k = k, .a = a, .b = b, .c = c};
	long share =
		product_pieces(product_pieces(m, lk_team_size(team)), kernels->rows) * kernels->rows;
	p.block = share < BLOCK ? share : BLOCK;
	p.blocks = room;
	p.slab = room + lk_team_size(team) * block_floats();
	for (; p.from < k; p.from += DEPTH) {
		p.depth = k - p.from < DEPTH ? k - p.from : DEPTH;
		lk_team_run(team, pack_slab, &p);
		lk_team_run(team, multiply_blocks, &p);
	}
}
