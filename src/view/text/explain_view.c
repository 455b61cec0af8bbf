/* explain_view.c: an explanation in every format. */
#include "view/text/views.h"

#include <math.h>

/* The part of an explanation that is written. */
struct asked {
	const lk_explanation *x;
	int table, format;
};

static lk_status explain_view_write_report(const void *what, bool colour, FILE *out,
                                           lk_error *err) {
	const struct asked *asked = what;
	return lk_explain_report(asked->x, colour, out, err);
}

/* ---- JSON: one document ---- */

static void explain_view_put_head(lk_json_writer *writer, const lk_explanation *explanation) {
	lk_json_put_integer(writer, "ranks", explanation->rank_count);
	if (explanation->world) lk_json_put_integer(writer, "world_size", explanation->world);
	else lk_json_put_null(writer, "world_size");
	lk_json_put_integer(writer, "step_count", explanation->step_count);
	lk_json_put_bool(writer, "steps_annotated", explanation->annotated);
	lk_json_put_number(writer, "step_s", explanation->step_s);
	lk_json_put_number(writer, "step_deviation_s", explanation->step_deviation_s);
	lk_json_put_integer(writer, "lost_steps", explanation->lost_steps);
	lk_json_put_integer(writer, "kernel_count", (long long)explanation->kernels);
	lk_json_put_integer(writer, "clock_anchors", explanation->anchors);
	lk_json_put_number(writer, "clock_residual_max_s", explanation->residual_max_s);
	lk_json_put_fields(writer, &lk_energy_record,
	                   &(lk_subject){explanation, &explanation->energy, 0, NULL});
}

static void explain_view_put_critical(lk_json_writer *writer, const lk_critical_path *path) {
	lk_json_array(writer, "critical_path");
	for (int i = 0; i < path->part_count; i++) {
		lk_json_object(writer, NULL);
		lk_json_put_text(writer, "kind", path->parts[i].kind);
		lk_json_put_number(writer, "seconds", path->parts[i].seconds);
		lk_json_object_end(writer);
	}
	lk_json_array_end(writer);
	if (path->part_count) lk_json_put_integer(writer, "critical_step", (long long)path->step);
	else lk_json_put_null(writer, "critical_step");
	lk_json_put_number(writer, "critical_step_s", path->part_count ? path->step_s : NAN);
}

static lk_status put_tables(lk_json_writer *writer, const struct asked *asked, lk_error *err) {
	for (int i = LK_EXPLAIN_ALL + 1; i < LK_EXPLAIN_TABLES; i++) {
		if (asked->table != LK_EXPLAIN_ALL && asked->table != i) continue;
		lk_table *table = lk_explain_table(asked->x, i, false);
		if (!table) return lk_oom(err);
		lk_json_put_table(writer, lk_explain_tables[i], table);
		lk_table_free(table);
	}
	return LK_OK;
}

static void explain_view_put_diagnosis(lk_json_writer *writer, const lk_explanation *explanation) {
	lk_json_put_text(writer, "diagnosis", explanation->diagnosis);
	lk_json_array(writer, "actions");
	for (int i = 0; i < explanation->action_count; i++) {
		const lk_explain_stall *stall = &explanation->stalls[explanation->actions[i]];
		lk_json_object(writer, NULL);
		lk_json_put_text(writer, "stall", stall->kind);
		lk_json_put_text(writer, "what", stall->what);
		lk_json_put_number(writer, "lost_s", stall->lost_s);
		lk_json_put_number(writer, "gain_s", stall->gain_s);
		lk_json_put_number(writer, "most_s", stall->most_s);
		lk_json_put_text(writer, "change", stall->change);
		lk_json_put_text(writer, "how", stall->remedy);
		lk_json_object_end(writer);
	}
	lk_json_array_end(writer);
}

static lk_status explain_view_write_json(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct asked *asked = what;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/explain/1", asked->x->failed_check);
	explain_view_put_head(&w, asked->x);
	LK_TRY(put_tables(&w, asked, err));
	explain_view_put_critical(&w, &asked->x->critical);
	explain_view_put_diagnosis(&w, asked->x);
	lk_json_put_integer(&w, "caveat_count", asked->x->caveat_count);
	lk_json_array(&w, "warnings");
	for (int i = 0; i < asked->x->warning_count; i++)
		lk_json_put_text(&w, NULL, asked->x->warnings[i]);
	lk_json_array_end(&w);
	lk_json_put_text(&w, "reproduce", asked->x->reproduce);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

/* ---- several tables ---- */

static lk_status explain_view_write_markdown(const void *what, bool colour, FILE *out,
                                             lk_error *err) {
	const struct asked *asked = what;
	for (int i = LK_EXPLAIN_ALL + 1; i < LK_EXPLAIN_TABLES; i++) {
		lk_table *table = lk_explain_table(asked->x, i, true);
		if (!table) return lk_oom(err);
		lk_status status = LK_OK;
		if (lk_table_shows(table)) {
			fprintf(out, "## %s\n\n", lk_explain_tables[i]);
			status = lk_table_write(table, LK_FORMAT_MD, colour, out, err);
			fputc('\n', out);
		}
		lk_table_free(table);
		LK_TRY(status);
	}
	return LK_OK;
}

static lk_status write_sqlite(const lk_writing *writing, const struct asked *asked, lk_error *err) {
	lk_table *tables[LK_EXPLAIN_TABLES];
	int count = 0;
	for (int i = LK_EXPLAIN_ALL + 1; i < LK_EXPLAIN_TABLES; i++)
		if (asked->table == LK_EXPLAIN_ALL || asked->table == i)
			tables[count++] = lk_explain_table(asked->x, i, false);
	return lk_write_database(writing, tables, count, err);
}

lk_status lk_explain_print(const lk_explanation *explanation, int format, int table, bool colour,
                           const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, false, colour, path, out};
	struct asked a = {explanation, table, format};
	LK_TRY(lk_writing_check(&w, err));
	if (table < 0 || table >= LK_EXPLAIN_TABLES)
		return lk_fail(err, LK_ERR_INPUT, "--table", "unknown table %d", table);
	if (format == LK_FORMAT_JSON) return lk_write_through(&w, explain_view_write_json, &a, err);
	if (format == LK_FORMAT_SQLITE) return write_sqlite(&w, &a, err);
	if (table == LK_EXPLAIN_ALL && format == LK_FORMAT_TEXT)
		return lk_write_through(&w, explain_view_write_report, &a, err);
	if (table == LK_EXPLAIN_ALL && format == LK_FORMAT_MD)
		return lk_write_through(&w, explain_view_write_markdown, &a, err);
	/* People get the top; programs get everything. */
	bool people = format == LK_FORMAT_TEXT || format == LK_FORMAT_MD;
	int which = table == LK_EXPLAIN_ALL ? LK_EXPLAIN_BREAKDOWN : table;
	return lk_write_table(
		&w, lk_table_mark(lk_explain_table(explanation, which, people), explanation->failed_check),
		err);
}
