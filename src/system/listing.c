/* listing.c: readdir returns names in arbitrary order, and NULL both at the end and on failure. */
#include "system/listing.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/sort.h"
#include "base/text.h"
#include "base/vec.h"

static lk_status listing_failed(const char *folder, lk_error *err) {
	if (errno == ENOMEM) return lk_oom(err);
	return lk_fail(err, LK_ERR_IO, folder, "cannot be listed: %s", strerror(errno));
}

static lk_status listing_take(DIR *dir, const char *folder, const char *ending, lk_listing *out,
                              lk_error *err) {
	LK_VEC(const char *) names = {0};
	bool memory = true;
	for (;;) {
		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (!entry) break;
		const char *name = entry->d_name;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
		if (ending && !lk_ends_in(name, ending)) continue;
		memory = lk_push(&names) && (*lk_last(&names) = lk_arena_strdup(&out->arena, name));
		if (!memory) break;
	}
	lk_status status = !memory ? lk_oom(err) : errno ? listing_failed(folder, err) : LK_OK;
	out->names = LK_ARRAY(&out->arena, const char *, names.count);
	if (status == LK_OK && !out->names) status = lk_oom(err);
	if (status == LK_OK && names.count)
		memcpy(out->names, names.at, names.count * sizeof *names.at);
	out->count = names.count;
	lk_vec_free(&names);
	lk_sort(out->names, status == LK_OK ? out->count : 0, sizeof *out->names, lk_by_text);
	return status;
}

lk_status lk_listing_read(const char *folder, const char *ending, lk_listing *out, lk_error *err) {
	*out = (lk_listing){.arena = LK_ARENA_INIT};
	DIR *dir = opendir(folder);
	if (!dir) return listing_failed(folder, err);
	lk_status status = listing_take(dir, folder, ending, out, err);
	closedir(dir);
	if (status != LK_OK) lk_listing_free(out);
	return status;
}

void lk_listing_free(lk_listing *listing) {
	lk_arena_free(&listing->arena);
	*listing = (lk_listing){.arena = LK_ARENA_INIT};
}

lk_status lk_listing_visit(const char *folder, const char *ending, lk_listing_visitor *visit,
                           void *context, lk_error *err) {
	lk_listing listing;
	LK_TRY(lk_listing_read(folder, ending, &listing, err));
	lk_status status = LK_OK;
	for (size_t i = 0; i < listing.count && status == LK_OK; i++) {
		char path[PATH_MAX + NAME_MAX + 2];
		snprintf(path, sizeof path, "%s/%s", folder, listing.names[i]);
		status = visit(context, path, listing.names[i], err);
	}
	lk_listing_free(&listing);
	return status;
}
