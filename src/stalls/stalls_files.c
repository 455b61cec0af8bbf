/* stalls_files.c: the files that a run reads, and which of them to put on a fast tier (as
 * tf-Darshan, arXiv 2008.04395, chose by hand).
 *
 * A file on a tier takes opens and reads x latency + bytes / rate; the time saved against this run
 * is its value, its size its weight. Files are taken by value over size as long as they fit: the
 * optimum is better by at most the largest value. Sizes of reads are counted in Darshan's classes;
 * calls recorded together all count in the class of their mean. */
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sort.h"
#include "options/number_words.h"
#include "stalls/stalls.h"

/* Inclusive upper ends of the classes; the last has none. */
static const double class_ends[LK_STALLS_CLASSES - 1] = {
	100, 1024, 10240, 102400, 1048576, 4194304, 10485760, 104857600, 1073741824,
};

int lk_stalls_read_class(double bytes) {
	int class = 0;
	while (class < LK_STALLS_CLASSES - 1 && bytes > class_ends[class]) class ++;
	return class;
}

lk_status lk_stalls_file_of(lk_stalls_profile *profile, const char *path, lk_arena *arena,
                            lk_stalls_file **out, lk_error *err) {
	if (!profile->paths && !(profile->paths = lk_intern_new())) return lk_oom(err);
	uint32_t number = lk_intern_id(profile->paths, path);
	if (number == UINT32_MAX) return lk_oom(err);
	if (number > profile->files.count) {
		if (!lk_push(&profile->files)) return lk_oom(err);
		lk_last(&profile->files)->path = lk_arena_strdup(arena, path);
		if (!lk_last(&profile->files)->path) return lk_oom(err);
	}
	*out = &profile->files.at[number - 1];
	return LK_OK;
}

static int by_read_time(const void *a, const void *b) {
	const lk_stalls_file *x = a, *y = b;
	if (x->read_s != y->read_s) return x->read_s < y->read_s ? 1 : -1;
	return strcmp(x->path, y->path);
}

static int by_worth(const void *a, const void *b) {
	const lk_stalls_file *const *x = a, *const *y = b;
	double p = (*x)->gain_s * (*y)->size, q = (*y)->gain_s * (*x)->size;
	if (p != q) return p < q ? 1 : -1;
	return strcmp((*x)->path, (*y)->path);
}

/* ---- the fast tier ---- */

struct tier {
	double bytes, rate, latency_s;
};

static const lk_number_word words[] = {
	{"size", "GB", offsetof(struct tier, bytes), 1e-9, 1e9, 1e9, false},
	{"rate", "GB/s", offsetof(struct tier, rate), 1e-6, 1e6, 1e9, false},
	{"latency", "us", offsetof(struct tier, latency_s), 0, 1e9, 1e-6, false},
};
static const lk_word_list tier_words = {
	"--staging", words, sizeof words / sizeof *words,
	"give words as size=4GB rate=2GB/s latency=100us: of the fast tier"};

lk_status lk_stalls_staging_check(const char *staging, lk_error *err) {
	struct tier tier = {0};
	const char *over;
	LK_TRY(lk_number_words_read(&tier_words, staging, &tier, &over, err));
	if (over) return lk_number_words_refuse(&tier_words, "over", "is not understood", err);
	return tier.bytes > 0 ? LK_OK : lk_number_words_refuse(&tier_words, "size", "is missing", err);
}

lk_status lk_stalls_stage(lk_stalls_profile *profile, const char *said, lk_arena *arena,
                          lk_stalls_staging *out, lk_error *err) {
	struct tier tier = {.rate = 2e9, .latency_s = 100e-6};
	const char *over;
	size_t count = profile->files.count;
	lk_stalls_file **order = LK_ARRAY(arena, lk_stalls_file *, count);
	if (!order) return lk_oom(err);
	if (said) LK_TRY(lk_number_words_read(&tier_words, said, &tier, &over, err));
	lk_sort(profile->files.at, count, sizeof *profile->files.at, by_read_time);
	*out = (lk_stalls_staging){.size = tier.bytes};
	for (size_t i = 0; i < count; i++) {
		lk_stalls_file *file = order[i] = &profile->files.at[i];
		double fast_s = file->reads * tier.latency_s + file->read_bytes / tier.rate;
		out->read_s += file->read_s;
		file->gain_s = said ? fmax(0, file->read_s - fast_s) : 0;
		out->bound_s = fmax(out->bound_s, file->gain_s);
	}
	lk_sort(order, count, sizeof *order, by_worth);
	for (size_t i = 0; i < count; i++) {
		lk_stalls_file *file = order[i];
		out->unknown += file->gain_s > 0 && !(file->size > 0);
		if (!(file->gain_s > 0) || !(file->size > 0) || out->used + file->size > tier.bytes)
			continue;
		file->staged = true;
		out->files++;
		out->used += file->size;
		out->gain_s += file->gain_s;
	}
	return LK_OK;
}

void lk_stalls_profile_free(lk_stalls_profile *profile) {
	lk_vec_free(&profile->files);
	lk_intern_free(profile->paths);
}
