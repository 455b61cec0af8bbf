/* recorded_steps.c: where the steps of a recorded program begin.
 *
 * With a marker: at every call that it names. Else by the period of the main thread's communication: each call is a token
 * (which call, communicator, bytes); the period is the shortest one whose longest unbroken stretch covers nearly as much
 * as that of any other; then every place where the tokens of one period occur in order is a step. A step begins where the
 * call before its first one ended. That stretch's first call is the first one of the program's loop, so that all ranks of
 * a run begin alike. */
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "trace/recorded.h"

/* Periods longer than that are not looked for, nor in more calls than that: the search is their product. */
enum { LONGEST_PERIOD = 4096, LOOKED_AT = 1 << 15, REPEATS = 3 };
static const double NEARLY = 0.9;

typedef struct tokens {
	LK_VEC(uint64_t) token;
	LK_VEC(uint32_t) call;   /* of each, in run->calls */
} tokens;

static bool begins_something(const lk_record_entry *r) {
	return r->kind == LK_RECORD_COMM && r->comm.what != LK_WHAT_OTHER &&
	       (r->comm.part == LK_PART_WHOLE || r->comm.part == LK_PART_POST || r->comm.part == LK_PART_START ||
	        r->comm.part == LK_PART_ENQUEUE);
}

static lk_status collect(const lk_recorded_run *run, tokens *t, lk_error *err) {
	for (uint32_t i = 0; i < run->calls.count; i++) {
		const lk_recorded_call *call = &run->calls.at[i];
		const lk_record_entry *r = &call->record;
		if (call->process || r->thread != run->main_thread || !begins_something(r)) continue;
		if (!lk_push(&t->token) || !lk_push(&t->call)) return lk_oom(err);
		uint64_t key = lk_hash64((uint64_t)r->comm.call << 32 | r->object);
		*lk_last(&t->token) = lk_hash64(key ^ (uint64_t)r->bytes ^ (uint64_t)(uint32_t)r->comm.peer << 40);
		*lk_last(&t->call) = i;
	}
	return LK_OK;
}

/* How many tokens the longest stretch with this period has, and where it begins. */
static size_t longest(const uint64_t *token, size_t count, size_t period, size_t *where) {
	size_t best = 0, run = 0;
	for (size_t i = 0; i + period < count; i++) {
		run = token[i] == token[i + period] ? run + 1 : 0;
		if (run > best) best = run, *where = i + 1 - run;
	}
	return best ? best + period : 0;
}

static size_t find_period(const uint64_t *token, size_t count, size_t *where) {
	size_t best = 0, unused, most = count / REPEATS;
	if (most > LONGEST_PERIOD) most = LONGEST_PERIOD;
	size_t *covered = calloc(most + 1, sizeof *covered);
	size_t period = 0;
	for (size_t p = 1; covered && p <= most; p++) {
		covered[p] = longest(token, count, p, &unused);
		if (covered[p] < p * REPEATS) covered[p] = 0;
		if (covered[p] > best) best = covered[p];
	}
	for (size_t p = 1; covered && best && p <= most && !period; p++)
		if ((double)covered[p] >= NEARLY * (double)best) period = p;
	free(covered);
	if (period) longest(token, count, period, where);
	return period;
}

/* ---- where steps begin ---- */

/* The end of a call: where it was waited for, then. */
static int64_t end_of(const lk_recorded_run *run, uint32_t call) {
	const lk_recorded_call *c = &run->calls.at[call];
	bool waited = c->done != LK_NONE && c->record.comm.part != LK_PART_WHOLE;
	return waited ? run->calls.at[c->done].record.end_ns : c->record.end_ns;
}

static bool waits_for_device(const lk_record_entry *r) {
	return r->kind == LK_RECORD_DEVICE_CALL && (r->device.what == LK_DEVICE_WAIT_STREAM ||
	                                            r->device.what == LK_DEVICE_WAIT_EVENT || r->device.what == LK_DEVICE_WAIT_ALL);
}

/* What is on a stream is over when the host has waited for it: the first wait of the main thread between the token and the
 * next one; where there is none, when it was put there. */
static int64_t end_of_enqueued(const lk_recorded_run *run, uint32_t token, uint32_t next) {
	for (uint32_t i = token + 1; i < next && i < run->calls.count; i++) {
		const lk_recorded_call *c = &run->calls.at[i];
		if (!c->process && c->record.thread == run->main_thread && waits_for_device(&c->record)) return c->record.end_ns;
	}
	return run->calls.at[token].record.end_ns;
}

/* The end of what was begun before token `at`: the last `period` calls, for requests may be done out of order. */
static int64_t end_before(const lk_recorded_run *run, const tokens *t, size_t at, size_t period) {
	uint32_t last = at ? t->call.at[at - 1] : 0;
	if (at && run->calls.at[last].record.comm.part == LK_PART_ENQUEUE)
		return end_of_enqueued(run, last, at < t->call.count ? t->call.at[at] : (uint32_t)run->calls.count);
	int64_t end = 0, next = at < t->call.count ? run->calls.at[t->call.at[at]].record.start_ns : INT64_MAX;
	for (size_t i = at > period ? at - period : 0; i < at; i++) {
		int64_t done = end_of(run, t->call.at[i]);
		if (done > end && done <= next) end = done;
	}
	return end;
}

static lk_status add_moment(lk_recorded_steps *out, int64_t ns, lk_error *err) {
	if (out->begin.count && ns <= *lk_last(&out->begin)) return LK_OK;
	if (!lk_push(&out->begin)) return lk_oom(err);
	*lk_last(&out->begin) = ns;
	return LK_OK;
}

/* Occurrences of the period that begins at `model`; where one is broken off (a checkpoint, an evaluation), the next one
 * begins anew, and what lies between belongs to the step before. */
static lk_status mark(const lk_recorded_run *run, const tokens *t, size_t model, size_t period, lk_recorded_steps *out,
                      lk_error *err) {
	const uint64_t *word = t->token.at + model;
	size_t last = 0;
	for (size_t at = 0; at + period <= t->token.count;) {
		if (memcmp(t->token.at + at, word, period * sizeof *word) != 0) {
			at++;
			continue;
		}
		int64_t begin = at ? end_before(run, t, at, period) : run->calls.at[t->call.at[0]].record.start_ns;
		LK_TRY(add_moment(out, begin, err));
		last = at += period;
	}
	if (out->begin.count) LK_TRY(add_moment(out, end_before(run, t, last, period), err));
	return LK_OK;
}

static lk_status by_period(const lk_recorded_run *run, lk_recorded_steps *out, lk_error *err) {
	tokens t = {0};
	size_t where = 0, period = 0;
	lk_status status = collect(run, &t, err);
	size_t looked = t.token.count < LOOKED_AT ? t.token.count : LOOKED_AT;
	if (status == LK_OK && looked) period = find_period(t.token.at, looked, &where);
	if (period) {
		out->calls = (uint32_t)period;
		status = mark(run, &t, where, period, out, err);
	}
	lk_vec_free(&t.token);
	lk_vec_free(&t.call);
	return status;
}

/* ---- by marker ---- */

static bool is_marker(const lk_recorded_run *run, const lk_recorded_call *call, const char *marker) {
	const lk_record_entry *r = &call->record;
	const char *colon = strchr(marker, ':');
	size_t length = colon ? (size_t)(colon - marker) : 0;
	if (!colon) {
		bool device = r->kind == LK_RECORD_DEVICE_CALL;
		const lk_recorded_name *name = device || begins_something(r)
		                                   ? lk_recorded_find(&run->names, call->process, device ? r->device.call : r->comm.call)
		                                   : NULL;
		return name && strcmp(lk_intern_text(run->texts, name->name), marker) == 0;
	}
	static const struct { const char *word; lk_record_kind kind; } words[] = {
		{"open", LK_RECORD_OPEN}, {"read", LK_RECORD_READ}, {"write", LK_RECORD_WRITE}, {"close", LK_RECORD_CLOSE}};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (strncmp(words[i].word, marker, length) != 0 || words[i].word[length] || r->kind != words[i].kind) continue;
		const lk_recorded_name *file = lk_recorded_find(&run->files, call->process, r->object);
		return file && strstr(lk_intern_text(run->texts, file->name), colon + 1);
	}
	return false;
}

static lk_status by_marker(const lk_recorded_run *run, lk_recorded_steps *out, lk_error *err) {
	int64_t last = 0;
	for (size_t i = 0; i < run->calls.count; i++) {
		const lk_recorded_call *call = &run->calls.at[i];
		if (call->process == 0 && call->record.thread == run->main_thread && call->record.end_ns > last)
			last = call->record.end_ns;
		if (call->process || call->record.thread != run->main_thread || !is_marker(run, call, run->head.marker)) continue;
		LK_TRY(add_moment(out, call->record.start_ns, err));
	}
	return out->begin.count ? add_moment(out, last, err) : LK_OK;
}

lk_status lk_recorded_find_steps(const lk_recorded_run *run, lk_recorded_steps *out, lk_error *err) {
	*out = (lk_recorded_steps){.calls = 0};
	lk_status status = *run->head.marker ? by_marker(run, out, err) : by_period(run, out, err);
	if (out->begin.count < 2) out->begin.count = 0;
	return status;
}
