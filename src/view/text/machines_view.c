/* machines_view.c: machines with prices. No price without its currency, date and source. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/sort.h"
#include "base/text.h"
#include "rent/rent.h"
#include "view/text/views.h"

#define OFFER(member) LK_AT(lk_offer, member)

/* ---- fields ---- */

static void find_usd_per_gpu(const lk_subject *subject, lk_field_value *found) {
	const lk_offer *offer = subject->record;
	LK_ASSERT(offer->gpus > 0);
	found->number = offer->on_demand / offer->gpus;
}

static void find_age(const lk_subject *subject, lk_field_value *found) {
	char number[24];
	found->number = lk_days_since(((const lk_offer *)subject->record)->date);
	snprintf(found->shown, sizeof found->shown, "%s d",
	         lk_fixed(found->number, 0, number, sizeof number));
}

static void find_old(const lk_subject *subject, lk_field_value *found) {
	double days = lk_days_since(((const lk_offer *)subject->record)->date);
	if (isnan(days)) found->text = "no date";
	else if (days > LK_OFFER_OLD_DAYS) found->text = "old";
}

static bool has_block(const lk_subject *subject) {
	return !isnan(((const lk_offer *)subject->record)->block);
}

/* The price of a block with its date, for people. */
static void find_dated_block(const lk_subject *subject, lk_field_value *found) {
	const lk_offer *offer = subject->record;
	char text[80];
	found->number = offer->block;
	snprintf(found->shown, sizeof found->shown, "%s of %s",
	         lk_format_dollars(offer->block, text, sizeof text), offer->block_date);
}

/* The number of the price list, which the listing counts. */
static void find_list(const lk_subject *subject, lk_field_value *found) {
	found->number = (double)*(const size_t *)subject->context;
}

static const lk_answer_field offer_fields[] = {
	{"gpu", "GPU", OFFER(gpu)},
	{"gpus", "GPUs", OFFER(gpus)},
	{"provider", "provider", OFFER(provider)},
	{"instance", "instance", OFFER(instance)},
	{"region", "region", OFFER(region), .known = LK_UNLESS_ZERO},
	{"vcpus", "vCPUs", OFFER(vcpus), .shown = lk_whole},
	{"memory_gib", "memory GiB", OFFER(memory_gib), .shown = lk_whole},
	{"nvme_gb", "NVMe GB", OFFER(nvme_gb), .shown = lk_whole, .hidden = true},
	{"links", "links", OFFER(links), .known = LK_UNLESS_ZERO},
	{"network_gbps", "network Gbit/s", OFFER(network_gbps), .shown = lk_format_shortest},
	{"on_demand_usd_h", "on demand /h", OFFER(on_demand), .shown = lk_format_dollars},
	{"spot_usd_h", "spot /h", OFFER(spot), .shown = lk_format_dollars},
	{"usd_h_per_gpu", "per GPU", LK_FIELD_REAL, .get = find_usd_per_gpu,
     .shown = lk_format_dollars},
	{"date", "price of", OFFER(date)},
	{"age_days", "age", LK_FIELD_REAL, .get = find_age},
	{"old", "", LK_FIELD_TEXT, .get = find_old},
	{"source", "source", OFFER(source)},
	{"block_usd_h", "block /h", OFFER(block), .shown = lk_format_dollars},
	{"block_date", "of", OFFER(block_date), .there = has_block},
};
static const lk_answer_record offer_record = {LK_RECORD(lk_offer, offer_fields)};

/* What the page for people adds; of two rows with one key the first is found. */
static const lk_answer_field listed_fields[] = {
	{"block_usd_h", "block", LK_FIELD_REAL, .get = find_dated_block},
	{"list", "", LK_FIELD_INT, .get = find_list},
	{LK_HERE(offer_record)},
};
static const lk_answer_record listed_record = {LK_RECORD(lk_offer, listed_fields)};

/* ---- tables ---- */

/* Offers without a price come last. */
static double price_to_order(const lk_offer *offer) {
	return isnan(offer->on_demand) ? INFINITY : offer->on_demand;
}

static int by_gpu(const void *a, const void *b) {
	const lk_offer *x = a, *y = b;
	int order = strcmp(x->gpu, y->gpu);
	if (!order) order = (x->gpus > y->gpus) - (x->gpus < y->gpus);
	if (order) return order;
	double p = price_to_order(x), q = price_to_order(y);
	if (p != q) return p < q ? -1 : 1;
	order = strcmp(x->instance, y->instance);
	return order ? order : strcmp(x->region, y->region);
}

static lk_table *machine_table(lk_offers *offers, bool age) {
	static const char *const keys[] = {
		"gpu",           "gpus",    "provider", "instance",     "region",          "vcpus",
		"memory_gib",    "nvme_gb", "links",    "network_gbps", "on_demand_usd_h", "spot_usd_h",
		"usd_h_per_gpu", "date",    "source",   "block_usd_h",  "block_date",      NULL};
	static const lk_columns plain = {"machines", &offer_record, .keys = keys},
							aged = {"machines", &offer_record, .keys = NULL};
	lk_sort(offers->at, offers->count, sizeof *offers->at, by_gpu);
	return lk_fields_rows(age ? &aged : &plain, NULL, offers->at, (int)offers->count);
}

/* ---- machines for people: prices by number, and where they come from below ---- */

/* Sources and dates of prices. */
struct price_lists {
	LK_VEC(const lk_offer *) first; /* of each its first offer */
};

/* The number of an offer's source and date, from 1; 0: memory ran out. */
static size_t price_list_of(struct price_lists *lists, const lk_offer *offer) {
	for (size_t i = 0; i < lists->first.count; i++)
		if (strcmp(lists->first.at[i]->source, offer->source) == 0 &&
		    strcmp(lists->first.at[i]->date, offer->date) == 0)
			return i + 1;
	if (!lk_push(&lists->first)) return 0;
	*lk_last(&lists->first) = offer;
	return lists->first.count;
}

static lk_table *listing_machines(lk_offers *offers, struct price_lists *lists) {
	static const char *const keys[] = {"gpu",
	                                   "gpus",
	                                   "provider",
	                                   "instance",
	                                   "region",
	                                   "vcpus",
	                                   "memory_gib:GiB",
	                                   "links",
	                                   "network_gbps:Gbit/s",
	                                   "on_demand_usd_h:an hour",
	                                   "spot_usd_h:spot",
	                                   "block_usd_h",
	                                   "usd_h_per_gpu:a GPU",
	                                   "list:from",
	                                   NULL};
	static const lk_columns columns = {"machines", &listed_record, .keys = keys};
	lk_table *table = lk_fields_table(&columns);
	lk_sort(offers->at, offers->count, sizeof *offers->at, by_gpu);
	for (size_t i = 0; table && i < offers->count; i++) {
		size_t list = price_list_of(lists, &offers->at[i]);
		lk_fields_row(table, &columns, &(lk_subject){NULL, &offers->at[i], (int)i, &list});
		if (list) continue;
		lk_table_free(table);
		return NULL;
	}
	if (table) lk_table_hide_empty(table);
	return table;
}

static lk_table *listing_prices(const struct price_lists *lists, bool age) {
	static const char *const keys[] = {"list", "source:prices from", "date:of", "age_days", "old",
	                                   NULL};
	static const lk_columns columns = {"prices", &listed_record, .keys = keys};
	lk_table *table = lk_fields_table(&columns);
	for (size_t i = 0; i < lists->first.count; i++) {
		size_t list = i + 1;
		lk_fields_row(table, &columns, &(lk_subject){NULL, lists->first.at[i], (int)i, &list});
	}
	lk_table_hide(table, "age_days", !age);
	lk_table_hide(table, "old", !age);
	return table;
}

static lk_status listing_put(lk_offers *offers, bool age, bool colour, FILE *out, lk_error *err) {
	static const char *const extras[] = {"links",  "vcpus",       "memory_gib",    "network_gbps",
	                                     "region", "block_usd_h", "usd_h_per_gpu", NULL};
	struct price_lists lists = {0};
	lk_status status =
		lk_put_fitted(listing_machines(offers, &lists), extras, "-v", colour, out, err);
	if (status == LK_OK) {
		fputc('\n', out);
		status = lk_put_table(listing_prices(&lists, age), colour, out, err);
	}
	lk_vec_free(&lists.first);
	return status;
}

struct listing {
	lk_offers *offers;
	const lk_offer_faults *faults;
	bool verbose, age;
};

static lk_status write_listing(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct listing *listing = what;
	LK_TRY(listing->verbose
	           ? lk_put_table(machine_table(listing->offers, listing->age), colour, out, err)
	           : listing_put(listing->offers, listing->age, colour, out, err));
	fputs("\nList prices in US dollars per machine and hour, with date and source "
	      "(data/instances.csv says more).\n",
	      out);
	if (listing->faults->count)
		fprintf(out, "%zu offers were left out, whose prices cannot be%s\n", listing->faults->count,
		        listing->verbose ? ":" : " (-v names them)");
	for (size_t i = 0; listing->verbose && i < listing->faults->count; i++) {
		LK_TRY(lk_put_safe(listing->faults->at[i].where, out, err));
		fputs(": ", out);
		LK_TRY(lk_put_safe(listing->faults->at[i].why, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

lk_status lk_machines_print(const lk_machines_request *request, int format, bool verbose,
                            bool colour, const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	lk_arena arena = LK_ARENA_INIT;
	lk_offers offers = {0};
	lk_offer_faults faults = {0};
	lk_status status = lk_writing_check(&w, err);
	if (status == LK_OK)
		status = lk_rent_offers(request, &(lk_mains){0}, &arena, &offers, &faults, err);
	struct listing l = {&offers, &faults, verbose, request->age};
	if (status == LK_OK)
		status = format == LK_FORMAT_TEXT
		             ? lk_write_through(&w, write_listing, &l, err)
		             : lk_write_table(&w, machine_table(&offers, request->age), err);
	lk_vec_free(&offers);
	lk_vec_free(&faults);
	lk_arena_free(&arena);
	return status;
}
