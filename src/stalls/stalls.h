/* stalls.h: shared by the files of stalls.
 *
 *     stalls_runs.c      the configurations: how the command is started in each
 *     stalls_seen.c      a recording as times of a step
 *     stalls_comm.c      waiting and transfer of the ranks, inside and across hosts
 *     stalls_loader.c    preparation, from reads and the own code between them
 *     stalls_own.c       a thread's own time: computing, asleep, waiting for data or a processor
 *     stalls_cache.c     the page cache: evicting, reading ahead, looking
 *     stalls_disk.c      time that storage works for a step, and its part hidden from the step
 *     stalls_fit.c       measurements as sums of parts, fitted together, with intervals
 *     stalls_formulas.c  the parts in each configuration; the parts of the step
 *     stalls_marks.c     marks of the program as parts of the step
 *     stalls_buckets.c   time of communication by calls and bytes
 *     stalls_whatif.c    closed forms of the loader's rates
 *     stalls_simulate.c  the same as a simulated timeline
 *     stalls_model.c     the runs' loader as that model
 *     stalls_machines.c  nothing is run: stalls of networks on machines, predicted
 *     stalls_check.c     invariants of every answer
 *     stalls.c           the verb: the first run, the plan, the rounds, the answer */
#ifndef LK_STALLS_STALLS_H
#define LK_STALLS_STALLS_H

#include <math.h>

#include "base/arena.h"
#include "base/intervals.h"
#include "base/vec.h"
#include "io/stream.h"
#include "lockstep/stalls.h"
#include "trace/read/read.h"

/* A mean of a few measurements and its 95 % interval; a single one has none (NAN). */
typedef struct lk_estimate {
	double mean, low, high;
} lk_estimate;

/* ---- the fit (stalls_fit.c) ---- */

enum { LK_STALLS_REPEATS = 50, LK_FIT_ROWS = 10, LK_FIT_PARTS = 8 };
/* A quantity measured once per cycle. */
typedef struct lk_fit_row {
	uint32_t parts;       /* bits: the parts in its sum */
	bool configuration;   /* a run's step, which shows how slow the machine was */
	double doubt;         /* share of it by which it may be wrong in addition to the noise */
	const double *values; /* by cycle; NAN: the cycle does not count */
} lk_fit_row;
typedef struct lk_fit {
	int cycles, left_out; /* cycles that count; whole ones left out as outliers */
	int cycle[LK_STALLS_REPEATS];
	double drift[LK_STALLS_REPEATS]; /* by counted cycle: how slow the machine was */
	lk_estimate total;
	lk_estimate part[LK_FIT_PARTS]; /* all >= 0, their sum is the total; NAN: not determined by the
	                                   sums */
	double hidden[LK_FIT_PARTS];    /* variance of the mean that cycles do not show */
	double at[LK_STALLS_REPEATS][LK_FIT_PARTS]; /* parts in each cycle, as measured */
} lk_fit;
/* Fit the parts. `total`: the row that is the step. Without counted cycles: NANs. */
void lk_fit_parts(const lk_fit_row *rows, int row_count, int parts, int cycles, int total,
                  lk_fit *out);
/* For shares of two parts, a - b; *needed: approximate number of cycles that would distinguish
 * them. */
lk_estimate lk_fit_difference(const lk_fit *fit, int a, double share_a, int b, double share_b,
                              double *needed);
/* 97.5 % quantile. */
double lk_student_quantile(int freedom);

/* ---- parts of the step (stalls_formulas.c) ---- */

lk_estimate lk_estimate_of(const double *x, int count); /* NANs are left out; NAN if all are */

/* Steps of a run, one by one; owned by the answer's arena. */
typedef struct lk_stalls_steps {
	const double *length;  /* [count] seconds, mean over ranks */
	const double *slowest; /* own time of the slowest rank */
	const double *running; /* the same without being preempted; NULL: as slowest */
	const double *fed;     /* and without fetching; NULL: as running */
	const double *working; /* and without waits for loaders */
	int count;
} lk_stalls_steps;

/* Marks of a run, by code, descending. */
typedef struct lk_stalls_marks {
	const lk_stalls_mark *at; /* of the arena */
	int count;
} lk_stalls_marks;

/* Measurements of one run, per step: seconds, means over ranks and steps. NAN: unknown. */
typedef struct lk_stalls_times {
	double step;
	double waiting, interconnect, network; /* in calls of communication */
	double reading, preparation,
		writing;   /* of the main thread; exposed preparation, without reads */
	double waited; /* some thread of a host was in a read */
	double usual;  /* own time of the typical rank without being preempted, fetching and waiting for
	                  its loader: the lower median over ranks; 0: one rank, or unknown */
	double uneven; /* excess of `step` over `usual`, in runs without synchronisation at the end */
	double own;    /* mean over ranks, waits for loaders included */
	bool reads;    /* some thread reads data */
	bool handed;   /* preparation is waits for loaders; with several ranks it comes from the
	                  steps */
	lk_stalls_steps steps;
	lk_stalls_marks marks;
} lk_stalls_times;

/* Runs by configuration and round; `step` NAN: no such run. */
typedef struct lk_stalls_rounds {
	int count;
	lk_stalls_times at[LK_STALLS_CONFIGURATIONS][LK_STALLS_REPEATS];
	lk_stalls_times first; /* basis of the parts if there are no rounds */
} lk_stalls_rounds;
/* A part that is not known, and why. */
lk_stalls_part lk_stalls_unknown(lk_stalls_kind kind, const char *why);
/* The parts of the step, and which step it is: cold if that was run, else hot, else the first run.
 * Texts are constants. */
void lk_stalls_split(const lk_stalls_rounds *rounds, lk_stalls_answer *out);
/* ---- marks of the program (stalls_marks.c) ---- */

/* Seconds per step that a rank spends in a mark. */
typedef struct lk_stalls_rank_mark {
	const char *name;
	size_t rank; /* in the order of recordings */
	double cause[LK_CAUSES];
} lk_stalls_rank_mark;
/* Join the marks of all ranks, which it sorts; `typical`: the rank whose code counts.
 * LK_ERR_MEMORY. */
lk_status lk_stalls_join_marks(lk_stalls_rank_mark *each, size_t count, size_t typical, int ranks,
                               lk_arena *arena, lk_stalls_marks *out, lk_error *err);
/* Add the marks of the runs of the step to the parts, and take them out of compute. */
void lk_stalls_split_marks(const lk_stalls_times *const *runs, int count, lk_stalls_answer *out);

struct lk_disk_work;
/* What the cold rounds show of storage, except its rate and the single steps, which the caller
 * adds. The answer's parts must be set. */
struct lk_disk_work lk_stalls_storage_of(const lk_stalls_rounds *rounds,
                                         const lk_stalls_answer *answer);

/* The order of the configurations in a round, drawn anew for each, so that a trend within rounds
 * becomes noise; the same in every run of lockstep. */
void lk_stalls_order(int round, int order[LK_STALLS_CONFIGURATIONS]);
/* Whether more rounds cannot change the result: all intervals are narrow and the largest parts are
 * distinguished. */
bool lk_stalls_settled(const lk_stalls_answer *answer);

/* ---- gradient buckets (stalls_buckets.c) ---- */

/* Calls of one size: how often a rank makes them per step, and the time of their transfer. */
typedef struct lk_stalls_size {
	double bytes, calls, seconds;
} lk_stalls_size;
/* Fit and predict; `exposed_s`: the exposed part of the transfer in the step. False: out of
 * memory. */
bool lk_stalls_fit_buckets(const lk_stalls_size *sizes, int count, double call_s, double exposed_s,
                           double step_s, lk_arena *arena, lk_stalls_buckets *out);

/* ---- the loader as a model (stalls_whatif.c, stalls_simulate.c) ---- */

enum { LK_STALLS_UNLIKE = 16 };
/* A step of one rank in the loader's model; seconds per step. */
typedef struct lk_stalls_model {
	bool pipelined;
	double own; /* its code, without preparation */
	double waiting, interconnect, network, writing;
	double preparation; /* work of one loader thread per step */
	double workers;     /* loader threads that share it */
	/* (1 - hit) bytes / disk: time that storage works per step, of which `hidden` overlaps with
	 * other work; bytes / memory: copying, which for a concurrent loader is part of preparation */
	double bytes, disk, memory, hit, hidden;
	/* For a loader in the step: kinds of unequal steps, as when shards are read now and then;
	 * equally many of each kind, the device's work and the rest of the step relative to the means,
	 * and the hidden part of the device's work; 0: all steps are equal. */
	struct lk_stalls_unlike {
		double device, hidden, rest;
	} of[LK_STALLS_UNLIKE];
	int kinds;
	double cores, busy; /* of the host, NAN: unknown; busy cores while nothing is waited for */
} lk_stalls_model;

/* Another machine, as factors on the present one's rates; 1 everywhere: the same. */
typedef struct lk_stalls_machine {
	double disk, network, speed;
	double cores, hit; /* NAN: unchanged */
} lk_stalls_machine;
lk_stalls_model lk_stalls_on(const lk_stalls_model *model, const lk_stalls_machine *machine);
double lk_stalls_device_s(const lk_stalls_model *model); /* time that storage works */
/* For a loader in the step: its reads, including the exposed part of the device's work; for a
 * concurrent one: how long a worker waits for the device. */
double lk_stalls_fetch_s(const lk_stalls_model *model);
double lk_stalls_compute_s(const lk_stalls_model *model); /* without preparation and fetch */
/* The step by the closed forms; *bottleneck (may be NULL): the limiting stage. */
double lk_stalls_closed(const lk_stalls_model *model, const char **bottleneck);
/* Cores (workers) that hide preparation; share in memory that hides fetching; NAN: no number
 * does. */
double lk_stalls_cores_to_hide(const lk_stalls_model *model);
double lk_stalls_cache_to_hide(const lk_stalls_model *model);
/* "disk=2,cores=1": a machine, and its display name. */
lk_status lk_stalls_machine_of(const char *line, lk_stalls_machine *out, char name[160],
                               lk_error *err);
/* The steady-state step of a simulated timeline: the device fetches batches, the workers prepare
 * them, and the step uses them. */
lk_status lk_stalls_simulate(const lk_stalls_model *model, double *step_s, lk_error *err);

/* ---- storage (stalls_disk.c) ---- */

typedef struct lk_disk_step {
	double seconds, waited; /* its length; time with some thread of a host in a read */
	double stored;          /* bytes of a host that came from storage */
} lk_disk_step;
typedef LK_VEC(lk_disk_step) lk_disk_steps;
/* Reads of a host's ranks. */
typedef struct lk_disk_use {
	char host[64];
	lk_intervals reads;    /* times with some thread in a read */
	lk_disk_steps steps;   /* seconds: sum over its ranks */
	LK_VEC(int64_t) begin; /* of its first rank's steps, and the last one's end */
	int ranks;
} lk_disk_use;
typedef LK_VEC(lk_disk_use) lk_disk_uses;
/* Add a rank's reads in the steps that begin at begin[0], ...; begin[steps] is the last one's
 * end. */
lk_status lk_disk_see(lk_disk_uses *uses, const lk_recorded_run *run, const int64_t *begin,
                      int steps, lk_error *err);
/* Seconds per step with some thread in a read, and each step, mean over hosts; frees `uses`. */
lk_status lk_disk_sum_up(lk_disk_uses *uses, double *waited, lk_disk_steps *out, lk_error *err);
/* Read rate of evicted files, bytes/s, with this many concurrent threads; NAN: too few bytes to
 * tell. Evicts them again. */
double lk_disk_rate(const char *const *paths, size_t count, int streams);

/* Measurements of storage; seconds and bytes per step, for a host. */
typedef struct lk_disk_work {
	const lk_disk_step *steps; /* of all cold runs */
	size_t count;
	double rate;        /* bytes a second; NAN: not known */
	double waited;      /* some thread waits for storage in a read */
	double fetch, step; /* the stall, the whole step */
	bool stalls;        /* `fetch` is significant */
} lk_disk_work;
/* Set disk and hidden, so that the model's step equals the measured one. All other fields must be
 * set. */
void lk_stalls_fit_disk(lk_stalls_model *model, const lk_disk_work *work);

/* ---- the loader of a recording (stalls_loader.c) ---- */

/* A rank's loader in a step. */
typedef struct lk_stalls_loader {
	double bytes, reads; /* of files, per step */
	double busy;         /* seconds in reads, all threads */
	double own;          /* seconds of own code between reads: preparation; NAN: unknown */
	bool apart;          /* not in the main thread */
	double threads;      /* that read */
	double handed;       /* seconds in which the main thread waits for data of others */
} lk_stalls_loader;
/* For the steps that begin at begin[0], ...; begin[steps] is the last one's end. */
lk_status lk_stalls_see_loader(const lk_recorded_run *run, const int64_t *begin, int steps,
                               lk_stalls_loader *out, lk_error *err);

/* ---- a thread's own time (stalls_own.c) ---- */

/* The main thread's time in a step outside communication. */
typedef struct lk_stalls_own {
	double computing, sleeping, storage, data, preempted; /* seconds; NAN: unknown */
	double seconds;                                       /* of the analysed run */
} lk_stalls_own;
/* For the steps that begin at begin[0], ...; begin[steps] is the last one's end. */
void lk_stalls_see_own(const lk_recorded_run *run, const int64_t *begin, int steps,
                       lk_stalls_own *out);
/* ---- communication of a recording (stalls_comm.c) ---- */

typedef LK_VEC(lk_stalls_size) lk_stalls_sizes;
typedef struct lk_stalls_comm {
	/* seconds per step in calls of communication, mean over ranks. */
	double waiting, interconnect, network;
	int ranks, hosts;
	lk_stalls_sizes sizes; /* of the group with most bytes, ascending */
	char group[128];
	bool bucket_network; /* it spans hosts */
	int bucket_ranks;    /* in it */
} lk_stalls_comm;
/* From the ranks' recordings in the folder, steps `warmup` and on, at most `steps`. */
lk_status lk_stalls_see_comm(const char *folder, int warmup, int steps, lk_stalls_comm *out,
                             lk_error *err);

/* ---- a recording (stalls_seen.c) ---- */

typedef struct lk_stalls_seen {
	int ranks, steps; /* recordings with steps; analysed steps, the fewest over ranks */
	lk_stalls_times times;
	const lk_stalls_rank *by_rank; /* [ranks], by rank; of the arena */
	const double *working;         /* [ranks] their own times without waits for loaders */
	double quick_s;                /* a tenth of the steps is faster */
	lk_stalls_loader loader;       /* mean over ranks */
	double communications;         /* calls per step */
	uint64_t left_out;             /* calls that null mode left out */
	double cores;                  /* of the recorded machine with fewest; NAN: unknown */
	bool mpi;
	bool waits; /* who ended them is recorded */
	bool torch; /* torch.distributed of Python, among several ranks */
	bool loader_seen;
} lk_stalls_seen;
/* An error unless the path is a folder with a readable recording. */
lk_status lk_stalls_check_recording(const char *path, lk_error *err);
/* 0 steps in *out: none found. Communication stays NAN. The steps are added to `each`, unless it is
 * NULL. */
lk_status lk_stalls_see(const char *folder, int warmup, int steps, lk_arena *arena,
                        lk_stalls_seen *out, lk_disk_steps *each, lk_error *err);
typedef LK_VEC(const char *) lk_stalls_files;
/* Paths of files read, or written, in the folder's recordings; read ones without those of steps
 * that do not count. */
lk_status lk_stalls_files_of(const char *folder, bool written, lk_arena *arena,
                             lk_stalls_files *out, double *bytes, lk_error *err);

/* ---- files read (stalls_files.c) ---- */

typedef struct lk_stalls_profile {
	LK_VEC(lk_stalls_file) files;
	lk_intern *paths; /* a path's index among the files is its number - 1, until they are sorted */
} lk_stalls_profile;
/* The file of a path, added if missing. LK_ERR_MEMORY. */
lk_status lk_stalls_file_of(lk_stalls_profile *profile, const char *path, lk_arena *arena,
                            lk_stalls_file **out, lk_error *err);
/* The class of a read of this size. */
int lk_stalls_read_class(double bytes);
/* Files read from the first step on, in a folder of recordings; from its beginning if there are no
 * steps, or if they were found by reads. Programs and libraries are left out. Or the files read
 * according to output of darshan-parser. */
lk_status lk_stalls_profile_of(const char *path, lk_arena *arena, lk_stalls_profile *out,
                               lk_error *err);
/* Sums of files by folder and tier; the texts belong to the arena and the files. */
lk_status lk_stalls_folders_of(const lk_stalls_profile *profile, lk_arena *arena,
                               const lk_stalls_folder **out, int *count, lk_error *err);
/* Compare its files with those of another recording, or Darshan's text (stalls_against.c). */
lk_status lk_stalls_compare_files(const lk_stalls_profile *after, const char *path, lk_arena *arena,
                                  const lk_stalls_pair **out, int *count, lk_error *err);
/* Sort the files by time, and choose those for the fast tier; NULL: none. LK_ERR_MEMORY. */
lk_status lk_stalls_stage(lk_stalls_profile *profile, const char *said, lk_arena *arena,
                          lk_stalls_staging *out, lk_error *err);
/* Check the words of --staging. LK_ERR_INPUT. */
lk_status lk_stalls_staging_check(const char *staging, lk_error *err);
void lk_stalls_profile_free(lk_stalls_profile *profile);

/* stalls_darshan.c: whether a file is output of darshan-parser; its files.
 * LK_ERR_INPUT, LK_ERR_IO, LK_ERR_MEMORY. */
lk_status lk_stalls_is_darshan(const char *path, bool *is, lk_error *err);
lk_status lk_stalls_darshan_read(lk_stream *in, lk_arena *arena, lk_stalls_profile *out,
                                 lk_error *err);

/* ---- the page cache (stalls_cache.c) ---- */

typedef struct lk_cache_state {
	double bytes, resident; /* resident: share of the pages examined; NAN: none could be */
	double rate;            /* of storage, bytes/s, measured before a cold run; NAN unknown */
	int files, unreadable;
} lk_cache_state;
/* Files count as cold with at most this share in memory. */
#define LK_CACHE_COLD 0.05
/* Evict the files from the page cache, or read them into it; then examine them. */
void lk_cache_evict(const char *const *paths, size_t count, lk_cache_state *out);
void lk_cache_warm(const char *const *paths, size_t count, lk_cache_state *out);

/* ---- the runs (stalls_runs.c) ---- */

typedef struct lk_stalls_run {
	bool ended; /* the command has ended: what follows is known, whatever failed afterwards */
	int status;
	bool late;
	double wall_s, cpu_s;
	lk_stalls_seen seen;
	lk_cache_state cache;
} lk_stalls_run;

typedef struct lk_stalls_runner {
	const lk_stalls_request *request;
	lk_arena *arena;
	char folder[PATH_MAX]; /* private: recordings, scratch, the Python module */
	bool python; /* the command's program is Python: loaders can be repeated and mark steps */
	const char *marker;        /* marks a step's begin; NULL: by the period */
	lk_stalls_files files;     /* read by the job */
	lk_disk_steps cold;        /* steps of all cold runs */
	lk_stalls_files unguarded; /* effects of repeated runs on the world, in words */
	double first_wall_s;
	const char *const *one; /* the command of one process; NULL: unknown */
	int one_words;
	const char *program; /* of the first run's ranks, if they use MPI: one process can run as an
	                        emulated rank */
	int world, per_host;
	int as_rank; /* the rank of that one process in the next run */
	int readers; /* approximate number of threads of a host that read at once */
} lk_stalls_runner;
lk_status lk_stalls_runner_open(const lk_stalls_request *request, lk_arena *arena,
                                lk_stalls_runner *out, lk_error *err);
void lk_stalls_runner_close(
	lk_stalls_runner *runner); /* removes the private folder, unless it is to be kept */
/* Run the command normally; its recording is FOLDER/first. */
lk_status lk_stalls_run_first(lk_stalls_runner *runner, lk_stalls_run *out, lk_error *err);
/* Run it in a configuration; its recording is FOLDER/ROUND-NAME. Its writes and output are kept
 * private. */
lk_status lk_stalls_run_again(lk_stalls_runner *runner, lk_stalls_configuration c, int round,
                              bool ready, lk_stalls_run *out, lk_error *err);
const char *lk_stalls_run_folder(const lk_stalls_runner *runner, lk_stalls_configuration c,
                                 int round);

/* ---- the whole verb (stalls.c, stalls_model.c) ---- */

typedef struct lk_stalls_work {
	lk_stalls_answer result; /* first: the result is the work */
	const lk_stalls_request *request;
	lk_arena arena;
	lk_stalls_runner runner;
	lk_stalls_run first;
	lk_stalls_comm first_comm;
	lk_stalls_profile profile; /* of the first run */
	bool wanted[LK_STALLS_CONFIGURATIONS];
	lk_stalls_rounds rounds;
	lk_stalls_run last[LK_STALLS_CONFIGURATIONS]; /* of the last good round */
	bool busy_seen;
	double busy;                   /* busy processors in the null run */
	double disk_rate;              /* the largest measured before a cold run; NAN: none */
	struct lk_stalls_links *links; /* of the given cluster; NULL: none */
	LK_VEC(const char *) notes;
	LK_VEC(lk_stalls_change) changes;
	lk_error *err;
} lk_stalls_work;

/* 0 for NAN. */
static inline double lk_stalls_known(double seconds) {
	return isnan(seconds) ? 0 : seconds;
}
/* Whether cold runs show how long storage takes. */
static inline bool lk_stalls_knows_storage(const lk_stalls_answer *answer) {
	return answer->parts[LK_STALL_FETCH].basis == LK_STALLS_MEASURED;
}
/* Fill rates and changes of the answer, whose parts must be set. */
lk_status lk_stalls_predict(lk_stalls_work *work);
/* Fill the buckets of the answer. */
lk_status lk_stalls_buckets_of(lk_stalls_work *work, const lk_stalls_comm *comm);
/* Predict the stalls of the request's networks on its machines (stalls_machines.c). */
lk_status lk_stalls_machines(lk_stalls_work *work);
/* Read the cluster that the request names (stalls_links.c). */
lk_status lk_stalls_read_links(lk_stalls_work *work);
/* Time of an empty collective in the group; NAN: no cluster was given. */
double lk_stalls_call_s(const lk_stalls_work *work, const lk_stalls_comm *comm);

/* ---- stalls_check.c: a validator (base/check.h). ---- */
const char *lk_stalls_check(const lk_stalls_answer *answer);

#endif
