/* mutate.c: mutations that keep the form of an input, so that fuzzing reaches what lies behind a
 * parser's first check.
 *
 * Half of the time an input gets libFuzzer's own mutation of bytes, otherwise one of those here.
 * The bytes themselves say which form they have, so every target shares this file:
 *
 * - text (JSON, YAML, TOML, CSV, XML, shell, programs of compile): words, numbers, quoted texts,
 *   lines and what a pair of brackets holds are removed, repeated, exchanged, nested or copied over
 *   one another; numbers become extreme ones; words become words of the dictionary (-dict=FILE),
 *   which is the reader's own vocabulary; lines are indented anew.
 * - protobuf, and streams of records that each begin with their length (Chakra): fields are
 * removed, repeated, exchanged, renumbered, or changed inside; every length around them follows.
 * - SQLite: heads of pages, cell pointers, values of rows and whole pages.
 *
 * Two inputs are crossed by a part of one in place of a part of the other: a word, bracket or line,
 * a field, a page.
 *
 * Results depend on the inputs, the dictionary and the seed alone.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2,
                                 size_t size2, uint8_t *out, size_t max_out, unsigned int seed);

enum {
	MOST_SPANS = 4096, /* words of a text, fields of a message */
	MOST_DEPTH = 16,   /* messages in messages */
	MOST_WORDS = 4096, /* of the dictionary */
	MOST_WORD = 64     /* bytes of one */
};

/* ---- random numbers ------------------------------------------------------------------------- */

static uint64_t state;

static uint32_t random_bits(void) { /* xorshift64* */
	state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
	return (uint32_t)(state * UINT64_C(0x2545f4914f6cdd1d) >> 32);
}

/* 0 .. n - 1; 0 for n = 0. */
static size_t below(size_t n) {
	return n ? random_bits() % n : 0;
}

/* ---- an input that is edited ---------------------------------------------------------------- */

typedef struct span {
	size_t begin, end;
} span;

typedef struct edited {
	uint8_t *at;
	size_t size, room;
} edited;

/* Puts `count` bytes in place of `old`; false, and nothing changed, where there is no room. */
static bool replace(edited *e, span old, const uint8_t *bytes, size_t count) {
	size_t rest = e->size - old.end, size = old.begin + count + rest;

	if (size > e->room) return false;
	uint8_t *copy = malloc(count ? count : 1); /* `bytes` may be a part of the input */
	if (!copy) return false;
	if (count) memcpy(copy, bytes, count);
	memmove(e->at + old.begin + count, e->at + old.end, rest);
	if (count) memcpy(e->at + old.begin, copy, count);
	free(copy);
	e->size = size;
	return true;
}

/* Exchanges two spans of which one ends before the other begins. */
static bool exchange(edited *e, span a, span b) {
	if (a.begin > b.begin) {
		span c = a;
		a = b, b = c;
	}
	if (a.end > b.begin) return false;
	size_t first = a.end - a.begin, between = b.begin - a.end, second = b.end - b.begin;
	uint8_t *copy = malloc(b.end - a.begin + 1);
	if (!copy) return false;
	memcpy(copy, e->at + b.begin, second);
	memcpy(copy + second, e->at + a.end, between);
	memcpy(copy + second + between, e->at + a.begin, first);
	memcpy(e->at + a.begin, copy, b.end - a.begin);
	free(copy);
	return true;
}

/* Removes, repeats, exchanges or overwrites whole spans: what all forms have in common. */
static bool shuffle(edited *e, span one, span other) {
	switch (below(4)) {
	case 0: return replace(e, one, NULL, 0);
	case 1: {
		size_t times = 1 + (below(8) ? 0 : below(64));
		bool done = false;
		while (times-- &&
		       replace(e, (span){one.end, one.end}, e->at + one.begin, one.end - one.begin))
			done = true;
		return done;
	}
	case 2: return exchange(e, one, other);
	default: return replace(e, one, e->at + other.begin, other.end - other.begin);
	}
}

/* ---- the dictionary ------------------------------------------------------------------------- */

static struct {
	uint8_t bytes[MOST_WORD];
	size_t size;
} dictionary[MOST_WORDS];
static size_t dictionary_words;

/* A line of libFuzzer's form: "text" with \\, \" and \xAB; anything else is none. */
static void add_word(const char *line) {
	const char *at = strchr(line, '"');
	size_t n = 0;

	if (line[0] == '#' || !at || dictionary_words == MOST_WORDS) return;
	uint8_t *to = dictionary[dictionary_words].bytes;
	for (at++; *at && *at != '"' && *at != '\n' && n < MOST_WORD; n++) {
		unsigned byte = (unsigned char)*at++;
		if (byte == '\\' && *at == 'x' && sscanf(at + 1, "%2x", &byte) == 1) at += 3;
		else if (byte == '\\') byte = (unsigned char)*at++;
		to[n] = (uint8_t)byte;
	}
	dictionary[dictionary_words].size = n;
	dictionary_words += n > 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
	char line[1024];

	for (int i = 1; i < *argc; i++) {
		FILE *file = strncmp((*argv)[i], "-dict=", 6) == 0 ? fopen((*argv)[i] + 6, "r") : NULL;
		while (file && fgets(line, sizeof line, file)) add_word(line);
		if (file) fclose(file);
	}
	return 0;
}

/* ---- text ----------------------------------------------------------------------------------- */

static bool is_word(uint8_t c) {
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       c == '.' || c >= 0x80;
}

/* Almost all bytes can be read. */
static bool is_text(const uint8_t *data, size_t size) {
	size_t odd = 0, n = size < 4096 ? size : 4096;

	for (size_t i = 0; i < n; i++)
		odd += data[i] < ' ' && data[i] != '\n' && data[i] != '\t' && data[i] != '\r';
	return n && odd * 16 <= n;
}

/* Numbers with sign, fraction and exponent, words, quoted texts, single signs; blanks are between.
 */
static size_t find_words(const edited *e, span *words) {
	size_t n = 0, i = 0;

	while (i < e->size && n < MOST_SPANS) {
		size_t begin = i++;
		uint8_t c = e->at[begin];
		if (c == ' ' || c == '\t' || c == '\r') continue;
		if (c == '"' || c == '\'') {
			while (i < e->size && e->at[i] != c && e->at[i] != '\n') i += e->at[i] == '\\' ? 2 : 1;
			i = i < e->size ? i + 1 : e->size;
		} else if (is_word(c)) {
			while (i < e->size && is_word(e->at[i])) i++;
		}
		words[n++] = (span){begin, i};
	}
	return n;
}

/* From word `w` to the bracket that closes it, where it opens one; else to the end of its line, or
 * the word alone. */
static span grow(const edited *e, const span *words, size_t n, size_t w) {
	static const char open[] = "{[(<", close[] = "}])>";
	uint8_t c = e->at[words[w].begin];
	const char *kind = c ? strchr(open, c) : NULL;

	if (kind && below(4)) {
		size_t depth = 0;
		for (size_t i = w; i < n; i++) {
			uint8_t d = e->at[words[i].begin];
			depth += d == c;
			if (d == (uint8_t)close[kind - open] && --depth == 0)
				return (span){words[w].begin, words[i].end};
		}
	}
	if (below(4) == 0) { /* whole lines */
		size_t begin = words[w].begin, end = words[w].end, lines = 1 + (below(4) ? 0 : below(8));
		while (begin && e->at[begin - 1] != '\n') begin--;
		while (lines--) {
			while (end < e->size && e->at[end] != '\n') end++;
			if (end < e->size) end++;
		}
		return (span){begin, end};
	}
	return words[w];
}

static bool write_extreme(edited *e, span word) {
	static const char *const values[] = {"0",
	                                     "-1",
	                                     "1",
	                                     "2",
	                                     "-0",
	                                     "0.5",
	                                     "1e-320",
	                                     "1e308",
	                                     "1e309",
	                                     "-1e309",
	                                     "127",
	                                     "128",
	                                     "255",
	                                     "256",
	                                     "65535",
	                                     "65536",
	                                     "2147483647",
	                                     "2147483648",
	                                     "-2147483648",
	                                     "4294967295",
	                                     "4294967296",
	                                     "9007199254740993",
	                                     "9223372036854775807",
	                                     "9223372036854775808",
	                                     "-9223372036854775808",
	                                     "18446744073709551615",
	                                     "18446744073709551616",
	                                     "NaN",
	                                     "Infinity",
	                                     "0x10",
	                                     "1_000",
	                                     "1e",
	                                     ".5",
	                                     "5.",
	                                     "null",
	                                     "true",
	                                     "false",
	                                     "\"\"",
	                                     "[]",
	                                     "{}",
	                                     "''",
	                                     "~",
	                                     "1Ki",
	                                     "2h",
	                                     "$x",
	                                     "*",
	                                     "&a",
	                                     "<<",
	                                     "<-"};
	const char *value = values[below(sizeof values / sizeof *values)];
	return replace(e, word, (const uint8_t *)value, strlen(value));
}

static bool indent(edited *e, size_t at) {
	static const uint8_t blanks[] = "        ";
	size_t end;

	while (at && e->at[at - 1] != '\n') at--;
	for (end = at; end < e->size && (e->at[end] == ' ' || e->at[end] == '\t'); end++) {
	}
	return replace(e, (span){at, end}, blanks, below(sizeof blanks));
}

/* A word of the dictionary in place of a word, within its quotes where it has some, or as a line or
 * word of its own before it. */
static bool write_known(edited *e, span word) {
	if (!dictionary_words) return false;
	size_t d = below(dictionary_words), size = dictionary[d].size;
	uint8_t quote = e->at[word.begin], text[MOST_WORD + 1];
	bool quoted = (quote == '"' || quote == '\'') && word.end - word.begin > 1;

	if (quoted) return replace(e, (span){word.begin + 1, word.end - 1}, dictionary[d].bytes, size);
	if (below(4)) return replace(e, word, dictionary[d].bytes, size);
	memcpy(text, dictionary[d].bytes, size);
	text[size++] = " \n,="[below(4)];
	return replace(e, (span){word.begin, word.begin}, text, size);
}

/* A span between brackets, quotes, or the words that begin and end a block. */
static bool nest(edited *e, span inner) {
	static const char *const pairs[][2] = {{"[", "]"},
	                                       {"{", "}"},
	                                       {"(", ")"},
	                                       {"{\"a\": ", "}"},
	                                       {"\"", "\""},
	                                       {"'", "'"},
	                                       {"$(", ")"},
	                                       {"$((", "))"},
	                                       {"${", "}"},
	                                       {"`", "`"},
	                                       {"[[ ", " ]]"},
	                                       {"( ", " )\n"},
	                                       {"{ ", "; }\n"},
	                                       {"f() {\n", "\n}\nf\n"},
	                                       {"if [ \"$a\" = b ]; then\n", "\nfi\n"},
	                                       {"for i in 1 2; do\n", "\ndone\n"},
	                                       {"case $a in a) ", ";; esac\n"},
	                                       {"cat <<END\n", "\nEND\n"}};
	const char *const *pair = pairs[below(sizeof pairs / sizeof *pairs)];

	if (e->size + strlen(pair[0]) + strlen(pair[1]) > e->room) return false;
	return replace(e, (span){inner.end, inner.end}, (const uint8_t *)pair[1], strlen(pair[1])) &&
	       replace(e, (span){inner.begin, inner.begin}, (const uint8_t *)pair[0], strlen(pair[0]));
}

static bool mutate_text(edited *e) {
	static span words[MOST_SPANS];
	size_t n = find_words(e, words);

	if (!n) return false;
	size_t w = below(n);
	switch (below(10)) {
	case 0: return write_extreme(e, words[w]);
	case 1: return indent(e, words[w].begin);
	case 2: { /* one word over another, which keeps brackets in pairs more often */
		size_t v = below(n);
		return replace(e, words[w], e->at + words[v].begin, words[v].end - words[v].begin);
	}
	case 3:
	case 4:
	case 5: return write_known(e, words[w]);
	case 6: return nest(e, grow(e, words, n, w));
	default: return shuffle(e, grow(e, words, n, w), grow(e, words, n, below(n)));
	}
}

/* ---- protobuf ------------------------------------------------------------------------------- */

typedef struct field {
	span whole, body; /* of all bytes; of what follows the tag, or the length */
	uint32_t tag;
} field;

static bool read_varint(const uint8_t *data, size_t end, size_t *at, uint64_t *value) {
	*value = 0;
	for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
		uint8_t byte = data[(*at)++];
		*value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) return true;
	}
	return false;
}

static size_t write_varint(uint8_t *to, uint64_t value) {
	size_t n = 0;

	for (; value >= 0x80; value >>= 7) to[n++] = (uint8_t)(value | 0x80);
	to[n++] = (uint8_t)value;
	return n;
}

/* The fields of a message; 0 where these bytes are none. */
static size_t find_fields(const uint8_t *data, span all, field *fields) {
	size_t n = 0, at = all.begin;

	while (at < all.end && n < MOST_SPANS) {
		field *f = &fields[n++];
		uint64_t tag, length;
		f->whole.begin = at;
		if (!read_varint(data, all.end, &at, &tag) || tag > UINT32_MAX || tag < 8) return 0;
		f->tag = (uint32_t)tag;
		f->body.begin = at;
		switch (tag & 7) {
		case 0:
			if (!read_varint(data, all.end, &at, &length)) return 0;
			break;
		case 1: at += 8; break;
		case 5: at += 4; break;
		case 2:
			if (!read_varint(data, all.end, &at, &length) || length > all.end - at) return 0;
			f->body.begin = at;
			at += length;
			break;
		default: return 0;
		}
		if (at > all.end) return 0;
		f->body.end = f->whole.end = at;
	}
	return at == all.end ? n : 0;
}

/* Records that begin with their length, as one field each. */
static size_t find_records(const uint8_t *data, span all, field *fields) {
	size_t n = 0, at = all.begin;

	while (at < all.end && n < MOST_SPANS) {
		uint64_t length;
		size_t begin = at;
		if (!read_varint(data, all.end, &at, &length) || !length || length > all.end - at) return 0;
		fields[n++] = (field){{begin, at + length}, {at, at + length}, 0};
		at += length;
	}
	return at == all.end ? n : 0;
}

/* The field again, from tag (0: a record without one) and body. */
static bool write_field(edited *e, const field *f, uint32_t tag, const uint8_t *body, size_t size) {
	uint8_t *bytes = malloc(size + 20);
	size_t n = 0;

	if (!bytes) return false;
	if (tag) n += write_varint(bytes, tag);
	if (!tag || (tag & 7) == 2) n += write_varint(bytes + n, size);
	if (size) memcpy(bytes + n, body, size);
	bool done = replace(e, f->whole, bytes, n + size);
	free(bytes);
	return done;
}

static bool mutate_message(edited *e, bool records, int depth);

/* What a field holds: a message, text, or bytes. */
static bool mutate_body(edited *e, const field *f, int depth) {
	size_t size = f->body.end - f->body.begin, room = size + 64;
	edited inner = {malloc(room), size, room};
	bool done = inner.at != NULL;

	if (!done) return false;
	if (size) memcpy(inner.at, e->at + f->body.begin, size);
	if (depth >= MOST_DEPTH || !below(8) || !mutate_message(&inner, false, depth + 1)) {
		if (!is_text(inner.at, size) || !below(2) || !mutate_text(&inner))
			inner.size = LLVMFuzzerMutate(inner.at, inner.size, room);
	}
	done = write_field(e, f, f->tag, inner.at, inner.size);
	free(inner.at);
	return done;
}

static bool mutate_number(edited *e, const field *f) {
	static const uint64_t values[] = {0,        1,         2,          127,       128,
	                                  1u << 16, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX};
	uint8_t bytes[10];
	uint64_t value = values[below(sizeof values / sizeof *values)];

	if (below(2)) { /* near the old one */
		size_t at = f->body.begin;
		uint64_t old;
		if ((f->tag & 7) == 0 && read_varint(e->at, f->body.end, &at, &old))
			value = old + below(5) - 2;
	}
	if ((f->tag & 7) == 0) return write_field(e, f, f->tag, bytes, write_varint(bytes, value));
	memcpy(bytes, &value, 8);
	return write_field(e, f, f->tag, bytes, f->body.end - f->body.begin);
}

/* False where the bytes are no message (or no records). */
static bool mutate_message(edited *e, bool records, int depth) {
	field *fields = malloc(MOST_SPANS * sizeof *fields);
	span all = {0, e->size};
	bool done = false;

	if (!fields) return false;
	size_t n = records ? find_records(e->at, all, fields) : find_fields(e->at, all, fields);
	if (n) {
		const field *f = &fields[below(n)], *other = &fields[below(n)];
		switch (below(4)) {
		case 0: done = shuffle(e, f->whole, other->whole); break;
		case 1:
			if (!records) { /* another field, often of another type */
				uint32_t tag = below(2) ? other->tag : f->tag + 8;
				done = write_field(e, f, tag, e->at + f->body.begin, f->body.end - f->body.begin);
				break;
			}
			/* fallthrough */
		default:
			done = records || (f->tag & 7) == 2 ? mutate_body(e, f, depth) : mutate_number(e, f);
			break;
		}
	}
	free(fields);
	return done;
}

/* ---- SQLite --------------------------------------------------------------------------------- */

/* SQLite's numbers: seven bits a byte, the highest first; nine bytes at most. */
static bool read_big_varint(const edited *e, size_t *at, uint64_t *value) {
	*value = 0;
	for (int i = 0; i < 9 && *at < e->size; i++) {
		uint8_t byte = e->at[(*at)++];
		if (i == 8) return *value = *value << 8 | byte, true;
		*value = *value << 7 | (byte & 0x7f);
		if (!(byte & 0x80)) return true;
	}
	return false;
}

/* A value of a row of a leaf: an extreme number, other bytes, or another type as long as its own.
 */
static bool mutate_row(edited *e, size_t begin, size_t head, size_t page) {
	static const uint8_t lengths[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0};
	size_t rows = (size_t)e->at[head + 3] << 8 | e->at[head + 4];

	if (e->at[head] != 13 || !rows || 8 + 2 * rows > page) return false;
	size_t pointer = head + 8 + 2 * below(rows);
	if (pointer + 2 > e->size) return false;
	size_t at = begin + ((size_t)e->at[pointer] << 8 | e->at[pointer + 1]);
	uint64_t payload, row, header, type = 0;
	if (!read_big_varint(e, &at, &payload) || !read_big_varint(e, &at, &row)) return false;
	size_t types = at;
	if (!read_big_varint(e, &at, &header) || header > page) return false;
	size_t end = types + (size_t)header, body = end, which = below(16), place = at;
	for (size_t i = 0; at < end && i <= which; i++) {
		size_t length;
		place = at;
		if (i) body += type < 10 ? lengths[type] : type < 12 ? 0 : (size_t)(type - 12) / 2;
		if (!read_big_varint(e, &at, &type)) return false;
		length = type < 10 ? lengths[type] : type < 12 ? 0 : (size_t)(type - 12) / 2;
		if (body > e->size || length > e->size - body) return false;
		if (i < which && at < end) continue;
		if (!length || !below(4)) { /* NULL, 0, 1; a number or a real; text or bytes */
			if (type < 128)
				e->at[place] = (uint8_t)(type < 10 && !length     ? (uint8_t[]){0, 8, 9}[below(3)]
				                         : type >= 6 && type <= 7 ? 13 - type
				                         : type >= 12             ? type ^ 1
				                                                  : type);
		} else {
			memset(e->at + body, below(2) ? 0 : 0xff, length);
			if (below(2)) e->at[body] = (uint8_t[]){0x7f, 0x80, 0, 0xff, 1}[below(5)];
			if (below(2)) e->at[body + length - 1] = (uint8_t)random_bits();
		}
		return true;
	}
	return false;
}

static bool mutate_pages(edited *e) {
	size_t page = (size_t)e->at[16] << 8 | e->at[17];

	if (page == 1) page = 65536;
	if (page < 512 || e->size < 2 * page) return false;
	size_t pages = e->size / page, k = below(pages), at = k * page + (k ? 0 : 100);
	uint8_t *head = e->at + at, *cell = head + 8 + 2 * below(64);
	if (below(2) && mutate_row(e, k * page, at, page)) return true;
	switch (below(5)) {
	case 0: { /* another page in its place */
		size_t from = 1 + below(pages - 1);
		if (k) memmove(e->at + k * page, e->at + from * page, page);
		return k != 0;
	}
	case 1: head[0] = (uint8_t[]){2, 5, 10, 13, 0, 255}[below(6)]; return true;
	case 2:
		head[1 + below(11)] = (uint8_t)random_bits();
		return true; /* free block, cells, right page */
	case 3: cell[0] = (uint8_t)below(page >> 8), cell[1] = (uint8_t)random_bits(); return true;
	default: { /* in what the cells hold */
		size_t content = at + page / 4, room = (k + 1) * page - content;
		size_t begin = content + below(room), count = 1 + below(16);
		if (begin + count > (k + 1) * page) count = (k + 1) * page - begin;
		for (size_t i = 0; i < count; i++)
			e->at[begin + i] = below(3) ? e->at[content + below(room)] : (uint8_t)random_bits();
		return true;
	}
	}
}

/* ---- two inputs ----------------------------------------------------------------------------- */

/* A part of another text in place of one of this. */
static bool cross_texts(edited *e, const edited *other) {
	static span words[2][MOST_SPANS];
	size_t n = find_words(e, words[0]), m = find_words(other, words[1]);

	if (!n || !m) return false;
	span from = grow(other, words[1], m, below(m));
	return replace(e, grow(e, words[0], n, below(n)), other->at + from.begin,
	               from.end - from.begin);
}

/* A field or record of another message in place of one of this, at any depth. */
static bool cross_messages(edited *e, const edited *other, bool records, int depth) {
	field *fields = malloc(2 * MOST_SPANS * sizeof *fields), *others = fields + MOST_SPANS;
	bool done = false;

	if (!fields) return false;
	span all = {0, e->size}, its = {0, other->size};
	size_t n = records ? find_records(e->at, all, fields) : find_fields(e->at, all, fields);
	size_t m = records ? find_records(other->at, its, others) : find_fields(other->at, its, others);
	if (n && m) {
		const field *f = &fields[below(n)], *g = &others[below(m)];
		size_t size = f->body.end - f->body.begin, from = g->body.end - g->body.begin;
		edited inner = {malloc(size + from + 64), size, size + from + 64};
		const edited donor = {other->at + g->body.begin, from, from};
		bool inside = inner.at && depth < MOST_DEPTH && below(3) &&
		              (records || ((f->tag & 7) == 2 && (g->tag & 7) == 2));
		if (inside) memcpy(inner.at, e->at + f->body.begin, size);
		if (inside && cross_messages(&inner, &donor, false, depth + 1))
			done = write_field(e, f, f->tag, inner.at, inner.size);
		else done = replace(e, f->whole, other->at + g->whole.begin, g->whole.end - g->whole.begin);
		free(inner.at);
	}
	free(fields);
	return done;
}

static bool is_database(const uint8_t *data, size_t size) {
	return size >= 1024 && memcmp(data, "SQLite format 3", 16) == 0;
}

/* A page of another database of the same page size. */
static bool cross_databases(edited *e, const edited *other) {
	size_t page = (size_t)e->at[16] << 8 | e->at[17];

	if (page < 512 || memcmp(e->at + 16, other->at + 16, 2) != 0) return false;
	size_t pages = e->size / page, others = other->size / page;
	if (pages < 2 || others < 2) return false;
	memcpy(e->at + (1 + below(pages - 1)) * page, other->at + (1 + below(others - 1)) * page, page);
	return true;
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2,
                                 size_t size2, uint8_t *out, size_t max_out, unsigned int seed) {
	edited e = {out, size1 < max_out ? size1 : max_out, max_out};
	uint8_t *copy = malloc(size2 ? size2 : 1);
	const edited other = {copy, size2, size2};
	bool done = false;

	if (!copy) return 0;
	state = UINT64_C(0x9e3779b97f4a7c15) * (seed + UINT64_C(1));
	random_bits();
	if (e.size) memcpy(e.at, data1, e.size);
	if (size2) memcpy(copy, data2, size2);
	if (is_database(e.at, e.size) && is_database(copy, size2)) done = cross_databases(&e, &other);
	else if (is_text(e.at, e.size) && is_text(copy, size2)) done = cross_texts(&e, &other);
	else done = cross_messages(&e, &other, false, 0) || cross_messages(&e, &other, true, 0);
	if (!done) { /* the first bytes of one, the last of the other */
		size_t cut = below(e.size + 1), from = below(size2 + 1);
		replace(&e, (span){cut, e.size}, copy + from, size2 - from);
	}
	free(copy);
	return e.size;
}

/* ---- the entry ------------------------------------------------------------------------------ */

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
	edited e = {data, size, max_size};

	state = UINT64_C(0x9e3779b97f4a7c15) * (seed + UINT64_C(1));
	random_bits();
	if (size && below(2)) {
		bool done;
		if (is_database(data, size)) done = mutate_pages(&e);
		else if (is_text(data, size)) done = mutate_text(&e);
		else done = mutate_message(&e, false, 0) || mutate_message(&e, true, 0);
		if (done && e.size) return e.size;
		size = e.size;
	}
	return LLVMFuzzerMutate(data, size, max_size);
}
