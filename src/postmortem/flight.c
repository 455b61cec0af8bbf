/* flight.c: dumps of PyTorch's flight recorder, one a rank, as calls. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "postmortem/postmortem.h"

enum {
	SHAPE = 300 /* bytes of a shape's text */
};

/* Members are a list, or its text "[0, 2]". */
static bool read_members(lk_hang *hang, lk_hang_group *group, const lk_value *list) {
	for (size_t i = 0; list && i < list->count; i++)
		if (!lk_hang_member(hang, group, list->items[i].number)) return false;
	if (!list || list->kind != LK_JSON_STRING) return true;
	for (const char *at = list->text, *end; *at;) {
		double rank = lk_is_digit(*at) ? lk_read_real(at, &end) : NAN;
		if (isnan(rank)) at++;
		else {
			at = end;
			if (!lk_hang_member(hang, group, rank)) return false;
		}
	}
	return true;
}

static bool read_groups(lk_hang *hang, const lk_value *root) {
	const lk_value *config = lk_json_get(root, "pg_config");
	for (size_t i = 0; config && config->kind == LK_JSON_OBJECT && i < config->count; i++) {
		const lk_value *item = &config->items[i];
		lk_hang_group *group =
			lk_hang_group_named(hang, lk_json_get_text(item, "name", config->keys[i]),
		                        lk_json_get_text(item, "desc", ""));
		if (!group) return false;
		if (group->described) continue;
		if (!read_members(hang, group, lk_json_get(item, "ranks"))) return false;
		group->described = group->members.count > 0;
	}
	return true;
}

static void add_sizes(lk_text *text, const lk_value *value) {
	if (value->kind == LK_JSON_NUMBER) lk_text_add(text, "%.0f", value->number);
	if (value->kind != LK_JSON_ARRAY) return;
	lk_text_add(text, "[");
	for (size_t i = 0; i < value->count && !lk_text_full(text); i++) {
		if (i) lk_text_add(text, ", ");
		add_sizes(text, &value->items[i]);
	}
	lk_text_add(text, "]");
}

/* Operations whose ranks may state different sizes. */
static bool sizes_may_differ(const char *operation) {
	static const char *const beginnings[] = {"all_to_all", "alltoall", "gather", "scatter"};
	for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
		if (lk_begins_with(operation, beginnings[i])) return true;
	return false;
}

/* What all ranks have to agree on, next to the operation. */
static uint32_t read_shape(lk_hang *hang, const lk_value *entry, const char *operation) {
	char shape[SHAPE];
	lk_text text = lk_text_begin(shape, sizeof shape);
	const lk_value *sizes = lk_json_get(entry, "input_sizes");
	const lk_value *types = lk_json_get(entry, "input_dtypes");
	if (sizes && !sizes_may_differ(operation)) add_sizes(&text, sizes);
	if (types && types->count && types->items[0].kind == LK_JSON_STRING)
		lk_text_add(&text, "%s%s", text.used ? " " : "", types->items[0].text);
	return lk_intern_id(hang->texts, shape);
}

/* "nccl:send 0->1", "nccl:recv 1<-0": sets the pair from the operation's words. */
static void read_pair(lk_hang_call *call, const char *words) {
	const char *arrow = strstr(words, "->"), *back = strstr(words, "<-"), *end;
	const char *mark = arrow ? arrow : back, *first = mark;
	if (!mark) return;
	while (first > words && lk_is_digit(first[-1])) first--;
	double one = lk_read_real(first, &end), other = lk_read_real(mark + 2, &end);
	if (first == mark || !lk_is_digit(mark[2]) || one >= LK_HANG_RANKS || other >= LK_HANG_RANKS)
		return;
	call->from = (int)(arrow ? one : other);
	call->to = (int)(arrow ? other : one);
}

static uint32_t read_operation(lk_hang *hang, lk_hang_call *call, const lk_value *entry, char *name,
                               size_t size) {
	const char *full = lk_json_get_text(entry, "profiling_name", "collective");
	const char *colon = strchr(full, ':');
	lk_copy(name, size, colon && !strchr(colon, ' ') ? colon + 1 : full);
	if (call->p2p) lk_copy(name, size, colon ? colon + 1 : full);
	for (char *at = name; *at; at++) *at = (char)tolower((unsigned char)*at);
	if (call->p2p) {
		read_pair(call, name);
		name[strcspn(name, " ")] = '\0';
	}
	return lk_intern_id(hang->texts, name);
}

static bool is_true(const lk_value *value) {
	return value && value->kind == LK_JSON_TRUE;
}

static lk_hang_group *group_of(lk_hang *hang, const lk_value *entry) {
	const lk_value *names = lk_json_get(entry, "process_group");
	char number[32];
	if (names && names->kind == LK_JSON_STRING) return lk_hang_group_named(hang, names->text, "");
	if (names && names->count && names->items[0].kind == LK_JSON_STRING)
		return lk_hang_group_named(
			hang, names->items[0].text,
			names->count > 1 && names->items[1].kind == LK_JSON_STRING ? names->items[1].text : "");
	return lk_hang_group_named(
		hang, lk_format_shortest(lk_json_get_number(entry, "pg_id", 0), number, sizeof number), "");
}

static bool read_entry(lk_hang *hang, int rank, const lk_value *entry) {
	lk_hang_group *group = group_of(hang, entry);
	char operation[120];
	lk_hang_call call = {.rank = rank, .from = -1, .to = -1};
	if (!group) return false;
	call.group = (uint32_t)(group - hang->groups.at);
	call.p2p = is_true(lk_json_get(entry, "is_p2p"));
	call.completed = strcmp(lk_json_get_text(entry, "state", ""), "completed") == 0 ||
	                 is_true(lk_json_get(entry, "retired"));
	/* one number for both before version 2.0 of the dumps */
	double sequence = lk_json_get_number(
		entry, call.p2p ? "p2p_seq_id" : "collective_seq_id",
		lk_json_get_number(entry, "seq_id", lk_json_get_number(entry, "record_id", -1)));
	call.sequence = sequence >= 0 && sequence < 1e15 ? (int64_t)sequence : -1;
	call.created_ns = lk_json_get_number(entry, "time_created_ns", 0);
	call.timeout_ms = lk_json_get_number(entry, "timeout_ms", NAN);
	call.operation = read_operation(hang, &call, entry, operation, sizeof operation);
	call.shape = read_shape(hang, entry, operation);
	const char *where = lk_frames_where(&hang->scratch, lk_json_get(entry, "frames"), NULL);
	call.where = where ? lk_intern_id(hang->texts, where) : UINT32_MAX;
	if (call.operation == UINT32_MAX || call.shape == UINT32_MAX || call.where == UINT32_MAX ||
	    !lk_push(&hang->calls))
		return false;
	*lk_last(&hang->calls) = call;
	return true;
}

static lk_status read_dump(lk_hang *hang, const lk_mortem_file *file, lk_error *err) {
	double rank = lk_json_get_number(file->root, "rank", lk_mortem_rank_of(file->path, true));
	const lk_value *entries = lk_json_get(file->root, "entries");
	if (!(rank >= 0 && rank < LK_HANG_RANKS)) {
		lk_fail(err, LK_ERR_INPUT, file->path, "the name of the dump does not have its rank");
		return lk_hint(err, "name it like nccl_trace_rank_3");
	}
	for (size_t i = 0; i < hang->dumped.count; i++)
		if (hang->dumped.at[i] == (int)rank) {
			lk_fail(err, LK_ERR_INPUT, file->path, "a second dump of rank %.0f", rank);
			return lk_hint(err, "give the dumps of one run only");
		}
	if (!lk_ranks_add(&hang->dumped, (int)rank) || !read_groups(hang, file->root))
		return lk_oom(err);
	if (rank >= hang->world) hang->world = (int)rank + 1;
	for (size_t i = 0; entries && i < entries->count; i++)
		if (!read_entry(hang, (int)rank, &entries->items[i])) return lk_oom(err);
	return LK_OK;
}

/* Dumps are read one by one: as documents thousands of them would not fit in memory. */
static lk_status read_dumps(lk_hang *hang, const lk_mortem_file *files, size_t count,
                            lk_error *err) {
	for (size_t i = 0; i < count; i++) {
		lk_mortem_file file = files[i];
		lk_status status = lk_mortem_load(&hang->scratch, &file, err);
		if (status == LK_OK) status = read_dump(hang, &file, err);
		lk_arena_free(&hang->scratch);
		LK_TRY(status);
	}
	return LK_OK;
}

lk_status lk_mortem_flight(lk_mortem *work, const lk_mortem_file *files, size_t count,
                           lk_error *err) {
	lk_hang hang = {.work = work, .texts = lk_intern_new()};
	lk_status status = hang.texts ? read_dumps(&hang, files, count, err) : lk_oom(err);
	if (status == LK_OK) status = lk_hang_find(&hang, err);
	lk_hang_free(&hang);
	return status;
}
