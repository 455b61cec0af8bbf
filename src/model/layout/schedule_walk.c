/* schedule_walk.c: a whole schedule, walked pass by pass with given times.
 *
 * The walk follows the rules of dependency that all schedules have in common, with k a place in the chain of model
 * chunks and i a micro-batch:
 *     F(k, i) after F(k-1, i);  B(k, i) after F(k, i) and B(k+1, i);  W(k, i) after B(k, i);
 *     every rank works through its list in order.
 * A rank runs until its next slot waits for another rank; the pass that ends the wait puts it back on the work list.
 * An end time is the maximum over what comes before, so the order of work does not change it and each slot is touched
 * O(1) times. */
#include <math.h>

#include "model/layout/schedule.h"

/* What a rank needs at hand for its next slot. */
struct lane {
	const lk_slot *next, *stop;
	double free_at;
	double sent[2];          /* when its messages forward and back have left */
	bool listed;             /* on the stack */
};

/* What a chunk of a rank needs at hand: when inputs and gradients arrive, [micro-batches], NAN not known yet. NULL `input`:
 * they are there from the beginning. The last place hands its outputs to itself, as gradients. */
struct chunk {
	int place;
	int before, behind;      /* ranks of the places beside it; -1: none */
	double *input, *gradient;
	double *output, *returned; /* input of the place behind, gradient of the place before; NULL: there is none */
};

struct walk {
	const lk_schedule *schedule;
	const lk_schedule_shape *shape;
	const lk_pass_times *times;
	int chains, places, per_chain; /* per_chain: micro-batches of one chain */
	bool in_turn;            /* messages of a rank leave one after another, in each direction */
	lk_slots slots;          /* of all ranks, one after another */
	struct lane *lanes;             /* [stages] */
	struct chunk *chunks;           /* [stages * chunks] */
	int *work;               /* stack of ranks to look at */
	int work_count;
};

static double later(double a, double b) {
	return a > b ? a : b;
}

static void wake(struct walk *w, int rank) {
	if (w->lanes[rank].listed) return;
	w->lanes[rank].listed = true;
	w->work[w->work_count++] = rank;
}

/* When a slot may start as far as other ranks go; NAN while one of them is not done. Weight gradients stand behind their
 * backward pass on the same rank. */
static double ready_at(const struct chunk *c, const lk_slot *slot) {
	if (slot->pass == LK_PASS_W) return 0;
	if (slot->pass == LK_PASS_F) return c->input ? c->input[slot->microbatch] : 0;
	return c->gradient[slot->microbatch];
}

/* What a rank that can do nothing else meanwhile waits for the slot's message. */
static double waited_for(const struct walk *w, const struct chunk *c, int rank, const lk_slot *slot) {
	int from = slot->pass == LK_PASS_F ? c->before : slot->pass == LK_PASS_W ? -1 : c->behind;
	return from >= 0 && from != rank ? w->times->message : 0;
}

/* When what ends now is there on the other rank. */
static double arrival(const struct walk *w, int rank, int to, bool back, double end) {
	struct lane *l = &w->lanes[rank];
	if (to == rank || w->times->waits) return end;
	if (!w->in_turn) return end + w->times->message;
	return l->sent[back] = later(end, l->sent[back]) + w->times->message;
}

/* Hands on what a slot has made, and wakes the rank that may wait for it. */
static void finish(struct walk *w, int rank, const struct chunk *c, const lk_slot *slot, double end) {
	int i = slot->microbatch;
	if (slot->pass == LK_PASS_W) return;
	if (slot->pass != LK_PASS_F) {
		if (c->returned) c->returned[i] = arrival(w, rank, c->before, true, end), wake(w, c->before);
	} else if (c->output) {
		c->output[i] = arrival(w, rank, c->behind, false, end), wake(w, c->behind);
	} else {
		c->gradient[i] = end;
	}
}

/* Runs the next slot of a rank, or the next two where they overlap; false if it has to wait. */
static bool advance(struct walk *w, int rank) {
	struct lane *l = &w->lanes[rank];
	const struct chunk *of = &w->chunks[rank * w->shape->chunks];
	const lk_slot *slot = l->next;
	int count = slot->pair && slot + 1 < l->stop ? 2 : 1;
	double start = l->free_at, spent = 0;
	for (int i = 0; i < count; i++) {
		const struct chunk *c = &of[slot[i].chunk];
		double ready = ready_at(c, &slot[i]);
		if (isnan(ready)) return false;
		start = later(start, ready);
		if (w->times->waits) start += waited_for(w, c, rank, &slot[i]);
		spent += w->times->pass[slot[i].pass][c->place];
	}
	if (count == 2 && w->times->pair > 0) spent = w->times->pair;
	l->free_at = start + spent;
	for (int i = 0; i < count; i++) finish(w, rank, &of[slot[i].chunk], &slot[i], l->free_at);
	l->next += count;
	return true;
}

/* ---- setting up ---- */

/* The slots of all ranks. Their list may move while it grows, so that lanes are told where theirs are at the end. */
static lk_status collect_orders(struct walk *w, lk_arena *arena, lk_error *err) {
	int stages = w->shape->stages;
	size_t *begin = LK_ARRAY(arena, size_t, stages + 1);
	if (!begin) return lk_oom(err);
	if (!lk_reserve(&w->slots, 3 * (size_t)stages * (size_t)w->shape->chunks * (size_t)w->per_chain)) return lk_oom(err);
	for (int rank = 0; rank < stages; rank++) {
		LK_TRY(w->schedule->order(w->shape, rank, &w->slots, err));
		begin[rank + 1] = w->slots.count;
	}
	for (int rank = 0; rank < stages; rank++)
		w->lanes[rank].next = w->slots.at + begin[rank], w->lanes[rank].stop = w->slots.at + begin[rank + 1];
	return LK_OK;
}

/* Chunks find their neighbours in the chain: `at` and `owner` [chains * places]. */
static void join_chunks(const struct walk *w, struct chunk *const *at, const int *owner) {
	for (int k = 0; k < w->chains * w->places; k++) {
		struct chunk *c = at[k];
		bool first = c->place == 0, last = c->place == w->places - 1;
		c->before = first ? -1 : owner[k - 1], c->returned = first ? NULL : at[k - 1]->gradient;
		c->behind = last ? -1 : owner[k + 1], c->output = last ? NULL : at[k + 1]->input;
	}
}

static lk_status set_chunks(struct walk *w, lk_arena *arena, lk_error *err) {
	int stages = w->shape->stages, chunks = w->shape->chunks, ends = w->chains * w->places;
	size_t m = (size_t)w->per_chain;
	struct chunk **at = LK_ARRAY(arena, struct chunk *, ends);
	int *owner = LK_ARRAY(arena, int, ends);
	double *times = LK_ARRAY(arena, double, 2 * m * (size_t)ends);
	if (!at || !owner || !times) return lk_oom(err);
	for (size_t i = 0; i < 2 * m * (size_t)ends; i++) times[i] = NAN;
	for (int rank = 0; rank < stages; rank++)
		for (int i = 0; i < chunks; i++) {
			struct chunk *c = &w->chunks[rank * chunks + i];
			c->place = w->schedule->place(w->shape, rank, i);
			int k = (w->chains == 2 ? i * w->places : 0) + c->place;
			at[k] = c, owner[k] = rank;
			c->input = c->place > 0 ? times + 2 * m * (size_t)k : NULL, c->gradient = times + 2 * m * (size_t)k + m;
		}
	join_chunks(w, at, owner);
	return LK_OK;
}

static lk_status set_up(struct walk *w, lk_arena *arena, lk_error *err) {
	size_t stages = (size_t)w->shape->stages;
	w->lanes = LK_ARRAY(arena, struct lane, stages);
	w->work = LK_ARRAY(arena, int, stages);
	w->chunks = LK_ARRAY(arena, struct chunk, stages * (size_t)w->shape->chunks);
	if (!w->lanes || !w->work || !w->chunks) return lk_oom(err);
	LK_TRY(set_chunks(w, arena, err));
	return collect_orders(w, arena, err);
}

/* ---- walking ---- */

static lk_status deadlock(const struct walk *w, int rank, lk_error *err) {
	const lk_slot *slot = w->lanes[rank].next;
	return lk_fail(err, LK_ERR_INTERNAL, w->schedule->name, "deadlock: stage %d waits at pass %c of chunk %d, micro-batch %d",
	               rank, "FBBW"[slot->pass], slot->chunk, slot->microbatch);
}

static lk_status run(struct walk *w, double *ends, lk_error *err) {
	for (int rank = w->shape->stages - 1; rank >= 0; rank--) wake(w, rank);
	while (w->work_count > 0) {
		int rank = w->work[--w->work_count];
		w->lanes[rank].listed = false;
		while (w->lanes[rank].next < w->lanes[rank].stop && advance(w, rank)) {}
	}
	for (int rank = 0; rank < w->shape->stages; rank++) {
		if (w->lanes[rank].next < w->lanes[rank].stop) return deadlock(w, rank, err);
		ends[rank] = w->lanes[rank].free_at;
	}
	return LK_OK;
}

lk_status lk_schedule_walk(const lk_schedule *schedule, const lk_schedule_shape *shape, const lk_pass_times *times,
                           double *ends, lk_error *err) {
	LK_TRY(schedule->check(shape, err));
	bool two_ways = schedule->kind == LK_SCHED_DUALPIPE; /* a micro-batch passes a rank once, in one direction */
	struct walk w = {.schedule = schedule, .shape = shape, .times = times, .chains = two_ways ? 2 : 1,
	          .places = two_ways ? shape->stages : shape->stages * shape->chunks,
	          .per_chain = two_ways ? shape->microbatches / 2 : shape->microbatches,
	          .in_turn = schedule->place == lk_schedule_place_round};
	lk_arena arena = LK_ARENA_INIT;
	lk_status status = set_up(&w, &arena, err);
	if (status == LK_OK) status = run(&w, ends, err);
	lk_vec_free(&w.slots);
	lk_arena_free(&arena);
	return status;
}
