/* law_features.c: what learned corrections of several laws see of a call: products by their sizes,
 * how those fill tiles and waves, the law's time and numbers (which tell the series apart) and the
 * device's data sheet; attention by the kernel's name and the device. */
#include <math.h>
#include <string.h>

#include "cost/kernel/laws.h"

/* ---- products ---- */

enum { SIZES = 3 };

/* Exponent of 2 in a size, at most 8. */
static int twos_in(double size) {
	int count = 0;
	for (long long x = (long long)fmin(size, 1e15); count < 8 && x > 0 && x % 2 == 0; x /= 2)
		count++;
	return count;
}

static double used(double size, double tile) {
	return size / (ceil(fmax(size, 1) / tile) * tile);
}

/* How full the waves of tiles of a x b are. */
static double wave_used(double m, double n, double a, double b, double sms) {
	double waves = ceil(m / a) * ceil(n / b) / sms;
	return waves / fmax(ceil(waves), 1);
}

void lk_law_describe_sizes(const lk_law *law, const double *numbers, const lk_law_call *call,
                           const lk_law_series *series, float *x) {
	const lk_device *device = call->device;
	const double *size = call->size;
	double sms = fmax(device->sms, 1), all = 1;
	for (int i = 0; i < SIZES; i++) {
		*x++ = (float)log2(fmax(size[i], 1));
		*x++ = (float)twos_in(size[i]);
		*x++ = (float)used(size[i], 128);
		*x++ = (float)used(size[i], 256);
		all *= fmax(size[i], 1);
	}
	for (int i = 0; i < SIZES; i++) {
		double a = size[i], b = size[(i + 1) % SIZES];
		*x++ = (float)log2(fmax(a * b, 1));
		*x++ = (float)wave_used(a, b, 128, 128, sms);
		*x++ = (float)wave_used(a, b, 256, 128, sms);
		*x++ = (float)wave_used(a, b, 128, 256, sms);
	}
	*x++ = (float)log2(all);
	*x++ = (float)log2(law->seconds(numbers, call));
	*x++ = series->sustained;
	*x++ = (float)sms;
	*x++ = (float)(lk_peak_flops(device, call->format->units) / device->memory_rate);
	*x++ = (float)(device->l2_bytes / 1e6);
	for (int i = 0; i < law->count; i++) *x++ = (float)numbers[i];
}

/* ---- what runs where ---- */

/* Place of the first word that the kernel's name holds. */
static int kernel_class(const char *kernel) {
	static const char *const words[] = {
		"fa2",        "fa3",     "fa4",  "v3",     "v4",
		"decode",     "prefill", "mla",  "trtllm", "flow_flashinfer",
		"flashinfer", "triton",  "flow", "vit",    "flash_attention",
		"flash"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strstr(kernel, words[i])) return (int)i;
	return -1;
}

static int library_class(const char *library) {
	static const char *const libraries[] = {"vllm", "sglang"};
	int class = 0;
	while (class < 2 && strcmp(library, libraries[class]) != 0) class ++;
	return class;
}

void lk_law_describe_series(const lk_law_call *call, const lk_law_series *series, float *out) {
	const lk_device *device = call->device;
	const double of_series[LK_SERIES_FEATURES] = {
		call->format->units == LK_FP8,
		device->arch,
		device->sms,
		device->memory_rate / 1e12,
		kernel_class(series->kernel),
		series->sustained,
		library_class(series->library),
	};
	for (int i = 0; i < LK_SERIES_FEATURES; i++) out[i] = (float)of_series[i];
}
