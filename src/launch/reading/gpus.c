/* gpus.c: how many GPUs a job has, where nobody says so. */
#include "base/arena.h"
#include "base/check.h"
#include "base/noun.h"
#include "launch/reading/reading.h"
#include "model/layout/job.h"

static int64_t gpus_multiple(int64_t a, int64_t b) {
	LK_ASSERT(a > 0 && b > 0);
	int64_t x = a, y = b;
	while (y > 0) {
		int64_t rest = x % y;
		x = y;
		y = rest;
	}
	return a / x * b;
}

/* Whether a global batch that is stated divides among the replicas of so many GPUs. */
static bool gpus_batch_fits(const lk_job *job, int64_t gpus, int64_t block) {
	LK_ASSERT(block > 0);
	int64_t share = job->mbs * (gpus / block);
	return job->gbs == 0 || job->mbs == 0 || (share > 0 && job->gbs % share == 0);
}

int64_t lk_launch_least_gpus(const lk_job *job, int64_t replicas, int64_t *block) {
	const int degrees[] = {job->tp, job->pp, job->cp};
	LK_ASSERT(replicas > 0);
	int64_t experts = job->pp > 1 ? job->pp : 1;
	*block = 1;
	for (int i = 0; i < 3; i++)
		if (degrees[i] > 1 && *block <= LK_JOB_GPUS) *block *= degrees[i];
	if (job->ep > 1) experts *= job->ep;
	int spread = job->etp > 0 ? job->etp : job->tp;
	if (job->ep > 1 && spread > 1 && experts <= LK_JOB_GPUS) experts *= spread;
	if (*block > LK_JOB_GPUS || replicas > LK_JOB_GPUS || experts > LK_JOB_GPUS) return INT64_MAX;
	int64_t whole = *block * replicas;
	return whole <= LK_JOB_GPUS ? gpus_multiple(whole, experts) : INT64_MAX;
}

lk_status lk_launch_name_visible(lk_reading *reading, int processes) {
	if (reading->visible == 0 || reading->visible == processes) return LK_OK;
	const char *reason =
		lk_arena_printf(reading->arena, "it shows %d %s of a node, on which %d %s started",
	                    reading->visible, lk_noun(reading->visible, "device", "devices"), processes,
	                    lk_noun(processes, "process is", "processes are"));
	if (reason == NULL) return lk_oom(reading->err);
	return lk_launch_note(reading, "CUDA_VISIBLE_DEVICES", reason);
}

lk_status lk_launch_count_gpus(lk_reading *reading, const lk_job *job, int64_t replicas, int stated,
                               bool certain) {
	if (reading->out->gpus > 0) return LK_OK; /* the launcher states them */
	int64_t block, least = lk_launch_least_gpus(job, replicas, &block);
	if (stated > 0 && certain && stated % block == 0) {
		reading->out->gpus = stated;
		return lk_launch_name_visible(reading, stated);
	}
	if (stated == 0 && reading->visible > 0 && reading->visible % block == 0) {
		reading->out->gpus = reading->visible;
		return LK_OK;
	}
	if (least > LK_JOB_GPUS) return LK_OK; /* the degrees will be refused */
	bool fits = stated > 0 && stated % least == 0 && gpus_batch_fits(job, stated, block);
	/* A node where one would do. */
	int node = 8;
	bool round = !fits && least <= node && node % least == 0 && gpus_batch_fits(job, node, block) &&
	             stated == 0 && replicas == 1;
	reading->out->gpus_assumed = fits ? stated : (int)least;
	LK_ASSERT(reading->out->gpus_assumed % block == 0);
	if (fits) return LK_OK;
	if (round) reading->out->gpus_assumed = node;
	LK_TRY(lk_launch_assume(
		reading, "%d %s, %s: nothing states a number that the degrees divide (--gpus)",
		reading->out->gpus_assumed, lk_noun(reading->out->gpus_assumed, "GPU", "GPUs"),
		round ? "a node" : "the least that they need"));
	reading->out->gpus_line = reading->out->assumed_count;
	LK_ASSERT(reading->out->gpus_line > 0); /* 0: no line */
	return LK_OK;
}
