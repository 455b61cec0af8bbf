/* comm_calls.c: the communication calls of every rank, and the process group of each. Newer traces
 * name the group and its ranks at each kernel. Older ones have only the kernel's name: then kind
 * and size come from the annotation around the launch ("nccl:all_reduce", Input Dims), and calls on
 * one stream are assumed to be one group. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "graph/graph.h"
#include "trace/capture/capture.h"
#include "trace/align/traces.h"
#include "base/check.h"
#include "base/sort.h"

enum { MOST_ENCLOSING = 16, HOST_CALL = 64 };

struct finder {
	lk_traces *traces;
	lk_run_calls *calls;
	lk_intern *groups; /* text that identifies a group; id - 1 is the group */
	bool by_place; /* streams are compared by their place among a rank's communication streams, not
	                  by number */
	/* of the current capture */
	uint32_t capture;
	const lk_capture *c;
	uint8_t *name_kind; /* [names]: 1 + lk_op_kind of a communication kernel's name; + HOST_CALL for
	                       a host operation; else 0 */
	bool launched;      /* every kernel has its launch, so calls are ordered by launch */
	LK_VEC(int64_t) streams; /* streams that communicate, ascending */
	struct {
		uint32_t name, ranks, group;
		int32_t peer;
		uint8_t direction;
	} last; /* the last lookup; group LK_NONE: none */
	lk_error *err;
};

/* ---- which events ---- */

/* gloo and MPI work on the host: their annotations are the calls. */
static bool host_call(const char *name, unsigned *kind) {
	if (strncmp(name, "gloo:", 5) != 0 && strncmp(name, "mpi:", 4) != 0) return false;
	*kind = lk_comm_kind(strchr(name, ':') + 1);
	return true;
}

static lk_status learn_names(struct finder *finder) {
	uint32_t n = lk_intern_count(finder->c->names);
	free(finder->name_kind);
	finder->name_kind = calloc((size_t)n + 1, 1);
	if (!finder->name_kind) return lk_oom(finder->err);
	for (uint32_t id = 0; id < n; id++) {
		unsigned kind;
		const char *name = lk_capture_text(finder->c, id);
		if (strcmp(name, LK_SOCKETS) == 0) continue;
		if (lk_comm_kernel(name, &kind)) finder->name_kind[id] = (uint8_t)(1 + kind);
		else if (host_call(name, &kind)) finder->name_kind[id] = (uint8_t)(HOST_CALL + 1 + kind);
	}
	return LK_OK;
}

static bool is_call(const struct finder *finder, uint32_t event) {
	uint8_t kind = finder->name_kind[finder->c->name[event]];
	if (finder->c->kind[event] == LK_EVENT_KERNEL) return kind > 0 && kind < HOST_CALL;
	return (finder->c->kind[event] == LK_EVENT_NOTE || finder->c->kind[event] == LK_EVENT_OP) &&
	       kind > HOST_CALL;
}

/* ---- what the trace states about a call ---- */

struct said {
	lk_comm_note note;
	unsigned kind;
	int64_t bytes;
};

/* Bytes of one tensor, "[[6144,4]]" of "[float]"; -1 for several tensors or an unknown type. */
static int64_t tensor_bytes(const char *shape, const char *types) {
	size_t length = strlen(types);
	char type[64];
	if (strncmp(shape, "[[", 2) != 0 || length < 3 || length >= sizeof type) return -1;
	lk_copy(type, sizeof type, types + 1);
	type[length - 2] = '\0';
	double bytes = lk_comm_element_bytes(type);
	const char *at = shape + 2;
	while (*at != ']') {
		const char *end;
		bytes *= lk_read_real(at, &end);
		if (end == at) return -1;
		at = *end == ',' ? end + 1 : end;
	}
	return strcmp(at, "]]") == 0 && bytes > 0 && bytes < 9e18 ? (int64_t)bytes : -1;
}

static void take_note(struct said *said, const lk_comm_note *note) {
	if (said->note.group == 0 && said->note.ranks == 0) {
		lk_comm_note had = said->note;
		said->note = *note;
		if (said->note.peer < 0) said->note.peer = had.peer;
	}
	if (said->kind == LK_OP_COUNT) said->kind = note->kind;
	int64_t elements =
		note->in_elements > note->out_elements ? note->in_elements : note->out_elements;
	int64_t bytes;
	if (said->bytes < 0 && elements >= 0 && note->element_bytes &&
	    !__builtin_mul_overflow(elements, note->element_bytes, &bytes))
		said->bytes = bytes;
}

/* Read the annotation of an older trace. It has the input only, so an all-gather's message stays
 * unknown. */
static void take_annotation(struct said *said, const lk_capture *capture, uint32_t event) {
	LK_ASSERT(event < capture->count);
	unsigned kind = lk_comm_kind(lk_capture_text(capture, capture->name[event]) + 5);
	if (said->kind == LK_OP_COUNT) said->kind = kind;
	if (said->bytes >= 0 || kind == LK_OP_ALLGATHER) return;
	const lk_shape_note *note = lk_capture_shape(capture, event);
	said->bytes =
		tensor_bytes(lk_capture_text(capture, note->shape), lk_capture_text(capture, note->types));
}

/* Collect from the event itself, then from what encloses it or its launch. */
static struct said calls_ask(const struct finder *finder, uint32_t event) {
	const lk_capture *capture = finder->c;
	struct said s = {
		.note = {.kind = LK_OP_COUNT, .peer = -1, .in_elements = -1, .out_elements = -1},
		.kind = LK_OP_COUNT,
		.bytes = -1};
	bool device = capture->kind[event] == LK_EVENT_KERNEL;
	const lk_comm_note *own = lk_capture_comm(capture, event);
	if (own) take_note(&s, own);
	uint32_t at = device ? capture->launch[event] : event;
	for (int depth = 0; at != LK_NONE && depth < MOST_ENCLOSING;
	     depth++, at = capture->parent[at]) {
		const lk_comm_note *note = at != event ? lk_capture_comm(capture, at) : NULL;
		if (note) take_note(&s, note);
		const char *name = lk_capture_text(capture, capture->name[at]);
		if (capture->kind[at] == LK_EVENT_NOTE &&
		    (strncmp(name, "nccl:", 5) == 0 || strncmp(name, "gloo:", 5) == 0))
			take_annotation(&s, capture, at);
	}
	if (s.kind == LK_OP_COUNT)
		s.kind = (finder->name_kind[capture->name[event]] & (HOST_CALL - 1)) - 1u;
	return s;
}

/* ---- groups ---- */

static bool whole_list(const char *ranks) {
	return ranks[0] == '[' && !strstr(ranks, "...");
}

/* A kernel may leave out or shorten the list; then look in the file's head. */
static const char *calls_ranks_of(const lk_capture *capture, const lk_comm_note *note) {
	const char *ranks = lk_capture_text(capture, note->ranks),
			   *name = lk_capture_text(capture, note->group);
	if (whole_list(ranks)) return ranks;
	for (size_t i = 0; i < capture->groups.count; i++) {
		const lk_capture_group *group = &capture->groups.at[i];
		if (strcmp(lk_capture_text(capture, group->name), name) == 0 &&
		    whole_list(lk_capture_text(capture, group->ranks)))
			return lk_capture_text(capture, group->ranks);
	}
	return ranks;
}

static int32_t list_size(const char *ranks) {
	if (!whole_list(ranks) || strcmp(ranks, "[]") == 0) return 0;
	int32_t n = 1;
	for (; *ranks; ranks++) n += *ranks == ',';
	return n;
}

static lk_status group_of_key(struct finder *finder, const char *key, const char *name,
                              const char *ranks, int32_t size, bool told, uint32_t *out) {
	lk_traces *traces = finder->traces;
	uint32_t id = lk_intern_id(finder->groups, key);
	if (id == UINT32_MAX) return lk_oom(finder->err);
	*out = id - 1;
	if (*out < traces->groups.count) return LK_OK;
	if (!lk_push(&traces->groups) || !lk_push(&finder->calls->told)) return lk_oom(finder->err);
	lk_run_group *group = lk_last(&traces->groups);
	*lk_last(&finder->calls->told) = told;
	group->size = size;
	group->name = lk_arena_strdup(&traces->arena, name);
	group->ranks = lk_arena_strdup(&traces->arena, ranks);
	return group->name && group->ranks ? LK_OK : lk_oom(finder->err);
}

static bool calls_message(const struct said *said) {
	return said->kind == LK_OP_SEND || said->kind == LK_OP_RECV;
}

static int32_t told_size(const struct finder *finder, const struct said *said) {
	return said->note.group_size > 0 ? said->note.group_size
	                                 : list_size(calls_ranks_of(finder->c, &said->note));
}

/* A message needs its peer, unless the group has only two ranks. */
static bool can_be_matched(const struct finder *finder, const struct said *said) {
	bool told = said->note.group || said->note.ranks;
	return !calls_message(said) || (told && (said->note.peer >= 0 || told_size(finder, said) == 2));
}

/* Messages between two ranks form a group of their own: "0 (2 to 3)". */
static char *channel(const struct finder *finder, const struct said *said, lk_arena *arena,
                     const char **ranks) {
	int32_t mine = finder->c->rank, peer = said->note.peer;
	if (!calls_message(said)) return lk_arena_strdup(arena, "");
	if (peer < 0) return lk_arena_strdup(arena, " (send and receive)");
	*ranks =
		lk_arena_printf(arena, "[%d, %d]", mine < peer ? mine : peer, mine < peer ? peer : mine);
	bool send = said->kind == LK_OP_SEND;
	return *ranks ? lk_arena_printf(arena, " (%d to %d)", send ? mine : peer, send ? peer : mine)
	              : NULL;
}

static lk_status new_told_group(struct finder *finder, const struct said *said, uint32_t *out) {
	const lk_capture *capture = finder->c;
	const char *name = lk_capture_text(capture, said->note.group),
			   *text = lk_capture_text(capture, said->note.group_text);
	const char *ranks = calls_ranks_of(capture, &said->note);
	const char *shown;
	if (*text && strcmp(text, "undefined") != 0) shown = text;
	else if (*name) shown = name;
	else shown = "unnamed";
	lk_arena scratch = LK_ARENA_INIT;
	char *between = channel(finder, said, &scratch, &ranks);
	char *key = between ? lk_arena_printf(&scratch, "%s\x1f%s\x1f%s", name, ranks, between) : NULL;
	char *full = between ? lk_arena_printf(&scratch, "%s%s", shown, between) : NULL;
	int32_t size = calls_message(said) ? 2 : told_size(finder, said);
	lk_status status =
		key && full ? group_of_key(finder, key, full, ranks, size, true, out) : lk_oom(finder->err);
	lk_arena_free(&scratch);
	return status;
}

/* Consecutive calls mostly have the same group. */
static lk_status told_group(struct finder *finder, const struct said *said, uint32_t *out) {
	const lk_comm_note *note = &said->note;
	uint8_t direction;
	if (said->kind == LK_OP_SEND) direction = 1;
	else if (said->kind == LK_OP_RECV) direction = 2;
	else direction = 0;
	if (finder->last.group == LK_NONE || finder->last.name != note->group ||
	    finder->last.ranks != note->ranks || finder->last.peer != note->peer ||
	    finder->last.direction != direction) {
		finder->last.group = LK_NONE;
		LK_TRY(new_told_group(finder, said, &finder->last.group));
		finder->last.name = note->group;
		finder->last.ranks = note->ranks;
		finder->last.peer = note->peer;
		finder->last.direction = direction;
	}
	*out = finder->last.group;
	return LK_OK;
}

static lk_status stream_group(struct finder *finder, uint32_t event, uint32_t *out) {
	const lk_lane *lane = &finder->c->lanes.at[finder->c->lane[event]];
	char name[64], key[80];
	if (!lane->stream) {
		snprintf(name, sizeof name, "host");
	} else if (finder->by_place) {
		int64_t *at = finder->streams.count ? bsearch(&lane->thread, finder->streams.at,
		                                              finder->streams.count, sizeof *at, lk_by_i64)
		                                    : NULL;
		snprintf(name, sizeof name, "communication stream %td",
		         at ? at - finder->streams.at + 1 : (ptrdiff_t)0);
	} else snprintf(name, sizeof name, "stream %lld", (long long)lane->thread);
	snprintf(key, sizeof key, "\x1f%s", name);
	return group_of_key(finder, key, name, "", 0, false, out);
}

/* ---- one capture ---- */

static lk_status find_streams(struct finder *finder) {
	const lk_capture *capture = finder->c;
	finder->streams.count = 0;
	finder->launched = true;
	bool *seen = calloc(capture->lanes.count + 1, sizeof *seen);
	if (!seen) return lk_oom(finder->err);
	for (uint32_t i = 0; i < capture->count; i++) {
		if (!is_call(finder, i) || capture->kind[i] != LK_EVENT_KERNEL) continue;
		finder->launched &= capture->launch[i] != LK_NONE;
		const lk_comm_note *note = lk_capture_comm(capture, i);
		if (note && (note->group || note->ranks)) continue;
		if (!capture->lanes.at[capture->lane[i]].stream || seen[capture->lane[i]]) continue;
		seen[capture->lane[i]] = true;
		if (!lk_push(&finder->streams)) {
			free(seen);
			return lk_oom(finder->err);
		}
		*lk_last(&finder->streams) = capture->lanes.at[capture->lane[i]].thread;
	}
	free(seen);
	lk_sort(finder->streams.at, finder->streams.count, sizeof *finder->streams.at, lk_by_i64);
	return LK_OK;
}

static lk_status begin_capture(struct finder *finder, uint32_t capture) {
	finder->capture = capture;
	finder->c = finder->traces->capture[capture];
	finder->last.group = LK_NONE;
	LK_TRY(learn_names(finder));
	return find_streams(finder);
}

LK_ORDER_BY(calls_by_group, lk_comm_call, group, tag, issued, end, event)

static lk_status calls_find_calls(struct finder *finder) {
	const lk_capture *capture = finder->c;
	lk_comm_calls *list = &finder->calls->of[finder->capture];
	int64_t base = lk_clock_base(finder->traces, finder->capture);
	uint32_t loose = 0;
	for (uint32_t i = 0; i < capture->count; i++) {
		if (!is_call(finder, i)) continue;
		struct said s = calls_ask(finder, i);
		uint32_t group;
		if (!can_be_matched(finder, &s)) {
			loose++;
			continue;
		}
		if (s.note.group || s.note.ranks) LK_TRY(told_group(finder, &s, &group));
		else LK_TRY(stream_group(finder, i, &group));
		if (!lk_push(list)) return lk_oom(finder->err);
		bool device = capture->kind[i] == LK_EVENT_KERNEL;
		*lk_last(list) = (lk_comm_call){.event = i,
		                                .group = group,
		                                .kind = (uint8_t)s.kind,
		                                .bytes = s.bytes,
		                                .uneven = s.note.uneven || s.kind == LK_OP_ALLTOALL,
		                                .tag = calls_message(&s) ? s.note.tag : 0,
		                                .issued = device && finder->launched
		                                              ? capture->start_ns[capture->launch[i]]
		                                              : capture->start_ns[i],
		                                .end = lk_add_saturated(base, lk_event_end(capture, i))};
	}
	if (loose && finder->traces->count > 1)
		lk_traces_warn(finder->traces,
		               "%s: %u sends and receives are not matched: the trace does not name their "
		               "partner",
		               capture->path, loose);
	lk_sort(list->at, list->count, sizeof *list->at, calls_by_group);
	return LK_OK;
}

/* Compare streams by number or by place. Stream numbers are the driver's. They agree between equal
 * processes; where they do not, their order may. */
static lk_status compare_streams(struct finder *finder) {
	LK_VEC(int64_t) first = {0};
	bool equal = true, as_many = true, any = false;
	lk_status status = LK_OK;
	for (uint32_t k = 0; k < finder->traces->count && status == LK_OK; k++) {
		status = begin_capture(finder, k);
		if (status != LK_OK || !finder->streams.count) continue;
		size_t n = finder->streams.count;
		if (!any) {
			any = true;
			if (!lk_reserve(&first, n)) status = lk_oom(finder->err);
			else memcpy(first.at, finder->streams.at, (first.count = n) * sizeof *first.at);
			continue;
		}
		as_many &= n == first.count;
		equal &=
			n == first.count && memcmp(first.at, finder->streams.at, n * sizeof *first.at) == 0;
	}
	lk_vec_free(&first);
	finder->by_place = !equal && as_many;
	return status;
}

lk_status lk_calls_find(lk_traces *traces, lk_run_calls *calls, lk_error *err) {
	struct finder f = {.traces = traces, .calls = calls, .groups = lk_intern_new(), .err = err};
	calls->of = calloc((size_t)traces->count + 1, sizeof *calls->of);
	lk_status status = f.groups && calls->of ? compare_streams(&f) : lk_oom(err);
	for (uint32_t k = 0; k < traces->count && status == LK_OK; k++) {
		status = begin_capture(&f, k);
		if (status == LK_OK) status = calls_find_calls(&f);
	}
	lk_intern_free(f.groups);
	free(f.name_kind);
	lk_vec_free(&f.streams);
	return status;
}

void lk_calls_free(const lk_traces *traces, lk_run_calls *calls) {
	for (uint32_t k = 0; calls->of && k < traces->count; k++) lk_vec_free(&calls->of[k]);
	free(calls->of);
	lk_vec_free(&calls->told);
}
