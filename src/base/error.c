/* error.c: the error convention of include/lockstep/error.h. */
#include "lockstep/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

lk_status lk_fail(lk_error *err, lk_status status, const char *where, const char *fmt, ...) {
	if (!err) return status;
	/* `where` may be the field of the error that is being filled again with more context. */
	char place[sizeof err->where];
	lk_copy(place, sizeof place, where ? where : "");
	char what[sizeof err->what];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof what, fmt, args);
	va_end(args);
	err->status = status;
	lk_copy(err->where, sizeof err->where, place);
	lk_copy(err->what, sizeof err->what, what);
	err->hint[0] = '\0';
	return status;
}

lk_status lk_fail_as(lk_error *err, const lk_error *found) {
	if (err) *err = *found;
	return found->status;
}

lk_status lk_hint(lk_error *err, const char *fmt, ...) {
	if (!err) return LK_ERR_INPUT; /* most hints belong to it; no text was requested */
	char hint[sizeof err->hint];
	va_list args;
	va_start(args, fmt);
	vsnprintf(hint, sizeof hint, fmt, args);
	va_end(args);
	lk_copy(err->hint, sizeof err->hint, hint);
	return err->status;
}

lk_status lk_hint_names(lk_error *err, const char *text, const char *const *names, size_t count) {
	const char *near = lk_nearest(text, names, count);
	if (near) return lk_hint(err, "did you mean %s?", near);
	char all[sizeof err->hint - sizeof "give one of "];
	lk_text list = lk_text_begin(all, sizeof all);
	for (size_t i = 0; i < count && list.used + strlen(names[i]) + 3 < sizeof all; i++)
		lk_text_add(&list, "%s%s", i ? ", " : "", names[i]);
	return lk_hint(err, "give one of %s", all);
}

lk_status lk_oom(lk_error *err) {
	return lk_fail(err, LK_ERR_MEMORY, NULL, "out of memory");
}

char *lk_error_text(const lk_error *err, char *out, unsigned long size) {
	char line[sizeof err->where + sizeof err->what + sizeof err->hint + 8];
	const char *colon = err->where[0] ? ": " : "", *semicolon = err->hint[0] ? "; " : "";
	snprintf(line, sizeof line, "%s%s%s%s%s", err->where, colon, err->what, semicolon, err->hint);
	return lk_escape(line, out, size);
}

lk_status lk_check_failed(lk_error *err, const char *file, int line, const char *condition) {
	char place[sizeof err->where];
	snprintf(place, sizeof place, "%s:%d", file, line);
	lk_fail(err, LK_ERR_INTERNAL, place, "internal error: %s does not hold", condition);
	lk_hint(err, "please report this message with the command that led to it");
	return LK_ERR_INTERNAL;
}

char *lk_failed_check_text(const char *failed_check, char *out, unsigned long size) {
	snprintf(
		out, size,
		"internal check failed: %s; use this answer with caution, and report this message with "
		"the command",
		failed_check);
	return out;
}

const char *lk_failed_check(const char *found) {
	const char *mode = getenv("LOCKSTEP_CHECKS");
	if (mode && strcmp(mode, "fail") == 0) return found ? found : "LOCKSTEP_CHECKS=fail";
	if (!found) return NULL;
#ifdef LK_ASSERTS
	bool aborts = true;
#else
	bool aborts = mode && strcmp(mode, "abort") == 0;
#endif
	if (!aborts) return found;
	fprintf(stderr, "lockstep: failed check: %s\n", found);
	abort();
}

#ifdef LK_ASSERTS
_Noreturn void lk_assert_failed(const char *file, int line, const char *condition) {
	fprintf(stderr, "lockstep: %s:%d: internal error: %s does not hold\n", file, line, condition);
	abort();
}
#endif
