/* range.c: the distance of a measured collective from its prediction. On a measured fabric, the
 * errors of its own rows by message size. On any other, the errors on fabrics unseen by the fit, in
 * two parts: a share of the time, for differing rates, and a time, for launches and ranks that wait
 * for one another:
 *
 *     half the range, as ln = hypot(share sqrt(1 + octaves), us / predicted time)
 *
 * with the octaves by which a group has more nodes than any measured one: each adds an independent
 * share. Rows of the family "range", subject "collective" (calibrate/calibrate_collectives.c). */
#include "cost/collective/collective.h"

#include <math.h>
#include <stdio.h>

static const double usual_width = .35; /* if no row applies */

const char *const lk_coll_size_classes[LK_COLL_SIZE_CLASSES] = {"<1 MiB", "1-4 MiB", "4-16 MiB",
                                                                "16-64 MiB", ">64 MiB"};

int lk_coll_size_class(double bytes) {
	int size = 0;
	for (double most = 1 << 20; size < LK_COLL_SIZE_CLASSES - 1 && bytes >= most; most *= 4) size++;
	return size;
}

lk_coll_place lk_coll_place_of(const lk_group_shape *group) {
	if (group->nodes > 1) return LK_COLL_NETWORK;
	bool pcie = group->node->intra == LK_INTRA_PCIE && !lk_group_on_bridge(group);
	return pcie ? LK_COLL_PCIE : LK_COLL_LINKS;
}

static const char *range_what(bool messages) {
	return messages ? "messages" : "collectives";
}

void lk_coll_range_own(const char *fabric, bool network, bool messages, int size, char *out,
                       size_t room) {
	snprintf(out, room, "%.80s %s %s %s", fabric, network ? "network" : "node",
	         range_what(messages), lk_coll_size_classes[size]);
}

void lk_coll_range_unseen(lk_coll_place place, bool messages, char *out, size_t room) {
	static const char *const places[LK_COLL_PLACES] = {"links", "PCIe", "network"};
	snprintf(out, room, "unmeasured %s %s", places[place], range_what(messages));
}

double lk_coll_range_width(const lk_coll_range *range, int nodes, double us) {
	double beyond = range->nodes > 0 ? fmax(0, log2((double)nodes / range->nodes)) : 0;
	return hypot(range->share * sqrt(1 + beyond), us > 0 ? range->us / us : 0);
}

lk_coll_range lk_coll_range_of(const lk_calibration *calibration, lk_coll_place place,
                               bool messages) {
	char class[80];
	lk_coll_range_unseen(place, messages, class, sizeof class);
	const lk_calibration_row *row = lk_calibration_find(calibration, "range", "collective", class);
	return (lk_coll_range){.share = lk_calibration_value(row, "share", usual_width),
	                       .us = lk_calibration_value(row, "us", 0),
	                       .nodes = (int)lk_calibration_value(row, "nodes", 0)};
}

static const lk_calibration_row *range_find_own(const lk_calibration *calibration,
                                                const char *fabric, lk_coll_kind kind,
                                                const lk_group_shape *group, int size) {
	char class[160];
	lk_coll_range_own(fabric, group->nodes > 1, kind == LK_COLL_SENDRECV, size, class,
	                  sizeof class);
	return lk_calibration_find(calibration, "range", "collective", class);
}

bool lk_coll_range_known(const lk_calibration *calibration, const char *fabric, lk_coll_kind kind,
                         const lk_group_shape *group) {
	for (int size = 0; size < LK_COLL_SIZE_CLASSES; size++)
		if (range_find_own(calibration, fabric, kind, group, size)) return true;
	return false;
}

double lk_coll_width(const lk_calibration *calibration, const char *fabric, lk_coll_kind kind,
                     const lk_group_shape *group, double bytes, double us, bool unseen) {
	const lk_calibration_row *own =
		fabric ? range_find_own(calibration, fabric, kind, group, lk_coll_size_class(bytes)) : NULL;
	if (own) return lk_calibration_value(own, unseen ? "unseen_width" : "width", usual_width);
	lk_coll_range range =
		lk_coll_range_of(calibration, lk_coll_place_of(group), kind == LK_COLL_SENDRECV);
	return lk_coll_range_width(&range, group->nodes, us);
}
