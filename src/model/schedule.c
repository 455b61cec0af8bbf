/* schedule.c: the table of pipeline schedules, the checks they share, and the executor that finds a makespan.
 *
 * The executor follows the dependency rules that all schedules have in common, with k a place in the chain of model
 * chunks and i a micro-batch:
 *     F(k, i) after F(k-1, i);  B(k, i) after F(k, i) and B(k+1, i);  W(k, i) after B(k, i);
 *     every rank works through its list in order.
 * A rank runs until its next slot waits for another rank; the pass that ends the wait puts it back on the work list.
 * An end time is the maximum over what comes before, so the order of work does not change it and each slot is touched
 * O(1) times. */
#include "model/schedule.h"
#include "model/schedule_kinds.h"

#include <math.h>
#include "base/text.h"

static const lk_schedule *const table[LK_SCHEDULES] = {
	[LK_SCHED_GPIPE] = &lk_schedule_gpipe,
	[LK_SCHED_1F1B] = &lk_schedule_1f1b,
	[LK_SCHED_INTERLEAVED] = &lk_schedule_interleaved,
	[LK_SCHED_ZB_H1] = &lk_schedule_zb_h1,
	[LK_SCHED_ZB_V] = &lk_schedule_zb_v,
	[LK_SCHED_DUALPIPE] = &lk_schedule_dualpipe,
};

const lk_schedule *lk_schedule_get(lk_schedule_kind kind) {
	return (unsigned)kind < LK_SCHEDULES ? table[kind] : NULL;
}

const lk_schedule *lk_schedule_find(const char *name) {
	if (name == NULL) return NULL;
	for (int i = 0; i < LK_SCHEDULES; i++)
		if (lk_same_name(name, table[i]->name) || lk_same_name(name, table[i]->label)) return table[i];
	return NULL;
}

static lk_status out_of_range(const lk_schedule *schedule, const char *what, int value, int limit, lk_error *err) {
	return lk_fail(err, LK_ERR_INPUT, schedule->name, "%d %s: must lie in 1..%d", value, what, limit);
}

lk_status lk_schedule_check_shape(const lk_schedule *schedule, const lk_schedule_shape *shape, lk_error *err) {
	if (shape->stages < 1 || shape->stages > LK_SCHEDULE_STAGES)
		return out_of_range(schedule, "pipeline stages", shape->stages, LK_SCHEDULE_STAGES, err);
	if (shape->chunks < 1 || shape->chunks > LK_SCHEDULE_CHUNKS)
		return out_of_range(schedule, "model chunks per rank", shape->chunks, LK_SCHEDULE_CHUNKS, err);
	if (schedule->fixed_chunks != 0 && shape->chunks != schedule->fixed_chunks) {
		lk_fail(err, LK_ERR_INPUT, schedule->name, "%s has %d model chunk%s per rank, not %d", schedule->label,
		        schedule->fixed_chunks, schedule->fixed_chunks == 1 ? "" : "s", shape->chunks);
		return lk_hint(err, schedule->fixed_chunks == 1 ? "use the schedule interleaved, or leave the chunks out"
		                                                : "leave the number of chunks out");
	}
	int limit = LK_SCHEDULE_PASSES / shape->chunks;
	if (shape->microbatches < 1 || shape->microbatches > limit)
		return out_of_range(schedule, "micro-batches", shape->microbatches, limit, err);
	return LK_OK;
}

lk_status lk_schedule_begin(const lk_schedule *schedule, const lk_schedule_shape *shape, int stage, size_t slots,
                            lk_slots *out, lk_error *err) {
	LK_TRY(schedule->check(shape, err));
	if (stage < 0 || stage >= shape->stages)
		return lk_fail(err, LK_ERR_INTERNAL, schedule->name, "stage %d of %d", stage, shape->stages);
	return lk_reserve(out, slots) ? LK_OK : lk_oom(err);
}

int lk_schedule_place_round(const lk_schedule_shape *shape, int stage, int chunk) {
	return chunk * shape->stages + stage;
}

/* A run of all ranks. Ends are NAN until they are known; they are indexed [chain][place][micro-batch]. */
typedef struct run {
	const lk_schedule *schedule;
	const lk_schedule_shape *shape;
	int chains, places, per_chain; /* per_chain: micro-batches of one chain */
	double time[4];                /* by lk_pass, of one chunk */
	double pair_time;
	lk_slots slots;                /* of all ranks, one after another */
	size_t *next, *stop;           /* [stages] of slots */
	double *free_at;               /* [stages] */
	int *place;                    /* [stages * chunks] */
	int *owner;                    /* [chains * places] the rank of a place */
	double *forward, *backward;    /* ends */
	int *work;                     /* stack of ranks to look at */
	bool *listed;                  /* [stages] on the stack */
	int work_count;
} run;

static size_t pass_index(const run *r, int chain, int place, int microbatch) {
	return ((size_t)chain * (size_t)r->places + (size_t)place) * (size_t)r->per_chain + (size_t)microbatch;
}

static int chain_of(const run *r, const lk_slot *slot) {
	return r->chains == 2 ? slot->chunk : 0;
}

static int place_of(const run *r, int rank, const lk_slot *slot) {
	return r->place[rank * r->shape->chunks + slot->chunk];
}

static void wake(run *r, int rank) {
	if (r->listed[rank]) return;
	r->listed[rank] = true;
	r->work[r->work_count++] = rank;
}

/* When a slot may start as far as other passes go; NAN while one of them is not done. NAN is kept by addition. */
static double ready_at(const run *r, int rank, const lk_slot *slot) {
	int chain = chain_of(r, slot), place = place_of(r, rank, slot);
	size_t self = pass_index(r, chain, place, slot->microbatch), step = (size_t)r->per_chain;
	if (slot->pass == LK_PASS_F) return place == 0 ? 0.0 : r->forward[self - step];
	if (slot->pass == LK_PASS_W) return r->backward[self];
	double own = r->forward[self], behind = place == r->places - 1 ? 0.0 : r->backward[self + step];
	if (isnan(own) || isnan(behind)) return NAN;
	return fmax(own, behind);
}

/* Notes the end of a slot and wakes the rank that may wait for it. */
static void finish(run *r, int rank, const lk_slot *slot, double end) {
	int chain = chain_of(r, slot), place = place_of(r, rank, slot);
	size_t self = pass_index(r, chain, place, slot->microbatch);
	const int *owner = r->owner + (size_t)chain * (size_t)r->places;
	if (slot->pass == LK_PASS_F) {
		r->forward[self] = end;
		if (place + 1 < r->places) wake(r, owner[place + 1]);
	} else if (slot->pass != LK_PASS_W) {
		r->backward[self] = end;
		if (place > 0) wake(r, owner[place - 1]);
	}
}

/* Runs the next slot of a rank, or the next two where they overlap; false if it has to wait. */
static bool advance(run *r, int rank) {
	const lk_slot *slot = &r->slots.at[r->next[rank]];
	int count = slot->pair && r->next[rank] + 1 < r->stop[rank] ? 2 : 1;
	double start = r->free_at[rank], spent = 0;
	for (int i = 0; i < count; i++) {
		double ready = ready_at(r, rank, &slot[i]);
		if (isnan(ready)) return false;
		start = fmax(start, ready);
		spent += r->time[slot[i].pass];
	}
	if (count == 2 && r->pair_time > 0) spent = r->pair_time;
	for (int i = 0; i < count; i++) finish(r, rank, &slot[i], start + spent);
	r->free_at[rank] = start + spent;
	r->next[rank] += (size_t)count;
	return true;
}

static lk_status collect_orders(run *r, lk_error *err) {
	for (int rank = 0; rank < r->shape->stages; rank++) {
		r->next[rank] = r->slots.count;
		LK_TRY(r->schedule->order(r->shape, rank, &r->slots, err));
		r->stop[rank] = r->slots.count;
		for (int c = 0; c < r->shape->chunks; c++) {
			int place = r->schedule->place(r->shape, rank, c);
			r->place[rank * r->shape->chunks + c] = place;
			r->owner[(r->chains == 2 ? c * r->places : 0) + place] = rank;
		}
	}
	return LK_OK;
}

static lk_status allocate(run *r, lk_arena *arena, lk_error *err) {
	size_t stages = (size_t)r->shape->stages, places = (size_t)r->places * (size_t)r->chains;
	size_t passes = places * (size_t)r->per_chain;
	r->next = LK_ARRAY(arena, size_t, stages);
	r->stop = LK_ARRAY(arena, size_t, stages);
	r->free_at = LK_ARRAY(arena, double, stages);
	r->place = LK_ARRAY(arena, int, stages * (size_t)r->shape->chunks);
	r->owner = LK_ARRAY(arena, int, places);
	r->work = LK_ARRAY(arena, int, stages);
	r->listed = LK_ARRAY(arena, bool, stages);
	r->forward = LK_ARRAY(arena, double, passes);
	r->backward = LK_ARRAY(arena, double, passes);
	bool ranks = r->next && r->stop && r->free_at && r->place && r->work && r->listed;
	if (!ranks || !r->owner || !r->forward || !r->backward) return lk_oom(err);
	for (size_t i = 0; i < passes; i++) r->forward[i] = r->backward[i] = NAN;
	return LK_OK;
}

static lk_status execute(run *r, double *makespan, lk_error *err) {
	for (int rank = r->shape->stages - 1; rank >= 0; rank--) wake(r, rank);
	while (r->work_count > 0) {
		int rank = r->work[--r->work_count];
		r->listed[rank] = false;
		while (r->next[rank] < r->stop[rank] && advance(r, rank)) {}
	}
	*makespan = 0;
	for (int rank = 0; rank < r->shape->stages; rank++) {
		if (r->next[rank] < r->stop[rank]) {
			const lk_slot *slot = &r->slots.at[r->next[rank]];
			return lk_fail(err, LK_ERR_INTERNAL, r->schedule->name,
			               "deadlock: stage %d waits at pass %c of chunk %d, micro-batch %d", rank, "FBBW"[slot->pass],
			               slot->chunk, slot->microbatch);
		}
		*makespan = fmax(*makespan, r->free_at[rank]);
	}
	return LK_OK;
}

/* A forward holds its activations until the input gradient is done; a combined backward ends it as well. */
static void count_in_flight(const run *r, int *in_flight) {
	for (int rank = 0; rank < r->shape->stages; rank++) {
		int now = 0, peak = 0;
		for (size_t i = r->next[rank]; i < r->stop[rank]; i++) {
			uint8_t pass = r->slots.at[i].pass;
			if (pass == LK_PASS_F) now++;
			if (pass == LK_PASS_B || pass == LK_PASS_BI) now--;
			if (now > peak) peak = now;
		}
		in_flight[rank] = peak;
	}
}

static lk_status prepare_and_execute(run *r, lk_arena *arena, double *makespan, int *in_flight, lk_error *err) {
	LK_TRY(allocate(r, arena, err));
	LK_TRY(collect_orders(r, err));
	if (in_flight != NULL) count_in_flight(r, in_flight);
	return execute(r, makespan, err);
}

lk_status lk_schedule_makespan(const lk_schedule *schedule, const lk_schedule_shape *shape, double f, double b,
                               double w, double pair_time, double *makespan, int *in_flight, lk_error *err) {
	LK_TRY(schedule->check(shape, err));
	if (!(f >= 0 && b >= 0 && w >= 0 && pair_time >= 0 && isfinite(f + b + w + pair_time)))
		return lk_fail(err, LK_ERR_INPUT, schedule->name, "pass times must be finite and not negative");
	/* In DualPipe a micro-batch passes a rank once, in one direction, and there through a whole stage. */
	bool two_ways = schedule->kind == LK_SCHED_DUALPIPE;
	double share = two_ways ? 1.0 : 1.0 / shape->chunks;
	run r = {.schedule = schedule, .shape = shape, .chains = two_ways ? 2 : 1,
	         .places = two_ways ? shape->stages : shape->stages * shape->chunks,
	         .per_chain = two_ways ? shape->microbatches / 2 : shape->microbatches,
	         .time = {[LK_PASS_F] = f * share, [LK_PASS_B] = (b + w) * share, [LK_PASS_BI] = b * share,
	                  [LK_PASS_W] = w * share},
	         .pair_time = pair_time * share};
	lk_arena arena = LK_ARENA_INIT;
	lk_status status = prepare_and_execute(&r, &arena, makespan, in_flight, err);
	lk_vec_free(&r.slots);
	lk_arena_free(&arena);
	return status;
}
