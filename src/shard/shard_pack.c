/* shard_pack.c: places pieces by memory alone, where nothing else fits any more: largest first, each to the rank that it
 * fills most; and when that fails, every placement one after the other, ranks that are filled alike once. */
#include <stdlib.h>

#include "shard/shard.h"

struct packer {
	const lk_shard_problem *p;
	lk_shard_piece **order;
	size_t count;
	double *device, *host;
	double device_left, host_left; /* that is not placed yet */
	double device_room, host_room; /* on all ranks */
	uint64_t nodes;
};

static int largest_first(const void *a, const void *b) {
	const lk_shard_piece *x = *(lk_shard_piece *const *)a, *y = *(lk_shard_piece *const *)b;
	double l = x->cost.device_bytes + x->cost.host_bytes, r = y->cost.device_bytes + y->cost.host_bytes;
	if (l != r) return l > r ? -1 : 1;
	return x->table != y->table ? (x->table < y->table ? -1 : 1) : x->part - y->part;
}

static bool has_room(const struct packer *k, int r, const lk_shard_cost *c) {
	return k->device[r] + c->device_bytes <= k->p->capacity && k->host[r] + c->host_bytes <= k->p->host_capacity;
}

static void put(struct packer *k, int r, lk_shard_piece *piece, double sign) {
	const lk_shard_cost *c = &piece->cost;
	k->device[r] += sign * c->device_bytes, k->host[r] += sign * c->host_bytes;
	k->device_left -= sign * c->device_bytes, k->host_left -= sign * c->host_bytes;
	k->device_room -= sign * c->device_bytes, k->host_room -= sign * c->host_bytes;
	piece->rank = sign > 0 ? r : -1;
}

static bool seen_alike(const struct packer *k, int r) {
	for (int q = 0; q < r; q++)
		if (k->device[q] == k->device[r] && k->host[q] == k->host[r]) return true;
	return false;
}

static bool best_fit(struct packer *k) {
	for (size_t i = 0; i < k->count; i++) {
		int best = -1;
		for (int r = 0; r < k->p->ranks; r++)
			if (has_room(k, r, &k->order[i]->cost) && (best < 0 || k->device[r] > k->device[best])) best = r;
		if (best < 0) return false;
		put(k, best, k->order[i], 1);
	}
	return true;
}

static bool every_way(struct packer *k, size_t at) {
	if (at == k->count) return true;
	if (k->device_left > k->device_room || k->host_left > k->host_room) return false;
	for (int r = 0; r < k->p->ranks && k->nodes; r++) {
		if (!has_room(k, r, &k->order[at]->cost) || seen_alike(k, r)) continue;
		k->nodes--;
		put(k, r, k->order[at], 1);
		if (every_way(k, at + 1)) return true;
		put(k, r, k->order[at], -1);
	}
	return false;
}

static void clear(struct packer *k) {
	for (size_t i = 0; i < k->count; i++)
		if (k->order[i]->rank >= 0) put(k, k->order[i]->rank, k->order[i], -1);
}

/* Copies are on every rank. */
static void begin(struct packer *k, lk_shard_pieces *pieces) {
	for (size_t i = 0; i < pieces->count; i++) {
		lk_shard_piece *piece = &pieces->at[i];
		piece->rank = -1;
		if (piece->kind != LK_SHARD_DATA) {
			k->order[k->count++] = piece;
			k->device_left += piece->cost.device_bytes, k->host_left += piece->cost.host_bytes;
			continue;
		}
		for (int r = 0; r < k->p->ranks; r++) k->device[r] += piece->cost.device_bytes;
	}
	for (int r = 0; r < k->p->ranks; r++)
		k->device_room += k->p->capacity - k->device[r], k->host_room += k->p->host_capacity;
	qsort(k->order, k->count, sizeof *k->order, largest_first);
}

lk_status lk_shard_pack(const lk_shard_problem *p, lk_shard_pieces *pieces, uint64_t nodes, bool *placed, lk_error *err) {
	enum { DEEPEST = 4000 }; /* the search calls itself for each piece */
	lk_arena arena = LK_ARENA_INIT;
	struct packer k = {.p = p, .order = LK_ARRAY(&arena, lk_shard_piece *, pieces->count), .nodes = nodes,
	            .device = LK_ARRAY(&arena, double, p->ranks), .host = LK_ARRAY(&arena, double, p->ranks)};
	lk_status status = k.order && k.device && k.host ? LK_OK : lk_oom(err);
	if (status == LK_OK) {
		begin(&k, pieces);
		*placed = best_fit(&k);
		if (!*placed) clear(&k);
		if (!*placed && k.count <= DEEPEST) *placed = every_way(&k, 0);
	}
	lk_arena_free(&arena);
	return status;
}
