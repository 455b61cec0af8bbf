/* kernels.c: the loops of kernels_loops.h for each set of vector instructions, and the choice of
 * the set for this machine. */
#include "calibrate/host/meter.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define LOOP(name)   name##_avx512
#define TARGET       __attribute__((target("avx512f")))
#define LANES        16
#define ROWS         12
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#include "calibrate/host/kernels_loops.h"

#define LOOP(name)   name##_avx2
#define TARGET       __attribute__((target("avx2,fma")))
#define LANES        8
#define ROWS         6
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#include "calibrate/host/kernels_loops.h"
#endif

#define LOOP(name) name##_plain
#define TARGET
#define LANES 4
#define ROWS  6
#if defined(__aarch64__)
#include <arm_neon.h>
#define FMA(a, b, c) vfmaq_f32(c, a, b)
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif
#include "calibrate/host/kernels_loops.h"

#define SET(name, suffix, rows, lanes) \
	{ name, rows, 2 * (lanes), multiply_add_##suffix, tile_##suffix, read_##suffix }

static const lk_kernels sets[] = {
#if defined(__x86_64__)
	SET("AVX-512", avx512, 12, 16),
	SET("AVX2", avx2, 6, 8),
#endif
	SET("128-bit vectors", plain, 6, 4),
};

static bool kernels_runs(const lk_kernels *set) {
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (set == &sets[0]) return __builtin_cpu_supports("avx512f");
	if (set == &sets[1]) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
	return set != NULL;
}

const lk_kernels *lk_kernels_at(int index) {
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
		if (kernels_runs(&sets[i]) && index-- == 0) return &sets[i];
	return NULL;
}

const lk_kernels *lk_kernels_best(void) {
	return lk_kernels_at(0);
}
