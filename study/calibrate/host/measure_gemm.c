/* measure_gemm.c: fp32 matrix products on all cores, square, from small to large; and the peak of
 * registers alone.
 *
 * The product is that of a BLAS library if the system has one (OpenBLAS, MKL, BLIS, found at run
 * time), or our own (product.c): the faster of the two, because a reference BLAS would say nothing
 * about the machine.
 *
 * The device gets the rate of the best size. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "system/clock.h"
#include "system/library.h"
#include "calibrate/host/meter.h"

enum { SMALLEST = 64, TRIED = 512, LARGEST = 4096 };

typedef void sgemm_fn(int order, int a_as, int b_as, int m, int n, int k, float alpha,
                      const float *a, int a_row, const float *b, int b_row, float beta, float *c,
                      int c_row);

struct bench {
	lk_team *team;
	const lk_kernels *kernels;
	sgemm_fn *blas; /* NULL: our own */
	float *a, *b, *c, *room;
	long size;
	int calls; /* per repetition */
};

/* ---- the product ---- */

static void gemm_multiply(const struct bench *bench) {
	enum { ROW_MAJOR = 101, AS_IT_IS = 111 }; /* of the C interface to the BLAS */
	int n = (int)bench->size;
	if (bench->blas)
		bench->blas(ROW_MAJOR, AS_IT_IS, AS_IT_IS, n, n, n, 1, bench->a, n, bench->b, n, 0,
		            bench->c, n);
	else
		lk_product(bench->team, bench->kernels, bench->room, n, n, n, bench->a, bench->b, bench->c);
}

static double time_products(void *context) {
	const struct bench *bench = context;
	double start = lk_clock_s();
	for (int i = 0; i < bench->calls; i++) gemm_multiply(bench);
	return (lk_clock_s() - start) / bench->calls;
}

static double flops_of(long size) {
	return 2.0 * (double)size * (double)size * (double)size;
}

/* ---- a BLAS library ---- */

static const struct library {
	const char *file, *name, *set_threads;
} libraries[] = {
	{"libopenblas.so.0", "OpenBLAS", "openblas_set_num_threads"},
	{"libopenblas.so", "OpenBLAS", "openblas_set_num_threads"},
	{"libmkl_rt.so.2", "Intel MKL", NULL},
	{"libmkl_rt.so", "Intel MKL", NULL},
	{"libblis.so.4", "BLIS", NULL},
	{"libarmpl_lp64_mp.so", "Arm Performance Libraries", NULL},
	{"libblas.so.3", "the system's BLAS", NULL},
};

/* The library stays open, because its threads may not end with it. */
static sgemm_fn *open_blas(int threads, const char **name) {
	for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
		void *library = lk_library_open(libraries[i].file);
		void *found = library ? lk_library_find(library, "cblas_sgemm") : NULL;
		if (!found) continue;
		void *set =
			libraries[i].set_threads ? lk_library_find(library, libraries[i].set_threads) : NULL;
		void (*set_threads)(int);
		sgemm_fn *sgemm;
		memcpy(&sgemm, &found, sizeof sgemm);
		memcpy(&set_threads, &set, sizeof set_threads);
		if (set_threads) set_threads(threads);
		*name = libraries[i].name;
		return sgemm;
	}
	return NULL;
}

/* Put the faster one into bench->blas; returns its name. */
static const char *gemm_choose(struct bench *bench, double seconds) {
	const char *name = NULL;
	sgemm_fn *blas = open_blas(lk_team_size(bench->team), &name);
	if (!blas) return NULL;
	bench->size = TRIED;
	bench->calls = 1;
	lk_sample ours = lk_repeat(time_products, bench, seconds / 2, 2);
	bench->blas = blas;
	lk_sample theirs = lk_repeat(time_products, bench, seconds / 2, 2);
	if (theirs.low < ours.low) return name;
	bench->blas = NULL;
	return NULL;
}

/* ---- peak of the vectors ---- */

struct peak {
	lk_team *team;
	const lk_kernels *kernels;
	long rounds;
	double flops;     /* of one thread */
	float sink[1024]; /* by thread, so that nothing is optimised away */
};

static void spin(void *context, int thread, int threads) {
	struct peak *peak = context;
	double flops;
	(void)threads;
	peak->sink[thread % 1024] = peak->kernels->multiply_add(peak->rounds, &flops);
	if (thread == 0) peak->flops = flops;
}

static double time_peak(void *context) {
	struct peak *peak = context;
	double start = lk_clock_s();
	lk_team_run(peak->team, spin, peak);
	return lk_clock_s() - start;
}

static lk_status measure_peak(lk_meter *meter, const lk_kernels *kernels, double seconds) {
	struct peak p = {.team = meter->team, .kernels = kernels, .rounds = 200000};
	lk_sample s = lk_repeat(time_peak, &p, seconds, 3);
	double flops = p.flops * lk_team_size(meter->team);
	meter->host->device.peak_flops[LK_FP32] = meter->host->device.vector_flops = flops / s.low;
	char name[64];
	snprintf(name, sizeof name, "fp32 in registers, %s", kernels->name);
	return lk_meter_rate(meter, "product", name, "TFLOP/s", flops, 1e12, &s);
}

/* ---- all sizes ---- */

/* About 2 ms per repetition; sizes whose repetitions would not fit are left out. */
static lk_status measure_sizes(lk_meter *meter, struct bench *bench, double seconds, long largest) {
	double best = 0;
	int sizes = 0;
	for (long n = SMALLEST; n <= largest; n *= 2) sizes++;
	for (bench->size = SMALLEST; bench->size <= largest; bench->size *= 2) {
		bench->calls = 1;
		time_products(bench);
		double once = time_products(bench);
		if (bench->size > SMALLEST && once * 4 > seconds) break;
		bench->calls = once > 2e-3 ? 1 : (int)fmin(1e5, 2e-3 / fmax(once, 2e-8));
		lk_sample s = lk_repeat(time_products, bench, seconds / sizes, 3);
		best = fmax(best, flops_of(bench->size) / s.low);
		char name[48];
		snprintf(name, sizeof name, "fp32 product, n = %ld", bench->size);
		LK_TRY(lk_meter_rate(meter, "product", name, "TFLOP/s", flops_of(bench->size), 1e12, &s));
	}
	meter->host->device.gemm_flops = best;
	return LK_OK;
}

static void gemm_fill(float *x, long count, unsigned seed) {
	for (long i = 0; i < count; i++) {
		seed = seed * 1664525u + 1013904223u;
		x[i] = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
	}
}

static lk_status measure_products(lk_meter *meter, struct bench *bench, double seconds,
                                  long largest) {
	gemm_fill(bench->a, largest * largest, 1);
	gemm_fill(bench->b, largest * largest, 2);
	const char *name = gemm_choose(bench, seconds * 0.1);
	const char *own = lk_library_loads
	                      ? "lockstep's own blocked loops (no faster BLAS was found)"
	                      : "lockstep's own blocked loops (this program is static, loads no BLAS)";
	LK_TRY(lk_meter_note(meter, "products by %s", name ? name : own));
	LK_TRY(measure_sizes(meter, bench, seconds * 0.75, largest));
	lk_device *device = &meter->host->device;
	device->peak_flops[LK_FP32] = device->vector_flops =
		fmax(device->vector_flops, device->gemm_flops);
	return LK_OK;
}

lk_status lk_measure_gemm(lk_meter *meter, double seconds) {
	lk_meter_say(meter, "matrix products");
	const lk_kernels *kernels = lk_kernels_best();
	LK_TRY(measure_peak(meter, kernels, seconds * 0.1));
	/* A second or less is too little for large ones. */
	long largest;
	if (seconds < 1) largest = TRIED;
	else if (seconds < 3) largest = 2048;
	else largest = LARGEST;
	size_t matrix = (size_t)(largest * largest);
	size_t bytes =
		(3 * matrix + lk_product_room(kernels, lk_team_size(meter->team), largest, largest)) *
		sizeof(float);
	float *pages = lk_pages(bytes);
	if (!pages) return lk_oom(meter->err);
	struct bench g = {.team = meter->team,
	                  .kernels = kernels,
	                  .a = pages,
	                  .b = pages + matrix,
	                  .c = pages + 2 * matrix};
	g.room = pages + 3 * matrix;
	lk_status status = measure_products(meter, &g, seconds, largest);
	munmap(pages, bytes);
	return status;
}
