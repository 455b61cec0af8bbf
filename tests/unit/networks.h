/* networks.h: for tests of networks: a config's text as a network, its step on H100s, what the step
 * keeps. */
#ifndef LK_TEST_NETWORKS_H
#define LK_TEST_NETWORKS_H

#include <math.h>
#include <string.h>

#include "scratch.h"

#include "base/arena.h"
#include "base/text.h"
#include "hw/hw_internal.h"
#include "io/json.h"
#include "model/build/build.h"
#include "step/step.h"

static inline lk_status read_text(const char *text, lk_model *model, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_stream *in = NULL;
	lk_value *tree = NULL;
	lk_status status = lk_stream_memory(text, strlen(text), "c.json", &in, err);
	if (status == LK_OK) status = lk_json_document(&arena, in, &tree, err);
	if (status == LK_OK) status = lk_model_from_hf(tree, "c.json", NULL, model, NULL, err);
	lk_stream_close(in);
	lk_arena_free(&arena);
	return status;
}

static inline lk_model model_of(const char *text) {
	lk_model model;
	lk_error err = {0};
	if (read_text(text, &model, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	return model;
}

static inline lk_step ask(const lk_model *model, lk_job job, lk_arena *arena) {
	lk_step_options options = {.exact = true};
	lk_cluster cluster;
	lk_error err;
	lk_step step = {0};
	job.model = *model;
	job.recompute_said = true;
	assert_int_equal(
		lk_cluster_parse(arena, "1 node * 8 h100-sxm nvlink4, nic 8*400g", &cluster, &err), LK_OK);
	if (lk_job_complete(&job, &cluster, &err) != LK_OK ||
	    lk_step_ask(&job, &cluster, &options, &step, &err) != LK_OK)
		fail_msg("%s: %s: %s", model->name, err.where, err.what);
	return step;
}

/* Bytes of activations that the programs leave, and that they allocate. */
static inline double left_over(const lk_graph *graph, double *made) {
	double sum = 0;
	*made = 0;
	for (size_t p = 0; p < graph->programs.count; p++)
		for (size_t c = 0; c < graph->programs.at[p].calls.count; c++) {
			const lk_call *call = &graph->programs.at[p].calls.at[c];
			for (uint32_t op = graph->blocks.at[call->block].begin;
			     op < graph->blocks.at[call->block].end; op++) {
				if (graph->ops.alloc_owner[op] == LK_OWN_ACTIVATIONS)
					*made += call->repeat * graph->ops.alloc[op];
				if (graph->ops.release_owner[op] == LK_OWN_ACTIVATIONS)
					sum += call->repeat * graph->ops.release[op];
			}
		}
	return *made - sum;
}

#endif
