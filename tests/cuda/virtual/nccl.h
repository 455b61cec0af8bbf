/* nccl.h: the NCCL calls of generated programs, for ranks that are threads of one process on one device. Tests only.
 *
 * NCCL refuses two ranks on one GPU. Here a collective is: every rank records that its operand is ready, the threads
 * meet, every rank's stream waits for all of them, copies or reduces out of the others' memory (in the order of ranks,
 * rounded after each addition), and writes its result when all have read. It needs streams, events and kernels, of a GPU
 * or of the stand-in for the CPU. Calls that do not match between ranks end the program.
 */
#ifndef LK_VIRTUAL_NCCL_H
#define LK_VIRTUAL_NCCL_H

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <vector>
#include <cstdio>
#include <cstdlib>
#include <cstdint>

#define NCCL_VERSION_CODE 22809
#define NCCL_VERSION(x, y, z) ((x) * 10000 + (y) * 100 + (z))
#define NCCL_SPLIT_NOCOLOR (-1)

enum ncclResult_t { ncclSuccess, ncclUnhandledCudaError, ncclSystemError, ncclInternalError, ncclInvalidArgument, ncclInvalidUsage };
enum ncclDataType_t { ncclInt8, ncclUint8, ncclInt32, ncclUint32, ncclInt64, ncclUint64, ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16 };
enum ncclRedOp_t { ncclSum, ncclProd, ncclMax, ncclMin };
struct ncclUniqueId { char internal[128]; };
struct ncclConfig_t { int none; };

enum { LKV_RANKS = 16 };
enum lkv_kind { LKV_ALL_REDUCE, LKV_REDUCE_SCATTER, LKV_ALL_GATHER, LKV_BROADCAST, LKV_REDUCE, LKV_SEND, LKV_RECV };
struct lkv_team;
struct lkv_comm { lkv_team *team; int rank; };
typedef lkv_comm *ncclComm_t;
struct lkv_call {
	lkv_kind kind;
	const void *send;
	void *recv;
	size_t count;
	ncclDataType_t type;
	ncclRedOp_t op;
	int peer;
	ncclComm_t comm;
	cudaStream_t stream;
};
struct lkv_post {         /* of a rank at a collective, or of a message */
	lkv_call call;
	cudaEvent_t ready, over;
	bool taken;
	int color, key;
	lkv_team *child;
};
struct lkv_team {
	int ranks, here = 0;
	unsigned round = 0;
	std::mutex lock;
	std::condition_variable change;
	lkv_post at[LKV_RANKS];
	std::deque<lkv_post *> mail[LKV_RANKS][LKV_RANKS]; /* from, to */
	explicit lkv_team(int n) : ranks(n) {}
	void meet() {
		std::unique_lock<std::mutex> hold(lock);
		unsigned mine = round;
		if (++here == ranks) { here = 0, round++; change.notify_all(); return; }
		change.wait(hold, [&] { return round != mine; });
	}
};

inline void lkv_stop(const char *what) { fprintf(stderr, "virtual NCCL: %s\n", what); abort(); }
inline void lkv_cuda(cudaError_t e) { if (e != cudaSuccess) lkv_stop(cudaGetErrorString(e)); }
inline const char *ncclGetErrorString(ncclResult_t r) { return r ? "error" : "no error"; }

/* ---- numbers ---- */
inline size_t lkv_bytes(ncclDataType_t t) {
	static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
	return bytes[t];
}
template <class T> __device__ inline T lkv_same(T x) { return x; }
__device__ inline float lkv_wide(__half x) { return __half2float(x); }
__device__ inline float lkv_wide(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T> __device__ inline T lkv_wide(T x) { return x; }
__device__ inline void lkv_narrow(__half *to, float x) { *to = __float2half_rn(x); }
__device__ inline void lkv_narrow(__nv_bfloat16 *to, float x) { *to = __float2bfloat16_rn(x); }
template <class T> __device__ inline void lkv_narrow(T *to, T x) { *to = x; }

struct lkv_sources { const void *at[LKV_RANKS]; int count; };
template <class T> __global__ void lkv_reduce(T *out, lkv_sources from, size_t count, int op) {
	size_t step = (size_t)gridDim.x * blockDim.x;
	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
		T sum = ((const T *)from.at[0])[i];
		for (int p = 1; p < from.count; p++) {
			auto a = lkv_wide(sum), b = lkv_wide(((const T *)from.at[p])[i]);
			lkv_narrow(&sum, op == ncclMax ? (a > b ? a : b) : op == ncclMin ? (a < b ? a : b) : (decltype(a))(a + b));
		}
		out[i] = sum;
	}
}
inline void lkv_reduce_on(cudaStream_t stream, void *out, lkv_sources from, size_t count, ncclDataType_t type, int op) {
	if (!count) return;
	switch (type) {
#define LKV_TYPE(name, T) case name: LK_LAUNCH(lkv_reduce<T>, 4, 64, 0, stream, (T *)out, from, count, op); break;
	LKV_TYPE(ncclInt8, int8_t) LKV_TYPE(ncclUint8, uint8_t) LKV_TYPE(ncclInt32, int32_t) LKV_TYPE(ncclUint32, uint32_t)
	LKV_TYPE(ncclInt64, int64_t) LKV_TYPE(ncclUint64, uint64_t) LKV_TYPE(ncclFloat16, __half)
	LKV_TYPE(ncclFloat32, float) LKV_TYPE(ncclFloat64, double) LKV_TYPE(ncclBfloat16, __nv_bfloat16)
#undef LKV_TYPE
	}
}

/* ---- collectives ---- */
inline cudaEvent_t lkv_mark(cudaStream_t stream) {
	cudaEvent_t e;
	lkv_cuda(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
	lkv_cuda(cudaEventRecord(e, stream));
	return e;
}

inline void lkv_same_call(const lkv_call *a, const lkv_call *b) {
	if (a->kind != b->kind || a->count != b->count || a->type != b->type || a->op != b->op || a->peer != b->peer)
		lkv_stop("ranks disagree about a collective");
}

inline void lkv_read_all(lkv_team *team, const lkv_call *c, int rank, char *out) {
	size_t bytes = c->count * lkv_bytes(c->type);
	lkv_sources from;
	from.count = team->ranks;
	for (int p = 0; p < team->ranks; p++) {
		const char *x = (const char *)team->at[p].call.send;
		from.at[p] = c->kind == LKV_REDUCE_SCATTER ? x + (size_t)rank * bytes : x;
		if (c->kind == LKV_ALL_GATHER) lkv_cuda(cudaMemcpyAsync(out + (size_t)p * bytes, x, bytes, cudaMemcpyDeviceToDevice, c->stream));
		if (c->kind == LKV_BROADCAST && p == c->peer) lkv_cuda(cudaMemcpyAsync(out, x, bytes, cudaMemcpyDeviceToDevice, c->stream));
	}
	if (c->kind == LKV_ALL_REDUCE || c->kind == LKV_REDUCE_SCATTER || (c->kind == LKV_REDUCE && rank == c->peer))
		lkv_reduce_on(c->stream, out, from, c->count, c->type, c->op);
}

inline void lkv_collective(const lkv_call *c) {
	lkv_team *team = c->comm->team;
	int rank = c->comm->rank;
	size_t bytes = c->count * lkv_bytes(c->type) * (size_t)(c->kind == LKV_ALL_GATHER ? team->ranks : 1);
	char *out;
	team->at[rank].call = *c, team->at[rank].ready = lkv_mark(c->stream);
	team->meet();
	for (int p = 0; p < team->ranks; p++) {
		lkv_same_call(c, &team->at[p].call);
		lkv_cuda(cudaStreamWaitEvent(c->stream, team->at[p].ready, 0));
	}
	lkv_cuda(cudaMallocAsync(&out, bytes + 1, c->stream));
	lkv_read_all(team, c, rank, out);
	team->at[rank].over = lkv_mark(c->stream);
	team->meet();
	for (int p = 0; p < team->ranks; p++) lkv_cuda(cudaStreamWaitEvent(c->stream, team->at[p].over, 0));
	if (c->kind != LKV_REDUCE || rank == c->peer)
		lkv_cuda(cudaMemcpyAsync(c->recv, out, bytes, cudaMemcpyDeviceToDevice, c->stream));
	lkv_cuda(cudaFreeAsync(out, c->stream));
	team->meet();
	lkv_cuda(cudaEventDestroy(team->at[rank].ready));
	lkv_cuda(cudaEventDestroy(team->at[rank].over));
}

/* ---- messages ---- */
inline lkv_post *lkv_post_send(const lkv_call *c) {
	lkv_team *team = c->comm->team;
	lkv_post *post = new lkv_post();
	post->call = *c, post->ready = lkv_mark(c->stream), post->taken = false;
	std::lock_guard<std::mutex> hold(team->lock);
	team->mail[c->comm->rank][c->peer].push_back(post);
	team->change.notify_all();
	return post;
}
inline void lkv_receive(const lkv_call *c) {
	lkv_team *team = c->comm->team;
	std::deque<lkv_post *> *mail = &team->mail[c->peer][c->comm->rank];
	std::unique_lock<std::mutex> hold(team->lock);
	team->change.wait(hold, [&] { return !mail->empty(); });
	lkv_post *post = mail->front();
	mail->pop_front();
	if (post->call.count != c->count || post->call.type != c->type) lkv_stop("a message is of another size than was sent");
	lkv_cuda(cudaStreamWaitEvent(c->stream, post->ready, 0));
	lkv_cuda(cudaMemcpyAsync(c->recv, post->call.send, c->count * lkv_bytes(c->type), cudaMemcpyDeviceToDevice, c->stream));
	post->over = lkv_mark(c->stream), post->taken = true;
	team->change.notify_all();
}
inline void lkv_sent(lkv_post *post) {
	lkv_team *team = post->call.comm->team;
	std::unique_lock<std::mutex> hold(team->lock);
	team->change.wait(hold, [&] { return post->taken; });
	lkv_cuda(cudaStreamWaitEvent(post->call.stream, post->over, 0));
	lkv_cuda(cudaEventDestroy(post->ready));
	lkv_cuda(cudaEventDestroy(post->over));
	delete post;
}

/* ---- groups ---- */
struct lkv_group { int depth = 0; std::vector<lkv_call> calls; };
inline lkv_group *lkv_mine() { static thread_local lkv_group g; return &g; }
inline ncclResult_t ncclGroupStart() { lkv_mine()->depth++; return ncclSuccess; }
inline void lkv_run(const std::vector<lkv_call> &calls) {
	std::vector<lkv_post *> sent;
	for (const lkv_call &c : calls) if (c.kind == LKV_SEND) sent.push_back(lkv_post_send(&c));
	for (const lkv_call &c : calls) if (c.kind == LKV_RECV) lkv_receive(&c);
	for (const lkv_call &c : calls) if (c.kind < LKV_SEND) lkv_collective(&c);
	for (lkv_post *post : sent) lkv_sent(post);
}
inline ncclResult_t ncclGroupEnd() {
	lkv_group *g = lkv_mine();
	if (--g->depth) return ncclSuccess;
	std::vector<lkv_call> calls;
	calls.swap(g->calls);
	lkv_run(calls);
	return ncclSuccess;
}
inline ncclResult_t lkv_issue(lkv_call c) {
	if (lkv_mine()->depth) lkv_mine()->calls.push_back(c);
	else lkv_run({c});
	return ncclSuccess;
}

inline ncclResult_t ncclAllReduce(const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c, cudaStream_t q) {
	return lkv_issue({LKV_ALL_REDUCE, s, r, n, t, op, 0, c, q});
}
inline ncclResult_t ncclReduceScatter(const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c, cudaStream_t q) {
	return lkv_issue({LKV_REDUCE_SCATTER, s, r, n, t, op, 0, c, q});
}
inline ncclResult_t ncclAllGather(const void *s, void *r, size_t n, ncclDataType_t t, ncclComm_t c, cudaStream_t q) {
	return lkv_issue({LKV_ALL_GATHER, s, r, n, t, ncclSum, 0, c, q});
}
inline ncclResult_t ncclBroadcast(const void *s, void *r, size_t n, ncclDataType_t t, int root, ncclComm_t c, cudaStream_t q) {
	return lkv_issue({LKV_BROADCAST, s, r, n, t, ncclSum, root, c, q});
}
inline ncclResult_t ncclReduce(const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t q) {
	return lkv_issue({LKV_REDUCE, s, r, n, t, op, root, c, q});
}
inline ncclResult_t ncclSend(const void *s, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t q) {
	return lkv_issue({LKV_SEND, s, NULL, n, t, ncclSum, peer, c, q});
}
inline ncclResult_t ncclRecv(void *r, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t q) {
	return lkv_issue({LKV_RECV, NULL, r, n, t, ncclSum, peer, c, q});
}

/* ---- communicators ---- */
inline ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
	static int next;
	*id = ncclUniqueId();
	*(int *)id->internal = ++next;
	return ncclSuccess;
}
inline ncclResult_t ncclCommInitRank(ncclComm_t *out, int ranks, ncclUniqueId id, int rank) {
	static std::mutex lock;
	static std::map<int, lkv_team *> teams;
	if (ranks < 1 || ranks > LKV_RANKS || rank < 0 || rank >= ranks) return ncclInvalidArgument;
	lkv_team *team;
	{
		std::lock_guard<std::mutex> hold(lock);
		lkv_team **t = &teams[*(int *)id.internal];
		if (!*t) *t = new lkv_team(ranks);
		team = *t;
	}
	*out = new lkv_comm{team, rank};
	team->meet();
	return ncclSuccess;
}
inline ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *) {
	lkv_team *team = comm->team;
	lkv_post *mine = &team->at[comm->rank];
	mine->color = color, mine->key = key, mine->child = NULL;
	team->meet();
	int rank = 0, ranks = 0, leader = -1;
	for (int p = 0; p < team->ranks; p++) {
		if (team->at[p].color != color) continue;
		if (leader < 0) leader = p;
		ranks++;
		rank += team->at[p].key < key || (team->at[p].key == key && p < comm->rank);
	}
	if (leader == comm->rank) mine->child = new lkv_team(ranks);
	team->meet();
	*out = color == NCCL_SPLIT_NOCOLOR ? NULL : new lkv_comm{team->at[leader].child, rank};
	team->meet();
	return ncclSuccess;
}
/* The last rank to leave frees the team. */
inline ncclResult_t ncclCommDestroy(ncclComm_t c) {
	bool last;
	{
		std::lock_guard<std::mutex> hold(c->team->lock);
		last = ++c->team->here == c->team->ranks;
	}
	if (last) delete c->team;
	delete c;
	return ncclSuccess;
}
inline ncclResult_t ncclCommCount(ncclComm_t c, int *n) { *n = c->team->ranks; return ncclSuccess; }
inline ncclResult_t ncclCommUserRank(ncclComm_t c, int *r) { *r = c->rank; return ncclSuccess; }
inline ncclResult_t ncclMemAlloc(void **p, size_t n) { return cudaMalloc(p, n) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError; }
inline ncclResult_t ncclMemFree(void *p) { return cudaFree(p) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError; }
#endif
