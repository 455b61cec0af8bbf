/* rollout.c: sequences dealt over equal engines; the phase ends with the last of them. */
#include "rollout/rollout.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"

/* The sequences of one engine: prompts k, k + engines, k + 2 engines ..., their groups counted
 * anew. With twice the engines each works off a part of what one did before. */
static size_t deal(const lk_sequence *sequences, size_t count, int engines, int which,
                   lk_sequence *out, size_t *groups) {
	size_t dealt = 0, prompt = 0;
	*groups = 0;
	for (size_t i = 0; i < count; i++) {
		bool begins = i == 0 || sequences[i].group != sequences[i - 1].group;
		prompt += i > 0 && begins;
		if (prompt % (size_t)engines != (size_t)which) continue;
		*groups += begins;
		out[dealt] = sequences[i];
		out[dealt++].group = (uint32_t)(*groups - 1);
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
	if (!dealt) return lk_oom(err);
	lk_status status = LK_OK;
	double sum = 0;
	for (int i = 0; status == LK_OK && i < engines; i++) {
		lk_batching own;
		size_t groups, held = deal(sequences, count, engines, i, dealt, &groups);
		if (held == 0) break;
		status =
			lk_batching_run(engine, &prices, cache_tokens, dealt, held, groups, NULL, &own, err);
		sum += own.seconds;
		out->preempted += own.preempted;
		out->events += own.events;
		if (own.seconds > out->longest.seconds) out->longest = own;
	}
	free(dealt);
	for (size_t i = 0; i < count; i++) out->tokens += sequences[i].response;
	out->mean_end_s = sum / engines;
	return status;
}
