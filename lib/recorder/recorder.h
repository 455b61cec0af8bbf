/* recorder.h: the core of the preload library: when a process is recorded, how a record is written,
 * and the current mode.
 *
 * A process is *inert* until it is armed: at MPI_Init, or when it starts under a program name that
 * is to be recorded. While inert, a call passes through after one look at lp_state.on. Nothing here
 * allocates, locks or prints once armed; a call made while the recorder itself works in the same
 * thread (a signal handler, the libraries it calls) passes through.
 *
 * A wrapper of a library's call reads:
 *
 *     LP_REAL(read)                                  the library's own function, as `real`
 *     if (!lp_enter()) return real(fd, to, size);    not recorded
 *     ...                                            which file; the time
 *     lp_leave();
 *     ssize_t result = real(fd, to, size);
 *     if (lp_enter()) { ... lp_next ... lp_publish ...; lp_leave(); }
 *
 * The folders above, in order: overlay (private files), files (descriptors, sockets, streams), mpi,
 * emulate (a rank of a world that does not exist), gpu (CUDA and NCCL), start (what begins with a
 * process or with MPI). The core knows none of them. It has no base/: only libc and io/recording.h
 * may be used in other people's programs.
 *
 * Environment, set by `lockstep record`:
 *     LOCKSTEP_RECORD=DIR          where recordings go; without it nothing is recorded
 *     LOCKSTEP_RECORD_MB=N         most MiB of a process
 *     LOCKSTEP_RECORD_PROGRAM=A,B  names of programs that are armed when they start
 *     LOCKSTEP_RECORD_MARKER=TEXT  what begins a step, for the reader
 *     LOCKSTEP_RECORD_DELAY=US     lengthens communication: known stalls for tests
 *     LOCKSTEP_RECORD_SLOW=NS PS DIR  reads below DIR take NS and PS a byte, the same for files
 *     LOCKSTEP_RECORD_MODE=record|null|as-rank
 *     LOCKSTEP_RECORD_SCRATCH=DIR  where writes go (overlay/overlay.h); without it the program
 *                                  writes normally
 *     for as-rank:
 *     LOCKSTEP_RECORD_RANK=N, LOCKSTEP_RECORD_WORLD=N, LOCKSTEP_RECORD_NODE=N
 *     LOCKSTEP_RECORD_FILL=numbers|random|zeros|FILE */
#ifndef LK_RECORDER_RECORDER_H
#define LK_RECORDER_RECORDER_H

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "io/recording.h"

#define LP_EXPORT __attribute__((visibility("default")))
#define LP_HOT(x) __builtin_expect(!!(x), 1)

/* Invariants; built in only with -DLK_ASSERTS, because a call takes 100 ns. */
#ifdef LK_ASSERTS
#define LP_ASSERT(condition) ((condition) ? (void)0 : abort())
#else
#define LP_ASSERT(condition) ((void)0)
#endif

/* ---- the process and its threads (recorder.c) ---- */

/* A word that is zero in a forked child (MADV_WIPEONFORK), however it was forked. */
typedef struct lp_gate {
	uint32_t open;
} lp_gate;

typedef struct lp_process {
	int on; /* this process or the one it was forked from is armed */
	/* Counts the recordings of this process and its ancestors; 0 before the first. */
	uint32_t epoch;
	lp_gate *gate; /* closed: a forked child whose recording has not begun */
	lk_recorder recorder;
	int64_t origin_ns; /* time 0 of the recording, on the monotonic clock */
	uint32_t threads;
	int64_t delay_ns; /* added to communication; 0 none */
	struct lp_slow {
		int64_t read_ns, byte_ps;
		char folder[PATH_MAX]; /* with "/" at its end; "": no file is slowed */
	} slow;
	char folder[PATH_MAX]; /* absolute; "" nothing is recorded */
	uint64_t limit;        /* bytes of a recording */
	/* Process with which this process' tree of recordings began; 0 none yet. */
	uint32_t root;
	char marker[128];
	int rank, world; /* from PyTorch's launchers (RANK, WORLD_SIZE); -1, 0 */
} lp_process;
extern lp_process lp_state;

typedef struct lp_thread_state {
	lk_record_place place;   /* of the next record */
	uint32_t epoch;          /* of the recording of `place` */
	bool busy;               /* the recorder works in this thread: calls pass through */
	bool communicates;       /* it calls a library of communication */
	lk_record_entry *last;   /* the record into which a similar call may be merged; NULL none */
	int64_t storage_ns;      /* when the kernel's counter of this thread's reads was last read */
	uint64_t storage_blocks; /* its value, in blocks of 512 bytes */
	int64_t processor_ns;    /* when times on processors were last recorded */
	int64_t queued_ns;       /* when the thread's queued time was last read */
} lp_thread_state;
extern __thread lp_thread_state lp_thread __attribute__((tls_model("initial-exec")));

/* ---- functions of libraries (recorder.c) ---- */

/* The next definition of a symbol after this library's. lp_symbol and lp_variable end the program
 * if there is none. */
void *lp_symbol(const char *name);
/* A function that this glibc is too old to have, implemented by system calls; NULL for all
 * others. */
void *lp_old_libc(const char *name);
void *lp_symbol_if(const char *name); /* NULL if there is none */
void *lp_variable(const char *name);
/* Declare `real`, found by `find` once. */
#define LP_REAL_IN(real_, find, name)                                   \
	__typeof__(&name) real = __atomic_load_n(&real_, __ATOMIC_RELAXED); \
	if (!LP_HOT(real != NULL)) {                                        \
		real = (__typeof__(&name))(uintptr_t)find(#name);               \
		__atomic_store_n(&real_, real, __ATOMIC_RELAXED);               \
	}
#define LP_REAL_BY(find, name)      \
	static __typeof__(&name) real_; \
	LP_REAL_IN(real_, find, name)
#define LP_REAL(name) LP_REAL_BY(lp_symbol, name)

/* The same for functions of libc, which are found when the library is loaded: the linker's search
 * takes locks and kilobytes of stack, which a handler of a signal may not have. */
typedef struct lp_libc_function {
	const char *name;
	void *real; /* of a pointer to it */
} lp_libc_function;
void lp_find_libc(void);
#define LP_LIBC(name)                                                \
	static __typeof__(&name) real_;                                  \
	static const lp_libc_function function_                          \
		__attribute__((section("lp_libc"), used)) = {#name, &real_}; \
	LP_REAL_IN(real_, lp_symbol, name)

/* ---- rooms (rooms.c) ----
 *
 * A wrapper runs on the program's stack, which may be small: no function of the preload library has
 * a frame of more than 512 bytes (Makefile; tests/record/stacks.c). Larger buffers are rooms. */

typedef char lp_path[PATH_MAX];
typedef char lp_long_text[LK_TEXT_MOST];
typedef struct lp_room {
	void *at; /* NULL: not taken */
	size_t mapped;
} lp_room;
/* The room's bytes, which it keeps until it is given back; NULL and ENOMEM. Safe in handlers of
 * signals. */
void *lp_room_take(lp_room *room, size_t size);
/* Keeps errno. */
void lp_room_give(lp_room *room);
/* A room that is given back at the end of the scope. */
#define LP_ROOM(name) __attribute__((cleanup(lp_room_give))) lp_room name = {0}
/* Declare `name`, a pointer to a TYPE in a room of its own; without memory return `failed`. */
#define LP_TAKE(type, name, failed)                           \
	LP_ROOM(room_of_##name);                                  \
	type *name = lp_room_take(&room_of_##name, sizeof(type)); \
	if (!name) return failed

enum { LP_DIGITS = 24 };
/* A number as text, which ends at the end of `text`. */
const char *lp_digits(uint64_t number, char text[LP_DIGITS]);
/* Read a number after blanks; 0 if there is none. */
uint64_t lp_number_at(const char **at);
/* Join texts, up to NULL; false: it was cut. */
bool lp_join(char *out, size_t size, ...) __attribute__((sentinel));
#define LP_END ((const char *)NULL) /* the last argument of lp_join */
/* The path of a descriptor's file, as /proc has it, or ""; its length or -1. */
long lp_descriptor_path(int fd, char path[PATH_MAX]);

/* ---- arming (arming.c) ---- */

/* Arm the process unless it is armed; false: it stays inert. */
bool lp_arm(void);
/* A thread's first call, or the first call of a forked child; false: it is not recorded. */
bool lp_enter_slow(void);

/* Begin work in this thread; false: pass the call through. */
static inline bool lp_enter(void) {
	if (!lp_state.on || lp_thread.busy) return false;
	lp_thread.busy = true;
	if (LP_HOT(lp_state.gate->open && lp_thread.epoch == lp_state.epoch)) return true;
	if (lp_enter_slow()) return true;
	lp_thread.busy = false;
	return false;
}
static inline void lp_leave(void) {
	LP_ASSERT(lp_thread.busy);
	lp_thread.busy = false;
}
static inline int64_t lp_now(void) {
	return lk_monotonic_ns() - lp_state.origin_ns;
}

/* Record computation time of the process and this thread, and what kept the thread from computing
 * (processor.c), unless that was recorded less than `apart` nanoseconds ago: it takes some
 * 0.6 us. */
enum { LP_AT_COMM = 50000, LP_AT_CALLS = 1000000 };
void lp_ask_processor(int64_t now);
static inline void lp_record_processor(int64_t now, int64_t apart) {
	int64_t since = now - lp_thread.processor_ns;
	if (LP_HOT(lp_thread.processor_ns && since >= 0 && since < apart)) return;
	lp_ask_processor(now);
}

/* ---- who ended a wait (signals.c); only between lp_enter and lp_leave ---- */

/* This thread signals what is at an address, or a number below any address. */
void lp_leave_signal(uint64_t address);
/* The number + 1 of the thread that last signalled it, since a wait for it began; 0: unknown.
 * `*ended`: when. */
uint32_t lp_find_waker(uint64_t address, int64_t start, int64_t end, int64_t *ended);
/* Find the lock of Python's interpreter, if there is one; when the process begins. */
void lp_find_python(void);
bool lp_is_python_lock(uint64_t address);

/* ---- tables of a recording (recorder.c) ----
 *
 * A forked child has its parent's tables and must not use them. Each table has an age, which its
 * users check first:
 *
 *     if (lp_is_stale(&age)) {
 *         memset(table, 0, sizeof table);
 *         lp_renewed(&age);
 *     } */

typedef struct lp_age {
	uint32_t begun, done; /* epochs for which emptying was begun, and done; 0: never */
} lp_age;

bool lp_begin_renewal(lp_age *age);
/* True for one thread of a recording, which must empty the table; the others wait until it has. */
static inline bool lp_is_stale(lp_age *age) {
	return !LP_HOT(__atomic_load_n(&age->done, __ATOMIC_ACQUIRE) == lp_state.epoch) &&
	       lp_begin_renewal(age);
}
static inline void lp_renewed(lp_age *age) {
	__atomic_store_n(&age->done, age->begun, __ATOMIC_RELEASE);
}

/* ---- records: only between lp_enter and lp_leave ---- */

/* The next record of this thread, zeroed; NULL: the recording is full, which is counted. */
static inline lk_record_entry *lp_next(void) {
	LP_ASSERT(lp_thread.busy);
	lp_thread.last = NULL;
	return lk_recorder_next(&lp_state.recorder, &lp_thread.place);
}
static inline void lp_publish(lk_record_entry *record, lk_record_kind kind) {
	LP_ASSERT(record->end_ns >= record->start_ns);
	lk_recorder_publish(&lp_state.recorder, &lp_thread.place, record, kind);
}
/* A record with a text: a name, a path, a list of ranks. */
void lp_text(const lk_record_entry *record, lk_record_kind kind, const char *text);

/* A list of ranks as a text: "[0, 1, 8:15:1]", or cut, "[0, 1, ...]". */
typedef struct lp_rank_list {
	char *at;
	size_t room, used;
	size_t margin; /* bytes kept free for the longest entry and the end */
} lp_rank_list;
lp_rank_list lp_rank_list_begin(char *at, size_t room, size_t margin);
/* False: no room for another entry. */
bool lp_rank_list_has_room(const lp_rank_list *list);
void lp_rank_list_add(lp_rank_list *list, int rank);
/* First, last, stride. */
void lp_rank_list_add_range(lp_rank_list *list, int first, int last, int stride);
void lp_rank_list_end(lp_rank_list *list);

/* Record a finished read or write (io_records.c). Times in nanoseconds of the recording; `bytes` as
 * returned, `offset` -1: at the file's position; `moved`: it was set since the last call. */
void lp_io(lk_record_kind kind, uint32_t file, int64_t start, int64_t end, int64_t bytes,
           int64_t offset, bool moved);
/* OPEN, CLOSE, SYNC, MAP. */
void lp_file_event(lk_record_kind kind, uint32_t file, int64_t start, int64_t end, int64_t bytes);

/* A mark of the program begins or ends in this thread (user_marks.c). `domain`: marks nest among
 * those of theirs, from 0. Not between lp_enter and lp_leave; keeps errno. */
void lp_mark(lk_mark_part part, int64_t domain, const char *name);

/* ---- modes: between a program and its communication (mode.c) ----
 *
 *     record    nothing: every call goes to the library
 *     null      large collectives return at once, alike on all ranks
 *     as-rank   one process that believes it is one rank of a large world
 *
 * A delay can be added to each: calls that reach the library complete later by it. */

typedef enum lp_mode_kind { LP_MODE_RECORD, LP_MODE_NULL, LP_MODE_AS_RANK } lp_mode_kind;

typedef struct lp_mode_setting {
	lp_mode_kind kind;
	int rank, world; /* of as-rank; -1, 0 */
	int node;        /* ranks of it per node; 0 not given */
	char fill[256];  /* numbers, random, zeros or a file's name; "" not given */
} lp_mode_setting;
extern lp_mode_setting lp_mode;

/* Read the environment; called once, when the process begins. */
void lp_mode_read(void);

/* Whether null leaves a collective out: a pure function of the call, its size and how often it
 * occurred before on the same communicator, so that all members decide alike. `bytes`:
 * lk_record_entry's, or another measure that is the same on every member. */
bool lp_null_skips(lk_comm_what what, int64_t bytes, uint64_t before);

#endif
