/* init.c: finds lockstep.toml for every verb; `lockstep init` writes it. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "lockstep/predict.h"

static const char *const config_name = "lockstep.toml";

/* Writes "HOME/lockstep.toml"; false: no home folder. */
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
	FILE *out = fopen(path, "wx"); /* an existing file is never overwritten */
	if (!out) {
		int code = errno;
		lk_fail(&err, LK_ERR_IO, path, "cannot write: %s", strerror(code));
		if (code == EEXIST) lk_hint(&err, "change it, or remove it first");
		return cli_fail(&err);
	}
	lk_defaults_write(request, out);
	bool wrong = ferror(out) != 0;
	if ((fclose(out) != 0) | wrong) {
		remove(path);
		lk_fail(&err, LK_ERR_IO, path, "cannot write");
		return cli_fail(&err);
	}
	printf("%s\n", path);
	return CLI_OK;
}

/* Predicts a small step on one GPU, which reads the defaults as later questions do. */
static lk_status init_try(const char *model, const char *gpu, const char *stack,
                          const char *calibration, lk_error *err) {
	lk_prediction *prediction = NULL;
	lk_predict_request step = {.model = model,
	                           .gpu = gpu ? gpu : "h100-sxm",
	                           .stack = stack,
	                           .calibration = calibration,
	                           .no_fixes = true};
	lk_status status = lk_predict(&step, &prediction, err);
	if (status != LK_OK && strcmp(err->where, "--gpus") == 0) { /* "8xh100" states the number */
		step.gpus = 1;
		status = lk_predict(&step, &prediction, err);
	}
	lk_predict_free(prediction);
	return status;
}

/* Refuses defaults that every later question would refuse: unknown names, missing files. */
static lk_status init_check(const lk_init_request *request, lk_error *err) {
	FILE *prices = request->prices ? fopen(request->prices, "r") : NULL;
	if (request->prices && !prices) {
		lk_fail(err, LK_ERR_IO, request->prices, "cannot open: %s", strerror(errno));
		return lk_hint(err, "check the path");
	}
	if (prices) fclose(prices);
	if (!request->gpu && !request->stack && !request->calibration) return LK_OK;
	if (init_try("gpt2", request->gpu, request->stack, request->calibration, err) == LK_OK)
		return LK_OK;
	if (strcmp(err->where, "--stack") != 0) return err->status;
	lk_error unused; /* some stacks train only recommendation models */
	return init_try("dlrm-dcnv2", "8xh100-sxm", request->stack, NULL, &unused) == LK_OK
	           ? LK_OK
	           : err->status;
}

int cli_init(lk_args *args) {
	lk_init_request request = {0};
	lk_error err = {0};
	char home[PATH_MAX];
	if (lk_args_fill(args, 0, &request, &err) != LK_OK) return cli_fail(&err);
	if (init_check(&request, &err) != LK_OK) return cli_fail(&err);
	if (!request.home) return init_write(&request, config_name);
	if (config_of_home(home)) return init_write(&request, home);
	lk_fail(&err, LK_ERR_INPUT, "--home", "HOME names no folder");
	return cli_fail(&err);
}
