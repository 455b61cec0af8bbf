/* schedule_walk.c: executes a whole schedule pass by pass with given times.
 *
 * The rules of dependency are common to all schedules; k is a place in the chain of model chunks, i
 * a micro-batch:
 *     F(k, i) after F(k-1, i);  B(k, i) after F(k, i) and B(k+1, i);  W(k, i) after B(k, i);
 *     every rank works through its list in order.
 * A rank runs until its next slot waits for another rank; the pass that ends the wait puts it back
 * on the work list. An end time is the maximum over what comes before, so the order of work does
 * not change it and each slot is touched O(1) times. */
#include <math.h>

#include "base/arena.h"
#include "model/layout/schedule.h"

/* A rank's state for its next slot. */
struct lane {
	const lk_slot *next, *stop;
	double free_at;
	double sent[2]; /* when its messages forward and back have been sent */
	bool listed;    /* on the stack */
};

/* A chunk's state: arrival times of inputs and gradients, [micro-batches], NAN if unknown. `input`
 * NULL: available from the beginning. The last place passes its outputs to itself, as gradients. */
struct chunk {
	int place;
	int before, behind; /* ranks of the adjacent places; -1: none */
	double *input, *gradient;
	double *output, *returned; /* input of the next place, gradient of the previous place; NULL:
	                              none */
};

struct walk {
	const lk_schedule *schedule;
	const lk_schedule_shape *shape;
	const lk_pass_times *times;
	int chains, places, per_chain; /* per_chain: micro-batches of one chain */
	bool in_turn;         /* messages of a rank are sent one after another, in each direction */
	lk_slots slots;       /* of all ranks, concatenated */
	struct lane *lanes;   /* [stages] */
	struct chunk *chunks; /* [stages * chunks] */
	int *work;            /* stack of ranks to examine */
	int work_count;
};

static double walk_later(double a, double b) {
	return a > b ? a : b;
}

static void wake(struct walk *walk, int rank) {
	if (walk->lanes[rank].listed) return;
	walk->lanes[rank].listed = true;
	walk->work[walk->work_count++] = rank;
}

/* Earliest start of a slot as far as other ranks decide; NAN until they are done. A weight gradient
 * always follows its backward pass on the same rank. */
static double ready_at(const struct chunk *chunk, const lk_slot *slot) {
	if (slot->pass == LK_PASS_W) return 0;
	if (slot->pass == LK_PASS_F) return chunk->input ? chunk->input[slot->microbatch] : 0;
	return chunk->gradient[slot->microbatch];
}

/* Time that an otherwise idle rank waits for the slot's message. */
static double waited_for(const struct walk *walk, const struct chunk *chunk, int rank,
                         const lk_slot *slot) {
	int from;
	if (slot->pass == LK_PASS_F) from = chunk->before;
	else if (slot->pass == LK_PASS_W) from = -1;
	else from = chunk->behind;
	return from >= 0 && from != rank ? walk->times->message : 0;
}

/* Arrival on the other rank of the result of a pass that ends now. */
static double walk_arrival(const struct walk *walk, int rank, int to, bool back, double end) {
	struct lane *lane = &walk->lanes[rank];
	if (to == rank || walk->times->waits) return end;
	if (!walk->in_turn) return end + walk->times->message;
	return lane->sent[back] = walk_later(end, lane->sent[back]) + walk->times->message;
}

/* Pass on the result of a slot and wake the rank that may wait for it. */
static void walk_finish(struct walk *walk, int rank, const struct chunk *chunk, const lk_slot *slot,
                        double end) {
	int i = slot->microbatch;
	if (slot->pass == LK_PASS_W) return;
	if (slot->pass != LK_PASS_F) {
		if (chunk->returned) {
			chunk->returned[i] = walk_arrival(walk, rank, chunk->before, true, end);
			wake(walk, chunk->before);
		}
	} else if (chunk->output) {
		chunk->output[i] = walk_arrival(walk, rank, chunk->behind, false, end);
		wake(walk, chunk->behind);
	} else {
		chunk->gradient[i] = end;
	}
}

/* The duration of the slot's pass, by place; `count`: passes that run concurrently. */
static const double *times_of(const lk_pass_times *times, const lk_slot *slot, int count) {
	const double *alone = count == 1 ? times->alone[slot->pass] : NULL;
	return alone ? alone : times->pass[slot->pass];
}

/* Run the next slot of a rank, or the next two if they overlap; false if it has to wait. */
static bool walk_advance(struct walk *walk, int rank) {
	struct lane *lane = &walk->lanes[rank];
	const struct chunk *of = &walk->chunks[rank * walk->shape->chunks];
	const lk_slot *slot = lane->next;
	int count = slot->pair && slot + 1 < lane->stop ? 2 : 1;
	double start = lane->free_at, spent = 0;
	for (int i = 0; i < count; i++) {
		const struct chunk *chunk = &of[slot[i].chunk];
		double ready = ready_at(chunk, &slot[i]);
		if (isnan(ready)) return false;
		start = walk_later(start, ready);
		if (walk->times->waits) start += waited_for(walk, chunk, rank, &slot[i]);
		spent += times_of(walk->times, &slot[i], count)[chunk->place];
	}
	if (count == 2 && walk->times->paired)
		spent += fmin(walk->times->paired[of[slot[0].chunk].place],
		              walk->times->paired[of[slot[1].chunk].place]);
	if (count == 2 && walk->times->pair > 0) spent = walk->times->pair;
	lane->free_at = start + spent;
	for (int i = 0; i < count; i++)
		walk_finish(walk, rank, &of[slot[i].chunk], &slot[i], lane->free_at);
	lane->next += count;
	return true;
}

/* ---- setting up ---- */

/* Collect the slots of all ranks. The list may move while it grows, so lanes get their addresses at
 * the end. */
static lk_status collect_orders(struct walk *walk, lk_arena *arena, lk_error *err) {
	int stages = walk->shape->stages;
	size_t *begin = LK_ARRAY(arena, size_t, stages + 1);
	if (!begin) return lk_oom(err);
	if (!lk_reserve(&walk->slots,
	                3 * (size_t)stages * (size_t)walk->shape->chunks * (size_t)walk->per_chain))
		return lk_oom(err);
	for (int rank = 0; rank < stages; rank++) {
		LK_TRY(walk->schedule->order(walk->shape, rank, &walk->slots, err));
		begin[rank + 1] = walk->slots.count;
	}
	for (int rank = 0; rank < stages; rank++) {
		walk->lanes[rank].next = walk->slots.at + begin[rank];
		walk->lanes[rank].stop = walk->slots.at + begin[rank + 1];
	}
	return LK_OK;
}

/* Connect chunks to their neighbours in the chain: `at` and `owner` [chains * places]. */
static void join_chunks(const struct walk *walk, struct chunk *const *at, const int *owner) {
	for (int k = 0; k < walk->chains * walk->places; k++) {
		struct chunk *chunk = at[k];
		bool first = chunk->place == 0, last = chunk->place == walk->places - 1;
		chunk->before = first ? -1 : owner[k - 1];
		chunk->returned = first ? NULL : at[k - 1]->gradient;
		chunk->behind = last ? -1 : owner[k + 1];
		chunk->output = last ? NULL : at[k + 1]->input;
	}
}

static lk_status set_chunks(struct walk *walk, lk_arena *arena, lk_error *err) {
	int stages = walk->shape->stages, chunks = walk->shape->chunks,
		ends = walk->chains * walk->places;
	size_t m = (size_t)walk->per_chain;
	struct chunk **at = LK_ARRAY(arena, struct chunk *, ends);
	int *owner = LK_ARRAY(arena, int, ends);
	double *times = LK_ARRAY(arena, double, 2 * m * (size_t)ends);
	if (!at || !owner || !times) return lk_oom(err);
	for (size_t i = 0; i < 2 * m * (size_t)ends; i++) times[i] = NAN;
	for (int rank = 0; rank < stages; rank++)
		for (int i = 0; i < chunks; i++) {
			struct chunk *chunk = &walk->chunks[rank * chunks + i];
			chunk->place = walk->schedule->place(walk->shape, rank, i);
			int k = (walk->chains == 2 ? i * walk->places : 0) + chunk->place;
			at[k] = chunk;
			owner[k] = rank;
			chunk->input = chunk->place > 0 ? times + 2 * m * (size_t)k : NULL,
			chunk->gradient = times + 2 * m * (size_t)k + m;
		}
	join_chunks(walk, at, owner);
	return LK_OK;
}

static lk_status walk_set_up(struct walk *walk, lk_arena *arena, lk_error *err) {
	size_t stages = (size_t)walk->shape->stages;
	walk->lanes = LK_ARRAY(arena, struct lane, stages);
	walk->work = LK_ARRAY(arena, int, stages);
	walk->chunks = LK_ARRAY(arena, struct chunk, stages * (size_t)walk->shape->chunks);
	if (!walk->lanes || !walk->work || !walk->chunks) return lk_oom(err);
	LK_TRY(set_chunks(walk, arena, err));
	return collect_orders(walk, arena, err);
}

/* ---- walking ---- */

static lk_status deadlock(const struct walk *walk, int rank, lk_error *err) {
	const lk_slot *slot = walk->lanes[rank].next;
	return lk_fail(err, LK_ERR_INTERNAL, walk->schedule->name,
	               "deadlock: stage %d waits at pass %c of chunk %d, micro-batch %d", rank,
	               "FBBW"[slot->pass], slot -> chunk, slot -> microbatch);
}

static lk_status walk_run(struct walk *walk, double *ends, lk_error *err) {
	for (int rank = walk->shape->stages - 1; rank >= 0; rank--) wake(walk, rank);
	while (walk->work_count > 0) {
		int rank = walk->work[--walk->work_count];
		walk->lanes[rank].listed = false;
		while (walk->lanes[rank].next < walk->lanes[rank].stop && walk_advance(walk, rank)) {
		}
	}
	for (int rank = 0; rank < walk->shape->stages; rank++) {
		if (walk->lanes[rank].next < walk->lanes[rank].stop) return deadlock(walk, rank, err);
		ends[rank] = walk->lanes[rank].free_at;
	}
	return LK_OK;
}

lk_status lk_schedule_walk(const lk_schedule *schedule, const lk_schedule_shape *shape,
                           const lk_pass_times *times, double *ends, lk_error *err) {
	LK_TRY(schedule->check(shape, err));
	struct walk w = {.schedule = schedule,
	                 .shape = shape,
	                 .times = times,
	                 .chains = 1,
	                 .places = shape->stages * shape->chunks,
	                 .per_chain = shape->microbatches,
	                 .in_turn = schedule->place == lk_schedule_place_round};
	if (schedule->kind == LK_SCHED_DUALPIPE) {
		/* a micro-batch passes a rank once, in one direction */
		w.chains = 2;
		w.places = shape->stages;
		w.per_chain = shape->microbatches / 2;
	}
	lk_arena arena = LK_ARENA_INIT;
	lk_status status = walk_set_up(&w, &arena, err);
	if (status == LK_OK) status = walk_run(&w, ends, err);
	lk_vec_free(&w.slots);
	lk_arena_free(&arena);
	return status;
}
