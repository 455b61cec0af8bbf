/* measure_memory.c: bandwidth of memory and of the caches.
 *
 * Memory: McCalpin's triad a = b + s c on all cores and on one, with arrays beyond the last cache
 * if memory allows, a sixteenth per repetition in turn; bytes are counted as in STREAM (three
 * arrays, no write-allocate). Caches: each core repeatedly reads a working set of its own; with
 * growing size the rate falls where a level ends. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "system/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "calibrate/host/meter.h"

/* ---- triad ---- */

struct stream {
	lk_team *team; /* NULL: one core */
	double *a, *b, *c;
	size_t count;    /* of each array */
	size_t at, step; /* a repetition processes `step` numbers, the next one those after them,
	                    cyclically */
	bool copy;
};

enum { STEPS = 16 };

static void triad(double *restrict a, const double *restrict b, const double *restrict c,
                  size_t count) {
	for (size_t i = 0; i < count; i++) a[i] = b[i] + 3.0 * c[i];
}

static void stream_part(void *context, int thread, int threads) {
	const struct stream *stream = context;
	size_t part = stream->step / (size_t)threads, from = stream->at + part * (size_t)thread;
	if (thread == threads - 1) part = stream->at + stream->step - from;
	if (stream->copy) memcpy(stream->a + from, stream->b + from, part * sizeof *stream->a);
	else triad(stream->a + from, stream->b + from, stream->c + from, part);
}

static double time_stream(void *context) {
	struct stream *stream = context;
	double start = lk_clock_s();
	if (stream->team) lk_team_run(stream->team, stream_part, stream);
	else stream_part(stream, 0, 1);
	double taken = lk_clock_s() - start;
	stream->at = stream->at + 2 * stream->step <= stream->count ? stream->at + stream->step : 0;
	return taken;
}

/* Each core first touches what it will stream, so that the pages are in its own node's memory. */
static void touch_part(void *context, int thread, int threads) {
	const struct stream *stream = context;
	size_t part = stream->step / (size_t)threads, from = stream->at + part * (size_t)thread;
	if (thread == threads - 1) part = stream->at + stream->step - from;
	for (size_t i = from; i < from + part; i++) {
		stream->a[i] = 0;
		stream->b[i] = 1;
		stream->c[i] = (double)i;
	}
}

static void memory_touch(struct stream *stream) {
	for (stream->at = 0; stream->at + stream->step <= stream->count; stream->at += stream->step)
		lk_team_run(stream->team, touch_part, stream);
	stream->at = 0;
}

static lk_status measure_streams(lk_meter *meter, struct stream *stream, double seconds) {
	double bytes = (double)stream->step * sizeof(double); /* of an array, in a repetition */
	lk_device *device = &meter->host->device;
	memory_touch(stream);
	lk_sample all = lk_repeat(time_stream, stream, seconds * 0.5, STEPS);
	device->stream_rate = device->memory_rate = 3 * bytes / all.low;
	LK_TRY(lk_meter_rate(meter, "memory", "triad, all cores", "GB/s", 3 * bytes, 1e9, &all));
	stream->copy = true;
	lk_sample copy = lk_repeat(time_stream, stream, seconds * 0.25, STEPS);
	LK_TRY(lk_meter_rate(meter, "memory", "copy (read + written), all cores", "GB/s", 2 * bytes,
	                     1e9, &copy));
	stream->copy = false;
	stream->team = NULL;
	lk_sample one = lk_repeat(time_stream, stream, seconds * 0.25, 3);
	return lk_meter_rate(meter, "memory", "triad, one core", "GB/s", 3 * bytes, 1e9, &one);
}

/* Bytes of one of three arrays: together four times the last cache, within an eighth of the memory
 * and 2 GiB. */
static double array_bytes(const lk_meter *meter, double seconds) {
	const lk_device *device = &meter->host->device;
	double together = fmax(4 * device->l2_bytes, 192 * LK_MIB);
	together = fmin(together, fmin(device->memory_bytes / 8, 2 * LK_GIB));
	if (seconds < 0.3) together = fmin(together, 48 * LK_MIB);
	return floor(fmax(together, 3 * LK_MIB) / 3 / 4096) * 4096;
}

static lk_status measure_main(lk_meter *meter, double seconds) {
	double bytes = array_bytes(meter, seconds);
	size_t room = 3 * (size_t)bytes;
	char *pages = lk_pages(room);
	if (!pages) return lk_oom(meter->err);
	struct stream s = {.team = meter->team, .count = (size_t)bytes / sizeof(double)};
	s.step = s.count / STEPS;
	s.a = (double *)(void *)pages;
	s.b = (double *)(void *)(pages + (size_t)bytes);
	s.c = (double *)(void *)(pages + 2 * (size_t)bytes);
	lk_status status = measure_streams(meter, &s, seconds);
	munmap(pages, room);
	if (status != LK_OK || 3 * bytes >= 2 * meter->host->device.l2_bytes) return status;
	char arrays[32], cache[32];
	return lk_meter_note(meter,
	                     "memory was measured with %s and a last-level cache of %s: part of it may "
	                     "come from the cache",
	                     lk_format_bytes(3 * bytes, arrays, sizeof arrays),
	                     lk_format_bytes(meter->host->device.l2_bytes, cache, sizeof cache));
}

/* ---- caches ---- */

struct sweep {
	lk_team *team;
	const lk_kernels *kernels;
	char *pages;
	size_t stride, set; /* bytes from core to core; of a working set */
	int rounds;
	uint64_t sink[1024];
};

static void memory_read_set(void *context, int thread, int threads) {
	struct sweep *sweep = context;
	const uint64_t *from =
		(const uint64_t *)(const void *)(sweep->pages + (size_t)thread * sweep->stride);
	(void)threads;
	uint64_t sum = 0;
	for (int i = 0; i < sweep->rounds; i++)
		sum += sweep->kernels->read(from, sweep->set / sizeof *from);
	sweep->sink[thread % 1024] = sum;
}

static double time_read(void *context) {
	struct sweep *sweep = context;
	double start = lk_clock_s();
	lk_team_run(sweep->team, memory_read_set, sweep);
	return lk_clock_s() - start;
}

static void touch_set(void *context, int thread, int threads) {
	const struct sweep *sweep = context;
	(void)threads;
	memset(sweep->pages + (size_t)thread * sweep->stride, 1, sweep->stride);
}

/* A repetition is long compared with the start of the team: it reads at least 64 MiB. */
static lk_status measure_sets(lk_meter *meter, struct sweep *sweep, size_t largest,
                              double seconds) {
	const size_t smallest = 16 << 10;
	int sizes = 0;
	for (size_t set = smallest; set <= largest; set *= 2) sizes++;
	for (sweep->set = smallest; sweep->set <= largest; sweep->set *= 2) {
		size_t least = seconds < 1 ? 4 << 20 : 64 << 20;
		sweep->rounds = sweep->set < least ? (int)(least / sweep->set) : 1;
		lk_sample taken = lk_repeat(time_read, sweep, seconds / sizes, 3);
		double bytes = (double)sweep->set * sweep->rounds * lk_team_size(meter->team);
		char size[32], name[64];
		snprintf(name, sizeof name, "read, %s a core",
		         lk_format_bytes((double)sweep->set, size, sizeof size));
		LK_TRY(lk_meter_rate(meter, "cache", name, "GB/s", bytes, 1e9, &taken));
	}
	return LK_OK;
}

static lk_status measure_caches(lk_meter *meter, double seconds) {
	size_t largest = seconds < 0.5 ? 1 << 20 : 64 << 20;
	int cores = lk_team_size(meter->team);
	while (largest > 1 << 20 && (double)largest * cores > meter->host->device.memory_bytes / 8)
		largest /= 2;
	struct sweep s = {.team = meter->team, .kernels = lk_kernels_best(), .stride = largest};
	s.pages = lk_pages(largest * (size_t)cores);
	if (!s.pages) return lk_oom(meter->err);
	lk_team_run(meter->team, touch_set, &s);
	lk_status status = measure_sets(meter, &s, largest, seconds);
	munmap(s.pages, largest * (size_t)cores);
	return status;
}

lk_status lk_measure_memory(lk_meter *meter, double seconds) {
	lk_meter_say(meter, "memory");
	LK_TRY(measure_main(meter, seconds * 0.6));
	lk_meter_say(meter, "caches");
	return measure_caches(meter, seconds * 0.4);
}
