/* report_sweep.c: the report of many predictions: the best one, the front of time against GPU time
 * or memory, the step over what was swept, all combinations as a table whose rows tell their
 * commands. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/noun.h"
#include "base/text.h"
#include "base/sort.h"
#include "view/text/views.h"
#include "view/report/report.h"

enum {
	TEXT = 64,
	LINE = 320,
	MOST_ROWS = 2500,
	MOST_POINTS = 400,
	MOST_COMMANDS = 200,
	DIGITS = 7,
	MOST_LINES = 8,
	VALUE = 160
};

/* A sweep and what of it is shown. */
struct shown_sweep {
	lk_sweep all, kept; /* kept: the rows of the table, in the order of the combinations */
	long best;          /* in all; -1: none fits */
	size_t fit, unsure, refused;
	lk_inputs inputs;
	lk_arena arena;
};

/* ---- what is shown ---- */

static bool sweep_fits(const lk_prediction *prediction) {
	return prediction && lk_verdict_of(prediction) == LK_VERDICT_FITS;
}

/* Those that fit by their rate, then those that may not, those that do not, and those that cannot
 * be. */
static int by_merit(const void *a, const void *b) {
	const lk_sweep_row *const *x = a, *const *y = b;
	const lk_prediction *prediction = (*x)->prediction, *q = (*y)->prediction;
	if (!prediction != !q) return !prediction ? 1 : -1;
	if (prediction && lk_verdict_of(prediction) != lk_verdict_of(q))
		return lk_verdict_of(prediction) < lk_verdict_of(q) ? -1 : 1;
	if (prediction && lk_sweep_rate(prediction) != lk_sweep_rate(q))
		return lk_sweep_rate(prediction) > lk_sweep_rate(q) ? -1 : 1;
	return (*x > *y) - (*x < *y);
}

static int sweep_by_place(const void *a, const void *b) {
	const lk_sweep_row *const *x = a, *const *y = b;
	return (*x > *y) - (*x < *y);
}

static lk_status keep_rows(struct shown_sweep *sweep, lk_error *err) {
	size_t count = sweep->all.count < MOST_ROWS ? sweep->all.count : MOST_ROWS;
	const lk_sweep_row **order = LK_ARRAY(&sweep->arena, const lk_sweep_row *, sweep->all.count);
	lk_sweep_row *rows = LK_ARRAY(&sweep->arena, lk_sweep_row, count);
	if (!order || !rows) return lk_oom(err);
	for (size_t i = 0; i < sweep->all.count; i++) order[i] = &sweep->all.rows[i];
	if (count < sweep->all.count) {
		lk_sort(order, sweep->all.count, sizeof *order, by_merit);
		lk_sort(order, count, sizeof *order, sweep_by_place);
	}
	for (size_t i = 0; i < count; i++) rows[i] = *order[i];
	sweep->kept = sweep->all;
	sweep->kept.rows = rows;
	sweep->kept.count = count;
	return LK_OK;
}

/* The files of all of them, each once. */
static lk_status join_inputs(struct shown_sweep *sweep, lk_error *err) {
	enum { MOST_FILES = 1000 };
	const char **paths = LK_ARRAY(&sweep->arena, const char *, MOST_FILES);
	int count = 0;
	if (!paths) return lk_oom(err);
	for (size_t i = 0; i < sweep->all.count; i++) {
		const lk_prediction *prediction = sweep->all.rows[i].prediction;
		for (int k = 0; prediction && k < prediction->inputs.count && count < MOST_FILES; k++) {
			int known = 0;
			while (known < count && strcmp(paths[known], prediction->inputs.paths[k]) != 0) known++;
			if (known == count) paths[count++] = prediction->inputs.paths[k];
		}
	}
	sweep->inputs = (lk_inputs){paths, count};
	return LK_OK;
}

/* ---- what differs, in words ---- */

/* "tp 2, gpus 16": the swept options of a row but for `but`, the first `most`. */
static char *sweep_differences(const lk_sweep *sweep, const lk_predict_request *request,
                               const lk_option *but, char *out, size_t size) {
	lk_text text = lk_text_begin(out, size);
	for (int i = 0; i < sweep->varying_count && request; i++) {
		char value[VALUE];
		if (sweep->varying[i] == but) continue;
		lk_option_text(sweep->varying[i], request, value, sizeof value);
		if (text.used) lk_text_add(&text, ", ");
		lk_text_add(&text, "%s %.80s", sweep->varying[i]->name, *value ? value : "-");
	}
	return out;
}

static const char *command_of(const lk_sweep_row *row) {
	return row->prediction ? row->prediction->reproduce : NULL;
}

/* ---- the verdict ---- */

static void put_best(lk_report *writer, const lk_prediction *prediction) {
	char text[TEXT], low[TEXT], high[TEXT], rate[TEXT], range[LINE] = "";
	snprintf(rate, sizeof rate, "%ss/s", prediction->unit);
	if (prediction->step_time_low_s > 0)
		snprintf(range, sizeof range, "%s \xe2\x80\x93 %s",
		         lk_format_seconds(prediction->step_time_low_s, low, sizeof low),
		         lk_format_seconds(prediction->step_time_high_s, high, sizeof high));
	lk_report_figure(writer, "step time",
	                 lk_format_seconds(prediction->step_time_s, text, sizeof text), range, NULL);
	if (prediction->tokens_per_s_per_gpu > 0)
		lk_report_figure(writer, "tokens/s/GPU",
		                 lk_format_thousands(prediction->tokens_per_s_per_gpu, text, sizeof text),
		                 NULL, NULL);
	else
		lk_report_figure(writer, rate, lk_samples(prediction->samples_per_s, text, sizeof text),
		                 NULL, "all GPUs together");
	if (prediction->mfu > 0)
		lk_report_figure(writer, "MFU", lk_percent(prediction->mfu, text, sizeof text), NULL, NULL);
	lk_report_figure(writer, "memory", lk_format_bytes(prediction->peak_bytes, text, sizeof text),
	                 NULL, "peak-memory rank");
	if (prediction->days > 0)
		lk_report_figure(writer, "days of training", lk_days(prediction->days, text, sizeof text),
		                 NULL, NULL);
	if (prediction->gpu_hours > 0)
		lk_report_figure(writer, "GPU-hours",
		                 lk_format_thousands(prediction->gpu_hours, text, sizeof text), NULL, NULL);
}

static void sweep_put_verdict(lk_report *writer, const struct shown_sweep *sweep) {
	const lk_prediction *best = sweep->best >= 0 ? sweep->all.rows[sweep->best].prediction : NULL;
	char headline[LINE] = "None fits", detail[LINE];
	if (best)
		sweep_differences(&sweep->all, sweep->all.rows[sweep->best].request, NULL, headline,
		                  sizeof headline);
	size_t misfits = sweep->all.count - sweep->fit - sweep->unsure - sweep->refused;
	lk_text words = lk_text_begin(detail, sizeof detail);
	if (best) lk_text_add(&words, "most %ss/s/GPU of ", lk_sweep_unit(&sweep->all, sweep->best));
	lk_text_add(&words, "%zu %s: %zu %s", sweep->all.count,
	            lk_noun(sweep->all.count, "combination", "combinations"), sweep->fit,
	            lk_noun(sweep->fit, "fits", "fit"));
	if (sweep->unsure) lk_text_add(&words, ", %zu may not", sweep->unsure);
	if (misfits) lk_text_add(&words, ", %zu %s not", misfits, lk_noun(misfits, "does", "do"));
	if (sweep->refused) lk_text_add(&words, ", %zu cannot be", sweep->refused);
	if (!*headline) lk_copy(headline, sizeof headline, "All are alike");
	lk_report_verdict(writer, best ? "yes" : "no", headline, detail);
	lk_report_figures(writer);
	if (best) put_best(writer, best);
	lk_json_array_end(writer);
	lk_report_facts(writer);
	if (best) {
		lk_report_fact(writer, "model", best->model);
		lk_report_fact(writer, "cluster", best->cluster);
		lk_report_fact(writer, "layout", best->layout);
	}
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

/* ---- the front ---- */

/* What a combination takes and costs: of the whole training, of a step where all steps do the same
 * work, else of a billion tokens or a million samples; in GPU time where numbers of GPUs differ,
 * else in memory. */
struct measure {
	enum { OF_TRAINING, OF_STEP, OF_TOKENS, OF_SAMPLES } of;
	bool gpus;
};

static double sweep_hours_of(const lk_prediction *prediction) {
	const double tokens = 1e9, samples = 1e6, hour = 3600;
	return prediction->tokens_per_s_per_gpu > 0
	           ? tokens / (prediction->tokens_per_s_per_gpu * prediction->gpus) / hour
	           : samples / prediction->samples_per_s / hour;
}

static struct measure measure_of(const struct shown_sweep *sweep) {
	const lk_prediction *first = NULL;
	bool gpus = false, trained = true, alike = true, tokens = true;
	for (size_t i = 0; i < sweep->all.count; i++) {
		const lk_prediction *prediction = sweep->all.rows[i].prediction;
		if (!sweep_fits(prediction)) continue;
		if (!first) first = prediction;
		gpus |= prediction->gpus != first->gpus;
		alike &= prediction->gbs == first->gbs && prediction->seq == first->seq;
		trained &= prediction->days > 0 && prediction->gpu_hours > 0;
		tokens &= prediction->tokens_per_s_per_gpu > 0;
	}
	struct measure measure = {OF_SAMPLES, gpus};
	if (trained) measure.of = OF_TRAINING;
	else if (alike) measure.of = OF_STEP;
	else if (tokens) measure.of = OF_TOKENS;
	return measure;
}

static double sweep_time_of(struct measure m, const lk_prediction *prediction) {
	if (m.of == OF_TRAINING) return prediction->days;
	if (m.of == OF_STEP) return prediction->step_time_s;
	return sweep_hours_of(prediction);
}

static double sweep_cost_of(struct measure m, const lk_prediction *prediction) {
	if (!m.gpus) return prediction->peak_bytes;
	return m.of == OF_TRAINING ? prediction->gpu_hours
	                           : sweep_time_of(m, prediction) * prediction->gpus;
}

/* A combination that fits, for the front. */
struct point {
	double cost, time;
	size_t row;
	bool front;
};

static int sweep_by_cost(const void *a, const void *b) {
	const struct point *x = a, *y = b;
	if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
	if (x->time != y->time) return x->time < y->time ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

static void sweep_put_point(lk_report *writer, const struct shown_sweep *sweep,
                            const struct point *point, bool command) {
	const lk_sweep_row *row = &sweep->all.rows[point->row];
	char text[2 * LINE], what[LINE], step[TEXT], memory[TEXT];
	snprintf(text, sizeof text, "%s: step %s, %s",
	         sweep_differences(&sweep->all, row->request, NULL, what, sizeof what),
	         lk_format_seconds(row->prediction->step_time_s, step, sizeof step),
	         lk_format_bytes(row->prediction->peak_bytes, memory, sizeof memory));
	lk_report_point(writer, point->cost, point->time, text, command ? command_of(row) : NULL);
}

/* All of the front, and of the others as many as can be told apart, in even steps; the commands of
 * many are in the table alone. */
static void put_points(lk_report *writer, const struct shown_sweep *sweep,
                       const struct point *points, size_t count) {
	size_t others = 0, seen = 0;
	for (size_t i = 0; i < count; i++) others += !points[i].front;
	lk_report_series(writer, "the front", "front", false);
	for (size_t i = 0; i < count; i++)
		if (points[i].front) sweep_put_point(writer, sweep, &points[i], true);
	lk_report_series_end(writer);
	size_t each = others / MOST_POINTS + 1;
	lk_report_series(writer, "others that fit", "other", false);
	for (size_t i = 0; i < count; i++)
		if (!points[i].front && seen++ % each == 0)
			sweep_put_point(writer, sweep, &points[i], count <= MOST_COMMANDS);
	lk_report_series_end(writer);
}

/* Those that fit by their cost, those on the front marked; how many. */
static size_t fill_points(const struct shown_sweep *sweep, struct measure m, struct point *points) {
	size_t count = 0;
	double fastest = INFINITY;
	for (size_t i = 0; i < sweep->all.count; i++) {
		const lk_prediction *prediction = sweep->all.rows[i].prediction;
		if (sweep_fits(prediction))
			points[count++] = (struct point){sweep_cost_of(m, prediction),
			                                 sweep_time_of(m, prediction), i, false};
	}
	lk_sort(points, count, sizeof *points, sweep_by_cost);
	for (size_t i = 0; i < count; i++)
		if (points[i].time < fastest) {
			fastest = points[i].time;
			points[i].front = true;
		}
	return count;
}

static lk_status sweep_put_front(lk_report *writer, struct shown_sweep *sweep, lk_error *err) {
	static const struct {
		const char *time, *unit, *cost;
	} of[] = {
		{"time of the training", "days", "GPU-hours of the training"},
		{"step time", "s", "GPU-seconds of a step"},
		{"time for a billion tokens", "h", "GPU-hours for a billion tokens"},
		{"time for a million samples", "h", "GPU-hours for a million samples"},
	};
	_Static_assert(sizeof of / sizeof *of == OF_SAMPLES + 1, "one row for each measure");
	struct measure m = measure_of(sweep);
	struct point *points = LK_ARRAY(&sweep->arena, struct point, sweep->fit);
	if (!points) return lk_oom(err);
	size_t count = fill_points(sweep, m, points);
	if (count < 2 || points[0].cost == points[count - 1].cost) return LK_OK;
	lk_report_panel(writer, "scatter", m.gpus ? "Time against GPU time" : "Time against memory",
	                "those that fit; on the front nothing is faster for less", true);
	lk_report_hint(writer, count <= MOST_COMMANDS ? "a click on a point shows its command"
	                                              : "a click on its points shows their commands");
	lk_json_put_text(writer, "role", "pareto");
	if (m.gpus) lk_report_axis(writer, "x", of[m.of].cost, "", false);
	else lk_report_axis(writer, "x", "peak memory of a rank", "B", false);
	lk_report_axis(writer, "y", of[m.of].time, of[m.of].unit, false);
	lk_json_array(writer, "series");
	put_points(writer, sweep, points, count);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
	return LK_OK;
}

/* ---- the step over a number ---- */

static double sweep_number_of(const lk_option *option, const lk_predict_request *request) {
	char text[VALUE];
	const char *end;
	double number = lk_read_real(lk_option_text(option, request, text, sizeof text), &end);
	return end != text && !*end ? number : NAN;
}

/* The one swept option whose values are numbers, the other ones making few lines; NULL where it is
 * not that clear. */
static const lk_option *swept_number(const struct shown_sweep *sweep) {
	const lk_option *found = NULL;
	for (int i = 0; i < sweep->all.varying_count; i++) {
		const lk_option *option = sweep->all.varying[i];
		bool numbers = true;
		for (size_t k = 0; numbers && k < sweep->all.count; k++)
			numbers = sweep->all.rows[k].request &&
			          isfinite(sweep_number_of(option, sweep->all.rows[k].request));
		if (numbers && found) return NULL;
		if (numbers) found = option;
	}
	return found;
}

struct sweep_line {
	char name[LINE];
};

/* The lines by what else differs; -1: too many. */
static int sweep_lines_of(const struct shown_sweep *sweep, const lk_option *over,
                          struct sweep_line lines[MOST_LINES]) {
	int count = 0;
	for (size_t i = 0; i < sweep->all.count; i++) {
		char name[LINE];
		int known = 0;
		sweep_differences(&sweep->all, sweep->all.rows[i].request, over, name, sizeof name);
		while (known < count && strcmp(lines[known].name, name) != 0) known++;
		if (known < count) continue;
		if (count == MOST_LINES) return -1;
		memcpy(lines[count++].name, name, sizeof name);
	}
	return count;
}

/* Points of the line of this name; with their commands where they are to be clicked. */
static void sweep_put_line(lk_report *writer, const struct shown_sweep *sweep,
                           const lk_option *over, const char *name) {
	for (size_t i = 0; i < sweep->all.count; i++) {
		const lk_sweep_row *row = &sweep->all.rows[i];
		char mine[LINE];
		if (row->prediction &&
		    strcmp(sweep_differences(&sweep->all, row->request, over, mine, sizeof mine), name) ==
		        0)
			lk_report_point(writer, sweep_number_of(over, row->request),
			                row->prediction->step_time_s, NULL, NULL);
	}
}

/* Those of a line that fit, or of all lines (name NULL) those that do not. */
static void put_marks(lk_report *writer, const struct shown_sweep *sweep, const lk_option *over,
                      const char *name) {
	static const char *const endings[] = {"", ", may not fit", ", does not fit"};
	for (size_t i = 0; i < sweep->all.count; i++) {
		const lk_sweep_row *row = &sweep->all.rows[i];
		const lk_prediction *prediction = row->prediction;
		char mine[LINE], text[2 * LINE], what[LINE], step[TEXT];
		if (!prediction || sweep_fits(prediction) != (name != NULL) ||
		    (name && strcmp(sweep_differences(&sweep->all, row->request, over, mine, sizeof mine),
		                    name) != 0))
			continue;
		snprintf(text, sizeof text, "%s: step %s%s",
		         sweep_differences(&sweep->all, row->request, NULL, what, sizeof what),
		         lk_format_seconds(prediction->step_time_s, step, sizeof step),
		         endings[lk_verdict_of(prediction)]);
		lk_report_point(writer, sweep_number_of(over, row->request), prediction->step_time_s, text,
		                command_of(row));
	}
}

static void sweep_put_lines(lk_report *writer, const struct shown_sweep *sweep,
                            const lk_option *over, const struct sweep_line *lines, int count) {
	char key[TEXT], name[2 * LINE];
	lk_json_array(writer, "series");
	for (int i = 0; i < 2 * count; i++) {
		const char *what = lines[i % count].name, *title = *what ? what : "step time";
		bool whole = i < count;
		snprintf(key, sizeof key, "c%d", i % count);
		snprintf(name, sizeof name, "%s%s", title, whole ? "" : ", fits");
		lk_report_series(writer, name, key, whole);
		if (whole) sweep_put_line(writer, sweep, over, what);
		else put_marks(writer, sweep, over, what);
		lk_report_series_end(writer);
	}
	lk_report_series(writer, "does not fit or may not", "misfit", false);
	put_marks(writer, sweep, over, NULL);
	lk_report_series_end(writer);
	lk_json_array_end(writer);
}

/* The axis has the values that were swept; even ones by factors as a logarithm. */
static void put_axis(lk_report *writer, const struct shown_sweep *sweep, const lk_option *over) {
	double low = INFINITY, high = -INFINITY;
	for (size_t i = 0; i < sweep->all.count; i++) {
		double x = sweep_number_of(over, sweep->all.rows[i].request);
		low = fmin(low, x);
		high = fmax(high, x);
	}
	lk_json_object(writer, "x");
	lk_json_put_text(writer, "label", over->name);
	lk_json_put_text(writer, "unit", "");
	if (low > 0 && high > 4 * low) lk_json_put_bool(writer, "log", true);
	lk_json_array(writer, "ticks");
	double last = NAN;
	for (size_t i = 0; i < sweep->all.count; i++) {
		double x = sweep_number_of(over, sweep->all.rows[i].request);
		if (x != last) lk_json_put_number(writer, NULL, x);
		last = x;
	}
	lk_json_array_end(writer);
	lk_json_object_end(writer);
}

static void put_over(lk_report *writer, const struct shown_sweep *sweep) {
	const lk_option *over = sweep->all.count <= MOST_POINTS ? swept_number(sweep) : NULL;
	struct sweep_line lines[MOST_LINES];
	int count = over ? sweep_lines_of(sweep, over, lines) : 0;
	char title[LINE];
	if (count < 1 || sweep->all.count - sweep->refused < 2) return;
	snprintf(title, sizeof title, "Step time over %s", over->name);
	lk_report_panel(writer, "scatter", title, NULL, true);
	lk_report_hint(writer, "a click on a point shows its command");
	lk_json_put_text(writer, "role", "sweep");
	put_axis(writer, sweep, over);
	lk_report_axis(writer, "y", "step time", "s", false);
	sweep_put_lines(writer, sweep, over, lines, count);
	lk_report_panel_end(writer);
}

/* ---- all of them ---- */

static size_t sweep_common(const char *a, const char *b, size_t most, bool from_end) {
	size_t la = strlen(a), lb = strlen(b), same = 0;
	while (same < most && same < la && same < lb &&
	       (from_end ? a[la - 1 - same] == b[lb - 1 - same] : a[same] == b[same]))
		same++;
	return same;
}

/* What the commands of all rows begin and end with. */
static void sweep_common_ends(const lk_sweep *kept, const char **first, size_t *before,
                              size_t *after) {
	*first = NULL;
	*before = *after = 0;
	for (size_t i = 0; i < kept->count; i++) {
		const char *command = command_of(&kept->rows[i]);
		if (!command) continue;
		if (!*first) {
			*first = command;
			*before = *after = strlen(command);
		}
		*before = sweep_common(*first, command, *before, false);
		*after = sweep_common(*first, command, *after, true);
	}
	/* not in the middle of a character */
	while (*before > 0 && ((unsigned char)(*first)[*before] & 0xc0) == 0x80) --*before;
	/* what is shared at both ends of a short command counts once */
	for (size_t i = 0; i < kept->count; i++) {
		const char *command = command_of(&kept->rows[i]);
		if (command && *before + *after > strlen(command)) *after = strlen(command) - *before;
	}
	while (*after > 0 && ((unsigned char)(*first)[strlen(*first) - *after] & 0xc0) == 0x80)
		--*after;
}

/* Whether the words of a text can be recognised by single blanks. */
static bool single_blanks(const lk_sweep *kept) {
	for (size_t i = 0; i < kept->count; i++)
		if (command_of(&kept->rows[i]) && strstr(command_of(&kept->rows[i]), "  ")) return false;
	return true;
}

static size_t words_of(const char *text) {
	size_t words = 1;
	for (; *text; text++) words += *text == ' ';
	return words;
}

/* The text with the words left out that are those of the text before it, in the same places; texts
 * of as many words only. */
static const char *sweep_shorter(lk_arena *arena, const char *text, const char *last) {
	if (!last || words_of(text) != words_of(last)) return text;
	char *out = lk_arena_strdup(arena, text), *to = out;
	while (out) {
		size_t word = strcspn(text, " "), other = strcspn(last, " ");
		if (word != other || memcmp(text, last, word) != 0) {
			memmove(to, text, word);
			to += word;
		}
		text += word;
		last += other;
		if (!*text) break;
		*to++ = ' ';
		text++;
		last++;
	}
	if (out) *to = '\0';
	return out;
}

/* The commands of the table's rows: what all begin and end with once, and between them each its
 * own, without the words that the one before it has too. */
static lk_status put_commands(lk_report *writer, const void *context, lk_error *err) {
	const struct shown_sweep *sweep = context;
	const lk_sweep *kept = &sweep->kept;
	const char *first;
	size_t before, after;
	lk_arena arena = LK_ARENA_INIT;
	bool good = true, single = single_blanks(kept);
	const char *last = NULL;
	if (sweep->all.count > kept->count)
		lk_json_put_integer(writer, "left_out", (long long)(sweep->all.count - kept->count));
	sweep_common_ends(kept, &first, &before, &after);
	if (!first) return LK_OK;
	lk_report_hint(writer, "a click on a row shows its command");
	lk_json_object(writer, "commands");
	lk_json_put_text(writer, "before", lk_arena_strndup(&arena, first, before));
	lk_json_put_text(writer, "after", first + strlen(first) - after);
	lk_json_array(writer, "between");
	for (size_t i = 0; good && i < kept->count; i++) {
		const char *command = command_of(&kept->rows[i]);
		const char *middle =
			command ? lk_arena_strndup(&arena, command + before, strlen(command) - before - after)
					: NULL;
		lk_json_put_text(writer, NULL,
		                 middle && single ? sweep_shorter(&arena, middle, last) : middle);
		good = middle || !command;
		if (middle) last = middle;
	}
	lk_json_array_end(writer);
	lk_json_object_end(writer);
	lk_arena_free(&arena);
	return good ? LK_OK : lk_oom(err);
}

static lk_status sweep_put_table(lk_report *writer, const struct shown_sweep *sweep,
                                 lk_error *err) {
	static const char *const keys[] = {"usable_bytes", "model", "gpus",     "tp",  "pp",  "vp",
	                                   "cp",           "ep",    "dp",       "mbs", "gbs", "seq",
	                                   "recompute",    "dtype", "schedule", NULL};
	char same[LINE], note[2 * LINE];
	lk_table *table = lk_sweep_table(&sweep->kept);
	lk_report_same(table, keys, same, sizeof same);
	lk_report_round(table, DIGITS);
	lk_report_reveal(table, "step_time_low_s");
	lk_report_reveal(table, "step_time_high_s");
	lk_text text = lk_text_begin(note, sizeof note);
	lk_text_add(&text, "low and high: the 80 %% range of the step");
	if (*same) lk_text_add(&text, "; all have %s", same);
	if (sweep->kept.count < sweep->all.count)
		lk_text_add(&text, "; the fastest per GPU are kept, -o csv writes all");
	return lk_report_table_with(writer, "All combinations", note, true, table, 0, put_commands,
	                            sweep, err);
}

/* ---- the whole ---- */

static lk_status sweep_put_panels(const void *answer, lk_report *writer, lk_error *err) {
	struct shown_sweep *sweep = *(struct shown_sweep *const *)answer;
	sweep_put_verdict(writer, sweep);
	put_over(writer, sweep);
	LK_TRY(sweep_put_front(writer, sweep, err));
	return sweep_put_table(writer, sweep, err);
}

static void sweep_put_warnings(const void *answer, lk_report *writer) {
	const struct shown_sweep *sweep = *(struct shown_sweep *const *)answer;
	if (sweep->best >= 0 && sweep->all.rows[sweep->best].prediction->warning &&
	    *sweep->all.rows[sweep->best].prediction->warning)
		lk_report_text(writer, sweep->all.rows[sweep->best].prediction->warning);
}

static void sweep_put_assumptions(const void *answer, lk_report *writer) {
	const struct shown_sweep *sweep = *(struct shown_sweep *const *)answer;
	const lk_prediction *prediction =
		sweep->best >= 0 ? sweep->all.rows[sweep->best].prediction : NULL;
	for (int i = 0; prediction && i < prediction->assumption_count; i++)
		lk_report_text(writer, prediction->assumptions[i]);
}

static lk_status sweep_prepare(struct shown_sweep *sweep, lk_error *err) {
	sweep->best = lk_sweep_best(&sweep->all);
	for (size_t i = 0; i < sweep->all.count; i++) {
		sweep->refused += !sweep->all.rows[i].prediction;
		sweep->fit += sweep_fits(sweep->all.rows[i].prediction);
		sweep->unsure += sweep->all.rows[i].prediction &&
		                 lk_verdict_of(sweep->all.rows[i].prediction) == LK_VERDICT_MAY_NOT_FIT;
	}
	LK_ASSERT(sweep->fit + sweep->unsure + sweep->refused <= sweep->all.count);
	LK_ASSERT((sweep->best >= 0) == (sweep->fit > 0));
	lk_sweep_varying(&sweep->all);
	LK_TRY(keep_rows(sweep, err));
	return join_inputs(sweep, err);
}

lk_status lk_report_sweep(const lk_sweep_row *rows, size_t count, lk_report_form form,
                          const char *path, FILE *out, lk_error *err) {
	struct shown_sweep s = {.all = {.rows = rows, .count = count}}, *answer = &s;
	char title[LINE];
	lk_status status = sweep_prepare(&s, err);
	const lk_prediction *best = s.best >= 0 ? rows[s.best].prediction : NULL;
	bool alike = best && best->model;
	for (size_t i = 0; alike && i < count; i++)
		alike = !rows[i].prediction ||
		        (rows[i].prediction->model && strcmp(rows[i].prediction->model, best->model) == 0);
	lk_text text = lk_text_begin(title, sizeof title);
	lk_text_add(&text, "%zu %s", count, lk_noun(count, "prediction", "predictions"));
	if (alike) lk_text_add(&text, " of %.*s", (int)strcspn(best->model, ":,"), best->model);
	lk_report_job job = {.verb = "predict",
	                     .title = title,
	                     .answer = &answer,
	                     .inputs = &s.inputs,
	                     .panels = sweep_put_panels,
	                     .assumptions = sweep_put_assumptions,
	                     .warnings = sweep_put_warnings,
	                     .reproduces = "the best one"};
	if (best) {
		job.reproduce = best->reproduce;
		job.failed_check = best->failed_check;
	}
	if (status == LK_OK) status = lk_report_save(&job, form, path, out, err);
	lk_arena_free(&s.arena);
	return status;
}
