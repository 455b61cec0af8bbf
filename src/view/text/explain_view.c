/* explain_view.c: an explanation in every format. */
#include "view/text/views.h"

#include <math.h>

/* The part of an explanation that is written. */
struct asked {
	const lk_explanation *x;
	int table, format;
};

static lk_status write_report(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct asked *a = what;
	return lk_explain_report(a->x, colour, out, err);
}

/* ---- JSON: one document ---- */

static void put_head(lk_json_writer *w, const lk_explanation *x) {
	lk_json_put_integer(w, "ranks", x->rank_count);
	if (x->world) lk_json_put_integer(w, "world_size", x->world);
	else lk_json_put_null(w, "world_size");
	lk_json_put_integer(w, "step_count", x->step_count);
	lk_json_put_bool(w, "steps_annotated", x->annotated);
	lk_json_put_number(w, "step_s", x->step_s);
	lk_json_put_number(w, "step_deviation_s", x->step_deviation_s);
	lk_json_put_integer(w, "kernel_count", (long long)x->kernels);
	lk_json_put_integer(w, "clock_anchors", x->anchors);
	lk_json_put_number(w, "clock_residual_max_s", x->residual_max_s);
}

static void put_critical(lk_json_writer *w, const lk_critical_path *path) {
	lk_json_array(w, "critical_path");
	for (int i = 0; i < path->part_count; i++) {
		lk_json_object(w, NULL);
		lk_json_put_text(w, "kind", path->parts[i].kind);
		lk_json_put_number(w, "seconds", path->parts[i].seconds);
		lk_json_object_end(w);
	}
	lk_json_array_end(w);
}

static lk_status put_tables(lk_json_writer *w, const struct asked *a, lk_error *err) {
	for (int i = LK_EXPLAIN_ALL + 1; i < LK_EXPLAIN_TABLES; i++) {
		if (a->table != LK_EXPLAIN_ALL && a->table != i) continue;
		lk_table *t = lk_explain_table(a->x, i, false);
		if (!t) return lk_oom(err);
		lk_json_put_table(w, lk_explain_tables[i], t);
		lk_table_free(t);
	}
	return LK_OK;
}

static lk_status write_json(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct asked *a = what;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	put_head(&w, a->x);
	LK_TRY(put_tables(&w, a, err));
	put_critical(&w, &a->x->critical);
	lk_json_array(&w, "warnings");
	for (int i = 0; i < a->x->warning_count; i++) lk_json_put_text(&w, NULL, a->x->warnings[i]);
	lk_json_array_end(&w);
	lk_json_put_text(&w, "reproduce", a->x->reproduce);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

/* ---- several tables ---- */

static lk_status write_markdown(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct asked *a = what;
	for (int i = LK_EXPLAIN_ALL + 1; i < LK_EXPLAIN_TABLES; i++) {
		lk_table *t = lk_explain_table(a->x, i, true);
		if (!t) return lk_oom(err);
		lk_status status = LK_OK;
		if (lk_table_rows(t)) {
			fprintf(out, "## %s\n\n", lk_explain_tables[i]);
			status = lk_table_write(t, LK_FORMAT_MD, colour, out, err);
			fputc('\n', out);
		}
		lk_table_free(t);
		LK_TRY(status);
	}
	return LK_OK;
}

static lk_status write_sqlite(const lk_writing *w, const struct asked *a, lk_error *err) {
	for (int i = LK_EXPLAIN_ALL + 1; i < LK_EXPLAIN_TABLES; i++)
		if (a->table == LK_EXPLAIN_ALL || a->table == i)
			LK_TRY(lk_write_table(w, lk_explain_table(a->x, i, false), err));
	return LK_OK;
}

lk_status lk_explain_print(const lk_explanation *explanation, int format, int table, bool colour, const char *path,
						   FILE *out, lk_error *err) {
	lk_writing w = {format, false, colour, path, out};
	struct asked a = {explanation, table, format};
	LK_TRY(lk_writing_check(&w, err));
	if (table < 0 || table >= LK_EXPLAIN_TABLES)
		return lk_fail(err, LK_ERR_INPUT, "--table", "there is no table %d", table);
	if (format == LK_FORMAT_JSON) return lk_write_through(&w, write_json, &a, err);
	if (format == LK_FORMAT_SQLITE) return write_sqlite(&w, &a, err);
	if (table == LK_EXPLAIN_ALL && format == LK_FORMAT_TEXT) return lk_write_through(&w, write_report, &a, err);
	if (table == LK_EXPLAIN_ALL && format == LK_FORMAT_MD) return lk_write_through(&w, write_markdown, &a, err);
	/* People get the top; programs get everything. */
	bool people = format == LK_FORMAT_TEXT || format == LK_FORMAT_MD;
	int which = table == LK_EXPLAIN_ALL ? LK_EXPLAIN_BREAKDOWN : table;
	return lk_write_table(&w, lk_explain_table(explanation, which, people), err);
}
