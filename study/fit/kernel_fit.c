/* kernel_fit.c: the numbers of kernel laws from tables of isolated kernels, series by series: a
 * simplex search for the least mean |ln(predicted / measured)| over an even sample of the rows.
 * Then trees for each part of a law learn what it misses, over all series and devices together. */
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

enum { SAMPLE = 400, EVALUATIONS_PER_NUMBER = 60, LEAST_ROWS = 20 };
/* Of the trees of one part. */
enum { ROWS_PER_TREE = 150, TREES = 100, TREE_ROWS = 70000, TREE_SAMPLE = 12000 };

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
		double miss = fabs(log(sample->law->seconds(x, &row->call) / row->seconds));
		sum += outlier > 0 ? outlier * log1p(miss / outlier) : miss;
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
	const lk_law *law = group->rows[0]->law;
	struct sample *sample = malloc(sizeof *sample);
	double least;
	if (!sample) return lk_oom(err);
	sample->law = law;
	draw(group, without, sample);
	lk_fit_simplex(law->numbers, law->count, EVALUATIONS_PER_NUMBER * law->count, sample_error,
	               sample, numbers, &least);
	reset_undetermined(sample, numbers, least);
	free(sample);
	return LK_OK;
}

/* ---- laws and trees of all groups ---- */

struct learned {
	const lk_law *law;
	lk_law_part part;
	lk_trees trees;
};

struct model {
	const lk_kernel_group *groups; /* [count] */
	size_t count;
	int without;                       /* the fold; -1: none */
	const lk_device *without_device;   /* of the trees; NULL: none */
	double (*numbers)[LK_LAW_NUMBERS]; /* [count] */
	struct learned **learned;          /* [parts] */
	size_t parts;
	int *part;       /* [count] of each group */
	lk_arena *rooms; /* [parts] of their trees */
};

static lk_status fit_numbers_job(void *context, size_t job, lk_error *err) {
	struct model *model = context;
	const lk_kernel_group *group = &model->groups[job];
	if (group->count < LEAST_ROWS) return LK_OK;
	return lk_kernel_fit(group, model->without, model->numbers[job], err);
}

static bool learns(const struct model *model, size_t g, size_t part) {
	const lk_kernel_group *group = &model->groups[g];
	return model->part[g] == (int)part && group->count >= LEAST_ROWS &&
	       group->rows[0]->call.device != model->without_device;
}

/* A sample of the rows outside the fold, as features and what the law misses; their number. */
static size_t gather(const struct model *model, size_t part, size_t all, float *x, float *left) {
	size_t rows = 0, seen = 0, features = (size_t)model->learned[part]->law->features;
	for (size_t g = 0; g < model->count; g++) {
		if (!learns(model, g, part)) continue;
		const double *numbers = model->numbers[g];
		for (size_t i = 0; i < model->groups[g].count && rows < TREE_ROWS; i++) {
			const lk_kernel_row *row = model->groups[g].rows[i];
			if (lk_kernel_fold(row) == model->without) continue;
			if (lk_uniform(2, seen++) * (double)all >= TREE_ROWS) continue;
			left[rows] = (float)log(row->seconds / row->law->seconds(numbers, &row->call));
			row->law->describe(numbers, &row->call, &row->series, x + rows * features);
			rows++;
		}
	}
	return rows;
}

static lk_status fit_trees_job(void *context, size_t job, lk_error *err) {
	struct model *model = context;
	struct learned *learned = model->learned[job];
	lk_arena room = LK_ARENA_INIT;
	size_t all = 0, features = (size_t)learned->law->features;
	for (size_t g = 0; g < model->count; g++)
		if (learns(model, g, job)) all += model->groups[g].count;
	if (all == 0 || features == 0) return LK_OK;
	size_t most = all < TREE_ROWS ? all : TREE_ROWS;
	float *x = LK_ARRAY(&room, float, most *features), *left = LK_ARRAY(&room, float, most);
	lk_status status = x && left ? LK_OK : lk_oom(err);
	if (status == LK_OK) {
		size_t rows = gather(model, job, all, x, left);
		lk_trees_options options = {.rate = .3, .rows = 6, .limit = .8};
		options.sample = rows > 2 * TREE_SAMPLE ? (double)TREE_SAMPLE / (double)rows : .5;
		options.count = rows / ROWS_PER_TREE < TREES ? (int)(rows / ROWS_PER_TREE) : TREES;
		status = lk_trees_fit(&model->rooms[job], x, left, rows, (int)features, &options,
		                      &learned->trees, err);
	}
	lk_arena_free(&room);
	return status;
}

static lk_status add_part(lk_arena *arena, struct model *model, size_t g, lk_error *err) {
	const lk_kernel_row *first = model->groups[g].rows[0];
	const lk_law_part of = lk_law_part_of(&first->series);
	size_t part = 0;
	while (part < model->parts && (model->learned[part]->law != first->law ||
	                               strcmp(model->learned[part]->part.name, of.name) != 0))
		part++;
	model->part[g] = (int)part;
	if (part < model->parts) return LK_OK;
	struct learned *made = LK_NEW(arena, struct learned);
	if (!made) return lk_oom(err);
	*made = (struct learned){first->law, of, {0}};
	model->learned[model->parts++] = made;
	return LK_OK;
}

static void model_free(struct model *model) {
	for (size_t p = 0; model->rooms && p < model->parts; p++) lk_arena_free(&model->rooms[p]);
}

/* Free in every case. */
static lk_status model_begin(lk_arena *arena, const lk_kernel_group *groups, size_t count,
                             int without, struct model *out, lk_error *err) {
	*out = (struct model){.groups = groups, .count = count, .without = without};
	out->numbers = lk_arena_array(arena, count + 1, sizeof *out->numbers);
	out->learned = LK_ARRAY(arena, struct learned *, count + 1);
	out->part = LK_ARRAY(arena, int, count + 1);
	out->rooms = LK_ARRAY(arena, lk_arena, count + 1);
	if (!out->numbers || !out->learned || !out->part || !out->rooms) return lk_oom(err);
	for (size_t g = 0; g < count; g++) LK_TRY(add_part(arena, out, g, err));
	return LK_OK;
}

/* Fit to the rows outside a fold; free in every case. */
static lk_status model_fit(lk_arena *arena, const lk_kernel_group *groups, size_t count,
                           int without, struct model *out, lk_error *err) {
	LK_TRY(model_begin(arena, groups, count, without, out, err));
	LK_TRY(lk_parallel(count, 0, fit_numbers_job, out, err));
	return lk_parallel(out->parts, 0, fit_trees_job, out, err);
}

static double model_seconds(const struct model *model, size_t g, const lk_kernel_row *row) {
	return lk_law_learned(&model->learned[model->part[g]]->trees, row->law, model->numbers[g],
	                      &row->series, &row->call);
}

/* ---- every row from the rows of other shapes ---- */

/* Fill seconds[row] of the fold's rows. */
static lk_status cross_fold(const lk_kernel_row *first, const lk_kernel_group *groups, size_t count,
                            int fold, double *seconds, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct model model;
	lk_status status = model_fit(&arena, groups, count, fold, &model, err);
	for (size_t g = 0; status == LK_OK && g < count; g++)
		for (size_t i = 0; groups[g].count >= LEAST_ROWS && i < groups[g].count; i++) {
			const lk_kernel_row *row = groups[g].rows[i];
			if (lk_kernel_fold(row) == fold) seconds[row - first] = model_seconds(&model, g, row);
		}
	model_free(&model);
	lk_arena_free(&arena);
	return status;
}

lk_status lk_kernel_cross(const lk_kernel_rows *rows, const lk_kernel_group *groups, size_t count,
                          double *seconds, lk_error *err) {
	for (int fold = 0; fold < LK_KERNEL_FOLDS; fold++)
		LK_TRY(cross_fold(rows->at, groups, count, fold, seconds, err));
	return LK_OK;
}

/* ---- every row from other devices ---- */

static bool runs_on(const struct model *model, const lk_device *device) {
	for (size_t g = 0; g < model->count; g++)
		if (model->groups[g].rows[0]->call.device == device) return true;
	return false;
}

/* Fill seconds[row] of a device: numbers in use of others, trees fitted to others. */
static lk_status cross_device(struct model *model, const lk_device *device,
                              const lk_kernel_row *first, double *seconds, lk_error *err) {
	model->without_device = device;
	LK_TRY(lk_parallel(model->parts, 0, fit_trees_job, model, err));
	for (size_t g = 0; g < model->count; g++) {
		const lk_kernel_group *group = &model->groups[g];
		const lk_kernel_row *row = group->rows[0];
		lk_law_fit fit;
		if (row->call.device != device ||
		    !lk_law_find(row->law, device, &row->series, device, &fit))
			continue;
		const lk_trees *trees =
			fit.basis <= LK_LAW_CARRIES ? &model->learned[model->part[g]]->trees : NULL;
		for (size_t i = 0; i < group->count; i++) {
			row = group->rows[i];
			seconds[row - first] =
				lk_law_learned(trees, row->law, fit.numbers, &row->series, &row->call);
		}
	}
	return LK_OK;
}

lk_status lk_kernel_cross_devices(const lk_kernel_rows *rows, const lk_kernel_group *groups,
                                  size_t count, double *seconds, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct model model;
	lk_status status = model_begin(&arena, groups, count, -1, &model, err);
	for (size_t g = 0; status == LK_OK && g < count; g++) {
		const lk_kernel_row *row = groups[g].rows[0];
		lk_law_fit fit;
		if (lk_law_find(row->law, row->call.device, &row->series, NULL, &fit))
			memcpy(model.numbers[g], fit.numbers, sizeof fit.numbers);
	}
	for (int d = 0; status == LK_OK && d < lk_device_count(); d++)
		if (runs_on(&model, lk_device_at(d)))
			status = cross_device(&model, lk_device_at(d), rows->at, seconds, err);
	model_free(&model);
	lk_arena_free(&arena);
	return status;
}

/* ---- rows of a calibration ---- */

enum { SPREAD_FOLD = 0, LEAST_MISSES = 5 };

struct misses {
	LK_VEC(double) at;
};

static bool add_miss(struct misses *misses, double predicted, double measured) {
	if (!lk_push(&misses->at)) return false;
	*lk_last(&misses->at) = fabs(log(predicted / measured));
	return true;
}

/* The 80 % quantile. */
static double misses_spread(struct misses *misses) {
	lk_sort(misses->at.at, misses->at.count, sizeof *misses->at.at, lk_ascending);
	return misses->at.at[misses->at.count * 8 / 10];
}

/* A row for the series; its spread is of the shapes that `seconds` has predicted without. */
static lk_status put_group(const struct model *model, size_t g, const lk_kernel_row *rows,
                           const double *seconds, const lk_calibration_row *like,
                           lk_calibration *out, lk_error *err) {
	const lk_kernel_group *group = &model->groups[g];
	const lk_kernel_row *first = group->rows[0];
	const char *variant = lk_law_variant(&out->arena, &first->series);
	struct misses misses = {0};
	lk_calibration_row *row = NULL;
	double sum = 0;
	bool enough = variant != NULL;
	for (size_t i = 0; enough && i < group->count; i++) {
		const lk_kernel_row *of = group->rows[i];
		double left_out = seconds[of - rows];
		sum += fabs(log(model_seconds(model, g, of) / of->seconds));
		if (left_out > 0) enough = add_miss(&misses, left_out, of->seconds);
	}
	if (enough)
		row = lk_calibration_add(out, first->law->family, first->call.device->name, variant);
	if (row) {
		for (int i = 0; i < first->law->count; i++)
			lk_calibration_put(row, first->law->numbers[i].name, model->numbers[g][i]);
		double fitted = 1.3 * sum / (double)group->count; /* without shapes left out */
		lk_calibration_put(row, "spread",
		                   misses.at.count >= LEAST_MISSES ? misses_spread(&misses) : fitted);
		row->points = (int)group->count;
		row->error = expm1(sum / (double)group->count);
		row->source = like->source;
		row->date = like->date;
	}
	lk_vec_free(&misses.at);
	return row ? LK_OK : lk_oom(err);
}

static lk_status put_trees(const struct model *model, const lk_calibration_row *like,
                           lk_calibration *out, lk_error *err) {
	for (size_t p = 0; p < model->parts; p++) {
		const struct learned *learned = model->learned[p];
		if (learned->trees.count == 0) continue;
		const char *part = lk_arena_strdup(&out->arena, learned->part.name);
		lk_calibration_row *row =
			part ? lk_calibration_add(out, "trees", learned->law->family, part) : NULL;
		if (!row || !(row->text = lk_trees_text(&out->arena, &learned->trees))) return lk_oom(err);
		for (size_t g = 0; g < model->count; g++)
			if (learns(model, g, p)) row->points += (int)model->groups[g].count;
		row->error = NAN;
		row->source = like->source;
		row->date = like->date;
	}
	return LK_OK;
}

/* ---- how far measurements are from the numbers of other rows ---- */

struct left_out {
	const lk_law_entry *own; /* the series' own entry */
	lk_law_basis basis;
};

static bool leave_out(const lk_law_entry *entry, const void *context) {
	const struct left_out *left = context;
	const lk_law_series none = {"", "", "", "", "", false};
	if (entry == left->own) return true;
	if (left->basis == LK_LAW_SERIES) return entry->device != left->own->device;
	return entry->device == left->own->device ||
	       lk_law_basis_of(entry, left->own->device, &none) != left->basis;
}

static const lk_law_entry *entry_of(const lk_law_entries *entries, const lk_kernel_row *row) {
	for (int i = 0; i < entries->count; i++)
		if (entries->at[i].law == row->law && entries->at[i].device == row->call.device) {
			const lk_law_series *series = &entries->at[i].series;
			if (compare_words(series, &row->series) == 0) return &entries->at[i];
		}
	return NULL;
}

/* Add what the nearest entry of the basis misses of a group's rows; every tenth of them. */
static bool add_farther(const lk_law_entries *entries, const lk_kernel_group *group,
                        lk_law_basis basis, struct misses *out) {
	const lk_kernel_row *first = group->rows[0];
	struct left_out left = {entry_of(entries, first), basis};
	double numbers[LK_LAW_NUMBERS];
	if (!left.own) return true;
	const lk_law_entry *from =
		lk_law_nearest(entries, first->law, first->call.device, &first->series, leave_out, &left);
	if (!from) return true;
	lk_law_numbers_on(from, first->call.device, numbers);
	for (size_t i = 0; i < group->count; i += 10) {
		const lk_kernel_row *row = group->rows[i];
		if (!add_miss(out, row->law->seconds(numbers, &row->call), row->seconds)) return false;
	}
	return true;
}

/* A row of one law and basis: of a part, or of all (-1). Entries refer to rows of `out`, which move
 * as rows are added. */
static lk_status put_farther(lk_arena *arena, const struct model *model, const lk_law *law,
                             int part, lk_law_basis basis, const lk_calibration_row *like,
                             lk_calibration *out, lk_error *err) {
	struct misses misses = {0};
	bool enough = true;
	const lk_law_entries *entries;
	LK_TRY(lk_law_entries_of(out, arena, &entries, err));
	for (size_t g = 0; enough && g < model->count; g++)
		if (model->groups[g].rows[0]->law == law && (part < 0 || model->part[g] == part))
			enough = add_farther(entries, &model->groups[g], basis, &misses);
	lk_calibration_row *row = NULL;
	if (enough && misses.at.count >= LEAST_ROWS) {
		const char *variant =
			lk_arena_printf(&out->arena, "%s%s%s", lk_law_basis_name(basis), part < 0 ? "" : " ",
		                    part < 0 ? "" : model->learned[part]->part.name);
		row = variant ? lk_calibration_add(out, "farther", law->family, variant) : NULL;
		enough = row != NULL;
	}
	if (row) {
		lk_calibration_put(row, "spread", misses_spread(&misses));
		row->points = (int)misses.at.count;
		row->error = NAN;
		row->source = like->source;
		row->date = like->date;
	}
	lk_vec_free(&misses.at);
	return enough ? LK_OK : lk_oom(err);
}

static lk_status put_all_farther(lk_arena *arena, const struct model *model,
                                 const lk_calibration_row *like, lk_calibration *out,
                                 lk_error *err) {
	for (int basis = LK_LAW_SERIES; basis < LK_LAW_BASES; basis++) {
		for (int l = 0; lk_laws[l]; l++)
			LK_TRY(put_farther(arena, model, lk_laws[l], -1, (lk_law_basis)basis, like, out, err));
		for (size_t p = 0; p < model->parts; p++)
			LK_TRY(put_farther(arena, model, model->learned[p]->law, (int)p, (lk_law_basis)basis,
			                   like, out, err));
	}
	return LK_OK;
}

lk_status lk_kernel_fit_rows(const lk_kernel_rows *rows, const char *source, const char *date,
                             lk_calibration *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_kernel_group *groups;
	size_t count;
	struct model model = {0};
	lk_calibration_row like = {.source = lk_arena_strdup(&out->arena, source),
	                           .date = lk_arena_strdup(&out->arena, date)};
	double *seconds = LK_ARRAY(&arena, double, rows->count + 1);
	lk_status status = seconds && like.source && like.date
	                       ? lk_kernel_groups_of(&arena, rows, &groups, &count, err)
	                       : lk_oom(err);
	if (status == LK_OK) status = cross_fold(rows->at, groups, count, SPREAD_FOLD, seconds, err);
	if (status == LK_OK) status = model_fit(&arena, groups, count, -1, &model, err);
	for (size_t g = 0; status == LK_OK && g < count; g++)
		if (groups[g].count >= LEAST_ROWS)
			status = put_group(&model, g, rows->at, seconds, &like, out, err);
	if (status == LK_OK) status = put_trees(&model, &like, out, err);
	if (status == LK_OK) status = put_all_farther(&arena, &model, &like, out, err);
	model_free(&model);
	lk_arena_free(&arena);
	return status;
}
