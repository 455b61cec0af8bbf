/* picture.c: what charts are drawn of: scales, marks, texts, colours. Colours are those of the page
 * (data/web/report/report.css), for light paper. */
#include "view/report/picture.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "io/embedded.h"
#include "view/report/report.h"

/* ---- values ---- */

double lk_picture_number(const lk_value *value, const char *key) {
	const lk_value *member = lk_json_get(value, key);
	return member && member->kind == LK_JSON_NUMBER ? member->number : (double)NAN;
}

const char *lk_picture_words(const lk_value *value, const char *key) {
	const lk_value *member = lk_json_get(value, key);
	return member && member->kind == LK_JSON_STRING ? member->text : "";
}

char *lk_picture_quantity(double number, const char *unit, char *out, size_t size) {
	if (strcmp(unit, "s") == 0) return lk_format_seconds(number, out, size);
	if (strcmp(unit, "bytes") == 0 || strcmp(unit, "B") == 0)
		return lk_format_bytes(number, out, size);
	if (strcmp(unit, "%") == 0) return lk_percent(number, out, size);
	if (fabs(number) >= 1e-3 && fabs(number) < 1000) {
		snprintf(out, size, "%.4g", number);
		for (char *at = out; *at; at++)
			if (*at == ',') *at = '.';
	} else lk_format_count(number, out, size);
	return out;
}

int lk_picture_at(const lk_picture_scale *scale, double value) {
	double range = scale->high > scale->low ? scale->high - scale->low : 1;
	double place = scale->log ? log10(value) : value;
	double way = (place - scale->low) / range;
	if (!(way > -1)) way = -1; /* and what is no number */
	if (way > 2) way = 2;
	return (int)lround(scale->from + way * (scale->to - scale->from));
}

int lk_picture_ticks(double low, double high, int wished, bool bytes, double at[LK_PICTURE_TICKS]) {
	static const double steps[] = {1, 2, 2.5, 5, 10};
	LK_ASSERT(wished > 0);
	double unit = bytes && high >= 1 ? pow(1024, floor(log2(high) / 10)) : 1;
	double span = (high - low) / unit;
	if (!(span > 0) || !isfinite(span)) return 0;
	double rough = span / wished, power = pow(10, floor(log10(rough))), step = 10 * power;
	for (int i = 4; i >= 0; i--)
		if (steps[i] * power >= rough * .999) step = steps[i] * power;
	int count = 0;
	for (double i = ceil(low / unit / step - 1e-9);
	     i * step <= high / unit + step * 1e-9 && count < LK_PICTURE_TICKS; i++)
		at[count++] = i * step * unit;
	return count;
}

/* ---- colours ---- */

/* In a style sheet: the rule whose selectors have the class, its --k, and what that variable is
 * first set to. */
static bool picture_find_colour(const char *css, const char *class, char out[8]) {
	size_t length = strlen(class);
	for (const char *at = css; (at = strstr(at, class)); at += length) {
		if (at[length] != ' ' && at[length] != ',') continue;
		char variable[48];
		const char *rule = strchr(at, '{');
		if (!rule || sscanf(rule, "{ --k: var(%45[a-z_-])", variable) != 1) continue;
		strcat(variable, ":");
		const char *set = strstr(css, variable);
		return set && sscanf(set + strlen(variable), " %7[#0-9a-f]", out) == 1;
	}
	return false;
}

void lk_picture_colour(const char *prefix, const char *key, char out[8]) {
	const char *css = lk_data_file("web/report/report.css", NULL);
	char class[80];
	snprintf(class, sizeof class, ".%s-%.60s", prefix, key);
	if (!css || !picture_find_colour(css, class, out)) strcpy(out, "#5a6676");
}

/* ---- marks ---- */

void lk_picture_rect(lk_picture *picture, int x, int y, int width, int height, const char *colour) {
	fprintf(picture->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", x,
	        y, width > 5 ? width : 5, height, colour);
}

void lk_picture_line(lk_picture *picture, int x1, int y1, int x2, int y2, const char *style) {
	fprintf(picture->out, "<path class=\"%s\" d=\"M%d %dL%d %d\"/>\n", style, x1, y1, x2, y2);
}

void lk_picture_text(lk_picture *picture, int x, int y, const char *anchor, const char *style,
                     const char *text, int most) {
	fprintf(picture->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor,
	        style);
	lk_plot_put_text(picture->out, text, most);
	fputs("</text>\n", picture->out);
}

void lk_picture_legend(lk_picture *picture, const lk_picture_entry *entries, size_t count) {
	int x = LK_PICTURE_LEFT;
	for (size_t i = 0; i < count; i++) {
		int width = 350;
		for (const char *at = entries[i].name; *at; at++)
			if ((*at & 0xc0) != 0x80) width += 68; /* a character of UTF-8 */
		if (i && x + width > LK_PICTURE_RIGHT) {
			x = LK_PICTURE_LEFT;
			picture->y += 190;
		}
		lk_picture_rect(picture, x, picture->y + 30, 100, 100, entries[i].colour);
		lk_picture_text(picture, x + 150, picture->y + 125, "start", "soft", entries[i].name, 110);
		x += width;
	}
	picture->y += 240;
}
