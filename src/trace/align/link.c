/* link.c: an execution trace and a capture of the same rank and step. PyTorch gives both the same record function id
 * (since 2.0); older captures have none, and are joined by the order of equal names on a thread, which is the same in
 * both. */
#include "trace/align/traces.h"

#include <stdlib.h>
#include <string.h>
#include "trace/capture/capture.h"

enum { MOST_LANES = 512 }; /* CPU threads that are matched; further ones stay alone */

/* A work or an event that looks for its partner. */
struct seeker {
	uint32_t name;           /* as the capture's names are numbered */
	uint32_t thread;         /* index of the thread or lane */
	uint32_t place;          /* order on it */
	uint32_t self;           /* work or event */
};

struct linker {
	const lk_works *w;
	const lk_capture *c;
	lk_link *out;
	LK_VEC(struct seeker) works, events;
	LK_VEC(int64_t) threads; /* of the works */
	uint32_t lanes;
	uint8_t *taken;          /* [c->count] the event has its work */
	uint32_t *lane_of;       /* [threads] LK_NONE */
	uint32_t *shared;        /* [threads * lanes] how many works could find a partner */
};

static bool seeks(const lk_capture *c, uint32_t event) {
	return c->kind[event] == LK_EVENT_OP || c->kind[event] == LK_EVENT_NOTE;
}

/* ---- by record function id ---- */

static int by_record(const void *a, const void *b, void *context) {
	const lk_capture *c = context;
	uint32_t x = c->record[*(const uint32_t *)a], y = c->record[*(const uint32_t *)b];
	return x < y ? -1 : x > y;
}

static uint32_t find_record(const lk_capture *c, const uint32_t *sorted, uint32_t count, uint32_t record) {
	uint32_t low = 0, high = count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (c->record[sorted[middle]] < record) low = middle + 1;
		else high = middle;
	}
	return low < count && c->record[sorted[low]] == record ? sorted[low] : LK_NONE;
}

static bool same_name(const struct linker *l, uint32_t work, uint32_t event) {
	return strcmp(lk_works_text(l->w, l->w->name[work]), lk_capture_text(l->c, l->c->name[event])) == 0;
}

static void join(struct linker *l, uint32_t work, uint32_t event) {
	l->out->event[work] = event;
	l->taken[event] = 1;
}

static bool join_records(struct linker *l) {
	const lk_capture *c = l->c;
	uint32_t *sorted = malloc((c->count + 1) * sizeof *sorted), count = 0;
	if (!sorted) return false;
	for (uint32_t e = 0; e < c->count; e++)
		if (seeks(c, e) && c->record[e]) sorted[count++] = e;
	if (count) qsort_r(sorted, count, sizeof *sorted, by_record, (void *)(uintptr_t)c);
	for (uint32_t i = 0; i < l->w->count; i++) {
		uint32_t event = l->w->record[i] ? find_record(c, sorted, count, l->w->record[i]) : LK_NONE;
		if (event == LK_NONE || l->taken[event] || !same_name(l, i, event)) continue;
		join(l, i, event);
		l->out->by_record++;
	}
	free(sorted);
	return true;
}

/* ---- by order ---- */

static uint32_t thread_index(struct linker *l, int64_t thread) {
	for (size_t t = l->threads.count; t-- > 0;)
		if (l->threads.at[t] == thread) return (uint32_t)t;
	if (l->threads.count == MOST_LANES || !lk_push(&l->threads)) return LK_NONE;
	*lk_last(&l->threads) = thread;
	return (uint32_t)l->threads.count - 1;
}

static bool list_works(struct linker *l) {
	for (uint32_t i = 0; i < l->w->count; i++) {
		if (l->out->event[i] != LK_NONE || l->w->kind[i] == LK_NODE_ROOT) continue;
		uint32_t name = lk_intern_find(l->c->names, lk_works_text(l->w, l->w->name[i]));
		uint32_t thread = name == UINT32_MAX ? LK_NONE : thread_index(l, l->w->thread[i]);
		if (thread == LK_NONE) continue;
		if (!lk_push(&l->works)) return false;
		*lk_last(&l->works) =
			(struct seeker){name, thread, (uint32_t)l->works.count, i}; /* works are in order of their begin */
	}
	return true;
}

static bool list_events(struct linker *l) {
	const lk_capture *c = l->c;
	for (size_t lane = 0; lane < c->lanes.count; lane++) {
		bool seen = false;
		for (uint32_t at = c->lanes.at[lane].begin; at < c->lanes.at[lane].end && l->lanes < MOST_LANES; at++) {
			uint32_t event = c->order[at];
			if (!seeks(c, event) || l->taken[event]) continue;
			if (!lk_push(&l->events)) return false;
			*lk_last(&l->events) = (struct seeker){c->name[event], l->lanes, at, event};
			seen = true;
		}
		l->lanes += seen;
	}
	return true;
}

static int by_name(const void *a, const void *b) {
	const struct seeker *x = a, *y = b;
	if (x->name != y->name) return x->name < y->name ? -1 : 1;
	if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

/* How many of the list from `at` on have the name and thread of the first. */
static size_t run_of(const struct seeker *list, size_t count, size_t at) {
	size_t end = at;
	while (end < count && list[end].name == list[at].name && list[end].thread == list[at].thread) end++;
	return end - at;
}

static size_t first_of(const struct linker *l, uint32_t name, uint32_t thread) {
	struct seeker key = {name, thread, 0, 0};
	size_t low = 0, high = l->events.count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (by_name(&l->events.at[middle], &key) < 0) low = middle + 1;
		else high = middle;
	}
	return low;
}

/* shared[t][lane] = sum over names of how many both have */
static void count_shared(struct linker *l) {
	for (size_t at = 0, run; at < l->works.count; at += run) {
		const struct seeker *s = &l->works.at[at];
		run = run_of(l->works.at, l->works.count, at);
		for (size_t e = first_of(l, s->name, 0), there; e < l->events.count && l->events.at[e].name == s->name;
			 e += there) {
			there = run_of(l->events.at, l->events.count, e);
			l->shared[s->thread * l->lanes + l->events.at[e].thread] += (uint32_t)(there < run ? there : run);
		}
	}
}

/* The pair with most in common first. */
static void match_threads(struct linker *l) {
	for (size_t t = 0; t < l->threads.count; t++) l->lane_of[t] = LK_NONE;
	for (;;) {
		size_t best = 0, all = l->threads.count * l->lanes;
		for (size_t i = 1; i < all; i++)
			if (l->shared[i] > l->shared[best]) best = i;
		if (!all || !l->shared[best]) return;
		size_t thread = best / l->lanes, lane = best % l->lanes;
		l->lane_of[thread] = (uint32_t)lane;
		for (size_t i = 0; i < l->lanes; i++) l->shared[thread * l->lanes + i] = 0;
		for (size_t i = 0; i < l->threads.count; i++) l->shared[i * l->lanes + lane] = 0;
	}
}

static void pair_off(struct linker *l) {
	for (size_t at = 0, run; at < l->works.count; at += run) {
		const struct seeker *s = &l->works.at[at];
		run = run_of(l->works.at, l->works.count, at);
		uint32_t lane = l->lane_of[s->thread];
		if (lane == LK_NONE) continue;
		size_t e = first_of(l, s->name, lane);
		if (e == l->events.count || l->events.at[e].name != s->name || l->events.at[e].thread != lane) continue;
		size_t there = run_of(l->events.at, l->events.count, e), both = there < run ? there : run;
		for (size_t i = 0; i < both; i++) join(l, s[i].self, l->events.at[e + i].self);
		l->out->by_order += (uint32_t)both;
		if (there != run) l->out->uncertain += (uint32_t)both;
	}
}

static bool join_orders(struct linker *l) {
	if (!list_works(l) || !list_events(l)) return false;
	if (l->works.count) qsort(l->works.at, l->works.count, sizeof *l->works.at, by_name);
	if (l->events.count) qsort(l->events.at, l->events.count, sizeof *l->events.at, by_name);
	l->lane_of = malloc((l->threads.count + 1) * sizeof *l->lane_of);
	l->shared = calloc(l->threads.count * l->lanes + 1, sizeof *l->shared);
	if (!l->lane_of || !l->shared) return false;
	count_shared(l);
	match_threads(l);
	pair_off(l);
	return true;
}

static void count_alone(const struct linker *l) {
	for (uint32_t i = 0; i < l->w->count; i++) {
		bool root = l->w->kind[i] == LK_NODE_ROOT;
		l->out->roots += root;
		l->out->alone += !root && l->out->event[i] == LK_NONE;
	}
	for (uint32_t e = 0; e < l->c->count; e++) l->out->events_alone += seeks(l->c, e) && !l->taken[e];
}

lk_status lk_link_works(const lk_works *works, const lk_capture *capture, lk_link *out, lk_error *err) {
	struct linker l = {.w = works, .c = capture, .out = out};
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

static lk_status take_name(lk_capture *c, const lk_works *w, uint32_t from, uint32_t *to, bool *learnt, lk_error *err) {
	if (*to || !from) return LK_OK;
	*to = lk_intern_id(c->names, lk_works_text(w, from));
	*learnt = true;
	return *to == UINT32_MAX ? lk_oom(err) : LK_OK;
}

static lk_status learn(lk_capture *c, const lk_works *w, const lk_comm_note *from, lk_comm_note *to, bool *learnt,
					   lk_error *err) {
	if (to->kind == LK_OP_COUNT && from->kind != LK_OP_COUNT) to->kind = from->kind, *learnt = true;
	/* elements and their size belong together */
	if (to->in_elements < 0 && from->in_elements >= 0) {
		to->in_elements = from->in_elements, to->out_elements = from->out_elements;
		to->element_bytes = from->element_bytes;
		*learnt = true;
	}
	if (!to->element_bytes && from->element_bytes) to->element_bytes = from->element_bytes, *learnt = true;
	if (!to->group_size && from->group_size) to->group_size = from->group_size, *learnt = true;
	LK_TRY(take_name(c, w, from->dtype, &to->dtype, learnt, err));
	LK_TRY(take_name(c, w, from->group_text, &to->group_text, learnt, err));
	LK_TRY(take_name(c, w, from->ranks, &to->ranks, learnt, err));
	return take_name(c, w, from->group, &to->group, learnt, err);
}

/* The nearest collective that encloses an event of a CPU lane: its place in works->comms, or LK_NONE. */
static uint32_t cause_of(const lk_capture *c, const uint32_t *comm_of, uint32_t event) {
	while (event != LK_NONE && comm_of[event] == LK_NONE) event = c->parent[event];
	return event == LK_NONE ? LK_NONE : comm_of[event];
}

/* The collective that a device event belongs to; on hosts, that an operation is. `known`: the event has a note. */
static uint32_t comm_of_event(const lk_capture *c, const uint32_t *comm_of, uint32_t event, bool hosts, bool known) {
	unsigned kind;
	if (hosts) return comm_of[event];
	bool comm =
		c->kind[event] == LK_EVENT_KERNEL && (known || lk_comm_kernel(lk_capture_text(c, c->name[event]), &kind));
	return comm && c->launch[event] != LK_NONE ? cause_of(c, comm_of, c->launch[event]) : LK_NONE;
}

static int by_event(const void *a, const void *b) {
	const lk_comm_note *x = a, *y = b;
	return x->event < y->event ? -1 : x->event > y->event;
}

static lk_status fill(lk_capture *c, const lk_works *w, const uint32_t *comm_of, uint32_t *filled, lk_error *err) {
	size_t before = c->comms.count; /* sorted; what is added stands behind */
	bool hosts = true;
	for (uint32_t e = 0; e < c->count && hosts; e++) hosts = !lk_event_on_device(c->kind[e]);
	for (uint32_t e = 0; e < c->count; e++) {
		lk_comm_note fresh = {.event = e, .kind = LK_OP_COUNT, .peer = -1, .in_elements = -1, .out_elements = -1},
					 *to = NULL;
		if (before) to = bsearch(&fresh, c->comms.at, before, sizeof fresh, by_event);
		uint32_t from = comm_of_event(c, comm_of, e, hosts, to != NULL);
		bool learnt = false;
		if (from == LK_NONE) continue;
		LK_TRY(learn(c, w, &w->comms.at[from].note, to ? to : &fresh, &learnt, err));
		*filled += learnt;
		if (to) continue;
		if (!lk_push(&c->comms)) return lk_oom(err);
		*lk_last(&c->comms) = fresh;
	}
	if (c->comms.count) qsort(c->comms.at, c->comms.count, sizeof *c->comms.at, by_event);
	return LK_OK;
}

lk_status lk_link_comms(lk_capture *capture, const lk_works *works, const lk_link *link, uint32_t *filled,
						lk_error *err) {
	uint32_t *comm_of = malloc((capture->count + 1) * sizeof *comm_of);
	*filled = 0;
	if (!comm_of) return lk_oom(err);
	for (uint32_t e = 0; e < capture->count; e++) comm_of[e] = LK_NONE;
	for (size_t i = 0; i < works->comms.count; i++) {
		const lk_work_comm *comm = &works->comms.at[i];
		if (!comm->waits && link->event[comm->note.event] != LK_NONE)
			comm_of[link->event[comm->note.event]] = (uint32_t)i;
	}
	lk_status status = fill(capture, works, comm_of, filled, err);
	free(comm_of);
	return status;
}

/* ---- shapes ---- */

static lk_status take_text(lk_capture *c, const lk_works *w, uint32_t from, uint32_t *to, lk_error *err) {
	bool learnt;
	return take_name(c, w, from, to, &learnt, err);
}

lk_status lk_link_shapes(lk_capture *c, const lk_works *w, const lk_link *link, uint32_t *filled, lk_error *err) {
	*filled = 0;
	for (uint32_t i = 0; i < w->count; i++) {
		uint32_t event = link->event[i];
		if (event == LK_NONE || c->kind[event] != LK_EVENT_OP) continue;
		*filled += !c->shape[event] && w->shape[i];
		/* types describe the inputs in their order: both are the trace's, or both the capture's */
		if (!c->shape[event]) c->types[event] = 0;
		LK_TRY(take_text(c, w, c->shape[event] ? 0 : w->types[i], &c->types[event], err));
		LK_TRY(take_text(c, w, w->shape[i], &c->shape[event], err));
		LK_TRY(take_text(c, w, w->outputs[i], &c->outputs[event], err));
	}
	return LK_OK;
}
