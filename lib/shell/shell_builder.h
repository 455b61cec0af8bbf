/* shell_builder.h: shared by the files that expand words.
 *
 *   shell_builder.c  adds text and values to a word under construction
 *   shell_expand.c   finds what expansions stand for */
#ifndef LK_SHELL_SHELL_BUILDER_H
#define LK_SHELL_SHELL_BUILDER_H

#include "base/vec.h"
#include "shell/shell.h"

/* A word under construction. */
typedef struct lk_shell_builder {
	lk_shell *s;
	lk_words *out;
	LK_VEC(char) text;
	bool open;    /* the current word has begun, even if it is "" */
	bool split;   /* expansions are split at blanks */
	bool here;    /* a here-document, in which quotes are literal */
	bool pattern; /* quoted text is escaped, so that it matches literally in the pattern */
	bool quoted;  /* the text being put is quoted */
	bool nothing; /* "$@" or "${A[@]}" without elements, which is no word */
	int inner;    /* inside ${name:-...}: blanks in its source text split too */
	const char *unknown;
	bool empty_if_unset; /* all unknown parts would be empty in a plain shell */
	bool by_default;     /* ${X:-} of an unset variable */
	bool argument;
	int line, depth;
} lk_shell_builder;

/* Add text to the current word. */
lk_status lk_shell_builder_put(lk_shell_builder *builder, const char *text, size_t length);
/* Add text that stays as it is because nobody knows its value. `why`: NULL when memory runs out. */
lk_status lk_shell_builder_put_unknown(lk_shell_builder *builder, const char *text, size_t length,
                                       const char *why, bool empty_if_unset);
/* Put a text, split at separators: at any number of blanks together, at each of the others. */
lk_status lk_shell_builder_split(lk_shell_builder *builder, const char *at, const char *end);
/* Put the text of a variable, split if it is not quoted. */
lk_status lk_shell_builder_put_value(lk_shell_builder *builder, const lk_word *value, bool quoted);
/* Put several values: those of ${A[@]} and "$@" become separate words, "${A[*]}" and "$*" join them
 * with the first character of IFS. */
lk_status lk_shell_builder_put_values(lk_shell_builder *builder, const lk_word *values,
                                      size_t count, char which, bool quoted);
/* Append the current word, if it has begun, to the result. */
lk_status lk_shell_builder_end_word(lk_shell_builder *builder);

#endif
