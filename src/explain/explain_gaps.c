/* explain_gaps.c: why the device is idle. Two views of it: gaps of each stream, as HTA classifies them, and gaps of the
 * whole device with what the host did meanwhile.
 *
 * A gap of the device ends with some kernel. If its launch call began before the gap did, the host is not to blame. If
 * not: time in the data loader is data loading; if the host was waiting for the device when the gap began, it let the
 * device run dry; else it was late with the next launch. */
#include <stdlib.h>

#include "explain/explain.h"

/* HTA: consecutive_kernel_delay, the gap in nanoseconds that two kernels of a stream have in any case. */
static const int64_t KERNEL_WAIT_NS = 30;

/* ---- gaps of streams ---- */

static void classify(lk_rank_work *w, lk_explain_idle *row, int64_t begin, uint32_t next) {
	const lk_capture *c = w->c;
	int64_t gap = lk_times_between(&w->windows, begin, c->start_ns[next]);
	if (gap <= 0) return;
	uint32_t launch = c->launch[next];
	row->gaps++;
	row->idle_ns += gap;
	if (launch != LK_NONE && c->start_ns[launch] > begin) row->host_wait_ns += gap;
	else if (c->start_ns[next] - begin < KERNEL_WAIT_NS) row->kernel_wait_ns += gap;
	else row->other_ns += gap;
}

static lk_status stream_gaps(lk_rank_work *w, const lk_lane *lane, lk_error *err) {
	const lk_capture *c = w->c;
	lk_explain_idle row = {.rank = w->result.rank, .stream = lane->thread};
	int64_t busy = INT64_MIN;
	uint32_t seen = 0;
	for (uint32_t at = lane->begin; at < lane->end; at++) {
		uint32_t event = c->order[at];
		if (!lk_event_on_device(c->kind[event])) continue;
		seen += lk_in_windows(w, c->start_ns[event]);
		if (busy != INT64_MIN) classify(w, &row, busy, event);
		if (lk_event_end(c, event) > busy) busy = lk_event_end(c, event);
	}
	if (!seen) return LK_OK;
	if (!lk_push(&w->idle_rows)) return lk_oom(err);
	*lk_last(&w->idle_rows) = row;
	return LK_OK;
}

/* ---- gaps of the device ---- */

/* Time by name: of annotations and of operations. */
struct blame {
	int64_t *note, *op;
	uint64_t gaps;
};

/* The outermost annotation and operation around a call. Steps and the loader say nothing that is not known. */
void lk_rank_place(lk_rank_work *w, uint32_t call, uint32_t *note, uint32_t *op) {
	const lk_capture *c = w->c;
	*note = *op = 0;
	for (uint32_t e = call; e != LK_NONE; e = c->parent[e]) {
		if (c->kind[e] == LK_EVENT_OP) *op = c->name[e];
		if (c->kind[e] == LK_EVENT_NOTE && !(lk_name_class(w, c->name[e]) & (LK_NAME_STEP | LK_NAME_LOADS)))
			*note = c->name[e];
	}
	if (!*op) *op = c->name[call];
}

static void blame_add(lk_rank_work *w, struct blame *b, uint32_t call, int64_t ns) {
	uint32_t note, op;
	lk_rank_place(w, call, &note, &op);
	b->gaps++;
	if (note) b->note[note] += ns;
	b->op[op] += ns;
}

static lk_rank_places worst_places(const int64_t *ns, size_t names) {
	lk_rank_places out = {0};
	for (size_t name = 1; name < names; name++) {
		if (ns[name] <= out.ns[LK_PLACES - 1]) continue;
		int at = LK_PLACES - 1;
		for (; at > 0 && ns[name] > out.ns[at - 1]; at--) out.name[at] = out.name[at - 1], out.ns[at] = out.ns[at - 1];
		out.name[at] = (uint32_t)name, out.ns[at] = ns[name];
	}
	return out;
}

static lk_rank_blame summary(const struct blame *b, size_t names) {
	return (lk_rank_blame){b->gaps, worst_places(b->note, names), worst_places(b->op, names)};
}

/* The wait that the host was in at a moment; moments ascend. Waits do not nest, but threads have one each: the one that
 * lasts longest counts. */
struct waiting {
	size_t next;
	uint32_t call;
	int64_t end;
};

static uint32_t waiting_at(const lk_rank_work *w, struct waiting *at, int64_t moment) {
	for (; at->next < w->waits.count; at->next++) {
		uint32_t call = w->waits.at[at->next].item;
		if (w->c->start_ns[call] >= moment) break;
		if (lk_event_end(w->c, call) > at->end) at->call = call, at->end = lk_event_end(w->c, call);
	}
	return at->call != LK_NONE && at->end >= moment ? at->call : LK_NONE;
}

/* `next` is the work that ends the gap, `wait` the call in which the host waited when it began; LK_NONE. */
static bool explain_gap(lk_rank_work *w, const lk_interval *gap, uint32_t next, uint32_t wait, struct blame *late,
						struct blame *sync) {
	lk_explain_rank *r = &w->result;
	uint32_t launch = next == LK_NONE ? LK_NONE : w->c->launch[next];
	bool host = launch != LK_NONE ? w->c->start_ns[launch] > gap->start : next == LK_NONE;
	int64_t loading = host ? lk_times_between(&w->loading, gap->start, gap->end) : 0;
	int64_t rest = gap->end - gap->start - loading;
	r->idle_data_ns += loading;
	if (!lk_stretch_add(w, LK_STRETCH_DATA, gap, loading, LK_NONE)) return false;
	if (!host) {
		r->idle_other_ns += rest;
		return true;
	}
	bool waited = wait != LK_NONE;
	*(waited ? &r->idle_sync_ns : &r->idle_host_ns) += rest;
	uint32_t call = waited ? wait : launch;
	if (call != LK_NONE && rest > 0) blame_add(w, waited ? sync : late, call, rest);
	return lk_stretch_add(w, waited ? LK_STRETCH_SYNC : LK_STRETCH_LAUNCH, gap, rest, call);
}

static bool device_gaps(lk_rank_work *w, struct blame *late, struct blame *sync) {
	struct waiting at = {.call = LK_NONE, .end = INT64_MIN};
	size_t next = 0;
	for (size_t g = 0; g < w->idle.set.count; g++) {
		const lk_interval *gap = &w->idle.set.at[g];
		while (next < w->device.count && w->c->start_ns[w->device.at[next].item] < gap->end) next++;
		uint32_t event = next < w->device.count ? w->device.at[next].item : LK_NONE;
		if (!explain_gap(w, gap, event, waiting_at(w, &at, gap->start), late, sync)) return false;
	}
	return lk_stretches_end(w);
}

lk_status lk_rank_gaps(lk_rank_work *w, lk_error *err) {
	for (size_t l = 0; l < w->c->lanes.count; l++)
		if (w->c->lanes.at[l].stream) LK_TRY(stream_gaps(w, &w->c->lanes.at[l], err));
	size_t names = (size_t)lk_intern_count(w->c->names) + 1;
	int64_t *counters = calloc(names * 4, sizeof *counters);
	if (!counters) return lk_oom(err);
	struct blame late = {counters, counters + names, 0}, sync = {counters + 2 * names, counters + 3 * names, 0};
	bool good = true;
	if (w->device.count) good = device_gaps(w, &late, &sync);
	else w->result.idle_other_ns = w->result.idle_ns;
	w->late = summary(&late, names);
	w->sync = summary(&sync, names);
	free(counters);
	return good ? LK_OK : lk_oom(err);
}
