/* asked_options.c: the options of the simulation that a request states, and the peak that its MFU
 * is a share of. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "predict/predict.h"
#include "predict/predict_internal.h"

lk_status lk_read_stragglers(lk_arena *arena, const char *text, lk_step_options *out,
                             lk_error *err) {
	if (!text) return LK_OK;
	size_t count = 1;
	for (const char *c = text; *c; c++) count += *c == ',';
	lk_straggler *list = LK_ARRAY(arena, lk_straggler, count);
	char *copy = lk_arena_strdup(arena, text), *next = copy, *item;
	if (!list || !copy) return lk_oom(err);
	while ((item = strsep(&next, ","))) { /* an empty item is a typo too */
		char *colon = strchr(item, ':');
		long long rank;
		if (!colon) {
			lk_fail(err, LK_ERR_INPUT, "--straggler", "'%s' has no factor", item);
			return lk_hint(err, "write RANK:FACTOR, as in 5:1.3");
		}
		*colon = '\0';
		LK_TRY(lk_parse_int(item, 0, UINT32_MAX - 1, &rank, "--straggler", err));
		LK_TRY(lk_parse_real(colon + 1, 0.01, 1000, &list[out->straggler_count].factor,
		                     "--straggler", err));
		list[out->straggler_count++].rank = (uint32_t)rank;
	}
	out->stragglers = list;
	return LK_OK;
}

lk_status lk_read_ranks(lk_arena *arena, const char *text, const char *where, lk_step_options *out,
                        lk_error *err) {
	if (!text) return LK_OK;
	size_t count = 1;
	for (const char *c = text; *c; c++) count += *c == ',';
	uint32_t *list = LK_ARRAY(arena, uint32_t, count);
	char *copy = lk_arena_strdup(arena, text), *next = copy, *item;
	if (!list || !copy) return lk_oom(err);
	while ((item = strsep(&next, ","))) {
		long long rank;
		LK_TRY(lk_parse_int(item, 0, UINT32_MAX - 1, &rank, where, err));
		list[out->record_count++] = (uint32_t)rank;
	}
	out->record = list;
	return LK_OK;
}

lk_status lk_predict_simulation(lk_arena *arena, const lk_predict_request *request, uint32_t world,
                                lk_step_options *out, lk_error *err) {
	*out = (lk_step_options){.exact = request->exact,
	                         .no_contention = request->no_contention,
	                         .jitter = request->noise ? 0 : request->jitter,
	                         .gpu_spread = request->noise ? 0 : request->gpu_spread,
	                         .seed = (uint64_t)request->seed};
	if (request->ranks && !lk_same_name(request->ranks, "all")) {
		lk_fail(err, LK_ERR_INPUT, "--ranks", "'%s' is not understood", request->ranks);
		return lk_hint(err,
		               "the only value is all; without it, one rank of each class is simulated");
	}
	out->all_ranks = request->ranks != NULL;
	if (request->seed != floor(request->seed)) {
		lk_fail(err, LK_ERR_INPUT, "--seed", "%g is not a whole number", request->seed);
		return lk_hint(err, "give one from 0 on");
	}
	LK_TRY(lk_read_stragglers(arena, request->straggler, out, err));
	for (uint32_t i = 0; i < out->straggler_count; i++)
		if (out->stragglers[i].rank >= world)
			return lk_fail(err, LK_ERR_INPUT, "--straggler", "there is no rank %u; the last is %u",
			               out->stragglers[i].rank, world - 1);
	return lk_read_ranks(arena, request->trace_ranks, "--trace-ranks", out, err);
}

/* Mean dense peak of the GPUs of the job's ranks; `mixed`: they are of several kinds. */
double lk_predict_peak(const lk_job *job, const lk_cluster *cluster, bool *mixed) {
	double sum = 0;
	int64_t left = job->gpus;
	*mixed = false;
	for (int i = 0; i < cluster->groups && left > 0; i++) {
		const lk_device *device = cluster->node[i].device;
		int64_t held = (int64_t)cluster->nodes[i] * cluster->node[i].gpus,
				used = held < left ? held : left;
		sum += lk_device_peak(device, job->dtype) * (double)used;
		left -= used;
		*mixed |= device != cluster->node[0].device;
	}
	return sum / job->gpus;
}
