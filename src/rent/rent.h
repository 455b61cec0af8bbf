/* rent.h: shared by the files of rent. rent_offers.c gathers machines, rent_stalls.c reads the
 * speed of data preparation, rent_rates.c finds a job's speed on a number of machines, rent_terms.c
 * has the terms of renting, rent_choose.c weighs prices against hours, rent_search.c tries
 * increasing numbers of machines, rent.c puts it together; rent_options.c has the tables of
 * options. */
#ifndef LK_RENT_RENT_H
#define LK_RENT_RENT_H

#include "system/cutoff.h"
#include "base/vec.h"
#include "hw/hw.h"
#include "io/stream.h"
#include "lockstep/plan.h"
#include "lockstep/rent.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

/* Whether the training has a length; otherwise it runs as long as deadline and budget allow. */
static inline bool lk_rent_has_length(const lk_rent_request *request) {
	return request->tokens > 0 || request->samples > 0;
}

/* ---- offers: machines that can be rented, with prices. The project's own list is
 * data/instances.csv; SkyPilot's catalogues of AWS, GCP, Azure and Lambda are read too. */

/* Prices are US dollars per machine and hour; NAN: not offered or not stated. */
typedef struct lk_offer {
	const char *provider, *instance, *region;
	const char *gpu;         /* name in the catalogue, or as in the list if unknown */
	const lk_device *device; /* NULL: unknown */
	int gpus;
	const char *links; /* "nvlink", "xgmi", "pcie"; "" one GPU, or not stated */
	const char *nic;   /* of a job between machines: "4*100g efa"; "" not stated */
	double vcpus, memory_gib, nvme_gb, network_gbps; /* NAN: not stated */
	double on_demand, spot, block;                   /* block: paid in advance, for whole days */
	double power_usd; /* power's part of on_demand, for owned machines; else 0 */
	const char *date; /* of the prices: "2026-07-20", "undated" */
	const char *source;
	const char *block_date, *block_source; /* of that price; "": not stated */
	/* filled by rent_search.c */
	int gpus_searched;      /* the most GPUs tried */
	const char *search_end; /* why the search stopped there, as in lk_rent_choice */
	bool unfinished;        /* a limit ended it: more could change the cheapest or the fastest */
} lk_offer;
typedef LK_VEC(lk_offer) lk_offers;

enum {
	LK_OFFER_OLD_DAYS = 90 /* older prices are marked */
};

/* An invalid row, which is left out. */
typedef struct lk_offer_fault {
	const char *where, *why;
} lk_offer_fault;
typedef LK_VEC(lk_offer_fault) lk_offer_faults;

/* Read a list in the project's own form. `mains`: defaults for rows of owned machines. */
lk_status lk_offers_read(lk_stream *in, const lk_mains *mains, lk_arena *arena, lk_offers *out,
                         lk_offer_faults *faults, lk_error *err);
/* data/instances.csv. */
lk_status lk_offers_builtin(lk_arena *arena, lk_offers *out, lk_offer_faults *faults,
                            lk_error *err);
/* Read SkyPilot's vms.csv (InstanceType, AcceleratorName, AcceleratorCount, vCPUs, MemoryGiB,
 * Price, SpotPrice, Region, ...); `provider` names its cloud, `date` when it was fetched. Of the
 * zones of a region the cheapest spot price counts. GCP's rows of accelerators are added to their
 * host's. Links and network, which such lists do not state, are taken from the project's own list
 * if it has the instance. */
lk_status lk_offers_skypilot(lk_stream *in, const char *provider, const char *date, lk_arena *arena,
                             lk_offers *out, lk_offer_faults *faults, lk_error *err);
/* Check the date of a price: of the form 2026-07-20 and not in the future, or "undated". */
lk_status lk_offer_date_check(const char *date, const char *where, lk_error *err);
/* Rules that a price list breaks only by mistake: on demand costs at least as much as spot; a price
 * is positive and below 60 dollars per GPU and hour; regions differ by less than a factor of three.
 * Offers that break one are removed. */
lk_status lk_offers_check(lk_arena *arena, lk_offers *offers, lk_offer_faults *faults,
                          lk_error *err);

/* A cluster of `machines` machines in the synthetic form; NULL when memory runs out. */
const char *lk_offer_cluster(const lk_offer *offer, int machines, lk_arena *arena);

/* ---- rent_offers.c ---- */

/* The offers selected by a request, in the order of their list. None is LK_ERR_INPUT. */
lk_status lk_rent_offers(const lk_machines_request *request, const lk_mains *mains, lk_arena *arena,
                         lk_offers *out, lk_offer_faults *faults, lk_error *err);

/* ---- rent_stalls.c ---- */

/* Speed of data preparation; NAN: no known limit. */
typedef struct lk_rent_loader {
	bool pipelined;                             /* concurrent with the step; else before it */
	double prepare_per_core, fetch_per_machine; /* samples per second */
} lk_rent_loader;
lk_status lk_rent_loader_of(const lk_rent_request *request, lk_rent_loader *out, lk_error *err);

/* ---- rent_rates.c ---- */

/* A job on a number of machines of a kind: independent of the provider. */
typedef struct lk_rent_rate {
	const char *cluster; /* the synthetic form, which identifies the kind */
	const lk_device *device;
	int gpus, machines, batch;
	double slowest_s; /* longer steps are of no interest; 0: no limit */
	/* answer */
	bool fits;
	bool slower;                  /* what may fit takes longer than slowest_s */
	bool late;                    /* not tried: out of time */
	double step_s, low_s, high_s; /* without preparation */
	const char *layout, *reproduce;
	const char *stall;
	double stall_s;
	double checkpoint_bytes;
	lk_energy energy; /* of the step */
	int seq;
	const char *model, *warning;
	const char *assumed;      /* assumptions of its plan, joined by "; "; NULL: none */
	const char *unit;         /* the meaning of a sample */
	const char *failed_check; /* of its plan */
	char why[200];            /* if it does not fit */
} lk_rent_rate;
typedef LK_VEC(lk_rent_rate) lk_rent_rates;

enum {
	LK_RENT_BATCHES = 16,
	LK_RENT_GPUS = 65536 /* the most in one choice */
};
typedef struct lk_rent_batches {
	int at[LK_RENT_BATCHES], count;
} lk_rent_batches;
lk_status lk_rent_batches_read(const char *text, lk_rent_batches *out, lk_error *err);
/* Add this many machines of an offer, with every batch, unless present. `slowest_s` [batches]:
 * longer steps are of no interest; NULL: no limits. */
lk_status lk_rent_rates_add(const lk_offer *offer, int machines, const lk_rent_batches *batches,
                            const double *slowest_s, lk_arena *arena, lk_rent_rates *out,
                            lk_error *err);
/* Compute the rates from number `from` on, on all cores; those left out by the cutoff are late. */
lk_status lk_rent_rates_answer(const lk_rent_request *request, size_t from, const lk_cutoff *cutoff,
                               lk_arena *arena, lk_rent_rates *rates, lk_error *err);
/* The least work per sample on a device, for any layout and number of GPUs. */
typedef struct lk_rent_least {
	const lk_device *device;
	lk_plan_work work; /* infinite: unknown */
} lk_rent_least;
/* Find it for all devices, on all cores; `batch`: the largest acceptable. */
lk_status lk_rent_least_find(const lk_rent_request *request, int batch, lk_rent_least *least,
                             size_t count, lk_error *err);
/* The next rate of a cluster from number *from on, which is advanced past it; or NULL. */
const lk_rent_rate *lk_rent_rates_next(const lk_rent_rates *rates, const char *cluster,
                                       size_t *from);

/* ---- rent_terms.c ---- */

/* The price per machine and hour, on the terms of the request; NAN: not offered on them. */
double lk_rent_price(const lk_rent_request *request, const lk_offer *offer);
/* The most machines sold together. */
int lk_rent_most_machines(const lk_rent_request *request);
/* The hours paid for this many used. */
double lk_rent_hours_paid(const lk_rent_request *request, double hours);
/* The most hours that can be bought if this many can be paid. */
double lk_rent_hours_sold(const lk_rent_request *request, double hours);

/* ---- rent_choose.c ---- */

/* The share of time on rented machines not lost to interruptions and failures; 0: everything is
 * lost. */
double lk_rent_goodput(const lk_rent_request *request, const lk_rent_rate *rate);
/* An offer at a rate: hours, dollars and training done. False if it does not fit, or has no price
 * or no goodput. */
bool lk_rent_choice_of(const lk_rent_request *request, const lk_rent_loader *loader,
                       const lk_offer *offer, const lk_rent_rate *rate, lk_rent_choice *out);
/* The same by the hour, whatever the terms: a bound, as no fewer hours are paid, and no more can be
 * bought. */
bool lk_rent_choice_by_hour(const lk_rent_request *request, const lk_rent_loader *loader,
                            const lk_offer *offer, const lk_rent_rate *rate, lk_rent_choice *out);
/* Fill choices, cheapest, fastest, ties and the errors that separate them, from the present rates.
 * `useless`: those left out because interruptions leave no time, in words; NULL none. */
lk_status lk_rent_choose(const lk_rent_request *request, const lk_offers *offers,
                         const lk_rent_rates *rates, lk_arena *arena, lk_rent *out,
                         const char **useless, lk_error *err);

/* ---- rent_search.c ---- */

/* Find rates of every offer, from one machine in doubles as far as budget and deadline may require;
 * stores how far that was in the offers. *cut_off: as in lk_rent. */
lk_status lk_rent_search(const lk_rent_request *request, lk_offers *offers, lk_arena *arena,
                         lk_rent_rates *rates, const char **cut_off, lk_error *err);
/* Describe the end of the search for the whole answer, in words. */
lk_status lk_rent_search_describe(const lk_rent_request *request, const lk_offers *offers,
                                  lk_arena *arena, lk_rent *out, lk_error *err);

/* ---- functions ---- */

/* rent_functions.c: answer request->map. LK_ERR_INPUT: invalid words, or incompatible options;
 * LK_ERR_MEMORY. */
lk_status lk_rent_map(const lk_rent_request *request, lk_arena *arena, lk_rent *out, lk_error *err);
/* When this many calls, all made at once, have ended; *instances: instances started. */
double lk_rent_calls_s(double calls, double call_s, double cold_s, double concurrency,
                       double *instances);

#endif
