/* measured_value.c: numbers of logs with their units, clocks and dates. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "measured/measured_internal.h"

static bool is_letter(char c) {
	return lk_lower(c) >= 'a' && lk_lower(c) <= 'z';
}

/* ---- units ---- */

/* The scale of the unit that begins `text`, 1 without one; *end after it. */
static double said_unit(const char *text, const char **end) {
	static const struct {
		const char *name;
		double scale;
	} units[] = {{"s", 1},        {"sec", 1},  {"seconds", 1},  {"ms", 1e-3},  {"us", 1e-6},
	             {"min", 60},     {"h", 3600}, {"GiB", 0x1p30}, {"GB", 1e9},   {"G", 1e9},
	             {"MiB", 0x1p20}, {"MB", 1e6}, {"M", 1e6},      {"KiB", 1024}, {"TiB", 0x1p40},
	             {"bytes", 1},    {"B", 1},    {"K", 1e3},      {"T", 1e12}};
	const char *word = text + strspn(text, " ");
	size_t length = 0;
	while (is_letter(word[length])) length++;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		if (strlen(units[i].name) != length || strncmp(word, units[i].name, length) != 0) continue;
		*end = word + length;
		return units[i].scale;
	}
	*end = text;
	return 1;
}

/* "23.2K": the factor of a suffix of thousands that no other letter follows. */
static double thousands_suffix(const char *text, const char **end) {
	static const char suffixes[] = "KMGBT";
	static const double factors[] = {1e3, 1e6, 1e9, 1e9, 1e12};
	const char *found = *text ? strchr(suffixes, *text) : NULL;
	*end = text;
	if (!found || is_letter(text[1])) return 1;
	*end = text + 1;
	return factors[found - suffixes];
}

double lk_key_value(const lk_measured_key *key, const char *text, const char **end) {
	if (key->scale == LK_UNIT_CLOCK) return lk_read_clock(text, end);
	double number = lk_read_number(text, end);
	if (*end == text) return NAN;
	if (key->scale == LK_UNIT_SAID) return number * said_unit(*end, end);
	return number * thousands_suffix(*end, end) * key->scale;
}

/* ---- clocks and dates ---- */

/* Parts of "1:02:03.5" after its first number. */
static double clock_digits(double first, const char *text, const char **end) {
	double seconds = first;
	for (*end = text; **end == ':' && lk_is_digit((*end)[1]);)
		seconds = seconds * 60 + lk_read_real(*end + 1, end);
	return seconds;
}

/* Seconds of "d", "h", "m" and "s"; 0 of others. */
static double clock_unit(char letter) {
	static const char letters[] = "dhms";
	static const double seconds[] = {86400, 3600, 60, 1};
	const char *found = letter ? strchr(letters, letter) : NULL;
	return found ? seconds[found - letters] : 0;
}

double lk_read_clock(const char *text, const char **end) {
	double seconds = 0, first = lk_read_real(text, end);
	if (*end == text) return NAN;
	if (**end == ':') return clock_digits(first, *end, end);
	const char *at = text;
	while (lk_is_digit(*at)) {
		double number = lk_read_real(at, &at);
		const char *unit = at + strspn(at, " ");
		double scale = clock_unit(*unit);
		if (scale == 0) return *at == ':' ? seconds + clock_digits(number, at, end) : first;
		seconds += number * scale;
		while (is_letter(*unit) || *unit == ',') unit++;
		*end = unit;
		at = unit + strspn(unit, " ");
	}
	return seconds;
}

/* Days from 1970-01-01 to a date of the Gregorian calendar (Howard Hinnant, "chrono-Compatible
 * Low-Level Date Algorithms"). */
static double days_of_date(int year, int month, int day) {
	year -= month <= 2;
	int era = (year >= 0 ? year : year - 399) / 400, year_of_era = year - era * 400;
	int day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
	int day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
	return era * 146097.0 + day_of_era - 719468;
}

/* `digits` digits at *at, which moves on; -1: they are not there, or others follow. */
static int fixed_digits(const char **at, int digits) {
	int number = 0;
	for (int i = 0; i < digits; i++) {
		if (!lk_is_digit((*at)[i])) return -1;
		number = number * 10 + (*at)[i] - '0';
	}
	if (lk_is_digit((*at)[digits])) return -1;
	*at += digits;
	return number;
}

static bool after(const char **at, const char *among) {
	if (!**at || !strchr(among, **at)) return false;
	*at += 1;
	return true;
}

static double read_date(const char **at) {
	int first, second, third;
	const char *begin = *at;
	first = fixed_digits(at, 4);
	if (first > 0 && after(at, "-/") && (second = fixed_digits(at, 2)) > 0 && after(at, "-/") &&
	    (third = fixed_digits(at, 2)) > 0 && second <= 12)
		return days_of_date(first, second, third);
	*at = begin;
	first = fixed_digits(at, 2);
	if (first > 0 && after(at, "/") && (second = fixed_digits(at, 2)) > 0 && after(at, "/") &&
	    (third = fixed_digits(at, 4)) > 0 && first <= 12)
		return days_of_date(third, first, second);
	*at = begin;
	return NAN;
}

static double read_time_of_day(const char *at) {
	int hour = fixed_digits(&at, 2), minute = -1, second = -1;
	if (hour >= 0 && after(&at, ":")) minute = fixed_digits(&at, 2);
	if (minute >= 0 && after(&at, ":")) second = fixed_digits(&at, 2);
	if (second < 0) return NAN;
	double seconds = hour * 3600.0 + minute * 60.0 + second, part = 0.1;
	if (!after(&at, ".,")) return seconds;
	for (; lk_is_digit(*at); at++, part /= 10) seconds += (*at - '0') * part;
	return seconds;
}

double lk_read_stamp(const char *line) {
	enum { PREFIX = 96 };
	for (int i = 0; i < PREFIX && line[i]; i++) {
		if (!lk_is_digit(line[i]) || (i > 0 && lk_is_digit(line[i - 1]))) continue;
		const char *at = line + i;
		double days = read_date(&at);
		if (isnan(days) || !after(&at, " T")) continue;
		double seconds = read_time_of_day(at);
		if (!isnan(seconds)) return days * 86400 + seconds;
	}
	return NAN;
}
