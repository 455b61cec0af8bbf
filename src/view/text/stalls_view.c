/* stalls_view.c: what stalls a command, in every format. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "base/noun.h"
#include "lockstep/stalls.h"
#include "view/text/views.h"
#include "view/table/table.h"

struct asked {
	const lk_stalls_answer *x;
	int table;
};

static const char *const bases[] = {"measured", "estimated", "not known"};

/* ---- tables ---- */

static void put_interval(lk_table *table, double low, double high) {
	char a[32], b[32], text[72];
	lk_table_number(table, low, NULL);
	lk_table_number(table, high, NULL);
	if (isnan(low)) {
		lk_table_text(table, NULL);
		return;
	}
	snprintf(text, sizeof text, "%s - %s", lk_format_seconds(low, a, sizeof a),
	         lk_format_seconds(high, b, sizeof b));
	lk_table_text(table, text);
}

static void put_factor(lk_table *table, double factor) {
	char text[32], shown[40];
	if (!isfinite(factor)) {
		lk_table_number(table, NAN, NULL);
		return;
	}
	snprintf(shown, sizeof shown, "x%s", lk_fixed(factor, 2, text, sizeof text));
	lk_table_number(table, factor, shown);
}

static const char *verdict(const lk_stalls_part *part, int kind) {
	if (kind == LK_STALL_COMPUTE || part->basis == LK_STALLS_UNKNOWN) return NULL;
	return part->named ? "stall" : "within noise";
}

static lk_table *parts(const lk_stalls_answer *answer) {
	static const lk_column columns[] = {
		{"part", "part", false, false},
		{"seconds", "a step", true, false},
		{"low_s", "", true, true},
		{"high_s", "", true, true},
		{"interval", "95 %", true, false},
		{"share_pctg", "of the step", true, false},
		{"own_share_pctg", "of its run", true, false},
		{"slowdown", "slowdown", true, false},
		{"verdict", "", false, false},
		{"basis", "basis", false, false},
		{"how", "how", false, true},
	};
	lk_table *table = lk_table_new("parts", columns, (int)(sizeof columns / sizeof *columns));
	for (int k = 0; table && k < LK_STALL_KINDS; k++) {
		const lk_stalls_part *part = &answer->parts[k];
		lk_table_row(table);
		lk_table_text(table, lk_stalls_kinds[k]);
		lk_put_seconds(table, part->seconds);
		put_interval(table, part->low, part->high);
		lk_put_pctg(table, part->share, 1);
		lk_put_pctg(table, part->own_share, 1);
		put_factor(table, part->factor);
		lk_table_text(table, verdict(part, k));
		lk_table_text(table, bases[part->basis]);
		lk_table_text(table, part->how);
	}
	return table;
}

static lk_table *stalls_view_runs(const lk_stalls_answer *answer) {
	static const lk_column columns[] = {
		{"configuration", "configuration", false, false},
		{"runs", "runs", true, false},
		{"step_s", "step", true, false},
		{"low_s", "", true, true},
		{"high_s", "", true, true},
		{"interval", "95 %", true, false},
		{"files_in_memory_pctg", "files in memory", true, false},
		{"note", "", false, true},
	};
	lk_table *table = lk_table_new("runs", columns, (int)(sizeof columns / sizeof *columns));
	for (int c = 0; table && c < LK_STALLS_CONFIGURATIONS; c++) {
		const lk_stalls_row *row = &answer->rows[c];
		lk_table_row(table);
		lk_table_text(table, lk_stalls_configurations[c]);
		lk_put_count(table, row->runs);
		lk_put_seconds(table, row->step_s);
		put_interval(table, row->low, row->high);
		lk_put_pctg(table, row->resident, 1);
		lk_table_text(table, *row->note ? row->note : NULL);
	}
	return table;
}

static lk_table *stalls_view_ranks(const lk_stalls_answer *answer) {
	static const lk_column columns[] = {
		{"rank", "rank", true, false},         {"step_s", "step", true, false},
		{"own_s", "own time", true, false},    {"computing_s", "computing", true, false},
		{"sleeping_s", "asleep", true, false}, {"storage_s", "storage", true, false},
		{"data_s", "for data", true, false},   {"preempted_s", "preempted", true, false},
	};
	lk_table *table = lk_table_new("ranks", columns, (int)(sizeof columns / sizeof *columns));
	for (int i = 0; table && i < answer->rank_count; i++) {
		const lk_stalls_rank *rank = &answer->by_rank[i];
		lk_table_row(table);
		lk_put_count(table, rank->rank < 0 ? NAN : rank->rank);
		lk_put_seconds(table, rank->step);
		lk_put_seconds(table, rank->own);
		lk_put_seconds(table, rank->computing);
		lk_put_seconds(table, rank->sleeping);
		lk_put_seconds(table, rank->storage);
		lk_put_seconds(table, rank->data);
		lk_put_seconds(table, rank->preempted);
	}
	return table;
}

static lk_table *buckets(const lk_stalls_answer *answer) {
	static const lk_column columns[] = {
		{"bucket_bytes", "bucket", true, false},
		{"calls", "calls a step", true, false},
		{"transfer_s", "transfer", true, false},
		{"step_s", "step", true, false},
	};
	lk_table *table = lk_table_new("buckets", columns, (int)(sizeof columns / sizeof *columns));
	for (int i = 0; table && i < answer->buckets.count; i++) {
		char text[32];
		const struct lk_stalls_bucket *bucket = &answer->buckets.at[i];
		lk_table_row(table);
		lk_table_number(table, bucket->bucket_bytes,
		                lk_format_bytes(bucket->bucket_bytes, text, sizeof text));
		lk_put_count(table, bucket->calls);
		lk_put_seconds(table, bucket->transfer_s);
		lk_put_seconds(table, bucket->step_s);
	}
	return table;
}

static lk_table *what_ifs(const lk_stalls_answer *answer) {
	static const lk_column columns[] = {
		{"machine", "machine", false, false},     {"step_s", "step", true, false},
		{"speedup", "faster", true, false},       {"closed_step_s", "closed form", true, true},
		{"bottleneck", "hangs on", false, false},
	};
	lk_table *table = lk_table_new("what_if", columns, (int)(sizeof columns / sizeof *columns));
	for (int i = 0; table && i < answer->change_count; i++) {
		const lk_stalls_change *change = &answer->changes[i];
		lk_table_row(table);
		lk_table_text(table, change->what);
		lk_put_seconds(table, change->step_s);
		put_factor(table, change->factor);
		lk_table_number(table, change->closed_s, NULL);
		lk_table_text(table, change->bottleneck);
	}
	return table;
}

/* Files that were read; at most so many. */
static lk_table *stalls_view_files(const lk_stalls_answer *answer, int most) {
	const lk_column columns[] = {
		{"file", "file", false, false},
		{"opens", "opens", true, false},
		{"reads", "reads", true, false},
		{"read_bytes", "read", true, false},
		{"size_bytes", "size", true, false},
		{"sequential", "sequential", true, false},
		{"read_s", "time", true, false},
		{"bytes_per_s", "rate", true, false},
		{"gain_s", "gain", true, answer->staging.size == 0},
		{"staged", "staged", false, answer->staging.size == 0},
	};
	lk_table *table = lk_table_new("files", columns, 10);
	for (int i = 0; table && i < answer->file_count && i < most; i++) {
		const lk_stalls_file *file = &answer->files[i];
		double rate = file->read_s > 0 ? file->read_bytes / file->read_s : NAN;
		char text[64];
		lk_table_row(table);
		lk_table_text(table, file->path);
		lk_table_number(table, file->opens, NULL);
		lk_table_number(table, file->reads, NULL);
		lk_table_number(table, file->read_bytes,
		                lk_format_bytes(file->read_bytes, text, sizeof text));
		lk_table_number(table, file->size > 0 ? file->size : NAN,
		                file->size > 0 ? lk_format_bytes(file->size, text, sizeof text) : NULL);
		double share = file->reads > 0 ? fmin(1, file->sequential / file->reads) : 0;
		snprintf(text, sizeof text, "%.0f %%", 100 * share);
		lk_table_number(table, share, text);
		lk_table_number(table, file->read_s, lk_format_seconds(file->read_s, text, sizeof text));
		lk_table_number(table, rate, isnan(rate) ? NULL : lk_format_rate(rate, text, sizeof text));
		lk_table_number(table, file->gain_s, lk_format_seconds(file->gain_s, text, sizeof text));
		lk_table_text(table, file->staged ? "yes" : "");
	}
	return table;
}

static lk_table *stalls_view_folders(const lk_stalls_answer *answer) {
	static const lk_column columns[] = {
		{"folder", "folder", false, false}, {"tier", "tier", false, false},
		{"files", "files", true, false},    {"opens", "opens", true, true},
		{"reads", "reads", true, false},    {"read_bytes", "read", true, false},
		{"size_bytes", "size", true, true}, {"sequential", "sequential", true, false},
		{"read_s", "time", true, false},    {"bytes_per_s", "rate", true, false},
	};
	lk_table *table = lk_table_new("folders", columns, 10);
	for (int i = 0; table && i < answer->folder_count; i++) {
		const lk_stalls_folder *folder = &answer->folders[i];
		double rate = folder->read_s > 0 ? folder->read_bytes / folder->read_s : NAN;
		double share = folder->reads > 0 ? fmin(1, folder->sequential / folder->reads) : 0;
		char text[64];
		lk_table_row(table);
		lk_table_text(table, folder->path);
		lk_table_text(table, *folder->tier ? folder->tier : NULL);
		lk_table_number(table, folder->files, NULL);
		lk_table_number(table, folder->opens, NULL);
		lk_table_number(table, folder->reads,
		                lk_format_thousands(folder->reads, text, sizeof text));
		lk_table_number(table, folder->read_bytes,
		                lk_format_bytes(folder->read_bytes, text, sizeof text));
		lk_table_number(table, folder->size, NULL);
		snprintf(text, sizeof text, "%.0f %%", 100 * share);
		lk_table_number(table, share, text);
		lk_table_number(table, folder->read_s,
		                lk_format_seconds(folder->read_s, text, sizeof text));
		lk_table_number(table, rate, isnan(rate) ? NULL : lk_format_rate(rate, text, sizeof text));
	}
	return table;
}

/* Files of two runs; at most so many. */
static lk_table *stalls_view_pairs(const lk_stalls_answer *answer, int most) {
	static const lk_column columns[] = {
		{"file", "file", false, false},        {"before_reads", "reads before", true, false},
		{"after_reads", "after", true, false}, {"before_bytes", "read before", true, false},
		{"after_bytes", "after", true, false}, {"before_s", "time before", true, false},
		{"after_s", "after", true, false},
	};
	lk_table *table = lk_table_new("against", columns, 7);
	for (int i = 0; table && i < answer->pair_count && i < most; i++) {
		const lk_stalls_pair *pair = &answer->pairs[i];
		char text[64];
		lk_table_row(table);
		lk_table_text(table, pair->path);
		lk_table_number(table, pair->before_reads, NULL);
		lk_table_number(table, pair->after_reads, NULL);
		lk_table_number(table, pair->before_bytes,
		                lk_format_bytes(pair->before_bytes, text, sizeof text));
		lk_table_number(table, pair->after_bytes,
		                lk_format_bytes(pair->after_bytes, text, sizeof text));
		lk_table_number(table, pair->before_s,
		                lk_format_seconds(pair->before_s, text, sizeof text));
		lk_table_number(table, pair->after_s, lk_format_seconds(pair->after_s, text, sizeof text));
	}
	return table;
}

lk_table *lk_stalls_table(const lk_stalls_answer *answer, int which) {
	switch (which) {
	case LK_STALLS_AGAINST: return stalls_view_pairs(answer, answer->pair_count);
	case LK_STALLS_FOLDERS: return stalls_view_folders(answer);
	case LK_STALLS_FILES: return stalls_view_files(answer, answer->file_count);
	case LK_STALLS_RUNS: return stalls_view_runs(answer);
	case LK_STALLS_RANKS: return stalls_view_ranks(answer);
	case LK_STALLS_BUCKETS: return buckets(answer);
	case LK_STALLS_WHAT_IF: return what_ifs(answer);
	default: return parts(answer);
	}
}

/* ---- the report ---- */

static void stalls_view_put_heading(const char *text, bool colour, FILE *out) {
	fprintf(out, "\n%s%s%s\n", colour ? "\x1b[1m" : "", text, colour ? "\x1b[0m" : "");
}

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
	for (int k = 0; k < LK_STALL_KINDS; k++) {
		const lk_stalls_part *part = &answer->parts[k];
		char time[32], share[32];
		if (isnan(part->seconds)) {
			fprintf(out, "  %-13s %9s\n", lk_stalls_kinds[k], "?");
			continue;
		}
		int from = (int)(at / answer->step_s * WIDTH + 0.5),
			to = (int)((at + part->seconds) / answer->step_s * WIDTH + 0.5);
		if (from > WIDTH) from = WIDTH;
		if (to > WIDTH) to = WIDTH;
		fprintf(out, "  %-13s %9s %7s  %*s", lk_stalls_kinds[k],
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
	const char *texts[LK_STALL_KINDS];
	for (int k = 0; k < LK_STALL_KINDS; k++) texts[k] = answer->parts[k].how;
	return stalls_view_put_texts(lk_stalls_kinds, texts, LK_STALL_KINDS, out, err);
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
	const lk_stalls_part *part = &answer->parts[kind];
	char time[32], low[32], high[32], share[32];
	fprintf(out, "%s %s", lk_stalls_kinds[kind],
	        lk_format_seconds(part->seconds, time, sizeof time));
	if (!isnan(part->low))
		fprintf(out, " (95 %%: %s - %s)", lk_format_seconds(part->low, low, sizeof low),
		        lk_format_seconds(part->high, high, sizeof high));
	fprintf(out, ", %s of the step", lk_percent(part->share, share, sizeof share));
}

static int largest_stall(const lk_stalls_answer *answer) {
	int worst = -1;
	for (int k = 0; k < LK_STALL_KINDS; k++)
		if (answer->parts[k].named &&
		    (worst < 0 || answer->parts[k].seconds > answer->parts[worst].seconds))
			worst = k;
	return worst;
}

static void stalls_view_put_verdict(const lk_stalls_answer *answer, FILE *out) {
	const lk_stalls_lead *lead = &answer->lead;
	int worst = largest_stall(answer);
	fputs("largest part: ", out);
	put_part_size(answer, (int)lead->first, out);
	if (!lead->apart) {
		fputs("; cannot be told apart from ", out);
		put_part_size(answer, (int)lead->second, out);
	}
	fputc('\n', out);
	if (worst < 0) {
		fputs("no stall is above the noise and 2 % of the step\n", out);
		return;
	}
	fputs("largest stall: ", out);
	put_part_size(answer, worst, out);
	fprintf(out, ",\n  %.2f times as long as without it; %s\n", answer->parts[worst].factor,
	        bases[answer->parts[worst].basis]);
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
	stalls_view_put_heading("communication by calls and bytes", colour, out);
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
	stalls_view_put_heading("what if", colour, out);
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
	stalls_view_put_heading("files read, by time in calls", colour, out);
	LK_TRY(
		stalls_view_put_table(stalls_view_files(answer, SHOWN), LK_FORMAT_TEXT, colour, out, err));
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
		stalls_view_put_heading("the same by folder and tier", colour, out);
		LK_TRY(
			stalls_view_put_table(stalls_view_folders(answer), LK_FORMAT_TEXT, colour, out, err));
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
	stalls_view_put_heading("files before (--against) and after, by change of time", colour, out);
	LK_TRY(
		stalls_view_put_table(stalls_view_pairs(answer, SHOWN), LK_FORMAT_TEXT, colour, out, err));
	if (answer->pair_count > SHOWN)
		fprintf(out, "  and %d more (--table against)\n", answer->pair_count - SHOWN);
	fprintf(out, "  in all %s before and %s after, in calls %s before and %s after\n",
	        lk_format_bytes(before_bytes, a, sizeof a), lk_format_bytes(after_bytes, b, sizeof b),
	        lk_format_seconds(before_s, c, sizeof c), lk_format_seconds(after_s, d, sizeof d));
	return LK_OK;
}

static lk_status stalls_view_write_report(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_stalls_answer *answer = ((const struct asked *)what)->x;
	if (!answer->steps) { /* a log of files alone */
		if (!answer->file_count) fputs("no file was read\n", out);
		LK_TRY(stalls_view_put_files(answer, colour, out, err));
		LK_TRY(stalls_view_put_against(answer, colour, out, err));
		return put_end(answer, out, err);
	}
	stalls_view_put_step(answer, out);
	stalls_view_put_verdict(answer, out);
	stalls_view_put_heading("where a step's time goes", colour, out);
	stalls_view_put_waterfall(answer, out);
	stalls_view_put_heading("parts", colour, out);
	LK_TRY(stalls_view_put_table(parts(answer), LK_FORMAT_TEXT, colour, out, err));
	LK_TRY(stalls_view_put_ways(answer, out, err));
	stalls_view_put_heading("runs", colour, out);
	put_drift(answer, out);
	LK_TRY(stalls_view_put_table(stalls_view_runs(answer), LK_FORMAT_TEXT, colour, out, err));
	LK_TRY(stalls_view_put_run_notes(answer, out, err));
	if (answer->rank_count > 1) {
		stalls_view_put_heading("ranks", colour, out);
		LK_TRY(stalls_view_put_table(stalls_view_ranks(answer), LK_FORMAT_TEXT, colour, out, err));
	}
	put_communication(answer, colour, out);
	LK_TRY(stalls_view_put_table(buckets(answer), LK_FORMAT_TEXT, colour, out, err));
	put_rates(answer, colour, out);
	LK_TRY(stalls_view_put_table(what_ifs(answer), LK_FORMAT_TEXT, colour, out, err));
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

/* ---- fields ---- */

#define STALLED(member) LK_AT(lk_stalls_answer, member)
#define BUCKETS(member) LK_AT(lk_stalls_buckets, member)
#define RATES(member)   LK_AT(lk_stalls_rates, member)
#define LEAD(member)    LK_AT(lk_stalls_lead, member)
#define STAGED(member)  LK_AT(lk_stalls_staging, member)

static const lk_answer_field drift_fields[] = {
	{"low", NULL, STALLED(drift_low), .known = LK_MAYBE},
	{"high", NULL, STALLED(drift_high), .known = LK_MAYBE},
	{"trend", NULL, STALLED(drift_trend), .known = LK_MAYBE},
};
static const lk_answer_record drift_record = {LK_RECORD(lk_stalls_answer, drift_fields)};

static bool has_staging(const lk_subject *subject) {
	return ((const lk_stalls_answer *)subject->answer)->staging.size > 0;
}

static const lk_answer_field staging_fields[] = {
	{"size", NULL, STAGED(size)},       {"used", NULL, STAGED(used)},
	{"files", NULL, STAGED(files)},     {"unknown", NULL, STAGED(unknown)},
	{"read_s", NULL, STAGED(read_s)},   {"gain_s", NULL, STAGED(gain_s)},
	{"bound_s", NULL, STAGED(bound_s)},
};
static const lk_answer_record staging_record = {LK_RECORD(lk_stalls_staging, staging_fields)};

static void find_first(const lk_subject *subject, lk_field_value *found) {
	found->text = lk_stalls_kinds[((const lk_stalls_lead *)subject->record)->first];
}

static void find_second(const lk_subject *subject, lk_field_value *found) {
	found->text = lk_stalls_kinds[((const lk_stalls_lead *)subject->record)->second];
}

static const lk_answer_field lead_fields[] = {
	{"first", NULL, LK_FIELD_TEXT, .get = find_first},
	{"second", NULL, LK_FIELD_TEXT, .get = find_second},
	{"low_s", NULL, LEAD(low), .known = LK_MAYBE},
	{"high_s", NULL, LEAD(high), .known = LK_MAYBE},
	{"rounds_needed", NULL, LEAD(rounds_needed), .known = LK_MAYBE},
	{"apart", NULL, LEAD(apart)},
};
static const lk_answer_record lead_record = {LK_RECORD(lk_stalls_lead, lead_fields)};

static const lk_answer_field bucket_fields[] = {
	{"group", NULL, BUCKETS(group), .known = LK_MAYBE},
	{"calls", NULL, BUCKETS(calls), .known = LK_MAYBE},
	{"bytes", NULL, BUCKETS(bytes), .known = LK_MAYBE},
	{"per_call_s", NULL, BUCKETS(per_call_s), .known = LK_MAYBE},
	{"per_byte_s", NULL, BUCKETS(per_byte_s), .known = LK_MAYBE},
	{"rest_s", NULL, BUCKETS(rest_s), .known = LK_MAYBE},
	{"error", NULL, BUCKETS(error), .known = LK_MAYBE},
	{"sizes", NULL, BUCKETS(sizes)},
};
static const lk_answer_record bucket_record = {.name = "Buckets",
                                               LK_RECORD(lk_stalls_buckets, bucket_fields)};

static const lk_answer_field rate_fields[] = {
	{"pipelined", NULL, RATES(pipelined)},
	{"ingestion", NULL, RATES(ingestion), .known = LK_MAYBE},
	{"preparation", NULL, RATES(preparation), .known = LK_MAYBE},
	{"fetch", NULL, RATES(fetch), .known = LK_MAYBE},
	{"bytes", NULL, RATES(bytes), .known = LK_MAYBE},
	{"disk_bytes_per_s", NULL, RATES(disk), .known = LK_MAYBE},
	{"memory_bytes_per_s", NULL, RATES(memory), .known = LK_MAYBE},
	{"device_s", NULL, RATES(device), .known = LK_MAYBE},
	{"hidden_s", NULL, RATES(hidden), .known = LK_MAYBE},
	{"hit", NULL, RATES(hit), .known = LK_MAYBE},
	{"workers", NULL, RATES(workers), .known = LK_MAYBE},
	{"cores", NULL, RATES(cores), .known = LK_MAYBE},
	{"busy", NULL, RATES(busy), .known = LK_MAYBE},
	{"cores_to_hide", NULL, RATES(cores_to_hide), .known = LK_MAYBE},
	{"cache_to_hide", NULL, RATES(cache_to_hide), .known = LK_MAYBE},
	{"from", NULL, RATES(from), .known = LK_MAYBE},
};
static const lk_answer_record rate_record = {.name = "Rates",
                                             LK_RECORD(lk_stalls_rates, rate_fields)};

static lk_table *rows_of(const void *answer, int which) {
	return lk_stalls_table(answer, which);
}

/* --table leaves the rows of the other tables out, so that their keys may be absent. */
static bool may_be_absent(const lk_subject *subject) {
	(void)subject;
	return true;
}

#define ROWS(number) \
	.kind = LK_FIELD_ROWS, .rows = rows_of, .which = LK_STALLS_##number, .when = may_be_absent

static const lk_answer_field answer_fields[] = {
	{"status", NULL, STALLED(status)},
	{"ranks", NULL, STALLED(ranks)},
	{"hosts", NULL, STALLED(hosts)},
	{"steps", NULL, STALLED(steps)},
	{"first_step_s", NULL, STALLED(first_s), .known = LK_MAYBE},
	{"step_s", NULL, STALLED(step_s), .known = LK_MAYBE},
	{"step_low_s", NULL, STALLED(low), .known = LK_MAYBE},
	{"step_high_s", NULL, STALLED(high), .known = LK_MAYBE},
	{"base", NULL, STALLED(base), .known = LK_MAYBE},
	{"rounds", NULL, STALLED(rounds)},
	{"rounds_left_out", NULL, STALLED(rounds_left_out)},
	{"drift", NULL, LK_HERE(drift_record)},
	{"staging", NULL, LK_INSIDE(lk_stalls_answer, staging, staging_record), .there = has_staging},
	{"lead", NULL, LK_INSIDE(lk_stalls_answer, lead, lead_record)},
	{"parts", NULL, ROWS(PARTS)},
	{"runs", NULL, ROWS(RUNS)},
	{"by_rank", NULL, ROWS(RANKS)},
	{"buckets", NULL, ROWS(BUCKETS)},
	{"what_if", NULL, ROWS(WHAT_IF)},
	{"files", NULL, ROWS(FILES)},
	{"folders", NULL, ROWS(FOLDERS)},
	{"against", NULL, ROWS(AGAINST)},
	{"communication", NULL, LK_INSIDE(lk_stalls_answer, buckets, bucket_record)},
	{"rates", NULL, LK_INSIDE(lk_stalls_answer, rates, rate_record)},
	{"notes", NULL, LK_LIST(lk_stalls_answer, notes, note_count)},
	{"reason", NULL, STALLED(reason), .known = LK_UNLESS_ZERO},
	{"reproduce", NULL, STALLED(reproduce)},
};
static const lk_answer_record answer_record = {LK_RECORD(lk_stalls_answer, answer_fields)};
const lk_document lk_stalls_document = {"stalls", "`stalls -o json`", &answer_record,
                                        offsetof(lk_stalls_answer, failed_check), NULL};

/* ---- all ---- */

lk_status lk_stalls_print(const lk_stalls_answer *answer, int format, int table, bool colour,
                          const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, false, colour, path, out};
	struct asked a = {answer, table};
	LK_TRY(lk_writing_check(&w, err));
	if (table < 0 || table >= LK_STALLS_TABLES)
		return lk_fail(err, LK_ERR_INPUT, "--table", "unknown table %d", table);
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
