/* confine.c: limits of resources (setrlimit) and Landlock, by which a process gives up rights.
 *
 * Landlock: linux/landlock.h and https://docs.kernel.org/userspace-api/landlock.html. Rights of
 * later versions are named here by number, so that older headers will do. */
#include "serve/serve_internal.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	WRITTEN = 64 << 20 /* a timeline; as much as an answer may have */
};

/* The shadow memory of sanitizers needs terabytes of addresses. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SHADOWED = 1 };
#else
enum { SHADOWED = 0 };
#endif

/* Rights on files by version of Landlock: 13 in the first, then refer, truncate, and, with the
 * fifth, device controls. Rights on the network (bind, connect) came with the fourth, and with the
 * sixth that signals and abstract sockets end at the process. */
#define TRUNCATE (UINT64_C(1) << 14)

struct rules {
	uint64_t files, network, scoped;
};

static long landlock_version(void) {
	return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

/* Sets a soft limit, and the hard limit `more` above it. At the hard limit of processor time the
 * kernel kills without a message. */
static void set_resource_limit(int what, double value, rlim_t more) {
	struct rlimit now;
	if (getrlimit((__rlimit_resource_t)what, &now) != 0) return;
	rlim_t soft = (rlim_t)value, hard = soft + more;
	if (now.rlim_max != RLIM_INFINITY && hard > now.rlim_max) hard = now.rlim_max;
	if (soft > hard) soft = hard;
	now = (struct rlimit){soft, hard};
	setrlimit((__rlimit_resource_t)what, &now);
}

void lk_confine_limits(const lk_limits *limits) {
	if (!SHADOWED) set_resource_limit(RLIMIT_AS, limits->memory_bytes, 0);
	set_resource_limit(RLIMIT_CPU, limits->cpu_seconds < 1 ? 1 : limits->cpu_seconds, 1);
	set_resource_limit(RLIMIT_CORE, 0, 0);
	set_resource_limit(RLIMIT_FSIZE, WRITTEN, 0);
	signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is an error of writing it */
	prctl(PR_SET_PDEATHSIG, 9);
	(void)!nice(limits->nice);
}

/* Grants rights below the working folder. */
static bool allow_working_folder(int ruleset, uint64_t rights) {
	struct landlock_path_beneath_attr here = {.allowed_access = rights,
	                                          .parent_fd = open(".", O_PATH | O_CLOEXEC)};
	if (here.parent_fd < 0) return false;
	long result = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &here, 0);
	close(here.parent_fd);
	return result == 0;
}

bool lk_confine_files(bool writing) {
	long v = landlock_version();
	if (v < 1) return false;
	/* one bit per right, whose number grows with the version: see above */
	int rights = 13 + (v >= 2) + (v >= 3) + (v >= 5);
	struct rules r = {.files = (UINT64_C(1) << rights) - 1};
	size_t known = offsetof(struct rules, network); /* bytes that this version reads */
	if (v >= 4) {
		r.network = 3;
		known = offsetof(struct rules, scoped);
	}
	if (v >= 6) {
		r.scoped = 3;
		known = sizeof r;
	}
	int ruleset = (int)syscall(SYS_landlock_create_ruleset, &r, known, 0);
	if (ruleset < 0) return false;
	uint64_t here = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
	if (writing)
		here |= LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
		        LANDLOCK_ACCESS_FS_REMOVE_FILE | (v >= 3 ? TRUNCATE : 0);
	bool confined = allow_working_folder(ruleset, here) &&
	                prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	                syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
	close(ruleset);
	return confined;
}
