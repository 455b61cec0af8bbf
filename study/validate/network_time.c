/* network_time.c: a network's time from its kernels.
 *
 *     device   = products * sum of products + passes * sum of passes + gap * launches + exchange
 *     host     = host * call * launches (+ fetch * fetches, in a training forward)
 *     forward  = max4(device, host) * (1 + squeeze * full)
 *     backward = max4(device, host)
 *     time     = (forward + backward) * bubble
 *
 * Kernels are issued ahead of the device, so the longer of the two counts. Measured loops release
 * all memory before each run: a training forward allocates what it keeps from the driver. If that
 * nearly fills the device, the allocator releases and allocates again in the middle of it. */
#include "validate/validate.h"

#include <math.h>
#include <string.h>

#include "tables/tables.h"
#include "base/fit.h"
#include "cost/cost.h"
#include "cost/kernel/kernel.h"

/* ---- work ---- */

static void add_product(const lk_model_run *run, const lk_gemm_model *model, const lk_eager_op *op,
                        lk_network_work *work) {
	double count = op->count / run->tensor, flops = 2 * op->batch * op->m * op->n * op->k;
	lk_gemm_shape shape = {LK_FP32, op->batch, op->m, op->n, op->k};
	double seconds = lk_gemm_seconds(model, run->device, &shape, NULL);
	work->products_s[op->backward] += count * fmax(seconds - model->numbers.floor_s, 0);
	work->roofline_s += count * flops / lk_peak_flops(run->device, LK_FP32);
}

/* Models of the operations in the lists, looked up once per row of the table. */
struct found {
	const lk_memory_kernel *kernel;
	lk_memory_model model;
};

static const lk_memory_model *network_time_model_of(const lk_calibration *calibration,
                                                    const lk_device *device,
                                                    const lk_memory_kernel *kernel,
                                                    struct found *cache) {
	enum { KERNELS = 16 };
	for (int i = 0; i < KERNELS; i++) {
		if (cache[i].kernel == kernel) return &cache[i].model;
		if (cache[i].kernel && i + 1 < KERNELS) continue;
		cache[i].kernel = kernel;
		cache[i].model = lk_memory_model_find(calibration, device, kernel, LK_FP32, NULL, NULL);
		cache[i].model.floor_s = cache[i].model.start_s =
			0; /* of a single call; in a queue it is the gap */
		return &cache[i].model;
	}
	return &cache[0].model;
}

static void add_pass(const lk_calibration *calibration, const lk_model_run *run,
                     const lk_eager_op *op, struct found *cache, lk_network_work *network_work) {
	double count = op->count / (op->whole ? 1 : run->tensor);
	lk_memory_work work = {op->kernel, op->bytes, op->rows, op->width, 4};
	const lk_memory_model *model =
		network_time_model_of(calibration, run->device, op->kernel, cache);
	network_work->passes_s[op->backward] += count * lk_memory_seconds(model, run->device, &work);
	network_work->roofline_s += count * op->bytes / run->device->memory_rate;
}

/* Ring all-reduce of `bytes` among the devices. */
static double reduce_seconds(const lk_device *device, int devices, double bytes) {
	double rate = device->link_rate > 0 ? device->link_rate : fmax(device->pcie_rate, 1e9);
	return 20e-6 + 2.0 * (devices - 1) / devices * bytes / (0.8 * rate);
}

static void network_time_add_exchange(const lk_model_run *run, double batch,
                                      lk_network_work *work) {
	const lk_model *model = &run->model;
	double layers = model->layers + model->decoder_layers;
	if (run->tensor > 1) {
		double each =
			reduce_seconds(run->device, run->tensor, 4 * batch * run->seq * model->hidden);
		work->exchange_s[0] += 2 * layers * each;
		work->exchange_s[1] += 2 * layers * each;
	}
	if (run->data > 1) { /* after the backward pass, except the last buckets */
		double bytes = 4 * lk_model_params(model);
		work->exchange_s[1] += 0.2 * reduce_seconds(run->device, run->data, bytes);
	}
}

lk_status lk_network_work_of(const lk_calibration *calibration, const lk_model_run *run,
                             lk_network_work *out, lk_error *err) {
	lk_eager_ops ops = {0};
	struct found cache[16] = {{0}};
	lk_gemm_model products;
	lk_gemm_model_of(run->device, LK_FP32, &products);
	double batch = run->batch / run->data;
	lk_eager_run eager = {batch, run->seq, run->train, run->compiled};
	*out = (lk_network_work){.train = run->train};
	lk_status status = lk_eager_list(&run->model, &eager, &ops, err);
	for (size_t i = 0; status == LK_OK && i < ops.count; i++) {
		const lk_eager_op *op = &ops.at[i];
		out->launches[op->backward] += op->count;
		if (op->product) add_product(run, &products, op, out);
		else add_pass(calibration, run, op, cache, out);
	}
	lk_vec_free(&ops);
	if (status != LK_OK) return status;
	network_time_add_exchange(run, batch, out);
	const lk_memory_kernel *add = lk_memory_kernel_find("add");
	lk_memory_model call = lk_memory_model_find(calibration, run->device, add, LK_FP32, NULL, NULL);
	out->call_s = fmax(call.floor_s, call.start_s);
	out->borrowed = !products.measured;
	int parts = run->tensor * run->stages;
	lk_eager_kept kept = lk_eager_keeps(&run->model, &eager);
	out->fetches = kept.fetches / parts;
	out->fill = kept.bytes / parts / run->device->memory_bytes;
	out->bubble = (run->micro + run->stages - 1.0) / ((double)run->micro * run->stages);
	return LK_OK;
}

/* ---- the formula ---- */

static const struct {
	const char *name;
	double usual, low, high, spread; /* spread: a typical distance from usual, as ln */
} numbers[LK_NETWORK_NUMBERS] = {
	{"gap_us", 3, 0.3, 30, 1}, {"products", 1.02, 0.7, 1.5, 0.1}, {"passes", 1.0, 0.5, 2, 0.2},
	{"host", 0.5, 0.02, 5, 1}, {"fetch_us", 200, 10, 2000, 1},    {"squeeze", 0.5, 0.01, 3, 1},
};

static lk_network_model model_from(const double *x) {
	return (lk_network_model){x[0] * 1e-6, x[1], x[2], x[3], x[4] * 1e-6, x[5]};
}

lk_network_model lk_network_usual(void) {
	double x[LK_NETWORK_NUMBERS];
	for (int i = 0; i < LK_NETWORK_NUMBERS; i++) x[i] = numbers[i].usual;
	return model_from(x);
}

static double longer(double a, double b) {
	double top = fmax(a, b), r = top > 0 ? fmin(a, b) / top : 0;
	return top * sqrt(sqrt(1 + r * r * r * r));
}

double lk_network_seconds(const lk_network_model *model, const lk_network_work *work) {
	double total = 0;
	for (int way = 0; way < (work->train ? 2 : 1); way++) {
		double device = model->products * work->products_s[way] +
		                model->passes * work->passes_s[way] + model->gap_s * work->launches[way] +
		                work->exchange_s[way];
		double host = model->host * work->call_s * work->launches[way];
		if (work->train && way == 0) host += model->fetch_s * work->fetches;
		double seconds = longer(device, host);
		double full = fmin(fmax((work->fill - 0.8) / 0.15, 0), 1);
		if (work->train && way == 0) seconds *= 1 + model->squeeze * full;
		total += seconds;
	}
	return total * work->bubble;
}

/* ---- fitting ---- */

struct task {
	const lk_network_row *rows;
	size_t count;
	lk_network_fit *fit;
};

/* Seconds with products lengthened by a factor. */
static double with_factor(const lk_network_model *model, const lk_network_work *work,
                          double factor) {
	lk_network_model own = *model;
	own.products *= factor;
	return lk_network_seconds(&own, work);
}

/* ln of the factor that makes a row exact; the secant of two tries is close enough. */
static double factor_of_row(const lk_network_model *model, const lk_network_row *row) {
	double at = 1;
	for (int step = 0; step < 3; step++) {
		double now = with_factor(model, row->work, at),
			   more = with_factor(model, row->work, 1.1 * at);
		double slope = log(more / now) / log(1.1);
		at *= exp(fmin(fmax(log(row->seconds / now) / fmax(slope, 0.2), -1), 1));
	}
	return log(at);
}

/* Products of devices with borrowed kernels: the mean of the factors of their rows, shrunk towards
 * 1 as by half a row. */
static void network_time_set_factors(const struct task *task) {
	for (int d = 0; d < task->fit->owners; d++) {
		double sum = 0, rows = 0.5;
		for (size_t i = 0; i < task->count; i++) {
			if (task->rows[i].device != task->fit->own[d].device) continue;
			sum += factor_of_row(&task->fit->model, &task->rows[i]);
			rows++;
		}
		task->fit->own[d].factor = exp(sum / rows);
	}
}

double lk_network_predict(const lk_network_fit *fit, const lk_network_row *row) {
	for (int d = 0; d < fit->owners && row->work->borrowed; d++)
		if (fit->own[d].device == row->device)
			return with_factor(&fit->model, row->work, fit->own[d].factor);
	return lk_network_seconds(&fit->model, row->work);
}

static double network_time_objective(const double *x, void *context) {
	const struct task *task = context;
	double sum = 0, far = 0;
	task->fit->model = model_from(x);
	network_time_set_factors(task);
	for (size_t i = 0; i < task->count; i++)
		sum += fabs(log(lk_network_predict(task->fit, &task->rows[i]) / task->rows[i].seconds));
	for (int i = 0; i < LK_NETWORK_NUMBERS; i++) {
		double off = log(x[i] / numbers[i].usual) / numbers[i].spread;
		far += off * off;
	}
	return sum / (double)task->count + 0.002 * far;
}

static void find_devices(const struct task *task) {
	lk_network_fit *fit = task->fit;
	for (size_t i = 0; i < task->count; i++) {
		if (!task->rows[i].work->borrowed) continue;
		int d = 0;
		while (d < fit->owners && fit->own[d].device != task->rows[i].device) d++;
		if (d == fit->owners && d < (int)(sizeof fit->own / sizeof *fit->own)) {
			fit->own[d].device = task->rows[i].device;
			fit->own[fit->owners++].factor = 1;
		}
	}
}

void lk_network_fit_rows(const lk_network_row *rows, size_t count, lk_network_fit *out) {
	lk_fit_number search[LK_NETWORK_NUMBERS];
	double x[LK_NETWORK_NUMBERS];
	struct task t = {rows, count, out};
	*out = (lk_network_fit){.model = lk_network_usual()};
	if (count == 0) return;
	find_devices(&t);
	for (int i = 0; i < LK_NETWORK_NUMBERS; i++)
		search[i] = (lk_fit_number){numbers[i].name, numbers[i].usual, numbers[i].low,
		                            numbers[i].high, true};
	lk_fit_simplex(search, LK_NETWORK_NUMBERS, 3000, network_time_objective, &t, x, NULL);
	out->model = model_from(x);
	network_time_set_factors(&t);
}

/* ---- as rows of a calibration ---- */

lk_status lk_network_write(const lk_network_fit *fit, int points, double error, const char *source,
                           const char *date, lk_calibration *into, lk_error *err) {
	const lk_network_model *model = &fit->model;
	const double x[LK_NETWORK_NUMBERS] = {model->gap_s * 1e6, model->products,      model->passes,
	                                      model->host,        model->fetch_s * 1e6, model->squeeze};
	lk_calibration_row *row = lk_calibration_add(into, "network", "all", "fp32");
	if (!row) return lk_oom(err);
	for (int i = 0; i < LK_NETWORK_NUMBERS; i++) lk_calibration_put(row, numbers[i].name, x[i]);
	row->points = points;
	row->error = error;
	row->source = source;
	row->date = date;
	for (int d = 0; d < fit->owners; d++) {
		row = lk_calibration_add(into, "network", fit->own[d].device->name, "fp32");
		if (!row) return lk_oom(err);
		lk_calibration_put(row, "factor", fit->own[d].factor);
		row->source = source;
		row->date = date;
	}
	return LK_OK;
}

void lk_network_read(const lk_calibration *calibration, lk_network_fit *out) {
	const lk_calibration_row *all = lk_calibration_find(calibration, "network", "all", "fp32");
	double x[LK_NETWORK_NUMBERS];
	for (int i = 0; i < LK_NETWORK_NUMBERS; i++) {
		double value = lk_calibration_value(all, numbers[i].name, numbers[i].usual);
		x[i] = fmin(fmax(value, numbers[i].low), numbers[i].high);
	}
	*out = (lk_network_fit){.model = model_from(x)};
	const int room = sizeof out->own / sizeof *out->own;
	for (size_t i = 0; i < calibration->rows.count && out->owners < room; i++) {
		const lk_calibration_row *row = &calibration->rows.at[i];
		if (strcmp(row->family, "network") != 0 || strcmp(row->subject, "all") == 0) continue;
		out->own[out->owners].device = lk_device_find(row->subject);
		out->own[out->owners++].factor =
			fmin(fmax(lk_calibration_value(row, "factor", 1), 0.1), 10);
	}
}
