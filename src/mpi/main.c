/* main.c: lockstep-mpi: `plan`, sweeps of `predict`, and `validate`, divided over the processes of
 * an MPI job. Every process does everything except the shared tasks; only rank 0 prints. The output
 * is that of `lockstep`, byte for byte. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/stats.h"
#include "cli/cli.h"
#include "lockstep/catalogue.h"
#include "lockstep/validate.h"
#include "mpi/team.h"

enum { PATIENCE_S = 20 };

static int validate_with(lk_args *args, const lk_plan_team *team, bool speaks) {
	return cli_ask_with(&lk_row_validate, args, team, speaks);
}

static const struct {
	const lk_verb *verb;
	int (*run)(lk_args *args, const lk_plan_team *team, bool speaks);
} commands[] = {
	{&lk_plan_verb, cli_plan_with},
	{&lk_predict_verb, cli_predict_with},
	{&lk_validate_verb, validate_with},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* When a process dies, mpirun ends the others. Rank 0 then prints what that means, using only
 * async-signal-safe calls. */
static char farewell[512];

static void say_farewell(int number) {
	ssize_t unused = write(STDERR_FILENO, farewell, strlen(farewell));
	(void)unused;
	_exit(128 + number);
}

static void prepare_farewell(const char *resume) {
	if (resume)
		snprintf(farewell, sizeof farewell,
		         "lockstep: the job ended: a process died, or it was stopped; finished parts "
		         "are in %.200s: repeat the command with --resume\n",
		         resume);
	else
		snprintf(farewell, sizeof farewell,
		         "lockstep: the job ended: a process died, or it was stopped; with --resume "
		         "FILE finished parts "
		         "are kept\n");
	signal(SIGTERM, say_farewell);
}

/* A hash of the command without the file of finished parts. */
static uint64_t hash_command_words(int argc, char **argv) {
	uint64_t h = lk_hash_bytes(LK_HASH_SEED, lk_version(), strlen(lk_version()));
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--resume") == 0) i++;
		else if (strncmp(argv[i], "--resume=", 9) != 0)
			h = lk_hash_bytes(h, argv[i], strlen(argv[i]) + 1);
	}
	return h;
}

static const char *find_resume_file(int argc, char **argv) {
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--resume") == 0 && i + 1 < argc) return argv[i + 1];
		if (strncmp(argv[i], "--resume=", 9) == 0) return argv[i] + 9;
	}
	return NULL;
}

static int print_mpi_usage(int rank) {
	if (rank == 0)
		fputs("lockstep: lockstep-mpi divides plan, predict and validate over processes: mpirun -n "
		      "K lockstep-mpi plan "
		      "...; see lockstep-mpi --help\n",
		      stderr);
	return CLI_WRONG;
}

static bool is_help_word(const char *word) {
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

static int print_mpi_help(int rank) {
	if (rank != 0) return CLI_OK;
	puts("Usage: mpirun -n K lockstep-mpi VERB [OPTION...]\n\n"
	     "Divides over K processes what lockstep does with one; the output is the same, byte for "
	     "byte.\n\nVerbs");
	for (int i = 0; i < COMMANDS; i++)
		printf("  %-20s %s\n", commands[i].verb->name, commands[i].verb->summary);
	puts("\nOptions are those of the verbs, which lockstep-mpi VERB --help lists, and\n"
	     "  --resume FILE        keeps finished parts there, and begins with those that it has\n\n"
	     "First steps\n"
	     "  mpirun -n 8 lockstep-mpi plan --model llama3.1-70b --gpu h100-sxm --gpus 64,128 --gbs "
	     "512 --seq 8192");
	return CLI_OK;
}

static int run_mpi_verb(int argc, char **argv, int rank) {
	lk_error err = {0};
	lk_args args;
	mpi_team team;
	int which = 0;
	if (argc > 1 && is_help_word(argv[1])) return print_mpi_help(rank);
	while (argc > 1 && which < COMMANDS && strcmp(argv[1], commands[which].verb->name) != 0)
		which++;
	if (argc < 2 || which == COMMANDS) return print_mpi_usage(rank);
	const char *resume = find_resume_file(argc, argv);
	if (rank == 0) cli_form_errors(argc - 2, (const char *const *)argv + 2);
	if (lk_args_parse(commands[which].verb, argc - 2, (const char *const *)argv + 2, &args, &err) !=
	    LK_OK)
		return rank == 0 ? cli_fail(&err) : CLI_WRONG;
	if (args.help) {
		if (rank == 0) lk_verb_help(args.verb, cli_colour(), stdout);
		lk_args_free(&args);
		return CLI_OK;
	}
	int result = CLI_WRONG;
	if (rank == 0) prepare_farewell(resume);
	if (mpi_team_open(&team, resume, hash_command_words(argc, argv), &err) == LK_OK)
		result = commands[which].run(&args, &team.team, rank == 0);
	else if (rank == 0) cli_fail(&err);
	mpi_team_close(&team);
	signal(SIGTERM, SIG_DFL); /* the work is over: mpirun ends all when the first of them leaves
	                             with a nonzero status */
	lk_args_free(&args);
	return result;
}

/* All processes come here, unless one has failed where the others wait for it: then the job is
 * aborted. */
static void leave_together(int rank, int result) {
	MPI_Request request;
	int done = 0;
	MPI_Ibarrier(MPI_COMM_WORLD, &request);
	for (int i = 0; i < PATIENCE_S * 100 && !done; i++) {
		MPI_Test(&request, &done, MPI_STATUS_IGNORE);
		if (!done) usleep(10000);
		if (!done && i > 100 && result == CLI_WRONG) {
			fprintf(stderr, "lockstep: process %d alone failed; the job ends\n", rank);
			MPI_Abort(MPI_COMM_WORLD, CLI_WRONG);
		}
	}
	if (!done) MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
	int level, rank;
	setenv("NO_COLOR", "1", 1); /* the terminal that mpirun gives its processes is not the user's */
	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	int result = run_mpi_verb(argc, argv, rank);
	if (fflush(stdout) != 0 && rank == 0) result = CLI_WRONG;
	leave_together(rank, result);
	MPI_Finalize();
	return result;
}
