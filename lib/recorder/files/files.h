/* files.h: reads and writes of a process through descriptors: the file or connection of a
 * descriptor, and the wrappers of libc's calls that move bytes, open, close, wait and connect.
 *
 *     peers.c           connections and pipes as numbered peers; records of messages
 *     descriptors.c     the file or peer of a descriptor
 *     mounts.c          the file systems of files
 *     throttle.c        files of a slow tier, for tests
 *     posix_calls.c     read, write, open, close, lseek, mmap and their relatives
 *     stdio_calls.c     streams, whose own system calls are inside libc
 *     socket_calls.c    send, recv
 *     wait_calls.c      poll, select, epoll, conditions, semaphores, joins, sleep
 *     connections.c     connect, bind, getsockname: redirected addresses in an overlaid run
 *                       or an emulated rank
 *
 * Unknown descriptors are looked up at their first use, so those opened before arming, inherited or
 * duplicated need no special care; closing or replacing one makes it unknown. */
#ifndef LK_RECORDER_FILES_FILES_H
#define LK_RECORDER_FILES_FILES_H

#include <sys/stat.h>

#include "recorder/recorder.h"

/* ---- descriptors.c ---- */

/* Marks a peer's number, as opposed to a file's. */
#define LP_SOCKET (UINT32_C(1) << 30)
/* Marks, with LP_SOCKET, an event (eventfd) or another connection inside of this machine; its
 * number is the descriptor. */
#define LP_EVENT (UINT32_C(1) << 29)

/* Only between lp_enter and lp_leave, except the forgetting ones. */

/* The number of a descriptor's regular file, or LP_SOCKET and the number of its peer; 0: neither.
 * `*moved`: its position was set since the last call. */
uint32_t lp_target(int fd, bool *moved);
/* The same for files only. */
uint32_t lp_file(int fd, bool *moved);
/* Note that the position was set. */
void lp_file_moved(int fd);
/* Note that the descriptor may be another file's from now on. */
void lp_file_forget(int fd);
void lp_file_forget_range(unsigned first, unsigned last);

/* ---- mounts.c ---- */

/* The number of a file's mount, which is recorded at its first file; 0: unknown. */
uint32_t lp_mount_of(int fd);

/* ---- throttle.c ---- */

/* Note the name of a file that got its number. */
void lp_slow_see(uint32_t file, const char *path);
/* After a read of a slow file that began at `start`: wait until the read has taken as long as on
 * the slow tier. Keeps errno. */
void lp_slow_read(uint32_t file, int64_t start, int64_t bytes);

/* ---- peers.c ---- */

/* Connections of this recording so far. */
typedef struct lp_peer_table {
	lp_age age;
	uint32_t count;
} lp_peer_table;
extern lp_peer_table lp_peers;

/* Number a connection or pipe, and record its peer; 0: not recorded. */
uint32_t lp_new_peer(int fd, const struct stat *info);
/* Record that `bytes` of a message of `wanted` bytes went to a peer (kind LK_RECORD_WRITE) or came
 * from it. */
void lp_peer_moved(lk_record_kind kind, uint32_t peer, int64_t start, int64_t end, int64_t bytes,
                   int64_t wanted);
/* Whether any peer is known: waits are recorded only then. May be called outside lp_enter. */
static inline bool lp_has_peers(void) {
	return lp_peers.age.done == lp_state.epoch &&
	       __atomic_load_n(&lp_peers.count, __ATOMIC_RELAXED) > 0;
}

/* ---- wait_calls.c ---- */

/* Only between lp_enter and lp_leave: an event is about to be signalled; it was read. */
void lp_event_signalled(uint32_t fd);
void lp_event_moved(lk_record_kind kind, uint32_t fd, int64_t start, int64_t end);

#endif
