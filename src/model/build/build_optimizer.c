/* build_optimizer.c: the step of optimizers on whole matrices, one block per shape
 * (docs/method/step.md, "Optimizers on matrices"). Of an [m, n] matrix with m <= n:
 *
 *     muon      each Newton-Schulz iteration X X^T, its square, and their sum times X:
 *               4 m^2 n + 2 m^3 operations in bf16 (arXiv 2502.16982, section 2.1)
 *     soap      statistics of both sides, gradient and moment into their eigenvectors, the update
 *               back: 8 m n (m + n) in fp32; eigenvectors by a QR step every tenth time
 *               (arXiv 2409.11321, algorithms 3 and 4)
 *     shampoo   statistics of both sides, their inverse fourth roots on both sides of the gradient:
 *               4 m n (m + n) in fp32; roots every fiftieth time (arXiv 2309.06497)
 */
#include "model/build/build.h"
#include "model/layout/job.h"

#include <math.h>

#include "base/check.h"

/* Refreshes in products of [m, m] matrices, 2 m^3 each, averaged per step: a product and a QR
 * decomposition of 8/3 m^3 every tenth step; an eigendecomposition of 9 m^3 and two products every
 * fiftieth (Golub and Van Loan, Matrix Computations, 5.2 and 8.3). */
static const double SOAP_REFRESH = (1 + 8 / 6.) / 10, SHAMPOO_REFRESH = (9 / 2. + 2) / 50;

static void optimizer_gemm(lk_builder *builder, lk_dtype dtype, const char *name, double m,
                           double n, double k) {
	lk_build_gemm(builder, name, m, n, k);
	lk_ops *ops = &builder->graph->ops;
	if (!ops->count || builder->graph->failed) return;
	ops->dtype[ops->count - 1] = (uint8_t)dtype;
	ops->bytes[ops->count - 1] = (m * k + k * n + m * n) * lk_dtype_bytes(dtype);
}

static unsigned shards_of(const lk_rank_matrix *matrix) {
	return matrix->expert ? LK_GROUP_ETP : LK_GROUP_TP;
}

/* Split matrices are transposed so that products of rows with rows sum over the split side. */
static void newton_schulz(lk_builder *builder, const lk_rank_matrix *matrix) {
	const lk_job *job = builder->job;
	double m = fmin(matrix->out, matrix->in), n = fmax(matrix->out, matrix->in);
	bool divided = matrix->parts > 1, distributed = job->muon_tp == LK_MUON_DISTRIBUTED;
	if (divided && distributed) {
		m = matrix->cut == LK_CUT_OUT ? matrix->in : matrix->out;
		n = (matrix->cut == LK_CUT_OUT ? matrix->out : matrix->in) / matrix->parts;
	} else if (divided) {
		lk_build_collective(builder, LK_OP_ALLGATHER, LK_STREAM_TP, shards_of(matrix),
		                    "gather_matrix", 2 * m * n, false);
	}
	for (int i = 0; i < job->muon_steps; i++) {
		optimizer_gemm(builder, LK_BF16, "newton_schulz_gram", m, job->muon_syrk ? m / 2 : m, n);
		if (i == 0) /* X of this iteration and the next, the gram matrix and its square */
			lk_build_scratch(builder, 2 * (2 * m * n + 2 * m * m), LK_OWN_WORKSPACE);
		if (divided && distributed)
			lk_build_collective(builder, LK_OP_ALLREDUCE, LK_STREAM_TP, shards_of(matrix),
			                    "reduce_gram", 2 * m * m, false);
		optimizer_gemm(builder, LK_BF16, "newton_schulz_square", m, m, m);
		optimizer_gemm(builder, LK_BF16, "newton_schulz_update", m, n, m);
	}
}

static void soap_side(lk_builder *builder, double side, double other) {
	if (!lk_optimizer_turns(builder->job, side)) return;
	optimizer_gemm(builder, LK_FP32, "soap_statistics", side, side, other);
	optimizer_gemm(builder, LK_FP32, "soap_turn_gradient", side, other, side);
	optimizer_gemm(builder, LK_FP32, "soap_turn_moment", side, other, side);
	optimizer_gemm(builder, LK_FP32, "soap_turn_back", side, other, side);
	optimizer_gemm(builder, LK_FP32, "soap_eigenvectors", SOAP_REFRESH * side, side, side);
}

static void shampoo_side(lk_builder *builder, double side, double other) {
	optimizer_gemm(builder, LK_FP32, "shampoo_statistics", side, side, other);
	optimizer_gemm(builder, LK_FP32, "shampoo_precondition", side, other, side);
	optimizer_gemm(builder, LK_FP32, "shampoo_roots", SHAMPOO_REFRESH * side, side, side);
}

static lk_status matrix_block(lk_builder *builder, const lk_rank_matrix *matrix, uint32_t *block) {
	lk_optimizer optimizer = builder->job->optimizer;
	builder->phase = LK_PHASE_OPTIMIZER;
	builder->pending = 0;
	lk_graph_begin_block(builder->graph, lk_optimizer_of(builder->job)->name);
	if (optimizer == LK_OPT_MUON) newton_schulz(builder, matrix);
	if (optimizer == LK_OPT_SOAP) {
		soap_side(builder, matrix->out, matrix->in);
		soap_side(builder, matrix->in, matrix->out);
	}
	if (optimizer == LK_OPT_SHAMPOO) {
		shampoo_side(builder, matrix->out, matrix->in);
		shampoo_side(builder, matrix->in, matrix->out);
	}
	return lk_graph_end_block(builder->graph, block, builder->err);
}

lk_status lk_build_matrix_blocks(lk_builder *builder, int stage, lk_tail_part *out, int *count) {
	LK_ASSERT(stage >= 0 && stage < builder->job->pp);
	lk_rank_matrices list;
	lk_optimizer_matrices(builder->job, stage, &list);
	*count = 0;
	for (int i = 0; i < list.count; i++) {
		if (list.at[i].dealt < 1) continue;
		out[*count].repeat = (uint32_t)list.at[i].dealt;
		LK_TRY(matrix_block(builder, &list.at[i], &out[*count].block));
		(*count)++;
	}
	return LK_OK;
}
