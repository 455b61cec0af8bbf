/* traces.c: captures as those of one run: which rank each is, that they belong together, matched
 * and on one clock. */
#include "trace/align/traces.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "trace/read/read.h"

enum {
	MOST_SENTENCES = 1000
};

struct lk_match_index {
	uint32_t *begin; /* [captures + 1] */
	struct place {
		uint32_t event, match;
	} * place; /* by capture, then event */
};

/* ---- sentences ---- */

static void add_sentence(lk_traces *traces, lk_sentences *to, const char *fmt, va_list args) {
	char text[700], plain[900];
	if (to->count > MOST_SENTENCES) return;
	vsnprintf(text, sizeof text, fmt, args);
	if (to->count == MOST_SENTENCES) lk_copy(text, sizeof text, "more of this kind are not listed");
	const char *kept = lk_arena_strdup(&traces->arena, lk_escape(text, plain, sizeof plain));
	if (kept && lk_push(to)) *lk_last(to) = kept;
}

void lk_traces_problem(lk_traces *traces, const char *fmt, ...) {
	va_list args;
	va_start(args, fmt);
	add_sentence(traces, &traces->problems, fmt, args);
	va_end(args);
}

void lk_traces_warn(lk_traces *traces, const char *fmt, ...) {
	va_list args;
	va_start(args, fmt);
	add_sentence(traces, &traces->warnings, fmt, args);
	va_end(args);
}

void lk_traces_note(lk_traces *traces, const char *fmt, ...) {
	va_list args;
	va_start(args, fmt);
	add_sentence(traces, &traces->notes, fmt, args);
	va_end(args);
}

/* ---- which rank ---- */

/* The number behind `word` and at most one of "_-. "; -1 if there is none. The last such place
 * counts. */
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

/* "trace.3.json": a short number between dots; dates and process numbers are longer. */
static int32_t number_between_dots(const char *name) {
	for (const char *at = name; (at = strchr(at, '.')); at++) {
		size_t digits = strspn(at + 1, "0123456789");
		if (digits > 0 && digits < 6 && at[1 + digits] == '.')
			return (int32_t)strtol(at + 1, NULL, 10);
	}
	return -1;
}

int32_t lk_trace_rank_in_name(const char *path) {
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	int32_t rank = number_after(name, "rank");
	if (rank < 0) rank = number_after(name, "worker");
	return rank >= 0 ? rank : number_between_dots(name);
}

static int traces_by_number(const void *a, const void *b) {
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
	return x < y ? -1 : x > y;
}

/* Those without a rank get the numbers that are left, in the order of the files. */
static lk_status number_rest(lk_traces *traces, lk_error *err) {
	int32_t *taken = malloc((traces->count + 1) * sizeof *taken);
	if (!taken) return lk_oom(err);
	uint32_t n = 0, at = 0;
	for (uint32_t i = 0; i < traces->count; i++)
		if (traces->capture[i]->rank >= 0) taken[n++] = traces->capture[i]->rank;
	qsort(taken, n, sizeof *taken, traces_by_number);
	int32_t next = 0;
	for (uint32_t i = 0; i < traces->count; i++) {
		if (traces->capture[i]->rank >= 0) continue;
		for (; at < n && taken[at] <= next; at++)
			if (taken[at] == next) next++;
		traces->capture[i]->rank = next++;
		if (traces->count > 1)
			lk_traces_warn(
				traces, "%s: neither the file nor its name says which rank it is; taken as rank %d",
				traces->capture[i]->path, next - 1);
	}
	free(taken);
	return LK_OK;
}

static int traces_by_rank(const void *a, const void *b) {
	const lk_capture *x = *(lk_capture *const *)a, *y = *(lk_capture *const *)b;
	if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
	return strcmp(x->path, y->path);
}

static lk_status traces_find_ranks(lk_traces *traces, lk_error *err) {
	for (uint32_t i = 0; i < traces->count; i++)
		if (traces->capture[i]->rank < 0)
			traces->capture[i]->rank = lk_trace_rank_in_name(traces->capture[i]->path);
	LK_TRY(number_rest(traces, err));
	qsort(traces->capture, traces->count, sizeof *traces->capture, traces_by_rank);
	for (uint32_t i = 1; i < traces->count; i++) {
		const lk_capture *a = traces->capture[i - 1], *b = traces->capture[i];
		if (a->rank != b->rank) continue;
		lk_fail(err, LK_ERR_INPUT, b->path, "is of rank %d, as %s is", b->rank, a->path);
		return lk_hint(err, "give one file per rank of one run");
	}
	return LK_OK;
}

static lk_status traces_find_world(lk_traces *traces, lk_error *err) {
	const lk_capture *said = NULL;
	for (uint32_t i = 0; i < traces->count; i++) {
		const lk_capture *capture = traces->capture[i];
		if (capture->world <= 0) continue;
		if (said && said->world != capture->world) {
			lk_fail(err, LK_ERR_INPUT, capture->path,
			        "is of a run with %d ranks, but %s of one with %d", capture->world, said->path,
			        said->world);
			return lk_hint(err, "give the traces of one run");
		}
		said = capture;
	}
	const lk_capture *last = traces->capture[traces->count - 1];
	traces->world = said ? said->world : last->rank + 1;
	if (last->rank >= traces->world) {
		lk_traces_warn(traces, "%s: rank %d in a run of %d ranks", last->path, last->rank,
		               traces->world);
		traces->world = last->rank + 1;
	}
	return LK_OK;
}

/* ---- the match of an event ---- */

static int traces_by_event(const void *a, const void *b) {
	const struct place *x = a, *y = b;
	return x->event < y->event ? -1 : x->event > y->event;
}

static lk_status make_index(lk_traces *traces, lk_error *err) {
	struct lk_match_index *match_index = traces->index =
		LK_NEW(&traces->arena, struct lk_match_index);
	if (!match_index) return lk_oom(err);
	match_index->begin = LK_ARRAY(&traces->arena, uint32_t, traces->count + 2);
	match_index->place = LK_ARRAY(&traces->arena, struct place, traces->members.count + 1);
	if (!match_index->begin || !match_index->place) return lk_oom(err);
	for (size_t i = 0; i < traces->members.count; i++)
		match_index->begin[traces->members.at[i].capture + 2]++;
	for (uint32_t c = 0; c < traces->count; c++)
		match_index->begin[c + 2] += match_index->begin[c + 1];
	for (uint32_t m = 0; m < traces->matches.count; m++)
		for (uint32_t k = traces->matches.at[m].begin; k < traces->matches.at[m].end; k++)
			match_index->place[match_index->begin[traces->members.at[k].capture + 1]++] =
				(struct place){traces->members.at[k].event, m};
	for (uint32_t c = 0; c < traces->count; c++)
		qsort(match_index->place + match_index->begin[c],
		      match_index->begin[c + 1] - match_index->begin[c], sizeof *match_index->place,
		      traces_by_event);
	return LK_OK;
}

const lk_match *lk_traces_match(const lk_traces *traces, uint32_t capture, uint32_t event) {
	const struct lk_match_index *match_index = traces->index;
	struct place key = {.event = event};
	struct place *at = bsearch(&key, match_index->place + match_index->begin[capture],
	                           match_index->begin[capture + 1] - match_index->begin[capture],
	                           sizeof key, traces_by_event);
	return at ? &traces->matches.at[at->match] : NULL;
}

/* ---- all together ---- */

static lk_status find_collectives(lk_traces *traces, lk_error *err) {
	lk_run_calls calls = {0};
	lk_status status = lk_calls_find(traces, &calls, err);
	if (status == LK_OK) status = lk_calls_match(traces, &calls, err);
	lk_calls_free(traces, &calls);
	return status;
}

static lk_status traces_make(lk_traces *traces, lk_works *const *works, uint32_t work_count,
                             lk_error *err) {
	LK_TRY(traces_find_ranks(traces, err));
	LK_TRY(traces_find_world(traces, err));
	LK_TRY(lk_traces_link(traces, works, work_count, err));
	for (uint32_t i = 0; i < traces->count; i++)
		for (size_t w = 0; w < traces->capture[i]->warnings.count; w++)
			lk_traces_warn(traces, "%s: %s", traces->capture[i]->path,
			               traces->capture[i]->warnings.at[w]);
	traces->shift_ns = LK_ARRAY(&traces->arena, int64_t, traces->count);
	traces->drift_ppm = LK_ARRAY(&traces->arena, double, traces->count);
	traces->middle_ns = LK_ARRAY(&traces->arena, int64_t, traces->count);
	if (!traces->shift_ns || !traces->drift_ppm || !traces->middle_ns) return lk_oom(err);
	LK_TRY(find_collectives(traces, err));
	LK_TRY(lk_traces_align(traces, err));
	return make_index(traces, err);
}

static lk_status make_of(lk_capture **captures, uint32_t count, lk_works *const *works,
                         uint32_t work_count, lk_traces **out, lk_error *err) {
	lk_traces *traces = calloc(1, sizeof *traces);
	lk_capture **own = traces ? LK_ARRAY(&traces->arena, lk_capture *, count) : NULL;
	if (!own) {
		for (uint32_t i = 0; i < count; i++) lk_capture_free(captures[i]);
		free(traces);
		return lk_oom(err);
	}
	if (count) memcpy(own, captures, count * sizeof *own);
	traces->capture = own;
	traces->count = count;
	lk_status status = count ? traces_make(traces, works, work_count, err)
	                         : lk_fail(err, LK_ERR_INPUT, NULL, "no trace is given");
	if (status == LK_OK) *out = traces;
	else lk_traces_free(traces);
	return status;
}

lk_status lk_traces_make(lk_capture **captures, uint32_t count, lk_traces **out, lk_error *err) {
	return make_of(captures, count, NULL, 0, out, err);
}

lk_status lk_traces_join(lk_trace_files *files, lk_traces **out, lk_error *err) {
	uint32_t count = files->captures;
	files->captures = 0;
	return make_of(files->capture, count, files->works, files->work_count, out, err);
}

void lk_traces_free(lk_traces *traces) {
	if (!traces) return;
	for (uint32_t i = 0; i < traces->count; i++) lk_capture_free(traces->capture[i]);
	lk_vec_free(&traces->matches);
	lk_vec_free(&traces->members);
	lk_vec_free(&traces->groups);
	lk_vec_free(&traces->problems);
	lk_vec_free(&traces->warnings);
	lk_vec_free(&traces->notes);
	lk_arena_free(&traces->arena);
	free(traces);
}

static lk_status refuse_without_times(const lk_works *works, lk_error *err) {
	lk_fail(err, LK_ERR_INPUT, works->path, "is a %s: it does not say when things ran",
	        works->format);
	return lk_hint(err, "give a profile (Kineto, Nsight Systems) with it, or "
	                    "`lockstep replay FILE --overheads FILE --gpu NAME`");
}

lk_status lk_traces_read(const char *const *paths, uint32_t count, const lk_read_limits *limits,
                         int threads, lk_traces **out, lk_error *err) {
	lk_trace_files files;
	LK_TRY(lk_trace_files_read(paths, count, limits, threads, &files, err));
	lk_status status = files.captures ? lk_traces_join(&files, out, err)
	                                  : refuse_without_times(files.works[0], err);
	lk_trace_files_free(&files);
	return status;
}
