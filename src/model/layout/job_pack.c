/* job_pack.c: sequences of several documents each, which attend within themselves alone: the share
 * of all pairs that is left, of the data-parallel rank that has most of them in a step (--pack,
 * docs/method/step.md). */
#include <math.h>

#include "base/stats.h"
#include "model/layout/job.h"

/* Expected largest of so many normal deviates (Blom, Statistical Estimates and Transformed
 * Beta-Variables, 1958, section 6.9). */
static double largest_deviate(double count) {
	return count > 1 ? lk_normal_quantile((count - 0.375) / (count + 0.25)) : 0;
}

double lk_job_pack_busiest(const lk_job *job) {
	if (!(job->pack_share > 0)) return 1;
	double sequences = (double)job->microbatches * job->mbs,
		   more = largest_deviate(job->dp) * job->pack_spread / sqrt(fmax(1, sequences));
	return fmin(1, job->pack_share + more) / job->pack_share;
}

double lk_job_pack_share(const lk_job *job) {
	return job->pack_share > 0 ? job->pack_share : 1;
}
