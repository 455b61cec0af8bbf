/* cuda_fp16.h: half precision on the CPU. Tests only. */
#ifndef LK_SHIM_CUDA_FP16_H
#define LK_SHIM_CUDA_FP16_H
#include "lk_small_floats.h"
struct __half { uint16_t bits; };
inline float __half2float(__half x) { return lk_shim_widen(x.bits, 5, 10, true); }
inline __half __double2half(double x) { return {(uint16_t)lk_shim_round(x, 5, 10, 0x7BFF, true)}; }
inline __half __float2half_rn(float x) { return __double2half(x); }
#endif
