/* detail_memory.c: formulas of a stage's memory, in words with the job's numbers. A formula's
 * result equals the prediction: bytes per parameter are derived from it, not nominal. */
#include "base/arena.h"
#include "predict/predict_internal.h"

#include "base/text.h"
#include "base/units.h"
#include "base/noun.h"
#include "model/layout/job.h"
#include "model/layout/sizes.h"

enum { TEXT = 32 };

/* "6.33 G" */
static const char *count_text(double count, char *out) {
	return lk_format_count(count, out, TEXT);
}

/* Layers whose activations are held at the peak: those run forward and not yet backward. */
static double layers_held(const lk_graph *graph, int stage, const lk_memory *walk) {
	const lk_program *program = &graph->programs.at[stage];
	double held = 0;
	for (size_t c = 0; c < program->calls.count && c <= walk->call; c++) {
		const lk_call *call = &program->calls.at[c];
		double times = c == walk->call ? walk->repetition + 1 : call->repeat;
		if (call->layer < 0) continue;
		if (call->pass == LK_PHASE_FORWARD) held += times;
		else if (call->pass == LK_PHASE_BACKWARD)
			held -= c == walk->call ? times - 1 : times; /* its last one is running */
	}
	return held;
}

/* "6.33 G parameters x 2 B", with its divisors. */
static const char *per_parameter(lk_arena *arena, double bytes, double parameters, int shards,
                                 const char *what) {
	char count[TEXT], shard[TEXT] = "";
	double each = parameters > 0 ? bytes / parameters * shards : 0;
	if (bytes <= 0 || parameters <= 0) return "";
	if (shards > 1)
		snprintf(shard, sizeof shard, " / %d %s", shards, lk_noun(shards, "rank", "ranks"));
	return lk_arena_printf(arena, "%s parameters%s \xc3\x97 %.4g B%s",
	                       count_text(parameters, count), shard, each, what);
}

static const char *memory_activations(lk_arena *arena, const lk_step *step, int stage,
                                      double bytes) {
	char each[TEXT];
	double held = layers_held(step->graph, stage, &step->memory[stage].walk);
	if (bytes <= 0) return "";
	if (held < 1) return "kept for the backward pass";
	return lk_arena_printf(arena, "%.0f %s run forward and not yet backward \xc3\x97 %s on average",
	                       held, lk_noun(held, "layer", "layers"),
	                       lk_format_bytes(bytes / held, each, sizeof each));
}

static const char *logits(lk_arena *arena, const lk_job *job, double bytes) {
	double elements =
		(double)job->mbs * job->seq * job->padded_vocab / job->tp / (job->cp > 0 ? job->cp : 1);
	if (bytes <= 0 || elements <= 0) return "";
	return lk_arena_printf(
		arena, "%d \xc3\x97 %d tokens \xc3\x97 %d words / tp %d / cp %d \xc3\x97 %.3g B", job->mbs,
		job->seq, job->padded_vocab, job->tp, job->cp, bytes / elements);
}

static const char *unused(lk_arena *arena, const lk_stage_use *use) {
	char moving[TEXT];
	return lk_arena_printf(
		arena, "4 %% of %s that come and go + 0.1 GiB: holes of the allocator",
		lk_format_bytes(use->walk.peak - use->walk.resident, moving, sizeof moving));
}

static bool memory_fill(lk_arena *arena, const lk_job *job, const lk_step *step, int s,
                        lk_stage_formulas *out) {
	const lk_stage_use *use = &step->memory[s];
	const double *at = use->walk.at_peak;
	lk_rank_params p = lk_sizes_stage(job, s);
	double held = p.dense + p.experts, trained = p.trained_dense + p.trained_experts;
	int ranks = lk_sizes_dp_ranks(job);
	*out = (lk_stage_formulas){
		.weights = per_parameter(arena, at[LK_OWN_WEIGHTS], held,
	                             job->sharding >= LK_SHARD_ZERO3 ? ranks : 1, ""),
		.gradients = per_parameter(arena, at[LK_OWN_GRADIENTS], trained,
	                               job->sharding >= LK_SHARD_ZERO2 ? ranks : 1, ""),
		.optimizer =
			per_parameter(arena, at[LK_OWN_OPTIMIZER], trained,
	                      job->sharding >= LK_SHARD_ZERO1 ? ranks : 1, ": master copy and moments"),
		.activations = memory_activations(arena, step, s, at[LK_OWN_ACTIVATIONS]),
		.logits = logits(arena, job, at[LK_OWN_LOGITS]),
		.workspace = "workspaces of cuBLAS and of the stack's layers, held throughout, and what "
					 "the kernel under way takes",
		.buffers = "buffers of communication",
		.unused = unused(arena, use),
		.context = "the CUDA context with kernels of the libraries",
		.nccl = lk_arena_printf(arena,
	                            "%.0f process groups \xc3\x97 147.2 MiB: 16 channels \xc3\x97 2 "
	                            "neighbours \xc3\x97 9.2 MiB / 2",
	                            use->nccl / (147.2 * LK_MIB)),
	};
	return out->weights && out->gradients && out->optimizer && out->activations && out->logits &&
	       out->unused && out->nccl;
}

lk_status lk_detail_formulas(lk_arena *arena, const lk_job *job, const lk_step *step,
                             lk_prediction_detail *out, lk_error *err) {
	lk_stage_formulas *rows = LK_ARRAY(arena, lk_stage_formulas, job->pp);
	if (!rows) return lk_oom(err);
	for (int s = 0; s < job->pp; s++)
		if (!memory_fill(arena, job, step, s, &rows[s])) return lk_oom(err);
	out->formulas = rows;
	return LK_OK;
}
