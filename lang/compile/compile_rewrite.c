/* compile_rewrite.c: `lockstep compile rewrite`: programs rewritten by schedules, printed in the
 * language: a program NAME_SCHEDULE whose schedule has the remaining bundles. */
#include <string.h>

#include "base/arena.h"
#include "lang/compile/compile.h"
#include "lang/rewrite/rewrite.h"

/* Output of programs: text or members of an array. */
struct writer {
	const lk_compile_request *request;
	FILE *out;
	bool structured; /* write JSON through the writer */
	lk_json_writer json;
	bool begun;
};

static lk_status rewrite_put(struct writer *writer, lc_program *program,
                             const lc_schedule *schedule, const lc_directive *made_by,
                             lk_error *err) {
	LK_TRY(lc_settle_rewritten(program, err));
	if (!lk_push(&program->schedules)) return lk_oom(err);
	LK_TRY(lc_bundles_schedule(program, schedule ? schedule->name : LC_PLAIN,
	                           lk_last(&program->schedules), err));
	if (lk_last(&program->schedules)->count == 0) program->schedules.count = 0;
	if (writer->structured) {
		lc_json_program(&writer->json, program, true);
		return LK_OK;
	}
	if (writer->begun) fputc('\n', writer->out);
	writer->begun = true;
	if (made_by) {
		fputs("# ", writer->out);
		lc_print_directive(made_by, writer->out);
		fputc('\n', writer->out);
	}
	if (writer->request->ir) lc_print_listing(program, writer->out);
	else lc_print_program(program, writer->out);
	if (program->schedules.count) lc_print_schedule(program, program->schedules.at, writer->out);
	return LK_OK;
}

static const char *rewrite_name_of(const lc_program *program, const lc_schedule *schedule,
                                   int step) {
	if (!schedule) return program->name;
	if (!step)
		return lk_arena_printf(&program->file->arena, "%.30s_%.30s", program->name, schedule->name);
	return lk_arena_printf(&program->file->arena, "%.26s_%.26s_%d", program->name, schedule->name,
	                       step);
}

/* Print a copy, because settling adds names that later directives would not know. */
static lk_status rewrite_put_named(struct writer *writer, const lc_program *program,
                                   const lc_schedule *schedule, int step, lk_error *err) {
	lc_program *copy;
	LK_TRY(lc_rewrite_all(program, NULL, &copy, err));
	copy->name = rewrite_name_of(program, schedule, step);
	lk_status status = copy->name ? rewrite_put(writer, copy, schedule,
	                                            step ? &schedule->directives[step - 1] : NULL, err)
	                              : lk_oom(err);
	lc_program_free(copy);
	return status;
}

static lk_status each(struct writer *writer, const lc_program *program, const lc_schedule *schedule,
                      lk_error *err) {
	lc_program *now, *next;
	LK_TRY(lc_rewrite_all(program, NULL, &now, err));
	lk_status status = LK_OK;
	for (int i = 0; schedule && i < schedule->count && status == LK_OK; i++) {
		status = lc_rewrite_next(now, schedule, i, &next, err);
		if (status != LK_OK) break;
		lc_program_free(now);
		now = next;
		if (writer->request->each) status = rewrite_put_named(writer, now, schedule, i + 1, err);
	}
	if (status == LK_OK && !(writer->request->each && schedule && schedule->count))
		status = rewrite_put_named(writer, now, schedule, 0, err);
	lc_program_free(now);
	return status;
}

static lk_status rewrite(struct writer *writer, const lc_program *program, lk_error *err) {
	const char *name = writer->request->schedule;
	const lc_schedule *schedule;
	if (name && strcmp(name, "all") != 0) {
		LK_TRY(lc_pick_schedule(program, name, &schedule, err));
		return each(writer, program, schedule, err);
	}
	for (size_t i = 0; i < program->schedules.count; i++)
		LK_TRY(each(writer, program, &program->schedules.at[i], err));
	return program->schedules.count ? LK_OK : each(writer, program, NULL, err);
}

static lk_status rewrite_json(const lc_file *file, const lc_program *program, struct writer *writer,
                              lk_error *err) {
	writer->structured = true;
	lk_json_begin(&writer->json, writer->out, false);
	lk_json_object(&writer->json, NULL);
	lk_json_put_head(&writer->json, "lockstep/compile-rewrite/1", NULL);
	lk_json_put_text(&writer->json, "file", file->path);
	lk_json_array(&writer->json, "programs");
	lk_status status = rewrite(writer, program, err);
	lk_json_array_end(&writer->json);
	lk_json_object_end(&writer->json);
	lk_status written = lk_json_finish(&writer->json, status == LK_OK ? err : NULL);
	return status == LK_OK ? written : status;
}

lk_status lc_do_rewrite(lk_compile *answer, const lk_compile_request *request, FILE *out,
                        lk_error *err) {
	struct writer w = {.request = request, .out = out};
	lc_program *program;
	LK_TRY(lc_pick_program(answer, request, &program, err));
	return request->format == LK_COMPILE_JSON ? rewrite_json(answer->file, program, &w, err)
	                                          : rewrite(&w, program, err);
}
