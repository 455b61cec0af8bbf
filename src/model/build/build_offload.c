/* build_offload.c: activations in host memory between the passes (--offload-activations): what a
 * layer keeps is copied out on its own stream after the forward pass, while the next layer computes
 * (Transformer Engine's cpu_offload.py, Megatron-LM's --cpu-offloading-num-layers). A layer ends
 * when the copy of the layer before has completed, so that at most two layers' activations are on
 * the device; in the backward pass each layer waits for its own and prefetches the next one's. All
 * blocks fetch as many bytes as they use: the order of layers does not matter, as with gathered
 * weights. */
#include "model/build/build.h"

static void offload_copy(lk_builder *builder, unsigned stream, const char *name, double bytes,
                         bool after_compute) {
	lk_op op = {
		.kind = LK_OP_COPY,
		.stream = (uint8_t)stream,
		.phase = builder->phase,
		.join = after_compute ? LK_JOIN(LK_STREAM_COMPUTE) : 0,
		.name = name,
		.bytes = bytes,
	};
	lk_graph_add(builder->graph, &op);
}

static void offload_wait(lk_builder *builder, unsigned stream, const char *name) {
	lk_op op = {.kind = LK_OP_WAIT,
	            .stream = LK_STREAM_COMPUTE,
	            .phase = builder->phase,
	            .join = LK_JOIN(stream),
	            .name = name};
	lk_graph_add(builder->graph, &op);
}

void lk_build_keep_on_host(lk_builder *builder, double bytes) {
	if (!builder->job->offload_activations || bytes <= 0) return;
	offload_wait(builder, LK_STREAM_COPY, "wait_kept");
	lk_build_release(builder, bytes, LK_OWN_ACTIVATIONS);
	offload_copy(builder, LK_STREAM_COPY, "activations_to_host", bytes, true);
}

void lk_build_fetch_kept(lk_builder *builder, double bytes) {
	if (!builder->job->offload_activations || bytes <= 0) return;
	offload_wait(builder, LK_STREAM_COPY_BACK, "wait_fetched");
	lk_build_save(builder, bytes, LK_OWN_ACTIVATIONS);
	offload_copy(builder, LK_STREAM_COPY_BACK, "activations_to_device", bytes, false);
}

double lk_build_kept_moving(const lk_builder *builder) {
	double most = 0;
	if (!builder->job->offload_activations) return 0;
	for (int i = 0; i < builder->shape_count; i++)
		for (int pass = 0; pass < LK_BLOCK_PASSES; pass++)
			if (builder->layer_kept[i][pass] > most) most = builder->layer_kept[i][pass];
	return most;
}
