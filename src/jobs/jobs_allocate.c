/* jobs_allocate.c: GPUs divided between jobs by a dynamic program. Jobs cannot use more GPUs than
 * their largest options take: beyond that sum, a row has its last value, and is not computed. Where
 * all of them fit together, nothing has to be divided, and of every row its last value is enough.
 *
 * An option that takes no fewer GPUs than one before it and is worth no more is never chosen, as a
 * row never falls with more GPUs: it is left out. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clones.h"
#include "jobs/jobs.h"

enum {
	TILE = 1024 /* GPUs for which all options are tried while what they write is in the cache */
};

void lk_allocator_free(lk_allocator *allocator) {
	free(allocator->best);
	free(allocator->choice);
	free(allocator->most);
	free(allocator->kept);
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

/* The options of a job that may be chosen, in their order; returns how many. */
static int allocate_keep(const lk_allocation_job *job, uint16_t *kept) {
	int count = 0, gpus = 0;
	double most = -INFINITY; /* value of those so far that take `gpus` at most */
	for (int o = 0; o < job->count; o++) {
		const lk_allocation_option *option = &job->options[o];
		if (option->gpus < gpus) most = -INFINITY;
		else if (count && option->value <= most) continue;
		gpus = option->gpus;
		most = option->value;
		kept[count++] = (uint16_t)o;
	}
	return count;
}

/* Tries one option: with k GPUs, as many as it takes fewer are left to the jobs before. */
LK_CLONES static void allocate_try_option(double *restrict after, uint16_t *restrict choice,
                                          const double *restrict before, double value,
                                          uint16_t option, int count) {
	for (int k = 0; k < count; k++) {
		double sum = before[k] + value;
		choice[k] = sum > after[k] ? option : choice[k];
		after[k] = sum > after[k] ? sum : after[k];
	}
}

/* Row j up to `gpus` from row j-1 up to `used`: best[k] with at most k GPUs. */
static void allocate_add_job(const lk_allocation_job *job, const uint16_t *kept, int kept_count,
                             double *before, int used, double *after, uint16_t *choice, int gpus) {
	for (int k = used + 1; k <= gpus; k++) before[k] = before[used];
	for (int k = 0; k <= gpus; k++) {
		after[k] = -INFINITY;
		choice[k] = 0;
	}
	for (int tile = 0; tile <= gpus; tile += TILE) {
		int end = tile + TILE < gpus + 1 ? tile + TILE : gpus + 1;
		for (int i = 0; i < kept_count; i++) {
			const lk_allocation_option *option = &job->options[kept[i]];
			int from = option->gpus > tile ? option->gpus : tile;
			if (from < end)
				allocate_try_option(after + from, choice + from, before + from - option->gpus,
				                    option->value, kept[i], end - from);
		}
	}
}

/* Every job has what it is worth most with: the first such option, by the sums that the rows would
 * have there. */
static bool allocate_all_they_want(const lk_allocation_job *jobs, int count, int *choice) {
	double sum = 0;
	for (int j = 0; j < count; j++) {
		double most = -INFINITY;
		for (int o = 0; o < jobs[j].count; o++) {
			if (!(sum + jobs[j].options[o].value > most)) continue;
			most = sum + jobs[j].options[o].value;
			choice[j] = o;
		}
		sum = most;
	}
	return sum > -INFINITY;
}

/* The rows of all jobs, which can use more GPUs than there are. */
static lk_status allocate_divide(lk_allocator *allocator, const lk_allocation_job *jobs, int count,
                                 int gpus, int *choice, bool *possible, lk_error *err) {
	size_t row = (size_t)gpus + 1;
	if (!allocate_grow((void **)&allocator->best, &allocator->best_size,
	                   2 * row * sizeof *allocator->best) ||
	    !allocate_grow((void **)&allocator->choice, &allocator->choice_size,
	                   ((size_t)count * row + 1) * sizeof *allocator->choice))
		return lk_oom(err);
	double *before = allocator->best, *after = allocator->best + row;
	const int *most = allocator->most;
	before[0] = 0;
	for (int j = 0; j < count; j++) {
		int kept_count = allocate_keep(&jobs[j], allocator->kept);
		allocate_add_job(&jobs[j], allocator->kept, kept_count, before, most[j], after,
		                 allocator->choice + (size_t)j * row, most[j + 1]);
		double *done = before;
		before = after;
		after = done;
	}
	*possible = before[gpus] > -INFINITY;
	/* From back to front, what is left for the jobs before may be more than they can use. */
	for (int j = count - 1, k = gpus; *possible && j >= 0; j--) {
		if (k > most[j + 1]) k = most[j + 1];
		choice[j] = allocator->choice[(size_t)j * row + (size_t)k];
		k -= jobs[j].options[choice[j]].gpus;
	}
	return LK_OK;
}

lk_status lk_allocate(lk_allocator *allocator, const lk_allocation_job *jobs, int count, int gpus,
                      int *choice, bool *possible, lk_error *err) {
	int options = 0;
	for (int j = 0; j < count; j++) options = jobs[j].count > options ? jobs[j].count : options;
	if (options > UINT16_MAX)
		return lk_fail(err, LK_ERR_INTERNAL, "jobs", "%d ways to run one job", options);
	if (!allocate_grow((void **)&allocator->most, &allocator->most_size,
	                   ((size_t)count + 1) * sizeof *allocator->most) ||
	    !allocate_grow((void **)&allocator->kept, &allocator->kept_size,
	                   ((size_t)options + 1) * sizeof *allocator->kept))
		return lk_oom(err);
	int *most = allocator->most, all = 0;
	most[0] = 0;
	for (int j = 0; j < count; j++) {
		int largest = 0, kept_count = allocate_keep(&jobs[j], allocator->kept);
		for (int i = 0; i < kept_count; i++)
			if (jobs[j].options[allocator->kept[i]].gpus > largest)
				largest = jobs[j].options[allocator->kept[i]].gpus;
		all = largest <= gpus - all ? all + largest : gpus + 1;
		most[j + 1] = all < gpus ? all : gpus;
	}
	if (all > gpus) return allocate_divide(allocator, jobs, count, gpus, choice, possible, err);
	*possible = allocate_all_they_want(jobs, count, choice);
	return LK_OK;
}
