/* text_numbers.c: strict numbers from people: the whole text must be a number, within limits. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

lk_status lk_parse_int(const char *text, long long low, long long high, long long *out,
                       const char *where, lk_error *err) {
	const char *p = text + (*text == '-' || *text == '+');
	size_t digits = strspn(p, "0123456789");
	char shown[64];
	lk_copy(shown, sizeof shown, text);
	errno = 0;
	long long number = digits ? strtoll(text, NULL, 10) : 0;
	if (!digits || p[digits]) {
		lk_fail(err, LK_ERR_INPUT, where, "\"%s\" is not a whole number", shown);
	} else if (errno || number < low || number > high) {
		lk_fail(err, LK_ERR_INPUT, where, "%s is out of range", shown);
	} else {
		*out = number;
		return LK_OK;
	}
	if (low > INT64_MIN && high < INT64_MAX)
		lk_hint(err, "give a whole number from %lld to %lld", low, high);
	else if (low > INT64_MIN) lk_hint(err, "give a whole number of at least %lld", low);
	else if (high < INT64_MAX) lk_hint(err, "give a whole number of at most %lld", high);
	else lk_hint(err, "give a whole number such as 8");
	return LK_ERR_INPUT;
}

/* Check the limits of a number and store it; the message states them. */
static lk_status text_within(const char *text, double number, double low, double high, double *out,
                             const char *where, lk_error *err) {
	if (number >= low && number <= high && isfinite(number)) {
		*out = number;
		return LK_OK;
	}
	char shown[64];
	lk_copy(shown, sizeof shown, text);
	lk_fail(err, LK_ERR_INPUT, where, "%s is out of range", shown);
	if (isfinite(low) && isfinite(high))
		return lk_hint(err, "give a number from %.12g to %.12g", low, high);
	if (isfinite(low)) return lk_hint(err, "give a number of at least %.12g", low);
	if (isfinite(high)) return lk_hint(err, "give a number of at most %.12g", high);
	return lk_hint(err, "give a number that is not infinite");
}

static lk_status no_number(const char *text, const char *hint, const char *where, lk_error *err) {
	char shown[64];
	lk_copy(shown, sizeof shown, text);
	lk_fail(err, LK_ERR_INPUT, where, "\"%s\" is not a number", shown);
	return lk_hint(err, "%s", hint);
}

lk_status lk_parse_real(const char *text, double low, double high, double *out, const char *where,
                        lk_error *err) {
	const char *end;
	double number = lk_read_real(text, &end);
	if (end == text || *end)
		return no_number(text, "give a number such as 0.5 or 1e-3", where, err);
	return text_within(text, number, low, high, out, where, err);
}

/* The factor of the suffix `text`; 0 if there is no such suffix. */
static double suffix_factor(const char *text) {
	static const struct {
		const char *text;
		double factor;
	} suffixes[] = {{"", 1},        {"k", 1e3},     {"K", 1e3},     {"M", 1e6},    {"m", 1e6},
	                {"G", 1e9},     {"B", 1e9},     {"b", 1e9},     {"T", 1e12},   {"t", 1e12},
	                {"Ki", 0x1p10}, {"ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}};
	for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
		if (strcmp(text, suffixes[i].text) == 0) return suffixes[i].factor;
	}
	return 0;
}

/* Turn "100,000" into "100000" if three digits follow every comma; else return the text itself. */
static const char *without_commas(const char *text, char *out, size_t size) {
	const char *at = text + (*text == '-' || *text == '+');
	size_t digits = strspn(at, "0123456789"), used = (size_t)(at - text) + digits;
	if (digits < 1 || digits > 3 || at[digits] != ',' || strlen(text) >= size) return text;
	memcpy(out, text, used);
	for (at += digits; *at == ','; at += 4, used += 3) {
		if (strspn(at + 1, "0123456789") != 3) return text;
		memcpy(out + used, at + 1, 3);
	}
	lk_copy(out + used, size - used, at);
	return out;
}

/* The number at the start of `text` and the factor of the suffix after it; 0: neither. */
static double read_suffixed(const char *text, double *number) {
	char plain[64];
	const char *end, *digits = without_commas(text, plain, sizeof plain);
	*number = lk_read_real(digits, &end);
	return end == digits ? 0 : suffix_factor(end + strspn(end, " "));
}

lk_status lk_parse_count(const char *text, double low, double high, double *out, const char *where,
                         lk_error *err) {
	double number, factor = read_suffixed(text, &number);
	if (factor == 0)
		return no_number(text, "give a number such as 4096, 1.5k, 64Ki or 15T", where, err);
	return text_within(text, number * factor, low, high, out, where, err);
}

lk_status lk_parse_whole(const char *text, long long low, long long high, long long *out,
                         const char *where, lk_error *err) {
	double number, factor = read_suffixed(text, &number), whole = number * factor;
	char digits[32];
	bool counted = factor > 0 && whole == floor(whole) && fabs(whole) < 0x1p53;
	if (counted) snprintf(digits, sizeof digits, "%.0f", whole);
	return lk_parse_int(counted ? digits : text, low, high, out, where, err);
}

lk_status lk_parse_dollars(const char *text, double low, double high, double *out,
                           const char *where, lk_error *err) {
	double number, factor = read_suffixed(text + (*text == '$'), &number);
	if (factor == 0) {
		char shown[64];
		lk_copy(shown, sizeof shown, text);
		lk_fail(err, LK_ERR_INPUT, where, "\"%s\" is not an amount of US dollars", shown);
		return lk_hint(err, "give one such as 5000, $20k or $1.5M");
	}
	return text_within(text, number * factor, low, high, out, where, err);
}

/* Seconds of the unit whose name has `length` letters; 0 if there is no such unit. */
static double duration_unit(const char *name, size_t length) {
	static const struct {
		double seconds;
		const char *names;
	} units[] = {{1, "s sec secs second seconds"},
	             {60, "m min mins minute minutes"},
	             {3600, "h hr hrs hour hours"},
	             {86400, "d day days"},
	             {604800, "w wk week weeks"}};
	char word[16];
	if (length >= sizeof word) return 0;
	lk_copy(word, length + 1, name);
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (lk_name_among(units[i].names, word)) return units[i].seconds;
	return 0;
}

static lk_status no_duration(const char *text, const char *where, lk_error *err) {
	char shown[64];
	lk_copy(shown, sizeof shown, text);
	lk_fail(err, LK_ERR_INPUT, where, "\"%s\" is not a time", shown);
	return lk_hint(err, "give a number, or one with its unit: 90s, 30 min, 336h, 14d, 2 weeks");
}

lk_status lk_parse_duration(const char *text, double unit_s, double low, double high, double *out,
                            const char *where, lk_error *err) {
	double sum = 0;
	const char *at = text, *end;
	do {
		double number = lk_read_real(at, &end);
		const char *name = end + strspn(end, " ");
		size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz");
		bool bare = at == text && !*end;
		double seconds = bare ? unit_s : duration_unit(name, length);
		if (end == at || seconds == 0 || (at != text && number < 0))
			return no_duration(text, where, err);
		sum += number * (seconds / unit_s);
		at = bare ? end : name + length;
		at += strspn(at, " ");
	} while (*at);
	return text_within(text, sum, low, high, out, where, err);
}

lk_status lk_not_understood(const char *where, const char *text, const char *hint, lk_error *err) {
	char shown[64];
	lk_fail(err, LK_ERR_INPUT, where, "'%s' is not understood",
	        lk_escape(text, shown, sizeof shown));
	return lk_hint(err, "%s", hint);
}

lk_status lk_parse_bool(const char *text, bool *out, const char *where, lk_error *err) {
	static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (!lk_same_name(text, words[i])) continue;
		*out = i % 2;
		return LK_OK;
	}
	char shown[64];
	lk_copy(shown, sizeof shown, text);
	lk_fail(err, LK_ERR_INPUT, where, "\"%s\" is neither true nor false", shown);
	return lk_hint(err, "give true or false");
}

double lk_days_since(const char *date) {
	int year, month, day, used = 0;
	if (strlen(date) != 10 || sscanf(date, "%4d-%2d-%2d%n", &year, &month, &day, &used) != 3 ||
	    used != 10)
		return NAN;
	struct tm then = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
	time_t begin = timegm(&then);
	/* timegm turns a 31st of February into a day of March */
	if (then.tm_mon != month - 1 || then.tm_mday != day) return NAN;
	return floor(difftime(time(NULL), begin) / 86400);
}
