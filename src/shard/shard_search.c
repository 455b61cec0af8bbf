/* shard_search.c: our sharder. It starts from ways to place each table that are cheap together
 * (shard_priced.c); from whole tables, placed longest first (LPT), and from finer parts of them
 * (shard_place.c); from every published heuristic's placement; and with copies of the tables whose
 * gradients are smaller than their sums. In each, pieces are exchanged between ranks
 * (shard_balance.c). The best is refined (shard_refine.c). Starts that would not be faster even
 * with balanced ranks are skipped. */
#include <math.h>

#include "base/arena.h"
#include "base/noun.h"
#include "shard/shard.h"

/* The sharders by name: the published heuristics (shard_heuristics.c), then ours. */
const lk_sharder lk_sharders[] = {
	{"naive", lk_shard_naive, false},
	{"naive-chunk", lk_shard_naive_chunk, false},
	{"random", lk_shard_random, false},
	{"size-greedy", lk_shard_size_greedy, false},
	{"lookup-greedy", lk_shard_lookup_greedy, false},
	{"norm-lookup-greedy", lk_shard_norm_lookup_greedy, false},
	{"size-lookup-greedy", lk_shard_size_lookup_greedy, false},
	{"search", lk_shard_search, true},
};
const int lk_sharder_count = sizeof lk_sharders / sizeof *lk_sharders;
const int lk_sharder_search = sizeof lk_sharders / sizeof *lk_sharders - 1;

/* Exchanges tried: from each start, and while refining the best. About 10 ns each. */
enum {
	SPLITS = 20000, /* ways to split that are tried as a last resort */
	SPLIT_NODES = 20000,
	FEW = 16,     /* tables */
	LARGE = 2000, /* tables: one start balances them, without refinement */
	START_BUDGET = 2000000,
	REFINE_BUDGET = 20000000
};

static lk_status search_take(searcher *s, lk_shard_pieces *pieces, lk_error *err) {
	size_t budget = START_BUDGET;
	return lk_shard_take(s, pieces, &budget, err);
}

/* ---- starts ---- */

/* Parts of at most `grain` of a rank's mean load in every measure. */
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

/* With few tables, try every split of each: tables large in rows may have room only next to tables
 * split by columns. */
static lk_status every_split(const lk_shard_problem *problem, uint32_t table,
                             lk_shard_pieces *pieces, int *left, bool *placed, lk_error *err) {
	if (lk_shard_ends(problem)) *left = 0;
	if (*left <= 0) return LK_OK;
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
	for (int i = 0; i < count && s->best_s > s->bound_s * (1 + LK_SHARD_CLOSE); i++) {
		if (isfinite(s->best_s) && lk_shard_ends(s->p)) break;
		LK_TRY(from_tables(s, copied, grains[i], err));
	}
	return LK_OK;
}

/* Copy tables whose gradients are reduced faster than their sums are exchanged, at the rates of
 * large messages. */
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

/* Only if every table may be whole. */
static lk_status from_heuristics(searcher *s, lk_error *err) {
	for (uint32_t t = 0; t < s->p->count; t++)
		if (!(s->p->tables[t].allowed & 1u << LK_SHARD_TABLE)) return LK_OK;
	for (int i = 0; i < lk_sharder_count; i++) {
		lk_shard_plan plan = {0};
		lk_error refused;
		if (lk_sharders[i].search) continue;
		if (lk_shard_ends(s->p)) break;
		lk_status status = lk_sharders[i].run(s->p, &plan, &refused);
		if (status == LK_OK) status = search_take(s, &plan.pieces, err);
		else if (status == LK_ERR_INPUT) status = LK_OK;
		else lk_fail_as(err, &refused);
		lk_vec_free(&plan.pieces);
		LK_TRY(status);
	}
	return LK_OK;
}

static lk_status no_placement(const lk_shard_problem *problem, lk_error *err) {
	if (problem->cutoff && *problem->cut_off)
		return lk_fail(err, LK_ERR_INPUT, NULL,
		               "no placement was found before the search was cut off by %s",
		               lk_cutoff_text(*problem->cut_off));
	lk_fail(err, LK_ERR_INPUT, NULL, "no placement of the %u %s on %d %s fits", problem->count,
	        lk_noun(problem->count, "table", "tables"), problem->ranks,
	        lk_noun(problem->ranks, "rank", "ranks"));
	return lk_hint(err, "give more GPUs, or --host-memory");
}

lk_status lk_shard_search(const lk_shard_problem *problem, lk_shard_plan *out, lk_error *err) {
	if (lk_shard_overfull(problem)) return no_placement(problem, err);
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
	for (size_t per = 1; per <= 16 && s.budget && !lk_shard_ends(problem) && status == LK_OK &&
	                     s.best_s > s.bound_s * (1 + LK_SHARD_CLOSE);
	     per *= 2)
		status = lk_shard_fill_up(&s, per * (size_t)problem->ranks, err);
	if (status == LK_OK) status = lk_shard_refine(&s, &s.best, &s.best_s, err);
	if (status == LK_OK) status = lk_shard_copy(&out->pieces, &s.best, err);
	lk_vec_free(&s.best);
	lk_arena_free(&arena);
	return status;
}
