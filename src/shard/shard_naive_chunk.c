/* shard_naive_chunk.c: runs of neighbouring tables, as many on each rank; where there is no room, the next rank's run begins.
 * The study names this sharder and defines it nowhere; this is what its name says. */
#include "shard/shard.h"

lk_status lk_shard_naive_chunk(const lk_shard_problem *p, lk_shard_plan *out, lk_error *err) {
	LK_TRY(lk_shard_whole(p, &out->pieces, err));
	double bytes = 0;
	size_t chunk = (p->count + (size_t)p->ranks - 1) / (size_t)p->ranks, held = 0;
	int rank = 0;
	for (size_t i = 0; i < out->pieces.count; i++, held++) {
		lk_shard_piece *piece = &out->pieces.at[i];
		if (held == chunk || bytes + piece->cost.device_bytes > p->capacity) rank++, held = 0, bytes = 0;
		bytes += piece->cost.device_bytes;
		if (rank >= p->ranks || bytes > p->capacity) return lk_shard_no_room(p, piece, err);
		piece->rank = rank;
	}
	return LK_OK;
}
