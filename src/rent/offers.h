/* offers.h: machines that can be rented, with prices. The project's own list is data/instances.csv; SkyPilot's catalogues of
 * AWS, GCP, Azure and Lambda are read too. */
#ifndef LK_PLAN_OFFERS_H
#define LK_PLAN_OFFERS_H

#include "base/arena.h"
#include "io/stream.h"
#include "base/vec.h"
#include "hw/hw.h"

/* Prices are US dollars per machine and hour; NAN: not offered or not stated. */
typedef struct lk_offer {
	const char *provider, *instance, *region;
	const char *gpu;         /* name in the catalogue, or as the list has it where it is not known */
	const lk_device *device; /* NULL: not known */
	int gpus;
	const char *links;       /* "nvlink", "xgmi", "pcie"; "" one GPU, or not stated */
	double vcpus, memory_gib, nvme_gb, network_gbps; /* NAN: not stated */
	double on_demand, spot;
	const char *date;        /* of the prices: "2026-07-20", "undated" */
	const char *source;
} lk_offer;
typedef LK_VEC(lk_offer) lk_offers;

/* A row that cannot be, and is left out. */
typedef struct lk_offer_fault {
	const char *where, *why;
} lk_offer_fault;
typedef LK_VEC(lk_offer_fault) lk_offer_faults;

/* A list of the project's own form. */
lk_status lk_offers_read(lk_stream *in, lk_arena *arena, lk_offers *out, lk_offer_faults *faults, lk_error *err);
/* data/instances.csv. */
lk_status lk_offers_builtin(lk_arena *arena, lk_offers *out, lk_offer_faults *faults, lk_error *err);
/* SkyPilot's vms.csv (InstanceType, AcceleratorName, AcceleratorCount, vCPUs, MemoryGiB, Price, SpotPrice, Region, ...);
 * `provider` names whose it is, `date` when it was fetched. Of the zones of a region the cheapest spot price counts. GCP's
 * rows of accelerators are added to their host's. Links and network, which such lists do not state, are taken from the
 * project's own list where it has the instance. */
lk_status lk_offers_skypilot(lk_stream *in, const char *provider, const char *date, lk_arena *arena, lk_offers *out,
                             lk_offer_faults *faults, lk_error *err);
/* Rules that no price list breaks but by mistake: on demand costs at least what spot does; a price is above nothing and below
 * 60 dollars per GPU and hour; regions differ by less than a factor of three. Offers that break one are taken out. */
lk_status lk_offers_check(lk_arena *arena, lk_offers *offers, lk_offer_faults *faults, lk_error *err);

/* What a machine counts as in a cluster of `machines`, in the synthetic form; NULL where the memory is out. */
const char *lk_offer_cluster(const lk_offer *offer, int machines, lk_arena *arena);

#endif
