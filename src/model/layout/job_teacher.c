/* job_teacher.c: the frozen teacher of a distillation (Hinton et al., arXiv 1503.02531) as a job of
 * its own, laid out like the trained network. */
#include "model/layout/job.h"

bool lk_job_teacher(const lk_job *job, lk_job *out) {
	if (!job->teacher) return false;
	*out = *job;
	out->model = *job->teacher;
	out->model.mtp_layers = 0; /* it predicts single tokens */
	out->teacher = NULL;
	out->task = LK_TASK_PRETRAIN;
	out->narrow_base = out->dora = out->dpo = false;
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
