/* noise_read.c: rows of noise, from data/noise.csv by the name of a preset or from a file of the
 * same form. */
#include "noise/noise.h"

#include <string.h>

#include "base/text.h"
#include "io/csv.h"
#include "io/embedded.h"

const char *const lk_noise_level_names[LK_NOISE_LEVELS + 1] = {
#define LEVEL_NAME(symbol, name, what) name,
	LK_NOISE_LEVELS_OF(LEVEL_NAME)
#undef LEVEL_NAME
		NULL};

enum { LEVEL, KIND, CHANCE, LOW, HIGH, UNIT, NEEDED, PRESET = NEEDED, SOURCE, COLUMNS };
static const char *const columns[COLUMNS] = {"level", "kind", "chance", "low",
                                             "high",  "unit", "preset", "source"};
static const char *const kinds[] = {"spread", "delay", NULL};
static const char *const units[] = {"share", "s", NULL};
static const double MOST = 1e6; /* of a share or of seconds */

typedef struct noise_reading {
	const char *preset; /* NULL: all rows */
	lk_noise *out;
	lk_text *names; /* of the presets in the file, each once; NULL: not collected */
	char last[64];
} noise_reading;

static lk_status read_word(const lk_csv *csv, int column, const char *name,
                           const char *const *words, int *out, lk_error *err) {
	char known[128], place[LK_CSV_PLACE];
	const char *field = lk_csv_field(csv, column);
	for (*out = 0; words[*out]; ++*out)
		if (lk_same_name(field, words[*out])) return LK_OK;
	lk_text text = lk_text_begin(known, sizeof known);
	for (int i = 0; words[i]; i++) lk_text_add(&text, "%s%s", i ? ", " : "", words[i]);
	lk_fail(err, LK_ERR_INPUT, lk_csv_place(csv, name, place), "\"%.40s\" is not one of %s", field,
	        known);
	return lk_hint(err, "docs/method/uncertainty.md has the form of such files");
}

/* What no limit of a single number says. */
static lk_status check_noise_row(const lk_noise_row *row, const char *where, lk_error *err) {
	if (row->delay && !(row->low > 0 && row->high >= row->low))
		return lk_fail(err, LK_ERR_INPUT, where,
		               "a delay is between a low above 0 and a high of at least as much");
	if (!row->delay && (row->chance != 1 || row->high != 0))
		return lk_fail(err, LK_ERR_INPUT, where, "a spread has chance 1 and high 0");
	if (!row->delay && !row->seconds && row->low > 2)
		return lk_fail(err, LK_ERR_INPUT, where, "a spread of more than 2 is no deviation");
	if (row->level == LK_NOISE_OPERATION && (row->delay || row->seconds))
		return lk_fail(err, LK_ERR_INPUT, where, "level operation has spreads in shares only");
	return LK_OK;
}

lk_status lk_noise_add(lk_noise *noise, lk_noise_row row, const char *where, lk_error *err) {
	if (noise->count == LK_NOISE_ROWS)
		return lk_fail(err, LK_ERR_INPUT, where, "more than %d rows of noise", LK_NOISE_ROWS);
	noise->row[noise->count++] = row;
	return LK_OK;
}

/* Rows of a preset follow one another. */
static void note_preset(noise_reading *reading, const char *preset) {
	if (!reading->names || !*preset || strcmp(preset, reading->last) == 0) return;
	lk_text_add(reading->names, "%s%s", *reading->last ? ", " : "", preset);
	snprintf(reading->last, sizeof reading->last, "%s", preset);
}

static lk_status take_noise_row(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	noise_reading *reading = context;
	lk_noise_row row = {0};
	int level, kind, unit;
	const char *preset = lk_csv_field(csv, at[PRESET]);
	note_preset(reading, preset);
	if (reading->preset && !lk_same_name(preset, reading->preset)) return LK_OK;
	LK_TRY(read_word(csv, at[LEVEL], "level", lk_noise_level_names, &level, err));
	LK_TRY(read_word(csv, at[KIND], "kind", kinds, &kind, err));
	LK_TRY(read_word(csv, at[UNIT], "unit", units, &unit, err));
	row.level = (lk_noise_level)level;
	row.delay = kind == 1;
	row.seconds = unit == 1;
	const char *where = lk_csv_where(csv);
	LK_TRY(lk_parse_real(lk_csv_field(csv, at[CHANCE]), 0, 1, &row.chance, where, err));
	LK_TRY(lk_parse_real(lk_csv_field(csv, at[LOW]), 0, MOST, &row.low, where, err));
	LK_TRY(lk_parse_real(lk_csv_field(csv, at[HIGH]), 0, MOST, &row.high, where, err));
	LK_TRY(check_noise_row(&row, where, err));
	return lk_noise_add(reading->out, row, where, err);
}

static lk_status noise_head(void *context, const lk_csv *csv, const int *at, lk_error *err) {
	(void)context, (void)at;
	return lk_csv_refuse_others(csv, columns, COLUMNS, "table of noise", err);
}

static lk_status read_rows(lk_stream *in, noise_reading *reading, lk_error *err) {
	const lk_csv_table table = {columns, COLUMNS,        NEEDED,    "table of noise",
	                            10000,   take_noise_row, noise_head};
	return lk_csv_read(in, &table, reading, err);
}

lk_status lk_noise_read_stream(lk_stream *in, lk_noise *out, lk_error *err) {
	noise_reading reading = {.out = out};
	*out = (lk_noise){0};
	LK_TRY(read_rows(in, &reading, err));
	if (out->count > 0) return LK_OK;
	return lk_fail(err, LK_ERR_INPUT, "noise", "the table has no rows");
}

lk_status lk_noise_read(lk_arena *arena, const char *preset_or_file, lk_noise *out, lk_error *err) {
	char names[512];
	lk_text text = lk_text_begin(names, sizeof names);
	noise_reading reading = {.preset = preset_or_file, .out = out, .names = &text};
	lk_stream *in;
	*out = (lk_noise){0};
	LK_TRY(lk_data_open(NULL, "noise.csv", &in, err));
	lk_status status = read_rows(in, &reading, err);
	lk_stream_close(in);
	LK_TRY(status);
	out->name = lk_arena_printf(arena, "preset %s", preset_or_file);
	if (out->count > 0) return out->name ? LK_OK : lk_oom(err);
	char known[512];
	snprintf(known, sizeof known, "%s", names);
	if (lk_stream_open(preset_or_file, &in, err) != LK_OK)
		return lk_hint(err, "give a file of lockstep explain LOG --noise FILE, or a preset: %s",
		               known);
	status = lk_noise_read_stream(in, out, err);
	lk_stream_close(in);
	LK_TRY(status);
	out->name = lk_arena_strdup(arena, preset_or_file);
	return out->name ? LK_OK : lk_oom(err);
}

lk_status lk_noise_write(const char *path, const lk_noise *noise, const char *source,
                         lk_error *err) {
	lk_sink *sink;
	LK_TRY(lk_sink_open(path, &sink, err));
	lk_sink_printf(sink, "# %s\nlevel,kind,chance,low,high,unit\n", source);
	for (int i = 0; i < noise->count; i++) {
		const lk_noise_row *row = &noise->row[i];
		lk_sink_printf(sink, "%s,%s,%.4g,%.4g,%.4g,%s\n", lk_noise_level_names[row->level],
		               kinds[row->delay], row->chance, row->low, row->high, units[row->seconds]);
	}
	return lk_sink_commit(sink, err);
}
