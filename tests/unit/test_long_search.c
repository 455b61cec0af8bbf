/* test_long_search.c: steps of hundreds of micro-batches, of which a search simulates few: what it
 * guesses, and what it finds, against simulations of all. */
#include <math.h>
#include <stdlib.h>

#include "layout_problems.h"
#include "rounds.h"
#include "step/step.h"

/* A problem whose layouts have many micro-batches; passes often run in pairs, which settle last. */
static bool make_long_problem(struct dice *dice, struct problem *problem) {
	static const char *const schedules[] = {"1f1b,dualpipev", "interleaved", "dualpipev",
	                                        "dualpipev"};
	if (!make_problem(dice, false, problem)) return false;
	lk_job *job = &problem->asked.job;
	lk_model *model = &job->model;
	if (!model->experts && model->network == LK_NET_DECODER && roll(dice, 4)) {
		model->experts = 8;
		model->topk = 2;
		model->expert_ffn = model->hidden;
	}
	if (model->experts && !model->window && roll(dice, 2)) {
		model->window = 512;
		model->full_every = 2;
	}
	if (model->experts) job->expert_overlap = LK_ON;
	job->gbs = PICK(dice, 256, 384, 512);
	job->seq = 2048;
	problem->request.stack = "megatron";
	problem->request.mbs = "1";
	problem->request.schedule = schedules[roll(dice, 4)];
	problem->request.recompute = "none,full";
	problem->request.fixed_switches = true;
	return lk_space_read(&problem->request, &problem->asked, &problem->space, NULL) == LK_OK;
}

struct guesses {
	int jobs, given_up, wrong;
};

/* The guess of a step, and whether it is given up only beyond a limit. */
static void check_guess(const lk_job *job, const lk_cluster *cluster, struct dice *dice,
                        struct guesses *tally) {
	lk_step_options all = {.exact = true, .bare = true},
					few = {.bare = true, .few = true, .guesses = true};
	lk_step whole, step;
	if (lk_step_ask(job, cluster, &all, &whole, NULL) != LK_OK || !lk_step_fits(&whole)) {
		lk_step_free(&whole);
		return;
	}
	int64_t ps = whole.sim.step_ps;
	lk_step_free(&whole);
	tally->jobs++;
	assert_int_equal(lk_step_ask(job, cluster, &few, &step, NULL), LK_OK);
	bool far = fabs((double)(step.sim.step_ps - ps)) > 1e-4 * (double)ps;
	if (far) {
		say(job, "guessed wrongly");
		print_message("  %lld ps, not %lld\n", (long long)step.sim.step_ps, (long long)ps);
	}
	tally->wrong += far;
	lk_step_free(&step);
	few.give_up_ps = ps - (roll(dice, 2) ? 0 : ps / 50);
	assert_int_equal(lk_step_ask(job, cluster, &few, &step, NULL), LK_OK);
	bool early = step.sim.gave_up && few.give_up_ps >= ps;
	if (early) say(job, "given up within its limit");
	tally->wrong += early;
	tally->given_up += step.sim.gave_up;
	lk_step_free(&step);
}

static void guesses_are_close(void **state) {
	(void)state;
	struct dice d = {.state = 4711};
	struct guesses t = {0};
	int wanted = rounds(200, 4000);
	for (int tries = 0; t.jobs < wanted && tries < 40 * wanted; tries++) {
		struct problem p;
		lk_core core;
		lk_job job;
		if (make_long_problem(&d, &p) && random_job(&d, &p, &core, &job) && job.microbatches >= 64)
			check_guess(&job, &p.asked.cluster, &d, &t);
		lk_arena_free(&p.arena);
	}
	print_message("%d jobs, %d given up\n", t.jobs, t.given_up);
	assert_int_equal(t.wrong, 0);
	assert_int_equal(t.jobs, wanted);
	assert_true(t.given_up > 0 || wanted < 200);
}

static int by_length(const void *a, const void *b) {
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

/* The lengths of all layouts that fit, simulated whole, least first; of each group the best. None
 * where memory is so tight that a faster layout may rank lower. */
static size_t simulate_everything(const struct problem *problem, const lk_cores_list *cores,
                                  int64_t *out, size_t room) {
	lk_layouts layouts = {0};
	size_t count = 0, groups[1024];
	bool tight = false;
	for (uint32_t c = 0; c < cores->count; c++) {
		lk_job job;
		layouts.count = 0;
		if (lk_space_job(&problem->space, &cores->at[c], &job, NULL) != LK_OK) continue;
		assert_int_equal(lk_space_switches(&problem->space, &cores->at[c], c, &job, &layouts, NULL),
		                 LK_OK);
		for (size_t i = 0; i < layouts.count; i++) {
			const lk_layout *layout = &layouts.at[i];
			const lk_step_options options = {.exact = true, .bare = true};
			lk_step step;
			if (lk_layout_job(&problem->space, &cores->at[c], layout, &job, NULL) != LK_OK)
				continue;
			if (lk_step_ask(&job, &problem->asked.cluster, &options, &step, NULL) == LK_OK &&
			    lk_step_fits(&step)) {
				size_t group = (size_t)cores->at[c].first * 64 + layout->sharding * 8u +
				               layout->recompute,
					   at = 0;
				while (at < count && groups[at] != group) at++;
				assert_true(at < room);
				if (at == count) groups[count] = group, out[count++] = INT64_MAX;
				if (step.sim.step_ps < out[at]) out[at] = step.sim.step_ps;
				tight |= step.memory[step.fullest].total > 0.8 * step.usable;
			}
			lk_step_free(&step);
		}
	}
	lk_vec_free(&layouts);
	qsort(out, count, sizeof *out, by_length);
	return tight ? 0 : count;
}

/* The choices of a search are those of simulating everything, as closely as a guess is. */
static bool check_search(struct problem *problem, const lk_cores_list *cores, uint64_t *cut) {
	enum { ROOM = 1024 };
	static int64_t all[ROOM];
	lk_hunt hunt;
	size_t count = simulate_everything(problem, cores, all, ROOM);
	if (!count) return false;
	assert_int_equal(
		lk_hunt_run(&problem->request, &problem->space, NULL, &problem->arena, &hunt, NULL), LK_OK);
	size_t top = (size_t)lk_plan_top(&problem->request);
	assert_int_equal(hunt.best_count, count < top ? count : top);
	for (int i = 0; i < hunt.best_count; i++)
		if (fabs((double)(hunt.best[i].trial.step_ps - all[i])) > 1e-4 * (double)all[i])
			fail_msg("choice %d takes %lld ps, the best %lld", i,
			         (long long)hunt.best[i].trial.step_ps, (long long)all[i]);
	*cut += hunt.cut_short + hunt.too_slow;
	return true;
}

static void search_finds_what_simulating_everything_finds(void **state) {
	(void)state;
	struct dice d = {.state = 53};
	uint64_t cut = 0;
	int done = 0, problems = rounds(20, 100);
	for (int tries = 0; done < problems && tries < 4000; tries++) {
		struct problem p;
		lk_cores_list cores = {0};
		bool some = make_long_problem(&d, &p) && lk_space_cores(&p.space, &cores, NULL) == LK_OK &&
		            cores.count > 3 && cores.count < 16;
		p.request.top = 1 + (int)roll(&d, 4);
		done += some && check_search(&p, &cores, &cut);
		lk_vec_free(&cores);
		lk_arena_free(&p.arena);
	}
	assert_int_equal(done, problems);
	assert_true(cut > 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guesses_are_close),
		cmocka_unit_test(search_finds_what_simulating_everything_finds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
