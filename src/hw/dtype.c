/* dtype.c: number formats and architectures: their names and the size of a stored element.
 *
 * Block formats carry one scale per block: mxfp8 an 8-bit scale for 32 elements (OCP Microscaling
 * Formats 1.0, 5.3), nvfp4 an 8-bit scale for 16 elements (NVIDIA, "Introducing NVFP4", 2025; the
 * single fp32 scale per tensor is negligible).
 */
#include "base/text.h"
#include "hw/hw.h"

static const struct {
	const char *name;
	double bytes;
} dtypes[LK_DTYPES] = {
	[LK_FP32] = {"fp32", 4},
	[LK_TF32] = {"tf32", 4}, /* stored as fp32; rounded when the matrix units read it */
	[LK_FP16] = {"fp16", 2},
	[LK_BF16] = {"bf16", 2},
	[LK_FP8] = {"fp8", 1},
	[LK_MXFP8] = {"mxfp8", 1 + 1 / 32.0},
	[LK_NVFP4] = {"nvfp4", 0.5 + 1 / 16.0},
};

/* Spellings of frameworks. "hybrid" is Transformer Engine's fp8 (e4m3 forward, e5m2 backward);
 * "mixed" is the fp16 of automatic mixed precision before bf16. mxfp4 (one scale per 32) maps to
 * nvfp4: same matrix rate, 6 % smaller. */
static const struct {
	const char *name;
	lk_dtype dtype;
} spellings[] = {
	{"float32", LK_FP32},
	{"float", LK_FP32},
	{"single", LK_FP32},
	{"f32", LK_FP32},
	{"32", LK_FP32},
	{"32-true", LK_FP32},
	{"torch.float32", LK_FP32},
	{"tensorfloat32", LK_TF32},
	{"tensor-float-32", LK_TF32},
	{"float16", LK_FP16},
	{"half", LK_FP16},
	{"f16", LK_FP16},
	{"16", LK_FP16},
	{"mixed", LK_FP16},
	{"amp", LK_FP16},
	{"fp16-mixed", LK_FP16},
	{"16-mixed", LK_FP16},
	{"amp_fp16", LK_FP16},
	{"torch.float16", LK_FP16},
	{"bfloat16", LK_BF16},
	{"bfloat", LK_BF16},
	{"bf16-mixed", LK_BF16},
	{"amp_bf16", LK_BF16},
	{"torch.bfloat16", LK_BF16},
	{"float8", LK_FP8},
	{"f8", LK_FP8},
	{"e4m3", LK_FP8},
	{"e5m2", LK_FP8},
	{"hybrid", LK_FP8},
	{"amp_fp8", LK_FP8},
	{"float8_e4m3fn", LK_FP8},
	{"float8_e5m2", LK_FP8},
	{"mx8", LK_MXFP8},
	{"mx-fp8", LK_MXFP8},
	{"fp4", LK_NVFP4},
	{"float4", LK_NVFP4},
	{"nv-fp4", LK_NVFP4},
	{"mxfp4", LK_NVFP4},
	{"e2m1", LK_NVFP4},
};

const char *lk_dtype_name(lk_dtype dtype) {
	return (unsigned)dtype < LK_DTYPES ? dtypes[dtype].name : "?";
}

bool lk_dtype_parse(const char *text, lk_dtype *out) {
	if (!text) return false;
	for (int i = 0; i < LK_DTYPES; i++) {
		if (!lk_same_name(text, dtypes[i].name)) continue;
		*out = (lk_dtype)i;
		return true;
	}
	for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
		if (!lk_same_name(text, spellings[i].name)) continue;
		*out = spellings[i].dtype;
		return true;
	}
	return false;
}

double lk_dtype_bytes(lk_dtype dtype) {
	return (unsigned)dtype < LK_DTYPES ? dtypes[dtype].bytes : 0;
}

static const char *const arches[LK_ARCHES] = {
	[LK_ARCH_KEPLER] = "kepler", [LK_ARCH_PASCAL] = "pascal",
	[LK_ARCH_VOLTA] = "volta",   [LK_ARCH_TURING] = "turing",
	[LK_ARCH_AMPERE] = "ampere", [LK_ARCH_ADA] = "ada",
	[LK_ARCH_HOPPER] = "hopper", [LK_ARCH_BLACKWELL] = "blackwell",
	[LK_ARCH_CDNA1] = "cdna1",   [LK_ARCH_CDNA2] = "cdna2",
	[LK_ARCH_CDNA3] = "cdna3",   [LK_ARCH_CDNA4] = "cdna4",
	[LK_ARCH_RDNA3] = "rdna3",   [LK_ARCH_CPU] = "cpu",
};

const char *lk_arch_name(lk_arch arch) {
	return (unsigned)arch < LK_ARCHES ? arches[arch] : "?";
}
