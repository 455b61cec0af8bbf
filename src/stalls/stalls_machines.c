/* stalls_machines.c: stalls of networks on machines that can be rented, predicted, as Stash (ICDCS
 * 2023) measured them. Data-parallel training with as many samples on each GPU everywhere:
 *
 *     one     the step on one GPU of the machine
 *     all     on all of its GPUs:               interconnect stall = 1 - one / all, of that step
 *     joined  on several by the network:        network stall = joined / all - 1
 *
 * They are as many of the machine as its name says, "8 * p3.16xlarge"; else two, that have together
 * the GPUs of one where the list has a machine half as large, else two of the same. With equal work
 * on each GPU the stall is the network's too. */
#include <math.h>
#include <string.h>

#include "lockstep/predict.h"
#include "rent/rent.h"
#include "stalls/stalls.h"
#include "base/text.h"

typedef LK_VEC(lk_stalls_machine_row) lk_stalls_machine_rows;

/* A list's word at a place, and the place after it; NULL at the end. */
static const char *next_word(lk_arena *arena, const char **at) {
	if (!*at || !**at) return NULL;
	size_t length = strcspn(*at, ",");
	const char *word = lk_arena_strndup(arena, *at, length);
	*at += length;
	*at += **at == ',';
	return word;
}

/* The step on a cluster; NAN where the job does not fit, with the reason in *note. */
static lk_status step_on(const lk_stalls_request *request, const char *model, const char *cluster,
                         int gpus, lk_arena *arena, lk_stalls_machine_row *row, double *step_s,
                         lk_error *err) {
	lk_predict_request job;
	lk_predict_defaults(&job);
	job.model = model;
	job.cluster = cluster;
	job.gpus = gpus;
	job.mbs = request->mbs;
	job.gbs = request->mbs * gpus;
	job.seq = request->seq;
	job.dtype = request->dtype;
	job.stack = "ddp";
	if (gpus > 1) job.bucket_mib = request->bucket_mib;
	lk_prediction *answer;
	LK_TRY(lk_predict(&job, &answer, err));
	row->gradient_bytes = answer->memory_count ? answer->memory[0].gradients : NAN;
	*step_s = answer->fits ? answer->step_time_s : NAN;
	if (!answer->fits && !*row->note)
		row->note = lk_arena_printf(arena, "%d samples a GPU do not fit", request->mbs);
	lk_predict_free(answer);
	return row->note ? LK_OK : lk_oom(err);
}

/* The machine of the same GPUs that has half as many, cheapest first; else the machine itself. */
static const lk_offer *half_of(const lk_offer *whole, const lk_offers *all) {
	for (size_t i = 0; i < all->count; i++) {
		const lk_offer *half = &all->at[i];
		if (2 * half->gpus == whole->gpus && half->device == whole->device &&
		    strcmp(half->provider, whole->provider) == 0 && !isnan(half->network_gbps))
			return half;
	}
	return whole;
}

/* None is negative; NAN where a step is not known. */
static double stall_of(double share) {
	return share < 0 ? 0 : share;
}

/* Take the number of machines off "8 * p3.16xlarge"; 0: none is stated. */
static lk_status read_count(const char **name, int *machines, lk_error *err) {
	const char *star = strchr(*name, '*');
	*machines = 0;
	if (!star) return LK_OK;
	const char *end;
	double count = lk_read_real(*name, &end);
	if (end + strspn(end, " ") != star ||
	    !(count >= 2 && count <= 65536 && count == floor(count))) {
		char shown[64];
		lk_fail(err, LK_ERR_INPUT, "--machine", "\"%s\" is not a number of machines from 2 on",
		        lk_escape(*name, shown, sizeof shown));
		return lk_hint(err, "write it as a cluster's: '8 * p3.16xlarge'");
	}
	*machines = (int)count;
	*name = star + 1 + strspn(star + 1, " ");
	return LK_OK;
}

static lk_status predict_row(const lk_stalls_request *request, const lk_offer *offer, int machines,
                             const lk_offers *all, lk_arena *arena, lk_stalls_machine_row *row,
                             lk_error *err) {
	const lk_offer *half = machines ? offer : half_of(offer, all);
	int joined = machines ? machines : 2;
	const char *one = lk_offer_cluster(offer, 1, arena),
			   *several = lk_offer_cluster(half, joined, arena);
	row->machine = *offer->instance ? offer->instance : offer->gpu;
	row->gpus = offer->gpus;
	row->note = isnan(half->network_gbps) ? "the list does not state its network" : "";
	row->joined =
		lk_arena_printf(arena, "%d x %s", joined, *half->instance ? half->instance : half->gpu);
	if (!one || !several || !row->joined) return lk_oom(err);
	LK_TRY(step_on(request, row->model, one, 1, arena, row, &row->one_s, err));
	row->all_s = row->one_s;
	if (offer->gpus > 1)
		LK_TRY(step_on(request, row->model, one, offer->gpus, arena, row, &row->all_s, err));
	row->joined_s = NAN;
	if (!isnan(half->network_gbps))
		LK_TRY(step_on(request, row->model, several, joined * half->gpus, arena, row,
		               &row->joined_s, err));
	row->interconnect = offer->gpus > 1 ? stall_of(1 - row->one_s / row->all_s) : NAN;
	row->network = stall_of(row->joined_s / row->all_s - 1);
	row->epoch_s = row->epoch_usd = NAN;
	if (request->samples > 0) {
		row->epoch_s = row->all_s * ceil(request->samples / request->mbs / offer->gpus);
		row->epoch_usd = row->epoch_s / 3600 * offer->on_demand;
	}
	return LK_OK;
}

/* Offers that differ only in region or date are one machine: the cheapest. */
static bool is_cheapest(const lk_offers *offers, size_t which) {
	const lk_offer *offer = &offers->at[which];
	if (!offer->device || isnan(offer->on_demand)) return false;
	for (size_t i = 0; i < offers->count; i++) {
		const lk_offer *other = &offers->at[i];
		if (i != which && strcmp(other->instance, offer->instance) == 0 &&
		    strcmp(other->provider, offer->provider) == 0 && other->gpus == offer->gpus &&
		    other->device == offer->device &&
		    (other->on_demand < offer->on_demand ||
		     (other->on_demand == offer->on_demand && i < which)))
			return false;
	}
	return true;
}

/* The rows of a network on the machines that a name of the request's list means. */
static lk_status add_rows(lk_stalls_work *work, const char *model, const char *name,
                          const lk_offers *all, lk_stalls_machine_rows *rows) {
	lk_offers offers = {0};
	lk_offer_faults faults = {0};
	lk_machines_request list = {0};
	int machines;
	LK_TRY(read_count(&name, &machines, work->err));
	if (!*name) return lk_fail(work->err, LK_ERR_INPUT, "--machine", "a name in the list is empty");
	list.filter = name;
	lk_status status =
		lk_rent_offers(&list, &(lk_mains){0}, &work->arena, &offers, &faults, work->err);
	for (size_t i = 0; status == LK_OK && i < offers.count; i++) {
		if (!is_cheapest(&offers, i)) continue;
		status = lk_push(rows) ? LK_OK : lk_oom(work->err);
		if (status != LK_OK) break;
		*lk_last(rows) = (lk_stalls_machine_row){.model = model};
		status = predict_row(work->request, &offers.at[i], machines, all, &work->arena,
		                     lk_last(rows), work->err);
	}
	lk_vec_free(&offers);
	lk_vec_free(&faults);
	return status;
}

lk_status lk_stalls_machines(lk_stalls_work *work) {
	lk_offers all = {0};
	lk_offer_faults faults = {0};
	lk_stalls_machine_rows rows = {0};
	const char *models = work->request->models, *model, *name;
	lk_status status = lk_rent_offers(&(lk_machines_request){0}, &(lk_mains){0}, &work->arena, &all,
	                                  &faults, work->err);
	while (status == LK_OK && (model = next_word(&work->arena, &models))) {
		const char *names = work->request->machines;
		while (status == LK_OK && (name = next_word(&work->arena, &names)))
			status = add_rows(work, model, name, &all, &rows);
	}
	if (status == LK_OK) {
		lk_stalls_machine_row *kept =
			LK_ARRAY(&work->arena, lk_stalls_machine_row, rows.count ? rows.count : 1);
		if (!kept) status = lk_oom(work->err);
		else memcpy(kept, rows.at, rows.count * sizeof *kept);
		work->result.machines = kept;
		work->result.machine_count = (int)rows.count;
	}
	lk_vec_free(&rows);
	lk_vec_free(&all);
	lk_vec_free(&faults);
	return status;
}
