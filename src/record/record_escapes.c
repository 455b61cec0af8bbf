/* record_escapes.c: what an overlaid run has changed on the disk: a program without the preload
 * library (static, with another LD_PRELOAD, direct system calls) writes past the overlay. The files
 * below the command's working folder are looked at afterwards, by the time of their last change. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/text.h"
#include "record/record.h"
#include "system/listing.h"

enum { MOST_LOOKED_AT = 200000, MOST_NAMED = 20, DEEPEST = 64, DESCRIPTORS = 256 };

struct escapes {
	lk_record_scratch *scratch;
	lk_arena *arena;
	const char *folder; /* of the recordings */
	dev_t device;
	struct timespec begun;
	int looked_at, found;
};

static bool is_later(struct timespec a, struct timespec b) {
	return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

/* Files that are open here, such as standard output, were the command's to write. */
static bool is_open_here(const struct stat *info) {
	struct stat open;
	for (int fd = 0; fd < DESCRIPTORS; fd++)
		if (fstat(fd, &open) == 0 && open.st_dev == info->st_dev && open.st_ino == info->st_ino)
			return true;
	return false;
}

static lk_status add_line(struct escapes *escapes, const char *path, const char *what,
                          lk_error *err) {
	char shown[PATH_MAX * 2];
	lk_escape(path, shown, sizeof shown);
	if (++escapes->found > MOST_NAMED) return LK_OK;
	if (!lk_push(&escapes->scratch->unguarded)) return lk_oom(err);
	const char *line = lk_arena_printf(escapes->arena, "%s: %s", shown, what);
	*lk_last(&escapes->scratch->unguarded) = line;
	return line ? LK_OK : lk_oom(err);
}

static lk_status look_below(struct escapes *escapes, const char *folder, int depth, lk_error *err) {
	lk_listing listing;
	lk_status status = LK_OK;
	if (lk_listing_read(folder, NULL, &listing, NULL) != LK_OK) return LK_OK;
	for (size_t i = 0; i < listing.count && status == LK_OK; i++) {
		struct stat info;
		char path[PATH_MAX];
		if (++escapes->looked_at > MOST_LOOKED_AT) break;
		if (snprintf(path, sizeof path, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder,
		             listing.names[i]) >= (int)sizeof path ||
		    lstat(path, &info) != 0 || info.st_dev != escapes->device)
			continue;
		if (S_ISDIR(info.st_mode)) {
			bool own =
				strcmp(path, escapes->folder) == 0 || strcmp(path, escapes->scratch->path) == 0;
			if (!own && depth < DEEPEST) status = look_below(escapes, path, depth + 1, err);
		} else if (is_later(info.st_ctim, escapes->begun) && !is_open_here(&info)) {
			status = add_line(escapes, path,
			                  "changed on the disk during the run, past the guard or by another "
			                  "program",
			                  err);
		}
	}
	lk_listing_free(&listing);
	return status;
}

lk_status lk_record_find_escapes(lk_record_scratch *scratch, const char *folder, lk_arena *arena,
                                 lk_error *err) {
	char cwd[PATH_MAX], own[PATH_MAX] = "", state[PATH_MAX + 16];
	struct stat info;
	struct escapes escapes = {.scratch = scratch, .arena = arena, .folder = own};
	snprintf(state, sizeof state, "%s/begun", scratch->path);
	if (!*scratch->path || !getcwd(cwd, sizeof cwd) || stat(state, &info) != 0) return LK_OK;
	escapes.begun = info.st_ctim;
	if (stat(cwd, &info) != 0) return LK_OK;
	escapes.device = info.st_dev;
	(void)!realpath(folder, own);
	LK_TRY(look_below(&escapes, cwd, 0, err));
	struct escapes rest = escapes;
	rest.found = 0;
	if (escapes.found > MOST_NAMED)
		LK_TRY(add_line(
			&rest, cwd,
			lk_arena_printf(arena, "%d more files changed in it", escapes.found - MOST_NAMED),
			err));
	if (escapes.looked_at > MOST_LOOKED_AT)
		return add_line(&rest, cwd, "has more files than are looked at for changes", err);
	return LK_OK;
}
