/* ---- formats ---- */

#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda/atomic>
#include <cublasLt.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

/* Launches: without barriers, with barriers of blocks, with all blocks on the device at once. A
 * stand-in for the CUDA runtime may bring its own. */
#ifndef LK_LAUNCH
#define LK_LAUNCH(kernel, grid, block, shared, stream, ...) \
	(kernel)<<<grid, block, shared, stream>>>(__VA_ARGS__)
#define LK_LAUNCH_BLOCK LK_LAUNCH
#define LK_LAUNCH_ALL(kernel, grid, block, shared, stream, ...) \
	rt_launch_all(kernel, grid, block, shared, stream, __VA_ARGS__)
#define LK_SHARED(type, name)                                  \
	extern __shared__ __align__(16) unsigned char rt_shared[]; \
	type *name = (type *)rt_shared
template <class... K, class... A>
static cudaError_t rt_launch_all(void (*kernel)(K...), int grid, int block, size_t shared,
                                 cudaStream_t stream, A... a) {
	void *arguments[] = {(void *)&a...};
	return cudaLaunchCooperativeKernel((void *)kernel, dim3(grid), dim3(block), arguments, shared,
	                                   stream);
}
#endif
#include <nccl.h>

/* Not every program uses all of the runtime. */
#ifdef __NVCC__
#pragma nv_diag_suppress 177
#endif
#pragma GCC diagnostic ignored "-Wunused-function"

#ifndef RT_THREADS
#define RT_THREADS 256 /* of a block: a power of two */
#endif
#define RT_BOTH           static __host__ __device__ __forceinline__
#define RT_FUNCTION       RT_BOTH
#define RT_HOST_FUNCTION  static
#define RT_NARROW_FORMATS /* their conversions are the processor's, below */

#define RT_COMM   ncclComm_t /* NULL: of one rank */
#define RT_MEMORY char       /* the device's */

enum { RT_RANKS = 16 };

/* Narrow formats lie in memory as whole numbers of their bits. */
template <class A, class B> RT_BOTH A rt_same_bits(B b) {
	static_assert(sizeof(A) == sizeof(B), "the same bits");
	A a;
	memcpy(&a, &b, sizeof a);
	return a;
}
RT_BOTH float rt_from_f16(uint16_t x) {
	return __half2float(rt_same_bits<__half>(x));
}
RT_BOTH float rt_from_bf16(uint16_t x) {
	return __bfloat162float(rt_same_bits<__nv_bfloat16>(x));
}
RT_BOTH float rt_from_f8(uint8_t x) {
	__nv_fp8_e4m3 y;
	y.__x = x;
	return (float)y;
}
RT_BOTH uint16_t rt_to_f16(float x) {
	return rt_same_bits<uint16_t>(__float2half_rn(x));
}
RT_BOTH uint16_t rt_to_bf16(float x) {
	return rt_same_bits<uint16_t>(__float2bfloat16_rn(x));
}
RT_BOTH uint8_t rt_to_f8(float x) {
	return __nv_fp8_e4m3(x).__x;
}
