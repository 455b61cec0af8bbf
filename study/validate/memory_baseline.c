/* memory_baseline.c: the closed form that an itemised prediction has to beat: model states of the
 * last stage, Korthikanti et al.'s activations (arXiv 2205.05198, table 2) and the logits.
 *
 *     states       P w + g + 12 / d bytes a parameter: 18 without the distributed optimizer,
 *                  6 + 12 / d with it
 *     activations  s b h (10 + 24 / t + 5 a s / (h t)), all of it over t with sequence parallelism;
 *                  5 a s / h only if attention is not fused; full recomputation keeps 2 s b h
 *     in flight    one micro-batch of the stage's layers, (v - 1) p + 1 chunks with v chunks
 *     logits       6 s b V / t */
#include <math.h>

#include "tables/tables.h"
#include "model/layout/job.h"
#include "model/layout/sizes.h"
#include "validate/validate.h"

static double layer_bytes(const lk_job *job) {
	const lk_model *model = &job->model;
	double s = (double)job->seq / job->cp, sbh = s * job->mbs * model->hidden, t = job->tp;
	double scores =
		job->attn_kernel == LK_KERNEL_UNFUSED ? 5.0 * model->heads * job->seq / model->hidden : 0;
	if (job->recompute == LK_RECOMPUTE_FULL) return 2 * sbh;
	if (job->sequence_parallel == LK_ON) return sbh / t * (34 + scores);
	return sbh * (10 + (24 + scores) / t);
}

static int layers_in_flight(const lk_job *job) {
	int first, last = job->vp - 1, count = lk_job_chunk_layers(job, job->pp - 1, last, &first);
	if (job->vp > 1) return count * (last * job->pp + 1);
	return count;
}

double lk_memory_closed_form(const lk_job *job) {
	lk_rank_params p = lk_sizes_stage(job, job->pp - 1);
	double d = lk_sizes_dp_ranks(job), e = lk_sizes_edp_ranks(job);
	bool shared = job->sharding != LK_SHARD_NONE;
	double states = p.dense * (6 + 12 / (shared ? d : 1)) + p.experts * (6 + 12 / (shared ? e : 1));
	double logits = 6.0 * job->seq / job->cp * job->mbs * job->padded_vocab / job->tp;
	return states + layers_in_flight(job) * layer_bytes(job) + logits;
}
