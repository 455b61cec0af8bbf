/* json_reader.c: the pull reader of RFC 8259 over a sliding window.
 *
 * The window always ends with zero bytes, which stop every scan; only there the reader checks for
 * more input. Texts are unescaped in place (they only shrink) and ended by overwriting their
 * closing quote; the byte after a number is overwritten too and restored at the next call. Bytes
 * before the current token are dropped when the window is refilled; a token longer than the window
 * makes it grow. */
#include "io/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include "base/check.h"
#include "base/text.h"

enum { WINDOW = 1 << 18, PAD = 32, TEXT_LIMIT = 1 << 28 };

typedef enum expect {
	VALUE,         /* a value */
	FIRST_ELEMENT, /* a value or ']' */
	FIRST_KEY,     /* a key or '}' */
	COLON,         /* ':' and a value */
	AFTER,         /* ',' or the end of the object or array */
	DONE,          /* only white space */
	FAILED,
} expect;

struct lk_json {
	lk_stream *in;
	char *buffer;
	size_t capacity;            /* without the pad */
	char *at, *end;             /* unread bytes */
	bool ended;                 /* end of input reached */
	bool strict;                /* strictly RFC 8259: no NaN, no Infinity */
	long long base;             /* offset in the input of buffer[0] */
	long long line, line_start; /* line_start: offset of its first byte */
	long long token_line, token_column;
	lk_json_token token;
	char *text;
	size_t length;
	char *held; /* where a '\0' replaces held_byte */
	char held_byte;
	expect expect;
	int depth;
	char kinds[LK_JSON_DEPTH]; /* '{' or '[' */
	char where[256];
};

void lk_json_be_strict(lk_json *json) {
	json->strict = true;
}

lk_json *lk_json_open(lk_stream *in) {
	lk_json *json = calloc(1, sizeof *json);
	if (!json) return NULL;
	json->capacity = WINDOW;
	json->buffer = malloc(WINDOW + PAD);
	if (!json->buffer) {
		free(json);
		return NULL;
	}
	memset(json->buffer, 0, PAD);
	json->in = in;
	json->at = json->end = json->buffer;
	json->line = json->token_line = json->token_column = 1;
	return json;
}

void lk_json_close(lk_json *json) {
	if (!json) return;
	free(json->buffer);
	free(json);
}

static long long reader_column_of(const lk_json *json, const char *p) {
	return json->base + (p - json->buffer) - json->line_start + 1;
}

static const char *reader_place(lk_json *json, long long line, long long column) {
	snprintf(json->where, sizeof json->where, "%.200s:%lld:%lld", lk_stream_name(json->in), line,
	         column);
	return json->where;
}

LK_PRINTF(4, 5)
static lk_status reader_wrong(lk_json *json, const char *p, lk_error *err, const char *fmt, ...) {
	char what[128];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof what, fmt, args);
	va_end(args);
	json->expect = FAILED;
	return lk_fail(err, LK_ERR_INPUT, reader_place(json, json->line, reader_column_of(json, p)),
	               "%s", what);
}

static lk_status reader_unexpected(lk_json *json, const char *p, const char *wanted,
                                   lk_error *err) {
	if (p == json->end)
		return reader_wrong(json, p, err, "the input ends where %s should follow", wanted);
	if (*p > ' ' && *p < 0x7f)
		return reader_wrong(json, p, err, "expected %s, found '%c'", wanted, *p);
	return reader_wrong(json, p, err, "expected %s, found byte 0x%02x", wanted, (unsigned char)*p);
}

/* ---- the window ---- */

/* Read more input after the existing bytes; keep those from *keep on and move *keep and *p with
 * them. At the end of the input only `ended` changes. */
static lk_status reader_more(lk_json *json, char **keep, char **p, lk_error *err) {
	LK_ASSERT(json->buffer <= *keep && *keep <= *p && *p <= json->end);
	if (json->ended) return LK_OK;
	size_t kept = (size_t)(json->end - *keep), offset = (size_t)(*p - *keep);
	json->base += *keep - json->buffer;
	memmove(json->buffer, *keep, kept);
	if (kept > json->capacity / 2) {
		char *grown = kept <= TEXT_LIMIT ? realloc(json->buffer, json->capacity * 2 + PAD) : NULL;
		if (!grown) {
			json->end = json->buffer + kept;
			lk_status status = kept > TEXT_LIMIT
			                       ? reader_wrong(json, json->buffer, err, "a text of over 256 MiB")
			                       : lk_oom(err);
			json->expect = FAILED;
			return status;
		}
		json->buffer = grown;
		json->capacity *= 2;
	}
	size_t got = 0;
	lk_status status =
		lk_stream_read(json->in, json->buffer + kept, json->capacity - kept, &got, err);
	json->end = json->buffer + kept + got;
	memset(json->end, 0, PAD);
	json->ended = got == 0;
	*keep = json->buffer;
	*p = json->buffer + offset;
	if (status != LK_OK) json->expect = FAILED;
	return status;
}

/* Make `count` bytes available at p, or as many as exist. */
static lk_status reader_need(lk_json *json, char **keep, char **p, ptrdiff_t count, lk_error *err) {
	while (json->end - *p < count && !json->ended) LK_TRY(reader_more(json, keep, p, err));
	return LK_OK;
}

static lk_status skip_spaces(lk_json *json, lk_error *err) {
	char *p = json->at;
	for (;;) {
		while (*p == ' ' || *p == '\t' || *p == '\r') p++;
		if (*p == '\n') {
			p++;
			json->line++;
			json->line_start = json->base + (p - json->buffer);
		} else if (p == json->end && !json->ended) {
			LK_TRY(reader_more(json, &p, &p, err));
		} else {
			json->at = p;
			return LK_OK;
		}
	}
}

/* Move j->at to the next byte that is not white space; nearly always it is there or after one
 * blank. */
static inline lk_status reader_skip_space(lk_json *json, lk_error *err) {
	if (*json->at == ' ') json->at++;
	return (unsigned char)*json->at > ' ' ? LK_OK : skip_spaces(json, err);
}

/* ---- texts ---- */

/* The first byte from p on that is a quote, a backslash, a control character or not ASCII. */
static inline char *scan_text(char *p) {
#ifdef __SSE2__
	const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'),
				  space = _mm_set1_epi8(' ');
	for (;; p += 16) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)p);
		/* As signed numbers, bytes that are not ASCII are below the blank, like control
		 * characters. */
		__m128i stop =
			_mm_or_si128(_mm_cmplt_epi8(bytes, space),
		                 _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, slash)));
		int mask = _mm_movemask_epi8(stop);
		if (mask) return p + __builtin_ctz((unsigned)mask);
	}
#else
	while ((unsigned char)(*p - ' ') < 0x60 && *p != '"' && *p != '\\') p++;
	return p;
#endif
}

static int hex_value(char c) {
	if (c >= '0' && c <= '9') return c - '0';
	if (c >= 'a' && c <= 'f') return c - 'a' + 10;
	if (c >= 'A' && c <= 'F') return c - 'A' + 10;
	return -1;
}

/* The number of four hexadecimal digits, or -1. */
static int hex4(const char *p) {
	int number = 0;
	for (int i = 0; i < 4; i++) {
		int h = hex_value(p[i]);
		if (h < 0) return -1;
		number = number * 16 + h;
	}
	return number;
}

static char *reader_put_utf8(char *out, int c) {
	if (c < 0x80) {
		*out++ = (char)c;
	} else if (c < 0x800) {
		*out++ = (char)(0xc0 | c >> 6);
		*out++ = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		*out++ = (char)(0xe0 | c >> 12);
		*out++ = (char)(0x80 | (c >> 6 & 0x3f));
		*out++ = (char)(0x80 | (c & 0x3f));
	} else {
		*out++ = (char)(0xf0 | c >> 18);
		*out++ = (char)(0x80 | (c >> 12 & 0x3f));
		*out++ = (char)(0x80 | (c >> 6 & 0x3f));
		*out++ = (char)(0x80 | (c & 0x3f));
	}
	return out;
}

enum {
	REPLACEMENT = 0xfffd,
	LONGEST_ESCAPE = 12 /* a surrogate pair */
};

/* Decode the escape at *p (its backslash) to *out; both move on. Twelve bytes are readable there.
 * False if invalid. */
static bool unescape(char **p, char **out) {
	static const char letters[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
	char letter = (*p)[1];
	if (letter == 'u') {
		int c = hex4(*p + 2);
		if (c < 0) return false;
		*p += 6;
		if (c >= 0xd800 && c < 0xdc00 && (*p)[0] == '\\' && (*p)[1] == 'u') {
			int low = hex4(*p + 2);
			if (low >= 0xdc00 && low < 0xe000) {
				c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
				*p += 6;
			}
		}
		*out = reader_put_utf8(*out, c >= 0xd800 && c < 0xe000 ? REPLACEMENT : c);
		return true;
	}
	const char *found = letter ? strchr(letters, letter) : NULL;
	if (!found) return false;
	*(*out)++ = bytes[found - letters];
	*p += 2;
	return true;
}

/* Read the text whose opening quote is at j->at. Three pointers: the read position (p), the begin
 * of the bytes since the last escape (run) and their destination (out); all move with the
 * window. */
static lk_status reader_read_text(lk_json *json, lk_error *err) {
	LK_ASSERT(*json->at == '"');
	char *start = json->at + 1, *p = start, *run = start, *out = start;
	for (;;) {
		p = scan_text(p);
		if (*p == '"') break;
		ptrdiff_t run_at = run - start, out_at = out - start;
		if (*p == '\\') {
			LK_TRY(reader_need(json, &start, &p, LONGEST_ESCAPE, err));
			run = start + run_at;
			out = start + out_at;
			if (out != run) memmove(out, run, (size_t)(p - run));
			out += p - run;
			if (!unescape(&p, &out)) return reader_wrong(json, p, err, "not an escape of JSON");
			run = p;
			continue;
		}
		size_t length = *p & 0x80 ? lk_utf8_length(p, (size_t)(json->end - p)) : 0;
		p += length;
		if (length) continue;
		if (json->end - p >= 4 || json->ended) {
			if (p == json->end) return reader_wrong(json, p, err, "the input ends inside a text");
			if (*p & 0x80)
				return reader_wrong(json, p, err, "byte 0x%02x is not UTF-8 here",
				                    (unsigned char)*p);
			return reader_wrong(json, p, err, "control character 0x%02x inside a text",
			                    (unsigned char)*p);
		}
		LK_TRY(reader_need(json, &start, &p, 4, err));
		run = start + run_at;
		out = start + out_at;
	}
	if (out != run) memmove(out, run, (size_t)(p - run));
	out += p - run;
	LK_ASSERT(start <= out && out <= p && p < json->end);
	*out = '\0';
	json->text = start;
	json->length = (size_t)(out - start);
	json->at = p + 1;
	return LK_OK;
}

/* ---- numbers and literals ---- */

static char *scan_digits(char *p) {
	while (*p >= '0' && *p <= '9') p++;
	return p;
}

/* The end of the number at p; *bad is set to the byte that violates the grammar, or NULL. */
static char *scan_number(char *p, char **bad) {
	*bad = NULL;
	if (*p == '-') p++;
	char *digits = p;
	p = *p == '0' ? p + 1 : scan_digits(p);
	if (p == digits) *bad = p;
	if (*p == '.') {
		digits = ++p;
		p = scan_digits(p);
		if (p == digits) *bad = p;
	}
	if (!*bad && (*p == 'e' || *p == 'E')) {
		p++;
		if (*p == '+' || *p == '-') p++;
		digits = p;
		p = scan_digits(p);
		if (p == digits) *bad = p;
	}
	return p;
}

static void reader_hold(lk_json *json, char *end) {
	json->length = (size_t)(end - json->text);
	json->at = end;
	json->held = end;
	json->held_byte = *end;
	*end = '\0';
}

static lk_status reader_read_number(lk_json *json, lk_error *err) {
	char *start = json->at, *end, *bad;
	for (;;) {
		end = scan_number(start, &bad);
		if (end < json->end || json->ended) break;
		LK_TRY(reader_more(json, &start, &end, err));
	}
	if (bad) return reader_unexpected(json, bad, "a digit", err);
	json->text = start;
	reader_hold(json, end);
	return LK_OK;
}

/* true, false, null, NaN and Infinity. */
static lk_status read_word(lk_json *json, lk_json_token *token, lk_error *err) {
	static const struct {
		const char *word;
		int length;
		lk_json_token token;
	} words[] = {{"true", 4, LK_JSON_TRUE},       {"false", 5, LK_JSON_FALSE},
	             {"null", 4, LK_JSON_NULL},       {"NaN", 3, LK_JSON_NUMBER},
	             {"Infinity", 8, LK_JSON_NUMBER}, {"-Infinity", 9, LK_JSON_NUMBER}};
	char *p = json->at;
	LK_TRY(reader_need(json, &p, &p, 9, err));
	json->at = p;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (json->strict && words[i].token == LK_JSON_NUMBER) continue;
		if (strncmp(p, words[i].word, (size_t)words[i].length) != 0) continue;
		*token = words[i].token;
		json->text = p;
		reader_hold(json, p + words[i].length);
		return LK_OK;
	}
	return reader_unexpected(json, p, "a value", err);
}

/* ---- tokens ---- */

static lk_status reader_push(lk_json *json, char kind, lk_error *err) {
	if (json->depth == LK_JSON_DEPTH)
		return reader_wrong(json, json->at, err, "nested deeper than %d", LK_JSON_DEPTH);
	json->kinds[json->depth++] = kind;
	json->expect = kind == '{' ? FIRST_KEY : FIRST_ELEMENT;
	json->at++;
	return LK_OK;
}

static lk_status pop(lk_json *json, lk_json_token *token) {
	*token = json->kinds[--json->depth] == '{' ? LK_JSON_OBJECT_END : LK_JSON_ARRAY_END;
	json->expect = json->depth ? AFTER : DONE;
	json->at++;
	return LK_OK;
}

static lk_status reader_read_value(lk_json *json, lk_json_token *token, lk_error *err) {
	char c = *json->at;
	if (c == '{' || c == '[') {
		*token = c == '{' ? LK_JSON_OBJECT : LK_JSON_ARRAY;
		return reader_push(json, c, err);
	}
	json->expect = json->depth ? AFTER : DONE;
	if (c == '"') {
		*token = LK_JSON_STRING;
		return reader_read_text(json, err);
	}
	if (c == '-') {
		LK_TRY(reader_need(json, &json->at, &json->at, 2, err));
		if (json->at[1] == 'I') return read_word(json, token, err);
	}
	if (c == '-' || (c >= '0' && c <= '9')) {
		*token = LK_JSON_NUMBER;
		return reader_read_number(json, err);
	}
	return read_word(json, token, err);
}

static lk_status reader_read_key(lk_json *json, lk_json_token *token, lk_error *err) {
	if (*json->at != '"') return reader_unexpected(json, json->at, "a key in quotes", err);
	*token = LK_JSON_KEY;
	json->expect = COLON;
	return reader_read_text(json, err);
}

/* Skip a byte-order mark at the beginning; distinguish UTF-16 from damaged text. */
static lk_status reader_begin(lk_json *json, lk_error *err) {
	LK_TRY(reader_need(json, &json->at, &json->at, 3, err));
	bool utf16 = json->end - json->at >= 2 &&
	             (memcmp(json->at, "\xff\xfe", 2) == 0 || memcmp(json->at, "\xfe\xff", 2) == 0);
	if (utf16) {
		reader_wrong(json, json->at, err, "the text is UTF-16");
		return lk_hint(err, "convert it to UTF-8");
	}
	if (json->end - json->at >= 3 && memcmp(json->at, "\xef\xbb\xbf", 3) == 0) json->at += 3;
	return LK_OK;
}

/* Read what precedes a token in this state: a comma or colon. *close is set if the token is an
 * end. */
static lk_status punctuation(lk_json *json, bool *close, lk_error *err) {
	char c = *json->at;
	bool object = json->depth && json->kinds[json->depth - 1] == '{';
	*close =
		json->depth && json->expect != COLON && json->expect != VALUE && c == (object ? '}' : ']');
	if (*close || (json->expect != AFTER && json->expect != COLON)) return LK_OK;
	if (json->expect == AFTER && c != ',')
		return reader_unexpected(json, json->at, object ? "',' or '}'" : "',' or ']'", err);
	if (json->expect == COLON && c != ':') return reader_unexpected(json, json->at, "':'", err);
	json->expect = json->expect == AFTER && object ? FIRST_KEY : VALUE;
	json->at++;
	return reader_skip_space(json, err);
}

static lk_status next_token(lk_json *json, lk_json_token *token, lk_error *err) {
	if (json->base == 0 && json->end == json->buffer) LK_TRY(reader_begin(json, err));
	LK_TRY(reader_skip_space(json, err));
	if (json->expect == DONE) {
		if (json->at < json->end)
			return reader_unexpected(json, json->at, "the end of the document", err);
		*token = LK_JSON_END;
		return LK_OK;
	}
	bool close;
	LK_TRY(punctuation(json, &close, err));
	json->token_line = json->line;
	json->token_column = reader_column_of(json, json->at);
	if (close) return pop(json, token);
	if (json->expect == FIRST_KEY) return reader_read_key(json, token, err);
	return reader_read_value(json, token, err);
}

lk_status lk_json_next(lk_json *json, lk_json_token *token, lk_error *err) {
	if (json->expect == FAILED)
		return lk_fail(err, LK_ERR_INPUT, lk_json_where(json), "stopped at an error before");
	if (json->held) *json->held = json->held_byte;
	json->held = NULL;
	json->text = NULL;
	*token = LK_JSON_END;
	lk_status status = next_token(json, token, err);
	json->token = *token;
	if (status != LK_OK) json->expect = FAILED;
	return status;
}

const char *lk_json_text(const lk_json *json, size_t *length) {
	if (length) *length = json->text ? json->length : 0;
	return json->text ? json->text : "";
}

double lk_json_number(const lk_json *json) {
	if (!json->text || json->token != LK_JSON_NUMBER) return NAN;
	bool negative = *json->text == '-';
	char first = json->text[negative];
	if (first == 'N') return NAN;
	if (first == 'I') return negative ? -INFINITY : INFINITY;
	const char *end;
	return lk_read_real(json->text, &end);
}

lk_status lk_json_skip(lk_json *json, lk_error *err) {
	int depth = json->depth;
	lk_json_token token;
	LK_TRY(lk_json_next(json, &token, err));
	if (token == LK_JSON_END || token == LK_JSON_OBJECT_END || token == LK_JSON_ARRAY_END ||
	    token == LK_JSON_KEY) {
		return lk_fail(err, LK_ERR_INTERNAL, lk_json_where(json), "no value to skip");
	}
	while (json->depth > depth) LK_TRY(lk_json_next(json, &token, err));
	return LK_OK;
}

const char *lk_json_where(const lk_json *json) {
	/* The reader itself is not constant: only its callers promise not to change it. */
	return reader_place((lk_json *)json, json->token_line, json->token_column);
}

void lk_json_position(const lk_json *json, long long *line, long long *column) {
	*line = json->token_line;
	*column = json->token_column;
}
