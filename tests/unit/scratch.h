/* scratch.h: temporary folders and files of tests. */
#ifndef LK_TEST_SCRATCH_H
#define LK_TEST_SCRATCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- folders ---- */

/* An empty folder; its path, which is `out`. */
static inline char *new_folder(char out[64]) {
	strcpy(out, "/tmp/lockstep-test-XXXXXX");
	assert_non_null(mkdtemp(out));
	return out;
}

static inline int remove_entry(const char *path, const struct stat *info, int kind,
                               struct FTW *place) {
	(void)info, (void)kind, (void)place;
	return remove(path);
}

/* With all that is in it, without following links; 0 or -1. */
static inline int remove_folder(const char *folder) {
	return nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* The folder of a group of tests, between its setup and its teardown. */
static char scratch[64] __attribute__((unused));

static inline int make_scratch(void **state) {
	(void)state;
	new_folder(scratch);
	return 0;
}

static inline int remove_scratch(void **state) {
	(void)state;
	return remove_folder(scratch);
}

/* ---- files ---- */

/* An empty file whose name ends as told; its path, which is `out`. */
static inline char *new_file(char out[64], const char *ending) {
	snprintf(out, 64, "/tmp/lockstep-test-XXXXXX%s", ending);
	int fd = mkstemps(out, (int)strlen(ending));
	assert_true(fd >= 0);
	close(fd);
	return out;
}

static inline void write_bytes(const char *path, const void *bytes, size_t size) {
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static inline void write_text(const char *path, const char *text) {
	write_bytes(path, text, strlen(text));
}

/* The path of a text that is now in a folder. It stays until four more have been written. */
static inline const char *write_in(const char *folder, const char *name, const char *text) {
	static char paths[4][400];
	static unsigned turn;
	char *path = paths[turn++ % 4];
	snprintf(path, sizeof paths[0], "%s/%s", folder, name);
	write_text(path, text);
	return path;
}

#endif
