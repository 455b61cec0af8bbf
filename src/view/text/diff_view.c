/* diff_view.c: the difference of two runs in every format. */
#include "lockstep/diff.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "view/text/views.h"

struct asked {
	const lk_diff *d;
	int table;
};

/* A change with its sign. */
static void put_delta(lk_table *t, double seconds) {
	char text[32], signed_text[40];
	lk_format_seconds(seconds, text, sizeof text);
	snprintf(signed_text, sizeof signed_text, "%s%s", seconds > 0 ? "+" : "", text);
	lk_table_number(t, seconds, signed_text);
}

static void put_per_step(lk_table *t, double count) {
	char text[32];
	lk_table_number(t, count, isnan(count) ? NULL : lk_fixed(count, 1, text, sizeof text));
}

static void put_row(lk_table *t, const lk_diff_row *row, bool kernel, bool people) {
	lk_table_row(t);
	lk_put_seconds(t, row->before_s), lk_put_seconds(t, row->after_s);
	put_delta(t, row->delta_s);
	lk_put_pctg(t, row->share, 1);
	if (kernel) {
		put_per_step(t, row->before_count), put_per_step(t, row->after_count);
		lk_table_text(t, *row->state ? row->state : NULL);
		lk_table_text(t, row->type);
	}
	if (kernel) lk_put_name(t, row->name, people);
	else lk_table_text(t, row->name);
}

static lk_table *categories(const lk_diff *d) {
	static const lk_column columns[] = {
		{"before_s", "before", true, false}, {"after_s", "after", true, false}, {"delta_s", "delta", true, false},
		{"share_of_step_pctg", "% of step", true, false}, {"category", "a step", false, false},
	};
	lk_table *t = lk_table_new("categories", columns, (int)(sizeof columns / sizeof *columns));
	for (int i = 0; t && i < d->category_count; i++) put_row(t, &d->categories[i], false, false);
	return t;
}

static lk_table *kernels(const lk_diff *d, bool people) {
	static const lk_column columns[] = {
		{"before_s", "before", true, false}, {"after_s", "after", true, false}, {"delta_s", "delta", true, false},
		{"share_of_step_pctg", "% of step", true, false}, {"before_count", "count before", true, false},
		{"after_count", "after", true, false}, {"state", "", false, false}, {"type", "Type", false, false},
		{"name", "Name", false, false},
	};
	lk_table *t = lk_table_new("kernels", columns, (int)(sizeof columns / sizeof *columns));
	for (int i = 0; t && i < d->kernel_count && !(people && d->top > 0 && i >= d->top); i++)
		put_row(t, &d->kernels[i], true, people);
	return t;
}

static lk_table *table_of(const lk_diff *d, int which, bool people) {
	return which == LK_DIFF_CATEGORIES ? categories(d) : kernels(d, people);
}

/* ---- text ---- */

static void put_run(const char *name, const lk_explanation *x, FILE *out) {
	char step[32], deviation[32], count[32];
	fprintf(out, "%-6s  %9s", name, lk_format_seconds(x->step_s, step, sizeof step));
	if (!isnan(x->step_deviation_s))
		fprintf(out, " +- %s", lk_format_seconds(x->step_deviation_s, deviation, sizeof deviation));
	fprintf(out, " a step  (n=%d, %d rank%s, %s kernels)\n", x->step_count, x->rank_count,
			x->rank_count == 1 ? "" : "s", lk_format_thousands((double)x->kernels, count, sizeof count));
}

static lk_status put_table(lk_table *t, lk_format format, bool colour, FILE *out, lk_error *err) {
	if (!t) return lk_oom(err);
	lk_status status = lk_table_write(t, format, colour, out, err);
	lk_table_free(t);
	return status;
}

static void put_states(const lk_diff *d, FILE *out) {
	int added = 0, removed = 0;
	for (int i = 0; i < d->kernel_count; i++) {
		added += strcmp(d->kernels[i].state, "new") == 0;
		removed += strcmp(d->kernels[i].state, "removed") == 0;
	}
	fprintf(out, "%d different kernels, %d new, %d removed", d->kernel_count, added, removed);
	if (d->top > 0 && d->top < d->kernel_count) fprintf(out, "; --top 0 lists all");
	fputc('\n', out);
}

static lk_status put_warnings(const char *name, const lk_explanation *x, FILE *out, lk_error *err) {
	for (int i = 0; i < x->warning_count; i++) {
		fprintf(out, "W%d (%s): ", i + 1, name);
		LK_TRY(lk_put_safe(x->warnings[i], out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

static lk_status write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_diff *d = ((const struct asked *)what)->d;
	put_run("before", d->before, out);
	put_run("after", d->after, out);
	fprintf(out, "%s%s%s\n\n", colour ? "\x1b[1m" : "", d->sentence, colour ? "\x1b[0m" : "");
	if (d->before->kernels || d->after->kernels) {
		LK_TRY(put_table(categories(d), LK_FORMAT_TEXT, colour, out, err));
		fputc('\n', out);
	}
	if (d->kernel_count) {
		LK_TRY(put_table(kernels(d, true), LK_FORMAT_TEXT, colour, out, err));
		put_states(d, out);
	}
	if (d->before->warning_count + d->after->warning_count) fputc('\n', out);
	LK_TRY(put_warnings("before", d->before, out, err));
	LK_TRY(put_warnings("after", d->after, out, err));
	if (d->reproduce) {
		fputs("\nreproduce: ", out);
		LK_TRY(lk_put_safe(d->reproduce, out, err));
		fputc('\n', out);
	}
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}

static lk_status write_markdown(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_diff *d = ((const struct asked *)what)->d;
	fprintf(out, "%s\n\n", d->sentence);
	LK_TRY(put_table(categories(d), LK_FORMAT_MD, colour, out, err));
	fputc('\n', out);
	return put_table(kernels(d, true), LK_FORMAT_MD, colour, out, err);
}

/* ---- JSON ---- */

static void put_json_run(lk_json_writer *w, const char *key, const lk_explanation *x) {
	lk_json_object(w, key);
	lk_json_put_number(w, "step_s", x->step_s);
	lk_json_put_number(w, "step_deviation_s", x->step_deviation_s);
	lk_json_put_integer(w, "step_count", x->step_count);
	lk_json_put_integer(w, "ranks", x->rank_count);
	lk_json_array(w, "warnings");
	for (int i = 0; i < x->warning_count; i++) lk_json_put_text(w, NULL, x->warnings[i]);
	lk_json_array_end(w);
	lk_json_object_end(w);
}

static lk_status write_json(const void *what, bool colour, FILE *out, lk_error *err) {
	static const char *const verdicts[] = {"slower", "undecided", "faster"};
	const struct asked *a = what;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	put_json_run(&w, "before", a->d->before);
	put_json_run(&w, "after", a->d->after);
	lk_json_put_number(&w, "ratio", a->d->ratio);
	lk_json_put_number(&w, "ratio_deviation", a->d->ratio_deviation);
	lk_json_put_text(&w, "verdict", verdicts[a->d->verdict + 1]);
	lk_json_put_text(&w, "sentence", a->d->sentence);
	for (int i = LK_DIFF_ALL + 1; i < LK_DIFF_TABLES; i++) {
		if (a->table != LK_DIFF_ALL && a->table != i) continue;
		lk_table *t = table_of(a->d, i, false);
		if (!t) return lk_oom(err);
		lk_json_put_table(&w, lk_diff_tables[i], t);
		lk_table_free(t);
	}
	lk_json_put_text(&w, "reproduce", a->d->reproduce);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_diff_print(const lk_diff *diff, int format, int table, bool colour, const char *path, FILE *out,
						lk_error *err) {
	lk_writing w = {format, false, colour, path, out};
	struct asked a = {diff, table};
	LK_TRY(lk_writing_check(&w, err));
	if (table < 0 || table >= LK_DIFF_TABLES)
		return lk_fail(err, LK_ERR_INPUT, "--table", "there is no table %d", table);
	if (format == LK_FORMAT_JSON) return lk_write_through(&w, write_json, &a, err);
	if (table == LK_DIFF_ALL && format == LK_FORMAT_TEXT) return lk_write_through(&w, write_text, &a, err);
	if (table == LK_DIFF_ALL && format == LK_FORMAT_MD) return lk_write_through(&w, write_markdown, &a, err);
	if (table == LK_DIFF_ALL && format == LK_FORMAT_SQLITE) LK_TRY(lk_write_table(&w, categories(diff), err));
	bool people = format == LK_FORMAT_TEXT || format == LK_FORMAT_MD;
	return lk_write_table(&w, table_of(diff, table == LK_DIFF_ALL ? LK_DIFF_KERNELS : table, people), err);
}
