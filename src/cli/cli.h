/* cli.h: what the verbs of the program share. main.c holds the table of verbs. ask.c runs those
 * that only ask; a verb that does more, as with processes or a terminal, has a file. */
#ifndef LK_CLI_CLI_H
#define LK_CLI_CLI_H

#include <signal.h>

#include <stdbool.h>
#include "lockstep/emit.h"
#include "lockstep/error.h"
#include "lockstep/options.h"
#include "lockstep/plan.h"
#include "lockstep/stop.h"
#include "verbs/verbs.h"

/* Exit statuses: 0 done, or it fits; 1 it does not fit; 2 the input is wrong or the system refused.
 */
enum {
	CLI_OK = 0,
	CLI_NO = 1,
	CLI_WRONG = 2,
	/* Marks the exit status of a program that was run, which no later failure replaces. */
	CLI_OF_PROGRAM = 256
};

/* A verb of the program: run by `row`, or by a function of its own. Returns the exit status. */
typedef int cli_run(lk_args *args);
typedef struct cli_command {
	const lk_verb *verb;
	const lk_verb_row *row;
	cli_run *run; /* NULL: by the row */
} cli_command;

cli_run cli_predict, cli_plan, cli_explain, cli_compile, cli_record, cli_stalls, cli_serve,
	cli_html, cli_mcp;

/* Asks the verb of a row: reads the request, searches with progress on the terminal, writes the
 * answer. With a team, one of whose processes `speaks`, the work is divided. */
int cli_ask_with(const lk_verb_row *row, lk_args *args, const lk_plan_team *team, bool speaks);
/* Writes the answer to files, standard output and, with --verbose, its times to standard error;
 * returns the exit status. */
int cli_show(const lk_verb_row *row, const void *request, const void *answer,
             const lk_outputs *outputs);
/* `plan`, and a sweep of `predict`, likewise. */
int cli_plan_with(lk_args *args, const lk_plan_team *team, bool speaks);
int cli_predict_with(lk_args *args, const lk_plan_team *team, bool speaks);

/* Replaces this process by a dynamically linked build of the program if the words need it; returns
 * if that build cannot start. */
void cli_hand_over(char **argv);

/* Prints "lockstep: where: what; hint" on standard error; returns CLI_WRONG. Where the answer would
 * have been JSON on standard output, {"error": ...} is there. */
int cli_fail(const lk_error *err);
/* The answer is about to be written: from now on errors are lines on standard error alone. */
void cli_answers(void);
/* Read from the words of a command line whether it asks for -o json, which cli_fail follows. */
void cli_form_errors(int argc, const char *const *argv);
/* Says that a condition of --fail-if holds ("": none does); returns the exit status then, else
 * `status`. */
int cli_met(const char *met, int status);
/* Fills `request` (NULL: the verb has none) and `outputs` from the options, then checks before any
 * work that a format which needs a file has one, that every file can be put where it is to go, as
 * far as its folder shows, that no two are the same, and that parts are kept (--resume) only by a
 * team of processes. `row`: knows the default format, and files that the request itself names; may
 * be NULL. LK_ERR_INPUT; LK_ERR_IO. */
lk_status cli_read(lk_args *args, void *request, lk_outputs *outputs, const lk_verb_row *row,
                   const lk_plan_team *team, lk_error *err);
/* Warns that an answer failed a check of its own consistency; NULL: it failed none. */
void cli_warn_failed(const char *failed_check);
/* With --emit (`target` not NULL), refuses output formats other than text. LK_ERR_INPUT. */
lk_status cli_check_emit(const char *target, const lk_outputs *outputs, lk_error *err);
/* Writes the text to `path` (NULL: standard output) and its notes to standard error. LK_ERR_IO. */
lk_status cli_write_emitted(const lk_emitted *emitted, const char *path, lk_error *err);
/* Whether to colour standard output: a terminal, and no NO_COLOR (https://no-color.org). */
bool cli_colour(void);

/* search.c: a running search. */
typedef struct cli_search {
	const char *what; /* what it evaluates, in the plural */
	double start_s;   /* by lk_clock_s */
	bool shown, catches;
	lk_stop *stop;
	struct sigaction before;
} cli_search;
/* Starts a search of this thread: Ctrl-C ends it with the best answer found so far. */
void cli_search_begin(cli_search *search, const char *what);
/* Shows progress on the terminal after half a second; an lk_search_progress whose context is the
 * search. */
void cli_search_show(void *context, int gpus, double done, double all);
/* The same of one long work, with what is being done, at once; a `doing` of lk_verb_input. */
void cli_doing_show(void *context, const char *doing, double share);
/* Clears the line of progress; ends the search if one has begun. */
void cli_search_end(cli_search *search);

/* A call that runs other programs and keeps files. Until cli_stop_end, a signal that would end this
 * program asks the call to stop, so that it ends the programs and removes the files; then the
 * signal takes effect. */
typedef struct cli_stop {
	lk_stop *stop;
	struct sigaction before[3];
} cli_stop;
void cli_stop_begin(cli_stop *stop);
void cli_stop_end(cli_stop *stop);

/* The commit that the program was built from; NULL: unknown. Written by tools/commit.sh. */
extern const char *const cli_commit;

/* An option that comes before the verb. */
typedef struct cli_global {
	const char *names, *value, *help; /* "-h, --help"; "" or " DIR" */
} cli_global;

/* Writes the manual page of `lockstep` to standard output, in troff; `globals` ends with names
 * NULL. Returns the exit status. */
int cli_manual(const cli_command *commands, int count, const cli_global *globals);
/* The same for another installed program, as "lockstep-mpi"; false: unknown name. */
bool cli_program_manual(const char *name);

#endif
