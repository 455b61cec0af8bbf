/* shard_pack.c: places pieces by memory alone, as a last resort: largest first, each to the rank
 * that it fills most; if that fails, tries every placement in turn, equally filled ranks only
 * once. */

#include "base/arena.h"
#include "base/sort.h"
#include "shard/shard.h"

struct packer {
	const lk_shard_problem *p;
	lk_shard_piece **order;
	size_t count;
	double *device, *host;
	double device_left, host_left; /* not placed yet */
	double device_room, host_room; /* on all ranks */
	uint64_t nodes;
};

static int pack_largest_first(const void *a, const void *b) {
	const lk_shard_piece *x = *(lk_shard_piece *const *)a, *y = *(lk_shard_piece *const *)b;
	double l = x->cost.device_bytes + x->cost.host_bytes,
		   r = y->cost.device_bytes + y->cost.host_bytes;
	if (l != r) return l > r ? -1 : 1;
	if (x->table != y->table) {
		if (x->table < y->table) return -1;
		return 1;
	}
	return x->part - y->part;
}

static bool pack_has_room(const struct packer *packer, int r, const lk_shard_cost *cost) {
	return packer->device[r] + cost->device_bytes <= packer->p->capacity &&
	       packer->host[r] + cost->host_bytes <= packer->p->host_capacity;
}

static void shard_pack_put(struct packer *packer, int r, lk_shard_piece *piece, double sign) {
	const lk_shard_cost *cost = &piece->cost;
	packer->device[r] += sign * cost->device_bytes;
	packer->host[r] += sign * cost->host_bytes;
	packer->device_left -= sign * cost->device_bytes;
	packer->host_left -= sign * cost->host_bytes;
	packer->device_room -= sign * cost->device_bytes;
	packer->host_room -= sign * cost->host_bytes;
	piece->rank = sign > 0 ? r : -1;
}

static bool seen_alike(const struct packer *packer, int r) {
	for (int q = 0; q < r; q++)
		if (packer->device[q] == packer->device[r] && packer->host[q] == packer->host[r])
			return true;
	return false;
}

static bool best_fit(struct packer *packer) {
	for (size_t i = 0; i < packer->count; i++) {
		int best = -1;
		for (int r = 0; r < packer->p->ranks; r++)
			if (pack_has_room(packer, r, &packer->order[i]->cost) &&
			    (best < 0 || packer->device[r] > packer->device[best]))
				best = r;
		if (best < 0) return false;
		shard_pack_put(packer, best, packer->order[i], 1);
	}
	return true;
}

/* Pieces as large as the one before do not go to an earlier rank: exchanging them changes
 * nothing. */
static int pack_first_rank(const struct packer *packer, size_t at) {
	if (at == 0) return 0;
	const lk_shard_piece *before = packer->order[at - 1], *piece = packer->order[at];
	bool alike = before->cost.device_bytes == piece->cost.device_bytes &&
	             before->cost.host_bytes == piece->cost.host_bytes;
	return alike ? before->rank : 0;
}

static bool every_way(struct packer *packer, size_t at) {
	if (at == packer->count) return true;
	if (packer->device_left > packer->device_room || packer->host_left > packer->host_room)
		return false;
	for (int r = pack_first_rank(packer, at); r < packer->p->ranks && packer->nodes; r++) {
		if (!pack_has_room(packer, r, &packer->order[at]->cost) || seen_alike(packer, r)) continue;
		packer->nodes--;
		shard_pack_put(packer, r, packer->order[at], 1);
		if (every_way(packer, at + 1)) return true;
		shard_pack_put(packer, r, packer->order[at], -1);
	}
	return false;
}

/* A rank has room for k pieces larger than 1/(k+1) of it: whether there are more such pieces than
 * the ranks have room for, for some k. Ranks are alike before anything is placed. */
static bool pack_too_many(const struct packer *packer) {
	enum { MOST = 16 };
	double device_room = packer->p->capacity - packer->device[0],
		   host_room = packer->p->host_capacity;
	for (int k = 1; k <= MOST; k++) {
		size_t on_device = 0, on_host = 0, room = (size_t)k * (size_t)packer->p->ranks;
		for (size_t i = 0; i < packer->count; i++) {
			const lk_shard_cost *cost = &packer->order[i]->cost;
			on_device += cost->device_bytes * (k + 1) > device_room * (1 + 1e-9);
			on_host += cost->host_bytes * (k + 1) > host_room * (1 + 1e-9);
		}
		if (on_device > room || on_host > room) return true;
	}
	return false;
}

/* Copies are on every rank. */
static void pack_begin(struct packer *packer, lk_shard_pieces *pieces) {
	for (size_t i = 0; i < pieces->count; i++) {
		lk_shard_piece *piece = &pieces->at[i];
		piece->rank = -1;
		if (piece->kind != LK_SHARD_DATA) {
			packer->order[packer->count++] = piece;
			packer->device_left += piece->cost.device_bytes;
			packer->host_left += piece->cost.host_bytes;
			continue;
		}
		for (int r = 0; r < packer->p->ranks; r++) packer->device[r] += piece->cost.device_bytes;
	}
	for (int r = 0; r < packer->p->ranks; r++) {
		packer->device_room += packer->p->capacity - packer->device[r];
		packer->host_room += packer->p->host_capacity;
	}
	lk_sort(packer->order, packer->count, sizeof *packer->order, pack_largest_first);
}

lk_status lk_shard_pack(const lk_shard_problem *problem, lk_shard_pieces *pieces, uint64_t nodes,
                        bool *placed, lk_error *err) {
	enum { DEEPEST = 4000 }; /* the search recurses for each piece */
	lk_arena arena = LK_ARENA_INIT;
	struct packer k = {.p = problem,
	                   .order = LK_ARRAY(&arena, lk_shard_piece *, pieces->count),
	                   .nodes = nodes,
	                   .device = LK_ARRAY(&arena, double, problem->ranks),
	                   .host = LK_ARRAY(&arena, double, problem->ranks)};
	lk_status status = k.order && k.device && k.host ? LK_OK : lk_oom(err);
	if (status == LK_OK) {
		pack_begin(&k, pieces);
		*placed = best_fit(&k);
		for (size_t i = 0; !*placed && i < k.count; i++)
			if (k.order[i]->rank >= 0) shard_pack_put(&k, k.order[i]->rank, k.order[i], -1);
		if (!*placed && k.count <= DEEPEST && !pack_too_many(&k)) *placed = every_way(&k, 0);
	}
	lk_arena_free(&arena);
	return status;
}
