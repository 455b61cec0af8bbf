/* traced_step.c: which step of a traced run is examined, and when it ends. */
#include "step/traced.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "io/stream.h"
#include "trace/read/read.h"

lk_status lk_is_graph_file(const char *path, bool *is, lk_error *err) {
	enum { HEAD = 4096 };
	char head[HEAD + 1];
	size_t got = 0;
	lk_stream *in;
	struct stat info;
	*is = false;
	/* It is read twice, so it must be a file: a pipe's beginning would be gone. */
	if (strcmp(path, "-") == 0 || stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return LK_OK;
	lk_status status = lk_stream_open(path, &in, err);
	if (status == LK_OK) {
		status = lk_stream_read(in, head, HEAD, &got, err);
		lk_stream_close(in);
	}
	head[got] = '\0';
	*is = status == LK_OK && strstr(head, "\"lockstep_graph\"");
	return status == LK_ERR_INPUT ? LK_OK : status; /* the reader reports what is wrong in it */
}

static lk_status unlike(const lk_capture *capture, const lk_capture *first, bool marked,
                        lk_error *err) {
	if (marked)
		lk_fail(err, LK_ERR_INPUT, capture->path, "training steps are marked in it, but none in %s",
		        first->path);
	else
		lk_fail(err, LK_ERR_INPUT, capture->path,
		        "no training steps are marked in it, but some in %s", first->path);
	return lk_hint(err, "profile all ranks alike, or give those that are");
}

lk_status lk_traced_common_steps(const lk_traces *traces, uint32_t *count, lk_error *err) {
	bool first_marked = false;
	*count = UINT32_MAX;
	for (uint32_t r = 0; r < traces->count; r++) {
		lk_capture_steps steps = {0};
		lk_status status = lk_capture_find_steps(traces->capture[r], &steps, err);
		bool marked = status == LK_OK && steps.at[0].event != LK_NONE;
		if (status == LK_OK && steps.count < *count) *count = (uint32_t)steps.count;
		lk_vec_free(&steps);
		LK_TRY(status);
		if (r == 0) first_marked = marked;
		if (marked != first_marked)
			return unlike(traces->capture[r], traces->capture[0], marked, err);
	}
	return LK_OK;
}

static lk_status no_step(const lk_traces *traces, const lk_capture_steps *steps, int64_t number,
                         lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, traces->capture[0]->path, "there is no step %lld",
	        (long long)number);
	if (!steps->count) return LK_ERR_INPUT;
	return lk_hint(err, "it has the steps %lld to %lld", (long long)steps->at[0].number,
	               (long long)lk_last(steps)->number);
}

/* A step of all ranks that have it whole. */
struct common_step {
	double sum_ns;
	uint32_t ranks;
	int64_t number; /* on the first rank */
};

/* If a rank has no whole step, all its steps count, as in explain. */
static lk_status add_steps_of(const lk_capture *capture, struct common_step *all, uint32_t count,
                              bool first, lk_error *err) {
	lk_capture_steps steps = {0};
	size_t whole = 0;
	LK_TRY(lk_capture_find_steps(capture, &steps, err));
	for (size_t s = 0; s < steps.count; s++) whole += steps.at[s].whole;
	for (uint32_t s = 0; s < count; s++) {
		const lk_capture_step *step = &steps.at[s];
		if (first) all[s].number = step->number;
		if ((whole && !step->whole) || step->end_ns <= step->start_ns) continue;
		all[s].sum_ns += (double)(step->end_ns - step->start_ns);
		all[s].ranks++;
	}
	lk_vec_free(&steps);
	return LK_OK;
}

/* The place of the step nearest to the mean, the first of several; 0 if none has a time. */
static uint32_t nearest_to_mean(const struct common_step *all, uint32_t count) {
	double sum = 0, nearest = INFINITY;
	uint32_t steps = 0, place = 0;
	for (uint32_t s = 0; s < count; s++) {
		if (!all[s].ranks) continue;
		sum += all[s].sum_ns / all[s].ranks;
		steps++;
	}
	for (uint32_t s = 0; s < count; s++) {
		double off = all[s].ranks ? fabs(all[s].sum_ns / all[s].ranks - sum / steps) : INFINITY;
		if (!(off < nearest)) continue;
		nearest = off;
		place = s;
	}
	return place;
}

lk_status lk_traced_usual_step(const lk_traces *traces, int64_t number, uint32_t *place,
                               lk_error *err) {
	uint32_t count = 0;
	LK_TRY(lk_traced_common_steps(traces, &count, err));
	struct common_step *all = calloc((size_t)count + 1, sizeof *all);
	lk_status status = all ? LK_OK : lk_oom(err);
	for (uint32_t r = 0; r < traces->count && status == LK_OK; r++)
		status = add_steps_of(traces->capture[r], all, count, r == 0, err);
	*place = LK_NONE;
	if (status == LK_OK && number < 0) *place = nearest_to_mean(all, count);
	for (uint32_t s = 0; status == LK_OK && number >= 0 && s < count; s++)
		if (all[s].number == number) *place = s;
	free(all);
	if (status != LK_OK || *place != LK_NONE) return status;
	lk_capture_steps steps = {0};
	LK_TRY(lk_capture_find_steps(traces->capture[0], &steps, err));
	status = no_step(traces, &steps, number, err);
	lk_vec_free(&steps);
	return status;
}

lk_status lk_traces_inputs(lk_arena *arena, const lk_verb *verb, const void *request,
                           const char *const *paths, int count, lk_inputs *out, lk_error *err) {
	const char *const *files = NULL;
	uint32_t found = 0;
	if (count > 0) LK_TRY(lk_trace_files_list(arena, paths, (uint32_t)count, &files, &found, err));
	return lk_inputs_find(arena, verb, request, files, (int)found, out, err);
}

const lk_device *lk_traced_stand_in(void) {
	return lk_device_find("a100-sxm-80");
}

/* Whether memory and multiprocessors are those of the trace's device, which must state its
 * memory. */
static bool traced_fits(const lk_device *device, const lk_capture *capture) {
	double memory = capture->device_bytes / device->memory_bytes;
	return memory > 0.9 && memory < 1.1 && (!capture->sms || capture->sms == device->sms);
}

/* Drivers name variants that the catalogue does not: "Tesla V100-DGXS-32GB", "AMD Instinct MI300X
 * VF". Such a name is that of a known device without one of its words, if the hardware agrees. */
static const lk_device *traced_device_by_part(const lk_capture *capture, const char *name) {
	static const char between[] = " -";
	char part[128];
	for (const char *word = name + strcspn(name, between); *word && strlen(name) < sizeof part;) {
		size_t length = 1 + strcspn(word + 1, between);
		snprintf(part, sizeof part, "%.*s%s", (int)(word - name), name, word + length);
		const lk_device *device = lk_device_find(part);
		if (device && traced_fits(device, capture)) return device;
		word += length;
	}
	return NULL;
}

const lk_device *lk_traced_device(const lk_traces *traces) {
	const lk_capture *capture = traces->capture[0];
	if (!capture->device) return NULL;
	const char *name = lk_capture_text(capture, capture->device);
	const lk_device *device = lk_device_find(name);
	return device ? device : traced_device_by_part(capture, name);
}

/* One program's times; 0 if nothing of the kind ran. */
struct program_times {
	int64_t begin, carried, device, end;
	bool marked;
};

static void traced_step_note(int64_t *latest, int64_t end) {
	if (end > *latest) *latest = end;
}

static void traced_step_look_at(const lk_graph *graph, const lk_sim_event *event, uint32_t begin,
                                uint32_t mark, struct program_times *out) {
	unsigned kind = graph->ops.kind[event->op];
	uint32_t name = graph->ops.name[event->op];
	if (kind == LK_OP_HOST && name == begin) traced_step_note(&out->begin, event->end_ps);
	if (kind == LK_OP_HOST && name == mark) {
		traced_step_note(&out->end, event->end_ps);
		out->marked = true;
	}
	if (kind == LK_OP_HOST || kind == LK_OP_WAIT) return;
	traced_step_note(&out->device, event->end_ps);
	if (graph->ops.flags[event->op] & LK_OP_CARRIED) traced_step_note(&out->carried, event->end_ps);
}

static int64_t period(const struct program_times *times) {
	int64_t host = times->end - times->begin,
			since = times->carried > times->begin ? times->carried : times->begin;
	return times->device - since > host ? times->device - since : host;
}

int64_t lk_traced_step_ps(const lk_graph *graph, const lk_sim_events *events, int64_t otherwise) {
	uint32_t begin = lk_intern_find(graph->names, "begin"),
			 mark = lk_intern_find(graph->names, "end of step");
	double sum = 0;
	uint32_t programs = 0;
	if (!graph->traced || mark == UINT32_MAX) return otherwise;
	for (size_t i = 0; i < events->count;) {
		struct program_times times = {0};
		uint32_t record = events->at[i].record;
		for (; i < events->count && events->at[i].record == record; i++)
			traced_step_look_at(graph, &events->at[i], begin, mark, &times);
		if (times.marked) {
			sum += (double)period(&times);
			programs++;
		}
	}
	return programs ? (int64_t)(sum / programs + 0.5) : otherwise;
}
