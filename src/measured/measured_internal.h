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
	X(UTILISATION, "utilisation")

enum lk_gauge {
#define LK_GAUGE_SYMBOL(symbol, name) LK_GAUGE_##symbol,
	LK_MEASURED_GAUGES(LK_GAUGE_SYMBOL) LK_GAUGES
#undef LK_GAUGE_SYMBOL
};

/* A gauge that stands for itself in the result; 0 for others and where it is not stated. */
double lk_gauge_get(const lk_measured *measured, enum lk_gauge gauge);
/* Set it; a rate sets the time of a step. */
void lk_gauge_set(lk_measured *measured, enum lk_gauge gauge, double value);

/* The number at `text`, with commas between thousands; *end after it, `text` if there is none. */
double lk_read_number(const char *text, const char **end);

static inline char lk_lower(char c) {
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

#endif
