/* measure_gemm.c: fp32 matrix products on all cores, square, from small to large; and the peak that registers alone
 * allow.
 *
 * The product is that of a BLAS library where the system has one (OpenBLAS, MKL, BLIS, found when it runs), or our own
 * (product.c): the faster of the two, for a reference BLAS would say nothing about the machine.
 *
 * The rate that goes into the device is that of the best size.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "calibrate/host/meter.h"

enum { SMALLEST = 64, TRIED = 512, LARGEST = 4096 };

typedef void sgemm_fn(int order, int a_as, int b_as, int m, int n, int k, float alpha, const float *a, int a_row,
                      const float *b, int b_row, float beta, float *c, int c_row);

struct bench {
	lk_team *team;
	const lk_kernels *kernels;
	sgemm_fn *blas;         /* NULL: our own */
	float *a, *b, *c, *room;
	long size;
	int calls;              /* in a repetition */
};

/* ---- the product ---- */

static void multiply(const struct bench *g) {
	enum { ROW_MAJOR = 101, AS_IT_IS = 111 }; /* of the C interface to the BLAS */
	int n = (int)g->size;
	if (g->blas) g->blas(ROW_MAJOR, AS_IT_IS, AS_IT_IS, n, n, n, 1, g->a, n, g->b, n, 0, g->c, n);
	else lk_product(g->team, g->kernels, g->room, n, n, n, g->a, g->b, g->c);
}

static double time_products(void *context) {
	const struct bench *g = context;
	double start = lk_now();
	for (int i = 0; i < g->calls; i++) multiply(g);
	return (lk_now() - start) / g->calls;
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

/* The library stays open: its threads may not end with it. */
static sgemm_fn *open_blas(int threads, const char **name) {
	for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
		void *library = dlopen(libraries[i].file, RTLD_NOW | RTLD_LOCAL);
		void *found = library ? dlsym(library, "cblas_sgemm") : NULL;
		if (!found) continue;
		void *set = libraries[i].set_threads ? dlsym(library, libraries[i].set_threads) : NULL;
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

/* Leaves in g->blas what is faster; the name of it. */
static const char *choose(struct bench *g, double seconds) {
	const char *name = NULL;
	sgemm_fn *blas = open_blas(lk_team_size(g->team), &name);
	if (!blas) return NULL;
	g->size = TRIED, g->calls = 1;
	lk_sample ours = lk_repeat(time_products, g, seconds / 2, 2);
	g->blas = blas;
	lk_sample theirs = lk_repeat(time_products, g, seconds / 2, 2);
	if (theirs.low < ours.low) return name;
	g->blas = NULL;
	return NULL;
}

/* ---- peak of the vectors ---- */

struct peak {
	lk_team *team;
	const lk_kernels *kernels;
	long rounds;
	double flops;           /* of one thread */
	float sink[1024];       /* by thread, so that nothing is left out */
};

static void spin(void *context, int thread, int threads) {
	struct peak *p = context;
	double flops;
	(void)threads;
	p->sink[thread % 1024] = p->kernels->multiply_add(p->rounds, &flops);
	if (thread == 0) p->flops = flops;
}

static double time_peak(void *context) {
	struct peak *p = context;
	double start = lk_now();
	lk_team_run(p->team, spin, p);
	return lk_now() - start;
}

static lk_status measure_peak(lk_meter *m, const lk_kernels *kernels, double seconds) {
	struct peak p = {.team = m->team, .kernels = kernels, .rounds = 200000};
	lk_sample s = lk_repeat(time_peak, &p, seconds, 3);
	double flops = p.flops * lk_team_size(m->team);
	m->host->device.peak_flops[LK_FP32] = m->host->device.vector_flops = flops / s.low;
	char name[64];
	snprintf(name, sizeof name, "fp32 in registers, %s", kernels->name);
	return lk_meter_rate(m, "product", name, "TFLOP/s", flops, 1e12, &s);
}

/* ---- all sizes ---- */

/* About 2 ms a repetition; sizes whose repetitions would not fit are left out. */
static lk_status measure_sizes(lk_meter *m, struct bench *g, double seconds, long largest) {
	double best = 0;
	int sizes = 0;
	for (long n = SMALLEST; n <= largest; n *= 2) sizes++;
	for (g->size = SMALLEST; g->size <= largest; g->size *= 2) {
		g->calls = 1;
		time_products(g);
		double once = time_products(g);
		if (g->size > SMALLEST && once * 4 > seconds) break;
		g->calls = once > 2e-3 ? 1 : (int)fmin(1e5, 2e-3 / fmax(once, 2e-8));
		lk_sample s = lk_repeat(time_products, g, seconds / sizes, 3);
		best = fmax(best, flops_of(g->size) / s.low);
		char name[48];
		snprintf(name, sizeof name, "fp32 product, n = %ld", g->size);
		LK_TRY(lk_meter_rate(m, "product", name, "TFLOP/s", flops_of(g->size), 1e12, &s));
	}
	m->host->device.gemm_flops = best;
	return LK_OK;
}

static void fill(float *x, long count, unsigned seed) {
	for (long i = 0; i < count; i++) {
		seed = seed * 1664525u + 1013904223u;
		x[i] = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
	}
}

static lk_status measure_products(lk_meter *m, struct bench *g, double seconds, long largest) {
	fill(g->a, largest * largest, 1);
	fill(g->b, largest * largest, 2);
	const char *name = choose(g, seconds * 0.1);
	LK_TRY(lk_meter_note(m, "products by %s", name ? name : "lockstep's own blocked loops (no faster BLAS was found)"));
	LK_TRY(measure_sizes(m, g, seconds * 0.75, largest));
	lk_device *device = &m->host->device;
	device->peak_flops[LK_FP32] = device->vector_flops = fmax(device->vector_flops, device->gemm_flops);
	return LK_OK;
}

lk_status lk_measure_gemm(lk_meter *m, double seconds) {
	lk_meter_say(m, "matrix products");
	const lk_kernels *kernels = lk_kernels_best();
	LK_TRY(measure_peak(m, kernels, seconds * 0.1));
	/* A second or less is no time for large ones. */
	long largest = seconds < 1 ? TRIED : seconds < 3 ? 2048 : LARGEST;
	size_t matrix = (size_t)(largest * largest);
	size_t bytes = (3 * matrix + lk_product_room(kernels, lk_team_size(m->team), largest, largest)) * sizeof(float);
	float *pages = lk_pages(bytes);
	if (!pages) return lk_oom(m->err);
	struct bench g = {.team = m->team, .kernels = kernels, .a = pages, .b = pages + matrix, .c = pages + 2 * matrix};
	g.room = pages + 3 * matrix;
	lk_status status = measure_products(m, &g, seconds, largest);
	munmap(pages, bytes);
	return status;
}
