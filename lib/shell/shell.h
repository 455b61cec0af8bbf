/* shell.h: the part of a shell that launch scripts need: words, quoting, variables, arrays,
 * arithmetic, tests. Nothing is executed. A text that only execution could determine (the output of
 * a command, an argument of the script, a variable that the script never sets) is carried along as
 * unknown, with the line, and refused if the launch line needs it. */
#ifndef LK_LAUNCH_SHELL_SHELL_H
#define LK_LAUNCH_SHELL_SHELL_H

#include "base/intern.h"
#include "base/vec.h"
#include "lockstep/error.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

enum {
	LK_LAUNCH_BYTES = 1 << 22, /* of a script, and of all expansions of its words */
	LK_LAUNCH_WORDS = 1 << 16, /* of a launch line */
};

/* A word. If the script does not determine its text (an argument of the script, a variable of the
 * environment, the output of a command), `text` is the source text and `unknown` the reason, with
 * the line. */
typedef struct lk_word {
	const char *text;
	const char *unknown;
	bool empty_if_unset; /* a variable that the script never sets: a shell takes it as empty */
	bool argument;       /* an unknown argument of the script */
} lk_word;
typedef LK_VEC(lk_word) lk_words;

enum {
	LK_SHELL_DEPTH = 16,   /* of nested expansions, eval and bash -c */
	LK_SHELL_BLOCKS = 256, /* of nested if, for, ... */
};

/* A word as written: the text between two places. */
typedef struct lk_raw {
	const char *at, *end;
	int line;
} lk_raw;
typedef LK_VEC(lk_raw) lk_raws;

typedef struct lk_shell_var {
	lk_words values; /* one for a scalar */
	bool set, array, exported;
	bool keyed; /* elements are "[KEY]=VALUE" */
	bool named; /* declare -A: keys are names */
	bool held;  /* given by the user: the script does not change it */
	bool seen;  /* something read its value */
} lk_shell_var;

typedef LK_VEC(lk_shell_var) lk_shell_vars;

/* A variable that a function declares as local, as it was before. */
typedef struct lk_shell_hidden {
	uint32_t id;
	int call; /* the function's depth among calls */
	lk_shell_var var;
} lk_shell_hidden;

/* name() { ... }: the text between its braces; name() ( ... ): between its parentheses. */
typedef struct lk_shell_function {
	const char *at, *end; /* NULL: its end is not read yet */
	int line;
	bool subshell; /* what it sets does not outlive it */
} lk_shell_function;

/* Result of a condition; UNKNOWN: only execution could determine it. */
typedef enum lk_truth { LK_SHELL_FALSE, LK_SHELL_TRUE, LK_SHELL_UNKNOWN } lk_truth;

typedef struct lk_shell_block {
	char kind;            /* 'i' if, 'l' loop, 'f' function, 'c' case, '{' group, '(' subshell */
	bool condition;       /* the condition is being read; of a case: a pattern */
	lk_truth truth;       /* of the branch being read */
	bool taken, doubtful; /* an earlier branch was taken, might have been taken */
	bool assumed;         /* the condition holds only because variables are taken as unset */
	int line;
	uint32_t function;   /* id of its name */
	const char *test;    /* 'l': where its condition begins */
	const char *body;    /* 'l', 'f': where its body begins */
	const lk_word *over; /* 'l': values of a for loop; NULL: a while loop */
	size_t over_count;
	bool listed;          /* the values of a for loop are known, even if there are none */
	const char *variable; /* of a for loop */
	bool sums;            /* for ((...; test; step)) */
	const char *test_end, *step, *step_end;
	bool until;
	const lk_word *subject; /* 'c' */
	lk_truth matched;
	lk_truth falls;  /* ;& before the pattern: whether it lets the commands run */
	lk_truth joined; /* '(': whether the && or || before it lets it run */
	lk_truth chain;  /* '{', '(': the value that an && or || after it continues from */
	bool subshell;   /* 'f': its body is in parentheses */
} lk_shell_block;

typedef struct lk_shell {
	lk_arena *arena; /* of all texts */
	lk_error *err;
	const char *where;    /* "train.sh", "launch line": the place of errors */
	const char *at, *end; /* of the text being read */
	int line;
	size_t produced; /* bytes of expansions, limited */
	int depth;
	lk_intern *names;
	lk_shell_vars vars; /* by id of the name */
	lk_intern *functions;
	LK_VEC(lk_shell_function) bodies; /* by id of the function's name */
	LK_VEC(lk_shell_hidden) hidden;
	int calls; /* of functions, running now */
	LK_VEC(lk_shell_block) blocks;
	size_t base;        /* blocks below belong to the caller of this text */
	int runs;           /* of bodies, limited */
	char leaves;        /* 'b' break, 'c' continue, 'r' return: the rest of the body is skipped */
	bool assumed;       /* the previous test was decided by unset variables */
	lk_truth succeeded; /* $? of the last command */
	lk_truth certain;   /* whether the command whose words are expanded runs */
	/* $1, $2, ... of the script, or of the running function. Unknown if nobody has given the
	 * script's arguments. */
	const lk_word *args;
	size_t arg_count;
	bool args_known;
	/* Why the last condition that nobody decides is open, where an argument of the script would
	 * decide it; NULL: something else would. */
	const char *asks;
	bool stop;              /* the script has ended: exit */
	const char *heredoc[8]; /* delimiters of here-documents that start after the line */
	bool literal[8];        /* their texts are not expanded */
	bool dashed[8];         /* tabs before their lines are dropped: <<- */
	int heredocs;
	bool strung; /* the current command reads <<< string */
	lk_raw string;
	const char *output; /* where the current command writes to, as written; NULL: nowhere */
	bool appends;       /* after what is there: >> */
	/* Handler of comment lines, for instance of "#SBATCH ..."; NULL: none. */
	lk_status (*comment)(struct lk_shell *shell, const char *line, size_t length);
	/* Handler of a line that might append something and is taken not to; NULL: none. */
	lk_status (*doubt)(struct lk_shell *shell, int line);
	/* Handler of a here-document that is written to a file; NULL: skip it. */
	lk_status (*wrote)(struct lk_shell *shell, const char *name, const lk_word *text);
	/* Set the text of $(at .. end) if the caller knows it and no builtin writes it; leave it NULL
	 * if not. NULL: none is known. */
	lk_status (*substitute)(struct lk_shell *shell, const char *at, const char *end, int line,
	                        lk_word *out);
	void *caller; /* passed to the handlers */
} lk_shell;

/* The output of a command that writes to standard error: echo text >&2. */
extern const char lk_shell_errors[];

/* "script:line" as the place of an error. */
lk_status lk_shell_fail(lk_shell *shell, int line, const char *what, const char *hint);

/* shell_words.c */
/* Skip the quoted piece that begins at `at`; NULL if it does not end. */
const char *lk_shell_skip_single(const char *at, const char *end);
const char *lk_shell_skip_ansi(const char *at, const char *end); /* $'...'; `at` is the '$' */
const char *lk_shell_skip_double(const char *at, const char *end);
const char *lk_shell_skip_backtick(const char *at, const char *end);
/* Find the end of "<path to the data>", which the publisher of a script leaves to be filled in;
 * NULL: `at` begins none. A shell would read a file named by its first word. */
const char *lk_shell_placeholder(const char *at, const char *end);
/* Skip the word that begins at `at`; NULL after an error (an open quote or bracket). */
const char *lk_shell_word_end(lk_shell *shell, const char *at, const char *end, int line);
/* Skip to after the bracket that closes the one at `at`; quotes inside are honoured; NULL if it
 * does not close. */
const char *lk_shell_close(const char *at, const char *end, char open, char close);
lk_shell_var *lk_shell_find(lk_shell *shell, const char *name, size_t length); /* NULL: never set */
lk_status lk_shell_var_at(lk_shell *shell, const char *name, size_t length, lk_shell_var **out);
/* Set a variable from "NAME=value". */
lk_status lk_shell_set(lk_shell *shell, const char *text, size_t length);
/* Set a variable, or the first element of an array, as an expansion does: ${X:=2}, $((X++)). It
 * becomes unknown unless the current command certainly runs. */
lk_status lk_shell_put(lk_shell *shell, const char *name, size_t length, const lk_word *value,
                       int line);
/* Make a variable of this name local to the current function; no effect outside functions.
 * lk_shell_show restores the variables hidden by the innermost function. */
lk_status lk_shell_hide(lk_shell *shell, const char *name, size_t length);
void lk_shell_show(lk_shell *shell);
/* Forget the variables hidden since there were `count`, because all variables are restored. */
void lk_shell_forget_hidden(lk_shell *shell, size_t count);
/* Copy all variables for lk_shell_restore, which takes the copy and frees the current ones. */
lk_status lk_shell_save(lk_shell *shell, lk_shell_vars *out);
void lk_shell_restore(lk_shell *shell, lk_shell_vars *saved);
void lk_shell_vars_free(lk_shell_vars *vars);
size_t lk_shell_name(const char *at, const char *end); /* length of a name, 0: none */
/* Whether the expansions of a text may set variables: ${N:=2}, $((N++)). */
bool lk_shell_may_set(const char *at, const char *end);
bool lk_shell_raw_is(const lk_raw *raw, const char *text);
int lk_shell_lines(const char *at, const char *end); /* number of line ends between two places */
char *lk_shell_unknown(lk_shell *shell, int line, const char *what, size_t length, const char *why);

/* shell_sets.c */
/* Expand {a,b} and {1..3} of a word into several; their texts are source texts. */
lk_status lk_shell_sets(lk_shell *shell, const lk_raw *raw, lk_raws *out);

/* shell_edit.c */
/* An operation of ${...} on the text of a value. */
typedef struct lk_shell_edit {
	char op;  /* '%', '#', '/', ',', '^', ':' */
	char how; /* '/' of A//b, '#' of A/#b, ...; doubled '%' and the like; '\0' */
	const char *pattern, *to;
	long long from, count;
	bool counted;
} lk_shell_edit;
/* Find begin and end of a slice of `length`; false: an error of the shell. */
bool lk_shell_edit_bounds(const lk_shell_edit *edit, long long length, long long *from,
                          long long *count);
/* Apply an operation to a text; NULL: unknown. */
const char *lk_shell_edit_text(lk_shell *shell, const char *text, const lk_shell_edit *edit);
/* Whether each byte is a character. */
bool lk_shell_is_ascii(const char *text);

/* shell_expand.c */
/* Append the words that a raw word expands to: none, one or several. */
lk_status lk_shell_expand(lk_shell *shell, const lk_raw *raw, lk_words *out);
/* The same without splitting: exactly one word. */
lk_status lk_shell_expand_one(lk_shell *shell, const lk_raw *raw, lk_word *out);
/* Expand a pattern to one word: quoted parts are escaped, so that they match literally. */
lk_status lk_shell_expand_pattern(lk_shell *shell, const lk_raw *raw, lk_word *out);
/* Expand the text of a here-document. */
lk_status lk_shell_expand_here(lk_shell *shell, const char *at, const char *end, int line,
                               lk_word *out);

/* shell_read.c */
/* Take the words up to the end of a simple command, which is left unread; none at the end of a
 * line. */
lk_status lk_shell_take_words(lk_shell *shell, lk_raws *words);
/* Skip the end of a line and the here-documents that follow it. */
lk_status lk_shell_newline(lk_shell *shell);

/* shell_assign.c. `certain`: whether the line runs; if that is not sure, the variable becomes
 * unknown. */
/* Length of the name in "NAME=", "NAME+=" or "NAME[...]=" at the start of a word; 0: no
 * assignment. */
size_t lk_shell_assignment(const lk_raw *raw, bool *append, const char **value);
/* Length of "[KEY]=" at the start of an element; 0: it has no key. */
size_t lk_shell_key(const char *text);
/* Find the element with a key or an index; NULL: none. */
lk_word *lk_shell_element(const lk_shell_var *var, const char *key);
lk_status lk_shell_assign(lk_shell *shell, const lk_raw *raw, lk_truth certain, bool exported);
lk_status lk_shell_declare(lk_shell *shell, const lk_raws *words,
                           lk_truth certain); /* export, declare, local, ... */
lk_status lk_shell_unset(lk_shell *shell, const lk_raws *words, lk_truth certain);
lk_status lk_shell_set_by_command(lk_shell *shell, const lk_raws *words); /* read, mapfile */

/* shell_math.c: the value of $((text)). `expand` is lk_shell_expand_one, for ${X:-8} in it;
 * *unknown is set if a variable is unknown. */
typedef lk_status lk_shell_expander(lk_shell *shell, const lk_raw *raw, lk_word *out);
lk_status lk_shell_math(lk_shell *shell, const char *at, const char *end, int line,
                        lk_shell_expander *expand, long long *value, const char **unknown);

/* shell_command.c: the text that the command between two places writes, if it needs no execution
 * (echo, expr, seq, ...). Its text is NULL if unknown; empty_if_unset then says that it is empty if
 * a variable is unset. The functions of shell_expand.c expand its words. */
typedef struct lk_shell_expanders {
	lk_status (*words)(lk_shell *shell, const lk_raw *raw, lk_words *out);
	lk_shell_expander *one;
	lk_status (*here)(lk_shell *shell, const char *at, const char *end, int line, lk_word *out);
} lk_shell_expanders;
lk_status lk_shell_command(lk_shell *shell, const lk_shell_expanders *expand, const char *at,
                           const char *end, int line, lk_word *value);

/* shell_test.c: [ ... ] and test by their expanded words, [[ ... ]] by its source text, both
 * without their brackets. An unset variable counts as empty, as in a shell; *assumed is then
 * set. */
lk_truth lk_shell_test(const lk_shell *shell, const lk_word *words, size_t count, bool *assumed);
lk_status lk_shell_test_raw(lk_shell *shell, const lk_raw *words, size_t count, bool *assumed,
                            lk_truth *answer);
/* Whether a text matches a pattern of case. */
lk_truth lk_shell_match(const lk_word *subject, const lk_word *pattern, bool *assumed);

#endif
