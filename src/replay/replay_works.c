/* replay_works.c: execution traces, which have no times: the host by stored overheads, the device
 * by the cost models, simulated together on a cluster. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "step/step.h"
#include "replay/replay.h"
#include "base/intervals.h"
#include "base/units.h"
#include "base/text.h"
#include "base/noun.h"
#include "base/sort.h"
#include "trace/lift/lift.h"

struct asked {
	lk_replaying *r;
	lk_works **works; /* by rank */
	uint32_t count;
	lk_cluster cluster; /* groups 0: not needed */
	lk_works_lifted lifted;
	lk_step step;
	int64_t skew_ns; /* from the first rank's begin to the last one's; -1 unknown */
	lk_sentences warnings;
};

static void works_warn(struct asked *asked, const char *text) {
	if (lk_push(&asked->warnings)) *lk_last(&asked->warnings) = text;
}

/* ---- which ranks ---- */

static int works_by_rank(const void *x, const void *y) {
	const lk_works *a = *(lk_works *const *)x, *b = *(lk_works *const *)y;
	if (a->rank != b->rank) {
		if (a->rank < b->rank) return -1;
		return 1;
	}
	return strcmp(a->path, b->path);
}

static lk_status works_find_ranks(struct asked *asked, lk_error *err) {
	for (uint32_t i = 0; i < asked->count; i++) {
		lk_works *works = asked->works[i];
		if (works->rank < 0) works->rank = lk_trace_rank_in_name(works->path);
		if (works->rank < 0 && asked->count == 1) works->rank = 0;
		if (works->rank >= 0) continue;
		lk_fail(err, LK_ERR_INPUT, works->path, "the name does not say of which rank it is");
		return lk_hint(err, "name the files rank0.json, rank1.json or trace.0.et, trace.1.et");
	}
	lk_sort(asked->works, asked->count, sizeof(lk_works *), works_by_rank);
	for (uint32_t i = 1; i < asked->count; i++) {
		if (asked->works[i]->rank != asked->works[i - 1]->rank) continue;
		lk_fail(err, LK_ERR_INPUT, asked->works[i]->path, "is of rank %d, as %.200s is",
		        asked->works[i]->rank, asked->works[i - 1]->path);
		return lk_hint(err, "give one file per rank of one run");
	}
	return LK_OK;
}

static bool all_timed(const struct asked *asked) {
	for (uint32_t i = 0; i < asked->count; i++)
		if (!lk_works_device_timed(asked->works[i])) return false;
	return true;
}

static lk_status works_check_request(const lk_replay_request *request, lk_error *err) {
	const char *option;
	if (request->hold_out == LK_HOLD_STEP || request->hold_out == LK_HOLD_RANK)
		option = "--hold-out";
	else if (request->overheads_out) option = "--overheads-out";
	else option = NULL;
	if (option) {
		lk_fail(err, LK_ERR_INPUT, option, "execution traces have no times of the host");
		return lk_hint(err, "give profiles (Kineto, Nsight Systems) for that");
	}
	return LK_OK;
}

/* As annotated, ProfilerStep#4; 0 without. */
static int64_t step_number(const lk_works *works) {
	for (uint32_t i = 0; i < works->count; i++) {
		const char *name = lk_works_text(works, works->name[i]);
		if (works->kind[i] == LK_NODE_NOTE && strncmp(name, "ProfilerStep#", 13) == 0)
			return strtoll(name + 13, NULL, 10);
	}
	return 0;
}

/* ---- when ranks begin ---- */

/* The begin of a rank's step on the common clock: of the step with the works' number, else the
 * first. */
static lk_status works_begin_of(const lk_traces *traces, const lk_works *works, int64_t number,
                                bool *found, int64_t *begin, lk_error *err) {
	*found = false;
	for (uint32_t r = 0; r < traces->count && !*found; r++) {
		lk_capture_steps steps = {0};
		if (traces->capture[r]->rank != works->rank) continue;
		LK_TRY(lk_capture_find_steps(traces->capture[r], &steps, err));
		size_t at = 0;
		while (at + 1 < steps.count && steps.at[at].number != number) at++;
		if (steps.count && steps.at[at].number != number) at = 0;
		*found = steps.count > 0;
		if (*found) *begin = lk_traces_time(traces, r, steps.at[at].start_ns);
		lk_vec_free(&steps);
	}
	return LK_OK;
}

/* Execution traces do not tell when a rank begins; profiles of the same ranks do. */
static lk_status works_find_begins(struct asked *asked, const lk_traces *traces, lk_error *err) {
	int64_t first = INT64_MAX, last = INT64_MIN;
	bool all = traces != NULL;
	for (uint32_t i = 0; i < asked->count && all; i++) {
		lk_works *works = asked->works[i];
		LK_TRY(works_begin_of(traces, works, step_number(works), &all, &works->begin_ns, err));
		if (works->begin_ns < first) first = works->begin_ns;
		if (works->begin_ns > last) last = works->begin_ns;
	}
	for (uint32_t i = 0; i < asked->count; i++)
		asked->works[i]->begin_ns = all ? asked->works[i]->begin_ns - first : 0;
	asked->skew_ns = all ? last - first : -1;
	return LK_OK;
}

/* ---- hardware ---- */

/* Groups may have more ranks than were traced. */
static uint32_t ranks_needed(const struct asked *asked) {
	uint32_t most = asked->count;
	for (size_t i = 0; i < asked->step.graph->teams.count; i++)
		if (asked->step.graph->teams.at[i].ranks > most)
			most = asked->step.graph->teams.at[i].ranks;
	return most;
}

static lk_status works_find_cluster(struct asked *asked, lk_error *err) {
	const lk_replay_request *request = asked->r->request;
	lk_where where = {.cluster = request->cluster,
	                  .gpu = request->gpu,
	                  .ranks = ranks_needed(asked),
	                  .needed = asked->count,
	                  .flat = "replay"};
	if (!request->gpu && !request->cluster) {
		if (all_timed(asked)) return LK_OK;
		lk_fail(err, LK_ERR_INPUT, asked->works[0]->path,
		        "is a %s: it does not say when things ran", asked->works[0]->format);
		return lk_hint(err, "give --gpu NAME or --cluster TEXT to predict it, and --overheads FILE "
		                    "for the times of the host");
	}
	return lk_where_read(&asked->step.arena, &where, &asked->cluster, NULL, err);
}

/* Traces name the format of tensors; if a device has no units for it, frameworks compute in
 * fp32. */
static void use_known_formats(struct asked *asked) {
	lk_graph *graph = asked->step.graph;
	const double *peak = asked->cluster.node[0].device->peak_flops;
	uint32_t changed = 0;
	for (uint32_t i = 0; i < graph->ops.count; i++) {
		if (!(graph->ops.flops[i] > 0) || peak[graph->ops.dtype[i]] > 0) continue;
		changed += graph->ops.dtype[i] != LK_TF32;
		graph->ops.dtype[i] = LK_FP32;
	}
	if (!changed) return;
	const char *text = lk_arena_printf(
		asked->r->arena,
		"%u %s a format that the device does not compute in; they are taken as fp32", changed,
		lk_noun(changed, "operation has", "operations have"));
	if (text) works_warn(asked, text);
}

static lk_status find_costs(struct asked *asked, lk_error *err) {
	lk_constants constants;
	LK_TRY(works_find_cluster(asked, err));
	if (!asked->cluster.groups)
		return lk_lifted_costs(&asked->step.arena, asked->step.graph, &asked->step.costs, err);
	use_known_formats(asked);
	lk_profile_base(lk_calibration_current(), &constants);
	lk_cost_options options = {.constants = &constants};
	return lk_costs_build(&asked->step.arena, asked->step.graph, &asked->cluster, &options,
	                      &asked->step.costs, err);
}

/* ---- the answer ---- */

/* Divide a rank's events as seen by the device: busy streams, exposed communication, idle. */
static lk_status works_add_parts(struct asked *asked, uint32_t rank, lk_replay_step *out,
                                 lk_error *err) {
	const lk_graph *graph = asked->step.graph;
	lk_replay_part *parts = LK_ARRAY(asked->r->arena, lk_replay_part, LK_STREAMS + 2);
	double busy[LK_STREAMS] = {0};
	lk_intervals compute = {0}, comm = {0}, alone = {0}, all = {0};
	bool fine = parts != NULL;
	for (size_t i = 0; fine && i < asked->step.sim.events.count; i++) {
		const lk_sim_event *event = &asked->step.sim.events.at[i];
		unsigned stream = graph->ops.stream[event->op], kind = graph->ops.kind[event->op];
		if (event->record != rank || kind == LK_OP_HOST || kind == LK_OP_WAIT ||
		    event->end_ps <= event->ready_ps)
			continue;
		busy[stream] += (double)(event->end_ps - event->ready_ps) / LK_PS_PER_S;
		fine = lk_intervals_add(lk_op_is_comm(kind) ? &comm : &compute, event->ready_ps,
		                        event->end_ps) &&
		       lk_intervals_add(&all, event->ready_ps, event->end_ps);
	}
	lk_intervals_sort(&compute);
	lk_intervals_sort(&comm);
	lk_intervals_sort(&all);
	fine = fine && lk_intervals_minus(&comm, &compute, &alone);
	for (unsigned s = 0; fine && s < LK_STREAMS; s++) {
		const char *name = busy[s] > 0 ? lk_arena_printf(asked->r->arena, "busy %s",
		                                                 lk_graph_stream(graph, rank, s))
		                               : NULL;
		if (busy[s] > 0 && !name) fine = false;
		if (name) parts[out->part_count++] = (lk_replay_part){name, NAN, busy[s]};
	}
	if (fine) {
		double idle =
			all.count
				? (double)(all.at[all.count - 1].end - all.at[0].start - lk_intervals_length(&all))
				: 0;
		double exposed = (double)lk_intervals_length(&alone);
		parts[out->part_count++] =
			(lk_replay_part){"exposed communication", NAN, exposed / LK_PS_PER_S};
		parts[out->part_count++] = (lk_replay_part){"idle", NAN, idle / LK_PS_PER_S};
	}
	out->parts = parts;
	lk_vec_free(&compute);
	lk_vec_free(&comm);
	lk_vec_free(&alone);
	lk_vec_free(&all);
	return fine ? LK_OK : lk_oom(err);
}

static lk_status works_fill_ranks(struct asked *asked, lk_replay *out, lk_error *err) {
	lk_replay_rank *ranks = LK_ARRAY(asked->r->arena, lk_replay_rank, asked->count);
	if (!ranks) return lk_oom(err);
	for (uint32_t i = 0; i < asked->count; i++) {
		lk_replay_step *step = LK_NEW(asked->r->arena, lk_replay_step);
		const char *path = lk_arena_strdup(asked->r->arena, asked->works[i]->path);
		if (!step || !path) return lk_oom(err);
		*step = (lk_replay_step){.number = step_number(asked->works[i]),
		                         .measured_s = NAN,
		                         .baseline_s = NAN,
		                         .host_known = NAN,
		                         .device_known = NAN,
		                         .predicted_s = (double)asked->step.sim.finish_ps[i] / LK_PS_PER_S -
		                                        (double)asked->works[i]->begin_ns * 1e-9};
		LK_TRY(works_add_parts(asked, i, step, err));
		ranks[i] = (lk_replay_rank){asked->works[i]->rank, path, step, 1};
	}
	out->ranks = ranks;
	out->rank_count = out->predicted = asked->count;
	asked->r->ranks = ranks;
	return LK_OK;
}

static lk_status fill_uncovered(struct asked *asked, lk_replay *out, lk_error *err) {
	const char **texts = LK_ARRAY(asked->r->arena, const char *, asked->lifted.names.count);
	lk_replay_works *works = LK_NEW(asked->r->arena, lk_replay_works);
	if (!texts || !works) return lk_oom(err);
	for (size_t i = 0; i < asked->lifted.names.count; i++) {
		texts[i] = lk_arena_printf(asked->r->arena, "%s (%u)", asked->lifted.names.at[i].name,
		                           asked->lifted.names.at[i].count);
		if (!texts[i]) return lk_oom(err);
	}
	const lk_works_lifted *lifted = &asked->lifted;
	*works = (lk_replay_works){.modelled = lifted->priced,
	                           .timed = lifted->timed,
	                           .uncovered = lifted->unpriced,
	                           .nothing = lifted->nothing,
	                           .hosts = lifted->hosts,
	                           .host_times = lifted->host_times,
	                           .host_times_by_mean = lifted->strange_overheads};
	out->works = works;
	out->uncovered = texts;
	out->uncovered_count = asked->lifted.names.count;
	return LK_OK;
}

static lk_status fill_warnings(struct asked *asked, lk_replay *out, lk_error *err) {
	for (uint32_t i = 0; i < asked->count; i++) {
		const lk_works *works = asked->works[i];
		for (size_t k = 0; k < works->warnings.count; k++) {
			const char *text =
				lk_arena_printf(asked->r->arena, "%s: %s", works->path, works->warnings.at[k]);
			if (!text) return lk_oom(err);
			works_warn(asked, text);
		}
	}
	if (!asked->r->request->overheads && !all_timed(asked))
		works_warn(asked, "without --overheads the host takes no time");
	const char **texts = LK_ARRAY(asked->r->arena, const char *, asked->warnings.count);
	if (!texts) return lk_oom(err);
	for (size_t i = 0; i < asked->warnings.count; i++) texts[i] = asked->warnings.at[i];
	out->warnings = texts;
	out->warning_count = asked->warnings.count;
	return LK_OK;
}

static lk_status works_describe(struct asked *asked, lk_replay *out, lk_error *err) {
	const char *host = asked->r->request->overheads;
	out->held_out = "everything";
	out->worst_part = "";
	out->geomean_error = out->baseline_error = out->device_known_shape = NAN;
	out->operations = asked->step.graph->ops.count;
	out->times_from = asked->cluster.groups
	                      ? lk_arena_printf(asked->r->arena, "models of %s", asked->cluster.text)
	                      : "durations of the traces";
	if (out->times_from && host)
		out->times_from =
			lk_arena_printf(asked->r->arena, "%s; host times from %s", out->times_from, host);
	if (out->times_from && asked->count > 1) {
		char skew[32];
		lk_format_seconds((double)asked->skew_ns * 1e-9, skew, sizeof skew);
		out->times_from =
			asked->skew_ns < 0
				? lk_arena_printf(asked->r->arena, "%s; ranks begin together", out->times_from)
				: lk_arena_printf(asked->r->arena, "%s; ranks begin within %s, as there",
		                          out->times_from, skew);
	}
	if (!out->times_from) return lk_oom(err);
	LK_TRY(works_fill_ranks(asked, out, err));
	LK_TRY(fill_uncovered(asked, out, err));
	return fill_warnings(asked, out, err);
}

/* ---- comparison with measurements ---- */

static void works_compare_rank(lk_replay *out, const lk_capture *capture,
                               const lk_capture_steps *steps, double *sum, size_t *count) {
	for (size_t i = 0; i < out->rank_count; i++) {
		lk_replay_step *step = (lk_replay_step *)out->ranks[i].steps; /* owned by the answer, made
		                                                                 in this file */
		if (out->ranks[i].rank != capture->rank) continue;
		for (size_t s = 0; s < steps->count; s++) {
			if (steps->count > 1 && steps->at[s].number != step->number) continue;
			step->number = steps->at[s].number;
			step->measured_s = (double)(steps->at[s].end_ns - steps->at[s].start_ns) * 1e-9;
			if (!(step->measured_s > 0 && step->predicted_s > 0)) continue;
			*sum += fabs(log(step->predicted_s / step->measured_s));
			++*count;
		}
	}
}

static lk_status works_compare(struct asked *asked, lk_replay *out, lk_error *err) {
	const char *path = asked->r->request->measured;
	double sum = 0;
	size_t count = 0;
	if (!path) return LK_OK;
	lk_traces *traces;
	LK_TRY(lk_traces_read(&path, 1, NULL, 0, &traces, err));
	lk_status status = LK_OK;
	for (uint32_t i = 0; i < traces->count && status == LK_OK; i++) {
		lk_capture_steps steps = {0};
		status = lk_capture_find_steps(traces->capture[i], &steps, err);
		if (status == LK_OK) works_compare_rank(out, traces->capture[i], &steps, &sum, &count);
		lk_vec_free(&steps);
	}
	lk_traces_free(traces);
	LK_TRY(status);
	if (!count)
		return lk_fail(err, LK_ERR_INPUT, path, "holds no rank and step of the execution traces");
	out->geomean_error = expm1(sum / (double)count);
	return LK_OK;
}

/* ---- files ---- */

/* Pricing a step graph is left to its reader. Chakra has one duration per node: the one predicted
 * here. */
static lk_status write_files(struct asked *asked, lk_error *err) {
	const lk_replay_request *request = asked->r->request;
	lk_graph *graph = asked->step.graph;
	const lk_costs *costs = &asked->step.costs;
	if (request->graph) LK_TRY(lk_graph_write(graph, request->graph, err));
	if (!request->chakra) return LK_OK;
	for (uint32_t b = 0; b < graph->blocks.count; b++) {
		uint32_t variant = costs->variant_of ? costs->variant_of[b] : 0; /* a block is a rank */
		for (uint32_t i = graph->blocks.at[b].begin; i < graph->blocks.at[b].end; i++)
			if (graph->ops.measured_ps[i] <= 0)
				graph->ops.measured_ps[i] = lk_costs_get(costs, variant, i)->duration_ps;
	}
	return lk_graph_chakra_write(graph, &(lk_chakra_options){.host = true}, request->chakra, err);
}

/* ---- the whole verb ---- */

static lk_status works_run(struct asked *asked, lk_overheads **table, lk_replay *out,
                           lk_error *err) {
	const lk_replay_request *request = asked->r->request;
	LK_TRY(works_check_request(request, err));
	LK_TRY(works_find_ranks(asked, err));
	lk_traces *traces = NULL;
	if (request->overheads)
		LK_TRY(lk_replay_stored_overheads(request->overheads, table, &traces, err));
	lk_status status = works_find_begins(asked, traces, err);
	lk_traces_free(traces);
	LK_TRY(status);
	LK_TRY(lk_works_lift((const lk_works *const *)asked->works, asked->count, *table,
	                     &asked->step.graph, &asked->lifted, err));
	LK_TRY(find_costs(asked, err));
	lk_step_options options = {.no_contention = !asked->cluster.groups};
	LK_TRY(lk_step_simulate(&options, &asked->step, err));
	LK_TRY(works_describe(asked, out, err));
	LK_TRY(works_compare(asked, out, err));
	return write_files(asked, err);
}

lk_status lk_replay_works_ask(lk_replaying *replaying, lk_overheads **table, lk_replay *out,
                              lk_error *err) {
	struct asked a = {
		.r = replaying, .works = replaying->files.works, .count = replaying->files.work_count};
	lk_status status = works_run(&a, table, out, err);
	lk_vec_free(&a.warnings);
	lk_works_lifted_free(&a.lifted);
	lk_step_free(&a.step);
	return status;
}
