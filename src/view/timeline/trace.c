/* trace.c: writes a timeline as a trace; the ending of the path chooses the format. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "predict/predict.h"
#include "step/step.h"
#include "view/timeline/trace_plan.h"

/* The longest reading that a timeline of picoseconds holds. */
static const double MOST_SECONDS = 1e6;

typedef lk_status writer(const lk_trace_plan *plan, lk_trace_out *out);

static writer *writer_of(const char *path) {
	static const struct {
		const char *ending;
		writer *write;
	} formats[] = {
		{".json", lk_trace_chrome},
		{".json.gz", lk_trace_chrome},
		{".pftrace", lk_trace_perfetto},
	};
	size_t length = strlen(path);
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		size_t n = strlen(formats[i].ending);
		if (length >= n && strcmp(path + length - n, formats[i].ending) == 0)
			return formats[i].write;
	}
	return NULL;
}

static lk_status trace_write_plan(const lk_trace_plan *plan, writer *write, const char *path,
                                  lk_error *err) {
	lk_trace_out *out = calloc(1, sizeof *out);
	if (!out) return lk_oom(err);
	out->err = err;
	lk_status status = lk_sink_open(path, &out->sink, err);
	if (status == LK_OK) {
		status = write(plan, out);
		lk_trace_flush(out);
		if (status == LK_OK) status = out->status;
		if (status == LK_OK) status = lk_sink_commit(out->sink, err);
		else lk_sink_abandon(out->sink);
	}
	free(out);
	return status;
}

lk_status lk_trace_write(const lk_timeline *timeline, const char *path, lk_error *err) {
	writer *write = writer_of(path);
	if (!write) {
		lk_fail(err, LK_ERR_INPUT, path, "no trace format has this ending");
		return lk_hint(
			err, "end the name in .json or .json.gz (Chrome trace events) or .pftrace (Perfetto)");
	}
	lk_trace_plan plan = {0};
	lk_status status = lk_trace_plan_make(&plan, timeline, err);
	if (status == LK_OK) status = trace_write_plan(&plan, write, path, err);
	lk_trace_plan_free(&plan);
	return status;
}

lk_status lk_trace_write_step(const lk_step *step, const char *path, lk_error *err) {
	lk_timeline *timeline;
	LK_TRY(lk_step_timeline(step, &timeline, err));
	lk_status status = lk_trace_write(timeline, path, err);
	lk_timeline_free(timeline);
	return status;
}

/* ---- input ---- */

/* Add a track to the first process, with one slice. */
static lk_status add_input_track(lk_timeline *timeline, const char *track, const char *name,
                                 double start_s, double end_s, lk_error *err) {
	lk_track row = timeline->tracks.at[0];
	uint32_t text = lk_intern_id(timeline->names, name);
	row.name = lk_intern_id(timeline->names, track);
	if (text == UINT32_MAX || row.name == UINT32_MAX || !lk_push(&timeline->tracks) ||
	    !lk_push(&timeline->slices))
		return lk_oom(err);
	*lk_last(&timeline->tracks) = row;
	*lk_last(&timeline->slices) = (lk_slice){.track = (uint32_t)timeline->tracks.count - 1,
	                                         .name = text,
	                                         .category = row.name,
	                                         .microbatch = -1,
	                                         .layer = -1,
	                                         .start_ps = (int64_t)llround(start_s * 1e12),
	                                         .end_ps = (int64_t)llround(end_s * 1e12)};
	return LK_OK;
}

/* Storage reads the samples of the next step while this one runs; what is late is waited for. */
static lk_status add_input(const lk_prediction *prediction, lk_timeline *timeline, lk_error *err) {
	for (int i = 0; timeline->tracks.count && i < prediction->breakdown_count; i++) {
		const lk_time_part *part = &prediction->breakdown[i];
		double read_s = part->exposed_s + part->hidden_s;
		if (strcmp(part->key, "input") != 0 || read_s > MOST_SECONDS) continue;
		LK_TRY(
			add_input_track(timeline, "storage", "read samples of the next step", 0, read_s, err));
		if (part->exposed_s > 0)
			LK_TRY(add_input_track(timeline, "input", "wait for samples", part->hidden_s, read_s,
			                       err));
	}
	return LK_OK;
}

lk_status lk_trace_write_prediction(const lk_prediction *prediction, const char *path,
                                    lk_error *err) {
	lk_timeline *timeline;
	LK_TRY(lk_step_timeline(lk_prediction_step(prediction), &timeline, err));
	lk_status status = add_input(prediction, timeline, err);
	if (status == LK_OK) status = lk_trace_write(timeline, path, err);
	lk_timeline_free(timeline);
	return status;
}
