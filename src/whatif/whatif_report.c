/* whatif_report.c: the request of the verb: the base from a file, one column for every single
 * change and one for every combination. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/arena.h"
#include "options/command.h"
#include "replay/replay.h"
#include "step/step.h"
#include "step/traced.h"
#include "whatif/whatif.h"
#include "base/text.h"
#include "base/noun.h"
#include "cost/calibration/calibration.h"

enum { MOST_COLUMNS = 1000, MOST_GROUPS = 64 };

struct answer {
	lk_arena arena;
	lk_whatif w;
	lk_whatif_base *base;
	lk_whatif_outcome together; /* kept for the files */
	lk_whatif_column *columns;
	lk_whatif_sets groups[MOST_GROUPS]; /* by --set: one value, or a list */
	size_t group_count;
	double base_s;
	uint32_t base_ranks, graph_ranks; /* of the run, and those in the graph */
	lk_whatif_site site;
	lk_calibration_hold calibration;
};

const lk_step *lk_whatif_step(const lk_whatif *whatif) {
	return &((const struct answer *)whatif->memory_owner)->together.step;
}

/* ---- the base ---- */

/* Information that comes with a graph lifted from traces. */
struct origin {
	const lk_device *device; /* NULL not given */
	const char *cluster;     /* of a step graph; NULL none */
	uint32_t ranks;          /* of the run, traced or not */
	double replay_error;     /* 0 unknown */
};

static bool only_measured(const struct answer *answer) {
	for (size_t g = 0; g < answer->group_count; g++)
		for (size_t i = 0; i < answer->groups[g].count; i++)
			if (!answer->groups[g].at[i].key->measured) return false;
	return answer->w.traced;
}

static lk_status read_site(struct answer *answer, const lk_whatif_request *request,
                           const struct origin *from, lk_whatif_site *out, lk_error *err) {
	*out = (lk_whatif_site){.stack = request->stack,
	                        .release = request->release,
	                        .cuda_graphs = request->cuda_graphs,
	                        .compiled = request->compile,
	                        .no_contention = request->no_contention,
	                        .run_ranks = from->ranks,
	                        .data_parallel = request->data_parallel,
	                        .replay_error = from->replay_error};
	LK_TRY(lk_request_check_stack(request->stack, err));
	LK_TRY(lk_request_check_release(request->release, err));
	lk_where where = {.cluster = request->cluster,
	                  .gpu = request->gpu,
	                  .origin = from->cluster,
	                  .device = from->device,
	                  .ranks = from->ranks};
	bool named = where.cluster || where.gpu || where.device;
	if (!named && only_measured(answer)) where.device = lk_traced_stand_in();
	where.no_gpu = answer->w.traced ? "the traces do not say on which GPU they ran"
	                                : "a step graph does not say on which GPU it ran";
	return lk_where_read(&answer->arena, &where, &out->cluster, NULL, err);
}

/* The error of the run's steps in predicting one another tells how far to trust its base; skipped
 * for long traces, where it would take long. */
static lk_status trust(lk_traces *traces, struct origin *out, lk_error *err) {
	enum { MOST_EVENTS = 3000000 };
	uint64_t events = 0;
	for (uint32_t i = 0; i < traces->count; i++) events += traces->capture[i]->count;
	return events <= MOST_EVENTS ? lk_replay_error(traces, &out->replay_error, err) : LK_OK;
}

static lk_status nothing_there(const lk_traces *traces, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, traces->capture[0]->path,
	        "nothing can be changed: the step has no operations");
	return lk_hint(err, "profile with CPU and CUDA activities");
}

static lk_status lift_traces(lk_traces *traces, const lk_whatif_request *request, lk_graph **out,
                             struct origin *from, lk_error *err) {
	lk_lifted *lifted;
	uint32_t step = 0;
	long long number = -1;
	if (request->step) LK_TRY(lk_parse_int(request->step, 0, LLONG_MAX, &number, "--step", err));
	LK_TRY(lk_devices_ready(err));
	LK_TRY(lk_traced_usual_step(traces, number, &step, err));
	LK_TRY(lk_lift_following(traces, step, &lifted, err));
	from->device = lk_traced_device(traces);
	from->ranks = traces->world > (int32_t)traces->count ? (uint32_t)traces->world : traces->count;
	*out = lifted->graph;
	lifted->graph = NULL;
	bool empty = lifted->rank[0].ops.count <= 1;
	lk_lifted_free(lifted);
	lk_status status = empty ? nothing_there(traces, err) : trust(traces, from, err);
	if (status != LK_OK) lk_graph_free(*out);
	return status;
}

static lk_status read_traces(const lk_whatif_request *request, lk_graph **out, struct origin *from,
                             lk_error *err) {
	lk_read_limits limits = {.shapes = true};
	lk_traces *traces;
	LK_TRY(lk_traces_read(request->paths, (uint32_t)request->path_count, &limits, 0, &traces, err));
	lk_status status = lift_traces(traces, request, out, from, err);
	lk_traces_free(traces);
	return status;
}

static lk_status report_read_graph(const lk_whatif_request *request, lk_graph **out,
                                   struct origin *from, lk_error *err) {
	bool graph = false;
	if (request->path_count == 1) LK_TRY(lk_is_graph_file(request->paths[0], &graph, err));
	if (graph) {
		if (request->step) return lk_fail(err, LK_ERR_INPUT, "--step", "a graph holds one step");
		LK_TRY(lk_graph_read(request->paths[0], out, err));
		from->ranks = (*out)->ranks.world;
		if ((*out)->cluster) from->cluster = lk_intern_text((*out)->names, (*out)->cluster);
		return LK_OK;
	}
	if (request->path_count > 0) return read_traces(request, out, from, err);
	lk_fail(err, LK_ERR_INPUT, "whatif", "no file");
	return lk_hint(err,
	               "give traces, or a step graph as `lockstep predict --graph FILE` writes it");
}

static lk_status read_base(struct answer *answer, const lk_whatif_request *request, lk_error *err) {
	lk_graph *graph = NULL;
	struct origin from = {0};
	LK_TRY(report_read_graph(request, &graph, &from, err));
	answer->base_ranks = from.ranks;
	answer->graph_ranks = graph->ranks.world;
	answer->w.traced = graph->traced;
	lk_status status = read_site(answer, request, &from, &answer->site, err);
	if (status == LK_OK) status = lk_whatif_begin(graph, &answer->site, &answer->base, err);
	lk_graph_free(graph);
	return status;
}

/* ---- the request ---- */

static lk_status read_sets(struct answer *answer, const char *sets, lk_error *err) {
	char *copy = sets ? lk_arena_strdup(&answer->arena, sets) : NULL, *rest = copy, *line;
	if (sets && !copy) return lk_oom(err);
	while ((line = strsep(&rest, "\n"))) {
		if (answer->group_count == MOST_GROUPS)
			return lk_fail(err, LK_ERR_INPUT, "--set", "more than %d", MOST_GROUPS);
		lk_whatif_sets *sets_of = &answer->groups[answer->group_count];
		LK_TRY(lk_whatif_parse(&answer->arena, line, sets_of, err));
		for (size_t g = 0; g < answer->group_count; g++)
			LK_TRY(lk_whatif_check_twice(&answer->groups[g].at[0], &sets_of->at[0], err));
		answer->group_count++;
	}
	return LK_OK;
}

/* Columns: the base, every value alone, every combination if there is more than one set. */
static lk_status count_columns(const struct answer *answer, size_t *singles, size_t *combinations,
                               lk_error *err) {
	*singles = 0;
	*combinations = answer->group_count > 1;
	for (size_t g = 0; g < answer->group_count; g++) {
		*singles += answer->groups[g].count;
		*combinations *= answer->groups[g].count;
		if (*combinations > MOST_COLUMNS || *singles > MOST_COLUMNS) {
			lk_fail(err, LK_ERR_INPUT, "--set", "more than %d combinations", MOST_COLUMNS);
			return lk_hint(err, "give shorter lists");
		}
	}
	return LK_OK;
}

/* ---- columns ---- */

static lk_status label(struct answer *answer, const lk_whatif_set *sets, size_t count,
                       lk_whatif_column *out, lk_error *err) {
	const char **texts = LK_ARRAY(&answer->arena, const char *, count);
	out->label = count ? "" : "base";
	for (size_t i = 0; texts && out->label && i < count; i++) {
		texts[i] = sets[i].text;
		out->label =
			lk_arena_printf(&answer->arena, "%s%s%s", out->label, i ? " " : "", sets[i].text);
	}
	out->sets = texts;
	out->set_count = (int)count;
	return texts && out->label ? LK_OK : lk_oom(err);
}

static lk_status copy_notes(struct answer *answer, const lk_whatif_outcome *from,
                            lk_whatif_column *out, lk_error *err) {
	const char **notes = LK_ARRAY(&answer->arena, const char *, from->note_count);
	for (size_t i = 0; notes && i < from->note_count; i++)
		notes[i] = lk_arena_strdup(&answer->arena, from->notes[i]);
	out->notes = notes;
	out->note_count = (int)from->note_count;
	return notes ? LK_OK : lk_oom(err);
}

/* Scaling efficiency: a rank's work per second, relative to that with the same changes on as many
 * ranks as the base has. Without samples: the step's inverse, because copies do the same work. */
static lk_status efficiency(const struct answer *answer, const lk_whatif_set *sets, size_t count,
                            lk_whatif_column *column, lk_error *err) {
	lk_whatif_set others[MOST_GROUPS];
	lk_whatif_outcome outcome;
	size_t kept = 0;
	column->efficiency = NAN;
	if ((uint32_t)column->ranks == answer->base_ranks || column->step_s <= 0) return LK_OK;
	for (size_t i = 0; i < count; i++)
		if (!sets[i].key->ranks && strcmp(sets[i].key->name, "straggler") != 0)
			others[kept++] = sets[i];
	lk_status status = lk_whatif_try(answer->base, others, kept, &outcome, err);
	if (status == LK_OK && column->samples_per_s > 0)
		column->efficiency =
			column->samples_per_s / column->ranks /
			(outcome.step.graph->samples / outcome.step.step_s / answer->base_ranks);
	else if (status == LK_OK) column->efficiency = outcome.step.step_s / column->step_s;
	lk_whatif_outcome_free(&outcome);
	return status == LK_ERR_INPUT ? LK_OK : status;
}

static lk_status report_fill(struct answer *answer, const lk_whatif_outcome *from,
                             lk_whatif_column *out, lk_error *err) {
	const lk_graph *graph = from->step.graph;
	out->step_s = from->step.step_s;
	out->ranks = lk_whatif_ranks(graph, answer->graph_ranks, &answer->site);
	out->samples_per_s = out->step_s > 0 ? graph->samples / out->step_s : 0;
	if (out == answer->columns) answer->base_s = out->step_s;
	out->change = answer->base_s > 0 ? out->step_s / answer->base_s - 1 : 0;
	out->uncertainty = from->uncertainty;
	out->compute_s = from->compute_s;
	out->exposed_s = from->exposed_s;
	out->hidden_s = from->hidden_s;
	out->other_s = from->other_s;
	out->cluster = lk_arena_strdup(&answer->arena, from->cluster.text);
	return out->cluster ? copy_notes(answer, from, out, err) : lk_oom(err);
}

static lk_status report_refuse(struct answer *answer, const lk_error *why, lk_whatif_column *out,
                               lk_error *err) {
	char line[1024];
	out->refused = lk_arena_strdup(&answer->arena, lk_error_text(why, line, sizeof line));
	out->efficiency = NAN;
	return out->refused ? LK_OK : lk_oom(err);
}

/* An impossible change is reported in its column; the base must be possible. */
static lk_status report_ask(struct answer *answer, const lk_whatif_set *sets, size_t count,
                            bool keep, lk_error *err) {
	lk_whatif_column *column = &answer->columns[answer->w.column_count++];
	lk_whatif_outcome outcome;
	lk_error why = {0};
	LK_TRY(label(answer, sets, count, column, err));
	lk_status status = lk_whatif_try(answer->base, sets, count, &outcome, &why);
	if (status == LK_OK) {
		status = report_fill(answer, &outcome, column, err);
		if (status == LK_OK) status = efficiency(answer, sets, count, column, err);
	} else if (status == LK_ERR_INPUT && count) {
		status = report_refuse(answer, &why, column, err);
	} else {
		lk_fail_as(err, &why);
	}
	if (!keep || status != LK_OK) {
		lk_whatif_outcome_free(&outcome);
		return status;
	}
	answer->together = outcome;
	answer->w.together = answer->w.column_count - 1;
	return LK_OK;
}

/* Combination `index`: the last list varies fastest. */
static void report_combine(const struct answer *answer, size_t index, lk_whatif_set *out) {
	for (size_t g = answer->group_count; g-- > 0;) {
		size_t count = answer->groups[g].count;
		out[g] = answer->groups[g].at[index % count];
		index /= count;
	}
}

static lk_status report_ask_all(struct answer *answer, size_t singles, size_t combinations,
                                lk_error *err) {
	size_t total = 1 + singles + combinations;
	lk_whatif_set together[MOST_GROUPS];
	answer->columns = LK_ARRAY(&answer->arena, lk_whatif_column, total);
	if (!answer->columns) return lk_oom(err);
	answer->w.columns = answer->columns;
	LK_TRY(report_ask(answer, NULL, 0, total == 1, err));
	for (size_t g = 0; g < answer->group_count; g++)
		for (size_t i = 0; i < answer->groups[g].count; i++)
			LK_TRY(report_ask(answer, &answer->groups[g].at[i], 1,
			                  (size_t)answer->w.column_count + 1 == total, err));
	for (size_t i = 0; i < combinations; i++) {
		report_combine(answer, i, together);
		LK_TRY(report_ask(answer, together, answer->group_count, i + 1 == combinations, err));
	}
	return LK_OK;
}

/* ---- the rest of the answer ---- */

static lk_status report_add_notes(struct answer *answer, lk_error *err) {
	const char **notes = LK_ARRAY(&answer->arena, const char *, 4);
	const char *scaled = lk_scaling_note(&answer->arena);
	int count = 0;
	if (!notes || !scaled) return lk_oom(err);
	if (*scaled) notes[count++] = scaled;
	if (answer->w.traced) {
		notes[count++] = "measured times are scaled by the ratio of the models; nothing is priced "
						 "anew that was measured";
		notes[count++] = "the simulation adds no contention: measured times contain it";
		uint32_t guessed = lk_whatif_stand_ins(answer->base);
		if (guessed)
			notes[count++] = lk_arena_printf(
				&answer->arena,
				"%u %s no shape in the trace: scaled as one of their kind that takes as long",
				guessed, lk_noun(guessed, "operation has", "operations have"));
	} else {
		notes[count++] = "operations are priced by the models, as predict prices them";
	}
	answer->w.notes = notes;
	answer->w.note_count = count;
	return notes[count - 1] ? LK_OK : lk_oom(err);
}

static lk_status report_reproduce(struct answer *answer, const lk_whatif_request *request,
                                  lk_error *err) {
	answer->w.reproduce =
		lk_command(&answer->arena, &(lk_question){.verb = &lk_whatif_verb,
	                                              .request = request,
	                                              .operands = request->paths,
	                                              .operand_count = request->path_count});
	return answer->w.reproduce ? LK_OK : lk_oom(err);
}

static lk_status answer_all(struct answer *answer, const lk_whatif_request *request,
                            lk_error *err) {
	size_t singles, combinations;
	LK_TRY(read_sets(answer, request->sets, err));
	LK_TRY(count_columns(answer, &singles, &combinations, err));
	LK_TRY(read_base(answer, request, err));
	answer->w.source = lk_arena_strdup(&answer->arena, request->paths[0]);
	if (!answer->w.source) return lk_oom(err);
	LK_TRY(report_ask_all(answer, singles, combinations, err));
	LK_TRY(report_add_notes(answer, err));
	LK_TRY(lk_traces_inputs(&answer->arena, &lk_whatif_verb, request, request->paths,
	                        request->path_count, &answer->w.inputs, err));
	return report_reproduce(answer, request, err);
}

/* ---- invariants of every answer ----
 *
 * An answer that contradicts itself is a defect of lockstep and is not printed. */

/* Indices that views follow. */
static lk_status whatif_check_places(const lk_whatif *whatif, lk_error *err) {
	LK_CHECK(whatif->column_count > 0 && whatif->together < whatif->column_count, err);
	return LK_OK;
}

static const char *whatif_check(const lk_whatif *whatif) {
	double base = whatif->columns[0].step_s;
	for (int i = 0; i < whatif->column_count; i++) {
		const lk_whatif_column *column = &whatif->columns[i];
		if (column->refused) continue;
		double step = column->step_s,
			   parts = column->compute_s + column->exposed_s + column->other_s;
		LK_HOLDS(isfinite(step) && step >= 0);
		LK_HOLDS(!(base > 0) || fabs(column->change - (step / base - 1)) <= 1e-9);
		LK_HOLDS(column->compute_s >= 0 && column->exposed_s >= 0 && column->hidden_s >= 0);
		LK_HOLDS(fabs(parts - step) <= 1e-6 * step + 1e-12);
		LK_HOLDS(isnan(column->uncertainty) || column->uncertainty >= 0);
		LK_HOLDS(column->ranks > 0 && isfinite(column->samples_per_s));
		LK_HOLDS(isnan(column->efficiency) || column->efficiency >= 0);
	}
	return NULL;
}

lk_status lk_whatif_ask(const lk_whatif_request *request, lk_whatif **out, lk_error *err) {
	*out = NULL;
	struct answer *answer = calloc(1, sizeof *answer);
	if (!answer) return lk_oom(err);
	answer->w.memory_owner = answer;
	lk_status status = lk_calibration_begin(&answer->calibration, request->calibration, err);
	if (status == LK_OK) {
		status = lk_cost_ready(err);
		if (status == LK_OK) status = answer_all(answer, request, err);
		lk_calibration_leave(&answer->calibration);
	}
	if (status == LK_OK) status = whatif_check_places(&answer->w, err);
	if (status == LK_OK) answer->w.failed_check = lk_failed_check(whatif_check(&answer->w));
	if (status == LK_OK) *out = &answer->w;
	else lk_whatif_free(&answer->w);
	return status;
}

void lk_whatif_free(lk_whatif *whatif) {
	if (!whatif) return;
	struct answer *answer = whatif->memory_owner;
	lk_whatif_end(answer->base);
	lk_whatif_outcome_free(&answer->together);
	lk_calibration_release(&answer->calibration);
	for (size_t g = 0; g < MOST_GROUPS; g++) lk_vec_free(&answer->groups[g]);
	lk_arena_free(&answer->arena);
	free(answer);
}
