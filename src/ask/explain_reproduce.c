/* explain_reproduce.c: a question about traces as the command that asks it again. */
#include "ask/explain_parts.h"
#include "model/launch.h"

const char *lk_traces_command(lk_arena *arena, const char *verb, const char *const *files, int count, const char *steps,
							  int rank) {
	const char *text = lk_arena_printf(arena, "lockstep %s", verb);
	for (int i = 0; text && i < count; i++) {
		const char *word = lk_shell_quote(arena, files[i]);
		text = word ? lk_arena_printf(arena, "%s %s", text, word) : NULL;
	}
	if (text && steps) {
		const char *word = lk_shell_quote(arena, steps);
		text = word ? lk_arena_printf(arena, "%s --steps %s", text, word) : NULL;
	}
	return text && rank >= 0 ? lk_arena_printf(arena, "%s --rank %d", text, rank) : text;
}
