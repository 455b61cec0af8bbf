/* embedding.c: pooled lookups. A warp sums the rows of one sample and table; all warps of a table
 * share its rows.
 *
 *     warps at a time  = SMs * max(256 / dim, 1), so tables at a time T = ceil(warps / batch)
 *     X                = rows of a table in the cache: min(0.9 L2 / (4 dim T), rows, lookups)
 *     different rows U = rows (1 - (1 - 1/rows)^lookups)
 *     hit rate         = 1 - U / lookups if U fits X: only the first touch misses;
 *                        else (1 - X / lookups) * X / rows: a cold start, then each touch finds
 *                        its row with X / rows
 *
 * With known reuse (cost/kernel/locality.c) the X most frequent rows stay; each of them misses
 * once, all others always.
 */
#include "cost/kernel/embedding.h"

#include <math.h>

#include "cost/kernel/kernel.h"
#include "base/check.h"

static const double sector = 32, single = 4; /* bytes */

const double lk_lookup_l2_gain = 3.2;

static double sectors(double bytes) {
	return ceil(bytes / sector) * sector;
}

static double cached_rows(const lk_lookup *lookup, const lk_device *device, double lookups) {
	double warps = fmax(device->sms, 1) * fmax(floor(256 / lookup->dim), 1);
	double tables = ceil(warps / fmax(lookup->batch, 1));
	return fmin(
		fmin(floor(0.9 * device->l2_bytes / (tables * lk_lookup_element(lookup) * lookup->dim)),
	         lookup->rows),
		lookups);
}

static double uniform_rows(const lk_lookup *lookup, double lookups) {
	return lookup->rows > 1 ? -lookup->rows * expm1(lookups * log1p(-1 / lookup->rows)) : 1;
}

static double uniform_hits(const lk_lookup *lookup, double cached, double lookups) {
	double different = uniform_rows(lookup, lookups);
	if (different <= cached) return 1 - different / lookups;
	return (1 - cached / lookups) * cached / lookup->rows;
}

static double reused_hits(const lk_locality *locality, double cached) {
	double lookups = lk_locality_lookups(locality), different = lk_locality_rows(locality);
	double held = fmin(cached, different);
	return lookups > 0 ? fmax(lk_locality_covered(locality, held) - held / lookups, 0) : 0;
}

/* NULL without a histogram: rows are equally likely. */
static const lk_locality *embedding_locality_of(const lk_lookup *lookup, double lookups,
                                                lk_locality *room) {
	if (lookup->locality || !lookup->reuse) return lookup->locality;
	lk_locality_reuse(lookup->reuse, NULL, lookup->rows, lookups, room);
	return room;
}

lk_lookup_traffic lk_lookup_traffic_of(const lk_lookup *lookup, const lk_device *device) {
	double lookups = fmax(lookup->batch * lookup->pooling, 1),
		   cached = cached_rows(lookup, device, lookups);
	lk_locality room;
	const lk_locality *locality = embedding_locality_of(lookup, lookups, &room);
	double hit = locality ? reused_hits(locality, cached) : uniform_hits(lookup, cached, lookups);
	hit = fmin(fmax(hit, 0), 1);
	double row = sectors(lk_lookup_element(lookup) * lookup->dim),
		   weights = lookup->pooling * row * (lookup->backward ? 2 : 1);
	/* per sample and table: place of the table, two offsets, indices, the sum or its gradient */
	double once =
			   sector + 2 * sector + sectors(4 * lookup->pooling) + sectors(single * lookup->dim),
		   warps = lookup->batch * lookup->tables;
	double state = 0;
	if (lookup->backward && lookup->state > 0)
		state = 2 * sectors(lookup->state) * lookup->tables *
		        (locality ? lk_locality_rows(locality) : uniform_rows(lookup, lookups));
	return (lk_lookup_traffic){hit, warps * (once + (1 - hit) * weights) + state,
	                           warps * hit * weights};
}

/* Short rows leave lanes of the warp idle; measured by the authors, forward. */
static double idle_lanes(const lk_lookup *lookup) {
	if (lookup->backward || lookup->dim > 64) return 1;
	return lookup->dim > 32 ? 1.1 : 1.55;
}

double lk_lookup_seconds(const lk_lookup *lookup, const lk_device *device, double memory_rate,
                         double l2_rate) {
	lk_lookup_traffic t = lk_lookup_traffic_of(lookup, device);
	return fmax(t.dram / memory_rate, t.l2 / l2_rate) * idle_lanes(lookup);
}

/* In a step graph: lookups that state their pooling (k); others only their bytes. */
void lk_cost_embedding(const lk_graph *graph, uint32_t op, const lk_cost_site *site, lk_cost *out) {
	LK_ASSERT(op < graph->ops.count);
	const lk_ops *ops = &graph->ops;
	const lk_device *device = site->node->device;
	if (!(ops->k[op] > 0)) {
		lk_cost_memory(graph, op, site, out);
		return;
	}
	lk_lookup lookup = lk_lookup_of(graph, op);
	double rate = device->memory_rate * site->constants->memory_efficiency;
	double seconds = lk_lookup_seconds(&lookup, device, rate, lk_lookup_l2_gain * rate) +
	                 site->constants->kernel_floor_s;
	lk_cost_set(out, seconds);
	out->sm = 1;
	out->compute = 0.2f;
	out->memory =
		(float)fmin(1, lk_lookup_traffic_of(&lookup, device).dram / device->memory_rate / seconds);
}

lk_lookup lk_lookup_of(const lk_graph *graph, uint32_t op) {
	LK_ASSERT(op < graph->ops.count);
	const lk_ops *ops = &graph->ops;
	return (lk_lookup){.batch = ops->m[op],
	                   .tables = ops->batch[op],
	                   .rows = fmax(ops->window[op], 1),
	                   .dim = fmax(ops->n[op], 1),
	                   .pooling = ops->k[op],
	                   .backward = ops->phase[op] == LK_PHASE_BACKWARD};
}
