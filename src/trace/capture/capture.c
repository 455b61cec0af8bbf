/* capture.c: the columns of a capture, and what finishing derives from them. */
#include "base/arena.h"
#include "trace/capture/capture.h"

#include <stdlib.h>
#include <string.h>
#include "base/check.h"
#include "base/stats.h"
#include "base/noun.h"
#include "system/parallel.h"

enum {
	MOST_WARNINGS = 64,
	/* Profiles nest some tens deep. Deeper events get the last of these as parent, so that the path
	 * to the top stays short. */
	MOST_NESTED = 256,
	FEW_EVENTS = 1 << 16, /* not worth another thread */
};

lk_capture *lk_capture_new(const char *path, const char *format) {
	lk_capture *capture = calloc(1, sizeof *capture);
	if (!capture) return NULL;
	capture->rank = -1;
	capture->format = format;
	capture->names = lk_intern_new();
	capture->path = lk_arena_strdup(&capture->arena, path);
	if (!capture->names || !capture->path) {
		lk_capture_free(capture);
		return NULL;
	}
	return capture;
}

/* Every column, X(type, name). */
/* clang-format off */
#define COLUMNS(X) \
	X(int64_t, start_ns) X(int64_t, dur_ns) X(uint8_t, kind) X(uint16_t, lane) X(uint32_t, name) X(uint32_t, joins)
/* clang-format on */

void lk_capture_free(lk_capture *capture) {
	if (!capture) return;
	lk_capture_free(capture->next);
#define FREE(type, name) free(capture->name);
	COLUMNS(FREE)
#undef FREE
	free(capture->order);
	free(capture->parent);
	free(capture->launch);
	lk_vec_free(&capture->lanes);
	lk_vec_free(&capture->comms);
	lk_vec_free(&capture->syncs);
	lk_vec_free(&capture->shapes);
	lk_vec_free(&capture->copies);
	lk_vec_free(&capture->kinds);
	lk_vec_free(&capture->grads);
	lk_vec_free(&capture->modules);
	lk_vec_free(&capture->groups);
	lk_vec_free(&capture->warnings);
	lk_vec_free(&capture->damages);
	lk_lane_map_free(&capture->lane_map);
	free(capture->comm_names);
	free(capture->comm_bits);
	lk_intern_free(capture->names);
	lk_arena_free(&capture->arena);
	free(capture);
}

/* Consecutive events mostly have the same lane. */
uint32_t lk_capture_lane(lk_capture *capture, bool stream, int64_t process, int64_t thread) {
	if (capture->last_lane < capture->lanes.count) {
		const lk_lane *lane = &capture->lanes.at[capture->last_lane];
		if (lane->thread == thread && lane->process == process && lane->stream == stream)
			return capture->last_lane;
	}
	uint32_t *number = lk_lane_map_at(&capture->lane_map, (lk_lane_key){process, thread, stream});
	if (!number) return LK_NONE;
	if (*number == LK_NONE) {
		if (capture->lanes.count == LK_MOST_LANES || !lk_push(&capture->lanes)) return LK_NONE;
		*lk_last(&capture->lanes) =
			(lk_lane){.process = process, .thread = thread, .stream = stream};
		*number = (uint32_t)capture->lanes.count - 1;
	}
	return capture->last_lane = *number;
}

static bool capture_grow(lk_capture *capture, uint64_t count) {
	uint64_t capacity = capture->capacity ? capture->capacity + capture->capacity / 2 : 1u << 12;
	if (capacity < count) capacity = count;
	if (capacity >= LK_NONE) return false;
#define GROW(type, name)                                                        \
	{                                                                           \
		type *grown = realloc(capture->name, capacity * sizeof *capture->name); \
		if (!grown) return false;                                               \
		capture->name = grown;                                                  \
	}
	COLUMNS(GROW)
#undef GROW
	capture->capacity = (uint32_t)capacity;
	return true;
}

/* Limit to 73 years either way, so that no difference or sum of two times overflows. */
static int64_t within_range(int64_t ns) {
	const int64_t most = 1LL << 61;
	if (ns > most) return most;
	if (ns < -most) return -most;
	return ns;
}

/* Add the notes of event `i`, the last one added. */
static bool capture_add_notes(lk_capture *capture, uint32_t i, const lk_event *event) {
	if (event->shape | event->types | event->outputs) {
		if (!lk_push(&capture->shapes)) return false;
		*lk_last(&capture->shapes) = (lk_shape_note){i, event->shape, event->types, event->outputs};
	}
	if (event->bytes > 0) {
		if (!lk_push(&capture->copies)) return false;
		*lk_last(&capture->copies) = (lk_copy_note){i, event->bytes};
	}
	return true;
}

lk_status lk_capture_name(lk_capture *capture, const lk_read_limits *limits, const char *text,
                          uint32_t *out, lk_error *err) {
	uint64_t most = limits->names ? limits->names : 16u << 20;
	*out = lk_intern_id(capture->names, text);
	if (*out == UINT32_MAX) return lk_oom(err);
	if (*out < most) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, capture->path, "holds over %llu different names",
	        (unsigned long long)most);
	return lk_hint(err, "raise the limit of names");
}

lk_status lk_capture_room(const lk_capture *capture, const lk_read_limits *limits, size_t apart,
                          lk_error *err) {
	uint64_t most = limits->events ? limits->events : 1000000000;
	if (capture->count + apart < most) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, capture->path, "holds over %llu %s", (unsigned long long)most,
	        lk_noun(most, "event", "events"));
	return lk_hint(err, "raise the limit of events, or profile fewer steps");
}

uint32_t lk_capture_add(lk_capture *capture, const lk_event *event) {
	LK_ASSERT((unsigned)event->kind < LK_EVENT_KINDS && event->lane < capture->lanes.count);
	LK_ASSERT(event->name < lk_intern_count(capture->names));
	if (capture->count == capture->capacity && !capture_grow(capture, 0)) return LK_NONE;
	LK_ASSERT(capture->count < capture->capacity);
	uint32_t i = capture->count++;
	capture->start_ns[i] = within_range(event->start_ns);
	capture->dur_ns[i] = event->dur_ns > 0 ? within_range(event->dur_ns) : 0;
	capture->kind[i] = (uint8_t)event->kind;
	capture->lane[i] = (uint16_t)event->lane;
	capture->name[i] = event->name;
	bool recorded = event->kind == LK_EVENT_OP || event->kind == LK_EVENT_NOTE;
	capture->joins[i] = recorded ? event->record : event->correlation;
	return capture_add_notes(capture, i, event) ? i : LK_NONE;
}

bool lk_capture_add_module(lk_capture *capture, const lk_module_call *call) {
	LK_ASSERT(call->lane < capture->lanes.count && call->name < lk_intern_count(capture->names));
	if (!lk_push(&capture->modules)) return false;
	*lk_last(&capture->modules) = (lk_module_call){.start_ns = within_range(call->start_ns),
	                                               .dur_ns = within_range(call->dur_ns),
	                                               .lane = call->lane,
	                                               .name = call->name};
	return true;
}

/* Append notes of `from`; `each` translates the numbers of `note`. */
#define APPEND_NOTES(capture, from, field, note, each)                     \
	if (!lk_reserve(&(capture)->field, (from)->field.count)) return false; \
	for (size_t k = 0; k < (from)->field.count; k++) {                     \
		note = (from)->field.at[k];                                        \
		note.event += first;                                               \
		each;                                                              \
		(capture)->field.at[(capture)->field.count++] = note;              \
	}

static bool append_notes(lk_capture *capture, const lk_capture *from, uint32_t first,
                         const uint32_t *names, const uint32_t *lanes) {
	lk_comm_note comm;
	lk_sync_note sync;
	lk_shape_note shape;
	lk_copy_note copy;
	lk_grad_note grad;
	APPEND_NOTES(capture, from, comms, comm, {
		comm.dtype = names[comm.dtype];
		comm.group = names[comm.group];
		comm.group_text = names[comm.group_text];
		comm.ranks = names[comm.ranks];
	})
	APPEND_NOTES(capture, from, syncs, sync, {
		if (sync.stream != LK_NONE) sync.stream = lanes[sync.stream];
		if (sync.on != LK_NONE) sync.on = lanes[sync.on];
	})
	APPEND_NOTES(capture, from, shapes, shape, {
		shape.shape = names[shape.shape];
		shape.types = names[shape.types];
		shape.outputs = names[shape.outputs];
	})
	APPEND_NOTES(capture, from, copies, copy, {})
	APPEND_NOTES(capture, from, grads, grad, {})
	if (!lk_reserve(&capture->modules, from->modules.count)) return false;
	for (size_t k = 0; k < from->modules.count; k++) {
		lk_module_call call = from->modules.at[k];
		call.lane = lanes[call.lane];
		call.name = names[call.name];
		capture->modules.at[capture->modules.count++] = call;
	}
	LK_ASSERT(!from->kinds.count); /* no file with them is read in pieces */
	return true;
}

bool lk_capture_append(lk_capture *capture, const lk_capture *from, const uint32_t *names,
                       const uint32_t *lanes) {
	uint64_t count = (uint64_t)capture->count + from->count;
	if (count > capture->capacity && !capture_grow(capture, count)) return false;
	uint32_t first = capture->count;
	size_t n = from->count;
	if (n) {
		memcpy(capture->start_ns + first, from->start_ns, n * sizeof *from->start_ns);
		memcpy(capture->dur_ns + first, from->dur_ns, n * sizeof *from->dur_ns);
		memcpy(capture->kind + first, from->kind, n * sizeof *from->kind);
		memcpy(capture->joins + first, from->joins, n * sizeof *from->joins);
	}
	for (size_t i = 0; i < n; i++) capture->lane[first + i] = (uint16_t)lanes[from->lane[i]];
	for (size_t i = 0; i < n; i++) capture->name[first + i] = names[from->name[i]];
	capture->count += from->count;
	return append_notes(capture, from, first, names, lanes);
}

void lk_capture_empty(lk_capture *capture) {
	capture->count = 0;
	capture->comms.count = capture->syncs.count = 0;
	capture->shapes.count = capture->copies.count = 0;
	capture->grads.count = capture->modules.count = 0;
	capture->dropped = 0;
}

void lk_capture_warn(lk_capture *capture, const char *fmt, ...) {
	if (capture->warnings.count >= MOST_WARNINGS) return;
	char text[400];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	const char *kept =
		lk_arena_printf(&capture->arena, "W%zu: %s", capture->warnings.count + 1, text);
	if (kept && lk_push(&capture->warnings)) *lk_last(&capture->warnings) = kept;
}

void lk_capture_damage(lk_capture *capture, uint64_t places, const char *fmt, ...) {
	capture->damaged += places;
	if (capture->damages.count >= MOST_WARNINGS) return;
	char text[800];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	const char *kept = lk_arena_strdup(&capture->arena, text);
	if (kept && lk_push(&capture->damages)) *lk_last(&capture->damages) = kept;
}

/* ---- finishing ---- */

static void rebase(lk_capture *capture) {
	int64_t first = INT64_MAX;
	for (uint32_t i = 0; i < capture->count; i++)
		if (capture->start_ns[i] < first) first = capture->start_ns[i];
	if (!capture->count) return;
	if (__builtin_add_overflow(capture->origin_ns, first, &capture->origin_ns))
		capture->origin_ns = first < 0 ? INT64_MIN : INT64_MAX;
	for (uint32_t i = 0; i < capture->count; i++) capture->start_ns[i] -= first;
	for (size_t i = 0; i < capture->modules.count; i++) capture->modules.at[i].start_ns -= first;
}

/* Whether event i comes after event j on their lane. */
static bool capture_behind(const lk_capture *capture, uint32_t i, uint32_t j) {
	if (capture->start_ns[i] != capture->start_ns[j])
		return capture->start_ns[i] > capture->start_ns[j];
	if (capture->dur_ns[i] != capture->dur_ns[j]) return capture->dur_ns[i] < capture->dur_ns[j];
	/* Of equal extent, the enclosing kind comes first. */
	static const uint8_t rank[LK_EVENT_KINDS] = {
		[LK_EVENT_NOTE] = 0, [LK_EVENT_OP] = 1, [LK_EVENT_RUNTIME] = 2};
	if (rank[capture->kind[i]] != rank[capture->kind[j]])
		return rank[capture->kind[i]] > rank[capture->kind[j]];
	return i > j;
}

/* Merge sort. Files are mostly long ordered stretches, so most halves need no merging. `spare`
 * holds half of the events. */
static void sort_events(const lk_capture *capture, uint32_t *events, size_t count,
                        uint32_t *spare) {
	if (count < 2) return;
	size_t half = count / 2;
	sort_events(capture, events, half, spare);
	sort_events(capture, events + half, count - half, spare);
	if (!capture_behind(capture, events[half - 1], events[half])) return;
	memcpy(spare, events, half * sizeof *spare);
	size_t left = 0, right = half, to = 0;
	while (left < half && right < count)
		events[to++] =
			capture_behind(capture, spare[left], events[right]) ? events[right++] : spare[left++];
	LK_ASSERT(left <= half && to + (half - left) == right);
	memcpy(events + to, spare + left, (half - left) * sizeof *spare);
}

/* Counting sort by lane, then each lane by time. */
static bool sort_lanes(lk_capture *capture) {
	capture->order = malloc((capture->count + 1) * sizeof *capture->order);
	uint32_t *spare = malloc((capture->count / 2 + 1) * sizeof *spare);
	if (!capture->order || !spare) {
		free(spare);
		return false;
	}
	for (uint32_t i = 0; i < capture->count; i++) capture->lanes.at[capture->lane[i]].end++;
	uint32_t begin = 0;
	for (size_t l = 0; l < capture->lanes.count; l++) {
		uint32_t count = capture->lanes.at[l].end;
		capture->lanes.at[l].begin = capture->lanes.at[l].end = begin;
		begin += count;
	}
	for (uint32_t i = 0; i < capture->count; i++)
		capture->order[capture->lanes.at[capture->lane[i]].end++] = i;
	for (size_t l = 0; l < capture->lanes.count; l++)
		sort_events(capture, capture->order + capture->lanes.at[l].begin,
		            capture->lanes.at[l].end - capture->lanes.at[l].begin, spare);
	free(spare);
	return true;
}

/* Whether `open` has ended before `event`. Clocks are rounded: an event that begins where another
 * ends comes after it, unless both are empty. */
static bool capture_is_over(const lk_capture *capture, uint32_t open, uint32_t event) {
	LK_ASSERT(event < capture->count);
	int64_t end = lk_event_end(capture, open);
	return end < lk_event_end(capture, event) ||
	       (end <= capture->start_ns[event] && capture->dur_ns[open] > 0);
}

/* Find the parent of each event of a lane: one pass with the chain of open events, which the
 * parents themselves hold. Returns how many events found the chain full. */
static uint32_t nest_lane(lk_capture *capture, const lk_lane *lane) {
	uint32_t open = LK_NONE, depth = 0, too_deep = 0;
	for (uint32_t at = lane->begin; at < lane->end; at++) {
		uint32_t event = capture->order[at];
		for (; open != LK_NONE && capture_is_over(capture, open, event); depth--)
			open = capture->parent[open];
		capture->parent[event] = open;
		if (lane->stream) continue;
		if (depth == MOST_NESTED) too_deep++;
		else {
			open = event;
			depth++;
		}
	}
	return too_deep;
}

static bool nest(lk_capture *capture) {
	uint32_t too_deep = 0;
	capture->parent = malloc((capture->count + 1) * sizeof *capture->parent);
	if (!capture->parent) return false;
	for (size_t l = 0; l < capture->lanes.count; l++)
		too_deep += nest_lane(capture, &capture->lanes.at[l]);
	if (too_deep)
		lk_capture_warn(capture, "%u %s nested more than %d deep; they are taken as that deep",
		                too_deep, lk_noun(too_deep, "event is", "events are"), (int)MOST_NESTED);
	return true;
}

struct launch_slot {
	uint32_t correlation, event;
};

/* Runtime calls by correlation. A profiler counts these numbers up, so most files need no hash: the
 * number is the place, and neighbours in time are neighbours in memory. */
struct launch_table {
	struct launch_slot *slots;
	size_t count; /* a power of two */
	uint32_t least;
	bool dense;
};

static bool capture_is_launch(const lk_capture *capture, uint32_t i) {
	return capture->kind[i] == LK_EVENT_RUNTIME && capture->joins[i];
}

static struct launch_slot *launch_at(const struct launch_table *table, uint32_t correlation) {
	size_t at = table->dense ? correlation - table->least : lk_hash64(correlation);
	for (at &= table->count - 1;
	     table->slots[at].correlation && table->slots[at].correlation != correlation;)
		at = (at + 1) & (table->count - 1);
	return &table->slots[at];
}

static bool collect_launches(const lk_capture *capture, struct launch_table *table) {
	uint32_t calls = 0, least = UINT32_MAX, most = 0;
	for (uint32_t i = 0; i < capture->count; i++) {
		if (!capture_is_launch(capture, i)) continue;
		calls++;
		if (capture->joins[i] < least) least = capture->joins[i];
		if (capture->joins[i] > most) most = capture->joins[i];
	}
	*table = (struct launch_table){.count = 16, .least = least};
	while (table->count < (size_t)calls * 2) table->count *= 2;
	table->dense = calls && most - least < table->count;
	table->slots = calloc(table->count, sizeof *table->slots);
	if (!table->slots) return false;
	for (uint32_t i = 0; i < capture->count; i++) {
		if (!capture_is_launch(capture, i)) continue;
		struct launch_slot *slot = launch_at(table, capture->joins[i]);
		if (!slot->correlation) *slot = (struct launch_slot){capture->joins[i], i};
	}
	return true;
}

static bool join_launches(lk_capture *capture) {
	struct launch_table table = {0};
	capture->launch = malloc((capture->count + 1) * sizeof *capture->launch);
	if (!capture->launch || !collect_launches(capture, &table)) return false;
	memset(capture->launch, 0xff, (capture->count + 1) * sizeof *capture->launch); /* LK_NONE */
	for (uint32_t i = 0; i < capture->count; i++) {
		if (!lk_event_on_device(capture->kind[i]) || !capture->joins[i]) continue;
		const struct launch_slot *slot = launch_at(&table, capture->joins[i]);
		if (!slot->correlation) continue;
		uint32_t call = slot->event;
		capture->launch[i] = call;
		if (capture->launch[call] == LK_NONE ||
		    capture->start_ns[i] < capture->start_ns[capture->launch[call]])
			capture->launch[call] = i;
	}
	free(table.slots);
	return true;
}

/* Postcondition of finishing: an event's parent is an earlier one of its lane, so that following
 * parents ends; device work and the call that launched it refer to each other. */
static void assert_finished(const lk_capture *capture) {
	for (size_t l = 0; l < capture->lanes.count; l++) {
		const lk_lane *lane = &capture->lanes.at[l];
		LK_ASSERT(lane->begin <= lane->end && lane->end <= capture->count);
		for (uint32_t at = lane->begin; at < lane->end; at++) {
			LK_ASSERT(capture->order[at] < capture->count &&
			          capture->lane[capture->order[at]] == l);
			LK_ASSERT(at == lane->begin ||
			          capture_behind(capture, capture->order[at], capture->order[at - 1]));
		}
	}
	for (uint32_t i = 0; i < capture->count; i++) {
		LK_ASSERT(capture->start_ns[i] >= 0 && capture->dur_ns[i] >= 0);
		LK_ASSERT(capture->parent[i] == LK_NONE ||
		          (capture->lane[capture->parent[i]] == capture->lane[i] &&
		           capture_behind(capture, i, capture->parent[i])));
		LK_ASSERT(capture->launch[i] == LK_NONE ||
		          (capture->launch[i] < capture->count &&
		           lk_event_on_device(capture->kind[i]) !=
		               lk_event_on_device(capture->kind[capture->launch[i]])));
	}
	for (size_t i = 0; i < capture->comms.count; i++)
		LK_ASSERT(capture->comms.at[i].event < capture->count &&
		          capture->comms.at[i].kind <= LK_OP_COUNT);
	for (size_t i = 0; i < capture->syncs.count; i++)
		LK_ASSERT(capture->syncs.at[i].event < capture->count);
}

/* Shrink the columns; no event follows. Thousands of small captures then take only what they
 * hold. */
static void give_back_room(lk_capture *capture) {
	size_t count = capture->count ? capture->count : 1;
#define FIT(type, name)                                                    \
	{                                                                      \
		type *fitted = realloc(capture->name, count * sizeof *fitted);     \
		if (fitted) capture->name = fitted; /* else keep the larger one */ \
	}
	COLUMNS(FIT)
#undef FIT
	capture->capacity = (uint32_t)count;
	lk_vec_fit(&capture->lanes);
	lk_vec_fit(&capture->comms);
	lk_vec_fit(&capture->syncs);
	lk_vec_fit(&capture->grads);
	lk_vec_fit(&capture->modules);
	lk_lane_map_free(&capture->lane_map); /* no lane is looked up any more */
}

/* Two independent parts. */
static lk_status finish_part(void *context, size_t part, lk_error *err) {
	lk_capture *capture = context;
	bool good = part ? join_launches(capture) : sort_lanes(capture) && nest(capture);
	return good ? LK_OK : lk_oom(err);
}

lk_status lk_capture_finish(lk_capture *capture, lk_error *err) {
	give_back_room(capture);
	rebase(capture);
	LK_TRY(lk_parallel(2, capture->count < FEW_EVENTS ? 1 : 0, finish_part, capture, err));
	LK_TRY(lk_capture_join_comms(capture, err));
	lk_capture_sort_comms(capture);
	lk_notes_sort(capture->syncs.at, capture->syncs.count, sizeof *capture->syncs.at);
	assert_finished(capture);
	return LK_OK;
}
