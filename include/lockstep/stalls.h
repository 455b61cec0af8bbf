/* stalls.h: measure what stalls a training command by running it in several configurations.
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
 * The first run is the unchanged command. Then, if `confirm` agrees, it is run again in each
 * configuration, several times, cycling through the configurations in every round; these runs write
 * to a scratch folder. Their step times, fitted together, give the stalls (docs/guide/stalls.md has
 * the formulas). Configurations that cannot be run are estimated from the recording, and labelled
 * so.
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

/* The configurations, in the order of a round. */
typedef enum lk_stalls_configuration {
	LK_STALLS_ONE,   /* one process, data in memory */
	LK_STALLS_NULL,  /* all ranks, communication returns at once, data ready (if possible) and in
	                    memory */
	LK_STALLS_READY, /* all ranks, the loader's first batches repeated: no preparation */
	LK_STALLS_HOT,   /* all ranks, unchanged, files in the page cache */
	LK_STALLS_COLD,  /* likewise, files evicted */
	LK_STALLS_CONFIGURATIONS,
} lk_stalls_configuration;
/* Their names: "one", "null", "ready", "hot", "cold"; NULL last. */
extern const char *const lk_stalls_configurations[LK_STALLS_CONFIGURATIONS + 1];

/* The planned runs, and what the first run wrote. */
typedef struct lk_stalls_plan {
	int runs;
	const char *configurations; /* "null, hot, cold" */
	int repeats;
	double budget;              /* seconds; 0: none, run `repeats` rounds */
	double seconds;             /* estimated total */
	const char *const *written; /* files written by the first run, largest first */
	int written_count;
	double written_bytes;
	const char *scratch; /* where the runs write instead */
	int status;          /* exit status of the first run */
} lk_stalls_plan;

/* The request. Texts are borrowed; NULL means "not given". */
typedef struct lk_stalls_request {
	const char *const *command;
	int words;
	const char *recording; /* folder of `lockstep record`, or text of darshan-parser: run nothing,
	                        * estimate everything */
	const char *against;   /* another such folder or text, an earlier run, whose files are compared;
	                          NULL: none */
	const char *configurations; /* "null,hot,cold"; NULL: all that can be run; "first": only the
	                               first run */
	const char *one;            /* the command for one process, words separated by blanks */
	int steps, warmup;          /* counted steps per run, and uncounted ones before them */
	int repeats;                /* per configuration; with a budget: at least */
	double budget; /* seconds for the runs after the first: as many rounds as needed to distinguish
	                  the largest parts; 0: `repeats` rounds */
	double time_limit; /* seconds per run; 0: none for the first, for others ten times the first
	                      plus a minute */
	const char *step_marker, *program; /* as in lk_record_request */
	int mpi, max_mb;
	int batches;          /* loader batches that are repeated for ready data */
	const char *staging;  /* a fast tier: "size=4GB rate=2GB/s latency=100us"; NULL: none */
	const char *cluster;  /* file of `lockstep calibrate host --mpi`: least time of a call if all
	                       * calls have one size; NULL: none */
	const char *what_ifs; /* lines "disk=2", "disk=2,cores=4"; NULL: the defaults */
	/* Instead of a command: networks whose stalls on machines are predicted; nothing is run. */
	const char *models;   /* presets or config.json files, separated by commas; NULL: none */
	const char *machines; /* parts of names of machines that can be rented, as in
	                         lk_machines_request */
	int mbs, seq;         /* samples of a GPU in a step; tokens of a sequence, 0: the network's */
	const char *dtype;    /* NULL: as in lk_predict */
	double bucket_mib;    /* gradients that are reduced together, as DDP's bucket_cap_mb; 0: 25 */
	double samples;       /* of an epoch; 0: not stated */
	const char *out;      /* folder that keeps the recordings; NULL: remove them */
	bool yes;             /* for the caller's own use: agree to the plan */
	/* Agree to the plan; NULL: never. Progress messages, one line each; may be NULL. */
	bool (*confirm)(const lk_stalls_plan *plan, void *context);
	void (*say)(const char *line, void *context);
	void *context;
} lk_stalls_request;

/* The basis of a part. */
typedef enum lk_stalls_basis {
	LK_STALLS_MEASURED,
	LK_STALLS_ESTIMATED,
	LK_STALLS_UNKNOWN
} lk_stalls_basis;

/* The stalls: parts of a step. */
typedef enum lk_stalls_kind {
	LK_STALL_COMPUTE,      /* the typical rank's own code */
	LK_STALL_IMBALANCE,    /* excess work of the slowest rank of each step over the typical one */
	LK_STALL_WRITING,      /* file writes: checkpoints */
	LK_STALL_SHARING,      /* ranks of a host that compete: cores, memory bandwidth */
	LK_STALL_PREPARATION,  /* exposed decoding */
	LK_STALL_FETCH,        /* exposed reading of data, from memory or storage */
	LK_STALL_WAITING,      /* for a rank's arrival, beyond imbalance: pipelines */
	LK_STALL_INTERCONNECT, /* transfer among ranks of one host */
	LK_STALL_NETWORK,      /* transfer across hosts */
	LK_STALL_PREEMPTED,    /* ready to run, while others have the processors */
	LK_STALL_BURSTS,       /* steps that were long in one run but in no other of its kind */
	LK_STALL_KINDS,
} lk_stalls_kind;
/* Their names: "compute", ...; NULL last. */
extern const char *const lk_stalls_kinds[LK_STALL_KINDS + 1];

/* Marks that are parts of their own, at most; the last one is all others together. */
enum { LK_STALLS_MARKS = 16 };

/* A part of the step; the parts add up to the step. */
typedef struct lk_stalls_part {
	const char *name;          /* of its kind, or of a mark */
	bool mark;                 /* named by the program (mark.h): never called a stall */
	double seconds, low, high; /* per step; the 95 % interval, NAN if unknown */
	double share;              /* of the step */
	double own_share; /* of the step of the configuration in which this stall is the last added, as
	                     reported by Stash */
	double factor;    /* that configuration's step over the one without the stall: 5 is "five times
	                     slower" */
	lk_stalls_basis basis;
	bool named;      /* certain, and at least 2 % of the step */
	const char *how; /* "null - one", or why it is unknown */
} lk_stalls_part;

/* What a mark of the program holds; seconds per step. */
typedef struct lk_stalls_mark {
	const char *name;
	double code, most; /* code of the typical rank, and of the rank with most */
	/* means over ranks: also of what other threads do while the step waits in the mark for them */
	double preparation, fetch, writing, communication, preempted;
} lk_stalls_mark;

/* A configuration: mean over its runs of the mean step of all ranks. */
typedef struct lk_stalls_row {
	int runs;
	double step_s, low, high; /* NAN: not run */
	double resident;          /* share of the job's files in memory at its start; NAN: unknown */
	const char *note;         /* why it was not run or does not count; "" */
} lk_stalls_row;

/* The composition of communication time. */
typedef struct lk_stalls_buckets {
	double calls, bytes; /* per step and rank: for the group with most bytes */
	double per_call_s, per_byte_s,
		rest_s;   /* time = per_call_s * calls + per_byte_s * bytes + rest_s, none negative */
	double error; /* median of |fitted - measured| / measured over the sizes; NAN: no fit */
	int sizes;    /* distinct sizes seen; with a single one per_call_s is the cluster's */
	const char *group, *note;
	struct lk_stalls_bucket {
		double bucket_bytes, calls, transfer_s, step_s;
	} * at; /* effect of other bucket sizes */
	int count;
} lk_stalls_buckets;

/* Effect of another machine on the step. */
typedef struct lk_stalls_change {
	const char *what;       /* "disk x2" */
	double step_s, factor;  /* predicted; present step over it; NAN: depends on unknown fetch or
	                           cores */
	double closed_s;        /* by the closed forms; NAN if only a simulated step can tell */
	const char *bottleneck; /* "compute", "preparation", "fetch", "not known" */
} lk_stalls_change;

/* Rates of the loader, steps per second, and what would hide it. */
typedef struct lk_stalls_rates {
	bool pipelined;                       /* loading overlaps with the step */
	double ingestion, preparation, fetch; /* G, P, F; INFINITY: no observed limit */
	double bytes;                         /* read per step and rank */
	double disk, memory;                  /* bytes per second per rank */
	double device, hidden; /* seconds per step that storage works; the part that the step does not
	                          wait for */
	double hit;            /* share in memory in the run on which the predictions are based */
	double workers, cores, busy; /* loader's threads; cores of the host, NAN: unknown; those busy in
	                                own code */
	double cores_to_hide, cache_to_hide; /* to hide preparation, fetch; NAN: not possible this
	                                      * way */
	const char *from; /* "cold", "hot", "first": the run on which the predictions are based */
} lk_stalls_rates;

/* Comparison of the two largest parts. */
typedef struct lk_stalls_lead {
	int first, second;    /* of the parts */
	double low, high;     /* 95 % interval of their difference; NAN: one round, or none */
	double rounds_needed; /* estimated number that would distinguish them; NAN: already
	                         distinguished, or unknown */
	bool apart;           /* the interval excludes 0 */
} lk_stalls_lead;

/* Activity of a rank in a step; seconds. */
typedef struct lk_stalls_rank {
	int rank;         /* in the world; -1: unknown */
	double step, own; /* own: outside communication calls */
	/* Its parts: on a processor; asleep, or blocked by something unknown; waiting for storage,
	   mapped files included; for data of loader threads and processes; for a processor used by
	   others. NAN: not in the recording. */
	double computing, sleeping, storage, data, preempted;
} lk_stalls_rank;

/* A file that the first run reads, over all processes. */
enum {
	LK_STALLS_CLASSES = 10 /* of read sizes, as in Darshan: up to 100 bytes, 1 KiB, 10 KiB, 100 KiB,
	                          1 MiB, 4 MiB, 10 MiB, 100 MiB, 1 GiB, above */
};
typedef struct lk_stalls_file {
	const char *path;
	const char *tier; /* its file system in the recording: "/data (nfs4)"; "" unknown */
	double opens, reads, sequential; /* sequential: continuing where the previous one ended; with
	                                    Darshan: beginning after it */
	double read_bytes, size;         /* size: when first seen; 0: unknown */
	double read_s;                   /* in calls that open and read it */
	double sizes[LK_STALLS_CLASSES]; /* reads per class */
	double gain_s;                   /* saved on the fast tier; part of read_s */
	bool staged;                     /* to be placed there */
} lk_stalls_file;

/* Files below one folder, on one tier: a data set. */
typedef struct lk_stalls_folder {
	const char *path, *tier;
	double files, opens, reads, sequential, read_bytes, size, read_s; /* as for a file */
} lk_stalls_folder;

/* A file in two runs; 0 for a run that did not read it. */
typedef struct lk_stalls_pair {
	const char *path;
	double before_reads, after_reads, before_bytes, after_bytes, before_s, after_s;
} lk_stalls_pair;

/* The files to place on the fast tier. */
typedef struct lk_stalls_staging {
	double size, used; /* bytes */
	int files;
	int unknown;           /* files of unknown size that would gain: none of them is staged */
	double read_s, gain_s; /* in read calls of all files; saved part */
	double bound_s;        /* the best possible choice saves at most this much more */
} lk_stalls_staging;

/* A network on a machine, predicted: data parallel, with the same work on each GPU everywhere. */
typedef struct lk_stalls_machine_row {
	const char *model, *machine, *joined; /* joined: "2 x p3.8xlarge", with as many GPUs together
	                                         where such a machine is in the list, else two of the
	                                         same */
	int gpus;                             /* of the machine */
	double gradient_bytes;                /* of the network */
	double one_s, all_s, joined_s; /* a step on one GPU, on all, on the joined ones; NAN: does not
	                                  fit, or the list does not state their network */
	double interconnect;           /* 1 - one / all: share of the machine's step; NAN: one GPU */
	double network;                /* joined / all - 1; NAN likewise */
	double epoch_s, epoch_usd;     /* of `samples`, at the list's price on demand; NAN */
	const char *note;              /* why a time is not known; "" */
} lk_stalls_machine_row;

/* The answer. Times in seconds per step, mean over ranks. */
typedef struct lk_stalls_answer {
	int status; /* exit status of the first run; 124: time limit; 128 + N: signal N */
	int ranks, hosts;
	int steps;                /* counted per run, the minimum */
	double first_s;           /* mean step of the first run */
	double step_s, low, high; /* the step whose parts are given */
	const char *base;         /* its configuration */
	lk_stalls_row rows[LK_STALLS_CONFIGURATIONS];
	lk_stalls_part parts[LK_STALL_KINDS + LK_STALLS_MARKS]; /* by kind; then marks */
	int part_count;
	const lk_stalls_mark *marks; /* by code, descending */
	int mark_count;
	lk_stalls_lead lead;
	int rounds, rounds_left_out; /* counted; those in which one run was an outlier */
	/* The machine's speed between rounds: slowest and fastest steps over the mean; and the slowdown
	   from the first round to the last, by a linear fit. NAN: fewer than two configurations or
	   rounds. */
	double drift_low, drift_high, drift_trend;
	const lk_stalls_rank *by_rank; /* of the last run of `base`, by rank */
	int rank_count;
	lk_stalls_buckets buckets;
	lk_stalls_rates rates;
	const lk_stalls_change *changes;
	int change_count;
	const lk_stalls_file *files; /* by time, descending */
	int file_count;
	const lk_stalls_folder *folders; /* by time, descending */
	int folder_count;
	const lk_stalls_pair *pairs; /* with `against`: by change of time, descending */
	int pair_count;
	const lk_stalls_machine_row *machines; /* with `models`: then the answer holds nothing else */
	int machine_count;
	lk_stalls_staging staging; /* size 0: not requested */
	const char *const *notes;  /* sentences */
	int note_count;
	const char *reason; /* why there is no answer: then only `status` is valid; "" */
	lk_error failure;   /* a failure after the end of the first run: then only `status` is valid;
	                       its status is LK_OK without a failure */
	const char *kept;   /* folder with the recordings; "" */
	const char *shown;  /* the recording shown by timeline and stacks; lives as long as the
	                     * answer */
	const char *reproduce;
	lk_inputs inputs;         /* the files read; reports identify them by content */
	const char *failed_check; /* the consistency check that failed; NULL: all passed */
	void *memory_owner;
} lk_stalls_answer;

/* The tables of an answer, in the order of the option's choices, and their names; NULL last. */
enum {
	LK_STALLS_ALL,
	LK_STALLS_PARTS,
	LK_STALLS_RUNS,
	LK_STALLS_RANKS,
	LK_STALLS_MARKED,
	LK_STALLS_BUCKETS,
	LK_STALLS_WHAT_IF,
	LK_STALLS_FILES,
	LK_STALLS_FOLDERS,
	LK_STALLS_AGAINST,
	LK_STALLS_MACHINES,
	LK_STALLS_TABLES
};
extern const char *const lk_stalls_tables[LK_STALLS_TABLES + 1];

/* Set every field to its default. Call it first, then set fields; later versions may add fields. */
void lk_stalls_defaults(lk_stalls_request *request);
/* Run the command, and again if `confirm` agrees. A failing command, or a refused plan, is an
 * answer with a `reason`. LK_ERR_INPUT: no command, invalid configurations or changes, a folder
 * that is not empty; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_stalls(const lk_stalls_request *request, lk_stalls_answer **out, lk_error *err);
/* Free an answer and everything it points to; accepts NULL. */
void lk_stalls_free(lk_stalls_answer *answer);

/* Print the planned runs, in the words of `lockstep stalls`. */
void lk_stalls_print_plan(const lk_stalls_plan *plan, FILE *out);
/* Like lk_explain_print, with its errors (LK_ERR_...). LK_STALLS_ALL: the report in text, all
 * tables in md, json and sqlite, and the parts in csv and jsonl, which hold one table.
 *
 * The keys of the JSON are in docs/reference/schemas/stalls.json. What is not known is null. */
lk_status lk_stalls_print(const lk_stalls_answer *answer, int format, int table, bool colour,
                          const char *path, FILE *out, lk_error *err);
/* Write all ranks of one run as a timeline (.json, .json.gz, .pftrace); as folded stacks, one
 * "frame;frame microseconds" per line. The file appears when it is complete. LK_ERR_INPUT: another
 * extension, nothing recorded; LK_ERR_IO; LK_ERR_MEMORY. */
lk_status lk_stalls_timeline(const lk_stalls_answer *answer, const char *path, lk_error *err);
lk_status lk_stalls_folded(const lk_stalls_answer *answer, const char *path, lk_error *err);

/* The verb's option table, for parsing, help, man page and completion (options.h). */
extern const lk_verb lk_stalls_verb;

#ifdef __cplusplus
}
#endif
#endif
