/* hang.c: which collective did who not enter, from what is known of the calls of all ranks.
 *
 * Collectives of a group are numbered alike on its members. The first of a group that is not
 * completed on every member that entered it is where the group is stuck; what comes after waits for
 * it. A member is absent if the last that it entered comes before it. Groups wait for one another:
 * a stuck collective is a root if one of its absent ranks waits in no other one, so that nothing in
 * the dumps explains its absence. Sends and receives are paired by their two ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/noun.h"
#include "base/sort.h"
#include "base/text.h"
#include "postmortem/postmortem.h"

enum {
	STUCK = 4096 /* rows that are kept */
};

/* A stuck collective with its ranks. */
struct lk_stuck {
	lk_postmortem_collective row;
	lk_rank_set entered, absent, silent;
};

struct lk_rank_state {
	const lk_hang_call *last; /* the last that it entered; NULL: none */
	int waits;                /* stuck ones that it entered */
};

/* ---- sets of ranks ---- */

static bool ranks_hold(const lk_rank_set *set, int rank) {
	return set->count && bsearch(&rank, set->at, set->count, sizeof rank, lk_by_int);
}

static void ranks_settle(lk_rank_set *set) {
	size_t kept = 0;
	lk_sort(set->at, set->count, sizeof *set->at, lk_by_int);
	for (size_t i = 0; i < set->count; i++)
		if (!kept || set->at[kept - 1] != set->at[i]) set->at[kept++] = set->at[i];
	set->count = kept;
}

bool lk_ranks_add(lk_rank_set *set, int rank) {
	if (!lk_push(set)) return false;
	*lk_last(set) = rank;
	return true;
}

/* "0-2, 5"; NULL when memory runs out. Cut after some hundred bytes. */
static const char *ranks_text(lk_arena *arena, const lk_rank_set *set) {
	char line[400];
	lk_text text = lk_text_begin(line, sizeof line - 8);
	for (size_t i = 0, end; i < set->count && !lk_text_full(&text); i = end) {
		for (end = i + 1; end < set->count && set->at[end] == set->at[end - 1] + 1; end++) continue;
		lk_text_add(&text, "%s%d", i ? ", " : "", set->at[i]);
		if (end - i > 1) lk_text_add(&text, "%s%d", end - i > 2 ? "-" : ", ", set->at[end - 1]);
	}
	return lk_text_full(&text) ? lk_arena_printf(arena, "%s ...", line)
	                           : lk_arena_strdup(arena, line);
}

lk_hang_group *lk_hang_group_named(lk_hang *hang, const char *name, const char *what) {
	char shown[200];
	lk_text text = lk_text_begin(shown, sizeof shown);
	lk_text_add(&text, "%.80s", name);
	if (*what && strcmp(what, "undefined") != 0) lk_text_add(&text, " (%.80s)", what);
	uint32_t id = lk_intern_id(hang->texts, shown);
	if (id == UINT32_MAX) return NULL;
	while (hang->group_of_text.count <= id)
		if (!lk_push(&hang->group_of_text)) return NULL;
	uint32_t *index = &hang->group_of_text.at[id];
	if (*index) return &hang->groups.at[*index - 1];
	if (!lk_push(&hang->groups)) return NULL;
	lk_last(&hang->groups)->name = id;
	*index = (uint32_t)hang->groups.count;
	return lk_last(&hang->groups);
}

bool lk_hang_member(lk_hang *hang, lk_hang_group *group, double rank) {
	if (!(rank >= 0 && rank < LK_HANG_RANKS)) return true;
	if (rank >= hang->world) hang->world = (int)rank + 1;
	return lk_ranks_add(&group->members, (int)rank);
}

/* ---- where groups are stuck ---- */

LK_ORDER_BY(calls_in_order, lk_hang_call, group, p2p, sequence, rank)
LK_ORDER_BY(pairs_in_order, lk_hang_call, group, from, to, operation, rank)

/* The calls of one collective. */
struct span {
	const lk_hang_call *at;
	size_t count;
};

static size_t span_completed(const struct span *span) {
	size_t completed = 0;
	for (size_t i = 0; i < span->count; i++) completed += span->at[i].completed;
	return completed;
}

/* Whether a collective may be what its group is stuck in. One that all members entered and some
 * completed will complete on the others, whose watchdogs had not noticed it yet, if they are not
 * the last: then what comes after it is looked at. */
static bool span_stuck(const struct span *span, const struct span *rest, size_t members) {
	size_t completed = span_completed(span);
	if (completed == span->count) return false;
	return !completed || span->count < members || !rest->count;
}

/* Whether the rank has entered a later collective of the group, so that it passed this one, which
 * its dump does not keep any more. `rest` is what follows the span in the group. */
static bool rank_passed(const struct span *rest, int rank) {
	for (size_t i = 0; i < rest->count; i++)
		if (rest->at[i].rank == rank) return true;
	return false;
}

static bool sort_members(lk_hang *hang, struct lk_stuck *stuck, const lk_hang_group *group,
                         const struct span *rest) {
	for (size_t i = 0; i < group->members.count; i++) {
		int rank = group->members.at[i];
		if (ranks_hold(&stuck->entered, rank) || rank_passed(rest, rank)) continue;
		if (!lk_ranks_add(ranks_hold(&hang->dumped, rank) ? &stuck->absent : &stuck->silent, rank))
			return false;
	}
	return true;
}

static bool same_work(const lk_hang_call *a, const lk_hang_call *b) {
	return a->operation == b->operation && a->shape == b->shape;
}

/* The call that most ranks made, and in *differing one of another kind, if there is one. */
static const lk_hang_call *common_call(const struct span *span, const lk_hang_call **differing) {
	const lk_hang_call *common = span->at;
	size_t most = 0;
	for (size_t i = 0; i < span->count && most * 2 <= span->count; i++) {
		size_t same = 0;
		for (size_t k = 0; k < span->count; k++) same += same_work(&span->at[i], &span->at[k]);
		if (same > most) most = same, common = &span->at[i];
	}
	*differing = NULL;
	for (size_t i = span->count; i-- > 0;) {
		if (!same_work(common, &span->at[i])) *differing = &span->at[i];
		/* Coalesced operations share their number: their order is not kept here. */
		if (i && span->at[i].rank == span->at[i - 1].rank) {
			*differing = NULL;
			break;
		}
	}
	return common;
}

static const char *text_of(const lk_hang *hang, uint32_t id) {
	return lk_intern_text(hang->texts, id);
}

/* " at train.py:12"; "" where the place is not known. */
static const char *place_of(lk_hang *hang, uint32_t where) {
	return where ? lk_arena_printf(&hang->work->arena, " at %s", text_of(hang, where)) : "";
}

/* "rank 3: all_gather [[8]] Float at data.py:7". */
static const char *differing_text(lk_hang *hang, const struct span *span,
                                  const lk_hang_call *differing) {
	lk_rank_set same = {0};
	bool added = true;
	for (size_t i = 0; i < span->count && added; i++)
		if (same_work(differing, &span->at[i])) added = lk_ranks_add(&same, span->at[i].rank);
	const char *who = added ? ranks_text(&hang->work->arena, &same) : NULL;
	size_t count = same.count;
	lk_vec_free(&same);
	const char *place = place_of(hang, differing->where);
	if (!who || !place) return NULL;
	return lk_arena_printf(
		&hang->work->arena, "%s %s: %s %s%s", lk_noun((double)count, "rank", "ranks"), who,
		text_of(hang, differing->operation), text_of(hang, differing->shape), place);
}

/* What the rank entered last: "all_gather 41 of 5 (tp), completed, at data.py:12". */
static const char *last_of(lk_hang *hang, int rank) {
	const lk_hang_call *last = hang->rank[rank].last;
	if (!last) return "not known";
	const char *place = place_of(hang, last->where);
	if (!place) return NULL;
	return lk_arena_printf(&hang->work->arena, "%s number %lld of group %s%s, %s",
	                       text_of(hang, last->operation), (long long)last->sequence,
	                       text_of(hang, hang->groups.at[last->group].name), place,
	                       last->completed ? "completed" : "not completed");
}

static void set_times(lk_postmortem_collective *row, const struct span *span) {
	double first = INFINITY, last = 0;
	for (size_t i = 0; i < span->count; i++) {
		if (!(span->at[i].created_ns > 0)) continue;
		first = fmin(first, span->at[i].created_ns);
		last = fmax(last, span->at[i].created_ns);
	}
	row->since_unix_s = last > 0 ? first * 1e-9 : NAN;
	row->spread_s = last > 0 ? (last - first) * 1e-9 : NAN;
	row->timeout_s = span->at[0].timeout_ms * 1e-3;
}

static const char *where_of(const lk_hang *hang, const struct span *span) {
	for (size_t i = 0; i < span->count; i++)
		if (span->at[i].where) return text_of(hang, span->at[i].where);
	return "";
}

/* Texts of a row whose sets of ranks are known. */
static bool write_row(lk_hang *hang, struct lk_stuck *stuck, const struct span *span,
                      const lk_hang_call *common) {
	lk_postmortem_collective *row = &stuck->row;
	const lk_hang_group *group = &hang->groups.at[common->group];
	lk_arena *arena = &hang->work->arena;
	row->group = lk_arena_strdup(arena, text_of(hang, group->name));
	if (!row->operation) row->operation = lk_arena_strdup(arena, text_of(hang, common->operation));
	row->sequence = common->sequence;
	row->group_size = (int)group->members.count;
	row->shape = lk_arena_strdup(arena, text_of(hang, common->shape));
	row->where = lk_arena_strdup(arena, where_of(hang, span));
	row->entered = ranks_text(arena, &stuck->entered);
	row->absent = ranks_text(arena, &stuck->absent);
	row->silent = ranks_text(arena, &stuck->silent);
	row->absent_last = stuck->absent.count ? last_of(hang, stuck->absent.at[0]) : "";
	if (!row->differing) row->differing = "";
	set_times(row, span);
	return row->group && row->operation && row->shape && row->where && row->entered &&
	       row->absent && row->silent && row->absent_last;
}

static const char *problem_of(const struct lk_stuck *stuck, bool differs) {
	if (differs) return "mismatch";
	if (stuck->absent.count) return "not entered";
	return stuck->silent.count ? "no dump" : "not completed";
}

static bool add_collective(lk_hang *hang, const struct span *span, const struct span *rest) {
	const lk_hang_call *differing, *common = common_call(span, &differing);
	if (hang->stuck.count >= STUCK) return true;
	if (!lk_push(&hang->stuck)) return false;
	struct lk_stuck *stuck = lk_last(&hang->stuck);
	for (size_t i = 0; i < span->count; i++)
		if (!lk_ranks_add(&stuck->entered, span->at[i].rank)) return false;
	ranks_settle(&stuck->entered);
	if (!sort_members(hang, stuck, &hang->groups.at[common->group], rest)) return false;
	stuck->row.problem = problem_of(stuck, differing != NULL);
	if (differing && !(stuck->row.differing = differing_text(hang, span, differing))) return false;
	return write_row(hang, stuck, span, common);
}

/* The first collective of each group that did not complete. */
static bool find_stuck(lk_hang *hang) {
	const lk_hang_call *calls = hang->calls.at;
	size_t count = hang->calls.count;
	for (size_t first = 0, next, end; first < count; first = end) {
		for (end = first; end < count && calls[end].group == calls[first].group &&
		                  calls[end].p2p == calls[first].p2p;)
			end++;
		for (size_t at = first; at < end && !calls[first].p2p; at = next) {
			for (next = at; next < end && calls[next].sequence == calls[at].sequence;) next++;
			const struct span span = {calls + at, next - at}, rest = {calls + next, end - next};
			if (hang->timeouts && next < end) continue;
			const lk_hang_group *group = &hang->groups.at[calls[at].group];
			if (!span_stuck(&span, &rest, group->members.count)) continue;
			if (!add_collective(hang, &span, &rest)) return false;
			break;
		}
	}
	return true;
}

/* ---- sends and receives ---- */

/* The rank in the run of a rank in the group; -1: the group's members are not known. */
static int global_rank(const lk_hang_group *group, int rank) {
	return rank >= 0 && (size_t)rank < group->members.count ? group->members.at[rank] : -1;
}

/* A pair of ranks of which one side alone is open: the other did not post its part. */
static bool add_pair(lk_hang *hang, const struct span *span) {
	const lk_hang_call *call = span->at;
	const lk_hang_group *group = &hang->groups.at[call->group];
	int from = global_rank(group, call->from), to = global_rank(group, call->to);
	if (from < 0 || to < 0 || hang->stuck.count >= STUCK) return true;
	bool sends = false, receives = false;
	for (size_t i = 0; i < span->count; i++) {
		sends |= span->at[i].rank == from;
		receives |= span->at[i].rank == to;
	}
	if (!lk_push(&hang->stuck)) return false;
	struct lk_stuck *stuck = lk_last(&hang->stuck);
	if (sends && !lk_ranks_add(&stuck->entered, from)) return false;
	if (receives && !lk_ranks_add(&stuck->entered, to)) return false;
	ranks_settle(&stuck->entered);
	int other = sends ? to : from;
	if (sends != receives &&
	    !lk_ranks_add(ranks_hold(&hang->dumped, other) ? &stuck->absent : &stuck->silent, other))
		return false;
	stuck->row.problem = problem_of(stuck, false);
	if (stuck->absent.count) stuck->row.problem = "no peer";
	stuck->row.operation = lk_arena_printf(&hang->work->arena, "send %d -> %d", from, to);
	return write_row(hang, stuck, span, call);
}

static bool find_pairs(lk_hang *hang) {
	LK_VEC(lk_hang_call) open = {0};
	bool good = true;
	for (size_t i = 0; i < hang->calls.count && good; i++) {
		const lk_hang_call *call = &hang->calls.at[i];
		if (!call->p2p || call->completed || call->from < 0) continue;
		good = lk_push(&open);
		if (good) *lk_last(&open) = *call;
	}
	if (good) lk_sort(open.at, open.count, sizeof *open.at, pairs_in_order);
	for (size_t i = 0, end; i < open.count && good; i = end) {
		for (end = i; end < open.count && open.at[end].group == open.at[i].group &&
		              open.at[end].from == open.at[i].from && open.at[end].to == open.at[i].to;)
			end++;
		good = add_pair(hang, &(struct span){open.at + i, end - i});
	}
	lk_vec_free(&open);
	return good;
}

/* ---- roots ---- */

static bool waits_elsewhere(const lk_hang *hang, const struct lk_stuck *stuck, int rank) {
	return hang->rank[rank].waits > ranks_hold(&stuck->entered, rank);
}

static bool is_root(const lk_hang *hang, const struct lk_stuck *stuck) {
	if (strcmp(stuck->row.problem, "mismatch") == 0 || stuck->silent.count) return true;
	if (!stuck->absent.count) {
		/* All entered: it waits for nobody, unless its ranks also wait in a collective that
		 * somebody did not enter, whose kernel may be in front of this one. */
		for (size_t i = 0; i < stuck->entered.count; i++)
			if (waits_elsewhere(hang, stuck, stuck->entered.at[i])) return false;
		return true;
	}
	for (size_t i = 0; i < stuck->absent.count; i++)
		if (!waits_elsewhere(hang, stuck, stuck->absent.at[i])) return true;
	return false;
}

static int stuck_in_order(const void *a, const void *b) {
	const struct lk_stuck *x = a, *y = b;
	if (x->row.root != y->row.root) return x->row.root ? -1 : 1;
	return (x->row.since_unix_s > y->row.since_unix_s) -
	       (x->row.since_unix_s < y->row.since_unix_s);
}

static bool keep_stuck(lk_hang *hang) {
	for (size_t i = 0; i < hang->stuck.count; i++)
		for (size_t k = 0; k < hang->stuck.at[i].entered.count; k++)
			hang->rank[hang->stuck.at[i].entered.at[k]].waits++;
	for (size_t i = 0; i < hang->stuck.count; i++)
		hang->stuck.at[i].row.root = is_root(hang, &hang->stuck.at[i]);
	lk_sort(hang->stuck.at, hang->stuck.count, sizeof *hang->stuck.at, stuck_in_order);
	for (size_t i = 0; i < hang->stuck.count; i++) {
		if (!lk_push(&hang->work->collectives)) return false;
		*lk_last(&hang->work->collectives) = hang->stuck.at[i].row;
	}
	return true;
}

/* ---- in words ---- */

static void add_ranks(lk_text *text, const lk_rank_set *set, const char *list) {
	lk_text_add(text, "%s %s", lk_noun((double)set->count, "rank", "ranks"), list);
}

static void add_stuck(lk_text *text, const struct lk_stuck *stuck) {
	const lk_postmortem_collective *row = &stuck->row;
	lk_text_add(text, "%s", row->operation);
	if (row->sequence >= 0) lk_text_add(text, " number %lld", (long long)row->sequence);
	lk_text_add(text, " of group %s did not complete: ", row->group);
	if (*row->differing) {
		lk_text_add(text, "its ranks do not agree. %s; the others: %s %s.", row->differing,
		            row->operation, row->shape);
	} else if (stuck->absent.count) {
		add_ranks(text, &stuck->absent, row->absent);
		lk_text_add(text, " did not enter it, ");
		add_ranks(text, &stuck->entered, row->entered);
		lk_text_add(text, " %s", lk_noun((double)stuck->entered.count, "waits", "wait"));
		if (*row->where) lk_text_add(text, " at %s", row->where);
		lk_text_add(text, ". The last that rank %d entered: %s.", stuck->absent.at[0],
		            row->absent_last);
	} else if (stuck->silent.count) {
		add_ranks(text, &stuck->silent, row->silent);
		lk_text_add(text, " left no dump and may have died; ");
		add_ranks(text, &stuck->entered, row->entered);
		lk_text_add(text, " %s.", lk_noun((double)stuck->entered.count, "waits", "wait"));
	} else {
		lk_text_add(text, "all its ranks entered it with the same operation and sizes, so that the "
		                  "network, a GPU or a kernel in front of it on some stream is stuck.");
	}
}

static lk_status say_hang(lk_hang *hang, lk_error *err) {
	char line[1600];
	lk_text text = lk_text_begin(line, sizeof line);
	lk_mortem *work = hang->work;
	work->result.cause = hang->stuck.count ? "hang" : "none";
	if (!hang->stuck.count)
		lk_text_add(&text, "All collectives in the dumps completed: the ranks wait for something "
		                   "else, such as data, a checkpoint or a lock of the host.");
	else if (!hang->stuck.at[0].row.root)
		lk_text_add(&text, "Ranks wait for one another in a circle: they enter collectives of "
		                   "different groups in different orders. The first: ");
	if (hang->stuck.count) add_stuck(&text, &hang->stuck.at[0]);
	work->result.diagnosis = lk_arena_strdup(&work->arena, line);
	return work->result.diagnosis ? LK_OK : lk_oom(err);
}

static lk_status find_missing(lk_hang *hang, lk_error *err) {
	lk_rank_set missing = {0};
	bool good = true;
	for (int rank = 0; rank < hang->world && good; rank++)
		if (!ranks_hold(&hang->dumped, rank)) good = lk_ranks_add(&missing, rank);
	hang->work->result.missing = good ? ranks_text(&hang->work->arena, &missing) : NULL;
	hang->work->result.world = hang->world;
	hang->work->result.dumps = (int)hang->dumped.count;
	size_t count = missing.count;
	lk_vec_free(&missing);
	if (!hang->work->result.missing) return lk_oom(err);
	if (!count) return LK_OK;
	if (hang->timeouts)
		return lk_mortem_warn(hang->work, err, "the log has no lines of %zu of %d ranks: %s", count,
		                      hang->world, hang->work->result.missing);
	return lk_mortem_warn(
		hang->work, err,
		"%zu of %d ranks left no dump: %s; set TORCH_NCCL_DUMP_ON_TIMEOUT=1 and a "
		"folder that all nodes share",
		count, hang->world, hang->work->result.missing);
}

/* Groups that no dump describes have the ranks that used them; the default group has all. */
static bool complete_members(lk_hang *hang) {
	for (size_t i = 0; i < hang->calls.count; i++) {
		lk_hang_group *group = &hang->groups.at[hang->calls.at[i].group];
		if (!group->described && !lk_ranks_add(&group->members, hang->calls.at[i].rank))
			return false;
	}
	for (size_t i = 0; i < hang->groups.count; i++) {
		lk_hang_group *group = &hang->groups.at[i];
		bool whole = !group->described && strstr(text_of(hang, group->name), "default_pg");
		for (int rank = 0; whole && rank < hang->world; rank++)
			if (!lk_ranks_add(&group->members, rank)) return false;
		ranks_settle(&group->members);
	}
	return true;
}

static bool find_last_calls(lk_hang *hang) {
	hang->rank = calloc((size_t)hang->world + 1, sizeof *hang->rank);
	if (!hang->rank) return false;
	for (size_t i = 0; i < hang->calls.count; i++) {
		const lk_hang_call *call = &hang->calls.at[i], **last = &hang->rank[call->rank].last;
		if (!*last || call->created_ns >= (*last)->created_ns) *last = call;
	}
	return true;
}

lk_status lk_hang_find(lk_hang *hang, lk_error *err) {
	ranks_settle(&hang->dumped);
	lk_sort(hang->calls.at, hang->calls.count, sizeof *hang->calls.at, calls_in_order);
	if (!complete_members(hang) || !find_last_calls(hang) || !find_stuck(hang) ||
	    !find_pairs(hang) || !keep_stuck(hang))
		return lk_oom(err);
	LK_TRY(find_missing(hang, err));
	return say_hang(hang, err);
}

void lk_hang_free(lk_hang *hang) {
	for (size_t i = 0; i < hang->groups.count; i++) lk_vec_free(&hang->groups.at[i].members);
	for (size_t i = 0; i < hang->stuck.count; i++) {
		lk_vec_free(&hang->stuck.at[i].entered);
		lk_vec_free(&hang->stuck.at[i].absent);
		lk_vec_free(&hang->stuck.at[i].silent);
	}
	lk_vec_free(&hang->groups);
	lk_vec_free(&hang->stuck);
	lk_vec_free(&hang->calls);
	lk_vec_free(&hang->dumped);
	lk_vec_free(&hang->group_of_text);
	free(hang->rank);
	lk_intern_free(hang->texts);
	lk_arena_free(&hang->scratch);
}
