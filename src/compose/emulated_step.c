/* emulated_step.c: finds the most frequent sequence of calls among the steps of a recording; then,
 * over these steps, medians of the own work before each call and of its work on a device's
 * stream. */
#include "base/arena.h"
#include "compose/compose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/sort.h"

enum { MOST_WORLD = 1 << 16, FEWEST_STEPS = 2, FIRST_OF_NCCL = 1 << 20, MOST_APART = 1 << 10 };

/* How long the main thread had waited for a processor, at a moment. */
struct queue_note {
	int64_t at_ns, queued_ns;
};

struct reader {
	const lk_recorded_run *run;
	lk_emulated_step *out;
	lk_recorded_steps steps;
	LK_VEC(uint32_t) call; /* of the current step: calls of the run */
	/* of each: own work before it, its part without any thread computing, files, work on its
	 * stream */
	LK_VEC(double) own, asleep, files, work;
	LK_VEC(struct queue_note) queue;
	double queued; /* nanoseconds taken off own work, over all collected steps */
	lk_emulated_device device;
	uint32_t *item_of; /* [calls of the run] its index in `call` */
	lk_error *err;
};

static lk_status fail_recording(const struct reader *reader, const char *what, const char *hint) {
	lk_fail(reader->err, LK_ERR_INPUT, reader->run->path, "%s", what);
	return hint ? lk_hint(reader->err, "%s", hint) : LK_ERR_INPUT;
}

/* ---- communicators ---- */

/* Read "[0, 1, 2]"; large lists also use first:last:stride. */
static bool read_rank_list(const char *text, int32_t world, int32_t size, int32_t *out) {
	LK_ASSERT(world > 0 && size > 0 && size <= world);
	int32_t count = 0;
	for (const char *at = text + (*text == '['); *at && *at != ']';) {
		char *end;
		long first = strtol(at, &end, 10), last = first, stride = 1;
		if (end == at) return false;
		if (*end == ':') last = strtol(end + 1, &end, 10);
		if (*end == ':') stride = strtol(end + 1, &end, 10);
		if (first < 0 || first >= world || last < 0 || last >= world || !stride) return false;
		if ((stride > 0) != (last >= first) && last != first) return false;
		for (long rank = first; stride > 0 ? rank <= last : rank >= last; rank += stride) {
			if (count == size) return false;
			out[count++] = (int32_t)rank;
		}
		at = end + strspn(end, ", ");
	}
	return count == size;
}

static bool have_same_ranks(const lk_emulated_group *a, const lk_emulated_group *b) {
	LK_ASSERT(a->size > 0 && b->size > 0);
	return a->size == b->size &&
	       memcmp(a->ranks, b->ranks, (size_t)a->size * sizeof *a->ranks) == 0;
}

static lk_status add_emulated_group(struct reader *reader, const lk_recorded_name *name) {
	lk_emulated_step *out = reader->out;
	if (name->size < 1 || name->size > out->world || !lk_push(&out->groups))
		return name->size < 1 || name->size > out->world
		           ? fail_recording(reader, "has a communicator of an impossible size", NULL)
		           : lk_oom(reader->err);
	lk_emulated_group *group = lk_last(&out->groups);
	*group = (lk_emulated_group){.number = (uint32_t)name->key,
	                             .own = name->rank,
	                             .division = name->division,
	                             .size = name->size,
	                             .ranks = LK_ARRAY(&out->arena, int32_t, name->size)};
	if (!group->ranks) return lk_oom(reader->err);
	/* NCCL's have no division: each is its own */
	if (!group->division)
		group->division = lk_hash64((uint64_t)(uint32_t)out->rank << 32 | group->number) | 1;
	if (!read_rank_list(lk_intern_text(reader->run->texts, name->name), out->world, group->size,
	                    group->ranks))
		return fail_recording(reader, "has a communicator whose ranks are not all known",
		                      group->number >= FIRST_OF_NCCL
		                          ? "give the ranks of each part with record --splits"
		                          : NULL);
	if (group->own >= group->size || (group->own >= 0 && group->ranks[group->own] != out->rank))
		return fail_recording(reader, "has a communicator whose ranks do not include its own",
		                      NULL);
	for (size_t i = 0; group->own >= 0 && i + 1 < out->groups.count; i++)
		group->again += out->groups.at[i].own >= 0 && have_same_ranks(&out->groups.at[i], group);
	return LK_OK;
}

static uint32_t find_emulated_group(const lk_emulated_step *step, uint32_t number) {
	for (uint32_t i = 0; i < step->groups.count; i++)
		if (step->groups.at[i].number == number && step->groups.at[i].own >= 0) return i;
	return LK_NONE;
}

/* ---- one step ---- */

/* For MPI, calls of the main thread; work on streams may come from any. */
static bool is_step_communication(const lk_recorded_run *run, const lk_recorded_call *call) {
	const lk_record_entry *record = &call->record;
	if (call->process || record->kind != LK_RECORD_COMM) return false;
	if (record->comm.part == LK_PART_ENQUEUE) return record->comm.what != LK_WHAT_OTHER;
	if (record->thread != run->main_thread) return false;
	if (record->comm.part == LK_PART_DONE) return call->done != LK_NONE;
	if (record->comm.what == LK_WHAT_OTHER) return false;
	return record->comm.part == LK_PART_WHOLE || record->comm.part == LK_PART_POST ||
	       record->comm.part == LK_PART_START;
}

static bool is_main_file_call(const lk_recorded_run *run, const lk_recorded_call *call) {
	return !call->process && call->record.thread == run->main_thread &&
	       call->record.kind >= LK_RECORD_OPEN && call->record.kind <= LK_RECORD_CLOSE;
}

static double file_call_ns(const lk_record_entry *record) {
	bool moves = record->kind == LK_RECORD_READ || record->kind == LK_RECORD_WRITE;
	return (double)(moves ? record->io.busy_ns : record->end_ns - record->start_ns);
}

static size_t find_first_call_from(const lk_recorded_run *run, int64_t ns) {
	size_t low = 0, high = run->calls.count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (run->calls.at[middle].record.start_ns < ns) low = middle + 1;
		else high = middle;
	}
	return low;
}

/* How long the process had computed at a moment, interpolated between records; NAN before the first
 * record and after the last. */
static double processor_ns_at(const lk_recorded_run *run, int64_t ns) {
	size_t low = 0, high = run->processor.count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (run->processor.at[middle].record.start_ns <= ns) low = middle + 1;
		else high = middle;
	}
	if (low == 0 || low == run->processor.count) return NAN;
	const lk_record_entry *before = &run->processor.at[low - 1].record,
						  *after = &run->processor.at[low].record;
	double share = (double)(ns - before->start_ns) / (double)(after->start_ns - before->start_ns);
	return (double)before->bytes + share * (double)(after->bytes - before->bytes);
}

/* Of `own` nanoseconds before `until`, those without any thread computing; 0 if unknown. */
static double asleep_ns(const lk_recorded_run *run, int64_t since, int64_t until, double own) {
	double computed = processor_ns_at(run, until) - processor_ns_at(run, since);
	return isnan(computed) ? 0 : fmax(0, own - fmax(0, computed));
}

/* Read the recorded queue times: every few milliseconds, at begin and end of communication
 * calls. */
static lk_status read_queue(struct reader *reader) {
	const lk_recorded_run *run = reader->run;
	if (run->head.version < LK_RECORDING_THREAD_USE) return LK_OK;
	for (size_t i = 0; i < run->processor.count; i++) {
		const lk_recorded_call *call = &run->processor.at[i];
		if (call->process || call->record.thread != run->main_thread ||
		    call->record.use.queued_ns < 0)
			continue;
		if (!lk_push(&reader->queue)) return lk_oom(reader->err);
		*lk_last(&reader->queue) =
			(struct queue_note){call->record.start_ns, call->record.use.queued_ns};
	}
	return LK_OK;
}

/* Interpolated between notes; before the first and after the last it is unknown. */
static double queued_ns_at(const struct reader *reader, int64_t ns) {
	size_t low = 0, high = reader->queue.count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (reader->queue.at[middle].at_ns <= ns) low = middle + 1;
		else high = middle;
	}
	if (low == 0 || low == reader->queue.count) return NAN;
	const struct queue_note *before = &reader->queue.at[low - 1], *after = &reader->queue.at[low];
	double share = (double)(ns - before->at_ns) / (double)(after->at_ns - before->at_ns);
	return (double)before->queued_ns +
	       share * ((double)after->queued_ns - (double)before->queued_ns);
}

/* Time of own work without any thread computing in which the main thread waited for a processor
 * used by other programs: the job's machines do not have them. */
static double preempted_ns(const struct reader *reader, int64_t since, int64_t until,
                           double asleep) {
	double queued = queued_ns_at(reader, until) - queued_ns_at(reader, since);
	return isnan(queued) ? 0 : fmin(asleep, fmax(0, queued));
}

/* Add call `i` to the step. Work that it put on a stream begins at the call: the time in the call
 * is own work before the next one. */
static lk_status add_step_call(struct reader *reader, uint32_t i, double *files, int64_t *since) {
	const lk_record_entry *record = &reader->run->calls.at[i].record;
	bool goes_on =
		record->kind == LK_RECORD_DEVICE_CALL && !lk_emulated_device_waits(reader->run, i);
	int64_t until = goes_on ? record->start_ns : record->end_ns;
	if (!lk_push(&reader->call) || !lk_push(&reader->own) || !lk_push(&reader->asleep) ||
	    !lk_push(&reader->files) || !lk_push(&reader->work))
		return lk_oom(reader->err);
	reader->item_of[i] = (uint32_t)reader->call.count - 1;
	*lk_last(&reader->call) = i;
	*lk_last(&reader->own) = fmax(0, (double)(record->start_ns - *since) - *files);
	double asleep = asleep_ns(reader->run, *since, record->start_ns, *lk_last(&reader->own));
	double preempted = preempted_ns(reader, *since, record->start_ns, asleep);
	*lk_last(&reader->own) -= preempted;
	*lk_last(&reader->asleep) = asleep - preempted;
	reader->queued += preempted;
	*lk_last(&reader->files) = *files;
	*lk_last(&reader->work) = lk_emulated_device_work_ns(&reader->device, record);
	*files = 0;
	if (until > *since) *since = until;
	return LK_OK;
}

/* Collect the calls of step `s`, and the own work and files before each. Work after the last call
 * belongs to the next step. */
static lk_status collect_step_calls(struct reader *reader, size_t s) {
	LK_ASSERT(s + 1 < reader->steps.begin.count);
	const lk_recorded_run *run = reader->run;
	int64_t from = reader->steps.begin.at[s], to = reader->steps.begin.at[s + 1], since = from;
	double files = 0;
	reader->call.count = reader->own.count = reader->asleep.count = 0;
	reader->files.count = reader->work.count = 0;
	for (size_t i = find_first_call_from(run, from);
	     i < run->calls.count && run->calls.at[i].record.start_ns < to; i++) {
		const lk_recorded_call *call = &run->calls.at[i];
		if (is_main_file_call(run, call)) files += file_call_ns(&call->record);
		if (is_step_communication(run, call) ||
		    lk_emulated_device_item(&reader->device, run, (uint32_t)i))
			LK_TRY(add_step_call(reader, (uint32_t)i, &files, &since));
	}
	return LK_OK;
}

/* Distance in items from item `i` back to the call that it waits for; 0: none in this step. */
static uint64_t items_since_awaited(const struct reader *reader, size_t i) {
	LK_ASSERT(i < reader->call.count);
	uint32_t call = reader->call.at[i], of = reader->run->calls.at[call].done;
	if (reader->run->calls.at[call].record.kind == LK_RECORD_DEVICE_CALL)
		of = lk_emulated_device_awaited(&reader->device, reader->run, call);
	bool here = of != LK_NONE && of >= reader->call.at[0] && of < call && reader->item_of[of] < i &&
	            reader->call.at[reader->item_of[of]] == of;
	return here ? i - reader->item_of[of] : 0;
}

static uint64_t hash_step_sequence(const struct reader *reader) {
	uint64_t hash = reader->call.count;
	for (size_t i = 0; i < reader->call.count; i++) {
		const lk_record_entry *entry = &reader->run->calls.at[reader->call.at[i]].record;
		if (entry->kind == LK_RECORD_DEVICE_CALL) {
			hash =
				lk_hash64(hash ^ ((uint64_t)entry->device.what << 40 |
			                      (uint64_t)entry->device.direction << 32 | entry->device.stream));
			hash = lk_hash64(hash ^ items_since_awaited(reader, i));
			continue;
		}
		hash = lk_hash64(hash ^ ((uint64_t)entry->comm.part << 56 |
		                         (uint64_t)entry->comm.what << 48 | entry->object));
		if (entry->comm.part == LK_PART_DONE)
			hash = lk_hash64(hash ^ items_since_awaited(reader, i));
		else
			hash =
				lk_hash64(lk_hash64(hash ^ (uint64_t)entry->bytes) ^
			              ((uint64_t)(uint32_t)entry->comm.peer << 32 | (uint32_t)entry->comm.tag));
	}
	return hash;
}

/* ---- the usual one ---- */

/* The sequence that most steps have; 0 is that of none. */
static lk_status find_commonest_sequence(struct reader *reader, uint64_t *hash, uint64_t *usual) {
	size_t count = reader->steps.begin.count - 1, most = 0, same = 0;
	uint64_t *sorted = LK_ARRAY(&reader->out->arena, uint64_t, count);
	if (!sorted) return lk_oom(reader->err);
	for (size_t s = 0; s < count; s++) {
		LK_TRY(collect_step_calls(reader, s));
		sorted[s] = hash[s] = reader->call.count ? hash_step_sequence(reader) : 0;
	}
	lk_sort(sorted, count, sizeof *sorted, lk_by_u64);
	for (size_t s = 0; s < count; s++) {
		same = s && sorted[s] == sorted[s - 1] ? same + 1 : 1;
		if (sorted[s] && same > most) {
			most = same;
			*usual = sorted[s];
		}
	}
	reader->out->steps = (uint32_t)count;
	reader->out->unlike = (uint32_t)(count - most);
	if (most < FEWEST_STEPS)
		return fail_recording(reader, "no two of its steps have the same communication",
		                      "record more steps, or give a --step-marker");
	return LK_OK;
}

static lk_status add_comm_item(struct reader *reader, size_t i, lk_emulated_item *item) {
	LK_ASSERT(i < reader->call.count);
	const lk_record_entry *entry = &reader->run->calls.at[reader->call.at[i]].record;
	uint64_t back = items_since_awaited(reader, i);
	bool done = entry->comm.part == LK_PART_DONE, enqueued = entry->comm.part == LK_PART_ENQUEUE;
	const lk_recorded_name *name = lk_recorded_find(&reader->run->names, 0, entry->comm.call);
	*item = (lk_emulated_item){.part = entry->comm.part,
	                           .what = entry->comm.what,
	                           .element_bytes = entry->comm.element_bytes,
	                           .group = find_emulated_group(reader->out, entry->object),
	                           .name = name ? name->name : 0,
	                           .peer = entry->comm.peer,
	                           .from = (int32_t)entry->comm.from,
	                           .tag = enqueued ? 0 : entry->comm.tag,
	                           .bytes = entry->bytes,
	                           .begun = LK_NONE};
	if (enqueued && entry->comm.tag > 0) item->stream = (uint32_t)entry->comm.tag;
	if (!done && item->group == LK_NONE)
		return fail_recording(reader, "communicates in a communicator that it does not describe",
		                      NULL);
	if (done && back) item->begun = (uint32_t)(i - back);
	return LK_OK;
}

static void add_device_item(struct reader *reader, size_t i, lk_emulated_item *item) {
	LK_ASSERT(i < reader->call.count);
	uint32_t call = reader->call.at[i],
			 awaited = lk_emulated_device_awaited(&reader->device, reader->run, call);
	const lk_record_entry *entry = &reader->run->calls.at[call].record;
	uint64_t back = items_since_awaited(reader, i);
	*item = (lk_emulated_item){.device = true,
	                           .what = entry->device.what,
	                           .direction = entry->device.direction,
	                           .stream = entry->device.stream,
	                           .name = lk_emulated_device_name(&reader->device, entry),
	                           .group = LK_NONE,
	                           .bytes = entry->bytes,
	                           .waits = lk_emulated_device_waits(reader->run, call),
	                           .begun = back ? (uint32_t)(i - back) : LK_NONE};
	if (awaited != LK_NONE) item->on = reader->run->calls.at[awaited].record.device.stream;
}

/* Mark calls of a group, which reach their stream together. */
static void join_nccl_groups(struct reader *reader) {
	for (size_t i = reader->call.count; i-- > 0;) {
		lk_emulated_item *item = &reader->out->items.at[i];
		const lk_record_entry *entry = &reader->run->calls.at[reader->call.at[i]].record;
		if (item->device || item->part != LK_PART_ENQUEUE || item->members) continue;
		for (size_t k = i + 1; k-- > 0 && i - k < MOST_APART;) {
			lk_emulated_item *other = &reader->out->items.at[k];
			const lk_record_entry *record_entry = &reader->run->calls.at[reader->call.at[k]].record;
			bool enqueued = !other->device && other->part == LK_PART_ENQUEUE;
			if (k != i && enqueued && other->stream == item->stream &&
			    record_entry->comm.request != entry->comm.request)
				break;
			if (k != i && (!enqueued || !entry->comm.request ||
			               record_entry->comm.request != entry->comm.request))
				continue;
			other->last = (uint32_t)i;
			other->members = 1;
			if (k != i) item->members++;
		}
	}
	for (size_t i = 0; i < reader->call.count; i++) {
		lk_emulated_item *item = &reader->out->items.at[i];
		if (item->members) item->members = reader->out->items.at[item->last].members;
	}
}

static lk_status add_step_items(struct reader *reader) {
	for (size_t i = 0; i < reader->call.count; i++) {
		if (!lk_push(&reader->out->items)) return lk_oom(reader->err);
		bool device =
			reader->run->calls.at[reader->call.at[i]].record.kind == LK_RECORD_DEVICE_CALL;
		if (device) add_device_item(reader, i, lk_last(&reader->out->items));
		else LK_TRY(add_comm_item(reader, i, lk_last(&reader->out->items)));
	}
	join_nccl_groups(reader);
	return LK_OK;
}

/* ---- times ---- */

/* Of each item in every typical step: [item * count + step]. */
struct times {
	size_t count;                                         /* typical steps */
	double *own, *asleep, *files, *work, *whole, *device; /* the last two are of whole steps */
};

static bool allocate_step_times(struct times *times, size_t items, size_t count) {
	size_t room = items * count + 1;
	*times = (struct times){count,
	                        calloc(room, sizeof(double)),
	                        calloc(room, sizeof(double)),
	                        calloc(room, sizeof(double)),
	                        calloc(room, sizeof(double)),
	                        calloc(count + 1, sizeof(double)),
	                        calloc(count + 1, sizeof(double))};
	return times->own && times->asleep && times->files && times->work && times->whole &&
	       times->device;
}

static void free_step_times(struct times *times) {
	free(times->own);
	free(times->asleep);
	free(times->files);
	free(times->work);
	free(times->whole);
	free(times->device);
}

/* The median of the timed ones; NAN if none was timed. */
static double median_known_work(double *work, size_t count) {
	size_t known = 0;
	for (size_t i = 0; i < count; i++)
		if (!isnan(work[i])) work[known++] = work[i];
	return known ? lk_median(work, known) : NAN;
}

static void set_item_times(lk_emulated_step *out, size_t i, struct times *times) {
	LK_ASSERT(i < out->items.count && times->count > 0);
	lk_emulated_item *item = &out->items.at[i];
	double *own = times->own + i * times->count;
	item->own_ns = lk_median(own, times->count);
	item->asleep_ns = fmin(item->own_ns, lk_median(times->asleep + i * times->count, times->count));
	item->files_ns = lk_median(times->files + i * times->count, times->count);
	item->low_ns = lk_quantile(own, times->count, 0.1);
	item->high_ns = lk_quantile(own, times->count, 0.9);
	item->work_ns = median_known_work(times->work + i * times->count, times->count);
	out->step_ns += item->own_ns + item->files_ns;
	out->asleep_ns += item->asleep_ns;
	if (isnan(item->work_ns)) out->untimed++;
	else out->device_ns += item->work_ns;
}

/* Work before item `i`, and on its stream, in every typical step. */
static lk_status fill_item_times(struct reader *reader, const uint64_t *hash, uint64_t usual) {
	size_t items = reader->out->items.count, at = 0;
	struct times t;
	lk_status status = allocate_step_times(&t, items, reader->out->steps - reader->out->unlike)
	                       ? LK_OK
	                       : lk_oom(reader->err);
	for (size_t s = 0; status == LK_OK && s < reader->out->steps; s++) {
		if (hash[s] != usual) continue;
		status = collect_step_calls(reader, s);
		for (size_t i = 0; status == LK_OK && i < items; i++) {
			size_t place = i * t.count + at;
			t.own[place] = reader->own.at[i];
			t.asleep[place] = reader->asleep.at[i];
			t.files[place] = reader->files.at[i];
			t.work[place] = reader->work.at[i];
			t.whole[at] += reader->own.at[i] + reader->files.at[i];
			t.device[at] += isnan(reader->work.at[i]) ? 0 : reader->work.at[i];
		}
		at++;
	}
	for (size_t i = 0; status == LK_OK && i < items; i++) set_item_times(reader->out, i, &t);
	if (status == LK_OK) {
		reader->out->low_ns = lk_quantile(t.whole, t.count, 0.1);
		reader->out->high_ns = lk_quantile(t.whole, t.count, 0.9);
		reader->out->device_low_ns = lk_quantile(t.device, t.count, 0.1);
		reader->out->device_high_ns = lk_quantile(t.device, t.count, 0.9);
	}
	free_step_times(&t);
	return status;
}

/* Own work of all steps, of any sequence, beyond as many typical ones. */
static lk_status find_extra_time(struct reader *reader) {
	double all = 0;
	reader->queued = 0;
	for (size_t s = 0; s < reader->out->steps; s++) {
		LK_TRY(collect_step_calls(reader, s));
		for (size_t i = 0; i < reader->call.count; i++)
			all += reader->own.at[i] + reader->files.at[i];
	}
	reader->out->preempted_ns = reader->queued / reader->out->steps;
	reader->out->extra_ns = fmax(0, all / reader->out->steps - reader->out->step_ns);
	return LK_OK;
}

static lk_status read_emulated_step(struct reader *reader) {
	uint64_t usual = 0;
	for (size_t i = 0; i < reader->run->groups.count; i++)
		if (reader->run->groups.at[i].key >> 32 == 0)
			LK_TRY(add_emulated_group(reader, &reader->run->groups.at[i]));
	LK_TRY(read_queue(reader));
	LK_TRY(lk_emulated_device_read(reader->run, &reader->device, reader->err));
	LK_TRY(lk_recorded_find_steps(reader->run, &reader->steps, reader->err));
	if (!reader->steps.begin.count)
		return fail_recording(
			reader, "has no steps",
			"record more of them, or name what begins one with record --step-marker");
	/* the first step's begin is unknown, and it warms up */
	if (reader->steps.begin.count > FEWEST_STEPS + 1)
		memmove(reader->steps.begin.at, reader->steps.begin.at + 1,
		        --reader->steps.begin.count * sizeof *reader->steps.begin.at);
	uint64_t *hash = LK_ARRAY(&reader->out->arena, uint64_t, reader->steps.begin.count);
	reader->item_of = LK_ARRAY(&reader->out->arena, uint32_t, reader->run->calls.count);
	if (!hash || !reader->item_of) return lk_oom(reader->err);
	LK_TRY(find_commonest_sequence(reader, hash, &usual));
	for (size_t s = reader->out->steps; s-- > 0;)
		if (hash[s] == usual) {
			LK_TRY(collect_step_calls(reader, s));
			break;
		}
	LK_TRY(add_step_items(reader));
	LK_TRY(fill_item_times(reader, hash, usual));
	return find_extra_time(reader);
}

lk_status lk_emulated_step_of(const lk_recorded_run *run, lk_emulated_step *out, lk_error *err) {
	struct reader r = {.run = run, .out = out, .err = err};
	*out = (lk_emulated_step){.run = run, .rank = run->head.rank, .world = run->head.world};
	if (run->head.mode != LK_RECORDED_AS_RANK) {
		lk_fail(err, LK_ERR_INPUT, run->path, "was not recorded as an emulated rank");
		return lk_hint(
			err, "lockstep record --world N --ranks A,B,... -- COMMAND makes such recordings");
	}
	bool good =
		out->world >= 1 && out->world <= MOST_WORLD && out->rank >= 0 && out->rank < out->world;
	lk_status status =
		good ? read_emulated_step(&r) : fail_recording(&r, "has an impossible rank number", NULL);
	lk_vec_free(&r.call);
	lk_vec_free(&r.own);
	lk_vec_free(&r.asleep);
	lk_vec_free(&r.files);
	lk_vec_free(&r.work);
	lk_vec_free(&r.queue);
	lk_vec_free(&r.device.at);
	lk_vec_free(&r.steps.begin);
	if (status != LK_OK) lk_emulated_step_free(out);
	return status;
}

void lk_emulated_step_free(lk_emulated_step *step) {
	lk_vec_free(&step->groups);
	lk_vec_free(&step->items);
	lk_arena_free(&step->arena);
}
