/* offload.c: what frameworks mean by memory of the host.
 *
 * FSDP's offload (FullyShardedDataParallel's CPUOffload, fully_shard's CPUOffloadPolicy) moves the
 * shards of parameters, of their gradients and of the optimizer's states, and the optimizer's step
 * runs on the host; DeepSpeed names parameters and the optimizer's states apart. Both need weights
 * that are sharded and gathered again, as --offload-params does. */
#include <string.h>

#include "launch/reading/reading.h"
#include "model/layout/job.h"
#include "model/read/read.h"

/* Why the parameters stay on the device; NULL: they need not. */
static const char *offload_refused(const lk_reading *reading, const lk_job *job) {
	const lk_launch *out = reading->out;
	int gpus = out->gpus > 0 ? out->gpus : out->gpus_assumed;
	int64_t parts = job->tp > 0 ? job->tp : 1;
	parts *= job->pp > 0 ? job->pp : 1;
	if (!job->offload_optimizer)
		return "parameters stay on the device, as the optimizer's states do (--offload-optimizer)";
	if (!job->sharding_said || job->sharding != LK_SHARD_ZERO3)
		return "parameters stay on the device: they are not sharded there (--zero 3)";
	if (gpus > 0 && gpus <= parts)
		return "parameters stay on the device: they are gathered from no other ranks";
	return NULL;
}

lk_status lk_launch_offload_params(lk_reading *reading, lk_job *job, const char *key) {
	const char *why = offload_refused(reading, job);
	if (why != NULL) return lk_launch_note(reading, key, why);
	job->offload_params = true;
	return LK_OK;
}

lk_status lk_launch_offload_shards(lk_reading *reading, lk_job *job, const char *key) {
	job->offload_optimizer = true;
	return lk_launch_offload_params(reading, job, key);
}

lk_status lk_launch_offload_activations(lk_reading *reading, lk_job *job, const char *key,
                                        const char *network) {
	lk_model model = job->model;
	bool known = model.layers > 0 ||
	             (network != NULL && *network && lk_model_preset(network, &model, NULL) == LK_OK);
	const char *why = NULL;
	if (known && (model.network == LK_NET_CONV || model.tower.layers > 0))
		why = "activations stay on the device: those of encoders of images are kept there";
	else if (known && model.mtp_layers > 0)
		why = "activations stay on the device: those of multi-token prediction are kept there";
	if (why != NULL) return lk_launch_note(reading, key, why);
	job->offload_activations = true;
	return LK_OK;
}
