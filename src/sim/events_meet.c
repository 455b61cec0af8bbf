/* events_meet.c: where ranks meet. The k-th operation of a group, or of a channel, is one meeting:
 * it starts when the last member has arrived, every member does its own share at its own pace, and
 * it ends for all when the last share is done. */
#include "sim/events.h"

static size_t cross_places(const lk_sim *sim, unsigned kind) {
	bool across = kind == LK_GROUP_PP || kind == LK_GROUP_EMBEDDING || kind == LK_GROUP_MODEL;
	return across && sim->stages > 1 ? sim->group[kind].groups
	                                 : (size_t)sim->stages * sim->group[kind].groups;
}

lk_status lk_meet_set_up(lk_engine *engine, lk_error *err) {
	const lk_sim *sim = engine->sim;
	const lk_graph *graph = sim->graph;
	size_t ports = (size_t)sim->stages * graph->channels, count = 0;
	engine->port_place = LK_ARRAY(&engine->arena, size_t, ports);
	if (!engine->port_place) return lk_oom(err);
	for (unsigned kind = 0; kind < LK_GROUPS; kind++) {
		engine->group_place[kind] = count;
		count += cross_places(sim, kind);
	}
	for (size_t port = 0; port < ports; port++) {
		lk_wire to = graph->wires.at[port];
		if (to.stage >= sim->stages || to.channel >= graph->channels)
			continue; /* nothing is sent here */
		size_t peer = (size_t)to.stage * graph->channels + to.channel;
		engine->port_place[port] = peer < port ? engine->port_place[peer] : count;
		if (peer >= port) count += sim->lanes;
	}
	engine->team_place = LK_ARRAY(&engine->arena, size_t, graph->teams.count);
	engine->team_issued = LK_ARRAY(&engine->arena, uint64_t, graph->team_stages.count * sim->lanes);
	if (!engine->team_place || !engine->team_issued) return lk_oom(err);
	for (size_t t = 0; t < graph->teams.count; t++) {
		engine->team_place[t] = count;
		count += graph->teams.at[t].across ? 1 : sim->lanes;
	}
	engine->place = LK_ARRAY(&engine->arena, lk_meeting *, count);
	return engine->place ? LK_OK : lk_oom(err);
}

uint64_t lk_meet_number(lk_engine *engine, lk_rank *rank, uint32_t op) {
	const lk_insn *insn = &engine->sim->insn[op];
	if (insn->what == LK_INSN_TEAM) {
		const lk_graph *graph = engine->sim->graph;
		size_t member = lk_team_member(graph, &graph->teams.at[insn->channel], rank->stage);
		return engine->team_issued[member * engine->sim->lanes + rank->lane]++;
	}
	return rank
	    ->issued[insn->what == LK_INSN_P2P ? LK_GROUPS + (uint32_t)insn->channel : insn->group]++;
}

/* Members of the operation on this rank, and where they meet. */
static uint32_t find_place(const lk_engine *engine, const lk_rank *rank, const lk_insn *insn,
                           size_t *place) {
	const lk_sim *sim = engine->sim;
	if (insn->what == LK_INSN_P2P) {
		*place =
			engine
				->port_place[(size_t)rank->stage * sim->graph->channels + (uint32_t)insn->channel] +
			rank->lane;
		return 2;
	}
	if (insn->what == LK_INSN_TEAM) {
		const lk_team *team = &sim->graph->teams.at[insn->channel];
		*place = engine->team_place[insn->channel] + (team->across ? 0 : rank->lane);
		return (team->end - team->begin) * (team->across ? sim->lanes : 1);
	}
	const lk_lane_groups *groups = &sim->group[insn->group];
	uint32_t g = groups->of[rank->lane], lanes = groups->begin[g + 1] - groups->begin[g];
	*place = engine->group_place[insn->group] + g;
	if (insn->what == LK_INSN_GROUP) {
		*place += (size_t)rank->stage * groups->groups;
		return lanes;
	}
	if (insn->group != LK_GROUP_EMBEDDING) return lanes * sim->stages;
	return rank->stage == 0 || rank->stage == sim->stages - 1 ? 2 : 1;
}

static unsigned size_class(uint32_t members) {
	return members <= 1 ? 0 : 32 - (unsigned)__builtin_clz(members - 1);
}

static lk_meeting *new_meeting(lk_engine *engine, uint32_t members, uint64_t number) {
	unsigned class = size_class(members);
	lk_meeting *meeting = engine->spare_meeting[class];
	if (meeting) engine->spare_meeting[class] = meeting->next;
	else
		meeting = lk_arena_alloc(&engine->arena,
		                         sizeof *meeting + ((size_t)1 << class) * sizeof *meeting->member);
	if (!meeting) {
		engine->no_memory = true;
		return NULL;
	}
	meeting->next = NULL;
	meeting->number = number;
	meeting->start = meeting->end = 0;
	meeting->expected = members;
	meeting->arrived = meeting->finished = 0;
	return meeting;
}

static void end(lk_engine *engine, lk_meeting *meeting) {
	for (uint32_t i = 0; i < meeting->expected; i++) {
		lk_meeting_member *member = &meeting->member[i];
		if (member->act) lk_busy_due(engine, member->rank, member->act, LK_ACT_HELD, meeting->end);
		else lk_rank_resume(engine, member->rank, meeting->start, meeting->end);
	}
	unsigned class = size_class(meeting->expected);
	meeting->next = engine->spare_meeting[class];
	engine->spare_meeting[class] = meeting;
}

void lk_meet_share_done(lk_engine *engine, lk_meeting *meeting, int64_t time) {
	if (time > meeting->end) meeting->end = time;
	if (++meeting->finished == meeting->expected) end(engine, meeting);
}

/* All have arrived. A parked rank runs nothing else: its share takes as long as it takes alone. */
static void start(lk_engine *engine, lk_meeting *meeting) {
	for (uint32_t i = 0; i < meeting->expected; i++) {
		lk_meeting_member *member = &meeting->member[i];
		if (member->act) {
			lk_busy_due(engine, member->rank, member->act, LK_ACT_SCHEDULED, meeting->start);
			continue;
		}
		int64_t done = meeting->start + engine->rank[member->rank].parked_duration;
		if (done > meeting->end) meeting->end = done;
		meeting->finished++;
	}
	if (meeting->finished == meeting->expected) end(engine, meeting);
}

void lk_meet_post(lk_engine *engine, uint32_t number, lk_act *act, uint32_t op, uint64_t which,
                  int64_t arrival) {
	size_t place;
	uint32_t members = find_place(engine, &engine->rank[number], &engine->sim->insn[op], &place);
	lk_meeting alone = {.next = NULL}, **at = &engine->place[place], *meeting = *at;
	if (members == 1) at = &alone.next, meeting = NULL;
	while (meeting && meeting->number < which) at = &meeting->next, meeting = *at;
	if (!meeting || meeting->number != which) {
		meeting = new_meeting(engine, members, which);
		if (!meeting) return;
		meeting->next = *at;
		*at = meeting;
	}
	if (act) act->meeting = meeting;
	meeting->member[meeting->arrived++] = (lk_meeting_member){number, act};
	if (arrival > meeting->start) meeting->start = arrival;
	if (meeting->arrived < meeting->expected) return;
	*at = meeting->next;
	start(engine, meeting);
}
