/* script_internal.h: between the files of the reader of scripts (script.c). */
#ifndef LK_LAUNCH_SCRIPT_INTERNAL_H
#define LK_LAUNCH_SCRIPT_INTERNAL_H

#include "launch/launchers/launchers.h"
#include "launch/script/script.h"

/* What a script is read for: the words of its last launch command, and what its batch options say;
 * the caller of its shell. */
typedef struct lk_script_sought {
	lk_reading *reading;
	lk_status (*run)(lk_shell *shell, const char *text, size_t size); /* reads all of a text */
	bool fed;             /* the last command runs what it reads */
	lk_words reads;       /* the variables that the last command reads into */
	bool reads_all;       /* all of its input, and not a line: read -d '' */
	bool reads_raw;       /* a backslash stands for itself: read -r */
	bool reads_list;      /* the words become a list: read -a */
	const char *reads_by; /* what IFS is for it; NULL: what it is anyway */
	size_t option;        /* of the arguments, which getopts reads next */
	const char *missing;  /* a script that this one runs and that is not here; NULL: none */
	const char *other;    /* what the last command does that trains nothing; NULL: not known */
	lk_raw tested;        /* the last [ ... ], [[ ... ]] or test; NULL: none */
	int ended;            /* line of the exit that ends the script; 0: none */
	lk_words words;
	int line; /* of the launch */
	int rank; /* how much it looks like the training: the last of the best is taken */
	bool certain;
	lk_launch_ranks *batch; /* NULL: batch options do not matter */
	int sources;            /* files that the script reads */
	/* what the function of a command substitution has written so far (script_output.c); NULL: no
	 * function is read for it */
	struct lk_script_written *written;
	bool cats; /* the last command writes the here-document that follows */
} lk_script_sought;

/* ---- script_blocks.c */
/* Reads the commands of a text, as part of the script. */
lk_status lk_script_text(lk_shell *shell, const char *text, size_t size);
bool lk_script_among(const lk_raw *raw, const char *const *names);
/* The words that raw words stand for, from one on. */
lk_status lk_script_expand(lk_shell *shell, const lk_raws *words, size_t from, lk_words *out);
void lk_script_drop_first(lk_raws *words);
lk_status lk_script_set(lk_shell *shell, const char *name, const lk_word *value);
/* How certain it is that the present line runs; whether it does only because variables are taken as
 * not set. */
lk_truth lk_script_runs(const lk_shell *shell);
bool lk_script_assumed(const lk_shell *shell);
/* The innermost block, where it is an if; a case that expects a pattern. NULL: it is not. */
lk_shell_block *lk_script_if(lk_shell *shell);
lk_shell_block *lk_script_pattern(lk_shell *shell);
/* Words where a case expects a pattern, or its end; the bracket after one; ";;". */
lk_status lk_script_case_pattern(lk_shell *shell, const lk_raws *words);
void lk_script_case_commands(lk_shell_block *block);
/* Length of ";;", ";&" or ";;&" here, which end a branch; 0: there is none. */
size_t lk_script_branch_ends(const lk_shell *shell);
void lk_script_case_next(lk_shell_block *block, const char *mark, size_t length);
/* A word of the shell's grammar at the start of a command; *again: what follows it is a command. */
lk_status lk_script_keyword(lk_shell *shell, lk_raws *words, bool *again);
/* name() or function name: its body runs when it is called. */
lk_status lk_script_function_begins(lk_shell *shell, const lk_raw *name);
/* The text of a body, as often as it is called. */
lk_status lk_script_body(lk_shell *shell, const char *at, const char *end, int line,
                         lk_truth certain);

/* The same where what it sets does not leave it, and exit ends it alone. */
lk_status lk_script_subshell(lk_shell *shell, const char *at, const char *end, int line,
                             lk_truth certain);
/* "(" where a command is expected, and the bracket that closes it; *chain is then what && and ||
 * after it are joined to. `joined`: whether what comes before lets it run. */
lk_status lk_script_bracket_begins(lk_shell *shell, lk_truth joined, lk_truth chain);
lk_status lk_script_bracket_ends(lk_shell *shell, lk_truth *chain);

/* The id of a function that is defined; UINT32_MAX: it is none. */
uint32_t lk_script_function(const lk_shell *shell, const lk_raw *name);

/* ---- script.c */
/* Whether the command looks for what only machines with other devices than GPUs have: python3 -c
 * 'import torch_npu', command -v npu-smi. It fails, as GPUs are priced. */
bool lk_script_asks_device(const char *at, const char *end);

/* ---- script_output.c */
/* What $(at .. end) stands for where it calls a function of the script, or asks for a device; its
 * text stays NULL where that is not known. */
lk_status lk_script_output(lk_shell *shell, const char *at, const char *end, int line,
                           lk_word *out);
/* A command of a function that is read for what it writes; *done: that is all it does. */
lk_status lk_script_write(lk_shell *shell, const lk_raws *words, size_t first, lk_truth certain,
                          bool *done);
/* The here-document of cat in such a function. */
lk_status lk_script_document(lk_shell *shell, const char *text);
/* The text of printf FORMAT WORD...; NULL: the format is none that is read. */
const char *lk_script_echo(lk_arena *arena, const lk_words *words); /* of echo; NULL: likewise */
const char *lk_script_format(lk_arena *arena, const lk_words *words);

/* ---- script_launch.c: a program that is neither a builtin nor harmless. */
lk_status lk_script_program(lk_shell *shell, const lk_raws *words, lk_truth certain);

/* ---- script_arguments.c: the variables that hold flags, as the words of a launch; the rank stays
 * 0 where none does. */
lk_status lk_script_arguments(lk_shell *shell, lk_script_sought *sought);

/* ---- script_example.c: the script's arguments, where nobody gave them and a comment shows a call
 * with them. */
lk_status lk_script_example(lk_shell *shell, const char *text);

/* ---- script_inner.c */
/* What Slurm sets from the options of the batch script. */
lk_status lk_script_batch_variables(lk_shell *shell, const lk_launch_ranks *batch);
lk_status lk_script_eval(lk_shell *shell, const lk_raws *words);
lk_status lk_script_source(lk_shell *shell, const lk_raws *words);
/* bash inner.sh 8, read in its place; *ran false where it is not here. */
lk_status lk_script_start(lk_shell *shell, const lk_raws *words, bool *ran);
/* Whether the text of a command names a launcher. */
bool lk_script_launches(const char *text);
/* docker run IMAGE bash inner.sh, srun bash -c "...": what a container or a task runs is read in
 * its place; *ran false where it launches itself or is not here. */
lk_status lk_script_inside(lk_shell *shell, const lk_raws *words, bool *ran);
lk_status lk_script_remote(lk_shell *shell, const lk_raws *words); /* ssh */

/* ---- script_commands.c */
lk_status lk_script_command(lk_shell *shell, lk_raws *words, lk_truth certain);
/* getopts OPTIONS NAME: the next option of the script's arguments. */
/* What `read` reads, from a here-document or a string. */
lk_status lk_script_reads(lk_shell *shell, const lk_word *input);
lk_truth lk_script_getopts(lk_shell *shell, const lk_raws *words, lk_status *status);

#endif
