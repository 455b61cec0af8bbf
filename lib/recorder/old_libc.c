/* old_libc.c: functions that glibc had only as inlines before version 2.33: programs of that time
 * call __xstat and its relatives, which the recorder passes to these. Structures of 64-bit systems
 * are the kernel's own. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/recorder.h"

static int old_fstatat(int at, const char *path, struct stat *out, int flags) {
	return (int)syscall(SYS_newfstatat, at, path, out, flags);
}

static int old_stat(const char *path, struct stat *out) {
	return old_fstatat(AT_FDCWD, path, out, 0);
}

static int old_lstat(const char *path, struct stat *out) {
	return old_fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

static int old_fstat(int fd, struct stat *out) {
	return (int)syscall(SYS_fstat, fd, out);
}

static int old_mknodat(int at, const char *path, mode_t mode, dev_t device) {
	return (int)syscall(SYS_mknodat, at, path, mode, device);
}

static int old_mknod(const char *path, mode_t mode, dev_t device) {
	return old_mknodat(AT_FDCWD, path, mode, device);
}

void *lp_old_libc(const char *name) {
#define OLD(name, call) \
	{ name, (void *)(uintptr_t)call }
	static const struct {
		const char *name;
		void *call;
	} calls[] = {
		OLD("stat", old_stat),       OLD("stat64", old_stat),       OLD("lstat", old_lstat),
		OLD("lstat64", old_lstat),   OLD("fstat", old_fstat),       OLD("fstat64", old_fstat),
		OLD("fstatat", old_fstatat), OLD("fstatat64", old_fstatat), OLD("mknod", old_mknod),
		OLD("mknodat", old_mknodat),
	};
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		if (strcmp(name, calls[i].name) == 0) return calls[i].call;
	return NULL;
}
