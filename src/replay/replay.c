/* replay.c: the verb `replay`: traces lifted step by step, simulated with times of other steps,
 * compared with their own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "replay/replay.h"
#include "step/traced.h"
#include "base/check.h"
#include "base/stats.h"
#include "base/noun.h"

void lk_replay_defaults(lk_replay_request *request) {
	memset(request, 0, sizeof *request);
}

struct answer {
	lk_arena arena; /* first: lk_arena_free_owner */
	lk_replay replay;
};

/* ---- steps ---- */

static lk_status find_steps(lk_replaying *replaying, lk_error *err) {
	uint32_t count;
	LK_TRY(lk_traced_common_steps(replaying->traces, &count, err));
	replaying->found = LK_ARRAY(replaying->arena, lk_capture_steps, replaying->traces->count);
	if (!replaying->found) return lk_oom(err);
	for (uint32_t i = 0; i < replaying->traces->count; i++)
		LK_TRY(lk_capture_find_steps(replaying->traces->capture[i], &replaying->found[i], err));
	replaying->first_step = count > LK_REPLAY_STEPS ? count - LK_REPLAY_STEPS : 0;
	replaying->steps = count - replaying->first_step;
	LK_ASSERT(replaying->steps > 0 && replaying->steps <= LK_REPLAY_STEPS);
	return LK_OK;
}

static bool nothing_happened(const lk_lifted_rank *rank) {
	for (size_t i = 0; i < rank->ops.count; i++) {
		const lk_lifted_op *op = &rank->ops.at[i];
		if (op->what != LK_LIFTED_HOST && op->what != LK_LIFTED_END) return false;
		for (uint32_t p = op->piece_begin; p < op->piece_end; p++)
			if (rank->pieces.at[p].event != LK_NONE) return false;
	}
	return true;
}

static uint32_t device_ops(const lk_lifted_rank *rank) {
	uint32_t count = 0;
	for (size_t i = 0; i < rank->ops.count; i++)
		count += rank->ops.at[i].what == LK_LIFTED_DEVICE || rank->ops.at[i].what == LK_LIFTED_COMM;
	return count;
}

/* A step with many more or fewer launches than the others is of another kind: a warm-up, or cut off
 * by profiling. */
static lk_status judge_steps(lk_replaying *replaying, lk_error *err) {
	double launches[LK_REPLAY_STEPS];
	uint32_t filled = 0;
	replaying->used = 0;
	for (uint32_t s = 0; s < replaying->steps; s++) {
		replaying->empty[s] = nothing_happened(&replaying->base[s]->rank[0]);
		if (replaying->empty[s]) replaying->left_out[s] = "nothing happened in it";
		else launches[filled++] = device_ops(&replaying->base[s]->rank[0]);
	}
	double usual = lk_median(launches, filled);
	for (uint32_t s = 0; s < replaying->steps; s++) {
		if (replaying->left_out[s]) continue;
		double count = device_ops(&replaying->base[s]->rank[0]);
		if (fabs(count - usual) <= 0.1 * usual) {
			replaying->used++;
			continue;
		}
		replaying->left_out[s] =
			lk_arena_printf(replaying->arena, "%.0f %s and copies where the others have %.0f",
		                    count, lk_noun(count, "kernel", "kernels"), usual);
		if (!replaying->left_out[s]) return lk_oom(err);
	}
	return LK_OK;
}

static lk_status lift_steps(lk_replaying *replaying, lk_error *err) {
	for (uint32_t s = 0; s < replaying->steps; s++)
		LK_TRY(lk_lift(replaying->traces, replaying->first_step + s, LK_NONE, &replaying->base[s],
		               err));
	return judge_steps(replaying, err);
}

/* ---- the answer ---- */

/* Why a step is not predicted; NULL: it is. Without another step it needs only not to be empty. */
static const char *replay_left_out(const lk_replaying *replaying, uint32_t s) {
	bool alone = replaying->hold_out == LK_HOLD_NONE || replaying->hold_out == LK_HOLD_OPERATION;
	return alone && !replaying->empty[s] ? NULL : replaying->left_out[s];
}

static lk_status new_ranks(lk_replaying *replaying, lk_error *err) {
	replaying->ranks = LK_ARRAY(replaying->arena, lk_replay_rank, replaying->traces->count);
	if (!replaying->ranks) return lk_oom(err);
	for (uint32_t i = 0; i < replaying->traces->count; i++) {
		const lk_capture *capture = replaying->traces->capture[i];
		lk_replay_step *steps = LK_ARRAY(replaying->arena, lk_replay_step, replaying->steps);
		const char *path = lk_arena_strdup(replaying->arena, capture->path);
		if (!steps || !path) return lk_oom(err);
		replaying->ranks[i] = (lk_replay_rank){
			.rank = capture->rank, .path = path, .steps = steps, .step_count = replaying->steps};
		for (uint32_t s = 0; s < replaying->steps; s++) {
			const lk_capture_step *found = &replaying->found[i].at[replaying->first_step + s];
			steps[s] =
				(lk_replay_step){.number = found->number,
			                     .measured_s = (double)(found->end_ns - found->start_ns) * 1e-9,
			                     .predicted_s = NAN,
			                     .baseline_s = NAN,
			                     .left_out = replay_left_out(replaying, s)};
		}
	}
	return LK_OK;
}

static lk_status predict_all(lk_replaying *replaying, lk_error *err) {
	for (uint32_t s = 0; s < replaying->steps; s++) {
		if (replay_left_out(replaying, s)) continue;
		if (replaying->hold_out == LK_HOLD_STEP) LK_TRY(lk_replay_step_out(replaying, s, err));
		else if (replaying->hold_out == LK_HOLD_RANK) LK_TRY(lk_replay_rank_out(replaying, s, err));
		else LK_TRY(lk_replay_itself(replaying, s, err));
	}
	return LK_OK;
}

static double log_error(double predicted, double measured) {
	if (predicted > 0 && measured > 0) return fabs(log(predicted / measured));
	if (predicted == measured) return 0;
	return INFINITY;
}

static void score_steps(lk_replay *out) {
	double error = 0, baseline = 0;
	size_t baselines = 0;
	for (size_t i = 0; i < out->rank_count; i++) {
		for (size_t s = 0; s < out->ranks[i].step_count; s++) {
			const lk_replay_step *step = &out->ranks[i].steps[s];
			if (step->left_out || isnan(step->predicted_s)) continue;
			out->predicted++;
			error += log_error(step->predicted_s, step->measured_s);
			if (!isnan(step->baseline_s)) {
				baseline += log_error(step->baseline_s, step->measured_s);
				baselines++;
			}
		}
	}
	out->geomean_error = out->predicted ? expm1(error / (double)out->predicted) : NAN;
	out->baseline_error = baselines ? expm1(baseline / (double)baselines) : NAN;
}

/* Score parts of a rank summed over its steps; negligible ones are not scored. */
static void score_part(lk_replay *out, const lk_replay_rank *rank, const char *name) {
	double measured = 0, predicted = 0, steps = 0;
	for (size_t s = 0; s < rank->step_count; s++) {
		const lk_replay_step *step = &rank->steps[s];
		for (size_t p = 0; p < step->part_count; p++) {
			if (strcmp(step->parts[p].name, name) != 0) continue;
			measured += step->parts[p].measured_s;
			predicted += step->parts[p].predicted_s;
		}
		if (step->part_count) steps += step->measured_s;
	}
	if (!(measured > 0.01 * steps)) return;
	double error = fabs(predicted / measured - 1);
	if (error > out->parts_error) {
		out->parts_error = error;
		out->worst_part = name;
	}
}

static void score_parts(lk_replay *out) {
	out->worst_part = "";
	for (size_t i = 0; i < out->rank_count; i++)
		for (size_t s = 0; s < out->ranks[i].step_count; s++)
			for (size_t p = 0; p < out->ranks[i].steps[s].part_count; p++)
				score_part(out, &out->ranks[i], out->ranks[i].steps[s].parts[p].name);
}

static lk_status copy_texts(lk_arena *arena, const char *const *from, size_t count,
                            const char *const **out, lk_error *err) {
	const char **texts = LK_ARRAY(arena, const char *, count);
	if (!texts) return lk_oom(err);
	for (size_t i = 0; i < count; i++)
		if (!(texts[i] = lk_arena_strdup(arena, from[i]))) return lk_oom(err);
	*out = texts;
	return LK_OK;
}

/* Equal steps have their operations in the same places; if most are elsewhere, operations are
 * missing. */
static lk_status warn_of_gaps(lk_replaying *replaying, lk_replay *out, lk_error *err) {
	const double LITTLE = 0.5;
	double known = 0;
	size_t steps = 0;
	for (size_t i = 0; i < out->rank_count; i++)
		for (size_t s = 0; s < out->ranks[i].step_count; s++)
			if (!out->ranks[i].steps[s].left_out) {
				known += out->ranks[i].steps[s].host_known;
				steps++;
			}
	if (replaying->hold_out != LK_HOLD_STEP || replaying->shared || !steps ||
	    known / (double)steps >= LITTLE)
		return LK_OK;
	const char **texts = LK_ARRAY(replaying->arena, const char *, out->warning_count + 1);
	if (!texts) return lk_oom(err);
	if (out->warning_count) memcpy(texts, out->warnings, out->warning_count * sizeof *texts);
	texts[out->warning_count] =
		lk_arena_printf(replaying->arena,
	                    "only %.0f %% of the host's time is in operations that the other steps "
	                    "have in the same place: are events missing "
	                    "from the trace? then the prediction is weak",
	                    100 * known / (double)steps);
	if (!texts[out->warning_count++]) return lk_oom(err);
	out->warnings = texts;
	return LK_OK;
}

static lk_status replay_describe(lk_replaying *replaying, lk_replay *out, lk_error *err) {
	static const char *const held[] = {[LK_HOLD_STEP] = "steps",
	                                   [LK_HOLD_RANK] = "ranks",
	                                   [LK_HOLD_NONE] = "nothing",
	                                   [LK_HOLD_OPERATION] = "operations"};
	static const char *const from[] = {
		[LK_HOLD_STEP] = "each step by the times of the other steps",
		[LK_HOLD_RANK] = "each rank by the times of the other ranks",
		[LK_HOLD_NONE] = "each step by its own times",
		[LK_HOLD_OPERATION] = "each operation by the times of the other operations of its step",
	};
	out->held_out = held[replaying->hold_out];
	out->times_from =
		replaying->shared
			? lk_arena_printf(replaying->arena, "%s; host overheads from %s",
	                          from[replaying->hold_out], replaying->request->overheads)
			: from[replaying->hold_out];
	if (!out->times_from) return lk_oom(err);
	out->ranks = replaying->ranks;
	out->rank_count = replaying->traces->count;
	out->collectives = replaying->traces->matches.count;
	out->residual_s = replaying->traces->residual_ns * 1e-9;
	double operations = 0;
	for (uint32_t s = 0; s < replaying->steps; s++)
		operations += replaying->base[s]->graph->ops.count;
	out->operations = (size_t)(operations / replaying->steps);
	score_steps(out);
	score_parts(out);
	const lk_lifted *last = replaying->base[replaying->steps - 1];
	out->uncovered_count = last->unknown.count;
	out->warning_count = replaying->traces->warnings.count;
	LK_TRY(
		copy_texts(replaying->arena, last->unknown.at, last->unknown.count, &out->uncovered, err));
	out->device_known_shape = last->device_ns > 0 ? last->known_ns / last->device_ns : NAN;
	out->note_count = replaying->traces->notes.count;
	LK_TRY(copy_texts(replaying->arena, replaying->traces->notes.at, replaying->traces->notes.count,
	                  &out->notes, err));
	LK_TRY(copy_texts(replaying->arena, replaying->traces->warnings.at,
	                  replaying->traces->warnings.count, &out->warnings, err));
	return warn_of_gaps(replaying, out, err);
}

/* Write the graph of the first step that is like the others, with its own times. */
static lk_status write_graphs(lk_replaying *replaying, lk_error *err) {
	uint32_t s = 0;
	if (!replaying->request->graph && !replaying->request->chakra) return LK_OK;
	while (s + 1 < replaying->steps && replaying->left_out[s]) s++;
	lk_lift_retime(replaying->base[s], NULL, NULL);
	if (replaying->request->graph)
		LK_TRY(lk_graph_write(replaying->base[s]->graph, replaying->request->graph, err));
	return replaying->request->chakra ? lk_graph_chakra_write(replaying->base[s]->graph,
	                                                          &(lk_chakra_options){.host = true},
	                                                          replaying->request->chakra, err)
	                                  : LK_OK;
}

static int replay_choose(const lk_replaying *replaying) {
	if (replaying->request->hold_out != LK_HOLD_AUTO) return replaying->request->hold_out;
	if (replaying->request->overheads) return LK_HOLD_NONE;
	if (replaying->used > 1) return LK_HOLD_STEP;
	if (replaying->traces->count > 1) return LK_HOLD_RANK;
	return LK_HOLD_OPERATION;
}

static lk_status replay_check_choice(const lk_replaying *replaying, lk_error *err) {
	bool steps = replaying->hold_out == LK_HOLD_STEP && replaying->used < 2,
		 ranks = replaying->hold_out == LK_HOLD_RANK && replaying->traces->count < 2;
	if (!replaying->used) {
		lk_fail(err, LK_ERR_INPUT, replaying->traces->capture[0]->path,
		        "nothing can be replayed: no step has operations");
		return lk_hint(err, "profile with CPU and CUDA activities");
	}
	if (replaying->hold_out == LK_HOLD_OPERATION && replaying->request->overheads) {
		lk_fail(err, LK_ERR_INPUT, "--hold-out",
		        "operation takes no times from elsewhere; leave --overheads out");
		return err->status;
	}
	if (!steps && !ranks) return LK_OK;
	if (steps) lk_fail(err, LK_ERR_INPUT, "--hold-out", "no other step is like it");
	else lk_fail(err, LK_ERR_INPUT, "--hold-out", "no other rank is like it");
	return lk_hint(err, "trace more of them, or use --hold-out operation");
}

static lk_status check_captures(const lk_replay_request *request, lk_error *err) {
	const char *option;
	if (request->gpu) option = "--gpu";
	else if (request->cluster) option = "--cluster";
	else if (request->measured) option = "--measured";
	else option = NULL;
	if (!option) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, option,
	        "these traces have times, which are taken instead of models");
	return lk_hint(err, "leave it out; `lockstep whatif` predicts other hardware");
}

static lk_status replay_ask(lk_replaying *replaying, lk_overheads **table, lk_replay *out,
                            lk_error *err) {
	const lk_replay_request *request = replaying->request;
	lk_read_limits limits = {.shapes = true};
	LK_TRY(lk_trace_files_read(request->paths, (uint32_t)request->path_count, &limits, 0,
	                           &replaying->files, err));
	if (!replaying->files.captures) return lk_replay_works_ask(replaying, table, out, err);
	LK_TRY(check_captures(request, err));
	LK_TRY(lk_traces_join(&replaying->files, &replaying->traces, err));
	LK_TRY(find_steps(replaying, err));
	LK_TRY(lift_steps(replaying, err));
	replaying->hold_out = replay_choose(replaying);
	LK_TRY(replay_check_choice(replaying, err));
	LK_TRY(lk_replay_share_overheads(replaying, table, err));
	LK_TRY(new_ranks(replaying, err));
	LK_TRY(predict_all(replaying, err));
	LK_TRY(replay_describe(replaying, out, err));
	LK_TRY(lk_replay_write_overheads(replaying, err));
	return write_graphs(replaying, err);
}

static void replay_end(lk_replaying *replaying) {
	for (uint32_t i = 0; replaying->found && i < replaying->traces->count; i++)
		lk_vec_free(&replaying->found[i]);
	for (uint32_t s = 0; s < LK_REPLAY_STEPS; s++) lk_lifted_free(replaying->base[s]);
}

lk_status lk_replay_ask(const lk_replay_request *request, lk_replay **out, lk_error *err) {
	*out = NULL;
	LK_TRY(lk_cost_ready(err));
	struct answer *answer = calloc(1, sizeof *answer);
	if (!answer) return lk_oom(err);
	answer->replay.memory_owner = answer;
	lk_overheads *table = NULL;
	lk_replaying r = {.request = request, .arena = &answer->arena};
	lk_status status = replay_ask(&r, &table, &answer->replay, err);
	if (status == LK_OK)
		answer->replay.failed_check = lk_failed_check(lk_replay_check(&answer->replay));
	replay_end(&r);
	lk_traces_free(r.traces);
	lk_trace_files_free(&r.files);
	lk_overheads_free(table);
	if (status != LK_OK) lk_replay_free(&answer->replay);
	else *out = &answer->replay;
	return status;
}

static lk_status predict_error(lk_replaying *replaying, double *error, lk_error *err) {
	lk_replay scored = {0};
	LK_TRY(find_steps(replaying, err));
	LK_TRY(lift_steps(replaying, err));
	replaying->hold_out = replay_choose(replaying);
	/* changes of a step keep its own times, whatever its operations say of one another */
	if (!replaying->used || replaying->hold_out == LK_HOLD_OPERATION) return LK_OK;
	LK_TRY(new_ranks(replaying, err));
	LK_TRY(predict_all(replaying, err));
	scored.ranks = replaying->ranks;
	scored.rank_count = replaying->traces->count;
	score_steps(&scored);
	*error = scored.geomean_error;
	return LK_OK;
}

lk_status lk_replay_error(lk_traces *traces, double *error, lk_error *err) {
	lk_replay_request request;
	lk_arena arena = LK_ARENA_INIT;
	lk_replay_defaults(&request);
	lk_replaying r = {.request = &request, .arena = &arena, .traces = traces};
	*error = 0;
	lk_status status = predict_error(&r, error, err);
	replay_end(&r);
	lk_arena_free(&arena);
	return status;
}

void lk_replay_free(lk_replay *replay) {
	if (replay) lk_arena_free_owner(replay->memory_owner);
}
