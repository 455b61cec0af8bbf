/* stalls_formulas.c: the step's parts from the step times of the configurations.
 *
 * With T the mean step of a configuration, stages that are missing left out:
 *
 *     sharing       = T(null) - T(one)            all ranks at once, without waiting
 *     communication = T(ready or hot) - T(null)   waiting + interconnect + network
 *     preparation   = T(hot) - T(ready)
 *     fetch         = T(cold) - T(hot)
 *
 * each at least 0. These are Stash's stalls (interconnect RUN1 - RUN0, preparation RUN3 - RUN1,
 * fetch RUN2 - RUN3, the last one corrected) with one more configuration, `null`, that separates
 * sharing of the host from communication. A difference is taken round by round, for neighbours in
 * time are alike, and its interval is Student's. Communication is divided in proportion to the
 * recorded times in calls. What has no difference is taken from the recordings of the first run. */
#include <math.h>
#include <string.h>

#include "stalls/stalls.h"
#include "base/check.h"

/* Below this share of the step nothing is called a stall. */
static const double NAMED_SHARE = 0.02;

const char *const lk_stalls_kinds[] = {"compute", "writing",      "sharing", "preparation", "fetch",
                                       "waiting", "interconnect", "network", NULL};
const char *const lk_stalls_configurations[] = {"one", "null", "ready", "hot", "cold", NULL};

/* 97.5 % quantile of Student's t: exact to the digits given up to 10, beyond by the expansion of
 * Cornish and Fisher. */
static double student_t_quantile(int freedom) {
	LK_ASSERT(freedom > 0);
	static const double exact[] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706,
	                               2.4469,  2.3646, 2.3060, 2.2622, 2.2281};
	const double z = 1.959964;
	if (freedom <= 10) return exact[freedom - 1];
	double n = freedom;
	return z + (pow(z, 3) + z) / (4 * n) + (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * n * n);
}

lk_estimate lk_estimate_of(const double *x, int count) {
	LK_ASSERT(count >= 0);
	double sum = 0, squares = 0;
	int n = 0;
	for (int i = 0; i < count; i++)
		if (!isnan(x[i])) {
			sum += x[i];
			n++;
		}
	if (!n) return (lk_estimate){NAN, NAN, NAN};
	double mean = sum / n;
	for (int i = 0; i < count; i++)
		if (!isnan(x[i])) squares += (x[i] - mean) * (x[i] - mean);
	double half = n > 1 ? student_t_quantile(n - 1) * sqrt(squares / (n - 1) / n) : NAN;
	return (lk_estimate){mean, mean - half, mean + half};
}

/* ---- times of configurations ---- */

#define FIELD(name) offsetof(lk_stalls_times, name)
static double times_field(const lk_stalls_times *times, size_t at) {
	return *(const double *)(const void *)((const char *)times + at);
}

static lk_estimate mean_of_configuration(const lk_stalls_rounds *rounds, lk_stalls_configuration c,
                                         size_t at) {
	LK_ASSERT(rounds->count <= LK_STALLS_REPEATS && at + sizeof(double) <= sizeof(lk_stalls_times));
	double x[LK_STALLS_REPEATS] = {0};
	for (int i = 0; i < rounds->count; i++)
		x[i] = isnan(rounds->at[c][i].step) ? NAN : times_field(&rounds->at[c][i], at);
	return lk_estimate_of(x, rounds->count);
}

static bool has_configuration(const lk_stalls_rounds *rounds, lk_stalls_configuration c) {
	for (int i = 0; i < rounds->count; i++)
		if (!isnan(rounds->at[c][i].step)) return true;
	return false;
}

/* Rounds that have only one of the two are left out; if none has both, the means are compared. */
static lk_estimate difference_of_runs(const lk_stalls_rounds *rounds, lk_stalls_configuration more,
                                      lk_stalls_configuration less) {
	LK_ASSERT(more < LK_STALLS_CONFIGURATIONS && less < LK_STALLS_CONFIGURATIONS);
	double x[LK_STALLS_REPEATS] = {0};
	for (int i = 0; i < rounds->count; i++)
		x[i] = rounds->at[more][i].step - rounds->at[less][i].step;
	lk_estimate d = lk_estimate_of(x, rounds->count);
	if (isnan(d.mean))
		d.mean = mean_of_configuration(rounds, more, FIELD(step)).mean -
		         mean_of_configuration(rounds, less, FIELD(step)).mean;
	return d;
}

/* A time of recordings: of the runs of a configuration, or of the first run. */
static lk_estimate recorded_time_of(const lk_stalls_rounds *rounds, int c, size_t at) {
	if (c < LK_STALLS_CONFIGURATIONS)
		return mean_of_configuration(rounds, (lk_stalls_configuration)c, at);
	double x = times_field(&rounds->first, at);
	return (lk_estimate){x, NAN, NAN};
}

/* ---- parts ---- */

static lk_estimate scale_estimate(lk_estimate e, double factor) {
	return (lk_estimate){e.mean * factor, e.low * factor, e.high * factor};
}

static lk_estimate clamp_estimate_at_0(lk_estimate e) {
	return (lk_estimate){fmax(e.mean, 0), isnan(e.low) ? NAN : fmax(e.low, 0),
	                     isnan(e.high) ? NAN : fmax(e.high, 0)};
}

static void put_stall_part(lk_stalls_answer *out, lk_stalls_kind kind, lk_estimate e, double with,
                           lk_stalls_basis basis, const char *how) {
	LK_ASSERT(kind < LK_STALL_KINDS);
	bool interval = !isnan(e.low);
	bool surely = interval ? e.low > 0 : e.mean > 0;
	e = clamp_estimate_at_0(e);
	out->parts[kind] = (lk_stalls_part){.seconds = e.mean,
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
	out->parts[kind] =
		(lk_stalls_part){NAN, NAN, NAN, NAN, NAN, NAN, LK_STALLS_UNKNOWN, false, why};
}

/* Divides `all` as the times in calls are; without any, all of it is the interconnect's (one host)
 * or the network's. */
static void divide_comm_parts(lk_stalls_answer *out, const lk_stalls_times *stalls_times,
                              lk_estimate all, double with, lk_stalls_basis basis,
                              const char *how) {
	const struct {
		lk_stalls_kind kind;
		double seconds;
	} parts[] = {{LK_STALL_WAITING, stalls_times->waiting},
	             {LK_STALL_INTERCONNECT, stalls_times->interconnect},
	             {LK_STALL_NETWORK, stalls_times->network}};
	lk_stalls_kind otherwise = out->hosts > 1 ? LK_STALL_NETWORK : LK_STALL_INTERCONNECT;
	double sum = 0;
	for (int i = 0; i < 3; i++) sum += isnan(parts[i].seconds) ? 0 : parts[i].seconds;
	for (int i = 0; i < 3; i++) {
		double part = parts[i].kind == otherwise;
		if (sum > 0) part = isnan(parts[i].seconds) ? 0 : parts[i].seconds / sum;
		put_stall_part(out, parts[i].kind, scale_estimate(all, part), with, basis, how);
	}
}

static lk_stalls_times recorded_comm_times(const lk_stalls_rounds *rounds, int c) {
	lk_stalls_times t = {.waiting = recorded_time_of(rounds, c, FIELD(waiting)).mean,
	                     .interconnect = recorded_time_of(rounds, c, FIELD(interconnect)).mean,
	                     .network = recorded_time_of(rounds, c, FIELD(network)).mean};
	return t;
}

static double sum_comm_times(const lk_stalls_times *times) {
	return (isnan(times->waiting) ? 0 : times->waiting) +
	       (isnan(times->interconnect) ? 0 : times->interconnect) +
	       (isnan(times->network) ? 0 : times->network);
}

/* What messages of pipelines still take in the null run, where they are not left out. */
static double comm_left_in_null(const lk_stalls_rounds *rounds) {
	if (!has_configuration(rounds, LK_STALLS_NULL)) return 0;
	lk_stalls_times t = recorded_comm_times(rounds, LK_STALLS_NULL);
	return sum_comm_times(&t);
}

/* Communication that is measured: against null, or against one process, which then has sharing in
 * it. */
static void split_comm_parts(const lk_stalls_rounds *rounds, int with, lk_stalls_answer *out) {
	lk_stalls_times t = recorded_comm_times(rounds, with);
	int without = -1;
	if (has_configuration(rounds, LK_STALLS_NULL)) without = LK_STALLS_NULL;
	else if (has_configuration(rounds, LK_STALLS_ONE)) without = LK_STALLS_ONE;
	double step = recorded_time_of(rounds, with, FIELD(step)).mean;
	if (with == LK_STALLS_CONFIGURATIONS || without < 0) {
		if (sum_comm_times(&t) > 0) {
			divide_comm_parts(out, &t, (lk_estimate){sum_comm_times(&t), NAN, NAN}, step,
			                  LK_STALLS_ESTIMATED, "time in calls, recorded");
			return;
		}
		for (int k = LK_STALL_WAITING; k <= LK_STALL_NETWORK; k++)
			put_stall_part(out, (lk_stalls_kind)k, (lk_estimate){0, NAN, NAN}, step,
			               LK_STALLS_ESTIMATED, "no calls were recorded");
		return;
	}
	lk_estimate d =
		difference_of_runs(rounds, (lk_stalls_configuration)with, (lk_stalls_configuration)without);
	double left = comm_left_in_null(rounds);
	d = (lk_estimate){fmax(d.mean, 0) + left, d.low + left, d.high + left};
	const char *how = with == LK_STALLS_READY ? "ready - null" : "hot - null";
	if (without == LK_STALLS_ONE) how = with == LK_STALLS_READY ? "ready - one" : "hot - one";
	else if (left > 0.01 * step) how = "with - null, plus the messages that null keeps";
	divide_comm_parts(out, &t, d, step, LK_STALLS_MEASURED, how);
}

static void split_preparation(const lk_stalls_rounds *rounds, int last, lk_stalls_answer *out) {
	double step = recorded_time_of(rounds, last, FIELD(step)).mean;
	if (has_configuration(rounds, LK_STALLS_READY) && has_configuration(rounds, LK_STALLS_HOT)) {
		step = mean_of_configuration(rounds, LK_STALLS_HOT, FIELD(step)).mean;
		put_stall_part(out, LK_STALL_PREPARATION,
		               difference_of_runs(rounds, LK_STALLS_HOT, LK_STALLS_READY), step,
		               LK_STALLS_MEASURED, "hot - ready");
		return;
	}
	lk_estimate e = recorded_time_of(rounds, last, FIELD(preparation));
	if (isnan(e.mean))
		put_unknown_part(out, LK_STALL_PREPARATION,
		                 "the recording cannot distinguish it from compute");
	else
		put_stall_part(out, LK_STALL_PREPARATION, e, step, LK_STALLS_ESTIMATED,
		               "reads and the code between them, recorded");
}

static void split_fetch(const lk_stalls_rounds *rounds, lk_stalls_answer *out) {
	if (has_configuration(rounds, LK_STALLS_COLD) && has_configuration(rounds, LK_STALLS_HOT)) {
		put_stall_part(out, LK_STALL_FETCH,
		               difference_of_runs(rounds, LK_STALLS_COLD, LK_STALLS_HOT), out->step_s,
		               LK_STALLS_MEASURED, "cold - hot");
		return;
	}
	put_unknown_part(out, LK_STALL_FETCH, "needs cold and hot runs");
}

/* The rest of the step. Its interval is that of the shortest configuration. */
static void split_compute(const lk_stalls_rounds *rounds, lk_stalls_answer *out) {
	double rest = out->step_s;
	int shortest = 0;
	while (shortest <= LK_STALLS_READY &&
	       !has_configuration(rounds, (lk_stalls_configuration)shortest))
		shortest++;
	bool known = shortest <= LK_STALLS_READY;
	for (int k = 0; k < LK_STALL_KINDS; k++)
		if (k != LK_STALL_COMPUTE && !isnan(out->parts[k].seconds)) rest -= out->parts[k].seconds;
	lk_estimate e = {rest, NAN, NAN};
	if (known) {
		lk_estimate own =
			mean_of_configuration(rounds, (lk_stalls_configuration)shortest, FIELD(step));
		e.low = rest + own.low - own.mean;
		e.high = rest + own.high - own.mean;
	}
	put_stall_part(out, LK_STALL_COMPUTE, e, out->step_s,
	               known ? LK_STALLS_MEASURED : LK_STALLS_ESTIMATED, "the rest");
	out->parts[LK_STALL_COMPUTE].factor = NAN;
	out->parts[LK_STALL_COMPUTE].named = false;
}

void lk_stalls_split(const lk_stalls_rounds *rounds, lk_stalls_answer *out) {
	bool cold = has_configuration(rounds, LK_STALLS_COLD),
		 hot = has_configuration(rounds, LK_STALLS_HOT),
		 ready = has_configuration(rounds, LK_STALLS_READY);
	int base = cold ? LK_STALLS_COLD : hot ? LK_STALLS_HOT : LK_STALLS_CONFIGURATIONS;
	int warm = hot ? LK_STALLS_HOT : base, with = ready ? LK_STALLS_READY : warm;
	lk_estimate step = recorded_time_of(rounds, base, FIELD(step));
	out->step_s = step.mean;
	out->low = clamp_estimate_at_0(step).low;
	out->high = step.high;
	out->base = base < LK_STALLS_CONFIGURATIONS ? lk_stalls_configurations[base] : "first";
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++) {
		lk_estimate e = mean_of_configuration(rounds, (lk_stalls_configuration)c, FIELD(step));
		out->rows[c].step_s = e.mean;
		out->rows[c].low = clamp_estimate_at_0(e).low;
		out->rows[c].high = e.high;
	}
	lk_estimate writing = recorded_time_of(rounds, warm, FIELD(writing));
	if (isnan(writing.mean)) writing.mean = 0;
	put_stall_part(out, LK_STALL_WRITING, writing, recorded_time_of(rounds, warm, FIELD(step)).mean,
	               LK_STALLS_ESTIMATED, "calls that write, recorded");
	if (has_configuration(rounds, LK_STALLS_NULL) && has_configuration(rounds, LK_STALLS_ONE)) {
		double null = mean_of_configuration(rounds, LK_STALLS_NULL, FIELD(step)).mean;
		put_stall_part(out, LK_STALL_SHARING,
		               difference_of_runs(rounds, LK_STALLS_NULL, LK_STALLS_ONE), null,
		               LK_STALLS_MEASURED, "null - one");
	} else {
		put_unknown_part(out, LK_STALL_SHARING, "needs a run of one process and a null run");
	}
	split_comm_parts(rounds, with, out);
	split_preparation(rounds, warm, out);
	split_fetch(rounds, out);
	split_compute(rounds, out);
}

lk_disk_work lk_stalls_storage_of(const lk_stalls_rounds *rounds, const lk_stalls_answer *answer) {
	const lk_stalls_part *fetch = &answer->parts[LK_STALL_FETCH];
	lk_disk_work work = {.rate = NAN, .step = answer->step_s};
	if (isnan(fetch->seconds) || !has_configuration(rounds, LK_STALLS_COLD)) return work;
	work.fetch = fetch->seconds;
	work.stalls = fetch->named;
	work.waited = fmax(0, mean_of_configuration(rounds, LK_STALLS_COLD, FIELD(waited)).mean -
	                          mean_of_configuration(rounds, LK_STALLS_HOT, FIELD(waited)).mean);
	return work;
}
