/* score_memory.c: peak memory of the last pipeline stage, predicted like `lockstep predict`: the
 * same builder, the same walk over the graph (lk_step_ask). */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "fit/fits.h"
#include "model/layout/job.h"
#include "model/layout/sizes.h"
#include "validate/validate.h"
#include "step/step.h"
#include "base/text.h"

lk_status lk_memory_predict(const lk_memory_run *run, double *bytes, lk_error *err) {
	lk_step step;
	lk_step_options options = {.memory_only = true, .few = true};
	lk_status status = lk_step_ask(&run->job, &run->cluster, &options, &step, err);
	if (status == LK_OK) *bytes = step.memory[run->job.pp - 1].walk.peak;
	lk_step_free(&step);
	return status;
}

/* The closed form that an itemised prediction has to beat: model states of the
 * last stage, Korthikanti et al.'s activations (arXiv 2205.05198, table 2) and the logits.
 *
 *     states       P w + g + 12 / d bytes a parameter: 18 without the distributed optimizer,
 *                  6 + 12 / d with it
 *     activations  s b h (10 + 24 / t + 5 a s / (h t)), all of it over t with sequence parallelism;
 *                  5 a s / h only if attention is not fused; full recomputation keeps 2 s b h
 *     in flight    one micro-batch of the stage's layers, (v - 1) p + 1 chunks with v chunks
 *     logits       6 s b V / t */
static double layer_bytes(const lk_job *job) {
	const lk_model *model = &job->model;
	double s = (double)job->seq / job->cp, sbh = s * job->mbs * model->hidden, t = job->tp;
	double scores =
		job->attn_kernel == LK_KERNEL_UNFUSED ? 5.0 * model->heads * job->seq / model->hidden : 0;
	if (job->recompute == LK_RECOMPUTE_FULL) return 2 * sbh;
	if (job->sequence_parallel == LK_ON) return sbh / t * (34 + scores);
	return sbh * (10 + (24 + scores) / t);
}

static int layers_in_flight(const lk_job *job) {
	int first, last = job->vp - 1, count = lk_job_chunk_layers(job, job->pp - 1, last, &first);
	if (job->vp > 1) return count * (last * job->pp + 1);
	return count;
}

double lk_memory_closed_form(const lk_job *job) {
	lk_rank_params p = lk_sizes_stage(job, job->pp - 1);
	double d = lk_sizes_dp_ranks(job), e = lk_sizes_edp_ranks(job);
	bool shared = job->sharding != LK_SHARD_NONE;
	if (!shared) d = e = 1;
	double states = p.dense * (6 + 12 / d) + p.experts * (6 + 12 / e);
	double logits = 6.0 * job->seq / job->cp * job->mbs * job->padded_vocab / job->tp;
	return states + layers_in_flight(job) * layer_bytes(job) + logits;
}

static const char *schedule_of(const lk_job *job) {
	if (job->pp == 1) return "no pipeline";
	return job->vp > 1 ? "interleaved" : "1f1b";
}

static const char *memory_reason_of(lk_arena *arena, const lk_memory_run *run,
                                    const char *refused) {
	if (*refused) return refused;
	if (*run->suspect) return lk_arena_printf(arena, "not scored, suspect: %s", run->suspect);
	return *run->note ? run->note : NULL;
}

static lk_status memory_fill_row(lk_arena *arena, const lk_memory_run *run, lk_scoring *out,
                                 size_t i, lk_error *err) {
	lk_validated *row = &out->rows[i];
	const char *refused = run->refused;
	char text[900];
	row->id = lk_arena_printf(arena, "%s %s", run->test, run->env);
	if (!row->id) return lk_oom(err);
	row->where = run->where;
	row->model = run->model;
	row->gpu = run->gpu;
	row->unit = "bytes";
	row->measured = run->peak;
	lk_status status = *refused ? LK_OK : lk_memory_predict(run, &row->predicted, err);
	if (status == LK_ERR_MEMORY) return status;
	if (status != LK_OK) refused = lk_arena_strdup(arena, lk_error_text(err, text, sizeof text));
	if (!refused) return lk_oom(err);
	row->reason = memory_reason_of(arena, run, refused);
	if (*run->suspect && !row->reason) return lk_oom(err);
	out->scores[i].suspect = *run->suspect != '\0';
	out->divisions[0].keys[i] = (lk_score_key){run->class, 0};
	out->divisions[1].keys[i] = (lk_score_key){run->gpu, 0};
	if (*refused) return LK_OK;
	row->gpus = run->job.gpus;
	row->precision = lk_dtype_name(run->job.dtype);
	row->layout = schedule_of(&run->job);
	out->divisions[2].keys[i] = (lk_score_key){row->layout, 0};
	out->baselines[0].predicted[i] = lk_memory_closed_form(&run->job);
	return LK_OK;
}

/* The range of every row: from the calibration, or from the other tests' rows. */
static lk_status fill_ranges(lk_arena *arena, const lk_memory_runs *runs, bool cross,
                             lk_scoring *out, lk_error *err) {
	lk_memory_residual *known = LK_ARRAY(arena, lk_memory_residual, out->count + 1);
	if (!known) return lk_oom(err);
	for (size_t i = 0; i < out->count; i++) {
		bool counts = !*runs->at[i].suspect && out->rows[i].predicted > 0;
		known[i] = (lk_memory_residual){runs->at[i].class, runs->at[i].test,
		                                counts ? out->rows[i].predicted : 0, out->rows[i].measured};
	}
	lk_memory_band band = {0};
	for (size_t i = 0; i < out->count; i++) {
		bool same = i > 0 && strcmp(known[i].fold, known[i - 1].fold) == 0 &&
		            known[i].class == known[i - 1].class;
		if (!same && cross)
			LK_TRY(
				lk_memory_band_fit(known, out->count, known[i].class, known[i].fold, &band, err));
		if (!same && !cross) band = lk_memory_band_known(known[i].class);
		lk_memory_band_apply(&band, out->rows[i].predicted, &out->rows[i].low, &out->rows[i].high);
	}
	return LK_OK;
}

static lk_status score_memory_score(lk_arena *arena, const lk_validate_request *request,
                                    lk_stream *in, lk_memory_runs *runs, lk_scoring *out,
                                    lk_error *err) {
	static const char *const by[] = {"class", "gpu", "schedule"};
	LK_TRY(lk_memory_read(arena, in, runs, err));
	LK_TRY(lk_scoring_rows(arena, runs->count, out, err));
	for (int d = 0; d < 3; d++)
		if (!lk_scoring_divide(arena, out, by[d])) return lk_oom(err);
	if (!lk_scoring_baseline(arena, out, "closed form", 0)) return lk_oom(err);
	for (size_t i = 0; i < runs->count; i++)
		LK_TRY(memory_fill_row(arena, &runs->at[i], out, i, err));
	if (request->cross) out->folds = "test, for the ranges; the predictions are not fitted";
	return fill_ranges(arena, runs, request->cross, out, err);
}

lk_status lk_score_memory(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                          lk_scoring *out, lk_error *err) {
	lk_memory_runs runs = {0};
	lk_status status = score_memory_score(arena, request, in, &runs, out, err);
	lk_vec_free(&runs);
	return status;
}
