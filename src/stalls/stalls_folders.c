/* stalls_folders.c: a run's reads by data set: files below one folder, on one tier. A data set may
 * have a folder per class, and a file per sample: folders are taken at the greatest depth at which
 * there are few. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/sort.h"
#include "stalls/stalls.h"

enum {
	FEW = 12,
	DEEPEST = 64,
	KEY = 8192 /* bytes of a folder and its tier */
};

/* Bytes of the path's first `depth` folders: "/a/b/c.bin" with depth 1: "/a". The file's name is no
 * folder. */
static size_t folder_bytes(const char *path, int depth) {
	const char *end = path, *slash;
	while (depth-- > 0 && *end == '/' && (slash = strchr(end + 1, '/'))) end = slash;
	return (size_t)(end - path);
}

static int folder_depth(const char *path) {
	int depth = -1;
	for (; *path; path++) depth += *path == '/';
	return depth < 0 ? 0 : depth;
}

/* The number of the file's folder at that depth, from 1; UINT32_MAX: no memory. */
static uint32_t number_of_folder(lk_intern *names, const lk_stalls_file *file, int depth) {
	char key[KEY];
	size_t bytes = folder_bytes(file->path, depth);
	snprintf(key, sizeof key, "%.*s\n%s", (int)(bytes < KEY / 2 ? bytes : KEY / 2), file->path,
	         file->tier ? file->tier : "");
	return lk_intern_id(names, key);
}

/* Whether at that depth there are at most FEW. */
static lk_status are_few(const lk_stalls_profile *profile, int depth, bool *few, lk_error *err) {
	lk_intern *names = lk_intern_new();
	uint32_t most = 0;
	if (!names) return lk_oom(err);
	for (size_t i = 0; i < profile->files.count && most <= FEW; i++) {
		uint32_t number = number_of_folder(names, &profile->files.at[i], depth);
		if (number > most) most = number;
	}
	lk_intern_free(names);
	*few = most <= FEW;
	return most == UINT32_MAX ? lk_oom(err) : LK_OK;
}

static int by_folder_time(const void *a, const void *b) {
	const lk_stalls_folder *x = a, *y = b;
	if (x->read_s != y->read_s) return x->read_s < y->read_s ? 1 : -1;
	int order = strcmp(x->path, y->path);
	return order ? order : strcmp(x->tier, y->tier);
}

static lk_status add_to_folder(lk_stalls_folder *folder, const lk_stalls_file *file, int depth,
                               lk_arena *arena, lk_error *err) {
	size_t bytes = folder_bytes(file->path, depth);
	if (!folder->files) {
		folder->path = bytes ? lk_arena_printf(arena, "%.*s", (int)bytes, file->path) : "/";
		folder->tier = file->tier ? file->tier : "";
		if (!folder->path) return lk_oom(err);
	}
	folder->files++;
	folder->opens += file->opens;
	folder->reads += file->reads;
	folder->sequential += file->sequential;
	folder->read_bytes += file->read_bytes;
	folder->size += file->size;
	folder->read_s += file->read_s;
	return LK_OK;
}

/* With many tiers, folders of depth 0 may be more than FEW. */
lk_status lk_stalls_folders_of(const lk_stalls_profile *profile, lk_arena *arena,
                               const lk_stalls_folder **out, int *count, lk_error *err) {
	int depth = 0;
	bool few = false;
	*out = NULL;
	*count = 0;
	for (size_t i = 0; i < profile->files.count; i++) {
		int own = folder_depth(profile->files.at[i].path);
		if (own > depth) depth = own < DEEPEST ? own : DEEPEST;
	}
	for (; !few; depth -= !few) {
		LK_TRY(are_few(profile, depth, &few, err));
		if (!depth) break;
	}
	lk_intern *names = lk_intern_new();
	lk_stalls_folder *folders = LK_ARRAY(arena, lk_stalls_folder, profile->files.count);
	lk_status status = names && folders ? LK_OK : lk_oom(err);
	for (size_t i = 0; status == LK_OK && i < profile->files.count; i++) {
		const lk_stalls_file *file = &profile->files.at[i];
		uint32_t number = number_of_folder(names, file, depth);
		LK_ASSERT(number == UINT32_MAX || number <= profile->files.count);
		if (number == UINT32_MAX) status = lk_oom(err);
		else status = add_to_folder(&folders[number - 1], file, depth, arena, err);
		if (status == LK_OK && (int)number > *count) *count = (int)number;
	}
	lk_intern_free(names);
	if (status == LK_OK && *count)
		lk_sort(folders, (size_t)*count, sizeof *folders, by_folder_time);
	*out = folders;
	return status;
}
