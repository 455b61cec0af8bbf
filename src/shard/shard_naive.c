/* shard_naive.c: table i on rank i modulo the ranks; where there is no room, on the next rank that has some. */
#include "shard/shard.h"

static lk_status place(const lk_shard_problem *p, lk_shard_pieces *pieces, double *bytes, lk_error *err) {
	for (size_t i = 0; i < pieces->count; i++) {
		lk_shard_piece *piece = &pieces->at[i];
		for (int k = 0; k < p->ranks && piece->rank < 0; k++) {
			int r = (int)((i + (size_t)k) % (size_t)p->ranks);
			if (bytes[r] + piece->cost.device_bytes <= p->capacity) piece->rank = r;
		}
		if (piece->rank < 0) return lk_shard_no_room(p, piece, err);
		bytes[piece->rank] += piece->cost.device_bytes;
	}
	return LK_OK;
}

lk_status lk_shard_naive(const lk_shard_problem *p, lk_shard_plan *out, lk_error *err) {
	return lk_shard_in_turn(p, place, out, err);
}
