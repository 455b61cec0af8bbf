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
 *     F = request + own prompt + wait + wave + queue
 *
 * wait   what is left of the iteration under way, E(t^2) / (2 E(t)); equal requests that follow one
 *        another begin while the prompt of the one before is computed
 * wave   half of the other prompts in full chunks: of all requests that begin together, else of the
 *        first of each client
 * queue  a client beyond the n that the cache holds waits for its turn: (D + F) / n each
 *
 * Where other GPUs compute the prompts, none are met, and F has neither their wave nor a queue. */
#include "rollout/rollout.h"

#include <math.h>

#include "base/check.h"

enum { ROUNDS = 12 }; /* D and F depend on each other */

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

/* A chunk of `tokens` of prompts while `decoding` requests decode. */
static lk_iteration_span chunk_span(const lk_engine *engine, const lk_served *served,
                                    double decoding, double tokens, double count) {
	double context = served->prompt + served->response / 2;
	if (engine->software->prompts_first) decoding = 0;
	return (lk_iteration_span){decoding, decoding * context, tokens, tokens * served->prompt / 2,
	                           count};
}

/* Of a number of requests in flight, what lies between the tokens of one that meets `met` prompts.
 */
static void token_spans(const lk_engine *engine, const lk_served *served, double flight, double met,
                        double most, lk_serving *out) {
	bool first = engine->software->prompts_first;
	double decoding = served->apart || (first && served->equal) ? flight : 1 + met,
		   gaps = fmax(1, served->response - 1), chunk = fmin(served->prompt, most),
		   with = met * served->prompt / chunk;
	double context = served->prompt + served->response / 2;
	out->token[0] = (lk_iteration_span){decoding, decoding * context, 0, 0, gaps};
	out->tokens = 1;
	if (served->apart || !(met > 0)) return;
	if (!first && with > gaps) chunk *= with / gaps, with = gaps;
	if (!first) out->token[0].count -= with;
	out->token[out->tokens++] = chunk_span(engine, served, decoding, chunk, with);
}

static void add_first(lk_serving *out, lk_iteration_span span, double count) {
	LK_ASSERT(out->firsts < LK_SERVING_SPANS && count >= 0);
	span.count = count;
	if (count > 0) out->first[out->firsts++] = span;
}

/* What is left of the iteration under way. */
static void add_wait(const lk_engine *engine, const lk_prices *prices, const lk_served *served,
                     lk_serving *out) {
	double seconds[2], all = 0;
	if (served->equal && out->tokens > 1 && !engine->software->prompts_first) {
		add_first(out, out->token[1], 1);
		return;
	}
	for (int i = 0; i < out->tokens; i++) all += seconds[i] = span_seconds(prices, &out->token[i]);
	for (int i = 0; i < out->tokens; i++) add_first(out, out->token[i], seconds[i] / all / 2);
}

/* All until the first token. */
static void first_spans(const lk_engine *engine, const lk_prices *prices, const lk_served *served,
                        double flight, double most, lk_serving *out) {
	bool together = served->equal && engine->software->prompts_first;
	double waves = served->rounds > 0 ? 1 / served->rounds : 0;
	double own = fmin(most, served->prompt), full = fmin(most, served->prompt * flight);
	double queued = served->sequences / flight - 1;
	if (together) waves = 1; /* all of them at once */
	out->firsts = 0;
	add_first(out,
	          chunk_span(engine, served, served->apart ? 0 : out->token[0].sequences - 1, own, 0),
	          served->prompt / own);
	add_wait(engine, prices, served, out);
	if (served->apart) return;
	add_first(out, chunk_span(engine, served, flight / 2, full, 0),
	          waves * (flight - 1) / 2 * served->prompt / full);
	for (int i = 0; i < out->tokens; i++)
		add_first(out, out->token[i], out->token[i].count * queued);
}

void lk_serving_of(const lk_engine *engine, const lk_prices *prices, const lk_served *served,
                   lk_serving *out) {
	double flight = served->apart ? served->sequences : serving_room(engine, served),
		   met = flight - 1, most = engine->tokens * (engine->attention_dp ? engine->tp : 1.0);
	double start = served->rounds > 0 ? 1 - .5 / served->rounds : 1;
	bool together = served->equal && engine->software->prompts_first;
	LK_ASSERT(served->sequences >= 1 && served->prompt >= 1);
	*out = (lk_serving){0};
	for (int round = 0; round < ROUNDS; round++) {
		double tokens = 0, first = prices->request_s, queue;
		token_spans(engine, served, flight, met, most, out);
		first_spans(engine, prices, served, flight, most, out);
		for (int i = 0; i < out->tokens; i++) tokens += span_seconds(prices, &out->token[i]);
		for (int i = 0; i < out->firsts; i++) first += span_seconds(prices, &out->first[i]);
		queue = tokens * (served->sequences / flight - 1);
		met = (met + (flight - 1) * start *
		                 (together ? .5 : tokens / (tokens + fmax(0, first - queue)))) /
		      2;
	}
}

double lk_serving_token(const lk_engine *engine, const lk_prices *prices, const lk_served *served,
                        double *first_s) {
	lk_serving serving;
	double seconds = 0, first = prices->request_s;
	lk_serving_of(engine, prices, served, &serving);
	for (int i = 0; i < serving.tokens; i++) seconds += span_seconds(prices, &serving.token[i]);
	for (int i = 0; i < serving.firsts; i++) first += span_seconds(prices, &serving.first[i]);
	if (first_s) *first_s = first;
	return seconds / fmax(1, served->response - 1);
}
