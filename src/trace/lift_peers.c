/* lift_peers.c: how long collectives take once all have come: the shortest time of those alike, that is of one kernel called from
 * the same operations on as many elements. */
#include <stdlib.h>

#include "base/stats.h"
#include "trace/lift_parts.h"

typedef struct lk_transfers {
	struct {
		uint64_t key; /* 0: free */
		int64_t ns;
	} *slots;
	size_t size;
} lk_transfers;

static uint64_t key_of(const lk_capture *c, uint32_t event) {
	uint64_t key = lk_hash64(c->name[event]);
	const lk_comm_note *note = lk_capture_comm(c, event);
	if (note) key = lk_hash64(key ^ (uint64_t)note->in_elements) ^ note->group;
	uint32_t at = c->launch[event] == LK_NONE ? LK_NONE : c->parent[c->launch[event]];
	for (; at != LK_NONE; at = c->parent[at])
		if (c->kind[at] == LK_EVENT_OP) key = lk_hash64(key ^ c->name[at]) ^ c->shape[at];
	return key | 1;
}

static int64_t *find(const lk_transfers *t, uint64_t key) {
	size_t at = key >> 1 & (t->size - 1);
	while (t->slots[at].key && t->slots[at].key != key) at = (at + 1) & (t->size - 1);
	if (!t->slots[at].key) t->slots[at].key = key, t->slots[at].ns = INT64_MAX;
	return &t->slots[at].ns;
}

lk_status lk_lift_transfers(lk_lifting *l) {
	const lk_capture *c = l->c;
	const lk_lift_stretch *s = l->stretch;
	lk_transfers *t = l->transfers = calloc(1, sizeof *t);
	if (!t) return lk_oom(l->err);
	size_t count = 0;
	for (uint32_t i = 0; i < c->count; i++) count += lk_lift_communicates(c, i);
	for (t->size = 64; t->size < count * 2; t->size *= 2) {}
	t->slots = calloc(t->size, sizeof *t->slots);
	if (!t->slots) return lk_oom(l->err);
	for (uint32_t i = 0; i < c->count; i++) {
		if (!lk_lift_communicates(c, i) || (c->start_ns[i] >= s->skip_from_ns && c->start_ns[i] < s->skip_to_ns)) continue;
		int64_t *ns = find(t, key_of(c, i));
		if (c->dur_ns[i] < *ns) *ns = c->dur_ns[i];
	}
	return LK_OK;
}

void lk_lift_transfers_free(lk_lifting *l) {
	if (l->transfers) free(l->transfers->slots);
	free(l->transfers);
}

int64_t lk_lift_transfer(const lk_lifting *l, uint32_t event) {
	int64_t ns = *find(l->transfers, key_of(l->c, event));
	return ns < l->c->dur_ns[event] ? ns : l->c->dur_ns[event];
}
