/* cli.h: what the verbs of the program share. main.c holds the table of verbs. ask.c runs those
 * that only ask; a verb that does more, as with processes or a terminal, has a file. */
#ifndef LK_CLI_CLI_H
#define LK_CLI_CLI_H

#include <signal.h>
#include <time.h>

#include <limits.h>
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
	/* Added to the exit status of a program that was run: nothing that fails afterwards replaces
	 * it. */
	CLI_OF_PROGRAM = 256
};

/* A verb of the program: run by `row`, or by a function of its own. Returns the exit status. */
typedef int cli_run(lk_args *args);
typedef struct cli_command {
	const lk_verb *verb;
	const lk_verb_row *row;
	cli_run *run; /* NULL: by the row */
} cli_command;

/* Verbs that the program alone has. */
extern const lk_verb cli_devices_verb, cli_models_verb;

cli_run cli_predict, cli_plan, cli_explain, cli_calibrate, cli_compile, cli_record, cli_stalls,
	cli_machines, cli_serve, cli_html, cli_devices, cli_models, cli_init, cli_doctor;

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

/* Where lockstep.toml may be: in this folder, then in the home folder, if there is one. Returns how
 * many places there are. */
typedef struct cli_defaults_paths {
	const char *at[2];
	char home[PATH_MAX];
} cli_defaults_paths;
int cli_defaults_find(cli_defaults_paths *out);
/* The defaults of these; the caller frees them. */
lk_status cli_defaults_open(lk_defaults **out, lk_error *err);
/* Names on standard error the defaults that the parsed words used. */
void cli_defaults_say(const lk_defaults *defaults);

/* Runs another build of the program in place of this one, where that one can do more with these
 * words; returns where it cannot. */
void cli_hand_over(char **argv);

/* Prints "lockstep: where: what; hint" on standard error; returns CLI_WRONG. */
int cli_fail(const lk_error *err);
/* Fills `request` (NULL: the verb has none) and `outputs` from the options, then checks before any
 * work that a format which needs a file has one, that every file can be put where it is to go, as
 * far as its folder shows, that no two are the same, and that parts are kept (--resume) only by a
 * team of processes. `row`: finds files that the request itself names; may be NULL. LK_ERR_INPUT;
 * LK_ERR_IO. */
lk_status cli_read(lk_args *args, void *request, lk_outputs *outputs, const lk_verb_row *row,
                   const lk_plan_team *team, lk_error *err);
/* Operands and launch words of the command line; `outputs` must outlive the input. */
lk_verb_input cli_input(const lk_args *args, const lk_outputs *outputs);
/* Warns of an answer whose check of its own consistency failed (failed_check; NULL: none did). */
void cli_warn_failed(const char *failed_check);
/* Refuses a table's format for what --emit writes (NULL: nothing). */
lk_status cli_check_emit(const char *target, const lk_outputs *outputs, lk_error *err);
/* Puts it into a file or on standard output, and what is to be known of it on standard error. */
lk_status cli_write_emitted(const lk_emitted *emitted, const char *path, lk_error *err);
/* Whether standard output is a terminal that wants colour (https://no-color.org). */
bool cli_colour(void);

/* search.c: a search under way. */
typedef struct cli_search {
	const char *what; /* what it goes through, in the plural */
	struct timespec start;
	bool shown, catches;
	lk_stop *stop;
	struct sigaction before;
} cli_search;
/* From now on Ctrl-C ends the search of this thread with the best that it has found. */
void cli_search_begin(cli_search *search, const char *what);
/* An lk_search_progress whose context is the search: after half a second a line on the terminal. */
void cli_search_show(void *context, int gpus, double done, double all);
void cli_search_end(cli_search *search);

/* A call that runs other programs and keeps files: until cli_stop_end signals that would end this
 * program ask the call to stop, so that it takes both with it; then they end the program. */
typedef struct cli_stop {
	lk_stop *stop;
	struct sigaction before[3];
} cli_stop;
void cli_stop_begin(cli_stop *stop);
void cli_stop_end(cli_stop *stop);

/* The commit that the program was built from; NULL: not known. Made by tools/commit.sh. */
extern const char *const cli_commit;

/* An option that comes before the verb. */
typedef struct cli_global {
	const char *names, *value, *help; /* "-h, --help"; "" or " DIR" */
} cli_global;

/* The manual page of `lockstep` on standard output, in troff; `globals` ends with names NULL. */
int cli_manual(const cli_command *commands, int count, const cli_global *globals);
/* Of another program that is installed, "lockstep-mpi"; false where there is none of that name. */
bool cli_program_manual(const char *name);

#endif
