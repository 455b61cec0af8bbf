/* stalls_against.c: compares the files of two runs: of recordings, or of Darshan's logs. A file is
 * identified by its path. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/sort.h"
#include "stalls/stalls.h"

static lk_status profile_of_path(const char *path, lk_arena *arena, lk_stalls_profile *out,
                                 lk_error *err) {
	bool darshan;
	LK_TRY(lk_stalls_is_darshan(path, &darshan, err));
	if (!darshan) LK_TRY(lk_stalls_check_recording(path, err));
	return lk_stalls_profile_of(path, arena, out, err);
}

/* The largest change of time first. */
static int by_change(const void *a, const void *b) {
	const lk_stalls_pair *x = a, *y = b;
	double p = fabs(x->before_s - x->after_s), q = fabs(y->before_s - y->after_s);
	if (p != q) return p < q ? 1 : -1;
	return strcmp(x->path, y->path);
}

LK_ORDER_BY_TEXT(by_pair_path, lk_stalls_pair, path)

/* Join files of the two runs by path. `pairs` has room for all. */
static int join_files(const lk_stalls_profile *before, const lk_stalls_profile *after,
                      lk_stalls_pair *pairs) {
	size_t count = 0, kept = 0;
	for (size_t i = 0; i < before->files.count; i++) {
		const lk_stalls_file *file = &before->files.at[i];
		pairs[count++] = (lk_stalls_pair){.path = file->path,
		                                  .before_reads = file->reads,
		                                  .before_bytes = file->read_bytes,
		                                  .before_s = file->read_s};
	}
	for (size_t i = 0; i < after->files.count; i++) {
		const lk_stalls_file *file = &after->files.at[i];
		pairs[count++] = (lk_stalls_pair){.path = file->path,
		                                  .after_reads = file->reads,
		                                  .after_bytes = file->read_bytes,
		                                  .after_s = file->read_s};
	}
	lk_sort(pairs, count, sizeof *pairs, by_pair_path);
	for (size_t i = 0; i < count; i++) {
		lk_stalls_pair *last = kept ? &pairs[kept - 1] : NULL;
		if (!last || strcmp(last->path, pairs[i].path) != 0) {
			pairs[kept++] = pairs[i];
			continue;
		}
		last->before_reads += pairs[i].before_reads;
		last->before_bytes += pairs[i].before_bytes;
		last->before_s += pairs[i].before_s;
		last->after_reads += pairs[i].after_reads;
		last->after_bytes += pairs[i].after_bytes;
		last->after_s += pairs[i].after_s;
	}
	LK_ASSERT(kept <= count);
	lk_sort(pairs, kept, sizeof *pairs, by_change);
	return (int)kept;
}

lk_status lk_stalls_compare_files(const lk_stalls_profile *after, const char *path, lk_arena *arena,
                                  const lk_stalls_pair **out, int *count, lk_error *err) {
	lk_stalls_profile before = {0};
	lk_status status = profile_of_path(path, arena, &before, err);
	if (status == LK_OK) {
		lk_stalls_pair *pairs =
			LK_ARRAY(arena, lk_stalls_pair, before.files.count + after->files.count);
		if (pairs) *count = join_files(&before, after, pairs);
		else status = lk_oom(err);
		*out = pairs;
	}
	lk_stalls_profile_free(&before);
	return status;
}
