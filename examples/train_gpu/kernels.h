/* kernels.h: the kernels of the training program: each takes one struct. kernels.cu has them for a
 * GPU; tests/gpu of lockstep's sources has them for the processor, for its stand-ins of CUDA and
 * NCCL. */
#ifndef KERNELS_H
#define KERNELS_H

typedef struct work {
	float *out;
	const float *a, *b;
	int m, n, k;        /* out is m x n */
	int turn_a, turn_b; /* matmul: a, b are stored transposed */
	int add;            /* matmul: to what is there */
	float scale;
	char unused[12];
} work;
#ifndef __cplusplus
_Static_assert(sizeof(work) == 64, "what the stand-in copies");
#endif

#ifdef __cplusplus
extern "C" {
#endif
#ifndef __CUDACC__
void matmul(work w);     /* out = a b */
void relu(work w);       /* out = max(a, 0) */
void relu_back(work w);  /* out = a where b > 0 */
void residual(work w);   /* out += a */
void difference(work w); /* out = scale * (a - b) */
void update(work w);     /* out -= scale * a */
#endif
#ifdef __cplusplus
}
#endif
#endif
