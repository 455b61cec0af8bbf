/* kineto_head.c: a Kineto file's fields before and after its events: the devices, the rank and its
 * process groups, and the meaning of time 0. These values are small, so they are parsed as
 * documents. */
#include "base/arena.h"
#include "trace/kineto/kineto_internal.h"

#include "io/json.h"
#include "base/text.h"

static const char *const wanted[] = {"deviceProperties", "distributedInfo", "baseTimeNanoseconds"};

const char *lk_head_wants(const char *key, size_t length) {
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		if (strlen(wanted[i]) == length && memcmp(wanted[i], key, length) == 0) return wanted[i];
	return NULL;
}

static double head_number_of(const lk_value *value, double otherwise) {
	if (value && value->kind == LK_JSON_NUMBER) return value->number;
	if (!value || value->kind != LK_JSON_STRING) return otherwise;
	const char *end;
	double number = lk_read_real(value->text, &end);
	return end > value->text ? number : otherwise;
}

static int32_t small_of(const lk_value *value, int32_t otherwise) {
	double number = head_number_of(value, -1);
	return number >= 0 && number < 1 << 30 ? (int32_t)number : otherwise;
}

static lk_status intern_value(lk_kineto *kineto, const lk_value *value, uint32_t *out) {
	const char *text = value && (value->kind == LK_JSON_STRING || value->kind == LK_JSON_NUMBER)
	                       ? value->text
	                       : "";
	*out = lk_intern_id(kineto->capture->names, text);
	return *out == LK_NONE ? lk_oom(kineto->err) : LK_OK;
}

static lk_status head_read_devices(lk_kineto *kineto, const lk_value *list) {
	for (size_t i = 0;
	     list->kind == LK_JSON_ARRAY && i < list->count && kineto->devices.count < LK_HEAD_DEVICES;
	     i++) {
		const lk_value *value = &list->items[i];
		double bytes = head_number_of(lk_json_get(value, "totalGlobalMem"), 0);
		lk_head_device d = {.id = small_of(lk_json_get(value, "id"), (int32_t)i),
		                    .sms = small_of(lk_json_get(value, "numSms"), 0),
		                    .bytes = bytes > 0 ? bytes : 0};
		LK_TRY(intern_value(kineto, lk_json_get(value, "name"), &d.name));
		if (!lk_push(&kineto->devices)) return lk_oom(kineto->err);
		*lk_last(&kineto->devices) = d;
	}
	return LK_OK;
}

/* "[0, 1, 2]", in the form of kernel arguments. */
static lk_status intern_ranks(lk_kineto *kineto, lk_arena *arena, const lk_value *ranks,
                              uint32_t *out) {
	if (!ranks || ranks->kind != LK_JSON_ARRAY) return intern_value(kineto, ranks, out);
	size_t size = 3, used = 0;
	for (size_t i = 0; i < ranks->count; i++)
		if (ranks->items[i].kind == LK_JSON_NUMBER) size += strlen(ranks->items[i].text) + 2;
	char *text = lk_arena_alloc(arena, size);
	if (!text) return lk_oom(kineto->err);
	text[used++] = '[';
	for (size_t i = 0; i < ranks->count; i++) {
		if (ranks->items[i].kind != LK_JSON_NUMBER) continue;
		if (used > 1) {
			memcpy(text + used, ", ", 2);
			used += 2;
		}
		size_t length = strlen(ranks->items[i].text);
		memcpy(text + used, ranks->items[i].text, length);
		used += length;
	}
	text[used++] = ']';
	*out = lk_intern_bytes(kineto->capture->names, text, used);
	return *out == LK_NONE ? lk_oom(kineto->err) : LK_OK;
}

static lk_status head_read_groups(lk_kineto *kineto, lk_arena *arena, const lk_value *list) {
	for (size_t i = 0; list && list->kind == LK_JSON_ARRAY && i < list->count; i++) {
		const lk_value *value = &list->items[i], *ranks = lk_json_get(value, "ranks");
		lk_capture_group g = {.size = small_of(lk_json_get(value, "pg_size"), 0)};
		if (value->kind != LK_JSON_OBJECT) continue;
		if (!g.size && ranks && ranks->kind == LK_JSON_ARRAY) g.size = (int32_t)ranks->count;
		LK_TRY(intern_value(kineto, lk_json_get(value, "pg_name"), &g.name));
		LK_TRY(intern_value(kineto, lk_json_get(value, "pg_desc"), &g.text));
		LK_TRY(intern_ranks(kineto, arena, ranks, &g.ranks));
		if (!lk_push(&kineto->capture->groups)) return lk_oom(kineto->err);
		*lk_last(&kineto->capture->groups) = g;
	}
	return LK_OK;
}

static lk_status read_distributed(lk_kineto *kineto, lk_arena *arena, const lk_value *info) {
	if (info->kind != LK_JSON_OBJECT) return LK_OK;
	kineto->capture->rank = small_of(lk_json_get(info, "rank"), -1);
	kineto->capture->world = small_of(lk_json_get(info, "world_size"), 0);
	LK_TRY(intern_value(kineto, lk_json_get(info, "backend"), &kineto->capture->backend));
	return head_read_groups(kineto, arena, lk_json_get(info, "pg_config"));
}

static lk_status head_read_value(lk_kineto *kineto, lk_arena *arena, const char *key,
                                 const lk_value *value) {
	if (*key == 'd' && key[1] == 'e') return head_read_devices(kineto, value);
	if (*key == 'd') return read_distributed(kineto, arena, value);
	/* nanoseconds, beyond the exact integers of a double */
	if (value->kind != LK_JSON_NUMBER && value->kind != LK_JSON_STRING) return LK_OK;
	int64_t ns = lk_slice_whole((lk_slice){value->text, (uint32_t)strlen(value->text), true});
	if (ns == LK_UNSAID || ns < -(INT64_C(1) << 61) || ns > INT64_C(1) << 61) return LK_OK;
	kineto->capture->origin_ns = ns;
	kineto->base_time = true;
	return LK_OK;
}

lk_status lk_head_read(lk_kineto *kineto, const char *key, const char *text, size_t length) {
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in;
	lk_value *value;
	lk_error error;
	lk_status status = lk_stream_memory(text, length, key, &in, &error);
	if (status == LK_OK) {
		status = lk_json_document(&arena, in, &value, &error);
		if (status == LK_OK) status = head_read_value(kineto, &arena, key, value);
		else if (status == LK_ERR_INPUT) {
			lk_kineto_odd(kineto, LK_ODD_HEAD, text);
			status = LK_OK;
		}
		lk_stream_close(in);
	}
	lk_arena_free(&arena);
	return status == LK_OK ? LK_OK : lk_oom(kineto->err);
}
