/* Rings: a reduce-scatter, the pass over what it leaves, and the all-gathers of what the pass
 * writes, as one.
 *
 * Chunk c of a tensor is its slice c along the dim that is cut. Every chunk is cut into as many
 * subs; for each sub, in order, the summands go round once: rank r sends chunk r-1, adds its own
 * part to chunk r-2, ..., and last to chunk r, where the pass follows in the same loop. What the
 * pass wrote goes round next, while later subs are summed. Several tensors can be joined: their
 * slices c make one chunk, without a copy where a sub lies in one piece.
 *
 * No rank waits for a later message than its neighbours have reached, for all go by (sub, step), or
 * (step, sub), in order; two buffers would do for the one. All requests are in one array: NULL
 * means over.
 */
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RT_RING_FN static __attribute__((unused)) /* not every program uses all of it */
#ifndef RT_RING_BYTES
/* of a sub: it and the states beside it stay near a core; fewer cost less in waiting */
#define RT_RING_BYTES (256 << 10)
#endif
/* Between hosts a message goes in pieces below what MPI libraries send at once (Open MPI over TCP:
 * 64 KiB). What is longer waits for the receiver's consent, and moves on only while both are inside
 * MPI: not while they compute. */
#ifndef RT_RING_EAGER
#define RT_RING_EAGER (48 << 10)
#endif
enum { RT_RING_GATHERS = 8, RT_RING_ALIGN = 64, RT_RING_PIECES = 64 };

typedef struct rt_ring_item {
	/* the whole tensor on this rank, seen along the dim that is cut */
	int64_t outer, extent, inner;
	const void *parts; /* this rank's summand; NULL without a reduce-scatter */
	/* what the gathers fill; the pass writes this rank's slice there */
	void *whole[RT_RING_GATHERS];
	/* Slices that cut across tensors: `all` elements lie end to end along the dim, `ahead` of them
	 * before this tensor. Else all is 0, and the tensor is cut by itself. */
	int64_t ahead, all;
} rt_ring_item;

/* Memory that outlives a run, so that the next one finds it warm. */
typedef struct rt_ring_pool {
	char *at;
	size_t size;
} rt_ring_pool;

/* Where a piece of a sub lies: in one tensor, without a gap. */
typedef struct rt_ring_piece {
	int item;
	int64_t at;           /* in the whole tensor */
	int64_t begin, count; /* in the slice */
	int64_t offset;       /* in the sub */
} rt_ring_piece;

typedef struct rt_ring {
	/* given */
	MPI_Comm comm;
	rt_ring_item *item;
	int items, gathers;
	/* bytes of an element; part_size 0: no reduce-scatter */
	size_t part_size, whole_size[RT_RING_GATHERS];
	int64_t bucket;    /* bytes that are joined; 0: every tensor alone */
	int64_t sub_bytes; /* 0: RT_RING_BYTES */
	int64_t subs;      /* of a chunk; 0: by sub_bytes */
	/* subs hold whole multiples of so many elements; 0: any. Tensors are not joined */
	int64_t unit;
	/* subs hold whole rows: `inner` elements, or all of a chunk's where outer > 1 */
	bool by_rows;
	bool by_runs; /* subs hold all of a chunk's rows that lie together */
	void (*add)(void *sum, const void *mine, int64_t count);
	/* The pass over a piece of this rank's slice, in ascending order; once also over one without an
	 * element. `arrived`: the sum of the other ranks' parts, NULL where there are none. May be
	 * NULL: gathers alone. */
	void (*last)(void *self, const void *arrived, const rt_ring_piece *piece);
	/* makes this rank's summands; may be NULL */
	void (*produce)(struct rt_ring *ring, int64_t sub, int64_t subs, int chunk);
	/* uses what the first gather brought; may be NULL */
	void (*arrive)(struct rt_ring *ring, int64_t sub, int chunk);
	/* summands are there already, what is gathered is used later: messages alone */
	bool after;
	/* Between groups of ranks: subs that the pass has finished go on to a rank of another group (to
	 * >= 0), or what is gathered comes from there (from >= 0). `slice` is this rank's slice in
	 * memory of its own. One tensor alone. */
	struct {
		MPI_Comm comm;
		bool there; /* false: no other group */
		int to, from;
		void *slice;
		size_t size; /* bytes of an element */
	} hop;
	void *self; /* what the pass gets; produce and arrive find it here */
	rt_ring_pool *pool;
	/* counted */
	int64_t sent, hop_sent; /* bytes along the ring, and to another group */
	/* its own */
	/* Tensors that are cut across and lie end to end travel as one, `item`; these are what the pass
	 * is given pieces of. NULL: those that travel */
	const rt_ring_item *tensor;
	int tensors;
	rt_ring_item joint;
	int rank, ranks, groups, slots, requests;
	bool far; /* some ranks of comm share no memory */
	/* messages of the reduce-scatter go step by step, else sub by sub */
	bool by_steps;
	int pieces;               /* requests of a message */
	int64_t piece, hop_piece; /* bytes of each */
	/* subs of all groups; messages of a stage: total * (ranks - 1) */
	int64_t total, steps;
	int *first, *group_of; /* [groups + 1] items; [total] */
	/* [groups + 1] first sub; [groups][ranks] elements of a chunk */
	int64_t *sub_of, *length;
	int64_t sub_size;                  /* elements of the largest sub */
	bool joined;                       /* some sub lies in several pieces */
	char *sums, *packs, *own, *landed; /* [slots] subs; own, landed: [gathers][slots] */
	MPI_Request *request;
	int *over; /* [requests] which have ended */
	/* how far: first sends, receives, sums, passes, callbacks */
	int64_t led, posted, head, finished, made, used, hopped;
	int64_t gather_posted[RT_RING_GATHERS], gather_head[RT_RING_GATHERS];
} rt_ring;

/* ---- how chunks are cut ---- */

RT_RING_FN int64_t rt_ring_cut(int64_t n, int64_t ranks, int64_t r) {
	int64_t more = n % ranks;
	return n / ranks * r + (r < more ? r : more);
}

/* Where an item's chunk begins along the dim that is cut; chunk == ranks: the end. */
RT_RING_FN int64_t rt_ring_begin(const rt_ring *ring, const rt_ring_item *item, int64_t chunk) {
	int64_t at =
		rt_ring_cut(item->all ? item->all : item->extent, ring->ranks, chunk) - item->ahead;
	return at < 0 ? 0 : at < item->extent ? at : item->extent;
}

/* Elements of an item's chunk. */
RT_RING_FN int64_t rt_ring_share(const rt_ring *ring, const rt_ring_item *item, int chunk) {
	return item->outer * item->inner *
	       (rt_ring_begin(ring, item, chunk + 1) - rt_ring_begin(ring, item, chunk));
}

RT_RING_FN int64_t rt_ring_unit(const rt_ring *ring, int group, int chunk) {
	const rt_ring_item *item = &ring->item[ring->first[group]];
	if (ring->by_runs) return rt_ring_share(ring, item, chunk) / item->outer;
	if (!ring->by_rows)
		return ring->unit ? (RT_RING_ALIGN + ring->unit - 1) / ring->unit * ring->unit
		                  : RT_RING_ALIGN;
	return item->outer == 1 ? item->inner : rt_ring_share(ring, item, chunk) / item->outer;
}

/* The elements [*from, *from + count) of the group's chunk; the result is the count. */
RT_RING_FN int64_t rt_ring_range(const rt_ring *ring, int64_t sub, int chunk, int64_t *from) {
	int group = ring->group_of[sub];
	int64_t length = ring->length[(int64_t)group * ring->ranks + chunk],
			unit = rt_ring_unit(ring, group, chunk);
	int64_t k = sub - ring->sub_of[group], subs = ring->sub_of[group + 1] - ring->sub_of[group];
	if (unit < 1) unit = 1;
	int64_t units = (length + unit - 1) / unit;
	int64_t to = rt_ring_cut(units, subs, k + 1) * unit;
	*from = rt_ring_cut(units, subs, k) * unit;
	if (to > length) to = length;
	if (*from > length) *from = length;
	return to - *from;
}

/* A walk over the pieces of a sub. With `all` also over slices without an element, each in one sub,
 * in order. */
typedef struct rt_ring_path {
	const rt_ring_item *items;
	int item, chunk, end;
	bool all, final; /* final: the last sub of its group */
	int64_t skip, left, offset;
} rt_ring_path;

RT_RING_FN rt_ring_path rt_ring_walk(const rt_ring *ring, int64_t sub, int chunk) {
	int group = ring->group_of[sub];
	rt_ring_path walk = {.items = ring->item,
	                     .item = ring->first[group],
	                     .chunk = chunk,
	                     .end = ring->first[group + 1]};
	walk.final = sub + 1 == ring->sub_of[group + 1];
	walk.left = rt_ring_range(ring, sub, chunk, &walk.skip);
	return walk;
}

/* The same for `subs` subs from one on, of one group. */
RT_RING_FN rt_ring_path rt_ring_walk_on(const rt_ring *ring, int64_t sub, int64_t subs, int chunk) {
	rt_ring_path walk = rt_ring_walk(ring, sub, chunk);
	int64_t from, count = rt_ring_range(ring, sub + subs - 1, chunk, &from);
	walk.left = from + count - walk.skip;
	return walk;
}

RT_RING_FN bool rt_ring_next(const rt_ring *ring, rt_ring_path *walk, rt_ring_piece *out) {
	while (walk->item < walk->end && (walk->left > 0 || (walk->all && walk->final))) {
		const rt_ring_item *item = &walk->items[walk->item];
		int64_t begin = rt_ring_begin(ring, item, walk->chunk),
				run = (rt_ring_begin(ring, item, walk->chunk + 1) - begin) * item->inner;
		if (walk->skip >= item->outer * run) {
			bool empty = walk->all && run == 0 && walk->skip == 0;
			walk->skip -= item->outer * run, walk->item++;
			if (!empty) continue;
			*out = (rt_ring_piece){walk->item - 1, 0, 0, 0, walk->offset};
			return true;
		}
		if (walk->left == 0) return false;
		int64_t row = walk->skip / run, column = walk->skip % run;
		int64_t count = run - column < walk->left ? run - column : walk->left;
		*out = (rt_ring_piece){walk->item,
		                       row * item->extent * item->inner + begin * item->inner + column,
		                       walk->skip, count, walk->offset};
		walk->skip += count, walk->left -= count, walk->offset += count;
		return true;
	}
	return false;
}

/* ---- memory ---- */

RT_RING_FN void *rt_ring_memory(size_t count, size_t size) {
	void *at = calloc(count ? count : 1, size ? size : 1);
	if (!at) {
		fprintf(stderr, "out of memory: a ring needs %zu bytes\n", count * size);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return at;
}

RT_RING_FN char *rt_ring_pooled(rt_ring_pool *pool, size_t size) {
	if (size > pool->size) {
		free(pool->at);
		pool->at = rt_ring_memory(size, 1), pool->size = size;
	}
	return pool->at;
}

/* Whether an item begins where the one before it ends, in all that travels of them. */
RT_RING_FN bool rt_ring_follows(const rt_ring *ring, const rt_ring_item *item) {
	const rt_ring_item *last = item - 1;
	size_t count = (size_t)(last->extent * last->inner);
	if (ring->part_size &&
	    (const char *)item->parts != (const char *)last->parts + count * ring->part_size)
		return false;
	for (int j = 0; j < ring->gathers; j++)
		if ((char *)item->whole[j] != (char *)last->whole[j] + count * ring->whole_size[j])
			return false;
	return item->outer == 1 && last->outer == 1 && item->inner == last->inner;
}

RT_RING_FN void rt_ring_lay(rt_ring *ring) {
	if (ring->items < 2 || !ring->item->all || ring->by_rows || ring->by_runs || ring->unit) return;
	for (int i = 1; i < ring->items; i++)
		if (!rt_ring_follows(ring, &ring->item[i])) return;
	ring->tensor = ring->item, ring->tensors = ring->items;
	ring->joint = ring->item[0], ring->joint.extent = ring->joint.all;
	ring->item = &ring->joint, ring->items = 1;
}

RT_RING_FN void rt_ring_groups(rt_ring *ring) {
	int64_t bytes = (int64_t)(ring->part_size ? ring->part_size : ring->whole_size[0]), filled = 0;
	ring->first = rt_ring_memory((size_t)ring->items + 1, sizeof *ring->first);
	for (int i = 0; i < ring->items; i++) {
		const rt_ring_item *item = &ring->item[i];
		int64_t more = item->outer * item->extent * item->inner * bytes;
		bool full = !item->all && filled + more > ring->bucket;
		if (i == 0 || ring->by_rows || ring->by_runs || ring->unit || full)
			ring->first[ring->groups++] = i, filled = 0;
		else ring->joined = true;
		if (item->outer > 1) ring->joined = true;
		filled += more;
	}
	ring->first[ring->groups] = ring->items;
}

RT_RING_FN int64_t rt_ring_count_subs(const rt_ring *ring, int group) {
	int64_t longest = 0, bytes = (int64_t)(ring->part_size ? ring->part_size : ring->whole_size[0]);
	if (ring->hop.there) bytes = (int64_t)ring->hop.size; /* which is the same on both sides */
	for (int c = 0; c < ring->ranks; c++) {
		int64_t length = ring->length[(int64_t)group * ring->ranks + c];
		if (length > longest) longest = length;
	}
	if (ring->subs) return ring->subs;
	int64_t limit = ring->sub_bytes ? ring->sub_bytes : RT_RING_BYTES;
	int64_t subs = (longest * bytes + limit - 1) / limit;
	return subs > 0 ? subs : 1;
}

RT_RING_FN void rt_ring_tables(rt_ring *ring) {
	ring->length = rt_ring_memory((size_t)ring->groups * (size_t)ring->ranks, sizeof *ring->length);
	ring->sub_of = rt_ring_memory((size_t)ring->groups + 1, sizeof *ring->sub_of);
	for (int g = 0; g < ring->groups; g++) {
		for (int i = ring->first[g]; i < ring->first[g + 1]; i++)
			for (int c = 0; c < ring->ranks; c++)
				ring->length[(int64_t)g * ring->ranks + c] +=
					rt_ring_share(ring, &ring->item[i], c);
		ring->sub_of[g + 1] = ring->sub_of[g] + rt_ring_count_subs(ring, g);
	}
	ring->total = ring->sub_of[ring->groups];
	ring->steps = ring->total * (ring->ranks - 1);
	ring->group_of = rt_ring_memory((size_t)ring->total, sizeof *ring->group_of);
	for (int g = 0; g < ring->groups; g++)
		for (int64_t u = ring->sub_of[g]; u < ring->sub_of[g + 1]; u++) {
			ring->group_of[u] = g;
			for (int c = 0; c < ring->ranks; c++) {
				int64_t from, count = rt_ring_range(ring, u, c, &from);
				if (count > ring->sub_size) ring->sub_size = count;
			}
		}
}

RT_RING_FN size_t rt_ring_round(size_t bytes) {
	return (bytes + 4095) / 4096 * 4096;
}

RT_RING_FN void rt_ring_buffers(rt_ring *ring) {
	size_t slots = (size_t)ring->slots,
		   part = rt_ring_round((size_t)ring->sub_size * ring->part_size), whole = 0;
	for (int j = 0; j < ring->gathers; j++)
		whole += rt_ring_round((size_t)ring->sub_size * ring->whole_size[j]);
	if (!ring->joined) whole = 0;
	if (ring->ranks == 1) return; /* no messages */
	char *at = rt_ring_pooled(ring->pool,
	                          slots * part * (ring->joined ? 2 : 1) + slots * whole * 2 + 4096);
	at += (4096 - (uintptr_t)at % 4096) % 4096;
	ring->sums = at, ring->packs = at + (ring->joined ? slots * part : 0);
	ring->own = ring->packs + slots * part, ring->landed = ring->own + slots * whole;
}

/* Whether some ranks of a communicator share no memory: asked once, remembered with the
 * communicator. */
RT_RING_FN bool rt_ring_far(MPI_Comm comm) {
	static int key = MPI_KEYVAL_INVALID;
	static bool answers[2] = {false, true};
	bool *known;
	int found, size, near, far;
	MPI_Comm node;
	if (key == MPI_KEYVAL_INVALID)
		MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
	MPI_Comm_get_attr(comm, key, &known, &found);
	if (found) return *known;
	MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Comm_size(comm, &size);
	MPI_Comm_size(node, &near);
	MPI_Comm_free(&node);
	near = near < size;
	MPI_Allreduce(&near, &far, 1, MPI_INT, MPI_MAX, comm);
#ifdef RT_RING_FAR
	far = 1;
#endif
	MPI_Comm_set_attr(comm, key, &answers[far]);
	return far;
}

/* Bytes of a piece of messages of up to `bytes`, and room for their requests. */
RT_RING_FN int64_t rt_ring_piece_of(rt_ring *ring, int64_t bytes, bool far) {
	int64_t piece = !far                                     ? bytes
	                : bytes / RT_RING_PIECES > RT_RING_EAGER ? bytes / RT_RING_PIECES
	                                                         : RT_RING_EAGER;
	if (piece < 1) piece = 1;
	int pieces = (int)((bytes + piece - 1) / piece);
	if (pieces > ring->pieces) ring->pieces = pieces;
	return piece;
}

RT_RING_FN void rt_ring_pieces(rt_ring *ring) {
	size_t size = ring->part_size;
	for (int j = 0; j < ring->gathers; j++)
		if (ring->whole_size[j] > size) size = ring->whole_size[j];
	ring->pieces = 1;
	ring->piece = rt_ring_piece_of(ring, ring->sub_size * (int64_t)size, ring->far);
	if (ring->hop.there)
		ring->hop_piece = rt_ring_piece_of(ring, ring->sub_size * (int64_t)ring->hop.size, true);
}

RT_RING_FN void rt_ring_open(rt_ring *ring) {
	MPI_Comm_rank(ring->comm, &ring->rank);
	MPI_Comm_size(ring->comm, &ring->ranks);
	rt_ring_lay(ring);
	rt_ring_groups(ring);
	rt_ring_tables(ring);
	ring->slots = 2 * (ring->ranks - 1);
	if (ring->slots < 4) ring->slots = 4;
	ring->by_steps = ring->produce && ring->groups == 1 && ring->total + 2 <= 32;
	if (ring->by_steps && ring->slots < ring->total + 2) ring->slots = (int)ring->total + 2;
	if (ring->slots > 32) ring->slots = 32;
	ring->far = rt_ring_far(ring->comm);
	rt_ring_pieces(ring);
	ring->requests = ring->slots * (4 + 3 * ring->gathers) * ring->pieces;
	ring->request = rt_ring_memory((size_t)ring->requests, sizeof *ring->request);
	ring->over = rt_ring_memory((size_t)ring->requests, sizeof *ring->over);
	for (int i = 0; i < ring->requests; i++) ring->request[i] = MPI_REQUEST_NULL;
	rt_ring_buffers(ring);
}

RT_RING_FN void rt_ring_close(rt_ring *ring) {
	free(ring->first);
	free(ring->group_of);
	free(ring->sub_of);
	free(ring->length);
	free(ring->request);
	free(ring->over);
}
