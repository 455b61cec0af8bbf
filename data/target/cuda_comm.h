/* ---- collectives ---- */

/* NCCL's type to reduce in; false: it has none on every device, see rt_reduce_copies. */
static bool rt_reduced(int format, ncclDataType_t *type) {
	switch (format) {
	case RT_F64: *type = ncclFloat64; return true;
	case RT_F32: *type = ncclFloat32; return true;
	case RT_F16: *type = ncclFloat16; return true;
	case RT_BF16: *type = ncclBfloat16; return true;
	case RT_I64: *type = ncclInt64; return true;
	case RT_I32: *type = ncclInt32; return true;
	case RT_I8: *type = ncclInt8; return true;
	case RT_U64: *type = ncclUint64; return true;
	case RT_U32: *type = ncclUint32; return true;
	case RT_U8:
	case RT_BOOL: *type = ncclUint8; return true;
	default: return false;
	}
}
static ncclRedOp_t rt_operation(int reduce) {
	return reduce == RT_SUM ? ncclSum : reduce == RT_MAX ? ncclMax : ncclMin;
}

template <int F>
static __global__ void rt_reduce_copies_kernel(char *out, const char *copies, int ranks,
                                               int64_t stride, int64_t n, int reduce) {
	typedef typename rt_of<F>::in_memory T;
	RT_FOR(i, n) {
		auto sum = rt_of<F>::load(((const T *)copies)[i]);
		for (int p = 1; p < ranks; p++) {
			auto x = rt_of<F>::load(((const T *)copies)[p * stride + i]);
			sum = reduce == RT_SUM ? sum + x : reduce == RT_MAX ? rt_max(sum, x) : rt_min(sum, x);
			sum = rt_of<F>::load(rt_of<F>::store(sum));
		}
		((T *)out)[i] = rt_of<F>::store(sum);
	}
}
template <int F>
static void rt_reduce_copies(rt_run *run, char *out, const char *copies, int ranks, int64_t stride,
                             int64_t n, int reduce) {
	RT_RUN(rt_reduce_copies_kernel<F>, n, out, copies, ranks, stride, n, reduce);
}

/* A block of elements of every rank, one after another, reduced into `out` on each rank whose block
 * it is: block p of all ranks is begin[p] .. begin[p + 1], counted in elements. */
static void rt_reduce_by_copies(rt_run *run, char *out, const char *from, int format, int axis,
                                int reduce, int64_t total, int64_t begin, int64_t n) {
	int ranks = run->mesh.ranks[axis], size = rt_bytes[format];
	char *copies = (char *)rt_scratch(run, total * size * ranks);
	RT_NCCL(ncclAllGather(from, copies, (size_t)(total * size), ncclUint8, run->mesh.along[axis],
	                      run->stream));
	RT_SWITCH(format, rt_reduce_copies, run, out, copies + begin * size, ranks, total, n, reduce)
	rt_release(run, copies);
}

static void rt_copy(rt_run *run, rt_part *to, const rt_part *from) {
	if (!to->here || !from->here || to->data == from->data) return;
	RT_CUDA(cudaMemcpyAsync(to->data, from->data, (size_t)(to->count * rt_bytes[to->format]),
	                        cudaMemcpyDeviceToDevice, run->stream));
}

static void rt_allreduce(rt_run *run, rt_part *to, const rt_part *from, int axis, int reduce) {
	ncclDataType_t type;
	if (!to->here) return;
	if (run->mesh.ranks[axis] == 1) {
		rt_copy(run, to, from);
		return;
	}
	if (rt_reduced(from->format, &type))
		RT_NCCL(ncclAllReduce(from->data, to->data, (size_t)from->count, type, rt_operation(reduce),
		                      run->mesh.along[axis], run->stream));
	else
		rt_reduce_by_copies(run, to->data, from->data, from->format, axis, reduce, from->count, 0,
		                    from->count);
}

static void rt_reduce(rt_run *run, rt_part *to, const rt_part *from, int axis, int reduce,
                      int root) {
	ncclDataType_t type;
	if (!from->here || from->count == 0) return;
	if (run->mesh.ranks[axis] == 1) {
		rt_copy(run, to, from);
		return;
	}
	bool mine = run->mesh.at[axis] == root;
	if (rt_reduced(from->format, &type))
		RT_NCCL(ncclReduce(from->data, mine ? to->data : NULL, (size_t)from->count, type,
		                   rt_operation(reduce), root, run->mesh.along[axis], run->stream));
	else
		rt_reduce_by_copies(run, to->data, from->data, from->format, axis, reduce, from->count, 0,
		                    mine ? from->count : 0);
}

static void rt_broadcast(rt_run *run, rt_part *to, const rt_part *from, int axis, int root) {
	if (!to->here) return;
	if (run->mesh.ranks[axis] == 1) {
		rt_copy(run, to, from);
		return;
	}
	const char *data = run->mesh.at[axis] == root ? from->data : to->data;
	RT_NCCL(ncclBroadcast(data, to->data, (size_t)(to->count * rt_bytes[to->format]), ncclUint8,
	                      root, run->mesh.along[axis], run->stream));
}

/* A tensor [outer][n][inner] cut along its middle dim into slices, which lie one after another: to
 * there or back. */
template <class T>
static __global__ void rt_cut_slices_kernel(T *to, const T *from, int64_t outer, int64_t n,
                                            int64_t inner, int ranks, bool back) {
	RT_FOR(i, outer * n * inner) {
		int64_t o = i / inner / n, k = i / inner % n, j = i % inner, p = rt_slice_of(n, ranks, k),
				begin = rt_slice_begin(n, ranks, p);
		int64_t cut =
			outer * inner * begin + (o * rt_slice_length(n, ranks, p) + k - begin) * inner + j;
		if (back) to[i] = from[cut];
		else to[cut] = from[i];
	}
}
static void rt_cut_slices(rt_run *run, char *to, const char *from, int bytes, int64_t outer,
                          int64_t n, int64_t inner, int ranks, bool back) {
	int64_t all = outer * n * inner;
	switch (bytes) {
	case 1:
		RT_RUN(rt_cut_slices_kernel<rt_bytes1>, all, (rt_bytes1 *)to, (const rt_bytes1 *)from,
		       outer, n, inner, ranks, back);
		break;
	case 2:
		RT_RUN(rt_cut_slices_kernel<rt_bytes2>, all, (rt_bytes2 *)to, (const rt_bytes2 *)from,
		       outer, n, inner, ranks, back);
		break;
	case 4:
		RT_RUN(rt_cut_slices_kernel<uint32_t>, all, (uint32_t *)to, (const uint32_t *)from, outer,
		       n, inner, ranks, back);
		break;
	default:
		RT_RUN(rt_cut_slices_kernel<rt_bytes8>, all, (rt_bytes8 *)to, (const rt_bytes8 *)from,
		       outer, n, inner, ranks, back);
		break;
	}
}

/* Every rank's block of `from`, reduced, to that rank: in one call where blocks are equal, else one
 * for each. */
static void rt_scatter_blocks(rt_run *run, char *to, const char *from, int format, int64_t n,
                              int64_t each, int axis, int reduce) {
	int ranks = run->mesh.ranks[axis], at = run->mesh.at[axis];
	ncclDataType_t type;
	ncclComm_t comm = run->mesh.along[axis];
	if (!rt_reduced(format, &type)) {
		rt_reduce_by_copies(run, to, from, format, axis, reduce, n * each,
		                    rt_slice_begin(n, ranks, at) * each,
		                    rt_slice_length(n, ranks, at) * each);
		return;
	}
	if (n % ranks == 0) {
		RT_NCCL(ncclReduceScatter(from, to, (size_t)(n / ranks * each), type, rt_operation(reduce),
		                          comm, run->stream));
		return;
	}
	RT_NCCL(ncclGroupStart());
	for (int p = 0; p < ranks; p++)
		if (rt_slice_length(n, ranks, p) > 0)
			RT_NCCL(ncclReduce(from + rt_slice_begin(n, ranks, p) * each * rt_bytes[format],
			                   p == at ? to : NULL, (size_t)(rt_slice_length(n, ranks, p) * each),
			                   type, rt_operation(reduce), p, comm, run->stream));
	RT_NCCL(ncclGroupEnd());
}

static void rt_reducescatter(rt_run *run, rt_part *to, const rt_part *from, int axis, int reduce,
                             int dim) {
	if (!from->here) return;
	int64_t outer = rt_extents(from->extent, 0, dim),
			inner = rt_extents(from->extent, dim + 1, from->rank), n = from->extent[dim];
	if (run->mesh.ranks[axis] == 1) {
		rt_copy(run, to, from);
		return;
	}
	const char *blocks = from->data;
	char *cut = NULL;
	if (outer > 1) {
		blocks = cut = (char *)rt_scratch(run, from->count * rt_bytes[from->format]);
		rt_cut_slices(run, cut, from->data, rt_bytes[from->format], outer, n, inner,
		              run->mesh.ranks[axis], false);
	}
	rt_scatter_blocks(run, to->data, blocks, from->format, n, outer * inner, axis, reduce);
	if (cut) rt_release(run, cut);
}

/* Slices of all ranks, of which this one holds slice (at - turn), counted round: one after another.
 */
static void rt_gather_blocks(rt_run *run, char *to, const char *from, int64_t n, int64_t bytes,
                             int axis, int64_t turn) {
	int ranks = run->mesh.ranks[axis];
	ncclComm_t comm = run->mesh.along[axis];
	turn = (turn % ranks + ranks) % ranks;
	if (n % ranks == 0 && turn == 0) {
		RT_NCCL(ncclAllGather(from, to, (size_t)(n / ranks * bytes), ncclUint8, comm, run->stream));
		return;
	}
	RT_NCCL(ncclGroupStart());
	for (int p = 0; p < ranks; p++)
		if (rt_slice_length(n, ranks, p) > 0)
			RT_NCCL(ncclBroadcast(from, to + rt_slice_begin(n, ranks, p) * bytes,
			                      (size_t)(rt_slice_length(n, ranks, p) * bytes), ncclUint8,
			                      (int)((p + turn) % ranks), comm, run->stream));
	RT_NCCL(ncclGroupEnd());
}

static void rt_allgather(rt_run *run, rt_part *to, const rt_part *from, int axis, int dim,
                         int64_t turn) {
	if (!to->here) return;
	int64_t outer = rt_extents(to->extent, 0, dim),
			inner = rt_extents(to->extent, dim + 1, to->rank), n = to->extent[dim];
	int bytes = rt_bytes[to->format];
	if (run->mesh.ranks[axis] == 1) {
		rt_copy(run, to, from);
		return;
	}
	char *cut = outer > 1 ? (char *)rt_scratch(run, to->count * bytes) : NULL;
	rt_gather_blocks(run, cut ? cut : to->data, from->data, n, outer * inner * bytes, axis, turn);
	if (!cut) return;
	rt_cut_slices(run, to->data, cut, bytes, outer, n, inner, run->mesh.ranks[axis], true);
	rt_release(run, cut);
}

/* From slices along dim d to slices along dim e: block p of mine along e goes to rank p. The blocks
 * follow one another in `out` and `in`. */
typedef struct rt_exchange {
	char *out, *in;
	int64_t mine; /* elements of the other dims */
} rt_exchange;

static rt_exchange rt_exchange_open(rt_run *run, const rt_part *to, const rt_part *from, int ranks,
                                    int d, int e) {
	int bytes = rt_bytes[to->format];
	rt_exchange x = {(char *)rt_scratch(run, from->count * bytes),
	                 (char *)rt_scratch(run, to->count * bytes), 0};
	const rt_part *known = from->count ? from : to;
	if (known->count) x.mine = known->count / (known->extent[d] * known->extent[e]);
	rt_cut_slices(run, x.out, from->data, bytes, rt_extents(from->extent, 0, e), from->extent[e],
	              rt_extents(from->extent, e + 1, from->rank), ranks, false);
	return x;
}

static void rt_exchange_send(rt_run *run, const rt_exchange *x, const rt_part *to,
                             const rt_part *from, int axis, int d, int e) {
	int ranks = run->mesh.ranks[axis], bytes = rt_bytes[to->format];
	int64_t n = from->extent[e], whole = to->extent[d];
	for (int p = 0; p < ranks; p++) {
		int64_t sent = x->mine * from->extent[d] * rt_slice_length(n, ranks, p),
				got = x->mine * rt_slice_length(whole, ranks, p) * to->extent[e];
		if (sent)
			RT_NCCL(
				ncclSend(x->out + x->mine * from->extent[d] * rt_slice_begin(n, ranks, p) * bytes,
			             (size_t)(sent * bytes), ncclUint8, p, run->mesh.along[axis], run->stream));
		if (got)
			RT_NCCL(
				ncclRecv(x->in + x->mine * rt_slice_begin(whole, ranks, p) * to->extent[e] * bytes,
			             (size_t)(got * bytes), ncclUint8, p, run->mesh.along[axis], run->stream));
	}
}

static void rt_exchange_close(rt_run *run, const rt_exchange *x, rt_part *to, int ranks, int d) {
	rt_cut_slices(run, to->data, x->in, rt_bytes[to->format], rt_extents(to->extent, 0, d),
	              to->extent[d], rt_extents(to->extent, d + 1, to->rank), ranks, true);
	rt_release(run, x->out);
	rt_release(run, x->in);
}

/* To the rank that is `shift` further on, counted round. */
static void rt_permute(rt_run *run, rt_part *to, const rt_part *from, int axis, int64_t shift) {
	if (!to->here) return;
	int ranks = run->mesh.ranks[axis], at = run->mesh.at[axis];
	shift = (shift % ranks + ranks) % ranks;
	if (shift == 0) {
		rt_copy(run, to, from);
		return;
	}
	int bytes = rt_bytes[to->format];
	RT_NCCL(ncclGroupStart());
	if (from->count)
		RT_NCCL(ncclSend(from->data, (size_t)(from->count * bytes), ncclUint8,
		                 (int)((at + shift) % ranks), run->mesh.along[axis], run->stream));
	if (to->count)
		RT_NCCL(ncclRecv(to->data, (size_t)(to->count * bytes), ncclUint8,
		                 (int)((at + ranks - shift) % ranks), run->mesh.along[axis], run->stream));
	RT_NCCL(ncclGroupEnd());
}

/* From one group of ranks along an axis to another. */
static void rt_send(rt_run *run, rt_part *to, const rt_part *from, int axis, int source,
                    int target) {
	if (source == target) {
		rt_copy(run, to, from);
		return;
	}
	if (run->mesh.at[axis] == source && from->count)
		RT_NCCL(ncclSend(from->data, (size_t)(from->count * rt_bytes[from->format]), ncclUint8,
		                 target, run->mesh.along[axis], run->stream));
	if (run->mesh.at[axis] == target && to->count)
		RT_NCCL(ncclRecv(to->data, (size_t)(to->count * rt_bytes[to->format]), ncclUint8, source,
		                 run->mesh.along[axis], run->stream));
}

/* ---- collectives of several tensors ---- */

typedef struct rt_pairs {
	rt_part **from, **to;
	int count;
} rt_pairs;

/* d, e: dims; of a send the places of its two groups along the axis. */
typedef struct rt_collective {
	int axis, reduce, d, e, root, shift;
} rt_collective;

/* A rectangle of bytes: `rows` of them, `from_row` and `to_row` apart. */
static void rt_copy_rows(rt_run *run, char *to, int64_t to_row, const char *from, int64_t from_row,
                         int64_t bytes, int64_t rows) {
	if (bytes > 0 && rows > 0)
		RT_CUDA(cudaMemcpy2DAsync(to, (size_t)to_row, from, (size_t)from_row, (size_t)bytes,
		                          (size_t)rows, cudaMemcpyDeviceToDevice, run->stream));
}

/* Blocks for each rank, of slices along dim d of a list's parts, rank by rank: elements before each
 * of them into `begin`, and with `packed` the elements themselves, or back. */
static void rt_list_blocks(rt_run *run, rt_part *const *parts, int count, int axis, int d,
                           char *packed, bool back, int64_t *begin) {
	int ranks = run->mesh.ranks[axis];
	int64_t at, done = 0;
	for (int r = 0; r < ranks; r++) {
		begin[r] = done;
		for (int i = 0; i < count; i++) {
			const rt_part *p = parts[i];
			int64_t length = rt_slice(p, d, ranks, r, &at), rows = rt_product(p, 0, d),
					inner = rt_product(p, d + 1, p->rank), size = rt_bytes[p->format];
			int64_t bytes = length * inner * size, row = p->extent[d] * inner * size;
			char *lies = p->data + at * inner * size, *other = packed + done * size;
			if (packed && back) rt_copy_rows(run, lies, row, other, bytes, bytes, rows);
			else if (packed) rt_copy_rows(run, other, bytes, lies, row, bytes, rows);
			done += length * inner * rows;
		}
	}
	begin[ranks] = done;
}

/* The parts one behind the other: where they lie, or a copy, which *copied is then. */
static char *rt_list_joined(rt_run *run, rt_part *const *parts, int count, bool fill,
                            char **copied) {
	int64_t all = 0, at = 0;
	char *together = rt_together(parts, count);
	*copied = NULL;
	if (together) return together;
	for (int i = 0; i < count; i++) all += (int64_t)rt_size(parts[i]);
	*copied = (char *)rt_scratch(run, all);
	for (int i = 0; i < count && fill; at += (int64_t)rt_size(parts[i++]))
		rt_copy_rows(run, *copied + at, 1, parts[i]->data, 1, (int64_t)rt_size(parts[i]), 1);
	return *copied;
}

static bool rt_equal_blocks(const int64_t *begin, int ranks) {
	for (int r = 0; r < ranks; r++)
		if (begin[r + 1] - begin[r] != begin[1]) return false;
	return true;
}

/* A reduce-scatter of a list whose slices cut across its tensors, as one of the flat buffer. */
static void rt_list_reducescatter(rt_run *run, const rt_collective *c, rt_part **from, rt_part **to,
                                  int count) {
	int ranks = run->mesh.ranks[c->axis], at = run->mesh.at[c->axis];
	rt_format format = from[0]->format;
	std::vector<int64_t> blocks((size_t)ranks + 1);
	int64_t *begin = blocks.data(), size = rt_bytes[format];
	ncclDataType_t type;
	char *cut = NULL, *out, *copied, *flat = rt_in_order(from, count, c->d);
	rt_list_blocks(run, from, count, c->axis, c->d, NULL, false, begin);
	if (!flat) {
		flat = cut = (char *)rt_scratch(run, begin[ranks] * size);
		rt_list_blocks(run, from, count, c->axis, c->d, cut, false, begin);
	}
	out = rt_list_joined(run, to, count, false, &copied);
	if (!rt_reduced(format, &type))
		rt_reduce_by_copies(run, out, flat, format, c->axis, c->reduce, begin[ranks], begin[at],
		                    begin[at + 1] - begin[at]);
	else if (rt_equal_blocks(begin, ranks))
		RT_NCCL(ncclReduceScatter(flat, out, (size_t)begin[1], type, rt_operation(c->reduce),
		                          run->mesh.along[c->axis], run->stream));
	else {
		RT_NCCL(ncclGroupStart());
		for (int p = 0; p < ranks; p++)
			if (begin[p + 1] > begin[p])
				RT_NCCL(ncclReduce(flat + begin[p] * size, p == at ? out : NULL,
				                   (size_t)(begin[p + 1] - begin[p]), type, rt_operation(c->reduce),
				                   p, run->mesh.along[c->axis], run->stream));
		RT_NCCL(ncclGroupEnd());
	}
	for (int64_t i = 0, done = 0; copied && i < count; done += (int64_t)rt_size(to[i++]))
		rt_copy_rows(run, to[i]->data, 1, copied + done, 1, (int64_t)rt_size(to[i]), 1);
	if (copied) rt_release(run, copied);
	if (cut) rt_release(run, cut);
}

/* The all-gather of such a list. */
static void rt_list_allgather(rt_run *run, const rt_collective *c, rt_part **from, rt_part **to,
                              int count) {
	int ranks = run->mesh.ranks[c->axis], at = run->mesh.at[c->axis];
	std::vector<int64_t> blocks((size_t)ranks + 1);
	int64_t *begin = blocks.data(), size = rt_bytes[to[0]->format];
	char *cut = NULL, *copied, *flat = rt_in_order(to, count, c->d),
		 *mine = rt_list_joined(run, from, count, true, &copied);
	rt_list_blocks(run, to, count, c->axis, c->d, NULL, false, begin);
	if (!flat) flat = cut = (char *)rt_scratch(run, begin[ranks] * size);
	if (rt_equal_blocks(begin, ranks))
		RT_NCCL(ncclAllGather(mine, flat, (size_t)(begin[1] * size), ncclUint8,
		                      run->mesh.along[c->axis], run->stream));
	else {
		RT_NCCL(ncclGroupStart());
		for (int p = 0; p < ranks; p++)
			if (begin[p + 1] > begin[p])
				RT_NCCL(ncclBroadcast(p == at ? mine : flat + begin[p] * size,
				                      flat + begin[p] * size,
				                      (size_t)((begin[p + 1] - begin[p]) * size), ncclUint8, p,
				                      run->mesh.along[c->axis], run->stream));
		RT_NCCL(ncclGroupEnd());
	}
	if (cut) rt_list_blocks(run, to, count, c->axis, c->d, cut, true, begin), rt_release(run, cut);
	if (copied) rt_release(run, copied);
}

/* Needs no kernel before or behind it, so that several can be one group of NCCL's. */
static bool rt_all_direct(const rt_pairs *x, bool reduces, int dim) {
	ncclDataType_t type;
	for (int i = 0; i < x->count; i++) {
		const rt_part *p = x->from[i]->count > x->to[i]->count ? x->from[i] : x->to[i];
		if ((reduces && !rt_reduced(p->format, &type)) ||
		    (dim >= 0 && rt_extents(p->extent, 0, dim) > 1))
			return false;
	}
	return true;
}

#define RT_PAIRS(name, direct, call)                                                        \
	static void rt_##name##_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) { \
		bool group = x->count > 1 && (direct);                                              \
		if (group) RT_NCCL(ncclGroupStart());                                               \
		for (int i = 0; i < x->count; i++) {                                                \
			rt_part *to = x->to[i];                                                         \
			const rt_part *from = x->from[i];                                               \
			call;                                                                           \
		}                                                                                   \
		if (group) RT_NCCL(ncclGroupEnd());                                                 \
	}
RT_PAIRS(allreduce, rt_all_direct(x, true, -1), rt_allreduce(run, to, from, c->axis, c->reduce))
RT_PAIRS(reduce, rt_all_direct(x, true, -1), rt_reduce(run, to, from, c->axis, c->reduce, c->root))
RT_PAIRS(broadcast, true, rt_broadcast(run, to, from, c->axis, c->root))
RT_PAIRS(reducescatter, rt_all_direct(x, true, c->d),
         rt_reducescatter(run, to, from, c->axis, c->reduce, c->d))
RT_PAIRS(allgather, rt_all_direct(x, false, c->d), rt_allgather(run, to, from, c->axis, c->d, 0))
RT_PAIRS(permute, true, rt_permute(run, to, from, c->axis, c->shift))
RT_PAIRS(send, true, rt_send(run, to, from, c->axis, c->d, c->e))
#undef RT_PAIRS

/* All are cut into blocks first, so that their messages are one group. */
static void rt_alltoall_pairs(rt_run *run, const rt_collective *c, const rt_pairs *x) {
	int ranks = run->mesh.ranks[c->axis];
	rt_exchange *each = (rt_exchange *)malloc((size_t)x->count * sizeof *each);
	if (!each) {
		rt_fail(run, "an exchange", "out of memory", __LINE__);
		return;
	}
	for (int i = 0; i < x->count; i++) {
		if (!x->to[i]->here) continue;
		if (ranks == 1) rt_copy(run, x->to[i], x->from[i]);
		else each[i] = rt_exchange_open(run, x->to[i], x->from[i], ranks, c->d, c->e);
	}
	if (ranks > 1) {
		RT_NCCL(ncclGroupStart());
		for (int i = 0; i < x->count; i++)
			if (x->to[i]->here)
				rt_exchange_send(run, &each[i], x->to[i], x->from[i], c->axis, c->d, c->e);
		RT_NCCL(ncclGroupEnd());
		for (int i = 0; i < x->count; i++)
			if (x->to[i]->here) rt_exchange_close(run, &each[i], x->to[i], ranks, c->d);
	}
	free(each);
}

/* A collective of several values, each of `items` tensors. NCCL gets up to `bucket` bytes of them
 * as one group, which it makes one launch of; tensors stay where they are. 0: all. A list whose
 * slices cut across its tensors is one flat buffer. */
static void rt_collect(rt_run *run,
                       void (*collective)(rt_run *, const rt_collective *, const rt_pairs *),
                       rt_collective c, rt_part *const *from, rt_part *const *to, int values,
                       int64_t items, int64_t bucket) {
	rt_part **all = (rt_part **)malloc(2 * (size_t)(values * items) * sizeof *all);
	rt_pairs x = {all, all + values * items, 0};
	int64_t bytes = 0;
	bool cut = run->mesh.ranks[c.axis] > 1 && items > 1;
	if (!bucket) bucket = INT64_MAX / 2;
	if (!all) {
		rt_fail(run, "a collective", "out of memory", __LINE__);
		return;
	}
	for (int v = 0; v < values; v++) {
		bool scatters = cut && collective == rt_reducescatter_pairs && from[v][0].all[c.d],
			 gathers = cut && collective == rt_allgather_pairs && to[v][0].all[c.d];
		for (int64_t i = 0; i < items; i++) {
			/* What is whole has the same size on all ranks, so that they join alike. */
			int64_t size = rt_extents(to[v][i].whole, 0, to[v][i].rank) * rt_bytes[to[v][i].format];
			if (x.count && !scatters && !gathers && bytes + size > bucket)
				collective(run, &c, &x), x.count = 0, bytes = 0;
			x.from[x.count] = &from[v][i], x.to[x.count++] = &to[v][i];
			bytes += size;
		}
		if (scatters && from[v][0].here) rt_list_reducescatter(run, &c, x.from, x.to, x.count);
		if (gathers && to[v][0].here) rt_list_allgather(run, &c, x.from, x.to, x.count);
		if (scatters || gathers) x.count = 0, bytes = 0;
	}
	if (x.count) collective(run, &c, &x);
	free(all);
}

/* ---- slices of a tensor, one after another ---- */

/* Whether slices along a dim lie together, so that each can be worked on by itself. */
static bool rt_in_slices(const rt_part *p, int dim) {
	return p->here && rt_extents(p->extent, 0, dim) == 1;
}

/* The part from now on is its slice s of `ranks` along a dim; returns what it was. */
static rt_part rt_narrow(rt_part *p, int dim, int ranks, int s) {
	rt_part was = *p;
	int64_t n = p->extent[dim], begin = rt_slice_begin(n, ranks, s),
			inner = rt_extents(p->extent, dim + 1, p->rank);
	p->data += begin * inner * rt_bytes[p->format];
	p->begin[dim] += begin;
	p->extent[dim] = rt_slice_length(n, ranks, s);
	p->count = p->extent[dim] * inner;
	return was;
}
/* Slice s of a partial tensor, reduced, to rank s: a step of a reduce-scatter. */
static void rt_reduce_slice(rt_run *run, rt_part *to, const rt_part *from, int axis, int reduce,
                            int dim, int s) {
	ncclDataType_t type;
	int64_t n = from->extent[dim], inner = rt_extents(from->extent, dim + 1, from->rank),
			count = rt_slice_length(n, run->mesh.ranks[axis], s) * inner;
	if (count == 0 || !rt_reduced(from->format, &type)) return;
	RT_NCCL(ncclReduce(from->data + rt_slice_begin(n, run->mesh.ranks[axis], s) * inner *
	                                    rt_bytes[from->format],
	                   s == run->mesh.at[axis] ? to->data : NULL, (size_t)count, type,
	                   rt_operation(reduce), s, run->mesh.along[axis], run->stream));
}
/* Slice s, from rank s to all: a step of an all-gather. */
static void rt_broadcast_slice(rt_run *run, rt_part *to, const rt_part *from, int axis, int dim,
                               int s) {
	int64_t n = to->extent[dim],
			bytes = rt_extents(to->extent, dim + 1, to->rank) * rt_bytes[to->format],
			count = rt_slice_length(n, run->mesh.ranks[axis], s) * bytes;
	char *slice = to->data + rt_slice_begin(n, run->mesh.ranks[axis], s) * bytes;
	if (count)
		RT_NCCL(ncclBroadcast(s == run->mesh.at[axis] ? from->data : slice, slice, (size_t)count,
		                      ncclUint8, s, run->mesh.along[axis], run->stream));
}
