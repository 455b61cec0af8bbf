/* sustained.c: what matrix products and fused attention reach of a device's dense peak when nothing
 * else runs, as published: kernels that follow one another run at the clock that the power limit
 * leaves, not at the boost clock of the data sheet. A fit to training steps finds only how far
 * steps stay behind that, so that a GPU or a number format without a measured step begins at its
 * own rates.
 *
 * A row is of one device of its architecture. Relatives run at about its clock, so rates go with
 * the number of SMs (a higher peak is of a boost clock that is never seen under load) and with the
 * power for each of them:
 *
 *     rate = SMs * rate of an SM * ((p - 1/4) / (1 - 1/4))^0.46,   p = power per SM / that of the
 * row
 *
 * a quarter of the power being spent at any clock; 0.46 is what MI300X (750 W) and MI325X (1000 W),
 * the same die, differ by in products (rocm-blogs, Max-Achievable FLOPS, part 2: 708 against 843
 * TFLOP/s). */
#include <math.h>

#include "cost/kernel/kernel.h"
#include "base/check.h"

/* ---- products ---- */

enum {
	FORMATS = 3
}; /* 16 bits and wider; fp8; fp4 */

static int format_of(lk_dtype dtype) {
	if (dtype == LK_NVFP4) return 2;
	return dtype == LK_FP8 || dtype == LK_MXFP8;
}

/* Random data, long runs: cuBLASLt and hipBLASLt at 8192 to 16384 cubed. A100, H100 and GB200 from
 * Azure/AI-benchmarking-guide (A100 257 TFLOP/s, H100 fp8 1377, GB200 fp8 2907, fp4 7628); 16-bit
 * H100 794.5 of a short run (stas00/ml-engineering) times 0.985, what long runs keep; B200 as the
 * layer of Transformer Engine's gemm_profiling on B300 (1503, at 1100 W); MI325X from rocm-blogs
 * (843, 1519); MI355X 1565 and 3293 of a short run (HipKittens) times 0.9. Ada: cards, whose power
 * limit is half of what the peak's clock needs; assumed. */
static const struct sustained {
	double watts, tflops, sms; /* board power, dense 16-bit peak */
	double share[FORMATS];     /* of the format's dense peak */
} products[LK_ARCHES] = {
	[LK_ARCH_AMPERE] = {400, 312, 108, {.82, .82, .82}},
	[LK_ARCH_ADA] = {350, 362, 142, {.50, .50, .50}},
	[LK_ARCH_HOPPER] = {700, 989.4, 132, {.79, .70, .70}},
	[LK_ARCH_BLACKWELL] = {1000, 2250, 148, {.66, .61, .70}},
	[LK_ARCH_CDNA3] = {1000, 1307.4, 304, {.645, .58, .58}},
	[LK_ARCH_CDNA4] = {1400, 2516.6, 256, {.56, .59, .55}},
};

double lk_peak_flops(const lk_device *device, lk_dtype dtype) {
	static const lk_dtype wider[LK_DTYPES] = {
		[LK_NVFP4] = LK_MXFP8, [LK_MXFP8] = LK_FP8, [LK_FP8] = LK_BF16,  [LK_BF16] = LK_FP16,
		[LK_FP16] = LK_TF32,   [LK_TF32] = LK_FP32, [LK_FP32] = LK_FP32,
	};
	while (dtype != LK_FP32 && device->peak_flops[dtype] <= 0) dtype = wider[dtype];
	if (device->peak_flops[dtype] > 0) return device->peak_flops[dtype];
	return device->vector_flops > 0 ? device->vector_flops : 1e12;
}

/* Below half of the row's power the law would say that an SM more makes a device slower: from there
 * on the rate goes with the power. */
static double power_factor(double power) {
	const double idle = .25, exponent = .46, lowest = .5;
	double p = fmax(power, lowest);
	return pow((p - idle) / (1 - idle), exponent) * fmin(1, power / lowest);
}

/* The device's rates over those of its architecture's row, both over their peaks. */
static double relative_share(const lk_device *device) {
	const struct sustained *row = &products[device->arch];
	double peak = device->peak_flops[LK_BF16] / 1e12;
	if (!(peak > 0) || !(device->power_w > 0) || device->sms <= 0 || row->watts <= 0) return 1;
	double sms = device->sms / row->sms, power = device->power_w / row->watts / sms;
	return fmin(fmax(sms * row->tflops / peak, .5), 1.25) *
	       fmin(fmax(power_factor(power), .3), 1.5);
}

/* No kernel reaches more of a peak than this: data must come and go. */
static double at_most(double share) {
	return fmin(share, .95);
}

double lk_sustained_flops(const lk_device *device, lk_dtype dtype) {
	const struct sustained *row = &products[device->arch];
	double share =
		row->watts > 0 ? row->share[format_of(dtype)] : products[LK_ARCH_AMPERE].share[0];
	return lk_peak_flops(device, dtype) * at_most(share * relative_share(device));
}

/* ---- attention ---- */

/* Rates of long causal sequences at head size 128 over the dense 16-bit peak of the device they
 * were measured on, and the keys at which half of that is lost: rate(s) = R s / (s + S), fitted to
 * the published points. FlashAttention-2: A100 from its repository, H100 and what later devices
 * gain from it (nothing) from the FlashAttention-3 paper (arXiv 2407.08608, figures 5 and 6) and
 * Azure/AI-benchmarking-guide. cuDNN: H100 ibid., GB200 from NVIDIA/cudnn-frontend
 * (benchmark/sdpa_benchmark_training, 9.22). AMD: AITER on MI355X, from HazyResearch/HipKittens. */
struct attention {
	double forward, backward, start, start_backward;
};

static const struct attention kernels[LK_ATTENTIONS][LK_ARCHES] = {
	[LK_ATTENTION_CUDNN] = {[LK_ARCH_AMPERE] = {.65, .60, 484, 484},
                            [LK_ARCH_HOPPER] = {.567, .548, 387, 880},
                            [LK_ARCH_BLACKWELL] = {.71, .56, 1196, 1043},
                            [LK_ARCH_CDNA3] = {.555, .52, 1416, 2200},
                            [LK_ARCH_CDNA4] = {.555, .52, 1416, 2200}},
	[LK_ATTENTION_FA2] = {[LK_ARCH_AMPERE] = {.65, .60, 484, 484},
                          [LK_ARCH_HOPPER] = {.355, .331, 402, 590},
                          [LK_ARCH_BLACKWELL] = {.156, .146, 402, 590},
                          [LK_ARCH_CDNA3] = {.555, .52, 1416, 2200},
                          [LK_ARCH_CDNA4] = {.555, .52, 1416, 2200}},
	[LK_ATTENTION_FA3] = {[LK_ARCH_AMPERE] = {.65, .60, 484, 484},
                          [LK_ARCH_HOPPER] = {.662, .598, 602, 982},
                          [LK_ARCH_BLACKWELL] = {.156, .146, 402, 590},
                          [LK_ARCH_CDNA3] = {.555, .52, 1416, 2200},
                          [LK_ARCH_CDNA4] = {.555, .52, 1416, 2200}},
};

lk_attention_rate lk_published_attention(const lk_device *device, lk_attention_kernel kernel,
                                         bool backward) {
	LK_ASSERT(kernel < LK_ATTENTIONS);
	const struct attention *row = &kernels[kernel][device->arch];
	if (!(row->forward > 0)) row = &kernels[LK_ATTENTION_FA2][LK_ARCH_AMPERE];
	double share = backward ? row->backward : row->forward;
	return (lk_attention_rate){
		.flops = lk_peak_flops(device, LK_BF16) * at_most(share * relative_share(device)),
		.start = backward ? row->start_backward : row->start,
	};
}
