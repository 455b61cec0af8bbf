/* lift_works_messages.c: sends and receives of works that name their peers, as channels of a step
 * graph: all messages from one rank to another with one tag are one channel, on which the k-th send
 * pairs with the k-th receive. */
#include <stdlib.h>

#include "trace/lift/lift_internal.h"
#include "base/sort.h"

/* One end of a message. */
struct message {
	uint32_t from, to; /* indices of the ranks */
	int64_t tag;
	bool receives;
	uint32_t comm; /* of its rank */
};

typedef LK_VEC(struct message) messages;

static int messages_by_key(const void *a, const void *b) {
	const struct message *x = a, *y = b;
	if (x->from != y->from) return x->from < y->from ? -1 : 1;
	if (x->to != y->to) return x->to < y->to ? -1 : 1;
	if (x->tag != y->tag) return x->tag < y->tag ? -1 : 1;
	if (x->receives != y->receives) return x->receives ? 1 : -1;
	return x->comm < y->comm ? -1 : x->comm > y->comm;
}

/* Traces name peers by number; return that rank's index, or LK_NONE if its trace was not given. */
static uint32_t messages_place_of(const lk_lifter *lifter, int32_t rank) {
	for (uint32_t i = 0; i < lifter->count; i++)
		if (lifter->works[i]->rank == rank) return i;
	return LK_NONE;
}

static bool messages_list_messages(lk_lifter *lifter, messages *list) {
	for (uint32_t rank = 0; rank < lifter->count; rank++) {
		const lk_works *works = lifter->works[rank];
		for (size_t i = 0; i < works->comms.count; i++) {
			const lk_comm_note *note = &works->comms.at[i].note;
			if (note->kind != LK_OP_SEND && note->kind != LK_OP_RECV) continue;
			lifter->team_of[rank][i] = LK_NONE;
			uint32_t peer = note->peer < 0 ? LK_NONE : messages_place_of(lifter, note->peer);
			if (peer == LK_NONE || peer == rank) continue;
			bool receives = note->kind == LK_OP_RECV;
			if (!lk_push(list)) return false;
			*lk_last(list) = (struct message){receives ? peer : rank, receives ? rank : peer,
			                                  works->comms.at[i].sequence, receives, (uint32_t)i};
		}
	}
	lk_sort(list->at, list->count, sizeof *list->at, messages_by_key);
	return true;
}

static size_t messages_run_of(const messages *list, size_t at) {
	size_t end = at;
	while (end < list->count && list->at[end].from == list->at[at].from &&
	       list->at[end].to == list->at[at].to && list->at[end].tag == list->at[at].tag)
		end++;
	return end - at;
}

/* Assign channels to the messages of one key at both ends, unless some have no partner. */
static bool give_channel(lk_lifter *lifter, const struct message *message, size_t count,
                         uint32_t *used) {
	size_t receives = 0;
	for (size_t i = 0; i < count; i++) receives += message[i].receives;
	if (receives * 2 != count) return false;
	for (size_t i = 0; i < count; i++) {
		uint32_t rank = message[i].receives ? message[i].to : message[i].from;
		lifter->team_of[rank][message[i].comm] = used[rank];
	}
	used[message->from]++;
	used[message->to]++;
	return true;
}

static lk_status messages_wire(lk_lifter *lifter, const messages *list, uint32_t *used) {
	uint32_t most = 0;
	for (size_t at = 0, run; at < list->count; at += run) {
		run = messages_run_of(list, at);
		give_channel(lifter, list->at + at, run, used);
	}
	for (uint32_t rank = 0; rank < lifter->count; rank++)
		if (used[rank] > most) most = used[rank];
	LK_TRY(lk_graph_set_programs(lifter->graph, lifter->count, most, lifter->err));
	for (size_t at = 0, run; at < list->count; at += run) {
		const struct message *first = &list->at[at],
							 *last = &list->at[at + (run = messages_run_of(list, at)) - 1];
		uint32_t a = lifter->team_of[first->from][first->comm],
				 b = lifter->team_of[first->to][last->comm];
		bool paired = !first->receives && last->receives && a != LK_NONE && b != LK_NONE;
		if (paired) lk_graph_wire(lifter->graph, first->from, a, first->to, b);
	}
	return LK_OK;
}

lk_status lk_lift_messages(lk_lifter *lifter) {
	messages list = {0};
	uint32_t *used = calloc((size_t)lifter->count + 1, sizeof *used);
	bool good = used && messages_list_messages(lifter, &list);
	lk_status status = good ? messages_wire(lifter, &list, used) : lk_oom(lifter->err);
	free(used);
	lk_vec_free(&list);
	return status;
}
