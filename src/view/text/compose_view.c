/* compose_view.c: a composed job as text, a table of its classes of ranks, or JSON. */
#include "lockstep/compose.h"

#include <math.h>

#include "io/json.h"
#include "base/text.h"
#include "base/noun.h"
#include "view/table/output.h"
#include "view/text/views.h"

struct shown {
	const lk_composed *composed;
	bool verbose;
};

/* ---- table ---- */

static const lk_column columns[] = {
	{"rank", "rank", true, false},         {"ranks", "stands for", true, false},
	{"stands_for", "ranks", false, false}, {"steps", "steps", true, false},
	{"calls", "calls", true, false},       {"bytes", "bytes", true, false},
	{"own_s", "own work", true, false},    {"own_low_s", "10 %", true, false},
	{"own_high_s", "90 %", true, false},   {"asleep_s", "asleep", true, false},
	{"device_s", "device", true, false},   {"transfer_s", "transfer", true, false},
	{"wait_s", "waiting", true, false},    {"path", "path", false, true},
};

static void compose_view_put_time(lk_table *table, double seconds) {
	char text[64];
	lk_table_number(table, seconds, lk_format_seconds(seconds, text, sizeof text));
}

static void put_class(lk_table *table, const lk_compose_class *class) {
	char bytes[64];
	lk_table_row(table);
	lk_table_number(table, class->rank, NULL);
	lk_table_number(table, class->ranks, NULL);
	lk_table_text(table, class->stands_for);
	lk_table_number(table, class->steps, NULL);
	lk_table_number(table, class->calls, NULL);
	lk_table_number(table, class->bytes, lk_format_bytes(class->bytes, bytes, sizeof bytes));
	compose_view_put_time(table, class->own_s);
	compose_view_put_time(table, class->own_low_s);
	compose_view_put_time(table, class->own_high_s);
	compose_view_put_time(table, class->asleep_s);
	compose_view_put_time(table, class->device_s);
	compose_view_put_time(table, class->parts.transfer);
	compose_view_put_time(table, class->parts.wait);
	lk_table_text(table, class->path);
}

static lk_table *compose_view_table_of(const lk_composed *composed) {
	lk_table *table = lk_table_new("compose", columns, (int)(sizeof columns / sizeof *columns));
	for (int i = 0; table && i < composed->class_count; i++)
		put_class(table, &composed->classes[i]);
	return table;
}

/* ---- text ---- */

static void compose_view_put_part(const char *name, double seconds, double step, FILE *out) {
	char time[32], share[48];
	fprintf(out, "  %-18s %10s  %8s\n", name, lk_format_seconds(seconds, time, sizeof time),
	        lk_percent(step > 0 ? seconds / step : 0, share, sizeof share));
}

static void put_answer(const lk_composed *composed, FILE *out) {
	char step[32], low[32], high[32], first[32];
	fprintf(out, "%d %s on %d %s, from recordings of %d\n\n", composed->world,
	        lk_noun(composed->world, "rank", "ranks"), composed->nodes,
	        lk_noun(composed->nodes, "node", "nodes"), composed->class_count);
	fprintf(out, "step     %s   (%s to %s)\n",
	        lk_format_seconds(composed->step_s, step, sizeof step),
	        lk_format_seconds(composed->low_s, low, sizeof low),
	        lk_format_seconds(composed->high_s, high, sizeof high));
	fprintf(out, "first    %s   from idle ranks\n\n",
	        lk_format_seconds(composed->first_s, first, sizeof first));
	fputs("a rank's step, mean\n", out);
	if (composed->parts.device > 0)
		compose_view_put_part("device", composed->parts.device, composed->step_s, out);
	compose_view_put_part("own work", composed->parts.own, composed->step_s, out);
	compose_view_put_part("files", composed->parts.files, composed->step_s, out);
	compose_view_put_part("transfer", composed->parts.transfer, composed->step_s, out);
	compose_view_put_part("waiting", composed->parts.wait, composed->step_s, out);
	fputc('\n', out);
}

static lk_status compose_view_write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	static const char *const extras[] = {"asleep_s",   "device_s", "steps", "own_low_s",
	                                     "own_high_s", "calls",    "bytes", NULL};
	const struct shown *shown = what;
	const lk_composed *composed = shown->composed;
	put_answer(composed, out);
	LK_TRY(lk_put_fitted(compose_view_table_of(composed), extras, shown->verbose ? NULL : "-o csv",
	                     colour, out, err));
	if (composed->note_count) fputs("\nnotes\n", out);
	for (int i = 0; i < composed->note_count; i++) {
		fputs("  ", out);
		LK_TRY(lk_put_wrapped(composed->notes[i], 2, 2, out, err));
		fputc('\n', out);
	}
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}

/* ---- JSON ---- */

static void put_json_parts(lk_json_writer *writer, const lk_compose_parts *parts) {
	lk_json_object(writer, "parts");
	lk_json_put_number(writer, "device_s", parts->device);
	lk_json_put_number(writer, "own_s", parts->own);
	lk_json_put_number(writer, "files_s", parts->files);
	lk_json_put_number(writer, "transfer_s", parts->transfer);
	lk_json_put_number(writer, "wait_s", parts->wait);
	lk_json_object_end(writer);
}

static void put_json_class(lk_json_writer *writer, const lk_compose_class *class) {
	lk_json_object(writer, NULL);
	lk_json_put_integer(writer, "rank", class->rank);
	lk_json_put_text(writer, "path", class->path);
	lk_json_put_integer(writer, "ranks", class->ranks);
	lk_json_put_text(writer, "stands_for", class->stands_for);
	lk_json_put_integer(writer, "steps", class->steps);
	lk_json_put_integer(writer, "unlike", class->unlike);
	lk_json_put_integer(writer, "calls", class->calls);
	lk_json_put_number(writer, "bytes", class->bytes);
	lk_json_put_number(writer, "own_s", class->own_s);
	lk_json_put_number(writer, "own_low_s", class->own_low_s);
	lk_json_put_number(writer, "own_high_s", class->own_high_s);
	lk_json_put_number(writer, "asleep_s", class->asleep_s);
	lk_json_put_number(writer, "device_s", class->device_s);
	lk_json_put_number(writer, "device_low_s", class->device_low_s);
	lk_json_put_number(writer, "device_high_s", class->device_high_s);
	lk_json_put_number(writer, "beside_s", class->beside_s);
	put_json_parts(writer, &class->parts);
	lk_json_object_end(writer);
}

static lk_status compose_view_write_json(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_composed *composed = ((const struct shown *)what)->composed;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/compose/1", composed->failed_check);
	lk_json_put_text(&w, "program", composed->program);
	lk_json_put_text(&w, "cluster", composed->cluster);
	lk_json_put_integer(&w, "world", composed->world);
	lk_json_put_integer(&w, "nodes", composed->nodes);
	lk_json_put_integer(&w, "ranks_per_node", composed->ranks_per_node);
	lk_json_put_number(&w, "step_s", composed->step_s);
	lk_json_put_number(&w, "step_low_s", composed->low_s);
	lk_json_put_number(&w, "step_high_s", composed->high_s);
	lk_json_put_number(&w, "first_step_s", composed->first_s);
	put_json_parts(&w, &composed->parts);
	lk_json_array(&w, "classes");
	for (int i = 0; i < composed->class_count; i++) put_json_class(&w, &composed->classes[i]);
	lk_json_array_end(&w);
	lk_json_put_integer(&w, "operations", (long long)composed->operations);
	lk_json_put_integer(&w, "messages_measured", (long long)composed->messages);
	lk_json_array(&w, "notes");
	for (int i = 0; i < composed->note_count; i++) lk_json_put_text(&w, NULL, composed->notes[i]);
	lk_json_array_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_compose_print(const lk_composed *composed, int format, bool verbose, bool colour,
                           const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	struct shown s = {composed, verbose};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT) return lk_write_through(&w, compose_view_write_text, &s, err);
	if (format == LK_FORMAT_JSON) return lk_write_through(&w, compose_view_write_json, &s, err);
	return lk_write_table(&w, compose_view_table_of(composed), err);
}
