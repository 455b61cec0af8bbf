/* conv.c: convolutions. The library uses the fastest of its algorithms; in fp32 with 3 x 3 windows
 * at stride 1:
 *
 *     implicit product      m output pixels, n filters, k = window x channels
 *     Winograd, fused       F(2 x 2, 3 x 3): 16 products for 4 pixels in place of 36; transformed
 *                           on the way
 *     Winograd, not fused   F(4 x 4, 3 x 3): 36 in place of 144; transformed tensors, 36/16 as
 *                           large, go through memory
 *
 * (A. Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks, arXiv 1509.09308; cuDNN's
 * kernels scudnn_winograd_128x128_..._tile148t and winograd_nonfused::winogradForward*4x4,
 * ...Wgrad*4x4, by which profiles of ResNet-50 on V100 and RTX 2080 Ti run every such convolution.)
 * Weight gradients, and Kepler, have only the latter: fused kernels are named after Maxwell and
 * later. Narrow formats use tensor cores and the implicit product. */
#include <math.h>

#include "cost/kernel/kernel.h"
#include "base/check.h"

/* A convolution in either of its forms as a product. */
struct conv {
	double pixels, out, in; /* output pixels; channels */
	bool weights;           /* the weights' gradient: pixels are summed */
	double side;            /* of an image */
};

static struct conv conv_of(const lk_ops *ops, uint32_t op) {
	LK_ASSERT(op < ops->count);
	const double window = 9;
	bool weights = ops->flags[op] & LK_OP_SUMS_PIXELS;
	if (weights)
		return (struct conv){ops->k[op], ops->m[op], ops->n[op] / window, true, ops->window[op]};
	return (struct conv){ops->m[op], ops->n[op], ops->k[op] / window, false, ops->window[op]};
}

/* Number of t x t tiles that cover the images. */
static double tiles(const struct conv *conv, double t) {
	double along = ceil(conv->side / t);
	return conv->pixels / (conv->side * conv->side) * along * along;
}

/* An addition takes a slot of two operations. A block of 64 filters transforms its pixels (32
 * additions per tile and channel) and its sums back (24 per tile and filter); filters are
 * transformed once. */
static double fused(const struct conv *conv, const lk_gemm_numbers *numbers,
                    const lk_device *device, double bytes) {
	const double products = 16, filters = 64;
	double count = tiles(conv, 2),
		   additions = count * (32 * conv->in * ceil(conv->out / filters) + 24 * conv->out);
	lk_gemm_shape shape = {LK_FP32, products, count, conv->out, conv->in};
	return lk_gemm_formula(numbers, device, &shape, bytes, NULL) +
	       2 * additions / lk_peak_flops(device, LK_FP32);
}

/* Kernels for the pixels, for the filters (or the other gradient), products, and for the output. */
static double conv_apart(const struct conv *conv, const lk_gemm_numbers *numbers,
                         const lk_device *device, double stream_rate) {
	const double products = 36, kernels = 3, width = 4, window = 9;
	double count = tiles(conv, 4), near = conv->pixels * (conv->in + conv->out),
		   far = products * count * (conv->in + conv->out);
	double filters = conv->in * conv->out * (window + products);
	lk_gemm_shape shape = conv->weights
	                          ? (lk_gemm_shape){LK_FP32, products, conv->out, conv->in, count}
	                          : (lk_gemm_shape){LK_FP32, products, count, conv->out, conv->in};
	return lk_gemm_formula(numbers, device, &shape, NAN, NULL) +
	       width * (near + far + filters) / stream_rate + kernels * numbers->floor_s;
}

double lk_conv_winograd(const lk_graph *graph, uint32_t op, const lk_gemm_numbers *numbers,
                        const lk_device *device, double stream_rate) {
	LK_ASSERT(op < graph->ops.count);
	const lk_ops *ops = &graph->ops;
	if (ops->dtype[op] != LK_FP32 || ops->window[op] <= 0) return INFINITY;
	struct conv c = conv_of(ops, op);
	double both = conv_apart(&c, numbers, device, stream_rate);
	bool has_fused = !c.weights && device->arch != LK_ARCH_KEPLER;
	return has_fused ? fmin(both, fused(&c, numbers, device, ops->bytes[op])) : both;
}
