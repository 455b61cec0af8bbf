/* cuda_fp8.h: 8 bits, 4 of exponent, on the CPU. Tests only. */
#ifndef LK_SHIM_CUDA_FP8_H
#define LK_SHIM_CUDA_FP8_H
#include "lk_small_floats.h"
struct __nv_fp8_e4m3 {
	uint8_t __x;
	__nv_fp8_e4m3() = default;
	explicit __nv_fp8_e4m3(float x) : __x((uint8_t)lk_shim_round(x, 4, 3, 0x7E, false)) {}
	explicit __nv_fp8_e4m3(double x) : __x((uint8_t)lk_shim_round(x, 4, 3, 0x7E, false)) {}
	explicit operator float() const { return lk_shim_widen(__x, 4, 3, false); }
};
#endif
