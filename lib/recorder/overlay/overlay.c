/* overlay.c: resolves names when some files are in the scratch folder: folder by folder, following
 * links in the program's view. */
#include "recorder/overlay/overlay.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { DEEPEST = 256, MOST_LINKS = 40 };

lp_overlay_process lp_overlay;

/* ---- raw ---- */

static int lstat_raw(const char *path, struct stat *out) {
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
static bool exists_raw(const char *path) {
	struct stat info;
	return lstat_raw(path, &info) == 0;
}

/* ---- beginning ---- */

void lp_overlay_log(const char *what, const char *about) {
	struct texts {
		char path[PATH_MAX], line[PATH_MAX + 256];
	};
	int code = errno;
	LP_TAKE(struct texts, text, );
	lp_join(text->path, sizeof text->path, lp_overlay.scratch, "/unguarded", LP_END);
	lp_join(text->line, sizeof text->line, what, ": ", about, "\n", LP_END);
	int fd = (int)syscall(SYS_openat, AT_FDCWD, text->path,
	                      O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0) syscall(SYS_write, fd, text->line, strlen(text->line));
	if (fd >= 0) syscall(SYS_close, fd);
	errno = code;
}

static lp_overlay_shared *map_overlay_state(void) {
	LP_TAKE(lp_path, at, NULL);
	char *path = *at;
	lp_join(path, PATH_MAX, lp_overlay.scratch, "/state", LP_END);
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) return NULL;
	void *map = mmap(NULL, sizeof(lp_overlay_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	return map == MAP_FAILED ? NULL : map;
}

/* Log files that were opened for writing before the first process of the run began: whoever started
 * lockstep wants them written. Standard output and error are lockstep's own. */
static void log_inherited_files(void) {
	LP_TAKE(lp_path, path, );
	for (int fd = 3; fd < 256; fd++) {
		struct stat info;
		long flags = syscall(SYS_fcntl, fd, F_GETFL);
		if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) continue;
		if (syscall(SYS_fstat, fd, &info) != 0 || !S_ISREG(info.st_mode)) continue;
		lp_descriptor_path(fd, *path);
		lp_overlay_log(*path, "was open for writing before the run");
	}
}

void lp_overlay_begin(void) {
	const char *scratch = getenv("LOCKSTEP_RECORD_SCRATCH");
	int code = errno;
	lp_overlay.looked = true;
	if (!scratch || scratch[0] != '/' || strlen(scratch) >= sizeof lp_overlay.scratch) return;
	strcpy(lp_overlay.scratch, scratch);
	lp_overlay.length = strlen(scratch);
	lp_overlay.state = map_overlay_state();
	lp_overlay.refuses = !lp_overlay.state;
	lp_overlay.on = true;
	if (lp_overlay.state && __atomic_exchange_n(&lp_overlay.state->begun, 1, __ATOMIC_ACQ_REL) == 0)
		log_inherited_files();
	errno = code;
}

/* ---- paths ---- */

bool lp_overlay_is_name(const char *path) {
	return path && *path;
}

bool lp_overlay_path_in(const char *folder, const char *path, char out[PATH_MAX]) {
	return lp_join(out, PATH_MAX, lp_overlay.scratch, "/", folder, path, LP_END);
}

void lp_overlay_show_path(char *path) {
	const char *rest = path + lp_overlay.length;
	if (!lp_overlay.on || strncmp(path, lp_overlay.scratch, lp_overlay.length) != 0) return;
	if (strncmp(rest, "/over", 5) == 0 && (rest[5] == '/' || !rest[5])) rest += 5;
	else if (strncmp(rest, "/list/", 6) == 0) rest += 6 + strcspn(rest + 6, "/");
	else return;
	memmove(path, *rest ? rest : "/", strlen(*rest ? rest : "/") + 1);
}

static bool is_within_folder(const char *path, const char *folder) {
	size_t length = strlen(folder);
	return strncmp(path, folder, length) == 0 && (path[length] == '/' || !path[length]);
}

/* Paths outside the overlay: devices, the system, its own folder, the recordings. */
static bool is_outside_overlay(const char *path) {
	return is_within_folder(path, "/dev") || is_within_folder(path, "/proc") ||
	       is_within_folder(path, "/sys") || is_within_folder(path, lp_overlay.scratch) ||
	       (lp_state.folder[0] && is_within_folder(path, lp_state.folder));
}

/* The start folder of a relative path, as the program knows it. */
static int find_base_folder(int at, char out[PATH_MAX]) {
	long length =
		at == AT_FDCWD ? syscall(SYS_getcwd, out, PATH_MAX) - 1 : lp_descriptor_path(at, out);
	if (length < 0) return at == AT_FDCWD ? errno : EBADF;
	out[length] = '\0';
	if (out[0] != '/') return ENOTDIR;
	lp_overlay_show_path(out);
	return 0;
}

/* ---- resolving ---- */

/* A folder on the way: whether it is in the scratch folder, has marks below it, and whether the
 * disk's is deleted. */
struct level {
	size_t length; /* of the path up to it */
	bool over, marked, gone;
};

struct walk {
	struct level level[DEEPEST];
	int depth, links;
	char base[PATH_MAX], todo[2 * PATH_MAX], name[NAME_MAX + 2];
	lp_place *out;
};

static bool has_deletion_mark(const char *path) {
	LP_TAKE(lp_path, mark, false);
	return lp_join(*mark, PATH_MAX, lp_overlay.scratch, "/gone", path, "/\001", LP_END) &&
	       exists_raw(*mark);
}

/* Look up the next name in the present folder. */
static int look_at_name(struct walk *walk, struct level *next) {
	lp_place *place = walk->out;
	const struct level *here = &walk->level[walk->depth];
	struct stat info;
	LP_TAKE(lp_path, at, ENOMEM);
	char *path = *at;
	place->above = place->below = false;
	place->type = 0;
	*next = (struct level){.length = strlen(place->path), .gone = here->gone};
	if (here->marked && lp_overlay_path_in("gone", place->path, path))
		next->marked = exists_raw(path);
	if (next->marked && has_deletion_mark(place->path)) next->gone = true;
	if (here->over && !lp_overlay_path_in("over", place->path, path)) return ENAMETOOLONG;
	if (here->over && lstat_raw(path, &info) == 0) {
		place->above = true;
		place->type = info.st_mode;
	}
	next->over = place->above && S_ISDIR(place->type);
	if (!next->gone && lstat_raw(place->path, &info) == 0) {
		place->below = true;
		if (!place->above) place->type = info.st_mode;
	}
	return !place->type && errno != ENOENT && errno != ENOTDIR && !next->gone ? errno : 0;
}

/* Put a link's target before the rest of the path. */
static int follow_link_text(struct walk *walk, bool more) {
	struct texts {
		char path[PATH_MAX], text[PATH_MAX], rest[sizeof walk->todo];
	};
	LP_TAKE(struct texts, at, ENOMEM);
	char *path = at->path, *text = at->text;
	lp_place *place = walk->out;
	if (++walk->links > MOST_LINKS) return ELOOP;
	if (place->above ? !lp_overlay_path_in("over", place->path, path)
	                 : !lp_join(path, PATH_MAX, place->path, LP_END))
		return ENAMETOOLONG;
	long length = syscall(SYS_readlinkat, AT_FDCWD, path, text, PATH_MAX - 1);
	if (length <= 0) return length < 0 ? errno : ENOENT;
	text[length] = '\0';
	memcpy(at->rest, walk->todo, sizeof at->rest);
	if (!lp_join(walk->todo, sizeof walk->todo, text, more ? "/" : "", more ? at->rest : "",
	             LP_END))
		return ENAMETOOLONG;
	if (text[0] == '/') walk->depth = 0;
	place->path[walk->level[walk->depth].length] = '\0';
	return 0;
}

/* The length of "self/cwd", "self/root" or "self/fd/N" at the start; 0: another name. */
static size_t process_link_length(const char *name) {
	static const char *const links[] = {"self/cwd",        "self/root",        "self/fd/",
	                                    "thread-self/cwd", "thread-self/root", "thread-self/fd/"};
	for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
		size_t length = strlen(links[i]);
		if (strncmp(name, links[i], length) != 0) continue;
		if (links[i][length - 1] == '/') length += strspn(name + length, "0123456789");
		if (name[length] == '/' || !name[length]) return length;
	}
	return 0;
}

/* /proc's links to files of this process name files that are guarded: put the file's own name in
 * their place, if it has one. False: it is no such link. */
static bool follow_process_link(struct walk *walk) {
	struct texts {
		char path[PATH_MAX], text[PATH_MAX], rest[sizeof walk->todo];
	};
	struct stat linked, named;
	size_t length = process_link_length(walk->todo);
	if (!length || strcmp(walk->out->path, "/proc") != 0 || ++walk->links > MOST_LINKS)
		return false;
	LP_TAKE(struct texts, at, false);
	strcpy(at->rest, walk->todo + length);
	walk->todo[length] = '\0';
	lp_join(at->path, PATH_MAX, "/proc/", walk->todo, LP_END);
	long got = syscall(SYS_readlinkat, AT_FDCWD, at->path, at->text, PATH_MAX - 1);
	at->text[got > 0 ? got : 0] = '\0';
	bool same = at->text[0] == '/' &&
	            syscall(SYS_newfstatat, AT_FDCWD, at->path, &linked, 0) == 0 &&
	            syscall(SYS_newfstatat, AT_FDCWD, at->text, &named, 0) == 0 &&
	            linked.st_dev == named.st_dev && linked.st_ino == named.st_ino;
	if (same) {
		lp_overlay_show_path(at->text);
		same = lp_join(walk->todo, sizeof walk->todo, at->text, at->rest, LP_END);
		walk->depth = 0;
		walk->out->path[0] = '\0';
	} else strcpy(walk->todo + length, at->rest);
	return same;
}

static int leave_overlay(struct walk *walk) {
	LP_ASSERT(!walk->out->free);
	size_t length = strlen(walk->out->path);
	if (length + strlen(walk->todo) + 2 > PATH_MAX) return ENAMETOOLONG;
	if (*walk->todo) {
		walk->out->path[length] = '/';
		strcpy(walk->out->path + length + 1, walk->todo);
	}
	walk->out->free = true;
	return 0;
}

/* Take the next name from the rest of the path; false: nothing is left. */
static bool take_next_name(struct walk *walk, bool *more) {
	char *name = walk->name, *at = walk->todo + strspn(walk->todo, "/");
	size_t length = strcspn(at, "/");
	if (length > NAME_MAX + 1) length = NAME_MAX + 1;
	memcpy(name, at, length);
	name[length] = '\0';
	at += length;
	*more = *at == '/';
	memmove(walk->todo, at + strspn(at, "/"), strlen(at + strspn(at, "/")) + 1);
	return length > 0;
}

static int step_into_name(struct walk *walk, const char *name, bool more, bool follow) {
	LP_ASSERT(walk->depth >= 0 && walk->depth < DEEPEST);
	lp_place *place = walk->out;
	struct level next;
	size_t length = strlen(place->path);
	if (walk->depth + 1 >= DEEPEST || strlen(name) > NAME_MAX ||
	    length + strlen(name) + 2 > PATH_MAX)
		return ENAMETOOLONG;
	place->path[length] = '/';
	strcpy(place->path + length + 1, name);
	if (is_outside_overlay(place->path))
		return (more || follow) && follow_process_link(walk) ? 0 : leave_overlay(walk);
	int code = look_at_name(walk, &next);
	if (code) return code;
	if (S_ISLNK(place->type) && (more || follow)) return follow_link_text(walk, more);
	if (!more) return 0;
	if (!place->type && *walk->todo) return ENOENT;
	if (place->type && !S_ISDIR(place->type)) return ENOTDIR;
	walk->level[++walk->depth] = next;
	return 0;
}

static int walk_path(struct walk *walk, bool follow) {
	lp_place *place = walk->out;
	const char *name = walk->name;
	bool more;
	while (!place->free && take_next_name(walk, &more)) {
		if (strcmp(name, ".") == 0) continue;
		if (strcmp(name, "..") != 0) {
			int code = step_into_name(walk, name, more, follow);
			if (code) return code;
			continue;
		}
		if (walk->depth > 0) walk->depth--;
		place->path[walk->level[walk->depth].length] = '\0';
	}
	return 0;
}

/* Paths that end in ., .. or the root have not been looked up yet. */
static int look_at_last_level(struct walk *walk) {
	lp_place *place = walk->out;
	struct stat info;
	LP_TAKE(lp_path, path, ENOMEM);
	if (place->free || strlen(place->path) != walk->level[walk->depth].length) return 0;
	place->above = lp_overlay_path_in("over", place->path, *path) && lstat_raw(*path, &info) == 0;
	mode_t type = place->above ? info.st_mode : 0;
	if (!place->path[0]) strcpy(place->path, "/");
	place->below = !walk->level[walk->depth].gone && lstat_raw(place->path, &info) == 0;
	place->type = type;
	if (!type && place->below) place->type = info.st_mode;
	return 0;
}

int lp_overlay_find(int at, const char *path, bool follow, lp_place *out) {
	LP_TAKE(struct walk, walk, ENOMEM);
	out->path[0] = '\0';
	out->free = out->above = out->below = false;
	out->type = 0;
	if (!path) return EFAULT;
	size_t length = strlen(path);
	if (!length) return ENOENT;
	walk->out = out;
	walk->depth = walk->links = 0;
	walk->level[0] = (struct level){.over = true, .marked = true};
	walk->base[0] = '\0';
	int code = path[0] == '/' ? 0 : find_base_folder(at, walk->base);
	if (code) return code;
	if (!lp_join(walk->todo, sizeof walk->todo, walk->base, "/", path, LP_END)) return ENAMETOOLONG;
	code = walk_path(walk, follow || path[length - 1] == '/');
	return code ? code : look_at_last_level(walk);
}
