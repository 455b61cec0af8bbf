/* kernels.c: the kernels of examples/train_gpu for the processor. */
#include "kernels.h"

#define EACH(i) for (int i = 0; i < w.m * w.n; i++)

void matmul(work w) {
	for (int row = 0; row < w.m; row++) {
		float *out = w.out + row * w.n;
		for (int j = 0; j < w.n && !w.add; j++) out[j] = 0;
		for (int k = 0; k < w.k; k++) {
			float a = w.turn_a ? w.a[k * w.m + row] : w.a[row * w.k + k];
			for (int j = 0; j < w.n; j++)
				out[j] += a * (w.turn_b ? w.b[j * w.k + k] : w.b[k * w.n + j]);
		}
	}
}
void relu(work w) {
	EACH(i) w.out[i] = w.a[i] > 0 ? w.a[i] : 0;
}
void relu_back(work w) {
	EACH(i) w.out[i] = w.b[i] > 0 ? w.a[i] : 0;
}
void residual(work w) {
	EACH(i) w.out[i] += w.a[i];
}
void difference(work w) {
	EACH(i) w.out[i] = w.scale * (w.a[i] - w.b[i]);
}
void update(work w) {
	EACH(i) w.out[i] -= w.scale * w.a[i];
}
