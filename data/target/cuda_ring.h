/* ---- kernels that reach the memory of other ranks ---- */

#include <condition_variable>
#include <mutex>

/* How they do: the same kernels by NCCL's collectives beside them (host), by pointers, by NCCL's
 * windows. */
enum rt_backend { RT_HOST, RT_POINTERS, RT_WINDOWS };
enum { RT_SHARED_PARTS = 16 };
#ifndef RT_RING_BLOCKS
/* For each rank: eight virtual ranks still fit on one device, as one cooperative launch must. */
#define RT_RING_BLOCKS 16
#endif

/* Threads of one process that meet: the ranks along one axis. */
struct rt_team {
	std::mutex lock;
	std::condition_variable all;
	int size, here = 0;
	unsigned round = 0;
	explicit rt_team(int n) : size(n) {}
};
static void rt_meet(rt_team *t) {
	std::unique_lock<std::mutex> hold(t->lock);
	unsigned mine = t->round;
	if (++t->here == t->size) {
		t->here = 0, t->round++;
		t->all.notify_all();
	} else t->all.wait(hold, [&] { return t->round != mine; });
}

typedef struct rt_ring {
	enum rt_backend backend;
	bool virtual_ranks;       /* of one device: one launch for all */
	rt_team *team[4];         /* [axis] */
	struct rt_run **peers[4]; /* [axis][rank along it] */
	/* [axis] in device memory, [blocks][ranks]: how far the other ranks' blocks are */
	unsigned *flags[4];
	unsigned epoch[4];       /* barriers so far */
	cudaEvent_t ready, over; /* virtual ranks */
	const void *arguments[4];
	struct rt_windows *windows;
} rt_ring;

/* Pointers: of ranks on devices that see each other's memory, or of virtual ranks, which a launch
 * has all of. */
struct rt_pointers {
	char *const *buffer;   /* [ranks][buffers] */
	unsigned *const *flag; /* [ranks] */
	int ranks, rank, buffers, blocks, block, place;
	unsigned epoch;
	bool virtual_ranks;

	__device__ void start() {
		blocks = virtual_ranks ? gridDim.x / ranks : gridDim.x;
		block = blockIdx.x % blocks;
		if (virtual_ranks) rank = place = blockIdx.x / blocks;
		else place = 0;
	}
	template <class T> __device__ T *peer(int p, int b) const {
		return (T *)buffer[p * buffers + b];
	}
	__device__ int64_t first() const { return (int64_t)block * blockDim.x + threadIdx.x; }
	__device__ int64_t step() const { return (int64_t)blocks * blockDim.x; }
	/* Block b of every rank tells block b of the others, and waits for them. What was written
	 * before is seen behind. */
	__device__ void barrier() {
		epoch++;
		__syncthreads();
		for (int p = threadIdx.x; p < ranks; p += blockDim.x) {
			if (p == rank) continue;
			cuda::atomic_ref<unsigned, cuda::thread_scope_system> there(
				flag[p][block * ranks + rank]),
				here(flag[rank][block * ranks + p]);
			there.store(epoch, cuda::memory_order_release);
			while ((int)(here.load(cuda::memory_order_acquire) - epoch) < 0) __nanosleep(20);
		}
		__syncthreads();
	}
};

/* NCCL's device API: windows of symmetric memory, barriers of load-store accessible ranks. */
#if !defined(RT_NO_DEVICE_API) && defined(__has_include)
#if __has_include(<nccl_device.h>) && NCCL_VERSION_CODE >= 22800
#include <nccl_device.h>
#define RT_DEVICE_API
#endif
#endif
#ifdef RT_DEVICE_API
typedef struct rt_windows {
	ncclDevComm comm[4]; /* [axis] */
	bool there[4];
	ncclWindow_t **window; /* [tensor][item], of what kernels share; NULL */
} rt_windows;
struct rt_by_windows {
	ncclDevComm comm;
	ncclWindow_t window[RT_SHARED_PARTS];
	int ranks, rank, place;

	__device__ void start() { place = 0; }
	template <class T> __device__ T *peer(int p, int b) const {
		return (T *)ncclGetLsaPointer(window[b], 0, p);
	}
	__device__ int64_t first() const { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
	__device__ int64_t step() const { return (int64_t)gridDim.x * blockDim.x; }
	__device__ void barrier() {
		ncclLsaBarrierSession<ncclCoopCta> all(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
		all.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
	}
};
#endif

/* An element of shared tensor b, reduced over the ranks: each begins with itself, so that not all
 * read the same memory. */
template <int F, class Access>
static __device__ __forceinline__ typename rt_of<F>::in_memory rt_join(const Access &access, int b,
                                                                       int64_t i, int reduce) {
	typedef typename rt_of<F>::in_memory T;
	auto sum = rt_of<F>::load(access.template peer<const T>(access.rank, b)[i]);
	for (int k = 1; k < access.ranks; k++) {
		int p = access.rank + k < access.ranks ? access.rank + k : access.rank + k - access.ranks;
		sum = rt_both(sum, rt_of<F>::load(access.template peer<const T>(p, b)[i]), reduce);
	}
	return rt_of<F>::store(sum);
}
template <int F, class Access>
static __device__ __forceinline__ rt_four<typename rt_of<F>::in_memory> rt_join_four(
	const Access &access, int b, int64_t i, int reduce) {
	typedef typename rt_of<F>::in_memory T;
	rt_four<T> x = rt_load(access.template peer<const T>(access.rank, b) + i);
	typename rt_of<F>::in_register sum[4];
	for (int l = 0; l < 4; l++) sum[l] = rt_of<F>::load(x.at[l]);
	for (int k = 1; k < access.ranks; k++) {
		int p = access.rank + k < access.ranks ? access.rank + k : access.rank + k - access.ranks;
		x = rt_load(access.template peer<const T>(p, b) + i);
		for (int l = 0; l < 4; l++) sum[l] = rt_both(sum[l], rt_of<F>::load(x.at[l]), reduce);
	}
	for (int l = 0; l < 4; l++) x.at[l] = rt_of<F>::store(sum[l]);
	return x;
}
/* An element of mine to shared tensor b of every rank. */
template <class T, class Access>
static __device__ __forceinline__ void rt_spread(const Access &access, int b, int64_t i, T x) {
	for (int k = 0; k < access.ranks; k++) {
		int p = access.rank + k < access.ranks ? access.rank + k : access.rank + k - access.ranks;
		access.template peer<T>(p, b)[i] = x;
	}
}
template <class T, class Access>
static __device__ __forceinline__ void rt_spread_four(const Access &access, int b, int64_t i,
                                                      rt_four<T> x) {
	for (int k = 0; k < access.ranks; k++) {
		int p = access.rank + k < access.ranks ? access.rank + k : access.rank + k - access.ranks;
		rt_store(access.template peer<T>(p, b) + i, x);
	}
}

/* A tensor whose memory the other ranks' kernels reach. */
typedef struct rt_shared_part {
	int tensor;
	int64_t item;
} rt_shared_part;

static bool rt_reaches(const rt_run *run, int axis) {
	return run->ring && run->ring->backend != RT_HOST && run->mesh.ranks[axis] > 1;
}

static char **rt_upload(rt_run *run, const void *from, size_t bytes) {
	void *to = rt_scratch(run, (int64_t)bytes);
	RT_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, run->stream));
	return (char **)to;
}

/* The table of pointers to what all ranks along an axis hold of the shared tensors, then of their
 * flags. */
static rt_pointers rt_pointers_of(rt_run *run, int axis, const rt_shared_part *shared, int count,
                                  char ***table) {
	int ranks = run->mesh.ranks[axis];
	char *host[RT_RANKS * (RT_SHARED_PARTS + 1)];
	for (int p = 0; p < ranks; p++) {
		const rt_run *peer = run->ring->peers[axis][p];
		for (int b = 0; b < count; b++)
			host[p * count + b] = peer->part[shared[b].tensor][shared[b].item].data;
		host[ranks * count + p] = (char *)peer->ring->flags[axis];
	}
	*table = rt_upload(run, host, sizeof *host * (size_t)(ranks * (count + 1)));
	rt_pointers a = {*table,
	                 (unsigned *const *)(*table + ranks * count),
	                 ranks,
	                 run->mesh.at[axis],
	                 count,
	                 0,
	                 0,
	                 0,
	                 run->ring->epoch[axis],
	                 run->ring->virtual_ranks};
	return a;
}

/* Virtual ranks: all hand their arguments to the first, who launches for all when all are ready. */
template <class A>
static void rt_launch_virtual(rt_run *run, int axis, void (*kernel)(const A *, rt_pointers),
                              const A *mine, const rt_shared_part *shared, int count) {
	rt_ring *ring = run->ring;
	int ranks = run->mesh.ranks[axis];
	ring->arguments[axis] = mine;
	RT_CUDA(cudaEventRecord(ring->ready, run->stream));
	rt_meet(ring->team[axis]);
	if (run->mesh.at[axis] == 0) {
		A all[RT_RANKS];
		char **table;
		for (int p = 0; p < ranks; p++) {
			all[p] = *(const A *)ring->peers[axis][p]->ring->arguments[axis];
			RT_CUDA(cudaStreamWaitEvent(run->stream, ring->peers[axis][p]->ring->ready, 0));
		}
		rt_pointers access = rt_pointers_of(run, axis, shared, count, &table);
		const A *sent = (const A *)rt_upload(run, all, sizeof *all * (size_t)ranks);
		RT_CUDA(LK_LAUNCH_ALL(kernel, ranks * RT_RING_BLOCKS, RT_THREADS, 0, run->stream, sent,
		                      access));
		rt_release(run, (void *)sent);
		rt_release(run, table);
		RT_CUDA(cudaEventRecord(ring->over, run->stream));
	}
	rt_meet(ring->team[axis]);
	RT_CUDA(cudaStreamWaitEvent(run->stream, ring->peers[axis][0]->ring->over, 0));
	rt_meet(ring->team[axis]);
}

/* Launches a kernel over the ranks along an axis, `barriers` of which it has. A: its arguments. */
template <class A>
static void rt_launch_pointers(rt_run *run, int axis, void (*kernel)(const A *, rt_pointers),
                               const A *mine, const rt_shared_part *shared, int count,
                               unsigned barriers) {
	if (run->ring->virtual_ranks) rt_launch_virtual(run, axis, kernel, mine, shared, count);
	else {
		char **table;
		rt_pointers access = rt_pointers_of(run, axis, shared, count, &table);
		const A *sent = (const A *)rt_upload(run, mine, sizeof *mine);
		LK_LAUNCH(kernel, RT_RING_BLOCKS, RT_THREADS, 0, run->stream, sent, access);
		RT_CUDA(cudaPeekAtLastError());
		rt_release(run, (void *)sent);
		rt_release(run, table);
	}
	run->ring->epoch[axis] += barriers;
}

#ifdef RT_DEVICE_API
template <class A>
static void rt_launch_windows(rt_run *run, int axis, void (*kernel)(const A *, rt_by_windows),
                              const A *mine, const rt_shared_part *shared, int count) {
	rt_by_windows access;
	access.comm = run->ring->windows->comm[axis];
	access.ranks = run->mesh.ranks[axis], access.rank = run->mesh.at[axis], access.place = 0;
	for (int b = 0; b < count; b++)
		access.window[b] = run->ring->windows->window[shared[b].tensor][shared[b].item];
	const A *sent = (const A *)rt_upload(run, mine, sizeof *mine);
	LK_LAUNCH(kernel, RT_RING_BLOCKS, RT_THREADS, 0, run->stream, sent, access);
	RT_CUDA(cudaPeekAtLastError());
	rt_release(run, (void *)sent);
}
#define RT_LAUNCH_RING(run, axis, kernel, mine, shared, count, barriers)           \
	do {                                                                           \
		if ((run)->ring->backend == RT_WINDOWS)                                    \
			rt_launch_windows(run, axis, kernel, mine, shared, count);             \
		else rt_launch_pointers(run, axis, kernel, mine, shared, count, barriers); \
	} while (0)
#else
#define RT_LAUNCH_RING(run, axis, kernel, mine, shared, count, barriers) \
	rt_launch_pointers(run, axis, kernel, mine, shared, count, barriers)
#endif
