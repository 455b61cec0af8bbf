/* test_kineto.c: the reader of Kineto's and Chrome's JSON. Oracles: python's json on every trace at
 * hand, and a slow reader over base/json on random files. Damage of every kind gives a warning and
 * the events that can be read; what is no trace, or too much, is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dirent.h>
#include <unistd.h>
#include <zlib.h>
#include "base/arena.h"
#include "system/parallel.h"
#include "io/json.h"
#include "base/stats.h"
#include "trace/kineto/kineto.h"
#include "trace/read/read.h"
#include "data.h"
#include "rounds.h"

static const lk_read_limits with_shapes = {.shapes = true};

/* ---- helpers ---- */

static lk_status read_bytes(const char *text, size_t size, const lk_read_limits *limits,
                            lk_capture **out, lk_error *err) {
	lk_stream *in;
	*out = NULL;
	*err = (lk_error){0};
	LK_TRY(lk_stream_memory(text, size, "t.json", &in, err));
	lk_capture *capture = lk_capture_new("t.json", "Kineto JSON");
	assert_non_null(capture);
	lk_status status = lk_kineto_read(in, limits, capture, err);
	if (status == LK_OK) status = lk_capture_finish(capture, err);
	lk_stream_close(in);
	if (status == LK_OK) *out = capture;
	else lk_capture_free(capture);
	return status;
}

static lk_capture *read_text(const char *text) {
	lk_capture *capture;
	lk_error err;
	char line[1024];
	if (read_bytes(text, strlen(text), &with_shapes, &capture, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, line, sizeof line));
	return capture;
}

static bool warned(const lk_capture *capture, const char *words) {
	for (size_t i = 0; i < capture->warnings.count; i++)
		if (strstr(capture->warnings.at[i], words)) return true;
	for (size_t i = 0; i < capture->damages.count; i++)
		if (strstr(capture->damages.at[i], words)) return true;
	return false;
}

static void assert_warned(const lk_capture *capture, const char *words) {
	if (warned(capture, words)) return;
	for (size_t i = 0; i < capture->warnings.count; i++)
		print_message("%s\n", capture->warnings.at[i]);
	fail_msg("no warning says \"%s\"", words);
}

static void assert_refused(const char *text, const char *words) {
	lk_capture *capture;
	lk_error err;
	char line[1024];
	if (read_bytes(text, strlen(text), &with_shapes, &capture, &err) == LK_OK)
		fail_msg("was read: %s", text);
	lk_error_text(&err, line, sizeof line);
	if (!strstr(line, words) || !err.where[0] || !err.hint[0])
		fail_msg("\"%s\" does not say \"%s\", where and what to do", line, words);
}

static const char *name_of(const lk_capture *capture, uint32_t event) {
	return lk_capture_text(capture, capture->name[event]);
}

/* ---- the traces at hand, against python ---- */

static void print_capture(const lk_capture *capture, char *out, size_t size) {
	static const char *const names[] = {"OP",     "NOTE",   "RUNTIME", "KERNEL",
	                                    "MEMCPY", "MEMSET", "SYNC"};
	uint64_t sums[LK_EVENT_KINDS][4] = {0}, joined = 0, comms = 0, elements = 0, bytes = 0;
	for (uint32_t i = 0; i < capture->count; i++) {
		uint64_t *s = sums[capture->kind[i]];
		const char *name = name_of(capture, i);
		s[0]++;
		s[1] += (uint64_t)capture->dur_ns[i];
		s[2] += (uint64_t)capture->start_ns[i];
		s[3] += crc32(0, (const unsigned char *)name, (unsigned)strlen(name));
		joined += lk_event_on_device(capture->kind[i]) && capture->launch[i] != LK_NONE;
	}
	for (size_t i = 0; i < capture->comms.count; i++) {
		const lk_comm_note *note = &capture->comms.at[i];
		if (capture->kind[note->event] != LK_EVENT_KERNEL) continue;
		comms++;
		if (note->in_elements < 0) continue;
		elements += (uint64_t)note->in_elements;
		bytes += (uint64_t)note->in_elements * note->element_bytes;
	}
	size_t used = 0;
	for (int k = 0; k < LK_EVENT_KINDS; k++)
		used += (size_t)snprintf(out + used, size - used, "%s %llu %llu %llu %llu\n", names[k],
		                         (unsigned long long)sums[k][0], (unsigned long long)sums[k][1],
		                         (unsigned long long)sums[k][2], (unsigned long long)sums[k][3]);
	snprintf(out + used, size - used, "joined %llu\nnccl %llu %llu %llu\n",
	         (unsigned long long)joined, (unsigned long long)comms, (unsigned long long)elements,
	         (unsigned long long)bytes);
}

static void compare_file(const char *path) {
	lk_capture *capture;
	lk_error err = {0};
	char line[1024], command[1024], mine[2048], theirs[2048];
	if (lk_trace_read(path, false, NULL, &capture, &(lk_works *){NULL}, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, line, sizeof line));
	print_capture(capture, mine, sizeof mine);
	assert_int_equal(capture->warnings.count, 0);
	lk_capture_free(capture);
	if (judged_elsewhere() || !file_has_its_turn(path)) return;
	snprintf(command, sizeof command, "python3 tests/unit/kineto_oracle.py '%s'", path);
	FILE *file = popen(command, "r");
	assert_non_null(file);
	theirs[fread(theirs, 1, sizeof theirs - 1, file)] = '\0';
	assert_int_equal(pclose(file), 0);
	if (strcmp(mine, theirs) != 0) fail_msg("%s:\nread\n%sbut python says\n%s", path, mine, theirs);
}

static int compare_folder(const char *folder) {
	int files = 0;
	DIR *dir = opendir(folder);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		char path[800];
		if (!strstr(entry->d_name, ".json")) continue;
		snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
		compare_file(path);
		files++;
	}
	if (dir) closedir(dir);
	return files;
}

static void test_python_agrees(void **state) {
	(void)state;
	if (judged_elsewhere()) skip();
	if (system("python3 -c 'import json' 2>/dev/null") != 0 ||
	    access("tests/unit/kineto_oracle.py", R_OK) != 0) {
		print_message("python3 or its program is not there: skipped\n");
		skip();
	}
	static const char *const folders[] = {"traces/kineto", "traces/dlrm8/kineto"};
	int files = 0;
	for (int i = 0; i < 2; i++)
		if (has_data(data_path(folders[i]))) files += compare_folder(data_path(folders[i]));
	if (!files) skip();
}

/* ---- random files, against a slow reader ---- */

struct text {
	char bytes[1 << 16];
	size_t used;
};

static uint64_t draw(uint64_t *seed, uint64_t below) {
	return lk_hash64((*seed)++) % below;
}

static void put(struct text *text, const char *fmt, ...) LK_PRINTF(2, 3);
static void put(struct text *text, const char *fmt, ...) {
	va_list args;
	va_start(args, fmt);
	text->used +=
		(size_t)vsnprintf(text->bytes + text->used, sizeof text->bytes - text->used, fmt, args);
	va_end(args);
	assert_true(text->used < sizeof text->bytes);
}

static void put_space(struct text *text, uint64_t *seed) {
	for (uint64_t n = draw(seed, 6); n > 2; n--) put(text, "%c", " \n\t\r"[draw(seed, 4)]);
}

/* A text, each of its characters now and then as an escape. */
static void put_text(struct text *text, const char *characters, uint64_t *seed) {
	put(text, "\"");
	for (; *characters; characters++) {
		unsigned char c = (unsigned char)*characters;
		if (c < 0x80 && draw(seed, 12) == 0) put(text, "\\u%04x", c);
		else if (c == '"' || c == '\\' || (c == '/' && draw(seed, 2))) put(text, "\\%c", c);
		else if (c == '\n') put(text, "\\n");
		else put(text, "%c", c);
	}
	put(text, "\"");
}

static void put_key(struct text *text, const char *key, uint64_t *seed, bool *first) {
	put_space(text, seed);
	if (!*first) put(text, ",");
	*first = false;
	put_space(text, seed);
	put_text(text, key, seed);
	put_space(text, seed);
	put(text, ":");
	put_space(text, seed);
}

static void put_random_value(struct text *text, uint64_t *seed, int depth) {
	static const char *const plain[] = {"0",
	                                    "-1.5e3",
	                                    "true",
	                                    "null",
	                                    "\"a \\\" ] } b\"",
	                                    "\"\\\\\"",
	                                    "[]",
	                                    "{}",
	                                    "12345678901234567890"};
	if (depth > 3 || draw(seed, 3)) {
		put(text, "%s", plain[draw(seed, sizeof plain / sizeof *plain)]);
		return;
	}
	put(text, "[");
	for (uint64_t i = 0, n = draw(seed, 4); i < n; i++) {
		put_space(text, seed);
		if (i) put(text, ",");
		put_random_value(text, seed, depth + 1);
	}
	put(text, "]");
}

static void put_number(struct text *text, uint64_t *seed) {
	switch (draw(seed, 6)) {
	case 0: put(text, "\"%d\"", (int)draw(seed, 90000)); break;
	case 1: put(text, "%d.0", (int)draw(seed, 90000)); break;
	case 2: put(text, "-%d", (int)draw(seed, 9)); break;
	default: put(text, "%d", (int)draw(seed, 5000000)); break;
	}
}

static const char *const some_names[] = {
	"aten::mm", "void f<\"x\">(int)", "a/b\\c",        "\xc3\xa9t\xc3\xa9",
	"",         "line\nline",         "ProfilerStep#1"};
static const char *const some_categories[] = {
	"cpu_op",   "kernel", "cuda_runtime", "python_function", "user_annotation", "gpu_memcpy",
	"Operator", "Kernel", "ac2g",         "Trace",           "gpu_memset"};

static void put_argument(struct text *text, int which, uint64_t *seed, bool *first) {
	static const char *const numbers[] = {
		"External id", "correlation", "Record function id", "Sequence number", "stream",
		"device",      "bytes"};
	if (which < 7) {
		put_key(text, numbers[which], seed, first);
		put_number(text, seed);
	} else if (which < 9) {
		put_key(text, which == 7 ? "grid" : "block", seed, first);
		put(text, "[%d,%s%d , %d]", (int)draw(seed, 99), draw(seed, 2) ? " " : "",
		    (int)draw(seed, 9), (int)draw(seed, 3));
	} else if (which == 9) {
		put_key(text, "Input Dims", seed, first);
		put(text, "[[%d, 3],%s[], [[1],[2 , 4]]]", (int)draw(seed, 99), draw(seed, 2) ? "\n" : "");
	} else if (which == 10) {
		put_key(text, "Input type", seed, first);
		put(text, "[\"float\", \"\", \"c10::Half\"]");
	} else {
		char key[40];
		snprintf(key, sizeof key, "unknown key %d", (int)draw(seed, 1000));
		put_key(text, key, seed, first);
		put_random_value(text, seed, 0);
	}
}

static void put_arguments(struct text *text, uint64_t *seed) {
	bool first = true;
	put(text, "{");
	for (int i = 0, at = (int)draw(seed, 14); i < 14; i++, at = (at + 5) % 14)
		if (draw(seed, 3)) put_argument(text, at, seed, &first);
	put_space(text, seed);
	put(text, "}");
}

static void put_field(struct text *text, int which, uint64_t *seed, bool *first) {
	static const char *const keys[] = {"ph", "cat", "name", "pid",  "tid",
	                                   "ts", "dur", "args", "other"};
	if (which > 1 && which != 5 && draw(seed, 12) == 0) return;
	put_key(text, keys[which], seed, first);
	switch (which) {
	case 0: put_text(text, draw(seed, 8) ? "X" : "i", seed); break;
	case 1:
		put_text(text,
		         some_categories[draw(seed, sizeof some_categories / sizeof *some_categories)],
		         seed);
		break;
	case 2:
		put_text(text, some_names[draw(seed, sizeof some_names / sizeof *some_names)], seed);
		break;
	case 3:
	case 4: put(text, "%d", (int)draw(seed, 5)); break;
	case 5:
		put(text, draw(seed, 2) ? "%llu" : "%llu.%03d", 1700000000000000ull + draw(seed, 100000),
		    (int)draw(seed, 1000));
		break;
	case 6: put(text, draw(seed, 3) ? "%d" : "%d.5", (int)draw(seed, 1000)); break;
	case 7: put_arguments(text, seed); break;
	default: put_random_value(text, seed, 0); break;
	}
}

static void put_random_event(struct text *text, uint64_t *seed) {
	bool first = true;
	put(text, "{");
	/* 4 and 9 have no common factor: every key once, in an order of their own */
	for (int i = 0, at = (int)draw(seed, 9), by = draw(seed, 2) ? 4 : 1; i < 9;
	     i++, at = (at + by) % 9)
		put_field(text, at, seed, &first);
	put_space(text, seed);
	put(text, "}");
}

static void put_random_file(struct text *text, uint64_t *seed) {
	bool bare = draw(seed, 4) == 0;
	text->used = 0;
	put_space(text, seed);
	put(text, "%s",
	    bare ? "["
	         : "{\"schemaVersion\": 1, \"x\" : {\"y\": [\"traceEvents\", {}]}, \"traceEvents\": [");
	for (uint64_t i = 0, n = draw(seed, 30); i < n; i++) {
		if (i) put(text, ",");
		put_space(text, seed);
		put_random_event(text, seed);
		put_space(text, seed);
	}
	put(text, "%s", bare ? "]" : "], \"traceName\": \"x\"}");
	put_space(text, seed);
}

static double number_or(const lk_value *value, double otherwise) {
	if (!value) return otherwise;
	if (value->kind == LK_JSON_NUMBER) return value->number;
	return value->kind == LK_JSON_STRING ? strtod(value->text, NULL) : otherwise;
}

static int64_t time_of(const lk_value *value) {
	const char *point = strchr(value->text, '.');
	return strtoll(value->text, NULL, 10) * 1000 +
	       (point ? (int64_t)(strtod(point, NULL) * 1000 + 0.5) : 0);
}

static void compact(const lk_value *value, char *out) {
	if (value->kind != LK_JSON_ARRAY) {
		strcat(out, value->text);
		return;
	}
	strcat(out, "[");
	for (size_t i = 0; i < value->count; i++) {
		if (i) strcat(out, ",");
		compact(&value->items[i], out);
	}
	strcat(out, "]");
}

static int slow_kind(const char *category, const lk_value *name) {
	static const struct {
		const char *name;
		int kind;
	} kinds[] = {{"cpu_op", LK_EVENT_OP},
	             {"Operator", LK_EVENT_OP},
	             {"user_annotation", LK_EVENT_NOTE},
	             {"cuda_runtime", LK_EVENT_RUNTIME},
	             {"kernel", LK_EVENT_KERNEL},
	             {"Kernel", LK_EVENT_KERNEL},
	             {"gpu_memcpy", LK_EVENT_MEMCPY},
	             {"gpu_memset", LK_EVENT_MEMSET}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kinds[i].name, category) == 0) {
			/* PyTorch 1.8 to 1.10 wrote steps as operators */
			bool step = kinds[i].kind == LK_EVENT_OP && name &&
			            strncmp(name->text, "ProfilerStep#", 13) == 0;
			return step ? LK_EVENT_NOTE : kinds[i].kind;
		}
	return -1;
}

static uint32_t slow_id(const lk_value *args, const char *key) {
	double id = number_or(lk_json_get(args, key), 0);
	return id > 0 ? (uint32_t)id : 0;
}

static void compare_lane(const lk_capture *capture, uint32_t i, const lk_value *value,
                         const lk_value *args, bool device) {
	const lk_lane *lane = &capture->lanes.at[capture->lane[i]];
	double on = number_or(lk_json_get(args, "device"), -1),
		   stream = number_or(lk_json_get(args, "stream"), -1);
	double process = number_or(lk_json_get(value, "pid"), -1),
		   thread = number_or(lk_json_get(value, "tid"), -1);
	assert_int_equal(lane->stream, device);
	assert_int_equal(lane->process, (int64_t)(device && on >= 0 ? on : process));
	assert_int_equal(lane->thread, (int64_t)(device && stream >= 0 ? stream : thread));
}

static void compare_shapes(const lk_capture *capture, uint32_t i, const lk_value *args) {
	char dims[256] = "", types[256] = "";
	if (lk_json_get(args, "Input Dims")) compact(lk_json_get(args, "Input Dims"), dims);
	if (lk_json_get(args, "Input type")) compact(lk_json_get(args, "Input type"), types);
	const lk_shape_note *note = lk_capture_shape(capture, i);
	assert_string_equal(lk_capture_text(capture, note->shape), dims);
	assert_string_equal(lk_capture_text(capture, note->types), types);
}

static void compare_event(const lk_capture *capture, uint32_t i, const lk_value *value, int kind) {
	const lk_value *args = lk_json_get(value, "args"), *name = lk_json_get(value, "name");
	bool device = lk_event_on_device((unsigned)kind);
	assert_int_equal(capture->kind[i], kind);
	assert_string_equal(name_of(capture, i), name ? name->text : "");
	assert_int_equal(capture->start_ns[i] + capture->origin_ns, time_of(lk_json_get(value, "ts")));
	assert_int_equal(capture->dur_ns[i], time_of(lk_json_get(value, "dur")));
	bool recorded = kind == LK_EVENT_OP || kind == LK_EVENT_NOTE;
	assert_int_equal(capture->joins[i],
	                 slow_id(args, recorded ? "Record function id" : "correlation"));
	double bytes = device ? number_or(lk_json_get(args, "bytes"), 0) : 0;
	assert_int_equal(lk_capture_copied(capture, i), bytes > 0 ? (int64_t)bytes : 0);
	compare_lane(capture, i, value, args, device);
	if (recorded) compare_shapes(capture, i, args);
}

static void compare_slowly(const lk_capture *capture, const struct text *text) {
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in;
	lk_value *document;
	lk_error err;
	char line[1024];
	assert_int_equal(lk_stream_memory(text->bytes, text->used, "t.json", &in, &err), LK_OK);
	if (lk_json_document(&arena, in, &document, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, line, sizeof line));
	const lk_value *list =
		document->kind == LK_JSON_ARRAY ? document : lk_json_get(document, "traceEvents");
	uint32_t i = 0;
	for (size_t k = 0; k < list->count; k++) {
		const lk_value *value = &list->items[k];
		int kind = slow_kind(lk_json_get(value, "cat")->text, lk_json_get(value, "name"));
		if (strcmp(lk_json_get(value, "ph")->text, "X") != 0 || !lk_json_get(value, "dur") ||
		    kind < 0)
			continue;
		assert_true(i < capture->count);
		compare_event(capture, i++, value, kind);
	}
	assert_int_equal(i, capture->count);
	lk_stream_close(in);
	lk_arena_free(&arena);
}

static void test_random_files(void **state) {
	(void)state;
	struct text *text = calloc(1, sizeof *text);
	uint64_t files = (uint64_t)rounds(1500, 20000);
	for (uint64_t round = 0; round < files; round++) {
		uint64_t seed = round << 32;
		lk_capture *capture;
		lk_error err;
		char line[1024];
		put_random_file(text, &seed);
		if (read_bytes(text->bytes, text->used, &with_shapes, &capture, &err) != LK_OK)
			fail_msg("round %llu: %s\n%s", (unsigned long long)round,
			         lk_error_text(&err, line, sizeof line), text->bytes);
		compare_slowly(capture, text);
		assert_false(warned(capture, "cut off"));
		assert_false(warned(capture, "damaged"));
		lk_capture_free(capture);
	}
	free(text);
}

/* ---- a file that ends anywhere ---- */

static void assert_prefix(const lk_capture *part, const lk_capture *whole) {
	assert_true(part->count <= whole->count);
	for (uint32_t i = 0; i < part->count; i++) {
		assert_string_equal(name_of(part, i), name_of(whole, i));
		assert_int_equal(part->start_ns[i] + part->origin_ns,
		                 whole->start_ns[i] + whole->origin_ns);
		assert_int_equal(part->dur_ns[i], whole->dur_ns[i]);
		assert_int_equal(part->joins[i], whole->joins[i]);
		assert_string_equal(lk_capture_text(part, lk_capture_shape(part, i)->shape),
		                    lk_capture_text(whole, lk_capture_shape(whole, i)->shape));
	}
}

static void test_truncation(void **state) {
	(void)state;
	struct text *text = calloc(1, sizeof *text);
	for (uint64_t round = 0; round < (uint64_t)rounds(4, 40); round++) {
		uint64_t seed = 77000 + round * 1000000;
		lk_capture *whole, *part;
		lk_error err;
		put_random_file(text, &seed);
		while (text->used && (unsigned char)text->bytes[text->used - 1] <= ' ') text->used--;
		assert_int_equal(read_bytes(text->bytes, text->used, &with_shapes, &whole, &err), LK_OK);
		for (size_t size = 0; size < text->used; size++) {
			char *copy =
				malloc(size + 1); /* of this size, so that the address sanitizer sees its end */
			memcpy(copy, text->bytes, size);
			lk_status status = read_bytes(copy, size, &with_shapes, &part, &err);
			if (status == LK_OK) {
				assert_prefix(part, whole);
				assert_warned(part, "cut off in line");
				lk_capture_free(part);
			} else assert_int_equal(status, LK_ERR_INPUT);
			free(copy);
		}
		lk_capture_free(whole);
	}
	free(text);
}

/* ---- what files are odd in ---- */

#define OP(name, ts, dur)                                                                   \
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name "\",\"pid\":1,\"tid\":2,\"ts\":" ts \
	",\"dur\":" dur "}"
#define FILE_OF(events) "{\"traceEvents\":[" events "]}"

/* Reads, expects so many events and a warning (NULL: none). */
static void check(const char *text_of_file, uint32_t events, const char *warning) {
	lk_capture *capture = read_text(text_of_file);
	if (capture->count != events)
		fail_msg("%u events instead of %u in %s", capture->count, events, text_of_file);
	if (warning) assert_warned(capture, warning);
	else if (capture->warnings.count) fail_msg("%s in %s", capture->warnings.at[0], text_of_file);
	else if (capture->damaged) fail_msg("%s in %s", capture->damages.at[0], text_of_file);
	lk_capture_free(capture);
}

static void test_damage(void **state) {
	(void)state;
	check(FILE_OF(OP("a", "1", "2")), 1, NULL);
	check(FILE_OF(), 0, NULL);
	check("[" OP("a", "1", "2") "," OP("b", "1", "2") "]", 2, NULL);
	check("\xef\xbb\xbf" FILE_OF(OP("a", "1", "2")), 1, NULL);
	check(FILE_OF(OP("a", "1", "2") ","), 1, "commas with nothing after");
	check("{\"traceEvents\":[" OP("a", "1", "2") "],}", 1, "commas with nothing after");
	check(FILE_OF(OP("a\tb\x01", "1", "2")), 1, "control characters");
	check(FILE_OF(OP("a", "1", "NaN")), 0, "NaN");
	check(FILE_OF(OP("a", "1", "NaN")), 0, "without a duration");
	check(FILE_OF(OP("a", "-Infinity", "1")), 0, "without a time");
	check(FILE_OF(OP("a", "1", "-5")), 1, "negative duration");
	check(FILE_OF("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1}"), 0,
	      "without a duration");
	check(FILE_OF(
			  "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"name\":\"l\",\"ts\":1,\"dur\":1}"),
	      1, "occurs twice");
	check(FILE_OF(OP("a", "1", "2")) " {", 1, "after the end");
	/* an unescaped quote, a missing comma, a missing brace, bytes of nothing: the events around are
	 * kept */
	check(FILE_OF(OP("a", "1", "2") "," OP("b\"c", "1", "2") "," OP("d", "1", "2")), 2,
	      "damaged places");
	check(FILE_OF(OP("a", "1", "2") ",{\"ph\":\"X\" \"cat\":1}," OP("d", "1", "2")), 2,
	      "damaged places");
	check(FILE_OF(OP("a", "1", "2") ",{\"ph\":\"X\",\"cat\":\"kernel\"," OP("d", "1", "2")), 2,
	      "damaged places");
	check(FILE_OF(OP("a", "1", "2") ",\x01\xff?? " OP("d", "1", "2")), 2, "damaged places");
	check(FILE_OF("7, null, \"x\", " OP("d", "1", "2")), 1, "damaged places");
}

static void test_numbers(void **state) {
	(void)state;
	static const struct {
		const char *us;
		int64_t ns;
	} times[] = {{"0", 0},
	             {"1", 1000},
	             {"1712195495505637.5", 1712195495505637500},
	             {"1712195495505637.123456", 1712195495505637123},
	             {"0.0005", 1},
	             {"0.00049", 0},
	             {"2.9999", 3000},
	             {"1e3", 1000000},
	             {"1.5E-2", 15},
	             {"\"12.25\"", 12250},
	             {"9999999999999999999999", INT64_C(1) << 61},
	             {"1e400", INT64_C(1) << 61},
	             {"9999999999999999", INT64_C(1) << 61}};
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		char file[400];
		snprintf(file, sizeof file,
		         "[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":0,\"dur\":%s}]",
		         times[i].us);
		lk_capture *capture = read_text(file);
		assert_int_equal(capture->count, 1);
		if (capture->dur_ns[0] != times[i].ns)
			fail_msg("%s us are not %lld ns", times[i].us, (long long)capture->dur_ns[0]);
		lk_capture_free(capture);
	}
}

static void test_names(void **state) {
	(void)state;
	lk_capture *capture = read_text("[" OP("\\u00e9\\ud83d\\ude00\\n\\/", "1", "2") "," OP(
		"\\ud83d x\\u0000", "1", "2") "," OP("\xc3\xa9\xf0\x9f\x98\x80\\n/", "1", "2") "]");
	assert_string_equal(name_of(capture, 0), "\xc3\xa9\xf0\x9f\x98\x80\n/");
	assert_string_equal(name_of(capture, 1), "\xef\xbf\xbd x\xef\xbf\xbd");
	assert_int_equal(capture->name[0], capture->name[2]);
	lk_capture_free(capture);
}

static void test_pairs(void **state) {
	(void)state;
	lk_capture *capture = read_text(FILE_OF(
		"{\"ph\":\"B\",\"cat\":\"cpu_op\",\"name\":\"outer\",\"pid\":1,\"tid\":1,\"ts\":10},"
		"{\"ph\":\"B\",\"cat\":\"cpu_op\",\"name\":\"other\",\"pid\":1,\"tid\":2,\"ts\":11},"
		"{\"ph\":\"B\",\"cat\":\"python_function\",\"name\":\"dropped\",\"pid\":1,\"tid\":1,\"ts\":"
		"12},"
		"{\"ph\":\"B\",\"cat\":\"user_annotation\",\"name\":\"inner\",\"pid\":1,\"tid\":1,\"ts\":"
		"13},"
		"{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":14.5},{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":"
		"15},{\"ph\":"
		"\"E\",\"pid\":1,\"tid\":1,\"ts\":20},"
		"{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":21}"));
	assert_int_equal(capture->count, 2);
	assert_string_equal(name_of(capture, 0), "inner");
	assert_int_equal(capture->dur_ns[0], 1500);
	assert_string_equal(name_of(capture, 1), "outer");
	assert_int_equal(capture->dur_ns[1], 10000);
	assert_int_equal(capture->parent[0], 1);
	assert_warned(capture, "never ended, left out: 1");
	assert_warned(capture, "without a begin, left out: 1");
	lk_capture_free(capture);
}

static void test_nested_lists(void **state) {
	(void)state;
	check("[{\"traceEvents\":[" OP("a", "1", "2") "],\"more\":1}]", 1, NULL);
	check("{\"data\":{\"x\":[1],\"traceEvents\":[" OP("a", "1", "2") "]}}", 1, NULL);
	check(FILE_OF("[" OP("a", "1", "2") ",[" OP("b", "1", "2") "]]," OP("c", "1", "2")), 3, NULL);
}

static void test_old_and_other_profilers(void **state) {
	(void)state;
	/* capitals; ROCm, where the process is the GPU and the arguments are texts; "stream 7" as the
	 * thread */
	lk_capture *capture =
		read_text("[{\"ph\":\"X\",\"cat\":\"Operator\",\"name\":\"o\",\"pid\":\"10\",\"tid\":"
	              "\"11\",\"ts\":1,\"dur\":9},"
	              "{\"ph\":\"X\",\"cat\":\"Runtime\",\"name\":\"hipLaunchKernel\",\"pid\":10,"
	              "\"tid\":11,\"ts\":2,\"dur\":1,"
	              "\"args\":{\"correlation\":\"5\",\"stream\":\"0x0\"}},"
	              "{\"ph\":\"X\",\"cat\":\"Kernel\",\"name\":\"k\",\"pid\":2,\"tid\":\"stream "
	              "7\",\"ts\":4,\"dur\":1,\"args\":{\"correlation\":5}},"
	              "{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"PyTorch Profiler "
	              "(0)\",\"pid\":\"Spans\",\"tid\":\"PyTorch "
	              "Profiler\",\"ts\":0,\"dur\":99},"
	              "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":10,\"tid\":11,\"args\":{\"name\":"
	              "\"main\"}},"
	              "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"p\",\"pid\":\"host\",\"tid\":"
	              "\"loop\",\"ts\":1,\"dur\":9}]");
	assert_int_equal(capture->count, 4);
	assert_int_equal(capture->lane[0], capture->lane[1]);
	assert_string_equal(lk_capture_text(capture, capture->lanes.at[capture->lane[0]].name), "main");
	assert_int_equal(capture->launch[2], 1);
	assert_int_equal(capture->launch[1], 2);
	assert_int_equal(capture->parent[1], 0);
	assert_true(capture->lanes.at[capture->lane[2]].stream);
	assert_int_equal(capture->lanes.at[capture->lane[2]].process, 2);
	assert_int_equal(capture->lanes.at[capture->lane[2]].thread, 7);
	assert_true(capture->lanes.at[capture->lane[3]].process < -1);
	assert_int_equal(capture->origin_ns, 1000);
	assert_false(capture->absolute);
	lk_capture_free(capture);
}

static void test_head(void **state) {
	(void)state;
	lk_capture *capture = read_text(
		"{\"baseTimeNanoseconds\": 1711964646000000123, \"deviceProperties\": "
		"[{\"id\":0,\"name\":\"A\",\"numSms\":1},"
		"{\"id\":1,\"name\":\"B\",\"numSms\":80,\"totalGlobalMem\":1000}], "
		"\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":1,"
		"\"args\":{\"device\":1,\"stream\":3}}], \"distributedInfo\": "
		"{\"backend\":\"nccl\",\"rank\":3,\"world_size\":8,\"pg_config\":"
		"[{\"pg_name\":\"0\",\"pg_desc\":\"default_pg\",\"pg_size\":2,\"ranks\":[0,1]},{\"pg_"
		"name\":\"1\",\"ranks\":[2,"
		" 3,4]}]}}");
	assert_int_equal(capture->origin_ns, 1711964646000001123);
	assert_true(capture->absolute);
	assert_int_equal(capture->rank, 3);
	assert_int_equal(capture->world, 8);
	assert_string_equal(lk_capture_text(capture, capture->backend), "nccl");
	assert_string_equal(lk_capture_text(capture, capture->device), "B");
	assert_int_equal(capture->sms, 80);
	assert_true(capture->device_bytes == 1000);
	assert_int_equal(capture->groups.count, 2);
	assert_string_equal(lk_capture_text(capture, capture->groups.at[0].text), "default_pg");
	assert_string_equal(lk_capture_text(capture, capture->groups.at[0].ranks), "[0, 1]");
	assert_int_equal(capture->groups.at[1].size, 3);
	assert_string_equal(lk_capture_text(capture, capture->groups.at[1].ranks), "[2, 3, 4]");
	lk_capture_free(capture);
	check("{\"distributedInfo\": {\"rank\": 1, \"x\": }, \"traceEvents\": []}", 0,
	      "head fields that could not be read");
}

/* ---- communication and waits ---- */

#define EVENT(cat, name, tid, ts, dur, args)                                          \
	"{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":1,\"tid\":" #tid \
	",\"ts\":" #ts ",\"dur\":" #dur ",\"args\":{" args "}},"

static void test_comms_of_old_traces(void **state) {
	(void)state;
	lk_capture *capture = read_text(
		"[" /* size from the annotation; point-to-point named by it; two kernels of one annotation;
	           none */
		EVENT("user_annotation", "nccl:all_reduce", 5, 10, 10,
	          "\"Input Dims\": [[64, 2]], \"Input type\": [\"float\"]")
			EVENT("cuda_runtime", "cudaLaunchKernel", 5, 12, 2, "\"correlation\": 1")
				EVENT("kernel", "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWork*)", 9, 20, 5,
	                  "\"stream\":9,\"device\":0,\"correlation\": 1")
					EVENT("user_annotation", "nccl:send 0->3", 5, 30, 10,
	                      "\"Input Dims\": [[7]], \"Input type\": [\"c10::BFloat16\"]")
						EVENT("cuda_runtime", "cudaLaunchKernel", 5, 32, 2, "\"correlation\": 2")
							EVENT("kernel", "ncclDevKernel_SendRecv(ncclDevKernelArgs)", 9, 40, 5,
	                              "\"stream\":9,\"device\":0,\"correlation\": 2")
								EVENT("user_annotation", "nccl:broadcast", 5, 50, 10,
	                                  "\"Input Dims\": [[8], [9]], \"Input type\": [\"float\", "
	                                  "\"float\"]") EVENT("cuda_runtime", "cudaLaunchKernel", 5, 52,
	                                                      2, "\"correlation\": 3")
									EVENT("cuda_runtime", "cudaLaunchKernel", 5, 55, 2,
	                                      "\"correlation\": 4")
										EVENT("kernel", "ncclKernel_Broadcast(int)", 9, 60, 5,
	                                          "\"stream\":9,\"device\":0,\"correlation\": 3")
											EVENT("kernel", "ncclKernel_Broadcast(int)", 9, 65, 5,
	                                              "\"stream\":9,\"device\":0,\"correlation\": "
	                                              "4") "{\"ph\":\"X\",\"cat\":"
													   "\"kernel\",\"name\":"
													   "\"ncclDevKernel_"
													   "ReduceScatter_Sum_bf16_RING_"
													   "LL\",\"ts\":80,\"dur\":1}]");
	assert_int_equal(capture->comms.count, 5);
	const lk_comm_note *note = lk_capture_comm(capture, 2);
	assert_int_equal(note->kind, LK_OP_ALLREDUCE);
	assert_int_equal(note->in_elements, 128);
	assert_int_equal(note->out_elements, 128);
	assert_int_equal(note->element_bytes, 4);
	note = lk_capture_comm(capture, 5);
	assert_int_equal(note->kind, LK_OP_SEND);
	assert_int_equal(note->peer, 3);
	assert_int_equal(note->in_elements, 7);
	assert_int_equal(note->element_bytes, 2);
	assert_int_equal(lk_capture_comm(capture, 9)->in_elements, -1);
	assert_int_equal(lk_capture_comm(capture, 10)->in_elements, -1);
	assert_int_equal(lk_capture_comm(capture, 9)->kind, LK_OP_BROADCAST);
	assert_int_equal(lk_capture_comm(capture, 11)->kind, LK_OP_REDUCESCATTER);
	assert_int_equal(lk_capture_comm(capture, 11)->in_elements, -1);
	lk_capture_free(capture);
}

static void test_comms_with_arguments(void **state) {
	(void)state;
	/* what enqueued it is not counted again; on a host the annotation is the communication */
	lk_capture *capture =
		read_text("[" EVENT("cpu_op", "record_param_comms", 5, 9, 12,
	                        "\"Collective name\": \"allreduce\", \"In msg nelems\": 10, \"Out msg "
	                        "nelems\": 10, \"Group size\": 2, "
	                        "\"dtype\": \"Float\", \"Process Group Name\": \"7\", \"Process Group "
	                        "Description\": \"dp\", \"Process "
	                        "Group Ranks\": \"[0, 1]\"")
	                  EVENT("user_annotation", "nccl:all_reduce", 5, 10, 10, "")
	                      EVENT("cuda_runtime", "cudaLaunchKernel", 5, 12, 2,
	                            "\"correlation\": 1") "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":"
	                                                  "\"ncclDevKernel_AllReduce_Sum_f32_"
	                                                  "RING_LL(ncclArgs)\",\"ts\":80,\"dur\":1,"
	                                                  "\"args\":{\"correlation\":1}}]");
	assert_int_equal(capture->comms.count, 1);
	const lk_comm_note *note = lk_capture_comm(capture, 3);
	assert_non_null(note);
	assert_int_equal(note->in_elements, 10);
	assert_int_equal(note->group_size, 2);
	assert_string_equal(lk_capture_text(capture, note->group), "7");
	assert_string_equal(lk_capture_text(capture, note->group_text), "dp");
	assert_string_equal(lk_capture_text(capture, note->ranks), "[0, 1]");
	lk_capture_free(capture);
	capture = read_text("[" EVENT("cpu_op", "record_param_comms", 5, 9, 2,
	                              "\"Collective name\": \"allreduce\", \"In msg nelems\": 10")
	                        EVENT("user_annotation", "gloo:all_reduce", 6, 10, 10,
	                              "\"Input Dims\": [[321271]], \"Input type\": [\"float\"]") "]");
	assert_int_equal(capture->comms.count, 1);
	assert_int_equal(lk_capture_comm(capture, 1)->in_elements, 321271);
	assert_int_equal(lk_capture_comm(capture, 1)->kind, LK_OP_ALLREDUCE);
	lk_capture_free(capture);
}

static void test_waits(void **state) {
	(void)state;
	lk_capture *capture = read_text(
		"[" EVENT("cuda_sync", "Stream Wait Event", 24, 10, 2,
	              "\"cuda_sync_kind\": \"Stream Wait Event\", \"wait_on_stream\": 20, "
	              "\"wait_on_cuda_event_record_corr_id\": 1385, \"stream\": 24, \"correlation\": "
	              "1389, \"device\": 0")
			EVENT("cuda_sync", "Context Sync", -1, 20, 9,
	              "\"cuda_sync_kind\": \"Context Sync\", \"stream\": 4294967295, \"device\": 0")
				EVENT("cuda_sync", "Stream Sync", 7, 30, 9,
	                  "\"cuda_sync_kind\": \"Stream Sync\", \"stream\": 7, \"device\": 0")
					EVENT("cuda_runtime", "cudaStreamWaitEvent", 2, 40, 9,
	                      "\"wait_on_stream\": 20, \"stream\": 24, \"cuda_sync_kind\": \"Stream "
	                      "Wait Event\"")
						EVENT("cuda_runtime", "cudaLaunchKernel", 2, 50, 9, "\"stream\": 24") "]");
	assert_int_equal(capture->syncs.count, 4);
	const lk_sync_note *note = lk_capture_sync(capture, 0);
	assert_int_equal(note->kind, LK_SYNC_STREAM_WAITS);
	assert_int_equal(capture->lanes.at[note->stream].thread, 24);
	assert_int_equal(capture->lanes.at[note->on].thread, 20);
	assert_int_equal(note->record, 1385);
	assert_int_equal(lk_capture_sync(capture, 1)->kind, LK_SYNC_DEVICE);
	assert_int_equal(lk_capture_sync(capture, 1)->stream, LK_NONE);
	assert_int_equal(lk_capture_sync(capture, 2)->kind, LK_SYNC_STREAM);
	assert_int_equal(lk_capture_sync(capture, 3)->kind, LK_SYNC_STREAM_WAITS);
	assert_null(lk_capture_sync(capture, 4));
	lk_capture_free(capture);
}

/* ---- what is refused ---- */

static void test_no_trace(void **state) {
	(void)state;
	assert_refused("", "empty");
	assert_refused(" \n", "empty");
	assert_refused("hello", "t.json:1");
	assert_refused("SQLite format 3", "begins neither");
	assert_refused("{\"model_type\": \"llama\"}", "no list traceEvents");
	assert_refused("{\"nodes\": [{\"name\": \"x\"}]}", "no list traceEvents");
	assert_refused("{\"traceEvents\": 7}", "no list traceEvents");
	assert_refused("{\n\n rubbish", "t.json:3");
	assert_refused("{\"schemaVersion\": 1,", "cut off before");
}

static lk_status read_limited(const char *file, size_t size, lk_read_limits limits,
                              const char *words) {
	lk_capture *capture;
	lk_error err;
	lk_status status = read_bytes(file, size, &limits, &capture, &err);
	if (words) assert_non_null(strstr(err.what, words));
	lk_capture_free(capture);
	return status;
}

static void test_limits(void **state) {
	(void)state;
	static const char file[] =
		FILE_OF(OP("a", "1", "2") "," OP("b", "1", "2") "," OP("c", "1", "2"));
	assert_int_equal(read_limited(file, sizeof file - 1, (lk_read_limits){.events = 3}, NULL),
	                 LK_OK);
	assert_int_equal(
		read_limited(file, sizeof file - 1, (lk_read_limits){.events = 2}, "more than 2 events"),
		LK_ERR_INPUT);
	assert_int_equal(read_limited(file, sizeof file - 1, (lk_read_limits){.names = 2},
	                              "more than 2 different names"),
	                 LK_ERR_INPUT);
	assert_int_equal(
		read_limited(file, sizeof file - 1, (lk_read_limits){.bytes = 50}, "more than 50 bytes"),
		LK_ERR_INPUT);
	assert_int_equal(
		read_limited(file, sizeof file - 1, (lk_read_limits){.bytes = sizeof file - 1}, NULL),
		LK_OK);
}

/* `head`, `count` times `part`, `tail`; the events that come of it, or -1 when it is refused with
 * `words`. */
static long read_repeated(const char *head, const char *part, size_t count, const char *tail,
                          const char *words) {
	size_t h = strlen(head), p = strlen(part), t = strlen(tail), size = h + p * count + t;
	char *file = malloc(size);
	assert_non_null(file);
	memcpy(file, head, h);
	for (size_t i = 0; i < count; i++) memcpy(file + h + i * p, part, p);
	memcpy(file + h + p * count, tail, t);
	lk_capture *capture;
	lk_error err;
	long events = -1;
	if (read_bytes(file, size, &with_shapes, &capture, &err) == LK_OK) {
		events = capture->count;
		if (words) assert_warned(capture, words);
		lk_capture_free(capture);
	} else if (words) assert_non_null(strstr(err.what, words));
	free(file);
	return events;
}

static void test_monsters(void **state) {
	(void)state;
	if (only_elsewhere()) skip();
	static const char event[] = OP("a", "1", "2");
	char tail[300];
	enum { MANY = 1000000, LONG = 34000000 };
	assert_int_equal(read_repeated("", "[", MANY, "", "levels deep"), -1);
	assert_int_equal(read_repeated("{\"x\":", "{\"x\":", MANY, "", NULL), -1);
	assert_int_equal(read_repeated("[{\"ph\":\"X\",\"args\":{\"x\":", "[", MANY, "", "levels deep"),
	                 -1);
	/* a text longer than any window, in an event that is kept, in one that is not, in the head */
	snprintf(tail, sizeof tail, "\"},%s]", event);
	assert_int_equal(read_repeated("[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"", "a", LONG, tail,
	                               "more than 32 MiB"),
	                 1);
	assert_int_equal(read_repeated("[{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"", "a",
	                               LONG, tail, NULL),
	                 1);
	snprintf(tail, sizeof tail, "\",\"traceEvents\":[%s]}", event);
	assert_int_equal(read_repeated("{\"x\":\"", "\\\"", LONG / 2, tail, NULL), 1);
	assert_int_equal(read_repeated("{\"distributedInfo\":\"", "a", LONG, tail, "head fields"), 1);
	assert_int_equal(read_repeated("[", "{\"ph\":\"B\",\"cat\":\"cpu_op\",\"ts\":1},", 100000, "]",
	                               "never ended, left out: 100000"),
	                 0);
}

static void test_many_threads(void **state) {
	(void)state;
	size_t size = 0, room = (size_t)LK_MOST_LANES * 80 + 200;
	char *file = malloc(room);
	for (int n = 0; n <= LK_MOST_LANES; n++)
		size += (size_t)snprintf(
			file + size, room - size,
			"%c{\"ph\":\"X\",\"cat\":\"cpu_op\",\"ts\":1,\"dur\":1,\"tid\":%d}", n ? ',' : '[', n);
	assert_int_equal(read_limited(file, size, (lk_read_limits){0}, "threads and streams"),
	                 LK_ERR_INPUT);
	free(file);
}

/* Calls and kernels whose numbers are few, many of one number, or far apart; whatever the numbers,
 * the join is the same. */
static void test_launches(void **state) {
	(void)state;
	for (uint64_t round = 0; round < 60; round++) {
		uint64_t seed = round << 32, spread = round % 3 == 0   ? 8
		                                      : round % 3 == 1 ? 300
		                                                       : 4000000000u;
		struct text *text = calloc(1, sizeof *text);
		put(text, "[");
		for (int i = 0; i < 300; i++)
			put(text,
			    "%s{\"ph\":\"X\",\"cat\":\"%s\",\"ts\":%d,\"dur\":1,\"args\":{\"correlation\":%llu}"
			    "}",
			    i ? "," : "", draw(&seed, 2) ? "kernel" : "cuda_runtime", (int)draw(&seed, 1000),
			    (unsigned long long)(draw(&seed, 40) * (spread / 40 + 1)));
		put(text, "]");
		lk_capture *capture = read_text(text->bytes);
		assert_int_equal(capture->count, 300);
		for (uint32_t i = 0; i < capture->count; i++) {
			uint32_t found = LK_NONE;
			for (uint32_t j = 0; j < capture->count && capture->joins[i]; j++) {
				if (capture->joins[j] != capture->joins[i] || capture->kind[j] == capture->kind[i])
					continue;
				/* work: the first call that the file names; a call: the earliest work, if it is
				 * that first call */
				if (found == LK_NONE || (capture->kind[j] == LK_EVENT_KERNEL &&
				                         capture->start_ns[j] < capture->start_ns[found]))
					found = j;
			}
			if (capture->kind[i] == LK_EVENT_RUNTIME && found != LK_NONE &&
			    capture->launch[found] != i)
				found = LK_NONE;
			assert_int_equal(capture->launch[i], found);
		}
		lk_capture_free(capture);
		free(text);
	}
}

/* ---- packed files ---- */

static size_t pack(const char *in, size_t size, unsigned char *out, size_t room) {
	z_stream z = {0};
	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = (unsigned char *)(uintptr_t)in;
	z.avail_in = (unsigned)size;
	z.next_out = out;
	z.avail_out = (unsigned)room;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return z.total_out;
}

static void test_packed(void **state) {
	(void)state;
	static const char one[] = "[" OP("a", "1", "2") ",", two[] = OP("b", "1", "2") "]";
	unsigned char packed[1000];
	size_t first = pack(one, sizeof one - 1, packed, 500),
		   size = first + pack(two, sizeof two - 1, packed + first, 500);
	lk_capture *capture;
	lk_error err;
	assert_int_equal(read_bytes((char *)packed, size, &with_shapes, &capture, &err), LK_OK);
	assert_int_equal(capture->count, 2);
	assert_int_equal(capture->warnings.count, 0);
	lk_capture_free(capture);
	for (size_t cut = 3; cut < size; cut++) {
		if (read_bytes((char *)packed, cut, &with_shapes, &capture, &err) != LK_OK) continue;
		assert_true(capture->count <= 2 && capture->damaged == 1);
		lk_capture_free(capture);
	}
	packed[first - 5] ^= 1; /* the checksum of the first member */
	if (read_bytes((char *)packed, size, &with_shapes, &capture, &err) == LK_OK) {
		assert_warned(capture, "gzip data is damaged");
		lk_capture_free(capture);
	}
}

/* 300 MB of white space in 300 kB: refused at the limit, in little memory. */
static void test_bomb(void **state) {
	(void)state;
	if (only_elsewhere()) skip();
	enum { SIZE = 30000000 };
	char *blank = malloc(SIZE);
	unsigned char *packed = malloc(100000);
	memset(blank, ' ', SIZE);
	blank[0] = '[';
	size_t size = pack(blank, SIZE, packed, 100000);
	free(blank);
	assert_int_equal(read_limited((char *)packed, size, (lk_read_limits){.bytes = 10000000},
	                              "more than 10000000 bytes"),
	                 LK_ERR_INPUT);
	free(packed);
}

/* ---- one file, several threads ---- */

enum { LONG_FILE = 3 << 20 };

/* A call that begins or ends, a thread with a name, a communication, a wait, a thread's name: whose
 * meaning hangs on what came before, or that has more than a row. */
static int put_rare(char *to, uint64_t dice, int i) {
	int tid = (int)(dice % 5), n = 0;
	switch (dice >> 8 & 7) {
	case 0:
	case 1:
		return sprintf(
			to,
			"{\"ph\":\"%c\",\"cat\":\"cpu_op\",\"name\":\"pair%d\",\"pid\":1,\"tid\":%d,\"ts\":%d}",
			dice >> 12 & 1 ? 'B' : 'E', i % 91, tid, i * 10);
	case 2:
		return sprintf(to,
		               "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"on%d\",\"pid\":\"host\","
		               "\"tid\":\"lane %c\",\"ts\":%d,"
		               "\"dur\":1}",
		               i % 7, "abc1"[dice >> 12 & 3], i * 10);
	case 3:
		return sprintf(to,
		               "{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"wait\",\"pid\":0,\"tid\":7,"
		               "\"ts\":%d,\"dur\":2,"
		               "\"args\":{\"cuda_sync_kind\":\"Stream Wait "
		               "Event\",\"stream\":%d,\"wait_on_stream\":%d,"
		               "\"wait_on_cuda_event_record_corr_id\":%d}}",
		               i * 10, tid, tid + 20, i);
	case 4:
		n = sprintf(to,
		            "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":%d,\"args\":{"
		            "\"name\":\"lane %d\"}}",
		            tid, i % 97);
		return n;
	default:
		return sprintf(to,
		               "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"nccl%d\",\"pid\":0,\"tid\":%d,"
		               "\"ts\":%d,\"dur\":3,\"args\":{"
		               "\"correlation\":%d,\"Collective name\":\"allreduce\",\"In msg "
		               "nelems\":%d,\"Group size\":8,\"dtype\":\"Float\","
		               "\"Process Group Name\":\"%d\",\"Process Group Ranks\":\"[0, %d]\"%s}}",
		               i % 13, tid + 20, i * 10, i, i, i % 11, i % 17, dice >> 20 & 15 ? "" : ",");
	}
}

/* Events of use and of none, whose texts look like the beginning of one, among what is damaged or
 * odd: more than several pieces of the file. A file of an even seed has damage rarely. */
static char *long_file(uint64_t seed, size_t *size) {
	char *text = malloc(LONG_FILE + 4096), *at = text;
	uint64_t dice = seed;
	assert_non_null(text);
	at += sprintf(at, "{\"traceEvents\":[\n");
	for (int i = 0; at - text < LONG_FILE; i++) {
		dice = lk_hash64(dice + 1);
		int ts = i * 10, tid = (int)(dice % 7), what = (int)(dice >> 8 & 63);
		if (seed % 2 == 0 && (what < 3 || (what > 7 && what < 12)) && dice >> 40 & 511) what += 20;
		if (dice >> 20 & 1 && (seed % 2 == 1 || !(dice >> 21 & 127))) {
			at += put_rare(at, lk_hash64(dice), i);
			at += sprintf(at, ",\n");
			continue;
		}
		const char *odd = what == 0   ? "{\\\"ph\\\":\\\"X\\\",{\\\"name\\\":"
		                  : what == 1 ? "\\\\"
		                              : "gemm";
		if (what < 3) at += sprintf(at, "{\"name\":\"%s\", \"ph\":\"X\",\"cat\":\"cpu_op\",", odd);
		else if (what < 8) at += sprintf(at, "{\"ph\":\"X\",\"cat\":\"python_function\",");
		else if (what == 8) at += sprintf(at, "{\"ph\":\"X\",\"cat\" \"cpu_op\",");
		else if (what == 9) at += sprintf(at, "{\"args\":{\"name\":{\"ph\":[{}]}},");
		else at += sprintf(at, "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"op%d\",", what);
		at += sprintf(at, "\"pid\":1,\"tid\":%d,\"ts\":%d.5,\"dur\":%d", tid, ts, what);
		if (what > 40)
			at += sprintf(at, ",\"args\":{\"Input Dims\":[[%d,8],[]],\"External id\":%d}", what, i);
		at += sprintf(at, "}%s\n", what == 11 ? " , " : ",");
	}
	at += sprintf(at, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,"
	                  "\"args\":{\"name\":\"main\"}}]}\n");
	*size = (size_t)(at - text);
	return text;
}

typedef struct long_read {
	const char *text;
	size_t size;
	lk_capture *capture[2];
} long_read;

/* Inside of several jobs a file is read by one thread. */
static lk_status read_inside(void *context, size_t job, lk_error *err) {
	long_read *reads = context;
	return read_bytes(reads->text, reads->size, &with_shapes, &reads->capture[job], err);
}

static void assert_same_capture(const lk_capture *a, const lk_capture *b) {
	assert_int_equal(a->count, b->count);
	assert_int_equal(a->dropped, b->dropped);
	assert_int_equal(a->bytes_read, b->bytes_read);
	assert_memory_equal(a->start_ns, b->start_ns, a->count * sizeof *a->start_ns);
	assert_memory_equal(a->dur_ns, b->dur_ns, a->count * sizeof *a->dur_ns);
	assert_memory_equal(a->kind, b->kind, a->count * sizeof *a->kind);
	assert_memory_equal(a->lane, b->lane, a->count * sizeof *a->lane);
	assert_memory_equal(a->name, b->name, a->count * sizeof *a->name);
	assert_int_equal(lk_intern_count(a->names), lk_intern_count(b->names));
	for (uint32_t i = 0; i < lk_intern_count(a->names); i++)
		assert_string_equal(lk_capture_text(a, i), lk_capture_text(b, i));
	assert_int_equal(a->shapes.count, b->shapes.count);
	assert_memory_equal(a->shapes.at, b->shapes.at, a->shapes.count * sizeof *a->shapes.at);
	assert_memory_equal(a->joins, b->joins, a->count * sizeof *a->joins);
	assert_int_equal(a->comms.count, b->comms.count);
	for (size_t i = 0; i < a->comms.count; i++) {
		const lk_comm_note *one = &a->comms.at[i], *other = &b->comms.at[i];
		assert_int_equal(one->event, other->event);
		assert_int_equal(one->kind, other->kind);
		assert_int_equal(one->dtype, other->dtype);
		assert_int_equal(one->group, other->group);
		assert_int_equal(one->ranks, other->ranks);
		assert_int_equal(one->in_elements, other->in_elements);
	}
	assert_int_equal(a->syncs.count, b->syncs.count);
	assert_memory_equal(a->syncs.at, b->syncs.at, a->syncs.count * sizeof *a->syncs.at);
	assert_int_equal(a->lanes.count, b->lanes.count);
	for (size_t i = 0; i < a->lanes.count; i++) {
		assert_int_equal(a->lanes.at[i].process, b->lanes.at[i].process);
		assert_int_equal(a->lanes.at[i].thread, b->lanes.at[i].thread);
		assert_int_equal(a->lanes.at[i].name, b->lanes.at[i].name);
	}
	assert_int_equal(a->warnings.count, b->warnings.count);
	for (size_t i = 0; i < a->warnings.count; i++)
		assert_string_equal(a->warnings.at[i], b->warnings.at[i]);
	assert_int_equal(a->damages.count, b->damages.count);
	for (size_t i = 0; i < a->damages.count; i++)
		assert_string_equal(a->damages.at[i], b->damages.at[i]);
}

static void test_several_threads(void **state) {
	(void)state;
	for (uint64_t seed = 0; seed < 4; seed++) {
		long_read reads = {0};
		lk_capture *alone;
		lk_error err;
		char *text = long_file(seed, &reads.size);
		reads.text = text;
		assert_int_equal(read_bytes(text, reads.size, &with_shapes, &alone, &err), LK_OK);
		assert_int_equal(lk_parallel(2, 2, read_inside, &reads, &err), LK_OK);
		assert_same_capture(alone, reads.capture[0]);
		assert_same_capture(alone, reads.capture[1]);
		assert_true(alone->count > 1000 && alone->dropped > 1000 && alone->damages.count > 0);
		assert_true(alone->comms.count > 1 && alone->syncs.count > 1);
		lk_capture_free(alone);
		lk_capture_free(reads.capture[0]);
		lk_capture_free(reads.capture[1]);
		free(text);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_python_agrees),
		cmocka_unit_test(test_random_files),
		cmocka_unit_test(test_truncation),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_nested_lists),
		cmocka_unit_test(test_old_and_other_profilers),
		cmocka_unit_test(test_head),
		cmocka_unit_test(test_comms_of_old_traces),
		cmocka_unit_test(test_comms_with_arguments),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_no_trace),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_monsters),
		cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_launches),
		cmocka_unit_test(test_several_threads),
		cmocka_unit_test(test_packed),
		cmocka_unit_test(test_bomb),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
