/* shard_steps.c: operations of the search on plans: copying, taking, splitting evenly, their
 * step. */
#include <string.h>

#include "base/arena.h"
#include "shard/shard.h"

double lk_shard_even_step(const lk_shard_problem *problem, const lk_shard_way *sum,
                          double columns) {
	return lk_shard_index_s(problem) + problem->dense_s + sum->forward + sum->backward +
	       ((sum->forward > 0) + (sum->backward > 0)) * problem->at.floor_s +
	       2 * lk_shard_exchange_s(problem, columns, columns, columns * problem->ranks) +
	       lk_shard_reduce_s(problem, sum->bytes);
}

/* A lower bound of the step for any placement of these pieces, if more columns take longer to
 * exchange. On a processor none is known: ranks that touch little are faster than the mean. */
double lk_shard_even_pieces(const lk_shard_problem *problem, const lk_shard_pieces *pieces) {
	lk_shard_way sum = {.parts = 1};
	lk_shard_widths widths = {.grain = lk_shard_grain(problem)};
	for (size_t i = 0; i < pieces->count; i++) {
		const lk_shard_piece *piece = &pieces->at[i];
		double share = piece->kind == LK_SHARD_DATA ? 1 : 1.0 / problem->ranks;
		sum.forward += piece->cost.forward_s * share;
		sum.backward += piece->cost.backward_s * share;
		if (piece->kind == LK_SHARD_DATA) sum.bytes += piece->cost.reduced_bytes;
		else lk_shard_widths_add(&widths, piece->cost.columns, 1);
	}
	return problem->at.host ? 0
	                        : lk_shard_even_step(problem, &sum,
	                                             lk_shard_even_columns(&widths, 1, problem->ranks));
}

lk_status lk_shard_step_of(const lk_shard_problem *problem, const lk_shard_pieces *pieces,
                           double *step_s, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_load load;
	lk_status status = lk_shard_load_of(&arena, problem, pieces, &load, err);
	if (status == LK_OK) *step_s = load.step_s;
	lk_arena_free(&arena);
	return status;
}

lk_status lk_shard_copy(lk_shard_pieces *to, const lk_shard_pieces *from, lk_error *err) {
	to->count = 0;
	if (!lk_reserve(to, from->count)) return lk_oom(err);
	if (from->count) memcpy(to->at, from->at, from->count * sizeof *from->at);
	to->count = from->count;
	return LK_OK;
}

static lk_status search_keep(searcher *s, const lk_shard_pieces *pieces, double step_s,
                             lk_error *err) {
	if (step_s >= s->best_s) return LK_OK;
	s->best_s = step_s;
	return lk_shard_copy(&s->best, pieces, err);
}

lk_status lk_shard_take(searcher *s, lk_shard_pieces *pieces, size_t *budget, lk_error *err) {
	double step_s;
	if (s->p->progress) s->p->progress(s->p->progress_context, 0, ++s->placements, 0);
	LK_TRY(lk_shard_step_of(s->p, pieces, &step_s, err));
	LK_TRY(search_keep(s, pieces, step_s, err));
	if (lk_shard_even_pieces(s->p, pieces) >= s->best_s) return LK_OK;
	LK_TRY(lk_shard_balance(s->p, pieces, budget, err));
	LK_TRY(lk_shard_step_of(s->p, pieces, &step_s, err));
	return search_keep(s, pieces, step_s, err);
}
