/* recording.c: the writer of recordings. Used within other people's programs: only libc, no
 * allocation, no lock, and system calls that a preload library does not see. */
#include "io/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older kernels refuse it, which is harmless */
#endif

enum { TRIES = 100, FAILURES = 16 };

int64_t lk_monotonic_ns(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- the file ---- */

static int raw_open(const char *path, int flags) {
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void raw_close(int fd) {
	syscall(SYS_close, fd);
}

/* Reserve disk pages for a range used only by the caller. If the file system cannot reserve, write
 * zeros. */
static bool reserve(int fd, uint64_t from, uint64_t size) {
	static const char zeros[4096];
	if (syscall(SYS_fallocate, fd, 0, (off_t)from, (off_t)size) == 0) return true;
	if (errno != EOPNOTSUPP && errno != ENOSYS) return false;
	for (uint64_t done = 0; done < size; done += sizeof zeros)
		if (syscall(SYS_pwrite64, fd, zeros, sizeof zeros, (off_t)(from + done)) != sizeof zeros)
			return false;
	return true;
}

/* Check that it is this recorder's file, and no other that now has its name. */
static bool recording_grow(const lk_recorder *recorder, uint64_t from, uint64_t size) {
	struct stat info;
	int fd = raw_open(recorder->path, O_RDWR), code = errno;
	if (fd < 0) return errno = code, false;
	bool good = fstat(fd, &info) == 0 && (uint64_t)info.st_dev == recorder->device &&
	            (uint64_t)info.st_ino == recorder->inode && reserve(fd, from, size);
	raw_close(fd);
	return good;
}

/* Above the limit of file sizes a signal would end the program. */
static uint64_t within_limits(uint64_t bytes) {
	struct rlimit most;
	if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
	    bytes > most.rlim_cur)
		bytes = most.rlim_cur;
	return bytes;
}

static void fill_head(lk_recording_head *head, uint64_t limit, const char *host) {
	struct timespec now;
	head->version = LK_RECORDING_VERSION;
	head->header_bytes = LK_HEADER_BYTES;
	head->block_bytes = LK_BLOCK_BYTES;
	head->record_bytes = LK_RECORD_BYTES;
	head->pid = (uint32_t)getpid();
	head->parent = (uint32_t)getppid();
	clock_gettime(CLOCK_REALTIME, &now);
	head->monotonic_ns = lk_monotonic_ns();
	head->realtime_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	head->limit_bytes = limit;
	head->rank = -1;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	head->cores = cores > 0 ? (uint32_t)cores : 0;
	snprintf(head->host, sizeof head->host, "%s", host);
	snprintf(head->program, sizeof head->program, "%s", program_invocation_short_name);
	memcpy(head->magic, LK_RECORDING_MAGIC, sizeof head->magic);
}

/* "FOLDER/NAME" of "FOLDER/.NAME" */
static void name_shown(lk_recorder *recorder) {
	size_t folder = (size_t)(strrchr(recorder->path, '/') + 1 - recorder->path);
	memcpy(recorder->shown, recorder->path, folder);
	strcpy(recorder->shown + folder, recorder->path + folder + 1);
}

/* Created under a hidden name, which readers ignore, until it is a recording: a process killed
 * meanwhile leaves none. */
static int recording_create(lk_recorder *recorder, const char *folder, const char *host,
                            uint32_t root) {
	char forked[32] = "";
	if (root) snprintf(forked, sizeof forked, LK_RECORDING_FORKED "%u", root);
	for (int i = 0; i < TRIES; i++) {
		int length =
			snprintf(recorder->path, sizeof recorder->path, "%s/.%.63s-%d-%d%s" LK_RECORDING_ENDING,
		             folder, host, (int)getpid(), i, forked);
		if (length >= (int)sizeof recorder->path) return errno = ENAMETOOLONG, -1;
		name_shown(recorder);
		if (syscall(SYS_faccessat, AT_FDCWD, recorder->shown, F_OK) == 0)
			continue; /* left by this process before exec */
		int fd = raw_open(recorder->path, O_RDWR | O_CREAT | O_EXCL);
		if (fd >= 0 || errno != EEXIST) return fd;
	}
	return -1;
}

/* Give it its name, which must not exist yet. */
static int recording_show(lk_recorder *recorder) {
	const char *shown = recorder->shown;
	long done = syscall(SYS_linkat, AT_FDCWD, recorder->path, AT_FDCWD, shown, 0);
	if (done != 0 && errno != EEXIST) /* for a file system without links */
		return syscall(SYS_renameat2, AT_FDCWD, recorder->path, AT_FDCWD, shown, 0) == 0
		           ? (strcpy(recorder->path, shown), 0)
		           : errno;
	if (done != 0) return errno;
	syscall(SYS_unlinkat, AT_FDCWD, recorder->path, 0);
	strcpy(recorder->path, shown);
	return 0;
}

static int recording_map_file(lk_recorder *recorder, int fd, const char *host) {
	struct stat info;
	if (fstat(fd, &info) != 0 || !reserve(fd, 0, LK_HEADER_BYTES)) return errno ? errno : EIO;
	recorder->device = (uint64_t)info.st_dev;
	recorder->inode = (uint64_t)info.st_ino;
	recorder->map =
		mmap(NULL, recorder->limit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (recorder->map == MAP_FAILED) return errno;
	recorder->head = (lk_recording_head *)(void *)recorder->map;
	fill_head(recorder->head, recorder->limit, host);
	return 0;
}

int lk_recorder_open(lk_recorder *recorder, const char *folder, uint64_t limit_bytes,
                     uint32_t root) {
	char host[64] = "host";
	memset(recorder, 0, sizeof *recorder);
	gethostname(host, sizeof host - 1);
	for (char *at = host; *at; at++)
		if (*at == '/') *at = '_';
	uint64_t limit = within_limits(limit_bytes);
	if (limit < LK_HEADER_BYTES + LK_BLOCK_BYTES) return EFBIG;
	recorder->limit = limit - (limit - LK_HEADER_BYTES) % LK_BLOCK_BYTES;
	int fd = recording_create(recorder, folder, host, root);
	if (fd < 0) return errno;
	int code = recording_map_file(recorder, fd, host);
	raw_close(fd);
	if (!code) {
		recorder->head->root = root;
		if (limit < limit_bytes) recorder->head->growth_errno = EFBIG;
		code = recording_show(recorder);
	}
	if (code) recorder->head = NULL;
	return code;
}

void lk_recorder_close(lk_recorder *recorder) {
	if (recorder->head) munmap(recorder->map, recorder->limit);
	recorder->head = NULL;
}

/* ---- records ---- */

static lk_record_block *block_at(const lk_recorder *recorder, uint32_t number) {
	return (lk_record_block *)(void *)(recorder->map + LK_HEADER_BYTES +
	                                   (uint64_t)number * LK_BLOCK_BYTES);
}

/* The first free place. */
static uint32_t recording_used(const lk_record_block *block) {
	uint32_t at = 0;
	while (at < LK_BLOCK_RECORDS && block->record[at].kind != LK_RECORD_NONE) at++;
	return at;
}

static bool take_spare(lk_recorder *recorder, lk_record_place *place) {
	for (int i = 0; i < LK_SPARE_BLOCKS; i++) {
		if (__atomic_load_n(&recorder->spare[i], __ATOMIC_RELAXED) == 0) continue;
		uint32_t number = __atomic_exchange_n(&recorder->spare[i], 0, __ATOMIC_ACQ_REL);
		if (number == 0) continue;
		place->block = block_at(recorder, number - 1);
		place->at = recording_used(place->block);
		return place->at < LK_BLOCK_RECORDS;
	}
	return false;
}

static bool new_block(lk_recorder *recorder, lk_record_place *place) {
	uint64_t most = (recorder->limit - LK_HEADER_BYTES) / LK_BLOCK_BYTES;
	if (__atomic_load_n(&recorder->head->blocks, __ATOMIC_RELAXED) >= most) return false;
	if (__atomic_load_n(&recorder->failures, __ATOMIC_RELAXED) >= FAILURES) return false;
	uint32_t number = __atomic_fetch_add(&recorder->head->blocks, 1, __ATOMIC_RELAXED);
	if (number >= most) return false;
	int code = errno;
	errno = 0;
	bool good = recording_grow(recorder, LK_HEADER_BYTES + (uint64_t)number * LK_BLOCK_BYTES,
	                           LK_BLOCK_BYTES);
	uint32_t none = 0, why = (uint32_t)(errno ? errno : EIO);
	if (!good)
		__atomic_compare_exchange_n(&recorder->head->growth_errno, &none, why, false,
		                            __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	place->block = block_at(recorder, number);
	/* Populate all pages at once: single faults, when records reach them, would take longer than
	 * the records. */
	if (good) madvise(place->block, LK_BLOCK_BYTES, MADV_POPULATE_WRITE);
	errno = code;
	if (!good) {
		place->block = NULL;
		return __atomic_fetch_add(&recorder->failures, 1, __ATOMIC_RELAXED), false;
	}
	place->block->number = number;
	place->at = 0;
	__atomic_store_n(&place->block->magic, LK_BLOCK_MAGIC, __ATOMIC_RELEASE);
	return true;
}

/* Make room for `count` consecutive records. */
static bool recording_make_room(lk_recorder *recorder, lk_record_place *place, uint32_t count) {
	if (place->block && place->at + count <= LK_BLOCK_RECORDS) return true;
	if (place->block) place->at = LK_BLOCK_RECORDS;
	if (take_spare(recorder, place) && place->at + count <= LK_BLOCK_RECORDS) return true;
	if (new_block(recorder, place)) return true;
	__atomic_fetch_add(&recorder->head->dropped, 1, __ATOMIC_RELAXED);
	return false;
}

lk_record_entry *lk_recorder_next(lk_recorder *recorder, lk_record_place *place) {
	if (!recording_make_room(recorder, place, 1)) return NULL;
	lk_record_entry *record = &place->block->record[place->at];
	record->thread = place->thread;
	return record;
}

void lk_recorder_publish(lk_recorder *recorder, lk_record_place *place, lk_record_entry *record,
                         lk_record_kind kind) {
	(void)recorder;
	__atomic_store_n(&record->kind, (uint16_t)kind, __ATOMIC_RELEASE);
	place->at++;
}

void lk_recorder_text(lk_recorder *recorder, lk_record_place *place, const lk_record_entry *record,
                      lk_record_kind kind, const char *text, size_t length) {
	if (length > LK_TEXT_MOST) length = LK_TEXT_MOST;
	uint32_t pieces = (uint32_t)((length + LK_TEXT_PIECE - 1) / LK_TEXT_PIECE);
	if (!recording_make_room(recorder, place, 1 + pieces)) return;
	lk_record_entry *head = &place->block->record[place->at];
	for (uint32_t i = 0; i < pieces; i++) {
		lk_record_text *piece = (lk_record_text *)(void *)(head + 1 + i);
		size_t from = (size_t)i * LK_TEXT_PIECE,
			   size = length - from < LK_TEXT_PIECE ? length - from : LK_TEXT_PIECE;
		memcpy(piece->text, text + from, size);
		piece->kind = LK_RECORD_TEXT;
	}
	memcpy((char *)head + sizeof head->kind, (const char *)record + sizeof head->kind,
	       sizeof *head - sizeof head->kind);
	head->thread = place->thread;
	lk_recorder_publish(recorder, place, head, kind);
	place->at += pieces;
}

void lk_recorder_leave(lk_recorder *recorder, lk_record_place *place) {
	if (recorder->head && place->block && place->at < LK_BLOCK_RECORDS) {
		uint32_t number = place->block->number + 1;
		for (int i = 0; i < LK_SPARE_BLOCKS; i++) {
			uint32_t empty = 0;
			if (__atomic_compare_exchange_n(&recorder->spare[i], &empty, number, false,
			                                __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
				break;
		}
	}
	place->block = NULL;
}
