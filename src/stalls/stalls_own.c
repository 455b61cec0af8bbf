/* stalls_own.c: the main thread's time outside communication, from the kernel's counters.
 *
 * At begin and end of communication calls the recorder notes how long the thread has computed, its
 * page faults that read from storage and its switches, and less often how long it was queued for a
 * processor. Between two notes with the queue is a *stretch*:
 *
 *     own        = its length - calls of communication
 *     computing  = what the thread computed between these calls
 *     preempted  = time queued * own time's share of all time that the thread did not compute
 *     left       = own - computing - preempted
 *     for data   = of left, waits for what loaders in threads and processes hand over
 *     sleeping   = of the rest, calls that sleep
 *     storage    = of the rest, calls of files; all of it where pages were read (mapped files)
 *     sleeping  += the remainder: waiting for something unknown */
#include <math.h>

#include "base/check.h"
#include "stalls/stalls.h"

/* Sums of a stretch, or of many. */
struct stretch_times {
	double wall, comm, computing, queued, away, comm_away;
	double handed, slept, files;
	bool faults;
};

struct own_walk {
	const lk_recorded_run *run;
	size_t call;        /* the next call to process */
	int64_t comm_until; /* end of the last call of communication */
	lk_stalls_own *out;
	struct stretch_times now;
};

/* Whether the main thread waits in the call for data of other threads or processes. */
static bool is_hand_over(const lk_recorded_run *run, const lk_recorded_call *call) {
	const lk_record_entry *entry = &call->record;
	if (call->process || entry->thread != run->main_thread) return false;
	if (entry->kind == LK_RECORD_RECEIVED) return lk_recorded_by_pipe(run, call);
	bool library = run->head.seen & LK_RECORDED_MPI;
	return entry->kind == LK_RECORD_WAIT && entry->object == LK_WAIT_THREAD && library;
}

static double seconds_within(const lk_record_entry *entry, int64_t from, int64_t to) {
	int64_t begin = entry->start_ns > from ? entry->start_ns : from,
			end = entry->end_ns < to ? entry->end_ns : to;
	return end > begin ? 1e-9 * (double)(end - begin) : 0;
}

static double file_seconds(const lk_record_entry *entry) {
	switch (entry->kind) {
	case LK_RECORD_READ:
	case LK_RECORD_WRITE: return 1e-9 * (double)entry->io.busy_ns;
	case LK_RECORD_OPEN:
	case LK_RECORD_SYNC:
	case LK_RECORD_MAP:
	case LK_RECORD_CLOSE: return 1e-9 * (double)(entry->end_ns - entry->start_ns);
	default: return 0;
	}
}

/* Between two notes the thread is either inside one communication call, or between two. */
static void add_interval(struct own_walk *walk, const lk_record_entry *before,
                         const lk_record_entry *after) {
	struct stretch_times *now = &walk->now;
	const lk_recorded_calls *calls = &walk->run->calls;
	int64_t from = before->start_ns, to = after->start_ns;
	double wall = 1e-9 * (double)(to - from), comm = 0;
	double computed = 1e-9 * ((double)after->use.computed_ns - (double)before->use.computed_ns);
	while (walk->call < calls->count && calls->at[walk->call].record.start_ns < to) {
		const lk_recorded_call *call = &calls->at[walk->call++];
		const lk_record_entry *entry = &call->record;
		bool before_it = entry->start_ns < from && entry->kind != LK_RECORD_COMM;
		if (call->process || entry->thread != walk->run->main_thread || before_it) continue;
		if (entry->kind == LK_RECORD_COMM && entry->end_ns > walk->comm_until) {
			int64_t begin = entry->start_ns > walk->comm_until ? entry->start_ns : walk->comm_until;
			lk_record_entry rest = {.start_ns = begin, .end_ns = entry->end_ns};
			comm += seconds_within(&rest, from, to);
			walk->comm_until = entry->end_ns;
			continue;
		}
		if (entry->start_ns < walk->comm_until) continue;
		if (is_hand_over(walk->run, call)) now->handed += seconds_within(entry, from, to);
		else if (entry->kind == LK_RECORD_WAIT && entry->object == LK_WAIT_SLEEP)
			now->slept += seconds_within(entry, from, to);
		else now->files += file_seconds(entry);
	}
	if (comm == 0 && walk->comm_until > from) {
		lk_record_entry last = {.start_ns = from, .end_ns = walk->comm_until};
		comm = seconds_within(&last, from, to);
	}
	computed = fmin(fmax(0, computed), wall); /* a damaged note may hold any number */
	double share = wall > 0 ? fmin(1, comm / wall) : 1;
	now->wall += wall;
	now->comm += comm;
	now->computing += fmin(computed * (1 - share), wall - fmin(comm, wall));
	now->away += fmax(0, (wall - comm) - computed * (1 - share));
	now->comm_away += fmax(0, comm - computed * share);
	now->faults |= after->use.major_faults != before->use.major_faults;
}

static void end_stretch(struct own_walk *walk, double queued) {
	struct stretch_times *now = &walk->now;
	lk_stalls_own *out = walk->out;
	double share = now->away > 0 ? now->away / (now->away + now->comm_away) : 0;
	double preempted = fmin(fmax(0, queued) * share, now->away), left = now->away - preempted;
	double handed = fmin(now->handed, left), slept = fmin(now->slept, left - handed);
	double rest = left - handed - slept, files = now->faults ? rest : fmin(now->files, rest);
	out->computing += now->computing;
	out->preempted += preempted;
	out->data += handed;
	out->storage += files;
	out->sleeping += slept + rest - files;
	out->seconds += now->wall;
	*now = (struct stretch_times){0};
}

void lk_stalls_see_own(const lk_recorded_run *run, const int64_t *begin, int steps,
                       lk_stalls_own *out) {
	LK_ASSERT(steps > 0 && begin[0] <= begin[steps]);
	struct own_walk walk = {.run = run, .comm_until = -1, .out = out};
	const lk_record_entry *before = NULL, *asked = NULL;
	*out = (lk_stalls_own){0};
	for (size_t i = 0; i < run->processor.count && run->head.version >= LK_RECORDING_THREAD_USE;
	     i++) {
		const lk_record_entry *note = &run->processor.at[i].record;
		bool mine = !run->processor.at[i].process && note->thread == run->main_thread;
		if (!mine || note->start_ns < begin[0] || note->start_ns > begin[steps]) continue;
		if (before && asked) add_interval(&walk, before, note);
		bool tells = note->use.queued_ns >= 0;
		if (tells && asked)
			end_stretch(&walk, 1e-9 * ((double)note->use.queued_ns - (double)asked->use.queued_ns));
		if (tells) asked = note;
		before = note;
	}
	if (out->seconds <= 0) {
		*out = (lk_stalls_own){NAN, NAN, NAN, NAN, NAN, 0};
		return;
	}
	double scale = 1e-9 * (double)(begin[steps] - begin[0]) / steps / out->seconds;
	out->computing *= scale;
	out->sleeping *= scale;
	out->storage *= scale;
	out->data *= scale;
	out->preempted *= scale;
}
