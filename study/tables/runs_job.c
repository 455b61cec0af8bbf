/* runs_job.c: a row of a table of runs as a job on a cluster.
 *
 * The network is the catalogue's of that name if its sizes agree with the columns: it supplies what
 * has no column (norms, biases, learned positions, tied embeddings, sliding windows). Otherwise it
 * follows from the columns alone: a gated MLP means the llama family (RMSNorm, no biases), two
 * matrices the GPT family. Stated columns win.
 *
 * What a row leaves open is filled from stack_defaults.c, then by lk_job_complete, with the
 * features of its stack and release. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "tables/tables_internal.h"
#include "tables/tables.h"
#include "base/text.h"
#include "model/read/read.h"

/* DeepSeek-V3's latent attention (arXiv 2412.19437, 4.2), for networks that are not in the
 * catalogue. */
enum { MLA_Q = 1536, MLA_KV = 512, MLA_NOPE = 128, MLA_ROPE = 64, MLA_V = 128 };

static void job_take(int *to, int stated) {
	if (stated != LK_EMPTY) *to = stated;
}

/* Whether the row describes this network: no stated size differs. */
static bool agrees(const lk_model *model, const lk_run_row *row) {
	const int pairs[][2] = {
		{row->layers, model->layers},
		{row->hidden, model->hidden},
		{row->heads, model->heads},
		{row->ffn, model->ffn},
		{row->experts == 0 ? LK_EMPTY : row->experts, model->experts},
		{row->gated, model->gated},
	};
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (pairs[i][0] != LK_EMPTY && pairs[i][0] != pairs[i][1]) return false;
	return model->network == LK_NET_DECODER;
}

static lk_model plain_network(const lk_run_row *row) {
	bool gated = row->gated != 0;
	return (lk_model){
		.norm = gated ? LK_NORM_RMS : LK_NORM_LAYER,
		.norms_per_layer = 2,
		.final_norm = true,
		.norm_bias = !gated,
		.qkv_bias = !gated,
		.out_bias = !gated,
		.mlp_bias = !gated,
		.lm_head = true,
		.gated = gated,
	};
}

static void take_attention(const lk_run_row *row, lk_model *model) {
	job_take(&model->heads, row->heads);
	if (row->heads != LK_EMPTY && row->kv_heads == LK_EMPTY && model->kv_heads == 0)
		model->kv_heads = row->heads;
	job_take(&model->kv_heads, row->kv_heads);
	job_take(&model->head_dim, row->head_dim);
	if (model->head_dim == 0 && model->heads > 0) model->head_dim = model->hidden / model->heads;
	if (row->attention == LK_EMPTY) return;
	model->attention = (lk_attention)row->attention;
	if (model->attention != LK_ATTN_MLA || model->kv_lora > 0) return;
	model->q_lora = MLA_Q;
	model->kv_lora = MLA_KV;
	model->qk_nope = MLA_NOPE;
	model->qk_rope = MLA_ROPE;
	model->v_dim = MLA_V;
}

static void take_experts(const lk_run_row *row, lk_model *model) {
	job_take(&model->experts, row->experts);
	job_take(&model->topk, row->topk);
	job_take(&model->expert_ffn, row->expert_ffn);
	job_take(&model->dense_layers, row->dense_layers);
	if (row->shared_experts != LK_EMPTY && model->expert_ffn <= (1 << 24) / 1024)
		model->shared_ffn = row->shared_experts * model->expert_ffn;
}

/* *whole: whether the row and the catalogue together fully describe the trained network. */
static lk_status take_network(const lk_run_row *row, const char *name, lk_model *model, bool *whole,
                              lk_error *err) {
	bool found = false;
	if (*name) LK_TRY(lk_model_find(name, model, &found, err));
	if (!found || !agrees(model, row)) *model = plain_network(row);
	if (!*model->name) lk_copy(model->name, sizeof model->name, name);
	job_take(&model->layers, row->layers);
	job_take(&model->hidden, row->hidden);
	job_take(&model->ffn, row->ffn);
	job_take(&model->vocab, row->vocab);
	take_attention(row, model);
	take_experts(row, model);
	job_take(&model->mtp_layers, row->mtp);
	*whole = model->layers > 0 && model->hidden > 0 && model->heads > 0 &&
	         (model->ffn > 0 || model->expert_ffn > 0) && model->vocab > 0;
	return LK_OK;
}

static void job_take_layout(const lk_run_row *row, lk_job *job) {
	job_take(&job->tp, row->tp);
	job_take(&job->pp, row->pp);
	job_take(&job->vp, row->vp);
	job_take(&job->cp, row->cp);
	job_take(&job->ep, row->ep);
	job_take(&job->dp, row->dp);
	job_take(&job->mbs, row->mbs);
	job_take(&job->gbs, row->gbs);
	job_take(&job->seq, row->seq);
	/* Sequence parallelism over one rank means none. */
	if (row->seq_parallel != LK_EMPTY)
		job->sequence_parallel = row->seq_parallel && job->tp > 1 ? LK_ON : LK_OFF;
	job->split_open = true;
}

/* Set the software: the stack's defaults, then the row's columns. */
static void take_software(const lk_run_row *row, const lk_stack_defaults *defaults,
                          const lk_run *run, lk_job *job) {
	lk_copy(job->stack, sizeof job->stack, defaults->job_stack);
	lk_copy(job->profile, sizeof job->profile, run->stack);
	lk_copy(job->release, sizeof job->release, *run->release ? run->release : "0");
	job->sharding = row->sharding != LK_EMPTY ? (lk_sharding)row->sharding : defaults->sharding;
	job->recompute =
		row->recompute != LK_EMPTY ? (lk_recompute)row->recompute : defaults->recompute;
	job->attn_kernel =
		row->attn_kernel != LK_EMPTY ? (lk_attn_kernel)row->attn_kernel : defaults->attention;
	job->dtype = row->precision != LK_EMPTY ? (lk_dtype)row->precision : defaults->dtype;
	job->sharding_said = job->recompute_said = job->dtype_said = true;
	job->task = row->task != LK_EMPTY ? (lk_task)row->task : LK_TASK_PRETRAIN;
	job->model.dropout = defaults->dropout;
	job->stack_recipe = true;
	if (job->sequence_parallel != LK_ON) job->tp_overlap = LK_OFF;
	else if (row->async_tp) job->tp_overlap = LK_ON;
	job->compile = row->compile;
	if (row->rowwise && job->dtype == LK_FP8) job->fp8_recipe = LK_FP8_ROWWISE;
	if (row->engine) job->attn_library = LK_ATTN_LIBRARY_CUDNN;
	if (job->model.experts == 0) return;
	job->moe_imbalance = row->balanced ? 1 : defaults->moe_imbalance;
	if (row->by_node) {
		job->dispatcher = LK_DISPATCH_NODE;
		job->dispatcher_said = true;
	}
}

/* Size of the NVLink domain. In racks of 72 GPUs, jobs on several racks use 64 of the 72, because
 * such counts divide. */
static int domain_of(const lk_run_row *row) {
	enum { RACK = 72, RACK_USED = 64 };
	if (row->nvlink_domain == RACK && row->n_gpu > RACK) return RACK_USED;
	return row->nvlink_domain == LK_EMPTY ? 0 : row->nvlink_domain;
}

static lk_status take_cluster(lk_arena *arena, const lk_run_row *row, lk_run *run, lk_error *err) {
	const lk_device *device;
	LK_TRY(lk_device_lookup(run->gpu, "gpu", &device, err));
	double nic = row->net_gbps_per_gpu == LK_EMPTY ? 0 : row->net_gbps_per_gpu * 1e9 / 8;
	return lk_cluster_simple(arena, device, row->n_gpu, domain_of(row), nic, &run->cluster, err);
}

/* Keep a wrong input as the reason why the row is not predicted. */
static lk_status job_refuse(lk_arena *arena, lk_run *run, lk_status status, lk_error *err) {
	char text[900];
	if (status != LK_ERR_INPUT) return status;
	run->refused = lk_arena_strdup(arena, lk_error_text(err, text, sizeof text));
	return run->refused ? LK_OK : lk_oom(err);
}

lk_status lk_run_build(lk_arena *arena, const lk_run_row *row, lk_run *run, lk_error *err) {
	lk_job *job = &run->job;
	job_take(&job->gpus, row->n_gpu);
	if (row->n_gpu == LK_EMPTY || !*run->gpu) {
		run->refused = "the row does not state the GPU or how many";
		return LK_OK;
	}
	if (row->gbs == LK_EMPTY && (row->mbs == LK_EMPTY || row->pp > 1)) {
		run->refused = "the row does not state the batch";
		return LK_OK;
	}
	bool whole;
	LK_TRY(take_network(row, run->model, &job->model, &whole, err));
	if (!whole) {
		run->refused = "the row lacks sizes of the network, and no known network has its name";
		return LK_OK;
	}
	lk_status status = take_cluster(arena, row, run, err);
	if (status != LK_OK) return job_refuse(arena, run, status, err);
	job_take_layout(row, job);
	take_software(row, lk_stack_defaults_of(run->stack), run, job);
	status = lk_job_complete(job, &run->cluster, err);
	return job_refuse(arena, run, status, err);
}
