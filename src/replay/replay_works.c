/* replay_works.c: execution traces, which have no times: the host by stored overheads, the device by the cost models,
 * together simulated on a cluster. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "step/step.h"
#include "replay/replay.h"
#include "base/intervals.h"
#include "base/units.h"
#include "trace/lift/lift.h"

struct asked {
	lk_replaying *r;
	lk_works **works;            /* by rank */
	uint32_t count;
	lk_cluster cluster;          /* groups 0: none is needed */
	lk_works_lifted lifted;
	lk_step step;
	lk_sentences warnings;
};

static void warn(struct asked *a, const char *text) {
	if (lk_push(&a->warnings)) *lk_last(&a->warnings) = text;
}

/* ---- which ranks ---- */

static int by_rank(const void *x, const void *y) {
	const lk_works *a = *(lk_works *const *)x, *b = *(lk_works *const *)y;
	return a->rank != b->rank ? (a->rank < b->rank ? -1 : 1) : strcmp(a->path, b->path);
}

static lk_status find_ranks(struct asked *a, lk_error *err) {
	for (uint32_t i = 0; i < a->count; i++) {
		lk_works *w = a->works[i];
		if (w->rank < 0) w->rank = lk_trace_rank_in_name(w->path);
		if (w->rank < 0 && a->count == 1) w->rank = 0;
		if (w->rank >= 0) continue;
		lk_fail(err, LK_ERR_INPUT, w->path, "the name does not say of which rank it is");
		return lk_hint(err, "name the files rank0.json, rank1.json or trace.0.et, trace.1.et");
	}
	qsort(a->works, a->count, sizeof(lk_works *), by_rank);
	for (uint32_t i = 1; i < a->count; i++) {
		if (a->works[i]->rank != a->works[i - 1]->rank) continue;
		lk_fail(err, LK_ERR_INPUT, a->works[i]->path, "is of rank %d, as %.200s is", a->works[i]->rank,
		        a->works[i - 1]->path);
		return lk_hint(err, "give one file per rank of one run");
	}
	return LK_OK;
}

static bool all_timed(const struct asked *a) {
	for (uint32_t i = 0; i < a->count; i++)
		if (!lk_works_device_timed(a->works[i])) return false;
	return true;
}

static lk_status check_request(const lk_replay_request *q, lk_error *err) {
	const char *option = q->hold_out == LK_HOLD_STEP || q->hold_out == LK_HOLD_RANK ? "--hold-out"
						 : q->overheads_out                                         ? "--overheads-out"
																					: NULL;
	if (option) {
		lk_fail(err, LK_ERR_INPUT, option, "execution traces have no times of the host");
		return lk_hint(err, "give profiles (Kineto, Nsight Systems) for that");
	}
	if (q->gpu && q->cluster) return lk_fail(err, LK_ERR_INPUT, "--cluster", "--cluster and --gpu exclude one another");
	return LK_OK;
}

/* ---- where it runs ---- */

/* Groups may have more ranks than were traced. */
static uint32_t ranks_needed(const struct asked *a) {
	uint32_t most = a->count;
	for (size_t i = 0; i < a->step.graph->teams.count; i++)
		if (a->step.graph->teams.at[i].ranks > most) most = a->step.graph->teams.at[i].ranks;
	return most;
}

static lk_status find_cluster(struct asked *a, lk_error *err) {
	const lk_replay_request *q = a->r->request;
	const lk_device *device;
	uint32_t ranks = ranks_needed(a);
	if (q->cluster) {
		LK_TRY(lk_cluster_parse(&a->step.arena, q->cluster, &a->cluster, err));
		if ((uint32_t)a->cluster.gpus >= a->count) return LK_OK;
		return lk_fail(err, LK_ERR_INPUT, "--cluster", "has %d GPUs for %u ranks", a->cluster.gpus, a->count);
	}
	if (!q->gpu && all_timed(a)) return LK_OK;
	if (!q->gpu) {
		lk_fail(err, LK_ERR_INPUT, a->works[0]->path, "is a %s: it does not say when things ran", a->works[0]->format);
		return lk_hint(err, "give --gpu NAME or --cluster TEXT to predict it, and --overheads FILE for the times of the "
		                    "host");
	}
	LK_TRY(lk_device_lookup(q->gpu, &device, err));
	if (ranks > INT32_MAX) return lk_fail(err, LK_ERR_INPUT, "--gpu", "%u ranks are too many", ranks);
	return lk_cluster_simple(&a->step.arena, device, (int)ranks, 0, 0, &a->cluster, err);
}

/* Traces name the format of tensors; what a device has no units for, frameworks compute in fp32. */
static void use_known_formats(struct asked *a) {
	lk_graph *g = a->step.graph;
	const double *peak = a->cluster.node[0].device->peak_flops;
	uint32_t changed = 0;
	for (uint32_t i = 0; i < g->ops.count; i++) {
		if (!(g->ops.flops[i] > 0) || peak[g->ops.dtype[i]] > 0) continue;
		changed += g->ops.dtype[i] != LK_TF32;
		g->ops.dtype[i] = LK_FP32;
	}
	if (!changed) return;
	const char *text = lk_arena_printf(a->r->arena, "%u operations have a format that the device does not compute in; they "
	                                   "are taken as fp32", changed);
	if (text) warn(a, text);
}

static lk_status find_costs(struct asked *a, lk_error *err) {
	lk_constants constants;
	LK_TRY(find_cluster(a, err));
	if (!a->cluster.groups) return lk_lifted_costs(&a->step.arena, a->step.graph, &a->step.costs, err);
	use_known_formats(a);
	lk_profile_base(lk_calibration_current(), &constants);
	lk_cost_options options = {.constants = &constants};
	return lk_costs_build(&a->step.arena, a->step.graph, &a->cluster, &options, &a->step.costs, err);
}

/* ---- the answer ---- */

/* Events of a rank, as the device saw them: busy streams, communication with nothing beside it, nothing at all. */
static lk_status add_parts(struct asked *a, uint32_t rank, lk_replay_step *out, lk_error *err) {
	const lk_graph *g = a->step.graph;
	lk_replay_part *parts = LK_ARRAY(a->r->arena, lk_replay_part, LK_STREAMS + 2);
	double busy[LK_STREAMS] = {0};
	lk_intervals compute = {0}, comm = {0}, alone = {0}, all = {0};
	bool fine = parts != NULL;
	for (size_t i = 0; fine && i < a->step.sim.events.count; i++) {
		const lk_sim_event *e = &a->step.sim.events.at[i];
		unsigned stream = g->ops.stream[e->op], kind = g->ops.kind[e->op];
		if (e->record != rank || kind == LK_OP_HOST || kind == LK_OP_WAIT || e->end_ps <= e->ready_ps) continue;
		busy[stream] += (double)(e->end_ps - e->ready_ps) / LK_PS_PER_S;
		fine = lk_intervals_add(lk_op_is_comm(kind) ? &comm : &compute, e->ready_ps, e->end_ps) &&
			   lk_intervals_add(&all, e->ready_ps, e->end_ps);
	}
	lk_intervals_sort(&compute), lk_intervals_sort(&comm), lk_intervals_sort(&all);
	fine = fine && lk_intervals_minus(&comm, &compute, &alone);
	for (unsigned s = 0; fine && s < LK_STREAMS; s++) {
		const char *name = busy[s] > 0 ? lk_arena_printf(a->r->arena, "busy %s", lk_graph_stream(g, rank, s)) : NULL;
		if (busy[s] > 0 && !name) fine = false;
		if (name) parts[out->part_count++] = (lk_replay_part){name, NAN, busy[s]};
	}
	if (fine) {
		double idle = all.count ? (double)(all.at[all.count - 1].end - all.at[0].start - lk_intervals_length(&all)) : 0;
		double exposed = (double)lk_intervals_length(&alone);
		parts[out->part_count++] = (lk_replay_part){"exposed communication", NAN, exposed / LK_PS_PER_S};
		parts[out->part_count++] = (lk_replay_part){"idle", NAN, idle / LK_PS_PER_S};
	}
	out->parts = parts;
	lk_vec_free(&compute), lk_vec_free(&comm), lk_vec_free(&alone), lk_vec_free(&all);
	return fine ? LK_OK : lk_oom(err);
}

/* As annotated, ProfilerStep#4; 0 without. */
static int64_t step_number(const lk_works *w) {
	for (uint32_t i = 0; i < w->count; i++) {
		const char *name = lk_works_text(w, w->name[i]);
		if (w->kind[i] == LK_NODE_NOTE && strncmp(name, "ProfilerStep#", 13) == 0) return strtoll(name + 13, NULL, 10);
	}
	return 0;
}

static lk_status fill_ranks(struct asked *a, lk_replay *out, lk_error *err) {
	lk_replay_rank *ranks = LK_ARRAY(a->r->arena, lk_replay_rank, a->count);
	if (!ranks) return lk_oom(err);
	for (uint32_t i = 0; i < a->count; i++) {
		lk_replay_step *step = LK_NEW(a->r->arena, lk_replay_step);
		const char *path = lk_arena_strdup(a->r->arena, a->works[i]->path);
		if (!step || !path) return lk_oom(err);
		*step = (lk_replay_step){.number = step_number(a->works[i]), .measured_s = NAN, .baseline_s = NAN,
		                         .host_known = NAN, .device_known = NAN, .predicted_s = (double)a->step.sim.finish_ps[i] / LK_PS_PER_S};
		LK_TRY(add_parts(a, i, step, err));
		ranks[i] = (lk_replay_rank){a->works[i]->rank, path, step, 1};
	}
	out->ranks = ranks, out->rank_count = out->predicted = a->count;
	a->r->ranks = ranks;
	return LK_OK;
}

static lk_status fill_uncovered(struct asked *a, lk_replay *out, lk_error *err) {
	const char **texts = LK_ARRAY(a->r->arena, const char *, a->lifted.names.count);
	lk_replay_works *works = LK_NEW(a->r->arena, lk_replay_works);
	if (!texts || !works) return lk_oom(err);
	for (size_t i = 0; i < a->lifted.names.count; i++) {
		texts[i] = lk_arena_printf(a->r->arena, "%s (%u)", a->lifted.names.at[i].name, a->lifted.names.at[i].count);
		if (!texts[i]) return lk_oom(err);
	}
	const lk_works_lifted *l = &a->lifted;
	*works = (lk_replay_works){.modelled = l->priced, .timed = l->timed, .uncovered = l->unpriced,
	                           .nothing = l->nothing, .hosts = l->hosts, .host_times = l->host_times,
	                           .host_times_by_mean = l->strange_overheads};
	out->works = works;
	out->uncovered = texts, out->uncovered_count = a->lifted.names.count;
	return LK_OK;
}

static lk_status fill_warnings(struct asked *a, lk_replay *out, lk_error *err) {
	for (uint32_t i = 0; i < a->count; i++) {
		const lk_works *w = a->works[i];
		for (size_t k = 0; k < w->warnings.count; k++) {
			const char *text = lk_arena_printf(a->r->arena, "%s: %s", w->path, w->warnings.at[k]);
			if (!text) return lk_oom(err);
			warn(a, text);
		}
	}
	if (!a->r->request->overheads && !all_timed(a)) warn(a, "without --overheads the host takes no time");
	const char **texts = LK_ARRAY(a->r->arena, const char *, a->warnings.count);
	if (!texts) return lk_oom(err);
	for (size_t i = 0; i < a->warnings.count; i++) texts[i] = a->warnings.at[i];
	out->warnings = texts, out->warning_count = a->warnings.count;
	return LK_OK;
}

static lk_status describe(struct asked *a, lk_replay *out, lk_error *err) {
	const char *host = a->r->request->overheads;
	out->held_out = "everything";
	out->worst_part = "";
	out->geomean_error = out->baseline_error = out->device_known_shape = NAN;
	out->operations = a->step.graph->ops.count;
	out->times_from = lk_arena_printf(a->r->arena, "%s%s%s", a->cluster.groups ? "models of " : "durations of the traces",
	                                  a->cluster.groups ? a->cluster.text : "", host ? "; host times from " : "");
	if (out->times_from && host) out->times_from = lk_arena_printf(a->r->arena, "%s%s", out->times_from, host);
	if (!out->times_from) return lk_oom(err);
	LK_TRY(fill_ranks(a, out, err));
	LK_TRY(fill_uncovered(a, out, err));
	return fill_warnings(a, out, err);
}

/* ---- what was measured ---- */

static void compare_rank(lk_replay *out, const lk_capture *c, const lk_capture_steps *steps, double *sum,
                         size_t *count) {
	for (size_t i = 0; i < out->rank_count; i++) {
		lk_replay_step *step = (lk_replay_step *)out->ranks[i].steps; /* this file made it */
		if (out->ranks[i].rank != c->rank) continue;
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

static lk_status compare(struct asked *a, lk_replay *out, lk_error *err) {
	const char *path = a->r->request->measured;
	double sum = 0;
	size_t count = 0;
	if (!path) return LK_OK;
	lk_traces *t;
	LK_TRY(lk_traces_read(&path, 1, NULL, 0, &t, err));
	lk_status status = LK_OK;
	for (uint32_t i = 0; i < t->count && status == LK_OK; i++) {
		lk_capture_steps steps = {0};
		status = lk_capture_find_steps(t->capture[i], &steps, err);
		if (status == LK_OK) compare_rank(out, t->capture[i], &steps, &sum, &count);
		lk_vec_free(&steps);
	}
	lk_traces_free(t);
	LK_TRY(status);
	if (!count) return lk_fail(err, LK_ERR_INPUT, path, "holds none of the ranks and steps of the execution traces");
	out->geomean_error = expm1(sum / (double)count);
	return LK_OK;
}

/* ---- what is written ---- */

/* A step graph is left to the models of whoever reads it. Chakra has one duration for a node: what was predicted
 * here. */
static lk_status write_files(struct asked *a, lk_error *err) {
	const lk_replay_request *q = a->r->request;
	lk_graph *g = a->step.graph;
	const lk_costs *costs = &a->step.costs;
	if (q->graph) LK_TRY(lk_graph_write(g, q->graph, err));
	if (!q->chakra) return LK_OK;
	for (uint32_t b = 0; b < g->blocks.count; b++) {
		uint32_t variant = costs->variant_of ? costs->variant_of[b] : 0; /* a block is a rank */
		for (uint32_t i = g->blocks.at[b].begin; i < g->blocks.at[b].end; i++)
			if (g->ops.measured_ps[i] <= 0) g->ops.measured_ps[i] = lk_costs_get(costs, variant, i)->duration_ps;
	}
	return lk_graph_chakra_write(g, q->chakra, err);
}

/* ---- all together ---- */

static lk_status run(struct asked *a, lk_overheads **table, lk_replay *out, lk_error *err) {
	const lk_replay_request *q = a->r->request;
	LK_TRY(check_request(q, err));
	LK_TRY(find_ranks(a, err));
	if (q->overheads) LK_TRY(lk_replay_stored_overheads(q->overheads, table, err));
	LK_TRY(lk_works_lift((const lk_works *const *)a->works, a->count, *table, &a->step.graph, &a->lifted, err));
	LK_TRY(find_costs(a, err));
	lk_step_options options = {.no_contention = !a->cluster.groups};
	LK_TRY(lk_step_simulate(&options, &a->step, err));
	LK_TRY(describe(a, out, err));
	LK_TRY(compare(a, out, err));
	return write_files(a, err);
}

lk_status lk_replay_works_ask(lk_replaying *r, lk_overheads **table, lk_replay *out, lk_error *err) {
	struct asked a = {.r = r, .works = r->files.works, .count = r->files.work_count};
	lk_status status = run(&a, table, out, err);
	lk_vec_free(&a.warnings);
	lk_works_lifted_free(&a.lifted);
	lk_step_free(&a.step);
	return status;
}
