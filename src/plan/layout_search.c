/* layout_search.c: bounds for all layouts, then simulation in the order of the bounds until no
 * bound is below the best found. Before a layout is simulated its schedule is evaluated, which
 * gives it a closer bound and so its final place in that order.
 *
 * If there are many families of layouts, a sample is bounded first, and its best layouts are
 * simulated: their time is a limit for the bounds of all others, most of which are then known to be
 * slower from their layers alone.
 *
 * Of all cores that differ only in split, one layout is shown per sharding and kind of
 * recomputation: the best of its *group*. A layout is skipped if its bound is above the slowest of
 * the wanted best, or above the best of its group; the time it would have to beat is the limit at
 * which its simulation is cut short.
 *
 * Layouts are tried in batches, one of a group at a time, so that each can use the results of the
 * better ones of its group. Sizes of batches do not depend on the number of threads or processes,
 * and the results of a batch are taken in order: which layouts are simulated, and how far, is the
 * same everywhere. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/check.h"
#include "system/parallel.h"
#include "base/units.h"
#include "base/sort.h"
#include "plan/plan.h"
#include "step/energy.h"

enum {
	TOP = 5,
	LAST_BATCH = 256,
	KINDS = 3,
	SHARDINGS = 4,
	SAMPLED = 16,       /* one in this many families is bounded first */
	SAMPLE_LEAST = 32,  /* with this many families or more */
	SAMPLE_BATCHES = 2, /* batches of the sample that are simulated */
	HABITS_KNOWN = 64
};

int lk_plan_top(const lk_plan_request *request) {
	return request->top > 0 ? request->top : TOP;
}

/* ---- workers ---- */

/* The best layout of a group. */
struct found {
	uint32_t layout;
	lk_trial trial;
};

/* Findings of the simulations of alike layouts. */
struct known_habits {
	uint32_t key;
	lk_step_habits habits;
};

struct hunt {
	const lk_plan_request *request;
	const lk_space *space;
	const lk_cutoff *cutoff; /* NULL: none */
	lk_hunt *out;
	lk_cores_list cores;
	pthread_mutex_t lock;
	lk_bounder *idle, *all;
	size_t made;
	/* families of cores */
	LK_VEC(uint32_t) family;         /* first cores, and the end */
	lk_bounded *bounded;             /* [families] */
	uint32_t *turn;                  /* [families] those of the sample first, then the others */
	size_t turns_all, turns_done;    /* in `turn` */
	double bound_limit_s;            /* layouts with a longer bound are of no interest */
	lk_layouts layouts;              /* of the sample by bound, then the others by bound */
	double closest_excess;           /* bytes by which the closest layout exceeds its memory */
	atomic_bool any_kept, unbounded; /* some family kept a layout; some families were skipped */
	/* the present batch */
	uint32_t batch[LAST_BATCH];
	lk_time_to_beat beat[LAST_BATCH];
	lk_step_habits known[LAST_BATCH];
	lk_trial trials[LAST_BATCH];
	uint32_t *heap;     /* layouts that may still matter, the least bound on top */
	size_t waiting;     /* of them */
	bool *walked;       /* [layouts] */
	uint32_t *batch_of; /* [groups] the last batch with a layout of it */
	uint32_t batches;
	bool any_fits; /* of those tried: until then the cutoff is ignored */
	/* results */
	struct known_habits habits[HABITS_KNOWN];
	int64_t *best_ps;   /* [groups] their ranking values; INT64_MAX: none */
	struct found *best; /* [groups] */
	uint32_t *top;      /* [top_count] groups, best first */
	int top_count, top_most;
	double fastest_ps; /* of all simulated; INFINITY: none */
};

static double processor_s(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* An idle worker, or a new one; NULL when memory runs out. */
static lk_bounder *take_worker(struct hunt *hunt) {
	pthread_mutex_lock(&hunt->lock);
	lk_bounder *bounder = hunt->idle;
	if (bounder) hunt->idle = bounder->next;
	pthread_mutex_unlock(&hunt->lock);
	if (bounder) return bounder;
	bounder = calloc(1, sizeof *bounder);
	lk_cost_cache *cache = lk_cost_cache_new();
	if (bounder && cache) {
		lk_bounder_begin(bounder, hunt->space, cache);
		return bounder;
	}
	free(bounder);
	lk_cost_cache_free(cache);
	return NULL;
}

static void give_worker(struct hunt *hunt, lk_bounder *bounder) {
	pthread_mutex_lock(&hunt->lock);
	bounder->next = hunt->idle;
	hunt->idle = bounder;
	pthread_mutex_unlock(&hunt->lock);
}

static void free_workers(struct hunt *hunt) {
	while (hunt->idle) {
		lk_bounder *bounder = hunt->idle;
		hunt->idle = bounder->next;
		hunt->out->bound_s += bounder->bound_s;
		hunt->out->schedule_s += bounder->walk_s;
		hunt->out->simulate_s += bounder->try_s;
		lk_cost_cache_free(bounder->cache);
		lk_bounder_end(bounder);
		free(bounder);
	}
}

/* ---- tasks ---- */

struct own_tasks {
	lk_plan_task *task;
	void *context;
	char *results;
	size_t size;
};

static lk_status search_run_own(void *context, size_t i, lk_error *err) {
	struct own_tasks *tasks = context;
	return tasks->task(tasks->context, i, tasks->results + i * tasks->size, err);
}

lk_status lk_plan_share(const lk_plan_request *request, size_t count, size_t size,
                        lk_plan_task *task, void *context, void *results, lk_error *err) {
	if (request->team)
		return request->team->run(request->team->self, count, size, task, context, results, err);
	struct own_tasks own = {task, context, results, size};
	return lk_parallel(count, request->threads, search_run_own, &own, err);
}

/* ---- bounds ---- */

static lk_status find_families(struct hunt *hunt, lk_error *err) {
	for (uint32_t i = 0; i <= hunt->cores.count; i++) {
		bool begins = i == 0 || i == hunt->cores.count ||
		              !lk_cores_alike(&hunt->cores.at[i - 1], &hunt->cores.at[i]);
		if (!begins || (i == 0 && hunt->cores.count == 0)) continue;
		if (!lk_push(&hunt->family)) return lk_oom(err);
		*lk_last(&hunt->family) = i;
	}
	return LK_OK;
}

/* Whether to skip a family. Processes of a team bound the same families. Until a layout is known
 * that may fit, the cutoff is ignored. */
static bool passes_family_over(struct hunt *hunt) {
	if (hunt->request->team || !lk_cutoff_reached(hunt->cutoff)) return false;
	if (!atomic_load_explicit(&hunt->any_kept, memory_order_relaxed)) return false;
	atomic_store_explicit(&hunt->unbounded, true, memory_order_relaxed);
	return true;
}

static lk_status bound_family(void *context, size_t at, lk_error *err) {
	struct hunt *hunt = context;
	uint32_t i = hunt->turn[hunt->turns_done + at];
	if (passes_family_over(hunt)) return LK_OK;
	lk_bounder *bounder = take_worker(hunt);
	if (!bounder) return lk_oom(err);
	double start = processor_s();
	uint32_t first = hunt->family.at[i], end = hunt->family.at[i + 1];
	lk_status status = lk_bound_cores(bounder, &hunt->cores.at[first], first, (int)(end - first),
	                                  hunt->bound_limit_s, &hunt->bounded[i], err);
	bounder->bound_s += processor_s() - start;
	give_worker(hunt, bounder);
	if (hunt->bounded[i].kept.count)
		atomic_store_explicit(&hunt->any_kept, true, memory_order_relaxed);
	return status;
}

static int by_bound(const void *a, const void *b) {
	const lk_layout *x = a, *y = b;
	if (x->least_s != y->least_s) return x->least_s < y->least_s ? -1 : 1;
	return memcmp(&x->core, &y->core,
	              offsetof(lk_layout, least_s) -
	                  offsetof(lk_layout, core)); /* in any order, but always the same one */
}

static void search_note_closest(struct hunt *hunt, const lk_bounded *bounded) {
	lk_hunt *out = hunt->out;
	double excess = bounded->closest_bytes - bounded->closest_usable;
	if (!bounded->any || (out->any && excess >= hunt->closest_excess)) return;
	hunt->closest_excess = excess;
	out->any = true;
	out->closest.layout = bounded->closest;
	out->closest.core = hunt->cores.at[bounded->closest.core];
}

/* Add the layouts that the families of these turns keep, by bound. */
static lk_status layout_search_collect(struct hunt *hunt, size_t begin, size_t end, lk_error *err) {
	size_t before = hunt->layouts.count, kept = 0;
	for (size_t i = begin; i < end; i++) kept += hunt->bounded[hunt->turn[i]].kept.count;
	if (kept && !lk_reserve(&hunt->layouts, kept)) return lk_oom(err);
	for (size_t i = begin; i < end; i++) {
		lk_bounded *bounded = &hunt->bounded[hunt->turn[i]];
		if (bounded->kept.count)
			memcpy(hunt->layouts.at + hunt->layouts.count, bounded->kept.at,
			       bounded->kept.count * sizeof *bounded->kept.at);
		hunt->layouts.count += bounded->kept.count;
		hunt->out->layouts += bounded->layouts;
		hunt->out->too_large += bounded->too_large;
		hunt->out->too_slow += bounded->too_slow;
		search_note_closest(hunt, bounded);
		lk_vec_free(&bounded->kept);
	}
	hunt->out->bounded = hunt->out->layouts;
	lk_sort(hunt->layouts.at + before, kept, sizeof *hunt->layouts.at, by_bound);
	return LK_OK;
}

/* Bound the next `count` families. */
static lk_status bound_turns(struct hunt *hunt, size_t count, lk_error *err) {
	size_t begin = hunt->turns_done;
	LK_TRY(lk_parallel(count, hunt->request->threads, bound_family, hunt, err));
	hunt->turns_done += count;
	return layout_search_collect(hunt, begin, begin + count, err);
}

/* Put every SAMPLED-th family first, since neighbours are alike, then the others. Returns the size
 * of the sample. */
static size_t search_take_turns(struct hunt *hunt, size_t families) {
	size_t step = (size_t)hunt->space->sampled;
	if (families < 2 * step || hunt->request->exhaustive) step = 1;
	size_t first = step / 2, count = 0, sampled;
	for (size_t i = first; i < families; i += step) hunt->turn[count++] = (uint32_t)i;
	sampled = count;
	for (size_t i = 0; i < families; i++)
		if (i % step != first) hunt->turn[count++] = (uint32_t)i;
	LK_ASSERT(count == families);
	return sampled;
}

/* ---- trials ---- */

static int64_t search_rank_ps(const lk_trial *trial) {
	return (int64_t)((double)trial->rank_ps * lk_tight_factor(trial->tight));
}

/* The least ranking value of a step of this length, and the longest step that may rank no later
 * than `rank_ps`. */
static double search_least_ps(const lk_space *space, double step_s) {
	return (space->by_energy ? lk_energy_least_s(step_s) : step_s) * LK_PS_PER_S;
}

static double search_longest_ps(const lk_space *space, double rank_ps) {
	return space->by_energy ? lk_energy_longest_s(rank_ps) : rank_ps;
}

/* What is known of layouts with these stages and this schedule from earlier batches. It spares
 * others a simulation that comes to nothing; a wrong guess only costs time. */
static struct known_habits *search_habits(struct hunt *hunt, const lk_layout *layout) {
	const lk_core *core = &hunt->cores.at[layout->core];
	uint32_t key = (uint32_t)core->pp;
	key = key * 1024 + (uint32_t)core->vp;
	key = key * 64 + (uint32_t)core->schedule;
	key = key * 8 + 4 * layout->tp_overlap + 2 * (core->cp > 1) + (core->ep > 1);
	struct known_habits *known = &hunt->habits[key * UINT32_C(0x9e3779b1) >> 26];
	if (known->key != key) *known = (struct known_habits){.key = key};
	return known;
}

/* Try a layout; after the cutoff it stays LK_UNKNOWN. */
static lk_status search_try_one(void *context, size_t i, void *result, lk_error *err) {
	struct hunt *hunt = context;
	if (hunt->any_fits && lk_cutoff_reached(hunt->cutoff)) {
		memset(result, 0, sizeof(lk_trial));
		return LK_OK;
	}
	lk_bounder *bounder = take_worker(hunt);
	if (!bounder) return lk_oom(err);
	double start = processor_s();
	const lk_layout *layout = &hunt->layouts.at[hunt->batch[i]];
	lk_status status = lk_layout_try(bounder, &hunt->cores.at[layout->core], layout, hunt->beat[i],
	                                 hunt->known[i], result, err);
	bounder->try_s += processor_s() - start;
	give_worker(hunt, bounder);
	return status;
}

static size_t search_group_of(const struct hunt *hunt, const lk_layout *layout) {
	return ((size_t)hunt->cores.at[layout->core].first * SHARDINGS + layout->sharding) * KINDS +
	       layout->recompute;
}

/* Update the ranking after a group has become faster. */
static void rank_group(struct hunt *hunt, uint32_t group) {
	int at = 0;
	while (at < hunt->top_count && hunt->top[at] != group) at++;
	if (at == hunt->top_count && hunt->top_count < hunt->top_most) hunt->top_count++;
	else if (at == hunt->top_count && hunt->best_ps[hunt->top[--at]] <= hunt->best_ps[group])
		return;
	for (; at > 0 && hunt->best_ps[hunt->top[at - 1]] > hunt->best_ps[group]; at--)
		hunt->top[at] = hunt->top[at - 1];
	hunt->top[at] = group;
}

static void note_trial(struct hunt *hunt, uint32_t number, const lk_trial *trial) {
	const lk_layout *layout = &hunt->layouts.at[number];
	size_t group = search_group_of(hunt, layout);
	if (trial->outcome == LK_SIMULATED || trial->outcome == LK_CUT_SHORT) {
		lk_step_habits *habits = &search_habits(hunt, layout)->habits;
		habits->unsettled = trial->habits.unsettled;
		habits->crowded = trial->habits.crowded || trial->habits.shares;
	}
	hunt->out->untried += trial->outcome == LK_UNKNOWN;
	hunt->out->simulated += trial->outcome == LK_SIMULATED;
	if (trial->outcome == LK_SIMULATED)
		hunt->fastest_ps = fmin(hunt->fastest_ps, (double)trial->step_ps);
	hunt->out->cut_short += trial->outcome == LK_CUT_SHORT;
	hunt->out->found_too_large += trial->outcome == LK_TOO_LARGE;
	if (trial->outcome != LK_SIMULATED || search_rank_ps(trial) >= hunt->best_ps[group]) return;
	if ((double)trial->step_ps > hunt->space->slowest_s * LK_PS_PER_S) return;
	hunt->best_ps[group] = search_rank_ps(trial);
	hunt->best[group] = (struct found){number, *trial};
	rank_group(hunt, (uint32_t)group);
}

/* Longer steps are not compared: energy is searched among layouts at most a tenth slower than the
 * fastest, since its bounds exclude few of the others. */
static double search_slowest_ps(const struct hunt *hunt) {
	double asked_ps = hunt->space->slowest_s * LK_PS_PER_S;
	return hunt->space->by_energy ? fmin(asked_ps, 1.1 * hunt->fastest_ps) : asked_ps;
}

/* The longest step that may rank no later than `rank_ps`, INT64_MAX: any, and is of interest at
 * all. */
static int64_t search_beat_ps(const struct hunt *hunt, int64_t rank_ps, bool tight) {
	double beat_ps = search_slowest_ps(hunt);
	if (rank_ps < INT64_MAX) {
		double step_ps = search_longest_ps(hunt->space, (double)rank_ps / lk_tight_factor(tight));
		beat_ps = fmin(beat_ps, step_ps + tight); /* ranks are whole picoseconds */
	}
	return isfinite(beat_ps) ? (int64_t)beat_ps : 0;
}

/* The time that a layout of the group has to beat. */
static lk_time_to_beat time_to_beat_in(const struct hunt *hunt, size_t group) {
	if (hunt->request->exhaustive) return (lk_time_to_beat){0};
	bool full = hunt->top_count == hunt->top_most;
	int64_t rank_ps = full ? hunt->best_ps[hunt->top[hunt->top_count - 1]] : INT64_MAX;
	if (hunt->best_ps[group] < rank_ps) rank_ps = hunt->best_ps[group];
	return (lk_time_to_beat){search_beat_ps(hunt, rank_ps, false),
	                         search_beat_ps(hunt, rank_ps, true)};
}

/* Whether a layout can still change the answer; *last: neither it nor any later one can. */
static bool may_matter(const struct hunt *hunt, const lk_layout *layout, bool *last) {
	double least_ps = search_least_ps(hunt->space, layout->least_s);
	if (hunt->request->exhaustive) return true;
	bool full = hunt->top_count == hunt->top_most;
	*last = layout->least_s * LK_PS_PER_S > search_slowest_ps(hunt) ||
	        (full && least_ps > (double)hunt->best_ps[hunt->top[hunt->top_count - 1]]);
	return !*last && least_ps < (double)hunt->best_ps[search_group_of(hunt, layout)];
}

/* ---- the order ---- */

/* Order by bound; equal bounds keep their first order, so that it is the same everywhere. */
static bool layout_search_before(const struct hunt *hunt, uint32_t a, uint32_t b) {
	float x = hunt->layouts.at[a].least_s, y = hunt->layouts.at[b].least_s;
	return x < y || (x == y && a < b);
}

static void search_put(struct hunt *hunt, uint32_t number) {
	size_t at = hunt->waiting++;
	for (; at > 0 && layout_search_before(hunt, number, hunt->heap[(at - 1) / 2]);
	     at = (at - 1) / 2)
		hunt->heap[at] = hunt->heap[(at - 1) / 2];
	hunt->heap[at] = number;
}

static uint32_t take_first(struct hunt *hunt) {
	uint32_t first = hunt->heap[0], last = hunt->heap[--hunt->waiting];
	size_t at = 0;
	for (size_t next; (next = 2 * at + 1) < hunt->waiting; at = next) {
		if (next + 1 < hunt->waiting &&
		    layout_search_before(hunt, hunt->heap[next + 1], hunt->heap[next]))
			next++;
		if (!layout_search_before(hunt, hunt->heap[next], last)) break;
		hunt->heap[at] = hunt->heap[next];
	}
	if (hunt->waiting > 0) hunt->heap[at] = last;
	return first;
}

/* Take up to `most` layouts with the least bounds that may matter, one per group; others of their
 * groups wait. */
static int search_take_batch(struct hunt *hunt, int most) {
	uint32_t behind[4 * LAST_BATCH];
	int count = 0, set_aside = 0;
	hunt->batches++;
	while (hunt->waiting > 0 && count < most && set_aside < 4 * LAST_BATCH) {
		const lk_layout *layout = &hunt->layouts.at[hunt->heap[0]];
		size_t group = search_group_of(hunt, layout);
		bool last = false, matters = may_matter(hunt, layout, &last);
		if (last) break;
		uint32_t number = take_first(hunt);
		if (!matters) {
			hunt->out->too_slow++;
		} else if (hunt->batch_of[group] == hunt->batches && !hunt->request->exhaustive) {
			behind[set_aside++] = number;
		} else {
			hunt->batch_of[group] = hunt->batches;
			hunt->beat[count] = time_to_beat_in(hunt, group);
			hunt->known[count] = search_habits(hunt, layout)->habits;
			hunt->batch[count++] = number;
		}
	}
	while (set_aside > 0) search_put(hunt, behind[--set_aside]);
	return count;
}

static lk_status walk_one(void *context, size_t i, void *result, lk_error *err) {
	struct hunt *hunt = context;
	uint32_t number = hunt->batch[i];
	const lk_layout *layout = &hunt->layouts.at[number];
	*(float *)result = layout->least_s;
	if (hunt->walked[number]) return LK_OK;
	lk_bounder *bounder = take_worker(hunt);
	if (!bounder) return lk_oom(err);
	double start = processor_s();
	lk_status status = lk_walk_layout(bounder, &hunt->cores.at[layout->core], layout, result, err);
	bounder->walk_s += processor_s() - start;
	give_worker(hunt, bounder);
	return status;
}

/* Evaluate the schedules of the batch not yet evaluated, and put all of it back. */
static lk_status walk_batch(struct hunt *hunt, int count, lk_error *err) {
	float least_s[LAST_BATCH];
	LK_TRY(
		lk_plan_share(hunt->request, (size_t)count, sizeof *least_s, walk_one, hunt, least_s, err));
	for (int i = 0; i < count; i++) {
		uint32_t number = hunt->batch[i];
		hunt->out->schedules_walked += !hunt->walked[number];
		hunt->walked[number] = true;
		hunt->layouts.at[number].least_s = least_s[i];
		search_put(hunt, number);
	}
	return LK_OK;
}

static bool all_walked(const struct hunt *hunt, int count) {
	for (int i = 0; i < count; i++)
		if (!hunt->walked[hunt->batch[i]]) return false;
	return true;
}

/* Fill the batch with layouts whose schedules were evaluated; 0: none is left. */
static lk_status next_batch(struct hunt *hunt, int most, int *count, lk_error *err) {
	while ((*count = search_take_batch(hunt, most)) > 0 && !hunt->request->exhaustive &&
	       !all_walked(hunt, *count))
		LK_TRY(walk_batch(hunt, *count, err));
	if (*count == 0) {
		hunt->out->too_slow += hunt->waiting;
		hunt->waiting = 0;
	}
	return LK_OK;
}

static void search_tell(const struct hunt *hunt, size_t at) {
	if (hunt->request->progress)
		hunt->request->progress(hunt->request->progress_context, hunt->space->gpus, (double)at,
		                        (double)hunt->layouts.count);
}

static lk_status search_look_at_cutoff(void *context, size_t i, void *result, lk_error *err) {
	const struct hunt *hunt = context;
	const char *reached = lk_cutoff_reached(hunt->cutoff);
	(void)i, (void)err;
	*(char *)result = reached ? *reached : '\0';
	return LK_OK;
}

/* Whether the search ends here; all processes of a team end at the same point. */
static lk_status search_cut_off(struct hunt *hunt, bool *ends, lk_error *err) {
	char reached = '\0';
	*ends = false;
	if (!hunt->cutoff || (isinf(hunt->cutoff->until_s) && !hunt->cutoff->stop)) return LK_OK;
	if (!hunt->any_fits && hunt->waiting) return LK_OK;
	LK_TRY(lk_plan_share(hunt->request, 1, sizeof reached, search_look_at_cutoff, hunt, &reached,
	                     err));
	*ends = reached || atomic_load_explicit(&hunt->unbounded, memory_order_relaxed);
	if (*ends) hunt->out->cut_off = reached == 'i' ? "interrupt" : "time";
	return LK_OK;
}

static lk_status search_try_batch(struct hunt *hunt, int count, lk_error *err) {
	LK_TRY(lk_plan_share(hunt->request, (size_t)count, sizeof *hunt->trials, search_try_one, hunt,
	                     hunt->trials, err));
	for (int i = 0; i < count; i++) note_trial(hunt, hunt->batch[i], &hunt->trials[i]);
	hunt->any_fits = hunt->out->simulated + hunt->out->cut_short > 0;
	return LK_OK;
}

static lk_status search_try_all(struct hunt *hunt, lk_error *err) {
	/* The first are likely the best, and their times exclude most of the others. */
	int most = hunt->top_most;
	for (int count;; most += most < LAST_BATCH ? most : 0) {
		LK_TRY(next_batch(hunt, most < LAST_BATCH ? most : LAST_BATCH, &count, err));
		bool ends;
		if (count == 0)
			return atomic_load(&hunt->unbounded) ? search_cut_off(hunt, &ends, err) : LK_OK;
		LK_TRY(search_try_batch(hunt, count, err));
		search_tell(hunt, hunt->layouts.count - hunt->waiting);
		LK_TRY(search_cut_off(hunt, &ends, err));
		if (ends) {
			hunt->out->untried += hunt->waiting;
			return LK_OK;
		}
	}
}

static lk_status begin_trials(struct hunt *hunt, lk_arena *arena, lk_error *err) {
	size_t groups = hunt->cores.count * SHARDINGS * KINDS;
	hunt->top_most = lk_plan_top(hunt->request);
	hunt->fastest_ps = INFINITY;
	hunt->best_ps = malloc((groups + 1) * sizeof *hunt->best_ps);
	hunt->best = calloc(groups + 1, sizeof *hunt->best);
	hunt->batch_of = calloc(groups + 1, sizeof *hunt->batch_of);
	hunt->top = LK_ARRAY(arena, uint32_t, hunt->top_most + 1);
	if (!hunt->best_ps || !hunt->best || !hunt->batch_of || !hunt->top) return lk_oom(err);
	for (size_t i = 0; i < groups; i++) hunt->best_ps[i] = INT64_MAX;
	return LK_OK;
}

/* Queue the layouts from `from` on. */
static lk_status add_trials(struct hunt *hunt, size_t from, lk_error *err) {
	size_t count = hunt->layouts.count;
	uint32_t *heap = realloc(hunt->heap, (count + 1) * sizeof *heap);
	if (heap) hunt->heap = heap;
	bool *walked = realloc(hunt->walked, (count + 1) * sizeof *walked);
	if (walked) hunt->walked = walked;
	if (!heap || !walked) return lk_oom(err);
	memset(hunt->walked + from, 0, (count - from) * sizeof *walked);
	for (size_t i = from; i < count; i++) search_put(hunt, (uint32_t)i);
	return LK_OK;
}

/* The longest step that can still be among the best. */
static double search_limit_s(const struct hunt *hunt) {
	bool full = hunt->top_count == hunt->top_most;
	double limit_ps = search_slowest_ps(hunt);
	if (full)
		limit_ps = fmin(
			limit_ps,
			search_longest_ps(hunt->space, (double)hunt->best_ps[hunt->top[hunt->top_count - 1]]));
	return limit_ps / LK_PS_PER_S * (1 + 1e-9);
}

/* Bound a sample and simulate its best, for a limit to the bounds of all others. */
static lk_status try_sample(struct hunt *hunt, size_t sampled, lk_error *err) {
	LK_TRY(bound_turns(hunt, sampled, err));
	LK_TRY(add_trials(hunt, 0, err));
	if (sampled == hunt->turns_all) return LK_OK;
	for (int i = 0; i < SAMPLE_BATCHES && hunt->top_count < hunt->top_most; i++) {
		int count;
		LK_TRY(next_batch(hunt, hunt->top_most < LAST_BATCH ? hunt->top_most : LAST_BATCH, &count,
		                  err));
		if (count > 0) LK_TRY(search_try_batch(hunt, count, err));
	}
	hunt->bound_limit_s = search_limit_s(hunt);
	return LK_OK;
}

static lk_status bound_all(struct hunt *hunt, lk_error *err) {
	LK_TRY(find_families(hunt, err));
	hunt->turns_all = hunt->family.count > 0 ? hunt->family.count - 1 : 0;
	hunt->bounded = calloc(hunt->turns_all + 1, sizeof *hunt->bounded);
	hunt->turn = malloc((hunt->turns_all + 1) * sizeof *hunt->turn);
	if (!hunt->bounded || !hunt->turn) return lk_oom(err);
	hunt->bound_limit_s = hunt->space->slowest_s;
	LK_TRY(try_sample(hunt, search_take_turns(hunt, hunt->turns_all), err));
	size_t tried = hunt->layouts.count;
	LK_TRY(bound_turns(hunt, hunt->turns_all - hunt->turns_done, err));
	return add_trials(hunt, tried, err);
}

/* ---- the answer ---- */

static lk_status take_best(struct hunt *hunt, lk_arena *arena, lk_error *err) {
	lk_hunt *out = hunt->out;
	out->best = LK_ARRAY(arena, lk_ranked, hunt->top_count + 1);
	if (!out->best) return lk_oom(err);
	for (int i = 0; i < hunt->top_count; i++) {
		const struct found *best = &hunt->best[hunt->top[i]];
		const lk_layout *layout = &hunt->layouts.at[best->layout];
		out->best[out->best_count++] =
			(lk_ranked){*layout, hunt->cores.at[layout->core], best->trial};
	}
	out->slower = !out->best_count && out->layouts > out->too_large + out->found_too_large &&
	              !out->cut_off && !isinf(hunt->space->slowest_s);
	if (out->best_count || !out->any || out->slower) return LK_OK;
	lk_bounder *bounder = take_worker(hunt);
	if (!bounder) return lk_oom(err);
	lk_status status =
		lk_layout_try(bounder, &out->closest.core, &out->closest.layout, (lk_time_to_beat){0},
	                  (lk_step_habits){0}, &out->closest.trial, err);
	give_worker(hunt, bounder);
	return status;
}

static lk_status hunt_layouts(struct hunt *hunt, lk_arena *arena, lk_error *err) {
	LK_TRY(lk_space_cores(hunt->space, &hunt->cores, err));
	LK_TRY(begin_trials(hunt, arena, err));
	LK_TRY(bound_all(hunt, err));
	search_tell(hunt, 0);
	LK_TRY(search_try_all(hunt, err));
	return take_best(hunt, arena, err);
}

lk_status lk_hunt_run(const lk_plan_request *request, const lk_space *space,
                      const lk_cutoff *cutoff, lk_arena *arena, lk_hunt *out, lk_error *err) {
	struct hunt *hunt = calloc(1, sizeof *hunt);
	memset(out, 0, sizeof *out);
	if (!hunt) return lk_oom(err);
	hunt->request = request;
	hunt->space = space;
	hunt->cutoff = cutoff;
	hunt->out = out;
	pthread_mutex_init(&hunt->lock, NULL);
	lk_status status = hunt_layouts(hunt, arena, err);
	free_workers(hunt);
	pthread_mutex_destroy(&hunt->lock);
	lk_vec_free(&hunt->cores);
	lk_vec_free(&hunt->family);
	lk_vec_free(&hunt->layouts);
	for (size_t i = 0; hunt->bounded && i < hunt->turns_all; i++)
		lk_vec_free(&hunt->bounded[i].kept);
	free(hunt->bounded);
	free(hunt->turn);
	free(hunt->best_ps);
	free(hunt->best);
	free(hunt->batch_of);
	free(hunt->walked);
	free(hunt->heap);
	free(hunt);
	return status;
}
