/* rent_choose.c: weighs prices against hours. Every number of machines and batch of every offer
 * that fits is a choice; shown are the front (no other is both cheaper and faster) and the best of
 * each machine. If a training has a length, choices differ in time and money for it; if it has
 * none, they differ in how much they train within deadline and budget. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/noun.h"
#include "base/text.h"
#include "base/sort.h"
#include "predict/predict.h"
#include "rent/rent.h"
#include "step/energy.h"

static const double STEPS_TO_MEASURE = 100;

struct ware {
	lk_rent_choice choice;
	const lk_offer *offer;
	bool shown;
	int at; /* then: its index among those shown */
};
typedef LK_VEC(struct ware) wares;

/* ---- a choice ---- */

static double choose_hours_of(const lk_rent_request *request, double steps, double step_s,
                              double goodput) {
	return steps * step_s / 3600 / goodput + request->setup_min / 60;
}

/* If preparation and fetching overlap with the step, the slowest counts; otherwise they are
 * added. */
static double with_data(const lk_rent_loader *loader, const lk_offer *offer,
                        const lk_rent_rate *rate, double step_s, const char **slowest) {
	double prepare = rate->batch / (loader->prepare_per_core * offer->vcpus * rate->machines);
	double fetch = rate->batch / (loader->fetch_per_machine * rate->machines),
		   data = fmax(prepare, fetch);
	if (isnan(data)) return step_s; /* fmax ignores an unknown one */
	*slowest = data == fetch ? "fetch" : "preparation";
	return loader->pipelined ? fmax(step_s, data) : step_s + data;
}

/* A cost below one hundredth is not called a stall. */
static void set_stall(const lk_rent_rate *rate, const char *slowest, lk_rent_choice *choice) {
	double waiting = choice->step_s - rate->step_s;
	bool waits = waiting > rate->stall_s;
	choice->stall_share = (waits ? waiting : rate->stall_s) / choice->step_s;
	if (choice->stall_share < 0.01) choice->stall = "none";
	else if (waits) choice->stall = slowest;
	else choice->stall = rate->stall;
}

/* Samples of the whole training; tokens are converted by the rate's sequence length. */
static double choose_samples(const lk_rent_request *request, const lk_rent_rate *rate) {
	if (request->tokens > 0) return request->tokens / rate->seq;
	return request->samples * (request->epochs > 0 ? request->epochs : 1);
}

/* The hours within deadline and budget at a price per hour; infinite: neither given. */
static double choose_room(const lk_rent_request *request, double usd_per_hour) {
	double hours = request->deadline_h > 0 ? request->deadline_h : INFINITY;
	if (!(request->budget > 0)) return hours;
	return fmin(hours, lk_rent_hours_sold(request, request->budget / usd_per_hour));
}

/* Failures and interruptions per hour of this many machines together. */
static double choose_failures(const lk_rent_request *request, int machines) {
	double each = request->spot ? request->interruptions : 0;
	if (request->mtbf_h > 0) each += 1 / request->mtbf_h;
	return each > 0 ? each * machines : 0;
}

/* The run on these machines; false: nothing stops it. */
static bool choose_run(const lk_rent_request *request, const lk_rent_rate *rate, lk_long_run *run) {
	double failures = choose_failures(request, rate->machines);
	if (failures <= 0) return false;
	lk_run_words words =
		lk_predict_run_words(&request->job, rate->gpus, rate->machines, 1, rate->checkpoint_bytes);
	words.node_mtbf_h = rate->machines / failures;
	lk_error err; /* none: lk_run_ready was called, and rent has no words of its own */
	return lk_run_of(&words, run, &err) == LK_OK;
}

double lk_rent_goodput(const lk_rent_request *request, const lk_rent_rate *rate) {
	lk_long_run run;
	return choose_run(request, rate, &run) ? lk_run_goodput(&run) : 1;
}

/* The standard normal deviate with nine in ten below: both ends of an 80 % range. */
static const double NINE_IN_TEN = 1.2815515655446004;

/* The chance of meeting deadline and budget. Both limit the same hours, since dollars are hours at
 * a fixed rate: the tighter one counts. The hours' logarithm is assumed normal on each side of the
 * prediction, with a tenth beyond each end of the 80 % range. */
static double choose_chance(const lk_rent_request *request, const lk_rent_choice *choice) {
	double most = choose_room(request, choice->price * choice->machines);
	double end = most < choice->hours ? choice->hours_low : choice->hours_high;
	if (isinf(most) || isnan(end)) return NAN;
	double room = log(most / choice->hours), width = fabs(log(end / choice->hours));
	if (width == 0) return room >= 0 ? 1 : 0;
	return 0.5 * erfc(-room / width * NINE_IN_TEN / sqrt(2));
}

/* Widen an 80 % range of hours by the scatter of the number of failures: both are assumed
 * independent, with normal logarithms. */
static void widen_hours(const lk_rent_request *request, const lk_rent_rate *rate,
                        lk_rent_choice *choice) {
	lk_long_run run;
	if (!(choice->hours > 0) || !choose_run(request, rate, &run)) return;
	double scatter = NINE_IN_TEN * sqrt(lk_run_variance(&run) / choice->hours);
	choice->hours_low =
		choice->hours * exp(-hypot(log(choice->hours / choice->hours_low), scatter));
	choice->hours_high =
		choice->hours * exp(hypot(log(choice->hours_high / choice->hours), scatter));
}

/* A training with a length: the hours it takes. */
static void set_hours(const lk_rent_request *request, const lk_rent_rate *rate,
                      lk_rent_choice *choice) {
	double samples = choose_samples(request, rate), steps = samples / rate->batch;
	choice->samples = choice->samples_low = choice->samples_high = samples;
	choice->hours = choose_hours_of(request, steps, choice->step_s, choice->goodput);
	choice->hours_low = choose_hours_of(request, steps, choice->step_low_s, choice->goodput);
	choice->hours_high = choose_hours_of(request, steps, choice->step_high_s, choice->goodput);
	widen_hours(request, rate, choice);
	double rate_usd = choice->price * choice->machines;
	choice->cost = lk_rent_hours_paid(request, choice->hours) * rate_usd;
	choice->cost_low = lk_rent_hours_paid(request, choice->hours_low) * rate_usd;
	choice->cost_high = lk_rent_hours_paid(request, choice->hours_high) * rate_usd;
	choice->in_time = request->deadline_h <= 0 || choice->hours <= request->deadline_h;
	choice->in_budget = request->budget <= 0 || choice->cost <= request->budget;
	choice->chance = choose_chance(request, choice);
}

static double samples_in(double seconds, const lk_rent_choice *choice, double step_s) {
	return seconds > 0 ? seconds * choice->goodput / step_s * choice->batch : 0;
}

/* A training without one: its progress within deadline and budget. */
static void set_samples(const lk_rent_request *request, lk_rent_choice *choice) {
	double rate_usd = choice->price * choice->machines, hours = choose_room(request, rate_usd);
	double seconds = 3600 * hours - 60 * request->setup_min;
	bool in_full = hours == request->budget / rate_usd; /* the whole budget, to the cent */
	choice->cost = choice->cost_low = choice->cost_high =
		in_full ? request->budget : lk_rent_hours_paid(request, hours) * rate_usd;
	choice->hours = choice->hours_low = choice->hours_high = hours;
	choice->samples = samples_in(seconds, choice, choice->step_s);
	choice->samples_low = samples_in(seconds, choice, choice->step_high_s);
	choice->samples_high = samples_in(seconds, choice, choice->step_low_s);
	choice->in_time = choice->in_budget = seconds > 0;
	choice->chance = NAN;
}

bool lk_rent_choice_of(const lk_rent_request *request, const lk_rent_loader *loader,
                       const lk_offer *offer, const lk_rent_rate *rate, lk_rent_choice *choice) {
	const char *slowest = "preparation";
	double price = lk_rent_price(request, offer);
	double goodput = lk_rent_goodput(request, rate);
	if (!rate->fits || isnan(price) || goodput <= 0) return false;
	*choice =
		(lk_rent_choice){.provider = offer->provider,
	                     .instance = offer->instance,
	                     .region = offer->region,
	                     .gpu = offer->device->name,
	                     .gpus_each = offer->gpus,
	                     .machines = rate->machines,
	                     .gpus = rate->gpus,
	                     .batch = rate->batch,
	                     .layout = rate->layout,
	                     .reproduce = rate->reproduce,
	                     .step_s = with_data(loader, offer, rate, rate->step_s, &slowest),
	                     .step_low_s = with_data(loader, offer, rate, rate->low_s, &slowest),
	                     .step_high_s = with_data(loader, offer, rate, rate->high_s, &slowest),
	                     .price = price,
	                     .date = offer->date,
	                     .source = offer->source,
	                     .gpus_searched = offer->gpus_searched,
	                     .search_end = offer->search_end,
	                     .goodput = goodput};
	if (request->block) {
		choice->date = offer->block_date;
		choice->source = offer->block_source;
	}
	if (lk_rent_has_length(request)) set_hours(request, rate, choice);
	else set_samples(request, choice);
	choice->energy = lk_energy_train(rate->energy, choice->hours, &request->job.mains);
	choice->energy.power_usd = offer->power_usd * choice->machines * choice->hours;
	set_stall(rate, slowest, choice);
	return true;
}

bool lk_rent_choice_by_hour(const lk_rent_request *request, const lk_rent_loader *loader,
                            const lk_offer *offer, const lk_rent_rate *rate, lk_rent_choice *out) {
	if (!request->block) return lk_rent_choice_of(request, loader, offer, rate, out);
	lk_rent_request by_hour = *request;
	lk_offer priced = *offer;
	by_hour.block = false;
	priced.on_demand = offer->block;
	return lk_rent_choice_of(&by_hour, loader, &priced, rate, out);
}

/* ---- all choices ---- */

/* Choices whose time is lost to interruptions; the first has the fewest machines of its offer. */
struct useless {
	int count, machines;
	const lk_offer *first;
};

static const char *choose_name_useless(const lk_rent_request *request,
                                       const struct useless *left_out, lk_arena *arena) {
	return lk_arena_printf(
		arena,
		"%d %s left out, from %d x %s on: with %g interruptions and failures an hour and machine "
		"no useful work is left; %s%sgive a faster --checkpoint-write%s",
		left_out->count, left_out->count == 1 ? "choice is" : "choices are", left_out->machines,
		left_out->first->instance, choose_failures(request, 1),
		left_out->machines > 1 ? "use fewer machines, " : "",
		request->spot ? "rent on demand (without --spot), or " : "",
		request->job.checkpoint_minutes > 0 ? ", or leave --checkpoint out" : "");
}

static lk_status add_choices(const lk_rent_request *request, const lk_rent_loader *loader,
                             const lk_offer *offer, const lk_rent_rates *rates, lk_arena *arena,
                             wares *all, struct useless *left_out, lk_error *err) {
	int most = lk_rent_most_machines(request);
	for (int machines = 1; machines <= most && machines * offer->gpus <= LK_RENT_GPUS;
	     machines *= 2) {
		const char *cluster = lk_offer_cluster(offer, machines, arena);
		const lk_rent_rate *rate;
		if (!cluster) return lk_oom(err);
		for (size_t from = 0; (rate = lk_rent_rates_next(rates, cluster, &from));) {
			lk_rent_choice c;
			if (!lk_rent_choice_of(request, loader, offer, rate, &c)) {
				bool priced = !isnan(lk_rent_price(request, offer));
				left_out->count += rate->fits && priced;
				if (rate->fits && priced && !left_out->first) {
					left_out->first = offer;
					left_out->machines = machines;
				}
				continue;
			}
			if (!lk_push(all)) return lk_oom(err);
			*lk_last(all) = (struct ware){.choice = c, .offer = offer};
		}
		if (isnan(offer->network_gbps)) break;
	}
	return LK_OK;
}

/* The better first: with a length the cheaper, else the one that trains more. */
static int choose_by_worth(const void *a, const void *b) {
	const struct ware *x = a, *y = b;
	if (x->choice.samples != y->choice.samples)
		return x->choice.samples > y->choice.samples ? -1 : 1;
	if (x->choice.cost != y->choice.cost) return x->choice.cost < y->choice.cost ? -1 : 1;
	if (x->choice.hours != y->choice.hours) return x->choice.hours < y->choice.hours ? -1 : 1;
	return (x->offer > y->offer) - (x->offer < y->offer);
}

/* Mark the front: choices that no better one equals in dollars and hours; and that do not train
 * half as much for no fewer dollars. A choice outside the front has one on it that is at least as
 * good, so only those are compared. */
static void mark_front(wares *all) {
	for (size_t i = 0; i < all->count; i++) {
		lk_rent_choice *choice = &all->at[i].choice;
		choice->pareto = choice->samples > 0;
		for (size_t k = 0; k < i && choice->pareto; k++) {
			const lk_rent_choice *better = &all->at[k].choice;
			bool slower = better->hours > choice->hours && better->samples < 2 * choice->samples;
			choice->pareto = !better->pareto || better->cost > choice->cost || slower;
		}
	}
}

/* Whether it is the best of its machine among those that meet the request (or among all if none
 * does). */
static bool is_best_of_machine(const wares *all, size_t at) {
	const lk_rent_choice *choice = &all->at[at].choice;
	bool keeps = choice->in_time && choice->in_budget;
	for (size_t i = 0; i < all->count; i++) {
		const lk_rent_choice *rent_choice = &all->at[i].choice;
		bool other = rent_choice->in_time && rent_choice->in_budget;
		if (all->at[i].offer != all->at[at].offer) continue;
		if (other == keeps ? i < at : other) return false;
	}
	return true;
}

/* ---- decisions ---- */

enum { MOST_TIES = 3 };

/* Indices among all; -1 none. `best`: the cheapest or the one that trains most, which ties are
 * compared with. */
struct decision {
	int cheapest, fastest, most, best;
	int ties[MOST_TIES], tie_count;
};

static bool keeps(const lk_rent_choice *choice) {
	return choice->in_time && choice->in_budget;
}

static bool choose_same_machine(const struct ware *a, const struct ware *b) {
	return strcmp(a->choice.instance, b->choice.instance) == 0 &&
	       strcmp(a->choice.provider, b->choice.provider) == 0;
}

/* Whether one may cost less, or train more, than the other within their ranges. */
static bool may_be_better(bool ends, const lk_rent_choice *one, const lk_rent_choice *other) {
	return ends ? one->cost_low < other->cost_high : one->samples_high > other->samples_low;
}

/* Find others that may be better than the best, by their ranges. On the same device the prediction
 * errors are mostly the same, so the price decides: those are no ties. */
static void find_ties(bool ends, const wares *all, struct decision *decision) {
	const struct ware *best = &all->at[decision->best];
	for (int i = decision->best + 1; i < (int)all->count && decision->tie_count < MOST_TIES; i++) {
		const struct ware *ware = &all->at[i];
		bool other = strcmp(ware->choice.gpu, best->choice.gpu) != 0;
		for (int k = 0; k < decision->tie_count; k++)
			other &= !choose_same_machine(ware, &all->at[decision->ties[k]]);
		if (other && keeps(&ware->choice) && may_be_better(ends, &ware->choice, &best->choice))
			decision->ties[decision->tie_count++] = i;
	}
}

static struct decision choose_decide(const lk_rent_request *request, const wares *all) {
	struct decision d = {.cheapest = -1, .fastest = -1, .most = -1, .best = -1};
	bool ends = lk_rent_has_length(request);
	for (int i = 0; i < (int)all->count; i++) {
		const lk_rent_choice *choice = &all->at[i].choice;
		if (!keeps(choice)) continue;
		if (d.best < 0) d.best = i;
		if (d.fastest < 0 || choice->hours < all->at[d.fastest].choice.hours) d.fastest = i;
	}
	if (d.best >= 0) find_ties(ends, all, &d);
	if (ends) d.cheapest = d.best;
	else {
		d.most = d.best;
		d.fastest = -1;
	}
	return d;
}

/* ---- what to show ---- */

/* Mark the front, the decisions, and as many of every machine's best as requested; if some meet
 * deadline and budget, only those. */
static void mark_shown(const lk_rent_request *request, wares *all,
                       const struct decision *decision) {
	int plain = 0;
	for (int i = 0; i < (int)all->count; i++) {
		struct ware *ware = &all->at[i];
		if (decision->best >= 0 && !keeps(&ware->choice)) continue;
		ware->shown = ware->choice.pareto || i == decision->best || i == decision->fastest;
		for (int k = 0; k < decision->tie_count; k++) ware->shown |= i == decision->ties[k];
		if (ware->shown || plain >= request->top || !is_best_of_machine(all, (size_t)i)) continue;
		ware->shown = true;
		plain++;
	}
}

static lk_status choose_show(wares *all, const struct decision *decision, lk_arena *arena,
                             lk_rent *out, lk_error *err) {
	lk_rent_choice *choices = LK_ARRAY(arena, lk_rent_choice, all->count);
	int *ties = LK_ARRAY(arena, int, MOST_TIES);
	if (!choices || !ties) return lk_oom(err);
	for (size_t i = 0; i < all->count; i++) {
		struct ware *ware = &all->at[i];
		if (!ware->shown) continue;
		ware->at = out->count;
		choices[out->count++] = ware->choice;
	}
	for (int k = 0; k < decision->tie_count; k++) ties[k] = all->at[decision->ties[k]].at;
	out->choices = choices;
	out->ties = ties;
	out->tie_count = decision->tie_count;
	out->cheapest = decision->cheapest < 0 ? -1 : all->at[decision->cheapest].at;
	out->fastest = decision->fastest < 0 ? -1 : all->at[decision->fastest].at;
	out->most = decision->most < 0 ? -1 : all->at[decision->most].at;
	return LK_OK;
}

static double measuring_usd(const lk_rent_request *request, const lk_rent_choice *choice) {
	double hours = request->setup_min / 60 + STEPS_TO_MEASURE * choice->step_s / 3600;
	return lk_rent_hours_paid(request, hours) * choice->price * choice->machines;
}

static lk_status name_measurement(const lk_rent_request *request, lk_arena *arena, lk_rent *out,
                                  lk_error *err) {
	char cost[48];
	if (!out->tie_count) return LK_OK;
	const lk_rent_choice *least = &out->choices[out->most < 0 ? out->cheapest : out->most];
	for (int i = 0; i < out->tie_count; i++) {
		const lk_rent_choice *choice = &out->choices[out->ties[i]];
		if (measuring_usd(request, choice) < measuring_usd(request, least)) least = choice;
	}
	out->settle =
		lk_arena_printf(arena, "%.0f steps on %d x %s: about %s with %.0f %s to set up",
	                    STEPS_TO_MEASURE, least->machines, least->instance,
	                    lk_format_dollars(measuring_usd(request, least), cost, sizeof cost),
	                    request->setup_min, lk_noun(request->setup_min, "minute", "minutes"));
	return out->settle ? LK_OK : lk_oom(err);
}

/* "3.6 s", "0.34 h", "40.1 h", "4,304 h" */
static const char *hours_of(double hours, char *out, size_t size) {
	char whole[24];
	if (hours < 0.1) return lk_format_seconds(hours * 3600, out, size);
	if (hours >= 99.95)
		snprintf(out, size, "%s h", lk_format_thousands(hours, whole, sizeof whole));
	else snprintf(out, size, "%.*f h", hours < 9.995 ? 2 : 1, hours);
	return out;
}

/* Explain the nearest misses: the cheapest in time, the fastest within budget. */
static lk_status explain_nothing(const lk_rent_request *request, const wares *all, lk_arena *arena,
                                 lk_rent *out, lk_error *err) {
	if (!lk_rent_has_length(request)) {
		out->nothing = lk_arena_printf(
			arena,
			"deadline or budget is used up before the first step: setting up takes %g %s (--setup)",
			request->setup_min, lk_noun(request->setup_min, "minute", "minutes"));
		return out->nothing ? LK_OK : lk_oom(err);
	}
	const lk_rent_choice *cheap = NULL, *fast = NULL;
	for (size_t i = 0; i < all->count; i++) {
		const lk_rent_choice *choice = &all->at[i].choice;
		if (choice->in_time && (!cheap || choice->cost < cheap->cost)) cheap = choice;
		if (choice->in_budget && (!fast || choice->hours < fast->hours)) fast = choice;
	}
	char cost[48], limit[48], time[32];
	if (cheap) lk_format_dollars(cheap->cost, cost, sizeof cost);
	if (fast) hours_of(fast->hours, time, sizeof time);
	if (!cheap && !fast) {
		const lk_rent_choice *least = &all->at[0].choice;
		out->nothing = lk_arena_printf(
			arena,
			"no choice meets the deadline or the budget; the cheapest is %d x %s for %s in %s",
			least->machines, least->instance, lk_format_dollars(least->cost, cost, sizeof cost),
			hours_of(least->hours, time, sizeof time));
	} else if (!(request->deadline_h > 0)) {
		out->nothing = lk_arena_printf(
			arena, "no choice costs as little as %s; the cheapest is %d x %s for %s",
			lk_format_dollars(request->budget, limit, sizeof limit), cheap->machines,
			cheap->instance, cost);
	} else if (!(request->budget > 0)) {
		out->nothing =
			lk_arena_printf(arena, "no choice finishes within %s; the fastest is %d x %s in %s",
		                    hours_of(request->deadline_h, limit, sizeof limit), fast->machines,
		                    fast->instance, time);
	} else {
		const char *in_time = "nothing finishes in time";
		const char *in_budget = "nothing stays within the budget";
		if (cheap)
			in_time = lk_arena_printf(arena, "in time, the cheapest is %d x %s for %s",
			                          cheap->machines, cheap->instance, cost);
		if (fast)
			in_budget = lk_arena_printf(arena, "within the budget, the fastest is %d x %s in %s",
			                            fast->machines, fast->instance, time);
		if (in_time && in_budget)
			out->nothing = lk_arena_printf(
				arena, "no choice meets both deadline and budget: %s; %s", in_time, in_budget);
	}
	return out->nothing ? LK_OK : lk_oom(err);
}

/* ---- the whole choice ---- */

/* Whether some machine with a known GPU has a price on the terms of the request. */
static bool any_is_priced(const lk_rent_request *request, const lk_offers *offers) {
	for (size_t i = 0; i < offers->count; i++)
		if (offers->at[i].device && !isnan(lk_rent_price(request, &offers->at[i]))) return true;
	return false;
}

static lk_status nothing_fits(const lk_rent_request *request, const lk_offers *offers,
                              const lk_rent_rates *rates, const char *useless, const char *cut_off,
                              lk_error *err) {
	if (!any_is_priced(request, offers)) {
		if (!request->block && !request->spot)
			return lk_fail(err, LK_ERR_INPUT, "rent",
			               "none of the selected machines has both a price and a known GPU");
		lk_fail(err, LK_ERR_INPUT, "rent", "none of the selected machines has a %s",
		        request->block ? "price for blocks" : "spot price");
		return lk_hint(err, "leave out %s, or select others (lockstep machines lists them)",
		               request->block ? "--block" : "--spot");
	}
	if (useless) {
		lk_fail(err, LK_ERR_INPUT, "rent",
		        "no choice gets any work done between failures and interruptions");
		return lk_hint(err, "%.250s", useless);
	}
	if (cut_off) {
		lk_fail(err, LK_ERR_STOPPED, "rent",
		        "cut off by %s before it found a machine that the job runs on",
		        lk_cutoff_text(cut_off));
		return lk_hint(err, "give it more time");
	}
	lk_fail(err, LK_ERR_INPUT, "rent", "the job runs on none of the selected machines");
	for (size_t i = rates->count; i-- > 0;)
		if (*rates->at[i].why)
			return lk_hint(err, "on %s: %.160s", rates->at[i].cluster, rates->at[i].why);
	for (size_t i = 0; i < offers->count; i++)
		if (offers->at[i].device && offers->at[i].search_end)
			return lk_hint(err, "weights and optimizer state alone are larger than the memory of "
			                    "as many machines as may be joined; raise --most-gpus, or select "
			                    "larger machines");
	return LK_ERR_INPUT;
}

static lk_status choose_offers(const lk_rent_request *request, const lk_offers *offers,
                               const lk_rent_rates *rates, lk_arena *arena, wares *all,
                               lk_rent *out, const char **useless, lk_error *err) {
	struct useless left_out = {0};
	lk_rent_loader loader;
	LK_TRY(lk_rent_loader_of(request, &loader, err));
	for (size_t i = 0; i < offers->count; i++)
		if (offers->at[i].device)
			LK_TRY(
				add_choices(request, &loader, &offers->at[i], rates, arena, all, &left_out, err));
	if (left_out.count && !(*useless = choose_name_useless(request, &left_out, arena)))
		return lk_oom(err);
	if (!all->count) return nothing_fits(request, offers, rates, *useless, out->cut_off, err);
	lk_sort(all->at, all->count, sizeof *all->at, choose_by_worth);
	mark_front(all);
	out->considered = (int)all->count;
	out->samples = lk_rent_has_length(request) ? all->at[0].choice.samples : NAN;
	for (size_t i = 0; i < all->count; i++) out->within_limits += keeps(&all->at[i].choice);
	struct decision d = choose_decide(request, all);
	mark_shown(request, all, &d);
	LK_TRY(choose_show(all, &d, arena, out, err));
	LK_TRY(name_measurement(request, arena, out, err));
	return d.best < 0 ? explain_nothing(request, all, arena, out, err) : LK_OK;
}

lk_status lk_rent_choose(const lk_rent_request *request, const lk_offers *offers,
                         const lk_rent_rates *rates, lk_arena *arena, lk_rent *out,
                         const char **useless, lk_error *err) {
	wares all = {0};
	*useless = NULL;
	lk_status status = choose_offers(request, offers, rates, arena, &all, out, useless, err);
	lk_vec_free(&all);
	return status;
}
