/* cuda_runtime.h: the part of the CUDA runtime that generated programs use, on the CPU. Tests only.
 *
 * A stream is a host thread that works off a queue, so that work really runs late and side by side: a missing event is a
 * race that the thread sanitizer sees. A kernel without barriers runs its threads one after another; with barriers inside
 * blocks, the threads of one block at a time are host threads; in a cooperative launch all threads of the grid are.
 */
#ifndef LK_SHIM_CUDA_RUNTIME_H
#define LK_SHIM_CUDA_RUNTIME_H

#define LOCKSTEP_SHIM 1

#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <chrono>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct uint3 { unsigned x, y, z; };
struct dim3 {
	unsigned x, y, z;
	dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline thread_local uint3 threadIdx, blockIdx;
inline thread_local dim3 blockDim, gridDim;

enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorInvalidValue = 1, cudaErrorNotSupported = 801,
	cudaErrorPeerAccessAlreadyEnabled = 704 };
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount, cudaDevAttrCooperativeLaunch };
inline const char *cudaGetErrorString(cudaError_t e) { return e ? "error of the CPU stand-in" : "no error"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaPeekAtLastError() { return cudaSuccess; }

/* ---- host threads that meet ---- */
struct lk_shim_barrier {
	std::mutex lock;
	std::condition_variable all;
	int size, here = 0;
	unsigned round = 0;
	explicit lk_shim_barrier(int n) : size(n) {}
	void meet() {
		std::unique_lock<std::mutex> hold(lock);
		unsigned mine = round;
		if (++here == size) { here = 0, round++; all.notify_all(); return; }
		all.wait(hold, [&] { return round != mine; });
	}
};
inline thread_local lk_shim_barrier *lk_shim_block, *lk_shim_grid; /* of the running kernel thread; NULL: none allowed */
inline thread_local unsigned char *lk_shim_shared;

inline void __syncthreads() {
	if (!lk_shim_block) { fprintf(stderr, "shim: barrier in a kernel launched without\n"); abort(); }
	lk_shim_block->meet();
}
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __nanosleep(unsigned) { std::this_thread::yield(); }

/* ---- streams and events ---- */
struct lk_shim_stream {
	std::mutex lock;
	std::condition_variable change;
	std::deque<std::function<void()>> work;
	bool busy = false, over = false;
	std::thread thread;

	lk_shim_stream() : thread([this] { run(); }) {}
	~lk_shim_stream() {
		{ std::lock_guard<std::mutex> hold(lock); over = true; }
		change.notify_all();
		thread.join();
	}
	void run() {
		std::unique_lock<std::mutex> hold(lock);
		for (;;) {
			change.wait(hold, [&] { return over || !work.empty(); });
			if (work.empty()) return;
			std::function<void()> f = std::move(work.front());
			work.pop_front();
			busy = true;
			hold.unlock();
			f();
			f = nullptr;
			hold.lock();
			busy = false;
			change.notify_all();
		}
	}
	void add(std::function<void()> f) {
		{ std::lock_guard<std::mutex> hold(lock); work.push_back(std::move(f)); }
		change.notify_all();
	}
	void drain() {
		std::unique_lock<std::mutex> hold(lock);
		change.wait(hold, [&] { return work.empty() && !busy; });
	}
};
typedef lk_shim_stream *cudaStream_t;

/* A record counts up `asked` when it is issued and `done` when the stream comes to it; who waits, waits for the count
 * that was asked for at that time. */
struct lk_shim_event_state {
	std::mutex lock;
	std::condition_variable change;
	unsigned asked = 0, done = 0;
	std::chrono::steady_clock::time_point time;
	void wait(unsigned n) {
		std::unique_lock<std::mutex> hold(lock);
		change.wait(hold, [&] { return done >= n; });
	}
};
struct lk_shim_event { std::shared_ptr<lk_shim_event_state> s = std::make_shared<lk_shim_event_state>(); };
typedef lk_shim_event *cudaEvent_t;

inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned, int) { *s = new lk_shim_stream; return cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned f) { return cudaStreamCreateWithPriority(s, f, 0); }
inline cudaError_t cudaStreamDestroy(cudaStream_t s) { delete s; return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t s) { s->drain(); return cudaSuccess; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned) { *e = new lk_shim_event; return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t *e) { return cudaEventCreateWithFlags(e, 0); }
inline cudaError_t cudaEventDestroy(cudaEvent_t e) { delete e; return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
	std::shared_ptr<lk_shim_event_state> state = e->s;
	{ std::lock_guard<std::mutex> hold(state->lock); state->asked++; }
	s->add([state] {
		std::lock_guard<std::mutex> hold(state->lock);
		state->done++;
		state->time = std::chrono::steady_clock::now();
		state->change.notify_all();
	});
	return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned = 0) {
	std::shared_ptr<lk_shim_event_state> state = e->s;
	unsigned n;
	{ std::lock_guard<std::mutex> hold(state->lock); n = state->asked; }
	s->add([state, n] { state->wait(n); });
	return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t e) {
	std::unique_lock<std::mutex> hold(e->s->lock);
	unsigned n = e->s->asked;
	hold.unlock();
	e->s->wait(n);
	return cudaSuccess;
}
inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) {
	*ms = std::chrono::duration<float, std::milli>(b->s->time - a->s->time).count();
	return cudaSuccess;
}

/* ---- memory ---- */
/* What was not written shows; the workspaces of products are large, and nobody reads them. */
enum { LK_SHIM_FILLED = 1 << 16 };
template <class T> cudaError_t cudaMalloc(T **p, size_t bytes) {
	*p = (T *)malloc(bytes ? bytes : 1);
	if (*p) memset((void *)*p, 0xA5, bytes < LK_SHIM_FILLED ? bytes : (size_t)LK_SHIM_FILLED);
	return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaFree(void *p) { free(p); return cudaSuccess; }
template <class T> cudaError_t cudaMallocAsync(T **p, size_t bytes, cudaStream_t) { return cudaMalloc(p, bytes); }
inline cudaError_t cudaFreeAsync(void *p, cudaStream_t s) { s->add([p] { free(p); }); return cudaSuccess; }
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s) {
	if (kind == cudaMemcpyHostToDevice) { /* from memory that may change after the call */
		auto copy = std::make_shared<std::vector<char>>((const char *)from, (const char *)from + bytes);
		s->add([=] { if (bytes) memcpy(to, copy->data(), bytes); });
	} else s->add([=] { if (bytes) memcpy(to, from, bytes); });
	return cudaSuccess;
}
inline cudaError_t cudaMemcpy2DAsync(void *to, size_t to_row, const void *from, size_t from_row, size_t bytes, size_t rows,
                                     cudaMemcpyKind, cudaStream_t s) {
	s->add([=] {
		for (size_t i = 0; i < rows; i++) memcpy((char *)to + i * to_row, (const char *)from + i * from_row, bytes);
	});
	return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t s) {
	s->add([=] { memset(to, value, bytes); });
	return cudaSuccess;
}

/* ---- devices: as many as are asked for, all of them this memory ---- */
inline cudaError_t cudaGetDeviceCount(int *n) { *n = 8; return cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) { *can = 1; return cudaSuccess; }
inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int *v, cudaDeviceAttr a, int) { *v = a == cudaDevAttrMultiProcessorCount ? 2 : 1; return cudaSuccess; }

/* ---- launches ---- */

/* What a kernel does for a thread. All kernels share the code below: only this class is compiled for each. */
struct lk_shim_body {
	virtual void run() = 0;
	virtual ~lk_shim_body() = default;
};
template <class F> struct lk_shim_body_of final : lk_shim_body {
	F body;
	explicit lk_shim_body_of(F f) : body(f) {}
	void run() override { body(); }
};

inline void lk_shim_threads(dim3 grid, dim3 block, unsigned blocks, unsigned first, size_t shared, lk_shim_body *body) {
	std::vector<std::thread> threads;
	lk_shim_barrier all((int)(blocks * block.x));
	std::vector<std::unique_ptr<lk_shim_barrier>> each;
	std::vector<std::vector<uint4>> memory(blocks, std::vector<uint4>(shared / 16 + 1));
	for (unsigned b = 0; b < blocks; b++) each.emplace_back(new lk_shim_barrier((int)block.x));
	for (unsigned b = 0; b < blocks; b++)
		for (unsigned t = 0; t < block.x; t++)
			threads.emplace_back([&, b, t] {
				gridDim = grid, blockDim = block;
				blockIdx = {(first + b) % grid.x, (first + b) / grid.x % grid.y, (first + b) / grid.x / grid.y}, threadIdx = {t, 0, 0};
				lk_shim_block = each[b].get(), lk_shim_grid = &all, lk_shim_shared = (unsigned char *)memory[b].data();
				body->run();
			});
	for (std::thread &t : threads) t.join();
}

inline void lk_shim_launch(dim3 grid, dim3 block, size_t shared, int barriers, lk_shim_body *body) {
	unsigned blocks = grid.x * grid.y * grid.z;
	if (barriers == 2) { lk_shim_threads(grid, block, blocks, 0, shared, body); return; }
	for (unsigned b = 0; b < blocks; b++) {
		if (barriers == 1) { lk_shim_threads(grid, block, 1, b, shared, body); continue; }
		for (unsigned t = 0; t < block.x; t++) {
			gridDim = grid, blockDim = block, threadIdx = {t, 0, 0};
			blockIdx = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
			lk_shim_block = NULL;
			body->run();
		}
	}
}

inline void lk_shim_add(dim3 grid, dim3 block, size_t shared, int barriers, cudaStream_t s, lk_shim_body *body) {
	std::shared_ptr<lk_shim_body> kept(body);
	s->add([=] { lk_shim_launch(grid, block, shared, barriers, kept.get()); });
}
template <class F> lk_shim_body *lk_shim_body_from(F body) { return new lk_shim_body_of<F>(body); }

/* Without barriers, with barriers of blocks, with barriers of the grid. Arguments are copied, as a launch does. */
#define LK_SHIM_LAUNCH(barriers, kernel, grid, block, shared, stream, ...) \
	lk_shim_enqueue(dim3(grid), dim3(block), shared, barriers, stream, kernel, __VA_ARGS__)
template <class K, class... A>
void lk_shim_enqueue(dim3 grid, dim3 block, size_t shared, int barriers, cudaStream_t s, K kernel, A... args) {
	lk_shim_add(grid, block, shared, barriers, s, lk_shim_body_from([=] { kernel(args...); }));
}
#define LK_LAUNCH(kernel, grid, block, shared, stream, ...) LK_SHIM_LAUNCH(0, (kernel), grid, block, shared, stream, __VA_ARGS__)
#define LK_LAUNCH_BLOCK(kernel, grid, block, shared, stream, ...) LK_SHIM_LAUNCH(1, (kernel), grid, block, shared, stream, __VA_ARGS__)
#define LK_LAUNCH_ALL(kernel, grid, block, shared, stream, ...) \
	(LK_SHIM_LAUNCH(2, (kernel), grid, block, shared, stream, __VA_ARGS__), cudaSuccess)
#define LK_SHARED(type, name) type *name = (type *)lk_shim_shared

#endif
