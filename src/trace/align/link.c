/* link.c: an execution trace and a capture of the same rank and step. PyTorch gives both the same
 * record function id (since 2.0); older captures have none, and are joined by the order of equal
 * names on a thread, which is the same in both. */
#include "trace/align/traces.h"

#include <stdlib.h>
#include <string.h>
#include "trace/capture/capture.h"
#include "base/check.h"
#include "base/sort.h"

enum { MOST_LANES = 512 }; /* CPU threads that are matched; further ones stay unmatched */

/* A work or an event that needs a partner. */
struct seeker {
	uint32_t name;   /* by the capture's numbering */
	uint32_t thread; /* index of the thread or lane */
	uint32_t place;  /* order on it */
	uint32_t self;   /* number of the work or event */
};

struct linker {
	const lk_works *w;
	const lk_capture *capture;
	lk_link *out;
	LK_VEC(struct seeker) works, events;
	LK_VEC(int64_t) threads; /* of the works */
	uint32_t lanes;
	uint8_t *taken;    /* [c->count] the event is already linked */
	uint32_t *lane_of; /* [threads] LK_NONE */
	uint32_t *shared;  /* [threads * lanes] number of works that could find a partner */
};

static bool seeks(const lk_capture *capture, uint32_t event) {
	return capture->kind[event] == LK_EVENT_OP || capture->kind[event] == LK_EVENT_NOTE;
}

/* ---- by record function id ---- */

static int by_record(const void *a, const void *b, void *context) {
	const lk_capture *capture = context;
	uint32_t x = capture->joins[*(const uint32_t *)a], y = capture->joins[*(const uint32_t *)b];
	return x < y ? -1 : x > y;
}

static uint32_t find_record(const lk_capture *capture, const uint32_t *sorted, uint32_t count,
                            uint32_t record) {
	uint32_t low = 0, high = count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (capture->joins[sorted[middle]] < record) low = middle + 1;
		else high = middle;
	}
	return low < count && capture->joins[sorted[low]] == record ? sorted[low] : LK_NONE;
}

static bool same_name(const struct linker *linker, uint32_t work, uint32_t event) {
	return strcmp(lk_works_text(linker->w, linker->w->name[work]),
	              lk_capture_text(linker->capture, linker->capture->name[event])) == 0;
}

static void link_join(struct linker *linker, uint32_t work, uint32_t event) {
	linker->out->event[work] = event;
	linker->taken[event] = 1;
}

static bool join_records(struct linker *linker) {
	const lk_capture *capture = linker->capture;
	uint32_t *sorted = malloc((capture->count + 1) * sizeof *sorted), count = 0;
	if (!sorted) return false;
	for (uint32_t e = 0; e < capture->count; e++)
		if (seeks(capture, e) && capture->joins[e]) sorted[count++] = e;
	lk_sort_by(sorted, count, sizeof *sorted, by_record, (void *)(uintptr_t)capture);
	for (uint32_t i = 0; i < linker->w->count; i++) {
		uint32_t event = linker->w->record[i]
		                     ? find_record(capture, sorted, count, linker->w->record[i])
		                     : LK_NONE;
		if (event == LK_NONE || linker->taken[event] || !same_name(linker, i, event)) continue;
		link_join(linker, i, event);
		linker->out->by_record++;
	}
	free(sorted);
	return true;
}

/* ---- by order ---- */

static uint32_t thread_index(struct linker *linker, int64_t thread) {
	for (size_t t = linker->threads.count; t-- > 0;)
		if (linker->threads.at[t] == thread) return (uint32_t)t;
	if (linker->threads.count == MOST_LANES || !lk_push(&linker->threads)) return LK_NONE;
	*lk_last(&linker->threads) = thread;
	return (uint32_t)linker->threads.count - 1;
}

static bool list_works(struct linker *linker) {
	for (uint32_t i = 0; i < linker->w->count; i++) {
		if (linker->out->event[i] != LK_NONE || linker->w->kind[i] == LK_NODE_ROOT) continue;
		uint32_t name =
			lk_intern_find(linker->capture->names, lk_works_text(linker->w, linker->w->name[i]));
		uint32_t thread = name == UINT32_MAX ? LK_NONE : thread_index(linker, linker->w->thread[i]);
		if (thread == LK_NONE) continue;
		if (!lk_push(&linker->works)) return false;
		*lk_last(&linker->works) = (struct seeker){name, thread, (uint32_t)linker->works.count,
		                                           i}; /* works are in order of their start */
	}
	return true;
}

static bool list_events(struct linker *linker) {
	const lk_capture *capture = linker->capture;
	for (size_t lane = 0; lane < capture->lanes.count; lane++) {
		bool seen = false;
		for (uint32_t at = capture->lanes.at[lane].begin;
		     at < capture->lanes.at[lane].end && linker->lanes < MOST_LANES; at++) {
			uint32_t event = capture->order[at];
			if (!seeks(capture, event) || linker->taken[event]) continue;
			if (!lk_push(&linker->events)) return false;
			*lk_last(&linker->events) =
				(struct seeker){capture->name[event], linker->lanes, at, event};
			seen = true;
		}
		linker->lanes += seen;
	}
	return true;
}

LK_ORDER_BY(link_by_name, struct seeker, name, thread, place)

/* Length of the run from `at` on with the name and thread of its first element. */
static size_t link_run_of(const struct seeker *list, size_t count, size_t at) {
	size_t end = at;
	while (end < count && list[end].name == list[at].name && list[end].thread == list[at].thread)
		end++;
	return end - at;
}

static size_t link_first_of(const struct linker *linker, uint32_t name, uint32_t thread) {
	struct seeker key = {name, thread, 0, 0};
	size_t low = 0, high = linker->events.count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (link_by_name(&linker->events.at[middle], &key) < 0) low = middle + 1;
		else high = middle;
	}
	return low;
}

/* shared[t][lane] = sum over names of the number that both have */
static void count_shared(struct linker *linker) {
	for (size_t at = 0, run; at < linker->works.count; at += run) {
		const struct seeker *seeker = &linker->works.at[at];
		run = link_run_of(linker->works.at, linker->works.count, at);
		for (size_t e = link_first_of(linker, seeker->name, 0), there;
		     e < linker->events.count && linker->events.at[e].name == seeker->name; e += there) {
			there = link_run_of(linker->events.at, linker->events.count, e);
			linker->shared[seeker->thread * linker->lanes + linker->events.at[e].thread] +=
				(uint32_t)(there < run ? there : run);
		}
	}
}

/* Match greedily: the pair with most in common first. */
static void match_threads(struct linker *linker) {
	for (size_t t = 0; t < linker->threads.count; t++) linker->lane_of[t] = LK_NONE;
	for (;;) {
		size_t best = 0, all = linker->threads.count * linker->lanes;
		for (size_t i = 1; i < all; i++)
			if (linker->shared[i] > linker->shared[best]) best = i;
		if (!all || !linker->shared[best]) return;
		size_t thread = best / linker->lanes, lane = best % linker->lanes;
		linker->lane_of[thread] = (uint32_t)lane;
		for (size_t i = 0; i < linker->lanes; i++) linker->shared[thread * linker->lanes + i] = 0;
		for (size_t i = 0; i < linker->threads.count; i++)
			linker->shared[i * linker->lanes + lane] = 0;
	}
}

static void pair_off(struct linker *linker) {
	for (size_t at = 0, run; at < linker->works.count; at += run) {
		const struct seeker *seeker = &linker->works.at[at];
		run = link_run_of(linker->works.at, linker->works.count, at);
		uint32_t lane = linker->lane_of[seeker->thread];
		if (lane == LK_NONE) continue;
		size_t e = link_first_of(linker, seeker->name, lane);
		if (e == linker->events.count || linker->events.at[e].name != seeker->name ||
		    linker->events.at[e].thread != lane)
			continue;
		size_t there = link_run_of(linker->events.at, linker->events.count, e),
			   both = there < run ? there : run;
		for (size_t i = 0; i < both; i++)
			link_join(linker, seeker[i].self, linker->events.at[e + i].self);
		linker->out->by_order += (uint32_t)both;
		if (there != run) linker->out->uncertain += (uint32_t)both;
	}
}

static bool join_orders(struct linker *linker) {
	if (!list_works(linker) || !list_events(linker)) return false;
	lk_sort(linker->works.at, linker->works.count, sizeof *linker->works.at, link_by_name);
	lk_sort(linker->events.at, linker->events.count, sizeof *linker->events.at, link_by_name);
	linker->lane_of = malloc((linker->threads.count + 1) * sizeof *linker->lane_of);
	linker->shared = calloc(linker->threads.count * linker->lanes + 1, sizeof *linker->shared);
	if (!linker->lane_of || !linker->shared) return false;
	count_shared(linker);
	match_threads(linker);
	pair_off(linker);
	return true;
}

static void count_alone(const struct linker *linker) {
	for (uint32_t i = 0; i < linker->w->count; i++) {
		bool root = linker->w->kind[i] == LK_NODE_ROOT;
		linker->out->roots += root;
		linker->out->alone += !root && linker->out->event[i] == LK_NONE;
	}
	for (uint32_t e = 0; e < linker->capture->count; e++)
		linker->out->events_alone += seeks(linker->capture, e) && !linker->taken[e];
}

lk_status lk_link_works(const lk_works *works, const lk_capture *capture, lk_link *out,
                        lk_error *err) {
	struct linker l = {.w = works, .capture = capture, .out = out};
	*out = (lk_link){.event = malloc((works->count + 1) * sizeof *out->event)};
	l.taken = calloc(capture->count + 1, 1);
	bool good = out->event && l.taken;
	for (uint32_t i = 0; good && i < works->count; i++) out->event[i] = LK_NONE;
	good = good && join_records(&l) && join_orders(&l);
	if (good) count_alone(&l);
	lk_vec_free(&l.works);
	lk_vec_free(&l.events);
	lk_vec_free(&l.threads);
	free(l.taken);
	free(l.lane_of);
	free(l.shared);
	if (good) return LK_OK;
	lk_link_free(out);
	return lk_oom(err);
}

void lk_link_free(lk_link *link) {
	free(link->event);
	link->event = NULL;
}

/* ---- communication ---- */

static lk_status link_take_name(lk_capture *capture, const lk_works *works, uint32_t from,
                                uint32_t *to, bool *learnt, lk_error *err) {
	if (*to || !from) return LK_OK;
	*to = lk_intern_id(capture->names, lk_works_text(works, from));
	*learnt = true;
	return *to == UINT32_MAX ? lk_oom(err) : LK_OK;
}

static lk_status link_learn(lk_capture *capture, const lk_works *works, const lk_comm_note *from,
                            lk_comm_note *to, bool *learnt, lk_error *err) {
	if (to->kind == LK_OP_COUNT && from->kind != LK_OP_COUNT) {
		to->kind = from->kind;
		*learnt = true;
	}
	/* take elements and element size together */
	if (to->in_elements < 0 && from->in_elements >= 0) {
		to->in_elements = from->in_elements;
		to->out_elements = from->out_elements;
		to->element_bytes = from->element_bytes;
		*learnt = true;
	}
	if (!to->element_bytes && from->element_bytes) {
		to->element_bytes = from->element_bytes;
		*learnt = true;
	}
	if (!to->group_size && from->group_size) {
		to->group_size = from->group_size;
		*learnt = true;
	}
	LK_TRY(link_take_name(capture, works, from->dtype, &to->dtype, learnt, err));
	LK_TRY(link_take_name(capture, works, from->group_text, &to->group_text, learnt, err));
	LK_TRY(link_take_name(capture, works, from->ranks, &to->ranks, learnt, err));
	return link_take_name(capture, works, from->group, &to->group, learnt, err);
}

/* The nearest collective that encloses an event of a CPU lane: its index in works->comms, or
 * LK_NONE. */
static uint32_t link_cause_of(const lk_capture *capture, const uint32_t *comm_of, uint32_t event) {
	while (event != LK_NONE && comm_of[event] == LK_NONE) event = capture->parent[event];
	return event == LK_NONE ? LK_NONE : comm_of[event];
}

/* The collective that a device event (on hosts: an operation) belongs to. `known`: the event has a
 * note. */
static uint32_t comm_of_event(const lk_capture *capture, const uint32_t *comm_of, uint32_t event,
                              bool hosts, bool known) {
	LK_ASSERT(event < capture->count);
	if (hosts) return comm_of[event];
	bool comm =
		capture->kind[event] == LK_EVENT_KERNEL && (known || lk_work_communicates(capture, event));
	return comm && capture->launch[event] != LK_NONE
	           ? link_cause_of(capture, comm_of, capture->launch[event])
	           : LK_NONE;
}

static lk_status link_fill(lk_capture *capture, const lk_works *works, const uint32_t *comm_of,
                           uint32_t *filled, lk_error *err) {
	size_t before = capture->comms.count; /* sorted; what is added follows */
	bool hosts = true;
	for (uint32_t e = 0; e < capture->count && hosts; e++)
		hosts = !lk_event_on_device(capture->kind[e]);
	for (uint32_t e = 0; e < capture->count; e++) {
		lk_comm_note fresh = {.event = e,
		                      .kind = LK_OP_COUNT,
		                      .peer = -1,
		                      .in_elements = -1,
		                      .out_elements = -1},
					 *to = NULL;
		if (before) to = bsearch(&fresh, capture->comms.at, before, sizeof fresh, lk_note_order);
		uint32_t from = comm_of_event(capture, comm_of, e, hosts, to != NULL);
		bool learnt = false;
		if (from == LK_NONE) continue;
		LK_TRY(link_learn(capture, works, &works->comms.at[from].note, to ? to : &fresh, &learnt,
		                  err));
		*filled += learnt;
		if (to) continue;
		if (!lk_push(&capture->comms)) return lk_oom(err);
		*lk_last(&capture->comms) = fresh;
	}
	lk_capture_sort_comms(capture);
	return LK_OK;
}

lk_status lk_link_comms(lk_capture *capture, const lk_works *works, const lk_link *link,
                        uint32_t *filled, lk_error *err) {
	uint32_t *comm_of = malloc((capture->count + 1) * sizeof *comm_of);
	*filled = 0;
	if (!comm_of) return lk_oom(err);
	for (uint32_t e = 0; e < capture->count; e++) comm_of[e] = LK_NONE;
	for (size_t i = 0; i < works->comms.count; i++) {
		const lk_work_comm *comm = &works->comms.at[i];
		if (!comm->waits && link->event[comm->note.event] != LK_NONE)
			comm_of[link->event[comm->note.event]] = (uint32_t)i;
	}
	lk_status status = link_fill(capture, works, comm_of, filled, err);
	free(comm_of);
	return status;
}

/* ---- shapes ---- */

static lk_status link_take_text(lk_capture *capture, const lk_works *works, uint32_t from,
                                uint32_t *to, lk_error *err) {
	bool learnt;
	return link_take_name(capture, works, from, to, &learnt, err);
}

static lk_status link_learn_shapes(lk_capture *capture, const lk_works *works, uint32_t work,
                                   lk_shape_note *note, lk_error *err) {
	/* types describe the inputs in order: take both from the trace, or both from the capture */
	if (!note->shape) note->types = 0;
	LK_TRY(link_take_text(capture, works, note->shape ? 0 : works->types[work], &note->types, err));
	LK_TRY(link_take_text(capture, works, works->shape[work], &note->shape, err));
	return link_take_text(capture, works, works->outputs[work], &note->outputs, err);
}

/* `place` has 1 + the index of each event's note, 0 for none; new notes follow the others. */
static lk_status link_note_shapes(lk_capture *capture, const lk_works *works, const lk_link *link,
                                  uint32_t *place, uint32_t *filled, lk_error *err) {
	for (size_t i = 0; i < capture->shapes.count; i++)
		place[capture->shapes.at[i].event] = (uint32_t)i + 1;
	for (uint32_t i = 0; i < works->count; i++) {
		uint32_t event = link->event[i];
		if (event == LK_NONE || capture->kind[event] != LK_EVENT_OP) continue;
		if (!place[event]) {
			if (!(works->shape[i] | works->types[i] | works->outputs[i])) continue;
			if (!lk_push(&capture->shapes)) return lk_oom(err);
			*lk_last(&capture->shapes) = (lk_shape_note){.event = event};
			place[event] = (uint32_t)capture->shapes.count;
		}
		lk_shape_note *note = &capture->shapes.at[place[event] - 1];
		*filled += !note->shape && works->shape[i];
		LK_TRY(link_learn_shapes(capture, works, i, note, err));
	}
	return LK_OK;
}

lk_status lk_link_shapes(lk_capture *capture, const lk_works *works, const lk_link *link,
                         uint32_t *filled, lk_error *err) {
	uint32_t *place = calloc((size_t)capture->count + 1, sizeof *place);
	*filled = 0;
	if (!place) return lk_oom(err);
	lk_status status = link_note_shapes(capture, works, link, place, filled, err);
	free(place);
	lk_notes_sort(capture->shapes.at, capture->shapes.count, sizeof *capture->shapes.at);
	return status;
}
