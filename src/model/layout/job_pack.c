/* job_pack.c: lengths of documents. Sequences of several documents that attend only within
 * themselves: the share of all pairs that remains on the data-parallel rank that has the most in a
 * step (--pack, docs/method/step.md). Documents that are sequences of their own (--ragged): how
 * long they are. */
#include <math.h>

#include "base/stats.h"
#include "model/layout/job.h"

const char *lk_job_pack_lacks(const lk_job *job) {
	const lk_model *model = &job->model;
	if (model->network != LK_NET_DECODER && model->network != LK_NET_ENCODER)
		return "only sequences of one decoder or encoder of texts are packed";
	if (model->tower.layers > 0) return "packing of texts with images is not modelled";
	if (model->index_heads > 0)
		return "the keys that an indexer chooses of documents are not modelled";
	if (job->attn_kernel == LK_KERNEL_UNFUSED)
		return "attention that is not fused computes all pairs of a sequence anyway";
	return NULL;
}

double lk_job_pack_busiest(const lk_job *job) {
	if (!(job->pack_share > 0)) return 1;
	double sequences = (double)job->microbatches * job->mbs,
		   more = lk_normal_largest(job->dp) * job->pack_spread / sqrt(fmax(1, sequences));
	return fmin(fmax(1, job->pack_share), job->pack_share + more) / job->pack_share;
}

double lk_job_pack_share(const lk_job *job) {
	return job->pack_share > 0 ? job->pack_share : 1;
}

double lk_job_ragged_kept(const lk_job *job) {
	if (!(job->ragged_spread > 0)) return job->ragged_median <= job->seq ? 1 : 0;
	double room = log(job->seq / job->ragged_median) / job->ragged_spread;
	return 0.5 * erfc(-room * sqrt(0.5));
}

double lk_job_ragged_length(const lk_job *job, double share) {
	if (!(job->ragged_median > 0)) return share;
	double deviations =
		job->ragged_spread > 0 ? lk_normal_quantile(share * lk_job_ragged_kept(job)) : 0;
	double length = job->ragged_median * exp(job->ragged_spread * deviations);
	return fmin(1, fmax(1, length) / job->seq);
}
