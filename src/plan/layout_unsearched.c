/* layout_unsearched.c: lists what a search leaves out although predict supports it, each with the
 * option that adds it. All of it follows from the space: what the user names is not left out. */
#include "plan/plan.h"

#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "model/layout/job.h"
#include "model/layout/sizes.h"
#include "model/layout/schedule.h"

enum { MOST_LINES = 24 };

struct unsearched {
	lk_arena *arena;
	const char **lines;
	int count;
	bool failed;
};

static void unsearched_add(struct unsearched *out, const char *line) {
	LK_ASSERT(out->count < MOST_LINES);
	out->failed |= !line;
	out->lines[out->count++] = line;
}

static bool has_more_than_one(const lk_axis *axis) {
	for (int i = 0; i < axis->count; i++)
		if (axis->at[i] > 1) return true;
	return false;
}

static void list_schedules(const lk_space *space, struct unsearched *out) {
	const char *names = "";
	int count = 0;
	for (int kind = 0; kind < LK_SCHEDULES && names; kind++) {
		bool runs = false;
		for (int i = 0; i < space->stack_count; i++)
			runs |= lk_space_runs(space->stacks[i], (lk_schedule_kind)kind) ||
			        lk_space_adds(space, (lk_schedule_kind)kind);
		if (!runs)
			names = lk_arena_printf(out->arena, "%s%s%s", names, count++ ? ", " : "",
			                        lk_schedule_get((lk_schedule_kind)kind)->name);
	}
	if (count)
		unsearched_add(
			out, names ? lk_arena_printf(out->arena, "pipeline schedules %s (--schedule)", names)
					   : NULL);
}

static void list_software(const lk_space *space, struct unsearched *out) {
	char names[LK_STACKS * sizeof space->stacks[0]];
	lk_text list = lk_text_begin(names, sizeof names);
	for (int i = 0; i < space->stack_count; i++)
		lk_text_add(&list, "%s%s", i ? ", " : "", space->stacks[i]);
	unsearched_add(out, lk_arena_printf(out->arena, "other software than %s (--stack)", names));
}

static void list_tensor(const lk_space *space, struct unsearched *out) {
	int most = 1;
	for (int i = 0; i < space->tp.count; i++)
		if (space->tp.at[i] > most) most = space->tp.at[i];
	if (!space->tp.said && most < space->gpus)
		unsearched_add(out, "tensor parallelism across nodes (--tp)");
	for (int i = 0; i < space->stack_count && most > 1; i++)
		if (!space->tp.said && !lk_space_divides(space, space->stacks[i]))
			unsearched_add(out, lk_arena_printf(out->arena,
			                                    "layers that ranks of %s divide (--tp, --cp, --ep)",
			                                    space->stacks[i]));
}

static void list_pipelines(const lk_space *space, struct unsearched *out) {
	bool pipelines = false, uneven = true;
	for (int i = 0; i < space->stack_count; i++) {
		const char *stack = space->stacks[i];
		bool searched = space->pp.said || lk_space_pipelines(space, stack);
		if (!searched)
			unsearched_add(out, lk_arena_printf(out->arena, "pipelines of %s (--pp)", stack));
		pipelines |= searched;
		uneven &= lk_space_varies_split(space, i);
	}
	if (!pipelines || !has_more_than_one(&space->pp)) return;
	if (!space->schedule.said) list_schedules(space, out);
	unsearched_add(out, uneven ? "other splits of layers than even ones and those with less on the "
	                             "last stage (--pipeline-layout of predict)"
	                           : "stages of unequal size (--pipeline-layout of predict)");
}

static void list_experts(const lk_space *space, struct unsearched *out) {
	if (space->base.model.experts == 0 || !has_more_than_one(&space->ep)) return;
	bool node = false, alltoall = false, overlapped = true;
	for (int i = 0; i < space->stack_count; i++) {
		*(lk_space_sends_by_node(space, i) ? &node : &alltoall) = true;
		overlapped &= lk_space_overlaps_experts(space, i);
	}
	if (!space->dispatcher_said)
		unsearched_add(out,
		               lk_arena_printf(out->arena, "MoE dispatchers %sallgather%s (--dispatcher)",
		                               alltoall ? "" : "alltoall, ", node ? "" : ", node"));
	if (space->base.expert_overlap == LK_AUTO && !overlapped)
		unsearched_add(out, "MoE traffic during another micro-batch's computation "
		                    "(--expert-overlap)");
}

static void list_memory(const lk_space *space, struct unsearched *out) {
	const lk_job *base = &space->base;
	bool images = base->model.network == LK_NET_CONV;
	if (!space->recompute.said && !images)
		unsearched_add(out, "other sets of recomputed modules (--recompute core_attn+mlp)");
	if (space->gpus > 1 && !space->zero.count && strcmp(space->stacks[0], "ddp") == 0 &&
	    space->stack_count == 1)
		unsearched_add(out, "shards of optimizer states, gradients or weights (--zero)");
	if (space->gpus > 1 && !base->shard_group)
		unsearched_add(out, "hybrid sharding (--shard-group of predict)");
	if (!space->offload && !base->offload_optimizer)
		unsearched_add(out, "the optimizer on the host (--offload)");
	if (base->state_dtype == LK_FP32 && lk_optimizer_of(base)->moments > 0)
		unsearched_add(out, "optimizer moments of fewer bits (--state-dtype)");
	if (!base->dtype_said) unsearched_add(out, "number formats but the usual one (--dtype)");
}

static void list_switches(const lk_space *space, struct unsearched *out) {
	const lk_job *base = &space->base;
	const struct {
		const char *option;
		bool said;
	} switches[] = {
		{"--overlap-p2p", base->overlap_p2p || !has_more_than_one(&space->pp)},
		{"--cuda-graphs", base->cuda_graphs},
		{"--fused-loss", base->fused_cross_entropy || base->loss || base->model.vocab == 0},
		{"--compile", base->compile},
		{"--max-connections", base->max_connections || space->gpus == 1},
		{"--cp-kind", base->cp_kind || !has_more_than_one(&space->cp)},
		{"--bucket", space->bucket.said || space->gpus == 1},
	};
	const char *names = "";
	int count = 0;
	for (size_t i = 0; i < sizeof switches / sizeof *switches && names; i++)
		if (!switches[i].said)
			names = lk_arena_printf(out->arena, "%s%s%s", names, count++ ? ", " : "",
			                        switches[i].option);
	if (space->fixed_switches)
		unsearched_add(out, "sequence parallelism and overlap (leave out --fixed-switches)");
	if (count)
		unsearched_add(out, names ? lk_arena_printf(out->arena, "software's %s", names) : NULL);
}

lk_status lk_space_unsearched(const lk_plan_request *request, const lk_space *space,
                              lk_arena *arena, const char *const **lines, int *count,
                              lk_error *err) {
	struct unsearched out = {arena, LK_ARRAY(arena, const char *, MOST_LINES), 0, false};
	if (!out.lines) return lk_oom(err);
	if (!request->stack && !request->job.stack) list_software(space, &out);
	if (space->base.model.network != LK_NET_CONV) {
		list_tensor(space, &out);
		list_pipelines(space, &out);
	}
	list_experts(space, &out);
	list_memory(space, &out);
	list_switches(space, &out);
	*lines = out.lines;
	*count = out.count;
	return out.failed ? lk_oom(err) : LK_OK;
}
