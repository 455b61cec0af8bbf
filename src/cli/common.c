/* common.c: errors, colour and requests, the same for every verb. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

const char *const cli_formats[] = {"text", "md", "csv", "json", "jsonl", "sqlite", NULL};

int cli_fail(const lk_error *err) {
	char line[2048];
	fprintf(stderr, "lockstep: %s\n", lk_error_text(err, line, sizeof line));
	return CLI_WRONG;
}

bool cli_colour(void) {
	const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");
	if (no && *no) return false;
	return isatty(STDOUT_FILENO) && terminal && *terminal &&
	       !(terminal[0] == 'd' && terminal[1] == 'u');
}

lk_status cli_check_place(const char *path, lk_error *err) {
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

lk_status cli_check_places(const char *const *paths, int count, lk_error *err) {
	for (int i = 0; i < count; i++)
		if (paths[i]) LK_TRY(cli_check_place(paths[i], err));
	for (int i = 0; i < count; i++)
		for (int k = i + 1; k < count; k++)
			if (paths[i] && paths[k] && strcmp(paths[i], paths[k]) == 0) {
				lk_fail(err, LK_ERR_INPUT, paths[i], "two outputs have the same name");
				return lk_hint(err, "give each its own file");
			}
	return LK_OK;
}
