/* options_internal.h: properties of an option that parsing, help, man page and completion use. */
#ifndef LK_OPTIONS_OPTIONS_INTERNAL_H
#define LK_OPTIONS_OPTIONS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/options.h"

/* Options that take no value: --name and --no-name. */
static inline bool lk_option_is_switch(const lk_option *option) {
	return option->kind == LK_OPTION_FLAG || option->kind == LK_OPTION_SWITCH;
}

/* Returns the placeholder of an option's value: "N", "FILE"; "" for flags. */
const char *lk_option_value(const lk_option *option);
/* Whether the value names a file or a folder, so that a shell may complete it. */
bool lk_option_is_path(const lk_option *option);
/* Writes choices or limits, and whether a comma list is taken: "a, b; list", "1 to 64", "". Returns
 * `out`. */
char *lk_option_note(const lk_option *option, char *out, size_t size);
/* Whether the option is one of those that most questions need (lk_verb.first). */
bool lk_option_is_first(const lk_verb *verb, const lk_option *option);
/* Whether any option of the verb takes a comma list. */
bool lk_verb_sweeps(const lk_verb *verb);

/* Whether the first `length` characters of `word` equal `name`; '_' equals '-'. */
bool lk_option_is_name(const char *word, size_t length, const char *name);
/* Translates an option of other tools ("precision", "global-batch-size") into the option of this
 * verb, with a value if one is implied ("dtype fp8"); NULL: unknown. */
const char *lk_option_words(const lk_verb *verb, const char *typed);

#define LK_SWEEP_NOTE                                                                         \
	"Options with [list] or [...; list] take several values with commas between them, as in " \
	"1,2,4; "                                                                                 \
	"every combination is run."

#endif
