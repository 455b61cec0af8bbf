/* rent_search.c: how many machines are tried. Of every offer 1, 2, 4, ... machines, while the next
 * can change the answer, up to --most-gpus GPUs.
 *
 * The next cannot where a choice that is known beats the best that it can be: half the hours at the
 * same dollars, both a quarter better still. A job that is tight in memory gets cheaper on more
 * machines: as long as it does, or but one number is known, they may be three times as good.
 * Neither the cheapest nor the fastest is beaten by another, whatever the limits. Nor can the next
 * of an offer that another one beats everywhere: the same machine, a network as fast, for less.
 *
 * The fastest within the budget: while the next may cost no more than the budget and the most
 * machines are faster than half as many.
 *
 * The cheapest before the deadline: while none of the offer's choices is in time, and the next may
 * cost less than the cheapest of all that is.
 *
 * Without budget and deadline nothing says how many are wanted: 64, and the answer says so.
 *
 * The most that a budget buys, where the training has no length: while the most machines train more
 * than half as many. A deadline alone buys more on every machine more: 64, too. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "rent/rent.h"

enum {
	FIRST_GPUS = 64,
	MEMORY_GPUS = 1024 /* a job that fits on no number up to this one is given up */
};
/* How much cheaper than the last number of machines the next may be. */
static const double STEADY = 1.25, FALLING = 3;

/* What is known to be had; on the front of those known. */
struct had {
	double samples, hours, cost;
};

struct search {
	const lk_rent_request *request;
	lk_rent_loader loader;
	lk_rent_batches batches;
	lk_offers *offers;
	lk_rent_rates *rates;
	lk_arena *arena;
	double cheapest_in_time; /* dollars; infinite: none yet */
	LK_VEC(struct had) had;
};

/* What is known of an offer. Infinite: nothing fits. */
struct known {
	double last_cost, last_hours;   /* of the most machines that were tried, the best batch */
	double fewer_cost, fewer_hours; /* the cheapest and the fastest of fewer machines */
	double cheapest_in_time, least; /* of all numbers of machines: dollars, hours */
	double last_samples, fewer_samples;
	bool useless; /* on the most machines it fits, and interruptions leave no time */
};

static double search_price(const struct search *search, const lk_offer *offer) {
	return search->request->spot ? offer->spot : offer->on_demand;
}

/* Whether one is no worse than the other in anything. */
static bool beats(const struct had *one, const struct had *other) {
	return one->samples >= other->samples && one->hours <= other->hours && one->cost <= other->cost;
}

/* Whether something known is no worse. */
static bool is_had(const struct search *search, const struct had *wanted) {
	for (size_t i = 0; i < search->had.count; i++)
		if (beats(&search->had.at[i], wanted)) return true;
	return false;
}

static lk_status search_keep(struct search *search, const lk_rent_choice *choice, lk_error *err) {
	struct had new = {choice->samples, choice->hours, choice->cost};
	size_t kept = 0;
	if (is_had(search, &new)) return LK_OK;
	for (size_t i = 0; i < search->had.count; i++)
		if (!beats(&new, &search->had.at[i])) search->had.at[kept++] = search->had.at[i];
	search->had.count = kept;
	if (!lk_push(&search->had)) return lk_oom(err);
	*lk_last(&search->had) = new;
	return LK_OK;
}

/* How much cheaper twice as many machines may be. */
static double gain_of(const struct known *known) {
	return known->last_cost < known->fewer_cost ? FALLING : STEADY;
}

/* Whether twice as many machines are beaten by what is known, where they are `gain` times as cheap.
 */
static bool is_beaten(const struct search *search, const struct known *known, double gain) {
	bool ends = lk_rent_has_length(search->request);
	struct had next = {ends ? 0 : 2 * gain * known->last_samples, known->last_hours / (2 * gain),
	                   ends ? known->last_cost / gain : known->last_cost};
	return is_had(search, &next);
}

static lk_status search_look(struct search *search, const lk_offer *offer, struct known *out,
                             lk_error *err) {
	LK_ASSERT(offer->gpus > 0 && offer->gpus_searched % offer->gpus == 0);
	*out = (struct known){.last_cost = INFINITY,
	                      .last_hours = INFINITY,
	                      .fewer_cost = INFINITY,
	                      .fewer_hours = INFINITY,
	                      .cheapest_in_time = INFINITY,
	                      .least = INFINITY};
	for (int machines = 1; machines * offer->gpus <= offer->gpus_searched; machines *= 2) {
		const char *cluster = lk_offer_cluster(offer, machines, search->arena);
		bool last = 2 * machines * offer->gpus > offer->gpus_searched;
		const lk_rent_rate *rate;
		if (!cluster) return lk_oom(err);
		for (size_t from = 0; (rate = lk_rent_rates_next(search->rates, cluster, &from));) {
			lk_rent_choice choice;
			if (last) out->useless |= rate->fits && lk_rent_goodput(search->request, rate) <= 0;
			if (!lk_rent_choice_of(search->request, &search->loader, offer, rate, &choice))
				continue;
			LK_TRY(search_keep(search, &choice, err));
			out->least = fmin(out->least, choice.hours);
			if (choice.in_time) out->cheapest_in_time = fmin(out->cheapest_in_time, choice.cost);
			if (last) out->last_cost = fmin(out->last_cost, choice.cost);
			if (last) out->last_hours = fmin(out->last_hours, choice.hours);
			else {
				out->fewer_cost = fmin(out->fewer_cost, choice.cost);
				out->fewer_hours = fmin(out->fewer_hours, choice.hours);
			}
			double *samples = last ? &out->last_samples : &out->fewer_samples;
			*samples = fmax(*samples, choice.samples);
		}
	}
	return LK_OK;
}

/* Whether so many GPUs of a machine on which nothing fits yet are beaten, even if the step took
 * half of what the arithmetic takes at the peak. */
static bool is_hopeless(const struct search *search, const lk_offer *offer, int gpus) {
	const lk_rent_rate *like = NULL;
	lk_rent_choice choice;
	double peak = 0;
	for (size_t i = 0; i < search->rates->count && !like; i++)
		if (search->rates->at[i].fits && search->rates->at[i].flops > 0)
			like = &search->rates->at[i];
	if (!like) return false;
	/* what has no bf16 calculates in fp16 or fp32 */
	int last = like->dtype > LK_BF16 ? (int)like->dtype : LK_BF16;
	for (int dtype = LK_FP32; dtype <= last; dtype++)
		peak = fmax(peak, lk_device_peak(offer->device, (lk_dtype)dtype));
	if (!(peak > 0)) return false;
	lk_rent_rate best = *like;
	best.gpus = gpus;
	best.machines = gpus / offer->gpus;
	best.step_s = best.low_s = best.high_s = 0.5 * like->flops / (gpus * peak);
	if (!lk_rent_choice_of(search->request, &search->loader, offer, &best, &choice)) return false;
	return is_had(search, &(struct had){choice.samples, choice.hours, choice.cost});
}

/* The same machine, but a network that is as fast or faster, for less. */
static bool has_better_twin(const struct search *search, const lk_offer *offer) {
	for (size_t i = 0; i < search->offers->count; i++) {
		const lk_offer *twin = &search->offers->at[i];
		double usd = search_price(search, offer), twin_usd = search_price(search, twin);
		if (twin->device != offer->device || twin->gpus != offer->gpus ||
		    strcmp(twin->links, offer->links) != 0 || !(twin->vcpus >= offer->vcpus) ||
		    !(twin->network_gbps >= offer->network_gbps) || !(twin_usd <= usd))
			continue;
		bool alike = twin->network_gbps == offer->network_gbps && twin_usd == usd &&
		             twin->vcpus == offer->vcpus;
		if (!alike || twin < offer) return true;
	}
	return false;
}

/* Why more machines of an offer cannot change the answer; NULL where they can. */
static const char *search_end(const struct search *search, const lk_offer *offer,
                              const struct known *known) {
	const lk_rent_request *request = search->request;
	if (isnan(search_price(search, offer))) return "no price";
	if (!offer->gpus_searched) return NULL;
	if (isnan(offer->network_gbps)) return "network not stated";
	if (known->useless) return "interruptions"; /* of more machines there are more */
	if (isinf(known->least) && offer->gpus_searched >= MEMORY_GPUS) return "never fits";
	if (isinf(known->least))
		return is_hopeless(search, offer, 2 * offer->gpus_searched) ? "beaten" : NULL;
	if (isinf(known->last_hours)) return "does not fit";
	if (is_beaten(search, known, gain_of(known))) return "beaten";
	if (has_better_twin(search, offer)) return "beaten";
	if (!lk_rent_has_length(request))
		return known->last_samples > known->fewer_samples ? NULL : "buys less";
	if (known->last_hours >= known->fewer_hours) return "slower";
	double next_cost = known->last_cost / gain_of(known);
	if (request->budget > 0 && next_cost <= request->budget) return NULL;
	if (request->deadline_h > 0 && isinf(known->cheapest_in_time) &&
	    next_cost < search->cheapest_in_time)
		return NULL;
	if (request->budget > 0) return "budget";
	return request->deadline_h > 0 ? "deadline" : NULL;
}

static int search_limit(const lk_rent_request *request) {
	if (request->most_gpus > 0) return request->most_gpus;
	bool ends = request->budget > 0 || (request->deadline_h > 0 && lk_rent_has_length(request));
	return ends ? LK_RENT_GPUS : FIRST_GPUS;
}

/* Whether twice as many machines would be worth knowing if they cost the same: those come first,
 * for they may beat others. */
static bool is_promising(const struct search *search, const lk_offer *offer,
                         const struct known *known) {
	return !offer->gpus_searched || isinf(known->last_hours) || !is_beaten(search, known, 1);
}

static int next_gpus(const lk_offer *offer) {
	return offer->gpus_searched ? 2 * offer->gpus_searched : offer->gpus;
}

/* A machine of every offer, and then twice as many while that can change the answer. */
static lk_status add_more(struct search *search, lk_error *err) {
	size_t count = search->offers->count;
	struct known *known = LK_ARRAY(search->arena, struct known, count + 1);
	bool promising = false;
	if (!known) return lk_oom(err);
	search->cheapest_in_time = INFINITY;
	for (size_t i = 0; i < count; i++) {
		const lk_offer *offer = &search->offers->at[i];
		if (!offer->device || offer->search_end) continue;
		LK_TRY(search_look(search, offer, &known[i], err));
		search->cheapest_in_time = fmin(search->cheapest_in_time, known[i].cheapest_in_time);
	}
	for (size_t i = 0; i < count; i++) {
		lk_offer *offer = &search->offers->at[i];
		if (!offer->device || offer->search_end) continue;
		offer->search_end = search_end(search, offer, &known[i]);
		offer->unfinished = !offer->search_end && next_gpus(offer) > search_limit(search->request);
		if (offer->unfinished) offer->search_end = "limit";
		promising |= !offer->search_end && is_promising(search, offer, &known[i]);
	}
	for (size_t i = 0; i < count; i++) {
		lk_offer *offer = &search->offers->at[i];
		if (!offer->device || offer->search_end) continue;
		if (promising && !is_promising(search, offer, &known[i])) continue;
		int gpus = next_gpus(offer);
		LK_TRY(lk_rent_rates_add(offer, gpus / offer->gpus, &search->batches, search->arena,
		                         search->rates, err));
		offer->gpus_searched = gpus;
	}
	return LK_OK;
}

lk_status lk_rent_search(const lk_rent_request *request, lk_offers *offers, lk_arena *arena,
                         lk_rent_rates *rates, lk_error *err) {
	struct search search = {.request = request, .offers = offers, .rates = rates, .arena = arena};
	LK_TRY(lk_rent_loader_of(request, &search.loader, err));
	LK_TRY(lk_rent_batches_read(request->batches, &search.batches, err));
	lk_status status = add_more(&search, err);
	for (size_t answered = 0; status == LK_OK && answered < rates->count;) {
		status = lk_rent_rates_answer(request, answered, arena, rates, err);
		answered = rates->count;
		if (status == LK_OK) status = add_more(&search, err);
	}
	lk_vec_free(&search.had);
	return status;
}

/* ---- in words ---- */

lk_status lk_rent_search_describe(const lk_rent_request *request, const lk_offers *offers,
                                  lk_arena *arena, lk_rent *out, lk_error *err) {
	int unfinished = 0, most = 0, hopeless = 0, in_time = 0;
	char never[100] = "";
	const char *why;
	for (size_t i = 0; i < offers->count; i++) {
		const char *end = offers->at[i].search_end;
		unfinished += offers->at[i].unfinished;
		hopeless += end && strcmp(end, "never fits") == 0;
		in_time += end && strcmp(end, "deadline") == 0;
		if (offers->at[i].gpus_searched > most) most = offers->at[i].gpus_searched;
	}
	out->gpus_searched = most;
	out->search_complete = unfinished == 0 && in_time == 0;
	if (out->search_complete) why = "more of any machine cannot change the answer";
	else if (unfinished == 0)
		why = "more of any machine cannot change the cheapest; more may be faster (--budget)";
	else if (request->most_gpus > 0)
		why = lk_rent_has_length(request)
		          ? "the limit of --most-gpus; more may be faster or cheaper in time"
		          : "the limit of --most-gpus; more may train more";
	else if (!lk_rent_has_length(request))
		why = "more train more: --most-gpus, or --budget, which says how far to search";
	else if (most > FIRST_GPUS) why = "the most that is searched; more may be faster";
	else
		why = "more may be faster: --most-gpus, or --budget or --deadline, which say how far to "
			  "search";
	if (hopeless)
		snprintf(never, sizeof never, "; on %d machines the job fits on no number up to %d GPUs",
		         hopeless, MEMORY_GPUS);
	out->searched = lk_arena_printf(arena, "1, 2, 4, ... of every machine, up to %d GPUs; %s%s",
	                                most, why, never);
	return out->searched ? LK_OK : lk_oom(err);
}
