/* kineto_head.c: what a Kineto file says before and behind its events: the devices, the rank and its process groups,
 * and which time 0 is. These values are small, so they are read as documents. */
#include "trace/read/kineto_internal.h"

#include <stdlib.h>
#include "io/json.h"
#include "base/text.h"

static const char *const wanted[] = {"deviceProperties", "distributedInfo", "baseTimeNanoseconds"};

const char *lk_head_wants(const char *key, size_t length) {
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		if (strlen(wanted[i]) == length && memcmp(wanted[i], key, length) == 0) return wanted[i];
	return NULL;
}

static double number_of(const lk_value *value, double otherwise) {
	if (value && value->kind == LK_JSON_NUMBER) return value->number;
	if (!value || value->kind != LK_JSON_STRING) return otherwise;
	const char *end;
	double number = lk_read_real(value->text, &end);
	return end > value->text ? number : otherwise;
}

static int32_t small_of(const lk_value *value, int32_t otherwise) {
	double number = number_of(value, -1);
	return number >= 0 && number < 1 << 30 ? (int32_t)number : otherwise;
}

static lk_status intern_value(lk_kineto *r, const lk_value *value, uint32_t *out) {
	const char *text = value && (value->kind == LK_JSON_STRING || value->kind == LK_JSON_NUMBER) ? value->text : "";
	*out = lk_intern_id(r->c->names, text);
	return *out == LK_NONE ? lk_oom(r->err) : LK_OK;
}

static lk_status read_devices(lk_kineto *r, const lk_value *list) {
	for (size_t i = 0; list->kind == LK_JSON_ARRAY && i < list->count && r->devices.count < LK_HEAD_DEVICES; i++) {
		const lk_value *v = &list->items[i];
		double bytes = number_of(lk_json_get(v, "totalGlobalMem"), 0);
		lk_head_device d = {.id = small_of(lk_json_get(v, "id"), (int32_t)i),
		                    .sms = small_of(lk_json_get(v, "numSms"), 0),
		                    .bytes = bytes > 0 ? bytes : 0};
		LK_TRY(intern_value(r, lk_json_get(v, "name"), &d.name));
		if (!lk_push(&r->devices)) return lk_oom(r->err);
		*lk_last(&r->devices) = d;
	}
	return LK_OK;
}

/* "[0, 1, 2]", as the arguments of kernels write it. */
static lk_status intern_ranks(lk_kineto *r, lk_arena *arena, const lk_value *ranks, uint32_t *out) {
	if (!ranks || ranks->kind != LK_JSON_ARRAY) return intern_value(r, ranks, out);
	size_t size = 3, used = 0;
	for (size_t i = 0; i < ranks->count; i++)
		if (ranks->items[i].kind == LK_JSON_NUMBER) size += strlen(ranks->items[i].text) + 2;
	char *text = lk_arena_alloc(arena, size);
	if (!text) return lk_oom(r->err);
	text[used++] = '[';
	for (size_t i = 0; i < ranks->count; i++) {
		if (ranks->items[i].kind != LK_JSON_NUMBER) continue;
		if (used > 1) memcpy(text + used, ", ", 2), used += 2;
		size_t length = strlen(ranks->items[i].text);
		memcpy(text + used, ranks->items[i].text, length);
		used += length;
	}
	text[used++] = ']';
	*out = lk_intern_bytes(r->c->names, text, used);
	return *out == LK_NONE ? lk_oom(r->err) : LK_OK;
}

static lk_status read_groups(lk_kineto *r, lk_arena *arena, const lk_value *list) {
	for (size_t i = 0; list && list->kind == LK_JSON_ARRAY && i < list->count; i++) {
		const lk_value *v = &list->items[i], *ranks = lk_json_get(v, "ranks");
		lk_capture_group g = {.size = small_of(lk_json_get(v, "pg_size"), 0)};
		if (v->kind != LK_JSON_OBJECT) continue;
		if (!g.size && ranks && ranks->kind == LK_JSON_ARRAY) g.size = (int32_t)ranks->count;
		LK_TRY(intern_value(r, lk_json_get(v, "pg_name"), &g.name));
		LK_TRY(intern_value(r, lk_json_get(v, "pg_desc"), &g.text));
		LK_TRY(intern_ranks(r, arena, ranks, &g.ranks));
		if (!lk_push(&r->c->groups)) return lk_oom(r->err);
		*lk_last(&r->c->groups) = g;
	}
	return LK_OK;
}

static lk_status read_distributed(lk_kineto *r, lk_arena *arena, const lk_value *info) {
	if (info->kind != LK_JSON_OBJECT) return LK_OK;
	r->c->rank = small_of(lk_json_get(info, "rank"), -1);
	r->c->world = small_of(lk_json_get(info, "world_size"), 0);
	LK_TRY(intern_value(r, lk_json_get(info, "backend"), &r->c->backend));
	return read_groups(r, arena, lk_json_get(info, "pg_config"));
}

static lk_status read_value(lk_kineto *r, lk_arena *arena, const char *key, const lk_value *value) {
	if (*key == 'd' && key[1] == 'e') return read_devices(r, value);
	if (*key == 'd') return read_distributed(r, arena, value);
	/* nanoseconds, beyond the exact integers of a double */
	if (value->kind != LK_JSON_NUMBER && value->kind != LK_JSON_STRING) return LK_OK;
	int64_t ns = lk_slice_whole((lk_slice){value->text, (uint32_t)strlen(value->text), true});
	if (ns == LK_UNSAID || ns < -(INT64_C(1) << 61) || ns > INT64_C(1) << 61) return LK_OK;
	r->c->origin_ns = ns;
	r->base_time = true;
	return LK_OK;
}

lk_status lk_head_read(lk_kineto *r, const char *key, const char *text, size_t length) {
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in;
	lk_value *value;
	lk_error error;
	lk_status status = lk_stream_memory(text, length, key, &in, &error);
	if (status == LK_OK) {
		status = lk_json_document(&arena, in, &value, &error);
		if (status == LK_OK) status = read_value(r, &arena, key, value);
		else if (status == LK_ERR_INPUT) lk_kineto_odd(r, LK_ODD_HEAD, text), status = LK_OK;
		lk_stream_close(in);
	}
	lk_arena_free(&arena);
	return status == LK_OK ? LK_OK : lk_oom(r->err);
}

void lk_head_device_used(lk_kineto *r) {
	lk_capture *c = r->c;
	uint32_t *work = calloc(c->lanes.count + 1, sizeof *work);
	if (!work || !r->devices.count) {
		free(work);
		return;
	}
	size_t most = c->lanes.count;
	for (uint32_t i = 0; i < c->count; i++) work[c->lane[i]] += lk_event_on_device(c->kind[i]);
	for (size_t i = 0; i < c->lanes.count; i++)
		if (work[i] && (most == c->lanes.count || work[i] > work[most])) most = i;
	bool used = most < c->lanes.count;
	free(work);
	if (!used) return;
	const lk_head_device *d = &r->devices.at[0]; /* where ids are odd: all of a machine are of a kind */
	for (size_t i = 0; i < r->devices.count; i++)
		if (r->devices.at[i].id == c->lanes.at[most].process) d = &r->devices.at[i];
	c->device = d->name;
	c->sms = d->sms;
	c->device_bytes = d->bytes;
}
