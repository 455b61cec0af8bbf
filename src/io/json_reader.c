/* json_reader.c: the pull reader of RFC 8259 over a sliding window.
 *
 * The window always ends with bytes of zero, which stop every scan; only there is it asked whether more input can be
 * had. Texts are unescaped in place (they only shrink) and ended by overwriting their closing quote; the byte behind
 * a number is overwritten too and put back at the next call. What lies before the current token is dropped when the
 * window is filled again; a token longer than the window makes it grow. */
#include "io/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include "base/text.h"

enum { WINDOW = 1 << 18, PAD = 32, TEXT_LIMIT = 1 << 28 };

typedef enum expect {
	VALUE,         /* a value */
	FIRST_ELEMENT, /* a value or ']' */
	FIRST_KEY,     /* a key or '}' */
	COLON,         /* ':' and a value */
	AFTER,         /* ',' or the end of the object or array */
	DONE,          /* nothing but white space */
	FAILED,
} expect;

struct lk_json {
	lk_stream *in;
	char *buffer;
	size_t capacity; /* without the pad */
	char *at, *end;  /* what is not read yet */
	bool ended;      /* the input has no more */
	long long base;  /* offset in the input of buffer[0] */
	long long line, line_start; /* line_start: offset of its first byte */
	long long token_line, token_column;
	lk_json_token token;
	char *text;
	size_t length;
	char *held; /* where a '\0' stands for held_byte */
	char held_byte;
	expect expect;
	int depth;
	char kinds[LK_JSON_DEPTH]; /* '{' or '[' */
	char where[256];
};

lk_json *lk_json_open(lk_stream *in) {
	lk_json *j = calloc(1, sizeof *j);
	if (!j) return NULL;
	j->capacity = WINDOW;
	j->buffer = malloc(WINDOW + PAD);
	if (!j->buffer) {
		free(j);
		return NULL;
	}
	memset(j->buffer, 0, PAD);
	j->in = in;
	j->at = j->end = j->buffer;
	j->line = j->token_line = j->token_column = 1;
	return j;
}

void lk_json_close(lk_json *json) {
	if (!json) return;
	free(json->buffer);
	free(json);
}

static long long column_of(const lk_json *j, const char *p) {
	return j->base + (p - j->buffer) - j->line_start + 1;
}

static const char *place(lk_json *j, long long line, long long column) {
	snprintf(j->where, sizeof j->where, "%.200s:%lld:%lld", lk_stream_name(j->in), line, column);
	return j->where;
}

LK_PRINTF(4, 5)
static lk_status wrong(lk_json *j, const char *p, lk_error *err, const char *fmt, ...) {
	char what[128];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof what, fmt, args);
	va_end(args);
	j->expect = FAILED;
	return lk_fail(err, LK_ERR_INPUT, place(j, j->line, column_of(j, p)), "%s", what);
}

static lk_status unexpected(lk_json *j, const char *p, const char *wanted, lk_error *err) {
	if (p == j->end) return wrong(j, p, err, "the input ends where %s should follow", wanted);
	if (*p > ' ' && *p < 0x7f) return wrong(j, p, err, "expected %s, found '%c'", wanted, *p);
	return wrong(j, p, err, "expected %s, found byte 0x%02x", wanted, (unsigned char)*p);
}

/* ---- the window ---- */

/* Gets more input behind what is there; keeps the bytes from *keep on and moves *keep and *p along with them. At the
 * end of the input nothing changes but `ended`. */
static lk_status more(lk_json *j, char **keep, char **p, lk_error *err) {
	if (j->ended) return LK_OK;
	size_t kept = (size_t)(j->end - *keep), offset = (size_t)(*p - *keep);
	j->base += *keep - j->buffer;
	memmove(j->buffer, *keep, kept);
	if (kept > j->capacity / 2) {
		char *grown = kept <= TEXT_LIMIT ? realloc(j->buffer, j->capacity * 2 + PAD) : NULL;
		if (!grown) {
			j->end = j->buffer + kept;
			lk_status status = kept > TEXT_LIMIT ? wrong(j, j->buffer, err, "a text of over 256 MiB") : lk_oom(err);
			j->expect = FAILED;
			return status;
		}
		j->buffer = grown;
		j->capacity *= 2;
	}
	size_t got = 0;
	lk_status status = lk_stream_read(j->in, j->buffer + kept, j->capacity - kept, &got, err);
	j->end = j->buffer + kept + got;
	memset(j->end, 0, PAD);
	j->ended = got == 0;
	*keep = j->buffer;
	*p = j->buffer + offset;
	if (status != LK_OK) j->expect = FAILED;
	return status;
}

/* Makes `count` bytes available at p, or as many as there are. */
static lk_status need(lk_json *j, char **keep, char **p, ptrdiff_t count, lk_error *err) {
	while (j->end - *p < count && !j->ended) LK_TRY(more(j, keep, p, err));
	return LK_OK;
}

static lk_status skip_spaces(lk_json *j, lk_error *err) {
	char *p = j->at;
	for (;;) {
		while (*p == ' ' || *p == '\t' || *p == '\r') p++;
		if (*p == '\n') {
			p++;
			j->line++;
			j->line_start = j->base + (p - j->buffer);
		} else if (p == j->end && !j->ended) {
			LK_TRY(more(j, &p, &p, err));
		} else {
			j->at = p;
			return LK_OK;
		}
	}
}

/* Moves j->at to the next byte that is no white space; nearly always there is none or one blank. */
static inline lk_status skip_space(lk_json *j, lk_error *err) {
	if (*j->at == ' ') j->at++;
	return (unsigned char)*j->at > ' ' ? LK_OK : skip_spaces(j, err);
}

/* ---- texts ---- */

/* The first byte from p on that is a quote, a backslash, a control character or not ASCII. */
static inline char *scan_text(char *p) {
#ifdef __SSE2__
	const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), space = _mm_set1_epi8(' ');
	for (;; p += 16) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)p);
		/* As signed numbers, bytes that are not ASCII are below the blank, as control characters are. */
		__m128i stop = _mm_or_si128(_mm_cmplt_epi8(bytes, space),
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

static char *put_utf8(char *out, int c) {
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

enum { REPLACEMENT = 0xfffd, LONGEST_ESCAPE = 12 /* a surrogate pair */ };

/* The escape at *p (its backslash) to *out; both move on. Twelve bytes are readable there. False if it is none. */
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
		*out = put_utf8(*out, c >= 0xd800 && c < 0xe000 ? REPLACEMENT : c);
		return true;
	}
	const char *found = letter ? strchr(letters, letter) : NULL;
	if (!found) return false;
	*(*out)++ = bytes[found - letters];
	*p += 2;
	return true;
}

/* Reads the text whose opening quote is at j->at. Three pointers: what was read (p), where the bytes since the last
 * escape begin (run) and where they belong (out); all move when the window does. */
static lk_status read_text(lk_json *j, lk_error *err) {
	char *start = j->at + 1, *p = start, *run = start, *out = start;
	for (;;) {
		p = scan_text(p);
		if (*p == '"') break;
		ptrdiff_t run_at = run - start, out_at = out - start;
		if (*p == '\\') {
			LK_TRY(need(j, &start, &p, LONGEST_ESCAPE, err));
			run = start + run_at;
			out = start + out_at;
			if (out != run) memmove(out, run, (size_t)(p - run));
			out += p - run;
			if (!unescape(&p, &out)) return wrong(j, p, err, "not an escape of JSON");
			run = p;
			continue;
		}
		size_t length = *p & 0x80 ? lk_utf8_length(p, (size_t)(j->end - p)) : 0;
		p += length;
		if (length) continue;
		if (j->end - p >= 4 || j->ended) {
			if (p == j->end) return wrong(j, p, err, "the input ends inside a text");
			if (*p & 0x80) return wrong(j, p, err, "byte 0x%02x is not UTF-8 here", (unsigned char)*p);
			return wrong(j, p, err, "control character 0x%02x inside a text", (unsigned char)*p);
		}
		LK_TRY(need(j, &start, &p, 4, err));
		run = start + run_at;
		out = start + out_at;
	}
	if (out != run) memmove(out, run, (size_t)(p - run));
	out += p - run;
	*out = '\0';
	j->text = start;
	j->length = (size_t)(out - start);
	j->at = p + 1;
	return LK_OK;
}

/* ---- numbers and literals ---- */

static char *scan_digits(char *p) {
	while (*p >= '0' && *p <= '9') p++;
	return p;
}

/* The end of the number at p; *bad is set to the byte that breaks the grammar, or NULL. */
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

static void hold(lk_json *j, char *end) {
	j->length = (size_t)(end - j->text);
	j->at = end;
	j->held = end;
	j->held_byte = *end;
	*end = '\0';
}

static lk_status read_number(lk_json *j, lk_error *err) {
	char *start = j->at, *end, *bad;
	for (;;) {
		end = scan_number(start, &bad);
		if (end < j->end || j->ended) break;
		LK_TRY(more(j, &start, &end, err));
	}
	if (bad) return unexpected(j, bad, "a digit", err);
	j->text = start;
	hold(j, end);
	return LK_OK;
}

/* true, false, null, and the numbers that are none. */
static lk_status read_word(lk_json *j, lk_json_token *token, lk_error *err) {
	static const struct {
		const char *word;
		int length;
		lk_json_token token;
	} words[] = {{"true", 4, LK_JSON_TRUE},   {"false", 5, LK_JSON_FALSE},      {"null", 4, LK_JSON_NULL},
	             {"NaN", 3, LK_JSON_NUMBER}, {"Infinity", 8, LK_JSON_NUMBER}, {"-Infinity", 9, LK_JSON_NUMBER}};
	char *p = j->at;
	LK_TRY(need(j, &p, &p, 9, err));
	j->at = p;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (strncmp(p, words[i].word, (size_t)words[i].length) != 0) continue;
		*token = words[i].token;
		j->text = p;
		hold(j, p + words[i].length);
		return LK_OK;
	}
	return unexpected(j, p, "a value", err);
}

/* ---- tokens ---- */

static lk_status push(lk_json *j, char kind, lk_error *err) {
	if (j->depth == LK_JSON_DEPTH) return wrong(j, j->at, err, "nested deeper than %d", LK_JSON_DEPTH);
	j->kinds[j->depth++] = kind;
	j->expect = kind == '{' ? FIRST_KEY : FIRST_ELEMENT;
	j->at++;
	return LK_OK;
}

static lk_status pop(lk_json *j, lk_json_token *token) {
	*token = j->kinds[--j->depth] == '{' ? LK_JSON_OBJECT_END : LK_JSON_ARRAY_END;
	j->expect = j->depth ? AFTER : DONE;
	j->at++;
	return LK_OK;
}

static lk_status read_value(lk_json *j, lk_json_token *token, lk_error *err) {
	char c = *j->at;
	if (c == '{' || c == '[') {
		*token = c == '{' ? LK_JSON_OBJECT : LK_JSON_ARRAY;
		return push(j, c, err);
	}
	j->expect = j->depth ? AFTER : DONE;
	if (c == '"') {
		*token = LK_JSON_STRING;
		return read_text(j, err);
	}
	if (c == '-') {
		LK_TRY(need(j, &j->at, &j->at, 2, err));
		if (j->at[1] == 'I') return read_word(j, token, err);
	}
	if (c == '-' || (c >= '0' && c <= '9')) {
		*token = LK_JSON_NUMBER;
		return read_number(j, err);
	}
	return read_word(j, token, err);
}

static lk_status read_key(lk_json *j, lk_json_token *token, lk_error *err) {
	if (*j->at != '"') return unexpected(j, j->at, "a key in quotes", err);
	*token = LK_JSON_KEY;
	j->expect = COLON;
	return read_text(j, err);
}

/* A byte-order mark at the beginning; texts in UTF-16 are told from damaged ones. */
static lk_status begin(lk_json *j, lk_error *err) {
	LK_TRY(need(j, &j->at, &j->at, 3, err));
	bool utf16 = j->end - j->at >= 2 && (memcmp(j->at, "\xff\xfe", 2) == 0 || memcmp(j->at, "\xfe\xff", 2) == 0);
	if (utf16) {
		wrong(j, j->at, err, "the text is UTF-16");
		return lk_hint(err, "convert it to UTF-8");
	}
	if (j->end - j->at >= 3 && memcmp(j->at, "\xef\xbb\xbf", 3) == 0) j->at += 3;
	return LK_OK;
}

/* What stands before a token by the state: a comma or colon is taken. *close is set where the token is an end. */
static lk_status punctuation(lk_json *j, bool *close, lk_error *err) {
	char c = *j->at;
	bool object = j->depth && j->kinds[j->depth - 1] == '{';
	*close = j->depth && j->expect != COLON && j->expect != VALUE && c == (object ? '}' : ']');
	if (*close || (j->expect != AFTER && j->expect != COLON)) return LK_OK;
	if (j->expect == AFTER && c != ',') return unexpected(j, j->at, object ? "',' or '}'" : "',' or ']'", err);
	if (j->expect == COLON && c != ':') return unexpected(j, j->at, "':'", err);
	j->expect = j->expect == AFTER && object ? FIRST_KEY : VALUE;
	j->at++;
	return skip_space(j, err);
}

static lk_status next_token(lk_json *j, lk_json_token *token, lk_error *err) {
	if (j->base == 0 && j->end == j->buffer) LK_TRY(begin(j, err));
	LK_TRY(skip_space(j, err));
	if (j->expect == DONE) {
		if (j->at < j->end) return unexpected(j, j->at, "the end of the document", err);
		*token = LK_JSON_END;
		return LK_OK;
	}
	bool close;
	LK_TRY(punctuation(j, &close, err));
	j->token_line = j->line;
	j->token_column = column_of(j, j->at);
	if (close) return pop(j, token);
	if (j->expect == FIRST_KEY) return read_key(j, token, err);
	return read_value(j, token, err);
}

lk_status lk_json_next(lk_json *json, lk_json_token *token, lk_error *err) {
	if (json->expect == FAILED) return lk_fail(err, LK_ERR_INPUT, lk_json_where(json), "stopped at an error before");
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
	if (token == LK_JSON_END || token == LK_JSON_OBJECT_END || token == LK_JSON_ARRAY_END || token == LK_JSON_KEY) {
		return lk_fail(err, LK_ERR_INTERNAL, lk_json_where(json), "no value to skip");
	}
	while (json->depth > depth) LK_TRY(lk_json_next(json, &token, err));
	return LK_OK;
}

const char *lk_json_where(const lk_json *json) {
	/* The reader itself is not constant: only its callers promise not to change it. */
	return place((lk_json *)json, json->token_line, json->token_column);
}

void lk_json_position(const lk_json *json, long long *line, long long *column) {
	*line = json->token_line;
	*column = json->token_column;
}
