/* replay_view.c: replayed steps alongside measured ones, as text, tables or JSON. */
#include "lockstep/replay.h"

#include <math.h>
#include <string.h>

#include "io/json.h"
#include "base/text.h"
#include "base/noun.h"
#include "view/table/output.h"
#include "view/text/views.h"

struct shown {
	const lk_replay *replay;
	bool verbose;
};

static double replay_view_error_of(double predicted, double measured) {
	return measured > 0 ? predicted / measured - 1 : NAN;
}

/* ---- table ---- */

static const lk_column columns[] = {
	{"rank", "rank", true, false},
	{"step", "step", true, false},
	{"measured_us", "measured", true, false},
	{"predicted_us", "predicted", true, false},
	{"error", "off", true, false},
	{"baseline_us", "mean of others", true, false},
	{"baseline_error", "off", true, false},
	{"host_known", "host known", true, false},
	{"device_known", "device known", true, false},
	{"left_out", "left out", false, false},
	{"path", "path", false, true},
};

static void replay_view_put_time(lk_table *table, double seconds) {
	char text[64];
	lk_table_number(table, seconds * 1e6,
	                isnan(seconds) ? NULL : lk_format_seconds(seconds, text, sizeof text));
}

static void replay_view_put_share(lk_table *table, double share, bool sign) {
	char text[64], number[48];
	snprintf(text, sizeof text, "%s%s", sign && share >= 0 ? "+" : "",
	         lk_percent(share, number, sizeof number));
	lk_table_number(table, share, isnan(share) ? NULL : text);
}

static void replay_view_put_step(lk_table *table, const lk_replay_rank *rank,
                                 const lk_replay_step *step) {
	bool done = !isnan(step->predicted_s);
	lk_table_row(table);
	lk_table_number(table, rank->rank, NULL);
	char number[32];
	snprintf(number, sizeof number, "%lld", (long long)step->number);
	lk_table_number(table, (double)step->number, number);
	replay_view_put_time(table, step->measured_s);
	replay_view_put_time(table, step->predicted_s);
	replay_view_put_share(
		table, done ? replay_view_error_of(step->predicted_s, step->measured_s) : NAN, true);
	replay_view_put_time(table, done ? step->baseline_s : NAN);
	replay_view_put_share(
		table, done ? replay_view_error_of(step->baseline_s, step->measured_s) : NAN, true);
	replay_view_put_share(table, done ? step->host_known : NAN, false);
	replay_view_put_share(table, done ? step->device_known : NAN, false);
	lk_table_text(table, step->left_out);
	lk_table_text(table, rank->path);
}

static lk_table *replay_view_table_of(const lk_replay *replay) {
	lk_table *table = lk_table_new("replay", columns, (int)(sizeof columns / sizeof *columns));
	for (size_t i = 0; table && i < replay->rank_count; i++)
		for (size_t s = 0; s < replay->ranks[i].step_count; s++)
			replay_view_put_step(table, &replay->ranks[i], &replay->ranks[i].steps[s]);
	if (table) lk_table_hide_empty(table);
	return table;
}

/* ---- text ---- */

static void replay_view_put_parts(const lk_replay_rank *rank, FILE *out) {
	for (size_t s = 0; s < rank->step_count; s++) {
		const lk_replay_step *step = &rank->steps[s];
		for (size_t p = 0; p < step->part_count; p++) {
			char measured[64], predicted[64];
			fprintf(out, "  rank %d step %lld  %-28s measured %10s  predicted %10s\n", rank->rank,
			        (long long)step->number, step->parts[p].name,
			        lk_format_seconds(step->parts[p].measured_s, measured, sizeof measured),
			        lk_format_seconds(step->parts[p].predicted_s, predicted, sizeof predicted));
		}
	}
}

static lk_status replay_view_put_list(const char *const *texts, size_t count, size_t most,
                                      FILE *out, lk_error *err) {
	for (size_t i = 0; i < count && i < most; i++) {
		fputs("  ", out);
		LK_TRY(lk_put_safe(texts[i], out, err));
		fputc('\n', out);
	}
	if (count > most) fprintf(out, "  and %zu more\n", count - most);
	return LK_OK;
}

static void put_works(const lk_replay_works *works, FILE *out) {
	char share[48];
	if (!works) return;
	fprintf(out, "%zu %s by models, %zu by durations of the trace; %zu without a model",
	        works->modelled, lk_noun(works->modelled, "operation", "operations"), works->timed,
	        works->uncovered);
	if (works->host_times)
		fprintf(out, "; host times: %s not known by name",
		        lk_percent((double)works->host_times_by_mean / (double)works->host_times, share,
		                   sizeof share));
	fputs("\n\n", out);
}

static void put_summary(const lk_replay *replay, FILE *out) {
	char error[48], baseline[48], parts[48];
	fprintf(out, "%zu %s, %zu %s predicted, %zu %s a step", replay->rank_count,
	        lk_noun(replay->rank_count, "rank", "ranks"), replay->predicted,
	        lk_noun(replay->predicted, "step", "steps"), replay->operations,
	        lk_noun(replay->operations, "operation", "operations"));
	if (replay->rank_count > 1 && !replay->works)
		fprintf(out, ", clocks aligned on %zu %s (median residual %.1f us)", replay->collectives,
		        lk_noun(replay->collectives, "collective", "collectives"),
		        replay->residual_s * 1e6);
	fprintf(out, "\n%s\n\n", replay->times_from);
	put_works(replay->works, out);
	if (isnan(replay->geomean_error)) return;
	fprintf(out, "error    %s", lk_percent(replay->geomean_error, error, sizeof error));
	if (!isnan(replay->baseline_error))
		fprintf(out, "   (the mean of the others: %s)",
		        lk_percent(replay->baseline_error, baseline, sizeof baseline));
	fprintf(out, "\n");
	if (*replay->worst_part && strcmp(replay->held_out, "steps") == 0)
		fprintf(out, "parts    %s at most, %s\n",
		        lk_percent(replay->parts_error, parts, sizeof parts), replay->worst_part);
	fputc('\n', out);
}

static lk_status replay_view_write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct shown *shown = what;
	const lk_replay *replay = shown->replay;
	put_summary(replay, out);
	lk_table *table = replay_view_table_of(replay);
	if (!table) return lk_oom(err);
	lk_status status = lk_table_write(table, LK_FORMAT_TEXT, colour, out, err);
	lk_table_free(table);
	LK_TRY(status);
	if (shown->verbose) {
		fprintf(out, "\nparts\n");
		for (size_t i = 0; i < replay->rank_count; i++)
			replay_view_put_parts(&replay->ranks[i], out);
	}
	if (shown->verbose && replay->note_count) {
		fprintf(out, "\nnotes\n");
		LK_TRY(replay_view_put_list(replay->notes, replay->note_count, 20, out, err));
	}
	if ((shown->verbose || replay->works) && replay->uncovered_count) {
		char share[48];
		if (replay->works) fprintf(out, "\noperations without a model\n");
		else
			fprintf(out, "\nkernels of unknown shape (%s of the device time has a known one)\n",
			        lk_percent(replay->device_known_shape, share, sizeof share));
		LK_TRY(replay_view_put_list(replay->uncovered, replay->uncovered_count, 20, out, err));
	}
	if (replay->warning_count) {
		fprintf(out, "\nwarnings\n");
		LK_TRY(replay_view_put_list(replay->warnings, replay->warning_count, 20, out, err));
	}
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}

/* ---- JSON ---- */

static void put_json_step(lk_json_writer *writer, const lk_replay_step *step) {
	lk_json_object(writer, NULL);
	lk_json_put_integer(writer, "number", step->number);
	lk_json_put_number(writer, "measured_us", step->measured_s * 1e6);
	lk_json_put_number(writer, "predicted_us", step->predicted_s * 1e6);
	lk_json_put_number(writer, "baseline_us", step->baseline_s * 1e6);
	lk_json_put_text(writer, "left_out", step->left_out);
	lk_json_put_number(writer, "host_known", step->host_known);
	lk_json_put_number(writer, "device_known", step->device_known);
	lk_json_array(writer, "parts");
	for (size_t p = 0; p < step->part_count; p++) {
		lk_json_object(writer, NULL);
		lk_json_put_text(writer, "name", step->parts[p].name);
		lk_json_put_number(writer, "measured_us", step->parts[p].measured_s * 1e6);
		lk_json_put_number(writer, "predicted_us", step->parts[p].predicted_s * 1e6);
		lk_json_object_end(writer);
	}
	lk_json_array_end(writer);
	lk_json_object_end(writer);
}

static void put_json_texts(lk_json_writer *writer, const char *key, const char *const *texts,
                           size_t count) {
	lk_json_array(writer, key);
	for (size_t i = 0; i < count; i++) lk_json_put_text(writer, NULL, texts[i]);
	lk_json_array_end(writer);
}

static void put_json_summary(lk_json_writer *writer, const lk_replay *replay) {
	lk_json_object(writer, "summary");
	lk_json_put_text(writer, "held_out", replay->held_out);
	lk_json_put_text(writer, "times_from", replay->times_from);
	lk_json_put_number(writer, "geomean_error", replay->geomean_error);
	lk_json_put_number(writer, "baseline_error", replay->baseline_error);
	lk_json_put_integer(writer, "predicted", (long long)replay->predicted);
	lk_json_put_number(writer, "parts_error", replay->parts_error);
	lk_json_put_text(writer, "worst_part", replay->worst_part);
	lk_json_put_integer(writer, "operations", (long long)replay->operations);
	lk_json_put_integer(writer, "collectives", (long long)replay->collectives);
	lk_json_put_number(writer, "clock_residual_us", replay->residual_s * 1e6);
	lk_json_put_number(writer, "device_known_shape", replay->device_known_shape);
	lk_json_object_end(writer);
}

static void put_json_works(lk_json_writer *writer, const lk_replay_works *works) {
	if (!works) return;
	lk_json_object(writer, "execution_traces");
	lk_json_put_integer(writer, "modelled", (long long)works->modelled);
	lk_json_put_integer(writer, "timed", (long long)works->timed);
	lk_json_put_integer(writer, "uncovered", (long long)works->uncovered);
	lk_json_put_integer(writer, "nothing", (long long)works->nothing);
	lk_json_put_integer(writer, "hosts", (long long)works->hosts);
	lk_json_put_integer(writer, "host_times", (long long)works->host_times);
	lk_json_put_integer(writer, "host_times_by_mean", (long long)works->host_times_by_mean);
	lk_json_object_end(writer);
}

static lk_status replay_view_write_json(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_replay *replay = ((const struct shown *)what)->replay;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/replay/1", replay->failed_check);
	put_json_summary(&w, replay);
	put_json_works(&w, replay->works);
	lk_json_array(&w, "ranks");
	for (size_t i = 0; i < replay->rank_count; i++) {
		lk_json_object(&w, NULL);
		lk_json_put_integer(&w, "rank", replay->ranks[i].rank);
		lk_json_put_text(&w, "path", replay->ranks[i].path);
		lk_json_array(&w, "steps");
		for (size_t s = 0; s < replay->ranks[i].step_count; s++)
			put_json_step(&w, &replay->ranks[i].steps[s]);
		lk_json_array_end(&w);
		lk_json_object_end(&w);
	}
	lk_json_array_end(&w);
	put_json_texts(&w, "uncovered", replay->uncovered, replay->uncovered_count);
	put_json_texts(&w, "notes", replay->notes, replay->note_count);
	put_json_texts(&w, "warnings", replay->warnings, replay->warning_count);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_replay_print(const lk_replay *replay, int format, bool verbose, bool colour,
                          const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	struct shown s = {replay, verbose};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT) return lk_write_through(&w, replay_view_write_text, &s, err);
	if (format == LK_FORMAT_JSON) return lk_write_through(&w, replay_view_write_json, &s, err);
	return lk_write_table(&w, replay_view_table_of(replay), err);
}
