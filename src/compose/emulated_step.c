/* emulated_step.c: of the steps of a recording, the sequence of calls that most of them have; then, over these, medians of the
 * own work before each call and of the work that it put on a device's stream. */
#include "compose/compose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/text.h"

enum { MOST_WORLD = 1 << 16, FEWEST_STEPS = 2, FIRST_OF_NCCL = 1 << 20, MOST_APART = 1 << 10 };

struct reader {
	const lk_recorded_run *run;
	lk_posed_step *out;
	lk_recorded_steps steps;
	LK_VEC(uint32_t) call;   /* of the step that is looked at: calls of the run */
	LK_VEC(double) own, files, work; /* beside them: work before each; on its stream */
	lk_posed_device device;
	uint32_t *item_of;       /* [calls of the run] its place among `call` */
	lk_error *err;
};

static lk_status bad(const struct reader *r, const char *what, const char *hint) {
	lk_fail(r->err, LK_ERR_INPUT, r->run->path, "%s", what);
	return hint ? lk_hint(r->err, "%s", hint) : LK_ERR_INPUT;
}

/* ---- communicators ---- */

/* "[0, 1, 2]", of large ones also first:last:stride. */
static bool read_ranks(const char *text, int32_t world, int32_t size, int32_t *out) {
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

static bool same_ranks(const lk_posed_group *a, const lk_posed_group *b) {
	return a->size == b->size && memcmp(a->ranks, b->ranks, (size_t)a->size * sizeof *a->ranks) == 0;
}

static lk_status add_group(struct reader *r, const lk_recorded_name *name) {
	lk_posed_step *out = r->out;
	if (name->size < 1 || name->size > out->world || !lk_push(&out->groups))
		return name->size < 1 || name->size > out->world ? bad(r, "has a communicator of an impossible size", NULL) : lk_oom(r->err);
	lk_posed_group *g = lk_last(&out->groups);
	*g = (lk_posed_group){.number = (uint32_t)name->key, .own = name->rank, .division = name->division, .size = name->size,
	                      .ranks = LK_ARRAY(&out->arena, int32_t, name->size)};
	if (!g->ranks) return lk_oom(r->err);
	/* NCCL's tell no division: each is one of its own */
	if (!g->division) g->division = lk_hash64((uint64_t)(uint32_t)out->rank << 32 | g->number) | 1;
	if (!read_ranks(lk_intern_text(r->run->texts, name->name), out->world, g->size, g->ranks))
		return bad(r, "has a communicator whose ranks are not all told",
		           g->number >= FIRST_OF_NCCL ? "record --splits says which ranks of the world are in a part" : NULL);
	if (g->own >= g->size || (g->own >= 0 && g->ranks[g->own] != out->rank))
		return bad(r, "has a communicator whose ranks do not fit its own", NULL);
	for (size_t i = 0; g->own >= 0 && i + 1 < out->groups.count; i++)
		g->again += out->groups.at[i].own >= 0 && same_ranks(&out->groups.at[i], g);
	return LK_OK;
}

static lk_status add_groups(struct reader *r) {
	for (size_t i = 0; i < r->run->groups.count; i++)
		if (r->run->groups.at[i].key >> 32 == 0) LK_TRY(add_group(r, &r->run->groups.at[i]));
	return LK_OK;
}

static uint32_t group_of(const lk_posed_step *step, uint32_t number) {
	for (uint32_t i = 0; i < step->groups.count; i++)
		if (step->groups.at[i].number == number && step->groups.at[i].own >= 0) return i;
	return LK_NONE;
}

/* ---- one step ---- */

/* Of MPI what the main thread does; what is put on streams may come from any. */
static bool communicates(const lk_recorded_run *run, const lk_recorded_call *call) {
	const lk_record_entry *record = &call->record;
	if (call->process || record->kind != LK_RECORD_COMM) return false;
	if (record->comm.part == LK_PART_ENQUEUE) return record->comm.what != LK_WHAT_OTHER;
	if (record->thread != run->main_thread) return false;
	if (record->comm.part == LK_PART_DONE) return call->done != LK_NONE;
	if (record->comm.what == LK_WHAT_OTHER) return false;
	return record->comm.part == LK_PART_WHOLE || record->comm.part == LK_PART_POST || record->comm.part == LK_PART_START;
}

static bool is_file(const lk_recorded_run *run, const lk_recorded_call *call) {
	return !call->process && call->record.thread == run->main_thread && call->record.kind >= LK_RECORD_OPEN &&
	       call->record.kind <= LK_RECORD_CLOSE;
}

static double file_ns(const lk_record_entry *record) {
	bool moves = record->kind == LK_RECORD_READ || record->kind == LK_RECORD_WRITE;
	return (double)(moves ? record->io.busy_ns : record->end_ns - record->start_ns);
}

static size_t first_from(const lk_recorded_run *run, int64_t ns) {
	size_t low = 0, high = run->calls.count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (run->calls.at[middle].record.start_ns < ns) low = middle + 1;
		else high = middle;
	}
	return low;
}

/* Puts call `i` among those of the step. What it put on a stream begins when it was called: the time in it is own work
 * before what follows. */
static lk_status add_call(struct reader *r, uint32_t i, double *files, int64_t *since) {
	const lk_record_entry *record = &r->run->calls.at[i].record;
	bool goes_on = record->kind == LK_RECORD_DEVICE_CALL && !lk_posed_device_waits(r->run, i);
	int64_t until = goes_on ? record->start_ns : record->end_ns;
	if (!lk_push(&r->call) || !lk_push(&r->own) || !lk_push(&r->files) || !lk_push(&r->work)) return lk_oom(r->err);
	r->item_of[i] = (uint32_t)r->call.count - 1;
	*lk_last(&r->call) = i;
	*lk_last(&r->own) = fmax(0, (double)(record->start_ns - *since) - *files);
	*lk_last(&r->files) = *files;
	*lk_last(&r->work) = lk_posed_device_work_ns(&r->device, record);
	*files = 0;
	if (until > *since) *since = until;
	return LK_OK;
}

/* The calls of step `s`, and the own work and files before each. What comes behind the last call is the next step's. */
static lk_status walk(struct reader *r, size_t s) {
	const lk_recorded_run *run = r->run;
	int64_t from = r->steps.begin.at[s], to = r->steps.begin.at[s + 1], since = from;
	double files = 0;
	r->call.count = r->own.count = r->files.count = r->work.count = 0;
	for (size_t i = first_from(run, from); i < run->calls.count && run->calls.at[i].record.start_ns < to; i++) {
		const lk_recorded_call *call = &run->calls.at[i];
		if (is_file(run, call)) files += file_ns(&call->record);
		if (communicates(run, call) || lk_posed_device_item(&r->device, run, (uint32_t)i))
			LK_TRY(add_call(r, (uint32_t)i, &files, &since));
	}
	return LK_OK;
}

/* How many items before item `i` the call is that it waits for; 0 none of this step. */
static uint64_t distance(const struct reader *r, size_t i) {
	uint32_t call = r->call.at[i], of = r->run->calls.at[call].done;
	if (r->run->calls.at[call].record.kind == LK_RECORD_DEVICE_CALL) of = lk_posed_device_awaited(&r->device, r->run, call);
	bool here = of != LK_NONE && of >= r->call.at[0] && of < call && r->item_of[of] < i && r->call.at[r->item_of[of]] == of;
	return here ? i - r->item_of[of] : 0;
}

static uint64_t hash_of(const struct reader *r) {
	uint64_t hash = r->call.count;
	for (size_t i = 0; i < r->call.count; i++) {
		const lk_record_entry *c = &r->run->calls.at[r->call.at[i]].record;
		if (c->kind == LK_RECORD_DEVICE_CALL) {
			hash = lk_hash64(hash ^ ((uint64_t)c->device.what << 40 | (uint64_t)c->device.direction << 32 | c->device.stream));
			hash = lk_hash64(hash ^ distance(r, i));
			continue;
		}
		hash = lk_hash64(hash ^ ((uint64_t)c->comm.part << 56 | (uint64_t)c->comm.what << 48 | c->object));
		if (c->comm.part == LK_PART_DONE) hash = lk_hash64(hash ^ distance(r, i));
		else hash = lk_hash64(lk_hash64(hash ^ (uint64_t)c->bytes) ^ ((uint64_t)(uint32_t)c->comm.peer << 32 | (uint32_t)c->comm.tag));
	}
	return hash;
}

/* ---- the usual one ---- */

static int by_value(const void *a, const void *b) {
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* The sequence that most steps have; 0 is that of none. */
static lk_status find_usual(struct reader *r, uint64_t *hash, uint64_t *usual) {
	size_t count = r->steps.begin.count - 1, most = 0, same = 0;
	uint64_t *sorted = LK_ARRAY(&r->out->arena, uint64_t, count);
	if (!sorted) return lk_oom(r->err);
	for (size_t s = 0; s < count; s++) {
		LK_TRY(walk(r, s));
		sorted[s] = hash[s] = r->call.count ? hash_of(r) : 0;
	}
	qsort(sorted, count, sizeof *sorted, by_value);
	for (size_t s = 0; s < count; s++) {
		same = s && sorted[s] == sorted[s - 1] ? same + 1 : 1;
		if (sorted[s] && same > most) most = same, *usual = sorted[s];
	}
	r->out->steps = (uint32_t)count, r->out->unlike = (uint32_t)(count - most);
	if (most < FEWEST_STEPS) return bad(r, "no two of its steps communicate alike", "record more steps, or name a --step-marker");
	return LK_OK;
}

static lk_status add_comm_item(struct reader *r, size_t i, lk_posed_item *item) {
	const lk_record_entry *c = &r->run->calls.at[r->call.at[i]].record;
	uint64_t back = distance(r, i);
	bool done = c->comm.part == LK_PART_DONE, enqueued = c->comm.part == LK_PART_ENQUEUE;
	const lk_recorded_name *name = lk_recorded_find(&r->run->names, 0, c->comm.call);
	*item = (lk_posed_item){.part = c->comm.part, .what = c->comm.what, .element_bytes = c->comm.element_bytes,
	                        .group = group_of(r->out, c->object), .name = name ? name->name : 0, .peer = c->comm.peer,
	                        .from = (int32_t)c->comm.from, .tag = enqueued ? 0 : c->comm.tag, .bytes = c->bytes, .begun = LK_NONE};
	if (enqueued && c->comm.tag > 0) item->stream = (uint32_t)c->comm.tag;
	if (!done && item->group == LK_NONE) return bad(r, "communicates in a communicator that it does not describe", NULL);
	if (done && back) item->begun = (uint32_t)(i - back);
	return LK_OK;
}

static void add_device_item(struct reader *r, size_t i, lk_posed_item *item) {
	uint32_t call = r->call.at[i], awaited = lk_posed_device_awaited(&r->device, r->run, call);
	const lk_record_entry *c = &r->run->calls.at[call].record;
	uint64_t back = distance(r, i);
	*item = (lk_posed_item){.device = (uint8_t)(1 + c->device.what), .direction = c->device.direction, .stream = c->device.stream,
	                        .name = lk_posed_device_name(&r->device, c), .group = LK_NONE, .bytes = c->bytes,
	                        .waits = lk_posed_device_waits(r->run, call), .begun = back ? (uint32_t)(i - back) : LK_NONE};
	if (awaited != LK_NONE) item->on = r->run->calls.at[awaited].record.device.stream;
}

/* Calls of a group reach their stream together. */
static void join_groups(struct reader *r) {
	for (size_t i = r->call.count; i-- > 0;) {
		lk_posed_item *item = &r->out->items.at[i];
		const lk_record_entry *c = &r->run->calls.at[r->call.at[i]].record;
		if (item->device || item->part != LK_PART_ENQUEUE || item->members) continue;
		for (size_t k = i + 1; k-- > 0 && i - k < MOST_APART;) {
			lk_posed_item *other = &r->out->items.at[k];
			const lk_record_entry *o = &r->run->calls.at[r->call.at[k]].record;
			bool enqueued = !other->device && other->part == LK_PART_ENQUEUE;
			if (k != i && enqueued && other->stream == item->stream && o->comm.request != c->comm.request) break;
			if (k != i && (!enqueued || !c->comm.request || o->comm.request != c->comm.request)) continue;
			other->last = (uint32_t)i, other->members = 1;
			if (k != i) item->members++;
		}
	}
	for (size_t i = 0; i < r->call.count; i++) {
		lk_posed_item *item = &r->out->items.at[i];
		if (item->members) item->members = r->out->items.at[item->last].members;
	}
}

static lk_status add_items(struct reader *r) {
	for (size_t i = 0; i < r->call.count; i++) {
		if (!lk_push(&r->out->items)) return lk_oom(r->err);
		bool device = r->run->calls.at[r->call.at[i]].record.kind == LK_RECORD_DEVICE_CALL;
		if (device) add_device_item(r, i, lk_last(&r->out->items));
		else LK_TRY(add_comm_item(r, i, lk_last(&r->out->items)));
	}
	join_groups(r);
	return LK_OK;
}

/* ---- times ---- */

/* Of each item in every usual step: [item * count + step]. */
struct times {
	size_t count;            /* usual steps */
	double *own, *files, *work, *whole, *device; /* the last two of whole steps */
};

static bool new_times(struct times *t, size_t items, size_t count) {
	size_t room = items * count + 1;
	*t = (struct times){count, calloc(room, sizeof(double)), calloc(room, sizeof(double)), calloc(room, sizeof(double)),
	             calloc(count + 1, sizeof(double)), calloc(count + 1, sizeof(double))};
	return t->own && t->files && t->work && t->whole && t->device;
}

static void free_times(struct times *t) {
	free(t->own), free(t->files), free(t->work), free(t->whole), free(t->device);
}

/* Of what was timed; NAN where nothing was. */
static double usual_work(double *work, size_t count) {
	size_t known = 0;
	for (size_t i = 0; i < count; i++)
		if (!isnan(work[i])) work[known++] = work[i];
	return known ? lk_median(work, known) : NAN;
}

static void take_item(lk_posed_step *out, size_t i, struct times *t) {
	lk_posed_item *item = &out->items.at[i];
	double *own = t->own + i * t->count;
	item->own_ns = lk_median(own, t->count), item->files_ns = lk_median(t->files + i * t->count, t->count);
	item->low_ns = lk_quantile(own, t->count, 0.1), item->high_ns = lk_quantile(own, t->count, 0.9);
	item->work_ns = usual_work(t->work + i * t->count, t->count);
	out->step_ns += item->own_ns + item->files_ns;
	if (isnan(item->work_ns)) out->untimed++;
	else out->device_ns += item->work_ns;
}

/* Work before item `i`, and on its stream, in every usual step. */
static lk_status take_times(struct reader *r, const uint64_t *hash, uint64_t usual) {
	size_t items = r->out->items.count, at = 0;
	struct times t;
	lk_status status = new_times(&t, items, r->out->steps - r->out->unlike) ? LK_OK : lk_oom(r->err);
	for (size_t s = 0; status == LK_OK && s < r->out->steps; s++) {
		if (hash[s] != usual) continue;
		status = walk(r, s);
		for (size_t i = 0; status == LK_OK && i < items; i++) {
			size_t place = i * t.count + at;
			t.own[place] = r->own.at[i], t.files[place] = r->files.at[i], t.work[place] = r->work.at[i];
			t.whole[at] += r->own.at[i] + r->files.at[i];
			t.device[at] += isnan(r->work.at[i]) ? 0 : r->work.at[i];
		}
		at++;
	}
	for (size_t i = 0; status == LK_OK && i < items; i++) take_item(r->out, i, &t);
	if (status == LK_OK) {
		r->out->low_ns = lk_quantile(t.whole, t.count, 0.1), r->out->high_ns = lk_quantile(t.whole, t.count, 0.9);
		r->out->device_low_ns = lk_quantile(t.device, t.count, 0.1), r->out->device_high_ns = lk_quantile(t.device, t.count, 0.9);
	}
	free_times(&t);
	return status;
}

/* Own work of all steps, whatever they communicate, beyond so many usual ones. */
static lk_status take_rest(struct reader *r) {
	double all = 0;
	for (size_t s = 0; s < r->out->steps; s++) {
		LK_TRY(walk(r, s));
		for (size_t i = 0; i < r->call.count; i++) all += r->own.at[i] + r->files.at[i];
	}
	r->out->beside_ns = fmax(0, all / r->out->steps - r->out->step_ns);
	return LK_OK;
}

static lk_status read_step(struct reader *r) {
	uint64_t usual = 0;
	LK_TRY(add_groups(r));
	LK_TRY(lk_posed_device_read(r->run, &r->device, r->err));
	LK_TRY(lk_recorded_find_steps(r->run, &r->steps, r->err));
	if (!r->steps.begin.count)
		return bad(r, "has no steps", "record more of them, or name what begins one with record --step-marker");
	/* where the first one begins is not known, and it warms up */
	if (r->steps.begin.count > FEWEST_STEPS + 1)
		memmove(r->steps.begin.at, r->steps.begin.at + 1, --r->steps.begin.count * sizeof *r->steps.begin.at);
	uint64_t *hash = LK_ARRAY(&r->out->arena, uint64_t, r->steps.begin.count);
	r->item_of = LK_ARRAY(&r->out->arena, uint32_t, r->run->calls.count);
	if (!hash || !r->item_of) return lk_oom(r->err);
	LK_TRY(find_usual(r, hash, &usual));
	for (size_t s = r->out->steps; s-- > 0;)
		if (hash[s] == usual) {
			LK_TRY(walk(r, s));
			break;
		}
	LK_TRY(add_items(r));
	LK_TRY(take_times(r, hash, usual));
	return take_rest(r);
}

lk_status lk_posed_step_of(const lk_recorded_run *run, lk_posed_step *out, lk_error *err) {
	struct reader r = {.run = run, .out = out, .err = err};
	*out = (lk_posed_step){.run = run, .rank = run->head.rank, .world = run->head.world};
	if (run->head.mode != LK_RECORDED_AS_RANK) {
		lk_fail(err, LK_ERR_INPUT, run->path, "was not recorded as a rank of a pretended world");
		return lk_hint(err, "lockstep record --world N --ranks A,B,... -- COMMAND makes such recordings");
	}
	bool good = out->world >= 1 && out->world <= MOST_WORLD && out->rank >= 0 && out->rank < out->world;
	lk_status status = good ? read_step(&r) : bad(&r, "says that it is of an impossible rank", NULL);
	lk_vec_free(&r.call);
	lk_vec_free(&r.own);
	lk_vec_free(&r.files);
	lk_vec_free(&r.work);
	lk_vec_free(&r.device.at);
	lk_vec_free(&r.steps.begin);
	if (status != LK_OK) lk_posed_step_free(out);
	return status;
}

void lk_posed_step_free(lk_posed_step *step) {
	lk_vec_free(&step->groups);
	lk_vec_free(&step->items);
	lk_arena_free(&step->arena);
}
