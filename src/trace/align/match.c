/* match.c: matches the calls of a process group, rank by rank, as collectives. All ranks are
 * compared with the one whose sequence of calls is most common; those that differ are reported. In
 * guessed groups, ranks whose ends do not keep step belong to different groups and are
 * separated. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/stats.h"
#include "base/text.h"
#include "base/sort.h"
#include "graph/graph.h"
#include "trace/align/traces.h"

enum {
	MOST_PARTS = 64, /* at most, into which a guessed group is split */
	RANKS_NAMED = 8,
	FEWEST_TO_JUDGE = 3, /* common calls needed to judge by their ends whether ranks keep step */
};
/* Ends of one collective agree within about 10 us, those of different groups only by chance. */
static const double SAME_GROUP_NS = 50e3;

/* The calls of one rank in one group. */
struct span {
	uint32_t capture;
	lk_call_list calls;
	int64_t *places;
	double jitter;
};

typedef LK_VEC(struct span) spans;

struct matcher {
	lk_traces *traces;
	lk_run_calls *calls;
	LK_VEC(spans) of; /* by group */
	lk_order_notes notes;
	lk_error *err;
};

/* ---- spans ---- */

static lk_status add_span(struct matcher *matcher, uint32_t group, uint32_t capture,
                          const lk_comm_call *at, size_t count) {
	spans *s = &matcher->of.at[group];
	if (!lk_push(s)) return lk_oom(matcher->err);
	*lk_last(s) =
		(struct span){.capture = capture,
	                  .calls = {at, (uint32_t)count, matcher->traces->capture[capture]->whole}};
	return LK_OK;
}

static lk_status cut_spans(struct matcher *matcher) {
	for (size_t g = 0; g < matcher->traces->groups.count; g++)
		if (!lk_push(&matcher->of)) return lk_oom(matcher->err);
	for (uint32_t k = 0; k < matcher->traces->count; k++) {
		const lk_comm_calls *list = &matcher->calls->of[k];
		for (size_t begin = 0, end; begin < list->count; begin = end) {
			for (end = begin; end < list->count && list->at[end].group == list->at[begin].group;)
				end++;
			LK_TRY(add_span(matcher, list->at[begin].group, k, list->at + begin, end - begin));
		}
	}
	return LK_OK;
}

/* ---- the rank that others are compared with ---- */

struct fingerprint {
	uint64_t hash;
	uint32_t span;
};

LK_ORDER_BY(by_hash, struct fingerprint, hash, span)

static uint64_t match_hash_calls(lk_call_list calls) {
	uint64_t hash = calls.count;
	for (uint32_t i = 0; i < calls.count; i++) {
		const lk_comm_call *call = &calls.at[i];
		uint8_t kind = call->kind == LK_OP_RECV ? LK_OP_SEND : call->kind;
		hash = lk_hash64(hash ^ kind ^ (call->uneven ? 0 : (uint64_t)call->bytes << 8));
	}
	return hash;
}

/* Choose a rank with the most common sequence; of several such, the longest, then the first. */
static lk_status choose_reference(const spans *s, uint32_t *out, lk_error *err) {
	struct fingerprint *prints = calloc(s->count, sizeof *prints);
	if (!prints) return lk_oom(err);
	for (uint32_t i = 0; i < s->count; i++)
		prints[i] = (struct fingerprint){match_hash_calls(s->at[i].calls), i};
	lk_sort(prints, s->count, sizeof *prints, by_hash);
	size_t most = 0;
	for (size_t begin = 0, end; begin < s->count; begin = end) {
		for (end = begin; end < s->count && prints[end].hash == prints[begin].hash;) end++;
		uint32_t one = prints[begin].span;
		uint32_t length = s->at[one].calls.count, had = most ? s->at[*out].calls.count : 0;
		if (end - begin < most) continue;
		if (end - begin == most && (length < had || (length == had && one > *out))) continue;
		most = end - begin;
		*out = one;
	}
	free(prints);
	return LK_OK;
}

/* ---- problems in words ---- */

/* "rank 3", "ranks 3, 5 and 9 more". */
static void rank_list(const struct matcher *matcher, const lk_order_note *notes, size_t n,
                      char *out, size_t size) {
	lk_text text = lk_text_begin(out, size);
	lk_text_add(&text, n > 1 ? "ranks" : "rank");
	for (size_t i = 0; i < n && i < RANKS_NAMED; i++) {
		LK_ASSERT(notes[i].capture < matcher->traces->count);
		lk_text_add(&text, i ? ", %d" : " %d", matcher->traces->capture[notes[i].capture]->rank);
	}
	if (n > RANKS_NAMED) lk_text_add(&text, " and %zu more", n - RANKS_NAMED);
}

static const char *call_text(unsigned kind, int64_t bytes, char *out, size_t size) {
	const char *name = kind < LK_OP_COUNT ? lk_op_kind_name(kind) : "communication of unknown kind";
	if (bytes >= 0) snprintf(out, size, "%s of %lld bytes", name, (long long)bytes);
	else snprintf(out, size, "%s", name);
	return out;
}

/* Report ranks of one collective that all differ in the same way. */
static void match_say(const struct matcher *matcher, const lk_run_group *group, int64_t first,
                      const lk_comm_call *expected, const lk_order_note *notes, size_t n) {
	char ranks[160], own[96], other[96];
	rank_list(matcher, notes, n, ranks, sizeof ranks);
	call_text(notes->kind, notes->bytes, own, sizeof own);
	call_text(expected->kind, expected->bytes, other, sizeof other);
	long long number = (long long)(notes->place - first);
	switch (notes->what) {
	case LK_CALL_MISSING:
		lk_traces_problem(matcher->traces, "group %s, number %lld: %s is missing on %s",
		                  group->name, number, other, ranks);
		break;
	case LK_CALL_EXTRA:
		lk_traces_problem(
			matcher->traces,
			"group %s, before number %lld (%s): %s has %s that the other ranks have not",
			group->name, number, other, ranks, own);
		break;
	case LK_CALL_OTHER_KIND:
		lk_traces_problem(matcher->traces,
		                  "group %s, number %lld: %s has %s where %s was expected: desynchronised",
		                  group->name, number, ranks, own, other);
		break;
	case LK_CALL_OTHER_SIZE:
		lk_traces_problem(matcher->traces,
		                  "group %s, number %lld: %s has %s where %s was expected: sizes differ",
		                  group->name, number, ranks, own, other);
		break;
	}
}

LK_ORDER_BY(match_by_place, lk_order_note, place, what, kind, bytes, capture)

static bool match_alike(const lk_order_note *x, const lk_order_note *y) {
	return x->place == y->place && x->what == y->what && x->kind == y->kind && x->bytes == y->bytes;
}

static void say_all(struct matcher *matcher, uint32_t group, lk_call_list reference,
                    int64_t first) {
	lk_order_notes *notes = &matcher->notes;
	if (!notes->count) return;
	lk_sort(notes->at, notes->count, sizeof *notes->at, match_by_place);
	for (size_t begin = 0, end; begin < notes->count; begin = end) {
		for (end = begin; end < notes->count && match_alike(&notes->at[begin], &notes->at[end]);)
			end++;
		int64_t place = notes->at[begin].place < reference.count ? notes->at[begin].place
		                                                         : (int64_t)reference.count - 1;
		match_say(matcher, &matcher->traces->groups.at[group], first, &reference.at[place],
		          notes->at + begin, end - begin);
	}
}

/* ---- one group ---- */

static lk_status place_spans(struct matcher *matcher, spans *s, uint32_t reference) {
	lk_call_list a = s->at[reference].calls;
	for (uint32_t i = 0; i < s->count; i++) {
		struct span *span = &s->at[i];
		span->places = malloc((size_t)span->calls.count * sizeof *span->places);
		if (!span->places) return lk_oom(matcher->err);
		span->jitter = 0;
		if (i == reference) {
			for (uint32_t k = 0; k < a.count; k++) span->places[k] = k;
			continue;
		}
		size_t before = matcher->notes.count;
		LK_TRY(lk_order_find(a, span->calls, span->places, &matcher->notes, &span->jitter,
		                     matcher->err));
		for (size_t n = before; n < matcher->notes.count; n++)
			matcher->notes.at[n].capture = span->capture;
	}
	return LK_OK;
}

static void forget_notes(lk_order_notes *notes, uint32_t capture) {
	size_t kept = 0;
	for (size_t n = 0; n < notes->count; n++)
		if (notes->at[n].capture != capture) notes->at[kept++] = notes->at[n];
	notes->count = kept;
}

static uint32_t common_calls(const struct span *span, uint32_t reference) {
	uint32_t n = 0;
	for (uint32_t k = 0; k < span->calls.count; k++)
		n += span->places[k] >= 0 && span->places[k] < reference;
	return n;
}

/* Next name: "stream 84, part 3" after "stream 84, part 2"; the number goes to *part. */
static const char *match_next_part(struct matcher *matcher, const char *name, long *part) {
	const char *mark = strstr(name, ", part ");
	*part = mark ? strtol(mark + 7, NULL, 10) + 1 : 2;
	return lk_arena_printf(&matcher->traces->arena, "%.*s, part %ld",
	                       (int)(mark ? mark - name : (long)strlen(name)), name, *part);
}

static lk_status match_add_part(struct matcher *matcher, uint32_t group) {
	long part;
	const char *name = match_next_part(matcher, matcher->traces->groups.at[group].name, &part);
	if (!name || !lk_push(&matcher->traces->groups) || !lk_push(&matcher->of) ||
	    !lk_push(&matcher->calls->told))
		return lk_oom(matcher->err);
	*lk_last(&matcher->traces->groups) = (lk_run_group){.name = name, .ranks = ""};
	*lk_last(&matcher->calls->told) = part >= MOST_PARTS; /* no further splits */
	return LK_OK;
}

/* In a guessed group, move the ranks that do not keep step to a new part, which is examined
 * later. */
static lk_status take_apart(struct matcher *matcher, uint32_t group, uint32_t reference) {
	uint32_t calls = matcher->of.at[group].at[reference].calls.count,
			 next = (uint32_t)matcher->traces->groups.count;
	size_t kept = 0, count = matcher->of.at[group].count;
	for (size_t i = 0; i < count; i++) {
		struct span p = matcher->of.at[group].at[i];
		if (i == reference || !(p.jitter > SAME_GROUP_NS) ||
		    common_calls(&p, calls) < FEWEST_TO_JUDGE) {
			matcher->of.at[group].at[kept++] = p;
			continue;
		}
		forget_notes(&matcher->notes, p.capture);
		free(p.places);
		matcher->of.at[group].at[i].places = NULL;
		if (next == matcher->traces->groups.count) LK_TRY(match_add_part(matcher, group));
		LK_TRY(add_span(matcher, next, p.capture, p.calls.at, p.calls.count));
	}
	matcher->of.at[group].count = kept;
	return LK_OK;
}

static lk_status list_captures(struct matcher *matcher, uint32_t group) {
	const spans *s = &matcher->of.at[group];
	lk_run_group *run_group = &matcher->traces->groups.at[group];
	run_group->captures = LK_ARRAY(&matcher->traces->arena, uint32_t, s->count);
	if (!run_group->captures) return lk_oom(matcher->err);
	for (size_t i = 0; i < s->count; i++)
		run_group->captures[run_group->count++] = s->at[i].capture;
	return LK_OK;
}

struct extent {
	int64_t first, last; /* in the reference's calls */
};

static struct extent extent_of(const spans *s) {
	struct extent e = {INT64_MAX, INT64_MIN};
	for (size_t i = 0; i < s->count; i++)
		for (uint32_t k = 0; k < s->at[i].calls.count; k++) {
			int64_t place = s->at[i].places[k];
			if (place == LK_NO_PLACE) continue;
			if (place < e.first) e.first = place;
			if (place > e.last) e.last = place;
		}
	return e;
}

/* Of MPI_Gatherv a call's bytes are its own times the number of ranks: their mean is what is
 * gathered. */
static void join_match(lk_match *match, const lk_comm_call *call) {
	if (match->kind == LK_OP_COUNT) match->kind = call->kind;
	if (call->uneven && call->kind != LK_OP_ALLTOALL && match->bytes >= 0 && call->bytes >= 0)
		match->bytes += (call->bytes - match->bytes) / (int64_t)(match->end - match->begin);
	else if (call->bytes > match->bytes) match->bytes = call->bytes;
}

/* Counting sort by place; spans are by capture, so members come out by capture. */
static lk_status make_matches(struct matcher *matcher, uint32_t group, struct extent e) {
	lk_traces *traces = matcher->traces;
	const spans *s = &matcher->of.at[group];
	LK_ASSERT(e.first <= e.last);
	size_t places = (size_t)(e.last - e.first + 1), total = 0;
	uint32_t *number = calloc(places + 1, sizeof *number);
	if (!number) return lk_oom(matcher->err);
	for (size_t i = 0; i < s->count; i++)
		for (uint32_t k = 0; k < s->at[i].calls.count; k++)
			if (s->at[i].places[k] != LK_NO_PLACE) {
				number[s->at[i].places[k] - e.first]++;
				total++;
			}
	bool room = traces->members.count + total < LK_NONE && lk_reserve(&traces->members, total);
	size_t match = traces->matches.count;
	uint32_t begin = (uint32_t)traces->members.count;
	for (size_t p = 0; p < places && room; p++) {
		if (!number[p]) continue;
		room = lk_push(&traces->matches);
		if (!room) break;
		*lk_last(&traces->matches) = (lk_match){.kind = LK_OP_COUNT,
		                                        .group = group,
		                                        .sequence = (uint32_t)p,
		                                        .bytes = -1,
		                                        .begin = begin,
		                                        .end = begin};
		begin += number[p];
		number[p] = (uint32_t)match++;
	}
	for (size_t i = 0; i < s->count && room; i++)
		for (uint32_t k = 0; k < s->at[i].calls.count; k++) {
			if (s->at[i].places[k] == LK_NO_PLACE) continue;
			lk_match *to = &traces->matches.at[number[s->at[i].places[k] - e.first]];
			traces->members.at[to->end++] =
				(lk_match_member){s->at[i].capture, s->at[i].calls.at[k].event};
			join_match(to, &s->at[i].calls.at[k]);
		}
	if (room) traces->members.count += total;
	LK_ASSERT(!room || begin == traces->members.count); /* every call is in one match */
	free(number);
	return room ? LK_OK : lk_oom(matcher->err);
}

static void free_places(spans *s) {
	for (size_t i = 0; i < s->count; i++) {
		free(s->at[i].places);
		s->at[i].places = NULL;
	}
}

/* The capture of a rank; LK_NONE if there is none. */
static uint32_t match_capture_of(const lk_traces *traces, long rank) {
	uint32_t low = 0, high = traces->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (traces->capture[middle]->rank < rank) low = middle + 1;
		else high = middle;
	}
	return low < traces->count && traces->capture[low]->rank == rank ? low : LK_NONE;
}

/* Report captured ranks of the list that have no call at all. */
static void say_absent(struct matcher *matcher, const lk_run_group *group) {
	if (group->ranks[0] != '[' || strstr(group->ranks, "...")) return;
	size_t absent = 0;
	char list[160], *end;
	lk_text text = lk_text_begin(list, sizeof list);
	for (const char *at = group->ranks + 1; *at; at = end) {
		long rank = strtol(at, &end, 10);
		if (end == at) break;
		end += strspn(end, ", ");
		uint32_t capture = match_capture_of(matcher->traces, rank);
		if (capture == LK_NONE ||
		    bsearch(&capture, group->captures, group->count, sizeof capture, lk_by_u32))
			continue;
		if (absent++ < RANKS_NAMED) lk_text_add(&text, " %ld", rank);
	}
	if (absent > RANKS_NAMED) lk_text_add(&text, " and more");
	if (absent == 1)
		lk_traces_problem(matcher->traces, "group %s %s: no collective at all on captured rank%s",
		                  group->name, group->ranks, list);
	else if (absent)
		lk_traces_problem(matcher->traces, "group %s %s: no collective at all on captured ranks%s",
		                  group->name, group->ranks, list);
}

static lk_status match_group(struct matcher *matcher, uint32_t group) {
	uint32_t reference = 0;
	matcher->notes.count = 0;
	if (!matcher->of.at[group].count) return LK_OK;
	LK_TRY(choose_reference(&matcher->of.at[group], &reference, matcher->err));
	LK_TRY(place_spans(matcher, &matcher->of.at[group], reference));
	lk_call_list calls = matcher->of.at[group].at[reference].calls;
	if (!matcher->calls->told.at[group]) LK_TRY(take_apart(matcher, group, reference));
	struct extent e = extent_of(&matcher->of.at[group]);
	say_all(matcher, group, calls, e.first);
	LK_TRY(list_captures(matcher, group));
	LK_TRY(make_matches(matcher, group, e));
	free_places(&matcher->of.at[group]);
	say_absent(matcher, &matcher->traces->groups.at[group]);
	return LK_OK;
}

lk_status lk_calls_match(lk_traces *traces, lk_run_calls *calls, lk_error *err) {
	struct matcher m = {.traces = traces, .calls = calls, .err = err};
	lk_status status = cut_spans(&m);
	for (uint32_t g = 0; g < traces->groups.count && status == LK_OK; g++)
		status = match_group(&m, g);
	for (size_t g = 0; g < m.of.count; g++) {
		free_places(&m.of.at[g]);
		lk_vec_free(&m.of.at[g]);
	}
	lk_vec_free(&m.of);
	lk_vec_free(&m.notes);
	return status;
}
