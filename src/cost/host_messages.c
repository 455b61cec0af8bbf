/* host_messages.c: reads "measured": {"messages": [{"inside": true, "bytes": 8, "alone_us": 1.2, "both_us": 1.4}, ...]}
 * of a cluster file (measure/host_json.c writes it). */
#include "cost/host_messages.h"

#include <math.h>

#include "base/json.h"
#include "base/text.h"

static double number(const lk_value *object, const char *key) {
	const lk_value *value = lk_json_get(object, key);
	return value && value->kind == LK_JSON_NUMBER ? value->number : NAN;
}

/* Keeps them in order; false: one of this size is there, or there are too many. */
static bool insert(lk_message_times *t, double bytes, double alone, double both) {
	int at = t->count;
	while (at > 0 && t->bytes[at - 1] > bytes) at--;
	if (t->count == LK_MESSAGE_SIZES || (at > 0 && t->bytes[at - 1] == bytes)) return false;
	for (int i = t->count++; i > at; i--)
		t->bytes[i] = t->bytes[i - 1], t->alone[i] = t->alone[i - 1], t->both[i] = t->both[i - 1];
	t->bytes[at] = bytes, t->alone[at] = alone, t->both[at] = both;
	return true;
}

static lk_status add(const lk_value *item, const char *path, lk_host_messages *out, lk_error *err) {
	bool object = item->kind == LK_JSON_OBJECT;
	const lk_value *inside = object ? lk_json_get(item, "inside") : NULL;
	double bytes = object ? number(item, "bytes") : NAN, alone = object ? 1e-6 * number(item, "alone_us") : NAN;
	double both = object ? 1e-6 * number(item, "both_us") : NAN;
	char where[300];
	snprintf(where, sizeof where, "%.250s:%d:%d", path, item->line, item->column);
	if (!(bytes >= 1 && bytes <= 1e12 && alone > 0 && alone < 1e6 && both > 0 && both < 1e6))
		return lk_fail(err, LK_ERR_INPUT, where, "a message needs bytes, alone_us and both_us, above 0");
	bool near = inside && inside->kind == LK_JSON_TRUE;
	if (insert(near ? &out->inside : &out->between, bytes, alone, both)) return LK_OK;
	return lk_fail(err, LK_ERR_INPUT, where, "messages of one size stand there twice, or there are more than %d", LK_MESSAGE_SIZES);
}

static lk_status take(const lk_value *top, const char *path, lk_host_messages *out, lk_error *err) {
	const lk_value *measured = top->kind == LK_JSON_OBJECT ? lk_json_get(top, "measured") : NULL;
	const lk_value *list = measured && measured->kind == LK_JSON_OBJECT ? lk_json_get(measured, "messages") : NULL;
	const lk_value *memory = measured && measured->kind == LK_JSON_OBJECT ? lk_json_get(measured, "memory") : NULL;
	const lk_value *one = memory && memory->kind == LK_JSON_OBJECT ? lk_json_get(memory, "triad, one core") : NULL;
	double rate = one && one->kind == LK_JSON_OBJECT ? number(one, "value") * 1e9 : NAN;
	if (rate > 0 && rate < 1e15) out->one_core_rate = rate;
	if (!list) return LK_OK;
	if (list->kind != LK_JSON_ARRAY) return lk_fail(err, LK_ERR_INPUT, path, "\"messages\" is no array");
	for (size_t i = 0; i < list->count; i++) LK_TRY(add(&list->items[i], path, out, err));
	return LK_OK;
}

lk_status lk_host_messages_read(const char *path, lk_host_messages *out, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in;
	lk_value *top;
	*out = (lk_host_messages){.inside = {.count = 0}};
	if (!lk_ends_in(path, ".json")) return LK_OK;
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = lk_json_document(&arena, in, &top, err);
	if (status == LK_OK) status = take(top, path, out, err);
	lk_stream_close(in);
	lk_arena_free(&arena);
	return status;
}

double lk_message_seconds(const lk_message_times *t, double bytes, bool both) {
	const double *s = both ? t->both : t->alone;
	int at = 1, last = t->count - 1;
	if (t->count == 0) return NAN;
	if (bytes <= t->bytes[0]) return s[0];
	if (last == 0) return s[0] * bytes / t->bytes[0];
	while (at < last && t->bytes[at] < bytes) at++;
	double slope = (s[at] - s[at - 1]) / (t->bytes[at] - t->bytes[at - 1]);
	/* larger messages never take less: what noise says so is left out */
	return fmax(s[at - 1] + fmax(slope, 0) * (bytes - t->bytes[at - 1]), s[at - 1]);
}
