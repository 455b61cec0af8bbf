/* versus_expected.c: a predicted step as if it had been traced: its timeline becomes captures,
 * which are explained like those of a profiler. So one rule measures both sides of a comparison. */
#include <stdlib.h>

#include "base/check.h"
#include "sim/timeline.h"
#include "trace/align/traces.h"
#include "trace/read/read.h"
#include "versus/versus.h"

/* Whether a stage has a measured rank; all have where no measured rank is one of the job. */
static bool stage_is_measured(const lk_step *step, const lk_explanation *measured, uint32_t stage) {
	const lk_ranks *ranks = &step->graph->ranks;
	bool any = false;
	for (int i = 0; i < measured->rank_count; i++) {
		int rank = measured->ranks[i].rank;
		if (rank < 0 || (uint32_t)rank >= ranks->world) continue;
		any = true;
		if (lk_rank_stage(step->graph, (uint32_t)rank) == stage) return true;
	}
	return !any;
}

static lk_status show_track(lk_shown_ranks *shown, const lk_timeline *timeline, uint32_t track,
                            lk_error *err) {
	const lk_track *of = &timeline->tracks.at[track];
	LK_TRY(lk_shown_process(shown, of->rank, lk_intern_text(timeline->names, of->process), err));
	return lk_shown_thread(shown, of->rank, (int64_t)track + 1,
	                       lk_intern_text(timeline->names, of->name), err);
}

static lk_status show_slice(lk_shown_ranks *shown, const lk_timeline *timeline,
                            const lk_slice *slice, lk_error *err) {
	const lk_intern *names = timeline->names;
	lk_shown_slice show = {
		.pid = timeline->tracks.at[slice->track].rank,
		.tid = (int64_t)slice->track + 1,
		.name = lk_intern_text(names, slice->name),
		.category = lk_intern_text(names, slice->category),
		.start_ps = slice->start_ps,
		.dur_ps = slice->end_ps - slice->start_ps,
#define SHOW_NUMBER(member) .member = slice->member
#define SHOW_TEXT(member)   .member = slice->member ? lk_intern_text(names, slice->member) : NULL
		SHOW_NUMBER(bytes),
		SHOW_NUMBER(flops),
		SHOW_NUMBER(ranks),
		SHOW_NUMBER(m),
		SHOW_NUMBER(n),
		SHOW_NUMBER(k),
		SHOW_NUMBER(batch),
		SHOW_NUMBER(layer),
		SHOW_NUMBER(microbatch),
		SHOW_NUMBER(times),
		.every_ps = (double)slice->every_ps,
		SHOW_TEXT(phase),
		SHOW_TEXT(group),
		SHOW_TEXT(dtype),
	};
	return lk_shown_add(shown, &show, err);
}

static lk_status show_timeline(const lk_step *step, const lk_timeline *timeline,
                               const lk_explanation *measured, lk_shown_ranks *shown,
                               lk_error *err) {
	for (uint32_t i = 0; i < timeline->tracks.count; i++)
		if (stage_is_measured(step, measured,
		                      lk_rank_stage(step->graph, (uint32_t)timeline->tracks.at[i].rank)))
			LK_TRY(show_track(shown, timeline, i, err));
	for (size_t i = 0; i < timeline->slices.count; i++)
		LK_TRY(show_slice(shown, timeline, &timeline->slices.at[i], err));
	return lk_shown_end(shown, err);
}

/* One capture per rank that is drawn. */
static lk_status captures_of(const lk_step *step, const lk_explanation *measured, lk_capture *first,
                             lk_error *err) {
	static const lk_read_limits limits = {.shapes = true};
	lk_timeline *timeline;
	LK_TRY(lk_step_timeline(step, &timeline, err));
	lk_shown_ranks *shown = lk_shown_new(first, &limits);
	lk_status status = shown ? show_timeline(step, timeline, measured, shown, err) : lk_oom(err);
	lk_shown_free(shown);
	lk_timeline_free(timeline);
	for (lk_capture *one = first; one && status == LK_OK; one = one->next)
		status = lk_capture_finish(one, err);
	return status;
}

static lk_status files_of(lk_capture *first, lk_trace_files *out, lk_error *err) {
	uint32_t count = 0;
	for (const lk_capture *one = first; one; one = one->next) count++;
	*out = (lk_trace_files){.capture = calloc(count, sizeof *out->capture),
	                        .works = calloc(1, sizeof *out->works)};
	if (!out->capture || !out->works) {
		free(out->capture);
		free(out->works);
		return lk_oom(err);
	}
	for (lk_capture *one = first, *next; one; one = next) {
		next = one->next;
		one->next = NULL;
		out->capture[out->captures++] = one;
	}
	return LK_OK;
}

lk_status lk_versus_expected(const lk_prediction *predicted, const lk_explanation *measured,
                             lk_explanation **out, lk_error *err) {
	lk_explain_request request;
	lk_trace_files files;
	lk_capture *first = lk_capture_new("prediction", "predicted step");
	if (!first) return lk_oom(err);
	lk_status status = captures_of(lk_prediction_step(predicted), measured, first, err);
	if (status == LK_OK) status = files_of(first, &files, err);
	if (status != LK_OK) {
		lk_capture_free(first);
		return status;
	}
	lk_explain_defaults(&request);
	request.operations = true;
	return lk_explain_files(&files, &request, out, err);
}
