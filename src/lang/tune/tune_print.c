/* tune_print.c: what tune found, as text and JSON: the fastest schedules, what they gain, the evidence that the first one
 * computes the same. */
#include <math.h>
#include <stdlib.h>

#include "io/json.h"
#include "base/text.h"
#include "lang/tune/tune.h"

static int shown(const lk_tuned *t) {
	return t->search->found.count < (size_t)t->top ? (int)t->search->found.count : t->top;
}

static char *schedule_text(const lc_schedule *s, lk_arena *arena) {
	char *text = s->count ? lk_wisdom_text(arena, s) : NULL;
	return text ? text : (char *)(uintptr_t)"plain";
}

/* `name`: of a schedule of the file, or NULL. */
static void put_row(const lk_tuned *t, const char *rank, const char *name, const lk_found *f, lk_arena *arena, FILE *out) {
	char time[32], compute[32], exposed[32], simulated[32];
	fprintf(out, "%5s  %-10s %-10s %-10s %6.2fx  %s%s%s%s", rank, lk_format_seconds(f->time.seconds, time, sizeof time),
	        lk_format_seconds(f->time.compute_s, compute, sizeof compute),
	        lk_format_seconds(f->time.exposed_s, exposed, sizeof exposed), t->search->plain.time.seconds / f->time.seconds,
	        name ? name : "", name ? ": " : "", schedule_text(&f->schedule, arena), f->measured ? "  (measured" : "");
	if (f->measured && f->simulated_s > 0)
		fprintf(out, "; simulated %s", lk_format_seconds(f->simulated_s, simulated, sizeof simulated));
	fputs(f->measured ? ")\n" : "\n", out);
}

static void put_sizes(const lk_tuned *t, FILE *out) {
	const lc_program *p = t->p;
	for (int a = 0; a < p->axis_count; a++)
		fprintf(out, "%s%s=%lld", a ? "," : "", p->axes[a].name, (long long)t->sizes->symbol[a]);
	for (int d = 0; d < p->named_count; d++) {
		if (!t->sizes->each[d]) fprintf(out, ",%s=%lld", p->named[d].name, (long long)t->sizes->symbol[LC_AXES + d]);
		else fprintf(out, ",%s of %lld tensors", p->named[d].name, (long long)t->sizes->items[p->named[d].list]);
	}
}

static void put_search(const lk_tuned *t, FILE *out) {
	const lk_search *s = t->search;
	char time[32];
	if (t->remembered) {
		fputs("remembered: nothing was searched\n", out);
		return;
	}
	fprintf(out, "%d programs looked at in %s; %d rewrites led to one of them again, %d were not legal\n", s->looked,
	        lk_format_seconds(s->seconds, time, sizeof time), s->known, s->refused);
	if (s->capped) fprintf(out, "there are more: the search ended after %d; --programs N looks at more\n", s->looked);
}

static void put_verdict(const lk_tuned *t, FILE *out) {
	const lc_verdict *v = &t->verdict;
	if (!t->verified) return;
	if (!v->equal) {
		fprintf(out, "the first one DIFFERS from plain in %s\n", v->where);
		return;
	}
	fprintf(out, "the first one computes the same as plain: %d draws of inputs and sizes, modulo 2^61 - 1, on %d meshes: %s\n",
	        v->runs, v->meshes, v->tried);
	if (v->chance < 1)
		fprintf(out, "  a difference at sizes that were drawn stays unseen with a chance of at most %.1g\n", v->chance);
	if (v->choices) fprintf(out, "  not in this bound: %d maxima or minima\n", v->choices);
}

void lk_tuned_text(const lk_tuned *t, FILE *out) {
	lk_arena arena = LK_ARENA_INIT;
	char rank[16];
	fprintf(out, "program %s, ", t->p->name);
	put_sizes(t, out);
	fprintf(out, ", on %s\n", t->cluster->text);
	for (size_t i = 0; i < t->warning_count; i++) {
		char shown_text[512];
		fprintf(out, "warning: %s\n", lk_escape(t->warnings[i], shown_text, sizeof shown_text));
	}
	put_search(t, out);
	fprintf(out, "\n%5s  %-10s %-10s %-10s %7s  %s\n", "rank", "time", "compute", "exposed", "gain", "schedule");
	for (int i = 0; i < shown(t); i++) {
		snprintf(rank, sizeof rank, "%d", i + 1);
		put_row(t, rank, NULL, &t->search->found.at[i], &arena, out);
	}
	put_row(t, "", NULL, &t->search->plain, &arena, out);
	for (int i = 0; i < t->own_count; i++) put_row(t, "file", t->own[i].schedule.name, &t->own[i], &arena, out);
	fputc('\n', out);
	put_verdict(t, out);
	if (t->search->found.at[0].schedule.count) {
		fputc('\n', out);
		lc_print_schedule(t->p, &t->search->found.at[0].schedule, out);
	}
	lk_arena_free(&arena);
}

static void json_found(lk_json_writer *w, const lk_tuned *t, const char *key, const char *name, const lk_found *f,
                       lk_arena *arena) {
	lk_json_object(w, key);
	if (name) lk_json_put_text(w, "name", name);
	lk_json_put_number(w, "time_s", f->time.seconds);
	lk_json_put_number(w, "compute_s", f->time.compute_s);
	lk_json_put_number(w, "exposed_s", f->time.exposed_s);
	lk_json_put_number(w, "gain", t->search->plain.time.seconds / f->time.seconds);
	lk_json_put_bool(w, "measured", f->measured);
	if (f->measured && f->simulated_s > 0) lk_json_put_number(w, "simulated_s", f->simulated_s);
	lk_json_put_text(w, "schedule", schedule_text(&f->schedule, arena));
	lk_json_object_end(w);
}

static void json_verdict(lk_json_writer *w, const lc_verdict *v) {
	lk_json_object(w, "verified");
	lk_json_put_bool(w, "equal", v->equal);
	if (!v->equal) lk_json_put_text(w, "where", v->where);
	lk_json_put_integer(w, "draws", v->runs);
	lk_json_put_integer(w, "meshes", v->meshes);
	lk_json_put_integer(w, "degree", v->degree);
	lk_json_put_number(w, "chance", v->chance);
	lk_json_put_integer(w, "choices", v->choices);
	lk_json_object_end(w);
}

lk_status lk_tuned_json(const lk_tuned *t, FILE *out, lk_error *err) {
	lk_json_writer w;
	lk_arena arena = LK_ARENA_INIT;
	const lk_search *s = t->search;
	lk_json_begin(&w, out, false);
	lk_json_object(&w, NULL);
	lk_json_put_text(&w, "program", t->p->name);
	lk_json_put_text(&w, "cluster", t->cluster->text);
	lk_json_array(&w, "warnings");
	for (size_t i = 0; i < t->warning_count; i++) lk_json_put_text(&w, NULL, t->warnings[i]);
	lk_json_array_end(&w);
	lk_json_object(&w, "search");
	lk_json_put_bool(&w, "remembered", t->remembered);
	lk_json_put_integer(&w, "programs", s->looked);
	lk_json_put_integer(&w, "again", s->known);
	lk_json_put_integer(&w, "refused", s->refused);
	lk_json_put_bool(&w, "complete", !s->capped);
	lk_json_put_number(&w, "seconds", s->seconds);
	lk_json_object_end(&w);
	json_found(&w, t, "plain", NULL, &s->plain, &arena);
	lk_json_array(&w, "schedules");
	for (int i = 0; i < shown(t); i++) json_found(&w, t, NULL, NULL, &s->found.at[i], &arena);
	lk_json_array_end(&w);
	lk_json_array(&w, "file");
	for (int i = 0; i < t->own_count; i++) json_found(&w, t, NULL, t->own[i].schedule.name, &t->own[i], &arena);
	lk_json_array_end(&w);
	if (t->verified) json_verdict(&w, &t->verdict);
	else lk_json_put_null(&w, "verified");
	lk_json_object_end(&w);
	lk_arena_free(&arena);
	return lk_json_finish(&w, err);
}
