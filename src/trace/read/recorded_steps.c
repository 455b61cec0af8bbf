/* recorded_steps.c: finds where the steps of a recorded program begin.
 *
 * With a marker: at every call that it names. Without one, or where no loader marked its batches:
 * by the period of what the program repeats; the first of these that has one:
 *
 *     the main thread's communication     which call, communicator, bytes
 *     messages to its busiest connection  their sizes (gloo); if all are alike, the pauses
 *         between them
 *     the main thread's reads of pipes    (batches of loader processes)
 *     files that the main thread opens, reads and writes; calls that are all alike are steps by
 *         the pauses between them, or each is one
 *
 * Each call is a token; the period is the shortest one whose longest unbroken stretch covers nearly
 * as much as that of any other, in tokens, and of files also in time.
 * Then every place where the tokens of one period occur in order is a step. Messages are sent by
 * threads, so those of the next step may come in another order. A step begins where the call before
 * its first one ended. The stretch's first call is the first one of the program's loop, so all
 * ranks of a run begin alike. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/text.h"
#include "base/sort.h"
#include "trace/read/read.h"

/* Limits of period and calls, because the search costs their product. */
enum { LONGEST_PERIOD = 4096, LOOKED_AT = 1 << 15, REPEATS = 3 };
static const double NEARLY = 0.9;

struct tokens {
	LK_VEC(uint64_t) token;
	LK_VEC(uint32_t) call; /* of each, in run->calls */
};

static bool begins_something(const lk_record_entry *entry) {
	return entry->kind == LK_RECORD_COMM && entry->comm.what != LK_WHAT_OTHER &&
	       (entry->comm.part == LK_PART_WHOLE || entry->comm.part == LK_PART_POST ||
	        entry->comm.part == LK_PART_START || entry->comm.part == LK_PART_ENQUEUE);
}

struct collector {
	const lk_recorded_run *run;
	struct tokens *tokens;
	uint32_t peer; /* the busiest connection */
};

/* Make a token of a call; false: the call is skipped. */
typedef bool (*tokenizer)(const struct collector *c, const lk_recorded_call *call, uint64_t *token);

static bool steps_communication(const struct collector *collector, const lk_recorded_call *call,
                                uint64_t *token) {
	const lk_record_entry *entry = &call->record;
	if (entry->thread != collector->run->main_thread || !begins_something(entry)) return false;
	uint64_t key = lk_hash64((uint64_t)entry->comm.call << 32 | entry->object);
	*token = lk_hash64(key ^ (uint64_t)entry->bytes ^ (uint64_t)(uint32_t)entry->comm.peer << 40);
	return true;
}

/* Smaller messages are headers of the ones that follow. */
static bool steps_message(const struct collector *collector, const lk_recorded_call *call,
                          uint64_t *token) {
	enum { NOTE_BYTES = 1024 };
	const lk_record_entry *entry = &call->record;
	if (entry->kind != LK_RECORD_SENT || entry->object != collector->peer || entry->io.sequential ||
	    entry->io.most <= NOTE_BYTES)
		return false;
	*token = lk_hash64((uint64_t)entry->io.most);
	return true;
}

static bool from_pipe(const struct collector *collector, const lk_recorded_call *call,
                      uint64_t *token) {
	const lk_record_entry *entry = &call->record;
	if (entry->kind != LK_RECORD_RECEIVED || entry->thread != collector->run->main_thread)
		return false;
	if (!lk_recorded_by_pipe(collector->run, call)) return false;
	enum { LENGTH_BYTES = 4 }; /* Python's connections: a length, then that many bytes */
	*token = entry->io.most == LENGTH_BYTES;
	return true;
}

bool lk_recorded_is_program(const char *path) {
	static const char *const endings[] = {".py", ".pyc", ".so", ".pth", ".pyi"};
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (lk_ends_in(path, endings[i])) return true;
	return strstr(path, ".so.") != NULL || strncmp(path, "/proc/", 6) == 0 ||
	       strncmp(path, "/sys/", 5) == 0;
}

/* Files of one folder count as equal. */
static bool file_call(const struct collector *collector, const lk_recorded_call *call,
                      uint64_t *token) {
	const lk_record_entry *entry = &call->record;
	if (entry->thread != collector->run->main_thread || entry->kind < LK_RECORD_OPEN ||
	    entry->kind > LK_RECORD_SYNC)
		return false;
	const lk_recorded_name *file = lk_recorded_find(&collector->run->files, 0, entry->object);
	const char *path = file ? lk_intern_text(collector->run->texts, file->name) : "",
			   *slash = strrchr(path, '/');
	uint64_t folder = 0;
	if (lk_recorded_is_program(path)) return false;
	for (; slash && path < slash; path++)
		folder = lk_hash64(folder ^ (uint64_t)(unsigned char)*path);
	*token = lk_hash64(folder ^ entry->kind);
	return true;
}

static lk_status steps_collect(struct collector *collector, tokenizer tokenize, lk_error *err) {
	struct tokens *tokens = collector->tokens;
	tokens->token.count = tokens->call.count = 0;
	for (uint32_t i = 0; i < collector->run->calls.count; i++) {
		uint64_t token;
		if (collector->run->calls.at[i].process ||
		    !tokenize(collector, &collector->run->calls.at[i], &token))
			continue;
		if (!lk_push(&tokens->token) || !lk_push(&tokens->call)) return lk_oom(err);
		*lk_last(&tokens->token) = token;
		*lk_last(&tokens->call) = i;
	}
	return LK_OK;
}

/* The connection that sent most bytes; 0 none. */
static lk_status find_busiest(struct collector *collector, lk_error *err) {
	enum { PEERS = 1 << 12 };
	double *sent = calloc(PEERS, sizeof *sent);
	if (!sent) return lk_oom(err);
	for (size_t i = 0; i < collector->run->calls.count; i++) {
		const lk_recorded_call *call = &collector->run->calls.at[i];
		if (call->process || call->record.kind != LK_RECORD_SENT || call->record.object >= PEERS)
			continue;
		sent[call->record.object] +=
			lk_recorded_by_pipe(collector->run, call) ? 0 : (double)call->record.bytes;
	}
	for (uint32_t i = 1; i < PEERS; i++)
		if (sent[i] > sent[collector->peer]) collector->peer = i;
	free(sent);
	return LK_OK;
}

/* What a stretch of tokens weighs: with the times at which they came, its tokens times its time. A
 * program may first write its data, many files in a moment; and a few calls may be far apart. */
static double extent(const int64_t *at, size_t where, size_t covered) {
	double tokens = (double)covered;
	return at ? tokens * (double)(at[where + covered] - at[where]) : tokens;
}

/* Tokens in the stretch with this period that weighs most; *where: its begin. */
static size_t steps_longest(const uint64_t *token, const int64_t *at, size_t count, size_t period,
                            size_t *where) {
	size_t best = 0, run = 0;
	double most = 0;
	for (size_t i = 0; i + period < count; i++) {
		run = token[i] == token[i + period] ? run + 1 : 0;
		size_t begin = i + 1 - run;
		if (!run || extent(at, begin, run + period) <= most) continue;
		most = extent(at, begin, run + period);
		best = run;
		*where = begin;
	}
	return best ? best + period : 0;
}

/* Prefix sums of token hashes: stretches of the same tokens in any order have the same sum. */
static uint64_t *sums_of(const uint64_t *token, size_t count) {
	uint64_t *sum = malloc((count + 1) * sizeof *sum);
	if (sum) sum[0] = 0;
	for (size_t i = 0; sum && i < count; i++) sum[i + 1] = sum[i] + lk_hash64(token[i]);
	return sum;
}

/* The same if the tokens of a period may come in any order; `after`: scratch, count equal periods
 * that follow each place. */
static size_t longest_unordered(const uint64_t *sum, size_t count, size_t period, uint32_t *after,
                                size_t *where) {
	uint32_t best = 0;
	for (size_t i = count - 2 * period + 1; i-- > 0;) {
		bool follows = sum[i + period] - sum[i] == sum[i + 2 * period] - sum[i + period];
		if (!follows) after[i] = 0;
		else if (i + 3 * period <= count) after[i] = after[i + period] + 1;
		else after[i] = 1;
		if (after[i] >= best && after[i]) {
			best = after[i];
			*where = i;
		}
	}
	return best ? (best + 1) * period : 0;
}

struct repetition {
	size_t period, where, covered; /* period 0: none found */
};

/* The shortest period whose longest stretch weighs nearly as much as that of any other; `sum` NULL:
 * tokens in order. */
static lk_status find_period(const uint64_t *token, const uint64_t *sum, const int64_t *at,
                             size_t count, struct repetition *out, lk_error *err) {
	double best = 0;
	size_t most = count / REPEATS;
	if (most > LONGEST_PERIOD) most = LONGEST_PERIOD;
	size_t *covered = calloc(most + 1, sizeof *covered), *where = calloc(most + 1, sizeof *where);
	uint32_t *after = calloc(count + 1, sizeof *after);
	*out = (struct repetition){0, 0, 0};
	lk_status status = covered && where && after ? LK_OK : lk_oom(err);
	for (size_t p = 1; status == LK_OK && p <= most; p++) {
		covered[p] = sum ? longest_unordered(sum, count, p, after, &where[p])
		                 : steps_longest(token, at, count, p, &where[p]);
		if (covered[p] < p * REPEATS) covered[p] = 0;
		best = fmax(best, extent(at, where[p], covered[p]));
	}
	for (size_t p = 1; status == LK_OK && best > 0 && p <= most && !out->period; p++)
		if (covered[p] && extent(at, where[p], covered[p]) >= NEARLY * best)
			*out = (struct repetition){p, where[p], covered[p]};
	free(covered);
	free(where);
	free(after);
	return status;
}

/* Messages of several buckets overtake one another on a busy machine: if too much is out of order,
 * ignore the order. */
static lk_status find_repetition(const uint64_t *token, const uint64_t *sum, const int64_t *at,
                                 size_t count, struct repetition *out, lk_error *err) {
	static const double ORDERLY = 0.75;
	struct repetition unordered = {0, 0, 0};
	LK_TRY(find_period(token, NULL, at, count, out, err));
	if (sum && (double)out->covered < ORDERLY * (double)count)
		LK_TRY(find_period(token, sum, NULL, count, &unordered, err));
	if (unordered.covered > out->covered) *out = unordered;
	return LK_OK;
}

/* ---- where steps begin ---- */

/* When a call ended; if something waited for it, when that wait ended. */
static int64_t steps_end_of(const lk_recorded_run *run, uint32_t call) {
	const lk_recorded_call *recorded_call = &run->calls.at[call];
	bool waited =
		recorded_call->done != LK_NONE && recorded_call->record.comm.part != LK_PART_WHOLE;
	return waited ? run->calls.at[recorded_call->done].record.end_ns : recorded_call->record.end_ns;
}

static bool waits_for_device(const lk_record_entry *entry) {
	return entry->kind == LK_RECORD_DEVICE_CALL &&
	       (entry->device.what == LK_DEVICE_WAIT_STREAM ||
	        entry->device.what == LK_DEVICE_WAIT_EVENT || entry->device.what == LK_DEVICE_WAIT_ALL);
}

/* When enqueued work was known to have ended: at the end of the main thread's first wait between
 * the token and the next one; without such a wait, when it was enqueued. */
static int64_t end_of_enqueued(const lk_recorded_run *run, uint32_t token, uint32_t next) {
	for (uint32_t i = token + 1; i < next && i < run->calls.count; i++) {
		const lk_recorded_call *call = &run->calls.at[i];
		if (!call->process && call->record.thread == run->main_thread &&
		    waits_for_device(&call->record))
			return call->record.end_ns;
	}
	return run->calls.at[token].record.end_ns;
}

/* When everything begun before token `at` had ended: of the last `period` calls, since requests may
 * end out of order. */
static int64_t end_before(const lk_recorded_run *run, const struct tokens *tokens, size_t at,
                          size_t period) {
	uint32_t last = at ? tokens->call.at[at - 1] : 0;
	if (at && run->calls.at[last].record.comm.part == LK_PART_ENQUEUE)
		return end_of_enqueued(
			run, last, at < tokens->call.count ? tokens->call.at[at] : (uint32_t)run->calls.count);
	int64_t end = 0, next = at < tokens->call.count
	                            ? run->calls.at[tokens->call.at[at]].record.start_ns
	                            : INT64_MAX;
	for (size_t i = at > period ? at - period : 0; i < at; i++) {
		int64_t done = steps_end_of(run, tokens->call.at[i]);
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

/* Mark each occurrence of the period. If one is interrupted (a checkpoint, an evaluation), the next
 * one starts a new step, and the time between belongs to the step before. With `sum`, the tokens
 * after a step may be in another order. */
static lk_status steps_mark(const lk_recorded_run *run, const struct tokens *tokens,
                            const uint64_t *sum, const struct repetition *found,
                            lk_recorded_steps *out, lk_error *err) {
	const uint64_t *word = tokens->token.at + found->where;
	size_t last = SIZE_MAX, period = found->period;
	for (size_t at = 0; at + period <= tokens->token.count;) {
		bool same = sum && (at == last || at == found->where) &&
		            sum[at + period] - sum[at] == sum[found->where + period] - sum[found->where];
		if (!same && memcmp(tokens->token.at + at, word, period * sizeof *word) != 0) {
			at++;
			continue;
		}
		int64_t begin = at ? end_before(run, tokens, at, period)
		                   : run->calls.at[tokens->call.at[0]].record.start_ns;
		LK_TRY(add_moment(out, begin, err));
		last = at += period;
	}
	if (out->begin.count) LK_TRY(add_moment(out, end_before(run, tokens, last, period), err));
	return LK_OK;
}

/* ---- calls that are all alike ---- */

static int64_t pause_before(const lk_recorded_run *run, const struct tokens *tokens, size_t at) {
	int64_t pause = run->calls.at[tokens->call.at[at]].record.start_ns -
	                run->calls.at[tokens->call.at[at - 1]].record.end_ns;
	return pause > 0 ? pause : 0;
}

struct batches {
	const lk_recorded_run *run;
	const struct tokens *tokens;
	int64_t *length, *sorted; /* calls of each batch */
	uint32_t *begin;          /* its first call */
	size_t count;
};

/* Split the calls at all pauses of at least this length; returns the share of batches of median
 * length. */
static double part(struct batches *batches, int64_t pause) {
	size_t n = batches->tokens->call.count, first = 0, same = 0;
	int64_t length = 0;
	batches->count = 0;
	for (size_t i = 1; i <= n; i++) {
		const lk_record_entry *entry =
			&batches->run->calls.at[batches->tokens->call.at[i - 1]].record;
		length +=
			entry->kind == LK_RECORD_READ || entry->kind == LK_RECORD_WRITE ? entry->io.count : 1;
		if (i < n && pause_before(batches->run, batches->tokens, i) < pause) continue;
		batches->length[batches->count] = length;
		batches->begin[batches->count++] = batches->tokens->call.at[first];
		length = 0;
		first = i;
	}
	memcpy(batches->sorted, batches->length, batches->count * sizeof *batches->length);
	lk_sort(batches->sorted, batches->count, sizeof *batches->sorted, lk_by_i64);
	for (size_t i = 0; i < batches->count; i++)
		same += batches->length[i] == batches->sorted[batches->count / 2];
	return (double)same / (double)batches->count;
}

/* The pause that splits the calls into batches most alike, of those longer than the median; of
 * equally good ones the longest. */
static int64_t best_pause(struct batches *batches, int64_t *pauses) {
	enum { TRIED = 64 };
	static const double ENOUGH = 0.8;
	double best = ENOUGH;
	int64_t found = 0;
	size_t n = batches->tokens->call.count - 1;
	for (size_t i = 0; i < n; i++) pauses[i] = pause_before(batches->run, batches->tokens, i + 1);
	lk_sort(pauses, n, sizeof *pauses, lk_by_i64);
	double low = pauses[n / 2] > 1 ? (double)pauses[n / 2] : 1, high = (double)pauses[n - 1];
	for (int i = TRIED; i > 0 && high > low; i--) {
		int64_t pause = (int64_t)(low * pow(high / low, (double)i / TRIED));
		double share = part(batches, pause);
		if (batches->count > REPEATS && batches->sorted[batches->count / 2] > 1 && share > best) {
			best = share;
			found = pause;
		}
	}
	return found;
}

/* Whether each call is a step of its own: pauses are long, and none is much shorter than most. */
static bool are_apart(struct batches *batches, int64_t *pauses) {
	static const int64_t LONG_NS = 1000000;
	size_t n = batches->tokens->call.count - 1;
	return pauses[n / 2] >= LONG_NS && 2 * pauses[n / 10] >= pauses[n / 2]; /* they are sorted */
}

/* Steps are batches of equally many calls, separated by long pauses, or single calls. */
static lk_status by_pauses(const lk_recorded_run *run, const struct tokens *tokens,
                           lk_recorded_steps *out, lk_error *err) {
	size_t n = tokens->call.count;
	if (n < 2 * REPEATS || n > LOOKED_AT) return LK_OK;
	struct batches b = {run,
	                    tokens,
	                    malloc(n * sizeof *b.length),
	                    malloc(n * sizeof *b.sorted),
	                    malloc(n * sizeof *b.begin),
	                    0};
	int64_t *pauses = malloc(n * sizeof *pauses);
	lk_status status = b.length && b.sorted && b.begin && pauses ? LK_OK : lk_oom(err);
	int64_t pause = status == LK_OK ? best_pause(&b, pauses) : 0;
	if (!pause && status == LK_OK && are_apart(&b, pauses)) pause = 1;
	if (pause) part(&b, pause);
	for (size_t i = 0; pause && status == LK_OK && i < b.count; i++)
		if (b.length[i] == b.sorted[b.count / 2])
			status = add_moment(out, run->calls.at[b.begin[i]].record.start_ns, err);
	free(b.length);
	free(b.sorted);
	free(b.begin);
	free(pauses);
	return status;
}

/* ---- all ways ---- */

/* Keep the tokens of a stretch with period 1, and equal ones after it. */
static void keep_alike(struct tokens *tokens, const struct repetition *found) {
	size_t kept = 0;
	uint64_t token = tokens->token.at[found->where];
	for (size_t i = found->where; i < tokens->token.count; i++) {
		if (tokens->token.at[i] != token) continue;
		tokens->token.at[kept] = token;
		tokens->call.at[kept] = tokens->call.at[i];
		kept++;
	}
	tokens->token.count = tokens->call.count = kept;
}

/* When each of the first tokens began, and the next one, or the last call's end; NULL: no
 * memory. */
static int64_t *times_of(const lk_recorded_run *run, const struct tokens *tokens, size_t count) {
	int64_t *at = malloc((count + 1) * sizeof *at);
	for (size_t i = 0; at && i < count; i++)
		at[i] = run->calls.at[tokens->call.at[i]].record.start_ns;
	if (at && count < tokens->call.count)
		at[count] = run->calls.at[tokens->call.at[count]].record.start_ns;
	else if (at) at[count] = count ? run->calls.at[tokens->call.at[count - 1]].record.end_ns : 0;
	return at;
}

static lk_status try_tokens(struct collector *collector, tokenizer tokenize, bool files,
                            lk_recorded_steps *out, lk_error *err) {
	struct tokens *tokens = collector->tokens;
	struct repetition found = {0, 0, 0};
	out->begin.count = 0;
	out->by_files = files;
	LK_TRY(steps_collect(collector, tokenize, err));
	size_t looked = tokens->token.count < LOOKED_AT ? tokens->token.count : LOOKED_AT;
	uint64_t *sum =
		tokenize == steps_message ? sums_of(tokens->token.at, tokens->token.count) : NULL;
	int64_t *at = files ? times_of(collector->run, tokens, looked) : NULL;
	lk_status status = (tokenize != steps_message || sum) && (!files || at) ? LK_OK : lk_oom(err);
	if (looked && status == LK_OK)
		status = find_repetition(tokens->token.at, sum, at, looked, &found, err);
	if (found.period == 1 && status == LK_OK && (files || sum)) {
		if (files) keep_alike(tokens, &found);
		status = by_pauses(collector->run, tokens, out, err);
	}
	if (found.period && status == LK_OK && !out->begin.count && !(files && found.period == 1)) {
		if (!files) out->calls = (uint32_t)found.period;
		status = steps_mark(collector->run, tokens, sum, &found, out, err);
	}
	free(sum);
	free(at);
	return status;
}

static lk_status by_period(const lk_recorded_run *run, lk_recorded_steps *out, lk_error *err) {
	static const struct {
		tokenizer tokenize;
		bool files;
	} ways[] = {
		{steps_communication, false}, {steps_message, false}, {from_pipe, true}, {file_call, true}};
	struct tokens t = {0};
	struct collector c = {.run = run, .tokens = &t};
	lk_status status = find_busiest(&c, err);
	for (size_t i = 0; status == LK_OK && i < sizeof ways / sizeof *ways && out->begin.count < 2;
	     i++) {
		if (i == 1 && t.call.count) break; /* it communicates by calls that do not repeat */
		status = try_tokens(&c, ways[i].tokenize, ways[i].files, out, err);
	}
	lk_vec_free(&t.token);
	lk_vec_free(&t.call);
	return status;
}

/* ---- by marker ---- */

static bool is_marker(const lk_recorded_run *run, const lk_recorded_call *call,
                      const char *marker) {
	const lk_record_entry *entry = &call->record;
	const char *colon = strchr(marker, ':');
	size_t length = colon ? (size_t)(colon - marker) : 0;
	if (!colon) {
		bool device = entry->kind == LK_RECORD_DEVICE_CALL;
		const lk_recorded_name *name =
			device || begins_something(entry)
				? lk_recorded_find(&run->names, call->process,
		                           device ? entry->device.call : entry->comm.call)
				: NULL;
		return name && strcmp(lk_intern_text(run->texts, name->name), marker) == 0;
	}
	static const struct {
		const char *word;
		lk_record_kind kind;
	} words[] = {{"open", LK_RECORD_OPEN},
	             {"read", LK_RECORD_READ},
	             {"write", LK_RECORD_WRITE},
	             {"close", LK_RECORD_CLOSE}};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (strncmp(words[i].word, marker, length) != 0 || words[i].word[length] ||
		    entry->kind != words[i].kind)
			continue;
		const lk_recorded_name *file = lk_recorded_find(&run->files, call->process, entry->object);
		return file && strstr(lk_intern_text(run->texts, file->name), colon + 1);
	}
	return false;
}

/* The last step ends with the last call, unless the process was stopped: then an unknown part of it
 * is missing. */
static lk_status by_marker(const lk_recorded_run *run, lk_recorded_steps *out, lk_error *err) {
	int64_t last = 0;
	for (size_t i = 0; i < run->calls.count; i++) {
		const lk_recorded_call *call = &run->calls.at[i];
		if (call->process == 0 && call->record.thread == run->main_thread &&
		    call->record.end_ns > last)
			last = call->record.end_ns;
		if (call->process || call->record.thread != run->main_thread ||
		    !is_marker(run, call, run->head.marker))
			continue;
		LK_TRY(add_moment(out, call->record.start_ns, err));
	}
	return out->begin.count && run->head.end_ns > 0 ? add_moment(out, last, err) : LK_OK;
}

lk_status lk_recorded_find_steps(const lk_recorded_run *run, lk_recorded_steps *out,
                                 lk_error *err) {
	*out = (lk_recorded_steps){.calls = 0};
	if (*run->head.marker) LK_TRY(by_marker(run, out, err));
	bool batches = strcmp(run->head.marker, "open:" LK_BATCH_MARK) == 0;
	if (out->begin.count < 2) out->begin.count = 0;
	if (*run->head.marker && !(batches && out->begin.count == 0)) return LK_OK;
	lk_status status = by_period(run, out, err);
	if (out->begin.count < 2) out->begin.count = 0;
	return status;
}
