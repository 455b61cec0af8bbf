/* tune_measure.c: the fastest schedules by simulation, written as C and MPI and timed on this machine beside the plain
 * program; what is measured decides their order. */
#include <stdlib.h>
#include <string.h>

#include "lang/tune/tune.h"

struct measuring {
	const lc_program *p;
	lk_search *search;
	lc_variant *variants;   /* plain first */
	int *found;             /* [count] which of the search's, -1 plain */
	int count;
	lk_arena arena;
};

static lk_status add_variant(struct measuring *m, int found, lk_error *err) {
	const lc_schedule *s = found >= 0 ? &m->search->found.at[found].schedule : NULL;
	lc_variant *v = &m->variants[m->count];
	lc_program *q = NULL;
	lc_steps *steps = NULL;
	*v = (lc_variant){.name = s ? lk_arena_printf(&m->arena, "rank_%d", found + 1) : "plain"};
	if (!v->name) return lk_oom(err);
	m->found[m->count++] = found;
	LK_TRY(lc_rewrite_all(m->p, s, &q, err));
	v->program = q;
	LK_TRY(lc_steps_make(q, &steps, err));
	v->steps = steps;
	v->schedule = s ? lk_wisdom_text(&m->arena, s) : NULL;
	return LK_OK;
}

static lk_status add_variants(struct measuring *m, int top, lk_error *err) {
	m->variants = LK_ARRAY(&m->arena, lc_variant, (size_t)top + 1);
	m->found = LK_ARRAY(&m->arena, int, (size_t)top + 1);
	if (!m->variants || !m->found) return lk_oom(err);
	LK_TRY(add_variant(m, -1, err));
	for (int i = 0; i < top && i < (int)m->search->found.count; i++)
		if (m->search->found.at[i].schedule.count) LK_TRY(add_variant(m, i, err));
	return LK_OK;
}

static int compare(const void *a, const void *b) {
	const lk_found *x = a, *y = b;
	if (x->measured != y->measured) return x->measured ? -1 : 1;
	return x->time.seconds < y->time.seconds ? -1 : x->time.seconds > y->time.seconds;
}

static void set(lk_found *f, double seconds) {
	if (!f->measured) f->simulated_s = f->time.seconds;
	f->time.seconds = seconds, f->measured = true;
}

static void take(struct measuring *m, const lc_bench_result *r) {
	lk_search *s = m->search;
	for (int i = 0; i < r->count; i++)
		set(m->found[i] >= 0 ? &s->found.at[m->found[i]] : &s->plain, r->rows[i].time.median);
	for (size_t i = 0; i < s->found.count; i++)
		if (s->found.at[i].schedule.count == 0) s->found.at[i] = s->plain;
	qsort(s->found.at, s->found.count, sizeof *s->found.at, compare);
}

lk_status lk_search_measure(const lc_program *p, lk_search *search, int top, const char *sizes, const char *settings, int seed,
                            lk_error *err) {
	struct measuring m = {.p = p, .search = search};
	lc_bench_options o = {.sizes = sizes, .set = settings, .seed = seed};
	lc_bench_result result = {0};
	lk_status status = add_variants(&m, top, err);
	if (status == LK_OK) status = lc_bench(p, m.variants, m.count, &o, &result, err);
	if (status == LK_OK) take(&m, &result);
	lc_bench_free(&result);
	for (int i = 0; i < m.count; i++) {
		lc_steps_free((lc_steps *)(uintptr_t)m.variants[i].steps);
		lc_program_free((lc_program *)(uintptr_t)m.variants[i].program);
	}
	lk_arena_free(&m.arena);
	return status;
}
