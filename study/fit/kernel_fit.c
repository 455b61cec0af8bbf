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

enum { SAMPLE = 700, EVALUATIONS_PER_NUMBER = 80, LEAST_ROWS = 20 };

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

struct sample {
	const lk_law *law;
	const lk_kernel_row *rows[SAMPLE];
	int count;
};

static double sample_error(const double *x, void *context) {
	const struct sample *sample = context;
	double sum = 0;
	for (int i = 0; i < sample->count; i++) {
		const lk_kernel_row *row = sample->rows[i];
		sum += fabs(log(sample->law->seconds(x, &row->call) / row->seconds));
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

/* Numbers that rows do not determine, such as the factor of a head size that none has, keep their
 * start. */
static void reset_undetermined(struct sample *sample, double *x, double least) {
	static const double gain = 1e-3;
	for (int i = 0; i < sample->law->count; i++) {
		double found = x[i];
		x[i] = sample->law->numbers[i].start;
		if (!(sample_error(x, sample) <= least * (1 + gain))) x[i] = found;
	}
}

lk_status lk_kernel_fit(const lk_kernel_group *group, int without, double *numbers, lk_error *err) {
	struct sample *sample = malloc(sizeof *sample);
	if (!sample) return lk_oom(err);
	double least;
	sample->law = group->rows[0]->law;
	draw(group, without, sample);
	lk_fit_simplex(sample->law->numbers, sample->law->count,
	               EVALUATIONS_PER_NUMBER * sample->law->count, sample_error, sample, numbers,
	               &least);
	reset_undetermined(sample, numbers, least);
	free(sample);
	return LK_OK;
}

static double miss(const lk_kernel_row *row, const double *numbers, const lk_trees *trees) {
	return fabs(
		log(lk_law_corrected(row->law, numbers, trees, &row->call, &row->series) / row->seconds));
}

/* ---- fits of all groups, and of the corrections of their parts ---- */

struct fitting {
	const lk_kernel_group *groups;
	size_t count;
	int folds;                   /* 1: all rows */
	lk_law_row_numbers *numbers; /* [folds][count] */
	size_t parts, *first;        /* the first group of each part */
	lk_trees *trees;             /* [folds][parts] */
	lk_arena *rooms;             /* [folds][parts] */
	const lk_kernel_row *rows;
	double *seconds; /* of each row, without its fold */
};

static int fold_of(const struct fitting *fitting, size_t job, size_t each) {
	return fitting->folds == 1 ? -1 : (int)(job / each);
}

static lk_status fit_group(void *context, size_t job, lk_error *err) {
	struct fitting *fitting = context;
	const lk_kernel_group *group = &fitting->groups[job % fitting->count];
	if (group->count < LEAST_ROWS) return LK_OK;
	return lk_kernel_fit(group, fold_of(fitting, job, fitting->count), fitting->numbers[job], err);
}

static lk_kernel_part part_of(const struct fitting *fitting, size_t part, size_t fold) {
	const lk_kernel_row *row = fitting->groups[fitting->first[part]].rows[0];
	return (lk_kernel_part){.law = row->law,
	                        .groups = fitting->groups,
	                        .numbers = fitting->numbers + fold * fitting->count,
	                        .count = fitting->count,
	                        .series = &row->series};
}

/* Predict the rows of a part that are in the fold. */
static void cross_part(const struct fitting *fitting, const lk_kernel_part *part, int fold,
                       const lk_trees *trees) {
	for (size_t g = 0; g < part->count; g++) {
		const lk_kernel_group *group = &part->groups[g];
		if (group->count < LEAST_ROWS || !lk_kernel_part_has(part, group)) continue;
		for (size_t i = 0; i < group->count; i++) {
			const lk_kernel_row *row = group->rows[i];
			if (lk_kernel_fold(row) == fold)
				fitting->seconds[row - fitting->rows] =
					lk_law_corrected(row->law, part->numbers[g], trees, &row->call, &row->series);
		}
	}
}

static lk_status fit_part(void *context, size_t job, lk_error *err) {
	struct fitting *fitting = context;
	int fold = fold_of(fitting, job, fitting->parts);
	lk_kernel_part part = part_of(fitting, job % fitting->parts, job / fitting->parts);
	LK_TRY(lk_kernel_trees_fit(&fitting->rooms[job], &part, fold, NULL, &fitting->trees[job], err));
	if (fitting->seconds) cross_part(fitting, &part, fold, &fitting->trees[job]);
	return LK_OK;
}

static lk_status fit_all(lk_arena *arena, struct fitting *fitting, lk_error *err) {
	size_t folds = (size_t)fitting->folds;
	fitting->numbers = LK_ARRAY(arena, lk_law_row_numbers, folds * fitting->count + 1);
	fitting->first = LK_ARRAY(arena, size_t, fitting->count + 1);
	if (!fitting->numbers || !fitting->first) return lk_oom(err);
	fitting->parts = lk_kernel_parts(fitting->groups, fitting->count, fitting->first);
	fitting->trees = LK_ARRAY(arena, lk_trees, folds * fitting->parts + 1);
	fitting->rooms = LK_ARRAY(arena, lk_arena, folds * fitting->parts + 1);
	if (!fitting->trees || !fitting->rooms) return lk_oom(err);
	LK_TRY(lk_parallel(folds * fitting->count, 0, fit_group, fitting, err));
	return lk_parallel(folds * fitting->parts, 0, fit_part, fitting, err);
}

static void free_all(struct fitting *fitting) {
	for (size_t i = 0; fitting->rooms && i < (size_t)fitting->folds * fitting->parts; i++)
		lk_arena_free(&fitting->rooms[i]);
}

/* ---- every row from the rows of other shapes ---- */

/* Groups whose law has no correction belong to no part. */
static void cross_plain(const struct fitting *fitting) {
	for (size_t job = 0; job < fitting->count * LK_KERNEL_FOLDS; job++) {
		const lk_kernel_group *group = &fitting->groups[job % fitting->count];
		if (group->count < LEAST_ROWS || group->rows[0]->law->features > 0) continue;
		for (size_t i = 0; i < group->count; i++) {
			const lk_kernel_row *row = group->rows[i];
			if (lk_kernel_fold(row) == (int)(job / fitting->count))
				fitting->seconds[row - fitting->rows] =
					row->law->seconds(fitting->numbers[job], &row->call);
		}
	}
}

lk_status lk_kernel_cross(const lk_kernel_rows *rows, const lk_kernel_group *groups, size_t count,
                          double *seconds, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct fitting fitting = {.groups = groups,
	                          .count = count,
	                          .folds = LK_KERNEL_FOLDS,
	                          .rows = rows->at,
	                          .seconds = seconds};
	lk_status status = fit_all(&arena, &fitting, err);
	if (status == LK_OK) cross_plain(&fitting);
	free_all(&fitting);
	lk_arena_free(&arena);
	return status;
}

/* ---- every row from other devices ---- */

/* Predict the groups of a part on one device. */
static lk_status cross_device(const struct fitting *fitting, const lk_kernel_part *part,
                              const lk_device *device, lk_error *err) {
	lk_arena room = LK_ARENA_INIT;
	lk_trees *trees = LK_NEW(&room, lk_trees);
	lk_status status =
		trees ? lk_kernel_trees_fit(&room, part, -1, device, trees, err) : lk_oom(err);
	for (size_t g = 0; status == LK_OK && g < part->count; g++) {
		const lk_kernel_group *group = &part->groups[g];
		lk_law_fit fit;
		if (group->rows[0]->call.device != device || !lk_kernel_part_has(part, group) ||
		    !lk_law_find(part->law, device, &group->rows[0]->series, device, &fit))
			continue;
		fit.trees = trees;
		for (size_t i = 0; i < group->count; i++)
			fitting->seconds[group->rows[i] - fitting->rows] =
				lk_law_seconds(&fit, &group->rows[i]->call);
	}
	lk_arena_free(&room);
	return status;
}

static lk_status cross_device_parts(void *context, size_t job, lk_error *err) {
	struct fitting *fitting = context;
	lk_kernel_part part = part_of(fitting, job, 0);
	for (int i = 0; i < lk_device_count(); i++) {
		bool any = false;
		for (size_t g = 0; g < part.count && !any; g++)
			any = part.groups[g].rows[0]->call.device == lk_device_at(i) &&
			      lk_kernel_part_has(&part, &part.groups[g]);
		if (any) LK_TRY(cross_device(fitting, &part, lk_device_at(i), err));
	}
	return LK_OK;
}

lk_status lk_kernel_cross_devices(const lk_kernel_rows *rows, const lk_kernel_group *groups,
                                  size_t count, double *seconds, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct fitting fitting = {
		.groups = groups, .count = count, .folds = 1, .rows = rows->at, .seconds = seconds};
	fitting.numbers = LK_ARRAY(&arena, lk_law_row_numbers, count + 1);
	fitting.first = LK_ARRAY(&arena, size_t, count + 1);
	lk_status status = fitting.numbers && fitting.first ? LK_OK : lk_oom(err);
	for (size_t g = 0; status == LK_OK && g < count; g++) {
		const lk_kernel_row *row = groups[g].rows[0];
		lk_law_fit fit;
		if (lk_law_find(row->law, row->call.device, &row->series, NULL, &fit))
			memcpy(fitting.numbers[g], fit.numbers, sizeof fit.numbers);
	}
	if (status == LK_OK) {
		fitting.parts = lk_kernel_parts(groups, count, fitting.first);
		status = lk_parallel(fitting.parts, 0, cross_device_parts, &fitting, err);
	}
	lk_arena_free(&arena);
	return status;
}

/* ---- rows of a calibration ---- */

/* The correction of a group's part, NULL: none; and one that has not seen the first fold. */
struct corrected {
	const lk_trees *trees, *without_first;
};

static lk_status put_group(const lk_kernel_group *group, const double *numbers,
                           const struct corrected *by, double *misses,
                           const lk_calibration_row *like, lk_calibration *out, lk_error *err) {
	const lk_kernel_row *first = group->rows[0];
	const char *variant = lk_law_variant(&out->arena, &first->series);
	lk_calibration_row *row = NULL;
	if (variant)
		row = lk_calibration_add(out, first->law->family, first->call.device->name, variant);
	if (!row) return lk_oom(err);
	double sum = 0;
	size_t judged = 0;
	for (size_t i = 0; i < group->count; i++) {
		sum += miss(group->rows[i], numbers, by->trees);
		if (!by->trees || lk_kernel_fold(group->rows[i]) == 0)
			misses[judged++] = miss(group->rows[i], numbers, by->without_first);
	}
	for (int i = 0; i < first->law->count; i++)
		lk_calibration_put(row, first->law->numbers[i].name, numbers[i]);
	lk_sort(misses, judged, sizeof *misses, lk_ascending);
	if (judged > 0) lk_calibration_put(row, "spread", misses[judged * 8 / 10]);
	row->points = (int)group->count;
	row->error = expm1(sum / (double)group->count);
	row->source = like->source;
	row->date = like->date;
	return LK_OK;
}

static lk_status put_trees(const struct fitting *fitting, size_t part,
                           const lk_calibration_row *like, lk_calibration *out, lk_error *err) {
	const lk_kernel_row *first = fitting->groups[fitting->first[part]].rows[0];
	const lk_trees *trees = &fitting->trees[part];
	if (trees->count == 0) return LK_OK;
	const char *variant =
				   lk_arena_printf(&out->arena, "%.*s", (int)lk_law_part_length(&first->series),
	                               first->series.kind),
			   *text = lk_trees_text(&out->arena, trees);
	lk_calibration_row *row =
		variant && text ? lk_calibration_add(out, "trees", first->law->family, variant) : NULL;
	if (!row) return lk_oom(err);
	row->text = text;
	row->error = NAN;
	row->source = like->source;
	row->date = like->date;
	lk_kernel_part all = part_of(fitting, part, 0);
	for (size_t g = 0; g < fitting->count; g++)
		if (lk_kernel_part_has(&all, &fitting->groups[g]))
			row->points += (int)fitting->groups[g].count;
	return LK_OK;
}

/* Rows of the groups of a part; `part` at the number of parts: of those without a correction. */
static lk_status put_part(const struct fitting *fitting, size_t part, double *misses,
                          const lk_calibration_row *like, lk_calibration *out, lk_error *err) {
	lk_arena room = LK_ARENA_INIT;
	lk_trees *without_first = LK_NEW(&room, lk_trees);
	struct corrected by = {0};
	lk_kernel_part of = {0};
	lk_status status = without_first ? LK_OK : lk_oom(err);
	if (status == LK_OK && part < fitting->parts) {
		of = part_of(fitting, part, 0);
		by = (struct corrected){&fitting->trees[part], without_first};
		status = lk_kernel_trees_fit(&room, &of, 0, NULL, without_first, err);
	}
	for (size_t g = 0; status == LK_OK && g < fitting->count; g++) {
		const lk_kernel_group *group = &fitting->groups[g];
		bool member = of.law ? lk_kernel_part_has(&of, group) : group->rows[0]->law->features == 0;
		if (member && group->count >= LEAST_ROWS)
			status = put_group(group, fitting->numbers[g], &by, misses, like, out, err);
	}
	if (status == LK_OK && of.law) status = put_trees(fitting, part, like, out, err);
	lk_arena_free(&room);
	return status;
}

lk_status lk_kernel_fit_rows(const lk_kernel_rows *rows, const char *source, const char *date,
                             lk_calibration *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_kernel_group *groups;
	struct fitting fitting = {.folds = 1};
	lk_calibration_row like = {.source = lk_arena_strdup(&out->arena, source),
	                           .date = lk_arena_strdup(&out->arena, date)};
	double *misses = LK_ARRAY(&arena, double, rows->count + 1);
	lk_status status = misses && like.source && like.date ? LK_OK : lk_oom(err);
	if (status == LK_OK) status = lk_kernel_groups_of(&arena, rows, &groups, &fitting.count, err);
	if (status == LK_OK) {
		fitting.groups = groups;
		status = fit_all(&arena, &fitting, err);
	}
	for (size_t part = 0; status == LK_OK && part <= fitting.parts; part++)
		status = put_part(&fitting, part, misses, &like, out, err);
	free_all(&fitting);
	lk_arena_free(&arena);
	return status;
}
