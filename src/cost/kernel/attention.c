/* attention.c: fused (flash) attention, forward and backward, causal and with sliding windows.
 *
 *     pairs   = queries * keys (causal: the lower triangle; window: a band)
 *     forward = 4 * pairs * head_dim flops per head (q.k and p.v), backward 2.5 times as many
 *               (5 products instead of 2)
 *     time    = flops / (rate of the kernel * efficiency(head_dim)) + floor, at least the bytes
 *
 * The builder states flops; efficiency falls for small heads, because softmax's exponentials per
 * pair do not shrink with them: d / (d + c) over its value at 128. With FlashAttention-3's
 * published forward rates on H100, 510, 670 and 787 TFLOP/s at d = 64, 128 and 256 (arXiv
 * 2407.08608, figures 5 and 6), c = 59; an SM makes 16 exponentials a clock on each, while its
 * tensor cores double with each architecture: c = 29 on Ampere (176 of 203 TFLOP/s at 64,
 * FlashAttention-2's repository), 118 on Blackwell, and 59 where Blackwell Ultra doubles the
 * exponentials. Above 128 Blackwell does not gain what c predicts (1,734 and 1,777 TFLOP/s at 256
 * and 128, NVIDIA/cudnn-frontend): use 32 there and for other vendors.
 *
 * The published kernels do not support fp32 and tf32. Those that do (PyTorch's memory-efficient
 * one) are assumed to reach the same share of their format's peak; with 8 and 4 bits attention
 * stays in 16. */
#include <math.h>

#include "cost/kernel/kernel.h"
#include "base/check.h"

/* A row of tiles takes its start c and its keys. With a causal mask those are (n + tile) / 2 on
 * average, of which n / 2 count: n / (n + tile + 2c), the ramp observed on language models. Without
 * a mask it is n / (n + c). */
static double ramp(double causal, bool masked) {
	const double tile = 128;
	return masked ? causal : fmax(0, causal - tile) / 2;
}

double lk_attention_exponential(const lk_device *device, lk_attention_kernel kernel) {
	if (kernel == LK_ATTENTION_FA2 || kernel == LK_ATTENTION_TRITON)
		return 29; /* never near the tensor cores' rate */
	if (device->arch == LK_ARCH_HOPPER || lk_blackwell_ultra(device)) return 59;
	return device->arch == LK_ARCH_BLACKWELL ? 118 : 32;
}

static double head_efficiency(const lk_device *device, lk_attention_kernel kernel, double head) {
	double c = head < 128 ? lk_attention_exponential(device, kernel) : 32;
	return head / (head + c) * (128 + c) / 128;
}

lk_attention_rate lk_step_attention(const lk_constants *constants, const lk_device *device,
                                    bool backward) {
	lk_attention_rate rate = lk_published_attention(device, constants->attention, backward);
	bool amd = device->arch == LK_ARCH_CDNA3 || device->arch == LK_ARCH_CDNA4,
		 cudnn = constants->attention <= LK_ATTENTION_CUDNN_EARLY && device->arch >= LK_ARCH_HOPPER;
	rate.flops *= amd || cudnn ? constants->attention_share : constants->flash_share;
	if (constants->narrow_attention) rate.flops *= lk_narrow_attention(device, backward);
	rate.start *= constants->attention_start;
	return rate;
}

/* The number format of the kernel's arithmetic. */
static lk_dtype attention_format(const lk_graph *graph, uint32_t op) {
	lk_dtype format = (lk_dtype)graph->ops.dtype[op];
	return format == LK_FP32 || format == LK_TF32 ? format : LK_BF16;
}

void lk_cost_attention(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	LK_ASSERT(op < graph->ops.count);
	const lk_ops *ops = &graph->ops;
	const lk_device *device = site->node->device;
	const lk_constants *constants = site->constants;
	bool backward = ops->kind[op] == LK_OP_ATTENTION_BWD;
	double head = ops->k[op] > 0 ? ops->k[op] : 128;
	lk_attention_rate rate = lk_step_attention(constants, device, backward);
	double keys = ops->n[op];
	double efficiency = head_efficiency(device, constants->attention, head) * keys /
	                    (keys + ramp(rate.start, (ops->flags[op] & LK_OP_CAUSAL) != 0));
	double peak = lk_peak_flops(device, attention_format(graph, op));
	double share = rate.flops / lk_peak_flops(device, LK_BF16) * efficiency;
	double compute = ops->flops[op] / (peak * fmin(share, 0.95));
	double memory = ops->bytes[op] / (device->memory_rate * constants->memory_efficiency);
	double seconds = fmax(compute, memory) + constants->kernel_floor_s;
	lk_cost_set(out, seconds);
	double ctas = ceil(ops->m[op] / 128) * ops->batch[op];
	out->waves = (float)(ctas / (device->sms > 0 ? device->sms : 1));
	out->sm = (float)fmin(1, out->waves);
	out->compute = (float)(compute / seconds);
	out->memory = (float)fmin(1, ops->bytes[op] / device->memory_rate / seconds);
}
