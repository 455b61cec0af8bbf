/* engine_rates.c: rates of operations that run concurrently on a rank. Few sets of them ever occur,
 * so rates are cached by set. */
#include "sim/engine.h"

/* Held acts keep their SMs, but use neither memory nor links. */
void lk_rates_ask(const lk_engine *engine, const lk_rank *rank, int count, double *rate) {
	lk_cost held[LK_STREAMS];
	const lk_cost *cost[LK_STREAMS] = {NULL};
	bool communicates[LK_STREAMS] = {false};
	for (int i = 0; i < count; i++) {
		const lk_act *act = engine->together[i];
		cost[i] = &rank->costs[lk_act_op(act)];
		communicates[i] = act->communicates;
		if (act->state != LK_ACT_HELD) continue;
		held[i] = *cost[i];
		held[i].memory = held[i].intra = held[i].nic = 0;
		for (int tier = 0; tier < LK_TIERS; tier++) held[i].tier[tier] = 0;
		cost[i] = &held[i];
	}
	lk_contention_rates(cost, communicates, count, rate);
	for (int i = 0; i < count; i++) {
		LK_ASSERT(rate[i] > 0 && rate[i] <= 1 + 1e-9); /* overlap makes nothing faster */
		if (rate[i] < LK_LEAST_RATE) rate[i] = LK_LEAST_RATE;
	}
}

const double *lk_rates_find(lk_engine *engine, const lk_rank *rank, int count) {
	enum { WORDS = LK_TOGETHER / 2 + 1 };
	if (count > LK_TOGETHER) {
		lk_rates_ask(engine, rank, count, engine->own);
		return engine->own;
	}
	lk_rate_set set = {{0}};
	uint64_t hash = 0, differ = 0;
	for (int i = 0; i < count; i++) set.key[i] = engine->together[i]->key;
	set.key[LK_TOGETHER] = rank->variant;
	set.key[LK_TOGETHER + 1] = (uint32_t)count;
	for (int i = 0; i < WORDS; i++) hash = (hash ^ set.word[i]) * 0x9e3779b97f4a7c15u;
	lk_rate_entry *known = &engine->rates[hash >> engine->rates_shift];
	for (int i = 0; i < WORDS; i++) differ |= known->set.word[i] ^ set.word[i];
	if (!differ) return known->rate;
	known->set = set;
	lk_rates_ask(engine, rank, count, known->rate);
	return known->rate;
}
