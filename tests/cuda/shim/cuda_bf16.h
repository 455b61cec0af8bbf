/* cuda_bf16.h: bfloat16 on the CPU. Tests only. */
#ifndef LK_SHIM_CUDA_BF16_H
#define LK_SHIM_CUDA_BF16_H
#include "lk_small_floats.h"
struct __nv_bfloat16 { uint16_t bits; };
inline float __bfloat162float(__nv_bfloat16 x) { return lk_shim_widen(x.bits, 8, 7, true); }
inline __nv_bfloat16 __double2bfloat16(double x) { return {(uint16_t)lk_shim_round(x, 8, 7, 0x7F7F, true)}; }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __double2bfloat16(x); }
#endif
