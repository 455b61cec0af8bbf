/* engine_acts.c: acts, from their begin to their end, and the rendezvous of those that several
 * ranks share. An act that ends lets others begin, on its own rank through edges, on other ranks
 * through a rendezvous: so both are in one file.
 *
 * The k-th operation of a group, of a channel or of a team is one rendezvous: it starts when the
 * last member has arrived, every member does its own share at its own pace, and it ends for all
 * when the last share is done. Operations of a group on one stream of each rank follow one another
 * and use the venue's own rendezvous. On several streams, further ones may be open at once. */
#include "base/arena.h"
#include "sim/engine.h"

enum {
	ACT_CHUNK_MOST = 4096, /* acts allocated at once */
	DEEP = 24,             /* recursion depth of acts that end one another; deeper ones take a
	                        * turn */
};

/* ---- places ---- */

/* Groups across stages have one venue for all stages. */
static size_t group_copies(const lk_sim *sim, unsigned kind) {
	bool across = kind == LK_GROUP_PP || kind == LK_GROUP_EMBEDDING || kind == LK_GROUP_MODEL;
	return across && sim->stages > 1 ? 1 : sim->stages;
}

static uint32_t group_members(const lk_sim *sim, unsigned kind, uint32_t group) {
	const lk_lane_groups *groups = &sim->group[kind];
	uint32_t lanes = groups->begin[group + 1] - groups->begin[group];
	if (group_copies(sim, kind) != 1 || sim->stages == 1) return lanes;
	return kind == LK_GROUP_EMBEDDING ? 2 : lanes * sim->stages;
}

static void places_set_groups(lk_engine *engine) {
	const lk_sim *sim = engine->sim;
	for (unsigned kind = 0; kind < LK_GROUPS; kind++) {
		if (!(sim->kinds_used >> kind & 1)) continue;
		lk_venue *venue = engine->venue + engine->group_venue[kind];
		for (size_t copy = 0; copy < group_copies(sim, kind); copy++)
			for (uint32_t g = 0; g < sim->group[kind].groups; g++)
				(venue++)->members = group_members(sim, kind, g);
	}
}

static void places_set_others(lk_engine *engine, size_t begin, size_t end) {
	const lk_sim *sim = engine->sim;
	const lk_graph *graph = sim->graph;
	for (size_t i = begin; i < end; i++) engine->venue[i].members = 2; /* of channels */
	for (size_t t = 0; t < graph->teams.count; t++) {
		const lk_team *team = &graph->teams.at[t];
		for (uint32_t lane = 0; lane < (team->across ? 1 : sim->lanes); lane++)
			engine->venue[engine->team_venue[t] + lane].members =
				(team->end - team->begin) * (team->across ? sim->lanes : 1);
	}
}

lk_status lk_venues_set_up(lk_engine *engine, lk_error *err) {
	const lk_sim *sim = engine->sim;
	const lk_graph *graph = sim->graph;
	size_t ports = (size_t)sim->stages * graph->channels, count = 0;
	engine->port_venue = LK_ARRAY(&engine->arena, uint32_t, ports);
	engine->team_venue = LK_ARRAY(&engine->arena, size_t, graph->teams.count);
	engine->team_issued = LK_ARRAY(&engine->arena, uint32_t, graph->team_stages.count * sim->lanes);
	if (!engine->port_venue || !engine->team_venue || !engine->team_issued) return lk_oom(err);
	for (unsigned kind = 0; kind < LK_GROUPS; kind++) {
		engine->group_venue[kind] = count;
		if (sim->kinds_used >> kind & 1) count += group_copies(sim, kind) * sim->group[kind].groups;
	}
	size_t groups = count;
	for (size_t port = 0; port < ports; port++) {
		lk_wire to = graph->wires.at[port];
		if (to.stage >= sim->stages || to.channel >= graph->channels)
			continue; /* nothing is sent here */
		size_t peer = (size_t)to.stage * graph->channels + to.channel;
		engine->port_venue[port] = peer < port ? engine->port_venue[peer] : (uint32_t)count;
		if (peer >= port) count += sim->lanes;
	}
	size_t wired = count;
	for (size_t t = 0; t < graph->teams.count; t++) {
		engine->team_venue[t] = count;
		count += graph->teams.at[t].across ? 1 : sim->lanes;
	}
	engine->venue = LK_ARRAY(&engine->arena, lk_venue, count);
	engine->venues = count;
	if (!engine->venue) return lk_oom(err);
	places_set_groups(engine);
	places_set_others(engine, groups, wired);
	return LK_OK;
}

lk_venue *lk_venue_find(lk_engine *engine, lk_rank *rank, const lk_insn *insn, uint32_t *number) {
	const lk_sim *sim = engine->sim;
	if (insn->what == LK_INSN_P2P) {
		uint32_t channel = (uint32_t)insn->channel;
		LK_ASSERT(channel < sim->graph->channels);
		*number = rank->issued[LK_GROUPS + channel]++;
		return &engine->venue[engine->port_venue[(size_t)rank->stage * sim->graph->channels +
		                                         channel] +
		                      rank->lane];
	}
	if (insn->what == LK_INSN_TEAM) {
		const lk_team *team = &sim->graph->teams.at[insn->channel];
		size_t member = lk_team_member(sim->graph, team, rank->stage);
		*number = engine->team_issued[member * sim->lanes + rank->lane]++;
		lk_venue *venue =
			&engine->venue[engine->team_venue[insn->channel] + (team->across ? 0 : rank->lane)];
		return venue->members > 1 ? venue : NULL;
	}
	const lk_lane_groups *groups = &sim->group[insn->group];
	size_t at = engine->group_venue[insn->group] + groups->of[rank->lane];
	if (insn->what == LK_INSN_GROUP) at += (size_t)rank->stage * groups->groups;
	*number = rank->issued[insn->group]++;
	bool between = insn->what == LK_INSN_CROSS && insn->group == LK_GROUP_EMBEDDING &&
	               rank->stage > 0 && rank->stage + 1 < sim->stages;
	return engine->venue[at].members > 1 && !between ? &engine->venue[at] : NULL;
}

/* ---- rendezvous ---- */

static unsigned size_class(uint32_t members) {
	return members <= 1 ? 0 : 32 - (unsigned)__builtin_clz(members - 1);
}

static lk_rendezvous *rendezvous_new(lk_engine *engine, lk_venue *venue, uint32_t number) {
	unsigned class = size_class(venue->members);
	lk_rendezvous *rendezvous = engine->spare_rendezvous[class];
	if (rendezvous) {
		engine->spare_rendezvous[class] = rendezvous->next;
	} else {
		rendezvous = LK_NEW(&engine->arena, lk_rendezvous);
		if (!rendezvous) return NULL;
		rendezvous->member = LK_ARRAY(&engine->arena, lk_member, (size_t)1 << class);
		if (!rendezvous->member) return NULL;
	}
	rendezvous->next = venue->others;
	venue->others = rendezvous;
	rendezvous->venue = venue;
	rendezvous->number = number;
	return rendezvous;
}

/* The rendezvous of operation `number`, opened if nobody has arrived yet; NULL: out of memory. */
static lk_rendezvous *place_open(lk_engine *engine, lk_venue *venue, uint32_t number) {
	lk_rendezvous *first = &venue->first;
	if (first->arrived && first->number == number) return first;
	for (lk_rendezvous *other = venue->others; other; other = other->next)
		if (other->number == number) return other;
	if (first->arrived) return rendezvous_new(engine, venue, number);
	if (!first->member) {
		first->member = LK_ARRAY(&engine->arena, lk_member, venue->members);
		if (!first->member) return NULL;
		first->venue = venue;
	}
	first->number = number;
	return first;
}

/* All members have left. Their entries stay until others arrive. */
static void rendezvous_close(lk_engine *engine, lk_rendezvous *rendezvous) {
	lk_venue *venue = rendezvous->venue;
	rendezvous->arrived = rendezvous->finished = 0;
	rendezvous->start = rendezvous->end = 0;
	if (rendezvous == &venue->first) return;
	lk_rendezvous **at = &venue->others;
	while (*at != rendezvous) at = &(*at)->next;
	*at = rendezvous->next;
	unsigned class = size_class(venue->members);
	rendezvous->next = engine->spare_rendezvous[class];
	engine->spare_rendezvous[class] = rendezvous;
}

/* ---- acts ---- */

static void rendezvous_share_done(lk_engine *engine, lk_rendezvous *rendezvous, int64_t time);

/* Add memory of the arena to the free list; cache lines are not split. */
lk_act *lk_acts_more(lk_engine *engine) {
	uint32_t count = engine->act_chunk;
	unsigned char *room = lk_arena_alloc(&engine->arena, (size_t)(count + 1) * sizeof(lk_act));
	if (!room) {
		lk_engine_no_memory(engine);
		return NULL;
	}
	lk_act *act = (lk_act *)(void *)(room + (64 - (uintptr_t)room % 64) % 64);
	for (uint32_t i = 0; i < count; i++) act[i].next = i + 1 < count ? &act[i + 1] : NULL;
	if (count < ACT_CHUNK_MOST) engine->act_chunk *= 2;
	return act;
}

lk_act_edge *lk_act_edges_more(lk_engine *engine) {
	enum { CHUNK = 64 };
	lk_act_edge *edge = LK_ARRAY(&engine->arena, lk_act_edge, CHUNK);
	for (int i = 0; edge && i + 1 < CHUNK; i++) edge[i].next = &edge[i + 1];
	return edge;
}

/* Something else is due on the rank at this moment. */
static void rank_advance_again(lk_engine *engine, lk_rank *rank) {
	if (!rank->again) engine->again[engine->again_count++] = rank;
	rank->again = true;
}

/* The times of a moment rely on this: rates and rounding leave less than a picosecond of work. */
static inline void act_assert_done(const lk_engine *engine, const lk_act *act) {
	LK_ASSERT(act->due <= engine->now && engine->now >= act->arrival);
	LK_ASSERT(act->state == LK_ACT_HELD || engine->now >= act->last);
	LK_ASSERT(act->state == LK_ACT_HELD ||
	          act->left - (double)(engine->now - act->last) * act->rate <= 1);
	(void)engine;
	(void)act;
}

/* Start the act now. A started kernel enables the next operations; an act without duration ends at
 * once. */
void lk_act_begin(lk_engine *engine, lk_rank *rank, lk_act *act) {
	LK_ASSERT(act->duration >= 0 && act->waits == 0 && engine->now >= act->arrival);
	LK_ASSERT((rank->live >> act->stream & 1) && rank->on[act->stream] == act && !rank->alone);
	act->state = LK_ACT_RUNNING;
	act->last = engine->now;
	act->left = (double)act->duration;
	act->rate = 1;
	act->due = lk_later(engine->now + act->duration, act->floor);
	if (rank->events) rank->events[act->record].start_ps = engine->now;
	if (rank->unstarted == act) {
		rank->start = engine->now;
		rank->unstarted = NULL;
		lk_rank_may_issue(engine, rank);
	}
	if (act->due > engine->now) return;
	if (act->rendezvous || engine->depth >= DEEP) rank_advance_again(engine, rank);
	else lk_act_complete(engine, rank, act);
}

static void act_schedule(lk_engine *engine, lk_rank *rank, lk_act *act, int64_t start) {
	LK_ASSERT(act->state == LK_ACT_WAITING || act->state == LK_ACT_POSTED);
	LK_ASSERT(!(rank->live >> act->stream & 1));
	rank->on[act->stream] = act;
	rank->live |= 1u << act->stream;
	lk_rank_note_change(engine, rank);
	if (act->venue) rank->tape.open = false;
	if (rank->asleep) { /* begins when the rank has been woken */
		act->state = LK_ACT_SCHEDULED;
		act->due = start;
		rank_advance_again(engine, rank);
	} else if (start <= engine->now) {
		lk_act_begin(engine, rank, act);
	} else {
		act->state = LK_ACT_SCHEDULED;
		act->due = start;
	}
}

/* All dependencies of the act on its own rank have ended. */
void lk_act_arrive(lk_engine *engine, lk_rank *rank, lk_act *act) {
	if (rank->events) rank->events[act->record].ready_ps = act->arrival;
	if (!act->venue) {
		act_schedule(engine, rank, act, act->arrival);
		return;
	}
	act->state = LK_ACT_POSTED;
	rank->on[act->stream] = act;
	lk_venue_arrive(engine, act->venue, act->number, (lk_member){rank, act, 0}, act->arrival);
}

/* The act has ended; its stream may be empty. */
static void flow_complete(lk_engine *engine, lk_rank *rank, const lk_act *act) {
	lk_trace_flow *flow = rank->flow;
	engine->acts--;
	if (--flow->issued[act->stream] == 0 && flow->left[act->stream]) flow->starved++;
	if (flow->starved) lk_rank_may_issue(engine, rank);
}

/* End the act now. */
void lk_act_complete(lk_engine *engine, lk_rank *rank, lk_act *act) {
	int64_t now = engine->now;
	LK_ASSERT(act->state == LK_ACT_RUNNING || act->state == LK_ACT_HELD);
	LK_ASSERT((rank->live >> act->stream & 1) && rank->on[act->stream] == act &&
	          rank->unstarted != act);
	act_assert_done(engine, act);
	lk_register_keep(&rank->stream[act->stream], act, now);
	if (act->slot) lk_register_keep(act->slot, act, now);
	if (act->event) lk_register_keep(act->event, act, now);
	if (rank->events) rank->events[act->record].end_ps = now;
	rank->finish = lk_later(rank->finish, now);
	lk_rank_note_change(engine, rank);
	rank->live &= ~(1u << act->stream);
	rank->on[act->stream] = NULL;
	LK_ASSERT(lk_act_is_kernel(engine, act) || rank->others > 0);
	if (!lk_act_is_kernel(engine, act)) rank->others--;
	if (rank->flow) flow_complete(engine, rank, act);
	else if (rank->host_waits || (rank->messages && !rank->others)) lk_rank_may_issue(engine, rank);
	lk_act_edge *edge = act->out;
	lk_act_free(engine, act); /* not reused here: only rank_issue creates acts */
	engine->depth++;
	while (edge) {
		lk_act_edge *next = edge->next;
		lk_act *to = edge->to;
		edge->next = engine->spare_edge;
		engine->spare_edge = edge;
		edge = next;
		LK_ASSERT(to->waits > 0 && to->state == LK_ACT_WAITING);
		to->arrival = lk_later(to->arrival, now);
		if (--to->waits == 0) lk_act_arrive(engine, rank, to);
	}
	engine->depth--;
}

static void act_end_at(lk_engine *engine, lk_rank *rank, lk_act *act, int64_t end) {
	LK_ASSERT(act->state == LK_ACT_HELD && act->due == LK_NEVER && end >= engine->now);
	act->due = end;
	if (end <= engine->now) lk_act_complete(engine, rank, act);
	else lk_rank_note_change(engine, rank);
}

/* A member has finished its share. */
void lk_act_share_done(lk_engine *engine, lk_rank *rank, lk_act *act) {
	LK_ASSERT(act->state == LK_ACT_RUNNING && act->key % 2 == 0);
	act_assert_done(engine, act);
	act->state = LK_ACT_HELD;
	act->key++;
	act->due = LK_NEVER;
	lk_rank_note_change(engine, rank);
	rendezvous_share_done(engine, act->rendezvous, engine->now);
}

/* ---- rendezvous ---- */

void lk_rank_resume(lk_engine *engine, lk_rank *rank, uint32_t place, int64_t start, int64_t end) {
	const lk_parking *at = &rank->parking[place];
	const lk_insn *insn = &engine->insn[at->op];
	LK_ASSERT(rank->alone && (rank->parked >> place & 1) && end >= start);
	rank->parked &= ~(1u << place);
	rank->kernel.op = UINT32_MAX; /* the operation that blocks the rank has waited for it */
	if (insn->stream == LK_STREAM_COMPUTE) rank->start = start;
	lk_rank_keep_end(rank, insn,
	                 insn->signal ? &rank->event[at->call->arg[insn->signal - 1]] : NULL, end);
	if (rank->events) {
		rank->events[at->record].start_ps = start;
		rank->events[at->record].end_ps = end;
	}
	if (!rank->parked) lk_rank_may_issue(engine, rank);
}

/* End the operation for all. A finished member may arrive again at once, but not before it has been
 * read here. */
static void rendezvous_end(lk_engine *engine, lk_rendezvous *rendezvous) {
	int64_t start = rendezvous->start, end = rendezvous->end;
	const lk_member *member = rendezvous->member;
	bool gang = lk_gang_find(engine, rendezvous);
	rendezvous_close(engine, rendezvous);
	for (uint32_t i = 0, count = rendezvous->venue->members; i < count; i++) {
		if (member[i].act) act_end_at(engine, member[i].rank, member[i].act, end);
		else lk_rank_resume(engine, member[i].rank, member[i].place, start, end);
	}
	if (gang) lk_gang_run(engine);
}

static void rendezvous_share_done(lk_engine *engine, lk_rendezvous *rendezvous, int64_t time) {
	LK_ASSERT(rendezvous->arrived == rendezvous->venue->members &&
	          rendezvous->finished < rendezvous->arrived);
	LK_ASSERT(time >= rendezvous->start);
	rendezvous->end = lk_later(rendezvous->end, time);
	if (++rendezvous->finished == rendezvous->arrived) rendezvous_end(engine, rendezvous);
}

/* All have arrived. A parked rank runs nothing that slows it: its share takes the time at rate
 * 1. */
static void rendezvous_start(lk_engine *engine, lk_rendezvous *rendezvous) {
	int64_t start = rendezvous->start;
	const lk_member *member = rendezvous->member;
	for (uint32_t i = 0, count = rendezvous->arrived; i < count; i++) {
		if (member[i].act) {
			member[i].act->rendezvous = rendezvous;
			act_schedule(engine, member[i].rank, member[i].act, start);
		} else {
			const lk_parking *at = &member[i].rank->parking[member[i].place];
			rendezvous->end = lk_later(rendezvous->end, start + at->duration);
			rendezvous->finished++;
		}
	}
	if (rendezvous->finished == rendezvous->arrived) rendezvous_end(engine, rendezvous);
}

void lk_venue_arrive(lk_engine *engine, lk_venue *venue, uint32_t number, lk_member member,
                     int64_t arrival) {
	lk_rendezvous *rendezvous = place_open(engine, venue, number);
	if (!rendezvous) {
		lk_engine_no_memory(engine);
		return;
	}
	LK_ASSERT(rendezvous->arrived < venue->members && !rendezvous->finished && arrival >= 0);
	rendezvous->member[rendezvous->arrived++] = member;
	rendezvous->start = lk_later(rendezvous->start, arrival);
	if (rendezvous->arrived == venue->members) rendezvous_start(engine, rendezvous);
}
