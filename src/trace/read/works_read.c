/* works_read.c: a file of any format without times, recognised by its content (trace_kind.c). */
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/text.h"
#include "io/json.h"
#include "trace/read/read.h"
#include "trace/capture/works.h"

/* The number before the file endings: "lockstep.3.et", "rank3.json.gz"; -1 none. */
static int32_t works_read_rank_of(const char *path) {
	const char *name = lk_file_name(path), *end = name + strlen(name);
	static const char *const endings[] = {".gz", ".zst", ".json", ".et"};
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
		size_t length = strlen(endings[i]);
		if ((size_t)(end - name) > length && strncmp(end - length, endings[i], length) == 0)
			end -= length;
	}
	const char *digits = end;
	while (digits > name && digits[-1] >= '0' && digits[-1] <= '9') digits--;
	bool rank =
		digits < end && end - digits < 8 && digits > name &&
		(digits[-1] == '.' || (digits - name >= 4 && strncasecmp(digits - 4, "rank", 4) == 0));
	/* "x.1.0.3" is a version */
	const char *before = digits - (digits > name);
	if (rank && *before == '.' && before > name && before[-1] >= '0' && before[-1] <= '9')
		rank = false;
	return rank ? (int32_t)strtol(digits, NULL, 10) : -1;
}

static void works_read_report(lk_works *works, const lk_json_mended *mended) {
	struct {
		size_t count;
		const char *what;
	} odd[] = {
		{mended->controls, "control characters inside texts were read as blanks"},
		{mended->commas, "commas before a closing bracket were left out"},
		{mended->quotes, "quotes inside texts were read as '"},
		{mended->escapes, "backslashes that escape nothing were read as /"},
		{mended->numbers, "numbers were not finite (nan, inf)"},
		{mended->words, "words were Python's (True, None, 'text')"},
	};
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
		if (odd[i].count) lk_works_warn(works, "invalid JSON: %zu %s", odd[i].count, odd[i].what);
	if (mended->closed)
		lk_works_warn(
			works,
			"the file ends early: its last %zu bytes are an incomplete node and were left out",
			mended->cut);
}

static lk_status no_list(const lk_json *json, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, lk_json_where(json), "no execution trace: no list of nodes");
	return lk_hint(err, "give a PyTorch execution trace or a Chakra trace");
}

static lk_status works_read_text(lk_json *json, lk_works *works, const char **out, lk_error *err) {
	lk_json_token token;
	LK_TRY(lk_json_next(json, &token, err));
	if (token != LK_JSON_STRING)
		return lk_fail(err, LK_ERR_INPUT, lk_json_where(json), "a text is expected here");
	*out = lk_arena_strdup(&works->arena, lk_json_text(json, NULL));
	return *out ? LK_OK : lk_oom(err);
}

static lk_status works_read_nodes(lk_json *json, bool chakra, const lk_read_limits *limits,
                                  lk_works *works, lk_error *err) {
	lk_json_token token;
	LK_TRY(lk_json_next(json, &token, err));
	if (token != LK_JSON_ARRAY) return no_list(json, err);
	works->format = chakra ? "Chakra JSON" : "PyTorch execution trace";
	return chakra ? lk_chakra_json_nodes(json, limits, works, err)
	              : lk_pytorch_et_nodes(json, limits, works, err);
}

static lk_status works_read_document(lk_json *json, const lk_read_limits *limits, lk_works *works,
                                     lk_error *err) {
	lk_json_token token;
	bool found = false;
	LK_TRY(lk_json_next(json, &token, err));
	if (token != LK_JSON_OBJECT) return no_list(json, err);
	for (;;) {
		LK_TRY(lk_json_next(json, &token, err));
		if (token == LK_JSON_OBJECT_END) return found ? LK_OK : no_list(json, err);
		const char *key = lk_json_text(json, NULL);
		bool chakra = strcmp(key, "workload_graph") == 0;
		if (chakra || strcmp(key, "nodes") == 0) {
			if (found)
				return lk_fail(err, LK_ERR_INPUT, lk_json_where(json), "a second list of nodes");
			found = true;
			LK_TRY(works_read_nodes(json, chakra, limits, works, err));
		} else if (strcmp(key, "traceEvents") == 0) {
			lk_fail(err, LK_ERR_INPUT, lk_json_where(json),
			        "a trace with times, not an execution trace");
			return lk_hint(err, "read it as a profile (Kineto)");
		} else if (strcmp(key, "schema") == 0)
			LK_TRY(works_read_text(json, works, &works->schema, err));
		else LK_TRY(lk_json_skip(json, err));
	}
}

static lk_status works_read_json(char **text, size_t size, const lk_read_limits *limits,
                                 lk_works *works, lk_error *err) {
	lk_json_mended mended;
	lk_stream *in;
	LK_TRY(lk_json_mend(text, &size, &mended, err));
	works_read_report(works, &mended);
	LK_TRY(lk_stream_memory(*text, size, works->path, &in, err));
	lk_json *json = lk_json_open(in);
	lk_status status = json ? works_read_document(json, limits, works, err) : lk_oom(err);
	lk_json_close(json);
	lk_stream_close(in);
	return status;
}

static lk_status works_read_bytes(char **text, size_t size, const char *name,
                                  const lk_read_limits *limits, lk_works **out, lk_error *err) {
	static const lk_read_limits none = {.shapes = true};
	lk_trace_kind kind = lk_trace_kind_of(*text, size);
	bool wire = kind == LK_TRACE_CHAKRA || kind == LK_TRACE_OTHER;
	lk_works *works = lk_works_new(name, "");
	if (!works) return lk_oom(err);
	if (!limits) limits = &none;
	works->bytes_read = size;
	works->rank = works_read_rank_of(name);
	lk_status status = wire ? lk_chakra_read(*text, size, limits, works, err)
	                        : works_read_json(text, size, limits, works, err);
	if (status == LK_OK) status = lk_works_finish(works, err);
	if (status != LK_OK) {
		lk_works_free(works);
		return status;
	}
	*out = works;
	return LK_OK;
}

lk_status lk_works_read_stream(lk_stream *in, const lk_read_limits *limits, lk_works **out,
                               lk_error *err) {
	size_t most = limits && limits->bytes ? (size_t)limits->bytes : (size_t)8 << 30, size;
	char *text;
	*out = NULL;
	LK_TRY(lk_stream_rest(in, most, &text, &size, err));
	lk_status status = works_read_bytes(&text, size, lk_stream_name(in), limits, out, err);
	free(text);
	return status;
}
