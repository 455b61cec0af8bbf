/* job_loss.c: losses that hold the logits of only some tokens at a time, or none (--loss;
 * docs/method/memory.md).
 *
 *     linear    Liger's fused linear cross-entropy: pieces of next_power_of_2(T / ceil(V / h))
 *               tokens, so that a piece's logits are about as large as the hidden states
 *               (linkedin/Liger-Kernel, ops/fused_linear_cross_entropy.py)
 *     cut       Cut Cross-Entropy: blocks of logits in shared memory alone (arXiv 2411.09009)
 *     native    all logits, by Megatron-LM's own fusion, which makes two fp32 copies
 *     chunked   N pieces (torchtitan's ChunkedCELoss, torchtune, TRL), 8 by default
 */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "model/layout/job.h"

static const int USUAL_CHUNKS = 8;

const char *const lk_loss_names[] = {"logits", "linear", "cut", "chunked", NULL};

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
	return lk_hint(err, "give one of logits, native, linear, cut, chunked or chunked/N");
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
	    job->model.vocab == 0 || !job->model.lm_head)
		why = "the model has no logits over a vocabulary";
	else if (job->teacher) why = "distillation reads the logits of all tokens";
	else if (job->defer_head_gradient == LK_ON && job->loss != LK_LOSS_CUT)
		why = "a deferred gradient of the head needs the gradients of all logits";
	else if (job->fused_cross_entropy == LK_ON && job->loss != LK_LOSS_CHUNKED)
		why = "this loss works on logits in place already", what = "leave out --fused-loss";
	if (!why) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--loss", "%s", why);
	return lk_hint(err, "%s", what);
}
