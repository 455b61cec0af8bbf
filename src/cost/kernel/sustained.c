/* sustained.c: the share of a device's dense peak that matrix products and fused attention reach
 * when nothing else runs, as published: successive kernels run at the clock that the power limit
 * allows, not at the boost clock of the data sheet. A fit to training steps only finds how far
 * steps fall short of that, so that a GPU or a number format without a measured step starts from
 * its own rates.
 *
 * A row describes one device. Relatives on the same die run at about its clock, so rates depend on
 * the number of SMs (a higher peak comes from a boost clock that is never reached under load) and
 * on the power per SM:
 *
 *     rate = SMs * rate of an SM * ((p - 1/4) / (1 - 1/4))^0.46
 *     p    = power per SM / that of the row
 *
 * a quarter of the power is spent at any clock; 0.46 is the exponent by which MI300X (750 W) and
 * MI325X (1000 W), the same die, differ in products (rocm-blogs, Max-Achievable FLOPS, part 2: 708
 * against 843 TFLOP/s). Between two rows of a die the rate of an SM is the power law of its power
 * through both. Blackwell Ultra is a separate die: twice the exponentials and 1.5 times the tensor
 * cores for fp4, at the expense of other formats. */
#include <math.h>

#include "cost/kernel/kernel.h"
#include "base/check.h"

/* ---- products ---- */

/* Dies: architectures, and Blackwell Ultra. */
enum { BLACKWELL_ULTRA = LK_ARCHES, DIES };

/* A card for graphics of Blackwell multiplies as Ada does: its SMs have Ada's shared memory and no
 * memory of the tensor cores' own. */
static int die_of(const lk_device *device) {
	const double small_kib = 128;
	if (device->arch == LK_ARCH_BLACKWELL && device->shared_kib < small_kib) return LK_ARCH_ADA;
	return lk_blackwell_ultra(device) ? BLACKWELL_ULTRA : (int)device->arch;
}

/* Random data, long runs: cuBLASLt and hipBLASLt at 8192 to 16384 cubed. A100, H100 and GB200 from
 * Azure/AI-benchmarking-guide (A100 257 TFLOP/s, H100 fp8 1377, GB200 fp8 2907, fp4 7628). Short
 * runs times the share that long runs keep (stas00/ml-engineering): 16-bit H100 794.5 times 0.985;
 * 16-bit GB200 1822 times 0.804 as in fp8; B200 1745 and 3432.5 times the same. B300 as the layer
 * of Transformer Engine's gemm_profiling (1503, fp8 2815); its fp4 is that of B200 times the gain
 * of fp8 products from the extra power, times 1.5^(1 - 0.46) for 1.5 times the units, each with
 * less power. MI325X from rocm-blogs (843, 1519); MI355X 1565 and 3293 of a short run (HipKittens)
 * times 0.9. Ada: cards whose power limit is half of what the peak's clock needs; assumed. */
static const struct sustained {
	int die;
	double watts, tflops, sms; /* board power, dense 16-bit peak */
	double share[LK_PRODUCTS]; /* of the format's dense peak */
} products[] = {
	/* one die at several powers per SM */
	{LK_ARCH_AMPERE, 400, 312, 108, {.82, .82, .82}},
	{LK_ARCH_ADA, 350, 362, 142, {.50, .50, .50}},
	{LK_ARCH_HOPPER, 700, 989.4, 132, {.79, .70, .70}},
	{LK_ARCH_BLACKWELL, 1000, 2250, 148, {.624, .613, .80}},
	{LK_ARCH_BLACKWELL, 1200, 2500, 152, {.586, .581, .763}},
	{BLACKWELL_ULTRA, 1100, 2250, 148, {.668, .626, .68}},
	{LK_ARCH_CDNA3, 1000, 1307.4, 304, {.645, .58, .58}},
	{LK_ARCH_CDNA4, 1400, 2516.6, 256, {.56, .59, .55}},
};

enum { PRODUCTS = sizeof products / sizeof *products };

double lk_peak_flops(const lk_device *device, lk_dtype dtype) {
	static const lk_dtype wider[LK_DTYPES] = {
		[LK_NVFP4] = LK_MXFP8, [LK_MXFP8] = LK_FP8, [LK_FP8] = LK_BF16,  [LK_BF16] = LK_FP16,
		[LK_FP16] = LK_TF32,   [LK_TF32] = LK_FP32, [LK_FP32] = LK_FP32,
	};
	while (dtype != LK_FP32 && device->peak_flops[dtype] <= 0) dtype = wider[dtype];
	if (device->peak_flops[dtype] > 0) return device->peak_flops[dtype];
	return device->vector_flops > 0 ? device->vector_flops : 1e12;
}

bool lk_blackwell_ultra(const lk_device *device) {
	return device->arch == LK_ARCH_BLACKWELL &&
	       lk_peak_flops(device, LK_NVFP4) > 2.5 * lk_peak_flops(device, LK_FP8);
}

static const double IDLE = .25;

/* Below half of the row's power the law would make a device slower with each further SM: from there
 * on the rate is proportional to the power. */
static double power_factor(double power, double exponent) {
	const double lowest = .5;
	double p = fmax(power, lowest);
	return pow((p - IDLE) / (1 - IDLE), exponent) * fmin(1, power / lowest);
}

/* Where a rate was measured. */
struct measured_on {
	double watts, tflops, sms;
};

static bool knows_power(const lk_device *device) {
	return device->peak_flops[LK_BF16] > 0 && device->power_w > 0 && device->sms > 0;
}

/* The device's share of its peak over the measured one's, at equal power per SM. Cards of Ada for
 * games accumulate in fp32 at half of the rate of professional ones: their SMs do as much work
 * with the same power, and reach twice the share. */
static double relative_units(const lk_device *device, struct measured_on on) {
	double peak = device->peak_flops[LK_BF16] / 1e12,
		   most = die_of(device) == LK_ARCH_ADA ? 2.5 : 1.25;
	return fmin(fmax(device->sms / on.sms * on.tflops / peak, .5), most);
}

static double relative_power(const lk_device *device, struct measured_on on) {
	return device->power_w / on.watts / (device->sms / on.sms);
}

/* 1/3 where the voltage follows the clock, 1 at the lowest voltage. Blackwell Ultra at 1,100 W is
 * far below its highest clock. */
static double power_exponent(const lk_device *device) {
	return lk_blackwell_ultra(device) ? .6 : .46;
}

/* `needed`: the part of the measured device's power that the kernel draws; one that draws less than
 * all runs at the highest clock there. */
static double relative_share(const lk_device *device, struct measured_on on, double needed) {
	if (!knows_power(device)) return 1;
	double factor = power_factor(relative_power(device, on) / needed, power_exponent(device));
	return relative_units(device, on) * fmin(fmax(factor, .3), needed < 1 ? 1 : 1.5);
}

/* No kernel reaches a larger share of a peak than this: data must come and go. */
static double at_most(double share) {
	return fmin(share, .95);
}

static struct measured_on row_device(const struct sustained *row) {
	return (struct measured_on){row->watts, row->tflops, row->sms};
}

/* The share between two rows of a die; the first has less power per SM. */
static double share_between(const lk_device *device, const struct sustained *low,
                            const struct sustained *high, int format) {
	double above = log(relative_power(device, row_device(low))),
		   below = -log(relative_power(device, row_device(high)));
	double at_low = low->share[format] * relative_units(device, row_device(low)),
		   at_high = high->share[format] * relative_units(device, row_device(high));
	return at_low * pow(at_high / at_low, above / (above + below));
}

/* The share that products reach at the power limit, which they draw whole. */
static double products_at_limit(int die) {
	for (int i = 0; i < PRODUCTS; i++)
		if (products[i].die == die) return products[i].share[0];
	return products[0].share[0];
}

static double products_share(const lk_device *device, int format) {
	const struct sustained *low = NULL, *high = NULL; /* the nearest rows on both sides */
	for (int i = 0; i < PRODUCTS; i++) {
		const struct sustained *row = &products[i];
		if (row->die != die_of(device)) continue;
		if (!knows_power(device) || relative_power(device, row_device(row)) >= 1) low = row;
		else if (!high) high = row;
	}
	if (!low && !high) return products[0].share[0];
	if (low && high) return share_between(device, low, high, format);
	const struct sustained *row = low ? low : high;
	return row->share[format] * relative_share(device, row_device(row), 1);
}

double lk_sustained_flops(const lk_device *device, lk_dtype dtype) {
	return lk_peak_flops(device, dtype) * at_most(products_share(device, lk_product_of(dtype)));
}

double lk_published_share(const lk_device *device, lk_dtype dtype) {
	return lk_sustained_flops(device, dtype) / lk_peak_flops(device, dtype);
}

/* ---- attention ---- */

/* Rates of long causal sequences at head size 128 over the dense 16-bit peak of the measured
 * device, and the keys at which half of that is lost: rate(s) = R s / (s + S), fitted to the
 * published points. FlashAttention-2: A100 from its repository, H100 and the gain of later devices
 * (none) from the FlashAttention-3 paper (arXiv 2407.08608, figures 5 and 6) and
 * Azure/AI-benchmarking-guide. cuDNN: H100 ibid., GB200 and GB300 from NVIDIA/cudnn-frontend
 * (benchmark/sdpa_benchmark_training, 9.22); before 9.13 at most 1 / 1.3 of that on Blackwell
 * (arXiv 2603.05451). AMD: AITER on MI355X, from HazyResearch/HipKittens. */
struct attention {
	double forward, backward, start, start_backward;
};

static const double CUDNN_BEFORE_9_13 = 1 / 1.3;

static const struct measured_on attention_on[DIES] = {
	[LK_ARCH_AMPERE] = {400, 312, 108},    [LK_ARCH_ADA] = {350, 362, 142},
	[LK_ARCH_HOPPER] = {700, 989.4, 132},  [LK_ARCH_BLACKWELL] = {1200, 2500, 152},
	[BLACKWELL_ULTRA] = {1400, 2500, 152}, [LK_ARCH_CDNA3] = {1000, 1307.4, 304},
	[LK_ARCH_CDNA4] = {1400, 2516.6, 256},
};

#define ANY_KERNEL                                                                      \
	[LK_ARCH_AMPERE] = {.65, .60, 484, 484}, [LK_ARCH_CDNA3] = {.555, .52, 1416, 2200}, \
	[LK_ARCH_CDNA4] = {.555, .52, 1416, 2200}
#define FA2_ON_BLACKWELL \
	[LK_ARCH_BLACKWELL] = {.156, .146, 402, 590}, [BLACKWELL_ULTRA] = {.156, .146, 402, 590}

static const struct attention kernels[LK_ATTENTIONS][DIES] = {
	[LK_ATTENTION_CUDNN] =
		{ANY_KERNEL, [LK_ARCH_HOPPER] = {.567, .548, 387, 880},
         [LK_ARCH_BLACKWELL] = {.71, .56, 1196, 1043}, [BLACKWELL_ULTRA] = {.816, .645, 941, 1296}},
	[LK_ATTENTION_FA2] = {ANY_KERNEL, FA2_ON_BLACKWELL, [LK_ARCH_HOPPER] = {.355, .331, 402, 590}},
	[LK_ATTENTION_FA3] = {ANY_KERNEL, FA2_ON_BLACKWELL, [LK_ARCH_HOPPER] = {.662, .598, 602, 982}},
};

double lk_narrow_attention(const lk_device *device, bool backward) {
	static const struct {
		double forward, backward;
	} gain[DIES] = {
		[LK_ARCH_HOPPER] = {1.5, .75},
		[LK_ARCH_BLACKWELL] = {1.31, 1.33},
		[BLACKWELL_ULTRA] = {1.62, 1.48},
	};
	double of = backward ? gain[die_of(device)].backward : gain[die_of(device)].forward;
	return of > 0 ? of : 1;
}

/* FlashAttention in Triton over FlashAttention-2, forward and backward on A100 (arXiv 2307.08691,
 * figures 4 and 5: 94 to 133 against 187 TFLOP/s at size 128 and 16k). */
static const double FIRST_FLASH = .6;

/* The kernel whose row states the rates. */
static lk_attention_kernel family_of(lk_attention_kernel kernel) {
	if (kernel == LK_ATTENTION_CUDNN_EARLY) return LK_ATTENTION_CUDNN;
	return kernel == LK_ATTENTION_TRITON ? LK_ATTENTION_FA2 : kernel;
}

lk_attention_rate lk_published_attention(const lk_device *device, lk_attention_kernel kernel,
                                         bool backward) {
	LK_ASSERT(kernel < LK_ATTENTIONS);
	bool early = kernel == LK_ATTENTION_CUDNN_EARLY, first = kernel == LK_ATTENTION_TRITON;
	int die = die_of(device);
	const struct attention *row = &kernels[family_of(kernel)][die];
	if (!(row->forward > 0)) row = &kernels[LK_ATTENTION_FA2][LK_ARCH_AMPERE];
	double share = backward ? row->backward : row->forward;
	double drawn = IDLE + (1 - IDLE) * fmin(1, share / products_at_limit(die));
	if (attention_on[die].watts > 0) share *= relative_share(device, attention_on[die], drawn);
	if (early && (die == LK_ARCH_BLACKWELL || die == BLACKWELL_ULTRA)) share *= CUDNN_BEFORE_9_13;
	if (first) share *= FIRST_FLASH;
	return (lk_attention_rate){
		.flops = lk_peak_flops(device, LK_BF16) * at_most(share),
		.start = backward ? row->start_backward : row->start,
	};
}
