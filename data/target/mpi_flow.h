/* ---- steps that overlap: chunk by chunk, messages under way beside what is computed ---- */

/* Parts that feed each other along a dim that all of them are cut along: in step t of a pipeline
 * part p is at its chunk t - stage(p). A part's stage is that of what it waits for, and RT_FLOW_LAG
 * later behind a collective, whose messages travel meanwhile. The order is the same on all ranks,
 * as MPI wants it of collectives. Parts that do not feed each other are one chunk each.
 *
 * Chunk k of n of a tensor: where the tensor holds all slices over an axis, the k-th piece of each
 * of them, else the k-th piece of what the rank holds; of a list, tensors.
 */
enum { RT_FLOW_PARTS = 32, RT_FLOW_LAG = 2, RT_FLOW_SLOTS = 4, RT_FLOW_CHUNKS = 8 };
#ifndef RT_FLOW_ROWS
/* of a product that is made in chunks, where a schedule leaves their number open; see rt_panel_rows
 */
#define RT_FLOW_ROWS 256
#endif
#ifndef RT_FLOW_BYTES
#define RT_FLOW_BYTES (64 << 10) /* of such a chunk at least */
#endif

typedef enum rt_move {
	RT_NO_MOVE,
	RT_ALLREDUCE,
	RT_REDUCESCATTER,
	RT_ALLGATHER,
	RT_ALLTOALL,
	RT_BROADCAST,
	RT_REDUCE,
	RT_PERMUTE,
	RT_SEND
} rt_move;

/* What a part's chunks are: all of it at once; pieces along a dim; tensors of a list. */
typedef enum rt_by { RT_WHOLE, RT_CUT, RT_EACH } rt_by;

typedef struct rt_flow_part {
	rt_by by;
	uint32_t needs;             /* bits of the parts that must be over before, for the same chunk */
	void (*whole)(rt_run *run); /* computes all, */
	/* elements along the dim, or one tensor */
	void (*range)(rt_run *run, int64_t item, int64_t from, int64_t to);
	rt_move move; /* or moves `from` to `to` */
	rt_collective how;
	int from, to; /* to: also what is computed */
	int cut;      /* CUT: the dim of `to` */
} rt_flow_part;

/* A chunk's messages. */
typedef struct rt_flow_slot {
	MPI_Request *request;
	int count, room;
} rt_flow_slot;

typedef struct rt_flow_state {
	int64_t chunks, stage, done, landed;
	bool far; /* some ranks share no memory */
	rt_flow_slot slot[RT_FLOW_SLOTS];
} rt_flow_state;

typedef struct rt_flow {
	rt_run *run;
	const rt_flow_part *part;
	int parts;
	/* over which some hold slices of the dim that is cut, and others all; -1 none */
	int axis;
	int list;          /* whose tensors chunks are; -1 */
	int64_t chunks;    /* 0: by sizes */
	rt_choice *choice; /* whether to go by chunks, or all at once; NULL: by chunks */
	int64_t bucket;    /* bytes of a list's tensors that are a chunk; 0: one tensor */
	/* its own */
	int64_t *first; /* [chunks + 1] tensors of a list */
	rt_flow_state state[RT_FLOW_PARTS];
} rt_flow;

/* ---- boxes ---- */

typedef struct rt_box {
	int64_t begin[RT_RANK], length[RT_RANK];
} rt_box;

RT_FUNCTION rt_box rt_box_of(const rt_part *p) {
	rt_box b = {{0}, {0}};
	for (int d = 0; d < p->rank; d++) b.length[d] = p->extent[d];
	return b;
}

/* Elements that lie together in a box, and the first dim that they fill. */
RT_FUNCTION int64_t rt_box_run(const rt_part *p, const rt_box *b, int *dim) {
	int64_t run = 1;
	int d = p->rank;
	while (d > 0 && b->length[d - 1] == p->extent[d - 1]) run *= p->extent[--d];
	if (d > 0) run *= b->length[--d];
	*dim = d;
	return run;
}

RT_FUNCTION int64_t rt_box_count(const rt_part *p, const rt_box *b) {
	int64_t count = 1;
	for (int d = 0; d < p->rank; d++) count *= b->length[d];
	return count;
}

/* A box's elements one behind the other to `packed`, or back. Returns their bytes; with packed NULL
 * it does no more. */
RT_FUNCTION size_t rt_box_copy(const rt_part *p, const rt_box *b, char *packed, bool back) {
	int dim;
	size_t size = (size_t)rt_bytes[p->format];
	int64_t count = rt_box_count(p, b), run = rt_box_run(p, b, &dim), at[RT_RANK] = {0};
	for (int64_t done = 0; packed && done < count; done += run) {
		int64_t place = 0;
		for (int d = 0; d < p->rank; d++) place = place * p->extent[d] + b->begin[d] + at[d];
		char *lies = (char *)p->data + (size_t)place * size, *other = packed + (size_t)done * size;
		if (back) memcpy(lies, other, (size_t)run * size);
		else memcpy(other, lies, (size_t)run * size);
		for (int d = dim; d-- > 0 && ++at[d] == b->length[d];) at[d] = 0;
	}
	return (size_t)count * size;
}

/* Where a box lies, if its elements lie together. */
RT_FUNCTION char *rt_box_lies(const rt_part *p, const rt_box *b) {
	int dim;
	int64_t place = 0, count = rt_box_count(p, b);
	if (count == 0 || rt_box_run(p, b, &dim) != count) return NULL;
	for (int d = 0; d < p->rank; d++) place = place * p->extent[d] + b->begin[d];
	return (char *)p->data + place * rt_bytes[p->format];
}

/* ---- chunks ---- */

/* Whether what the rank holds of a value is all slices, one behind the other, of the dim that is
 * cut. */
RT_FUNCTION bool rt_flow_joint(const rt_flow *flow, int value, int cut) {
	if (flow->axis < 0) return false;
	const rt_layout *l = &flow->run->schedule->value[value].layout[flow->axis];
	return l->way != RT_L && (l->way != RT_S || l->dim != cut);
}

/* The piece of chunk k in the elements [begin, begin + length). */
RT_FUNCTION void rt_flow_piece(int64_t begin, int64_t length, int64_t chunks, int64_t k,
                               int64_t *from, int64_t *to) {
	*from = begin + rt_slice_begin(length, chunks, k),
	*to = begin + rt_slice_begin(length, chunks, k + 1);
}

RT_FUNCTION int rt_flow_pieces(const rt_flow *flow, int value, int cut) {
	return rt_flow_joint(flow, value, cut) ? flow->run->mesh.ranks[flow->axis] : 1;
}

/* Piece s of chunk k of a value along its dim `cut`. */
RT_FUNCTION void rt_flow_range(const rt_flow *flow, int value, int cut, int64_t chunks, int64_t k,
                               int s, int64_t *from, int64_t *to) {
	const rt_part *p = &flow->run->part[value][0];
	int64_t all = p->extent[cut], ranks = flow->axis >= 0 ? flow->run->mesh.ranks[flow->axis] : 1;
	if (rt_flow_joint(flow, value, cut))
		rt_flow_piece(rt_slice_begin(all, ranks, s), rt_slice_length(all, ranks, s), chunks, k,
		              from, to);
	else rt_flow_piece(0, all, chunks, k, from, to);
}

/* What a message carries: of a value in a chunk of a part, slice `rank` along dim d; d -1: all. */
typedef struct rt_block {
	int value, d, rank;
} rt_block;

/* The boxes of a block: calls for each; boxes lie in the order that both sides agree on. */
typedef struct rt_boxes {
	int64_t item, end;
	int s, pieces;
} rt_boxes;

RT_FUNCTION bool rt_next_box(const rt_flow *flow, int part, int64_t k, const rt_block *x,
                             rt_boxes *walk, rt_box *box) {
	const rt_flow_part *p = &flow->part[part];
	if (walk->s == walk->pieces) walk->s = 0, walk->item++;
	if (walk->item >= walk->end) return false;
	const rt_part *at = &flow->run->part[x->value][walk->item];
	int64_t ranks = flow->run->mesh.ranks[p->how.axis], from, to;
	*box = rt_box_of(at);
	if (x->d >= 0 && at->here)
		box->length[x->d] = rt_slice(at, x->d, ranks, x->rank, &box->begin[x->d]);
	if (p->by == RT_CUT && x->d == p->cut) {
		rt_flow_piece(box->begin[x->d], box->length[x->d], flow->state[part].chunks, k, &from, &to);
		box->begin[x->d] = from, box->length[x->d] = to - from;
	} else if (p->by == RT_CUT) {
		rt_flow_range(flow, x->value, p->cut, flow->state[part].chunks, k, walk->s, &from, &to);
		box->begin[p->cut] = from, box->length[p->cut] = to - from;
	}
	walk->s++;
	return true;
}

RT_FUNCTION rt_boxes rt_boxes_of(const rt_flow *flow, int part, int64_t k, const rt_block *x) {
	const rt_flow_part *p = &flow->part[part];
	rt_boxes walk = {0, rt_items(flow->run, x->value), 0, 1};
	if (p->by == RT_EACH) walk.item = flow->first[k], walk.end = flow->first[k + 1];
	if (p->by == RT_CUT && x->d != p->cut) walk.pieces = rt_flow_pieces(flow, x->value, p->cut);
	return walk;
}

/* Copies a block to `packed`, or back, and returns its bytes; with packed NULL it only counts. */
RT_FUNCTION size_t rt_flow_copy(const rt_flow *flow, int part, int64_t k, rt_block x, char *packed,
                                bool back) {
	rt_boxes walk = rt_boxes_of(flow, part, k, &x);
	rt_box box;
	size_t bytes = 0;
	while (rt_next_box(flow, part, k, &x, &walk, &box))
		bytes += rt_box_copy(&flow->run->part[x.value][walk.item], &box,
		                     packed ? packed + bytes : NULL, back);
	return bytes;
}

/* Where a block lies if that is in one piece, else NULL. */
RT_FUNCTION char *rt_flow_lies(const rt_flow *flow, int part, int64_t k, rt_block x) {
	rt_boxes walk = rt_boxes_of(flow, part, k, &x);
	rt_box box;
	if (walk.pieces != 1 || walk.end != walk.item + 1 ||
	    !rt_next_box(flow, part, k, &x, &walk, &box))
		return NULL;
	return rt_box_lies(&flow->run->part[x.value][walk.item], &box);
}

/* ---- messages ---- */

RT_FUNCTION void *rt_flow_room(const rt_flow *flow, int part, int64_t k, bool in, size_t bytes) {
	return rt_room_at(flow->run, (int)((part * RT_FLOW_SLOTS + k % RT_FLOW_SLOTS) * 2 + in),
	                  bytes + 1);
}

RT_FUNCTION MPI_Request *rt_flow_request(const rt_flow *flow, rt_flow_slot *slot) {
	if (slot->count == slot->room) {
		slot->room = 2 * slot->room + 16;
		slot->request = realloc(slot->request, (size_t)slot->room * sizeof *slot->request);
		if (!slot->request) rt_abort(flow->run, "out of memory");
	}
	return &slot->request[slot->count++];
}

/* A message, between hosts in pieces that MPI sends at once (see RT_RING_EAGER). */
RT_FUNCTION void rt_flow_post(rt_flow *flow, int part, int64_t k, bool send, char *at, size_t bytes,
                              int other) {
	rt_flow_state *state = &flow->state[part];
	MPI_Comm comm = flow->run->mesh.along[flow->part[part].how.axis];
	int64_t left = (int64_t)bytes,
			piece = left / RT_RING_PIECES > RT_RING_EAGER ? left / RT_RING_PIECES : RT_RING_EAGER;
	if (!state->far || piece > RT_PIECE) piece = RT_PIECE;
	for (int count; left > 0; at += count, left -= count) {
		count = (int)(left < piece ? left : piece);
		MPI_Request *request = rt_flow_request(flow, &state->slot[k % RT_FLOW_SLOTS]);
		if (send) MPI_Isend(at, count, MPI_BYTE, other, 2 + part, comm, request);
		else MPI_Irecv(at, count, MPI_BYTE, other, 2 + part, comm, request);
	}
	if (send) flow->run->sent[flow->part[part].how.axis] += (int64_t)bytes;
}

/* What goes to a rank, and what comes from it; for itself: both are the same elements. */
RT_FUNCTION rt_block rt_flow_out(const rt_flow_part *p, int rank) {
	if (p->move == RT_ALLTOALL) return (rt_block){p->from, p->how.e, rank};
	return (rt_block){p->from, p->move == RT_REDUCESCATTER ? p->how.d : -1, rank};
}

RT_FUNCTION rt_block rt_flow_in(const rt_flow_part *p, int rank) {
	bool slices = p->move == RT_ALLTOALL || p->move == RT_ALLGATHER;
	return (rt_block){p->to, slices ? p->how.d : -1, rank};
}

/* This rank's own block, without a message. */
RT_FUNCTION void rt_flow_keep(rt_flow *flow, int part, int64_t k, int at) {
	const rt_flow_part *p = &flow->part[part];
	rt_block out = rt_flow_out(p, at), in = rt_flow_in(p, at);
	char *from = rt_flow_lies(flow, part, k, out), *to = rt_flow_lies(flow, part, k, in);
	size_t bytes = rt_flow_copy(flow, part, k, out, NULL, false);
	if (from && from == to) return;
	char *room = from ? from : to ? to : rt_flow_room(flow, part, k, false, bytes);
	if (!from) rt_flow_copy(flow, part, k, out, room, false);
	if (!to || from) rt_flow_copy(flow, part, k, in, room, true);
}

/* Which ranks this one sends to and receives from; nobody where it holds nothing. */
RT_FUNCTION bool rt_flow_meets(const rt_flow *flow, int part, int rank, bool send) {
	const rt_flow_part *p = &flow->part[part];
	int ranks = flow->run->mesh.ranks[p->how.axis], at = flow->run->mesh.at[p->how.axis];
	int by = (p->how.shift % ranks + ranks) % ranks;
	if (p->move == RT_PERMUTE) return rank == (send ? at + by : at + ranks - by) % ranks;
	if (p->move == RT_SEND)
		return send ? at == p->how.d && rank == p->how.e : at == p->how.e && rank == p->how.d;
	return true;
}

/* Between every two ranks that have something for each other. What lies in one piece is sent from
 * and received to where it lies; else, and where it is to be added up, it is packed. */
RT_FUNCTION void rt_flow_exchange(rt_flow *flow, int part, int64_t k) {
	const rt_flow_part *p = &flow->part[part];
	int ranks = flow->run->mesh.ranks[p->how.axis], at = flow->run->mesh.at[p->how.axis];
	size_t in = 0, out = 0;
	bool sums = p->move == RT_REDUCESCATTER, same = p->move == RT_ALLGATHER;
	for (int r = 0; r < ranks; r++) {
		if (r == at || rt_flow_meets(flow, part, r, false))
			in += rt_flow_copy(flow, part, k, rt_flow_in(p, r), NULL, false);
		if (r == at || rt_flow_meets(flow, part, r, true))
			out += rt_flow_copy(flow, part, k, rt_flow_out(p, r), NULL, false);
	}
	char *to = rt_flow_room(flow, part, k, true, in),
		 *from = rt_flow_room(flow, part, k, false, out);
	if (rt_flow_meets(flow, part, at, true) && rt_flow_meets(flow, part, at, false) && !sums)
		rt_flow_keep(flow, part, k, at);
	for (int i = 1; i < ranks; i++) {
		int r = (at + ranks - i) % ranks;
		if (!rt_flow_meets(flow, part, r, false)) continue;
		char *lies = sums ? NULL : rt_flow_lies(flow, part, k, rt_flow_in(p, r));
		size_t bytes = rt_flow_copy(flow, part, k, rt_flow_in(p, r), NULL, false);
		rt_flow_post(flow, part, k, false, lies ? lies : to, bytes, r);
		if (!lies) to += bytes;
	}
	char *packed = NULL;
	for (int i = 1; i < ranks; i++) {
		int r = (at + i) % ranks;
		if (!rt_flow_meets(flow, part, r, true)) continue;
		char *lies = same && packed ? packed : rt_flow_lies(flow, part, k, rt_flow_out(p, r));
		size_t bytes = rt_flow_copy(flow, part, k, rt_flow_out(p, r), lies ? NULL : from, false);
		packed = lies ? lies : from;
		rt_flow_post(flow, part, k, true, packed, bytes, r);
		if (!lies) from += bytes;
	}
}

/* By MPI's own collectives that do not block, on what is packed. */
RT_FUNCTION void rt_flow_collective(rt_flow *flow, int part, int64_t k) {
	const rt_flow_part *p = &flow->part[part];
	const rt_mesh *m = &flow->run->mesh;
	rt_block all = {p->move == RT_BROADCAST ? p->to : p->from, -1, 0}, given = {p->from, -1, 0};
	rt_format f = flow->run->part[p->from][0].format;
	int64_t bytes = (int64_t)rt_flow_copy(flow, part, k, all, NULL, false),
			ranks = m->ranks[p->how.axis];
	int count = rt_count(flow->run, bytes / rt_bytes[f]);
	char *room = rt_flow_room(flow, part, k, true, (size_t)bytes);
	bool root = m->at[p->how.axis] == p->how.root;
	MPI_Comm comm = m->along[p->how.axis];
	MPI_Op op = flow->run->op[f][p->how.reduce];
	MPI_Request *request = rt_flow_request(flow, &flow->state[part].slot[k % RT_FLOW_SLOTS]);
	int64_t *sent = &flow->run->sent[p->how.axis];
	if (p->move != RT_BROADCAST || root) rt_flow_copy(flow, part, k, given, room, false);
	if (p->move == RT_BROADCAST) MPI_Ibcast(room, count, rt_type(f), p->how.root, comm, request);
	else if (p->move == RT_REDUCE)
		MPI_Ireduce(root ? MPI_IN_PLACE : room, root ? room : NULL, count, rt_type(f), op,
		            p->how.root, comm, request);
	else MPI_Iallreduce(MPI_IN_PLACE, room, count, rt_type(f), op, comm, request);
	if (p->move == RT_ALLREDUCE) *sent += 2 * (ranks - 1) * bytes / ranks;
	else if (p->move == RT_REDUCE ? !root : root && ranks > 1) *sent += bytes;
}

/* Whether this rank has no share in a collective: its values are on other groups. */
RT_FUNCTION bool rt_flow_absent(const rt_flow *flow, const rt_flow_part *p) {
	bool from = flow->run->part[p->from][0].here, to = flow->run->part[p->to][0].here;
	return p->move == RT_BROADCAST ? !to : p->move == RT_SEND ? !from && !to : !from;
}

RT_FUNCTION void rt_flow_begin(rt_flow *flow, int part, int64_t k) {
	const rt_flow_part *p = &flow->part[part];
	if (rt_flow_absent(flow, p)) return;
	bool own = p->move == RT_ALLREDUCE || p->move == RT_BROADCAST || p->move == RT_REDUCE;
	if (own) rt_flow_collective(flow, part, k);
	else rt_flow_exchange(flow, part, k);
}

/* The sum of what has come and this rank's own block, in the order of ranks from this one on. */
RT_FUNCTION void rt_flow_add(rt_flow *flow, int part, int64_t k, size_t bytes, int ranks) {
	const rt_flow_part *p = &flow->part[part];
	int at = flow->run->mesh.at[p->how.axis];
	rt_block own = rt_flow_out(p, at), in = rt_flow_in(p, at);
	rt_format f = flow->run->part[p->from][0].format;
	char *came = rt_flow_room(flow, part, k, true, 0), *sum = rt_flow_lies(flow, part, k, in);
	if (!sum) sum = came + bytes * (size_t)(ranks - 1);
	rt_flow_copy(flow, part, k, own, sum, false);
	for (int i = 1; i < ranks; i++, came += bytes)
		MPI_Reduce_local(came, sum, rt_count(flow->run, (int64_t)bytes / rt_bytes[f]), rt_type(f),
		                 flow->run->op[f][p->how.reduce]);
	if (!rt_flow_lies(flow, part, k, in)) rt_flow_copy(flow, part, k, in, sum, true);
}

/* What has come is put where it belongs. */
RT_FUNCTION void rt_flow_land(rt_flow *flow, int part) {
	const rt_flow_part *p = &flow->part[part];
	int64_t k = flow->state[part].landed++;
	int ranks = flow->run->mesh.ranks[p->how.axis], at = flow->run->mesh.at[p->how.axis];
	flow->state[part].slot[k % RT_FLOW_SLOTS].count = 0;
	if (rt_flow_absent(flow, p)) return;
	char *came = rt_flow_room(flow, part, k, true, 0);
	if (p->move == RT_REDUCESCATTER) {
		size_t bytes = rt_flow_copy(flow, part, k, rt_flow_in(p, at), NULL, false);
		if (bytes) rt_flow_add(flow, part, k, bytes, ranks);
	} else if (p->move == RT_ALLREDUCE || p->move == RT_BROADCAST || p->move == RT_REDUCE) {
		if (p->move != RT_REDUCE || at == p->how.root)
			rt_flow_copy(flow, part, k, (rt_block){p->to, -1, 0}, came, true);
	} else {
		for (int i = 1; i < ranks; i++) {
			rt_block in = rt_flow_in(p, (at + ranks - i) % ranks);
			if (!rt_flow_meets(flow, part, in.rank, false) || rt_flow_lies(flow, part, k, in))
				continue;
			came += rt_flow_copy(flow, part, k, in, came, true);
		}
	}
}

/* ---- progress ---- */

/* Lands what has come, in order; most MPI libraries move messages only inside calls. */
RT_FUNCTION void rt_flow_poke(void *self) {
	rt_flow *flow = self;
	for (int i = 0; i < flow->parts; i++) {
		rt_flow_state *s = &flow->state[i];
		int over = flow->part[i].move != RT_NO_MOVE;
		while (over && s->landed < s->done) {
			rt_flow_slot *slot = &s->slot[s->landed % RT_FLOW_SLOTS];
			MPI_Testall(slot->count, slot->request, &over, MPI_STATUSES_IGNORE);
			if (over) rt_flow_land(flow, i);
		}
	}
}

/* Until a collective has landed so many chunks. */
RT_FUNCTION void rt_flow_wait(rt_flow *flow, int part, int64_t chunks) {
	rt_flow_state *s = &flow->state[part];
	while (flow->part[part].move != RT_NO_MOVE && s->landed < chunks) {
		rt_flow_slot *slot = &s->slot[s->landed % RT_FLOW_SLOTS];
		rt_wait_all(slot->count, slot->request);
		rt_flow_land(flow, part);
	}
}

RT_FUNCTION void rt_flow_compute(rt_flow *flow, int part, int64_t k) {
	const rt_flow_part *p = &flow->part[part];
	int64_t from, to;
	if (p->by == RT_WHOLE) p->whole(flow->run);
	for (int64_t item = p->by == RT_EACH ? flow->first[k] : 0;
	     p->by == RT_EACH && item < flow->first[k + 1]; item++)
		p->range(flow->run, item, 0, 0);
	for (int s = 0; p->by == RT_CUT && s < rt_flow_pieces(flow, p->to, p->cut); s++) {
		rt_flow_range(flow, p->to, p->cut, flow->state[part].chunks, k, s, &from, &to);
		if (from < to) p->range(flow->run, 0, from, to);
	}
	rt_flow_poke(flow);
}

/* How many chunks of part q must be over for chunk k of part p. */
RT_FUNCTION int64_t rt_flow_needed(const rt_flow *flow, int p, int q, int64_t k) {
	bool all = flow->part[p].by == RT_WHOLE || flow->part[q].by == RT_WHOLE;
	return all ? flow->state[q].chunks : k + 1;
}

RT_FUNCTION bool rt_flow_ready(const rt_flow *flow, int p, int64_t t) {
	const rt_flow_state *s = &flow->state[p];
	if (s->done == s->chunks || t - s->stage != s->done) return false;
	for (int q = 0; q < p; q++)
		if ((flow->part[p].needs >> q & 1) &&
		    flow->state[q].done < rt_flow_needed(flow, p, q, s->done))
			return false;
	return true;
}

/* The next part of step t: collectives first, so that their messages travel while others compute.
 */
RT_FUNCTION int rt_flow_next(const rt_flow *flow, int64_t t) {
	for (int moves = 1; moves >= 0; moves--)
		for (int p = 0; p < flow->parts; p++)
			if ((flow->part[p].move != RT_NO_MOVE) == (moves == 1) && rt_flow_ready(flow, p, t))
				return p;
	return -1;
}

RT_FUNCTION void rt_flow_do(rt_flow *flow, int p) {
	rt_flow_state *s = &flow->state[p];
	int64_t k = s->done;
	for (int q = 0; q < p; q++)
		if (flow->part[p].needs >> q & 1) rt_flow_wait(flow, q, rt_flow_needed(flow, p, q, k));
	if (flow->part[p].move == RT_NO_MOVE) rt_flow_compute(flow, p, k);
	else {
		rt_flow_wait(flow, p, k - RT_FLOW_SLOTS + 1);
		rt_flow_begin(flow, p, k);
	}
	s->done++;
}

/* ---- how many chunks, and when ---- */

/* So many that products have a panel's rows and messages are worth sending, the same on all ranks.
 */
RT_FUNCTION int64_t rt_flow_chunks(const rt_flow *flow) {
	int64_t chunks = RT_FLOW_CHUNKS;
	for (int i = 0; i < flow->parts; i++) {
		const rt_flow_part *p = &flow->part[i];
		if (p->by != RT_CUT || p->move == RT_NO_MOVE) continue;
		const rt_part *x = &flow->run->part[p->to][0];
		int64_t bytes = rt_whole_product(x, 0, x->rank) * rt_bytes[x->format] /
		                flow->run->mesh.ranks[p->how.axis];
		int64_t rows = p->cut < x->rank - 2 ? chunks * RT_FLOW_ROWS : x->whole[p->cut];
		int64_t most = rows / RT_FLOW_ROWS < bytes / RT_FLOW_BYTES ? rows / RT_FLOW_ROWS
		                                                           : bytes / RT_FLOW_BYTES;
		if (x->whole[p->cut] < most) most = x->whole[p->cut];
		if (most < chunks) chunks = most;
	}
	return chunks < 1 ? 1 : chunks;
}

/* Chunks beyond the elements along the dim would be empty. */
RT_FUNCTION int64_t rt_flow_most(const rt_flow *flow) {
	int64_t most = 1;
	for (int i = 0; i < flow->parts; i++) {
		const rt_flow_part *p = &flow->part[i];
		int64_t all = p->by == RT_CUT ? flow->run->part[p->to][0].whole[p->cut] : 1;
		if (all > most) most = all;
	}
	return most;
}

/* Tensors of a list by the bytes of what is moved of them; whole sizes, so that all ranks join
 * alike. */
RT_FUNCTION int64_t rt_flow_tensors(rt_flow *flow) {
	int64_t items = flow->list < 0 ? 0 : flow->run->sizes->items[flow->list], chunks = 0, bytes = 0;
	const rt_part *moved = NULL;
	for (int i = flow->parts; i-- > 0;)
		if (flow->part[i].by == RT_EACH && flow->part[i].move != RT_NO_MOVE)
			moved = flow->run->part[flow->part[i].to];
	flow->first = rt_ring_memory((size_t)items + 1, sizeof *flow->first);
	for (int64_t i = 0; i < items; i++) {
		int64_t more =
			moved ? rt_whole_product(&moved[i], 0, moved[i].rank) * rt_bytes[moved[i].format] : 0;
		if (i == 0 || bytes + more > flow->bucket) flow->first[chunks++] = i, bytes = 0;
		bytes += more;
	}
	flow->first[chunks] = items;
	return chunks;
}

RT_FUNCTION int64_t rt_flow_open(rt_flow *flow) {
	int64_t tensors = rt_flow_tensors(flow), end = 0;
	if (!flow->chunks) flow->chunks = rt_flow_chunks(flow);
	if (flow->chunks > rt_flow_most(flow)) flow->chunks = rt_flow_most(flow);
	for (int p = 0; p < flow->parts; p++) {
		const rt_flow_part *part = &flow->part[p];
		rt_flow_state *s = &flow->state[p];
		*s = (rt_flow_state){.chunks = part->by == RT_WHOLE  ? 1
		                               : part->by == RT_EACH ? tensors
		                                                     : flow->chunks};
		s->far = part->move != RT_NO_MOVE && rt_ring_far(flow->run->mesh.along[part->how.axis]);
		for (int q = 0; q < p; q++) {
			if (!(part->needs >> q & 1)) continue;
			int64_t stage =
				flow->state[q].stage + (flow->part[q].move != RT_NO_MOVE ? RT_FLOW_LAG : 0);
			if (part->by == RT_WHOLE) stage += flow->state[q].chunks - 1;
			if (stage > s->stage) s->stage = stage;
		}
		if (s->stage + s->chunks > end) end = s->stage + s->chunks;
	}
	return end;
}

/* Times of the slowest rank, for all must go the same way. */
RT_FUNCTION void rt_flow_took(rt_flow *flow, int way, double seconds) {
	if (!flow->choice || flow->choice->runs >= RT_WAYS * RT_TRIALS) return;
	double longest;
	MPI_Allreduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, flow->run->mesh.all);
	rt_took(flow->choice, way, longest);
}

RT_FUNCTION void rt_flow_run(rt_flow *flow) {
	rt_run *run = flow->run;
	const double begun = MPI_Wtime();
	const int way = flow->choice ? rt_way_of(flow->choice) : RT_BESIDE;
	if (way == RT_AFTER) flow->chunks = 1;
	int64_t end = rt_flow_open(flow);
	run->poke = rt_flow_poke, run->poked = flow;
	for (int64_t t = 0; t < end; t++)
		for (int p; (p = rt_flow_next(flow, t)) >= 0;) rt_flow_do(flow, p);
	run->poke = NULL;
	for (int p = 0; p < flow->parts; p++) {
		rt_flow_wait(flow, p, flow->state[p].chunks);
		for (int i = 0; i < RT_FLOW_SLOTS; i++) free(flow->state[p].slot[i].request);
	}
	free(flow->first);
	rt_flow_took(flow, way, MPI_Wtime() - begun);
}
