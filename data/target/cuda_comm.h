/* ---- ranks, tensors, errors ---------------------------------------------------------------------------------------- */

typedef struct rt_mesh {
	int axes, ranks[4], at[4];
	ncclComm_t along[4];       /* of the ranks that differ along an axis alone; NULL where there is one */
} rt_mesh;

/* What this rank holds of a tensor, row by row in device memory; `room`: elements that every rank allots alike. */
typedef struct rt_part {
	char *data;
	int format, rank;
	bool here;                 /* false: the tensor lives on other ranks */
	int64_t whole[RT_RANK], begin[RT_RANK], extent[RT_RANK], count, room;
} rt_part;

struct rt_ring;
typedef struct rt_run {
	rt_mesh mesh;
	rt_part **part;            /* [tensor][item] */
	const struct rt_sizes *sizes;
	const double *scalar;
	cudaStream_t stream, main_stream, side_stream; /* where work goes now; the two that it may go to */
	cudaEvent_t fork, join;
	cublasLtHandle_t blas;
	char *workspace[2];        /* of cuBLASLt, one for each stream */
	struct rt_ring *ring;      /* how kernels reach the memory of others; NULL: they do not */
	bool library;              /* called from another program: errors are returned */
	char error[256];           /* the first one */
} rt_run;

static void rt_fail(rt_run *run, const char *what, const char *why, int line) {
	if (run->error[0]) return;
	snprintf(run->error, sizeof run->error, "%s: %s (line %d)", what, why, line);
	if (run->library) return;
	fprintf(stderr, "%s\n", run->error);
	exit(1);
}
#define RT_CUDA(call) do { cudaError_t e_ = (call); if (e_ != cudaSuccess) rt_fail(run, #call, cudaGetErrorString(e_), __LINE__); } while (0)
#define RT_NCCL(call) do { ncclResult_t e_ = (call); if (e_ != ncclSuccess) rt_fail(run, #call, ncclGetErrorString(e_), __LINE__); } while (0)
#define RT_BLAS(call) do { cublasStatus_t e_ = (call); if (e_ != CUBLAS_STATUS_SUCCESS) rt_fail(run, #call, cublasLtGetStatusString(e_), __LINE__); } while (0)
#define RT_RUN(kernel, n, ...) do { \
	if ((n) > 0) LK_LAUNCH(kernel, rt_blocks(n), RT_THREADS, 0, run->stream, __VA_ARGS__); \
	RT_CUDA(cudaPeekAtLastError()); } while (0)

/* Of n elements over `ranks` slices, the first n % ranks are one longer. */
RT_BOTH int64_t rt_begin(int64_t n, int64_t ranks, int64_t r) { return n / ranks * r + (r < n % ranks ? r : n % ranks); }
RT_BOTH int64_t rt_length(int64_t n, int64_t ranks, int64_t r) { return n / ranks + (r < n % ranks); }
RT_BOTH int64_t rt_slice_of(int64_t n, int64_t ranks, int64_t i) {
	int64_t less = n / ranks, more = n % ranks, longer = more * (less + 1);
	return i < longer ? i / (less + 1) : more + (i - longer) / less;
}
static int64_t rt_product(const int64_t *extent, int from, int to) {
	int64_t n = 1;
	for (int d = from; d < to; d++) n *= extent[d];
	return n;
}
/* Blocks of a loop over n elements: enough to fill any device several times over. */
static int rt_blocks(int64_t n) { int64_t b = (n + RT_THREADS - 1) / RT_THREADS; return (int)(b < 4096 ? b : 4096); }
#define RT_FOR(i, n) \
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i##_step = (int64_t)gridDim.x * blockDim.x; i < (n); i += i##_step)

static void *rt_scratch(rt_run *run, int64_t bytes) {
	void *p = NULL;
	RT_CUDA(cudaMallocAsync(&p, (size_t)(bytes > 0 ? bytes : 1), run->stream));
	return p;
}
static void rt_release(rt_run *run, void *p) { RT_CUDA(cudaFreeAsync(p, run->stream)); }

/* ---- collectives --------------------------------------------------------------------------------------------------- */

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
	case RT_U8: case RT_BOOL: *type = ncclUint8; return true;
	default: return false;
	}
}
static ncclRedOp_t rt_operation(char reduce) { return reduce == '+' ? ncclSum : reduce == '>' ? ncclMax : ncclMin; }

template <int F> static __global__ void rt_reduce_copies_kernel(char *out, const char *copies, int ranks, int64_t stride, int64_t n, char reduce) {
	typedef typename rt_of<F>::in_memory T;
	RT_FOR(i, n) {
		auto sum = rt_of<F>::load(((const T *)copies)[i]);
		for (int p = 1; p < ranks; p++) {
			auto x = rt_of<F>::load(((const T *)copies)[p * stride + i]);
			sum = reduce == '+' ? sum + x : reduce == '>' ? rt_max(sum, x) : rt_min(sum, x);
			sum = rt_of<F>::load(rt_of<F>::store(sum));
		}
		((T *)out)[i] = rt_of<F>::store(sum);
	}
}
template <int F> static void rt_reduce_copies(rt_run *run, char *out, const char *copies, int ranks, int64_t stride, int64_t n, char reduce) {
	RT_RUN(rt_reduce_copies_kernel<F>, n, out, copies, ranks, stride, n, reduce);
}

/* A block of elements of every rank, one after another, reduced into `out` on each rank whose block it is: block p of
 * all ranks is begin[p] .. begin[p + 1], counted in elements. */
static void rt_reduce_by_copies(rt_run *run, char *out, const char *from, int format, int axis, char reduce, int64_t total, int64_t begin, int64_t n) {
	int ranks = run->mesh.ranks[axis], size = rt_bytes[format];
	char *copies = (char *)rt_scratch(run, total * size * ranks);
	RT_NCCL(ncclAllGather(from, copies, (size_t)(total * size), ncclUint8, run->mesh.along[axis], run->stream));
	RT_SWITCH(format, rt_reduce_copies, run, out, copies + begin * size, ranks, total, n, reduce)
	rt_release(run, copies);
}

static void rt_copy(rt_run *run, rt_part *to, const rt_part *from) {
	if (!to->here || !from->here || to->data == from->data) return;
	RT_CUDA(cudaMemcpyAsync(to->data, from->data, (size_t)(to->count * rt_bytes[to->format]), cudaMemcpyDeviceToDevice, run->stream));
}

static void rt_allreduce(rt_run *run, rt_part *to, const rt_part *from, int axis, char reduce) {
	ncclDataType_t type;
	if (!to->here) return;
	if (run->mesh.ranks[axis] == 1) { rt_copy(run, to, from); return; }
	if (rt_reduced(from->format, &type))
		RT_NCCL(ncclAllReduce(from->data, to->data, (size_t)from->count, type, rt_operation(reduce), run->mesh.along[axis], run->stream));
	else rt_reduce_by_copies(run, to->data, from->data, from->format, axis, reduce, from->count, 0, from->count);
}

static void rt_reduce(rt_run *run, rt_part *to, const rt_part *from, int axis, char reduce, int root) {
	ncclDataType_t type;
	if (!from->here) return;
	if (run->mesh.ranks[axis] == 1) { rt_copy(run, to, from); return; }
	bool mine = run->mesh.at[axis] == root;
	if (rt_reduced(from->format, &type))
		RT_NCCL(ncclReduce(from->data, mine ? to->data : NULL, (size_t)from->count, type, rt_operation(reduce), root, run->mesh.along[axis], run->stream));
	else rt_reduce_by_copies(run, to->data, from->data, from->format, axis, reduce, from->count, 0, mine ? from->count : 0);
}

static void rt_broadcast(rt_run *run, rt_part *to, const rt_part *from, int axis, int root) {
	if (!to->here) return;
	if (run->mesh.ranks[axis] == 1) { rt_copy(run, to, from); return; }
	const char *data = run->mesh.at[axis] == root ? from->data : to->data;
	RT_NCCL(ncclBroadcast(data, to->data, (size_t)(to->count * rt_bytes[to->format]), ncclUint8, root, run->mesh.along[axis], run->stream));
}

/* A tensor [outer][n][inner] cut along its middle dim into slices, which lie one after another: to there or back. */
template <class T> static __global__ void rt_cut_kernel(T *to, const T *from, int64_t outer, int64_t n, int64_t inner, int ranks, bool back) {
	RT_FOR(i, outer * n * inner) {
		int64_t o = i / inner / n, k = i / inner % n, j = i % inner, p = rt_slice_of(n, ranks, k), begin = rt_begin(n, ranks, p);
		int64_t cut = outer * inner * begin + (o * rt_length(n, ranks, p) + k - begin) * inner + j;
		if (back) to[i] = from[cut];
		else to[cut] = from[i];
	}
}
static void rt_cut(rt_run *run, char *to, const char *from, int bytes, int64_t outer, int64_t n, int64_t inner, int ranks, bool back) {
	int64_t all = outer * n * inner;
	switch (bytes) {
	case 1: RT_RUN(rt_cut_kernel<uint8_t>, all, (uint8_t *)to, (const uint8_t *)from, outer, n, inner, ranks, back); break;
	case 2: RT_RUN(rt_cut_kernel<uint16_t>, all, (uint16_t *)to, (const uint16_t *)from, outer, n, inner, ranks, back); break;
	case 4: RT_RUN(rt_cut_kernel<uint32_t>, all, (uint32_t *)to, (const uint32_t *)from, outer, n, inner, ranks, back); break;
	default: RT_RUN(rt_cut_kernel<uint64_t>, all, (uint64_t *)to, (const uint64_t *)from, outer, n, inner, ranks, back); break;
	}
}

/* Every rank's block of `from`, reduced, to that rank: in one call where blocks are equal, else one for each. */
static void rt_scatter_blocks(rt_run *run, char *to, const char *from, int format, int64_t n, int64_t each, int axis, char reduce) {
	int ranks = run->mesh.ranks[axis], at = run->mesh.at[axis];
	ncclDataType_t type;
	ncclComm_t comm = run->mesh.along[axis];
	if (!rt_reduced(format, &type)) {
		rt_reduce_by_copies(run, to, from, format, axis, reduce, n * each, rt_begin(n, ranks, at) * each, rt_length(n, ranks, at) * each);
		return;
	}
	if (n % ranks == 0) {
		RT_NCCL(ncclReduceScatter(from, to, (size_t)(n / ranks * each), type, rt_operation(reduce), comm, run->stream));
		return;
	}
	RT_NCCL(ncclGroupStart());
	for (int p = 0; p < ranks; p++)
		if (rt_length(n, ranks, p) > 0)
			RT_NCCL(ncclReduce(from + rt_begin(n, ranks, p) * each * rt_bytes[format], p == at ? to : NULL,
				(size_t)(rt_length(n, ranks, p) * each), type, rt_operation(reduce), p, comm, run->stream));
	RT_NCCL(ncclGroupEnd());
}

static void rt_reducescatter(rt_run *run, rt_part *to, const rt_part *from, int axis, char reduce, int dim) {
	if (!from->here) return;
	int64_t outer = rt_product(from->extent, 0, dim), inner = rt_product(from->extent, dim + 1, from->rank), n = from->extent[dim];
	if (run->mesh.ranks[axis] == 1) { rt_copy(run, to, from); return; }
	const char *blocks = from->data;
	char *cut = NULL;
	if (outer > 1) {
		blocks = cut = (char *)rt_scratch(run, from->count * rt_bytes[from->format]);
		rt_cut(run, cut, from->data, rt_bytes[from->format], outer, n, inner, run->mesh.ranks[axis], false);
	}
	rt_scatter_blocks(run, to->data, blocks, from->format, n, outer * inner, axis, reduce);
	if (cut) rt_release(run, cut);
}

/* Slices of all ranks, of which this one holds slice (at - turn), counted round: one after another. */
static void rt_gather_blocks(rt_run *run, char *to, const char *from, int64_t n, int64_t bytes, int axis, int64_t turn) {
	int ranks = run->mesh.ranks[axis];
	ncclComm_t comm = run->mesh.along[axis];
	turn = (turn % ranks + ranks) % ranks;
	if (n % ranks == 0 && turn == 0) {
		RT_NCCL(ncclAllGather(from, to, (size_t)(n / ranks * bytes), ncclUint8, comm, run->stream));
		return;
	}
	RT_NCCL(ncclGroupStart());
	for (int p = 0; p < ranks; p++)
		if (rt_length(n, ranks, p) > 0)
			RT_NCCL(ncclBroadcast(from, to + rt_begin(n, ranks, p) * bytes, (size_t)(rt_length(n, ranks, p) * bytes), ncclUint8,
				(int)((p + turn) % ranks), comm, run->stream));
	RT_NCCL(ncclGroupEnd());
}

static void rt_allgather(rt_run *run, rt_part *to, const rt_part *from, int axis, int dim, int64_t turn) {
	if (!to->here) return;
	int64_t outer = rt_product(to->extent, 0, dim), inner = rt_product(to->extent, dim + 1, to->rank), n = to->extent[dim];
	int bytes = rt_bytes[to->format];
	if (run->mesh.ranks[axis] == 1) { rt_copy(run, to, from); return; }
	char *cut = outer > 1 ? (char *)rt_scratch(run, to->count * bytes) : NULL;
	rt_gather_blocks(run, cut ? cut : to->data, from->data, n, outer * inner * bytes, axis, turn);
	if (!cut) return;
	rt_cut(run, to->data, cut, bytes, outer, n, inner, run->mesh.ranks[axis], true);
	rt_release(run, cut);
}

/* From slices along dim d to slices along dim e: block p of mine along e goes to rank p. */
static void rt_alltoall(rt_run *run, rt_part *to, const rt_part *from, int axis, int d, int e) {
	if (!to->here) return;
	int ranks = run->mesh.ranks[axis], bytes = rt_bytes[to->format];
	if (ranks == 1) { rt_copy(run, to, from); return; }
	int64_t mine = from->count / (from->extent[d] && from->extent[e] ? from->extent[d] * from->extent[e] : 1); /* of the other dims */
	int64_t n = from->extent[e], whole = to->extent[d];
	char *out = (char *)rt_scratch(run, from->count * bytes), *in = (char *)rt_scratch(run, to->count * bytes);
	if (mine == 0 || from->count == 0) mine = to->count && to->extent[d] && to->extent[e] ? to->count / (to->extent[d] * to->extent[e]) : 0;
	rt_cut(run, out, from->data, bytes, rt_product(from->extent, 0, e), n, rt_product(from->extent, e + 1, from->rank), ranks, false);
	RT_NCCL(ncclGroupStart());
	for (int p = 0; p < ranks; p++) {
		int64_t sent = mine * from->extent[d] * rt_length(n, ranks, p), got = mine * rt_length(whole, ranks, p) * to->extent[e];
		if (sent) RT_NCCL(ncclSend(out + mine * from->extent[d] * rt_begin(n, ranks, p) * bytes, (size_t)(sent * bytes), ncclUint8, p, run->mesh.along[axis], run->stream));
		if (got) RT_NCCL(ncclRecv(in + mine * rt_begin(whole, ranks, p) * to->extent[e] * bytes, (size_t)(got * bytes), ncclUint8, p, run->mesh.along[axis], run->stream));
	}
	RT_NCCL(ncclGroupEnd());
	rt_cut(run, to->data, in, bytes, rt_product(to->extent, 0, d), whole, rt_product(to->extent, d + 1, to->rank), ranks, true);
	rt_release(run, out);
	rt_release(run, in);
}

/* To the rank that is `shift` further on, counted round. */
static void rt_permute(rt_run *run, rt_part *to, const rt_part *from, int axis, int64_t shift) {
	if (!to->here) return;
	int ranks = run->mesh.ranks[axis], at = run->mesh.at[axis];
	shift = (shift % ranks + ranks) % ranks;
	if (shift == 0) { rt_copy(run, to, from); return; }
	int bytes = rt_bytes[to->format];
	RT_NCCL(ncclGroupStart());
	if (from->count) RT_NCCL(ncclSend(from->data, (size_t)(from->count * bytes), ncclUint8, (int)((at + shift) % ranks), run->mesh.along[axis], run->stream));
	if (to->count) RT_NCCL(ncclRecv(to->data, (size_t)(to->count * bytes), ncclUint8, (int)((at + ranks - shift) % ranks), run->mesh.along[axis], run->stream));
	RT_NCCL(ncclGroupEnd());
}

/* From one group of ranks along an axis to another. */
static void rt_send(rt_run *run, rt_part *to, const rt_part *from, int axis, int source, int target) {
	if (source == target) { rt_copy(run, to, from); return; }
	if (run->mesh.at[axis] == source && from->count)
		RT_NCCL(ncclSend(from->data, (size_t)(from->count * rt_bytes[from->format]), ncclUint8, target, run->mesh.along[axis], run->stream));
	if (run->mesh.at[axis] == target && to->count)
		RT_NCCL(ncclRecv(to->data, (size_t)(to->count * rt_bytes[to->format]), ncclUint8, source, run->mesh.along[axis], run->stream));
}
