/* replay_hold.c: steps and ranks held out: whose times are taken, and what comes out. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ask/replay_parts.h"

static double measured_s(const lk_lifted *lifted, uint32_t rank) {
	return (double)(lifted->rank[rank].to_ns - lifted->rank[rank].from_ns) * 1e-9;
}

/* ---- what a simulated step gives ---- */

static double share_known(const double ns[LK_KNOWNS]) {
	double sum = 0;
	for (int k = 0; k < LK_KNOWNS; k++) sum += ns[k];
	return sum > 0 ? (ns[LK_KNOWN_PLACE] + ns[LK_KNOWN_PATH]) / sum : 1;
}

static lk_status add_part(lk_replay_part *parts, size_t *count, const char *name, double measured, double predicted) {
	parts[(*count)++] = (lk_replay_part){name, measured * 1e-9, predicted * 1e-9};
	return LK_OK;
}

static lk_status fill_parts(lk_replaying *r, const lk_lifted *lifted, const lk_ran *ran, const int64_t *lag_ns, uint32_t rank,
                            lk_replay_step *out, lk_error *err) {
	lk_device_use was, is;
	LK_TRY(lk_lifted_use(lifted, NULL, NULL, rank, &was, err));
	LK_TRY(lk_lifted_use(lifted, ran, lag_ns, rank, &is, err));
	lk_replay_part *parts = LK_ARRAY(r->arena, lk_replay_part, LK_STREAMS + 2);
	if (!parts) return lk_oom(err);
	for (unsigned s = 0; s < LK_STREAMS; s++) {
		if (was.busy[s] <= 0 && is.busy[s] <= 0) continue;
		const char *name = lk_arena_printf(r->arena, "busy %s", lk_graph_stream(lifted->graph, rank, s));
		if (!name) return lk_oom(err);
		LK_TRY(add_part(parts, &out->part_count, name, was.busy[s], is.busy[s]));
	}
	LK_TRY(add_part(parts, &out->part_count, "exposed communication", was.exposed, is.exposed));
	LK_TRY(add_part(parts, &out->part_count, "idle", was.idle, is.idle));
	out->parts = parts;
	return LK_OK;
}

/* Times in ns by rank and operation, or NULL: as measured. */
typedef struct given_times {
	const lk_retimed *ranks;
} given_times;

static int64_t given(const void *context, const lk_lifted *lifted, uint32_t rank, uint32_t op) {
	(void)lifted;
	const given_times *times = context;
	return times->ranks[rank].ns ? times->ranks[rank].ns[op] * 1000 : -1;
}

static lk_replay_step *step_of(lk_replaying *r, uint32_t rank, uint32_t s) {
	return (lk_replay_step *)&r->ranks[rank].steps[s];
}

static lk_status simulate(lk_replaying *r, lk_lifted *lifted, const lk_retimed *times, lk_ran ***ran, lk_arena *arena, lk_error *err) {
	(void)r;
	given_times context = {times};
	lk_lift_retime(lifted, given, &context);
	return lk_lifted_run(arena, lifted, ran, err);
}

static lk_status fill_step(lk_replaying *r, const lk_lifted *lifted, lk_ran **ran, const lk_retimed *times, uint32_t rank,
                           uint32_t s, lk_error *err) {
	lk_replay_step *step = step_of(r, rank, s);
	step->predicted_s = (double)lk_lifted_step_ps(lifted, ran[rank], rank) * 1e-12;
	step->host_known = share_known(times->host_ns);
	step->device_known = share_known(times->device_ns);
	return fill_parts(r, lifted, ran[rank], times->lag_ns, rank, step, err);
}

/* ---- steps ---- */

/* Mean measured time of a rank's other steps. */
static double other_steps(const lk_replaying *r, uint32_t rank, uint32_t but) {
	double sum = 0;
	uint32_t count = 0;
	for (uint32_t s = 0; s < r->steps; s++)
		if (s != but && !r->left_out[s]) sum += measured_s(r->base[s], rank), count++;
	return count ? sum / count : NAN;
}

/* Whether transfers are learned from the capture: then every step is lifted again without the one that is held out. */
static bool has_peers(const lk_lifted *lifted) {
	for (uint32_t r = 0; r < lifted->traces->count; r++)
		if (lifted->rank[r].streams & LK_JOIN(LK_STREAM_PEERS)) return true;
	return false;
}

static lk_status learn_step(lk_replaying *r, uint32_t from, uint32_t but, lk_step_times **times, lk_error *err) {
	lk_lifted *lifted = r->base[from];
	bool again = has_peers(lifted);
	if (again) LK_TRY(lk_lift_ranks(r->traces, r->first_step + from, r->first_step + but, &lifted, err));
	lk_status status = LK_OK;
	for (uint32_t rank = 0; rank < r->traces->count && status == LK_OK; rank++)
		status = lk_step_times_add(times[rank], &lifted->rank[rank], err);
	if (again) lk_lifted_free(lifted);
	return status;
}

static lk_status predict_step(lk_replaying *r, uint32_t s, lk_step_times **times, lk_retimed *retimed, lk_arena *arena, lk_error *err) {
	for (uint32_t from = 0; from < r->steps; from++)
		if (from != s && !r->left_out[from]) LK_TRY(learn_step(r, from, s, times, err));
	lk_lifted *lifted = r->base[s];
	for (uint32_t rank = 0; rank < r->traces->count; rank++)
		LK_TRY(lk_step_times_predict(times[rank], &lifted->rank[rank], r->shared ? &r->shared[rank] : NULL, &retimed[rank], err));
	lk_ran **ran;
	LK_TRY(simulate(r, lifted, retimed, &ran, arena, err));
	for (uint32_t rank = 0; rank < r->traces->count; rank++) {
		step_of(r, rank, s)->baseline_s = other_steps(r, rank, s);
		LK_TRY(fill_step(r, lifted, ran, &retimed[rank], rank, s, err));
	}
	return LK_OK;
}

/* Room for one prediction: times by rank. */
static lk_status with_times(lk_replaying *r, uint32_t s, lk_error *err,
                            lk_status (*predict)(lk_replaying *, uint32_t, lk_step_times **, lk_retimed *, lk_arena *, lk_error *)) {
	lk_arena arena = LK_ARENA_INIT;
	uint32_t count = r->traces->count;
	lk_step_times **times = LK_ARRAY(&arena, lk_step_times *, count);
	lk_retimed *retimed = LK_ARRAY(&arena, lk_retimed, count);
	lk_status status = times && retimed ? LK_OK : lk_oom(err);
	for (uint32_t i = 0; i < count && status == LK_OK; i++)
		if (!(times[i] = lk_step_times_new())) status = lk_oom(err);
	if (status == LK_OK) status = predict(r, s, times, retimed, &arena, err);
	for (uint32_t i = 0; times && retimed && i < count; i++) lk_step_times_free(times[i]), lk_retimed_free(&retimed[i]);
	lk_arena_free(&arena);
	return status;
}

lk_status lk_replay_step_out(lk_replaying *r, uint32_t s, lk_error *err) {
	return with_times(r, s, err, predict_step);
}

/* ---- ranks ---- */

static double other_ranks(const lk_replaying *r, uint32_t s, uint32_t but) {
	double sum = 0;
	uint32_t count = r->traces->count;
	for (uint32_t rank = 0; rank < count; rank++)
		if (rank != but) sum += measured_s(r->base[s], rank);
	return count > 1 ? sum / (count - 1) : NAN;
}

/* One rank is held out at a time: no rank's time is taken from it, not even where it only makes others wait. */
static lk_status predict_rank(lk_replaying *r, uint32_t s, uint32_t out, lk_retimed *retimed, lk_error *err) {
	lk_lifted *lifted = r->base[s];
	lk_arena arena = LK_ARENA_INIT;
	lk_step_times *times = lk_step_times_new();
	lk_status status = times ? LK_OK : lk_oom(err);
	for (uint32_t rank = 0; rank < r->traces->count && status == LK_OK; rank++)
		if (rank != out) status = lk_step_times_add(times, &lifted->rank[rank], err);
	for (uint32_t rank = 0; rank < r->traces->count && status == LK_OK; rank++) {
		lk_retimed_free(&retimed[rank]);
		status = lk_step_times_predict(times, &lifted->rank[rank], r->shared ? &r->shared[rank] : NULL, &retimed[rank], err);
	}
	lk_step_times_free(times);
	lk_ran **ran;
	if (status == LK_OK) status = simulate(r, lifted, retimed, &ran, &arena, err);
	if (status == LK_OK) status = fill_step(r, lifted, ran, &retimed[out], out, s, err);
	step_of(r, out, s)->baseline_s = other_ranks(r, s, out);
	lk_arena_free(&arena);
	return status;
}

/* Each rank held out costs a look at all the others: of many, every n-th is. */
static bool is_held_out(const lk_replaying *r, uint32_t rank) {
	enum { MOST_RANKS = 16 };
	uint32_t every = (r->traces->count + MOST_RANKS - 1) / MOST_RANKS;
	return rank % every == 0;
}

static lk_status predict_ranks(lk_replaying *r, uint32_t s, lk_step_times **times, lk_retimed *retimed, lk_arena *arena, lk_error *err) {
	(void)times, (void)arena;
	for (uint32_t out = 0; out < r->traces->count; out++) {
		if (is_held_out(r, out)) LK_TRY(predict_rank(r, s, out, retimed, err));
		else step_of(r, out, s)->left_out = "of so many ranks, only some are held out";
	}
	return LK_OK;
}

lk_status lk_replay_rank_out(lk_replaying *r, uint32_t s, lk_error *err) {
	return with_times(r, s, err, predict_ranks);
}

/* ---- nothing ---- */

/* By its own times, but for shared overheads. */
static lk_status predict_itself(lk_replaying *r, uint32_t s, lk_step_times **times, lk_retimed *retimed, lk_arena *arena, lk_error *err) {
	lk_lifted *lifted = r->base[s];
	lk_ran **ran;
	for (uint32_t rank = 0; rank < r->traces->count; rank++) {
		retimed[rank].device_ns[LK_KNOWN_PLACE] = retimed[rank].host_ns[LK_KNOWN_PLACE] = 1;
		if (!r->shared) continue;
		LK_TRY(lk_step_times_add(times[rank], &lifted->rank[rank], err));
		LK_TRY(lk_step_times_predict(times[rank], &lifted->rank[rank], &r->shared[rank], &retimed[rank], err));
	}
	LK_TRY(simulate(r, lifted, retimed, &ran, arena, err));
	for (uint32_t rank = 0; rank < r->traces->count; rank++) {
		step_of(r, rank, s)->baseline_s = NAN;
		LK_TRY(fill_step(r, lifted, ran, &retimed[rank], rank, s, err));
	}
	return LK_OK;
}

lk_status lk_replay_itself(lk_replaying *r, uint32_t s, lk_error *err) {
	return with_times(r, s, err, predict_itself);
}
