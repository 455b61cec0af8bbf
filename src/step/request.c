/* request.c: read a request: launch line, model, cluster, then the options on top, then complete
 * the whole; and express a launch line as the equivalent options. */
#include "base/arena.h"
#include "step/step.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/noun.h"
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
static const char *const fp8_recipes[] = {"delayed", "tensorwise", "blockwise", NULL};

bool lk_request_launched(const lk_predict_request *request) {
	return request->script || request->config || request->launch_count > 0;
}

/* --var sets variables that a file reads; a name that nothing reads is a typo. */
static lk_status check_vars_read(const char *vars, const char *file, uint64_t read, lk_error *err) {
	int at = 0;
	for (const char *line = vars; line && *line && at < 64; at++) {
		size_t length = strcspn(line, "=\n");
		if (!(read >> at & 1)) {
			lk_fail(err, LK_ERR_INPUT, "--var", "%.*s has no effect: %.100s reads no such variable",
			        (int)(length > 60 ? 60 : length), line, file);
			return lk_hint(err, "check the name, or leave it out");
		}
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return LK_OK;
}

static lk_status read_launch(lk_arena *arena, const lk_predict_request *request, lk_asked *out,
                             int *gpus, lk_error *err) {
	lk_launch launch = {.job = &out->job};
	const char *file = request->config ? request->config : request->script;
	uint64_t vars_read = 0;
	lk_launch_given given = {.sets = request->sets, .vars = request->vars, .vars_read = &vars_read};
	if (request->config && request->script)
		return lk_fail(err, LK_ERR_INPUT, "--script",
		               "a script and another file of the job are mutually exclusive");
	if (!file && (request->sets || request->vars)) {
		lk_fail(err, LK_ERR_INPUT, request->sets ? "--set" : "--var",
		        "there is no file to fill in");
		return lk_hint(err, "name the file of the job as well");
	}
	if (file) {
		given.args = request->launch;
		given.arg_count = request->launch_count;
	}
	if (request->script) LK_TRY(lk_launch_script(arena, request->script, &given, &launch, err));
	else if (request->config) LK_TRY(lk_launch_file(arena, request->config, &given, &launch, err));
	else if (request->launch_count > 0)
		LK_TRY(lk_launch_read(arena, request->launch_count, request->launch, "launch line", &launch,
		                      err));
	if (file) LK_TRY(check_vars_read(request->vars, file, vars_read, err));
	if (launch.job) out->job = *launch.job;
	launch.job = &out->job;
	if (request->deepspeed) LK_TRY(lk_deepspeed_read(arena, request->deepspeed, &launch, err));
	if (launch.job && launch.job != &out->job) out->job = *launch.job;
	*gpus = launch.gpus;
	launch.job = NULL;
	out->launch = launch;
	return LK_OK;
}

/* "Qwen/Qwen3-8B" is a repository id, and "hf.co/Qwen/Qwen3-8B" its page, unless a file or folder
 * has this name. */
static bool request_looks_like_path(const char *name) {
	if (strcmp(name, ".") == 0) return true;
	if (lk_id_form(name)) return access(name, F_OK) == 0;
	return strchr(name, '/') || lk_ends_in(name, ".json");
}

/* Fields in which networks of different shape differ. */
static const struct {
	const char *name;
	size_t offset;
} shape_numbers[] = {{"layers", offsetof(lk_model, layers)},
                     {"hidden", offsetof(lk_model, hidden)},
                     {"heads", offsetof(lk_model, heads)},
                     {"ffn", offsetof(lk_model, ffn)},
                     {"experts", offsetof(lk_model, experts)}};

/* The first field in which two networks differ; -1: none. */
static int shape_difference(const lk_model *a, const lk_model *b, int *one, int *other) {
	for (int i = 0; i < (int)(sizeof shape_numbers / sizeof *shape_numbers); i++) {
		*one = *(const int *)((const char *)a + shape_numbers[i].offset);
		*other = *(const int *)((const char *)b + shape_numbers[i].offset);
		if (*one != *other) return i;
	}
	return -1;
}

static void add_warning(char warning[LK_MODEL_WARNING], const char *text) {
	size_t used = strlen(warning);
	snprintf(warning + used, LK_MODEL_WARNING - used, "%s%s", used ? "; " : "", text);
}

static lk_status warn_taken(const char *name, char warning[LK_MODEL_WARNING], lk_error *err) {
	char reason[LK_MODEL_REASON], shown[64], text[LK_MODEL_REASON + 128];
	LK_TRY(lk_model_taken(name, reason, err));
	if (!*reason) return LK_OK;
	snprintf(text, sizeof text, "%s: %s", lk_escape(name, shown, sizeof shown), reason);
	add_warning(warning, text);
	return LK_OK;
}

/* Warn if a launch line names, or states by flags, another network than --model: only one of them
 * is meant. */
static lk_status warn_other_network(const lk_asked *asked, const char *name, const lk_model *model,
                                    char warning[LK_MODEL_WARNING], lk_error *err) {
	const lk_model *line = &asked->job.model;
	char conflicts[LK_LAUNCH_CONFLICTS], text[LK_LAUNCH_CONFLICTS + 128], shown[48], other[48];
	lk_model named;
	bool known;
	const char *network = asked->launch.network;
	int number, is, said;
	lk_escape(name, shown, sizeof shown);
	lk_launch_conflicts(&asked->launch, model, conflicts);
	if (*conflicts) {
		snprintf(text, sizeof text, "--model %s replaces %s of the launch line", shown, conflicts);
		add_warning(warning, text);
	} else if (line->layers > 0 && (number = shape_difference(model, line, &is, &said)) >= 0) {
		snprintf(text, sizeof text,
		         "--model %s replaces the network of the launch line: %s %d, not %d", shown,
		         shape_numbers[number].name, is, said);
		add_warning(warning, text);
	}
	if (!network) return LK_OK;
	LK_TRY(lk_model_find(network, &named, &known, err));
	if (known && shape_difference(&named, model, &is, &said) < 0 &&
	    named.kv_heads == model->kv_heads && named.vocab == model->vocab)
		return LK_OK;
	snprintf(text, sizeof text, "the launch line names %s (--%s); --model %s is used",
	         lk_escape(network, other, sizeof other), asked->launch.network_flag, shown);
	add_warning(warning, text);
	return LK_OK;
}

/* For a configuration's network with an image encoder: text-only sequences drop the encoder, and so
 * does context parallelism; images of any size get the size that fits. */
static void fit_images(lk_asked *asked) {
	lk_job *job = &asked->job;
	lk_tower *tower = &job->model.tower;
	bool texts = asked->launch.samples == LK_SAMPLES_TEXTS;
	char text[128];
	if (tower->layers <= 0 || tower->apart || asked->launch.samples == LK_SAMPLES_OPEN) return;
	if (texts && tower->crossed) {
		add_warning(asked->warning, "layers of the network read images: samples have some, as its "
		                            "configuration states them");
		return;
	}
	if (texts || job->cp > 1) {
		*tower = (lk_tower){0};
		add_warning(asked->warning,
		            texts ? "texts are trained on: the encoder of images is left out"
		                  : "context parallelism: the encoder of images is left out, its tokens "
		                    "are counted as text");
		return;
	}
	if (!tower->any_size || tower->image <= LK_IMAGE_PIXELS ||
	    lk_tower_tokens(tower) * tower->images <= job->seq)
		return;
	tower->image = LK_IMAGE_PIXELS;
	snprintf(text, sizeof text, "images of %d pixels a side are assumed (--image-size)",
	         LK_IMAGE_PIXELS);
	add_warning(asked->warning, text);
}

/* The network of a request: --model, else the one that the launch line states or names. */
static lk_status read_model(const lk_predict_request *request, lk_asked *out, lk_error *err) {
	if (!request->model) {
		const char *named = out->launch.network;
		lk_error unknown = {0};
		if (request->as) return lk_fail(err, LK_ERR_INPUT, "--as", "goes with --model config.json");
		if (out->job.model.layers > 0) return LK_OK; /* the launch line states the shape */
		if (named) {
			lk_status status = lk_model_preset(named, &out->job.model, &unknown);
			if (status == LK_ERR_MEMORY) return lk_oom(err);
			if (status == LK_OK) {
				LK_TRY(warn_taken(named, out->warning, err));
				fit_images(out);
				return LK_OK;
			}
			char shown[160];
			lk_fail(err, LK_ERR_INPUT, "launch line", "--%s: %s", out->launch.network_flag,
			        lk_escape(unknown.what, shown, sizeof shown));
			return lk_hint(err, "add --model with a preset (`lockstep models` lists them) or a "
			                    "config.json");
		}
		for (int i = 0; i < out->launch.ignored_count; i++)
			if (strcmp(out->launch.ignored[i].reason, LK_LAUNCH_NO_FILE) == 0) {
				lk_fail(err, LK_ERR_INPUT, "launch line",
				        "%.100s: %s, and nothing else names the "
				        "model",
				        out->launch.ignored[i].flag, LK_LAUNCH_NO_FILE);
				return lk_hint(err, "run it in the folder where the file is, or add --model");
			}
		lk_fail(err, LK_ERR_INPUT, "--model", "no model was given");
		return lk_hint(err, "give --model with a preset (`lockstep models` lists them) or a "
		                    "config.json, or a launch line after --");
	}
	lk_model model;
	bool config = request_looks_like_path(request->model);
	if (request->as && !config) {
		lk_fail(err, LK_ERR_INPUT, "--as", "%s is not a config.json", request->model);
		return lk_hint(err, "--as says how a config.json of an unknown network is read");
	}
	if (config) LK_TRY(lk_model_read(request->model, request->as, &model, out->warning, err));
	else LK_TRY(lk_model_preset(request->model, &model, err));
	if (!config) LK_TRY(warn_taken(request->model, out->warning, err));
	LK_TRY(warn_other_network(out, request->model, &model, out->warning, err));
	if (out->launch.window_said) {
		model.window = out->job.model.window;
		model.full_every = out->job.model.full_every;
	}
	out->job.model = model;
	return LK_OK;
}

/* The product of the degrees, if a number of replicas was given instead of GPUs; 0: none was. */
static int gpus_of_degrees(const lk_predict_request *request, const lk_job *job) {
	if (request->gpus || !request->dp) return request->gpus;
	int64_t gpus = request->dp;
	const int degrees[][2] = {
		{request->tp, job->tp}, {request->pp, job->pp}, {request->cp, job->cp}};
	for (int i = 0; i < 3 && gpus <= LK_JOB_GPUS; i++) {
		if (degrees[i][0] > 0) gpus *= degrees[i][0];
		else if (degrees[i][1] > 0) gpus *= degrees[i][1];
	}
	return gpus <= LK_JOB_GPUS ? (int)gpus : LK_JOB_GPUS + 1;
}

static lk_status request_read_cluster(lk_arena *arena, const lk_predict_request *request,
                                      int launched, lk_asked *out, lk_error *err) {
	lk_predict_request counted = *request; /* "16xh100" states the number like --gpus */
	LK_TRY(lk_where_count(&counted.gpu, &counted.gpus, err));
	request = &counted;
	/* the minimum that works, if neither the file nor options state it */
	if (launched == 0 && !request->gpus && !request->cluster && !request->dp)
		launched = out->launch.gpus_assumed;
	else if (out->launch.gpus_line > 0) { /* the assumption does not hold */
		int line = out->launch.gpus_line - 1, after = out->launch.assumed_count - line - 1;
		memmove(&out->launch.assumed[line], &out->launch.assumed[line + 1],
		        (size_t)after * sizeof *out->launch.assumed);
		out->launch.assumed_count--;
		out->launch.gpus_line = 0;
	}
	lk_where where = {.cluster = request->cluster,
	                  .power_w = request->power,
	                  .gpu = request->gpu || request->cluster ? request->gpu : out->launch.device,
	                  .gpus = request->cluster || launched > 0
	                              ? request->gpus
	                              : gpus_of_degrees(request, &out->job),
	                  .ranks = launched > 0 ? (uint32_t)launched : 0};
	LK_TRY(lk_where_read(arena, &where, &out->cluster, &out->job.gpus, err));
	/* settings from an NCCL log, unless an option or the launch line states them */
	if (*out->job.nccl || !*out->cluster.nccl || out->cluster.gpus == 1) return LK_OK;
	lk_nccl_settings settings;
	lk_copy(out->job.nccl, sizeof out->job.nccl, out->cluster.nccl);
	return lk_nccl_settings_read(out->job.nccl, request->cluster ? request->cluster : "--cluster",
	                             &settings, err);
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

/* Preference optimisation: fine-tuning on pairs, which a frozen reference also reads. */
static bool takes_pairs(const lk_predict_request *request) {
	return request->dpo || (request->task && lk_same_name(request->task, "dpo"));
}

/* AdamW is Adam with decoupled decay: the same states, traffic and products. */
static lk_status take_optimizer(const char *text, int *out, lk_error *err) {
	bool decayed = text && lk_same_name(text, "adamw");
	return request_take_name(out, decayed ? "adam" : text, lk_optimizer_names, "--optimizer", err);
}

static lk_status take_task(const lk_predict_request *request, int *task, lk_error *err) {
	bool named = request->task && lk_same_name(request->task, "dpo");
	return request_take_name(task, named ? "sft" : request->task, tasks, "--task", err);
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
	LK_TRY(take_optimizer(request->optimizer, &optimizer, err));
	LK_TRY(
		request_take_name(&mode, request->muon_tp_mode, lk_muon_tp_names, "--muon-tp-mode", err));
	LK_TRY(request_take_name(&average, request->ema, averages, "--ema", err));
	job->average = (lk_average)average;
	request_take_int(&job->muon_steps, request->muon_steps);
	job->muon_tp = (lk_muon_tp)mode;
	LK_TRY(take_task(request, &task, err));
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
	return take_recompute(job, request->recompute, err);
}

static void take_attention(int kernel, lk_job *job) {
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

static lk_status request_take_layout(const lk_predict_request *request, lk_job *job,
                                     lk_error *err) {
	int kernel = job->attn_kernel, dispatcher = job->dispatcher;
	request_take_int(&job->tp, request->tp);
	request_take_int(&job->pp, request->pp);
	request_take_int(&job->vp, request->vp);
	request_take_int(&job->cp, request->cp);
	request_take_int(&job->ep, request->ep);
	request_take_int(&job->etp, request->etp);
	request_take_int(&job->dp, request->dp);
	request_take_int(&job->mbs, request->mbs);
	request_take_int(&job->gbs, request->gbs);
	request_take_int(&job->seq, request->seq);
	request_take_int(&job->shard_group, request->shard_group);
	request_take_int(&job->lora_rank, request->lora_rank);
	job->narrow_base |= request->qlora;
	job->dora |= request->dora;
	job->dpo |= takes_pairs(request);
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

static void take_switches(const lk_predict_request *request, lk_job *job) {
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
	job->offload_params |= request->offload_params;
	job->compile |= request->compile;
	take_switch(&job->eager, request->eager);
	if (request->nccl) lk_copy(job->nccl, sizeof job->nccl, request->nccl);
	const char *stack = request->stack ? request->stack : emitted_stack(request, job);
	if (stack) lk_copy(job->stack, sizeof job->stack, stack);
	if (request->release) lk_copy(job->release, sizeof job->release, request->release);
	job->stack_recipe = stack && !lk_request_launched(request) && !request->deepspeed;
}

/* Check the job's NCCL settings, from an option or the launch line. */
static lk_status request_check_nccl(const lk_predict_request *request, const lk_job *job,
                                    lk_error *err) {
	lk_nccl_settings settings;
	const char *where = request->nccl ? "--nccl" : "launch line";
	if (request->nccl && strlen(request->nccl) >= sizeof job->nccl)
		return lk_fail(err, LK_ERR_INPUT, where, "longer than %zu characters",
		               sizeof job->nccl - 1);
	return lk_nccl_settings_read(job->nccl, where, &settings, err);
}

/* Known stacks have their own defaults; any other name would silently get those of one of them. */
lk_status lk_request_check_stack(const char *stack, lk_error *err) {
	static const char *const names[] = {"megatron",           "nemo",       "fsdp",
	                                    "llm-foundry",        "torchtitan", "deepspeed",
	                                    "megatron-deepspeed", "ddp",        NULL};
	int unused = 0;
	return request_take_name(&unused, stack, names, "--stack", err);
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

static lk_status read_teacher(lk_arena *arena, const char *text, lk_job *job, lk_error *err) {
	char unused[LK_MODEL_WARNING];
	if (!text) return LK_OK;
	lk_model *teacher = LK_NEW(arena, lk_model);
	if (!teacher) return lk_oom(err);
	job->teacher = teacher;
	return request_looks_like_path(text) ? lk_model_read(text, NULL, teacher, unused, err)
	                                     : lk_model_preset(text, teacher, err);
}

/* Read all of a request except the cluster, which the options on top do not need; *launched: GPUs
 * stated by the launch line. */
static lk_status request_take_job(lk_arena *arena, const lk_predict_request *request, lk_asked *out,
                                  int *launched, lk_error *err) {
	memset(out, 0, sizeof *out);
	LK_TRY(lk_cost_ready(err));
	LK_TRY(read_launch(arena, request, out, launched, err));
	LK_TRY(read_model(request, out, err));
	LK_TRY(lk_request_take_numbers(request, &out->job, err));
	LK_TRY(request_take_layout(request, &out->job, err));
	LK_TRY(read_teacher(arena, request->teacher, &out->job, err));
	LK_TRY(lk_request_pack(request->pack, &out->job, err));
	if (takes_pairs(request)) LK_TRY(lk_job_check_reference(&out->job, err));
	const char *lacks = out->job.dpo ? lk_job_lacks_reference(&out->job) : NULL;
	if (lacks) { /* from a configuration: listed, like flags that cannot act */
		out->job.dpo = false;
		LK_TRY(lk_launch_ignore(arena, &out->launch, "dpo", lacks, LK_IGNORED_NOTABLE, err));
	}
	lacks = out->job.teacher && !request->teacher ? lk_job_lacks_teacher(&out->job) : NULL;
	if (lacks) {
		out->job.teacher = NULL;
		LK_TRY(lk_launch_ignore(arena, &out->launch, "teacher", lacks, LK_IGNORED_NOTABLE, err));
	}
	out->job.split_open |= !lk_request_launched(request);
	take_switches(request, &out->job);
	LK_TRY(request_check_nccl(request, &out->job, err));
	LK_TRY(lk_request_check_stack(request->stack, err));
	LK_TRY(lk_request_check_release(request->release, err));
	return LK_OK;
}

lk_status lk_request_take_stated(lk_arena *arena, const lk_predict_request *request, lk_asked *out,
                                 lk_error *err) {
	int launched = 0;
	LK_TRY(request_take_job(arena, request, out, &launched, err));
	return request_read_cluster(arena, request, launched, out, err);
}

lk_status lk_request_assume_batch(lk_arena *arena, const lk_predict_request *request, int *batch,
                                  const char **note, lk_error *err) {
	lk_asked asked = {0};
	int task = LK_TASK_PRETRAIN;
	*batch = 0;
	*note = NULL;
	if (request->gbs > 0 || lk_request_launched(request) || !request->model) return LK_OK;
	LK_TRY(read_model(request, &asked, err));
	LK_TRY(take_task(request, &task, err));
	asked.job.task = (lk_task)task;
	asked.job.seq = request->seq;
	*batch = lk_job_assumed_batch(&asked.job, request->gpus);
	if (*batch == 0) return LK_OK;
	asked.job.gbs = *batch;
	return lk_request_note_batch(arena, &asked.job, note, err);
}

lk_status lk_request_note_batch(lk_arena *arena, const lk_job *job, const char **note,
                                lk_error *err) {
	bool most = job->gbs <= lk_job_assumed_batch(job, 1);
	*note = lk_arena_printf(arena, "a global batch of %d %s, %s (--gbs)", job->gbs,
	                        lk_noun(job->gbs, "sequence", "sequences"),
	                        most ? "at most 4 Mi tokens a step" : "the smallest of this layout");
	return *note ? LK_OK : lk_oom(err);
}

lk_status lk_request_check(const lk_predict_request *request, lk_error *err) {
	lk_arena arena = LK_ARENA_INIT;
	lk_asked *asked = LK_NEW(&arena, lk_asked);
	int launched = 0;
	lk_status status =
		asked ? request_take_job(&arena, request, asked, &launched, err) : lk_oom(err);
	if (status == LK_OK) status = lk_request_check_network(request, &asked->job, err);
	lk_arena_free(&arena);
	return status;
}

/* ---- a launch line as options ---- */

/* The name of a value; the first of its list is the default. */
static const char *stated_name(const char *const *names, int value) {
	return value ? names[value] : NULL;
}

static const char *stated_text(const char *text) {
	return *text ? text : NULL;
}

/* Ranks that share one copy of the weights; 0: not stated, or the number of GPUs is unknown. */
static int stated_group(const lk_job *job, int gpus) {
	int64_t block = (int64_t)(job->tp > 0 ? job->tp : 1) * (job->pp > 0 ? job->pp : 1);
	if (job->shard_group > 0 || job->shard_copies <= 1) return job->shard_group;
	block *= job->shard_copies;
	return gpus % block == 0 ? (int)(gpus / block) : 0;
}

static void state_layout(const lk_job *job, lk_predict_request *out) {
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
	out->lora_rank = job->lora_rank;
	out->qlora = job->narrow_base;
	out->dora = job->dora;
	out->dpo = job->dpo;
	if (job->model.tower.layers > 0) {
		out->images = job->model.tower.images;
		if (job->model.tower.any_size) out->image_size = job->model.tower.image;
		out->freeze_vision = job->freeze_tower;
	}
	out->offload_optimizer = job->offload_optimizer;
	out->offload_activations = job->offload_activations;
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
	out->stack = stated_text(job->stack);
	out->release = stated_text(job->release);
}

lk_status lk_request_stated(lk_arena *arena, const lk_predict_request *request,
                            lk_predict_request *out, bool *network, lk_error *err) {
	lk_asked *line = LK_NEW(arena, lk_asked); /* owns texts of *out */
	lk_predict_defaults(out);
	if (!line) return lk_oom(err);
	LK_TRY(read_launch(arena, request, line, &out->gpus, err));
	const lk_job *job = &line->job;
	state_layout(job, out);
	state_software(job, out);
	if (job->cp_heads > 0 &&
	    !(out->cp_kind = lk_arena_printf(arena, "%s/%d", out->cp_kind, job->cp_heads)))
		return lk_oom(err);
	if (job->loss_chunks > 0 && !(out->loss = lk_loss_text(arena, job))) return lk_oom(err);
	if (job->recompute_said && !(out->recompute = lk_recompute_text(arena, job)))
		return lk_oom(err);
	*network = job->model.layers > 0;
	const char *named = line->launch.network;
	lk_model model;
	if (!*network && named && lk_model_preset(named, &model, NULL) == LK_OK) out->model = named;
	return LK_OK;
}
