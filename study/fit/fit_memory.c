/* fit_memory.c: a simplex search over the numbers of the memory model. It minimises
 *
 *     mean w |ln(predicted / measured)| + 0.0005 sum (ln(x / usual) / 1.5)^2
 *
 * The second term fixes what the points do not determine. Calls under 10 us have a quarter of the
 * weight: tables state them in whole microseconds. */
#include "base/arena.h"
#include "fit/fits.h"

#include <math.h>

#include "base/check.h"
#include "base/fit.h"

enum { SAMPLE = 400, EVALUATIONS_FLAT = 1200, EVALUATIONS_ROWS = 4000 };

/* Use every stride-th point: the surface is smooth in its parameters. */
struct task {
	const lk_memory_group *group;
	size_t stride;
};

static double miss_of(const lk_memory_group *group, const lk_memory_model *model,
                      const lk_memory_point *point) {
	LK_ASSERT(point->seconds > 0);
	lk_memory_work work =
		lk_memory_work_of(group->kernel, point->rows, point->width, lk_dtype_bytes(group->dtype));
	return fabs(log(lk_memory_seconds(model, group->device, &work) / point->seconds));
}

static double far_from_usual(const double *x, const lk_memory_kernel *kernel) {
	double sum = 0;
	for (int i = 0; i < LK_MEMORY_NUMBERS; i++) {
		const lk_memory_number *number = &lk_memory_numbers[i];
		if (!number->ratio || !lk_memory_number_applies(number, kernel)) continue;
		double off = log(x[i] / number->usual) / 1.5;
		sum += off * off;
	}
	return 0.0005 * sum;
}

static double memory_objective(const double *x, void *context) {
	const struct task *task = context;
	lk_memory_model model = lk_memory_model_from(x);
	double sum = 0, weights = 0;
	for (size_t i = 0; i < task->group->count; i += task->stride) {
		const lk_memory_point *point = &task->group->points[i];
		double weight = point->seconds < 10e-6 ? 0.25 : 1;
		sum += weight * miss_of(task->group, &model, point);
		weights += weight;
	}
	return sum / weights + far_from_usual(x, task->group->kernel);
}

/* Shortest call: it is near the floor, whatever the other calls are. */
static double shortest_us(const lk_memory_group *group) {
	double least = INFINITY;
	for (size_t i = 0; i < group->count; i++) least = fmin(least, group->points[i].seconds);
	return least * 1e6;
}

lk_memory_model lk_memory_fit(const lk_memory_group *group) {
	struct task t = {group, (group->count + SAMPLE - 1) / SAMPLE};
	lk_fit_number numbers[LK_MEMORY_NUMBERS];
	double x[LK_MEMORY_NUMBERS], shortest = shortest_us(group);
	for (int i = 0; i < LK_MEMORY_NUMBERS; i++) {
		const lk_memory_number *number = &lk_memory_numbers[i];
		double start = number->unit == 1e-6 && !number->rows ? shortest : number->usual;
		start = fmin(fmax(start, number->low * 1.01), number->high * 0.99);
		numbers[i] = (lk_fit_number){number->name, start, number->low, number->high, number->ratio};
		if (!lk_memory_number_applies(number, group->kernel))
			numbers[i].start = numbers[i].low = numbers[i].high = number->usual;
	}
	bool flat = group->kernel->grid == LK_GRID_FLAT;
	lk_fit_simplex(numbers, LK_MEMORY_NUMBERS, flat ? EVALUATIONS_FLAT : EVALUATIONS_ROWS,
	               memory_objective, &t, x, NULL);
	return lk_memory_model_from(x);
}

double lk_memory_fit_error(const lk_memory_group *group, const lk_memory_model *model) {
	double sum = 0;
	for (size_t i = 0; i < group->count; i++) sum += miss_of(group, model, &group->points[i]);
	return group->count ? expm1(sum / (double)group->count) : NAN;
}

lk_status lk_memory_fit_row(lk_calibration *into, const lk_memory_group *group,
                            const lk_memory_model *model, const char *source, const char *date,
                            lk_error *err) {
	const char *variant =
		lk_arena_printf(&into->arena, "%s %s", group->kernel->name, lk_dtype_name(group->dtype));
	lk_calibration_row *row =
		variant ? lk_calibration_add(into, "memory", group->device->name, variant) : NULL;
	if (!row) return lk_oom(err);
	double x[LK_MEMORY_NUMBERS];
	lk_memory_model_list(model, x);
	for (int i = 0; i < LK_MEMORY_NUMBERS; i++)
		if (lk_memory_number_applies(&lk_memory_numbers[i], group->kernel))
			lk_calibration_put(row, lk_memory_numbers[i].name, x[i]);
	row->points = (int)group->count;
	row->error = lk_memory_fit_error(group, model);
	row->source = source;
	row->date = date;
	return LK_OK;
}

int lk_memory_fit_numbers(const lk_memory_kernel *kernel) {
	int count = 0;
	for (int i = 0; i < LK_MEMORY_NUMBERS; i++)
		count += lk_memory_number_applies(&lk_memory_numbers[i], kernel);
	return count;
}
