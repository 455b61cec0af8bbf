/* score_noise.c: tails of real step times, P95 and P99 over P50, against those of noise: of the
 * preset of such runs, or with --cross-validate of a fit to the other series of the kind without
 * those of its own cluster; to all others of other clusters where the kind has none left. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/stats.h"
#include "noise/noise.h"
#include "tables/tables.h"
#include "validate/validate.h"

enum { TAILS = 2 };
static const char *const tail_names[TAILS] = {"P95", "P99"};
static const double tail_quantiles[TAILS] = {0.95, 0.99};
static const double POINTS = 0.02; /* of P50: a tail that is right */

typedef struct noise_scoring {
	lk_arena *arena;
	const lk_step_series_set *all;
	bool cross;
} noise_scoring;

static lk_noise_series series_of(const lk_step_series *series) {
	return (lk_noise_series){series->seconds, series->count, series->mean_of};
}

/* Fit to the series of other clusters; *count: how many. `kind` NULL: of all kinds. */
static lk_status fit_others(const noise_scoring *scoring, const lk_step_series *but,
                            const char *kind, lk_noise *out, size_t *count, lk_error *err) {
	lk_noise_series *others = LK_ARRAY(scoring->arena, lk_noise_series, scoring->all->count);
	if (!others) return lk_oom(err);
	*count = 0;
	for (size_t i = 0; i < scoring->all->count; i++) {
		const lk_step_series *other = &scoring->all->at[i];
		if (strcmp(other->cluster, but->cluster) == 0) continue;
		if (!kind || strcmp(other->kind, kind) == 0) others[(*count)++] = series_of(other);
	}
	return *count ? lk_noise_fit(others, *count, out, err) : LK_OK;
}

static lk_status noise_for(const noise_scoring *scoring, const lk_step_series *series,
                           lk_noise *out, const char **reason, lk_error *err) {
	size_t count;
	if (!scoring->cross) {
		lk_error why;
		if (lk_noise_read(scoring->arena, series->kind, out, &why) == LK_OK) return LK_OK;
		*reason = "no preset is of such runs";
		return LK_OK;
	}
	LK_TRY(fit_others(scoring, series, series->kind, out, &count, err));
	if (!count) LK_TRY(fit_others(scoring, series, NULL, out, &count, err));
	if (!count) *reason = "no series is of another cluster";
	return LK_OK;
}

/* The rows of one series; *right: both tails are within POINTS. */
static lk_status score_series(const noise_scoring *scoring, const lk_step_series *series,
                              lk_validated *rows, bool *right, lk_error *err) {
	lk_noise noise = {0};
	const char *reason = NULL;
	double quiet_s = lk_median(series->seconds, series->count), tail[TAILS] = {NAN, NAN};
	LK_TRY(noise_for(scoring, series, &noise, &reason, err));
	if (!reason) LK_TRY(lk_noise_tail(&noise, quiet_s, series->mean_of, &tail[0], &tail[1], err));
	*right = !reason;
	for (int t = 0; t < TAILS; t++) {
		lk_validated *row = &rows[t];
		row->id = lk_arena_printf(scoring->arena, "%s %s", series->name, tail_names[t]);
		if (!row->id) return lk_oom(err);
		row->model = series->kind;
		row->gpu = series->cluster;
		row->unit = "x P50";
		row->measured = lk_quantile(series->seconds, series->count, tail_quantiles[t]) / quiet_s;
		row->predicted = tail[t];
		row->reason = reason;
		*right = *right && fabs(row->predicted - row->measured) <= POINTS;
	}
	return LK_OK;
}

static lk_status score_tails(const noise_scoring *scoring, lk_scoring *out, lk_error *err) {
	size_t count = scoring->all->count;
	LK_TRY(lk_scoring_rows(scoring->arena, TAILS * count, out, err));
	lk_score_key *kind = lk_scoring_divide(scoring->arena, out, "kind"),
				 *quantile = lk_scoring_divide(scoring->arena, out, "quantile"),
				 *within = lk_scoring_divide(scoring->arena, out, "both within 2 points");
	if (!kind || !quantile || !within) return lk_oom(err);
	for (size_t i = 0; i < count; i++) {
		bool right;
		LK_TRY(score_series(scoring, &scoring->all->at[i], &out->rows[TAILS * i], &right, err));
		for (size_t t = 0; t < TAILS; t++) {
			kind[TAILS * i + t].name = scoring->all->at[i].kind;
			quantile[TAILS * i + t].name = tail_names[t];
			within[TAILS * i + t].name = right ? "yes" : "no";
		}
	}
	out->unit_of_rows = "tail";
	out->folds = scoring->cross ? "cluster" : "";
	return LK_OK;
}

lk_status lk_score_noise(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                         lk_scoring *out, lk_error *err) {
	lk_step_series_set all = {0};
	struct stat info;
	(void)in; /* the table is a folder */
	if (stat(request->table, &info) == 0 && !S_ISDIR(info.st_mode)) {
		lk_fail(err, LK_ERR_INPUT, "--noise", "%.200s is no folder", request->table);
		return lk_hint(err, "give a folder of step times: columns step, seconds and run");
	}
	lk_status status = lk_step_series_read(arena, request->table, &all, err);
	const noise_scoring scoring = {arena, &all, request->cross};
	if (status == LK_OK) status = score_tails(&scoring, out, err);
	lk_vec_free(&all);
	return status;
}
