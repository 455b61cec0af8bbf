/* manual.c: manual pages of the programs, in troff with the man macros. Pages of verbs come from
 * their option tables (lk_verb_man). */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "lockstep/catalogue.h"

/* Escapes text for troff, so that hyphens, backquotes and apostrophes can be copied. */
static void troff(const char *text) {
	for (; *text; text++) {
		if (*text == '-') fputs("\\-", stdout);
		else if (*text == '`') fputs("\\(ga", stdout);
		else if (*text == '\'') fputs("\\(aq", stdout);
		else if (*text == '\\') fputs("\\e", stdout);
		else putchar(*text);
	}
}

static void manual_item(const char *name, const char *text) {
	fputs(".TP\n.B ", stdout);
	troff(name);
	putchar('\n');
	troff(text);
	putchar('\n');
}

static void paragraph(const char *text) {
	fputs(".PP\n", stdout);
	troff(text);
	putchar('\n');
}

static void title(const char *capitals, const char *name, const char *purpose) {
	printf(".TH \"%s\" 1 \"%s\" \"lockstep %s\" \"lockstep\"\n.SH NAME\n", capitals, lk_data_date(),
	       lk_version());
	troff(name);
	fputs(" \\- ", stdout);
	troff(purpose);
	fputs("\n.SH SYNOPSIS\n", stdout);
}

int cli_manual(const cli_command *commands, int count, const cli_global *globals) {
	title("LOCKSTEP", "lockstep", "predicts step time and memory of distributed training");
	fputs(".B lockstep\n\\fIVERB\\fR [\\fIOPTION\\fR...]\n.SH DESCRIPTION\n", stdout);
	troff("lockstep predicts the step time and the memory of distributed training: from a model's "
	      "config.json, a preset or a "
	      "pasted launch line, without a GPU. From traces of a run it says why the run is slow and "
	      "what changes would be worth.\n");
	fputs(".SH VERBS\n", stdout);
	for (int i = 0; i < count; i++) manual_item(commands[i].verb->name, commands[i].verb->summary);
	fputs(".SH OPTIONS\n", stdout);
	for (; globals->names; globals++) {
		char label[64];
		snprintf(label, sizeof label, "%s%s", globals->names, globals->value);
		manual_item(label, globals->help);
	}
	fputs(".SH EXIT STATUS\n", stdout);
	manual_item("0", "done; for predict: it fits");
	manual_item("1", "it does not fit");
	manual_item("2", "the input is wrong, or the system refused a file");
	fputs(".SH ENVIRONMENT\n", stdout);
	manual_item("NO_COLOR", "no colour, whatever its value");
	manual_item("LOCKSTEP_DATA", "folder of the measured runs that validate compares with");
	fputs(".SH SEE ALSO\n", stdout);
	for (int i = 0; i < count; i++) {
		fputs(i ? ", \\fBlockstep\\-" : "\\fBlockstep\\-", stdout);
		troff(commands[i].verb->name);
		fputs("\\fR(1)", stdout);
	}
	fputs(", \\fBlockstep\\-mpi\\fR(1)\n", stdout);
	return CLI_OK;
}

static void mpi_manual(void) {
	title("LOCKSTEP-MPI", "lockstep-mpi",
	      "plan, sweeps and validation, divided over the processes of an MPI job");
	fputs(".B mpirun\n\\-n \\fIK\\fR\n.B "
	      "lockstep\\-mpi\n\\fBplan\\fR|\\fBpredict\\fR|\\fBvalidate\\fR [\\fIOPTION\\fR...]\n"
	      ".SH DESCRIPTION\n",
	      stdout);
	troff("Takes the options of the verb and writes what lockstep writes, byte for byte (columns "
	      "of wall-clock time aside): the tasks "
	      "inside are divided over the processes, and rank 0 alone writes.\n");
	paragraph("predict is for sweeps: options with comma lists. validate divides the rows of a "
	          "table of training runs. plan "
	          "divides the simulations of its search. The processes of a node share its cores.");
	fputs(".SH OPTIONS\n", stdout);
	manual_item(
		"--resume FILE",
		"keep finished parts there, and take those that are there already: for jobs that may be "
		"ended. The "
		"same question with the same file goes on where it was; another question is refused");
	paragraph("All others are those of the verb.");
	fputs(".SH EXIT STATUS\n", stdout);
	manual_item("0, 1, 2", "as lockstep, on every process");
	manual_item("128 + N", "ended by signal N; finished parts are in the file of --resume");
	fputs(".SH EXAMPLES\n.TP\n", stdout);
	troff("mpirun -n 64 lockstep-mpi plan --model llama3.1-405b --gpu h100-sxm --gpus 8192,16384 "
	      "--gbs 2048 --resume plan.parts\n"
	      "a large search, divided over 64 processes\n");
	fputs(".SH SEE ALSO\n\\fBlockstep\\fR(1), \\fBlockstep\\-plan\\fR(1), "
	      "\\fBlockstep\\-predict\\fR(1), "
	      "\\fBlockstep\\-validate\\fR(1), \\fBmpirun\\fR(1)\n",
	      stdout);
}

static void pairs_manual(void) {
	title("LOCKSTEP-MPI-PAIRS", "lockstep-mpi-pairs",
	      "times messages between pairs of MPI processes");
	fputs(
		".B mpirun\n\\-n \\fIK\\fR\n.B lockstep\\-mpi\\-pairs\n\\fISECONDS\\fR\n.SH DESCRIPTION\n",
		stdout);
	troff("Started by `lockstep calibrate host --mpi LAUNCHER`, which reads what it prints: times "
	      "of messages between pairs of processes, one way, the other way and both at once, "
	      "measured for SECONDS in all. It has no options.\n");
	fputs(".SH SEE ALSO\n\\fBlockstep\\-calibrate\\fR(1)\n", stdout);
}

bool cli_program_manual(const char *name) {
	static const struct {
		const char *name;
		void (*write)(void);
	} programs[] = {{"lockstep-mpi", mpi_manual}, {"lockstep-mpi-pairs", pairs_manual}};
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
		if (strcmp(name, programs[i].name) != 0) continue;
		programs[i].write();
		return true;
	}
	return false;
}
