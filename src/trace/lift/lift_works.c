/* lift_works.c: execution traces as a step graph: programs, process groups as teams, streams. The
 * operations come from lift_works_shapes.c or lift_works_timed.c. */
#include "base/arena.h"
#include "base/sort.h"
#include "trace/lift/lift.h"

#include <string.h>
#include "trace/lift/lift_internal.h"

/* ---- teams ---- */

/* One rank's use of a process group. */
struct member {
	uint32_t name; /* in the graph, with the ranks of the group if known */
	uint32_t rank;
	int32_t size;
	uint32_t comm;
};

typedef LK_VEC(struct member) members;

LK_ORDER_BY(works_by_name, struct member, name, rank, comm)

static bool works_list_members(lk_lifter *lifter, members *list) {
	for (uint32_t rank = 0; rank < lifter->count; rank++) {
		const lk_works *works = lifter->works[rank];
		lifter->team_of[rank] = lk_arena_array(&lifter->report->arena, works->comms.count + 1,
		                                       sizeof **lifter->team_of);
		if (!lifter->team_of[rank]) return false;
		for (size_t i = 0; i < works->comms.count; i++) {
			const lk_comm_note *note = &works->comms.at[i].note;
			char name[256];
			if (works->comms.at[i].waits || !lk_op_is_collective(note->kind)) continue;
			snprintf(name, sizeof name, "%.120s%s%.100s",
			         note->group ? lk_works_text(works, note->group) : "all ranks",
			         note->ranks ? " " : "", lk_works_text(works, note->ranks));
			uint32_t id = lk_intern_id(lifter->graph->names, name);
			if (id == UINT32_MAX || !lk_push(list)) return false;
			*lk_last(list) = (struct member){id, rank, note->group_size, (uint32_t)i};
		}
	}
	lk_sort(list->at, list->count, sizeof *list->at, works_by_name);
	return true;
}

/* Make one team of the members of one name; if more ranks use it than the group has, the name means
 * a different group on each of them. */
static bool works_add_teams(lk_lifter *lifter, const struct member *list, size_t count) {
	uint32_t ranks = 0, size = 0;
	for (size_t i = 0; i < count; i++) {
		ranks += !i || list[i].rank != list[i - 1].rank;
		if (list[i].size > 0 && (uint32_t)list[i].size > size) size = (uint32_t)list[i].size;
	}
	bool apart = size && ranks > size;
	for (size_t i = 0; i < count; i++) {
		bool new_rank = !i || list[i].rank != list[i - 1].rank;
		if (!i || (apart && new_rank)) {
			if (!lk_push(&lifter->graph->teams)) return false;
			uint32_t at = (uint32_t)lifter->graph->team_stages.count;
			*lk_last(&lifter->graph->teams) = (lk_team){
				.name = list[0].name, .begin = at, .end = at, .ranks = size ? size : ranks};
		}
		if (new_rank) {
			if (!lk_push(&lifter->graph->team_stages)) return false;
			*lk_last(&lifter->graph->team_stages) = list[i].rank;
			lk_last(&lifter->graph->teams)->end++;
		}
		lifter->team_of[list[i].rank][list[i].comm] = (uint32_t)lifter->graph->teams.count - 1;
	}
	return true;
}

static lk_status find_teams(lk_lifter *lifter) {
	members list = {0};
	lifter->team_of =
		lk_arena_array(&lifter->report->arena, lifter->count, sizeof *lifter->team_of);
	bool good = lifter->team_of && works_list_members(lifter, &list);
	for (size_t at = 0, end; good && at < list.count; at = end) {
		for (end = at; end < list.count && list.at[end].name == list.at[at].name;) end++;
		good = works_add_teams(lifter, list.at + at, end - at);
	}
	lk_vec_free(&list);
	return good ? LK_OK : lk_oom(lifter->err);
}

/* ---- programs ---- */

static bool has_device_works(const lk_works *works) {
	for (uint32_t i = 0; i < works->count; i++)
		if (works->kind[i] == LK_NODE_DEVICE) return true;
	return false;
}

static lk_status works_lift_rank(lk_lifter *lifter, uint32_t rank) {
	char name[32];
	uint32_t block;
	lifter->rank = rank;
	lifter->w = lifter->works[rank];
	lifter->threads.count = lifter->stream_of.count = lifter->deps.count = 0;
	lifter->streams = LK_STREAM_COMPUTE + 1;
	snprintf(name, sizeof name, "rank %u", lifter->w->rank >= 0 ? (unsigned)lifter->w->rank : rank);
	lifter->graph->programs.at[rank].name = lk_intern_id(lifter->graph->names, name);
	if (lifter->graph->programs.at[rank].name == UINT32_MAX) return lk_oom(lifter->err);
	lk_graph_begin_block(lifter->graph, name);
	LK_TRY(has_device_works(lifter->w) ? lk_lift_by_dependencies(lifter)
	                                   : lk_lift_by_shapes(lifter));
	LK_TRY(lk_graph_end_block(lifter->graph, &block, lifter->err));
	return lk_graph_call(
		lifter->graph, rank,
		&(lk_call){
			.block = block, .repeat = 1, .microbatch = -1, .layer = -1, .pass = LK_PHASE_OTHER},
		lifter->err);
}

static int by_count(const void *a, const void *b) {
	const lk_unpriced *x = a, *y = b;
	if (x->count != y->count) return x->count > y->count ? -1 : 1;
	return strcmp(x->name, y->name);
}

static lk_status list_unpriced(lk_lifter *lifter) {
	for (size_t i = 0; i < lifter->unpriced.count; i++) {
		if (!lifter->unpriced.at[i]) continue;
		if (!lk_push(&lifter->report->names)) return lk_oom(lifter->err);
		const char *name = lk_arena_strdup(&lifter->report->arena,
		                                   lk_intern_text(lifter->graph->names, (uint32_t)i));
		if (!name) return lk_oom(lifter->err);
		*lk_last(&lifter->report->names) = (lk_unpriced){name, lifter->unpriced.at[i]};
	}
	lk_sort(lifter->report->names.at, lifter->report->names.count, sizeof *lifter->report->names.at,
	        by_count);
	return LK_OK;
}

static lk_status works_lift(lk_lifter *lifter) {
	lifter->graph->traced = true;
	lifter->graph->ranks.world = lifter->count;
	lifter->graph->ranks.chains = 1;
	for (int g = 0; g < LK_GROUPS; g++)
		lifter->graph->ranks.group[g].size = lifter->graph->ranks.group[g].stride = 1;
	LK_TRY(find_teams(lifter));
	LK_TRY(lk_lift_messages(lifter)); /* makes the programs */
	for (uint32_t rank = 0; rank < lifter->count; rank++) LK_TRY(works_lift_rank(lifter, rank));
	LK_TRY(list_unpriced(lifter));
	return lk_graph_check(lifter->graph, lifter->err);
}

lk_status lk_works_lift(const lk_works *const *works, uint32_t count, const lk_overheads *overheads,
                        lk_graph **out, lk_works_lifted *report, lk_error *err) {
	*out = NULL;
	*report = (lk_works_lifted){0};
	lk_lifter l = {.graph = lk_graph_new(),
	               .works = works,
	               .count = count,
	               .overheads = overheads,
	               .report = report,
	               .err = err};
	if (!l.graph) return lk_oom(err);
	lk_status status = works_lift(&l);
	lk_vec_free(&l.unpriced);
	lk_vec_free(&l.threads);
	lk_vec_free(&l.stream_of);
	lk_vec_free(&l.deps);
	if (status == LK_OK) {
		*out = l.graph;
		return LK_OK;
	}
	lk_graph_free(l.graph);
	lk_works_lifted_free(report);
	return status;
}

void lk_works_lifted_free(lk_works_lifted *report) {
	lk_vec_free(&report->names);
	lk_arena_free(&report->arena);
}
