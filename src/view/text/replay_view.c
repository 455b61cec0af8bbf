/* replay_view.c: replayed steps alongside measured ones, as text, tables or JSON. */
#include "lockstep/replay.h"

#include <math.h>
#include <string.h>

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
	LK_TRY(lk_put_table(replay_view_table_of(replay), colour, out, err));
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

/* ---- fields ---- */

#define REPLAYED(member) LK_AT(lk_replay, member)
#define STEP(member)     LK_AT(lk_replay_step, member)
#define WORKS(member)    LK_AT(lk_replay_works, member)

static void find_part_measured(const lk_subject *subject, lk_field_value *found) {
	found->number = ((const lk_replay_part *)subject->record)->measured_s * 1e6;
}

static void find_part_predicted(const lk_subject *subject, lk_field_value *found) {
	found->number = ((const lk_replay_part *)subject->record)->predicted_s * 1e6;
}

static const lk_answer_field part_fields[] = {
	{"name", NULL, LK_AT(lk_replay_part, name)},
	{"measured_us", NULL, LK_FIELD_REAL, .get = find_part_measured},
	{"predicted_us", NULL, LK_FIELD_REAL, .get = find_part_predicted, .known = LK_MAYBE},
};
static const lk_answer_record part_record = {LK_RECORD(lk_replay_part, part_fields)};

static void find_step_measured(const lk_subject *subject, lk_field_value *found) {
	found->number = ((const lk_replay_step *)subject->record)->measured_s * 1e6;
}

static void find_step_predicted(const lk_subject *subject, lk_field_value *found) {
	found->number = ((const lk_replay_step *)subject->record)->predicted_s * 1e6;
}

static void find_baseline(const lk_subject *subject, lk_field_value *found) {
	found->number = ((const lk_replay_step *)subject->record)->baseline_s * 1e6;
}

static const lk_answer_field step_fields[] = {
	{"number", NULL, STEP(number)},
	{"measured_us", NULL, LK_FIELD_REAL, .get = find_step_measured},
	{"predicted_us", NULL, LK_FIELD_REAL, .get = find_step_predicted, .known = LK_MAYBE},
	{"baseline_us", NULL, LK_FIELD_REAL, .get = find_baseline, .known = LK_MAYBE},
	{"left_out", NULL, STEP(left_out), .known = LK_MAYBE},
	{"host_known", NULL, STEP(host_known), .known = LK_MAYBE},
	{"device_known", NULL, STEP(device_known), .known = LK_MAYBE},
	{"parts", NULL, LK_MANY(lk_replay_step, parts, part_count, part_record)},
};
static const lk_answer_record step_record = {LK_RECORD(lk_replay_step, step_fields)};

static const lk_answer_field rank_fields[] = {
	{"rank", NULL, LK_AT(lk_replay_rank, rank)},
	{"path", NULL, LK_AT(lk_replay_rank, path)},
	{"steps", NULL, LK_MANY(lk_replay_rank, steps, step_count, step_record)},
};
static const lk_answer_record rank_record = {LK_RECORD(lk_replay_rank, rank_fields)};

static const lk_answer_field works_fields[] = {
	{"modelled", NULL, WORKS(modelled)},
	{"timed", NULL, WORKS(timed)},
	{"uncovered", NULL, WORKS(uncovered)},
	{"nothing", NULL, WORKS(nothing)},
	{"hosts", NULL, WORKS(hosts)},
	{"host_times", NULL, WORKS(host_times)},
	{"host_times_by_mean", NULL, WORKS(host_times_by_mean)},
};
static const lk_answer_record works_record = {LK_RECORD(lk_replay_works, works_fields)};

static void find_residual(const lk_subject *subject, lk_field_value *found) {
	found->number = ((const lk_replay *)subject->record)->residual_s * 1e6;
}

static const lk_answer_field summary_fields[] = {
	{"held_out", NULL, REPLAYED(held_out)},
	{"times_from", NULL, REPLAYED(times_from)},
	{"geomean_error", NULL, REPLAYED(geomean_error), .known = LK_MAYBE},
	{"baseline_error", NULL, REPLAYED(baseline_error), .known = LK_MAYBE},
	{"predicted", NULL, REPLAYED(predicted)},
	{"parts_error", NULL, REPLAYED(parts_error), .known = LK_MAYBE},
	{"worst_part", NULL, REPLAYED(worst_part), .known = LK_MAYBE},
	{"operations", NULL, REPLAYED(operations)},
	{"collectives", NULL, REPLAYED(collectives)},
	{"clock_residual_us", NULL, LK_FIELD_REAL, .get = find_residual, .known = LK_MAYBE},
	{"device_known_shape", NULL, REPLAYED(device_known_shape), .known = LK_MAYBE},
};
static const lk_answer_record summary_record = {LK_RECORD(lk_replay, summary_fields)};

static bool has_works(const lk_subject *subject) {
	return ((const lk_replay *)subject->record)->works;
}

static const lk_answer_field replay_fields[] = {
	{"summary", NULL, LK_HERE(summary_record)},
	{"execution_traces", NULL, LK_ONE(lk_replay, works, works_record), .when = has_works},
	{"ranks", NULL, LK_MANY(lk_replay, ranks, rank_count, rank_record)},
	{"uncovered", NULL, LK_LIST(lk_replay, uncovered, uncovered_count)},
	{"notes", NULL, LK_LIST(lk_replay, notes, note_count)},
	{"warnings", NULL, LK_LIST(lk_replay, warnings, warning_count)},
};
static const lk_answer_record replay_record = {LK_RECORD(lk_replay, replay_fields)};
const lk_document lk_replay_document = {"replay", "`replay -o json`", &replay_record,
                                        offsetof(lk_replay, failed_check), NULL};

/* ---- all ---- */

lk_status lk_replay_print(const lk_replay *replay, int format, bool verbose, bool colour,
                          const char *path, FILE *out, lk_error *err) {
	lk_writing w = {format, verbose, colour, path, out};
	struct shown s = {replay, verbose};
	LK_TRY(lk_writing_check(&w, err));
	if (format == LK_FORMAT_TEXT) return lk_write_through(&w, replay_view_write_text, &s, err);
	if (format == LK_FORMAT_JSON) return lk_write_document(&w, &lk_replay_document, replay, err);
	return lk_write_table(&w, replay_view_table_of(replay), err);
}
