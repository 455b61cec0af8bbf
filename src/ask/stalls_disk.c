/* stalls_disk.c: how long storage works for a step, and how much of that the step does not see.
 *
 * A step that waits 0.2 s for storage does not tell what storage twice as fast would save: the kernel reads ahead while the
 * program computes, one rank is served while another decodes, a limited volume lets through at once what was not used before.
 * So storage works longer than is waited for. How long, is at least
 *
 *     bytes / rate      what the kernel counts as read from storage in a step, all ranks of a host, over the rate at which the
 *                       same files come when nothing but reading is done: lk_disk_rate, just before a cold run
 *     waiting           time in which some thread of the host waits in a read, without what the hot run's reads take
 *     fetch             what the step takes longer
 *
 * The first is exact where storage is limited by its bandwidth, the second where each read waits for its own request. The
 * kernel's counters of a device do not serve: what a limit of a control group holds back is idleness to them, and they hold
 * what other programs read. */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ask/stalls_parts.h"
#include "base/parallel.h"

/* ---- what a run read ---- */

enum { MOST_THREADS = 1 << 10 };

typedef struct counter {
	uint64_t key;            /* process and thread */
	double before, so_far;   /* bytes: at the first step that counts, at the last one's end */
} counter;

static double stored_between(const lk_recorded_run *run, int64_t from, int64_t to) {
	LK_VEC(counter) all = {0};
	double sum = 0;
	for (size_t i = 0; i < run->storage.count && run->storage.at[i].record.start_ns < to; i++) {
		const lk_recorded_call *c = &run->storage.at[i];
		uint64_t key = (uint64_t)c->process << 16 | c->record.thread;
		size_t k = 0;
		while (k < all.count && all.at[k].key != key) k++;
		if (k == all.count && (k == MOST_THREADS || !lk_push(&all))) continue;
		if (k == all.count - 1 && all.at[k].key != key) all.at[k] = (counter){.key = key};
		all.at[k].so_far = (double)c->record.bytes;
		if (c->record.start_ns < from) all.at[k].before = all.at[k].so_far;
	}
	for (size_t k = 0; k < all.count; k++) sum += fmax(0, all.at[k].so_far - all.at[k].before);
	lk_vec_free(&all);
	return sum;
}

static lk_disk_use *use_of(lk_disk_uses *uses, const char *host) {
	for (size_t i = 0; i < uses->count; i++)
		if (strcmp(uses->at[i].host, host) == 0) return &uses->at[i];
	if (!lk_push(uses)) return NULL;
	*lk_last(uses) = (lk_disk_use){.stored = 0};
	snprintf(lk_last(uses)->host, sizeof lk_last(uses)->host, "%s", host);
	return lk_last(uses);
}

lk_status lk_disk_see(lk_disk_uses *uses, const lk_recorded_run *run, int64_t from, int64_t to, int steps, lk_error *err) {
	lk_disk_use *use = use_of(uses, run->head.host);
	/* ranks of a host have one clock; a moment that none has is as good as another */
	const int64_t latest = INT64_C(1) << 61;
	int64_t moment = run->head.monotonic_ns >= 0 && run->head.monotonic_ns < latest ? run->head.monotonic_ns : 0;
	if (!use) return lk_oom(err);
	for (size_t i = 0; i < run->calls.count; i++) {
		const lk_record_entry *e = &run->calls.at[i].record;
		if (e->kind != LK_RECORD_READ || e->start_ns < from || e->start_ns >= to) continue;
		int64_t all = e->end_ns - e->start_ns, busy = e->io.busy_ns < 0 ? 0 : e->io.busy_ns < all ? e->io.busy_ns : all;
		if (!lk_intervals_add(&use->reads, moment + e->end_ns - busy, moment + e->end_ns)) return lk_oom(err);
	}
	use->stored += stored_between(run, from, to) / steps;
	use->steps = steps;
	return LK_OK;
}

void lk_disk_sum_up(lk_disk_uses *uses, double *stored, double *waited) {
	*stored = *waited = 0;
	for (size_t i = 0; i < uses->count; i++) {
		lk_disk_use *use = &uses->at[i];
		lk_intervals_sort(&use->reads);
		*stored += use->stored / (double)uses->count;
		*waited += 1e-9 * (double)lk_intervals_length(&use->reads) / use->steps / (double)uses->count;
		lk_vec_free(&use->reads);
	}
	lk_vec_free(uses);
}

/* ---- the rate ---- */

/* What a limit lets through at once is over after SETTLING_S; a slow device is looked at for LONGEST_S. */
static const double SETTLING_S = 0.2, LONGEST_S = 1, ENOUGH_BYTES = 64 << 20, LEAST_BYTES = 1 << 20;
enum { CHUNK = 128 << 10 };

typedef struct reader {
	double start, settled;   /* moments */
	double now, bytes, settled_bytes;
	double rate;
} reader;

typedef struct reading {
	const char *const *paths;
	size_t count;
	double all;              /* bytes of all files */
	size_t streams;
	reader *of;
} reading;

static double now_s(void) { return 1e-9 * (double)lk_monotonic_ns(); }

static bool go_on(const reader *r) {
	double took = r->now - r->start;
	return took < SETTLING_S || (took < LONGEST_S && r->bytes < ENOUGH_BYTES);
}

static double file_bytes(const char *path) {
	struct stat info;
	return stat(path, &info) == 0 && S_ISREG(info.st_mode) ? (double)info.st_size : 0;
}

/* Nothing is read ahead: it would still be on its way when the files are evicted again. */
static void read_part(reader *r, const char *path, double from, double to, char *room) {
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0) return;
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	for (off_t at = (off_t)from; (double)at < to && go_on(r);) {
		ssize_t got = pread(fd, room, CHUNK, at);
		if (got <= 0) break;
		at += got;
		r->now = now_s(), r->bytes += (double)got;
		if (r->settled <= 0 && r->now - r->start >= SETTLING_S) r->settled = r->now, r->settled_bytes = r->bytes;
	}
	close(fd);
}

/* Stream i of n reads the i-th n-th of all bytes. */
static lk_status read_stream(void *context, size_t job, lk_error *err) {
	reading *all = context;
	reader *r = &all->of[job];
	char *room = malloc(CHUNK);
	double from = all->all * (double)job / (double)all->streams, to = from + all->all / (double)all->streams, begin = 0;
	if (!room) return lk_oom(err);
	r->start = r->now = now_s();
	for (size_t i = 0; i < all->count && begin < to && go_on(r); i++) {
		double bytes = file_bytes(all->paths[i]), end = begin + bytes;
		if (bytes > 0 && end > from) read_part(r, all->paths[i], floor(fmax(0, from - begin)), fmin(bytes, to - begin), room);
		begin = end;
	}
	free(room);
	bool settled = r->settled > 0 && r->now > r->settled;
	double took = settled ? r->now - r->settled : r->now - r->start;
	r->rate = took > 0 ? (r->bytes - (settled ? r->settled_bytes : 0)) / took : 0;
	return LK_OK;
}

double lk_disk_rate(const char *const *paths, size_t count, int streams) {
	enum { MOST_STREAMS = 16 };
	reader of[MOST_STREAMS] = {0};
	reading all = {.paths = paths, .count = count, .of = of};
	lk_error ignored = {0};
	double rate = 0, bytes = 0;
	all.streams = streams < 1 ? 1 : streams > MOST_STREAMS ? MOST_STREAMS : (size_t)streams;
	for (size_t i = 0; i < count; i++) all.all += file_bytes(paths[i]);
	if (all.all < LEAST_BYTES || lk_parallel(all.streams, (int)all.streams, read_stream, &all, &ignored) != LK_OK) return NAN;
	for (size_t i = 0; i < all.streams; i++) rate += of[i].rate, bytes += of[i].bytes;
	return bytes >= LEAST_BYTES / 2 && rate > 0 ? rate : NAN;
}

/* ---- what it means ---- */

double lk_disk_busy(const lk_disk_work *w) {
	double by_bytes = w->rate > 0 && w->stored > 0 ? w->stored / w->rate : 0;
	double busy = fmax(by_bytes, fmax(w->waited, w->fetch));
	return fmax(0, fmin(busy, w->step));
}

/* Beside a loader of w workers a step is max(compute, device, (preparation + device - hidden) / w). Where fetching is a stall,
 * that is what was measured: a device that is not known to work so long is one whose requests the workers wait for. */
static double pipelined_busy(const lk_stalls_model *m, double busy, const lk_disk_work *w) {
	if (!w->stalls || fmax(busy, (m->preparation + busy) / m->workers) >= w->step) return busy;
	return fmax(busy, fmin(w->step, m->workers * w->step - m->preparation));
}

void lk_stalls_fit_disk(lk_stalls_model *m, const lk_disk_work *w) {
	double busy = lk_disk_busy(w);
	if (m->pipelined) {
		busy = pipelined_busy(m, busy, w);
		m->hidden = fmin(m->preparation, fmax(0, m->preparation + busy - m->workers * w->step));
	} else {
		m->hidden = fmax(0, busy - w->fetch);
	}
	m->disk = m->bytes > 0 && busy > 0 ? m->bytes / busy : INFINITY;
}
