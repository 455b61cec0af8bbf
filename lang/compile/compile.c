/* compile.c: `lockstep compile`: reads and checks a file, and runs one of the actions. */
#include "lang/compile/compile.h"
#include "lang/syntax/parse.h"

#include <stdlib.h>
#include <string.h>

#include "io/stream.h"
#include "base/text.h"

static const char *const names[LK_COMPILE_ACTIONS] = {
	[LK_COMPILE_CHECK] = "check",     [LK_COMPILE_PRINT] = "print",   [LK_COMPILE_RUN] = "run",
	[LK_COMPILE_REWRITE] = "rewrite", [LK_COMPILE_VERIFY] = "verify", [LK_COMPILE_EMIT] = "emit",
	[LK_COMPILE_TUNE] = "tune",       [LK_COMPILE_BENCH] = "bench",
};

/* Actions of the language itself; tune and bench are in lang/tune, because they use the
 * simulator. */
static lc_action *const actions[LK_COMPILE_ACTIONS] = {
	[LK_COMPILE_CHECK] = lc_do_check,   [LK_COMPILE_PRINT] = lc_do_print,
	[LK_COMPILE_RUN] = lc_do_run,       [LK_COMPILE_REWRITE] = lc_do_rewrite,
	[LK_COMPILE_VERIFY] = lc_do_verify, [LK_COMPILE_EMIT] = lc_do_emit,
};

lk_status lk_compile_action_find(const char *name, int *out, lk_error *err) {
	const char *known[LK_COMPILE_ACTIONS];
	size_t count = 0;
	for (int i = 0; i < LK_COMPILE_ACTIONS; i++) {
		if (!names[i]) continue;
		if (strcmp(names[i], name) == 0) {
			*out = i;
			return LK_OK;
		}
		known[count++] = names[i];
	}
	const char *near = lk_nearest(name, known, count);
	lk_fail(err, LK_ERR_INPUT, "compile", "unknown action \"%.64s\"", name);
	return near
	           ? lk_hint(err, "do you mean %s?", near)
	           : lk_hint(
					 err,
					 "give check, print, run, rewrite, verify, tune, emit or bench, then the file");
}

lk_status lk_compile_act(lk_compile *answer, const lk_compile_request *request, FILE *out,
                         lk_error *err) {
	if ((unsigned)request->action >= LK_COMPILE_ACTIONS || !actions[request->action])
		return lk_fail(err, LK_ERR_INTERNAL, "compile",
		               "an action that is not of the language alone");
	LK_TRY(lc_resize(answer, request, err));
	LK_TRY(actions[request->action](answer, request, out, err));
	return answer->file->lost ? lk_oom(err) : LK_OK;
}

bool lk_compile_no(const lk_compile *answer) {
	return answer && answer->no;
}

const char *lk_compile_failed_check(const lk_compile *answer) {
	return answer ? answer->failed_check : NULL;
}

/* ---- reading ---- */

static lk_status compile_take(const char *name, char *text, size_t size, lk_compile **out,
                              lk_error *err) {
	*out = calloc(1, sizeof **out);
	if (!*out) {
		free(text);
		return lk_oom(err);
	}
	(*out)->text = text;
	(*out)->size = size;
	return lc_parse(name, text, size, &(*out)->file, err);
}

lk_status lk_compile_text(const char *name, const char *text, size_t size, lk_compile **out,
                          lk_error *err) {
	*out = NULL;
	char *copy = malloc(size + 1);
	if (!copy) return lk_oom(err);
	if (size) memcpy(copy, text, size);
	copy[size] = '\0';
	return compile_take(name, copy, size, out, err);
}

lk_status lk_compile_read(const char *path, lk_compile **out, lk_error *err) {
	char *text = NULL;
	size_t size = 0;
	*out = NULL;
	LK_TRY(lk_stream_slurp(path, LC_TEXT_LIMIT, &text, &size, err));
	return compile_take(strcmp(path, "-") == 0 ? "standard input" : path, text, size, out, err);
}

void lk_compile_free(lk_compile *answer) {
	if (!answer) return;
	lc_file_free(answer->file);
	free(answer->text);
	free(answer);
}

/* ---- the place of an error ---- */

enum { CARET_WIDTH = 160 }; /* longer lines are shown from before the place on */

void lk_compile_caret(const lk_compile *answer, FILE *out) {
	if (!answer || !answer->file || answer->file->mistake.line == 0) return;
	const char *line = answer->text, *end = answer->text + answer->size;
	for (int i = 1; i < answer->file->mistake.line && line < end; i++) {
		const char *next = memchr(line, '\n', (size_t)(end - line));
		line = next ? next + 1 : end;
	}
	size_t column = (size_t)answer->file->mistake.column - 1, length = 0;
	while (line + length < end && line[length] != '\n' && line[length] != '\r') length++;
	size_t from = column > CARET_WIDTH / 2 ? column - CARET_WIDTH / 2 : 0;
	char part[CARET_WIDTH + 1], shown[4 * CARET_WIDTH + 1];
	size_t count = from < length ? length - from : 0;
	if (count > CARET_WIDTH) count = CARET_WIDTH;
	for (size_t i = 0; i < count; i++)
		part[i] = line[from + i] == '\t' || line[from + i] == '\0' ? ' ' : line[from + i];
	part[count] = '\0';
	fprintf(out, "%5d | %s\n      | %*s^\n", answer->file->mistake.line,
	        lk_escape(part, shown, sizeof shown), (int)(column - from), "");
}
