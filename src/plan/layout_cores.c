/* layout_cores.c: the degrees that a search combines, as cores, and the job of a core. */
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "launch/emit/emit.h"
#include "model/layout/job.h"
#include "model/layout/schedule.h"
#include "plan/layout_space.h"

/* ---- what stacks can do ---- */

bool lk_stack_is_fsdp(const char *stack) {
	return strstr(stack, "fsdp") != NULL || strcmp(stack, "torchtitan") == 0 ||
	       strcmp(stack, "llm-foundry") == 0;
}

/* Fine-tuning under PyTorch is HuggingFace's Trainer's, which knows replicas and shards. */
static bool trains_as_trainers(const lk_space *space, const char *stack) {
	return space->base.task != LK_TASK_PRETRAIN && !lk_stack_like_megatron(stack);
}

bool lk_space_divides(const lk_space *space, const char *stack) {
	return strcmp(stack, "ddp") != 0 && !trains_as_trainers(space, stack);
}

bool lk_space_pipelines(const lk_space *space, const char *stack) {
	return !lk_stack_is_fsdp(stack) && lk_space_divides(space, stack);
}

/* Whether the framework can name a schedule, of PyTorch's. DeepSpeed's engine has only 1F1B. */
bool lk_space_runs(const char *stack, lk_schedule_kind kind) {
	if (kind == LK_SCHED_1F1B) return true;
	if (kind == LK_SCHED_INTERLEAVED) return strstr(stack, "deepspeed") == NULL;
	return kind == LK_SCHED_ZB_V && lk_stack_is_fsdp(stack);
}

bool lk_space_wide_experts(const lk_space *space, int ep, int etp) {
	return space->base.model.experts > 0 && (int64_t)ep * etp > lk_space_domain(space->cluster);
}

bool lk_space_adds(const lk_space *space, lk_schedule_kind kind) {
	return space->any_software && space->base.model.experts > 0 &&
	       lk_stack_is_megatron_core(space->stacks[0]) && kind == LK_SCHED_DUALPIPE_V;
}

const lk_stack_features *lk_space_features(const lk_space *space, int stack) {
	const char *recipes = space->base.stack_recipe ? space->stacks[stack] : "";
	return lk_stack_features_of(recipes, space->base.release);
}

bool lk_space_overlaps_experts(const lk_space *space, int stack) {
	lk_arch arch = space->cluster->node[0].device->arch;
	return lk_stack_features_for(lk_space_features(space, stack), arch, space->base.dtype)
	    .expert_overlap;
}

bool lk_space_varies_split(const lk_space *space, int stack) {
	const lk_model *model = &space->base.model;
	return lk_stack_is_megatron_core(space->stacks[stack]) && model->mtp_layers <= 1 &&
	       (model->network == LK_NET_DECODER || model->network == LK_NET_ENCODER);
}

/* Whether DeepEP or HybridEP is used; they need NVLink inside a node. */
bool lk_space_sends_by_node(const lk_space *space, int stack) {
	if (!lk_stack_is_megatron_core(space->stacks[stack]) || space->base.model.experts == 0 ||
	    space->dispatcher_said)
		return false;
	for (int i = 0; i < space->cluster->groups; i++) {
		const lk_node *node = &space->cluster->node[i];
		if (node->intra == LK_INTRA_PCIE || !lk_device_can(node->device, LK_CAN_BY_NODE))
			return false;
	}
	return true;
}

/* Whether what was read can state a degree, or the user did. */
static bool space_states(bool lacks, const lk_axis *axis, int degree) {
	return degree <= 1 || !lacks || axis->said;
}

/* Whether the framework that was named or read runs these degrees, with any sharding. */
static bool framework_runs(const lk_space *space, const lk_core *core) {
	bool states = space_states(space->no_tp, &space->tp, core->tp) &&
	              space_states(space->no_pp, &space->pp, core->pp) &&
	              space_states(space->no_vp, &space->vp, core->vp) &&
	              space_states(space->no_cp, &space->cp, core->cp) &&
	              space_states(space->no_ep, &space->ep, core->ep);
	if (!states || !space->framework) return states;
	lk_job job = space->base;
	job.tp = core->tp;
	job.pp = core->pp;
	job.vp = core->vp;
	job.cp = core->cp;
	job.ep = core->ep;
	job.schedule = (lk_schedule_kind)core->schedule;
	lk_copy(job.stack, sizeof job.stack, space->stacks[core->stack]);
	for (int kind = LK_SHARD_NONE; kind <= LK_SHARD_ZERO3; kind++) {
		job.sharding = (lk_sharding)kind;
		if (!space->lacks[core->stack][kind] && !lk_emit_lacks(space->framework, &job)) return true;
	}
	return false;
}

/* ---- cores ---- */

/* Whether layers divide by the chunks, or for Megatron-LM do so with embedding and loss. */
static bool splits(int layers, int places, bool megatron) {
	return layers % places == 0 ||
	       (megatron && (layers + 2) % places == 0 && (layers + 2) / places > 1);
}

static lk_status space_push(const lk_space *space, lk_cores_list *out, const lk_core *core,
                            lk_error *err) {
	if (!framework_runs(space, core)) return LK_OK;
	if (!lk_push(out)) return lk_oom(err);
	*lk_last(out) = *core;
	return LK_OK;
}

/* Split the layers of a job whose chain of places is known; false: there is no such split. */
static bool split_job(const lk_space *space, int split, lk_job *job) {
	bool ends = split == LK_SPLIT_ENDS;
	if (split == LK_SPLIT_USUAL) return true;
	job->split_open = false;
	return lk_job_lighten_ends(job, ends, ends && space->loss_layers == 0 ? 1 : space->loss_layers);
}

static bool splits_evenly(const lk_space *space, int stack, int pp, int vp) {
	const char *name = space->stacks[stack];
	return vp == 1 || splits(lk_job_layers(&space->base), pp * vp, lk_stack_like_megatron(name));
}

/* Bits by lk_split of the distinct splits on this many places; `uneven`: even if none is even. */
static uint8_t splits_of(const lk_space *space, int stack, int pp, int vp, bool uneven) {
	bool usual = splits_evenly(space, stack, pp, vp);
	char seen[LK_SPLITS][sizeof space->base.pipeline_layout] = {""};
	uint8_t found = usual;
	if (pp == 1 || (!usual && !uneven) || !lk_space_varies_split(space, stack)) return found;
	/* a lighter first stage is for memory: with chunks it is a small part */
	for (int split = 0; split < (vp > 1 ? LK_SPLIT_ENDS : LK_SPLITS); split++) {
		lk_job job = space->base;
		job.pp = pp;
		job.vp = vp;
		job.schedule = vp > 1 ? LK_SCHED_INTERLEAVED : LK_SCHED_1F1B;
		if (split == LK_SPLIT_USUAL) lk_job_split_usually(&job);
		bool written = job.pipeline_layout[0] != '\0';
		if (!written && split == LK_SPLIT_USUAL)
			written = lk_job_lighten_ends(&job, job.account_embedding, job.account_loss);
		else if (!written) written = split_job(space, split, &job);
		for (int i = 0; i < split; i++)
			written = written && (strcmp(seen[i], job.pipeline_layout) != 0 || !(found & 1 << i));
		if (!written) continue;
		lk_copy(seen[split], sizeof seen[split], job.pipeline_layout);
		found |= (uint8_t)(1 << split);
	}
	return found;
}

/* Splits to search with one stack, by number of stages. */
struct stack_splits {
	uint8_t of[LK_AXIS][LK_MOST_CHUNKS + 1]; /* [pp][vp] bits by lk_split */
};

/* If no number of chunks divides the layers of a stage, search powers of two. */
static void find_splits(const lk_space *space, int stack, struct stack_splits *out) {
	int layers = lk_job_layers(&space->base);
	memset(out, 0, sizeof *out);
	for (int p = 0; p < space->pp.count; p++) {
		int pp = space->pp.at[p],
			most = layers / pp < LK_MOST_CHUNKS ? layers / pp : LK_MOST_CHUNKS;
		bool uneven = true;
		for (int vp = 2; vp <= LK_MOST_CHUNKS && pp * vp <= layers + 2; vp++)
			uneven &= !splits_evenly(space, stack, pp, vp);
		for (int vp = 1; vp <= LK_MOST_CHUNKS && (vp == 1 || pp * vp <= layers + 2); vp++)
			out->of[p][vp] =
				splits_of(space, stack, pp, vp, uneven && vp <= most && (vp & (vp - 1)) == 0);
	}
}

/* Add a core in all its splits. */
static lk_status push_splits(const lk_space *space, uint8_t splits, lk_core core,
                             lk_cores_list *out, lk_error *err) {
	core.first = (uint32_t)out->count;
	for (core.split = 0; core.split < LK_SPLITS; core.split++)
		if (splits & 1 << core.split) LK_TRY(space_push(space, out, &core, err));
	return LK_OK;
}

static bool space_has_schedule(const lk_space *space, const lk_core *core, lk_schedule_kind kind) {
	if (space->schedule.count) return lk_axis_has(&space->schedule, (int)kind);
	return lk_space_runs(space->stacks[core->stack], kind) ||
	       (lk_space_adds(space, kind) && lk_space_wide_experts(space, core->ep, core->etp));
}

/* `splits` [vp + 1] for this number of stages. */
static lk_status add_schedules(const lk_space *space, const uint8_t *splits, lk_core core,
                               lk_cores_list *out, lk_error *err) {
	bool one_chunk = !space->vp.said || lk_axis_has(&space->vp, 1);
	core.schedule = LK_SCHED_1F1B;
	core.vp = 1;
	if (one_chunk && (core.pp == 1 || space_has_schedule(space, &core, LK_SCHED_1F1B)))
		LK_TRY(push_splits(space, splits[1], core, out, err));
	if (core.pp == 1) return LK_OK;
	for (int kind = 0; kind < LK_SCHEDULES; kind++) {
		const lk_schedule *schedule = lk_schedule_get((lk_schedule_kind)kind);
		core.schedule = kind;
		core.vp = schedule->fixed_chunks > 0 ? schedule->fixed_chunks : 1;
		core.split = LK_SPLIT_USUAL;
		core.first = (uint32_t)out->count;
		if (kind == LK_SCHED_1F1B || kind == LK_SCHED_INTERLEAVED ||
		    !space_has_schedule(space, &core, (lk_schedule_kind)kind) ||
		    (space->vp.said && !lk_axis_has(&space->vp, core.vp)))
			continue;
		LK_TRY(space_push(space, out, &core, err));
	}
	core.schedule = LK_SCHED_INTERLEAVED;
	if (!space_has_schedule(space, &core, LK_SCHED_INTERLEAVED)) return LK_OK;
	for (core.vp = 2; core.vp <= LK_MOST_CHUNKS; core.vp++)
		if (!space->vp.said || lk_axis_has(&space->vp, core.vp))
			LK_TRY(push_splits(space, splits[core.vp], core, out, err));
	return LK_OK;
}

static lk_status add_batches(const lk_space *space, const uint8_t *splits, lk_core core,
                             lk_cores_list *out, lk_error *err) {
	int64_t dp = space->gpus / ((int64_t)core.tp * core.pp * core.cp);
	if (space->base.dp > 0 && dp != space->base.dp) return LK_OK;
	for (int i = 0; i < space->mbs.count; i++) {
		core.mbs = space->mbs.at[i];
		if (space->base.gbs % (core.mbs * dp) != 0) continue;
		LK_TRY(add_schedules(space, splits, core, out, err));
	}
	return LK_OK;
}

static lk_status add_experts(const lk_space *space, const uint8_t *splits, lk_core core,
                             lk_cores_list *out, lk_error *err) {
	int64_t ranks = space->gpus / core.pp;
	bool divides = lk_space_divides(space, space->stacks[core.stack]);
	for (int i = 0; i < space->ep.count; i++) {
		core.ep = space->ep.at[i];
		if (core.ep > 1 && !divides && !space->ep.said) continue;
		if (space->base.model.experts == 0) {
			core.etp = core.tp;
			LK_TRY(add_batches(space, splits, core, out, err));
			continue;
		}
		lk_axis etp = space->etp;
		if (!etp.count) {
			lk_axis_add(&etp, core.tp);
			lk_axis_add(&etp, 1);
		}
		for (int e = 0; e < etp.count; e++) {
			core.etp = etp.at[e];
			if (ranks % ((int64_t)core.ep * core.etp) == 0)
				LK_TRY(add_batches(space, splits, core, out, err));
		}
	}
	return LK_OK;
}

lk_status lk_space_cores(const lk_space *space, lk_cores_list *out, lk_error *err) {
	int layers = lk_job_layers(&space->base);
	struct stack_splits splits;
	for (int stack = 0; stack < space->stack_count; stack++) {
		bool pipelines = space->pp.said || lk_space_pipelines(space, space->stacks[stack]);
		bool divides = lk_space_divides(space, space->stacks[stack]);
		find_splits(space, stack, &splits);
		for (int t = 0; t < space->tp.count; t++)
			for (int c = 0; c < space->cp.count; c++)
				for (int p = 0; p < space->pp.count; p++) {
					lk_core core = {.stack = stack,
					                .tp = space->tp.at[t],
					                .cp = space->cp.at[c],
					                .pp = space->pp.at[p]};
					int64_t block = (int64_t)core.tp * core.cp * core.pp;
					if (space->gpus % block != 0 || core.pp > layers) continue;
					if (core.pp > 1 && !pipelines) continue;
					if (!divides &&
					    ((core.tp > 1 && !space->tp.said) || (core.cp > 1 && !space->cp.said)))
						continue;
					LK_TRY(add_experts(space, splits.of[p], core, out, err));
				}
	}
	return LK_OK;
}

bool lk_cores_alike(const lk_core *a, const lk_core *b) {
	return a->stack == b->stack && a->tp == b->tp && a->pp == b->pp && a->cp == b->cp &&
	       a->ep == b->ep && a->etp == b->etp && a->mbs == b->mbs;
}

/* ---- jobs ---- */

bool lk_core_sends_by_node(const lk_space *space, const lk_core *core) {
	return core->ep > 1 && lk_space_sends_by_node(space, core->stack);
}

void lk_core_apply(const lk_space *space, const lk_core *core, lk_job *job) {
	*job = space->base;
	job->gpus = space->gpus;
	job->tp = core->tp;
	job->pp = core->pp;
	job->vp = core->vp;
	job->cp = core->cp;
	job->ep = core->ep;
	job->mbs = core->mbs;
	job->etp = job->model.experts > 0 ? core->etp : 0;
	job->dp = 0;
	job->microbatches = 0;
	job->schedule = (lk_schedule_kind)core->schedule;
	job->schedule_said = true;
	if (lk_core_sends_by_node(space, core)) {
		job->dispatcher = LK_DISPATCH_NODE;
		job->dispatcher_said = true;
	}
	bool split = split_job(space, core->split, job);
	LK_ASSERT(split);
	(void)split;
	lk_copy(job->stack, sizeof job->stack, space->stacks[core->stack]);
	lk_job_fit_attention(job, space->cluster);
	if (!space->recompute.said && lk_stack_is_megatron_core(job->stack) &&
	    job->attn_kernel == LK_KERNEL_FLASH)
		job->recompute_modules = lk_modules_light(job);
}

static void core_shardings(const lk_space *space, const lk_core *core, lk_axis *out) {
	const char *stack = space->stacks[core->stack];
	bool deepspeed = strstr(stack, "deepspeed") != NULL;
	memset(out, 0, sizeof *out);
	if (space->zero.count) {
		for (int i = 0; i < space->zero.count; i++)
			if (!(deepspeed && core->pp > 1 && space->zero.at[i] > 1))
				lk_axis_add(out, space->zero.at[i]);
		return;
	}
	if (lk_stack_is_fsdp(stack)) {
		lk_axis_add(out, LK_SHARD_ZERO3);
		lk_axis_add(out, LK_SHARD_ZERO2);
	} else if (strcmp(stack, "ddp") == 0 || lk_space_features(space, core->stack)->adapters)
		lk_axis_add(out, LK_SHARD_NONE);
	else {
		lk_axis_add(out, LK_SHARD_ZERO1);
		lk_axis_add(out, LK_SHARD_NONE);
	}
	if ((deepspeed || strcmp(stack, "megatron") == 0) && core->pp == 1) {
		lk_axis_add(out, LK_SHARD_ZERO2);
		lk_axis_add(out, LK_SHARD_ZERO3);
	}
}

void lk_core_shardings(const lk_space *space, const lk_core *core, lk_axis *out) {
	lk_axis all;
	core_shardings(space, core, &all);
	/* deepspeed/runtime/engine.py: AutoTP asserts a stage of 2 at most */
	bool auto_tp =
		space->auto_tp && core->tp > 1 && strcmp(space->stacks[core->stack], "deepspeed") == 0;
	memset(out, 0, sizeof *out);
	for (int i = 0; i < all.count; i++) {
		bool third = auto_tp && all.at[i] == LK_SHARD_ZERO3;
		bool lacks = third || space->lacks[core->stack][all.at[i]];
		if (space->zero.count || !lacks) lk_axis_add(out, all.at[i]);
	}
}

lk_status lk_space_complete(const lk_space *space, lk_job *job, lk_error *err) {
	return space->network_checked ? lk_job_complete_checked(job, space->cluster, err)
	                              : lk_job_complete(job, space->cluster, err);
}

lk_status lk_space_job(const lk_space *space, const lk_core *core, lk_job *out, lk_error *err) {
	lk_axis shardings;
	lk_core_apply(space, core, out);
	lk_core_shardings(space, core, &shardings);
	if (!shardings.count)
		return lk_fail(err, LK_ERR_INPUT, "--zero",
		               "nothing that was requested runs with %d stages", core->pp);
	out->sharding = (lk_sharding)shardings.at[0];
	out->sharding_said = true;
	out->recompute = LK_RECOMPUTE_NONE;
	out->recompute_layers = 0;
	out->recompute_said = true;
	return lk_space_complete(space, out, err);
}
