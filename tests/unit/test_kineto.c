/* test_kineto.c: the reader of Kineto's and Chrome's JSON. Oracles: python's json on every trace at hand, and a slow
 * reader over base/json on random files. Damage of every kind gives a warning and the events that can be read; what is
 * no trace, or too much, is refused. */
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
#include "io/json.h"
#include "base/stats.h"
#include "trace/read/read.h"
#include "data.h"
#include "rounds.h"

static const lk_read_limits with_shapes = {.shapes = true};

/* ---- helpers ---- */

static lk_status read_bytes(const char *text, size_t size, const lk_read_limits *limits, lk_capture **out,
                            lk_error *err) {
	lk_stream *in;
	*out = NULL;
	*err = (lk_error){0};
	LK_TRY(lk_stream_memory(text, size, "t.json", &in, err));
	lk_capture *c = lk_capture_new("t.json", "Kineto JSON");
	assert_non_null(c);
	lk_status status = lk_kineto_read(in, limits, c, err);
	if (status == LK_OK) status = lk_capture_finish(c, err);
	lk_stream_close(in);
	if (status == LK_OK) *out = c;
	else lk_capture_free(c);
	return status;
}

static lk_capture *read_text(const char *text) {
	lk_capture *c;
	lk_error err;
	char line[1024];
	if (read_bytes(text, strlen(text), &with_shapes, &c, &err) != LK_OK)
		fail_msg("%s", lk_error_text(&err, line, sizeof line));
	return c;
}

static bool warned(const lk_capture *c, const char *words) {
	for (size_t i = 0; i < c->warnings.count; i++)
		if (strstr(c->warnings.at[i], words)) return true;
	return false;
}

static void assert_warned(const lk_capture *c, const char *words) {
	if (warned(c, words)) return;
	for (size_t i = 0; i < c->warnings.count; i++) print_message("%s\n", c->warnings.at[i]);
	fail_msg("no warning says \"%s\"", words);
}

static void assert_refused(const char *text, const char *words) {
	lk_capture *c;
	lk_error err;
	char line[1024];
	if (read_bytes(text, strlen(text), &with_shapes, &c, &err) == LK_OK) fail_msg("was read: %s", text);
	lk_error_text(&err, line, sizeof line);
	if (!strstr(line, words) || !err.where[0] || !err.hint[0])
		fail_msg("\"%s\" does not say \"%s\", where and what to do", line, words);
}

static const char *name_of(const lk_capture *c, uint32_t event) { return lk_capture_text(c, c->name[event]); }

/* ---- the traces at hand, against python ---- */

static void print_capture(const lk_capture *c, char *out, size_t size) {
	static const char *const names[] = {"OP", "NOTE", "RUNTIME", "KERNEL", "MEMCPY", "MEMSET", "SYNC"};
	uint64_t sums[LK_EVENT_KINDS][4] = {0}, joined = 0, comms = 0, elements = 0, bytes = 0;
	for (uint32_t i = 0; i < c->count; i++) {
		uint64_t *s = sums[c->kind[i]];
		const char *name = name_of(c, i);
		s[0]++;
		s[1] += (uint64_t)c->dur_ns[i];
		s[2] += (uint64_t)c->start_ns[i];
		s[3] += crc32(0, (const unsigned char *)name, (unsigned)strlen(name));
		joined += lk_event_on_device(c->kind[i]) && c->launch[i] != LK_NONE;
	}
	for (size_t i = 0; i < c->comms.count; i++) {
		const lk_comm_note *n = &c->comms.at[i];
		if (c->kind[n->event] != LK_EVENT_KERNEL) continue;
		comms++;
		if (n->in_elements < 0) continue;
		elements += (uint64_t)n->in_elements;
		bytes += (uint64_t)n->in_elements * n->element_bytes;
	}
	size_t used = 0;
	for (int k = 0; k < LK_EVENT_KINDS; k++)
		used += (size_t)snprintf(out + used, size - used, "%s %llu %llu %llu %llu\n", names[k],
		                         (unsigned long long)sums[k][0], (unsigned long long)sums[k][1],
		                         (unsigned long long)sums[k][2], (unsigned long long)sums[k][3]);
	snprintf(out + used, size - used, "joined %llu\nnccl %llu %llu %llu\n", (unsigned long long)joined,
	         (unsigned long long)comms, (unsigned long long)elements, (unsigned long long)bytes);
}

static void compare_file(const char *path) {
	lk_capture *c;
	lk_error err = {0};
	char line[1024], command[1024], mine[2048], theirs[2048];
	if (lk_capture_read(path, NULL, &c, &err) != LK_OK) fail_msg("%s", lk_error_text(&err, line, sizeof line));
	print_capture(c, mine, sizeof mine);
	assert_int_equal(c->warnings.count, 0);
	lk_capture_free(c);
	if (judged_elsewhere()) return;
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
	if (system("python3 -c 'import json' 2>/dev/null") != 0 || access("tests/unit/kineto_oracle.py", R_OK) != 0) {
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

static void put(struct text *t, const char *fmt, ...) LK_PRINTF(2, 3);
static void put(struct text *t, const char *fmt, ...) {
	va_list args;
	va_start(args, fmt);
	t->used += (size_t)vsnprintf(t->bytes + t->used, sizeof t->bytes - t->used, fmt, args);
	va_end(args);
	assert_true(t->used < sizeof t->bytes);
}

static void put_space(struct text *t, uint64_t *seed) {
	for (uint64_t n = draw(seed, 6); n > 2; n--) put(t, "%c", " \n\t\r"[draw(seed, 4)]);
}

/* A text, each of its characters now and then as an escape. */
static void put_text(struct text *t, const char *characters, uint64_t *seed) {
	put(t, "\"");
	for (; *characters; characters++) {
		unsigned char c = (unsigned char)*characters;
		if (c < 0x80 && draw(seed, 12) == 0) put(t, "\\u%04x", c);
		else if (c == '"' || c == '\\' || (c == '/' && draw(seed, 2))) put(t, "\\%c", c);
		else if (c == '\n') put(t, "\\n");
		else put(t, "%c", c);
	}
	put(t, "\"");
}

static void put_key(struct text *t, const char *key, uint64_t *seed, bool *first) {
	put_space(t, seed);
	if (!*first) put(t, ",");
	*first = false;
	put_space(t, seed);
	put_text(t, key, seed);
	put_space(t, seed);
	put(t, ":");
	put_space(t, seed);
}

static void put_random_value(struct text *t, uint64_t *seed, int depth) {
	static const char *const plain[] = {
		"0", "-1.5e3", "true", "null", "\"a \\\" ] } b\"", "\"\\\\\"", "[]", "{}", "12345678901234567890"};
	if (depth > 3 || draw(seed, 3)) {
		put(t, "%s", plain[draw(seed, sizeof plain / sizeof *plain)]);
		return;
	}
	put(t, "[");
	for (uint64_t i = 0, n = draw(seed, 4); i < n; i++) {
		put_space(t, seed);
		if (i) put(t, ",");
		put_random_value(t, seed, depth + 1);
	}
	put(t, "]");
}

static void put_number(struct text *t, uint64_t *seed) {
	switch (draw(seed, 6)) {
	case 0: put(t, "\"%d\"", (int)draw(seed, 90000)); break;
	case 1: put(t, "%d.0", (int)draw(seed, 90000)); break;
	case 2: put(t, "-%d", (int)draw(seed, 9)); break;
	default: put(t, "%d", (int)draw(seed, 5000000)); break;
	}
}

static const char *const some_names[] = {"aten::mm", "void f<\"x\">(int)", "a/b\\c",        "\xc3\xa9t\xc3\xa9",
                                         "",         "line\nline",         "ProfilerStep#1"};
static const char *const some_categories[] = {
	"cpu_op",   "kernel", "cuda_runtime", "python_function", "user_annotation", "gpu_memcpy",
	"Operator", "Kernel", "ac2g",         "Trace",           "gpu_memset"};

static void put_argument(struct text *t, int which, uint64_t *seed, bool *first) {
	static const char *const numbers[] = {
		"External id", "correlation", "Record function id", "Sequence number", "stream", "device", "bytes"};
	if (which < 7) {
		put_key(t, numbers[which], seed, first);
		put_number(t, seed);
	} else if (which < 9) {
		put_key(t, which == 7 ? "grid" : "block", seed, first);
		put(t, "[%d,%s%d , %d]", (int)draw(seed, 99), draw(seed, 2) ? " " : "", (int)draw(seed, 9), (int)draw(seed, 3));
	} else if (which == 9) {
		put_key(t, "Input Dims", seed, first);
		put(t, "[[%d, 3],%s[], [[1],[2 , 4]]]", (int)draw(seed, 99), draw(seed, 2) ? "\n" : "");
	} else if (which == 10) {
		put_key(t, "Input type", seed, first);
		put(t, "[\"float\", \"\", \"c10::Half\"]");
	} else {
		char key[40];
		snprintf(key, sizeof key, "unknown key %d", (int)draw(seed, 1000));
		put_key(t, key, seed, first);
		put_random_value(t, seed, 0);
	}
}

static void put_arguments(struct text *t, uint64_t *seed) {
	bool first = true;
	put(t, "{");
	for (int i = 0, at = (int)draw(seed, 14); i < 14; i++, at = (at + 5) % 14)
		if (draw(seed, 3)) put_argument(t, at, seed, &first);
	put_space(t, seed);
	put(t, "}");
}

static void put_field(struct text *t, int which, uint64_t *seed, bool *first) {
	static const char *const keys[] = {"ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "other"};
	if (which > 1 && which != 5 && draw(seed, 12) == 0) return;
	put_key(t, keys[which], seed, first);
	switch (which) {
	case 0: put_text(t, draw(seed, 8) ? "X" : "i", seed); break;
	case 1: put_text(t, some_categories[draw(seed, sizeof some_categories / sizeof *some_categories)], seed); break;
	case 2: put_text(t, some_names[draw(seed, sizeof some_names / sizeof *some_names)], seed); break;
	case 3:
	case 4: put(t, "%d", (int)draw(seed, 5)); break;
	case 5:
		put(t, draw(seed, 2) ? "%llu" : "%llu.%03d", 1700000000000000ull + draw(seed, 100000), (int)draw(seed, 1000));
		break;
	case 6: put(t, draw(seed, 3) ? "%d" : "%d.5", (int)draw(seed, 1000)); break;
	case 7: put_arguments(t, seed); break;
	default: put_random_value(t, seed, 0); break;
	}
}

static void put_random_event(struct text *t, uint64_t *seed) {
	bool first = true;
	put(t, "{");
	/* 4 and 9 have no common factor: every key once, in an order of their own */
	for (int i = 0, at = (int)draw(seed, 9), by = draw(seed, 2) ? 4 : 1; i < 9; i++, at = (at + by) % 9)
		put_field(t, at, seed, &first);
	put_space(t, seed);
	put(t, "}");
}

static void put_random_file(struct text *t, uint64_t *seed) {
	bool bare = draw(seed, 4) == 0;
	t->used = 0;
	put_space(t, seed);
	put(t, "%s", bare ? "[" : "{\"schemaVersion\": 1, \"x\" : {\"y\": [\"traceEvents\", {}]}, \"traceEvents\": [");
	for (uint64_t i = 0, n = draw(seed, 30); i < n; i++) {
		if (i) put(t, ",");
		put_space(t, seed);
		put_random_event(t, seed);
		put_space(t, seed);
	}
	put(t, "%s", bare ? "]" : "], \"traceName\": \"x\"}");
	put_space(t, seed);
}

static double number_or(const lk_value *v, double otherwise) {
	if (!v) return otherwise;
	if (v->kind == LK_JSON_NUMBER) return v->number;
	return v->kind == LK_JSON_STRING ? strtod(v->text, NULL) : otherwise;
}

static int64_t time_of(const lk_value *v) {
	const char *point = strchr(v->text, '.');
	return strtoll(v->text, NULL, 10) * 1000 + (point ? (int64_t)(strtod(point, NULL) * 1000 + 0.5) : 0);
}

static void compact(const lk_value *v, char *out) {
	if (v->kind != LK_JSON_ARRAY) {
		strcat(out, v->text);
		return;
	}
	strcat(out, "[");
	for (size_t i = 0; i < v->count; i++) {
		if (i) strcat(out, ",");
		compact(&v->items[i], out);
	}
	strcat(out, "]");
}

static int slow_kind(const char *category) {
	static const struct { const char *name; int kind;
	} kinds[] = {{"cpu_op", LK_EVENT_OP},
	             {"Operator", LK_EVENT_OP},
	             {"user_annotation", LK_EVENT_NOTE},
	             {"cuda_runtime", LK_EVENT_RUNTIME},
	             {"kernel", LK_EVENT_KERNEL},
	             {"Kernel", LK_EVENT_KERNEL},
	             {"gpu_memcpy", LK_EVENT_MEMCPY},
	             {"gpu_memset", LK_EVENT_MEMSET}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kinds[i].name, category) == 0) return kinds[i].kind;
	return -1;
}

static uint32_t slow_id(const lk_value *args, const char *key) {
	double id = number_or(lk_json_get(args, key), 0);
	return id > 0 ? (uint32_t)id : 0;
}

static uint32_t slow_product(const lk_value *args, const char *key) {
	const lk_value *v = lk_json_get(args, key);
	return v ? (uint32_t)(v->items[0].number * v->items[1].number * v->items[2].number) : 0;
}

static void compare_lane(const lk_capture *c, uint32_t i, const lk_value *e, const lk_value *args, bool device) {
	const lk_lane *lane = &c->lanes.at[c->lane[i]];
	double on = number_or(lk_json_get(args, "device"), -1), stream = number_or(lk_json_get(args, "stream"), -1);
	double process = number_or(lk_json_get(e, "pid"), -1), thread = number_or(lk_json_get(e, "tid"), -1);
	assert_int_equal(lane->stream, device);
	assert_int_equal(lane->process, (int64_t)(device && on >= 0 ? on : process));
	assert_int_equal(lane->thread, (int64_t)(device && stream >= 0 ? stream : thread));
}

static void compare_shapes(const lk_capture *c, uint32_t i, const lk_value *args) {
	char dims[256] = "", types[256] = "";
	if (lk_json_get(args, "Input Dims")) compact(lk_json_get(args, "Input Dims"), dims);
	if (lk_json_get(args, "Input type")) compact(lk_json_get(args, "Input type"), types);
	assert_string_equal(lk_capture_text(c, c->shape[i]), dims);
	assert_string_equal(lk_capture_text(c, c->types[i]), types);
}

static void compare_event(const lk_capture *c, uint32_t i, const lk_value *e, int kind) {
	const lk_value *args = lk_json_get(e, "args"), *name = lk_json_get(e, "name");
	bool device = lk_event_on_device((unsigned)kind);
	assert_int_equal(c->kind[i], kind);
	assert_string_equal(name_of(c, i), name ? name->text : "");
	assert_int_equal(c->start_ns[i] + c->origin_ns, time_of(lk_json_get(e, "ts")));
	assert_int_equal(c->dur_ns[i], time_of(lk_json_get(e, "dur")));
	assert_int_equal(c->correlation[i], slow_id(args, "correlation"));
	assert_int_equal(c->external[i], slow_id(args, "External id"));
	assert_int_equal(c->record[i], slow_id(args, "Record function id"));
	assert_int_equal(c->value[i], (int64_t)number_or(lk_json_get(args, device ? "bytes" : "Sequence number"), -1));
	compare_lane(c, i, e, args, device);
	if (kind == LK_EVENT_OP || kind == LK_EVENT_NOTE) compare_shapes(c, i, args);
	if (kind == LK_EVENT_KERNEL) {
		assert_int_equal(c->shape[i], slow_product(args, "grid"));
		assert_int_equal(c->types[i], slow_product(args, "block"));
	}
}

static void compare_slowly(const lk_capture *c, const struct text *t) {
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in;
	lk_value *document;
	lk_error err;
	char line[1024];
	assert_int_equal(lk_stream_memory(t->bytes, t->used, "t.json", &in, &err), LK_OK);
	if (lk_json_document(&arena, in, &document, &err) != LK_OK) fail_msg("%s", lk_error_text(&err, line, sizeof line));
	const lk_value *list = document->kind == LK_JSON_ARRAY ? document : lk_json_get(document, "traceEvents");
	uint32_t i = 0;
	for (size_t k = 0; k < list->count; k++) {
		const lk_value *e = &list->items[k];
		int kind = slow_kind(lk_json_get(e, "cat")->text);
		if (strcmp(lk_json_get(e, "ph")->text, "X") != 0 || !lk_json_get(e, "dur") || kind < 0) continue;
		assert_true(i < c->count);
		compare_event(c, i++, e, kind);
	}
	assert_int_equal(i, c->count);
	lk_stream_close(in);
	lk_arena_free(&arena);
}

static void test_random_files(void **state) {
	(void)state;
	struct text *t = calloc(1, sizeof *t);
	uint64_t files = (uint64_t)rounds(1500, 20000);
	for (uint64_t round = 0; round < files; round++) {
		uint64_t seed = round << 32;
		lk_capture *c;
		lk_error err;
		char line[1024];
		put_random_file(t, &seed);
		if (read_bytes(t->bytes, t->used, &with_shapes, &c, &err) != LK_OK)
			fail_msg("round %llu: %s\n%s", (unsigned long long)round, lk_error_text(&err, line, sizeof line), t->bytes);
		compare_slowly(c, t);
		assert_false(warned(c, "cut off"));
		assert_false(warned(c, "damaged"));
		lk_capture_free(c);
	}
	free(t);
}

/* ---- a file that ends anywhere ---- */

static void assert_prefix(const lk_capture *part, const lk_capture *whole) {
	assert_true(part->count <= whole->count);
	for (uint32_t i = 0; i < part->count; i++) {
		assert_string_equal(name_of(part, i), name_of(whole, i));
		assert_int_equal(part->start_ns[i] + part->origin_ns, whole->start_ns[i] + whole->origin_ns);
		assert_int_equal(part->dur_ns[i], whole->dur_ns[i]);
		assert_int_equal(part->correlation[i], whole->correlation[i]);
		assert_string_equal(lk_capture_text(part, part->shape[i]), lk_capture_text(whole, whole->shape[i]));
	}
}

static void test_truncation(void **state) {
	(void)state;
	struct text *t = calloc(1, sizeof *t);
	for (uint64_t round = 0; round < (uint64_t)rounds(4, 40); round++) {
		uint64_t seed = 77000 + round * 1000000;
		lk_capture *whole, *part;
		lk_error err;
		put_random_file(t, &seed);
		while (t->used && (unsigned char)t->bytes[t->used - 1] <= ' ') t->used--;
		assert_int_equal(read_bytes(t->bytes, t->used, &with_shapes, &whole, &err), LK_OK);
		for (size_t size = 0; size < t->used; size++) {
			char *copy = malloc(size + 1); /* of this size, so that the address sanitizer sees its end */
			memcpy(copy, t->bytes, size);
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
	free(t);
}

/* ---- what files are odd in ---- */

#define OP(name, ts, dur)                                                                                              \
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name "\",\"pid\":1,\"tid\":2,\"ts\":" ts ",\"dur\":" dur "}"
#define FILE_OF(events) "{\"traceEvents\":[" events "]}"

/* Reads, expects so many events and a warning (NULL: none). */
static void check(const char *text_of_file, uint32_t events, const char *warning) {
	lk_capture *c = read_text(text_of_file);
	if (c->count != events) fail_msg("%u events instead of %u in %s", c->count, events, text_of_file);
	if (warning) assert_warned(c, warning);
	else if (c->warnings.count) fail_msg("%s in %s", c->warnings.at[0], text_of_file);
	lk_capture_free(c);
}

static void test_damage(void **state) {
	(void)state;
	check(FILE_OF(OP("a", "1", "2")), 1, NULL);
	check(FILE_OF(), 0, NULL);
	check("[" OP("a", "1", "2") "," OP("b", "1", "2") "]", 2, NULL);
	check("\xef\xbb\xbf" FILE_OF(OP("a", "1", "2")), 1, NULL);
	check(FILE_OF(OP("a", "1", "2") ","), 1, "commas with nothing behind");
	check("{\"traceEvents\":[" OP("a", "1", "2") "],}", 1, "commas with nothing behind");
	check(FILE_OF(OP("a\tb\x01", "1", "2")), 1, "control characters");
	check(FILE_OF(OP("a", "1", "NaN")), 0, "NaN");
	check(FILE_OF(OP("a", "1", "NaN")), 0, "without a duration");
	check(FILE_OF(OP("a", "-Infinity", "1")), 0, "without a time");
	check(FILE_OF(OP("a", "1", "-5")), 1, "negative duration");
	check(FILE_OF("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1}"), 0, "without a duration");
	check(FILE_OF("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"name\":\"l\",\"ts\":1,\"dur\":1}"), 1,
		  "stands twice");
	check(FILE_OF(OP("a", "1", "2")) " {", 1, "behind the end");
	/* an unescaped quote, a missing comma, a missing brace, bytes of nothing: the events around are kept */
	check(FILE_OF(OP("a", "1", "2") "," OP("b\"c", "1", "2") "," OP("d", "1", "2")), 2, "damaged places");
	check(FILE_OF(OP("a", "1", "2") ",{\"ph\":\"X\" \"cat\":1}," OP("d", "1", "2")), 2, "damaged places");
	check(FILE_OF(OP("a", "1", "2") ",{\"ph\":\"X\",\"cat\":\"kernel\"," OP("d", "1", "2")), 2, "damaged places");
	check(FILE_OF(OP("a", "1", "2") ",\x01\xff?? " OP("d", "1", "2")), 2, "damaged places");
	check(FILE_OF("7, null, \"x\", " OP("d", "1", "2")), 1, "damaged places");
}

static void test_numbers(void **state) {
	(void)state;
	static const struct { const char *us; int64_t ns;
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
		snprintf(file, sizeof file, "[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":0,\"dur\":%s}]",
		         times[i].us);
		lk_capture *c = read_text(file);
		assert_int_equal(c->count, 1);
		if (c->dur_ns[0] != times[i].ns) fail_msg("%s us are not %lld ns", times[i].us, (long long)c->dur_ns[0]);
		lk_capture_free(c);
	}
}

static void test_names(void **state) {
	(void)state;
	lk_capture *c = read_text("[" OP("\\u00e9\\ud83d\\ude00\\n\\/", "1", "2") "," OP(
		"\\ud83d x\\u0000", "1", "2") "," OP("\xc3\xa9\xf0\x9f\x98\x80\\n/", "1", "2") "]");
	assert_string_equal(name_of(c, 0), "\xc3\xa9\xf0\x9f\x98\x80\n/");
	assert_string_equal(name_of(c, 1), "\xef\xbf\xbd x\xef\xbf\xbd");
	assert_int_equal(c->name[0], c->name[2]);
	lk_capture_free(c);
}

static void test_pairs(void **state) {
	(void)state;
	lk_capture *c = read_text(
		FILE_OF("{\"ph\":\"B\",\"cat\":\"cpu_op\",\"name\":\"outer\",\"pid\":1,\"tid\":1,\"ts\":10},"
		        "{\"ph\":\"B\",\"cat\":\"cpu_op\",\"name\":\"other\",\"pid\":1,\"tid\":2,\"ts\":11},"
		        "{\"ph\":\"B\",\"cat\":\"python_function\",\"name\":\"dropped\",\"pid\":1,\"tid\":1,\"ts\":12},"
		        "{\"ph\":\"B\",\"cat\":\"user_annotation\",\"name\":\"inner\",\"pid\":1,\"tid\":1,\"ts\":13},"
		        "{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":14.5},{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":15},{\"ph\":"
		        "\"E\",\"pid\":1,\"tid\":1,\"ts\":20},"
		        "{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":21}"));
	assert_int_equal(c->count, 2);
	assert_string_equal(name_of(c, 0), "inner");
	assert_int_equal(c->dur_ns[0], 1500);
	assert_string_equal(name_of(c, 1), "outer");
	assert_int_equal(c->dur_ns[1], 10000);
	assert_int_equal(c->parent[0], 1);
	assert_warned(c, "never ended, left out: 1");
	assert_warned(c, "without a begin, left out: 1");
	lk_capture_free(c);
}

static void test_nested_lists(void **state) {
	(void)state;
	check("[{\"traceEvents\":[" OP("a", "1", "2") "],\"more\":1}]", 1, NULL);
	check("{\"data\":{\"x\":[1],\"traceEvents\":[" OP("a", "1", "2") "]}}", 1, NULL);
	check(FILE_OF("[" OP("a", "1", "2") ",[" OP("b", "1", "2") "]]," OP("c", "1", "2")), 3, NULL);
}

static void test_old_and_other_profilers(void **state) {
	(void)state;
	/* capitals; ROCm, where the process is the GPU and the arguments are texts; "stream 7" as the thread */
	lk_capture *c = read_text(
		"[{\"ph\":\"X\",\"cat\":\"Operator\",\"name\":\"o\",\"pid\":\"10\",\"tid\":\"11\",\"ts\":1,\"dur\":9},"
		"{\"ph\":\"X\",\"cat\":\"Runtime\",\"name\":\"hipLaunchKernel\",\"pid\":10,\"tid\":11,\"ts\":2,\"dur\":1,"
		"\"args\":{\"correlation\":\"5\",\"stream\":\"0x0\"}},"
		"{\"ph\":\"X\",\"cat\":\"Kernel\",\"name\":\"k\",\"pid\":2,\"tid\":\"stream "
		"7\",\"ts\":4,\"dur\":1,\"args\":{\"correlation\":5}},"
		"{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"PyTorch Profiler (0)\",\"pid\":\"Spans\",\"tid\":\"PyTorch "
		"Profiler\",\"ts\":0,\"dur\":99},"
		"{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":10,\"tid\":11,\"args\":{\"name\":\"main\"}},"
		"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"p\",\"pid\":\"host\",\"tid\":\"loop\",\"ts\":1,\"dur\":9}]");
	assert_int_equal(c->count, 4);
	assert_int_equal(c->lane[0], c->lane[1]);
	assert_string_equal(lk_capture_text(c, c->lanes.at[c->lane[0]].name), "main");
	assert_int_equal(c->launch[2], 1);
	assert_int_equal(c->launch[1], 2);
	assert_int_equal(c->parent[1], 0);
	assert_true(c->lanes.at[c->lane[2]].stream);
	assert_int_equal(c->lanes.at[c->lane[2]].process, 2);
	assert_int_equal(c->lanes.at[c->lane[2]].thread, 7);
	assert_true(c->lanes.at[c->lane[3]].process < -1);
	assert_int_equal(c->origin_ns, 1000);
	assert_false(c->absolute);
	lk_capture_free(c);
}

static void test_head(void **state) {
	(void)state;
	lk_capture *c = read_text(
		"{\"baseTimeNanoseconds\": 1711964646000000123, \"deviceProperties\": [{\"id\":0,\"name\":\"A\",\"numSms\":1},"
		"{\"id\":1,\"name\":\"B\",\"numSms\":80,\"totalGlobalMem\":1000}], "
		"\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":1,"
		"\"args\":{\"device\":1,\"stream\":3}}], \"distributedInfo\": "
		"{\"backend\":\"nccl\",\"rank\":3,\"world_size\":8,\"pg_config\":"
		"[{\"pg_name\":\"0\",\"pg_desc\":\"default_pg\",\"pg_size\":2,\"ranks\":[0,1]},{\"pg_name\":\"1\",\"ranks\":[2,"
		" 3,4]}]}}");
	assert_int_equal(c->origin_ns, 1711964646000001123);
	assert_true(c->absolute);
	assert_int_equal(c->rank, 3);
	assert_int_equal(c->world, 8);
	assert_string_equal(lk_capture_text(c, c->backend), "nccl");
	assert_string_equal(lk_capture_text(c, c->device), "B");
	assert_int_equal(c->sms, 80);
	assert_true(c->device_bytes == 1000);
	assert_int_equal(c->groups.count, 2);
	assert_string_equal(lk_capture_text(c, c->groups.at[0].text), "default_pg");
	assert_string_equal(lk_capture_text(c, c->groups.at[0].ranks), "[0, 1]");
	assert_int_equal(c->groups.at[1].size, 3);
	assert_string_equal(lk_capture_text(c, c->groups.at[1].ranks), "[2, 3, 4]");
	lk_capture_free(c);
	check("{\"distributedInfo\": {\"rank\": 1, \"x\": }, \"traceEvents\": []}", 0,
		  "head fields that could not be read");
}

/* ---- communication and waits ---- */

#define EVENT(cat, name, tid, ts, dur, args)                                                                           \
	"{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":1,\"tid\":" #tid ",\"ts\":" #ts ",\"dur\":" #dur  \
	",\"args\":{" args "}},"

static void test_comms_of_old_traces(void **state) {
	(void)state;
	lk_capture *c = read_text(
		"[" /* size from the annotation; point-to-point named by it; two kernels of one annotation; none */
		EVENT("user_annotation", "nccl:all_reduce", 5, 10, 10, "\"Input Dims\": [[64, 2]], \"Input type\": [\"float\"]")
			EVENT("cuda_runtime", "cudaLaunchKernel", 5, 12, 2,
				  "\"correlation\": 1") EVENT("kernel", "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWork*)", 9, 20, 5,
				                              "\"stream\":9,\"device\":0,\"correlation\": 1")
				EVENT("user_annotation", "nccl:send 0->3", 5, 30, 10,
					  "\"Input Dims\": [[7]], \"Input type\": [\"c10::BFloat16\"]")
					EVENT("cuda_runtime", "cudaLaunchKernel", 5, 32, 2,
						  "\"correlation\": 2") EVENT("kernel", "ncclDevKernel_SendRecv(ncclDevKernelArgs)", 9, 40, 5,
						                              "\"stream\":9,\"device\":0,\"correlation\": 2")
						EVENT("user_annotation", "nccl:broadcast", 5, 50, 10,
							  "\"Input Dims\": [[8], [9]], \"Input type\": [\"float\", \"float\"]")
							EVENT("cuda_runtime", "cudaLaunchKernel", 5, 52, 2, "\"correlation\": 3")
								EVENT("cuda_runtime", "cudaLaunchKernel", 5, 55, 2,
									  "\"correlation\": 4") EVENT("kernel", "ncclKernel_Broadcast(int)", 9, 60, 5,
									                              "\"stream\":9,\"device\":0,\"correlation\": 3")
									EVENT("kernel", "ncclKernel_Broadcast(int)", 9, 65, 5,
										  "\"stream\":9,\"device\":0,\"correlation\": 4") "{\"ph\":\"X\",\"cat\":"
										                                                  "\"kernel\",\"name\":"
										                                                  "\"ncclDevKernel_"
										                                                  "ReduceScatter_Sum_bf16_RING_"
										                                                  "LL\",\"ts\":80,\"dur\":1}]");
	assert_int_equal(c->comms.count, 5);
	const lk_comm_note *n = lk_capture_comm(c, 2);
	assert_int_equal(n->kind, LK_OP_ALLREDUCE);
	assert_int_equal(n->in_elements, 128);
	assert_int_equal(n->out_elements, 128);
	assert_int_equal(n->element_bytes, 4);
	n = lk_capture_comm(c, 5);
	assert_int_equal(n->kind, LK_OP_SEND);
	assert_int_equal(n->peer, 3);
	assert_int_equal(n->in_elements, 7);
	assert_int_equal(n->element_bytes, 2);
	assert_int_equal(lk_capture_comm(c, 9)->in_elements, -1);
	assert_int_equal(lk_capture_comm(c, 10)->in_elements, -1);
	assert_int_equal(lk_capture_comm(c, 9)->kind, LK_OP_BROADCAST);
	assert_int_equal(lk_capture_comm(c, 11)->kind, LK_OP_REDUCESCATTER);
	assert_int_equal(lk_capture_comm(c, 11)->in_elements, -1);
	lk_capture_free(c);
}

static void test_comms_with_arguments(void **state) {
	(void)state;
	/* what enqueued it is not counted again; on a host the annotation is the communication */
	lk_capture *c = read_text(
		"[" EVENT(
			"cpu_op", "record_param_comms", 5, 9, 12,
			"\"Collective name\": \"allreduce\", \"In msg nelems\": 10, \"Out msg nelems\": 10, \"Group size\": 2, "
			"\"dtype\": \"Float\", \"Process Group Name\": \"7\", \"Process Group Description\": \"dp\", \"Process "
			"Group Ranks\": \"[0, 1]\"") EVENT("user_annotation", "nccl:all_reduce", 5, 10, 10, "")
			EVENT("cuda_runtime", "cudaLaunchKernel", 5, 12, 2,
				  "\"correlation\": 1") "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce_Sum_f32_"
				                        "RING_LL(ncclArgs)\",\"ts\":80,\"dur\":1,\"args\":{\"correlation\":1}}]");
	assert_int_equal(c->comms.count, 1);
	const lk_comm_note *n = lk_capture_comm(c, 3);
	assert_non_null(n);
	assert_int_equal(n->in_elements, 10);
	assert_int_equal(n->group_size, 2);
	assert_string_equal(lk_capture_text(c, n->group), "7");
	assert_string_equal(lk_capture_text(c, n->group_text), "dp");
	assert_string_equal(lk_capture_text(c, n->ranks), "[0, 1]");
	lk_capture_free(c);
	c = read_text(
		"[" EVENT("cpu_op", "record_param_comms", 5, 9, 2, "\"Collective name\": \"allreduce\", \"In msg nelems\": 10")
			EVENT("user_annotation", "gloo:all_reduce", 6, 10, 10,
				  "\"Input Dims\": [[321271]], \"Input type\": [\"float\"]") "]");
	assert_int_equal(c->comms.count, 1);
	assert_int_equal(lk_capture_comm(c, 1)->in_elements, 321271);
	assert_int_equal(lk_capture_comm(c, 1)->kind, LK_OP_ALLREDUCE);
	lk_capture_free(c);
}

static void test_waits(void **state) {
	(void)state;
	lk_capture *c = read_text(
		"[" EVENT("cuda_sync", "Stream Wait Event", 24, 10, 2,
		          "\"cuda_sync_kind\": \"Stream Wait Event\", \"wait_on_stream\": 20, "
		          "\"wait_on_cuda_event_record_corr_id\": 1385, \"stream\": 24, \"correlation\": 1389, \"device\": 0")
			EVENT("cuda_sync", "Context Sync", -1, 20, 9,
				  "\"cuda_sync_kind\": \"Context Sync\", \"stream\": 4294967295, \"device\": 0")
				EVENT("cuda_sync", "Stream Sync", 7, 30, 9,
					  "\"cuda_sync_kind\": \"Stream Sync\", \"stream\": 7, \"device\": 0")
					EVENT("cuda_runtime", "cudaStreamWaitEvent", 2, 40, 9,
						  "\"wait_on_stream\": 20, \"stream\": 24, \"cuda_sync_kind\": \"Stream Wait Event\"")
						EVENT("cuda_runtime", "cudaLaunchKernel", 2, 50, 9, "\"stream\": 24") "]");
	assert_int_equal(c->syncs.count, 4);
	const lk_sync_note *n = lk_capture_sync(c, 0);
	assert_int_equal(n->kind, LK_SYNC_STREAM_WAITS);
	assert_int_equal(c->lanes.at[n->stream].thread, 24);
	assert_int_equal(c->lanes.at[n->on].thread, 20);
	assert_int_equal(n->record, 1385);
	assert_int_equal(lk_capture_sync(c, 1)->kind, LK_SYNC_DEVICE);
	assert_int_equal(lk_capture_sync(c, 1)->stream, LK_NONE);
	assert_int_equal(lk_capture_sync(c, 2)->kind, LK_SYNC_STREAM);
	assert_int_equal(lk_capture_sync(c, 3)->kind, LK_SYNC_STREAM_WAITS);
	assert_null(lk_capture_sync(c, 4));
	lk_capture_free(c);
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

static lk_status read_limited(const char *file, size_t size, lk_read_limits limits, const char *words) {
	lk_capture *c;
	lk_error err;
	lk_status status = read_bytes(file, size, &limits, &c, &err);
	if (words) assert_non_null(strstr(err.what, words));
	lk_capture_free(c);
	return status;
}

static void test_limits(void **state) {
	(void)state;
	static const char file[] = FILE_OF(OP("a", "1", "2") "," OP("b", "1", "2") "," OP("c", "1", "2"));
	assert_int_equal(read_limited(file, sizeof file - 1, (lk_read_limits){.events = 3}, NULL), LK_OK);
	assert_int_equal(read_limited(file, sizeof file - 1, (lk_read_limits){.events = 2}, "more than 2 events"),
	                 LK_ERR_INPUT);
	assert_int_equal(read_limited(file, sizeof file - 1, (lk_read_limits){.names = 2}, "more than 2 different names"),
	                 LK_ERR_INPUT);
	assert_int_equal(read_limited(file, sizeof file - 1, (lk_read_limits){.bytes = 50}, "more than 50 bytes"),
	                 LK_ERR_INPUT);
	assert_int_equal(read_limited(file, sizeof file - 1, (lk_read_limits){.bytes = sizeof file - 1}, NULL), LK_OK);
}

/* `head`, `count` times `part`, `tail`; the events that come of it, or -1 when it is refused with `words`. */
static long read_repeated(const char *head, const char *part, size_t count, const char *tail, const char *words) {
	size_t h = strlen(head), p = strlen(part), t = strlen(tail), size = h + p * count + t;
	char *file = malloc(size);
	assert_non_null(file);
	memcpy(file, head, h);
	for (size_t i = 0; i < count; i++) memcpy(file + h + i * p, part, p);
	memcpy(file + h + p * count, tail, t);
	lk_capture *c;
	lk_error err;
	long events = -1;
	if (read_bytes(file, size, &with_shapes, &c, &err) == LK_OK) {
		events = c->count;
		if (words) assert_warned(c, words);
		lk_capture_free(c);
	} else if (words) assert_non_null(strstr(err.what, words));
	free(file);
	return events;
}

static void test_monsters(void **state) {
	(void)state;
	static const char event[] = OP("a", "1", "2");
	char tail[300];
	enum { MANY = 1000000, LONG = 40000000 };
	assert_int_equal(read_repeated("", "[", MANY, "", "levels deep"), -1);
	assert_int_equal(read_repeated("{\"x\":", "{\"x\":", MANY, "", NULL), -1);
	assert_int_equal(read_repeated("[{\"ph\":\"X\",\"args\":{\"x\":", "[", MANY, "", "levels deep"), -1);
	/* a text longer than any window, in an event that is kept, in one that is not, in the head */
	snprintf(tail, sizeof tail, "\"},%s]", event);
	assert_int_equal(
		read_repeated("[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"", "a", LONG, tail, "more than 32 MiB"), 1);
	assert_int_equal(read_repeated("[{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"", "a", LONG, tail, NULL), 1);
	snprintf(tail, sizeof tail, "\",\"traceEvents\":[%s]}", event);
	assert_int_equal(read_repeated("{\"x\":\"", "\\\"", LONG / 2, tail, NULL), 1);
	assert_int_equal(read_repeated("{\"distributedInfo\":\"", "a", LONG, tail, "head fields"), 1);
	assert_int_equal(
		read_repeated("[", "{\"ph\":\"B\",\"cat\":\"cpu_op\",\"ts\":1},", 100000, "]", "never ended, left out: 100000"),
		0);
}

static void test_many_threads(void **state) {
	(void)state;
	size_t size = 0, room = (size_t)LK_MOST_LANES * 80 + 200;
	char *file = malloc(room);
	for (int n = 0; n <= LK_MOST_LANES; n++)
		size += (size_t)snprintf(file + size, room - size,
		                         "%c{\"ph\":\"X\",\"cat\":\"cpu_op\",\"ts\":1,\"dur\":1,\"tid\":%d}", n ? ',' : '[', n);
	assert_int_equal(read_limited(file, size, (lk_read_limits){0}, "threads and streams"), LK_ERR_INPUT);
	free(file);
}

/* Calls and kernels whose numbers are few, many of one number, or far apart; whatever the numbers, the join is the
 * same. */
static void test_launches(void **state) {
	(void)state;
	for (uint64_t round = 0; round < 60; round++) {
		uint64_t seed = round << 32, spread = round % 3 == 0 ? 8 : round % 3 == 1 ? 300 : 4000000000u;
		struct text *t = calloc(1, sizeof *t);
		put(t, "[");
		for (int i = 0; i < 300; i++)
			put(t, "%s{\"ph\":\"X\",\"cat\":\"%s\",\"ts\":%d,\"dur\":1,\"args\":{\"correlation\":%llu}}", i ? "," : "",
				draw(&seed, 2) ? "kernel" : "cuda_runtime", (int)draw(&seed, 1000),
				(unsigned long long)(draw(&seed, 40) * (spread / 40 + 1)));
		put(t, "]");
		lk_capture *c = read_text(t->bytes);
		assert_int_equal(c->count, 300);
		for (uint32_t i = 0; i < c->count; i++) {
			uint32_t found = LK_NONE;
			for (uint32_t j = 0; j < c->count && c->correlation[i]; j++) {
				if (c->correlation[j] != c->correlation[i] || c->kind[j] == c->kind[i]) continue;
				/* work: the first call that the file names; a call: the earliest work, if it is that first call */
				if (found == LK_NONE || (c->kind[j] == LK_EVENT_KERNEL && c->start_ns[j] < c->start_ns[found]))
					found = j;
			}
			if (c->kind[i] == LK_EVENT_RUNTIME && found != LK_NONE && c->launch[found] != i) found = LK_NONE;
			assert_int_equal(c->launch[i], found);
		}
		lk_capture_free(c);
		free(t);
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
	lk_capture *c;
	lk_error err;
	assert_int_equal(read_bytes((char *)packed, size, &with_shapes, &c, &err), LK_OK);
	assert_int_equal(c->count, 2);
	assert_int_equal(c->warnings.count, 0);
	lk_capture_free(c);
	for (size_t cut = 3; cut < size; cut++) {
		if (read_bytes((char *)packed, cut, &with_shapes, &c, &err) != LK_OK) continue;
		assert_true(c->count <= 2 && c->warnings.count == 1);
		lk_capture_free(c);
	}
	packed[first - 5] ^= 1; /* the checksum of the first member */
	if (read_bytes((char *)packed, size, &with_shapes, &c, &err) == LK_OK) {
		assert_warned(c, "gzip data is damaged");
		lk_capture_free(c);
	}
}

/* 300 MB of white space in 300 kB: refused at the limit, in little memory. */
static void test_bomb(void **state) {
	(void)state;
	enum { SIZE = 30000000 };
	char *blank = malloc(SIZE);
	unsigned char *packed = malloc(100000);
	memset(blank, ' ', SIZE);
	blank[0] = '[';
	size_t size = pack(blank, SIZE, packed, 100000);
	free(blank);
	assert_int_equal(
		read_limited((char *)packed, size, (lk_read_limits){.bytes = 10000000}, "more than 10000000 bytes"),
		LK_ERR_INPUT);
	free(packed);
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
		cmocka_unit_test(test_packed),
		cmocka_unit_test(test_bomb),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
