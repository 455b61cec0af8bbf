/* ---- formats as types ---- */

/* A format's type in memory and in registers. */
template <int F> struct rt_of;
#define RT_FORMAT(format, memory, reg, get, put) \
	template <> struct rt_of<format> {           \
		typedef memory in_memory;                \
		typedef reg in_register;                 \
		RT_IN_CLASS reg load(memory x) {         \
			return get(x);                       \
		}                                        \
		RT_IN_CLASS memory store(reg x) {        \
			return put(x);                       \
		}                                        \
	};
#define RT_IN_CLASS static __host__ __device__ __forceinline__
RT_FORMAT(RT_F64, double, double, , )
RT_FORMAT(RT_F32, float, float, , )
RT_FORMAT(RT_F16, uint16_t, float, rt_from_f16, rt_to_f16)
RT_FORMAT(RT_BF16, uint16_t, float, rt_from_bf16, rt_to_bf16)
RT_FORMAT(RT_F8, uint8_t, float, rt_from_f8, rt_to_f8)
RT_FORMAT(RT_I64, int64_t, int64_t, , )
RT_FORMAT(RT_I32, int32_t, int64_t, , (int32_t))
RT_FORMAT(RT_I16, int16_t, int64_t, , (int16_t))
RT_FORMAT(RT_I8, int8_t, int64_t, , (int8_t))
RT_FORMAT(RT_U64, uint64_t, uint64_t, , )
RT_FORMAT(RT_U32, uint32_t, int64_t, , (uint32_t))
RT_FORMAT(RT_U16, uint16_t, int64_t, , (uint16_t))
RT_FORMAT(RT_U8, uint8_t, int64_t, , (uint8_t))
RT_FORMAT(RT_BOOL, uint8_t, int64_t, , (uint8_t))
#undef RT_FORMAT
/* The formats of this program: kernels of others are not compiled. One that is not there is another
 * name for RT_USED_ONE, which is. */
#ifndef RT_USED
#define RT_USED     ~0u
#define RT_USED_ONE RT_F32
#endif
#define RT_THERE(format) (RT_USED >> (format)&1 ? (format) : RT_USED_ONE)
#define RT_ANY(a, b, c, d, e)                                                        \
	(RT_USED >> (a)&1 || RT_USED >> (b)&1 || RT_USED >> (c)&1 || RT_USED >> (d)&1 || \
	 RT_USED >> (e)&1)
template <bool there, class T, class Other> struct rt_either { typedef T type; };
template <class T, class Other> struct rt_either<false, T, Other> { typedef Other type; };
/* What is only copied goes by its bytes. */
typedef rt_either<RT_ANY(RT_I8, RT_U8, RT_BOOL, RT_F8, RT_F8), uint8_t, uint32_t>::type rt_bytes1;
typedef rt_either<RT_ANY(RT_F16, RT_BF16, RT_I16, RT_U16, RT_U16), uint16_t, uint32_t>::type
	rt_bytes2;
typedef rt_either<RT_ANY(RT_F64, RT_I64, RT_U64, RT_U64, RT_U64), uint64_t, uint32_t>::type
	rt_bytes8;
/* Indices. */
typedef rt_either<RT_ANY(RT_I32, RT_I32, RT_I32, RT_I32, RT_I32), int32_t, int64_t>::type
	rt_index_i32;
typedef rt_either<RT_ANY(RT_I16, RT_I16, RT_I16, RT_I16, RT_I16), int16_t, int64_t>::type
	rt_index_i16;
typedef rt_either<RT_ANY(RT_I8, RT_I8, RT_I8, RT_I8, RT_I8), int8_t, int64_t>::type rt_index_i8;
typedef rt_either<RT_ANY(RT_U32, RT_U32, RT_U32, RT_U32, RT_U32), uint32_t, int64_t>::type
	rt_index_u32;
typedef rt_either<RT_ANY(RT_U16, RT_U16, RT_U16, RT_U16, RT_U16), uint16_t, int64_t>::type
	rt_index_u16;
typedef rt_either<RT_ANY(RT_U8, RT_U8, RT_U8, RT_BOOL, RT_BOOL), uint8_t, int64_t>::type
	rt_index_u8;
/* Calls function<F>(...) for a format that is known when it runs. */
#define RT_SWITCH(format, function, ...)                           \
	switch (format) {                                              \
	case RT_F64: function<RT_THERE(RT_F64)>(__VA_ARGS__); break;   \
	case RT_F32: function<RT_THERE(RT_F32)>(__VA_ARGS__); break;   \
	case RT_F16: function<RT_THERE(RT_F16)>(__VA_ARGS__); break;   \
	case RT_BF16: function<RT_THERE(RT_BF16)>(__VA_ARGS__); break; \
	case RT_F8: function<RT_THERE(RT_F8)>(__VA_ARGS__); break;     \
	case RT_I64: function<RT_THERE(RT_I64)>(__VA_ARGS__); break;   \
	case RT_I32: function<RT_THERE(RT_I32)>(__VA_ARGS__); break;   \
	case RT_I16: function<RT_THERE(RT_I16)>(__VA_ARGS__); break;   \
	case RT_I8: function<RT_THERE(RT_I8)>(__VA_ARGS__); break;     \
	case RT_U64: function<RT_THERE(RT_U64)>(__VA_ARGS__); break;   \
	case RT_U32: function<RT_THERE(RT_U32)>(__VA_ARGS__); break;   \
	case RT_U16: function<RT_THERE(RT_U16)>(__VA_ARGS__); break;   \
	case RT_U8: function<RT_THERE(RT_U8)>(__VA_ARGS__); break;     \
	default: function<RT_THERE(RT_BOOL)>(__VA_ARGS__); break;      \
	}

/* ---- a run, its errors ---- */

enum { RT_SUM, RT_MAX, RT_MIN, RT_MEAN, RT_NORM };

/* Arguments of a kernel over a list, and their copy on the device. */
typedef struct rt_kept {
	struct rt_kept *next;
	void (*step)(rt_run *run);
	int number;
	char *device, host[];
} rt_kept;

struct rt_ring;
struct rt_run {
	const rt_program *program;
	const rt_schedule *schedule;
	const rt_sizes *sizes;
	rt_mesh mesh;
	rt_part **part; /* [values][items] */
	char *memory;   /* of all values of their own */
	size_t bytes;
	/* where work goes now; the two that it may go to */
	cudaStream_t stream, main_stream, side_stream;
	cudaEvent_t fork;
	cublasLtHandle_t blas;
	char *workspace[2];   /* of cuBLASLt, one for each stream */
	rt_kept *kept;        /* a list */
	struct rt_ring *ring; /* how kernels reach the memory of others; NULL: they do not */
	bool library;         /* called from another program: errors are returned, not the end */
	char error[RT_ERROR]; /* the first one */
};

static void rt_fail(rt_run *run, const char *what, const char *why, int line) {
	if (run->error[0]) return;
	snprintf(run->error, sizeof run->error, "%s: %s (line %d)", what, why, line);
	if (run->library) return;
	fprintf(stderr, "%s: rank %d: %s\n", run->program->name, run->mesh.rank, run->error);
	exit(1);
}
#define RT_CUDA(call)                                                                 \
	do {                                                                              \
		cudaError_t e_ = (call);                                                      \
		if (e_ != cudaSuccess) rt_fail(run, #call, cudaGetErrorString(e_), __LINE__); \
	} while (0)
#define RT_NCCL(call)                                                                 \
	do {                                                                              \
		ncclResult_t e_ = (call);                                                     \
		if (e_ != ncclSuccess) rt_fail(run, #call, ncclGetErrorString(e_), __LINE__); \
	} while (0)
#define RT_BLAS(call)                                                   \
	do {                                                                \
		cublasStatus_t e_ = (call);                                     \
		if (e_ != CUBLAS_STATUS_SUCCESS)                                \
			rt_fail(run, #call, cublasLtGetStatusString(e_), __LINE__); \
	} while (0)
#define RT_RUN(kernel, n, ...)                                                        \
	do {                                                                              \
		if ((n) > 0) {                                                                \
			LK_LAUNCH(kernel, rt_blocks(n), RT_THREADS, 0, run->stream, __VA_ARGS__); \
		}                                                                             \
		RT_CUDA(cudaPeekAtLastError());                                               \
	} while (0)

/* The slice that an element is in. */
RT_BOTH int64_t rt_slice_of(int64_t n, int64_t ranks, int64_t i) {
	int64_t less = n / ranks, more = n % ranks, longer = more * (less + 1);
	return i < longer ? i / (less + 1) : more + (i - longer) / less;
}
/* Blocks of a loop over n elements: enough to fill any device several times over. */
static int rt_blocks(int64_t n) {
	int64_t b = (n + RT_THREADS - 1) / RT_THREADS;
	return (int)(b < 4096 ? b : 4096);
}
#define RT_FOR(i, n)                                                 \
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, \
	             i##_step = (int64_t)gridDim.x * blockDim.x;         \
	     i < (n); i += i##_step)

static void *rt_scratch(rt_run *run, int64_t bytes) {
	void *p = NULL;
	RT_CUDA(cudaMallocAsync(&p, (size_t)(bytes > 0 ? bytes : 1), run->stream));
	return p;
}
static void rt_release(rt_run *run, void *p) {
	RT_CUDA(cudaFreeAsync(p, run->stream));
}

/* ---- two streams ---- */

/* What is on the other stream so far comes before what goes to this one next. */
static void rt_follow(rt_run *run, cudaStream_t after, cudaStream_t stream) {
	RT_CUDA(cudaEventRecord(run->fork, after));
	RT_CUDA(cudaStreamWaitEvent(stream, run->fork, 0));
}
static void rt_fork(rt_run *run) {
	rt_follow(run, run->main_stream, run->side_stream);
}
static void rt_on(rt_run *run, cudaStream_t stream, bool waits) {
	if (waits)
		rt_follow(run, stream == run->main_stream ? run->side_stream : run->main_stream, stream);
	run->stream = stream;
}
static void rt_join_streams(rt_run *run) {
	rt_follow(run, run->side_stream, run->main_stream);
	run->stream = run->main_stream;
}
