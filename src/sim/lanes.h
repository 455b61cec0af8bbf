/* lanes.h: arithmetic on vectors of lanes, the inner loops of the sweep. Vectors are aligned to 64
 * bytes and padded to a multiple of LK_LANES; padding is computed along and never read by groups. A
 * single lane is a plain number: one lane, no padding. Private to sim/. */
#ifndef LK_SIM_LANES_H
#define LK_SIM_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "sim/lower.h"

enum {
	LK_LANES = 8,
	LK_SOURCES = 4
};

/* The vectors that an operation waits for (at least one), and the host clocks. */
typedef struct lk_sources {
	int count;
	const int64_t *at[LK_SOURCES];
	const int64_t *host;
} lk_sources;

/* Of a whole number of LK_LANES lanes. */
void lk_lanes_chain_many(int64_t *to, const lk_sources *from, int64_t work, int64_t launch,
                         size_t n);
void lk_lanes_max_many(int64_t *to, const int64_t *from, size_t n);
void lk_lanes_max_sum_many(int64_t *to, const int64_t *from, const int64_t *add, size_t n);
void lk_lanes_add_many(int64_t *to, const int64_t *from, size_t n);
void lk_lanes_shift_many(int64_t *to, int64_t number, size_t n);

/* to = max(max(sources) + work, host + launch): kernels in a row, in max-plus algebra. */
static inline void lk_lanes_chain(int64_t *to, const lk_sources *from, int64_t work, int64_t launch,
                                  size_t n) {
	if (n > 1) {
		lk_lanes_chain_many(to, from, work, launch, n);
		return;
	}
	int64_t ready = *from->at[0], issued = *from->host + launch;
	for (int i = 1; i < from->count; i++)
		if (*from->at[i] > ready) ready = *from->at[i];
	*to = ready + work > issued ? ready + work : issued;
}

/* to = max(to, from) */
static inline void lk_lanes_max(int64_t *to, const int64_t *from, size_t n) {
	if (n > 1) lk_lanes_max_many(to, from, n);
	else if (*from > *to) *to = *from;
}

/* to = max(to, from + add) */
static inline void lk_lanes_max_sum(int64_t *to, const int64_t *from, const int64_t *add,
                                    size_t n) {
	if (n > 1) lk_lanes_max_sum_many(to, from, add, n);
	else if (*from + *add > *to) *to = *from + *add;
}

/* to += from; to += number */
static inline void lk_lanes_add(int64_t *to, const int64_t *from, size_t n) {
	if (n > 1) lk_lanes_add_many(to, from, n);
	else *to += *from;
}
static inline void lk_lanes_shift(int64_t *to, int64_t number, size_t n) {
	if (n > 1) lk_lanes_shift_many(to, number, n);
	else *to += number;
}

static inline void lk_lanes_copy(int64_t *to, const int64_t *from, size_t n) {
	if (n > 1) memcpy(to, from, n * sizeof *to);
	else *to = *from;
}

/* Every lane gets the maximum of its group. */
void lk_lanes_group(int64_t *v, const lk_lane_groups *groups, size_t lanes);

/* v = v * factor * jitter, rounded; factor NULL: 1, sigma 0: no jitter. `rank` is lane 0's, the
 * others count up. */
typedef struct lk_lane_noise {
	const double *factor;
	double sigma;
	uint64_t seed, rank, number;
} lk_lane_noise;
void lk_lanes_scale(int64_t *v, const lk_lane_noise *noise, size_t n);

#endif
