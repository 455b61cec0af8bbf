/* jobs_power.c: switches nodes off. Every ten minutes demand is forecast; nodes beyond it and a
 * buffer are switched off, after the cluster energy saving service of Helios (arXiv 2109.01313,
 * section 4.3; rule and windows from its published code, HeliosArtifact). Its forecast is a boosted
 * regression; here it is the same time a day ago, shifted by the difference of the last hour from
 * that hour a day ago:
 *
 *     P(t, f) = mean U(t+1-day .. t+f-day) + mean U(t-5 .. t) - mean U(t-5-day .. t-day)
 *
 * U is the most nodes in use within a slot; on the first day, and if a window reaches beyond the
 * data, P is the mean of the last hour. Nodes stay on for
 *
 *     max(U(t), mean of the last hour, P(t, 3 h), P(t, 6 h)) + buffer
 *
 * and for two hours after a job had to wait for a node to start. Where Helios switches on the nodes
 * that the last slot lacked, here a waiting job starts them at once, with the buffer, and waits for
 * their start. */
#include <math.h>

#include "jobs/jobs.h"

enum { SLOT_S = 600, HOUR = 3600 / SLOT_S, AHEAD = 3 * HOUR, HOLD = 2 * HOUR, DAY = 24 * HOUR };

lk_status lk_power_begin(lk_power *power, double now_s, lk_error *err) {
	power->now_s = now_s;
	power->slot_end_s = now_s + SLOT_S;
	return lk_push(&power->sums) ? LK_OK : lk_oom(err); /* the sum of no slots */
}

void lk_power_free(lk_power *power) {
	lk_vec_free(&power->sums);
	lk_vec_free(&power->off);
	lk_vec_free(&power->starting);
}

static int power_starting(const lk_power *power) {
	return (int)(power->starting.count - power->started);
}

double lk_power_next(const lk_power *power) {
	double ready_s = power_starting(power) ? power->starting.at[power->started].ready_s : INFINITY;
	return fmin(ready_s, power->slot_end_s <= power->until_s ? power->slot_end_s : INFINITY);
}

void lk_power_pass(lk_power *power, const lk_nodes *nodes, double to_s) {
	double counted_s = fmin(to_s, power->until_s) - power->now_s;
	if (counted_s > 0) power->node_s += (nodes->on + power_starting(power)) * counted_s;
	power->now_s = to_s;
	if (nodes->used > power->most_used) power->most_used = nodes->used;
}

/* ---- switching off ---- */

/* Mean of U over the slots from..to, inclusive. */
static double power_mean(const lk_power *power, int from, int to) {
	if (from < 0) from = 0;
	return (power->sums.at[to + 1] - power->sums.at[from]) / (to + 1 - from);
}

/* P(t, slots); t is the last slot that has ended. */
static double power_forecast(const lk_power *power, int slots) {
	int now = (int)power->sums.count - 2;
	double hour = power_mean(power, now - HOUR + 1, now);
	if (now - HOUR + 1 < DAY) return hour;
	return power_mean(power, now + 1 - DAY, now + slots - DAY) + hour -
	       power_mean(power, now - HOUR + 1 - DAY, now - DAY);
}

/* End a slot: store its U, and switch off unneeded nodes. */
static lk_status power_end_slot(lk_power *power, lk_nodes *nodes, lk_error *err) {
	double used = power->most_used, sum = *lk_last(&power->sums) + used;
	if (!lk_push(&power->sums)) return lk_oom(err);
	*lk_last(&power->sums) = sum;
	power->most_used = nodes->used;
	power->slot_end_s += SLOT_S;
	double needed = fmax(used, power_forecast(power, AHEAD));
	needed = fmax(needed, power_forecast(power, 2 * AHEAD));
	needed = fmax(needed,
	              power_mean(power, (int)power->sums.count - 1 - HOUR, (int)power->sums.count - 2));
	int stay = (int)ceil(needed) + power->buffer;
	while (power->now_s >= power->hold_until_s && nodes->on > stay) {
		int node = lk_nodes_switch_off(nodes);
		if (node < 0) break;
		if (!lk_push(&power->off)) return lk_oom(err);
		*lk_last(&power->off) = node;
	}
	return LK_OK;
}

lk_status lk_power_advance(lk_power *power, lk_nodes *nodes, lk_error *err) {
	while (power_starting(power) && power->starting.at[power->started].ready_s <= power->now_s)
		lk_nodes_switch_on(nodes, power->starting.at[power->started++].node);
	while (power->slot_end_s <= power->now_s && power->slot_end_s <= power->until_s)
		LK_TRY(power_end_slot(power, nodes, err));
	return LK_OK;
}

/* ---- switching on ---- */

lk_status lk_power_demand(lk_power *power, const lk_nodes *nodes, int waiting, lk_error *err) {
	/* Nothing runs, nothing starts, and still a job waits: the counted nodes are not enough. */
	bool stuck = !nodes->used && !power_starting(power) && nodes->on >= waiting;
	int wanted = stuck ? nodes->count : nodes->used + waiting + power->buffer;
	int missing = nodes->used + waiting - nodes->on - power_starting(power);
	if ((missing <= 0 && !stuck) || !power->off.count) return LK_OK;
	power->wakeups++;
	power->hold_until_s = power->now_s + HOLD * SLOT_S;
	while (power->off.count && nodes->on + power_starting(power) < wanted) {
		if (!lk_push(&power->starting)) return lk_oom(err);
		lk_last(&power->starting)->node = power->off.at[--power->off.count];
		lk_last(&power->starting)->ready_s = power->now_s + power->boot_s;
		power->woken++;
	}
	return LK_OK;
}
