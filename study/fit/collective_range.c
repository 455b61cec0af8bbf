/* collective_range.c: the range of collectives on fabrics that no fit had seen. Of all pairs of a
 * share and a time whose ranges hold 80 % of the rows, take the one with the narrowest ranges, by
 * the mean of their ln. */
#include "fit/fits.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/stats.h"

enum {
	FEWEST = 10, /* rows that a range needs */
	TIMES = 16,
};
static const double held = .8;

/* Ratios of time to share that are tried, us: 0, then 10 to 1280. */
static double range_ratio(int step) {
	return step == 0 ? 0 : 10 * pow(2, (step - 1) / 2.);
}

struct misses {
	double *by, *us, *scaled; /* |ln(predicted / measured)|, predicted time */
	size_t count;
	int nodes; /* largest number of nodes of a row */
};

static void range_narrowest(const struct misses *misses, lk_coll_range *out) {
	double least = INFINITY;
	LK_ASSERT(misses->count >= FEWEST);
	for (int step = 0; step < TIMES; step++) {
		double ratio = range_ratio(step), spread = 0;
		for (size_t i = 0; i < misses->count; i++) {
			double scale = hypot(1, ratio / misses->us[i]);
			misses->scaled[i] = misses->by[i] / scale;
			spread += log(scale);
		}
		double share = lk_quantile(misses->scaled, misses->count, held),
			   width = log(fmax(share, 1e-6)) + spread / (double)misses->count;
		if (!(width < least)) continue;
		least = width;
		*out = (lk_coll_range){.share = share, .us = share * ratio, .nodes = misses->nodes};
	}
}

static bool range_counts(const lk_coll_rows *rows, const lk_coll_row *row, double us,
                         lk_coll_pick without, lk_coll_folds folds) {
	if (!lk_coll_teaches_laws(row) || !(us > 0)) return false;
	if (without && lk_coll_one_fold(row, without, folds)) return false;
	return !lk_coll_no_relatives(rows, row, LK_COLL_FOLDS_FABRIC);
}

static bool range_alike(const lk_coll_row *row, lk_coll_place place, bool messages, bool widely) {
	lk_group_shape group = lk_coll_row_group(row, NULL);
	lk_coll_place own = lk_coll_place_of(&group);
	if (widely) return (own == LK_COLL_NETWORK) == (place == LK_COLL_NETWORK);
	return own == place && messages == lk_coll_is_message(row);
}

lk_status lk_coll_range_fit(const lk_coll_rows *rows, const double *us, lk_coll_place place,
                            bool messages, lk_coll_pick without, lk_coll_folds folds,
                            lk_coll_range *out, int *points, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct misses misses = {
		.by = LK_ARRAY(&arena, double, rows->count + 1),
		.us = LK_ARRAY(&arena, double, rows->count + 1),
		.scaled = LK_ARRAY(&arena, double, rows->count + 1),
	};
	lk_status status = misses.by && misses.us && misses.scaled ? LK_OK : lk_oom(err);
	for (int widely = 0; status == LK_OK && widely < 2 && misses.count < FEWEST; widely++) {
		misses.count = 0;
		misses.nodes = 0;
		for (size_t i = 0; i < rows->count; i++) {
			const lk_coll_row *row = &rows->at[i];
			if (!range_counts(rows, row, us[i], without, folds) ||
			    !range_alike(row, place, messages, widely))
				continue;
			misses.by[misses.count] = fabs(log(us[i] / row->us));
			misses.us[misses.count++] = us[i];
			if (row->nodes > misses.nodes) misses.nodes = row->nodes;
		}
	}
	*points = (int)misses.count;
	if (status == LK_OK && misses.count >= FEWEST) range_narrowest(&misses, out);
	lk_arena_free(&arena);
	return status;
}
