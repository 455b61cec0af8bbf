/* picture_panels.c: the kinds of charts, each as the page's script draws it
 * (data/web/report/30-bars.js, 40-gantt.js, 50-scatter.js; docs/reference/report.md has their
 * keys). */
#include "view/report/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/noun.h"
#include "base/sort.h"
#include "view/report/report.h"

enum {
	ROW = 220,
	STEP = 280,
	NAMES = 2500,   /* where bars begin, right of their names */
	BARS = 8200,    /* where the longest ends */
	MOST_ROWS = 64, /* of a chart */
	RANGE_ROWS = 8,
	MOST_LEGEND = 64, /* entries */
	PLOT = 3600,      /* height of a scatter */
	PLOT_LEFT = 1000,
};

static const lk_value *chart_items(const lk_value *panel, const char *key, size_t *count) {
	const lk_value *items = lk_json_get(panel, key);
	*count = items && items->kind == LK_JSON_ARRAY ? items->count : 0;
	return *count ? items->items : NULL;
}

static double chart_element(const lk_value *list, size_t i) {
	return list && list->kind == LK_JSON_ARRAY && i < list->count &&
	               list->items[i].kind == LK_JSON_NUMBER
	           ? list->items[i].number
	           : (double)NAN;
}

static void chart_rest(lk_picture *picture, size_t count) {
	char words[64];
	if (count <= MOST_ROWS) return;
	snprintf(words, sizeof words, "and %zu more", count - MOST_ROWS);
	lk_picture_text(picture, LK_PICTURE_LEFT, picture->y + 150, "start", "soft", words, 60);
	picture->y += STEP;
}

/* Lines and texts of a horizontal axis below `rows` rows. */
static void chart_axis(lk_picture *picture, const lk_picture_scale *x, int rows, const char *unit) {
	double at[LK_PICTURE_TICKS];
	bool bytes = strcmp(unit, "bytes") == 0;
	int count = lk_picture_ticks(x->low, x->high, 6, bytes, at), foot = picture->y + rows * STEP;
	for (int i = 0; i < count; i++) {
		char words[32];
		int here = lk_picture_at(x, at[i]);
		lk_picture_line(picture, here, picture->y, here, foot, "grid");
		lk_picture_text(picture, here, foot + 170, "middle", "soft",
		                lk_picture_quantity(at[i], unit, words, sizeof words), 20);
	}
}

static void chart_name(lk_picture *picture, int y, const char *style, const char *name) {
	lk_picture_text(picture, NAMES - 100, y + 160, "end", style, name, 34);
}

/* ---- rows of stacked bars: "bars", "memory" ---- */

static double chart_sum(const lk_value *values) {
	double sum = 0;
	for (size_t k = 0; values && k < values->count; k++)
		if (chart_element(values, k) > 0) sum += values->items[k].number;
	return sum;
}

static void chart_stack(lk_picture *picture, const lk_picture_scale *x, const lk_value *values,
                        const lk_value *parts, size_t part_count) {
	double sum = 0;
	for (size_t k = 0; k < part_count; k++) {
		double value = chart_element(values, k);
		if (!(value > 0)) continue;
		char colour[8];
		lk_picture_colour("ls-k", lk_picture_words(&parts[k], "key"), colour);
		int from = lk_picture_at(x, sum), to = lk_picture_at(x, sum + value);
		lk_picture_rect(picture, from, picture->y + 30, to - from, ROW, colour);
		sum += value;
	}
}

static void draw_stacks(lk_picture *picture, const lk_value *panel, const char *unit) {
	size_t count, part_count, used = 0;
	const lk_value *rows = chart_items(panel, "rows", &count),
				   *parts = chart_items(panel, "parts", &part_count);
	double limit = lk_picture_number(panel, "limit"), most = limit > 0 ? limit : 0;
	lk_picture_entry legend[MOST_LEGEND];
	for (size_t i = 0; i < count; i++)
		most = fmax(most, chart_sum(lk_json_get(&rows[i], "values")));
	for (size_t k = 0; k < part_count && used < MOST_LEGEND; k++) {
		bool shown = false;
		for (size_t i = 0; i < count; i++)
			shown |= chart_element(lk_json_get(&rows[i], "values"), k) > 0;
		if (!shown) continue;
		lk_picture_colour("ls-k", lk_picture_words(&parts[k], "key"), legend[used].colour);
		legend[used++].name = lk_picture_words(&parts[k], "label");
	}
	lk_picture_legend(picture, legend, used);
	int shown = count < MOST_ROWS ? (int)count : MOST_ROWS, top = picture->y;
	lk_picture_scale x = {0, most * 1.02, false, NAMES, BARS};
	chart_axis(picture, &x, shown, unit);
	for (int i = 0; i < shown; i++, picture->y += STEP) {
		const lk_value *values = lk_json_get(&rows[i], "values");
		const char *mark = lk_picture_words(&rows[i], "mark");
		double sum = chart_sum(values);
		char words[96], number[32];
		chart_name(picture, picture->y + 10, *mark ? "strong" : "",
		           lk_picture_words(&rows[i], "name"));
		chart_stack(picture, &x, values, parts, part_count);
		snprintf(words, sizeof words, "%s%s%.40s",
		         lk_picture_quantity(sum, unit, number, sizeof number), *mark ? "  " : "", mark);
		lk_picture_text(picture, lk_picture_at(&x, sum) + 60, picture->y + 180, "start",
		                sum > limit ? "soft bad" : "soft", words, 40);
	}
	if (limit > 0) {
		int here = lk_picture_at(&x, limit);
		lk_picture_line(picture, here, top, here, picture->y, "limit");
	}
	picture->y += 240;
	chart_rest(picture, count);
}

static void draw_bars(lk_picture *picture, const lk_value *panel) {
	draw_stacks(picture, panel, lk_picture_words(panel, "unit"));
}

static void draw_memory(lk_picture *picture, const lk_value *panel) {
	draw_stacks(picture, panel, "bytes");
}

/* ---- waterfall ---- */

/* Where a step's bar begins and ends; `at`: the end of the one before. */
static void chart_fall(const lk_value *step, double *at, double *from, double *to) {
	const lk_value *total = lk_json_get(step, "total");
	double value = lk_picture_number(step, "value");
	double begin = total && total->kind == LK_JSON_TRUE ? 0 : *at;
	*at = begin + (value == value ? value : 0);
	*from = fmin(begin, *at);
	*to = fmax(begin, *at);
}

static void draw_waterfall(lk_picture *picture, const lk_value *panel) {
	size_t count;
	const lk_value *steps = chart_items(panel, "steps", &count);
	const char *unit = *lk_picture_words(panel, "unit") ? lk_picture_words(panel, "unit") : "s";
	double at = 0, from, to, most = 0;
	for (size_t i = 0; i < count; i++)
		chart_fall(&steps[i], &at, &from, &to), most = fmax(most, to);
	lk_picture_scale x = {0, most * 1.02, false, NAMES, BARS};
	chart_axis(picture, &x, (int)count, unit);
	at = 0;
	for (size_t i = 0; i < count; i++, picture->y += STEP) {
		char colour[8], number[32];
		chart_fall(&steps[i], &at, &from, &to);
		lk_picture_colour("ls-k", lk_picture_words(&steps[i], "key"), colour);
		chart_name(picture, picture->y + 10, "", lk_picture_words(&steps[i], "label"));
		int begin = lk_picture_at(&x, from);
		lk_picture_rect(picture, begin, picture->y + 30, lk_picture_at(&x, to) - begin, ROW,
		                colour);
		lk_picture_text(
			picture, lk_picture_at(&x, to) + 60, picture->y + 180, "start", "soft",
			lk_picture_quantity(lk_picture_number(&steps[i], "value"), unit, number, sizeof number),
			30);
	}
	picture->y += 240;
}

/* ---- tornado ---- */

struct swing {
	const lk_value *row;
	double span;
};

static int swing_wider_first(const void *a, const void *b) {
	const struct swing *one = a, *other = b;
	return (one->span < other->span) - (one->span > other->span);
}

static void draw_tornado(lk_picture *picture, const lk_value *panel) {
	size_t count;
	const lk_value *rows = chart_items(panel, "rows", &count);
	const char *unit = *lk_picture_words(panel, "unit") ? lk_picture_words(panel, "unit") : "s";
	static const char *const ends[] = {"low", "high"};
	double base = lk_picture_number(panel, "base"), least = base, most = base;
	struct swing swings[MOST_ROWS] = {{0}};
	int shown = 0;
	for (size_t i = 0; i < count && shown < MOST_ROWS; i++) {
		double span = -1;
		for (int k = 0; k < 2; k++) {
			double end = lk_picture_number(&rows[i], ends[k]);
			least = fmin(least, end);
			most = fmax(most, end);
			span = fmax(span, fabs(end - base));
		}
		if (span >= 0) swings[shown++] = (struct swing){&rows[i], span};
	}
	lk_sort(swings, (size_t)shown, sizeof *swings, swing_wider_first);
	double pad = .12 * (most - least);
	lk_picture_scale x = {least - pad, most + pad, false, NAMES, BARS};
	int top = picture->y;
	chart_axis(picture, &x, shown, unit);
	for (int i = 0; i < shown; i++, picture->y += STEP) {
		chart_name(picture, picture->y + 10, "", lk_picture_words(swings[i].row, "label"));
		for (int k = 0; k < 2; k++) {
			double end = lk_picture_number(swings[i].row, ends[k]);
			if (end != end) continue;
			char colour[8], words[32];
			int here = lk_picture_at(&x, end), middle = lk_picture_at(&x, base);
			bool worse = end > base;
			lk_picture_colour("ls-k", worse ? "worse" : "better", colour);
			lk_picture_rect(picture, here < middle ? here : middle, picture->y + 30 + k * ROW / 2,
			                abs(here - middle), ROW / 2, colour);
			if (end == base) continue;
			int beside = worse ? here + 50 : here - 50;
			lk_picture_text(picture, beside, picture->y + 115 + k * ROW / 2,
			                worse ? "start" : "end", "soft",
			                lk_picture_quantity(end, unit, words, sizeof words), 20);
		}
	}
	lk_picture_line(picture, lk_picture_at(&x, base), top, lk_picture_at(&x, base), picture->y,
	                "base");
	picture->y += 240;
}

/* ---- range ---- */

static bool range_own(const lk_value *class) {
	const lk_value *own = lk_json_get(class, "own");
	return own && own->kind == LK_JSON_TRUE;
}

/* The prediction's own class first, then those with most runs. */
static int range_before(const void *a, const void *b) {
	const lk_value *one = *(const lk_value *const *)a, *other = *(const lk_value *const *)b;
	if (range_own(one) != range_own(other)) return range_own(one) ? -1 : 1;
	double runs = lk_picture_number(one, "runs"), others = lk_picture_number(other, "runs");
	return (runs < others) - (runs > others);
}

static void range_put_head(lk_picture *picture, const lk_value *panel) {
	char words[160], value[32], low[32], high[32];
	const char *unit = lk_picture_words(panel, "unit");
	snprintf(words, sizeof words, "%s, 8 of 10 such runs lie between %s and %s",
	         lk_picture_quantity(lk_picture_number(panel, "value"), unit, value, sizeof value),
	         lk_picture_quantity(lk_picture_number(panel, "low"), unit, low, sizeof low),
	         lk_picture_quantity(lk_picture_number(panel, "high"), unit, high, sizeof high));
	lk_picture_text(picture, LK_PICTURE_LEFT, picture->y + 130, "start", "strong", words, 120);
	picture->y += 260;
}

/* Measured over predicted by class of runs. */
static void draw_range(lk_picture *picture, const lk_value *panel) {
	const lk_value *classes[MOST_ROWS] = {0};
	size_t count;
	const lk_value *all = chart_items(panel, "classes", &count);
	if (count > MOST_ROWS) count = MOST_ROWS;
	for (size_t i = 0; i < count; i++) classes[i] = &all[i];
	lk_sort(classes, count, sizeof *classes, range_before);
	int shown = count < RANGE_ROWS ? (int)count : RANGE_ROWS;
	double least = .98, most = 1.02;
	for (int i = 0; i < shown; i++) {
		least = fmin(least, lk_picture_number(classes[i], "low"));
		most = fmax(most, lk_picture_number(classes[i], "high"));
	}
	range_put_head(picture, panel);
	lk_picture_scale x = {least - .02, most + .02, false, NAMES, BARS};
	int top = picture->y;
	chart_axis(picture, &x, shown, "");
	for (int i = 0; i < shown; i++, picture->y += STEP) {
		bool mine = range_own(classes[i]);
		char colour[8], words[32];
		int from = lk_picture_at(&x, lk_picture_number(classes[i], "low"));
		lk_picture_colour("ls-k", mine ? "own" : "other", colour);
		chart_name(picture, picture->y + 10, mine ? "strong" : "",
		           lk_picture_words(classes[i], "name"));
		lk_picture_rect(picture, from, picture->y + 90,
		                lk_picture_at(&x, lk_picture_number(classes[i], "high")) - from, 90,
		                colour);
		snprintf(words, sizeof words, "%.0f %s", lk_picture_number(classes[i], "runs"),
		         lk_noun(lk_picture_number(classes[i], "runs"), "run", "runs"));
		lk_picture_text(picture, LK_PICTURE_RIGHT, picture->y + 180, "end", "soft", words, 20);
	}
	lk_picture_line(picture, lk_picture_at(&x, 1), top, lk_picture_at(&x, 1), picture->y, "base");
	picture->y += 240;
}

/* ---- gantt ---- */

/* Spans of one kind on a lane, as one path; neighbours too close to be distinguished become one. */
static void gantt_spans(lk_picture *picture, const lk_picture_scale *x, const lk_value *lane,
                        char kind, int height, const char *colour) {
	const char *kinds = lk_picture_words(lane, "kinds");
	const lk_value *gaps = lk_json_get(lane, "gap"), *lengths = lk_json_get(lane, "length");
	double at = 0;
	int from = 0, to = -1;
	bool any = false;
	for (size_t i = 0; kinds[i]; i++) {
		double start = at + chart_element(gaps, i);
		at = start + chart_element(lengths, i);
		if (kinds[i] != kind || at != at) continue;
		int begin = lk_picture_at(x, start), end = lk_picture_at(x, at);
		if (end < begin + 4) end = begin + 4;
		if (!any) fprintf(picture->out, "<path fill=\"%s\" d=\"", colour), any = true;
		if (to >= 0 && begin - to < 3 && end - from < 20) {
			to = end;
			continue;
		}
		if (to >= 0)
			fprintf(picture->out, "M%d %dH%dV%dH%dz", from, picture->y, to, picture->y + height,
			        from);
		from = begin;
		to = end - begin > 40 ? end - 7 : end;
	}
	if (to >= 0)
		fprintf(picture->out, "M%d %dH%dV%dH%dz", from, picture->y, to, picture->y + height, from);
	if (any) fputs("\"/>\n", picture->out);
}

static void draw_gantt(lk_picture *picture, const lk_value *panel) {
	size_t count, kind_count, used = 0;
	const lk_value *lanes = chart_items(panel, "lanes", &count),
				   *kinds = chart_items(panel, "kinds", &kind_count);
	lk_picture_entry legend[10] = {0};
	if (kind_count > 10) kind_count = 10; /* a span's kind is a digit */
	for (size_t k = 0; k < kind_count; k++) {
		bool shown = false;
		for (size_t i = 0; i < count; i++)
			shown |= strchr(lk_picture_words(&lanes[i], "kinds"), '0' + (int)k) != NULL;
		if (!shown) continue;
		lk_picture_colour("ls-k", lk_picture_words(&kinds[k], "key"), legend[used].colour);
		legend[used++].name = lk_picture_words(&kinds[k], "label");
	}
	lk_picture_legend(picture, legend, used);
	double ticks = lk_picture_number(panel, "ticks");
	lk_picture_scale x = {0, ticks, false, NAMES, LK_PICTURE_RIGHT},
					 seconds = {0, lk_picture_number(panel, "end"), false, NAMES, LK_PICTURE_RIGHT};
	int shown = count < MOST_ROWS ? (int)count : MOST_ROWS;
	chart_axis(picture, &seconds, shown, "s");
	for (int i = 0; i < shown; i++, picture->y += STEP) {
		const lk_value *minor = lk_json_get(&lanes[i], "minor"),
					   *middle = lk_json_get(&lanes[i], "middle");
		int height = minor && minor->kind == LK_JSON_TRUE ? ROW / 2 : ROW;
		chart_name(picture, picture->y, height < ROW ? "soft" : "",
		           lk_picture_words(&lanes[i], "name"));
		for (size_t k = 0; k < kind_count; k++) {
			char colour[8];
			lk_picture_colour("ls-k", lk_picture_words(&kinds[k], "key"), colour);
			gantt_spans(picture, &x, &lanes[i], (char)('0' + k), height, colour);
		}
		if (!middle) continue;
		double start = lk_picture_number(middle, "start");
		int from = lk_picture_at(&x, start);
		lk_picture_rect(picture, from, picture->y + height / 3,
		                lk_picture_at(&x, start + lk_picture_number(middle, "length")) - from,
		                height / 3, "#a4adba");
	}
	picture->y += 240;
	chart_rest(picture, count);
}

/* ---- scatter ---- */

static bool scatter_good(const lk_value *point, bool log_x, bool log_y) {
	double x = chart_element(point, 0), y = chart_element(point, 1);
	return isfinite(x) && isfinite(y) && (!log_x || x > 0) && (!log_y || y > 0);
}

/* Both ends with some room, as logarithms of a logarithmic axis. */
static void scatter_limits(const lk_value *series, size_t count, size_t which, bool log,
                           lk_picture_scale *scale) {
	double low = INFINITY, high = -INFINITY;
	for (size_t i = 0; i < count; i++) {
		size_t points;
		const lk_value *point = chart_items(&series[i], "points", &points);
		for (size_t k = 0; k < points; k++) {
			double value = chart_element(&point[k], which);
			if (!isfinite(value) || (log && value <= 0)) continue;
			low = fmin(low, value);
			high = fmax(high, value);
		}
	}
	if (low > high) low = 1, high = 10;
	scale->log = log;
	if (log) {
		scale->low = log10(low / 1.25);
		scale->high = log10(high * 1.4);
		return;
	}
	double pad = 1;
	if (high > low) pad = (high - low) * .08;
	else if (high != 0) pad = fabs(high) * .1;
	scale->low = low >= 0 ? fmax(0, low - pad) : low - pad;
	scale->high = high + pad;
}

static int scatter_ticks(const lk_picture_scale *scale, const char *unit,
                         double at[LK_PICTURE_TICKS]) {
	bool bytes = strcmp(unit, "B") == 0;
	if (!scale->log) return lk_picture_ticks(scale->low, scale->high, 6, bytes, at);
	return lk_plot_ticks(scale->low, scale->high, bytes ? "bytes" : unit, at);
}

static void scatter_axes(lk_picture *picture, const lk_value *panel, const lk_picture_scale *x,
                         const lk_picture_scale *y) {
	const lk_value *axes[] = {lk_json_get(panel, "x"), lk_json_get(panel, "y")};
	char words[96];
	double at[LK_PICTURE_TICKS];
	const char *unit = lk_picture_words(axes[0], "unit");
	int count = scatter_ticks(x, unit, at), last = -1000;
	for (int i = 0; i < count; i++) {
		int here = lk_picture_at(x, at[i]);
		lk_picture_line(picture, here, y->to, here, y->from, "grid");
		if (here - last < 620) continue;
		last = here;
		lk_picture_text(picture, here, y->from + 170, "middle", "soft",
		                lk_picture_quantity(at[i], unit, words, sizeof words), 20);
	}
	unit = lk_picture_words(axes[1], "unit");
	count = scatter_ticks(y, unit, at);
	for (int i = 0; i < count; i++) {
		int here = lk_picture_at(y, at[i]);
		lk_picture_line(picture, x->from, here, x->to, here, "grid");
		lk_picture_text(picture, x->from - 60, here + 40, "end", "soft",
		                lk_picture_quantity(at[i], unit, words, sizeof words), 20);
	}
	for (int i = 0; i < 2; i++) {
		unit = lk_picture_words(axes[i], "unit");
		lk_text text = lk_text_begin(words, sizeof words);
		lk_text_add(&text, "%.60s", lk_picture_words(axes[i], "label"));
		if (strlen(unit) > 1) lk_text_add(&text, ", %.20s", unit);
		if (i == 0)
			lk_picture_text(picture, (x->from + x->to) / 2, y->from + 360, "middle", "soft", words,
			                80);
		else lk_picture_text(picture, x->from, y->to - 60, "start", "soft", words, 80);
	}
}

static void scatter_series(lk_picture *picture, const lk_value *series, const lk_picture_scale *x,
                           const lk_picture_scale *y, const char *colour) {
	size_t count, drawn = 0;
	const lk_value *points = chart_items(series, "points", &count);
	bool line = strcmp(lk_picture_words(series, "style"), "line") == 0;
	const char *key = lk_picture_words(series, "key");
	int radius = strcmp(key, "front") == 0 || strcmp(key, "best") == 0 ? 60 : 45;
	if (line) fprintf(picture->out, "<path class=\"curve\" stroke=\"%s\" d=\"", colour);
	for (size_t k = 0; k < count; k++) {
		if (!scatter_good(&points[k], x->log, y->log)) continue;
		int across = lk_picture_at(x, points[k].items[0].number),
			up = lk_picture_at(y, points[k].items[1].number);
		if (line) fprintf(picture->out, "%c%d %d", drawn++ ? 'L' : 'M', across, up);
		else
			fprintf(picture->out,
			        "<circle cx=\"%d\" cy=\"%d\" r=\"%d\" fill=\"%s\" fill-opacity=\".85\"/>\n",
			        across, up, radius, colour);
	}
	if (line) fputs("\"/>\n", picture->out);
}

static void draw_scatter(lk_picture *picture, const lk_value *panel) {
	size_t count, used = 0;
	const lk_value *series = chart_items(panel, "series", &count);
	lk_picture_entry legend[MOST_LEGEND];
	bool log[2];
	for (int i = 0; i < 2; i++) {
		const lk_value *flag = lk_json_get(lk_json_get(panel, i ? "y" : "x"), "log");
		log[i] = flag && flag->kind == LK_JSON_TRUE;
	}
	if (count > MOST_LEGEND) count = MOST_LEGEND;
	for (size_t i = 0; i < count; i++) {
		char number[8];
		snprintf(number, sizeof number, "%zu", i % 8);
		lk_picture_colour("ls-k", lk_picture_words(&series[i], "key"), legend[i].colour);
		/* series without a colour of their own take turns */
		if (strcmp(legend[i].colour, "#5a6676") == 0 &&
		    strcmp(lk_picture_words(&series[i], "key"), "roof") != 0)
			lk_picture_colour("ls-s", number, legend[i].colour);
		legend[i].name = lk_picture_words(&series[i], "name");
		used++;
	}
	lk_picture_legend(picture, legend, used);
	picture->y += 150;
	lk_picture_scale x = {.from = PLOT_LEFT, .to = LK_PICTURE_RIGHT},
					 y = {.from = picture->y + PLOT, .to = picture->y};
	scatter_limits(series, count, 0, log[0], &x);
	scatter_limits(series, count, 1, log[1], &y);
	scatter_axes(picture, panel, &x, &y);
	for (size_t i = 0; i < count; i++)
		scatter_series(picture, &series[i], &x, &y, legend[i].colour);
	picture->y += PLOT + 440;
}

lk_picture_draw *lk_picture_kind(const lk_value *panel) {
	static const struct {
		const char *kind, *needs;
		lk_picture_draw *draw;
	} charts[] = {
		{"waterfall", "steps", draw_waterfall},
		{"memory", "rows", draw_memory},
		{"bars", "rows", draw_bars},
		{"gantt", "lanes", draw_gantt},
		{"scatter", "series", draw_scatter},
		{"tornado", "rows", draw_tornado},
		{"range", "classes", draw_range},
	};
	const char *kind = lk_picture_words(panel, "kind");
	size_t count;
	for (size_t i = 0; i < sizeof charts / sizeof *charts; i++)
		if (strcmp(kind, charts[i].kind) == 0)
			return chart_items(panel, charts[i].needs, &count) ? charts[i].draw : NULL;
	return NULL;
}
