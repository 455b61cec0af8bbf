/* rent_rates.c: a job's speed on a number of machines of a kind: the fastest layout that fits, from
 * `plan`. Offers that differ only in price are one kind. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "system/parallel.h"
#include "base/text.h"
#include "predict/predict.h"
#include "rent/rent.h"

/* ---- questions ---- */

static bool rates_is_known(const lk_rent_rates *rates, const char *cluster, int batch) {
	for (size_t i = 0; i < rates->count; i++)
		if (rates->at[i].batch == batch && strcmp(rates->at[i].cluster, cluster) == 0) return true;
	return false;
}

lk_status lk_rent_rates_add(const lk_offer *offer, int machines, const lk_rent_batches *batches,
                            const double *slowest_s, lk_arena *arena, lk_rent_rates *out,
                            lk_error *err) {
	const char *cluster = lk_offer_cluster(offer, machines, arena);
	if (!cluster) return lk_oom(err);
	for (int b = 0; b < batches->count; b++) {
		if (rates_is_known(out, cluster, batches->at[b])) continue;
		if (!lk_push(out)) return lk_oom(err);
		*lk_last(out) = (lk_rent_rate){.cluster = cluster,
		                               .device = offer->device,
		                               .gpus = machines * offer->gpus,
		                               .machines = machines,
		                               .batch = batches->at[b],
		                               .slowest_s = slowest_s ? slowest_s[b] : 0};
	}
	return LK_OK;
}

lk_status lk_rent_batches_read(const char *text, lk_rent_batches *out, lk_error *err) {
	*out = (lk_rent_batches){0};
	if (!text) {
		lk_fail(err, LK_ERR_INPUT, "--gbs", "is needed: samples of a step, over all GPUs");
		return lk_hint(err, "a list (256,512) is tried through");
	}
	for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		char one[32];
		long long batch;
		size_t length = strcspn(at, ",");
		if (out->count == LK_RENT_BATCHES)
			return lk_fail(err, LK_ERR_INPUT, "--gbs", "more than %d batches", LK_RENT_BATCHES);
		snprintf(one, sizeof one, "%.*s", (int)(length < 31 ? length : 31), at);
		LK_TRY(lk_parse_whole(one, 1, 1 << 28, &batch, "--gbs", err));
		out->at[out->count++] = (int)batch;
	}
	return LK_OK;
}

const lk_rent_rate *lk_rent_rates_next(const lk_rent_rates *rates, const char *cluster,
                                       size_t *from) {
	for (size_t i = *from; i < rates->count; i++)
		if (strcmp(rates->at[i].cluster, cluster) == 0) return *from = i + 1, &rates->at[i];
	return NULL;
}

/* ---- the answer ---- */

/* Kinds of stalls, by parts of the step. With several machines, data-parallel and other traffic is
 * the network's. */
static const struct {
	const char *part, *alone, *several;
} kinds[] = {
	{"tp", "interconnect", "interconnect"},
	{"cp", "interconnect", "network"},
	{"ep", "interconnect", "network"},
	{"dp", "interconnect", "network"},
	{"pp", "interconnect", "network"},
	{"bubble", "pipeline", "pipeline"},
	{"wait", "waiting for ranks", "waiting for ranks"},
	{"host", "host", "host"},
	{"copy", "copies", "copies"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const char *rates_kind_of(const char *part, bool several) {
	for (int i = 0; i < KINDS; i++)
		if (strcmp(kinds[i].part, part) == 0) return several ? kinds[i].several : kinds[i].alone;
	return NULL;
}

static void find_stall(const lk_plan_choice *choice, bool several, lk_rent_rate *out) {
	out->stall = "none";
	out->stall_s = 0;
	for (int i = 0; i < choice->breakdown_count; i++) {
		const char *kind = rates_kind_of(choice->breakdown[i].key, several);
		double sum = 0;
		for (int k = 0; kind && k < choice->breakdown_count; k++) {
			const char *other = rates_kind_of(choice->breakdown[k].key, several);
			if (other && strcmp(other, kind) == 0) sum += choice->breakdown[k].exposed_s;
		}
		if (kind && sum > out->stall_s) {
			out->stall = kind;
			out->stall_s = sum;
		}
	}
}

struct asking {
	const lk_rent_request *request;
	lk_rent_rates *rates;
	lk_arena *arenas; /* one per question: arenas are not thread-safe */
	const size_t *order;
	const lk_cutoff *cutoff;
};

static lk_status keep_assumed(lk_arena *arena, const lk_plan *plan, lk_rent_rate *rate,
                              lk_error *err) {
	for (int i = 0; i < plan->taken_count; i++) {
		if (rate->assumed)
			rate->assumed = lk_arena_printf(arena, "%s; %s", rate->assumed, plan->notes[i]);
		else rate->assumed = lk_arena_printf(arena, "%s", plan->notes[i]);
		if (!rate->assumed) return lk_oom(err);
	}
	return LK_OK;
}

static lk_status rates_keep(lk_arena *arena, const lk_plan *plan, lk_rent_rate *rate,
                            lk_error *err) {
	const lk_plan_choice *choice = &plan->counts[0].choices[0];
	const lk_job *job = choice->job;
	rate->fits = true;
	rate->step_s = choice->step_time_s;
	rate->low_s = choice->step_time_low_s;
	rate->high_s = choice->step_time_high_s;
	rate->seq = plan->seq ? plan->seq : 1; /* an image counts as one token */
	rate->unit = lk_model_unit(&job->model);
	rate->checkpoint_bytes = lk_checkpoint_bytes(choice->job);
	rate->energy = choice->energy;
	rate->layout = lk_arena_strdup(arena, choice->layout);
	rate->reproduce = lk_arena_strdup(arena, choice->reproduce);
	rate->model = lk_arena_strdup(arena, plan->model);
	rate->failed_check = plan->failed_check;
	rate->warning = plan->warning ? lk_arena_strdup(arena, plan->warning) : NULL;
	if (plan->warning && !rate->warning) return lk_oom(err);
	LK_TRY(keep_assumed(arena, plan, rate, err));
	find_stall(choice, rate->machines > 1, rate);
	return rate->layout && rate->reproduce && rate->model ? LK_OK : lk_oom(err);
}

/* The layout that `predict` uses by default. */
static lk_plan_request rates_plan_of(const lk_rent_request *rent, const char *cluster, int batch) {
	lk_plan_request request;
	lk_plan_defaults(&request);
	request.job = rent->job;
	request.job.cluster = cluster;
	request.job.gpu = NULL;
	request.job.gpus = 0;
	request.job.gbs = batch;
	/* goodput is computed by rent itself: the command that predicts a choice does without */
	request.job.checkpoint_minutes = request.job.checkpoint_write_gbps = 0;
	request.fixed_switches = request.no_exact = request.no_sensitivity = true;
	request.top = 1;
	return request;
}

static void rates_leave_out(lk_rent_rate *rate) {
	rate->late = true;
	snprintf(rate->why, sizeof rate->why, "not tried before the search was cut off");
}

static lk_status rent_rates_ask(void *context, size_t job, lk_error *err) {
	const struct asking *asking = context;
	size_t at = asking->order[job];
	lk_rent_rate *rate = &asking->rates->at[at];
	if (lk_cutoff_reached(asking->cutoff)) {
		rates_leave_out(rate);
		return LK_OK;
	}
	lk_plan_request request = rates_plan_of(asking->request, rate->cluster, rate->batch);
	request.slowest_s = rate->slowest_s;
	request.search_s = lk_cutoff_left_s(asking->cutoff);
	lk_plan *plan = NULL;
	lk_error why = {0};
	char text[400];
	lk_status status = lk_plan_find(&request, &plan, &why), kept = LK_OK;
	if (status != LK_OK && status != LK_ERR_INPUT) kept = lk_fail_as(err, &why);
	else if (status != LK_OK)
		snprintf(rate->why, sizeof rate->why, "%.199s", lk_error_text(&why, text, sizeof text));
	else if (plan->counts[0].choice_count) kept = rates_keep(&asking->arenas[at], plan, rate, err);
	else if (plan->cut_off) rates_leave_out(rate);
	else if (plan->counts[0].slower) rate->slower = true;
	else
		snprintf(rate->why, sizeof rate->why, "%.199s",
		         plan->counts[0].nothing ? plan->counts[0].nothing : "nothing fits");
	lk_plan_free(plan);
	return kept;
}

/* ---- the whole ---- */

/* Largest first, so that no long search remains at the end. */
static lk_status rates_order_of(const lk_rent_rates *rates, size_t from, bool fewest_first,
                                lk_arena *arena, size_t **out, lk_error *err) {
	size_t *order = LK_ARRAY(arena, size_t, rates->count - from + 1);
	if (!order) return lk_oom(err);
	for (size_t i = from; i < rates->count; i++) {
		size_t at = i - from;
		for (; at > 0; at--) {
			int before = rates->at[order[at - 1]].gpus, gpus = rates->at[i].gpus;
			if (fewest_first ? before <= gpus : before >= gpus) break;
			order[at] = order[at - 1];
		}
		order[at] = i;
	}
	*out = order;
	return LK_OK;
}

/* In parts, so that progress can be shown. */
static lk_status rent_rates_ask_all(const lk_rent_request *request, size_t from,
                                    struct asking *asking, lk_arena *arena, lk_error *err) {
	enum { PART = 16 };
	size_t *order = NULL, count = asking->rates->count - from;
	LK_TRY(
		rates_order_of(asking->rates, from, isfinite(asking->cutoff->until_s), arena, &order, err));
	for (size_t begin = 0; begin < count; begin += PART) {
		size_t part = count - begin < PART ? count - begin : PART;
		asking->order = order + begin;
		LK_TRY(lk_parallel(part, 0, rent_rates_ask, asking, err));
		if (request->progress)
			request->progress(request->progress_context, 0, (double)(from + begin + part),
			                  (double)(from + count));
	}
	return LK_OK;
}

/* Copy from the threads' arenas into the permanent one. */
static lk_status rates_gather(struct asking *asking, size_t from, lk_arena *arena, lk_error *err) {
	for (size_t i = from; i < asking->rates->count; i++) {
		lk_rent_rate *rate = &asking->rates->at[i];
		if (!rate->fits) continue;
		rate->layout = lk_arena_strdup(arena, rate->layout);
		rate->reproduce = lk_arena_strdup(arena, rate->reproduce);
		rate->model = lk_arena_strdup(arena, rate->model);
		if (rate->warning && !(rate->warning = lk_arena_strdup(arena, rate->warning)))
			return lk_oom(err);
		if (rate->assumed && !(rate->assumed = lk_arena_strdup(arena, rate->assumed)))
			return lk_oom(err);
		if (!rate->layout || !rate->reproduce || !rate->model) return lk_oom(err);
	}
	return LK_OK;
}

lk_status lk_rent_rates_answer(const lk_rent_request *request, size_t from, const lk_cutoff *cutoff,
                               lk_arena *arena, lk_rent_rates *rates, lk_error *err) {
	lk_arena *arenas = calloc(rates->count + 1, sizeof *arenas);
	if (!arenas) return lk_oom(err);
	struct asking a = {request, rates, arenas, NULL, cutoff};
	lk_status status = rent_rates_ask_all(request, from, &a, arena, err);
	if (status == LK_OK) status = rates_gather(&a, from, arena, err);
	for (size_t i = 0; i < rates->count; i++) lk_arena_free(&arenas[i]);
	free(arenas);
	return status;
}

/* ---- bounds ---- */

struct bounding {
	const lk_rent_request *request;
	int batch;
	lk_rent_least *least;
};

/* On one GPU micro-batches may be as large as the batch; on eight, experts may be spread. */
static lk_status rates_bound(void *context, size_t at, lk_error *err) {
	static const int gpus[] = {1, 8};
	const struct bounding *bounding = context;
	lk_rent_least *least = &bounding->least[at];
	least->work = (lk_plan_work){.gpu_s = INFINITY, .seq = 1};
	for (int i = 0; i < 2; i++) {
		char cluster[100];
		snprintf(cluster, sizeof cluster, "1 node * %d %s", gpus[i], least->device->name);
		lk_plan_request request = rates_plan_of(bounding->request, cluster, bounding->batch);
		lk_plan_work work;
		lk_error why = {0};
		lk_status status = lk_plan_least(&request, &work, &why);
		if (status == LK_ERR_MEMORY) return lk_oom(err);
		if (status == LK_OK && work.gpu_s < least->work.gpu_s) least->work = work;
	}
	return LK_OK;
}

lk_status lk_rent_least_find(const lk_rent_request *request, int batch, lk_rent_least *least,
                             size_t count, lk_error *err) {
	struct bounding bounding = {request, batch, least};
	return lk_parallel(count, 0, rates_bound, &bounding, err);
}
