/* recorded_causes.c: what the main thread's time went to, also where it waits for others.
 *
 * A thread is in a call, or in its own code. Of own code, the kernel says what share the thread was
 * ready to run but had no processor: *preempted*. A wait that another thread ended has the cause of
 * what that thread did meanwhile, and so on; from when it was ended until the waiting thread ran
 * again it was preempted. A wait for a pipe was ended by who wrote to it, in whichever process.
 *
 * Code of other threads is either the main thread's own, which it gave away, or a loader's:
 *
 *     a loader's    of another process; of a thread that reads data, or that works for a loader; of
 *                   a thread that works ahead
 *     its own       of a thread that the main thread, directly or through others, woke or began
 *                   since the step began
 *     communication of a thread that has connections to other hosts or processes
 *
 * Time is also in a mark of the program, if the thread that works is in one, or else the thread
 * that waits for it: the cause stays what it is.
 *
 * A thread that waits for the one that waits for it, as many threads wait for an interpreter's
 * lock, is taken to run its own code. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/intervals.h"
#include "base/sort.h"
#include "trace/read/read.h"

enum { DEEPEST = 12, OFTEN = 5 };

/* A call, or a note of the kernel's counters, of a thread. */
struct moment {
	uint64_t thread; /* process << 16 | number */
	uint32_t index;  /* in the run's calls, or notes */
};
LK_ORDER_BY(by_thread, struct moment, thread, index)

/* Between one note of a thread and the next; by thread, then time. */
struct note {
	uint64_t thread;
	int64_t from, to;
	double own, preempted; /* seconds in own code; of them without a processor */
};

/* A message through a pipe. */
struct message {
	uint32_t pipe; /* interned name */
	int64_t ns;    /* when it was written */
	uint64_t thread;
};
LK_ORDER_BY(by_pipe_and_time, struct message, pipe, ns)

/* What a thread does in the steps. */
struct trait {
	uint64_t thread;
	bool reads, talks; /* data from files; on connections besides pipes */
	/* waits of the main thread that it ended, by whether it was asked in the same step */
	uint32_t asked, ahead;
};

struct causes {
	const lk_recorded_run *run;
	struct moment *calls; /* by thread, then time */
	size_t call_count;
	struct note *notes;
	size_t note_count;
	struct message *messages;
	size_t message_count;
	struct trait *traits; /* by thread */
	size_t trait_count;
	uint64_t main;
	bool connected; /* it has connections to other hosts or processes, besides pipes */
	/* while a step is divided */
	int64_t begin;             /* of the step */
	uint64_t waiting[DEEPEST]; /* threads of which each waits for the next */
	int depth;
	uint32_t mark; /* in which the thread is, or one that waits for it; LK_NONE */
	double *out;   /* [LK_CAUSES] seconds */
	double (*marked)[LK_CAUSES];
};

static void add_seconds(struct causes *c, lk_cause cause, double seconds) {
	c->out[cause] += seconds;
	if (c->mark != LK_NONE) c->marked[c->mark][cause] += seconds;
}

/* ---- a thread's calls ---- */

static uint64_t thread_of_call(const lk_recorded_call *call) {
	return (uint64_t)call->process << 16 | call->record.thread;
}

/* Work on devices has no thread. */
static bool occupies_thread(const lk_record_entry *entry) {
	return entry->kind != LK_RECORD_DEVICE_WORK && entry->kind != LK_RECORD_PROXY;
}

static const lk_record_entry *entry_at(const struct causes *c, size_t at) {
	return &c->run->calls.at[c->calls[at].index].record;
}

/* The first of a thread's calls that begins at `ns` or later; before it may be one that lasts. */
static size_t first_call_from(const struct causes *c, uint64_t thread, int64_t ns) {
	size_t low = 0, high = c->call_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		uint64_t other = c->calls[middle].thread;
		if (other < thread || (other == thread && entry_at(c, middle)->start_ns < ns))
			low = middle + 1;
		else high = middle;
	}
	return low;
}

static bool is_call_of(const struct causes *c, size_t at, uint64_t thread) {
	return at < c->call_count && c->calls[at].thread == thread;
}

static size_t first_note_from(const struct causes *c, uint64_t thread, int64_t ns) {
	size_t low = 0, high = c->note_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct note *note = &c->notes[middle];
		if (note->thread < thread || (note->thread == thread && note->to <= ns)) low = middle + 1;
		else high = middle;
	}
	return low;
}

/* ---- own code ---- */

static double overlap_s(int64_t a, int64_t b, int64_t from, int64_t to) {
	int64_t begin = a > from ? a : from, end = b < to ? b : to;
	return end > begin ? 1e-9 * (double)(end - begin) : 0;
}

static void add_code(struct causes *c, uint64_t thread, int64_t from, int64_t to, lk_cause code) {
	double preempted = 0, whole = 1e-9 * (double)(to - from);
	if (to <= from) return;
	for (size_t i = first_note_from(c, thread, from);
	     i < c->note_count && c->notes[i].thread == thread && c->notes[i].from < to; i++) {
		const struct note *note = &c->notes[i];
		if (note->own > 0)
			preempted += overlap_s(note->from, note->to, from, to) * note->preempted / note->own;
	}
	add_seconds(c, LK_CAUSE_PREEMPTED, preempted);
	add_seconds(c, code, whole - preempted);
}

/* Seconds of a thread's own code; *comm: in calls of communication; *late: from when waits were
 * ended until it ran. */
static double own_seconds(const struct causes *c, uint64_t thread, int64_t from, int64_t to,
                          double *comm, double *late) {
	int64_t at = from;
	double own = 0;
	size_t i = first_call_from(c, thread, from);
	while (i > 0 && is_call_of(c, i - 1, thread) && entry_at(c, i - 1)->end_ns > from) i--;
	*comm = *late = 0;
	for (; is_call_of(c, i, thread) && entry_at(c, i)->start_ns < to; i++) {
		const lk_record_entry *entry = entry_at(c, i);
		own += overlap_s(at, entry->start_ns, from, to);
		if (entry->end_ns <= at) continue;
		if (entry->kind == LK_RECORD_COMM) *comm += overlap_s(at, entry->end_ns, from, to);
		if (entry->kind == LK_RECORD_WAIT && entry->wait.waker)
			*late += overlap_s(entry->wait.ended_ns, entry->end_ns, from, to);
		if (entry->kind == LK_RECORD_READ || entry->kind == LK_RECORD_WRITE)
			own += fmax(0, overlap_s(entry->start_ns, entry->end_ns, from, to) -
			                   1e-9 * (double)entry->io.busy_ns);
		at = entry->end_ns;
	}
	return own + overlap_s(at, to, from, to);
}

/* Divide the time that a thread was queued among its notes of this window, by the time that it did
 * not compute in each. */
static void divide_queue(struct note *notes, size_t count, double queued, const double *away,
                         double elsewhere) {
	double all = elsewhere;
	for (size_t i = 0; i < count; i++) all += away[i];
	for (size_t i = 0; i < count && all > 0; i++)
		notes[i].preempted = fmin(away[i], fmax(0, queued) * away[i] / all);
}

static lk_status find_notes(struct causes *c, lk_error *err) {
	const lk_recorded_calls *all = &c->run->processor;
	struct moment *order = calloc(all->count + 1, sizeof *order);
	double *away = calloc(all->count + 1, sizeof *away);
	c->notes = calloc(all->count + 1, sizeof *c->notes);
	bool good = order && away && c->notes;
	for (size_t i = 0; good && i < all->count; i++)
		order[i] = (struct moment){thread_of_call(&all->at[i]), (uint32_t)i};
	if (good) lk_sort(order, all->count, sizeof *order, by_thread);
	size_t begun = 0; /* the window's first note */
	double elsewhere = 0;
	const lk_record_entry *asked = NULL; /* the last note that tells the queue */
	for (size_t i = 0; good && i < all->count; i++) {
		const lk_record_entry *now = &all->at[order[i].index].record;
		if (!i || order[i].thread != order[i - 1].thread) {
			asked = now->use.queued_ns >= 0 ? now : NULL;
			begun = c->note_count;
			elsewhere = 0;
			continue;
		}
		const lk_record_entry *before = &all->at[order[i - 1].index].record;
		double comm, late,
			computed = 1e-9 * ((double)now->use.computed_ns - (double)before->use.computed_ns);
		struct note *note = &c->notes[c->note_count];
		*note = (struct note){order[i].thread, before->start_ns, now->start_ns, 0, 0};
		note->own = own_seconds(c, note->thread, note->from, note->to, &comm, &late);
		double share = note->own > 0 ? note->own / (note->own + comm) : 0;
		computed = fmin(fmax(0, computed), note->own + comm);
		away[c->note_count++] = fmax(0, note->own - computed * share);
		elsewhere += late + fmax(0, comm - computed * (1 - share));
		if (now->use.queued_ns < 0) continue;
		if (asked)
			divide_queue(c->notes + begun, c->note_count - begun,
			             1e-9 * ((double)now->use.queued_ns - (double)asked->use.queued_ns),
			             away + begun, elsewhere);
		asked = now;
		begun = c->note_count;
		elsewhere = 0;
	}
	free(order);
	free(away);
	return good ? LK_OK : lk_oom(err);
}

/* ---- who ended a wait ---- */

/* The pipe that a call reads, or that the thread reads next; 0: another thing. */
static uint32_t pipe_read(const struct causes *c, size_t at) {
	enum { AHEAD = 8 };
	uint64_t thread = c->calls[at].thread;
	for (size_t i = at; i < at + AHEAD && is_call_of(c, i, thread); i++) {
		const lk_recorded_call *call = &c->run->calls.at[c->calls[i].index];
		if (call->record.kind == LK_RECORD_WAIT && call->record.object == LK_WAIT_PEERS) continue;
		if (call->record.kind != LK_RECORD_RECEIVED || !lk_recorded_by_pipe(c->run, call)) return 0;
		return lk_recorded_find(&c->run->peers, call->process, call->record.object)->name;
	}
	return 0;
}

/* The last message that was written to a pipe before `to`; NULL: none. */
static const struct message *last_message(const struct causes *c, uint32_t pipe, int64_t to) {
	size_t low = 0, high = c->message_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct message *message = &c->messages[middle];
		if (message->pipe < pipe || (message->pipe == pipe && message->ns <= to)) low = middle + 1;
		else high = middle;
	}
	return low && c->messages[low - 1].pipe == pipe ? &c->messages[low - 1] : NULL;
}

/* A thread that waits for its turn gives up now and then, and waits again: the record of the wait
 * that was not in vain. */
static size_t last_try(const struct causes *c, size_t at) {
	enum { TRIES = 64 };
	const lk_record_entry *entry = entry_at(c, at);
	bool turn = entry->kind == LK_RECORD_WAIT && entry->object == LK_WAIT_LOCK;
	for (size_t i = at; turn && i < at + TRIES && is_call_of(c, i, c->calls[at].thread); i++) {
		const lk_record_entry *next = entry_at(c, i);
		if (next->kind != LK_RECORD_WAIT || next->wait.on != entry->wait.on) break;
		if (next->wait.waker) return i;
	}
	return at;
}

/* The thread that ended a call's wait, and when; false: unknown. */
static bool find_waker(const struct causes *c, size_t at, uint64_t *waker, int64_t *when) {
	size_t known = last_try(c, at);
	const lk_record_entry *entry = entry_at(c, known);
	if (entry->kind == LK_RECORD_WAIT && entry->wait.waker) {
		*waker = (c->calls[at].thread & ~UINT64_C(0xffff)) | (entry->wait.waker - 1);
		*when = known == at ? entry->wait.ended_ns : entry_at(c, at)->end_ns;
		return true;
	}
	uint32_t pipe = pipe_read(c, at);
	const struct message *message = pipe ? last_message(c, pipe, entry->end_ns) : NULL;
	if (!message) return false;
	*waker = message->thread;
	*when = message->ns;
	return true;
}

/* ---- whose code ---- */

static struct trait *find_trait(const struct causes *c, uint64_t thread) {
	size_t low = 0, high = c->trait_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (c->traits[middle].thread < thread) low = middle + 1;
		else high = middle;
	}
	return low < c->trait_count && c->traits[low].thread == thread ? &c->traits[low] : NULL;
}

/* The last time before `until` that another thread woke this one, turns at locks aside; false:
 * none of late. */
static bool last_awakening(const struct causes *c, uint64_t thread, int64_t until, uint64_t *waker,
                           int64_t *when) {
	enum { BACK = 512 };
	size_t at = first_call_from(c, thread, until);
	for (int i = 0; i < BACK && at > 0 && is_call_of(c, at - 1, thread); i++) {
		const lk_record_entry *entry = entry_at(c, --at);
		bool waits = entry->kind == LK_RECORD_WAIT && entry->object == LK_WAIT_THREAD;
		if (entry->end_ns > until || (!waits && entry->kind != LK_RECORD_RECEIVED)) continue;
		if (find_waker(c, at, waker, when)) return true;
	}
	return false;
}

/* When a thread began; INT64_MAX: unknown. */
static int64_t beginning_of(const struct causes *c, uint64_t thread) {
	size_t first = first_call_from(c, thread, 0);
	int64_t begun = is_call_of(c, first, thread) ? entry_at(c, first)->start_ns : INT64_MAX;
	for (size_t i = 0; i < c->run->threads.count; i++) {
		const lk_recorded_call *one = &c->run->threads.at[i];
		if (thread_of_call(one) == thread && one->record.start_ns < begun)
			begun = one->record.start_ns;
	}
	return begun;
}

/* Whether the main thread woke or began a thread, itself or through others, since `begin`. */
static bool is_asked(const struct causes *c, uint64_t thread, int64_t begin, int64_t until) {
	enum { OTHERS = 4 };
	for (int i = 0; i < OTHERS && thread != c->main; i++) {
		uint64_t waker;
		int64_t when;
		if (!last_awakening(c, thread, until, &waker, &when)) {
			int64_t begun = beginning_of(c, thread);
			return begun >= begin && begun <= until;
		}
		if (when < begin) return false;
		thread = waker;
		until = when;
	}
	return thread == c->main;
}

static lk_cause code_of(const struct causes *c, uint64_t thread, int64_t until, lk_cause waiting) {
	if (thread == c->main) return LK_CAUSE_CODE;
	const struct trait *found = find_trait(c, thread);
	struct trait trait = found ? *found : (struct trait){0};
	if (waiting == LK_CAUSE_PREPARATION || thread >> 16 != c->main >> 16 || trait.reads)
		return LK_CAUSE_PREPARATION;
	if (trait.talks) return LK_CAUSE_COMM;
	/* a thread that finds its next job there does not wait for it: what it mostly does counts */
	bool asked = trait.asked + trait.ahead == 0 ? is_asked(c, thread, c->begin, until)
	                                            : OFTEN * trait.asked >= trait.asked + trait.ahead;
	return asked ? LK_CAUSE_CODE : LK_CAUSE_PREPARATION;
}

/* ---- waits ---- */

static void add_thread(struct causes *c, uint64_t thread, int64_t from, int64_t to, lk_cause code);

static void add_wait_for(struct causes *c, uint64_t thread, uint64_t other, int64_t from,
                         int64_t to, lk_cause code) {
	bool known = c->depth == DEEPEST || other == thread;
	for (int i = 0; i < c->depth; i++) known |= c->waiting[i] == other;
	if (known) {
		add_seconds(c, code, 1e-9 * (double)(to - from));
		return;
	}
	c->waiting[c->depth++] = thread;
	add_thread(c, other, from, to, code_of(c, other, to, code));
	c->depth--;
}

/* Nobody knows who ended it. */
static lk_cause cause_of_unknown(const struct causes *c, uint32_t what, lk_cause code) {
	bool old = c->run->head.version < LK_RECORDING_WAKERS;
	if (c->connected && (what == LK_WAIT_PEERS || code == LK_CAUSE_CODE)) return LK_CAUSE_COMM;
	return c->run->children || old ? LK_CAUSE_PREPARATION : code;
}

static void add_wait(struct causes *c, size_t at, int64_t from, int64_t to, lk_cause code) {
	uint64_t other;
	int64_t ended;
	if (!find_waker(c, at, &other, &ended)) {
		lk_cause cause = pipe_read(c, at) ? LK_CAUSE_PREPARATION
		                                  : cause_of_unknown(c, entry_at(c, at)->object, code);
		add_seconds(c, cause, 1e-9 * (double)(to - from));
		return;
	}
	if (ended < from) ended = from;
	if (ended > to) ended = to;
	add_wait_for(c, c->calls[at].thread, other, from, ended, code);
	add_seconds(c, LK_CAUSE_PREEMPTED, 1e-9 * (double)(to - ended));
}

/* ---- a stretch of a thread ---- */

static bool is_data(const struct causes *c, const lk_recorded_call *call) {
	const lk_recorded_name *file =
		lk_recorded_find(&c->run->files, call->process, call->record.object);
	return !file || !lk_recorded_is_program(lk_intern_text(c->run->texts, file->name));
}

static void add_file(struct causes *c, size_t at, int64_t from, int64_t to, lk_cause cause,
                     lk_cause code) {
	const lk_record_entry *entry = entry_at(c, at);
	double whole = 1e-9 * (double)(to - from), share = 1;
	int64_t length = entry->end_ns - entry->start_ns;
	if ((entry->kind == LK_RECORD_READ || entry->kind == LK_RECORD_WRITE) && length > 0)
		share = fmin(1, fmax(0, (double)entry->io.busy_ns / (double)length));
	if (!is_data(c, &c->run->calls.at[c->calls[at].index])) share = 0;
	add_seconds(c, cause, share * whole);
	add_seconds(c, code, (1 - share) * whole);
}

static void add_call(struct causes *c, size_t at, int64_t from, int64_t to, lk_cause code) {
	const lk_recorded_call *call = &c->run->calls.at[c->calls[at].index];
	double seconds = 1e-9 * (double)(to - from);
	bool pipe;
	switch (call->record.kind) {
	case LK_RECORD_COMM: add_seconds(c, LK_CAUSE_COMM, seconds); return;
	case LK_RECORD_OPEN:
	case LK_RECORD_READ: add_file(c, at, from, to, LK_CAUSE_FETCH, code); return;
	case LK_RECORD_WRITE:
	case LK_RECORD_SYNC:
		add_file(c, at, from, to, code == LK_CAUSE_CODE ? LK_CAUSE_WRITING : code, code);
		return;
	case LK_RECORD_SENT:
	case LK_RECORD_RECEIVED:
		pipe = lk_recorded_by_pipe(c->run, call);
		if (pipe && call->record.kind == LK_RECORD_RECEIVED) add_wait(c, at, from, to, code);
		else add_seconds(c, pipe ? code : LK_CAUSE_COMM, seconds);
		return;
	case LK_RECORD_WAIT:
		if (call->record.object != LK_WAIT_SLEEP) add_wait(c, at, from, to, code);
		else add_seconds(c, code, seconds);
		return;
	default: add_seconds(c, code, seconds);
	}
}

/* `code`: the cause of the thread's own code. */
static void add_stretch(struct causes *c, uint64_t thread, int64_t from, int64_t to,
                        lk_cause code) {
	int64_t at = from;
	size_t i = first_call_from(c, thread, from);
	while (i > 0 && is_call_of(c, i - 1, thread) && entry_at(c, i - 1)->end_ns > from) i--;
	for (; is_call_of(c, i, thread) && entry_at(c, i)->start_ns < to; i++) {
		const lk_record_entry *entry = entry_at(c, i);
		int64_t begin = entry->start_ns > at ? entry->start_ns : at,
				end = entry->end_ns < to ? entry->end_ns : to;
		if (end <= begin) continue;
		add_code(c, thread, at, begin, code);
		add_call(c, i, begin, end, code);
		at = end;
	}
	add_code(c, thread, at, to, code);
}

static size_t first_span_from(const struct causes *c, uint64_t thread, int64_t ns) {
	size_t low = 0, high = c->run->spans.count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		const lk_recorded_span *span = &c->run->spans.at[middle];
		if (span->thread < thread || (span->thread == thread && span->to <= ns)) low = middle + 1;
		else high = middle;
	}
	return low;
}

/* Stretches in marks, and those between them. */
static void add_thread(struct causes *c, uint64_t thread, int64_t from, int64_t to, lk_cause code) {
	uint32_t outside = c->mark;
	int64_t at = from;
	for (size_t i = first_span_from(c, thread, from); i < c->run->spans.count && at < to; i++) {
		const lk_recorded_span *span = &c->run->spans.at[i];
		if (span->thread != thread || span->from >= to) break;
		int64_t begin = lk_later(span->from, at), end = lk_sooner(span->to, to);
		add_stretch(c, thread, at, begin, code);
		c->mark = span->mark;
		add_stretch(c, thread, begin, end, code);
		c->mark = outside;
		at = end;
	}
	add_stretch(c, thread, at, to, code);
}

/* ---- all ---- */

static lk_status find_calls(struct causes *c, lk_error *err) {
	const lk_recorded_calls *all = &c->run->calls;
	c->calls = malloc((all->count + 1) * sizeof *c->calls);
	c->messages = malloc((all->count + 1) * sizeof *c->messages);
	if (!c->calls || !c->messages) return lk_oom(err);
	for (size_t i = 0; i < all->count; i++) {
		const lk_recorded_call *call = &all->at[i];
		bool moved = call->record.kind == LK_RECORD_SENT || call->record.kind == LK_RECORD_RECEIVED;
		bool pipe = moved && lk_recorded_by_pipe(c->run, call);
		if (occupies_thread(&call->record))
			c->calls[c->call_count++] = (struct moment){thread_of_call(call), (uint32_t)i};
		c->connected |= moved && !pipe && !call->process;
		if (pipe && call->record.kind == LK_RECORD_SENT)
			c->messages[c->message_count++] = (struct message){
				lk_recorded_find(&c->run->peers, call->process, call->record.object)->name,
				call->record.start_ns, thread_of_call(call)};
	}
	lk_sort(c->calls, c->call_count, sizeof *c->calls, by_thread);
	lk_sort(c->messages, c->message_count, sizeof *c->messages, by_pipe_and_time);
	return LK_OK;
}

static lk_status find_traits(struct causes *c, int64_t from, int64_t to, lk_error *err) {
	c->traits = calloc(c->call_count + 1, sizeof *c->traits);
	if (!c->traits) return lk_oom(err);
	for (size_t i = 0; i < c->call_count; i++) {
		const lk_recorded_call *call = &c->run->calls.at[c->calls[i].index];
		const lk_record_entry *entry = &call->record;
		if (!i || c->calls[i - 1].thread != c->calls[i].thread)
			c->traits[c->trait_count++].thread = c->calls[i].thread;
		struct trait *trait = &c->traits[c->trait_count - 1];
		if (entry->start_ns < from || entry->start_ns >= to) continue;
		if (entry->kind == LK_RECORD_READ) trait->reads = trait->reads || is_data(c, call);
		else if (entry->kind == LK_RECORD_SENT || entry->kind == LK_RECORD_RECEIVED)
			trait->talks = trait->talks || !lk_recorded_by_pipe(c->run, call);
	}
	return LK_OK;
}

/* Whose threads ended the main thread's waits of each step. */
static void count_asked(struct causes *c, const int64_t *begin, int steps) {
	size_t at = first_call_from(c, c->main, begin[0]);
	for (int s = 0; is_call_of(c, at, c->main) && entry_at(c, at)->end_ns <= begin[steps]; at++) {
		const lk_record_entry *entry = entry_at(c, at);
		uint64_t waker;
		int64_t when;
		bool waits = entry->kind == LK_RECORD_WAIT && entry->object == LK_WAIT_THREAD;
		if ((!waits && entry->kind != LK_RECORD_RECEIVED) || !find_waker(c, at, &waker, &when))
			continue;
		struct trait *trait = find_trait(c, waker);
		while (s + 1 < steps && begin[s + 1] <= when) s++;
		if (!trait) continue;
		if (is_asked(c, waker, begin[s], when)) trait->asked++;
		else trait->ahead++;
	}
}

lk_status lk_recorded_find_causes(const lk_recorded_run *run, const int64_t *begin, int steps,
                                  double (*out)[LK_CAUSES], double (*marked)[LK_CAUSES],
                                  lk_error *err) {
	LK_ASSERT(steps > 0 && begin[0] <= begin[steps]);
	struct causes c = {.run = run, .main = run->main_thread, .mark = LK_NONE, .marked = marked};
	lk_status status = find_calls(&c, err);
	if (status == LK_OK) status = find_notes(&c, err);
	if (status == LK_OK) status = find_traits(&c, begin[0], begin[steps], err);
	if (status == LK_OK) count_asked(&c, begin, steps);
	for (size_t i = 0; i < run->mark_names.count; i++) memset(marked[i], 0, sizeof marked[i]);
	for (int s = 0; s < steps && status == LK_OK; s++) {
		memset(out[s], 0, sizeof out[s]);
		c.begin = begin[s];
		c.out = out[s];
		add_thread(&c, c.main, begin[s], begin[s + 1], LK_CAUSE_CODE);
	}
	free(c.calls);
	free(c.notes);
	free(c.messages);
	free(c.traits);
	return status;
}
