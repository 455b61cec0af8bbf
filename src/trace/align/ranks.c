/* ranks.c: the rank of each capture and the size of the run: from the file's content, else from its
 * name, else from the order in which files are given. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/noun.h"
#include "base/sort.h"
#include "base/text.h"
#include "trace/align/align_internal.h"

/* The number after the last `word` and at most one of "_-. "; -1 if there is none. */
static int32_t number_after(const char *name, const char *word) {
	int32_t found = -1;
	size_t length = strlen(word);
	for (const char *at = name; *at; at++) {
		if (strncasecmp(at, word, length) != 0) continue;
		const char *digit = at + length;
		if (*digit && strchr("_-.", *digit)) digit++;
		char *end;
		if (!isdigit((unsigned char)*digit)) continue;
		long number = strtol(digit, &end, 10);
		if (number < 1 << 30) found = (int32_t)number;
	}
	return found;
}

/* Whether the dot at `at` is between numbers, as in addresses (34.83.195.179) and versions. */
static bool between_numbers(const char *name, const char *at) {
	return at > name && isdigit((unsigned char)at[-1]) && isdigit((unsigned char)at[1]);
}

/* "trace.3.json": a short number between dots; dates and process numbers are longer, and those of
 * addresses and versions have other numbers beside them. */
static int32_t number_between_dots(const char *name) {
	for (const char *at = name; (at = strchr(at, '.')); at++) {
		size_t digits = strspn(at + 1, "0123456789");
		const char *end = at + 1 + digits;
		if (digits > 0 && digits < 6 && *end == '.' && !between_numbers(name, at) &&
		    !between_numbers(name, end))
			return (int32_t)strtol(at + 1, NULL, 10);
	}
	return -1;
}

int32_t lk_trace_rank_in_name(const char *path) {
	const char *name = lk_file_name(path);
	int32_t rank = number_after(name, "rank");
	if (rank < 0) rank = number_after(name, "worker");
	return rank >= 0 ? rank : number_between_dots(name);
}

/* Give captures without a rank the unused numbers, in the order of the files. */
static lk_status number_rest(lk_traces *traces, lk_error *err) {
	int32_t *taken = malloc((traces->count + 1) * sizeof *taken);
	if (!taken) return lk_oom(err);
	uint32_t n = 0, at = 0;
	for (uint32_t i = 0; i < traces->count; i++)
		if (traces->capture[i]->rank >= 0) taken[n++] = traces->capture[i]->rank;
	lk_sort(taken, n, sizeof *taken, lk_by_int);
	int32_t next = 0;
	for (uint32_t i = 0; i < traces->count; i++) {
		if (traces->capture[i]->rank >= 0) continue;
		for (; at < n && taken[at] <= next; at++)
			if (taken[at] == next) next++;
		traces->capture[i]->rank = next++;
		if (traces->count > 1 && traces->capture[i]->parts < 2)
			lk_traces_warn(
				traces, "%s: neither the file nor its name says which rank it is; taken as rank %d",
				traces->capture[i]->path, next - 1);
	}
	LK_ASSERT(n <= traces->count);
	free(taken);
	return LK_OK;
}

static int traces_by_rank(const void *a, const void *b) {
	const lk_capture *x = *(lk_capture *const *)a, *y = *(lk_capture *const *)b;
	if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
	return strcmp(x->path, y->path);
}

lk_status lk_traces_find_ranks(lk_traces *traces, lk_error *err) {
	for (uint32_t i = 0; i < traces->count; i++)
		if (traces->capture[i]->rank < 0 && traces->capture[i]->parts < 2)
			traces->capture[i]->rank = lk_trace_rank_in_name(traces->capture[i]->path);
	LK_TRY(number_rest(traces, err));
	lk_sort(traces->capture, traces->count, sizeof *traces->capture, traces_by_rank);
	LK_ASSERT(traces->count > 0);
	for (uint32_t i = 1; i < traces->count; i++) {
		const lk_capture *a = traces->capture[i - 1], *b = traces->capture[i];
		if (a->rank != b->rank) continue;
		lk_fail(err, LK_ERR_INPUT, b->path, "is of rank %d, as %s is", b->rank, a->path);
		return lk_hint(err, "give one file per rank of one run");
	}
	return LK_OK;
}

lk_status lk_traces_find_world(lk_traces *traces, lk_error *err) {
	const lk_capture *said = NULL;
	for (uint32_t i = 0; i < traces->count; i++) {
		const lk_capture *capture = traces->capture[i];
		if (capture->world <= 0) continue;
		if (said && said->world != capture->world) {
			lk_fail(err, LK_ERR_INPUT, capture->path,
			        "is of a run with %d %s, but %s of one with %d", capture->world,
			        lk_noun(capture->world, "rank", "ranks"), said->path, said->world);
			return lk_hint(err, "give the traces of one run");
		}
		said = capture;
	}
	const lk_capture *last = traces->capture[traces->count - 1];
	traces->world = said ? said->world : last->rank + 1;
	if (last->rank >= traces->world) {
		lk_traces_warn(traces, "%s: rank %d in a run of %d %s", last->path, last->rank,
		               traces->world, lk_noun(traces->world, "rank", "ranks"));
		traces->world = last->rank + 1;
	}
	return LK_OK;
}
