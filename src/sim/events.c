/* events.c: the engine with contention. Quiet ranks run ahead (run_quiet): a time is the maximum of
 * what an operation waits for, and an operation that blocks them, such as a tensor-parallel
 * all-reduce between kernels, parks them at its meeting. Busy ranks (events_busy.c) are advanced in
 * the order of time, ties by rank. */
#include "sim/events.h"

#include <math.h>
#include <string.h>

/* --- heap
 * ---------------------------------------------------------------------------------------------------------
 */

static bool before(lk_heap_entry a, lk_heap_entry b) {
	return a.key < b.key || (a.key == b.key && a.gang < b.gang);
}

static void heap_put(lk_engine *engine, uint32_t at, lk_heap_entry entry) {
	engine->heap[at] = entry;
	engine->heap_place[entry.gang] = at + 1;
}

static void heap_up(lk_engine *engine, uint32_t at, lk_heap_entry entry) {
	while (at > 0 && before(entry, engine->heap[(at - 1) / 4])) {
		heap_put(engine, at, engine->heap[(at - 1) / 4]);
		at = (at - 1) / 4;
	}
	heap_put(engine, at, entry);
}

static void heap_down(lk_engine *engine, uint32_t at, lk_heap_entry entry) {
	for (;;) {
		uint32_t first = at * 4 + 1, place = at;
		lk_heap_entry least = entry;
		for (uint32_t i = first; i < first + 4 && i < engine->heap_count; i++)
			if (before(engine->heap[i], least)) least = engine->heap[i], place = i;
		if (place == at) break;
		heap_put(engine, at, least);
		at = place;
	}
	heap_put(engine, at, entry);
}

void lk_heap_set(lk_engine *engine, uint32_t rank, int64_t key) {
	lk_heap_entry entry = {key, rank / LK_GANG};
	uint32_t place = engine->heap_place[entry.gang];
	engine->rank[rank].key = key;
	engine->key[rank] = key;
	if (key == LK_NEVER) return;
	if (!place) heap_up(engine, engine->heap_count++, entry);
	else if (key < engine->heap[place - 1].key) heap_up(engine, place - 1, entry);
}

/* The rank of a gang that acts next; false if none is busy. */
static bool gang_next(const lk_engine *engine, uint32_t gang, uint32_t *rank, int64_t *key) {
	const int64_t *keys = engine->key + (size_t)gang * LK_GANG;
	uint32_t least = 0;
	for (uint32_t i = 1; i < LK_GANG; i++)
		if (keys[i] < keys[least]) least = i;
	*rank = gang * LK_GANG + least;
	*key = keys[least];
	return *key != LK_NEVER;
}

/* The rank that acts next, by key, then number; false if none is busy. Mends the bounds of gangs on
 * the way. */
static bool heap_top(lk_engine *engine, uint32_t *rank, int64_t *key) {
	while (engine->heap_count) {
		uint32_t gang = engine->heap[0].gang;
		bool busy = gang_next(engine, gang, rank, key);
		if (*key == engine->heap[0].key) return true;
		if (busy) {
			heap_down(engine, 0, (lk_heap_entry){*key, gang});
			continue;
		}
		lk_heap_entry last = engine->heap[--engine->heap_count];
		engine->heap_place[gang] = 0;
		if (engine->heap_count) heap_down(engine, 0, last);
	}
	return false;
}

/* --- ranks
 * --------------------------------------------------------------------------------------------------------
 */

uint32_t lk_rank_argument(const lk_rank *rank, uint8_t which) {
	return rank->program->calls.at[rank->call].arg[which - 1];
}

/* Opens the call that the program counter stands at; calls without operations are passed over. */
static bool open_call(const lk_engine *engine, lk_rank *rank) {
	for (; rank->call < rank->program->calls.count; rank->call++) {
		const lk_call *call = &rank->program->calls.at[rank->call];
		const lk_block *block = &engine->sim->graph->blocks.at[call->block];
		if (!call->repeat || block->begin == block->end) continue;
		rank->op = block->begin;
		rank->end_op = block->end;
		rank->repetition = 0;
		return true;
	}
	return false;
}

void lk_rank_step(lk_engine *engine, lk_rank *rank) {
	rank->ops++;
	if (++rank->op < rank->end_op) return;
	const lk_call *call = &rank->program->calls.at[rank->call];
	if (++rank->repetition < call->repeat) {
		rank->op = engine->sim->graph->blocks.at[call->block].begin;
	} else {
		rank->call++;
		open_call(engine, rank);
	}
}

/* The operation behind the present one in the program, or UINT32_MAX. */
static uint32_t next_op(const lk_engine *engine, const lk_rank *rank) {
	if (rank->op + 1 < rank->end_op) return rank->op + 1;
	const lk_call *call = &rank->program->calls.at[rank->call];
	if (rank->repetition + 1 < call->repeat)
		return engine->sim->graph->blocks.at[call->block].begin;
	lk_rank after = {.call = rank->call + 1, .program = rank->program};
	return open_call(engine, &after) ? after.op : UINT32_MAX;
}

int64_t lk_rank_duration(const lk_engine *engine, const lk_rank *rank, uint32_t op,
                         int64_t duration) {
	const lk_sim *sim = engine->sim;
	const lk_insn *insn = &sim->insn[op];
	if (insn->flags & LK_INSN_INSTANT) return 0;
	if (!(insn->flags & LK_INSN_SCALED)) return duration;
	double factor = rank->info->factor ? rank->info->factor[rank->lane] : 1.0;
	if (lk_sim_jittered(sim)) {
		uint64_t number = (uint64_t)rank->stage * sim->chains + rank->lane;
		double sigma = lk_sim_sigma(sim, rank->info, op);
		if (sigma > 0)
			return lk_sim_scale(
				duration, lk_sim_jitter(sim->options->seed, number, rank->ops, sigma) * factor);
	}
	return rank->info->factor ? lk_sim_scale(duration, factor) : duration;
}

int64_t lk_rank_sources(const lk_engine *engine, const lk_rank *rank, const lk_insn *insn) {
	int64_t ready = insn->flags & LK_INSN_ISSUED ? rank->start : 0;
	for (uint32_t mask = insn->join; mask; mask &= mask - 1) {
		int64_t end = rank->end[__builtin_ctz(mask)];
		if (end > ready) ready = end;
	}
	if (!(insn->flags & LK_INSN_EXTRA)) return ready;
	for (uint32_t d = insn->dep_begin; d < insn->dep_begin + insn->dep_count; d++) {
		int64_t end = rank->slot[engine->sim->deps[d]];
		if (end > ready) ready = end;
	}
	if (!insn->wait) return ready;
	int64_t event = rank->event[lk_rank_argument(rank, insn->wait)];
	return event > ready ? event : ready;
}

void lk_rank_keep(lk_engine *engine, lk_rank *rank, uint32_t op, uint32_t sets, int64_t end) {
	const lk_insn *insn = &engine->sim->insn[op];
	rank->end[insn->stream] = end;
	if (insn->slot != LK_NO_SLOT) {
		rank->slot[insn->slot] = end;
		if (rank->kernel.slot == insn->slot) rank->kernel.slot = LK_NO_SLOT;
	}
	if (sets) {
		rank->event[sets - 1] = end;
		rank->event_pending[sets - 1] = NULL; /* an earlier promise counts no more */
		if (rank->kernel.sets == sets) rank->kernel.sets = 0;
	}
	if (end > rank->finish) rank->finish = end;
}

uint64_t lk_rank_record(lk_rank *rank, uint32_t op, int64_t ready, int64_t start, int64_t end) {
	if (!rank->events) return LK_NO_RECORD;
	rank->events[rank->ops] = (lk_sim_event){
		.record = rank->record,
		.call = rank->call,
		.repetition = rank->repetition,
		.op = op,
		.ready_ps = ready,
		.start_ps = start,
		.end_ps = end,
	};
	return rank->ops;
}

void lk_rank_wake(lk_engine *engine, uint32_t rank) {
	engine->quiet[engine->quiet_count++] = rank;
}

void lk_rank_resume(lk_engine *engine, uint32_t number, int64_t start, int64_t end) {
	lk_rank *rank = &engine->rank[number];
	const lk_insn *insn = &engine->sim->insn[rank->parked_op];
	uint32_t sets =
		insn->signal ? 1u + rank->program->calls.at[rank->parked_call].arg[insn->signal - 1] : 0;
	rank->parked = false;
	if (lk_meets_outside(engine, insn)) engine->outer[number / LK_GANG]--;
	if (insn->stream == LK_STREAM_COMPUTE) {
		rank->start = start;
		rank->kernel.op = UINT32_MAX;
	}
	lk_rank_keep(engine, rank, rank->parked_op, sets, end);
	if (rank->events) {
		rank->events[rank->parked_record].start_ps = start;
		rank->events[rank->parked_record].end_ps = end;
	}
	lk_rank_wake(engine, number);
}

/* Nothing else runs on the rank while it waits for this operation: it waits for all kernels, and
 * the next one for it.
 */
static bool blocks(const lk_engine *engine, const lk_rank *rank, const lk_insn *insn) {
	if (!(insn->join & LK_JOIN(LK_STREAM_COMPUTE))) return false;
	uint32_t next = next_op(engine, rank);
	if (next == UINT32_MAX) return false;
	const lk_insn *after = &engine->sim->insn[next];
	return after->stream == LK_STREAM_COMPUTE && (after->join >> insn->stream & 1);
}

bool lk_rank_stays_quiet(const lk_engine *engine, const lk_rank *rank) {
	if (rank->flow) return false;
	const lk_insn *insn = &engine->sim->insn[rank->op];
	if (insn->what == LK_INSN_LOCAL)
		return insn->stream == LK_STREAM_COMPUTE || (insn->flags & LK_INSN_INSTANT);
	return insn->what == LK_INSN_HOST || blocks(engine, rank, insn);
}

static uint32_t signalled(const lk_rank *rank, const lk_insn *insn) {
	return insn->signal ? 1u + lk_rank_argument(rank, insn->signal) : 0;
}

/* A kernel, or a wait of any stream. */
static void run_kernel(lk_engine *engine, lk_rank *rank, const lk_insn *insn) {
	uint32_t op = rank->op, sets = signalled(rank, insn);
	const lk_cost *cost = &rank->costs[op];
	int64_t ready = lk_rank_sources(engine, rank, insn), launch = rank->host + cost->lead_ps;
	if (launch > ready) ready = launch;
	rank->host += cost->host_ps;
	int64_t duration = lk_rank_duration(engine, rank, op, cost->duration_ps),
			end = ready + duration, floor = 0;
	bool compute = insn->flags & LK_INSN_MAIN;
	if (compute) {
		floor = rank->host + (cost->tail_ps == cost->duration_ps
		                          ? duration
		                          : lk_rank_duration(engine, rank, op, cost->tail_ps));
		if (floor > end) end = floor;
		rank->start = ready;
	}
	lk_rank_keep(engine, rank, op, sets, end);
	uint64_t record = lk_rank_record(rank, op, ready, ready, end);
	if (!compute) return;
	rank->kernel = (lk_kernel){.op = op,
	                           .call = rank->call,
	                           .last = ready,
	                           .due = end,
	                           .duration = duration,
	                           .floor = floor,
	                           .left = (double)duration,
	                           .record = record,
	                           .sets = sets,
	                           .slot = insn->slot};
}

void lk_rank_host(lk_engine *engine, lk_rank *rank) {
	uint32_t op = rank->op;
	const lk_insn *insn = &engine->sim->insn[op];
	int64_t ready = lk_rank_sources(engine, rank, insn);
	rank->host += rank->costs[op].host_ps;
	if (ready > rank->host) rank->host = ready;
	int64_t start = rank->host;
	rank->host += lk_rank_duration(engine, rank, op, rank->costs[op].duration_ps);
	lk_rank_keep(engine, rank, op, signalled(rank, insn), rank->host);
	lk_rank_record(rank, op, start, start, rank->host);
}

/* Parks the rank at a meeting, which may be over at once. */
static void park(lk_engine *engine, uint32_t number, const lk_insn *insn) {
	lk_rank *rank = &engine->rank[number];
	uint32_t op = rank->op;
	const lk_cost *cost = &rank->costs[op];
	int64_t arrival = lk_rank_sources(engine, rank, insn), launch = rank->host + cost->lead_ps;
	if (launch > arrival) arrival = launch;
	rank->host += cost->host_ps;
	rank->parked = true;
	if (lk_meets_outside(engine, insn)) engine->outer[number / LK_GANG]++;
	rank->parked_op = op;
	rank->parked_call = rank->call;
	rank->parked_duration = cost->duration_ps;
	rank->parked_record = lk_rank_record(rank, op, arrival, arrival, arrival);
	uint64_t meeting = lk_meet_number(engine, rank, op);
	lk_rank_step(engine, rank);
	lk_meet_post(engine, number, NULL, op, meeting, arrival);
}

/* Looks now and then: in every so many operations of a quiet rank, at every rank and every moment.
 */
static bool stopped(lk_engine *engine) {
	if (lk_stop_asked(engine->stop)) engine->stopped = engine->no_memory = true;
	return engine->stopped;
}

/* Runs a quiet rank until it parks, becomes busy or is done. */
static void run_quiet(lk_engine *engine, uint32_t number) {
	enum {
		LOOK = 4096
	};
	lk_rank *rank = &engine->rank[number];
	for (uint32_t steps = 1; !lk_rank_at_end(rank); steps++) {
		if (steps % LOOK == 0 && stopped(engine)) return;
		const lk_insn *insn = &engine->sim->insn[rank->op];
		if (!lk_rank_stays_quiet(engine, rank)) {
			lk_busy_begin(engine, number);
			return;
		}
		if (insn->what == LK_INSN_LOCAL) {
			run_kernel(engine, rank, insn);
		} else if (insn->what == LK_INSN_HOST) {
			lk_rank_host(engine, rank);
		} else {
			park(engine, number, insn);
			return;
		}
		lk_rank_step(engine, rank);
	}
	rank->done = true;
}

/* --- the engine
 * ---------------------------------------------------------------------------------------------------
 */

/* Ranks of a stage have the same program: counted for the first of them. */
static lk_status new_flow(lk_engine *engine, lk_rank *rank, lk_error *err) {
	const lk_graph *graph = engine->sim->graph;
	const lk_program *program = rank->program;
	rank->flow = LK_NEW(&engine->arena, lk_flow);
	if (!rank->flow) return lk_oom(err);
	if (rank->lane) {
		*rank->flow = *rank[-(ptrdiff_t)rank->lane].flow;
		return LK_OK;
	}
	for (size_t c = 0; c < program->calls.count; c++) {
		const lk_block *block = &graph->blocks.at[program->calls.at[c].block];
		for (uint32_t op = block->begin; op < block->end; op++)
			rank->flow->left[graph->ops.stream[op]] += program->calls.at[c].repeat;
	}
	for (unsigned s = 0; s < LK_STREAMS; s++) rank->flow->starved += rank->flow->left[s] > 0;
	return LK_OK;
}

static lk_status new_rank(lk_engine *engine, uint32_t number, lk_error *err) {
	const lk_sim *sim = engine->sim;
	lk_rank *rank = &engine->rank[number];
	rank->stage = number / sim->lanes;
	rank->lane = number % sim->lanes;
	rank->info = &sim->stage[rank->stage];
	rank->program = &sim->graph->programs.at[rank->stage];
	uint32_t variant =
		rank->info->variant == LK_MIXED ? rank->info->variants[rank->lane] : rank->info->variant;
	rank->costs = lk_costs_get(sim->costs, variant, 0);
	rank->kernel = (lk_kernel){.op = UINT32_MAX, .slot = LK_NO_SLOT};
	rank->key = LK_NEVER;
	rank->slot = LK_ARRAY(&engine->arena, int64_t, sim->slots);
	rank->slot_pending = LK_ARRAY(&engine->arena, lk_act *, sim->slots);
	rank->event = LK_ARRAY(&engine->arena, int64_t, rank->program->events);
	rank->event_pending = LK_ARRAY(&engine->arena, lk_act *, rank->program->events);
	rank->issued = LK_ARRAY(&engine->arena, uint64_t, LK_GROUPS + sim->graph->channels);
	if (!rank->slot || !rank->slot_pending || !rank->event || !rank->event_pending || !rank->issued)
		return lk_oom(err);
	for (uint32_t r = rank->info->record_count; r > 0; r--) {
		if (rank->info->record_lane[r - 1] != rank->lane) continue;
		rank->events = sim->events + rank->info->record_base[r - 1];
		rank->record = rank->info->records[r - 1];
	}
	open_call(engine, rank);
	return sim->graph->traced ? new_flow(engine, rank, err) : LK_OK;
}

static lk_status set_up(lk_engine *engine, lk_error *err) {
	engine->ranks = engine->sim->stages * engine->sim->lanes;
	engine->rank = LK_ARRAY(&engine->arena, lk_rank, engine->ranks);
	engine->quiet = LK_ARRAY(&engine->arena, uint32_t, engine->ranks);
	uint32_t gangs = (engine->ranks + LK_GANG - 1) / LK_GANG;
	engine->heap = LK_ARRAY(&engine->arena, lk_heap_entry, gangs);
	engine->heap_place = LK_ARRAY(&engine->arena, uint32_t, gangs);
	engine->key = LK_ARRAY(&engine->arena, int64_t, (size_t)gangs * LK_GANG);
	engine->changed = LK_ARRAY(&engine->arena, uint32_t, engine->ranks);
	engine->outer = LK_ARRAY(&engine->arena, uint32_t, gangs);
	if (!engine->outer) return lk_oom(err);
	for (unsigned g = 0; g < LK_GROUPS; g++) {
		const lk_lane_groups *groups = &engine->sim->group[g];
		bool inside = groups->size == 1 ||
		              (groups->size > 1 && groups->stride == 1 && LK_GANG % groups->size == 0 &&
		               engine->sim->lanes % groups->size == 0);
		if (inside) engine->inner |= 1u << g;
	}
	if (!engine->rank || !engine->quiet || !engine->heap || !engine->heap_place || !engine->key ||
	    !engine->changed)
		return lk_oom(err);
	for (uint32_t i = 0; i < gangs * LK_GANG; i++) engine->key[i] = LK_NEVER;
	for (uint32_t i = 0; i < engine->ranks; i++) LK_TRY(new_rank(engine, i, err));
	LK_TRY(lk_meet_set_up(engine, err));
	for (uint32_t i = engine->ranks; i > 0; i--) lk_rank_wake(engine, i - 1);
	return LK_OK;
}

/* The first operation that a rank waits for others at; false if there is none. */
static bool stuck_at(const lk_rank *rank, uint32_t *op, uint32_t *call) {
	if (rank->parked) {
		*op = rank->parked_op;
		*call = rank->parked_call;
		return true;
	}
	bool found = false;
	for (unsigned s = 0; s < LK_STREAMS; s++) {
		const lk_act *act = rank->on[s];
		if (!act || act->state != LK_ACT_POSTED) continue;
		if (found && (act->call > *call || (act->call == *call && act->op >= *op))) continue;
		*op = act->op;
		*call = act->call;
		found = true;
	}
	return found;
}

static lk_status stuck(const lk_engine *engine, lk_error *err) {
	char where[2][120] = {"", ""};
	uint32_t found = 0, op = 0, call = 0, last = UINT32_MAX;
	for (uint32_t i = 0; i < engine->ranks && found < 2; i++) {
		const lk_rank *rank = &engine->rank[i];
		if (rank->stage == last || !stuck_at(rank, &op, &call)) continue;
		last =
			rank->stage; /* one of each stage: the others wait at the same place, or for this one */
		lk_sim_where(engine->sim->graph, rank->stage, call, op, where[found++], sizeof where[0]);
	}
	return lk_sim_deadlock(engine->sim->graph, where[0], where[1], err);
}

/* Gives what changed in this moment its rates; false if nothing did. */
static bool settle(lk_engine *engine) {
	bool changed = engine->changed_count > 0;
	while (engine->changed_count) lk_busy_settle(engine, engine->changed[--engine->changed_count]);
	return changed;
}

static void run_all_quiet(lk_engine *engine) {
	while (engine->quiet_count && !stopped(engine))
		run_quiet(engine, engine->quiet[--engine->quiet_count]);
}

/* A gang whose acts meet none of other gangs is out of their reach until one does: it runs ahead of
 * their time, which keeps what it touches in cache. */
static void run_ahead(lk_engine *engine, uint32_t gang) {
	for (int64_t now = -1;;) {
		uint32_t next;
		int64_t key;
		run_all_quiet(engine);
		if (engine->no_memory || engine->outer[gang] || stopped(engine)) return;
		bool busy = gang_next(engine, gang, &next, &key);
		if (!busy || key > now) {
			if (settle(engine)) continue;
			if (!busy) return;
			now = key;
		}
		lk_busy_advance(engine, next, key);
	}
}

static lk_status run(lk_engine *engine, lk_error *err) {
	for (int64_t now = 0;;) {
		uint32_t next;
		int64_t key;
		run_all_quiet(engine);
		if (stopped(engine)) return lk_stop_fail(err);
		if (engine->crowded)
			return lk_fail(err, LK_ERR_INPUT, "step graph",
			               "%llu operations wait at the same time: at most %llu are simulated",
			               (unsigned long long)engine->acts, (unsigned long long)LK_MOST_ACTS);
		if (engine->no_memory) return lk_oom(err);
		bool busy = heap_top(engine, &next, &key);
		if (!busy || key > now) {
			if (settle(engine)) continue;
			if (!busy) break;
			now = key;
		}
		if (engine->outer[next / LK_GANG]) lk_busy_advance(engine, next, key);
		else run_ahead(engine, next / LK_GANG);
	}
	for (uint32_t i = 0; i < engine->ranks; i++)
		if (!engine->rank[i].done) return stuck(engine, err);
	return LK_OK;
}

/* Ranks of one class that are recorded both have the same events. */
static void share_events(const lk_engine *engine) {
	for (uint32_t i = 0; i < engine->ranks; i++) {
		const lk_rank *rank = &engine->rank[i];
		for (uint32_t r = 0; r < rank->info->record_count; r++) {
			lk_sim_event *to = engine->sim->events + rank->info->record_base[r];
			if (rank->info->record_lane[r] != rank->lane || to == rank->events) continue;
			memcpy(to, rank->events, rank->ops * sizeof *to);
			for (uint64_t k = 0; k < rank->ops; k++) to[k].record = rank->info->records[r];
		}
	}
}

lk_status lk_run_events(const lk_sim *sim, lk_sim_result *out, lk_error *err) {
	lk_engine engine = {.sim = sim, .stop = lk_stop_watched()};
	lk_status status = set_up(&engine, err);
	if (status == LK_OK) status = run(&engine, err);
	for (uint32_t i = 0; status == LK_OK && i < engine.ranks; i++) {
		const lk_rank *rank = &engine.rank[i];
		out->finish_ps[i] = rank->finish > rank->host ? rank->finish : rank->host;
		out->operations += rank->ops;
	}
	if (status == LK_OK) share_events(&engine);
	lk_arena_free(&engine.arena);
	return status;
}
