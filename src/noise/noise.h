/* noise.h: how the times of steps vary, as rows: what varies, how often and by how much.
 *
 * A row acts on every unit of its level, in every step, with probability `chance`. A *spread* is a
 * deviation to both sides: its time gets a factor of mean 1 and relative deviation `low`, or a
 * deviation of that many seconds. A *delay* lengthens it by between `low` and `high`,
 * evenly in the logarithm; several delays with falling chances are a heavy tail. In shares, both
 * are of the quiet time of the unit: of the step, of the kernels of a GPU, of the network
 * operations of a NIC. */
#ifndef LK_NOISE_NOISE_H
#define LK_NOISE_NOISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "io/stream.h"
#include "lockstep/error.h"

/* What varies. Everything in a step waits for its slowest unit, so that the same row costs more at
 * a level of many units. X(symbol, name, what one unit is) */
/* clang-format off */
#define LK_NOISE_LEVELS_OF(X)                                                                      \
	X(STEP, "step", "the whole step: garbage collection, logging, what follows an evaluation")     \
	X(NODE, "node", "the kernels of all GPUs of a node: its host, power or cooling")               \
	X(GPU, "gpu", "the kernels of a GPU")                                                          \
	X(NIC, "nic", "what a GPU sends and receives through its NIC")                                 \
	X(OPERATION, "operation", "every kernel by itself; spreads in shares only")                    \
	X(DATA, "data", "the input of a data-parallel rank, before its step begins")
/* clang-format on */
typedef enum lk_noise_level {
#define LK_NOISE_SYMBOL(symbol, name, what) LK_NOISE_##symbol,
	LK_NOISE_LEVELS_OF(LK_NOISE_SYMBOL) LK_NOISE_LEVELS
#undef LK_NOISE_SYMBOL
} lk_noise_level;
extern const char *const lk_noise_level_names[LK_NOISE_LEVELS + 1]; /* ended by NULL */

typedef struct lk_noise_row {
	lk_noise_level level;
	bool delay;    /* otherwise a spread, with chance 1 and high 0 */
	bool seconds;  /* the unit of low and high; otherwise shares */
	double chance; /* 0 to 1 */
	double low, high;
} lk_noise_row;

enum { LK_NOISE_ROWS = 64 };
typedef struct lk_noise {
	const char *name; /* "preset mlperf", "noise.csv" */
	lk_noise_row row[LK_NOISE_ROWS];
	int count;
} lk_noise;

/* noise_read.c: a preset of data/noise.csv, or else a file of the same form. LK_ERR_INPUT: neither,
 * or a wrong row, with its line. */
lk_status lk_noise_read(lk_arena *arena, const char *preset_or_file, lk_noise *out, lk_error *err);
/* All rows of a file of that form. */
lk_status lk_noise_read_stream(lk_stream *in, lk_noise *out, lk_error *err);
/* Write the form that lk_noise_read reads; `source` becomes its comment. */
lk_status lk_noise_write(const char *path, const lk_noise *noise, const char *source,
                         lk_error *err);
/* Append a row; LK_ERR_INPUT at `where` if there are too many. */
lk_status lk_noise_add(lk_noise *noise, lk_noise_row row, const char *where, lk_error *err);

/* noise_draw.c: the rows of one level for units that take `quiet_s` seconds. */
typedef struct lk_noise_sampler {
	double quiet_s, sigma; /* sigma: of the factor */
	double chance[LK_NOISE_ROWS], low_s[LK_NOISE_ROWS], ratio[LK_NOISE_ROWS];
	int delays;
	uint64_t salt;
} lk_noise_sampler;
/* False: no row acts at the level. */
bool lk_noise_sampler_make(const lk_noise *noise, lk_noise_level level, double quiet_s,
                           lk_noise_sampler *out);
/* Seconds by which a unit deviates from its quiet time in the step of a seed; at least -quiet_s. */
double lk_noise_draw(const lk_noise_sampler *sampler, uint64_t seed, uint64_t unit);
/* The largest of lk_noise_draw over units of one kind. It costs little more than a hash each. */
double lk_noise_draw_largest(const lk_noise_sampler *sampler, uint64_t seed, const uint32_t *units,
                             size_t count);
/* Distributed as the largest over units 0 to count - 1, in one draw; where spread and delays act
 * together, the larger of both alone. */
double lk_noise_draw_most(const lk_noise_sampler *sampler, uint64_t seed, double count);

/* noise_fit.c: step times of a run, without its first steps. */
typedef struct lk_noise_series {
	const double *seconds;
	size_t count;
	int mean_of; /* steps whose mean each time is; at least 1 */
} lk_noise_series;
/* The noise of the step that most series agree on: the spread from their quartiles, delays so that
 * the share of steps beyond each of several quantiles is the median of the series'. All in shares,
 * since steps of 0.1 to 60 s share them better than seconds. LK_ERR_MEMORY. */
lk_status lk_noise_fit(const lk_noise_series *series, size_t count, lk_noise *out, lk_error *err);
/* P95 and P99 over P50 of `steps` steps of the quiet time `quiet_s` with the noise of level step,
 * averaged over `mean_of` steps each. LK_ERR_MEMORY. */
lk_status lk_noise_tail(const lk_noise *noise, double quiet_s, int mean_of, double *p95,
                        double *p99, lk_error *err);

#endif
