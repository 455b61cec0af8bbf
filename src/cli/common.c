/* common.c: errors, colour and outputs, the same for every verb. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "io/json.h"
#include "lockstep/view.h"

static bool json_errors;

void cli_form_errors(int argc, const char *const *argv) {
	static const char *const spellings[] = {"-ojson", "-o=json", "--output=json"};
	bool asked = false;
	for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
		bool two = strcmp(argv[i], "-o") == 0 || strcmp(argv[i], "--output") == 0;
		if (two && i + 1 < argc) asked = strcmp(argv[i + 1], "json") == 0;
		for (size_t k = 0; k < sizeof spellings / sizeof *spellings; k++)
			asked |= strcmp(argv[i], spellings[k]) == 0;
	}
	json_errors = asked;
}

void cli_answers(void) {
	json_errors = false;
}

int cli_fail(const lk_error *err) {
	char line[2048];
	lk_json_writer w;
	fprintf(stderr, "lockstep: %s\n", lk_error_text(err, line, sizeof line));
	if (!json_errors) return CLI_WRONG;
	lk_json_begin(&w, stdout, false);
	lk_json_object(&w, NULL);
	lk_json_put_error(&w, "error", err);
	lk_json_object_end(&w);
	lk_json_finish(&w, NULL);
	json_errors = false; /* one document */
	return CLI_WRONG;
}

int cli_met(const char *met, int status) {
	if (!*met) return status;
	fprintf(stderr, "lockstep: --fail-if %s\n", met);
	return CLI_NO;
}

void cli_warn_failed(const char *failed_check) {
	char line[1024];
	if (failed_check)
		fprintf(stderr, "lockstep: warning: %s\n",
		        lk_failed_check_text(failed_check, line, sizeof line));
}

bool cli_colour(void) {
	const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");
	if (no && *no) return false;
	return isatty(STDOUT_FILENO) && terminal && *terminal &&
	       !(terminal[0] == 'd' && terminal[1] == 'u');
}

static lk_status check_place(const char *path, lk_error *err) {
	struct stat found;
	char folder[PATH_MAX];
	if (stat(path, &found) == 0) {
		if (S_ISDIR(found.st_mode))
			return lk_fail(err, LK_ERR_IO, path, "cannot write: %s", strerror(EISDIR));
		return LK_OK;
	}
	const char *slash = strrchr(path, '/');
	size_t length = slash ? (size_t)(slash - path) + 1 : 0;
	if (length == 0 || length >= sizeof folder) return LK_OK;
	memcpy(folder, path, length);
	folder[length] = '\0';
	if (stat(folder, &found) == 0) return LK_OK;
	int code = errno;
	lk_fail(err, LK_ERR_IO, path, "cannot write: %s", strerror(code));
	return code == ENOENT ? lk_hint(err, "does the folder exist?") : LK_ERR_IO;
}

enum { OUTPUT_FILES = 7 }; /* of lk_outputs */

static lk_status check_files(const char *const *paths, int count, lk_error *err) {
	for (int i = 0; i < count; i++)
		if (paths[i]) LK_TRY(check_place(paths[i], err));
	for (int i = 0; i < count; i++)
		for (int k = i + 1; k < count; k++)
			if (paths[i] && paths[k] && strcmp(paths[i], paths[k]) == 0) {
				lk_fail(err, LK_ERR_INPUT, paths[i], "two outputs have the same name");
				return lk_hint(err, "give each its own file");
			}
	return LK_OK;
}

static bool cli_ends_in(const char *path, const char *ending) {
	size_t length = strlen(path), tail = strlen(ending);
	return length > tail && strcmp(path + length - tail, ending) == 0;
}

lk_status cli_read(lk_args *args, void *request, lk_outputs *outputs, const lk_verb_row *row,
                   const lk_plan_team *team, lk_error *err) {
	LK_TRY(lk_args_fill(args, 0, request, err));
	LK_TRY(lk_args_fill_outputs(args, outputs, err));
	if (row && !lk_args_given(args, "output")) outputs->format = row->format;
	LK_TRY(lk_conditions_check(outputs->fail_if, err));
	if (outputs->resume && !team) {
		lk_fail(err, LK_ERR_INPUT, "--resume", "only lockstep-mpi keeps finished parts");
		return lk_hint(err, "run mpirun -n K lockstep-mpi %s ..., or leave it out",
		               args->verb->name);
	}
	if (outputs->charts && !cli_ends_in(outputs->charts, ".svg") &&
	    !cli_ends_in(outputs->charts, ".svg.gz") && !cli_ends_in(outputs->charts, ".png")) {
		lk_fail(err, LK_ERR_INPUT, outputs->charts, "charts have the forms .svg and .png");
		return lk_hint(err, "name a file with one of these endings");
	}
	if (outputs->format == LK_OUTPUT_SQLITE && !outputs->path) {
		lk_fail(err, LK_ERR_INPUT, "--output", "the format sqlite needs a file");
		return lk_hint(err, "add --file NAME.sqlite");
	}
	const char *paths[OUTPUT_FILES + LK_VERB_PATHS] = {
		outputs->path,   outputs->html,  outputs->charts, outputs->trace,
		outputs->folded, outputs->graph, outputs->goal};
	int count = OUTPUT_FILES;
	for (int i = 0; row && i < LK_VERB_PATHS && row->paths[i]; i++)
		paths[count++] =
			*(const char *const *)(const void *)((const char *)request + row->paths[i] - 1);
	return check_files(paths, count, err);
}

/* What --emit writes has one form and is no row of a table. */
lk_status cli_check_emit(const char *target, const lk_outputs *outputs, lk_error *err) {
	if (!target || outputs->format == LK_OUTPUT_TEXT) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--emit", "a launch line is text and has no other --output format");
	return lk_hint(err, "leave out one of them");
}

lk_status cli_write_emitted(const lk_emitted *emitted, const char *path, lk_error *err) {
	LK_TRY(lk_text_save(emitted->text, path, stdout, err));
	for (int i = 0; i < emitted->note_count; i++)
		fprintf(stderr, "lockstep: note: %s\n", emitted->notes[i]);
	return LK_OK;
}
