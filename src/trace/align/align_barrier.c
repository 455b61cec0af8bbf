/* align_barrier.c: how well the barrier rule predicts ends that the clock fit has not seen. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/align/align_internal.h"

enum { MOST_FOLDS = 32 };

struct prediction {
	lk_aligner a;
	double *ends, *others, *errors;
	size_t count;
	lk_barrier_error *out;
};

/* Predict every rank's end from all arrivals and the others' transfer time. */
static void predict_ends(struct prediction *prediction, uint32_t match) {
	const lk_traces *traces = prediction->a.traces;
	const lk_match *m = &traces->matches.at[match];
	size_t n = lk_aligned_ends(&prediction->a, m, prediction->ends);
	if (n < 2 || n != m->end - m->begin) return;
	double latest = -INFINITY;
	for (uint32_t k = m->begin; k < m->end; k++) {
		lk_match_member member = traces->members.at[k];
		double own = (double)traces->capture[member.capture]->start_ns[member.event];
		latest = fmax(latest, lk_on_common(&prediction->a, member.capture, own));
	}
	for (size_t r = 0; r < n; r++) {
		size_t others = 0;
		for (size_t k = 0; k < n; k++)
			if (k != r) prediction->others[others++] = prediction->ends[k] - latest;
		double error =
			fabs(latest + lk_select_median(prediction->others, others) - prediction->ends[r]);
		prediction->errors[prediction->count++] = error;
		if (error < prediction->out->max_ns) continue;
		prediction->out->max_ns = error;
		prediction->out->worst_match = match;
		prediction->out->worst_capture = traces->members.at[m->begin + r].capture;
	}
	prediction->out->collectives++;
}

static lk_status barrier_predict_fold(struct prediction *prediction, uint32_t fold,
                                      uint32_t folds) {
	const lk_traces *traces = prediction->a.traces;
	memset(prediction->a.fit, 0, traces->count * sizeof *prediction->a.fit);
	prediction->a.skip = fold;
	prediction->a.folds = folds;
	double slope;
	LK_TRY(lk_clocks_fit(&prediction->a, &slope));
	for (uint32_t m = fold; m < traces->matches.count; m += folds)
		if (lk_all_wait(traces, &traces->matches.at[m])) predict_ends(prediction, m);
	return LK_OK;
}

lk_status lk_traces_barrier_error(const lk_traces *traces, lk_barrier_error *out, lk_error *err) {
	*out = (lk_barrier_error){0};
	struct prediction p = {.out = out};
	lk_status status = lk_aligner_open(&p.a, traces, err);
	p.ends = malloc((traces->count + 1) * sizeof *p.ends);
	p.others = malloc((traces->count + 1) * sizeof *p.others);
	p.errors = malloc((traces->members.count + 1) * sizeof *p.errors);
	if (!p.ends || !p.others || !p.errors) status = lk_oom(err);
	uint32_t folds =
		traces->matches.count < MOST_FOLDS ? (uint32_t)traces->matches.count : MOST_FOLDS;
	for (uint32_t f = 0; f < folds && status == LK_OK; f++)
		status = barrier_predict_fold(&p, f, folds);
	out->ends = (uint32_t)p.count;
	if (p.count) out->median_ns = lk_select_median(p.errors, p.count);
	free(p.ends);
	free(p.others);
	free(p.errors);
	lk_aligner_close(&p.a);
	return status;
}
