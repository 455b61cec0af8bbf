/* kernels.cu: plain kernels; speed is not their point. */
#include "kernels.h"

#define EACH(i) for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < w.m * w.n; i += (int)(gridDim.x * blockDim.x))

extern "C" __global__ void matmul(work w) {
	EACH(i) {
		int row = i / w.n, column = i % w.n;
		float sum = w.add ? w.out[i] : 0;
		for (int k = 0; k < w.k; k++)
			sum += (w.turn_a ? w.a[k * w.m + row] : w.a[row * w.k + k]) * (w.turn_b ? w.b[column * w.k + k] : w.b[k * w.n + column]);
		w.out[i] = sum;
	}
}
extern "C" __global__ void relu(work w) { EACH(i) w.out[i] = w.a[i] > 0 ? w.a[i] : 0; }
extern "C" __global__ void relu_back(work w) { EACH(i) w.out[i] = w.b[i] > 0 ? w.a[i] : 0; }
extern "C" __global__ void residual(work w) { EACH(i) w.out[i] += w.a[i]; }
extern "C" __global__ void difference(work w) { EACH(i) w.out[i] = w.scale * (w.a[i] - w.b[i]); }
extern "C" __global__ void update(work w) { EACH(i) w.out[i] -= w.scale * w.a[i]; }
