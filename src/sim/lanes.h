/* lanes.h: arithmetic on vectors of lanes, the inner loops of the sweep. Vectors are aligned to 64 bytes and padded to
 * a multiple of LK_LANES; padding is computed along and never read by groups. Private to sim/. */
#ifndef LK_SIM_LANES_H
#define LK_SIM_LANES_H

#include <stddef.h>
#include <stdint.h>
#include "sim/lower.h"

enum { LK_LANES = 8, LK_SOURCES = 4 };

/* The vectors that an operation waits for (at least one), and the host clocks. */
typedef struct lk_sources {
	int count;
	const int64_t *at[LK_SOURCES];
	const int64_t *host;
} lk_sources;

/* to = max(max(sources) + work, host + launch): kernels in a row, in max-plus algebra. */
void lk_lanes_chain(int64_t *to, const lk_sources *from, int64_t work, int64_t launch, size_t n);
/* to = max(to, from) */
void lk_lanes_max(int64_t *to, const int64_t *from, size_t n);
/* to = max(to, from + add) */
void lk_lanes_max_sum(int64_t *to, const int64_t *from, const int64_t *add, size_t n);
/* to += from; to += number */
void lk_lanes_add(int64_t *to, const int64_t *from, size_t n);
void lk_lanes_shift(int64_t *to, int64_t number, size_t n);
/* Every lane gets the maximum of its group. */
void lk_lanes_group(int64_t *v, const lk_lane_groups *groups, size_t lanes);

/* v = v * factor * jitter, rounded; factor NULL: 1, sigma 0: no jitter. `rank` is lane 0's, the others count up. */
typedef struct lk_lane_noise {
	const double *factor;
	double sigma;
	uint64_t seed, rank, number;
} lk_lane_noise;
void lk_lanes_scale(int64_t *v, const lk_lane_noise *noise, size_t n);

#endif
