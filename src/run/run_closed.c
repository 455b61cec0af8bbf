/* run_closed.c: what a run costs in closed form (J. T. Daly, A higher order estimate of the optimum
 * checkpoint interval for restart dumps, FGCS 22, 2006; J. W. Young, CACM 17(9), 1974).
 *
 * Stops come at random, lambda an hour of the job. A segment of t seconds of training and its stall
 * w is repeated until nothing stops it; a recovery that takes R_d with probability p_d is repeated
 * likewise. Its expected time is
 *
 *     E = (e^(lambda (t + w)) - 1) / (lambda S),   S = sum_d p_d e^(-lambda R_d)
 *
 * which with one R is Daly's equation 13. */
#include <math.h>

#include "run/run.h"

static const double HOUR = 3600, LEAST_USEFUL = 0.05;
/* Checkpoints are at least so far apart, s. */
static const double SHORTEST = 1;

double lk_run_best_interval(double per_h, double stall_s) {
	double lambda = per_h / HOUR, end = -expm1(-lambda * stall_s);
	if (!(lambda > 0) || !(stall_s > 0)) return 0;
	/* dE/dt = 0: with x = lambda t, 1 - e^-(lambda w) = 1 - (1 - x) e^x. Newton from Young's. */
	double x = fmin(sqrt(2 * lambda * stall_s), 0.9);
	for (int i = 0; i < 50; i++) {
		double step = (1 - (1 - x) * exp(x) - end) / (x * exp(x));
		x -= step;
		if (fabs(step) < 1e-14 * x) break;
	}
	return x / lambda;
}

/* Seconds of a stop until the next step, with the load of the checkpoint that it leaves. */
static double recovery_of(const lk_long_run *run, bool replaces, bool hangs) {
	const lk_run_recovery *recovery = &run->recovery;
	double seconds = hangs ? recovery->hang_s : recovery->detect_s, load = 0;
	seconds += recovery->diagnose_s;
	seconds += replaces ? recovery->replace_s + recovery->restart_s : recovery->in_place_s;
	for (int i = run->tier_count - 1; i >= 0; i--)
		if (run->tiers[i].survives || !replaces) load = run->tiers[i].load_s;
	return seconds + load;
}

/* The mean of f(recovery) over all kinds of stops. */
static double over_stops(const lk_long_run *run, double of(double seconds, double number),
                         double number) {
	double sum = 0, replaced = run->replaced_share, hang = run->recovery.hang_share;
	for (int kind = 0; kind < 4; kind++) {
		double of_machines = kind & 1 ? replaced : 1 - replaced;
		double of_ends = kind & 2 ? hang : 1 - hang;
		sum += of_machines * of_ends * of(recovery_of(run, kind & 1, kind & 2), number);
	}
	return sum;
}

static double undisturbed(double seconds, double lambda) {
	return exp(-lambda * seconds);
}

static double lost_squared(double seconds, double interval) {
	return seconds * seconds + seconds * interval + interval * interval / 3;
}

static double open_interval(double stops_per_h, const lk_run_tier *tier) {
	double least = fmax(tier->write_s - tier->stall_s, SHORTEST);
	if (tier->interval_s > 0) return fmax(tier->interval_s, least);
	if (!(stops_per_h > 0)) return 24 * HOUR;
	return fmax(lk_run_best_interval(stops_per_h, tier->stall_s), least);
}

bool lk_run_is_closed(const lk_long_run *run) {
	const lk_run_tier *tier = &run->tiers[0];
	return run->tier_count == 1 && tier->survives && tier->write_s <= tier->stall_s &&
	       !run->recovery.elastic && run->spares < 0 && run->planned_per_h == 0;
}

double lk_run_goodput(const lk_long_run *run) {
	const lk_run_tier *tier = &run->tiers[0];
	double lambda = run->stops_per_h / HOUR, interval = open_interval(run->stops_per_h, tier);
	double wall = interval + tier->stall_s, useful = interval / wall;
	if (lambda > 0)
		useful = lambda * interval * over_stops(run, undisturbed, lambda) / expm1(lambda * wall);
	/* a copy is lost while it is written */
	useful /= 1 + lambda * (tier->write_s - tier->stall_s);
	useful *= fmax(0, 1 - run->planned_per_h / HOUR * run->recovery.in_place_s);
	return useful >= LEAST_USEFUL ? useful : 0;
}

double lk_run_variance(const lk_long_run *run) {
	double interval = open_interval(run->stops_per_h, &run->tiers[0]);
	return over_stops(run, lost_squared, interval) / (HOUR * HOUR) * run->stops_per_h;
}

void lk_run_best_spares(const lk_long_run *run, int *cheapest, int *enough) {
	double broken_per_h = run->stops_per_h * run->replaced_share,
		   broken = broken_per_h * run->repair_h, best = INFINITY, below = 0;
	int most = (int)fmin(broken + 12 * sqrt(broken) + 20, 1e6);
	double logarithm = -broken, wait_h = 0; /* ln P(n machines under repair) */
	*cheapest = 0;
	*enough = most;
	/* wait(s): a stop finds n >= s machines under repair and waits for the first of them. */
	for (int n = 0; n <= most; n++) {
		if (n) logarithm += log(broken / n);
		wait_h += exp(logarithm) * run->repair_h / (n + 1);
	}
	logarithm = -broken;
	for (int s = 0; s <= most; s++) {
		if (s) logarithm += log(broken / s);
		double cost = (run->nodes + s) * (1 + broken_per_h * fmax(wait_h, 0));
		if (cost < best) {
			best = cost;
			*cheapest = s;
		}
		below += exp(logarithm);
		if (below >= 0.99 && s < *enough) *enough = s;
		wait_h -= exp(logarithm) * run->repair_h / (s + 1);
	}
}

/* The share of stops after which a tier is loaded, and not a faster one. */
static double saved_share(const lk_long_run *run, int tier) {
	if (tier > 0 && run->tiers[tier - 1].survives) return 0;
	double share = tier > 0 ? run->replaced_share : 1;
	return run->tiers[tier].survives ? share : share - run->replaced_share;
}

void lk_run_settle(lk_long_run *run) {
	for (int i = 0; i < run->tier_count; i++) {
		lk_run_tier *tier = &run->tiers[i];
		tier->interval_s = open_interval(run->stops_per_h * saved_share(run, i), tier);
		if (i == 0) continue;
		double faster = run->tiers[i - 1].interval_s;
		tier->interval_s = faster * fmax(1, ceil(tier->interval_s / faster - 1e-9));
	}
}
