/* versus_view.c: a traced run against its job, as text and as fields of the answer of explain. */
#include "lockstep/versus.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "view/text/views.h"

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
	{"cause", NULL, CAUSE(cause)},       {"what", NULL, CAUSE(what)},
	{"option", NULL, CAUSE(option)},     {"check", NULL, CAUSE(check)},
	{"share", NULL, CAUSE(share)},       {"step_time_s", NULL, CAUSE(step_time_s)},
	{"time_off", NULL, CAUSE(time_off)}, {"work_off", NULL, CAUSE(work_off)},
};
static const lk_answer_record cause_record = {
	.name = "VersusCause",
	.what = "A change of the job that would give such a step: its probability among those listed, "
			"the step predicted with it, and what it leaves unexplained, of time and of work, over "
			"the step.",
	LK_RECORD(lk_versus_cause, cause_fields)};

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
	{"unchanged_time_off", NULL, VERSUS(unchanged_time_off)},
	{"unchanged_work_off", NULL, VERSUS(unchanged_work_off)},
	{"tried", NULL, VERSUS(tried)},
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

/* The findings like number `first`, in one line: their phases and kinds, each once, and their time. */
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
	fputc('\n', out);
	return LK_OK;
}
