/* trace_files.c: files and folders, listed and read in parallel. */
#include "system/listing.h"
#include "base/arena.h"
#include "trace/read/read.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/heap.h"
#include "system/parallel.h"
#include "io/archive.h"
#include "io/recording.h"
#include "base/text.h"
#include "base/sort.h"

/* ---- which files ---- */

struct file_name {
	const char *path;
	bool found;   /* in a folder or an archive: it may be another kind of file */
	bool starter; /* a recording of a process that does not know its rank */
};
typedef struct names {
	struct file_name *at;
	size_t count, capacity;
	lk_arena arena; /* of the paths */
} names;

static void free_names(names *n) {
	lk_vec_free(n);
	lk_arena_free(&n->arena);
}

static bool trace_name(const char *name) {
	static const char *const endings[] = {
		".json", ".json.gz", ".json.zst", ".sqlite",           ".pftrace",
		".db",   ".rpd",     ".et",       LK_RECORDING_ENDING, ".xplane.pb"};
	/* forked processes are read with their parent */
	if (name[0] == '.' ||
	    (strstr(name, LK_RECORDING_FORKED) && lk_ends_in(name, LK_RECORDING_ENDING)))
		return false;
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (lk_ends_in(name, endings[i])) return true;
	return false;
}

/* rank2 before rank10. */
static int files_by_name(const void *a, const void *b) {
	const struct file_name *one = a, *other = b;
	return strverscmp(one->path, other->path);
}

static lk_status files_add_name(names *n, const char *name, bool found, lk_error *err) {
	if (!name || !lk_push(n)) return lk_oom(err);
	*lk_last(n) = (struct file_name){.path = name, .found = found};
	return LK_OK;
}

static const char *files_joined(names *n, const char *folder, const char *name) {
	const char *slash = lk_ends_in(folder, "/") ? "" : "/";
	return lk_arena_printf(&n->arena, "%s%s%s", folder, slash, name);
}

/* Note whether a recording's process knew its rank. A damaged recording counts as not knowing. */
static lk_status note_rank(struct file_name *file, lk_error *err) {
	lk_recording recording;
	if (!lk_ends_in(file->path, LK_RECORDING_ENDING)) return LK_OK;
	lk_status status = lk_recording_open(file->path, &recording, err);
	file->starter = true;
	if (status == LK_ERR_INPUT) return LK_OK;
	LK_TRY(status);
	file->starter = recording.head.rank < 0;
	lk_recording_close(&recording);
	return LK_OK;
}

/* If some recordings are of ranks, drop the others: they are of programs that started them. */
static lk_status drop_starters(names *all, size_t before, lk_error *err) {
	size_t kept = before;
	bool ranks = false;
	for (size_t i = before; i < all->count; i++) {
		LK_TRY(note_rank(&all->at[i], err));
		ranks |= lk_ends_in(all->at[i].path, LK_RECORDING_ENDING) && !all->at[i].starter;
	}
	for (size_t i = before; ranks && i < all->count; i++)
		if (!all->at[i].starter) all->at[kept++] = all->at[i];
	if (ranks) all->count = kept;
	return LK_OK;
}

/* Simulators read these files together with Chakra's traces. */
static bool is_simulator_file(const char *name) {
	static const char *const others[] = {"comm_group.json", "system.json", "memory.json"};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (strcmp(name, others[i]) == 0) return true;
	return false;
}

static bool is_folder(const char *path) {
	struct stat info;
	return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool holds_traces(const char *folder) {
	DIR *dir = opendir(folder);
	bool found = false;
	for (struct dirent *dirent; dir && !found && (dirent = readdir(dir));)
		found = trace_name(dirent->d_name) && !is_simulator_file(dirent->d_name);
	if (dir) closedir(dir);
	return found;
}

/* The first folder by name in a folder that holds traces, such as iteration_10; NULL if there is
 * none. */
static const char *inner_folder(names *n, const char *folder) {
	DIR *dir = opendir(folder);
	const char *first = NULL;
	for (struct dirent *dirent; dir && (dirent = readdir(dir));) {
		const char *path =
			dirent->d_name[0] == '.' ? NULL : files_joined(n, folder, dirent->d_name);
		if (path && is_folder(path) && holds_traces(path) &&
		    (!first || strverscmp(path, first) < 0))
			first = path;
	}
	if (dir) closedir(dir);
	return first;
}

static lk_status no_trace(names *n, const char *folder, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, folder, "no trace in this folder");
	const char *inner = inner_folder(n, folder);
	if (inner)
		lk_hint(err, "there are traces in %s; folders inside are read where they are named", inner);
	else
		lk_hint(err, "traces end in .json, .json.gz, .json.zst, .sqlite, .xplane.pb, results.db, "
		             ".rpd, .et or .lkrec");
	return err->status;
}

static lk_status list_folder(const char *folder, names *out, lk_error *err) {
	lk_listing listing;
	size_t before = out->count;
	LK_TRY(lk_listing_read(folder, NULL, &listing, err));
	lk_status status = LK_OK;
	for (size_t i = 0; i < listing.count && status == LK_OK; i++) {
		if (!trace_name(listing.names[i]) || is_simulator_file(listing.names[i])) continue;
		const char *path = files_joined(out, folder, listing.names[i]);
		if (!path || !is_folder(path)) status = files_add_name(out, path, true, err);
	}
	lk_listing_free(&listing);
	LK_TRY(status);
	if (out->count == before) return no_trace(out, folder, err);
	LK_TRY(drop_starters(out, before, err));
	lk_sort(out->at + before, out->count - before, sizeof *out->at, files_by_name);
	return LK_OK;
}

struct archive_names {
	const char *archive;
	names *out;
};

static lk_status files_add_member(void *context, const char *name, lk_error *err) {
	struct archive_names *into = context;
	const char *base = lk_file_name(name);
	if (!trace_name(base) || is_simulator_file(base)) return LK_OK;
	const char *path = lk_arena_printf(&into->out->arena, "%s!%s", into->archive, name);
	return files_add_name(into->out, path, true, err);
}

static lk_status list_archive(const char *path, names *out, lk_error *err) {
	size_t before = out->count;
	LK_TRY(lk_archive_list(path, files_add_member, &(struct archive_names){path, out}, err));
	lk_sort(out->at + before, out->count - before, sizeof *out->at, files_by_name);
	if (out->count > before) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, path, "no trace in this archive");
	return lk_hint(err, "traces end in .json, .json.gz, .json.zst, .xplane.pb or .et");
}

static lk_status list_files(const char *const *paths, uint32_t count, names *out, lk_error *err) {
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(paths[i], "-") == 0 && count > 1) {
			lk_fail(err, LK_ERR_INPUT, "-", "standard input cannot be one of several traces");
			return lk_hint(err, "write it to a file first");
		}
		if (strcmp(paths[i], "-") != 0 && is_folder(paths[i]))
			LK_TRY(list_folder(paths[i], out, err));
		else if (lk_archive_is(paths[i])) LK_TRY(list_archive(paths[i], out, err));
		else LK_TRY(files_add_name(out, lk_arena_strdup(&out->arena, paths[i]), false, err));
	}
	return out->count ? LK_OK : lk_fail(err, LK_ERR_INPUT, NULL, "no trace is given");
}

lk_status lk_trace_files_list(lk_arena *arena, const char *const *paths, uint32_t count,
                              const char *const **out, uint32_t *found, lk_error *err) {
	names all = {0};
	lk_status status = list_files(paths, count, &all, err);
	const char **list = status == LK_OK ? LK_ARRAY(arena, const char *, all.count) : NULL;
	for (size_t i = 0; list && i < all.count && status == LK_OK; i++)
		if (!(list[i] = lk_arena_strdup(arena, all.at[i].path))) status = lk_oom(err);
	if (status == LK_OK && !list) status = lk_oom(err);
	*out = list;
	*found = (uint32_t)all.count;
	free_names(&all);
	return status;
}

/* ---- reading ---- */

struct reading {
	const names *files;
	const lk_read_limits *limits;
	uint64_t bytes; /* of the files on disk */
	lk_trace_files *out;
};

/* Standard input, which has no such name, counts as a large file. */
static lk_status count_bytes(const names *files, uint64_t *bytes, lk_error *err) {
	*bytes = 0;
	for (size_t i = 0; i < files->count; i++) {
		struct stat info;
		const char *path = files->at[i].path;
		bool found = stat(path, &info) == 0;
		if (!found && errno != ENOENT)
			return lk_fail(err, LK_ERR_IO, path, "cannot be looked at: %s", strerror(errno));
		*bytes += found ? (uint64_t)info.st_size : UINT32_MAX;
	}
	return LK_OK;
}

static lk_status read_one(void *context, size_t job, lk_error *err) {
	struct reading *reading = context;
	const struct file_name *file = &reading->files->at[job];
	lk_read_limits limits = reading->limits ? *reading->limits : (lk_read_limits){.shapes = true};
	limits.shapes |= reading->bytes <= limits.shapes_below;
	return lk_trace_read(file->path, file->found, &limits, &reading->out->capture[job],
	                     &reading->out->works[job], err);
}

/* Close the gaps, as each file had its own place in both lists, and list the ranks of a file one by
 * one. */
static lk_status close_ranks(lk_trace_files *files, size_t count, lk_error *err) {
	size_t ranks = 1;
	for (size_t i = 0; i < count; i++)
		for (const lk_capture *at = files->capture[i]; at; at = at->next) ranks++;
	lk_capture **all = calloc(ranks, sizeof(lk_capture *));
	for (size_t i = 0; i < count; i++) {
		lk_works *works = files->works[i];
		files->works[i] = NULL;
		if (works) files->works[files->work_count++] = works;
		for (lk_capture *at = files->capture[i], *next; at; at = next) {
			next = all ? at->next : NULL;
			if (all) at->next = NULL;
			if (all) all[files->captures++] = at;
			else lk_capture_free(at);
		}
	}
	free(files->capture);
	files->capture = all;
	return all ? LK_OK : lk_oom(err);
}

enum {
	MANY_RANKS = 256 /* with fewer, looking names up costs more than the room saved */
};

/* Share names: ranks of one run mostly have the same. When memory runs out, each keeps its own. */
static void share_names(lk_trace_files *files) {
	lk_intern *pool = files->captures >= MANY_RANKS ? lk_intern_new() : NULL;
	for (uint32_t i = 0; pool && i < files->captures; i++)
		if (!lk_intern_share(files->capture[i]->names, pool)) break;
	lk_intern_free(pool);
}

static lk_status files_read_all(const names *files, const lk_read_limits *limits, int threads,
                                lk_trace_files *out, lk_error *err) {
	struct reading r = {.files = files, .limits = limits, .out = out};
	LK_TRY(count_bytes(files, &r.bytes, err));
	*out = (lk_trace_files){.capture = calloc(files->count, sizeof *out->capture),
	                        .works = calloc(files->count, sizeof *out->works)};
	lk_status status = out->capture && out->works
	                       ? lk_parallel(files->count, threads, read_one, &r, err)
	                       : lk_oom(err);
	if (out->capture && out->works) {
		lk_status closed = close_ranks(out, files->count, status == LK_OK ? err : NULL);
		if (status == LK_OK) status = closed;
	}
	if (status == LK_OK) share_names(out);
	lk_heap_give_back();
	if (status == LK_OK && out->captures + out->work_count == 0) {
		if (files->count == 1) lk_fail(err, LK_ERR_INPUT, files->at[0].path, "is not a trace");
		else
			lk_fail(err, LK_ERR_INPUT, files->at[0].path,
			        "is not a trace, nor is any of the %zu files given with it", files->count - 1);
		status = lk_hint(err, "give what export_chrome_trace of torch.profiler wrote, plain, gzip "
		                      "or zstd, or a folder of lockstep record");
	}
	if (status != LK_OK) lk_trace_files_free(out);
	return status;
}

lk_status lk_trace_files_read(const char *const *paths, uint32_t count,
                              const lk_read_limits *limits, int threads, lk_trace_files *out,
                              lk_error *err) {
	names files = {0};
	*out = (lk_trace_files){0};
	lk_status status = list_files(paths, count, &files, err);
	if (status == LK_OK) status = files_read_all(&files, limits, threads, out, err);
	free_names(&files);
	return status;
}

void lk_trace_files_free(lk_trace_files *files) {
	for (uint32_t i = 0; i < files->captures; i++) lk_capture_free(files->capture[i]);
	for (uint32_t i = 0; i < files->work_count; i++) lk_works_free(files->works[i]);
	free(files->capture);
	free(files->works);
	*files = (lk_trace_files){0};
}

static bool files_append(void **to, uint32_t count, void *const *from, uint32_t more, size_t size) {
	void *grown = realloc(*to, (count + more + 1) * size);
	if (!grown) return false;
	*to = grown;
	if (more) memcpy((char *)grown + count * size, *from, more * size);
	return true;
}

lk_status lk_trace_files_merge(lk_trace_files *to, lk_trace_files *from, lk_error *err) {
	if (!files_append((void **)&to->capture, to->captures, (void **)&from->capture, from->captures,
	                  sizeof *to->capture) ||
	    !files_append((void **)&to->works, to->work_count, (void **)&from->works, from->work_count,
	                  sizeof *to->works))
		return lk_oom(err);
	to->captures += from->captures;
	to->work_count += from->work_count;
	from->captures = from->work_count = 0;
	lk_trace_files_free(from);
	return LK_OK;
}
