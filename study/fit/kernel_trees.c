/* kernel_trees.c: learned corrections of kernel laws: boosted trees over the logarithm of measured
 * over the law's seconds, for all series and devices of a part of a law together, so that what they
 * learn carries to series and devices without rows. */
#include "base/arena.h"
#include "fit/fits.h"

#include <math.h>
#include <string.h>

#include "base/stats.h"

enum { ROWS = 60000, ROWS_PER_TREE = 150, TREES_LEAST = 2, TREES = 400 };

int lk_kernel_fold(const lk_kernel_row *row) {
	return (int)(lk_hash64(row->shape) % LK_KERNEL_FOLDS);
}

bool lk_kernel_part_has(const lk_kernel_part *part, const lk_kernel_group *group) {
	const lk_law_series *series = &group->rows[0]->series;
	size_t length = lk_law_part_length(part->series);
	return group->rows[0]->law == part->law && lk_law_part_length(series) == length &&
	       strncmp(series->kind, part->series->kind, length) == 0;
}

size_t lk_kernel_parts(const lk_kernel_group *groups, size_t count, size_t *first) {
	size_t parts = 0;
	for (size_t g = 0; g < count; g++) {
		bool known = groups[g].rows[0]->law->features == 0;
		for (size_t p = 0; p < parts && !known; p++) {
			const lk_kernel_row *row = groups[first[p]].rows[0];
			known = lk_kernel_part_has(&(lk_kernel_part){.law = row->law, .series = &row->series},
			                           &groups[g]);
		}
		if (!known) first[parts++] = g;
	}
	return parts;
}

/* An even sample of the rows that count, as inputs and targets; their number. Without x, how many
 * rows count. */
static size_t gather(const lk_kernel_part *part, int without, const lk_device *without_device,
                     double share, float *x, float *target) {
	size_t seen = 0, kept = 0, width = (size_t)part->law->features;
	for (size_t g = 0; g < part->count; g++) {
		const lk_kernel_group *group = &part->groups[g];
		const double *numbers = part->numbers[g];
		if (!(numbers[0] > 0) || !lk_kernel_part_has(part, group) ||
		    group->rows[0]->call.device == without_device)
			continue;
		for (size_t i = 0; i < group->count; i++) {
			const lk_kernel_row *row = group->rows[i];
			if (lk_kernel_fold(row) == without || lk_uniform(2, seen++) >= share) continue;
			if (x) {
				row->law->describe(numbers, &row->call, &row->series, x + kept * width);
				target[kept] = (float)log(row->seconds / row->law->seconds(numbers, &row->call));
			}
			kept++;
		}
	}
	return kept;
}

lk_status lk_kernel_trees_fit(lk_arena *arena, const lk_kernel_part *part, int without,
                              const lk_device *without_device, lk_trees *out, lk_error *err) {
	lk_arena room = LK_ARENA_INIT;
	size_t all = gather(part, without, without_device, 1, NULL, NULL);
	double share = all > ROWS ? (double)ROWS / (double)all : 1;
	size_t rows = gather(part, without, without_device, share, NULL, NULL);
	*out = (lk_trees){0};
	if (rows / ROWS_PER_TREE < TREES_LEAST) return LK_OK;
	float *x = LK_ARRAY(&room, float, rows *(size_t)part->law->features),
		  *target = LK_ARRAY(&room, float, rows);
	lk_trees_options options = {.rate = .15, .sample = .5, .rows = 8, .limit = .5};
	options.count = rows / ROWS_PER_TREE < TREES ? (int)(rows / ROWS_PER_TREE) : TREES;
	lk_status status = LK_OK;
	if (!x || !target) {
		status = lk_oom(err);
	} else {
		gather(part, without, without_device, share, x, target);
		status = lk_trees_fit(arena, x, target, rows, part->law->features, &options, out, err);
	}
	lk_arena_free(&room);
	return status;
}
