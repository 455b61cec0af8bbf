/* whatif.c: simulates a change of a step: copies the base graph, applies the sets in the order of
 * their table, prices and simulates it. */
#include "base/arena.h"
#include "whatif/whatif.h"
#include "step/traced.h"

#include <stdlib.h>
#include <string.h>

#include "base/intervals.h"
#include "base/text.h"
#include "base/units.h"
#include "hw/hw.h"

struct lk_whatif_base {
	lk_arena arena;
	lk_whatif_site site;
	lk_edit edit; /* the original, with what is known of each operation */
	bool *mask;
	uint32_t stand_ins;
	double step_s;
};

/* ---- where a step's time goes ---- */

/* Divide events of one program into the step's own work: compute, exposed communication,
 * communication overlapped with compute. */
lk_status lk_whatif_split(const lk_graph *graph, const lk_sim_event *events, size_t count,
                          double seconds[3], lk_error *err) {
	lk_intervals compute = {0}, comm = {0}, alone = {0};
	lk_status status = LK_OK;
	for (size_t i = 0; i < count && status == LK_OK; i++) {
		unsigned kind = graph->ops.kind[events[i].op];
		bool communicates = lk_op_is_comm(kind);
		if ((!communicates && kind > LK_OP_OPTIMIZER) ||
		    graph->ops.flags[events[i].op] & LK_OP_CARRIED)
			continue;
		if (!lk_intervals_add(communicates ? &comm : &compute, events[i].start_ps,
		                      events[i].end_ps))
			status = lk_oom(err);
	}
	lk_intervals_sort(&compute);
	lk_intervals_sort(&comm);
	if (status == LK_OK && !lk_intervals_minus(&comm, &compute, &alone)) status = lk_oom(err);
	if (status == LK_OK) {
		double exposed = (double)lk_intervals_length(&alone) / LK_PS_PER_S;
		seconds[0] += (double)lk_intervals_length(&compute) / LK_PS_PER_S;
		seconds[1] += exposed;
		seconds[2] += (double)lk_intervals_length(&comm) / LK_PS_PER_S - exposed;
	}
	lk_vec_free(&compute);
	lk_vec_free(&comm);
	lk_vec_free(&alone);
	return status;
}

static lk_status split_traced(lk_whatif_outcome *out, lk_error *err) {
	const lk_sim_events *events = &out->step.sim.events;
	double programs = (double)out->step.graph->programs.count, seconds[3] = {0};
	for (size_t begin = 0, end; begin < events->count; begin = end) {
		for (end = begin;
		     end < events->count && events->at[end].record == events->at[begin].record;)
			end++;
		LK_TRY(lk_whatif_split(out->step.graph, events->at + begin, end - begin, seconds, err));
	}
	out->compute_s = seconds[0] / programs;
	out->exposed_s = seconds[1] / programs;
	out->hidden_s = seconds[2] / programs;
	return LK_OK;
}

static void split_predicted(lk_whatif_outcome *out) {
	const lk_breakdown *breakdown = &out->step.breakdown;
	for (int p = LK_PART_GEMM; p <= LK_PART_OPTIMIZER; p++)
		out->compute_s += breakdown->exposed_s[p];
	for (int p = LK_PART_TP; p <= LK_PART_PP; p++) {
		out->exposed_s += breakdown->exposed_s[p];
		out->hidden_s += breakdown->hidden_s[p];
	}
}

static lk_status whatif_split(lk_whatif_outcome *out, lk_error *err) {
	if (out->step.graph->traced) LK_TRY(split_traced(out, err));
	else split_predicted(out);
	double rest = out->step.step_s - out->compute_s - out->exposed_s;
	out->other_s = rest > 0 ? rest : 0;
	return LK_OK;
}

/* ---- a scenario ---- */

/* Copy the edited graph, knowledge included. */
static lk_status copy_edit(const lk_edit *from, lk_edit *out, lk_error *err) {
	memset(out, 0, sizeof *out);
	LK_TRY(lk_graph_copy(from->graph, &out->graph, err));
	if (!lk_reserve(&out->op, from->op.count)) return lk_oom(err);
	if (from->op.count) memcpy(out->op.at, from->op.at, from->op.count * sizeof *out->op.at);
	out->op.count = from->op.count;
	return LK_OK;
}

static void free_scenario(lk_scenario *scenario) {
	lk_edit_free(&scenario->edit);
	lk_vec_free(&scenario->stragglers);
	lk_vec_free(&scenario->notes);
}

lk_status lk_whatif_check_twice(const lk_whatif_set *a, const lk_whatif_set *b, lk_error *err) {
	if (a->key->apply != b->key->apply || a->key->what || strcmp(a->key->name, "straggler") == 0)
		return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--set", "'%.80s' and '%.80s' set the same", a->text, b->text);
	return lk_hint(err, "write values to try one after the other as a list: %s=A,B", a->key->name);
}

/* A device without arithmetic of a format; NULL: all have it. */
static const lk_device *whatif_lacks(const lk_cluster *cluster, lk_dtype dtype) {
	for (int g = 0; g < cluster->groups; g++)
		if (!(cluster->node[g].device->peak_flops[dtype] > 0)) return cluster->node[g].device;
	return NULL;
}

/* Refuse a format like predict does; one that was already used is accepted. */
static lk_status check_format(const lk_scenario *scenario, lk_dtype before, lk_error *err) {
	const lk_device *device = whatif_lacks(&scenario->cluster, scenario->dtype);
	if (!device || whatif_lacks(scenario->before, before)) return LK_OK;
	const char *key = scenario->dtype == before ? "gpu" : "dtype";
	lk_fail(err, LK_ERR_INPUT, key, "%s has no %s arithmetic", device->name,
	        lk_dtype_name(scenario->dtype));
	return lk_hint(err, "give another format or another GPU");
}

/* Ranks of the whole run. */
int lk_whatif_ranks(const lk_graph *graph, uint32_t before, const lk_whatif_site *site) {
	double each = site->run_ranks > before && before ? (double)site->run_ranks / before : 1;
	return (int)(graph->ranks.world * each + 0.5);
}

/* Errors name a key or --cluster as the place; change that to the user's --set, with `key` if
 * known. */
static lk_status whatif_name_set(lk_status status, const lk_whatif_key *key, lk_error *err) {
	if (status != LK_ERR_INPUT || !err) return status;
	char place[sizeof err->where];
	lk_copy(place, sizeof place, err->where + (strncmp(err->where, "--", 2) == 0 ? 2 : 0));
	size_t length = strcspn(place, " ,:");
	for (int k = 0; k < lk_whatif_key_count; k++) {
		const char *name = lk_whatif_keys[k].name;
		if (strlen(name) != length || strncmp(name, place, length) != 0) continue;
		lk_text where = lk_text_begin(err->where, sizeof err->where);
		lk_text_add(&where, "--set %s%s", key ? key->name : name, place + length);
		break;
	}
	return status;
}

static lk_status whatif_apply(lk_scenario *scenario, const lk_whatif_set *sets, size_t count,
                              lk_error *err) {
	const lk_dtype before = scenario->dtype;
	for (size_t a = 0; a < count; a++)
		for (size_t b = 0; b < a; b++) LK_TRY(lk_whatif_check_twice(&sets[b], &sets[a], err));
	for (int k = 0; k < lk_whatif_key_count; k++)
		for (size_t i = 0; i < count; i++)
			if (sets[i].key == &lk_whatif_keys[k])
				LK_TRY(
					whatif_name_set(sets[i].key->apply(scenario, sets[i].what, sets[i].value, err),
				                    sets[i].key, err));
	LK_TRY(whatif_name_set(check_format(scenario, before, err), NULL, err));
	if (count)
		LK_TRY(lk_graph_check(scenario->edit.graph,
		                      err)); /* half of a message, one rank's part of a collective */
	int ranks = lk_whatif_ranks(scenario->edit.graph, scenario->before_ranks, scenario->site);
	if (scenario->wired.groups)
		LK_TRY(lk_cluster_grown(scenario->arena, &scenario->wired, ranks, &scenario->wired, err));
	return lk_cluster_grown(scenario->arena, &scenario->cluster, ranks, &scenario->cluster, err);
}

/* Write measured times into the graph, for files and other tools. */
static void state_times(const lk_scenario *scenario, const lk_costs *costs) {
	lk_graph *graph = scenario->edit.graph;
	for (size_t p = graph->programs.count; p-- > 0;) {
		uint32_t variant = lk_whatif_variant(graph, costs, (uint32_t)p);
		const lk_program *program = &graph->programs.at[p];
		for (size_t c = 0; c < program->calls.count; c++) {
			const lk_block *block = &graph->blocks.at[program->calls.at[c].block];
			for (uint32_t i = block->begin; i < block->end; i++)
				if (scenario->edit.op.at[i].measured_ps > 0 || scenario->edit.op.at[i].factor != 1)
					graph->ops.measured_ps[i] = lk_costs_get(costs, variant, i)->duration_ps;
		}
	}
}

static lk_status whatif_simulate(lk_scenario *scenario, const lk_ranks *before,
                                 lk_whatif_outcome *out, lk_error *err) {
	lk_step_options options = {
		/* Measured times already include contention. */
		.no_contention = scenario->site->no_contention || scenario->edit.graph->traced,
		.stragglers = scenario->stragglers.at,
		.straggler_count = (uint32_t)scenario->stragglers.count,
	};
	LK_TRY(lk_whatif_price(scenario, false, &out->step.costs, err));
	state_times(scenario, &out->step.costs);
	out->step.graph = scenario->edit.graph;
	lk_status status = lk_step_simulate(&options, &out->step, err);
	if (status == LK_OK && out->step.graph->traced) {
		out->step.sim.step_ps =
			lk_traced_step_ps(out->step.graph, &out->step.sim.events, out->step.sim.step_ps);
		out->step.step_s = (double)out->step.sim.step_ps / LK_PS_PER_S;
	}
	if (status == LK_OK) status = whatif_split(out, err);
	double step_s = out->step.step_s, waits = step_s > 0 ? out->exposed_s / step_s : 0;
	if (status == LK_OK)
		out->uncertainty = lk_whatif_uncertainty(scenario, &out->step.costs, before, waits, step_s);
	scenario->edit.graph = NULL; /* now owned by the step */
	return status;
}

static lk_status keep_notes(const lk_scenario *scenario, lk_whatif_outcome *out, lk_error *err) {
	out->notes = LK_ARRAY(&out->step.arena, const char *, scenario->notes.count);
	if (!out->notes) return lk_oom(err);
	for (size_t i = 0; i < scenario->notes.count; i++)
		out->notes[out->note_count++] = scenario->notes.at[i];
	return LK_OK;
}

/* `update`: of a program that replaces the end of the step; NULL: none. */
static lk_status whatif_try(const lk_whatif_base *base, const lk_whatif_set *sets, size_t count,
                            const lk_graph *update, lk_whatif_outcome *out, lk_error *err) {
	memset(out, 0, sizeof *out);
	lk_scenario s = {
		.site = &base->site,
		.before = &base->site.cluster,
		.before_ranks = base->edit.graph->ranks.world,
		.arena = &out->step.arena,
		.cluster = base->site.cluster,
		.dtype = (lk_dtype)base->edit.graph->peak_dtype,
		.cuda_graphs = base->site.cuda_graphs,
		.launch = 1,
		.mask = base->mask,
	};
	lk_status status = copy_edit(&base->edit, &s.edit, err);
	if (status == LK_OK) status = whatif_apply(&s, sets, count, err);
	if (status == LK_OK && update) status = lk_edit_replace_update(&s.edit, update, err);
	if (status == LK_OK) status = whatif_simulate(&s, &base->edit.graph->ranks, out, err);
	if (status == LK_OK) status = keep_notes(&s, out, err);
	out->cluster = s.cluster;
	free_scenario(&s);
	return status;
}

lk_status lk_whatif_try(const lk_whatif_base *base, const lk_whatif_set *sets, size_t count,
                        lk_whatif_outcome *out, lk_error *err) {
	return whatif_try(base, sets, count, NULL, out, err);
}

lk_status lk_whatif_try_update(const lk_whatif_base *base, const lk_graph *update,
                               lk_whatif_outcome *out, lk_error *err) {
	return whatif_try(base, NULL, 0, update, out, err);
}

void lk_whatif_outcome_free(lk_whatif_outcome *outcome) {
	if (outcome) lk_step_free(&outcome->step);
}

/* ---- the base ---- */

static lk_status name_teams(lk_whatif_base *base, lk_error *err) {
	const lk_graph *graph = base->edit.graph;
	char *copy = lk_arena_strdup(&base->arena, base->site.data_parallel), *rest = copy, *name;
	if (!copy) return lk_oom(err);
	while ((name = strsep(&rest, ","))) {
		bool found = false;
		for (size_t t = 0; t < graph->teams.count; t++)
			if (lk_glob(name, lk_intern_text(graph->names, graph->teams.at[t].name)))
				base->mask[t] = found = true;
		if (!found)
			return lk_fail(err, LK_ERR_INPUT, "--data-parallel", "the graph has no group '%.80s'",
			               name);
	}
	return LK_OK;
}

static lk_status check_room(const lk_whatif_base *base, lk_error *err) {
	const lk_ranks *ranks = &base->edit.graph->ranks;
	if ((uint32_t)base->site.cluster.gpus >= ranks->world) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--cluster", "%d GPUs, but the graph has %u ranks",
	        base->site.cluster.gpus, ranks->world);
	return lk_hint(err, "give the cluster that it ran on, or was predicted for");
}

/* Every operation of a program may be recorded; limit what a file may demand. */
static lk_status whatif_check_length(const lk_graph *graph, lk_error *err) {
	const double most = 5e7; /* the largest predicted jobs and traces have a tenth of that */
	double ops = lk_graph_length(graph);
	if (ops <= most) return LK_OK;
	return lk_fail(err, LK_ERR_INPUT, "step graph",
	               "its programs run %.3g operations: at most %.0e are simulated", ops, most);
}

static lk_status whatif_learn(lk_whatif_base *base, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT; /* of what is learnt only `edit` is kept */
	lk_costs costs = {0};
	lk_scenario s = {
		.site = &base->site,
		.arena = &arena,
		.edit = base->edit,
		.cluster = base->site.cluster,
		.dtype = (lk_dtype)base->edit.graph->peak_dtype,
		.cuda_graphs = base->site.cuda_graphs,
		.launch = 1,
	};
	lk_status status = lk_whatif_stand_in(&s, &base->stand_ins, err);
	if (status == LK_OK) status = lk_whatif_price(&s, true, &costs, err);
	lk_arena_free(&arena);
	return status;
}

static lk_status whatif_begin(lk_graph *graph, lk_whatif_base *base, lk_error *err) {
	lk_whatif_outcome outcome;
	LK_TRY(lk_edit_begin_own(graph, &base->edit, err));
	LK_TRY(check_room(base, err));
	LK_TRY(whatif_check_length(graph, err));
	base->mask = LK_ARRAY(&base->arena, bool, graph->teams.count);
	if (!base->mask) return lk_oom(err);
	if (base->site.data_parallel) LK_TRY(name_teams(base, err));
	else lk_edit_data_parallel(base->edit.graph, base->mask);
	LK_TRY(whatif_learn(base, err));
	lk_status status = lk_whatif_try(base, NULL, 0, &outcome, err);
	base->step_s = outcome.step.step_s;
	lk_whatif_outcome_free(&outcome);
	return status;
}

lk_status lk_whatif_begin(const lk_graph *graph, const lk_whatif_site *site, lk_whatif_base **out,
                          lk_error *err) {
	lk_graph *copy;
	*out = NULL;
	LK_TRY(lk_graph_copy(graph, &copy, err));
	return lk_whatif_begin_own(copy, site, out, err);
}

lk_status lk_whatif_begin_own(lk_graph *graph, const lk_whatif_site *site, lk_whatif_base **out,
                              lk_error *err) {
	lk_whatif_base *base = calloc(1, sizeof *base);
	*out = NULL;
	if (!base) {
		lk_graph_free(graph);
		return lk_oom(err);
	}
	base->site = *site;
	lk_status status = whatif_begin(graph, base, err);
	if (status == LK_OK) *out = base;
	else lk_whatif_end(base);
	return status;
}

void lk_whatif_end(lk_whatif_base *base) {
	if (!base) return;
	lk_edit_free(&base->edit);
	lk_arena_free(&base->arena);
	free(base);
}

double lk_whatif_base_seconds(const lk_whatif_base *base) {
	return base->step_s;
}
uint32_t lk_whatif_stand_ins(const lk_whatif_base *base) {
	return base->stand_ins;
}

lk_status lk_whatif_worth(const lk_whatif_base *base, const char *const *texts, int count,
                          double *seconds, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_whatif_sets sets = {0};
	lk_whatif_outcome outcome = {0};
	lk_status status = LK_OK;
	for (int i = 0; i < count && status == LK_OK; i++)
		status = lk_whatif_parse(&arena, texts[i], &sets, err);
	if (status == LK_OK) status = lk_whatif_try(base, sets.at, sets.count, &outcome, err);
	if (status == LK_OK) *seconds = base->step_s - outcome.step.step_s;
	lk_whatif_outcome_free(&outcome);
	lk_vec_free(&sets);
	lk_arena_free(&arena);
	return status;
}
