/* stalls_view.c: what stalls a command, in every format. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "lockstep/stalls.h"
#include "view/text/views.h"
#include "view/table/table.h"

struct asked {
	const lk_stalls_answer *x;
	int table;
};

static const char *const bases[] = {"measured", "estimated", "not known"};

/* ---- tables ---- */

static void put_interval(lk_table *t, double low, double high) {
	char a[32], b[32], text[72];
	lk_table_number(t, low, NULL);
	lk_table_number(t, high, NULL);
	if (isnan(low)) {
		lk_table_text(t, NULL);
		return;
	}
	snprintf(text, sizeof text, "%s - %s", lk_format_seconds(low, a, sizeof a), lk_format_seconds(high, b, sizeof b));
	lk_table_text(t, text);
}

static void put_factor(lk_table *t, double factor) {
	char text[32], shown[40];
	if (!isfinite(factor)) {
		lk_table_number(t, NAN, NULL);
		return;
	}
	snprintf(shown, sizeof shown, "x%s", lk_fixed(factor, 2, text, sizeof text));
	lk_table_number(t, factor, shown);
}

static const char *verdict(const lk_stalls_part *p, int kind) {
	if (kind == LK_STALL_COMPUTE || p->basis == LK_STALLS_UNKNOWN) return NULL;
	return p->named ? "stall" : "within noise";
}

static lk_table *parts(const lk_stalls_answer *x) {
	static const lk_column columns[] = {
		{"part", "part", false, false}, {"seconds", "a step", true, false}, {"low_s", "", true, true}, {"high_s", "", true, true},
		{"interval", "95 %", true, false}, {"share_pctg", "of the step", true, false},
		{"own_share_pctg", "of its run", true, false}, {"slowdown", "slowdown", true, false}, {"verdict", "", false, false},
		{"basis", "basis", false, false}, {"how", "how", false, false},
	};
	lk_table *t = lk_table_new("parts", columns, (int)(sizeof columns / sizeof *columns));
	for (int k = 0; t && k < LK_STALL_KINDS; k++) {
		const lk_stalls_part *p = &x->parts[k];
		lk_table_row(t);
		lk_table_text(t, lk_stalls_kinds[k]);
		lk_put_seconds(t, p->seconds);
		put_interval(t, p->low, p->high);
		lk_put_pctg(t, p->share, 1);
		lk_put_pctg(t, p->own_share, 1);
		put_factor(t, p->factor);
		lk_table_text(t, verdict(p, k));
		lk_table_text(t, bases[p->basis]);
		lk_table_text(t, p->how);
	}
	return t;
}

static lk_table *runs(const lk_stalls_answer *x) {
	static const lk_column columns[] = {
		{"configuration", "configuration", false, false}, {"runs", "runs", true, false}, {"step_s", "step", true, false},
		{"low_s", "", true, true}, {"high_s", "", true, true}, {"interval", "95 %", true, false},
		{"files_in_memory_pctg", "files in memory", true, false}, {"note", "", false, false},
	};
	lk_table *t = lk_table_new("runs", columns, (int)(sizeof columns / sizeof *columns));
	for (int c = 0; t && c < LK_STALLS_CONFIGURATIONS; c++) {
		const lk_stalls_row *r = &x->rows[c];
		lk_table_row(t);
		lk_table_text(t, lk_stalls_configurations[c]);
		lk_put_count(t, r->runs);
		lk_put_seconds(t, r->step_s);
		put_interval(t, r->low, r->high);
		lk_put_pctg(t, r->resident, 1);
		lk_table_text(t, *r->note ? r->note : NULL);
	}
	return t;
}

static lk_table *buckets(const lk_stalls_answer *x) {
	static const lk_column columns[] = {
		{"bucket_bytes", "bucket", true, false}, {"calls", "calls a step", true, false}, {"transfer_s", "transfer", true, false},
		{"step_s", "step", true, false},
	};
	lk_table *t = lk_table_new("buckets", columns, (int)(sizeof columns / sizeof *columns));
	for (int i = 0; t && i < x->buckets.count; i++) {
		char text[32];
		const struct lk_stalls_bucket *b = &x->buckets.at[i];
		lk_table_row(t);
		lk_table_number(t, b->bucket_bytes, lk_format_bytes(b->bucket_bytes, text, sizeof text));
		lk_put_count(t, b->calls);
		lk_put_seconds(t, b->transfer_s);
		lk_put_seconds(t, b->step_s);
	}
	return t;
}

static lk_table *what_ifs(const lk_stalls_answer *x) {
	static const lk_column columns[] = {
		{"machine", "machine", false, false}, {"step_s", "step", true, false}, {"speedup", "faster", true, false},
		{"closed_step_s", "closed form", true, true}, {"bottleneck", "hangs on", false, false},
	};
	lk_table *t = lk_table_new("what_if", columns, (int)(sizeof columns / sizeof *columns));
	for (int i = 0; t && i < x->change_count; i++) {
		const lk_stalls_change *c = &x->changes[i];
		lk_table_row(t);
		lk_table_text(t, c->what);
		lk_put_seconds(t, c->step_s);
		put_factor(t, c->factor);
		lk_table_number(t, c->closed_s, NULL);
		lk_table_text(t, c->bottleneck);
	}
	return t;
}

lk_table *lk_stalls_table(const lk_stalls_answer *x, int which) {
	switch (which) {
	case LK_STALLS_RUNS: return runs(x);
	case LK_STALLS_BUCKETS: return buckets(x);
	case LK_STALLS_WHAT_IF: return what_ifs(x);
	default: return parts(x);
	}
}

/* ---- the report ---- */

static void put_heading(const char *text, bool colour, FILE *out) {
	fprintf(out, "\n%s%s%s\n", colour ? "\x1b[1m" : "", text, colour ? "\x1b[0m" : "");
}

static lk_status put_table(lk_table *t, lk_format format, bool colour, FILE *out, lk_error *err) {
	if (!t) return lk_oom(err);
	lk_status status = lk_table_rows(t) ? lk_table_write(t, format, colour, out, err) : LK_OK;
	lk_table_free(t);
	return status;
}

/* The step as a falling row of bars; a part begins where the one before it ends. */
static void put_waterfall(const lk_stalls_answer *x, FILE *out) {
	enum { WIDTH = 50 };
	double at = 0;
	for (int k = 0; k < LK_STALL_KINDS; k++) {
		const lk_stalls_part *p = &x->parts[k];
		char time[32], share[32];
		if (isnan(p->seconds)) {
			fprintf(out, "  %-13s %9s\n", lk_stalls_kinds[k], "?");
			continue;
		}
		int from = (int)(at / x->step_s * WIDTH + 0.5), to = (int)((at + p->seconds) / x->step_s * WIDTH + 0.5);
		if (from > WIDTH) from = WIDTH;
		if (to > WIDTH) to = WIDTH;
		fprintf(out, "  %-13s %9s %7s  %*s", lk_stalls_kinds[k], lk_format_seconds(p->seconds, time, sizeof time),
		        lk_percent(p->share, share, sizeof share), from, "");
		for (int i = from; i < to; i++) fputs("#", out);
		fprintf(out, "%s\n", p->basis == LK_STALLS_ESTIMATED && to > from ? " estimated" : "");
		at += p->seconds;
	}
}

static void put_verdict(const lk_stalls_answer *x, FILE *out) {
	int worst = -1;
	for (int k = 0; k < LK_STALL_KINDS; k++)
		if (x->parts[k].named && (worst < 0 || x->parts[k].seconds > x->parts[worst].seconds)) worst = k;
	if (worst < 0) {
		fputs("no stall is above the noise and 2 % of the step\n", out);
		return;
	}
	const lk_stalls_part *p = &x->parts[worst];
	char time[32], share[32];
	fprintf(out, "largest stall: %s, %s a step (%s), x%.2f as slow as without it; %s\n", lk_stalls_kinds[worst],
	        lk_format_seconds(p->seconds, time, sizeof time), lk_percent(p->share, share, sizeof share), p->factor,
	        bases[p->basis]);
}

static void put_step(const lk_stalls_answer *x, FILE *out) {
	char step[32], low[32], high[32];
	fprintf(out, "%d rank%s on %d host%s, %d steps a run; step %s", x->ranks, x->ranks == 1 ? "" : "s", x->hosts,
	        x->hosts == 1 ? "" : "s", x->steps, lk_format_seconds(x->step_s, step, sizeof step));
	if (!isnan(x->low))
		fprintf(out, " (95 %%: %s - %s)", lk_format_seconds(x->low, low, sizeof low),
		        lk_format_seconds(x->high, high, sizeof high));
	fprintf(out, ", %s\n", x->base);
}

static void put_communication(const lk_stalls_answer *x, bool colour, FILE *out) {
	const lk_stalls_buckets *b = &x->buckets;
	char calls[32], bytes[32], each[32], rest[32];
	if (!b->calls) return;
	put_heading("communication by calls and bytes", colour, out);
	fprintf(out, "%s: %s calls, %s a step", b->group, lk_fixed(b->calls, 1, calls, sizeof calls),
	        lk_format_bytes(b->bytes, bytes, sizeof bytes));
	if (isnan(b->error)) {
		fprintf(out, "; no fit: %s\n", b->note);
		return;
	}
	fprintf(out, "; %s a call", lk_format_seconds(b->per_call_s, each, sizeof each));
	if (b->per_byte_s > 0) fprintf(out, " + bytes at %s", lk_format_rate(1 / b->per_byte_s, bytes, sizeof bytes));
	fprintf(out, " + %s; fit of %d sizes off by %.0f %% (median)\n", lk_format_seconds(b->rest_s, rest, sizeof rest), b->sizes,
	        100 * b->error);
}

static void put_rates(const lk_stalls_answer *x, bool colour, FILE *out) {
	const lk_stalls_rates *r = &x->rates;
	char bytes[32], disk[32], memory[32], number[32];
	put_heading("what if", colour, out);
	fprintf(out, "loader %s; steps a second: without loader %s", r->pipelined ? "beside the step" : "in the step",
	        lk_fixed(r->ingestion, 1, number, sizeof number));
	if (isfinite(r->preparation)) fprintf(out, ", preparation %s", lk_fixed(r->preparation, 1, number, sizeof number));
	if (isfinite(r->fetch)) fprintf(out, ", fetch %s", lk_fixed(r->fetch, 1, number, sizeof number));
	if (r->bytes > 0) fprintf(out, "; %s a step and rank", lk_format_bytes(r->bytes, bytes, sizeof bytes));
	if (r->bytes > 0 && isfinite(r->disk))
		fprintf(out, ", storage %s, memory %s", lk_format_rate(r->disk, disk, sizeof disk),
		        lk_format_rate(r->memory, memory, sizeof memory));
	if (r->device > 0)
		fprintf(out, "; storage works %s of a step, %s of it hidden", lk_format_seconds(r->device, disk, sizeof disk),
		        lk_format_seconds(r->hidden, memory, sizeof memory));
	fputc('\n', out);
	if (isfinite(r->cores_to_hide))
		fprintf(out, "%.0f loader thread%s would hide preparation\n", r->cores_to_hide, r->cores_to_hide == 1 ? "" : "s");
	if (isfinite(r->cache_to_hide) && r->cache_to_hide > 0)
		fprintf(out, "%.0f %% of the data in memory would hide fetching\n", 100 * r->cache_to_hide);
}

static lk_status put_end(const lk_stalls_answer *x, FILE *out, lk_error *err) {
	if (x->note_count) fputc('\n', out);
	for (int i = 0; i < x->note_count; i++) {
		fprintf(out, "N%d: ", i + 1);
		LK_TRY(lk_put_safe(x->notes[i], out, err));
		fputc('\n', out);
	}
	if (*x->kept) fprintf(out, "recordings: %s\n", x->kept);
	fputs("reproduce: ", out);
	LK_TRY(lk_put_safe(x->reproduce, out, err));
	fputc('\n', out);
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}

static lk_status write_report(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_stalls_answer *x = ((const struct asked *)what)->x;
	put_step(x, out);
	put_verdict(x, out);
	put_heading("where a step's time goes", colour, out);
	put_waterfall(x, out);
	put_heading("parts", colour, out);
	LK_TRY(put_table(parts(x), LK_FORMAT_TEXT, colour, out, err));
	put_heading("runs", colour, out);
	LK_TRY(put_table(runs(x), LK_FORMAT_TEXT, colour, out, err));
	put_communication(x, colour, out);
	LK_TRY(put_table(buckets(x), LK_FORMAT_TEXT, colour, out, err));
	put_rates(x, colour, out);
	LK_TRY(put_table(what_ifs(x), LK_FORMAT_TEXT, colour, out, err));
	return put_end(x, out, err);
}

static lk_status write_markdown(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_stalls_answer *x = ((const struct asked *)what)->x;
	for (int i = LK_STALLS_ALL + 1; i < LK_STALLS_TABLES; i++) {
		fprintf(out, "## %s\n\n", lk_stalls_tables[i]);
		LK_TRY(put_table(lk_stalls_table(x, i), LK_FORMAT_MD, colour, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

/* ---- JSON ---- */

static void put_json_head(lk_json_writer *w, const lk_stalls_answer *x) {
	lk_json_put_integer(w, "status", x->status);
	lk_json_put_integer(w, "ranks", x->ranks);
	lk_json_put_integer(w, "hosts", x->hosts);
	lk_json_put_integer(w, "steps", x->steps);
	lk_json_put_number(w, "first_step_s", x->first_s);
	lk_json_put_number(w, "step_s", x->step_s);
	lk_json_put_number(w, "step_low_s", x->low);
	lk_json_put_number(w, "step_high_s", x->high);
	lk_json_put_text(w, "base", x->base);
}

static void put_json_communication(lk_json_writer *w, const lk_stalls_buckets *b) {
	lk_json_object(w, "communication");
	lk_json_put_text(w, "group", b->group);
	lk_json_put_number(w, "calls", b->calls);
	lk_json_put_number(w, "bytes", b->bytes);
	lk_json_put_number(w, "per_call_s", b->per_call_s);
	lk_json_put_number(w, "per_byte_s", b->per_byte_s);
	lk_json_put_number(w, "rest_s", b->rest_s);
	lk_json_put_number(w, "error", b->error);
	lk_json_put_integer(w, "sizes", b->sizes);
	lk_json_object_end(w);
}

static void put_json_rates(lk_json_writer *w, const lk_stalls_rates *r) {
	lk_json_object(w, "rates");
	lk_json_put_bool(w, "pipelined", r->pipelined);
	lk_json_put_number(w, "ingestion", r->ingestion);
	lk_json_put_number(w, "preparation", r->preparation);
	lk_json_put_number(w, "fetch", r->fetch);
	lk_json_put_number(w, "bytes", r->bytes);
	lk_json_put_number(w, "disk_bytes_per_s", r->disk);
	lk_json_put_number(w, "memory_bytes_per_s", r->memory);
	lk_json_put_number(w, "device_s", r->device);
	lk_json_put_number(w, "hidden_s", r->hidden);
	lk_json_put_number(w, "hit", r->hit);
	lk_json_put_number(w, "workers", r->workers);
	lk_json_put_number(w, "cores", r->cores);
	lk_json_put_number(w, "busy", r->busy);
	lk_json_put_number(w, "cores_to_hide", r->cores_to_hide);
	lk_json_put_number(w, "cache_to_hide", r->cache_to_hide);
	lk_json_put_text(w, "from", r->from);
	lk_json_object_end(w);
}

static lk_status put_json_tables(lk_json_writer *w, const struct asked *a, lk_error *err) {
	static const char *const keys[LK_STALLS_TABLES] = {"", "parts", "runs", "buckets", "what_if"};
	for (int i = LK_STALLS_ALL + 1; i < LK_STALLS_TABLES; i++) {
		if (a->table != LK_STALLS_ALL && a->table != i) continue;
		lk_table *t = lk_stalls_table(a->x, i);
		if (!t) return lk_oom(err);
		lk_json_put_table(w, keys[i], t);
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
	put_json_head(&w, a->x);
	LK_TRY(put_json_tables(&w, a, err));
	put_json_communication(&w, &a->x->buckets);
	put_json_rates(&w, &a->x->rates);
	lk_json_array(&w, "notes");
	for (int i = 0; i < a->x->note_count; i++) lk_json_put_text(&w, NULL, a->x->notes[i]);
	lk_json_array_end(&w);
	lk_json_put_text(&w, "reason", *a->x->reason ? a->x->reason : NULL);
	lk_json_put_text(&w, "reproduce", a->x->reproduce);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

/* ---- all ---- */

lk_status lk_stalls_print(const lk_stalls_answer *answer, int format, int table, bool colour, const char *path, FILE *out,
                          lk_error *err) {
	lk_writing w = {format, false, colour, path, out};
	struct asked a = {answer, table};
	LK_TRY(lk_writing_check(&w, err));
	if (table < 0 || table >= LK_STALLS_TABLES)
		return lk_fail(err, LK_ERR_INPUT, "--table", "there is no table %d", table);
	if (format == LK_FORMAT_JSON) return lk_write_through(&w, write_json, &a, err);
	if (table == LK_STALLS_ALL && format == LK_FORMAT_TEXT) return lk_write_through(&w, write_report, &a, err);
	if (table == LK_STALLS_ALL && format == LK_FORMAT_MD) return lk_write_through(&w, write_markdown, &a, err);
	for (int i = LK_STALLS_ALL + 1; table == LK_STALLS_ALL && format == LK_FORMAT_SQLITE && i < LK_STALLS_TABLES; i++)
		LK_TRY(lk_write_table(&w, lk_stalls_table(answer, i), err));
	if (table == LK_STALLS_ALL && format == LK_FORMAT_SQLITE) return LK_OK;
	return lk_write_table(&w, lk_stalls_table(answer, table), err);
}

void lk_stalls_print_plan(const lk_stalls_plan *plan, FILE *out) {
	enum { SHOWN = 8 };
	char time[32], bytes[32], safe[4096];
	fprintf(out, "lockstep: the command is to be run %d times more, about %s: %s, %d times each\n", plan->runs,
	        lk_format_seconds(plan->seconds, time, sizeof time), plan->configurations, plan->repeats);
	if (!plan->written_count) fputs("  the first run wrote no files\n", out);
	else
		fprintf(out, "  the first run wrote %s to %d file%s; the others write to %s instead:\n",
		        lk_format_bytes(plan->written_bytes, bytes, sizeof bytes), plan->written_count,
		        plan->written_count == 1 ? "" : "s", plan->scratch);
	for (int i = 0; i < plan->written_count && i < SHOWN; i++)
		fprintf(out, "    %s\n", lk_escape(plan->written[i], safe, sizeof safe));
	if (plan->written_count > SHOWN) fprintf(out, "    and %d more\n", plan->written_count - SHOWN);
	fputs("  what it does beside files (network, other programs) it does again\n", out);
}
