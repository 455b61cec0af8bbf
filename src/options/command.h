/* command.h: a question as the command that asks it again. */
#ifndef LK_OPTIONS_COMMAND_H
#define LK_OPTIONS_COMMAND_H

#include "lockstep/options.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

/* A command line in the making: the one writer of them. Each word is quoted where a shell needs it.
 */
typedef struct lk_command_line {
	lk_arena *arena;
	const char *text; /* NULL: memory ran out */
} lk_command_line;

/* "lockstep VERB". */
lk_command_line lk_command_begin(lk_arena *arena, const char *verb);
void lk_command_word(lk_command_line *line, const char *word);
/* " --name value"; nothing of NULL. */
void lk_command_text(lk_command_line *line, const char *name, const char *value);
void lk_command_number(lk_command_line *line, const char *name, double value);
/* What is a part of a command line already: " --name value --other". */
void lk_command_part(lk_command_line *line, const char *part);

typedef struct lk_question {
	const lk_verb *verb;
	const void *request; /* of verb->request_size */
	const void *usual;   /* what is as here need not be said; NULL: zeros */
	const char *const
		*but; /* options that are left out, those of output say; ends with NULL; may be NULL */
	const char *const *operands, *const *rest; /* before the options; after -- */
	int operand_count, rest_count;
} lk_question;

/* " --name value" of all options that are to be said, in the order of the verb's own table, so that
 * none is forgotten; words as a shell reads them. NULL when memory runs out, here and below. */
const char *lk_command_options(lk_arena *arena, const lk_question *question);
/* "lockstep VERB OPERANDS OPTIONS -- REST". */
const char *lk_command(lk_arena *arena, const lk_question *question);

/* ---- inputs: which files a question is answered from, found in its request: reports name them by
 * their content. */

/* The operands and values of options that are files which can be read, as they were given; names of
 * presets and descriptions of clusters are none. Options are those of the verb's table that read;
 * folders among the operands are for the caller to list. Memory from the arena. LK_ERR_MEMORY. */
lk_status lk_inputs_find(lk_arena *arena, const lk_verb *verb, const void *request,
                         const char *const *operands, int count, lk_inputs *out, lk_error *err);

#endif
