/* match_order.c: aligns the calls of one rank with those of another. Profiling begins and ends at
 * different calls, so the sequences are compared at several offsets; at each, a walk counts where
 * kinds or sizes differ. Steps repeat, so many offsets can agree equally well: then the right one
 * is where the ends of both differ by a steady amount. */
#include <math.h>
#include <string.h>

#include "trace/align/traces.h"
#include "base/check.h"

enum {
	WINDOW = 32,  /* calls searched for agreement after a difference */
	CONFIRM = 4,  /* consecutive equal calls that confirm agreement */
	OFFSETS = 16, /* tried in addition to begin and end */
	OPENING = 12, /* calls that an offset must agree on to be tried */
	MOST_EDITS = 1000,
	SAMPLES = 128, /* places at which steadiness of the clocks is sampled */
};
/* Ends of one collective agree within about 10 us (perf-model section 4); twice that is steady. */
static const double STEADY_NS = 20e3;
/* Clocks of hosts that NTP sets differ by a few milliseconds at most. */
static const double NEAR_NS = 5e6;

static uint8_t order_shape_of(uint8_t kind) {
	return kind == LK_OP_RECV ? LK_OP_SEND : kind;
}

static bool order_same_kind(const lk_comm_call *a, const lk_comm_call *b) {
	return a->kind == LK_OP_COUNT || b->kind == LK_OP_COUNT ||
	       order_shape_of(a->kind) == order_shape_of(b->kind);
}

/* Whether they can be the same collective. */
static bool calls_agree(const lk_comm_call *a, const lk_comm_call *b) {
	if (!order_same_kind(a, b)) return false;
	/* Splits of an all-to-all differ by rank, and so do the counts of MPI_Gatherv. */
	return a->bytes < 0 || b->bytes < 0 || a->bytes == b->bytes || a->uneven || b->uneven;
}

/* Whether both agree from here on, for CONFIRM calls or up to the end of one. */
static bool confirmed(lk_call_list a, lk_call_list b, uint32_t i, uint32_t j) {
	uint32_t n = 0;
	for (; n < CONFIRM && i < a.count && j < b.count; n++, i++, j++)
		if (!calls_agree(&a.at[i], &b.at[j])) return false;
	return n > 0 || (i == a.count && j == b.count);
}

/* The fewest calls to skip in both until they agree again; one each if that is not nearby. */
static void order_resume(lk_call_list a, lk_call_list b, uint32_t i, uint32_t j, uint32_t *skip_a,
                         uint32_t *skip_b) {
	for (uint32_t most = 1; most <= WINDOW; most++)
		for (uint32_t less = most + 1; less-- > 0;) {
			if (i + most <= a.count && j + less <= b.count && confirmed(a, b, i + most, j + less)) {
				*skip_a = most;
				*skip_b = less;
				return;
			}
			if (i + less <= a.count && j + most <= b.count && confirmed(a, b, i + less, j + most)) {
				*skip_a = less;
				*skip_b = most;
				return;
			}
		}
	*skip_a = *skip_b = 1;
}

struct walk {
	lk_call_list a, b;
	int64_t *places;
	lk_order_notes *notes; /* NULL: only count differences */
	uint32_t edits, agreed;
	bool full; /* out of memory */
};

static void order_note(struct walk *walk, int64_t place, lk_difference what,
                       const lk_comm_call *call) {
	if (!walk->notes) return;
	if (!lk_push(walk->notes)) return (void)(walk->full = true);
	*lk_last(walk->notes) =
		(lk_order_note){.place = place, .what = what, .kind = call->kind, .bytes = call->bytes};
}

/* Skip a stretch where they differ: pair call with call first; the rest is missing or
 * superfluous. */
static void step_over(struct walk *walk, uint32_t i, uint32_t j, uint32_t skip_a, uint32_t skip_b) {
	uint32_t both = skip_a < skip_b ? skip_a : skip_b;
	for (uint32_t k = 0; k < skip_b; k++) walk->places[j + k] = LK_NO_PLACE;
	for (uint32_t k = 0; k < both; k++) {
		const lk_comm_call *x = &walk->a.at[i + k], *y = &walk->b.at[j + k];
		bool kind = order_same_kind(x, y);
		if (kind) walk->places[j + k] = i + k;
		if (!calls_agree(x, y))
			order_note(walk, i + k, kind ? LK_CALL_OTHER_SIZE : LK_CALL_OTHER_KIND, y);
	}
	for (uint32_t k = both; k < skip_a; k++)
		order_note(walk, i + k, LK_CALL_MISSING, &walk->a.at[i + k]);
	for (uint32_t k = both; k < skip_b; k++)
		order_note(walk, i + both, LK_CALL_EXTRA, &walk->b.at[j + k]);
	walk->edits += skip_a > skip_b ? skip_a : skip_b;
}

/* Lay b over a so that b's call 0 falls on a's call `offset`. Overhang at the ends is no
 * difference. */
static void walk_from(struct walk *walk, int64_t offset) {
	uint32_t i = offset > 0 ? (uint32_t)offset : 0, j = offset < 0 ? (uint32_t)-offset : 0;
	walk->edits = walk->agreed = 0;
	for (uint32_t k = 0; k < j && k < walk->b.count; k++) walk->places[k] = (int64_t)k + offset;
	while (i < walk->a.count && j < walk->b.count) {
		if (calls_agree(&walk->a.at[i], &walk->b.at[j])) {
			walk->places[j++] = i++;
			walk->agreed++;
			continue;
		}
		uint32_t skip_a = 1, skip_b = 1;
		if (walk->edits < MOST_EDITS) order_resume(walk->a, walk->b, i, j, &skip_a, &skip_b);
		step_over(walk, i, j, skip_a, skip_b);
		i += skip_a;
		j += skip_b;
	}
	for (; j < walk->b.count; j++) walk->places[j] = i++;
}

static double order_between(const struct walk *walk, uint32_t j) {
	return (double)walk->a.at[walk->places[j]].end - (double)walk->b.at[j].end;
}

static bool order_common(const struct walk *walk, uint32_t j) {
	return walk->places[j] >= 0 && walk->places[j] < walk->a.count;
}

/* Median change of the difference between both clocks from one common call to the next. A fast
 * clock hardly shows in it, two calls that are not the same do. */
static double jitter(const struct walk *walk) {
	double change[SAMPLES];
	size_t n = 0;
	uint32_t stride = walk->b.count / SAMPLES + 1;
	for (uint32_t j = 0; j + 1 < walk->b.count && n < SAMPLES; j += stride)
		if (order_common(walk, j) && order_common(walk, j + 1))
			change[n++] = fabs(order_between(walk, j + 1) - order_between(walk, j));
	return n ? lk_select_median(change, n) : NAN;
}

/* ---- offsets worth trying ---- */

struct candidate {
	int64_t offset;
	double unsteady; /* as jitter(), over the first calls */
	double apart;    /* difference between the clocks of the files */
};

struct offsets {
	struct candidate at[OFFSETS];
	uint32_t count;
};

/* Prefer the steadier one; if both are steady enough, the one whose offset agrees better with the
 * clocks of the files. */
static bool better(const struct candidate *x, const struct candidate *y) {
	double a = fmax(x->unsteady, STEADY_NS), b = fmax(y->unsteady, STEADY_NS);
	return a != b ? a < b : x->apart < y->apart;
}

static void keep_offset(struct offsets *offsets, struct candidate c) {
	uint32_t at = offsets->count;
	if (at == OFFSETS) {
		if (!better(&c, &offsets->at[--at])) return;
	} else offsets->count++;
	for (; at > 0 && better(&c, &offsets->at[at - 1]); at--) offsets->at[at] = offsets->at[at - 1];
	offsets->at[at] = c;
}

/* Find each place of `a` where the first calls of `b` agree; sign -1 when both are exchanged. */
static void find_opening(struct offsets *offsets, lk_call_list a, lk_call_list b, int sign) {
	for (uint32_t i = 1; i < a.count; i++) {
		double change[OPENING], last = (double)a.at[i].end - (double)b.at[0].end,
								apart = fabs(last);
		uint32_t n = 0;
		while (n < OPENING && i + n < a.count && n < b.count &&
		       calls_agree(&a.at[i + n], &b.at[n])) {
			double now = (double)a.at[i + n].end - (double)b.at[n].end;
			change[n++] = fabs(now - last);
			last = now;
		}
		if (n < OPENING && i + n < a.count && n < b.count) continue;
		double unsteady = n > 1 ? lk_select_median(change + 1, n - 1) : INFINITY;
		keep_offset(offsets, (struct candidate){sign * (int64_t)i, unsteady, apart});
	}
}

struct trial {
	int64_t offset;
	double score, jitter; /* score: calls that agree, less four for each that does not */
	uint32_t edits;
	bool near; /* the clocks of the files agree as closely as those of hosts do */
};

static bool near_in_time(const struct walk *walk) {
	double apart[SAMPLES];
	size_t n = 0;
	uint32_t stride = walk->b.count / SAMPLES + 1;
	for (uint32_t j = 0; j < walk->b.count && n < SAMPLES; j += stride)
		if (order_common(walk, j)) apart[n++] = fabs(order_between(walk, j));
	return n && lk_select_median(apart, n) < NEAR_NS;
}

static struct trial try_offset(struct walk *walk, int64_t offset) {
	walk_from(walk, offset);
	return (struct trial){offset, (double)walk->agreed - 4.0 * walk->edits, jitter(walk),
	                      walk->edits, near_in_time(walk)};
}

/* Prefer fewer differences, then clocks that agree, then more in common. */
static bool better_trial(const struct trial *x, const struct trial *y) {
	if (x->edits != y->edits) return x->edits < y->edits;
	return x->near != y->near ? x->near : x->score > y->score;
}

/* The best of those trials that agree well and are steady. */
static int64_t order_best_of(const struct trial *trial, size_t n) {
	double top = -INFINITY, steadiest = INFINITY;
	for (size_t i = 0; i < n; i++) top = fmax(top, trial[i].score);
	double enough = top > 0 ? top / 2 : top;
	for (size_t i = 0; i < n; i++)
		if (trial[i].score >= enough) steadiest = fmin(steadiest, trial[i].jitter);
	double limit = fmax(STEADY_NS, 2 * steadiest);
	const struct trial *best = NULL;
	for (size_t i = 0; i < n; i++) {
		if (trial[i].score < enough || trial[i].jitter > limit) continue;
		if (!best || better_trial(&trial[i], best)) best = &trial[i];
	}
	return best ? best->offset : 0;
}

lk_status lk_order_find(lk_call_list a, lk_call_list b, int64_t *places, lk_order_notes *notes,
                        double *jitter_ns, lk_error *err) {
	struct walk w = {.a = a, .b = b, .places = places};
	struct trial trials[OFFSETS + 2];
	trials[0] = try_offset(&w, 0);
	*jitter_ns = trials[0].jitter;
	bool steady = a.count == b.count && !(trials[0].jitter > STEADY_NS);
	if (trials[0].edits == 0 && (steady || (a.whole && b.whole))) return LK_OK;
	struct offsets o = {0};
	find_opening(&o, a, b, 1);
	find_opening(&o, b, a, -1);
	size_t n = 1;
	trials[n++] = try_offset(&w, (int64_t)a.count - b.count);
	for (uint32_t i = 0; i < o.count; i++) trials[n++] = try_offset(&w, o.at[i].offset);
	w.notes = notes;
	walk_from(&w, order_best_of(trials, n));
	*jitter_ns = jitter(&w);
	return w.full ? lk_oom(err) : LK_OK;
}

double lk_select_median(double *x, size_t n) {
	LK_ASSERT(n > 0);
	size_t low = 0, high = n - 1, k = (n - 1) / 2;
	while (low < high) {
		double pivot = x[low + (high - low) / 2];
		size_t i = low, j = high;
		for (;;) {
			while (x[i] < pivot) i++;
			while (x[j] > pivot) j--;
			if (i >= j) break;
			double swap = x[i];
			x[i++] = x[j];
			x[j--] = swap;
		}
		/* x[low..i-1] <= pivot <= x[j+1..high], and i is j or j + 1 */
		if (i > j) {
			if (k <= j) high = j;
			else low = i;
		} else if (k < i) high = i - 1;
		else if (k > i) low = i + 1;
		else break;
	}
	return x[k];
}
