/* shown.c: slices of a timeline as captures, a capture per process that names a rank.
 *
 * The category says what a slice is: the kind of an operation (lk_op_kind), of a simulated step, or
 * the kind of an event, of traces that were drawn. A simulated step is one step of all its ranks:
 * it begins at time 0 and ends with the last slice. A repetition that stands for others becomes as
 * many events. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/vec.h"
#include "trace/read/read.h"

enum { MOST_SHOWN = 1 << 24 }; /* events of a file, with all repetitions */
static const int64_t PS_PER_NS = 1000, LAST_PS = INT64_C(1) << 61;

struct shown_rank {
	int64_t pid;
	lk_capture *capture; /* NULL: the process is no rank */
};

struct lk_shown_ranks {
	lk_capture *first;
	lk_read_limits limits;
	LK_VEC(struct shown_rank) ranks;
	size_t last; /* the rank returned last */
	uint64_t events;
	int32_t world;
	int64_t end_ps;
	bool taken;     /* `first` has a process */
	bool simulated; /* operations of a step were seen */
};

lk_shown_ranks *lk_shown_new(lk_capture *first, const lk_read_limits *limits) {
	lk_shown_ranks *shown = calloc(1, sizeof *shown);
	if (!shown) return NULL;
	shown->first = first;
	shown->limits = *limits;
	if (!shown->limits.events || shown->limits.events > MOST_SHOWN)
		shown->limits.events = MOST_SHOWN;
	return shown;
}

void lk_shown_free(lk_shown_ranks *shown) {
	if (shown) lk_vec_free(&shown->ranks);
	free(shown);
}

static struct shown_rank *shown_rank_of(lk_shown_ranks *shown, int64_t pid) {
	if (shown->last < shown->ranks.count && shown->ranks.at[shown->last].pid == pid)
		return &shown->ranks.at[shown->last];
	for (size_t i = 0; i < shown->ranks.count; i++)
		if (shown->ranks.at[i].pid == pid) return &shown->ranks.at[shown->last = i];
	return NULL;
}

static lk_status shown_name(lk_shown_ranks *shown, lk_capture *capture, const char *text,
                            uint32_t *out, lk_error *err) {
	char shortened[1024];
	lk_copy(shortened, sizeof shortened, text ? text : "");
	return lk_capture_name(capture, &shown->limits, shortened, out, err);
}

static lk_status shown_lane(lk_capture *capture, bool stream, int64_t tid, uint32_t *lane,
                            lk_error *err) {
	*lane = lk_capture_lane(capture, stream, 0, tid);
	return *lane == LK_NONE ? lk_oom(err) : LK_OK;
}

lk_status lk_shown_process(lk_shown_ranks *shown, int64_t pid, const char *name, lk_error *err) {
	int rank, count = 1;
	const char *represents = strstr(name, "(represents ");
	struct shown_rank *known = shown_rank_of(shown, pid);
	if (!known) {
		if (!lk_push(&shown->ranks)) return lk_oom(err);
		known = lk_last(&shown->ranks);
		*known = (struct shown_rank){.pid = pid};
	}
	if (known->capture || sscanf(name, "rank %d", &rank) != 1 || rank < 0) return LK_OK;
	lk_capture *capture = shown->first;
	if (shown->taken) {
		capture = lk_capture_new(shown->first->path, shown->first->format);
		if (!capture) return lk_oom(err);
		capture->next = shown->first->next;
		shown->first->next = capture;
	}
	shown->taken = true;
	known->capture = capture;
	capture->rank = rank;
	capture->host = "timeline"; /* all ranks are on one clock */
	if (represents && sscanf(represents, "(represents %d", &count) == 1 && count > 0)
		shown->world += count < 1 << 24 && shown->world < 1 << 24 ? count : 0;
	else shown->world++;
	return LK_OK;
}

lk_status lk_shown_thread(lk_shown_ranks *shown, int64_t pid, int64_t tid, const char *name,
                          lk_error *err) {
	const struct shown_rank *rank = shown_rank_of(shown, pid);
	uint32_t lane;
	if (!rank || !rank->capture) return LK_OK;
	bool host =
		strcmp(name, lk_stream_label(LK_STREAM_HOST)) == 0 || lk_begins_with(name, "thread");
	LK_TRY(shown_lane(rank->capture, !host, tid, &lane, err));
	return shown_name(shown, rank->capture, name, &rank->capture->lanes.at[lane].name, err);
}

/* ---- slices ---- */

/* What a slice becomes; false: it is no event. *kind: of a simulated operation, else
 * LK_OP_COUNT. */
static bool shown_kind(const char *category, lk_event_kind *event, unsigned *kind) {
	static const char *const events[LK_EVENT_KINDS] = {
		"operation", "annotation", "runtime", "kernel", NULL, "fill", "sync"};
	*kind = LK_OP_COUNT;
	for (unsigned i = 0; i < LK_EVENT_KINDS; i++)
		if (events[i] && strcmp(category, events[i]) == 0) {
			*event = (lk_event_kind)i;
			return true;
		}
	for (unsigned i = 0; i < LK_OP_COUNT && *kind == LK_OP_COUNT; i++)
		if (strcmp(category, lk_op_kind_name((lk_op_kind)i)) == 0) *kind = i;
	switch (*kind) {
	case LK_OP_COUNT:
	case LK_OP_MACRO: /* what it holds is drawn too */
	case LK_OP_WAIT: return false;
	case LK_OP_HOST: *event = LK_EVENT_OP; return true;
	case LK_OP_COPY: *event = LK_EVENT_MEMCPY; return true;
	default: *event = LK_EVENT_KERNEL; return true;
	}
}

static uint8_t shown_phase(const char *name) {
	for (unsigned i = 0; name && i < LK_PHASES; i++)
		if (strcmp(name, lk_phase_name((lk_phase)i)) == 0) return (uint8_t)i;
	return LK_PHASE_OTHER;
}

static unsigned shown_group(const char *label) {
	for (unsigned i = 0; i < LK_GROUPS; i++)
		if (strcmp(label, lk_group_label(i)) == 0) return i;
	return LK_GROUPS;
}

/* Groups of one kind on different stages are different groups. */
static lk_status note_comm(lk_shown_ranks *shown, lk_capture *capture, const lk_shown_slice *slice,
                           unsigned kind, uint32_t event, lk_error *err) {
	char group[64] = "";
	if (!lk_push(&capture->comms)) return lk_oom(err);
	lk_comm_note *note = lk_last(&capture->comms);
	*note = (lk_comm_note){
		.event = event, .kind = (uint8_t)kind, .element_bytes = 1, .peer = -1, .in_elements = -1};
	if (slice->bytes > 0 && slice->bytes < 9e18) note->in_elements = (int64_t)slice->bytes;
	note->out_elements = note->in_elements;
	if (slice->ranks > 0 && slice->ranks < 1 << 30) note->group_size = (int32_t)slice->ranks;
	if (!slice->group || !*slice->group) return LK_OK;
	unsigned label = shown_group(slice->group);
	if (label < LK_GROUPS && lk_group_crosses_stages(label))
		snprintf(group, sizeof group, "%.40s", slice->group);
	else snprintf(group, sizeof group, "%.40s of rank %d", slice->group, capture->rank);
	uint32_t id;
	LK_TRY(shown_name(shown, capture, group, &id, err));
	lk_last(&capture->comms)->group = id;
	return LK_OK;
}

static lk_status note_kind(lk_capture *capture, const lk_shown_slice *slice, unsigned kind,
                           uint32_t event, lk_error *err) {
	lk_dtype dtype = LK_BF16;
	if (slice->dtype) lk_dtype_parse(slice->dtype, &dtype);
	if (!lk_push(&capture->kinds)) return lk_oom(err);
	*lk_last(&capture->kinds) = (lk_kind_note){
		.event = event,
		.kind = (uint8_t)kind,
		.phase = shown_phase(slice->phase),
		.dtype = (uint8_t)dtype,
		.layer = slice->layer >= 0 && slice->layer < 1 << 30 ? (int32_t)slice->layer : -1,
		.microbatch =
			slice->microbatch >= 0 && slice->microbatch < 1 << 30 ? (int32_t)slice->microbatch : -1,
		.m = slice->m,
		.n = slice->n,
		.k = slice->k,
		.batch = slice->batch,
		.flops = slice->flops,
	};
	return LK_OK;
}

static int64_t shown_ns(int64_t ps) {
	return (ps + PS_PER_NS / 2) / PS_PER_NS;
}

static lk_status shown_put(lk_shown_ranks *shown, lk_capture *capture, const lk_shown_slice *slice,
                           lk_event *event, unsigned kind, int64_t start_ps, lk_error *err) {
	int64_t end_ps = start_ps + slice->dur_ps;
	event->start_ns = shown_ns(start_ps);
	event->dur_ns = shown_ns(end_ps) - event->start_ns;
	if (kind < LK_OP_COUNT && end_ps > shown->end_ps) shown->end_ps = end_ps;
	uint32_t id = lk_capture_add(capture, event);
	if (id == LK_NONE) return lk_oom(err);
	if (kind == LK_OP_COUNT || kind == LK_OP_HOST) return LK_OK;
	if (lk_op_is_comm(kind)) LK_TRY(note_comm(shown, capture, slice, kind, id, err));
	return note_kind(capture, slice, kind, id, err);
}

lk_status lk_shown_add(lk_shown_ranks *shown, const lk_shown_slice *slice, lk_error *err) {
	const struct shown_rank *rank = shown_rank_of(shown, slice->pid);
	lk_event event = {0};
	unsigned kind;
	if (!rank || !rank->capture || !slice->category) return LK_OK;
	if (!shown_kind(slice->category, &event.kind, &kind)) {
		rank->capture->dropped++;
		return LK_OK;
	}
	if (slice->start_ps < 0 || slice->start_ps > LAST_PS || slice->dur_ps < 0 ||
	    slice->dur_ps > LAST_PS)
		return LK_OK;
	shown->simulated = shown->simulated || kind < LK_OP_COUNT;
	bool stream = lk_event_on_device(event.kind) || event.kind == LK_EVENT_SYNC;
	LK_TRY(shown_lane(rank->capture, stream, slice->tid, &event.lane, err));
	LK_TRY(shown_name(shown, rank->capture, slice->name, &event.name, err));
	if (event.kind == LK_EVENT_MEMCPY && slice->bytes < 9e18) event.bytes = (int64_t)slice->bytes;
	double every = slice->every_ps > 0 ? slice->every_ps : 0,
		   times = slice->times > 1 ? floor(slice->times) : 1;
	if (!(every * times < (double)LAST_PS)) times = 1;
	if ((double)shown->events + times > (double)shown->limits.events) {
		lk_fail(err, LK_ERR_INPUT, rank->capture->path, "holds over %llu events",
		        (unsigned long long)shown->limits.events);
		return lk_hint(err, "ask for the timeline of fewer ranks or micro-batches");
	}
	shown->events += (uint64_t)times;
	for (double i = 0; i < times; i++)
		LK_TRY(shown_put(shown, rank->capture, slice, &event, kind,
		                 slice->start_ps + (int64_t)(i * every), err));
	return LK_OK;
}

lk_status lk_shown_end(lk_shown_ranks *shown, lk_error *err) {
	for (lk_capture *capture = shown->first; capture; capture = capture->next) {
		lk_event step = {.kind = LK_EVENT_NOTE, .dur_ns = shown_ns(shown->end_ps)};
		if (capture->world == 0) capture->world = shown->world;
		if (!shown->simulated) continue;
		capture->simulated = true;
		LK_TRY(shown_lane(capture, false, -1, &step.lane, err));
		LK_TRY(shown_name(shown, capture, "ProfilerStep#0", &step.name, err));
		if (lk_capture_add(capture, &step) == LK_NONE) return lk_oom(err);
	}
	return LK_OK;
}
