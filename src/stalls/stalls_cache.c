/* stalls_cache.c: the page cache, without root.
 *
 * Evicting: dirty pages are written (fdatasync), then posix_fadvise(POSIX_FADV_DONTNEED) drops
 * unmapped pages. File systems may ignore that, so the files are examined afterwards: by
 * cachestat(2) if the kernel has it and the file is ours, else by preadv2(RWF_NOWAIT) of one byte
 * at a few places, which fails if the page is absent. Each such miss begins a read ahead, so few
 * places are tried, from the end of the file to its beginning. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "stalls/stalls.h"
#include "base/check.h"

enum { PLACES = 16, CACHESTAT = 451, WARM_BYTES = 1 << 20 };

/* linux/mman.h has them from 6.5 on. */
struct cache_range {
	uint64_t from, length;
};
struct cache_count {
	uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

static double page_bytes(void) {
	return (double)sysconf(_SC_PAGESIZE);
}

/* Pages of the file in memory by the kernel's count; NAN if not available. */
static double cached_share_by_count(int fd, double bytes) {
	LK_ASSERT(bytes > 0);
	struct cache_range range = {0, (uint64_t)bytes};
	struct cache_count count = {0};
	if (syscall(CACHESTAT, fd, &range, &count, 0) != 0) return NAN;
	return fmin(1, (double)count.cached / ceil(bytes / page_bytes()));
}

/* The share of a few places whose page is in memory; NAN if the file system cannot tell. */
static double cached_share_by_sampling(int fd, double bytes) {
	double page = page_bytes(), pages = ceil(bytes / page);
	int places = pages < PLACES ? (int)pages : PLACES, there = 0;
	for (int i = places; i-- > 0;) {
		char byte;
		struct iovec one = {&byte, 1};
		off_t at = (off_t)(floor(pages * i / places) * page);
		ssize_t got = preadv2(fd, &one, 1, at, RWF_NOWAIT);
		if (got < 0 && errno != EAGAIN) return NAN;
		there += got == 1;
	}
	return places ? (double)there / places : NAN;
}

struct looker {
	double seen, resident; /* bytes examined; of these in memory */
	lk_cache_state *out;
};

static int open_regular_file(const char *path, double *bytes, lk_cache_state *out) {
	struct stat info;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
		*bytes = (double)info.st_size;
		return fd;
	}
	if (fd >= 0) close(fd);
	out->unreadable++;
	return -1;
}

static void look_at_cached_file(struct looker *looker, int fd, double bytes) {
	double share = bytes > 0 ? cached_share_by_count(fd, bytes) : NAN;
	if (isnan(share) && bytes > 0) share = cached_share_by_sampling(fd, bytes);
	looker->out->files++;
	looker->out->bytes += bytes;
	if (isnan(share)) return;
	looker->seen += bytes;
	looker->resident += share * bytes;
}

typedef void deed(int fd, double bytes);

static void evict_file(int fd, double bytes) {
	(void)bytes;
	fdatasync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void warm_file(int fd, double bytes) {
	char *room = malloc(WARM_BYTES);
	for (off_t at = 0; room && (double)at < bytes;) {
		ssize_t got = pread(fd, room, WARM_BYTES, at);
		if (got <= 0) break;
		at += got;
	}
	free(room);
}

/* Process all files before examining the first: examining reads a little. */
static void act_on_all_files(const char *const *paths, size_t count, deed *act,
                             lk_cache_state *out) {
	struct looker l = {.out = out};
	double bytes;
	*out = (lk_cache_state){.resident = NAN, .rate = NAN};
	for (size_t i = 0; i < count; i++) {
		lk_cache_state ignored = {0};
		int fd = open_regular_file(paths[i], &bytes, &ignored);
		if (fd < 0) continue;
		act(fd, bytes);
		close(fd);
	}
	for (size_t i = 0; i < count; i++) {
		int fd = open_regular_file(paths[i], &bytes, out);
		if (fd < 0) continue;
		look_at_cached_file(&l, fd, bytes);
		close(fd);
	}
	if (l.seen > 0) out->resident = l.resident / l.seen;
}

void lk_cache_evict(const char *const *paths, size_t count, lk_cache_state *out) {
	act_on_all_files(paths, count, evict_file, out);
}
void lk_cache_warm(const char *const *paths, size_t count, lk_cache_state *out) {
	act_on_all_files(paths, count, warm_file, out);
}
