/* text.c: copies, names, numbers that are read, escapes. What is written for people is in
 * text_format.c. */
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/text.h"

void lk_copy(char *out, size_t size, const char *text) {
	if (!size) return;
	size_t length = strnlen(text, size - 1);
	memmove(out, text, length);
	out[length] = '\0';
}

lk_text lk_text_begin(char *at, size_t size) {
	LK_ASSERT(at && size > 0);
	at[0] = '\0';
	return (lk_text){.at = at, .size = size};
}

void lk_text_add(lk_text *text, const char *format, ...) {
	LK_ASSERT(text->used < text->size);
	size_t room = text->size - text->used;
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(text->at + text->used, room, format, arguments);
	va_end(arguments);
	/* vsnprintf says how long the text would have been; negative where a wide character cannot be
	 * written */
	if (length > 0) text->used += (size_t)length < room ? (size_t)length : room - 1;
}

bool lk_text_full(const lk_text *text) {
	return text->used + 1 >= text->size;
}

static char text_lower(char c) {
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The next character of a name that counts, in lower case; '\0' at the end. */
static char next_of_name(const char **text) {
	while (**text == '-' || **text == '_' || **text == ' ' || **text == '.') (*text)++;
	char c = text_lower(**text);
	if (c) (*text)++;
	return c;
}

bool lk_same_name(const char *a, const char *b) {
	for (;;) {
		char x = next_of_name(&a), y = next_of_name(&b);
		if (x != y) return false;
		if (!x) return true;
	}
}

uint32_t lk_name_hash(uint32_t seed, const char *name) {
	for (char c; (c = next_of_name(&name)) != '\0';) seed = (seed ^ (unsigned char)c) * 16777619u;
	return seed;
}

bool lk_name_among(const char *names, const char *name) {
	size_t length = strlen(name);
	for (const char *at = names; length > 0 && (at = strstr(at, name)); at += length)
		if ((at == names || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
			return true;
	return false;
}

/* Where the decimal number at the start of `text` ends; `text` itself if there is none. */
static const char *end_of_number(const char *text) {
	const char *p = text + (*text == '-' || *text == '+');
	const char *digits = p;
	while (lk_is_digit(*p)) p++;
	size_t count = (size_t)(p - digits);
	if (*p == '.') {
		const char *fraction = ++p;
		while (lk_is_digit(*p)) p++;
		count += (size_t)(p - fraction);
	}
	if (!count) return text;
	if (*p == 'e' || *p == 'E') {
		const char *power = p + 1 + (p[1] == '-' || p[1] == '+');
		if (lk_is_digit(*power)) {
			while (lk_is_digit(*power)) power++;
			p = power;
		}
	}
	return p;
}

/* strtod reads the decimal point of the locale, which the program that uses the library may have
 * set. */
static double read_slowly(const char *text, size_t length) {
	const char *point = localeconv()->decimal_point;
	if (strcmp(point, ".") == 0 || !memchr(text, '.', length)) return strtod(text, NULL);
	size_t extra = strlen(point);
	char small[128], *copy = length + extra < sizeof small ? small : malloc(length + extra + 1);
	if (!copy) return NAN;
	size_t before = (size_t)((const char *)memchr(text, '.', length) - text);
	memcpy(copy, text, before);
	memcpy(copy + before, point, extra);
	memcpy(copy + before + extra, text + before + 1, length - before - 1);
	copy[length + extra - 1] = '\0';
	double number = strtod(copy, NULL);
	if (copy != small) free(copy);
	return number;
}

/* Exact in double up to 1e22, in the 64-bit significand of the x87 format up to 1e27. */
static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
enum { EXACT_POWER = 22, MANY_DIGITS = 19 };

/* whole * 10^power, correctly rounded; false where the fast ways below cannot promise that.
 * Up to 2^53 product and quotient of two exact doubles are rounded once (W. D. Clinger, "How to
 * read floating point numbers accurately", PLDI 1990). Larger ones (time stamps in microseconds
 * with three decimals have 19 digits) are computed with 64 bits; rounding these to 53 is right
 * unless the 11 dropped bits are within one of the half. */
static bool scale_exactly(uint64_t whole, int power, double *out) {
	if (power < -EXACT_POWER || power > EXACT_POWER) return false;
	double factor = powers[power < 0 ? -power : power];
	if (whole <= (uint64_t)1 << 53) {
		*out = power < 0 ? (double)whole / factor : (double)whole * factor;
		return true;
	}
#if LDBL_MANT_DIG == 64
	long double wide = power < 0 ? (long double)whole / factor : (long double)whole * factor;
	uint64_t significand;
	memcpy(&significand, &wide, sizeof significand);
	unsigned dropped = significand & 0x7ff;
	*out = (double)wide;
	/* All zero: exact, which is rare, or the machine has only 53 bits, as valgrind's. */
	return dropped != 0 && (dropped < 0x3ff || dropped > 0x401);
#else
	return false;
#endif
}

/* Reads the exponent at `p` (after the 'e'), added to *power. Returns its end, or NULL if it is
 * none or is long. */
static const char *read_power(const char *p, int *power) {
	bool negative = *p == '-';
	if (*p == '-' || *p == '+') p++;
	int number = 0, digits = 0;
	for (; lk_is_digit(*p) && digits < 5; p++, digits++) number = number * 10 + (*p - '0');
	if (!digits || lk_is_digit(*p)) return NULL;
	*power += negative ? -number : number;
	return p;
}

double lk_read_real(const char *text, const char **end) {
	const char *p = text;
	bool negative = *p == '-';
	if (*p == '-' || *p == '+') p++;
	const char *first = p;
	uint64_t whole = 0;
	while (lk_is_digit(*p)) whole = whole * 10 + (uint64_t)(*p++ - '0');
	ptrdiff_t digits = p - first, power = 0;
	if (*p == '.') {
		first = ++p;
		while (lk_is_digit(*p)) whole = whole * 10 + (uint64_t)(*p++ - '0');
		power = first - p;
		digits -= power;
	}
	if (digits >= 1 && digits <= MANY_DIGITS) {
		int scale = (int)power;
		double number;
		if (*p == 'e' || *p == 'E') p = read_power(p + 1, &scale);
		if (p && scale_exactly(whole, scale, &number)) {
			*end = p;
			return negative ? -number : number;
		}
	}
	*end = end_of_number(text);
	return *end == text ? 0 : read_slowly(text, (size_t)(*end - text));
}

/* ---- nearest names ---- */

enum { NAME_MAX_CHARS = 80 };

/* The characters of a name that count; false where it is too long to be compared. */
static bool text_plain_name(const char *text, char *out, int *length) {
	*length = 0;
	for (char c; (c = next_of_name(&text)) != 0;) {
		if (*length == NAME_MAX_CHARS) return false;
		out[(*length)++] = c;
	}
	return true;
}

static int least(int a, int b) {
	return a < b ? a : b;
}

/* Edit distance with exchange of neighbours as one step (optimal string alignment; F. J. Damerau,
 * CACM 7(3), 1964). */
static int text_distance(const char *a, int n, const char *b, int m) {
	int rows[3][NAME_MAX_CHARS + 1];
	for (int j = 0; j <= m; j++) rows[0][j] = j;
	for (int i = 1; i <= n; i++) {
		int *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
		row[0] = i;
		for (int j = 1; j <= m; j++) {
			row[j] = least(least(row[j - 1], above[j]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
			bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
			if (exchanged) row[j] = least(row[j], above2[j - 2] + 1);
		}
	}
	return rows[n % 3][m];
}

const char *lk_nearest(const char *text, const char *const *names, size_t count) {
	char wanted[NAME_MAX_CHARS], name[NAME_MAX_CHARS];
	int n, m;
	if (!text_plain_name(text, wanted, &n) || !n) return NULL;
	const char *best = NULL;
	int best_score = 0;
	for (size_t i = 0; i < count; i++) {
		if (!text_plain_name(names[i], name, &m) || !m) continue;
		int d = text_distance(wanted, n, name, m);
		bool prefix = n >= 2 && m >= n && memcmp(wanted, name, (size_t)n) == 0;
		/* Two slips in three letters are another word. */
		int longer = n > m ? n : m;
		bool near = d <= (n / 3 > 2 ? n / 3 : 2) && (d == 1 ? longer > 1 : 2 * d <= longer);
		/* Someone who typed the beginning of a name meant it, unless another name is one slip away.
		 */
		int score = prefix ? least(2 * d, 3) : 2 * d;
		if (!(near || prefix) || (best && score >= best_score)) continue;
		best = names[i];
		best_score = score;
	}
	return best;
}

/* Whether at most `most` letters were replaced, left out, added or exchanged with a neighbour. */
static bool text_within_slips(const char *a, const char *b, int most) {
	while (*a && *a == *b) a++, b++;
	if (*a == *b) return true;
	if (most == 0) return false;
	bool exchanged = *a && *b && a[0] == b[1] && a[1] == b[0];
	return (*a && *b && text_within_slips(a + 1, b + 1, most - 1)) ||
	       (*a && text_within_slips(a + 1, b, most - 1)) ||
	       (*b && text_within_slips(a, b + 1, most - 1)) ||
	       (exchanged && text_within_slips(a + 2, b + 2, most - 1));
}

bool lk_is_slip(const char *typed, const char *meant) {
	const char *dot = strrchr(meant, '.'), *part = dot ? dot + 1 : meant;
	bool below = strncmp(typed, meant, (size_t)(part - meant)) == 0;
	int most = below && strlen(part) >= 10 ? 2 : 1;
	return strcmp(typed, meant) != 0 && text_within_slips(typed, meant, most);
}

/* ---- UTF-8 and escapes ---- */

/* Well-formed sequences: The Unicode Standard, table 3-7 (no overlong forms, no surrogates, at most
 * U+10FFFF). */
size_t lk_utf8_length(const char *text, size_t size) {
	const unsigned char *p = (const unsigned char *)text;
	if (!size) return 0;
	if (p[0] < 0x80) return 1;
	size_t length;
	if (p[0] >= 0xf0) length = 4;
	else if (p[0] >= 0xe0) length = 3;
	else length = 2;
	if (p[0] < 0xc2 || p[0] > 0xf4 || size < length) return 0;
	unsigned char low;
	if (p[0] == 0xe0) low = 0xa0;
	else if (p[0] == 0xf0) low = 0x90;
	else low = 0x80;
	unsigned char high;
	if (p[0] == 0xed) high = 0x9f;
	else if (p[0] == 0xf4) high = 0x8f;
	else high = 0xbf;
	if (p[1] < low || p[1] > high) return 0;
	for (size_t i = 2; i < length; i++) {
		if ((p[i] & 0xc0) != 0x80) return 0;
	}
	return length;
}

size_t lk_unsafe_length(const char *text, size_t left) {
	size_t length = lk_utf8_length(text, left);
	const unsigned char *byte = (const unsigned char *)text;
	if (length == 0) return 1;
	if (length == 1) return byte[0] < 0x20 || byte[0] == 0x7f;
	if (length == 2) return byte[0] == 0xc2 && byte[1] < 0xa0 ? length : 0;
	if (length != 3 || byte[0] != 0xe2) return 0;
	return (byte[1] == 0x80 && byte[2] >= 0xa8 && byte[2] <= 0xae) ||
	               (byte[1] == 0x81 && byte[2] >= 0xa6 && byte[2] <= 0xa9)
	           ? length
	           : 0;
}

char *lk_escape(const char *text, char *out, size_t size) {
	if (!size) return out;
	size_t used = 0, left = strlen(text);
	while (left) {
		size_t unsafe = lk_unsafe_length(text, left);
		size_t taken = unsafe ? unsafe : lk_utf8_length(text, left);
		if (used + (unsafe ? 4 * taken : taken) >= size) break;
		for (size_t i = 0; i < unsafe; i++, used += 4)
			snprintf(out + used, size - used, "\\x%02x", (unsigned char)text[i]);
		if (!unsafe) {
			memcpy(out + used, text, taken);
			used += taken;
		}
		text += taken;
		left -= taken;
	}
	out[used] = '\0';
	return out;
}

bool lk_same_text(const char *a, const char *b) {
	return a == b || (a && b && strcmp(a, b) == 0);
}

const char *lk_file_name(const char *path) {
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

bool lk_ends_in(const char *text, const char *ending) {
	size_t length = strlen(text), part = strlen(ending);
	return length >= part && strcmp(text + length - part, ending) == 0;
}

/* What follows the first of `heads` with which a text begins, in any case; NULL: it begins with
 * none. */
static const char *text_after(const char *text, const char *const *heads) {
	for (; *heads; heads++)
		if (strncasecmp(text, *heads, strlen(*heads)) == 0) return text + strlen(*heads);
	return NULL;
}

bool lk_id_of_page(const char *text, char *out, size_t size) {
	static const char *const schemes[] = {"https://www.", "http://www.", "https://",
	                                      "http://",      "www.",        NULL};
	static const char *const hubs[] = {
		"huggingface.co/",       "hf.co/", "hf-mirror.com/", "hf://", "modelscope.cn/models/",
		"modelscope.ai/models/", NULL};
	static const char *const others[] = {"datasets/", "spaces/", "papers/", "docs/", "blog/", NULL};
	static const char *const places[] = {"tree/", "blob/", "resolve/", "raw/", NULL};
	static const char ends[] = "/?#";
	const char *after = text_after(text, schemes), *id = text_after(after ? after : text, hubs);
	if (!id || text_after(id, others)) return false;
	/* the first networks of the Hub have a name only: "gpt2/tree/main" */
	size_t length = strcspn(id, ends);
	const char *name = id[length] == '/' ? id + length + 1 : "";
	if (strcspn(name, ends) > 0 && !text_after(name, places)) length += 1 + strcspn(name, ends);
	if (length == 0 || length >= size) return false;
	snprintf(out, size, "%.*s", (int)length, id);
	return true;
}

bool lk_id_form(const char *text) {
	char id[LK_ID];
	const char *slash = strchr(text, '/');
	if (lk_id_of_page(text, id, sizeof id)) return true;
	return slash && slash > text && *text != '.' && slash[1] && !strchr(slash + 1, '/') &&
	       !lk_ends_in(text, ".json");
}
