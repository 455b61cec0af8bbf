/* lift_peers.c: how long collectives take once all have come. Of one kernel in one group, the fastest one tells the rate and the
 * shortest one the latency: none needs longer than both together, and none longer than the shortest of those alike (called from
 * the same operations on as many elements). What it took longer was waiting. */
#include <stdlib.h>

#include "base/stats.h"
#include "trace/capture/capture.h"
#include "trace/lift/lift_internal.h"

/* Those alike, or all of a class. */
struct transfer {
	uint64_t key;    /* 0: free */
	int64_t ns;      /* the shortest */
	double rate;     /* of a class: most elements a nanosecond; 0 not known */
	uint32_t count;
};

struct lk_transfers {
	struct transfer *slots;
	size_t size;
};

typedef LK_VEC(uint32_t) lk_comm_events;

static uint64_t class_of(const lk_capture *c, uint32_t event) {
	const lk_comm_note *note = lk_capture_comm(c, event);
	return lk_hash64(c->name[event] * 2u ^ (uint64_t)(note ? note->group : 0) << 40) | 1;
}

static int64_t elements_of(const lk_capture *c, uint32_t event) {
	const lk_comm_note *note = lk_capture_comm(c, event);
	return note ? note->in_elements : -1;
}

static uint64_t alike(const lk_capture *c, uint32_t event) {
	uint64_t key = class_of(c, event) ^ lk_hash64((uint64_t)elements_of(c, event));
	uint32_t at = c->launch[event] == LK_NONE ? LK_NONE : c->parent[c->launch[event]];
	for (; at != LK_NONE; at = c->parent[at])
		if (c->kind[at] == LK_EVENT_OP) key = lk_hash64(key ^ c->name[at]) ^ c->shape[at];
	return key | 1;
}

static struct transfer *find(const struct lk_transfers *t, uint64_t key) {
	size_t at = key >> 1 & (t->size - 1);
	while (t->slots[at].key && t->slots[at].key != key) at = (at + 1) & (t->size - 1);
	if (!t->slots[at].key) t->slots[at] = (struct transfer){.key = key, .ns = INT64_MAX};
	return &t->slots[at];
}

static void learn(struct transfer *known, int64_t ns, int64_t elements) {
	if (ns < known->ns) known->ns = ns;
	if (ns > 0 && (double)elements / (double)ns > known->rate) known->rate = (double)elements / (double)ns;
	known->count++;
}

/* All kernels that communicate. Every lift of a step asks this of the whole capture, so notes, which are in order too, are walked
 * along and not searched for. */
static lk_status list_comms(const lk_capture *c, lk_comm_events *out, lk_error *err) {
	size_t note = 0;
	unsigned kind;
	for (uint32_t i = 0; i < c->count; i++) {
		if (c->kind[i] != LK_EVENT_KERNEL) continue;
		while (note < c->comms.count && c->comms.at[note].event < i) note++;
		bool noted = note < c->comms.count && c->comms.at[note].event == i;
		if (!noted && !lk_comm_kernel(lk_capture_text(c, c->name[i]), &kind)) continue;
		if (!lk_push(out)) return lk_oom(err);
		*lk_last(out) = i;
	}
	return LK_OK;
}

static void learn_all(lk_lifting *l, const lk_comm_events *events) {
	const lk_capture *c = l->c;
	const lk_lift_stretch *s = l->stretch;
	for (size_t e = 0; e < events->count; e++) {
		uint32_t i = events->at[e];
		if (c->start_ns[i] >= s->skip_from_ns && c->start_ns[i] < s->skip_to_ns) continue;
		learn(find(l->transfers, alike(c, i)), c->dur_ns[i], elements_of(c, i));
		learn(find(l->transfers, class_of(c, i)), c->dur_ns[i], elements_of(c, i));
	}
}

lk_status lk_lift_transfers(lk_lifting *l) {
	lk_comm_events events = {0};
	struct lk_transfers *t = l->transfers = calloc(1, sizeof *t);
	if (!t) return lk_oom(l->err);
	lk_status status = list_comms(l->c, &events, l->err);
	for (t->size = 64; t->size < events.count * 4; t->size *= 2) {}
	t->slots = calloc(t->size, sizeof *t->slots);
	if (!t->slots) status = lk_oom(l->err);
	if (status == LK_OK) learn_all(l, &events);
	lk_vec_free(&events);
	return status;
}

void lk_lift_transfers_free(lk_lifting *l) {
	if (l->transfers) free(l->transfers->slots);
	free(l->transfers);
}

int64_t lk_lift_transfer(const lk_lifting *l, uint32_t event) {
	const struct transfer *same = find(l->transfers, alike(l->c, event)), *all = find(l->transfers, class_of(l->c, event));
	int64_t ns = l->c->dur_ns[event], elements = elements_of(l->c, event);
	if (same->count && same->ns < ns) ns = same->ns;
	if (!all->count || all->rate <= 0 || elements < 0) return ns;
	double most = (double)all->ns + (double)elements / all->rate;
	return most < (double)ns ? (int64_t)most : ns;
}
