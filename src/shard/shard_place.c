/* shard_place.c: gives pieces ranks: longest first, each where it fits. A piece that fits nowhere
 * is split, by columns while possible, then by rows; then moved to host memory, the table whose
 * bytes cost least time first. */
#include <math.h>

#include "base/arena.h"
#include "base/sort.h"
#include "shard/shard.h"

enum { PACK_NODES = 200000 };
/* Pieces tried before the room counts as unknown. */
#define ROOM_WORK 3e6

static lk_shard_kind first_kind(const lk_shard_table *table) {
	for (int kind = 0; kind < LK_SHARD_KINDS; kind++)
		if (table->allowed & 1u << kind) return (lk_shard_kind)kind;
	return LK_SHARD_TABLE;
}

lk_status lk_shard_start_pieces(const lk_shard_problem *problem, const bool *copied,
                                lk_shard_pieces *out, lk_error *err) {
	for (uint32_t t = 0; t < problem->count; t++) {
		lk_shard_kind kind = copied && copied[t] ? LK_SHARD_DATA : first_kind(&problem->tables[t]);
		if (!lk_push(out)) return lk_oom(err);
		*lk_last(out) = lk_shard_piece_of(problem, t, kind, 0, 1, false);
	}
	return LK_OK;
}

/* The next finer way to split a piece's table; false: none. */
bool lk_shard_finer(const lk_shard_problem *problem, const lk_shard_piece *piece,
                    lk_shard_kind *kind, int *parts) {
	int columns = lk_shard_most_parts(problem, piece->table, LK_SHARD_COLUMN),
		rows = lk_shard_most_parts(problem, piece->table, LK_SHARD_ROW);
	int now = piece->parts;
	if (piece->kind == LK_SHARD_DATA) return false;
	if (piece->kind != LK_SHARD_ROW && (*parts = lk_shard_more_parts(now, columns)) > 0)
		return *kind = LK_SHARD_COLUMN, true;
	return *kind = LK_SHARD_ROW, (*parts = lk_shard_more_parts(now, rows)) > 0;
}

/* ---- longest first ---- */

double lk_shard_measure(const lk_shard_cost *cost, int which) {
	if (which == LK_SHARD_FORWARD) return cost->forward_s;
	if (which == LK_SHARD_BACKWARD) return cost->backward_s;
	return cost->columns;
}

double lk_shard_work(const lk_shard_piece *piece) {
	return piece->cost.forward_s + piece->cost.backward_s;
}

/* The rank with room whose largest measure is least. */
static int place_least_loaded(const lk_shard_problem *problem, const lk_shard_cost *mean,
                              const lk_shard_cost *load, const lk_shard_cost *more) {
	int best = -1;
	double least = INFINITY;
	for (int r = 0; r < problem->ranks; r++) {
		if (load[r].device_bytes + more->device_bytes > problem->capacity ||
		    load[r].host_bytes + more->host_bytes > problem->host_capacity)
			continue;
		double most = 0;
		for (int m = 0; m < LK_SHARD_MEASURES; m++) {
			double all = lk_shard_measure(&load[r], m) + lk_shard_measure(more, m);
			if (lk_shard_measure(mean, m) > 0) most = fmax(most, all / lk_shard_measure(mean, m));
		}
		if (most < least) {
			best = r;
			least = most;
		}
	}
	return best;
}

static void load_with(lk_shard_cost *load, const lk_shard_cost *cost) {
	load->forward_s += cost->forward_s;
	load->backward_s += cost->backward_s;
	load->columns += cost->columns;
	load->device_bytes += cost->device_bytes;
	load->host_bytes += cost->host_bytes;
}

/* Place pieces without a rank. */
lk_status lk_shard_longest_first(const lk_shard_problem *problem, lk_shard_pieces *pieces,
                                 bool *placed, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_cost *load = LK_ARRAY(&arena, lk_shard_cost, problem->ranks), mean = {0};
	lk_shard_weighed *order = LK_ARRAY(&arena, lk_shard_weighed, pieces->count);
	size_t count = 0;
	*placed = true;
	if (!load || !order) return lk_arena_free(&arena), lk_oom(err);
	for (size_t i = 0; i < pieces->count; i++) {
		const lk_shard_piece *piece = &pieces->at[i];
		for (int r = 0; r < problem->ranks; r++)
			if (piece->kind == LK_SHARD_DATA || piece->rank == r) load_with(&load[r], &piece->cost);
		if (piece->kind != LK_SHARD_DATA && piece->rank < 0)
			order[count++] = (lk_shard_weighed){0, i};
		lk_shard_cost part = piece->cost;
		part.forward_s /= problem->ranks;
		part.backward_s /= problem->ranks;
		part.columns /= problem->ranks;
		load_with(&mean, &part);
	}
	for (size_t i = 0; i < count; i++)
		for (int m = 0; m < LK_SHARD_MEASURES; m++) {
			double own = lk_shard_measure(&pieces->at[order[i].piece].cost, m);
			if (lk_shard_measure(&mean, m) > 0)
				order[i].cost = fmax(order[i].cost, own / lk_shard_measure(&mean, m));
		}
	for (int r = 0; r < problem->ranks; r++) *placed &= load[r].device_bytes <= problem->capacity;
	lk_sort(order, count, sizeof *order, lk_shard_costliest_first);
	for (size_t i = 0; i < count; i++) {
		lk_shard_piece *piece = &pieces->at[order[i].piece];
		piece->rank = place_least_loaded(problem, &mean, load, &piece->cost);
		if (piece->rank < 0) *placed = false;
		else load_with(&load[piece->rank], &piece->cost);
	}
	lk_arena_free(&arena);
	return LK_OK;
}

/* ---- pieces that fit nowhere ---- */

static double piece_bytes(const lk_shard_problem *problem, const lk_shard_piece *piece) {
	return piece->cost.device_bytes * (piece->kind == LK_SHARD_DATA ? problem->ranks : 1);
}

static double all_bytes(const lk_shard_problem *problem, const lk_shard_pieces *pieces) {
	double sum = 0;
	for (size_t i = 0; i < pieces->count; i++) sum += piece_bytes(problem, &pieces->at[i]);
	return sum;
}

/* Split the largest piece whose table can be split further. */
static lk_status split_largest(const lk_shard_problem *problem, lk_shard_pieces *pieces, bool *done,
                               lk_error *err) {
	size_t largest = SIZE_MAX;
	lk_shard_kind kind = LK_SHARD_TABLE, k;
	int parts = 0, n;
	for (size_t i = 0; i < pieces->count; i++) {
		double bytes = pieces->at[i].cost.device_bytes;
		if (largest != SIZE_MAX && bytes <= pieces->at[largest].cost.device_bytes) continue;
		if (lk_shard_finer(problem, &pieces->at[i], &k, &n)) {
			largest = i;
			kind = k;
			parts = n;
		}
	}
	*done = largest != SIZE_MAX;
	return *done ? lk_shard_resplit(problem, pieces, largest, kind, parts, pieces->at[largest].host,
	                                err)
	             : LK_OK;
}

/* A table in another form, replacing its pieces. */
struct place_change {
	double price; /* per byte saved on the device */
	size_t piece;
	uint32_t table;
	lk_shard_kind kind;
	int parts;
	bool host;
};

LK_ORDER_BY(place_cheapest_first, struct place_change, price, piece)

/* Make changes one after the other until the devices together have room, at least one. Changed
 * pieces come last, in this order. */
static lk_status place_change_until_room(const lk_shard_problem *problem,
                                         const struct place_change *changes, size_t count,
                                         lk_shard_pieces *pieces, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_shard_pieces changed = {0};
	double *bytes = LK_ARRAY(&arena, double, problem->count + 1),
		   left = all_bytes(problem, pieces) - problem->capacity * problem->ranks;
	bool *gone = LK_ARRAY(&arena, bool, problem->count + 1);
	lk_status status = bytes && gone ? LK_OK : lk_oom(err);
	for (size_t i = 0; status == LK_OK && i < pieces->count; i++)
		bytes[pieces->at[i].table] += piece_bytes(problem, &pieces->at[i]);
	for (size_t i = 0; status == LK_OK && i < count && (i == 0 || left > 0); i++) {
		const struct place_change *change = &changes[i];
		if (gone[change->table]) continue;
		size_t begin = changed.count;
		gone[change->table] = true;
		left -= bytes[change->table];
		status = lk_shard_add_parts(problem, &changed, change->table, change->kind, change->parts,
		                            change->host, err);
		for (size_t k = begin; k < changed.count; k++) left += piece_bytes(problem, &changed.at[k]);
	}
	if (status == LK_OK && !lk_reserve(pieces, changed.count)) status = lk_oom(err);
	if (status == LK_OK) {
		size_t kept = 0;
		for (size_t i = 0; i < pieces->count; i++)
			if (!gone[pieces->at[i].table]) pieces->at[kept++] = pieces->at[i];
		for (size_t i = 0; i < changed.count; i++) pieces->at[kept++] = changed.at[i];
		pieces->count = kept;
	}
	lk_vec_free(&changed);
	lk_arena_free(&arena);
	return status;
}

/* Move tables to host memory, those whose device bytes cost least time first. */
static lk_status move_to_host(const lk_shard_problem *problem, lk_shard_pieces *pieces, bool *done,
                              lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct place_change *changes = LK_ARRAY(&arena, struct place_change, pieces->count + 1);
	size_t count = 0;
	if (!changes) return lk_oom(err);
	for (size_t i = 0; i < pieces->count && problem->host_capacity > 0; i++) {
		const lk_shard_piece *piece = &pieces->at[i];
		lk_shard_kind kind = (lk_shard_kind)piece->kind;
		if (piece->host || piece->kind == LK_SHARD_DATA) continue;
		lk_shard_piece there =
			lk_shard_piece_of(problem, piece->table, kind, piece->part, piece->parts, true);
		double saved = piece->cost.device_bytes - there.cost.device_bytes;
		if (!(saved > 0)) continue;
		double price = (lk_shard_work(&there) - lk_shard_work(piece)) / saved;
		changes[count++] = (struct place_change){price, i, piece->table, kind, piece->parts, true};
	}
	*done = count > 0;
	lk_sort(changes, count, sizeof *changes, place_cheapest_first);
	lk_status status =
		count ? place_change_until_room(problem, changes, count, pieces, err) : LK_OK;
	lk_arena_free(&arena);
	return status;
}

/* Turn copies into tables again. */
static lk_status copies_to_tables(const lk_shard_problem *problem, lk_shard_pieces *pieces,
                                  bool *done, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct place_change *changes = LK_ARRAY(&arena, struct place_change, pieces->count + 1);
	size_t count = 0;
	if (!changes) return lk_oom(err);
	for (size_t i = 0; i < pieces->count; i++) {
		uint32_t t = pieces->at[i].table;
		const lk_shard_table *table = &problem->tables[t];
		if (pieces->at[i].kind == LK_SHARD_DATA && table->allowed != 1u << LK_SHARD_DATA)
			changes[count++] = (struct place_change){0, i, t, first_kind(table), 1, false};
	}
	*done = count > 0;
	lk_status status =
		count ? place_change_until_room(problem, changes, count, pieces, err) : LK_OK;
	lk_arena_free(&arena);
	return status;
}

static lk_status relax(const lk_shard_problem *problem, lk_shard_pieces *pieces, bool *done,
                       lk_error *err) {
	LK_TRY(copies_to_tables(problem, pieces, done, err));
	if (!*done && all_bytes(problem, pieces) <= problem->capacity * problem->ranks)
		LK_TRY(split_largest(problem, pieces, done, err));
	if (!*done) LK_TRY(move_to_host(problem, pieces, done, err));
	return *done ? LK_OK : split_largest(problem, pieces, done, err);
}

bool lk_shard_overfull(const lk_shard_problem *problem) {
	return lk_shard_table_bytes(problem) >
	       (problem->capacity + problem->host_capacity) * problem->ranks;
}

bool lk_shard_hopeless(const lk_shard_problem *problem, const lk_shard_pieces *pieces) {
	for (size_t i = 0; i < pieces->count; i++)
		if (pieces->at[i].cost.device_bytes > problem->capacity ||
		    pieces->at[i].cost.host_bytes > problem->host_capacity)
			return true;
	return all_bytes(problem, pieces) > problem->capacity * problem->ranks;
}

/* `work`: pieces that may be tried. */
static lk_status place_within(const lk_shard_problem *problem, lk_shard_pieces *pieces, double work,
                              bool *placed, lk_error *err) {
	for (bool more = true; more && work > 0; work -= (double)pieces->count) {
		*placed = false;
		if (!lk_shard_hopeless(problem, pieces)) {
			for (size_t i = 0; i < pieces->count; i++) pieces->at[i].rank = -1;
			LK_TRY(lk_shard_longest_first(problem, pieces, placed, err));
			if (!*placed) LK_TRY(lk_shard_pack(problem, pieces, PACK_NODES, placed, err));
			work -= (double)pieces->count * problem->ranks;
		}
		if (*placed) return LK_OK;
		/* splits repeat indices or sums: they never reduce an excess */
		if (problem->host_capacity <= 0 &&
		    all_bytes(problem, pieces) > problem->capacity * problem->ranks)
			LK_TRY(copies_to_tables(problem, pieces, &more, err));
		else LK_TRY(relax(problem, pieces, &more, err));
	}
	return LK_OK;
}

lk_status lk_shard_place(const lk_shard_problem *problem, lk_shard_pieces *pieces, bool *placed,
                         lk_error *err) {
	return place_within(problem, pieces, INFINITY, placed, err);
}

lk_status lk_shard_has_room(const lk_shard_problem *problem, bool *placed, lk_error *err) {
	lk_shard_pieces pieces = {0};
	*placed = false;
	if (lk_shard_overfull(problem)) return LK_OK;
	lk_status status = lk_shard_start_pieces(problem, NULL, &pieces, err);
	if (status == LK_OK) status = place_within(problem, &pieces, ROOM_WORK, placed, err);
	lk_vec_free(&pieces);
	return status;
}
