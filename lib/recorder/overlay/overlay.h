/* overlay.h: a private overlay file system in the preload library: a run that is not the real one
 * (null, delay, as-rank, the further runs of `stalls`) leaves the user's files unchanged. The
 * rules, with what is not covered, are in docs/method/overlay.md.
 *
 * Changes of a process are made in a scratch folder instead, where all processes of the run see
 * them:
 *
 *     SCRATCH/over/PATH     what was written: new files, copies of changed ones
 *     SCRATCH/gone/PATH/^A  PATH on the disk, with all below, is deleted
 *     SCRATCH/list/N/PATH   the merged names of a folder, for listing it
 *     SCRATCH/tmp           TMPDIR of the run; used directly
 *     SCRATCH/state         a page that all processes map: lp_overlay_shared
 *     SCRATCH/unguarded     a line for each thing seen that could not be protected
 *
 * A wrapper requests the path to use and calls the real function with it:
 *
 *     LP_ROOM(room);
 *     const char *given = lp_overlay_is_active() ? lp_overlay_open(at, path, flags, &room) : path;
 *     if (!given) return -1;      errno is set
 *     return real(at, given, flags);
 *
 * It works on names, at the border of libc, in every process that loads the recorder, armed or not,
 * and by raw system calls. Before the first change, reading costs one look at the shared page.
 * Paths are limited to PATH_MAX, folders to a depth of 256, links to 40.
 *
 *     overlay.c            resolves names folder by folder
 *     overlay_change.c     the paths to read, write, create; removing, renaming
 *     overlay_sockets.c    addresses of sockets
 *     overlay_calls.c      libc's functions that take names
 *     overlay_programs.c   exec and spawn */
#ifndef LK_RECORDER_OVERLAY_OVERLAY_H
#define LK_RECORDER_OVERLAY_OVERLAY_H

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "recorder/recorder.h"

/* Shared by all processes of the run. */
typedef struct lp_overlay_shared {
	uint32_t changes; /* so far; 0: names need not be resolved */
	uint32_t begun;   /* the first process has logged what it inherited */
	uint32_t lists;   /* numbers of SCRATCH/list/ */
} lp_overlay_shared;

typedef struct lp_overlay_process {
	bool looked; /* the environment was read */
	bool on;
	/* Without a scratch folder (on another host): nothing can be changed, and `state` is NULL. */
	bool refuses;
	lp_overlay_shared *state;
	size_t length;              /* of scratch */
	char scratch[PATH_MAX / 2]; /* absolute, without links */
} lp_overlay_process;
extern lp_overlay_process lp_overlay;

/* Read LOCKSTEP_RECORD_SCRATCH; called once, by lp_overlay_is_active. */
void lp_overlay_begin(void);
static inline bool lp_overlay_is_active(void) {
	if (!LP_HOT(lp_overlay.looked)) lp_overlay_begin();
	return lp_overlay.on;
}

/* ---- names (overlay.c) ---- */

/* A resolved name. */
typedef struct lp_place {
	char path[PATH_MAX]; /* absolute, without links in its folders */
	bool free;           /* outside the overlay: the path is used unchanged */
	bool above;          /* it is in the scratch folder */
	bool below;          /* it is on the disk and not deleted */
	mode_t type;         /* S_IFMT and permissions; 0: no such file, but its folder exists */
} lp_place;

/* Returns 0, or the value for errno. `follow`: also follow a link at the end. */
int lp_overlay_find(int at, const char *path, bool follow, lp_place *out);
/* Not NULL and not empty. */
bool lp_overlay_is_name(const char *path);
/* SCRATCH/FOLDER + path; false: too long. */
bool lp_overlay_path_in(const char *folder, const char *path, char out[PATH_MAX]);
/* Convert a path in the scratch folder to the program's view, in place. */
void lp_overlay_show_path(char *path);
/* Add "WHAT: ABOUT" to SCRATCH/unguarded. */
void lp_overlay_log(const char *what, const char *about);

/* ---- changes (overlay_change.c) ---- */

/* Each returns the path for the system call, which may be `path` itself or in `room`; NULL and
 * errno if the call must fail. */

/* For a file that is read, or looked up. */
const char *lp_overlay_read(int at, const char *path, bool follow, lp_room *room);
/* For a file opened with these flags. */
const char *lp_overlay_open(int at, const char *path, int flags, lp_room *room);
/* For an existing file that is changed. */
const char *lp_overlay_change(int at, const char *path, bool follow, lp_room *room);
/* For a new file; only a folder's name may end in a slash. */
const char *lp_overlay_make(int at, const char *path, bool folder, lp_room *room);

/* 0, or -1 and errno. */
int lp_overlay_remove(int at, const char *path, bool folder);
int lp_overlay_rename(int at, const char *path, int to_at, const char *to, unsigned flags);

/* Whether a descriptor is of a listing; of which folder, in the program's view. */
bool lp_overlay_is_listing(int fd, char path[PATH_MAX]);
/* Whether a descriptor's file must not be changed: it is on the disk, not in the scratch folder. */
bool lp_overlay_is_protected(int fd);

/* Like mkostemps: replaces the X's before the last `suffix` letters of `name`. Returns a
 * descriptor, or -1 and errno. */
int lp_overlay_make_temporary(char *name, int suffix, int flags);

/* ---- sockets (overlay_sockets.c) ---- */

/* Log a connection to another host, unless a communication library is the caller. Keeps errno. */
void lp_overlay_log_connection(int fd, const struct sockaddr *to, socklen_t length,
                               const void *caller);

/* The address of a Unix socket in the scratch folder. */
typedef struct lp_overlay_socket {
	struct sockaddr_un at;
	int folder; /* closed by lp_overlay_socket_used; -1 none */
} lp_overlay_socket;

/* True: `out` is the address to use, until lp_overlay_socket_used. False: use the given address, or
 * *failed and errno. `makes`: it is bound, not connected to. */
bool lp_overlay_move_socket(const struct sockaddr *at, socklen_t length, bool makes,
                            lp_overlay_socket *out, bool *failed);
/* Returns `result` and keeps errno. */
int lp_overlay_socket_used(lp_overlay_socket *moved, int result);

#endif
