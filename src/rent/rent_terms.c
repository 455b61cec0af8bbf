/* rent_terms.c: terms of renting: by the hour on demand or at spot prices; or in blocks of whole
 * days for a number of machines, paid in advance, as AWS sells capacity. */
#include <limits.h>
#include <math.h>

#include "rent/rent.h"

/* A block of AWS: whole days, beyond two weeks whole weeks, half a year at most. Longer times are
 * several blocks. */
enum { BLOCK_MACHINES = 64, DAYS_SINGLY = 14, WEEK = 7, BLOCK_DAYS = 182 };
static const double HOURS_OF_DAY = 24;

double lk_rent_price(const lk_rent_request *request, const lk_offer *offer) {
	if (request->block) return offer->block;
	return request->spot ? offer->spot : offer->on_demand;
}

int lk_rent_most_machines(const lk_rent_request *request) {
	return request->block ? BLOCK_MACHINES : INT_MAX;
}

/* The days sold in one block for this many: no fewer, or no more. */
static double days_sold(double days, double (*to_whole)(double)) {
	return days <= DAYS_SINGLY ? to_whole(days) : fmax(to_whole(days / WEEK) * WEEK, DAYS_SINGLY);
}

static double hours_sold(double hours, double (*to_whole)(double)) {
	double days = hours / HOURS_OF_DAY, blocks = floor(days / BLOCK_DAYS);
	if (!isfinite(days)) return hours;
	return (blocks * BLOCK_DAYS + days_sold(days - blocks * BLOCK_DAYS, to_whole)) * HOURS_OF_DAY;
}

double lk_rent_hours_paid(const lk_rent_request *request, double hours) {
	return request->block ? hours_sold(hours, ceil) : hours;
}

double lk_rent_hours_sold(const lk_rent_request *request, double hours) {
	return request->block ? hours_sold(hours, floor) : hours;
}
