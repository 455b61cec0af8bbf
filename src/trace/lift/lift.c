/* lift.c: lifted ranks as a step graph: a program and a block for each rank, teams for the groups
 * of ranks that communicate. */
#include "base/arena.h"
#include "trace/lift/lift_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/check.h"
#include "system/parallel.h"
#include "base/stats.h"
#include "trace/capture/capture.h"

enum { PS_PER_NS = 1000 };

/* In common time: when the last member of a match arrived, and the median of its ends. */
struct meeting {
	int64_t met_ns, end_ns;
};

struct lifter {
	const lk_traces *traces;
	lk_lifted *out;
	bool *meets;    /* [matches] all captured ranks of the group, at least two, arrive within their
	                   stretches */
	uint32_t *came; /* [matches] ranks whose program contains it */
	struct meeting *meeting;  /* [matches] of those with `meets` */
	lk_lift_stretch *stretch; /* [captures] */
	lk_work_kinds kinds;      /* of the rank that is being added */
	int64_t origin_ns;        /* earliest start, in common time */
	uint32_t *team; /* [groups + 1] of the graph, the last for communication of an unknown group */
	lk_error *err;
};

/* ---- stretches ---- */

static lk_status set_stretch(struct lifter *lifter, uint32_t capture, uint32_t step,
                             lk_lift_stretch *stretch) {
	lk_capture_steps steps = {0};
	const lk_capture *c = lifter->traces->capture[capture];
	if (step == LK_LIFT_DEVICE) {
		lk_capture_step whole = lk_capture_whole(c);
		*stretch = (lk_lift_stretch){
			.from_ns = whole.start_ns, .to_ns = whole.end_ns, .mark = LK_NONE, .all = true};
		return LK_OK;
	}
	lk_status status = lk_capture_find_steps(c, &steps, lifter->err);
	if (status == LK_OK && step != LK_NONE && step >= steps.count) {
		status = lk_fail(lifter->err, LK_ERR_INPUT, c->path, "there is no step %u, only %zu", step,
		                 steps.count);
	} else if (status == LK_OK) {
		*stretch =
			(lk_lift_stretch){.from_ns = steps.at[step == LK_NONE ? 0 : step].start_ns,
		                      .to_ns = steps.at[step == LK_NONE ? steps.count - 1 : step].end_ns,
		                      .mark = steps.at[step == LK_NONE ? 0 : step].event,
		                      .all = steps.at[0].event == LK_NONE};
	}
	lk_vec_free(&steps);
	return status;
}

/* Times become picoseconds, and 2^63 ps are 106 days: limit them so that lag and work of one
 * operation stay below. */
static lk_status lift_check_times(const struct lifter *lifter, uint32_t capture) {
	const int64_t longest = INT64_C(1) << 52;
	const lk_capture *c = lifter->traces->capture[capture];
	for (uint32_t i = 0; i < c->count; i++) {
		int64_t since = lk_traces_time(lifter->traces, capture, c->start_ns[i]) - lifter->origin_ns;
		if (c->start_ns[i] < longest && c->dur_ns[i] < longest && since < longest &&
		    since > -longest)
			continue;
		lk_fail(lifter->err, LK_ERR_INPUT, c->path,
		        "\"%.80s\" begins or ends months away from the other events",
		        lk_capture_text(c, c->name[i]));
		return lk_hint(
			lifter->err,
			"the file is damaged or of another run, or its times are not in microseconds");
	}
	return LK_OK;
}

static bool lift_inside(const struct lifter *lifter, const lk_match_member *member) {
	const lk_capture *capture = lifter->traces->capture[member->capture];
	const lk_lift_stretch *stretch = &lifter->stretch[member->capture];
	uint32_t call = capture->launch[member->event];
	int64_t start = capture->start_ns[call == LK_NONE ? member->event : call];
	return start >= stretch->from_ns && start < stretch->to_ns;
}

static void find_meetings(struct lifter *lifter) {
	for (size_t m = 0; m < lifter->traces->matches.count; m++) {
		const lk_match *match = &lifter->traces->matches.at[m];
		uint32_t count = match->end - match->begin;
		bool all = count > 1 && count == lifter->traces->groups.at[match->group].count;
		for (uint32_t i = match->begin; all && i < match->end; i++)
			all = lift_inside(lifter, &lifter->traces->members.at[i]);
		lifter->meets[m] = all;
	}
}

struct matched_context {
	const struct lifter *l;
	uint32_t capture;
};

static bool matched(const void *context, uint32_t event) {
	const struct matched_context *matched_context = context;
	const lk_match *match =
		lk_traces_match(matched_context->l->traces, matched_context->capture, event);
	return match && matched_context->l->meets[match - matched_context->l->traces->matches.at];
}

/* ---- meetings ---- */

static lk_status find_meeting(void *context, size_t number, lk_error *err) {
	const struct lifter *lifter = context;
	const lk_match *match = &lifter->traces->matches.at[number];
	struct meeting *out = &lifter->meeting[number];
	if (!lifter->meets[number]) return LK_OK;
	uint32_t count = match->end - match->begin;
	double *ends = malloc((count + 1) * sizeof *ends);
	out->met_ns = INT64_MIN;
	if (!ends) return lk_oom(err);
	for (uint32_t i = 0; i < count; i++) {
		const lk_match_member *member = &lifter->traces->members.at[match->begin + i];
		const lk_capture *capture = lifter->traces->capture[member->capture];
		int64_t start =
			lk_traces_time(lifter->traces, member->capture, capture->start_ns[member->event]);
		if (start > out->met_ns) out->met_ns = start;
		ends[i] = (double)(start + capture->dur_ns[member->event] - lifter->origin_ns);
	}
	out->end_ns = (int64_t)lk_median(ends, count) + lifter->origin_ns;
	free(ends);
	return LK_OK;
}

/* Set every member's time: from the last arrival to the common end. */
static lk_status set_meetings(struct lifter *lifter, uint32_t capture) {
	lk_lifted_rank *rank = &lifter->out->rank[capture];
	for (size_t i = 0; i < rank->ops.count; i++) {
		lk_lifted_op *op = &rank->ops.at[i];
		if (op->what != LK_LIFTED_COMM || op->peers) continue;
		const lk_match *match = lk_traces_match(lifter->traces, capture, op->event);
		LK_CHECK(match != NULL, lifter->err);
		const struct meeting *meeting = &lifter->meeting[match - lifter->traces->matches.at];
		int64_t shift = lk_traces_time(lifter->traces, capture, op->start_ns) - op->start_ns;
		op->met_ns = meeting->met_ns - shift;
		op->end_ns = meeting->end_ns > meeting->met_ns ? meeting->end_ns - shift : op->met_ns;
	}
	return LK_OK;
}

/* ---- the graph ---- */

static const lk_run_group *lift_group_of(const struct lifter *lifter, uint32_t capture,
                                         const lk_lifted_op *op, uint32_t *index) {
	const lk_match *match = lk_traces_match(lifter->traces, capture, op->event);
	*index = match ? match->group : (uint32_t)lifter->traces->groups.count;
	return match ? &lifter->traces->groups.at[match->group] : NULL;
}

/* The team of an operation: its group; if no other rank of it was captured, a new team of the rank
 * and its peers: one peer for a message. */
static lk_status lift_team_of(struct lifter *lifter, uint32_t capture, const lk_lifted_op *op,
                              bool pair, int32_t *team) {
	uint32_t index, world = (uint32_t)lifter->traces->world;
	const lk_run_group *group = lift_group_of(lifter, capture, op, &index);
	uint32_t ranks;
	if (group && group->size > 0) ranks = (uint32_t)group->size;
	else if (world > 1) ranks = world;
	else ranks = 2;
	if (pair && op->peers) ranks = 2;
	if (!op->peers) {
		if (lifter->team[index] == LK_NONE)
			lifter->team[index] =
				lk_graph_add_team(lifter->out->graph, group->name, group->captures, group->count,
			                      ranks > group->count ? ranks : group->count, false);
		*team = (int32_t)lifter->team[index];
		return LK_OK;
	}
	const lk_graph *graph = lifter->out->graph;
	const char *name = group ? group->name : "peers";
	for (size_t t = 0; t < graph->teams.count; t++) {
		const lk_team *known = &graph->teams.at[t];
		if (known->end - known->begin != 1 || graph->team_stages.at[known->begin] != capture ||
		    known->ranks != ranks)
			continue;
		if (strcmp(lk_intern_text(graph->names, known->name), name) == 0) {
			*team = (int32_t)t;
			return LK_OK;
		}
	}
	*team = (int32_t)lk_graph_add_team(lifter->out->graph, name, &capture, 1, ranks, false);
	return LK_OK;
}

/* Device work of 0 would mean "not measured", so it is at least 1; unmeasured host time is 0. */
static int64_t ps_of(const lk_lifted_op *op, int64_t ns) {
	bool device =
		op->what == LK_LIFTED_DEVICE || op->what == LK_LIFTED_COMM || op->what == LK_LIFTED_CARRIED;
	if (ns > 0) return ns * PS_PER_NS;
	if (device) return 1;
	return 0;
}

/* The longest piece, which names a stretch of host time. */
static const lk_host_piece *lift_longest(const lk_lifted_rank *rank, const lk_lifted_op *op) {
	LK_ASSERT(op->piece_begin < op->piece_end && op->piece_end <= rank->pieces.count);
	const lk_host_piece *best = &rank->pieces.at[op->piece_begin];
	for (uint32_t p = op->piece_begin; p < op->piece_end; p++)
		if (rank->pieces.at[p].dur_ns > best->dur_ns) best = &rank->pieces.at[p];
	return best;
}

static const char *host_name(const lk_lifted_rank *rank, const lk_host_piece *piece) {
	if (piece->loading) return "data loading";
	return piece->event == LK_NONE ? "host" : lk_capture_text(rank->capture, piece->name);
}

/* Fill a graph operation. The phase of device work is that of the host operation that launched it:
 * the last one before it in the program. */
static lk_status lift_fill(struct lifter *lifter, uint32_t capture, const lk_lifted_op *op,
                           lk_phase *phase, lk_op *out) {
	const lk_lifted_rank *rank = &lifter->out->rank[capture];
	const lk_capture *c = rank->capture;
	out->kind = LK_OP_HOST;
	switch (op->what) {
	case LK_LIFTED_HOST: {
		const lk_host_piece *piece = lift_longest(rank, op);
		out->name = host_name(rank, piece);
		*phase = (lk_phase)piece->phase;
		break;
	}
	case LK_LIFTED_LAG: out->name = lk_lift_communicates(c, op->event) ? "arrival" : "gap"; break;
	case LK_LIFTED_WAIT:
		out->name = "stream wait";
		out->kind = LK_OP_WAIT;
		break;
	case LK_LIFTED_RELEASE: out->name = "before the trace"; break;
	case LK_LIFTED_PEERS: out->name = "peers"; break;
	case LK_LIFTED_END: out->name = "end of step"; break;
	default:
		lk_work_classify(c, &lifter->kinds, op->event, out);
		if (op->what == LK_LIFTED_CARRIED) out->flags = LK_OP_CARRIED;
		if (op->what != LK_LIFTED_COMM) {
			/* carried into the step: it no longer synchronises with any rank */
			if (out->kind == LK_OP_SEND || out->kind == LK_OP_RECV) out->kind = LK_OP_ALLTOALL;
			break;
		}
		const lk_match *match = lk_traces_match(lifter->traces, capture, op->event);
		if (match && match->bytes > 0) out->bytes = (double)match->bytes;
		out->group = LK_GROUP_TEAM;
		LK_TRY(lift_team_of(lifter, capture, op, !lk_op_is_collective(out->kind), &out->channel));
		/* messages of a larger group become an exchange among all */
		if (!lk_op_is_collective(out->kind) &&
		    lifter->out->graph->teams.at[out->channel].ranks != 2)
			out->kind = LK_OP_ALLTOALL;
	}
	out->phase = (uint8_t)*phase;
	return LK_OK;
}

/* Number of a rank's streams, if it begins later than the first rank; else 0. */
static uint32_t count_starts(const struct lifter *lifter, uint32_t capture) {
	bool later = lifter->out->begin_ps[capture] / PS_PER_NS > 0;
	return later ? (uint32_t)__builtin_popcountll(lifter->out->rank[capture].streams) : 0;
}

/* Every stream of a rank begins with the rank's stretch. */
static uint32_t add_starts(struct lifter *lifter, uint32_t capture) {
	const lk_lifted_rank *rank = &lifter->out->rank[capture];
	int64_t offset = lifter->out->begin_ps[capture] / PS_PER_NS;
	uint32_t starts = 0;
	for (unsigned s = 0; s < LK_STREAMS && offset > 0; s++) {
		if (!(rank->streams >> s & 1)) continue;
		lk_graph_add(lifter->out->graph, &(lk_op){.kind = LK_OP_HOST,
		                                          .stream = (uint8_t)s,
		                                          .name = "begin",
		                                          .measured_ps = offset * PS_PER_NS,
		                                          .phase = LK_PHASE_OTHER});
		starts++;
	}
	return starts;
}

static lk_status add_ops(struct lifter *lifter, uint32_t capture) {
	lk_lifted_rank *rank = &lifter->out->rank[capture];
	uint32_t starts = add_starts(lifter, capture), deps[1024];
	lifter->out->first_op[capture] = lifter->out->graph->ops.count;
	lk_phase phase = LK_PHASE_FORWARD;
	for (uint32_t i = 0; i < rank->ops.count; i++) {
		const lk_lifted_op *op = &rank->ops.at[i];
		LK_ASSERT(op->dep_end - op->dep_begin <= sizeof deps / sizeof *deps);
		lk_op add = {
			.stream = op->stream, .measured_ps = ps_of(op, lk_lifted_own(rank, i)), .deps = deps};
		for (uint32_t d = op->dep_begin; d < op->dep_end && add.dep_count < 1024; d++)
			deps[add.dep_count++] = starts + rank->deps.at[d];
		LK_TRY(lift_fill(lifter, capture, op, &phase, &add));
		lk_graph_add(lifter->out->graph, &add);
	}
	return LK_OK;
}

static lk_status lift_name_streams(struct lifter *lifter, uint32_t capture) {
	const lk_lifted_rank *rank = &lifter->out->rank[capture];
	for (unsigned s = 0; s < LK_STREAMS; s++) {
		char name[64];
		if (!(rank->streams >> s & 1)) continue;
		if (rank->lanes[s] == LK_NONE) {
			snprintf(name, sizeof name, "%s", s == LK_STREAM_PEERS ? "peers" : "outside");
		} else {
			const lk_lane *lane = &rank->capture->lanes.at[rank->lanes[s]];
			snprintf(name, sizeof name, "%s %lld", lane->stream ? "stream" : "thread",
			         (long long)lane->thread);
		}
		LK_TRY(lk_graph_name_stream(lifter->out->graph, capture, s, name, rank->threads >> s & 1,
		                            lifter->err));
	}
	return LK_OK;
}

/* Keep the first rank's kernels of unknown shape; those of others are alike. */
static lk_status keep_unknown(struct lifter *lifter, uint32_t capture) {
	const lk_capture *c = lifter->traces->capture[capture];
	lifter->out->known_ns += lifter->kinds.known_ns;
	lifter->out->device_ns += lifter->kinds.device_ns;
	for (size_t i = 0; i < lifter->kinds.unknown.count && capture == 0; i++) {
		const struct lk_unknown_work *work = &lifter->kinds.unknown.at[i];
		const char *text =
			lk_arena_printf(&lifter->out->arena, "%u times, %.3f ms: %s", work->count,
		                    work->ns * 1e-6, lk_capture_text(c, work->name));
		if (!text || !lk_push(&lifter->out->unknown)) return lk_oom(lifter->err);
		*lk_last(&lifter->out->unknown) = text;
	}
	return LK_OK;
}

static lk_status lift_add_rank(struct lifter *lifter, uint32_t capture) {
	lk_graph *graph = lifter->out->graph;
	char name[32];
	uint32_t block;
	snprintf(name, sizeof name, "rank %d", (int)lifter->traces->capture[capture]->rank);
	lk_graph_begin_block(graph, name);
	if (!lifter->kinds.pair)
		LK_TRY(lk_work_kinds_find(lifter->traces->capture[capture], &lifter->kinds, lifter->err));
	lk_status status = add_ops(lifter, capture);
	if (status == LK_OK) status = keep_unknown(lifter, capture);
	lk_work_kinds_free(&lifter->kinds);
	LK_TRY(status);
	LK_TRY(lk_graph_end_block(graph, &block, lifter->err));
	LK_TRY(lift_name_streams(lifter, capture));
	graph->programs.at[capture].name = lk_intern_id(graph->names, name);
	return lk_graph_call(graph, capture,
	                     &(lk_call){.block = block, .repeat = 1, .microbatch = -1, .layer = -1},
	                     lifter->err);
}

static lk_status lift_build(struct lifter *lifter) {
	uint32_t count = lifter->traces->count;
	lk_graph *graph = lifter->out->graph = lk_graph_new();
	if (!graph) return lk_oom(lifter->err);
	graph->traced = true;
	graph->ranks = (lk_ranks){.world = count, .stages = count, .chains = 1};
	for (int g = 0; g < LK_GROUPS; g++)
		graph->ranks.group[g].size = graph->ranks.group[g].stride = 1;
	LK_TRY(lk_graph_set_programs(graph, count, 0, lifter->err));
	size_t ops = 0, deps = 0;
	for (uint32_t r = 0; r < count; r++) {
		ops += lifter->out->rank[r].ops.count + count_starts(lifter, r);
		deps += lifter->out->rank[r].deps.count;
	}
	lk_graph_reserve(graph, ops, deps);
	for (uint32_t r = 0; r < count; r++) LK_TRY(lift_add_rank(lifter, r));
	return LK_OK;
}

/* ---- all of it ---- */

static lk_status lift_set_up(struct lifter *lifter, uint32_t step, uint32_t but, bool follow) {
	const lk_traces *traces = lifter->traces;
	lk_arena *arena = &lifter->out->arena;
	lifter->meets = LK_ARRAY(arena, bool, traces->matches.count);
	lifter->came = LK_ARRAY(arena, uint32_t, traces->matches.count);
	lifter->meeting = LK_ARRAY(arena, struct meeting, traces->matches.count);
	lifter->stretch = LK_ARRAY(arena, lk_lift_stretch, traces->count);
	lifter->team = LK_ARRAY(arena, uint32_t, traces->groups.count + 1);
	lifter->out->rank = LK_ARRAY(arena, lk_lifted_rank, traces->count);
	lifter->out->first_op = LK_ARRAY(arena, uint32_t, traces->count);
	lifter->out->begin_ps = LK_ARRAY(arena, int64_t, traces->count);
	if (!lifter->meets || !lifter->came || !lifter->meeting || !lifter->stretch || !lifter->team ||
	    !lifter->out->rank || !lifter->out->first_op || !lifter->out->begin_ps)
		return lk_oom(lifter->err);
	for (size_t g = 0; g <= traces->groups.count; g++) lifter->team[g] = LK_NONE;
	lifter->origin_ns = INT64_MAX;
	for (uint32_t r = 0; r < traces->count; r++) {
		lk_lift_stretch skip = {0};
		if (but != LK_NONE) LK_TRY(set_stretch(lifter, r, but, &skip));
		LK_TRY(set_stretch(lifter, r, step, &lifter->stretch[r]));
		lifter->stretch[r].follow = follow;
		lifter->stretch[r].skip_from_ns = skip.from_ns;
		lifter->stretch[r].skip_to_ns = skip.to_ns;
		int64_t start = lk_traces_time(traces, r, lifter->stretch[r].from_ns);
		if (start < lifter->origin_ns) lifter->origin_ns = start;
	}
	for (uint32_t r = 0; r < traces->count; r++) LK_TRY(lift_check_times(lifter, r));
	for (uint32_t r = 0; r < traces->count; r++)
		lifter->out->begin_ps[r] =
			(lk_traces_time(traces, r, lifter->stretch[r].from_ns) - lifter->origin_ns) * PS_PER_NS;
	return LK_OK;
}

static lk_status lift_one_rank(void *context, size_t rank, lk_error *err) {
	struct lifter l = *(struct lifter *)context;
	uint32_t r = (uint32_t)rank;
	struct matched_context matching = {&l, r};
	lk_lift_stretch stretch = l.stretch[r];
	l.err = err;
	stretch.matched = matched;
	stretch.context = &matching;
	lk_lifted_rank *out = &l.out->rank[r];
	LK_TRY(lk_lift_rank(l.traces->capture[r], &stretch, out, err));
	lk_vec_fit(&out->ops);
	lk_vec_fit(&out->deps);
	lk_vec_fit(&out->pieces);
	LK_TRY(set_meetings(&l, r));
	/* meetings end at the median over ranks */
	return lk_lift_settle(out, LK_LIFT_SLACK_NS + (int64_t)ceil(l.traces->residual_ns), err);
}

/* A rank's program may lack a matched call: its thread or stream found no place, or its call lies
 * inside another. Then the others do not wait for it. */
static bool drop_unmet(struct lifter *lifter) {
	const lk_match *match = lifter->traces->matches.at;
	bool dropped = false;
	for (uint32_t r = 0; r < lifter->traces->count; r++)
		for (size_t i = 0; i < lifter->out->rank[r].ops.count; i++) {
			const lk_lifted_op *op = &lifter->out->rank[r].ops.at[i];
			if (op->what == LK_LIFTED_COMM && !op->peers)
				lifter->came[lk_traces_match(lifter->traces, r, op->event) - match]++;
		}
	for (size_t m = 0; m < lifter->traces->matches.count; m++) {
		if (!lifter->came[m] || lifter->came[m] == match[m].end - match[m].begin) continue;
		lifter->meets[m] = false;
		dropped = true;
	}
	return dropped;
}

static lk_status lift_ranks(struct lifter *lifter) {
	find_meetings(lifter);
	LK_TRY(lk_parallel(lifter->traces->matches.count, 0, find_meeting, lifter, lifter->err));
	LK_TRY(lk_parallel(lifter->traces->count, 0, lift_one_rank, lifter, lifter->err));
	if (!drop_unmet(lifter)) return LK_OK;
	for (uint32_t r = 0; r < lifter->traces->count; r++) lk_lifted_rank_free(&lifter->out->rank[r]);
	return lk_parallel(lifter->traces->count, 0, lift_one_rank, lifter, lifter->err);
}

/* A run's only rank, and the kinds of its work: two independent tasks. */
struct lift_alone {
	struct lifter *lifter;
	lk_work_kinds kinds;
};

static lk_status lift_part(void *context, size_t part, lk_error *err) {
	struct lift_alone *alone = context;
	if (!part) alone->lifter->err = err;
	return part ? lk_work_kinds_find(alone->lifter->traces->capture[0], &alone->kinds, err)
	            : lift_ranks(alone->lifter);
}

/* With a single rank the other cores are idle. */
static lk_status lift_one_alone(struct lifter *lifter) {
	struct lift_alone alone = {.lifter = lifter};
	lk_error *err = lifter->err;
	lk_status status = lk_parallel(2, 0, lift_part, &alone, err);
	lifter->err = err;
	lifter->kinds = alone.kinds;
	return status;
}

static lk_status lift_whole_run(const lk_traces *traces, uint32_t step, uint32_t but, bool follow,
                                bool graph, lk_lifted **out, lk_error *err) {
	lk_lifted *lifted = calloc(1, sizeof *lifted);
	if (!lifted) return lk_oom(err);
	lifted->traces = traces;
	struct lifter l = {.traces = traces, .out = lifted, .err = err};
	lk_status status = lift_set_up(&l, step, but, follow);
	if (status == LK_OK) status = graph && traces->count == 1 ? lift_one_alone(&l) : lift_ranks(&l);
	if (status == LK_OK && graph) status = lift_build(&l);
	lk_work_kinds_free(&l.kinds);
	if (status != LK_OK) lk_lifted_free(lifted);
	else *out = lifted;
	return status;
}

lk_status lk_lift(const lk_traces *traces, uint32_t step, uint32_t but, lk_lifted **out,
                  lk_error *err) {
	return lift_whole_run(traces, step, but, false, true, out, err);
}

lk_status lk_lift_following(const lk_traces *traces, uint32_t step, lk_lifted **out,
                            lk_error *err) {
	return lift_whole_run(traces, step, LK_NONE, true, true, out, err);
}

lk_status lk_lift_ranks(const lk_traces *traces, uint32_t step, uint32_t but, lk_lifted **out,
                        lk_error *err) {
	return lift_whole_run(traces, step, but, false, false, out, err);
}

void lk_lifted_free(lk_lifted *lifted) {
	if (!lifted) return;
	for (uint32_t r = 0; lifted->rank && r < lifted->traces->count; r++)
		lk_lifted_rank_free(&lifted->rank[r]);
	lk_graph_free(lifted->graph);
	lk_vec_free(&lifted->unknown);
	lk_arena_free(&lifted->arena);
	free(lifted);
}

void lk_lift_retime(lk_lifted *lifted, lk_lift_time *time, const void *context) {
	LK_ASSERT(lifted->graph != NULL);
	for (uint32_t r = 0; r < lifted->traces->count; r++) {
		const lk_lifted_rank *rank = &lifted->rank[r];
		for (uint32_t i = 0; i < rank->ops.count; i++) {
			int64_t set = time ? time(context, lifted, r, i) : -1;
			lifted->graph->ops.measured_ps[lifted->first_op[r] + i] =
				ps_of(&rank->ops.at[i], set < 0 ? lk_lifted_own(rank, i) : set / PS_PER_NS);
		}
	}
}
