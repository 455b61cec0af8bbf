/* test_json.c: the JSON reader against python's json over thousands of random and damaged
 * documents, the tree, the writer (what it wrote reads back the same), positions of errors, tokens
 * across the edges of the window. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/arena.h"
#include "io/json.h"
#include "base/stats.h"
#include "base/vec.h"
#include "rounds.h"
#include "scratch.h"

struct bytes {
	char *at;
	size_t count, capacity;
};

static void add(struct bytes *bytes, const char *text, size_t length) {
	assert_true(lk_reserve(bytes, length + 1));
	memcpy(bytes->at + bytes->count, text, length);
	bytes->count += length;
	bytes->at[bytes->count] = '\0';
}

static void add_text(struct bytes *bytes, const char *text) {
	add(bytes, text, strlen(text));
}

static uint64_t draw(uint64_t *seed, uint64_t below) {
	return lk_hash64((*seed)++) % below;
}

/* ---- one line that says what was read ---- */

/* The tokens of a document in a form that python can produce too: texts in hexadecimal, numbers in
 * %a. "error" if it is refused. */
static void describe(const char *text, size_t size, struct bytes *out) {
	lk_stream *in;
	lk_error err;
	assert_int_equal(lk_stream_memory(text, size, "text", &in, &err), LK_OK);
	lk_json *json = lk_json_open(in);
	lk_json_token token = LK_JSON_NULL;
	size_t start = out->count;
	while (token != LK_JSON_END) {
		if (lk_json_next(json, &token, &err) != LK_OK) {
			out->count = start;
			add_text(out, "error");
			break;
		}
		static const char *const marks[] = {"", "{", "}", "[", "]", "k", "s", "n", "t", "f", "0"};
		add_text(out, marks[token]);
		char number[64];
		size_t length;
		const char *value = lk_json_text(json, &length);
		if (token == LK_JSON_KEY || token == LK_JSON_STRING) {
			for (size_t i = 0; i < length; i++) {
				snprintf(number, sizeof number, "%02x", (unsigned char)value[i]);
				add_text(out, number);
			}
		} else if (token == LK_JSON_NUMBER) {
			double x = lk_json_number(json);
			uint64_t bits;
			memcpy(&bits, &x, sizeof bits);
			snprintf(number, sizeof number, "%016llx",
			         isnan(x) ? 0x7ff8000000000000ull : (unsigned long long)bits);
			add_text(out, number);
		}
		if (token != LK_JSON_END) add_text(out, ",");
	}
	lk_json_close(json);
	lk_stream_close(in);
}

/* ---- random documents ---- */

static void space(struct bytes *bytes, uint64_t *seed) {
	static const char *const spaces[] = {"", "", "", " ", "\n", "\t", "\r\n", "   "};
	add_text(bytes, spaces[draw(seed, 8)]);
}

static void random_text(struct bytes *bytes, uint64_t *seed) {
	static const char *const parts[] = {
		"a",
		"step",
		" ",
		"\\n",
		"\\\"",
		"\\\\",
		"\\/",
		"\\u0041",
		"\\u00e9",
		"\\u20ac",
		"\\ud83d\\ude00",
		"\\ud800",
		"\\udc00x",
		"\\u0000",
		"\xc3\xa9",
		"\xe2\x82\xac",
		"\xf0\x9f\x98\x80",
		"\xed\x9f\xbf",
		"\x7f",
		"\\b\\f\\r\\t",
		"0123456789abcdef0123456789",
		"\\uD83D\\uDE00",
		"\\ud83d\\u0041",
		"\\ud83d\\n",
		"{",
		"]",
		",",
	};
	add_text(bytes, "\"");
	for (uint64_t n = draw(seed, 6); n > 0; n--)
		add_text(bytes, parts[draw(seed, sizeof parts / sizeof *parts)]);
	add_text(bytes, "\"");
}

static void random_number(struct bytes *bytes, uint64_t *seed) {
	static const char *const some[] = {"0",
	                                   "-0",
	                                   "1e3",
	                                   "1E+3",
	                                   "1.5e-7",
	                                   "NaN",
	                                   "Infinity",
	                                   "-Infinity",
	                                   "1e400",
	                                   "-1e-400",
	                                   "12345678901234567890",
	                                   "0.1",
	                                   "1695835653234567.123",
	                                   "4.9e-324",
	                                   "0.0",
	                                   "-1.25"};
	char text[64];
	if (draw(seed, 2)) {
		add_text(bytes, some[draw(seed, sizeof some / sizeof *some)]);
		return;
	}
	snprintf(text, sizeof text, "%lld.%llu", (long long)draw(seed, 100000) - 50000,
	         (unsigned long long)draw(seed, 1000000000));
	add_text(bytes, text);
}

static void random_value(struct bytes *bytes, uint64_t *seed, int depth) {
	static const char *const words[] = {"true", "false", "null"};
	uint64_t kind = draw(seed, depth > 0 ? 7 : 4);
	space(bytes, seed);
	if (kind == 0) add_text(bytes, words[draw(seed, 3)]);
	else if (kind <= 2) random_number(bytes, seed);
	else if (kind == 3) random_text(bytes, seed);
	if (kind > 3) {
		bool object = kind > 4;
		add_text(bytes, object ? "{" : "[");
		uint64_t n = draw(seed, 5);
		for (uint64_t i = 0; i < n; i++) {
			if (i) add_text(bytes, ",");
			space(bytes, seed);
			if (object) {
				random_text(bytes, seed);
				space(bytes, seed);
				add_text(bytes, ":");
			}
			random_value(bytes, seed, depth - 1);
		}
		space(bytes, seed);
		add_text(bytes, object ? "}" : "]");
	}
	space(bytes, seed);
}

/* Changes, drops or inserts a few bytes; mostly those that mean something in JSON. */
static void damage(struct bytes *bytes, uint64_t *seed) {
	static const char useful[] = "{}[],:\"\\0123456789.eE+-truefalsn \n\t\x01\x80\xc3\xff\xed\xa0u";
	for (uint64_t n = 1 + draw(seed, 3); n > 0 && bytes->count > 0; n--) {
		size_t at = (size_t)draw(seed, bytes->count);
		char c = useful[draw(seed, sizeof useful)];
		switch (draw(seed, 4)) {
		case 0: bytes->at[at] = c; break;
		case 1:
			memmove(bytes->at + at, bytes->at + at + 1, bytes->count - at);
			bytes->count--;
			break;
		case 2:
			add(bytes, "", 1);
			memmove(bytes->at + at + 1, bytes->at + at, bytes->count - at - 1);
			bytes->at[at] = c;
			break;
		default: bytes->count = at; break;
		}
	}
}

/* ---- python as the oracle ---- */

/* Reads documents as lines of hexadecimal digits and answers with the lines of describe(). Python
 * accepts what RFC 8259 does and NaN and the infinities, as our reader; it keeps halves of
 * surrogate pairs, which we read as U+FFFD. */
static const char oracle[] =
	"import json, struct, sys\n"
	"def text(mark, s):\n"
	"    s = ''.join('\\ufffd' if 0xd800 <= ord(c) < 0xe000 else c for c in s)\n"
	"    return mark + s.encode('utf-8').hex() + ','\n"
	"def number(s):\n"
	"    try: x = float(s)\n"
	"    except OverflowError: x = float('inf')\n"
	"    if x != x: return N('n7ff8000000000000,')\n"
	"    return N('n' + struct.pack('>d', x).hex() + ',')\n"
	"class N(str): pass\n"
	"class P(list): pass\n"
	"def say(v):\n"
	"    if isinstance(v, N): return str(v)\n"
	"    if isinstance(v, P): return '{,' + ''.join(text('k', k) + say(x) for k, x in v) + '},'\n"
	"    if isinstance(v, list): return '[,' + ''.join(say(x) for x in v) + '],'\n"
	"    if isinstance(v, str): return text('s', v)\n"
	"    return {True: 't,', False: 'f,', None: '0,'}[v]\n"
	"for line in open(sys.argv[1]):\n"
	"    try:\n"
	"        document = bytes.fromhex(line).decode('utf-8-sig')\n"
	"        hooks = dict(parse_int=number, parse_float=number, parse_constant=number, "
	"object_pairs_hook=P)\n"
	"        print(say(json.loads(document, **hooks)))\n"
	"    except (ValueError, RecursionError):\n"
	"        print('error')\n";

static const char *const special[] = {
	"",
	" ",
	"[",
	"]",
	"{",
	"}",
	"[]",
	"{}",
	"[1,]",
	"{\"a\":1,}",
	"[,1]",
	"{,}",
	"[1 2]",
	"{\"a\" 1}",
	"{\"a\":}",
	"{1:2}",
	"01",
	"-",
	"-01",
	"1.",
	".5",
	"1.e3",
	"1e",
	"1e+",
	"+1",
	"0x10",
	"nul",
	"nulll",
	"true false",
	"truefalse",
	"\"",
	"\"\\",
	"\"\\x\"",
	"\"\\u12\"",
	"\"\\u12g4\"",
	"\"a\tb\"",
	"\"a\nb\"",
	"'a'",
	"[1]]",
	"[1}",
	"{\"a\":1]",
	"\xef\xbb\xbf[]",
	"\xef\xbb\xbf",
	"\xef\xbb[]",
	"\xff\xfe[\0",
	"\"\xc0\x80\"",
	"\"\xed\xa0\x80\"",
	"\"\xf4\x90\x80\x80\"",
	"\"\xf5\x80\x80\x80\"",
	"\"\xe2\x82\"",
	"\xc2\xa0[]",
	"[]\v",
	"// x\n1",
	"/**/1",
	"NaN",
	"-NaN",
	"Infinity",
	"-Infinity",
	"+Infinity",
	"Inf",
	"nan",
	"-Infinit",
	"1.0",
	"1E400",
	"-0.0",
	"0e5",
	"0e",
	"00",
	"1_000",
	"\"\\ud800\\",
	"[\"\\ud83d",
	"{\"a\":1,\"a\":2}",
	"tru",
	"[nan]",
	"\"\\u00",
	"1 ",
	"\t\r\n 1",
	"\f1",
	"[1,\n\n2,,]",
	"-a",
	"- 1",
	"1-",
	"1.5.5",
	"\"\x7f\"",
	"\"\xc2\x80\"",
};

static void add_hex_line(struct bytes *out, const struct bytes *bytes) {
	static const char hex[] = "0123456789abcdef";
	for (size_t i = 0; i < bytes->count; i++) {
		add(out, &hex[(unsigned char)bytes->at[i] >> 4], 1);
		add(out, &hex[(unsigned char)bytes->at[i] & 15], 1);
	}
	add_text(out, "\n");
}

static void reads_as_python_does(void **state) {
	(void)state;
	if (system("python3 -c 'import json' 2>/dev/null") != 0) {
		print_message("python3, the oracle, is not installed\n");
		skip();
	}
	enum { SPECIAL = sizeof special / sizeof *special };
	const size_t document_count = (size_t)rounds(12000, 100000);
	struct bytes input = {0}, ours = {0}, b = {0};
	uint64_t seed = 2024;
	for (size_t i = 0; i < SPECIAL + document_count; i++) {
		b.count = 0;
		if (i < SPECIAL) add_text(&b, special[i]);
		else random_value(&b, &seed, 6);
		if (i >= SPECIAL && i % 3 == 0) damage(&b, &seed);
		add_hex_line(&input, &b);
		describe(b.at ? b.at : "", b.count, &ours);
		add_text(&ours, "\n");
	}
	char program[64], documents[64], command[200];
	write_text(new_file(program, ".py"), oracle);
	write_bytes(new_file(documents, ""), input.at, input.count);
	snprintf(command, sizeof command, "python3 %s %s", program, documents);
	FILE *pipe = popen(command, "r");
	assert_non_null(pipe);
	char *line = NULL, *mine = ours.at, *document = input.at;
	size_t room = 0, refused = 0, i = 0;
	for (; getline(&line, &room, pipe) > 0; i++) {
		size_t length = strcspn(mine, "\n") + 1;
		if (strncmp(line, mine, length) != 0) {
			fail_msg("document %.*s:\npython %sours   %.*s", (int)strcspn(document, "\n"), document,
			         line, (int)length, mine);
		}
		refused += strcmp(line, "error\n") == 0;
		mine += length;
		document += strcspn(document, "\n") + 1;
	}
	assert_int_equal(pclose(pipe), 0);
	assert_int_equal(i, SPECIAL + document_count);
	/* the damage was neither in vain nor everywhere */
	assert_true(refused > document_count / 10 && refused < document_count / 2);
	unlink(program);
	unlink(documents);
	free(line);
	lk_vec_free(&input);
	lk_vec_free(&ours);
	lk_vec_free(&b);
}

/* ---- the window ---- */

/* A document of several windows, with texts of every length around its edges and one that is longer
 * than it. */
static void tokens_cross_the_window(void **state) {
	(void)state;
	struct bytes b = {0};
	uint64_t seed = 77;
	enum { TEXTS = 4000 };
	static size_t lengths[TEXTS];
	static double numbers[TEXTS];
	add_text(&b, "[");
	for (int i = 0; i < TEXTS; i++) {
		lengths[i] = i == TEXTS / 2 ? 3000000 : (size_t)draw(&seed, 700);
		numbers[i] = (double)draw(&seed, 1u << 30) / 8;
		add_text(&b, i ? ",\n\"" : "\"");
		for (size_t k = 0; k < lengths[i]; k++) {
			/* every unit is one character of three bytes in UTF-8 */
			add_text(&b, (k + (size_t)i) % 3 ? "\xe2\x82\xac" : "\\u20ac");
		}
		char number[64];
		snprintf(number, sizeof number, "\", %.17g", numbers[i]);
		add_text(&b, number);
	}
	add_text(&b, "]");
	lk_stream *in;
	lk_error err = {0};
	lk_json_token token;
	assert_int_equal(lk_stream_memory(b.at, b.count, "big", &in, &err), LK_OK);
	lk_json *json = lk_json_open(in);
	assert_int_equal(lk_json_next(json, &token, &err), LK_OK);
	for (int i = 0; i < TEXTS; i++) {
		assert_int_equal(lk_json_next(json, &token, &err), LK_OK);
		assert_int_equal(token, LK_JSON_STRING);
		size_t length;
		const char *text = lk_json_text(json, &length);
		assert_int_equal(length, 3 * lengths[i]);
		assert_int_equal(strlen(text), length);
		for (size_t k = 0; k < length; k += 3) assert_memory_equal(text + k, "\xe2\x82\xac", 3);
		char where[64];
		snprintf(where, sizeof where, "big:%d:%d", i + 1, i ? 1 : 2);
		assert_string_equal(lk_json_where(json), where);
		assert_int_equal(lk_json_next(json, &token, &err), LK_OK);
		assert_int_equal(token, LK_JSON_NUMBER);
		assert_true(lk_json_number(json) == numbers[i]);
	}
	assert_int_equal(lk_json_next(json, &token, &err), LK_OK);
	assert_int_equal(token, LK_JSON_ARRAY_END);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(lk_json_next(json, &token, &err), LK_OK);
		assert_int_equal(token, LK_JSON_END);
	}
	lk_json_close(json);
	lk_stream_close(in);
	lk_vec_free(&b);
}

/* Wherever the edge of the window falls, the tokens are the same: the document is moved along byte
 * by byte. */
static void edges_change_nothing(void **state) {
	(void)state;
	static const char document[] = "{\"k\\u20ac\\ud83d\\ude00\xe2\x82\xac\":"
								   " [-12.5e-3, true, null, -Infinity, \"\\n\", \"\"]}";
	enum { WINDOW = 1 << 18 };
	struct bytes b = {0}, plain = {0}, moved = {0};
	describe(document, strlen(document), &plain);
	assert_string_not_equal(plain.at, "error");
	for (size_t before = WINDOW - sizeof document - 2; before <= WINDOW + 2; before++) {
		b.count = 0;
		moved.count = 0;
		while (b.count < before)
			add(&b, "                ", before - b.count < 16 ? before - b.count : 16);
		add_text(&b, document);
		describe(b.at, b.count, &moved);
		assert_string_equal(moved.at, plain.at);
	}
	lk_vec_free(&b);
	lk_vec_free(&plain);
	lk_vec_free(&moved);
}

/* ---- errors ---- */

static lk_status read_tree(lk_arena *arena, const char *text, lk_value **out, lk_error *err) {
	lk_stream *in;
	assert_int_equal(lk_stream_memory(text, strlen(text), "f", &in, err), LK_OK);
	lk_status status = lk_json_document(arena, in, out, err);
	lk_stream_close(in);
	return status;
}

static void errors_have_positions(void **state) {
	(void)state;
	static const struct {
		const char *text, *where;
	} cases[] = {
		{"", "f:1:1"},
		{"[1,\n 2,\n x]", "f:3:2"},
		{"{\"a\":1 \"b\":2}", "f:1:8"},
		{"[\"a\\q\"]", "f:1:4"},
		{"[1,]", "f:1:4"},
		{"{\"a\":1}\n\n}", "f:3:1"},
		{"[\"a\nb\"]", "f:1:4"},
		{"[01]", "f:1:3"},
		{"[1.]", "f:1:4"},
		{"\"a\xff\"", "f:1:3"},
		{"[\n\n\"abc", "f:3:5"},
		{"{\"a\"\n: tru}", "f:2:3"},
		{"{\"k\":\"\\u00g0\"}", "f:1:7"},
		{"\xff\xfe[", "f:1:1"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_error err;
		lk_value *root;
		assert_int_equal(read_tree(&arena, cases[i].text, &root, &err), LK_ERR_INPUT);
		assert_string_equal(err.where, cases[i].where);
		assert_null(root);
		lk_arena_free(&arena);
	}
}

static void an_error_is_final(void **state) {
	(void)state;
	lk_stream *in;
	lk_error err;
	lk_json_token token;
	assert_int_equal(lk_stream_memory("[1,x,2]", 7, "f", &in, &err), LK_OK);
	lk_json *json = lk_json_open(in);
	assert_int_equal(lk_json_next(json, &token, &err), LK_OK);
	assert_int_equal(lk_json_next(json, &token, &err), LK_OK);
	for (int i = 0; i < 3; i++) assert_int_equal(lk_json_next(json, &token, &err), LK_ERR_INPUT);
	assert_int_equal(lk_json_skip(json, &err), LK_ERR_INPUT);
	lk_json_close(json);
	lk_stream_close(in);
}

static void depth_is_limited(void **state) {
	(void)state;
	for (int depth = LK_JSON_DEPTH - 1; depth <= LK_JSON_DEPTH + 1; depth++) {
		struct bytes b = {0};
		for (int i = 0; i < depth; i++) add_text(&b, i % 2 ? "{\"a\":" : "[");
		if (depth % 2 == 0) add_text(&b, "1");
		for (int i = depth; i-- > 0;) add_text(&b, i % 2 ? "}" : "]");
		lk_arena arena = LK_ARENA_INIT;
		lk_error err;
		lk_value *root;
		assert_int_equal(read_tree(&arena, b.at, &root, &err),
		                 depth <= LK_JSON_DEPTH ? LK_OK : LK_ERR_INPUT);
		lk_arena_free(&arena);
		lk_vec_free(&b);
	}
}

/* ---- skipping and the tree ---- */

static void skip_passes_one_value(void **state) {
	(void)state;
	static const char text[] = "{\"a\": [1, {\"x\": [\"]\", \"}\\\"\"]}, []],"
							   " \"b\": 7, \"c\": \"t\", \"d\": {}, \"e\": 1}";
	lk_stream *in;
	lk_error err;
	lk_json_token token;
	assert_int_equal(lk_stream_memory(text, strlen(text), "f", &in, &err), LK_OK);
	lk_json *json = lk_json_open(in);
	assert_int_equal(lk_json_next(json, &token, &err), LK_OK);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(lk_json_next(json, &token, &err), LK_OK);
		assert_int_equal(token, LK_JSON_KEY);
		assert_int_equal(lk_json_text(json, NULL)[0], 'a' + i);
		assert_int_equal(lk_json_skip(json, &err), LK_OK);
	}
	assert_int_equal(lk_json_next(json, &token, &err), LK_OK);
	assert_int_equal(token, LK_JSON_OBJECT_END);
	assert_int_equal(lk_json_skip(json, &err), LK_ERR_INTERNAL); /* nothing is left to skip */
	lk_json_close(json);
	lk_stream_close(in);
}

static void tree_of_a_document(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_error err;
	lk_value *root;
	assert_int_equal(
		read_tree(
			&arena,
			"{\"b\": 1, \"a\": [true, null, \"x\"],\n \"b\": 2.5, \"n\": -Infinity, \"a\": {}}",
			&root, &err),
		LK_OK);
	assert_int_equal(root->kind, LK_JSON_OBJECT);
	assert_int_equal(root->count, 3);
	assert_string_equal(root->keys[0], "b"); /* the first place, the last value */
	assert_true(root->items[0].number == 2.5);
	assert_string_equal(root->items[0].text, "2.5");
	assert_int_equal(root->items[0].line, 2);
	assert_int_equal(root->items[0].column, 7);
	assert_int_equal(lk_json_get(root, "a")->kind, LK_JSON_OBJECT);
	assert_int_equal(lk_json_get(root, "a")->count, 0);
	assert_true(isinf(lk_json_get(root, "n")->number));
	assert_null(lk_json_get(root, "absent"));
	assert_null(lk_json_get(NULL, "a"));
	assert_null(lk_json_get(lk_json_get(root, "n"), "a"));
	lk_arena_free(&arena);
}

/* ---- the writer ---- */

static void rewrite(lk_json_writer *writer, const char *key, const lk_value *value) {
	switch (value->kind) {
	case LK_JSON_OBJECT:
		lk_json_object(writer, key);
		for (size_t i = 0; i < value->count; i++) rewrite(writer, value->keys[i], &value->items[i]);
		lk_json_object_end(writer);
		break;
	case LK_JSON_ARRAY:
		lk_json_array(writer, key);
		for (size_t i = 0; i < value->count; i++) rewrite(writer, NULL, &value->items[i]);
		lk_json_array_end(writer);
		break;
	case LK_JSON_STRING: lk_json_put_text(writer, key, value->text); break;
	case LK_JSON_NUMBER: lk_json_put_number(writer, key, value->number); break;
	case LK_JSON_NULL: lk_json_put_null(writer, key); break;
	default: lk_json_put_bool(writer, key, value->kind == LK_JSON_TRUE); break;
	}
}

static char *written(const lk_value *value, bool compact) {
	char *text;
	size_t size;
	lk_error err;
	FILE *file = open_memstream(&text, &size);
	lk_json_writer w;
	lk_json_begin(&w, file, compact);
	rewrite(&w, NULL, value);
	assert_int_equal(lk_json_finish(&w, &err), LK_OK);
	fclose(file);
	return text;
}

static bool same(const lk_value *a, const lk_value *b) {
	if (a->kind == LK_JSON_NUMBER && !isfinite(a->number)) return b->kind == LK_JSON_NULL;
	if (a->kind != b->kind || a->count != b->count) return false;
	if (a->kind == LK_JSON_NUMBER)
		return a->number == b->number && signbit(a->number) == signbit(b->number);
	if (a->kind == LK_JSON_STRING) return strcmp(a->text, b->text) == 0;
	for (size_t i = 0; i < a->count; i++) {
		if (a->kind == LK_JSON_OBJECT && strcmp(a->keys[i], b->keys[i]) != 0) return false;
		if (!same(&a->items[i], &b->items[i])) return false;
	}
	return true;
}

/* \u0000 is no end of a text. */
static void nul_is_read_as_a_text(void **state) {
	(void)state;
	lk_arena arena = LK_ARENA_INIT;
	lk_error err;
	lk_value *root;
	const char *text = "{\"a\\u0000z\": \"\\u0000x\\u0000\", \"a\": 1}";
	assert_int_equal(read_tree(&arena, text, &root, &err), LK_OK);
	assert_int_equal(root->count, 2);
	assert_string_equal(lk_json_get(root, "a\xef\xbf\xbdz")->text, "\xef\xbf\xbdx\xef\xbf\xbd");
	assert_true(lk_json_get(root, "a")->number == 1);
	lk_arena_free(&arena);
}

static void what_is_written_reads_back(void **state) {
	(void)state;
	uint64_t seed = 31;
	struct bytes b = {0};
	int read = 0;
	for (int i = 0; i < 3000; i++) {
		lk_arena arena = LK_ARENA_INIT;
		lk_error err;
		lk_value *root, *again;
		b.count = 0;
		random_value(&b, &seed, 5);
		if (read_tree(&arena, b.at, &root, &err) == LK_OK) {
			for (int compact = 0; compact < 2; compact++) {
				char *text = written(root, compact);
				assert_int_equal(read_tree(&arena, text, &again, &err), LK_OK);
				assert_true(same(root, again));
				assert_true(!compact || strchr(text, '\n') == text + strlen(text) - 1);
				free(text);
			}
			read++;
		}
		lk_arena_free(&arena);
	}
	assert_true(read > 1500);
	lk_vec_free(&b);
}

static void writer_form(void **state) {
	(void)state;
	char *text;
	size_t size;
	lk_error err;
	FILE *file = open_memstream(&text, &size);
	lk_json_writer w;
	lk_json_begin(&w, file, false);
	lk_json_object(&w, NULL);
	lk_json_put_text(&w, "a\"b", "x\x01\xff\n\xc3\xa9");
	lk_json_put_text(&w, "none", NULL);
	lk_json_put_integer(&w, "i", -9007199254740993LL);
	lk_json_put_number(&w, "nan", NAN);
	lk_json_array(&w, "list");
	lk_json_put_number(&w, NULL, 0.1);
	lk_json_array(&w, NULL);
	lk_json_array_end(&w);
	lk_json_array_end(&w);
	lk_json_object_end(&w);
	assert_int_equal(lk_json_finish(&w, &err), LK_OK);
	fclose(file);
	assert_string_equal(text, "{\n  \"a\\\"b\": \"x\\u0001\xef\xbf\xbd\\n\xc3\xa9\",\n  \"none\": "
	                          "null,\n  \"i\": -9007199254740993,\n"
	                          "  \"nan\": null,\n  \"list\": [\n    0.1,\n    []\n  ]\n}\n");
	free(text);
}

static void writer_tells_of_misuse(void **state) {
	(void)state;
	lk_json_writer w;
	lk_error err;
	for (int how = 0; how < 3; how++) {
		FILE *file = fopen("/dev/null", "w");
		lk_json_begin(&w, file, true);
		if (how == 0) lk_json_object(&w, NULL);
		if (how == 1) lk_json_object_end(&w);
		for (int i = 0; how == 2 && i <= LK_JSON_DEPTH; i++) lk_json_array(&w, NULL);
		for (int i = 0; how == 2 && i <= LK_JSON_DEPTH; i++) lk_json_array_end(&w);
		assert_int_equal(lk_json_finish(&w, &err), LK_ERR_INTERNAL);
		fclose(file);
	}
	FILE *full = fopen("/dev/full", "w");
	if (!full) return;
	lk_json_begin(&w, full, true);
	lk_json_put_text(&w, NULL, "x");
	assert_int_equal(lk_json_finish(&w, &err), LK_ERR_IO);
	fclose(full);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_as_python_does),  cmocka_unit_test(tokens_cross_the_window),
		cmocka_unit_test(edges_change_nothing),  cmocka_unit_test(errors_have_positions),
		cmocka_unit_test(an_error_is_final),     cmocka_unit_test(depth_is_limited),
		cmocka_unit_test(skip_passes_one_value), cmocka_unit_test(tree_of_a_document),
		cmocka_unit_test(nul_is_read_as_a_text), cmocka_unit_test(what_is_written_reads_back),
		cmocka_unit_test(writer_form),           cmocka_unit_test(writer_tells_of_misuse),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
