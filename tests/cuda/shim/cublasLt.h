/* cublasLt.h: the part of cuBLASLt that generated programs use, on the CPU: column-major products, plain loops. Tests only. */
#ifndef LK_SHIM_CUBLASLT_H
#define LK_SHIM_CUBLASLT_H
#include "cuda_runtime.h"
#include "cuda_fp16.h"
#include "cuda_bf16.h"

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_SUPPORTED = 15 };
enum cudaDataType_t { CUDA_R_16F = 2, CUDA_R_16BF = 14, CUDA_R_32F = 0, CUDA_R_64F = 1 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_64F = 70 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum { CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB };
enum { CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET };
enum { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
	CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES };
struct lk_shim_matmul { int transposed[2]; };
struct lk_shim_matrix { cudaDataType_t type; uint64_t rows, columns; int64_t leading; int32_t batch; int64_t stride; };
struct lk_shim_preference { size_t bytes; };
struct cublasLtMatmulAlgo_t { int none; };
struct cublasLtMatmulHeuristicResult_t { cublasLtMatmulAlgo_t algo; size_t workspaceSize; };
typedef struct lk_shim_handle *cublasLtHandle_t;
typedef lk_shim_matmul *cublasLtMatmulDesc_t;
typedef lk_shim_matrix *cublasLtMatrixLayout_t;
typedef lk_shim_preference *cublasLtMatmulPreference_t;

inline const char *cublasLtGetStatusString(cublasStatus_t s) { return s ? "not supported" : "success"; }
inline cublasStatus_t cublasLtCreate(cublasLtHandle_t *h) { *h = NULL; return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t, cudaDataType_t) { *d = new lk_shim_matmul{{0, 0}}; return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, int which, const void *v, size_t) {
	d->transposed[which] = *(const cublasOperation_t *)v == CUBLAS_OP_T;
	return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { delete d; return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType_t type, uint64_t rows, uint64_t columns, int64_t leading) {
	*l = new lk_shim_matrix{type, rows, columns, leading, 1, 0};
	return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, int which, const void *v, size_t) {
	if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) l->batch = *(const int32_t *)v;
	else l->stride = *(const int64_t *)v;
	return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { delete l; return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p) { *p = new lk_shim_preference{0}; return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p, int which, const void *v, size_t) { if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) p->bytes = *(const size_t *)v; return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) { delete p; return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
	cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t *out, int *found) {
	*out = {{0}, 0}, *found = 1;
	return CUBLAS_STATUS_SUCCESS;
}

inline double lk_shim_read(const void *at, cudaDataType_t type, int64_t i) {
	switch (type) {
	case CUDA_R_16F: return __half2float(((const __half *)at)[i]);
	case CUDA_R_16BF: return __bfloat162float(((const __nv_bfloat16 *)at)[i]);
	case CUDA_R_32F: return ((const float *)at)[i];
	default: return ((const double *)at)[i];
	}
}
inline void lk_shim_write(void *at, cudaDataType_t type, int64_t i, double x) {
	switch (type) {
	case CUDA_R_16F: ((__half *)at)[i] = __double2half(x); break;
	case CUDA_R_16BF: ((__nv_bfloat16 *)at)[i] = __double2bfloat16(x); break;
	case CUDA_R_32F: ((float *)at)[i] = (float)x; break;
	default: ((double *)at)[i] = x;
	}
}
inline double lk_shim_scale(const void *at, cudaDataType_t type) { return type == CUDA_R_64F ? *(const double *)at : *(const float *)at; }

inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *A, cublasLtMatrixLayout_t la,
	const void *Bm, cublasLtMatrixLayout_t lb, const void *beta, const void *, cublasLtMatrixLayout_t, void *D, cublasLtMatrixLayout_t ld,
	const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t stream) {
	lk_shim_matmul d = *desc;
	lk_shim_matrix a = *la, b = *lb, out = *ld;
	double scale = lk_shim_scale(alpha, out.type);
	if (lk_shim_scale(beta, out.type) != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
	int64_t depth = (int64_t)(d.transposed[0] ? a.rows : a.columns);
	stream->add([=] {
		for (int32_t batch = 0; batch < out.batch; batch++)
			for (int64_t j = 0; j < (int64_t)out.columns; j++)
				for (int64_t i = 0; i < (int64_t)out.rows; i++) {
					double sum = 0;
					for (int64_t k = 0; k < depth; k++)
						sum += lk_shim_read(A, a.type, batch * a.stride + (d.transposed[0] ? k + i * a.leading : i + k * a.leading))
							* lk_shim_read(Bm, b.type, batch * b.stride + (d.transposed[1] ? j + k * b.leading : k + j * b.leading));
					lk_shim_write(D, out.type, batch * out.stride + i + j * out.leading, scale * sum);
				}
	});
	return CUBLAS_STATUS_SUCCESS;
}
#endif
