/* rent_search.c: how many machines are tried. Of every offer 1, 2, 4, ... machines up to
 * --most-gpus GPUs. Without that limit up to 64, and then on by doubles while the next can change
 * the answer.
 *
 * The fastest within the budget: while the most machines cost no more than 1.25 budgets (a job that
 * is tight in memory can get cheaper on more machines) and are faster than half as many.
 *
 * The cheapest before the deadline: while none of the offer's choices is in time, and its last
 * costs less than the cheapest of all that is; more machines cost more.
 *
 * Without budget and deadline nothing says how many are wanted: 64, and the answer says so. */
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
static const double TIGHT = 1.25;

struct search {
	const lk_rent_request *request;
	lk_rent_loader loader;
	lk_rent_batches batches;
	lk_offers *offers;
	lk_rent_rates *rates;
	lk_arena *arena;
	double cheapest_in_time; /* dollars; infinite: none yet */
};

/* What is known of an offer. Infinite: nothing fits. */
struct known {
	double last_cost, last_hours;   /* of the most machines that were tried, the best batch */
	double fewer_hours;             /* the fastest of fewer machines */
	double cheapest_in_time, least; /* of all numbers of machines: dollars, hours */
	bool useless; /* on the most machines it fits, and interruptions leave no time */
};

static lk_status search_look(const struct search *search, const lk_offer *offer, struct known *out,
                             lk_error *err) {
	LK_ASSERT(offer->gpus > 0 && offer->gpus_searched % offer->gpus == 0);
	*out = (struct known){INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, false};
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
			out->least = fmin(out->least, choice.hours);
			if (choice.in_time) out->cheapest_in_time = fmin(out->cheapest_in_time, choice.cost);
			if (last) out->last_cost = fmin(out->last_cost, choice.cost);
			if (last) out->last_hours = fmin(out->last_hours, choice.hours);
			else out->fewer_hours = fmin(out->fewer_hours, choice.hours);
		}
	}
	return LK_OK;
}

/* Why more machines of an offer cannot change the answer; NULL where they can. */
static const char *search_end(const struct search *search, const lk_offer *offer,
                              const struct known *known) {
	const lk_rent_request *request = search->request;
	if (isnan(request->spot ? offer->spot : offer->on_demand)) return "no price";
	if (isnan(offer->network_gbps)) return "network not stated";
	if (known->useless) return "interruptions"; /* of more machines there are more */
	if (isinf(known->least)) return offer->gpus_searched < MEMORY_GPUS ? NULL : "never fits";
	if (isinf(known->last_hours)) return "does not fit";
	if (known->last_hours >= known->fewer_hours) return "slower";
	if (request->budget > 0 && known->last_cost <= TIGHT * request->budget) return NULL;
	if (request->deadline_h > 0 && isinf(known->cheapest_in_time) &&
	    known->last_cost < search->cheapest_in_time)
		return NULL;
	if (request->budget > 0) return "budget";
	return request->deadline_h > 0 ? "deadline" : NULL;
}

static int search_limit(const lk_rent_request *request) {
	if (request->most_gpus > 0) return request->most_gpus;
	return request->budget > 0 || request->deadline_h > 0 ? LK_RENT_GPUS : FIRST_GPUS;
}

static lk_status add_first(struct search *search, lk_offer *offer, lk_error *err) {
	int limit = search_limit(search->request);
	if (search->request->most_gpus == 0 && limit > FIRST_GPUS) limit = FIRST_GPUS;
	for (int machines = 1; machines * offer->gpus <= limit; machines *= 2) {
		LK_TRY(lk_rent_rates_add(offer, machines, &search->batches, search->arena, search->rates,
		                         err));
		offer->gpus_searched = machines * offer->gpus;
		if (isnan(offer->network_gbps)) break;
	}
	return LK_OK;
}

/* Twice as many machines of every offer of which that can change the answer. */
static lk_status add_doubles(struct search *search, lk_error *err) {
	search->cheapest_in_time = INFINITY;
	for (int last = 0; last < 2; last++)
		for (size_t i = 0; i < search->offers->count; i++) {
			lk_offer *offer = &search->offers->at[i];
			struct known known;
			if (!offer->device || offer->search_end) continue;
			LK_TRY(search_look(search, offer, &known, err));
			search->cheapest_in_time = fmin(search->cheapest_in_time, known.cheapest_in_time);
			if (!last) continue;
			offer->search_end = search_end(search, offer, &known);
			if (offer->search_end) continue;
			int gpus = offer->gpus_searched ? 2 * offer->gpus_searched : offer->gpus;
			offer->unfinished = gpus > search_limit(search->request);
			if (offer->unfinished) {
				offer->search_end = "limit";
				continue;
			}
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
	for (size_t i = 0; i < offers->count; i++)
		if (offers->at[i].device) LK_TRY(add_first(&search, &offers->at[i], err));
	for (size_t answered = 0; answered < rates->count;) {
		LK_TRY(lk_rent_rates_answer(request, answered, arena, rates, err));
		answered = rates->count;
		LK_TRY(add_doubles(&search, err));
	}
	return LK_OK;
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
		why = "the limit of --most-gpus; more may be faster or cheaper in time";
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
