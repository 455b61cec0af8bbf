/* run_simulate.c: a run stop by stop, many times. Between stops time passes in one step: work and
 * stalls of checkpoints form cycles, a tier's inside of the next slower one's. A stop ends what
 * runs, also a recovery, which then begins again. Stops are a Poisson process
 * (docs/method/runs.md).
 *
 * The draws of sample i are a stream of its own, so that any thread may make it. */
#include <math.h>
#include <stdlib.h>

#include "base/stats.h"
#include "run/run.h"
#include "system/parallel.h"

static const double HOUR = 3600, DAY = 86400;
enum { PER_JOB = 16, FEW_SAMPLES = 20 };
/* Of one run, which beyond that is simulated in part; of all. */
static const double MOST_STOPS = 2e6, ALL_STOPS = 3e7;

static const struct {
	const char *key, *label;
} parts[LK_RUN_PARTS] = {
	[LK_RUN_USEFUL] = {"useful", "training"},
	[LK_RUN_CHECKPOINT] = {"checkpoints", "waiting for checkpoints"},
	[LK_RUN_REPEATED] = {"repeated", "work done again"},
	[LK_RUN_DETECT] = {"detection", "until a stop is noticed"},
	[LK_RUN_DIAGNOSE] = {"diagnosis", "until the machine is found"},
	[LK_RUN_SPARES] = {"spares", "waiting for machines"},
	[LK_RUN_RESTART] = {"restart", "restarting and loading"},
	[LK_RUN_REDUCED] = {"reduced", "missing replicas"},
	[LK_RUN_PLANNED] = {"planned", "planned stops"},
};

const char *lk_run_part_key(lk_run_part part) {
	return parts[part].key;
}
const char *lk_run_part_label(lk_run_part part) {
	return parts[part].label;
}

/* Machines under repair: when they come back, in order. */
struct repairs {
	double *at;
	size_t first, count, room;
};

struct sampled {
	double days, gpu_days, goodput, stops, part_s[LK_RUN_PARTS];
};

struct course {
	const lk_long_run *run;
	uint64_t stream, draws;
	double cycle_s[LK_RUN_TIERS], safe_s[LK_RUN_TIERS]; /* wall time; work that tiers hold */
	double now_s, stop_s, planned_s, base_s;            /* base: work done and kept */
	struct repairs repairs;
	struct sampled out;
};

struct simulation {
	const lk_long_run *phases;
	int count, sample_count;
	double longer; /* the run than what is simulated of it */
	struct sampled *samples;
};

static double draw_uniform(struct course *course) {
	return lk_uniform(course->stream, course->draws++);
}

static double draw_next(struct course *course, double per_h) {
	return per_h > 0 ? course->now_s - log(draw_uniform(course)) * HOUR / per_h : INFINITY;
}

static void spend(struct course *course, lk_run_part part, double seconds) {
	course->out.part_s[part] += seconds;
}

/* ---- work and wall time within a segment, which begins with a checkpoint of every tier */

static double wall_of(const lk_long_run *run, double work_s) {
	double wall = work_s;
	for (int k = 0; k < run->tier_count; k++)
		wall += floor(work_s / run->tiers[k].interval_s * (1 + 1e-12)) * run->tiers[k].stall_s;
	return wall;
}

static double work_at(const struct course *course, double wall_s) {
	const lk_long_run *run = course->run;
	double work = 0, outer = INFINITY; /* what the cycle of the slower tier still has */
	for (int k = run->tier_count - 1; k >= 0; k--) {
		double interval = run->tiers[k].interval_s, whole = floor(wall_s / course->cycle_s[k]);
		if (whole * interval >= outer * (1 - 1e-9)) return work + outer; /* its stall */
		work += whole * interval;
		wall_s -= whole * course->cycle_s[k];
		outer = interval;
	}
	return work + fmin(wall_s, outer);
}

/* Work that a tier holds after `wall_s` of a segment: of checkpoints that were written by then. */
static double held_by(const struct course *course, int k, double work_s, double wall_s) {
	const lk_run_tier *tier = &course->run->tiers[k];
	double whole = floor(work_s / tier->interval_s * (1 + 1e-12)),
		   lag = tier->write_s - tier->stall_s;
	while (whole > 0 && wall_of(course->run, whole * tier->interval_s) + lag > wall_s) whole--;
	return whole * tier->interval_s;
}

/* ---- machines */

/* Take a machine; returns how long it has to be waited for. */
static double take_machine(struct course *course) {
	struct repairs *repairs = &course->repairs;
	const lk_long_run *run = course->run;
	double wait = 0;
	if (run->spares < 0) return 0;
	while (repairs->count && repairs->at[repairs->first] <= course->now_s) {
		repairs->first = (repairs->first + 1) % repairs->room;
		repairs->count--;
	}
	if (run->spares == 0) return run->repair_h * HOUR;
	if ((double)repairs->count >= run->spares) {
		wait = repairs->at[repairs->first] - course->now_s;
		repairs->first = (repairs->first + 1) % repairs->room;
		repairs->count--;
	}
	repairs->at[(repairs->first + repairs->count++) % repairs->room] =
		course->now_s + run->repair_h * HOUR;
	return wait;
}

/* ---- stops */

/* Spend time in which nothing stops the run, as when nothing runs. */
static void pass_idle(struct course *course, lk_run_part part, double seconds) {
	spend(course, part, seconds);
	course->now_s += seconds;
	course->stop_s += seconds;
}

/* Spend the phases of a recovery in their order until the next stop; false: it came before the
 * end. */
static bool recover(struct course *course, const double *phases) {
	static const lk_run_part order[] = {LK_RUN_DETECT, LK_RUN_DIAGNOSE, LK_RUN_SPARES,
	                                    LK_RUN_RESTART};
	for (int i = 0; i < 4; i++) {
		double left = course->stop_s - course->now_s;
		if (phases[i] > left) {
			spend(course, order[i], left);
			course->now_s = course->stop_s;
			return false;
		}
		spend(course, order[i], phases[i]);
		course->now_s += phases[i];
	}
	return true;
}

/* The best checkpoint that a stop leaves; loses those that lay in the machine. */
static double restore(struct course *course, bool replaces, double *load_s) {
	const lk_long_run *run = course->run;
	double best = -1;
	for (int k = 0; k < run->tier_count; k++) {
		if ((replaces && !run->tiers[k].survives) || course->safe_s[k] <= best) continue;
		best = course->safe_s[k];
		*load_s = run->tiers[k].load_s;
	}
	return best;
}

/* All stops from one that interrupted work to the next step. */
static void stop(struct course *course, double worked_s, double wall_s) {
	const lk_long_run *run = course->run;
	const lk_run_recovery *recovery = &run->recovery;
	bool elastic = recovery->elastic && run->replicas > 1, loses = false;
	for (int k = 0; k < run->tier_count; k++)
		course->safe_s[k] =
			fmax(course->safe_s[k], course->base_s + held_by(course, k, worked_s, wall_s));
	for (bool done = false; !done;) {
		bool replaces = draw_uniform(course) < run->replaced_share,
			 hangs = draw_uniform(course) < recovery->hang_share;
		double load = 0;
		course->out.stops++;
		loses |= replaces;
		course->stop_s = draw_next(course, run->stops_per_h);
		if (!elastic) course->base_s = restore(course, loses, &load);
		double wait = replaces ? take_machine(course) : 0;
		double swap = replaces ? recovery->replace_s : 0;
		if (elastic) {
			/* what its replica would have done meanwhile */
			double missing = (wait + swap) / run->replicas;
			wait = swap = 0;
			pass_idle(course, LK_RUN_REDUCED, missing);
		}
		pass_idle(course, LK_RUN_SPARES, wait);
		double phases[] = {hangs ? recovery->hang_s : recovery->detect_s, recovery->diagnose_s,
		                   swap, (replaces ? recovery->restart_s : recovery->in_place_s) + load};
		done = recover(course, phases);
	}
	for (int k = 0; k < run->tier_count; k++) course->safe_s[k] = course->base_s;
}

/* A segment: from one begin of work to the next; false: the run has ended. */
static bool advance(struct course *course) {
	const lk_long_run *run = course->run;
	double left = run->work_s - course->base_s, whole = wall_of(run, left);
	double until = fmin(course->stop_s, course->planned_s), before = course->base_s,
		   begin = course->now_s;
	if (begin + whole <= until) {
		spend(course, LK_RUN_USEFUL, left);
		spend(course, LK_RUN_CHECKPOINT, whole - left);
		course->now_s += whole;
		return false;
	}
	double wall = until - begin, worked = work_at(course, wall);
	bool planned = course->planned_s < course->stop_s, elastic = run->recovery.elastic;
	course->now_s = until;
	if (planned || (elastic && run->replicas > 1)) {
		for (int k = 0; k < run->tier_count; k++) course->safe_s[k] = before + worked;
		course->base_s = before + worked;
	}
	if (planned) {
		spend(course, LK_RUN_PLANNED, run->recovery.in_place_s);
		course->now_s += run->recovery.in_place_s;
		course->planned_s = draw_next(course, run->planned_per_h);
		if (course->stop_s < course->now_s) course->stop_s = draw_next(course, run->stops_per_h);
	} else {
		double back = course->now_s;
		if (elastic && run->replicas > 1) stop(course, 0, 0);
		else stop(course, worked, wall);
		if (course->planned_s < course->now_s)
			course->planned_s += course->now_s - back; /* it is put off */
	}
	double kept = course->base_s - before, stalls = kept > 0 ? wall_of(run, kept) - kept : 0;
	stalls = fmin(stalls, wall - fmax(kept, 0));
	spend(course, LK_RUN_USEFUL, kept);
	spend(course, LK_RUN_CHECKPOINT, stalls);
	spend(course, LK_RUN_REPEATED, wall - kept - stalls);
	return true;
}

/* Adds a phase of a sample to `out`. */
static lk_status simulate_phase(const lk_long_run *whole, double longer, uint64_t stream,
                                struct sampled *out, lk_error *err) {
	lk_long_run part = *whole;
	const lk_long_run *run = &part;
	part.work_s /= longer;
	struct course course = {.run = run, .stream = stream, .out = *out};
	double most_s = 100 * run->work_s + 1000 * DAY;
	for (int k = 0; k < run->tier_count; k++) {
		double inner = k ? course.cycle_s[k - 1] / run->tiers[k - 1].interval_s : 1;
		course.cycle_s[k] = inner * run->tiers[k].interval_s + run->tiers[k].stall_s;
	}
	course.repairs.room = run->spares > 0 ? (size_t)run->spares : 1;
	course.repairs.at = calloc(course.repairs.room, sizeof *course.repairs.at);
	if (!course.repairs.at) return lk_oom(err);
	course.stop_s = draw_next(&course, run->stops_per_h);
	course.planned_s = draw_next(&course, run->planned_per_h);
	while (advance(&course) && course.now_s < most_s) continue;
	free(course.repairs.at);
	if (course.now_s >= most_s) {
		lk_fail(err, LK_ERR_INPUT, "run",
		        "it does not end: it stops every %.3g h, and each stop costs more",
		        1 / run->stops_per_h);
		return lk_hint(err, "take lower rates, more spares or a faster recovery");
	}
	*out = course.out;
	out->days += course.now_s / DAY;
	out->gpu_days += course.now_s / DAY * run->gpus * (1 + fmax(run->spares, 0) / run->nodes);
	return LK_OK;
}

static lk_status simulate_some(void *context, size_t job, lk_error *err) {
	struct simulation *simulation = context;
	const lk_long_run *phases = simulation->phases;
	int first = (int)job * PER_JOB, end = first + PER_JOB;
	if (end > simulation->sample_count) end = simulation->sample_count;
	for (int i = first; i < end; i++) {
		struct sampled *out = &simulation->samples[i];
		uint64_t stream = lk_hash64((uint64_t)phases->seed + (uint64_t)i);
		for (int p = 0; p < simulation->count; p++)
			LK_TRY(simulate_phase(&phases[p], simulation->longer, lk_hash64(stream + (uint64_t)p),
			                      out, err));
		out->goodput = fmin(1, out->part_s[LK_RUN_USEFUL] / DAY / out->days);
	}
	return LK_OK;
}

/* Quantiles of a figure of runs `longer` than those simulated, which adds up over their parts or,
 * as a share, is the mean of them. */
static lk_run_quantiles quantiles_of(const struct sampled *samples, size_t at, bool adds,
                                     double longer, double *room, int count) {
	double mean = 0, times = adds ? longer : 1;
	for (int i = 0; i < count; i++) {
		room[i] = *(const double *)(const void *)((const char *)&samples[i] + at) * times;
		mean += room[i] / count;
	}
	for (int i = 0; i < count; i++) room[i] = mean + (room[i] - mean) / sqrt(longer);
	size_t n = (size_t)count;
	return (lk_run_quantiles){mean, lk_quantile(room, n, 0.05), lk_quantile(room, n, 0.5),
	                          lk_quantile(room, n, 0.95)};
}

/* Stops of all phases that are to be expected; infinite or NAN: no work is left. */
static double expected_stops(const lk_long_run *phases, int count) {
	double sum = 0;
	for (int i = 0; i < count; i++)
		sum += (phases[i].stops_per_h + phases[i].planned_per_h) * phases[i].work_s / HOUR /
		       lk_run_goodput(&phases[i]);
	return sum;
}

lk_status lk_run_simulate(const lk_long_run *phases, int phase_count, lk_run_days *out,
                          lk_error *err) {
	double stops = expected_stops(phases, phase_count);
	if (!isfinite(stops)) {
		lk_fail(err, LK_ERR_INPUT, "run", "it stops faster than it comes back");
		return lk_hint(err, "take lower rates or a faster recovery");
	}
	double longer = fmax(1, stops / MOST_STOPS);
	int samples =
		(int)fmin(phases->samples, fmax(FEW_SAMPLES, ALL_STOPS / fmax(stops / longer, 1)));
	size_t count = (size_t)samples;
	struct simulation simulation = {phases, phase_count, samples, longer,
	                                calloc(count, sizeof *simulation.samples)};
	double *room = calloc(count, sizeof *room);
	lk_status status = simulation.samples && room ? LK_OK : lk_oom(err);
	if (status == LK_OK)
		status = lk_parallel((count + PER_JOB - 1) / PER_JOB, 0, simulate_some, &simulation, err);
	if (status == LK_OK) {
		const struct sampled *all = simulation.samples;
		*out = (lk_run_days){
			.samples = samples,
			.days = quantiles_of(all, offsetof(struct sampled, days), true, longer, room, samples),
			.gpu_days =
				quantiles_of(all, offsetof(struct sampled, gpu_days), true, longer, room, samples),
			.goodput =
				quantiles_of(all, offsetof(struct sampled, goodput), false, longer, room, samples),
			.stops =
				quantiles_of(all, offsetof(struct sampled, stops), true, longer, room, samples)};
		for (size_t i = 0; i < count; i++)
			for (int part = 0; part < LK_RUN_PARTS; part++)
				out->part_days[part] += all[i].part_s[part] * longer / DAY / samples;
	}
	free(simulation.samples);
	free(room);
	return status;
}
