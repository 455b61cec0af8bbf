/* offers_skypilot.c: SkyPilot's catalogues (~/.sky/catalogs/v8/CLOUD/vms.csv). Four dialects of one
 * table: AWS, Azure and Lambda name instance, GPU and price in one row; GCP has rows of hosts, and
 * rows of GPUs without an instance, whose prices are added to the host that takes them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "io/csv.h"
#include "base/sort.h"
#include "rent/rent.h"

enum { ROWS = 500000 };
enum { TYPE, GPU, COUNT, PRICE, REGION, NEEDED, VCPUS = NEEDED, MEMORY, SPOT, COLUMNS };
static const char *const columns[COLUMNS] = {
	"InstanceType", "AcceleratorName", "AcceleratorCount", "Price",
	"Region",       "vCPUs",           "MemoryGiB",        "SpotPrice",
};

/* Which host of GCP takes which GPUs (Google Cloud, "GPU machine types"). */
static const struct {
	const char *gpu;
	int count;
	const char *host;
} hosts[] = {
	{"A100", 1, "a2-highgpu-1g"},
	{"A100", 2, "a2-highgpu-2g"},
	{"A100", 4, "a2-highgpu-4g"},
	{"A100", 8, "a2-highgpu-8g"},
	{"A100", 16, "a2-megagpu-16g"},
	{"A100-80GB", 1, "a2-ultragpu-1g"},
	{"A100-80GB", 2, "a2-ultragpu-2g"},
	{"A100-80GB", 4, "a2-ultragpu-4g"},
	{"A100-80GB", 8, "a2-ultragpu-8g"},
	{"H100", 1, "a3-highgpu-1g"},
	{"H100", 2, "a3-highgpu-2g"},
	{"H100", 4, "a3-highgpu-4g"},
	{"H100", 8, "a3-highgpu-8g"},
	{"H100-MEGA", 8, "a3-megagpu-8g"},
	{"H100-MEGA-80GB", 8, "a3-megagpu-8g"},
	{"H200", 8, "a3-ultragpu-8g"},
	{"B200", 8, "a4-highgpu-8g"},
	{"L4", 1, "g2-standard-4"},
	{"L4", 2, "g2-standard-24"},
	{"L4", 4, "g2-standard-48"},
	{"L4", 8, "g2-standard-96"},
	{"V100", 1, "n1-highmem-8"},
	{"V100", 2, "n1-highmem-16"},
	{"V100", 4, "n1-highmem-32"},
	{"V100", 8, "n1-highmem-64"},
	{"T4", 1, "n1-highmem-8"},
	{"T4", 2, "n1-highmem-16"},
	{"T4", 4, "n1-highmem-32"},
	{"P100", 1, "n1-highmem-8"},
	{"P100", 2, "n1-highmem-16"},
	{"P100", 4, "n1-highmem-32"},
	{"K80", 1, "n1-highmem-8"},
	{"K80", 2, "n1-highmem-16"},
	{"K80", 4, "n1-highmem-32"},
	{"K80", 8, "n1-highmem-64"},
};

static const char *skypilot_host_of(const char *gpu, int count) {
	for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
		if (strcmp(hosts[i].gpu, gpu) == 0 && hosts[i].count == count) return hosts[i].host;
	return NULL;
}

struct row {
	lk_offer offer; /* instance "" for GCP's GPUs; gpus 0 for hosts */
	const char *where;
};
typedef LK_VEC(struct row) rows;

/* ---- reading ---- */

/* Names depend on the list's memory sizes: SkyPilot's "A100" has 40 GB, "A100-80GB" 80. */
static const lk_device *skypilot_device_of(const char *name) {
	if (strcmp(name, "A100") == 0) return lk_device_find("a100-sxm-40");
	return lk_device_find(name);
}

static lk_status skypilot_read_row(const lk_csv *csv, const int *at, const char *provider,
                                   const char *date, lk_arena *arena, struct row *out,
                                   lk_error *err) {
	lk_offer *offer = &out->offer;
	double gpus;
	LK_TRY(lk_csv_real(csv, at[COUNT], 0, 1e9, &gpus, err));
	LK_TRY(lk_csv_real(csv, at[PRICE], 0, 1e9, &offer->on_demand, err));
	LK_TRY(lk_csv_real(csv, at[SPOT], 0, 1e9, &offer->spot, err));
	offer->block = NAN;
	LK_TRY(lk_csv_real(csv, at[VCPUS], 0, 1e9, &offer->vcpus, err));
	LK_TRY(lk_csv_real(csv, at[MEMORY], 0, 1e9, &offer->memory_gib, err));
	offer->provider = provider;
	offer->date = date;
	offer->links = "";
	offer->nic = "";
	offer->source = "SkyPilot's catalogue";
	offer->nvme_gb = offer->network_gbps = NAN;
	offer->instance = lk_arena_strdup(arena, lk_csv_field(csv, at[TYPE]));
	offer->gpu = lk_arena_strdup(arena, lk_csv_field(csv, at[GPU]));
	offer->region = lk_arena_strdup(arena, lk_csv_field(csv, at[REGION]));
	out->where = lk_arena_strdup(arena, lk_csv_where(csv));
	if (!offer->instance || !offer->gpu || !offer->region || !out->where) return lk_oom(err);
	/* Fractions of a GPU (0.5 of an A10) are not supported; they are left out with the hosts. */
	offer->gpus = gpus >= 1 && gpus <= 1024 && gpus == floor(gpus) ? (int)gpus : 0;
	offer->device = skypilot_device_of(offer->gpu);
	return LK_OK;
}

struct reading {
	const char *provider, *date;
	lk_arena *arena;
	rows *out;
};

static lk_status skypilot_add_row(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct reading *reading = context;
	return lk_push(reading->out) ? skypilot_read_row(csv, at, reading->provider, reading->date,
	                                                 reading->arena, lk_last(reading->out), err)
	                             : lk_oom(err);
}

/* ---- zones and hosts ---- */

static int skypilot_by_place(const void *a, const void *b) {
	const lk_offer *x = &((const struct row *)a)->offer, *y = &((const struct row *)b)->offer;
	int order = strcmp(x->instance, y->instance);
	if (!order) order = strcmp(x->gpu, y->gpu);
	if (!order) order = (x->gpus > y->gpus) - (x->gpus < y->gpus);
	return order ? order : strcmp(x->region, y->region);
}

/* Join the zones of a region to one row: the lowest prices. */
static void join_zones(rows *all) {
	size_t kept = 0;
	lk_sort(all->at, all->count, sizeof *all->at, skypilot_by_place);
	for (size_t i = 0; i < all->count; i++) {
		struct row *last = kept ? &all->at[kept - 1] : NULL;
		if (!last || skypilot_by_place(last, &all->at[i]) != 0) {
			all->at[kept++] = all->at[i];
			continue;
		}
		last->offer.spot = fmin(last->offer.spot, all->at[i].offer.spot);
		last->offer.on_demand = fmin(last->offer.on_demand, all->at[i].offer.on_demand);
	}
	all->count = kept;
}

static const lk_offer *find_host(const rows *all, const char *instance, const char *region) {
	struct row key = {.offer = {.instance = instance, .gpu = "", .region = region}};
	const struct row *found =
		all->count ? bsearch(&key, all->at, all->count, sizeof *all->at, skypilot_by_place) : NULL;
	return found ? &found->offer : NULL;
}

static lk_status skypilot_report(lk_offer_faults *faults, const char *where, const char *why,
                                 lk_error *err) {
	if (!lk_push(faults)) return lk_oom(err);
	*lk_last(faults) = (lk_offer_fault){where, why};
	return LK_OK;
}

static lk_status skypilot_add_host(const rows *all, const struct row *row, lk_offer *offer,
                                   bool *sound, lk_offer_faults *faults, lk_error *err) {
	const char *name = skypilot_host_of(offer->gpu, offer->gpus);
	const lk_offer *host = name ? find_host(all, name, offer->region) : NULL;
	*sound = false;
	if (!name)
		return skypilot_report(faults, row->where, "names GPUs without an instance that takes them",
		                       err);
	if (!host || !(host->on_demand > 0))
		return skypilot_report(faults, row->where,
		                       "the price of the host is not stated, or nothing", err);
	offer->instance = name;
	offer->on_demand += host->on_demand;
	offer->spot += host->spot;
	offer->vcpus = host->vcpus;
	offer->memory_gib = host->memory_gib;
	*sound = true;
	return LK_OK;
}

/* Take what price lists lack from the project's own. */
static void take_wiring(const lk_offers *known, lk_offer *offer) {
	for (size_t i = 0; i < known->count; i++) {
		const lk_offer *k = &known->at[i];
		if (strcmp(k->provider, offer->provider) != 0 ||
		    strcmp(k->instance, offer->instance) != 0 || k->gpus != offer->gpus)
			continue;
		if (k->device && offer->device && k->device != offer->device) {
			offer->device = k->device;
			offer->gpu = k->gpu;
		}
		offer->links = k->links;
		offer->nic = k->nic;
		offer->network_gbps = k->network_gbps;
		offer->nvme_gb = k->nvme_gb;
		return;
	}
}

static lk_status to_offers(rows *all, lk_arena *arena, lk_offers *out, lk_offer_faults *faults,
                           lk_error *err) {
	lk_offers known = {0};
	lk_offer_faults unused = {0};
	join_zones(all);
	lk_status status = lk_offers_builtin(arena, &known, &unused, err);
	for (size_t i = 0; status == LK_OK && i < all->count; i++) {
		lk_offer o = all->at[i].offer;
		bool sound = true;
		if (!o.gpus || !*o.gpu) continue;
		if (!*o.instance) status = skypilot_add_host(all, &all->at[i], &o, &sound, faults, err);
		if (status != LK_OK || !sound) continue;
		take_wiring(&known, &o);
		if (lk_push(out)) *lk_last(out) = o;
		else status = lk_oom(err);
	}
	lk_vec_free(&known);
	lk_vec_free(&unused);
	return status;
}

lk_status lk_offers_skypilot(lk_stream *in, const char *provider, const char *date, lk_arena *arena,
                             lk_offers *out, lk_offer_faults *faults, lk_error *err) {
	const lk_csv_table table = {columns, COLUMNS,          NEEDED, "catalogue of SkyPilot",
	                            ROWS,    skypilot_add_row, NULL};
	rows all = {0};
	lk_status status = lk_csv_read(in, &table, &(struct reading){provider, date, arena, &all}, err);
	if (status == LK_OK) status = to_offers(&all, arena, out, faults, err);
	lk_vec_free(&all);
	return status == LK_OK ? lk_offers_check(arena, out, faults, err) : status;
}
