/* ---- numbers: formats, conversions, pointwise functions, draws ---- */

/* Comparisons trap nothing, and nobody looks at the errno of a square root: else no loop with
 * either becomes vectors. GCC takes the latter from a declaration, not from a pragma. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#pragma GCC optimize("no-math-errno", "no-trapping-math")
extern float sqrtf(float) __attribute__((const));
extern double sqrt(double) __attribute__((const));
#endif

/* Not every program uses all of what follows. */
#ifndef RT_FUNCTION
#define RT_FUNCTION static inline __attribute__((unused))
#endif

/* Before a loop whose iterations share no memory. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* it need not succeed */
#define RT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define RT_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Before a function with loops: glibc takes the one of three that this processor runs fastest,
 * where the compiler was not told of a newer processor than all have. */
#if defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && !defined(__CUDACC__) && \
	defined(__x86_64__) && defined(__gnu_linux__) && defined(__OPTIMIZE__) &&             \
	!defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define RT_LOOPS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define RT_LOOPS
#endif

/* Before a function that is called with constants, of which each call gets loops of its own. */
#if defined(__GNUC__)
#define RT_UNFOLDED static inline __attribute__((always_inline))
#else
#define RT_UNFOLDED static inline
#endif

typedef enum rt_format {
	RT_F64,
	RT_F32,
	RT_F16,
	RT_BF16,
	RT_F8,
	RT_I64,
	RT_I32,
	RT_I16,
	RT_I8,
	RT_U64,
	RT_U32,
	RT_U16,
	RT_U8,
	RT_BOOL,
	RT_FORMATS
} rt_format;

static const int rt_bytes[RT_FORMATS] = {8, 4, 2, 2, 1, 8, 4, 2, 1, 8, 4, 2, 1, 1};

RT_FUNCTION uint32_t rt_bits(float x) {
	uint32_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

RT_FUNCTION float rt_float(uint32_t u) {
	float x;
	memcpy(&x, &u, sizeof x);
	return x;
}

/* One of two by a mask: conditions between ?: may become branches, which keep a loop from becoming
 * vectors. */
RT_FUNCTION uint32_t rt_pick(bool first, uint32_t a, uint32_t b) {
	uint32_t mask = 0u - (uint32_t)first;
	return (a & mask) | (b & ~mask);
}

#ifndef RT_NARROW_FORMATS
/* f16: the exponent is moved by a multiplication, which also makes normal numbers of small ones. */
RT_FUNCTION float rt_from_f16(uint16_t h) {
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
	uint32_t u = rt_bits(rt_float(rest) * 0x1p112f);
	return rt_float(sign | u | rt_pick(rest >= 0x0f800000, 0x7f800000, 0));
}

/* To the nearest, ties to even. Numbers below the normal ones are rounded by adding 0.5, whose last
 * bit is theirs. */
RT_FUNCTION uint16_t rt_to_f16(float x) {
	uint32_t u = rt_bits(x), sign = u >> 16 & 0x8000;
	u &= 0x7fffffff;
	uint32_t normal = (u + 0xc8000fff + (u >> 13 & 1)) >> 13;
	uint32_t small = rt_bits(rt_float(u) + 0.5f) - 0x3f000000;
	uint32_t large = 0x7c00 | rt_pick(u > 0x7f800000, 0x200, 0);
	return (uint16_t)(sign |
	                  rt_pick(u >= 0x477ff000, large, rt_pick(u < 0x38800000, small, normal)));
}

RT_FUNCTION float rt_from_bf16(uint16_t h) { return rt_float((uint32_t)h << 16); }

RT_FUNCTION uint16_t rt_to_bf16(float x) {
	uint32_t u = rt_bits(x), near = (u + 0x7fff + (u >> 16 & 1)) >> 16;
	return (uint16_t)rt_pick((u & 0x7fffffff) > 0x7f800000, u >> 16 | 0x40, near);
}

/* f8 is E4M3 without infinities: 1 sign, 4 exponent bits with bias 7, 3 of fraction; 0x7f is no
 * number. What is larger than its largest number, 448, becomes that. */
RT_FUNCTION float rt_from_f8(uint8_t b) {
	uint32_t sign = (uint32_t)(b & 0x80) << 24, rest = (uint32_t)(b & 0x7f) << 20;
	uint32_t u = rt_bits(rt_float(rest) * 0x1p120f);
	return rt_float(sign | rt_pick(rest == 0x07f00000, 0x7fc00000, u));
}

RT_FUNCTION uint8_t rt_to_f8(float x) {
	uint32_t u = rt_bits(x), sign = u >> 24 & 0x80;
	u &= 0x7fffffff;
	uint32_t normal = (u - 0x3c000000 + 0x7ffff + (u >> 20 & 1)) >> 20;
	uint32_t small = rt_bits(rt_float(u) + 0x1p14f) - 0x46800000;
	uint32_t large = 0x7e | rt_pick(u > 0x7f800000, 1, 0);
	return (uint8_t)(sign | rt_pick(u > 0x43e00000, large, rt_pick(u < 0x3c800000, small, normal)));
}
#endif

/* A double as a float that rounds to narrower formats as the double would: what was cut off shows
 * in the last bit. */
RT_FUNCTION float rt_odd(double x) {
	float near = (float)x;
	uint32_t u = rt_bits(near);
	if (near == x || x != x || u & 1) return near;
	return rt_float((near < x) == !(u >> 31) ? u + 1 : u - 1);
}

/* Without the detour over 16 bits, in half of the time. */
RT_FUNCTION float rt_round_f16(float x) {
	uint32_t u = rt_bits(x), sign = u & 0x80000000;
	u &= 0x7fffffff;
	uint32_t normal = (u + 0xfff + (u >> 13 & 1)) & 0xffffe000;
	uint32_t small = rt_bits((float)(int32_t)(rt_bits(rt_float(u) + 0.5f) - 0x3f000000) * 0x1p-24f);
	uint32_t large = 0x7f800000 | rt_pick(u > 0x7f800000, 0x400000, 0);
	return rt_float(sign | rt_pick(u >= 0x477ff000, large, rt_pick(u < 0x38800000, small, normal)));
}
RT_FUNCTION float rt_round_bf16(float x) { return rt_from_bf16(rt_to_bf16(x)); }
RT_FUNCTION float rt_round_f8(float x) { return rt_from_f8(rt_to_f8(x)); }

/* Real to whole: towards zero, as far as the format goes; what is no number gives 0. */
RT_FUNCTION int64_t rt_whole(double x, double low, double high) {
	double y = x < low ? low : x > high ? high : x;
	return x == x ? y >= 0x1p63 ? INT64_MAX : (int64_t)y : 0;
}
RT_FUNCTION int64_t rt_to_i64(double x) { return rt_whole(x, -0x1p63, 0x1p63); }
RT_FUNCTION int64_t rt_to_i32(double x) { return rt_whole(x, INT32_MIN, INT32_MAX); }
RT_FUNCTION int64_t rt_to_i16(double x) { return rt_whole(x, INT16_MIN, INT16_MAX); }
RT_FUNCTION int64_t rt_to_i8(double x) { return rt_whole(x, INT8_MIN, INT8_MAX); }
RT_FUNCTION uint64_t rt_to_u64(double x) {
	return !(x > 0) ? 0 : x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;
}
RT_FUNCTION int64_t rt_to_u32(double x) { return rt_whole(x, 0, UINT32_MAX); }
RT_FUNCTION int64_t rt_to_u16(double x) { return rt_whole(x, 0, UINT16_MAX); }
RT_FUNCTION int64_t rt_to_u8(double x) { return rt_whole(x, 0, UINT8_MAX); }
RT_FUNCTION bool rt_truth(double x) { return x != 0; }

/* Functions of one name for double, float (f), signed (l) and unsigned whole numbers (u). Whole
 * ones wrap; quotients are cut towards zero, and 0 where the divisor is. */
#define RT_ORDERED(type, end)                                              \
	RT_FUNCTION type rt_min##end(type a, type b) { return a < b ? a : b; } \
	RT_FUNCTION type rt_max##end(type a, type b) { return a > b ? a : b; } \
	RT_FUNCTION type rt_relu##end(type x) { return x > 0 ? x : 0; }
RT_ORDERED(double, )
RT_ORDERED(float, f)
RT_ORDERED(int64_t, l)
RT_ORDERED(uint64_t, u)

RT_FUNCTION int64_t rt_addl(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
RT_FUNCTION int64_t rt_subl(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
RT_FUNCTION int64_t rt_mull(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
RT_FUNCTION int64_t rt_negl(int64_t a) { return (int64_t)(0 - (uint64_t)a); }
RT_FUNCTION int64_t rt_absl(int64_t a) { return a < 0 ? rt_negl(a) : a; }
RT_FUNCTION int64_t rt_squarel(int64_t a) { return rt_mull(a, a); }
RT_FUNCTION int64_t rt_quotientl(int64_t a, int64_t b) {
	return b == 0 ? 0 : b == -1 ? rt_negl(a) : a / b;
}
RT_FUNCTION uint64_t rt_addu(uint64_t a, uint64_t b) { return a + b; }
RT_FUNCTION uint64_t rt_subu(uint64_t a, uint64_t b) { return a - b; }
RT_FUNCTION uint64_t rt_mulu(uint64_t a, uint64_t b) { return a * b; }
RT_FUNCTION uint64_t rt_negu(uint64_t a) { return 0 - a; }
RT_FUNCTION uint64_t rt_absu(uint64_t a) { return a; }
RT_FUNCTION uint64_t rt_squareu(uint64_t a) { return a * a; }
RT_FUNCTION uint64_t rt_quotientu(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }
RT_FUNCTION uint64_t rt_powu(uint64_t a, uint64_t n) {
	uint64_t result = 1;
	for (; n; n >>= 1, a *= a)
		if (n & 1) result *= a;
	return result;
}
/* a^-n is 1 / a^n, cut towards zero. */
RT_FUNCTION int64_t rt_powl(int64_t a, int64_t n) {
	if (n < 0 && a != 1 && a != -1) return 0;
	return (int64_t)rt_powu((uint64_t)a, (uint64_t)(n < 0 ? rt_negl(n) : n));
}

#ifdef RT_NARROW_FORMATS /* of a device, whose library has these in hardware */
RT_FUNCTION float rt_expf(float x) { return expf(x); }
RT_FUNCTION float rt_exp2f(float x) { return exp2f(x); }
RT_FUNCTION float rt_logf(float x) { return logf(x); }
RT_FUNCTION float rt_tanhf(float x) { return tanhf(x); }
RT_FUNCTION float rt_erff(float x) { return erff(x); }
#else
/* The C library's are calls, one element at a time. These have no branches, so that loops of them
 * become vectors; their polynomials interpolate at Chebyshev's nodes. Largest errors in units of
 * the last place, of every 37th float: exp 1.02, exp2 1.03, log 0.79, tanh 1.30, erf 1.26. */

/* e^r 2^n for |r| <= log(2)/2 (1.01) and a whole number n given as n + RT_ROUNDER, from -252 to
 * 254: 2^n in two steps, for what is subnormal or infinite. */
/* 3 2^22: adding it rounds to whole numbers, which are its last bits then */
#define RT_ROUNDER 12582912.0f
RT_FUNCTION float rt_exp_of(float r, float n) {
	float p = 0x1.6d1606p-10f;
	uint32_t all = rt_bits(n) - rt_bits(RT_ROUNDER), half = ((all + 0x400) >> 1) - 0x200;
	p = p * r + 0x1.12106cp-7f;
	p = p * r + 0x1.555516p-5f;
	p = p * r + 0x1.5554d8p-3f;
	p = p * r + 0.5f;
	p = p * (r * r) + r + 1;
	return p * rt_float((half + 127) << 23) * rt_float((all - half + 127) << 23);
}
RT_FUNCTION float rt_expf(float x) {
	float y = x < -105 ? -105
	          : x > 90 ? 90
	                   : x,
		  n = y * 0x1.715476p0f + RT_ROUNDER, whole = n - RT_ROUNDER;
	/* the first product is exact */
	return rt_exp_of(y - whole * 0.693359375f - whole * -0x1.bd0106p-13f, n);
}
RT_FUNCTION float rt_exp2f(float x) {
	float y = x < -152 ? -152 : x > 129 ? 129 : x, n = y + RT_ROUNDER;
	return rt_exp_of((y - (n - RT_ROUNDER)) * 0x1.62e43p-1f, n);
}
/* x = 2^n (1 + f) with 1 + f from sqrt(1/2) to sqrt(2); subnormal numbers are made normal first. */
RT_FUNCTION float rt_logf(float x) {
	bool small = x < 0x1p-126f;
	float y = small ? x * 0x1p24f : x;
	uint32_t u = rt_bits(y) - 0x3f3504f3;
	float n = (float)((int32_t)u >> 23) - (small ? 24.0f : 0.0f),
		  f = rt_float((u & 0x7fffff) + 0x3f3504f3) - 1, p = 0x1.1d8ea4p-4f;
	p = p * f - 0x1.d635bcp-4f;
	p = p * f + 0x1.dea282p-4f;
	p = p * f - 0x1.fcf4c6p-4f;
	p = p * f + 0x1.23d21ap-3f;
	p = p * f - 0x1.555b4ap-3f;
	p = p * f + 0x1.999d5ap-3f;
	p = p * f - 0x1.fffffcp-3f;
	p = p * f + 0x1.555554p-2f;
	float s = f * f,
		  log = n * 0.693359375f + (f - (0.5f * s - (p * (f * s) + n * -0x1.bd0106p-13f)));
	log = y == INFINITY ? INFINITY : log; /* a number is neither that nor below */
	log = x == 0 ? -INFINITY : log;
	return x >= 0 ? log : NAN;
}
/* x + x^3 p(x^2) where that is short, else 1 - 2 / (e^2x + 1). */
RT_FUNCTION float rt_tanhf(float x) {
	float t = fabsf(x), s = x * x, p = 0x1.2c85d8p-9f, large = 1 - 2 / (rt_expf(2 * t) + 1);
	p = p * s - 0x1.116a8cp-7f;
	p = p * s + 0x1.64a988p-6f;
	p = p * s - 0x1.ba08c6p-5f;
	p = p * s + 0x1.1110eap-3f;
	p = p * s - 0x1.555556p-2f;
	return t < 0.625f ? p * s * x + x : copysignf(large, x);
}
/* x + x p(x^2) below 1, above it 1 - e^(-x q(x)); from 4 on 1. */
RT_FUNCTION float rt_erff(float x) {
	float t = fabsf(x), z = t > 4 ? 4 : t, s = x * x, p = 0x1.4a5670p-14f, q = -0x1.106400p-22f;
	p = p * s - 0x1.a45088p-11f;
	p = p * s + 0x1.541270p-8f;
	p = p * s - 0x1.b7fabap-6f;
	p = p * s + 0x1.ce2d10p-4f;
	p = p * s - 0x1.81273ep-2f;
	p = p * s + 0x1.06eba8p-3f;
	q = q * z + 0x1.0cfb02p-18f;
	q = q * z - 0x1.1b8f00p-17f;
	q = q * z - 0x1.380faap-12f;
	q = q * z + 0x1.e93bc0p-9f;
	q = q * z - 0x1.8b7db8p-6f;
	q = q * z + 0x1.b5763ap-4f;
	q = q * z + 0x1.44febep-1f;
	q = q * z + 0x1.20f624p0f;
	float large = copysignf(1 - rt_expf(-z * q), x);
	return t < 1 ? p * x + x : x != x ? x : large;
}
#endif
RT_FUNCTION double rt_square(double x) { return x * x; }
RT_FUNCTION float rt_squaref(float x) { return x * x; }
RT_FUNCTION double rt_abs(double x) { return fabs(x); }
RT_FUNCTION float rt_absf(float x) { return fabsf(x); }
RT_FUNCTION double rt_pow(double x, double y) { return pow(x, y); }
RT_FUNCTION float rt_powf(float x, float y) { return powf(x, y); }
RT_FUNCTION double rt_sqrt(double x) { return sqrt(x); }
RT_FUNCTION float rt_sqrtf(float x) { return sqrtf(x); }
RT_FUNCTION double rt_exp(double x) { return exp(x); }
RT_FUNCTION double rt_log(double x) { return log(x); }
RT_FUNCTION double rt_sin(double x) { return sin(x); }
RT_FUNCTION float rt_sinf(float x) { return sinf(x); }
RT_FUNCTION double rt_cos(double x) { return cos(x); }
RT_FUNCTION float rt_cosf(float x) { return cosf(x); }
RT_FUNCTION double rt_exp2(double x) { return exp2(x); }
RT_FUNCTION double rt_round(double x) { return rint(x); }
RT_FUNCTION float rt_roundf(float x) { return rintf(x); }
RT_FUNCTION double rt_tanh(double x) { return tanh(x); }
RT_FUNCTION double rt_erf(double x) { return erf(x); }
RT_FUNCTION double rt_gelu(double x) { return x / 2 * (1 + erf(x * 0.70710678118654752440)); }
RT_FUNCTION float rt_geluf(float x) { return x / 2 * (1 + rt_erff(x * 0.70710678f)); }
RT_FUNCTION double rt_sigmoid(double x) { return 1 / (1 + exp(-x)); }
RT_FUNCTION float rt_sigmoidf(float x) { return 1 / (1 + rt_expf(-x)); }

/* Philox 4x32 with 10 rounds (Salmon et al., SC 2011): a number that follows from where it stands.
 */
RT_FUNCTION uint32_t rt_philox(uint64_t index, uint32_t rank, uint32_t item, uint64_t key) {
	uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = rank, c3 = item;
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	for (int round = 0; round < 10; round++) {
		uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
		c0 = (uint32_t)(b >> 32) ^ c1 ^ k0, c1 = (uint32_t)b;
		c2 = (uint32_t)(a >> 32) ^ c3 ^ k1, c3 = (uint32_t)a;
		k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
	}
	return c0;
}

/* An element is kept where its draw (u + 0.5) / 2^32 is p or more, and then divided by 1 - p. */
RT_FUNCTION double rt_dropout(double x, double p, uint64_t key, uint64_t index, uint32_t item) {
	return (rt_philox(index, 0, item, key) + 0.5) * 0x1p-32 >= p ? x / (1 - p) : 0;
}
RT_FUNCTION float rt_dropoutf(float x, double p, uint64_t key, uint64_t index, uint32_t item) {
	return (rt_philox(index, 0, item, key) + 0.5) * 0x1p-32 >= p ? x / (float)(1 - p) : 0;
}

/* Sums, maxima and minima of a block, in lanes of their own, so that they become vectors without
 * reordering what the program text says. */
enum { RT_BLOCK = 256, RT_LANES = 8 };

#define RT_LANED(name, result, identity, join, all)                               \
	RT_FUNCTION result name(const float *x, int64_t count) {                      \
		result lane[RT_LANES];                                                    \
		int64_t i = 0;                                                            \
		for (int l = 0; l < RT_LANES; l++) lane[l] = identity;                    \
		for (; i + RT_LANES <= count; i += RT_LANES)                              \
			for (int l = 0; l < RT_LANES; l++) lane[l] = join(lane[l], x[i + l]); \
		for (int l = 0; i < count; i++, l++) lane[l] = join(lane[l], x[i]);       \
		for (int l = 1; l < RT_LANES; l++) lane[0] = all(lane[0], lane[l]);       \
		return lane[0];                                                           \
	}
RT_FUNCTION double rt_add(double a, double b) { return a + b; }
RT_LANED(rt_sum, double, 0, rt_add, rt_add)
RT_LANED(rt_block_max, float, -INFINITY, rt_maxf, rt_maxf)
RT_LANED(rt_block_min, float, INFINITY, rt_minf, rt_minf)

/* Sizes: a negative number stands for what overflowed or is no whole number. */
RT_FUNCTION int64_t rt_plus(int64_t a, int64_t b) {
	int64_t c;
	return a == INT64_MIN || b == INT64_MIN || __builtin_add_overflow(a, b, &c) ? INT64_MIN : c;
}
RT_FUNCTION int64_t rt_times(int64_t a, int64_t b) {
	int64_t c;
	return a == INT64_MIN || b == INT64_MIN || __builtin_mul_overflow(a, b, &c) ? INT64_MIN : c;
}
RT_FUNCTION int64_t rt_over(int64_t a, int64_t b) {
	return b <= 0 || a == INT64_MIN || a % b != 0 ? INT64_MIN : a / b;
}
