/* job_tower.c: networks beside the one that trains, as jobs of their own: the image encoder before
 * a language model, the frozen teacher of a distillation (Hinton et al., arXiv 1503.02531), which
 * is laid out like the trained network. */
#include "model/layout/job.h"

bool lk_job_tower(const lk_job *job, lk_job *out) {
	lk_model model;
	if (!lk_model_tower(&job->model, &model)) return false;
	*out = *job;
	out->model = model;
	out->task = LK_TASK_PRETRAIN;
	out->sequence_parallel = LK_OFF;
	out->seq = (int)lk_model_image_tokens(&model);
	out->mbs = job->mbs * job->model.tower.images;
	out->decoder_seq = out->padded_vocab = 0;
	out->logit_share = 0;
	out->pack_share = 0;
	out->ep = 1;
	out->etp = job->tp;
	/* both recompute the same modules, as far as an encoder has them, and in all its layers */
	int dense = LK_MODULE_CORE_ATTN | LK_MODULE_MLP | LK_MODULE_LAYERNORM;
	if (out->recompute_modules && !(out->recompute_modules & dense))
		out->recompute = LK_RECOMPUTE_NONE;
	out->recompute_modules &= dense;
	out->recompute_layers = 0;
	return true;
}

bool lk_job_trains_tower(const lk_job *job) {
	return job->task != LK_TASK_LORA && !job->freeze_tower;
}

bool lk_job_trains_projector(const lk_job *job) {
	return job->task != LK_TASK_LORA;
}

lk_status lk_job_check_tower(const lk_job *job, lk_error *err) {
	const lk_tower *tower = &job->model.tower;
	char near[LK_JOB_NEAR];
	if (tower->layers <= 0) return LK_OK;
	if (job->cp > 1) {
		lk_fail(err, LK_ERR_INPUT, "--cp",
		        "context parallelism of a network with an encoder of images is not modelled");
		return lk_hint(err, "leave it out");
	}
	if (tower->heads % job->tp != 0 || tower->ffn % job->tp != 0) {
		lk_fail(err, LK_ERR_INPUT, "--tp",
		        "%d heads and an MLP of %d of the encoder of images are not divisible by %d",
		        tower->heads, tower->ffn, job->tp);
		return lk_hint(err, "nearest: %s", lk_near_divisors(near, job->tp, tower->heads));
	}
	for (int i = 0; i < LK_PROJECTOR_WIDTHS; i++) {
		if (tower->project.width[i] % job->tp == 0) continue;
		lk_fail(err, LK_ERR_INPUT, "--tp", "the projector's width of %d is not divisible by %d",
		        tower->project.width[i], job->tp);
		return lk_hint(err, "nearest: %s",
		               lk_near_divisors(near, job->tp, tower->project.width[i]));
	}
	double tokens = lk_tower_tokens(tower), images = tower->images;
	if (images * job->mbs > 1 << 24)
		return lk_fail(err, LK_ERR_INPUT, "--images", "%g images in a micro-batch of %d sequences",
		               images, job->mbs);
	if (tower->crossed && job->pp > 1) {
		lk_fail(err, LK_ERR_INPUT, "--pp",
		        "pipelines of a network whose layers read images' tokens are not modelled");
		return lk_hint(err, "leave it out");
	}
	if (tower->apart || tower->crossed || images * tokens <= job->seq) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--images",
	        "%g images of %g tokens each are longer than a sequence of %d", images, tokens,
	        job->seq);
	return lk_hint(err, "use a longer --seq, fewer or smaller images");
}

bool lk_job_teacher(const lk_job *job, lk_job *out) {
	if (!job->teacher) return false;
	*out = *job;
	out->model = *job->teacher;
	out->model.mtp_layers = 0; /* it predicts single tokens */
	out->teacher = NULL;
	out->task = LK_TASK_PRETRAIN;
	out->narrow_base = out->dora = false;
	out->objective = LK_OBJECTIVE_TOKENS;
	out->recompute = LK_RECOMPUTE_NONE;
	out->offload_activations = false;
	int experts = out->model.experts;
	bool divided = experts > 0 && job->model.experts > 0 && experts % job->ep == 0;
	out->ep = divided ? job->ep : 1;
	out->etp = divided ? job->etp : job->tp;
	int multiple = (job->vocab_multiple > 0 ? job->vocab_multiple : 1) * job->tp;
	out->padded_vocab = (out->model.vocab + multiple - 1) / multiple * multiple;
	return true;
}
