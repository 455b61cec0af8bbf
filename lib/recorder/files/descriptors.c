/* descriptors.c: the file of a descriptor, by a table of descriptors and one of files. */
#include "recorder/files/files.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/overlay/overlay.h"

enum { DESCRIPTORS = 1 << 16, FILES = 1 << 13, NO_FILE = 1 };
#define MOVED (UINT32_C(1) << 31)

/* 0 unknown, NO_FILE, or NO_FILE + a file's number or, with LP_SOCKET, a peer's or an event's; and
 * whether lseek was called. */
static lp_age age;
static uint32_t of_descriptor[DESCRIPTORS];
/* By device and inode: open addressing, filled by compare and exchange. A slot's `number` is stored
 * last. */
static struct known {
	uint64_t device, inode;
	uint32_t taken, number;
} known[FILES];
static uint32_t files;

static void empty_tables(void) {
	memset(of_descriptor, 0, sizeof of_descriptor);
	memset(known, 0, sizeof known);
	files = 0;
	lp_renewed(&age);
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

static void record_file_name(int fd, uint32_t number, const struct stat *info) {
	LP_TAKE(lp_path, path, );
	lp_descriptor_path(fd, *path);
	lp_overlay_show_path(*path);
	lp_slow_see(number, *path);
	lk_record_entry record = {
		.object = number, .bytes = (int64_t)info->st_size, .file.mount = lp_mount_of(fd)};
	record.start_ns = record.end_ns = lp_now();
	lp_text(&record, LK_RECORD_FILE, *path);
}

/* The number of a file; if the table is full, a new number each time. */
static uint32_t number_of_file(int fd, const struct stat *info) {
	uint64_t device = (uint64_t)info->st_dev, inode = (uint64_t)info->st_ino;
	uint32_t number;
	for (uint32_t i = 0, at = (uint32_t)((inode * UINT64_C(0x9e3779b97f4a7c15)) >> 40); i < FILES;
	     i++, at++) {
		struct known *slot = &known[at % FILES];
		uint32_t free = 0;
		if (__atomic_compare_exchange_n(&slot->taken, &free, 1, false, __ATOMIC_ACQ_REL,
		                                __ATOMIC_RELAXED)) {
			number = __atomic_add_fetch(&files, 1, __ATOMIC_RELAXED);
			slot->device = device;
			slot->inode = inode;
			record_file_name(fd, number, info);
			__atomic_store_n(&slot->number, number, __ATOMIC_RELEASE);
			return number;
		}
		number = __atomic_load_n(&slot->number, __ATOMIC_ACQUIRE);
		if (number && slot->device == device && slot->inode == inode) return number;
	}
	number = __atomic_add_fetch(&files, 1, __ATOMIC_RELAXED);
	record_file_name(fd, number, info);
	return number;
}

/* The C library's fstat passes an empty path to newfstatat, which is slower; on 64-bit machines
 * SYS_fstat fills struct stat. */
static int read_inode(int fd, struct stat *info) {
#ifdef SYS_fstat
	return sizeof(long) == 8 ? (int)syscall(SYS_fstat, fd, info) : fstat(fd, info);
#else
	return fstat(fd, info);
#endif
}

/* Events have no type. Sockets of a process with MPI may be the library's. */
static bool may_be_waited_for(const struct stat *info) {
	bool library = lp_state.recorder.head->seen & LK_RECORDED_MPI;
	return !(info->st_mode & S_IFMT) || (S_ISSOCK(info->st_mode) && !library);
}

static uint32_t resolve_descriptor(int fd) {
	struct stat info = {0};
	int code = errno;
	uint32_t entry = NO_FILE, peer;
	bool open = read_inode(fd, &info) == 0;
	if (open && S_ISREG(info.st_mode)) entry = NO_FILE + number_of_file(fd, &info);
	else if ((peer = lp_new_peer(fd, &info)) != 0) entry = LP_SOCKET | (NO_FILE + peer);
	else if (open && fd < DESCRIPTORS && may_be_waited_for(&info))
		entry = LP_SOCKET | (NO_FILE + (LP_EVENT | (uint32_t)fd));
	errno = code;
	return entry;
}

uint32_t lp_file(int fd, bool *moved) {
	uint32_t target = lp_target(fd, moved);
	return target & LP_SOCKET ? 0 : target;
}

uint32_t lp_target(int fd, bool *moved) {
	*moved = false;
	LP_ASSERT(lp_thread.busy);
	if (fd < 0) return 0;
	if (lp_is_stale(&age)) empty_tables();
	if (fd >= DESCRIPTORS) return resolve_descriptor(fd) - NO_FILE;
	uint32_t entry = __atomic_load_n(&of_descriptor[fd], __ATOMIC_RELAXED);
	if (entry == 0) {
		entry = resolve_descriptor(fd);
		__atomic_store_n(&of_descriptor[fd], entry, __ATOMIC_RELAXED);
	}
	if (entry & MOVED) {
		*moved = true;
		entry &= ~MOVED;
		__atomic_store_n(&of_descriptor[fd], entry, __ATOMIC_RELAXED);
	}
	LP_ASSERT(entry >= NO_FILE);
	return entry - NO_FILE;
}
