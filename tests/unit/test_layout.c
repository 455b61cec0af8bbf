/* test_layout.c: the search of `lockstep plan`: bounds against the predictor on random jobs, the
 * search against asking for everything, the same answer with any number of threads, launch lines
 * that are read back. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "step/step.h"
#include "base/stats.h"
#include "base/units.h"
#include "model/build/build.h"
#include "launch/emit/emit.h"
#include "launch/read.h"
#include "plan/plan.h"
#include "layout_problems.h"
#include "rounds.h"

/* ---- what is in the space ---- */

static void layouts_of_the_space_are_held(void **state) {
	(void)state;
	struct dice d = {.state = 4711};
	int uneven = 0, done = 0;
	for (int tries = 0; tries < 600; tries++) {
		struct problem p;
		lk_core core;
		lk_job job;
		const char *why = NULL;
		if (make_problem(&d, true, &p) && random_job(&d, &p, &core, &job)) {
			if (!lk_space_holds(&p.space, &job, &why)) {
				say(&job, "not held");
				fail_msg("%s", why);
			}
			uneven += core.split != LK_SPLIT_USUAL;
			done++;
		}
		lk_arena_free(&p.arena);
	}
	assert_true(done > 200 && uneven > 20);
}

/* Every layer once and in order, the middle even up to one layer, the last place the lighter the
 * more the loss counts. */
static void lighter_ends_hold_every_layer_once(void **state) {
	(void)state;
	struct dice d = {.state = 61};
	int written = 0;
	for (int tries = 0; tries < 4000; tries++) {
		lk_job job = {.pp = 2 + (int)roll(&d, 15), .vp = 1 + (int)roll(&d, 4)};
		job.model.layers = 1 + (int)roll(&d, 130);
		job.schedule = job.vp > 1 ? LK_SCHED_INTERLEAVED : LK_SCHED_1F1B;
		int places = job.pp * job.vp, next = 0, least = 1 << 20, most = 0, first,
			loss = (int)roll(&d, 6);
		if (!lk_job_lighten_ends(&job, (int)roll(&d, 2), loss)) continue;
		assert_int_equal(lk_job_check_split(&job, NULL), LK_OK);
		written++;
		for (int place = 0; place < places; place++) {
			int count = lk_job_chunk_layers(&job, place % job.pp, place / job.pp, &first);
			assert_int_equal(first, next);
			next += count;
			if (place == 0 || place == places - 1) continue;
			if (count < least) least = count;
			if (count > most) most = count;
		}
		assert_int_equal(next, job.model.layers);
		if (places > 2) assert_true(most - least <= 1 && least > 0);
		int last = lk_job_chunk_layers(&job, job.pp - 1, job.vp - 1, &first);
		if (places > 2) assert_true(last <= most && (last == 0 || last + loss <= most + 1));
	}
	assert_true(written > 1000);
}

static double most_of_tensors(const lk_step *step, const lk_job *job) {
	double most = 0;
	for (int stage = 0; stage < job->pp; stage++) most = fmax(most, step->memory[stage].walk.peak);
	return most;
}

/* What lets the search leave out the other dispatchers. */
static void a_copy_per_node_is_never_slower(void **state) {
	(void)state;
	struct dice d = {.state = 99};
	int done = 0, wanted = rounds(75, 3000);
	for (int tries = 0; done < wanted && tries < 100 * wanted; tries++) {
		struct problem p;
		lk_core core;
		lk_job job[2];
		if (make_problem(&d, true, &p) && p.asked.job.model.experts > 0 &&
		    random_job(&d, &p, &core, &job[0]) && job[0].ep > 1) {
			lk_step step[2];
			lk_step_options options = {0};
			lk_status status[2];
			job[1] = job[0];
			job[0].dispatcher = LK_DISPATCH_ALLTOALL;
			job[1].dispatcher = LK_DISPATCH_NODE;
			for (int i = 0; i < 2; i++)
				status[i] = lk_step_ask(&job[i], &p.asked.cluster, &options, &step[i], NULL);
			if (status[0] == LK_OK && status[1] == LK_OK) {
				/* what an allocator holds of it depends on how sizes fit into its blocks */
				double peaks[2] = {most_of_tensors(&step[0], &job[0]),
				                   most_of_tensors(&step[1], &job[1])};
				bool worse = step[1].step_s > step[0].step_s * 1.001 || peaks[1] > peaks[0];
				if (worse) {
					say(&job[1], "slower by node");
					print_message("  %.9f s against %.9f s, %.0f bytes against %.0f\n",
					              step[1].step_s, step[0].step_s, peaks[1], peaks[0]);
				}
				assert_false(worse);
				done++;
			}
			lk_step_free(&step[0]);
			lk_step_free(&step[1]);
		}
		lk_arena_free(&p.arena);
	}
	assert_int_equal(done, wanted);
}

/* ---- buckets ---- */

static bool same_programs(const lk_graph *a, const lk_graph *b) {
	if (a->ops.count != b->ops.count || a->blocks.count != b->blocks.count) return false;
	bool same = memcmp(a->ops.bytes, b->ops.bytes, a->ops.count * sizeof *a->ops.bytes) == 0;
	for (size_t s = 0; s < a->programs.count && same; s++) {
		same = a->programs.at[s].calls.count == b->programs.at[s].calls.count;
		for (size_t c = 0; same && c < a->programs.at[s].calls.count; c++) {
			const lk_call *x = &a->programs.at[s].calls.at[c], *y = &b->programs.at[s].calls.at[c];
			same = x->block == y->block && x->repeat == y->repeat;
		}
	}
	return same;
}

/* One layout with both sizes of buckets; *listed: how many of them the search looks at. False: not
 * legal. */
static bool buckets_alike(struct problem *problem, const lk_core *core, bool *alike, int *listed) {
	lk_layouts layouts = {0};
	lk_job job;
	lk_graph *graph[2] = {NULL, NULL};
	bool legal = lk_space_job(&problem->space, core, &job, NULL) == LK_OK &&
	             lk_space_switches(&problem->space, core, 0, &job, &layouts, NULL) == LK_OK &&
	             layouts.count > 0 && layouts.at[0].grads &&
	             layouts.at[0].sharding < LK_SHARD_ZERO2 && job.dp > 1;
	*listed = 1;
	for (size_t i = 0; i < layouts.count; i++)
		if (layouts.at[i].bucket) *listed = 2;
	for (uint8_t i = 0; i < 2 && legal; i++) {
		layouts.at[0].bucket = i;
		lk_error err;
		legal = lk_layout_job(&problem->space, core, &layouts.at[0], &job, NULL) == LK_OK &&
		        lk_build_graph(&job, &graph[i], &err) == LK_OK;
	}
	if (legal) *alike = same_programs(graph[0], graph[1]);
	lk_graph_free(graph[0]);
	lk_graph_free(graph[1]);
	lk_vec_free(&layouts);
	return legal;
}

/* A size that the search leaves out would have been the same step; where it would not have been, it
 * is there. */
static void buckets_that_cut_alike_are_one_layout(void **state) {
	(void)state;
	struct dice d = {.state = 77};
	int once = 0, twice = 0;
	for (int tries = 0; tries < 1200; tries++) {
		struct problem p;
		lk_cores_list cores = {0};
		bool fine = make_problem(&d, true, &p) && !p.asked.job.model.experts &&
		            p.asked.job.model.network != LK_NET_ENCDEC;
		int wide = 1 << roll(&d, 9);
		p.space.base.model.ffn *= wide;
		p.space.base.model.vocab *= wide; /* layers from small to large */
		p.space.fixed_switches = false;
		p.space.bucket.count = 2;
		p.space.bucket.at[0] = LK_BUCKET_USUAL;
		p.space.bucket.at[1] = LK_BUCKET_LARGE;
		fine = fine && lk_space_cores(&p.space, &cores, NULL) == LK_OK && cores.count > 0;
		bool alike = false;
		int listed;
		if (fine &&
		    buckets_alike(&p, &cores.at[roll(&d, (uint32_t)cores.count)], &alike, &listed)) {
			if (listed == 1) assert_true(alike);
			once += listed == 1;
			twice += listed == 2 && !alike;
		}
		lk_vec_free(&cores);
		lk_arena_free(&p.arena);
	}
	assert_true(once > 5 && twice > 5);
}

/* ---- bounds ---- */

struct tally {
	int jobs, broken, given_up, hopeless;
	double tightness, walked; /* sum of bound over prediction; of the schedule walked */
};

/* A simulation that may be given up close to its end: only where the step takes longer, and with a
 * bound that holds. What the whole simulation showed, or that periods do not settle, changes no
 * time. */
static void check_give_up(const lk_job *job, const lk_cluster *cluster, const lk_step *full,
                          struct tally *tally) {
	int64_t ps = full->sim.step_ps;
	lk_step_options options = {.bare = true,
	                           .habits = {.crowded = full->habits.crowded, .unsettled = ps % 2},
	                           .give_up_ps = ps - (ps >> (1 + ps % 16))};
	lk_step step;
	if (!lk_step_fits(full)) return;
	assert_int_equal(lk_step_ask(job, cluster, &options, &step, NULL), LK_OK);
	if (!step.sim.gave_up) assert_int_equal(step.sim.step_ps, ps);
	bool wrong =
		step.sim.gave_up && (step.sim.step_ps <= options.give_up_ps || step.sim.step_ps > ps);
	if (wrong) {
		say(job, "given up wrongly");
		print_message("  at least %lld ps against %lld\n", (long long)step.sim.step_ps,
		              (long long)ps);
	}
	tally->broken += wrong;
	tally->given_up += step.sim.gave_up;
	lk_step_free(&step);
}

static void check_bound(struct dice *dice, struct tally *tally) {
	struct problem p;
	lk_core core;
	lk_job job;
	if (make_problem(dice, true, &p) && random_job(dice, &p, &core, &job)) {
		lk_bounder b;
		lk_step step;
		lk_step_options options = {0};
		double least_s, walked_s, least_bytes, usable;
		lk_cost_cache *cache = lk_cost_cache_new();
		lk_bounder_begin(&b, &p.space, cache);
		assert_int_equal(lk_bound_job(&b, core.stack, &job, &least_s, &least_bytes, &usable, NULL),
		                 LK_OK);
		assert_int_equal(lk_walk_job(&b, core.stack, &job, &walked_s, NULL), LK_OK);
		lk_error err;
		if (lk_step_ask(&job, &p.asked.cluster, &options, &step, &err) == LK_OK) {
			double excess = step.memory[step.fullest].total - step.usable;
			bool broken = fmax(least_s, walked_s) * (1 - 1e-7) > step.step_s ||
			              least_bytes - usable > excess + 1;
			if (broken) {
				say(&job, "bound above prediction");
				print_message("  %.9f s, walked %.9f s, against %.9f s, %.0f bytes against %.0f\n",
				              least_s, walked_s, step.step_s, least_bytes - usable, excess);
			}
			if (lk_memory_hopeless(&job, &p.asked.cluster)) {
				assert_false(lk_step_fits(&step));
				tally->hopeless++;
			}
			tally->broken += broken;
			tally->jobs++;
			check_give_up(&job, &p.asked.cluster, &step, tally);
			assert_true(walked_s >= least_s * (1 - 1e-9));
			tally->tightness += least_s / step.step_s;
			tally->walked += walked_s / step.step_s;
		}
		lk_step_free(&step);
		lk_cost_cache_free(cache);
	}
	lk_arena_free(&p.arena);
}

static void bounds_are_never_above_the_prediction(void **state) {
	(void)state;
	struct dice d = {.state = 20260};
	struct tally t = {0};
	int wanted = rounds(1500, 30000);
	for (int tries = 0; t.jobs < wanted && tries < 20 * wanted; tries++) check_bound(&d, &t);
	print_message(
		"%d jobs, bound / prediction %.3f on average, walked %.4f; %d given up, %d hopeless\n",
		t.jobs, t.tightness / t.jobs, t.walked / t.jobs, t.given_up, t.hopeless);
	if (fewer_cases() == 1) assert_true(t.hopeless > 0);
	assert_int_equal(t.broken, 0);
	assert_true(t.given_up > wanted / 20);
	assert_int_equal(t.jobs, wanted);
	assert_true(t.tightness / t.jobs > 0.5); /* a bound of nothing would pass too */
}

/* ---- limits and pairs ---- */

static const lk_layout *layout_among(const lk_layouts *layouts, const lk_layout *wanted) {
	for (size_t i = 0; i < layouts->count; i++)
		if (memcmp(&layouts->at[i], wanted, offsetof(lk_layout, least_s)) == 0)
			return &layouts->at[i];
	return NULL;
}

/* Of the cores from `first` on that are alike: with a limit those are kept whose bound is no
 * longer, with the same bound. Returns how many the limit leaves out. */
static size_t check_limit(struct dice *dice, const struct problem *problem,
                          const lk_cores_list *cores, uint32_t first, int count) {
	lk_bounder bounder;
	lk_bounded all, some;
	lk_job job;
	size_t left_out = 0;
	lk_cost_cache *cache = lk_cost_cache_new();
	lk_bounder_begin(&bounder, &problem->space, cache);
	const lk_core *core = &cores->at[first];
	assert_int_equal(lk_bound_cores(&bounder, core, first, count, INFINITY, &all, NULL), LK_OK);
	if (all.kept.count) {
		double limit_s = all.kept.at[roll(dice, (uint32_t)all.kept.count)].least_s;
		assert_int_equal(lk_bound_cores(&bounder, core, first, count, limit_s, &some, NULL), LK_OK);
		for (size_t i = 0; i < some.kept.count; i++)
			assert_true(some.kept.at[i].least_s <= limit_s);
		for (size_t i = 0; i < all.kept.count; i++) {
			const lk_layout *layout = &all.kept.at[i], *found = layout_among(&some.kept, layout);
			bool legal = lk_layout_job(&problem->space, &cores->at[layout->core], layout, &job,
			                           NULL) == LK_OK;
			if (legal && layout->least_s < limit_s * (1 - 1e-6)) assert_non_null(found);
			if (legal && found) assert_true(found->least_s == layout->least_s);
			left_out += !found;
		}
		assert_true(some.layouts == all.layouts);
		lk_vec_free(&some.kept);
	}
	lk_vec_free(&all.kept);
	lk_cost_cache_free(cache);
	return left_out;
}

static void a_limit_leaves_out_what_is_slower(void **state) {
	(void)state;
	struct dice d = {.state = 20262};
	size_t left_out = 0;
	for (int i = 0; i < rounds(60, 1000); i++) {
		struct problem p;
		lk_cores_list cores = {0};
		if (make_problem(&d, i % 2, &p) && lk_space_cores(&p.space, &cores, NULL) == LK_OK &&
		    cores.count) {
			uint32_t first = roll(&d, (uint32_t)cores.count), end = first;
			while (end < cores.count && lk_cores_alike(&cores.at[first], &cores.at[end])) end++;
			left_out += check_limit(&d, &p, &cores, first, (int)(end - first));
		}
		lk_vec_free(&cores);
		lk_arena_free(&p.arena);
	}
	assert_true(left_out > 0);
}

/* The bound of a schedule is the same whether or not others were walked before, with parts that
 * they share. Returns how many were. */
static int check_walks(lk_bounder *bounder, const struct problem *problem,
                       const lk_cores_list *cores, uint32_t first, int count) {
	lk_bounded all;
	int walked = 0;
	assert_int_equal(lk_bound_cores(bounder, &cores->at[first], first, count, INFINITY, &all, NULL),
	                 LK_OK);
	for (size_t i = 0; i < all.kept.count && walked < 40; i += 1 + all.kept.count / 40) {
		const lk_layout *layout = &all.kept.at[i];
		const lk_core *core = &cores->at[layout->core];
		lk_job job;
		double alone_s;
		float least_s;
		if (lk_layout_job(&problem->space, core, layout, &job, NULL) != LK_OK) continue;
		lk_status status = lk_walk_job(bounder, core->stack, &job, &alone_s, NULL);
		if (status == LK_ERR_INPUT) continue;
		assert_int_equal(status, LK_OK);
		assert_int_equal(lk_walk_layout(bounder, core, layout, &least_s, NULL), LK_OK);
		assert_true(least_s >= layout->least_s && least_s <= fmax(layout->least_s, alone_s));
		assert_true(least_s >= alone_s * (1 - 1e-6));
		walked++;
	}
	lk_vec_free(&all.kept);
	return walked;
}

/* The same for families from a random one on. */
static int check_walks_of(struct dice *dice, const struct problem *problem,
                          const lk_cores_list *cores) {
	lk_bounder bounder;
	int walked = 0;
	lk_cost_cache *cache = lk_cost_cache_new();
	lk_bounder_begin(&bounder, &problem->space, cache);
	uint32_t first = roll(dice, (uint32_t)cores->count), end;
	for (int families = 0; families < 4 && first < cores->count; families++, first = end) {
		for (end = first + 1; end < cores->count;) {
			if (!lk_cores_alike(&cores->at[first], &cores->at[end])) break;
			end++;
		}
		walked += check_walks(&bounder, problem, cores, first, (int)(end - first));
	}
	lk_bounder_end(&bounder);
	lk_cost_cache_free(cache);
	return walked;
}

static void walks_share_parts_of_alike_layouts(void **state) {
	(void)state;
	struct dice d = {.state = 20263};
	int walked = 0;
	for (int i = 0; i < rounds(60, 1000); i++) {
		struct problem p;
		lk_cores_list cores = {0};
		if (make_problem(&d, i % 2, &p) && lk_space_cores(&p.space, &cores, NULL) == LK_OK &&
		    cores.count) {
			p.space.fixed_switches = i % 3 == 0;
			walked += check_walks_of(&d, &p, &cores);
		}
		lk_vec_free(&cores);
		lk_arena_free(&p.arena);
	}
	assert_true(walked > 100 / fewer_cases());
}

static void assert_same_sums(const lk_parts *a, const lk_parts *b, int again) {
	const lk_layer_part *x = &a->sum[again][a->layers], *y = &b->sum[again][b->layers];
	assert_true(x->forward_s == y->forward_s && x->backward_s == y->backward_s);
	assert_true(x->compute_forward_s == y->compute_forward_s);
	assert_true(x->compute_backward_s == y->compute_backward_s);
	assert_true(x->host_s == y->host_s && x->traffic_s == y->traffic_s && x->saved == y->saved);
}

/* Layers that run in pairs are those of the same job without pairs. */
static void pairs_have_the_layers_of_single_passes(void **state) {
	(void)state;
	struct dice d = {.state = 20263};
	int compared = 0, unlike = 0;
	for (int i = 0; i < rounds(4000, 40000); i++) {
		struct problem p;
		lk_core core;
		lk_job job, apart;
		if (make_problem(&d, true, &p) && random_job(&d, &p, &core, &job) && !job.delay_weights &&
		    (lk_job_pairs(&job) || lk_job_dualpipe(&job))) {
			lk_bounder b;
			lk_parts whole, single, paired;
			lk_cost_cache *cache = lk_cost_cache_new();
			lk_bounder_begin(&b, &p.space, cache);
			apart = job;
			apart.schedule = LK_SCHED_1F1B;
			assert_int_equal(
				lk_parts_find(&b, core.stack, &job, false, NULL, &p.arena, &whole, NULL), LK_OK);
			assert_int_equal(
				lk_parts_find(&b, core.stack, &apart, false, NULL, &p.arena, &single, NULL), LK_OK);
			assert_int_equal(lk_parts_pair(&b, core.stack, &job, &single, &p.arena, &paired, NULL),
			                 LK_OK);
			for (int again = 0; again <= (job.recompute == LK_RECOMPUTE_FULL); again++)
				assert_same_sums(&whole, &paired, again);
			for (int k = 0; k < whole.layers; k++) assert_true(whole.paired[k] == paired.paired[k]);
			assert_true(whole.message_s == paired.message_s);
			assert_true(whole.head.forward_s == paired.head.forward_s);
			assert_true(whole.head.backward_s == paired.head.backward_s);
			assert_true(whole.embedding.backward_s == paired.embedding.backward_s);
			assert_true(whole.prediction.backward_s == paired.prediction.backward_s);
			lk_cost_cache_free(cache);
			compared++;
			/* with windows in every other layer no two in a row are equal */
			unlike += job.model.window && whole.layers > 3 && whole.paired[2] > 0 &&
			          whole.paired[3] == whole.paired[2];
		}
		lk_arena_free(&p.arena);
	}
	assert_true(compared > 0 && unlike > 0);
}

/* ---- the search against asking for everything ---- */

struct found {
	int64_t ps; /* its place in the ranking: longer than the step where memory is tight */
	size_t group;
};

static int by_time(const void *a, const void *b) {
	const struct found *x = a, *y = b;
	return (x->ps > y->ps) - (x->ps < y->ps);
}

/* Whether less memory stays free than --headroom says, where it says anything. */
static bool is_tight(const struct problem *problem, const lk_step *step) {
	const lk_stage_use *use = &step->memory[step->fullest];
	double headroom = problem->space.headroom;
	return headroom >= 0 && (lk_step_risky(step) || use->total > use->usable * (1 - headroom));
}

static int64_t ranked_ps(int64_t step_ps, bool tight) {
	return (int64_t)((double)step_ps * lk_tight_factor(tight));
}

/* The best of cores that differ in split alone, of each sharding and kind of recomputation, by the
 * predictor as `predict` asks it. */
static size_t ask_everything(const struct problem *problem, struct found *out, size_t room,
                             uint64_t *layouts_seen) {
	lk_cores_list cores = {0};
	lk_layouts layouts = {0};
	size_t count = 0;
	*layouts_seen = 0;
	assert_int_equal(lk_space_cores(&problem->space, &cores, NULL), LK_OK);
	for (uint32_t c = 0; c < cores.count; c++) {
		lk_job job;
		if (lk_space_job(&problem->space, &cores.at[c], &job, NULL) != LK_OK) continue;
		layouts.count = 0;
		assert_int_equal(lk_space_switches(&problem->space, &cores.at[c], c, &job, &layouts, NULL),
		                 LK_OK);
		*layouts_seen += layouts.count;
		for (size_t i = 0; i < layouts.count; i++) {
			const lk_layout *layout = &layouts.at[i];
			lk_step step;
			lk_step_options options = {0};
			if (lk_layout_job(&problem->space, &cores.at[c], layout, &job, NULL) != LK_OK) continue;
			if (lk_step_ask(&job, &problem->asked.cluster, &options, &step, NULL) == LK_OK &&
			    lk_step_fits(&step)) {
				size_t group = (size_t)cores.at[c].first * 64 + layout->sharding * 8u +
				               layout->recompute,
					   at = 0;
				while (at < count && out[at].group != group) at++;
				assert_true(at < room);
				if (at == count) out[count++] = (struct found){INT64_MAX, group};
				int64_t ps = ranked_ps(step.sim.step_ps, is_tight(problem, &step));
				if (ps < out[at].ps) out[at].ps = ps;
			}
			lk_step_free(&step);
		}
	}
	lk_vec_free(&cores);
	lk_vec_free(&layouts);
	qsort(out, count, sizeof *out, by_time);
	return count;
}

/* A longest step that is of use leaves out what is slower, and nothing else. */
static void limit_to_the_fastest(struct problem *problem, int64_t fastest_ps) {
	lk_hunt hunt;
	problem->space.slowest_s = (double)fastest_ps * 1.0001 / LK_PS_PER_S;
	assert_int_equal(
		lk_hunt_run(&problem->request, &problem->space, NULL, &problem->arena, &hunt, NULL), LK_OK);
	assert_true(hunt.best_count > 0 && !hunt.slower);
	assert_true(hunt.best[0].trial.step_ps == fastest_ps);
	problem->space.slowest_s = (double)fastest_ps * 0.98 / LK_PS_PER_S;
	assert_int_equal(
		lk_hunt_run(&problem->request, &problem->space, NULL, &problem->arena, &hunt, NULL), LK_OK);
	assert_true(hunt.best_count == 0 && hunt.slower);
	problem->space.slowest_s = INFINITY;
}

static void compare_with_everything(struct problem *problem, int number, uint64_t *simulated,
                                    uint64_t *cut, uint64_t *layouts, int *tight, int *roomy) {
	enum { ROOM = 1 << 14 };
	static struct found all[ROOM];
	lk_hunt hunt;
	uint64_t seen;
	size_t count = ask_everything(problem, all, ROOM, &seen);
	assert_int_equal(
		lk_hunt_run(&problem->request, &problem->space, NULL, &problem->arena, &hunt, NULL), LK_OK);
	size_t top = (size_t)lk_plan_top(&problem->request), expected = count < top ? count : top;
	if ((size_t)hunt.best_count != expected)
		fail_msg("problem %d: %d choices, not %zu", number, hunt.best_count, expected);
	for (size_t i = 0; i < expected; i++) {
		const lk_trial *trial = &hunt.best[i].trial;
		if (ranked_ps(trial->step_ps, trial->tight) != all[i].ps)
			fail_msg("problem %d: choice %zu takes %lld ps%s, the best %lld ps", number, i,
			         (long long)trial->step_ps, trial->tight ? " and is tight" : "",
			         (long long)all[i].ps);
		*tight += trial->tight != 0;
		*roomy += trial->tight == 0;
	}
	assert_int_equal(hunt.layouts, seen);
	if (count && number % 4 == 0 && problem->space.headroom < 0)
		limit_to_the_fastest(problem, all[0].ps);
	*simulated += hunt.simulated;
	*cut += hunt.cut_short;
	*layouts += seen;
}

static void search_finds_what_asking_everything_finds(void **state) {
	(void)state;
	struct dice d = {.state = 77};
	uint64_t simulated = 0, cut = 0, layouts = 0;
	int done = 0, problems = takes_long() ? 200 : judged_elsewhere() ? 8 : 80, tight = 0, roomy = 0;
	for (int tries = 0; done < problems && tries < 4000; tries++) {
		struct problem p;
		lk_cores_list cores = {0};
		bool some = make_problem(&d, false, &p) &&
		            lk_space_cores(&p.space, &cores, NULL) == LK_OK && cores.count > 0 &&
		            cores.count < 60;
		p.request.top = 1 + (int)roll(&d, 4);
		p.space.sampled = 1 + done % 4;
		if (done % 2) p.space.headroom = 0.9 + 0.01 * roll(&d, 10); /* small jobs leave much free */
		if (some) compare_with_everything(&p, done++, &simulated, &cut, &layouts, &tight, &roomy);
		lk_vec_free(&cores);
		lk_arena_free(&p.arena);
	}
	print_message("%d problems, %llu layouts, of them %llu simulated and %llu cut short\n", done,
	              (unsigned long long)layouts, (unsigned long long)simulated,
	              (unsigned long long)cut);
	assert_int_equal(done, problems);
	assert_true(simulated + cut < layouts && cut > 0);
	assert_true((tight > 0 && roomy > 0) || judged_elsewhere());
}

/* ---- launch lines ---- */

/* The fields that differ between a job and what its line is read as, completed on the cluster:
 * none. */
static void read_back(const struct problem *problem, const lk_job *job, lk_dialect dialect) {
	lk_arena arena = LK_ARENA_INIT;
	lk_launch launch = {0};
	lk_error err = {0};
	char text[900];
	const char *line = lk_launch_write_for(&arena, dialect, job);
	assert_non_null(line);
	if (lk_launch_text(&arena, line, strlen(line), "line", NULL, &launch, &err) != LK_OK)
		fail_msg("%s\n%s", line, lk_error_text(&err, text, sizeof text));
	bool named = dialect == LK_DIALECT_NEMO || dialect == LK_DIALECT_TORCHTITAN;
	lk_job *back = launch.job;
	if (named) back->model = job->model;
	assert_int_equal(launch.gpus, job->gpus);
	back->gpus = launch.gpus;
	if (lk_job_complete(back, &problem->asked.cluster, &err) != LK_OK)
		fail_msg("%s\n%s", line, lk_error_text(&err, text, sizeof text));
	for (const lk_field *field = lk_job_fields; field->name; field++)
		if (!lk_field_equal(field, job, back))
			fail_msg("%s is %s, not %s:\n%s", field->name, lk_field_text(&arena, field, back),
			         lk_field_text(&arena, field, job), line);
	lk_arena_free(&arena);
}

static void launch_lines_are_read_back(void **state) {
	(void)state;
	struct dice d = {.state = 5};
	int done[4] = {0};
	for (int tries = 0, most = rounds(600, 6000); tries < most; tries++) {
		struct problem p;
		lk_core core;
		lk_job job;
		if (make_problem(&d, true, &p) && random_job(&d, &p, &core, &job))
			for (int dialect = 0; dialect < 4; dialect++) {
				if (dialect == LK_DIALECT_DEEPSPEED && !strstr(job.stack, "deepspeed")) continue;
				read_back(&p, &job, (lk_dialect)dialect);
				done[dialect]++;
			}
		lk_arena_free(&p.arena);
	}
	for (int dialect = 0; dialect < 4; dialect++) assert_true(done[dialect] > rounds(20, 200));
}

/* What NeMo and torchtitan take is not said in settings of lockstep's own. */
static void dialects_say_what_they_can(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_launch launch = {0};
	const char *nemo = "nemo llm pretrain --factory llama3_70b trainer.num_nodes=4 "
					   "trainer.devices=8 trainer.strategy.tensor_model_parallel_size=4 "
					   "trainer.strategy.pipeline_model_parallel_size=2 "
					   "trainer.strategy.virtual_pipeline_model_parallel_size=5 "
					   "trainer.strategy.sequence_parallel=True data.micro_batch_size=1 "
					   "data.global_batch_size=128 data.seq_length=8192 "
					   "trainer.strategy.ddp.overlap_grad_reduce=false "
					   "model.config.recompute_granularity=full log.name=x";
	assert_int_equal(lk_launch_text(&arena, nemo, strlen(nemo), "nemo", NULL, &launch, NULL),
	                 LK_OK);
	assert_int_equal(launch.gpus, 32);
	assert_int_equal(launch.job->tp, 4);
	assert_int_equal(launch.job->vp, 5);
	assert_int_equal(launch.job->sequence_parallel, LK_ON);
	assert_int_equal(launch.job->overlap_grad_reduce, LK_OFF);
	assert_int_equal(launch.job->recompute, LK_RECOMPUTE_FULL);
	assert_string_equal(launch.job->stack, "nemo");
	bool listed = false;
	for (int i = 0; i < launch.ignored_count; i++)
		listed |= strcmp(launch.ignored[i].flag, "log.name") == 0;
	assert_true(listed);
	const char *titan =
		"torchrun --nproc_per_node 8 --nnodes 2 -m torchtitan.train "
		"--parallelism.tensor_parallel_degree 2 "
		"--parallelism.pipeline_parallel_degree=2 "
		"--parallelism.pipeline_parallel_schedule=ZBVZeroBubble "
		"--parallelism.pipeline_parallel_microbatch_size=1 --training.local_batch_size=8 "
		"--training.global_batch_size=32 "
		"--training.seq_len 4096 --activation_checkpoint.mode selective --compile.enable";
	assert_int_equal(lk_launch_text(&arena, titan, strlen(titan), "titan", NULL, &launch, NULL),
	                 LK_OK);
	assert_int_equal(launch.gpus, 16);
	assert_int_equal(launch.job->mbs, 1);
	assert_int_equal(launch.job->gbs, 32);
	assert_int_equal(launch.job->schedule, LK_SCHED_ZB_V);
	assert_true(launch.job->compile);
	assert_string_equal(launch.job->stack, "torchtitan");
	const char *wrong = "nemo llm pretrain trainer.strategy.tensor_model_parallel_size=many";
	assert_int_equal(lk_launch_text(&arena, wrong, strlen(wrong), "nemo", NULL, &launch, NULL),
	                 LK_ERR_INPUT);
	lk_arena_free(&arena);
}

/* ---- the same everywhere ---- */

static void threads_do_not_change_the_answer(void **state) {
	(void)state;
	lk_plan *plans[2];
	for (int i = 0; i < 2; i++) {
		lk_plan_request r;
		lk_error err;
		lk_plan_defaults(&r);
		r.job.model = "llama3.2-1b";
		r.job.gpu = "a100-sxm-80";
		r.gpus = "8,16";
		r.job.gbs = 32;
		r.job.seq = 4096;
		r.threads = i ? 5 : 1;
		assert_int_equal(lk_plan_find(&r, &plans[i], &err), LK_OK);
	}
	for (int c = 0; c < 2; c++) {
		const lk_plan_count *a = &plans[0]->counts[c], *b = &plans[1]->counts[c];
		assert_int_equal(a->choice_count, b->choice_count);
		assert_int_equal(a->simulated, b->simulated);
		assert_int_equal(a->cut_short, b->cut_short);
		assert_int_equal(a->found_too_large, b->found_too_large);
		assert_int_equal(a->too_slow, b->too_slow);
		assert_int_equal(a->layouts, a->too_large + a->too_slow + a->simulated + a->cut_short +
		                                 a->found_too_large);
		for (int i = 0; i < a->choice_count; i++) {
			assert_string_equal(a->choices[i].layout, b->choices[i].layout);
			assert_true(a->choices[i].step_time_s == b->choices[i].step_time_s);
			assert_true(a->choices[i].exact_s == b->choices[i].exact_s);
		}
	}
	lk_plan_free(plans[0]);
	lk_plan_free(plans[1]);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layouts_of_the_space_are_held),
		cmocka_unit_test(lighter_ends_hold_every_layer_once),
		cmocka_unit_test(a_copy_per_node_is_never_slower),
		cmocka_unit_test(buckets_that_cut_alike_are_one_layout),
		cmocka_unit_test(bounds_are_never_above_the_prediction),
		cmocka_unit_test(a_limit_leaves_out_what_is_slower),
		cmocka_unit_test(walks_share_parts_of_alike_layouts),
		cmocka_unit_test(pairs_have_the_layers_of_single_passes),
		cmocka_unit_test(search_finds_what_asking_everything_finds),
		cmocka_unit_test(launch_lines_are_read_back),
		cmocka_unit_test(dialects_say_what_they_can),
		cmocka_unit_test(threads_do_not_change_the_answer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
