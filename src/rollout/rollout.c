/* rollout.c: sequences distributed over equal engines; the phase ends with the last of them. */
#include "rollout/rollout.h"

#include <math.h>

/* Find where the sequences of each prompt begin, and their end. Returns the number of prompts. */
static size_t find_prompts(const lk_sequence *sequences, size_t count, size_t *begin) {
	size_t prompts = 0;
	for (size_t i = 0; i < count; i++)
		if (i == 0 || sequences[i].group != sequences[i - 1].group) begin[prompts++] = i;
	begin[prompts] = count;
	return prompts;
}

struct dealt {
	lk_sequence *sequences;
	lk_moments *moments;
	size_t *from; /* which of all it is */
	size_t count, groups;
};

/* The sequences of one engine: prompts k, k + engines, k + 2 engines ..., with their groups
 * renumbered. With twice the engines each processes a part of what one did before. */
static void deal(const lk_sequence *sequences, const size_t *begin, size_t prompts, int engines,
                 int which, struct dealt *out) {
	out->count = out->groups = 0;
	for (size_t p = (size_t)which; p < prompts; p += (size_t)engines, out->groups++)
		for (size_t i = begin[p]; i < begin[p + 1]; i++) {
			out->from[out->count] = i;
			out->sequences[out->count] = sequences[i];
			out->sequences[out->count++].group = (uint32_t)out->groups;
		}
}

static void add_engine(lk_rollout *out, const lk_batching *own) {
	for (int part = 0; part < LK_GENERATION_PARTS; part++) out->parts[part] += own->parts[part];
	out->running_s += own->running_s;
	out->most = fmax(out->most, own->most);
	out->preempted += own->preempted;
	out->events += own->events;
	out->mean_end_s += own->seconds / out->engines;
	if (own->seconds > out->longest.seconds) out->longest = *own;
}

lk_status lk_rollout_run(const lk_engine *engine, int engines, double cache_tokens,
                         const lk_sequence *sequences, size_t count, lk_moments *moments,
                         lk_rollout *out, lk_error *err) {
	lk_prices prices;
	lk_arena arena = LK_ARENA_INIT;
	*out = (lk_rollout){.engines = engines};
	LK_TRY(lk_engine_prices(engine, &prices, err));
	struct dealt dealt = {.sequences = LK_ARRAY(&arena, lk_sequence, count),
	                      .moments = LK_ARRAY(&arena, lk_moments, count),
	                      .from = LK_ARRAY(&arena, size_t, count)};
	size_t *begin = LK_ARRAY(&arena, size_t, count + 1), prompts = 0;
	bool held = dealt.sequences && dealt.moments && dealt.from && begin;
	lk_status status = held ? LK_OK : lk_oom(err);
	if (status == LK_OK) prompts = find_prompts(sequences, count, begin);
	for (int i = 0; status == LK_OK && i < engines && (size_t)i < prompts; i++) {
		lk_batching own;
		deal(sequences, begin, prompts, engines, i, &dealt);
		status = lk_batching_run(engine, &prices, cache_tokens, dealt.sequences, dealt.count,
		                         dealt.groups, NULL, dealt.moments, &own, err);
		add_engine(out, &own);
		for (size_t k = 0; moments && k < dealt.count; k++)
			moments[dealt.from[k]] = dealt.moments[k];
	}
	for (size_t i = 0; i < count; i++) out->tokens += sequences[i].response;
	lk_arena_free(&arena);
	return status;
}
