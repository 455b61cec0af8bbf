/* record.h: run a command, unchanged, and record what its processes communicate, read and write.
 *
 *     const char *words[] = {"mpirun", "-n", "2", "./train"};
 *     lk_record_request request;
 *     lk_record_defaults(&request);
 *     request.command = words, request.words = 4;
 *     lk_record_answer *answer;
 *     lk_error err;
 *     if (lk_record(&request, &answer, &err) != LK_OK) ...
 *     lk_record_print(answer, stderr);
 *     lk_record_free(answer);
 *
 * A library (liblockstep-probe.so) is loaded into the command's processes. Each recorded process
 * leaves a file in the folder; `lockstep explain FOLDER` reads them. Neither environment nor
 * arguments are stored. */
#ifndef LOCKSTEP_RECORD_H
#define LOCKSTEP_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How communication is done: by the library; without large collectives; in an emulated world. */
typedef enum lk_record_mode {
	LK_RECORD_MODE_RECORD,
	LK_RECORD_MODE_NULL,
	LK_RECORD_MODE_AS_RANK
} lk_record_mode;
/* The MPI library of the command: detected; or named. */
typedef enum lk_record_mpi {
	LK_RECORD_MPI_FOUND,
	LK_RECORD_OPENMPI,
	LK_RECORD_MPICH
} lk_record_mpi;
/* How NCCL is recorded: detected; by wrappers; by a replacement library; by its own profiler
 * interface. */
typedef enum lk_record_nccl {
	LK_RECORD_NCCL_FOUND,
	LK_RECORD_NCCL_PRELOAD,
	LK_RECORD_NCCL_SHIM,
	LK_RECORD_NCCL_PLUGIN,
} lk_record_nccl;
/* What is recorded of a device: when its work was done; only the host's calls; each kernel, by
 * CUPTI. */
typedef enum lk_record_cuda {
	LK_RECORD_CUDA_EVENTS,
	LK_RECORD_CUDA_CALLS,
	LK_RECORD_CUDA_CUPTI
} lk_record_cuda;

/* The request. Texts are borrowed; NULL means "not given". */
typedef struct lk_record_request {
	const char *const *command;
	int words;
	const char *out;         /* folder, which must be empty or not exist; NULL: "recording" */
	int max_mb;              /* limit of each process's file */
	int steps;               /* stop the command after this many; 0: let it end */
	double time_limit;       /* seconds; 0: none */
	const char *step_marker; /* "MPI_Barrier", "read:NAME" */
	const char *program;     /* names, separated by commas, of programs that are recorded from their
	                          * start */
	int mpi;                 /* lk_record_mpi */
	int delay_us;            /* added to communication: a known stall, for tests */
	const char *slow; /* "latency=4000us rate=50MB/s over DIR": slow down reads of files below
	                   * DIR, for tests; NULL: none */
	int mode;         /* lk_record_mode */
	bool guarded; /* redirect writes to a scratch folder even in mode record: for repeated runs */
	const char *scratch; /* folder, empty or nonexistent, for what null, delayed and as-rank runs
	                        write; NULL: a private one, removed afterwards */
	int as_rank, world_size; /* the emulated rank, and the size of its world; as_rank -1: none */
	const char *ranks;       /* "0,7,8-15": instead of as_rank, one run after another */
	int ranks_per_node;      /* of the emulated world, for MPI_Comm_split_type; 0: 1 */
	const char *fill;   /* contents of emulated receives: "numbers", "random", "zeros", a file name;
	                       NULL: numbers */
	const char *output; /* file for the command's output, with empty input; NULL: the caller's */
	const char *const *settings; /* "NAME=value" for its environment, NULL last; may be NULL */
	int nccl, cuda;              /* lk_record_nccl, lk_record_cuda */
	const char *splits; /* as-rank: the parts made by ncclCommSplit, in order: "2,/2": blocks of 2,
	                       every second rank */
} lk_record_request;

/* How the command ended. */
typedef enum lk_record_end {
	LK_RECORD_ENDED, /* by itself */
	LK_RECORD_STEPS_DONE,
	LK_RECORD_TIME_OVER,
} lk_record_end;

/* One process that left a recording; forked ones have `forked`. */
typedef struct lk_record_process {
	const char *path, *program;
	int rank, world; /* -1, 0: no MPI */
	bool forked;
	bool whole; /* it ended by itself, not by a signal */
	uint64_t comms, reads, writes, dropped;
	int growth_errno;   /* why the file could not grow: ENOSPC, EDQUOT, ...; 0: no failure up to its
	                       limit */
	int mode, delay_us; /* lk_record_mode; delay added to communication */
	bool slowed;        /* reads of some files were slowed */
	uint64_t left_out;  /* null: calls that returned at once */
	double comm_bytes, read_bytes, write_bytes;
	double socket_bytes;   /* over connections of programs without MPI, sent and received */
	double comm_s, read_s; /* in the calls */
	uint64_t device_calls; /* of the device's runtime */
	double device_s;       /* in calls that wait for the device */
	double work_s;         /* of work on its streams; concurrent work counts twice */
	double network_wait_s, device_wait_s,
		peer_wait_s; /* NCCL's network operations waiting: for the wire, the device, the others */
	double wall_s;   /* recorded time */
	double cost_s;   /* measured cost of one call */
	int files, steps;
	double step_s;    /* median; NAN without steps */
	double outside_s; /* recorded before the first step and after the last; NAN without steps */
} lk_record_process;

/* A file, over all processes. */
typedef struct lk_record_file {
	const char *path;
	uint64_t reads, sequential,
		writes; /* sequential: reads that continued where the previous one ended */
	double read_bytes, most, write_bytes; /* most: largest single read */
	double read_s, write_s;               /* in the calls */
} lk_record_file;

/* A file that a guarded run would have changed; it is in the scratch folder instead, under over/
 * and its path. */
typedef struct lk_record_change {
	const char *path;
	bool deleted;
	double bytes; /* its size afterwards */
} lk_record_change;

/* What was recorded. Times in seconds, sizes in bytes. */
typedef struct lk_record_answer {
	const char *out;
	int status; /* exit status of the command; 128 + N if signal N ended it */
	lk_record_end end;
	double wall_s;
	double bytes;                       /* of all recordings */
	const lk_record_process *processes; /* by rank */
	int count;
	const lk_record_file *files; /* by time in calls, descending */
	int file_count;
	bool guarded;                    /* the following fields are known */
	const char *scratch;             /* folder that was kept; NULL: removed */
	const lk_record_change *changes; /* by path; at most 10,000 */
	int change_count;
	const char *const
		*unguarded; /* effects of the run that the guard did not keep from the user's files, in
		             * words */
	int unguarded_count;
	bool posed;                             /* single processes as emulated ranks: for compose */
	uint64_t store_requests, store_made_up; /* of PyTorch's rendezvous, answered for absent ranks;
	                                           invented values */
	const char *store_wrong;                /* why a connection to it was closed; "" none */
	const char *reason;                     /* why nothing or only part was recorded, one line;
	                                         * "" */
	uint64_t dropped;                       /* calls that are missing in the recordings */
	lk_error failure; /* a failure after the command's end: `status`, `end` and `wall_s` are known,
	                     the rest may not be; its status is LK_OK without a failure */
	const char *failed_check; /* the consistency check that failed; NULL: all passed */
	void *memory_owner;
} lk_record_answer;

/* Set every field to its default. Call it first, then set fields; later versions may add fields. */
void lk_record_defaults(lk_record_request *request);
/* Run the command to its end. Signals that ask the caller to end are forwarded to the command. A
 * failing command is an answer: `status`; so is one whose recording cannot be summarised:
 * `failure`. LK_ERR_INPUT: no command, an unknown command, a folder that is not empty; LK_ERR_IO;
 * LK_ERR_MEMORY. */
lk_status lk_record(const lk_record_request *request, lk_record_answer **out, lk_error *err);
/* Free an answer and everything it points to; accepts NULL. */
void lk_record_free(lk_record_answer *answer);
/* The exit status of `lockstep record`: the command's; if that is 0, LK_RECORD_FAILED with a
 * `failure`, LK_RECORD_LOST with dropped calls. */
enum { LK_RECORD_FAILED = 2, LK_RECORD_LOST = 3 };
int lk_record_exit_status(const lk_record_answer *answer);
/* Print what was recorded, its cost, and what to do next. */
void lk_record_print(const lk_record_answer *answer, FILE *out);

/* The verb's option table, for parsing, help, man page and completion (options.h). */
extern const lk_verb lk_record_verb;

#ifdef __cplusplus
}
#endif
#endif
