/* recorder.h: the preload library: what its files share.
 *
 * A process is *inert* until it is armed: at MPI_Init, or when it starts under a program name that
 * is to be recorded. Inert, a call passes through after one look at lp_state.on. Nothing here
 * allocates, locks or prints once armed; a call that comes while the probe itself works in the same
 * thread (a signal handler, the libraries it calls) passes through.
 *
 * Environment, set by `lockstep record`:
 *     LOCKSTEP_RECORD=DIR          where files go; without it the probe does nothing
 *     LOCKSTEP_RECORD_MB=N         most MiB per process
 *     LOCKSTEP_RECORD_PROGRAM=A,B  names of programs that are armed when they start
 *     LOCKSTEP_RECORD_MARKER=TEXT  what begins a step, for the reader
 *     LOCKSTEP_RECORD_DELAY=US     communication takes so much longer: known stalls for tests
 *     and those of modes (mode.h)
 */
#ifndef LK_RECORDER_RECORDER_H
#define LK_RECORDER_RECORDER_H

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "io/recording.h"

#define LP_EXPORT __attribute__((visibility("default")))
#define LP_HOT(x) __builtin_expect(!!(x), 1)

/* A word that a forked child finds zeroed (MADV_WIPEONFORK), however it was forked. */
typedef struct lp_gate {
	uint32_t open;
} lp_gate;

typedef struct lp_state_of {
	int on;         /* this process or the one it was forked from is armed */
	uint32_t epoch; /* counts the recordings of this process and its forebears */
	lp_gate *gate;
	lk_recorder recorder;
	int64_t origin_ns; /* of the recording's times */
	uint32_t threads;
	int64_t delay_ns;
	char folder[PATH_MAX];
	uint64_t limit;
	uint32_t
		root; /* process with which the recording of this one and its children began; 0 none yet */
	char marker[128];
	int rank, world; /* as launchers of PyTorch say it (RANK, WORLD_SIZE); -1, 0 */
} lp_state_of;
extern lp_state_of lp_state;

/* Of each thread. */
typedef struct lp_thread_of {
	lk_record_place place;
	uint32_t epoch;          /* of the recording that `place` lies in */
	bool busy;               /* the probe works here */
	lk_record_entry *last;   /* the record that calls like it may be added to */
	int depth;               /* of MPI calls: what the library calls itself is not the program's */
	int64_t storage_ns;      /* when the kernel was last asked what this thread had from storage */
	uint64_t storage_blocks; /* what it said */
} lp_thread_of;
extern __thread lp_thread_of lp_thread __attribute__((tls_model("initial-exec")));

/* Whether this is the library that NCCL loads as its plugin, which has no wrappers and is armed by
 * NCCL alone. */
extern const bool lp_is_plugin;

/* Arms the process unless it is; false where it stays inert. */
bool lp_arm(void);
/* What wipes out and begins anew in a forked child. */
bool lp_enter_slow(void);
void lp_leave_process(void);

/* Begins work in this thread; false: pass the call through. */
static inline bool lp_enter(void) {
	if (!lp_state.on || lp_thread.busy) return false;
	lp_thread.busy = true;
	if (LP_HOT(lp_state.gate->open && lp_thread.epoch == lp_state.epoch)) return true;
	if (lp_enter_slow()) return true;
	lp_thread.busy = false;
	return false;
}
static inline void lp_leave(void) {
	lp_thread.busy = false;
}
static inline int64_t lp_now(void) {
	return lk_monotonic_ns() - lp_state.origin_ns;
}

/* Between lp_enter and lp_leave. */
static inline lk_record_entry *lp_next(void) {
	lp_thread.last = NULL;
	return lk_recorder_next(&lp_state.recorder, &lp_thread.place);
}
static inline void lp_publish(lk_record_entry *record, lk_record_kind kind) {
	lk_recorder_publish(&lp_state.recorder, &lp_thread.place, record, kind);
}
void lp_text(const lk_record_entry *record, lk_record_kind kind, const char *text);

/* The real function; LP_REAL(read) declares `real`, looked up once. */
void *lp_symbol(const char *name);
void *lp_symbol_if(const char *name); /* NULL where there is none */
void *lp_variable(const char *name);
#define LP_REAL(name)                                                   \
	static __typeof__(&name) real_;                                     \
	__typeof__(&name) real = __atomic_load_n(&real_, __ATOMIC_RELAXED); \
	if (!LP_HOT(real != NULL)) {                                        \
		real = (__typeof__(&name))(uintptr_t)lp_symbol(#name);          \
		__atomic_store_n(&real_, real, __ATOMIC_RELAXED);               \
	}

/* ---- files (files.c) ---- */

/* The number of a descriptor's file, 0 for what is no regular file; `moved`: its position was set
 * since the last call. */
uint32_t lp_file(int fd, bool *moved);
/* The same; LP_SOCKET and a peer's number for a connection. */
#define LP_SOCKET (UINT32_C(1) << 30)
uint32_t lp_target(int fd, bool *moved);
void lp_file_moved(int fd);
void lp_file_forget(int fd);
void lp_file_forget_range(unsigned first, unsigned last);
void lp_files_reset(void);

/* A read or write that has been done. `offset` -1: at the file's position. */
void lp_io(lk_record_kind kind, uint32_t file, int64_t start, int64_t end, int64_t bytes,
           int64_t offset, bool moved);
/* OPEN, CLOSE, SYNC, MAP. */
void lp_file_event(lk_record_kind kind, uint32_t file, int64_t start, int64_t end, int64_t bytes);

/* ---- connections (socket.c) ---- */

void lp_sockets_reset(void);
struct stat;
uint32_t lp_new_peer(int fd, const struct stat *info); /* 0: none that is recorded */
/* READ or WRITE of what may be a part of `asked` bytes. */
void lp_socket_moved(lk_record_kind kind, uint32_t peer, int64_t start, int64_t end, int64_t bytes,
                     int64_t asked);

/* ---- MPI (mpi.c) ---- */

void lp_mpi_reset(void);

/* ---- devices and NCCL (gpu.c, nccl.c) ---- */

void lp_gpu_reset(void);
void lp_nccl_reset(void);
void lp_profiler_reset(void);

/* ---- rendezvous: the port of PyTorch's rendezvous, in processes that pose as ranks. */

/* Whether an address is that of the store of the absent ranks; then `elsewhere` is one to bind to.
 */
bool lp_rendezvous_binds(const struct sockaddr *at, socklen_t length,
                         struct sockaddr_storage *elsewhere);
/* A socket was bound there. */
void lp_rendezvous_bound(int fd);

#endif
