/* overlay_out.c: what a guarded process does that reaches past the guard: programs that it cannot
 * be loaded into, connections to other hosts. They are not refused, for the run would end; they are
 * told, for whoever started it. */
#undef _FORTIFY_SOURCE
#include "recorder/overlay/overlay.h"
#include "recorder/recorder.h"

#include <arpa/inet.h>
#include <elf.h>
#include <netinet/in.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

extern char **environ;

/* ---- programs ---- */

/* Whether a program of this file loads no libraries. Scripts do what their interpreters do. */
static bool is_static(int fd) {
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

static const char *find_in_path(const char *name, char out[PATH_MAX]) {
	const char *path = getenv("PATH");
	for (size_t part; path && *path; path += part + (path[part] == ':')) {
		part = strcspn(path, ":");
		if (snprintf(out, PATH_MAX, "%.*s/%s", (int)part, path, name) < PATH_MAX &&
		    syscall(SYS_faccessat, AT_FDCWD, out, X_OK) == 0)
			return out;
	}
	return name;
}

static bool is_preloaded(char *const *env) {
	for (; env && *env; env++)
		if (strncmp(*env, "LD_PRELOAD=", 11) == 0 && strstr(*env, "liblockstep-probe")) return true;
	return false;
}

/* The path to start, in `room` where it is another one; NULL and errno where it must fail. */
static const char *starts(const char *path, bool search, char *const *env, char room[PATH_MAX]) {
	char found[PATH_MAX];
	struct stat info;
	if (!lp_guard_active() || !lp_guard_names(path)) return path;
	int code = errno;
	bool named = search && !strchr(path, '/');
	const char *given = named ? path : lp_guard_read(AT_FDCWD, path, true, room);
	const char *file = !given ? NULL : named ? find_in_path(path, found) : given;
	if (!file) return NULL;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && is_static(fd))
		lp_guard_tell(file, "loads no libraries, so what it writes is not guarded");
	if (fd >= 0 && syscall(SYS_fstat, fd, &info) == 0 && info.st_mode & (S_ISUID | S_ISGID) &&
	    geteuid() != 0)
		lp_guard_tell(file, "runs as another user, so what it writes is not guarded");
	if (fd >= 0) syscall(SYS_close, fd);
	if (!is_preloaded(env))
		lp_guard_tell(file,
		              "was started with another LD_PRELOAD, so what it writes is not guarded");
	errno = code;
	return given;
}

#define STARTS(name, search, env, call)                  \
	LP_REAL(name)                                        \
	char room[PATH_MAX];                                 \
	const char *given = starts(path, search, env, room); \
	if (lp_guard.on && !given) return -1;                \
	return call;
#define SPAWNS(name, search, env, call)                  \
	LP_REAL(name)                                        \
	char room[PATH_MAX];                                 \
	const char *given = starts(path, search, env, room); \
	if (lp_guard.on && !given) return errno;             \
	return call;

LP_EXPORT int execve(const char *path, char *const words[], char *const env[]){
	STARTS(execve, false, env, real(given, words, env))} LP_EXPORT
	int execv(const char *path,
              char *const words[]){STARTS(execv, false, environ, real(given, words))} LP_EXPORT
	int execvp(const char *path,
               char *const words[]){STARTS(execvp, true, environ, real(given, words))} LP_EXPORT
	int execvpe(const char *path, char *const words[],
                char *const env[]){STARTS(execvpe, true, env, real(given, words, env))} LP_EXPORT
	int posix_spawn(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions,
                    const posix_spawnattr_t *attributes, char *const words[], char *const env[]){
		SPAWNS(posix_spawn, false, env,
               real(child, given, actions, attributes, words, env))} LP_EXPORT
	int posix_spawnp(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions,
                     const posix_spawnattr_t *attributes, char *const words[], char *const env[]){
		SPAWNS(posix_spawnp, true, env, real(child, given, actions, attributes, words, env))}

/* What a child of posix_spawn opens it opens inside libc. */
LP_EXPORT int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *actions, int fd,
                                               const char *path, int flags, mode_t mode) {
	LP_REAL(posix_spawn_file_actions_addopen)
	char room[PATH_MAX];
	const char *given = lp_guard_active() ? lp_guard_open(AT_FDCWD, path, flags, room) : path;
	return lp_guard.on && !given ? errno : real(actions, fd, given, flags, mode);
}

/* Lists of words become arrays; `after` reads what stands behind their end. */
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
	after va_end(list);

LP_EXPORT int execl(const char *path, const char *first, ...) {
	LISTED(first, )
	return execv(path, words);
}
LP_EXPORT int execlp(const char *path, const char *first, ...) {
	LISTED(first, )
	return execvp(path, words);
}
LP_EXPORT int execle(const char *path, const char *first, ...) {
	LISTED(first, char *const *env = va_arg(list, char *const *);)
	return execve(path, words, env);
}

/* ---- other hosts ---- */

static bool is_far(const struct sockaddr *to, socklen_t length, char *text, size_t room) {
	char host[INET6_ADDRSTRLEN] = "";
	unsigned port = 0;
	if (to->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
		const struct sockaddr_in *v4 = (const void *)to;
		if (ntohl(v4->sin_addr.s_addr) >> 24 == 127 || v4->sin_addr.s_addr == 0) return false;
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
		port = ntohs(v4->sin_port);
	} else if (to->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)) {
		const struct sockaddr_in6 *v6 = (const void *)to;
		const uint8_t *b = v6->sin6_addr.s6_addr;
		if (IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
		    (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && b[12] == 127))
			return false;
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
		port = ntohs(v6->sin6_port);
	}
	snprintf(text, room, "%s port %u", host, port);
	return *host != '\0';
}

/* Libraries of communication connect to the other ranks, which are guarded as this one is. */
static bool is_communication(const void *caller) {
	static const char *const names[] = {"libmpi", "libopen-", "libpmix",  "mca_",    "libfabric",
	                                    "libuc",  "libgloo",  "libtorch", "libnccl", "libevent"};
	Dl_info info;
	if (!dladdr(caller, &info) || !info.dli_fname) return false;
	const char *slash = strrchr(info.dli_fname, '/'), *name = slash ? slash + 1 : info.dli_fname;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strncmp(name, names[i], strlen(names[i])) == 0) return true;
	return false;
}

static void look_at_connection(int fd, const struct sockaddr *to, socklen_t length,
                               const void *caller) {
	char text[INET6_ADDRSTRLEN + 32], what[128];
	int type = 0, code = errno;
	socklen_t size = sizeof type;
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
	    is_far(to, length, text, sizeof text) && !is_communication(caller)) {
		snprintf(what, sizeof what, "%.80s", program_invocation_short_name);
		strncat(what, " connected to", sizeof what - strlen(what) - 1);
		lp_guard_tell(what, text);
	}
	errno = code;
}

/* Where a socket's path lies in the scratch folder. */
struct moved_socket {
	struct sockaddr_un at;
	int folder; /* to be closed when it has been used; -1 none */
};

/* Paths of sockets are short; one that is not is named by its folder's descriptor. */
static bool put_path(const char *path, struct moved_socket *out) {
	const char *name = strrchr(path, '/');
	char folder[PATH_MAX];
	*out = (struct moved_socket){.at = {.sun_family = AF_UNIX}, .folder = -1};
	if (strlen(path) < sizeof out->at.sun_path) return strcpy(out->at.sun_path, path), true;
	if (!name || strlen(name) > 64) return errno = ENAMETOOLONG, false;
	snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path);
	out->folder = (int)syscall(SYS_openat, AT_FDCWD, folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (out->folder < 0) return false;
	snprintf(out->at.sun_path, sizeof out->at.sun_path, "/proc/self/fd/%d%s", out->folder, name);
	return true;
}

/* A socket's path is made or found where the scratch folder has it. */
static bool moved_name(const struct sockaddr *at, socklen_t length, bool makes,
                       struct moved_socket *out, bool *failed) {
	char name[sizeof out->at.sun_path + 1] = "", room[PATH_MAX];
	const size_t before = offsetof(struct sockaddr_un, sun_path);
	*failed = false;
	if (at->sa_family != AF_UNIX || length <= before || length > sizeof out->at) return false;
	memcpy(name, (const char *)at + before, length - before);
	if (!*name) return false; /* it has none in the file system */
	const char *given = makes ? lp_guard_make(AT_FDCWD, name, false, room)
	                          : lp_guard_read(AT_FDCWD, name, true, room);
	if (given && strcmp(given, name) == 0) return false;
	*failed = !given || !put_path(given, out);
	return !*failed;
}

static int done_with(struct moved_socket *moved, int result) {
	int code = errno;
	if (moved->folder >= 0) syscall(SYS_close, moved->folder);
	errno = code;
	return result;
}

LP_EXPORT int connect(int fd, const struct sockaddr *to, socklen_t length) {
	LP_REAL(connect)
	struct moved_socket moved;
	bool failed = false;
	lp_file_forget(fd);
	if (!lp_guard_active()) return real(fd, to, length);
	look_at_connection(fd, to, length, __builtin_return_address(0));
	if (moved_name(to, length, false, &moved, &failed))
		return done_with(&moved, real(fd, (void *)&moved.at, sizeof moved.at));
	return failed ? -1 : real(fd, to, length);
}

LP_EXPORT int bind(int fd, const struct sockaddr *at, socklen_t length) {
	LP_REAL(bind)
	struct moved_socket moved;
	struct sockaddr_storage elsewhere;
	bool failed = false;
	if (lp_rendezvous_binds(at, length, &elsewhere)) {
		int result = real(fd, (void *)&elsewhere, length);
		if (result == 0) lp_rendezvous_bound(fd);
		return result;
	}
	if (!lp_guard_active()) return real(fd, at, length);
	if (moved_name(at, length, true, &moved, &failed))
		return done_with(&moved, real(fd, (void *)&moved.at, sizeof moved.at));
	if (failed && errno == EEXIST) errno = EADDRINUSE;
	return failed ? -1 : real(fd, at, length);
}
