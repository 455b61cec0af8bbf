/* serving.c: an engine that serves: `sequences` clients send a request each, and the next when it
 * ends. Between two tokens of a request lies an iteration, in which the other requests decode too.
 * Some iterations also compute a chunk of another request's prompt, or prompts are computed by
 * iterations of their own, and decoding waits (prompts_first). While a request decodes, each other
 * client begins one in the time that a request takes:
 *
 *     prompts met = (n - 1) D / (D + F)
 *
 * with n requests in flight, D the time of a request's further tokens and F the time to its first.
 * If prompts come first and requests are equal, all n begin together and end together, as often as
 * they are sent: each waits for half of the prompts and meets the other half.
 *
 *     F = request + held + prompts + wait + wave + queue
 *
 * held     iterations until the engine takes the request: half of those between two looks, or what
 *          is left of those for which the first of a group waits, those that come after it less
 * prompts  its own and those of the group, which are computed together
 * wait     what is left of the iteration under way, E(t^2) / (2 E(t)); equal requests that follow
 *          one another begin while the prompt of the one before is computed
 * wave     half of the other prompts in full chunks: of all requests that begin together, else of
 *          the first of each client
 * queue    a client beyond the n that the cache holds waits for its turn: (D + F) / n each
 *
 * Where other GPUs compute the prompts, none are met or held, and F has neither their wave nor a
 * queue. */
#include "rollout/rollout.h"

#include <math.h>

#include "base/check.h"

enum { ROUNDS = 12 }; /* D and F depend on each other */

struct service {
	const lk_engine *engine;
	const lk_prices *prices;
	const lk_served *served;
	double flight; /* requests in the engine */
	double most;   /* tokens of an iteration */
	double met;    /* prompts of others while a request decodes */
	double held;   /* iterations until a new request is taken */
	double group;  /* requests that are taken together */
};

/* Requests that the cache holds. An engine that is said to run holds one. */
static double serving_room(const lk_engine *engine, const lk_served *served) {
	double length = served->prompt + served->response;
	lk_engine_memory memory = lk_engine_memory_of(engine, length);
	double held = engine->software->reserves ? length : served->prompt + served->response / 2,
		   room = fmin(served->sequences, memory.tokens / held);
	if (memory.state > 0) room = fmin(room, memory.sequences * engine->tp);
	return memory.tokens < held ? served->sequences : fmax(1, room);
}

static double span_seconds(const lk_prices *prices, const lk_iteration_span *span) {
	double parts[LK_GENERATION_PARTS] = {0};
	return lk_iterations(prices, span, parts);
}

static double spans_seconds(const lk_prices *prices, const lk_iteration_span *spans, int count) {
	double seconds = 0;
	for (int i = 0; i < count; i++) seconds += span_seconds(prices, &spans[i]);
	return seconds;
}

/* All n requests begin together and end together. */
static bool in_step(const struct service *service) {
	return service->served->equal && service->engine->software->prompts_first;
}

/* A chunk of `tokens` of prompts while `decoding` requests decode. */
static lk_iteration_span chunk_span(const struct service *service, double decoding, double tokens,
                                    double count) {
	const lk_served *served = service->served;
	double context = served->prompt + served->response / 2;
	if (service->engine->software->prompts_first) decoding = 0;
	return (lk_iteration_span){decoding, decoding * context, tokens, tokens * served->prompt / 2,
	                           count};
}

/* What lies between the tokens of a request. */
static void token_spans(const struct service *service, lk_serving *out) {
	const lk_served *served = service->served;
	bool first = service->engine->software->prompts_first;
	double decoding = served->apart || in_step(service) ? service->flight : 1 + service->met,
		   gaps = fmax(1, served->response - 1),
		   chunk = fmin(served->prompt * service->group, service->most),
		   with = service->met * served->prompt / chunk;
	double context = served->prompt + served->response / 2;
	out->token[0] = (lk_iteration_span){decoding, decoding * context, 0, 0, gaps};
	out->tokens = 1;
	if (served->apart || !(service->met > 0)) return;
	if (!first && with > gaps) chunk *= with / gaps, with = gaps;
	if (!first) out->token[0].count -= with;
	out->token[out->tokens++] = chunk_span(service, decoding, chunk, with);
}

static void add_first(lk_serving *out, lk_iteration_span span, double count) {
	LK_ASSERT(out->firsts < LK_SERVING_SPANS && count >= 0);
	span.count = count;
	if (count > 0) out->first[out->firsts++] = span;
}

/* What is left of the iteration under way. */
static void add_wait(const struct service *service, lk_serving *out) {
	double seconds[2], all = 0;
	if (service->served->equal && out->tokens > 1 && !in_step(service)) {
		add_first(out, out->token[1], 1);
		return;
	}
	for (int i = 0; i < out->tokens; i++)
		all += seconds[i] = span_seconds(service->prices, &out->token[i]);
	for (int i = 0; i < out->tokens; i++) add_first(out, out->token[i], seconds[i] / all / 2);
}

/* All until the first token. */
static void first_spans(const struct service *service, lk_serving *out) {
	const lk_served *served = service->served;
	double most = service->most, flight = service->flight;
	double waves = served->rounds > 0 ? 1 / served->rounds : 0;
	double tokens = served->prompt * service->group, own = fmin(most, tokens),
		   full = fmin(most, served->prompt * flight);
	double queued = served->sequences / flight - 1;
	if (in_step(service)) waves = 1; /* all of them at once */
	out->firsts = 0;
	add_first(out, chunk_span(service, served->apart ? 0 : out->token[0].sequences - 1, own, 0),
	          tokens / own);
	add_wait(service, out);
	if (served->apart) return;
	add_first(out, out->token[0], service->held);
	add_first(out, chunk_span(service, flight / 2, full, 0),
	          waves * (flight - 1) / 2 * served->prompt / full);
	for (int i = 0; i < out->tokens; i++)
		add_first(out, out->token[i], out->token[i].count * queued);
}

/* Requests that come while one is held, each other client's once in `cycle_s`, are taken with it.
 * */
static void hold(struct service *service, double cycle_s, const lk_iteration_span *token) {
	const lk_served *served = service->served;
	lk_iteration_span one = *token;
	double span = fmax(served->poll, served->gather), others;
	if (!(span > 1) || served->apart || in_step(service)) return;
	one.count = 1;
	others = (service->flight - 1) * fmin(1, span * span_seconds(service->prices, &one) / cycle_s);
	service->group = 1 + others;
	service->held =
		served->gather > served->poll ? span * (1 + others / 2) / (1 + others) : span / 2;
}

void lk_serving_of(const lk_engine *engine, const lk_prices *prices, const lk_served *served,
                   lk_serving *out) {
	struct service service = {
		.engine = engine,
		.prices = prices,
		.served = served,
		.flight = served->apart ? served->sequences : serving_room(engine, served),
		.most = engine->tokens * (engine->attention_dp ? engine->tp : 1.0),
		.group = 1,
	};
	double start = served->rounds > 0 ? 1 - .5 / served->rounds : 1, others = service.flight - 1;
	LK_ASSERT(served->sequences >= 1 && served->prompt >= 1);
	service.met = others;
	*out = (lk_serving){0};
	for (int round = 0; round < ROUNDS; round++) {
		token_spans(&service, out);
		first_spans(&service, out);
		double tokens = spans_seconds(prices, out->token, out->tokens),
			   first = prices->request_s + spans_seconds(prices, out->first, out->firsts),
			   queue = tokens * (served->sequences / service.flight - 1),
			   cycle = tokens + fmax(0, first - queue);
		double share = in_step(&service) ? .5 : tokens / cycle;
		service.met = (service.met + others * start * share) / 2;
		hold(&service, cycle, &out->token[0]);
	}
}

double lk_serving_token(const lk_engine *engine, const lk_prices *prices, const lk_served *served,
                        double *first_s) {
	lk_serving serving;
	lk_serving_of(engine, prices, served, &serving);
	if (first_s)
		*first_s = prices->request_s + spans_seconds(prices, serving.first, serving.firsts);
	return spans_seconds(prices, serving.token, serving.tokens) / fmax(1, served->response - 1);
}
