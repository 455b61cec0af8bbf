/* mistake.c: an error at a place of a file. The file keeps the place, so that a caret can be shown
 * below it. */
#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "lang/types/program.h"

lk_status lc_wrong(const lc_program *program, int line, int column, lk_error *err, const char *fmt,
                   ...) {
	char where[sizeof err->where], what[sizeof err->what];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof what, fmt, args);
	va_end(args);
	LK_ASSERT(program && program->file && line >= 0 && column >= 0);
	program->file->mistake.line = line;
	program->file->mistake.column = column;
	snprintf(where, sizeof where, line ? "%.200s:%d:%d" : "%.200s", program->file->path, line,
	         column);
	return lk_fail(err, LK_ERR_INPUT, where, "%s", what);
}
