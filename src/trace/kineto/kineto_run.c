/* kineto_run.c: consecutive events of a piece of the file, read into columns of their own, and
 * appended to those of the whole file.
 *
 * An event is parsed from its own bytes; only name and lane ids depend on order, as they are
 * numbered by first use. A run numbers its own. Runs are joined in the order of the file, and new
 * names and lanes of each run in the run's order, so all get the numbers that reading the events
 * one by one would give. Events that depend on earlier ones (ph B and E), and threads that have a
 * name instead of a number, end a run. */
#include "trace/kineto/kineto_internal.h"

#include <stdlib.h>

#include "base/check.h"

enum {
	FEW_EVENTS = 32,      /* a shorter run may have begun in the text of an event */
	MANY_NAMES = 1 << 16, /* a reader with more names forgets them before the next piece */
	NAME_ROOM = 64        /* names allowed for a table's memory beyond its own count */
};

/* ---- reading ---- */

/* Start an empty capture; NULL when memory runs out. */
static void run_reset(lk_run *run) {
	lk_kineto *reader = run->reader;
	lk_capture_free(reader->capture);
	reader->capture = lk_capture_new("", "");
	reader->labels.count = 0;
	reader->mtia = false;
	memset(reader->odd, 0, sizeof reader->odd);
	run->names.count = run->lanes.count = 0;
	run->there = false;
}

bool lk_run_open(lk_run *run, const lk_kineto *kineto) {
	lk_kineto *reader = calloc(1, sizeof *reader);
	*run = (lk_run){.reader = reader};
	if (!reader) return false;
	reader->limits = kineto->limits;
	reader->limits.events = reader->limits.names = UINT64_MAX;
	reader->keys = kineto->keys;
	reader->free_call = LK_NONE;
	run_reset(run);
	return reader->capture != NULL;
}

void lk_run_close(lk_run *run) {
	if (run->reader) {
		lk_capture_free(run->reader->capture);
		lk_vec_free(&run->reader->labels);
		free(run->reader);
	}
	lk_vec_free(&run->names);
	lk_vec_free(&run->lanes);
}

/* The next '{' from `p` on that looks like the beginning of an event; NULL: none. */
static const char *run_find(const lk_keys *keys, const char *p, const char *end) {
	while (p < end && (p = memchr(p, '{', (size_t)(end - p)))) {
		if (end - p >= LK_LOOKAHEAD && lk_keys_begin(keys, p)) return p;
		p++;
	}
	return NULL;
}

/* The '{' after an event and its comma; NULL: something else. */
static const char *run_after(const char *p, const char *end) {
	while (p < end && (unsigned char)*p <= ' ') p++;
	if (p == end || *p++ != ',') return NULL;
	while (p < end && (unsigned char)*p <= ' ') p++;
	return p < end && *p == '{' ? p : NULL;
}

static bool is_numbered(lk_slice text) {
	return !text.at || (text.length && (unsigned)(text.at[text.length - 1] - '0') < 10);
}

/* Whether an event's meaning is independent of earlier ones. */
static bool run_stands_alone(const lk_kineto_fields *fields) {
	return fields->ph != 'B' && fields->ph != 'E' && is_numbered(fields->process_text) &&
	       is_numbered(fields->thread_text);
}

typedef enum run_state {
	RUN_OVER,  /* no event follows, or one that ends a run */
	RUN_SHORT, /* an event continues after the piece */
	RUN_FAILED,
} run_state;

/* Read and keep consecutive events from *at on, and move *at after the last. */
static run_state run_read(lk_kineto *reader, const char **at, const char *end, size_t *events) {
	for (const char *p = *at; p; p = run_after(*at, end), ++*events) {
		const char *after = p;
		int depth = 0;
		lk_event_state state = lk_kineto_event(&reader->f, &reader->keys, &after, end, &depth);
		if (state == LK_EVENT_SHORT) return RUN_SHORT;
		if (state == LK_EVENT_USELESS) {
			lk_skip skip = {.depth = depth};
			lk_skip_state skipped = lk_skip_on(&skip, &after, end);
			if (skipped != LK_SKIP_DONE) return skipped == LK_SKIP_SHORT ? RUN_SHORT : RUN_OVER;
			reader->mtia |= reader->f.kind == LK_KINETO_MTIA;
			reader->capture->dropped++;
		} else {
			if (state != LK_EVENT_DONE || !run_stands_alone(&reader->f)) return RUN_OVER;
			if (lk_kineto_keep(reader, p) != LK_OK) return RUN_FAILED;
		}
		*at = after;
	}
	return RUN_OVER;
}

void lk_run_make(lk_run *run, char *bytes, size_t size, uint64_t place) {
	lk_kineto *reader = run->reader;
	if (run->there || !reader->capture || lk_intern_count(reader->capture->names) > MANY_NAMES)
		run_reset(run);
	if (!reader->capture) return;
	const char *end = bytes + size, *first = run_find(&reader->keys, bytes, end);
	reader->window = (lk_window){.bytes = bytes, .at = bytes, .end = end};
	while (first) {
		const char *at = first;
		size_t events = 0;
		run_state state = run_read(reader, &at, end, &events);
		const char *next = at > first ? at : first + 1;
		if (state == RUN_OVER && events < FEW_EVENTS) next = run_find(&reader->keys, next, end);
		else next = NULL;
		if (!next && events && state != RUN_FAILED) {
			run->begin = place + (uint64_t)(first - bytes);
			run->end = place + (uint64_t)(at - bytes);
			run->lines = lk_window_newlines(bytes, at);
			run->there = true;
			return;
		}
		run_reset(run);
		if (!reader->capture) return;
		first = next;
	}
}

/* ---- joining ---- */

/* Whether the events of a run stay within all limits. */
static bool run_fits(const lk_kineto *kineto, const lk_run *run) {
	const lk_capture *to = kineto->capture, *from = run->reader->capture;
	const lk_read_limits *limits = &kineto->limits;
	uint64_t bytes = lk_intern_bytes_used(to->names) + lk_intern_bytes_used(from->names);
	return to->count + to->modules.count + kineto->open_count + from->count + from->modules.count <=
	           limits->events &&
	       lk_intern_count(to->names) + (uint64_t)lk_intern_count(from->names) <= limits->names &&
	       bytes / LK_BYTES_OF_A_NAME + NAME_ROOM <= limits->names &&
	       to->lanes.count + from->lanes.count <= LK_MOST_LANES &&
	       kineto->labels.count + run->reader->labels.count <= LK_MOST_LABELS &&
	       run->end <= limits->bytes;
}

/* Map the names and lanes that are new since this reader's last run. */
static bool join_numbers(lk_capture *to, lk_run *run) {
	const lk_capture *from = run->reader->capture;
	for (uint32_t i = (uint32_t)run->names.count; i < lk_intern_count(from->names); i++) {
		uint32_t name = lk_intern_id(to->names, lk_intern_text(from->names, i));
		if (name == LK_NONE || !lk_push(&run->names)) return false;
		*lk_last(&run->names) = name;
	}
	for (size_t i = run->lanes.count; i < from->lanes.count; i++) {
		const lk_lane *lane = &from->lanes.at[i];
		uint32_t number = lk_capture_lane(to, lane->stream, lane->process, lane->thread);
		if (number == LK_NONE || !lk_push(&run->lanes)) return false;
		*lk_last(&run->lanes) = number;
	}
	return true;
}

static bool join_labels(lk_kineto *kineto, const lk_run *run) {
	const lk_kineto *reader = run->reader;
	for (size_t i = 0; i < reader->labels.count; i++) {
		lk_lane_label label = reader->labels.at[i];
		label.name = run->names.at[label.name];
		if (!lk_push(&kineto->labels)) return false;
		*lk_last(&kineto->labels) = label;
	}
	return true;
}

lk_status lk_run_join(lk_kineto *kineto, lk_run *run, uint64_t lines, bool *taken) {
	lk_kineto *reader = run->reader;
	LK_ASSERT(run->there && !reader->open_count);
	*taken = run_fits(kineto, run);
	if (!*taken) return LK_OK;
	if (!join_numbers(kineto->capture, run) ||
	    !lk_capture_append(kineto->capture, reader->capture, run->names.at, run->lanes.at) ||
	    !join_labels(kineto, run))
		return lk_oom(kineto->err);
	for (int i = 0; i < LK_ODD_COUNT; i++) {
		if (!kineto->odd[i].count) kineto->odd[i].line = lines + reader->odd[i].line;
		kineto->odd[i].count += reader->odd[i].count;
	}
	kineto->capture->dropped += reader->capture->dropped;
	kineto->mtia |= reader->mtia;
	lk_capture_empty(reader->capture);
	reader->labels.count = 0;
	reader->mtia = false;
	memset(reader->odd, 0, sizeof reader->odd);
	run->there = false;
	return LK_OK;
}
