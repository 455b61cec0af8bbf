/* ---- products ---- */

/* Elements of a tensor that need not lie together; along its last dim they do. */
typedef struct rt_matrix {
	char *data;
	int format, rank;
	int64_t extent[RT_RANK], stride[RT_RANK];
} rt_matrix;

static rt_matrix rt_all_of(const rt_part *part) {
	rt_matrix v = {part->data, part->format, part->rank, {0}, {0}};
	int64_t n = 1;
	for (int d = part->rank; d-- > 0;) {
		v.extent[d] = part->extent[d], v.stride[d] = n;
		n *= part->extent[d];
	}
	return v;
}
static rt_matrix rt_some_of(rt_matrix v, int dim, int64_t from, int64_t to) {
	v.data += from * v.stride[dim] * rt_bytes[v.format];
	v.extent[dim] = to - from;
	return v;
}

static bool rt_blas_type(int format, cudaDataType_t *type) {
	*type = format == RT_F64   ? CUDA_R_64F
	        : format == RT_F32 ? CUDA_R_32F
	        : format == RT_F16 ? CUDA_R_16F
	                           : CUDA_R_16BF;
	return format <= RT_BF16;
}

/* One product or a batch of equal ones: rows x depth times depth x columns. The strides are those
 * of rows and of the batch; `turned`: the operand lies with its dims exchanged. */
typedef struct rt_product_of {
	int64_t rows, columns, depth, batch;
	char *a, *b, *c;
	int64_t row[3], step[3]; /* of a, b, c */
	bool turned[2];
	int format;
} rt_product_of;

enum { RT_WORKSPACE = 32 << 20 }; /* bytes: what NVIDIA recommends for Hopper */

/* The alignment of a pointer, for cuBLASLt's choice; it assumes 256 bytes where nothing is said. */
static uint32_t rt_alignment(const void *p) {
	uintptr_t low = (uintptr_t)p & -(uintptr_t)p;
	return low == 0 || low > 256 ? 256 : (uint32_t)low;
}

static cublasLtMatrixLayout_t rt_blas_layout(rt_run *run, cudaDataType_t type, int64_t rows,
                                             int64_t columns, int64_t leading, int64_t batch,
                                             int64_t step) {
	cublasLtMatrixLayout_t layout = NULL;
	int32_t count = (int32_t)batch;
	/* A leading dim may not be less than the rows, also where there is one column. */
	RT_BLAS(cublasLtMatrixLayoutCreate(&layout, type, (uint64_t)rows, (uint64_t)columns,
	                                   leading < rows ? rows : leading));
	RT_BLAS(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
	                                         sizeof count));
	RT_BLAS(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
	                                         &step, sizeof step));
	return layout;
}

/* cuBLASLt counts columns first: the product of the transposes in reverse order, c' = b' a'. */
static void rt_blas_product(rt_run *run, const rt_product_of *m, cudaDataType_t type) {
	cublasOperation_t keep = CUBLAS_OP_N, turn = CUBLAS_OP_T;
	bool wide = type == CUDA_R_64F;
	double one_wide = 1, none_wide = 0;
	float one = 1, none = 0;
	size_t room = RT_WORKSPACE;
	int found = 0;
	cublasLtMatmulDesc_t desc;
	cublasLtMatmulPreference_t wish;
	cublasLtMatmulHeuristicResult_t choice;
	uint32_t aligned[3] = {rt_alignment(m->b), rt_alignment(m->a), rt_alignment(m->c)};
	RT_BLAS(cublasLtMatmulDescCreate(&desc, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
	                                 wide ? CUDA_R_64F : CUDA_R_32F));
	RT_BLAS(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA,
	                                       m->turned[1] ? &turn : &keep, sizeof keep));
	RT_BLAS(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB,
	                                       m->turned[0] ? &turn : &keep, sizeof keep));
	cublasLtMatrixLayout_t b =
		rt_blas_layout(run, type, m->turned[1] ? m->depth : m->columns,
	                   m->turned[1] ? m->columns : m->depth, m->row[1], m->batch, m->step[1]);
	cublasLtMatrixLayout_t a =
		rt_blas_layout(run, type, m->turned[0] ? m->rows : m->depth,
	                   m->turned[0] ? m->depth : m->rows, m->row[0], m->batch, m->step[0]);
	cublasLtMatrixLayout_t c =
		rt_blas_layout(run, type, m->columns, m->rows, m->row[2], m->batch, m->step[2]);
	RT_BLAS(cublasLtMatmulPreferenceCreate(&wish));
	RT_BLAS(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
	                                             &room, sizeof room));
	RT_BLAS(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
	                                             &aligned[0], sizeof aligned[0]));
	RT_BLAS(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
	                                             &aligned[1], sizeof aligned[1]));
	RT_BLAS(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
	                                             &aligned[2], sizeof aligned[2]));
	RT_BLAS(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
	                                             &aligned[2], sizeof aligned[2]));
	RT_BLAS(cublasLtMatmulAlgoGetHeuristic(run->blas, desc, b, a, c, c, wish, 1, &choice, &found));
	if (!found) rt_fail(run, "cuBLASLt", "no algorithm for this product", __LINE__);
	else
		RT_BLAS(cublasLtMatmul(run->blas, desc, wide ? (void *)&one_wide : (void *)&one, m->b, b,
		                       m->a, a, wide ? (void *)&none_wide : (void *)&none, m->c, c, m->c, c,
		                       &choice.algo, run->workspace[run->stream == run->side_stream], room,
		                       run->stream));
	cublasLtMatmulPreferenceDestroy(wish);
	cublasLtMatrixLayoutDestroy(a);
	cublasLtMatrixLayoutDestroy(b);
	cublasLtMatrixLayoutDestroy(c);
	cublasLtMatmulDescDestroy(desc);
}

/* Formats that cuBLASLt does not multiply on every device: an element of the result per thread. */
template <int F> static __global__ void rt_plain_product_kernel(rt_product_of m) {
	typedef typename rt_of<F>::in_memory T;
	RT_FOR(i, m.batch * m.rows * m.columns) {
		int64_t p = i / (m.rows * m.columns), r = i / m.columns % m.rows, c = i % m.columns;
		const T *a = (const T *)m.a + p * m.step[0] + r * (m.turned[0] ? 1 : m.row[0]);
		const T *b = (const T *)m.b + p * m.step[1] + c * (m.turned[1] ? m.row[1] : 1);
		int64_t across = m.turned[0] ? m.row[0] : 1, down = m.turned[1] ? 1 : m.row[1];
		typename rt_of<F>::in_register sum = 0;
		for (int64_t k = 0; k < m.depth; k++)
			sum += rt_of<F>::load(a[k * across]) * rt_of<F>::load(b[k * down]);
		((T *)m.c)[p * m.step[2] + r * m.row[2] + c] = rt_of<F>::store(sum);
	}
}
template <int F> static void rt_plain_product(rt_run *run, rt_product_of m) {
	RT_RUN(rt_plain_product_kernel<F>, m.batch * m.rows * m.columns, m);
}

static void rt_one_product(rt_run *run, const rt_product_of *m) {
	cudaDataType_t type;
	if (m->rows == 0 || m->columns == 0 || m->batch == 0) return;
	if (m->depth > 0 && rt_blas_type(m->format, &type)) rt_blas_product(run, m, type);
	else RT_SWITCH(m->format, rt_plain_product, run, *m)
}

/* Where the batch dim d of `of` lies in an operand with other dims before its last two; its stride,
 * 0 if repeated. */
static int64_t rt_batch_stride(const rt_matrix *v, int rank, int d) {
	int at = d - (rank - v->rank);
	return at >= 0 && v->extent[at] > 1 ? v->stride[at] : 0;
}

static bool rt_rows_join(const rt_matrix *v) {
	for (int d = 0; d + 2 < v->rank; d++)
		if (v->stride[d] != v->stride[d + 1] * v->extent[d + 1]) return false;
	return true;
}

/* to[.., m, n] = a[.., m, k] b[.., k, n]; the last batch dim is a strided batch, those before it
 * are a loop. Where b is one matrix, the batches of a are rows. */
static void rt_multiply_all(rt_run *run, rt_matrix to, rt_matrix a, rt_matrix b, bool ta, bool tb) {
	int rank = to.rank;
	rt_product_of m = {to.extent[rank - 2],
	                   to.extent[rank - 1],
	                   a.extent[a.rank - (ta ? 2 : 1)],
	                   1,
	                   NULL,
	                   NULL,
	                   NULL,
	                   {a.stride[a.rank - 2], b.stride[b.rank - 2], to.stride[rank - 2]},
	                   {0, 0, 0},
	                   {ta, tb},
	                   to.format};
	if (b.rank == 2 && !ta && a.rank == rank && rt_rows_join(&a) && rt_rows_join(&to)) {
		m.rows = rt_extents(to.extent, 0, rank - 1), m.a = a.data, m.b = b.data, m.c = to.data;
		rt_one_product(run, &m);
		return;
	}
	int64_t loops = rank > 3 ? rt_extents(to.extent, 0, rank - 3) : 1;
	if (rank > 2) m.batch = to.extent[rank - 3];
	for (int i = 0; i < 3 && rank > 2; i++)
		m.step[i] = rt_batch_stride(i == 0 ? &a : i == 1 ? &b : &to, rank, rank - 3);
	for (int64_t l = 0; l < loops; l++) {
		int64_t at[3] = {0, 0, 0}, left = l;
		for (int d = rank - 4; d >= 0; left /= to.extent[d], d--)
			for (int i = 0; i < 3; i++)
				at[i] += left % to.extent[d] *
				         rt_batch_stride(i == 0   ? &a
				                         : i == 1 ? &b
				                                  : &to,
				                         rank, d);
		m.a = a.data + at[0] * rt_bytes[a.format], m.b = b.data + at[1] * rt_bytes[b.format],
		m.c = to.data + at[2] * rt_bytes[to.format];
		rt_one_product(run, &m);
	}
}

static void rt_matmul(rt_run *run, const rt_part *a, bool ta, const rt_part *b, bool tb,
                      rt_part *to) {
	if (to->here) rt_multiply_all(run, rt_all_of(to), rt_all_of(a), rt_all_of(b), ta, tb);
}

/* ---- convolutions, rows ---- */

typedef struct rt_window {
	int64_t n, o, c, h, w, kh, kw, oh, ow, stride, pad;
	int64_t image[3], filter[3]; /* strides of x [N,C,H,.] and w [O,C,KH,.] */
} rt_window;

template <int F>
static __global__ void rt_conv2d_kernel(char *to, const char *x, const char *w, rt_window s) {
	typedef typename rt_of<F>::in_memory T;
	RT_FOR(i, s.n * s.o * s.oh * s.ow) {
		int64_t column = i % s.ow, row = i / s.ow % s.oh, o = i / s.ow / s.oh % s.o,
				n = i / s.ow / s.oh / s.o;
		typename rt_of<F>::in_register sum = 0;
		for (int64_t c = 0; c < s.c; c++)
			for (int64_t a = 0; a < s.kh; a++)
				for (int64_t b = 0; b < s.kw; b++) {
					int64_t y = row * s.stride + a - s.pad, z = column * s.stride + b - s.pad;
					if (y < 0 || y >= s.h || z < 0 || z >= s.w) continue;
					sum +=
						rt_of<F>::load(
							((const T *)x)[n * s.image[0] + c * s.image[1] + y * s.image[2] + z]) *
						rt_of<F>::load((
							(const T *)w)[o * s.filter[0] + c * s.filter[1] + a * s.filter[2] + b]);
				}
		((T *)to)[i] = rt_of<F>::store(sum);
	}
}
template <int F>
static void rt_conv2d_in(rt_run *run, char *to, const char *x, const char *w, rt_window s) {
	RT_RUN(rt_conv2d_kernel<F>, s.n * s.o * s.oh * s.ow, to, x, w, s);
}
static void rt_conv2d(rt_run *run, const rt_part *px, const rt_part *pw, rt_part *to,
                      int64_t stride, int64_t pad) {
	if (!to->here) return;
	rt_matrix x = rt_all_of(px), w = rt_all_of(pw);
	rt_window s = {to->extent[0],
	               to->extent[1],
	               x.extent[1],
	               x.extent[2],
	               x.extent[3],
	               w.extent[2],
	               w.extent[3],
	               to->extent[2],
	               to->extent[3],
	               stride,
	               pad,
	               {x.stride[0], x.stride[1], x.stride[2]},
	               {w.stride[0], w.stride[1], w.stride[2]}};
	RT_SWITCH(to->format, rt_conv2d_in, run, to->data, x.data, w.data, s)
}

/* Calls kernel(type) for the type in memory of indices. */
#define RT_BY_INDEX(format, kernel)           \
	switch (format) {                         \
	case RT_I64:                              \
	case RT_U64: kernel(int64_t); break;      \
	case RT_I32: kernel(rt_index_i32); break; \
	case RT_I16: kernel(rt_index_i16); break; \
	case RT_I8: kernel(rt_index_i8); break;   \
	case RT_U32: kernel(rt_index_u32); break; \
	case RT_U16: kernel(rt_index_u16); break; \
	default: kernel(rt_index_u8); break;      \
	}

/* Rows of a table by index. Of a sliced table, rows that others hold are 0: they are summed later.
 */
template <class T, class I>
static __global__ void rt_rows_kernel(T *to, const T *table, const I *index, int64_t columns,
                                      int64_t stride, int64_t begin, int64_t rows, int64_t n) {
	RT_FOR(i, n) {
		int64_t row = (int64_t)index[i / columns] - begin;
		to[i] = row >= 0 && row < rows ? table[row * stride + i % columns] : (T)0;
	}
}
template <class T>
static void rt_rows_by(rt_run *run, rt_part *to, rt_matrix table, rt_matrix index, int64_t begin) {
	int64_t columns = table.extent[1], n = to->count;
	const char *at = index.data;
#define RT_ROWS(I)                                                                         \
	RT_RUN((rt_rows_kernel<T, I>), n, (T *)to->data, (const T *)table.data, (const I *)at, \
	       columns, table.stride[0], begin, table.extent[0], n)
	RT_BY_INDEX(index.format, RT_ROWS)
#undef RT_ROWS
}
static void rt_gather_rows(rt_run *run, const rt_part *from, const rt_part *at, rt_part *to) {
	if (!to->here) return;
	rt_matrix table = rt_all_of(from), index = rt_all_of(at);
	int64_t begin = from->begin[0];
	switch (rt_bytes[to->format]) {
	case 1: rt_rows_by<rt_bytes1>(run, to, table, index, begin); break;
	case 2: rt_rows_by<rt_bytes2>(run, to, table, index, begin); break;
	case 4: rt_rows_by<uint32_t>(run, to, table, index, begin); break;
	default: rt_rows_by<rt_bytes8>(run, to, table, index, begin); break;
	}
}

/* Sums of rows by index, a column to a thread, in the order of the indices: the same at every run.
 */
template <int F, class I>
static __global__ void rt_add_rows_kernel(typename rt_of<F>::in_memory *to,
                                          const typename rt_of<F>::in_memory *x, const I *index,
                                          typename rt_of<F>::in_register *sums, int64_t n,
                                          int64_t rows, int64_t columns) {
	RT_FOR(c, columns) {
		for (int64_t r = 0; r < rows; r++) sums[r * columns + c] = 0;
		for (int64_t i = 0; i < n; i++) {
			int64_t at = (int64_t)index[i];
			if (at >= 0 && at < rows) sums[at * columns + c] += rt_of<F>::load(x[i * columns + c]);
		}
		for (int64_t r = 0; r < rows; r++)
			to[r * columns + c] = rt_of<F>::store(sums[r * columns + c]);
	}
}
template <int F>
static void rt_add_rows_in(rt_run *run, const rt_part *x, const rt_part *at, rt_part *to) {
	typedef typename rt_of<F>::in_memory T;
	typedef typename rt_of<F>::in_register R;
	R *sums = (R *)rt_scratch(run, to->count * (int64_t)sizeof(R));
#define RT_ROWS(I)                                                                       \
	RT_RUN((rt_add_rows_kernel<F, I>), to->extent[1], (T *)to->data, (const T *)x->data, \
	       (const I *)at->data, sums, at->count, to->extent[0], to->extent[1])
	RT_BY_INDEX(at->format, RT_ROWS)
#undef RT_ROWS
	RT_CUDA(cudaFreeAsync(sums, run->stream));
}
static void rt_add_rows(rt_run *run, const rt_part *x, const rt_part *at, rt_part *to) {
	if (to->here) RT_SWITCH(to->format, rt_add_rows_in, run, x, at, to)
}

/* Sums along a dim of all elements up to each, or from each on: a line to a thread, in the same
 * order at every run. */
template <int F>
static __global__ void rt_cumsum_kernel(typename rt_of<F>::in_memory *to,
                                        const typename rt_of<F>::in_memory *x, int64_t lines,
                                        int64_t along, int64_t inner, bool reverse) {
	RT_FOR(line, lines) {
		typename rt_of<F>::in_register sum = 0;
		for (int64_t k = 0; k < along; k++) {
			int64_t at =
				(line / inner * along + (reverse ? along - 1 - k : k)) * inner + line % inner;
			sum += rt_of<F>::load(x[at]);
			to[at] = rt_of<F>::store(sum);
		}
	}
}
template <int F>
static void rt_cumsum_in(rt_run *run, const rt_part *x, rt_part *y, int d, bool reverse) {
	typedef typename rt_of<F>::in_memory T;
	int64_t inner = rt_product(y, d + 1, y->rank),
			lines = y->count / (y->extent[d] > 0 ? y->extent[d] : 1);
	RT_RUN(rt_cumsum_kernel<F>, lines, (T *)y->data, (const T *)x->data, lines, y->extent[d], inner,
	       reverse);
}
static void rt_cumsum(rt_run *run, const rt_part *x, rt_part *y, int d, bool reverse) {
	if (y->here) RT_SWITCH(y->format, rt_cumsum_in, run, x, y, d, reverse)
}

/* ---- views ---- */

template <class T>
static __global__ void rt_go_kernel(T *to, const T *from, rt_route route, int64_t n) {
	RT_FOR(i, n) {
		int64_t at = rt_route_at(&route, i);
		if (at >= 0) to[i] = from[at];
		else if (!route.stay) to[i] = (T)0;
	}
}
static void rt_go(rt_run *run, const rt_part *x, rt_part *y, rt_route route) {
	switch (rt_bytes[y->format]) {
	case 1:
		RT_RUN(rt_go_kernel<rt_bytes1>, y->count, (rt_bytes1 *)y->data, (const rt_bytes1 *)x->data,
		       route, y->count);
		break;
	case 2:
		RT_RUN(rt_go_kernel<rt_bytes2>, y->count, (rt_bytes2 *)y->data, (const rt_bytes2 *)x->data,
		       route, y->count);
		break;
	case 4:
		RT_RUN(rt_go_kernel<uint32_t>, y->count, (uint32_t *)y->data, (const uint32_t *)x->data,
		       route, y->count);
		break;
	default:
		RT_RUN(rt_go_kernel<rt_bytes8>, y->count, (rt_bytes8 *)y->data, (const rt_bytes8 *)x->data,
		       route, y->count);
		break;
	}
}

template <int F>
static __global__ void rt_iota_kernel(typename rt_of<F>::in_memory *to, int64_t begin, int64_t n) {
	RT_FOR(i, n) to[i] = rt_of<F>::store((typename rt_of<F>::in_register)(begin + i));
}
template <int F> static void rt_iota_in(rt_run *run, rt_part *y) {
	RT_RUN(rt_iota_kernel<F>, y->count, (typename rt_of<F>::in_memory *)y->data, y->begin[0],
	       y->count);
}
static void rt_iota(rt_run *run, rt_part *y) {
	if (y->here) RT_SWITCH(y->format, rt_iota_in, run, y)
}

/* ---- passes ---- */

/* Four elements that lie together. */
template <class T> struct alignas(4 * sizeof(T)) rt_four { T at[4]; };
template <class T> static __device__ __forceinline__ rt_four<T> rt_load(const T *from) {
	return *(const rt_four<T> *)from;
}
template <class T> static __device__ __forceinline__ void rt_store(T *to, rt_four<T> x) {
	*(rt_four<T> *)to = x;
}
template <class T> static bool rt_aligned(const T *p) {
	return (uintptr_t)p % (4 * sizeof(T)) == 0;
}
static __device__ __forceinline__ int64_t rt_first() {
	return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
static __device__ __forceinline__ int64_t rt_step() {
	return (int64_t)gridDim.x * blockDim.x;
}

/* ---- reductions of a pass ---- */

/* `outs` results, each over `depth` elements, in `splits` tasks each. */
typedef struct rt_tasks {
	int64_t outs, depth, splits, extent[RT_RANK];
	int rank, dims;
	/* the reduced dims are the last ones: elements of a result lie together */
	bool together;
} rt_tasks;

static rt_tasks rt_tasks_of(const rt_part *p, int dims) {
	rt_tasks t = {1, 1, 1, {0}, p->rank, dims, true};
	bool below = false;
	for (int d = p->rank; d-- > 0;) {
		t.extent[d] = p->extent[d];
		*(dims >> d & 1 ? &t.depth : &t.outs) *= p->extent[d];
		if (p->extent[d] > 1 && !(dims >> d & 1)) below = true;
		if (p->extent[d] > 1 && dims >> d & 1 && below) t.together = false;
	}
	while (t.splits * t.outs < 1024 && t.depth / t.splits > 16 * RT_THREADS) t.splits *= 2;
	return t;
}
/* Element r of result o. */
RT_BOTH int64_t rt_element(const rt_tasks &t, int64_t o, int64_t r) {
	int64_t at = 0, stride = 1;
	if (t.together) return o * t.depth + r;
	for (int d = t.rank; d-- > 0; stride *= t.extent[d]) {
		int64_t *left = t.dims >> d & 1 ? &r : &o;
		at += *left % t.extent[d] * stride;
		*left /= t.extent[d];
	}
	return at;
}
#define RT_EACH_OF_TASK(i, t, task)                                                                \
	for (int64_t r_ = rt_slice_begin((t).depth, (t).splits, (task) % (t).splits) + threadIdx.x, i; \
	     r_ < rt_slice_begin((t).depth, (t).splits, (task) % (t).splits + 1) &&                    \
	     ((i = rt_element(t, (task) / (t).splits, r_)), true);                                     \
	     r_ += blockDim.x)
#define RT_RUN_TASKS(kernel, a)                                                       \
	do {                                                                              \
		int64_t tasks_ = (a).tasks.outs * (a).tasks.splits;                           \
		if (tasks_ > 0) {                                                             \
			LK_LAUNCH_BLOCK(kernel, (int)(tasks_ < 4096 ? tasks_ : 4096), RT_THREADS, \
			                RT_THREADS * sizeof(double), run->stream, a);             \
		}                                                                             \
		RT_CUDA(cudaPeekAtLastError());                                               \
	} while (0)

/* Takes one more element into a sum. */
template <int kind, class A, class B>
static __device__ __forceinline__ void rt_include(A &sum, B y) {
	A x = (A)y;
	if (kind == RT_MAX) sum = x > sum ? x : sum;
	else if (kind == RT_MIN) sum = x < sum ? x : sum;
	else sum += kind == RT_NORM ? x * x : x;
}
template <class A> RT_BOTH A rt_both(A x, A y, int kind) {
	return kind == RT_MAX ? (x > y ? x : y) : kind == RT_MIN ? (x < y ? x : y) : x + y;
}

/* The sum over a block's threads of an amount that each has, in a fixed order; for all of them. */
template <class A> static __device__ __forceinline__ A rt_over_block(A mine, int kind) {
	LK_SHARED(A, all);
	__syncthreads();
	all[threadIdx.x] = mine;
	for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
			all[threadIdx.x] = rt_both(all[threadIdx.x], all[threadIdx.x + half], kind);
	}
	__syncthreads();
	return all[0];
}

/* Result o, from the sums of its tasks. */
template <int F, class A>
static __device__ void rt_finish_one(char *to, const A *sums, int64_t o, int64_t splits, int kind,
                                     double elements) {
	A sum = sums[o * splits];
	for (int64_t s = 1; s < splits; s++) sum = rt_both(sum, sums[o * splits + s], kind);
	if (kind == RT_NORM) sum = (A)sqrt((double)sum);
	if (kind == RT_MEAN) sum = (A)((double)sum / elements);
	((typename rt_of<F>::in_memory *)to)[o] = rt_of<F>::store((typename rt_of<F>::in_register)sum);
}
template <int F, class A>
static __global__ void rt_finish_kernel(char *to, const A *sums, int64_t outs, int64_t splits,
                                        int kind, double elements) {
	RT_FOR(o, outs) rt_finish_one<F>(to, sums, o, splits, kind, elements);
}
template <int F, class A>
static void rt_finish(rt_run *run, const rt_part *to, const A *sums, const rt_tasks &t, int kind,
                      double elements) {
	RT_RUN((rt_finish_kernel<F, A>), t.outs, to->data, sums, t.outs, t.splits, kind, elements);
}
/* Elements of the whole tensor that go into one result. */
static double rt_reduced_elements(const rt_part *p, int dims) {
	double n = 1;
	for (int d = 0; d < p->rank; d++)
		if (dims >> d & 1) n *= (double)p->whole[d];
	return n;
}

/* ---- passes over the tensors of a list: one launch for all ---- */

/* Where a reduction of one tensor goes, and how many elements it is over. */
typedef struct rt_sums {
	char *to;
	double elements;
} rt_sums;

/* What a block does at a time: tiles `tile.begin` to `tile.begin + tile.count - 1` are those of one
 * tensor, whose threads go over its elements together. A is a kernel's struct of arguments. */
typedef struct rt_tiles {
	int64_t begin, count;
} rt_tiles;
template <class A> struct rt_list {
	const A *args;
	int64_t items, tiles;
	/* The tensor of a tile. */
	__device__ int64_t item(int64_t tile) const {
		int64_t low = 0, high = items - 1;
		while (low < high) {
			int64_t middle = (low + high + 1) / 2;
			if (args[middle].tile.begin <= tile) low = middle;
			else high = middle - 1;
		}
		return low;
	}
};
#define RT_TILE_FIRST ((tile - a.tile.begin) * blockDim.x + threadIdx.x)
#define RT_TILE_STEP  (a.tile.count * blockDim.x)

/* Tiles of so many elements: sixteen for each thread. */
static int64_t rt_tiles_of(int64_t count) {
	return (count + 16 * RT_THREADS - 1) / (16 * RT_THREADS);
}
/* Lays the tiles of all tensors behind one another; returns how many there are. */
template <class A> static int64_t rt_lay_tiles(A *args, int64_t items) {
	int64_t tiles = 0;
	for (int64_t i = 0; i < items; tiles += args[i++].tile.count) args[i].tile.begin = tiles;
	return tiles;
}
template <class A> static A *rt_list_new(rt_run *run, int64_t items) {
	A *args = (A *)calloc((size_t)items, sizeof *args);
	if (!args) rt_fail(run, "a list", "out of memory", __LINE__);
	return args;
}

/* Arguments on the device, which a step's kernel number `number` finds there: copied only where
 * they differ from those of the last time. */
template <class A>
static rt_list<A> rt_list_keep(rt_run *run, void (*step)(rt_run *), int number, const A *args,
                               int64_t items, int64_t tiles) {
	size_t bytes = (size_t)items * sizeof *args;
	rt_kept **at = &run->kept, *kept;
	while (*at && ((*at)->step != step || (*at)->number != number)) at = &(*at)->next;
	if (!*at) {
		*at = (rt_kept *)calloc(1, sizeof **at + bytes);
		if (!*at) {
			rt_fail(run, "a list", "out of memory", __LINE__);
			return {NULL, 0, 0};
		}
		(*at)->step = step, (*at)->number = number;
		RT_CUDA(cudaMalloc((void **)&(*at)->device, bytes));
	}
	kept = *at;
	if (memcmp(kept->host, args, bytes) != 0) {
		memcpy(kept->host, args, bytes);
		RT_CUDA(
			cudaMemcpyAsync(kept->device, kept->host, bytes, cudaMemcpyHostToDevice, run->stream));
	}
	return {(const A *)kept->device, items, tiles};
}
#define RT_RUN_LIST(kernel, blocks, list)                                               \
	do {                                                                                \
		int64_t blocks_ = (blocks);                                                     \
		if (blocks_ > 0) {                                                              \
			LK_LAUNCH_BLOCK(kernel, (int)(blocks_ < 4096 ? blocks_ : 4096), RT_THREADS, \
			                RT_THREADS * sizeof(double), run->stream, list);            \
		}                                                                               \
		RT_CUDA(cudaPeekAtLastError());                                                 \
	} while (0)
