/* rooms.c: large buffers. The caller's stack may be a few KiB, of a signal handler or a thread, so
 * paths lie in a pool that all threads share, or, where all of it is in use, in mappings of their
 * own. Taking one neither locks nor allocates: a signal handler may interrupt it anywhere. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/recorder.h"

enum { ROOMS = 64, ROOM_BYTES = 20 << 10 };

static struct room_pool {
	int owner[ROOMS]; /* a thread; 0: free */
	char room[ROOMS][ROOM_BYTES] __attribute__((aligned(64)));
} pool;

static bool take_pool_room(int at, int of, int thread) {
	return __atomic_compare_exchange_n(&pool.owner[at], &of, thread, false, __ATOMIC_ACQ_REL,
	                                   __ATOMIC_RELAXED);
}

/* Rooms of threads that are gone are free: a child of vfork takes one in its parent's memory and
 * executes a program, and a handler may leave by longjmp. */
static char *find_pool_room(int thread) {
	for (int i = 0; i < ROOMS; i++) {
		int at = (int)(((unsigned)thread * 7 + (unsigned)i) % ROOMS);
		if (!__atomic_load_n(&pool.owner[at], __ATOMIC_RELAXED) && take_pool_room(at, 0, thread))
			return pool.room[at];
	}
	for (int at = 0; at < ROOMS; at++) {
		int of = __atomic_load_n(&pool.owner[at], __ATOMIC_RELAXED);
		if (of && syscall(SYS_kill, of, 0) != 0 && errno == ESRCH && take_pool_room(at, of, thread))
			return pool.room[at];
	}
	return NULL;
}

void *lp_room_take(lp_room *room, size_t size) {
	int code = errno;
	if (room->at) return room->at;
	if (size <= ROOM_BYTES) room->at = find_pool_room((int)syscall(SYS_gettid));
	if (!room->at) {
		void *map = (void *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE,
		                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
		if (map == MAP_FAILED) return errno = ENOMEM, NULL;
		room->at = map;
		room->mapped = size;
	}
	errno = code;
	return room->at;
}

void lp_room_give(lp_room *room) {
	int code = errno;
	if (room->mapped) syscall(SYS_munmap, room->at, room->mapped);
	else if (room->at)
		__atomic_store_n(&pool.owner[((char *)room->at - pool.room[0]) / ROOM_BYTES], 0,
		                 __ATOMIC_RELEASE);
	errno = code;
}

/* ---- texts without snprintf, which takes kilobytes of stack ---- */

bool lp_join(char *out, size_t size, ...) {
	size_t used = 0;
	bool fits = true;
	va_list parts;
	va_start(parts, size);
	out[0] = '\0';
	for (const char *part; fits && (part = va_arg(parts, const char *)) != NULL;) {
		size_t length = strlen(part), left = size - 1 - used;
		fits = length <= left;
		if (!fits) length = left;
		memcpy(out + used, part, length);
		out[used += length] = '\0';
	}
	va_end(parts);
	return fits;
}

const char *lp_digits(uint64_t number, char text[LP_DIGITS]) {
	char *at = &text[LP_DIGITS - 1];
	*at = '\0';
	do *--at = (char)('0' + number % 10);
	while (number /= 10);
	return at;
}

uint64_t lp_number_at(const char **at) {
	uint64_t number = 0;
	while (**at == ' ') ++*at;
	while (**at >= '0' && **at <= '9') number = 10 * number + (uint64_t)(*(*at)++ - '0');
	return number;
}

/* The path that /proc has of a descriptor; "": none. */
long lp_descriptor_path(int fd, char path[PATH_MAX]) {
	char link[40], digits[LP_DIGITS];
	lp_join(link, sizeof link, "/proc/self/fd/", lp_digits((uint64_t)(fd < 0 ? 0 : fd), digits),
	        LP_END);
	long length = fd < 0 ? -1 : syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
	path[length > 0 ? length : 0] = '\0';
	return length;
}
