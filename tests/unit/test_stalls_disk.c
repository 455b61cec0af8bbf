/* test_stalls_disk.c: what another disk would make of a step, against small event simulations of
 * programs that read: with the kernel reading ahead or not, several ranks on one device, a limit
 * that lets saved time through at once, loaders of several workers. The model sees what lockstep
 * would: the hot step, the cold one, bytes from storage, the device's rate, waiting. */
#include <math.h>

#include "stalls/stalls.h"
#include "base/stats.h"
#include "scratch.h"

static double draw(uint64_t seed, uint64_t at, double low, double high) {
	return low + (high - low) * lk_uniform(seed, at);
}

/* ---- the oracle ---- */

enum { MOST_RANKS = 8, SETTLING = 20, COUNTED = 40, MOST_AHEAD = 4096 };

/* Chunks of equal size: `chunks` a step and rank, `device` seconds each; `decode` behind each,
 * `compute` behind all. */
struct job {
	int ranks, chunks;
	double device, decode, compute;
	int ahead;    /* chunks that the kernel asks for beyond the one that is read */
	double saved; /* seconds of the device that it makes up for at once */
	int seldom;   /* only each so many steps read, all that the others would have; 0, 1: all do */
};

/* The device: one request after the other. With `saved` it is a limit: what it did not use it lets
 * through later. */
struct device {
	double free, saved, each, intervals_end, busy_waiting;
};

static double serve(struct device *device, double asked) {
	device->free = fmax(device->free, asked - device->saved) + device->each;
	return fmax(asked, device->free);
}

struct outcome {
	double step, waited; /* seconds a step: its length, that some rank waits */
	lk_disk_step each[COUNTED];
};

struct reader {
	double now;
	int asked, read; /* chunks */
	double *ready;   /* of chunk i, at i % MOST_AHEAD */
};

/* The rank that is behind goes next; all meet after every step. Waiting of ranks that overlaps
 * counts once. */
static struct outcome run_job(const struct job *job, double faster) {
	struct device d = {.saved = job->saved, .each = job->device / faster};
	struct reader r[MOST_RANKS] = {0};
	double begin = 0, waited = 0, seen = 0;
	struct outcome out = {0};
	for (int i = 0; i < job->ranks; i++)
		assert_non_null(r[i].ready = calloc(MOST_AHEAD, sizeof(double)));
	for (int s = 0; s < SETTLING + COUNTED; s++) {
		double step_begins = r[0].now, stored = 0, waited_before = waited;
		if (s == SETTLING) {
			begin = r[0].now;
			waited = waited_before = 0;
		}
		int seldom = job->seldom > 1 ? job->seldom : 1,
			upto = (s / seldom + 1) * seldom * job->chunks;
		for (int left = s % seldom ? 0 : job->ranks * seldom * job->chunks; left > 0; left--) {
			struct reader *first = NULL;
			for (int i = 0; i < job->ranks; i++)
				if (r[i].read < upto && (!first || r[i].now < first->now)) first = &r[i];
			for (; first->asked <= first->read + job->ahead; first->asked++, stored++)
				first->ready[first->asked % MOST_AHEAD] = serve(&d, first->now);
			double ready = first->ready[first->read++ % MOST_AHEAD];
			if (ready > first->now) {
				waited += fmax(0, ready - fmax(seen, first->now));
				seen = fmax(seen, ready);
				first->now = ready;
			}
			first->now += job->decode;
		}
		double end = 0;
		for (int i = 0; i < job->ranks; i++) end = fmax(end, r[i].now + job->compute);
		for (int i = 0; i < job->ranks; i++) r[i].now = end;
		if (s >= SETTLING)
			out.each[s - SETTLING] =
				(lk_disk_step){end - step_begins, waited - waited_before, stored};
	}
	for (int i = 0; i < job->ranks; i++) free(r[i].ready);
	out.step = (r[0].now - begin) / COUNTED;
	out.waited = waited / COUNTED;
	return out;
}

/* Workers fetch and decode batches in turn, `ready` batches each at most; the step takes them in
 * order. */
static struct outcome run_loader(const struct job *job, int workers, double faster) {
	enum { AHEAD = 2 };
	double used[SETTLING + COUNTED] = {0}, worker[MOST_RANKS] = {0}, each = job->device / faster,
						   disk = 0, now = 0, waited = 0;
	int done[MOST_RANKS] = {0};
	double got[SETTLING + COUNTED] = {0}, seen = 0;
	for (int s = 0; s < SETTLING + COUNTED; s++) got[s] = NAN;
	for (int made = 0; made < (SETTLING + COUNTED) * job->chunks; made++) {
		int next = -1;
		double at = INFINITY;
		for (int w = 0; w < workers; w++) {
			int batch = done[w] / job->chunks * workers + w, room = batch - AHEAD * workers - 1;
			if (batch >= SETTLING + COUNTED || (room >= 0 && used[room] <= 0)) continue;
			double when =
				room >= 0 && done[w] % job->chunks == 0 ? fmax(worker[w], used[room]) : worker[w];
			if (when < at) {
				at = when;
				next = w;
			}
		}
		assert_true(next >= 0);
		double ready = fmax(disk, at) + each;
		int batch = done[next] / job->chunks * workers + next;
		if (batch >= SETTLING) waited += fmax(0, ready - fmax(seen, at));
		seen = fmax(seen, ready);
		disk = ready;
		worker[next] = ready + job->decode;
		if (++done[next] % job->chunks == 0) got[batch] = worker[next];
		for (int s = 0; s < SETTLING + COUNTED; s++) {
			if (used[s] > 0) continue;
			if (isnan(got[s])) break;
			now = used[s] = fmax(now, got[s]) + job->compute;
		}
	}
	struct outcome out = {.step = (used[SETTLING + COUNTED - 1] - used[SETTLING - 1]) / COUNTED,
	                      .waited = waited / COUNTED};
	for (int s = 0; s < COUNTED; s++)
		out.each[s] = (lk_disk_step){out.step, out.waited, job->chunks};
	return out;
}

/* ---- what lockstep makes of it ---- */

static lk_stalls_model model_of(const struct job *job, const struct outcome *hot,
                                const struct outcome *cold, bool counted) {
	lk_stalls_model m = {.own = job->compute,
	                     .preparation = job->chunks * job->decode,
	                     .workers = 1,
	                     .bytes = job->chunks,
	                     .memory = 1e15};
	lk_disk_work work = {.steps = cold->each,
	                     .count = counted ? COUNTED : 0,
	                     .rate = 1 / job->device,
	                     .waited = cold->waited,
	                     .fetch = fmax(0, cold->step - hot->step),
	                     .step = cold->step};
	work.stalls = work.fetch > 0.02 * cold->step;
	lk_stalls_fit_disk(&m, &work);
	return m;
}

static double predicted(const lk_stalls_model *now, double faster, double step) {
	lk_stalls_machine machine = {faster, 1, 1, NAN, NAN};
	lk_stalls_model then = lk_stalls_on(now, &machine);
	return step * lk_stalls_closed(&then, NULL) / lk_stalls_closed(now, NULL);
}

/* Within a share of the truth, or so many seconds. */
static void assert_predicts(const struct job *job, bool counted, double share, double seconds,
                            uint64_t seed) {
	static const double faster[] = {1, 0.5, 1.5, 2, 4, 16};
	struct outcome hot = run_job(job, 1e9), cold = run_job(job, 1);
	lk_stalls_model m = model_of(job, &hot, &cold, counted);
	for (size_t i = 0; i < sizeof faster / sizeof *faster; i++) {
		double truth = run_job(job, faster[i]).step, said = predicted(&m, faster[i], cold.step);
		if (fabs(said - truth) > (faster[i] == 1 ? 1e-9 * truth : fmax(share * truth, seconds)))
			fail_msg("seed %d: x%g: %.4g for %.4g (hot %.4g, cold %.4g)", (int)seed, faster[i],
			         said, truth, hot.step, cold.step);
	}
}

/* Each read waits for its own request, nothing is hidden: waiting alone tells it, whether bytes are
 * counted or not. */
static void test_nothing_ahead(void **state) {
	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		struct job j = {.ranks = 1,
		                .chunks = 50,
		                .device = draw(seed, 0, 1e-4, 5e-3),
		                .decode = draw(seed, 1, 0, 2e-3),
		                .compute = draw(seed, 2, 1e-3, 0.2)};
		assert_predicts(&j, seed % 2, 1e-6, 0, seed);
	}
}

/* The kernel reads far ahead: the step is the device's time as soon as that is longer. */
static void test_far_ahead(void **state) {
	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		struct job j = {.ranks = 1,
		                .chunks = 50,
		                .ahead = 1000,
		                .device = draw(seed, 0, 2e-3, 1e-2),
		                .decode = draw(seed, 1, 0, 1e-3)};
		j.compute = draw(seed, 2, 0, 50 * (j.device - j.decode)); /* it is a stall */
		assert_predicts(&j, true, 1e-6, 0, seed);
	}
}

/* It reads a little ahead: decoding is hidden, and of the model's time as much as the window is.
 * That scales with the device, which the model does not know: it is off by the window's time at
 * most. */
static void test_little_ahead(void **state) {
	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		struct job j = {.ranks = 1, .chunks = 400, .ahead = 8, .device = draw(seed, 0, 1e-3, 4e-3)};
		j.decode = draw(seed, 1, 0, 0.2) * j.device;
		j.compute = draw(seed, 2, 0.1, 1);
		assert_predicts(&j, true, 0, (j.ahead + 1) * j.device, seed);
	}
}

/* Ranks of a host, one served while the others decode: waiting of all, counted once, is the
 * device's time. */
static void test_ranks(void **state) {
	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		struct job j = {.ranks = 2 + (int)(seed % 3),
		                .chunks = 200,
		                .device = draw(seed, 0, 1e-3, 4e-3),
		                .compute = draw(seed, 2, 0.05, 1)};
		j.decode = draw(seed, 1, 0, 0.05) * j.device;
		assert_predicts(&j, seed % 2, 0.03, 0, seed);
	}
}

/* A limit that lets through at once what was not used. */
static void test_saved(void **state) {
	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		struct job j = {.ranks = 1,
		                .chunks = 200,
		                .device = draw(seed, 0, 1e-3, 4e-3),
		                .decode = draw(seed, 1, 0, 1e-4),
		                .compute = draw(seed, 2, 0.1, 0.5),
		                .saved = draw(seed, 3, 0, 0.08)};
		assert_predicts(&j, true, 0.03, 0, seed);
	}
}

/* Now and then much is read: twice the rate helps those steps alone, and the others hide none of
 * their reading. */
static void test_seldom(void **state) {
	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		struct job j = {.ranks = 1,
		                .chunks = 50,
		                .seldom = 2 + (int)(seed % 2) * 2,
		                .ahead = seed % 3 ? 1000 : 0,
		                .device = draw(seed, 0, 2e-3, 1e-2),
		                .compute = draw(seed, 2, 0.05, 0.3)};
		j.decode = draw(seed, 1, 0, 0.9) * j.device;
		if (j.ahead) j.ahead = 8;
		assert_predicts(&j, true, 1e-3, (j.ahead + 1) * j.device / j.seldom, seed);
	}
}

/* Half of the stall is not what twice the rate saves: here it is all of it. */
static void test_half_of_the_stall(void **state) {
	(void)state;
	struct job j = {
		.ranks = 1, .chunks = 100, .ahead = 1000, .device = 3e-3, .decode = 5e-4, .compute = 0.1};
	struct outcome hot = run_job(&j, 1e9), cold = run_job(&j, 1), twice = run_job(&j, 2);
	assert_true(fabs(cold.step - 0.3) < 1e-3 && fabs(hot.step - 0.15) < 1e-3 &&
	            fabs(twice.step - 0.15) < 2e-3);
	lk_stalls_model m = model_of(&j, &hot, &cold, true);
	assert_true(fabs(m.hidden - 0.15) < 1e-3);
	assert_true(fabs(predicted(&m, 2, cold.step) - twice.step) < 2e-3);
}

/* Files that were in memory: no stall, nothing from storage, nothing to be gained or lost. */
static void test_cached(void **state) {
	(void)state;
	lk_stalls_model m = {.own = 1, .preparation = 0.5, .workers = 1, .bytes = 1e6, .memory = 1e9};
	lk_disk_work none = {.rate = 1e8, .step = 1.501}, unknown = {.rate = NAN, .step = 1.501};
	lk_stalls_fit_disk(&m, &none);
	assert_true(isinf(m.disk) && m.hidden == 0);
	for (double faster = 0.25; faster < 100; faster *= 4)
		assert_true(predicted(&m, faster, 1.501) == 1.501);
	lk_stalls_fit_disk(&m, &unknown);
	assert_true(isinf(m.disk) && predicted(&m, 2, 1.501) == 1.501);
}

/* Workers beside the step: limited by the device, by what each waits and decodes, or by neither. */
static void test_workers(void **state) {
	(void)state;
	static const double faster[] = {1, 0.5, 2, 4};
	int stalls = 0, hidden = 0;
	for (uint64_t seed = 0; seed < 200; seed++) {
		int workers = 1 + (int)(seed % 4);
		struct job j = {.ranks = 1,
		                .chunks = 64,
		                .device = draw(seed, 0, 1e-4, 4e-3),
		                .decode = draw(seed, 1, 1e-4, 4e-3),
		                .compute = draw(seed, 2, 0.01, 0.3)};
		struct outcome hot = run_loader(&j, workers, 1e9), cold = run_loader(&j, workers, 1);
		lk_stalls_model m = {.pipelined = true,
		                     .own = j.compute,
		                     .preparation = j.chunks * j.decode,
		                     .workers = workers,
		                     .bytes = j.chunks,
		                     .memory = 1e15};
		lk_disk_work work = {.steps = cold.each,
		                     .count = COUNTED,
		                     .rate = 1 / j.device,
		                     .waited = cold.waited,
		                     .step = cold.step,
		                     .fetch = fmax(0, cold.step - hot.step)};
		work.stalls = work.fetch > 0.02 * cold.step;
		if (work.stalls) stalls++;
		else hidden++;
		lk_stalls_fit_disk(&m, &work);
		for (size_t i = 0; i < sizeof faster / sizeof *faster; i++) {
			double truth = run_loader(&j, workers, faster[i]).step,
				   said = predicted(&m, faster[i], cold.step);
			if (fabs(said / truth - 1) > 0.08)
				fail_msg("seed %d, %d workers: x%g: %.4g for %.4g (hot %.4g, cold %.4g)", (int)seed,
				         workers, faster[i], said, truth, hot.step, cold.step);
		}
	}
	assert_true(stalls > 30 && hidden > 30);
}

/* The step that was measured is the model's, whatever was measured; no step is shorter than the
 * device works. */
static void test_odd(void **state) {
	(void)state;
	for (uint64_t seed = 0; seed < 1000; seed++) {
		lk_stalls_model m = {.pipelined = seed % 2,
		                     .own = draw(seed, 0, 1e-3, 1),
		                     .preparation = draw(seed, 1, 0, 1),
		                     .workers = 1 + (double)(seed % 5),
		                     .bytes = seed % 7 ? 1e6 : 0,
		                     .memory = 1e12};
		if (!m.pipelined) m.workers = 1;
		double rest = lk_stalls_closed(&(lk_stalls_model){.pipelined = m.pipelined,
		                                                  .own = m.own,
		                                                  .preparation = m.preparation,
		                                                  .workers = m.workers,
		                                                  .memory = 1},
		                               NULL);
		double fetch = seed % 3 ? draw(seed, 2, 0, 2) : 0;
		lk_disk_step each[7];
		for (uint64_t i = 0; i < 7; i++)
			each[i] = (lk_disk_step){draw(seed, 10 + i, 0, 2) * (rest + fetch),
			                         draw(seed, 30 + i, 0, 2) * fetch,
			                         seed % 5 ? draw(seed, 20 + i, 0, 2e9) : 0};
		lk_disk_work work = {.steps = each,
		                     .count = seed % 8,
		                     .rate = seed % 11 ? draw(seed, 4, 1e6, 1e10) : NAN,
		                     .waited = draw(seed, 5, 0, 3),
		                     .fetch = fetch,
		                     .step = rest + fetch,
		                     .stalls = fetch > 0};
		lk_stalls_fit_disk(&m, &work);
		double closed = lk_stalls_closed(&m, NULL);
		assert_true(m.hidden >= 0 && isfinite(m.hidden) && m.disk > 0 && isfinite(closed));
		assert_true(closed >= lk_stalls_device_s(&m) * (1 - 1e-9));
		double mean = 0;
		for (int i = 0; i < m.kinds; i++) {
			assert_true(m.of[i].device >= 0 && m.of[i].hidden >= 0);
			mean += m.of[i].device / m.kinds;
		}
		if (m.kinds && fabs(mean - 1) > 1e-9) fail_msg("shares of %.9g", mean);
		double simulated;
		lk_error err;
		assert_int_equal(lk_stalls_simulate(&m, &simulated, &err), LK_OK);
		if (fabs(simulated / closed - 1) > 1e-3)
			fail_msg("seed %d: %.6g simulated, %.6g closed", (int)seed, simulated, closed);
		if (m.bytes > 0 && !m.pipelined && !m.kinds && fabs(closed / work.step - 1) > 1e-4)
			fail_msg("%.6g for %.6g", closed, work.step);
		assert_true(predicted(&m, 2, 1) <= 1 + 1e-9 && predicted(&m, 0.5, 1) >= 1 - 1e-9);
	}
}

/* ---- the rate ---- */

static void test_rate(void **state) {
	(void)state;
	static char block[1 << 16];
	char path[64];
	FILE *file = fopen(new_file(path, ".bin"), "wb");
	assert_non_null(file);
	for (int i = 0; i < 48; i++)
		assert_int_equal(fwrite(block, 1, sizeof block, file), sizeof block);
	assert_int_equal(fclose(file), 0);
	const char *paths[] = {path, "/no/such", path}, *none[] = {"/no/such", "/dev/zero"};
	for (int streams = 0; streams <= 20; streams += 5)
		assert_true(lk_disk_rate(paths, 3, streams) > 1e5);
	assert_true(isnan(lk_disk_rate(none, 2, 2)) && isnan(lk_disk_rate(none, 0, 2)));
	assert_int_equal(remove(path), 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_ahead), cmocka_unit_test(test_far_ahead),
		cmocka_unit_test(test_little_ahead),  cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_saved),         cmocka_unit_test(test_half_of_the_stall),
		cmocka_unit_test(test_cached),        cmocka_unit_test(test_seldom),
		cmocka_unit_test(test_workers),       cmocka_unit_test(test_odd),
		cmocka_unit_test(test_rate),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
