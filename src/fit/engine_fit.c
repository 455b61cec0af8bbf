/* engine_fit.c: the numbers of inference engines (family "generation") from measured generation.
 *
 *     time = products / p + attention / a + exchange + kernels f + iterations s + running q +
 *            launches l
 *
 * with the numbers p, a, f, s, q, l of lk_engine_numbers. The other factors come from three runs of
 * the simulation (rollout/batching.c): the order of events does not depend on any price. */
#include <math.h>

#include "base/check.h"
#include "fit/fits.h"

static lk_status terms_run(lk_engine *engine, double prompt, double response, size_t sequences,
                           lk_batching *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_prices prices;
	lk_sequence *all = LK_ARRAY(&arena, lk_sequence, sequences);
	lk_status status = all ? lk_engine_prices(engine, &prices, err) : lk_oom(err);
	for (size_t i = 0; status == LK_OK && i < sequences; i++)
		all[i] = (lk_sequence){prompt, response, (uint32_t)i};
	if (status == LK_OK)
		status =
			lk_batching_run(engine, &prices, lk_engine_memory_of(engine, prompt + response).tokens,
		                    all, sequences, sequences, out, err);
	lk_arena_free(&arena);
	return status;
}

lk_status lk_engine_terms_of(const lk_engine *engine, double prompt, double response,
                             size_t sequences, lk_engine_terms *out, lk_error *err) {
	lk_engine alone = *engine;
	lk_batching bare, floored, issued;
	alone.numbers = (lk_engine_numbers){.attention = 1, .products = 1};
	LK_TRY(terms_run(&alone, prompt, response, sequences, &bare, err));
	alone.numbers.floor_us = 1;
	alone.numbers.sequence_us = 1;
	LK_TRY(terms_run(&alone, prompt, response, sequences, &floored, err));
	alone.numbers = (lk_engine_numbers){.attention = 1, .products = 1, .launch_us = 1};
	LK_TRY(terms_run(&alone, prompt, response, sequences, &issued, err));
	const double *parts = bare.parts;
	double host = floored.parts[LK_GENERATION_HOST];
	*out = (lk_engine_terms){
		.products_s = parts[LK_GENERATION_PREFILL] + parts[LK_GENERATION_PRODUCTS] +
	                  parts[LK_GENERATION_HEAD],
		.attention_s = parts[LK_GENERATION_ATTENTION],
		.exchange_s = parts[LK_GENERATION_EXCHANGE],
		.kernels = (floored.seconds - host - bare.seconds) * 1e6,
		.iterations = bare.iterations,
		.running = host * 1e6,
		.launches = issued.parts[LK_GENERATION_HOST] * 1e6,
	};
	return LK_OK;
}

double lk_engine_seconds(const lk_engine_numbers *numbers, const lk_engine_terms *terms) {
	return terms->products_s / numbers->products + terms->attention_s / numbers->attention +
	       terms->exchange_s +
	       1e-6 * (terms->kernels * numbers->floor_us + terms->iterations * numbers->step_us +
	               terms->running * numbers->sequence_us + terms->launches * numbers->launch_us);
}

struct engine_rows {
	const lk_engine_terms *terms;
	const double *measured;
	const bool *use;
	size_t count;
};

static lk_engine_numbers numbers_of(const double *x) {
	lk_engine_numbers numbers;
	for (int i = 0; i < LK_ENGINE_NUMBERS; i++) *lk_engine_number(&numbers, i) = x[i];
	return numbers;
}

static double engine_miss(const double *x, void *context) {
	const struct engine_rows *rows = context;
	lk_engine_numbers numbers = numbers_of(x);
	double sum = 0, used = 0;
	for (size_t i = 0; i < rows->count; i++) {
		if (!rows->use[i]) continue;
		sum += fabs(log(lk_engine_seconds(&numbers, &rows->terms[i]) / rows->measured[i]));
		used++;
	}
	return used > 0 ? sum / used : 0;
}

void lk_engine_fit(const lk_engine_terms *terms, const double *measured, const bool *use,
                   size_t count, lk_engine_numbers *out) {
	struct engine_rows rows = {terms, measured, use, count};
	double x[LK_ENGINE_NUMBERS];
	lk_fit_simplex(lk_engine_number_limits, LK_ENGINE_NUMBERS, 4000, engine_miss, &rows, x, NULL);
	*out = numbers_of(x);
}
