/* data.h: where the public data lie: the folder that LOCKSTEP_DATA names, or shared/data beside the
 * checkout. */
#ifndef LK_TEST_DATA_H
#define LK_TEST_DATA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The path of a file or folder of the data, there or not. It stays until sixteen more have been
 * asked for. */
static inline const char *data_path(const char *name) {
	static char paths[16][600];
	static unsigned turn;
	const char *folder = getenv("LOCKSTEP_DATA");
	char *out = paths[turn++ % 16];
	snprintf(out, sizeof paths[0], "%s/%s", folder && *folder ? folder : "../shared/data", name);
	return out;
}

/* Whether it is there; says so if not. */
static inline bool has_data(const char *path) {
	if (access(path, R_OK) == 0) return true;
	print_message("%s is not there: skipped; set LOCKSTEP_DATA\n", path);
	return false;
}

/* The path of data that a test cannot do without: it is skipped where they are not there. */
static inline const char *need_data(const char *name) {
	const char *path = data_path(name);
	if (!has_data(path)) skip();
	return path;
}

#endif
