/* replay_hold.c: predicts held-out steps and ranks from the others. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "replay/replay.h"
#include "base/check.h"

static double measured_s(const lk_lifted *lifted, uint32_t rank) {
	return (double)(lifted->rank[rank].to_ns - lifted->rank[rank].from_ns) * 1e-9;
}

/* ---- results of a simulated step ---- */

/* `by_name`: no operation of the same place can be found, so that one of the same name counts. */
static double share_known(const double ns[LK_KNOWNS], bool by_name) {
	double sum = 0;
	for (int k = 0; k < LK_KNOWNS; k++) sum += ns[k];
	double known = ns[LK_KNOWN_PLACE] + (by_name ? ns[LK_KNOWN_PATH] + ns[LK_KNOWN_NAME] : 0);
	return sum > 0 ? known / sum : 1;
}

static void hold_add_part(lk_replay_part *parts, size_t *count, const char *name, double measured) {
	parts[(*count)++] = (lk_replay_part){name, measured * 1e-9, 0};
}

/* The parts of a rank's step as measured. */
static lk_status begin_parts(lk_replaying *replaying, const lk_lifted *lifted, uint32_t rank,
                             lk_replay_step *out, lk_error *err) {
	LK_ASSERT(rank < replaying->traces->count);
	lk_device_use was;
	LK_TRY(lk_lifted_use(lifted, NULL, rank, &was, err));
	lk_replay_part *parts = LK_ARRAY(replaying->arena, lk_replay_part, LK_STREAMS + 2);
	if (!parts) return lk_oom(err);
	for (unsigned s = 0; s < LK_STREAMS; s++) {
		if (was.busy[s] <= 0) continue;
		const char *name =
			lk_arena_printf(replaying->arena, "busy %s", lk_graph_stream(lifted->graph, rank, s));
		if (!name) return lk_oom(err);
		hold_add_part(parts, &out->part_count, name, was.busy[s]);
	}
	hold_add_part(parts, &out->part_count, "exposed communication", was.exposed);
	hold_add_part(parts, &out->part_count, "idle", was.idle);
	out->parts = parts;
	return LK_OK;
}

/* Accumulate the mean of several runs: this one has a share of it. */
static lk_status hold_add_parts(const lk_lifted *lifted, const lk_ran *ran, uint32_t rank,
                                double share, lk_replay_step *out, lk_error *err) {
	LK_ASSERT(rank < lifted->traces->count);
	lk_device_use was, is;
	size_t p = 0;
	lk_replay_part *parts = (lk_replay_part *)out->parts;
	LK_TRY(lk_lifted_use(lifted, NULL, rank, &was, err));
	LK_TRY(lk_lifted_use(lifted, ran, rank, &is, err));
	for (unsigned s = 0; s < LK_STREAMS; s++)
		if (was.busy[s] > 0) parts[p++].predicted_s += share * is.busy[s] * 1e-9;
	parts[p++].predicted_s += share * is.exposed * 1e-9;
	parts[p++].predicted_s += share * is.idle * 1e-9;
	return LK_OK;
}

static lk_replay_step *step_of(lk_replaying *replaying, uint32_t rank, uint32_t s) {
	return (lk_replay_step *)&replaying->ranks[rank].steps[s];
}

static lk_status hold_begin_step(lk_replaying *replaying, uint32_t rank, uint32_t s,
                                 double baseline_s, lk_error *err) {
	LK_ASSERT(rank < replaying->traces->count);
	lk_replay_step *step = step_of(replaying, rank, s);
	step->baseline_s = baseline_s;
	step->predicted_s = step->host_known = step->device_known = 0;
	return begin_parts(replaying, replaying->base[s], rank, step, err);
}

static lk_status hold_add_run(lk_replaying *replaying, lk_ran **ran, const lk_retimed *times,
                              uint32_t rank, uint32_t s, double share, lk_error *err) {
	LK_ASSERT(rank < replaying->traces->count);
	lk_replay_step *step = step_of(replaying, rank, s);
	step->predicted_s +=
		share * (double)lk_lifted_step_ps(replaying->base[s], ran[rank], rank) * 1e-12;
	bool folds = replaying->hold_out == LK_HOLD_OPERATION;
	step->host_known += share * share_known(times->host_ns, replaying->shared || folds);
	step->device_known += share * share_known(times->device_ns, folds);
	return hold_add_parts(replaying->base[s], ran[rank], rank, share, step, err);
}

/* ---- one run ---- */

static int64_t hold_given(const void *context, const lk_lifted *lifted, uint32_t rank,
                          uint32_t op) {
	LK_ASSERT(op < lifted->graph->ops.count);
	LK_ASSERT(rank < lifted->traces->count);
	(void)lifted;
	const lk_retimed *times = context;
	return times[rank].ns ? times[rank].ns[op] * 1000 : -1;
}

/* Times of every rank from its table (`tables`: one for all, or one each), and the step simulated
 * with them. */
struct trial {
	lk_replaying *r;
	uint32_t step;
	bool itself;            /* ranks without a table use their own times ... */
	bool folds;             /* ... or each operation those of the others of its step */
	lk_step_times **tables; /* [ranks] */
	lk_retimed *times;      /* [ranks] */
	lk_arena arena;         /* of the run */
	lk_ran **ran;
};

static void hold_forget(struct trial *trial) {
	for (uint32_t i = 0; i < trial->r->traces->count; i++) lk_retimed_free(&trial->times[i]);
	lk_arena_free(&trial->arena);
}

static lk_status hold_run(struct trial *trial, uint32_t source, lk_error *err) {
	lk_replaying *replaying = trial->r;
	lk_lifted *lifted = replaying->base[trial->step];
	hold_forget(trial);
	for (uint32_t i = 0; i < replaying->traces->count; i++) {
		if (trial->folds) {
			LK_TRY(lk_step_times_fold(&lifted->rank[i], &trial->times[i], err));
			continue;
		}
		if (!trial->tables[i] && !trial->itself) continue;
		LK_TRY(lk_step_times_predict(trial->tables[i], &lifted->rank[i],
		                             replaying->shared ? &replaying->shared[i] : NULL, source,
		                             &trial->times[i], err));
	}
	lk_lift_retime(lifted, hold_given, trial->times);
	return lk_lifted_run(&trial->arena, lifted, &trial->ran, err);
}

static lk_status begin_trial(struct trial *trial, lk_replaying *replaying, uint32_t s,
                             lk_error *err) {
	uint32_t count = replaying->traces->count;
	*trial = (struct trial){.r = replaying,
	                        .step = s,
	                        .tables = calloc(count, sizeof *trial->tables),
	                        .times = calloc(count, sizeof *trial->times)};
	return trial->tables && trial->times ? LK_OK : lk_oom(err);
}

static void end_trial(struct trial *trial) {
	if (trial->times) hold_forget(trial);
	for (uint32_t i = 0; trial->tables && i < trial->r->traces->count; i++) {
		bool shared = i > 0 && trial->tables[i] == trial->tables[0];
		if (!shared) lk_step_times_free(trial->tables[i]);
	}
	free(trial->tables);
	free(trial->times);
}

/* ---- steps ---- */

/* Mean measured time of a rank's other steps. */
static double other_steps(const lk_replaying *replaying, uint32_t rank, uint32_t but) {
	LK_ASSERT(rank < replaying->traces->count);
	double sum = 0;
	uint32_t count = 0;
	for (uint32_t s = 0; s < replaying->steps; s++)
		if (s != but && !replaying->left_out[s]) {
			sum += measured_s(replaying->base[s], rank);
			count++;
		}
	return count ? sum / count : NAN;
}

/* Whether transfers are learned from the capture: then every step is lifted again without the
 * held-out one. */
static bool has_peers(const lk_lifted *lifted) {
	for (uint32_t r = 0; r < lifted->traces->count; r++)
		if (lifted->rank[r].streams & LK_JOIN(LK_STREAM_PEERS)) return true;
	return false;
}

static lk_status learn_step(struct trial *trial, uint32_t from, lk_error *err) {
	lk_replaying *replaying = trial->r;
	lk_lifted *lifted = replaying->base[from];
	bool again = has_peers(lifted);
	if (again)
		LK_TRY(lk_lift_ranks(replaying->traces, replaying->first_step + from,
		                     replaying->first_step + trial->step, &lifted, err));
	lk_status status = LK_OK;
	for (uint32_t rank = 0; rank < replaying->traces->count && status == LK_OK; rank++)
		status = lk_step_times_add(trial->tables[rank], &lifted->rank[rank], from, err);
	if (again) lk_lifted_free(lifted);
	return status;
}

/* Number of runs: every other step gives one; for large steps as many as are affordable. Averaging
 * the times instead would lose their correlation: the mean of two delays is no delay, and waiting
 * results from delays. */
static uint32_t runs_of(const lk_replaying *replaying) {
	enum { MOST_OPERATIONS = 30000000 };
	uint64_t each = (uint64_t)replaying->base[0]->graph->ops.count * replaying->steps + 1;
	uint64_t runs = MOST_OPERATIONS / each;
	if (runs < 1) return 1;
	if (runs > replaying->used) return replaying->used;
	return (uint32_t)runs;
}

static lk_status predict_step(struct trial *trial, lk_error *err) {
	lk_replaying *replaying = trial->r;
	uint32_t sources[LK_REPLAY_STEPS], count = 0, most = runs_of(replaying);
	for (uint32_t from = 0; from < replaying->steps; from++) {
		if (from == trial->step || replaying->left_out[from]) continue;
		LK_TRY(learn_step(trial, from, err));
		sources[count++] = from;
	}
	if (most > count) most = count;
	for (uint32_t rank = 0; rank < replaying->traces->count; rank++)
		LK_TRY(hold_begin_step(replaying, rank, trial->step,
		                       other_steps(replaying, rank, trial->step), err));
	for (uint32_t i = 0; i < most; i++) {
		LK_TRY(hold_run(trial, most < 2 && count > 1 ? LK_NONE : sources[i * count / most], err));
		for (uint32_t rank = 0; rank < replaying->traces->count; rank++)
			LK_TRY(hold_add_run(replaying, trial->ran, &trial->times[rank], rank, trial->step,
			                    1.0 / most, err));
	}
	return LK_OK;
}

lk_status lk_replay_step_out(lk_replaying *replaying, uint32_t s, lk_error *err) {
	struct trial t;
	lk_status status = begin_trial(&t, replaying, s, err);
	for (uint32_t i = 0; i < replaying->traces->count && status == LK_OK; i++)
		if (!(t.tables[i] = lk_step_times_new())) status = lk_oom(err);
	if (status == LK_OK) status = predict_step(&t, err);
	end_trial(&t);
	return status;
}

/* ---- ranks ---- */

static double other_ranks(const lk_replaying *replaying, uint32_t s, uint32_t but) {
	double sum = 0;
	uint32_t count = replaying->traces->count;
	for (uint32_t rank = 0; rank < count; rank++)
		if (rank != but) sum += measured_s(replaying->base[s], rank);
	return count > 1 ? sum / (count - 1) : NAN;
}

/* Hold one rank out at a time: none of its own times are used, even where it only makes others
 * wait. */
static lk_status predict_rank(struct trial *trial, uint32_t out, lk_error *err) {
	lk_replaying *replaying = trial->r;
	uint32_t count = replaying->traces->count;
	if (!(trial->tables[0] = lk_step_times_new())) return lk_oom(err);
	for (uint32_t rank = 0; rank < count; rank++) {
		trial->tables[rank] = trial->tables[0];
		if (rank != out)
			LK_TRY(lk_step_times_add(trial->tables[0], &replaying->base[trial->step]->rank[rank],
			                         rank, err));
	}
	LK_TRY(hold_begin_step(replaying, out, trial->step, other_ranks(replaying, trial->step, out),
	                       err));
	/* Ranks share the run, not their times: one run with the means. */
	LK_TRY(hold_run(trial, LK_NONE, err));
	return hold_add_run(replaying, trial->ran, &trial->times[out], out, trial->step, 1, err);
}

/* Each held-out rank costs a pass over all others: with many, every n-th is held out. */
static bool is_held_out(const lk_replaying *replaying, uint32_t rank) {
	LK_ASSERT(rank < replaying->traces->count);
	enum { MOST_RANKS = 16 };
	uint32_t every = (replaying->traces->count + MOST_RANKS - 1) / MOST_RANKS;
	return rank % every == 0;
}

lk_status lk_replay_rank_out(lk_replaying *replaying, uint32_t s, lk_error *err) {
	lk_status status = LK_OK;
	for (uint32_t out = 0; out < replaying->traces->count && status == LK_OK; out++) {
		struct trial t;
		if (!is_held_out(replaying, out)) {
			step_of(replaying, out, s)->left_out = "with this many ranks, only some are held out";
			continue;
		}
		status = begin_trial(&t, replaying, s, err);
		if (status == LK_OK) status = predict_rank(&t, out, err);
		end_trial(&t);
	}
	return status;
}

/* ---- operations, or nothing held out ---- */

/* By its own times, except shared overheads; or each operation by the others. */
static lk_status predict_itself(struct trial *trial, lk_error *err) {
	lk_replaying *replaying = trial->r;
	trial->folds = replaying->hold_out == LK_HOLD_OPERATION;
	trial->itself = !trial->folds;
	for (uint32_t rank = 0; rank < replaying->traces->count; rank++)
		LK_TRY(hold_begin_step(replaying, rank, trial->step, NAN, err));
	LK_TRY(hold_run(trial, LK_NONE, err));
	for (uint32_t rank = 0; rank < replaying->traces->count; rank++)
		LK_TRY(hold_add_run(replaying, trial->ran, &trial->times[rank], rank, trial->step, 1, err));
	return LK_OK;
}

lk_status lk_replay_itself(lk_replaying *replaying, uint32_t s, lk_error *err) {
	struct trial t;
	lk_status status = begin_trial(&t, replaying, s, err);
	if (status == LK_OK) status = predict_itself(&t, err);
	end_trial(&t);
	return status;
}
