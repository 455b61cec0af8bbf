/* library.cc: an emitted program (SGD) called from another one: three ranks, memory of the caller's, against numbers by hand.
 */
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <string.h>
#include <thread>
#include <vector>
#include "sgd.h"

enum { RANKS = 3, N = 10 };
static int wrong[RANKS];

/* g is rank + 1 everywhere, so that the mean is 2; w is the index; a step with lr 0.5 takes 1 from each w. */
static void rank_main(int rank, ncclUniqueId id) {
	ncclComm_t all;
	cudaStream_t stream;
	lk_sgd *plan;
	lk_sgd_sizes sizes = {RANKS, N}, other = {RANKS - 1, N};
	lk_sgd_scalars scalars = {0.5};
	char error[256] = "";
	int64_t begin[6], extent[6];
	__half *g, *out;
	float *w;
	std::vector<__half> gs(N), outs(N);
	std::vector<float> ws(N);
	cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
	ncclCommInitRank(&all, RANKS, id, rank);
	if (lk_sgd_open_fused(&other, all, stream, &plan, error) != 1 || !strstr(error, "ranks")) wrong[rank]++;
	if (lk_sgd_open_fused(&sizes, all, stream, &plan, error)) { wrong[rank]++; return; }
	int64_t mine = lk_sgd_part(plan, "state_w", 0, begin, extent);
	if (mine != extent[0] || lk_sgd_part(plan, "nothing", 0, begin, extent) != -1) wrong[rank]++;
	cudaMalloc(&g, N * sizeof *g), cudaMalloc(&out, N * sizeof *out), cudaMalloc(&w, (size_t)mine * sizeof *w);
	for (int i = 0; i < N; i++) gs[i] = __float2half_rn((float)(rank + 1));
	for (int64_t i = 0; i < mine; i++) ws[i] = (float)(begin[0] + i);
	cudaMemcpyAsync(g, gs.data(), N * sizeof *g, cudaMemcpyHostToDevice, stream);
	cudaMemcpyAsync(w, ws.data(), (size_t)mine * sizeof *w, cudaMemcpyHostToDevice, stream);
	for (int step = 0; step < 2; step++)
		if (lk_sgd_run_fused(plan, &scalars, (const uint16_t *)g, w, (uint16_t *)out)) wrong[rank]++;
	cudaMemcpyAsync(outs.data(), out, N * sizeof *out, cudaMemcpyDeviceToHost, stream);
	cudaMemcpyAsync(ws.data(), w, (size_t)mine * sizeof *w, cudaMemcpyDeviceToHost, stream);
	cudaStreamSynchronize(stream);
	for (int i = 0; i < N; i++) wrong[rank] += __half2float(outs[i]) != (float)(i - 2);
	for (int64_t i = 0; i < mine; i++) wrong[rank] += ws[i] != (float)(begin[0] + i - 2);
	if (lk_sgd_run_fused(plan, &scalars, NULL, w, NULL) != 1) wrong[rank]++;
	lk_sgd_close(plan);
	lk_sgd_close(NULL);
	ncclCommDestroy(all);
	cudaFree(g), cudaFree(out), cudaFree(w);
	cudaStreamDestroy(stream);
}

int main() {
	ncclUniqueId id;
	std::vector<std::thread> threads;
	int all = 0;
	ncclGetUniqueId(&id);
	for (int r = 0; r < RANKS; r++) threads.emplace_back(rank_main, r, id);
	for (std::thread &t : threads) t.join();
	for (int r = 0; r < RANKS; r++) all += wrong[r];
	return all != 0;
}
