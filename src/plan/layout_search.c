/* layout_search.c: bounds for all layouts, then simulation in the order of the bounds until no bound is below what was found.
 * Before a layout is simulated its schedule is walked, which gives it a closer bound and so its final place in that order.
 *
 * One layout of each core, sharding and kind of recomputation is shown: the best of its *group*. A layout is passed over when
 * its bound lies above the slowest of the best that are wanted, or above what was found for its group; and what it would have
 * to beat is the limit at which its simulation is cut short.
 *
 * Layouts are tried in batches, one of a group at a time, so that each knows what the better ones of its group gave. Sizes
 * of batches do not depend on the number of threads or processes, and what a batch finds is looked at in its order: which
 * layouts are simulated, and how far, is the same everywhere. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/parallel.h"
#include "base/units.h"
#include "plan/plan.h"

enum { TOP = 5, FIRST_BATCH = 4, LAST_BATCH = 256, KINDS = 3, SHARDINGS = 4 };

int lk_plan_top(const lk_plan_request *request) {
	return request->top > 0 ? request->top : TOP;
}

/* ---- workers ---- */

/* The best layout of a group. */
struct found {
	uint32_t layout;
	lk_trial trial;
};

struct hunt {
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
	int64_t limit_ps[LAST_BATCH];
	lk_trial trials[LAST_BATCH];
	uint32_t *heap;        /* layouts that may still matter, the least bound on top */
	size_t waiting;        /* of them */
	bool *walked;          /* [layouts] */
	uint32_t *batch_of;    /* [groups] the last batch that has a layout of it */
	uint32_t batches;
	/* what was found */
	int64_t *best_ps;      /* [groups] INT64_MAX: nothing */
	struct found *best;           /* [groups] */
	uint32_t *top;         /* [top_count] groups, fastest first */
	int top_count, top_most;
};

static double processor_s(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A worker that nobody uses, or a new one; NULL when memory is out. */
static lk_bounder *take_worker(struct hunt *h) {
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

static void give_worker(struct hunt *h, lk_bounder *b) {
	pthread_mutex_lock(&h->lock);
	b->next = h->idle;
	h->idle = b;
	pthread_mutex_unlock(&h->lock);
}

static void free_workers(struct hunt *h) {
	while (h->idle) {
		lk_bounder *b = h->idle;
		h->idle = b->next;
		h->out->bound_s += b->bound_s;
		h->out->schedule_s += b->walk_s;
		h->out->simulate_s += b->try_s;
		lk_cost_cache_free(b->cache);
		free(b);
	}
}

/* ---- tasks ---- */

struct own_tasks {
	lk_plan_task *task;
	void *context;
	char *results;
	size_t size;
};

static lk_status run_own(void *context, size_t i, lk_error *err) {
	struct own_tasks *t = context;
	return t->task(t->context, i, t->results + i * t->size, err);
}

lk_status lk_plan_share(const lk_plan_request *request, size_t count, size_t size, lk_plan_task *task, void *context,
						void *results, lk_error *err) {
	if (request->team) return request->team->run(request->team->self, count, size, task, context, results, err);
	struct own_tasks own = {task, context, results, size};
	return lk_parallel(count, request->threads, run_own, &own, err);
}

/* ---- bounds ---- */

static lk_status find_families(struct hunt *h, lk_error *err) {
	for (uint32_t i = 0; i <= h->cores.count; i++) {
		bool begins = i == 0 || i == h->cores.count || !lk_cores_alike(&h->cores.at[i - 1], &h->cores.at[i]);
		if (!begins || (i == 0 && h->cores.count == 0)) continue;
		if (!lk_push(&h->family)) return lk_oom(err);
		*lk_last(&h->family) = i;
	}
	return LK_OK;
}

static lk_status bound_family(void *context, size_t i, lk_error *err) {
	struct hunt *h = context;
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

static lk_status collect(struct hunt *h, size_t families, lk_error *err) {
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

static lk_status bound_all(struct hunt *h, lk_error *err) {
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

lk_status lk_layout_try(lk_bounder *b, const lk_core *core, const lk_layout *layout, int64_t limit_ps, lk_trial *out,
						lk_error *err) {
	lk_job job;
	lk_step step;
	memset(out, 0, sizeof *out);
	out->outcome = LK_ILLEGAL;
	if (lk_layout_job(b->space, core, layout, &job, NULL) != LK_OK) return LK_OK;
	lk_step_options options = {.bare = true,
							   .give_up_ps = limit_ps,
							   .cache = b->cache,
							   .constants = lk_bounder_constants(b, core->stack, &job)};
	lk_status status = lk_step_ask(&job, b->space->cluster, &options, &step, err);
	if (status == LK_OK) {
		out->peak = step.memory[step.fullest].total, out->usable = step.usable;
		out->step_ps = step.sim.step_ps;
		out->outcome = !lk_step_fits(&step) ? LK_TOO_LARGE : step.sim.gave_up ? LK_CUT_SHORT : LK_SIMULATED;
	}
	lk_step_free(&step);
	return status == LK_ERR_INPUT ? LK_OK : status; /* more kinds of places than are simulated */
}

static lk_status try_one(void *context, size_t i, void *result, lk_error *err) {
	struct hunt *h = context;
	lk_bounder *b = take_worker(h);
	if (!b) return lk_oom(err);
	double start = processor_s();
	const lk_layout *layout = &h->layouts.at[h->batch[i]];
	lk_status status = lk_layout_try(b, &h->cores.at[layout->core], layout, h->limit_ps[i], result, err);
	b->try_s += processor_s() - start;
	give_worker(h, b);
	return status;
}

static size_t group_of(const lk_layout *l) {
	return ((size_t)l->core * SHARDINGS + l->sharding) * KINDS + l->recompute;
}

/* The group's place among the best, after it has become faster. */
static void rank_group(struct hunt *h, uint32_t group) {
	int at = 0;
	while (at < h->top_count && h->top[at] != group) at++;
	if (at == h->top_count && h->top_count < h->top_most)
		h->top_count++;
	else if (at == h->top_count && h->best_ps[h->top[--at]] <= h->best_ps[group])
		return;
	for (; at > 0 && h->best_ps[h->top[at - 1]] > h->best_ps[group]; at--) h->top[at] = h->top[at - 1];
	h->top[at] = group;
}

static void note_trial(struct hunt *h, uint32_t number, const lk_trial *trial) {
	size_t group = group_of(&h->layouts.at[number]);
	h->out->simulated += trial->outcome == LK_SIMULATED;
	h->out->cut_short += trial->outcome == LK_CUT_SHORT;
	h->out->found_too_large += trial->outcome == LK_TOO_LARGE;
	if (trial->outcome != LK_SIMULATED || trial->step_ps >= h->best_ps[group]) return;
	h->best_ps[group] = trial->step_ps;
	h->best[group] = (struct found){number, *trial};
	rank_group(h, (uint32_t)group);
}

/* The time that a layout of the group has to beat; 0: any. */
static int64_t limit_of(const struct hunt *h, size_t group) {
	if (h->request->exhaustive) return 0;
	bool full = h->top_count == h->top_most;
	int64_t worst = full ? h->best_ps[h->top[h->top_count - 1]] : INT64_MAX;
	int64_t limit = worst < h->best_ps[group] ? worst : h->best_ps[group];
	return limit < INT64_MAX ? limit : 0;
}

/* Whether a layout can still change the answer; *last: it cannot, nor can any behind it. */
static bool may_matter(const struct hunt *h, const lk_layout *l, bool *last) {
	double least_ps = l->least_s * LK_PS_PER_S;
	if (h->request->exhaustive) return true;
	bool full = h->top_count == h->top_most;
	*last = full && least_ps > (double)h->best_ps[h->top[h->top_count - 1]];
	return !*last && least_ps < (double)h->best_ps[group_of(l)];
}

/* ---- the order ---- */

/* Those with the same bound in the order in which bounds were first sorted, so that it is the same everywhere. */
static bool before(const struct hunt *h, uint32_t a, uint32_t b) {
	float x = h->layouts.at[a].least_s, y = h->layouts.at[b].least_s;
	return x < y || (x == y && a < b);
}

static void put(struct hunt *h, uint32_t number) {
	size_t at = h->waiting++;
	for (; at > 0 && before(h, number, h->heap[(at - 1) / 2]); at = (at - 1) / 2) h->heap[at] = h->heap[(at - 1) / 2];
	h->heap[at] = number;
}

static uint32_t take_first(struct hunt *h) {
	uint32_t first = h->heap[0], last = h->heap[--h->waiting];
	size_t at = 0;
	for (size_t next; (next = 2 * at + 1) < h->waiting; at = next) {
		if (next + 1 < h->waiting && before(h, h->heap[next + 1], h->heap[next])) next++;
		if (!before(h, h->heap[next], last)) break;
		h->heap[at] = h->heap[next];
	}
	if (h->waiting > 0) h->heap[at] = last;
	return first;
}

/* Takes up to `most` layouts with the least bounds that may matter, one of each group; others of their groups wait. */
static int take_batch(struct hunt *h, int most) {
	uint32_t behind[4 * LAST_BATCH];
	int count = 0, set_aside = 0;
	h->batches++;
	while (h->waiting > 0 && count < most && set_aside < 4 * LAST_BATCH) {
		const lk_layout *l = &h->layouts.at[h->heap[0]];
		size_t group = group_of(l);
		bool last = false, matters = may_matter(h, l, &last);
		if (last) break;
		uint32_t number = take_first(h);
		if (!matters) {
			h->out->too_slow++;
		} else if (h->batch_of[group] == h->batches && !h->request->exhaustive) {
			behind[set_aside++] = number;
		} else {
			h->batch_of[group] = h->batches;
			h->limit_ps[count] = limit_of(h, group);
			h->batch[count++] = number;
		}
	}
	while (set_aside > 0) put(h, behind[--set_aside]);
	return count;
}

static lk_status walk_one(void *context, size_t i, void *result, lk_error *err) {
	struct hunt *h = context;
	uint32_t number = h->batch[i];
	const lk_layout *layout = &h->layouts.at[number];
	*(float *)result = layout->least_s;
	if (h->walked[number]) return LK_OK;
	lk_bounder *b = take_worker(h);
	if (!b) return lk_oom(err);
	double start = processor_s();
	lk_status status = lk_walk_layout(b, &h->cores.at[layout->core], layout, result, err);
	b->walk_s += processor_s() - start;
	give_worker(h, b);
	return status;
}

/* Walks the schedules of the batch that were not walked yet, and puts all of it back. */
static lk_status walk_batch(struct hunt *h, int count, lk_error *err) {
	float least_s[LAST_BATCH];
	LK_TRY(lk_plan_share(h->request, (size_t)count, sizeof *least_s, walk_one, h, least_s, err));
	for (int i = 0; i < count; i++) {
		uint32_t number = h->batch[i];
		h->out->schedules_walked += !h->walked[number];
		h->walked[number] = true;
		h->layouts.at[number].least_s = least_s[i];
		put(h, number);
	}
	return LK_OK;
}

static bool all_walked(const struct hunt *h, int count) {
	for (int i = 0; i < count; i++)
		if (!h->walked[h->batch[i]]) return false;
	return true;
}

/* Fills the batch with layouts whose schedules were walked; 0: none is left. */
static lk_status next_batch(struct hunt *h, int most, int *count, lk_error *err) {
	while ((*count = take_batch(h, most)) > 0 && !h->request->exhaustive && !all_walked(h, *count))
		LK_TRY(walk_batch(h, *count, err));
	if (*count == 0) h->out->too_slow += h->waiting, h->waiting = 0;
	return LK_OK;
}

static void tell(const struct hunt *h, size_t at) {
	if (h->request->progress)
		h->request->progress(h->request->progress_context, h->space->gpus, (double)at, (double)h->layouts.count);
}

static lk_status try_all(struct hunt *h, lk_error *err) {
	int most = h->top_most > FIRST_BATCH ? h->top_most : FIRST_BATCH;
	for (int count; ; most += most < LAST_BATCH ? most : 0) {
		LK_TRY(next_batch(h, most < LAST_BATCH ? most : LAST_BATCH, &count, err));
		if (count == 0) return LK_OK;
		LK_TRY(lk_plan_share(h->request, (size_t)count, sizeof *h->trials, try_one, h, h->trials, err));
		for (int i = 0; i < count; i++) note_trial(h, h->batch[i], &h->trials[i]);
		tell(h, h->layouts.count - h->waiting);
	}
}

static lk_status begin_trials(struct hunt *h, lk_arena *arena, lk_error *err) {
	size_t groups = h->cores.count * SHARDINGS * KINDS;
	h->top_most = lk_plan_top(h->request);
	h->best_ps = malloc((groups + 1) * sizeof *h->best_ps);
	h->best = calloc(groups + 1, sizeof *h->best);
	h->batch_of = calloc(groups + 1, sizeof *h->batch_of);
	h->walked = calloc(h->layouts.count + 1, sizeof *h->walked);
	h->heap = malloc((h->layouts.count + 1) * sizeof *h->heap);
	h->top = LK_ARRAY(arena, uint32_t, h->top_most + 1);
	if (!h->best_ps || !h->best || !h->batch_of || !h->walked || !h->heap || !h->top) return lk_oom(err);
	for (size_t i = 0; i < groups; i++) h->best_ps[i] = INT64_MAX;
	for (uint32_t i = 0; i < h->layouts.count; i++) h->heap[h->waiting++] = i; /* sorted, so a heap */
	return LK_OK;
}

/* ---- the answer ---- */

static lk_status take_best(struct hunt *h, lk_arena *arena, lk_error *err) {
	lk_hunt *out = h->out;
	out->best = LK_ARRAY(arena, lk_ranked, h->top_count + 1);
	if (!out->best) return lk_oom(err);
	for (int i = 0; i < h->top_count; i++) {
		const struct found *best = &h->best[h->top[i]];
		const lk_layout *layout = &h->layouts.at[best->layout];
		out->best[out->best_count++] = (lk_ranked){*layout, h->cores.at[layout->core], best->trial};
	}
	if (out->best_count || !out->any) return LK_OK;
	lk_bounder *b = take_worker(h);
	if (!b) return lk_oom(err);
	lk_status status = lk_layout_try(b, &out->closest.core, &out->closest.layout, 0, &out->closest.trial, err);
	give_worker(h, b);
	return status;
}

static lk_status hunt_layouts(struct hunt *h, lk_arena *arena, lk_error *err) {
	LK_TRY(bound_all(h, err));
	tell(h, 0);
	LK_TRY(begin_trials(h, arena, err));
	LK_TRY(try_all(h, err));
	return take_best(h, arena, err);
}

lk_status lk_hunt_run(const lk_plan_request *request, const lk_space *space, lk_arena *arena, lk_hunt *out,
					  lk_error *err) {
	struct hunt *h = calloc(1, sizeof *h);
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
	free(h->best);
	free(h->batch_of);
	free(h->walked);
	free(h->heap);
	free(h);
	return status;
}
