/* offers.c: the project's own list of machines, and consistency rules of prices. An owned machine
 * has its cost and power instead of a price:
 *
 *     dollars an hour = capital / (life x share of its hours that are used) + power x PUE x
 * $/kWh */
#include "base/arena.h"
#include "rent/rent.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/csv.h"
#include "base/text.h"
#include "base/noun.h"
#include "base/sort.h"
#include "io/embedded.h"
#include "step/energy.h"

enum { ROWS = 200000 };
enum {
	PROVIDER,
	INSTANCE,
	REGION,
	GPU,
	GPUS,
	ON_DEMAND,
	DATE,
	SOURCE,
	NEEDED,
	LINKS = NEEDED,
	VCPUS,
	MEMORY,
	NVME,
	NETWORK,
	SPOT,
	SPOT_SOURCE, /* for users, like the next one */
	NETWORK_SOURCE,
	CAPITAL, /* of owned machines */
	LIFE,
	USED,
	POWER,
	USD_KWH,
	PUE,
	BLOCK, /* sold in blocks of days */
	BLOCK_DATE,
	BLOCK_SOURCE,
	NIC,
	COLUMNS
};
static const char *const columns[COLUMNS] = {
	"provider",     "instance",   "region",      "gpu",
	"gpus",         "on_demand",  "date",        "source",
	"links",        "vcpus",      "memory_gib",  "nvme_gb",
	"network_gbps", "spot",       "spot_source", "network_source",
	"capital_usd",  "life_years", "used",        "power_kw",
	"usd_kwh",      "pue",        "block",       "block_date",
	"block_source", "nic",
};

/* ---- reading ---- */

static lk_status offers_text_of(const lk_csv *csv, const int *at, int column, lk_arena *arena,
                                const char **out, lk_error *err) {
	const char *text = lk_csv_field(csv, at[column]);
	if (!*text && column < NEEDED && column != REGION && column != ON_DEMAND)
		return lk_fail(err, LK_ERR_INPUT, lk_csv_where(csv), "column %s is empty", columns[column]);
	*out = lk_arena_strdup(arena, text);
	return *out ? LK_OK : lk_oom(err);
}

static const double HOURS_OF_A_YEAR = 8766;

/* Compute the price of an owned machine; others are unchanged. */
static lk_status offers_take_own(const lk_csv *csv, const int *at, const lk_mains *mains,
                                 lk_offer *offer, lk_error *err) {
	double own[COLUMNS];
	int stated = -1;
	for (int i = CAPITAL; i <= PUE; i++) {
		LK_TRY(lk_csv_real(csv, at[i], 0, 1e9, &own[i], err));
		if (!isnan(own[i])) stated = i;
	}
	if (stated < 0) return LK_OK;
	if (isnan(own[USD_KWH]) && mains->price_kwh > 0) own[USD_KWH] = mains->price_kwh;
	if (isnan(own[CAPITAL]) || !(own[LIFE] > 0) || isnan(own[USD_KWH])) {
		lk_fail(err, LK_ERR_INPUT, lk_csv_where(csv),
		        "column %s is of a machine of one's own, without its capital_usd, life_years and "
		        "usd_kwh",
		        columns[stated]);
		return lk_hint(err, "state all three; used, power_kw and pue have defaults");
	}
	if (!isnan(offer->on_demand) || !isnan(offer->spot) || !isnan(offer->block)) {
		lk_fail(err, LK_ERR_INPUT, lk_csv_where(csv), "has a price and capital_usd");
		return lk_hint(err, "leave on_demand, spot and block empty: the price follows from "
		                    "capital_usd");
	}
	if (isnan(own[POWER]))
		own[POWER] = offer->device ? lk_energy_machine_w(offer->device, offer->gpus) / 1000 : 0;
	if (!(own[POWER] > 0))
		return lk_fail(err, LK_ERR_INPUT, lk_csv_where(csv),
		               "column power_kw is empty, and the power of %s is not known", offer->gpu);
	double used = isnan(own[USED]) ? 1 : own[USED];
	double pue = isnan(own[PUE]) ? lk_energy_pue(mains) : own[PUE];
	if (!(used > 0 && used <= 1) || !(pue >= 1))
		return lk_fail(err, LK_ERR_INPUT, lk_csv_where(csv),
		               "used %g, pue %g: used is a share from 0 to 1, pue is 1 or more", used, pue);
	offer->power_usd = own[POWER] * pue * own[USD_KWH];
	offer->on_demand = own[CAPITAL] / (own[LIFE] * HOURS_OF_A_YEAR * used) + offer->power_usd;
	return LK_OK;
}

lk_status lk_offer_date_check(const char *date, const char *where, lk_error *err) {
	if (strcmp(date, "undated") == 0) return LK_OK;
	double age_days = lk_days_since(date);
	if (isnan(age_days)) {
		lk_fail(err, LK_ERR_INPUT, where, "\"%.40s\" is not a date", date);
		return lk_hint(err, "write it as 2026-07-20, or undated");
	}
	if (age_days < 0)
		return lk_fail(err, LK_ERR_INPUT, where, "%s is in the future; prices have been listed",
		               date);
	return LK_OK;
}

static lk_status offers_read_row(const lk_csv *csv, const int *at, const lk_mains *mains,
                                 lk_arena *arena, lk_offer *offer, lk_error *err) {
	const struct {
		int column;
		const char **text;
	} texts[] = {{PROVIDER, &offer->provider},
	             {INSTANCE, &offer->instance},
	             {REGION, &offer->region},
	             {GPU, &offer->gpu},
	             {DATE, &offer->date},
	             {SOURCE, &offer->source},
	             {LINKS, &offer->links},
	             {BLOCK_DATE, &offer->block_date},
	             {BLOCK_SOURCE, &offer->block_source},
	             {NIC, &offer->nic}};
	const struct {
		int column;
		double *number;
	} numbers[] = {{ON_DEMAND, &offer->on_demand}, {SPOT, &offer->spot},
	               {BLOCK, &offer->block},         {VCPUS, &offer->vcpus},
	               {MEMORY, &offer->memory_gib},   {NVME, &offer->nvme_gb},
	               {NETWORK, &offer->network_gbps}};
	long long gpus;
	char where[256];
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		LK_TRY(offers_text_of(csv, at, texts[i].column, arena, texts[i].text, err));
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		LK_TRY(lk_csv_real(csv, at[numbers[i].column], 0, 1e9, numbers[i].number, err));
	snprintf(where, sizeof where, "%.200s: column date", lk_csv_where(csv));
	LK_TRY(lk_offer_date_check(offer->date, where, err));
	if (!isnan(offer->block) && !*offer->block_date) offer->block_date = offer->date;
	if (!isnan(offer->block) && !*offer->block_source) offer->block_source = offer->source;
	snprintf(where, sizeof where, "%.200s: column block_date", lk_csv_where(csv));
	if (*offer->block_date) LK_TRY(lk_offer_date_check(offer->block_date, where, err));
	snprintf(where, sizeof where, "%.200s: column gpus", lk_csv_where(csv));
	LK_TRY(lk_parse_int(lk_csv_field(csv, at[GPUS]), 1, 1024, &gpus, where, err));
	offer->gpus = (int)gpus;
	offer->device = lk_device_find(offer->gpu);
	return offers_take_own(csv, at, mains, offer, err);
}

struct reading {
	const lk_mains *mains;
	lk_arena *arena;
	lk_offers *out;
};

static lk_status offers_add_row(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	struct reading *reading = context;
	return lk_push(reading->out) ? offers_read_row(csv, at, reading->mains, reading->arena,
	                                               lk_last(reading->out), err)
	                             : lk_oom(err);
}

static lk_status offers_head(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	(void)context, (void)at;
	return lk_csv_refuse_others(csv, columns, COLUMNS, "list of machines", err);
}

lk_status lk_offers_read(lk_stream *in, const lk_mains *mains, lk_arena *arena, lk_offers *out,
                         lk_offer_faults *faults, lk_error *err) {
	const lk_csv_table table = {columns, COLUMNS,        NEEDED,     "list of machines",
	                            ROWS,    offers_add_row, offers_head};
	LK_TRY(lk_csv_read(in, &table, &(struct reading){mains, arena, out}, err));
	return lk_offers_check(arena, out, faults, err);
}

lk_status lk_offers_builtin(lk_arena *arena, lk_offers *out, lk_offer_faults *faults,
                            lk_error *err) {
	lk_stream *in;
	LK_TRY(lk_data_open(NULL, "instances.csv", &in, err));
	lk_status status = lk_offers_read(in, &(lk_mains){0}, arena, out, faults, err);
	lk_stream_close(in);
	return status;
}

/* ---- rules ---- */

static const double HIGHEST_PER_GPU = 60, REGIONS_APART = 3;

static const char *offers_broken(const lk_offer *offer, double cheapest, lk_arena *arena) {
	if (offer->spot > offer->on_demand)
		return lk_arena_printf(
			arena, "spot costs $%.2f, on demand $%.2f: on demand is never the cheaper one",
			offer->spot, offer->on_demand);
	if (offer->on_demand <= 0 || offer->spot <= 0 || offer->block <= 0)
		return lk_arena_strdup(arena, "costs nothing");
	if (offer->on_demand > HIGHEST_PER_GPU * offer->gpus)
		return lk_arena_printf(arena, "$%.2f for %d %s is more than $%.0f each: a placeholder",
		                       offer->on_demand, offer->gpus, lk_noun(offer->gpus, "GPU", "GPUs"),
		                       HIGHEST_PER_GPU);
	if (offer->on_demand >= REGIONS_APART * cheapest)
		return lk_arena_printf(arena, "$%.2f here, $%.2f in another region", offer->on_demand,
		                       cheapest);
	return "";
}

static int by_instance(const void *a, const void *b) {
	const lk_offer *x = *(const lk_offer *const *)a, *y = *(const lk_offer *const *)b;
	int order = strcmp(x->provider, y->provider);
	if (!order) order = strcmp(x->instance, y->instance);
	if (!order) order = strcmp(x->gpu, y->gpu);
	return order ? order : (x->gpus > y->gpus) - (x->gpus < y->gpus);
}

static bool offers_same_machine(const lk_offer *a, const lk_offer *b) {
	return strcmp(a->provider, b->provider) == 0 && strcmp(a->instance, b->instance) == 0 &&
	       strcmp(a->gpu, b->gpu) == 0 && a->gpus == b->gpus;
}

/* For every offer, the lowest price of its machine over the regions. */
static lk_status cheapest_of(const lk_offers *offers, double *out, lk_error *err) {
	const lk_offer **order = calloc(offers->count + 1, sizeof *order);
	if (!order) return lk_oom(err);
	for (size_t i = 0; i < offers->count; i++) order[i] = &offers->at[i];
	lk_sort(order, offers->count, sizeof *order, by_instance);
	for (size_t i = 0, end; i < offers->count; i = end) {
		double cheapest = INFINITY;
		for (end = i; end < offers->count && offers_same_machine(order[end], order[i]); end++)
			if (order[end]->on_demand > 0) cheapest = fmin(cheapest, order[end]->on_demand);
		for (size_t k = i; k < end; k++) out[order[k] - offers->at] = cheapest;
	}
	free(order);
	return LK_OK;
}

static lk_status keep_sound(lk_arena *arena, lk_offers *offers, const double *cheapest,
                            lk_offer_faults *faults, lk_error *err) {
	size_t kept = 0;
	for (size_t i = 0; i < offers->count; i++) {
		const lk_offer *offer = &offers->at[i];
		const char *why = offers_broken(offer, cheapest[i], arena);
		if (!why) return lk_oom(err);
		if (!*why) {
			offers->at[kept++] = *offer;
			continue;
		}
		if (!lk_push(faults)) return lk_oom(err);
		lk_last(faults)->where =
			lk_arena_printf(arena, "%s %s%s%s", offer->provider, offer->instance,
		                    *offer->region ? ", " : "", offer->region);
		lk_last(faults)->why = why;
		if (!lk_last(faults)->where) return lk_oom(err);
	}
	offers->count = kept;
	return LK_OK;
}

lk_status lk_offers_check(lk_arena *arena, lk_offers *offers, lk_offer_faults *faults,
                          lk_error *err) {
	double *cheapest = LK_ARRAY(arena, double, offers->count + 1);
	if (!cheapest) return lk_oom(err);
	LK_TRY(cheapest_of(offers, cheapest, err));
	return keep_sound(arena, offers, cheapest, faults, err);
}

/* ---- as a cluster ---- */

const char *lk_offer_cluster(const lk_offer *offer, int machines, lk_arena *arena) {
	const char *links = offer->gpus > 1 && *offer->links ? offer->links : "";
	const char *name = offer->device ? offer->device->name : offer->gpu;
	if (machines == 1 || isnan(offer->network_gbps))
		return lk_arena_printf(arena, "%d node * %d %s%s%s", machines, offer->gpus, name,
		                       *links ? " " : "", links);
	if (*offer->nic)
		return lk_arena_printf(arena, "%d node * %d %s%s%s, nic %s", machines, offer->gpus, name,
		                       *links ? " " : "", links, offer->nic);
	/* A machine's network is one link to the job, or NICs of 400 Gbit/s if it is wider: then one
	 * per GPU. */
	int nics = offer->network_gbps > 400 ? offer->gpus : 1;
	return lk_arena_printf(arena, "%d node * %d %s%s%s, nic %d*%gg", machines, offer->gpus, name,
	                       *links ? " " : "", links, nics, offer->network_gbps / nics);
}
