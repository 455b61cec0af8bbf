/* text_format.c: numbers for people. Three significant digits, commas as thousands separators,
 * always with units. */
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
	double size;
	const char *name;
};

/* Replace the decimal point of the locale by '.': output is the same everywhere. */
static void plain_point(char *text) {
	for (; *text; text++) {
		if (*text == ',') *text = '.';
	}
}

/* At most three digits, four from 100 on with `tenths`; no trailing zeros: "1.8", "73.6", "405.9",
 * "812". */
static void digits_of(double number, bool tenths, char *out, size_t size) {
	double magnitude = fabs(number);
	int places;
	if (magnitude < 9.995) places = 2;
	else if (magnitude < 99.95 || tenths) places = 1;
	else places = 0;
	snprintf(out, size, "%.*f", places, number);
	plain_point(out);
	if (!strchr(out, '.')) return;
	size_t length = strlen(out);
	while (out[length - 1] == '0') length--;
	if (out[length - 1] == '.') length--;
	out[length] = '\0';
}

/* Write `number` in the largest of `units` (ascending, ends with size 0) in which it is at least
 * 1. */
static char *in_unit(double number, const struct unit *units, bool tenths, char *out, size_t size) {
	if (!isfinite(number)) {
		snprintf(out, size, "%s", isnan(number) ? "n/a" : number > 0 ? "infinite" : "-infinite");
		return out;
	}
	/* A number that rounds up to the next unit is shown in it: 999.96 ms is 1 s. */
	while (units[1].size > 0 && fabs(number) >= units[1].size * (1 - (tenths ? 0.00005 : 0.0005)))
		units++;
	char digits[352];
	digits_of(number / units->size, tenths, digits, sizeof digits);
	snprintf(out, size, "%s%s%s", strcmp(digits, "-0") ? digits : "0", *units->name ? " " : "",
	         units->name);
	return out;
}

/* The units, ascending, for a time of this size. */
static const struct unit *seconds_units(double seconds) {
	static const struct unit units[] = {{1e-12, "ps"}, {1e-9, "ns"}, {1e-6, "us"},
	                                    {1e-3, "ms"},  {1, "s"},     {0, ""}};
	static const struct unit minutes[] = {{60, "min"}, {0, ""}}, hours[] = {{3600, "h"}, {0, ""}};
	static const struct unit days[] = {{86400, "days"}, {0, ""}}, none[] = {{1, "s"}, {0, ""}};
	double magnitude = fabs(seconds);
	if (seconds == 0) return none;
	if (magnitude < 119.5) return units;
	if (magnitude < 7200) return minutes;
	return magnitude < 172800 ? hours : days;
}

char *lk_format_seconds(double seconds, char *out, size_t size) {
	return in_unit(seconds, seconds_units(seconds), false, out, size);
}

char *lk_format_seconds_like(double seconds, double like, char *out, size_t size) {
	const struct unit *units = seconds_units(like);
	while (units[1].size > 0 && fabs(like) >= units[1].size * (1 - 0.0005)) units++;
	const struct unit one[] = {*units, {0, ""}};
	return in_unit(seconds, one, false, out, size);
}

char *lk_format_bytes(double bytes, char *out, size_t size) {
	static const struct unit units[] = {{1, "B"},        {0x1p10, "KiB"}, {0x1p20, "MiB"},
	                                    {0x1p30, "GiB"}, {0x1p40, "TiB"}, {0x1p50, "PiB"},
	                                    {0, ""}};
	return in_unit(bytes, units, true, out, size);
}

char *lk_format_rate(double bytes_per_s, char *out, size_t size) {
	static const struct unit units[] = {{1, "B/s"},    {1e3, "kB/s"},  {1e6, "MB/s"},
	                                    {1e9, "GB/s"}, {1e12, "TB/s"}, {1e15, "PB/s"},
	                                    {0, ""}};
	return in_unit(bytes_per_s, units, true, out, size);
}

char *lk_format_count(double count, char *out, size_t size) {
	static const struct unit units[] = {{1, ""},     {1e3, "k"},  {1e6, "M"},  {1e9, "G"},
	                                    {1e12, "T"}, {1e15, "P"}, {1e18, "E"}, {0, ""}};
	return in_unit(count, units, true, out, size);
}

char *lk_format_energy(double kwh, char *out, size_t size) {
	static const struct unit units[] = {{1e-6, "mWh"}, {1e-3, "Wh"}, {1, "kWh"}, {1e3, "MWh"},
	                                    {1e6, "GWh"},  {1e9, "TWh"}, {0, ""}};
	return in_unit(kwh, units, true, out, size);
}

char *lk_format_mass(double kg, char *out, size_t size) {
	static const struct unit units[] = {{1e-6, "mg"}, {1e-3, "g"}, {1, "kg"},
	                                    {1e3, "t"},   {1e6, "kt"}, {0, ""}};
	return in_unit(kg, units, true, out, size);
}

char *lk_format_thousands(double count, char *out, size_t size) {
	if (!isfinite(count) || fabs(count) >= 1e18) return lk_format_count(count, out, size);
	long long whole = llround(count);
	char digits[32], grouped[48];
	snprintf(digits, sizeof digits, "%lld", llabs(whole));
	size_t length = strlen(digits), used = 0;
	if (whole < 0) grouped[used++] = '-';
	for (size_t i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0) grouped[used++] = ',';
		grouped[used++] = digits[i];
	}
	grouped[used] = '\0';
	lk_copy(out, size, grouped);
	return out;
}

char *lk_format_dollars(double dollars, char *out, size_t size) {
	char number[64];
	double magnitude = fabs(dollars);
	if (!(magnitude < 999.995)) lk_format_thousands(dollars, number, sizeof number);
	else {
		snprintf(number, sizeof number, "%.*f", magnitude > 0 && magnitude < 0.1 ? 4 : 2, dollars);
		plain_point(number);
	}
	snprintf(out, size, "$%s", number);
	return out;
}

char *lk_format_shortest(double number, char *out, size_t size) {
	if (fabs(number) <= 0x1p53 && number == floor(number) && !(number == 0 && signbit(number))) {
		snprintf(out, size, "%.0f", number);
		return out;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(out, size, "%.*g", digits, number);
		plain_point(out);
		const char *end;
		if (lk_read_real(out, &end) == number) break;
	}
	return out;
}
