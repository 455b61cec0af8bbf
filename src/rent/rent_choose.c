/* rent_choose.c: prices against hours. Of every offer, every number of machines and batch that fits is a choice; shown are the
 * front (nobody is both cheaper and faster) and the best of each machine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "predict/predict.h"
#include "rent/rent.h"

static const double STEPS_TO_MEASURE = 100;

struct ware {
	lk_rent_choice choice;
	const lk_offer *offer;
	bool shown;
	int at;                  /* then: its place among those shown */
};
typedef LK_VEC(struct ware) wares;

/* ---- a choice ---- */

static double hours_of(const lk_rent_request *r, double steps, double step_s, double goodput) {
	return steps * step_s / 3600 / goodput + r->setup_min / 60;
}

/* Preparation and fetching run beside the step: the slowest counts; a loader that does not is added. */
static double with_data(const lk_rent_loader *l, const lk_offer *o, const lk_rent_rate *rate, double step_s, const char **slowest) {
	double prepare = rate->batch / (l->prepare_per_core * o->vcpus * rate->machines);
	double fetch = rate->batch / (l->fetch_per_machine * rate->machines), data = fmax(prepare, fetch);
	if (isnan(data)) return step_s; /* fmax leaves out one that is not known */
	*slowest = data == fetch ? "fetch" : "preparation";
	return l->pipelined ? fmax(step_s, data) : step_s + data;
}

/* What costs less than one part in a hundred is no stall. */
static void set_stall(const lk_rent_rate *rate, const char *slowest, lk_rent_choice *c) {
	double waiting = c->step_s - rate->step_s;
	bool waits = waiting > rate->stall_s;
	c->stall_share = (waits ? waiting : rate->stall_s) / c->step_s;
	c->stall = c->stall_share < 0.01 ? "none" : waits ? slowest : rate->stall;
}

static bool make_choice(const lk_rent_request *r, const lk_rent_loader *l, const lk_offer *o, const lk_rent_rate *rate, double samples,
                        lk_rent_choice *c) {
	const char *slowest = "preparation";
	double price = r->spot ? o->spot : o->on_demand, steps = samples / rate->batch;
	double goodput = r->spot && r->interruptions > 0
	                     ? lk_goodput(1 / (r->interruptions * rate->machines), r->job.checkpoint_minutes) : 1;
	if (!rate->fits || isnan(price) || goodput <= 0) return false;
	*c = (lk_rent_choice){
		.provider = o->provider, .instance = o->instance, .region = o->region, .gpu = o->device->name, .gpus_each = o->gpus,
		.machines = rate->machines, .gpus = rate->gpus, .batch = rate->batch, .layout = rate->layout, .reproduce = rate->reproduce,
		.step_s = with_data(l, o, rate, rate->step_s, &slowest), .step_low_s = with_data(l, o, rate, rate->low_s, &slowest),
		.step_high_s = with_data(l, o, rate, rate->high_s, &slowest), .price = price, .date = o->date, .source = o->source,
		.goodput = goodput};
	c->hours = hours_of(r, steps, c->step_s, goodput);
	c->hours_low = hours_of(r, steps, c->step_low_s, goodput);
	c->hours_high = hours_of(r, steps, c->step_high_s, goodput);
	double rate_usd = price * rate->machines;
	c->cost = c->hours * rate_usd, c->cost_low = c->hours_low * rate_usd, c->cost_high = c->hours_high * rate_usd;
	c->in_time = r->deadline_h <= 0 || c->hours <= r->deadline_h;
	c->in_budget = r->budget <= 0 || c->cost <= r->budget;
	set_stall(rate, slowest, c);
	return true;
}

static const lk_rent_rate *find_rate(const lk_rent_rates *rates, const char *cluster, size_t *from) {
	for (size_t i = *from; i < rates->count; i++)
		if (strcmp(rates->at[i].cluster, cluster) == 0) return *from = i + 1, &rates->at[i];
	return NULL;
}

/* ---- all choices ---- */

static lk_status add_choices(const lk_rent_request *r, const lk_rent_loader *l, const lk_offer *o, const lk_rent_rates *rates,
                             lk_arena *arena, wares *all, double *samples, lk_error *err) {
	for (int machines = 1; machines * o->gpus <= r->most_gpus; machines *= 2) {
		const char *cluster = lk_offer_cluster(o, machines, arena);
		const lk_rent_rate *rate;
		if (!cluster) return lk_oom(err);
		for (size_t from = 0; (rate = find_rate(rates, cluster, &from));) {
			lk_rent_choice c;
			if (rate->fits && r->tokens > 0) *samples = r->tokens / rate->seq;
			if (!make_choice(r, l, o, rate, *samples, &c)) continue;
			if (!lk_push(all)) return lk_oom(err);
			*lk_last(all) = (struct ware){.choice = c, .offer = o};
		}
		if (isnan(o->network_gbps)) break;
	}
	return LK_OK;
}

static int by_cost(const void *a, const void *b) {
	const struct ware *x = a, *y = b;
	if (x->choice.cost != y->choice.cost) return x->choice.cost < y->choice.cost ? -1 : 1;
	if (x->choice.hours != y->choice.hours) return x->choice.hours < y->choice.hours ? -1 : 1;
	return (x->offer > y->offer) - (x->offer < y->offer);
}

static void mark_front(wares *all) {
	double fastest = INFINITY;
	for (size_t i = 0; i < all->count; i++) {
		lk_rent_choice *c = &all->at[i].choice;
		c->pareto = c->hours < fastest;
		fastest = fmin(fastest, c->hours);
	}
}

/* The first of its machine, by cost, among those that keep to what was asked (or among all where none does). */
static bool is_best_of_machine(const wares *all, size_t at) {
	const lk_rent_choice *c = &all->at[at].choice;
	bool keeps = c->in_time && c->in_budget;
	for (size_t i = 0; i < all->count; i++) {
		const lk_rent_choice *o = &all->at[i].choice;
		bool other = o->in_time && o->in_budget;
		if (all->at[i].offer != all->at[at].offer) continue;
		if (other == keeps ? i < at : other) return false;
	}
	return true;
}

/* ---- decisions ---- */

enum { MOST_TIES = 3 };

/* By places among all. */
struct decision {
	int cheapest, fastest;   /* -1 none */
	int ties[MOST_TIES], tie_count;
};

static bool keeps(const lk_rent_choice *c) {
	return c->in_time && c->in_budget;
}

static bool same_machine(const struct ware *a, const struct ware *b) {
	return strcmp(a->choice.instance, b->choice.instance) == 0 && strcmp(a->choice.provider, b->choice.provider) == 0;
}

/* Others that may cost less than the cheapest may cost: its range against theirs. On the same device the error of the
 * prediction is largely the same, so that the price decides: those are no ties. */
static void find_ties(const wares *all, struct decision *d) {
	const struct ware *best = &all->at[d->cheapest];
	for (int i = d->cheapest + 1; i < (int)all->count && d->tie_count < MOST_TIES; i++) {
		const struct ware *w = &all->at[i];
		bool other = strcmp(w->choice.gpu, best->choice.gpu) != 0;
		for (int k = 0; k < d->tie_count; k++) other &= !same_machine(w, &all->at[d->ties[k]]);
		if (other && keeps(&w->choice) && w->choice.cost_low < best->choice.cost_high) d->ties[d->tie_count++] = i;
	}
}

static struct decision decide(const wares *all) {
	struct decision d = {.cheapest = -1, .fastest = -1};
	for (int i = 0; i < (int)all->count; i++) {
		const lk_rent_choice *c = &all->at[i].choice;
		if (!keeps(c)) continue;
		if (d.cheapest < 0) d.cheapest = i;
		if (d.fastest < 0 || c->hours < all->at[d.fastest].choice.hours) d.fastest = i;
	}
	if (d.cheapest >= 0) find_ties(all, &d);
	return d;
}

/* ---- what is shown ---- */

/* The front, the decisions, and of every machine its best, as many as asked for. */
static void mark_shown(const lk_rent_request *r, wares *all, const struct decision *d) {
	int plain = 0;
	for (int i = 0; i < (int)all->count; i++) {
		struct ware *w = &all->at[i];
		w->shown = w->choice.pareto || i == d->cheapest || i == d->fastest;
		for (int k = 0; k < d->tie_count; k++) w->shown |= i == d->ties[k];
		if (w->shown || plain >= r->top || !is_best_of_machine(all, (size_t)i)) continue;
		if (d->cheapest >= 0 && !keeps(&w->choice)) continue;
		w->shown = true;
		plain++;
	}
}

static lk_status show(wares *all, const struct decision *d, lk_arena *arena, lk_rent *out, lk_error *err) {
	lk_rent_choice *choices = LK_ARRAY(arena, lk_rent_choice, all->count);
	int *ties = LK_ARRAY(arena, int, MOST_TIES);
	if (!choices || !ties) return lk_oom(err);
	for (size_t i = 0; i < all->count; i++) {
		struct ware *w = &all->at[i];
		if (!w->shown) continue;
		w->at = out->count;
		choices[out->count++] = w->choice;
	}
	for (int k = 0; k < d->tie_count; k++) ties[k] = all->at[d->ties[k]].at;
	out->choices = choices, out->ties = ties, out->tie_count = d->tie_count;
	out->cheapest = d->cheapest < 0 ? -1 : all->at[d->cheapest].at;
	out->fastest = d->fastest < 0 ? -1 : all->at[d->fastest].at;
	return LK_OK;
}

static double measuring_usd(const lk_rent_request *r, const lk_rent_choice *c) {
	return (r->setup_min / 60 + STEPS_TO_MEASURE * c->step_s / 3600) * c->price * c->machines;
}

static lk_status name_measurement(const lk_rent_request *r, lk_arena *arena, lk_rent *out, lk_error *err) {
	if (!out->tie_count) return LK_OK;
	const lk_rent_choice *least = &out->choices[out->cheapest];
	for (int i = 0; i < out->tie_count; i++) {
		const lk_rent_choice *c = &out->choices[out->ties[i]];
		if (measuring_usd(r, c) < measuring_usd(r, least)) least = c;
	}
	out->settle = lk_arena_printf(arena, "%.0f steps on %d x %s: about $%.2f with %.0f minutes to set up", STEPS_TO_MEASURE,
	                              least->machines, least->instance, measuring_usd(r, least), r->setup_min);
	return out->settle ? LK_OK : lk_oom(err);
}

/* The nearest miss: cheapest in time, fastest in budget. */
static lk_status explain_nothing(const wares *all, lk_arena *arena, lk_rent *out, lk_error *err) {
	const lk_rent_choice *cheap = NULL, *fast = NULL;
	for (size_t i = 0; i < all->count; i++) {
		const lk_rent_choice *c = &all->at[i].choice;
		if (c->in_time && (!cheap || c->cost < cheap->cost)) cheap = c;
		if (c->in_budget && (!fast || c->hours < fast->hours)) fast = c;
	}
	char in_time[160] = "nothing is done in time", in_budget[160] = "nothing keeps to the budget";
	if (cheap) snprintf(in_time, sizeof in_time, "in time, the cheapest is %d x %s for $%.0f", cheap->machines, cheap->instance, cheap->cost);
	if (fast) snprintf(in_budget, sizeof in_budget, "within the budget, the fastest is %d x %s in %.1f h", fast->machines, fast->instance, fast->hours);
	if (!cheap && !fast)
		out->nothing = lk_arena_printf(arena, "nothing keeps to deadline or budget; the cheapest is %d x %s for $%.0f in %.1f h",
		                               all->at[0].choice.machines, all->at[0].choice.instance, all->at[0].choice.cost,
		                               all->at[0].choice.hours);
	else out->nothing = lk_arena_printf(arena, "no choice keeps to deadline and budget: %s; %s", in_time, in_budget);
	return out->nothing ? LK_OK : lk_oom(err);
}

/* ---- the whole ---- */

static lk_status nothing_fits(const lk_rent_rates *rates, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, "rent", "the job runs on none of the machines meant");
	for (size_t i = rates->count; i-- > 0;)
		if (*rates->at[i].why) return lk_hint(err, "on %s: %.160s", rates->at[i].cluster, rates->at[i].why);
	return lk_hint(err, "none of them has a price and a GPU that is known");
}

static lk_status choose(const lk_rent_request *r, const lk_offers *offers, const lk_rent_rates *rates, lk_arena *arena, wares *all,
                        lk_rent *out, lk_error *err) {
	double samples = r->samples * (r->epochs > 0 ? r->epochs : 1);
	lk_rent_loader loader;
	LK_TRY(lk_rent_loader_of(r, &loader, err));
	for (size_t i = 0; i < offers->count; i++)
		if (offers->at[i].device) LK_TRY(add_choices(r, &loader, &offers->at[i], rates, arena, all, &samples, err));
	if (!all->count) return nothing_fits(rates, err);
	qsort(all->at, all->count, sizeof *all->at, by_cost);
	mark_front(all);
	out->considered = (int)all->count, out->samples = samples;
	struct decision d = decide(all);
	mark_shown(r, all, &d);
	LK_TRY(show(all, &d, arena, out, err));
	LK_TRY(name_measurement(r, arena, out, err));
	return out->cheapest < 0 ? explain_nothing(all, arena, out, err) : LK_OK;
}

lk_status lk_rent_choose(const lk_rent_request *request, const lk_offers *offers, const lk_rent_rates *rates, lk_arena *arena,
                         lk_rent *out, lk_error *err) {
	wares all = {0};
	lk_status status = choose(request, offers, rates, arena, &all, out, err);
	lk_vec_free(&all);
	return status;
}
