/* shard_refine.c: improves a placement: splits the table that the slowest rank waits for while the
 * step gets shorter; tables that are cheap to split fill ranks up evenly. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/sort.h"
#include "shard/shard.h"

enum { ROUNDS = 200 };

/* ---- finer pieces where ranks wait ---- */

/* The step's loss by the slowest rank of a measure, against the mean; *rank: that rank. */
static double loss_of(const lk_shard_problem *problem, const lk_shard_load *load, int which,
                      int *rank) {
	double mean = 0;
	*rank = 0;
	for (int r = 0; r < problem->ranks; r++) {
		mean += lk_shard_measure(&load->rank[r], which) / problem->ranks;
		if (lk_shard_measure(&load->rank[r], which) > lk_shard_measure(&load->rank[*rank], which))
			*rank = r;
	}
	double most = lk_shard_measure(&load->rank[*rank], which);
	if (which != LK_SHARD_EXCHANGED) return most - mean;
	if (most > 0) return 2 * load->exchange_s * (1 - mean / most);
	return 0;
}

/* The piece on that rank that counts most and can be split further; SIZE_MAX: none. */
static size_t coarsest(const searcher *s, const lk_shard_pieces *pieces, int rank, int which) {
	size_t found = SIZE_MAX;
	double most = 0;
	for (size_t i = 0; i < pieces->count; i++) {
		const lk_shard_piece *piece = &pieces->at[i];
		lk_shard_kind kind;
		int parts;
		if (piece->rank != rank || s->tried[piece->table] ||
		    lk_shard_measure(&piece->cost, which) <= most)
			continue;
		if (!lk_shard_finer(s->p, piece, &kind, &parts) ||
		    (which == LK_SHARD_EXCHANGED && kind != LK_SHARD_COLUMN))
			continue;
		found = i;
		most = lk_shard_measure(&piece->cost, which);
	}
	return found;
}

/* Find the piece to split: by the measure with the largest loss, else by the next one. */
static lk_status find_waited(const searcher *s, const lk_shard_pieces *pieces, size_t *out,
                             lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_load load;
	lk_status status = lk_shard_load_of(&arena, s->p, pieces, &load, err);
	double most = 0;
	*out = SIZE_MAX;
	for (int which = 0; which < LK_SHARD_MEASURES && status == LK_OK; which++) {
		int rank;
		double loss = loss_of(s->p, &load, which, &rank);
		size_t piece = loss > most ? coarsest(s, pieces, rank, which) : SIZE_MAX;
		if (piece != SIZE_MAX) {
			*out = piece;
			most = loss;
		}
	}
	lk_arena_free(&arena);
	return status;
}

/* Split a table further and balance again; *better: the step got shorter, and `pieces` has that
 * placement. */
static lk_status split_waited(searcher *s, lk_shard_pieces *pieces, size_t at, double *step_s,
                              bool *better, lk_error *err) {
	lk_shard_pieces trial = {0};
	lk_shard_kind kind = LK_SHARD_TABLE;
	int parts = 1;
	bool placed = false;
	double seconds = INFINITY;
	lk_shard_finer(s->p, &pieces->at[at], &kind, &parts);
	lk_status status = lk_shard_copy(&trial, pieces, err);
	if (status == LK_OK)
		status = lk_shard_resplit(s->p, &trial, at, kind, parts, pieces->at[at].host, err);
	if (status == LK_OK && lk_shard_even_pieces(s->p, &trial) < *step_s)
		status = lk_shard_longest_first(s->p, &trial, &placed, err);
	if (status == LK_OK && placed) status = lk_shard_balance(s->p, &trial, &s->budget, err);
	if (status == LK_OK && placed) status = lk_shard_step_of(s->p, &trial, &seconds, err);
	*better = seconds < *step_s;
	if (status == LK_OK && *better) {
		status = lk_shard_copy(pieces, &trial, err);
		*step_s = seconds;
	}
	lk_vec_free(&trial);
	return status;
}

/* ---- small pieces, to fill ranks up evenly ---- */

struct filler {
	double price; /* added by splitting the table finest */
	uint32_t table;
};

LK_ORDER_BY(cheapest_first, struct filler, price, table)

static size_t find_fillers(const lk_shard_problem *problem, const lk_shard_pieces *pieces,
                           struct filler *out) {
	size_t count = 0;
	for (size_t i = 0; i < pieces->count; i++) {
		const lk_shard_piece *piece = &pieces->at[i];
		int most = lk_shard_most_parts(problem, piece->table, LK_SHARD_COLUMN);
		if (piece->parts > 1 || piece->kind == LK_SHARD_DATA || piece->host || most < 2) continue;
		lk_shard_piece part =
			lk_shard_piece_of(problem, piece->table, LK_SHARD_COLUMN, 0, most, false);
		out[count++] =
			(struct filler){most * lk_shard_work(&part) - lk_shard_work(piece), piece->table};
	}
	lk_sort(out, count, sizeof *out, cheapest_first);
	return count;
}

static size_t piece_of_table(const lk_shard_pieces *pieces, uint32_t table) {
	size_t i = 0;
	while (pieces->at[i].table != table) i++;
	return i;
}

/* The tables that are cheapest to split finest, until there are `wanted` such pieces. */
lk_status lk_shard_fill_up(searcher *s, size_t wanted, lk_error *err) {
	const lk_shard_problem *problem = s->p;
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_pieces trial = {0};
	struct filler *order = LK_ARRAY(&arena, struct filler, s->best.count);
	bool placed = false;
	double seconds = INFINITY;
	lk_status status = order ? lk_shard_copy(&trial, &s->best, err) : lk_oom(err);
	size_t count = status == LK_OK ? find_fillers(problem, &trial, order) : 0, made = 0;
	for (size_t i = 0; i < count && made < wanted && status == LK_OK; i++) {
		int parts = lk_shard_most_parts(problem, order[i].table, LK_SHARD_COLUMN);
		status = lk_shard_resplit(problem, &trial, piece_of_table(&trial, order[i].table),
		                          LK_SHARD_COLUMN, parts, false, err);
		made += (size_t)parts;
	}
	if (status == LK_OK && lk_shard_even_pieces(problem, &trial) < s->best_s)
		status = lk_shard_longest_first(problem, &trial, &placed, err);
	if (status == LK_OK && placed) status = lk_shard_balance(problem, &trial, &s->budget, err);
	if (status == LK_OK && placed) status = lk_shard_step_of(problem, &trial, &seconds, err);
	if (status == LK_OK && seconds < s->best_s) {
		status = lk_shard_copy(&s->best, &trial, err);
		s->best_s = seconds;
	}
	lk_vec_free(&trial);
	lk_arena_free(&arena);
	return status;
}

lk_status lk_shard_refine(searcher *s, lk_shard_pieces *pieces, double *step_s, lk_error *err) {
	memset(s->tried, 0, s->p->count * sizeof *s->tried);
	for (int round = 0; round < ROUNDS && s->budget && !lk_shard_ends(s->p) &&
	                    *step_s > s->bound_s * (1 + LK_SHARD_CLOSE);
	     round++) {
		size_t at;
		bool better;
		LK_TRY(find_waited(s, pieces, &at, err));
		if (at == SIZE_MAX) return LK_OK;
		uint32_t table = pieces->at[at].table;
		LK_TRY(split_waited(s, pieces, at, step_s, &better, err));
		if (!better) s->tried[table] = true;
	}
	return LK_OK;
}
