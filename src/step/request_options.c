/* request_options.c: the options of a request as fields of its job, and the fields of a job, read
 * from a launch line, as options. */
#include "step/step.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "launch/emit/emit.h"
#include "model/layout/schedule.h"

/* Named values of options, in the order of their enumerations. */
static const char *const tasks[] = {"pretrain", "sft", "lora", NULL};
static const char *const shardings[] = {"0", "1", "2", "3"};
static const char *const cp_kinds[] = {"ring", "all-gather", "ulysses", NULL};
/* The library's own choice of a fused kernel, none, or a specific one (lk_attn_library, from cuDNN
 * on). */
static const char *const kernels[] = {"flash", "unfused", "cudnn", "fa2", "fa3", NULL};
static const char *const averages[] = {"none", "device", "host", NULL};
const char *const lk_dispatcher_names[] = {"alltoall", "allgather", "node", NULL};
static const char *const fp8_recipes[] = {"delayed", "tensorwise", "blockwise", "rowwise", NULL};

bool lk_request_launched(const lk_predict_request *request) {
	return request->script || request->config || request->launch_count > 0;
}

/* ---- options on top ---- */

static void request_take_int(int *field, int value) {
	if (value) *field = value;
}

static void take_switch(lk_switch *field, int value) {
	if (value) *field = value > 0 ? LK_ON : LK_OFF;
}

/* Read one of a NULL-ended list of names; *out is unchanged if nothing was given. */
static lk_status request_take_name(int *out, const char *text, const char *const *names,
                                   const char *where, lk_error *err) {
	LK_ASSERT(names[0]);
	if (!text) return LK_OK;
	int count = 0;
	for (; names[count]; count++)
		if (lk_same_name(text, names[count])) {
			*out = count;
			return LK_OK;
		}
	char shown[64], list[192] = "";
	lk_escape(text, shown, sizeof shown);
	for (int i = 0; i < count; i++) {
		size_t used = strlen(list);
		snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
	}
	lk_fail(err, LK_ERR_INPUT, where, "unknown name '%s'", shown);
	const char *near = lk_nearest(text, names, (size_t)count);
	return near ? lk_hint(err, "did you mean %s? one of %s", near, list)
	            : lk_hint(err, "give one of %s", list);
}

static lk_status take_recompute(lk_job *job, const char *text, lk_error *err) {
	const char *names[16] = {"none", "selective", "full"};
	for (int i = 0; lk_module_name[i]; i++) names[3 + i] = lk_module_name[i];
	LK_ASSERT(!names[sizeof names / sizeof *names - 1]); /* the list ends */
	if (!text) return LK_OK;
	int modules = lk_modules_named(text, "+");
	if (modules) {
		lk_job_select(job, modules);
		return LK_OK;
	}
	char kind[32];
	lk_copy(kind, sizeof kind, text);
	char *slash = strchr(kind, '/');
	if (slash) {
		long long count;
		*slash = '\0';
		LK_TRY(lk_parse_int(slash + 1, 1, 4096, &count, "--recompute", err));
		job->recompute_layers = (int)count;
	}
	int value = 0;
	LK_TRY(request_take_name(&value, kind, names, "--recompute", err));
	if (slash && value != LK_RECOMPUTE_FULL)
		return lk_fail(err, LK_ERR_INPUT, "--recompute",
		               "a number of layers goes with full/N only");
	if (value > LK_RECOMPUTE_FULL) {
		lk_job_select(job, 1 << (value - 3));
		return LK_OK;
	}
	job->recompute = (lk_recompute)value;
	job->recompute_said = true;
	return LK_OK;
}

static lk_status take_dtype(lk_dtype *out, const char *text, const char *where, lk_error *err) {
	if (!text || lk_dtype_parse(text, out)) return LK_OK;
	char shown[64];
	lk_fail(err, LK_ERR_INPUT, where, "unknown number format '%s'",
	        lk_escape(text, shown, sizeof shown));
	return lk_hint(err, "give one of fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4");
}

static lk_status take_schedule(lk_job *job, const char *text, lk_error *err) {
	if (!text) return LK_OK;
	const lk_schedule *schedule = lk_schedule_find(text);
	if (!schedule) {
		char shown[64];
		lk_fail(err, LK_ERR_INPUT, "--schedule", "unknown schedule '%s'",
		        lk_escape(text, shown, sizeof shown));
		return lk_hint(
			err,
			"give one of gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, v-half, v-min, dualpipe, "
			"dualpipev");
	}
	job->schedule = schedule->kind;
	job->schedule_said = true;
	return LK_OK;
}

lk_objective lk_request_objective(const lk_predict_request *request) {
	lk_objective objective;
	bool adapters;
	if (lk_objective_find(request->task, &objective, &adapters)) return objective;
	return request->dpo ? LK_OBJECTIVE_DPO : LK_OBJECTIVE_TOKENS;
}

/* AdamW is Adam with decoupled decay: the same states, traffic and products. Names of Hugging
 * Face's Trainer also say how PyTorch runs it: as lists of operations, or as one kernel. */
static lk_status take_optimizer(const char *text, lk_job *job, int *out, lk_error *err) {
	static const struct {
		const char *name;
		lk_update update;
	} named[] = {
		{"adamw", LK_UPDATE_USUAL},
		{"adamw_torch", LK_UPDATE_FOREACH},
		{"adamw_torch_fused", LK_UPDATE_FUSED},
	};
	for (size_t i = 0; text && i < sizeof named / sizeof *named; i++)
		if (lk_same_name(text, named[i].name)) {
			if (named[i].update != LK_UPDATE_USUAL) job->update = named[i].update;
			text = "adam";
			break;
		}
	return request_take_name(out, text, lk_optimizer_names, "--optimizer", err);
}

lk_status lk_request_take_task(const lk_predict_request *request, int *task, lk_error *err) {
	lk_objective objective;
	bool adapters;
	if (!lk_objective_find(request->task, &objective, &adapters))
		return request_take_name(task, request->task, tasks, "--task", err);
	*task = adapters ? LK_TASK_LORA : LK_TASK_SFT;
	return LK_OK;
}

lk_status lk_request_take_numbers(const lk_predict_request *request, lk_job *job, lk_error *err) {
	int optimizer = job->optimizer, task = job->task, recipe = job->fp8_recipe, mode = job->muon_tp,
		average = job->average;
	long long zero = job->sharding;
	LK_TRY(take_dtype(&job->dtype, request->dtype, "--dtype", err));
	job->dtype_said |= request->dtype != NULL;
	take_switch(&job->master_weights, request->master_weights);
	if (request->master_weights < 0 && !(job->dtype_said && job->dtype <= LK_TF32))
		job->state_dtype = LK_BF16; /* moments have the weights' format */
	LK_TRY(take_dtype(&job->state_dtype, request->state_dtype, "--state-dtype", err));
	job->state_said |= request->state_dtype != NULL;
	LK_TRY(take_optimizer(request->optimizer, job, &optimizer, err));
	LK_TRY(
		request_take_name(&mode, request->muon_tp_mode, lk_muon_tp_names, "--muon-tp-mode", err));
	LK_TRY(request_take_name(&average, request->ema, averages, "--ema", err));
	job->average = (lk_average)average;
	request_take_int(&job->muon_steps, request->muon_steps);
	job->muon_tp = (lk_muon_tp)mode;
	LK_TRY(lk_request_take_task(request, &task, err));
	LK_TRY(request_take_name(&recipe, request->fp8_recipe, fp8_recipes, "--fp8-recipe", err));
	job->fp8_recipe = (lk_fp8_recipe)recipe;
	job->narrow_weights |= request->fp8_params;
	job->narrow_activations |= request->fp8_activations;
	take_switch(&job->fp8_dispatch, request->fp8_dispatch);
	job->delay_weights |= request->delay_wgrad;
	request_take_int(&job->wide_first, request->bf16_layers);
	request_take_int(&job->wide_last, request->bf16_layers);
	if (request->zero) LK_TRY(lk_parse_int(request->zero, 0, 3, &zero, "--zero", err));
	job->optimizer = (lk_optimizer)optimizer;
	job->task = (lk_task)task;
	job->sharding = (lk_sharding)zero;
	job->sharding_said |= request->zero != NULL;
	/* of a file of DeepSpeed, which gathers at the end of a step below stage 3 */
	if (request->zero && job->overlap_param_gather != LK_AUTO && lk_job_uses_deepspeed(job))
		job->overlap_param_gather = zero == 3 ? LK_ON : LK_OFF;
	return take_recompute(job, request->recompute, err);
}

static void take_attention(int kernel, lk_job *job) {
	LK_ASSERT(kernel >= 0 && kernel <= LK_KERNEL_UNFUSED + LK_ATTN_LIBRARY_FLASH3);
	bool certain = kernel > LK_KERNEL_UNFUSED;
	job->attn_kernel = certain ? LK_KERNEL_FLASH : (lk_attn_kernel)kernel;
	job->attn_library =
		certain ? (lk_attn_library)(kernel - LK_KERNEL_UNFUSED) : LK_ATTN_LIBRARY_AUTO;
	job->attn_library_said = certain;
}

/* "ulysses/8": groups of 8 exchange tokens for heads, with a ring between groups. */
static lk_status take_cp_kind(lk_job *job, const char *text, lk_error *err) {
	if (!text) return LK_OK;
	char name[32];
	int kind = job->cp_kind;
	long long ranks = 0;
	lk_copy(name, sizeof name, text);
	char *slash = strchr(name, '/');
	if (slash) {
		*slash = '\0';
		LK_TRY(lk_parse_int(slash + 1, 2, 1024, &ranks, "--cp-kind", err));
	}
	LK_TRY(request_take_name(&kind, name, cp_kinds, "--cp-kind", err));
	if (slash && kind != LK_CP_ULYSSES) {
		lk_fail(err, LK_ERR_INPUT, "--cp-kind", "a number of ranks goes with ulysses/N only");
		return lk_hint(err, "use ulysses/%lld", ranks);
	}
	job->cp_kind = (lk_cp_kind)kind;
	job->cp_heads = (int)ranks;
	return LK_OK;
}

static lk_status take_lora_targets(lk_job *job, const char *text, lk_error *err) {
	char shown[64];
	int parts = text ? lk_adapters_find(text) : 0;
	if (parts) lk_adapters_name(parts, job->lora_targets, sizeof job->lora_targets);
	if (!text || parts) return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--lora-targets", "\"%s\" is unknown",
	        lk_escape(text, shown, sizeof shown));
	return lk_hint(err, "use attention, all-linear or experts, or names: q_proj+v_proj");
}

lk_status lk_request_take_layout(const lk_predict_request *request, lk_job *job, lk_error *err) {
	int kernel = job->attn_kernel, dispatcher = job->dispatcher;
	request_take_int(&job->tp, request->tp);
	request_take_int(&job->pp, request->pp);
	request_take_int(&job->vp, request->vp);
	request_take_int(&job->cp, request->cp);
	request_take_int(&job->ep, request->ep);
	request_take_int(&job->etp, request->etp);
	request_take_int(&job->dp, request->dp);
	request_take_int(&job->mbs, request->mbs);
	/* a file's accumulation follows from the batch */
	if (request->gbs > 0 || (request->mbs > 0 && job->gbs > 0)) job->microbatches = 0;
	request_take_int(&job->gbs, request->gbs);
	request_take_int(&job->seq, request->seq);
	request_take_int(&job->shard_group, request->shard_group);
	request_take_int(&job->lora_rank, request->lora_rank);
	LK_TRY(take_lora_targets(job, request->lora_targets, err));
	if (request->lora_dropout > 0) job->lora_dropout = request->lora_dropout;
	int base = job->base;
	LK_TRY(request_take_name(&base, request->base_format, lk_base_names, "--base-format", err));
	job->base = (lk_base)base;
	job->narrow_base |= request->qlora || request->base_format;
	job->dora |= request->dora;
	lk_objective objective = lk_request_objective(request);
	if (objective != LK_OBJECTIVE_TOKENS) job->objective = objective;
	request_take_int(&job->labels, request->num_labels);
	request_take_int(&job->model.tower.images, request->images);
	if (job->model.tower.any_size) request_take_int(&job->model.tower.image, request->image_size);
	job->freeze_tower |= request->freeze_vision;
	request_take_int(&job->first_stage_layers, request->first_stage_layers);
	request_take_int(&job->last_stage_layers, request->last_stage_layers);
	take_switch(&job->sequence_parallel, request->sequence_parallel);
	if (request->pipeline_layout) {
		if (strlen(request->pipeline_layout) >= sizeof job->pipeline_layout)
			return lk_fail(err, LK_ERR_INPUT, "--pipeline-layout", "longer than %zu characters",
			               sizeof job->pipeline_layout - 1);
		lk_copy(job->pipeline_layout, sizeof job->pipeline_layout, request->pipeline_layout);
	}
	LK_TRY(take_cp_kind(job, request->cp_kind, err));
	LK_TRY(lk_job_take_loss(job, request->loss, err));
	LK_TRY(request_take_name(&kernel, request->attention, kernels, "--attention", err));
	LK_TRY(request_take_name(&dispatcher, request->dispatcher, lk_dispatcher_names, "--dispatcher",
	                         err));
	if (request->attention) take_attention(kernel, job);
	job->dispatcher = (lk_dispatcher)dispatcher;
	job->dispatcher_said |= request->dispatcher != NULL;
	return take_schedule(job, request->schedule, err);
}

/* The software that a job is to be emitted for; NULL: none, or the job states its own. */
static const char *emitted_stack(const lk_predict_request *request, const lk_job *job) {
	bool open = request->emit && !lk_request_launched(request) && !request->deepspeed;
	if (open && job->model.network == LK_NET_CONV) return "ddp";
	return open ? lk_emit_stack(request->emit) : NULL;
}

void lk_request_take_switches(const lk_predict_request *request, lk_job *job) {
	take_switch(&job->overlap_grad_reduce, request->overlap_grad_reduce);
	take_switch(&job->overlap_param_gather, request->overlap_param_gather);
	take_switch(&job->overlap_p2p, request->overlap_p2p);
	take_switch(&job->tp_overlap, request->tp_overlap);
	take_switch(&job->cuda_graphs, request->cuda_graphs);
	take_switch(&job->expert_overlap, request->expert_overlap);
	take_switch(&job->fused_cross_entropy, request->fused_loss);
	request_take_int(&job->dispatch_sms, request->dispatch_sms);
	if (request->bucket_mib > 0) job->bucket_bytes = request->bucket_mib * LK_MIB;
	if (request->moe_imbalance > 0) job->moe_imbalance = request->moe_imbalance;
	request_take_int(&job->max_connections, request->max_connections);
	job->offload_optimizer |= request->offload_optimizer;
	job->offload_activations |= request->offload_activations;
	job->optimizer_in_backward |= request->optimizer_in_backward;
	job->offload_params |= request->offload_params;
	job->compile |= request->compile;
	take_switch(&job->eager, request->eager);
	if (request->pack) job->ragged = LK_OFF;
	if (request->ragged_lengths) job->ragged = LK_ON;
	take_switch(&job->ragged, request->ragged);
	if (request->nccl) lk_copy(job->nccl, sizeof job->nccl, request->nccl);
	if (request->alloc_conf) lk_copy(job->alloc_conf, sizeof job->alloc_conf, request->alloc_conf);
	const char *stack = request->stack ? request->stack : emitted_stack(request, job);
	if (stack) lk_copy(job->stack, sizeof job->stack, stack);
	if (request->release) lk_copy(job->release, sizeof job->release, request->release);
	job->stack_recipe = !lk_request_launched(request) && !request->deepspeed;
	if (!request->task && lk_job_features(job)->adapters) job->task = LK_TASK_LORA;
}

/* Check the job's NCCL settings, from an option or the launch line. */
lk_status lk_request_check_nccl(const lk_predict_request *request, const lk_job *job,
                                lk_error *err) {
	lk_nccl_settings settings;
	const char *where = request->nccl ? "--nccl" : "launch line";
	if (request->nccl && strlen(request->nccl) >= sizeof job->nccl)
		return lk_fail(err, LK_ERR_INPUT, where, "longer than %zu characters",
		               sizeof job->nccl - 1);
	return lk_nccl_settings_read(job->nccl, where, &settings, err);
}

lk_status lk_request_check_alloc(const lk_predict_request *request, const lk_job *job,
                                 lk_error *err) {
	lk_alloc_conf conf;
	const char *where = request->alloc_conf ? "--alloc-conf" : "PYTORCH_CUDA_ALLOC_CONF";
	if (request->alloc_conf && strlen(request->alloc_conf) >= sizeof job->alloc_conf)
		return lk_fail(err, LK_ERR_INPUT, where, "longer than %zu characters",
		               sizeof job->alloc_conf - 1);
	return lk_alloc_conf_read(job->alloc_conf, where, &conf, err);
}

/* Known stacks have their own defaults; any other name would silently get those of one of them. */
lk_status lk_request_check_stack(const char *stack, lk_error *err) {
	int unused = 0;
	return request_take_name(&unused, stack, lk_stack_names, "--stack", err);
}

/* "26.04", "v5.0". */
lk_status lk_request_check_release(const char *release, lk_error *err) {
	if (!release) return LK_OK;
	const char *digits = release + (*release == 'v');
	if (*digits >= '0' && *digits <= '9' && strlen(release) < sizeof((lk_job *)NULL)->release &&
	    strspn(digits, ".0123456789") == strlen(digits))
		return LK_OK;
	lk_fail(err, LK_ERR_INPUT, "--release", "\"%.40s\" is no number of a release", release);
	lk_hint(err, "give it as 26.04, or leave it out for the newest with measured runs");
	return LK_ERR_INPUT;
}

/* ---- a launch line as options ---- */

/* The name of a value; the first of its list is the default. */
static const char *stated_name(const char *const *names, int value) {
	LK_ASSERT(value >= 0);
	return value ? names[value] : NULL;
}

static const char *stated_text(const char *text) {
	return *text ? text : NULL;
}

/* Ranks that share one copy of the weights; 0: not stated, or the number of GPUs is unknown. */
static int stated_group(const lk_job *job, int gpus) {
	int64_t block = job->tp > 0 ? job->tp : 1;
	if (job->pp > 0) block *= job->pp;
	if (job->shard_group > 0 || job->shard_copies <= 1) return job->shard_group;
	block *= job->shard_copies;
	return gpus % block == 0 ? (int)(gpus / block) : 0;
}

static void state_layout(const lk_job *job, lk_predict_request *out) {
	LK_ASSERT(job->sharding >= LK_SHARD_NONE && job->sharding <= LK_SHARD_ZERO3);
	out->tp = job->tp, out->pp = job->pp, out->vp = job->vp;
	out->cp = job->cp, out->ep = job->ep, out->etp = job->etp;
	out->mbs = job->mbs, out->gbs = job->gbs, out->seq = job->seq;
	out->shard_group = stated_group(job, out->gpus);
	out->first_stage_layers = job->first_stage_layers;
	out->last_stage_layers = job->last_stage_layers;
	out->pipeline_layout = stated_text(job->pipeline_layout);
	out->sequence_parallel = job->sequence_parallel;
	out->cp_kind = stated_name(cp_kinds, job->cp_kind);
	if (job->sharding_said) out->zero = shardings[job->sharding];
	if (job->schedule_said) out->schedule = lk_schedule_get(job->schedule)->name;
}

void lk_request_state_numbers(const lk_job *job, lk_predict_request *out) {
	if (job->dtype_said) out->dtype = lk_dtype_name(job->dtype);
	if (job->state_dtype != LK_FP32) out->state_dtype = lk_dtype_name(job->state_dtype);
	out->master_weights = job->master_weights;
	if (out->master_weights == 0 && lk_job_keeps_loaded(job)) out->master_weights = -1;
	out->fp8_recipe = stated_name(fp8_recipes, job->fp8_recipe);
	out->fp8_params = job->narrow_weights;
	out->fp8_activations = job->narrow_activations;
	out->fp8_dispatch = job->fp8_dispatch;
}

static void state_software(const lk_job *job, lk_predict_request *out) {
	lk_request_state_numbers(job, out);
	out->optimizer = stated_name(lk_optimizer_names, job->optimizer);
	out->muon_tp_mode = stated_name(lk_muon_tp_names, job->muon_tp);
	out->muon_steps = job->muon_steps;
	out->task = stated_name(tasks, job->task);
	out->dpo = job->objective == LK_OBJECTIVE_DPO;
	if (job->objective != LK_OBJECTIVE_TOKENS && !out->dpo)
		out->task = job->task == LK_TASK_LORA ? lk_objective_adapted(job->objective)
		                                      : lk_objective_names[job->objective];
	out->num_labels = job->labels;
	out->lora_rank = job->lora_rank;
	out->lora_targets = stated_text(job->lora_targets);
	out->lora_dropout = job->lora_dropout;
	out->qlora = job->narrow_base && job->base == LK_BASE_NF4;
	if (job->narrow_base && !out->qlora) out->base_format = lk_base_names[job->base];
	out->dora = job->dora;
	if (job->model.tower.layers > 0) {
		out->images = job->model.tower.images;
		if (job->model.tower.any_size) out->image_size = job->model.tower.image;
		out->freeze_vision = job->freeze_tower;
	}
	out->offload_optimizer = job->offload_optimizer;
	out->offload_activations = job->offload_activations;
	out->optimizer_in_backward = job->optimizer_in_backward;
	out->offload_params = job->offload_params;
	out->ema = stated_name(averages, job->average);
	out->overlap_grad_reduce = job->overlap_grad_reduce;
	out->overlap_param_gather = job->overlap_param_gather;
	out->overlap_p2p = job->overlap_p2p;
	out->tp_overlap = job->tp_overlap;
	out->bucket_mib = job->bucket_bytes / LK_MIB;
	out->cuda_graphs = job->cuda_graphs;
	out->max_connections = job->max_connections;
	out->compile = job->compile;
	out->eager = job->eager;
	out->ragged = job->ragged;
	out->attention = job->attn_library_said && job->attn_kernel == LK_KERNEL_FLASH
	                     ? kernels[LK_KERNEL_UNFUSED + job->attn_library]
	                     : stated_name(kernels, job->attn_kernel);
	out->fused_loss = job->fused_cross_entropy;
	out->loss = stated_name(lk_loss_names, job->loss);
	out->dispatcher = stated_name(lk_dispatcher_names, job->dispatcher);
	out->expert_overlap = job->expert_overlap;
	out->moe_imbalance = job->moe_imbalance;
	out->dispatch_sms = job->dispatch_sms;
	out->delay_wgrad = job->delay_weights;
	if (job->wide_first == job->wide_last) out->bf16_layers = job->wide_first;
	out->nccl = stated_text(job->nccl);
	out->alloc_conf = stated_text(job->alloc_conf);
	out->stack = stated_text(job->stack);
	out->release = stated_text(job->release);
}

void lk_request_state(const lk_job *job, lk_predict_request *out) {
	state_layout(job, out);
	state_software(job, out);
}
