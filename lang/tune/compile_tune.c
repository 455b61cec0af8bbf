/* compile_tune.c: `lockstep compile tune`: sizes and cluster; recalling or searching; the evidence
 * that the fastest schedule computes the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/stats.h"
#include "cost/calibration/calibration.h"
#include "io/stream.h"
#include "lang/compile/compile.h"
#include "lang/tune/tune.h"

enum { TOP = 5 };

struct tuning {
	const lc_program *p;
	const lk_compile_request *request;
	const char *size_text; /* --sizes, or the sizes of a step */
	lk_arena arena;
	lk_cluster cluster;
	lk_host_messages messages; /* of its hosts */
	lc_sizes sizes;
	lk_search search;
	lk_search_options options;
	lk_wisdom wisdom;
	lk_cutoff cutoff;
	lk_graph *graph;    /* of --step, until the base owns it */
	uint64_t step_hash; /* of its file */
	lk_whatif_base *step;
	lc_file *remembered; /* the file in which a remembered schedule was parsed */
	lk_tuned tuned;
};

/* ---- sizes and cluster ---- */

/* Ranks of the last axis if the text does not say: the GPUs left by the others. */
static lk_status tune_read_sizes(struct tuning *tuning, int gpus, lk_error *err) {
	LK_TRY(lc_check_dims(tuning->p, tuning->size_text, err));
	LK_TRY(lc_sizes_read(tuning->p, tuning->size_text, 1, &tuning->sizes, err));
	int64_t ranks = lc_ranks(tuning->p, &tuning->sizes);
	const char *last = tuning->p->axes[tuning->p->axis_count - 1].name;
	if (tuning->size_text && lc_sizes_name(tuning->size_text, last)) return LK_OK;
	if (tuning->p->axes[tuning->p->axis_count - 1].size || ranks < 1 || gpus / ranks < 2)
		return LK_OK;
	lc_sizes_free(&tuning->sizes);
	return lc_sizes_read(tuning->p, tuning->size_text, gpus / ranks, &tuning->sizes, err);
}

static lk_status tune_check_ranks(const struct tuning *tuning, lk_error *err) {
	int64_t ranks = lc_ranks(tuning->p, &tuning->sizes);
	if (ranks < 2) {
		lk_fail(err, LK_ERR_INPUT, "--sizes", "the mesh has one rank, and nothing is communicated");
		return lk_hint(err, "give --sizes %s=8, or --gpus",
		               tuning->p->axes[tuning->p->axis_count - 1].name);
	}
	if (ranks <= tuning->cluster.gpus) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--sizes", "the mesh has %lld ranks, but only %d GPUs were given",
	        (long long)ranks, tuning->cluster.gpus);
	return lk_hint(err, "give more GPUs, or axes of fewer ranks");
}

static lk_status tune_read_cluster(struct tuning *tuning, lk_error *err) {
	const lk_compile_request *request = tuning->request;
	lk_where where = {
		.cluster = request->cluster, .gpu = request->gpu, .gpus = request->gpus, .flat = "compile"};
	if (tuning->graph) {
		where.ranks = tuning->graph->ranks.world;
		if (tuning->graph->cluster)
			where.origin = lk_intern_text(tuning->graph->names, tuning->graph->cluster);
	}
	if (!request->cluster && !where.origin) {
		LK_TRY(tune_read_sizes(tuning, request->gpus, err));
		int64_t ranks = lc_ranks(tuning->p, &tuning->sizes);
		where.ranks = ranks < 1 << 24 ? (uint32_t)ranks : 1 << 24;
		return lk_where_read(&tuning->arena, &where, &tuning->cluster, NULL, err);
	}
	int gpus;
	LK_TRY(lk_where_read(&tuning->arena, &where, &tuning->cluster, &gpus, err));
	if (request->cluster) LK_TRY(lk_host_messages_read(request->cluster, &tuning->messages, err));
	LK_TRY(tune_read_sizes(tuning, gpus, err));
	return lk_timed_share_host(&tuning->arena, lc_ranks(tuning->p, &tuning->sizes),
	                           &tuning->cluster, err);
}

/* ---- recall or search ---- */

static lk_status tune_forget(struct tuning *tuning, const lk_error *why, lk_error *err) {
	char line[640];
	lk_error copy = *why;
	if (!lk_push(&tuning->wisdom.warnings)) return lk_oom(err);
	*lk_last(&tuning->wisdom.warnings) =
		lk_arena_printf(&tuning->wisdom.arena,
	                    "what %s has for this program is not legal: %s; it is searched again",
	                    tuning->request->wisdom, lk_error_text(&copy, line, sizeof line));
	lc_file_free(tuning->remembered);
	tuning->remembered = NULL;
	return *lk_last(&tuning->wisdom.warnings) ? LK_OK : lk_oom(err);
}

static void recall_measured(lk_found *found, double seconds) {
	found->simulated_s = found->time.seconds;
	found->time.seconds = seconds;
	found->measured = true;
}

/* Set *hit if the entry is good: takes the schedule first, then plain unless that is it. */
static lk_status recall(struct tuning *tuning, const lk_wise *entry, bool *hit, lk_error *err) {
	const lc_schedule *schedule;
	lk_error why = {0};
	lk_found found;
	lk_status status =
		lk_wisdom_schedule(tuning->p, entry->schedule, &tuning->remembered, &schedule, &why);
	if (status == LK_OK)
		status = lk_search_time(tuning->p, schedule, &tuning->options, &found, &why);
	if (status == LK_ERR_INPUT) return tune_forget(tuning, &why, err);
	if (status != LK_OK) return lk_fail_as(err, &why);
	if (entry->measured) {
		recall_measured(&found, entry->seconds);
		recall_measured(&tuning->search.plain, entry->plain);
	}
	LK_ASSERT(tuning->search.found.count == 1); /* the plain program */
	tuning->search.found.at[0] = tuning->search.plain;
	if (found.schedule.count) {
		if (!lk_push(&tuning->search.found)) return lk_oom(err);
		*lk_last(&tuning->search.found) = tuning->search.plain;
		tuning->search.found.at[0] = found;
	}
	*hit = true;
	return LK_OK;
}

/* Measure with mesh and sizes as a text, including the axis determined by the GPUs. */
static lk_status tune_measure(struct tuning *tuning, lk_error *err) {
	int last = tuning->p->axis_count - 1,
		top = tuning->request->top > 0 ? tuning->request->top : TOP;
	const char *sizes = tuning->size_text ? tuning->size_text : "",
			   *axis = tuning->p->axes[last].name;
	if (!tuning->request->measure || lk_cutoff_reached(&tuning->cutoff)) return LK_OK;
	if (!lc_sizes_name(sizes, axis))
		sizes = lk_arena_printf(&tuning->arena, "%s%s%s=%lld", sizes, *sizes ? "," : "", axis,
		                        (long long)tuning->sizes.symbol[last]);
	if (!sizes) return lk_oom(err);
	return lk_search_measure(tuning->p, &tuning->search, top, sizes, tuning->request->set,
	                         tuning->request->seed, err);
}

/* Take the sizes of a program that predict --emit program began from the step itself. */
static lk_status tune_size_of_step(struct tuning *tuning, lk_error *err) {
	const lk_program *stages = tuning->graph->programs.at;
	const lk_ranks *ranks = &tuning->graph->ranks;
	uint32_t copies = ranks->group[LK_GROUP_DP].size;
	const char *text = "";
	double parameters = 0;
	if (tuning->size_text || tuning->p->named_count != 1 || copies == 0) return LK_OK;
	for (size_t s = 0; s < tuning->graph->programs.count; s++)
		parameters = fmax(parameters, stages[s].updated);
	for (int a = 0; a < tuning->p->axis_count && text; a++) {
		const char *axis = tuning->p->axes[a].name;
		bool copy = strcmp(axis, "dp") == 0;
		if (!copy && strcmp(axis, "model") != 0) return LK_OK;
		text = lk_arena_printf(&tuning->arena, "%s%s=%u,", text, axis,
		                       copy ? copies : ranks->world / copies);
	}
	if (text)
		text = lk_arena_printf(&tuning->arena, "%s%s=%.0f", text, tuning->p->named[0].name,
		                       ceil(parameters));
	tuning->size_text = text;
	return text ? LK_OK : lk_oom(err);
}

/* Hash the file's content: results for one step do not apply to another. */
static lk_status tune_hash_step(struct tuning *tuning, lk_error *err) {
	enum { LIMIT = 1 << 30 };
	char *text;
	size_t size;
	LK_TRY(lk_stream_slurp(tuning->request->step, LIMIT, &text, &size, err));
	tuning->step_hash = lk_hash_bytes(LK_HASH_SEED, text, size);
	free(text);
	return LK_OK;
}

static lk_status tune_read_step(struct tuning *tuning, lk_error *err) {
	const lk_compile_request *request = tuning->request;
	if (!request->step) return LK_OK;
	lk_status status = lk_graph_read(request->step, &tuning->graph, err);
	if (status == LK_OK && request->wisdom) status = tune_hash_step(tuning, err);
	if (status == LK_OK) return tune_size_of_step(tuning, err);
	if (status == LK_ERR_MEMORY) return status;
	return lk_hint(err, "write the graph of a step by lockstep predict --graph FILE");
}

static lk_status tune_in_step(struct tuning *tuning, lk_error *err) {
	lk_graph *graph = tuning->graph;
	if (!graph) return LK_OK;
	tuning->graph = NULL;
	tuning->search.step.path = tuning->request->step;
	LK_TRY(lk_tune_step_begin(graph, &tuning->cluster, &tuning->step, err));
	return lk_search_in_step(tuning->p, &tuning->options, tuning->step, &tuning->search, err);
}

static lk_status tune_look(struct tuning *tuning, lk_error *err) {
	lk_search_free(&tuning->search);
	tuning->options.only_plain = false;
	LK_TRY(lk_search_run(tuning->p, &tuning->options, &tuning->search, err));
	LK_TRY(tune_in_step(tuning, err));
	return tune_measure(tuning, err);
}

static lk_status tune_remember(struct tuning *tuning, const char *where, lk_error *err) {
	const lk_found *best = &tuning->search.found.at[0];
	const char *text = lk_wisdom_text(&tuning->wisdom.arena, &best->schedule);
	lk_wise entry = {tuning->search.plain_hash,         where, best->measured, best->time.seconds,
	                 tuning->search.plain.time.seconds, text};
	if (!text) return lk_oom(err);
	LK_TRY(lk_wisdom_keep(&tuning->wisdom, &entry, err));
	return lk_wisdom_write(&tuning->wisdom, tuning->request->wisdom, err);
}

static lk_status tune_find(struct tuning *tuning, lk_error *err) {
	if (!tuning->request->wisdom) return tune_look(tuning, err);
	LK_TRY(lk_wisdom_read(tuning->request->wisdom, &tuning->wisdom, err));
	const char *where =
		lk_wisdom_where(&tuning->wisdom, tuning->p, &tuning->sizes, &tuning->cluster);
	if (where && tuning->graph)
		where = lk_arena_printf(&tuning->wisdom.arena, "%s in step %016llx", where,
		                        (unsigned long long)tuning->step_hash);
	if (!where) return lk_oom(err);
	tuning->options.only_plain = true;
	LK_TRY(lk_search_run(tuning->p, &tuning->options, &tuning->search, err));
	const lk_wise *entry = lk_wisdom_find(&tuning->wisdom, tuning->search.plain_hash, where);
	if (entry && (entry->measured || !tuning->request->measure))
		LK_TRY(recall(tuning, entry, &tuning->tuned.remembered, err));
	if (tuning->tuned.remembered) return tune_in_step(tuning, err);
	LK_TRY(tune_look(tuning, err));
	return tuning->search.cut_off ? LK_OK : tune_remember(tuning, where, err);
}

/* ---- the file's own schedules ---- */

static lk_status time_own(struct tuning *tuning, lk_error *err) {
	const char *name = tuning->request->schedule;
	const lc_schedule *one = NULL;
	bool all = name && strcmp(name, "all") == 0;
	lk_in_step unused = {0};
	if (!all) LK_TRY(lc_pick_schedule(tuning->p, name, &one, err));
	tuning->tuned.own = LK_ARRAY(&tuning->arena, lk_found, tuning->p->schedules.count + 1);
	if (!tuning->tuned.own) return lk_oom(err);
	for (size_t i = 0; i < tuning->p->schedules.count; i++) {
		const lc_schedule *schedule = &tuning->p->schedules.at[i];
		if (!all && schedule != one) continue;
		lk_found *found = &tuning->tuned.own[tuning->tuned.own_count++];
		LK_TRY(lk_search_time(tuning->p, schedule, &tuning->options, found, err));
		if (tuning->step)
			LK_TRY(lk_search_step_with(tuning->p, &tuning->options, tuning->step, &unused, found,
			                           err));
	}
	return LK_OK;
}

/* ---- evidence ---- */

static lk_status verify(struct tuning *tuning, lk_error *err) {
	const lc_schedule *schedule = &tuning->search.found.at[0].schedule;
	lc_verify_options o = {.seed = (uint64_t)tuning->request->seed, .exact_only = true};
	lc_program *program = NULL;
	if (schedule->count == 0) return LK_OK; /* plain itself */
	LK_TRY(lc_rewrite_all(tuning->p, schedule, &program, err));
	lk_status status = lc_verify(tuning->p, program, &o, &tuning->tuned.verdict, err);
	lc_program_free(program);
	if (status == LK_OK) tuning->tuned.verified = &tuning->tuned.verdict;
	return status;
}

static lk_status tune_write_graph(const struct tuning *tuning, lk_error *err) {
	lk_graph *graph;
	if (!tuning->request->graph) return LK_OK;
	LK_TRY(lc_schedule_graph(tuning->p, &tuning->search.found.at[0].schedule, &tuning->sizes,
	                         &graph, err));
	lk_status status = lk_graph_write(graph, tuning->request->graph, err);
	lk_graph_free(graph);
	return status;
}

static void describe_tuned(struct tuning *tuning) {
	const lk_search *search = &tuning->search;
	lk_tuned *tuned = &tuning->tuned;
	int top = tuning->request->top > 0 ? tuning->request->top : TOP;
	tuned->p = tuning->p;
	tuned->sizes = &tuning->sizes;
	tuned->cluster_text = tuning->cluster.text;
	tuned->search = search;
	tuned->cut_off = search->cut_off;
	tuned->complete = !search->capped && !search->cut_off;
	tuned->plain = &search->plain;
	tuned->best = search->found.at;
	tuned->shown = search->found.count < (size_t)top ? (int)search->found.count : top;
	tuned->step = search->step.path ? &search->step : NULL;
	tuned->measurement = search->measurement.schedules ? &search->measurement : NULL;
	tuned->warnings = tuning->wisdom.warnings.at;
	tuned->warning_count = tuning->wisdom.warnings.count;
	tuned->arena = &tuning->arena;
}

static lk_status tune(struct tuning *tuning, FILE *out, lk_error *err) {
	LK_TRY(tune_read_step(tuning, err));
	LK_TRY(tune_read_cluster(tuning, err));
	LK_TRY(tune_check_ranks(tuning, err));
	tuning->options = (lk_search_options){.cluster = &tuning->cluster,
	                                      .messages = &tuning->messages,
	                                      .sizes = &tuning->sizes,
	                                      .programs = tuning->request->programs,
	                                      .cutoff = &tuning->cutoff,
	                                      .progress = tuning->request->progress,
	                                      .progress_context = tuning->request->progress_context};
	LK_TRY(tune_find(tuning, err));
	if (tuning->request->progress)
		tuning->request->progress(tuning->request->progress_context, 0, 1, 1);
	LK_TRY(time_own(tuning, err));
	LK_TRY(verify(tuning, err));
	LK_CHECK(tuning->search.found.count > 0, err); /* views read the first */
	tuning->tuned.failed_check = lk_failed_check(lk_search_check(&tuning->search));
	describe_tuned(tuning);
	LK_TRY(tune_write_graph(tuning, err));
	if (tuning->request->format == LK_COMPILE_JSON)
		return lc_put_document(&lk_tune_document, &tuning->tuned, out, err);
	lk_tuned_text(&tuning->tuned, out);
	return LK_OK;
}

lk_status lk_compile_tune(lk_compile *answer, const lk_compile_request *request, FILE *out,
                          lk_error *err) {
	lc_program *program;
	LK_TRY(lc_resize(answer, request, err));
	LK_TRY(lc_pick_program(answer, request, &program, err));
	struct tuning t = {.p = program,
	                   .request = request,
	                   .size_text = request->sizes,
	                   .cutoff = lk_cutoff_after(request->search_s)};
	lk_calibration_hold calibration;
	LK_TRY(lk_calibration_begin(&calibration, request->calibration, err));
	lk_status status = lk_cost_ready(err);
	if (status == LK_OK) status = tune(&t, out, err);
	lk_calibration_leave(&calibration);
	answer->failed_check = t.tuned.failed_check;
	answer->no |= t.tuned.verified && !t.tuned.verified->equal;
	lk_whatif_end(t.step);
	lk_graph_free(t.graph);
	lc_file_free(t.remembered);
	lk_wisdom_free(&t.wisdom);
	lk_search_free(&t.search);
	lc_sizes_free(&t.sizes);
	lk_arena_free(&t.arena);
	lk_calibration_release(&calibration);
	return status;
}
