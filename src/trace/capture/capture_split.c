/* capture_split.c: one process may drive several devices, and one file may hold several processes.
 * Each device is a rank: its own work, with the threads of the processes that launched it. A thread
 * that drives several devices is one of each rank. */
#include <stdlib.h>

#include "base/sort.h"
#include "trace/capture/capture.h"

enum {
	FEW_KERNELS = 20, /* a device with less than a twentieth of another's is no rank */
	DEVICES = 1024,
};

struct split_device {
	int64_t id;
	uint64_t kernels;
};
LK_ORDER_BY(split_by_id, struct split_device, id)

struct split_call {
	uint32_t correlation;
	uint16_t lane;
};
LK_ORDER_BY(split_by_correlation, struct split_call, correlation)

struct split {
	lk_capture *whole;
	struct split_device device[DEVICES];
	int count;
	LK_VEC(struct split_call) calls;
};

/* Find the devices that are ranks. */
static lk_status split_find(struct split *split, lk_error *err) {
	const lk_capture *capture = split->whole;
	uint64_t most = 0, *kernels = calloc(capture->lanes.count + 1, sizeof *kernels);
	int kept = 0;
	if (!kernels) return lk_oom(err);
	for (uint32_t i = 0; i < capture->count; i++)
		kernels[capture->lane[i]] += capture->kind[i] == LK_EVENT_KERNEL;
	for (size_t lane = 0; lane < capture->lanes.count; lane++) {
		int at = 0;
		if (!kernels[lane]) continue;
		while (at < split->count && split->device[at].id != capture->lanes.at[lane].process) at++;
		if (at == DEVICES) continue;
		if (at == split->count) split->device[split->count++].id = capture->lanes.at[lane].process;
		split->device[at].kernels += kernels[lane];
		if (split->device[at].kernels > most) most = split->device[at].kernels;
	}
	free(kernels);
	for (int i = 0; i < split->count; i++)
		if (split->device[i].kernels * FEW_KERNELS >= most)
			split->device[kept++] = split->device[i];
	split->count = kept;
	lk_sort(split->device, (size_t)kept, sizeof *split->device, split_by_id);
	return LK_OK;
}

static lk_status split_list_calls(struct split *split, lk_error *err) {
	const lk_capture *capture = split->whole;
	for (uint32_t i = 0; i < capture->count; i++) {
		if (capture->kind[i] != LK_EVENT_RUNTIME || !capture->joins[i]) continue;
		if (!lk_push(&split->calls)) return lk_oom(err);
		*lk_last(&split->calls) = (struct split_call){capture->joins[i], capture->lane[i]};
	}
	lk_sort(split->calls.at, split->calls.count, sizeof *split->calls.at, split_by_correlation);
	return LK_OK;
}

/* Mark the lanes of a device, and those of the host but of processes that launch on other devices
 * alone. */
static void split_mark(const struct split *split, int64_t device, uint8_t *keep) {
	enum { UNKNOWN, OURS, OTHERS };
	const lk_capture *capture = split->whole;
	uint8_t *lane = keep; /* first: whose work a host lane launches */
	for (size_t l = 0; l < capture->lanes.count; l++) lane[l] = UNKNOWN;
	for (uint32_t i = 0; i < capture->count; i++) {
		if (!lk_event_on_device(capture->kind[i]) || !capture->joins[i]) continue;
		struct split_call key = {capture->joins[i], 0};
		const struct split_call *call = split->calls.count
		                                    ? bsearch(&key, split->calls.at, split->calls.count,
		                                              sizeof key, split_by_correlation)
		                                    : NULL;
		if (!call || lane[call->lane] == OURS) continue;
		lane[call->lane] = capture->lanes.at[capture->lane[i]].process == device ? OURS : OTHERS;
	}
	for (size_t l = 0; l < capture->lanes.count; l++) { /* a process is as its best thread */
		const lk_lane *at = &capture->lanes.at[l];
		if (at->stream || lane[l] == OURS) continue;
		for (size_t o = 0; o < capture->lanes.count; o++)
			if (!capture->lanes.at[o].stream && capture->lanes.at[o].process == at->process) {
				if (lane[o] == OURS) lane[l] = OURS;
				else if (lane[o] == OTHERS && lane[l] == UNKNOWN) lane[l] = OTHERS;
				if (lane[l] == OURS) break;
			}
	}
	for (size_t l = 0; l < capture->lanes.count; l++)
		keep[l] = capture->lanes.at[l].stream ? capture->lanes.at[l].process == device
		                                      : lane[l] != OTHERS;
}

/* ---- copying ---- */

/* A capture with the same names, lanes and events. */
static lk_capture *split_copy(const lk_capture *from) {
	lk_capture *to = lk_capture_new(from->path, from->format);
	size_t names = lk_intern_count(from->names), lanes = from->lanes.count,
		   most = names > lanes ? names : lanes;
	uint32_t *same = malloc((most + 1) * sizeof *same);
	bool good = to && same && lk_reserve(&to->groups, from->groups.count);
	for (size_t i = 0; good && i < most; i++) same[i] = (uint32_t)i;
	for (size_t i = 0; good && i < names; i++)
		good = lk_intern_id(to->names, lk_intern_text(from->names, (uint32_t)i)) == i;
	for (size_t i = 0; good && i < lanes; i++) {
		const lk_lane *lane = &from->lanes.at[i];
		good = lk_capture_lane(to, lane->stream, lane->process, lane->thread) == i;
		if (good) to->lanes.at[i].name = lane->name;
	}
	good = good && lk_capture_append(to, from, same, same);
	free(same);
	if (!good) {
		lk_capture_free(to);
		return NULL;
	}
	for (size_t i = 0; i < from->groups.count; i++) to->groups.at[i] = from->groups.at[i];
	to->groups.count = from->groups.count;
	to->rank = from->rank, to->world = from->world, to->backend = from->backend;
	to->device = from->device, to->sms = from->sms, to->device_bytes = from->device_bytes;
	to->origin_ns = from->origin_ns, to->absolute = from->absolute, to->whole = from->whole;
	return to;
}

/* Drop the notes of events that are not kept, and renumber the others. */
#define KEEP_NOTES(capture, field)                                \
	{                                                             \
		size_t kept = 0;                                          \
		for (size_t k = 0; k < (capture)->field.count; k++) {     \
			uint32_t event = place[(capture)->field.at[k].event]; \
			if (event == LK_NONE) continue;                       \
			(capture)->field.at[kept] = (capture)->field.at[k];   \
			(capture)->field.at[kept++].event = event;            \
		}                                                         \
		(capture)->field.count = kept;                            \
	}

/* Keep the events of marked lanes. False: out of memory. */
static bool split_keep(lk_capture *capture, const uint8_t *keep) {
	uint32_t *place = malloc(((size_t)capture->count + 1) * sizeof *place), count = 0;
	if (!place) return false;
	for (uint32_t i = 0; i < capture->count; i++) {
		place[i] = keep[capture->lane[i]] ? count : LK_NONE;
		if (place[i] == LK_NONE) continue;
		capture->start_ns[count] = capture->start_ns[i];
		capture->dur_ns[count] = capture->dur_ns[i];
		capture->kind[count] = capture->kind[i];
		capture->lane[count] = capture->lane[i];
		capture->name[count] = capture->name[i];
		capture->joins[count++] = capture->joins[i];
	}
	capture->count = count;
	KEEP_NOTES(capture, comms)
	KEEP_NOTES(capture, syncs)
	KEEP_NOTES(capture, shapes)
	KEEP_NOTES(capture, copies)
	KEEP_NOTES(capture, grads)
	size_t kept = 0;
	for (size_t k = 0; k < capture->modules.count; k++)
		if (keep[capture->modules.at[k].lane]) capture->modules.at[kept++] = capture->modules.at[k];
	capture->modules.count = kept;
	free(place);
	return true;
}

/* The i-th of several devices of a process is a rank of its own. */
static void split_number(lk_capture *rank, int i, int count) {
	if (rank->rank >= 0) rank->rank = rank->rank * count + i;
	if (rank->world > 0) rank->world *= count;
}

static lk_status split_devices(struct split *split, lk_error *err) {
	lk_capture *whole = split->whole, *last = whole, *rest = whole->next;
	LK_TRY(split_list_calls(split, err));
	uint8_t *keep = malloc((size_t)split->count * (whole->lanes.count + 1));
	if (!keep) return lk_oom(err);
	bool good = true;
	for (int i = 0; i < split->count; i++)
		split_mark(split, split->device[i].id, keep + (size_t)i * whole->lanes.count);
	for (int i = 1; good && i < split->count; i++) {
		lk_capture *next = split_copy(whole);
		good = next && split_keep(next, keep + (size_t)i * whole->lanes.count);
		if (!next) break;
		split_number(next, i, split->count);
		next->next = rest;
		last = last->next = next;
	}
	good = good && split_keep(whole, keep);
	split_number(whole, 0, split->count);
	free(keep);
	return good ? LK_OK : lk_oom(err);
}

lk_status lk_capture_split(lk_capture *capture, lk_error *err) {
	uint32_t parts = 0;
	for (lk_capture *at = capture, *next; at; at = next) {
		struct split *split = calloc(1, sizeof *split);
		if (!split) return lk_oom(err);
		next = at->next;
		split->whole = at;
		lk_status status = split_find(split, err);
		if (status == LK_OK && split->count > 1) status = split_devices(split, err);
		lk_vec_free(&split->calls);
		free(split);
		LK_TRY(status);
	}
	for (const lk_capture *at = capture; at; at = at->next) parts++;
	for (lk_capture *at = capture; at; at = at->next) at->parts = parts;
	return LK_OK;
}
