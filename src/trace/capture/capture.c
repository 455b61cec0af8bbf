/* capture.c: the columns of a capture, and what is made of them when all events are there. */
#include "trace/capture/capture.h"

#include <stdlib.h>
#include <string.h>
#include "base/check.h"
#include "base/stats.h"

enum {
	MOST_WARNINGS = 64,
	/* Profiles nest some tens deep. What is deeper hangs on the last of these, so that walking up
	 * to the top stays short. */
	MOST_NESTED = 256,
};

lk_capture *lk_capture_new(const char *path, const char *format) {
	lk_capture *c = calloc(1, sizeof *c);
	if (!c) return NULL;
	c->rank = -1;
	c->format = format;
	c->names = lk_intern_new();
	c->path = lk_arena_strdup(&c->arena, path);
	if (!c->names || !c->path) {
		lk_capture_free(c);
		return NULL;
	}
	return c;
}

/* Every column, X(type, name). */
/* clang-format off */
#define COLUMNS(X)                                                                                       \
	X(int64_t, start_ns) X(int64_t, dur_ns) X(uint8_t, kind) X(uint16_t, lane) X(uint32_t, name)         \
	X(uint32_t, correlation) X(uint32_t, external) X(uint32_t, record) X(uint32_t, shape) X(uint32_t, types) \
	X(uint32_t, outputs) X(int64_t, value)
/* clang-format on */

void lk_capture_free(lk_capture *c) {
	if (!c) return;
#define FREE(type, name) free(c->name);
	COLUMNS(FREE)
#undef FREE
	free(c->order);
	free(c->parent);
	free(c->launch);
	lk_vec_free(&c->lanes);
	lk_vec_free(&c->comms);
	lk_vec_free(&c->syncs);
	lk_vec_free(&c->groups);
	lk_vec_free(&c->warnings);
	lk_lane_map_free(&c->lane_map);
	lk_intern_free(c->names);
	lk_arena_free(&c->arena);
	free(c);
}

size_t lk_capture_bytes(const lk_capture *c) {
	size_t each = 3 * sizeof(uint32_t); /* order, parent, launch */
#define ADD(type, name) each += sizeof(type);
	COLUMNS(ADD)
#undef ADD
	return each * c->capacity;
}

/* Files mostly repeat the lane of the event before. */
uint32_t lk_capture_lane(lk_capture *c, bool stream, int64_t process, int64_t thread) {
	if (c->last_lane < c->lanes.count) {
		const lk_lane *lane = &c->lanes.at[c->last_lane];
		if (lane->thread == thread && lane->process == process && lane->stream == stream)
			return c->last_lane;
	}
	uint32_t *number = lk_lane_map_at(&c->lane_map, (lk_lane_key){process, thread, stream});
	if (!number) return LK_NONE;
	if (*number == LK_NONE) {
		if (c->lanes.count == LK_MOST_LANES || !lk_push(&c->lanes)) return LK_NONE;
		*lk_last(&c->lanes) = (lk_lane){.process = process, .thread = thread, .stream = stream};
		*number = (uint32_t)c->lanes.count - 1;
	}
	return c->last_lane = *number;
}

static bool capture_grow(lk_capture *c) {
	uint64_t capacity = c->capacity ? c->capacity + c->capacity / 2 : 1u << 12;
	if (capacity >= LK_NONE) return false;
#define GROW(type, name)                                            \
	{                                                               \
		type *grown = realloc(c->name, capacity * sizeof *c->name); \
		if (!grown) return false;                                   \
		c->name = grown;                                            \
	}
	COLUMNS(GROW)
#undef GROW
	c->capacity = (uint32_t)capacity;
	return true;
}

/* 73 years either way: then no difference or sum of two of them overflows. */
static int64_t within_range(int64_t ns) {
	const int64_t most = 1LL << 61;
	if (ns > most) return most;
	if (ns < -most) return -most;
	return ns;
}

uint32_t lk_capture_add(lk_capture *c, const lk_event *event) {
	LK_ASSERT((unsigned)event->kind < LK_EVENT_KINDS && event->lane < c->lanes.count);
	LK_ASSERT(event->name < lk_intern_count(c->names));
	if (c->count == c->capacity && !capture_grow(c)) return LK_NONE;
	LK_ASSERT(c->count < c->capacity);
	uint32_t i = c->count++;
	c->start_ns[i] = within_range(event->start_ns);
	c->dur_ns[i] = event->dur_ns > 0 ? within_range(event->dur_ns) : 0;
	c->kind[i] = (uint8_t)event->kind;
	c->lane[i] = (uint16_t)event->lane;
	c->name[i] = event->name;
	c->correlation[i] = event->correlation;
	c->external[i] = event->external;
	c->record[i] = event->record;
	c->shape[i] = event->shape;
	c->types[i] = event->types;
	c->outputs[i] = event->outputs;
	c->value[i] = event->value;
	return i;
}

void lk_capture_warn(lk_capture *c, const char *fmt, ...) {
	if (c->warnings.count >= MOST_WARNINGS) return;
	char text[400];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	const char *kept = lk_arena_printf(&c->arena, "W%zu: %s", c->warnings.count + 1, text);
	if (kept && lk_push(&c->warnings)) *lk_last(&c->warnings) = kept;
}

/* ---- finishing ---- */

static void rebase(lk_capture *c) {
	int64_t first = INT64_MAX;
	for (uint32_t i = 0; i < c->count; i++)
		if (c->start_ns[i] < first) first = c->start_ns[i];
	if (!c->count) return;
	if (__builtin_add_overflow(c->origin_ns, first, &c->origin_ns))
		c->origin_ns = first < 0 ? INT64_MIN : INT64_MAX;
	for (uint32_t i = 0; i < c->count; i++) c->start_ns[i] -= first;
}

/* Whether event i comes after event j on their lane. */
static bool capture_behind(const lk_capture *c, uint32_t i, uint32_t j) {
	if (c->start_ns[i] != c->start_ns[j]) return c->start_ns[i] > c->start_ns[j];
	if (c->dur_ns[i] != c->dur_ns[j]) return c->dur_ns[i] < c->dur_ns[j];
	/* Of equal extent, what encloses others comes first. */
	static const uint8_t rank[LK_EVENT_KINDS] = {
		[LK_EVENT_NOTE] = 0, [LK_EVENT_OP] = 1, [LK_EVENT_RUNTIME] = 2};
	if (rank[c->kind[i]] != rank[c->kind[j]]) return rank[c->kind[i]] > rank[c->kind[j]];
	return i > j;
}

/* Merge sort. Files are long stretches in order, so most halves need no merging. `spare` holds half
 * of them. */
static void sort_events(const lk_capture *c, uint32_t *events, size_t count, uint32_t *spare) {
	if (count < 2) return;
	size_t half = count / 2;
	sort_events(c, events, half, spare);
	sort_events(c, events + half, count - half, spare);
	if (!capture_behind(c, events[half - 1], events[half])) return;
	memcpy(spare, events, half * sizeof *spare);
	size_t left = 0, right = half, to = 0;
	while (left < half && right < count)
		events[to++] =
			capture_behind(c, spare[left], events[right]) ? events[right++] : spare[left++];
	LK_ASSERT(left <= half && to + (half - left) == right);
	memcpy(events + to, spare + left, (half - left) * sizeof *spare);
}

/* Counting sort by lane, then each lane by time. */
static bool sort_lanes(lk_capture *c) {
	c->order = malloc((c->count + 1) * sizeof *c->order);
	uint32_t *spare = malloc((c->count / 2 + 1) * sizeof *spare);
	if (!c->order || !spare) {
		free(spare);
		return false;
	}
	for (uint32_t i = 0; i < c->count; i++) c->lanes.at[c->lane[i]].end++;
	uint32_t begin = 0;
	for (size_t l = 0; l < c->lanes.count; l++) {
		uint32_t count = c->lanes.at[l].end;
		c->lanes.at[l].begin = c->lanes.at[l].end = begin;
		begin += count;
	}
	for (uint32_t i = 0; i < c->count; i++) c->order[c->lanes.at[c->lane[i]].end++] = i;
	for (size_t l = 0; l < c->lanes.count; l++)
		sort_events(c, c->order + c->lanes.at[l].begin, c->lanes.at[l].end - c->lanes.at[l].begin,
		            spare);
	free(spare);
	return true;
}

/* What does not enclose `event` is over. Clocks are rounded: an event that begins where another
 * ends comes after it, unless both are empty. */
static bool capture_is_over(const lk_capture *c, uint32_t open, uint32_t event) {
	int64_t end = lk_event_end(c, open);
	return end < lk_event_end(c, event) || (end <= c->start_ns[event] && c->dur_ns[open] > 0);
}

/* What encloses what on a lane: one pass with the chain of open events, which the parents
 * themselves hold. Returns how many found the chain full. */
static uint32_t nest_lane(lk_capture *c, const lk_lane *lane) {
	uint32_t open = LK_NONE, depth = 0, too_deep = 0;
	for (uint32_t at = lane->begin; at < lane->end; at++) {
		uint32_t event = c->order[at];
		for (; open != LK_NONE && capture_is_over(c, open, event); depth--) open = c->parent[open];
		c->parent[event] = open;
		if (lane->stream) continue;
		if (depth == MOST_NESTED) too_deep++;
		else {
			open = event;
			depth++;
		}
	}
	return too_deep;
}

static bool nest(lk_capture *c) {
	uint32_t too_deep = 0;
	c->parent = malloc((c->count + 1) * sizeof *c->parent);
	if (!c->parent) return false;
	for (size_t l = 0; l < c->lanes.count; l++) too_deep += nest_lane(c, &c->lanes.at[l]);
	if (too_deep)
		lk_capture_warn(c, "%u events are nested more than %d deep; they are taken as that deep",
		                too_deep, (int)MOST_NESTED);
	return true;
}

struct launch_slot {
	uint32_t correlation, event;
};

/* The calls by correlation. A profiler counts these numbers up, so most files need no hash: the
 * number says the place, and neighbours in time are neighbours in memory. */
struct launch_table {
	struct launch_slot *slots;
	size_t count; /* a power of two */
	uint32_t least;
	bool dense;
};

static bool capture_is_launch(const lk_capture *c, uint32_t i) {
	return c->kind[i] == LK_EVENT_RUNTIME && c->correlation[i];
}

static struct launch_slot *launch_at(const struct launch_table *table, uint32_t correlation) {
	size_t at = table->dense ? correlation - table->least : lk_hash64(correlation);
	for (at &= table->count - 1;
	     table->slots[at].correlation && table->slots[at].correlation != correlation;)
		at = (at + 1) & (table->count - 1);
	return &table->slots[at];
}

static bool collect_launches(const lk_capture *c, struct launch_table *table) {
	uint32_t calls = 0, least = UINT32_MAX, most = 0;
	for (uint32_t i = 0; i < c->count; i++) {
		if (!capture_is_launch(c, i)) continue;
		calls++;
		if (c->correlation[i] < least) least = c->correlation[i];
		if (c->correlation[i] > most) most = c->correlation[i];
	}
	*table = (struct launch_table){.count = 16, .least = least};
	while (table->count < (size_t)calls * 2) table->count *= 2;
	table->dense = calls && most - least < table->count;
	table->slots = calloc(table->count, sizeof *table->slots);
	if (!table->slots) return false;
	for (uint32_t i = 0; i < c->count; i++) {
		if (!capture_is_launch(c, i)) continue;
		struct launch_slot *slot = launch_at(table, c->correlation[i]);
		if (!slot->correlation) *slot = (struct launch_slot){c->correlation[i], i};
	}
	return true;
}

static bool join_launches(lk_capture *c) {
	struct launch_table table = {0};
	c->launch = malloc((c->count + 1) * sizeof *c->launch);
	if (!c->launch || !collect_launches(c, &table)) return false;
	memset(c->launch, 0xff, (c->count + 1) * sizeof *c->launch); /* LK_NONE */
	for (uint32_t i = 0; i < c->count; i++) {
		if (!lk_event_on_device(c->kind[i]) || !c->correlation[i]) continue;
		const struct launch_slot *slot = launch_at(&table, c->correlation[i]);
		if (!slot->correlation) continue;
		uint32_t call = slot->event;
		c->launch[i] = call;
		if (c->launch[call] == LK_NONE || c->start_ns[i] < c->start_ns[c->launch[call]])
			c->launch[call] = i;
	}
	free(table.slots);
	return true;
}

static int by_comm_event(const void *a, const void *b) {
	const lk_comm_note *x = a, *y = b;
	return x->event < y->event ? -1 : x->event > y->event;
}

static int by_sync_event(const void *a, const void *b) {
	const lk_sync_note *x = a, *y = b;
	return x->event < y->event ? -1 : x->event > y->event;
}

/* What finishing promises. An event of a lane is enclosed by an earlier one of that lane, so that
 * walking up ends; device work and the call that launched it know each other. */
static void assert_finished(const lk_capture *c) {
	for (size_t l = 0; l < c->lanes.count; l++) {
		const lk_lane *lane = &c->lanes.at[l];
		LK_ASSERT(lane->begin <= lane->end && lane->end <= c->count);
		for (uint32_t at = lane->begin; at < lane->end; at++) {
			LK_ASSERT(c->order[at] < c->count && c->lane[c->order[at]] == l);
			LK_ASSERT(at == lane->begin || capture_behind(c, c->order[at], c->order[at - 1]));
		}
	}
	for (uint32_t i = 0; i < c->count; i++) {
		LK_ASSERT(c->start_ns[i] >= 0 && c->dur_ns[i] >= 0);
		LK_ASSERT(c->parent[i] == LK_NONE ||
		          (c->lane[c->parent[i]] == c->lane[i] && capture_behind(c, i, c->parent[i])));
		LK_ASSERT(c->launch[i] == LK_NONE ||
		          (c->launch[i] < c->count &&
		           lk_event_on_device(c->kind[i]) != lk_event_on_device(c->kind[c->launch[i]])));
	}
	for (size_t i = 0; i < c->comms.count; i++)
		LK_ASSERT(c->comms.at[i].event < c->count && c->comms.at[i].kind <= LK_OP_COUNT);
	for (size_t i = 0; i < c->syncs.count; i++) LK_ASSERT(c->syncs.at[i].event < c->count);
}

lk_status lk_capture_finish(lk_capture *c, lk_error *err) {
	rebase(c);
	if (!sort_lanes(c) || !nest(c) || !join_launches(c)) return lk_oom(err);
	LK_TRY(lk_capture_join_comms(c, err));
	if (c->comms.count) qsort(c->comms.at, c->comms.count, sizeof *c->comms.at, by_comm_event);
	if (c->syncs.count) qsort(c->syncs.at, c->syncs.count, sizeof *c->syncs.at, by_sync_event);
	assert_finished(c);
	return LK_OK;
}

const lk_comm_note *lk_capture_comm(const lk_capture *c, uint32_t event) {
	lk_comm_note key = {.event = event};
	return c->comms.count ? bsearch(&key, c->comms.at, c->comms.count, sizeof key, by_comm_event)
	                      : NULL;
}

const lk_sync_note *lk_capture_sync(const lk_capture *c, uint32_t event) {
	lk_sync_note key = {.event = event};
	return c->syncs.count ? bsearch(&key, c->syncs.at, c->syncs.count, sizeof key, by_sync_event)
	                      : NULL;
}
