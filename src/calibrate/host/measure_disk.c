/* measure_disk.c: reads of a file: one after the other in large blocks, and of 4 KiB at random places.
 *
 * The file is read with O_DIRECT, past the page cache; where a file system does not do that, the system is asked to
 * forget the file first. Without a file of the user's a temporary one is written that loses its name at once: nothing
 * is left behind, whatever happens.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/stats.h"
#include "base/units.h"
#include "calibrate/host/meter.h"

enum { LARGE = 1 << 20, SMALL = 4096, BATCH = 16 };

struct disk {
	int fd;
	char *block;            /* LARGE bytes, aligned */
	off_t size;
	bool direct;
	uint64_t draws;
	off_t at;
};

/* ---- reading ---- */

static double time_large(void *context) {
	struct disk *d = context;
	off_t batch = (off_t)BATCH * LARGE;
	if (d->at + batch > d->size) d->at = 0;
	if (d->at == 0 && !d->direct) posix_fadvise(d->fd, 0, 0, POSIX_FADV_DONTNEED);
	double start = lk_now();
	for (int i = 0; i < BATCH; i++, d->at += LARGE)
		if (pread(d->fd, d->block, LARGE, d->at) != LARGE) return NAN;
	return lk_now() - start;
}

static double time_small(void *context) {
	struct disk *d = context;
	if (!d->direct) posix_fadvise(d->fd, 0, 0, POSIX_FADV_DONTNEED);
	double start = lk_now();
	for (int i = 0; i < BATCH; i++) {
		off_t place = (off_t)(lk_uniform(7, d->draws++) * (double)(d->size / SMALL)) * SMALL;
		if (pread(d->fd, d->block, SMALL, place) != SMALL) return NAN;
	}
	return lk_now() - start;
}

static lk_status read_all(lk_meter *m, struct disk *d, double seconds) {
	lk_sample large = lk_repeat(time_large, d, seconds / 2, 3);
	lk_sample small = lk_repeat(time_small, d, seconds / 2, 3);
	LK_TRY(lk_meter_rate(m, "disk", "reads one after the other, 1 MiB each", "GB/s", (double)BATCH * LARGE, 1e9, &large));
	LK_TRY(lk_meter_time(m, "disk", "read of 4 KiB at a random place", "us", BATCH, 1e-6, &small));
	if (d->direct) return LK_OK;
	return lk_meter_note(m, "disk: the file system has no direct reads; the page cache may have answered some");
}

/* ---- the file ---- */

/* An eighth of what is free, 256 MiB at most, whole batches. */
static off_t temporary_size(int fd, double seconds) {
	struct statvfs room;
	double most = seconds < 0.5 ? 16 * LK_MIB : 256 * LK_MIB;
	if (fstatvfs(fd, &room) == 0) most = fmin(most, (double)room.f_bavail * (double)room.f_frsize / 8);
	return (off_t)floor(most / ((double)BATCH * LARGE)) * BATCH * LARGE;
}

/* What cannot be compressed: some file systems would store nothing. */
static bool fill(struct disk *d) {
	uint64_t *words = (uint64_t *)(void *)d->block;
	for (off_t at = 0; at < d->size; at += LARGE) {
		for (size_t i = 0; i < LARGE / sizeof *words; i++) words[i] = lk_hash64((uint64_t)at + i);
		if (pwrite(d->fd, d->block, LARGE, at) != LARGE) return false;
	}
	return fsync(d->fd) == 0;
}

/* The same file once more, past the page cache; it may have lost its name. */
static void open_direct(struct disk *d) {
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", d->fd);
	int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (fd < 0) return;
	d->direct = pread(fd, d->block, SMALL, 0) == SMALL;
	if (!d->direct) {
		close(fd);
		return;
	}
	close(d->fd);
	d->fd = fd;
}

static lk_status use_temporary(lk_meter *m, struct disk *d, const char *folder, double seconds) {
	char path[4096];
	if (snprintf(path, sizeof path, "%s/lockstep-disk-XXXXXX", folder) >= (int)sizeof path)
		return lk_fail(m->err, LK_ERR_INPUT, "--disk", "the name of the folder is too long");
	d->fd = mkostemp(path, O_CLOEXEC);
	if (d->fd < 0 && m->options->disk)
		return lk_fail(m->err, LK_ERR_IO, "--disk", "no file can be written there: %s", strerror(errno));
	if (d->fd < 0) return lk_meter_note(m, "disk: not measured, no temporary file could be written (--disk FOLDER)");
	unlink(path);
	d->size = temporary_size(d->fd, seconds);
	if (d->size > 0 && fill(d)) open_direct(d);
	else return lk_meter_note(m, "disk: not measured, too little room for a temporary file (--disk FOLDER)");
	return read_all(m, d, seconds * 0.7);
}

static lk_status use_file(lk_meter *m, struct disk *d, const char *path, double seconds) {
	struct stat found;
	if (stat(path, &found) == 0 && S_ISDIR(found.st_mode)) return use_temporary(m, d, path, seconds);
	d->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (d->fd < 0) return lk_fail(m->err, LK_ERR_IO, "--disk", "cannot read: %s", strerror(errno));
	if (fstat(d->fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size < (off_t)BATCH * LARGE) {
		lk_fail(m->err, LK_ERR_INPUT, "--disk", "this is no file of 16 MiB or more");
		return lk_hint(m->err, "give a large file, or a folder for a temporary one");
	}
	d->size = found.st_size;
	open_direct(d);
	return read_all(m, d, seconds);
}

lk_status lk_measure_disk(lk_meter *m, double seconds) {
	lk_meter_say(m, "disk");
	const char *usual = getenv("TMPDIR");
	struct disk d = {.fd = -1, .block = lk_pages(LARGE)};
	if (!d.block) return lk_oom(m->err);
	lk_status status = m->options->disk ? use_file(m, &d, m->options->disk, seconds)
	                                    : use_temporary(m, &d, usual && *usual ? usual : "/tmp", seconds);
	if (d.fd >= 0) close(d.fd);
	munmap(d.block, LARGE);
	return status;
}
