/* replay_view.c: replayed steps alongside measured ones, as text, tables or JSON. */
#include "lockstep/replay.h"

#include <math.h>
#include <string.h>

#include "base/text.h"
#include "base/noun.h"
#include "view/text/views.h"

struct shown {
	const lk_replay *replay;
	bool verbose;
};

/* ---- fields ---- */

#define REPLAYED(member) LK_AT(lk_replay, member)
#define PART(member)     LK_AT(lk_replay_part, member)
#define STEP(member)     LK_AT(lk_replay_step, member)
#define WORKS(member)    LK_AT(lk_replay_works, member)
#define MICROSECONDS     .times = 1e6, .shown = show_microseconds

static char *show_microseconds(double us, char *out, size_t size) {
	return lk_format_seconds(us / 1e6, out, size);
}

static char *show_error(double share, char *out, size_t size) {
	if (share >= 0) *out++ = '+', size--;
	lk_percent(share, out, size);
	return share >= 0 ? out - 1 : out;
}

static const lk_answer_field part_fields[] = {
	{"name", NULL, PART(name)},
	{"measured_us", NULL, PART(measured_s), MICROSECONDS},
	{"predicted_us", NULL, PART(predicted_s), MICROSECONDS, .known = LK_MAYBE},
};
static const lk_answer_record part_record = {LK_RECORD(lk_replay_part, part_fields)};

/* `context`: the rank of a step. */
static void find_step_rank(const lk_subject *subject, lk_field_value *found) {
	found->number = ((const lk_replay_rank *)subject->context)->rank;
}

static void find_step_path(const lk_subject *subject, lk_field_value *found) {
	found->text = ((const lk_replay_rank *)subject->context)->path;
}

static double replay_view_error_of(double predicted, double measured) {
	return measured > 0 ? predicted / measured - 1 : NAN;
}

static void find_step_error(const lk_subject *subject, lk_field_value *found) {
	const lk_replay_step *step = subject->record;
	found->number = replay_view_error_of(step->predicted_s, step->measured_s);
}

static void find_step_baseline_error(const lk_subject *subject, lk_field_value *found) {
	const lk_replay_step *step = subject->record;
	found->number = replay_view_error_of(step->baseline_s, step->measured_s);
}

static const lk_answer_field step_fields[] = {
	{"rank", "rank", LK_FIELD_INT, .get = find_step_rank, .column = true},
	{"step", "step", STEP(number), .shown = lk_whole, .column = true},
	{"number", NULL, STEP(number)},
	{"measured_us", "measured", STEP(measured_s), MICROSECONDS},
	{"predicted_us", "predicted", STEP(predicted_s), MICROSECONDS, .known = LK_MAYBE},
	{"error", "off", LK_FIELD_REAL, .get = find_step_error, .shown = show_error, .column = true},
	{"baseline_us", "mean of others", STEP(baseline_s), MICROSECONDS, .known = LK_MAYBE},
	{"baseline_error", "off", LK_FIELD_REAL, .get = find_step_baseline_error, .shown = show_error,
     .column = true},
	{"left_out", "left out", STEP(left_out), .known = LK_MAYBE},
	{"host_known", "host known", STEP(host_known), .known = LK_MAYBE, .shown = lk_percent},
	{"device_known", "device known", STEP(device_known), .known = LK_MAYBE, .shown = lk_percent},
	{"path", "path", LK_FIELD_TEXT, .get = find_step_path, .hidden = true, .column = true},
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
	{"clock_residual_us", NULL, REPLAYED(residual_s), .times = 1e6, .known = LK_MAYBE},
	{"device_known_shape", NULL, REPLAYED(device_known_shape), .known = LK_MAYBE},
};
static const lk_answer_record summary_record = {LK_RECORD(lk_replay, summary_fields)};

static const lk_answer_field replay_fields[] = {
	{"summary", NULL, LK_HERE(summary_record)},
	{"execution_traces", NULL, LK_ONE(lk_replay, works, works_record), .absent = true},
	{"ranks", NULL, LK_MANY(lk_replay, ranks, rank_count, rank_record)},
	{"uncovered", NULL, LK_LIST(lk_replay, uncovered, uncovered_count)},
	{"notes", NULL, LK_LIST(lk_replay, notes, note_count)},
	{"warnings", NULL, LK_LIST(lk_replay, warnings, warning_count)},
};
static const lk_answer_record replay_record = {LK_RECORD(lk_replay, replay_fields)};
const lk_document lk_replay_document = {"replay", "`replay -o json`", &replay_record,
                                        offsetof(lk_replay, failed_check), NULL};

/* ---- table ---- */

static lk_table *replay_view_table_of(const lk_replay *replay) {
	static const char *const keys[] = {
		"rank",           "step",       "measured_us",  "predicted_us", "error", "baseline_us",
		"baseline_error", "host_known", "device_known", "left_out",     "path",  NULL};
	static const lk_columns columns = {"replay", &step_record, .keys = keys};
	lk_table *table = lk_fields_table(&columns);
	for (size_t i = 0; i < replay->rank_count; i++) {
		const lk_replay_rank *rank = &replay->ranks[i];
		for (size_t s = 0; s < rank->step_count; s++)
			lk_fields_row(table, &columns, &(lk_subject){replay, &rank->steps[s], (int)s, rank});
	}
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
	if (strcmp(replay->held_out, "nothing") == 0)
		fprintf(out, "   (of steps simulated with their own times: nothing is predicted)");
	if (strcmp(replay->held_out, "operations") == 0)
		fprintf(out, "   (within one step: trace several, and whole steps are held out)");
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
