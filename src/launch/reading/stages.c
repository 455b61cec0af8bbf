/* stages.c: layers that are no multiple of a pipeline's stages, as frameworks of PyTorch split
 * them.
 *
 * AutoModel: the first stages have one more than the others. torchtitan counts the embedding and
 * the head as layers of the first and the last stage (pipeline_parallel_first_stage_less_layers and
 * last_stage_less_layers, default 1 each) and splits likewise
 * (torchtitan/distributed/pipeline_parallel.py, generate_llm_fqn_per_model_part). */
#include "base/check.h"
#include "launch/reading/reading.h"
#include "model/layout/job.h"

#include <stdio.h>

/* So many stages of so many layers, in the form of Megatron-LM's layout. */
static size_t stages_add(char *out, size_t size, size_t used, int stages, int layers) {
	int n = 0;
	if (used < size && stages > 0 && layers > 0)
		n = snprintf(out + used, size - used, "(t*%d|)*%d", layers, stages);
	return used + (size_t)(n > 0 ? n : 0);
}

bool lk_launch_split(lk_job *job, const lk_model *model, int first_less, int last_less) {
	int stages = job->pp * (job->vp > 1 ? job->vp : 1);
	LK_ASSERT(stages > 0);
	int all = model->layers + first_less + last_less, each = all / stages, more = all % stages;
	char *out = job->pipeline_layout;
	size_t size = sizeof job->pipeline_layout, used;
	job->pipeline_layout[0] = '\0';
	job->account_embedding = job->account_loss = false;
	if (stages < 2 || model->mtp_layers > 1 || model->decoder_layers > 0) return false;
	if (more == 0 && first_less <= 1 && last_less <= 1) {
		job->account_embedding = first_less == 1;
		job->account_loss = last_less == 1;
		return true;
	}
	int first = each + (more > 0) - first_less, last = each - last_less;
	if (first < 0 || last < 0 || each < 1) return false;
	int larger = more > 1 ? more - 1 : 0;
	LK_ASSERT(first + larger * (each + 1) + (stages - 2 - larger) * each + last == model->layers);
	used = first > 0 ? (size_t)snprintf(out, size, "Et*%d|", first)
	                 : (size_t)snprintf(out, size, "E|");
	used = stages_add(out, size, used, larger, each + 1);
	used = stages_add(out, size, used, stages - 2 - larger, each);
	if (last > 0 && used < size) used += (size_t)snprintf(out + used, size - used, "t*%d", last);
	if (used < size)
		used += (size_t)snprintf(out + used, size - used, "%sL", model->mtp_layers ? "m" : "");
	if (used < size) return true;
	job->pipeline_layout[0] = '\0';
	return false;
}
