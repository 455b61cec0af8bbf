/* sentences.c: problems, warnings and notes about the traces of a run. Each list is bounded, so
 * that a damaged trace cannot fill memory with sentences about itself. */
#include <stdarg.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/text.h"
#include "trace/align/traces.h"

enum { MOST_SENTENCES = 1000 };

static void add_sentence(lk_traces *traces, lk_sentences *to, const char *fmt, va_list args) {
	char text[700], plain[900];
	if (to->count > MOST_SENTENCES) return;
	vsnprintf(text, sizeof text, fmt, args);
	if (to->count == MOST_SENTENCES) lk_copy(text, sizeof text, "more of this kind are not listed");
	const char *kept = lk_arena_strdup(&traces->arena, lk_escape(text, plain, sizeof plain));
	if (kept && lk_push(to)) *lk_last(to) = kept;
}

void lk_traces_problem(lk_traces *traces, const char *fmt, ...) {
	va_list args;
	va_start(args, fmt);
	add_sentence(traces, &traces->problems, fmt, args);
	va_end(args);
}

void lk_traces_warn(lk_traces *traces, const char *fmt, ...) {
	va_list args;
	va_start(args, fmt);
	add_sentence(traces, &traces->warnings, fmt, args);
	va_end(args);
}

void lk_traces_note(lk_traces *traces, const char *fmt, ...) {
	va_list args;
	va_start(args, fmt);
	add_sentence(traces, &traces->notes, fmt, args);
	va_end(args);
}
