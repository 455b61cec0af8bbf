/* job_loss.c: losses that hold the logits of only some tokens at a time, or none (--loss;
 * docs/method/memory.md), and what the loss of fine-tuning compares.
 *
 *     linear    Liger's fused linear cross-entropy: pieces of next_power_of_2(T / ceil(V / h))
 *               tokens, so that a piece's logits are about as large as the hidden states
 *               (linkedin/Liger-Kernel, ops/fused_linear_cross_entropy.py)
 *     cut       Cut Cross-Entropy: blocks of logits in shared memory alone (arXiv 2411.09009)
 *     native    all logits, by Megatron-LM's own fusion, which makes two fp32 copies
 *     chunked   N pieces (torchtitan's ChunkedCELoss, TRL), 8 by default
 *     chunked-output   all logits, as 8 pieces that are widened to fp32 and turned into their
 *               gradients one by one (pytorch/torchtune, modules/loss/ce_chunked_output_loss.py)
 */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "model/layout/job.h"

static const int USUAL_CHUNKS = 8;

const char *const lk_loss_names[] = {"logits", "linear", "cut", "chunked", "chunked-output", NULL};

lk_status lk_job_take_loss(lk_job *job, const char *text, lk_error *err) {
	char name[32], shown[64];
	long long chunks = 0;
	if (!text) return LK_OK;
	lk_copy(name, sizeof name, text);
	job->native_loss_fusion = lk_same_name(name, "native");
	if (job->native_loss_fusion) {
		job->loss = LK_LOSS_LOGITS;
		job->fused_cross_entropy = LK_ON;
		return LK_OK;
	}
	char *slash = strchr(name, '/');
	if (slash) {
		*slash = '\0';
		LK_TRY(lk_parse_int(slash + 1, 2, 4096, &chunks, "--loss", err));
	}
	for (int i = 0; lk_loss_names[i]; i++) {
		if (!lk_same_name(name, lk_loss_names[i])) continue;
		if (slash && i != LK_LOSS_CHUNKED) {
			lk_fail(err, LK_ERR_INPUT, "--loss", "a number of pieces goes with chunked/N only");
			return lk_hint(err, "use chunked/%lld", chunks);
		}
		job->loss = (lk_loss_kind)i;
		job->loss_chunks = (int)chunks;
		return LK_OK;
	}
	if (strchr(name, ',')) { /* predict has already split such a list */
		lk_fail(err, LK_ERR_INPUT, "--loss", "'%s' is a list",
		        lk_escape(name, shown, sizeof shown));
		return lk_hint(err, "give one name here; lockstep predict takes several");
	}
	lk_fail(err, LK_ERR_INPUT, "--loss", "unknown name '%s'", lk_escape(name, shown, sizeof shown));
	return lk_hint(err, "give one of logits, native, linear, cut, chunked, chunked/N or "
	                    "chunked-output");
}

const char *lk_loss_text(lk_arena *arena, const lk_job *job) {
	if (job->loss == LK_LOSS_LOGITS) return job->native_loss_fusion ? "native" : NULL;
	if (!job->loss_chunks) return lk_loss_names[job->loss];
	return lk_arena_printf(arena, "%s/%d", lk_loss_names[job->loss], job->loss_chunks);
}

double lk_loss_tokens(const lk_job *job, double tokens) {
	double pieces = 1;
	if (job->loss == LK_LOSS_CUT) return 0;
	if (job->loss == LK_LOSS_CHUNKED)
		pieces = job->loss_chunks > 0 ? job->loss_chunks : USUAL_CHUNKS;
	if (job->loss == LK_LOSS_LINEAR) {
		double wide = ceil((double)job->padded_vocab / job->tp / job->model.hidden);
		pieces = tokens / exp2(ceil(log2(ceil(tokens / wide))));
	}
	return tokens / fmax(1, ceil(pieces));
}

lk_status lk_job_check_loss(const lk_job *job, lk_error *err) {
	const char *why = NULL, *what = "leave it out";
	if (job->loss == LK_LOSS_LOGITS) return LK_OK;
	if (job->model.network == LK_NET_CONV || job->model.network == LK_NET_DIFFUSION ||
	    job->model.vocab == 0 || !job->model.lm_head || job->labels > 0)
		why = "the model has no logits over a vocabulary";
	else if (job->teacher && job->loss != LK_LOSS_OUTPUTS)
		why = "distillation reads the logits of all tokens";
	else if (job->defer_head_gradient == LK_ON && job->loss != LK_LOSS_CUT)
		why = "a deferred gradient of the head needs the gradients of all logits";
	else if (job->fused_cross_entropy == LK_ON && job->loss < LK_LOSS_CHUNKED)
		why = "this loss works on logits in place already", what = "leave out --fused-loss";
	if (!why) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--loss", "%s", why);
	return lk_hint(err, "%s", what);
}

/* ---- objectives of fine-tuning, as passes over each micro-batch. KTO's term against drift needs
 * the probabilities of each prompt with another prompt's completion, of both networks and without
 * a gradient (TRL, trainer/kto_trainer.py, forward and compute_reference_log_probs). Reward models
 * and classifiers have a head of a few columns. */

const char *const lk_objective_names[] = {"tokens", "dpo", "kto", "orpo", "reward", NULL};

static const lk_objective_kind kinds[] = {
	[LK_OBJECTIVE_TOKENS] = {.adapted = "lora"},
	[LK_OBJECTIVE_DPO] = {.adapted = "dpo+lora", .pairs = true, .reference = 1},
	[LK_OBJECTIVE_KTO] = {.adapted = "kto+lora", .reference = 2, .unkept = 1},
	[LK_OBJECTIVE_ORPO] = {.adapted = "orpo+lora", .pairs = true},
	[LK_OBJECTIVE_REWARD] = {.adapted = "reward+lora", .pairs = true, .labels = 1},
};

const lk_objective_kind *lk_objective_of(lk_objective objective) {
	return &kinds[objective];
}

bool lk_objective_find(const char *text, lk_objective *out, bool *adapters) {
	for (int i = LK_OBJECTIVE_DPO; text && lk_objective_names[i]; i++) {
		*out = (lk_objective)i;
		*adapters = lk_same_name(text, kinds[i].adapted);
		if (*adapters || lk_same_name(text, lk_objective_names[i])) return true;
	}
	return false;
}

const char *lk_objective_adapted(lk_objective objective) {
	return kinds[objective].adapted;
}

const char *lk_job_lacks_reference(const lk_job *job) {
	const lk_model *model = &job->model;
	if (model->network != LK_NET_DECODER || !model->lm_head)
		return "preferences are about texts of a decoder";
	if (model->tower.layers > 0) return "the reference's encoder of images is not modelled";
	if (model->mtp_layers > 0) return "the reference predicts single tokens";
	if (job->pp > 1) return "the reference's forward pass is modelled without a pipeline";
	return NULL;
}

lk_status lk_job_check_reference(const lk_job *job, lk_error *err) {
	const char *lacks = lk_job_lacks_reference(job);
	if (!lacks) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, job->objective == LK_OBJECTIVE_DPO ? "--dpo" : "--task", "%s",
	        lacks);
	return lk_hint(err, job->pp > 1 ? "use --pp 1" : "leave it out");
}

void lk_job_fit_labels(lk_job *job) {
	lk_model *model = &job->model;
	lk_fill_int(&job->labels, kinds[job->objective].labels);
	if (job->labels == 0 || job->value_head) return;
	model->lm_head = model->tied = model->head_bias = model->head_transform = false;
	/* encoders score one vector a sequence, after a dense layer; decoders score every token */
	model->pooler |= model->network == LK_NET_ENCODER || model->network == LK_NET_ENCDEC;
}

static lk_status check_labels(const lk_job *job, lk_error *err) {
	const lk_model *model = &job->model;
	const char *why = NULL,
			   *where = job->objective == LK_OBJECTIVE_REWARD ? "--task" : "--num-labels";
	if (job->labels == 0) return LK_OK;
	if (model->network == LK_NET_CONV || model->network == LK_NET_DIFFUSION || model->vocab == 0)
		why = "classifiers of texts are modelled; this network has no vocabulary";
	else if (model->tower.apart)
		why = "a network trained by comparison of images and texts has no head";
	else if (model->mtp_layers > 0)
		why = "modules of multi-token prediction need the vocabulary's head";
	else if (lk_objective_of(job->objective)->reference > 0 || job->teacher)
		why = "the other network's logits are compared with those of this one";
	if (!why) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, where, "%s", why);
	return lk_hint(err, "leave it out");
}

lk_status lk_job_check_objective(const lk_job *job, lk_error *err) {
	const lk_objective_kind *kind = &kinds[job->objective];
	LK_TRY(check_labels(job, err));
	if (kind->reference > 0) LK_TRY(lk_job_check_reference(job, err));
	if (job->objective == LK_OBJECTIVE_ORPO && !job->model.lm_head) {
		lk_fail(err, LK_ERR_INPUT, "--task", "preferences are about texts of a decoder");
		return lk_hint(err, "leave it out");
	}
	if (!kind->pairs || job->mbs % 2 == 0) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--mbs", "%d sequences are not whole pairs", job->mbs);
	return lk_hint(err, "nearest: %d", job->mbs + 1);
}
