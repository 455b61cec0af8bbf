/* stalls_loader.c: how long a rank prepares data, from its reads and its own code between them.
 *
 * A loader reads a sample and decodes it, reads the next one and decodes that: the code between two reads of one thread that
 * does not communicate meanwhile is preparation. Where the step's own thread loads, its reads come in bursts, and the gap
 * behind a burst is the last sample's decoding and then the model: a gap counts as one sample's decoding, the median, where
 * it is more than three times that. With no such longer gaps, or fewer than three reads in a burst, every gap may be the
 * model's: then nothing can be told. A loader of other threads or processes also waits for room between reads: there each
 * gap counts with the first quartile. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ask/stalls_parts.h"
#include "base/stats.h"

enum { LEAST_BURST = 3 };
static const double LONG = 3; /* times the median */

typedef LK_VEC(double) gaps;

typedef struct reader {
	uint64_t key;            /* process and thread */
	int64_t end_ns;          /* of its last read or communication */
	bool reading;            /* that was a read */
	double reads, busy;
	gaps gap;                /* seconds between reads; weights are not kept, merged reads count one by one */
} reader;

typedef struct readers {
	LK_VEC(reader) at;
} readers;

static reader *reader_of(readers *all, uint32_t process, uint16_t thread) {
	uint64_t key = (uint64_t)process << 16 | thread;
	for (size_t i = 0; i < all->at.count; i++)
		if (all->at.at[i].key == key) return &all->at.at[i];
	if (!lk_push(&all->at)) return NULL;
	lk_last(&all->at)->key = key;
	return lk_last(&all->at);
}

static bool add_gap(reader *r, double seconds) {
	if (seconds <= 0) return true;
	if (!lk_push(&r->gap)) return false;
	*lk_last(&r->gap) = seconds;
	return true;
}

/* A record may stand for several calls that followed one another closely: equal gaps. */
static bool add_read(reader *r, const lk_record_entry *e) {
	double busy = 1e-9 * (double)e->io.busy_ns, inside = 1e-9 * (double)(e->end_ns - e->start_ns) - busy;
	uint32_t shown = e->io.count - 1 < 4096 ? e->io.count - 1 : 4096;
	if (r->reading && !add_gap(r, 1e-9 * (double)(e->start_ns - r->end_ns))) return false;
	for (uint32_t i = 0; i < shown; i++)
		if (!add_gap(r, inside / shown)) return false;
	r->reads += e->io.count, r->busy += busy;
	r->reading = true, r->end_ns = e->end_ns;
	return true;
}

static bool see_calls(const lk_recorded_run *run, int64_t from, int64_t to, readers *all, double *bytes) {
	for (size_t i = 0; i < run->calls.count; i++) {
		const lk_record_entry *e = &run->calls.at[i].record;
		if (e->start_ns < from || e->start_ns >= to) continue;
		reader *r = e->kind == LK_RECORD_READ || e->kind == LK_RECORD_COMM
		                ? reader_of(all, run->calls.at[i].process, e->thread) : NULL;
		if (!r && (e->kind == LK_RECORD_READ || e->kind == LK_RECORD_COMM)) return false;
		if (e->kind == LK_RECORD_COMM) r->reading = false;
		if (e->kind != LK_RECORD_READ) continue;
		*bytes += (double)e->bytes;
		if (!add_read(r, e)) return false;
	}
	return true;
}

/* ---- preparation ---- */

static double main_thread(reader *r) {
	double *gap = r->gap.at, sum = 0;
	size_t n = r->gap.count, longer = 0;
	if (n < LEAST_BURST) return NAN;
	double usual = lk_median(gap, n);
	for (size_t i = 0; i < n; i++) {
		longer += gap[i] > LONG * usual;
		sum += gap[i] > LONG * usual ? usual : gap[i];
	}
	/* bursts end in a longer gap, or in communication, which leaves none: then reads outnumber gaps */
	double bursts = (double)longer + fmax(0, r->reads - (double)n);
	if (bursts < 1 || r->reads / bursts < LEAST_BURST) return NAN;
	return sum + usual * fmax(0, r->reads - (double)n); /* the last sample of those bursts is decoded too */
}

static double other_thread(const reader *r) {
	return r->gap.count ? lk_quantile(r->gap.at, r->gap.count, 0.25) * r->reads : 0;
}

static void sum_up(const lk_recorded_run *run, readers *all, int steps, lk_stalls_loader *out) {
	double own = 0, away = 0;
	for (size_t i = 0; i < all->at.count; i++) {
		reader *r = &all->at.at[i];
		if (r->reads <= 0) continue;
		bool main = r->key == run->main_thread;
		own += main ? main_thread(r) : other_thread(r);
		out->reads += r->reads, out->busy += r->busy, out->threads++;
		if (!main) away += r->busy + other_thread(r);
	}
	out->apart = away > 0.5 * (out->busy + (isnan(own) ? 0 : own));
	out->reads /= steps, out->busy /= steps, out->bytes /= steps;
	out->own = own / steps;
}

lk_status lk_stalls_see_loader(const lk_recorded_run *run, int64_t from, int64_t to, int steps, lk_stalls_loader *out,
                               lk_error *err) {
	readers all = {0};
	*out = (lk_stalls_loader){0};
	bool good = see_calls(run, from, to, &all, &out->bytes);
	if (good && steps > 0) sum_up(run, &all, steps, out);
	for (size_t i = 0; i < all.at.count; i++) lk_vec_free(&all.at.at[i].gap);
	lk_vec_free(&all.at);
	return good ? LK_OK : lk_oom(err);
}
