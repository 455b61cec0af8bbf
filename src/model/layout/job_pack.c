/* job_pack.c: sequences of several documents each, which attend within themselves alone: the share
 * of all pairs that is left, of the data-parallel rank that has most of them in a step (--pack,
 * docs/method/step.md). */
#include <math.h>

#include "base/stats.h"
#include "model/layout/job.h"

double lk_job_pack_busiest(const lk_job *job) {
	if (!(job->pack_share > 0)) return 1;
	double sequences = (double)job->microbatches * job->mbs,
		   more = lk_normal_largest(job->dp) * job->pack_spread / sqrt(fmax(1, sequences));
	return fmin(1, job->pack_share + more) / job->pack_share;
}

double lk_job_pack_share(const lk_job *job) {
	return job->pack_share > 0 ? job->pack_share : 1;
}
