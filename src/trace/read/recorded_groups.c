/* recorded_groups.c: the members of groups that a recording only names: NAME.lkgroup in its folder
 * holds an int32 for each rank of the group, its rank of the world + 1, written by the member
 * itself; 0 if a member was not recorded. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "trace/read/recorded_internal.h"

enum { NAME = 16, MOST_LISTED = 1 << 14, MOST_RANK = 1 << 20 };

static bool groups_is_name(const char *text) {
	return *text == '#' && strspn(text + 1, "0123456789abcdef") == NAME && !text[1 + NAME];
}

/* "[4, 6]"; false if a member is missing. */
static bool groups_list_members(const int32_t *rank, size_t count, char *out, size_t room) {
	enum {
		SPARE = 32 /* for another rank, or ", ...]" */
	};
	lk_text text = lk_text_begin(out, room);
	LK_ASSERT(room > 2 * SPARE);
	lk_text_add(&text, "[");
	for (size_t i = 0; i < count; i++) {
		if (rank[i] < 1 || rank[i] > MOST_RANK) return false;
		if (text.used + SPARE < room) lk_text_add(&text, i ? ", %d" : "%d", rank[i] - 1);
	}
	lk_text_add(&text, text.used + SPARE < room ? "]" : ", ...]");
	return count > 0;
}

static lk_status groups_find_members(lk_recorded_run *run, const char *folder,
                                     lk_recorded_name *group, lk_error *err) {
	char path[PATH_MAX], text[LK_TEXT_MOST];
	const char *name = lk_intern_text(run->texts, group->name);
	size_t count = group->size > 0 && group->size <= MOST_LISTED ? (size_t)group->size : 0;
	if (!groups_is_name(name) ||
	    snprintf(path, sizeof path, "%s%s" LK_GROUP_ENDING, folder, name + 1) >= (int)sizeof path)
		return LK_OK;
	int32_t *rank = calloc(count + 1, sizeof *rank);
	if (!rank) return lk_oom(err);
	FILE *file = count ? fopen(path, "rb") : NULL;
	int code = count && !file ? errno : 0;
	bool whole = file && fread(rank, sizeof *rank, count, file) == count &&
	             groups_list_members(rank, count, text, sizeof text);
	if (file && ferror(file)) code = EIO;
	if (file) fclose(file);
	free(rank);
	if (code == ENOMEM) return lk_oom(err);
	if (code && code != ENOENT)
		return lk_fail(err, LK_ERR_IO, path, "cannot be read: %s", strerror(code));
	if (!whole) return LK_OK;
	group->name = lk_intern_id(run->texts, text);
	return group->name == UINT32_MAX ? lk_oom(err) : LK_OK;
}

lk_status lk_recorded_find_members(lk_recorded_run *run, const char *path, lk_error *err) {
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 0, path);
	for (size_t i = 0; i < run->groups.count; i++)
		LK_TRY(groups_find_members(run, folder, &run->groups.at[i], err));
	return LK_OK;
}
