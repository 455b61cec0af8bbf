/* small_llama.h: a job whose counts are made by hand, and sums over the operations of its step. */
#ifndef LK_TEST_SMALL_LLAMA_H
#define LK_TEST_SMALL_LLAMA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "model/build/build.h"
#include "model/read/read.h"

static inline void near(double value, double wanted) {
	if (fabs(value - wanted) > 1e-9 * fabs(wanted)) fail_msg("%.12g, not %.12g", value, wanted);
}

/* Two layers of Llama's kind, h 1024, 16 heads of 64, 4 of keys and values, f 3072, 4096 words, on
 * one GPU. */
static inline lk_job small_llama(void) {
	lk_job job = {0};
	lk_error err;
	assert_int_equal(lk_model_preset("llama3.1-8b", &job.model, &err), LK_OK);
	job.model.layers = 2, job.model.hidden = 1024, job.model.heads = 16;
	job.model.kv_heads = 4, job.model.head_dim = 64, job.model.ffn = 3072, job.model.vocab = 4096;
	job.gpus = job.dp = 1;
	job.seq = 1024;
	return job;
}

static inline void complete(lk_job *job) {
	lk_error err;
	if (lk_job_complete(job, NULL, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
}

/* A column of all operations that `counts` says, over the calls of the first stage's step. */
static inline double sum_over(lk_job job,
                              bool (*counts)(const lk_graph *, uint32_t op, const void *what),
                              const void *what, const double *(*column)(const lk_ops *)) {
	lk_graph *graph;
	lk_error err;
	double sum = 0;
	complete(&job);
	if (lk_build_graph(&job, &graph, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	if (lk_graph_check(graph, &err) != LK_OK) fail_msg("%s: %s", err.where, err.what);
	const lk_program *program = &graph->programs.at[0];
	for (size_t i = 0; i < program->calls.count; i++) {
		const lk_call *call = &program->calls.at[i];
		const lk_block *block = &graph->blocks.at[call->block];
		for (uint32_t op = block->begin; op < block->end; op++)
			if (counts(graph, op, what)) sum += call->repeat * column(&graph->ops)[op];
	}
	lk_graph_free(graph);
	return sum;
}

static inline const double *flops_of(const lk_ops *ops) {
	return ops->flops;
}
static inline const double *bytes_of(const lk_ops *ops) {
	return ops->bytes;
}

#endif
