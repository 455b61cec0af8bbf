/* ---- rings: messages, sums, gathers, running ---- */

/* ---- messages ---- */

enum { RT_RING_TAKE, RT_RING_ON, RT_RING_LEAD, RT_RING_HOP, RT_RING_OWN };

/* The requests of a kind; those of gather j are OWN + 3j: this rank's own, the arriving, those
 * handed on. */
RT_RING_FN MPI_Request *rt_ring_request(rt_ring *ring, int kind, int64_t i) {
	return &ring->request[(kind * ring->slots + i % ring->slots) * ring->pieces];
}

RT_RING_FN bool rt_ring_free(rt_ring *ring, int kind, int64_t i) {
	const MPI_Request *request = rt_ring_request(ring, kind, i);
	for (int k = 0; k < ring->pieces; k++)
		if (request[k] != MPI_REQUEST_NULL) return false;
	return true;
}

RT_RING_FN int rt_ring_turn(const rt_ring *ring, int64_t r) {
	return (int)((r % ring->ranks + ring->ranks) % ring->ranks);
}

/* Stage 0 is the reduce-scatter, 1 + j gather j; messages of a step have a tag of their own, so
 * that steps may overtake. */
RT_RING_FN int rt_ring_tag(const rt_ring *ring, int stage, int64_t step) {
	return (int)(64 + stage * (ring->ranks - 1) + step);
}

/* A message, or its pieces; they keep their order. */
RT_RING_FN void rt_ring_post(bool send, char *at, int64_t bytes, int64_t piece, int other, int tag,
                             MPI_Comm comm, MPI_Request *request) {
	for (int64_t done = 0; done < bytes; done += piece, request++) {
		int count = (int)(bytes - done < piece ? bytes - done : piece);
		if (send) MPI_Isend(at + done, count, MPI_BYTE, other, tag, comm, request);
		else MPI_Irecv(at + done, count, MPI_BYTE, other, tag, comm, request);
	}
}

RT_RING_FN void rt_ring_isend(rt_ring *ring, const void *at, int64_t bytes, int stage, int64_t step,
                              MPI_Request *request) {
	ring->sent += bytes;
	rt_ring_post(true, (char *)at, bytes, ring->piece, rt_ring_turn(ring, ring->rank + 1),
	             rt_ring_tag(ring, stage, step), ring->comm, request);
}

RT_RING_FN void rt_ring_irecv(rt_ring *ring, void *at, int64_t bytes, int stage, int64_t step,
                              MPI_Request *request) {
	rt_ring_post(false, at, bytes, ring->piece, rt_ring_turn(ring, ring->rank - 1),
	             rt_ring_tag(ring, stage, step), ring->comm, request);
}

/* A sub of a chunk in one piece: where it lies, or copied together into `pack`. `gather` -1: of the
 * parts. */
RT_RING_FN const char *rt_ring_packed(const rt_ring *ring, int64_t sub, int chunk, int gather,
                                      char *pack) {
	size_t size = gather < 0 ? ring->part_size : ring->whole_size[gather];
	rt_ring_path walk = rt_ring_walk(ring, sub, chunk);
	int64_t all = walk.left;
	rt_ring_piece piece;
	while (rt_ring_next(ring, &walk, &piece)) {
		const rt_ring_item *item = &ring->item[piece.item];
		const char *from = (const char *)(gather < 0 ? item->parts : item->whole[gather]) +
		                   (size_t)piece.at * size;
		if (piece.count == all) return from;
		memcpy(pack + (size_t)piece.offset * size, from, (size_t)piece.count * size);
	}
	return pack;
}

/* Where a sub of a gathered tensor lies if it is in one piece, else NULL. */
RT_RING_FN char *rt_ring_place(const rt_ring *ring, int64_t sub, int chunk, int gather) {
	rt_ring_path walk = rt_ring_walk(ring, sub, chunk);
	int64_t all = walk.left;
	rt_ring_piece piece;
	if (!rt_ring_next(ring, &walk, &piece) || piece.count != all) return NULL;
	return (char *)ring->item[piece.item].whole[gather] +
	       (size_t)piece.at * ring->whole_size[gather];
}

RT_RING_FN char *rt_ring_slot(const rt_ring *ring, char *base, int gather, int64_t i) {
	size_t bytes = 0;
	for (int j = 0; j < gather; j++)
		bytes += rt_ring_round((size_t)ring->sub_size * ring->whole_size[j]);
	size_t size = gather < 0 ? ring->part_size : ring->whole_size[gather];
	return base + bytes * (size_t)ring->slots +
	       (size_t)(i % ring->slots) * rt_ring_round((size_t)ring->sub_size * size);
}

/* ---- the reduce-scatter ---- */

/* The sub of message i of the reduce-scatter, and the step of its way round. Sub by sub, so that
 * what a pass has finished can go round early; but where summands are made beside the messages,
 * step by step, as they are made. A buffer is then used again for a later sub of the next step:
 * there are more of them than subs. */
RT_RING_FN int64_t rt_ring_order(const rt_ring *ring, int64_t i, int64_t *step) {
	if (ring->by_steps) return *step = i / ring->total, i % ring->total;
	return *step = i % (ring->ranks - 1), i / (ring->ranks - 1);
}

/* This rank's summand of a chunk is there. They are made in the order in which they leave, chunk
 * r-1, r-2, ..., r: what others wait for is under way while this rank's own chunk is made, which
 * nobody waits for. */
RT_RING_FN bool rt_ring_made(const rt_ring *ring, int64_t sub, int chunk) {
	int64_t turn = rt_ring_turn(ring, ring->rank - 1 - chunk);
	return !ring->produce || ring->after ||
	       (ring->by_steps ? turn * ring->total + sub : sub * ring->ranks + turn) < ring->made;
}

/* The first message of a sub's way round. */
RT_RING_FN bool rt_ring_lead(rt_ring *ring) {
	int64_t u = ring->led;
	int chunk = rt_ring_turn(ring, ring->rank - 1);
	if (u >= ring->total || !rt_ring_free(ring, RT_RING_LEAD, u) || !rt_ring_made(ring, u, chunk))
		return false;
	int64_t from, count = rt_ring_range(ring, u, chunk, &from);
	const char *at = rt_ring_packed(ring, u, chunk, -1, rt_ring_slot(ring, ring->packs, -1, u));
	rt_ring_isend(ring, at, count * (int64_t)ring->part_size, 0, 0,
	              rt_ring_request(ring, RT_RING_LEAD, u));
	ring->led++;
	return true;
}

RT_RING_FN bool rt_ring_listen(rt_ring *ring) {
	int64_t i = ring->posted, step, from;
	if (i >= ring->steps || i >= ring->head + ring->slots || !rt_ring_free(ring, RT_RING_ON, i))
		return false;
	int64_t u = rt_ring_order(ring, i, &step),
			count = rt_ring_range(ring, u, rt_ring_turn(ring, ring->rank - step - 2), &from);
	rt_ring_irecv(ring, rt_ring_slot(ring, ring->sums, -1, i), count * (int64_t)ring->part_size, 0,
	              step, rt_ring_request(ring, RT_RING_TAKE, i));
	ring->posted++;
	return true;
}

/* A sub of this rank's slice, in memory of its own. */
RT_RING_FN char *rt_ring_hop_at(const rt_ring *ring, int64_t sub, int64_t *bytes) {
	int64_t from, count = rt_ring_range(ring, sub, ring->rank, &from);
	*bytes = count * (int64_t)ring->hop.size;
	return (char *)ring->hop.slice + (size_t)from * ring->hop.size;
}

/* What the next subs of another group's pass are received into. */
RT_RING_FN bool rt_ring_await(rt_ring *ring) {
	int64_t u = ring->hopped, bytes;
	if (!ring->hop.there || ring->hop.from < 0 || u >= ring->total ||
	    u >= ring->finished + ring->slots)
		return false;
	char *at = rt_ring_hop_at(ring, u, &bytes);
	rt_ring_post(false, at, bytes, ring->hop_piece, ring->hop.from, 63, ring->hop.comm,
	             rt_ring_request(ring, RT_RING_HOP, u));
	ring->hopped++;
	return true;
}

RT_RING_FN void rt_ring_leap(rt_ring *ring, int64_t sub) {
	int64_t bytes;
	if (!ring->hop.there || ring->hop.to < 0) return;
	char *at = rt_ring_hop_at(ring, sub, &bytes);
	rt_ring_post(true, at, bytes, ring->hop_piece, ring->hop.to, 63, ring->hop.comm,
	             rt_ring_request(ring, RT_RING_HOP, sub));
	ring->hop_sent += bytes;
}

/* Whether the messages of a finished sub can leave, and what it is made of has come. */
RT_RING_FN bool rt_ring_clear(rt_ring *ring, int64_t sub) {
	if (ring->hop.there && !rt_ring_free(ring, RT_RING_HOP, sub)) return false;
	if (ring->hop.there && ring->hop.from >= 0 && sub >= ring->hopped) return false;
	for (int j = 0; j < ring->gathers; j++)
		if (!rt_ring_free(ring, RT_RING_OWN + 3 * j, sub)) return false;
	return true;
}

/* The pass over a sub of this rank's chunk, and its messages. */
RT_RING_FN void rt_ring_finish(rt_ring *ring, const char *arrived) {
	int64_t u = ring->finished++, from, count = rt_ring_range(ring, u, ring->rank, &from);
	rt_ring_path walk = rt_ring_walk(ring, u, ring->rank);
	rt_ring_piece piece;
	walk.all = true;
	if (ring->tensor) walk.items = ring->tensor, walk.item = 0, walk.end = ring->tensors;
	while (ring->last && rt_ring_next(ring, &walk, &piece))
		ring->last(ring->self, arrived ? arrived + (size_t)piece.offset * ring->part_size : NULL,
		           &piece);
	rt_ring_leap(ring, u);
	for (int j = 0; j < ring->gathers && ring->ranks > 1; j++) {
		const char *at =
			rt_ring_packed(ring, u, ring->rank, j, rt_ring_slot(ring, ring->own, j, u));
		rt_ring_isend(ring, at, count * (int64_t)ring->whole_size[j], 1 + j, 0,
		              rt_ring_request(ring, RT_RING_OWN + 3 * j, u));
	}
}

RT_RING_FN void rt_ring_join(rt_ring *ring, char *sums, int64_t sub, int chunk) {
	rt_ring_path walk = rt_ring_walk(ring, sub, chunk);
	rt_ring_piece piece;
	while (rt_ring_next(ring, &walk, &piece)) {
		const char *mine =
			(const char *)ring->item[piece.item].parts + (size_t)piece.at * ring->part_size;
		ring->add(sums + (size_t)piece.offset * ring->part_size, mine, piece.count);
	}
}

/* The next message of the reduce-scatter in order, if it has come: joined with this rank's part and
 * handed on, or finished. */
RT_RING_FN bool rt_ring_sum(rt_ring *ring) {
	int64_t i = ring->head, steps = ring->ranks - 1;
	if (i >= ring->posted || !rt_ring_free(ring, RT_RING_TAKE, i)) return false;
	int64_t step, from, u = rt_ring_order(ring, i, &step);
	int chunk = rt_ring_turn(ring, ring->rank - step - 2);
	char *sums = rt_ring_slot(ring, ring->sums, -1, i);
	if (!rt_ring_made(ring, u, chunk)) return false;
	if (step == steps - 1) {
		if (!rt_ring_clear(ring, u)) return false;
		rt_ring_finish(ring, sums);
	} else {
		rt_ring_join(ring, sums, u, chunk);
		rt_ring_isend(ring, sums, rt_ring_range(ring, u, chunk, &from) * (int64_t)ring->part_size,
		              0, step + 1, rt_ring_request(ring, RT_RING_ON, i));
	}
	ring->head++;
	return true;
}

/* Without messages to sum: the pass alone. */
RT_RING_FN bool rt_ring_alone(rt_ring *ring) {
	int64_t u = ring->finished;
	if (u >= ring->total || !rt_ring_clear(ring, u)) return false;
	if (ring->part_size && !rt_ring_made(ring, u, ring->rank)) return false;
	rt_ring_finish(ring, NULL);
	return true;
}

/* ---- the all-gathers ---- */

RT_RING_FN bool rt_ring_expect(rt_ring *ring, int j) {
	int64_t i = ring->gather_posted[j], step = i % (ring->ranks - 1), u = i / (ring->ranks - 1),
			from;
	if (i >= ring->steps || i >= ring->gather_head[j] + ring->slots) return false;
	if (!rt_ring_free(ring, RT_RING_OWN + 3 * j + 2, i)) return false;
	int chunk = rt_ring_turn(ring, ring->rank - step - 1);
	char *at = rt_ring_place(ring, u, chunk, j);
	if (!at) at = rt_ring_slot(ring, ring->landed, j, i);
	rt_ring_irecv(ring, at, rt_ring_range(ring, u, chunk, &from) * (int64_t)ring->whole_size[j],
	              1 + j, step, rt_ring_request(ring, RT_RING_OWN + 3 * j + 1, i));
	ring->gather_posted[j]++;
	return true;
}

RT_RING_FN void rt_ring_unpack(const rt_ring *ring, const char *landed, int64_t sub, int chunk,
                               int j) {
	rt_ring_path walk = rt_ring_walk(ring, sub, chunk);
	rt_ring_piece piece;
	size_t size = ring->whole_size[j];
	while (rt_ring_next(ring, &walk, &piece))
		memcpy((char *)ring->item[piece.item].whole[j] + (size_t)piece.at * size,
		       landed + (size_t)piece.offset * size, (size_t)piece.count * size);
}

RT_RING_FN bool rt_ring_land(rt_ring *ring, int j) {
	int64_t i = ring->gather_head[j], steps = ring->ranks - 1, from;
	if (i >= ring->gather_posted[j] || !rt_ring_free(ring, RT_RING_OWN + 3 * j + 1, i))
		return false;
	int64_t u = i / steps, step = i % steps;
	int chunk = rt_ring_turn(ring, ring->rank - step - 1);
	const char *at = rt_ring_place(ring, u, chunk, j);
	if (!at) at = rt_ring_slot(ring, ring->landed, j, i), rt_ring_unpack(ring, at, u, chunk, j);
	if (step + 1 < steps)
		rt_ring_isend(ring, at, rt_ring_range(ring, u, chunk, &from) * (int64_t)ring->whole_size[j],
		              1 + j, step + 1, rt_ring_request(ring, RT_RING_OWN + 3 * j + 2, i));
	ring->gather_head[j]++;
	return true;
}

/* ---- running ---- */

/* Whatever can be done without waiting. */
RT_RING_FN bool rt_ring_try(rt_ring *ring) {
	bool moved = false, scatters = ring->part_size && ring->ranks > 1;
	while (rt_ring_await(ring)) moved = true;
	while (scatters && rt_ring_listen(ring)) moved = true;
	while (scatters && rt_ring_lead(ring)) moved = true;
	for (int j = 0; j < ring->gathers && ring->ranks > 1; j++)
		while (rt_ring_expect(ring, j)) moved = true;
	if (scatters ? rt_ring_sum(ring) : rt_ring_alone(ring)) moved = true;
	for (int j = 0; j < ring->gathers && ring->ranks > 1; j++)
		while (rt_ring_land(ring, j)) moved = true;
	return moved;
}

/* Called by whoever computes in between: most MPI libraries move messages only inside calls. */
RT_RING_FN void rt_ring_poke(rt_ring *ring) {
	int over;
	do {
		while (rt_ring_try(ring)) {
		}
		MPI_Testsome(ring->requests, ring->request, &over, ring->over, MPI_STATUSES_IGNORE);
	} while (over > 0); /* not MPI_UNDEFINED, which is negative: nothing is under way */
}

RT_RING_FN bool rt_ring_over(const rt_ring *ring) {
	if (ring->finished < ring->total) return false;
	if (ring->part_size && ring->ranks > 1 && (ring->led < ring->total || ring->head < ring->steps))
		return false;
	for (int j = 0; j < ring->gathers && ring->ranks > 1; j++)
		if (ring->gather_head[j] < ring->steps) return false;
	if (ring->after) return true;
	if (ring->arrive && ring->used < ring->total * ring->ranks) return false;
	return !ring->produce || ring->made >= ring->total * ring->ranks;
}

/* The next piece of computing beside the messages, if there is one: a summand to be made, or a
 * chunk that has come. */
RT_RING_FN bool rt_ring_work(rt_ring *ring) {
	int64_t ranks = ring->ranks;
	if (ring->after) return false;
	if (ring->produce && ring->made < ring->total * ranks) {
		int64_t sub = ring->by_steps ? ring->made % ring->total : ring->made / ranks;
		int64_t turn = ring->by_steps ? ring->made / ring->total : ring->made % ranks;
		/* Nobody waits for this rank's own chunk: it is made in as few pieces as may be. */
		int64_t subs = ring->by_steps && turn == ranks - 1 ? ring->total : 1;
		ring->produce(ring, sub, subs, rt_ring_turn(ring, ring->rank - 1 - turn));
		ring->made += subs;
		return true;
	}
	if (!ring->arrive || ring->used >= ring->total * ranks) return false;
	if (ring->used < ring->total) { /* this rank's own chunk first */
		if (ring->used >= ring->finished) return false;
		ring->arrive(ring, ring->used, ring->rank);
	} else {
		int64_t i = ring->used - ring->total;
		if (i >= ring->gather_head[0]) return false;
		ring->arrive(ring, i / (ranks - 1), rt_ring_turn(ring, ring->rank - i % (ranks - 1) - 1));
	}
	ring->used++;
	return true;
}

/* A rank that waits leaves its processor to the rank that it waits for, which may have none: what
 * MPI libraries do while they wait is left to their settings, and spinning is the default of some.
 */
RT_RING_FN void rt_ring_run(rt_ring *ring) {
	rt_ring_open(ring);
	while (!rt_ring_over(ring)) {
		if (rt_ring_try(ring)) continue;
		if (rt_ring_work(ring)) {
			rt_ring_poke(ring);
			continue;
		}
		int over = 0;
		while (MPI_Testsome(ring->requests, ring->request, &over, ring->over, MPI_STATUSES_IGNORE),
		       over == 0)
			sched_yield();
	}
	for (int over = 0;
	     MPI_Testall(ring->requests, ring->request, &over, MPI_STATUSES_IGNORE), !over;)
		sched_yield();
	rt_ring_close(ring);
}
