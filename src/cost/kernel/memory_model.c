/* memory_model.c: time of memory-bound kernels.
 *
 *     stream = (bytes + again) / (bandwidth * efficiency * (1 + gain * max(0, 1 - bytes / (share *
 *         L2))))
 *     issue  = waves * (row + passes * pass)
 *     time   = max8(floor, start + max4(stream, issue))           maxP(a, b) = (a^P + b^P)^(1/P)
 *
 * stream: a benchmark's data that fits L2 is still there from the previous call, and runs faster
 * the better it fits. issue: kernels with a block per row also take the time in which a wave of
 * blocks processes its rows: each pass of the block's threads over the row costs the same, full or
 * not, so a row of 1376 elements costs 1024 threads two passes. waves = rows / concurrent blocks,
 * plus a share of the last wave's idle blocks. again: a kernel that reads its row twice finds it in
 * a cache only while the rows in flight fit there.
 *
 * With floor, row, pass and again 0 this is the form of the step model. */
#include "cost/kernel/kernel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* Accesses: input-sized tensors read and written. A gated activation reads two rows of the width
 * and writes one; rotary embedding rotates in place; a norm is one read and one write of memory. */
static const lk_memory_kernel kernels[] = {
	{"add", 3, LK_GRID_FLAT},          {"sub", 3, LK_GRID_FLAT},    {"mul", 3, LK_GRID_FLAT},
	{"div", 3, LK_GRID_FLAT},          {"pow", 3, LK_GRID_FLAT},    {"addu", 2, LK_GRID_FLAT},
	{"subu", 2, LK_GRID_FLAT},         {"mulu", 2, LK_GRID_FLAT},   {"divu", 2, LK_GRID_FLAT},
	{"powu", 2, LK_GRID_FLAT},         {"relu", 2, LK_GRID_FLAT},   {"tanh", 2, LK_GRID_FLAT},
	{"gelu", 2, LK_GRID_FLAT},         {"silu", 2, LK_GRID_FLAT},   {"copy", 2, LK_GRID_FLAT},
	{"add_parallel", 6, LK_GRID_FLAT}, /* parallel residual: two additions, of attention and of
	                                    * MLP */
	{"silu_and_mul", 3, LK_GRID_ROW},  {"rmsnorm", 2, LK_GRID_ROW}, {"layernorm", 2, LK_GRID_ROW},
	{"rope", 2, LK_GRID_HEADS},        {"ln", 2, LK_GRID_REDUCE},   {"softmax", 2, LK_GRID_REDUCE},
};

const lk_memory_number lk_memory_numbers[LK_MEMORY_NUMBERS] = {
	{"efficiency", 0.8, 0.02, 1.5, 1, true, false, false},
	{"start_us", 2, 0.01, 300, 1e-6, true, false, false},
	{"floor_us", 1, 0.01, 300, 1e-6, true, false, false},
	{"cache_gain", 0.5, 0.001, 10, 1, true, false, false},
	{"cache_share", 1, 0.05, 8, 1, true, false, false},
	{"row_us", 0.5, 0.001, 100, 1e-6, true, true, false},
	{"pass_us", 0.2, 0.001, 20, 1e-6, true, true, false},
	{"tail", 0.4, 0, 1, 1, false, true, false},
	{"reread", 0.5, 0.001, 5, 1, true, true, true},
	{"reread_share", 0.3, 0.01, 20, 1, true, true, true},
};

const lk_memory_kernel *lk_memory_kernel_find(const char *name) {
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
		if (strcmp(kernels[i].name, name) == 0) return &kernels[i];
	return NULL;
}

bool lk_memory_number_applies(const lk_memory_number *number, const lk_memory_kernel *kernel) {
	if (number->reduce) return kernel->grid == LK_GRID_REDUCE;
	return !number->rows || kernel->grid != LK_GRID_FLAT;
}

lk_memory_model lk_memory_model_from(const double x[LK_MEMORY_NUMBERS]) {
	double v[LK_MEMORY_NUMBERS];
	for (int i = 0; i < LK_MEMORY_NUMBERS; i++) v[i] = x[i] * lk_memory_numbers[i].unit;
	return (lk_memory_model){v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]};
}

void lk_memory_model_list(const lk_memory_model *model, double x[LK_MEMORY_NUMBERS]) {
	const double v[LK_MEMORY_NUMBERS] = {
		model->efficiency, model->start_s, model->floor_s, model->cache_gain, model->cache_share,
		model->row_s,      model->pass_s,  model->tail,    model->reread,     model->reread_share};
	for (int i = 0; i < LK_MEMORY_NUMBERS; i++) x[i] = v[i] / lk_memory_numbers[i].unit;
}

lk_memory_work lk_memory_work_of(const lk_memory_kernel *kernel, double rows, double width,
                                 double element) {
	return (lk_memory_work){kernel, rows * width * kernel->accesses * element, rows, width,
	                        element};
}

/* ---- the formula ---- */

/* Most resident threads of an SM. Ampere's graphics cards have less shared memory and fewer threads
 * than GA100. */
static double resident_threads(const lk_device *device) {
	if (device->arch == LK_ARCH_TURING) return 1024;
	if (device->arch == LK_ARCH_ADA || (device->arch == LK_ARCH_AMPERE && device->shared_kib < 160))
		return 1536;
	return 2048;
}

static double block_threads(lk_memory_grid grid, double width) {
	double threads;
	if (grid == LK_GRID_ROW) threads = fmin(width, 1024);
	else if (grid == LK_GRID_HEADS) threads = fmin(width / 4, 512);
	else threads = 512;
	return 32 * ceil(fmax(threads, 1) / 32);
}

/* Concurrent blocks on the device. */
static double blocks_at_once(const lk_device *device, double threads) {
	return fmax(device->sms, 1) * fmax(floor(resident_threads(device) / threads), 1);
}

static double larger4(double a, double b) {
	double top = fmax(a, b), low = fmin(a, b);
	if (!(top > 0)) return 0;
	double r = low / top, r2 = r * r;
	return top * sqrt(sqrt(1 + r2 * r2));
}

static double larger8(double a, double b) {
	double top = fmax(a, b), low = fmin(a, b);
	if (!(top > 0)) return 0;
	double r = low / top, r2 = r * r, r4 = r2 * r2;
	return top * sqrt(sqrt(sqrt(1 + r4 * r4)));
}

/* Bytes that are read again: all if far larger than the caches, none if far smaller. */
static double read_again(const lk_memory_model *model, const lk_device *device,
                         const lk_memory_work *work, double blocks) {
	if (!(model->reread > 0)) return 0;
	double in_flight = fmin(blocks, work->rows) * work->width * work->element;
	double fits = model->reread_share * device->l2_bytes / in_flight, fits2 = fits * fits;
	return model->reread * work->rows * work->width * work->element / (1 + fits2 * fits2);
}

double lk_memory_seconds(const lk_memory_model *model, const lk_device *device,
                         const lk_memory_work *work) {
	double bytes = work->bytes, issue = 0;
	double rate = device->memory_rate * model->efficiency,
		   cache = model->cache_share * device->l2_bytes;
	if (bytes < cache) rate *= 1 + model->cache_gain * (1 - bytes / cache);
	if (work->kernel && work->kernel->grid != LK_GRID_FLAT) {
		double threads = block_threads(work->kernel->grid, work->width),
			   blocks = blocks_at_once(device, threads);
		double waves = work->rows / blocks;
		waves += model->tail * (ceil(waves) - waves);
		issue = waves * (model->row_s + ceil(work->width / threads) * model->pass_s);
		if (work->kernel->grid == LK_GRID_REDUCE) bytes += read_again(model, device, work, blocks);
	}
	return larger8(model->floor_s, model->start_s + larger4(bytes / rate, issue));
}

/* ---- numbers by device ---- */

static void memory_model_usual(double x[LK_MEMORY_NUMBERS]) {
	for (int i = 0; i < LK_MEMORY_NUMBERS; i++) x[i] = lk_memory_numbers[i].usual;
}

/* Means over rows, geometric for ratio-scale numbers. */
struct mean {
	double sum[LK_MEMORY_NUMBERS];
	int rows;
};

static void memory_model_add_row(struct mean *mean, const lk_calibration_row *row,
                                 double efficiency_ratio) {
	for (int i = 0; i < LK_MEMORY_NUMBERS; i++) {
		const lk_memory_number *number = &lk_memory_numbers[i];
		double x = lk_calibration_value(row, number->name, number->usual);
		if (i == 0) x *= efficiency_ratio;
		x = fmin(fmax(x, number->low), number->high);
		mean->sum[i] += number->ratio ? log(x) : x;
	}
	mean->rows++;
}

static void finish_mean(const struct mean *mean, double x[LK_MEMORY_NUMBERS]) {
	for (int i = 0; i < LK_MEMORY_NUMBERS; i++) {
		double v = mean->sum[i] / mean->rows;
		x[i] = lk_memory_numbers[i].ratio ? exp(v) : v;
	}
}

/* Kernels with a thread per element of a row are limited by memory on some devices and by their own
 * instructions on others, so a relative's share of bandwidth carries over half as a share and half
 * as bytes per SM and clock. */
static double carry_over(const lk_device *from, const lk_device *to,
                         const lk_memory_kernel *kernel) {
	if (kernel->grid != LK_GRID_ROW && kernel->grid != LK_GRID_HEADS) return 1;
	double issue_from = fmax(from->sms, 1) * fmax(from->clock_hz, 1e8),
		   issue_to = fmax(to->sms, 1) * fmax(to->clock_hz, 1e8);
	return sqrt(from->memory_rate / issue_from * issue_to / to->memory_rate);
}

/* Whether a variant is an operation of this kind and format: "add fp16" is of the kind of "gelu
 * fp16". */
static bool memory_model_same_kind(const char *variant, const lk_memory_kernel *kernel,
                                   const char *dtype) {
	char name[40];
	const char *blank = strchr(variant, ' ');
	if (!blank || strcmp(blank + 1, dtype) != 0 || blank - variant >= (long)sizeof name)
		return false;
	snprintf(name, sizeof name, "%.*s", (int)(blank - variant), variant);
	const lk_memory_kernel *other = lk_memory_kernel_find(name);
	return other && (other->grid == LK_GRID_FLAT) == (kernel->grid == LK_GRID_FLAT);
}

/* Add a row to the means: on the device itself, on its architecture, on any; other operations on
 * the device. Later rows of a subject override earlier ones; tables have one each. */
static void sort_row(const lk_calibration_row *row, const lk_device *device,
                     const lk_device *without, const lk_memory_kernel *kernel, lk_dtype dtype,
                     struct mean means[LK_BASIS_NONE]) {
	char variant[64];
	snprintf(variant, sizeof variant, "%s %s", kernel->name, lk_dtype_name(dtype));
	const lk_device *subject = lk_device_find(row->subject);
	if (!subject || subject == without) return;
	if (strcmp(row->variant, variant) == 0) {
		if (subject == device) {
			means[LK_BASIS_DEVICE].rows = 0;
			memset(&means[LK_BASIS_DEVICE], 0, sizeof *means);
		}
		lk_memory_basis basis;
		if (subject == device) basis = LK_BASIS_DEVICE;
		else if (subject->arch == device->arch) basis = LK_BASIS_FAMILY;
		else basis = LK_BASIS_ANY;
		memory_model_add_row(&means[basis], row,
		                     subject == device ? 1 : carry_over(subject, device, kernel));
	} else if (subject == device &&
	           memory_model_same_kind(row->variant, kernel, lk_dtype_name(dtype))) {
		memory_model_add_row(&means[LK_BASIS_KIND], row, 1);
	}
}

lk_memory_model lk_memory_model_find(const lk_calibration *calibration, const lk_device *device,
                                     const lk_memory_kernel *kernel, lk_dtype dtype,
                                     const lk_device *without, lk_memory_basis *basis) {
	struct mean means[LK_BASIS_NONE];
	memset(means, 0, sizeof means);
	for (size_t i = 0; i < calibration->rows.count; i++) {
		const lk_calibration_row *row = &calibration->rows.at[i];
		if (strcmp(row->family, "memory") == 0)
			sort_row(row, device, without, kernel, dtype, means);
	}
	double x[LK_MEMORY_NUMBERS];
	memory_model_usual(x);
	lk_memory_basis from = LK_BASIS_DEVICE;
	while (from < LK_BASIS_NONE && means[from].rows == 0) from++;
	if (from < LK_BASIS_NONE) finish_mean(&means[from], x);
	if (basis) *basis = from;
	return lk_memory_model_from(x);
}
