/* layout_search.c: bounds for all layouts, then simulation in the order of the bounds until no bound is below what was found.
 *
 * Layouts are tried in batches whose sizes do not depend on the number of threads or processes, and what a batch finds is
 * looked at in its order: which layouts are simulated is the same everywhere. A layout is passed over when its bound lies
 * above the slowest of the best that are wanted, or above what was found for the same degrees: one layout of each core,
 * sharding and kind of recomputation is shown. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/parallel.h"
#include "base/units.h"
#include "plan/layout.h"

enum { TOP = 5, FIRST_BATCH = 16, LAST_BATCH = 256, KINDS = 3, SHARDINGS = 4 };

int lk_plan_top(const lk_plan_request *request) {
	return request->top > 0 ? request->top : TOP;
}

/* ---- workers ---- */

typedef struct hunt {
	const lk_plan_request *request;
	const lk_space *space;
	lk_hunt *out;
	lk_cores_list cores;
	pthread_mutex_t lock;
	lk_bounder *idle, *all;
	size_t made;
	/* families of cores */
	LK_VEC(uint32_t) family; /* first cores, and the end */
	lk_bounded *bounded;     /* [families] */
	lk_layouts layouts;      /* by bound */
	/* the present batch */
	uint32_t batch[LAST_BATCH];
	lk_trial trials[LAST_BATCH];
	/* what was found */
	int64_t *best_ps;      /* [groups] INT64_MAX: nothing */
	uint32_t *best_layout; /* [groups] */
	uint32_t *top;         /* [top_count] groups, fastest first */
	int top_count, top_most;
} hunt;

static double processor_s(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A worker that nobody uses, or a new one; NULL when memory is out. */
static lk_bounder *take_worker(hunt *h) {
	pthread_mutex_lock(&h->lock);
	lk_bounder *b = h->idle;
	if (b) h->idle = b->next;
	pthread_mutex_unlock(&h->lock);
	if (b) return b;
	b = calloc(1, sizeof *b);
	lk_cost_cache *cache = lk_cost_cache_new();
	if (b && cache) {
		lk_bounder_begin(b, h->space, cache);
		return b;
	}
	free(b);
	lk_cost_cache_free(cache);
	return NULL;
}

static void give_worker(hunt *h, lk_bounder *b) {
	pthread_mutex_lock(&h->lock);
	b->next = h->idle;
	h->idle = b;
	pthread_mutex_unlock(&h->lock);
}

static void free_workers(hunt *h) {
	while (h->idle) {
		lk_bounder *b = h->idle;
		h->idle = b->next;
		h->out->bound_s += b->bound_s;
		h->out->simulate_s += b->try_s;
		lk_cost_cache_free(b->cache);
		free(b);
	}
}

/* ---- tasks ---- */

typedef struct own_tasks {
	lk_plan_task *task;
	void *context;
	char *results;
	size_t size;
} own_tasks;

static lk_status run_own(void *context, size_t i, lk_error *err) {
	own_tasks *t = context;
	return t->task(t->context, i, t->results + i * t->size, err);
}

lk_status lk_plan_share(const lk_plan_request *request, size_t count, size_t size, lk_plan_task *task, void *context,
						void *results, lk_error *err) {
	if (request->team) return request->team->run(request->team->self, count, size, task, context, results, err);
	own_tasks own = {task, context, results, size};
	return lk_parallel(count, request->threads, run_own, &own, err);
}

/* ---- bounds ---- */

static lk_status find_families(hunt *h, lk_error *err) {
	for (uint32_t i = 0; i <= h->cores.count; i++) {
		bool begins = i == 0 || i == h->cores.count || !lk_cores_alike(&h->cores.at[i - 1], &h->cores.at[i]);
		if (!begins || (i == 0 && h->cores.count == 0)) continue;
		if (!lk_push(&h->family)) return lk_oom(err);
		*lk_last(&h->family) = i;
	}
	return LK_OK;
}

static lk_status bound_family(void *context, size_t i, lk_error *err) {
	hunt *h = context;
	lk_bounder *b = take_worker(h);
	if (!b) return lk_oom(err);
	double start = processor_s();
	uint32_t first = h->family.at[i], end = h->family.at[i + 1];
	lk_status status = lk_bound_cores(b, &h->cores.at[first], first, (int)(end - first), &h->bounded[i], err);
	b->bound_s += processor_s() - start;
	give_worker(h, b);
	return status;
}

static int by_bound(const void *a, const void *b) {
	const lk_layout *x = a, *y = b;
	if (x->least_s != y->least_s) return x->least_s < y->least_s ? -1 : 1;
	return memcmp(&x->core, &y->core,
				  offsetof(lk_layout, least_s) - offsetof(lk_layout, core)); /* any order, but always the same */
}

static lk_status collect(hunt *h, size_t families, lk_error *err) {
	double excess = INFINITY;
	size_t kept = 0;
	for (size_t i = 0; i < families; i++) kept += h->bounded[i].kept.count;
	if (kept && !lk_reserve(&h->layouts, kept)) return lk_oom(err);
	for (size_t i = 0; i < families; i++) {
		const lk_bounded *b = &h->bounded[i];
		if (b->kept.count) memcpy(h->layouts.at + h->layouts.count, b->kept.at, b->kept.count * sizeof *b->kept.at);
		h->layouts.count += b->kept.count;
		h->out->layouts += b->layouts;
		h->out->too_large += b->too_large;
		if (!b->any || b->closest_bytes - b->closest_usable >= excess) continue;
		excess = b->closest_bytes - b->closest_usable;
		h->out->any = true;
		h->out->closest.layout = b->closest;
		h->out->closest.core = h->cores.at[b->closest.core];
	}
	h->out->bounded = h->out->layouts;
	if (h->layouts.count) qsort(h->layouts.at, h->layouts.count, sizeof *h->layouts.at, by_bound);
	return LK_OK;
}

static lk_status bound_all(hunt *h, lk_error *err) {
	LK_TRY(lk_space_cores(h->space, &h->cores, err));
	LK_TRY(find_families(h, err));
	size_t families = h->family.count > 0 ? h->family.count - 1 : 0;
	h->bounded = calloc(families + 1, sizeof *h->bounded);
	if (!h->bounded) return lk_oom(err);
	lk_status status = lk_parallel(families, h->request->threads, bound_family, h, err);
	if (status == LK_OK) status = collect(h, families, err);
	for (size_t i = 0; i < families; i++) lk_vec_free(&h->bounded[i].kept);
	return status;
}

/* ---- trials ---- */

lk_status lk_layout_try(lk_bounder *b, const lk_core *core, const lk_layout *layout, lk_trial *out, lk_error *err) {
	lk_job job;
	lk_step step;
	memset(out, 0, sizeof *out);
	out->outcome = LK_ILLEGAL;
	if (lk_layout_job(b->space, core, layout, &job, NULL) != LK_OK) return LK_OK;
	lk_step_options options = {
		.bare = true, .cache = b->cache, .constants = lk_bounder_constants(b, core->stack, &job)};
	lk_status status = lk_step_ask(&job, b->space->cluster, &options, &step, err);
	if (status == LK_OK) {
		out->peak = step.memory[step.fullest].total, out->usable = step.usable;
		out->step_ps = step.sim.step_ps;
		out->outcome = lk_step_fits(&step) ? LK_SIMULATED : LK_TOO_LARGE;
	}
	lk_step_free(&step);
	return status == LK_ERR_INPUT ? LK_OK : status; /* more kinds of places than are simulated */
}

static lk_status try_one(void *context, size_t i, void *result, lk_error *err) {
	hunt *h = context;
	lk_bounder *b = take_worker(h);
	if (!b) return lk_oom(err);
	double start = processor_s();
	const lk_layout *layout = &h->layouts.at[h->batch[i]];
	lk_status status = lk_layout_try(b, &h->cores.at[layout->core], layout, result, err);
	b->try_s += processor_s() - start;
	give_worker(h, b);
	return status;
}

static size_t group_of(const lk_layout *l) {
	return ((size_t)l->core * SHARDINGS + l->sharding) * KINDS + l->recompute;
}

/* The group's place among the best, after it has become faster. */
static void rank_group(hunt *h, uint32_t group) {
	int at = 0;
	while (at < h->top_count && h->top[at] != group) at++;
	if (at == h->top_count && h->top_count < h->top_most)
		h->top_count++;
	else if (at == h->top_count && h->best_ps[h->top[--at]] <= h->best_ps[group])
		return;
	for (; at > 0 && h->best_ps[h->top[at - 1]] > h->best_ps[group]; at--) h->top[at] = h->top[at - 1];
	h->top[at] = group;
}

static void note_trial(hunt *h, uint32_t number, const lk_trial *trial) {
	size_t group = group_of(&h->layouts.at[number]);
	h->out->simulated += trial->outcome == LK_SIMULATED;
	h->out->walked += trial->outcome == LK_TOO_LARGE;
	if (trial->outcome != LK_SIMULATED || trial->step_ps >= h->best_ps[group]) return;
	h->best_ps[group] = trial->step_ps;
	h->best_layout[group] = number;
	rank_group(h, (uint32_t)group);
}

/* Whether a layout can still change the answer; *last: nor can any behind it. */
static bool may_matter(const hunt *h, const lk_layout *l, bool *last) {
	double least_ps = l->least_s * LK_PS_PER_S;
	if (h->request->exhaustive) return true;
	bool full = h->top_count == h->top_most;
	*last = full && least_ps > (double)h->best_ps[h->top[h->top_count - 1]];
	return !*last && least_ps < (double)h->best_ps[group_of(l)];
}

/* Fills the batch from *at on; the number of layouts in it. */
static int next_batch(hunt *h, size_t *at, int most) {
	int count = 0;
	bool last = false;
	for (; *at < h->layouts.count && count < most; ++*at) {
		if (may_matter(h, &h->layouts.at[*at], &last))
			h->batch[count++] = (uint32_t)*at;
		else if (!last)
			h->out->too_slow++;
		if (!last) continue;
		h->out->too_slow += h->layouts.count - *at;
		*at = h->layouts.count;
		break;
	}
	return count;
}

static void tell(const hunt *h, size_t at) {
	if (h->request->progress)
		h->request->progress(h->request->progress_context, h->space->gpus, (double)at, (double)h->layouts.count);
}

static lk_status try_all(hunt *h, lk_error *err) {
	size_t at = 0;
	for (int most = FIRST_BATCH, count; (count = next_batch(h, &at, most)) > 0;
		 most = most < LAST_BATCH ? 2 * most : most) {
		LK_TRY(lk_plan_share(h->request, (size_t)count, sizeof *h->trials, try_one, h, h->trials, err));
		for (int i = 0; i < count; i++) note_trial(h, h->batch[i], &h->trials[i]);
		tell(h, at);
	}
	return LK_OK;
}

static lk_status begin_trials(hunt *h, lk_arena *arena, lk_error *err) {
	size_t groups = h->cores.count * SHARDINGS * KINDS;
	h->top_most = lk_plan_top(h->request);
	h->best_ps = malloc((groups + 1) * sizeof *h->best_ps);
	h->best_layout = calloc(groups + 1, sizeof *h->best_layout);
	h->top = LK_ARRAY(arena, uint32_t, h->top_most + 1);
	if (!h->best_ps || !h->best_layout || !h->top) return lk_oom(err);
	for (size_t i = 0; i < groups; i++) h->best_ps[i] = INT64_MAX;
	return LK_OK;
}

/* ---- the answer ---- */

static lk_status take_best(hunt *h, lk_arena *arena, lk_error *err) {
	lk_hunt *out = h->out;
	lk_bounder *b = NULL;
	out->best = LK_ARRAY(arena, lk_ranked, h->top_count + 1);
	if (!out->best || !(b = take_worker(h))) return lk_oom(err);
	lk_status status = LK_OK;
	for (int i = 0; i < h->top_count && status == LK_OK; i++) {
		lk_ranked *r = &out->best[out->best_count++];
		r->layout = h->layouts.at[h->best_layout[h->top[i]]];
		r->core = h->cores.at[r->layout.core];
		status = lk_layout_try(b, &r->core, &r->layout, &r->trial, err);
	}
	if (status == LK_OK && !out->best_count && out->any)
		status = lk_layout_try(b, &out->closest.core, &out->closest.layout, &out->closest.trial, err);
	give_worker(h, b);
	return status;
}

static lk_status hunt_layouts(hunt *h, lk_arena *arena, lk_error *err) {
	LK_TRY(bound_all(h, err));
	tell(h, 0);
	LK_TRY(begin_trials(h, arena, err));
	LK_TRY(try_all(h, err));
	return take_best(h, arena, err);
}

lk_status lk_hunt_run(const lk_plan_request *request, const lk_space *space, lk_arena *arena, lk_hunt *out,
					  lk_error *err) {
	hunt *h = calloc(1, sizeof *h);
	memset(out, 0, sizeof *out);
	if (!h) return lk_oom(err);
	h->request = request, h->space = space, h->out = out;
	pthread_mutex_init(&h->lock, NULL);
	lk_status status = hunt_layouts(h, arena, err);
	free_workers(h);
	pthread_mutex_destroy(&h->lock);
	lk_vec_free(&h->cores);
	lk_vec_free(&h->family);
	lk_vec_free(&h->layouts);
	free(h->bounded);
	free(h->best_ps);
	free(h->best_layout);
	free(h);
	return status;
}
