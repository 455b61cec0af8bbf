/* overlay_calls.c: libc's functions that take names of files, except those that open them
 * (files/posix_calls.c and stdio_calls.c): each gets the path to use from the overlay. Without a
 * scratch folder they pass through. */
#undef _FORTIFY_SOURCE
#include "recorder/overlay/overlay.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <utime.h>

/* `given` is the path to use; FAILED: the call's result on failure. */
#define WITH_PATH(name, failed, ask, path, call)             \
	LP_LIBC(name)                                            \
	LP_ROOM(room);                                           \
	const char *given = lp_overlay_is_active() ? ask : path; \
	if (lp_overlay.on && !given) return failed;              \
	return call
#define READS(name, at, path, follow, call) \
	WITH_PATH(name, -1, lp_overlay_read(at, path, follow, &room), path, call)
#define CHANGES(name, at, path, follow, call) \
	WITH_PATH(name, -1, lp_overlay_change(at, path, follow, &room), path, call)
#define MAKES(name, at, path, call) \
	WITH_PATH(name, -1, lp_overlay_make(at, path, false, &room), path, call)
#define MAKES_FOLDER(name, at, path, call) \
	WITH_PATH(name, -1, lp_overlay_make(at, path, true, &room), path, call)
#define FOLLOW(flags) (!((flags)&AT_SYMLINK_NOFOLLOW))

/* ---- looking ---- */

LP_EXPORT int stat(const char *path, struct stat *out) {
	READS(stat, AT_FDCWD, path, true, real(given, out));
}
LP_EXPORT int lstat(const char *path, struct stat *out) {
	READS(lstat, AT_FDCWD, path, false, real(given, out));
}
LP_EXPORT int stat64(const char *path, struct stat64 *out) {
	READS(stat64, AT_FDCWD, path, true, real(given, out));
}
LP_EXPORT int lstat64(const char *path, struct stat64 *out) {
	READS(lstat64, AT_FDCWD, path, false, real(given, out));
}
LP_EXPORT int fstatat(int at, const char *path, struct stat *out, int flags) {
	READS(fstatat, at, path, FOLLOW(flags), real(at, given, out, flags));
}
LP_EXPORT int fstatat64(int at, const char *path, struct stat64 *out, int flags) {
	READS(fstatat64, at, path, FOLLOW(flags), real(at, given, out, flags));
}
LP_EXPORT int statx(int at, const char *path, int flags, unsigned mask, struct statx *out) {
	READS(statx, at, path, FOLLOW(flags), real(at, given, flags, mask, out));
}
/* For programs from before glibc 2.33; their structures are the same. */
int __xstat(int version, const char *path, struct stat *out);
int __lxstat(int version, const char *path, struct stat *out);
int __fxstatat(int version, int at, const char *path, struct stat *out, int flags);
int __xstat64(int version, const char *path, struct stat64 *out);
int __lxstat64(int version, const char *path, struct stat64 *out);
int __fxstatat64(int version, int at, const char *path, struct stat64 *out, int flags);
LP_EXPORT int __xstat(int version, const char *path, struct stat *out) {
	(void)version;
	return stat(path, out);
}
LP_EXPORT int __lxstat(int version, const char *path, struct stat *out) {
	(void)version;
	return lstat(path, out);
}
LP_EXPORT int __xstat64(int version, const char *path, struct stat64 *out) {
	(void)version;
	return stat64(path, out);
}
LP_EXPORT int __lxstat64(int version, const char *path, struct stat64 *out) {
	(void)version;
	return lstat64(path, out);
}
LP_EXPORT int __fxstatat(int version, int at, const char *path, struct stat *out, int flags) {
	(void)version;
	return fstatat(at, path, out, flags);
}
LP_EXPORT int __fxstatat64(int version, int at, const char *path, struct stat64 *out, int flags) {
	(void)version;
	return fstatat64(at, path, out, flags);
}
/* For a folder that is being listed: look it up by name, so that programs recognise it. */
#define BY_FOLDER(name, by_name)                                                         \
	LP_LIBC(name)                                                                        \
	int result = real(fd, out);                                                          \
	if (result != 0 || !S_ISDIR(out->st_mode) || !lp_overlay_is_active()) return result; \
	LP_TAKE(lp_path, path, -1);                                                          \
	return lp_overlay_is_listing(fd, *path) ? by_name(*path, out) : result
LP_EXPORT int fstat(int fd, struct stat *out) {
	BY_FOLDER(fstat, stat);
}
LP_EXPORT int fstat64(int fd, struct stat64 *out) {
	BY_FOLDER(fstat64, stat64);
}
int __fxstat(int version, int fd, struct stat *out);
int __fxstat64(int version, int fd, struct stat64 *out);
LP_EXPORT int __fxstat(int version, int fd, struct stat *out) {
	(void)version;
	return fstat(fd, out);
}
LP_EXPORT int __fxstat64(int version, int fd, struct stat64 *out) {
	(void)version;
	return fstat64(fd, out);
}
LP_EXPORT int access(const char *path, int mode) {
	READS(access, AT_FDCWD, path, true, real(given, mode));
}
LP_EXPORT int euidaccess(const char *path, int mode) {
	READS(euidaccess, AT_FDCWD, path, true, real(given, mode));
}
LP_EXPORT int eaccess(const char *path, int mode) {
	READS(eaccess, AT_FDCWD, path, true, real(given, mode));
}
LP_EXPORT int faccessat(int at, const char *path, int mode, int flags) {
	READS(faccessat, at, path, FOLLOW(flags), real(at, given, mode, flags));
}
LP_EXPORT int statfs(const char *path, struct statfs *out) {
	READS(statfs, AT_FDCWD, path, true, real(given, out));
}
LP_EXPORT int statfs64(const char *path, struct statfs64 *out) {
	READS(statfs64, AT_FDCWD, path, true, real(given, out));
}
LP_EXPORT int statvfs(const char *path, struct statvfs *out) {
	READS(statvfs, AT_FDCWD, path, true, real(given, out));
}
LP_EXPORT int statvfs64(const char *path, struct statvfs64 *out) {
	READS(statvfs64, AT_FDCWD, path, true, real(given, out));
}
LP_EXPORT ssize_t readlink(const char *path, char *out, size_t size) {
	READS(readlink, AT_FDCWD, path, false, real(given, out, size));
}
LP_EXPORT ssize_t readlinkat(int at, const char *path, char *out, size_t size) {
	READS(readlinkat, at, path, false, real(at, given, out, size));
}
/* Checked variants, which end the program if a buffer is too small, like libc's. */
ssize_t __readlink_chk(const char *path, char *out, size_t size, size_t room);
ssize_t __readlinkat_chk(int at, const char *path, char *out, size_t size, size_t room);
char *__getcwd_chk(char *out, size_t size, size_t room);
LP_EXPORT ssize_t __readlink_chk(const char *path, char *out, size_t size, size_t room) {
	if (size > room) abort();
	return readlink(path, out, size);
}
LP_EXPORT ssize_t __readlinkat_chk(int at, const char *path, char *out, size_t size, size_t room) {
	if (size > room) abort();
	return readlinkat(at, path, out, size);
}
LP_EXPORT char *__getcwd_chk(char *out, size_t size, size_t room) {
	if (size > room) abort();
	return getcwd(out, size);
}
LP_EXPORT ssize_t getxattr(const char *path, const char *name, void *out, size_t size) {
	READS(getxattr, AT_FDCWD, path, true, real(given, name, out, size));
}
LP_EXPORT ssize_t lgetxattr(const char *path, const char *name, void *out, size_t size) {
	READS(lgetxattr, AT_FDCWD, path, false, real(given, name, out, size));
}
LP_EXPORT ssize_t listxattr(const char *path, char *out, size_t size) {
	READS(listxattr, AT_FDCWD, path, true, real(given, out, size));
}
LP_EXPORT ssize_t llistxattr(const char *path, char *out, size_t size) {
	READS(llistxattr, AT_FDCWD, path, false, real(given, out, size));
}

/* ---- folders ---- */

LP_EXPORT DIR *opendir(const char *path) {
	WITH_PATH(opendir, NULL, lp_overlay_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, &room), path,
	          real(given));
}
typedef int chosen(const struct dirent *);
typedef int chosen64(const struct dirent64 *);
LP_EXPORT int scandir(const char *path, struct dirent ***out, chosen *choose,
                      int (*order)(const struct dirent **, const struct dirent **)) {
	WITH_PATH(scandir, -1, lp_overlay_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, &room), path,
	          real(given, out, choose, order));
}
LP_EXPORT int scandir64(const char *path, struct dirent64 ***out, chosen64 *choose,
                        int (*order)(const struct dirent64 **, const struct dirent64 **)) {
	WITH_PATH(scandir64, -1, lp_overlay_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, &room), path,
	          real(given, out, choose, order));
}
LP_EXPORT int chdir(const char *path) {
	READS(chdir, AT_FDCWD, path, true, real(given));
}
LP_EXPORT char *getcwd(char *out, size_t size) {
	LP_LIBC(getcwd)
	char *result = real(out, size);
	if (result && lp_overlay_is_active()) lp_overlay_show_path(result);
	return result;
}
LP_EXPORT char *get_current_dir_name(void) {
	LP_LIBC(get_current_dir_name)
	char *result = real();
	if (result && lp_overlay_is_active()) lp_overlay_show_path(result);
	return result;
}

/* Resolve a path without links, in the program's view; `room` NULL: from malloc. */
static char *resolve_whole_path(const char *path, char *room) {
	LP_TAKE(lp_place, p, NULL);
	int code = path ? lp_overlay_find(AT_FDCWD, path, true, p) : EINVAL;
	if (!code && !p->free && !p->type) code = ENOENT;
	if (code) {
		errno = code;
		return NULL;
	}
	return room ? strcpy(room, p->path) : strdup(p->path);
}
static bool is_anything_changed(void) {
	return lp_overlay_is_active() && lp_overlay.state &&
	       __atomic_load_n(&lp_overlay.state->changes, __ATOMIC_ACQUIRE);
}
char *__realpath_chk(const char *path, char *room, size_t size);
LP_EXPORT char *realpath(const char *path, char *room) {
	LP_LIBC(realpath)
	return is_anything_changed() ? resolve_whole_path(path, room) : real(path, room);
}
LP_EXPORT char *__realpath_chk(const char *path, char *room, size_t size) {
	(void)size;
	return realpath(path, room);
}
LP_EXPORT char *canonicalize_file_name(const char *path) {
	return realpath(path, NULL);
}

/* ---- making ---- */

LP_EXPORT int mkdir(const char *path, mode_t mode) {
	MAKES_FOLDER(mkdir, AT_FDCWD, path, real(given, mode));
}
LP_EXPORT int mkdirat(int at, const char *path, mode_t mode) {
	MAKES_FOLDER(mkdirat, at, path, real(at, given, mode));
}
LP_EXPORT int mkfifo(const char *path, mode_t mode) {
	MAKES(mkfifo, AT_FDCWD, path, real(given, mode));
}
LP_EXPORT int mkfifoat(int at, const char *path, mode_t mode) {
	MAKES(mkfifoat, at, path, real(at, given, mode));
}
LP_EXPORT int mknod(const char *path, mode_t mode, dev_t device) {
	MAKES(mknod, AT_FDCWD, path, real(given, mode, device));
}
LP_EXPORT int mknodat(int at, const char *path, mode_t mode, dev_t device) {
	MAKES(mknodat, at, path, real(at, given, mode, device));
}
LP_EXPORT int symlink(const char *text, const char *path) {
	MAKES(symlink, AT_FDCWD, path, real(text, given));
}
LP_EXPORT int symlinkat(const char *text, int at, const char *path) {
	MAKES(symlinkat, at, path, real(text, at, given));
}

LP_EXPORT int linkat(int from_at, const char *from, int at, const char *path, int flags) {
	LP_LIBC(linkat)
	LP_ROOM(room);
	LP_ROOM(from_room);
	if (!lp_overlay_is_active()) return real(from_at, from, at, path, flags);
	bool open =
		flags & AT_EMPTY_PATH && !lp_overlay_is_name(from); /* a file that has no name yet */
	const char *source =
		open ? "" : lp_overlay_change(from_at, from, flags & AT_SYMLINK_FOLLOW, &from_room);
	const char *given = source ? lp_overlay_make(at, path, false, &room) : NULL;
	return given ? real(from_at, source, at, given, flags) : -1;
}
LP_EXPORT int link(const char *from, const char *path) {
	return linkat(AT_FDCWD, from, AT_FDCWD, path, 0);
}

/* ---- unique names ---- */

/* Put other letters for the X's before `suffix`, like the library; false: there are none. */
static bool try_temporary_name(char *name, int suffix) {
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	static uint64_t state;
	size_t length = strlen(name);
	if (suffix < 0 || length < 6 + (size_t)suffix) return false;
	uint64_t x = __atomic_add_fetch(&state, (uint64_t)lk_monotonic_ns() << 16 ^ (uint64_t)getpid(),
	                                __ATOMIC_RELAXED);
	for (int i = 0; i < 6; i++, x /= 62)
		name[length - (size_t)suffix - 6 + (size_t)i] = letters[x % 62];
	return true;
}

int lp_overlay_make_temporary(char *name, int suffix, int flags) {
	LP_ROOM(room);
	size_t length = strlen(name);
	if (suffix < 0 || length < 6 + (size_t)suffix ||
	    memcmp(name + length - (size_t)suffix - 6, "XXXXXX", 6) != 0) {
		errno = EINVAL;
		return -1;
	}
	for (int tries = 0; tries < 1000 && try_temporary_name(name, suffix); tries++) {
		int all = O_RDWR | O_CREAT | O_EXCL | (flags & ~O_ACCMODE);
		const char *given = lp_overlay_open(AT_FDCWD, name, all, &room);
		int fd = given ? (int)syscall(SYS_openat, AT_FDCWD, given, all, 0600) : -1;
		if (fd >= 0 || errno != EEXIST) return fd;
	}
	return -1;
}

LP_EXPORT char *mkdtemp(char *path) {
	LP_LIBC(mkdtemp)
	size_t length = strlen(path);
	if (!lp_overlay_is_active()) return real(path);
	if (length < 6 || strcmp(path + length - 6, "XXXXXX") != 0) {
		errno = EINVAL;
		return NULL;
	}
	for (int tries = 0; tries < 1000 && try_temporary_name(path, 0); tries++) {
		if (mkdir(path, 0700) == 0) return path;
		if (errno != EEXIST) return NULL;
	}
	return NULL;
}

/* ---- deleting and renaming ---- */

LP_EXPORT int unlinkat(int at, const char *path, int flags) {
	LP_LIBC(unlinkat)
	return lp_overlay_is_active() ? lp_overlay_remove(at, path, flags & AT_REMOVEDIR)
	                              : real(at, path, flags);
}
LP_EXPORT int unlink(const char *path) {
	LP_LIBC(unlink)
	return lp_overlay_is_active() ? lp_overlay_remove(AT_FDCWD, path, false) : real(path);
}
LP_EXPORT int rmdir(const char *path) {
	LP_LIBC(rmdir)
	return lp_overlay_is_active() ? lp_overlay_remove(AT_FDCWD, path, true) : real(path);
}
LP_EXPORT int remove(const char *path) {
	LP_LIBC(remove)
	if (!lp_overlay_is_active()) return real(path);
	int result = lp_overlay_remove(AT_FDCWD, path, false);
	return result != 0 && errno == EISDIR ? lp_overlay_remove(AT_FDCWD, path, true) : result;
}
LP_EXPORT int rename(const char *path, const char *to) {
	LP_LIBC(rename)
	return lp_overlay_is_active() ? lp_overlay_rename(AT_FDCWD, path, AT_FDCWD, to, 0)
	                              : real(path, to);
}
LP_EXPORT int renameat(int at, const char *path, int to_at, const char *to) {
	LP_LIBC(renameat)
	return lp_overlay_is_active() ? lp_overlay_rename(at, path, to_at, to, 0)
	                              : real(at, path, to_at, to);
}
LP_EXPORT int renameat2(int at, const char *path, int to_at, const char *to, unsigned flags) {
	LP_LIBC(renameat2)
	return lp_overlay_is_active() ? lp_overlay_rename(at, path, to_at, to, flags)
	                              : real(at, path, to_at, to, flags);
}

/* ---- changing ---- */

LP_EXPORT int truncate(const char *path, off_t size) {
	CHANGES(truncate, AT_FDCWD, path, true, real(given, size));
}
LP_EXPORT int truncate64(const char *path, off64_t size) {
	CHANGES(truncate64, AT_FDCWD, path, true, real(given, size));
}
LP_EXPORT int chmod(const char *path, mode_t mode) {
	CHANGES(chmod, AT_FDCWD, path, true, real(given, mode));
}
LP_EXPORT int fchmodat(int at, const char *path, mode_t mode, int flags) {
	CHANGES(fchmodat, at, path, FOLLOW(flags), real(at, given, mode, flags));
}
LP_EXPORT int chown(const char *path, uid_t user, gid_t group) {
	CHANGES(chown, AT_FDCWD, path, true, real(given, user, group));
}
LP_EXPORT int lchown(const char *path, uid_t user, gid_t group) {
	CHANGES(lchown, AT_FDCWD, path, false, real(given, user, group));
}
LP_EXPORT int fchownat(int at, const char *path, uid_t user, gid_t group, int flags) {
	CHANGES(fchownat, at, path, FOLLOW(flags), real(at, given, user, group, flags));
}
LP_EXPORT int utime(const char *path, const struct utimbuf *times) {
	CHANGES(utime, AT_FDCWD, path, true, real(given, times));
}
LP_EXPORT int utimes(const char *path, const struct timeval times[2]) {
	CHANGES(utimes, AT_FDCWD, path, true, real(given, times));
}
LP_EXPORT int lutimes(const char *path, const struct timeval times[2]) {
	CHANGES(lutimes, AT_FDCWD, path, false, real(given, times));
}
LP_EXPORT int setxattr(const char *path, const char *name, const void *value, size_t size,
                       int flags) {
	CHANGES(setxattr, AT_FDCWD, path, true, real(given, name, value, size, flags));
}
LP_EXPORT int lsetxattr(const char *path, const char *name, const void *value, size_t size,
                        int flags) {
	CHANGES(lsetxattr, AT_FDCWD, path, false, real(given, name, value, size, flags));
}
LP_EXPORT int removexattr(const char *path, const char *name) {
	CHANGES(removexattr, AT_FDCWD, path, true, real(given, name));
}
LP_EXPORT int lremovexattr(const char *path, const char *name) {
	CHANGES(lremovexattr, AT_FDCWD, path, false, real(given, name));
}

/* Through a descriptor opened for reading, times and permissions of the disk's file could still be
 * changed. */
#define BY_DESCRIPTOR(name, fd, call)                            \
	LP_LIBC(name)                                                \
	if (lp_overlay_is_active() && lp_overlay_is_protected(fd)) { \
		errno = EROFS;                                           \
		return -1;                                               \
	}                                                            \
	return call
LP_EXPORT int fchmod(int fd, mode_t mode) {
	BY_DESCRIPTOR(fchmod, fd, real(fd, mode));
}
LP_EXPORT int fchown(int fd, uid_t user, gid_t group) {
	BY_DESCRIPTOR(fchown, fd, real(fd, user, group));
}
LP_EXPORT int futimens(int fd, const struct timespec times[2]) {
	BY_DESCRIPTOR(futimens, fd, real(fd, times));
}
LP_EXPORT int futimes(int fd, const struct timeval times[2]) {
	BY_DESCRIPTOR(futimes, fd, real(fd, times));
}
LP_EXPORT int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags) {
	BY_DESCRIPTOR(fsetxattr, fd, real(fd, name, value, size, flags));
}
LP_EXPORT int fremovexattr(int fd, const char *name) {
	BY_DESCRIPTOR(fremovexattr, fd, real(fd, name));
}
LP_EXPORT int utimensat(int at, const char *path, const struct timespec times[2], int flags) {
	LP_LIBC(utimensat)
	LP_ROOM(room);
	if (!lp_overlay_is_active()) return real(at, path, times, flags);
	if (!lp_overlay_is_name(path)) {
		if (!lp_overlay_is_protected(at)) return real(at, path, times, flags);
		errno = EROFS;
		return -1;
	}
	path = lp_overlay_change(at, path, FOLLOW(flags), &room);
	return path ? real(at, path, times, flags) : -1;
}
