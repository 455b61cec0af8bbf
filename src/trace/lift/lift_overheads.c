/* lift_overheads.c: host time of a lifted rank's threads, as overheads: the pieces by term and
 * name, and the most frequent list of calls of each operation name. The pieces T2, T4, T5, .. T3 of
 * an operation share one path; those of nested operations lie between them. */
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/text.h"
#include "trace/lift/lift_internal.h"

enum {
	MOST_OPEN = 512,
	CALLS = 4096 /* characters of a list */
};

static const char BETWEEN[] = "\n";

struct overheads_open {
	uint32_t path, name;
	size_t length; /* of its calls, which are last in the text */
};

struct collecting {
	const lk_lifted_rank *rank;
	lk_overheads *out;
	struct overheads_open open[MOST_OPEN];
	int depth;
	char calls[CALLS];
	size_t length;
	lk_intern *lists;        /* an operation's name, and its calls */
	LK_VEC(uint32_t) counts; /* by list: its count */
	lk_error *err;
};

/* Close the innermost open operation and count its list of calls. */
static lk_status overheads_close(struct collecting *collecting) {
	const struct overheads_open *open = &collecting->open[--collecting->depth];
	char list[2 * CALLS];
	collecting->length -= open->length;
	lk_text text = lk_text_begin(list, sizeof list);
	lk_text_add(&text, "%.*s%s%.*s", CALLS - 1,
	            lk_capture_text(collecting->rank->capture, open->name), BETWEEN,
	            (int)open->length - (open->length > 0), collecting->calls + collecting->length);
	uint32_t id = lk_intern_id(collecting->lists, list);
	if (id == UINT32_MAX) return lk_oom(collecting->err);
	while (collecting->counts.count <= id)
		if (!lk_push(&collecting->counts)) return lk_oom(collecting->err);
	collecting->counts.at[id]++;
	return LK_OK;
}

/* Add the most frequent list of calls of each operation. */
static lk_status overheads_add_calls(struct collecting *collecting) {
	lk_intern *names = lk_intern_new();
	LK_VEC(uint32_t) best = {0}; /* by name: 1 + list */
	lk_status status = names ? LK_OK : lk_oom(collecting->err);
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t list = 0; list < collecting->counts.count && status == LK_OK; list++) {
			char name[CALLS];
			const char *text = lk_intern_text(collecting->lists, list), *at = strstr(text, BETWEEN);
			if (!at) continue; /* the empty text */
			lk_text copy = lk_text_begin(name, sizeof name);
			lk_text_add(&copy, "%.*s", (int)(at - text), text);
			uint32_t id = lk_intern_id(names, name);
			while (id != UINT32_MAX && best.count <= id)
				if (!lk_push(&best)) id = UINT32_MAX;
			if (id == UINT32_MAX) status = lk_oom(collecting->err);
			else if (pass && best.at[id] == list + 1)
				status = lk_overheads_add_calls(collecting->out, name, at + strlen(BETWEEN),
				                                collecting->err);
			else if (!pass && (!best.at[id] || collecting->counts.at[list] >
			                                       collecting->counts.at[best.at[id] - 1]))
				best.at[id] = list + 1;
		}
	lk_vec_free(&best);
	lk_intern_free(names);
	return status;
}

/* Close the operations that do not contain the piece. False: its operation is not open. */
static lk_status overheads_find(struct collecting *collecting, uint32_t path, bool *found) {
	int depth = collecting->depth;
	while (depth > 0 && collecting->open[depth - 1].path != path) depth--;
	*found = depth > 0;
	while (*found && collecting->depth > depth) LK_TRY(overheads_close(collecting));
	return LK_OK;
}

static lk_status overheads_follow(struct collecting *collecting, const lk_host_piece *piece) {
	bool found = false;
	if (piece->term == LK_T1)
		while (collecting->depth > 0) LK_TRY(overheads_close(collecting));
	if (piece->term == LK_T2 && collecting->depth < MOST_OPEN)
		collecting->open[collecting->depth++] =
			(struct overheads_open){piece->path, piece->name, 0};
	if (piece->term != LK_T3 && piece->term != LK_T4) return LK_OK;
	LK_TRY(overheads_find(collecting, piece->path, &found));
	if (!found) return LK_OK;
	if (piece->term == LK_T3) return overheads_close(collecting);
	const char *name = lk_capture_text(collecting->rank->capture, piece->name);
	size_t length = strlen(name) + 1;
	if (collecting->length + length >= sizeof collecting->calls) return LK_OK;
	memcpy(collecting->calls + collecting->length, name, length - 1);
	collecting->calls[collecting->length + length - 1] = ';';
	collecting->length += length;
	collecting->open[collecting->depth - 1].length += length;
	return LK_OK;
}

/* A call that was cut at its launch counts as one observation. */
static lk_status overheads_add_piece(struct collecting *collecting, const lk_host_piece *piece) {
	const lk_lifted_rank *rank = collecting->rank;
	int64_t dur =
		piece->dur_ns + (piece->half == LK_NONE ? 0 : rank->pieces.at[piece->half].dur_ns);
	bool gap = piece->term == LK_T1 && dur > LK_GAP_NS;
	if (piece->event == LK_NONE || gap || piece->blocked) return LK_OK;
	return lk_overheads_add(collecting->out, piece->term,
	                        lk_capture_text(rank->capture, piece->name), (double)dur * 1e-3,
	                        collecting->err);
}

lk_status lk_lifted_overheads(const lk_lifted_rank *rank, lk_overheads *out, lk_error *err) {
	struct collecting *collecting = calloc(1, sizeof *collecting);
	if (!collecting) return lk_oom(err);
	*collecting =
		(struct collecting){.rank = rank, .out = out, .lists = lk_intern_new(), .err = err};
	lk_status status = collecting->lists ? LK_OK : lk_oom(err);
	for (size_t i = 0; i < rank->pieces.count && status == LK_OK; i++) {
		const lk_host_piece *piece = &rank->pieces.at[i];
		if (piece->second) continue;
		status = overheads_add_piece(collecting, piece);
		if (status == LK_OK) status = overheads_follow(collecting, piece);
	}
	while (status == LK_OK && collecting->depth > 0) status = overheads_close(collecting);
	if (status == LK_OK) status = overheads_add_calls(collecting);
	lk_intern_free(collecting->lists);
	lk_vec_free(&collecting->counts);
	free(collecting);
	return status;
}
