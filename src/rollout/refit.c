/* refit.c: new weights on their way from the training layout to the engines.
 *
 * Every training rank gathers the whole network over its model-parallel group (tensor, pipeline and
 * expert ranks) and writes it tensor by tensor in the engine's names, as Megatron's exporters do.
 * Engines on the same GPUs read it there (CUDA IPC); engines on other GPUs get it by a broadcast.
 * The host spends a time on each tensor, whatever its size: it is named, handed over and copied to
 * its place by the engine's loader. */
#include <math.h>

#include "rollout/rollout.h"

/* Host time of a tensor, from published updates of a network of 18,867 tensors and 61 GB, less the
 * time of its bytes. Packed into large messages it takes 4.38 s (verl, docs/advance/fully_async.md
 * at b178a3cd, checkpoint engine): 0.2 ms a tensor. Through CUDA IPC, where the engine's loader
 * takes each tensor apart, 9.67 s (NVIDIA-NeMo/RL, pull request 3294, quantised on the way) and
 * 2.98 s (prepared before): their geometric mean is 0.28 ms a tensor. */
static const double TENSOR_PACKED_S = 0.20e-3, TENSOR_SHARED_S = 0.28e-3;

/* As a checkpoint counts them: each expert's matrices apart. */
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

lk_refit lk_refit_of(const lk_model *model, const lk_cluster *cluster, int gathered_over,
                     int engine_gpus, bool apart) {
	double bytes = 2 * lk_model_params(model), tensors = lk_refit_tensors(model);
	lk_refit refit = {.bytes = bytes, .tensors = tensors};
	refit.gather_s = refit_collective(cluster, LK_COLL_ALLGATHER, gathered_over, bytes);
	if (apart) {
		refit.move_s = refit_collective(cluster, LK_COLL_BROADCAST, engine_gpus + 1, bytes);
		refit.host_s = tensors * TENSOR_PACKED_S;
	} else {
		refit.move_s = 2 * bytes / cluster->node[0].device->memory_rate; /* read, written */
		refit.host_s = tensors * TENSOR_SHARED_S;
	}
	refit.seconds = refit.gather_s + refit.move_s + refit.host_s;
	return refit;
}
