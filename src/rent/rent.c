/* rent.c: `lockstep rent`: machines, the job's speed on them, and its cost. */
#include <math.h>
#include <stdlib.h>

#include "cost/calibration/calibration.h"
#include "base/check.h"
#include "base/arena.h"
#include "base/noun.h"
#include "options/command.h"
#include "predict/predict.h"
#include "rent/rent.h"
#include "step/step.h"

struct answer {
	lk_arena arena; /* first: lk_arena_free_owner */
	lk_rent public;
};

static lk_status rent_check(const lk_rent_request *request, lk_error *err) {
	if (!request->job.model)
		return lk_fail(err, LK_ERR_INPUT, "--model", "is required: the network to train");
	if (request->tokens > 0 && request->samples > 0) {
		lk_fail(err, LK_ERR_INPUT, "rent", "tokens and samples were both given");
		return lk_hint(err, "give --tokens, or --samples (and --epochs)");
	}
	if (!lk_rent_has_length(request) && !(request->budget > 0 || request->deadline_h > 0)) {
		lk_fail(err, LK_ERR_INPUT, "rent", "the length of the training is not given");
		return lk_hint(err, "give --tokens, or --samples (and --epochs); or --budget, --deadline "
		                    "or both, for the most that they buy");
	}
	if (request->epochs > 0 && !(request->samples > 0))
		return lk_fail(err, LK_ERR_INPUT, "--epochs",
		               "are passes over --samples, which are not given");
	LK_TRY(lk_run_ready(err));
	bool checkpoints = request->job.checkpoint_minutes > 0,
		 writes = request->job.checkpoint_write_gbps > 0;
	if ((checkpoints || writes) && !request->spot && !(request->mtbf_h > 0)) {
		lk_fail(err, LK_ERR_INPUT, checkpoints ? "--checkpoint" : "--checkpoint-write",
		        "nothing fails or is taken away, so that no checkpoint is counted");
		return lk_hint(err, "add --mtbf or --spot");
	}
	if (request->spot && request->block) {
		lk_fail(err, LK_ERR_INPUT, "rent", "--spot and --block are mutually exclusive");
		return lk_hint(err, "give one of them");
	}
	if (request->spot && request->interruptions < 0)
		return lk_fail(err, LK_ERR_INPUT, "--interruptions", "is below zero");
	bool recommends;
	LK_TRY(lk_predict_is_dlrm(&request->job, &recommends, err));
	if (recommends) {
		lk_fail(err, LK_ERR_INPUT, "--model",
		        "%.100s is a recommendation model: its tables have "
		        "no layout that rent searches",
		        request->job.model);
		return lk_hint(err, "use `lockstep shard` and `lockstep predict` on each machine");
	}
	/* reported here once, instead of for every machine */
	return lk_predict_check(&request->job, err);
}

/* Refuse a price of power for rented machines: it is included in the rent. */
static lk_status check_price_of_power(const lk_rent_request *request, const lk_offers *offers,
                                      lk_error *err) {
	for (size_t i = 0; i < offers->count; i++)
		if (offers->at[i].power_usd > 0) return LK_OK;
	if (!(request->job.mains.price_kwh > 0)) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--price-kwh",
	        "it has no effect: every machine is rented, with its power");
	return lk_hint(err, "leave it out, or give machines of your own with --prices");
}

/* ---- notes: the basis of the numbers ---- */

typedef LK_VEC(const char *) notes;

static lk_status rent_add(notes *n, const char *text, lk_error *err) {
	if (!text || !lk_push(n)) return lk_oom(err);
	*lk_last(n) = text;
	return LK_OK;
}

static lk_status note_prices(const lk_rent_request *request, const lk_offer_faults *faults,
                             lk_arena *arena, notes *n, lk_error *err) {
	LK_TRY(rent_add(n,
	                lk_arena_printf(arena, "prices are list prices in US dollars, of the date with "
	                                       "them; storage, traffic and taxes "
	                                       "are not in them"),
	                err));
	if (faults->count)
		LK_TRY(rent_add(
			n,
			lk_arena_printf(
				arena,
				"%zu offers were left out whose prices cannot be (lockstep machines -v): %s: %s",
				faults->count, faults->at[0].where, faults->at[0].why),
			err));
	if (request->mtbf_h > 0)
		LK_TRY(rent_add(n,
		                lk_arena_printf(arena,
		                                "a machine fails every %g %s (--mtbf): what is expected of "
		                                "failures is in hours and dollars, their scatter in ranges "
		                                "and chances; another machine is taken to be ready",
		                                request->mtbf_h, lk_noun(request->mtbf_h, "hour", "hours")),
		                err));
	if (request->block)
		return rent_add(n,
		                lk_arena_printf(arena,
		                                "blocks (--block) are paid ahead for whole days, beyond 14 "
		                                "days for whole weeks, at most 182 days at a time and 64 "
		                                "machines; whether they can be had is not known"),
		                err);
	if (!request->spot) return LK_OK;
	return rent_add(
		n,
		lk_arena_printf(arena,
	                    "spot machines are taken away %g times an hour each (--interruptions); a "
	                    "restart loses ten minutes and half of a checkpoint interval, a checkpoint "
	                    "is written at %g GB/s a machine (--checkpoint-write); whether "
	                    "enough of them are available is not known",
	                    request->interruptions,
	                    request->job.checkpoint_write_gbps > 0 ? request->job.checkpoint_write_gbps
	                                                           : LK_CHECKPOINT_WRITE),
		err);
}

static lk_status note_method(const lk_rent_request *request, const lk_offers *offers,
                             lk_arena *arena, notes *n, lk_error *err) {
	size_t alone = 0, unknown = 0;
	for (size_t i = 0; i < offers->count; i++) {
		alone += offers->at[i].device && !(offers->at[i].network_gbps > 0);
		unknown += !offers->at[i].device;
	}
	if (alone)
		LK_TRY(rent_add(
			n,
			lk_arena_printf(
				arena,
				"%zu of the machines do not state their network: they are not joined with others",
				alone),
			err));
	if (unknown)
		LK_TRY(rent_add(
			n,
			lk_arena_printf(arena, "%zu %s GPUs that are not in the catalogue, and are left out",
		                    unknown, lk_noun(unknown, "machine has", "machines have")),
			err));
	LK_TRY(rent_add(
		n,
		lk_arena_printf(
			arena, "layouts are those that `lockstep plan` finds; %g %s of setting up are paid for",
			request->setup_min, lk_noun(request->setup_min, "minute", "minutes")),
		err));
	if (request->prepare_per_core > 0) return LK_OK;
	if (request->stalls)
		return rent_add(
			n,
			lk_arena_printf(
				arena, "preparation goes with vCPUs and fetching with machines at the rates of %s",
				request->stalls),
			err);
	return rent_add(n,
	                lk_arena_printf(arena,
	                                "samples are taken to be ready in time (--prepare-per-core "
	                                "says how fast they are prepared)"),
	                err);
}

/* Note the assumptions of some machine's plan; others may not have all of them. */
static lk_status note_assumed(const lk_rent_rates *rates, lk_arena *arena, notes *n,
                              lk_error *err) {
	for (size_t i = 0; i < rates->count; i++)
		if (rates->at[i].fits && rates->at[i].assumed)
			return rent_add(
				n,
				lk_arena_printf(arena, "assumed, as nothing states it: %s", rates->at[i].assumed),
				err);
	return LK_OK;
}

static lk_status take_notes(const lk_rent_request *request, const lk_offers *offers,
                            const lk_offer_faults *faults, const lk_rent_rates *rates,
                            const char *batch, const char *useless, lk_arena *arena, lk_rent *out,
                            lk_error *err) {
	notes n = {0};
	const char *scaled = lk_scaling_note(arena);
	lk_status status = scaled ? LK_OK : lk_oom(err);
	if (status == LK_OK && *scaled) status = rent_add(&n, scaled, err);
	if (status == LK_OK && useless) status = rent_add(&n, useless, err);
	if (status == LK_OK && batch) status = rent_add(&n, batch, err);
	if (status == LK_OK) status = note_assumed(rates, arena, &n, err);
	if (status == LK_OK) status = note_prices(request, faults, arena, &n, err);
	if (status == LK_OK) status = note_method(request, offers, arena, &n, err);
	const char **kept = LK_ARRAY(arena, const char *, n.count + 1);
	if (status == LK_OK && !kept) status = lk_oom(err);
	for (size_t i = 0; status == LK_OK && i < n.count; i++) kept[out->note_count++] = n.at[i];
	out->notes = kept;
	lk_vec_free(&n);
	return status;
}

/* ---- the whole answer ---- */

/* Use the batch that `plan` assumes if none is given: *out has it and *note the reason. */
static lk_status rent_take_batch(const lk_rent_request *request, lk_arena *arena,
                                 lk_rent_request *out, const char **note, lk_error *err) {
	int batch;
	*out = *request;
	*note = NULL;
	if (request->batches) return LK_OK;
	LK_TRY(lk_request_assume_batch(arena, &request->job, &batch, note, err));
	if (batch == 0) return LK_OK;
	*note = lk_arena_printf(arena, "assumed, as nothing states it: %s", *note);
	out->batches = lk_arena_printf(arena, "%d", batch);
	return *note && out->batches ? LK_OK : lk_oom(err);
}

static lk_status rent_make(const lk_rent_request *asked, lk_arena *arena, lk_offers *offers,
                           lk_offer_faults *faults, lk_rent_rates *rates, lk_rent *out,
                           lk_error *err) {
	const char *useless, *batch;
	lk_rent_request taken;
	const lk_rent_request *request = &taken;
	if (asked->map) return lk_rent_map(asked, arena, out, err);
	LK_TRY(rent_check(asked, err));
	LK_TRY(rent_take_batch(asked, arena, &taken, &batch, err));
	LK_TRY(lk_rent_offers(&request->machines, &request->job.mains, arena, offers, faults, err));
	LK_TRY(check_price_of_power(request, offers, err));
	LK_TRY(lk_rent_search(request, offers, arena, rates, &out->cut_off, err));
	LK_TRY(lk_rent_choose(request, offers, rates, arena, out, &useless, err));
	LK_TRY(lk_rent_search_describe(request, offers, arena, out, err));
	for (size_t i = 0; i < rates->count && !out->failed_check; i++)
		out->failed_check = rates->at[i].failed_check;
	for (size_t i = 0; i < rates->count && !out->model; i++)
		if (rates->at[i].fits) {
			out->model = rates->at[i].model;
			out->unit = rates->at[i].unit;
			out->seq = rates->at[i].seq;
			out->warning = rates->at[i].warning;
		}
	out->deadline_h = request->deadline_h;
	out->budget = request->budget;
	return take_notes(request, offers, faults, rates, batch, useless, arena, out, err);
}

static const char *rent_reproduce(lk_arena *arena, const lk_rent_request *request) {
	lk_rent_request usual;
	lk_rent_defaults(&usual);
	return lk_command(arena,
	                  &(lk_question){.verb = &lk_rent_verb, .request = request, .usual = &usual});
}

/* ---- invariants of every answer ----
 *
 * An answer that contradicts itself is a defect of lockstep and is not printed. */

static bool is_inside(double low, double value, double high) {
	return isnan(value) || (isfinite(value) && value >= 0 && !(low > value) && !(high < value));
}

static const char *rent_check_choice(const lk_rent_choice *choice) {
	LK_HOLDS(isfinite(choice->step_s) && choice->step_s > 0);
	LK_HOLDS(is_inside(choice->step_low_s, choice->step_s, choice->step_high_s));
	LK_HOLDS(is_inside(choice->hours_low, choice->hours, choice->hours_high));
	LK_HOLDS(is_inside(choice->cost_low, choice->cost, choice->cost_high));
	LK_HOLDS(is_inside(choice->samples_low, choice->samples, choice->samples_high));
	LK_HOLDS(choice->gpus == choice->machines * choice->gpus_each);
	LK_HOLDS(choice->stall_share >= 0 && choice->stall_share <= 1 + 1e-9);
	LK_HOLDS(choice->goodput >= 0 && choice->goodput <= 1);
	LK_HOLDS(isnan(choice->chance) || (choice->chance >= 0 && choice->chance <= 1));
	return NULL;
}

/* Indices that views follow. */
static lk_status rent_check_places(const lk_rent *rent, lk_error *err) {
	LK_CHECK(rent->most < rent->count || rent->function_count, err);
	for (int i = 0; i < rent->tie_count; i++)
		LK_CHECK(rent->ties[i] >= 0 && rent->ties[i] < rent->count, err);
	return LK_OK;
}

/* The cheapest is the cheapest of all that meet deadline and budget, if it meets them. */
static const char *rent_check_answer(const lk_rent *rent) {
	LK_HOLDS_ALL(rent->failed_check); /* of an underlying plan */
	LK_HOLDS(rent->within_limits <= rent->considered);
	const lk_rent_choice *cheapest =
		rent->function_count || rent->cheapest < 0 ? NULL : &rent->choices[rent->cheapest];
	const lk_rent_choice *fastest =
		rent->function_count || rent->fastest < 0 ? NULL : &rent->choices[rent->fastest];
	for (int i = 0; i < rent->count; i++) {
		const lk_rent_choice *choice = &rent->choices[i];
		LK_HOLDS_ALL(rent_check_choice(choice));
		/* by cost, if a length was given */
		LK_HOLDS(i == 0 || isnan(rent->samples) || !(choice->cost < choice[-1].cost));
		if (!choice->in_time || !choice->in_budget) continue;
		LK_HOLDS(!cheapest || choice->cost >= cheapest->cost);
		LK_HOLDS(!fastest || choice->hours >= fastest->hours);
	}
	for (int i = 0; i < rent->function_count; i++) {
		const lk_rent_function *function = &rent->functions[i];
		LK_HOLDS(isfinite(function->seconds) && function->seconds >= 0);
		LK_HOLDS(isfinite(function->cost) && function->cost >= 0);
	}
	return NULL;
}

lk_status lk_rent_find(const lk_rent_request *request, lk_rent **out, lk_error *err) {
	lk_offers offers = {0};
	lk_offer_faults faults = {0};
	lk_rent_rates rates = {0};
	struct answer *answer = calloc(1, sizeof *answer);
	*out = NULL;
	if (!answer) return lk_oom(err);
	answer->public.memory_owner = answer;
	lk_calibration_hold calibration;
	lk_status status = lk_calibration_begin(&calibration, request->job.calibration, err);
	if (status == LK_OK) {
		status = rent_make(request, &answer->arena, &offers, &faults, &rates, &answer->public, err);
		lk_calibration_end(&calibration);
	}
	if (status == LK_OK)
		status = lk_inputs_find(&answer->arena, &lk_rent_verb, request, NULL, 0,
		                        &answer->public.inputs, err);
	if (status == LK_OK && !(answer->public.reproduce = rent_reproduce(&answer->arena, request)))
		status = lk_oom(err);
	if (status == LK_OK) status = rent_check_places(&answer->public, err);
	if (status == LK_OK)
		answer->public.failed_check = lk_failed_check(rent_check_answer(&answer->public));
	lk_vec_free(&offers);
	lk_vec_free(&faults);
	lk_vec_free(&rates);
	if (status == LK_OK) *out = &answer->public;
	else lk_rent_free(&answer->public);
	return status;
}

void lk_rent_free(lk_rent *rent) {
	if (rent) lk_arena_free_owner(rent->memory_owner);
}
