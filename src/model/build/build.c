/* build.c: a job as a step graph: process groups, wires between stages, and the program of every
 * stage (build_stage.c). One rank class per pipeline stage. */
#include "model/build/build.h"

#include <math.h>
#include <string.h>

#include "model/layout/job.h"
#include "model/layout/schedule.h"
#include "base/check.h"

/* ---- groups and wires ---- */

static void set_group(lk_graph *graph, int group, int size, int stride) {
	LK_ASSERT(group < LK_GROUPS);
	graph->ranks.group[group].size = (uint32_t)(size > 0 ? size : 1);
	graph->ranks.group[group].stride = (uint32_t)(stride > 0 ? stride : 1);
}

/* Rank order tp-cp-ep-dp-pp (Megatron-LM's default); experts: etp-ep-edp inside a stage. */
static void set_ranks(lk_graph *graph, const lk_job *job) {
	LK_ASSERT(job->pp > 0 && job->gpus % job->pp == 0);
	int chains = job->gpus / job->pp, dp = lk_sizes_dp_ranks(job);
	int shard = job->shard_group > 0 && job->shard_group < dp ? job->shard_group : dp;
	int ep = lk_job_ep(job), etp = lk_job_etp(job);
	graph->ranks.world = (uint32_t)job->gpus;
	graph->ranks.chains = (uint32_t)chains;
	set_group(graph, LK_GROUP_TP, job->tp, 1);
	set_group(graph, LK_GROUP_CP, job->cp, job->tp);
	int heads = lk_job_head_ranks(job);
	if (heads > 1 && heads < job->cp) {
		set_group(graph, LK_GROUP_CP_HEADS, heads, job->tp);
		set_group(graph, LK_GROUP_CP_RING, job->cp / heads, job->tp * heads);
	}
	set_group(graph, LK_GROUP_ETP, etp, 1);
	set_group(graph, LK_GROUP_EP, ep, etp);
	set_group(graph, LK_GROUP_DP, dp, job->tp);
	set_group(graph, LK_GROUP_EDP, chains / (ep * etp), ep * etp);
	set_group(graph, LK_GROUP_SHARD, shard, job->tp);
	set_group(graph, LK_GROUP_REPLICA, dp / shard, job->tp * shard);
	set_group(graph, LK_GROUP_PP, job->pp, chains);
	set_group(graph, LK_GROUP_EMBEDDING, job->pp > 1 ? 2 : 1, chains);
	set_group(graph, LK_GROUP_MODEL, job->sharding >= LK_SHARD_ZERO1 ? chains : job->tp, 1);
}

/* Stage and chunk at a place of the chain; direction d of DualPipe is a chain of its own. */
static void build_at_place(const lk_job *job, int place, int direction, int *stage, int *chunk) {
	LK_ASSERT(place >= 0 && place < lk_job_places(job));
	const lk_schedule *schedule = lk_schedule_get(job->schedule);
	lk_schedule_shape shape = {job->pp, job->vp, job->microbatches, job->microbatch_group,
	                           lk_job_pairs(job)};
	bool dual = job->schedule == LK_SCHED_DUALPIPE;
	for (*stage = 0; *stage < job->pp; ++*stage)
		for (*chunk = dual ? direction : 0; *chunk < shape.chunks; ++*chunk) {
			if (schedule->place(&shape, *stage, *chunk) == place) return;
			if (dual) break;
		}
	*stage = *chunk = 0;
}

static void wire_chain(lk_graph *graph, const lk_job *job, int direction) {
	for (int k = 0; k + 1 < lk_job_places(job); k++) {
		int s, c, t, d;
		build_at_place(job, k, direction, &s, &c);
		build_at_place(job, k + 1, direction, &t, &d);
		if (s == t) continue; /* the turn of a V: no transfer */
		lk_graph_wire(graph, (uint32_t)s, lk_build_channel(c, LK_WIRE_FORWARD_OUT), (uint32_t)t,
		              lk_build_channel(d, LK_WIRE_FORWARD_IN));
		lk_graph_wire(graph, (uint32_t)s, lk_build_channel(c, LK_WIRE_BACKWARD_IN), (uint32_t)t,
		              lk_build_channel(d, LK_WIRE_BACKWARD_OUT));
	}
}

/* ---- the whole ---- */

/* Operations of a sequence as MFU counts them. Frozen weights have no gradient of their own: two
 * products per weight instead of three; layers before the first trained weight have no gradients at
 * all. Nor do a network's inputs, pixels or sound. */
static double trained_flops(const lk_job *job, int sequence) {
	const lk_model *model = &job->model;
	lk_model encoder;
	double tower = lk_model_tower_flops(model), projector = lk_model_projector_flops(model),
		   rest = lk_model_flops(model, sequence) - tower - projector, first,
		   entry = lk_model_entry_macs(model, sequence, &first);
	if (job->task == LK_TASK_LORA) rest = (rest - 6 * entry) * 2 / 3 + 2 * entry;
	else rest -= 2 * first;
	if (lk_job_trains_tower(job) && lk_model_tower(model, &encoder)) {
		lk_model_entry_macs(&encoder, lk_model_image_tokens(&encoder), &first);
		tower -= 2 * first * model->tower.images;
	}
	if (!lk_job_trains_projector(job)) projector /= 3;
	else if (!lk_job_trains_tower(job)) projector *= 2.0 / 3;
	return rest + projector + (lk_job_trains_tower(job) ? tower : tower / 3);
}

static void begin_passes(lk_builder *builder, const lk_job *job, lk_graph *graph, lk_error *err) {
	const lk_model *model = &job->model;
	double image = lk_model_image_tokens(model), sequence = image > 0 ? image : job->seq;
	memset(builder, 0, offsetof(lk_builder, shapes));
	builder->job = job;
	builder->microbatches = job->microbatches;
	builder->model = model;
	builder->graph = graph;
	builder->err = err;
	builder->batch = job->mbs;
	builder->tp = job->tp;
	builder->tokens = job->mbs * sequence / job->cp;
	builder->sp = job->sequence_parallel == LK_ON && job->tp > 1;
	builder->bytes = job->dtype == LK_FP32 || job->dtype == LK_TF32 ? 4 : 2;
	builder->train_base = job->task != LK_TASK_LORA;
	builder->eager = job->eager == LK_ON;
	builder->wide = lk_job_autocasts(job) ? 4 : builder->bytes;
	builder->replays = job->recompute == LK_RECOMPUTE_SELECTIVE && !lk_job_like_megatron(job);
	builder->rows = builder->sp ? builder->tokens / job->tp : builder->tokens;
}

void lk_build_begin(lk_builder *builder, const lk_job *job, lk_graph *graph, lk_error *err) {
	const lk_model *model = &job->model;
	double image = lk_model_image_tokens(model), sequence = image > 0 ? image : job->seq;
	begin_passes(builder, job, graph, err);
	builder->late_gradients = lk_build_late_gradients(job);
	graph->samples = job->gbs;
	graph->tokens = job->gbs * sequence;
	graph->peak_dtype = job->dtype;
	graph->ranks.stages = (uint32_t)job->pp;
	set_ranks(graph, job);
}

/* Flops of the whole step; skipped for bounds, which need only frames. */
static void set_model_flops(const lk_builder *builder) {
	const lk_job *job = builder->job;
	double whole = builder->graph->tokens / job->gbs;
	/* sequences that attend within themselves count as equal ones with as many pairs */
	bool packed = job->pack_share > 0;
	double sequence = packed ? fmax(1, whole * job->pack_share) : whole;
	double sequences = packed ? job->gbs * whole / floor(sequence) : job->gbs;
	builder->graph->model_flops =
		(job->forward_only ? lk_model_flops(&job->model, (int)sequence) / 3
	                       : trained_flops(job, (int)sequence)) *
		sequences;
	const lk_objective_kind *objective = lk_objective_of(job->objective);
	builder->graph->model_flops += (objective->reference + objective->unkept) *
	                               lk_model_flops(&job->model, (int)sequence) / 3 * sequences;
	double heads = job->model.network == LK_NET_DECODER ? sequence : 1;
	builder->graph->model_flops += 6.0 * job->labels * job->model.hidden * heads * sequences;
	if (job->labels > 0 && job->value_head) /* logits without a backward pass */
		builder->graph->model_flops -= lk_model_head_flops(&job->model, sequence) *
		                               (job->task == LK_TASK_LORA ? 1 : 2) / 3 * sequences;
	if (job->teacher)
		builder->graph->model_flops += lk_model_flops(job->teacher, (int)sequence) / 3 * sequences;
	if (job->logit_share > 0)
		builder->graph->model_flops -=
			(1 - job->logit_share) * lk_model_head_flops(builder->model, sequence) * sequences;
}

static lk_status build_step(lk_builder *builder, lk_error *err) {
	const lk_job *job = builder->job;
	lk_graph *graph = builder->graph;
	uint32_t channels = lk_build_channel(job->vp, 0);
	uint32_t wire_blocks[LK_BUILD_CHUNKS * LK_WIRES_PER_CHUNK] = {0};
	if (channels > sizeof wire_blocks / sizeof *wire_blocks)
		return lk_fail(err, LK_ERR_INPUT, "--vp", "%d model chunks per stage: at most %d", job->vp,
		               LK_BUILD_CHUNKS);
	LK_TRY(lk_graph_set_programs(graph, (uint32_t)job->pp, channels, err));
	set_ranks(graph, job);
	wire_chain(graph, job, 0);
	if (job->schedule == LK_SCHED_DUALPIPE) wire_chain(graph, job, 1);
	for (int stage = 0; stage < job->pp; stage++)
		LK_TRY(lk_build_stage(builder, stage, wire_blocks));
	return LK_OK;
}

static void set_software(lk_graph *graph, const lk_job *job) {
	graph->software = (lk_software){
		.stack = lk_intern_id(graph->names, job->profile),
		.release = lk_intern_id(graph->names, job->release),
		.cuda_graphs = job->cuda_graphs == LK_ON,
		.graph_experts = job->graph_experts == LK_ON,
		.recipes = job->graphs_by_recipe,
		.compiled = job->compile,
		.attention = (uint32_t)job->attn_library,
		.streaming = lk_job_lists_passes(job),
	};
	graph->failed |= graph->software.stack == UINT32_MAX || graph->software.release == UINT32_MAX;
}

lk_status lk_build_few(const lk_job *job, int few, lk_graph **out, lk_error *err) {
	lk_builder b, tower, reader, reference;
	lk_job images, teacher;
	*out = lk_graph_new();
	if (!*out) return lk_oom(err);
	LK_ASSERT(few <= job->microbatches &&
	          (job->microbatches - few) % (2 * lk_schedule_directions(job->schedule)) == 0);
	lk_build_begin(&b, job, *out, err);
	b.microbatches = few;
	if (lk_job_tower(job, &images)) {
		begin_passes(&tower, &images, *out, err);
		tower.frozen = !lk_job_trains_tower(job);
		tower.discards = !lk_job_trains_projector(job);
		b.tower = &tower;
	}
	if (lk_job_teacher(job, &teacher)) {
		begin_passes(&reader, &teacher, *out, err);
		b.teacher = &reader;
	}
	if (lk_objective_of(job->objective)->reference > 0) {
		begin_passes(&reference, job, *out, err);
		reference.train_base = true; /* no adapters run */
		b.reference = &reference;
	}
	set_model_flops(&b);
	set_software(*out, job);
	lk_status status = build_step(&b, err);
	if (status != LK_OK) {
		lk_graph_free(*out);
		*out = NULL;
	}
	return status;
}

lk_status lk_build_graph(const lk_job *job, lk_graph **out, lk_error *err) {
	return lk_build_few(job, job->microbatches, out, err);
}
