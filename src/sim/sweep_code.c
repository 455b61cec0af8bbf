/* sweep_code.c: instructions with costs; successive compute operations are fused. One operation is,
 * in max-plus algebra,
 *     end = max(ready + d, host + max(lead + d, h + tail))
 * (h, lead, tail of cost.h; `host` before it), so two in a row are again of this form: stream-bound
 * times add up, and the host bound is the larger of the first one's plus the second's duration and
 * the second's own. */
#include "base/arena.h"
#include "sim/sweep.h"
#include "base/check.h"

void lk_sweep_load(const lk_sim *sim, uint32_t variant, uint32_t op, lk_sweep_insn *out) {
	LK_ASSERT(op < sim->graph->ops.count);
	const lk_insn *insn = &sim->insn[op];
	const lk_cost *cost = lk_costs_get(sim->costs, variant, op);
	bool instant = insn->flags & LK_INSN_INSTANT;
	int64_t work = instant ? 0 : cost->duration_ps, tail = instant ? 0 : cost->tail_ps;
	int64_t lead = sim->graph->traced ? 0 : cost->lead_ps,
			host = sim->graph->traced ? 0 : cost->host_ps;
	*out = (lk_sweep_insn){
		.work = work,
		.start_launch = lead,
		.launch = lead + work,
		.host = host,
		.op = op,
		.ops = 1,
		.sources = insn->join | (insn->flags & LK_INSN_ISSUED ? 1u << LK_REG_START : 0),
		.what = insn->what,
		.stream = insn->stream,
		.flags = insn->flags,
		.last = op,
	};
	if (insn->what == LK_INSN_LOCAL && (insn->flags & LK_INSN_MAIN))
		out->launch = lk_later(out->launch, host + tail);
	if (insn->what == LK_INSN_HOST) {
		out->start_launch = host;
		out->launch = host + work;
	}
}

/* Whether `next` only follows the compute operation before it. */
static bool insn_follows_chain(const lk_sim *sim, const lk_sweep_insn *chain, uint32_t next) {
	const lk_insn *before = &sim->insn[chain->last], *insn = &sim->insn[next];
	if (chain->what != LK_INSN_LOCAL || !(chain->flags & LK_INSN_MAIN)) return false;
	if (insn->what != LK_INSN_LOCAL || !(insn->flags & LK_INSN_MAIN)) return false;
	return before->slot == LK_NO_SLOT && !before->signal &&
	       insn->join == LK_JOIN(LK_STREAM_COMPUTE) && !(insn->flags & LK_INSN_EXTRA);
}

static void chain_append(lk_sweep_insn *chain, const lk_sweep_insn *next) {
	chain->start_work = chain->work;
	chain->start_launch = lk_later(chain->launch, chain->host + next->start_launch);
	chain->work += next->work;
	chain->launch = lk_later(chain->launch + next->work, chain->host + next->launch);
	chain->host += next->host;
	chain->ops++;
	chain->last = next->op;
}

/* Whether a compute operation's start matters to operations issued after it: up to the next one of
 * its block, or beyond. */
static bool insn_start_matters(const lk_sim *sim, uint32_t op, uint32_t end) {
	LK_ASSERT(op < sim->graph->ops.count);
	for (uint32_t i = op + 1; i < end; i++) {
		if (sim->insn[i].stream == LK_STREAM_COMPUTE) return false;
		if (sim->insn[i].flags & LK_INSN_ISSUED) return true;
	}
	return true;
}

lk_status lk_sweep_compile(const lk_sim *sim, uint32_t variant, lk_arena *arena, lk_sweep_code *out,
                           lk_error *err) {
	const lk_graph *graph = sim->graph;
	uint32_t count = 0;
	out->insn = LK_ARRAY(arena, lk_sweep_insn, graph->ops.count);
	out->begin = LK_ARRAY(arena, uint32_t, graph->blocks.count + 1);
	if (!out->insn || !out->begin) return lk_oom(err);
	for (size_t b = 0; b < graph->blocks.count; b++) {
		const lk_block *block = &graph->blocks.at[b];
		out->begin[b] = count;
		for (uint32_t op = block->begin; op < block->end; op++) {
			lk_sweep_insn one;
			lk_sweep_load(sim, variant, op, &one);
			if (op > block->begin && insn_follows_chain(sim, &out->insn[count - 1], op))
				chain_append(&out->insn[count - 1], &one);
			else out->insn[count++] = one;
		}
		for (uint32_t i = out->begin[b]; i < count; i++)
			out->insn[i].keep_start = (out->insn[i].flags & LK_INSN_MAIN) &&
			                          insn_start_matters(sim, out->insn[i].last, block->end);
	}
	out->begin[graph->blocks.count] = count;
	return LK_OK;
}
