/* shard_search.h: what the files of our sharder share. */
#ifndef LK_PLAN_SHARD_SEARCH_H
#define LK_PLAN_SHARD_SEARCH_H

#include "shard/shard.h"

typedef struct searcher {
	const lk_shard_problem *p;
	const lk_shard_ways *ways;
	lk_shard_prices prices;
	lk_shard_pieces best;
	double best_s;           /* INFINITY: none yet */
	double bound_s, grain;
	bool *tried;             /* [count] splitting the table further did not help */
	size_t budget;           /* exchanges left for refining */
} searcher;

/* Gaps below are not worth another round. */
#define LK_SHARD_CLOSE 0.002

/* ---- shard_place.c ---- */

/* What ranks are measured by: lookups forward, backward, columns. */
enum { FORWARD, BACKWARD, COLUMNS, MEASURES };
double lk_shard_measure(const lk_shard_cost *c, int which);
/* Lookups forward and backward. */
double lk_shard_work(const lk_shard_piece *piece);
/* Each table as it may be, whole if it may; copied[t]: on every rank. */
lk_status lk_shard_start_pieces(const lk_shard_problem *p, const bool *copied, lk_shard_pieces *out, lk_error *err);
/* The next finer way to split a piece's table; false: there is none. */
bool lk_shard_finer(const lk_shard_problem *p, const lk_shard_piece *piece, lk_shard_kind *kind, int *parts);
/* Places what has no rank yet. */
lk_status lk_shard_longest_first(const lk_shard_problem *p, lk_shard_pieces *pieces, bool *placed, lk_error *err);
/* More bytes, or a piece larger, than ranks have: no order of placing helps. */
bool lk_shard_hopeless(const lk_shard_problem *p, const lk_shard_pieces *pieces);
/* Places all, and splits or moves to host memory until it fits. */
lk_status lk_shard_place(const lk_shard_problem *p, lk_shard_pieces *pieces, bool *placed, lk_error *err);

/* ---- shard_search.c ---- */

/* The step if all ranks were even, `columns` on the one with most. */
double lk_shard_even_step(const lk_shard_problem *p, const lk_shard_way *sum, double columns);
/* No placement of these pieces is faster, where more columns take longer to exchange; 0 on a processor, where nothing is known. */
double lk_shard_even_pieces(const lk_shard_problem *p, const lk_shard_pieces *pieces);
lk_status lk_shard_step_of(const lk_shard_problem *p, const lk_shard_pieces *pieces, double *step_s, lk_error *err);
lk_status lk_shard_copy(lk_shard_pieces *to, const lk_shard_pieces *from, lk_error *err);
/* A placement, as it is and balanced, becomes the best if it is. */
lk_status lk_shard_take(searcher *s, lk_shard_pieces *pieces, size_t *budget, lk_error *err);

/* ---- shard_priced.c, shard_refine.c ---- */

lk_status lk_shard_from_prices(searcher *s, lk_error *err);
/* The tables that cost least when they are split finest, until there are `wanted` such pieces. */
lk_status lk_shard_fill_up(searcher *s, size_t wanted, lk_error *err);
/* Splits what ranks wait for while the step gets shorter. */
lk_status lk_shard_refine(searcher *s, lk_shard_pieces *pieces, double *step_s, lk_error *err);

#endif
