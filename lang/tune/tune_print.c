/* tune_print.c: prints the results of tune, as text and JSON: the fastest schedules, their gains,
 * the evidence that the first one computes the same. */
#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "base/noun.h"
#include "lang/compile/compile.h"
#include "lang/tune/tune.h"

static const char *tune_print_schedule_text(const lk_tuned *tuned, const lc_schedule *schedule) {
	const char *text = schedule->count ? lk_wisdom_text(tuned->arena, schedule) : NULL;
	return text ? text : LC_PLAIN;
}

/* `name`: of a schedule of the file, or NULL. */
static void tune_print_put_schedule(const lk_tuned *tuned, const lk_found *found, const char *name,
                                    FILE *out) {
	fprintf(out, "  %s%s%s", name ? name : "", name ? ": " : "",
	        tune_print_schedule_text(tuned, &found->schedule));
}

static void tune_print_put_measured(const lk_found *found, FILE *out) {
	char simulated[32];
	if (found->measured) fputs("  (measured", out);
	if (found->measured && found->simulated_s > 0)
		fprintf(out, "; simulated %s",
		        lk_format_seconds(found->simulated_s, simulated, sizeof simulated));
	fputs(found->measured ? ")\n" : "\n", out);
}

static void tune_print_put_row(const lk_tuned *tuned, const char *rank, const char *name,
                               const lk_found *found, FILE *out) {
	char time[32], compute[32], exposed[32], memory[32];
	fprintf(out, "%5s  %-10s %-10s %-10s %-10s %6.2fx", rank,
	        lk_format_seconds(found->time.seconds, time, sizeof time),
	        lk_format_seconds(found->time.compute_s, compute, sizeof compute),
	        lk_format_seconds(found->time.exposed_s, exposed, sizeof exposed),
	        lk_format_bytes(found->time.bytes, memory, sizeof memory),
	        tuned->plain->time.seconds / found->time.seconds);
	tune_print_put_schedule(tuned, found, name, out);
	tune_print_put_measured(found, out);
}

/* Print the step's time with a program, its speedup, its memory; the time of the program alone. */
static void tune_print_put_step_row(const lk_tuned *tuned, const char *rank, const char *name,
                                    const lk_found *found, FILE *out) {
	char step[32] = "-", gain[32] = "-", memory[32] = "-", alone[32];
	if (found->in_step) {
		lk_format_seconds(found->step_s, step, sizeof step);
		lk_format_bytes(found->step_bytes, memory, sizeof memory);
		snprintf(gain, sizeof gain, "%.3fx", tuned->step->seconds / found->step_s);
	}
	fprintf(out, "%5s  %-10s %7s  %-10s%s  %-10s", rank, step, gain, memory,
	        found->in_step && !found->step_fits ? "!" : " ",
	        lk_format_seconds(found->time.seconds, alone, sizeof alone));
	tune_print_put_schedule(tuned, found, name, out);
	tune_print_put_measured(found, out);
}

static void tune_print_put_rows(const lk_tuned *tuned, FILE *out) {
	bool step = tuned->step != NULL;
	void (*put)(const lk_tuned *, const char *, const char *, const lk_found *, FILE *) =
		step ? tune_print_put_step_row : tune_print_put_row;
	char rank[16];
	if (step)
		fprintf(out, "\n%5s  %-10s %7s  %-10s   %-10s  %s\n", "rank", "step", "gain", "memory",
		        "alone", "schedule");
	else
		fprintf(out, "\n%5s  %-10s %-10s %-10s %-10s %7s  %s\n", "rank", "time", "compute",
		        "exposed", "memory", "gain", "schedule");
	for (int i = 0; i < tuned->shown; i++) {
		snprintf(rank, sizeof rank, "%d", i + 1);
		put(tuned, rank, NULL, &tuned->best[i], out);
	}
	put(tuned, "", NULL, tuned->plain, out);
	for (int i = 0; i < tuned->own_count; i++)
		put(tuned, "file", tuned->own[i].schedule.name, &tuned->own[i], out);
	fputc('\n', out);
}

/* Print the step with and without, as one ratio. */
static void tune_print_put_in_step(const lk_tuned *tuned, FILE *out) {
	const lk_in_step *step = tuned->step;
	const lk_found *first = tuned->best;
	char before[32], after[32], plain[32], most[32];
	if (!step) return;
	fprintf(out, "the step of %s: %s as it is, %s with the first: %.3fx", step->path,
	        lk_format_seconds(step->seconds, before, sizeof before),
	        lk_format_seconds(first->step_s, after, sizeof after), step->seconds / first->step_s);
	if (tuned->plain->in_step)
		fprintf(out, "; %s with plain",
		        lk_format_seconds(tuned->plain->step_s, plain, sizeof plain));
	fprintf(out, "\n  %d of %zu programs simulated in it", step->simulated,
	        tuned->search->found.count);
	if (step->refused)
		fprintf(out, "; %d cannot replace its end: %s", step->refused, step->why.what);
	fputc('\n', out);
	if (!first->step_fits || step->bytes > step->usable)
		fprintf(out, "  memory: a GPU has %s; the step %s as it is\n",
		        lk_format_bytes(step->usable, most, sizeof most),
		        step->bytes > step->usable ? "does not fit" : "fits");
}

static void tune_print_put_sizes(const lk_tuned *tuned, FILE *out) {
	const lc_program *program = tuned->p;
	for (int a = 0; a < program->axis_count; a++)
		fprintf(out, "%s%s=%lld", a ? "," : "", program->axes[a].name,
		        (long long)tuned->sizes->symbol[a]);
	for (int d = 0; d < program->named_count; d++) {
		if (!tuned->sizes->each[d])
			fprintf(out, ",%s=%lld", program->named[d].name,
			        (long long)tuned->sizes->symbol[LC_AXES + d]);
		else
			fprintf(out, ",%s of %lld %s", program->named[d].name,
			        (long long)tuned->sizes->items[program->named[d].list],
			        lk_noun(tuned->sizes->items[program->named[d].list], "tensor", "tensors"));
	}
}

static void tune_print_put_search(const lk_tuned *tuned, FILE *out) {
	const lk_search *search = tuned->search;
	char time[32];
	if (tuned->remembered) {
		fputs("remembered: nothing was searched\n", out);
		return;
	}
	fprintf(out, "%d %s looked at in %s; %d rewrites led to one of them again, %d were not legal\n",
	        search->looked, lk_noun(search->looked, "program", "programs"),
	        lk_format_seconds(search->seconds, time, sizeof time), search->known, search->refused);
	if (search->cut_off)
		fprintf(out, "the search was cut off by %s: this is the best found so far\n",
		        lk_cutoff_text(search->cut_off));
	else if (search->capped)
		fprintf(out, "the search stopped after %d %s; --programs N searches more\n", search->looked,
		        lk_noun(search->looked, "program", "programs"));
}

static void tune_print_put_verdict(const lk_tuned *tuned, FILE *out) {
	const lc_verdict *verdict = tuned->verified;
	if (!verdict) return;
	if (!verdict->equal) {
		fprintf(out, "the first one DIFFERS from plain in %s\n", verdict->where);
		return;
	}
	fprintf(out,
	        "the first one computes the same as plain: %d draws of inputs and sizes, modulo 2^61 - "
	        "1, on %d meshes: %s\n",
	        verdict->runs, verdict->meshes, verdict->tried);
	if (verdict->chance < 1)
		fprintf(
			out,
			"  a difference at sizes that were drawn stays unseen with a chance of at most %.1g\n",
			verdict->chance);
	if (verdict->choices)
		fprintf(out, "  not in this bound: %d maxima or minima\n", verdict->choices);
}

/* Print whether simulation or measurement decides, and how well they agree. */
static void tune_print_put_trust(const lk_tuned *tuned, FILE *out) {
	const lk_measurement *m = tuned->measurement;
	if (!m) return;
	fprintf(out, "measured on this machine: %d %s, %d %s of all in turn", m->schedules,
	        lk_noun(m->schedules, "schedule", "schedules"), m->rounds,
	        lk_noun(m->rounds, "round", "rounds"));
	if (m->pairs)
		fprintf(out,
		        "; simulated and measured order: Kendall's tau %.2f over %d %s further apart than "
		        "the noise",
		        m->tau, m->pairs, lk_noun(m->pairs, "pair", "pairs"));
	fputs(tuned->step ? "\ntrusted: the step as simulated, and how much longer than "
	                    "simulated each took alone; alone, "
	                  : "\ntrusted: the measurement; ",
	      out);
	if (!m->plain)
		fprintf(out,
		        tuned->step ? "the fastest is %.2fx as fast as plain (95 %%: %.2f..%.2f); "
		                    : "the first one is %.2fx as fast as plain (95 %%: %.2f..%.2f); ",
		        m->first.median, m->first.low, m->first.high);
	else fputs("no schedule is faster than plain by more than the noise; ", out);
	fprintf(out, "what the simulation puts first, %.2fx (%.2f..%.2f)\n", m->simulated.median,
	        m->simulated.low, m->simulated.high);
}

void lk_tuned_text(const lk_tuned *tuned, FILE *out) {
	fprintf(out, "program %s, ", tuned->p->name);
	tune_print_put_sizes(tuned, out);
	fprintf(out, ", on %s\n", tuned->cluster_text);
	for (size_t i = 0; i < tuned->warning_count; i++) {
		char shown_text[512];
		fprintf(out, "warning: %s\n", lk_escape(tuned->warnings[i], shown_text, sizeof shown_text));
	}
	tune_print_put_search(tuned, out);
	tune_print_put_rows(tuned, out);
	tune_print_put_in_step(tuned, out);
	tune_print_put_trust(tuned, out);
	tune_print_put_verdict(tuned, out);
	if (tuned->best->schedule.count) {
		fputc('\n', out);
		lc_print_schedule(tuned->p, &tuned->best->schedule, out);
	}
}

/* ---- fields ---- */

#define FOUND(member)    LK_AT(lk_found, member)
#define STEP(member)     LK_AT(lk_in_step, member)
#define MEASURED(member) LK_AT(lk_measurement, member)
#define SEARCH(member)   LK_AT(lk_search, member)
#define TUNED(member)    LK_AT(lk_tuned, member)

static void find_gain(const lk_subject *subject, lk_field_value *found) {
	const lk_tuned *tuned = subject->answer;
	const lk_found *record = subject->record;
	found->number = tuned->plain->time.seconds / record->time.seconds;
}

static void find_schedule(const lk_subject *subject, lk_field_value *found) {
	const lk_found *record = subject->record;
	found->text = tune_print_schedule_text(subject->answer, &record->schedule);
}

static const lk_answer_field found_fields[] = {
	{"time_s", NULL, FOUND(time.seconds)},
	{"compute_s", NULL, FOUND(time.compute_s)},
	{"exposed_s", NULL, FOUND(time.exposed_s)},
	{"memory_bytes", NULL, FOUND(time.bytes)},
	{"gain", NULL, LK_FIELD_REAL, .get = find_gain},
	{"measured", NULL, FOUND(measured)},
	{"simulated_s", NULL, FOUND(simulated_s), .known = LK_UNLESS_ZERO, .absent = true},
	{"step_s", NULL, FOUND(step_s), LK_IF(lk_found, in_step), .absent = true},
	{"step_memory_bytes", NULL, FOUND(step_bytes), LK_IF(lk_found, in_step), .absent = true},
	{"step_fits", NULL, FOUND(step_fits), LK_IF(lk_found, in_step), .absent = true},
	{"schedule", NULL, LK_FIELD_TEXT, .get = find_schedule},
};
static const lk_answer_record found_record = {.name = "Found", LK_RECORD(lk_found, found_fields)};

/* A schedule of the file. */
static const lk_answer_field own_fields[] = {
	{"name", NULL, FOUND(schedule.name)},
	{LK_HERE(found_record)},
};
static const lk_answer_record own_record = {LK_RECORD(lk_found, own_fields)};

static const lk_answer_field step_fields[] = {
	{"path", NULL, STEP(path)},
	{"as_it_is_s", NULL, STEP(seconds)},
	{"memory_bytes", NULL, STEP(bytes)},
	{"usable_bytes", NULL, STEP(usable)},
	{"simulated", NULL, STEP(simulated)},
	{"refused", NULL, STEP(refused)},
	{"refused_because", NULL, STEP(why.what), .known = LK_UNLESS_ZERO, .absent = true},
};
static const lk_answer_record step_record = {LK_RECORD(lk_in_step, step_fields)};

static void find_faster(const lk_subject *subject, lk_field_value *found) {
	found->number = !((const lk_measurement *)subject->record)->plain;
}

static const lk_answer_field measurement_fields[] = {
	{"schedules", NULL, MEASURED(schedules)},
	{"rounds", NULL, MEASURED(rounds)},
	{"tau", NULL, MEASURED(tau), .known = LK_MAYBE},
	{"tau_pairs", NULL, MEASURED(pairs)},
	{"faster_than_plain", NULL, LK_FIELD_BOOL, .get = find_faster},
	{"gain", NULL, LK_INSIDE(lk_measurement, first, lc_interval_record)},
	{"simulated_first_gain", NULL, LK_INSIDE(lk_measurement, simulated, lc_interval_record)},
};
static const lk_answer_record measurement_record = {LK_RECORD(lk_measurement, measurement_fields)};

static const lk_answer_field looked_fields[] = {
	{"programs", NULL, SEARCH(looked)},
	{"again", NULL, SEARCH(known)},
	{"refused", NULL, SEARCH(refused)},
};
static const lk_answer_record looked_record = {LK_RECORD(lk_search, looked_fields)};

static const lk_answer_field search_fields[] = {
	{"remembered", NULL, TUNED(remembered)},
	{LK_ONE(lk_tuned, search, looked_record)},
	{"complete", NULL, TUNED(complete)},
	{"cut_off", NULL, TUNED(cut_off), .known = LK_MAYBE},
};
static const lk_answer_record search_record = {LK_RECORD(lk_tuned, search_fields)};

static const lk_answer_field verified_fields[] = {
	{LK_HERE(lc_tried_record)},
	{LK_HERE(lc_certain_record)},
};
static const lk_answer_record verified_record = {LK_RECORD(lc_verdict, verified_fields)};

static const lk_answer_field tuned_fields[] = {
	{LK_ONE(lk_tuned, p, lc_program_name_record)},
	{"cluster", NULL, TUNED(cluster_text)},
	{"warnings", NULL, LK_LIST(lk_tuned, warnings, warning_count)},
	{"search", NULL, LK_HERE(search_record)},
	{"plain", NULL, LK_ONE(lk_tuned, plain, found_record)},
	{"schedules", NULL, LK_MANY(lk_tuned, best, shown, found_record)},
	{"file", NULL, LK_MANY(lk_tuned, own, own_count, own_record)},
	{"step", NULL, LK_ONE(lk_tuned, step, step_record), .known = LK_MAYBE},
	{"measurement", NULL, LK_ONE(lk_tuned, measurement, measurement_record), .known = LK_MAYBE},
	{"verified", NULL, LK_ONE(lk_tuned, verified, verified_record), .known = LK_MAYBE},
};
static const lk_answer_record tuned_record = {LK_RECORD(lk_tuned, tuned_fields)};
const lk_document lk_tune_document = {"compile-tune", "`compile tune -o json`", &tuned_record,
                                      offsetof(lk_tuned, failed_check), NULL};
