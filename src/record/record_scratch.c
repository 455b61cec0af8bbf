/* record_scratch.c: the folder for an overlaid run's writes (layout in
 * src/recorder/overlay/overlay.h): made before, summed up and removed afterwards. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "system/listing.h"
#include "base/arena.h"
#include "record/record.h"
#include "base/check.h"
#include "base/text.h"
#include "base/sort.h"

/* TMPDIR is inside, and programs put sockets there, whose paths are limited to 107 bytes. */
enum {
	LONGEST_SCRATCH = 60,
	STATE_BYTES = 4096,
	MOST_LISTED = 10000,
	DEEPEST = 256,
	LONGEST_LINE = 4096
};

bool lk_record_is_guarded(const lk_record_request *request) {
	return request->guarded || request->scratch || request->delay_us > 0 ||
	       request->mode != LK_RECORD_MODE_RECORD;
}

/* ---- making it ---- */

static lk_status fail_scratch(const char *path, lk_error *err) {
	lk_fail(err, LK_ERR_IO, path, "cannot be made: %s", strerror(errno));
	return lk_hint(err, "--scratch names another folder for what the command writes");
}

lk_status lk_record_is_empty_folder(const char *path, bool *out, lk_error *err) {
	struct stat info;
	lk_listing listing;
	*out = false;
	if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode)) return LK_OK;
	LK_TRY(lk_listing_read(path, NULL, &listing, err));
	*out = listing.count == 0;
	lk_listing_free(&listing);
	return LK_OK;
}

static lk_status choose_scratch_folder(const lk_record_request *request, const char *folder,
                                       lk_record_scratch *scratch, lk_error *err) {
	scratch->private = !request->scratch;
	if (request->scratch) {
		if (mkdir(request->scratch, 0700) != 0 && errno != EEXIST)
			return fail_scratch(request->scratch, err);
		if (!realpath(request->scratch, scratch->path)) return fail_scratch(request->scratch, err);
		bool empty;
		LK_TRY(lk_record_is_empty_folder(scratch->path, &empty, err));
		if (empty) return LK_OK;
		lk_fail(err, LK_ERR_INPUT, request->scratch, "is not an empty folder");
		return lk_hint(err,
		               "name an empty folder with --scratch; it gets all that the command writes");
	}
	if (snprintf(scratch->path, sizeof scratch->path, "%s/scratch", folder) <= LONGEST_SCRATCH)
		return mkdir(scratch->path, 0700) == 0 ? LK_OK : fail_scratch(scratch->path, err);
	strcpy(scratch->path, "/tmp/lockstep-XXXXXX");
	return mkdtemp(scratch->path) ? LK_OK : fail_scratch(scratch->path, err);
}

/* `begun` has the time of the file system at which the run begins. */
static lk_status make_state_file(const char *path, lk_error *err) {
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	bool good = fd >= 0 && ftruncate(fd, STATE_BYTES) == 0;
	lk_status status = good ? LK_OK : fail_scratch(path, err);
	if (fd >= 0) close(fd);
	return status;
}

/* File systems know the time by the tick: whatever changes from here on is later than the file. */
static void wait_for_tick(const char *path) {
	struct stat info;
	struct timespec now;
	if (stat(path, &info) != 0) return;
	for (int tries = 0; tries < 20; tries++) {
		bool coarse = clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0;
		bool later = now.tv_sec != info.st_ctim.tv_sec ? now.tv_sec > info.st_ctim.tv_sec
		                                               : now.tv_nsec > info.st_ctim.tv_nsec;
		if (!coarse || later) return;
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	}
}

lk_status lk_record_scratch_open(const lk_record_request *request, const char *folder,
                                 lk_record_scratch *scratch, lk_error *err) {
	static const char *const parts[] = {"over", "gone", "list", "tmp"};
	char path[PATH_MAX + 16];
	*scratch = (lk_record_scratch){.path = ""};
	if (!lk_record_is_guarded(request)) return LK_OK;
	LK_TRY(choose_scratch_folder(request, folder, scratch, err));
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		snprintf(path, sizeof path, "%s/%s", scratch->path, parts[i]);
		if (mkdir(path, 0700) != 0) return fail_scratch(path, err);
	}
	snprintf(path, sizeof path, "%s/begun", scratch->path);
	LK_TRY(make_state_file(path, err));
	wait_for_tick(path);
	snprintf(path, sizeof path, "%s/state", scratch->path);
	return make_state_file(path, err);
}

/* ---- a tree ---- */

typedef lk_status (*visitor)(void *context, const char *path, const struct stat *info,
                             lk_error *err);

/* Visit files and folders, a folder after its contents. */
static lk_status visit_scratch_tree(const char *path, int depth, visitor visit, void *context,
                                    lk_error *err) {
	struct stat info;
	if (lstat(path, &info) != 0 || depth > DEEPEST) return LK_OK;
	DIR *dir = S_ISDIR(info.st_mode) ? opendir(path) : NULL;
	lk_status status = LK_OK;
	for (struct dirent *dirent; dir && status == LK_OK && (errno = 0, dirent = readdir(dir));) {
		char below[PATH_MAX];
		if (strcmp(dirent->d_name, ".") == 0 || strcmp(dirent->d_name, "..") == 0) continue;
		if (snprintf(below, sizeof below, "%s/%s", path, dirent->d_name) < (int)sizeof below)
			status = visit_scratch_tree(below, depth + 1, visit, context, err);
	}
	if (dir && status == LK_OK && errno)
		status = lk_fail(err, LK_ERR_IO, path, "cannot be listed: %s", strerror(errno));
	if (dir) closedir(dir);
	return status == LK_OK ? visit(context, path, &info, err) : status;
}

static lk_status remove_scratch_entry(void *context, const char *path, const struct stat *info,
                                      lk_error *err) {
	(void)context, (void)err;
	if (S_ISDIR(info->st_mode)) rmdir(path);
	else unlink(path);
	return LK_OK;
}

void lk_record_scratch_remove(lk_record_scratch *scratch) {
	lk_error ignored;
	if (scratch->private && *scratch->path)
		visit_scratch_tree(scratch->path, 0, remove_scratch_entry, NULL, &ignored);
}

void lk_record_scratch_free(lk_record_scratch *scratch) {
	lk_vec_free(&scratch->changes);
	lk_vec_free(&scratch->unguarded);
}

/* ---- what was changed ---- */

struct summing {
	lk_record_scratch *scratch;
	size_t skipped; /* prefix of a path: SCRATCH/over */
	lk_arena *arena;
};

static lk_status add_scratch_change(const struct summing *summing, const char *path, bool deleted,
                                    double bytes, lk_error *err) {
	if (summing->scratch->changes.count >= MOST_LISTED) return LK_OK;
	if (!lk_push(&summing->scratch->changes)) return lk_oom(err);
	lk_record_change *change = lk_last(&summing->scratch->changes);
	*change = (lk_record_change){
		.path = lk_arena_strdup(summing->arena, path), .deleted = deleted, .bytes = bytes};
	return change->path ? LK_OK : lk_oom(err);
}

static lk_status add_written_file(void *context, const char *path, const struct stat *info,
                                  lk_error *err) {
	LK_ASSERT(strlen(path) >= ((const struct summing *)context)->skipped);
	const struct summing *summing = context;
	if (S_ISDIR(info->st_mode)) return LK_OK;
	return add_scratch_change(summing, path + summing->skipped, false, (double)info->st_size, err);
}

/* A deletion is marked in a folder of the deleted file's name; a file written again is listed as
 * written. */
static lk_status add_deleted_file(void *context, const char *path, const struct stat *info,
                                  lk_error *err) {
	const struct summing *summing = context;
	char name[PATH_MAX], over[2 * PATH_MAX + 16];
	struct stat unused;
	size_t length = strlen(path);
	if (S_ISDIR(info->st_mode) || length < summing->skipped + 3 || path[length - 1] != '\001')
		return LK_OK;
	lk_copy(name, sizeof name, path + summing->skipped);
	name[length - summing->skipped - 2] = '\0';
	snprintf(over, sizeof over, "%s/over%s", summing->scratch->path, name);
	return lstat(over, &unused) == 0 ? LK_OK : add_scratch_change(summing, name, true, 0, err);
}

static bool is_known_unguarded(const lk_record_scratch *scratch, const char *line) {
	for (size_t i = 0; i < scratch->unguarded.count; i++)
		if (strcmp(scratch->unguarded.at[i], line) == 0) return true;
	return false;
}

static lk_status read_unguarded_log(lk_record_scratch *scratch, lk_arena *arena, lk_error *err) {
	char path[PATH_MAX + 16], line[LONGEST_LINE], shown[LONGEST_LINE];
	snprintf(path, sizeof path, "%s/unguarded", scratch->path);
	FILE *file = fopen(path, "re");
	int code = file ? 0 : errno;
	lk_status status = LK_OK;
	while (file && status == LK_OK && scratch->unguarded.count < MOST_LISTED &&
	       fgets(line, sizeof line, file)) {
		line[strcspn(line, "\n")] = '\0';
		lk_escape(line, shown, sizeof shown);
		if (!*line || is_known_unguarded(scratch, shown)) continue;
		if (!lk_push(&scratch->unguarded)) status = lk_oom(err);
		else if (!(*lk_last(&scratch->unguarded) = lk_arena_strdup(arena, shown)))
			status = lk_oom(err);
	}
	if (file && ferror(file)) code = EIO;
	if (file) fclose(file);
	if (status == LK_OK && code && code != ENOENT)
		status = lk_fail(err, LK_ERR_IO, path, "cannot be read: %s", strerror(code));
	return status;
}

LK_ORDER_BY_TEXT(compare_change_paths, lk_record_change, path)

lk_status lk_record_scratch_sum(lk_record_scratch *scratch, lk_arena *arena, lk_error *err) {
	LK_ASSERT(!*scratch->path || scratch->path[0] == '/');
	char path[PATH_MAX + 16];
	if (!*scratch->path) return LK_OK;
	struct summing sums = {
		.scratch = scratch, .skipped = strlen(scratch->path) + strlen("/over"), .arena = arena};
	snprintf(path, sizeof path, "%s/over", scratch->path);
	LK_TRY(visit_scratch_tree(path, 0, add_written_file, &sums, err));
	snprintf(path, sizeof path, "%s/gone", scratch->path); /* this path is not longer */
	LK_TRY(visit_scratch_tree(path, 0, add_deleted_file, &sums, err));
	lk_sort(scratch->changes.at, scratch->changes.count, sizeof *scratch->changes.at,
	        compare_change_paths);
	return read_unguarded_log(scratch, arena, err);
}
