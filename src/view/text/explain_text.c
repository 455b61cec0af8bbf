/* explain_text.c: the report of an explanation: what was read, where a step's time goes, what costs it time, which
 * kernels. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "view/text/views.h"

static const char *plural(double count) {
	return count == 1 ? "" : "s";
}

static void put_heading(const char *text, bool colour, FILE *out) {
	fprintf(out, "\n%s%s%s\n", colour ? "\x1b[1m" : "", text, colour ? "\x1b[0m" : "");
}

/* ---- what was read ---- */

static lk_status put_overview(const lk_explanation *x, FILE *out, lk_error *err) {
	char number[32], time[32];
	fprintf(out, "%d rank%s", x->rank_count, plural(x->rank_count));
	if (x->world > x->rank_count) fprintf(out, " of %d", x->world);
	if (x->annotated) fprintf(out, ", %d step%s", x->step_count, plural(x->step_count));
	fprintf(out, ", %s kernels", lk_format_thousands((double)x->kernels, number, sizeof number));
	if (x->anchors)
		fprintf(out, ", clocks aligned on %s collectives (max residual %s)",
				lk_format_thousands(x->anchors, number, sizeof number),
				lk_format_seconds(x->residual_max_s, time, sizeof time));
	if (x->rank_count && *x->ranks[0].device) {
		fputs(", ", out);
		LK_TRY(lk_put_safe(x->ranks[0].device, out, err));
	}
	fputc('\n', out);
	return LK_OK;
}

/* ---- where the time goes ---- */

struct share {
	const char *title;
	double ns;
};

/* Sums over ranks. */
static double total(const lk_explanation *x, size_t field) {
	double sum = 0;
	for (int i = 0; i < x->rank_count; i++) sum += (double)*(const int64_t *)((const char *)&x->ranks[i] + field);
	return sum;
}
#define TOTAL(x, field) total(x, offsetof(lk_explain_rank, field))

static void put_step(const lk_explanation *x, FILE *out) {
	char mean[32], deviation[32];
	fprintf(out, "%s %s", x->annotated ? "step" : "trace", lk_format_seconds(x->step_s, mean, sizeof mean));
	if (isnan(x->step_deviation_s)) fprintf(out, "  (n=%d)\n", x->step_count);
	else
		fprintf(out, " +- %s  (n=%d)\n", lk_format_seconds(x->step_deviation_s, deviation, sizeof deviation),
				x->step_count);
}

static void put_shares(const lk_explanation *x, FILE *out) {
	const struct share shares[] = {
		{"compute", TOTAL(x, compute_ns)},          {"exposed comm", TOTAL(x, exposed_communication_ns)},
		{"exposed copies", TOTAL(x, exposed_memory_ns)}, {"idle:data", TOTAL(x, idle_data_ns)},
		{"idle:sync", TOTAL(x, idle_sync_ns)},      {"idle:launch", TOTAL(x, idle_host_ns)},
		{"idle:other", TOTAL(x, idle_other_ns)},
	};
	double whole = TOTAL(x, kernel_time_ns), comm = TOTAL(x, communication_ns);
	char text[32];
	fprintf(out, "%-19s", "");
	for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
		fprintf(out, "  %*s", (int)strlen(shares[i].title), shares[i].title);
	fprintf(out, "\n%-19s", x->processors ? "share of time" : "share of GPU time");
	for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
		fprintf(out, "  %*s", (int)strlen(shares[i].title), lk_percent(shares[i].ns / whole, text, sizeof text));
	fputc('\n', out);
	if (comm > 0)
		fprintf(out, "overlap: %s of communication hidden behind computation\n",
				lk_percent(TOTAL(x, overlap_ns) / comm, text, sizeof text));
}

/* ---- what costs time ---- */

/* A sentence in lines of some 75 signs behind the columns of figures. */
static lk_status put_sentence(const char *sentence, const char *first, FILE *out, lk_error *err) {
	enum { WIDTH = 75 };
	const char *lead = first;
	while (*sentence) {
		size_t length = strlen(sentence), end = length;
		if (length > WIDTH) {
			/* a number and its per cent stay together */
			for (end = WIDTH; end > 0 && (sentence[end] != ' ' || sentence[end + 1] == '%');) end--;
			if (!end) end = strcspn(sentence, " ");
		}
		char line[600];
		snprintf(line, sizeof line, "%.*s", (int)(end < sizeof line ? end : sizeof line - 1), sentence);
		fprintf(out, "\n%25s%s", "", lead);
		LK_TRY(lk_put_safe(line, out, err));
		sentence += end;
		while (*sentence == ' ') sentence++;
		lead = *first ? "   " : "";
	}
	return LK_OK;
}

static lk_status put_stall(const lk_explain_stall *s, int number, FILE *out, lk_error *err) {
	char lost[32], share_text[32], gain[32];
	fprintf(out, "%2d  %9s  %6s  %s: ", number, lk_format_seconds(s->lost_s, lost, sizeof lost),
	        lk_percent(s->share, share_text, sizeof share_text), s->kind);
	LK_TRY(lk_put_safe(s->what, out, err));
	LK_TRY(put_sentence(s->evidence, "", out, err));
	LK_TRY(put_sentence(s->remedy, "-> ", out, err));
	if (s->gain_s > 0) fprintf(out, " (simulated: %s a step less)", lk_format_seconds(s->gain_s, gain, sizeof gain));
	else if (!isnan(s->gain_s)) fputs(" (simulated: no gain)", out);
	fputc('\n', out);
	return LK_OK;
}

static lk_status put_stalls(const lk_explanation *x, bool colour, FILE *out, lk_error *err) {
	int count = x->top > 0 && x->top < x->stall_count ? x->top : x->stall_count;
	if (!count) {
		fprintf(out, "\nno stall takes 0.5 %% of a step or more\n");
		return LK_OK;
	}
	put_heading("stalls ranked by time lost per step", colour, out);
	for (int i = 0; i < count; i++) LK_TRY(put_stall(&x->stalls[i], i + 1, out, err));
	if (count < x->stall_count) fprintf(out, "    and %d more (--top 0)\n", x->stall_count - count);
	bool gains = false;
	for (int i = 0; i < count; i++) gains |= !isnan(x->stalls[i].gain_s);
	if (gains && x->world > x->rank_count) fprintf(out, "    gains leave the ranks without traces as they were\n");
	return LK_OK;
}

static lk_status put_critical(const lk_explanation *x, bool colour, FILE *out, lk_error *err) {
	double all = 0;
	char text[32], share_text[32];
	if (!x->critical.part_count) return LK_OK;
	for (int i = 0; i < x->critical.part_count; i++) all += x->critical.parts[i].seconds;
	put_heading("critical path", colour, out);
	for (int i = 0; i < x->critical.part_count; i++) {
		const lk_critical_part *p = &x->critical.parts[i];
		fprintf(out, "    %9s  %6s  ", lk_format_seconds(p->seconds, text, sizeof text),
		        lk_percent(p->seconds / all, share_text, sizeof share_text));
		LK_TRY(lk_put_safe(p->kind, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

/* ---- tables in the report ---- */

static lk_status put_table(const lk_explanation *x, int which, const char *heading, bool colour, FILE *out,
						   lk_error *err) {
	lk_table *t = lk_explain_table(x, which, true);
	if (!t) return lk_oom(err);
	lk_status status = LK_OK;
	if (lk_table_rows(t)) {
		put_heading(heading, colour, out);
		status = lk_table_write(t, LK_FORMAT_TEXT, colour, out, err);
	}
	lk_table_free(t);
	return status;
}

static lk_status put_kernels(const lk_explanation *x, bool colour, FILE *out, lk_error *err) {
	if (!x->kernel_count) return LK_OK;
	bool host = x->kernel[0].type == LK_WORK_HOST;
	LK_TRY(put_table(x, LK_EXPLAIN_KERNELS, host ? "operations of the host" : "kernels", colour, out, err));
	if (x->top > 0 && x->top < x->kernel_count) fprintf(out, "and %d more (--top 0)\n", x->kernel_count - x->top);
	return LK_OK;
}

/* Of what was asked for with a GPU; or why there is none. */
static lk_status put_roofline(const lk_explanation *x, bool colour, FILE *out, lk_error *err) {
	char heading[200], known[32];
	if (x->no_roofline) {
		fputs("\nno roofline: ", out);
		LK_TRY(lk_put_safe(x->no_roofline, out, err));
		putc('\n', out);
	}
	if (!x->shaped_count) return LK_OK;
	snprintf(heading, sizeof heading, "operations of known shape (%s of kernel time)%s%.100s", lk_percent(x->shaped_share, known, sizeof known),
	         x->held_against ? " against " : "", x->held_against ? x->held_against : "");
	LK_TRY(put_table(x, LK_EXPLAIN_ROOFLINE, heading, colour, out, err));
	if (x->top > 0 && x->top < x->shaped_count) fprintf(out, "and %d more (--top 0)\n", x->shaped_all - x->top);
	return LK_OK;
}

static lk_status put_warnings(const lk_explanation *x, FILE *out, lk_error *err) {
	if (x->warning_count) fputc('\n', out);
	for (int i = 0; i < x->warning_count; i++) {
		fprintf(out, "W%d: ", i + 1);
		LK_TRY(lk_put_safe(x->warnings[i], out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

lk_status lk_explain_report(const lk_explanation *x, bool colour, FILE *out, lk_error *err) {
	LK_TRY(put_overview(x, out, err));
	put_step(x, out);
	if (x->kernels) put_shares(x, out);
	LK_TRY(put_stalls(x, colour, out, err));
	LK_TRY(put_critical(x, colour, out, err));
	if (x->kernels && x->rank_count > 1) LK_TRY(put_table(x, LK_EXPLAIN_BREAKDOWN, "ranks", colour, out, err));
	if (x->comm_count)
		LK_TRY(put_table(x, LK_EXPLAIN_COMMUNICATION, "communication, all ranks and steps", colour, out, err));
	if (x->straggler_count) LK_TRY(put_table(x, LK_EXPLAIN_STRAGGLERS, "who comes last", colour, out, err));
	LK_TRY(put_kernels(x, colour, out, err));
	LK_TRY(put_roofline(x, colour, out, err));
	LK_TRY(put_warnings(x, out, err));
	fputs("\nreproduce: ", out);
	LK_TRY(lk_put_safe(x->reproduce, out, err));
	fputc('\n', out);
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}
