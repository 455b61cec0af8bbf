/* shard_random.c: each table on any rank that has room, by chance; the same for the same seed. */
#include "base/stats.h"
#include "shard/shard.h"

static lk_status place(const lk_shard_problem *p, lk_shard_pieces *pieces, double *bytes, lk_error *err) {
	for (size_t i = 0; i < pieces->count; i++) {
		lk_shard_piece *piece = &pieces->at[i];
		int free = 0, seen = 0;
		for (int r = 0; r < p->ranks; r++) free += bytes[r] + piece->cost.device_bytes <= p->capacity;
		if (!free) return lk_shard_no_room(p, piece, err);
		int wanted = (int)(lk_hash64(lk_hash64(p->seed) + i) % (uint64_t)free);
		for (int r = 0; r < p->ranks && piece->rank < 0; r++)
			if (bytes[r] + piece->cost.device_bytes <= p->capacity && seen++ == wanted) piece->rank = r;
		bytes[piece->rank] += piece->cost.device_bytes;
	}
	return LK_OK;
}

lk_status lk_shard_random(const lk_shard_problem *p, lk_shard_plan *out, lk_error *err) {
	return lk_shard_in_turn(p, place, out, err);
}
