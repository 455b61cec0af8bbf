/* diff_view.c: the difference of two runs in every format. */
#include "lockstep/diff.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/noun.h"
#include "view/text/views.h"

enum {
	KERNEL_WIDTH = 33 /* so that the table fits into 100 columns */
};

struct asked {
	const lk_diff *d;
	int table;
};

/* A change with its sign. */
static void put_delta(lk_table *table, double seconds) {
	char text[32], signed_text[40];
	lk_format_seconds(seconds, text, sizeof text);
	snprintf(signed_text, sizeof signed_text, "%s%s", seconds > 0 ? "+" : "", text);
	lk_table_number(table, seconds, signed_text);
}

static void put_per_step(lk_table *table, double count) {
	char text[32];
	lk_table_number(table, count, isnan(count) ? NULL : lk_fixed(count, 1, text, sizeof text));
}

static void diff_view_put_row(lk_table *table, const lk_diff_row *row, bool kernel, bool people) {
	lk_table_row(table);
	lk_put_seconds(table, row->before_s);
	lk_put_seconds(table, row->after_s);
	put_delta(table, row->delta_s);
	lk_put_pctg(table, row->share, 1);
	if (kernel) {
		put_per_step(table, row->before_count);
		put_per_step(table, row->after_count);
		lk_table_text(table, *row->state ? row->state : NULL);
		lk_table_text(table, row->type);
	}
	if (kernel && people) lk_put_cut(table, row->name, KERNEL_WIDTH);
	else lk_table_text(table, row->name);
}

static lk_table *categories(const lk_diff *diff) {
	static const lk_column columns[] = {
		{"before_s", "before", true, false},  {"after_s", "after", true, false},
		{"delta_s", "delta", true, false},    {"share_of_step_pctg", "% of step", true, false},
		{"category", "a step", false, false},
	};
	lk_table *table = lk_table_new("categories", columns, (int)(sizeof columns / sizeof *columns));
	for (int i = 0; table && i < diff->category_count; i++)
		diff_view_put_row(table, &diff->categories[i], false, false);
	return table;
}

static lk_table *diff_view_kernels(const lk_diff *diff, bool people) {
	static const lk_column columns[] = {
		{"before_s", "before", true, false},
		{"after_s", "after", true, false},
		{"delta_s", "delta", true, false},
		{"share_of_step_pctg", "% of step", true, false},
		{"before_count", "n before", true, false},
		{"after_count", "n after", true, false},
		{"state", "", false, false},
		{"type", "Type", false, true},
		{"name", "Name", false, false},
	};
	lk_table *table = lk_table_new("kernels", columns, (int)(sizeof columns / sizeof *columns));
	for (int i = 0; table && i < diff->kernel_count && !(people && diff->top > 0 && i >= diff->top);
	     i++)
		diff_view_put_row(table, &diff->kernels[i], true, people);
	return table;
}

static lk_table *diff_view_table_of(const lk_diff *diff, int which, bool people) {
	return which == LK_DIFF_CATEGORIES ? categories(diff) : diff_view_kernels(diff, people);
}

/* ---- text ---- */

static lk_status diff_view_put_run(const char *name, const lk_explanation *explanation, FILE *out,
                                   lk_error *err) {
	char step[32], deviation[32], count[32];
	fprintf(out, "%-6s  %9s", name, lk_format_seconds(explanation->step_s, step, sizeof step));
	if (!isnan(explanation->step_deviation_s))
		fprintf(out, " +- %s",
		        lk_format_seconds(explanation->step_deviation_s, deviation, sizeof deviation));
	fprintf(out, " a step  (n=%d, %d %s, %s %s", explanation->step_count, explanation->rank_count,
	        lk_noun(explanation->rank_count, "rank", "ranks"),
	        lk_format_thousands((double)explanation->kernels, count, sizeof count),
	        lk_noun((double)explanation->kernels, "kernel", "kernels"));
	if (explanation->rank_count && *explanation->ranks[0].device) {
		fputs(", ", out);
		LK_TRY(lk_put_safe(explanation->ranks[0].device, out, err));
	}
	fputs(")\n", out);
	return LK_OK;
}

static lk_status diff_view_put_table(lk_table *table, lk_format format, bool colour, FILE *out,
                                     lk_error *err) {
	if (!table) return lk_oom(err);
	lk_status status = lk_table_write(table, format, colour, out, err);
	lk_table_free(table);
	return status;
}

static void put_states(const lk_diff *diff, FILE *out) {
	int added = 0, removed = 0;
	for (int i = 0; i < diff->kernel_count; i++) {
		added += strcmp(diff->kernels[i].state, "new") == 0;
		removed += strcmp(diff->kernels[i].state, "removed") == 0;
	}
	fprintf(out, "%d different kernels, %d new, %d removed", diff->kernel_count, added, removed);
	if (diff->top > 0 && diff->top < diff->kernel_count) fprintf(out, "; --top 0 lists all");
	fputc('\n', out);
}

static lk_status diff_view_put_warnings(const char *name, const lk_explanation *explanation,
                                        FILE *out, lk_error *err) {
	for (int i = 0; i < explanation->warning_count; i++) {
		int indent = fprintf(out, "W%d (%s): ", i + 1, name);
		LK_TRY(lk_put_wrapped(explanation->warnings[i], indent, indent, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

static lk_status diff_view_write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_diff *diff = ((const struct asked *)what)->d;
	LK_TRY(diff_view_put_run("before", diff->before, out, err));
	LK_TRY(diff_view_put_run("after", diff->after, out, err));
	fprintf(out, "%s%s%s\n\n", colour ? "\x1b[1m" : "", diff->sentence, colour ? "\x1b[0m" : "");
	if (diff->before->kernels || diff->after->kernels) {
		LK_TRY(diff_view_put_table(categories(diff), LK_FORMAT_TEXT, colour, out, err));
		fputc('\n', out);
	}
	if (diff->kernel_count) {
		LK_TRY(
			diff_view_put_table(diff_view_kernels(diff, true), LK_FORMAT_TEXT, colour, out, err));
		put_states(diff, out);
	}
	if (diff->before->warning_count + diff->after->warning_count) fputc('\n', out);
	LK_TRY(diff_view_put_warnings("before", diff->before, out, err));
	LK_TRY(diff_view_put_warnings("after", diff->after, out, err));
	if (diff->reproduce) {
		fputs("\nreproduce: ", out);
		LK_TRY(lk_put_safe(diff->reproduce, out, err));
		fputc('\n', out);
	}
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}

static lk_status diff_view_write_markdown(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_diff *diff = ((const struct asked *)what)->d;
	fprintf(out, "%s\n\n", diff->sentence);
	LK_TRY(diff_view_put_table(categories(diff), LK_FORMAT_MD, colour, out, err));
	fputc('\n', out);
	return diff_view_put_table(diff_view_kernels(diff, true), LK_FORMAT_MD, colour, out, err);
}

/* ---- JSON ---- */

static void put_json_run(lk_json_writer *writer, const char *key,
                         const lk_explanation *explanation) {
	lk_json_object(writer, key);
	lk_json_put_number(writer, "step_s", explanation->step_s);
	lk_json_put_number(writer, "step_deviation_s", explanation->step_deviation_s);
	lk_json_put_integer(writer, "step_count", explanation->step_count);
	lk_json_put_integer(writer, "ranks", explanation->rank_count);
	lk_json_array(writer, "warnings");
	for (int i = 0; i < explanation->warning_count; i++)
		lk_json_put_text(writer, NULL, explanation->warnings[i]);
	lk_json_array_end(writer);
	lk_json_object_end(writer);
}

static lk_status diff_view_write_json(const void *what, bool colour, FILE *out, lk_error *err) {
	static const char *const verdicts[] = {"slower", "undecided", "faster"};
	const struct asked *asked = what;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/diff/1", asked->d->failed_check);
	put_json_run(&w, "before", asked->d->before);
	put_json_run(&w, "after", asked->d->after);
	lk_json_put_number(&w, "ratio", asked->d->ratio);
	lk_json_put_number(&w, "ratio_deviation", asked->d->ratio_deviation);
	lk_json_put_text(&w, "verdict", verdicts[asked->d->verdict + 1]);
	lk_json_put_text(&w, "sentence", asked->d->sentence);
	for (int i = LK_DIFF_ALL + 1; i < LK_DIFF_TABLES; i++) {
		if (asked->table != LK_DIFF_ALL && asked->table != i) continue;
		lk_table *table = diff_view_table_of(asked->d, i, false);
		if (!table) return lk_oom(err);
		lk_json_put_table(&w, lk_diff_tables[i], table);
		lk_table_free(table);
	}
	lk_json_put_text(&w, "reproduce", asked->d->reproduce);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_diff_print(const lk_diff *diff, int format, int table, bool colour, const char *path,
                        FILE *out, lk_error *err) {
	lk_writing w = {format, false, colour, path, out};
	struct asked a = {diff, table};
	LK_TRY(lk_writing_check(&w, err));
	if (table < 0 || table >= LK_DIFF_TABLES)
		return lk_fail(err, LK_ERR_INPUT, "--table", "unknown table %d", table);
	if (format == LK_FORMAT_JSON) return lk_write_through(&w, diff_view_write_json, &a, err);
	if (table == LK_DIFF_ALL && format == LK_FORMAT_TEXT)
		return lk_write_through(&w, diff_view_write_text, &a, err);
	if (table == LK_DIFF_ALL && format == LK_FORMAT_MD)
		return lk_write_through(&w, diff_view_write_markdown, &a, err);
	if (table == LK_DIFF_ALL && format == LK_FORMAT_SQLITE) {
		lk_table *tables[] = {categories(diff), diff_view_table_of(diff, LK_DIFF_KERNELS, false)};
		return lk_write_database(&w, tables, 2, err);
	}
	bool people = format == LK_FORMAT_TEXT || format == LK_FORMAT_MD;
	return lk_write_table(
		&w,
		lk_table_mark(
			diff_view_table_of(diff, table == LK_DIFF_ALL ? LK_DIFF_KERNELS : table, people),
			diff->failed_check),
		err);
}
