/* stalls_disk.c: the time that storage works for a step, and its part hidden from the step.
 *
 * A step that waits 0.2 s for storage does not tell what storage twice as fast would save: the
 * kernel reads ahead while the program computes, one rank is served while another decodes, and a
 * rate-limited volume lets unused budget through at once. So storage works longer than the program
 * waits for it, at least
 *
 *     bytes / rate   the bytes that the kernel counts as read from storage in a step, all ranks of
 *                    a host, over the rate of the same files when nothing else is done:
 *                    lk_disk_rate, measured just before a cold run
 *     waiting        the time in which some thread of the host waits in a read, without the time of
 *                    the hot run's reads
 *     fetch          the excess of the cold step
 *
 * The first is exact if storage is limited by its bandwidth, the second if each read waits for its
 * own request. The kernel's counters of a device are of no use: time held back by a control group's
 * limit counts as idle there, and they include what other programs read. */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stalls/stalls.h"
#include "base/check.h"
#include "system/parallel.h"
#include "base/sort.h"

/* ---- reads of a run ---- */

enum { MOST_THREADS = 1 << 10 };

struct counter {
	uint64_t key; /* process and thread */
	double bytes; /* so far */
};
typedef LK_VEC(struct counter) counters;

/* The bytes that a thread got from storage since its last record; 0 if there are too many
 * threads. */
static double newly_stored_bytes(counters *all, const lk_recorded_call *call) {
	uint64_t key = (uint64_t)call->process << 16 | call->record.thread;
	size_t k = 0;
	while (k < all->count && all->at[k].key != key) k++;
	if (k == all->count) {
		if (k == MOST_THREADS || !lk_push(all)) return 0;
		all->at[k] = (struct counter){.key = key};
	}
	double more = fmax(0, (double)call->record.bytes - all->at[k].bytes);
	all->at[k].bytes = (double)call->record.bytes;
	return more;
}

static void add_stored_bytes(lk_disk_use *use, const lk_recorded_run *run, const int64_t *begin,
                             int steps) {
	counters all = {0};
	int step = 0;
	for (size_t i = 0; i < run->storage.count && run->storage.at[i].record.start_ns < begin[steps];
	     i++) {
		const lk_recorded_call *call = &run->storage.at[i];
		double more = newly_stored_bytes(&all, call);
		while (call->record.start_ns >= begin[step + 1]) step++;
		if (call->record.start_ns >= begin[0]) use->steps.at[step].stored += more;
	}
	lk_vec_free(&all);
}

static lk_disk_use *find_or_add_host(lk_disk_uses *uses, const char *host) {
	for (size_t i = 0; i < uses->count; i++)
		if (strcmp(uses->at[i].host, host) == 0) return &uses->at[i];
	if (!lk_push(uses)) return NULL;
	*lk_last(uses) = (lk_disk_use){.ranks = 0};
	snprintf(lk_last(uses)->host, sizeof lk_last(uses)->host, "%s", host);
	return lk_last(uses);
}

static bool add_host_reads(lk_disk_use *use, const lk_recorded_run *run, const int64_t *begin,
                           int steps) {
	/* ranks of a host share a clock; a moment outside it does no harm */
	const int64_t latest = INT64_C(1) << 61;
	int64_t moment =
		run->head.monotonic_ns >= 0 && run->head.monotonic_ns < latest ? run->head.monotonic_ns : 0;
	for (int i = 0; i <= steps && !use->ranks; i++) {
		if (!lk_push(&use->begin)) return false;
		*lk_last(&use->begin) = moment + begin[i];
	}
	for (size_t i = 0; i < run->calls.count; i++) {
		const lk_record_entry *entry = &run->calls.at[i].record;
		if (entry->kind != LK_RECORD_READ || entry->start_ns < begin[0] ||
		    entry->start_ns >= begin[steps])
			continue;
		int64_t all = entry->end_ns - entry->start_ns;
		int64_t busy = entry->io.busy_ns < all ? entry->io.busy_ns : all;
		if (busy < 0) busy = 0;
		if (!lk_intervals_add(&use->reads, moment + entry->end_ns - busy, moment + entry->end_ns))
			return false;
	}
	return true;
}

lk_status lk_disk_see(lk_disk_uses *uses, const lk_recorded_run *run, const int64_t *begin,
                      int steps, lk_error *err) {
	LK_ASSERT(steps > 0);
	lk_disk_use *use = find_or_add_host(uses, run->head.host);
	if (!use || !add_host_reads(use, run, begin, steps)) return lk_oom(err);
	while (use->steps.count < (size_t)steps) {
		if (!lk_push(&use->steps)) return lk_oom(err);
		*lk_last(&use->steps) = (lk_disk_step){0};
	}
	for (int i = 0; i < steps; i++)
		use->steps.at[i].seconds += 1e-9 * (double)(begin[i + 1] - begin[i]);
	add_stored_bytes(use, run, begin, steps);
	use->ranks++;
	return LK_OK;
}

/* Divide waits by the steps of the first rank. After its last step come reads of other ranks, whose
 * clock is the same. */
static double divide_waits_by_step(lk_disk_use *use) {
	size_t step = 0, last = use->begin.count ? use->begin.count - 1 : 0;
	if (last > use->steps.count) last = use->steps.count; /* memory ran out */
	lk_intervals_sort(&use->reads);
	for (size_t i = 0; i < use->reads.count && last; i++) {
		int64_t from = use->reads.at[i].start, end = use->reads.at[i].end;
		while (from < end) {
			while (step + 1 < last && from >= use->begin.at[step + 1]) step++;
			int64_t to =
				step + 1 < last && end > use->begin.at[step + 1] ? use->begin.at[step + 1] : end;
			use->steps.at[step].waited += 1e-9 * (double)(to - from);
			from = to;
		}
	}
	return use->steps.count
	           ? 1e-9 * (double)lk_intervals_length(&use->reads) / (double)use->steps.count
	           : 0;
}

/* Add the steps of a host's ranks: equally many, or with a last one that not all have. */
static void add_host_steps(const lk_disk_use *use, size_t steps, double hosts, lk_disk_steps *out) {
	LK_ASSERT(steps <= out->count && hosts > 0);
	size_t first = out->count - steps;
	for (size_t i = 0; i < steps && i < use->steps.count; i++) {
		out->at[first + i].seconds += use->steps.at[i].seconds / use->ranks / hosts;
		out->at[first + i].waited += use->steps.at[i].waited / hosts;
		out->at[first + i].stored += use->steps.at[i].stored / hosts;
	}
}

lk_status lk_disk_sum_up(lk_disk_uses *uses, double *waited, lk_disk_steps *out, lk_error *err) {
	size_t steps = SIZE_MAX;
	lk_status status = LK_OK;
	double hosts = (double)uses->count;
	*waited = 0;
	for (size_t i = 0; i < uses->count; i++)
		if (uses->at[i].steps.count < steps) steps = uses->at[i].steps.count;
	for (size_t i = 0; out && uses->count && status == LK_OK && i < steps; i++) {
		if (lk_push(out)) *lk_last(out) = (lk_disk_step){0};
		else status = lk_oom(err);
	}
	for (size_t i = 0; i < uses->count; i++) {
		lk_disk_use *use = &uses->at[i];
		*waited += divide_waits_by_step(use) / hosts;
		if (out && status == LK_OK) add_host_steps(use, steps, hosts, out);
		lk_vec_free(&use->reads);
		lk_vec_free(&use->steps);
		lk_vec_free(&use->begin);
	}
	lk_vec_free(uses);
	return status;
}

/* ---- the rate ---- */

/* The burst that a limit allows is over after SETTLING_S; a slow device is measured for
 * LONGEST_S. */
static const double SETTLING_S = 0.2, LONGEST_S = 1, ENOUGH_BYTES = 64 << 20, LEAST_BYTES = 1 << 20;
enum { CHUNK = 128 << 10 };

struct reader {
	double start, settled; /* moments */
	double now, bytes, settled_bytes;
	double rate;
};

struct reading {
	const char *const *paths;
	size_t count;
	double all; /* bytes of all files */
	size_t streams;
	struct reader *of;
};

static double disk_clock_s(void) {
	return 1e-9 * (double)lk_monotonic_ns();
}

static bool should_read_on(const struct reader *reader) {
	double took = reader->now - reader->start;
	return took < SETTLING_S || (took < LONGEST_S && reader->bytes < ENOUGH_BYTES);
}

static double regular_file_bytes(const char *path) {
	struct stat info;
	return stat(path, &info) == 0 && S_ISREG(info.st_mode) ? (double)info.st_size : 0;
}

/* Read without read-ahead, which would still be in progress when the files are evicted again. */
static void read_file_part(struct reader *reader, const char *path, double from, double to,
                           char *room) {
	LK_ASSERT(from >= 0 && from <= to);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0) return;
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	for (off_t at = (off_t)from; (double)at < to && should_read_on(reader);) {
		ssize_t got = pread(fd, room, CHUNK, at);
		if (got <= 0) break;
		at += got;
		reader->now = disk_clock_s();
		reader->bytes += (double)got;
		if (reader->settled <= 0 && reader->now - reader->start >= SETTLING_S) {
			reader->settled = reader->now;
			reader->settled_bytes = reader->bytes;
		}
	}
	close(fd);
}

/* Stream i of n reads the i-th n-th of all bytes. */
static lk_status read_one_stream(void *context, size_t job, lk_error *err) {
	struct reading *all = context;
	struct reader *reader = &all->of[job];
	char *room = malloc(CHUNK);
	double from = all->all * (double)job / (double)all->streams,
		   to = from + all->all / (double)all->streams, begin = 0;
	if (!room) return lk_oom(err);
	reader->start = reader->now = disk_clock_s();
	for (size_t i = 0; i < all->count && begin < to && should_read_on(reader); i++) {
		double bytes = regular_file_bytes(all->paths[i]), end = begin + bytes;
		if (bytes > 0 && end > from)
			read_file_part(reader, all->paths[i], floor(fmax(0, from - begin)),
			               fmin(bytes, to - begin), room);
		begin = end;
	}
	free(room);
	bool settled = reader->settled > 0 && reader->now > reader->settled;
	double took = settled ? reader->now - reader->settled : reader->now - reader->start;
	double counted = reader->bytes - (settled ? reader->settled_bytes : 0);
	reader->rate = took > 0 ? counted / took : 0;
	return LK_OK;
}

double lk_disk_rate(const char *const *paths, size_t count, int streams) {
	enum { MOST_STREAMS = 16 };
	struct reader of[MOST_STREAMS] = {0};
	struct reading all = {.paths = paths, .count = count, .of = of};
	lk_error ignored = {0};
	double rate = 0, bytes = 0;
	if (streams > MOST_STREAMS) streams = MOST_STREAMS;
	all.streams = streams < 1 ? 1 : (size_t)streams;
	for (size_t i = 0; i < count; i++) all.all += regular_file_bytes(paths[i]);
	if (all.all < LEAST_BYTES ||
	    lk_parallel(all.streams, (int)all.streams, read_one_stream, &all, &ignored) != LK_OK)
		return NAN;
	for (size_t i = 0; i < all.streams; i++) {
		rate += of[i].rate;
		bytes += of[i].bytes;
	}
	return bytes >= LEAST_BYTES / 2 && rate > 0 ? rate : NAN;
}

/* ---- fitting the model ---- */

static double mean_stored_bytes(const lk_disk_work *work) {
	double sum = 0;
	for (size_t i = 0; i < work->count; i++) sum += work->steps[i].stored;
	return work->count ? sum / (double)work->count : 0;
}

/* A lower bound of the time that the device works. */
static double disk_busy(const lk_disk_work *work) {
	double by_bytes = work->rate > 0 ? mean_stored_bytes(work) / work->rate : 0;
	double busy = fmax(by_bytes, fmax(work->waited, work->fetch));
	return fmax(0, fmin(busy, work->step));
}

/* A step: its length, the time that storage worked in it, and its waiting. */
struct worked {
	double seconds, device, fetch;
};

LK_ORDER_BY(compare_step_seconds, struct worked, seconds)

/* Storage work that does not fit into a step moves to the next one. Means are scaled to the known
 * ones. */
static bool spread_device_work(const lk_disk_work *work, double busy, struct worked *out) {
	double left = 0, device = 0, fetch = 0, n = (double)work->count;
	for (size_t i = 0; i < work->count; i++) {
		double asked = left + work->steps[i].stored / work->rate;
		out[i].seconds = work->steps[i].seconds;
		out[i].device = fmin(asked, out[i].seconds);
		left = asked - out[i].device;
		out[i].fetch = fmin(out[i].device, work->steps[i].waited);
		device += out[i].device / n;
		fetch += out[i].fetch / n;
	}
	if (device <= 0 || (fetch <= 0 && work->fetch > 0)) return false;
	for (size_t i = 0; i < work->count; i++) {
		out[i].device *= busy / device;
		if (fetch > 0) out[i].fetch *= work->fetch / fetch;
	}
	return true;
}

/* Kinds by length, with an equal share of all steps each: a step may be divided between two. */
static void sort_steps_into_kinds(lk_stalls_model *model, const struct worked *steps, size_t count,
                                  double busy) {
	LK_ASSERT(count > 0 && busy > 0);
	double share = (double)count / LK_STALLS_UNLIKE, all = 0;
	model->kinds = LK_STALLS_UNLIKE;
	model->hidden = 0;
	for (int k = 0; k < model->kinds; k++) {
		double from = k * share, to = from + share, device = 0, hidden = 0, rest = 0;
		for (size_t i = (size_t)from; i < count && (double)i < to; i++) {
			double part = (fmin(to, (double)i + 1) - fmax(from, (double)i)) / share;
			device += part * steps[i].device;
			hidden += part * fmax(0, steps[i].device - steps[i].fetch);
			rest += part * fmax(0, steps[i].seconds - steps[i].fetch);
		}
		model->of[k] = (struct lk_stalls_unlike){device / busy, hidden, rest};
		model->hidden += hidden / model->kinds;
		all += rest / model->kinds;
	}
	for (int k = 0; k < model->kinds; k++)
		model->of[k].rest = all > 0 ? model->of[k].rest / all : 1;
}

/* Fit the kinds of steps: reading much now and then profits less from faster storage than reading
 * evenly. */
static void fit_step_kinds(lk_stalls_model *model, const lk_disk_work *work, double busy) {
	if (!work->count || !(work->rate > 0) || busy <= 0) return;
	struct worked *steps = malloc(work->count * sizeof *steps);
	if (steps && spread_device_work(work, busy, steps)) {
		lk_sort(steps, work->count, sizeof *steps, compare_step_seconds);
		sort_steps_into_kinds(model, steps, work->count, busy);
	}
	free(steps);
}

/* With a loader of w workers a step is max(compute, device, (preparation + device - hidden) / w).
 * If fetching is a stall, that was measured: if the device is not known to work that long, the
 * workers wait for its requests. */
static double pipelined_device_busy(const lk_stalls_model *model, double busy,
                                    const lk_disk_work *work) {
	if (!work->stalls || fmax(busy, (model->preparation + busy) / model->workers) >= work->step)
		return busy;
	return fmax(busy, fmin(work->step, model->workers * work->step - model->preparation));
}

void lk_stalls_fit_disk(lk_stalls_model *model, const lk_disk_work *work) {
	double busy = disk_busy(work);
	if (model->pipelined) {
		busy = pipelined_device_busy(model, busy, work);
		model->hidden = fmin(model->preparation,
		                     fmax(0, model->preparation + busy - model->workers * work->step));
	} else {
		model->hidden = fmax(0, busy - work->fetch);
		fit_step_kinds(model, work, busy);
	}
	model->disk = model->bytes > 0 && busy > 0 ? model->bytes / busy : INFINITY;
}
