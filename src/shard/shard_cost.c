/* shard_cost.c: costs of a table's piece on its rank.
 *
 *     whole table     all lookups of all samples; D columns of sums to every rank
 *     k column parts  all lookups, rows D/k wide; D/k columns
 *     k row parts     1/k of the lookups (rows are assumed to be dealt out by hash); partial sums,
 *                     so D columns
 *     a copy          the rank's own samples; nothing exchanged, the whole gradient reduced over
 *                     ranks and applied
 *
 * Rows in host memory: the most frequent ones are cached on the device; each other row that the
 * batch touches passes over PCIe once, and back once if it was changed (FBGEMM's UVM caching). */
#include <math.h>

#include "base/arena.h"
#include "shard/shard.h"

enum {
	FLOAT = 4,
	INDEX = 8,
	NARROWEST = 8 /* columns: 32 bytes, a sector of memory */
};

static void scale_rows(const lk_locality *in, double factor, lk_locality *out) {
	*out = *in;
	for (int i = 0; i < out->count; i++) out->rows[i] *= factor;
}

/* In a share that touches this multiple of the mean. */
static void host_seconds(const lk_shard_problem *problem, lk_lookup *lookup,
                         const lk_host_uses *uses, double times, double *forward,
                         double *backward) {
	lk_host_share share = problem->share;
	lk_host_found found;
	share.bytes *= times;
	share.samples *= times;
	share.page_bytes *= times;
	lk_host_lookup_find(problem->at.host, lookup, uses, &share, &found);
	lookup->backward = false;
	*forward = lk_host_lookup_seconds_of(problem->at.host, lookup, uses, &found);
	lookup->backward = true;
	*backward = lk_host_lookup_seconds_of(problem->at.host, lookup, uses, &found);
}

static void price_on_host(const lk_shard_problem *problem, lk_lookup *lookup,
                          lk_shard_piece *piece) {
	lk_shard_shared *shared = &piece->shared;
	lk_shard_cost *cost = &piece->cost;
	lk_host_share own = {0};
	lk_host_uses uses;
	lk_host_share_add(&own, lookup);
	lk_host_lookup_uses(lookup, problem->at.host->threads, &uses);
	host_seconds(problem, lookup, &uses, 1, &cost->forward_s, &cost->backward_s);
	shared->bytes = own.bytes;
	for (int i = 0; i < LK_SHARD_SIZES; i++) {
		double forward_s, backward_s, octaves = (double)i / LK_SHARD_OCTAVE - 1;
		if (i == LK_SHARD_OCTAVE) continue;
		host_seconds(problem, lookup, &uses, exp2(octaves), &forward_s, &backward_s);
		shared->forward_s[i] =
			octaves < 0 ? fmin(forward_s - cost->forward_s, 0) : forward_s - cost->forward_s;
		shared->backward_s[i] =
			octaves < 0 ? fmin(backward_s - cost->backward_s, 0) : backward_s - cost->backward_s;
	}
}

static void cost_price(const lk_shard_problem *problem, lk_lookup *lookup, lk_shard_piece *piece) {
	const lk_shard_device *at = &problem->at;
	if (!(lookup->pooling > 0)) return;
	if (at->host) {
		price_on_host(problem, lookup, piece);
		return;
	}
	lookup->backward = false;
	piece->cost.forward_s = lk_lookup_seconds(lookup, at->device, at->memory_rate, at->l2_rate);
	lookup->backward = true;
	piece->cost.backward_s = lk_lookup_seconds(lookup, at->device, at->memory_rate, at->l2_rate);
}

void lk_shard_piece_size(const lk_shard_problem *problem, const lk_shard_piece *piece, double *rows,
                         double *columns) {
	const lk_shard_table *table = &problem->tables[piece->table];
	double k = piece->parts, i = piece->part;
	*rows = table->rows;
	*columns = table->dim;
	if (piece->kind == LK_SHARD_COLUMN)
		*columns = floor(table->dim * (i + 1) / k) - floor(table->dim * i / k);
	if (piece->kind == LK_SHARD_ROW)
		*rows = floor(table->rows * (i + 1) / k) - floor(table->rows * i / k);
}

/* Rows, columns and lookups of the piece. */
static lk_lookup lookup_of(const lk_shard_problem *problem, const lk_shard_piece *piece,
                           lk_locality *room) {
	const lk_shard_table *table = &problem->tables[piece->table];
	double k = piece->parts;
	lk_lookup l = {.batch = problem->batch,
	               .tables = 1,
	               .pooling = table->pooling,
	               .locality = table->locality,
	               .element = problem->element};
	lk_shard_piece_size(problem, piece, &l.rows, &l.dim);
	if (piece->kind == LK_SHARD_ROW) {
		l.pooling = table->pooling / k;
		scale_rows(table->locality, 1 / k, room);
		l.locality = room;
	}
	if (piece->kind == LK_SHARD_DATA) {
		l.batch = problem->batch / problem->ranks;
		lk_locality_thin(table->locality, 1.0 / problem->ranks, room);
		l.locality = room;
	}
	l.state = problem->row_state + problem->state * l.dim;
	return l;
}

static double table_bytes(const lk_shard_problem *problem, const lk_lookup *lookup) {
	return lookup->rows * (lookup->dim * (problem->element + problem->state) + problem->row_state);
}

/* Sums and their gradients, and the indices. */
static double batch_bytes(const lk_lookup *lookup) {
	return lookup->batch * (2 * FLOAT * lookup->dim + INDEX * lookup->pooling);
}

static void put_on_host(const lk_shard_problem *problem, const lk_lookup *lookup,
                        lk_shard_cost *cost) {
	double bytes = table_bytes(problem, lookup), held = floor(problem->cache_share * lookup->rows);
	double missed = fmax(lk_locality_rows(lookup->locality) - held, 0) *
	                (lookup->dim * problem->element + lookup->state);
	cost->host_bytes = bytes;
	cost->device_bytes -= (1 - problem->cache_share) * bytes;
	cost->forward_s += missed / problem->at.host_rate;
	cost->backward_s += missed / problem->at.host_rate;
}

/* The gradient is as large as the table: cleared, read, and the weights read and written. */
static void make_copy(const lk_shard_problem *problem, const lk_lookup *lookup,
                      lk_shard_cost *cost) {
	double gradient = lookup->rows * lookup->dim * FLOAT;
	cost->reduced_bytes = gradient;
	cost->device_bytes += gradient;
	cost->columns = 0;
	cost->backward_s += (2 * gradient + 2 * table_bytes(problem, lookup)) / problem->at.memory_rate;
}

lk_shard_piece lk_shard_piece_of(const lk_shard_problem *problem, uint32_t table,
                                 lk_shard_kind kind, int part, int parts, bool host) {
	lk_shard_piece piece = {.table = table,
	                        .kind = (uint8_t)kind,
	                        .host = host,
	                        .part = part,
	                        .parts = parts,
	                        .rank = -1};
	lk_locality room;
	lk_lookup l = lookup_of(problem, &piece, &room);
	lk_shard_cost *cost = &piece.cost;
	cost->columns = l.dim;
	cost->device_bytes = table_bytes(problem, &l) + batch_bytes(&l);
	cost_price(problem, &l, &piece);
	if (kind == LK_SHARD_DATA) make_copy(problem, &l, cost);
	else if (host) put_on_host(problem, &l, cost);
	return piece;
}

void lk_shard_piece_hold(const lk_shard_problem *problem, const lk_shard_piece *piece,
                         double held[LK_OWNERS]) {
	double rows, columns;
	lk_shard_piece_size(problem, piece, &rows, &columns);
	double kept = piece->host ? problem->cache_share : 1, numbers = rows * columns;
	held[LK_OWN_WEIGHTS] = kept * numbers * problem->element;
	held[LK_OWN_OPTIMIZER] = kept * (numbers * problem->state + rows * problem->row_state);
	held[LK_OWN_GRADIENTS] = piece->kind == LK_SHARD_DATA ? numbers * FLOAT : 0;
	held[LK_OWN_BUFFERS] = piece->cost.device_bytes - held[LK_OWN_WEIGHTS] -
	                       held[LK_OWN_OPTIMIZER] - held[LK_OWN_GRADIENTS];
}

/* Parts as wide as the previous one, or with as many rows, have its cost. */
lk_status lk_shard_add_parts(const lk_shard_problem *problem, lk_shard_pieces *pieces,
                             uint32_t table, lk_shard_kind kind, int parts, bool host,
                             lk_error *err) {
	double all = parts, before = -1;
	if (kind == LK_SHARD_COLUMN) all = problem->tables[table].dim;
	if (kind == LK_SHARD_ROW) all = problem->tables[table].rows;
	if (!lk_reserve(pieces, (size_t)parts)) return lk_oom(err);
	for (int i = 0; i < parts; i++, pieces->count++) {
		double size = floor(all * (i + 1) / parts) - floor(all * i / parts);
		if (size != before)
			pieces->at[pieces->count] = lk_shard_piece_of(problem, table, kind, i, parts, host);
		else {
			pieces->at[pieces->count] = pieces->at[pieces->count - 1];
			pieces->at[pieces->count].part = i;
		}
		before = size;
	}
	return LK_OK;
}

int lk_shard_most_parts(const lk_shard_problem *problem, uint32_t table, lk_shard_kind kind) {
	const lk_shard_table *shard_table = &problem->tables[table];
	if (!(shard_table->allowed & 1u << kind)) return 0;
	double most;
	if (kind == LK_SHARD_COLUMN) most = floor(shard_table->dim / NARROWEST);
	else if (kind == LK_SHARD_ROW) most = shard_table->rows;
	else most = 1;
	return (int)fmax(fmin(most, problem->ranks), 1);
}

int lk_shard_more_parts(int parts, int most) {
	if (parts >= most) return 0;
	if (parts * 2 < most) return parts * 2;
	return most;
}

lk_status lk_shard_resplit(const lk_shard_problem *problem, lk_shard_pieces *pieces, size_t index,
                           lk_shard_kind kind, int parts, bool host, lk_error *err) {
	uint32_t table = pieces->at[index].table;
	size_t kept = 0;
	for (size_t i = 0; i < pieces->count; i++)
		if (pieces->at[i].table != table) pieces->at[kept++] = pieces->at[i];
	pieces->count = kept;
	return lk_shard_add_parts(problem, pieces, table, kind, parts, host, err);
}

lk_status lk_shard_whole(const lk_shard_problem *problem, lk_shard_pieces *out, lk_error *err) {
	out->count = 0;
	if (!lk_reserve(out, problem->count)) return lk_oom(err);
	for (uint32_t t = 0; t < problem->count; t++)
		out->at[out->count++] = lk_shard_piece_of(problem, t, LK_SHARD_TABLE, 0, 1, false);
	return LK_OK;
}

lk_status lk_shard_in_turn(const lk_shard_problem *problem, lk_shard_place_fn *place,
                           lk_shard_plan *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	double *bytes = LK_ARRAY(&arena, double, problem->ranks);
	lk_status status = bytes ? lk_shard_whole(problem, &out->pieces, err) : lk_oom(err);
	if (status == LK_OK) status = place(problem, &out->pieces, bytes, err);
	lk_arena_free(&arena);
	return status;
}

double lk_shard_table_bytes(const lk_shard_problem *problem) {
	double sum = 0;
	for (uint32_t t = 0; t < problem->count; t++)
		sum += table_bytes(
			problem, &(lk_lookup){.rows = problem->tables[t].rows, .dim = problem->tables[t].dim});
	return sum;
}

void lk_shard_share(lk_shard_problem *problem) {
	lk_host_share all = {0};
	for (uint32_t t = 0; t < problem->count; t++) {
		const lk_shard_table *table = &problem->tables[t];
		lk_lookup l = {.batch = problem->batch,
		               .tables = 1,
		               .rows = table->rows,
		               .dim = table->dim,
		               .pooling = table->pooling,
		               .locality = table->locality,
		               .element = problem->element,
		               .state = problem->state * table->dim + problem->row_state};
		lk_host_share_add(&all, &l);
	}
	problem->share = lk_host_share_of(&all, problem->ranks);
}
