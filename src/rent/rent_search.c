/* rent_search.c: how many machines are tried: 1, 2, 4, ... machines of every offer, while the next
 * can change the answer, up to --most-gpus GPUs.
 *
 * A number cannot change it if a known choice beats the best that it can be. That best has two
 * bounds. A sample takes at least a known number of GPU-seconds on a device, whatever the layout
 * (plan/layout_least.c). And twice as many machines are at most 2 * STEADY times as fast. A job
 * that is tight in memory gets cheaper on more machines: as long as it does, or while only one
 * number is known, they may be 2 * FALLING times as fast; with memory to spare they are not. If the
 * better choice can be had in any number, with as fast a network, more of its machines also beat
 * larger numbers, and the offer's search is over; otherwise only the number is skipped. The known
 * choices also limit how long a useful step on a number of machines may be: only layouts up to that
 * are searched. The cheapest and the fastest are beaten by no other choice, whatever the limits.
 * Nor can the next number of an offer change the answer if the same machine with as fast a network
 * is offered for less.
 *
 * Of the rest, those are tried first that no other could beat if each were as good as its bound:
 * their results rule out most of the others.
 *
 * The fastest within the budget: while the next may cost no more than the budget. If twice as many
 * machines are slower, the search continues: four times as many may have a layout that is faster
 * again.
 *
 * Once something meets deadline and budget, what does not is of no interest.
 *
 * The cheapest before the deadline: while the next may cost less than the cheapest of all that meet
 * it.
 *
 * Without budget and deadline nothing limits the number: it is 64, and the answer says so.
 *
 * The most that a budget buys, if the training has no length: while the most machines train more
 * than half as many samples. A deadline alone allows more on every larger number: 64, too. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/noun.h"
#include "base/text.h"
#include "rent/rent.h"

enum {
	FIRST_GPUS = 64,
	MEMORY_GPUS = 1024 /* a job that fits on no number up to this one is given up */
};
/* With this many times the memory of weights and optimizer state, a job is not tight in it. */
static const double ROOM = 4;
/* How much cheaper than the last number of machines the next may be. */
static const double STEADY = 1.25, FALLING = 3;

/* A known choice; kept if on the front. */
struct had {
	double samples, hours, cost;
	double network; /* per GPU, Gbit/s; 0: the machine is not connected to others */
};

struct search {
	const lk_rent_request *request;
	lk_rent_loader loader;
	lk_rent_batches batches;
	lk_offers *offers;
	lk_rent_rates *rates;
	lk_arena *arena;
	double cheapest_in_time; /* dollars; infinite: none yet */
	bool keeps;              /* something known meets deadline and budget */
	LK_VEC(struct had) had;
	LK_VEC(lk_rent_least) least; /* of every device */
};

/* Knowledge about an offer. Infinite: nothing fits. */
struct known {
	double last_hours, fewer_hours; /* the fastest of the most machines tried, and of fewer */
	double last_gpu_s, fewer_gpu_s; /* the least per sample */
	double last_samples, fewer_samples;
	double cheapest_in_time; /* over all numbers of machines: dollars */
	bool useless;            /* on the most machines it fits, but interruptions leave no time */
	bool open;               /* more machines may change the answer */
	int next;                /* GPUs: the next number to try */
	struct had best;         /* the best that it can be */
};

static double search_price(const struct search *search, const lk_offer *offer) {
	return lk_rent_price(search->request, offer);
}

/* Whether one is no worse than the other in any respect. For trainings without a length, one that
 * trains twice as much for no more dollars is better however long it takes: it meets the
 * deadline. */
static bool beats(const struct had *one, const struct had *other) {
	if (one->cost > other->cost) return false;
	return one->samples >= 2 * other->samples ||
	       (one->samples >= other->samples && one->hours <= other->hours);
}

/* Whether it is late or too expensive: of no interest if something else is neither. */
static bool breaks_limits(const lk_rent_request *request, const struct had *had) {
	return (request->deadline_h > 0 && had->hours > request->deadline_h) ||
	       (request->budget > 0 && had->cost > request->budget);
}

static double network_of(const lk_offer *offer) {
	return offer->network_gbps > 0 ? offer->network_gbps / offer->gpus : 0;
}

/* Whether a known choice is no worse, with a network of at least that rate. */
static bool is_had(const struct search *search, const struct had *wanted, double network) {
	for (size_t i = 0; i < search->had.count; i++)
		if (search->had.at[i].network >= network && beats(&search->had.at[i], wanted)) return true;
	return false;
}

/* Whether it cannot itself change the answer; more of its machines may. */
static bool is_useless(const struct search *search, const struct had *wanted) {
	return (search->keeps && breaks_limits(search->request, wanted)) || is_had(search, wanted, 0);
}

/* Whether the best of a number of machines is beaten by a choice with as fast a network: then more
 * of that beat larger numbers too; not if half the hours are paid like all. */
static bool is_beaten(const struct search *search, const lk_offer *offer, const struct had *best) {
	if (search->request->block) return false;
	double network = network_of(offer);
	return is_had(search, best, network > 0 ? network : 1e-9);
}

static lk_status search_keep(struct search *search, const lk_offer *offer,
                             const lk_rent_choice *choice, lk_error *err) {
	struct had new = {choice->samples, choice->hours, choice->cost, network_of(offer)};
	size_t kept = 0;
	search->keeps |= choice->in_time && choice->in_budget;
	if (is_had(search, &new, new.network)) return LK_OK;
	for (size_t i = 0; i < search->had.count; i++)
		if (new.network < search->had.at[i].network || !beats(&new, &search->had.at[i]))
			search->had.at[kept++] = search->had.at[i];
	search->had.count = kept;
	if (!lk_push(&search->had)) return lk_oom(err);
	*lk_last(&search->had) = new;
	return LK_OK;
}

/* Every device of an offer has one. */
static const lk_rent_least *search_least_of(const struct search *search, const lk_offer *offer) {
	size_t at = 0;
	while (search->least.at[at].device != offer->device) at++;
	LK_ASSERT(at < search->least.count);
	return &search->least.at[at];
}

/* Whether the job has memory to spare on that many GPUs: then more machines make it hardly
 * cheaper. */
static bool has_room(const struct search *search, const lk_offer *offer, int gpus) {
	return gpus * offer->device->memory_bytes >= ROOM * search_least_of(search, offer)->work.bytes;
}

/* The least GPU-seconds per sample on that many GPUs of an offer. */
static double least_gpu_s(const struct search *search, const lk_offer *offer,
                          const struct known *known, int gpus) {
	double least = search_least_of(search, offer)->work.gpu_s;
	if (isinf(least)) least = 0; /* no layout on one GPU is legal: unknown */
	if (isinf(known->last_gpu_s)) return least;
	bool falls =
		known->last_gpu_s < known->fewer_gpu_s && !has_room(search, offer, offer->gpus_searched);
	double gain = falls ? FALLING : STEADY;
	double doublings = log2((double)gpus / offer->gpus_searched);
	return fmax(least, known->last_gpu_s / pow(gain, doublings));
}

/* The choice of a number of GPUs of an offer, given a step's length. */
static struct had had_with(const struct search *search, const lk_offer *offer, int gpus, int batch,
                           double step_s) {
	lk_rent_rate rate = {.fits = true,
	                     .gpus = gpus,
	                     .machines = gpus / offer->gpus,
	                     .batch = batch,
	                     .seq = search_least_of(search, offer)->work.seq,
	                     .step_s = step_s,
	                     .low_s = step_s,
	                     .high_s = step_s,
	                     .stall = "none"};
	lk_rent_choice choice;
	if (!lk_rent_choice_by_hour(search->request, &search->loader, offer, &rate, &choice))
		return (struct had){0, INFINITY, INFINITY, 0};
	return (struct had){choice.samples, choice.hours, choice.cost, 0};
}

/* The best that a number of GPUs of an offer can be. */
static struct had best_of(const struct search *search, const lk_offer *offer,
                          const struct known *known, int gpus) {
	int batch = search->batches.at[0];
	double step_s = least_gpu_s(search, offer, known, gpus) * batch / gpus;
	return had_with(search, offer, gpus, batch, step_s);
}

/* Whether two offers differ only in price: then their rates are the same. */
static bool same_rates(const lk_offer *one, const lk_offer *other) {
	bool both_alone = isnan(one->network_gbps) && isnan(other->network_gbps);
	return one->device == other->device && one->gpus == other->gpus &&
	       strcmp(one->links, other->links) == 0 &&
	       (one->network_gbps == other->network_gbps || both_alone);
}

/* The longest step with which this many GPUs of an offer are not beaten by known choices; 0: no
 * limit. */
static double longest_of_use(const struct search *search, const lk_offer *offer, int gpus,
                             int batch, double shortest_s) {
	double of_use = shortest_s > 0 ? shortest_s : 1e-6, of_none = of_use;
	struct had had;
	do {
		of_none *= 2;
		had = had_with(search, offer, gpus, batch, of_none);
	} while (of_none < 1e9 && !is_useless(search, &had));
	if (of_none >= 1e9) return 0;
	while (of_none > 1.001 * of_use) {
		double between = sqrt(of_use * of_none);
		had = had_with(search, offer, gpus, batch, between);
		*(is_useless(search, &had) ? &of_none : &of_use) = between;
	}
	return of_none;
}

/* The same for all offers with the same rates, for every batch, with a margin: an even longer step
 * also rules out twice as many machines. The first number of machines is computed up to twice as
 * slow, so that its machine has a row. */
static void find_slowest(const struct search *search, const lk_offer *offer,
                         const struct known *known, double *slowest_s) {
	double slack = isinf(known->last_gpu_s) ? 2 : STEADY;
	for (int b = 0; b < search->batches.count; b++) {
		int batch = search->batches.at[b];
		double shortest_s = least_gpu_s(search, offer, known, known->next) * batch / known->next;
		bool limited = true;
		slowest_s[b] = 0;
		for (size_t i = 0; i < search->offers->count && limited; i++) {
			const lk_offer *other = &search->offers->at[i];
			if (!same_rates(offer, other) || isnan(search_price(search, other))) continue;
			double longest_s = longest_of_use(search, other, known->next, batch, shortest_s);
			limited = longest_s > 0;
			slowest_s[b] = fmax(slowest_s[b], slack * longest_s);
		}
		if (!limited) slowest_s[b] = 0;
	}
}

static int search_limit(const lk_rent_request *request) {
	if (request->most_gpus > 0) return request->most_gpus;
	bool ends = request->budget > 0 || (request->deadline_h > 0 && lk_rent_has_length(request));
	return ends ? LK_RENT_GPUS : FIRST_GPUS;
}

/* Whether no layout of the job fits on that many GPUs. */
static bool is_too_small(const struct search *search, const lk_offer *offer, int gpus) {
	return search_least_of(search, offer)->work.bytes > gpus * offer->device->memory_bytes;
}

/* Find the next number of machines, skipping those that are too small, or beaten by something that
 * differs only in a slower network; else the first beyond the limit. */
static void find_next(const struct search *search, const lk_offer *offer, struct known *known) {
	int limit = search_limit(search->request), most = lk_rent_most_machines(search->request);
	if (most < limit / offer->gpus) limit = most * offer->gpus;
	known->next = offer->gpus_searched ? 2 * offer->gpus_searched : offer->gpus;
	known->best = best_of(search, offer, known, known->next);
	while (known->next <= limit && !is_beaten(search, offer, &known->best) &&
	       (is_useless(search, &known->best) || is_too_small(search, offer, known->next))) {
		known->next *= 2;
		known->best = best_of(search, offer, known, known->next);
	}
}

static void note_rate(const lk_rent_choice *choice, bool last, struct known *out) {
	double *hours = last ? &out->last_hours : &out->fewer_hours;
	double *gpu_s = last ? &out->last_gpu_s : &out->fewer_gpu_s;
	double *samples = last ? &out->last_samples : &out->fewer_samples;
	*hours = fmin(*hours, choice->hours);
	*gpu_s = fmin(*gpu_s, choice->step_s * choice->gpus / choice->batch);
	*samples = fmax(*samples, choice->samples);
	if (choice->in_time) out->cheapest_in_time = fmin(out->cheapest_in_time, choice->cost);
}

static lk_status search_look(struct search *search, const lk_offer *offer, struct known *out,
                             lk_error *err) {
	LK_ASSERT(offer->gpus > 0 && offer->gpus_searched % offer->gpus == 0);
	*out = (struct known){.last_hours = INFINITY,
	                      .fewer_hours = INFINITY,
	                      .last_gpu_s = INFINITY,
	                      .fewer_gpu_s = INFINITY,
	                      .cheapest_in_time = INFINITY};
	for (int machines = 1; machines * offer->gpus <= offer->gpus_searched; machines *= 2) {
		const char *cluster = lk_offer_cluster(offer, machines, search->arena);
		bool last = 2 * machines * offer->gpus > offer->gpus_searched;
		const lk_rent_rate *rate;
		if (!cluster) return lk_oom(err);
		for (size_t from = 0; (rate = lk_rent_rates_next(search->rates, cluster, &from));) {
			lk_rent_choice choice;
			lk_rent_rate at_best = *rate;
			if (rate->slower && !last) continue; /* how much slower is unknown */
			if (rate->slower) {                  /* it takes longer than that */
				at_best.fits = true;
				at_best.step_s = at_best.low_s = at_best.high_s = rate->slowest_s;
				at_best.seq = search_least_of(search, offer)->work.seq;
				at_best.stall = "none";
			}
			if (last) out->useless |= rate->fits && lk_rent_goodput(search->request, rate) <= 0;
			if (!lk_rent_choice_of(search->request, &search->loader, offer, &at_best, &choice))
				continue;
			if (rate->fits) LK_TRY(search_keep(search, offer, &choice, err));
			note_rate(&choice, last, out);
		}
	}
	return LK_OK;
}

/* Whether the same machine, with as fast a network, is offered for less. */
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

/* Why more machines of an offer cannot change the answer; NULL if they can. */
static const char *search_end(const struct search *search, const lk_offer *offer,
                              const struct known *known) {
	const lk_rent_request *request = search->request;
	bool none_fits = isinf(known->last_hours) && isinf(known->fewer_hours);
	if (isnan(search_price(search, offer))) return "no price";
	if (isnan(offer->network_gbps) && known->next > offer->gpus) {
		if (offer->gpus_searched) return "network not stated";
		return is_too_small(search, offer, offer->gpus) ? "does not fit" : "beaten";
	}
	if (known->useless) return "interruptions"; /* more machines have more interruptions */
	if (is_beaten(search, offer, &known->best)) return "beaten";
	if (known->next / offer->gpus > lk_rent_most_machines(request)) return "block";
	if (none_fits && offer->gpus_searched >= MEMORY_GPUS) return "never fits";
	if (!none_fits && isinf(known->last_hours)) return "does not fit";
	if (!lk_rent_has_length(request) && offer->gpus_searched && !(known->best.samples > 0))
		return "budget";
	if (none_fits && known->next == offer->gpus) return NULL;
	if (!none_fits && has_better_twin(search, offer)) return "beaten";
	if (!lk_rent_has_length(request))
		return none_fits || known->last_samples > known->fewer_samples ? NULL : "buys less";
	if (request->budget > 0 && known->best.cost <= request->budget) return NULL;
	if (request->deadline_h > 0 && known->best.cost < search->cheapest_in_time) return NULL;
	if (request->budget > 0) return "budget";
	return request->deadline_h > 0 ? "deadline" : NULL;
}

/* Whether another offer's next number of machines would beat this one's, each at its best: of equal
 * ones the first. */
static bool search_waits(const struct search *search, const struct known *known, size_t at) {
	for (size_t i = 0; i < search->offers->count; i++)
		if (i != at && known[i].open && beats(&known[i].best, &known[at].best) &&
		    (i < at || !beats(&known[at].best, &known[i].best)))
			return true;
	return false;
}

/* Add one machine of every offer, then twice as many while that can change the answer. *more: some
 * were added, though perhaps only with known rates. */
static lk_status add_more(struct search *search, bool *more, lk_error *err) {
	size_t count = search->offers->count;
	struct known *known = LK_ARRAY(search->arena, struct known, count + 1);
	*more = false;
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
		find_next(search, offer, &known[i]);
		offer->search_end = search_end(search, offer, &known[i]);
		offer->unfinished = !offer->search_end && known[i].next > search_limit(search->request);
		if (offer->unfinished) offer->search_end = "limit";
		known[i].open = !offer->search_end;
	}
	for (size_t i = 0; i < count; i++) {
		lk_offer *offer = &search->offers->at[i];
		if (!known[i].open || search_waits(search, known, i)) continue;
		double slowest_s[LK_RENT_BATCHES];
		find_slowest(search, offer, &known[i], slowest_s);
		LK_TRY(lk_rent_rates_add(offer, known[i].next / offer->gpus, &search->batches, slowest_s,
		                         search->arena, search->rates, err));
		offer->gpus_searched = known[i].next;
		*more = true;
	}
	return LK_OK;
}

/* ---- the least work ---- */

static lk_status search_add_device(struct search *search, const lk_device *device, lk_error *err) {
	for (size_t i = 0; i < search->least.count; i++)
		if (search->least.at[i].device == device) return LK_OK;
	if (!lk_push(&search->least)) return lk_oom(err);
	*lk_last(&search->least) = (lk_rent_least){.device = device};
	return LK_OK;
}

static lk_status search_find_least(struct search *search, lk_error *err) {
	for (size_t i = 0; i < search->offers->count; i++)
		if (search->offers->at[i].device)
			LK_TRY(search_add_device(search, search->offers->at[i].device, err));
	int batch = 0;
	for (int i = 0; i < search->batches.count; i++)
		batch = search->batches.at[i] > batch ? search->batches.at[i] : batch;
	return lk_rent_least_find(search->request, batch, search->least.at, search->least.count, err);
}

/* Whether a rate of this many machines of an offer is late. */
static lk_status is_late(const struct search *search, const lk_offer *offer, int machines,
                         bool *out, lk_error *err) {
	const char *cluster = lk_offer_cluster(offer, machines, search->arena);
	const lk_rent_rate *rate;
	*out = false;
	if (!cluster) return lk_oom(err);
	for (size_t from = 0; (rate = lk_rent_rates_next(search->rates, cluster, &from));)
		*out |= rate->late;
	return LK_OK;
}

/* Out of time: more of every machine still being searched may change the answer. */
static lk_status search_stop(struct search *search, lk_error *err) {
	for (size_t i = 0; i < search->offers->count; i++) {
		lk_offer *offer = &search->offers->at[i];
		if (!offer->device || offer->search_end) continue;
		offer->search_end = "time";
		offer->unfinished = true;
		for (bool late = true; late && offer->gpus_searched > 0;) {
			LK_TRY(is_late(search, offer, offer->gpus_searched / offer->gpus, &late, err));
			if (!late) break;
			bool first = offer->gpus_searched == offer->gpus;
			offer->gpus_searched = first ? 0 : offer->gpus_searched / 2;
		}
	}
	return LK_OK;
}

lk_status lk_rent_search(const lk_rent_request *request, lk_offers *offers, lk_arena *arena,
                         lk_rent_rates *rates, const char **cut_off, lk_error *err) {
	const lk_cutoff cutoff = lk_cutoff_after(request->search_s);
	struct search search = {.request = request, .offers = offers, .rates = rates, .arena = arena};
	LK_TRY(lk_rent_loader_of(request, &search.loader, err));
	LK_TRY(lk_rent_batches_read(request->batches, &search.batches, err));
	lk_status status = search_find_least(&search, err);
	size_t answered = 0;
	for (bool more = true; status == LK_OK && more;) {
		status = add_more(&search, &more, err);
		if (status == LK_OK && answered < rates->count)
			status = lk_rent_rates_answer(request, answered, &cutoff, arena, rates, err);
		answered = rates->count;
		if (status == LK_OK && more && (*cut_off = lk_cutoff_reached(&cutoff))) {
			status = search_stop(&search, err);
			break;
		}
	}
	lk_vec_free(&search.had);
	lk_vec_free(&search.least);
	return status;
}

/* ---- in words ---- */

lk_status lk_rent_search_describe(const lk_rent_request *request, const lk_offers *offers,
                                  lk_arena *arena, lk_rent *out, lk_error *err) {
	int unfinished = 0, most = 0, hopeless = 0, in_time = 0, late = 0;
	char never[100] = "", count[32];
	const char *why;
	for (size_t i = 0; i < offers->count; i++) {
		const char *end = offers->at[i].search_end;
		unfinished += offers->at[i].unfinished;
		hopeless += end && strcmp(end, "never fits") == 0;
		in_time += end && strcmp(end, "deadline") == 0;
		late += end && strcmp(end, "time") == 0;
		if (offers->at[i].gpus_searched > most) most = offers->at[i].gpus_searched;
	}
	out->gpus_searched = most;
	out->search_complete = unfinished == 0 && in_time == 0;
	if (out->search_complete) why = "larger numbers cannot change the answer";
	else if (late > 0)
		why = out->cut_off && strcmp(out->cut_off, "time") == 0
		          ? "--search-time ended the search; larger numbers may be better"
		          : "the search was interrupted; larger numbers may be better";
	else if (unfinished == 0)
		why = "larger numbers cannot be cheaper within the deadline, but may be faster (--budget)";
	else if (request->most_gpus > 0)
		why = lk_rent_has_length(request)
		          ? "--most-gpus ended the search; larger numbers may be "
		            "faster, or cheaper within the deadline"
		          : "--most-gpus ended the search; larger numbers may train more";
	else if (!lk_rent_has_length(request))
		why = "larger numbers train more: --most-gpus or --budget says how far to search";
	else if (most > FIRST_GPUS) why = "the search ends there; larger numbers may be faster";
	else
		why = "larger numbers may be faster: --most-gpus, --budget or --deadline says how far to "
			  "search";
	if (hopeless)
		snprintf(never, sizeof never, "; on %d %s the job fits on no number up to %d GPUs",
		         hopeless, lk_noun(hopeless, "machine", "machines"), MEMORY_GPUS);
	out->searched = lk_arena_printf(arena, "1, 2, 4, ... of every machine, up to %s %s; %s%s",
	                                lk_format_thousands(most, count, sizeof count),
	                                lk_noun(most, "GPU", "GPUs"), why, never);
	return out->searched ? LK_OK : lk_oom(err);
}
