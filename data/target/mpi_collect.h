/* ---- runtime: reductions, messages, collectives between whole parts ---- */

/* ---- reductions of formats that MPI does not know ---- */

#define RT_REDUCTION(name, type, from, to, join)                                           \
	RT_LOOPS static void rt_op_##name(void *in, void *into, int *count, MPI_Datatype *t) { \
		const type *restrict a = in;                                                       \
		type *restrict b = into;                                                           \
		(void)t;                                                                           \
		for (int i = 0; i < *count; i++) {                                                 \
			float x = from(a[i]), y = from(b[i]);                                          \
			b[i] = to(join);                                                               \
		}                                                                                  \
	}
#define RT_REDUCTIONS(name, type, from, to)                 \
	RT_REDUCTION(name##_sum, type, from, to, x + y)         \
	RT_REDUCTION(name##_max, type, from, to, x > y ? x : y) \
	RT_REDUCTION(name##_min, type, from, to, x < y ? x : y)
RT_REDUCTIONS(f16, uint16_t, rt_from_f16, rt_to_f16)
RT_REDUCTIONS(bf16, uint16_t, rt_from_bf16, rt_to_bf16)
RT_REDUCTIONS(f8, uint8_t, rt_from_f8, rt_to_f8)

enum { RT_SUM, RT_MAX, RT_MIN };

RT_FUNCTION void rt_ops_open(rt_run *run) {
	static MPI_User_function *const own[3][3] = {
		{rt_op_f16_sum, rt_op_f16_max, rt_op_f16_min},
		{rt_op_bf16_sum, rt_op_bf16_max, rt_op_bf16_min},
		{rt_op_f8_sum, rt_op_f8_max, rt_op_f8_min},
	};
	for (int f = 0; f < RT_FORMATS; f++) {
		run->op[f][RT_SUM] = f == RT_BOOL ? MPI_MAX : MPI_SUM;
		run->op[f][RT_MAX] = MPI_MAX, run->op[f][RT_MIN] = MPI_MIN;
	}
	for (int f = RT_F16; f <= RT_F8; f++)
		for (int op = 0; op < 3; op++) MPI_Op_create(own[f - RT_F16][op], 1, &run->op[f][op]);
}

RT_FUNCTION void rt_ops_close(rt_run *run) {
	for (int f = RT_F16; f <= RT_F8; f++)
		for (int op = 0; op < 3; op++) MPI_Op_free(&run->op[f][op]);
}

RT_FUNCTION MPI_Datatype rt_type(rt_format f) {
	switch (f) {
	case RT_F64: return MPI_DOUBLE;
	case RT_F32: return MPI_FLOAT;
	case RT_F16:
	case RT_BF16:
	case RT_U16: return MPI_UINT16_T;
	case RT_I64: return MPI_INT64_T;
	case RT_I32: return MPI_INT32_T;
	case RT_I16: return MPI_INT16_T;
	case RT_I8: return MPI_INT8_T;
	case RT_U64: return MPI_UINT64_T;
	case RT_U32: return MPI_UINT32_T;
	default: return MPI_UINT8_T;
	}
}

/* ---- messages: MPI counts in int, so that what is longer goes in pieces, or is refused ---- */

enum { RT_PIECE = 1 << 30 };

RT_FUNCTION int rt_piece(int64_t left) {
	return left < RT_PIECE ? (int)left : RT_PIECE;
}

/* Waits without spinning: another rank may need this processor to get on. */
RT_FUNCTION void rt_wait_all(int count, MPI_Request *request) {
	for (int over = 0; MPI_Testall(count, request, &over, MPI_STATUSES_IGNORE), !over;)
		sched_yield();
}

RT_FUNCTION int rt_count(const rt_run *run, int64_t count) {
	if (count > INT_MAX)
		rt_abort(run, "a message has more than 2^31 - 1 elements, which MPI's counts do not hold; "
		              "use more ranks, or smaller sizes");
	return (int)count;
}

/* Slices of a dim, packed one behind the other: elements begin .. begin + length - 1 along d to
 * `packed`, or back. Returns the bytes. */
RT_FUNCTION size_t rt_pack(const rt_part *p, int d, int64_t begin, int64_t length, char *packed,
                           bool back) {
	size_t inner = (size_t)(rt_product(p, d + 1, p->rank) * rt_bytes[p->format]),
		   row = inner * (size_t)p->extent[d];
	size_t bytes = inner * (size_t)length, rows = (size_t)rt_product(p, 0, d);
	char *data = (char *)p->data + inner * (size_t)begin;
	for (size_t i = 0; i < rows && bytes; i++) {
		if (back) memcpy(data + i * row, packed + i * bytes, bytes);
		else memcpy(packed + i * bytes, data + i * row, bytes);
	}
	return bytes * rows;
}

/* Tensors that go in one message. */
typedef struct rt_pairs {
	rt_part **from, **to;
	int count;
} rt_pairs;

typedef struct rt_collective {
	int axis, reduce, d, e, root, shift;
} rt_collective;

RT_FUNCTION int64_t rt_elements(rt_part *const *parts, int count) {
	int64_t all = 0;
	for (int i = 0; i < count; i++) all += parts[i]->count;
	return all;
}

/* All of the parts behind each other, or back. */
RT_FUNCTION void rt_pack_all(rt_part *const *parts, int count, char *packed, bool back) {
	for (int i = 0; i < count; i++) {
		if (rt_size(parts[i]) == 0) continue;
		if (back) memcpy(parts[i]->data, packed, rt_size(parts[i]));
		else memcpy(packed, parts[i]->data, rt_size(parts[i]));
		packed += rt_size(parts[i]);
	}
}

/* The memory of parts that lie together; of others scratch, which they are packed into. */
RT_FUNCTION char *rt_joined(rt_run *run, rt_part *const *parts, int count, int scratch, bool fill) {
	char *together = rt_together(parts, count);
	if (together) return together;
	char *packed = rt_scratch(
		run, scratch, (size_t)rt_elements(parts, count) * (size_t)rt_bytes[parts[0]->format] + 1);
	if (fill) rt_pack_all(parts, count, packed, false);
	return packed;
}

RT_FUNCTION void rt_allreduce_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	rt_format f = x->from[0]->format;
	int64_t count = rt_elements(x->from, x->count), ranks = run->mesh.ranks[c->axis];
	char *from = rt_joined(run, x->from, x->count, 0, true),
		 *to = rt_joined(run, x->to, x->count, 0, false);
	for (int64_t done = 0; done < count; done += RT_PIECE) {
		int64_t at = done * rt_bytes[f];
		MPI_Allreduce(from == to ? MPI_IN_PLACE : from + at, to + at, rt_piece(count - done),
		              rt_type(f), run->op[f][c->reduce], run->mesh.along[c->axis]);
	}
	if (to != rt_together(x->to, x->count)) rt_pack_all(x->to, x->count, to, true);
	run->sent[c->axis] += 2 * (ranks - 1) * count * rt_bytes[f] / ranks;
}

RT_FUNCTION void rt_reduce_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	rt_format f = x->from[0]->format;
	int64_t count = rt_elements(x->from, x->count);
	bool root = run->mesh.at[c->axis] == c->root;
	char *from = rt_joined(run, x->from, x->count, 0, true),
		 *to = root ? rt_joined(run, x->to, x->count, 1, false) : NULL;
	for (int64_t done = 0; done < count; done += RT_PIECE) {
		int64_t at = done * rt_bytes[f];
		bool place = root && from == to;
		MPI_Reduce(place ? MPI_IN_PLACE : from + at, root ? to + at : NULL, rt_piece(count - done),
		           rt_type(f), run->op[f][c->reduce], c->root, run->mesh.along[c->axis]);
	}
	if (root && to != rt_together(x->to, x->count)) rt_pack_all(x->to, x->count, to, true);
	if (!root) run->sent[c->axis] += count * rt_bytes[f];
}

RT_FUNCTION void rt_broadcast_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	rt_format f = x->to[0]->format;
	int64_t count = rt_elements(x->to, x->count), ranks = run->mesh.ranks[c->axis];
	bool root = run->mesh.at[c->axis] == c->root;
	char *to = rt_joined(run, x->to, x->count, 0, false);
	size_t at = 0;
	for (int i = 0; i < x->count && root; at += rt_size(x->to[i++]))
		if (x->to[i]->count && x->from[i]->data != to + at)
			memmove(to + at, x->from[i]->data, rt_size(x->to[i]));
	for (int64_t done = 0; done < count; done += RT_PIECE)
		MPI_Bcast(to + done * rt_bytes[f], rt_piece(count - done), rt_type(f), c->root,
		          run->mesh.along[c->axis]);
	if (to != rt_together(x->to, x->count)) rt_pack_all(x->to, x->count, to, true);
	if (root) run->sent[c->axis] += count * rt_bytes[f] * (ranks > 1);
}

/* Blocks of every pair for each rank, by slices along dim d (of x->from or x->to), packed rank by
 * rank, or back. Elements per rank are put into counts, where they begin into begins. */
RT_FUNCTION int64_t rt_blocks(rt_run *run, const rt_collective *c, rt_part *const *parts, int pairs,
                              int d, char *packed, bool back, int *counts, int *begins) {
	int ranks = run->mesh.ranks[c->axis];
	int64_t done = 0;
	for (int r = 0; r < ranks; r++) {
		int64_t own = 0;
		for (int i = 0; i < pairs; i++) {
			const rt_part *p = parts[i];
			int64_t begin, length = rt_slice(p, d, ranks, r, &begin);
			if (packed) packed += rt_pack(p, d, begin, length, packed, back);
			own += rt_product(p, 0, d) * length * rt_product(p, d + 1, p->rank);
		}
		counts[r] = rt_count(run, own), begins[r] = rt_count(run, done);
		done += own;
	}
	return done;
}

RT_FUNCTION int *rt_counts(rt_run *run) {
	int most = 1;
	for (int a = 0; a < run->mesh.axes; a++)
		most = run->mesh.ranks[a] > most ? run->mesh.ranks[a] : most;
	return rt_scratch(run, 2, 4 * (size_t)most * sizeof(int));
}

RT_FUNCTION void rt_reducescatter_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	rt_format f = x->from[0]->format;
	int ranks = run->mesh.ranks[c->axis], at = run->mesh.at[c->axis], *counts = rt_counts(run);
	char *ordered = rt_in_order(x->from, x->count, c->d);
	size_t bytes = (size_t)(rt_elements(x->from, x->count) * rt_bytes[f]);
	char *from = ordered ? ordered : rt_scratch(run, 0, bytes + 1);
	int64_t count = rt_blocks(run, c, x->from, x->count, c->d, ordered ? NULL : from, false, counts,
	                          counts + ranks);
	char *to = rt_joined(run, x->to, x->count, 1, false);
	MPI_Reduce_scatter(from, to, counts, rt_type(f), run->op[f][c->reduce],
	                   run->mesh.along[c->axis]);
	if (to != rt_together(x->to, x->count)) rt_pack_all(x->to, x->count, to, true);
	run->sent[c->axis] += (count - counts[at]) * rt_bytes[f];
}

RT_FUNCTION void rt_allgather_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	rt_format f = x->to[0]->format;
	int ranks = run->mesh.ranks[c->axis], at = run->mesh.at[c->axis], *counts = rt_counts(run);
	char *ordered = rt_in_order(x->to, x->count, c->d);
	size_t bytes = (size_t)(rt_elements(x->to, x->count) * rt_bytes[f]);
	char *from = rt_joined(run, x->from, x->count, 1, true),
		 *to = ordered ? ordered : rt_scratch(run, 0, bytes + 1);
	rt_blocks(run, c, x->to, x->count, c->d, NULL, false, counts, counts + ranks);
	MPI_Allgatherv(from, counts[at], rt_type(f), to, counts, counts + ranks, rt_type(f),
	               run->mesh.along[c->axis]);
	if (!ordered) rt_blocks(run, c, x->to, x->count, c->d, to, true, counts, counts + ranks);
	run->sent[c->axis] += (int64_t)counts[at] * (ranks - 1) * rt_bytes[f];
}

RT_FUNCTION void rt_alltoall_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	rt_format f = x->to[0]->format;
	int ranks = run->mesh.ranks[c->axis], at = run->mesh.at[c->axis], *counts = rt_counts(run),
		*other = counts + 2 * ranks;
	char *from = rt_scratch(run, 0, (size_t)(rt_elements(x->from, x->count) * rt_bytes[f]) + 1);
	char *to = rt_scratch(run, 1, (size_t)(rt_elements(x->to, x->count) * rt_bytes[f]) + 1);
	int64_t count = rt_blocks(run, c, x->from, x->count, c->e, from, false, counts, counts + ranks);
	rt_blocks(run, c, x->to, x->count, c->d, NULL, false, other, other + ranks);
	MPI_Alltoallv(from, counts, counts + ranks, rt_type(f), to, other, other + ranks, rt_type(f),
	              run->mesh.along[c->axis]);
	rt_blocks(run, c, x->to, x->count, c->d, to, true, other, other + ranks);
	run->sent[c->axis] += (count - counts[at]) * rt_bytes[f];
}

/* To one rank and from another along an axis; either may be -1, nobody. */
RT_FUNCTION void rt_exchange(rt_run *run, int axis, const rt_part *from, int dest,
                             const rt_part *to, int source) {
	MPI_Comm comm = run->mesh.along[axis];
	int64_t out = dest >= 0 ? (int64_t)rt_size(from) : 0,
			in = source >= 0 ? (int64_t)rt_size(to) : 0;
	for (int64_t done = 0; done < out || done < in; done += RT_PIECE) {
		MPI_Request request[2];
		int open = 0;
		if (done < in)
			MPI_Irecv((char *)to->data + done, rt_piece(in - done), MPI_BYTE, source, 1, comm,
			          &request[open++]);
		if (done < out)
			MPI_Isend((char *)from->data + done, rt_piece(out - done), MPI_BYTE, dest, 1, comm,
			          &request[open++]);
		rt_wait_all(open, request);
	}
	if (dest != run->mesh.at[axis]) run->sent[axis] += out;
}

RT_FUNCTION void rt_permute_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	int ranks = run->mesh.ranks[c->axis], at = run->mesh.at[c->axis],
		by = (c->shift % ranks + ranks) % ranks;
	for (int i = 0; i < x->count; i++)
		rt_exchange(run, c->axis, x->from[i], (at + by) % ranks, x->to[i],
		            (at + ranks - by) % ranks);
}

/* From the ranks of one group to the equal ranks of another: d and e are the groups' places along
 * the axis. */
RT_FUNCTION void rt_send_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	int at = run->mesh.at[c->axis];
	for (int i = 0; i < x->count; i++)
		rt_exchange(run, c->axis, x->from[i], at == c->d ? c->e : -1, x->to[i],
		            at == c->e ? c->d : -1);
}

enum { RT_LIST_BYTES = 64 << 20 }; /* of a message of a list without a bucket */

/* A collective of several values, each of `items` tensors. Messages join tensors up to `bucket`
 * bytes; 0: enough. A list whose slices cut across its tensors is one message. */
RT_FUNCTION void rt_collect(rt_run *run,
                            void (*collective)(rt_run *, const rt_collective *, const rt_pairs *),
                            rt_collective c, rt_part *const *from, rt_part *const *to, int values,
                            int64_t items, int64_t bucket) {
	rt_part **all = malloc(2 * (size_t)(values * items) * sizeof *all);
	rt_pairs x = {all, all ? all + values * items : NULL, 0};
	int64_t bytes = 0;
	bool scatters = collective == rt_reducescatter_pairs,
		 gathers = collective == rt_allgather_pairs, turns = collective == rt_alltoall_pairs;
	if (!all) rt_abort(run, "out of memory");
	if (!bucket) bucket = RT_LIST_BYTES;
	for (int v = 0; v < values; v++)
		for (int64_t i = 0; i < items; i++) {
			/* What is whole has the same size on all ranks, so that they join alike. */
			int64_t size =
				rt_whole_product(&to[v][i], 0, to[v][i].rank) * rt_bytes[to[v][i].format];
			bool absent = collective == rt_broadcast_pairs ? !to[v][i].here : !from[v][i].here;
			bool one = (scatters && from[v][i].all[c.d]) || (gathers && to[v][i].all[c.d]) ||
			           (turns && (from[v][i].all[c.e] || to[v][i].all[c.d]));
			if (collective == rt_send_pairs) absent &= !to[v][i].here;
			if (absent) continue;
			if (x.count && bytes + size > bucket && !(one && i))
				collective(run, &c, &x), x.count = 0, bytes = 0;
			x.from[x.count] = &from[v][i], x.to[x.count++] = &to[v][i];
			bytes += size;
		}
	if (x.count) collective(run, &c, &x);
	free(all);
}
