/* keys_trainer.c: arguments of HuggingFace's Trainer, with TRL's: what no row can say.
 *
 *     global batch = per_device_train_batch_size * gradient_accumulation_steps * dp
 * A step of TRL's GRPO (trl/trainer/grpo_config.py) has generation_batch_size sequences, else
 * steps_per_generation, else gradient_accumulation_steps, micro-batches of each rank. */
#include <math.h>

#include "launch/frameworks/frameworks.h"

/* The batches of a step, once the GPUs are known. */
lk_status lk_trainer_batches(const lk_config *config, lk_draft *draft) {
	lk_job *job = config->reading->out->job;
	if (!*draft->rollout.task) return LK_OK;
	int gpus = config->reading->out->gpus > 0 ? config->reading->out->gpus
	                                          : config->reading->out->gpus_assumed;
	const lk_value *steps = lk_config_at(config->root, "steps_per_generation");
	double each = (double)job->mbs * (gpus > 0 ? gpus : 1);
	double written = draft->accumulation;
	if (steps && steps->kind == LK_JSON_NUMBER && steps->number >= 1) written = steps->number;
	job->gbs = (int)fmin(1e7, each * draft->accumulation);
	job->microbatches = 0;
	if (draft->rollout.sequences == 0)
		draft->rollout.sequences = (int)fmin(1e7, each * fmax(1, written));
	if (job->gbs > draft->rollout.sequences) job->gbs = draft->rollout.sequences;
	return LK_OK;
}
