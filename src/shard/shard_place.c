/* shard_place.c: gives pieces ranks: longest first, each where it fits. A piece that fits nowhere
 * is split, by columns while possible, then by rows; then moved to host memory, the table whose
 * bytes cost least time first. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
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

/* A rank's load in one measure. */
struct placed_load {
	double load;
	int rank;
};

LK_ORDER_BY(place_lightest_first, struct placed_load, load, rank)

/* What the ranks have, and their order in each measure, so that few of them are compared. */
struct placing {
	const lk_shard_problem *p;
	lk_shard_cost *load, mean;                    /* [ranks]; of all ranks */
	struct placed_load *order[LK_SHARD_MEASURES]; /* [ranks] lightest first */
};

/* The first of the ordered loads that is not before this one. */
static size_t place_find(const struct placed_load *order, size_t count, struct placed_load wanted) {
	size_t low = 0;
	while (low < count) {
		size_t middle = low + (count - low) / 2;
		if (place_lightest_first(&order[middle], &wanted) < 0) low = middle + 1;
		else count = middle;
	}
	return low;
}

/* The rank with room whose largest measure is least, the first of equal ones. The ranks are
 * compared in the order of the measure in which the piece has most: it bounds the others. */
static int place_least_loaded(const struct placing *placing, const lk_shard_cost *more) {
	double mean[LK_SHARD_MEASURES], own[LK_SHARD_MEASURES], least = INFINITY, least_load = -1;
	size_t ranks = (size_t)placing->p->ranks;
	int best = -1, by = 0;
	for (int m = 0; m < LK_SHARD_MEASURES; m++) {
		mean[m] = lk_shard_measure(&placing->mean, m);
		own[m] = lk_shard_measure(more, m);
		if (mean[m] > 0 && (!(mean[by] > 0) || own[m] / mean[m] > own[by] / mean[by])) by = m;
	}
	for (size_t i = 0; i < ranks; i++) {
		const struct placed_load *at = &placing->order[by][i];
		const lk_shard_cost *load = &placing->load[at->rank];
		double low = mean[by] > 0 ? (at->load + own[by]) / mean[by] : 0;
		if (low > least) break;
		if (low == least && at->load == least_load) { /* of equal ones the first is found */
			i = place_find(placing->order[by], ranks, (struct placed_load){at->load, INT_MAX}) - 1;
			continue;
		}
		if (load->device_bytes + more->device_bytes > placing->p->capacity ||
		    load->host_bytes + more->host_bytes > placing->p->host_capacity)
			continue;
		double most = 0;
		for (int m = 0; m < LK_SHARD_MEASURES && most <= least; m++) {
			double all = mean[m] > 0 ? (lk_shard_measure(load, m) + own[m]) / mean[m] : 0;
			if (all > most) most = all;
		}
		if (most > least || (most == least && at->rank > best)) continue;
		best = at->rank;
		least = most;
		least_load = at->load;
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

/* Add the piece to a rank, which moves back in the orders. */
static void place_on(struct placing *placing, int rank, const lk_shard_cost *more) {
	lk_shard_cost before = placing->load[rank];
	size_t count = (size_t)placing->p->ranks;
	load_with(&placing->load[rank], more);
	for (int m = 0; m < LK_SHARD_MEASURES; m++) {
		struct placed_load old = {lk_shard_measure(&before, m), rank},
						   new = {lk_shard_measure(&placing->load[rank], m), rank};
		size_t from = place_find(placing->order[m], count, old),
			   to = place_find(placing->order[m], count, new) - (new.load > old.load);
		LK_ASSERT(placing->order[m][from].rank == rank && to >= from);
		memmove(&placing->order[m][from], &placing->order[m][from + 1], (to - from) * sizeof old);
		placing->order[m][to] = new;
	}
}

static lk_status place_begin(lk_arena *arena, const lk_shard_problem *problem,
                             const lk_shard_pieces *pieces, struct placing *placing,
                             lk_error *err) {
	size_t ranks = (size_t)problem->ranks;
	*placing = (struct placing){.p = problem, .load = LK_ARRAY(arena, lk_shard_cost, ranks)};
	if (!placing->load) return lk_oom(err);
	for (size_t i = 0; i < pieces->count; i++) {
		const lk_shard_piece *piece = &pieces->at[i];
		bool copied = piece->kind == LK_SHARD_DATA;
		for (size_t r = 0; copied && r < ranks; r++) load_with(&placing->load[r], &piece->cost);
		if (!copied && piece->rank >= 0) load_with(&placing->load[piece->rank], &piece->cost);
		lk_shard_cost part = piece->cost;
		part.forward_s /= problem->ranks;
		part.backward_s /= problem->ranks;
		part.columns /= problem->ranks;
		load_with(&placing->mean, &part);
	}
	for (int m = 0; m < LK_SHARD_MEASURES; m++) {
		struct placed_load *order = placing->order[m] = LK_ARRAY(arena, struct placed_load, ranks);
		if (!order) return lk_oom(err);
		for (size_t r = 0; r < ranks; r++)
			order[r] = (struct placed_load){lk_shard_measure(&placing->load[r], m), (int)r};
		lk_sort(order, ranks, sizeof *order, place_lightest_first);
	}
	return LK_OK;
}

/* Place pieces without a rank. */
lk_status lk_shard_longest_first(const lk_shard_problem *problem, lk_shard_pieces *pieces,
                                 bool *placed, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct placing placing;
	size_t count = 0;
	lk_status status = place_begin(&arena, problem, pieces, &placing, err);
	lk_shard_weighed *order = LK_ARRAY(&arena, lk_shard_weighed, pieces->count);
	if (status == LK_OK && !order) status = lk_oom(err);
	if (status != LK_OK) return lk_arena_free(&arena), status;
	*placed = true;
	for (size_t i = 0; i < pieces->count; i++)
		if (pieces->at[i].kind != LK_SHARD_DATA && pieces->at[i].rank < 0)
			order[count++] = (lk_shard_weighed){0, i};
	for (size_t i = 0; i < count; i++)
		for (int m = 0; m < LK_SHARD_MEASURES; m++) {
			double own = lk_shard_measure(&pieces->at[order[i].piece].cost, m),
				   mean = lk_shard_measure(&placing.mean, m);
			if (mean > 0) order[i].cost = fmax(order[i].cost, own / mean);
		}
	for (int r = 0; r < problem->ranks; r++)
		*placed &= placing.load[r].device_bytes <= problem->capacity;
	lk_sort(order, count, sizeof *order, lk_shard_costliest_first);
	for (size_t i = 0; i < count; i++) {
		lk_shard_piece *piece = &pieces->at[order[i].piece];
		piece->rank = place_least_loaded(&placing, &piece->cost);
		if (piece->rank < 0) *placed = false;
		else place_on(&placing, piece->rank, &piece->cost);
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
