/* replay_view.c: replayed steps beside measured ones, as text, tables or JSON. */
#include "lockstep/replay.h"

#include <math.h>
#include <string.h>

#include "io/json.h"
#include "base/text.h"
#include "view/table/output.h"

struct shown {
	const lk_replay *replay;
	bool verbose;
};

static double error_of(double predicted, double measured) {
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

static void put_time(lk_table *t, double seconds) {
	char text[64];
	lk_table_number(t, seconds * 1e6, isnan(seconds) ? NULL : lk_format_seconds(seconds, text, sizeof text));
}

static void put_share(lk_table *t, double share, bool sign) {
	char text[64], number[48];
	snprintf(text, sizeof text, "%s%s", sign && share >= 0 ? "+" : "", lk_percent(share, number, sizeof number));
	lk_table_number(t, share, isnan(share) ? NULL : text);
}

static void put_step(lk_table *t, const lk_replay_rank *rank, const lk_replay_step *step) {
	bool done = !isnan(step->predicted_s);
	lk_table_row(t);
	lk_table_number(t, rank->rank, NULL);
	char number[32];
	snprintf(number, sizeof number, "%lld", (long long)step->number);
	lk_table_number(t, (double)step->number, number);
	put_time(t, step->measured_s);
	put_time(t, step->predicted_s);
	put_share(t, done ? error_of(step->predicted_s, step->measured_s) : NAN, true);
	put_time(t, done ? step->baseline_s : NAN);
	put_share(t, done ? error_of(step->baseline_s, step->measured_s) : NAN, true);
	put_share(t, done ? step->host_known : NAN, false);
	put_share(t, done ? step->device_known : NAN, false);
	lk_table_text(t, step->left_out);
	lk_table_text(t, rank->path);
}

static lk_table *table_of(const lk_replay *r) {
	lk_table *t = lk_table_new("replay", columns, (int)(sizeof columns / sizeof *columns));
	for (size_t i = 0; t && i < r->rank_count; i++)
		for (size_t s = 0; s < r->ranks[i].step_count; s++) put_step(t, &r->ranks[i], &r->ranks[i].steps[s]);
	if (t) lk_table_hide_empty(t);
	return t;
}

/* ---- text ---- */

static void put_parts(const lk_replay_rank *rank, FILE *out) {
	for (size_t s = 0; s < rank->step_count; s++) {
		const lk_replay_step *step = &rank->steps[s];
		for (size_t p = 0; p < step->part_count; p++) {
			char measured[64], predicted[64];
			fprintf(out, "  rank %d step %lld  %-28s measured %10s  predicted %10s\n", rank->rank, (long long)step->number,
			        step->parts[p].name, lk_format_seconds(step->parts[p].measured_s, measured, sizeof measured),
			        lk_format_seconds(step->parts[p].predicted_s, predicted, sizeof predicted));
		}
	}
}

static lk_status put_list(const char *const *texts, size_t count, size_t most, FILE *out, lk_error *err) {
	for (size_t i = 0; i < count && i < most; i++) {
		fputs("  ", out);
		LK_TRY(lk_put_safe(texts[i], out, err));
		fputc('\n', out);
	}
	if (count > most) fprintf(out, "  and %zu more\n", count - most);
	return LK_OK;
}

static void put_works(const lk_replay_works *w, FILE *out) {
	char share[48];
	if (!w) return;
	fprintf(out, "%zu operations by models, %zu by durations of the trace; %zu without a model", w->modelled, w->timed, w->uncovered);
	if (w->host_times)
		fprintf(out, "; host times: %s not known by name",
		        lk_percent((double)w->host_times_by_mean / (double)w->host_times, share, sizeof share));
	fputs("\n\n", out);
}

static void put_summary(const lk_replay *r, FILE *out) {
	char error[48], baseline[48], parts[48];
	fprintf(out, "%zu rank%s, %zu step%s predicted, %zu operations a step", r->rank_count, r->rank_count == 1 ? "" : "s", r->predicted,
	        r->predicted == 1 ? "" : "s", r->operations);
	if (r->rank_count > 1 && !r->works) fprintf(out, ", clocks aligned on %zu collectives (median residual %.1f us)", r->collectives, r->residual_s * 1e6);
	fprintf(out, "\n%s\n\n", r->times_from);
	put_works(r->works, out);
	if (isnan(r->geomean_error)) return;
	fprintf(out, "error    %s", lk_percent(r->geomean_error, error, sizeof error));
	if (!isnan(r->baseline_error)) fprintf(out, "   (the mean of the others: %s)", lk_percent(r->baseline_error, baseline, sizeof baseline));
	fprintf(out, "\n");
	if (*r->worst_part && strcmp(r->held_out, "steps") == 0)
		fprintf(out, "parts    %s at most, %s\n", lk_percent(r->parts_error, parts, sizeof parts), r->worst_part);
	fputc('\n', out);
}

static lk_status write_text(const void *what, bool colour, FILE *out, lk_error *err) {
	const struct shown *s = what;
	const lk_replay *r = s->replay;
	put_summary(r, out);
	lk_table *t = table_of(r);
	if (!t) return lk_oom(err);
	lk_status status = lk_table_write(t, LK_FORMAT_TEXT, colour, out, err);
	lk_table_free(t);
	LK_TRY(status);
	if (s->verbose) {
		fprintf(out, "\nparts\n");
		for (size_t i = 0; i < r->rank_count; i++) put_parts(&r->ranks[i], out);
	}
	if (s->verbose && r->note_count) {
		fprintf(out, "\nnotes\n");
		LK_TRY(put_list(r->notes, r->note_count, 20, out, err));
	}
	if ((s->verbose || r->works) && r->uncovered_count) {
		char share[48];
		if (r->works) fprintf(out, "\noperations without a model\n");
		else fprintf(out, "\nkernels of unknown shape (%s of the device time has a known one)\n",
		             lk_percent(r->device_known_shape, share, sizeof share));
		LK_TRY(put_list(r->uncovered, r->uncovered_count, 20, out, err));
	}
	if (r->warning_count) {
		fprintf(out, "\nwarnings\n");
		LK_TRY(put_list(r->warnings, r->warning_count, 20, out, err));
	}
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}

/* ---- JSON ---- */

static void put_json_step(lk_json_writer *w, const lk_replay_step *step) {
	lk_json_object(w, NULL);
	lk_json_put_integer(w, "number", step->number);
	lk_json_put_number(w, "measured_us", step->measured_s * 1e6);
	lk_json_put_number(w, "predicted_us", step->predicted_s * 1e6);
	lk_json_put_number(w, "baseline_us", step->baseline_s * 1e6);
	lk_json_put_text(w, "left_out", step->left_out);
	lk_json_put_number(w, "host_known", step->host_known);
	lk_json_put_number(w, "device_known", step->device_known);
	lk_json_array(w, "parts");
	for (size_t p = 0; p < step->part_count; p++) {
		lk_json_object(w, NULL);
		lk_json_put_text(w, "name", step->parts[p].name);
		lk_json_put_number(w, "measured_us", step->parts[p].measured_s * 1e6);
		lk_json_put_number(w, "predicted_us", step->parts[p].predicted_s * 1e6);
		lk_json_object_end(w);
	}
	lk_json_array_end(w);
	lk_json_object_end(w);
}

static void put_json_texts(lk_json_writer *w, const char *key, const char *const *texts, size_t count) {
	lk_json_array(w, key);
	for (size_t i = 0; i < count; i++) lk_json_put_text(w, NULL, texts[i]);
	lk_json_array_end(w);
}

static void put_json_summary(lk_json_writer *w, const lk_replay *r) {
	lk_json_object(w, "summary");
	lk_json_put_text(w, "held_out", r->held_out);
	lk_json_put_text(w, "times_from", r->times_from);
	lk_json_put_number(w, "geomean_error", r->geomean_error);
	lk_json_put_number(w, "baseline_error", r->baseline_error);
	lk_json_put_integer(w, "predicted", (long long)r->predicted);
	lk_json_put_number(w, "parts_error", r->parts_error);
	lk_json_put_text(w, "worst_part", r->worst_part);
	lk_json_put_integer(w, "operations", (long long)r->operations);
	lk_json_put_integer(w, "collectives", (long long)r->collectives);
	lk_json_put_number(w, "clock_residual_us", r->residual_s * 1e6);
	lk_json_put_number(w, "device_known_shape", r->device_known_shape);
	lk_json_object_end(w);
}

static void put_json_works(lk_json_writer *w, const lk_replay_works *works) {
	if (!works) return;
	lk_json_object(w, "execution_traces");
	lk_json_put_integer(w, "modelled", (long long)works->modelled);
	lk_json_put_integer(w, "timed", (long long)works->timed);
	lk_json_put_integer(w, "uncovered", (long long)works->uncovered);
	lk_json_put_integer(w, "nothing", (long long)works->nothing);
	lk_json_put_integer(w, "hosts", (long long)works->hosts);
	lk_json_put_integer(w, "host_times", (long long)works->host_times);
	lk_json_put_integer(w, "host_times_by_mean", (long long)works->host_times_by_mean);
	lk_json_object_end(w);
}

static lk_status write_json(const void *what, bool colour, FILE *out, lk_error *err) {
	const lk_replay *r = ((const struct shown *)what)->replay;
	lk_json_writer w;
	(void)colour;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	put_json_summary(&w, r);
	put_json_works(&w, r->works);
	lk_json_array(&w, "ranks");
	for (size_t i = 0; i < r->rank_count; i++) {
		lk_json_object(&w, NULL);
		lk_json_put_integer(&w, "rank", r->ranks[i].rank);
		lk_json_put_text(&w, "path", r->ranks[i].path);
		lk_json_array(&w, "steps");
		for (size_t s = 0; s < r->ranks[i].step_count; s++) put_json_step(&w, &r->ranks[i].steps[s]);
		lk_json_array_end(&w);
		lk_json_object_end(&w);
	}
	lk_json_array_end(&w);
	put_json_texts(&w, "uncovered", r->uncovered, r->uncovered_count);
	put_json_texts(&w, "notes", r->notes, r->note_count);
	put_json_texts(&w, "warnings", r->warnings, r->warning_count);
	lk_json_object_end(&w);
	return lk_json_finish(&w, err);
}

lk_status lk_replay_print(const lk_replay *replay, int format, bool verbose, bool colour, const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	struct shown s = {replay, verbose};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT) return lk_write_through(&w, write_text, &s, err);
	if (format == LK_FORMAT_JSON) return lk_write_through(&w, write_json, &s, err);
	return lk_write_table(&w, table_of(replay), err);
}
