/* shard_search.c: our sharder. Starts from whole tables, placed longest first (LPT); splits what fits nowhere, by columns
 * while they last, then by rows; then takes rows to host memory, where a byte costs least time first. Then pieces are
 * moved and exchanged (shard_balance.c), and the table that the slowest rank waits for is split further while the step
 * gets shorter. The same begins from every published heuristic's placement, and with copies of the tables whose gradients
 * are smaller than their sums; the best by simulated step time wins, and is balanced once more.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/shard.h"

/* Moves that are looked at: from each start, and while the best is refined. About 50 ns each. */
enum { PACK_NODES = 200000, SPLITS = 20000 /* ways to split, looked at where nothing else fits */, FEW = 16 /* tables */,
       LARGE = 2000 /* tables: one start balances them, and is not refined */,
       ROUNDS = 200, START_BUDGET = 3000000, REFINE_BUDGET = 60000000, POLISH_BUDGET = 20000000 };

/* Gaps below are not worth another round. */
static const double close_enough = 0.002;

typedef struct searcher {
	const lk_shard_problem *p;
	lk_shard_pieces best;
	double best_s;           /* INFINITY: none yet */
	double bound_s;
	bool *tried;             /* [count] splitting the table further did not help */
	size_t budget;           /* moves left for refining */
} searcher;

/* ---- pieces of tables ---- */

static lk_shard_kind first_kind(const lk_shard_table *t) {
	for (int kind = 0; kind < LK_SHARD_KINDS; kind++)
		if (t->allowed & 1u << kind) return (lk_shard_kind)kind;
	return LK_SHARD_TABLE;
}

static lk_status start_pieces(const lk_shard_problem *p, const bool *copied, lk_shard_pieces *out, lk_error *err) {
	for (uint32_t t = 0; t < p->count; t++) {
		lk_shard_kind kind = copied && copied[t] ? LK_SHARD_DATA : first_kind(&p->tables[t]);
		if (!lk_push(out)) return lk_oom(err);
		*lk_last(out) = lk_shard_piece_of(p, t, kind, 0, 1, false);
	}
	return LK_OK;
}

/* The next finer way to split a piece's table; false: there is none. */
static bool finer(const lk_shard_problem *p, const lk_shard_piece *piece, lk_shard_kind *kind, int *parts) {
	int columns = lk_shard_most_parts(p, piece->table, LK_SHARD_COLUMN), rows = lk_shard_most_parts(p, piece->table, LK_SHARD_ROW);
	int now = piece->parts;
	if (piece->kind == LK_SHARD_DATA) return false;
	if (piece->kind != LK_SHARD_ROW && (*parts = lk_shard_more_parts(now, columns)) > 0) return *kind = LK_SHARD_COLUMN, true;
	return *kind = LK_SHARD_ROW, (*parts = lk_shard_more_parts(now, rows)) > 0;
}

/* ---- longest first ---- */

static double work(const lk_shard_piece *piece) {
	return piece->cost.forward_s + piece->cost.backward_s;
}

typedef struct weighed {
	double work;
	size_t piece;
} weighed;

static int falling(const void *a, const void *b) {
	const weighed *x = a, *y = b;
	if (x->work != y->work) return x->work > y->work ? -1 : 1;
	return x->piece < y->piece ? -1 : x->piece > y->piece;
}

static int least_loaded(const lk_shard_problem *p, const lk_shard_cost *load, const lk_shard_cost *more) {
	int best = -1;
	for (int r = 0; r < p->ranks; r++) {
		if (load[r].device_bytes + more->device_bytes > p->capacity || load[r].host_bytes + more->host_bytes > p->host_capacity) continue;
		if (best < 0 || load[r].forward_s + load[r].backward_s < load[best].forward_s + load[best].backward_s) best = r;
	}
	return best;
}

static void load_with(lk_shard_cost *load, const lk_shard_cost *c) {
	load->forward_s += c->forward_s, load->backward_s += c->backward_s;
	load->device_bytes += c->device_bytes, load->host_bytes += c->host_bytes;
}

/* Places what has no rank yet. */
static lk_status longest_first(const lk_shard_problem *p, lk_shard_pieces *pieces, bool *placed, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_cost *load = LK_ARRAY(&arena, lk_shard_cost, p->ranks);
	weighed *order = LK_ARRAY(&arena, weighed, pieces->count);
	size_t count = 0;
	*placed = true;
	if (!load || !order) return lk_arena_free(&arena), lk_oom(err);
	for (size_t i = 0; i < pieces->count; i++) {
		const lk_shard_piece *piece = &pieces->at[i];
		for (int r = 0; r < p->ranks; r++)
			if (piece->kind == LK_SHARD_DATA || piece->rank == r) load_with(&load[r], &piece->cost);
		if (piece->kind != LK_SHARD_DATA && piece->rank < 0) order[count++] = (weighed){work(piece), i};
	}
	for (int r = 0; r < p->ranks; r++) *placed &= load[r].device_bytes <= p->capacity;
	qsort(order, count, sizeof *order, falling);
	for (size_t i = 0; i < count; i++) {
		lk_shard_piece *piece = &pieces->at[order[i].piece];
		piece->rank = least_loaded(p, load, &piece->cost);
		if (piece->rank < 0) *placed = false;
		else load_with(&load[piece->rank], &piece->cost);
	}
	lk_arena_free(&arena);
	return LK_OK;
}

/* ---- what fits nowhere ---- */

static double all_bytes(const lk_shard_problem *p, const lk_shard_pieces *pieces) {
	double sum = 0;
	for (size_t i = 0; i < pieces->count; i++)
		sum += pieces->at[i].cost.device_bytes * (pieces->at[i].kind == LK_SHARD_DATA ? p->ranks : 1);
	return sum;
}

/* The largest piece whose table can be split further is split. */
static lk_status split_largest(const lk_shard_problem *p, lk_shard_pieces *pieces, bool *done, lk_error *err) {
	size_t largest = SIZE_MAX;
	lk_shard_kind kind = LK_SHARD_TABLE, k;
	int parts = 0, n;
	for (size_t i = 0; i < pieces->count; i++) {
		double bytes = pieces->at[i].cost.device_bytes;
		if (largest != SIZE_MAX && bytes <= pieces->at[largest].cost.device_bytes) continue;
		if (finer(p, &pieces->at[i], &k, &n)) largest = i, kind = k, parts = n;
	}
	*done = largest != SIZE_MAX;
	return *done ? lk_shard_resplit(p, pieces, largest, kind, parts, pieces->at[largest].host, err) : LK_OK;
}

/* A table goes to host memory, or a copy becomes a table again: where a byte of the device costs least time. */
static lk_status move_to_host(const lk_shard_problem *p, lk_shard_pieces *pieces, bool *done, lk_error *err) {
	size_t cheapest = SIZE_MAX;
	double least = INFINITY;
	for (size_t i = 0; i < pieces->count && p->host_capacity > 0; i++) {
		const lk_shard_piece *piece = &pieces->at[i];
		if (piece->host || piece->kind == LK_SHARD_DATA) continue;
		lk_shard_piece there = lk_shard_piece_of(p, piece->table, (lk_shard_kind)piece->kind, piece->part, piece->parts, true);
		double saved = piece->cost.device_bytes - there.cost.device_bytes;
		double price = saved > 0 ? (work(&there) - work(piece)) / saved : INFINITY;
		if (price < least) least = price, cheapest = i;
	}
	*done = cheapest != SIZE_MAX;
	if (!*done) return LK_OK;
	const lk_shard_piece *piece = &pieces->at[cheapest];
	return lk_shard_resplit(p, pieces, cheapest, (lk_shard_kind)piece->kind, piece->parts, true, err);
}

static lk_status copies_to_tables(const lk_shard_problem *p, lk_shard_pieces *pieces, bool *done, lk_error *err) {
	*done = false;
	for (size_t i = 0; i < pieces->count; i++) {
		const lk_shard_table *t = &p->tables[pieces->at[i].table];
		if (pieces->at[i].kind != LK_SHARD_DATA || t->allowed == 1u << LK_SHARD_DATA) continue;
		*done = true;
		return lk_shard_resplit(p, pieces, i, first_kind(t), 1, false, err);
	}
	return LK_OK;
}

static lk_status relax(const lk_shard_problem *p, lk_shard_pieces *pieces, bool *done, lk_error *err) {
	LK_TRY(copies_to_tables(p, pieces, done, err));
	if (!*done && all_bytes(p, pieces) <= p->capacity * p->ranks) LK_TRY(split_largest(p, pieces, done, err));
	if (!*done) LK_TRY(move_to_host(p, pieces, done, err));
	return *done ? LK_OK : split_largest(p, pieces, done, err);
}

static void unplace(lk_shard_pieces *pieces) {
	for (size_t i = 0; i < pieces->count; i++) pieces->at[i].rank = -1;
}

/* More bytes, or a piece larger, than ranks have: no order of placing helps. */
static bool hopeless(const lk_shard_problem *p, const lk_shard_pieces *pieces) {
	for (size_t i = 0; i < pieces->count; i++)
		if (pieces->at[i].cost.device_bytes > p->capacity || pieces->at[i].cost.host_bytes > p->host_capacity) return true;
	return all_bytes(p, pieces) > p->capacity * p->ranks;
}

static lk_status place(const lk_shard_problem *p, lk_shard_pieces *pieces, bool *placed, lk_error *err) {
	for (bool more = true; more;) {
		*placed = false;
		if (!hopeless(p, pieces)) {
			unplace(pieces);
			LK_TRY(longest_first(p, pieces, placed, err));
			if (!*placed) LK_TRY(lk_shard_pack(p, pieces, PACK_NODES, placed, err));
		}
		if (*placed) return LK_OK;
		/* splits repeat indices or sums: they never make less of too much */
		if (p->host_capacity <= 0 && all_bytes(p, pieces) > p->capacity * p->ranks) LK_TRY(copies_to_tables(p, pieces, &more, err));
		else LK_TRY(relax(p, pieces, &more, err));
	}
	return LK_OK;
}

/* ---- finer where ranks wait ---- */

static lk_status step_of(const lk_shard_problem *p, const lk_shard_pieces *pieces, double *step_s, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_load load;
	lk_status status = lk_shard_load_of(&arena, p, pieces, &load, err);
	if (status == LK_OK) status = lk_shard_simulate(p, &load, step_s, err);
	lk_arena_free(&arena);
	return status;
}

/* What ranks are measured by: lookups forward, backward, columns. */
enum { FORWARD, BACKWARD, COLUMNS, MEASURES };

static double measure(const lk_shard_cost *c, int which) {
	return which == FORWARD ? c->forward_s : which == BACKWARD ? c->backward_s : c->columns;
}

/* What the step loses by the slowest rank of a measure, against the mean; *rank: that rank. */
static double loss_of(const lk_shard_problem *p, const lk_shard_load *load, int which, int *rank) {
	double mean = 0;
	*rank = 0;
	for (int r = 0; r < p->ranks; r++) {
		mean += measure(&load->rank[r], which) / p->ranks;
		if (measure(&load->rank[r], which) > measure(&load->rank[*rank], which)) *rank = r;
	}
	double most = measure(&load->rank[*rank], which);
	return which != COLUMNS ? most - mean : most > 0 ? 2 * load->exchange_s * (1 - mean / most) : 0;
}

/* On that rank, the piece that counts most and can be finer; SIZE_MAX: none. */
static size_t coarsest(const searcher *s, const lk_shard_pieces *pieces, int rank, int which) {
	size_t found = SIZE_MAX;
	double most = 0;
	for (size_t i = 0; i < pieces->count; i++) {
		const lk_shard_piece *piece = &pieces->at[i];
		lk_shard_kind kind;
		int parts;
		if (piece->rank != rank || s->tried[piece->table] || measure(&piece->cost, which) <= most) continue;
		if (!finer(s->p, piece, &kind, &parts) || (which == COLUMNS && kind != LK_SHARD_COLUMN)) continue;
		found = i, most = measure(&piece->cost, which);
	}
	return found;
}

/* The piece to split: of the measure by which the step loses most, else of the next one. */
static lk_status find_waited(const searcher *s, const lk_shard_pieces *pieces, size_t *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_load load;
	lk_status status = lk_shard_load_of(&arena, s->p, pieces, &load, err);
	double most = 0;
	*out = SIZE_MAX;
	for (int which = 0; which < MEASURES && status == LK_OK; which++) {
		int rank;
		double loss = loss_of(s->p, &load, which, &rank);
		size_t piece = loss > most ? coarsest(s, pieces, rank, which) : SIZE_MAX;
		if (piece != SIZE_MAX) *out = piece, most = loss;
	}
	lk_arena_free(&arena);
	return status;
}

static lk_status copy_pieces(lk_shard_pieces *to, const lk_shard_pieces *from, lk_error *err) {
	to->count = 0;
	if (!lk_reserve(to, from->count)) return lk_oom(err);
	if (from->count) memcpy(to->at, from->at, from->count * sizeof *from->at);
	to->count = from->count;
	return LK_OK;
}

/* Splits a table further and balances again; *better: the step got shorter, and `pieces` is that placement. */
static lk_status split_waited(searcher *s, lk_shard_pieces *pieces, size_t at, double *step_s, bool *better, lk_error *err) {
	lk_shard_pieces trial = {0};
	lk_shard_kind kind = LK_SHARD_TABLE;
	int parts = 1;
	bool placed = false;
	double seconds = INFINITY;
	finer(s->p, &pieces->at[at], &kind, &parts);
	lk_status status = copy_pieces(&trial, pieces, err);
	if (status == LK_OK) status = lk_shard_resplit(s->p, &trial, at, kind, parts, pieces->at[at].host, err);
	if (status == LK_OK) status = longest_first(s->p, &trial, &placed, err);
	if (status == LK_OK && placed) status = lk_shard_balance(s->p, &trial, LK_SHARD_STEEP, &s->budget, err);
	if (status == LK_OK && placed) status = step_of(s->p, &trial, &seconds, err);
	*better = seconds < *step_s;
	if (status == LK_OK && *better) status = copy_pieces(pieces, &trial, err), *step_s = seconds;
	lk_vec_free(&trial);
	return status;
}

/* ---- small pieces, to fill ranks up evenly ---- */

typedef struct filler {
	double price;            /* what splitting the table finest adds */
	uint32_t table;
} filler;

static int cheapest_first(const void *a, const void *b) {
	const filler *x = a, *y = b;
	if (x->price != y->price) return x->price < y->price ? -1 : 1;
	return x->table < y->table ? -1 : x->table > y->table;
}

static size_t find_fillers(const lk_shard_problem *p, const lk_shard_pieces *pieces, filler *out) {
	size_t count = 0;
	for (size_t i = 0; i < pieces->count; i++) {
		const lk_shard_piece *piece = &pieces->at[i];
		int most = lk_shard_most_parts(p, piece->table, LK_SHARD_COLUMN);
		if (piece->parts > 1 || piece->kind == LK_SHARD_DATA || piece->host || most < 2) continue;
		lk_shard_piece part = lk_shard_piece_of(p, piece->table, LK_SHARD_COLUMN, 0, most, false);
		out[count++] = (filler){most * work(&part) - work(piece), piece->table};
	}
	qsort(out, count, sizeof *out, cheapest_first);
	return count;
}

static size_t piece_of_table(const lk_shard_pieces *pieces, uint32_t table) {
	size_t i = 0;
	while (pieces->at[i].table != table) i++;
	return i;
}

/* The tables that cost least when they are split finest, until there are `wanted` such pieces. */
static lk_status fill_up(searcher *s, size_t wanted, lk_error *err) {
	const lk_shard_problem *p = s->p;
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_pieces trial = {0};
	filler *order = LK_ARRAY(&arena, filler, s->best.count);
	bool placed = false;
	double seconds = INFINITY;
	lk_status status = order ? copy_pieces(&trial, &s->best, err) : lk_oom(err);
	size_t count = status == LK_OK ? find_fillers(p, &trial, order) : 0, made = 0;
	for (size_t i = 0; i < count && made < wanted && status == LK_OK; i++) {
		int parts = lk_shard_most_parts(p, order[i].table, LK_SHARD_COLUMN);
		status = lk_shard_resplit(p, &trial, piece_of_table(&trial, order[i].table), LK_SHARD_COLUMN, parts, false, err);
		made += (size_t)parts;
	}
	if (status == LK_OK) status = longest_first(p, &trial, &placed, err);
	if (status == LK_OK && placed) status = lk_shard_balance(p, &trial, LK_SHARD_STEEP, &s->budget, err);
	if (status == LK_OK && placed) status = step_of(p, &trial, &seconds, err);
	if (status == LK_OK && seconds < s->best_s) status = copy_pieces(&s->best, &trial, err), s->best_s = seconds;
	lk_vec_free(&trial);
	lk_arena_free(&arena);
	return status;
}

static lk_status refine(searcher *s, lk_shard_pieces *pieces, double *step_s, lk_error *err) {
	memset(s->tried, 0, s->p->count * sizeof *s->tried);
	for (int round = 0; round < ROUNDS && s->budget && *step_s > s->bound_s * (1 + close_enough); round++) {
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

/* What is nearly even is balanced once more by its slowest ranks alone. */
static lk_status polish(searcher *s, lk_error *err) {
	lk_shard_pieces trial = {0};
	size_t budget = POLISH_BUDGET;
	double seconds = INFINITY;
	lk_status status = copy_pieces(&trial, &s->best, err);
	if (status == LK_OK) status = lk_shard_balance(s->p, &trial, LK_SHARD_STEEPEST, &budget, err);
	if (status == LK_OK) status = step_of(s->p, &trial, &seconds, err);
	if (status == LK_OK && seconds < s->best_s) status = copy_pieces(&s->best, &trial, err), s->best_s = seconds;
	lk_vec_free(&trial);
	return status;
}

/* ---- starts ---- */

static lk_status keep(searcher *s, const lk_shard_pieces *pieces, double step_s, lk_error *err) {
	if (step_s >= s->best_s) return LK_OK;
	s->best_s = step_s;
	return copy_pieces(&s->best, pieces, err);
}

static lk_status take(searcher *s, lk_shard_pieces *pieces, lk_error *err) {
	double step_s;
	LK_TRY(step_of(s->p, pieces, &step_s, err));
	LK_TRY(keep(s, pieces, step_s, err));
	size_t budget = START_BUDGET;
	LK_TRY(lk_shard_balance(s->p, pieces, LK_SHARD_STEEP, &budget, err));
	LK_TRY(step_of(s->p, pieces, &step_s, err));
	return keep(s, pieces, step_s, err);
}

/* Parts of no more than `grain` of a rank's mean load in every measure. */
static lk_status start_fine(const lk_shard_problem *p, lk_shard_pieces *pieces, double grain, lk_error *err) {
	double mean[MEASURES] = {0};
	for (int m = 0; m < MEASURES; m++)
		for (size_t i = 0; i < pieces->count; i++) mean[m] += measure(&pieces->at[i].cost, m) / p->ranks;
	lk_shard_pieces out = {0};
	lk_status status = LK_OK;
	for (size_t i = 0; i < pieces->count && status == LK_OK; i++) {
		lk_shard_piece piece = pieces->at[i];
		lk_shard_kind kind;
		int parts;
		for (bool more = true; more && finer(p, &piece, &kind, &parts);) {
			more = false;
			for (int m = 0; m < MEASURES; m++) more |= measure(&piece.cost, m) > grain * mean[m] && (m != COLUMNS || kind == LK_SHARD_COLUMN);
			if (more) piece = lk_shard_piece_of(p, piece.table, kind, 0, parts, false);
		}
		if (!lk_reserve(&out, (size_t)piece.parts)) status = lk_oom(err);
		for (int k = 0; k < piece.parts && status == LK_OK; k++)
			out.at[out.count++] = piece.parts == 1 ? piece : lk_shard_piece_of(p, piece.table, (lk_shard_kind)piece.kind, k, piece.parts, false);
	}
	lk_vec_free(pieces);
	*pieces = out;
	return status;
}

/* Of few tables, every way to split each: what is large by rows may have room only beside what is split by columns. */
static lk_status every_split(const lk_shard_problem *p, uint32_t table, lk_shard_pieces *pieces, int *left, bool *placed, lk_error *err) {
	if (table == p->count) {
		if ((*left)-- > 0 && !hopeless(p, pieces)) LK_TRY(lk_shard_pack(p, pieces, PACK_NODES / 10, placed, err));
		return LK_OK;
	}
	size_t before = pieces->count;
	for (int kind = 0; kind < LK_SHARD_KINDS; kind++) {
		int most = lk_shard_most_parts(p, table, (lk_shard_kind)kind);
		for (int k = 1; most && k; k = lk_shard_more_parts(k, most)) {
			pieces->count = before;
			if (!lk_reserve(pieces, (size_t)k)) return lk_oom(err);
			for (int i = 0; i < k; i++) pieces->at[pieces->count++] = lk_shard_piece_of(p, table, (lk_shard_kind)kind, i, k, false);
			LK_TRY(every_split(p, table + 1, pieces, left, placed, err));
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
	if (status == LK_OK && placed) status = take(s, &pieces, err);
	lk_vec_free(&pieces);
	return status;
}

static lk_status from_tables(searcher *s, const bool *copied, double grain, lk_error *err) {
	lk_shard_pieces pieces = {0};
	bool placed = false;
	lk_status status = start_pieces(s->p, copied, &pieces, err);
	if (status == LK_OK && isfinite(grain)) status = start_fine(s->p, &pieces, grain, err);
	if (status == LK_OK) status = place(s->p, &pieces, &placed, err);
	if (status == LK_OK && placed) status = take(s, &pieces, err);
	lk_vec_free(&pieces);
	return status;
}

/* Coarse and fine: splitting costs work, and makes ranks more even. */
static lk_status from_grains(searcher *s, const bool *copied, lk_error *err) {
	static const double grains[] = {INFINITY, 1, 0.5, 0.25, 0.125, 0.0625};
	int count = s->p->ranks > 1 && s->p->count <= LARGE ? sizeof grains / sizeof *grains : 1;
	for (int i = 0; i < count && s->best_s > s->bound_s * (1 + close_enough); i++) LK_TRY(from_tables(s, copied, grains[i], err));
	return LK_OK;
}

/* Tables whose gradients are reduced faster than their sums are exchanged, by what the last of many bytes takes. */
static lk_status from_copies(searcher *s, lk_error *err) {
	const lk_shard_problem *p = s->p;
	const double much = 0x1p28;
	double column = lk_shard_exchange_s(p, 2 * much / p->batch, 2 * much / p->batch, 2 * much / p->batch * p->ranks) -
	                lk_shard_exchange_s(p, much / p->batch, much / p->batch, much / p->batch * p->ranks);
	double byte = (lk_shard_reduce_s(p, 2 * much) - lk_shard_reduce_s(p, much)) / much;
	column *= 2 * p->batch / much / p->ranks; /* both directions; a column of one table on one rank of n */
	lk_arena arena = LK_ARENA_INIT;
	bool *copied = LK_ARRAY(&arena, bool, p->count), any = false;
	for (uint32_t t = 0; copied && t < p->count; t++) {
		const lk_shard_table *table = &p->tables[t];
		if (!(table->allowed & 1u << LK_SHARD_DATA)) continue;
		lk_shard_cost copy = lk_shard_piece_of(p, t, LK_SHARD_DATA, 0, 1, false).cost;
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
		if (status == LK_OK) status = take(s, &plan.pieces, err);
		else if (status == LK_ERR_INPUT) status = LK_OK;
		else *err = refused;
		lk_vec_free(&plan.pieces);
		LK_TRY(status);
	}
	return LK_OK;
}

lk_status lk_shard_has_room(const lk_shard_problem *p, bool *placed, lk_error *err) {
	lk_shard_pieces pieces = {0};
	lk_status status = start_pieces(p, NULL, &pieces, err);
	if (status == LK_OK) status = place(p, &pieces, placed, err);
	lk_vec_free(&pieces);
	return status;
}

static lk_status no_placement(const lk_shard_problem *p, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, NULL, "no placement of the %u tables on %d ranks fits", p->count, p->ranks);
	return lk_hint(err, "give more GPUs, or --host-memory");
}

lk_status lk_shard_search(const lk_shard_problem *p, lk_shard_plan *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	searcher s = {.p = p, .best_s = INFINITY, .bound_s = lk_shard_bound(p), .tried = LK_ARRAY(&arena, bool, p->count),
	              .budget = REFINE_BUDGET};
	lk_status status = s.tried ? from_grains(&s, NULL, err) : lk_oom(err);
	if (status == LK_OK && p->ranks > 1 && p->count <= LARGE) status = from_copies(&s, err);
	if (status == LK_OK && !isfinite(s.best_s) && p->count <= FEW) status = from_every_split(&s, err);
	if (status == LK_OK && isfinite(s.best_s) && p->count <= LARGE) status = from_heuristics(&s, err);
	if (status == LK_OK && !isfinite(s.best_s)) status = no_placement(p, err);
	if (p->count > LARGE) s.budget = 0;
	for (size_t per = 1; per <= 16 && s.budget && status == LK_OK && s.best_s > s.bound_s * (1 + close_enough); per *= 2)
		status = fill_up(&s, per * (size_t)p->ranks, err);
	if (status == LK_OK) status = refine(&s, &s.best, &s.best_s, err);
	if (status == LK_OK && p->count <= LARGE && s.best_s > s.bound_s * (1 + close_enough)) status = polish(&s, err);
	if (status == LK_OK) status = copy_pieces(&out->pieces, &s.best, err);
	lk_vec_free(&s.best);
	lk_arena_free(&arena);
	return status;
}
