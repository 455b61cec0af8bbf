/* compose_view.c: a composed job as text, a table of its classes of ranks, or JSON. */
#include "lockstep/compose.h"

#include <math.h>

#include "io/json.h"
#include "base/text.h"
#include "view/table/output.h"

struct shown {
	const lk_composed *composed;
	bool verbose;
};

/* ---- table ---- */

static const lk_column columns[] = {
	{"rank", "rank", true, false},
	{"ranks", "stands for", true, false},
	{"stands_for", "ranks", false, false},
	{"steps", "steps", true, false},
	{"calls", "calls", true, false},
	{"bytes", "bytes", true, false},
	{"own_s", "own work", true, false},
	{"own_low_s", "10 %", true, false},
	{"own_high_s", "90 %", true, false},
	{"device_s", "device", true, false},
	{"transfer_s", "transfer", true, false},
	{"wait_s", "waiting", true, false},
	{"path", "path", false, true},
};

static void put_time(lk_table *t, double seconds) {
	char text[64];
	lk_table_number(t, seconds, lk_format_seconds(seconds, text, sizeof text));
}

static void put_class(lk_table *t, const lk_compose_class *k) {
	char bytes[64];
	lk_table_row(t);
	lk_table_number(t, k->rank, NULL);
	lk_table_number(t, k->ranks, NULL);
	lk_table_text(t, k->stands_for);
	lk_table_number(t, k->steps, NULL);
	lk_table_number(t, k->calls, NULL);
	lk_table_number(t, k->bytes, lk_format_bytes(k->bytes, bytes, sizeof bytes));
	put_time(t, k->own_s);
	put_time(t, k->own_low_s);
	put_time(t, k->own_high_s);
	put_time(t, k->device_s);
	put_time(t, k->parts.transfer);
	put_time(t, k->parts.wait);
	lk_table_text(t, k->path);
}

static lk_table *table_of(const lk_composed *x) {
	lk_table *t = lk_table_new("compose", columns, (int)(sizeof columns / sizeof *columns));
	for (int i = 0; t && i < x->class_count; i++) put_class(t, &x->classes[i]);
	return t;
}

/* ---- text ---- */

static void put_part(const char *name, double seconds, double step, FILE *out) {
	char time[32], share[48];
	fprintf(out, "  %-18s %10s  %8s\n", name, lk_format_seconds(seconds, time, sizeof time),
	        lk_percent(step > 0 ? seconds / step : 0, share, sizeof share));
}

static void put_answer(const lk_composed *x, FILE *out) {
	char step[32], low[32], high[32], first[32];
	fprintf(out, "%d ranks on %d node%s, from recordings of %d\n\n", x->world, x->nodes, x->nodes == 1 ? "" : "s", x->class_count);
	fprintf(out, "step     %s   (%s to %s)\n", lk_format_seconds(x->step_s, step, sizeof step),
	        lk_format_seconds(x->low_s, low, sizeof low), lk_format_seconds(x->high_s, high, sizeof high));
	fprintf(out, "first    %s   from idle ranks\n\n", lk_format_seconds(x->first_s, first, sizeof first));
	fputs("a rank's step, mean\n", out);
	if (x->parts.device > 0) put_part("device", x->parts.device, x->step_s, out);
	put_part("own work", x->parts.own, x->step_s, out);
	put_part("files", x->parts.files, x->step_s, out);
	put_part("transfer", x->parts.transfer, x->step_s, out);
	put_part("waiting", x->parts.wait, x->step_s, out);
	fputc('\n', out);
}

static lk_status write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_composed *x = ((const struct shown *)what)->composed;
	put_answer(x, out);
	lk_table *t = table_of(x);
	if (!t) return lk_oom(err);
	lk_status status = lk_table_write(t, LK_FORMAT_TEXT, colour, out, err);
	lk_table_free(t);
	LK_TRY(status);
	if (x->note_count) fputs("\nnotes\n", out);
	for (int i = 0; i < x->note_count; i++) {
		fputs("  ", out);
		LK_TRY(lk_put_safe(x->notes[i], out, err));
		fputc('\n', out);
	}
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}

/* ---- JSON ---- */

static void put_json_parts(lk_json_writer *w, const lk_compose_parts *p) {
	lk_json_object(w, "parts");
	lk_json_put_number(w, "device_s", p->device);
	lk_json_put_number(w, "own_s", p->own);
	lk_json_put_number(w, "files_s", p->files);
	lk_json_put_number(w, "transfer_s", p->transfer);
	lk_json_put_number(w, "wait_s", p->wait);
	lk_json_object_end(w);
}

static void put_json_class(lk_json_writer *w, const lk_compose_class *k) {
	lk_json_object(w, NULL);
	lk_json_put_integer(w, "rank", k->rank);
	lk_json_put_text(w, "path", k->path);
	lk_json_put_integer(w, "ranks", k->ranks);
	lk_json_put_text(w, "stands_for", k->stands_for);
	lk_json_put_integer(w, "steps", k->steps);
	lk_json_put_integer(w, "unlike", k->unlike);
	lk_json_put_integer(w, "calls", k->calls);
	lk_json_put_number(w, "bytes", k->bytes);
	lk_json_put_number(w, "own_s", k->own_s);
	lk_json_put_number(w, "own_low_s", k->own_low_s);
	lk_json_put_number(w, "own_high_s", k->own_high_s);
	lk_json_put_number(w, "device_s", k->device_s);
	lk_json_put_number(w, "device_low_s", k->device_low_s);
	lk_json_put_number(w, "device_high_s", k->device_high_s);
	lk_json_put_number(w, "beside_s", k->beside_s);
	put_json_parts(w, &k->parts);
	lk_json_object_end(w);
}

static lk_status write_json(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_composed *x = ((const struct shown *)what)->composed;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_text(&w, "program", x->program);
	lk_json_put_text(&w, "cluster", x->cluster);
	lk_json_put_integer(&w, "world", x->world);
	lk_json_put_integer(&w, "nodes", x->nodes);
	lk_json_put_integer(&w, "ranks_per_node", x->ranks_per_node);
	lk_json_put_number(&w, "step_s", x->step_s);
	lk_json_put_number(&w, "step_low_s", x->low_s);
	lk_json_put_number(&w, "step_high_s", x->high_s);
	lk_json_put_number(&w, "first_step_s", x->first_s);
	put_json_parts(&w, &x->parts);
	lk_json_array(&w, "classes");
	for (int i = 0; i < x->class_count; i++) put_json_class(&w, &x->classes[i]);
	lk_json_array_end(&w);
	lk_json_put_integer(&w, "operations", (long long)x->operations);
	lk_json_put_integer(&w, "messages_measured", (long long)x->messages);
	lk_json_array(&w, "notes");
	for (int i = 0; i < x->note_count; i++) lk_json_put_text(&w, NULL, x->notes[i]);
	lk_json_array_end(&w);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_compose_print(const lk_composed *composed, int format, bool verbose, bool colour, const char *path, FILE *out,
                           lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	struct shown s = {composed, verbose};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT) return lk_write_through(&w, write_text, &s, err);
	if (format == LK_FORMAT_JSON) return lk_write_through(&w, write_json, &s, err);
	return lk_write_table(&w, table_of(composed), err);
}
