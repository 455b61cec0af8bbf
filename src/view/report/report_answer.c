/* report_answer.c: the report of an answer that is only known as JSON: what -o json of any verb
 * writes, or the document of a report. Single values become figures and facts, the parts of a step
 * a waterfall, memory of stages bars, every array of objects a table. Keys say the units. */
#include "view/report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "io/form.h"
#include "io/stream.h"
#include "view/table/table.h"

enum { TEXT = 96, COLUMNS = 48, FIGURES = 8, MOST_ROWS = 2500 };

struct answer {
	lk_arena *arena;
	const lk_value *value;
	const char *verb;
};

/* ---- keys and values as texts ---- */

static char *format_percentage(double value, char *out, size_t size) {
	snprintf(out, size, "%.1f %%", value);
	return out;
}
static char *format_microseconds(double value, char *out, size_t size) {
	return lk_format_seconds(value * 1e-6, out, size);
}
static char *format_gigabytes(double value, char *out, size_t size) {
	return lk_format_rate(value * 1e9, out, size);
}
static char *format_operations(double value, char *out, size_t size) {
	snprintf(out, size, "%.1f TFLOP/s", value * 1e-12);
	return out;
}
static char *format_watts(double value, char *out, size_t size) {
	char number[TEXT];
	snprintf(out, size, "%s W", lk_format_thousands(value, number, sizeof number));
	return out;
}
/* "9,400", "418.2", "0.0191" */
static char *format_plain(double value, char *out, size_t size) {
	if (fabs(value) >= 999.5) return lk_format_thousands(value, out, size);
	snprintf(out, size, "%.4g", value);
	return out;
}

static char *format_hours(double value, char *out, size_t size) {
	char number[TEXT];
	snprintf(out, size, "%s h", format_plain(value, number, sizeof number));
	return out;
}
static char *format_price(double value, char *out, size_t size) {
	char number[TEXT];
	snprintf(out, size, "%s/h", lk_format_dollars(value, number, sizeof number));
	return out;
}

/* What the end of a key says of its number, the longest ending first. `label` stands for the ending
 * in the label; NULL: the ending itself does, as the number does not say it. */
static const struct {
	const char *ending, *label;
	char *(*format)(double value, char *out, size_t size);
} units[] = {
	{"_bytes_per_s", "", lk_format_rate},
	{"_per_s", NULL, format_plain},
	{"_s", "", lk_format_seconds},
	{"_us", "", format_microseconds},
	{"_usd_h", "", format_price},
	{"_h", "", format_hours},
	{"_bytes", "", lk_format_bytes},
	{"_GBps", "", format_gigabytes},
	{"_pctg", "", format_percentage},
	{"_flops", "", format_operations},
	{"_watts", " power", format_watts},
	{"_usd", "", lk_format_dollars},
	{"_kwh", " energy", lk_format_energy},
	{"_kg", "", lk_format_mass},
	{"_per_gpu", NULL, format_plain},
	{"gpu_hours", NULL, lk_format_thousands},
	{"mfu", NULL, lk_percent},
	{"hfu", NULL, lk_percent},
};

static int unit_of_key(const char *key) {
	int count = sizeof units / sizeof *units, i = 0;
	while (i < count && !lk_ends_in(key, units[i].ending)) i++;
	return i < count ? i : -1;
}

/* Keys that people call by another name, and words of keys that they write in another way. */
static const char *const names[][2] = {
	{"peak_bytes", "peak memory"},
	{"usable_bytes", "usable memory"},
	{"peak", "peak of the GPU"},
	{"gbs", "global batch"},
	{"mbs", "micro-batch"},
	{"seq", "sequence length"},
	{"microbatches", "micro-batches"},
	{"cheapest", "cheapest: number, from 0"},
	{"fastest", "fastest: number, from 0"},
};
static const char *const spellings[][2] = {
	{"gpu", "GPU"}, {"gpus", "GPUs"}, {"mfu", "MFU"},        {"hfu", "HFU"},   {"pue", "PUE"},
	{"kwh", "kWh"}, {"nccl", "NCCL"}, {"tflops", "TFLOP/s"}, {"mape", "MAPE"}, {"per", "/"},
};

/* `word` itself, where it has no other spelling. */
static const char *spelling_of(const char *word) {
	for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
		if (strcmp(spellings[i][0], word) == 0) return spellings[i][1];
	return word;
}

/* "step_time_s" as "step time", "tokens_per_s_per_gpu" as "tokens/s/GPU". */
static const char *label_of_key(lk_arena *arena, const char *key) {
	char label[3 * TEXT] = "", word[TEXT];
	int unit = unit_of_key(key);
	const char *rest = unit >= 0 ? units[unit].label : NULL;
	size_t cut = rest ? strlen(units[unit].ending) : 0, used = 0;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(names[i][0], key) == 0) return names[i][1];
	if (strlen(key) >= TEXT) return lk_arena_strdup(arena, key);
	for (size_t at = 0, length = strlen(key) - cut; at < length;) {
		size_t size = strcspn(key + at, "_ ");
		if (size > length - at) size = length - at;
		lk_copy(word, size + 1, key + at);
		const char *shown = spelling_of(word);
		bool apart = used > 0 && *shown != '/' && label[used - 1] != '/';
		if (apart) label[used++] = ' ';
		lk_copy(label + used, sizeof label - used, shown);
		used += strlen(shown);
		at += size + 1;
	}
	lk_copy(label + used, sizeof label - used, rest ? rest : "");
	return lk_arena_strdup(arena, label);
}

/* Of a panel: the first letter is a capital. */
static const char *title_of_key(lk_arena *arena, const char *key) {
	const char *label = label_of_key(arena, key);
	char *title = label ? lk_arena_strdup(arena, label) : NULL;
	if (title && *title >= 'a' && *title <= 'z') *title = (char)(*title - 'a' + 'A');
	return title;
}

static const char *show_number(const char *key, double number, char text[TEXT]) {
	int unit = unit_of_key(key);
	return unit >= 0 ? units[unit].format(number, text, TEXT) : format_plain(number, text, TEXT);
}

static bool is_single(const lk_value *value) {
	return value->kind == LK_JSON_STRING || value->kind == LK_JSON_NUMBER ||
	       value->kind == LK_JSON_TRUE || value->kind == LK_JSON_FALSE;
}

static const char *show_single(const char *key, const lk_value *value, char text[TEXT]) {
	if (value->kind == LK_JSON_STRING) return value->text;
	if (value->kind == LK_JSON_NUMBER) return show_number(key, value->number, text);
	return value->kind == LK_JSON_TRUE ? "yes" : "no";
}

static const char *text_of(const lk_value *object, const char *key) {
	const lk_value *value = object->kind == LK_JSON_OBJECT ? lk_json_get(object, key) : NULL;
	return value && value->kind == LK_JSON_STRING ? value->text : NULL;
}

static bool all_are(const lk_value *array, lk_json_token kind) {
	for (size_t i = 0; i < array->count; i++)
		if (array->items[i].kind != kind) return false;
	return array->kind == LK_JSON_ARRAY && array->count > 0;
}

/* Said elsewhere on the page. */
static bool is_head_key(const char *key) {
	static const char *const head[] = {"schema",   "version",     "data_date",   "reproduce",
	                                   "fits",     "assumptions", "warnings",    "warning",
	                                   "sentence", "checked",     "failed_check"};
	for (size_t i = 0; i < sizeof head / sizeof *head; i++)
		if (strcmp(head[i], key) == 0) return true;
	return false;
}

/* ---- the verdict ---- */

/* The number under `key` with `add` before its unit and without `drop` there: of "step_time_s" that
 * of "step_time_low_s" and back again; NULL: there is none. */
static const lk_value *sibling(lk_arena *arena, const lk_value *object, const char *key,
                               const char *drop, const char *add) {
	int unit = unit_of_key(key);
	const char *ending = unit >= 0 ? units[unit].ending : "";
	size_t length = strlen(key) - strlen(ending), dropped = strlen(drop);
	if (*ending != '_' || length < dropped || length >= TEXT || object->count > 1000 ||
	    strncmp(key + length - dropped, drop, dropped) != 0)
		return NULL;
	const char *name =
		lk_arena_printf(arena, "%.*s%s%s", (int)(length - dropped), key, add, ending);
	const lk_value *value = name ? lk_json_get(object, name) : NULL;
	return value && value->kind == LK_JSON_NUMBER ? value : NULL;
}

/* Whether it is said as the end of the range of another value. */
static bool ends_range(lk_arena *arena, const lk_value *object, const char *key) {
	return sibling(arena, object, key, "_low", "") || sibling(arena, object, key, "_high", "");
}

/* The numbers that come first, in large letters: `out` has their places. */
static int pick_figures(const struct answer *answer, size_t out[FIGURES]) {
	const lk_value *value = answer->value;
	int count = 0;
	for (size_t i = 0; value->kind == LK_JSON_OBJECT && i < value->count && count < FIGURES; i++)
		if (value->items[i].kind == LK_JSON_NUMBER && !is_head_key(value->keys[i]) &&
		    !ends_range(answer->arena, value, value->keys[i]))
			out[count++] = i;
	return count;
}

static void put_answer_figures(lk_report *writer, const struct answer *answer,
                               const size_t *figures, int count) {
	const lk_value *value = answer->value;
	char text[TEXT], from[TEXT], to[TEXT];
	lk_report_figures(writer);
	for (int i = 0; i < count; i++) {
		const char *key = value->keys[figures[i]], *range = NULL;
		const lk_value *low = sibling(answer->arena, value, key, "", "_low"),
					   *high = sibling(answer->arena, value, key, "", "_high");
		if (low && high)
			range = lk_arena_printf(answer->arena, "%s \xe2\x80\x93 %s",
			                        show_number(key, low->number, from),
			                        show_number(key, high->number, to));
		lk_report_figure(writer, label_of_key(answer->arena, key),
		                 show_number(key, value->items[figures[i]].number, text), range, NULL);
	}
	lk_json_array_end(writer);
}

/* Texts and switches, and the numbers that are no figures any more. */
static void put_answer_facts(lk_report *writer, const struct answer *answer, const size_t *figures,
                             int count) {
	const lk_value *value = answer->value;
	char text[TEXT];
	int next = 0;
	lk_report_facts(writer);
	for (size_t i = 0; value->kind == LK_JSON_OBJECT && i < value->count; i++) {
		const lk_value *item = &value->items[i];
		if (next < count && figures[next] == i) next++;
		else if (is_single(item) && !is_head_key(value->keys[i]) &&
		         !ends_range(answer->arena, value, value->keys[i]))
			lk_report_fact(writer, label_of_key(answer->arena, value->keys[i]),
			               show_single(value->keys[i], item, text));
	}
	lk_json_array_end(writer);
}

static void put_answer_verdict(lk_report *writer, const struct answer *answer) {
	const lk_value *value = answer->value, *fits = NULL;
	const char *said = text_of(value, "sentence");
	char line[TEXT];
	if (value->kind == LK_JSON_OBJECT) fits = lk_json_get(value, "fits");
	snprintf(line, sizeof line, "What lockstep %s answered", answer->verb);
	bool risky = lk_json_get_number(value, "out_of_memory", 0) >= LK_OUT_OF_MEMORY_LIKELY;
	if (fits && fits->kind == LK_JSON_TRUE && risky)
		lk_report_verdict(writer, "no", "May not fit", said);
	else if (fits && fits->kind == LK_JSON_TRUE) lk_report_verdict(writer, "yes", "Fits", said);
	else if (fits && fits->kind == LK_JSON_FALSE)
		lk_report_verdict(writer, "no", "Does not fit", said);
	else lk_report_verdict(writer, "plain", said ? said : line, NULL);
	size_t figures[FIGURES];
	int count = pick_figures(answer, figures);
	put_answer_figures(writer, answer, figures, count);
	put_answer_facts(writer, answer, figures, count);
	lk_report_panel_end(writer);
}

/* ---- parts of a step ---- */

/* {part: {label, exposed_s, ...}}, which add up to the step. */
static bool is_breakdown(const lk_value *value) {
	for (size_t i = 0; i < value->count; i++) {
		if (!text_of(&value->items[i], "label")) return false;
		const lk_value *seconds = lk_json_get(&value->items[i], "exposed_s");
		if (!seconds || seconds->kind != LK_JSON_NUMBER) return false;
	}
	return value->kind == LK_JSON_OBJECT && value->count > 0;
}

static void put_breakdown(lk_report *writer, const char *title, const lk_value *value) {
	double sum = 0;
	lk_report_panel(writer, "waterfall", title, "time that nothing overlaps, part by part", true);
	lk_json_array(writer, "steps");
	for (size_t i = 0; i < value->count; i++) {
		double seconds = lk_json_get(&value->items[i], "exposed_s")->number;
		lk_report_fall(writer, value->keys[i], text_of(&value->items[i], "label"), seconds, NULL,
		               false);
		sum += seconds;
	}
	lk_report_fall(writer, "total", "together", sum, NULL, true);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

/* ---- memory ---- */

static bool is_memory(const char *key, const lk_value *value) {
	return strcmp(key, "memory") == 0 && all_are(value, LK_JSON_OBJECT) &&
	       lk_json_get(&value->items[0], "total_bytes");
}

/* Whether it is a part; others are sums of parts, or their bounds. */
static bool is_memory_part(const char *key) {
	static const char *const sums[] = {"total_bytes", "allocated_bytes", "allocated_low_bytes",
	                                   "allocated_high_bytes", "reserved_bytes"};
	for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
		if (strcmp(sums[i], key) == 0) return false;
	return lk_ends_in(key, "_bytes");
}

static double bytes_of(const lk_value *row, const char *key) {
	const lk_value *value = lk_json_get(row, key);
	return value && value->kind == LK_JSON_NUMBER ? value->number : 0;
}

static void put_memory_row(lk_report *writer, const lk_value *row, size_t number,
                           const lk_value *first) {
	char name[TEXT];
	snprintf(name, sizeof name, "stage %zu", number);
	lk_json_object(writer, NULL);
	lk_json_put_text(writer, "name", name);
	if (text_of(row, "moment")) lk_json_put_text(writer, "moment", text_of(row, "moment"));
	lk_json_array(writer, "values");
	for (size_t i = 0; i < first->count; i++)
		if (is_memory_part(first->keys[i]))
			lk_json_put_number(writer, NULL, bytes_of(row, first->keys[i]));
	lk_json_put_number(writer, NULL,
	                   fmax(0, bytes_of(row, "reserved_bytes") - bytes_of(row, "allocated_bytes")));
	lk_json_array_end(writer);
	lk_json_object_end(writer);
}

static void put_memory(lk_report *writer, const struct answer *answer, const lk_value *value) {
	const lk_value *limit = lk_json_get(answer->value, "usable_bytes"), *first = &value->items[0];
	lk_report_panel(writer, "memory", "Memory at its peak", "a bar for each pipeline stage", true);
	if (limit && limit->kind == LK_JSON_NUMBER) lk_json_put_number(writer, "limit", limit->number);
	lk_json_array(writer, "parts");
	for (size_t i = 0; i < first->count; i++) {
		if (!is_memory_part(first->keys[i])) continue;
		/* the key chooses the colour: "nccl" of "nccl_bytes" */
		lk_report_part(writer,
		               lk_arena_strndup(answer->arena, first->keys[i],
		                                strlen(first->keys[i]) - strlen("_bytes")),
		               label_of_key(answer->arena, first->keys[i]));
	}
	lk_report_part(writer, "unused", "reserved, unused");
	lk_json_array_end(writer);
	lk_json_array(writer, "rows");
	for (size_t i = 0; i < value->count; i++) put_memory_row(writer, &value->items[i], i, first);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

/* ---- tables ---- */

struct table {
	lk_column columns[COLUMNS];
	bool is_switch[COLUMNS]; /* yes or no, as the columns were added */
	int count;
	bool left_out; /* more keys than columns */
};

static int column_of_key(const struct table *table, const char *key) {
	int i = 0;
	while (i < table->count && strcmp(table->columns[i].key, key) != 0) i++;
	return i < table->count ? i : -1;
}

static const char *joined_key(lk_arena *arena, const char *before, const char *key) {
	return before ? lk_arena_printf(arena, "%s %s", before, key) : key;
}

/* Columns for single values of a row and of the objects in it, in the order in which they come. */
static void add_columns(struct table *table, lk_arena *arena, const char *before,
                        const lk_value *row) {
	for (size_t i = 0; i < row->count; i++) {
		const char *key = joined_key(arena, before, row->keys[i]);
		const lk_value *item = &row->items[i];
		if (item->kind == LK_JSON_OBJECT) add_columns(table, arena, key, item);
		if (!is_single(item) || !key || column_of_key(table, key) >= 0) continue;
		table->left_out |= table->count == COLUMNS;
		if (table->count == COLUMNS) continue;
		table->is_switch[table->count] = item->kind == LK_JSON_TRUE || item->kind == LK_JSON_FALSE;
		table->columns[table->count++] =
			(lk_column){key, label_of_key(arena, key), item->kind == LK_JSON_NUMBER, false};
	}
}

/* The value under a joined key; NULL: the row has none. */
static const lk_value *find_cell(lk_arena *arena, const char *before, const lk_value *row,
                                 const char *wanted) {
	for (size_t i = 0; i < row->count; i++) {
		const char *key = joined_key(arena, before, row->keys[i]);
		const lk_value *item = &row->items[i], *found = NULL;
		if (key && strcmp(key, wanted) == 0) return item;
		if (key && item->kind == LK_JSON_OBJECT) found = find_cell(arena, key, item, wanted);
		if (found) return found;
	}
	return NULL;
}

static void add_cell(lk_table *table, const char *key, const lk_value *value) {
	char text[TEXT];
	if (!value || !is_single(value)) lk_table_text(table, NULL);
	else if (value->kind == LK_JSON_NUMBER)
		lk_table_number(table, value->number, show_number(key, value->number, text));
	else if (value->kind == LK_JSON_STRING) lk_table_text(table, value->text);
	else lk_table_bool(table, value->kind == LK_JSON_TRUE);
}

/* What a row is comes first, then what was found of it, how it is divided, its switches, and its
 * long command last. */
static int place_of_column(const struct table *table, int column) {
	const char *key = table->columns[column].key;
	if (strcmp(key, "reproduce") == 0) return 4;
	if (table->is_switch[column]) return 3;
	if (!table->columns[column].right) return 0;
	return unit_of_key(key) >= 0 ? 1 : 2;
}

static void order_columns(struct table *table) {
	lk_column ordered[COLUMNS] = {0};
	int count = 0;
	for (int place = 0; place <= 4; place++)
		for (int i = 0; i < table->count; i++)
			if (place_of_column(table, i) == place) ordered[count++] = table->columns[i];
	memcpy(table->columns, ordered, (size_t)count * sizeof *ordered);
}

static lk_status put_rows(lk_report *writer, const struct answer *answer, const char *title,
                          const lk_value *rows, lk_error *err) {
	struct table shape = {.count = 0};
	for (size_t i = 0; i < rows->count; i++)
		add_columns(&shape, answer->arena, NULL, &rows->items[i]);
	if (shape.count == 0) return LK_OK;
	order_columns(&shape);
	lk_table *table = lk_table_new("rows", shape.columns, shape.count);
	for (size_t i = 0; table && i < rows->count; i++) {
		lk_table_row(table);
		for (int c = 0; c < shape.count; c++)
			add_cell(table, shape.columns[c].key,
			         find_cell(answer->arena, NULL, &rows->items[i], shape.columns[c].key));
	}
	return lk_report_table(writer, title, shape.left_out ? "the first columns of more" : NULL, true,
	                       table, MOST_ROWS, err);
}

/* ---- any value ---- */

static lk_status put_value(lk_report *writer, const struct answer *answer, const char *title,
                           const lk_value *value, lk_error *err);

static void put_texts(lk_report *writer, const char *title, const lk_value *texts) {
	lk_report_panel(writer, "text", title, NULL, false);
	lk_json_array(writer, "lines");
	for (size_t i = 0; i < texts->count; i++) lk_report_text(writer, texts->items[i].text);
	lk_json_array_end(writer);
	lk_report_panel_end(writer);
}

static lk_status put_member(lk_report *writer, const struct answer *answer, const char *title,
                            const lk_value *value, size_t i, lk_error *err) {
	const char *label = title ? label_of_key(answer->arena, value->keys[i])
	                          : title_of_key(answer->arena, value->keys[i]);
	if (label && title) label = lk_arena_printf(answer->arena, "%s: %s", title, label);
	if (!label) return lk_oom(err);
	if (!title && is_head_key(value->keys[i])) return LK_OK;
	if (!is_memory(value->keys[i], &value->items[i]))
		return put_value(writer, answer, label, &value->items[i], err);
	put_memory(writer, answer, &value->items[i]);
	return LK_OK;
}

/* What its members hold that is no single value; lists of sentences after all else. */
static lk_status put_members(lk_report *writer, const struct answer *answer, const char *title,
                             const lk_value *value, lk_error *err) {
	for (int sentences = 0; sentences < 2; sentences++)
		for (size_t i = 0; i < value->count; i++)
			if (all_are(&value->items[i], LK_JSON_STRING) == sentences)
				LK_TRY(put_member(writer, answer, title, value, i, err));
	return LK_OK;
}

/* An object as a table of one row. */
static lk_status put_object(lk_report *writer, const struct answer *answer, const char *title,
                            const lk_value *value, lk_error *err) {
	lk_value row = *value;
	const lk_value rows = {.kind = LK_JSON_ARRAY, .count = 1, .items = &row};
	if (is_breakdown(value)) {
		put_breakdown(writer, title, value);
		return LK_OK;
	}
	LK_TRY(put_rows(writer, answer, title, &rows, err));
	return put_members(writer, answer, title, value, err);
}

static lk_status put_value(lk_report *writer, const struct answer *answer, const char *title,
                           const lk_value *value, lk_error *err) {
	if (value->kind == LK_JSON_OBJECT) return put_object(writer, answer, title, value, err);
	if (all_are(value, LK_JSON_STRING)) {
		put_texts(writer, title, value);
		return LK_OK;
	}
	if (!all_are(value, LK_JSON_OBJECT)) return LK_OK;
	LK_TRY(put_rows(writer, answer, title, value, err));
	/* Arrays inside of rows: tables of their own. */
	for (size_t i = 0; i < value->count && value->count <= FIGURES; i++) {
		const char *name =
			value->count > 1 ? lk_arena_printf(answer->arena, "%s %zu", title, i + 1) : title;
		if (!name) return lk_oom(err);
		const lk_value *row = &value->items[i];
		for (size_t k = 0; k < row->count; k++) {
			if (row->items[k].kind != LK_JSON_ARRAY) continue;
			const char *label = title_of_key(answer->arena, row->keys[k]);
			if (label && value->count > 1)
				label = lk_arena_printf(answer->arena, "%s: %s", name,
				                        label_of_key(answer->arena, row->keys[k]));
			if (!label) return lk_oom(err);
			LK_TRY(put_value(writer, answer, label, &row->items[k], err));
		}
	}
	return LK_OK;
}

static lk_status put_answer_panels(const void *what, lk_report *writer, lk_error *err) {
	const struct answer *answer = what;
	put_answer_verdict(writer, answer);
	if (answer->value->kind == LK_JSON_OBJECT)
		return put_members(writer, answer, NULL, answer->value, err);
	return put_rows(writer, answer, "Answers", answer->value, err);
}

/* ---- the frame ---- */

static void put_lines(const struct answer *answer, const char *key, lk_report *writer) {
	const lk_value *value =
		answer->value->kind == LK_JSON_OBJECT ? lk_json_get(answer->value, key) : NULL;
	if (value && value->kind == LK_JSON_STRING) lk_report_text(writer, value->text);
	for (size_t i = 0; value && value->kind == LK_JSON_ARRAY && i < value->count; i++)
		if (value->items[i].kind == LK_JSON_STRING) lk_report_text(writer, value->items[i].text);
}

static void put_answer_assumptions(const void *what, lk_report *writer) {
	put_lines(what, "assumptions", writer);
}

static void put_answer_warnings(const void *what, lk_report *writer) {
	put_lines(what, "warning", writer);
	put_lines(what, "warnings", writer);
}

static lk_status write_answer_json(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct answer *answer = what;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, true);
	lk_json_put_value(&w, NULL, answer->value);
	return lk_json_finish(&w, err);
}

/* A document that a report wrote already. */
static bool is_document(const lk_value *value) {
	if (!text_of(value, "verb") || !text_of(value, "title")) return false;
	const lk_value *panels = lk_json_get(value, "panels");
	if (!panels || !all_are(panels, LK_JSON_OBJECT)) return false;
	for (size_t i = 0; i < panels->count; i++)
		if (!text_of(&panels->items[i], "kind") || !text_of(&panels->items[i], "title"))
			return false;
	return true;
}

static lk_status report_value(struct answer *answer, const char *name, lk_report_form form,
                              const char *path, FILE *out, lk_error *err) {
	const lk_value *value = answer->value;
	const lk_inputs none = {NULL, 0};
	char verb[64];
	if (is_document(value)) {
		const lk_report_job whole = {.title = text_of(value, "title"), .answer = value};
		return lk_report_save(&whole, form, path, out, err);
	}
	LK_TRY(lk_form_check_answer(all_are(value, LK_JSON_OBJECT) ? &value->items[0] : value, name,
	                            verb, sizeof verb, err));
	answer->verb = verb;
	if (!*verb) {
		lk_fail(err, LK_ERR_INPUT, name, "is not an answer of lockstep");
		return lk_hint(err, "give what lockstep VERB -o json writes");
	}
	const char *title = text_of(value, "model");
	if (!title) title = lk_arena_printf(answer->arena, "An answer of lockstep %s", answer->verb);
	if (!title) return lk_oom(err);
	const lk_report_job job = {.verb = answer->verb,
	                           .title = title,
	                           .reproduce = text_of(value, "reproduce"),
	                           .answer = answer,
	                           .inputs = &none,
	                           .panels = put_answer_panels,
	                           .assumptions = put_answer_assumptions,
	                           .warnings = put_answer_warnings,
	                           .result = write_answer_json,
	                           .failed_check = text_of(value, "failed_check")};
	return lk_report_save(&job, form, path, out, err);
}

lk_status lk_report_answer(const char *json, size_t size, const char *name, lk_report_form form,
                           const char *path, FILE *out, lk_error *err) {
	lk_arena arena = {0};
	lk_stream *in = NULL;
	lk_value *value = NULL;
	LK_TRY(lk_stream_memory(json, size, name, &in, err));
	lk_status status = lk_json_document(&arena, in, &value, err);
	lk_stream_close(in);
	struct answer answer = {.arena = &arena, .value = value};
	if (status == LK_OK) status = report_value(&answer, name, form, path, out, err);
	lk_arena_free(&arena);
	return status;
}
