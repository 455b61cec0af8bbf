/* explain_result.c: what a device's time consists of; parts of an explanation that other files set:
 * warnings, gains of remedies, the critical path. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "explain/explain.h"

enum { WARNINGS = 200 };

bool lk_explain_wants_shapes(const lk_explain_request *request) {
	return request->roofline || request->roofline_needed || request->gpu || request->cluster;
}

const lk_traces *lk_explain_traces(const lk_explanation *explanation) {
	return ((const lk_explain_work *)explanation->memory_owner)->traces;
}

/* Causes of idle time begin with those of lk_host_cause, in its order. */
static const lk_device_part device_parts[LK_DEVICE_PARTS] = {
#define PART(title, name, field, rare) \
	{ title, name, offsetof(lk_explain_rank, field), rare }
	PART("compute", "computation", compute_ns, false),
	PART("exposed comm", "exposed communication", exposed_communication_ns, false),
	PART("exposed copies", "exposed copies", exposed_memory_ns, false),
	PART("idle:data", "idle: data loading", idle_data_ns, false),
	PART("idle:once", "idle: work done once", idle_one_off_ns, true),
	PART("idle:alloc", "idle: allocation", idle_allocation_ns, true),
	PART("idle:save", "idle: checkpoints", idle_saving_ns, true),
	PART("idle:gc", "idle: garbage collection", idle_collecting_ns, true),
	PART("idle:inputs", "idle: preprocessing", idle_preparing_ns, true),
	PART("idle:CPU", "idle: host computes", idle_computing_ns, true),
	PART("idle:sync", "idle: sync, host waits for device", idle_sync_ns, false),
	PART("idle:launch", "idle: launch, host launches too late", idle_host_ns, false),
	PART("idle:gaps", "idle: gaps between kernels", idle_other_ns, false),
#undef PART
};

const lk_device_part *lk_device_parts(void) {
	return device_parts;
}

int64_t lk_idle_sum(const lk_explain_rank *rank) {
	int64_t sum = 0;
	for (int i = LK_BUSY_PARTS; i < LK_DEVICE_PARTS; i++)
		sum += lk_rank_time(rank, device_parts[i].time);
	return sum;
}

/* A gain below this share of a step is no gain. */
static const double LEAST_GAIN = 0.0005;

static lk_explain_stall *explain_stall_at(lk_explanation *explanation, int stall) {
	lk_explain_work *work = explanation->memory_owner;
	LK_ASSERT(stall >= 0 && (size_t)stall < work->stalls.count);
	return &work->stalls.at[stall];
}

/* A remedy without gain is not named. */
void lk_explain_set_gain(lk_explanation *explanation, int stall, double gain_s, double further_s,
                         const char *change) {
	lk_explain_stall *of = explain_stall_at(explanation, stall);
	bool none = !(gain_s > LEAST_GAIN * explanation->step_s);
	if (none) of->remedy = "";
	of->gain_s = none ? 0 : gain_s;
	of->adds_s = none ? 0 : further_s;
	of->change = change;
}

void lk_explain_set_most(lk_explanation *explanation, int stall, double most_s) {
	lk_explain_stall *of = explain_stall_at(explanation, stall);
	of->most_s = fmin(most_s, of->lost_s);
	if (!(of->most_s > LEAST_GAIN * explanation->step_s)) {
		of->remedy = "";
		of->most_s = 0;
	}
}

lk_status lk_explain_set_path(lk_explanation *explanation, const lk_critical_path *path,
                              lk_error *err) {
	lk_explain_work *work = explanation->memory_owner;
	lk_critical_part *parts = LK_ARRAY(&work->arena, lk_critical_part, (size_t)path->part_count);
	lk_critical_event *events = LK_ARRAY(&work->arena, lk_critical_event, path->event_count);
	if (!parts || !events) return lk_oom(err);
	for (int i = 0; i < path->part_count; i++) {
		parts[i] = (lk_critical_part){lk_arena_strdup(&work->arena, path->parts[i].kind),
		                              path->parts[i].seconds};
		if (!parts[i].kind) return lk_oom(err);
	}
	if (path->event_count) memcpy(events, path->events, path->event_count * sizeof *events);
	explanation->critical.parts = parts;
	explanation->critical.part_count = path->part_count;
	explanation->critical.events = events;
	explanation->critical.event_count = path->event_count;
	return LK_OK;
}

void lk_explain_attach(lk_explanation *explanation, const struct lk_versus *versus, void *owner,
                       void (*free_owner)(void *owner)) {
	lk_explain_work *work = explanation->memory_owner;
	LK_ASSERT(!explanation->versus);
	explanation->versus = versus;
	work->versus_owner = owner;
	work->versus_free = free_owner;
}

lk_status lk_explain_warn(lk_explain_work *work, lk_error *err, const char *fmt, ...) {
	char text[480];
	va_list args;
	if (work->warnings.count >= WARNINGS) return LK_OK;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	const char *kept = lk_arena_strdup(&work->arena, text);
	if (!kept || !lk_push(&work->warnings)) return lk_oom(err);
	*lk_last(&work->warnings) = kept;
	return LK_OK;
}

lk_status lk_explain_add_warning(lk_explanation *explanation, lk_error *err, const char *fmt, ...) {
	lk_explain_work *work = explanation->memory_owner;
	char text[480];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	LK_TRY(lk_explain_warn(work, err, "%s", text));
	explanation->warnings = work->warnings.at;
	explanation->warning_count = (int)work->warnings.count;
	return LK_OK;
}
