/* batching.c: continuous batching (Orca, OSDI 2022) of one engine, from one change of the batch to
 * the next. Between two changes the batch is constant and all sequences grow equally, so that its
 * iterations are one sum. The batch changes when
 *
 *     a chunk of prompts is computed    a separate iteration, in which the others decode, or wait
 *                                       if prompts come first
 *     a sequence ends                   kept in a heap by its ending time on the clock
 *     a sequence arrives                an engine without any is idle until then
 *     the cache is full                 the sequence that came last is preempted and recomputed
 *                                       later (vLLM, v1/core/sched/scheduler.py)
 *
 * The clock counts the tokens of a sequence that has run from the start. Software that reserves
 * admits a sequence when its end fits, and never preempts. */
#include "rollout/rollout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/vec.h"

/* Tokens of a cached prompt that are computed anyway: its last block. */
static const double BLOCK = 16;
/* Share of the cache that stays free when a sequence joins others. */
static const double WATERMARK = 0.01;

struct ending {
	double at; /* on the clock */
	uint32_t sequence, admission;
};

struct batch {
	const lk_engine *engine;
	const lk_prices *prices;
	const lk_sequence *sequences;
	size_t count, next; /* next: the first that never ran */
	int64_t partial;    /* the sequence whose prompt is partly computed; -1: none */
	double cache;       /* capacity in tokens */
	double clock;
	double running;      /* decoding sequences */
	double admitted;     /* plus those whose prompt is being computed */
	double used;         /* tokens in the cache, or promised */
	double context;      /* attended to by the running ones */
	double last_half;    /* when half of the largest batch last ran */
	double *had;         /* [count] tokens generated before `since` */
	double *since;       /* [count] the clock when it began to decode */
	double *left;        /* [count] tokens of its prompt to compute; -1: not admitted */
	uint32_t *admission; /* [count] admissions so far; endings of earlier ones are void */
	uint32_t *members;   /* [groups] admitted sequences of the prompt */
	bool *computed;      /* [groups] whether the prompt was computed */
	LK_VEC(struct ending) heap;
	LK_VEC(uint32_t) waiting; /* preempted; the last one goes first */
	LK_VEC(uint32_t) order;   /* admitted, in order; some have ended since */
	LK_VEC(uint32_t) joining; /* whose prompt is computed in this iteration */
	lk_iteration_spans *spans;
	lk_moments *moments; /* [count] */
	lk_batching *out;
};

/* ---- the heap of endings ---- */

static bool endings_push(struct batch *batch, struct ending ending) {
	if (!lk_push(&batch->heap)) return false;
	struct ending *heap = batch->heap.at;
	size_t i = batch->heap.count - 1;
	for (; i > 0 && heap[(i - 1) / 2].at > ending.at; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
	heap[i] = ending;
	return true;
}

static void endings_pop(struct batch *batch) {
	LK_ASSERT(batch->heap.count > 0);
	struct ending *heap = batch->heap.at, last = heap[--batch->heap.count];
	size_t i = 0, child, count = batch->heap.count;
	for (; (child = 2 * i + 1) < count; i = child) {
		if (child + 1 < count && heap[child + 1].at < heap[child].at) child++;
		if (heap[child].at >= last.at) break;
		heap[i] = heap[child];
	}
	heap[i] = last;
}

static bool ending_void(const struct batch *batch, const struct ending *ending) {
	return batch->left[ending->sequence] < 0 ||
	       batch->admission[ending->sequence] != ending->admission;
}

static const struct ending *endings_first(struct batch *batch) {
	while (batch->heap.count && ending_void(batch, &batch->heap.at[0])) endings_pop(batch);
	return batch->heap.count ? &batch->heap.at[0] : NULL;
}

/* ---- room in the cache ---- */

static double generated(const struct batch *batch, uint32_t i) {
	return batch->left[i] > 0 ? batch->had[i] : batch->had[i] + batch->clock - batch->since[i];
}

/* Tokens that a sequence needs when admitted, including the first that it gets. */
static double room_needed(const struct batch *batch, uint32_t i) {
	const lk_sequence *sequence = &batch->sequences[i];
	bool shared = batch->engine->prefix_caching && batch->members[sequence->group] > 0;
	double prompt = shared ? 0 : sequence->prompt;
	return prompt + (batch->engine->software->reserves ? sequence->response : batch->had[i] + 1);
}

/* Growth of the batch per iteration. */
static double batch_growth(const struct batch *batch) {
	return batch->engine->software->reserves ? 0 : batch->running * batch->prices->taken;
}

static void batch_admit(struct batch *batch, uint32_t i) {
	const lk_sequence *sequence = &batch->sequences[i];
	LK_ASSERT(batch->left[i] < 0);
	bool cached = batch->engine->prefix_caching && batch->computed[sequence->group];
	batch->used += room_needed(batch, i);
	batch->members[sequence->group]++;
	batch->computed[sequence->group] = true;
	batch->admission[i]++;
	batch->left[i] = (cached ? fmin(BLOCK, sequence->prompt) : sequence->prompt) + batch->had[i];
	batch->admitted++;
}

static void batch_release(struct batch *batch, uint32_t i) {
	const lk_sequence *sequence = &batch->sequences[i];
	LK_ASSERT(batch->left[i] >= 0 && batch->members[sequence->group] > 0);
	double tokens = generated(batch, i);
	bool shared = --batch->members[sequence->group] > 0 && batch->engine->prefix_caching;
	double prompt = shared ? 0 : sequence->prompt;
	batch->used -= prompt + (batch->engine->software->reserves ? sequence->response : tokens);
	batch->context -= sequence->prompt + tokens;
	batch->left[i] = -1;
	batch->running--;
	batch->admitted--;
}

/* ---- changes of the batch ---- */

/* Seconds until the next sequence arrives; 0: one waits; INFINITY: none comes. */
static double until_arrival(const struct batch *batch) {
	if (batch->next >= batch->count) return INFINITY;
	return fmax(0, batch->sequences[batch->next].arrival_s - batch->out->seconds);
}

static bool batch_waits(const struct batch *batch) {
	return batch->partial >= 0 || batch->waiting.count > 0 || until_arrival(batch) == 0;
}

static uint32_t batch_front(const struct batch *batch) {
	LK_ASSERT(batch_waits(batch));
	if (batch->partial >= 0) return (uint32_t)batch->partial;
	return batch->waiting.count ? *lk_last(&batch->waiting) : (uint32_t)batch->next;
}

static void batch_leave_queue(struct batch *batch) {
	LK_ASSERT(batch->waiting.count > 0 || batch->next < batch->count);
	if (batch->waiting.count) batch->waiting.count--;
	else batch->next++;
}

/* Limits apply to each GPU that attends to its own sequences, else to the engine. */
static double batch_limit(const struct batch *batch, int each) {
	return (double)each * (batch->engine->attention_dp ? batch->engine->tp : 1);
}

static bool batch_has_room(const struct batch *batch, uint32_t i) {
	double free = batch->cache - batch->used - batch_growth(batch);
	if (batch->admitted >= batch_limit(batch, batch->engine->sequences)) return false;
	if (batch->admitted > 0 && !batch->engine->software->reserves) free -= WATERMARK * batch->cache;
	return room_needed(batch, i) <= free;
}

/* Take as many prompts as fit into an iteration; the last one perhaps partly. */
static lk_status gather_prompts(struct batch *batch, double *rows, double *pairs, lk_error *err) {
	double decoding = batch->engine->software->prompts_first ? 0 : batch->running,
		   budget = batch_limit(batch, batch->engine->tokens) - decoding * batch->prices->rows;
	*rows = *pairs = 0;
	batch->joining.count = 0;
	while (batch_waits(batch) && budget >= 1) {
		uint32_t i = batch_front(batch);
		if (batch->left[i] < 0) {
			if (!batch_has_room(batch, i)) break;
			batch_admit(batch, i);
			batch_leave_queue(batch);
		}
		double whole = batch->sequences[i].prompt + batch->had[i],
			   take = fmin(batch->left[i], budget);
		*pairs += take * (whole - batch->left[i] + take / 2);
		*rows += take;
		budget -= take;
		batch->left[i] -= take;
		batch->partial = batch->left[i] > 0 ? (int64_t)i : -1;
		if (batch->partial >= 0) break;
		if (!lk_push(&batch->joining)) return lk_oom(err);
		*lk_last(&batch->joining) = i;
	}
	return LK_OK;
}

/* A computed prompt gives the first token. */
static lk_status join_prompts(struct batch *batch, lk_error *err) {
	for (size_t k = 0; k < batch->joining.count; k++) {
		uint32_t i = batch->joining.at[k];
		const lk_sequence *sequence = &batch->sequences[i];
		if (batch->moments && batch->had[i] == 0) batch->moments[i].first_s = batch->out->seconds;
		batch->had[i] += 1;
		batch->since[i] = batch->clock;
		batch->running++;
		batch->context += sequence->prompt + batch->had[i];
		if (!lk_push(&batch->order)) return lk_oom(err);
		*lk_last(&batch->order) = i;
		if (!endings_push(batch, (struct ending){batch->clock + sequence->response - batch->had[i],
		                                         i, batch->admission[i]}))
			return lk_oom(err);
	}
	return LK_OK;
}

static lk_status batch_run(struct batch *batch, double prompt, double pairs, double count,
                           lk_error *err) {
	lk_batching *out = batch->out;
	bool waits = prompt > 0 && batch->engine->software->prompts_first;
	double share = waits ? 0 : 1, decoding = share * batch->running,
		   taken = share * batch->prices->taken, step = decoding * taken;
	const lk_iteration_span span = {decoding, waits ? 0 : batch->context + step * (count - 1) / 2,
	                                prompt, pairs, count};
	double seconds = lk_iterations(batch->prices, &span, out->parts);
	if (batch->spans) {
		if (!lk_push(batch->spans)) return lk_oom(err);
		*lk_last(batch->spans) = span;
	}
	batch->clock += count * taken;
	batch->context += count * step;
	if (!waits) batch->used += count * batch_growth(batch);
	out->seconds += seconds;
	out->iterations += count;
	out->running_s += seconds * batch->running;
	out->most = fmax(out->most, batch->running);
	out->most_tokens = fmax(out->most_tokens, batch->used);
	if (2 * batch->running >= out->most) batch->last_half = out->seconds;
	out->events++;
	return LK_OK;
}

static void end_sequences(struct batch *batch) {
	const struct ending *first;
	while ((first = endings_first(batch)) && first->at <= batch->clock + 1e-9) {
		uint32_t i = first->sequence;
		endings_pop(batch);
		batch_release(batch, i);
		if (batch->moments) batch->moments[i].end_s = batch->out->seconds;
	}
}

/* Preempt the sequence that came last. */
static lk_status make_room(struct batch *batch, lk_error *err) {
	while (batch->order.count) {
		uint32_t i = batch->order.at[--batch->order.count];
		if (batch->left[i] < 0) continue;
		double tokens = generated(batch, i);
		batch_release(batch, i);
		batch->had[i] = floor(tokens);
		if (!lk_push(&batch->waiting)) return lk_oom(err);
		*lk_last(&batch->waiting) = i;
		batch->out->preempted++;
		return LK_OK;
	}
	LK_CHECK(false, err);
	return LK_OK;
}

static lk_status fail_of_room(const struct batch *batch, uint32_t i, lk_error *err) {
	const lk_sequence *sequence = &batch->sequences[i];
	lk_fail(err, LK_ERR_INPUT, "KV cache",
	        "a sequence of %.0f tokens does not fit: an engine has room for %.0f",
	        sequence->prompt + sequence->response, batch->cache);
	return lk_hint(err,
	               "give more GPUs an engine (--tp, --pp), a larger --gpu-mem-util, or shorter "
	               "sequences");
}

static double decoding_seconds(const struct batch *batch, double count) {
	double parts[LK_GENERATION_PARTS] = {0},
		   growth = batch->running * batch->prices->taken * (count - 1) / 2;
	const lk_iteration_span span = {batch->running, batch->context + growth, 0, 0, count};
	return lk_iterations(batch->prices, &span, parts);
}

/* Of `count` decoding iterations, those until the next sequence arrives. The first is the shortest,
 * so that it bounds their number; the mean of so many is at least that of those before the arrival,
 * which is seen at most one iteration late. */
static double iterations_to_arrival(const struct batch *batch, double count) {
	double wait = until_arrival(batch);
	if (wait == 0 || !isfinite(wait) ||
	    batch->admitted >= batch_limit(batch, batch->engine->sequences))
		return count;
	double most = fmin(count, fmax(1, ceil(wait / decoding_seconds(batch, 1)))),
		   seconds = decoding_seconds(batch, most);
	return seconds <= wait ? most : fmax(1, ceil(most * wait / seconds));
}

/* Iterations until a sequence ends or arrives, or the cache is full. */
static double iterations_ahead(struct batch *batch) {
	const struct ending *first = endings_first(batch);
	LK_ASSERT(first != NULL); /* of each running sequence */
	double growth = batch_growth(batch);
	double count = fmax(1, ceil((first->at - batch->clock) / batch->prices->taken - 1e-9));
	if (growth > 0) count = fmin(count, fmax(1, floor((batch->cache - batch->used) / growth)));
	return iterations_to_arrival(batch, count);
}

static void batch_idle(struct batch *batch) {
	double wait = until_arrival(batch);
	LK_ASSERT(wait > 0 && isfinite(wait));
	batch->out->idle_s += wait;
	batch->out->seconds = batch->sequences[batch->next].arrival_s;
}

static lk_status batch_step(struct batch *batch, lk_error *err) {
	double prompt, pairs;
	if (batch->running == 0 && !batch_waits(batch)) batch_idle(batch);
	if (batch->used + batch_growth(batch) > batch->cache) return make_room(batch, err);
	LK_TRY(gather_prompts(batch, &prompt, &pairs, err));
	if (prompt > 0) {
		LK_TRY(batch_run(batch, prompt, pairs, 1, err));
		LK_TRY(join_prompts(batch, err));
	} else {
		if (batch->running == 0) return fail_of_room(batch, batch_front(batch), err);
		LK_TRY(batch_run(batch, 0, 0, iterations_ahead(batch), err));
	}
	end_sequences(batch);
	return LK_OK;
}

static bool batch_make(struct batch *batch, size_t groups, lk_arena *arena) {
	batch->had = LK_ARRAY(arena, double, batch->count);
	batch->since = LK_ARRAY(arena, double, batch->count);
	batch->left = LK_ARRAY(arena, double, batch->count);
	batch->admission = LK_ARRAY(arena, uint32_t, batch->count);
	batch->members = LK_ARRAY(arena, uint32_t, groups);
	batch->computed = LK_ARRAY(arena, bool, groups);
	if (!batch->had || !batch->since || !batch->left || !batch->admission || !batch->members ||
	    !batch->computed)
		return false;
	for (size_t i = 0; i < batch->count; i++) batch->left[i] = -1;
	return true;
}

lk_status lk_batching_run(const lk_engine *engine, const lk_prices *prices, double cache_tokens,
                          const lk_sequence *sequences, size_t count, size_t groups,
                          lk_iteration_spans *spans, lk_moments *moments, lk_batching *out,
                          lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	struct batch batch = {.engine = engine,
	                      .prices = prices,
	                      .sequences = sequences,
	                      .count = count,
	                      .partial = -1,
	                      .cache = cache_tokens,
	                      .spans = spans,
	                      .moments = moments,
	                      .out = out};
	*out = (lk_batching){0};
	lk_status status = batch_make(&batch, groups, &arena) ? LK_OK : lk_oom(err);
	for (size_t i = 0; status == LK_OK && i < count; i++)
		if (sequences[i].prompt + sequences[i].response + 1 > cache_tokens)
			status = fail_of_room(&batch, (uint32_t)i, err);
	while (status == LK_OK && (batch.running > 0 || batch_waits(&batch) || batch.next < count))
		status = batch_step(&batch, err);
	for (size_t i = 0; i < count; i++) out->tokens += sequences[i].response;
	out->tail_s = out->seconds - batch.last_half;
	lk_vec_free(&batch.heap);
	lk_vec_free(&batch.waiting);
	lk_vec_free(&batch.order);
	lk_vec_free(&batch.joining);
	lk_arena_free(&arena);
	return status;
}
