/* trace.c: writes a timeline as a trace; the ending of the path chooses the format. */

#include <stdlib.h>

#include "step/step.h"
#include "view/timeline/trace_plan.h"

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
