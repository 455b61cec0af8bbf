/* step_times.c: observations by key, at four levels of detail, in one hash table; an observation is
 * a host or device time. Means are without outliers. */
#include "trace/lift/lift.h"

#include <math.h>
#include <stdlib.h>
#include "base/stats.h"

enum { LEVELS = LK_KNOWN_NOT };

struct slot {
	uint64_t key;    /* 0: free */
	uint32_t newest; /* 1 + observation; in a keyer: occurrences of the path so far */
	uint32_t count;
	float mean; /* valid if `ready` */
	bool ready;
};

struct observation {
	float value;
	uint32_t older; /* 1 + observation of the same slot */
	uint32_t source;
};

/* Nanoseconds by stream and by kind of operation. */
struct totals {
	uint32_t source;
	double ns[LK_STREAMS][LK_LIFTED_END + 1];
};

struct lk_step_times {
	struct slot *slots;
	size_t size, used; /* size: a power of two */
	LK_VEC(struct observation) seen;
	LK_VEC(struct totals) totals; /* of all observations, by source */
	LK_VEC(double) scratch;
};

lk_step_times *lk_step_times_new(void) {
	lk_step_times *times = calloc(1, sizeof *times);
	if (times && !(times->slots = calloc(times->size = 1 << 12, sizeof *times->slots))) {
		free(times);
		return NULL;
	}
	return times;
}

void lk_step_times_free(lk_step_times *times) {
	if (!times) return;
	free(times->slots);
	lk_vec_free(&times->seen);
	lk_vec_free(&times->totals);
	lk_vec_free(&times->scratch);
	free(times);
}

/* ---- keys ---- */

/* Name ids belong to one capture, so keys are made from the texts. */
static uint64_t text_key(const lk_capture *capture, uint32_t name) {
	uint64_t h = 0x6c6b;
	for (const char *at = lk_capture_text(capture, name); *at; at++)
		h = (h ^ (unsigned char)*at) * 0x100000001b3u;
	return lk_hash64(h);
}

struct keys {
	uint64_t level[LEVELS];
};

static uint64_t times_mix(uint64_t a, uint64_t b) {
	return lk_hash64(a ^ (b + 0x9e3779b97f4a7c15u)) | 1;
}

/* Makes the keys of a rank's operations in order; counts the occurrences of each path. */
struct keyer {
	const lk_lifted_rank *rank;
	uint64_t *names;     /* [names of the capture], 0: not computed */
	struct slot *rounds; /* by path key: occurrences in total and so far */
	size_t size;
};

static struct slot *round_of(struct keyer *keyer, uint64_t key) {
	size_t at = key >> 1 & (keyer->size - 1);
	while (keyer->rounds[at].key && keyer->rounds[at].key != key) at = (at + 1) & (keyer->size - 1);
	keyer->rounds[at].key = key;
	return &keyer->rounds[at];
}

static struct keys coarse_keys(struct keyer *keyer, uint32_t name, uint64_t what, uint64_t path) {
	if (!keyer->names[name]) keyer->names[name] = text_key(keyer->rank->capture, name);
	struct keys out;
	out.level[LK_KNOWN_KIND] = times_mix(1, what);
	out.level[LK_KNOWN_NAME] = times_mix(keyer->names[name], what);
	out.level[LK_KNOWN_PATH] = times_mix(out.level[LK_KNOWN_NAME], path);
	return out;
}

static struct keys piece_path(struct keyer *keyer, const lk_host_piece *piece) {
	return coarse_keys(keyer, piece->name, (uint64_t)piece->term << 4 | piece->call, piece->path);
}

static struct keys device_path(struct keyer *keyer, const lk_lifted_op *op) {
	return coarse_keys(keyer, keyer->rank->capture->name[op->event], 0x100u + op->what, op->path);
}

/* Key of the place: the occurrence and the total number of occurrences. If the totals of two steps
 * differ, no place matches. */
static struct keys times_placed(struct keyer *keyer, struct keys out) {
	struct slot *round = round_of(keyer, out.level[LK_KNOWN_PATH]);
	out.level[LK_KNOWN_PLACE] =
		times_mix(out.level[LK_KNOWN_PATH], (uint64_t)round->count << 32 | round->newest++);
	return out;
}

static struct keys piece_keys(struct keyer *keyer, const lk_host_piece *piece) {
	return times_placed(keyer, piece_path(keyer, piece));
}

static struct keys device_keys(struct keyer *keyer, const lk_lifted_op *op) {
	return times_placed(keyer, device_path(keyer, op));
}

static bool is_device(const lk_lifted_op *op) {
	return op->what == LK_LIFTED_DEVICE || (op->what == LK_LIFTED_LAG && !op->carried) ||
	       op->what == LK_LIFTED_COMM || op->what == LK_LIFTED_PEERS;
}

static bool keyer_begin(struct keyer *keyer, const lk_lifted_rank *rank) {
	size_t things = rank->ops.count + rank->pieces.count;
	*keyer = (struct keyer){.rank = rank, .size = 1024};
	while (keyer->size < things * 2) keyer->size *= 2;
	keyer->names = calloc(lk_intern_count(rank->capture->names) + 1, sizeof *keyer->names);
	keyer->rounds = calloc(keyer->size, sizeof *keyer->rounds);
	if (!keyer->names || !keyer->rounds) return false;
	for (size_t i = 0; i < rank->ops.count; i++) {
		const lk_lifted_op *op = &rank->ops.at[i];
		for (uint32_t p = op->piece_begin; p < op->piece_end; p++)
			round_of(keyer, piece_path(keyer, &rank->pieces.at[p]).level[LK_KNOWN_PATH])->count++;
		if (is_device(op)) round_of(keyer, device_path(keyer, op).level[LK_KNOWN_PATH])->count++;
	}
	return true;
}

static void keyer_end(struct keyer *keyer) {
	free(keyer->names);
	free(keyer->rounds);
}

/* ---- observations ---- */

static bool times_grow(lk_step_times *times) {
	struct slot *old = times->slots;
	size_t size = times->size;
	struct slot *slots = calloc(size * 2, sizeof *slots);
	if (!slots) return false;
	for (size_t i = 0; i < size; i++) {
		if (!old[i].key) continue;
		size_t at = old[i].key & (size * 2 - 1);
		while (slots[at].key) at = (at + 1) & (size * 2 - 1);
		slots[at] = old[i];
	}
	free(old);
	times->slots = slots;
	times->size = size * 2;
	return true;
}

static struct slot *times_find(const lk_step_times *times, uint64_t key) {
	size_t at = key & (times->size - 1);
	while (times->slots[at].key && times->slots[at].key != key) at = (at + 1) & (times->size - 1);
	return &times->slots[at];
}

static bool times_observe(lk_step_times *times, const struct keys *keys, uint32_t source,
                          double ns) {
	for (int level = 0; level < LEVELS; level++) {
		if (times->used * 2 >= times->size && !times_grow(times)) return false;
		if (!lk_push(&times->seen)) return false;
		struct slot *slot = times_find(times, keys->level[level]);
		if (!slot->key) {
			slot->key = keys->level[level];
			times->used++;
		}
		*lk_last(&times->seen) = (struct observation){(float)ns, slot->newest, source};
		slot->newest = (uint32_t)times->seen.count;
		slot->count++;
		slot->ready = false;
	}
	return true;
}

/* Operations of one step in parts, each of which is predicted from the others. */
enum { FOLDS = 5 };

static uint32_t times_fold(size_t op) {
	return (uint32_t)(lk_hash64(op + 1) % FOLDS);
}

/* Add what is not in the fold `but`. */
static lk_status times_add(lk_step_times *times, const lk_lifted_rank *rank, uint32_t source,
                           uint32_t but, lk_error *err) {
	struct keyer k;
	bool fine = keyer_begin(&k, rank) && lk_push(&times->totals);
	if (fine) *lk_last(&times->totals) = (struct totals){.source = source};
	for (size_t i = 0; fine && i < rank->ops.count; i++) {
		const lk_lifted_op *op = &rank->ops.at[i];
		double *total = &lk_last(&times->totals)->ns[op->stream][op->what];
		bool held_out = but != LK_NONE && times_fold(i) == but;
		for (uint32_t p = op->piece_begin; fine && p < op->piece_end; p++) {
			struct keys all = piece_keys(&k, &rank->pieces.at[p]);
			if (rank->pieces.at[p].blocked || held_out) continue;
			*total += (double)rank->pieces.at[p].dur_ns;
			fine = times_observe(times, &all, source, (double)rank->pieces.at[p].dur_ns);
		}
		if (!fine || !is_device(op)) continue;
		struct keys all = device_keys(&k, op);
		if (held_out) continue;
		*total += (double)lk_lifted_own(rank, (uint32_t)i);
		fine = times_observe(times, &all, source, (double)lk_lifted_own(rank, (uint32_t)i));
	}
	keyer_end(&k);
	return fine ? LK_OK : lk_oom(err);
}

lk_status lk_step_times_add(lk_step_times *times, const lk_lifted_rank *rank, uint32_t source,
                            lk_error *err) {
	return times_add(times, rank, source, LK_NONE, err);
}

/* ---- prediction ---- */

/* Mean of the values within 1.5 interquartile ranges of the quartiles. */
static double robust_mean(const double *x, size_t n) {
	if (n < 4) return lk_mean(x, n);
	double low = lk_quantile(x, n, 0.25), high = lk_quantile(x, n, 0.75),
		   range = 1.5 * (high - low), sum = 0;
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		if (x[i] >= low - range && x[i] <= high + range) {
			sum += x[i];
			kept++;
		}
	return kept ? sum / (double)kept : lk_median(x, n);
}

/* For the same path every observation counts: occasional long times belong to the mean. */
static bool times_settle(lk_step_times *times, struct slot *slot, int level) {
	times->scratch.count = 0;
	for (uint32_t o = slot->newest; o; o = times->seen.at[o - 1].older) {
		if (!lk_push(&times->scratch)) return false;
		*lk_last(&times->scratch) = (double)times->seen.at[o - 1].value;
	}
	slot->mean = (float)(level <= LK_KNOWN_PATH ? lk_mean : robust_mean)(times->scratch.at,
	                                                                     times->scratch.count);
	return slot->ready = true;
}

/* A query: times of one source, if it has them. */
struct question {
	lk_step_times *times; /* NULL: own times */
	struct keyer *keyer;
	const lk_shared_overheads *shared;
	uint32_t source;
	bool fine;
	struct totals met;     /* the source's time in places that were looked up */
	struct totals strange; /* predicted time for places that the source lacks */
	double *strange_ns;    /* [ops] its part of each operation */
};

/* The newest observation of a source, or NULL. */
static const struct observation *of_source(const lk_step_times *times, const struct slot *slot,
                                           uint32_t source) {
	for (uint32_t o = source == LK_NONE ? 0 : slot->newest; o; o = times->seen.at[o - 1].older)
		if (times->seen.at[o - 1].source == source) return &times->seen.at[o - 1];
	return NULL;
}

static lk_known times_look_up(struct question *question, const lk_lifted_op *op,
                              const struct keys *keys, double *ns) {
	if (!question->times) return LK_KNOWN_PLACE;
	for (int level = 0; level < LEVELS; level++) {
		struct slot *slot = times_find(question->times, keys->level[level]);
		if (!slot->key) continue;
		const struct observation *seen =
			level == LK_KNOWN_PLACE ? of_source(question->times, slot, question->source) : NULL;
		if (!seen && !slot->ready && !times_settle(question->times, slot, level))
			question->fine = false;
		*ns = (double)(seen ? seen->value : slot->mean);
		if (seen) question->met.ns[op->stream][op->what] += *ns;
		return (lk_known)level;
	}
	return LK_KNOWN_NOT;
}

void lk_shared_overheads_fit(const lk_overheads *table, const lk_overheads *own,
                             lk_shared_overheads *out) {
	*out = (lk_shared_overheads){.table = table};
	for (int term = LK_T1; term <= LK_T5; term++) {
		double scale = own ? lk_overheads_level(own, term) / lk_overheads_level(table, term) : 1;
		out->scale[term] = isfinite(scale) && scale > 0 ? scale : 1;
	}
}

static double shared_time(const struct keyer *keyer, const lk_host_piece *piece,
                          const lk_shared_overheads *shared, lk_known *known) {
	bool by_name;
	double us = lk_overheads_mean(shared->table, piece->term,
	                              lk_capture_text(keyer->rank->capture, piece->name), &by_name);
	if (!isfinite(us)) {
		*known = LK_KNOWN_NOT;
		return (double)piece->dur_ns;
	}
	*known = by_name ? LK_KNOWN_NAME : LK_KNOWN_KIND;
	return us * 1e3 * shared->scale[piece->term];
}

static double piece_time(struct question *question, const lk_lifted_op *op,
                         const lk_host_piece *piece, lk_known *known) {
	double ns = (double)piece->dur_ns;
	struct keys all = piece_keys(question->keyer, piece);
	bool gap = piece->term == LK_T1 && piece->dur_ns > LK_GAP_NS;
	if (question->shared && gap) {
		*known = LK_KNOWN_NOT;
		return ns;
	}
	if (question->shared && piece->event != LK_NONE)
		return shared_time(question->keyer, piece, question->shared, known);
	*known = times_look_up(question, op, &all, &ns);
	return ns;
}

int64_t lk_lifted_own(const lk_lifted_rank *rank, uint32_t i) {
	const lk_lifted_op *op = &rank->ops.at[i];
	int64_t ns = 0;
	switch (op->what) {
	case LK_LIFTED_HOST:
		for (uint32_t p = op->piece_begin; p < op->piece_end; p++) ns += rank->pieces.at[p].dur_ns;
		return ns;
	case LK_LIFTED_WAIT:
	case LK_LIFTED_END: return 0;
	case LK_LIFTED_COMM: return op->end_ns - op->met_ns;
	default: return op->end_ns - op->start_ns;
	}
}

/* Add up times of operations without an equal place, which are known only by name. */
static void times_note_strange(struct question *question, const lk_lifted_op *op, uint32_t i,
                               lk_known known, double ns) {
	if (known == LK_KNOWN_PLACE || known == LK_KNOWN_NOT) return;
	question->strange.ns[op->stream][op->what] += ns;
	question->strange_ns[i] += ns;
}

/* Scale predictions for unmatched places. Two steps of one kind spend the same time in places that
 * differ: profilers drop events, and the time goes to their neighbours. So on each stream the
 * source's time in its unmatched places equals that of the unmatched places here, unless they
 * differ so much that something else was done. If unmatched places are few, names are more reliable
 * than the sum: the scale counts by their share of the stream's time, fully from a half on. */
static double strange_scale(const struct question *question, const struct totals *seen,
                            const lk_lifted_op *op) {
	const double MOST = 2;
	double here = question->strange.ns[op->stream][op->what],
		   met = question->met.ns[op->stream][op->what],
		   there = seen->ns[op->stream][op->what] - met;
	if (!(here > 0) || there > here * MOST || here > there * MOST) return 1;
	return 1 + (there / here - 1) * fmin(1, 2 * here / (here + met));
}

static void conserve_strange(const struct question *question, const lk_lifted_rank *rank,
                             lk_retimed *out) {
	if (!question->times || question->shared || question->source == LK_NONE) return;
	for (size_t t = 0; t < question->times->totals.count; t++) {
		const struct totals *seen = &question->times->totals.at[t];
		for (uint32_t i = 0; seen->source == question->source && i < rank->ops.count; i++)
			out->ns[i] += llround(question->strange_ns[i] *
			                      (strange_scale(question, seen, &rank->ops.at[i]) - 1));
	}
}

static void predict_op(struct question *question, const lk_lifted_rank *rank, uint32_t i,
                       lk_retimed *out) {
	const lk_lifted_op *op = &rank->ops.at[i];
	lk_known known;
	double host = 0;
	out->ns[i] = lk_lifted_own(rank, i);
	for (uint32_t p = op->piece_begin; p < op->piece_end; p++) {
		double ns = piece_time(question, op, &rank->pieces.at[p], &known);
		if (!rank->pieces.at[p].blocked) times_note_strange(question, op, i, known, ns);
		out->host_ns[known] += ns;
		host += ns;
	}
	if (op->what == LK_LIFTED_HOST) out->ns[i] = llround(host);
	if (!is_device(op)) return;
	struct keys all = device_keys(question->keyer, op);
	double ns = (double)out->ns[i];
	known = times_look_up(question, op, &all, &ns);
	if (op->what != LK_LIFTED_LAG) out->device_ns[known] += ns;
	times_note_strange(question, op, i, known, ns);
	out->ns[i] = llround(ns);
}

/* `fold`: count the times of this fold alone; LK_NONE: of all operations. */
static lk_status times_predict(lk_step_times *times, const lk_lifted_rank *rank,
                               const lk_shared_overheads *shared, uint32_t source, uint32_t fold,
                               lk_retimed *out, lk_error *err) {
	struct keyer k;
	bool made = keyer_begin(&k, rank);
	*out = (lk_retimed){.ns = calloc(rank->ops.count + 1, sizeof *out->ns)};
	struct question q = {.times = times,
	                     .keyer = &k,
	                     .shared = shared,
	                     .source = source,
	                     .strange_ns = calloc(rank->ops.count + 1, sizeof *q.strange_ns)};
	q.fine = made && out->ns && q.strange_ns;
	lk_retimed uncounted = {.ns = out->ns};
	for (uint32_t i = 0; q.fine && i < rank->ops.count; i++)
		predict_op(&q, rank, i, fold == LK_NONE || times_fold(i) == fold ? out : &uncounted);
	if (q.fine) conserve_strange(&q, rank, out);
	keyer_end(&k);
	free(q.strange_ns);
	if (q.fine) return LK_OK;
	lk_retimed_free(out);
	return lk_oom(err);
}

lk_status lk_step_times_predict(lk_step_times *times, const lk_lifted_rank *rank,
                                const lk_shared_overheads *shared, uint32_t source, lk_retimed *out,
                                lk_error *err) {
	return times_predict(times, rank, shared, source, LK_NONE, out, err);
}

static lk_status predict_fold(const lk_lifted_rank *rank, uint32_t fold, lk_retimed *out,
                              lk_error *err) {
	lk_retimed all = {0};
	lk_step_times *times = lk_step_times_new();
	lk_status status = times ? times_add(times, rank, 0, fold, err) : lk_oom(err);
	if (status == LK_OK) status = times_predict(times, rank, NULL, LK_NONE, fold, &all, err);
	for (uint32_t i = 0; status == LK_OK && i < rank->ops.count; i++)
		if (times_fold(i) == fold) out->ns[i] = all.ns[i];
	for (int known = 0; known < LK_KNOWNS; known++) {
		out->host_ns[known] += all.host_ns[known];
		out->device_ns[known] += all.device_ns[known];
	}
	lk_retimed_free(&all);
	lk_step_times_free(times);
	return status;
}

lk_status lk_step_times_fold(const lk_lifted_rank *rank, lk_retimed *out, lk_error *err) {
	*out = (lk_retimed){.ns = calloc(rank->ops.count + 1, sizeof *out->ns)};
	lk_status status = out->ns ? LK_OK : lk_oom(err);
	for (uint32_t fold = 0; fold < FOLDS && status == LK_OK; fold++)
		status = predict_fold(rank, fold, out, err);
	if (status != LK_OK) lk_retimed_free(out);
	return status;
}

void lk_retimed_free(lk_retimed *retimed) {
	free(retimed->ns);
	*retimed = (lk_retimed){0};
}
