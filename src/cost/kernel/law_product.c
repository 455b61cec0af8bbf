/* law_product.c: a linear layer's product alone: C[m,n] = A[m,k] B[k,n], A in 16 bits, B a weight.
 *
 *     time = product + start + reads of A / (cast * bandwidth) + reads * (cast_us + m * cast_row)
 *
 * where `product` is the formula of gemm_model.c with the format's bytes. The reads find a scale
 * and convert, where the format needs them; each also writes or reads the converted element, and
 * takes `cast_row` for each row, however short. */
#include "cost/kernel/kernel.h"
#include "cost/kernel/laws.h"

#include <math.h>

/* sizes */
enum { M, N, K };

enum {
	EFFICIENCY,
	TILES,
	FILL,
	START,
	MEMORY,
	BLEND,
	K_EXTRA,
	CAST,
	CAST_START,
	CAST_ROW,
	NUMBERS
};

static const lk_fit_number numbers[NUMBERS] = {
	[EFFICIENCY] = {"efficiency", .75, .05, 2, true},
	[TILES] = {"tiles", .5, 0, 3, false},
	[FILL] = {"fill_us", 1, .01, 30, true},
	[START] = {"start_us", 2, .1, 100, true},
	[MEMORY] = {"memory", .7, .05, 3, true},
	[BLEND] = {"blend", 3, 1, 12, true},
	[K_EXTRA] = {"k_extra", 32, .1, 2000, true},
	[CAST] = {"cast", .5, .05, 4, true},
	[CAST_START] = {"cast_us", 2, .1, 30, true},
	[CAST_ROW] = {"cast_row_ns", .3, .001, 50, true},
};

lk_gemm_numbers lk_law_product_numbers(const double *x) {
	return (lk_gemm_numbers){
		.efficiency = x[EFFICIENCY],
		.unaligned = 1,
		.tiles = x[TILES],
		.fill_s = x[FILL] * 1e-6,
		.floor_s = x[START] * 1e-6,
		.memory = x[MEMORY],
		.blend = x[BLEND],
		.k_extra = x[K_EXTRA],
	};
}

static double product_seconds(const double *x, const lk_law_call *call) {
	const lk_law_format *format = call->format;
	double m = call->size[M], n = call->size[N], k = call->size[K];
	lk_gemm_shape shape = {format->units, 1, m, n, k};
	lk_gemm_numbers gemm = lk_law_product_numbers(x);
	double bytes = format->activation * m * k + format->weight * n * k + 2 * m * n;
	double seconds = lk_gemm_formula(&gemm, call->device, &shape, bytes, NULL);
	if (format->reads == 0) return seconds;
	double cast = (2 * format->reads + format->activation) * m * k;
	return seconds + cast / (x[CAST] * call->device->memory_rate) +
	       (x[CAST_START] * 1e-6 + x[CAST_ROW] * 1e-9 * m) * format->reads;
}

void lk_law_carry_product(double *efficiency, double *memory, double *cast, const lk_device *from,
                          const lk_device *to) {
	double slower = sqrt(from->memory_rate / to->memory_rate);
	*memory *= slower;
	*cast *= slower;
	if (from->arch != to->arch)
		*efficiency *= lk_published_share(to, LK_BF16) / lk_published_share(from, LK_BF16);
}

static void product_carry(double *x, const lk_device *from, const lk_device *to) {
	lk_law_carry_product(&x[EFFICIENCY], &x[MEMORY], &x[CAST], from, to);
}

static void product_describe(const double *x, const lk_law_call *call, const lk_law_series *series,
                             float *out) {
	lk_law_describe_sizes(&lk_law_product, x, call, series, out);
}

const lk_law lk_law_product = {.family = "product",
                               .numbers = numbers,
                               .count = NUMBERS,
                               .seconds = product_seconds,
                               .carry = product_carry,
                               .features = LK_SIZE_FEATURES(NUMBERS),
                               .describe = product_describe};
