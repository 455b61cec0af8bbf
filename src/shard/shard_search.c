/* shard_search.c: our sharder. Starts from ways to place each table that are cheap together
 * (shard_priced.c); from whole tables, placed longest first (LPT), and from finer parts of them
 * (shard_place.c); from every published heuristic's placement; and with copies of the tables whose
 * gradients are smaller than their sums. In each, pieces are exchanged between ranks
 * (shard_balance.c). The best is refined (shard_refine.c). What would not be faster with all ranks
 * even is not looked at.
 */
#include <math.h>
#include <string.h>

#include "shard/shard.h"

/* Exchanges that are looked at: from each start, and while the best is refined. About 10 ns each.
 */
enum {
	SPLITS = 20000 /* ways to split, looked at where nothing else fits */,
	SPLIT_NODES = 20000,
	FEW = 16 /* tables */,
	LARGE = 2000 /* tables: one start balances them, and is not refined */,
	START_BUDGET = 2000000,
	REFINE_BUDGET = 20000000
};

/* ---- placements ---- */

/* The step if all ranks were even, `columns` on the one with most. */
double lk_shard_even_step(const lk_shard_problem *problem, const lk_shard_way *sum,
                          double columns) {
	return lk_shard_index_s(problem) + problem->dense_s + sum->forward + sum->backward +
	       ((sum->forward > 0) + (sum->backward > 0)) * problem->at.floor_s +
	       2 * lk_shard_exchange_s(problem, columns, columns, columns * problem->ranks) +
	       lk_shard_reduce_s(problem, sum->bytes);
}

/* No placement of these pieces is faster, where more columns take longer to exchange. On a
 * processor nothing is known: ranks that touch little are faster than the mean. */
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
	LK_TRY(lk_shard_step_of(s->p, pieces, &step_s, err));
	LK_TRY(search_keep(s, pieces, step_s, err));
	if (lk_shard_even_pieces(s->p, pieces) >= s->best_s) return LK_OK;
	LK_TRY(lk_shard_balance(s->p, pieces, budget, err));
	LK_TRY(lk_shard_step_of(s->p, pieces, &step_s, err));
	return search_keep(s, pieces, step_s, err);
}

static lk_status search_take(searcher *s, lk_shard_pieces *pieces, lk_error *err) {
	size_t budget = START_BUDGET;
	return lk_shard_take(s, pieces, &budget, err);
}

/* ---- starts ---- */

/* Parts of no more than `grain` of a rank's mean load in every measure. */
static lk_status start_fine(const lk_shard_problem *problem, lk_shard_pieces *pieces, double grain,
                            lk_error *err) {
	double mean[LK_SHARD_MEASURES] = {0};
	for (int m = 0; m < LK_SHARD_MEASURES; m++)
		for (size_t i = 0; i < pieces->count; i++)
			mean[m] += lk_shard_measure(&pieces->at[i].cost, m) / problem->ranks;
	lk_shard_pieces out = {0};
	lk_status status = LK_OK;
	for (size_t i = 0; i < pieces->count && status == LK_OK; i++) {
		lk_shard_piece piece = pieces->at[i];
		lk_shard_kind kind;
		int parts;
		for (bool more = true; more && lk_shard_finer(problem, &piece, &kind, &parts);) {
			more = false;
			for (int m = 0; m < LK_SHARD_MEASURES; m++)
				more |= lk_shard_measure(&piece.cost, m) > grain * mean[m] &&
				        (m != LK_SHARD_EXCHANGED || kind == LK_SHARD_COLUMN);
			if (more) piece = lk_shard_piece_of(problem, piece.table, kind, 0, parts, false);
		}
		status = lk_shard_add_parts(problem, &out, piece.table, (lk_shard_kind)piece.kind,
		                            piece.parts, false, err);
	}
	lk_vec_free(pieces);
	*pieces = out;
	return status;
}

/* Of few tables, every way to split each: what is large by rows may have room only beside what is
 * split by columns. */
static lk_status every_split(const lk_shard_problem *problem, uint32_t table,
                             lk_shard_pieces *pieces, int *left, bool *placed, lk_error *err) {
	if (table == problem->count) {
		if ((*left)-- > 0 && !lk_shard_hopeless(problem, pieces))
			LK_TRY(lk_shard_pack(problem, pieces, SPLIT_NODES, placed, err));
		return LK_OK;
	}
	size_t before = pieces->count;
	for (int kind = 0; kind < LK_SHARD_KINDS; kind++) {
		int most = lk_shard_most_parts(problem, table, (lk_shard_kind)kind);
		for (int k = 1; most && k; k = lk_shard_more_parts(k, most)) {
			pieces->count = before;
			LK_TRY(lk_shard_add_parts(problem, pieces, table, (lk_shard_kind)kind, k, false, err));
			LK_TRY(every_split(problem, table + 1, pieces, left, placed, err));
			if (*placed || *left <= 0) return LK_OK;
		}
	}
	return LK_OK;
}

static lk_status from_every_split(searcher *s, lk_error *err) {
	lk_shard_pieces pieces = {0};
	bool placed = false;
	int left = SPLITS;
	lk_status status = every_split(s->p, 0, &pieces, &left, &placed, err);
	if (status == LK_OK && placed) status = search_take(s, &pieces, err);
	lk_vec_free(&pieces);
	return status;
}

static lk_status from_tables(searcher *s, const bool *copied, double grain, lk_error *err) {
	lk_shard_pieces pieces = {0};
	bool placed = false;
	lk_status status = lk_shard_start_pieces(s->p, copied, &pieces, err);
	if (status == LK_OK && isfinite(grain)) status = start_fine(s->p, &pieces, grain, err);
	if (status == LK_OK) status = lk_shard_place(s->p, &pieces, &placed, err);
	if (status == LK_OK && placed) status = search_take(s, &pieces, err);
	lk_vec_free(&pieces);
	return status;
}

/* Coarse and fine: splitting costs work, and makes ranks more even. */
static lk_status from_grains(searcher *s, const bool *copied, lk_error *err) {
	static const double grains[] = {INFINITY, 1, 0.5, 0.25, 0.125, 0.0625};
	int count = s->p->ranks > 1 && s->p->count <= LARGE ? sizeof grains / sizeof *grains : 1;
	for (int i = 0; i < count && s->best_s > s->bound_s * (1 + LK_SHARD_CLOSE); i++)
		LK_TRY(from_tables(s, copied, grains[i], err));
	return LK_OK;
}

/* Tables whose gradients are reduced faster than their sums are exchanged, by what the last of many
 * bytes takes. */
static lk_status from_copies(searcher *s, lk_error *err) {
	const lk_shard_problem *problem = s->p;
	const double much = 0x1p28;
	double column =
		lk_shard_exchange_s(problem, 2 * much / problem->batch, 2 * much / problem->batch,
	                        2 * much / problem->batch * problem->ranks) -
		lk_shard_exchange_s(problem, much / problem->batch, much / problem->batch,
	                        much / problem->batch * problem->ranks);
	double byte = (lk_shard_reduce_s(problem, 2 * much) - lk_shard_reduce_s(problem, much)) / much;
	column *= 2 * problem->batch / much /
	          problem->ranks; /* both directions; a column of one table on one rank of n */
	lk_arena arena = LK_ARENA_INIT;
	bool *copied = LK_ARRAY(&arena, bool, problem->count), any = false;
	for (uint32_t t = 0; copied && t < problem->count; t++) {
		const lk_shard_table *table = &problem->tables[t];
		if (!(table->allowed & 1u << LK_SHARD_DATA)) continue;
		lk_shard_cost copy = lk_shard_piece_of(problem, t, LK_SHARD_DATA, 0, 1, false).cost;
		copied[t] = byte * copy.reduced_bytes < column * table->dim;
		any |= copied[t];
	}
	lk_status status = copied ? LK_OK : lk_oom(err);
	if (status == LK_OK && any) status = from_grains(s, copied, err);
	lk_arena_free(&arena);
	return status;
}

/* Only where every table may stand whole. */
static lk_status from_heuristics(searcher *s, lk_error *err) {
	for (uint32_t t = 0; t < s->p->count; t++)
		if (!(s->p->tables[t].allowed & 1u << LK_SHARD_TABLE)) return LK_OK;
	for (int i = 0; i < lk_sharder_count; i++) {
		lk_shard_plan plan = {0};
		lk_error refused;
		if (lk_sharders[i].search) continue;
		lk_status status = lk_sharders[i].run(s->p, &plan, &refused);
		if (status == LK_OK) status = search_take(s, &plan.pieces, err);
		else if (status == LK_ERR_INPUT) status = LK_OK;
		else *err = refused;
		lk_vec_free(&plan.pieces);
		LK_TRY(status);
	}
	return LK_OK;
}

static lk_status no_placement(const lk_shard_problem *problem, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, NULL, "no placement of the %u tables on %d ranks fits",
	        problem->count, problem->ranks);
	return lk_hint(err, "give more GPUs, or --host-memory");
}

lk_status lk_shard_search(const lk_shard_problem *problem, lk_shard_plan *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	searcher s = {.p = problem,
	              .best_s = INFINITY,
	              .ways = lk_shard_all_ways(&arena, problem),
	              .tried = LK_ARRAY(&arena, bool, problem->count),
	              .budget = REFINE_BUDGET};
	if (!s.ways || !s.tried) return lk_arena_free(&arena), lk_oom(err);
	lk_shard_price(problem, s.ways, &s.prices);
	s.bound_s = s.prices.bound_s;
	s.grain = lk_shard_grain(problem);
	lk_status status =
		problem->ranks > 1 && problem->count <= LARGE ? lk_shard_from_prices(&s, err) : LK_OK;
	if (status == LK_OK) status = from_grains(&s, NULL, err);
	if (status == LK_OK && problem->ranks > 1 && problem->count <= LARGE)
		status = from_copies(&s, err);
	if (status == LK_OK && !isfinite(s.best_s) && problem->count <= FEW)
		status = from_every_split(&s, err);
	if (status == LK_OK && isfinite(s.best_s) && problem->count <= LARGE)
		status = from_heuristics(&s, err);
	if (status == LK_OK && !isfinite(s.best_s)) status = no_placement(problem, err);
	if (problem->count > LARGE) s.budget = 0;
	for (size_t per = 1;
	     per <= 16 && s.budget && status == LK_OK && s.best_s > s.bound_s * (1 + LK_SHARD_CLOSE);
	     per *= 2)
		status = lk_shard_fill_up(&s, per * (size_t)problem->ranks, err);
	if (status == LK_OK) status = lk_shard_refine(&s, &s.best, &s.best_s, err);
	if (status == LK_OK) status = lk_shard_copy(&out->pieces, &s.best, err);
	lk_vec_free(&s.best);
	lk_arena_free(&arena);
	return status;
}
