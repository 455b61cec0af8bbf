/* kineto_number.c: values of a JSON trace in the window: whole numbers, times, texts, lists. */
#include "trace/kineto/kineto_internal.h"

#include <math.h>
#include "base/text.h"

static int64_t clamped(double x, double most) {
	if (x > most) return (int64_t)most;
	if (x < -most) return -(int64_t)most;
	return (int64_t)x;
}

/* Numbers with an exponent, or more digits than fit into 64 bits. */
static double slowly(lk_slice slice) {
	char text[64];
	size_t length = slice.length < sizeof text - 1 ? slice.length : sizeof text - 1;
	memcpy(text, slice.at, length);
	text[length] = '\0';
	const char *end;
	double value = lk_read_real(text, &end);
	return isnan(value) ? 0 : value;
}

int64_t lk_slice_whole(lk_slice slice) {
	const char *p = slice.at, *end = p + slice.length;
	bool negative = p < end && *p == '-';
	p += negative;
	if (p == end || !lk_is_digit(*p)) return LK_UNSAID;
	const char *first = p;
	uint64_t value = 0; /* 19 digits fit */
	while (p < end && lk_is_digit(*p) && p - first < 19)
		value = value * 10 + (uint64_t)(*p++ - '0');
	bool more = p < end && (lk_is_digit(*p) || *p == 'e' || *p == 'E');
	if (p < end && *p == '.') {
		while (++p < end && lk_is_digit(*p)) {
		}
		more = p < end && (*p == 'e' || *p == 'E');
	}
	if (more) return clamped(slowly(slice), 9.2e18);
	if (value > INT64_MAX) value = INT64_MAX;
	return negative ? -(int64_t)value : (int64_t)value;
}

/* A double resolves 1.7e15 us only to a quarter of a microsecond, so the digits are read one by
 * one. */
int64_t lk_slice_nanoseconds(lk_slice slice) {
	const char *p = slice.at, *end = p + slice.length;
	bool negative = p < end && *p == '-';
	p += negative;
	const char *first = p;
	int64_t ns = 0;
	while (p < end && lk_is_digit(*p) && p - first < 16) ns = ns * 10 + (*p++ - '0');
	if (ns > LK_MOST_NS / 1000) return negative ? -LK_MOST_NS : LK_MOST_NS;
	ns *= 1000;
	if (p < end && *p == '.') {
		int64_t unit = 100;
		for (p++; p < end && lk_is_digit(*p); p++, unit /= 10) {
			if (unit == 0) {
				ns += *p >= '5';
				break;
			}
			ns += (*p - '0') * unit;
		}
		while (p < end && lk_is_digit(*p)) p++;
	}
	if (p < end) return clamped(round(slowly(slice) * 1000), (double)LK_MOST_NS);
	return negative ? -ns : ns;
}

/* ---- texts ---- */

static int number_hex(const char *p, const char *end) {
	int value = 0;
	if (end - p < 4) return -1;
	for (int i = 0; i < 4; i++) {
		char c = (char)(p[i] | 0x20);
		if (!lk_is_digit(p[i]) && (c < 'a' || c > 'f')) return -1;
		value = value * 16 + (lk_is_digit(p[i]) ? p[i] - '0' : c - 'a' + 10);
	}
	return value;
}

/* The code point of the escape \uXXXX whose digits begin at *at, with the second half of a pair. */
static uint32_t number_code_point(const char **at, const char *end) {
	int high = number_hex(*at, end);
	if (high < 0) return 0xfffd;
	*at += 4;
	if (high < 0xd800 || high > 0xdfff) return high ? (uint32_t)high : 0xfffd;
	if (high > 0xdbff || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u') return 0xfffd;
	int low = number_hex(*at + 2, end);
	if (low < 0xdc00 || low > 0xdfff) return 0xfffd;
	*at += 6;
	return 0x10000 + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
}

static size_t number_put_utf8(uint32_t c, char out[4]) {
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	size_t more;
	if (c < 0x800) more = 1;
	else if (c < 0x10000) more = 2;
	else more = 3;
	static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
	out[0] = (char)(lead[more] | c >> 6 * more);
	for (size_t i = 1; i <= more; i++) out[i] = (char)(0x80 | (c >> 6 * (more - i) & 0x3f));
	return more + 1;
}

static char escaped(char c) {
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *at = memchr(from, c, 5);
	return at ? to[at - from] : c;
}

size_t lk_slice_text(lk_slice slice, char *out, size_t size) {
	size_t used = 0;
	for (const char *p = slice.at, *end = p + slice.length; p < end;) {
		char bytes[4] = {*p++};
		size_t n = 1;
		if (bytes[0] == '\\' && p < end) {
			bytes[0] = *p++;
			if (bytes[0] == 'u') n = number_put_utf8(number_code_point(&p, end), bytes);
			else bytes[0] = escaped(bytes[0]);
		}
		if (n == 1 && bytes[0] == '\0') n = number_put_utf8(0xfffd, bytes);
		if (used + n >= size) break;
		memcpy(out + used, bytes, n);
		used += n;
	}
	out[used] = '\0';
	return used;
}

/* Copy a text inside a list, without its quotes; returns where it ends. */
static const char *compact_text(const char *p, const char *end, char *out, size_t *used) {
	for (; p < end && *p != '"'; p++) {
		if (*p == '\\' && p + 1 < end) out[(*used)++] = escaped(*++p);
		else out[(*used)++] = *p ? *p : ' ';
	}
	return p;
}

size_t lk_slice_compact(lk_slice slice, char *out, size_t size) {
	size_t used = 0;
	if (slice.length >= size) return SIZE_MAX;
	for (const char *p = slice.at, *end = p + slice.length; p < end; p++) {
		if (*p == '"') {
			p = compact_text(p + 1, end, out, &used);
			continue;
		}
		/* Every byte is stored; white space is then overwritten. '{' and '}' are '[' and ']' with
		 * one more bit. */
		out[used] = *p > 'z' ? (char)(*p & ~0x20) : *p;
		used += (unsigned char)*p > ' ';
	}
	out[used] = '\0';
	return used;
}
