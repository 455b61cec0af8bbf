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

#define CHANGED(member) LK_AT(lk_diff_row, member)

char *lk_show_delta(double seconds, char *out, size_t size) {
	if (seconds > 0) *out++ = '+', size--;
	lk_format_seconds(seconds, out, size);
	return seconds > 0 ? out - 1 : out;
}

static const lk_answer_field changed_fields[] = {
	{"before_s", "before", CHANGED(before_s), .shown = lk_format_seconds},
	{"after_s", "after", CHANGED(after_s), .shown = lk_format_seconds},
	{"delta_s", "delta", CHANGED(delta_s), .shown = lk_show_delta},
	{"share_of_step_pctg", "% of step", CHANGED(share), .per_cent = true, .shown = lk_tenths},
	{"category", NULL, CHANGED(name)},
	{"before_count", "n before", CHANGED(before_count), .shown = lk_tenths},
	{"after_count", "n after", CHANGED(after_count), .shown = lk_tenths},
	{"state", "", CHANGED(state), .known = LK_UNLESS_ZERO},
	{"type", "Type", CHANGED(type), .hidden = true},
	{"name", "Name", CHANGED(name), .width = KERNEL_WIDTH},
};
static const lk_answer_record changed_record = {LK_RECORD(lk_diff_row, changed_fields)};

static lk_table *categories(const lk_diff *diff) {
	static const char *const keys[] = {"before_s",           "after_s",         "delta_s",
	                                   "share_of_step_pctg", "category:a step", NULL};
	static const lk_columns columns = {"categories", &changed_record, .keys = keys};
	return lk_fields_rows(&columns, diff, diff->categories, diff->category_count);
}

static lk_table *diff_view_kernels(const lk_diff *diff, bool people) {
	const lk_columns columns = {"kernels", &changed_record, .people = people};
	int count = people ? lk_shown_rows(diff->kernel_count, diff->top) : diff->kernel_count;
	return lk_fields_rows(&columns, diff, diff->kernels, count);
}

#define WORK(member) LK_AT(lk_diff_operation, member)

static const lk_answer_field work_fields[] = {
	{"before_s", "before", WORK(before_s), .shown = lk_format_seconds},
	{"after_s", "after", WORK(after_s), .shown = lk_format_seconds},
	{"delta_s", "delta", WORK(delta_s), .shown = lk_show_delta},
	{"share_of_step_pctg", "% of step", WORK(share), .per_cent = true, .shown = lk_tenths},
	{"before_count", "n before", WORK(before_count), .shown = lk_tenths},
	{"after_count", "n after", WORK(after_count), .shown = lk_tenths},
	{"before_sum_s", "sum before", WORK(before_sum_s), .hidden = true},
	{"after_sum_s", "sum after", WORK(after_sum_s), .hidden = true},
	{"before_wait_s", "wait before", WORK(before_wait_s), .hidden = true},
	{"after_wait_s", "wait after", WORK(after_wait_s), .hidden = true},
	{"state", "", WORK(state), .known = LK_UNLESS_ZERO},
	{"phase", "phase", WORK(phase)},
	{"part", "part", WORK(part), .hidden = true},
	{"kind", "operation", WORK(kind)},
	{"shape", "shape", WORK(shape), .known = LK_UNLESS_ZERO},
	{"group", "group", WORK(group), .known = LK_UNLESS_ZERO, .hidden = true},
	{"before_name", "kernel before", WORK(before_name), .hidden = true},
	{"after_name", "kernel after", WORK(after_name), .hidden = true},
};
static const lk_answer_record work_record = {LK_RECORD(lk_diff_operation, work_fields)};

static lk_table *diff_view_operations(const lk_diff *diff, bool people) {
	const lk_columns columns = {"operations", &work_record, .people = people};
	int count = people ? lk_shown_rows(diff->operation_count, diff->top) : diff->operation_count;
	return lk_fields_rows(&columns, diff, diff->operations, count);
}

static lk_table *diff_view_table_of(const lk_diff *diff, int which, bool people) {
	if (which == LK_DIFF_OPERATIONS) return diff_view_operations(diff, people);
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
	int added = 0, removed = 0, replaced = 0;
	for (int i = 0; i < diff->kernel_count; i++) {
		added += strcmp(diff->kernels[i].state, "new") == 0;
		removed += strcmp(diff->kernels[i].state, "removed") == 0;
		replaced += strcmp(diff->kernels[i].state, "replaced") == 0;
	}
	fprintf(out, "%d different kernels, %d new, %d removed", diff->kernel_count, added, removed);
	if (replaced) fprintf(out, ", %d replaced", replaced);
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
	fprintf(out, "%s%s%s\n\n", lk_bold(colour), diff->sentence, lk_plain(colour));
	if (diff->before->kernels || diff->after->kernels) {
		LK_TRY(diff_view_put_table(categories(diff), LK_FORMAT_TEXT, colour, out, err));
		fputc('\n', out);
	}
	if (diff->operation_count) {
		LK_TRY(diff_view_put_table(diff_view_operations(diff, true), LK_FORMAT_TEXT, colour, out,
		                           err));
		fprintf(out, "%d different operations", diff->operation_count);
		if (diff->top > 0 && diff->top < diff->operation_count) fprintf(out, "; --top 0 lists all");
		fputs("\n\n", out);
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
	LK_TRY(diff_view_put_table(diff_view_operations(diff, true), LK_FORMAT_MD, colour, out, err));
	fputc('\n', out);
	return diff_view_put_table(diff_view_kernels(diff, true), LK_FORMAT_MD, colour, out, err);
}

/* ---- fields ---- */

#define RUN(member)  LK_AT(lk_explanation, member)
#define DIFF(member) LK_AT(lk_diff, member)

static const lk_answer_field run_fields[] = {
	{"step_s", NULL, RUN(step_s), .known = LK_MAYBE},
	{"step_deviation_s", NULL, RUN(step_deviation_s), .known = LK_MAYBE},
	{"step_count", NULL, RUN(step_count)},
	{"ranks", NULL, RUN(rank_count)},
	{"warnings", NULL, LK_LIST(lk_explanation, warnings, warning_count)},
};
static const lk_answer_record run_record = {.name = "Run", LK_RECORD(lk_explanation, run_fields)};

static void find_diff_verdict(const lk_subject *subject, lk_field_value *found) {
	static const char *const verdicts[] = {"slower", "undecided", "faster"};
	found->text = verdicts[((const lk_diff *)subject->record)->verdict + 1];
}

static lk_table *diff_rows(const void *answer, int which) {
	return diff_view_table_of(answer, which, false);
}

static const lk_answer_field diff_fields[] = {
	{"before", NULL, LK_ONE(lk_diff, before, run_record)},
	{"after", NULL, LK_ONE(lk_diff, after, run_record)},
	{"ratio", NULL, DIFF(ratio), .known = LK_MAYBE},
	{"ratio_deviation", NULL, DIFF(ratio_deviation), .known = LK_MAYBE},
	{"verdict", NULL, LK_FIELD_TEXT, .get = find_diff_verdict},
	{"sentence", NULL, DIFF(sentence)},
	{"categories", NULL, LK_FIELD_ROWS, .rows = diff_rows, .which = LK_DIFF_CATEGORIES},
	{"operations", NULL, LK_FIELD_ROWS, .rows = diff_rows, .which = LK_DIFF_OPERATIONS},
	{"kernels", NULL, LK_FIELD_ROWS, .rows = diff_rows, .which = LK_DIFF_KERNELS},
	{"reproduce", NULL, DIFF(reproduce)},
};
static const lk_answer_record diff_record = {LK_RECORD(lk_diff, diff_fields)};
const lk_document lk_diff_document = {"diff", "`diff -o json`", &diff_record,
                                      offsetof(lk_diff, failed_check), NULL};

/* ---- all ---- */

lk_status lk_diff_print(const lk_diff *diff, int format, int table, bool colour, const char *path,
                        FILE *out, lk_error *err) {
	lk_writing w = {format, false, colour, path, out};
	struct asked a = {diff, table};
	LK_TRY(lk_writing_check(&w, err));
	if (table < 0 || table >= LK_DIFF_TABLES)
		return lk_fail(err, LK_ERR_INPUT, "--table", "unknown table %d", table);
	if (format == LK_FORMAT_JSON)
		return lk_write_document_part(&w, &lk_diff_document, diff, table, err);
	if (table == LK_DIFF_ALL && format == LK_FORMAT_TEXT)
		return lk_write_through(&w, diff_view_write_text, &a, err);
	if (table == LK_DIFF_ALL && format == LK_FORMAT_MD)
		return lk_write_through(&w, diff_view_write_markdown, &a, err);
	if (table == LK_DIFF_ALL && format == LK_FORMAT_SQLITE) {
		lk_table *tables[] = {categories(diff), diff_view_table_of(diff, LK_DIFF_OPERATIONS, false),
		                      diff_view_table_of(diff, LK_DIFF_KERNELS, false)};
		return lk_write_database(&w, tables, 3, err);
	}
	bool people = format == LK_FORMAT_TEXT || format == LK_FORMAT_MD;
	return lk_write_table(
		&w,
		lk_table_mark(
			diff_view_table_of(diff, table == LK_DIFF_ALL ? LK_DIFF_KERNELS : table, people),
			diff->failed_check),
		err);
}

/* ---- a traced run against its job ---- */

enum { PARTS = 10, FINDINGS = 6, CAUSES = 5 }; /* shown to people; explain -o json has all */
static const double LEAST_PART = 1e-3; /* of the predicted step: smaller differences are left out */

/* "forward: products", "all_gather of tp: waiting" */
static void find_part_name(const lk_subject *subject, lk_field_value *found) {
	const lk_versus_part *part = subject->record;
	lk_text text = lk_text_begin(found->shown, sizeof found->shown);
	if (*part->phase) lk_text_add(&text, "%s: ", part->phase);
	if (*part->kind) {
		lk_text_add(&text, "%s", part->kind);
		if (*part->group) lk_text_add(&text, " of %.60s", part->group);
		lk_text_add(&text, ": %s",
		            strcmp(part->part, "communication") == 0 ? "transfer" : part->part);
	} else lk_text_add(&text, "%s", part->part);
	found->text = found->shown;
}

#define PART(member) LK_AT(lk_versus_part, member)
static const lk_answer_field part_fields[] = {
	{"predicted_s", "predicted", PART(predicted_s), .shown = lk_format_seconds},
	{"measured_s", "measured", PART(measured_s), .shown = lk_format_seconds},
	{"delta_s", "difference", PART(delta_s), .shown = lk_show_delta},
	{"share", "%", PART(share), .per_cent = true, .known = LK_MAYBE, .shown = lk_tenths},
	{"name", "part of a step", LK_FIELD_TEXT, .get = find_part_name},
	{"phase", NULL, PART(phase)},
	{"part", NULL, PART(part)},
	{"kind", NULL, PART(kind)},
	{"group", NULL, PART(group)},
};
static const lk_answer_record part_record = {
	.name = "VersusPart",
	.what = "A part of a step, predicted and measured, seconds; differences add up to that of the "
			"steps.",
	LK_RECORD(lk_versus_part, part_fields)};

#define PAIRED(member) LK_AT(lk_diff_operation, member)
static const lk_answer_field paired_fields[] = {
	{"phase", NULL, PAIRED(phase)},
	{"part", NULL, PAIRED(part)},
	{"kind", NULL, PAIRED(kind)},
	{"shape", NULL, PAIRED(shape)},
	{"group", NULL, PAIRED(group)},
	{"operation", NULL, PAIRED(before_name)},
	{"kernel", NULL, PAIRED(after_name)},
	{"predicted_s", NULL, PAIRED(before_sum_s)},
	{"measured_s", NULL, PAIRED(after_sum_s)},
	{"predicted_count", NULL, PAIRED(before_count)},
	{"measured_count", NULL, PAIRED(after_count)},
};
static const lk_answer_record paired_record = {
	.name = "PairedWork",
	.what = "Operations of the job and the traced kernels that are of the same phase, kind and "
			"shape; sums of durations, seconds a step.",
	LK_RECORD(lk_diff_operation, paired_fields)};

static const lk_answer_field finding_fields[] = {
	{"state", NULL, LK_AT(lk_versus_finding, state)},
	{"what", NULL, LK_AT(lk_versus_finding, what)},
	{"work", NULL, LK_ONE(lk_versus_finding, operation, paired_record)},
};
static const lk_answer_record finding_record = {
	.name = "VersusFinding",
	.what = "Work that only the trace or only the job has, or another number of times.",
	LK_RECORD(lk_versus_finding, finding_fields)};

#define CAUSE(member) LK_AT(lk_versus_cause, member)
static const lk_answer_field cause_fields[] = {
	{"cause", NULL, CAUSE(cause)},
	{"what", "what", CAUSE(what)},
	{"option", "options", CAUSE(option)},
	{"check", "check", CAUSE(check)},
	{"share", "likely", CAUSE(share), .shown = lk_percent},
	{"step_time_s", "step", CAUSE(step_time_s), .shown = lk_format_seconds},
	{"time_off", NULL, CAUSE(time_off)},
	{"work_off", NULL, CAUSE(work_off)},
};
static const lk_answer_record cause_record = {
	.name = "VersusCause",
	.what = "A change of the job that would give such a step: its probability among those listed, "
			"the step predicted with it, and what it leaves unexplained, of time and of work, over "
			"the step.",
	LK_RECORD(lk_versus_cause, cause_fields)};

lk_table *lk_versus_table(const lk_versus *versus, int which) {
	static const lk_columns parts = {"parts", &part_record, .people = true},
							causes = {"causes", &cause_record, .people = false};
	lk_table *table = which == LK_VERSUS_PARTS
	                      ? lk_fields_rows(&parts, versus, versus->parts, versus->part_count)
	                      : lk_fields_rows(&causes, versus, versus->causes, versus->cause_count);
	if (table) lk_table_hide_empty(table);
	return table;
}

#define VERSUS(member) LK_AT(lk_versus, member)
static const lk_answer_field versus_fields[] = {
	{"job", NULL, VERSUS(job)},
	{"predicted_mfu", NULL, VERSUS(predicted_mfu), .known = LK_UNLESS_ZERO},
	{"measured_mfu", NULL, VERSUS(measured_mfu), .known = LK_UNLESS_ZERO},
	{"predicted_s", NULL, VERSUS(predicted_s)},
	{"low_s", NULL, VERSUS(low_s)},
	{"high_s", NULL, VERSUS(high_s)},
	{"measured_s", NULL, VERSUS(measured_s)},
	{"ratio", NULL, VERSUS(ratio)},
	{"inside", NULL, VERSUS(inside)},
	{"sentence", NULL, VERSUS(sentence)},
	{"parts", NULL, LK_MANY(lk_versus, parts, part_count, part_record)},
	{"findings", NULL, LK_MANY(lk_versus, findings, finding_count, finding_record)},
	{"causes", NULL, LK_MANY(lk_versus, causes, cause_count, cause_record)},
	{"unchanged_share", NULL, VERSUS(unchanged_share)},
	{"unchanged_time_off", NULL, VERSUS(unchanged_time_off)},
	{"unchanged_work_off", NULL, VERSUS(unchanged_work_off)},
	{"tried", NULL, VERSUS(tried)},
	{"scaled_kernels", NULL, VERSUS(scaled_kernels), .known = LK_UNLESS_ZERO},
	{"scaled_links", NULL, VERSUS(scaled_links), .known = LK_UNLESS_ZERO},
	{"scaled_host", NULL, VERSUS(scaled_host), .known = LK_UNLESS_ZERO},
	{"scaled", NULL, VERSUS(scaled)},
	{"operations", NULL, LK_MANY(lk_versus, operations, operation_count, paired_record)},
};
const lk_answer_record lk_versus_record = {.name = "Versus",
                                           .what =
                                               "The step of the traces against that of the job.",
                                           LK_RECORD(lk_versus, versus_fields)};

/* ---- text ---- */

static void versus_put_steps(const lk_versus *versus, bool colour, FILE *out) {
	char predicted[32], measured[32];
	fprintf(out, "%s%s%s\n", lk_bold(colour), versus->sentence, lk_plain(colour));
	if (versus->predicted_mfu > 0)
		fprintf(out, "MFU        predicted %s, measured %s\n",
		        lk_percent(versus->predicted_mfu, predicted, sizeof predicted),
		        lk_percent(versus->measured_mfu, measured, sizeof measured));
	fprintf(out, "step       predicted %s, measured %s\n",
	        lk_format_seconds(versus->predicted_s, predicted, sizeof predicted),
	        lk_format_seconds(versus->measured_s, measured, sizeof measured));
}

static lk_status versus_put_causes(const lk_versus *versus, FILE *out, lk_error *err) {
	char step[32], share[32], line[700];
	if (versus->cause_count && versus->causes[0].share <= versus->unchanged_share)
		return LK_OK; /* no change agrees better */
	if (versus->cause_count) fputs("\nwhat would give this step\n", out);
	for (int i = 0; i < versus->cause_count && i < CAUSES; i++) {
		const lk_versus_cause *cause = &versus->causes[i];
		lk_text text = lk_text_begin(line, sizeof line);
		int indent =
			fprintf(out, "%2d.  %6s  ", i + 1, lk_percent(cause->share, share, sizeof share));
		lk_text_add(&text, "%s: %s a step", cause->what,
		            lk_format_seconds(cause->step_time_s, step, sizeof step));
		if (*cause->option) lk_text_add(&text, " (%.200s)", cause->option);
		LK_TRY(lk_put_wrapped(line, indent, indent, out, err));
		fprintf(out, "\n%*scheck: ", indent, "");
		LK_TRY(lk_put_wrapped(cause->check, indent + 7, indent + 7, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

static lk_status versus_put_parts(const lk_versus *versus, bool colour, FILE *out, lk_error *err) {
	static const char *const keys[] = {"predicted_s", "measured_s", "delta_s",
	                                   "share",       "name",       NULL};
	static const lk_columns columns = {"parts", &part_record, .keys = keys, .people = true};
	int count = 0;
	while (count < versus->part_count && count < PARTS &&
	       fabs(versus->parts[count].delta_s) >= LEAST_PART * versus->predicted_s)
		count++;
	if (!count) return LK_OK;
	fputc('\n', out);
	lk_table *table = lk_fields_rows(&columns, versus, versus->parts, count);
	if (!table) return lk_oom(err);
	lk_status status = lk_table_write(table, LK_FORMAT_TEXT, colour, out, err);
	lk_table_free(table);
	return status;
}

static bool same_finding(const lk_versus_finding *a, const lk_versus_finding *b) {
	return strcmp(a->state, b->state) == 0 && strcmp(a->what, b->what) == 0;
}

static bool same_work(const lk_versus_finding *a, const lk_versus_finding *b) {
	return strcmp(a->operation->kind, b->operation->kind) == 0 &&
	       strcmp(a->operation->phase, b->operation->phase) == 0;
}

/* The findings like number `first`, in one line: their phases and kinds, each once, and their
 * time. */
static void versus_say_finding(const lk_versus *versus, int first, lk_text *text) {
	const lk_versus_finding *found = versus->findings;
	double sum_s = 0;
	char seconds[32];
	lk_text_add(text, "%s: %s (", found[first].state, found[first].what);
	for (int i = first; i < versus->finding_count; i++) {
		const lk_diff_operation *of = found[i].operation;
		if (!same_finding(&found[first], &found[i])) continue;
		sum_s += fmax(of->before_sum_s, of->after_sum_s);
		double before = 0, after = 0;
		bool said = false;
		for (int k = first; k < versus->finding_count && !said; k++) {
			if (!same_work(&found[k], &found[i]) || !same_finding(&found[k], &found[i])) continue;
			said = k < i;
			before += found[k].operation->before_count;
			after += found[k].operation->after_count;
		}
		if (said) continue;
		lk_text_add(text, "%s%s %s, %.0f a step instead of %.0f", i > first ? "; " : "", of->phase,
		            of->kind, after, before);
	}
	lk_text_add(text, "): %s", lk_format_seconds(sum_s, seconds, sizeof seconds));
}

static lk_status versus_put_findings(const lk_versus *versus, FILE *out, lk_error *err) {
	char line[900];
	int shown = 0;
	if (versus->finding_count) fputs("\nwork that differs\n", out);
	for (int i = 0; i < versus->finding_count && shown < FINDINGS; i++) {
		bool said = false;
		for (int k = 0; k < i && !said; k++)
			said = same_finding(&versus->findings[k], &versus->findings[i]);
		if (said) continue;
		lk_text text = lk_text_begin(line, sizeof line);
		versus_say_finding(versus, i, &text);
		fputs("  - ", out);
		LK_TRY(lk_put_wrapped(line, 4, 4, out, err));
		fputc('\n', out);
		shown++;
	}
	return LK_OK;
}

lk_status lk_versus_report(const lk_versus *versus, bool colour, FILE *out, lk_error *err) {
	versus_put_steps(versus, colour, out);
	LK_TRY(versus_put_causes(versus, out, err));
	LK_TRY(versus_put_parts(versus, colour, out, err));
	LK_TRY(versus_put_findings(versus, out, err));
	fputs("\nas a calibration (--calibrated FILE): ", out);
	LK_TRY(lk_put_wrapped(versus->scaled, 39, 2, out, err));
	fputs("\n\n", out);
	return LK_OK;
}
