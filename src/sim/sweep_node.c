/* sweep_node.c: operations of several stages, and those that wait for them. A node whose arrival is
 * known is posted: a send or receive at its port, a collective across stages in its round. When the
 * last partner has arrived, start and end of all are known, the registers they promised are set,
 * and waiting nodes and stages continue. */
#include "base/arena.h"
#include "sim/sweep.h"

#include <string.h>

static lk_sweep_port *node_port(const lk_sweep *sweep, const lk_sweep_node *node) {
	size_t channel = (size_t)sweep->sim->insn[node->op].channel;
	return &sweep->port[node->stage->index * (size_t)sweep->sim->graph->channels + channel];
}

static uint64_t node_take_number(lk_sweep *sweep, const lk_sweep_node *node) {
	const lk_graph *graph = sweep->sim->graph;
	const lk_insn *insn = &sweep->sim->insn[node->op];
	switch (insn->what) {
	case LK_INSN_P2P: return node_port(sweep, node)->issued++;
	case LK_INSN_CROSS: return node->stage->crossed[insn->group]++;
	case LK_INSN_TEAM:
		return sweep->team_issued[lk_team_member(graph, &graph->teams.at[insn->channel],
		                                         node->stage->index)]++;
	default: return 0;
	}
}

lk_sweep_node *lk_sweep_node_new(lk_sweep *sweep, lk_sweep_stage *stage, uint32_t op) {
	lk_sweep_node *node = sweep->spare;
	if (node) {
		sweep->spare = node->next;
		*node = (lk_sweep_node){.at = node->at, .duration = node->duration};
	} else {
		node = LK_NEW(&sweep->arena, lk_sweep_node);
		if (!node || !(node->at = lk_lanes_vectors(&sweep->arena, sweep->varied ? 2 : 1, sweep->n)))
			return NULL;
		node->duration = sweep->varied ? node->at + sweep->n : NULL;
	}
	const lk_insn *insn = &sweep->sim->insn[op];
	node->stage = stage;
	node->op = op;
	node->call = (uint32_t)stage->call;
	if (insn->signal) node->sets = 1u + stage->program->calls.at[stage->call].arg[insn->signal - 1];
	node->number = node_take_number(sweep, node);
	stage->deferred++;
	sweep->deferred++;
	return node;
}

void lk_sweep_promise(lk_sweep *sweep, lk_sweep_node *node) {
	lk_sweep_stage *stage = node->stage;
	const lk_insn *insn = &sweep->sim->insn[node->op];
	stage->pending[insn->stream] = node;
	stage->pending_mask |= 1u << insn->stream;
	if (insn->flags & LK_INSN_MAIN) {
		stage->pending[LK_REG_START] = node;
		stage->pending_mask |= 1u << LK_REG_START;
	}
	if (insn->slot != LK_NO_SLOT) stage->pending[LK_REG_SLOTS + insn->slot] = node;
	if (node->sets) stage->event_pending[node->sets - 1] = node;
}

static bool node_await(lk_sweep *sweep, lk_sweep_node *node, lk_sweep_node *before, bool start) {
	if (!before) return true;
	lk_sweep_edge *edge = sweep->spare_edge;
	if (edge) sweep->spare_edge = edge->next;
	else if (!(edge = LK_NEW(&sweep->arena, lk_sweep_edge))) return false;
	*edge = (lk_sweep_edge){before->out, node, start};
	before->out = edge;
	node->waits++;
	return true;
}

bool lk_sweep_await(lk_sweep *sweep, lk_sweep_node *node, uint32_t sources) {
	lk_sweep_stage *stage = node->stage;
	const lk_insn *insn = &sweep->sim->insn[node->op];
	for (uint32_t mask = sources & stage->pending_mask; mask; mask &= mask - 1) {
		int r = __builtin_ctz(mask);
		if (!node_await(sweep, node, stage->pending[r], r == LK_REG_START)) return false;
	}
	for (uint32_t d = insn->dep_begin; d < insn->dep_begin + insn->dep_count; d++)
		if (!node_await(sweep, node, stage->pending[LK_REG_SLOTS + sweep->sim->deps[d]], false))
			return false;
	if (!insn->wait) return true;
	return node_await(
		sweep, node, stage->event_pending[stage->program->calls.at[node->call].arg[insn->wait - 1]],
		false);
}

/* Pass the time in `at`, the start or the end, to the nodes that wait for it. */
static void node_pass_on(lk_sweep *sweep, lk_sweep_node *node, bool start) {
	for (lk_sweep_edge **at = &node->out, *edge; (edge = *at);) {
		if (edge->start != start) {
			at = &edge->next;
			continue;
		}
		*at = edge->next;
		lk_lanes_max(edge->to->at, node->at, sweep->n);
		LK_ASSERT(edge->to->waits > 0);
		if (--edge->to->waits == 0) {
			edge->to->next = sweep->work;
			sweep->work = edge->to;
		}
		edge->next = sweep->spare_edge;
		sweep->spare_edge = edge;
	}
}

/* Set a register to the time in `at` if this node promised it. */
static bool node_set_register(lk_sweep *sweep, lk_sweep_node *node, unsigned r) {
	lk_sweep_stage *stage = node->stage;
	if (stage->pending[r] != node) return false;
	lk_lanes_copy(lk_sweep_register(sweep, stage, r), node->at, sweep->n);
	stage->pending[r] = NULL;
	return true;
}

/* The start of an operation is known in `at`: store it, turn it into the end, and pass that on. */
static bool node_settle(lk_sweep *sweep, lk_sweep_node *node) {
	lk_sweep_stage *stage = node->stage;
	const lk_insn *insn = &sweep->sim->insn[node->op];
	const uint32_t *lane = stage->info->record_lane;
	for (uint32_t r = 0; r < stage->info->record_count; r++)
		lk_sweep_recorded(sweep, stage, r, node->record)->start_ps = node->at[lane[r]];
	if (node_set_register(sweep, node, LK_REG_START)) stage->pending_mask &= ~(1u << LK_REG_START);
	node_pass_on(sweep, node, true);
	if (node->varied) lk_lanes_add(node->at, node->duration, sweep->n);
	else lk_lanes_shift(node->at, node->work, sweep->n);
	for (uint32_t r = 0; r < stage->info->record_count; r++)
		lk_sweep_recorded(sweep, stage, r, node->record)->end_ps = node->at[lane[r]];
	if (node_set_register(sweep, node, insn->stream)) stage->pending_mask &= ~(1u << insn->stream);
	if (insn->slot != LK_NO_SLOT) node_set_register(sweep, node, LK_REG_SLOTS + insn->slot);
	if (node->sets && stage->event_pending[node->sets - 1] == node) {
		int64_t *event = lk_sweep_event(sweep, stage, node->sets - 1);
		if (!event) return false;
		lk_lanes_copy(event, node->at, sweep->n);
		stage->event_pending[node->sets - 1] = NULL;
	}
	node_pass_on(sweep, node, false);
	node->next = sweep->spare;
	sweep->spare = node;
	LK_ASSERT(stage->deferred > 0 && sweep->deferred >= stage->deferred && !node->out);
	stage->deferred--;
	sweep->deferred--;
	if (sweep->sim->graph->traced && !stage->deferred) stage->deferred_limit = LK_SWEEP_DEFERRED;
	if (stage->deferred <= stage->deferred_limit / 2) lk_sweep_wake(sweep, stage);
	return true;
}

static void node_make_varied(lk_sweep_node *node, size_t n) {
	if (node->varied) return;
	for (size_t i = 0; i < n; i++) node->duration[i] = node->work;
	node->varied = true;
}

/* Both start when the later one arrives and take as long as the longer one. */
static void node_join(const lk_sweep *sweep, lk_sweep_node *all, lk_sweep_node *other) {
	lk_lanes_max(all->at, other->at, sweep->n);
	if (all->varied || other->varied) {
		node_make_varied(all, sweep->n);
		node_make_varied(other, sweep->n);
		lk_lanes_max(all->duration, other->duration, sweep->n);
	} else if (other->work > all->work) {
		all->work = other->work;
	}
}

static void node_copy_times(const lk_sweep *sweep, const lk_sweep_node *all, lk_sweep_node *other) {
	lk_lanes_copy(other->at, all->at, sweep->n);
	other->work = all->work;
	other->varied = all->varied;
	if (all->varied) memcpy(other->duration, all->duration, sweep->n * sizeof(int64_t));
}

static void port_enqueue(lk_sweep_node **queue, lk_sweep_node *node) {
	while (*queue && (*queue)->number <= node->number) queue = &(*queue)->next;
	node->next = *queue;
	*queue = node;
}

static bool node_post_message(lk_sweep *sweep, lk_sweep_node *node) {
	lk_sweep_port *port = node_port(sweep, node);
	lk_sweep_node **at = &port->peer->queue, *peer;
	while (*at && (*at)->number < node->number) at = &(*at)->next;
	peer = *at;
	if (!peer || peer->number != node->number) {
		port_enqueue(&port->queue, node);
		return true;
	}
	*at = peer->next;
	node_join(sweep, node, peer);
	node_copy_times(sweep, node, peer);
	return node_settle(sweep, node) && node_settle(sweep, peer);
}

static uint32_t node_members(const lk_sweep *sweep, const lk_sweep_node *node) {
	const lk_sim *sim = sweep->sim;
	const lk_insn *insn = &sim->insn[node->op];
	if (insn->what == LK_INSN_TEAM) {
		const lk_team *team = &sim->graph->teams.at[insn->channel];
		return team->end - team->begin;
	}
	if (insn->group != LK_GROUP_EMBEDDING) return sim->stages;
	return node->stage->index == 0 || node->stage->index == sim->stages - 1 ? 2 : 1;
}

/* The lanes of a stage that take part together; NULL: every lane only with its counterparts on
 * other stages. */
static const lk_lane_groups *insn_lane_groups(const lk_sim *sim, const lk_insn *insn) {
	if (insn->what == LK_INSN_CROSS) return &sim->group[insn->group];
	return sim->graph->teams.at[insn->channel].across ? &sim->every : NULL;
}

/* Add a node to the round of its number; `place` then points to the link of the round. */
static lk_sweep_round *round_join(lk_sweep *sweep, lk_sweep_round ***place, lk_sweep_node *node) {
	lk_sweep_round **at = *place, *round;
	while (*at && (*at)->number < node->number) at = &(*at)->next;
	*place = at;
	round = *at;
	if (!round || round->number != node->number) {
		round = sweep->spare_round;
		if (round) sweep->spare_round = round->next;
		else if (!(round = LK_NEW(&sweep->arena, lk_sweep_round))) return NULL;
		*round = (lk_sweep_round){.next = *at, .number = node->number};
		*at = round;
	}
	node->next = round->nodes;
	round->nodes = node;
	round->have++;
	return round;
}

/* All have arrived. */
static bool round_close(lk_sweep *sweep, lk_sweep_node *all) {
	const lk_lane_groups *groups = insn_lane_groups(sweep->sim, &sweep->sim->insn[all->op]);
	for (lk_sweep_node *one = all->next; one; one = one->next) node_join(sweep, all, one);
	if (groups) {
		lk_lanes_group(all->at, groups, sweep->sim->lanes);
		if (all->varied) lk_lanes_group(all->duration, groups, sweep->sim->lanes);
	}
	for (lk_sweep_node *one = all->next; one; one = one->next) node_copy_times(sweep, all, one);
	for (lk_sweep_node *one = all, *next; one; one = next) {
		next = one->next;
		if (!node_settle(sweep, one)) return false;
	}
	return true;
}

static bool node_post_round(lk_sweep *sweep, lk_sweep_node *node) {
	const lk_insn *insn = &sweep->sim->insn[node->op];
	uint32_t need = node_members(sweep, node);
	node->next = NULL;
	if (need == 1) return round_close(sweep, node);
	lk_sweep_round **place =
		insn->what == LK_INSN_TEAM ? &sweep->team_round[insn->channel] : &sweep->round[insn->group];
	lk_sweep_round *round = round_join(sweep, &place, node);
	if (!round) return false;
	if (round->have < need) return true;
	*place = round->next;
	round->next = sweep->spare_round;
	sweep->spare_round = round;
	return round_close(sweep, round->nodes);
}

static bool node_run(lk_sweep *sweep, lk_sweep_node *node) {
	const lk_insn *insn = &sweep->sim->insn[node->op];
	const lk_sweep_stage *stage = node->stage;
	for (uint32_t r = 0; r < stage->info->record_count; r++)
		lk_sweep_recorded(sweep, stage, r, node->record)->ready_ps =
			node->at[stage->info->record_lane[r]];
	if (insn->what == LK_INSN_P2P) return node_post_message(sweep, node);
	if (insn->what == LK_INSN_CROSS || insn->what == LK_INSN_TEAM)
		return node_post_round(sweep, node);
	if (insn->what == LK_INSN_GROUP) {
		lk_lanes_group(node->at, &sweep->sim->group[insn->group], sweep->sim->lanes);
		if (node->varied)
			lk_lanes_group(node->duration, &sweep->sim->group[insn->group], sweep->sim->lanes);
	}
	return node_settle(sweep, node);
}

bool lk_sweep_arrive(lk_sweep *sweep, lk_sweep_node *node) {
	node->next = sweep->work;
	sweep->work = node;
	while (sweep->work) {
		node = sweep->work;
		sweep->work = node->next;
		if (!node_run(sweep, node)) return false;
	}
	return true;
}

static const lk_sweep_node *node_earlier(const lk_sweep_node *a, const lk_sweep_node *b) {
	if (!a || a->call > b->call) return b;
	return a->call == b->call && a->op > b->op ? b : a;
}

static const lk_sweep_node *round_earliest(const lk_sweep_round *round, uint32_t stage,
                                           const lk_sweep_node *first) {
	for (; round; round = round->next)
		for (const lk_sweep_node *node = round->nodes; node; node = node->next)
			if (node->stage->index == stage) first = node_earlier(first, node);
	return first;
}

/* The earliest posted operation of a stage that lacks partners. */
static const lk_sweep_node *stage_first_waiting(const lk_sweep *sweep, uint32_t stage) {
	const lk_sweep_node *first = NULL;
	uint32_t channels = sweep->sim->graph->channels;
	for (uint32_t c = 0; c < channels; c++) {
		const lk_sweep_node *node = sweep->port[(size_t)stage * channels + c].queue;
		if (node) first = node_earlier(first, node);
	}
	for (unsigned kind = 0; kind < LK_GROUPS; kind++)
		first = round_earliest(sweep->round[kind], stage, first);
	for (size_t t = 0; t < sweep->sim->graph->teams.count; t++)
		first = round_earliest(sweep->team_round[t], stage, first);
	return first;
}

lk_status lk_sweep_stuck(const lk_sweep *sweep, lk_error *err) {
	char where[2][120] = {"", ""};
	int found = 0;
	for (uint32_t s = 0; s < sweep->sim->stages && found < 2; s++) {
		const lk_sweep_node *node = stage_first_waiting(sweep, s);
		if (node)
			lk_sim_describe_op(sweep->sim->graph, s, node->call, node->op, where[found++],
			                   sizeof where[0]);
	}
	return lk_sim_deadlock(sweep->sim->graph, where[0], where[1], err);
}
