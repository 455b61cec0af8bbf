/* command.h: writes the command that asks a question again, and finds the files it reads. */
#ifndef LK_OPTIONS_COMMAND_H
#define LK_OPTIONS_COMMAND_H

#include "lockstep/options.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

/* A command line under construction. Words are quoted where a shell requires it. */
typedef struct lk_command_line {
	lk_arena *arena;
	const char *text; /* NULL: memory ran out */
} lk_command_line;

/* Begins "lockstep VERB". */
lk_command_line lk_command_begin(lk_arena *arena, const char *verb);
void lk_command_word(lk_command_line *line, const char *word);
/* Adds " --name value"; nothing if the value is NULL. */
void lk_command_text(lk_command_line *line, const char *name, const char *value);
void lk_command_number(lk_command_line *line, const char *name, double value);
/* Adds a finished part of a command line: " --name value --other". */
void lk_command_part(lk_command_line *line, const char *part);

typedef struct lk_question {
	const lk_verb *verb;
	const void *request;    /* of verb->request_size */
	const void *usual;      /* the defaults, which are left out; NULL: zeros */
	const char *const *but; /* options to leave out; ends with NULL; may be NULL */
	const char *const *operands, *const *rest; /* before the options; after -- */
	int operand_count, rest_count;
} lk_question;

/* Returns " --name value" for every option that differs from its default, in the order of the
 * verb's table, quoted for a shell. NULL: out of memory, here and below. */
const char *lk_command_options(lk_arena *arena, const lk_question *question);
/* Returns "lockstep VERB OPERANDS OPTIONS -- REST". */
const char *lk_command(lk_arena *arena, const lk_question *question);

/* ---- inputs: the files that a question reads. Reports identify them by their content. ---- */

/* Finds the readable files among the operands and the values of options that read files, as they
 * were given. Names of presets and descriptions of clusters are no files; the caller lists folders.
 * The arena owns the texts. LK_ERR_MEMORY. */
lk_status lk_inputs_find(lk_arena *arena, const lk_verb *verb, const void *request,
                         const char *const *operands, int count, lk_inputs *out, lk_error *err);

#endif
