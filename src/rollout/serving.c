/* serving.c: an engine that serves: `sequences` requests are always in flight, and the next arrives
 * when one ends. Between two tokens of a request lies an iteration, in which the other requests
 * decode too. Some iterations also compute a chunk of another request's prompt: while a request
 * decodes, each other one begins once in the time that a request takes,
 *
 *     prompts met = (sequences - 1) D / (D + first)
 *
 * with D the time of all its further tokens and `first` the time to the first one. A prompt waits
 * for the rest of an iteration and then for half of the prompts that begin with it. Where other
 * GPUs compute the prompts, none are met. */
#include "rollout/rollout.h"

#include <math.h>

#include "base/check.h"

enum { ROUNDS = 12 }; /* the two times depend on each other */

/* Iterations between the tokens of a request, if it meets `met` prompts. */
static int serving_spans(const lk_engine *engine, const lk_served *served, double met,
                         lk_iteration_span out[2]) {
	double decoding = 1 + met, gaps = fmax(1, served->response - 1);
	double context = served->prompt + served->response / 2;
	if (served->apart) decoding = served->sequences, met = 0;
	out[0] = (lk_iteration_span){decoding, decoding * context, 0, 0, gaps};
	if (!(met > 0)) return 1;
	double each = engine->attention_dp ? (double)engine->tokens * engine->tp : engine->tokens;
	double chunk = fmin(served->prompt, each);
	double with = fmin(gaps, met * served->prompt / chunk);
	chunk = met * served->prompt / with;
	out[0].count -= with;
	out[1] =
		(lk_iteration_span){decoding, decoding * context, chunk, chunk * served->prompt / 2, with};
	return 2;
}

int lk_serving_spans(const lk_engine *engine, const lk_prices *prices, const lk_served *served,
                     lk_iteration_span out[2], double *first_s) {
	double met = served->sequences - 1, gaps = fmax(1, served->response - 1), first = 0;
	LK_ASSERT(served->sequences >= 1 && served->prompt >= 1);
	for (int round = 0; round < ROUNDS; round++) {
		double parts[LK_GENERATION_PARTS] = {0};
		int spans = serving_spans(engine, served, met, out);
		double tokens = 0, own;
		for (int i = 0; i < spans; i++) tokens += lk_iterations(prices, &out[i], parts);
		const lk_iteration_span prompt = {met, out[0].context, served->prompt,
		                                  served->prompt * served->prompt / 2, 1};
		own = lk_iterations(prices, &prompt, parts);
		first = own + tokens / gaps / 2;
		met = (met + (served->sequences - 1) * tokens / (tokens + first)) / 2;
	}
	if (first_s) *first_s = first;
	return serving_spans(engine, served, met, out);
}

double lk_serving_token(const lk_engine *engine, const lk_prices *prices, const lk_served *served,
                        double *first_s) {
	lk_iteration_span spans[2];
	double parts[LK_GENERATION_PARTS] = {0}, seconds = 0;
	int count = lk_serving_spans(engine, prices, served, spans, first_s);
	for (int i = 0; i < count; i++) seconds += lk_iterations(prices, &spans[i], parts);
	return seconds / fmax(1, served->response - 1);
}
