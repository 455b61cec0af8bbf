/* posed_step.c: of the steps of a recording, the sequence of calls that most of them have; then, over these, medians of the
 * own work before each call. */
#include "trace/posed_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "base/text.h"

enum { MOST_WORLD = 1 << 16, FEWEST_STEPS = 2 };

typedef struct reader {
	const lk_recorded_run *run;
	lk_posed_step *out;
	lk_recorded_steps steps;
	LK_VEC(uint32_t) call;   /* of the step that is looked at: calls of the run */
	LK_VEC(double) own, files; /* beside them: work before each */
	uint32_t *item_of;       /* [calls of the run] its place among `call` */
	lk_error *err;
} reader;

static lk_status bad(const reader *r, const char *what, const char *hint) {
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

static lk_status add_group(reader *r, const lk_recorded_name *name) {
	lk_posed_step *out = r->out;
	if (name->size < 1 || name->size > out->world || !lk_push(&out->groups))
		return name->size < 1 || name->size > out->world ? bad(r, "has a communicator of an impossible size", NULL) : lk_oom(r->err);
	lk_posed_group *g = lk_last(&out->groups);
	*g = (lk_posed_group){.number = (uint32_t)name->key, .own = name->rank, .division = name->division, .size = name->size,
	                      .ranks = LK_ARRAY(&out->arena, int32_t, name->size)};
	if (!g->ranks) return lk_oom(r->err);
	if (!read_ranks(lk_intern_text(r->run->texts, name->name), out->world, g->size, g->ranks))
		return bad(r, "has a communicator whose ranks are not all told", NULL);
	if (g->own >= g->size || (g->own >= 0 && g->ranks[g->own] != out->rank))
		return bad(r, "has a communicator whose ranks do not fit its own", NULL);
	for (size_t i = 0; g->own >= 0 && i + 1 < out->groups.count; i++)
		g->again += out->groups.at[i].own >= 0 && same_ranks(&out->groups.at[i], g);
	return LK_OK;
}

static lk_status add_groups(reader *r) {
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

static bool is_item(const lk_recorded_run *run, const lk_recorded_call *call) {
	const lk_record_entry *record = &call->record;
	if (call->process || record->thread != run->main_thread || record->kind != LK_RECORD_COMM) return false;
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

/* The calls of step `s`, and the own work and files before each. What comes behind the last call is the next step's. */
static lk_status walk(reader *r, size_t s) {
	const lk_recorded_run *run = r->run;
	int64_t from = r->steps.begin.at[s], to = r->steps.begin.at[s + 1], since = from;
	double files = 0;
	r->call.count = r->own.count = r->files.count = 0;
	for (size_t i = first_from(run, from); i < run->calls.count && run->calls.at[i].record.start_ns < to; i++) {
		const lk_recorded_call *call = &run->calls.at[i];
		const lk_record_entry *record = &call->record;
		if (is_file(run, call)) files += file_ns(record);
		if (!is_item(run, call)) continue;
		if (!lk_push(&r->call) || !lk_push(&r->own) || !lk_push(&r->files)) return lk_oom(r->err);
		r->item_of[i] = (uint32_t)r->call.count - 1;
		*lk_last(&r->call) = (uint32_t)i;
		*lk_last(&r->own) = fmax(0, (double)(record->start_ns - since) - files);
		*lk_last(&r->files) = files;
		files = 0;
		if (record->end_ns > since) since = record->end_ns;
	}
	return LK_OK;
}

static uint64_t hash_of(const reader *r) {
	uint64_t hash = r->call.count;
	for (size_t i = 0; i < r->call.count; i++) {
		const lk_recorded_call *call = &r->run->calls.at[r->call.at[i]];
		const lk_record_entry *c = &call->record;
		hash = lk_hash64(hash ^ ((uint64_t)c->comm.part << 56 | (uint64_t)c->comm.what << 48 | c->object));
		if (c->comm.part == LK_PART_DONE) hash = lk_hash64(hash ^ (r->call.at[i] - call->done));
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
static lk_status find_usual(reader *r, uint64_t *hash, uint64_t *usual) {
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

static lk_status add_items(reader *r) {
	for (size_t i = 0; i < r->call.count; i++) {
		const lk_recorded_call *call = &r->run->calls.at[r->call.at[i]];
		const lk_record_entry *c = &call->record;
		bool done = c->comm.part == LK_PART_DONE;
		const lk_recorded_name *name = lk_recorded_find(&r->run->names, 0, c->comm.call);
		if (!lk_push(&r->out->items)) return lk_oom(r->err);
		lk_posed_item *item = lk_last(&r->out->items);
		*item = (lk_posed_item){.part = c->comm.part, .what = c->comm.what, .element_bytes = c->comm.element_bytes,
		                        .group = group_of(r->out, c->object), .name = name ? name->name : 0, .peer = c->comm.peer,
		                        .from = (int32_t)c->comm.from, .tag = c->comm.tag, .bytes = c->bytes, .begun = LK_NONE};
		if (!done && item->group == LK_NONE) return bad(r, "communicates in a communicator that it does not describe", NULL);
		if (done && call->done >= r->call.at[0]) item->begun = r->item_of[call->done];
	}
	return LK_OK;
}

/* Work before item `i` in every usual step. */
static lk_status take_times(reader *r, const uint64_t *hash, uint64_t usual) {
	size_t items = r->out->items.count, count = r->out->steps - r->out->unlike, at = 0;
	double *own = calloc(items * count + 1, sizeof *own), *files = calloc(items * count + 1, sizeof *files);
	double *whole = calloc(count + 1, sizeof *whole);
	lk_status status = own && files && whole ? LK_OK : lk_oom(r->err);
	for (size_t s = 0; status == LK_OK && s < r->out->steps; s++) {
		if (hash[s] != usual) continue;
		status = walk(r, s);
		for (size_t i = 0; status == LK_OK && i < items; i++) {
			own[i * count + at] = r->own.at[i], files[i * count + at] = r->files.at[i];
			whole[at] += r->own.at[i] + r->files.at[i];
		}
		at++;
	}
	for (size_t i = 0; status == LK_OK && i < items; i++) {
		lk_posed_item *item = &r->out->items.at[i];
		item->own_ns = lk_median(own + i * count, count), item->files_ns = lk_median(files + i * count, count);
		item->low_ns = lk_quantile(own + i * count, count, 0.1), item->high_ns = lk_quantile(own + i * count, count, 0.9);
		r->out->step_ns += item->own_ns + item->files_ns;
	}
	if (status == LK_OK) r->out->low_ns = lk_quantile(whole, count, 0.1), r->out->high_ns = lk_quantile(whole, count, 0.9);
	free(own);
	free(files);
	free(whole);
	return status;
}

/* Own work of all steps, whatever they communicate, beyond so many usual ones. */
static lk_status take_rest(reader *r) {
	double all = 0;
	for (size_t s = 0; s < r->out->steps; s++) {
		LK_TRY(walk(r, s));
		for (size_t i = 0; i < r->call.count; i++) all += r->own.at[i] + r->files.at[i];
	}
	r->out->beside_ns = fmax(0, all / r->out->steps - r->out->step_ns);
	return LK_OK;
}

static lk_status read_step(reader *r) {
	uint64_t usual = 0;
	LK_TRY(add_groups(r));
	LK_TRY(lk_recorded_find_steps(r->run, &r->steps, r->err));
	if (!r->steps.begin.count)
		return bad(r, "has no steps", "record more of them, or name what begins one with record --step-marker");
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
	reader r = {.run = run, .out = out, .err = err};
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
	lk_vec_free(&r.steps.begin);
	if (status != LK_OK) lk_posed_step_free(out);
	return status;
}

void lk_posed_step_free(lk_posed_step *step) {
	lk_vec_free(&step->groups);
	lk_vec_free(&step->items);
	lk_arena_free(&step->arena);
}
