/* record.h: runs a command, unchanged, and records what its processes communicate, read and write.
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
 * A library (liblockstep-probe.so) is loaded into the command's processes. Each process that is
 * recorded leaves a file in the folder; `lockstep explain FOLDER` reads them. Nothing of the
 * environment or of the arguments is stored. */
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

/* How communication is done: by the library; large collectives not at all; in an emulated world. */
typedef enum lk_record_mode {
	LK_RECORD_MODE_RECORD,
	LK_RECORD_MODE_NULL,
	LK_RECORD_MODE_AS_RANK
} lk_record_mode;
/* The MPI library of the command: found out; or named. */
typedef enum lk_record_mpi {
	LK_RECORD_MPI_FOUND,
	LK_RECORD_OPENMPI,
	LK_RECORD_MPICH
} lk_record_mpi;
/* How NCCL is recorded: found out; by wrappers; by a library in its place; by its own profiler
 * interface. */
typedef enum lk_record_nccl {
	LK_RECORD_NCCL_FOUND,
	LK_RECORD_NCCL_PRELOAD,
	LK_RECORD_NCCL_SHIM,
	LK_RECORD_NCCL_PLUGIN,
} lk_record_nccl;
/* What is known of a device: when its work was done; the host's calls alone; each kernel, by CUPTI.
 */
typedef enum lk_record_cuda {
	LK_RECORD_CUDA_EVENTS,
	LK_RECORD_CUDA_CALLS,
	LK_RECORD_CUDA_CUPTI
} lk_record_cuda;

/* The request. Texts are borrowed; NULL means "not given". */
typedef struct lk_record_request {
	const char *const *command;
	int words;
	const char *out;         /* folder, which must not hold anything yet; NULL: "recording" */
	int max_mb;              /* of each process's file */
	int steps;               /* stop the command after so many; 0: let it end */
	double time_limit;       /* seconds; 0: none */
	const char *step_marker; /* "MPI_Barrier", "read:NAME" */
	const char *program; /* names, with commas, of programs that are recorded from their start */
	int mpi;             /* lk_record_mpi */
	int delay_us;        /* communication takes so much longer: a known stall, for tests */
	const char *slow;    /* "latency=4000us rate=50MB/s over DIR": reads of files below DIR take
	                      * longer, for tests; NULL: none do */
	int mode;            /* lk_record_mode */
	bool guarded; /* what is written goes to a scratch folder though the mode is record: for runs
	                 that are repeated */
	const char *scratch; /* folder, empty or not there yet, for what is written in null, delayed and
	                        as-rank runs; NULL: a private one, removed afterwards */
	int as_rank, world_size; /* the emulated rank, and of how many; as_rank -1: none */
	const char *ranks;       /* "0,7,8-15": instead of as_rank, one run after another */
	int ranks_per_node;      /* of the emulated world, for MPI_Comm_split_type; 0: 1 */
	const char *fill;   /* what emulated receives get: "numbers", "random", "zeros", a file's name;
	                       NULL: numbers */
	const char *output; /* file for what the command prints, its input is empty then; NULL: as the
	                       caller's */
	const char *const *settings; /* "NAME=value" for its environment, NULL last; may be NULL */
	int nccl, cuda;              /* lk_record_nccl, lk_record_cuda */
	const char *splits; /* as-rank: parts that ncclCommSplit makes, in order: "2,/2" blocks of 2,
	                       every second rank */
} lk_record_request;

/* How the command came to its end. */
typedef enum lk_record_end {
	LK_RECORD_ENDED, /* by itself */
	LK_RECORD_STEPS_DONE,
	LK_RECORD_TIME_OVER,
} lk_record_end;

/* One process that left a recording; of forked ones `forked`. */
typedef struct lk_record_process {
	const char *path, *program;
	int rank, world; /* -1, 0: no MPI */
	bool forked;
	bool whole; /* it ended by itself, not by a signal */
	uint64_t comms, reads, writes, dropped;
	int growth_errno;   /* why the file could not grow: ENOSPC, EDQUOT, ...; 0: it could, up to its
	                       limit */
	int mode, delay_us; /* lk_record_mode; how much longer communication was made to take */
	bool slowed;        /* so were reads of some files */
	uint64_t left_out;  /* null: calls that returned at once */
	double comm_bytes, read_bytes, write_bytes;
	double socket_bytes;   /* by connections of programs without MPI, sent and received */
	double comm_s, read_s; /* in the calls */
	uint64_t device_calls; /* of the device's runtime */
	double device_s;       /* in calls that wait for the device */
	double work_s;         /* of work on its streams, side by side counted twice */
	double network_wait_s, device_wait_s,
		peer_wait_s; /* of NCCL's network operations: for the wire, the device, the others */
	double wall_s;   /* recorded */
	double cost_s;   /* of one call, measured */
	int files, steps;
	double step_s;    /* median; NAN without steps */
	double outside_s; /* recorded, before the first step and after the last; NAN without steps */
} lk_record_process;

/* A file, over all processes. */
typedef struct lk_record_file {
	const char *path;
	uint64_t reads, sequential,
		writes; /* sequential: reads that went on where the one before ended */
	double read_bytes, most, write_bytes; /* most: of one read */
	double read_s, write_s;               /* in the calls */
} lk_record_file;

/* A file that a guarded run would have changed; it lies in the scratch folder instead, under over/
 * and its path. */
typedef struct lk_record_change {
	const char *path;
	bool deleted;
	double bytes; /* of it, afterwards */
} lk_record_change;

/* What was recorded. Times in seconds, sizes in bytes. */
typedef struct lk_record_answer {
	const char *out;
	int status; /* exit status of the command; 128 + N where signal N ended it */
	lk_record_end end;
	double wall_s;
	double bytes;                       /* of all files */
	const lk_record_process *processes; /* by rank */
	int count;
	const lk_record_file *files; /* by time in calls, the longest first */
	int file_count;
	bool guarded;                    /* what follows is known */
	const char *scratch;             /* folder that was kept; NULL: it was removed */
	const lk_record_change *changes; /* by path; only the first 10,000 */
	int change_count;
	const char *const
		*unguarded; /* what the run did that was not kept from the user's work, in words */
	int unguarded_count;
	bool posed;                             /* single processes as emulated ranks: for compose */
	uint64_t store_requests, store_made_up; /* of PyTorch's rendezvous, answered for absent ranks;
	                                           values that were made up */
	const char *store_wrong;                /* why a connection to it was closed; "" none was */
	const char *reason;                     /* why nothing or not all was recorded, in a line; "" */
	uint64_t dropped;                       /* calls that happened and are not in the recordings */
	lk_error failure; /* what failed after the command had ended: `status`, `end` and `wall_s` are
	                     known, the rest may not be; its status is LK_OK where nothing failed */
	const char *failed_check; /* of its own consistency, which failed; NULL: none did */
	void *memory_owner;
} lk_record_answer;

/* Sets every field to what holds where nothing is said. Call it first, then set fields: they may
 * become more. */
void lk_record_defaults(lk_record_request *request);
/* Runs the command to its end. Signals that ask the caller to end are passed on to the command. A
 * command that fails is an answer: `status`; so is one whose recording cannot be summed up:
 * `failure`. LK_ERR_INPUT: no command, one that cannot be found, a
 * folder that holds something; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_record(const lk_record_request *request, lk_record_answer **out, lk_error *err);
/* Frees an answer with all that it points to; accepts NULL. */
void lk_record_free(lk_record_answer *answer);
/* The exit status of `lockstep record`: the command's; where that is 0 LK_RECORD_FAILED if there is
 * a `failure`, LK_RECORD_LOST if calls were dropped. */
enum { LK_RECORD_FAILED = 2, LK_RECORD_LOST = 3 };
int lk_record_exit_status(const lk_record_answer *answer);
/* Prints what was recorded, what it cost, what to do with it. */
void lk_record_print(const lk_record_answer *answer, FILE *out);

/* The verb's option table: parsing, help, man page and completion come from it (options.h). */
extern const lk_verb lk_record_verb;

#ifdef __cplusplus
}
#endif
#endif
