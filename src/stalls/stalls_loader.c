/* stalls_loader.c: a rank's preparation time, from its reads and its own code between them.
 *
 * A loader reads a sample and decodes it, reads the next one and decodes that: the code from a read
 * to the thread's next call is preparation. If the step's own thread loads, its reads come in
 * bursts, and a burst's last read is followed by that sample's decoding and then the model. So each
 * read of a step is numbered; numbers whose time is longer than the typical one end a burst, and
 * count like the others. The model's code must show that way: with no longer times, or more than
 * one in three, each may include the model's, and nothing is known. A wait for another thread ends
 * what follows a read, as a call of communication does; where it mostly does, a burst's end is
 * known without being longer. A loader of other threads or processes also waits for room between
 * reads: there each read counts with the first quartile. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stalls/stalls.h"
#include "base/check.h"
#include "base/stats.h"
#include "base/sort.h"

/* Limits for hostile recordings, above the threads and gaps of any real loader. */
enum { LEAST_BURST = 3, PLACES = 1 << 14, MOST_READERS = 1 << 10, MOST_GAPS = 1 << 20 };
/* Longer than typical: medians of a read number over steps, and, if steps have different numbers of
 * reads, single times. */
static const double LONGER = 1.25, MUCH_LONGER = 1.5;
/* Share of the steps in which a wait ends what follows the last read. */
static const double MOSTLY = 0.8;

struct gap {
	uint32_t place; /* the number of the read in its step */
	double seconds;
};

struct reader {
	uint64_t key;                        /* process and thread */
	int64_t end_ns;                      /* of its last read */
	bool open;                           /* nothing followed it yet */
	int step;                            /* current step */
	uint32_t reads_in_step, most, least; /* this step; of all steps so far */
	uint32_t steps, waits;               /* in which it reads; that a wait ended */
	double reads, busy;
	LK_VEC(struct gap) gaps;
};

struct readers {
	LK_VEC(struct reader) at;
};

static struct reader *find_or_add_reader(struct readers *all, uint32_t process, uint16_t thread) {
	uint64_t key = (uint64_t)process << 16 | thread;
	for (size_t i = 0; i < all->at.count; i++)
		if (all->at.at[i].key == key) return &all->at.at[i];
	if (all->at.count == MOST_READERS) return &all->at.at[MOST_READERS - 1];
	if (!lk_push(&all->at)) return NULL;
	*lk_last(&all->at) = (struct reader){.key = key, .step = -1, .least = UINT32_MAX};
	return lk_last(&all->at);
}

/* ---- reads and what follows them ---- */

static bool add_read_gap(struct reader *reader, uint32_t place, double seconds) {
	if (reader->gaps.count >= MOST_GAPS) return true;
	if (!lk_push(&reader->gaps)) return false;
	*lk_last(&reader->gaps) = (struct gap){place, fmax(0, seconds)};
	return true;
}

static bool end_read_gap(struct reader *reader, int64_t now_ns) {
	bool was = reader->open;
	reader->open = false;
	return !was || !reader->reads_in_step ||
	       add_read_gap(reader, reader->reads_in_step - 1,
	                    1e-9 * (double)(now_ns - reader->end_ns));
}

static void end_reader_step(struct reader *reader) {
	if (reader->step < 0) return;
	reader->steps++;
	if (reader->reads_in_step > reader->most) reader->most = reader->reads_in_step;
	if (reader->reads_in_step < reader->least) reader->least = reader->reads_in_step;
}

static void begin_reader_step(struct reader *reader, int step) {
	LK_ASSERT(step >= reader->step);
	if (step == reader->step) return;
	end_reader_step(reader);
	if (reader->step >= 0 && step > reader->step + 1) reader->least = 0;
	reader->step = step;
	reader->reads_in_step = 0;
}

/* A record may represent several calls in close succession: equal gaps. */
static bool add_reader_read(struct reader *reader, const lk_record_entry *entry, int step) {
	double busy = 1e-9 * (double)entry->io.busy_ns,
		   inside = 1e-9 * (double)(entry->end_ns - entry->start_ns) - busy;
	uint32_t more = entry->io.count ? entry->io.count - 1 : 0;
	if (!end_read_gap(reader, entry->start_ns)) return false;
	begin_reader_step(reader, step);
	for (uint32_t i = 0; i < more && i < PLACES; i++)
		if (!add_read_gap(reader, reader->reads_in_step + i, inside / more)) return false;
	reader->reads_in_step += more + 1;
	reader->reads += more + 1;
	reader->busy += busy;
	reader->open = true;
	reader->end_ns = entry->end_ns;
	return true;
}

static bool see_loader_calls(const lk_recorded_run *run, const int64_t *begin, int steps,
                             struct readers *all, double *bytes) {
	int step = 0;
	for (size_t i = 0; i < run->calls.count; i++) {
		const lk_record_entry *entry = &run->calls.at[i].record;
		bool waits = entry->kind == LK_RECORD_WAIT && entry->object == LK_WAIT_THREAD;
		if (entry->start_ns < begin[0] ||
		    (entry->kind != LK_RECORD_READ && entry->kind != LK_RECORD_COMM && !waits))
			continue;
		if (entry->start_ns >= begin[steps]) break;
		while (entry->start_ns >= begin[step + 1]) step++;
		struct reader *reader = find_or_add_reader(all, run->calls.at[i].process, entry->thread);
		if (!reader) return false;
		reader->waits += waits && reader->open;
		if (entry->kind != LK_RECORD_READ) {
			if (!end_read_gap(reader, entry->start_ns)) return false;
			continue;
		}
		*bytes += (double)entry->bytes;
		if (!add_reader_read(reader, entry, step)) return false;
	}
	for (size_t i = 0; i < all->at.count; i++) end_reader_step(&all->at.at[i]);
	return true;
}

/* ---- preparation ---- */

LK_ORDER_BY(compare_gap_places, struct gap, place, seconds)

/* Read numbers, or single reads: typical time and sum. */
struct stretch {
	double usual, sum, count;
};

/* Sum the times not much longer than the typical one; the others count as the mean of those.
 * `room`: space for n numbers. */
static double sum_without_burst_ends(const struct stretch *at, size_t n, double longer,
                                     double *room) {
	double sum = 0, count = 0, ends = 0, all = 0;
	for (size_t i = 0; i < n; i++) room[i] = at[i].usual;
	double usual = lk_median(room, n);
	for (size_t i = 0; i < n; i++) {
		all += at[i].count;
		if (at[i].usual > longer * usual) ends += at[i].count;
		else {
			sum += at[i].sum;
			count += at[i].count;
		}
	}
	return ends > 0 && all >= LEAST_BURST * ends ? sum + ends * sum / count : NAN;
}

static size_t join_gap_places(const struct reader *reader, bool each, struct stretch *out) {
	size_t n = 0;
	for (size_t i = 0, end; i < reader->gaps.count; i = end) {
		double sum = 0;
		for (end = i;
		     end < reader->gaps.count &&
		     (end == i || (!each && reader->gaps.at[end].place == reader->gaps.at[i].place));
		     end++)
			sum += reader->gaps.at[end].seconds;
		out[n++] =
			(struct stretch){reader->gaps.at[i + (end - i) / 2].seconds, sum, (double)(end - i)};
	}
	return n;
}

static double sum_of_gaps(const struct reader *reader) {
	double sum = 0;
	for (size_t i = 0; i < reader->gaps.count; i++) sum += reader->gaps.at[i].seconds;
	return sum;
}

static bool main_thread_preparation(struct reader *reader, double *own) {
	size_t n = reader->gaps.count;
	bool alike = reader->most == reader->least && reader->most <= PLACES;
	*own = NAN;
	if (n < LEAST_BURST) return true;
	struct stretch *at = malloc(n * sizeof *at);
	double *room = malloc(n * sizeof *room);
	if (at && room) {
		lk_sort(reader->gaps.at, n, sizeof *reader->gaps.at, compare_gap_places);
		*own = sum_without_burst_ends(at, join_gap_places(reader, !alike, at),
		                              alike ? LONGER : MUCH_LONGER, room);
	}
	/* bursts that end like they go on, as what follows them is known to be another thing */
	bool told = reader->waits >= MOSTLY * reader->steps &&
	            reader->reads >= (double)LEAST_BURST * reader->steps;
	if (isnan(*own) && told) *own = sum_of_gaps(reader);
	bool good = at && room;
	free(at);
	free(room);
	return good;
}

static bool other_thread_preparation(const struct reader *reader, double *own) {
	double *room = malloc((reader->gaps.count + 1) * sizeof *room);
	if (!room) return false;
	for (size_t i = 0; i < reader->gaps.count; i++) room[i] = reader->gaps.at[i].seconds;
	*own = reader->gaps.count ? lk_quantile(room, reader->gaps.count, 0.25) * reader->reads : 0;
	free(room);
	return true;
}

static bool sum_up_loader(const lk_recorded_run *run, struct readers *all, int steps,
                          lk_stalls_loader *out) {
	double away = 0, sum = 0;
	for (size_t i = 0; i < all->at.count; i++) {
		struct reader *reader = &all->at.at[i];
		bool main = reader->key == run->main_thread;
		double own = 0;
		if (reader->reads <= 0) continue;
		if (!(main ? main_thread_preparation(reader, &own)
		           : other_thread_preparation(reader, &own)))
			return false;
		out->own += own;
		out->reads += reader->reads;
		out->busy += reader->busy;
		out->threads++;
		sum += reader->busy + (isnan(own) ? 0 : own);
		if (!main) away += reader->busy + own;
	}
	out->apart = away > 0.5 * sum;
	out->reads /= steps;
	out->busy /= steps;
	out->bytes /= steps;
	out->own /= steps;
	return true;
}

lk_status lk_stalls_see_loader(const lk_recorded_run *run, const int64_t *begin, int steps,
                               lk_stalls_loader *out, lk_error *err) {
	LK_ASSERT(steps > 0 && begin[0] <= begin[steps]);
	struct readers all = {0};
	*out = (lk_stalls_loader){0};
	bool good = see_loader_calls(run, begin, steps, &all, &out->bytes) &&
	            sum_up_loader(run, &all, steps, out);
	for (size_t i = 0; i < all.at.count; i++) lk_vec_free(&all.at.at[i].gaps);
	lk_vec_free(&all.at);
	return good ? LK_OK : lk_oom(err);
}
