/* ---- formats ----------------------------------------------------------------------------------------------------- */

#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda/atomic>
#include <cublasLt.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Launches: without barriers, with barriers of blocks, with all blocks on the device at once. A stand-in for the CUDA
 * runtime may bring its own. */
#ifndef LK_LAUNCH
#define LK_LAUNCH(kernel, grid, block, shared, stream, ...) (kernel)<<<grid, block, shared, stream>>>(__VA_ARGS__)
#define LK_LAUNCH_BLOCK LK_LAUNCH
#define LK_LAUNCH_ALL(kernel, grid, block, shared, stream, ...) rt_launch_all(kernel, grid, block, shared, stream, __VA_ARGS__)
#define LK_SHARED(type, name) extern __shared__ __align__(16) unsigned char rt_shared[]; type *name = (type *)rt_shared
template <class... K, class... A>
static cudaError_t rt_launch_all(void (*kernel)(K...), int grid, int block, size_t shared, cudaStream_t stream, A... a) {
	void *arguments[] = {(void *)&a...};
	return cudaLaunchCooperativeKernel((void *)kernel, dim3(grid), dim3(block), arguments, shared, stream);
}
#endif
#include <nccl.h>

#ifndef RT_THREADS
#define RT_THREADS 256 /* of a block: a power of two */
#endif
#define RT_BOTH static __host__ __device__ __forceinline__

enum { RT_RANK = 6, RT_RANKS = 16 };
enum rt_format { RT_F64, RT_F32, RT_F16, RT_BF16, RT_F8, RT_I64, RT_I32, RT_I16, RT_I8, RT_U64, RT_U32, RT_U16, RT_U8, RT_BOOL };
static const int rt_bytes[] = {8, 4, 2, 2, 1, 8, 4, 2, 1, 8, 4, 2, 1, 1};

/* Narrow formats lie in memory as whole numbers of their bits. */
template <class A, class B> RT_BOTH A rt_bits(B b) {
	static_assert(sizeof(A) == sizeof(B), "the same bits");
	A a;
	memcpy(&a, &b, sizeof a);
	return a;
}
RT_BOTH float rt_from_f16(uint16_t x) { return __half2float(rt_bits<__half>(x)); }
RT_BOTH float rt_from_bf16(uint16_t x) { return __bfloat162float(rt_bits<__nv_bfloat16>(x)); }
RT_BOTH float rt_from_f8(uint8_t x) { __nv_fp8_e4m3 y; y.__x = x; return (float)y; }
RT_BOTH uint16_t rt_to_f16(float x) { return rt_bits<uint16_t>(__float2half_rn(x)); }
RT_BOTH uint16_t rt_to_bf16(float x) { return rt_bits<uint16_t>(__float2bfloat16_rn(x)); }
RT_BOTH uint8_t rt_to_f8(float x) { return __nv_fp8_e4m3(x).__x; }
RT_BOTH uint16_t rt_to_f16(double x) { return rt_bits<uint16_t>(__double2half(x)); }
RT_BOTH uint16_t rt_to_bf16(double x) { return rt_bits<uint16_t>(__double2bfloat16(x)); }
RT_BOTH uint8_t rt_to_f8(double x) { return __nv_fp8_e4m3(x).__x; }
#define RT_NARROW(name) \
	RT_BOTH float rt_round_##name(float x) { return rt_from_##name(rt_to_##name(x)); } \
	RT_BOTH double rt_round_##name(double x) { return rt_from_##name(rt_to_##name(x)); }
RT_NARROW(f16) RT_NARROW(bf16) RT_NARROW(f8)
#undef RT_NARROW

/* ---- operations: NAMEf in float, NAME in double and whole numbers -------------------------------------------------- */

#define RT_OPERATION(name, x, expression) \
	RT_BOTH float rt_##name##f(float x) { return expression; }
RT_OPERATION(square, x, x * x)
RT_OPERATION(sqrt, x, sqrtf(x))
RT_OPERATION(exp, x, expf(x))
RT_OPERATION(log, x, logf(x))
RT_OPERATION(tanh, x, tanhf(x))
RT_OPERATION(erf, x, erff(x))
RT_OPERATION(relu, x, x > 0 ? x : 0)
RT_OPERATION(gelu, x, 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)))
RT_OPERATION(sigmoid, x, 1.0f / (1.0f + expf(-x)))
RT_OPERATION(abs, x, fabsf(x))
#undef RT_OPERATION
RT_BOTH float rt_powf(float a, float b) { return powf(a, b); }
RT_BOTH float rt_minf(float a, float b) { return a < b ? a : b; }
RT_BOTH float rt_maxf(float a, float b) { return a > b ? a : b; }
#define RT_OPERATION(name, x, expression) \
	RT_BOTH double rt_##name(double x) { return expression; }
RT_OPERATION(sqrt, x, sqrt(x))
RT_OPERATION(exp, x, exp(x))
RT_OPERATION(log, x, log(x))
RT_OPERATION(tanh, x, tanh(x))
RT_OPERATION(erf, x, erf(x))
RT_OPERATION(gelu, x, 0.5 * x * (1.0 + erf(x * 0.70710678118654752)))
RT_OPERATION(sigmoid, x, 1.0 / (1.0 + exp(-x)))
#undef RT_OPERATION
template <class T> RT_BOTH T rt_square(T x) { return x * x; }
template <class T> RT_BOTH T rt_relu(T x) { return x > 0 ? x : (T)0; }
template <class T> RT_BOTH T rt_abs(T x) { return x < 0 ? -x : x; }
template <class T> RT_BOTH T rt_min(T a, T b) { return a < b ? a : b; }
template <class T> RT_BOTH T rt_max(T a, T b) { return a > b ? a : b; }
RT_BOTH double rt_pow(double a, double b) { return pow(a, b); }
RT_BOTH float rt_quotientf(float a, float b) { return a / b; }
template <class T> RT_BOTH T rt_quotient(T a, T b) { return b ? a / b : (T)0; }

/* A format's type in memory and in registers. */
template <int F> struct rt_of;
#define RT_FORMAT(format, memory, reg, get, put) \
	template <> struct rt_of<format> { \
		typedef memory in_memory; \
		typedef reg in_register; \
		RT_FRIEND reg load(memory x) { return get(x); } \
		RT_FRIEND memory store(reg x) { return put(x); } \
	};
#define RT_FRIEND static __host__ __device__ __forceinline__
RT_FORMAT(RT_F64, double, double, , )
RT_FORMAT(RT_F32, float, float, , )
RT_FORMAT(RT_F16, uint16_t, float, rt_from_f16, rt_to_f16)
RT_FORMAT(RT_BF16, uint16_t, float, rt_from_bf16, rt_to_bf16)
RT_FORMAT(RT_F8, uint8_t, float, rt_from_f8, rt_to_f8)
RT_FORMAT(RT_I64, int64_t, int64_t, , )
RT_FORMAT(RT_I32, int32_t, int64_t, , (int32_t))
RT_FORMAT(RT_I16, int16_t, int64_t, , (int16_t))
RT_FORMAT(RT_I8, int8_t, int64_t, , (int8_t))
RT_FORMAT(RT_U64, uint64_t, uint64_t, , )
RT_FORMAT(RT_U32, uint32_t, uint64_t, , (uint32_t))
RT_FORMAT(RT_U16, uint16_t, uint64_t, , (uint16_t))
RT_FORMAT(RT_U8, uint8_t, uint64_t, , (uint8_t))
RT_FORMAT(RT_BOOL, uint8_t, uint64_t, , (uint8_t))
#undef RT_FORMAT
/* Calls function<F>(...) for a format that is known when it runs. */
#define RT_SWITCH(format, function, ...) \
	switch (format) { \
	case RT_F64: function<RT_F64>(__VA_ARGS__); break; \
	case RT_F32: function<RT_F32>(__VA_ARGS__); break; \
	case RT_F16: function<RT_F16>(__VA_ARGS__); break; \
	case RT_BF16: function<RT_BF16>(__VA_ARGS__); break; \
	case RT_F8: function<RT_F8>(__VA_ARGS__); break; \
	case RT_I64: function<RT_I64>(__VA_ARGS__); break; \
	case RT_I32: function<RT_I32>(__VA_ARGS__); break; \
	case RT_I16: function<RT_I16>(__VA_ARGS__); break; \
	case RT_I8: function<RT_I8>(__VA_ARGS__); break; \
	case RT_U64: function<RT_U64>(__VA_ARGS__); break; \
	case RT_U32: function<RT_U32>(__VA_ARGS__); break; \
	case RT_U16: function<RT_U16>(__VA_ARGS__); break; \
	case RT_U8: function<RT_U8>(__VA_ARGS__); break; \
	default: function<RT_BOOL>(__VA_ARGS__); break; \
	}
