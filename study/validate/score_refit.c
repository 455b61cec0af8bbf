/* score_refit.c: transfers of new weights to the engines, predicted by rollout/refit.c. Host times
 * per tensor come from rows of such tables, so nothing is left to fit. */
#include "base/arena.h"
#include "rollout/rollout.h"
#include "tables/tables.h"
#include "validate/validate.h"

static void refit_fill_row(const lk_refit_run *run, lk_validated *row) {
	row->id = run->id;
	row->where = run->where;
	row->model = run->model;
	row->gpu = run->gpu;
	row->gpus = run->gpus;
	row->stack = run->software;
	row->precision = run->precision;
	row->layout = run->transport;
	row->measured = run->seconds;
	row->reason = run->why_not;
	if (row->reason) return;
	row->predicted = lk_refit_of(&run->job).seconds;
}

static lk_status refit_score(lk_arena *arena, const lk_refit_runs *runs, lk_scoring *out,
                             lk_error *err) {
	LK_TRY(lk_scoring_rows(arena, runs->count, out, err));
	lk_score_key *stack = lk_scoring_divide(arena, out, "stack"),
				 *model = lk_scoring_divide(arena, out, "model"),
				 *kind = lk_scoring_divide(arena, out, "kind");
	if (!stack || !model || !kind) return lk_oom(err);
	for (size_t i = 0; i < runs->count; i++) {
		refit_fill_row(&runs->at[i], &out->rows[i]);
		stack[i].name = runs->at[i].software;
		model[i].name = runs->at[i].model;
		kind[i].name = runs->at[i].transport;
	}
	out->unit_of_rows = "update";
	out->folds = "";
	return LK_OK;
}

lk_status lk_score_refit(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                         lk_scoring *out, lk_error *err) {
	if (request->cross) {
		lk_fail(err, LK_ERR_INPUT, "--cross-validate", "nothing is fitted to updates of --refit");
		return lk_hint(err, "leave it out");
	}
	lk_refit_runs runs = {0};
	lk_status status = lk_refit_read(arena, in, &runs, err);
	if (status == LK_OK) status = refit_score(arena, &runs, out, err);
	lk_vec_free(&runs);
	return status;
}
