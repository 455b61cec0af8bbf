/* lift_peers.c: transfer times of collectives after all ranks have arrived. Of one kernel in one
 * group, the fastest one tells the rate and the shortest one the latency: none needs longer than
 * both together, and none longer than the shortest similar one (called from the same operations on
 * as many elements). Any longer time was waiting. */
#include <stdlib.h>

#include "base/check.h"
#include "base/stats.h"
#include "trace/capture/capture.h"
#include "trace/lift/lift_internal.h"

/* Similar collectives, or all of a class. */
struct transfer {
	uint64_t key; /* 0: free */
	int64_t ns;   /* the shortest */
	double rate;  /* of a class: most elements per nanosecond; 0 unknown */
	uint32_t count;
};

struct lk_transfers {
	struct transfer *slots;
	size_t size;
};

typedef LK_VEC(uint32_t) lk_comm_events;

static uint64_t peers_class_of(const lk_capture *capture, uint32_t event) {
	const lk_comm_note *note = lk_capture_comm(capture, event);
	return lk_hash64(capture->name[event] * 2u ^ (uint64_t)(note ? note->group : 0) << 40) | 1;
}

static int64_t peers_elements_of(const lk_capture *capture, uint32_t event) {
	const lk_comm_note *note = lk_capture_comm(capture, event);
	return note ? note->in_elements : -1;
}

static uint64_t peers_alike(const lk_capture *capture, uint32_t event) {
	LK_ASSERT(event < capture->count);
	uint64_t key =
		peers_class_of(capture, event) ^ lk_hash64((uint64_t)peers_elements_of(capture, event));
	uint32_t at =
		capture->launch[event] == LK_NONE ? LK_NONE : capture->parent[capture->launch[event]];
	for (; at != LK_NONE; at = capture->parent[at])
		if (capture->kind[at] == LK_EVENT_OP)
			key = lk_hash64(key ^ capture->name[at]) ^ lk_capture_shape(capture, at)->shape;
	return key | 1;
}

static struct transfer *peers_find(const struct lk_transfers *transfers, uint64_t key) {
	LK_ASSERT(key && transfers->size && !(transfers->size & (transfers->size - 1)));
	size_t at = key >> 1 & (transfers->size - 1);
	while (transfers->slots[at].key && transfers->slots[at].key != key)
		at = (at + 1) & (transfers->size - 1);
	if (!transfers->slots[at].key)
		transfers->slots[at] = (struct transfer){.key = key, .ns = INT64_MAX};
	return &transfers->slots[at];
}

static void peers_learn(struct transfer *known, int64_t ns, int64_t elements) {
	if (ns < known->ns) known->ns = ns;
	if (ns > 0 && (double)elements / (double)ns > known->rate)
		known->rate = (double)elements / (double)ns;
	known->count++;
}

/* List all kernels that communicate. Every lift of a step goes over the whole capture, so the
 * notes, which are in order too, are scanned in step instead of searched. */
static lk_status list_comms(const lk_capture *capture, lk_comm_events *out, lk_error *err) {
	size_t note = 0;
	for (uint32_t i = 0; i < capture->count; i++) {
		if (capture->kind[i] != LK_EVENT_KERNEL) continue;
		while (note < capture->comms.count && capture->comms.at[note].event < i) note++;
		bool noted = note < capture->comms.count && capture->comms.at[note].event == i;
		if (!noted && !lk_work_communicates(capture, i)) continue;
		if (!lk_push(out)) return lk_oom(err);
		*lk_last(out) = i;
	}
	return LK_OK;
}

static void learn_all(lk_lifting *lifting, const lk_comm_events *events) {
	const lk_capture *capture = lifting->capture;
	const lk_lift_stretch *stretch = lifting->stretch;
	for (size_t e = 0; e < events->count; e++) {
		uint32_t i = events->at[e];
		if (capture->start_ns[i] >= stretch->skip_from_ns &&
		    capture->start_ns[i] < stretch->skip_to_ns)
			continue;
		peers_learn(peers_find(lifting->transfers, peers_alike(capture, i)), capture->dur_ns[i],
		            peers_elements_of(capture, i));
		peers_learn(peers_find(lifting->transfers, peers_class_of(capture, i)), capture->dur_ns[i],
		            peers_elements_of(capture, i));
	}
}

lk_status lk_lift_transfers(lk_lifting *lifting) {
	lk_comm_events events = {0};
	struct lk_transfers *transfers = lifting->transfers = calloc(1, sizeof *transfers);
	if (!transfers) return lk_oom(lifting->err);
	lk_status status = list_comms(lifting->capture, &events, lifting->err);
	for (transfers->size = 64; transfers->size < events.count * 4; transfers->size *= 2) {
	}
	transfers->slots = calloc(transfers->size, sizeof *transfers->slots);
	if (!transfers->slots) status = lk_oom(lifting->err);
	if (status == LK_OK) learn_all(lifting, &events);
	lk_vec_free(&events);
	return status;
}

void lk_lift_transfers_free(lk_lifting *lifting) {
	if (lifting->transfers) free(lifting->transfers->slots);
	free(lifting->transfers);
}

int64_t lk_lift_transfer(const lk_lifting *lifting, uint32_t event) {
	LK_ASSERT(event < lifting->capture->count);
	const struct transfer *same =
							  peers_find(lifting->transfers, peers_alike(lifting->capture, event)),
						  *all = peers_find(lifting->transfers,
	                                        peers_class_of(lifting->capture, event));
	int64_t ns = lifting->capture->dur_ns[event],
			elements = peers_elements_of(lifting->capture, event);
	if (same->count && same->ns < ns) ns = same->ns;
	if (!all->count || all->rate <= 0 || elements < 0) return ns;
	double most = (double)all->ns + (double)elements / all->rate;
	return most < (double)ns ? (int64_t)most : ns;
}
