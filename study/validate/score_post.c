/* score_post.c: steps of reinforcement learning, predicted like `predict --task grpo`. Nothing is
 * fitted to such steps, so every row is unseen. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/noun.h"
#include "fit/fits.h"
#include "tables/tables.h"
#include "validate/validate.h"

/* The recipe as a text: rows with equal texts are repeated runs of one. Lengths of responses differ
 * from run to run. */
static const char *recipe_of(lk_arena *arena, const lk_post_run *run) {
	const lk_predict_request *request = &run->request;
	return lk_arena_printf(
		arena, "%s, %d %s, tp %d pp %d vp %d cp %d ep %d, %d x %d of %d, %s %s; %s, %.3g",
		request->stack ? request->stack : "", request->gpus, lk_noun(request->gpus, "GPU", "GPUs"),
		request->tp, request->pp, request->vp, request->cp, request->ep, request->mbs, request->seq,
		request->gbs, run->precision, request->recompute ? request->recompute : "",
		request->rollout, request->gpu_mem_util);
}

static lk_status post_fill_row(lk_arena *arena, const lk_post_run *run, lk_validated *row,
                               lk_score *score, lk_error *err) {
	row->id = run->id;
	row->where = run->where;
	row->model = run->model;
	row->gpu = run->gpu;
	row->gpus = run->request.gpus;
	row->stack = run->software;
	row->precision = run->precision;
	row->measured = run->seconds;
	row->reason = run->why_not;
	score->suspect = run->suspect;
	if (row->reason) return LK_OK;
	LK_TRY(lk_scoring_ask(arena, &run->request, row, NULL, err));
	if (row->reason) return LK_OK;
	/* Recipes of one network on one kind of GPU are ranked, by the time per sequence. */
	score->group = lk_arena_printf(arena, "%s %s %s", run->software, run->model, run->gpu);
	score->layout = recipe_of(arena, run);
	return score->group && score->layout ? LK_OK : lk_oom(err);
}

static lk_status post_divide(lk_arena *arena, const lk_post_runs *runs, lk_scoring *out,
                             lk_error *err) {
	lk_score_key *stack = lk_scoring_divide(arena, out, "stack"),
				 *model = lk_scoring_divide(arena, out, "model"),
				 *gpu = lk_scoring_divide(arena, out, "gpu"),
				 *kind = lk_scoring_divide(arena, out, "kind");
	if (!stack || !model || !gpu || !kind) return lk_oom(err);
	for (size_t i = 0; i < runs->count; i++) {
		stack[i].name = runs->at[i].software;
		model[i].name = runs->at[i].model;
		gpu[i].name = runs->at[i].gpu;
		kind[i].name = runs->at[i].kind;
	}
	return LK_OK;
}

static lk_status post_score(lk_arena *arena, const lk_post_runs *runs, lk_scoring *out,
                            lk_error *err) {
	LK_TRY(lk_scoring_rows(arena, runs->count, out, err));
	for (size_t i = 0; i < runs->count; i++)
		LK_TRY(post_fill_row(arena, &runs->at[i], &out->rows[i], &out->scores[i], err));
	out->unit_of_rows = "step";
	out->folds = "";
	return post_divide(arena, runs, out, err);
}

lk_status lk_score_post(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                        lk_scoring *out, lk_error *err) {
	if (request->cross) {
		lk_fail(err, LK_ERR_INPUT, "--cross-validate", "nothing is fitted to steps of --rl");
		return lk_hint(err, "leave it out: every row is unseen");
	}
	lk_post_runs runs = {0};
	lk_status status = lk_post_read(arena, in, &runs, err);
	if (status == LK_OK) status = post_score(arena, &runs, out, err);
	lk_vec_free(&runs);
	return status;
}
