/* shell.h: the part of a shell that launch scripts need: words, quoting, variables, arrays,
 * arithmetic, tests. Nothing is executed. What only an execution could tell (the output of a
 * command, an argument of the script, a variable that the script never sets) is carried along as
 * unknown, with the line, and refused where the launch line needs it. */
#ifndef LK_LAUNCH_SHELL_SHELL_H
#define LK_LAUNCH_SHELL_SHELL_H

#include "base/intern.h"
#include "base/vec.h"
#include "lockstep/error.h"

typedef struct lk_arena lk_arena; /* base/arena.h */

enum {
	LK_LAUNCH_BYTES = 1 << 22, /* of a script, and of all that its words expand to */
	LK_LAUNCH_WORDS = 1 << 16, /* of a launch line */
};

/* A word. Where the script does not say its text (an argument of the script, a
 * variable of the environment, the output of a command), `text` is how it is written and `unknown`
 * says why, with the line. */
typedef struct lk_word {
	const char *text;
	const char *unknown;
	bool empty_if_unset; /* a variable that the script never sets: a shell takes it as nothing */
	bool argument;       /* an argument of the script, which nobody has said */
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
	bool held;  /* given by whoever asks: the script does not change it */
	bool seen;  /* something asked for its value */
} lk_shell_var;

typedef LK_VEC(lk_shell_var) lk_shell_vars;

/* A variable that a function declares as its own, as it was before. */
typedef struct lk_shell_hidden {
	uint32_t id;
	int call; /* the function's depth among calls */
	lk_shell_var var;
} lk_shell_hidden;

/* name() { ... }: the text between its braces; name() ( ... ): between its brackets. */
typedef struct lk_shell_function {
	const char *at, *end; /* NULL: not read to its end yet */
	int line;
	bool subshell; /* what it sets does not leave it */
} lk_shell_function;

/* The answer of a condition; UNKNOWN: only an execution could tell. */
typedef enum lk_truth { LK_SHELL_FALSE, LK_SHELL_TRUE, LK_SHELL_UNKNOWN } lk_truth;

typedef struct lk_shell_block {
	char kind;            /* 'i' if, 'l' loop, 'f' function, 'c' case, '{' group, '(' subshell */
	bool condition;       /* reading the condition; of a case: a pattern */
	lk_truth truth;       /* of the branch that is being read */
	bool taken, doubtful; /* an earlier branch was taken, might have been taken */
	bool assumed;         /* the condition holds only because variables are taken as not set */
	int line;
	uint32_t function;   /* id of its name */
	const char *test;    /* 'l': where its condition begins */
	const char *body;    /* 'l', 'f': where its body begins */
	const lk_word *over; /* 'l': values of a for loop; NULL: a while loop */
	size_t over_count;
	bool listed;          /* the values of a for loop are known, be there none */
	const char *variable; /* of a for loop */
	bool sums;            /* for ((...; test; step)) */
	const char *test_end, *step, *step_end;
	bool until;
	const lk_word *subject; /* 'c' */
	lk_truth matched;
	lk_truth falls;  /* ;& before the pattern: whether it lets the commands run */
	lk_truth joined; /* '(': whether what && and || join it to lets it run */
	lk_truth chain;  /* '{', '(': what && and || after it are joined to */
	bool subshell;   /* 'f': its body is in brackets */
} lk_shell_block;

typedef struct lk_shell {
	lk_arena *arena; /* of all texts */
	lk_error *err;
	const char *where;    /* "train.sh", "launch line": the place of errors */
	const char *at, *end; /* of the text that is being read */
	int line;
	size_t produced; /* bytes of expansions, limited */
	int depth;
	lk_intern *names;
	lk_shell_vars vars; /* by id of the name */
	lk_intern *functions;
	LK_VEC(lk_shell_function) bodies; /* by id of the function's name */
	LK_VEC(lk_shell_hidden) hidden;
	int calls; /* of functions, that run now */
	LK_VEC(lk_shell_block) blocks;
	size_t base;  /* blocks below are those of whoever runs this text */
	int runs;     /* of bodies, limited */
	char leaves;  /* 'b' break, 'c' continue, 'r' return: the rest of the body is passed over */
	bool assumed; /* the test before was decided by what is not set */
	lk_truth succeeded; /* $? of the last command */
	lk_truth certain;   /* whether the command runs whose words are expanded */
	/* $1, $2, ... of the script, or of the function that runs. Not known: nobody has said what the
	 * script is given. */
	const lk_word *args;
	size_t arg_count;
	bool args_known;
	bool stop;              /* the script has ended: exit */
	const char *heredoc[8]; /* delimiters that wait for the end of the line */
	bool literal[8];        /* their texts are not expanded */
	bool dashed[8];         /* tabs before their lines are dropped: <<- */
	int heredocs;
	bool strung; /* the present command reads <<< string */
	lk_raw string;
	const char *output; /* where the present command writes to, as it is written; NULL: nowhere */
	/* What the caller makes of a comment line, for instance of "#SBATCH ..."; NULL: nothing. */
	lk_status (*comment)(struct lk_shell *shell, const char *line, size_t length);
	/* What the caller makes of a line that may add something and is taken not to; NULL: nothing. */
	lk_status (*doubt)(struct lk_shell *shell, int line);
	/* A here-document is written to a file; NULL: passed over. */
	lk_status (*wrote)(struct lk_shell *shell, const char *name, const lk_word *text);
	/* What the caller knows of the text of $(at .. end), which no builtin writes; its text stays
	 * NULL where that is nothing. NULL: it knows of none. */
	lk_status (*substitute)(struct lk_shell *shell, const char *at, const char *end, int line,
	                        lk_word *out);
	void *caller; /* the caller's own, passed along */
} lk_shell;

/* The output of a command that writes its output where errors go: echo text >&2. */
extern const char lk_shell_errors[];

/* "script:line" as the place of an error. */
lk_status lk_shell_fail(lk_shell *shell, int line, const char *what, const char *hint);

/* shell_words.c */
/* After a quoted piece that begins at `at`; NULL where it does not end. */
const char *lk_shell_skip_single(const char *at, const char *end);
const char *lk_shell_skip_ansi(const char *at, const char *end); /* $'...'; `at` is the '$' */
const char *lk_shell_skip_double(const char *at, const char *end);
const char *lk_shell_skip_backtick(const char *at, const char *end);
/* The end of "<path to the data>", which who publishes a script leaves to be filled in; NULL: `at`
 * begins none. A shell would read a file of the first word's name. */
const char *lk_shell_placeholder(const char *at, const char *end);
/* After the word that begins at `at`; NULL after an error (an open quote or bracket). */
const char *lk_shell_word_end(lk_shell *shell, const char *at, const char *end, int line);
/* After the bracket that closes the one at `at`; quotes inside are honoured; NULL if it does not
 * close. */
const char *lk_shell_close(const char *at, const char *end, char open, char close);
lk_shell_var *lk_shell_find(lk_shell *shell, const char *name, size_t length); /* NULL: never set */
lk_status lk_shell_var_at(lk_shell *shell, const char *name, size_t length, lk_shell_var **out);
/* Sets a variable from "NAME=value". */
lk_status lk_shell_set(lk_shell *shell, const char *text, size_t length);
/* Sets a variable, or the first element of an array, as an expansion does: ${X:=2}, $((X++)). It
 * becomes unknown where it is not certain that the present command runs. */
lk_status lk_shell_put(lk_shell *shell, const char *name, size_t length, const lk_word *value,
                       int line);
/* A variable of the name becomes the present function's own; outside of functions nothing happens.
 * lk_shell_show brings back what those of the innermost function were before. */
lk_status lk_shell_hide(lk_shell *shell, const char *name, size_t length);
void lk_shell_show(lk_shell *shell);
/* Those that were hidden since there were `count`, where all variables are restored. */
void lk_shell_forget_hidden(lk_shell *shell, size_t count);
/* A copy of all variables, for lk_shell_restore, which takes it and frees what they were since. */
lk_status lk_shell_save(lk_shell *shell, lk_shell_vars *out);
void lk_shell_restore(lk_shell *shell, lk_shell_vars *saved);
void lk_shell_vars_free(lk_shell_vars *vars);
size_t lk_shell_name(const char *at, const char *end); /* length of a name, 0: none */
/* Whether the expansions of a text may set variables: ${N:=2}, $((N++)). */
bool lk_shell_may_set(const char *at, const char *end);
bool lk_shell_raw_is(const lk_raw *raw, const char *text);
int lk_shell_lines(const char *at, const char *end); /* ends of lines between two places */
char *lk_shell_unknown(lk_shell *shell, int line, const char *what, size_t length, const char *why);

/* shell_sets.c */
/* The words that {a,b} and {1..3} make of one; their texts are as they are written. */
lk_status lk_shell_sets(lk_shell *shell, const lk_raw *raw, lk_raws *out);

/* shell_edit.c */
/* An operation of ${...} on the text of a value. */
typedef struct lk_shell_edit {
	char op;  /* '%', '#', '/', ',', '^', ':' */
	char how; /* '/' of A//b, '#' of A/#b, ...; '%' and the like twice; '\0' */
	const char *pattern, *to;
	long long from, count;
	bool counted;
} lk_shell_edit;
/* Where a slice of `length` begins and ends; false: an error of the shell. */
bool lk_shell_edit_bounds(const lk_shell_edit *edit, long long length, long long *from,
                          long long *count);
/* What an operation makes of a text; NULL: not known. */
const char *lk_shell_edit_text(lk_shell *shell, const char *text, const lk_shell_edit *edit);
/* Whether bytes are characters. */
bool lk_shell_is_ascii(const char *text);

/* shell_expand.c */
/* Appends the words that a raw word stands for: none, one or several. */
lk_status lk_shell_expand(lk_shell *shell, const lk_raw *raw, lk_words *out);
/* The same without splitting: exactly one word. */
lk_status lk_shell_expand_one(lk_shell *shell, const lk_raw *raw, lk_word *out);
/* The same of a pattern: what is quoted is escaped, so that it stands for itself. */
lk_status lk_shell_expand_pattern(lk_shell *shell, const lk_raw *raw, lk_word *out);
/* The text of a here-document. */
lk_status lk_shell_expand_here(lk_shell *shell, const char *at, const char *end, int line,
                               lk_word *out);

/* shell_read.c */
/* The words up to the end of a simple command, which is left unread; none at the end of a line. */
lk_status lk_shell_take_words(lk_shell *shell, lk_raws *words);
/* Steps over the end of a line and the here-documents that wait for it. */
lk_status lk_shell_newline(lk_shell *shell);

/* shell_assign.c. `certain`: whether the line runs; where that is not sure, the variable becomes
 * unknown. */
/* "NAME=", "NAME+=" or "NAME[...]=" at the start of a word: length of the name, 0 if it is none. */
size_t lk_shell_assignment(const lk_raw *raw, bool *append, const char **value);
/* Length of "[KEY]=" at the start of an element; 0: it has no key. */
size_t lk_shell_key(const char *text);
/* The element of a key, or of a number; NULL: there is none. */
lk_word *lk_shell_element(const lk_shell_var *var, const char *key);
lk_status lk_shell_assign(lk_shell *shell, const lk_raw *raw, lk_truth certain, bool exported);
lk_status lk_shell_declare(lk_shell *shell, const lk_raws *words,
                           lk_truth certain); /* export, declare, local, ... */
lk_status lk_shell_unset(lk_shell *shell, const lk_raws *words, lk_truth certain);
lk_status lk_shell_set_by_command(lk_shell *shell, const lk_raws *words); /* read, mapfile */

/* shell_math.c: the value of $((text)). `expand` is lk_shell_expand_one, for ${X:-8} in it;
 * *unknown is set where a variable is not known. */
typedef lk_status lk_shell_expander(lk_shell *shell, const lk_raw *raw, lk_word *out);
lk_status lk_shell_math(lk_shell *shell, const char *at, const char *end, int line,
                        lk_shell_expander *expand, long long *value, const char **unknown);

/* shell_command.c: the text that the command between two places writes, where it needs no
 * execution (echo, expr, seq, ...); its text is NULL where it is not known, and empty_if_unset then
 * says that it is nothing where a variable is not set. Its words are expanded by those of
 * shell_expand.c. */
typedef struct lk_shell_expanders {
	lk_status (*words)(lk_shell *shell, const lk_raw *raw, lk_words *out);
	lk_shell_expander *one;
	lk_status (*here)(lk_shell *shell, const char *at, const char *end, int line, lk_word *out);
} lk_shell_expanders;
lk_status lk_shell_command(lk_shell *shell, const lk_shell_expanders *expand, const char *at,
                           const char *end, int line, lk_word *value);

/* shell_test.c: [ ... ] and test by their expanded words, [[ ... ]] as it is written, both without
 * their brackets. A variable that nobody sets is empty, as a shell takes it; *assumed is then set.
 */
lk_truth lk_shell_test(const lk_shell *shell, const lk_word *words, size_t count, bool *assumed);
lk_status lk_shell_test_raw(lk_shell *shell, const lk_raw *words, size_t count, bool *assumed,
                            lk_truth *answer);
/* Whether a text is among those of a pattern of case. */
lk_truth lk_shell_match(const lk_word *subject, const lk_word *pattern, bool *assumed);

#endif
