/* hang.c: which collective did who not enter, from the flight-recorder dumps of PyTorch's ranks.
 *
 * Collectives of a group are numbered alike on its members. The first of a group that is not
 * completed on every member that entered it is where the group is stuck; what comes after waits for
 * it. A member is absent if the last that it entered comes before it. Groups wait for one another:
 * a stuck collective is a root if one of its absent ranks waits in no other one, so that nothing in
 * the dumps explains its absence. Sends and receives are paired by their two ranks. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/intern.h"
#include "base/noun.h"
#include "base/sort.h"
#include "base/text.h"
#include "postmortem/postmortem.h"

enum {
	RANKS = 1 << 20,
	STUCK = 4096, /* rows that are kept */
	SHAPE = 300   /* bytes of a shape's text */
};

typedef LK_VEC(int) ranks;

/* A collective, or one side of a send and receive, on one rank. */
struct call {
	uint32_t group, operation, shape, where; /* interned */
	int rank;
	bool p2p, completed;
	int from, to; /* p2p: ranks in the group; -1 */
	int64_t sequence;
	double created_ns; /* 0: not known */
	double timeout_ms;
};

struct group {
	uint32_t name;  /* interned: "0 (default_pg)" */
	ranks members;  /* sorted, once all dumps are read */
	bool described; /* a dump lists its members */
};

/* A stuck collective with its ranks. */
struct stuck {
	lk_postmortem_collective row;
	ranks entered, absent, silent;
};

struct hang {
	lk_mortem *work;
	lk_arena scratch; /* of the dump that is being read */
	lk_intern *texts;
	LK_VEC(uint32_t) group_of_text; /* by interned name: 1 + the index of the group; 0: none */
	LK_VEC(struct call) calls;
	LK_VEC(struct group) groups;
	LK_VEC(struct stuck) stuck;
	ranks dumped; /* sorted, once all dumps are read */
	int world;
	struct rank_state {
		const struct call *last; /* the last that it entered; NULL: none */
		int waits;               /* stuck ones that it entered */
	} * rank;                    /* [world] */
};

/* ---- sets of ranks ---- */

static bool ranks_hold(const ranks *set, int rank) {
	return set->count && bsearch(&rank, set->at, set->count, sizeof rank, lk_by_int);
}

static void ranks_settle(ranks *set) {
	size_t kept = 0;
	lk_sort(set->at, set->count, sizeof *set->at, lk_by_int);
	for (size_t i = 0; i < set->count; i++)
		if (!kept || set->at[kept - 1] != set->at[i]) set->at[kept++] = set->at[i];
	set->count = kept;
}

static bool ranks_add(ranks *set, int rank) {
	if (!lk_push(set)) return false;
	*lk_last(set) = rank;
	return true;
}

/* "0-2, 5"; NULL when memory runs out. Cut after some hundred bytes. */
static const char *ranks_text(lk_arena *arena, const ranks *set) {
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

/* ---- one dump ---- */

static struct group *group_named(struct hang *hang, const char *name, const char *what) {
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

static bool member_add(struct hang *hang, struct group *group, double rank) {
	if (!(rank >= 0 && rank < RANKS)) return true;
	if (rank >= hang->world) hang->world = (int)rank + 1;
	return ranks_add(&group->members, (int)rank);
}

/* Members are a list, or its text "[0, 2]". */
static bool read_members(struct hang *hang, struct group *group, const lk_value *list) {
	for (size_t i = 0; list && i < list->count; i++)
		if (!member_add(hang, group, list->items[i].number)) return false;
	if (!list || list->kind != LK_JSON_STRING) return true;
	for (const char *at = list->text, *end; *at;) {
		double rank = lk_is_digit(*at) ? lk_read_real(at, &end) : NAN;
		if (isnan(rank)) at++;
		else {
			at = end;
			if (!member_add(hang, group, rank)) return false;
		}
	}
	return true;
}

static bool read_groups(struct hang *hang, const lk_value *root) {
	const lk_value *config = lk_json_get(root, "pg_config");
	for (size_t i = 0; config && config->kind == LK_JSON_OBJECT && i < config->count; i++) {
		const lk_value *item = &config->items[i];
		struct group *group = group_named(hang, lk_json_get_text(item, "name", config->keys[i]),
		                                  lk_json_get_text(item, "desc", ""));
		if (!group) return false;
		if (group->described) continue;
		if (!read_members(hang, group, lk_json_get(item, "ranks"))) return false;
		group->described = group->members.count > 0;
	}
	return true;
}

static void add_sizes(lk_text *text, const lk_value *value) {
	if (value->kind == LK_JSON_NUMBER) lk_text_add(text, "%.0f", value->number);
	if (value->kind != LK_JSON_ARRAY) return;
	lk_text_add(text, "[");
	for (size_t i = 0; i < value->count && !lk_text_full(text); i++) {
		if (i) lk_text_add(text, ", ");
		add_sizes(text, &value->items[i]);
	}
	lk_text_add(text, "]");
}

/* Operations whose ranks may state different sizes. */
static bool sizes_may_differ(const char *operation) {
	static const char *const beginnings[] = {"all_to_all", "alltoall", "gather", "scatter"};
	for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
		if (lk_begins_with(operation, beginnings[i])) return true;
	return false;
}

/* What all ranks have to agree on, next to the operation. */
static uint32_t read_shape(struct hang *hang, const lk_value *entry, const char *operation) {
	char shape[SHAPE];
	lk_text text = lk_text_begin(shape, sizeof shape);
	const lk_value *sizes = lk_json_get(entry, "input_sizes");
	const lk_value *types = lk_json_get(entry, "input_dtypes");
	if (sizes && !sizes_may_differ(operation)) add_sizes(&text, sizes);
	if (types && types->count && types->items[0].kind == LK_JSON_STRING)
		lk_text_add(&text, "%s%s", text.used ? " " : "", types->items[0].text);
	return lk_intern_id(hang->texts, shape);
}

/* "nccl:send 0->1", "nccl:recv 1<-0": sets the pair from the operation's words. */
static void read_pair(struct call *call, const char *words) {
	const char *arrow = strstr(words, "->"), *back = strstr(words, "<-"), *end;
	const char *mark = arrow ? arrow : back, *first = mark;
	if (!mark) return;
	while (first > words && lk_is_digit(first[-1])) first--;
	double one = lk_read_real(first, &end), other = lk_read_real(mark + 2, &end);
	if (first == mark || !lk_is_digit(mark[2]) || one >= RANKS || other >= RANKS) return;
	call->from = (int)(arrow ? one : other);
	call->to = (int)(arrow ? other : one);
}

static uint32_t read_operation(struct hang *hang, struct call *call, const lk_value *entry,
                               char *name, size_t size) {
	const char *full = lk_json_get_text(entry, "profiling_name", "collective");
	const char *colon = strchr(full, ':');
	lk_copy(name, size, colon && !strchr(colon, ' ') ? colon + 1 : full);
	if (call->p2p) lk_copy(name, size, colon ? colon + 1 : full);
	for (char *at = name; *at; at++) *at = (char)tolower((unsigned char)*at);
	if (call->p2p) {
		read_pair(call, name);
		name[strcspn(name, " ")] = '\0';
	}
	return lk_intern_id(hang->texts, name);
}

static bool is_true(const lk_value *value) {
	return value && value->kind == LK_JSON_TRUE;
}

static struct group *group_of(struct hang *hang, const lk_value *entry) {
	const lk_value *names = lk_json_get(entry, "process_group");
	char number[32];
	if (names && names->kind == LK_JSON_STRING) return group_named(hang, names->text, "");
	if (names && names->count && names->items[0].kind == LK_JSON_STRING)
		return group_named(
			hang, names->items[0].text,
			names->count > 1 && names->items[1].kind == LK_JSON_STRING ? names->items[1].text : "");
	return group_named(
		hang, lk_format_shortest(lk_json_get_number(entry, "pg_id", 0), number, sizeof number), "");
}

static bool read_entry(struct hang *hang, int rank, const lk_value *entry) {
	struct group *group = group_of(hang, entry);
	char operation[120];
	struct call call = {.rank = rank, .from = -1, .to = -1};
	if (!group) return false;
	call.group = (uint32_t)(group - hang->groups.at);
	call.p2p = is_true(lk_json_get(entry, "is_p2p"));
	call.completed = strcmp(lk_json_get_text(entry, "state", ""), "completed") == 0 ||
	                 is_true(lk_json_get(entry, "retired"));
	/* one number for both before version 2.0 of the dumps */
	double sequence = lk_json_get_number(
		entry, call.p2p ? "p2p_seq_id" : "collective_seq_id",
		lk_json_get_number(entry, "seq_id", lk_json_get_number(entry, "record_id", -1)));
	call.sequence = sequence >= 0 && sequence < 1e15 ? (int64_t)sequence : -1;
	call.created_ns = lk_json_get_number(entry, "time_created_ns", 0);
	call.timeout_ms = lk_json_get_number(entry, "timeout_ms", NAN);
	call.operation = read_operation(hang, &call, entry, operation, sizeof operation);
	call.shape = read_shape(hang, entry, operation);
	const char *where = lk_frames_where(&hang->scratch, lk_json_get(entry, "frames"), NULL);
	call.where = where ? lk_intern_id(hang->texts, where) : UINT32_MAX;
	if (call.operation == UINT32_MAX || call.shape == UINT32_MAX || call.where == UINT32_MAX ||
	    !lk_push(&hang->calls))
		return false;
	*lk_last(&hang->calls) = call;
	return true;
}

static lk_status read_dump(struct hang *hang, const lk_mortem_file *file, lk_error *err) {
	double rank = lk_json_get_number(file->root, "rank", lk_mortem_rank_of(file->path, true));
	const lk_value *entries = lk_json_get(file->root, "entries");
	if (!(rank >= 0 && rank < RANKS)) {
		lk_fail(err, LK_ERR_INPUT, file->path, "the name of the dump does not have its rank");
		return lk_hint(err, "name it like nccl_trace_rank_3");
	}
	for (size_t i = 0; i < hang->dumped.count; i++)
		if (hang->dumped.at[i] == (int)rank) {
			lk_fail(err, LK_ERR_INPUT, file->path, "a second dump of rank %.0f", rank);
			return lk_hint(err, "give the dumps of one run only");
		}
	if (!ranks_add(&hang->dumped, (int)rank) || !read_groups(hang, file->root)) return lk_oom(err);
	if (rank >= hang->world) hang->world = (int)rank + 1;
	for (size_t i = 0; entries && i < entries->count; i++)
		if (!read_entry(hang, (int)rank, &entries->items[i])) return lk_oom(err);
	return LK_OK;
}

/* Dumps are read one by one: as documents thousands of them would not fit in memory. */
static lk_status read_dumps(struct hang *hang, const lk_mortem_file *files, size_t count,
                            lk_error *err) {
	for (size_t i = 0; i < count; i++) {
		lk_mortem_file file = files[i];
		lk_status status = lk_mortem_load(&hang->scratch, &file, err);
		if (status == LK_OK) status = read_dump(hang, &file, err);
		lk_arena_free(&hang->scratch);
		LK_TRY(status);
	}
	return LK_OK;
}

/* ---- where groups are stuck ---- */

LK_ORDER_BY(calls_in_order, struct call, group, p2p, sequence, rank)
LK_ORDER_BY(pairs_in_order, struct call, group, from, to, operation, rank)

/* The calls of one collective. */
struct span {
	const struct call *at;
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

static bool sort_members(struct hang *hang, struct stuck *stuck, const struct group *group,
                         const struct span *rest) {
	for (size_t i = 0; i < group->members.count; i++) {
		int rank = group->members.at[i];
		if (ranks_hold(&stuck->entered, rank) || rank_passed(rest, rank)) continue;
		if (!ranks_add(ranks_hold(&hang->dumped, rank) ? &stuck->absent : &stuck->silent, rank))
			return false;
	}
	return true;
}

static bool same_work(const struct call *a, const struct call *b) {
	return a->operation == b->operation && a->shape == b->shape;
}

/* The call that most ranks made, and in *differing one of another kind, if there is one. */
static const struct call *common_call(const struct span *span, const struct call **differing) {
	const struct call *common = span->at;
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

static const char *text_of(const struct hang *hang, uint32_t id) {
	return lk_intern_text(hang->texts, id);
}

/* " at train.py:12"; "" where the place is not known. */
static const char *place_of(struct hang *hang, uint32_t where) {
	return where ? lk_arena_printf(&hang->work->arena, " at %s", text_of(hang, where)) : "";
}

/* "rank 3: all_gather [[8]] Float at data.py:7". */
static const char *differing_text(struct hang *hang, const struct span *span,
                                  const struct call *differing) {
	ranks same = {0};
	bool added = true;
	for (size_t i = 0; i < span->count && added; i++)
		if (same_work(differing, &span->at[i])) added = ranks_add(&same, span->at[i].rank);
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
static const char *last_of(struct hang *hang, int rank) {
	const struct call *last = hang->rank[rank].last;
	if (!last) return "nothing that its dump holds";
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

static const char *where_of(const struct hang *hang, const struct span *span) {
	for (size_t i = 0; i < span->count; i++)
		if (span->at[i].where) return text_of(hang, span->at[i].where);
	return "";
}

/* Texts of a row whose sets of ranks are known. */
static bool write_row(struct hang *hang, struct stuck *stuck, const struct span *span,
                      const struct call *common) {
	lk_postmortem_collective *row = &stuck->row;
	const struct group *group = &hang->groups.at[common->group];
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

static const char *problem_of(const struct stuck *stuck, bool differs) {
	if (differs) return "mismatch";
	if (stuck->absent.count) return "not entered";
	return stuck->silent.count ? "no dump" : "not completed";
}

static bool add_collective(struct hang *hang, const struct span *span, const struct span *rest) {
	const struct call *differing, *common = common_call(span, &differing);
	if (hang->stuck.count >= STUCK) return true;
	if (!lk_push(&hang->stuck)) return false;
	struct stuck *stuck = lk_last(&hang->stuck);
	for (size_t i = 0; i < span->count; i++)
		if (!ranks_add(&stuck->entered, span->at[i].rank)) return false;
	ranks_settle(&stuck->entered);
	if (!sort_members(hang, stuck, &hang->groups.at[common->group], rest)) return false;
	stuck->row.problem = problem_of(stuck, differing != NULL);
	if (differing && !(stuck->row.differing = differing_text(hang, span, differing))) return false;
	return write_row(hang, stuck, span, common);
}

/* The first collective of each group that did not complete. */
static bool find_stuck(struct hang *hang) {
	const struct call *calls = hang->calls.at;
	size_t count = hang->calls.count;
	for (size_t first = 0, next, end; first < count; first = end) {
		for (end = first; end < count && calls[end].group == calls[first].group &&
		                  calls[end].p2p == calls[first].p2p;)
			end++;
		for (size_t at = first; at < end && !calls[first].p2p; at = next) {
			for (next = at; next < end && calls[next].sequence == calls[at].sequence;) next++;
			const struct span span = {calls + at, next - at}, rest = {calls + next, end - next};
			const struct group *group = &hang->groups.at[calls[at].group];
			if (!span_stuck(&span, &rest, group->members.count)) continue;
			if (!add_collective(hang, &span, &rest)) return false;
			break;
		}
	}
	return true;
}

/* ---- sends and receives ---- */

/* The rank in the run of a rank in the group; -1: the group's members are not known. */
static int global_rank(const struct group *group, int rank) {
	return rank >= 0 && (size_t)rank < group->members.count ? group->members.at[rank] : -1;
}

/* A pair of ranks of which one side alone is open: the other did not post its part. */
static bool add_pair(struct hang *hang, const struct span *span) {
	const struct call *call = span->at;
	const struct group *group = &hang->groups.at[call->group];
	int from = global_rank(group, call->from), to = global_rank(group, call->to);
	if (from < 0 || to < 0 || hang->stuck.count >= STUCK) return true;
	bool sends = false, receives = false;
	for (size_t i = 0; i < span->count; i++) {
		sends |= span->at[i].rank == from;
		receives |= span->at[i].rank == to;
	}
	if (!lk_push(&hang->stuck)) return false;
	struct stuck *stuck = lk_last(&hang->stuck);
	if (sends && !ranks_add(&stuck->entered, from)) return false;
	if (receives && !ranks_add(&stuck->entered, to)) return false;
	ranks_settle(&stuck->entered);
	int other = sends ? to : from;
	if (sends != receives &&
	    !ranks_add(ranks_hold(&hang->dumped, other) ? &stuck->absent : &stuck->silent, other))
		return false;
	stuck->row.problem = problem_of(stuck, false);
	if (stuck->absent.count) stuck->row.problem = "no peer";
	stuck->row.operation = lk_arena_printf(&hang->work->arena, "send %d -> %d", from, to);
	return write_row(hang, stuck, span, call);
}

static bool find_pairs(struct hang *hang) {
	LK_VEC(struct call) open = {0};
	bool good = true;
	for (size_t i = 0; i < hang->calls.count && good; i++) {
		const struct call *call = &hang->calls.at[i];
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

static bool waits_elsewhere(const struct hang *hang, const struct stuck *stuck, int rank) {
	return hang->rank[rank].waits > ranks_hold(&stuck->entered, rank);
}

static bool is_root(const struct hang *hang, const struct stuck *stuck) {
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
	const struct stuck *x = a, *y = b;
	if (x->row.root != y->row.root) return x->row.root ? -1 : 1;
	return (x->row.since_unix_s > y->row.since_unix_s) -
	       (x->row.since_unix_s < y->row.since_unix_s);
}

static bool keep_stuck(struct hang *hang) {
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

static void add_ranks(lk_text *text, const ranks *set, const char *list) {
	lk_text_add(text, "%s %s", lk_noun((double)set->count, "rank", "ranks"), list);
}

static void add_stuck(lk_text *text, const struct stuck *stuck) {
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

static lk_status say_hang(struct hang *hang, lk_error *err) {
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

static lk_status find_missing(struct hang *hang, lk_error *err) {
	ranks missing = {0};
	bool good = true;
	for (int rank = 0; rank < hang->world && good; rank++)
		if (!ranks_hold(&hang->dumped, rank)) good = ranks_add(&missing, rank);
	hang->work->result.missing = good ? ranks_text(&hang->work->arena, &missing) : NULL;
	hang->work->result.world = hang->world;
	hang->work->result.dumps = (int)hang->dumped.count;
	size_t count = missing.count;
	lk_vec_free(&missing);
	if (!hang->work->result.missing) return lk_oom(err);
	return count ? lk_mortem_warn(hang->work, err,
	                              "%zu of %d ranks left no dump: %s; set "
	                              "TORCH_NCCL_DUMP_ON_TIMEOUT=1 and a folder that all nodes share",
	                              count, hang->world, hang->work->result.missing)
	             : LK_OK;
}

/* Groups that no dump describes have the ranks that used them; the default group has all. */
static bool complete_members(struct hang *hang) {
	for (size_t i = 0; i < hang->calls.count; i++) {
		struct group *group = &hang->groups.at[hang->calls.at[i].group];
		if (!group->described && !ranks_add(&group->members, hang->calls.at[i].rank)) return false;
	}
	for (size_t i = 0; i < hang->groups.count; i++) {
		struct group *group = &hang->groups.at[i];
		bool whole = !group->described && strstr(text_of(hang, group->name), "default_pg");
		for (int rank = 0; whole && rank < hang->world; rank++)
			if (!ranks_add(&group->members, rank)) return false;
		ranks_settle(&group->members);
	}
	return true;
}

static bool find_last_calls(struct hang *hang) {
	hang->rank = calloc((size_t)hang->world + 1, sizeof *hang->rank);
	if (!hang->rank) return false;
	for (size_t i = 0; i < hang->calls.count; i++) {
		const struct call *call = &hang->calls.at[i], **last = &hang->rank[call->rank].last;
		if (!*last || call->created_ns >= (*last)->created_ns) *last = call;
	}
	return true;
}

static lk_status hang_find(struct hang *hang, lk_error *err) {
	ranks_settle(&hang->dumped);
	lk_sort(hang->calls.at, hang->calls.count, sizeof *hang->calls.at, calls_in_order);
	if (!complete_members(hang) || !find_last_calls(hang) || !find_stuck(hang) ||
	    !find_pairs(hang) || !keep_stuck(hang))
		return lk_oom(err);
	LK_TRY(find_missing(hang, err));
	return say_hang(hang, err);
}

lk_status lk_mortem_flight(lk_mortem *work, const lk_mortem_file *files, size_t count,
                           lk_error *err) {
	struct hang hang = {.work = work, .texts = lk_intern_new()};
	lk_status status = hang.texts ? read_dumps(&hang, files, count, err) : lk_oom(err);
	if (status == LK_OK) status = hang_find(&hang, err);
	for (size_t i = 0; i < hang.groups.count; i++) lk_vec_free(&hang.groups.at[i].members);
	for (size_t i = 0; i < hang.stuck.count; i++) {
		lk_vec_free(&hang.stuck.at[i].entered);
		lk_vec_free(&hang.stuck.at[i].absent);
		lk_vec_free(&hang.stuck.at[i].silent);
	}
	lk_vec_free(&hang.groups);
	lk_vec_free(&hang.stuck);
	lk_vec_free(&hang.calls);
	lk_vec_free(&hang.dumped);
	lk_vec_free(&hang.group_of_text);
	free(hang.rank);
	lk_intern_free(hang.texts);
	return status;
}
