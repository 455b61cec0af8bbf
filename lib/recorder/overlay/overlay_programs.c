/* overlay_programs.c: programs that a process starts. A path is resolved in the merged view; a
 * program that the recorder cannot be loaded into is not refused, because the run would end, but
 * logged. */
#undef _FORTIFY_SOURCE
#include "recorder/overlay/overlay.h"

#include <elf.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

extern char **environ;

/* ---- programs ---- */

/* Whether a program of this file loads no libraries. For scripts their interpreters count. */
static bool is_static_program(int fd) {
	Elf64_Ehdr head;
	Elf64_Phdr part;
	if (syscall(SYS_pread64, fd, &head, sizeof head, 0L) != sizeof head) return false;
	if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64)
		return false;
	for (int i = 0; i < head.e_phnum; i++) {
		long at = (long)head.e_phoff + (long)i * head.e_phentsize;
		if (syscall(SYS_pread64, fd, &part, sizeof part, at) != sizeof part) return false;
		if (part.p_type == PT_INTERP) return false;
	}
	return true;
}

static const char *find_executable(const char *name, char out[PATH_MAX]) {
	const char *path = getenv("PATH");
	for (size_t part; path && *path; path += part + (path[part] == ':')) {
		part = strcspn(path, ":");
		if (part >= PATH_MAX) continue;
		memcpy(out, path, part);
		if (lp_join(out + part, PATH_MAX - part, "/", name, LP_END) &&
		    syscall(SYS_faccessat, AT_FDCWD, out, X_OK) == 0)
			return out;
	}
	return name;
}

static bool is_recorder_preloaded(char *const *env) {
	for (; env && *env; env++)
		if (strncmp(*env, "LD_PRELOAD=", 11) == 0 && strstr(*env, "liblockstep-probe")) return true;
	return false;
}

/* The path to start, in `room` if it differs; NULL and errno if it must fail. */
static const char *find_program_to_start(const char *path, bool search, char *const *env,
                                         lp_room *room) {
	LP_TAKE(lp_path, found, NULL);
	struct stat info;
	if (!lp_overlay_is_active() || !lp_overlay_is_name(path)) return path;
	int code = errno;
	bool named = search && !strchr(path, '/');
	const char *given = named ? path : lp_overlay_read(AT_FDCWD, path, true, room);
	if (!given) return NULL;
	const char *file = named ? find_executable(path, *found) : given;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && is_static_program(fd))
		lp_overlay_log(file, "loads no libraries, so what it writes is not guarded");
	if (fd >= 0 && syscall(SYS_fstat, fd, &info) == 0 && info.st_mode & (S_ISUID | S_ISGID) &&
	    geteuid() != 0)
		lp_overlay_log(file, "runs as another user, so what it writes is not guarded");
	if (fd >= 0) syscall(SYS_close, fd);
	if (!is_recorder_preloaded(env))
		lp_overlay_log(file,
		               "was started with another LD_PRELOAD, so what it writes is not guarded");
	errno = code;
	return given;
}

#define STARTS(name, search, env, call)                                  \
	LP_LIBC(name)                                                        \
	LP_ROOM(room);                                                       \
	const char *given = find_program_to_start(path, search, env, &room); \
	if (lp_overlay.on && !given) return -1;                              \
	return call
#define SPAWNS(name, search, env, call)                                  \
	LP_LIBC(name)                                                        \
	LP_ROOM(room);                                                       \
	const char *given = find_program_to_start(path, search, env, &room); \
	if (lp_overlay.on && !given) return errno;                           \
	return call

LP_EXPORT int execve(const char *path, char *const words[], char *const env[]) {
	STARTS(execve, false, env, real(given, words, env));
}
LP_EXPORT int execv(const char *path, char *const words[]) {
	STARTS(execv, false, environ, real(given, words));
}
LP_EXPORT int execvp(const char *path, char *const words[]) {
	STARTS(execvp, true, environ, real(given, words));
}
LP_EXPORT int execvpe(const char *path, char *const words[], char *const env[]) {
	STARTS(execvpe, true, env, real(given, words, env));
}
LP_EXPORT int posix_spawn(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions,
                          const posix_spawnattr_t *attributes, char *const words[],
                          char *const env[]) {
	SPAWNS(posix_spawn, false, env, real(child, given, actions, attributes, words, env));
}
LP_EXPORT int posix_spawnp(pid_t *child, const char *path,
                           const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, char *const words[],
                           char *const env[]) {
	SPAWNS(posix_spawnp, true, env, real(child, given, actions, attributes, words, env));
}

/* A child of posix_spawn opens these files inside libc. */
LP_EXPORT int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *actions, int fd,
                                               const char *path, int flags, mode_t mode) {
	LP_LIBC(posix_spawn_file_actions_addopen)
	LP_ROOM(room);
	const char *given =
		lp_overlay_is_active() ? lp_overlay_open(AT_FDCWD, path, flags, &room) : path;
	return lp_overlay.on && !given ? errno : real(actions, fd, given, flags, mode);
}

/* Lists of words become arrays; `after` reads what follows their end. */
#define LISTED(first, after)                                              \
	int count = 1;                                                        \
	va_list list;                                                         \
	va_start(list, first);                                                \
	while (va_arg(list, char *)) count++;                                 \
	va_end(list);                                                         \
	char **words = __builtin_alloca(((size_t)count + 1) * sizeof *words); \
	words[0] = (char *)(uintptr_t)first;                                  \
	va_start(list, first);                                                \
	for (int i = 1; i <= count; i++) words[i] = va_arg(list, char *);     \
	after va_end(list)

LP_EXPORT int execl(const char *path, const char *first, ...) {
	LISTED(first, );
	return execv(path, words);
}
LP_EXPORT int execlp(const char *path, const char *first, ...) {
	LISTED(first, );
	return execvp(path, words);
}
LP_EXPORT int execle(const char *path, const char *first, ...) {
	LISTED(first, char *const *env = va_arg(list, char *const *););
	return execve(path, words, env);
}
