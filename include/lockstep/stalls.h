/* stalls.h: what stalls a training command, measured by running it in several configurations.
 *
 *     const char *words[] = {"mpirun", "-n", "2", "./train"};
 *     lk_stalls_request request;
 *     lk_stalls_defaults(&request);
 *     request.command = words, request.words = 4, request.confirm = say_yes;
 *     lk_stalls_answer *answer;
 *     lk_error err;
 *     if (lk_stalls(&request, &answer, &err) != LK_OK) ...
 *     lk_stalls_print(answer, LK_OUTPUT_TEXT, LK_STALLS_ALL, false, NULL, stdout, &err);
 *     lk_stalls_free(answer);
 *
 * The first run is the command as it is. Then, if `confirm` agrees, it is run again in each
 * configuration, several times, one configuration after the other in every round; what these runs
 * write goes to a scratch folder. Their step times, fitted together, are the stalls
 * (docs/guide/stalls.md has the sums). What cannot be run is estimated from the recording, and
 * labelled so.
 */
#ifndef LOCKSTEP_STALLS_H
#define LOCKSTEP_STALLS_H

#include <stdbool.h>
#include <stdio.h>
#include "lockstep/error.h"
#include "lockstep/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The configurations, in the order in which a round runs them. */
typedef enum lk_stalls_configuration {
	LK_STALLS_ONE,  /* one process, data in memory */
	LK_STALLS_NULL, /* all ranks, communication returns at once, data ready (where it can be) and in
	                   memory */
	LK_STALLS_READY, /* all ranks, the first batches of the loader again and again: no preparation
	                  */
	LK_STALLS_HOT,   /* all ranks, as they are, files in the page cache */
	LK_STALLS_COLD,  /* the same, files evicted */
	LK_STALLS_CONFIGURATIONS,
} lk_stalls_configuration;
/* Their names: "one", "null", "ready", "hot", "cold"; NULL last. */
extern const char *const lk_stalls_configurations[LK_STALLS_CONFIGURATIONS + 1];

/* What is to be run again, and what the first run wrote. */
typedef struct lk_stalls_plan {
	int runs;
	const char *configurations; /* "null, hot, cold" */
	int repeats;
	double budget;              /* seconds; 0: none, `repeats` rounds are run */
	double seconds;             /* about what they take together */
	const char *const *written; /* files that the first run wrote, the largest first */
	int written_count;
	double written_bytes;
	const char *scratch; /* where the runs write instead */
	int status;          /* exit status of the first run */
} lk_stalls_plan;

/* The request. Texts are borrowed; NULL means "not given". */
typedef struct lk_stalls_request {
	const char *const *command;
	int words;
	const char *recording; /* folder of `lockstep record`, or text of darshan-parser: nothing is
	                        * run, all is estimated */
	const char *against;   /* another such folder or text, an earlier run, whose files are
	                          compared; NULL: none */
	const char *configurations; /* "null,hot,cold"; NULL: all that can be run; "first": none but the
	                               first run */
	const char *one;            /* the command for one process, words separated by blanks */
	int steps, warmup; /* steps that count in each run, and those before them that do not */
	int repeats;       /* of each configuration; with a budget: at least */
	double budget; /* seconds for the runs after the first: as many rounds as it takes to tell the
	                  largest parts; 0: `repeats` rounds */
	double time_limit; /* seconds of a run; 0: of the first none, of others ten times the first and
	                      a minute */
	const char *step_marker, *program; /* as lk_record_request has them */
	int mpi, max_mb;
	int batches;         /* of the loader that are repeated where data is to be ready */
	const char *staging; /* a fast tier: "size=4GB rate=2GB/s latency=100us"; NULL: none */
	const char *cluster; /* file of `lockstep calibrate host --mpi`: what a call takes at the least,
	                      * where all have one size; NULL: none */
	const char *what_ifs; /* lines "disk=2", "disk=2,cores=4"; NULL: the usual ones */
	const char *out;      /* folder that keeps the recordings; NULL: they are removed */
	bool yes;             /* the caller's own use: agree to the plan */
	/* Agrees to the plan; NULL: never. Told what happens next, one line; may be NULL. */
	bool (*confirm)(const lk_stalls_plan *plan, void *context);
	void (*say)(const char *line, void *context);
	void *context;
} lk_stalls_request;

/* What a part rests on. */
typedef enum lk_stalls_basis {
	LK_STALLS_MEASURED,
	LK_STALLS_ESTIMATED,
	LK_STALLS_UNKNOWN
} lk_stalls_basis;

/* The stalls: parts of a step. */
typedef enum lk_stalls_kind {
	LK_STALL_COMPUTE,      /* the usual rank's own code */
	LK_STALL_IMBALANCE,    /* what the slowest rank of each step works longer than the usual one */
	LK_STALL_WRITING,      /* of files: checkpoints */
	LK_STALL_SHARING,      /* ranks of a host in one another's way: cores, memory bandwidth */
	LK_STALL_PREPARATION,  /* decoding and reading of cached data that nothing hides */
	LK_STALL_FETCH,        /* what reading from storage adds */
	LK_STALL_WAITING,      /* for a rank's arrival, beyond imbalance: pipelines */
	LK_STALL_INTERCONNECT, /* transfer among ranks of one host */
	LK_STALL_NETWORK,      /* transfer across hosts */
	LK_STALL_BURSTS,       /* steps that were long in one run and in no other of its kind */
	LK_STALL_KINDS,
} lk_stalls_kind;
/* Their names: "compute", ...; NULL last. */
extern const char *const lk_stalls_kinds[LK_STALL_KINDS + 1];

/* A part of the step; all parts together are the step. */
typedef struct lk_stalls_part {
	double seconds, low, high; /* a step; the 95 % interval, NAN where there is none */
	double share;              /* of the step */
	double own_share; /* of the step of the configuration that has this stall as its last one, as
	                     Stash reports it */
	double factor;    /* that configuration's step over the one without the stall: 5 is "five times
	                     slower" */
	lk_stalls_basis basis;
	bool named;      /* surely there, and 2 % of the step or more */
	const char *how; /* "null - one", or why it is not known */
} lk_stalls_part;

/* A configuration: mean over its runs of the mean step of all ranks. */
typedef struct lk_stalls_row {
	int runs;
	double step_s, low, high; /* NAN: not run */
	double resident;          /* share of the job's files in memory when it began; NAN not known */
	const char *note;         /* why it was not run or does not count; "" */
} lk_stalls_row;

/* How communication takes its time. */
typedef struct lk_stalls_buckets {
	double calls, bytes; /* a step and rank: those of the group with most bytes */
	double per_call_s, per_byte_s,
		rest_s;   /* time = per_call_s * calls + per_byte_s * bytes + rest_s, none negative */
	double error; /* median of |fitted - measured| / measured over the sizes; NAN: no fit */
	int sizes;    /* different ones that were seen; of one alone per_call_s is the cluster's */
	const char *group, *note;
	struct lk_stalls_bucket {
		double bucket_bytes, calls, transfer_s, step_s;
	} * at; /* what other bucket sizes would make of it */
	int count;
} lk_stalls_buckets;

/* What another machine would make of the step. */
typedef struct lk_stalls_change {
	const char *what;       /* "disk x2" */
	double step_s, factor;  /* predicted; the present step over it; NAN: fetch or the cores are not
	                           known, on which it depends */
	double closed_s;        /* by the closed forms; NAN where a simulated step alone can tell */
	const char *bottleneck; /* "compute", "preparation", "fetch", "not known" */
} lk_stalls_change;

/* Rates of the loader, steps a second, and what would hide it. */
typedef struct lk_stalls_rates {
	bool pipelined;                       /* loading goes on alongside the step */
	double ingestion, preparation, fetch; /* G, P, F; INFINITY: no limit was seen */
	double bytes;                         /* read a step and rank */
	double disk, memory;                  /* bytes a second of a rank */
	double device, hidden; /* seconds a step that storage works; of them those that the step does
	                          not wait for */
	double hit;            /* share that was in memory in the run that the predictions start from */
	double workers, cores, busy; /* loader's threads; cores of the host, NAN: not known; of them
	                                busy in own code */
	double cores_to_hide, cache_to_hide; /* preparation, fetch; NAN: not by that */
	const char *from; /* "cold", "hot", "first": the run that the predictions start from */
} lk_stalls_rates;

/* How the two largest parts compare. */
typedef struct lk_stalls_lead {
	lk_stalls_kind first, second;
	double low, high;     /* 95 % interval of their difference; NAN: one round, or none */
	double rounds_needed; /* that would tell them apart, about; NAN: they are told apart, or not
	                         known */
	bool apart;           /* the interval does not reach 0 */
} lk_stalls_lead;

/* What a rank does in a step; seconds. */
typedef struct lk_stalls_rank {
	int rank;         /* of the world; -1: not known */
	double step, own; /* own: outside of calls of communication */
	/* Of it: on a processor; asleep, or blocked by something unknown; waiting for storage, mapped
	   files included; for data of loader threads and processes; for a processor that others use.
	   NAN: the recording does not tell. */
	double computing, sleeping, storage, data, preempted;
} lk_stalls_rank;

/* A file that the first run reads, over all processes. */
enum {
	LK_STALLS_CLASSES = 10 /* of sizes of reads, as Darshan has them: up to 100 bytes, 1 KiB, 10
	                          KiB, 100 KiB, 1 MiB, 4 MiB, 10 MiB, 100 MiB, 1 GiB, above */
};
typedef struct lk_stalls_file {
	const char *path;
	const char *tier; /* the file system that it lies on where it was recorded: "/data (nfs4)"; ""
	                     not known */
	double opens, reads, sequential; /* sequential: that go on where the one before ended; of
	                                    Darshan that begin after it */
	double read_bytes, size;         /* size: when first seen; 0 not known */
	double read_s;                   /* in calls that open and read it */
	double sizes[LK_STALLS_CLASSES]; /* reads of each class */
	double gain_s;                   /* on the fast tier; of read_s */
	bool staged;                     /* is to lie there */
} lk_stalls_file;

/* Files below one folder, on one tier: a data set. */
typedef struct lk_stalls_folder {
	const char *path, *tier;
	double files, opens, reads, sequential, read_bytes, size, read_s; /* as of a file */
} lk_stalls_folder;

/* A file of two runs; 0 where one of them did not read it. */
typedef struct lk_stalls_pair {
	const char *path;
	double before_reads, after_reads, before_bytes, after_bytes, before_s, after_s;
} lk_stalls_pair;

/* Which files are to lie on the fast tier. */
typedef struct lk_stalls_staging {
	double size, used; /* bytes */
	int files;
	int unknown; /* files that would gain and whose size is not known: none of them is staged */
	double read_s, gain_s; /* in calls that read, of all files; of it saved */
	double bound_s;        /* the best choice of all saves at the most so much more */
} lk_stalls_staging;

/* The answer. Times in seconds a step, mean over ranks. */
typedef struct lk_stalls_answer {
	int status; /* exit status of the first run; 124 time limit; 128 + N signal N */
	int ranks, hosts;
	int steps;                /* counted in a run, the fewest */
	double first_s;           /* mean step of the first run */
	double step_s, low, high; /* the step that the parts make up */
	const char *base;         /* its configuration */
	lk_stalls_row rows[LK_STALLS_CONFIGURATIONS];
	lk_stalls_part parts[LK_STALL_KINDS];
	lk_stalls_lead lead;
	int rounds, rounds_left_out; /* that count; in which one run was far from the others */
	/* The machine's speed between rounds: the slowest's and the fastest's steps over the mean; and
	   how much slower it became from the first round to the last, of a line through all. NAN: fewer
	   than two configurations or rounds. */
	double drift_low, drift_high, drift_trend;
	const lk_stalls_rank *by_rank; /* of the last run of `base`, by rank */
	int rank_count;
	lk_stalls_buckets buckets;
	lk_stalls_rates rates;
	const lk_stalls_change *changes;
	int change_count;
	const lk_stalls_file *files; /* by time, the longest first */
	int file_count;
	const lk_stalls_folder *folders; /* by time, the longest first */
	int folder_count;
	const lk_stalls_pair *pairs; /* with `against`: by change of time, the largest first */
	int pair_count;
	lk_stalls_staging staging; /* size 0: not asked */
	const char *const *notes;  /* sentences */
	int note_count;
	const char *reason; /* why there is no answer: then only `status` counts; "" */
	lk_error failure;   /* what failed after the first run had ended: then only `status` counts; its
	                       status is LK_OK where nothing failed */
	const char *kept;   /* folder with the recordings; "" */
	const char *shown;  /* the recording of which timeline and stacks are; as long as the answer */
	const char *reproduce;
	lk_inputs inputs;         /* the files that were read; reports name them by their content */
	const char *failed_check; /* of its own consistency, which failed; NULL: none did */
	void *memory_owner;
} lk_stalls_answer;

/* The tables of an answer, in the order of the option's choices, and their names; NULL last. */
enum {
	LK_STALLS_ALL,
	LK_STALLS_PARTS,
	LK_STALLS_RUNS,
	LK_STALLS_RANKS,
	LK_STALLS_BUCKETS,
	LK_STALLS_WHAT_IF,
	LK_STALLS_FILES,
	LK_STALLS_FOLDERS,
	LK_STALLS_AGAINST,
	LK_STALLS_TABLES
};
extern const char *const lk_stalls_tables[LK_STALLS_TABLES + 1];

/* Sets every field to what holds where nothing is said. Call it first, then set fields: they may
 * become more. */
void lk_stalls_defaults(lk_stalls_request *request);
/* Runs the command, and again if `confirm` agrees. A command that fails, or a plan that is not
 * agreed to, is an answer with a `reason`. LK_ERR_INPUT: no command, configurations or changes that
 * are wrong, a folder that holds something; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_stalls(const lk_stalls_request *request, lk_stalls_answer **out, lk_error *err);
/* Frees an answer with all that it points to; accepts NULL. */
void lk_stalls_free(lk_stalls_answer *answer);

/* What is going to be run, in words, as `lockstep stalls` asks about it. */
void lk_stalls_print_plan(const lk_stalls_plan *plan, FILE *out);
/* As lk_explain_print, with its errors (LK_ERR_...); the report in text and all tables in md, json
 * and sqlite for LK_STALLS_ALL; in csv and jsonl, which hold one table, the parts.
 *
 * The keys of the JSON are in docs/reference/schemas/stalls.json. What is not known is null. */
lk_status lk_stalls_print(const lk_stalls_answer *answer, int format, int table, bool colour,
                          const char *path, FILE *out, lk_error *err);
/* All ranks of one run as a timeline (.json, .json.gz, .pftrace); as folded stacks, one
 * "frame;frame microseconds" a line. The file appears when it is complete. LK_ERR_INPUT: an ending
 * that is none of these, nothing recorded; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_stalls_timeline(const lk_stalls_answer *answer, const char *path, lk_error *err);
lk_status lk_stalls_folded(const lk_stalls_answer *answer, const char *path, lk_error *err);

/* The verb's option table: parsing, help, man page and completion come from it (options.h). */
extern const lk_verb lk_stalls_verb;

#ifdef __cplusplus
}
#endif
#endif
