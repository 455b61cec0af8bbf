/* meter.h: what the files of measure/ share: the clock, repetition, a team of threads, where results go. */
#ifndef LK_MEASURE_METER_H
#define LK_MEASURE_METER_H

#include "calibrate/host/measure.h"

/* ---- time ---- */

double lk_now(void);         /* seconds, monotonic */

/* Seconds of the repetitions of something. */
typedef struct lk_sample {
	double median, low, high; /* and 10 %, 90 % quantiles; NAN where nothing was measured */
	int repeats;
} lk_sample;

/* One repetition: its seconds, NAN where it failed. */
typedef double lk_trial(void *context);
/* Repeats for about so many seconds, `least` times at least, after one that does not count. Ends at a failure. */
lk_sample lk_repeat(lk_trial *trial, void *context, double seconds, int least);

/* ---- threads ---- */

typedef struct lk_team lk_team;
typedef void lk_team_work(void *context, int thread, int threads);
/* Threads that wait for work; the caller is thread 0. NULL when memory is out; with fewer threads than asked where the
 * system gives no more. */
lk_team *lk_team_new(int threads);
int lk_team_size(const lk_team *team);
/* Runs the work on all threads and returns when all are done. */
void lk_team_run(lk_team *team, lk_team_work *work, void *context);
void lk_team_free(lk_team *team);

/* ---- results ---- */

typedef struct lk_meter {
	lk_host *host;
	const lk_host_options *options;
	lk_team *team;
	double begun, seconds;   /* when, and for how long */
	double send_rate;        /* between two processes of a node, the best way found, bytes/s; 0 unknown */
	double net_rate;         /* between nodes, by MPI; 0 unknown */
	lk_error *err;
} lk_meter;

void lk_meter_say(lk_meter *m, const char *doing);
/* amount / seconds, in units of `scale`: (bytes, 1e9) is GB/s. Nothing where the sample is empty. */
lk_status lk_meter_rate(lk_meter *m, const char *group, const char *name, const char *unit, double amount, double scale,
                        const lk_sample *sample);
/* seconds / parts, in units of `scale`: (1000, 1e-6) is us of each of a thousand. */
lk_status lk_meter_time(lk_meter *m, const char *group, const char *name, const char *unit, double parts, double scale,
                        const lk_sample *sample);
/* What was counted or read from the system. */
lk_status lk_meter_count(lk_meter *m, const char *group, const char *name, const char *unit, double value);
lk_status lk_meter_note(lk_meter *m, const char *fmt, ...) LK_PRINTF(2, 3);

/* Room that the kernel hands out zeroed and page-aligned, NULL where there is none; release with munmap. */
void *lk_pages(size_t bytes);

/* ---- one file each ---- */

lk_status lk_measure_facts(lk_meter *m);  /* facts.c: processor, caches, memory, NICs */
lk_status lk_measure_gemm(lk_meter *m, double seconds);
lk_status lk_measure_memory(lk_meter *m, double seconds);
lk_status lk_measure_calls(lk_meter *m, double seconds);
lk_status lk_measure_disk(lk_meter *m, double seconds);
lk_status lk_measure_pairs(lk_meter *m, double seconds);
lk_status lk_measure_mpi(lk_meter *m, double seconds);
lk_status lk_measure_gpus(lk_meter *m, double seconds);

#endif
