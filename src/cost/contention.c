/* contention.c: how operations that run at the same time on one device slow one another.
 *
 * Communication kernels hold their SMs (non-preemptive CTAs, one per channel). A compute kernel
 * that fills the device is left with the fraction f of the SMs. With W waves it then takes T(W, f)
 * / T(W, 1) times as long, with
 *
 *     T(W, f) = whole + wave(W - f whole)
 *     whole   = floor(W / f)
 *     wave(u) = max(1 / HEADROOM, 1 - (1 - u) / 3)
 *
 * and 1 / f times with many or unknown waves. wave(u) is the time of a last wave on the fraction u
 * of the SMs: dense products run at the clock that the power limit allows, power is proportional to
 * u * clock^3, so a few SMs run faster, 1 - (1 - u) / 3 to first order, up to the highest clock.
 * SMs taken by communication are not idle: they free no power.
 *
 * Communication that runs next to kernels is slower than alone by a part that is fitted to whole
 * steps: its threads share the memory system, and its members arrive later than those of a test.
 *
 * For kernels with few blocks that wait for memory (exposed), memory is slower while communication
 * moves data. Memory bandwidth is shared in proportion to demand, links by max-min fairness: every
 * user gets an equal share unless it needs less. Sources: docs/method/contention.md.
 */
#include <math.h>

#include "cost/cost.h"

enum { LK_CONTENDERS = LK_STREAMS }; /* at most one operation per stream runs */

/* Highest clock over that of dense products: H100 SXM, 1,980 MHz over about 1,560: 80 % of the peak
 * at 1,830 MHz, for kernels that keep 94 % of the tensor cores' cycles busy. */
#define HEADROOM 1.27

static double waves_time(double waves, double left) {
	double whole = floor(waves / left + 1e-6), rest = waves - whole * left;
	return rest > 1e-6 ? whole + fmax(1 / HEADROOM, 1 - (1 - rest) / 3) : whole;
}

static double sm_slowdown(const lk_cost *kernel, double taken) {
	double left = 1 - taken, waves = kernel->waves;
	if (taken <= 0 || kernel->sm <= left) return 1;
	if (waves > 0 && waves <= 8) return fmax(1, waves_time(waves, left) / waves_time(waves, 1));
	return fmax(1, fmax(kernel->sm, 1e-3) / left);
}

/* The most that each user of a link may have, so that all together have 1: users that need less
 * leave the rest to others. */
static double fair_share(const double *demand, int count) {
	double left = 1, share = 1;
	bool taken[LK_CONTENDERS] = {false};
	for (int open = 0, i;; open = 0) {
		for (i = 0; i < count; i++) open += !taken[i] && demand[i] > 0;
		if (open == 0) return share;
		share = left / open;
		bool less = false;
		for (i = 0; i < count; i++) {
			if (taken[i] || demand[i] <= 0 || demand[i] > share) continue;
			taken[i] = less = true;
			left -= demand[i];
		}
		if (!less) return share;
	}
}

/* Slowdowns of the users of a link with more demand than capacity. */
static void share_link(const double *demand, int count, double *slow) {
	double share = fair_share(demand, count);
	for (int i = 0; i < count; i++)
		if (demand[i] > share) slow[i] = fmax(slow[i], demand[i] / share);
}

/* The links of a device: within the node, its part of the NICs, and for each tier of the network
 * the one that its collectives load most, assumed to be the same one. */
enum { LINK_INTRA, LINK_NIC, LINK_TIER, LINKS = LINK_TIER + LK_TIERS };

static double link_share(const lk_cost *cost, int link) {
	if (link == LINK_INTRA) return cost->intra;
	return link == LINK_NIC ? cost->nic : cost->tier[link - LINK_TIER];
}

struct links {
	double asked[LINKS];
	bool any, short_of; /* some demand on some link; more demand than capacity */
};

static struct links demand_of(const lk_cost *const *active, const bool *uses, int count) {
	struct links sum = {0};
	for (int i = 0; i < count; i++)
		for (int link = 0; uses[i] && link < LINKS; link++)
			sum.asked[link] += link_share(active[i], link);
	for (int link = 0; link < LINKS; link++) {
		if (sum.asked[link] > 0) sum.any = true;
		if (sum.asked[link] > 1) sum.short_of = true;
	}
	return sum;
}

/* Share links whose demand exceeds their capacity. */
static void share_links(const lk_cost *const *active, const bool *uses, int count,
                        const struct links *links, double *slow) {
	double demand[LK_CONTENDERS];
	for (int link = 0; links->short_of && link < LINKS; link++) {
		if (links->asked[link] <= 1) continue;
		for (int i = 0; i < count; i++) demand[i] = uses[i] ? link_share(active[i], link) : 0;
		share_link(demand, count, slow);
	}
}

/* A folded operation communicates in a part of its time: other communication then shares the links
 * with it, and the times of both depend on how long that part gets. `slow`: slowdowns with the
 * links shared by the others without it. */
static void share_in_turns(const lk_cost *const *active, const bool *communicates, int count,
                           int folded, double *slow) {
	bool uses[LK_CONTENDERS];
	double with[LK_CONTENDERS];
	for (int i = 0; i < count; i++) {
		uses[i] = communicates[i] || i == folded;
		with[i] = slow[i];
	}
	struct links links = demand_of(active, uses, count);
	if (!links.short_of) return;
	with[folded] = 1;
	share_links(active, uses, count, &links, with);
	double longer = active[folded]->linked_alone * (with[folded] - 1);
	double part = fmin(1, (active[folded]->linked + longer) / (slow[folded] + longer));
	slow[folded] += longer;
	for (int i = 0; i < count; i++)
		if (i != folded) slow[i] = 1 / (part / with[i] + (1 - part) / slow[i]);
}

void lk_contention_rates(const lk_cost *const *active, const bool *communicates, int count,
                         double *rates) {
	double taken = 0, memory = 0, slow[LK_CONTENDERS];
	struct links links = demand_of(active, communicates, count);
	int folded = -1;
	bool kernels = false;
	for (int i = 0; i < count; i++) {
		if (communicates[i]) taken += active[i]->sm;
		else if (active[i]->linked > 0) folded = i;
		memory += active[i]->memory;
		kernels |= !communicates[i] && active[i]->sm > 0;
	}
	if (taken > 0.9) taken = 0.9;
	for (int i = 0; i < count; i++) {
		slow[i] = 1;
		if (!communicates[i]) {
			slow[i] = 1 + active[i]->compute * (sm_slowdown(active[i], taken) - 1);
			if (links.any) slow[i] = fmax(slow[i], 1 + active[i]->exposed);
		} else if (kernels) {
			slow[i] = 1 + active[i]->exposed;
		}
		if (memory > 1 && active[i]->memory > 0)
			slow[i] = fmax(slow[i], 1 - active[i]->memory + active[i]->memory * memory);
	}
	share_links(active, communicates, count, &links, slow);
	if (folded >= 0) share_in_turns(active, communicates, count, folded, slow);
	for (int i = 0; i < count; i++) rates[i] = 1 / slow[i];
}
