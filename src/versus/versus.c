/* versus.c: a traced run against its job: the trace is explained, the job predicted, the predicted
 * step explained by the same rule, and both compared. */
#include "versus/versus.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "diff/diff.h"

static void versus_free(void *owner) {
	lk_compared_run *run = owner;
	lk_explain_free(run->expected);
	lk_predict_free(run->predicted);
	lk_arena_free(&run->arena);
	free(run);
}

static const char *versus_sentence(lk_compared_run *run) {
	const lk_versus *of = &run->result;
	char step[32], low[32], high[32];
	lk_format_seconds(of->measured_s, step, sizeof step);
	lk_format_seconds(of->low_s, low, sizeof low);
	lk_format_seconds(of->high_s, high, sizeof high);
	if (of->inside)
		return lk_arena_printf(&run->arena, "%s a step is as expected (%s to %s)", step, low, high);
	return lk_arena_printf(&run->arena,
	                       "%s a step is %.3g times the prediction, and %s its range (%s to %s)",
	                       step, of->ratio, of->ratio > 1 ? "above" : "below", low, high);
}

/* The MFU that a step of this length has: the operations of the job are the same. */
static void fill_steps(lk_versus *out, const lk_prediction *predicted,
                       const lk_explanation *measured) {
	out->predicted_s = predicted->step_time_s;
	out->low_s = predicted->step_time_low_s;
	out->high_s = predicted->step_time_high_s;
	out->measured_s = measured->step_s;
	out->ratio = out->measured_s / out->predicted_s;
	out->inside = out->measured_s >= out->low_s && out->measured_s <= out->high_s;
	out->predicted_mfu = predicted->mfu;
	out->measured_mfu = predicted->mfu / out->ratio;
}

static const char *versus_check(const lk_versus *of) {
	double predicted = 0, measured = 0;
	for (int i = 0; i < of->part_count; i++) {
		predicted += of->parts[i].predicted_s;
		measured += of->parts[i].measured_s;
	}
	/* steps of clocks in whole microseconds may overlap a little; stages that are not measured
	 * differ from the mean of all */
	LK_HOLDS(fabs(measured - of->measured_s) <= 1e-2 * of->measured_s);
	LK_HOLDS(fabs(predicted - of->predicted_s) <= 1e-2 * of->predicted_s);
	return NULL;
}

static lk_status versus_compare(lk_compared_run *run, lk_explanation *measured,
                                const lk_predict_request *job, int threads, lk_error *err) {
	lk_versus *out = &run->result;
	lk_predict_request ask = *job;
	ask.step = ask.no_fixes = ask.no_sensitivity = true;
	LK_TRY(lk_predict(&ask, &run->predicted, err));
	out->predicted = run->predicted;
	fill_steps(out, run->predicted, measured);
	LK_TRY(lk_versus_expected(run->predicted, measured, &run->expected, err));
	out->predicted_step = run->expected;
	double *expected_s = LK_ARRAY(&run->arena, double, (size_t)measured->operation_count);
	if (!expected_s) return lk_oom(err);
	LK_TRY(lk_diff_pair(&run->arena, run->expected, measured, &out->operations,
	                    &out->operation_count, expected_s, err));
	LK_TRY(lk_explain_expect(measured, expected_s, err));
	LK_TRY(lk_versus_parts(run, measured, err));
	LK_TRY(lk_versus_scaling(run, measured, err));
	LK_TRY(lk_versus_causes(run, measured, job, threads, err));
	out->sentence = versus_sentence(run);
	if (!out->sentence) return lk_oom(err);
	out->failed_check = lk_failed_check(versus_check(out));
	return LK_OK;
}

static lk_status check_job(const lk_explanation *measured, const lk_predict_request *job,
                           lk_error *err) {
	if (!measured->kernels)
		return lk_fail(err, LK_ERR_INPUT, "--job",
		               "the traces have no work of a device to compare with a job");
	if (job->task && lk_predict_posts(job))
		return lk_fail(err, LK_ERR_INPUT, "--job",
		               "a step of %s has several phases, which no trace of training shows",
		               job->task);
	return LK_OK;
}

lk_status lk_versus_explain(const lk_explain_request *request, const lk_predict_request *job,
                            lk_explanation **out, lk_error *err) {
	lk_explain_request ask = *request;
	ask.operations = true;
	LK_TRY(lk_explain(&ask, out, err));
	lk_compared_run *run = calloc(1, sizeof *run);
	if (run) run->result.job = request->job;
	lk_status status = run ? check_job(*out, job, err) : lk_oom(err);
	if (status == LK_OK) status = versus_compare(run, *out, job, request->threads, err);
	if (status != LK_OK) {
		if (run) versus_free(run);
		lk_explain_free(*out);
		*out = NULL;
		return status;
	}
	if (run->result.failed_check && !(*out)->failed_check)
		(*out)->failed_check = run->result.failed_check;
	lk_explain_attach(*out, &run->result, run, versus_free);
	return LK_OK;
}
