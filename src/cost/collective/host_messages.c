/* host_messages.c: read "measured": {"messages": [{"inside": true, "bytes": 8, "alone_us": 1.2,
 * "both_us": 1.4}, ...], "collectives": [{"kind": "all_reduce", "ranks": 2, "nodes": 2, "bytes": 8,
 * "alone_us": 20, "behind_us": 25}, ...]} of a cluster file (written by
 * calibrate/host/host_json.c). */
#include "base/arena.h"
#include "cost/collective/collective.h"

#include <math.h>
#include <string.h>

#include "io/json.h"
#include "base/text.h"

/* Insert in order; false: this size exists already, or there are too many. */
static bool messages_insert(lk_message_times *times, double bytes, double alone, double both) {
	int at = times->count;
	while (at > 0 && times->bytes[at - 1] > bytes) at--;
	if (times->count == LK_MESSAGE_SIZES || (at > 0 && times->bytes[at - 1] == bytes)) return false;
	for (int i = times->count++; i > at; i--) {
		times->bytes[i] = times->bytes[i - 1];
		times->alone[i] = times->alone[i - 1];
		times->both[i] = times->both[i - 1];
	}
	times->bytes[at] = bytes;
	times->alone[at] = alone;
	times->both[at] = both;
	return true;
}

static lk_status messages_add(const lk_value *item, const char *path, lk_host_messages *out,
                              lk_error *err) {
	bool object = item->kind == LK_JSON_OBJECT;
	const lk_value *inside = object ? lk_json_get(item, "inside") : NULL;
	double bytes = object ? lk_json_get_number(item, "bytes", NAN) : NAN,
		   alone = object ? 1e-6 * lk_json_get_number(item, "alone_us", NAN) : NAN;
	double both = object ? 1e-6 * lk_json_get_number(item, "both_us", NAN) : NAN;
	char where[300];
	snprintf(where, sizeof where, "%.250s:%d:%d", path, item->line, item->column);
	if (!(bytes >= 1 && bytes <= 1e12 && alone > 0 && alone < 1e6 && both > 0 && both < 1e6))
		return lk_fail(err, LK_ERR_INPUT, where,
		               "a message needs bytes, alone_us and both_us, above 0");
	bool near = inside && inside->kind == LK_JSON_TRUE;
	if (messages_insert(near ? &out->inside : &out->between, bytes, alone, both)) return LK_OK;
	return lk_fail(err, LK_ERR_INPUT, where,
	               "a message size occurs twice, or there are more than %d", LK_MESSAGE_SIZES);
}

static lk_collective_times *messages_times_of(const lk_value *kind, lk_host_messages *out) {
	for (int k = 0; kind && kind->kind == LK_JSON_STRING && k < LK_COLLS; k++)
		if (strcmp(kind->text, lk_coll_name((lk_coll_kind)k)) == 0) return &out->collective[k];
	return NULL;
}

/* Of one kind: as many ranks and nodes each, sizes in ascending order. */
static lk_status messages_add_collective(const lk_value *item, const char *path,
                                         lk_host_messages *out, lk_error *err) {
	bool object = item->kind == LK_JSON_OBJECT;
	lk_collective_times *times = object ? messages_times_of(lk_json_get(item, "kind"), out) : NULL;
	double bytes = object ? lk_json_get_number(item, "bytes", NAN) : NAN,
		   ranks = object ? lk_json_get_number(item, "ranks", NAN) : NAN;
	double alone = object ? 1e-6 * lk_json_get_number(item, "alone_us", NAN) : NAN,
		   behind = object ? 1e-6 * lk_json_get_number(item, "behind_us", NAN) : NAN;
	double nodes = object ? lk_json_get_number(item, "nodes", NAN) : NAN;
	char where[300];
	snprintf(where, sizeof where, "%.250s:%d:%d", path, item->line, item->column);
	if (!times)
		return lk_fail(err, LK_ERR_INPUT, where,
		               "a measured collective needs a kind, such as \"all_reduce\"");
	if (!(bytes >= 1 && bytes <= 1e12 && alone > 0 && alone < 1e6 && behind > 0 && behind < 1e6))
		return lk_fail(err, LK_ERR_INPUT, where,
		               "a collective needs bytes, alone_us and behind_us, above 0");
	if (!(ranks >= 2 && ranks <= 1e6 && nodes >= 1 && nodes <= ranks))
		return lk_fail(err, LK_ERR_INPUT, where,
		               "a collective needs 2 ranks or more, and at most as many nodes");
	bool follows = !times->count || (bytes > times->bytes[times->count - 1] &&
	                                 times->ranks == (int)ranks && times->nodes == (int)nodes);
	if (!follows || times->count == LK_MESSAGE_SIZES)
		return lk_fail(
			err, LK_ERR_INPUT, where,
			"collectives of one kind are listed by ascending size, all of as many ranks and "
			"nodes, at most %d of them",
			LK_MESSAGE_SIZES);
	times->ranks = (int)ranks;
	times->nodes = (int)nodes;
	times->bytes[times->count] = bytes;
	times->alone[times->count] = alone;
	times->behind[times->count] = behind;
	times->count++;
	return LK_OK;
}

typedef lk_status adder(const lk_value *item, const char *path, lk_host_messages *out,
                        lk_error *err);

static lk_status take_list(const lk_value *measured, const char *key, adder *one, const char *path,
                           lk_host_messages *out, lk_error *err) {
	const lk_value *list =
		measured && measured->kind == LK_JSON_OBJECT ? lk_json_get(measured, key) : NULL;
	if (!list) return LK_OK;
	if (list->kind != LK_JSON_ARRAY)
		return lk_fail(err, LK_ERR_INPUT, path, "\"%s\" is not an array", key);
	for (size_t i = 0; i < list->count; i++) LK_TRY(one(&list->items[i], path, out, err));
	return LK_OK;
}

/* {"GROUP": {"NAME": {"value": ..}}}; NAN. */
static double messages_quantity(const lk_value *measured, const char *group, const char *name) {
	const lk_value *at = measured;
	const char *const keys[] = {group, name};
	for (int i = 0; i < 2 && at; i++)
		at = at->kind == LK_JSON_OBJECT ? lk_json_get(at, keys[i]) : NULL;
	return at && at->kind == LK_JSON_OBJECT ? lk_json_get_number(at, "value", NAN) : NAN;
}

static lk_status messages_take(const lk_value *top, const char *path, lk_host_messages *out,
                               lk_error *err) {
	const lk_value *measured = top->kind == LK_JSON_OBJECT ? lk_json_get(top, "measured") : NULL;
	double rate = 1e9 * messages_quantity(measured, "memory", "triad, one core"),
		   cycles = messages_quantity(measured, "pass", "GELU of bf16, all cores");
	if (rate > 0 && rate < 1e15) out->one_core_rate = rate;
	if (cycles > 0 && cycles < 1e6) out->gelu_cycles = cycles;
	LK_TRY(take_list(measured, "messages", messages_add, path, out, err));
	return take_list(measured, "collectives", messages_add_collective, path, out, err);
}

lk_status lk_host_messages_read(const char *path, lk_host_messages *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in;
	lk_value *top;
	*out = (lk_host_messages){.inside = {.count = 0}};
	if (!lk_ends_in(path, ".json")) return LK_OK;
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = lk_json_document(&arena, in, &top, err);
	if (status == LK_OK) status = messages_take(top, path, out, err);
	lk_stream_close(in);
	lk_arena_free(&arena);
	return status;
}

/* Seconds by linear interpolation between sizes; above the largest, by the last slope. */
static double at_size(const double *sizes, const double *s, int count, double bytes) {
	int at = 1, last = count - 1;
	if (count == 0) return NAN;
	if (bytes <= sizes[0]) return s[0];
	if (last == 0) return s[0] * bytes / sizes[0];
	while (at < last && sizes[at] < bytes) at++;
	double slope = (s[at] - s[at - 1]) / (sizes[at] - sizes[at - 1]);
	/* larger ones never take less: ignore noise that says otherwise */
	return fmax(s[at - 1] + fmax(slope, 0) * (bytes - sizes[at - 1]), s[at - 1]);
}

double lk_message_seconds(const lk_message_times *times, double bytes, bool both) {
	return at_size(times->bytes, both ? times->both : times->alone, times->count, bytes);
}

double lk_collective_seconds(const lk_collective_times *times, double bytes, bool behind) {
	return at_size(times->bytes, behind ? times->behind : times->alone, times->count, bytes);
}
