/* init.c: lockstep.toml: found for every verb, and `lockstep init`, which writes it. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const char *const config_name = "lockstep.toml";

/* "HOME/lockstep.toml"; false without a home folder. */
static bool config_of_home(char path[PATH_MAX]) {
	const char *home = getenv("HOME");
	if (!home || !*home) return false;
	return snprintf(path, PATH_MAX, "%s/%s", home, config_name) < PATH_MAX;
}

int cli_defaults_find(cli_defaults_paths *out) {
	out->at[0] = config_name;
	out->at[1] = out->home;
	return config_of_home(out->home) ? 2 : 1;
}

lk_status cli_defaults_open(lk_defaults **out, lk_error *err) {
	cli_defaults_paths paths;
	int count = cli_defaults_find(&paths);
	return lk_defaults_open(paths.at, count, out, err);
}

void cli_defaults_say(const lk_defaults *defaults) {
	const char *name, *text, *file;
	for (int i = 0; lk_defaults_used(defaults, i, &name, &text, &file); i++)
		fprintf(stderr, "lockstep: note: --%s %s is the default of %s\n", name, text, file);
}

/* ---- init ---- */

static int init_write(const lk_init_request *request, const char *path) {
	lk_error err = {0};
	FILE *out = fopen(path, "wx"); /* a file that is there is the user's */
	if (!out) {
		int code = errno;
		lk_fail(&err, LK_ERR_IO, path, "cannot write: %s", strerror(code));
		if (code == EEXIST) lk_hint(&err, "change it, or remove it first");
		return cli_fail(&err);
	}
	lk_defaults_write(request, out);
	bool wrong = ferror(out) != 0;
	if ((fclose(out) != 0) | wrong) {
		lk_fail(&err, LK_ERR_IO, path, "cannot write");
		return cli_fail(&err);
	}
	printf("%s\n", path);
	return CLI_OK;
}

static int init_run(lk_args *args) {
	lk_init_request request = {0};
	lk_error err = {0};
	char home[PATH_MAX];
	if (lk_args_fill(args, 0, &request, &err) != LK_OK) return cli_fail(&err);
	if (!request.home) return init_write(&request, config_name);
	if (config_of_home(home)) return init_write(&request, home);
	lk_fail(&err, LK_ERR_INPUT, "--home", "HOME names no folder");
	return cli_fail(&err);
}

const cli_command cli_init = {&lk_init_verb, init_run};
