/* collective_flags.c: compares measured sizes with the model and with each other. With m measured
 * and p predicted times:
 *
 *     falls   m(2S) < 0.97 m(S): a message twice as large is faster; the protocol or algorithm
 *             chosen at S costs more than it saves, and another one (NCCL_PROTO, NCCL_ALGO) would
 *             be better
 *     slow    (m - d) / p > 1.5 on two neighbouring sizes or more, d the offset of the smallest
 *             sizes (launch and the like, at least 0)
 *     whole   at the sizes from 64 MiB (or the largest one) the bus bandwidth is below 0.6 of the
 *             model's: not this or that size, the fabric is slow: links, NICs, GPUDirect RDMA, or
 *             NCCL's view of the node
 */
#include "base/arena.h"
#include "collective/collective.h"

#include <math.h>
#include <string.h>

#include "base/stats.h"
#include "base/text.h"

static const double falling = .97, slow = 1.5, low = .6, large = 67108864;
enum { SMALL = 4 }; /* sizes that determine the offset */

static int mark_falls(lk_collective_row *rows, int count) {
	int found = 0;
	for (int i = 0; i + 1 < count; i++) {
		double step = rows[i + 1].bytes / rows[i].bytes;
		if (step > 2.5 || !(rows[i + 1].measured_us < falling * rows[i].measured_us)) continue;
		rows[i].flag = "falls";
		found++;
	}
	return found;
}

/* The median of measured - predicted over the smallest sizes. */
static double offset_of(const lk_collective_row *rows, int count) {
	double over[SMALL];
	int n = count < SMALL ? count : SMALL;
	for (int i = 0; i < n; i++) over[i] = rows[i].measured_us - rows[i].us;
	return n == SMALL && rows[0].bytes <= 65536 ? fmax(0, lk_median(over, (size_t)n)) : 0;
}

static bool is_slow(const lk_collective_row *row, double offset) {
	return (row->measured_us - offset) / row->us > slow;
}

static int mark_slow(lk_collective_row *rows, int count) {
	double offset = offset_of(rows, count);
	int found = 0;
	for (int i = 0; i < count; i++) {
		bool beside = (i > 0 && is_slow(&rows[i - 1], offset)) ||
		              (i + 1 < count && is_slow(&rows[i + 1], offset));
		if (!is_slow(&rows[i], offset) || !(beside || count == 1)) continue;
		if (!*rows[i].flag) rows[i].flag = "slow";
		found++;
	}
	return found;
}

/* Measured over predicted bus bandwidth at large sizes, as the geometric mean; NAN if none was
 * measured. */
static double share_reached(const lk_collective_row *rows, int count) {
	double sum = 0;
	int n = 0;
	for (int i = 0; i < count; i++)
		if (rows[i].bytes >= large && rows[i].ratio > 0) {
			sum -= log(rows[i].ratio);
			n++;
		}
	return n ? exp(sum / n) : NAN;
}

static lk_status flags_note(lk_arena *arena, const char **notes, int *count, const char *text,
                            lk_error *err) {
	(void)arena;
	if (!text) return lk_oom(err);
	notes[(*count)++] = text;
	return LK_OK;
}

/* The sizes where the flag begins and ends, as a text. */
static const char *flags_range_of(lk_arena *arena, const lk_collective_row *rows, int count,
                                  const char *flag) {
	char from[40], to[40];
	int first = 0, last = count - 1;
	while (first < last && strcmp(rows[first].flag, flag) != 0) first++;
	while (last > first && strcmp(rows[last].flag, flag) != 0) last--;
	lk_format_bytes(rows[first].bytes, from, sizeof from);
	lk_format_bytes(rows[last].bytes, to, sizeof to);
	return first == last ? lk_arena_strdup(arena, from)
	                     : lk_arena_printf(arena, "%s to %s", from, to);
}

lk_status lk_collective_flag(lk_arena *arena, lk_collective_row *rows, int row_count,
                             const char **notes, int *count, lk_error *err) {
	if (row_count == 0) return LK_OK;
	int falls = mark_falls(rows, row_count), slows = mark_slow(rows, row_count);
	double reached = share_reached(rows, row_count);
	if (falls > 0) {
		const char *range = flags_range_of(arena, rows, row_count, "falls");
		LK_TRY(flags_note(
			arena, notes, count,
			range ? lk_arena_printf(
						arena,
						"falls: %s takes longer than twice as much: a switch of protocol or "
						"algorithm costs more than it saves; "
						"try NCCL_PROTO or NCCL_ALGO there",
						range)
				  : NULL,
			err));
	}
	if (reached < low) {
		LK_TRY(flags_note(
			arena, notes, count,
			lk_arena_printf(
				arena,
				"slow as a whole: at large sizes it reaches %.0f %% of the bandwidth that these "
				"links and NICs should give; "
				"look at GPUDirect RDMA, the NICs in use and the placement",
				100 * reached),
			err));
	} else if (slows > 1) {
		const char *range = flags_range_of(arena, rows, row_count, "slow");
		LK_TRY(flags_note(arena, notes, count,
		                  range ? lk_arena_printf(arena,
		                                          "slow: %s takes more than %.1f times as long as "
		                                          "expected, beyond what small sizes add",
		                                          range, slow)
		                        : NULL,
		                  err));
	}
	return LK_OK;
}
