/* measured_internal.h: the gauges of what was measured, and the rows that fill them. */
#ifndef LK_MEASURED_INTERNAL_H
#define LK_MEASURED_INTERNAL_H

#include "base/vec.h"
#include "measured/measured.h"

/* What one number of a log is, X(symbol, name in data/measured/). */
#define LK_MEASURED_GAUGES(X)                                          \
	X(STEP, "step")         /* the number of the step it belongs to */ \
	X(STEP_S, "step_s")     /* time of a step */                       \
	X(RATE, "rate")         /* steps per second */                     \
	X(RUN_RATE, "run_rate") /* ... of the whole run, with its start */ \
	X(MICRO_S, "micro_s")   /* time of a micro-step */                 \
	X(MICRO, "micro")       /* its number */                           \
	X(STAMP, "stamp")       /* seconds since some moment */            \
	X(TOKENS, "tokens_per_s")                                          \
	X(TOKENS_GPU, "tokens_per_s_gpu")                                  \
	X(SAMPLES, "samples_per_s")                                        \
	X(TFLOPS, "tflops_gpu")                                            \
	X(MFU, "mfu")                                                      \
	X(MEMORY, "memory")                                                \
	X(GPUS, "gpus")                                                    \
	X(BATCH, "global_batch")                                           \
	X(SEQ, "seq_len")                                                  \
	X(SAMPLES_SEEN, "samples_seen") /* since the start of the run */   \
	X(PART, "part")                                                    \
	X(GPU_MEMORY, "gpu_memory")                                        \
	X(POWER, "power")                                                  \
	X(POWER_LIMIT, "power_limit")                                      \
	X(CLOCK, "clock")                                                  \
	X(UTILISATION, "utilisation")                                      \
	X(INDEX, "index") /* of a device */                                \
	X(SEEN, "seen")   /* tells the format, measures nothing */

enum lk_gauge {
#define LK_GAUGE_SYMBOL(symbol, name) LK_GAUGE_##symbol,
	LK_MEASURED_GAUGES(LK_GAUGE_SYMBOL) LK_GAUGES
#undef LK_GAUGE_SYMBOL
};

/* A gauge that stands for itself in the result; 0 for others and where it is not stated. */
double lk_gauge_get(const lk_measured *measured, enum lk_gauge gauge);
/* Set it; a rate sets the time of a step. */
void lk_gauge_set(lk_measured *measured, enum lk_gauge gauge, double value);

/* ---- rows of data/measured/ (tools/pack_measured.c) ---- */

/* Scales of units that the text itself has. */
enum {
	LK_UNIT_SAID = 0,  /* after the number: "43.2GiB" */
	LK_UNIT_CLOCK = -1 /* "1:02:03", "2m 41s" */
};

typedef struct lk_measured_key {
	const char *key; /* a name, or with '#' a pattern of a line; NULL ends a table */
	enum lk_gauge gauge;
	double scale; /* of its unit, or LK_UNIT_... */
	lk_memory_kind memory;
	const char *part;
} lk_measured_key;

enum { LK_FORMAT_TABLES = 6 };
typedef struct lk_measured_format {
	const char *name;
	const lk_measured_key *tables[LK_FORMAT_TABLES]; /* ended by NULL */
} lk_measured_format;
extern const lk_measured_format lk_measured_formats[]; /* ended by a NULL name */
extern const lk_measured_key lk_measured_keys_bars[],  /* units of progress bars */
	lk_measured_keys_devices[],                        /* tables of GPUs: with every format */
	lk_measured_keys_plain[];                          /* of no framework */

/* ---- hits: every number of a file that a row names ---- */

typedef struct lk_hit {
	const lk_measured_key *key; /* NULL: the step alone, of exports */
	uint32_t table;             /* index in lk_hits */
	uint32_t bar;               /* the progress bar, from 1; 0 none */
	double step;                /* NAN: not stated */
	double value, stamp;        /* stamp: seconds since some moment, of its line; NAN not stated */
} lk_hit;

/* A progress bar: all that have the same words before them and the same end. */
typedef struct lk_bar {
	uint64_t title;
	double total, elapsed_s; /* elapsed: the most that it showed */
	double last, before;     /* the step shown last; those of its earlier rounds */
} lk_bar;

enum { LK_HIT_TABLES = 40, LK_TABLE_COLUMNS = 64 };
typedef struct lk_hits {
	LK_VEC(lk_hit) hits;
	LK_VEC(lk_bar) bars;
	struct {
		const lk_measured_key *keys;
		double step;         /* stated last; NAN before that */
		double rounds, most; /* steps of earlier epochs that count from 1 again; most of this one */
	} tables[LK_HIT_TABLES];
	uint32_t table_count;
	double stamp;                        /* of the line or record that is read */
	const char *container;               /* "CSV export"; NULL: a log */
	int64_t run_after[LK_MEASURED_RUNS]; /* as in lk_measured */
	size_t run_count;
	char device[LK_MEASURED_DEVICE];
	bool throttled, out_of_memory;
	const lk_measured_key *columns[LK_TABLE_COLUMNS]; /* of a table in blanks ... */
	size_t column_count;                              /* ... 0: none is open */
	bool lost;                                        /* memory ran out */
} lk_hits;

void lk_hits_open(lk_hits *hits);
void lk_hits_close(lk_hits *hits);
/* The index of a table of keys. */
uint32_t lk_hits_table(const lk_hits *hits, const lk_measured_key *keys);
void lk_hits_add(lk_hits *hits, uint32_t table, const lk_measured_key *key, double step,
                 double value);
/* A number of a record, by its name; `step` NAN: not known. False: no row has the name. */
bool lk_hits_named(lk_hits *hits, const char *name, const char *value, double step);
/* Whether some row has the name. */
bool lk_hits_knows(const lk_hits *hits, const char *name);
/* Whether the name is that of the number of a step. */
bool lk_hits_is_step(const lk_hits *hits, const char *name);
/* One line of a log, without its end. */
void lk_hits_line(lk_hits *hits, const char *line, size_t length);
/* What tables of GPUs and progress bars have on a line (terminated). */
void lk_hits_devices(lk_hits *hits, const char *line);
void lk_hits_bar(lk_hits *hits, const char *line);

/* Any text: JSON, CSV, events or a log. */
lk_status lk_hits_text(lk_hits *hits, const char *text, size_t size, const char *name,
                       lk_error *err);
/* An event file of TensorBoard; a damaged end is where it ends. */
bool lk_hits_is_events(const char *text, size_t size);
void lk_hits_events(lk_hits *hits, const char *text, size_t size);

/* The measured run, from all hits. LK_ERR_INPUT: there are none. */
lk_status lk_hits_result(const lk_hits *hits, const char *name, lk_measured *out, lk_error *err);

/* The value of a row at `text`, in its unit; *end after it, `text` where there is none. */
double lk_key_value(const lk_measured_key *key, const char *text, const char **end);
/* "1:02:03.5", "02:03", "2m 41s", "1 day, 2:03:04": seconds. */
double lk_read_clock(const char *text, const char **end);
/* Seconds since 1970 of the first date with a time in a line, NAN if there is none. */
double lk_read_stamp(const char *line);

/* The number at `text`, with commas between thousands; *end after it, `text` if there is none. */
double lk_read_number(const char *text, const char **end);

static inline char lk_lower(char c) {
	return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

#endif
