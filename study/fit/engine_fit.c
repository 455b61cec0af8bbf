/* engine_fit.c: the numbers of inference engines (family "generation") from measured generation.
 *
 *     device = products(e) / p + attention / a + exchange + kernels f
 *     host   = s + sequences q, and launches l where no CUDA graph is replayed
 *     time   = sum over iterations of sqrt(device^2 + host^2) where the software overlaps them,
 *              else of s + sequences q + max(device, launches l)
 *
 * with the numbers e, p, a, f, s, q, l of lk_engine_numbers. The other factors come from one run of
 * the simulation (rollout/batching.c), whose order of events does not depend on any price, and from
 * prices at numbers of 1. products(e) is priced at a few values of e and interpolated linearly in
 * 1/e, because compute-bound products are linear in it. Nearly equal iterations are added up. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "fit/fits.h"

/* Values of the number `experts`, from its upper limit to its lower one, evenly spaced in ln e. */
static double expert_place(int place) {
	const lk_fit_number *limit = &lk_engine_number_limits[LK_ENGINE_EXPERTS];
	double first = 1 / limit->high, last = 1 / limit->low;
	return 1 / (first * pow(last / first, (double)place / (LK_EXPERT_PLACES - 1)));
}

/* Prices of the device's work: at numbers of 1 for each value of `experts`, and with a shortest
 * kernel of 1 us. */
struct unit_prices {
	lk_prices bare[LK_EXPERT_PLACES], floored;
	double launches;
};

static lk_status unit_prices_of(const lk_engine *engine, struct unit_prices *out, lk_error *err) {
	lk_engine alone = *engine;
	alone.numbers = (lk_engine_numbers){.attention = 1, .products = 1};
	for (int i = LK_EXPERT_PLACES - 1; i >= 0; i--) {
		alone.numbers.experts = expert_place(i);
		if (i < LK_EXPERT_PLACES - 1 && engine->model->experts == 0)
			out->bare[i] = out->bare[i + 1];
		else LK_TRY(lk_engine_prices(&alone, &out->bare[i], err));
	}
	alone.numbers.floor_us = 1;
	alone.numbers.launch_us = 1;
	LK_TRY(lk_engine_prices(&alone, &out->floored, err));
	out->launches = out->floored.issue_s * 1e6;
	out->floored.issue_s = 0;
	return LK_OK;
}

static lk_engine_iterations span_terms(const struct unit_prices *unit,
                                       const lk_iteration_span *span) {
	lk_engine_iterations terms = {
		.count = span->count,
		.sequences = span->sequences / unit->bare[0].hosts,
		.launches = unit->bare[0].eager || span->prompt > 0 ? unit->launches : 0,
	};
	lk_iteration_span one = *span;
	one.count = 1;
	double least = 0, floored[LK_GENERATION_PARTS] = {0};
	for (int i = LK_EXPERT_PLACES - 1; i >= 0; i--) {
		double parts[LK_GENERATION_PARTS] = {0};
		least = lk_iterations(&unit->bare[i], &one, parts);
		terms.products_s[i] = parts[LK_GENERATION_PREFILL] + parts[LK_GENERATION_PRODUCTS] +
		                      parts[LK_GENERATION_HEAD];
		terms.attention_s = parts[LK_GENERATION_ATTENTION];
		terms.exchange_s = parts[LK_GENERATION_EXCHANGE];
	}
	terms.kernels = (lk_iterations(&unit->floored, &one, floored) - least) * 1e6;
	return terms;
}

static double *iterations_value(lk_engine_iterations *iterations, int index) {
	double *const at[] = {&iterations->attention_s, &iterations->exchange_s, &iterations->kernels,
	                      &iterations->sequences, &iterations->launches};
	return index < LK_EXPERT_PLACES ? &iterations->products_s[index] : at[index - LK_EXPERT_PLACES];
}

enum { ITERATION_VALUES = LK_EXPERT_PLACES + 5 };

/* Whether two iterations are so similar that host and device have nearly the same weight. */
static bool iterations_alike(const lk_engine_iterations *a, const lk_engine_iterations *b) {
	const double apart = 0.1;
	double device_a = a->products_s[0] + a->attention_s,
		   device_b = b->products_s[0] + b->attention_s;
	return (a->launches > 0) == (b->launches > 0) &&
	       fabs(device_a - device_b) <= apart * fmax(device_a, device_b) &&
	       fabs(a->sequences - b->sequences) <= apart * fmax(a->sequences, b->sequences);
}

static void iterations_add(lk_engine_iterations *to, lk_engine_iterations from) {
	double count = to->count + from.count;
	LK_ASSERT(count > 0);
	for (int i = 0; i < ITERATION_VALUES; i++) {
		double *value = iterations_value(to, i);
		*value = (*value * to->count + *iterations_value(&from, i) * from.count) / count;
	}
	to->count = count;
}

static lk_status collect_terms(lk_arena *arena, const struct unit_prices *unit,
                               const lk_iteration_spans *spans, lk_engine_terms *out,
                               lk_error *err) {
	lk_engine_iterations *found = LK_ARRAY(arena, lk_engine_iterations, spans->count);
	if (!found) return lk_oom(err);
	out->spans = found, out->overlaps = unit->bare[0].overlaps;
	for (size_t i = 0; i < spans->count; i++) {
		lk_engine_iterations terms = span_terms(unit, &spans->at[i]);
		size_t at = 0;
		while (at < out->count && !iterations_alike(&found[at], &terms)) at++;
		if (at < out->count) iterations_add(&found[at], terms);
		else found[out->count++] = terms;
	}
	return LK_OK;
}

lk_status lk_engine_terms_of(lk_arena *arena, const lk_engine *engine, double prompt,
                             double response, size_t sequences, lk_engine_terms *out,
                             lk_error *err) {
	struct unit_prices unit;
	lk_arena scratch = LK_ARENA_INIT;
	lk_iteration_spans spans = {0};
	lk_batching run;
	lk_sequence *all = LK_ARRAY(&scratch, lk_sequence, sequences);
	lk_status status = all ? unit_prices_of(engine, &unit, err) : lk_oom(err);
	for (size_t i = 0; status == LK_OK && i < sequences; i++)
		all[i] = (lk_sequence){prompt, response, (uint32_t)i, 0};
	if (status == LK_OK)
		status = lk_batching_run(engine, &unit.bare[0],
		                         lk_engine_memory_of(engine, prompt + response).tokens, all,
		                         sequences, sequences, &spans, NULL, &run, err);
	*out =
		(lk_engine_terms){.host = lk_engine_host_factor(engine), .early = engine->software->early};
	if (status == LK_OK) status = collect_terms(arena, &unit, &spans, out, err);
	lk_vec_free(&spans);
	lk_arena_free(&scratch);
	return status;
}

/* Prices of the engine of the rows before: tables list the loads of an engine one after another. */
struct lk_engine_priced {
	lk_engine engine;
	struct unit_prices unit;
	lk_prices known; /* by the calibration in use */
};

static bool engines_alike(const lk_engine *a, const lk_engine *b) {
	return strcmp(a->model->name, b->model->name) == 0 && a->software == b->software &&
	       a->cluster->node[0].device == b->cluster->node[0].device && a->tp == b->tp &&
	       a->pp == b->pp && a->ep == b->ep && a->attention_dp == b->attention_dp &&
	       a->dtype == b->dtype && a->kv_dtype == b->kv_dtype &&
	       a->mxfp4_experts == b->mxfp4_experts && a->eager == b->eager && a->draft == b->draft &&
	       a->accept == b->accept;
}

static lk_status price_engine(lk_arena *arena, const lk_engine *engine, lk_engine_priced **priced,
                              lk_error *err) {
	if (*priced && engines_alike(&(*priced)->engine, engine)) return LK_OK;
	lk_engine_priced *fresh = LK_NEW(arena, lk_engine_priced);
	if (!fresh) return lk_oom(err);
	fresh->engine = *engine;
	fresh->engine.numbers = lk_engine_numbers_of(engine->software);
	LK_TRY(unit_prices_of(engine, &fresh->unit, err));
	LK_TRY(lk_engine_prices(&fresh->engine, &fresh->known, err));
	*priced = fresh;
	return LK_OK;
}

static lk_status serving_terms_of(lk_arena *arena, const lk_engine *engine, const lk_served *served,
                                  bool first, lk_engine_priced **priced, lk_engine_terms *out,
                                  lk_error *err) {
	lk_serving serving;
	LK_TRY(price_engine(arena, engine, priced, err));
	lk_serving_of(engine, &(*priced)->known, served, &serving);
	for (int i = 0; i < serving.tokens; i++)
		serving.token[i].count /= fmax(1, served->response - 1);
	const lk_iteration_spans spans = {.at = first ? serving.first : serving.token,
	                                  .count = (size_t)(first ? serving.firsts : serving.tokens)};
	*out = (lk_engine_terms){
		.host = lk_engine_host_factor(engine), .early = engine->software->early, .requests = first};
	return collect_terms(arena, &(*priced)->unit, &spans, out, err);
}

lk_status lk_inference_terms(lk_arena *arena, const lk_inference_run *run, bool first,
                             lk_engine_priced **priced, lk_engine_terms *out, lk_error *err) {
	if (run->served.sequences > 0)
		return serving_terms_of(arena, &run->engine, &run->served, first, priced, out, err);
	return lk_engine_terms_of(arena, &run->engine, run->prompt, run->response, run->sequences, out,
	                          err);
}

/* Find the place of a value of `experts`: the lower of two, and the share of the other. */
static int find_expert_place(double experts, double *share) {
	int place = 0;
	while (place < LK_EXPERT_PLACES - 2 && experts < expert_place(place + 1)) place++;
	double low = 1 / expert_place(place), high = 1 / expert_place(place + 1);
	LK_ASSERT(low != high);
	*share = (1 / experts - low) / (high - low);
	return place;
}

double lk_engine_seconds(const lk_engine_numbers *numbers, const lk_engine_terms *terms) {
	double share, host = 1e-6 * terms->host, seconds = terms->requests * host * numbers->request_us,
				  sequence_us = numbers->sequence_us + (terms->early ? numbers->early_us : 0);
	int place = find_expert_place(numbers->experts, &share);
	for (size_t i = 0; i < terms->count; i++) {
		const lk_engine_iterations *each = &terms->spans[i];
		double products = each->products_s[place] +
		                  share * (each->products_s[place + 1] - each->products_s[place]);
		double device = products / numbers->products + each->attention_s / numbers->attention +
		                each->exchange_s + 1e-6 * each->kernels * numbers->floor_us;
		double serial = host * (numbers->step_us + each->sequences * sequence_us),
			   issue = host * each->launches * numbers->launch_us;
		seconds += each->count *
		           (terms->overlaps ? hypot(device, serial + issue) : serial + fmax(device, issue));
	}
	return seconds;
}

static lk_engine_numbers numbers_of(const double *x) {
	lk_engine_numbers numbers;
	for (int i = 0; i < LK_ENGINE_NUMBERS; i++) *lk_engine_number(&numbers, i) = x[i];
	return numbers;
}

/* Beyond this a miss counts by its logarithm: the row does something that its table does not state,
 * such as guessing tokens. */
static const double UNSTATED = .3;
/* Error that a number as far from its start as its limits are from one another is worth. */
static const double PRIOR = .05;

static double counted_miss(double ratio) {
	double miss = fabs(log(ratio));
	return miss > UNSTATED ? UNSTATED * (1 + log(miss / UNSTATED)) : miss;
}

/* Numbers stay near their start unless rows tell otherwise: few networks would leave the host's
 * time and that of small kernels free to stand for one another. */
static double numbers_strain(const double *x) {
	double strain = 0;
	for (int i = 0; i < LK_ENGINE_REQUEST; i++) {
		const lk_fit_number *limit = &lk_engine_number_limits[i];
		double away = log(x[i] / limit->start) / log(limit->high / limit->low);
		strain += away * away;
	}
	return strain;
}

static double engine_miss(const double *x, void *context) {
	const lk_engine_rows *rows = context;
	lk_engine_numbers numbers = numbers_of(x);
	double sum = 0, used = 0;
	for (size_t i = 0; i < rows->count; i++) {
		if (!(rows->weight[i] > 0)) continue;
		sum += rows->weight[i] *
		       counted_miss(lk_engine_seconds(&numbers, &rows->terms[i]) / rows->measured[i]);
		used += rows->weight[i];
	}
	return (used > 0 ? sum / used : 0) + PRIOR * numbers_strain(x);
}

/* Whether rows determine `experts`: dense networks do not, and the number keeps its start. */
static bool experts_matter(const lk_engine_rows *rows) {
	for (size_t i = 0; i < rows->count; i++)
		if (rows->weight[i] > 0 && rows->terms[i].count > 0 &&
		    rows->terms[i].spans[0].products_s[LK_EXPERT_PLACES - 1] >
		        rows->terms[i].spans[0].products_s[0])
			return true;
	return false;
}

/* Whether rows determine the number of early releases. */
static bool releases_matter(const lk_engine_rows *rows) {
	for (size_t i = 0; i < rows->count; i++)
		if (rows->weight[i] > 0 && rows->terms[i].early) return true;
	return false;
}

static bool number_is_fitted(lk_engine_fitted kind, int index) {
	switch (kind) {
	case LK_ENGINE_FIT_HOST:
		return index == LK_ENGINE_FLOOR || index == LK_ENGINE_STEP || index == LK_ENGINE_SEQUENCE;
	case LK_ENGINE_FIT_REQUEST: return index == LK_ENGINE_REQUEST;
	case LK_ENGINE_FIT_ALL: break;
	}
	return index != LK_ENGINE_REQUEST;
}

void lk_engine_fit(const lk_engine_rows *rows, lk_engine_fitted kind, lk_engine_numbers *numbers) {
	lk_engine_rows used = *rows;
	lk_fit_number limits[LK_ENGINE_NUMBERS];
	double x[LK_ENGINE_NUMBERS];
	for (int i = 0; i < LK_ENGINE_NUMBERS; i++) {
		lk_fit_number *limit = &limits[i];
		*limit = lk_engine_number_limits[i];
		if (number_is_fitted(kind, i)) {
			bool known = (i != LK_ENGINE_EXPERTS || experts_matter(rows)) &&
			             (i != LK_ENGINE_EARLY || releases_matter(rows));
			if (!known) limit->low = limit->high = limit->start;
		} else limit->low = limit->high = limit->start = *lk_engine_number(numbers, i);
	}
	lk_fit_simplex(limits, LK_ENGINE_NUMBERS, 2000, engine_miss, &used, x, NULL);
	*numbers = numbers_of(x);
}
