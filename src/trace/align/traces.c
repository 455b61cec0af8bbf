/* traces.c: combines captures into one run: finds their ranks, checks that they belong together,
 * matches their calls and puts them on one clock. */
#include "base/arena.h"
#include "trace/align/align_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/read/read.h"
#include "base/check.h"
#include "base/sort.h"

struct lk_match_index {
	uint32_t *begin; /* [captures + 1] */
	struct place {
		uint32_t event, match;
	} * place; /* by capture, then event */
};

/* ---- the match of an event ---- */

LK_ORDER_BY(traces_by_event, struct place, event)

static lk_status make_index(lk_traces *traces, lk_error *err) {
	struct lk_match_index *match_index = traces->index =
		LK_NEW(&traces->arena, struct lk_match_index);
	if (!match_index) return lk_oom(err);
	match_index->begin = LK_ARRAY(&traces->arena, uint32_t, traces->count + 2);
	match_index->place = LK_ARRAY(&traces->arena, struct place, traces->members.count + 1);
	if (!match_index->begin || !match_index->place) return lk_oom(err);
	for (size_t i = 0; i < traces->members.count; i++)
		match_index->begin[traces->members.at[i].capture + 2]++;
	for (uint32_t c = 0; c < traces->count; c++)
		match_index->begin[c + 2] += match_index->begin[c + 1];
	for (uint32_t m = 0; m < traces->matches.count; m++)
		for (uint32_t k = traces->matches.at[m].begin; k < traces->matches.at[m].end; k++)
			match_index->place[match_index->begin[traces->members.at[k].capture + 1]++] =
				(struct place){traces->members.at[k].event, m};
	for (uint32_t c = 0; c < traces->count; c++)
		lk_sort(match_index->place + match_index->begin[c],
		        match_index->begin[c + 1] - match_index->begin[c], sizeof *match_index->place,
		        traces_by_event);
	return LK_OK;
}

const lk_match *lk_traces_match(const lk_traces *traces, uint32_t capture, uint32_t event) {
	const struct lk_match_index *match_index = traces->index;
	LK_ASSERT(capture < traces->count && event < traces->capture[capture]->count);
	struct place key = {.event = event};
	struct place *at = bsearch(&key, match_index->place + match_index->begin[capture],
	                           match_index->begin[capture + 1] - match_index->begin[capture],
	                           sizeof key, traces_by_event);
	return at ? &traces->matches.at[at->match] : NULL;
}

/* ---- all together ---- */

/* Emulated ranks ran one after another and did not communicate. */
static lk_status find_collectives(lk_traces *traces, lk_error *err) {
	lk_run_calls calls = {0};
	for (uint32_t i = 0; i < traces->count; i++)
		if (traces->capture[i]->emulated) return LK_OK;
	lk_status status = lk_calls_find(traces, &calls, err);
	if (status == LK_OK) status = lk_calls_match(traces, &calls, err);
	lk_calls_free(traces, &calls);
	return status;
}

/* Invariants of traces: ranks ascend; matches are ordered by group and number and are contiguous in
 * the members; members of a match are ordered by capture; clocks are finite. */
static void assert_made(const lk_traces *traces) {
	for (uint32_t c = 0; c < traces->count; c++) {
		LK_ASSERT(!c || traces->capture[c - 1]->rank < traces->capture[c]->rank);
		LK_ASSERT(traces->capture[c]->rank < traces->world && isfinite(traces->drift_ppm[c]));
	}
	for (size_t m = 0; m < traces->matches.count; m++) {
		const lk_match *match = &traces->matches.at[m], *before = m ? match - 1 : NULL;
		LK_ASSERT(match->begin < match->end && match->begin == (before ? before->end : 0));
		LK_ASSERT(match->group < traces->groups.count);
		LK_ASSERT(!before || before->group < match->group ||
		          (before->group == match->group && before->sequence < match->sequence));
		for (uint32_t k = match->begin; k < match->end; k++) {
			const lk_match_member *member = &traces->members.at[k];
			LK_ASSERT(member->capture < traces->count &&
			          member->event < traces->capture[member->capture]->count);
			LK_ASSERT(k == match->begin || member[-1].capture <= member->capture);
		}
	}
	LK_ASSERT(!traces->matches.count || lk_last(&traces->matches)->end == traces->members.count);
}

static lk_status traces_make(lk_traces *traces, lk_works *const *works, uint32_t work_count,
                             lk_error *err) {
	for (uint32_t i = 0; i < traces->count; i++)
		for (size_t d = 0; d < traces->capture[i]->damages.count; d++)
			lk_traces_warn(traces, "%s: %s", traces->capture[i]->path,
			               traces->capture[i]->damages.at[d]);
	traces->damages = traces->warnings.count;
	LK_TRY(lk_traces_find_ranks(traces, err));
	LK_TRY(lk_traces_find_world(traces, err));
	LK_TRY(lk_traces_link(traces, works, work_count, err));
	for (uint32_t i = 0; i < traces->count; i++)
		for (size_t w = 0; w < traces->capture[i]->warnings.count; w++)
			lk_traces_warn(traces, "%s: %s", traces->capture[i]->path,
			               traces->capture[i]->warnings.at[w]);
	traces->shift_ns = LK_ARRAY(&traces->arena, int64_t, traces->count);
	traces->drift_ppm = LK_ARRAY(&traces->arena, double, traces->count);
	traces->middle_ns = LK_ARRAY(&traces->arena, int64_t, traces->count);
	if (!traces->shift_ns || !traces->drift_ppm || !traces->middle_ns) return lk_oom(err);
	LK_TRY(find_collectives(traces, err));
	LK_TRY(lk_traces_align(traces, err));
	assert_made(traces);
	return make_index(traces, err);
}

static lk_status make_of(lk_capture **captures, uint32_t count, lk_works *const *works,
                         uint32_t work_count, lk_traces **out, lk_error *err) {
	lk_traces *traces = calloc(1, sizeof *traces);
	lk_capture **own = traces ? LK_ARRAY(&traces->arena, lk_capture *, count) : NULL;
	if (!own) {
		for (uint32_t i = 0; i < count; i++) lk_capture_free(captures[i]);
		free(traces);
		return lk_oom(err);
	}
	if (count) memcpy(own, captures, count * sizeof *own);
	traces->capture = own;
	traces->count = count;
	lk_status status = count ? traces_make(traces, works, work_count, err)
	                         : lk_fail(err, LK_ERR_INPUT, NULL, "no trace is given");
	if (status == LK_OK) *out = traces;
	else lk_traces_free(traces);
	return status;
}

lk_status lk_traces_make(lk_capture **captures, uint32_t count, lk_traces **out, lk_error *err) {
	return make_of(captures, count, NULL, 0, out, err);
}

lk_status lk_traces_join(lk_trace_files *files, lk_traces **out, lk_error *err) {
	uint32_t count = files->captures;
	files->captures = 0;
	return make_of(files->capture, count, files->works, files->work_count, out, err);
}

void lk_traces_free(lk_traces *traces) {
	if (!traces) return;
	for (uint32_t i = 0; i < traces->count; i++) lk_capture_free(traces->capture[i]);
	lk_vec_free(&traces->matches);
	lk_vec_free(&traces->members);
	lk_vec_free(&traces->groups);
	lk_vec_free(&traces->problems);
	lk_vec_free(&traces->warnings);
	lk_vec_free(&traces->notes);
	lk_arena_free(&traces->arena);
	free(traces);
}

static lk_status refuse_without_times(const lk_works *works, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, works->path, "is a %s: it does not say when things ran",
	        works->format);
	return lk_hint(err, "give a profile (Kineto, Nsight Systems) with it, or "
	                    "`lockstep replay FILE --overheads FILE --gpu NAME`");
}

lk_status lk_traces_of_files(lk_trace_files *files, lk_traces **out, lk_error *err) {
	lk_status status = files->captures ? lk_traces_join(files, out, err)
	                                   : refuse_without_times(files->works[0], err);
	lk_trace_files_free(files);
	return status;
}

lk_status lk_traces_read(const char *const *paths, uint32_t count, const lk_read_limits *limits,
                         int threads, lk_traces **out, lk_error *err) {
	lk_trace_files files;
	LK_TRY(lk_trace_files_read(paths, count, limits, threads, &files, err));
	return lk_traces_of_files(&files, out, err);
}
