/* overlay.h: the user's files are not damaged by a run that is not the real one (null, delay,
 * as-rank).
 *
 * What a process would change is changed in a scratch folder instead, and processes of the run see
 * it there, as on an overlay file system:
 *
 *     SCRATCH/over/PATH     what was written: copies of changed files, new ones
 *     SCRATCH/gone/PATH/^A  PATH as it lies on the disk, with all below, is deleted (a file of that
 * name marks it) SCRATCH/list/N/PATH   a folder's names as the program sees them, while it lists
 * them SCRATCH/tmp           what TMPDIR says: used as it is SCRATCH/state         a page that all
 * processes map: whether anything was changed SCRATCH/unguarded     a line for whatever could not
 * be guarded
 *
 * It works on names, at the border of libc, in every process that loads the probe, recorded or not:
 * shells, cp, mv and rm among them. Devices, /proc, /sys and the scratch folder itself are left
 * alone; so are descriptors that were open before. Before anything was changed, reading costs
 * nothing. guard.c finds what a name means, guard_change.c changes, guard_calls.c and the openers
 * of io_*.c are libc's functions; all of them work by raw system calls.
 */
#ifndef LK_PROBE_GUARD_H
#define LK_PROBE_GUARD_H

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/recorder.h"

typedef struct lp_guard_state {
	uint32_t changes;
	uint32_t begun; /* the first process has looked at what it inherited */
	uint32_t lists; /* numbers of SCRATCH/list/ */
} lp_guard_state;

typedef struct lp_guard_of {
	bool looked, on;
	bool refuses; /* the scratch folder is not to be had (another host): nothing can be changed */
	lp_guard_state *state;
	size_t length;              /* of scratch */
	char scratch[PATH_MAX / 2]; /* absolute, without links */
} lp_guard_of;
extern lp_guard_of lp_guard;

/* What a name means. */
typedef struct lp_place {
	char path[PATH_MAX]; /* absolute, without links in its folders */
	bool free;           /* not guarded: the path is used as it is */
	bool above, below;   /* it is in the scratch folder; on the disk and not deleted */
	mode_t
		type; /* of it (S_IFMT and permissions); 0 there is no such file, but its folder is there */
} lp_place;

void lp_guard_begin(void);
static inline bool lp_guard_active(void) {
	if (!LP_HOT(lp_guard.looked)) lp_guard_begin();
	return lp_guard.on;
}

/* ---- guard.c ---- */

bool lp_guard_names(const char *path); /* not NULL and not empty */

/* 0 or what errno is to be. */
int lp_guard_find(int at, const char *path, bool follow, lp_place *out);
/* "SCRATCH/over" + path and the like; false: too long. */
bool lp_guard_in(const char *folder, const char *path, char out[PATH_MAX]);
/* A path in the scratch folder as the program knows it, in place. */
void lp_guard_show(char *path);
/* A line about what could not be guarded. */
void lp_guard_tell(const char *what, const char *about);

/* ---- guard_change.c ---- */

/* Each gives the path to hand to the system, which may be `path` itself or in `room`; NULL and
 * errno where it must fail. */
const char *lp_guard_read(int at, const char *path, bool follow, char room[PATH_MAX]);
const char *lp_guard_open(int at, const char *path, int flags, char room[PATH_MAX]);
const char *lp_guard_change(int at, const char *path, bool follow,
                            char room[PATH_MAX]); /* what is there */
/* What is not there; only of a folder may the name end in a slash. */
const char *lp_guard_make(int at, const char *path, bool folder, char room[PATH_MAX]);
/* 0, or -1 and errno. */
int lp_guard_remove(int at, const char *path, bool folder);
int lp_guard_rename(int at, const char *path, int to_at, const char *to, unsigned flags);
/* Whether a descriptor is of a folder's names that were made to be listed; of which folder, as the
 * program knows it. */
bool lp_guard_lists(int fd, char path[PATH_MAX]);
/* Whether a descriptor's file must not be changed: it is of the disk, not of the scratch folder. */
bool lp_guard_keeps(int fd);

#endif
