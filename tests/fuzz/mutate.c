/* mutate.c: mutations that keep the form of an input, so that fuzzing reaches what lies behind a
 * parser's first check.
 *
 * Half of the time an input gets libFuzzer's own mutation of bytes, otherwise one of those here.
 * The bytes themselves say which form they have, so every target shares this file:
 *
 * - text (JSON, YAML, TOML, CSV, XML, shell, programs of compile): words, numbers, quoted texts,
 *   lines and what a pair of brackets holds are removed, repeated, exchanged or copied over one
 *   another; numbers become extreme ones; lines are indented anew.
 * - protobuf, and streams of records that each begin with their length (Chakra): fields are
 * removed, repeated, exchanged, renumbered, or changed inside; every length around them follows.
 * - SQLite: heads of pages, cell pointers and whole pages.
 *
 * Results depend on the input and the seed alone.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

enum {
	MOST_SPANS = 4096, /* words of a text, fields of a message */
	MOST_DEPTH = 16    /* messages in messages */
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

static bool mutate_text(edited *e) {
	static span words[MOST_SPANS];
	size_t n = find_words(e, words);

	if (!n) return false;
	size_t w = below(n);
	switch (below(6)) {
	case 0: return write_extreme(e, words[w]);
	case 1: return indent(e, words[w].begin);
	case 2: { /* one word over another, which keeps brackets in pairs more often */
		size_t v = below(n);
		return replace(e, words[w], e->at + words[v].begin, words[v].end - words[v].begin);
	}
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

static bool mutate_pages(edited *e) {
	size_t page = (size_t)e->at[16] << 8 | e->at[17];

	if (page == 1) page = 65536;
	if (page < 512 || e->size < 2 * page) return false;
	size_t pages = e->size / page, k = below(pages), at = k * page + (k ? 0 : 100);
	uint8_t *head = e->at + at, *cell = head + 8 + 2 * below(64);
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

/* ---- the entry ------------------------------------------------------------------------------ */

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
	edited e = {data, size, max_size};

	state = UINT64_C(0x9e3779b97f4a7c15) * (seed + UINT64_C(1));
	random_bits();
	if (size && below(2)) {
		bool done;
		if (size >= 1024 && memcmp(data, "SQLite format 3", 16) == 0) done = mutate_pages(&e);
		else if (is_text(data, size)) done = mutate_text(&e);
		else done = mutate_message(&e, false, 0) || mutate_message(&e, true, 0);
		if (done && e.size) return e.size;
		size = e.size;
	}
	return LLVMFuzzerMutate(data, size, max_size);
}
