/* sweep.c: precedence only. Every stage's program is evaluated once, its ranks together as lanes of
 * vectors:
 *
 *     ready = max(end before it on its stream, ends of joined streams, of dependencies,
 *                 of the event waited for, launch)
 *
 * and, off the compute stream, the start of the last compute operation. A stage runs until a
 * compute or host operation needs a time that another stage has yet to determine; then other stages
 * run. Operations of other streams that wait for such a time are deferred as nodes, so that a stage
 * only stops where real streams would. In lifted traces every waiting operation is deferred. */
#include "base/arena.h"
#include "sim/sweep.h"

enum { STEP_DONE, STEP_BLOCKED, STEP_NO_MEMORY, STEP_STOPPED };

/* Scratch vectors of stages whose lanes differ. */
enum { READY, LEAD, HOST, WORK, TAIL, SCRATCHES };

static uint32_t stage_argument(const lk_sweep_stage *stage, uint8_t which) {
	return stage->program->calls.at[stage->call].arg[which - 1];
}

/* Whether a slot or event of the instruction is still unknown. */
static bool insn_extra_pending(const lk_sweep *sweep, const lk_sweep_stage *stage,
                               const lk_insn *insn) {
	for (uint32_t d = insn->dep_begin; d < insn->dep_begin + insn->dep_count; d++)
		if (stage->pending[LK_REG_SLOTS + sweep->sim->deps[d]]) return true;
	return insn->wait && stage->event_pending[stage_argument(stage, insn->wait)];
}

/* The last of the LK_SOURCES places takes the maximum of all further ones. */
static void sources_add(lk_sweep *sweep, lk_sources *from, const int64_t *v) {
	if (from->count < LK_SOURCES) {
		from->at[from->count++] = v;
		return;
	}
	int64_t *rest = sweep->rest;
	if (from->at[LK_SOURCES - 1] != rest)
		memcpy(rest, from->at[LK_SOURCES - 1], sweep->n * sizeof *rest);
	lk_lanes_max(rest, v, sweep->n);
	from->at[LK_SOURCES - 1] = rest;
}

/* Gather the known sources of an instruction. */
static void sources_gather(lk_sweep *sweep, const lk_sweep_stage *stage, const lk_insn *insn,
                           uint32_t sources, lk_sources *from) {
	from->count = 0;
	from->host = stage->host;
	for (uint32_t mask = sources & ~stage->pending_mask; mask; mask &= mask - 1)
		sources_add(sweep, from, lk_sweep_register(sweep, stage, (unsigned)__builtin_ctz(mask)));
	if (insn->flags & LK_INSN_EXTRA) {
		for (uint32_t d = insn->dep_begin; d < insn->dep_begin + insn->dep_count; d++) {
			unsigned r = LK_REG_SLOTS + sweep->sim->deps[d];
			if (!stage->pending[r]) sources_add(sweep, from, lk_sweep_register(sweep, stage, r));
		}
		uint32_t event = insn->wait ? stage_argument(stage, insn->wait) : 0;
		if (insn->wait && !stage->event_pending[event] && stage->event[event])
			sources_add(sweep, from, stage->event[event]);
	}
	if (!from->count) sources_add(sweep, from, stage->host);
}

/* The end of operation `op` is in its stream's register: copy it for its later uses. */
static bool stage_keep_end(lk_sweep *sweep, lk_sweep_stage *stage, const lk_insn *insn) {
	const int64_t *end = lk_sweep_register(sweep, stage, insn->stream);
	if (insn->slot != LK_NO_SLOT) {
		lk_lanes_copy(lk_sweep_register(sweep, stage, LK_REG_SLOTS + insn->slot), end, sweep->n);
		stage->pending[LK_REG_SLOTS + insn->slot] = NULL;
	}
	if (insn->signal) {
		uint32_t event = stage_argument(stage, insn->signal);
		int64_t *v = lk_sweep_event(sweep, stage, event);
		if (!v) return false;
		lk_lanes_copy(v, end, sweep->n);
		stage->event_pending[event] = NULL;
	}
	return true;
}

/* Turn an operation of several stages, or one that waits for such an operation, into a node. The
 * caller fills `at`. */
static bool node_issue(lk_sweep *sweep, lk_sweep_node *node, uint32_t sources) {
	if (!lk_sweep_await(sweep, node, sources)) return false;
	lk_sweep_promise(sweep, node);
	return node->waits || lk_sweep_arrive(sweep, node);
}

static int stage_step_node(lk_sweep *sweep, lk_sweep_stage *stage, const lk_sweep_insn *insn,
                           const lk_sources *from) {
	lk_sweep_node *node = lk_sweep_node_new(sweep, stage, insn->op);
	if (!node) return STEP_NO_MEMORY;
	lk_lanes_chain(node->at, from, 0, insn->start_launch + stage->shift, sweep->n);
	node->work = insn->work;
	return node_issue(sweep, node, insn->sources) ? STEP_DONE : STEP_NO_MEMORY;
}

/* Whether the host thread waits, or nothing is issued afterwards, until the operation's start is
 * known. */
static bool insn_holds_up(unsigned what, unsigned flags) {
	return what == LK_INSN_HOST || (flags & LK_INSN_MAIN);
}

/* Execute one instruction of a stage whose lanes all take the same time. */
static int stage_step(lk_sweep *sweep, lk_sweep_stage *stage, const lk_sweep_insn *insn) {
	const lk_insn *first = &sweep->sim->insn[insn->op], *last = &sweep->sim->insn[insn->last];
	bool pending = insn->sources & stage->pending_mask;
	if (insn->flags & LK_INSN_EXTRA) pending = pending || insn_extra_pending(sweep, stage, first);
	if (pending && insn_holds_up(insn->what, insn->flags)) return STEP_BLOCKED;
	lk_sources from;
	sources_gather(sweep, stage, first, insn->sources, &from);
	int64_t *end = lk_sweep_register(sweep, stage, insn->stream),
			*start = lk_sweep_register(sweep, stage, LK_REG_START);
	int64_t shift = stage->shift;
	size_t n = sweep->n;
	if (pending || insn->what == LK_INSN_CROSS || insn->what >= LK_INSN_P2P) {
		int done = stage_step_node(sweep, stage, insn, &from);
		stage->shift += insn->host;
		return done;
	}
	if (insn->what == LK_INSN_GROUP) {
		lk_lanes_chain(end, &from, 0, insn->start_launch + shift, n);
		lk_lanes_group(end, &sweep->sim->group[first->group], sweep->sim->lanes);
		if (insn->keep_start) memcpy(start, end, n * sizeof *end);
		lk_lanes_shift(end, insn->work, n);
	} else {
		if (insn->keep_start)
			lk_lanes_chain(start, &from, insn->start_work, insn->start_launch + shift, n);
		lk_lanes_chain(end, &from, insn->work, insn->launch + shift, n);
	}
	stage->shift = insn->what == LK_INSN_HOST ? 0 : shift + insn->host;
	if ((last->slot != LK_NO_SLOT || last->signal) && !stage_keep_end(sweep, stage, last))
		return STEP_NO_MEMORY;
	return STEP_DONE;
}

/* The part of a folded run in which it only communicates: no rank's speed changes it. */
static int64_t macro_moving_ps(const lk_sim *sim, const lk_sim_stage *stage, uint32_t op) {
	if (sim->graph->ops.kind[op] != LK_OP_MACRO) return 0;
	const lk_cost *cost =
		lk_costs_get(sim->costs, stage->variant == LK_MIXED ? 0 : stage->variant, op);
	return (int64_t)((double)cost->linked_alone * (double)cost->duration_ps);
}

/* Load the costs of an operation on every lane, with noise, into the scratch vectors. */
static void lanes_load_costs(lk_sweep *sweep, const lk_sweep_stage *stage, uint32_t op) {
	const lk_sim *sim = sweep->sim;
	const lk_sim_stage *info = stage->info;
	const lk_insn *insn = &sim->insn[op];
	int64_t *const *v = sweep->scratch;
	for (size_t i = 0; i < sweep->n; i++) {
		uint32_t variant =
			info->variant != LK_MIXED ? info->variant : info->variants[i < sim->lanes ? i : 0];
		const lk_cost *cost = lk_costs_get(sim->costs, variant, op);
		v[LEAD][i] = sim->graph->traced ? 0 : cost->lead_ps;
		v[HOST][i] = sim->graph->traced ? 0 : cost->host_ps;
		v[WORK][i] = insn->flags & LK_INSN_INSTANT ? 0 : cost->duration_ps;
		v[TAIL][i] = insn->flags & LK_INSN_INSTANT ? 0 : cost->tail_ps;
	}
	if (!(insn->flags & LK_INSN_SCALED)) return;
	lk_lane_noise noise = {
		.factor = info->factor,
		.sigma = lk_sim_sigma(sim, info, op),
		.seed = sim->options->seed,
		.rank = (uint64_t)stage->index * sim->chains,
		.number = stage->ops,
	};
	int64_t moving = macro_moving_ps(sim, info, op);
	lk_lanes_shift(v[WORK], -moving, sweep->n);
	lk_lanes_scale(v[WORK], &noise, sweep->n);
	lk_lanes_shift(v[WORK], moving, sweep->n);
	if (insn->what == LK_INSN_LOCAL && (insn->flags & LK_INSN_MAIN))
		lk_lanes_scale(v[TAIL], &noise, sweep->n);
}

static void stage_record(const lk_sweep *sweep, const lk_sweep_stage *stage, uint32_t op) {
	for (uint32_t r = 0; r < stage->info->record_count; r++) {
		int64_t ready = sweep->scratch[READY][stage->info->record_lane[r]];
		*lk_sweep_recorded(sweep, stage, r, stage->ops) = (lk_sim_event){
			.record = stage->info->records[r],
			.call = (uint32_t)stage->call,
			.repetition = stage->repetition,
			.op = op,
			.ready_ps = ready,
			.start_ps = ready,
			.end_ps = ready,
		};
	}
}

/* Run a kernel or host operation whose sources are all known: ready is in scratch[READY], the host
 * clock has already advanced. */
static bool lanes_run(lk_sweep *sweep, lk_sweep_stage *stage, const lk_insn *insn) {
	size_t n = sweep->n;
	int64_t *end = lk_sweep_register(sweep, stage, insn->stream), *const *v = sweep->scratch;
	if (insn->flags & LK_INSN_MAIN)
		memcpy(lk_sweep_register(sweep, stage, LK_REG_START), v[READY], n * sizeof *end);
	memcpy(end, v[READY], n * sizeof *end);
	lk_lanes_add(end, v[WORK], n);
	if (insn->flags & LK_INSN_MAIN) {
		memcpy(v[READY], stage->registers, n * sizeof *end);
		lk_lanes_add(v[READY], v[TAIL], n);
		lk_lanes_max(end, v[READY], n);
	}
	for (uint32_t r = 0; r < stage->info->record_count; r++)
		lk_sweep_recorded(sweep, stage, r, stage->ops)->end_ps = end[stage->info->record_lane[r]];
	return stage_keep_end(sweep, stage, insn);
}

/* Execute one operation of a stage whose lanes differ or are recorded. */
static int stage_step_lanes(lk_sweep *sweep, lk_sweep_stage *stage, uint32_t op) {
	const lk_insn *insn = &sweep->sim->insn[op];
	uint32_t sources = insn->join | (insn->flags & LK_INSN_ISSUED ? 1u << LK_REG_START : 0);
	bool pending = (sources & stage->pending_mask) || insn_extra_pending(sweep, stage, insn);
	if (pending && insn_holds_up(insn->what, insn->flags)) return STEP_BLOCKED;
	int64_t *host = stage->registers, *const *v = sweep->scratch;
	size_t n = sweep->n;
	lk_sources from;
	lanes_load_costs(sweep, stage, op);
	sources_gather(sweep, stage, insn, sources, &from);
	if (insn->what == LK_INSN_HOST) lk_lanes_add(host, v[HOST], n);
	lk_lanes_chain(v[READY], &from, 0, 0, n);
	if (insn->what != LK_INSN_HOST) {
		lk_lanes_max_sum(v[READY], stage->host, v[LEAD], n);
		if (!sweep->sim->graph->traced) lk_lanes_add(host, v[HOST], n);
	}
	stage_record(sweep, stage, op);
	if (insn->what == LK_INSN_HOST || (insn->what == LK_INSN_LOCAL && !pending))
		return lanes_run(sweep, stage, insn) ? STEP_DONE : STEP_NO_MEMORY;
	lk_sweep_node *node = lk_sweep_node_new(sweep, stage, op);
	if (!node) return STEP_NO_MEMORY;
	memcpy(node->at, v[READY], n * sizeof *host);
	memcpy(node->duration, v[WORK], n * sizeof *host);
	node->varied = true;
	node->record = stage->ops;
	return node_issue(sweep, node, sources) ? STEP_DONE : STEP_NO_MEMORY;
}

static void stage_instructions(const lk_sweep *sweep, const lk_sweep_stage *stage, uint32_t *begin,
                               uint32_t *end) {
	uint32_t block = stage->program->calls.at[stage->call].block;
	*begin = stage->code ? stage->code->begin[block] : sweep->sim->graph->blocks.at[block].begin;
	*end = stage->code ? stage->code->begin[block + 1] : sweep->sim->graph->blocks.at[block].end;
}

static int stage_step_any(lk_sweep *sweep, lk_sweep_stage *stage, uint32_t at) {
	if (stage->code) return stage_step(sweep, stage, &stage->code->insn[at]);
	if (!stage->direct) return stage_step_lanes(sweep, stage, at);
	lk_sweep_insn insn;
	lk_sweep_load(sweep->sim, stage->info->variant, at, &insn);
	return stage_step(sweep, stage, &insn);
}

/* Run a stage as far as possible. */
static int stage_run(lk_sweep *sweep, lk_sweep_stage *stage) {
	for (; stage->call < stage->program->calls.count; stage->call++, stage->repetition = 0) {
		uint32_t begin, end, repeat = stage->program->calls.at[stage->call].repeat;
		stage_instructions(sweep, stage, &begin, &end);
		if (begin == end) continue;
		for (; stage->repetition < repeat; stage->repetition++, stage->pc = 0) {
			if (lk_stop_asked(sweep->stop)) return STEP_STOPPED;
			for (uint32_t i = begin + stage->pc; i < end; i++) {
				int done = stage->deferred < stage->deferred_limit ? stage_step_any(sweep, stage, i)
				                                                   : STEP_BLOCKED;
				if (done != STEP_DONE) {
					stage->pc = i - begin;
					return done;
				}
				stage->ops += stage->code ? stage->code->insn[i].ops : 1;
			}
		}
	}
	LK_ASSERT(stage->ops == stage->info->ops);
	stage->done = true;
	return STEP_DONE;
}

static bool stage_is_plain(const lk_sim *sim, const lk_sim_stage *info) {
	return info->variant != LK_MIXED && !info->factor && !info->record_count &&
	       !lk_sim_jittered(sim);
}

static lk_status stage_set_up(lk_sweep *sweep, uint32_t s, const lk_sweep_code *codes,
                              lk_error *err) {
	const lk_sim *sim = sweep->sim;
	lk_sweep_stage *stage = &sweep->stage[s];
	size_t registers = LK_REG_SLOTS + sim->slots;
	*stage = (lk_sweep_stage){
		.info = &sim->stage[s], .program = &sim->graph->programs.at[s], .index = s};
	stage->direct = stage_is_plain(sim, stage->info) && sim->graph->traced;
	if (stage_is_plain(sim, stage->info) && !stage->direct)
		stage->code = &codes[stage->info->variant];
	stage->registers = lk_lanes_vectors(&sweep->arena, registers, sweep->n);
	stage->pending = LK_ARRAY(&sweep->arena, lk_sweep_node *, registers);
	stage->event = LK_ARRAY(&sweep->arena, int64_t *, stage->program->events);
	stage->event_pending = LK_ARRAY(&sweep->arena, lk_sweep_node *, stage->program->events);
	if (!stage->registers || !stage->pending || !stage->event || !stage->event_pending)
		return lk_oom(err);
	stage->host = sim->graph->traced ? sweep->zero : stage->registers;
	stage->deferred_limit = sim->graph->traced ? LK_SWEEP_DEFERRED : UINT32_MAX;
	for (uint32_t c = 0; c < sim->graph->channels; c++) {
		lk_wire to = sim->graph->wires.at[(size_t)s * sim->graph->channels + c];
		if (to.stage < sim->stages && to.channel < sim->graph->channels)
			sweep->port[(size_t)s * sim->graph->channels + c].peer =
				&sweep->port[(size_t)to.stage * sim->graph->channels + to.channel];
	}
	return LK_OK;
}

static lk_status sweep_set_up(lk_sweep *sweep, lk_error *err) {
	const lk_sim *sim = sweep->sim;
	sweep->n = sim->lanes == 1 ? 1 : ((size_t)sim->lanes + LK_LANES - 1) / LK_LANES * LK_LANES;
	sweep->stage = LK_ARRAY(&sweep->arena, lk_sweep_stage, sim->stages);
	sweep->ready = LK_ARRAY(&sweep->arena, lk_sweep_stage *, sim->stages);
	sweep->port =
		LK_ARRAY(&sweep->arena, lk_sweep_port, (size_t)sim->stages * sim->graph->channels);
	sweep->rest = lk_lanes_vectors(&sweep->arena, 1, sweep->n);
	sweep->zero = lk_lanes_vectors(&sweep->arena, 1, sweep->n);
	sweep->team_round = LK_ARRAY(&sweep->arena, lk_sweep_round *, sim->graph->teams.count);
	sweep->team_issued = LK_ARRAY(&sweep->arena, uint64_t, sim->graph->team_stages.count);
	if (!sweep->zero || !sweep->team_round || !sweep->team_issued) return lk_oom(err);
	lk_sweep_code *codes = LK_ARRAY(&sweep->arena, lk_sweep_code, sim->costs->variants);
	if (!sweep->stage || !sweep->ready || !sweep->port || !sweep->rest || !codes)
		return lk_oom(err);
	for (int i = 0; i < SCRATCHES; i++)
		if (!(sweep->scratch[i] = lk_lanes_vectors(&sweep->arena, 1, sweep->n))) return lk_oom(err);
	for (uint32_t s = 0; s < sim->stages; s++) {
		if (!stage_is_plain(sim, &sim->stage[s])) sweep->varied = true;
		else if (!sim->graph->traced && !codes[sim->stage[s].variant].insn)
			LK_TRY(lk_sweep_compile(sim, sim->stage[s].variant, &sweep->arena,
			                        &codes[sim->stage[s].variant], err));
		LK_TRY(stage_set_up(sweep, s, codes, err));
	}
	for (uint32_t s = sim->stages; s > 0; s--) lk_sweep_wake(sweep, &sweep->stage[s - 1]);
	return LK_OK;
}

static lk_status sweep_run_ready(lk_sweep *sweep, lk_error *err) {
	while (sweep->ready_count) {
		lk_sweep_stage *stage = sweep->ready[--sweep->ready_count];
		int done = stage_run(sweep, stage);
		stage->queued = false;
		if (done == STEP_NO_MEMORY) return lk_oom(err);
		if (done == STEP_STOPPED) return lk_stop_fail(err);
	}
	return LK_OK;
}

/* All unfinished stages have reached their limit of deferred nodes: raise the limits. */
static lk_status sweep_go_further(lk_sweep *sweep, lk_error *err) {
	if (sweep->deferred > LK_SWEEP_DEFERRED_MOST)
		return lk_fail(err, LK_ERR_INPUT, "step graph",
		               "%llu operations wait at the same time: at most %d are simulated",
		               (unsigned long long)sweep->deferred, LK_SWEEP_DEFERRED_MOST);
	for (uint32_t s = sweep->sim->stages; s > 0; s--) {
		lk_sweep_stage *stage = &sweep->stage[s - 1];
		if (stage->done || stage->deferred < stage->deferred_limit) continue;
		stage->deferred_limit = 2 * stage->deferred;
		lk_sweep_wake(sweep, stage);
	}
	return LK_OK;
}

static lk_status sweep_run(lk_sweep *sweep, lk_error *err) {
	do {
		LK_TRY(sweep_run_ready(sweep, err));
		LK_TRY(sweep_go_further(sweep, err));
	} while (sweep->ready_count);
	for (uint32_t s = 0; s < sweep->sim->stages; s++)
		if (!sweep->stage[s].done || sweep->stage[s].pending_mask)
			return lk_sweep_stuck(sweep, err);
	return LK_OK;
}

static void stage_finish(const lk_sweep *sweep, const lk_sweep_stage *stage, int64_t *out) {
	for (uint32_t i = 0; i < sweep->sim->lanes; i++) {
		int64_t last = stage->registers[i] + stage->shift;
		for (unsigned r = LK_STREAM_COMPUTE; r < LK_STREAMS; r++) {
			int64_t end = lk_sweep_register(sweep, stage, r)[i];
			if (end > last) last = end;
		}
		out[i] = last;
	}
}

lk_status lk_run_sweep(const lk_sim *sim, lk_sim_result *out, lk_error *err) {
	lk_sweep sweep = {.sim = sim, .stop = lk_stop_watched()};
	lk_status status = sweep_set_up(&sweep, err);
	if (status == LK_OK) status = sweep_run(&sweep, err);
	for (uint32_t s = 0; status == LK_OK && s < sim->stages; s++) {
		stage_finish(&sweep, &sweep.stage[s], out->finish_ps + (size_t)s * sim->lanes);
		out->operations += sweep.stage[s].ops * sim->lanes;
	}
	lk_arena_free(&sweep.arena);
	return status;
}
