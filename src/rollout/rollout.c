/* rollout.c: sequences distributed over equal engines; the phase ends with the last of them. */
#include "rollout/rollout.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"

/* Find where the sequences of each prompt begin, and their end. Returns the number of prompts. */
static size_t find_prompts(const lk_sequence *sequences, size_t count, size_t *begin) {
	size_t prompts = 0;
	for (size_t i = 0; i < count; i++)
		if (i == 0 || sequences[i].group != sequences[i - 1].group) begin[prompts++] = i;
	begin[prompts] = count;
	return prompts;
}

/* The sequences of one engine: prompts k, k + engines, k + 2 engines ..., with their groups
 * renumbered. With twice the engines each processes a part of what one did before. */
static size_t deal(const lk_sequence *sequences, const size_t *begin, size_t prompts, int engines,
                   int which, lk_sequence *out, size_t *groups) {
	size_t dealt = 0;
	*groups = 0;
	for (size_t p = (size_t)which; p < prompts; p += (size_t)engines, ++*groups)
		for (size_t i = begin[p]; i < begin[p + 1]; i++) {
			out[dealt] = sequences[i];
			out[dealt++].group = (uint32_t)*groups;
		}
	return dealt;
}

lk_status lk_rollout_run(const lk_engine *engine, int engines, double cache_tokens,
                         const lk_sequence *sequences, size_t count, lk_rollout *out,
                         lk_error *err) {
	lk_prices prices;
	*out = (lk_rollout){.engines = engines};
	LK_TRY(lk_engine_prices(engine, &prices, err));
	lk_sequence *dealt = malloc(count * sizeof *dealt);
	size_t *begin = malloc((count + 1) * sizeof *begin), prompts = 0;
	lk_status status = dealt && begin ? LK_OK : lk_oom(err);
	if (status == LK_OK) prompts = find_prompts(sequences, count, begin);
	double sum = 0;
	for (int i = 0; status == LK_OK && i < engines; i++) {
		lk_batching own;
		size_t groups, held = deal(sequences, begin, prompts, engines, i, dealt, &groups);
		if (held == 0) break;
		status =
			lk_batching_run(engine, &prices, cache_tokens, dealt, held, groups, NULL, &own, err);
		sum += own.seconds;
		out->preempted += own.preempted;
		out->events += own.events;
		if (own.seconds > out->longest.seconds) out->longest = own;
	}
	free(dealt);
	free(begin);
	for (size_t i = 0; i < count; i++) out->tokens += sequences[i].response;
	out->mean_end_s = sum / engines;
	return status;
}
