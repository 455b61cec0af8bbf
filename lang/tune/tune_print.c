/* tune_print.c: prints the results of tune, as text and JSON: the fastest schedules, their gains,
 * the evidence that the first one computes the same. */
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "io/json.h"
#include "base/text.h"
#include "base/noun.h"
#include "lang/tune/tune.h"

static int shown(const lk_tuned *tuned) {
	return tuned->search->found.count < (size_t)tuned->top ? (int)tuned->search->found.count
	                                                       : tuned->top;
}

static char *tune_print_schedule_text(const lc_schedule *schedule, lk_arena *arena) {
	char *text = schedule->count ? lk_wisdom_text(arena, schedule) : NULL;
	return text ? text : (char *)(uintptr_t) "plain";
}

/* `name`: of a schedule of the file, or NULL. */
static void tune_print_put_schedule(const lk_found *found, const char *name, lk_arena *arena,
                                    FILE *out) {
	fprintf(out, "  %s%s%s", name ? name : "", name ? ": " : "",
	        tune_print_schedule_text(&found->schedule, arena));
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
                               const lk_found *found, lk_arena *arena, FILE *out) {
	char time[32], compute[32], exposed[32], memory[32];
	fprintf(out, "%5s  %-10s %-10s %-10s %-10s %6.2fx", rank,
	        lk_format_seconds(found->time.seconds, time, sizeof time),
	        lk_format_seconds(found->time.compute_s, compute, sizeof compute),
	        lk_format_seconds(found->time.exposed_s, exposed, sizeof exposed),
	        lk_format_bytes(found->time.bytes, memory, sizeof memory),
	        tuned->search->plain.time.seconds / found->time.seconds);
	tune_print_put_schedule(found, name, arena, out);
	tune_print_put_measured(found, out);
}

/* Print the step's time with a program, its speedup, its memory; the time of the program alone. */
static void tune_print_put_step_row(const lk_tuned *tuned, const char *rank, const char *name,
                                    const lk_found *found, lk_arena *arena, FILE *out) {
	char step[32] = "-", gain[32] = "-", memory[32] = "-", alone[32];
	if (found->in_step) {
		lk_format_seconds(found->step_s, step, sizeof step);
		lk_format_bytes(found->step_bytes, memory, sizeof memory);
		snprintf(gain, sizeof gain, "%.3fx", tuned->search->step.seconds / found->step_s);
	}
	fprintf(out, "%5s  %-10s %7s  %-10s%s  %-10s", rank, step, gain, memory,
	        found->in_step && !found->step_fits ? "!" : " ",
	        lk_format_seconds(found->time.seconds, alone, sizeof alone));
	tune_print_put_schedule(found, name, arena, out);
	tune_print_put_measured(found, out);
}

static void tune_print_put_rows(const lk_tuned *tuned, FILE *out) {
	bool step = tuned->search->step.path;
	void (*put)(const lk_tuned *, const char *, const char *, const lk_found *, lk_arena *,
	            FILE *) = step ? tune_print_put_step_row : tune_print_put_row;
	lk_arena arena = LK_ARENA_INIT;
	char rank[16];
	if (step)
		fprintf(out, "\n%5s  %-10s %7s  %-10s   %-10s  %s\n", "rank", "step", "gain", "memory",
		        "alone", "schedule");
	else
		fprintf(out, "\n%5s  %-10s %-10s %-10s %-10s %7s  %s\n", "rank", "time", "compute",
		        "exposed", "memory", "gain", "schedule");
	for (int i = 0; i < shown(tuned); i++) {
		snprintf(rank, sizeof rank, "%d", i + 1);
		put(tuned, rank, NULL, &tuned->search->found.at[i], &arena, out);
	}
	put(tuned, "", NULL, &tuned->search->plain, &arena, out);
	for (int i = 0; i < tuned->own_count; i++)
		put(tuned, "file", tuned->own[i].schedule.name, &tuned->own[i], &arena, out);
	fputc('\n', out);
	lk_arena_free(&arena);
}

/* Print the step with and without, as one ratio. */
static void tune_print_put_in_step(const lk_tuned *tuned, FILE *out) {
	const lk_in_step *step = &tuned->search->step;
	const lk_found *first = &tuned->search->found.at[0];
	char before[32], after[32], plain[32], most[32];
	if (!step->path) return;
	fprintf(out, "the step of %s: %s as it is, %s with the first: %.3fx", step->path,
	        lk_format_seconds(step->seconds, before, sizeof before),
	        lk_format_seconds(first->step_s, after, sizeof after), step->seconds / first->step_s);
	if (tuned->search->plain.in_step)
		fprintf(out, "; %s with plain",
		        lk_format_seconds(tuned->search->plain.step_s, plain, sizeof plain));
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
	const lc_verdict *verdict = &tuned->verdict;
	if (!tuned->verified) return;
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
	const lk_measurement *m = &tuned->search->measurement;
	if (m->schedules == 0) return;
	fprintf(out, "measured on this machine: %d %s, %d %s of all in turn", m->schedules,
	        lk_noun(m->schedules, "schedule", "schedules"), m->rounds,
	        lk_noun(m->rounds, "round", "rounds"));
	if (m->pairs)
		fprintf(out,
		        "; simulated and measured order: Kendall's tau %.2f over %d %s further apart than "
		        "the noise",
		        m->tau, m->pairs, lk_noun(m->pairs, "pair", "pairs"));
	fputs(tuned->search->step.path ? "\ntrusted: the step as simulated, and how much longer than "
	                                 "simulated each took alone; alone, "
	                               : "\ntrusted: the measurement; ",
	      out);
	if (!m->plain)
		fprintf(out,
		        tuned->search->step.path
		            ? "the fastest is %.2fx as fast as plain (95 %%: %.2f..%.2f); "
		            : "the first one is %.2fx as fast as plain (95 %%: %.2f..%.2f); ",
		        m->first.median, m->first.low, m->first.high);
	else fputs("no schedule is faster than plain by more than the noise; ", out);
	fprintf(out, "what the simulation puts first, %.2fx (%.2f..%.2f)\n", m->simulated.median,
	        m->simulated.low, m->simulated.high);
}

void lk_tuned_text(const lk_tuned *tuned, FILE *out) {
	fprintf(out, "program %s, ", tuned->p->name);
	tune_print_put_sizes(tuned, out);
	fprintf(out, ", on %s\n", tuned->cluster->text);
	for (size_t i = 0; i < tuned->warning_count; i++) {
		char shown_text[512];
		fprintf(out, "warning: %s\n", lk_escape(tuned->warnings[i], shown_text, sizeof shown_text));
	}
	tune_print_put_search(tuned, out);
	tune_print_put_rows(tuned, out);
	tune_print_put_in_step(tuned, out);
	tune_print_put_trust(tuned, out);
	tune_print_put_verdict(tuned, out);
	if (tuned->search->found.at[0].schedule.count) {
		fputc('\n', out);
		lc_print_schedule(tuned->p, &tuned->search->found.at[0].schedule, out);
	}
}

static void json_found(lk_json_writer *writer, const lk_tuned *tuned, const char *key,
                       const char *name, const lk_found *found, lk_arena *arena) {
	lk_json_object(writer, key);
	if (name) lk_json_put_text(writer, "name", name);
	lk_json_put_number(writer, "time_s", found->time.seconds);
	lk_json_put_number(writer, "compute_s", found->time.compute_s);
	lk_json_put_number(writer, "exposed_s", found->time.exposed_s);
	lk_json_put_number(writer, "memory_bytes", found->time.bytes);
	lk_json_put_number(writer, "gain", tuned->search->plain.time.seconds / found->time.seconds);
	lk_json_put_bool(writer, "measured", found->measured);
	if (found->measured && found->simulated_s > 0)
		lk_json_put_number(writer, "simulated_s", found->simulated_s);
	if (found->in_step) {
		lk_json_put_number(writer, "step_s", found->step_s);
		lk_json_put_number(writer, "step_memory_bytes", found->step_bytes);
		lk_json_put_bool(writer, "step_fits", found->step_fits);
	}
	lk_json_put_text(writer, "schedule", tune_print_schedule_text(&found->schedule, arena));
	lk_json_object_end(writer);
}

static void json_step(lk_json_writer *writer, const lk_in_step *step) {
	if (!step->path) {
		lk_json_put_null(writer, "step");
		return;
	}
	lk_json_object(writer, "step");
	lk_json_put_text(writer, "path", step->path);
	lk_json_put_number(writer, "as_it_is_s", step->seconds);
	lk_json_put_number(writer, "memory_bytes", step->bytes);
	lk_json_put_number(writer, "usable_bytes", step->usable);
	lk_json_put_integer(writer, "simulated", step->simulated);
	lk_json_put_integer(writer, "refused", step->refused);
	if (step->refused) lk_json_put_text(writer, "refused_because", step->why.what);
	lk_json_object_end(writer);
}

static void json_verdict(lk_json_writer *writer, const lc_verdict *verdict) {
	lk_json_object(writer, "verified");
	lk_json_put_bool(writer, "equal", verdict->equal);
	if (!verdict->equal) lk_json_put_text(writer, "where", verdict->where);
	lk_json_put_integer(writer, "draws", verdict->runs);
	lk_json_put_integer(writer, "meshes", verdict->meshes);
	lk_json_put_integer(writer, "degree", verdict->degree);
	lk_json_put_number(writer, "chance", verdict->chance);
	lk_json_put_integer(writer, "choices", verdict->choices);
	lk_json_object_end(writer);
}

static void json_measurement(lk_json_writer *writer, const lk_measurement *m) {
	if (m->schedules == 0) {
		lk_json_put_null(writer, "measurement");
		return;
	}
	lk_json_object(writer, "measurement");
	lk_json_put_integer(writer, "schedules", m->schedules);
	lk_json_put_integer(writer, "rounds", m->rounds);
	lk_json_put_number(writer, "tau", m->tau);
	lk_json_put_integer(writer, "tau_pairs", m->pairs);
	lk_json_put_bool(writer, "faster_than_plain", !m->plain);
	lc_put_interval(writer, "gain", &m->first);
	lc_put_interval(writer, "simulated_first_gain", &m->simulated);
	lk_json_object_end(writer);
}

lk_status lk_tuned_json(const lk_tuned *tuned, FILE *out, lk_error *err) {
	lk_json_writer w;
	lk_arena arena = LK_ARENA_INIT;
	const lk_search *search = tuned->search;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_head(&w, "lockstep/compile-tune/1", tuned->failed_check);
	lk_json_put_text(&w, "program", tuned->p->name);
	lk_json_put_text(&w, "cluster", tuned->cluster->text);
	lk_json_array(&w, "warnings");
	for (size_t i = 0; i < tuned->warning_count; i++)
		lk_json_put_text(&w, NULL, tuned->warnings[i]);
	lk_json_array_end(&w);
	lk_json_object(&w, "search");
	lk_json_put_bool(&w, "remembered", tuned->remembered);
	lk_json_put_integer(&w, "programs", search->looked);
	lk_json_put_integer(&w, "again", search->known);
	lk_json_put_integer(&w, "refused", search->refused);
	lk_json_put_bool(&w, "complete", !search->capped && !search->cut_off);
	lk_json_put_text(&w, "cut_off", search->cut_off);
	lk_json_object_end(&w);
	json_found(&w, tuned, "plain", NULL, &search->plain, &arena);
	lk_json_array(&w, "schedules");
	for (int i = 0; i < shown(tuned); i++)
		json_found(&w, tuned, NULL, NULL, &search->found.at[i], &arena);
	lk_json_array_end(&w);
	lk_json_array(&w, "file");
	for (int i = 0; i < tuned->own_count; i++)
		json_found(&w, tuned, NULL, tuned->own[i].schedule.name, &tuned->own[i], &arena);
	lk_json_array_end(&w);
	json_step(&w, &search->step);
	json_measurement(&w, &search->measurement);
	if (tuned->verified) json_verdict(&w, &tuned->verdict);
	else lk_json_put_null(&w, "verified");
	lk_json_object_end(&w);
	lk_arena_free(&arena);
	return lk_json_finish(&w, err);
}
