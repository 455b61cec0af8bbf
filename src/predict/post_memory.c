/* post_memory.c: the use of a GPU's memory over a step of reinforcement learning: what the training
 * keeps while engines run on its GPUs, what is copied to the host and back, and whether the
 * networks that only pass over the sequences fit. */
#include <math.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/noun.h"
#include "base/text.h"
#include "base/units.h"
#include "predict/predict_internal.h"
#include "rollout/rollout.h"
#include "model/layout/sizes.h"

/* Bytes/s of a process that copies to unpinned, newly allocated host memory: the driver stages it,
 * the host clears each page first. An assumption chosen with regard to published steps
 * (docs/method/post-training.md). */
static const double HOST_COPY_RATE = 4e9;

/* What a training keeps on a GPU: weights, and state for the optimizer. Sharded weights (ZeRO 3) of
 * a 16-bit training are the optimizer's 32-bit ones. */
static void split_kept(const lk_job *job, double weights, double optimizer, double *params,
                       double *states) {
	bool sharded = job->sharding == LK_SHARD_ZERO3;
	double masters = sharded && weights <= 0 && lk_sizes_state_bytes(job) > 4
	                     ? optimizer * 4 / lk_sizes_state_bytes(job)
	                     : 0;
	*params = weights + masters;
	*states = optimizer - masters;
}

/* Bytes of the reference that are always on a GPU. */
static double reference_stays(const lk_post *post) {
	return post->said.offload_reference > 0 ? 0 : post->reference.weights;
}

static double bytes_if(bool held, double bytes) {
	return held ? bytes : 0;
}

/* Engines on the training GPUs need the memory that training keeps. As stated by the file or the
 * words, weights and optimizer, the critic's too, go to the host and back. Gradients are not
 * copied: they are zero by then. Frozen networks wait in pages allocated at the start, as do
 * weights with a pinned copy. */
void lk_post_offload(lk_post *post) {
	const lk_rollout_words *said = &post->said;
	const lk_cluster *cluster = &post->asked.cluster;
	const lk_post_network *critic = &post->critic;
	const lk_stage_memory *held = &post->trained->memory[post->trained->fullest_stage];
	double pcie = cluster->node[0].device->pcie_rate, rate = fmin(HOST_COPY_RATE, pcie);
	double params, states, critic_params, critic_states;
	split_kept(&post->asked.job, held->weights, held->optimizer, &params, &states);
	split_kept(&post->asked.job, critic->weights, critic->optimizer, &critic_params,
	           &critic_states);
	bool shared = critic->model && !(said->critic_gpus > 0);
	double moved = 0, pinned = post->reference.weights - reference_stays(post);
	double stay = post->asked.job.sharding == LK_SHARD_ZERO3 ? 0 : 1; /* gradients */
	if (!post->apart) {
		double weights = bytes_if(said->offload_params > 0, params) +
		                 bytes_if(shared && said->critic_offload_params > 0, critic_params);
		if (said->pinned_params > 0) pinned += weights;
		else moved += weights;
		if (said->offload_optimizer > 0) moved += states;
		if (shared && said->critic_offload_optimizer > 0) moved += critic_states;
	}
	if (post->teacher.model && !(said->teacher_gpus > 0)) pinned += post->teacher.weights;
	post->offload = 2 * (moved / rate + pinned / pcie);
	params += stay * held->gradients, critic_params += stay * critic->gradients;
	post->kept = bytes_if(!(said->offload_params > 0), params) +
	             bytes_if(!(said->offload_optimizer > 0), states) +
	             bytes_if(shared && !(said->critic_offload_params > 0), critic_params) +
	             bytes_if(shared && !(said->critic_offload_optimizer > 0), critic_states) +
	             reference_stays(post) + post->rewarding.weights;
}

/* Memory that the other networks keep on the training GPUs, in addition to the policy's
 * training. */
void lk_post_keep(lk_post *post) {
	lk_prediction *trained = post->trained;
	const lk_post_network *critic = &post->critic;
	bool shared = critic->model && !(post->said.critic_gpus > 0);
	lk_resident more = {
		.weights = post->rewarding.weights + reference_stays(post),
	};
	if (shared) {
		more.weights = post->rewarding.weights + critic->weights + reference_stays(post);
		more.gradients = critic->gradients;
		more.optimizer = critic->optimizer;
	}
	double all = more.weights + more.gradients + more.optimizer;
	for (int i = 0; i < trained->memory_count; i++) {
		lk_stage_memory *stage = &post->memory[i];
		stage->weights += more.weights, stage->gradients += more.gradients;
		stage->optimizer += more.optimizer;
		stage->allocated += all, stage->reserved += all, stage->total += all;
		stage->low += all, stage->high += all;
		stage->reserved_low += all, stage->reserved_high += all;
	}
	trained->peak_bytes += all;
	trained->fits = trained->peak_bytes <= trained->usable_bytes;
}

/* By default engines on the training GPUs take the remaining memory: while they run, or all the
 * time if they do not sleep. */
void lk_post_leave_room(const lk_post *post, lk_predict_request *writing) {
	double whole = post->trained->usable_bytes,
		   held = post->said.sleep > 0 ? post->kept : post->trained->peak_bytes;
	const char *name = writing->engine ? writing->engine : "vllm";
	const lk_engine_software *software = lk_engine_software_find(name);
	if (post->apart || writing->gpu_mem_util > 0 || !software || !(held > 0)) return;
	writing->gpu_mem_util = fmax(0.05, fmin(software->memory_share, 0.98 - held / whole));
}

/* Engines and training on the same GPUs: what each keeps while the other runs. */
lk_status lk_post_share(lk_post *post, double share, lk_error *err) {
	lk_prediction *trained = post->trained, *written = post->written;
	double taken = fmax(written->peak_bytes, share * trained->usable_bytes);
	if (post->apart) return LK_OK;
	lk_stage_memory *stage = LK_NEW(post->arena, lk_stage_memory);
	if (!stage) return lk_oom(err);
	*stage = written->memory[0];
	stage->optimizer += post->kept;
	stage->buffers += taken - stage->total;
	stage->total = taken + post->kept;
	stage->reserved = stage->allocated = stage->total - stage->context;
	lk_copy(stage->moment, sizeof stage->moment, "the largest batch, with what the training keeps");
	written->memory = stage;
	written->peak_bytes = stage->total, written->usable_bytes = trained->usable_bytes;
	written->fits = written->fits && written->peak_bytes <= written->usable_bytes;
	if (post->said.sleep > 0) return LK_OK;
	post->awake = taken;
	for (int i = 0; i < trained->memory_count; i++) {
		post->memory[i].buffers += taken, post->memory[i].allocated += taken;
		post->memory[i].reserved += taken, post->memory[i].total += taken;
		post->memory[i].low += taken, post->memory[i].high += taken;
		post->memory[i].reserved_low += taken, post->memory[i].reserved_high += taken;
	}
	trained->peak_bytes += taken;
	trained->fits = trained->peak_bytes <= trained->usable_bytes;
	return LK_OK;
}

/* Where a network other than the policy runs, and what shares its memory. */
struct room {
	const char *name;
	const lk_post_network *network;
	double gpus;   /* dedicated; 0: the training GPUs */
	double beside; /* bytes of other data on one of those */
	const char *remedy;
};

static const char *room_lacks(lk_arena *arena, const struct room *room, double taken) {
	char where[48];
	snprintf(where, sizeof where, "%.0f %s of its own", room->gpus,
	         lk_noun((int)room->gpus, "GPU", "GPUs"));
	return lk_arena_printf(arena, "the %s does not fit on the %s: %.1f of %.1f GiB; %s", room->name,
	                       room->gpus > 0 ? where : "GPUs that train", taken / LK_GIB,
	                       room->network->usable / LK_GIB, room->remedy);
}

static lk_status check_one(const lk_post *post, const struct room *room, lk_prediction *prediction,
                           lk_error *err) {
	const lk_post_network *network = room->network;
	double beside = room->gpus > 0 ? 0 : room->beside, taken = network->memory.total + beside;
	if (!network->model || taken <= network->usable) return LK_OK;
	const char *before = prediction->warning, *why = room_lacks(post->arena, room, taken);
	prediction->warning = before && why ? lk_arena_printf(post->arena, "%s; %s", before, why) : why;
	if (!prediction->warning) return lk_oom(err);
	if (!prediction->fits) return LK_OK;
	lk_stage_memory *stage = LK_NEW(post->arena, lk_stage_memory);
	if (!stage) return lk_oom(err);
	*stage = network->memory;
	stage->buffers += beside, stage->allocated += beside, stage->reserved += beside;
	stage->low += beside, stage->high += beside, stage->total = taken;
	stage->reserved_low += beside, stage->reserved_high += beside;
	snprintf(stage->moment, sizeof stage->moment, "the %s: %.70s", room->name,
	         network->memory.moment);
	prediction->fits = false;
	prediction->peak_bytes = stage->total, prediction->usable_bytes = network->usable;
	prediction->fullest_stage = stage->stage;
	prediction->memory = stage, prediction->memory_count = 1;
	return LK_OK;
}

/* On the training GPUs a frozen network passes over the sequences next to what stays while engines
 * run; a critic learns next to everything that the policy keeps. */
lk_status lk_post_check_room(const lk_post *post, lk_prediction *prediction, lk_error *err) {
	const lk_rollout_words *said = &post->said;
	const lk_stage_memory *held = &post->trained->memory[post->trained->fullest_stage];
	const lk_post_network *critic = &post->critic;
	double policy = held->weights + held->gradients + held->optimizer + post->awake,
		   learned = critic->weights + critic->gradients + critic->optimizer,
		   stays = post->kept + post->awake;
	const struct room rooms[] = {
		{"critic", critic, said->critic_gpus, policy - learned,
	     said->critic_gpus > 0 ? "give it more (--rollout critic_gpus=)"
	                           : "give it GPUs of its own (--rollout critic_gpus=)"},
		{"teacher", &post->teacher, said->teacher_gpus, stays,
	     said->teacher_gpus > 0 ? "give it more (--rollout teacher_gpus=)"
	                            : "give it GPUs of its own (--rollout teacher_gpus=)"},
		{"reference", &post->reference, 0, stays - reference_stays(post),
	     "divide the network further, or keep less on the GPUs (--rollout offload_params=1)"},
		{"reward model", &post->rewarding, 0, stays - post->rewarding.weights,
	     "divide the network further, or keep less on the GPUs (--rollout offload_params=1)"},
	};
	for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
		LK_TRY(check_one(post, &rooms[i], prediction, err));
	return LK_OK;
}
