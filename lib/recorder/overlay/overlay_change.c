/* overlay_change.c: changes in the scratch folder: files are copied there before they are written
 * to, deletions are marked, changed folders are listed in the program's view. */
#include "recorder/overlay/overlay.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

/* ---- raw ---- */

static int error_of_syscall(long result) {
	return result < 0 ? errno : 0;
}
static int mkdir_raw(const char *path, mode_t mode) {
	return error_of_syscall(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
static bool stat_raw(const char *path, struct stat *out) {
	return syscall(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW) == 0;
}
static bool may_write_path(const char *path) {
	return syscall(SYS_faccessat, AT_FDCWD, path, W_OK) == 0;
}

static const char *fail_with_errno(int code) {
	errno = code;
	return NULL;
}
static const char *give_path(const char *path, lp_room *room) {
	char *out = lp_room_take(room, PATH_MAX);
	return out ? strcpy(out, path) : NULL;
}
static void note_overlay_change(void) {
	LP_ASSERT(lp_overlay.state != NULL);
	__atomic_fetch_add(&lp_overlay.state->changes, 1, __ATOMIC_RELEASE);
}
static bool is_untouched(void) {
	return lp_overlay.refuses || __atomic_load_n(&lp_overlay.state->changes, __ATOMIC_ACQUIRE) == 0;
}

/* ---- copies ---- */

/* Make the folders above a path, in SCRATCH/`folder`, with their permissions on the disk. */
static int make_scratch_folders(const char *folder, const char *path, bool all) {
	LP_ASSERT(path[0] == '/');
	struct paths {
		char part[PATH_MAX], made[PATH_MAX];
	};
	struct stat info;
	LP_TAKE(struct paths, paths, ENOMEM);
	char *part = paths->part, *made = paths->made;
	if (strlen(path) >= PATH_MAX) return ENAMETOOLONG;
	strcpy(part, path);
	for (char *at = part; at && *at;) {
		at = strchr(at + 1, '/');
		if (!at && !all) break;
		if (at) *at = '\0';
		mode_t mode =
			stat_raw(part, &info) && S_ISDIR(info.st_mode) ? (info.st_mode & 07777) | 0700 : 0777;
		if (!lp_overlay_path_in(folder, part, made)) return ENAMETOOLONG;
		int code = mkdir_raw(made, mode);
		if (code && code != EEXIST) return code;
		if (at) *at = '/';
	}
	return 0;
}

static int copy_file_bytes(int from, int to) {
	static const size_t MOST = 1 << 30;
	struct piece {
		char bytes[1 << 14];
	};
	LP_TAKE(struct piece, buffer, ENOMEM);
	long got;
	while ((got = syscall(SYS_copy_file_range, from, NULL, to, NULL, MOST, 0)) > 0) {
	}
	if (got == 0) return 0;
	/* not between these file systems, or not of this kind: continue where it stopped */
	while ((got = syscall(SYS_read, from, buffer->bytes, sizeof buffer->bytes)) > 0)
		for (long done = 0, put; done < got; done += put)
			if ((put = syscall(SYS_write, to, buffer->bytes + done, (size_t)(got - done))) <= 0)
				return put < 0 ? errno : EIO;
	return got < 0 ? errno : 0;
}

static int copy_whole_file(const char *path, const char *to, const struct stat *info, bool empty) {
	int from = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (from < 0 && !empty) return errno;
	int out = (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int code = out < 0 ? errno : 0;
	if (!code && !empty) code = copy_file_bytes(from, out);
	struct timespec times[2] = {info->st_atim, info->st_mtim};
	if (!code) {
		if (syscall(SYS_fchown, out, info->st_uid, info->st_gid) != 0)
			errno = 0; /* only root can */
		code = error_of_syscall(syscall(SYS_fchmod, out, info->st_mode & 07777));
		syscall(SYS_utimensat, out, NULL, times, 0);
	}
	if (from >= 0) syscall(SYS_close, from);
	if (out >= 0) syscall(SYS_close, out);
	return code;
}

static int copy_symbolic_link(const char *path, const char *to) {
	LP_TAKE(lp_path, text, ENOMEM);
	long length = syscall(SYS_readlinkat, AT_FDCWD, path, *text, sizeof *text - 1);
	if (length < 0) return errno;
	(*text)[length] = '\0';
	return error_of_syscall(syscall(SYS_symlinkat, *text, AT_FDCWD, to));
}

/* Copy a file of the disk into SCRATCH/over, completely or not at all: another process may want the
 * same. */
static int copy_to_scratch(const lp_place *place, bool empty) {
	LP_ASSERT(!place->free);
	struct paths {
		char to[PATH_MAX], part[PATH_MAX];
	};
	struct stat info;
	char process[LP_DIGITS], thread[LP_DIGITS];
	if (place->above) return 0;
	LP_TAKE(struct paths, paths, ENOMEM);
	char *to = paths->to, *part = paths->part;
	int code = make_scratch_folders("over", place->path, S_ISDIR(place->type));
	if (code || S_ISDIR(place->type)) {
		note_overlay_change();
		return code;
	}
	if (!lp_overlay_path_in("over", place->path, to)) return ENAMETOOLONG;
	if (!stat_raw(place->path, &info)) return errno;
	lp_join(part, PATH_MAX, lp_overlay.scratch, "/part-", lp_digits((uint64_t)getpid(), process),
	        "-", lp_digits((uint64_t)syscall(SYS_gettid), thread), LP_END);
	code = S_ISLNK(info.st_mode) ? copy_symbolic_link(place->path, part)
	                             : copy_whole_file(place->path, part, &info, empty);
	if (!code) code = error_of_syscall(syscall(SYS_linkat, AT_FDCWD, part, AT_FDCWD, to, 0));
	syscall(SYS_unlinkat, AT_FDCWD, part, 0);
	note_overlay_change();
	return code == EEXIST ? 0 : code;
}

/* Mark the disk's file of this name, with everything below it, as deleted. */
static int mark_deleted(const char *path) {
	LP_ASSERT(path[0] == '/');
	LP_TAKE(lp_path, mark, ENOMEM);
	int code = make_scratch_folders("gone", path, true);
	if (code) return code;
	if (!lp_join(*mark, PATH_MAX, lp_overlay.scratch, "/gone", path, "/\001", LP_END))
		return ENAMETOOLONG;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, *mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) return errno;
	syscall(SYS_close, fd);
	note_overlay_change();
	return 0;
}

/* ---- folders in the program's view ---- */

/* Visit the names of a folder in the program's view; stops if `visit` returns other than 0. */
typedef int (*visitor)(void *context, const char *path, const lp_place *place);

static int visit_folder_names(const char *folder, const char *logical, bool above, visitor visit,
                              void *context) {
	struct visit {
		char names[4096], path[PATH_MAX];
		lp_place place;
	};
	LP_TAKE(struct visit, at_work, ENOMEM);
	char *names = at_work->names, *path = at_work->path;
	lp_place *place = &at_work->place;
	int code = 0,
		fd = (int)syscall(SYS_openat, AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) return errno;
	for (long got;
	     !code && (got = syscall(SYS_getdents64, fd, names, sizeof at_work->names)) > 0;) {
		for (long at = 0; !code && at < got;) {
			const struct dirent64 *dirent64 = (const void *)(names + at);
			at += dirent64->d_reclen;
			if (strcmp(dirent64->d_name, ".") == 0 || strcmp(dirent64->d_name, "..") == 0) continue;
			if (!lp_join(path, PATH_MAX, strcmp(logical, "/") == 0 ? "" : logical, "/",
			             dirent64->d_name, LP_END))
				continue;
			if (lp_overlay_find(AT_FDCWD, path, false, place) != 0 || !(place->type || place->free))
				continue;
			if (above || !place->above) code = visit(context, path, place);
		}
	}
	syscall(SYS_close, fd);
	return code;
}

static int visit_merged_folder(const lp_place *place, visitor visit, void *context) {
	LP_TAKE(lp_path, over, ENOMEM);
	int code = 0;
	if (place->above && lp_overlay_path_in("over", place->path, *over))
		code = visit_folder_names(*over, place->path, true, visit, context);
	if (!code && place->below)
		code = visit_folder_names(place->path, place->path, false, visit, context);
	return code;
}

static int stop_at_first_name(void *context, const char *path, const lp_place *place) {
	(void)context, (void)path, (void)place;
	return ENOTEMPTY;
}

/* Make an entry of the same name and kind; its content is never read. */
static int make_list_entry(void *context, const char *path, const lp_place *place) {
	LP_TAKE(lp_path, at, ENOMEM);
	char *to = *at;
	if (!lp_join(to, PATH_MAX, (const char *)context, strrchr(path, '/'), LP_END))
		return ENAMETOOLONG;
	if (place->free || S_ISDIR(place->type)) return mkdir_raw(to, 0700);
	if (S_ISLNK(place->type)) return error_of_syscall(syscall(SYS_symlinkat, "?", AT_FDCWD, to));
	return error_of_syscall(
		syscall(SYS_mknodat, AT_FDCWD, to,
	            S_ISREG(place->type) || S_ISFIFO(place->type) || S_ISSOCK(place->type)
	                ? (place->type & S_IFMT) | 0600
	                : S_IFREG | 0600,
	            0));
}

static const char *make_listing(const lp_place *place, lp_room *room) {
	LP_ASSERT(!place->free && S_ISDIR(place->type));
	char number[48], digits[LP_DIGITS], *out = lp_room_take(room, PATH_MAX);
	lp_join(number, sizeof number, "list/",
	        lp_digits(__atomic_add_fetch(&lp_overlay.state->lists, 1, __ATOMIC_RELAXED), digits),
	        LP_END);
	if (!out) return NULL;
	if (!lp_overlay_path_in(number, "", out)) return fail_with_errno(ENAMETOOLONG);
	int code = mkdir_raw(out, 0700);
	if (!code) code = make_scratch_folders(number, place->path, true);
	if (!code && !lp_overlay_path_in(number, place->path, out)) code = ENAMETOOLONG;
	if (!code) code = visit_merged_folder(place, make_list_entry, out);
	return code ? fail_with_errno(code) : out;
}

/* Whether a folder of the disk is unchanged: nothing of it is in the scratch folder. */
static bool is_unchanged_folder(const lp_place *place) {
	LP_TAKE(lp_path, path, false);
	struct stat info;
	return !place->above && lp_overlay_path_in("gone", place->path, *path) &&
	       !stat_raw(*path, &info);
}

/* ---- existing files ---- */

static const char *present_path(const lp_place *place, lp_room *room) {
	if (place->free || !place->above) return give_path(place->path, room);
	char *out = lp_room_take(room, PATH_MAX);
	if (!out) return NULL;
	return lp_overlay_path_in("over", place->path, out) ? out : fail_with_errno(ENAMETOOLONG);
}

const char *lp_overlay_read(int at, const char *path, bool follow, lp_room *room) {
	int kept = errno;
	if (!path) return fail_with_errno(EFAULT);
	if (!*path || is_untouched()) return path;
	LP_TAKE(lp_place, p, NULL);
	int code = lp_overlay_find(at, path, follow, p);
	if (!code && !p->free && !p->type) code = ENOENT;
	if (code) return fail_with_errno(code);
	errno = kept;
	return present_path(p, room);
}

static const char *open_for_reading(int at, const char *path, int flags, lp_room *room) {
	if (is_untouched()) return path;
	LP_TAKE(lp_place, p, NULL);
	int code = lp_overlay_find(at, path, !(flags & O_NOFOLLOW), p);
	if (!code && !p->free && !p->type) code = ENOENT;
	if (code) return fail_with_errno(code);
	if (!p->free && S_ISDIR(p->type) && p->below && !is_unchanged_folder(p) && !(flags & O_PATH))
		return make_listing(p, room);
	return present_path(p, room);
}

const char *lp_overlay_change(int at, const char *path, bool follow, lp_room *room) {
	if (!path) return fail_with_errno(EFAULT);
	if (!*path) return path;
	if (lp_overlay.refuses) return fail_with_errno(EROFS);
	LP_TAKE(lp_place, p, NULL);
	int code = lp_overlay_find(at, path, follow, p);
	if (!code && !p->free && !p->type) code = ENOENT;
	if (!code && !p->free) code = copy_to_scratch(p, false);
	p->above = true;
	return code ? fail_with_errno(code) : present_path(p, room);
}

/* ---- new files ---- */

/* Whether names may be added to and removed from the folder of a path. */
static int may_change_folder(const lp_place *place) {
	LP_TAKE(lp_path, at, ENOMEM);
	char *folder = strcpy(*at, place->path);
	*strrchr(folder, '/') = '\0';
	struct stat info;
	if (!stat_raw(*folder ? folder : "/", &info)) return 0; /* it is only in the scratch folder */
	if (may_write_path(*folder ? folder : "/")) return 0;
	return errno == EROFS ? 0 : errno;
}

static int prepare_new_name(const lp_place *place) {
	int code = may_change_folder(place);
	if (!code) code = make_scratch_folders("over", place->path, false);
	note_overlay_change();
	return code;
}

const char *lp_overlay_make(int at, const char *path, bool folder, lp_room *room) {
	if (!path) return fail_with_errno(EFAULT);
	if (!*path) return path;
	if (lp_overlay.refuses) return fail_with_errno(EROFS);
	LP_TAKE(lp_place, p, NULL);
	int code = lp_overlay_find(at, path, false, p);
	if (!code && !p->free && p->type) code = EEXIST;
	if (!code && !folder && path[strlen(path) - 1] == '/') code = ENOENT;
	if (!code && !p->free) code = prepare_new_name(p);
	p->above = true;
	return code ? fail_with_errno(code) : present_path(p, room);
}

/* ---- opening ---- */

/* For an existing file that is to be written to. */
static int prepare_existing_file(const lp_place *place, int flags) {
	if ((flags & O_CREAT) && (flags & O_EXCL)) return EEXIST;
	if (!S_ISREG(place->type) || place->above)
		return 0; /* pipes and devices are used directly; for folders the system reports it */
	if (!may_write_path(place->path)) return errno;
	return copy_to_scratch(place, flags & O_TRUNC);
}

static const char *open_for_writing(int at, const char *path, int flags, lp_room *room) {
	bool anew = (flags & O_CREAT) && (flags & O_EXCL), unnamed = (flags & O_TMPFILE) == O_TMPFILE;
	if (lp_overlay.refuses) return fail_with_errno(EROFS);
	LP_TAKE(lp_place, p, NULL);
	size_t length = strlen(path);
	if (flags & O_CREAT && path[length - 1] == '/' &&
	    length < PATH_MAX) { /* a folder, whether it exists or not */
		char *folder = lp_room_take(room, PATH_MAX);
		if (!folder) return NULL;
		memcpy(folder, path, length);
		while (length > 1 && folder[length - 1] == '/') length--;
		folder[length] = '\0';
		int code = lp_overlay_find(at, folder, false, p);
		return fail_with_errno(code ? code : EISDIR);
	}
	int code = lp_overlay_find(at, path, !(flags & O_NOFOLLOW) && !anew, p);
	if (code) return fail_with_errno(code);
	if (p->free) return present_path(p, room);
	if (unnamed && S_ISDIR(p->type)) code = copy_to_scratch(p, false);
	else if (unnamed) code = p->type ? ENOTDIR : ENOENT;
	else if (p->type) code = prepare_existing_file(p, flags);
	else code = flags & O_CREAT ? prepare_new_name(p) : ENOENT;
	if (!p->type || unnamed || S_ISREG(p->type)) p->above = true;
	return code ? fail_with_errno(code) : present_path(p, room);
}

const char *lp_overlay_open(int at, const char *path, int flags, lp_room *room) {
	int kept = errno;
	if (!path) return fail_with_errno(EFAULT);
	if (!*path) return path;
	bool writes =
		!(flags & O_PATH) && ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)));
	const char *opened =
		writes ? open_for_writing(at, path, flags, room) : open_for_reading(at, path, flags, room);
	if (opened) errno = kept;
	return opened;
}

/* ---- deleting and renaming ---- */

static int remove_scratch_copy(const lp_place *place) {
	LP_TAKE(lp_path, over, ENOMEM);
	if (!place->above) return 0;
	if (!lp_overlay_path_in("over", place->path, *over)) return ENAMETOOLONG;
	return error_of_syscall(
		syscall(SYS_unlinkat, AT_FDCWD, *over, S_ISDIR(place->type) ? AT_REMOVEDIR : 0));
}

static int remove_merged_file(const lp_place *place, bool folder) {
	if (!place->type) return ENOENT;
	if (folder != (bool)S_ISDIR(place->type)) return folder ? ENOTDIR : EISDIR;
	int code = may_change_folder(place);
	if (!code && folder) code = visit_merged_folder(place, stop_at_first_name, NULL);
	if (!code) code = remove_scratch_copy(place);
	return !code && place->below ? mark_deleted(place->path) : code;
}

int lp_overlay_remove(int at, const char *path, bool folder) {
	LP_TAKE(lp_place, p, -1);
	int code = lp_overlay.refuses ? EROFS : lp_overlay_find(at, path, false, p);
	if (!code && p->free)
		code =
			error_of_syscall(syscall(SYS_unlinkat, AT_FDCWD, p->path, folder ? AT_REMOVEDIR : 0));
	else if (!code) code = remove_merged_file(p, folder);
	return code ? (errno = code, -1) : 0;
}

/* Copy a folder with all its contents. */
static int copy_tree_to_scratch(void *unused, const char *path, const lp_place *place) {
	(void)unused, (void)path;
	if (place->free) return 0;
	int code = copy_to_scratch(place, false);
	return !code && S_ISDIR(place->type) ? visit_merged_folder(place, copy_tree_to_scratch, NULL)
	                                     : code;
}

static int may_replace(const lp_place *from, const lp_place *to, unsigned flags) {
	if (!to->type) return flags & RENAME_EXCHANGE ? ENOENT : 0;
	if (flags & RENAME_NOREPLACE) return EEXIST;
	if (flags & RENAME_EXCHANGE || to->free || from->free) return 0;
	if (S_ISDIR(to->type) != S_ISDIR(from->type)) return S_ISDIR(to->type) ? EISDIR : ENOTDIR;
	return S_ISDIR(to->type) ? visit_merged_folder(to, stop_at_first_name, NULL) : 0;
}

/* Afterwards both names are in the scratch folder, or are not guarded. */
static int move_place(lp_place *from, lp_place *to, unsigned flags) {
	LP_ROOM(room_a);
	LP_ROOM(room_b);
	const char *a, *b;
	int code = from->free ? 0 : may_change_folder(from);
	if (!code && !from->free) code = copy_tree_to_scratch(NULL, from->path, from);
	if (!code && !to->free) code = prepare_new_name(to);
	if (!code && flags & RENAME_EXCHANGE && !to->free)
		code = copy_tree_to_scratch(NULL, to->path, to);
	bool hides = to->below && S_ISDIR(to->type) && !(flags & RENAME_EXCHANGE);
	if (!code && hides) code = mark_deleted(to->path);
	from->above = to->above = true;
	if (!code && (!(a = present_path(from, &room_a)) || !(b = present_path(to, &room_b))))
		code = errno;
	if (!code) code = error_of_syscall(syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, flags));
	if (!code && !from->free && from->below && !(flags & RENAME_EXCHANGE))
		code = mark_deleted(from->path);
	return code;
}

static bool is_below_folder(const char *path, const char *folder) {
	size_t length = strlen(folder);
	return strncmp(path, folder, length) == 0 && path[length] == '/';
}

int lp_overlay_rename(int at, const char *path, int to_at, const char *to, unsigned flags) {
	LP_TAKE(lp_place, a, -1);
	LP_TAKE(lp_place, b, -1);
	if (lp_overlay.refuses) {
		errno = EROFS;
		return -1;
	}
	int code = lp_overlay_find(at, path, false, a);
	if (!code) code = lp_overlay_find(to_at, to, false, b);
	if (!code && !a->free && !a->type) code = ENOENT;
	if (!code && strcmp(a->path, b->path) == 0) return 0;
	if (!code && !a->free && !S_ISDIR(a->type) && to[strlen(to) - 1] == '/') code = ENOTDIR;
	if (!code && is_below_folder(b->path, a->path)) code = EINVAL;
	if (!code && is_below_folder(a->path, b->path))
		code = flags & RENAME_EXCHANGE ? EINVAL : ENOTEMPTY;
	if (!code) code = may_replace(a, b, flags);
	if (!code) code = move_place(a, b, flags);
	return code ? (errno = code, -1) : 0;
}

bool lp_overlay_is_listing(int fd, char path[PATH_MAX]) {
	int code = errno;
	if (lp_overlay.refuses || __atomic_load_n(&lp_overlay.state->lists, __ATOMIC_RELAXED) == 0)
		return false;
	lp_descriptor_path(fd, path);
	errno = code;
	const char *rest = path + lp_overlay.length;
	if (strncmp(path, lp_overlay.scratch, lp_overlay.length) != 0 ||
	    strncmp(rest, "/list/", 6) != 0)
		return false;
	lp_overlay_show_path(path);
	return true;
}

bool lp_overlay_is_protected(int fd) {
	LP_TAKE(lp_path, at, true);
	char *path = *at;
	struct stat info;
	if (syscall(SYS_fstat, fd, &info) != 0 || !(S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)))
		return false;
	lp_descriptor_path(fd, path);
	return strncmp(path, lp_overlay.scratch, lp_overlay.length) != 0 &&
	       strncmp(path, "/dev/", 5) != 0 && path[0] == '/' && strncmp(path, "/memfd:", 7) != 0;
}
