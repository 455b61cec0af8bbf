/* stalls_view.c: what stalls a command, in every format. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/noun.h"
#include "lockstep/stalls.h"
#include "view/text/views.h"
#include "view/table/table.h"

struct asked {
	const lk_stalls_answer *x;
	int table;
};

/* ---- the report ---- */

static lk_status stalls_view_put_table(lk_table *table, lk_format format, bool colour, FILE *out,
                                       lk_error *err) {
	if (!table) return lk_oom(err);
	lk_status status =
		lk_table_shows(table) ? lk_table_write(table, format, colour, out, err) : LK_OK;
	lk_table_free(table);
	return status;
}

/* The step as a falling row of bars; a part begins where the one before it ends. */
static void stalls_view_put_waterfall(const lk_stalls_answer *answer, FILE *out) {
	enum { WIDTH = 50 };
	double at = 0;
	for (int k = 0; k < answer->part_count; k++) {
		const lk_stalls_part *part = &answer->parts[k];
		char time[32], share[32];
		if (isnan(part->seconds)) {
			fprintf(out, "  %-13s %9s\n", part->name, "?");
			continue;
		}
		int from = (int)(at / answer->step_s * WIDTH + 0.5),
			to = (int)((at + part->seconds) / answer->step_s * WIDTH + 0.5);
		if (from > WIDTH) from = WIDTH;
		if (to > WIDTH) to = WIDTH;
		fprintf(out, "  %-13s %9s %7s  %*s", part->name,
		        lk_format_seconds(part->seconds, time, sizeof time),
		        lk_percent(part->share, share, sizeof share), from, "");
		for (int i = from; i < to; i++) fputs("#", out);
		fprintf(out, "%s\n", part->basis == LK_STALLS_ESTIMATED && to > from ? " estimated" : "");
		at += part->seconds;
	}
}

/* "NAME, NAME: text": names of one text share a line. */
static lk_status stalls_view_put_texts(const char *const *names, const char *const *texts,
                                       int count, FILE *out, lk_error *err) {
	for (int i = 0; i < count; i++) {
		const char *text = texts[i] ? texts[i] : "";
		bool first = *text;
		for (int before = 0; before < i && first; before++)
			first = !texts[before] || strcmp(texts[before], text) != 0;
		if (!first) continue;
		fprintf(out, "%s", names[i]);
		for (int other = i + 1; other < count; other++)
			if (texts[other] && strcmp(texts[other], text) == 0) fprintf(out, ", %s", names[other]);
		fputs(": ", out);
		LK_TRY(lk_put_safe(text, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

/* How parts were found. */
static lk_status stalls_view_put_ways(const lk_stalls_answer *answer, FILE *out, lk_error *err) {
	enum { MOST = LK_STALL_KINDS + LK_STALLS_MARKS };
	const char *names[MOST], *texts[MOST];
	for (int k = 0; k < answer->part_count; k++) {
		names[k] = answer->parts[k].name;
		texts[k] = answer->parts[k].how;
	}
	return stalls_view_put_texts(names, texts, answer->part_count, out, err);
}

static lk_status stalls_view_put_run_notes(const lk_stalls_answer *answer, FILE *out,
                                           lk_error *err) {
	const char *texts[LK_STALLS_CONFIGURATIONS];
	for (int c = 0; c < LK_STALLS_CONFIGURATIONS; c++) texts[c] = answer->rows[c].note;
	return stalls_view_put_texts(lk_stalls_configurations, texts, LK_STALLS_CONFIGURATIONS, out,
	                             err);
}

/* "203 ms (95 %: 195 ms - 210 ms), 41.2 % of the step". */
static void put_part_size(const lk_stalls_answer *answer, int kind, FILE *out) {
	LK_ASSERT(kind >= 0 && kind < answer->part_count);
	const lk_stalls_part *part = &answer->parts[kind];
	char time[32], low[32], high[32], share[32];
	fprintf(out, "%s %s", part->name, lk_format_seconds(part->seconds, time, sizeof time));
	if (!isnan(part->low))
		fprintf(out, " (95 %%: %s - %s)", lk_format_seconds(part->low, low, sizeof low),
		        lk_format_seconds(part->high, high, sizeof high));
	fprintf(out, ", %s of the step", lk_percent(part->share, share, sizeof share));
}

int lk_stalls_worst(const lk_stalls_answer *answer) {
	int worst = -1;
	for (int k = 0; k < LK_STALL_KINDS; k++)
		if (answer->parts[k].named &&
		    (worst < 0 || answer->parts[k].seconds > answer->parts[worst].seconds))
			worst = k;
	return worst;
}

static void stalls_view_put_verdict(const lk_stalls_answer *answer, FILE *out) {
	const lk_stalls_lead *lead = &answer->lead;
	int worst = lk_stalls_worst(answer);
	fputs("largest part: ", out);
	put_part_size(answer, lead->first, out);
	if (!lead->apart) {
		fputs("; cannot be told apart from ", out);
		put_part_size(answer, lead->second, out);
	}
	fputc('\n', out);
	if (worst < 0) {
		fputs("no stall is above the noise and 2 % of the step\n", out);
		return;
	}
	fputs("largest stall: ", out);
	put_part_size(answer, worst, out);
	fprintf(out, ",\n  %.2f times as long as without it; %s\n", answer->parts[worst].factor,
	        lk_stalls_bases[answer->parts[worst].basis]);
}

static void put_drift(const lk_stalls_answer *answer, FILE *out) {
	if (isnan(answer->drift_low)) return;
	fprintf(out, "%d %s; the machine's speed between them: steps %+.1f %% to %+.1f %%, ",
	        answer->rounds, lk_noun(answer->rounds, "round", "rounds"),
	        100 * (answer->drift_low - 1), 100 * (answer->drift_high - 1));
	fprintf(out, "trend %+.1f %% from first to last\n", 100 * answer->drift_trend);
}

static void stalls_view_put_step(const lk_stalls_answer *answer, FILE *out) {
	char step[32], low[32], high[32];
	fprintf(out, "%d %s on %d %s, %d %s a run; step %s", answer->ranks,
	        lk_noun(answer->ranks, "rank", "ranks"), answer->hosts,
	        lk_noun(answer->hosts, "host", "hosts"), answer->steps,
	        lk_noun(answer->steps, "step", "steps"),
	        lk_format_seconds(answer->step_s, step, sizeof step));
	if (!isnan(answer->low))
		fprintf(out, " (95 %%: %s - %s)", lk_format_seconds(answer->low, low, sizeof low),
		        lk_format_seconds(answer->high, high, sizeof high));
	fprintf(out, ", %s\n", answer->base);
}

static void put_communication(const lk_stalls_answer *answer, bool colour, FILE *out) {
	const lk_stalls_buckets *buckets = &answer->buckets;
	char calls[32], bytes[32], each[32], rest[32];
	if (!buckets->calls) return;
	lk_put_heading("communication by calls and bytes", colour, out);
	fprintf(out, "%s: %s %s, %s a step", buckets->group,
	        lk_fixed(buckets->calls, 1, calls, sizeof calls),
	        lk_noun(buckets->calls, "call", "calls"),
	        lk_format_bytes(buckets->bytes, bytes, sizeof bytes));
	if (isnan(buckets->error)) {
		fprintf(out, ";\nno fit: %s\n", buckets->note);
		return;
	}
	fprintf(out, ";\n%s a call", lk_format_seconds(buckets->per_call_s, each, sizeof each));
	if (buckets->per_byte_s > 0)
		fprintf(out, " + bytes at %s",
		        lk_format_rate(1 / buckets->per_byte_s, bytes, sizeof bytes));
	fprintf(out, " + %s; ", lk_format_seconds(buckets->rest_s, rest, sizeof rest));
	if (buckets->sizes > 1)
		fprintf(out, "fit of %d sizes off by %.0f %% (median)\n", buckets->sizes,
		        100 * buckets->error);
	else fputs("all calls have one size, so the time of a call is the cluster's\n", out);
}

static void put_rates(const lk_stalls_answer *answer, bool colour, FILE *out) {
	const lk_stalls_rates *rates = &answer->rates;
	char bytes[32], disk[32], memory[32], number[32];
	lk_put_heading("what if", colour, out);
	fprintf(out, "loader %s;\nsteps a second: without loader %s",
	        rates->pipelined ? "during the step" : "in the step",
	        lk_fixed(rates->ingestion, 1, number, sizeof number));
	if (isfinite(rates->preparation))
		fprintf(out, ", preparation %s", lk_fixed(rates->preparation, 1, number, sizeof number));
	if (isfinite(rates->fetch))
		fprintf(out, ", fetch %s", lk_fixed(rates->fetch, 1, number, sizeof number));
	if (rates->bytes > 0)
		fprintf(out, ";\n%s a step and rank", lk_format_bytes(rates->bytes, bytes, sizeof bytes));
	if (rates->bytes > 0 && isfinite(rates->disk))
		fprintf(out, ", storage %s, memory %s", lk_format_rate(rates->disk, disk, sizeof disk),
		        lk_format_rate(rates->memory, memory, sizeof memory));
	if (rates->device > 0)
		fprintf(out, ";\nstorage works %s of a step, %s of it hidden",
		        lk_format_seconds(rates->device, disk, sizeof disk),
		        lk_format_seconds(rates->hidden, memory, sizeof memory));
	fputc('\n', out);
	if (isfinite(rates->cores_to_hide))
		fprintf(out, "%.0f loader %s would hide preparation\n", rates->cores_to_hide,
		        lk_noun(rates->cores_to_hide, "thread", "threads"));
	if (isfinite(rates->cache_to_hide) && rates->cache_to_hide > 0)
		fprintf(out, "%.0f %% of the data in memory would hide fetching\n",
		        100 * rates->cache_to_hide);
}

static lk_status put_end(const lk_stalls_answer *answer, FILE *out, lk_error *err) {
	if (answer->note_count) fputc('\n', out);
	for (int i = 0; i < answer->note_count; i++) {
		int indent = fprintf(out, "N%d: ", i + 1);
		LK_TRY(lk_put_wrapped(answer->notes[i], indent, indent, out, err));
		fputc('\n', out);
	}
	if (*answer->kept) fprintf(out, "recordings: %s\n", answer->kept);
	fputs("reproduce: ", out);
	LK_TRY(lk_put_safe(answer->reproduce, out, err));
	fputc('\n', out);
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}

/* Reads of all files by their sizes. */
static void stalls_view_put_sizes(const lk_stalls_answer *answer, FILE *out) {
	static const char *const ends[LK_STALLS_CLASSES] = {"<= 100 B", "1 KiB", "10 KiB", "100 KiB",
	                                                    "1 MiB",    "4 MiB", "10 MiB", "100 MiB",
	                                                    "1 GiB",    "above"};
	const char *between = "  reads by size:";
	for (int c = 0; c < LK_STALLS_CLASSES; c++) {
		double reads = 0;
		for (int i = 0; i < answer->file_count; i++) reads += answer->files[i].sizes[c];
		if (!(reads > 0)) continue;
		fprintf(out, "%s %s %.0f", between, ends[c], reads);
		between = ",";
	}
	if (*between == ',') fputc('\n', out);
}

static lk_status stalls_view_put_files(const lk_stalls_answer *answer, bool colour, FILE *out,
                                       lk_error *err) {
	enum { SHOWN = 12 };
	const lk_stalls_staging *staging = &answer->staging;
	char a[32], b[32], c[32], d[32];
	if (!answer->file_count) return LK_OK;
	lk_put_heading("files read, by time in calls", colour, out);
	LK_TRY(stalls_view_put_table(lk_stalls_top(answer, LK_STALLS_FILES, SHOWN), LK_FORMAT_TEXT,
	                             colour, out, err));
	if (answer->file_count > SHOWN)
		fprintf(out, "  and %d more (--table files)\n", answer->file_count - SHOWN);
	stalls_view_put_sizes(answer, out);
	if (staging->size > 0)
		fprintf(out,
		        "  %d %s, %s, on the fast tier: %s of the %s in calls saved; no choice saves over "
		        "%s more\n",
		        staging->files, lk_noun(staging->files, "file", "files"),
		        lk_format_bytes(staging->used, a, sizeof a),
		        lk_format_seconds(staging->gain_s, b, sizeof b),
		        lk_format_seconds(staging->read_s, c, sizeof c),
		        lk_format_seconds(staging->bound_s, d, sizeof d));
	if (staging->size > 0 && staging->unknown > 0)
		fprintf(out,
		        "  %d more %s would be faster there, but %s not known (the recording does not say, "
		        "and no such file is here)\n",
		        staging->unknown, lk_noun(staging->unknown, "file", "files"),
		        lk_noun(staging->unknown, "its size is", "their sizes are"));
	if (answer->file_count > 1) {
		lk_put_heading("the same by folder and tier", colour, out);
		LK_TRY(stalls_view_put_table(lk_stalls_table(answer, LK_STALLS_FOLDERS), LK_FORMAT_TEXT,
		                             colour, out, err));
	}
	return LK_OK;
}

/* Sums of both runs, and the files whose time changed most. */
static lk_status stalls_view_put_against(const lk_stalls_answer *answer, bool colour, FILE *out,
                                         lk_error *err) {
	enum { SHOWN = 12 };
	double before_s = 0, after_s = 0, before_bytes = 0, after_bytes = 0;
	char a[32], b[32], c[32], d[32];
	if (!answer->pair_count) return LK_OK;
	for (int i = 0; i < answer->pair_count; i++) {
		before_s += answer->pairs[i].before_s;
		after_s += answer->pairs[i].after_s;
		before_bytes += answer->pairs[i].before_bytes;
		after_bytes += answer->pairs[i].after_bytes;
	}
	lk_put_heading("files before (--against) and after, by change of time", colour, out);
	LK_TRY(stalls_view_put_table(lk_stalls_top(answer, LK_STALLS_AGAINST, SHOWN), LK_FORMAT_TEXT,
	                             colour, out, err));
	if (answer->pair_count > SHOWN)
		fprintf(out, "  and %d more (--table against)\n", answer->pair_count - SHOWN);
	fprintf(out, "  in all %s before and %s after, in calls %s before and %s after\n",
	        lk_format_bytes(before_bytes, a, sizeof a), lk_format_bytes(after_bytes, b, sizeof b),
	        lk_format_seconds(before_s, c, sizeof c), lk_format_seconds(after_s, d, sizeof d));
	return LK_OK;
}

static lk_status stalls_view_write_report(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_stalls_answer *answer = ((const struct asked *)what)->x;
	if (answer->machine_count) {
		LK_TRY(stalls_view_put_table(lk_stalls_table(answer, LK_STALLS_MACHINES), LK_FORMAT_TEXT,
		                             colour, out, err));
		return put_end(answer, out, err);
	}
	if (!answer->steps) { /* a log of files alone */
		if (!answer->file_count) fputs("no file was read\n", out);
		LK_TRY(stalls_view_put_files(answer, colour, out, err));
		LK_TRY(stalls_view_put_against(answer, colour, out, err));
		return put_end(answer, out, err);
	}
	stalls_view_put_step(answer, out);
	stalls_view_put_verdict(answer, out);
	lk_put_heading("where a step's time goes", colour, out);
	stalls_view_put_waterfall(answer, out);
	lk_put_heading("parts", colour, out);
	LK_TRY(stalls_view_put_table(lk_stalls_table(answer, LK_STALLS_PARTS), LK_FORMAT_TEXT, colour,
	                             out, err));
	LK_TRY(stalls_view_put_ways(answer, out, err));
	if (answer->mark_count) {
		lk_put_heading("marks of the program", colour, out);
		LK_TRY(stalls_view_put_table(lk_stalls_table(answer, LK_STALLS_MARKED), LK_FORMAT_TEXT,
		                             colour, out, err));
	}
	lk_put_heading("runs", colour, out);
	put_drift(answer, out);
	LK_TRY(stalls_view_put_table(lk_stalls_table(answer, LK_STALLS_RUNS), LK_FORMAT_TEXT, colour,
	                             out, err));
	LK_TRY(stalls_view_put_run_notes(answer, out, err));
	if (answer->rank_count > 1) {
		lk_put_heading("ranks", colour, out);
		LK_TRY(stalls_view_put_table(lk_stalls_table(answer, LK_STALLS_RANKS), LK_FORMAT_TEXT,
		                             colour, out, err));
	}
	put_communication(answer, colour, out);
	LK_TRY(stalls_view_put_table(lk_stalls_table(answer, LK_STALLS_BUCKETS), LK_FORMAT_TEXT, colour,
	                             out, err));
	put_rates(answer, colour, out);
	LK_TRY(stalls_view_put_table(lk_stalls_table(answer, LK_STALLS_WHAT_IF), LK_FORMAT_TEXT, colour,
	                             out, err));
	LK_TRY(stalls_view_put_files(answer, colour, out, err));
	LK_TRY(stalls_view_put_against(answer, colour, out, err));
	return put_end(answer, out, err);
}

static lk_status stalls_view_write_markdown(const void *what, bool colour, FILE *out,
                                            lk_error *err) {
	const lk_stalls_answer *answer = ((const struct asked *)what)->x;
	for (int i = LK_STALLS_ALL + 1; i < LK_STALLS_TABLES; i++) {
		fprintf(out, "## %s\n\n", lk_stalls_tables[i]);
		LK_TRY(stalls_view_put_table(lk_stalls_table(answer, i), LK_FORMAT_MD, colour, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

/* ---- all ---- */

lk_status lk_stalls_print(const lk_stalls_answer *answer, int format, int table, bool colour,
                          const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, false, colour, path, out};
	struct asked a = {answer, table};
	LK_TRY(lk_writing_check(&w, err));
	if (table < 0 || table >= LK_STALLS_TABLES)
		return lk_fail(err, LK_ERR_INPUT, "--table", "unknown table %d", table);
	bool predicted = answer->machine_count > 0;
	if (table != LK_STALLS_ALL && predicted != (table == LK_STALLS_MACHINES)) {
		lk_fail(err, LK_ERR_INPUT, "--table", "with --model there is one table: machines");
		return lk_hint(err, "leave one of the two out");
	}
	if (predicted && format != LK_FORMAT_TEXT) table = LK_STALLS_MACHINES;
	if (format == LK_FORMAT_JSON)
		return lk_write_document_part(&w, &lk_stalls_document, answer, table, err);
	if (!answer->shown && table > LK_STALLS_ALL && table < LK_STALLS_FILES) {
		lk_fail(err, LK_ERR_INPUT, "--table", "%s: a log of Darshan has no steps",
		        lk_stalls_tables[table]);
		return lk_hint(err, "give files, folders or against");
	}
	bool one_table = format == LK_FORMAT_CSV || format == LK_FORMAT_JSONL;
	if (!answer->shown && table == LK_STALLS_ALL && one_table) table = LK_STALLS_FILES;
	if (table == LK_STALLS_ALL && format == LK_FORMAT_TEXT)
		return lk_write_through(&w, stalls_view_write_report, &a, err);
	if (table == LK_STALLS_ALL && format == LK_FORMAT_MD)
		return lk_write_through(&w, stalls_view_write_markdown, &a, err);
	if (table == LK_STALLS_ALL && format == LK_FORMAT_SQLITE) {
		lk_table *tables[LK_STALLS_TABLES];
		int count = 0;
		for (int i = LK_STALLS_ALL + 1; i < LK_STALLS_TABLES; i++)
			tables[count++] = lk_stalls_table(answer, i);
		return lk_write_database(&w, tables, count, err);
	}
	return lk_write_table(&w, lk_table_mark(lk_stalls_table(answer, table), answer->failed_check),
	                      err);
}

void lk_stalls_print_plan(const lk_stalls_plan *plan, FILE *out) {
	enum { SHOWN = 8 };
	char time[32], bytes[32], safe[4096];
	if (plan->budget > 0)
		fprintf(out,
		        "lockstep: the command will run again for at most %s, in rounds of about %s: %s\n",
		        lk_format_seconds(plan->budget, bytes, sizeof bytes),
		        lk_format_seconds(plan->seconds / plan->repeats, time, sizeof time),
		        plan->configurations);
	else
		fprintf(out, "lockstep: the command will run %d more times, about %s: %s, %d times each\n",
		        plan->runs, lk_format_seconds(plan->seconds, time, sizeof time),
		        plan->configurations, plan->repeats);
	if (!plan->written_count) fputs("  the first run wrote no files\n", out);
	else
		fprintf(out, "  the first run wrote %s to %d %s; the others write to %s instead:\n",
		        lk_format_bytes(plan->written_bytes, bytes, sizeof bytes), plan->written_count,
		        lk_noun(plan->written_count, "file", "files"), plan->scratch);
	for (int i = 0; i < plan->written_count && i < SHOWN; i++)
		fprintf(out, "    %s\n", lk_escape(plan->written[i], safe, sizeof safe));
	if (plan->written_count > SHOWN) fprintf(out, "    and %d more\n", plan->written_count - SHOWN);
	fputs("  its other effects (network, other programs) happen again\n", out);
}
