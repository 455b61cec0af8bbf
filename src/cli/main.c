/* main.c: the program: its table of verbs, its help, and the dispatch of a command line. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "cli/cli.h"
#include "lockstep/catalogue.h"
#include "lockstep/calibrate.h"
#include "lockstep/collective.h"
#include "lockstep/compile.h"
#include "lockstep/compose.h"
#include "lockstep/diff.h"
#include "lockstep/doctor.h"
#include "lockstep/explain.h"
#include "lockstep/jobs.h"
#include "lockstep/plan.h"
#include "lockstep/predict.h"
#include "lockstep/record.h"
#include "lockstep/rent.h"
#include "lockstep/replay.h"
#include "lockstep/shard.h"
#include "lockstep/stalls.h"
#include "lockstep/validate.h"
#include "lockstep/whatif.h"
#include "mcp/mcp.h"
#include "lockstep/view.h"
#include "options/defaults.h"
#include "options/rollout_words.h"
#include "options/rows.h"
#include "serve/serve.h"

#define ROW(name) \
	{ &lk_##name##_verb, &lk_row_##name, NULL }
#define OWN(name) \
	{ &lk_##name##_verb, NULL, cli_##name }
/* Asked by its row, from a function that does more. */
#define BOTH(name) \
	{ &lk_##name##_verb, &lk_row_##name, cli_##name }

static const cli_command commands[] = {
	BOTH(predict), BOTH(plan),     BOTH(explain),   ROW(replay),   ROW(whatif), ROW(diff),
	ROW(validate), ROW(calibrate), ROW(collective), OWN(compile),  OWN(record), BOTH(stalls),
	ROW(compose),  ROW(shard),     ROW(rent),       ROW(machines), ROW(jobs),   OWN(serve),
	OWN(mcp),      OWN(html),      ROW(devices),    ROW(models),   ROW(init),   ROW(doctor),
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* Options that precede the verb. */
static const cli_global globals[] = {
	{"-h, --help", "", "this list; `lockstep help VERB` shows the options of a verb"},
	{"-V, --version", "", "version, commit, day of the data, features; -o json as data"},
	{"--data", " DIR", "devices from DIR/devices.csv instead of the built-in ones"},
	{"--no-config", "", "without the defaults of lockstep.toml; see lockstep help init"},
	{"--man", " [VERB]", "manual page, in troff; of lockstep-mpi too"},
	{"--completion", " SHELL", "completion script for bash, zsh or fish"},
	{"--verbs", "", "names of the verbs, one a line"},
	{"--schema", " VERB", "the options of a verb as a JSON Schema"},
	{NULL, NULL, NULL},
};

/* ---- help and version ---- */

static int overview(FILE *out) {
	const char *bold = "", *plain = "";
	if (out == stdout && cli_colour()) {
		bold = "\x1b[1m";
		plain = "\x1b[0m";
	}
	fprintf(out, "Usage: lockstep VERB [OPTION...]\n\n%sVerbs%s\n", bold, plain);
	for (int i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-20s %s\n", commands[i].verb->name, commands[i].verb->summary);
	fprintf(out, "\n%sOptions%s\n", bold, plain);
	for (const cli_global *global = globals; global->names; global++) {
		char label[64];
		snprintf(label, sizeof label, "%s%s", global->names, global->value);
		fprintf(out, "  %-20s %s\n", label, global->help);
	}
	fprintf(out, "\n%sFirst steps%s\n", bold, plain);
	fputs("  lockstep predict --model llama3.1-70b --gpu h100-sxm --gpus 64 --tp 4 --pp 8 --gbs "
	      "128 --seq 8192\n"
	      "  lockstep devices h100\n"
	      "  lockstep help predict\n",
	      out);
	return out == stdout ? CLI_OK : CLI_WRONG;
}

/* Runs --version, which may be followed by -o FORMAT. */
static int main_version(int argc, const char *const *argv) {
	static const char *const formats[] = {"text", "json", NULL};
	static const lk_option options[] = {{OUT_FORMAT(formats, "")}, {0}};
	static const lk_verb top = {.name = "--version", .operands = "", .options = options};
	lk_args args;
	lk_error err = {0};
	lk_outputs outputs = {0};
	lk_status status = lk_args_parse(&top, argc, argv, &args, &err);
	if (status != LK_OK) return cli_fail(&err);
	status = lk_args_fill_outputs(&args, &outputs, &err);
	lk_args_free(&args);
	if (status == LK_OK) status = lk_version_print(cli_commit, outputs.format == 1, stdout, &err);
	return status == LK_OK ? CLI_OK : cli_fail(&err);
}

/* ---- finding a verb ---- */

/* Words that people type, and the verb that they mean. */
static const char *const main_words[][2] = {
	{"sweep", "predict with lists: lockstep predict --gpus 8,16,32"},
	{"simulate", "predict"},
	{"estimate", "predict"},
	{"memory", "predict"},
	{"mem", "predict"},
	{"fit", "predict"},
	{"run", "predict"},
	{"train", "predict"},
	{"cost", "rent"},
	{"price", "machines"},
	{"prices", "machines"},
	{"budget", "rent"},
	{"search", "plan"},
	{"optimize", "plan"},
	{"optimise", "plan"},
	{"tune", "plan"},
	{"autotune", "plan"},
	{"layout", "plan"},
	{"diagnose", "explain"},
	{"analyze", "explain"},
	{"analyse", "explain"},
	{"why", "explain"},
	{"slow", "explain"},
	{"trace", "explain"},
	{"traces", "explain"},
	{"profile", "record, then explain"},
	{"compare", "diff"},
	{"gpus", "devices"},
	{"web", "serve"},
	{"ui", "serve"},
	{"gui", "serve"},
	{"server", "serve"},
	{"agent", "mcp"},
	{"agents", "mcp"},
	{"check", "doctor"},
	{"report", "html"},
	{"plot", "predict --charts FILE"},
	{"version", "--version"},
};

/* Finds a verb by name; NULL with an error that names the nearest one. */
static const cli_command *main_find(const char *name, lk_error *err) {
	const char *names[COMMANDS + 1] = {"help"};
	for (int i = 0; i < COMMANDS; i++) {
		if (strcmp(name, commands[i].verb->name) == 0) return &commands[i];
		names[i + 1] = commands[i].verb->name;
	}
	lk_fail(err, LK_ERR_INPUT, NULL, "unknown verb \"%.64s\"", name);
	for (size_t i = 0; i < sizeof main_words / sizeof *main_words; i++)
		if (strcmp(name, main_words[i][0]) == 0) {
			lk_hint(err, "did you mean %s?", main_words[i][1]);
			return NULL;
		}
	lk_hint_names(err, name, names, COMMANDS + 1);
	return NULL;
}

/* Refuses an option before the verb that is not one of `globals`. */
static int unknown_option(const char *word) {
	static const char *const names[] = {"version", "verbs", "man",       "completion",
	                                    "data",    "help",  "no-config", "schema"};
	enum { NAMES = sizeof names / sizeof *names };
	lk_error err = {0};
	const char *near = lk_nearest(word + strspn(word, "-"), names, NAMES);
	lk_fail(&err, LK_ERR_INPUT, word, "unknown option");
	if (near) lk_hint(&err, "did you mean --%s?", near);
	else lk_hint(&err, "options follow the verb, as in lockstep predict %.64s", word);
	return cli_fail(&err);
}

/* ---- running ---- */

static int main_help(const char *name) {
	lk_error err = {0};
	if (!name) return overview(stdout);
	if (strcmp(name, "rollout") == 0) {
		lk_rollout_help(cli_colour(), stdout);
		return CLI_OK;
	}
	const cli_command *command = main_find(name, &err);
	if (!command) return cli_fail(&err);
	lk_verb_help(command->verb, cli_colour(), stdout);
	return CLI_OK;
}

static int man(const char *name) {
	lk_error err = {0};
	if (!name) return cli_manual(commands, COMMANDS, globals);
	if (cli_program_manual(name)) return CLI_OK;
	const cli_command *command = main_find(name, &err);
	if (!command) return cli_fail(&err);
	lk_verb_man(command->verb, lk_version(), lk_data_date(), stdout);
	return CLI_OK;
}

static int completion(const char *shell) {
	const lk_verb *verbs[COMMANDS + 1] = {NULL};
	lk_error err = {0};
	if (!shell) {
		lk_fail(&err, LK_ERR_INPUT, "--completion", "no shell is named");
		lk_hint(&err, "give bash, zsh or fish");
		return cli_fail(&err);
	}
	for (int i = 0; i < COMMANDS; i++) verbs[i] = commands[i].verb;
	return lk_verbs_completion(verbs, lk_candidate, shell, stdout, &err) == LK_OK ? CLI_OK
	                                                                              : cli_fail(&err);
}

static int schema(const char *name) {
	lk_error err = {0};
	if (!name) {
		lk_fail(&err, LK_ERR_INPUT, "--schema", "no verb is named");
		lk_hint(&err, "give one of lockstep --verbs");
		return cli_fail(&err);
	}
	const cli_command *command = main_find(name, &err);
	if (!command || lk_verb_schema(command->verb, stdout, &err) != LK_OK) return cli_fail(&err);
	return CLI_OK;
}

static int list_verbs(void) {
	for (int i = 0; i < COMMANDS; i++) puts(commands[i].verb->name);
	return CLI_OK;
}

/* Verbs look at their file more than once: puts standard input into a file where it is a pipe.
 * Without room for that it stays as it is. */
static void keep_input(const lk_args *args) {
	char bytes[1 << 16];
	bool named = args->operand_count == 1 && strcmp(args->operands[0], "-") == 0;
	if (!named || lseek(STDIN_FILENO, 0, SEEK_CUR) >= 0) return;
	FILE *kept = tmpfile();
	size_t got;
	if (!kept) return;
	while ((got = fread(bytes, 1, sizeof bytes, stdin)) > 0)
		if (fwrite(bytes, 1, got, kept) != got) break;
	if (fflush(kept) == 0 && lseek(fileno(kept), 0, SEEK_SET) == 0)
		dup2(fileno(kept), STDIN_FILENO);
	fclose(kept);
}

static int main_run_parsed(const cli_command *command, lk_args *args) {
	lk_error err = {0};
	if (lk_args_check_empty(args, &err) != LK_OK) return cli_fail(&err);
	if (args->help) {
		lk_verb_help(command->verb, cli_colour(), stdout);
		return CLI_OK;
	}
	LK_ASSERT(command->run || command->row);
	if (command->run == cli_predict || command->run == cli_plan || command->run == cli_explain)
		keep_input(args);
	return command->run ? command->run(args) : cli_ask_with(command->row, args, NULL, true);
}

/* Reports the defaults that the parsed command line used. */
static void say_defaults(const lk_defaults *defaults) {
	const char *name, *text, *file;
	for (int i = 0; lk_defaults_used(defaults, i, &name, &text, &file); i++)
		fprintf(stderr, "lockstep: note: --%s %s is the default of %s\n", name, text, file);
}

static int main_run_verb(int argc, const char *const *argv, bool config) {
	lk_error err = {0};
	lk_args args;
	lk_defaults_places places;
	lk_defaults *defaults = NULL;
	const cli_command *command = main_find(argv[0], &err);
	/* init and doctor look at these files themselves. */
	cli_form_errors(argc, argv);
	config &= command && command->row != &lk_row_init && command->row != &lk_row_doctor;
	lk_defaults_find(&places);
	if (!command || (config && lk_defaults_open(places.at, places.count, &defaults, &err) != LK_OK))
		return cli_fail(&err);
	lk_status status =
		defaults ? lk_args_parse_defaults(command->verb, argc - 1, argv + 1, defaults, &args, &err)
				 : lk_args_parse(command->verb, argc - 1, argv + 1, &args, &err);
	if (status == LK_OK && defaults) say_defaults(defaults);
	int result = status == LK_OK ? main_run_parsed(command, &args) : cli_fail(&err);
	if (status == LK_OK) lk_args_free(&args);
	lk_defaults_free(defaults);
	return result;
}

/* The words after the program's name. */
static int main_run(int argc, const char *const *argv, bool config) {
	const char *word = argc ? argv[0] : NULL;
	const char *next = argc > 1 ? argv[1] : NULL;
	lk_error err = {0};
	if (!word) return overview(stderr);
	if (strcmp(word, "--data") == 0 || strncmp(word, "--data=", 7) == 0) {
		int taken = word[6] ? 1 : 2;
		const char *dir = word[6] ? word + 7 : next;
		if (!dir) {
			lk_fail(&err, LK_ERR_INPUT, "--data", "no folder is named");
			return cli_fail(&err);
		}
		if (lk_catalogue_open(dir, &err) != LK_OK) return cli_fail(&err);
		return main_run(argc - taken, argv + taken, config);
	}
	if (strcmp(word, "--no-config") == 0) return main_run(argc - 1, argv + 1, false);
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return main_help(NULL);
	if (strcmp(word, "help") == 0) return main_help(next);
	if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
		return main_version(argc - 1, argv + 1);
	if (strcmp(word, "--verbs") == 0) return list_verbs();
	if (strcmp(word, "--answers") == 0)
		return lk_answers_print(stdout, &err) == LK_OK ? CLI_OK : cli_fail(&err);
	if (strcmp(word, "--man") == 0) return man(next);
	if (strcmp(word, "--completion") == 0) return completion(next);
	if (strcmp(word, "--schema") == 0) return schema(next);
	if (word[0] == '-') return unknown_option(word);
	return main_run_verb(argc, argv, config);
}

int main(int argc, char **argv) {
	/* A reader that closes early (`| head`) ends the program silently, even if SIGPIPE was
	 * inherited as ignored. */
	signal(SIGPIPE, SIG_DFL);
	cli_hand_over(argv);
	errno = 0;
	int result = main_run(argc > 0 ? argc - 1 : 0, (const char *const *)argv + (argc > 0), true);
	bool of_program = (result & CLI_OF_PROGRAM) != 0, lost = ferror(stdout) != 0;
	int code = lost ? errno : 0; /* of the failed write, unless another call failed since */
	if (fflush(stdout) != 0 || (fclose(stdout) != 0 && errno != EBADF)) { /* EBADF: never opened */
		lost = true;
		code = errno;
	}
	if (lost) {
		if (result != CLI_WRONG && code)
			fprintf(stderr, "lockstep: standard output: cannot write: %s\n", strerror(code));
		else if (result != CLI_WRONG) fputs("lockstep: standard output: cannot write\n", stderr);
		if (!of_program) result = CLI_WRONG;
	}
	return result & ~CLI_OF_PROGRAM;
}
