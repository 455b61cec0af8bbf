/* jobs_allocate.c: GPUs divided between jobs by a dynamic program. Jobs cannot use more GPUs than
 * their largest options take: beyond that sum, a row has its last value, and is not computed. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "jobs/jobs.h"

void lk_allocator_free(lk_allocator *allocator) {
	free(allocator->best);
	free(allocator->choice);
	free(allocator->most);
	*allocator = (lk_allocator){0};
}

static bool allocate_grow(void **memory, size_t *size, size_t wanted) {
	if (wanted <= *size) return true;
	void *larger = realloc(*memory, wanted);
	if (!larger) return false;
	*memory = larger;
	*size = wanted;
	return true;
}

/* Row j up to `gpus` from row j-1 up to `used`: best[k] with at most k GPUs. */
static void allocate_add_job(const lk_allocation_job *job, double *before, int used, double *after,
                             uint16_t *choice, int gpus) {
	for (int k = used + 1; k <= gpus; k++) before[k] = before[used];
	for (int k = 0; k <= gpus; k++) {
		after[k] = -INFINITY;
		choice[k] = 0;
	}
	for (int o = 0; o < job->count; o++) {
		int needs = job->options[o].gpus;
		double value = job->options[o].value;
		for (int k = needs; k <= gpus; k++) {
			double sum = before[k - needs] + value;
			if (sum > after[k]) {
				after[k] = sum;
				choice[k] = (uint16_t)o;
			}
		}
	}
}

/* The most GPUs that the jobs up to job j can use. */
static int allocate_most(const lk_allocation_job *job, int used, int gpus) {
	int most = 0;
	for (int o = 0; o < job->count; o++)
		if (job->options[o].gpus > most) most = job->options[o].gpus;
	return most < gpus - used ? used + most : gpus;
}

lk_status lk_allocate(lk_allocator *allocator, const lk_allocation_job *jobs, int count, int gpus,
                      int *choice, bool *possible, lk_error *err) {
	if (!allocate_grow((void **)&allocator->most, &allocator->most_size,
	                   ((size_t)count + 1) * sizeof *allocator->most))
		return lk_oom(err);
	int *most = allocator->most;
	most[0] = 0;
	for (int j = 0; j < count; j++) most[j + 1] = allocate_most(&jobs[j], most[j], gpus);
	size_t row = (size_t)most[count] + 1;
	if (!allocate_grow((void **)&allocator->best, &allocator->best_size,
	                   2 * row * sizeof *allocator->best) ||
	    !allocate_grow((void **)&allocator->choice, &allocator->choice_size,
	                   ((size_t)count * row + 1) * sizeof *allocator->choice))
		return lk_oom(err);
	double *before = allocator->best, *after = allocator->best + row;
	before[0] = 0;
	for (int j = 0; j < count; j++) {
		if (jobs[j].count > UINT16_MAX)
			return lk_fail(err, LK_ERR_INTERNAL, "jobs", "%d ways to run one job", jobs[j].count);
		allocate_add_job(&jobs[j], before, most[j], after, allocator->choice + (size_t)j * row,
		                 most[j + 1]);
		double *done = before;
		before = after;
		after = done;
	}
	*possible = before[most[count]] > -INFINITY;
	/* From back to front, what is left for the jobs before may be more than they can use. */
	for (int j = count - 1, k = most[count]; *possible && j >= 0; j--) {
		if (k > most[j + 1]) k = most[j + 1];
		choice[j] = allocator->choice[(size_t)j * row + (size_t)k];
		k -= jobs[j].options[choice[j]].gpus;
	}
	return LK_OK;
}
