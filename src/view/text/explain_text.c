/* explain_text.c: the report of an explanation: what was read, where a step's time goes, what costs
 * it time, which kernels. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/noun.h"
#include "base/text.h"
#include "view/text/views.h"

/* ---- what was read ---- */

static lk_status put_overview(const lk_explanation *explanation, FILE *out, lk_error *err) {
	char number[32], time[32], line[600];
	lk_text text = lk_text_begin(line, sizeof line);
	lk_text_add(&text, "%d %s", explanation->rank_count,
	            lk_noun(explanation->rank_count, "rank", "ranks"));
	if (explanation->world > explanation->rank_count)
		lk_text_add(&text, " of %d", explanation->world);
	if (explanation->annotated)
		lk_text_add(&text, ", %d %s", explanation->step_count,
		            lk_noun(explanation->step_count, "step", "steps"));
	if (explanation->lost_steps) lk_text_add(&text, " (%d lost)", explanation->lost_steps);
	lk_text_add(&text, ", %s %s",
	            lk_format_thousands((double)explanation->kernels, number, sizeof number),
	            lk_noun((double)explanation->kernels, "kernel", "kernels"));
	if (explanation->rank_count && *explanation->ranks[0].device)
		lk_text_add(&text, ", %.200s", explanation->ranks[0].device);
	LK_TRY(lk_put_wrapped(line, 0, 0, out, err));
	if (explanation->anchors)
		fprintf(out, "\nclocks aligned on %s %s (max residual %s)",
		        lk_format_thousands(explanation->anchors, number, sizeof number),
		        lk_noun(explanation->anchors, "collective", "collectives"),
		        lk_format_seconds(explanation->residual_max_s, time, sizeof time));
	fputc('\n', out);
	return LK_OK;
}

/* ---- where the time goes ---- */

/* Sums over ranks. */
static double explain_text_total(const lk_explanation *explanation, size_t field) {
	double sum = 0;
	for (int i = 0; i < explanation->rank_count; i++)
		sum += (double)*(const int64_t *)((const char *)&explanation->ranks[i] + field);
	return sum;
}
#define TOTAL(x, field) explain_text_total(x, offsetof(lk_explain_rank, field))

static void explain_text_put_step(const lk_explanation *explanation, FILE *out) {
	char mean[32], deviation[32];
	fprintf(out, "%s %s", explanation->annotated ? "step" : "trace",
	        lk_format_seconds(explanation->step_s, mean, sizeof mean));
	if (isnan(explanation->step_deviation_s)) fprintf(out, "  (n=%d)\n", explanation->step_count);
	else
		fprintf(out, " +- %s  (n=%d)\n",
		        lk_format_seconds(explanation->step_deviation_s, deviation, sizeof deviation),
		        explanation->step_count);
}

static void put_shares(const lk_explanation *explanation, FILE *out) {
	const lk_device_part *parts = lk_device_parts();
	double ns[LK_DEVICE_PARTS];
	double whole = TOTAL(explanation, kernel_time_ns), comm = TOTAL(explanation, communication_ns);
	char text[32];
	fprintf(out, "%-13s", "");
	for (int i = 0; i < LK_DEVICE_PARTS; i++) {
		ns[i] = explain_text_total(explanation, parts[i].time);
		if (ns[i] > 0 || !parts[i].rare)
			fprintf(out, "  %*s", (int)strlen(parts[i].title), parts[i].title);
	}
	fprintf(out, "\n%-13s", explanation->processors ? "share of time" : "share of GPU");
	for (int i = 0; i < LK_DEVICE_PARTS; i++)
		if (ns[i] > 0 || !parts[i].rare)
			fprintf(out, "  %*s", (int)strlen(parts[i].title),
			        lk_percent(ns[i] / whole, text, sizeof text));
	fputc('\n', out);
	if (comm > 0)
		fprintf(out, "overlap: %s of communication overlapped with computation\n",
		        lk_percent(TOTAL(explanation, overlap_ns) / comm, text, sizeof text));
}

static lk_status put_energy(const lk_explanation *explanation, FILE *out, lk_error *err) {
	const lk_energy *energy = &explanation->energy;
	char text[32], line[300];
	lk_text said = lk_text_begin(line, sizeof line);
	if (!(energy->site_watts > 0)) return LK_OK;
	int ranks =
		explanation->world > explanation->rank_count ? explanation->world : explanation->rank_count;
	lk_text_add(&said, "power: %.0f W per GPU; %d %s with hosts and network at PUE %.3g: %.3g kW, ",
	            energy->gpu_watts, ranks, lk_noun(ranks, "GPU", "GPUs"), energy->pue,
	            energy->site_watts / 1000);
	lk_text_add(&said, "%s per %s", lk_format_energy(energy->step_kwh, text, sizeof text),
	            explanation->annotated ? "step" : "trace");
	if (energy->carbon_kg > 0)
		lk_text_add(&said, ", %s CO2e", lk_format_mass(energy->carbon_kg, text, sizeof text));
	if (energy->power_usd > 0)
		lk_text_add(&said, ", %s", lk_format_dollars(energy->power_usd, text, sizeof text));
	LK_TRY(lk_put_wrapped(line, 0, 0, out, err));
	fputc('\n', out);
	return LK_OK;
}

/* ---- what costs time ---- */

enum {
	FIGURES = 25 /* columns of figures */
};

/* A sentence in lines of its own, each indented by `indent` columns and as many as `first` has,
 * which is in front of it. */
static lk_status put_sentence(const char *sentence, int indent, const char *first, FILE *out,
                              lk_error *err) {
	int column = indent + (int)strlen(first);
	fprintf(out, "\n%*s%s", indent, "", first);
	return lk_put_wrapped(sentence, column, column, out, err);
}

/* What to do about a stall, or why nothing. */
static const char *explain_text_remedy(const lk_explain_stall *stall) {
	if (*stall->remedy) return stall->remedy;
	return isnan(stall->gain_s) ? "none: nothing of it is on the critical path"
	                            : "none: the usual remedy gains nothing in the simulation";
}

static lk_status put_stall(const lk_explain_stall *stall, int number, FILE *out, lk_error *err) {
	char lost[32], share_text[32], gain[32];
	fprintf(out, "%2d  %9s  %6s  %s: ", number, lk_format_seconds(stall->lost_s, lost, sizeof lost),
	        lk_percent(stall->share, share_text, sizeof share_text), stall->kind);
	LK_TRY(lk_put_safe(stall->what, out, err));
	LK_TRY(put_sentence(stall->evidence, FIGURES, "", out, err));
	LK_TRY(put_sentence(explain_text_remedy(stall), FIGURES, "-> ", out, err));
	if (stall->gain_s > 0) {
		char worth[200];
		snprintf(worth, sizeof worth, "simulated, whatif --set '%.100s': %s a step less",
		         stall->change, lk_format_seconds(stall->gain_s, gain, sizeof gain));
		LK_TRY(put_sentence(worth, FIGURES, "   ", out, err));
	}
	fputc('\n', out);
	return LK_OK;
}

static lk_status put_stalls(const lk_explanation *explanation, bool colour, FILE *out,
                            lk_error *err) {
	int count = explanation->top > 0 && explanation->top < explanation->stall_count
	                ? explanation->top
	                : explanation->stall_count;
	if (!count) {
		fprintf(out, "\nno stall takes 0.5 %% of a step or more\n");
		return LK_OK;
	}
	lk_put_heading("stalls ranked by time lost per step", colour, out);
	for (int i = 0; i < count; i++) LK_TRY(put_stall(&explanation->stalls[i], i + 1, out, err));
	if (count < explanation->stall_count)
		fprintf(out, "    and %d more (--top 0)\n", explanation->stall_count - count);
	bool gains = false;
	for (int i = 0; i < count; i++) gains |= !isnan(explanation->stalls[i].gain_s);
	if (gains && explanation->world > explanation->rank_count)
		fprintf(out, "    gains assume that all ranks change, traced or not\n");
	return LK_OK;
}

static lk_status explain_text_put_critical(const lk_explanation *explanation, bool colour,
                                           FILE *out, lk_error *err) {
	double all = 0;
	char text[32], share_text[32];
	if (!explanation->critical.part_count) return LK_OK;
	for (int i = 0; i < explanation->critical.part_count; i++)
		all += explanation->critical.parts[i].seconds;
	const lk_critical_path *path = &explanation->critical;
	char heading[96] = "critical path";
	if (explanation->step_count > 1)
		snprintf(heading, sizeof heading, "critical path of step %lld, which takes %s",
		         (long long)path->step, lk_format_seconds(path->step_s, text, sizeof text));
	lk_put_heading(heading, colour, out);
	for (int i = 0; i < explanation->critical.part_count; i++) {
		const lk_critical_part *part = &explanation->critical.parts[i];
		fprintf(out, "    %9s  %6s  ", lk_format_seconds(part->seconds, text, sizeof text),
		        lk_percent(part->seconds / all, share_text, sizeof share_text));
		LK_TRY(lk_put_safe(part->kind, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

/* ---- diagnosis ---- */

double lk_action_worth(const lk_explain_stall *stall) {
	return stall->adds_s > 0 ? stall->adds_s : stall->most_s;
}

const char *lk_action_says(const lk_explain_stall *stall) {
	if (!(stall->adds_s > 0)) return "vanishes when warm:";
	return stall->gain_s > 0 ? "gains" : "up to";
}

/* The share of a step from which a gain that overlaps with cheaper ones is also shown alone. */
static const double WORTH_SAYING = 0.005;

/* The diagnosis, what to do, and what the readers should know of the traces. */
static lk_status explain_text_put_diagnosis(const lk_explanation *explanation, bool colour,
                                            FILE *out, lk_error *err) {
	char gain[32], share[32];
	fprintf(out, "\n%sdiagnosis%s", lk_bold(colour), lk_plain(colour));
	LK_TRY(put_sentence(explanation->diagnosis, 4, "", out, err));
	fputc('\n', out);
	for (int i = 0; i < explanation->action_count; i++) {
		LK_ASSERT(explanation->actions[i] >= 0 &&
		          explanation->actions[i] < explanation->stall_count);
		const lk_explain_stall *stall = &explanation->stalls[explanation->actions[i]];
		double worth = lk_action_worth(stall);
		fprintf(out, " %d. %s %s (%s): ", i + 1, lk_action_says(stall),
		        lk_format_seconds(worth, gain, sizeof gain),
		        lk_percent(worth / explanation->step_s, share, sizeof share));
		LK_TRY(lk_put_safe(stall->kind, out, err));
		if (stall->gain_s > worth + WORTH_SAYING * explanation->step_s)
			fprintf(out, ", on top of cheaper remedies; %s alone",
			        lk_format_seconds(stall->gain_s, gain, sizeof gain));
		LK_TRY(put_sentence(stall->remedy, 4, "", out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

/* ---- tables in the report ---- */

static lk_status explain_text_put_table(const lk_explanation *explanation, int which,
                                        const char *heading, bool colour, FILE *out,
                                        lk_error *err) {
	lk_table *table = lk_explain_table(explanation, which, true);
	if (!table) return lk_oom(err);
	lk_status status = LK_OK;
	if (lk_table_shows(table)) {
		lk_put_heading(heading, colour, out);
		status = lk_table_write(table, LK_FORMAT_TEXT, colour, out, err);
	}
	lk_table_free(table);
	return status;
}

static lk_status explain_text_put_kernels(const lk_explanation *explanation, bool colour, FILE *out,
                                          lk_error *err) {
	if (!explanation->kernel_count) return LK_OK;
	bool host = explanation->kernel[0].type == LK_WORK_HOST;
	LK_TRY(explain_text_put_table(explanation, LK_EXPLAIN_KERNELS,
	                              host ? "operations of the host" : "kernels", colour, out, err));
	if (explanation->top > 0 && explanation->top < explanation->kernel_count)
		fprintf(out, "and %d more (--top 0)\n", explanation->kernel_count - explanation->top);
	return LK_OK;
}

/* Of what was requested with a GPU; or why there is none. */
static lk_status explain_text_put_roofline(const lk_explanation *explanation, bool colour,
                                           FILE *out, lk_error *err) {
	char heading[200], known[32];
	if (explanation->no_roofline) {
		fputs("\nno roofline: ", out);
		LK_TRY(lk_put_safe(explanation->no_roofline, out, err));
		putc('\n', out);
	}
	if (!explanation->shaped_count) return LK_OK;
	lk_text text = lk_text_begin(heading, sizeof heading);
	lk_text_add(&text, "operations of known shape (%s of kernel time)",
	            lk_percent(explanation->shaped_share, known, sizeof known));
	if (explanation->held_against) lk_text_add(&text, " against %.100s", explanation->held_against);
	LK_TRY(explain_text_put_table(explanation, LK_EXPLAIN_ROOFLINE, heading, colour, out, err));
	if (explanation->top > 0 && explanation->top < explanation->shaped_count)
		fprintf(out, "and %d more (--top 0)\n", explanation->shaped_all - explanation->top);
	return LK_OK;
}

/* What changes the meaning of all that follows comes before it. */
static lk_status put_caveats(const lk_explanation *explanation, FILE *out, lk_error *err) {
	for (int i = 0; i < explanation->caveat_count; i++)
		LK_TRY(put_sentence(explanation->warnings[i], 1, "! ", out, err));
	if (explanation->caveat_count) fputc('\n', out);
	return LK_OK;
}

static lk_status explain_text_put_warnings(const lk_explanation *explanation, FILE *out,
                                           lk_error *err) {
	if (explanation->warning_count > explanation->caveat_count) fputc('\n', out);
	for (int i = explanation->caveat_count; i < explanation->warning_count; i++) {
		int indent = fprintf(out, "W%d: ", i + 1 - explanation->caveat_count);
		LK_TRY(lk_put_wrapped(explanation->warnings[i], indent, indent, out, err));
		fputc('\n', out);
	}
	return LK_OK;
}

lk_status lk_explain_report(const lk_explanation *explanation, bool colour, FILE *out,
                            lk_error *err) {
	if (explanation->versus) LK_TRY(lk_versus_report(explanation->versus, colour, out, err));
	LK_TRY(put_overview(explanation, out, err));
	explain_text_put_step(explanation, out);
	if (explanation->kernels) put_shares(explanation, out);
	LK_TRY(put_energy(explanation, out, err));
	LK_TRY(put_caveats(explanation, out, err));
	if (explanation->diagnosis) LK_TRY(explain_text_put_diagnosis(explanation, colour, out, err));
	LK_TRY(put_stalls(explanation, colour, out, err));
	LK_TRY(explain_text_put_critical(explanation, colour, out, err));
	if (explanation->kernels && explanation->rank_count > 1)
		LK_TRY(
			explain_text_put_table(explanation, LK_EXPLAIN_BREAKDOWN, "ranks", colour, out, err));
	if (explanation->comm_count)
		LK_TRY(explain_text_put_table(explanation, LK_EXPLAIN_COMMUNICATION,
		                              "communication, all ranks and steps", colour, out, err));
	if (explanation->straggler_count)
		LK_TRY(explain_text_put_table(explanation, LK_EXPLAIN_STRAGGLERS, "who comes last", colour,
		                              out, err));
	LK_TRY(explain_text_put_table(explanation, LK_EXPLAIN_MODULES, "modules", colour, out, err));
	LK_TRY(explain_text_put_kernels(explanation, colour, out, err));
	LK_TRY(explain_text_put_roofline(explanation, colour, out, err));
	LK_TRY(explain_text_put_warnings(explanation, out, err));
	fputs("\nreproduce: ", out);
	LK_TRY(lk_put_safe(explanation->reproduce, out, err));
	fputc('\n', out);
	return ferror(out) ? lk_fail(err, LK_ERR_IO, "output", "cannot write") : LK_OK;
}
