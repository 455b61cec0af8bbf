/* kernels.h: inner loops written for the widest vectors that the processor has. Private to measure/. */
#ifndef LK_MEASURE_KERNELS_H
#define LK_MEASURE_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include "calibrate/host/meter.h"

typedef struct lk_kernels {
	const char *name;           /* "AVX-512" */
	int rows, columns;          /* of a tile of a product */
	/* Multiplies and adds in registers alone, `rounds` times; *flops is what was done. The sum keeps it from being
	 * left out. */
	float (*multiply_add)(long rounds, double *flops);
	/* c (rows x columns, `stride` apart) = a * b, or that added to c. a and b are packed: k times `rows` and k times
	 * `columns` numbers, zeros where the matrices end. */
	void (*tile)(long k, const float *a, const float *b, float *c, long stride, bool add);
	/* Reads `count` words, a multiple of 64, aligned to 64 bytes. */
	uint64_t (*read)(const uint64_t *words, size_t count);
} lk_kernels;

/* The widest that runs here. */
const lk_kernels *lk_kernels_best(void);
/* All that run here, for tests; NULL past the end. */
const lk_kernels *lk_kernels_at(int index);

/* c = a * b, row by row: m x k times k x n. `room` holds lk_product_room floats, aligned to 64 bytes. */
size_t lk_product_room(const lk_kernels *kernels, int threads, long n, long k);
void lk_product(lk_team *team, const lk_kernels *kernels, float *room, long m, long n, long k, const float *a,
                const float *b, float *c);

#endif
