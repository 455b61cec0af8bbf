/* build_resident.c: what a stage holds for the whole step: model states (sizes.c) and buffers that
 * are rewritten for every micro-batch but never freed. */
#include "model/build/build.h"
#include "model/layout/job.h"
#include "base/check.h"

/* Gradients of logits and inputs of the head, kept for a deferred weight gradient. */
static double deferred_bytes(const lk_builder *builder, int stage) {
	LK_ASSERT(stage >= 0 && stage < builder->job->pp);
	const lk_job *job = builder->job;
	if (job->defer_head_gradient != LK_ON || job->pp == 1 || !lk_sizes_has_head(job, stage))
		return 0;
	int limit = job->deferral_limit > 0 ? job->deferral_limit : job->microbatches;
	double each =
		builder->bytes * builder->tokens * (job->padded_vocab / builder->tp + job->model.hidden);
	return each * (limit < job->microbatches ? limit : job->microbatches - 1);
}

/* A teacher's logits, kept until those of the trained network. */
static double teacher_bytes(const lk_builder *builder) {
	const lk_job *job = builder->job;
	return job->teacher ? builder->bytes * builder->tokens * job->padded_vocab / builder->tp : 0;
}

/* The mask of a micro-batch, one byte per pair of positions. */
static double mask_bytes(const lk_builder *builder) {
	return builder->job->attention_mask
	           ? builder->batch * builder->job->seq * builder->job->seq / builder->job->cp
	           : 0;
}

/* Tensors in transit between stages: the received input, the received gradient and the sent one;
 * with several chunks, one of each plus one. */
static double wire_bytes(const lk_builder *builder) {
	if (builder->job->pp == 1) return 0;
	return (builder->job->vp > 1 ? builder->job->vp + 1 : 3) * lk_build_row_bytes(builder);
}

void lk_build_resident(const lk_builder *builder, int stage, double *bytes) {
	LK_ASSERT(stage >= 0 && stage < builder->job->pp);
	lk_resident held = lk_sizes_resident(builder->job, stage);
	bytes[LK_OWN_WEIGHTS] = held.weights;
	bytes[LK_OWN_GRADIENTS] = builder->late_gradients ? 0 : held.gradients;
	bytes[LK_OWN_OPTIMIZER] = held.optimizer;
	bytes[LK_OWN_ACTIVATIONS] = builder->all_reads;
	bytes[LK_OWN_LOGITS] = deferred_bytes(builder, stage) + teacher_bytes(builder);
	bytes[LK_OWN_BUFFERS] =
		wire_bytes(builder) + mask_bytes(builder) + lk_build_kept_moving(builder);
}

double lk_build_resident_sum(const lk_builder *builder, int stage) {
	double bytes[LK_OWNERS] = {0}, sum = 0;
	lk_build_resident(builder, stage, bytes);
	for (int o = 0; o < LK_OWNERS; o++) sum += bytes[o];
	return sum;
}
