/* pick.c: selects the requested program and schedule, or the only ones, with axes of the requested
 * size. The error for an unknown name suggests the nearest one. */
#include <string.h>

#include "base/text.h"
#include "base/noun.h"
#include "lang/compile/compile.h"
#include "lang/syntax/parse.h"

lk_status lc_pick_program(const lk_compile *answer, const lk_compile_request *request,
                          lc_program **out, lk_error *err) {
	const lc_file *file = answer->file;
	const char *known[LC_PROGRAMS];
	size_t count = file->programs.count;
	if (!request->program && count == 1) {
		*out = file->programs.at[0];
		return LK_OK;
	}
	for (size_t i = 0; i < count; i++) {
		known[i] = file->programs.at[i]->name;
		if (request->program && strcmp(known[i], request->program) == 0) {
			*out = file->programs.at[i];
			return LK_OK;
		}
	}
	if (!request->program) {
		lk_fail(err, LK_ERR_INPUT, file->path, "the file has %zu %s", count,
		        lk_noun(count, "program", "programs"));
		return count ? lk_hint(err, "choose one: --program %s", known[0])
		             : lk_hint(err, "write one");
	}
	lk_fail(err, LK_ERR_INPUT, file->path, "unknown program %.64s", request->program);
	const char *near = lk_nearest(request->program, known, count);
	return near ? lk_hint(err, "do you mean %s?", near) : LK_ERR_INPUT;
}

lk_status lc_pick_schedule(const lc_program *program, const char *name, const lc_schedule **out,
                           lk_error *err) {
	const char *known[LC_VALUES];
	size_t count = 0;
	*out = NULL;
	if (!name || strcmp(name, LC_PLAIN) == 0) return LK_OK;
	for (size_t i = 0; i < program->schedules.count; i++) {
		if (strcmp(program->schedules.at[i].name, name) == 0) {
			*out = &program->schedules.at[i];
			return LK_OK;
		}
		if (count < LC_VALUES) known[count++] = program->schedules.at[i].name;
	}
	lk_fail(err, LK_ERR_INPUT, program->file->path, "%s has no schedule %.64s", program->name,
	        name);
	const char *near = lk_nearest(name, known, count);
	return near ? lk_hint(err, "do you mean %s?", near)
	            : lk_hint(err, "without a schedule it is %s", LC_PLAIN);
}

static bool fixes_axes(const lc_file *file) {
	for (size_t i = 0; i < file->programs.count; i++)
		for (int a = 0; a < file->programs.at[i]->axis_count; a++)
			if (file->programs.at[i]->axes[a].size) return true;
	return false;
}

lk_status lc_resize(lk_compile *answer, const lk_compile_request *request, lk_error *err) {
	lc_file *old = answer->file;
	if (!request->sizes || !fixes_axes(old)) return LK_OK;
	lk_status status =
		lc_parse_sized(old->path, answer->text, answer->size, request->sizes, &answer->file, err);
	lc_file_free(old);
	return status;
}

bool lc_sizes_name(const char *text, const char *name) {
	size_t length = strlen(name);
	for (const char *at = text; at; at = strchr(at, ',')) {
		at += *at == ',';
		while (*at == ' ') at++;
		const char *dot = at + strcspn(at, ".=,"); /* LIST.NAME */
		if (*dot == '.') at = dot + 1;
		if (strncmp(at, name, length) == 0 && (at[length] == '=' || at[length] == ' ')) return true;
	}
	return false;
}

lk_status lc_check_dims(const lc_program *program, const char *sizes, lk_error *err) {
	for (int d = 0; d < program->named_count; d++) {
		const char *name = program->named[d].name;
		if (sizes && lc_sizes_name(sizes, name)) continue;
		lk_fail(err, LK_ERR_INPUT, "--sizes", "%s is not given, and times depend on it", name);
		return lk_hint(err, "give --sizes %s=N,...", name);
	}
	return LK_OK;
}

/* ---- JSON of all actions ---- */

static const lk_answer_field name_fields[] = {{"program", NULL, LK_AT(lc_program, name)}};
const lk_answer_record lc_program_name_record = {LK_RECORD(lc_program, name_fields)};

lk_status lc_put_document(const lk_document *document, const void *answer, FILE *out,
                          lk_error *err) {
	const lk_writing writing = {LK_FORMAT_JSON, false, false, NULL, out};
	return lk_write_document(&writing, document, answer, err);
}
