/* throttle.c: emulates a slow tier, for tests that need a known truth: a read of n bytes of a file
 * below the folder takes at least a fixed time plus n times the time of a byte. Concurrent readers
 * do not share the rate. */
#include "recorder/files/files.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	FILES = 1 << 16 /* later ones are not slowed */
};

static uint8_t slowed[FILES]; /* by number; in a forked child, until its own files get numbers */

__attribute__((constructor)) static void read_slow_setting(void) {
	const char *text = getenv("LOCKSTEP_RECORD_SLOW");
	long long read_ns, byte_ps;
	int folder = 0;
	if (!text || sscanf(text, "%lld %lld %n", &read_ns, &byte_ps, &folder) != 2) return;
	size_t length = strlen(text + folder);
	if (length == 0 || length + 2 > sizeof lp_state.slow.folder || read_ns < 0 || byte_ps < 0)
		return;
	lp_state.slow.read_ns = read_ns;
	lp_state.slow.byte_ps = byte_ps;
	snprintf(lp_state.slow.folder, sizeof lp_state.slow.folder, "%s/", text + folder);
}

void lp_slow_see(uint32_t file, const char *path) {
	const char *folder = lp_state.slow.folder;
	if (!*folder || file >= FILES) return;
	slowed[file] = strncmp(path, folder, strlen(folder)) == 0;
	if (slowed[file])
		__atomic_fetch_or(&lp_state.recorder.head->seen, LK_RECORDED_SLOWED, __ATOMIC_RELAXED);
}

void lp_slow_read(uint32_t file, int64_t start, int64_t bytes) {
	if (LP_HOT(!*lp_state.slow.folder) || file >= FILES || !slowed[file] || bytes < 0) return;
	int code = errno;
	int64_t left = start + lp_state.slow.read_ns + bytes * lp_state.slow.byte_ps / 1000 - lp_now();
	struct timespec pause = {left / 1000000000, left % 1000000000};
	if (left > 0) syscall(SYS_nanosleep, &pause, NULL);
	errno = code;
}
