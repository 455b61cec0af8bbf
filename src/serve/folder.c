/* folder.c: private folders, made and removed with their files. */
#include "serve/serve_internal.h"

#include <ctype.h>
#include <stdbool.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

lk_status lk_folder_make(char path[LK_FOLDER_SIZE], lk_error *err) {
	const char *below = getenv("TMPDIR");
	int length = snprintf(path, LK_FOLDER_SIZE, "%s/lockstep-serve-XXXXXX",
	                      below && *below ? below : "/tmp");
	if (length < 0 || length >= LK_FOLDER_SIZE - 32)
		return lk_fail(err, LK_ERR_INPUT, "TMPDIR", "is too long");
	if (mkdtemp(path)) return LK_OK;
	lk_fail(err, LK_ERR_IO, path, "cannot be made: %s", strerror(errno));
	return lk_hint(err, "set TMPDIR to a folder that can be written");
}

lk_status lk_folder_below(const char *parent, unsigned long long number, char path[LK_FOLDER_SIZE],
                          lk_error *err) {
	int length = snprintf(path, LK_FOLDER_SIZE, "%s/%llu", parent, number);
	if (length < 0 || length >= LK_FOLDER_SIZE)
		return lk_fail(err, LK_ERR_IO, parent, "is too long");
	if (mkdir(path, 0700) == 0) return LK_OK;
	return lk_fail(err, LK_ERR_IO, path, "cannot be made: %s", strerror(errno));
}

void lk_folder_remove(const char *path) {
	DIR *folder = opendir(path);
	if (!folder) return;
	for (const struct dirent *entry; (entry = readdir(folder));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			unlinkat(dirfd(folder), entry->d_name, 0);
	closedir(folder);
	rmdir(path);
}

void lk_folder_name(const char *sent, char *name, size_t size) {
	const char *begin = sent;
	for (const char *p = sent; *p; p++)
		if (*p == '/' || *p == '\\') begin = p + 1;
	while (*begin == '.') begin++;
	/* The ending tells the kind of file, so a name that is too long loses its beginning. */
	size_t length = strlen(begin), used = 0;
	if (length >= size) begin += length - size + 1;
	for (; *begin && used + 1 < size; begin++) {
		unsigned char c = (unsigned char)*begin;
		bool plain = c < 128 && (isalnum(c) || c == '_' || c == '-' || c == '.');
		name[used] = plain && (used > 0 || c != '-') ? (char)c : '_';
		used++;
	}
	name[used] = '\0';
	if (used == 0) snprintf(name, size, "trace");
}
