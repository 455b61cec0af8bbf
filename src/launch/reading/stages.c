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

#include "base/text.h"

/* So many stages of so many layers, in the form of Megatron-LM's layout. */
static void stages_add(lk_text *text, int stages, int layers) {
	if (stages > 0 && layers > 0) lk_text_add(text, "(t*%d|)*%d", layers, stages);
}

bool lk_launch_split(lk_job *job, const lk_model *model, int first_less, int last_less) {
	int stages = job->pp * (job->vp > 1 ? job->vp : 1);
	LK_ASSERT(stages > 0);
	int all = model->layers + first_less + last_less, each = all / stages, more = all % stages;
	lk_text text = lk_text_begin(job->pipeline_layout, sizeof job->pipeline_layout);
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
	lk_text_add(&text, "E");
	if (first > 0) lk_text_add(&text, "t*%d", first);
	lk_text_add(&text, "|");
	stages_add(&text, larger, each + 1);
	stages_add(&text, stages - 2 - larger, each);
	if (last > 0) lk_text_add(&text, "t*%d", last);
	lk_text_add(&text, "%sL", model->mtp_layers ? "m" : "");
	if (!lk_text_full(&text)) return true;
	job->pipeline_layout[0] = '\0';
	return false;
}
