/* stalls.h: what the files of stalls share.
 *
 *     stalls_runs.c      the configurations: how the command is started in each
 *     stalls_seen.c      a recording as times of a step
 *     stalls_comm.c      waiting and transfer of the ranks, by who shares a host
 *     stalls_loader.c    preparation, from reads and the own code between them
 *     stalls_own.c       a thread's own time: computing, asleep, waiting for data or a processor
 *     stalls_cache.c     the page cache: evicting, reading ahead, looking
 *     stalls_disk.c      how long storage works for a step, and what of that the step does not see
 *     stalls_fit.c       what was measured as sums of parts, fitted together, with intervals
 *     stalls_formulas.c  which sums of parts the configurations are; the parts of the step
 *     stalls_buckets.c   time of communication by calls and bytes
 *     stalls_whatif.c    closed forms of the loader's rates
 *     stalls_simulate.c  the same as a simulated timeline
 *     stalls_model.c     what the runs say of the loader, as that model
 *     stalls_check.c     what holds for every answer
 *     stalls.c           the question: the first run, the plan, the rounds, the answer
 */
#ifndef LK_STALLS_STALLS_H
#define LK_STALLS_STALLS_H

#include <math.h>

#include "base/arena.h"
#include "base/intervals.h"
#include "base/vec.h"
#include "io/stream.h"
#include "lockstep/stalls.h"
#include "trace/read/read.h"

/* A mean of a few measurements and its 95 % interval; one alone has none (NAN). */
typedef struct lk_estimate {
	double mean, low, high;
} lk_estimate;

/* ---- the fit (stalls_fit.c) ---- */

enum { LK_STALLS_REPEATS = 50, LK_FIT_ROWS = 10, LK_FIT_PARTS = 8 };
/* What was measured once a cycle. */
typedef struct lk_fit_row {
	uint32_t parts;       /* bits: those whose sum it is */
	bool configuration;   /* a run's step, which shows how slow the machine was */
	double doubt;         /* share of it by which it may be wrong, whatever the noise */
	const double *values; /* by cycle; NAN: the cycle does not count */
} lk_fit_row;
typedef struct lk_fit {
	int cycles, left_out; /* that count; of the whole ones, those far from the others */
	int cycle[LK_STALLS_REPEATS];
	double drift[LK_STALLS_REPEATS]; /* of the cycles that count: how slow the machine was */
	lk_estimate total;
	lk_estimate part[LK_FIT_PARTS]; /* none negative, their sum the total; NAN: no sums tell it */
	double hidden[LK_FIT_PARTS];    /* variance of the mean that cycles do not show */
	double at[LK_STALLS_REPEATS][LK_FIT_PARTS]; /* parts in each cycle, as measured */
} lk_fit;
/* `total`: the row that is the step. No cycle counts: NANs. */
void lk_fit_parts(const lk_fit_row *rows, int row_count, int parts, int cycles, int total,
                  lk_fit *out);
/* Of shares of two parts, a - b; *needed: cycles that would tell them apart, about. */
lk_estimate lk_fit_difference(const lk_fit *fit, int a, double share_a, int b, double share_b,
                              double *needed);
/* 97.5 % quantile. */
double lk_student_quantile(int freedom);

/* ---- parts of the step (stalls_formulas.c) ---- */

lk_estimate lk_estimate_of(const double *x, int count); /* NANs are left out; all are: NAN */

/* Steps of a run, one by one; owned by the arena of the answer. */
typedef struct lk_stalls_steps {
	const double *length;  /* [count] seconds, mean over ranks */
	const double *slowest; /* own time of the rank that had most */
	const double *working; /* the same without waits for loaders */
	int count;
} lk_stalls_steps;

/* What one run showed, a step: seconds, means over ranks and steps. NAN: not known. */
typedef struct lk_stalls_times {
	double step;
	double waiting, interconnect, network; /* in calls of communication */
	double reading, preparation, writing;  /* of the main thread; preparation that is not hidden */
	double waited;                         /* some thread of a host was in a read */
	double usual;  /* own time of the usual rank without waits for its loader: the lower median over
	                  ranks; 0: one rank, or not known */
	double uneven; /* what `step` has more than `usual`: in runs that ranks do not leave together */
	double own;    /* mean over ranks, waits for loaders included */
	bool handed;   /* preparation is waits for loaders; of several ranks it comes from the steps */
	lk_stalls_steps steps;
} lk_stalls_times;

/* Runs by configuration and round; `step` NAN: no such run. */
typedef struct lk_stalls_rounds {
	int count;
	lk_stalls_times at[LK_STALLS_CONFIGURATIONS][LK_STALLS_REPEATS];
	lk_stalls_times first; /* what the parts are estimated from where there are no rounds */
} lk_stalls_rounds;
/* The parts of the step and what it is: cold if that was run, else hot, else the first run. Texts
 * are constants. */
void lk_stalls_split(const lk_stalls_rounds *rounds, lk_stalls_answer *out);
struct lk_disk_work;
/* What the cold rounds show of storage, except for its rate and the single steps, which the caller
 * adds. The answer's parts must be set. */
struct lk_disk_work lk_stalls_storage_of(const lk_stalls_rounds *rounds,
                                         const lk_stalls_answer *answer);

/* The order of the configurations in a round, drawn anew for each, so that what grows within rounds
 * is noise and no difference; the same in every run of lockstep. */
void lk_stalls_order(int round, int order[LK_STALLS_CONFIGURATIONS]);
/* Whether more rounds can change what is said: not where all intervals are narrow and the largest
 * parts are told apart. */
bool lk_stalls_settled(const lk_stalls_answer *answer);

/* ---- gradient buckets (stalls_buckets.c) ---- */

/* Calls of one size: how often a rank makes them in a step, and how long their transfer takes. */
typedef struct lk_stalls_size {
	double bytes, calls, seconds;
} lk_stalls_size;
/* Fits and predicts; `exposed_s`: the part of the transfer that is exposed in the step. False:
 * out of memory.
 */
bool lk_stalls_fit_buckets(const lk_stalls_size *sizes, int count, double call_s, double exposed_s,
                           double step_s, lk_arena *arena, lk_stalls_buckets *out);

/* ---- the loader as a model (stalls_whatif.c, stalls_simulate.c) ---- */

enum { LK_STALLS_UNLIKE = 16 };
/* A step of one rank as the loader's model sees it; seconds a step. */
typedef struct lk_stalls_model {
	bool pipelined;
	double own; /* its code, preparation left out */
	double waiting, interconnect, network, writing;
	double preparation; /* work of one loader thread for a step */
	double workers;     /* loader threads that share it */
	/* (1 - hit) bytes / disk: how long storage works for a step, `hidden` of it overlapped with
	 * other work; bytes / memory: copying, which for a concurrent loader is a part of preparation
	 */
	double bytes, disk, memory, hit, hidden;
	/* Of a loader in the step: steps are unlike, as where shards are read now and then; equally
	 * many of each kind, the device's work and the rest of the step against the means, and what of
	 * the device's work is hidden; 0: all are alike. */
	struct lk_stalls_unlike {
		double device, hidden, rest;
	} of[LK_STALLS_UNLIKE];
	int kinds;
	double cores, busy; /* of the host, NAN: not known; busy ones where nothing is waited for */
} lk_stalls_model;

/* Another machine, as factors on the present one's rates; 1 everywhere: the same. */
typedef struct lk_stalls_machine {
	double disk, network, speed;
	double cores, hit; /* NAN: as they are */
} lk_stalls_machine;
lk_stalls_model lk_stalls_on(const lk_stalls_model *model, const lk_stalls_machine *machine);
double lk_stalls_device_s(const lk_stalls_model *model); /* storage works */
/* Of a loader in the step: its reads, including the exposed part of the device's work; of a
 * concurrent one: how long a worker waits for the device. */
double lk_stalls_fetch_s(const lk_stalls_model *model);
double lk_stalls_compute_s(const lk_stalls_model *model); /* all but preparation and fetch */
/* The step by the closed forms; *bottleneck (may be NULL) names what limits it. */
double lk_stalls_closed(const lk_stalls_model *model, const char **bottleneck);
/* Cores (workers) that hide preparation; share in memory that hides fetching; NAN: none does. */
double lk_stalls_cores_to_hide(const lk_stalls_model *model);
double lk_stalls_cache_to_hide(const lk_stalls_model *model);
/* "disk=2,cores=1": a machine, and its name for people. */
lk_status lk_stalls_machine_of(const char *line, lk_stalls_machine *out, char name[160],
                               lk_error *err);
/* The step in the steady state of a simulated timeline: batches are fetched by the device, prepared
 * by the workers, and used. */
lk_status lk_stalls_simulate(const lk_stalls_model *model, double *step_s, lk_error *err);

/* ---- storage (stalls_disk.c) ---- */

typedef struct lk_disk_step {
	double seconds, waited; /* how long it is; that some thread of a host is in a read */
	double stored;          /* bytes of a host that came from storage */
} lk_disk_step;
typedef LK_VEC(lk_disk_step) lk_disk_steps;
/* What a host's ranks read. */
typedef struct lk_disk_use {
	char host[64];
	lk_intervals reads;    /* in which some thread is in a read */
	lk_disk_steps steps;   /* seconds: sum over its ranks */
	LK_VEC(int64_t) begin; /* of its first rank's steps, and the last one's end */
	int ranks;
} lk_disk_use;
typedef LK_VEC(lk_disk_use) lk_disk_uses;
/* Adds a rank's reads in the steps that begin at begin[0], ...; begin[steps] is the last one's end.
 */
lk_status lk_disk_see(lk_disk_uses *uses, const lk_recorded_run *run, const int64_t *begin,
                      int steps, lk_error *err);
/* A step's seconds in which some thread is in a read, and each step, mean over hosts; frees `uses`.
 */
lk_status lk_disk_sum_up(lk_disk_uses *uses, double *waited, lk_disk_steps *out, lk_error *err);
/* Bytes a second at which evicted files come, read by so many threads at once; NAN: too few bytes
 * to tell. Evict them again. */
double lk_disk_rate(const char *const *paths, size_t count, int streams);

/* What is known of storage; seconds and bytes a step, of a host. */
typedef struct lk_disk_work {
	const lk_disk_step *steps; /* of all cold runs */
	size_t count;
	double rate;        /* bytes a second; NAN: not known */
	double waited;      /* some thread waits for storage in a read */
	double fetch, step; /* the stall, the whole step */
	bool stalls;        /* `fetch` is surely there */
} lk_disk_work;
/* How long the device works, at least. */
double lk_disk_busy(const lk_disk_work *work);
/* Sets disk and hidden, so that the model's step is the one that was measured. All else of the
 * model is there. */
void lk_stalls_fit_disk(lk_stalls_model *model, const lk_disk_work *work);

/* ---- the loader of a recording (stalls_loader.c) ---- */

/* What a rank's loader does in a step. */
typedef struct lk_stalls_loader {
	double bytes, reads; /* of files, a step */
	double busy;         /* seconds in reads, all threads */
	double own;          /* seconds of own code between reads: preparation; NAN: not known */
	bool apart;          /* not the main thread's */
	double threads;      /* that read */
	double handed;       /* seconds in which the main thread waits for data of others */
} lk_stalls_loader;
/* Of the steps that begin at begin[0], ...; begin[steps] is the last one's end. */
lk_status lk_stalls_see_loader(const lk_recorded_run *run, const int64_t *begin, int steps,
                               lk_stalls_loader *out, lk_error *err);

/* ---- a thread's own time (stalls_own.c) ---- */

/* What the main thread does in a step outside of communication. */
typedef struct lk_stalls_own {
	double computing, sleeping, storage, data, preempted; /* seconds; NAN: not known */
	double seconds;                                       /* of the run that were looked at */
} lk_stalls_own;
/* Of the steps that begin at begin[0], ...; begin[steps] is the last one's end. */
void lk_stalls_see_own(const lk_recorded_run *run, const int64_t *begin, int steps,
                       lk_stalls_own *out);
/* Seconds of each step in which the main thread waits for data of others. */
void lk_stalls_handed_over(const lk_recorded_run *run, const int64_t *begin, int steps,
                           double *seconds);

/* ---- communication of a recording (stalls_comm.c) ---- */

typedef LK_VEC(lk_stalls_size) lk_stalls_sizes;
typedef struct lk_stalls_comm {
	/* seconds a step in calls of communication, mean over ranks. */
	double waiting, interconnect, network;
	int ranks, hosts;
	lk_stalls_sizes sizes; /* of the group with most bytes, ascending */
	char group[128];
	bool bucket_network; /* it spans hosts */
	int bucket_ranks;    /* in it */
} lk_stalls_comm;
/* Of the ranks' recordings in the folder, steps `warmup` and on, at most `steps`. */
lk_status lk_stalls_see_comm(const char *folder, int warmup, int steps, lk_stalls_comm *out,
                             lk_error *err);

/* ---- a recording (stalls_seen.c) ---- */

typedef struct lk_stalls_seen {
	int ranks, steps; /* recordings with steps; steps looked at, the fewest */
	lk_stalls_times times;
	const lk_stalls_rank *by_rank; /* [ranks], by rank; of the arena */
	const double *working;         /* [ranks] their own times without waits for loaders */
	double quick_s;                /* a tenth of the steps is quicker than that */
	lk_stalls_loader loader;       /* mean over ranks */
	double communications;         /* calls a step */
	uint64_t left_out;             /* calls that null mode left out */
	double cores; /* of the machine that was recorded, the one with fewest; NAN: not known */
	bool mpi;
	bool torch; /* torch.distributed of Python, among several ranks */
	bool loader_seen;
} lk_stalls_seen;
/* An error where the path is no folder with a recording that can be read. */
lk_status lk_stalls_check_recording(const char *path, lk_error *err);
/* 0 steps in *out: there are none. Communication is left NAN. The steps are added to `each`, unless
 * it is NULL. */
lk_status lk_stalls_see(const char *folder, int warmup, int steps, lk_arena *arena,
                        lk_stalls_seen *out, lk_disk_steps *each, lk_error *err);
typedef LK_VEC(const char *) lk_stalls_files;
/* Paths of files that were read, or written, in the folder's recordings; read ones without those of
 * steps that do not count. */
lk_status lk_stalls_files_of(const char *folder, bool written, lk_arena *arena,
                             lk_stalls_files *out, double *bytes, lk_error *err);

/* ---- what is read (stalls_files.c) ---- */

typedef struct lk_stalls_profile {
	LK_VEC(lk_stalls_file) files;
	lk_intern *paths; /* a path's place among the files is its number - 1, until they are sorted */
} lk_stalls_profile;
/* The file of a path, made where it is not there. LK_ERR_MEMORY. */
lk_status lk_stalls_file_of(lk_stalls_profile *profile, const char *path, lk_arena *arena,
                            lk_stalls_file **out, lk_error *err);
/* The class of a read of so many bytes. */
int lk_stalls_read_class(double bytes);
/* Files that are read from the first step on, of a folder of recordings; from its beginning where
 * there are no steps, or they were found by what is read. Programs and libraries are left out. */
lk_status lk_stalls_profile_of(const char *folder, lk_arena *arena, lk_stalls_profile *out,
                               lk_error *err);
/* Sorts the files by time, and chooses those for the fast tier; NULL: none. LK_ERR_MEMORY. */
/* Sums of files by folder and tier; the texts are the arena's and the files'. */
lk_status lk_stalls_folders_of(const lk_stalls_profile *profile, lk_arena *arena,
                               const lk_stalls_folder **out, int *count, lk_error *err);
/* Its files beside those of another recording, or Darshan's text (stalls_against.c). */
lk_status lk_stalls_compare_files(const lk_stalls_profile *after, const char *path, lk_arena *arena,
                                  const lk_stalls_pair **out, int *count, lk_error *err);
lk_status lk_stalls_stage(lk_stalls_profile *profile, const char *said, lk_arena *arena,
                          lk_stalls_staging *out, lk_error *err);
/* The words of --staging. LK_ERR_INPUT. */
lk_status lk_stalls_staging_check(const char *staging, lk_error *err);
void lk_stalls_profile_free(lk_stalls_profile *profile);

/* stalls_darshan.c: whether a file is what darshan-parser writes; its files that were read.
 * LK_ERR_INPUT, LK_ERR_IO, LK_ERR_MEMORY. */
lk_status lk_stalls_is_darshan(const char *path, bool *is, lk_error *err);
lk_status lk_stalls_darshan_read(lk_stream *in, lk_arena *arena, lk_stalls_profile *out,
                                 lk_error *err);

/* ---- the page cache (stalls_cache.c) ---- */

typedef struct lk_cache_state {
	double bytes, resident; /* resident: share of the pages looked at; NAN: none could be */
	double rate; /* of storage, bytes a second, measured before a cold run; NAN not known */
	int files, unreadable;
} lk_cache_state;
/* With at most that share in memory files are cold. */
#define LK_CACHE_COLD 0.05
/* Evicts the files from the page cache, or reads them into it; then looks. */
void lk_cache_evict(const char *const *paths, size_t count, lk_cache_state *out);
void lk_cache_warm(const char *const *paths, size_t count, lk_cache_state *out);
void lk_cache_look(const char *const *paths, size_t count, lk_cache_state *out);

/* ---- the runs (stalls_runs.c) ---- */

typedef struct lk_stalls_run {
	bool ended; /* the command: what follows is known, whatever failed afterwards */
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
	const char *marker;        /* what begins a step; NULL: the period */
	lk_stalls_files files;     /* that the job reads */
	lk_disk_steps cold;        /* steps of all cold runs */
	lk_stalls_files unguarded; /* what runs again did to the world, in words */
	double first_wall_s;
	const char *const *one; /* the command of one process; NULL: not known */
	int one_words;
	const char *program; /* of the first run's ranks, where they have MPI: one process can run as an
	                        emulated rank */
	int world, per_host;
	int as_rank; /* that one process is in the next run */
	int readers; /* threads of a host that read at once, about */
} lk_stalls_runner;
lk_status lk_stalls_runner_open(const lk_stalls_request *request, lk_arena *arena,
                                lk_stalls_runner *out, lk_error *err);
void lk_stalls_runner_close(
	lk_stalls_runner *runner); /* removes the private folder, unless it is to be kept */
/* The command as it is; its recording is FOLDER/first. */
lk_status lk_stalls_run_first(lk_stalls_runner *runner, lk_stalls_run *out, lk_error *err);
/* In a configuration; its recording is FOLDER/ROUND-NAME. What it writes and prints does not get
 * out. */
lk_status lk_stalls_run_again(lk_stalls_runner *runner, lk_stalls_configuration c, int round,
                              bool ready, lk_stalls_run *out, lk_error *err);
const char *lk_stalls_run_folder(const lk_stalls_runner *runner, lk_stalls_configuration c,
                                 int round);

/* ---- all of it (stalls.c, stalls_model.c) ---- */

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
	double busy;                   /* processors at work in the null run */
	double disk_rate;              /* the largest that was seen before a cold run; NAN: none was */
	struct lk_stalls_links *links; /* of the cluster that was given; NULL: none */
	LK_VEC(const char *) notes;
	LK_VEC(lk_stalls_change) changes;
	lk_error *err;
} lk_stalls_work;

/* 0 for NAN. */
static inline double lk_stalls_known(double seconds) {
	return isnan(seconds) ? 0 : seconds;
}
/* Fills rates and changes of the answer; its parts are there. */
lk_status lk_stalls_predict(lk_stalls_work *work);
/* Fills the buckets of the answer. */
lk_status lk_stalls_buckets_of(lk_stalls_work *work, const lk_stalls_comm *comm);
/* Reads the cluster that the request names (stalls_links.c). */
lk_status lk_stalls_read_links(lk_stalls_work *work);
/* What a collective of no bytes takes among the ranks of the group; NAN: no cluster was given. */
double lk_stalls_call_s(const lk_stalls_work *work, const lk_stalls_comm *comm);

/* ---- stalls_check.c: a validator (base/check.h). ---- */
const char *lk_stalls_check(const lk_stalls_answer *answer);

#endif
