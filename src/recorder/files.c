/* files.c: which file a descriptor is. Descriptors that are not known are asked of the system at
 * their first use, so that those of before arming, inherited and duplicated ones need no care; what
 * closes or replaces one makes it unknown. */
#include "recorder/overlay/overlay.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	DESCRIPTORS = 1 << 16,
	FILES = 1 << 13,
	NO_FILE = 1
};
#define MOVED (UINT32_C(1) << 31)

/* 0 not known, NO_FILE, or NO_FILE + a file's number or, with LP_SOCKET, a peer's; and whether
 * lseek has been there. */
static uint32_t of_descriptor[DESCRIPTORS];
/* By device and inode: open addressing, filled by compare and exchange. A slot's `number` is stored
 * last. */
static struct known {
	uint64_t device, inode;
	uint32_t taken, number;
} known[FILES];
static uint32_t files;

void lp_files_reset(void) {
	memset(of_descriptor, 0, sizeof of_descriptor);
	memset(known, 0, sizeof known);
	files = 0;
}

void lp_file_forget(int fd) {
	if (lp_state.on && fd >= 0 && fd < DESCRIPTORS)
		__atomic_store_n(&of_descriptor[fd], 0, __ATOMIC_RELAXED);
}

void lp_file_forget_range(unsigned first, unsigned last) {
	for (unsigned fd = first; lp_state.on && fd <= last && fd < DESCRIPTORS; fd++)
		lp_file_forget((int)fd);
}

void lp_file_moved(int fd) {
	if (!lp_state.on || fd < 0 || fd >= DESCRIPTORS) return;
	if (__atomic_load_n(&of_descriptor[fd], __ATOMIC_RELAXED) > NO_FILE)
		__atomic_fetch_or(&of_descriptor[fd], MOVED, __ATOMIC_RELAXED);
}

static void tell_file(int fd, uint32_t number, const struct stat *info) {
	char link[40], path[PATH_MAX];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t length = readlink(link, path, sizeof path - 1);
	path[length > 0 ? length : 0] = '\0';
	lp_guard_show(path);
	lk_record_entry record = {
		.object = number, .start_ns = lp_now(), .bytes = (int64_t)info->st_size};
	lp_text(&record, LK_RECORD_FILE, path);
}

/* The number of a file; one that finds no room in the table gets a new number each time. */
static uint32_t number_of(int fd, const struct stat *info) {
	uint64_t device = (uint64_t)info->st_dev, inode = (uint64_t)info->st_ino;
	uint32_t number;
	for (uint32_t i = 0, at = (uint32_t)((inode * UINT64_C(0x9e3779b97f4a7c15)) >> 40); i < FILES;
	     i++, at++) {
		struct known *k = &known[at % FILES];
		uint32_t free = 0;
		if (__atomic_compare_exchange_n(&k->taken, &free, 1, false, __ATOMIC_ACQ_REL,
		                                __ATOMIC_RELAXED)) {
			number = __atomic_add_fetch(&files, 1, __ATOMIC_RELAXED);
			k->device = device, k->inode = inode;
			tell_file(fd, number, info);
			__atomic_store_n(&k->number, number, __ATOMIC_RELEASE);
			return number;
		}
		number = __atomic_load_n(&k->number, __ATOMIC_ACQUIRE);
		if (number && k->device == device && k->inode == inode) return number;
	}
	number = __atomic_add_fetch(&files, 1, __ATOMIC_RELAXED);
	tell_file(fd, number, info);
	return number;
}

static uint32_t resolve(int fd) {
	struct stat info = {0};
	int code = errno;
	uint32_t entry = NO_FILE, peer;
	if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) entry = NO_FILE + number_of(fd, &info);
	else if ((peer = lp_new_peer(fd, &info)) != 0) entry = LP_SOCKET | (NO_FILE + peer);
	errno = code;
	return entry;
}

uint32_t lp_file(int fd, bool *moved) {
	uint32_t target = lp_target(fd, moved);
	return target & LP_SOCKET ? 0 : target;
}

uint32_t lp_target(int fd, bool *moved) {
	*moved = false;
	if (fd < 0) return 0;
	if (fd >= DESCRIPTORS) return resolve(fd) - NO_FILE;
	uint32_t entry = __atomic_load_n(&of_descriptor[fd], __ATOMIC_RELAXED);
	if (entry == 0) __atomic_store_n(&of_descriptor[fd], entry = resolve(fd), __ATOMIC_RELAXED);
	if (entry & MOVED) {
		*moved = true;
		__atomic_store_n(&of_descriptor[fd], entry &= ~MOVED, __ATOMIC_RELAXED);
	}
	return entry - NO_FILE;
}

/* ---- records ---- */

/* Calls that follow one another so closely are told as one: a file that is read in small pieces
 * would fill the recording. */
enum {
	CLOSE_NS = 20000
};

static bool add_to_last(lk_record_kind kind, uint32_t file, int64_t start, int64_t end,
                        int64_t bytes, int64_t offset, bool moved) {
	lk_record_entry *last = lp_thread.last;
	if (!last || last->kind != kind || last->object != file || start - last->end_ns > CLOSE_NS)
		return false;
	if (last->io.count == UINT32_MAX) return false;
	last->io.sequential += offset < 0 ? !moved : last->io.offset == offset - bytes;
	last->io.offset = offset;
	last->io.busy_ns += end - start;
	last->io.count++;
	if (bytes > last->io.most) last->io.most = bytes;
	last->bytes += bytes;
	last->end_ns = end;
	return true;
}

/* The kernel counts what it reads for a thread, what it reads ahead and what a page has beside the
 * bytes that were asked for included. It is asked now and then, and what is new is recorded. */
enum {
	STORAGE_NS = 10000000,
	STORAGE_BLOCK = 512
};

static void tell_storage(int64_t now) {
	struct rusage use;
	int64_t since = now - lp_thread.storage_ns;
	if (LP_HOT(lp_thread.storage_ns && since >= 0 && since < STORAGE_NS)) return;
	lp_thread.storage_ns = now;
	if (getrusage(RUSAGE_THREAD, &use) != 0 || (uint64_t)use.ru_inblock == lp_thread.storage_blocks)
		return;
	lk_record_entry *record = lp_next();
	if (!record) return;
	lp_thread.storage_blocks = (uint64_t)use.ru_inblock;
	record->start_ns = record->end_ns = now;
	record->bytes = (int64_t)use.ru_inblock * STORAGE_BLOCK;
	lp_publish(record, LK_RECORD_STORAGE);
}

void lp_io(lk_record_kind kind, uint32_t file, int64_t start, int64_t end, int64_t bytes,
           int64_t offset, bool moved) {
	if (bytes < 0) bytes = 0;
	if (offset >= 0) offset += bytes;
	if (kind == LK_RECORD_READ) tell_storage(end);
	if (add_to_last(kind, file, start, end, bytes, offset, moved)) return;
	lk_record_entry *record = lp_next();
	if (!record) return;
	record->object = file;
	record->start_ns = start, record->end_ns = end;
	record->bytes = record->io.most = bytes;
	record->io.busy_ns = end - start;
	record->io.offset = offset;
	record->io.count = 1;
	record->io.sequential = offset < 0 && !moved;
	lp_publish(record, kind);
	lp_thread.last = record;
}

void lp_file_event(lk_record_kind kind, uint32_t file, int64_t start, int64_t end, int64_t bytes) {
	lk_record_entry *record = lp_next();
	if (!record) return;
	record->object = file;
	record->start_ns = start, record->end_ns = end;
	record->bytes = bytes;
	lp_publish(record, kind);
}
