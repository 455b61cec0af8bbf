/* rent_parts.h: what the files of rent share. rent_offers.c gathers machines, rent_stalls.c reads how fast data is made ready, rent_rates.c finds how fast a job is on so many
 * of them, rent_choose.c sets prices against hours, rent.c puts it together; rent_options.c has the tables of options. */
#ifndef LK_PLAN_RENT_PARTS_H
#define LK_PLAN_RENT_PARTS_H

#include "lockstep/plan.h"
#include "lockstep/rent.h"
#include "rent/offers.h"

/* ---- rent_offers.c ---- */

/* The offers that a request means, in the order of their list. Nothing found is LK_ERR_INPUT. */
lk_status lk_rent_offers(const lk_machines_request *request, lk_arena *arena, lk_offers *out, lk_offer_faults *faults, lk_error *err);

/* ---- rent_stalls.c ---- */

/* How fast data is made ready; NAN: no limit is known. */
typedef struct lk_rent_loader {
	bool pipelined;          /* beside the step; else before it */
	double prepare_per_core, fetch_per_machine; /* samples a second */
} lk_rent_loader;
lk_status lk_rent_loader_of(const lk_rent_request *request, lk_rent_loader *out, lk_error *err);

/* ---- rent_rates.c ---- */

/* A job on so many machines of a kind: what does not depend on who rents them out. */
typedef struct lk_rent_rate {
	const char *cluster;     /* the synthetic form, which tells kinds apart */
	int gpus, machines, batch;
	/* answer */
	bool fits;
	double step_s, low_s, high_s; /* without preparation */
	const char *layout, *reproduce;
	const char *stall;
	double stall_s;
	int seq;
	const char *model;
	char why[200];           /* where it does not fit */
} lk_rent_rate;
typedef LK_VEC(lk_rent_rate) lk_rent_rates;

/* Every machine count and batch worth a look for every kind of machine among the offers, answered on all cores. */
lk_status lk_rent_rates_of(const lk_rent_request *request, const lk_offers *offers, lk_arena *arena, lk_rent_rates *out,
                           lk_error *err);

/* ---- rent_choose.c ---- */

/* Fills choices, cheapest, fastest, ties and what they are told apart by. */
lk_status lk_rent_choose(const lk_rent_request *request, const lk_offers *offers, const lk_rent_rates *rates, lk_arena *arena,
                         lk_rent *out, lk_error *err);

#endif
