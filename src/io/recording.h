/* recording.h: the file of a recorded process, mapped and shared, so that stored data survives
 * however the process ends (kill -9, exec, _exit): nothing has to be flushed.
 *
 *     header          one page: format, process, clock, rank, what was lost
 *     block 0 ...     LK_BLOCK_BYTES each: its own head, then records of 64 bytes
 *
 * A block is filled by one thread. A record is valid once its `kind` is stored, which is last; a
 * block ends at the first record without one. So every file is complete up to the last record of
 * every block. Texts (paths, names, ranks) are a head record and pieces directly after it, in the
 * same block; the head is stored last.
 *
 * The writer (recording.c) is used by the preload library: only libc, no allocation, no locks, raw
 * system calls; it keeps no descriptor, so that a program may close all of them. Pages are
 * allocated before they are touched: a full disk loses records, but causes no SIGBUS. The reader
 * (recording_file.c) accepts any bytes. */
#ifndef LK_BASE_RECORDING_H
#define LK_BASE_RECORDING_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_RECORDING_MAGIC  "LKRECORD"
#define LK_RECORDING_ENDING ".lkrec"
#define LK_RECORD_PIPE      "pipe "
#define LK_GROUP_ENDING     ".lkgroup"
#define LK_RECORDING_FORKED ".of-" /* in names of recordings of forked processes */
enum {
	/* 2: device records; 3: bytes from storage; 4: processor time; 5: that of the thread, its
	 * faults and switches; 6: mounts, and the machine's cores; 7: who ended a wait;
	 * 8: marks of the program */
	LK_RECORDING_VERSION = 8,
	LK_RECORDING_THREAD_USE = 5, /* the first with lk_record_entry.use */
	LK_RECORDING_WAKERS = 7,     /* the first with lk_record_entry.wait */
	LK_RECORDING_OLDEST = 1,     /* oldest readable version */
	LK_HEADER_BYTES = 4096,
	LK_BLOCK_BYTES = 1 << 16,
	LK_RECORD_BYTES = 64,
	LK_BLOCK_RECORDS =
		LK_BLOCK_BYTES / LK_RECORD_BYTES - 1, /* the first place is the block's head */
	LK_BLOCK_MAGIC = 0x4b4c424b,
	LK_TEXT_PIECE = 62,
	LK_TEXT_MOST = 8192, /* bytes of a text; longer ones are cut */
	LK_SPARE_BLOCKS = 64,
};

typedef enum lk_record_kind {
	LK_RECORD_NONE,
	LK_RECORD_TEXT,   /* a piece of the text of the previous record */
	LK_RECORD_THREAD, /* object: its number here; bytes: its id in the system */
	LK_RECORD_FILE,   /* object: its number; bytes: its size when first seen; file.mount; text: its
	                     path */
	/* object: number of a communicator; comm.peer: ranks in it; comm.tag: own rank in it; text:
	 * ranks, or "#" and a name. For NCCL, NAME.lkgroup next to the recording holds an int32 per
	 * rank, its rank in the world + 1, or 0, as every member writes its own. For an emulated world
	 * also bytes: the division that it is a part of; comm.request: its name in all processes; and
	 * those of other ranks that were created with it, with own rank -1. */
	LK_RECORD_GROUP,
	LK_RECORD_NAME, /* object: number of a call; text: "MPI_Allreduce" */
	LK_RECORD_OPEN,
	LK_RECORD_READ,
	LK_RECORD_WRITE,
	LK_RECORD_SYNC,
	LK_RECORD_MAP,
	LK_RECORD_CLOSE, /* of a file */
	LK_RECORD_COMM,  /* a call of a communication library */
	LK_RECORD_PEER,  /* object: number of a connection; text: "HOST:PORT from HOST:PORT", "pipe 123"
	                    */
	LK_RECORD_SENT,
	LK_RECORD_RECEIVED,    /* on a connection; io.most: requested bytes, io.sequential: part of a
	                          message */
	LK_RECORD_WAIT,        /* a thread waited; object: lk_wait_for */
	LK_RECORD_DEVICE_CALL, /* a call of a device's runtime on the host */
	LK_RECORD_DEVICE_WORK, /* work on a stream of a device, with known times */
	LK_RECORD_PROXY,     /* a network transfer of a communication, by one channel; object: truncated
	                        device.serial of its work */
	LK_RECORD_STORAGE,   /* bytes: total read from storage for this thread, including readahead, as
	                        counted by the kernel */
	LK_RECORD_PROCESSOR, /* bytes: total nanoseconds computed by the process's threads; use: of the
	                        thread */
	LK_RECORD_MOUNT, /* object: its number; text: folder and type of a file system, "/data (nfs4)"
	                    */
	LK_RECORD_MARK,  /* the program names what its thread works on; object: lk_mark_part; bytes: the
	                   domain in which marks nest; text: the name */
	LK_RECORD_KINDS,
} lk_record_kind;

typedef enum lk_mark_part {
	LK_MARK_BEGINS,
	LK_MARK_ENDS, /* of the thread's marks of the domain the one that began last */
	LK_MARK_PARTS
} lk_mark_part;

/* What a thread waited for. */
typedef enum lk_wait_for {
	LK_WAIT_PEERS,  /* connections or pipes */
	LK_WAIT_THREAD, /* a condition, semaphore or end, which another thread brings about */
	LK_WAIT_SLEEP,  /* time to pass */
	LK_WAIT_LOCK,   /* another thread that holds what only one may: Python's interpreter */
} lk_wait_for;

/* The role of a call in a communication. */
typedef enum lk_comm_part {
	LK_PART_WHOLE,   /* the whole communication */
	LK_PART_POST,    /* starts it; `request` will be waited for */
	LK_PART_MAKE,    /* creates a persistent request */
	LK_PART_START,   /* starts a persistent one */
	LK_PART_DONE,    /* `request` was waited for and is done */
	LK_PART_FREE,    /* the request is discarded */
	LK_PART_ENQUEUE, /* enqueues it on the stream `tag`; the work `request` on the device records
	                    its end */
	LK_PARTS,
} lk_comm_part;

/* What is communicated. */
typedef enum lk_comm_what {
	LK_WHAT_OTHER,
	LK_WHAT_ALLREDUCE,
	LK_WHAT_REDUCE,
	LK_WHAT_BROADCAST,
	LK_WHAT_ALLGATHER,
	LK_WHAT_GATHER,
	LK_WHAT_SCATTER,
	LK_WHAT_REDUCESCATTER,
	LK_WHAT_ALLTOALL,
	LK_WHAT_BARRIER,
	LK_WHAT_SCAN,
	LK_WHAT_SEND,
	LK_WHAT_RECV,
	LK_WHAT_SENDRECV,
	LK_WHATS,
} lk_comm_what;

/* What a call requests of a device. */
typedef enum lk_device_what {
	LK_DEVICE_KERNEL,
	LK_DEVICE_COPY,
	LK_DEVICE_SET,
	LK_DEVICE_COMM,         /* work */
	LK_DEVICE_RECORD,       /* an event, into a stream */
	LK_DEVICE_STREAM_WAITS, /* a stream for an event */
	LK_DEVICE_WAIT_STREAM,
	LK_DEVICE_WAIT_EVENT,
	LK_DEVICE_WAIT_ALL, /* the host waits */
	LK_DEVICE_OTHER,    /* memory is allocated or freed */
	LK_DEVICE_WHATS,
} lk_device_what;

typedef struct lk_record_entry {
	uint16_t kind;            /* lk_record_kind; stored last */
	uint16_t thread;          /* number of the thread in its process */
	uint32_t object;          /* a file or communicator; 0: unknown */
	int64_t start_ns, end_ns; /* relative to the header's time */
	int64_t bytes;            /* read, written; message size as counted by nccl-tests */
	union {
		/* READ, WRITE: closely successive calls are one record. */
		struct {
			int64_t busy_ns;     /* in the calls */
			int64_t offset;      /* after the last one; -1 if the file's position determines it */
			uint32_t count;      /* calls */
			uint32_t sequential; /* calls that continued where the previous one ended */
			int64_t most;        /* bytes of the largest */
		} io;
		struct {
			uint64_t request;
			int32_t peer;       /* rank in the group; root of a collective; -1: none */
			int32_t tag;        /* for DONE, like the peer, as received */
			uint8_t part, what; /* lk_comm_part, lk_comm_what */
			uint16_t element_bytes;
			uint32_t call; /* number of its name */
			int64_t from;  /* SENDRECV: the source rank; RECV and DONE: bytes received, -1:
			                  unknown */
		} comm;
		/* DEVICE_CALL: closely successive launches are one record. DEVICE_WORK: pieces of work on
		 * one stream between two marks are one record; times are by the host's clock. */
		struct {
			uint64_t serial;   /* joins a call with its work, and waits with the call that recorded
			                      their event; 0: unknown */
			int64_t busy_ns;   /* in the calls */
			uint32_t stream;   /* number, from 1; 0: none */
			uint32_t call;     /* number of the name of the call, or of the kernel */
			uint32_t count;    /* calls, kernels */
			uint8_t what;      /* lk_device_what */
			uint8_t direction; /* of a copy: 0 host to host, 1 to the device, 2 from it, 3 on it, 4
			                      unknown */
			uint16_t device;
		} device;
		/* PROXY: waits of its thread, over all steps. */
		struct {
			int64_t device_ns, network_ns,
				peer_ns; /* for the GPU, the wire, the other side's readiness */
			int32_t peer;
			uint16_t steps;
			uint8_t channel, sends;
		} proxy;
		/* PROCESSOR: totals of its thread, as counted by the kernel. */
		struct {
			int64_t computed_ns, queued_ns; /* on a processor; waiting for one, -1: not read */
			uint32_t major_faults;          /* pages read from storage */
			uint32_t gave_up, preempted;    /* switches: voluntary; involuntary */
		} use;
		/* WAIT; waits for the same in close succession are one record */
		struct {
			uint64_t on;      /* the address of the condition, semaphore, thread; 0: none */
			int64_t ended_ns; /* when another thread ended it, before this one ran again */
			uint32_t waker;   /* that thread's number + 1; 0: unknown */
		} wait;
		/* FILE */
		struct {
			uint32_t mount; /* number of the file's mount; 0: unknown */
		} file;
	};
} lk_record_entry;
_Static_assert(sizeof(lk_record_entry) == LK_RECORD_BYTES, "a record is 64 bytes");

typedef struct lk_record_text {
	uint16_t kind;
	char text[LK_TEXT_PIECE];
} lk_record_text;

typedef struct lk_record_block {
	uint32_t magic, number;
	char unused[LK_RECORD_BYTES - 8];
	lk_record_entry record[LK_BLOCK_RECORDS];
} lk_record_block;
_Static_assert(sizeof(lk_record_block) == LK_BLOCK_BYTES, "a block has no gaps");

/* How communication was done. */
typedef enum lk_recorded_mode {
	LK_RECORDED_WHOLE,
	LK_RECORDED_NULL,
	LK_RECORDED_AS_RANK
} lk_recorded_mode;
enum { /* bits of lk_recording_head.seen */
	   LK_RECORDED_URING = 1,
	   LK_RECORDED_MPI = 2,
	   LK_RECORDED_NCCL = 4,
	   LK_RECORDED_DEVICE = 8,
	   LK_RECORDED_TORCH =
	       16, /* Python's torch.distributed among several ranks, as reported by lockstep's
	            * module */
	   LK_RECORDED_SLOWED = 32, /* reads of some files were slowed */
};

typedef struct lk_recording_head {
	char magic[8];
	uint32_t version, header_bytes, block_bytes, record_bytes;
	uint32_t pid, parent;
	int64_t monotonic_ns, realtime_ns; /* the origin of the times */
	uint64_t limit_bytes;
	/* these change during the run */
	uint32_t blocks; /* handed out */
	uint32_t threads;
	uint64_t dropped;    /* records that found no room */
	int64_t end_ns;      /* of the process, if it ended regularly; else 0 */
	int32_t rank, world; /* -1 and 0 before MPI_Init */
	uint32_t seen;
	uint32_t cost_ns; /* of one record, measured at the start; 0: not measured */
	uint64_t major_faults,
		storage_bytes; /* at a regular end: major page faults, bytes read from storage */
	uint32_t root;     /* the process that this one was forked from, if also recorded; else 0 */
	char host[64], program[64];
	char marker[128];  /* the begin of a step: "MPI_Barrier", "read:NAME"; "" not given */
	uint32_t mode;     /* lk_recorded_mode */
	uint32_t delay_us; /* added to communication */
	uint64_t left_out; /* null: calls that never reached the library */
	/* Why there is no more room: errno of the first failed growth (ENOSPC, EDQUOT, ...); EFBIG: the
	 * limit of file sizes is below limit_bytes; 0: only limit_bytes */
	uint32_t growth_errno;
	uint32_t cores; /* online cores of the machine; 0: unknown */
	/* Sum over the file with 0 here, from when its process had ended; 0: none. */
	uint64_t seal;
} lk_recording_head;
_Static_assert(sizeof(lk_recording_head) <= LK_HEADER_BYTES, "the header is one page");

/* ---- writing ---- */

typedef struct lk_recorder {
	lk_recording_head *head; /* NULL: not open */
	char *map;
	uint64_t limit;
	uint64_t device, inode;               /* of the file, which is reopened for each block */
	uint32_t failures;                    /* to extend the file; after some it is not tried again */
	uint32_t spare[LK_SPARE_BLOCKS];      /* blocks left by ended threads, + 1; 0: none */
	char path[PATH_MAX], shown[PATH_MAX]; /* hidden, then as shown; and the latter */
} lk_recorder;

/* Where a thread writes. Zeroed: no block yet. */
typedef struct lk_record_place {
	lk_record_block *block;
	uint32_t at; /* next place */
	uint16_t thread;
} lk_record_place;

/* Create FOLDER/HOST-PID-N.lkrec, for a forked process HOST-PID-N.of-ROOT.lkrec: exclusively, mode
 * 0600, without following links. `root` 0: not forked. Returns 0 or an errno. */
int lk_recorder_open(lk_recorder *recorder, const char *folder, uint64_t limit_bytes,
                     uint32_t root);
/* Unmap it; the file stays. */
void lk_recorder_close(lk_recorder *recorder);
/* The next place of this thread, to be filled and published; NULL if there is no room, which is
 * counted. */
lk_record_entry *lk_recorder_next(lk_recorder *recorder, lk_record_place *place);
/* Make a filled record visible. */
void lk_recorder_publish(lk_recorder *recorder, lk_record_place *place, lk_record_entry *record,
                         lk_record_kind kind);
/* Write a record followed by a text. */
void lk_recorder_text(lk_recorder *recorder, lk_record_place *place, const lk_record_entry *record,
                      lk_record_kind kind, const char *text, size_t length);
/* The thread ends: another one may use its block. */
void lk_recorder_leave(lk_recorder *recorder, lk_record_place *place);
int64_t lk_monotonic_ns(void);

/* ---- reading ---- */

struct lk_error;

typedef struct lk_recording {
	const char *path;           /* as given; must outlive it */
	const unsigned char *bytes; /* in memory; NULL: read from `fd` */
	uint64_t size;
	int fd, error;          /* errno of a failed read; 0: none */
	lk_recording_head head; /* a copy with terminated texts */
	uint32_t blocks;        /* existing blocks */
	/* position of the reader */
	uint32_t block, at;
	lk_record_block *here; /* the current block */
	bool loaded;
} lk_recording;

/* A record by value: the file may still be written to. */
typedef struct lk_recorded {
	lk_record_entry record;
	char text[LK_TEXT_MOST + LK_TEXT_PIECE + 1];
} lk_recorded;

/* Returns an lk_status: LK_OK, or why it is no recording; nothing is to be closed then. */
int lk_recording_open(const char *path, lk_recording *out, struct lk_error *err);
/* lk_recording_open for bytes that outlive it. */
int lk_recording_of(const char *path, const void *bytes, size_t size, lk_recording *out,
                    struct lk_error *err);
/* LK_ERR_INPUT if it has a seal that its bytes do not have. */
int lk_recording_check(lk_recording *recording, struct lk_error *err);
/* Seal a recording of this machine whose process has ended; others, and what is read-only, stay
 * as they are. */
void lk_recording_seal(const char *path);
void lk_recording_close(lk_recording *recording);
/* Read the next record in file order; false at the end. Only within a block that is the order of
 * time: a thread may continue in an earlier block left by another. */
bool lk_recording_next(lk_recording *recording, lk_recorded *out);
/* Returns an lk_status: after the last record, whether it was the end or a failed read
 * (LK_ERR_IO). */
int lk_recording_status(const lk_recording *recording, struct lk_error *err);
void lk_recording_rewind(lk_recording *recording);

#endif
