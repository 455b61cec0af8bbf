/* compile_rewrite.c: `lockstep compile rewrite`: what schedules make of a program, in the language: a program NAME_SCHEDULE
 * with what runs together as its schedule. */
#include <string.h>

#include "lang/compile/compile.h"
#include "lang/rewrite/rewrite.h"

/* Where the programs go: as text or as members of an array. */
struct writer {
	const lk_compile_request *request;
	FILE *out;
	bool structured;      /* JSON, by the writer */
	lk_json_writer json;
	bool begun;
};

static lk_status put(struct writer *w, lc_program *p, const lc_schedule *s, const lc_directive *made_by, lk_error *err) {
	LK_TRY(lc_settle_rewritten(p, err));
	if (!lk_push(&p->schedules)) return lk_oom(err);
	LK_TRY(lc_bundles_schedule(p, s ? s->name : LC_PLAIN, lk_last(&p->schedules), err));
	if (lk_last(&p->schedules)->count == 0) p->schedules.count = 0;
	if (w->structured) {
		lc_json_program(&w->json, p, true);
		return LK_OK;
	}
	if (w->begun) fputc('\n', w->out);
	w->begun = true;
	if (made_by) fputs("# ", w->out), lc_print_directive(made_by, w->out), fputc('\n', w->out);
	if (w->request->ir) lc_print_listing(p, w->out);
	else lc_print_program(p, w->out);
	if (p->schedules.count) lc_print_schedule(p, p->schedules.at, w->out);
	return LK_OK;
}

static const char *name_of(const lc_program *p, const lc_schedule *s, int step) {
	if (!s) return p->name;
	if (!step) return lk_arena_printf(&p->file->arena, "%.30s_%.30s", p->name, s->name);
	return lk_arena_printf(&p->file->arena, "%.26s_%.26s_%d", p->name, s->name, step);
}

/* Puts a copy of p, for settling gives names that later directives would not know. */
static lk_status put_named(struct writer *w, const lc_program *p, const lc_schedule *s, int step, lk_error *err) {
	lc_program *copy;
	LK_TRY(lc_rewrite_all(p, NULL, &copy, err));
	copy->name = name_of(p, s, step);
	lk_status status = copy->name ? put(w, copy, s, step ? &s->directives[step - 1] : NULL, err) : lk_oom(err);
	lc_program_free(copy);
	return status;
}

static lk_status each(struct writer *w, const lc_program *p, const lc_schedule *s, lk_error *err) {
	lc_program *now, *next;
	LK_TRY(lc_rewrite_all(p, NULL, &now, err));
	lk_status status = LK_OK;
	for (int i = 0; s && i < s->count && status == LK_OK; i++) {
		status = lc_rewrite_next(now, s, i, &next, err);
		if (status != LK_OK) break;
		lc_program_free(now);
		now = next;
		if (w->request->each) status = put_named(w, now, s, i + 1, err);
	}
	if (status == LK_OK && !(w->request->each && s && s->count)) status = put_named(w, now, s, 0, err);
	lc_program_free(now);
	return status;
}

static lk_status rewrite(struct writer *w, const lc_program *p, lk_error *err) {
	const char *name = w->request->schedule;
	const lc_schedule *s;
	if (name && strcmp(name, "all") != 0) {
		LK_TRY(lc_pick_schedule(p, name, &s, err));
		return each(w, p, s, err);
	}
	for (size_t i = 0; i < p->schedules.count; i++) LK_TRY(each(w, p, &p->schedules.at[i], err));
	return p->schedules.count ? LK_OK : each(w, p, NULL, err);
}

static lk_status json(const lc_file *file, const lc_program *p, struct writer *w, lk_error *err) {
	w->structured = true;
	lk_json_begin(&w->json, w->out, false);
	lk_json_object(&w->json, NULL);
	lk_json_put_text(&w->json, "file", file->path);
	lk_json_array(&w->json, "programs");
	lk_status status = rewrite(w, p, err);
	lk_json_array_end(&w->json);
	lk_json_object_end(&w->json);
	lk_status written = lk_json_finish(&w->json, status == LK_OK ? err : NULL);
	return status == LK_OK ? written : status;
}

lk_status lc_do_rewrite(lk_compile *answer, const lk_compile_request *request, FILE *out, lk_error *err) {
	struct writer w = {.request = request, .out = out};
	lc_program *p;
	LK_TRY(lc_pick_program(answer, request, &p, err));
	return request->format == LK_COMPILE_JSON ? json(answer->file, p, &w, err) : rewrite(&w, p, err);
}
