/* build_dp.c: data-parallel traffic (gradients reduced, parameters gathered) and the end of a step:
 * gradient norm, optimizer, offloading, parameters gathered again. Sharding schemes: arXiv
 * 1910.02054; Megatron-LM distributed optimizer. */
#include <math.h>

#include "model/build/build.h"
#include "model/layout/job.h"
#include "base/check.h"

/* Whether pieces of weights in host memory are copied to the device before they are gathered. */
static bool from_host(const lk_builder *builder, unsigned kind) {
	return builder->job->offload_params && kind == LK_OP_ALLGATHER;
}

static uint32_t dp_inputs(const lk_builder *builder, unsigned kind, bool free_running) {
	uint32_t copies = from_host(builder, kind) ? LK_JOIN(LK_STREAM_COPY_BACK) : 0;
	return free_running ? copies : copies | LK_JOIN(LK_STREAM_COMPUTE);
}

/* Copy the pieces as stored: FSDP copies the fp32 master copy and casts it on the device. */
static void fetch_pieces(lk_builder *builder, double dense_bytes, double expert_bytes,
                         bool free_running) {
	double dense, experts;
	lk_sizes_shards(builder->job, &dense, &experts);
	bool frozen = builder->job->task == LK_TASK_LORA;
	double wider = frozen ? 1 : lk_sizes_shard_bytes(builder->job) / builder->bytes;
	lk_op op = {
		.kind = LK_OP_COPY,
		.stream = LK_STREAM_COPY_BACK,
		.join = free_running ? 0 : LK_JOIN(LK_STREAM_COMPUTE),
		.phase = builder->phase,
		.name = "weights_from_host",
		.bytes = wider * (dense_bytes / dense + expert_bytes / experts),
	};
	lk_graph_add(builder->graph, &op);
}

/* Copy reduced gradients to the host, where the micro-batches are accumulated. */
static void send_pieces(lk_builder *builder, double dense_bytes, double expert_bytes) {
	const lk_job *job = builder->job;
	double dense, experts;
	double wider = lk_sizes_shard_gradient_bytes(job) / lk_sizes_wire_bytes(job);
	lk_sizes_shards(job, &dense, &experts);
	lk_op op = {
		.kind = LK_OP_COPY,
		.stream = LK_STREAM_COPY,
		.join = LK_JOIN(LK_STREAM_DP),
		.phase = builder->phase,
		.name = "gradients_to_host",
		.bytes = wider * (dense_bytes / dense + expert_bytes / experts),
	};
	lk_graph_add(builder->graph, &op);
}

static void dp_one(lk_builder *builder, unsigned kind, unsigned group, const char *name,
                   double bytes, bool free_running, bool signal) {
	if (bytes <= 0) return;
	lk_op op = {
		.kind = (uint8_t)kind,
		.stream = LK_STREAM_DP,
		.group = (uint8_t)group,
		.phase = builder->phase,
		.name = name,
		.bytes = bytes,
		.join = dp_inputs(builder, kind, free_running),
		.signal = signal,
	};
	lk_graph_add(builder->graph, &op);
}

/* Whether other ranks hold pieces of what this rank trains. */
static bool is_shared(const lk_job *job) {
	bool experts = job->model.experts > 0 && lk_sizes_edp_ranks(job) > 1;
	return lk_sizes_dp_ranks(job) > 1 || experts;
}

bool lk_build_shards_layers(const lk_job *job) {
	return job->sharding >= LK_SHARD_ZERO2 && is_shared(job);
}

bool lk_build_shards_states(const lk_job *job) {
	return job->sharding == LK_SHARD_ZERO1 && is_shared(job);
}

void lk_build_traffic(lk_builder *builder, const char *name, unsigned kind, double dense_bytes,
                      double expert_bytes, bool free_running, bool signal) {
	LK_ASSERT(dense_bytes >= 0 && expert_bytes >= 0);
	bool hybrid = builder->job->sharding != LK_SHARD_NONE && builder->job->shard_group > 0 &&
	              builder->job->shard_group < lk_sizes_dp_ranks(builder->job);
	unsigned group = hybrid ? LK_GROUP_SHARD : LK_GROUP_DP;
	if (from_host(builder, kind)) fetch_pieces(builder, dense_bytes, expert_bytes, free_running);
	dp_one(builder, kind, LK_GROUP_EDP, name, expert_bytes, free_running,
	       signal && dense_bytes <= 0);
	dp_one(builder, kind, group, name, dense_bytes, free_running, signal);
	if (hybrid && kind == LK_OP_REDUCESCATTER)
		dp_one(builder, LK_OP_ALLREDUCE, LK_GROUP_REPLICA, "reduce_replicas",
		       dense_bytes / builder->job->shard_group, false, false);
	if (kind == LK_OP_REDUCESCATTER && lk_job_gradients_on_host(builder->job))
		send_pieces(builder, dense_bytes, expert_bytes);
}

lk_status lk_build_traffic_block(lk_builder *builder, const char *name, unsigned kind,
                                 double dense_bytes, double expert_bytes, uint32_t *block) {
	builder->phase = kind == LK_OP_ALLGATHER ? LK_PHASE_OTHER : LK_PHASE_BACKWARD;
	builder->pending = 0;
	lk_graph_begin_block(builder->graph, name);
	lk_build_traffic(builder, name, kind, dense_bytes, expert_bytes, kind == LK_OP_ALLGATHER,
	                 kind == LK_OP_ALLGATHER);
	return lk_graph_end_block(builder->graph, block, builder->err);
}

uint32_t lk_build_send_streams(void) {
	return LK_JOIN(LK_STREAM_SEND_FORWARD) | LK_JOIN(LK_STREAM_SEND_BACKWARD) |
	       LK_JOIN(LK_STREAM_SEND_FORWARD_UP) | LK_JOIN(LK_STREAM_SEND_BACKWARD_UP);
}

void lk_build_settle(lk_builder *builder) {
	if (!builder->pending) return;
	lk_op op = {.kind = LK_OP_WAIT,
	            .stream = LK_STREAM_COMPUTE,
	            .phase = builder->phase,
	            .join = builder->pending,
	            .name = "wait"};
	builder->pending = 0;
	lk_graph_add(builder->graph, &op);
}

lk_status lk_build_wait_block(lk_builder *builder, uint32_t join, bool event, uint32_t *block) {
	uint32_t *known = &builder->wait_block[join != 0][event];
	if (!*known) {
		lk_op op = {.kind = LK_OP_WAIT,
		            .stream = LK_STREAM_COMPUTE,
		            .phase = LK_PHASE_OTHER,
		            .join = join,
		            .wait = event,
		            .name = "wait"};
		lk_graph_begin_block(builder->graph, "wait");
		lk_graph_add(builder->graph, &op);
		LK_TRY(lk_graph_end_block(builder->graph, block, builder->err));
		*known = *block + 1;
	}
	*block = *known - 1;
	return LK_OK;
}

/* Parameters whose optimizer state this rank holds. */
static double owned(const lk_job *job, lk_rank_params p) {
	if (job->sharding == LK_SHARD_NONE) return p.trained_dense + p.trained_experts;
	double dense = lk_sizes_dp_ranks(job), experts = lk_sizes_edp_ranks(job);
	if (job->shard_group > 0 && job->shard_group < dense) dense = job->shard_group;
	return p.trained_dense / dense + p.trained_experts / experts;
}

/* Passes over the state: read gradient, master, moments; write master, moments, 16-bit weight. */
static double optimizer_bytes(const lk_job *job) {
	double state = lk_sizes_state_bytes(job);
	double extra =
		job->optimizer == LK_OPT_LAMB ? state : 0; /* a second pass for the trust ratio */
	return lk_sizes_gradient_bytes(job) + 2 * state + extra + 2;
}

/* Extra bytes, positive or negative, that matrix parameters pass over: their moments, and inputs
 * and outputs of the products. */
static double matrix_bytes(const lk_job *job, int stage) {
	lk_matrix_state of = lk_optimizer_state(job, stage);
	double dense, experts, update = 2 * lk_optimizer_of(job)->update;
	lk_sizes_shards(job, &dense, &experts);
	return (2 * of.moments[0] + update * of.elements[0]) / dense +
	       (2 * of.moments[1] + update * of.elements[1]) / experts;
}

/* Read the average and the parameter, write the average, in fp32. */
static const double average_bytes = 12;

/* The average on the host follows the previous step's parameters. Their copy overlaps with this
 * step (DeepSeek-V3, arXiv 2412.19437, section 3.2.3) and must complete before they change. */
lk_status lk_build_average_block(lk_builder *builder, int stage, uint32_t *block) {
	LK_ASSERT(stage >= 0 && stage < builder->job->pp);
	lk_op op = {
		.kind = LK_OP_COPY,
		.stream = LK_STREAM_COPY,
		.phase = LK_PHASE_OTHER,
		.name = "average_to_host",
		.bytes = builder->bytes * owned(builder->job, lk_sizes_stage(builder->job, stage)),
	};
	lk_graph_begin_block(builder->graph, "copy for the average");
	lk_graph_add(builder->graph, &op);
	return lk_graph_end_block(builder->graph, block, builder->err);
}

bool lk_build_copies_average(const lk_job *job) {
	return job->average == LK_AVERAGE_HOST && !job->offload_optimizer && !job->forward_only;
}

/* PyTorch's operations on lists hold a value for each parameter at once: for Adam the root of the
 * second moment, for SGD the gradient with its weight decay (torch/optim/adam.py,
 * _multi_tensor_adam; sgd.py, _multi_tensor_sgd). A fused kernel and a loop hold none. */
static double torch_update_scratch(const lk_job *job, double parameters) {
	double bytes = lk_job_sixteen_bit(job) && job->master_weights == LK_OFF ? 2 : 4;
	return job->update == LK_UPDATE_FOREACH ? bytes * parameters : 0;
}

/* 16-bit main gradients are widened for the update. DeepSpeed joins them first, with ZeRO-3 those
 * of a sub-group of 1e9 parameters (stage_1_and_2.py, step; stage3.py,
 * _prepare_fp32_grad_for_sub_group and sub_group_size), and drops what it joined before the update.
 * Other casts take 2 bytes. */
double lk_build_update_scratch(const lk_job *job, double parameters) {
	bool widens = lk_sizes_gradient_bytes(job) < 4 && job->master_weights != LK_OFF;
	if (widens && lk_job_uses_deepspeed(job)) {
		double group = job->sharding == LK_SHARD_ZERO3 ? fmin(parameters, 1e9) : parameters;
		return fmax(6 * group, 4 * group + torch_update_scratch(job, group));
	}
	/* kernels of bitsandbytes, torchao and FlashOptim write each parameter in place */
	if (job->optimizer == LK_OPT_ADAM_8BIT || job->optimizer == LK_OPT_LION_8BIT ||
	    job->optimizer == LK_OPT_ADEMAMIX_8BIT || job->optimizer == LK_OPT_ADAM_4BIT ||
	    job->optimizer == LK_OPT_ADAM_FLASH)
		return 0;
	if (job->update != LK_UPDATE_USUAL) return torch_update_scratch(job, parameters);
	return (widens && lk_job_like_megatron(job) ? 4 : 2) * parameters;
}

static void optimizer(lk_builder *builder, int stage, double parameters) {
	const lk_job *job = builder->job;
	if (lk_build_copies_average(job)) lk_build_wait(builder, LK_STREAM_COPY);
	if (!job->offload_optimizer) {
		lk_build_memory(builder, LK_OP_OPTIMIZER, "optimizer",
		                parameters * optimizer_bytes(job) + matrix_bytes(job, stage));
		if (!job->optimizer_in_backward) /* else one tensor's */
			lk_build_scratch(builder, lk_build_update_scratch(job, parameters), LK_OWN_WORKSPACE);
		if (job->average == LK_AVERAGE_DEVICE)
			lk_build_memory(builder, LK_OP_OPTIMIZER, "average", parameters * average_bytes);
		return;
	}
	lk_op down = {.kind = LK_OP_COPY,
	              .stream = LK_STREAM_COPY,
	              .join = LK_JOIN(LK_STREAM_COMPUTE),
	              .phase = builder->phase,
	              .name = "gradients_to_host",
	              .bytes = 2 * parameters};
	lk_op step = {.kind = LK_OP_HOST,
	              .stream = LK_STREAM_HOST,
	              .join = LK_JOIN(LK_STREAM_COPY),
	              .phase = builder->phase,
	              .name = "host_optimizer",
	              .bytes =
	                  parameters * (optimizer_bytes(job) + (job->average ? average_bytes : 0))};
	lk_op up = {.kind = LK_OP_COPY,
	            .stream = LK_STREAM_COPY,
	            .join = LK_JOIN(LK_STREAM_HOST),
	            .phase = builder->phase,
	            .name = "weights_to_device",
	            .bytes = 2 * parameters};
	if (!lk_job_gradients_on_host(job) || !lk_build_shards_layers(job))
		lk_graph_add(builder->graph, &down);
	lk_graph_add(builder->graph, &step);
	if (!job->offload_params) lk_graph_add(builder->graph, &up);
	lk_build_wait(builder, job->offload_params ? LK_STREAM_HOST : LK_STREAM_COPY);
}

static bool tied_across_stages(const lk_job *job) {
	return job->model.tied && job->pp > 1 && job->task != LK_TASK_LORA && !lk_job_folds(job);
}

static void reduce_rest(lk_builder *builder, int stage, lk_rank_params p) {
	LK_ASSERT(stage >= 0 && stage < builder->job->pp);
	const lk_job *job = builder->job;
	double wire = lk_sizes_wire_bytes(job);
	if (job->overlap_grad_reduce == LK_OFF && job->sharding < LK_SHARD_ZERO2)
		lk_build_traffic(builder, "reduce_gradients",
		                 job->sharding == LK_SHARD_NONE ? LK_OP_ALLREDUCE : LK_OP_REDUCESCATTER,
		                 wire * p.trained_dense, wire * p.trained_experts, false, false);
	lk_build_wait(builder, LK_STREAM_DP);
	bool holds = lk_sizes_has_embedding(job, stage) || lk_sizes_has_head(job, stage);
	if (tied_across_stages(job) && holds)
		lk_build_collective(builder, LK_OP_ALLREDUCE, LK_STREAM_TP, LK_GROUP_EMBEDDING,
		                    "reduce_tied_embedding",
		                    wire * job->padded_vocab * job->model.hidden / job->tp, false);
}

/* Complete the gradients, compute their norm, pass over the state. */
static void update_states(lk_builder *builder, int stage, lk_rank_params p) {
	const lk_job *job = builder->job;
	LK_ASSERT(stage >= 0 && stage < job->pp);
	double parameters = owned(job, p);
	double late = builder->late_gradients
	                  ? lk_sizes_gradient_bytes(job) * (p.trained_dense + p.trained_experts)
	                  : 0;
	/* image classifiers are trained without clipping gradients, and updates that begin before the
	 * last gradient exists cannot be */
	bool clips = job->model.network != LK_NET_CONV && !job->optimizer_in_backward;
	builder->pending = lk_build_send_streams();
	reduce_rest(builder, stage, p);
	if (clips) {
		lk_build_memory(builder, LK_OP_OPTIMIZER, "gradient_norm",
		                parameters * lk_sizes_gradient_bytes(job));
		lk_build_collective(builder, LK_OP_ALLREDUCE, LK_STREAM_TP, LK_GROUP_MODEL,
		                    "reduce_gradient_norm", 8, false);
	}
	optimizer(builder, stage, parameters);
	if (late > 0) lk_build_release(builder, late, LK_OWN_GRADIENTS);
}

/* With ZeRO-1 ranks hold contiguous pieces of all parameters: the products' inputs are gathered
 * from all, each rank works on the matrices that its piece touches, and keeps its piece (arXiv
 * 2502.16982, algorithm 1). With ZeRO-2 and 3 each rank holds a piece of every matrix: the pieces
 * go to the rank that works on the matrix, and back (microsoft/dion, muon.py). */
static void exchange_updates(lk_builder *builder, int stage, bool back) {
	const lk_job *job = builder->job;
	LK_ASSERT(stage >= 0 && stage < job->pp);
	double dense, experts, bytes = lk_optimizer_of(job)->update;
	lk_matrix_state of = lk_optimizer_state(job, stage);
	bool pieces = job->sharding >= LK_SHARD_ZERO2;
	lk_sizes_shards(job, &dense, &experts);
	if ((dense <= 1 && experts <= 1) || (back && !pieces)) return;
	double of_dense = dense > 1 ? bytes * of.elements[0] : 0,
		   of_experts = experts > 1 ? bytes * of.elements[1] : 0;
	const char *name = back ? "return_updates" : "gather_updates";
	if (pieces)
		lk_build_traffic(builder, name, LK_OP_ALLTOALL, of_dense / dense, of_experts / experts,
		                 false, false);
	else lk_build_traffic(builder, name, LK_OP_ALLGATHER, of_dense, of_experts, false, false);
	lk_build_wait(builder, LK_STREAM_DP);
}

/* Gather the parameters again, and do the host's work once per step; for image classifiers it runs
 * ahead of the device. */
static void end_step(lk_builder *builder, int stage) {
	const lk_job *job = builder->job;
	bool ahead = job->model.network == LK_NET_CONV || job->host_ahead ||
	             (job->eager == LK_ON && !lk_job_uses_deepspeed(job));
	if (lk_build_shards_states(job) && job->overlap_param_gather != LK_ON) {
		double dense, experts;
		lk_sizes_gathered(job, stage, builder->bytes, &dense, &experts);
		lk_build_traffic(builder, "gather_parameters", LK_OP_ALLGATHER, dense, experts, false,
		                 false);
		lk_build_wait(builder, LK_STREAM_DP);
	}
	lk_op last = {.kind = LK_OP_WAIT,
	              .stream = LK_STREAM_COMPUTE,
	              .phase = builder->phase,
	              .join = builder->pending,
	              .name = "wait"};
	lk_op host = {.kind = LK_OP_HOST,
	              .stream = LK_STREAM_HOST,
	              .phase = builder->phase,
	              .join = LK_JOIN(LK_STREAM_COMPUTE),
	              .name = "step_overhead",
	              .batch = 1};
	lk_graph_add(builder->graph, &last);
	if (!ahead) lk_graph_add(builder->graph, &host);
	builder->pending = 0;
}

/* End the block with the operations that must complete before the next one. */
static lk_status end_exchange(lk_builder *builder, int stage, uint32_t *block) {
	uint32_t join = builder->pending;
	exchange_updates(builder, stage, false);
	lk_op wait = {.kind = LK_OP_WAIT,
	              .stream = LK_STREAM_COMPUTE,
	              .phase = builder->phase,
	              .join = join | builder->pending,
	              .name = "wait"};
	lk_graph_add(builder->graph, &wait);
	builder->pending = 0;
	return lk_graph_end_block(builder->graph, block, builder->err);
}

lk_status lk_build_tail(lk_builder *builder, int stage, lk_tail_part out[LK_TAIL_PARTS],
                        int *count) {
	LK_ASSERT(stage >= 0 && stage < builder->job->pp);
	lk_rank_params p = lk_sizes_stage(builder->job, stage);
	int shapes = 0;
	builder->phase = LK_PHASE_OPTIMIZER;
	lk_graph_begin_block(builder->graph, "step end");
	update_states(builder, stage, p);
	if (lk_optimizer_has_products(builder->job)) {
		LK_TRY(end_exchange(builder, stage, &out[0].block));
		LK_TRY(lk_build_matrix_blocks(builder, stage, out + 1, &shapes));
		builder->phase = LK_PHASE_OPTIMIZER;
		lk_graph_begin_block(builder->graph, "step end after products");
		exchange_updates(builder, stage, true);
		out[0].repeat = 1;
		shapes++;
	}
	end_step(builder, stage);
	out[shapes].repeat = 1;
	*count = shapes + 1;
	return lk_graph_end_block(builder->graph, &out[shapes].block, builder->err);
}
