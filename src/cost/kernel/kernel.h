/* kernel.h: what the kernel families share inside cost/. */
#ifndef LK_COST_KERNEL_H
#define LK_COST_KERNEL_H

#include "cost/cost.h"
#include "cost/kernel/gemm.h"

/* Sets the duration, rounded once to picoseconds. */
void lk_cost_set(lk_cost *cost, double seconds);

/* Dense peak of a format, or of the nearest wider one that the device has. Never 0. */
double lk_peak_flops(const lk_device *device, lk_dtype dtype);

/* A share of it (0 as 1), found on the usual device of an architecture, on this one. */
double lk_sustained_flops(const lk_device *device, lk_dtype dtype, double share);

/* Seconds of a convolution in fp32 by the faster of Winograd's algorithms; INFINITY where none applies (conv.c). */
double lk_conv_winograd(const lk_graph *graph, uint32_t op, const lk_gemm_numbers *numbers, const lk_device *device,
                        double stream_rate);

/* The cost on a device that was measured itself; false where it was not, or not for operations of this kind. */
bool lk_cost_measured(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out);

#endif
