/* jobs_allocate.c: divides GPUs between jobs by a dynamic program. Jobs cannot use more GPUs than
 * their largest options take: beyond that sum, a row keeps its last value, which is not computed.
 * If all of them fit together, nothing has to be divided, and only the last value of each row is
 * needed.
 *
 * An option that takes no fewer GPUs than an earlier one and has no higher value is never chosen,
 * because a row never falls with more GPUs: it is dropped.
 *
 * Rows hold only values. The option behind a row's value at some k is found afterwards, for the one
 * k of each job that counts: the first whose sum is that value. From one call to the next mostly
 * the last jobs change, so the rows of earlier jobs are kept. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "system/clones.h"
#include "jobs/jobs.h"

enum {
	TILE = 1024 /* GPUs for which all options are tried while their results are in the cache */
};

void lk_allocator_free(lk_allocator *allocator) {
	free(allocator->best);
	free(allocator->most);
	free(allocator->kept);
	free(allocator->seen);
	free(allocator->seen_end);
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

/* Keep the options of a job that may be chosen, in order; returns their number. */
static int allocate_keep(const lk_allocation_job *job, uint16_t *kept) {
	int count = 0, gpus = 0;
	double most = -INFINITY; /* largest value so far with at most `gpus` GPUs */
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

/* Try one option: with k GPUs, k less its own are left to the earlier jobs. */
LK_CLONES static void allocate_try_option(double *restrict after, const double *restrict before,
                                          double value, int count) {
	for (int k = 0; k < count; k++) {
		double sum = before[k] + value;
		after[k] = sum > after[k] ? sum : after[k];
	}
}

/* Compute row j up to `gpus` from row j-1 up to `used`: best[k] with at most k GPUs. */
static void allocate_add_job(const lk_allocation_job *job, const uint16_t *kept, int kept_count,
                             double *before, int used, double *after, int gpus) {
	for (int k = used + 1; k <= gpus; k++) before[k] = before[used];
	for (int k = 0; k <= gpus; k++) after[k] = -INFINITY;
	for (int tile = 0; tile <= gpus; tile += TILE) {
		int end = tile + TILE < gpus + 1 ? tile + TILE : gpus + 1;
		for (int i = 0; i < kept_count; i++) {
			const lk_allocation_option *option = &job->options[kept[i]];
			int from = option->gpus > tile ? option->gpus : tile;
			if (from < end)
				allocate_try_option(after + from, before + from - option->gpus, option->value,
				                    end - from);
		}
	}
}

/* The option behind a row's value with k GPUs: the first with that sum. */
static int allocate_chosen(const lk_allocation_job *job, const uint16_t *kept, int kept_count,
                           const double *before, double value, int k) {
	for (int i = 0; i < kept_count; i++) {
		const lk_allocation_option *option = &job->options[kept[i]];
		if (option->gpus <= k && before[k - option->gpus] + option->value == value) return kept[i];
	}
	LK_ASSERT(false); /* the value is one of these sums */
	return 0;
}

/* Give every job its most valuable option: the first such, by the sums that the rows would
 * contain. */
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

static bool allocate_same(const lk_allocation_job *job, const lk_allocation_option *seen,
                          size_t count) {
	if ((size_t)job->count != count) return false;
	for (size_t o = 0; o < count; o++)
		if (job->options[o].gpus != seen[o].gpus || job->options[o].value != seen[o].value)
			return false;
	return true;
}

/* The number of leading jobs for which the present rows were made; stores all. */
static lk_status allocate_note(lk_allocator *allocator, const lk_allocation_job *jobs, int count,
                               int gpus, int *same, lk_error *err) {
	size_t options = 0, begin = 0;
	for (int j = 0; j < count; j++) options += (size_t)jobs[j].count;
	if (!allocate_grow((void **)&allocator->seen, &allocator->seen_size,
	                   (options + 1) * sizeof *allocator->seen) ||
	    !allocate_grow((void **)&allocator->seen_end, &allocator->seen_end_size,
	                   ((size_t)count + 1) * sizeof *allocator->seen_end))
		return lk_oom(err);
	int known = allocator->seen_gpus == gpus ? allocator->seen_jobs : 0;
	for (*same = 0; *same < count && *same < known; ++*same) {
		size_t end = allocator->seen_end[*same];
		if (!allocate_same(&jobs[*same], allocator->seen + begin, end - begin)) break;
		begin = end;
	}
	for (int j = *same; j < count; j++) {
		memcpy(allocator->seen + begin, jobs[j].options,
		       (size_t)jobs[j].count * sizeof *allocator->seen);
		begin += (size_t)jobs[j].count;
		allocator->seen_end[j] = begin;
	}
	allocator->seen_jobs = count;
	allocator->seen_gpus = gpus;
	return LK_OK;
}

/* Compute the rows of all jobs, which can use more GPUs than there are. */
static lk_status allocate_divide(lk_allocator *allocator, const lk_allocation_job *jobs, int count,
                                 int gpus, int *choice, bool *possible, lk_error *err) {
	size_t row = (size_t)gpus + 1;
	int same = 0;
	if (!allocate_grow((void **)&allocator->best, &allocator->best_size,
	                   ((size_t)count + 1) * row * sizeof *allocator->best))
		return lk_oom(err);
	LK_TRY(allocate_note(allocator, jobs, count, gpus, &same, err));
	double *best = allocator->best;
	const int *most = allocator->most;
	best[0] = 0;
	for (int j = same; j < count; j++) {
		int kept_count = allocate_keep(&jobs[j], allocator->kept);
		double *before = best + (size_t)j * row;
		allocate_add_job(&jobs[j], allocator->kept, kept_count, before, most[j], before + row,
		                 most[j + 1]);
	}
	*possible = best[(size_t)count * row + (size_t)most[count]] > -INFINITY;
	/* From back to front: the rest for the earlier jobs may exceed what they can use. */
	for (int j = count - 1, k = gpus; *possible && j >= 0; j--) {
		int kept_count = allocate_keep(&jobs[j], allocator->kept);
		const double *before = best + (size_t)j * row;
		if (k > most[j + 1]) k = most[j + 1];
		choice[j] = allocate_chosen(&jobs[j], allocator->kept, kept_count, before,
		                            before[row + (size_t)k], k);
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
