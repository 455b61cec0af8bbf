/* tune_measure.c: writes the fastest schedules by simulation as C and MPI and times them on this
 * machine together with the plain program; the measurement decides their order. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/sort.h"
#include "lang/tune/tune.h"

struct measuring {
	const lc_program *p;
	lk_search *search;
	lc_variant *variants; /* plain first */
	int *found;           /* [count] index in the search, -1 plain */
	int count;
	lk_arena arena;
};

static lk_status measure_add_variant(struct measuring *measuring, int found, lk_error *err) {
	const lc_schedule *schedule = found >= 0 ? &measuring->search->found.at[found].schedule : NULL;
	lc_variant *variant = &measuring->variants[measuring->count];
	lc_program *program = NULL;
	lc_steps *steps = NULL;
	*variant = (lc_variant){
		.name = schedule ? lk_arena_printf(&measuring->arena, "rank_%d", found + 1) : "plain"};
	if (!variant->name) return lk_oom(err);
	measuring->found[measuring->count++] = found;
	LK_TRY(lc_rewrite_all(measuring->p, schedule, &program, err));
	lk_status status = lc_steps_joined(program, &program, &steps, err);
	variant->program = program;
	variant->steps = steps;
	LK_TRY(status);
	variant->schedule = schedule ? lk_wisdom_text(&measuring->arena, schedule) : NULL;
	return LK_OK;
}

static lk_status measure_add_variants(struct measuring *measuring, int top, lk_error *err) {
	measuring->variants = LK_ARRAY(&measuring->arena, lc_variant, (size_t)top + 1);
	measuring->found = LK_ARRAY(&measuring->arena, int, (size_t)top + 1);
	if (!measuring->variants || !measuring->found) return lk_oom(err);
	LK_TRY(measure_add_variant(measuring, -1, err));
	for (int i = 0; i < top && i < (int)measuring->search->found.count; i++)
		if (measuring->search->found.at[i].schedule.count)
			LK_TRY(measure_add_variant(measuring, i, err));
	return LK_OK;
}

static int measure_compare(const void *a, const void *b) {
	const lk_found *x = a, *y = b;
	if (x->measured != y->measured) return x->measured ? -1 : 1;
	return x->time.seconds < y->time.seconds ? -1 : x->time.seconds > y->time.seconds;
}

static void measure_set(lk_found *found, double seconds) {
	if (!found->measured) found->simulated_s = found->time.seconds;
	found->time.seconds = seconds;
	found->measured = true;
}

/* The row with the least simulated time. */
static int measure_simulated_best(const lc_bench_result *result) {
	int best = 0;
	for (int i = 1; i < result->count; i++)
		if (result->rows[i].predicted < result->rows[best].predicted) best = i;
	return best;
}

/* The fastest row that is faster than plain by more than the noise; else 0, plain. */
static int measure_fastest(const lc_bench_result *result) {
	int best = 0;
	for (int i = 1; i < result->count; i++)
		if (result->rows[i].ratio.low > 1 &&
		    result->rows[i].time.median < result->rows[best].time.median)
			best = i;
	return best;
}

lk_status lk_search_trust(lk_search *search, lc_bench_result *result, const int *found_of,
                          lk_error *err) {
	lk_measurement *m = &search->measurement;
	for (int i = 0; i < result->count; i++)
		result->rows[i].predicted = found_of[i] >= 0 ? search->found.at[found_of[i]].time.seconds
		                                             : search->plain.time.seconds;
	LK_TRY(lc_bench_rank(result, err));
	int first = measure_fastest(result);
	*m = (lk_measurement){.schedules = result->count,
	                      .rounds = result->rounds,
	                      .tau = result->tau,
	                      .pairs = result->pairs,
	                      .plain = first == 0,
	                      .simulated = result->rows[measure_simulated_best(result)].ratio,
	                      .first = result->rows[first].ratio};
	for (int i = 0; i < result->count; i++)
		measure_set(found_of[i] >= 0 ? &search->found.at[found_of[i]] : &search->plain,
		            result->rows[i].time.median);
	for (size_t i = 0; i < search->found.count; i++)
		if (search->found.at[i].schedule.count == 0) search->found.at[i] = search->plain;
	if (search->step.path) {
		lk_search_order_in_step(search);
		return LK_OK;
	}
	lk_sort(search->found.at, search->found.count, sizeof *search->found.at, measure_compare);
	for (size_t i = 0; i < search->found.count && m->plain; i++) {
		if (search->found.at[i].schedule.count) continue;
		memmove(&search->found.at[1], &search->found.at[0], i * sizeof *search->found.at);
		search->found.at[0] = search->plain;
		break;
	}
	return LK_OK;
}

lk_status lk_search_measure(const lc_program *program, lk_search *search, int top,
                            const char *sizes, const char *settings, int seed, lk_error *err) {
	struct measuring m = {.p = program, .search = search};
	lc_bench_options o = {.sizes = sizes, .set = settings, .seed = seed};
	lc_bench_result result = {0};
	lk_status status = measure_add_variants(&m, top, err);
	if (status == LK_OK) status = lc_bench(program, m.variants, m.count, &o, &result, err);
	if (status == LK_OK) status = lk_search_trust(search, &result, m.found, err);
	lc_bench_free(&result);
	for (int i = 0; i < m.count; i++) {
		lc_steps_free((lc_steps *)(uintptr_t)m.variants[i].steps);
		lc_program_free((lc_program *)(uintptr_t)m.variants[i].program);
	}
	lk_arena_free(&m.arena);
	return status;
}
