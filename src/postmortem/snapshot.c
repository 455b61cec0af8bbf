/* snapshot.c: memory snapshots of PyTorch (torch.cuda.memory._dump_snapshot): segments with their
 * blocks as they are now, and the last events of the allocator.
 *
 * The trace is a ring that has lost its beginning, so it is read as lifetimes: the events of an
 * address in order are allocations and their ends; an end without a beginning was allocated before
 * the trace, a block in use without events lived all the time. What was held at a moment is then
 * what lived at it, exact even where the beginning is lost. Sizes of events are those that tensors
 * requested. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/sort.h"
#include "postmortem/postmortem.h"

enum { DEVICES = 128 };

struct event {
	uint64_t address;
	size_t index;
	double size;
	bool begins;
	const lk_value *frames;
};

/* From the state after `start` events up to before the one after `end` events. */
struct lifetime {
	size_t start, end;
	double size;
	const lk_value *frames; /* NULL or empty: none were recorded */
	bool recorded;          /* its allocation is in the trace */
};

/* What one line of code holds. */
struct grain {
	lk_held_kind kind;
	const char *file, *function;
	double line, bytes;
	const lk_value *frames;
	int64_t blocks;
};

struct device {
	lk_mortem *work;
	int number;
	const lk_value *segments, *trace; /* trace may be NULL */
	lk_postmortem_memory memory;
	LK_VEC(struct event) events;
	LK_VEC(struct lifetime) lives;
	LK_VEC(struct grain) grains;
	size_t moment; /* events before it */
	bool framed;   /* some event has frames */
};

static double number_of(const lk_value *value, const char *key) {
	double number = lk_json_get_number(value, key, 0);
	return number > 0 && number < 1e18 ? number : 0;
}

static uint64_t address_of(const lk_value *value, const char *key) {
	return (uint64_t)number_of(value, key);
}

static bool block_is_active(const lk_value *block) {
	return lk_json_get_text(block, "state", "inactive")[0] == 'a';
}

static const lk_value *block_frames(const lk_value *block) {
	const lk_value *frames = lk_json_get(block, "frames");
	const lk_value *history = lk_json_get(block, "history"); /* before PyTorch 2.1 */
	if (!frames && history && history->count) frames = lk_json_get(&history->items[0], "frames");
	return frames && frames->count ? frames : NULL;
}

static bool segment_on(const struct device *device, const lk_value *segment) {
	return number_of(segment, "device") == device->number;
}

/* ---- blocks as they are now ---- */

static bool in_private_pool(const lk_value *segment) {
	const lk_value *pool = lk_json_get(segment, "segment_pool_id");
	for (size_t i = 0; pool && i < pool->count; i++)
		if (pool->items[i].number != 0) return true;
	return false;
}

/* The text after a state is "active_pending_free", "active_awaiting_free" or "active_allocated". */
static bool is_pending(const lk_value *block) {
	return strcmp(lk_json_get_text(block, "state", ""), "active_allocated") != 0;
}

static void count_segment(lk_postmortem_memory *memory, const lk_value *segment) {
	const lk_value *blocks = lk_json_get(segment, "blocks"), *grows;
	double active = 0, inactive = 0;
	for (size_t i = 0; blocks && i < blocks->count; i++) {
		const lk_value *block = &blocks->items[i];
		double size = number_of(block, "size");
		memory->blocks++;
		if (!block_is_active(block)) {
			inactive += size;
			memory->largest_free_bytes = fmax(memory->largest_free_bytes, size);
			continue;
		}
		active += size;
		double wanted = lk_json_get_number(block, "requested_size", size);
		memory->tensor_bytes += wanted > 0 && wanted < size ? wanted : size;
		if (is_pending(block)) memory->pending_bytes += size;
	}
	memory->segments++;
	memory->allocated_bytes += active;
	memory->reserved_bytes += number_of(segment, "total_size");
	if (active > 0) memory->stranded_bytes += inactive;
	if (in_private_pool(segment)) memory->private_bytes += active;
	grows = lk_json_get(segment, "is_expandable");
	if (grows && grows->kind == LK_JSON_TRUE) memory->expandable = true;
}

/* ---- the trace as lifetimes ---- */

LK_ORDER_BY(events_by_address, struct event, address, index)

static bool is_action(const lk_value *event, const char *action) {
	return strcmp(lk_json_get_text(event, "action", ""), action) == 0;
}

static bool collect_events(struct device *device) {
	const lk_value *trace = device->trace;
	for (size_t i = 0; trace && i < trace->count; i++) {
		const lk_value *event = &trace->items[i], *frames = lk_json_get(event, "frames");
		bool begins = is_action(event, "alloc");
		if (!begins && !is_action(event, "free_completed") && !is_action(event, "free")) continue;
		if (!lk_push(&device->events)) return false;
		*lk_last(&device->events) =
			(struct event){address_of(event, "addr"), i, number_of(event, "size"), begins, frames};
		device->framed |= begins && frames && frames->count;
	}
	lk_sort(device->events.at, device->events.count, sizeof *device->events.at, events_by_address);
	return true;
}

static bool add_life(struct device *device, struct lifetime life) {
	if (!lk_push(&device->lives)) return false;
	*lk_last(&device->lives) = life;
	return true;
}

/* The lifetimes of the events from `first` on that have its address; returns the next index, 0 when
 * memory runs out. */
static size_t live_at_address(struct device *device, size_t first) {
	const struct event *events = device->events.at;
	size_t end = device->trace->count, i = first;
	for (; i < device->events.count && events[i].address == events[first].address; i++) {
		const struct event *event = &events[i], *next = event + 1;
		bool last = i + 1 == device->events.count || next->address != event->address;
		struct lifetime life = {event->index + 1, last ? end + 1 : next->index + 1, event->size,
		                        event->frames, true};
		if (!event->begins && i > first) continue;
		if (!event->begins) life = (struct lifetime){0, event->index + 1, event->size, NULL, false};
		if (!add_life(device, life)) return 0;
	}
	return i;
}

static int event_against(const void *address, const void *event) {
	uint64_t key = *(const uint64_t *)address, at = ((const struct event *)event)->address;
	return (key > at) - (key < at);
}

/* Blocks in use that the trace does not mention lived all the time. */
static bool live_throughout(struct device *device, const lk_value *segment) {
	const lk_value *blocks = lk_json_get(segment, "blocks");
	uint64_t next = address_of(segment, "address");
	size_t end = device->trace ? device->trace->count + 1 : 1;
	for (size_t i = 0; blocks && i < blocks->count; i++) {
		const lk_value *block = &blocks->items[i];
		double size = number_of(block, "size");
		uint64_t address = lk_json_get(block, "address") ? address_of(block, "address") : next;
		double wanted = lk_json_get_number(block, "requested_size", size);
		next = address + (uint64_t)size;
		if (!block_is_active(block)) continue;
		if (device->events.count && bsearch(&address, device->events.at, device->events.count,
		                                    sizeof *device->events.at, event_against))
			continue;
		if (!add_life(device, (struct lifetime){0, end, wanted > 0 && wanted < size ? wanted : size,
		                                        block_frames(block), false}))
			return false;
	}
	return true;
}

static bool collect_lives(struct device *device) {
	if (!collect_events(device)) return false;
	for (size_t i = 0; i < device->events.count;)
		if (!(i = live_at_address(device, i))) return false;
	for (size_t i = 0; i < device->segments->count; i++)
		if (segment_on(device, &device->segments->items[i]) &&
		    !live_throughout(device, &device->segments->items[i]))
			return false;
	return true;
}

/* ---- the moment ---- */

/* The peak of what lived: the first position with most bytes. */
static bool find_peak(struct device *device) {
	size_t events = device->trace ? device->trace->count : 0;
	double *change = calloc(events + 2, sizeof *change), held = 0;
	if (!change) return false;
	for (size_t i = 0; i < device->lives.count; i++) {
		const struct lifetime *life = &device->lives.at[i];
		LK_ASSERT(life->start <= life->end && life->end <= events + 1);
		change[life->start] += life->size;
		change[life->end] -= life->size;
	}
	device->memory.peak_bytes = 0;
	for (size_t i = 0; i <= events; i++) {
		held += change[i];
		if (held <= device->memory.peak_bytes) continue;
		device->memory.peak_bytes = held;
		device->moment = i;
	}
	free(change);
	return true;
}

/* An allocation that failed, the last one, is the moment in place of the peak. */
static void find_failure(struct device *device) {
	for (size_t i = device->trace->count; i-- > 0;) {
		const lk_value *event = &device->trace->items[i];
		if (!is_action(event, "oom")) continue;
		device->memory.requested_bytes = number_of(event, "size");
		device->memory.free_bytes = lk_json_get_number(event, "device_free", NAN);
		device->memory.moment = "out of memory";
		device->moment = i + 1;
		return;
	}
}

/* Bytes of the device that were reserved, from the end back to the beginning. */
static void find_reserved_peak(struct device *device) {
	static const struct {
		const char *action;
		int sign;
	} actions[] = {
		{"segment_alloc", 1}, {"segment_map", 1}, {"segment_free", -1}, {"segment_unmap", -1}};
	double reserved = device->memory.reserved_bytes;
	device->memory.reserved_peak_bytes = reserved;
	for (size_t i = device->trace ? device->trace->count : 0; i-- > 0;)
		for (size_t k = 0; k < sizeof actions / sizeof *actions; k++) {
			const lk_value *event = &device->trace->items[i];
			if (!is_action(event, actions[k].action)) continue;
			reserved -= actions[k].sign * number_of(event, "size");
			device->memory.reserved_peak_bytes = fmax(device->memory.reserved_peak_bytes, reserved);
		}
}

static void find_moment_time(struct device *device) {
	const lk_value *trace = device->trace;
	if (!device->moment || !trace) return;
	double first = lk_json_get_number(&trace->items[0], "time_us", NAN);
	double then = lk_json_get_number(&trace->items[device->moment - 1], "time_us", NAN);
	if (then >= first) device->memory.moment_s = (then - first) * 1e-6;
}

/* ---- by whom ---- */

static int grains_by_place(const void *a, const void *b) {
	const struct grain *x = a, *y = b;
	if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
	int order = strcmp(x->file, y->file);
	if (order == 0) order = strcmp(x->function, y->function);
	if (order == 0) order = (x->line > y->line) - (x->line < y->line);
	return order;
}

LK_ORDER_BY(holders_rising, lk_postmortem_holder, device, bytes)
static int holders_falling(const void *a, const void *b) {
	return holders_rising(b, a);
}

/* The engine of autograd runs in a thread without Python frames. Where other events have frames,
 * one that has none is of a backward pass. */
static lk_held_kind kind_of_life(const struct device *device, const struct lifetime *life) {
	if (life->frames && life->frames->count) return lk_frames_kind(life->frames);
	return life->recorded && device->framed ? LK_HELD_GRADIENTS : LK_HELD_UNKNOWN;
}

static bool collect_grains(struct device *device) {
	double held = 0;
	for (size_t i = 0; i < device->lives.count; i++) {
		const struct lifetime *life = &device->lives.at[i];
		if (life->start > device->moment || life->end <= device->moment) continue;
		const lk_value *frame = lk_frames_user(life->frames);
		held += life->size;
		if (!lk_push(&device->grains)) return false;
		*lk_last(&device->grains) = (struct grain){kind_of_life(device, life),
		                                           lk_json_get_text(frame, "filename", ""),
		                                           lk_json_get_text(frame, "name", ""),
		                                           lk_json_get_number(frame, "line", 0),
		                                           life->size,
		                                           life->frames,
		                                           1};
	}
	device->memory.held_bytes = held;
	lk_sort(device->grains.at, device->grains.count, sizeof *device->grains.at, grains_by_place);
	return true;
}

static lk_status add_kinds(struct device *device, lk_error *err) {
	lk_mortem *work = device->work;
	size_t first = work->kinds.count;
	lk_postmortem_holder sums[LK_HELDS] = {0};
	for (size_t i = 0; i < device->grains.count; i++) {
		sums[device->grains.at[i].kind].bytes += device->grains.at[i].bytes;
		sums[device->grains.at[i].kind].blocks++;
	}
	for (int kind = 0; kind < LK_HELDS; kind++) {
		if (!sums[kind].blocks) continue;
		if (!lk_push(&work->kinds)) return lk_oom(err);
		*lk_last(&work->kinds) =
			(lk_postmortem_holder){device->memory.rank,
		                           device->number,
		                           lk_held_names[kind],
		                           "",
		                           "",
		                           sums[kind].bytes,
		                           sums[kind].bytes / fmax(device->memory.held_bytes, 1),
		                           sums[kind].blocks};
	}
	lk_sort(work->kinds.at + first, work->kinds.count - first, sizeof *work->kinds.at,
	        holders_falling);
	return LK_OK;
}

static lk_status add_holders(struct device *device, lk_error *err) {
	lk_mortem *work = device->work;
	struct grain *grains = device->grains.at;
	size_t first = work->holders.count;
	for (size_t i = 0, next; i < device->grains.count; i = next) {
		double bytes = 0;
		for (next = i;
		     next < device->grains.count && grains_by_place(grains + i, grains + next) == 0; next++)
			bytes += grains[next].bytes;
		const char *function;
		const char *where = lk_frames_where(&work->arena, grains[i].frames, &function);
		if (!where || !lk_push(&work->holders)) return lk_oom(err);
		*lk_last(&work->holders) =
			(lk_postmortem_holder){device->memory.rank,
		                           device->number,
		                           lk_held_names[grains[i].kind],
		                           where,
		                           function,
		                           bytes,
		                           bytes / fmax(device->memory.held_bytes, 1),
		                           (int64_t)(next - i)};
	}
	lk_sort(work->holders.at + first, work->holders.count - first, sizeof *work->holders.at,
	        holders_falling);
	return LK_OK;
}

/* ---- a device, a file ---- */

static lk_status read_device(struct device *device, lk_error *err) {
	lk_postmortem_memory *memory = &device->memory;
	for (size_t i = 0; i < device->segments->count; i++)
		if (segment_on(device, &device->segments->items[i]))
			count_segment(memory, &device->segments->items[i]);
	memory->unused_bytes = fmax(memory->reserved_bytes - memory->allocated_bytes, 0);
	if (!collect_lives(device) || !find_peak(device)) return lk_oom(err);
	memory->events = device->trace ? (int64_t)device->trace->count : 0;
	memory->moment = device->events.count ? "peak" : "end";
	if (device->trace) find_failure(device);
	find_reserved_peak(device);
	find_moment_time(device);
	if (!collect_grains(device)) return lk_oom(err);
	LK_TRY(add_kinds(device, err));
	LK_TRY(add_holders(device, err));
	if (!lk_push(&device->work->memory)) return lk_oom(err);
	*lk_last(&device->work->memory) = *memory;
	return lk_mortem_remedies(device->work, err);
}

static lk_status warn_unknown(lk_mortem *work, lk_error *err) {
	for (size_t i = 0; i < work->kinds.count; i++) {
		const lk_postmortem_holder *kind = &work->kinds.at[i];
		if (strcmp(kind->kind, lk_held_names[LK_HELD_UNKNOWN]) == 0 && kind->share > 0.1)
			return lk_mortem_warn(
				work, err,
				"%.0f %% of the memory of device %d has no stack: call "
				"torch.cuda.memory._record_memory_history() before the model is built",
				100 * kind->share, kind->device);
	}
	return LK_OK;
}

/* Devices that have segments or events. */
static void mark_devices(const lk_value *segments, const lk_value *traces, bool used[DEVICES]) {
	for (size_t i = 0; i < segments->count; i++) {
		double number = number_of(&segments->items[i], "device");
		if (number < DEVICES) used[(int)number] = true;
	}
	for (size_t i = 0; traces && i < traces->count && i < DEVICES; i++)
		used[i] |= traces->items[i].count > 0;
}

lk_status lk_mortem_snapshot(lk_mortem *work, const lk_mortem_file *file, lk_error *err) {
	const lk_value *segments = lk_json_get(file->root, "segments");
	const lk_value *traces = lk_json_get(file->root, "device_traces");
	bool used[DEVICES] = {false}, any = false;
	if (!segments || segments->kind != LK_JSON_ARRAY)
		return lk_mortem_lacks(file->path, "segments", err);
	if (traces && traces->kind != LK_JSON_ARRAY) traces = NULL;
	mark_devices(segments, traces, used);
	for (int number = 0; number < DEVICES; number++) {
		if (!used[number]) continue;
		any = true;
		struct device device = {
			.work = work,
			.number = number,
			.segments = segments,
			.trace = traces && (size_t)number < traces->count ? &traces->items[number] : NULL};
		if (device.trace && device.trace->count == 0) device.trace = NULL;
		device.memory = (lk_postmortem_memory){.rank = lk_mortem_rank_of(file->path, false),
		                                       .device = number,
		                                       .source = "memory snapshot",
		                                       .requested_bytes = NAN,
		                                       .total_bytes = NAN,
		                                       .free_bytes = NAN,
		                                       .allowed_bytes = NAN,
		                                       .outside_bytes = NAN,
		                                       .others_bytes = NAN,
		                                       .moment_s = NAN};
		lk_status status = read_device(&device, err);
		lk_vec_free(&device.events);
		lk_vec_free(&device.lives);
		lk_vec_free(&device.grains);
		LK_TRY(status);
	}
	if (!any) return lk_mortem_lacks(file->path, "segments of any device", err);
	return warn_unknown(work, err);
}
