/* report_sweep.c: the report of many predictions: the best one, the front of time against GPU time or memory, the step over what
 * was swept, all combinations as a table whose rows tell their commands. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "view/text/views.h"
#include "view/report/report.h"

enum { TEXT = 64, LINE = 320, MOST_ROWS = 2500, MOST_POINTS = 400, MOST_COMMANDS = 200, DIGITS = 7, MOST_LINES = 8, VALUE = 160 };

/* A sweep and what of it is shown. */
struct shown_sweep {
	lk_sweep all, kept;  /* kept: the rows of the table, in the order of the combinations */
	long best;           /* in all; -1: none fits */
	size_t fit, refused;
	lk_inputs inputs;
	lk_arena arena;
};

static double rate_of(const lk_prediction *p) {
	return p->tokens_per_s_per_gpu > 0 ? p->tokens_per_s_per_gpu : p->samples_per_s / (p->gpus > 0 ? p->gpus : 1);
}

/* ---- what is shown ---- */

/* Those that fit by their rate, then those that do not, then those that cannot be. */
static int by_merit(const void *a, const void *b) {
	const lk_sweep_row *const *x = a, *const *y = b;
	const lk_prediction *p = (*x)->prediction, *q = (*y)->prediction;
	if (!p != !q) return !p ? 1 : -1;
	if (p && p->fits != q->fits) return p->fits ? -1 : 1;
	if (p && rate_of(p) != rate_of(q)) return rate_of(p) > rate_of(q) ? -1 : 1;
	return (*x > *y) - (*x < *y);
}

static int by_place(const void *a, const void *b) {
	const lk_sweep_row *const *x = a, *const *y = b;
	return (*x > *y) - (*x < *y);
}

static lk_status keep_rows(struct shown_sweep *s, lk_error *err) {
	size_t count = s->all.count < MOST_ROWS ? s->all.count : MOST_ROWS;
	const lk_sweep_row **order = LK_ARRAY(&s->arena, const lk_sweep_row *, s->all.count);
	lk_sweep_row *rows = LK_ARRAY(&s->arena, lk_sweep_row, count);
	if (!order || !rows) return lk_oom(err);
	for (size_t i = 0; i < s->all.count; i++) order[i] = &s->all.rows[i];
	if (count < s->all.count) {
		qsort(order, s->all.count, sizeof *order, by_merit);
		qsort(order, count, sizeof *order, by_place);
	}
	for (size_t i = 0; i < count; i++) rows[i] = *order[i];
	s->kept = s->all;
	s->kept.rows = rows, s->kept.count = count;
	return LK_OK;
}

/* The files of all of them, each once. */
static lk_status join_inputs(struct shown_sweep *s, lk_error *err) {
	enum { MOST_FILES = 1000 };
	const char **paths = LK_ARRAY(&s->arena, const char *, MOST_FILES);
	int count = 0;
	if (!paths) return lk_oom(err);
	for (size_t i = 0; i < s->all.count; i++) {
		const lk_prediction *p = s->all.rows[i].prediction;
		for (int k = 0; p && k < p->inputs.count && count < MOST_FILES; k++) {
			int known = 0;
			while (known < count && strcmp(paths[known], p->inputs.paths[k]) != 0) known++;
			if (known == count) paths[count++] = p->inputs.paths[k];
		}
	}
	s->inputs = (lk_inputs){paths, count};
	return LK_OK;
}

/* ---- what differs, in words ---- */

/* "tp 2, gpus 16": the swept options of a row but for `but`, the first `most`. */
static char *differences(const lk_sweep *s, const lk_predict_request *request, const lk_option *but, char *out, size_t size) {
	size_t used = 0;
	*out = '\0';
	for (int i = 0; i < s->varying_count && request && used < size; i++) {
		char value[VALUE];
		if (s->varying[i] == but) continue;
		lk_option_text(s->varying[i], request, value, sizeof value);
		int length = snprintf(out + used, size - used, "%s%s %.80s", used ? ", " : "", s->varying[i]->name, *value ? value : "-");
		used += length > 0 ? (size_t)length : 0;
	}
	return out;
}

static const char *command_of(const lk_sweep_row *row) { return row->prediction ? row->prediction->reproduce : NULL; }

/* ---- the verdict ---- */

static char *plain(double number, char *out, size_t size) { return lk_fixed(number, fabs(number) < 100 ? 1 : 0, out, size); }

static void put_best(lk_report *r, const lk_prediction *p) {
	char text[TEXT], low[TEXT], high[TEXT], range[LINE] = "";
	if (p->step_time_low_s > 0)
		snprintf(range, sizeof range, "%s \xe2\x80\x93 %s", lk_format_seconds(p->step_time_low_s, low, sizeof low),
		         lk_format_seconds(p->step_time_high_s, high, sizeof high));
	lk_report_figure(r, "step time", lk_format_seconds(p->step_time_s, text, sizeof text), range, NULL);
	if (p->tokens_per_s_per_gpu > 0) lk_report_figure(r, "tokens/s/GPU", lk_format_thousands(p->tokens_per_s_per_gpu, text, sizeof text), NULL, NULL);
	else lk_report_figure(r, "samples/s", plain(p->samples_per_s, text, sizeof text), NULL, "all GPUs together");
	if (p->mfu > 0) lk_report_figure(r, "MFU", lk_percent(p->mfu, text, sizeof text), NULL, NULL);
	lk_report_figure(r, "memory", lk_format_bytes(p->peak_bytes, text, sizeof text), NULL, "fullest rank");
	if (p->days > 0) lk_report_figure(r, "days of training", plain(p->days, text, sizeof text), NULL, NULL);
	if (p->gpu_hours > 0) lk_report_figure(r, "GPU-hours", lk_format_thousands(p->gpu_hours, text, sizeof text), NULL, NULL);
}

static void put_verdict(lk_report *r, const struct shown_sweep *s) {
	const lk_prediction *best = s->best >= 0 ? s->all.rows[s->best].prediction : NULL;
	char headline[LINE], detail[LINE];
	if (best) differences(&s->all, s->all.rows[s->best].request, NULL, headline, sizeof headline);
	size_t misfits = s->all.count - s->fit - s->refused;
	int length = snprintf(detail, sizeof detail, "%s%zu combinations: %zu fit", best ? "most tokens/s/GPU of " : "", s->all.count, s->fit);
	if (misfits) length += snprintf(detail + length, sizeof detail - (size_t)length, ", %zu do not", misfits);
	if (s->refused) snprintf(detail + length, sizeof detail - (size_t)length, ", %zu cannot be", s->refused);
	lk_report_verdict(r, best ? "yes" : "no", best ? (*headline ? headline : "All are alike") : "None fits", detail);
	lk_report_figures(r);
	if (best) put_best(r, best);
	lk_json_array_end(r);
	lk_report_facts(r);
	if (best) {
		lk_report_fact(r, "model", best->model);
		lk_report_fact(r, "cluster", best->cluster);
		lk_report_fact(r, "layout", best->layout);
	}
	lk_json_array_end(r);
	lk_report_panel_end(r);
}

/* ---- the front ---- */

/* What a combination takes and costs: of the whole training, of a step where all steps do the same work, else of a billion tokens
 * or a million samples; in GPU time where numbers of GPUs differ, else in memory. */
struct measure {
	enum { OF_TRAINING, OF_STEP, OF_TOKENS, OF_SAMPLES } of;
	bool gpus;
};

static double hours_of(const lk_prediction *p) {
	const double tokens = 1e9, samples = 1e6, hour = 3600;
	return p->tokens_per_s_per_gpu > 0 ? tokens / (p->tokens_per_s_per_gpu * p->gpus) / hour : samples / p->samples_per_s / hour;
}

static struct measure measure_of(const struct shown_sweep *s) {
	const lk_prediction *first = NULL;
	bool gpus = false, trained = true, alike = true, tokens = true;
	for (size_t i = 0; i < s->all.count; i++) {
		const lk_prediction *p = s->all.rows[i].prediction;
		if (!p || !p->fits) continue;
		if (!first) first = p;
		gpus |= p->gpus != first->gpus;
		alike &= p->gbs == first->gbs && p->seq == first->seq;
		trained &= p->days > 0 && p->gpu_hours > 0;
		tokens &= p->tokens_per_s_per_gpu > 0;
	}
	return (struct measure){trained ? OF_TRAINING : alike ? OF_STEP : tokens ? OF_TOKENS : OF_SAMPLES, gpus};
}

static double time_of(struct measure m, const lk_prediction *p) {
	return m.of == OF_TRAINING ? p->days : m.of == OF_STEP ? p->step_time_s : hours_of(p);
}

static double cost_of(struct measure m, const lk_prediction *p) {
	if (!m.gpus) return p->peak_bytes;
	return m.of == OF_TRAINING ? p->gpu_hours : time_of(m, p) * p->gpus;
}

/* A combination that fits, for the front. */
struct point {
	double cost, time;
	size_t row;
	bool front;
};

static int by_cost(const void *a, const void *b) {
	const struct point *x = a, *y = b;
	if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
	if (x->time != y->time) return x->time < y->time ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

static void put_point(lk_report *r, const struct shown_sweep *s, const struct point *p, bool command) {
	const lk_sweep_row *row = &s->all.rows[p->row];
	char text[2 * LINE], what[LINE], step[TEXT], memory[TEXT];
	snprintf(text, sizeof text, "%s: step %s, %s", differences(&s->all, row->request, NULL, what, sizeof what),
	         lk_format_seconds(row->prediction->step_time_s, step, sizeof step), lk_format_bytes(row->prediction->peak_bytes, memory, sizeof memory));
	lk_report_point(r, p->cost, p->time, text, command ? command_of(row) : NULL);
}

/* All of the front, and of the others as many as can be told apart, in even steps; the commands of many are in the table alone. */
static void put_points(lk_report *r, const struct shown_sweep *s, const struct point *points, size_t count) {
	size_t others = 0, seen = 0;
	for (size_t i = 0; i < count; i++) others += !points[i].front;
	lk_report_series(r, "the front", "front", false);
	for (size_t i = 0; i < count; i++)
		if (points[i].front) put_point(r, s, &points[i], true);
	lk_report_series_end(r);
	size_t each = others / MOST_POINTS + 1;
	lk_report_series(r, "others that fit", "other", false);
	for (size_t i = 0; i < count; i++)
		if (!points[i].front && seen++ % each == 0) put_point(r, s, &points[i], count <= MOST_COMMANDS);
	lk_report_series_end(r);
}

/* Those that fit by their cost, those on the front marked; how many. */
static size_t fill_points(const struct shown_sweep *s, struct measure m, struct point *points) {
	size_t count = 0;
	double fastest = INFINITY;
	for (size_t i = 0; i < s->all.count; i++) {
		const lk_prediction *p = s->all.rows[i].prediction;
		if (p && p->fits) points[count++] = (struct point){cost_of(m, p), time_of(m, p), i, false};
	}
	if (count) qsort(points, count, sizeof *points, by_cost);
	for (size_t i = 0; i < count; i++)
		if (points[i].time < fastest) fastest = points[i].time, points[i].front = true;
	return count;
}

static lk_status put_front(lk_report *r, struct shown_sweep *s, lk_error *err) {
	static const struct { const char *time, *unit, *cost; } of[] = {
		{"time of the training", "days", "GPU-hours of the training"}, {"step time", "s", "GPU-seconds of a step"},
		{"time for a billion tokens", "h", "GPU-hours for a billion tokens"}, {"time for a million samples", "h", "GPU-hours for a million samples"},
	};
	struct measure m = measure_of(s);
	struct point *points = LK_ARRAY(&s->arena, struct point, s->fit);
	if (!points) return lk_oom(err);
	size_t count = fill_points(s, m, points);
	if (count < 2 || points[0].cost == points[count - 1].cost) return LK_OK;
	lk_report_panel(r, "scatter", m.gpus ? "Time against GPU time" : "Time against memory",
	                count <= MOST_COMMANDS ? "those that fit; on the front nothing is faster for less; a click on a point shows its command"
	                                       : "those that fit; on the front nothing is faster for less; a click on its points shows their commands", true);
	lk_json_put_text(r, "role", "pareto");
	lk_report_axis(r, "x", m.gpus ? of[m.of].cost : "memory of the fullest rank", m.gpus ? "" : "B", false);
	lk_report_axis(r, "y", of[m.of].time, of[m.of].unit, false);
	lk_json_array(r, "series");
	put_points(r, s, points, count);
	lk_json_array_end(r);
	lk_report_panel_end(r);
	return LK_OK;
}

/* ---- the step over a number ---- */

static double number_of(const lk_option *option, const lk_predict_request *request) {
	char text[VALUE];
	const char *end;
	double number = lk_read_real(lk_option_text(option, request, text, sizeof text), &end);
	return end != text && !*end ? number : NAN;
}

/* The one swept option whose values are numbers, the other ones making few lines; NULL where it is not that clear. */
static const lk_option *swept_number(const struct shown_sweep *s) {
	const lk_option *found = NULL;
	for (int i = 0; i < s->all.varying_count; i++) {
		const lk_option *o = s->all.varying[i];
		bool numbers = true;
		for (size_t k = 0; numbers && k < s->all.count; k++)
			numbers = s->all.rows[k].request && isfinite(number_of(o, s->all.rows[k].request));
		if (numbers && found) return NULL;
		if (numbers) found = o;
	}
	return found;
}

struct sweep_line {
	char name[LINE];
};

/* The lines by what else differs; -1: too many. */
static int lines_of(const struct shown_sweep *s, const lk_option *over, struct sweep_line lines[MOST_LINES]) {
	int count = 0;
	for (size_t i = 0; i < s->all.count; i++) {
		char name[LINE];
		int known = 0;
		differences(&s->all, s->all.rows[i].request, over, name, sizeof name);
		while (known < count && strcmp(lines[known].name, name) != 0) known++;
		if (known < count) continue;
		if (count == MOST_LINES) return -1;
		memcpy(lines[count++].name, name, sizeof name);
	}
	return count;
}

/* Points of the line of this name; with their commands where they are to be clicked. */
static void put_line(lk_report *r, const struct shown_sweep *s, const lk_option *over, const char *name) {
	for (size_t i = 0; i < s->all.count; i++) {
		const lk_sweep_row *row = &s->all.rows[i];
		char mine[LINE];
		if (row->prediction && strcmp(differences(&s->all, row->request, over, mine, sizeof mine), name) == 0)
			lk_report_point(r, number_of(over, row->request), row->prediction->step_time_s, NULL, NULL);
	}
}

/* Those of a line that fit, or of all lines (name NULL) those that do not. */
static void put_marks(lk_report *r, const struct shown_sweep *s, const lk_option *over, const char *name) {
	for (size_t i = 0; i < s->all.count; i++) {
		const lk_sweep_row *row = &s->all.rows[i];
		const lk_prediction *p = row->prediction;
		char mine[LINE], text[2 * LINE], what[LINE], step[TEXT];
		if (!p || p->fits != (name != NULL) || (name && strcmp(differences(&s->all, row->request, over, mine, sizeof mine), name) != 0)) continue;
		snprintf(text, sizeof text, "%s: step %s%s", differences(&s->all, row->request, NULL, what, sizeof what),
		         lk_format_seconds(p->step_time_s, step, sizeof step), p->fits ? "" : ", does not fit");
		lk_report_point(r, number_of(over, row->request), p->step_time_s, text, command_of(row));
	}
}

static void put_lines(lk_report *r, const struct shown_sweep *s, const lk_option *over, const struct sweep_line *lines, int count) {
	char key[TEXT], name[2 * LINE];
	lk_json_array(r, "series");
	for (int i = 0; i < 2 * count; i++) {
		const char *what = lines[i % count].name;
		bool whole = i < count;
		snprintf(key, sizeof key, "c%d", i % count);
		snprintf(name, sizeof name, "%s%s", *what ? what : "step time", whole ? "" : ", fits");
		lk_report_series(r, name, key, whole);
		if (whole) put_line(r, s, over, what);
		else put_marks(r, s, over, what);
		lk_report_series_end(r);
	}
	lk_report_series(r, "does not fit", "misfit", false);
	put_marks(r, s, over, NULL);
	lk_report_series_end(r);
	lk_json_array_end(r);
}

/* The axis has the values that were swept; even ones by factors as a logarithm. */
static void put_axis(lk_report *r, const struct shown_sweep *s, const lk_option *over) {
	double low = INFINITY, high = -INFINITY;
	for (size_t i = 0; i < s->all.count; i++) {
		double x = number_of(over, s->all.rows[i].request);
		low = fmin(low, x), high = fmax(high, x);
	}
	lk_json_object(r, "x");
	lk_json_put_text(r, "label", over->name);
	lk_json_put_text(r, "unit", "");
	if (low > 0 && high > 4 * low) lk_json_put_bool(r, "log", true);
	lk_json_array(r, "ticks");
	double last = NAN;
	for (size_t i = 0; i < s->all.count; i++) {
		double x = number_of(over, s->all.rows[i].request);
		if (x != last) lk_json_put_number(r, NULL, x);
		last = x;
	}
	lk_json_array_end(r);
	lk_json_object_end(r);
}

static void put_over(lk_report *r, const struct shown_sweep *s) {
	const lk_option *over = s->all.count <= MOST_POINTS ? swept_number(s) : NULL;
	struct sweep_line lines[MOST_LINES];
	int count = over ? lines_of(s, over, lines) : 0;
	char title[LINE];
	if (count < 1 || s->all.count - s->refused < 2) return;
	snprintf(title, sizeof title, "Step time over %s", over->name);
	lk_report_panel(r, "scatter", title, "a click on a point shows its command", true);
	lk_json_put_text(r, "role", "sweep");
	put_axis(r, s, over);
	lk_report_axis(r, "y", "step time", "s", false);
	put_lines(r, s, over, lines, count);
	lk_report_panel_end(r);
}

/* ---- all of them ---- */

static size_t common(const char *a, const char *b, size_t most, bool from_end) {
	size_t la = strlen(a), lb = strlen(b), same = 0;
	while (same < most && same < la && same < lb && (from_end ? a[la - 1 - same] == b[lb - 1 - same] : a[same] == b[same])) same++;
	return same;
}

/* What the commands of all rows begin and end with. */
static void common_ends(const lk_sweep *kept, const char **first, size_t *before, size_t *after) {
	*first = NULL, *before = *after = 0;
	for (size_t i = 0; i < kept->count; i++) {
		const char *command = command_of(&kept->rows[i]);
		if (!command) continue;
		if (!*first) *first = command, *before = *after = strlen(command);
		*before = common(*first, command, *before, false), *after = common(*first, command, *after, true);
	}
	/* not in the middle of a character */
	while (*before > 0 && ((unsigned char)(*first)[*before] & 0xc0) == 0x80) --*before;
	/* what is shared at both ends of a short command counts once */
	for (size_t i = 0; i < kept->count; i++) {
		const char *command = command_of(&kept->rows[i]);
		if (command && *before + *after > strlen(command)) *after = strlen(command) - *before;
	}
	while (*after > 0 && ((unsigned char)(*first)[strlen(*first) - *after] & 0xc0) == 0x80) --*after;
}

/* Whether the words of a text can be told by single blanks. */
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

/* The text with the words left out that are those of the text before it, in the same places; texts of as many words only. */
static const char *shorter(lk_arena *arena, const char *text, const char *last) {
	if (!last || words_of(text) != words_of(last)) return text;
	char *out = lk_arena_strdup(arena, text), *to = out;
	while (out) {
		size_t word = strcspn(text, " "), other = strcspn(last, " ");
		if (word != other || memcmp(text, last, word) != 0) memmove(to, text, word), to += word;
		text += word, last += other;
		if (!*text) break;
		*to++ = ' ', text++, last++;
	}
	if (out) *to = '\0';
	return out;
}

/* The commands of the table's rows: what all begin and end with once, and between them each its own, without the words that the
 * one before it has too. */
static lk_status put_commands(lk_report *r, const void *context, lk_error *err) {
	const struct shown_sweep *s = context;
	const lk_sweep *kept = &s->kept;
	const char *first;
	size_t before, after;
	lk_arena arena = LK_ARENA_INIT;
	bool good = true, single = single_blanks(kept);
	const char *last = NULL;
	if (s->all.count > kept->count) lk_json_put_integer(r, "left_out", (long long)(s->all.count - kept->count));
	common_ends(kept, &first, &before, &after);
	if (!first) return LK_OK;
	lk_json_object(r, "commands");
	lk_json_put_text(r, "before", lk_arena_strndup(&arena, first, before));
	lk_json_put_text(r, "after", first + strlen(first) - after);
	lk_json_array(r, "between");
	for (size_t i = 0; good && i < kept->count; i++) {
		const char *command = command_of(&kept->rows[i]);
		const char *middle = command ? lk_arena_strndup(&arena, command + before, strlen(command) - before - after) : NULL;
		lk_json_put_text(r, NULL, middle && single ? shorter(&arena, middle, last) : middle);
		good = middle || !command;
		if (middle) last = middle;
	}
	lk_json_array_end(r);
	lk_json_object_end(r);
	lk_arena_free(&arena);
	return good ? LK_OK : lk_oom(err);
}

static lk_status put_table(lk_report *r, const struct shown_sweep *s, lk_error *err) {
	static const char *const keys[] = {"usable_bytes", "model", "gpus", "tp", "pp", "vp", "cp", "ep", "dp", "mbs", "gbs", "seq",
		"recompute", "dtype", "schedule", NULL};
	char same[LINE], note[2 * LINE];
	lk_table *t = lk_sweep_table(&s->kept);
	lk_report_same(t, keys, same, sizeof same);
	lk_report_round(t, DIGITS);
	lk_report_reveal(t, "step_time_low_s"), lk_report_reveal(t, "step_time_high_s");
	snprintf(note, sizeof note, "low and high: the 80 %% range of the step; a click on a row shows its command%s%s%s", *same ? "; all have " : "", same,
	         s->kept.count < s->all.count ? "; those with most tokens/s/GPU are kept, -o csv writes all" : "");
	return lk_report_table_with(r, "All combinations", note, true, t, 0, put_commands, s, err);
}

/* ---- the whole ---- */

static lk_status put_panels(const void *answer, lk_report *r, lk_error *err) {
	struct shown_sweep *s = *(struct shown_sweep *const *)answer;
	put_verdict(r, s);
	put_over(r, s);
	LK_TRY(put_front(r, s, err));
	return put_table(r, s, err);
}

static void put_warnings(const void *answer, lk_report *r) {
	const struct shown_sweep *s = *(struct shown_sweep *const *)answer;
	if (s->best >= 0 && s->all.rows[s->best].prediction->warning && *s->all.rows[s->best].prediction->warning)
		lk_report_text(r, s->all.rows[s->best].prediction->warning);
}

static void put_assumptions(const void *answer, lk_report *r) {
	const struct shown_sweep *s = *(struct shown_sweep *const *)answer;
	const lk_prediction *p = s->best >= 0 ? s->all.rows[s->best].prediction : NULL;
	for (int i = 0; p && i < p->assumption_count; i++) lk_report_text(r, p->assumptions[i]);
}

static lk_status prepare(struct shown_sweep *s, lk_error *err) {
	s->best = lk_sweep_best(&s->all);
	for (size_t i = 0; i < s->all.count; i++) {
		s->refused += !s->all.rows[i].prediction;
		s->fit += s->all.rows[i].prediction && s->all.rows[i].prediction->fits;
	}
	lk_sweep_varying(&s->all);
	LK_TRY(keep_rows(s, err));
	return join_inputs(s, err);
}

lk_status lk_report_sweep(const lk_sweep_row *rows, size_t count, lk_report_form form, const char *path, FILE *out, lk_error *err) {
	struct shown_sweep s = {.all = {.rows = rows, .count = count}}, *answer = &s;
	char title[LINE];
	lk_status status = prepare(&s, err);
	const lk_prediction *best = s.best >= 0 ? rows[s.best].prediction : NULL;
	bool alike = best && best->model;
	for (size_t i = 0; alike && i < count; i++)
		alike = !rows[i].prediction || (rows[i].prediction->model && strcmp(rows[i].prediction->model, best->model) == 0);
	snprintf(title, sizeof title, "%zu predictions%s%.*s", count, alike ? " of " : "", alike ? (int)strcspn(best->model, ":,") : 0, alike ? best->model : "");
	lk_report_job job = {"predict", title, best ? best->reproduce : NULL, &answer, &s.inputs, put_panels, put_assumptions, put_warnings, NULL,
	                     "the best one"};
	if (status == LK_OK) status = lk_report_save(&job, form, path, out, err);
	lk_arena_free(&s.arena);
	return status;
}
