/* options_internal.h: what parsing, help, man page and completion share about an option. */
#ifndef LK_OPTIONS_OPTIONS_INTERNAL_H
#define LK_OPTIONS_OPTIONS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/options.h"

/* Options that take no value: --name and --no-name. */
static inline bool lk_option_is_switch(const lk_option *option) {
	return option->kind == LK_OPTION_FLAG || option->kind == LK_OPTION_SWITCH;
}

/* What stands for the value of an option: "N", "FILE"; "" for flags. */
const char *lk_option_value(const lk_option *option);
/* Whether the value names a file or a folder, so that a shell may complete it. */
bool lk_option_is_path(const lk_option *option);
/* "one of a, b; a list", "1 to 64", or "": the choices or limits, and whether a comma list is
 * taken. Returns `out`. */
char *lk_option_note(const lk_option *option, char *out, size_t size);
/* Whether any option of the verb takes a comma list. */
bool lk_verb_sweeps(const lk_verb *verb);

/* Whether `length` characters of `word` are that name; '_' counts as '-'. */
bool lk_option_is_name(const char *word, size_t length, const char *name);
/* What a word of other tools ("precision", "global-batch-size") is called by this verb, with its
 * value where one is meant ("dtype fp8"); NULL: not known. */
const char *lk_option_words(const lk_verb *verb, const char *typed);

#define LK_SWEEP_NOTE                                                                         \
	"Options with [list] or [...; list] take several values with commas between them, as in " \
	"1,2,4; "                                                                                 \
	"every combination is run."

#endif
