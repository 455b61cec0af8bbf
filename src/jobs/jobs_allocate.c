/* jobs_allocate.c: GPUs divided between jobs by a dynamic program. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "jobs/jobs.h"

void lk_allocator_free(lk_allocator *allocator) {
	free(allocator->best);
	free(allocator->choice);
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

/* Row j from row j-1: best[k] with at most k GPUs. */
static void allocate_add_job(const lk_allocation_job *job, const double *before, double *after,
                             uint16_t *choice, int gpus) {
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

lk_status lk_allocate(lk_allocator *allocator, const lk_allocation_job *jobs, int count, int gpus,
                      int *choice, bool *possible, lk_error *err) {
	size_t row = (size_t)gpus + 1;
	if (!allocate_grow((void **)&allocator->best, &allocator->best_size,
	                   2 * row * sizeof *allocator->best) ||
	    !allocate_grow((void **)&allocator->choice, &allocator->choice_size,
	                   ((size_t)count * row + 1) * sizeof *allocator->choice))
		return lk_oom(err);
	double *before = allocator->best, *after = allocator->best + row;
	for (size_t k = 0; k < row; k++) before[k] = 0;
	for (int j = 0; j < count; j++) {
		if (jobs[j].count > UINT16_MAX)
			return lk_fail(err, LK_ERR_INTERNAL, "jobs", "%d ways to run one job", jobs[j].count);
		allocate_add_job(&jobs[j], before, after, allocator->choice + (size_t)j * row, gpus);
		double *done = before;
		before = after;
		after = done;
	}
	*possible = before[gpus] > -INFINITY;
	for (int j = count - 1, k = gpus; *possible && j >= 0; j--) {
		choice[j] = allocator->choice[(size_t)j * row + (size_t)k];
		k -= jobs[j].options[choice[j]].gpus;
	}
	return LK_OK;
}
