/* lanes.c: loops over lanes that the compiler vectorises. They exist in several copies, selected at
 * program start, for processors with and without AVX2 and AVX-512. */
#include "system/clones.h"
#include "sim/sim_internal.h"

/* Sources and result may be the same vector, but no iteration reads what another one writes. */
#if defined(__clang__)
#define LANES _Pragma("clang loop vectorize(assume_safety)")
#else
#define LANES _Pragma("GCC ivdep")
#endif

#define VECTOR(v) __builtin_assume_aligned((v), 64)
#define WHOLE(n)  ((n) & ~(size_t)(LK_LANES - 1))

int64_t *lk_lanes_vectors(lk_arena *arena, size_t count, size_t n) {
	if (count && n > (SIZE_MAX / 16) / count) return NULL;
	if (n == 1) return lk_arena_array(arena, count, sizeof(int64_t));
	char *raw = lk_arena_alloc(arena, count * n * sizeof(int64_t) + 63);
	return raw ? (int64_t *)((uintptr_t)(raw + 63) & ~(uintptr_t)63) : NULL;
}

LK_CLONES static void lanes_chain1(int64_t *to, const lk_sources *from, int64_t work,
                                   int64_t launch, size_t n) {
	int64_t *t = VECTOR(to);
	const int64_t *a = VECTOR(from->at[0]), *h = VECTOR(from->host);
	n = WHOLE(n);
	LANES for (size_t i = 0; i < n; i++) t[i] = lk_later(a[i] + work, h[i] + launch);
}

LK_CLONES static void lanes_chain2(int64_t *to, const lk_sources *from, int64_t work,
                                   int64_t launch, size_t n) {
	int64_t *t = VECTOR(to);
	const int64_t *a = VECTOR(from->at[0]), *b = VECTOR(from->at[1]), *h = VECTOR(from->host);
	n = WHOLE(n);
	LANES for (size_t i = 0; i < n; i++) t[i] =
		lk_later(lk_later(a[i], b[i]) + work, h[i] + launch);
}

LK_CLONES static void lanes_chain3(int64_t *to, const lk_sources *from, int64_t work,
                                   int64_t launch, size_t n) {
	int64_t *t = VECTOR(to);
	const int64_t *a = VECTOR(from->at[0]), *b = VECTOR(from->at[1]), *c = VECTOR(from->at[2]),
				  *h = VECTOR(from->host);
	n = WHOLE(n);
	LANES for (size_t i = 0; i < n; i++) t[i] =
		lk_later(lk_later(lk_later(a[i], b[i]), c[i]) + work, h[i] + launch);
}

LK_CLONES static void lanes_chain4(int64_t *to, const lk_sources *from, int64_t work,
                                   int64_t launch, size_t n) {
	int64_t *t = VECTOR(to);
	const int64_t *a = VECTOR(from->at[0]), *b = VECTOR(from->at[1]), *c = VECTOR(from->at[2]),
				  *d = VECTOR(from->at[3]);
	const int64_t *h = VECTOR(from->host);
	n = WHOLE(n);
	LANES for (size_t i = 0; i < n; i++) t[i] =
		lk_later(lk_later(lk_later(a[i], b[i]), lk_later(c[i], d[i])) + work, h[i] + launch);
}

void lk_lanes_chain_many(int64_t *to, const lk_sources *from, int64_t work, int64_t launch,
                         size_t n) {
	switch (from->count) {
	case 1: lanes_chain1(to, from, work, launch, n); break;
	case 2: lanes_chain2(to, from, work, launch, n); break;
	case 3: lanes_chain3(to, from, work, launch, n); break;
	default: lanes_chain4(to, from, work, launch, n); break;
	}
}

LK_CLONES void lk_lanes_max_many(int64_t *to, const int64_t *from, size_t n) {
	int64_t *t = VECTOR(to);
	const int64_t *a = VECTOR(from);
	n = WHOLE(n);
	LANES for (size_t i = 0; i < n; i++) t[i] = lk_later(t[i], a[i]);
}

LK_CLONES void lk_lanes_max_sum_many(int64_t *to, const int64_t *from, const int64_t *add,
                                     size_t n) {
	int64_t *t = VECTOR(to);
	const int64_t *a = VECTOR(from), *b = VECTOR(add);
	n = WHOLE(n);
	LANES for (size_t i = 0; i < n; i++) t[i] = lk_later(t[i], a[i] + b[i]);
}

LK_CLONES void lk_lanes_add_many(int64_t *to, const int64_t *from, size_t n) {
	int64_t *t = VECTOR(to);
	const int64_t *a = VECTOR(from);
	n = WHOLE(n);
	LANES for (size_t i = 0; i < n; i++) t[i] += a[i];
}

LK_CLONES void lk_lanes_shift_many(int64_t *to, int64_t number, size_t n) {
	int64_t *t = VECTOR(to);
	n = WHOLE(n);
	LANES for (size_t i = 0; i < n; i++) t[i] += number;
}

/* Groups of neighbours. The small sizes of tensor parallelism have loops of fixed length, which
 * become shuffles. */
#define NEIGHBOURS(size)                                                   \
	LK_CLONES static void neighbours##size(int64_t *v, size_t n) {         \
		for (size_t i = 0; i + (size) <= n; i += (size)) {                 \
			int64_t m = v[i];                                              \
			for (size_t j = 1; j < (size); j++) m = lk_later(m, v[i + j]); \
			for (size_t j = 0; j < (size); j++) v[i + j] = m;              \
		}                                                                  \
	}
NEIGHBOURS(2)
NEIGHBOURS(4)
NEIGHBOURS(8)

LK_CLONES static void group_neighbours(int64_t *v, size_t size, size_t n) {
	for (size_t i = 0; i + size <= n; i += size) {
		int64_t m = v[i];
		for (size_t j = 1; j < size; j++) m = lk_later(m, v[i + j]);
		for (size_t j = 0; j < size; j++) v[i + j] = m;
	}
}

/* Members are `stride` apart: the maximum of whole runs of lanes goes into the first run, then back
 * to all. */
LK_CLONES static void group_strided(int64_t *v, size_t size, size_t stride, size_t n) {
	for (size_t base = 0; base + size * stride <= n; base += size * stride) {
		int64_t *m = v + base;
		for (size_t j = 1; j < size; j++) {
			const int64_t *a = m + j * stride;
			LANES for (size_t i = 0; i < stride; i++) m[i] = lk_later(m[i], a[i]);
		}
		for (size_t j = 1; j < size; j++) {
			int64_t *a = m + j * stride;
			LANES for (size_t i = 0; i < stride; i++) a[i] = m[i];
		}
	}
}

static void group_listed(int64_t *v, const lk_lane_groups *groups) {
	for (uint32_t g = 0; g < groups->groups; g++) {
		int64_t m = INT64_MIN;
		for (uint32_t i = groups->begin[g]; i < groups->begin[g + 1]; i++)
			m = lk_later(m, v[groups->lane[i]]);
		for (uint32_t i = groups->begin[g]; i < groups->begin[g + 1]; i++) v[groups->lane[i]] = m;
	}
}

void lk_lanes_group(int64_t *v, const lk_lane_groups *groups, size_t lanes) {
	if (groups->size == 1 || groups->groups == lanes) return;
	if (!groups->size) group_listed(v, groups);
	else if (groups->stride > 1) group_strided(v, groups->size, groups->stride, lanes);
	else if (groups->size == 2) neighbours2(v, lanes);
	else if (groups->size == 4) neighbours4(v, lanes);
	else if (groups->size == 8) neighbours8(v, lanes);
	else group_neighbours(v, groups->size, lanes);
}

LK_CLONES static void lanes_scale_by(int64_t *v, const double *factor, size_t n) {
	int64_t *t = VECTOR(v);
	n = WHOLE(n);
	LANES for (size_t i = 0; i < n; i++) t[i] = lk_sim_scale(t[i], factor[i]);
}

LK_CLONES static void lanes_scale_jitter(int64_t *v, const lk_lane_noise *noise, size_t n) {
	int64_t *t = VECTOR(v);
	lk_lane_noise z = *noise;
	n = WHOLE(n);
	LANES for (size_t i = 0; i < n; i++) t[i] =
		lk_sim_scale(t[i], lk_sim_jitter(z.seed, z.rank + i, z.number, z.sigma) *
	                           (z.factor ? z.factor[i] : 1.0));
}

LK_CLONES void lk_lanes_draw(lk_jitter_draws *draws, uint64_t seed, uint64_t rank, uint64_t first,
                             double sigma) {
	double *factor = draws->factor;
	draws->first = first;
	LANES for (size_t i = 0; i < LK_LANES; i++) factor[i] =
		lk_sim_jitter(seed, rank, first + i, sigma);
}

static void lane_scale(int64_t *v, const lk_lane_noise *z) {
	double factor = z->factor ? *z->factor : 1.0;
	*v = lk_sim_scale(*v, lk_sim_jitter(z->seed, z->rank, z->number, z->sigma) * factor);
}

void lk_lanes_scale(int64_t *v, const lk_lane_noise *noise, size_t n) {
	if (n == 1 && noise->sigma > 0) {
		lane_scale(v, noise);
		return;
	}
	if (n == 1 && noise->factor) {
		*v = lk_sim_scale(*v, *noise->factor);
		return;
	}
	if (noise->sigma > 0) lanes_scale_jitter(v, noise, n);
	else if (noise->factor) lanes_scale_by(v, noise->factor, n);
}

LK_CLONES void lk_lanes_factors(double *factor, const uint64_t *of_rank, const double *straggle,
                                uint64_t number, double sigma, size_t n) {
	double *f = VECTOR(factor);
	const uint64_t *of = VECTOR(of_rank);
	const double *s = VECTOR(straggle);
	n = WHOLE(n);
	LANES for (size_t i = 0; i < n; i++) f[i] = lk_sim_jitter_from(of[i], number, sigma) * s[i];
}

/* lk_sim_scale for less than 2^51 picoseconds, without a conversion that AVX2 lacks: adding 2^52 to
 * a number below 2^52 rounds it to an integer, which is then in its low bits; subtract one if it
 * was rounded up. */
static inline int64_t scale_vector(double duration, double factor) {
	const double big = 0x1p52;
	union {
		double number;
		int64_t bits;
	} whole = {.number = big}, one = whole;
	double value = duration * factor + 0.5;
	whole.number = value + big;
	return whole.bits - one.bits - (whole.number - big > value);
}

LK_CLONES void lk_lanes_kernel(const lk_lane_kernel *kernel, const int64_t *source, int64_t *host,
                               size_t n) {
	lk_lane_kernel k = *kernel;
	int64_t *at = VECTOR(k.at), *end = VECTOR(k.end), *duration = VECTOR(k.duration);
	int64_t *floor = VECTOR(k.floor), *h = VECTOR(host);
	const int64_t *from = VECTOR(source);
	const double *f = VECTOR(k.factor);
	double alone = (double)k.alone, tail = (double)k.tail;
	n = WHOLE(n);
	if (!f) {
		LANES for (size_t i = 0; i < n; i++) duration[i] = k.alone, floor[i] = k.tail;
	} else if ((double)lk_later(k.alone, k.tail) * k.most * 1024 < 0x1p51) {
		LANES for (size_t i = 0; i < n; i++) duration[i] = scale_vector(alone, f[i]),
											 floor[i] = scale_vector(tail, f[i]);
	} else {
		for (size_t i = 0; i < n; i++)
			duration[i] = lk_sim_scale(k.alone, f[i]), floor[i] = lk_sim_scale(k.tail, f[i]);
	}
	LANES for (size_t i = 0; i < n; i++) {
		at[i] = lk_later(from[i], h[i] + k.lead);
		h[i] += k.host;
		floor[i] += h[i];
		end[i] = lk_later(at[i] + duration[i], floor[i]);
	}
}

LK_CLONES int64_t lk_lanes_meet(const int64_t *source, int64_t *host, int64_t lead, int64_t host_ps,
                                int64_t *arrived, size_t n) {
	int64_t *at = VECTOR(arrived), *h = VECTOR(host), all = 0;
	const int64_t *from = VECTOR(source);
	n = WHOLE(n);
	LANES for (size_t i = 0; i < n; i++) {
		at[i] = lk_later(from[i], h[i] + lead);
		h[i] += host_ps;
		all = lk_later(all, at[i]);
	}
	return all;
}
