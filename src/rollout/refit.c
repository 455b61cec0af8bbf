/* refit.c: transfer of new weights from the training layout to the engines.
 *
 *     refit = max(gather, move) + tensors * host time of one
 *
 * Every training rank gathers the whole network over its model-parallel group (tensor, pipeline and
 * expert ranks) bucket by bucket and writes it tensor by tensor in the engine's names, as
 * Megatron's exporters do; a bucket moves while the next is gathered. The host spends a fixed time
 * per tensor, whatever its size: it is named, handed over and copied to its place by the engine's
 * loader. How bytes move:
 *
 *     broadcast     all of them to all engine GPUs (the collective model)
 *     memory        read and written where they are: engines on the same GPUs
 *     shards        bytes / GPUs of an engine, over the network card of each
 *     whole         all of them, over the network card of each
 *     from hosts    bytes / GPUs from pinned memory, then broadcast
 *     in pairs      likewise, after a transfer between two nodes over one network card */
#include <math.h>

#include "rollout/rollout.h"

/* Host time of a tensor, from published updates (weight_update tables): packed 0.20 ms, tensor by
 * tensor 0.80 ms (verl, docs/advance/fully_async.md at b178a3cd, 18,867 tensors in 4.38 and
 * 15.76 s); through CUDA IPC 0.28 ms, the geometric mean of 9.67 s (quantised on the way) and
 * 2.98 s (prepared before) for as many (NVIDIA-NeMo/RL, pull request 3294); planned resharding
 * 0.04 ms (NVIDIA-NeMo/RL, docs/design-docs/nccl-reshard-refit.md, 0.87 s for as many, 2.61 s for
 * 46,000); checkpoint-engine 0.10 ms (MoonshotAI/checkpoint-engine, README, 3.5 to 3.9 s for 18,000
 * and 10.2 to 13.9 s for 92,000, less the time of their bytes). */
static const struct transport {
	enum { BY_BROADCAST, BY_MEMORY, BY_SHARDS, BY_CARD } move;
	double tensor_s;
	bool from_host, in_pairs;
} transports[LK_REFIT_TRANSPORTS] = {
	[LK_REFIT_PACKED] = {BY_BROADCAST, 0.20e-3, false, false},
	[LK_REFIT_TENSORS] = {BY_BROADCAST, 0.80e-3, false, false},
	[LK_REFIT_IPC] = {BY_MEMORY, 0.28e-3, false, false},
	[LK_REFIT_SHARDS] = {BY_SHARDS, 0.20e-3, false, false},
	[LK_REFIT_RESHARD] = {BY_SHARDS, 0.04e-3, false, false},
	[LK_REFIT_WHOLE] = {BY_CARD, 0.20e-3, false, false},
	[LK_REFIT_HOST] = {BY_BROADCAST, 0.10e-3, true, false},
	[LK_REFIT_HOST_PAIRS] = {BY_BROADCAST, 0.10e-3, true, true},
};

/* As counted in a checkpoint: each expert's matrices separately. */
double lk_refit_tensors(const lk_model *model) {
	double count = 3; /* embedding, last norm, head */
	double gates = model->gated ? 3 : 2;
	for (int i = 0; i < model->layers; i++) {
		lk_layer layer = lk_model_layer(model, i);
		count += 2 + 4 + (model->qk_norm ? 2 : 0); /* norms; attention */
		if (layer.ffn == LK_FFN_EXPERTS) count += 1 + gates * model->experts;
		if (layer.ffn == LK_FFN_DENSE || (layer.ffn == LK_FFN_EXPERTS && model->shared_ffn > 0))
			count += gates;
	}
	return count;
}

static double refit_collective(const lk_cluster *cluster, lk_coll_kind kind, int ranks,
                               double bytes) {
	const lk_node *node = &cluster->node[0];
	int in_node = ranks < node->gpus ? ranks : node->gpus;
	lk_group_shape group = {.node = node,
	                        .ranks = ranks,
	                        .nodes = (ranks + node->gpus - 1) / node->gpus,
	                        .ranks_per_node = in_node,
	                        .sharing = node->gpus / in_node,
	                        .oversubscription = cluster->oversubscription};
	return lk_collective_cost(kind, &group, bytes).seconds;
}

static double refit_move(const lk_refit_job *job, const struct transport *transport, double bytes) {
	const lk_node *node = &job->cluster->node[0];
	double card = node->device->nic_rate;
	double seconds = 0;
	if (transport->from_host)
		seconds += bytes / job->engine_gpus / node->device->pcie_rate +
		           (transport->in_pairs ? bytes / card : 0);
	switch (transport->move) {
	case BY_BROADCAST: {
		int senders = transport->from_host ? 0 : 1;
		return seconds +
		       refit_collective(job->cluster, LK_COLL_BROADCAST, job->engine_gpus + senders, bytes);
	}
	case BY_MEMORY: return seconds + 2 * bytes / node->device->memory_rate; /* read, written */
	case BY_SHARDS: return seconds + bytes / job->engine_shards / card;
	case BY_CARD: return seconds + bytes / card;
	}
	return seconds;
}

lk_refit lk_refit_of(const lk_refit_job *job) {
	const struct transport *transport = &transports[job->transport];
	double bytes = job->width * lk_model_params(job->model),
		   tensors = lk_refit_tensors(job->model) * (job->width < 2 ? 2 : 1);
	lk_refit refit = {.bytes = bytes, .tensors = tensors};
	refit.gather_s = refit_collective(job->cluster, LK_COLL_ALLGATHER, job->gathered_over, bytes);
	refit.move_s = refit_move(job, transport, bytes);
	refit.host_s = tensors * transport->tensor_s;
	refit.seconds = fmax(refit.gather_s, refit.move_s) + refit.host_s;
	return refit;
}
