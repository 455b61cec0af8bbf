/* request.c: read a request: launch line, model, cluster, and the options on top
 * (request_options.c). */
#include "base/check.h"
#include "base/arena.h"
#include "launch/emit/emit.h"
#include "step/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/noun.h"
#include "io/stream.h"
#include "base/text.h"

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

/* `text`: what the file or line says now; NULL: what it says. */
static lk_status read_launch(lk_arena *arena, const lk_predict_request *request, const char *text,
                             lk_asked *out, int *gpus, lk_error *err) {
	lk_launch launch = {.job = &out->job};
	const char *file = request->config ? request->config : request->script;
	uint64_t vars_read = 0;
	lk_launch_given given = {
		.sets = request->sets, .vars = request->vars, .vars_read = &vars_read, .text = text};
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
	else if (text)
		LK_TRY(lk_launch_text(arena, text, strlen(text), "launch line", NULL, &launch, err));
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
	LK_ASSERT(strlen(warning) < LK_MODEL_WARNING);
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
	LK_ASSERT(launched >= 0);
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
	                  .gpu = request->gpu,
	                  .gpus = request->gpus,
	                  .ranks = launched > 0 ? (uint32_t)launched : 0};
	if (!request->gpu && !request->cluster) where.gpu = out->launch.device;
	if (!request->cluster && launched <= 0) where.gpus = gpus_of_degrees(request, &out->job);
	LK_TRY(lk_where_read(arena, &where, &out->cluster, &out->job.gpus, err));
	/* settings from an NCCL log, unless an option or the launch line states them */
	if (*out->job.nccl || !*out->cluster.nccl || out->cluster.gpus == 1) return LK_OK;
	lk_nccl_settings settings;
	lk_copy(out->job.nccl, sizeof out->job.nccl, out->cluster.nccl);
	return lk_nccl_settings_read(out->job.nccl, request->cluster ? request->cluster : "--cluster",
	                             &settings, err);
}

/* ---- the whole ---- */

static lk_status read_teacher(lk_arena *arena, const char *text, lk_job *job, lk_error *err) {
	char unused[LK_MODEL_WARNING];
	if (!text) return LK_OK;
	lk_model *teacher = LK_NEW(arena, lk_model);
	if (!teacher) return lk_oom(err);
	job->teacher = teacher;
	return request_looks_like_path(text) ? lk_model_read(text, NULL, teacher, unused, err)
	                                     : lk_model_preset(text, teacher, err);
}

/* Read what a request states below its options; *launched: GPUs stated by the launch line. */
static lk_status read_below(lk_arena *arena, const lk_predict_request *request, const char *text,
                            lk_asked *out, int *launched, lk_error *err) {
	memset(out, 0, sizeof *out);
	LK_TRY(lk_cost_ready(err));
	LK_TRY(read_launch(arena, request, text, out, launched, err));
	return read_model(request, out, err);
}

/* The options on top, which do not need the cluster. */
static lk_status lay_options(lk_arena *arena, const lk_predict_request *request, lk_asked *out,
                             lk_error *err) {
	LK_TRY(lk_request_take_numbers(request, &out->job, err));
	LK_TRY(lk_request_take_layout(request, &out->job, err));
	LK_TRY(read_teacher(arena, request->teacher, &out->job, err));
	LK_TRY(lk_request_pack(request->pack, &out->job, err));
	LK_TRY(lk_request_ragged(request->ragged_lengths, &out->job, err));
	bool refers = lk_objective_of(out->job.objective)->reference > 0;
	if (refers && lk_request_objective(request) == out->job.objective)
		LK_TRY(lk_job_check_reference(&out->job, err));
	const char *lacks = refers ? lk_job_lacks_reference(&out->job) : NULL;
	if (lacks) { /* from a configuration: listed, like flags that cannot act */
		LK_TRY(lk_launch_ignore(arena, &out->launch, lk_objective_names[out->job.objective], lacks,
		                        LK_IGNORED_NOTABLE, err));
		out->job.objective = LK_OBJECTIVE_TOKENS;
	}
	lacks = out->job.teacher && !request->teacher ? lk_job_lacks_teacher(&out->job) : NULL;
	if (lacks) {
		out->job.teacher = NULL;
		LK_TRY(lk_launch_ignore(arena, &out->launch, "teacher", lacks, LK_IGNORED_NOTABLE, err));
	}
	out->job.split_open |= !lk_request_launched(request);
	lk_request_take_switches(request, &out->job);
	LK_TRY(lk_request_check_nccl(request, &out->job, err));
	LK_TRY(lk_request_check_alloc(request, &out->job, err));
	LK_TRY(lk_request_check_stack(request->stack, err));
	return lk_request_check_release(request->release, err);
}

/* All of a request except the cluster. */
static lk_status request_take_job(lk_arena *arena, const lk_predict_request *request,
                                  const char *text, lk_asked *out, int *launched, lk_error *err) {
	LK_TRY(read_below(arena, request, text, out, launched, err));
	return lay_options(arena, request, out, err);
}

lk_status lk_request_take_stated(lk_arena *arena, const lk_predict_request *request, lk_asked *out,
                                 lk_error *err) {
	int launched = 0;
	LK_TRY(request_take_job(arena, request, NULL, out, &launched, err));
	LK_TRY(lk_request_source(arena, request, out->launch.framework, &out->source, err));
	return request_read_cluster(arena, request, launched, out, err);
}

lk_status lk_request_ground(lk_arena *arena, const lk_predict_request *request, lk_ground *out,
                            lk_error *err) {
	LK_TRY(read_below(arena, request, NULL, &out->asked, &out->launched, err));
	lk_launch *launch = &out->asked.launch;
	launch->ignored = NULL, launch->assumed = NULL; /* each reading has lists of its own */
	launch->ignored_count = launch->assumed_count = launch->gpus_line = 0;
	return lk_model_trained(arena, &out->asked.job.model, &out->trained, err);
}

lk_status lk_request_lay(lk_arena *arena, const lk_ground *ground,
                         const lk_predict_request *request, lk_asked *out, lk_error *err) {
	*out = ground->asked;
	LK_TRY(lay_options(arena, request, out, err));
	return request_read_cluster(arena, request, ground->launched, out, err);
}

/* ---- the text that states a job, for its edits */

/* What was read, without the options on top: those become changes of the text. */
static lk_status read_source(const lk_source *source, lk_arena *arena, const char *text,
                             lk_launch *launch, lk_job *raw, lk_error *err) {
	lk_asked asked;
	int gpus = 0;
	LK_TRY(request_take_job(arena, source->request, text, &asked, &gpus, err));
	*raw = asked.job;
	*launch = asked.launch;
	raw->gpus = gpus;
	return LK_OK;
}

/* A copy of the words that make up a line; NULL when memory runs out. */
static const char **source_words(lk_arena *arena, const lk_predict_request *request) {
	const char **words = LK_ARRAY(arena, const char *, (size_t)request->launch_count + 1);
	for (int i = 0; words && i < request->launch_count; i++)
		if (!(words[i] = lk_arena_strdup(arena, request->launch[i]))) return NULL;
	return words;
}

static const char *source_copy(lk_arena *arena, const char *text, bool *ok) {
	const char *copy = text ? lk_arena_strdup(arena, text) : NULL;
	*ok &= !text || copy;
	return copy;
}

/* The text of a line by its words, quoted. */
static const char *source_line(lk_arena *arena, const lk_predict_request *request) {
	const char *text = "";
	for (int i = 0; i < request->launch_count && text; i++) {
		const char *word = lk_shell_quote(arena, request->launch[i]);
		text = word ? lk_arena_printf(arena, "%s%s%s", text, i > 0 ? " " : "", word) : NULL;
	}
	return text ? lk_arena_printf(arena, "%s\n", text) : NULL;
}

lk_status lk_request_source(lk_arena *arena, const lk_predict_request *request,
                            const char *framework, const lk_source **out, lk_error *err) {
	const char *file = request->config ? request->config : request->script;
	struct stat info;
	*out = NULL;
	if (!lk_request_launched(request)) return LK_OK;
	bool here = file && stat(file, &info) == 0;       /* else it is the line itself, in quotes */
	if (here && !S_ISREG(info.st_mode)) return LK_OK; /* a pipe was read */
	lk_source *source = LK_NEW(arena, lk_source);
	lk_predict_request *kept = LK_NEW(arena, lk_predict_request);
	bool ok = source && kept;
	if (!ok) return lk_oom(err);
	lk_predict_defaults(kept);
	kept->config = source_copy(arena, request->config, &ok);
	kept->script = source_copy(arena, request->script, &ok);
	kept->deepspeed = source_copy(arena, request->deepspeed, &ok);
	kept->vars = source_copy(arena, request->vars, &ok);
	kept->model = source_copy(arena, request->model, &ok);
	kept->as = source_copy(arena, request->as, &ok);
	kept->launch = source_words(arena, request);
	kept->launch_count = request->launch_count;
	*source = (lk_source){.framework = framework,
	                      .request = kept,
	                      .read = read_source,
	                      .script = request->script != NULL};
	if (!ok || !kept->launch) return lk_oom(err);
	if (here) {
		char *text;
		size_t size;
		LK_TRY(lk_stream_slurp(file, LK_LAUNCH_BYTES, &text, &size, err));
		source->text = lk_arena_strndup(arena, text, size);
		free(text);
		source->path = lk_arena_strdup(arena, file);
		ok = source->path != NULL;
	} else source->text = file ? lk_arena_printf(arena, "%s\n", file) : source_line(arena, request);
	if (!ok || !source->text) return lk_oom(err);
	*out = source;
	return LK_OK;
}

lk_status lk_request_assume_batch(lk_arena *arena, const lk_predict_request *request, int *batch,
                                  const char **note, lk_error *err) {
	lk_asked asked = {0};
	int task = LK_TASK_PRETRAIN;
	*batch = 0;
	*note = NULL;
	if (request->gbs > 0 || lk_request_launched(request) || !request->model) return LK_OK;
	LK_TRY(read_model(request, &asked, err));
	LK_TRY(lk_request_take_task(request, &task, err));
	asked.job.task = (lk_task)task;
	asked.job.seq = request->seq;
	*batch = lk_job_assumed_batch(&asked.job, request->gpus);
	if (*batch == 0) return LK_OK;
	asked.job.gbs = *batch;
	return lk_request_note_batch(arena, &asked.job, note, err);
}

lk_status lk_request_note_batch(lk_arena *arena, const lk_job *job, const char **note,
                                lk_error *err) {
	LK_ASSERT(job->gbs > 0);
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
		asked ? request_take_job(&arena, request, NULL, asked, &launched, err) : lk_oom(err);
	if (status == LK_OK) status = lk_request_check_network(request, &asked->job, err);
	lk_arena_free(&arena);
	return status;
}

/* ---- a launch line as options ---- */

lk_status lk_request_stated(lk_arena *arena, const lk_predict_request *request,
                            lk_predict_request *out, bool *network, lk_error *err) {
	lk_asked *line = LK_NEW(arena, lk_asked); /* owns texts of *out */
	lk_predict_defaults(out);
	if (!line) return lk_oom(err);
	LK_TRY(read_launch(arena, request, NULL, line, &out->gpus, err));
	const lk_job *job = &line->job;
	lk_request_state(job, out);
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
