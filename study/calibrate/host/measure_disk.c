/* measure_disk.c: reads of a file: sequential in large blocks, and of 4 KiB at random places.
 *
 * The file is read with O_DIRECT, past the page cache; on file systems without it, the system is
 * asked to drop the file from the cache first. Without a user's file a temporary one is written and
 * unlinked at once: nothing is left behind, whatever happens. */
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

#include "system/clock.h"
#include "base/stats.h"
#include "base/units.h"
#include "calibrate/host/meter.h"

enum { LARGE = 1 << 20, SMALL = 4096, BATCH = 16 };

struct disk {
	int fd;
	char *block; /* LARGE bytes, aligned */
	off_t size;
	bool direct;
	uint64_t draws;
	off_t at;
};

/* ---- reading ---- */

static double time_large(void *context) {
	struct disk *disk = context;
	off_t batch = (off_t)BATCH * LARGE;
	if (disk->at + batch > disk->size) disk->at = 0;
	if (disk->at == 0 && !disk->direct) posix_fadvise(disk->fd, 0, 0, POSIX_FADV_DONTNEED);
	double start = lk_clock_s();
	for (int i = 0; i < BATCH; i++, disk->at += LARGE)
		if (pread(disk->fd, disk->block, LARGE, disk->at) != LARGE) return NAN;
	return lk_clock_s() - start;
}

static double time_small(void *context) {
	struct disk *disk = context;
	if (!disk->direct) posix_fadvise(disk->fd, 0, 0, POSIX_FADV_DONTNEED);
	double start = lk_clock_s();
	for (int i = 0; i < BATCH; i++) {
		off_t place = (off_t)(lk_uniform(7, disk->draws++) * (double)(disk->size / SMALL)) * SMALL;
		if (pread(disk->fd, disk->block, SMALL, place) != SMALL) return NAN;
	}
	return lk_clock_s() - start;
}

static lk_status disk_read_all(lk_meter *meter, struct disk *disk, double seconds) {
	lk_sample large = lk_repeat(time_large, disk, seconds / 2, 3);
	lk_sample small = lk_repeat(time_small, disk, seconds / 2, 3);
	LK_TRY(lk_meter_rate(meter, "disk", "reads one after the other, 1 MiB each", "GB/s",
	                     (double)BATCH * LARGE, 1e9, &large));
	LK_TRY(lk_meter_time(meter, "disk", "random read of 4 KiB", "us", BATCH, 1e-6, &small));
	if (disk->direct) return LK_OK;
	return lk_meter_note(
		meter, "disk: the file system has no direct reads; the page cache may have answered some");
}

/* ---- the file ---- */

/* An eighth of the free space, at most 256 MiB, in whole batches. */
static off_t temporary_size(int fd, double seconds) {
	struct statvfs room;
	double most = seconds < 0.5 ? 16 * LK_MIB : 256 * LK_MIB;
	if (fstatvfs(fd, &room) == 0)
		most = fmin(most, (double)room.f_bavail * (double)room.f_frsize / 8);
	return (off_t)floor(most / ((double)BATCH * LARGE)) * BATCH * LARGE;
}

/* Fill with incompressible data: some file systems would store nothing otherwise. */
static bool disk_fill(struct disk *disk) {
	uint64_t *words = (uint64_t *)(void *)disk->block;
	for (off_t at = 0; at < disk->size; at += LARGE) {
		for (size_t i = 0; i < LARGE / sizeof *words; i++) words[i] = lk_hash64((uint64_t)at + i);
		if (pwrite(disk->fd, disk->block, LARGE, at) != LARGE) return false;
	}
	return fsync(disk->fd) == 0;
}

/* Open the same file again, past the page cache; it may be unlinked already. */
static void open_direct(struct disk *disk) {
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", disk->fd);
	int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (fd < 0) return;
	disk->direct = pread(fd, disk->block, SMALL, 0) == SMALL;
	if (!disk->direct) {
		close(fd);
		return;
	}
	close(disk->fd);
	disk->fd = fd;
}

static lk_status use_temporary(lk_meter *meter, struct disk *disk, const char *folder,
                               double seconds) {
	char path[4096];
	if (snprintf(path, sizeof path, "%s/lockstep-disk-XXXXXX", folder) >= (int)sizeof path)
		return lk_fail(meter->err, LK_ERR_INPUT, "--disk", "the name of the folder is too long");
	disk->fd = mkostemp(path, O_CLOEXEC);
	if (disk->fd < 0 && meter->options->disk)
		return lk_fail(meter->err, LK_ERR_IO, "--disk", "no file can be written there: %s",
		               strerror(errno));
	if (disk->fd < 0)
		return lk_meter_note(
			meter, "disk: not measured, no temporary file could be written (--disk FOLDER)");
	unlink(path);
	disk->size = temporary_size(disk->fd, seconds);
	if (disk->size > 0 && disk_fill(disk)) open_direct(disk);
	else
		return lk_meter_note(
			meter, "disk: not measured, too little room for a temporary file (--disk FOLDER)");
	return disk_read_all(meter, disk, seconds * 0.7);
}

static lk_status use_file(lk_meter *meter, struct disk *disk, const char *path, double seconds) {
	struct stat found;
	if (stat(path, &found) == 0 && S_ISDIR(found.st_mode))
		return use_temporary(meter, disk, path, seconds);
	disk->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (disk->fd < 0)
		return lk_fail(meter->err, LK_ERR_IO, "--disk", "cannot read: %s", strerror(errno));
	if (fstat(disk->fd, &found) != 0 || !S_ISREG(found.st_mode) ||
	    found.st_size < (off_t)BATCH * LARGE) {
		lk_fail(meter->err, LK_ERR_INPUT, "--disk", "this is not a file of 16 MiB or more");
		return lk_hint(meter->err, "give a large file, or a folder for a temporary one");
	}
	disk->size = found.st_size;
	open_direct(disk);
	return disk_read_all(meter, disk, seconds);
}

lk_status lk_measure_disk(lk_meter *meter, double seconds) {
	lk_meter_say(meter, "disk");
	const char *usual = getenv("TMPDIR");
	struct disk d = {.fd = -1, .block = lk_pages(LARGE)};
	if (!d.block) return lk_oom(meter->err);
	lk_status status = meter->options->disk
	                       ? use_file(meter, &d, meter->options->disk, seconds)
	                       : use_temporary(meter, &d, usual && *usual ? usual : "/tmp", seconds);
	if (d.fd >= 0) close(d.fd);
	munmap(d.block, LARGE);
	return status;
}
