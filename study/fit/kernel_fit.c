/* kernel_fit.c: the numbers of kernel laws from tables of isolated kernels, series by series: a
 * simplex search for the least mean |ln(predicted / measured)| over an even sample of the rows. */
#include "base/arena.h"
#include "fit/fits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/fit.h"
#include "base/sort.h"
#include "base/stats.h"
#include "system/parallel.h"

enum { SAMPLE = 700, EVALUATIONS = 120 /* per number */, LEAST_ROWS = 20 };

/* ---- series ---- */

static int compare_words(const lk_law_series *a, const lk_law_series *b) {
	const char *of_a[] = {a->kind, a->format, a->kernel, a->library, a->release},
			   *of_b[] = {b->kind, b->format, b->kernel, b->library, b->release};
	for (size_t i = 0; i < sizeof of_a / sizeof *of_a; i++) {
		int order = strcmp(of_a[i], of_b[i]);
		if (order != 0) return order;
	}
	return (int)a->sustained - (int)b->sustained;
}

static int by_series(const void *a, const void *b) {
	const lk_kernel_row *x = *(const lk_kernel_row *const *)a,
						*y = *(const lk_kernel_row *const *)b;
	int order = strcmp(x->gpu, y->gpu);
	if (order == 0) order = strcmp(x->law->family, y->law->family);
	return order != 0 ? order : compare_words(&x->series, &y->series);
}

lk_status lk_kernel_groups_of(lk_arena *arena, const lk_kernel_rows *rows, lk_kernel_group **groups,
                              size_t *count, lk_error *err) {
	const lk_kernel_row **sorted = LK_ARRAY(arena, const lk_kernel_row *, rows->count + 1);
	*groups = LK_ARRAY(arena, lk_kernel_group, rows->count + 1);
	*count = 0;
	if (!sorted || !*groups) return lk_oom(err);
	size_t used = 0;
	for (size_t i = 0; i < rows->count; i++)
		if (!*rows->at[i].refused) sorted[used++] = &rows->at[i];
	lk_sort(sorted, used, sizeof *sorted, by_series);
	for (size_t i = 0; i < used; i++) {
		bool first = i == 0 || by_series(&sorted[i - 1], &sorted[i]) != 0;
		if (first) (*groups)[(*count)++] = (lk_kernel_group){.rows = sorted + i};
		(*groups)[*count - 1].count++;
	}
	return LK_OK;
}

/* ---- a fit ---- */

int lk_kernel_fold(const lk_kernel_row *row) {
	return (int)(lk_hash64(row->shape) % LK_KERNEL_FOLDS);
}

struct sample {
	const lk_law *law;
	const lk_kernel_row *rows[SAMPLE];
	int count;
};

static double sample_error(const double *x, void *context) {
	const struct sample *sample = context;
	double sum = 0, outlier = sample->law->outlier;
	for (int i = 0; i < sample->count; i++) {
		const lk_kernel_row *row = sample->rows[i];
		double one = fabs(log(sample->law->seconds(x, &row->call) / row->seconds));
		sum += outlier > 0 ? outlier * log1p(one / outlier) : one;
	}
	return sample->count ? sum / sample->count : 0;
}

/* An even sample of the rows outside a fold. */
static void draw(const lk_kernel_group *group, int without, struct sample *out) {
	size_t fitting = 0, seen = 0;
	out->count = 0;
	for (size_t i = 0; i < group->count; i++) fitting += lk_kernel_fold(group->rows[i]) != without;
	for (size_t i = 0; i < group->count && out->count < SAMPLE; i++) {
		if (lk_kernel_fold(group->rows[i]) == without) continue;
		if (lk_uniform(1, seen++) * (double)fitting < SAMPLE)
			out->rows[out->count++] = group->rows[i];
	}
}

lk_status lk_kernel_fit(const lk_kernel_group *group, int without, double *numbers, lk_error *err) {
	struct sample *sample = malloc(sizeof *sample);
	if (!sample) return lk_oom(err);
	sample->law = group->rows[0]->law;
	draw(group, without, sample);
	lk_fit_simplex(sample->law->numbers, sample->law->count, EVALUATIONS * sample->law->count,
	               sample_error, sample, numbers, NULL);
	free(sample);
	return LK_OK;
}

static double miss(const lk_kernel_row *row, const double *numbers) {
	return fabs(log(row->law->seconds(numbers, &row->call) / row->seconds));
}

/* ---- every row from the rows of other shapes ---- */

struct crossing {
	const lk_kernel_group *groups;
	const lk_kernel_row *first;
	double *seconds;
};

static lk_status cross_group(void *context, size_t job, lk_error *err) {
	const struct crossing *crossing = context;
	const lk_kernel_group *group = &crossing->groups[job / LK_KERNEL_FOLDS];
	int fold = (int)(job % LK_KERNEL_FOLDS);
	double numbers[LK_LAW_NUMBERS];
	if (group->count < LEAST_ROWS) return LK_OK;
	LK_TRY(lk_kernel_fit(group, fold, numbers, err));
	for (size_t i = 0; i < group->count; i++) {
		const lk_kernel_row *row = group->rows[i];
		if (lk_kernel_fold(row) == fold)
			crossing->seconds[row - crossing->first] = row->law->seconds(numbers, &row->call);
	}
	return LK_OK;
}

lk_status lk_kernel_cross(const lk_kernel_rows *rows, const lk_kernel_group *groups, size_t count,
                          double *seconds, lk_error *err) {
	struct crossing crossing = {groups, rows->at, seconds};
	return lk_parallel(count * LK_KERNEL_FOLDS, 0, cross_group, &crossing, err);
}

/* ---- rows of a calibration ---- */

struct fitting {
	const lk_kernel_group *groups;
	double (*numbers)[LK_LAW_NUMBERS];
};

static lk_status fit_group(void *context, size_t job, lk_error *err) {
	struct fitting *fitting = context;
	const lk_kernel_group *group = &fitting->groups[job];
	return group->count < LEAST_ROWS ? LK_OK : lk_kernel_fit(group, -1, fitting->numbers[job], err);
}

static lk_status put_group(const lk_kernel_group *group, const double *numbers, double *misses,
                           const lk_calibration_row *like, lk_calibration *out, lk_error *err) {
	const lk_kernel_row *first = group->rows[0];
	const char *variant = lk_law_variant(&out->arena, &first->series);
	lk_calibration_row *row = NULL;
	if (variant)
		row = lk_calibration_add(out, first->law->family, first->call.device->name, variant);
	if (!row) return lk_oom(err);
	double sum = 0;
	for (size_t i = 0; i < group->count; i++) sum += misses[i] = miss(group->rows[i], numbers);
	for (int i = 0; i < first->law->count; i++)
		lk_calibration_put(row, first->law->numbers[i].name, numbers[i]);
	lk_sort(misses, group->count, sizeof *misses, lk_ascending);
	lk_calibration_put(row, "spread", misses[group->count * 8 / 10]);
	row->points = (int)group->count;
	row->error = expm1(sum / (double)group->count);
	row->source = like->source;
	row->date = like->date;
	return LK_OK;
}

lk_status lk_kernel_fit_rows(const lk_kernel_rows *rows, const char *source, const char *date,
                             lk_calibration *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_kernel_group *groups;
	size_t count;
	lk_calibration_row like = {.source = lk_arena_strdup(&out->arena, source),
	                           .date = lk_arena_strdup(&out->arena, date)};
	lk_status status = lk_kernel_groups_of(&arena, rows, &groups, &count, err);
	struct fitting fitting = {0};
	double *misses = NULL;
	if (status == LK_OK) {
		fitting.groups = groups;
		fitting.numbers = lk_arena_array(&arena, count + 1, sizeof *fitting.numbers);
		misses = LK_ARRAY(&arena, double, rows->count + 1);
		if (!fitting.numbers || !misses || !like.source || !like.date) status = lk_oom(err);
	}
	if (status == LK_OK) status = lk_parallel(count, 0, fit_group, &fitting, err);
	for (size_t g = 0; status == LK_OK && g < count; g++)
		if (groups[g].count >= LEAST_ROWS)
			status = put_group(&groups[g], fitting.numbers[g], misses, &like, out, err);
	lk_arena_free(&arena);
	return status;
}
