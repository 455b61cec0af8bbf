/* rent_view.c: machines with prices; choices by cost and time. No price without its currency, date
 * and source. */
#include "lockstep/rent.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "io/json.h"
#include "base/noun.h"
#include "base/text.h"
#include "base/sort.h"
#include "rent/rent.h"
#include "view/table/output.h"
#include "view/table/table.h"
#include "view/text/views.h"

static void put_dollars(lk_table *table, double dollars) {
	char text[80];
	lk_table_number(table, dollars,
	                isnan(dollars) ? NULL : lk_format_dollars(dollars, text, sizeof text));
}

static void rent_view_put_whole(lk_table *table, double number) {
	char text[32];
	lk_table_number(table, number, isnan(number) ? NULL : lk_fixed(number, 0, text, sizeof text));
}

static lk_status rent_view_put_table(lk_table *table, bool colour, FILE *out, lk_error *err) {
	lk_status status =
		table ? lk_table_write(table, LK_FORMAT_TEXT, colour, out, err) : lk_oom(err);
	lk_table_free(table);
	return status;
}

/* ---- machines ---- */

static const lk_column machine_columns[] = {
	{"gpu", "GPU", false, false},
	{"gpus", "GPUs", true, false},
	{"provider", "provider", false, false},
	{"instance", "instance", false, false},
	{"region", "region", false, false},
	{"vcpus", "vCPUs", true, false},
	{"memory_gib", "memory GiB", true, false},
	{"nvme_gb", "NVMe GB", true, true},
	{"links", "links", false, false},
	{"network_gbps", "network Gbit/s", true, false},
	{"on_demand_usd_h", "on demand /h", true, false},
	{"spot_usd_h", "spot /h", true, false},
	{"usd_h_per_gpu", "per GPU", true, false},
	{"date", "price of", false, false},
	{"age_days", "age", true, false},
	{"old", "", false, false},
	{"source", "source", false, false},
	{"block_usd_h", "block /h", true, false},
	{"block_date", "of", false, false},
};
enum { MACHINE_COLUMNS = sizeof machine_columns / sizeof *machine_columns };

static void put_age(lk_table *table, const char *date) {
	double days = lk_days_since(date);
	char text[32], number[24];
	snprintf(text, sizeof text, "%s d", lk_fixed(days, 0, number, sizeof number));
	lk_table_number(table, days, isnan(days) ? NULL : text);
	lk_table_text(table, isnan(days) ? "no date" : days > LK_OFFER_OLD_DAYS ? "old" : NULL);
}

static int by_gpu(const void *a, const void *b) {
	const lk_offer *x = a, *y = b;
	int order = strcmp(x->gpu, y->gpu);
	if (!order) order = (x->gpus > y->gpus) - (x->gpus < y->gpus);
	if (order) return order;
	double p = isnan(x->on_demand) ? INFINITY : x->on_demand,
		   q = isnan(y->on_demand) ? INFINITY : y->on_demand;
	if (p != q) return p < q ? -1 : 1;
	order = strcmp(x->instance, y->instance);
	return order ? order : strcmp(x->region, y->region);
}

/* The cells that the wide table and the page of machines have in common. */
static void put_machine(lk_table *table, const lk_offer *offer) {
	lk_table_text(table, offer->gpu);
	lk_table_number(table, offer->gpus, NULL);
	lk_table_text(table, offer->provider);
	lk_table_text(table, offer->instance);
	lk_table_text(table, *offer->region ? offer->region : NULL);
	rent_view_put_whole(table, offer->vcpus);
	rent_view_put_whole(table, offer->memory_gib);
}

static void put_network_and_prices(lk_table *table, const lk_offer *offer) {
	char text[32];
	lk_table_text(table, *offer->links ? offer->links : NULL);
	lk_table_number(table, offer->network_gbps,
	                isnan(offer->network_gbps)
	                    ? NULL
	                    : lk_format_shortest(offer->network_gbps, text, sizeof text));
	put_dollars(table, offer->on_demand);
	put_dollars(table, offer->spot);
}

static lk_table *machine_table(lk_offers *offers, bool age) {
	lk_column columns[MACHINE_COLUMNS];
	int count = 0;
	for (int i = 0; i < MACHINE_COLUMNS; i++) {
		bool of_age = strcmp(machine_columns[i].key, "age_days") == 0 ||
		              strcmp(machine_columns[i].key, "old") == 0;
		if (age || !of_age) columns[count++] = machine_columns[i];
	}
	lk_table *table = lk_table_new("machines", columns, count);
	lk_sort(offers->at, offers->count, sizeof *offers->at, by_gpu);
	for (size_t i = 0; table && i < offers->count; i++) {
		const lk_offer *offer = &offers->at[i];
		lk_table_row(table);
		put_machine(table, offer);
		rent_view_put_whole(table, offer->nvme_gb);
		put_network_and_prices(table, offer);
		put_dollars(table, offer->on_demand / offer->gpus);
		lk_table_text(table, offer->date);
		if (age) put_age(table, offer->date);
		lk_table_text(table, offer->source);
		put_dollars(table, offer->block);
		lk_table_text(table, isnan(offer->block) ? NULL : offer->block_date);
	}
	return table;
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
	static const lk_column columns[] = {
		{"gpu", "GPU", false, false},
		{"gpus", "GPUs", true, false},
		{"provider", "provider", false, false},
		{"instance", "instance", false, false},
		{"region", "region", false, false},
		{"vcpus", "vCPUs", true, false},
		{"memory_gib", "GiB", true, false},
		{"links", "links", false, false},
		{"network_gbps", "Gbit/s", true, false},
		{"on_demand_usd_h", "an hour", true, false},
		{"spot_usd_h", "spot", true, false},
		{"block_usd_h", "block", true, false},
		{"usd_h_per_gpu", "a GPU", true, false},
		{"list", "from", true, false},
	};
	lk_table *table = lk_table_new("machines", columns, sizeof columns / sizeof *columns);
	lk_sort(offers->at, offers->count, sizeof *offers->at, by_gpu);
	for (size_t i = 0; table && i < offers->count; i++) {
		const lk_offer *offer = &offers->at[i];
		char text[80], block[120];
		size_t list = price_list_of(lists, offer);
		lk_table_row(table);
		put_machine(table, offer);
		put_network_and_prices(table, offer);
		snprintf(block, sizeof block, "%s of %s",
		         lk_format_dollars(offer->block, text, sizeof text), offer->block_date);
		lk_table_number(table, offer->block, isnan(offer->block) ? NULL : block);
		put_dollars(table, offer->on_demand / offer->gpus);
		lk_table_number(table, (double)list, NULL);
		if (list) continue;
		lk_table_free(table);
		return NULL;
	}
	if (table) lk_table_hide_empty(table);
	return table;
}

static lk_table *listing_prices(const struct price_lists *lists, bool age) {
	const lk_column columns[] = {
		{"list", "", true, false},    {"source", "prices from", false, false},
		{"date", "of", false, false}, {"age_days", "age", true, !age},
		{"old", "", false, !age},
	};
	lk_table *table = lk_table_new("prices", columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; table && i < lists->first.count; i++) {
		const lk_offer *offer = lists->first.at[i];
		lk_table_row(table);
		lk_table_number(table, (double)(i + 1), NULL);
		lk_table_text(table, offer->source);
		lk_table_text(table, offer->date);
		put_age(table, offer->date);
	}
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
		status = rent_view_put_table(listing_prices(&lists, age), colour, out, err);
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
	           ? rent_view_put_table(machine_table(listing->offers, listing->age), colour, out, err)
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

/* ---- choices ---- */

static const lk_column choice_columns[] = {
	{"mark", "", false, false},
	{"machines", "machines", true, false},
	{"provider", "", false, false},
	{"instance", "instance", false, false},
	{"region", "", false, true},
	{"gpu", "GPU", false, false},
	{"gpus", "GPUs", true, false},
	{"batch", "batch", true, false},
	{"step_time_s", "step", true, false},
	{"samples", "samples", true, true},
	{"tokens", "tokens", true, true},
	{"trained_range", "80 % range", true, true},
	{"hours", "hours", true, false},
	{"hours_range", "80 % range", true, false},
	{"cost_usd", "dollars", true, false},
	{"cost_range", "80 % range", true, false},
	{"stall", "largest stall", false, false},
	{"stall_share", "", true, false},
	{"goodput", "goodput", true, true},
	{"kwh", "energy", true, true},
	{"carbon_kg", "CO2e", true, true},
	{"power_usd", "power", true, true},
	{"price_usd_h", "per machine-hour", true, false},
	{"price_date", "price of", false, false},
	{"price_source", "source", false, false},
	{"pareto", "", false, true},
	{"in_time", "", false, true},
	{"in_budget", "", false, true},
	{"chance", "keeps", true, true},
	{"gpus_searched", "", true, true},
	{"search_end", "", false, true},
	{"warning", "warning", false, true},
	{"layout", "layout", false, true},
	{"reproduce", "command", false, true},
};
enum { CHOICE_COLUMNS = sizeof choice_columns / sizeof *choice_columns };

const char *lk_rent_mark(const lk_rent *rent, int i) {
	if (i == rent->cheapest) return i == rent->fastest ? "cheapest, fastest" : "cheapest";
	if (i == rent->fastest) return "fastest";
	if (i == rent->most) return "most";
	if (!rent->choices[i].in_time)
		return rent->choices[i].in_budget ? "too late" : "late, over budget";
	if (!rent->choices[i].in_budget) return "over budget";
	for (int k = 0; k < rent->tie_count; k++)
		if (rent->ties[k] == i) return "tie";
	return rent->choices[i].pareto ? "front" : NULL;
}

static char *hours_text(double hours, char *out, size_t size) {
	if (hours >= 999.5) return lk_format_thousands(hours, out, size);
	return lk_fixed(hours, hours < 10 ? 2 : hours < 100 ? 1 : 0, out, size);
}

static void rent_view_put_range(lk_table *table, double low, double high, bool dollars) {
	char text[80], a[32], b[32];
	if (isnan(low) || isnan(high)) {
		lk_table_text(table, NULL);
		return;
	}
	if (dollars)
		snprintf(text, sizeof text, "%s - %s", lk_format_dollars(low, a, sizeof a),
		         lk_format_dollars(high, b, sizeof b) + 1);
	else
		snprintf(text, sizeof text, "%s - %s", hours_text(low, a, sizeof a),
		         hours_text(high, b, sizeof b));
	lk_table_text(table, text);
}

char *lk_rent_trained(const lk_rent *rent, double samples, bool unit, char *out, size_t size) {
	char number[32];
	const char *sample = rent->unit ? rent->unit : "sample";
	lk_format_count(samples * rent->seq, number, sizeof number);
	if (!unit) snprintf(out, size, "%s", number);
	else snprintf(out, size, "%s %ss", number, rent->seq > 1 ? "token" : sample);
	return out;
}

/* Where the training has a length the range lies in hours and dollars. */
static void put_trained(lk_table *table, const lk_rent *rent, const lk_rent_choice *choice) {
	char text[80], low[32], high[32];
	double tokens = rent->seq > 1 ? choice->samples * rent->seq : NAN;
	lk_table_number(table, choice->samples, lk_format_count(choice->samples, text, sizeof text));
	lk_table_number(table, tokens,
	                isnan(tokens) ? NULL : lk_format_count(tokens, text, sizeof text));
	snprintf(text, sizeof text, "%s - %s",
	         lk_rent_trained(rent, choice->samples_low, false, low, sizeof low),
	         lk_rent_trained(rent, choice->samples_high, false, high, sizeof high));
	lk_table_text(table, isnan(rent->samples) && !isnan(choice->samples_low) ? text : NULL);
}

static void rent_view_put_choice(lk_table *table, const lk_rent *rent, int i) {
	const lk_rent_choice *choice = &rent->choices[i];
	char text[40];
	lk_table_row(table);
	lk_table_text(table, lk_rent_mark(rent, i));
	lk_table_number(table, choice->machines, NULL);
	lk_table_text(table, choice->provider);
	lk_table_text(table, choice->instance);
	lk_table_text(table, *choice->region ? choice->region : NULL);
	lk_table_text(table, choice->gpu);
	lk_table_number(table, choice->gpus, NULL);
	lk_table_number(table, choice->batch, NULL);
	lk_table_number(table, choice->step_s, lk_format_seconds(choice->step_s, text, sizeof text));
	put_trained(table, rent, choice);
	lk_table_number(table, choice->hours, hours_text(choice->hours, text, sizeof text));
	rent_view_put_range(table, choice->hours_low, choice->hours_high, false);
	put_dollars(table, choice->cost);
	rent_view_put_range(table, choice->cost_low, choice->cost_high, true);
	lk_table_text(table, choice->stall);
	lk_table_number(table, choice->stall_share, lk_percent(choice->stall_share, text, sizeof text));
	lk_table_number(table, choice->goodput, lk_percent(choice->goodput, text, sizeof text));
	lk_put_known(table, choice->energy.training_kwh, lk_format_energy);
	lk_put_known(table, choice->energy.carbon_kg, lk_format_mass);
	lk_put_known(table, choice->energy.power_usd, lk_format_dollars);
	put_dollars(table, choice->price);
	lk_table_text(table, choice->date);
	lk_table_text(table, choice->source);
	lk_table_bool(table, choice->pareto);
	lk_table_bool(table, choice->in_time);
	lk_table_bool(table, choice->in_budget);
	lk_table_number(table, choice->chance,
	                isnan(choice->chance) ? NULL : lk_percent(choice->chance, text, sizeof text));
	lk_table_number(table, choice->gpus_searched, NULL);
	lk_table_text(table, choice->search_end);
	lk_table_text(table, rent->warning);
	lk_table_text(table, choice->layout);
	lk_table_text(table, choice->reproduce);
}

static bool rent_view_has_carbon(const lk_rent *rent) {
	for (int i = 0; i < rent->count; i++)
		if (rent->choices[i].energy.carbon_kg > 0) return true;
	return false;
}

static bool rent_view_has_power(const lk_rent *rent) {
	for (int i = 0; i < rent->count; i++)
		if (rent->choices[i].energy.power_usd > 0) return true;
	return false;
}

/* Whether what people read shows a column: without a length, what is trained and its range instead
 * of the ranges of hours and dollars. */
static bool is_hidden(const lk_rent *rent, const lk_column *column, bool verbose, bool warned) {
	static const char *const more[] = {"goodput", "kwh", "layout"}, *const spans[] = {"hours_range",
	                                                                                  "cost_range"};
	bool open = isnan(rent->samples);
	for (int i = 0; i < 3; i++)
		if (strcmp(column->key, more[i]) == 0) return !verbose;
	if (strcmp(column->key, "carbon_kg") == 0) return !rent_view_has_carbon(rent);
	if (strcmp(column->key, "power_usd") == 0) return !rent_view_has_power(rent);
	for (int i = 0; i < 2; i++)
		if (strcmp(column->key, spans[i]) == 0) return open;
	if (strcmp(column->key, "warning") == 0) return !warned;
	if (strcmp(column->key, "trained_range") == 0) return !open;
	if (strcmp(column->key, rent->seq > 1 ? "tokens" : "samples") == 0) return !open;
	return column->hidden;
}

/* With `warned` each row says what the warning is: nothing else of the answer is written. */
static lk_table *rent_view_table(const lk_rent *rent, bool verbose, bool warned) {
	lk_column columns[CHOICE_COLUMNS];
	memcpy(columns, choice_columns, sizeof columns);
	for (int i = 0; i < CHOICE_COLUMNS; i++)
		columns[i].hidden = is_hidden(rent, &choice_columns[i], verbose, warned);
	lk_table *table = lk_table_new("choices", columns, CHOICE_COLUMNS);
	for (int i = 0; table && i < rent->count; i++) rent_view_put_choice(table, rent, i);
	return table;
}

lk_table *lk_rent_table(const lk_rent *rent, bool verbose) {
	return rent_view_table(rent, verbose, false);
}

/* ---- choices for people: which machine by its number, and the machines below ---- */

struct rented {
	int *of;    /* of each choice the number of its machine, from 1 */
	int *first; /* of each machine its first choice */
	int count;
};

static bool rented_is(const lk_rent_choice *a, const lk_rent_choice *b) {
	return strcmp(a->provider, b->provider) == 0 && strcmp(a->instance, b->instance) == 0 &&
	       strcmp(a->region, b->region) == 0 && a->price == b->price;
}

static lk_status rented_find(const lk_rent *rent, struct rented *out, lk_error *err) {
	size_t room = (size_t)rent->count + 1;
	*out = (struct rented){malloc(room * sizeof(int)), malloc(room * sizeof(int)), 0};
	if (!out->of || !out->first) return lk_oom(err);
	for (int i = 0; i < rent->count; i++) {
		int m = 0;
		while (m < out->count && !rented_is(&rent->choices[out->first[m]], &rent->choices[i])) m++;
		if (m == out->count) out->first[out->count++] = i;
		out->of[i] = m + 1;
	}
	return LK_OK;
}

static lk_table *rented_choices(const lk_rent *rent, const struct rented *rented) {
	bool open = isnan(rent->samples), carbon = rent_view_has_carbon(rent),
		 power = rent_view_has_power(rent);
	const lk_column columns[] = {
		{"mark", "", false, false},
		{"machines", "count", true, false},
		{"number", "kind", true, false},
		{"provider", "provider", false, false},
		{"gpu", "GPU", false, false},
		{"gpus", "GPUs", true, false},
		{"step_time_s", "step", true, false},
		{"tokens", rent->seq > 1 ? "tokens" : "samples", true, !open},
		{"trained_range", "80 % range", true, !open},
		{"hours", "hours", true, false},
		{"hours_range", "80 % range", true, open},
		{"cost_usd", "dollars", true, false},
		{"cost_range", "80 % range", true, open},
		{"kwh", "energy", true, !carbon && !power},
		{"carbon_kg", "CO2e", true, !carbon},
		{"power_usd", "power", true, !power},
	};
	lk_table *table = lk_table_new("choices", columns, sizeof columns / sizeof *columns);
	for (int i = 0; table && i < rent->count; i++) {
		const lk_rent_choice *choice = &rent->choices[i];
		char text[80], low[32], high[32];
		lk_table_row(table);
		lk_table_text(table, lk_rent_mark(rent, i));
		lk_table_number(table, choice->machines, NULL);
		lk_table_number(table, rented->of[i], NULL);
		lk_table_text(table, choice->provider);
		lk_table_text(table, choice->gpu);
		lk_table_number(table, choice->gpus, NULL);
		lk_table_number(table, choice->step_s,
		                lk_format_seconds(choice->step_s, text, sizeof text));
		lk_table_text(table, lk_rent_trained(rent, choice->samples, false, text, sizeof text));
		snprintf(text, sizeof text, "%s - %s",
		         lk_rent_trained(rent, choice->samples_low, false, low, sizeof low),
		         lk_rent_trained(rent, choice->samples_high, false, high, sizeof high));
		lk_table_text(table, isnan(choice->samples_low) ? NULL : text);
		lk_table_number(table, choice->hours, hours_text(choice->hours, text, sizeof text));
		rent_view_put_range(table, choice->hours_low, choice->hours_high, false);
		put_dollars(table, choice->cost);
		rent_view_put_range(table, choice->cost_low, choice->cost_high, true);
		lk_put_known(table, choice->energy.training_kwh, lk_format_energy);
		lk_put_known(table, choice->energy.carbon_kg, lk_format_mass);
		lk_put_known(table, choice->energy.power_usd, lk_format_dollars);
	}
	return table;
}

static lk_table *rented_machines(const lk_rent *rent, const struct rented *rented) {
	static const lk_column columns[] = {
		{"number", "kind", true, false},          {"provider", "machine of", false, false},
		{"instance", "instance", false, false},   {"gpus", "GPUs", true, false},
		{"price_usd_h", "an hour", true, false},  {"price_date", "price of", false, false},
		{"price_source", "source", false, false},
	};
	lk_table *table = lk_table_new("machines", columns, sizeof columns / sizeof *columns);
	for (int m = 0; table && m < rented->count; m++) {
		const lk_rent_choice *choice = &rent->choices[rented->first[m]];
		lk_table_row(table);
		lk_table_number(table, m + 1, NULL);
		lk_table_text(table, choice->provider);
		lk_table_text(table, choice->instance);
		lk_table_number(table, (double)choice->gpus / choice->machines, NULL);
		put_dollars(table, choice->price);
		lk_table_text(table, choice->date);
		lk_table_text(table, choice->source);
	}
	return table;
}

/* Two tables of a page's width; with -v one that has everything. */
static lk_status rent_view_put_choices(const lk_rent *rent, bool verbose, bool colour, FILE *out,
                                       lk_error *err) {
	if (verbose || !rent->count)
		return rent_view_put_table(lk_rent_table(rent, verbose), colour, out, err);
	static const char *const extras[] = {"hours_range", "kwh", "number", NULL};
	struct rented rented;
	lk_status status = rented_find(rent, &rented, err);
	if (status == LK_OK)
		status = lk_put_fitted(rented_choices(rent, &rented), extras, "-v", colour, out, err);
	if (status == LK_OK) {
		fputc('\n', out);
		status = rent_view_put_table(rented_machines(rent, &rented), colour, out, err);
	}
	free(rented.of);
	free(rented.first);
	return status;
}

/* Functions: the front, or all. */
static lk_table *rent_view_functions(const lk_rent *rent, bool all) {
	static const lk_column columns[] = {
		{"platform", "platform", false, false}, {"level", "a call is a", false, false},
		{"memory_mib", "MiB", true, false},     {"calls", "calls", true, false},
		{"call_s", "call", true, false},        {"instances", "instances", true, false},
		{"seconds", "time", true, false},       {"gib_s", "GiB-s", true, false},
		{"cost_usd", "cost", true, false},      {"note", "", false, false},
	};
	lk_table *table = lk_table_new("functions", columns, 10);
	for (int i = 0; table && i < rent->function_count; i++) {
		const lk_rent_function *function = &rent->functions[i];
		char text[32];
		if (!all && !function->pareto && i != rent->cheapest && i != rent->fastest) continue;
		lk_table_row(table);
		lk_table_text(table, function->platform);
		lk_table_text(table, function->level);
		lk_table_number(table, function->memory_mib, NULL);
		lk_table_number(table, function->calls, NULL);
		lk_table_number(table, function->call_s,
		                lk_format_seconds(function->call_s, text, sizeof text));
		lk_table_number(table, function->instances, NULL);
		lk_table_number(table, function->seconds,
		                lk_format_seconds(function->seconds, text, sizeof text));
		rent_view_put_whole(table, function->gib_s);
		put_dollars(table, function->cost);
		lk_table_text(table, i == rent->cheapest  ? "cheapest"
		                     : i == rent->fastest ? "fastest"
		                                          : "");
	}
	return table;
}

/* ---- text ---- */

struct text {
	const lk_rent *rent;
	bool verbose;
};

static lk_status rent_view_write_map(const struct text *text, bool colour, FILE *out,
                                     lk_error *err) {
	const lk_rent *rent = text->rent;
	fprintf(out, "%s\n", rent->model);
	if (rent->nothing) fprintf(out, "%s\n", rent->nothing);
	lk_table *table = rent_view_functions(rent, text->verbose);
	lk_status status =
		table ? lk_table_write(table, LK_FORMAT_TEXT, colour, out, err) : lk_oom(err);
	lk_table_free(table);
	LK_TRY(status);
	for (int i = 0; i < rent->note_count; i++) {
		LK_TRY(lk_put_wrapped(rent->notes[i], 0, 0, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

/* "; within the budget with 61 % probability ($94,312 to $127,044)": the range where the limit
 * lies.
 */
static void put_keeping(const lk_rent *rent, const lk_rent_choice *choice, lk_text *out) {
	if (isnan(choice->chance)) return;
	char low[32], high[32];
	bool timed = rent->deadline_h > 0, paid = rent->budget > 0;
	lk_text_add(out, "; within the %s%s%s with ", timed ? "deadline" : "",
	            timed && paid ? " and the " : "", paid ? "budget" : "");
	if (choice->chance > 0.99) lk_text_add(out, "over 99 %% probability");
	else if (choice->chance < 0.01) lk_text_add(out, "under 1 %% probability");
	else lk_text_add(out, "%.0f %% probability", 100 * choice->chance);
	if (timed)
		lk_text_add(out, " (%s to %s h", hours_text(choice->hours_low, low, sizeof low),
		            hours_text(choice->hours_high, high, sizeof high));
	if (paid)
		lk_text_add(out, "%s%s to %s", timed ? ", " : " (",
		            lk_format_dollars(choice->cost_low, low, sizeof low),
		            lk_format_dollars(choice->cost_high, high, sizeof high));
	lk_text_add(out, ")");
}

/* "SEARCHED  ...", wrapped. */
static lk_status rent_view_put_labelled(const char *label, const char *text, FILE *out,
                                        lk_error *err) {
	int indent = fprintf(out, "%-9s ", label);
	LK_TRY(lk_put_wrapped(text, indent, indent, out, err));
	fputc('\n', out);
	return LK_OK;
}

static lk_status rent_view_put_decision(const lk_rent *rent, const char *what, int at, FILE *out,
                                        lk_error *err) {
	const lk_rent_choice *choice = &rent->choices[at];
	char hours[32], cost[40], line[600];
	lk_text text = lk_text_begin(line, sizeof line);
	lk_text_add(&text, "%d x %s (%s): %s h, %s", choice->machines, choice->instance,
	            choice->provider, hours_text(choice->hours, hours, sizeof hours),
	            lk_format_dollars(choice->cost, cost, sizeof cost));
	put_keeping(rent, choice, &text);
	return rent_view_put_labelled(what, line, out, err);
}

/* "MOST      2 x p5.48xlarge (aws): 41.2 G tokens (35.1 G to 48.3 G) in 336 h, $66,013" */
static lk_status put_most(const lk_rent *rent, FILE *out, lk_error *err) {
	const lk_rent_choice *choice = &rent->choices[rent->most];
	char trained[64], low[32], high[32], hours[32], cost[40], line[600];
	lk_text text = lk_text_begin(line, sizeof line);
	lk_text_add(&text, "%d x %s (%s): %s", choice->machines, choice->instance, choice->provider,
	            lk_rent_trained(rent, choice->samples, true, trained, sizeof trained));
	if (!isnan(choice->samples_low))
		lk_text_add(&text, " (%s to %s)",
		            lk_rent_trained(rent, choice->samples_low, false, low, sizeof low),
		            lk_rent_trained(rent, choice->samples_high, false, high, sizeof high));
	lk_text_add(&text, " in %s h, %s", hours_text(choice->hours, hours, sizeof hours),
	            lk_format_dollars(choice->cost, cost, sizeof cost));
	return rent_view_put_labelled("MOST", line, out, err);
}

static lk_status put_decisions(const lk_rent *rent, FILE *out, lk_error *err) {
	char line[1200];
	lk_text text = lk_text_begin(line, sizeof line);
	if (rent->nothing) LK_TRY(rent_view_put_labelled("NOTHING", rent->nothing, out, err));
	if (rent->cheapest >= 0)
		LK_TRY(rent_view_put_decision(rent, "CHEAPEST", rent->cheapest, out, err));
	if (rent->fastest >= 0)
		LK_TRY(rent_view_put_decision(rent, "FASTEST", rent->fastest, out, err));
	if (rent->most >= 0) LK_TRY(put_most(rent, out, err));
	LK_TRY(rent_view_put_labelled("SEARCHED", rent->searched, out, err));
	if (!rent->tie_count) return LK_OK;
	lk_text_add(&text, "too close to the %s to call:", rent->most >= 0 ? "most" : "cheapest");
	for (int i = 0; i < rent->tie_count; i++) {
		const lk_rent_choice *choice = &rent->choices[rent->ties[i]];
		lk_text_add(&text, "%s %d x %s (%s)", i ? "," : "", choice->machines, choice->instance,
		            choice->provider);
	}
	lk_text_add(&text, "; to settle it, measure %s", rent->settle);
	return rent_view_put_labelled("TIE", line, out, err);
}

/* "training 20 G tokens, in 240 h, for $100,000; 139 choices fit in memory, 113 of them within the
 * deadline and the budget" */
static lk_status rent_view_put_training(const lk_rent *rent, FILE *out, lk_error *err) {
	char line[400], count[80];
	lk_text text = lk_text_begin(line, sizeof line);
	bool timed = rent->deadline_h > 0, paid = rent->budget > 0;
	lk_text_add(&text, "training %s",
	            isnan(rent->samples)
	                ? "for as long as it may last"
	                : lk_rent_trained(rent, rent->samples, true, count, sizeof count));
	if (timed) lk_text_add(&text, ", in %s h", hours_text(rent->deadline_h, count, sizeof count));
	if (paid) lk_text_add(&text, ", for %s", lk_format_dollars(rent->budget, count, sizeof count));
	lk_text_add(&text, "; %d %s in memory", rent->considered,
	            lk_noun(rent->considered, "choice fits", "choices fit"));
	if (timed || paid)
		lk_text_add(&text, ", %d of them within the %s%s%s", rent->within_limits,
		            timed ? "deadline" : "", timed && paid ? " and the " : "",
		            paid ? "budget" : "");
	return lk_put_wrapped(line, 9, 0, out, err);
}

static lk_status rent_view_write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct text *text = what;
	const lk_rent *rent = text->rent;
	if (rent->functions) return rent_view_write_map(text, colour, out, err);
	LK_TRY(put_decisions(rent, out, err));
	fputs("\nmodel    ", out);
	LK_TRY(lk_put_safe(rent->model ? rent->model : "", out, err));
	fputc('\n', out);
	LK_TRY(rent_view_put_training(rent, out, err));
	fputs("\n\n", out);
	LK_TRY(rent_view_put_choices(rent, text->verbose, colour, out, err));
	fputc('\n', out);
	if (rent->warning) {
		fputs("warning: ", out);
		LK_TRY(lk_put_safe(rent->warning, out, err));
		fputc('\n', out);
	}
	for (int i = 0; i < rent->note_count; i++) {
		LK_TRY(lk_put_wrapped(rent->notes[i], 10, 0, out, err));
		fputc('\n', out);
	}
	for (int i = 0; text->verbose && i < rent->count; i++) {
		LK_TRY(lk_put_safe(rent->choices[i].reproduce, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

/* ---- JSON ---- */

static void put_json_choice(lk_json_writer *writer, const lk_rent *rent,
                            const lk_rent_choice *choice) {
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "provider", choice->provider);
	lk_json_put_text(writer, "instance", choice->instance);
	lk_json_put_text(writer, "region", *choice->region ? choice->region : NULL);
	lk_json_put_text(writer, "gpu", choice->gpu);
	lk_json_put_integer(writer, "machines", choice->machines);
	lk_json_put_integer(writer, "gpus", choice->gpus);
	lk_json_put_integer(writer, "batch", choice->batch);
	lk_json_put_text(writer, "layout", choice->layout);
	lk_json_put_number(writer, "step_time_s", choice->step_s);
	lk_json_put_number(writer, "samples", choice->samples);
	lk_json_put_number(writer, "samples_low", choice->samples_low);
	lk_json_put_number(writer, "samples_high", choice->samples_high);
	lk_json_put_number(writer, "tokens", rent->seq > 1 ? choice->samples * rent->seq : NAN);
	lk_json_put_number(writer, "hours", choice->hours);
	lk_json_put_number(writer, "hours_low", choice->hours_low);
	lk_json_put_number(writer, "hours_high", choice->hours_high);
	lk_json_put_number(writer, "price_usd_h", choice->price);
	lk_json_put_number(writer, "cost_usd", choice->cost);
	lk_json_put_number(writer, "cost_low_usd", choice->cost_low);
	lk_json_put_number(writer, "cost_high_usd", choice->cost_high);
	lk_json_put_text(writer, "price_date", choice->date);
	lk_json_put_text(writer, "price_source", choice->source);
	lk_json_put_text(writer, "stall", choice->stall);
	lk_json_put_number(writer, "stall_share", choice->stall_share);
	lk_json_put_number(writer, "goodput", choice->goodput);
	lk_json_put_known(writer, "kwh", choice->energy.training_kwh);
	lk_json_put_known(writer, "carbon_kg", choice->energy.carbon_kg);
	lk_json_put_known(writer, "power_usd", choice->energy.power_usd);
	lk_json_put_bool(writer, "pareto", choice->pareto);
	lk_json_put_bool(writer, "in_time", choice->in_time);
	lk_json_put_bool(writer, "in_budget", choice->in_budget);
	lk_json_put_number(writer, "chance", choice->chance);
	lk_json_put_integer(writer, "gpus_searched", choice->gpus_searched);
	lk_json_put_text(writer, "search_end", choice->search_end);
	lk_json_put_text(writer, "reproduce", choice->reproduce);
	lk_json_object_end(writer);
}

static void put_json_function(lk_json_writer *writer, const lk_rent_function *function) {
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "platform", function->platform);
	lk_json_put_text(writer, "level", function->level);
	lk_json_put_integer(writer, "memory_mib", function->memory_mib);
	lk_json_put_number(writer, "calls", function->calls);
	lk_json_put_number(writer, "call_s", function->call_s);
	lk_json_put_number(writer, "instances", function->instances);
	lk_json_put_number(writer, "seconds", function->seconds);
	lk_json_put_number(writer, "gib_s", function->gib_s);
	lk_json_put_number(writer, "cost_usd", function->cost);
	lk_json_put_bool(writer, "pareto", function->pareto);
	lk_json_put_bool(writer, "in_time", function->in_time);
	lk_json_put_bool(writer, "in_budget", function->in_budget);
	lk_json_object_end(writer);
}

static void rent_view_put_place(lk_json_writer *writer, const char *key, int at) {
	if (at < 0) lk_json_put_null(writer, key);
	else lk_json_put_integer(writer, key, at);
}

static lk_status rent_view_write_json(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_rent *rent = ((const struct text *)what)->rent;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/rent/1", rent->failed_check);
	lk_json_put_text(&w, "model", rent->model);
	lk_json_put_text(&w, "warning", rent->warning);
	lk_json_put_number(&w, "samples", rent->samples);
	lk_json_put_text(&w, "unit", rent->unit);
	lk_json_put_number(&w, "deadline_h", rent->deadline_h > 0 ? rent->deadline_h : NAN);
	lk_json_put_number(&w, "budget_usd", rent->budget > 0 ? rent->budget : NAN);
	lk_json_put_integer(&w, "considered", rent->considered);
	lk_json_put_integer(&w, "within_limits", rent->within_limits);
	lk_json_put_integer(&w, "gpus_searched", rent->gpus_searched);
	lk_json_put_text(&w, "cut_off", rent->cut_off);
	lk_json_put_bool(&w, "search_complete", rent->search_complete);
	lk_json_put_text(&w, "searched", rent->searched);
	lk_json_array(&w, "choices");
	for (int i = 0; i < rent->count; i++) put_json_choice(&w, rent, &rent->choices[i]);
	lk_json_array_end(&w);
	lk_json_array(&w, "functions");
	for (int i = 0; i < rent->function_count; i++) put_json_function(&w, &rent->functions[i]);
	lk_json_array_end(&w);
	rent_view_put_place(&w, "cheapest", rent->cheapest);
	rent_view_put_place(&w, "fastest", rent->fastest);
	rent_view_put_place(&w, "most", rent->most);
	lk_json_array(&w, "ties");
	for (int i = 0; i < rent->tie_count; i++) lk_json_put_integer(&w, NULL, rent->ties[i]);
	lk_json_array_end(&w);
	lk_json_put_text(&w, "settle", rent->settle);
	lk_json_put_text(&w, "nothing", rent->nothing);
	lk_json_put_text(&w, "reproduce", rent->reproduce);
	lk_json_array(&w, "notes");
	for (int i = 0; i < rent->note_count; i++) lk_json_put_text(&w, NULL, rent->notes[i]);
	lk_json_array_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_rent_print(const lk_rent *rent, int format, bool verbose, bool colour,
                        const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	struct text x = {rent, verbose};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT) return lk_write_through(&w, rent_view_write_text, &x, err);
	if (format == LK_FORMAT_JSON) return lk_write_through(&w, rent_view_write_json, &x, err);
	if (rent->functions) return lk_write_table(&w, rent_view_functions(rent, true), err);
	return lk_write_table(&w, rent_view_table(rent, verbose, rent->warning != NULL), err);
}
