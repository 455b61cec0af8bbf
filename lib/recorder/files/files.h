/* files.h: what a process reads and writes, through descriptors: which file or connection a
 * descriptor is, and the wrappers of libc's calls that move bytes, open, close, wait and connect.
 *
 *     peers.c           connections and pipes as numbered peers; records of messages
 *     descriptors.c     which file or peer a descriptor is
 *     mounts.c          the file systems that files lie on
 *     throttle.c        files of a slow tier, for tests
 *     posix_calls.c     read, write, open, close, lseek, mmap and their relatives
 *     stdio_calls.c     streams, whose own system calls are inside libc
 *     socket_calls.c    send, recv, poll, select, epoll, conditions
 *     connections.c     connect, bind, getsockname: where an address leads in a run of the overlay
 *                       or as a rank
 *
 * Descriptors that are not known are looked up at their first use, so that those of before arming,
 * inherited and duplicated ones need no care; what closes or replaces one makes it unknown.
 */
#ifndef LK_RECORDER_FILES_FILES_H
#define LK_RECORDER_FILES_FILES_H

#include <sys/stat.h>

#include "recorder/recorder.h"

/* ---- descriptors.c ---- */

/* Marks the number of a peer, not of a file. */
#define LP_SOCKET (UINT32_C(1) << 30)

/* All between lp_enter and lp_leave, but for the ones that forget. */

/* The number of a descriptor's regular file, or LP_SOCKET and the number of its peer; 0: neither.
 * `*moved`: its position was set since the last call. */
uint32_t lp_target(int fd, bool *moved);
/* The same of files alone. */
uint32_t lp_file(int fd, bool *moved);
/* The position was set. */
void lp_file_moved(int fd);
/* The descriptor may be another file's from now on. */
void lp_file_forget(int fd);
void lp_file_forget_range(unsigned first, unsigned last);

/* ---- mounts.c ---- */

/* The number of the mount that a file lies on, which is recorded at its first file; 0: not known.
 */
uint32_t lp_mount_of(int fd);

/* ---- throttle.c ---- */

/* The name of a file that got its number. */
void lp_slow_see(uint32_t file, const char *path);
/* After a read of a file that began at `start`: where it is a slow one, waits
 * until the read has taken as long as there. Keeps errno. */
void lp_slow_read(uint32_t file, int64_t start, int64_t bytes);

/* ---- peers.c ---- */

/* Connections of this recording so far. */
typedef struct lp_peer_table {
	lp_age age;
	uint32_t count;
} lp_peer_table;
extern lp_peer_table lp_peers;

/* Numbers a connection or pipe, and records who it is; 0: nothing that is recorded. */
uint32_t lp_new_peer(int fd, const struct stat *info);
/* Records that `bytes` of a message of `wanted` bytes went to a peer (kind LK_RECORD_WRITE) or came
 * from it. */
void lp_peer_moved(lk_record_kind kind, uint32_t peer, int64_t start, int64_t end, int64_t bytes,
                   int64_t wanted);
/* Whether any peer is known: only then are waits recorded. May be asked outside of lp_enter. */
static inline bool lp_has_peers(void) {
	return lp_peers.age.done == lp_state.epoch &&
	       __atomic_load_n(&lp_peers.count, __ATOMIC_RELAXED) > 0;
}

#endif
