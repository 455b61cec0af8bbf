/* stalls_formulas.c: the step's parts from the step times of the configurations.
 *
 * Every configuration's step is a sum of parts, and so are the times recorded in it:
 *
 *     one                 compute + writing [+ preparation]     of the typical rank
 *     null                the same + sharing                    of the typical rank, outside calls
 *     ready               the same + imbalance + communication
 *     hot                 the same + preparation
 *     cold                the same + fetch
 *     recorded in them    writing; imbalance; communication; preparation if nothing can be made
 *                         ready (with a loader in the step it is then in one and null too)
 *
 * All are fitted together (stalls_fit.c). Missing ones are left out; without rounds the first run
 * is the step, and everything is recorded. Differences of Stash: interconnect RUN1 - RUN0,
 * preparation RUN3 - RUN1, fetch RUN2 - RUN3.
 *
 * In step s rank r works w_rs and waits l_rs for its loader, if that is in other threads or
 * processes. The step takes max_r (w_rs + l_rs) and its communication. Means over steps:
 *
 *     typical rank         the lower median over ranks of the mean w_rs: of two the faster one
 *     imbalance            max_r w_rs - typical
 *     preparation          max_r (w_rs + l_rs) - max_r w_rs: what no rank would wait if data were
 *                          there, whichever rank waits in which step
 *     waiting for a rank   max_r (w_rs + l_rs) - mean_r (w_rs + l_rs): in calls, but caused by the
 *                          parts above
 *
 * Communication is divided like the recorded times in calls.
 *
 * A step is a burst if it is far longer than those of its run, few are, and runs of the same
 * configuration had none at its place: caused by another program. Bursts are a part of their
 * own. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "stalls/stalls.h"
#include "base/check.h"
#include "base/stats.h"

/* Smaller shares of the step are not called stalls. */
static const double NAMED_SHARE = 0.02;
/* Relative difference that recorded times may have from the saving of a step without them. */
static const double DOUBT_OF_CALLS = 0.1, DOUBT_OF_LOADER = 0.05;
/* Intervals narrower than this share of the step need no more rounds. */
static const double NARROW_SHARE = 0.2;
/* Bursts: standard deviations above the median, and largest share of a run's steps. */
static const double BURST_DEVIATIONS = 4, BURST_SHARE = 0.15;

static const uint64_t ORDER_SEED = 7;

enum {
	SETTLED_ROUNDS = 5,
	LEAST_STEPS = 8, /* in a run, to detect bursts */
	FIRST_RUN = LK_STALLS_CONFIGURATIONS
};

const char *const lk_stalls_kinds[] = {"compute",     "imbalance", "writing", "sharing",
                                       "preparation", "fetch",     "waiting", "interconnect",
                                       "network",     "preempted", "bursts",  NULL};
const char *const lk_stalls_configurations[] = {"one", "null", "ready", "hot", "cold", NULL};

/* ---- times of configurations ---- */

static bool has_configuration(const lk_stalls_rounds *rounds, int c) {
	for (int i = 0; c < LK_STALLS_CONFIGURATIONS && i < rounds->count; i++)
		if (!isnan(rounds->at[c][i].step)) return true;
	return false;
}

/* The run of a round; every round shares the first run. */
static const lk_stalls_times *times_of_run(const lk_stalls_rounds *rounds, int c, int round) {
	return c == FIRST_RUN ? &rounds->first : &rounds->at[c][round];
}

/* Limit of a step's length in the run, beyond which it is a burst; INFINITY: none. */
static double longest_usual_step(const lk_stalls_steps *steps) {
	if (steps->count < LEAST_STEPS) return INFINITY;
	double middle = lk_median(steps->length, (size_t)steps->count);
	/* the lower half's spread, which bursts do not affect */
	double low = lk_quantile(steps->length, (size_t)steps->count, 0.25);
	double limit = middle + BURST_DEVIATIONS * fmax(1.4826 * (middle - low), 0.01 * middle);
	int longer = 0;
	for (int i = 0; i < steps->count; i++) longer += steps->length[i] > limit;
	return longer <= BURST_SHARE * steps->count ? limit : INFINITY;
}

static bool is_burst(const lk_stalls_rounds *rounds, int c, int round,
                     const double limits[LK_STALLS_REPEATS], int step) {
	int longer = 0, runs = 0;
	for (int k = 0; k < rounds->count; k++) {
		const lk_stalls_steps *steps = &rounds->at[c][k].steps;
		if (step >= steps->count) continue;
		runs++;
		longer += steps->length[step] > limits[k];
	}
	return rounds->at[c][round].steps.length[step] > limits[round] && 2 * longer <= runs;
}

/* A run without its bursts, and without what its recording tells exactly: how much shorter the step
 * would be if no rank was preempted, and then if no rank fetched. */
struct plain_run {
	double step, bursts, preempted, fetch;
	double slowest, fed, working; /* as in lk_stalls_steps */
};

static struct plain_run take_bursts_out(const lk_stalls_rounds *rounds, int c, int round,
                                        const double limits[LK_STALLS_REPEATS]) {
	const lk_stalls_times *times = times_of_run(rounds, c, round);
	const lk_stalls_steps *steps = &times->steps;
	struct plain_run out = {.step = times->step, .slowest = NAN, .fed = NAN, .working = NAN};
	const double *running = steps->running ? steps->running : steps->slowest,
				 *fed = steps->fed ? steps->fed : running;
	double length = 0, all = 0;
	struct plain_run sum = {0};
	int count = 0;
	for (int i = 0; i < steps->count; i++) {
		all += steps->length[i] / steps->count;
		if (c != FIRST_RUN && rounds->count > 1 && is_burst(rounds, c, round, limits, i)) continue;
		length += steps->length[i];
		sum.slowest += steps->slowest[i];
		sum.preempted += steps->slowest[i] - running[i];
		sum.fetch += running[i] - fed[i];
		sum.fed += fed[i];
		sum.working += steps->working[i];
		count++;
	}
	if (!count) return out;
	out.bursts = fmax(0, all - length / count);
	out.preempted = sum.preempted / count;
	out.fetch = sum.fetch / count;
	out.step = times->step - out.bursts - out.preempted - out.fetch;
	out.slowest = sum.slowest / count;
	out.fed = sum.fed / count;
	out.working = sum.working / count;
	return out;
}

/* ---- rows of the fit ---- */

enum fitted { OWN, IMBALANCE, WRITING, SHARING, PREPARATION, FETCH, COMMUNICATION, FITTED };
enum {
	HAS_OWN = 1 << OWN,
	HAS_IMBALANCE = 1 << IMBALANCE,
	HAS_WRITING = 1 << WRITING,
	HAS_SHARING = 1 << SHARING,
	HAS_PREPARATION = 1 << PREPARATION,
	HAS_FETCH = 1 << FETCH,
	HAS_COMMUNICATION = 1 << COMMUNICATION
};

struct design {
	const lk_stalls_rounds *rounds;
	int base, warm, with; /* configurations: the step; without fetch; without preparation */
	int without;          /* without communication; -1: none */
	bool ready;           /* data could be made ready: preparation is measured */
	bool handed;          /* preparation is waits for loaders, which are known in each run */
	bool imbalance, comm; /* recorded */
	uint32_t all;         /* existing parts */
	int cycles, count;
	lk_fit_row row[LK_FIT_ROWS];
	double value[LK_FIT_ROWS][LK_STALLS_REPEATS];
	struct plain_run run[LK_STALLS_CONFIGURATIONS + 1][LK_STALLS_REPEATS];
};

static double comm_of_run(const lk_stalls_times *times) {
	return lk_stalls_known(times->waiting) + lk_stalls_known(times->interconnect) +
	       lk_stalls_known(times->network);
}

/* Waiting of ranks in calls because one of them comes later. Negative values are kept: clipping
 * each round would bias the mean. */
static double awaited_of_run(const struct design *design, int c, int k) {
	const lk_stalls_times *times = times_of_run(design->rounds, c, k);
	double slowest = design->run[c][k].slowest;
	return design->imbalance && !isnan(slowest) ? slowest - times->own : 0;
}

/* The delay of the run's steps by the loaders. */
static double preparation_of_run(const struct design *design, int c, int k) {
	const lk_stalls_times *times = times_of_run(design->rounds, c, k);
	const struct plain_run *run = &design->run[c][k];
	return times->handed && design->imbalance ? run->fed - run->working : times->preparation;
}

/* A step of the typical rank, without the remaining communication of null runs; if preparation is
 * waits for loaders, without those. */
static double alone_of_run(const struct design *design, int c, int k) {
	const lk_stalls_times *times = times_of_run(design->rounds, c, k);
	const struct plain_run *run = &design->run[c][k];
	double step = run->step - lk_stalls_known(times->uneven);
	/* the typical rank's time has been found without them */
	if (c == LK_STALLS_NULL && times->usual > 0) step += run->preempted + run->fetch;
	if (c == LK_STALLS_NULL) return step - comm_of_run(times);
	return design->handed && times->handed ? step - times->preparation : step;
}

static double *add_design_row(struct design *design, uint32_t parts, bool configuration,
                              double doubt) {
	LK_ASSERT(design->count < LK_FIT_ROWS);
	int r = design->count++;
	design->row[r] = (lk_fit_row){parts, configuration, doubt, design->value[r]};
	return design->value[r];
}

/* The parts in a configuration's step. */
static uint32_t parts_of_configuration(const struct design *design, int c) {
	uint32_t parts = design->all;
	if (c != design->base && c != FIRST_RUN) parts &= ~(uint32_t)HAS_FETCH;
	if (c <= LK_STALLS_READY && design->ready) parts &= ~(uint32_t)HAS_PREPARATION;
	if (c <= LK_STALLS_NULL && design->handed) parts &= ~(uint32_t)HAS_PREPARATION;
	if (c <= LK_STALLS_NULL) parts &= ~(uint32_t)(HAS_COMMUNICATION | HAS_IMBALANCE);
	if (c == LK_STALLS_ONE) parts &= ~(uint32_t)HAS_SHARING;
	return parts;
}

static void add_configuration_row(struct design *design, int c) {
	double *value = add_design_row(design, parts_of_configuration(design, c), c != FIRST_RUN, 0);
	bool alone = c <= LK_STALLS_NULL;
	for (int k = 0; k < design->cycles; k++)
		value[k] = alone ? alone_of_run(design, c, k) : design->run[c][k].step;
}

static void add_recorded_rows(struct design *design) {
	double *writing = add_design_row(design, HAS_WRITING, false, 0);
	double *preparation = design->all & HAS_PREPARATION && !design->ready
	                          ? add_design_row(design, HAS_PREPARATION, false, DOUBT_OF_LOADER)
	                          : NULL;
	double *imbalance = design->imbalance ? add_design_row(design, HAS_IMBALANCE, false, 0) : NULL;
	double *comm = design->without < 0 || design->comm
	                   ? add_design_row(design, HAS_COMMUNICATION, false,
	                                    design->without < 0 ? 0 : DOUBT_OF_CALLS)
	                   : NULL;
	for (int k = 0; k < design->cycles; k++) {
		const lk_stalls_times *with = times_of_run(design->rounds, design->with, k);
		const lk_stalls_times *warm = times_of_run(design->rounds, design->warm, k);
		writing[k] = lk_stalls_known(warm->writing);
		if (preparation) preparation[k] = preparation_of_run(design, design->warm, k);
		if (imbalance) imbalance[k] = design->run[design->with][k].working - with->usual;
		if (comm) comm[k] = comm_of_run(with) - awaited_of_run(design, design->with, k);
	}
	/* if a run does not tell, it takes the mean of the others */
	double mean = preparation ? lk_estimate_of(preparation, design->cycles).mean : 0;
	for (int k = 0; preparation && k < design->cycles; k++)
		if (isnan(preparation[k])) preparation[k] = mean;
}

static bool any_run_knows_preparation(const struct design *design) {
	for (int k = 0; k < design->cycles; k++)
		if (!isnan(times_of_run(design->rounds, design->warm, k)->preparation)) return true;
	return false;
}

/* For runs with several ranks; `uneven` of their null runs includes the waits for loaders. */
static bool all_runs_are_handed_data(const struct design *design) {
	for (int k = 0; k < design->cycles; k++) {
		const lk_stalls_times *times = times_of_run(design->rounds, design->warm, k);
		if (!isnan(times->step) && !times->handed) return false;
	}
	return true;
}

static bool any_run_has_comm(const struct design *design) {
	for (int k = 0; k < design->cycles; k++)
		if (comm_of_run(times_of_run(design->rounds, design->with, k)) > 0) return true;
	return false;
}

static bool all_runs_know_slowest(const struct design *design) {
	for (int k = 0; k < design->cycles; k++) {
		const lk_stalls_times *times = times_of_run(design->rounds, design->with, k);
		if (!isnan(times->step) &&
		    (isnan(design->run[design->with][k].slowest) || !(times->usual > 0)))
			return false;
	}
	return true;
}

static void take_all_bursts_out(struct design *design) {
	double limits[LK_STALLS_REPEATS];
	for (int c = 0; c <= FIRST_RUN; c++) {
		for (int k = 0; k < design->cycles; k++)
			limits[k] = longest_usual_step(&times_of_run(design->rounds, c, k)->steps);
		for (int k = 0; k < design->cycles; k++)
			design->run[c][k] = take_bursts_out(design->rounds, c, k, limits);
	}
}

static void make_design(struct design *design, const lk_stalls_rounds *rounds) {
	bool cold = has_configuration(rounds, LK_STALLS_COLD),
		 hot = has_configuration(rounds, LK_STALLS_HOT),
		 ready = has_configuration(rounds, LK_STALLS_READY),
		 null = has_configuration(rounds, LK_STALLS_NULL),
		 one = has_configuration(rounds, LK_STALLS_ONE);
	memset(design, 0, sizeof *design);
	design->rounds = rounds;
	design->base = FIRST_RUN;
	if (hot) design->base = LK_STALLS_HOT;
	if (cold) design->base = LK_STALLS_COLD;
	design->warm = hot ? LK_STALLS_HOT : design->base;
	design->ready = ready && hot;
	design->with = design->ready ? LK_STALLS_READY : design->warm;
	bool any = cold || hot || ready || null || one;
	design->cycles = any ? rounds->count : 1;
	design->without = -1;
	if (hot && one) design->without = LK_STALLS_ONE;
	if (hot && null) design->without = LK_STALLS_NULL;
	take_all_bursts_out(design);
	design->imbalance = all_runs_know_slowest(design);
	design->handed = design->imbalance && all_runs_are_handed_data(design);
	design->comm = any_run_has_comm(design);
	design->all = HAS_OWN | HAS_WRITING | HAS_COMMUNICATION;
	if (design->imbalance) design->all |= HAS_IMBALANCE;
	if (design->ready || any_run_knows_preparation(design)) design->all |= HAS_PREPARATION;
	if (null && one && design->without >= 0) design->all |= HAS_SHARING;
	if (cold && hot) design->all |= HAS_FETCH;
	add_configuration_row(design, design->base);
	if (design->warm != design->base) add_configuration_row(design, design->warm);
	if (design->ready) add_configuration_row(design, LK_STALLS_READY);
	if (null && design->without >= 0) add_configuration_row(design, LK_STALLS_NULL);
	if (one && design->without >= 0) add_configuration_row(design, LK_STALLS_ONE);
	add_recorded_rows(design);
}

/* ---- parts ---- */

lk_stalls_part lk_stalls_unknown(lk_stalls_kind kind, const char *why) {
	return (lk_stalls_part){.name = lk_stalls_kinds[kind],
	                        .seconds = NAN,
	                        .low = NAN,
	                        .high = NAN,
	                        .share = NAN,
	                        .own_share = NAN,
	                        .factor = NAN,
	                        .basis = LK_STALLS_UNKNOWN,
	                        .how = why};
}

static lk_estimate scale_estimate(lk_estimate e, double factor) {
	return (lk_estimate){e.mean * factor, e.low * factor, e.high * factor};
}

static void put_stall_part(lk_stalls_answer *out, lk_stalls_kind kind, lk_estimate e, double with,
                           lk_stalls_basis basis, const char *how) {
	LK_ASSERT(kind < LK_STALL_KINDS);
	bool surely = isnan(e.low) ? e.mean > 0 : e.low > 0;
	out->parts[kind] = (lk_stalls_part){.name = lk_stalls_kinds[kind],
	                                    .seconds = e.mean,
	                                    .low = e.low,
	                                    .high = e.high,
	                                    .basis = basis,
	                                    .how = how,
	                                    .share = e.mean / out->step_s,
	                                    .own_share = e.mean / with,
	                                    .factor = with / (with - e.mean)};
	out->parts[kind].named = surely && e.mean >= NAMED_SHARE * out->step_s;
}

static void put_unknown_part(lk_stalls_answer *out, lk_stalls_kind kind, const char *why) {
	out->parts[kind] = lk_stalls_unknown(kind, why);
}

/* The fitted step of a configuration. */
static double fitted_step(const struct design *design, const lk_fit *fit, int c) {
	uint32_t parts = parts_of_configuration(design, c);
	double sum = 0;
	for (int p = 0; p < FITTED; p++)
		if (parts >> p & 1) sum += lk_stalls_known(fit->part[p].mean);
	return sum;
}

/* Communication: waiting, interconnect, network, whose kinds are consecutive. Without any call all
 * of it counts as interconnect (one host) or network. */
_Static_assert(LK_STALL_INTERCONNECT == LK_STALL_WAITING + 1 &&
                   LK_STALL_NETWORK == LK_STALL_WAITING + 2,
               "kinds of communication");
struct comm_shares {
	double of[LK_STALL_KINDS];
};

static struct comm_shares find_comm_shares(const struct design *design, int hosts) {
	struct comm_shares out = {{0}};
	double sum = 0;
	for (int k = 0; k < design->cycles; k++) {
		const lk_stalls_times *times = times_of_run(design->rounds, design->with, k);
		if (isnan(times->step)) continue;
		out.of[LK_STALL_WAITING] +=
			lk_stalls_known(times->waiting) - awaited_of_run(design, design->with, k);
		out.of[LK_STALL_INTERCONNECT] += lk_stalls_known(times->interconnect);
		out.of[LK_STALL_NETWORK] += lk_stalls_known(times->network);
	}
	out.of[LK_STALL_WAITING] = fmax(0, out.of[LK_STALL_WAITING]);
	for (int i = 0; i < 3; i++) sum += out.of[LK_STALL_WAITING + i];
	if (sum > 0)
		for (int i = 0; i < 3; i++) out.of[LK_STALL_WAITING + i] /= sum;
	else out.of[hosts > 1 ? LK_STALL_NETWORK : LK_STALL_INTERCONNECT] = 1;
	return out;
}

static void put_comm_parts(const struct design *design, const lk_fit *fit,
                           const struct comm_shares *shares, lk_stalls_answer *out) {
	double step = fitted_step(design, fit, design->with);
	bool measured = design->without >= 0;
	const char *how = !design->comm ? "no calls were recorded" : "time in calls, recorded";
	if (design->without == LK_STALLS_NULL)
		how = design->with == LK_STALLS_READY ? "ready - null, time in calls"
		                                      : "hot - null, time in calls";
	if (design->without == LK_STALLS_ONE)
		how = design->with == LK_STALLS_READY ? "ready - one, time in calls"
		                                      : "hot - one, time in calls";
	for (int kind = LK_STALL_WAITING; kind <= LK_STALL_NETWORK; kind++)
		put_stall_part(out, (lk_stalls_kind)kind,
		               scale_estimate(fit->part[COMMUNICATION], shares->of[kind]), step,
		               measured ? LK_STALLS_MEASURED : LK_STALLS_ESTIMATED, how);
}

/* What was taken out of the runs of the step, by its place in struct plain_run. */
static lk_estimate taken_out(const struct design *design, size_t place) {
	double x[LK_STALLS_REPEATS];
	for (int k = 0; k < design->cycles; k++) {
		const char *run = (const char *)&design->run[design->base][k];
		double of;
		memcpy(&of, run + place, sizeof of);
		x[k] = isnan(times_of_run(design->rounds, design->base, k)->step) ? NAN : of;
	}
	lk_estimate e = lk_estimate_of(x, design->cycles);
	e.mean = fmax(0, e.mean);
	if (!isnan(e.low)) e.low = fmax(0, e.low);
	return e;
}

static void put_bursts(const struct design *design, lk_stalls_answer *out) {
	lk_estimate e = taken_out(design, offsetof(struct plain_run, bursts));
	if (design->base == FIRST_RUN || design->cycles < 2) e = (lk_estimate){0, NAN, NAN};
	put_stall_part(out, LK_STALL_BURSTS, e, out->step_s, LK_STALLS_ESTIMATED,
	               "steps long in one run alone");
	out->parts[LK_STALL_BURSTS].named = false; /* not the program's */
}

static double half_width(lk_estimate e) {
	return isnan(e.high) ? NAN : (e.high - e.low) / 2;
}

/* The sum of two that vary independently. */
static lk_estimate sum_estimates(lk_estimate a, lk_estimate b) {
	double half = hypot(half_width(a), half_width(b)), mean = a.mean + b.mean;
	return (lk_estimate){mean, fmax(0, mean - half), mean + half};
}

/* Read calls, and whatever else cold runs take longer, as mapped files do. */
static void put_fetch(const struct design *design, const lk_fit *fit, lk_stalls_answer *out) {
	lk_estimate read = taken_out(design, offsetof(struct plain_run, fetch));
	if (design->all & HAS_FETCH)
		put_stall_part(out, LK_STALL_FETCH, sum_estimates(read, fit->part[FETCH]), out->step_s,
		               LK_STALLS_MEASURED, "calls that read, recorded, and the rest of cold - hot");
	else if (read.mean > 0 || times_of_run(design->rounds, design->base, 0)->reads)
		put_stall_part(out, LK_STALL_FETCH, read, out->step_s, LK_STALLS_ESTIMATED,
		               "calls that read, recorded");
	else put_unknown_part(out, LK_STALL_FETCH, "needs cold and hot runs");
}

static void put_fitted_parts(const struct design *design, const lk_fit *fit,
                             const struct comm_shares *shares, lk_stalls_answer *out) {
	double warm = fitted_step(design, fit, design->warm),
		   null = fitted_step(design, fit, LK_STALLS_NULL);
	put_bursts(design, out);
	put_stall_part(out, LK_STALL_PREEMPTED,
	               taken_out(design, offsetof(struct plain_run, preempted)), out->step_s,
	               LK_STALLS_ESTIMATED, "ready to run without a processor, recorded");
	put_stall_part(out, LK_STALL_WRITING, fit->part[WRITING], warm, LK_STALLS_ESTIMATED,
	               "calls that write, recorded");
	if (design->all & HAS_SHARING)
		put_stall_part(out, LK_STALL_SHARING, fit->part[SHARING], null, LK_STALLS_MEASURED,
		               "null - one");
	else put_unknown_part(out, LK_STALL_SHARING, "needs a run of one process and a null run");
	if (design->imbalance)
		put_stall_part(out, LK_STALL_IMBALANCE, fit->part[IMBALANCE],
		               fitted_step(design, fit, design->with), LK_STALLS_MEASURED,
		               "own times of ranks, recorded");
	else put_unknown_part(out, LK_STALL_IMBALANCE, "own times of several ranks were not recorded");
	put_comm_parts(design, fit, shares, out);
	if (design->ready)
		put_stall_part(out, LK_STALL_PREPARATION, fit->part[PREPARATION], warm, LK_STALLS_MEASURED,
		               "hot - ready");
	else if (design->all & HAS_PREPARATION)
		put_stall_part(out, LK_STALL_PREPARATION, fit->part[PREPARATION], warm, LK_STALLS_ESTIMATED,
		               "waits for loaders, or the code between reads, recorded");
	else
		put_unknown_part(out, LK_STALL_PREPARATION,
		                 "the recording cannot distinguish it from compute");
	put_fetch(design, fit, out);
	put_stall_part(out, LK_STALL_COMPUTE, fit->part[OWN], out->step_s,
	               design->without >= 0 ? LK_STALLS_MEASURED : LK_STALLS_ESTIMATED, "the rest");
	out->parts[LK_STALL_COMPUTE].factor = NAN;
	out->parts[LK_STALL_COMPUTE].named = false;
}

/* ---- the largest two ---- */

static enum fitted fitted_kind(int kind) {
	if (kind >= LK_STALL_KINDS) return FITTED; /* a mark */
	static const enum fitted of[LK_STALL_KINDS] = {[LK_STALL_COMPUTE] = OWN,
	                                               [LK_STALL_IMBALANCE] = IMBALANCE,
	                                               [LK_STALL_WRITING] = WRITING,
	                                               [LK_STALL_SHARING] = SHARING,
	                                               [LK_STALL_PREPARATION] = PREPARATION,
	                                               [LK_STALL_FETCH] = FETCH,
	                                               [LK_STALL_WAITING] = COMMUNICATION,
	                                               [LK_STALL_INTERCONNECT] = COMMUNICATION,
	                                               [LK_STALL_NETWORK] = COMMUNICATION,
	                                               [LK_STALL_PREEMPTED] = FITTED,
	                                               [LK_STALL_BURSTS] = FITTED};
	return of[kind];
}

/* The difference of two parts: fitted together, or, where one was taken out, as independent. */
static lk_estimate part_difference(const lk_fit *fit, const struct comm_shares *shares,
                                   const lk_stalls_answer *out, const int kinds[2],
                                   double *needed) {
	double share[2];
	bool apart = false;
	lk_estimate e[2];
	*needed = NAN;
	for (int i = 0; i < 2; i++) {
		const lk_stalls_part *part = &out->parts[kinds[i]];
		share[i] = fitted_kind(kinds[i]) == COMMUNICATION ? shares->of[kinds[i]] : 1;
		apart |= fitted_kind(kinds[i]) == FITTED || kinds[i] == LK_STALL_FETCH ||
		         (kinds[i] == LK_STALL_COMPUTE && out->part_count > LK_STALL_KINDS);
		e[i] = (lk_estimate){part->seconds, part->low, part->high};
	}
	if (isnan(e[1].mean)) return (lk_estimate){NAN, NAN, NAN};
	if (!apart)
		return lk_fit_difference(fit, (int)fitted_kind(kinds[0]), share[0],
		                         (int)fitted_kind(kinds[1]), share[1], needed);
	double mean = e[0].mean - e[1].mean, half = hypot(half_width(e[0]), half_width(e[1]));
	*needed = fit->cycles > 1 ? fit->cycles * pow(half / mean, 2) : NAN;
	return (lk_estimate){mean, mean - half, mean + half};
}

static void compare_largest_parts(const lk_fit *fit, const struct comm_shares *shares,
                                  lk_stalls_answer *out) {
	int first = -1, second = -1;
	for (int k = 0; k < out->part_count; k++) {
		double seconds = lk_stalls_known(out->parts[k].seconds);
		if (k == LK_STALL_BURSTS) continue; /* not the program's */
		if (first < 0 || seconds > out->parts[first].seconds) second = first, first = k;
		else if (second < 0 || seconds > lk_stalls_known(out->parts[second].seconds)) second = k;
	}
	double needed;
	lk_estimate d = part_difference(fit, shares, out, (const int[]){first, second}, &needed);
	bool apart = isnan(d.low)
	                 ? out->parts[first].seconds > lk_stalls_known(out->parts[second].seconds)
	                 : d.low > 0;
	out->lead = (lk_stalls_lead){first, second, d.low, d.high, apart ? NAN : needed, apart};
}

static void describe_drift(const lk_fit *fit, int configurations, lk_stalls_answer *out) {
	out->rounds = fit->cycles;
	out->rounds_left_out = fit->left_out;
	out->drift_low = out->drift_high = out->drift_trend = NAN;
	if (fit->cycles < 2 || configurations < 2) return;
	double n = fit->cycles, middle = 0, mean = 0, above = 0, below = 0;
	out->drift_low = out->drift_high = fit->drift[0];
	for (int k = 0; k < fit->cycles; k++) {
		out->drift_low = fmin(out->drift_low, fit->drift[k]);
		out->drift_high = fmax(out->drift_high, fit->drift[k]);
		middle += fit->cycle[k] / n;
		mean += fit->drift[k] / n;
	}
	for (int k = 0; k < fit->cycles; k++) {
		above += (fit->cycle[k] - middle) * (fit->drift[k] - mean);
		below += (fit->cycle[k] - middle) * (fit->cycle[k] - middle);
	}
	out->drift_trend =
		below > 0 ? above / below * (fit->cycle[fit->cycles - 1] - fit->cycle[0]) : 0;
}

bool lk_stalls_settled(const lk_stalls_answer *answer) {
	if (answer->rounds < SETTLED_ROUNDS || !answer->lead.apart) return false;
	for (int k = 0; k < answer->part_count; k++) {
		const lk_stalls_part *part = &answer->parts[k];
		if (!isnan(part->low) && part->high - part->low > NARROW_SHARE * answer->step_s)
			return false;
	}
	return true;
}

void lk_stalls_order(int round, int order[LK_STALLS_CONFIGURATIONS]) {
	for (int i = 0; i < LK_STALLS_CONFIGURATIONS; i++) {
		double drawn =
			lk_uniform(ORDER_SEED, (uint64_t)round * LK_STALLS_CONFIGURATIONS + (uint64_t)i);
		int at = (int)(drawn * (i + 1));
		if (at < i) order[i] = order[at];
		order[at < i ? at : i] = i;
	}
}

void lk_stalls_split(const lk_stalls_rounds *rounds, lk_stalls_answer *out) {
	struct design design;
	lk_fit fit;
	int configurations = 0;
	make_design(&design, rounds);
	lk_fit_parts(design.row, design.count, FITTED, design.cycles, 0, &fit);
	for (int r = 0; r < design.count; r++) configurations += design.row[r].configuration;
	out->base = design.base == FIRST_RUN ? "first" : lk_stalls_configurations[design.base];
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++) {
		double x[LK_STALLS_REPEATS];
		for (int k = 0; k < rounds->count; k++) x[k] = rounds->at[c][k].step;
		lk_estimate e = lk_estimate_of(x, rounds->count);
		out->rows[c].step_s = e.mean;
		out->rows[c].low = isnan(e.low) ? NAN : fmax(0, e.low);
		out->rows[c].high = e.high;
	}
	struct comm_shares shares = find_comm_shares(&design, out->hosts);
	double out_of_fit = 0;
	static const size_t taken[] = {offsetof(struct plain_run, preempted),
	                               offsetof(struct plain_run, fetch),
	                               offsetof(struct plain_run, bursts)};
	for (size_t i = 0; i < 3; i++) out_of_fit += lk_stalls_known(taken_out(&design, taken[i]).mean);
	out->step_s = fit.total.mean + out_of_fit;
	put_fitted_parts(&design, &fit, &shares, out);
	out->part_count = LK_STALL_KINDS;
	const lk_stalls_times *runs[LK_STALLS_REPEATS];
	for (int k = 0; k < design.cycles; k++) runs[k] = times_of_run(rounds, design.base, k);
	lk_stalls_split_marks(runs, design.cycles, out);
	out->low = isnan(fit.total.low) ? NAN : fmax(0, fit.total.low + out_of_fit);
	out->high = fit.total.high + out_of_fit;
	if (design.base == FIRST_RUN) out->low = out->high = NAN;
	compare_largest_parts(&fit, &shares, out);
	describe_drift(&fit, configurations, out);
}

/* Of the runs of a configuration: time with some thread in a read, or the main thread's reads. */
static double mean_of_reads(const lk_stalls_rounds *rounds, lk_stalls_configuration c,
                            bool main_thread) {
	double x[LK_STALLS_REPEATS];
	for (int i = 0; i < rounds->count; i++) {
		const lk_stalls_times *times = &rounds->at[c][i];
		x[i] = isnan(times->step) ? NAN : main_thread ? times->reading : times->waited;
	}
	return lk_stalls_known(lk_estimate_of(x, rounds->count).mean);
}

lk_disk_work lk_stalls_storage_of(const lk_stalls_rounds *rounds, const lk_stalls_answer *answer) {
	const lk_stalls_part *fetch = &answer->parts[LK_STALL_FETCH];
	lk_disk_work work = {.rate = NAN, .step = answer->step_s};
	if (isnan(fetch->seconds) || !has_configuration(rounds, LK_STALLS_COLD)) return work;
	/* reads of the hot run are the memory's */
	work.fetch = fmax(0, fetch->seconds - mean_of_reads(rounds, LK_STALLS_HOT, true));
	work.stalls = fetch->named;
	work.waited = fmax(0, mean_of_reads(rounds, LK_STALLS_COLD, false) -
	                          mean_of_reads(rounds, LK_STALLS_HOT, false));
	return work;
}
