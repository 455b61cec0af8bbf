/* score_dlrm.c: training steps of recommendation models on one device. Nothing is fitted to the
 * rows: kernels come from other measurements, host overheads from profiles of recommendation models
 * on one of the devices, shared by all rows. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "tables/tables.h"
#include "validate/validate.h"
#include "fit/fits.h"
#include "shard/shard.h"

struct scorer {
	lk_arena *arena;
	const lk_validate_request *request;
	const lk_dlrm_run *runs;
	size_t count;
	lk_host_terms host;
	lk_dlrm_time *times; /* [count] */
	lk_scoring *out;
};

/* ---- host overheads ---- */

/* Of recommendation models, at the table's batches. */
static lk_host_kind dlrm_kind_of(const struct scorer *scorer) {
	lk_host_kind kind = {"DLRM", INFINITY, 0};
	for (size_t i = 0; i < scorer->count; i++) {
		kind.least = fmin(kind.least, scorer->runs[i].batch);
		kind.most = fmax(kind.most, scorer->runs[i].batch);
	}
	return kind;
}

static lk_status read_terms(const struct scorer *scorer, const char *path, lk_host_terms *out,
                            lk_error *err) {
	const lk_host_kind kind = dlrm_kind_of(scorer);
	lk_stream *in;
	LK_TRY(lk_stream_open(path, &in, err));
	lk_status status = lk_host_terms_read(in, &kind, out, err);
	lk_stream_close(in);
	return status;
}

/* ---- rows ---- */

static const char *dlrm_why_not(const lk_dlrm_run *run) {
	if (!run->device) return "the device is not in the catalogue";
	if (!run->known) return "the recommendation model is not known";
	return NULL;
}

static lk_status dlrm_fill_row(struct scorer *scorer, size_t i, lk_error *err) {
	const lk_dlrm_run *run = &scorer->runs[i];
	lk_validated *row = &scorer->out->rows[i];
	row->id = lk_arena_printf(scorer->arena, "%s batch %.0f", run->name, run->batch);
	if (!row->id) return lk_oom(err);
	row->where = run->where;
	row->model = run->name;
	row->gpu = run->gpu;
	row->gpus = 1;
	row->precision = "fp32";
	row->measured = run->seconds;
	row->reason = dlrm_why_not(run);
	if (row->reason) return LK_OK;
	LK_TRY(lk_dlrm_predict(&run->model, run->batch, run->device, &scorer->host, &scorer->times[i],
	                       err));
	row->predicted = scorer->times[i].step_s;
	lk_eager_device device;
	lk_eager_device_of(run->device, LK_FP32, &device);
	lk_shard_step_range(device.measured, &row->low, &row->high);
	row->low *= row->predicted, row->high *= row->predicted;
	return LK_OK;
}

static lk_status dlrm_divide(struct scorer *scorer, lk_error *err) {
	lk_score_key *class = lk_scoring_divide(scorer->arena, scorer->out, "class");
	lk_score_key *gpu = lk_scoring_divide(scorer->arena, scorer->out, "gpu");
	lk_score_key *model = lk_scoring_divide(scorer->arena, scorer->out, "model");
	lk_score_key *batch = lk_scoring_divide(scorer->arena, scorer->out, "batch");
	if (!class || !gpu || !model || !batch) return lk_oom(err);
	for (size_t i = 0; i < scorer->count; i++) {
		class[i].name = scorer->times[i].class;
		gpu[i].name = scorer->runs[i].gpu;
		model[i].name = scorer->runs[i].name;
		batch[i] = (lk_score_key){lk_arena_printf(scorer->arena, "%.0f", scorer->runs[i].batch),
		                          (int)scorer->runs[i].batch};
		if (!batch[i].name) return lk_oom(err);
	}
	return LK_OK;
}

/* ---- baselines ---- */

/* The mean by ratio of the other models' steps on the GPU, at the nearest batch. */
static double nearest_of_others(const struct scorer *scorer, size_t i) {
	const lk_dlrm_run *run = &scorer->runs[i];
	double least = INFINITY, sum = 0;
	int rows = 0;
	for (size_t k = 0; k < scorer->count; k++) {
		const lk_dlrm_run *other = &scorer->runs[k];
		if (strcmp(other->gpu, run->gpu) != 0 || strcmp(other->name, run->name) == 0) continue;
		double far = fabs(log(other->batch / run->batch));
		if (far < least) {
			least = far;
			sum = 0;
			rows = 0;
		}
		if (far == least) {
			sum += log(other->seconds);
			rows++;
		}
	}
	return rows ? exp(sum / rows) : NAN;
}

static lk_status dlrm_add_baselines(struct scorer *scorer, lk_error *err) {
	lk_baseline *kernels = lk_scoring_baseline(scorer->arena, scorer->out, "kernels alone", 0);
	lk_baseline *host = lk_scoring_baseline(scorer->arena, scorer->out, "host alone", 0);
	lk_baseline *nearest = lk_scoring_baseline(scorer->arena, scorer->out,
	                                           "other models on the GPU, nearest batch", 1);
	if (!kernels || !host || !nearest) return lk_oom(err);
	for (size_t i = 0; i < scorer->count; i++) {
		if (scorer->out->rows[i].reason) continue;
		kernels->predicted[i] = scorer->times[i].kernels_s;
		host->predicted[i] = scorer->times[i].host_s;
		nearest->predicted[i] = nearest_of_others(scorer, i);
	}
	return LK_OK;
}

static lk_status dlrm_score(struct scorer *scorer, lk_error *err) {
	LK_TRY(lk_scoring_rows(scorer->arena, scorer->count, scorer->out, err));
	scorer->times = LK_ARRAY(scorer->arena, lk_dlrm_time, scorer->count);
	if (!scorer->times) return lk_oom(err);
	LK_TRY(scorer->request->overheads
	           ? read_terms(scorer, scorer->request->overheads, &scorer->host, err)
	           : lk_host_terms_known(&scorer->host, err));
	for (size_t i = 0; i < scorer->count; i++) LK_TRY(dlrm_fill_row(scorer, i, err));
	LK_TRY(dlrm_divide(scorer, err));
	LK_TRY(dlrm_add_baselines(scorer, err));
	scorer->out->unit_of_rows = "training step";
	return LK_OK;
}

lk_status lk_score_dlrm(lk_arena *arena, const lk_validate_request *request, lk_stream *in,
                        lk_scoring *out, lk_error *err) {
	lk_dlrm_runs runs = {0};
	lk_status status = lk_dlrm_runs_read(arena, in, &runs, err);
	struct scorer s = {
		.arena = arena, .request = request, .runs = runs.at, .count = runs.count, .out = out};
	if (status == LK_OK) status = dlrm_score(&s, err);
	lk_host_terms_free(&s.host);
	lk_vec_free(&runs);
	return status;
}
